/* tfos.h: the one public header of tfos, TensorFlow on Spark with a native core.
 *
 * Nouns, in the order in which a program meets them:
 *
 *   status, error    every call that can fail returns a tfos_status and fills an optional tfos_error.
 *   schema, field    the columns of a data set: name, type, shape, whether a value may be missing.
 *   batch, vector    rows as columns in Arrow layout. A batch is immutable and reference counted.
 *   reader           TFRecord files in, batches out, parsed by a pool of threads.
 *   writer           batches, Arrow arrays or raw bytes in, one TFRecord file out.
 *   index            the offsets of a TFRecord file, for seeking and splitting.
 *   cluster          TensorFlow nodes on Spark executors, as the driver sees them: a coordinator process and its
 * events.
 *   feeder           a Spark task that feeds the rows of one partition to the nodes of a cluster.
 *   feed             the rows of a queue, as the program on a node takes them.
 *   spark rows       Spark's UnsafeRows or column vectors in, batches out.
 *   spark writer     batches in, Spark's UnsafeRows out.
 *
 * Errors. A function returns TFOS_OK (0), TFOS_END where it says that data may end, or an error status. The last
 * argument `error` may be NULL; otherwise it is filled on failure and untouched on success. Outputs are set only
 * on success. The library never exits, aborts or prints for a fault of its environment or its input; an argument that
 * no correct program passes trips an assert.
 *
 * Ownership. `new`/`free` pair memory, `open`/`close` pair resources of the system, `init` fills storage of the
 * caller's. If `new` or `open` fails there is nothing to free. Every `free` and `close` takes NULL. Strings returned as
 * `const char *` belong to the object that returned them and live as long as it does.
 *
 * Threads. Objects are not shared between threads unless a function says so; different objects never interfere.
 */
#ifndef TFOS_H
#define TFOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TFOS_API __attribute__((visibility("default")))
#else
#define TFOS_API
#endif

#define TFOS_VERSION "0.1.0"

/* The version of the library that is loaded, in the form of TFOS_VERSION.
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_version(void);

/* ---- Status and error ------------------------------------------------------------------------------------------ */

/* X(name, value, text). The values are part of the ABI: Java and Python constants are made from this table. */
#define TFOS_STATUS_MAP(X)                                                                                             \
    X(OK, 0, "ok")                                                                                                     \
    X(END, 1, "end of data")                                                                                           \
    X(INVALID, 2, "invalid argument")                                                                                  \
    X(NOT_FOUND, 3, "not found")                                                                                       \
    X(PERMISSION, 4, "permission denied")                                                                              \
    X(EXISTS, 5, "already exists")                                                                                     \
    X(IO, 6, "input/output error")                                                                                     \
    X(NO_SPACE, 7, "no space left")                                                                                    \
    X(NO_MEMORY, 8, "out of memory")                                                                                   \
    X(CORRUPT, 9, "corrupt data")                                                                                      \
    X(TRUNCATED, 10, "data cut short")                                                                                 \
    X(MISMATCH, 11, "data does not match the schema")                                                                  \
    X(RANGE, 12, "value out of range")                                                                                 \
    X(ENCODING, 13, "invalid text encoding")                                                                           \
    X(LIMIT, 14, "limit exceeded")                                                                                     \
    X(UNSUPPORTED, 15, "not supported")                                                                                \
    X(MISSING_LIBRARY, 16, "a system library is missing")                                                              \
    X(CANCELLED, 17, "cancelled")

typedef enum tfos_status {
#define TFOS_STATUS_ENUM(name, value, text) TFOS_##name = (value),
    TFOS_STATUS_MAP(TFOS_STATUS_ENUM)
#undef TFOS_STATUS_ENUM
} tfos_status;

enum { TFOS_ERROR_MESSAGE_BYTES = 1024 };

/* What went wrong: one or two sentences that say what was expected, what was found, where, and what to do. */
typedef struct tfos_error {
    tfos_status status;
    bool retriable; /* the same call may succeed later without any change */
    char message[TFOS_ERROR_MESSAGE_BYTES];
} tfos_error;

/* "CORRUPT" for TFOS_CORRUPT; "UNKNOWN" for a number that is no status.
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_status_name(tfos_status status);

/* "corrupt data" for TFOS_CORRUPT.
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_status_text(tfos_status status);

/* ---- Log ------------------------------------------------------------------------------------------------------- */

typedef enum tfos_log_level { TFOS_LOG_ERROR, TFOS_LOG_WARN, TFOS_LOG_INFO, TFOS_LOG_DEBUG } tfos_log_level;

