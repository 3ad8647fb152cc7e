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

/* Metadata of an Arrow field that is a feature list, so that a SequenceExample survives a trip through Arrow. */
#define TFOS__ARROW_FEATURE_LIST_KEY "tfos.feature_list"

#endif
