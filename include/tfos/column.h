/* tfos/column.h: rows as columns, the one kind of data that crosses borders.
 *
 *   schema, field    the columns of a data set: name, type, shape, whether a value may be missing.
 *   batch, vector    rows as columns in Arrow layout.
 *   Arrow            the structs of its C data interface, in which batches enter and leave without copies.
 *
 * Errors name the column, and the row where there is one; see tfos/base.h.
 *
 * Ownership. A schema is its maker's until a batch or a reader has been made with it; these keep what they need. A
 * batch is immutable and reference counted. What is exported to Arrow holds a reference until it is released.
 *
 * Threads. Batches, and schemas that nobody changes, may be read by any number of threads. */
#ifndef TFOS_COLUMN_H
#define TFOS_COLUMN_H

#include "tfos/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Arrow C data interface: the structs that cross language borders --------------------------------------------- */

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

#endif /* ARROW_C_DATA_INTERFACE */

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

#endif /* ARROW_C_STREAM_INTERFACE */

/* ---- Schema ------------------------------------------------------------------------------------------------------ */

/* X(name, text, Arrow format, bytes per value; 0 for one bit, -1 for variable length). */
#define TFOS_TYPE_MAP(X)                                                                                               \
    X(INT32, "int32", "i", 4)                                                                                          \
    X(INT64, "int64", "l", 8)                                                                                          \
    X(FLOAT, "float", "f", 4)                                                                                          \
    X(DOUBLE, "double", "g", 8)                                                                                        \
    X(BOOL, "bool", "b", 0)                                                                                            \
    X(STRING, "string", "u", -1)                                                                                       \
    X(BINARY, "binary", "z", -1)

typedef enum tfos_type {
#define TFOS_TYPE_ENUM(name, text, format, width) TFOS_TYPE_##name,
    TFOS_TYPE_MAP(TFOS_TYPE_ENUM)
#undef TFOS_TYPE_ENUM
} tfos_type;

typedef enum tfos_shape {
    TFOS_SHAPE_SCALAR, /* exactly one value */
    TFOS_SHAPE_FIXED,  /* a list of exactly field.length values */
    TFOS_SHAPE_RAGGED, /* a list of any number of values */
} tfos_shape;

/* What a record of a file is. AUTO is a request only; a schema has one of the others. */
typedef enum tfos_record_kind {
    TFOS_RECORD_AUTO,
    TFOS_RECORD_EXAMPLE,  /* tf.train.Example */
    TFOS_RECORD_SEQUENCE, /* tf.train.SequenceExample */
    TFOS_RECORD_BYTES,    /* opaque bytes: one binary column named "record" */
} tfos_record_kind;

typedef struct tfos_field {
    const char *name;
    tfos_type type;
    tfos_shape shape;
    int32_t length;    /* values of a row when shape is FIXED, else 0 */
    bool nullable;     /* the feature may be missing from a record */
    bool feature_list; /* SequenceExample: a list, of any length, of values of this shape */
} tfos_field;

typedef struct tfos_schema tfos_schema;

enum {
    TFOS_SCHEMA_MAX_FIELDS = 65536,
    TFOS_SCHEMA_MAX_NAME_BYTES = 4096,
    TFOS_SCHEMA_MAX_LENGTH = 1 << 28, /* of a FIXED list */
};

/* An empty schema for records of `kind` (EXAMPLE or SEQUENCE), or the one schema of kind BYTES.
 *
 * Owner: the caller frees *out with tfos_schema_free.
 * Thread: any. */
TFOS_API tfos_status tfos_schema_new(tfos_record_kind kind, tfos_schema **out, tfos_error *error);

/* Appends a copy of `field`. INVALID for an empty, repeated or over-long name, a length that does not go with the
 * shape, or a feature list in a schema that is not SEQUENCE.
 *
 * Owner: `field` stays the caller's.
 * Thread: one at a time per schema. */
TFOS_API tfos_status tfos_schema_add(tfos_schema *schema, const tfos_field *field, tfos_error *error);