typedef void (*tfos_log_function)(tfos_log_level level, const char *message, void *context);

/* Where the library's log lines go; NULL (the default) drops them. Called from any thread of the library, also from
 * several at a time, and never while the library holds a lock that a tfos call needs. When this returns, no other
 * thread is in the function that was replaced.
 *
 * Owner: the caller keeps `context` alive until the function has been replaced.
 * Thread: any. */
TFOS_API void tfos_log_set(tfos_log_function function, void *context);

/* ---- Settings -------------------------------------------------------------------------------------------------- */

/* What a user may set without naming it in a call. docs/config.md is made from this table. */
typedef struct tfos_setting {
    const char *key;         /* "records.batch_rows" */
    const char *environment; /* "TFOS_RECORDS_BATCH_ROWS" */
    const char *form;        /* NULL: a number from `least` to `most`; else what the text looks like, without default */
    int64_t fallback;        /* when nobody sets it */
    int64_t least;
    int64_t most;
    const char *text; /* what it means, in a sentence */
} tfos_setting;

/* Owner: nothing changes hands.
 * Thread: any. */
TFOS_API size_t tfos_setting_count(void);

/* The setting at `index`, which is below the count.
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const tfos_setting *tfos_setting_at(size_t index);

/* Parses a whole number that may end in KiB, MiB or GiB.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_number_parse(const char *text, int64_t *out, tfos_error *error);

/* ---- Arrow C data interface: the structs that cross language borders -------------------------------------------- */

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

/* ---- Schema ---------------------------------------------------------------------------------------------------- */

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

/* Owner: frees a string that a tfos function handed over.
 * Thread: any. */
TFOS_API void tfos_string_free(char *string);

/* Parses "int64", "string", …
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_type_parse(const char *text, tfos_type *out, tfos_error *error);

/* Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_type_name(tfos_type type);

/* Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_record_kind_name(tfos_record_kind kind);

/* ---- Batch ----------------------------------------------------------------------------------------------------- */

typedef enum tfos_layout {
    TFOS_LAYOUT_VALUES,     /* data: `length` values of `type`; one bit each for BOOL */
    TFOS_LAYOUT_BYTES,      /* offsets: length + 1 positions in data */
    TFOS_LAYOUT_LIST,       /* offsets: length + 1 positions in child */
    TFOS_LAYOUT_FIXED_LIST, /* list_length values of child for each row */
} tfos_layout;

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

/* ---- Batch builder ---------------------------------------------------------------------------------------------- */

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

/* ---- Files ----------------------------------------------------------------------------------------------------- */

typedef enum tfos_codec { TFOS_CODEC_AUTO, TFOS_CODEC_NONE, TFOS_CODEC_GZIP, TFOS_CODEC_ZLIB } tfos_codec;

/* Parses "auto", "none", "gzip" or "zlib".
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_codec_parse(const char *text, tfos_codec *out, tfos_error *error);

/* A list of files. */
typedef struct tfos_paths {
    size_t count;
    char **path;
    int64_t *bytes;      /* size of each */
    int64_t total_bytes; /* of all */
} tfos_paths;

/* Expands files, folders (their files, folder by folder, in name order) and globs (`*`, `?`, `[…]`) to files. Names
 * that begin with '_' or '.' and index files are left out of folders and globs, as Hadoop does. NOT_FOUND when an input
 * matches nothing: an empty folder is not a silent zero rows.
 *
 * Owner: the caller frees with tfos_paths_free.
 * Thread: any. */
TFOS_API tfos_status tfos_paths_expand(const char *const *inputs, size_t count, tfos_paths **out, tfos_error *error);

/* Owner: frees `paths`.
 * Thread: any. */
TFOS_API void tfos_paths_free(tfos_paths *paths);

/* ---- Reader ---------------------------------------------------------------------------------------------------- */

typedef enum tfos_on_corrupt { TFOS_ON_CORRUPT_ERROR, TFOS_ON_CORRUPT_SKIP } tfos_on_corrupt;

