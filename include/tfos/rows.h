/* tfos/rows.h: rows of Python objects that travel as columns, and how they are made of the columns again.
 *
 *   rows             what the note of a schema says of them: a shape, and for each column a kind.
 *   shape            VALUE   the row is one value: 5, "text", [1, 2, 3], an array   one column, "value"
 *                    TUPLE   (5, "text")                                            columns "_1", "_2", … as in Spark
 *                    LIST    [5, "text"]                                            the same
 *                    DICT    {"a": 5, "b": "text"}                                  columns "a", "b"
 *                    SPARK   Row(a=5, b="text")                                     columns "a", "b"
 *   kind             a form (value, list, tuple, array) of leaves (int, float, str, …, pickled, of NumPy).
 *
 * Errors. CORRUPT: a note says that it is of rows and is not one that this version knows.
 *
 * Ownership. What a note says belongs to its schema.
 *
 * Threads. As of schemas: any number of threads may read one that nobody changes. */
#ifndef TFOS_ROWS_H
#define TFOS_ROWS_H

#include "tfos/column.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, text in the note). */
#define TFOS_ROW_SHAPE_MAP(X)                                                                                          \
    X(NONE, "none") /* columns, of which nobody says that they were rows */                                            \
    X(VALUE, "value")                                                                                                  \
    X(TUPLE, "tuple")                                                                                                  \
    X(LIST, "list")                                                                                                    \
    X(DICT, "dict")                                                                                                    \
    X(SPARK, "Row")                 /* its __fields__ is a list, */                                                    \
    X(SPARK_TEMPLATE, "Row of Row") /* or a Row, as with Row("a", "b")(1, 2) */

#define TFOS_ROW_FORM_MAP(X)                                                                                           \
    X(VALUE, "value")                                                                                                  \
    X(LIST, "list")                                                                                                    \
    X(TUPLE, "tuple")                                                                                                  \
    X(ARRAY, "array")

/* X(name, text in the note, type of the column). */
#define TFOS_ROW_LEAF_MAP(X)                                                                                           \
    X(NONE, "none", INT64) /* every row is None, or every list is empty */                                             \
    X(INT, "int", INT64)                                                                                               \
    X(FLOAT, "float", DOUBLE)                                                                                          \
    X(BOOL, "bool", BOOL)                                                                                              \
    X(STR, "str", STRING)                                                                                              \
    X(BYTES, "bytes", BINARY)                                                                                          \
    X(PICKLE, "pickle", BINARY)                                                                                        \
    X(NUMPY, "numpy", BINARY) /* or as tfos_numpy_type says */

#define TFOS_ROW_ENUM(name, ...) TFOS_ROW_##name,
typedef enum tfos_row_shape { TFOS_ROW_SHAPE_MAP(TFOS_ROW_ENUM) } tfos_row_shape;
#undef TFOS_ROW_ENUM
#define TFOS_ROW_ENUM(name, ...) TFOS_ROW_FORM_##name,
typedef enum tfos_row_form { TFOS_ROW_FORM_MAP(TFOS_ROW_ENUM) } tfos_row_form;
#undef TFOS_ROW_ENUM
#define TFOS_ROW_ENUM(name, ...) TFOS_ROW_LEAF_##name,
typedef enum tfos_row_leaf { TFOS_ROW_LEAF_MAP(TFOS_ROW_ENUM) } tfos_row_leaf;
#undef TFOS_ROW_ENUM

/* Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_row_shape_name(tfos_row_shape shape);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_row_shape_parse(const char *text, tfos_row_shape *out, tfos_error *error);

/* Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_row_form_name(tfos_row_form form);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_row_form_parse(const char *text, tfos_row_form *out, tfos_error *error);

/* Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_row_leaf_name(tfos_row_leaf leaf);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_row_leaf_parse(const char *text, tfos_row_leaf *out, tfos_error *error);

/* A type of NumPy's numbers. */
typedef struct tfos_numpy_type {
    char code;      /* its letter: 'f' */
    tfos_type type; /* of its column; BINARY: there is none, and the bytes of the numbers travel as they are */
    int32_t bytes;
    const char *name; /* "float32" */
} tfos_numpy_type;

/* Owner: nothing changes hands.
 * Thread: any. */
TFOS_API size_t tfos_numpy_type_count(void);

/* The type at `index`, which is below the count; they lie one behind the other.
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const tfos_numpy_type *tfos_numpy_type_at(size_t index);

/* The type of a letter, or NULL.
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const tfos_numpy_type *tfos_numpy_type_find(char code);

enum { TFOS_ROW_MAX_DIMENSIONS = 8 };

typedef struct tfos_row_kind {
    tfos_row_form form;
    tfos_row_leaf leaf;
    const tfos_numpy_type *numpy;           /* of the leaf NUMPY, else NULL */
    int dimensions;                         /* of the form ARRAY … */
    int64_t shape[TFOS_ROW_MAX_DIMENSIONS]; /* … unless it is 1, when every row may have a length of its own */
} tfos_row_kind;

/* The type of the column that values of this kind make.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_type tfos_row_kind_type(const tfos_row_kind *kind);

/* Whether a row is a list of values in that column.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API bool tfos_row_kind_has_lists(const tfos_row_kind *kind);

typedef struct tfos_row_field {
    const char *name; /* of the column */
    tfos_row_kind kind;
} tfos_row_field;

typedef struct tfos_rows {
    tfos_row_shape shape;
    size_t count;
    const tfos_row_field *fields; /* in the order of a row */
} tfos_rows;

/* What the note of a schema says of the rows. A schema without a note, or with one that is of something else, has the
 * shape NONE and no fields.
 *
 * Owner: the schema, until its note changes.
 * Thread: any, while nobody changes it. */
TFOS_API tfos_status tfos_schema_rows(const tfos_schema *schema, const tfos_rows **out, tfos_error *error);

/* Makes a note of it. LIMIT beyond what a note may have.
 *
 * Owner: `rows` is copied.
 * Thread: one at a time per schema. */
TFOS_API tfos_status tfos_schema_set_rows(tfos_schema *schema, const tfos_rows *rows, tfos_error *error);

#ifdef __cplusplus
}
#endif

#endif /* TFOS_ROWS_H */
