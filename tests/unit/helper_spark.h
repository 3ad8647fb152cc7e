/* Rows of Spark, made byte by byte as Spark lays them out, and what becomes of them. Parts live until spark_free, so
 * tests build nested ones without freeing anything. */
#ifndef TFOS_TESTS_HELPER_SPARK_H
#define TFOS_TESTS_HELPER_SPARK_H

#include "base/bytes.h"
#include "tfos.h"

/* A row, an array, a struct inside a row, or a block of rows. */
typedef tfos__buffer part;

/* So many zero bytes. */
part *spark_part(size_t zeros);
/* A cmocka teardown. */
int spark_free(void **state);

part *spark_row(size_t fields);
part *spark_array(size_t count, size_t width);
/* An array of numbers. */
part *spark_values(size_t count, size_t width, const void *values);

/* Where the slot of a column, and an element of an array, begins. */
size_t spark_slot(size_t fields, size_t ordinal);
size_t spark_element(size_t count, size_t width, size_t index);

void spark_set_null(part *row, size_t ordinal);
void spark_put_long(part *row, size_t slot, int64_t value);
void spark_put_double(part *row, size_t slot, double value);
/* Adds bytes to the variable part, padded to a word, and says in a slot where they are. */
void spark_put_bytes(part *to, size_t slot, const void *bytes, size_t count);
void spark_put(part *to, size_t slot, const part *inner);
void spark_add_row(part *block, const part *row);

/* Rows of these fields of a Spark schema; `columns` is what is declared, or "". */
tfos_status spark_describe(const char *fields, const char *columns, tfos_spark_rows **out, tfos_error *error);
/* The same, where it must succeed. */
tfos_spark_rows *spark_rows_of(const char *fields, const char *columns);
/* Appends a block, all of which must be taken. */
void spark_append(tfos_spark_rows *rows, const part *block);
/* The rows that were appended, as JSON lines. */
void spark_expect_batch(tfos_spark_rows *rows, const char *expected);
/* A block that cannot be appended, and what the message says; frees `rows`. */
void spark_expect_failure(tfos_spark_rows *rows, const part *block, tfos_status expected, const char *const *words);

/* Rows whose appending has failed with `error`: what it says, and that nothing can be taken any more; frees `rows`. */
void spark_expect_broken(tfos_spark_rows *rows, const tfos_error *error, tfos_status expected,
                         const char *const *words);

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

#define ARRAY_OF(type) "{\"type\": \"array\", \"elementType\": " type ", \"containsNull\": true}"
#define FIELD(name, type) "{\"name\": \"" name "\", \"type\": " type ", \"nullable\": true, \"metadata\": {}}"
#define VECTOR                                                                                                         \
    "{\"type\": \"udt\", \"class\": \"org.apache.spark.ml.linalg.VectorUDT\", \"pyClass\": "                           \
    "\"pyspark.ml.linalg.VectorUDT\", \"sqlType\": {\"type\": \"struct\", \"fields\": []}}"

#define SIMPLE(name, type) FIELD(name, "\"" type "\"")

/* A column of every simple type. */
enum { SCALARS = 12 };
extern const char *const spark_scalar_fields;
part *spark_scalar_row(int64_t number, const char *text);

/* A row of one column, a list of lists of int, of these lengths. */
part *spark_lists_row(size_t count, const size_t *lengths);

/* A vector of Spark ML: sparse (0) or dense (1, without indices). */
part *spark_ml_vector(int type, int32_t size, const part *indices, const part *values);

#endif