typedef struct tfos_read_options {
    const tfos_schema *schema;  /* NULL: inferred first, from infer_records records */
    const char *const *columns; /* NULL: all; else these, in this order; the rest is skipped without decoding */
    size_t column_count;
    tfos_record_kind record; /* when the schema is NULL */
    tfos_codec codec;
    tfos_on_corrupt on_corrupt;
    int64_t batch_rows;    /* most rows of a batch; 0: the setting records.batch_rows */
    int64_t batch_bytes;   /* a batch ends once its records reach this size; 0: the setting records.batch_bytes */
    int64_t infer_records; /* 0: infer from every record */
    int32_t threads;       /* 0: work in the calling thread; -1: the setting records.threads, by default every core */
    bool ordered;          /* rows come in file order; false: as they are ready */
    int64_t range_start;   /* only records that start in [range_start, range_end) of each file; uncompressed files */
    int64_t range_end;     /* -1: to the end */
    /* NULL, or: asked about ten times a second by the thread that waits in a call; true ends the call, and the reader,
     * with CANCELLED. For programs that must look at signals themselves. */
    bool (*interrupted)(void *context);
    void *interrupted_context;
} tfos_read_options;

/* Fills in the defaults: everything inferred, errors on corruption, ordered.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_read_options_init(tfos_read_options *options);

typedef struct tfos_progress {
    int64_t total_bytes; /* size of all files, as stored */
    int64_t done_bytes;
    int64_t records;
    int64_t skipped_records; /* with on_corrupt skip: at least this many records */
    int64_t skipped_bytes;   /* … in this many bytes */
    int64_t memory_bytes;    /* most memory that batches and buffers held at one time */
} tfos_progress;

typedef struct tfos_reader tfos_reader;

/* Opens files for reading. Everything in `options` is copied; NULL stands for the defaults.
 *
 * Owner: the caller closes *out with tfos_reader_close. `paths` stays the caller's and is copied.
 * Thread: any. */
TFOS_API tfos_status tfos_reader_open(const tfos_paths *paths, const tfos_read_options *options, tfos_reader **out,
                                      tfos_error *error);

/* The schema of the batches to come.
 *
 * Owner: the reader.
 * Thread: any. */
TFOS_API const tfos_schema *tfos_reader_schema(const tfos_reader *reader);

/* The next batch, which has at least one row; TFOS_END after the last. Where batches begin and end does not depend on
 * the number of threads. After an error every further call returns the same error.
 *
 * Owner: the caller gives *out up with tfos_batch_free. Batches may outlive the reader.
 * Thread: any; calls are serialized. */
TFOS_API tfos_status tfos_reader_next(tfos_reader *reader, tfos_batch **out, tfos_error *error);

/* How far the reader has come.
 *
 * Owner: nothing changes hands.
 * Thread: any, also while another thread is in tfos_reader_next. */
TFOS_API void tfos_reader_progress(const tfos_reader *reader, tfos_progress *out);

/* Makes a tfos_reader_next that waits in another thread, and every later one, return TFOS_CANCELLED.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_reader_cancel(tfos_reader *reader);

/* Stops the threads and frees the reader.
 *
 * Owner: frees `reader`.
 * Thread: not while another thread is in tfos_reader_next. */
TFOS_API void tfos_reader_close(tfos_reader *reader);

/* The schema of the data: one pass over `options->infer_records` records or, when that is 0, over all. Uses record,
 * codec, on_corrupt and threads of the options. A feature that is missing from a record is nullable; after a sample
 * every feature is, and bytes are a string if every value seen is valid UTF-8. A feature with different kinds in
 * different records is MISMATCH. A BYTES schema is never inferred by AUTO: records that are no Example are CORRUPT.
 *
 * Owner: the caller frees *out with tfos_schema_free.
 * Thread: any. */
TFOS_API tfos_status tfos_schema_infer(const tfos_paths *paths, const tfos_read_options *options, tfos_schema **out,
                                       tfos_error *error);

/* ---- Verify ---------------------------------------------------------------------------------------------------- */

/* One damaged place of a file. */
typedef struct tfos_damage {
    const char *path;
    int64_t offset;      /* of the first damaged byte range's record */
    int64_t bytes;       /* that cannot be read as records */
    int64_t record;      /* number of the record in its file, from 0 */
    tfos_status status;  /* CORRUPT, TRUNCATED or, for a record that is too long, LIMIT */
    const char *message; /* what is wrong there */
} tfos_damage;

typedef void (*tfos_damage_function)(const tfos_damage *damage, void *context);

/* Reads every byte and checks every checksum. Damage is told to `function` (NULL: only counted), file by file in order;
 * then TFOS_OK: the count is in progress->skipped_records. With `parse`, records that are no tf.train.Example or
 * SequenceExample count as damage too. `progress`, if not NULL, is updated while the work goes on and may be read from
 * another thread.
 *
 * Owner: what `function` is given lives until it returns.
 * Thread: any; `function` is called from the calling thread. */
