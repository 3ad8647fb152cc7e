/* What a node is told when it starts: the messages TICKET and START on its stdin. */
#ifndef TFOS_NODE_ORDERS_H
#define TFOS_NODE_ORDERS_H

#include <limits.h>
#include <sys/types.h>

#include "base/tls.h"
#include "node/words.h"

typedef struct tfos__orders {
    uint8_t key[TFOS__KEY_BYTES];
    char host[257]; /* of the coordinator */
    uint16_t port;
    char cluster[65];
    char node_host[257];
    char executor[257];
    pid_t executor_pid; /* 0: not told */
    uint64_t index;
    uint64_t attempt;
    uint64_t cores;
    uint64_t flags;
    uint64_t beat_ms;  /* 0: not told */
    uint64_t lease_ms; /* 0: not told */
    bool has_gpus;     /* Spark said which GPUs this node has, be it none */
    char gpus[4097];
    char gpu_source[65];
    char work_folder[PATH_MAX];
    char *context; /* JSON */
    char *spark;   /* JSON */
    tfos__words program;
    tfos__words environment;
    tfos__words tensorboard;
    int payload; /* a sealed memfd, or -1 */
} tfos__orders;

/* Reads two frames from `file` and takes the messages apart. Settings in it are set as environment variables of this
 * process. What was read is wiped: the key stays in `out` alone. */
tfos_status tfos__orders_read(int file, int timeout_ms, tfos__orders *out, tfos_error *error);

void tfos__orders_reset(tfos__orders *orders);

/* Whether Spark feeds the program (InputMode.SPARK). */
bool tfos__orders_are_fed(const tfos__orders *orders);

#endif
