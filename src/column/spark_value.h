/* Values of Spark on their way to the vectors of a batch: what is the same whether they come in rows or in columns. */
#ifndef TFOS_COLUMN_SPARK_VALUE_H
#define TFOS_COLUMN_SPARK_VALUE_H

#include "column/spark_type.h"

/* Memory in which offsets are counted from its beginning: a row, or an array or struct inside one. */
typedef struct tfos__spark_part {
    const uint8_t *at;
    size_t bytes;
} tfos__spark_part;

/* Where numbers lie: in the same slot of many rows, or one behind the other. */
typedef struct tfos__spark_source {
    const tfos__spark_part *rows; /* NULL: one behind the other */
    size_t slot;                  /* in each row */
    const uint8_t *base;
} tfos__spark_source;

static inline bool tfos__spark_is_number(const tfos__spark_column *column)
{
    return column->kind <= TFOS__SPARK_BOOLEAN;
}

/* Appends numbers; *done is how many of them, also when one does not fit. */
tfos_status tfos__spark_numbers_append(const tfos__spark_column *column, const tfos__spark_source *from, size_t count,
                                       tfos__vector *to, size_t *done, tfos_error *error);

/* One number as a value of `type`. */
void tfos__spark_number_convert(const tfos__spark_column *column, const uint8_t *from, tfos_type type, void *to);

/* A null among the values of a list. */
tfos_status tfos__spark_null_value_append(const tfos__spark_column *column, tfos__vector *to, tfos_error *error);

/* A list that is null, or missing from a list of lists. */
tfos_status tfos__spark_null_list_append(const tfos__spark_column *column, tfos__vector *to, tfos_error *error);

/* A row that is null. */
tfos_status tfos__spark_null_append(const tfos__spark_column *column, tfos__vector *to, tfos_error *error);

/* Ends a list of `found` values, which must be the length that all of them have. */
tfos_status tfos__spark_list_end(const tfos__spark_column *column, size_t found, tfos__vector *to, tfos_error *error);

/* Puts column and row in front of a message. Returns `status`. */
tfos_status tfos__spark_fail_at(const tfos__spark_column *column, int64_t row, tfos_status status, tfos_error *error);

#endif
