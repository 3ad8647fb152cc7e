/* tfos/spark.h: Spark's rows and column vectors as batches, and batches as Spark's rows.
 *
 *   spark rows       Spark's UnsafeRows or column vectors in, batches out.
 *   spark writer     batches in, Spark's UnsafeRows out.
 *
 * Errors name the column and the number of the row in its partition, what was expected and what was found.
 *
 * Ownership. Memory of Spark's is only read while a call lasts.
 *
 * Threads. An object belongs to one thread at a time. */
#ifndef TFOS_SPARK_H
#define TFOS_SPARK_H

#include "tfos/feed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Spark rows -------------------------------------------------------------------------------------------------- */

/* Rows of a Spark DataFrame, in the memory layout of Spark's UnsafeRow, on their way to batches. */
typedef struct tfos_spark_rows tfos_spark_rows;

/* `description` is JSON:
 *
 *   {"schema": the schema of the DataFrame, as Spark's StructType.json() gives it,
 *    "columns": {NAME: {"shape": [784], "default": 0, "cast": "float"}, …}}
 *
 * Everything in "columns" is optional. "shape": [n] for lists of n values, [null] for lists of any length; [null, n] or
 * [null, null] for lists of lists. A list whose shape is not declared is fixed if all rows of the first batch have the
 * same length. "default": a value for nulls; for lists, a value for the nulls in them or a list for null lists.
 * "cast": a type, by its name in this header or in Spark; decimals need one.
 *
 * Or, for rows that are to be written to files, {"schema": …, "records": the kind of record by its name}: then nulls
 * stay nulls, lists have any length, and decimals become float.
 *
 * Byte and short become int32, dates days since 1970, timestamps microseconds since 1970, vectors of Spark ML lists of
 * double. Lists of lists are feature lists. Structs, maps and other types are UNSUPPORTED, with the name of the column
 * and what to do.
 *
 * Owner: the caller frees *out with tfos_spark_rows_free.
 * Thread: any. */
TFOS_API tfos_status tfos_spark_rows_new(const char *description, size_t bytes, tfos_spark_rows **out,
                                         tfos_error *error);

/* The schema of the batches; before the first one is taken, lists of undeclared shape are ragged in it.
 *
 * Owner: the rows, until tfos_spark_rows_take is called for the first time.
 * Thread: one at a time per object. */
TFOS_API const tfos_schema *tfos_spark_rows_schema(const tfos_spark_rows *rows);

/* Appends the rows of a block, up to the one with which the batch is full. In a block each row has its size in front,
 * as a 64-bit number. *used is how many bytes were taken. MISMATCH names column and row: a null without a default, a
 * list of another length. CORRUPT: the block is no such thing. After a failure nothing can be appended or taken.
 *
 * Owner: `block` stays the caller's.
 * Thread: one at a time per object. */
TFOS_API tfos_status tfos_spark_rows_append(tfos_spark_rows *rows, const void *block, size_t bytes, size_t *used,
                                            tfos_error *error);

/* The rows are for this pump: those that its lanes have no room for are refused before they are copied.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per object. */
TFOS_API void tfos_spark_rows_set_pump(tfos_spark_rows *rows, const tfos_pump *pump);

/* Looks whether the row that comes next can be fed at all, before its bytes are copied. `head` is its beginning: the
 * words that say what is null, and a slot of 8 bytes for each column. LIMIT: it has no room in a lane, as far as
 * tfos_spark_rows_set_pump has told. Only where every row before it was appended.
 *
 * Owner: `head` stays the caller's.
 * Thread: one at a time per object. */
TFOS_API tfos_status tfos_spark_rows_check(const tfos_spark_rows *rows, const void *head, tfos_error *error);

/* The error for a row, the next to be appended, that has so many bytes in column `index`, more than the form allows.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per object. */
TFOS_API tfos_status tfos_spark_rows_refuse(const tfos_spark_rows *rows, size_t index, int64_t bytes,
                                            tfos_error *error);

/* X(name, text, bytes per value; -1 for variable length). What the values of a tfos_spark_vector are. */
#define TFOS_SPARK_VALUE_MAP(X)                                                                                        \
    X(BOOLEAN, "boolean", 1)                                                                                           \
    X(BYTE, "byte", 1)                                                                                                 \
    X(SHORT, "short", 2)                                                                                               \
    X(INT, "int", 4)                                                                                                   \
    X(LONG, "long", 8)                                                                                                 \
    X(FLOAT, "float", 4)                                                                                               \
    X(DOUBLE, "double", 8)                                                                                             \
    X(BYTES, "bytes", -1)

typedef enum tfos_spark_value {
#define TFOS_SPARK_VALUE_ENUM(name, text, width) TFOS_SPARK_VALUE_##name,
    TFOS_SPARK_VALUE_MAP(TFOS_SPARK_VALUE_ENUM)
#undef TFOS_SPARK_VALUE_ENUM
} tfos_spark_value;

/* "boolean", "int", …
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_spark_value_name(tfos_spark_value value);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_spark_value_parse(const char *text, tfos_spark_value *out, tfos_error *error);

/* How the values of a column lie in a tfos_spark_vector. */
typedef struct tfos_spark_form {
    tfos_spark_value value;
    int lists; /* 0: a value a row, 1: a list of them, 2: a list of lists */
    /* Of a decimal; the precision of other values is 0. As LONG it is the unscaled number; as BYTES, the bytes of that
     * number, the highest first. */
    int precision;
    int scale;
    int64_t row_bytes; /* the most that the values of one row can have and still be fed; see tfos_spark_rows_set_pump */
} tfos_spark_form;

