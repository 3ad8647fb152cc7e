/* Items through several threads, in order: they are taken one after the other, worked on side by side, and finished in
 * the order in which they were taken.
 *
 *   next ──► thread: work ──┐
 *    │  ──► thread: work ──├──► finish, when it is its turn
 *    └──► …               ──┘
 *
 * A thread has one item at a time, so there are never more of them than threads. */
#ifndef TFOS_SERVICE_FLOW_H
#define TFOS_SERVICE_FLOW_H

#include "tfos.h"

typedef struct tfos__flow {
    int threads;
    tfos_status (*next)(void *context, void **item, tfos_error *error); /* one call at a time; END after the last */
    tfos_status (*work)(void *context, void *item, tfos_error *error);
    tfos_status (*finish)(void *context, void *item, tfos_error *error); /* one call at a time, in order */
    void (*free_item)(void *item);
    void *context;
} tfos__flow;

/* Until the last item is finished, or something fails: then nothing behind that is finished, and the error is that of
 * the first item, in their order, that has failed. */
tfos_status tfos__flow_run(const tfos__flow *flow, tfos_error *error);

#endif
