/* The process of a model: it loads a SavedModel and answers the rows of Spark tasks on its machine with results.
 *
 *   executor (JVM) ── orders, stdin ──► tfos model          one for each executor and model, started by the first task
 *                  ◄─ "ready", stdout ─┤
 *   task ═══ line ═══════════════════►│ a thread for each task, all on one session
 *
 * It ends when nobody has wanted anything for a while, when its executor ends, or when its stdin does. What it computes
 * with, TensorFlow, may abort: that costs the tasks that use it at that moment, and nobody else. */
#ifndef TFOS_INFERENCE_SERVER_H
#define TFOS_INFERENCE_SERVER_H

#include "tfos.h"

/* X(name, exit code, when): in the order of their numbers. */
#define TFOS__INFERENCE_EXIT_MAP(X)                                                                                    \
    X(OK, 0, "it was not needed any more, or its executor has ended")                                                  \
    X(ORDERS, 1, "the orders on stdin make no sense")                                                                  \
    X(MODEL, 2, "TensorFlow or the model could not be loaded; stdout says why")                                        \
    X(STUCK, 3, "there was no thread for a task; stderr says why")

typedef enum tfos__inference_exit {
#define TFOS__INFERENCE_EXIT_ENUM(name, code, text) TFOS__INFERENCE_EXIT_##name = (code),
    TFOS__INFERENCE_EXIT_MAP(TFOS__INFERENCE_EXIT_ENUM)
#undef TFOS__INFERENCE_EXIT_ENUM
} tfos__inference_exit;

/* Serves, until there is a reason to end. Orders are one line of JSON on stdin:
 *
 *   {"folder": the model, a local folder, "tags": "serve", "token": 64 hexadecimal digits that tasks show,
 *    "threads": for one op, "python": whose TensorFlow is used, or "", "libraries": [of ops, …],
 *    "settings": ["model.idle_ms=1000", …]}
 *
 * The answer is a line on stdout: "ready", the name of its socket and the version of TensorFlow; or "failed", the name
 * of a status, and why. The caller leaves by _exit: TensorFlow's destructors meet its
 * threads. */
tfos__inference_exit tfos__inference_run(void);

#endif