TFOS_API tfos_status tfos_records_verify(const tfos_paths *paths, const tfos_read_options *options, bool parse,
                                         tfos_damage_function function, void *context, tfos_progress *progress,
                                         tfos_error *error);

/* Counts the records of a file by its index if it has a fresh one, else by hopping from header to header. The payload
 * is not checked; the headers are.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_records_count(const char *path, tfos_codec codec, int64_t *out, tfos_error *error);

/* ---- Writer ---------------------------------------------------------------------------------------------------- */

typedef struct tfos_write_options {
    tfos_record_kind record; /* AUTO: EXAMPLE, or SEQUENCE if a column is a list of lists */
    tfos_codec codec;        /* AUTO: by the end of the name: .gz is GZIP, .zlib and .zz are ZLIB, else NONE */
    int32_t level;           /* of compression, 1 to 9; -1 for the codec's default */
    bool overwrite;          /* replace a file that exists; otherwise EXISTS */
} tfos_write_options;

/* Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_write_options_init(tfos_write_options *options);

typedef struct tfos_writer tfos_writer;

/* Opens a file for writing. It appears under its name when tfos_writer_close has made it whole and durable, never
 * before; until then the bytes are in a hidden file beside it.
 *
 * Owner: the caller ends it with tfos_writer_close or tfos_writer_abort.
 * Thread: any. */
TFOS_API tfos_status tfos_writer_open(const char *path, const tfos_write_options *options, tfos_writer **out,
                                      tfos_error *error);

/* Writes one record of bytes as it is.
 *
 * Owner: `data` stays the caller's.
 * Thread: one at a time per writer. */
TFOS_API tfos_status tfos_writer_record(tfos_writer *writer, const void *data, size_t bytes, tfos_error *error);

/* Writes the rows of a batch as Examples or SequenceExamples, by the kind of its schema.
 *
 * Owner: `batch` stays the caller's.
 * Thread: one at a time per writer. */
TFOS_API tfos_status tfos_writer_batch(tfos_writer *writer, const tfos_batch *batch, tfos_error *error);

/* Writes the rows of an Arrow struct array. Integers of any width, half, float, double, boolean, strings and binaries
 * (also large, view and fixed-size), null, dictionaries of these, and lists (also large and fixed-size) of them are
 * taken; other types are UNSUPPORTED with the name of the column and the cast that helps. A null row of a column leaves
 * the feature out.
 *
 * Owner: `array` and `schema` stay the caller's.
 * Thread: one at a time per writer. */
TFOS_API tfos_status tfos_writer_arrow(tfos_writer *writer, const struct ArrowArray *array,
                                       const struct ArrowSchema *schema, tfos_error *error);

/* Records written so far.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per writer. */
TFOS_API int64_t tfos_writer_records(const tfos_writer *writer);

/* Makes the file whole: flush, fsync, rename. After a failure, of this call or an earlier one, nothing appears under
 * the name and the error is that of the first failure.
 *
 * Owner: frees `writer`, also on failure.
 * Thread: one at a time per writer. */
TFOS_API tfos_status tfos_writer_close(tfos_writer *writer, tfos_error *error);

/* Throws away what was written.
 *
 * Owner: frees `writer`.
 * Thread: one at a time per writer. */
TFOS_API void tfos_writer_abort(tfos_writer *writer);

/* ---- Index ----------------------------------------------------------------------------------------------------- */

/* The index of FILE is FILE.tfindex beside it. */
#define TFOS_INDEX_SUFFIX ".tfindex"

typedef struct tfos_index tfos_index;

/* Walks the headers of an uncompressed TFRecord file and writes its index.
 *
 * Owner: nothing changes hands; *records, if not NULL, is the number of records.
 * Thread: any. */
TFOS_API tfos_status tfos_index_build(const char *path, int64_t *records, tfos_error *error);

/* Opens the index of `path`. NOT_FOUND when there is none; MISMATCH when the file has changed since; CORRUPT when the
 * index is damaged.
 *
 * Owner: the caller frees *out with tfos_index_free.
 * Thread: any. */
TFOS_API tfos_status tfos_index_open(const char *path, tfos_index **out, tfos_error *error);

/* Owner: nothing changes hands.
 * Thread: any. */
TFOS_API int64_t tfos_index_records(const tfos_index *index);

/* The offset of the header of `record`; the size of the file for the number of records. RANGE beyond that.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per index. */
TFOS_API tfos_status tfos_index_offset(tfos_index *index, int64_t record, int64_t *out, tfos_error *error);

/* Owner: frees `index`.
 * Thread: one at a time per index. */