/* The form of column `index`. False: it can only come in rows.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per object. */
TFOS_API bool tfos_spark_rows_form(const tfos_spark_rows *rows, size_t index, tfos_spark_form *out);

/* A column of many rows, or what is in its lists. */
typedef struct tfos_spark_vector {
    int64_t length;         /* values or lists */
    const void *values;     /* numbers, or the bytes of all values; NULL for lists */
    const int32_t *offsets; /* where bytes or lists begin, and where the last one ends; NULL for numbers */
    const uint8_t *nulls;   /* a byte for each value or list, not 0 where it is null; NULL: none is */
    const struct tfos_spark_vector *child; /* what is in the lists, or NULL */
} tfos_spark_vector;

/* Appends rows `first` to `first + count` of vectors, one for each column, up to the one with which the batch is full.
 * *used is how many rows were taken. It is all the same to the batch whether a row comes this way or in a block; fails
 * as tfos_spark_rows_append does.
 *
 * Owner: `columns` and what they point to stay the caller's.
 * Thread: one at a time per object. */
TFOS_API tfos_status tfos_spark_rows_append_columns(tfos_spark_rows *rows, const tfos_spark_vector *columns,
                                                    int64_t first, int64_t count, int64_t *used, tfos_error *error);

/* The next `count` rows of the partition are not appended; for the row numbers in messages. Only where no row waits to
 * be taken.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per object. */
TFOS_API void tfos_spark_rows_skip(tfos_spark_rows *rows, int64_t count);

/* How many rows were appended and not taken.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per object. */
TFOS_API int64_t tfos_spark_rows_count(const tfos_spark_rows *rows);

/* Whether they are enough for a batch: nothing more is appended before they are taken.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per object. */
TFOS_API bool tfos_spark_rows_full(const tfos_spark_rows *rows);

/* The rows that were appended; *out is NULL when there are none.
 *
 * Owner: the caller gives *out up with tfos_batch_free. It may outlive the rows.
 * Thread: one at a time per object. */
TFOS_API tfos_status tfos_spark_rows_take(tfos_spark_rows *rows, tfos_batch **out, tfos_error *error);

/* Owner: frees `rows`.
 * Thread: one at a time per object. */
TFOS_API void tfos_spark_rows_free(tfos_spark_rows *rows);

/* ---- Spark writer ------------------------------------------------------------------------------------------------ */

/* Batches on their way to Spark, as rows in the memory layout of Spark's UnsafeRow. */
typedef struct tfos_spark_writer tfos_spark_writer;

/* `schema` is that of the rows, as Spark's StructType.json() gives it, of boolean, byte, short, integer, long, float,
 * double, string, binary, date, timestamp, arrays of these and arrays of such arrays; other types are UNSUPPORTED, with
 * the name of the column.
 *
 * Owner: the caller frees *out with tfos_spark_writer_free.
 * Thread: any. */
TFOS_API tfos_status tfos_spark_writer_new(const char *schema, size_t bytes, tfos_spark_writer **out,
                                           tfos_error *error);

/* The rows of a batch: a block in which each row has its size in front, as a 64-bit number. Columns are found by name;
 * those of rows of Python objects by position if the rows were tuples or lists, and a row that was one value is the
 * only column. Integers go to every type of numbers, as long as they fit; floats to float and double; bytes to string
 * if they are UTF-8; a list of exactly one value to a scalar. Everything else is MISMATCH, RANGE or ENCODING, with
 * column and row, what was expected and what was found. `first` is the number of the first row, for messages.
 *
 * Owner: *block is the writer's, until its next call.
 * Thread: one at a time per object. */
TFOS_API tfos_status tfos_spark_writer_write(tfos_spark_writer *writer, const tfos_batch *batch, int64_t first,
                                             const void **block, size_t *bytes, tfos_error *error);

/* Owner: frees `writer`.
 * Thread: one at a time per object. */
TFOS_API void tfos_spark_writer_free(tfos_spark_writer *writer);

/* The schema with which columns of Spark's are read from records of a kind: each may be missing, lists have any length,
 * decimals are float. `schema` is as Spark's StructType.json() gives it. AUTO is SEQUENCE if a column is an array of
 * arrays, else EXAMPLE; of BYTES there is one column, of binary or string. UNSUPPORTED names the column and what to do.
 *
 * Owner: the caller frees *out with tfos_schema_free.
 * Thread: any. */
TFOS_API tfos_status tfos_schema_from_spark(const char *schema, size_t bytes, tfos_record_kind record,
                                            tfos_schema **out, tfos_error *error);

/* The schema that rows of such batches would have in Spark, in its JSON form. MISMATCH for a column of objects that
 * only Python can read, or without any value.
 *
 * Owner: the caller frees *out with tfos_string_free.
 * Thread: any. */
TFOS_API tfos_status tfos_schema_to_spark(const tfos_schema *schema, char **out, tfos_error *error);

#ifdef __cplusplus
}
#endif

#endif /* TFOS_SPARK_H */
