/* Values of Spark's UnsafeRows, appended to the vectors of a batch, a column of many rows at a time. */
#ifndef TFOS_COLUMN_SPARK_ROW_H
#define TFOS_COLUMN_SPARK_ROW_H

#include "column/spark_value.h"

/* Bytes of the words that say which of `count` values are null. */
static inline size_t tfos__spark_null_bytes(size_t count)
{
    return (count + 63) / 64 * 8;
}

/* Appends column `ordinal` of `count` rows of `fields` columns each, which are known to be as long as their null words
 * and slots. `nulls`: one of them may be null there. `first` is the number of the first row, for messages. After a
 * failure the vector has any number of rows. */
tfos_status tfos__spark_column_append(tfos__spark_column *column, size_t ordinal, size_t fields,
                                      const tfos__spark_part *rows, size_t count, bool nulls, int64_t first,
                                      tfos__vector *to, tfos_error *error);

#endif
