/* Rows of Spark that are too large to be fed, told by their sizes alone, before anything is copied. */
#ifndef TFOS_COLUMN_SPARK_LIMIT_H
#define TFOS_COLUMN_SPARK_LIMIT_H

#include "column/spark_type.h"

/* The fewest bytes that column `column` can take in a batch if it takes `bytes` in an UnsafeRow, beside its slot. */
int64_t tfos__spark_row_least(const tfos__spark_column *column, int64_t bytes);

/* The most bytes that the values of one row can have in a tfos_spark_vector if they take `most` in a batch. */
int64_t tfos__spark_vector_most(const tfos__spark_column *column, int64_t most);

/* What cannot be fed. */
typedef struct tfos__large_row {
    uint64_t row;
    int64_t bytes;      /* of the row, at least */
    const char *column; /* … the largest of them */
    int64_t column_bytes;
    int64_t lane_bytes; /* all that there is room for */
} tfos__large_row;

/* LIMIT: the same words whichever way a row has come. */
tfos_status tfos__large_row_fail(const tfos__large_row *row, tfos_error *error);

/* Has rows refused that need more than so many bytes. */
void tfos__spark_rows_limit(tfos_spark_rows *rows, int64_t lane_bytes);

#endif