/* Owner: frees `schema`. Readers and batches made with it keep what they need.
 * Thread: one at a time per schema. */
TFOS_API void tfos_schema_free(tfos_schema *schema);

/* Owner: nothing changes hands.
 * Thread: any, while nobody adds fields. */
TFOS_API tfos_record_kind tfos_schema_kind(const tfos_schema *schema);

/* Owner: nothing changes hands.
 * Thread: any, while nobody adds fields. */
TFOS_API size_t tfos_schema_field_count(const tfos_schema *schema);

/* The field at `index`, which is below the count.
 *
 * Owner: the schema.
 * Thread: any, while nobody adds fields. */
TFOS_API const tfos_field *tfos_schema_field(const tfos_schema *schema, size_t index);

/* The index of the field called `name`, or -1.
 *
 * Owner: nothing changes hands.
 * Thread: any, while nobody adds fields. */
TFOS_API int64_t tfos_schema_find(const tfos_schema *schema, const char *name);

/* A new schema with the named columns in the named order. INVALID names the column that is not there and those that
 * are.
 *
 * Owner: the caller frees *out with tfos_schema_free.
 * Thread: any, while nobody adds fields. */
TFOS_API tfos_status tfos_schema_select(const tfos_schema *schema, const char *const *names, size_t count,
                                        tfos_schema **out, tfos_error *error);

/* Parses the JSON form (docs/records.md). Unknown keys are errors: a misspelt "nullable" must not pass unseen.
 *
 * Owner: the caller frees *out with tfos_schema_free.
 * Thread: any. */
TFOS_API tfos_status tfos_schema_from_json(const char *text, size_t bytes, tfos_schema **out, tfos_error *error);

/* The JSON form, NUL-terminated, one field a line.
 *
 * Owner: the caller frees *out with tfos_string_free.
 * Thread: any, while nobody adds fields. */
TFOS_API tfos_status tfos_schema_to_json(const tfos_schema *schema, char **out, tfos_error *error);

/* A text that travels with a schema and means nothing to the core: how a shell makes its own values of the columns. It
 * is no part of the JSON form unless there is one. LIMIT beyond a MiB.
 *
 * Owner: the note is copied; NULL removes it.
 * Thread: one at a time per schema. */
TFOS_API tfos_status tfos_schema_set_note(tfos_schema *schema, const char *note, tfos_error *error);

/* NULL when there is none.
 *
 * Owner: the schema.
 * Thread: any, while nobody sets it. */
TFOS_API const char *tfos_schema_note(const tfos_schema *schema);

/* Whether both say the same: kind of record, fields in their order, note.
 *
 * Owner: nothing changes hands.
 * Thread: any, while nobody changes them. */
TFOS_API bool tfos_schema_equal(const tfos_schema *left, const tfos_schema *right);

/* A number that equal schemas share, in every process and on every machine. Different ones rarely do: ask
 * tfos_schema_equal.
 *
 * Owner: nothing changes hands.
 * Thread: any, while nobody changes it. */
TFOS_API uint64_t tfos_schema_fingerprint(const tfos_schema *schema);

/* Exports the schema as an Arrow struct type, for consumers that want the type before the first batch.
 *
 * Owner: the caller calls out->release.
 * Thread: any, while nobody adds fields. */
TFOS_API tfos_status tfos_schema_export(const tfos_schema *schema, struct ArrowSchema *out, tfos_error *error);

/* The schema that the columns of an Arrow struct type give as records of `kind`. AUTO becomes SEQUENCE if a column is a
 * list of lists, or a list that says in its metadata that it is a feature list; else EXAMPLE. BYTES takes one column of
 * strings or binaries, whatever its name. UNSUPPORTED names the column, its type and the cast that helps.
 *
 * Owner: `schema` stays the caller's; the caller frees *out with tfos_schema_free.
 * Thread: any. */
TFOS_API tfos_status tfos_schema_import(const struct ArrowSchema *schema, tfos_record_kind kind, tfos_schema **out,
                                        tfos_error *error);

