/* Schema, as the other rooms see it: shared by reference, immutable once it is in use. */
#ifndef TFOS_COLUMN_SCHEMA_H
#define TFOS_COLUMN_SCHEMA_H

#include "tfos.h"

/* One more owner of the schema. The count is atomic: batches are freed on any thread. */
tfos_schema *tfos__schema_retain(const tfos_schema *schema);

/* The index of the field whose name is these bytes, or -1. */
int64_t tfos__schema_find(const tfos_schema *schema, const void *name, size_t bytes);

/* Bytes of one value: 4, 8, 0 for one bit, -1 for variable length. */
int tfos__type_width(tfos_type type);

/* The Arrow format string of one value. */
const char *tfos__type_format(tfos_type type);

/* "float[784]", "string", "list of int64[]": for messages and tables. Cut to fit. */
void tfos__field_describe(const tfos_field *field, char *out, size_t bytes);

/* The most rows that a batch should have: `batch_rows`, or fewer where fixed lists are long. A fixed list takes its
 * full size also where it is missing, so without this a small file could ask for any amount of memory. */
int64_t tfos__schema_rows_for(const tfos_schema *schema, int64_t batch_rows, int64_t batch_bytes);

/* Metadata of an Arrow field that is a feature list, so that a SequenceExample survives a trip through Arrow. */
#define TFOS__ARROW_FEATURE_LIST_KEY "tfos.feature_list"

/* In the order of tfos_record_kind, with a NULL behind them. */
extern const char *const tfos__record_kind_names[];

#endif
