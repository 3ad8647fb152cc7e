/* Results: what programs leave behind, on its way from their nodes to the driver, piece by piece.
 *
 * The coordinator keeps none of it. A piece for which the driver has no room is not passed on, and its node is asked
 * for it again when there is; so a thousand nodes that end at the same moment cost no memory here. Like the roster it
 * has no sockets and no clock. */
#ifndef TFOS_COORDINATOR_RESULTS_H
#define TFOS_COORDINATOR_RESULTS_H

#include "coordinator/roster.h"

/* What it wants done. Messages must be used before the function returns. */
typedef struct tfos__results_calls {
    void (*to_node)(void *context, uint32_t index, const tfos__message *message);
    void (*to_driver)(void *context, const tfos__message *message);
    bool (*has_room)(void *context); /* whether the driver has, for a piece */
    void *context;
} tfos__results_calls;

typedef struct tfos__results tfos__results;

tfos_status tfos__results_new(uint32_t nodes, const tfos__results_calls *calls, tfos__results **out, tfos_error *error);
void tfos__results_free(tfos__results *results);

/* RESULT of a node. */
void tfos__results_hear(tfos__results *results, uint32_t index, const tfos__message *message);

/* Asks for what was left out, while there is room; to be called a few times a second. */
void tfos__results_tick(tfos__results *results);

#endif