/* "int64", "string", …
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_type_name(tfos_type type);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_type_parse(const char *text, tfos_type *out, tfos_error *error);

/* "scalar", "fixed" or "ragged".
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_shape_name(tfos_shape shape);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_shape_parse(const char *text, tfos_shape *out, tfos_error *error);

/* "auto", "example", "sequence_example" or "bytes".
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_record_kind_name(tfos_record_kind kind);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_record_kind_parse(const char *text, tfos_record_kind *out, tfos_error *error);

/* ---- Batch ------------------------------------------------------------------------------------------------------- */

typedef enum tfos_layout {
    TFOS_LAYOUT_VALUES,     /* data: `length` values of `type`; one bit each for BOOL */
    TFOS_LAYOUT_BYTES,      /* offsets: length + 1 positions in data */
    TFOS_LAYOUT_LIST,       /* offsets: length + 1 positions in child */
    TFOS_LAYOUT_FIXED_LIST, /* list_length values of child for each row */
} tfos_layout;

/* "values", "bytes", "list" or "fixed_list".
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_layout_name(tfos_layout layout);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_layout_parse(const char *text, tfos_layout *out, tfos_error *error);

/* One level of a column, as Arrow lays it out. A scalar column is one level; a list has its values in `child`, a
 * feature list has lists in its child. Buffers are aligned to 64 bytes and valid as long as the batch. */
typedef struct tfos_vector {
    tfos_layout layout;
    tfos_type type; /* of the values at the innermost level */
    int32_t list_length;
    int64_t length;
    int64_t null_count;
    const uint8_t *validity; /* bit i set: row i has a value. NULL when null_count is 0 */
    const int32_t *offsets;
    const void *data;
    const struct tfos_vector *child;
} tfos_vector;

typedef struct tfos_batch tfos_batch;

/* Owner: nothing changes hands.
 * Thread: any. */
TFOS_API int64_t tfos_batch_rows(const tfos_batch *batch);

/* Owner: the batch.
 * Thread: any. */
TFOS_API const tfos_schema *tfos_batch_schema(const tfos_batch *batch);

/* The column at `index`, in the order of the schema.
 *
 * Owner: the batch.
 * Thread: any. */
TFOS_API const tfos_vector *tfos_batch_column(const tfos_batch *batch, size_t index);

/* Bytes of memory that the batch holds.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API size_t tfos_batch_bytes(const tfos_batch *batch);

/* Owner: the caller owns one more reference, to be given up with tfos_batch_free.
 * Thread: any. */
TFOS_API tfos_batch *tfos_batch_retain(tfos_batch *batch);

/* Owner: gives up one reference; the last one frees the batch.
 * Thread: any. */
TFOS_API void tfos_batch_free(tfos_batch *batch);

/* Exports the batch without copying, as an Arrow struct array and, unless `schema` is NULL, its type.
 *
 * Owner: the caller calls array->release and schema->release; the array holds a reference to the batch.
 * Thread: any. */
TFOS_API tfos_status tfos_batch_export(tfos_batch *batch, struct ArrowArray *array, struct ArrowSchema *schema,
                                       tfos_error *error);

/* ---- Batch builder ----------------------------------------------------------------------------------------------- */

/* A batch of `rows` rows from columns that the caller has built, one for each field of the schema, in its order. What
 * is read of a vector: layout, type, list_length, length, validity (NULL: no row is missing), offsets, which begin at
 * 0, data and child; only the outermost level may have missing rows, and a missing row of bytes or of a list is empty.
 * MISMATCH when a column does not go with its field; ENCODING for a string that is no UTF-8; INVALID for offsets that
 * descend. Errors name the column.
 *
 * Owner: `columns` and their memory stay the caller's and are copied. The batch shares `schema`, which does not change
 * any more; the caller frees its own. The caller gives *out up with tfos_batch_free.
 * Thread: any. */
TFOS_API tfos_status tfos_batch_new(const tfos_schema *schema, const tfos_vector *columns, int64_t rows,
                                    tfos_batch **out, tfos_error *error);

#ifdef __cplusplus
}
#endif

#endif /* TFOS_COLUMN_H */
