/* Arrow arrays of others to batches: what tfos_writer_write_arrow is made of. */
#ifndef TFOS_COLUMN_ARROW_IMPORT_H
#define TFOS_COLUMN_ARROW_IMPORT_H

#include "column/batch.h"
#include "tfos.h"

/* Copies `row_count` rows of a struct array, from `row_start` on, to a batch of the schema that tfos_schema_import
 * made of the same type. Lengths and offsets of the array are trusted, as the C data interface says; its shape is
 * checked. Errors name column and row of the array. */
tfos_status tfos__batch_import(const struct ArrowArray *array, const struct ArrowSchema *schema, const tfos_schema *as,
                               int64_t row_start, int64_t row_count, tfos_batch **out, tfos_error *error);

#endif
