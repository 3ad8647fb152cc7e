/* Batch: columns of equal length, counted references, memory that comes back to its pool. */
#include "column/batch.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct tfos_batch {
    atomic_int references;
    tfos_schema *schema;
    tfos__batch_pool *pool; /* NULL: on its own */
    tfos_batch *next;       /* in the pool's list */
    int64_t rows;
    void (*release)(void *context); /* NULL, or: when the batch is given up */
    void *release_context;
    size_t count;
    tfos__vector *columns[];
};

struct tfos__batch_pool {
    pthread_mutex_t lock;
    int references; /* the owner and every batch that is out */
    int limit;
    int idle_count;
    tfos_batch *idle;
    tfos_schema *schema;
};

static void destroy(tfos_batch *batch)
{
    if (batch->release != NULL) {
        batch->release(batch->release_context);
    }
    for (size_t i = 0; i < batch->count; i++) {
        tfos__vector_free(batch->columns[i]);
    }
    tfos_schema_free(batch->schema);
    free(batch);
}

tfos_status tfos__batch_new(const tfos_schema *schema, tfos_batch **out, tfos_error *error)
{
    size_t count = tfos_schema_field_count(schema);
    tfos_batch *batch = calloc(1, sizeof *batch + count * sizeof batch->columns[0]);
    if (batch == NULL) {
        return tfos__fail_memory(error, sizeof *batch + count * sizeof batch->columns[0]);
    }
    atomic_init(&batch->references, 1);
    batch->schema = tfos__schema_retain(schema);
    for (; batch->count < count; batch->count++) {
        const tfos_field *field = tfos_schema_field(schema, batch->count);
        tfos_status status = tfos__vector_new(field, &batch->columns[batch->count], error);
        if (status != TFOS_OK) {
            destroy(batch);
            return status;
        }
    }
    *out = batch;
    return TFOS_OK;
}

/* ---- pool ---- */

tfos_status tfos__batch_pool_new(const tfos_schema *schema, int limit, tfos__batch_pool **out, tfos_error *error)
{
    tfos__batch_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        return tfos__fail_memory(error, sizeof *pool);
    }
    pthread_mutex_init(&pool->lock, NULL);
    pool->references = 1;
    pool->limit = limit;
    pool->schema = tfos__schema_retain(schema);
    *out = pool;
    return TFOS_OK;
}

const tfos_schema *tfos__batch_pool_schema(const tfos__batch_pool *pool)
{
    return pool->schema;
}

/* Gives up one reference; the lock is held and is released. Whoever is last frees the pool. */
static void unlock_and_drop(tfos__batch_pool *pool)
{
    bool last = --pool->references == 0;
    pthread_mutex_unlock(&pool->lock);
    if (last) {
        pthread_mutex_destroy(&pool->lock);
        tfos_schema_free(pool->schema);
        free(pool);
    }
}

void tfos__batch_pool_free(tfos__batch_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->limit = 0;
    tfos_batch *idle = pool->idle;
    pool->idle = NULL;
    unlock_and_drop(pool);
    while (idle != NULL) {
        tfos_batch *next = idle->next;
        destroy(idle);
        idle = next;
    }
}

void tfos__batch_pool_trim(tfos__batch_pool *pool, size_t most_bytes)
{
    size_t bytes = 0;
    tfos_batch *rest = NULL;
    pthread_mutex_lock(&pool->lock);
    for (tfos_batch **at = &pool->idle; *at != NULL;) {
        tfos_batch *batch = *at;
        bytes += tfos_batch_bytes(batch);
        if (bytes <= most_bytes) {
            at = &batch->next;
            continue;
        }
        *at = batch->next;
        batch->next = rest;
        rest = batch;
        pool->idle_count--;
    }
    pthread_mutex_unlock(&pool->lock);
    while (rest != NULL) {
        tfos_batch *next = rest->next;
        destroy(rest);
        rest = next;
    }
}

tfos_status tfos__batch_take(tfos__batch_pool *pool, tfos_batch **out, tfos_error *error)
{
    pthread_mutex_lock(&pool->lock);
    tfos_batch *batch = pool->idle;
    if (batch != NULL) {
        pool->idle = batch->next;
        pool->idle_count--;
        pool->references++;
    }
    pthread_mutex_unlock(&pool->lock);
    if (batch != NULL) {
        for (size_t i = 0; i < batch->count; i++) {
            tfos__vector_clear(batch->columns[i]);
        }
        batch->rows = 0;
        atomic_store_explicit(&batch->references, 1, memory_order_relaxed);
        *out = batch;
        return TFOS_OK;
    }
    TFOS_TRY(tfos__batch_new(pool->schema, &batch, error));
    pthread_mutex_lock(&pool->lock);
    pool->references++;
    pthread_mutex_unlock(&pool->lock);
    batch->pool = pool;
    *out = batch;
    return TFOS_OK;
}

static void retire(tfos_batch *batch)
{
    tfos__batch_pool *pool = batch->pool;
    if (pool == NULL) {
        destroy(batch);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    bool keep = pool->idle_count < pool->limit;
    if (keep) {
        batch->next = pool->idle;
        pool->idle = batch;
        pool->idle_count++;
    }
    unlock_and_drop(pool);
    if (!keep) {
        destroy(batch);
    }
}

/* ---- public ---- */

tfos_batch *tfos_batch_retain(tfos_batch *batch)
{
    atomic_fetch_add_explicit(&batch->references, 1, memory_order_relaxed);
    return batch;
}

void tfos_batch_free(tfos_batch *batch)
{
    if (batch != NULL && atomic_fetch_sub_explicit(&batch->references, 1, memory_order_acq_rel) == 1) {
        retire(batch);
    }
}

int64_t tfos_batch_rows(const tfos_batch *batch)
{
    return batch->rows;
}

const tfos_schema *tfos_batch_schema(const tfos_batch *batch)
{
    return batch->schema;
}

const tfos_vector *tfos_batch_column(const tfos_batch *batch, size_t index)
{
    assert(index < batch->count);
    return &batch->columns[index]->view;
}

tfos__vector *tfos__batch_vector(tfos_batch *batch, size_t index)
{
    assert(index < batch->count);
    return batch->columns[index];
}

void tfos__batch_keep(tfos_batch *batch, void (*release)(void *context), void *context)
{
    assert(batch->pool == NULL && batch->release == NULL);
    batch->release = release;
    batch->release_context = context;
}

size_t tfos_batch_bytes(const tfos_batch *batch)
{
    size_t bytes = sizeof *batch;
    for (size_t i = 0; i < batch->count; i++) {
        bytes += tfos__vector_memory(batch->columns[i]);
    }
    return bytes;
}

tfos_status tfos__batch_finish(tfos_batch *batch, int64_t rows, tfos_error *error)
{
    for (size_t i = 0; i < batch->count; i++) {
        assert(batch->columns[i]->view.length == rows);
        TFOS_TRY(tfos__vector_finish(batch->columns[i], error));
    }
    batch->rows = rows;
    return TFOS_OK;
}