TFOS_API void tfos_index_free(tfos_index *index);

/* The offset of the first record that starts at or after `offset`, the size of the file if there is none: by the index
 * if there is a fresh one, else by scanning for a header and a payload whose checksums match. Neighbouring splits [a,
 * b) and [b, c) that call this for a, b and c read every record once. Records whose payload holds TFRecords themselves
 * can mislead the scan, not the index: build one for such files.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_records_align(const char *path, int64_t offset, int64_t *out, tfos_error *error);

/* ---- Cluster --------------------------------------------------------------------------------------------------- */

/* A cluster as the driver sees it. A process of our own, `tfos coordinator`, does the work; this object is the driver's
 * end of a socket pair to it. When that end closes, however the driver ends, the coordinator stops every node. */
typedef struct tfos_cluster tfos_cluster;

typedef struct tfos_cluster_options {
    const char
        *command; /* the program tfos; NULL: TFOS_COMMAND, else beside libtfos, else in bin/ beside it, else PATH */
    const char *folder; /* for the log files of nodes on this machine; NULL: the working folder */
    const char *host;   /* where nodes reach the coordinator, unless the setting server.host says otherwise */
    int32_t nodes;      /* all of them: ps, master, evaluator and workers, in this order of their indexes */
    int32_t ps;
    const char *master; /* "chief", "master", or NULL for none */
    bool evaluator;
    bool parallel;            /* independent instances: no cluster spec, no ports, every node a worker */
    bool no_barrier;          /* a node starts when it comes, without waiting for the others */
    bool spark_feeds;         /* InputMode.SPARK */
    bool native_ps;           /* ps nodes are TensorFlow servers without Python … */
    bool native_workers;      /* … and workers */
    bool keep_port;           /* the child asks for its port itself (release_port=False) */
    int32_t gpus;             /* of each worker; -1: not asked for, one where there are some */
    int32_t attempt;          /* how often the cluster was restarted */
    int64_t timeout_ms;       /* how long to wait for all nodes to come */
    int64_t slots;            /* tasks that Spark can run at a time now; -1: unknown */
    int64_t slots_most;       /* … and ever, by its configuration; -1: unknown */
    const char *slots_reason; /* where slots_most comes from: "spark.master is local[2]" */

    /* What every node starts. */
    const char *const *program;     /* NULL-terminated words */
    const char *const *environment; /* NULL-terminated NAME=value, or NULL */
    const char *const *tensorboard; /* NULL, or NULL-terminated words, with {port} and {host} to be replaced */
    const void *payload;            /* for the child, as it is */
    size_t payload_bytes;
    const char *context;         /* JSON object for the child, as it is */
    const char *const *settings; /* NULL, or NULL-terminated key=value, as in docs/config.md */
} tfos_cluster_options;

/* Fills in the defaults: no nodes, ten minutes to come.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_cluster_options_init(tfos_cluster_options *options);

/* Checks the numbers, makes the cluster key, starts the coordinator and waits until it listens. LIMIT when Spark can
 * never have enough task slots.
 *
 * Owner: the caller closes *out with tfos_cluster_close. Everything in `options` is copied.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_open(const tfos_cluster_options *options, tfos_cluster **out, tfos_error *error);

/* What a Spark task hands to `tfos node`, with the cluster key inside: it must travel in Spark's own task data and
 * nowhere else. The task appends what it knows itself; docs/design.md says how.
 *
 * Owner: the cluster.
 * Thread: any. */
TFOS_API void tfos_cluster_ticket(const tfos_cluster *cluster, const uint8_t **bytes, size_t *count);

/* The address of the status page, with its token.
 *
 * Owner: the cluster.
 * Thread: any. */
TFOS_API const char *tfos_cluster_url(const tfos_cluster *cluster);

/* Starts the node `index` on this machine, as a child of this process.
 *
 * Owner: the cluster, which ends it.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_spawn(tfos_cluster *cluster, int32_t index, tfos_error *error);

typedef enum tfos_cluster_event_kind {
    TFOS_EVENT_NONE,     /* nothing happened in the given time */
    TFOS_EVENT_PROGRESS, /* while nodes are waited for: count of total have come; text says what is missing */
    TFOS_EVENT_READY,    /* all have come and know their roles; text is JSON: a list of nodes */
    TFOS_EVENT_NODE,     /* a node is in another state: node, host, state; url of its TensorBoard if it has one */
    TFOS_EVENT_LOG,      /* lines that a node's child wrote: node, host, text, stream */
    TFOS_EVENT_FAILED,   /* the first failure: node, host, text. All others are being stopped */
    TFOS_EVENT_STATUS,   /* the answer to tfos_cluster_ask: text is JSON */
    TFOS_EVENT_FEED,     /* a feed: count is its number, total the epoch; state is "open", "epoch" (it may be fed),
                          * "exhausted" (every row of it is on its way to a program), "consumed" (… and was taken) or
                          * "dropped" (… but for some, of a program that had ended), both when all epochs before it
                          * were, "terminated" (by a program), "finished" (every program has ended), "ended" (the
                          * cluster stops) or "failed": index is the status, text says why */
    TFOS_EVENT_OVER,     /* every node is gone; nothing follows */
} tfos_cluster_event_kind;

