/* Arrow C structs of others to schemas and batches: what tfos_writer_arrow is made of. */
#ifndef TFOS_COLUMN_ARROW_IMPORT_H
#define TFOS_COLUMN_ARROW_IMPORT_H

#include "column/batch.h"
#include "tfos.h"

/* The schema that the columns of an Arrow struct type give as records of `kind`. AUTO becomes SEQUENCE if a column is a
 * list of lists or has the metadata key TFOS__ARROW_FEATURE_LIST_KEY, else EXAMPLE. BYTES takes one column of strings
 * or binaries, whatever its name. UNSUPPORTED names the column, its type and the cast that helps. */
tfos_status tfos__schema_import(const struct ArrowSchema *schema, tfos_record_kind kind, tfos_schema **out,
                                tfos_error *error);

/* Copies `row_count` rows of a struct array, from `row_start` on, to a batch of the schema that tfos__schema_import
 * made of the same type. Lengths and offsets of the array are trusted, as the C data interface says; its shape is
 * checked. Errors name column and row of the array. */
tfos_status tfos__batch_import(const struct ArrowArray *array, const struct ArrowSchema *schema, const tfos_schema *as,
                               int64_t row_start, int64_t row_count, tfos_batch **out, tfos_error *error);

#endif
