/* Store: a few chunks and pools under a lock. What does not fit is freed: where batches are large, to fill them takes
 * so long that fresh memory does not matter. */
#include "record/store.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/status.h"

enum { CHUNKS_MOST = 16, POOLS_MOST = 2, CHUNK_BYTES_MOST = 64 << 20, POOL_BYTES_MOST = 64 << 20 };

struct tfos_store {
    pthread_mutex_t lock;
    int references;
    size_t chunk_count;
    size_t chunk_bytes;
    tfos__chunk *chunks[CHUNKS_MOST];
    size_t pool_count;
    tfos__batch_pool *pools[POOLS_MOST];
};

tfos_status tfos_store_new(tfos_store **out, tfos_error *error)
{
    tfos_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return tfos__fail_memory(error, sizeof *store);
    }
    pthread_mutex_init(&store->lock, NULL);
    store->references = 1;
    *out = store;
    return TFOS_OK;
}

tfos_store *tfos__store_retain(tfos_store *store)
{
    if (store != NULL) {
        pthread_mutex_lock(&store->lock);
        store->references++;
        pthread_mutex_unlock(&store->lock);
    }
    return store;
}

static void free_chunk(tfos__chunk *chunk)
{
    tfos__chunk_reset(chunk);
    free(chunk);
}

void tfos_store_free(tfos_store *store)
{
    if (store == NULL) {
        return;
    }
    pthread_mutex_lock(&store->lock);
    bool last = --store->references == 0;
    pthread_mutex_unlock(&store->lock);
    if (!last) {
        return;
    }
    while (store->chunk_count > 0) {
        free_chunk(store->chunks[--store->chunk_count]);
    }
    while (store->pool_count > 0) {
        tfos__batch_pool_free(store->pools[--store->pool_count]);
    }
    pthread_mutex_destroy(&store->lock);
    free(store);
}

tfos__chunk *tfos__store_take_chunk(tfos_store *store)
{
    if (store == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&store->lock);
    tfos__chunk *chunk = store->chunk_count > 0 ? store->chunks[--store->chunk_count] : NULL;
    store->chunk_bytes -= chunk != NULL ? chunk->data.capacity : 0;
    pthread_mutex_unlock(&store->lock);
    return chunk;
}

void tfos__store_give_chunk(tfos_store *store, tfos__chunk *chunk)
{
    bool kept = false;
    if (store != NULL && chunk != NULL) {
        pthread_mutex_lock(&store->lock);
        kept =
            store->chunk_count < CHUNKS_MOST && chunk->data.capacity + store->chunk_bytes <= (size_t)CHUNK_BYTES_MOST;
        if (kept) {
            store->chunk_bytes += chunk->data.capacity;
            store->chunks[store->chunk_count++] = chunk;
        }
        pthread_mutex_unlock(&store->lock);
    }
    if (!kept && chunk != NULL) {
        free_chunk(chunk);
    }
}

/* With the lock held. */
static tfos__batch_pool *find_pool(tfos_store *store, const tfos_schema *schema)
{
    for (size_t i = 0; i < store->pool_count; i++) {
        tfos__batch_pool *pool = store->pools[i];
        if (tfos_schema_equal(tfos__batch_pool_schema(pool), schema)) {
            store->pools[i] = store->pools[--store->pool_count];
            return pool;
        }
    }
    return NULL;
}

tfos_status tfos__store_take_pool(tfos_store *store, const tfos_schema *schema, int limit, tfos__batch_pool **out,
                                  tfos_error *error)
{
    tfos__batch_pool *pool = NULL;
    if (store != NULL) {
        pthread_mutex_lock(&store->lock);
        pool = find_pool(store, schema);
        pthread_mutex_unlock(&store->lock);
    }
    if (pool == NULL) {
        return tfos__batch_pool_new(schema, limit, out, error);
    }
    *out = pool;
    return TFOS_OK;
}

void tfos__store_give_pool(tfos_store *store, tfos__batch_pool *pool)
{
    bool kept = false;
    if (store != NULL && pool != NULL) {
        tfos__batch_pool_trim(pool, POOL_BYTES_MOST);
        pthread_mutex_lock(&store->lock);
        kept = store->pool_count < POOLS_MOST;
        if (kept) {
            store->pools[store->pool_count++] = pool;
        }
        pthread_mutex_unlock(&store->lock);
    }
    if (!kept) {
        tfos__batch_pool_free(pool);
    }
}