/* Texts are never NULL, and valid until the next call. */
typedef struct tfos_cluster_event {
    tfos_cluster_event_kind kind;
    int64_t count;
    int64_t total;
    int32_t index;    /* of the node, or -1 */
    int32_t stream;   /* 1 for stdout, 2 for stderr */
    const char *node; /* "worker:1" */
    const char *host;
    const char *state;
    const char *url;
    int64_t pid; /* of the process behind the url */
    const char *text;
} tfos_cluster_event;

/* Waits for the next event, at most `timeout_ms` (-1: as long as it takes). TFOS_END after OVER; IO when the
 * coordinator is gone.
 *
 * Owner: the texts of *event are the cluster's.
 * Thread: one at a time. */
TFOS_API tfos_status tfos_cluster_next(tfos_cluster *cluster, int64_t timeout_ms, tfos_cluster_event *event,
                                       tfos_error *error);

/* Tells how many tasks Spark can run at a time now, for what is shown and said while nodes are missing. `holders`
 * describes other clusters of the application whose tasks hold some of the slots; NULL: there are none.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_slots(tfos_cluster *cluster, int64_t slots, const char *holders, tfos_error *error);

/* Asks for the status; it comes as an event.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_ask(tfos_cluster *cluster, tfos_error *error);

/* Lets the cluster end: once every worker has, ps and evaluators are stopped `grace_ms` later.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_finish(tfos_cluster *cluster, int64_t grace_ms, tfos_error *error);

/* Stops every node now.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_stop(tfos_cluster *cluster, const char *reason, tfos_error *error);

/* Ends the coordinator, and with it whatever is left of the cluster, and waits for it.
 *
 * Owner: frees `cluster`.
 * Thread: any, when no other call is under way. */
TFOS_API void tfos_cluster_close(tfos_cluster *cluster);

/* ---- Feeding: the driver's side --------------------------------------------------------------------------------- */

typedef struct tfos_feed_options {
    const char *queue;  /* "input" */
    int64_t partitions; /* of the data, in every epoch */
    bool inference;     /* a result comes back for each row */
    bool determinate;   /* Spark computes a partition in the same order every time … */
    bool again;         /* … or it may be fed again from the beginning if its task dies */
    int64_t timeout_ms; /* without progress, while there are rows that nobody consumes */
} tfos_feed_options;

/* Opens a feed; an event FEED with its number and the state "open" follows.
 *
 * Owner: `options` is copied.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_feed(tfos_cluster *cluster, const tfos_feed_options *options, uint64_t *feed,
                                       tfos_error *error);

/* Begins an epoch of a feed, when the one before is exhausted; an event FEED with the state "epoch" follows. Spark
 * tasks may then feed with the ticket for it.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_epoch(tfos_cluster *cluster, uint64_t feed, uint64_t epoch, tfos_error *error);

/* Spark's job has ended well. That alone proves nothing: the feed fails if partitions of this epoch were not fed. The
 * proof is the event FEED with the state "exhausted", and later "consumed".
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_epoch_end(tfos_cluster *cluster, uint64_t feed, uint64_t epoch, tfos_error *error);

/* What a Spark task needs to feed; the cluster key is inside, so it must travel in Spark's own task data and nowhere
 * else.
 *
 * Owner: the caller frees *bytes with free().
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_feed_ticket(tfos_cluster *cluster, uint64_t feed, uint64_t epoch, uint8_t **bytes,
                                              size_t *count, tfos_error *error);

/* The driver is done with a feed.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_feed_close(tfos_cluster *cluster, uint64_t feed, tfos_error *error);

/* No feed of any queue will follow: every consumer comes to its end when it has read what is there.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_end_of_feed(tfos_cluster *cluster, tfos_error *error);

/* ---- Feeding: a Spark task ------------------------------------------------------------------------------------- */

