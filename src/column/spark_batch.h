/* Values of Spark's ColumnarBatches, appended to the vectors of a batch. */
#ifndef TFOS_COLUMN_SPARK_BATCH_H
#define TFOS_COLUMN_SPARK_BATCH_H

#include "column/spark_value.h"

/* Whether rows `first` to `first + count` can be read from a vector: its levels are those of the column, and offsets
 * stay inside the level below. */
tfos_status tfos__spark_vector_check(const tfos__spark_column *column, const tfos_spark_vector *from, int64_t first,
                                     int64_t count, tfos_error *error);

/* How many bytes the strings and lists of these rows of a checked vector take; numbers of the rows are not counted. */
int64_t tfos__spark_vector_bytes(const tfos__spark_column *column, const tfos_spark_vector *from, int64_t first,
                                 int64_t count);

/* Appends these rows of a checked vector. `row` is the number of the first of them, for messages. After a failure the
 * vector has any number of rows. */
tfos_status tfos__spark_vector_append(const tfos__spark_column *column, const tfos_spark_vector *from, int64_t first,
                                      int64_t count, int64_t row, tfos__vector *to, tfos_error *error);

#endif
