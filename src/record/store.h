/* Store: chunks, and pools of batches, of readers that have ended. It lives as long as the last reader with it. */
#ifndef TFOS_RECORD_STORE_H
#define TFOS_RECORD_STORE_H

#include "column/batch.h"
#include "record/source.h"

tfos_store *tfos__store_retain(tfos_store *store);

/* In all that follows, a store that is NULL has nothing and keeps nothing. */

/* NULL: there is none. */
tfos__chunk *tfos__store_take_chunk(tfos_store *store);
void tfos__store_give_chunk(tfos_store *store, tfos__chunk *chunk);

/* A pool of batches of this schema, a new one if need be. */
tfos_status tfos__store_take_pool(tfos_store *store, const tfos_schema *schema, int limit, tfos__batch_pool **out,
                                  tfos_error *error);
void tfos__store_give_pool(tfos_store *store, tfos__batch_pool *pool);

#endif
