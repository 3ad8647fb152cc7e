/* The muster: workers that want to compute together come one by one, and go when all are there. A state machine without
 * sockets or clocks, like the roster, which knows who they are.
 *
 * All nodes that train take part: the master, and the workers. Their ranks follow their index, so the master is first.
 * They may meet again, when all have parted. */
#ifndef TFOS_COORDINATOR_MUSTER_H
#define TFOS_COORDINATOR_MUSTER_H

#include "coordinator/roster.h"

typedef struct tfos__muster tfos__muster;

/* What the muster wants sent. The message must be used before the function returns. */
typedef struct tfos__muster_calls {
    void (*to_node)(void *context, uint32_t index, const tfos__message *message);
    void *context;
} tfos__muster_calls;

/* The roster must outlive it. */
tfos_status tfos__muster_new(const tfos__roster *roster, const tfos__muster_calls *calls, tfos__muster **out,
                             tfos_error *error);
void tfos__muster_free(tfos__muster *muster);

/* MEET of a node. One that has met asks again when it may have missed the answer, and gets it again. */
void tfos__muster_hear(tfos__muster *muster, uint32_t index, const tfos__message *message, uint64_t now_ms);

/* Looks at time limits, and for workers that have ended and are waited for in vain. */
void tfos__muster_tick(tfos__muster *muster, uint64_t now_ms);

#endif
