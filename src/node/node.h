/* The node: the process beside a Spark executor that supervises one TensorFlow process. */
#ifndef TFOS_NODE_NODE_H
#define TFOS_NODE_NODE_H

#include "tfos.h"

/* How the process of a node ends. X(NAME, exit code, sentence). */
#define TFOS__NODE_EXIT_MAP(X)                                                                                         \
    X(OK, 0, "the program finished, or was stopped by its cluster")                                                    \
    X(FAILED, 1, "the program failed; the coordinator was told how")                                                   \
    X(ORDERS, 2, "the orders on stdin were wrong, or did not come")                                                    \
    X(SYSTEM, 3, "the system: no memory, no process, no port, no file")                                                \
    X(REFUSED, 4, "the coordinator does not want this node, or has another key; stderr says why")                      \
    X(COORDINATOR_LOST, 5, "the coordinator is gone or silent; the program was killed")                                \
    X(EXECUTOR_LOST, 6, "the executor died; the program was killed")                                                   \
    X(CANCELLED, 7, "the Spark task was cancelled; the program was stopped")

typedef enum tfos__node_exit {
#define TFOS__NODE_EXIT_ENUM(name, code, text) TFOS__NODE_EXIT_##name = (code),
    TFOS__NODE_EXIT_MAP(TFOS__NODE_EXIT_ENUM)
#undef TFOS__NODE_EXIT_ENUM
} tfos__node_exit;

/* Runs a node whose orders come from stdin, until all that it started is gone. Lines for the Spark task go to stdout,
 * reasons to stderr. Call it while the process has one thread. */
tfos__node_exit tfos__node_run(void);

#endif
