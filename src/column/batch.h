/* Batch, while it is being built, and the pool that keeps the memory of batches which were given up. */
#ifndef TFOS_COLUMN_BATCH_H
#define TFOS_COLUMN_BATCH_H

#include "column/vector.h"

/* Keeps up to `limit` retired batches of one schema: their memory is already mapped and warm, and fresh pages cost more
 * than parsing. Batches hold a reference to their pool, so it may be given up before them. */
typedef struct tfos__batch_pool tfos__batch_pool;

tfos_status tfos__batch_pool_new(const tfos_schema *schema, int limit, tfos__batch_pool **out, tfos_error *error);
void tfos__batch_pool_free(tfos__batch_pool *pool);
const tfos_schema *tfos__batch_pool_schema(const tfos__batch_pool *pool);

/* Frees retired batches of which more than so many bytes are kept. */
void tfos__batch_pool_trim(tfos__batch_pool *pool, size_t most_bytes);

/* An empty batch, from the pool if it has one. */
tfos_status tfos__batch_take(tfos__batch_pool *pool, tfos_batch **out, tfos_error *error);

/* An empty batch of its own. */
tfos_status tfos__batch_new(const tfos_schema *schema, tfos_batch **out, tfos_error *error);

tfos__vector *tfos__batch_vector(tfos_batch *batch, size_t index);

/* For a batch of its own some of whose values were lent: what is called when it is given up, by whichever thread. */
void tfos__batch_keep(tfos_batch *batch, void (*release)(void *context), void *context);

/* Ends the building: every column must have `rows` rows. */
tfos_status tfos__batch_finish(tfos_batch *batch, int64_t rows, tfos_error *error);

#endif
