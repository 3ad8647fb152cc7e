/* The process of a trainer: the program of a node that trains an exported model, without Python.
 *
 *   tfos node ── payload: options, JSON ──► tfos trainer ── report, result ──► tfos node
 *             ── SIGTERM ────────────────►      │ lanes (InputMode.SPARK) · group · files
 *
 * SIGTERM makes it stop at the next tally with a checkpoint; if others, or rows, do not come for a second and the time
 * of two steps, it stops where it is. */
#ifndef TFOS_TRAINING_PROCESS_H
#define TFOS_TRAINING_PROCESS_H

#include "tfos.h"

/* X(name, exit code, when): in the order of their numbers. */
#define TFOS__TRAINING_EXIT_MAP(X)                                                                                     \
    X(OK, 0, "training has come to its end")                                                                           \
    X(FAILED, 1, "it has failed; the node has been told why")                                                          \
    X(ORDERS, 2, "this is no program of a node, or its options make no sense")                                         \
    X(STOPPED, 3, "a signal has stopped it before the end; with model_dir, there is a checkpoint")

typedef enum tfos__training_exit {
#define TFOS__TRAINING_EXIT_ENUM(name, code, text) TFOS__TRAINING_EXIT_##name = (code),
    TFOS__TRAINING_EXIT_MAP(TFOS__TRAINING_EXIT_ENUM)
#undef TFOS__TRAINING_EXIT_ENUM
} tfos__training_exit;

/* Trains, by what the environment of a node's program says: TFOS_PAYLOAD_FD has the options, TFOS_REPORT_FD and
 * TFOS_RESULT_FD take what comes of it. The caller leaves by _exit: TensorFlow's destructors meet its threads. */
tfos__training_exit tfos__training_run(void);

/* A model that has travelled with the application is named by this and its name among Spark's files. */
#define TFOS__TRAINING_SHIPPED "sparkfiles:"

#endif
