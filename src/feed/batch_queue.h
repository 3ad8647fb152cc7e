/* Batches that wait, the first of them first. `{0}` is an empty queue. */
#ifndef TFOS_FEED_BATCH_QUEUE_H
#define TFOS_FEED_BATCH_QUEUE_H

#include <stdlib.h>

#include "base/bytes.h"

typedef struct tfos__batch_queue {
    tfos_batch **at;
    size_t first;
    size_t count; /* behind the last */
    size_t capacity;
} tfos__batch_queue;

/* Room for one more, so that to put it cannot fail. */
static inline tfos_status tfos__batch_queue_reserve(tfos__batch_queue *queue, tfos_error *error)
{
    return tfos__array_reserve(&queue->at, queue->count, &queue->capacity, sizeof(tfos_batch *), error);
}

static inline void tfos__batch_queue_put(tfos__batch_queue *queue, tfos_batch *batch)
{
    queue->at[queue->count++] = batch;
}

/* NULL: it is empty. */
static inline tfos_batch *tfos__batch_queue_take(tfos__batch_queue *queue)
{
    if (queue->first == queue->count) {
        return NULL;
    }
    tfos_batch *batch = queue->at[queue->first++];
    if (queue->first == queue->count) {
        queue->first = queue->count = 0;
    }
    return batch;
}

static inline void tfos__batch_queue_reset(tfos__batch_queue *queue)
{
    for (tfos_batch *batch; (batch = tfos__batch_queue_take(queue)) != NULL;) {
        tfos_batch_free(batch);
    }
    free(queue->at);
    *queue = (tfos__batch_queue){0};
}

#endif