typedef struct tfos_feeder tfos_feeder;

typedef struct tfos_feeder_options {
    const void *ticket;
    size_t ticket_bytes;
    uint64_t partition;
    uint64_t attempt; /* TaskContext.taskAttemptId() */
    const char *host; /* of the executor, for messages */
    /* NULL, or: asked about ten times a second by the thread that waits in a call; true ends the call with CANCELLED.
     */
    bool (*interrupted)(void *context);
    void *interrupted_context;
} tfos_feeder_options;

/* Asks to feed a partition, and waits until that is decided: as long as another attempt feeds it. END: there is nothing
 * to do, for the partition has been fed or the feed has ended; the task returns.
 *
 * Owner: the caller closes *out with tfos_feeder_close. Everything in `options` is copied.
 * Thread: any. */
TFOS_API tfos_status tfos_feeder_open(const tfos_feeder_options *options, tfos_feeder **out, tfos_error *error);

/* How many rows at the beginning of the partition an earlier attempt has fed. They are to be passed all the same (the
 * feeder leaves them out), or may be skipped with tfos_feeder_skip where that is cheaper.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API int64_t tfos_feeder_fed(const tfos_feeder *feeder);

/* The next `rows` rows were not passed, because they have been fed. At most what is left of tfos_feeder_fed.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per feeder. */
TFOS_API void tfos_feeder_skip(tfos_feeder *feeder, int64_t rows);

/* Feeds the rows of a batch, waiting for room. END: the feed has ended and wants no more; the task returns. A schema
 * that differs from that of the batch before is sent along. LIMIT names a row that is larger than a lane.
 *
 * Owner: `batch` stays the caller's.
 * Thread: one at a time per feeder. */
TFOS_API tfos_status tfos_feeder_batch(tfos_feeder *feeder, const tfos_batch *batch, tfos_error *error);

/* How long to wait for results. */
typedef enum tfos_feeder_wait {
    TFOS_WAIT_NOT,
    TFOS_WAIT_FOR_RESULTS, /* until there are some */
    TFOS_WAIT_FOR_ROOM,    /* … or the program that owes them has taken all its rows: it may need more to go on */
} tfos_feeder_wait;

/* With inference: the results that have come, in the order of the rows. END: every row that was fed has its result; or,
 * after tfos_feeder_exhaust, a program has terminated the feed. MISMATCH when rows get no result: programs gave fewer,
 * ended before, or gave none for as long as the feed's timeout. OK with *out NULL: nothing has come yet.
 *
 * Owner: the caller gives *out up with tfos_batch_free.
 * Thread: one at a time per feeder. */
TFOS_API tfos_status tfos_feeder_results(tfos_feeder *feeder, tfos_feeder_wait wait, tfos_batch **out,
                                         tfos_error *error);

/* The partition has no more rows. With inference this comes before the last results are waited for; otherwise
 * tfos_feeder_finish does it.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per feeder. */
TFOS_API tfos_status tfos_feeder_exhaust(tfos_feeder *feeder, tfos_error *error);

/* Ends the partition: returns when its last row is in a lane, or all results have come, and that is noted. When rows
 * are consumed is no business of the task's. END: the feed has ended before.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per feeder. */
TFOS_API tfos_status tfos_feeder_finish(tfos_feeder *feeder, tfos_error *error);

/* A row cannot be fed: the whole feed fails with this message, which names the partition already or not.
 *
 * Owner: `failure` is copied.
 * Thread: one at a time per feeder. */
TFOS_API void tfos_feeder_fail(tfos_feeder *feeder, const tfos_error *failure);

/* Leaves. A partition that is not finished can be taken over by another attempt.
 *
 * Owner: frees `feeder`.
 * Thread: when no other call is under way. */
TFOS_API void tfos_feeder_close(tfos_feeder *feeder);

/* ---- Feed: the program on a node --------------------------------------------------------------------------------- */

/* The rows of one queue. A process that a node has started finds them by itself (TFOS_FEED_FD). */
typedef struct tfos_feed tfos_feed;

/* NOT_FOUND when this process is no program of a node, or the node is not fed by Spark.
 *
 * Owner: the caller closes *out with tfos_feed_close. Several handles of one queue share its rows.
 * Thread: any. */
TFOS_API tfos_status tfos_feed_open(const char *queue, tfos_feed **out, tfos_error *error);

typedef struct tfos_feed_want {
    int64_t rows;          /* most rows of the batch; it has fewer only at an end */
    bool split_epochs;     /* the end of an epoch is an end: TFOS_END comes once for each */
    int64_t epoch;         /* with split_epochs, from 0 on: only the end of this one, with what is left of those before;
                            * -1: of whichever comes next */
    int64_t timeout_ms;    /* -1: as long as it takes; otherwise CANCELLED after so long without a row */
    const tfos_schema *as; /* NULL: columns as they were fed; else these, by name. Lists of fixed and of any length are
                            * made of each other; another type is a MISMATCH */
    bool (*interrupted)(void *context); /* as in tfos_feeder_options; also CANCELLED */
    void *interrupted_context;
} tfos_feed_want;

/* Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_feed_want_init(tfos_feed_want *want);

/* The next rows, copied out of the lanes: they count as consumed. A batch has rows of one schema: unless `as` is given
 * it ends early when the schema changes. It also ends with a partition of inference. END: the epoch has ended
 * (split_epochs), or the feed; after the end of the feed every further call gives END. Rows that were taken before a
 * failure come with the next call.
 *
 * Owner: the caller gives *out up with tfos_batch_free.
 * Thread: any; calls for one queue are serialized. */
TFOS_API tfos_status tfos_feed_next(tfos_feed *feed, const tfos_feed_want *want, tfos_batch **out, tfos_error *error);

/* The schema of the queue, as soon as it is known: that of the first rows that any producer has fed to any node. Waits
 * as tfos_feed_next does. END: the feed ended before it had rows.
 *
 * Owner: the caller frees *out with tfos_schema_free.
 * Thread: any. */
TFOS_API tfos_status tfos_feed_schema(tfos_feed *feed, const tfos_feed_want *want, tfos_schema **out,
                                      tfos_error *error);

/* Whether the feed has ended and every row was taken.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API bool tfos_feed_ended(tfos_feed *feed);

/* Ends feeding for the whole cluster: what is left is skipped.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_feed_terminate(tfos_feed *feed, tfos_error *error);

/* Results for the rows that were taken, in their order, one for each. MISMATCH when there are more than rows without a
 * result. `want` (may be NULL) says whether a wait for room was interrupted; the rest of it is not looked at.
 *
 * Owner: `batch` stays the caller's.
 * Thread: any; calls for one queue are serialized. */
TFOS_API tfos_status tfos_feed_results(tfos_feed *feed, const tfos_batch *batch, const tfos_feed_want *want,
                                       tfos_error *error);

/* Owner: frees `feed`.
 * Thread: when no other call with this handle is under way. */
TFOS_API void tfos_feed_close(tfos_feed *feed);

/* ---- Spark rows ------------------------------------------------------------------------------------------------ */

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

/* The rows are for this feeder: those that its lanes have no room for are refused before they are copied.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per object. */
TFOS_API void tfos_spark_rows_limit(tfos_spark_rows *rows, const tfos_feeder *feeder);

/* Looks whether the row that comes next can be fed at all, before its bytes are copied. `head` is its beginning: the
 * words that say what is null, and a slot of 8 bytes for each column. LIMIT: it has no room in a lane, as far as
 * tfos_spark_rows_limit has told. Only where every row before it was appended.
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

/* How the values of a column lie in a tfos_spark_vector. */
typedef struct tfos_spark_form {
    char value; /* by JNI's letters: Z B S I J F D for numbers, of their width in Java; L for bytes */
    int lists;  /* 0: a value a row, 1: a list of them, 2: a list of lists */
    /* Of a decimal; the precision of other values is 0. As J it is the unscaled number; as L, the bytes of that number,
     * the highest first. */
    int precision;
    int scale;
    int64_t row_bytes; /* the most that the values of one row can have and still be fed; see tfos_spark_rows_limit */
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

/* ---- Spark writer ----------------------------------------------------------------------------------------------- */

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
TFOS_API tfos_status tfos_spark_writer_rows(tfos_spark_writer *writer, const tfos_batch *batch, int64_t first,
                                            const void **block, size_t *bytes, tfos_error *error);

/* Owner: frees `writer`.
 * Thread: one at a time per object. */
TFOS_API void tfos_spark_writer_free(tfos_spark_writer *writer);

/* The schema that rows of such batches would have in Spark, in its JSON form. MISMATCH for a column of objects that
 * only Python can read, or without any value.
 *
 * Owner: the caller frees *out with tfos_string_free.
 * Thread: any. */
TFOS_API tfos_status tfos_spark_schema_of(const tfos_schema *schema, char **out, tfos_error *error);

#ifdef __cplusplus
}
#endif

#endif /* TFOS_H */
