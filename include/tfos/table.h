/* tfos/table.h: TFRecord files as a table of Spark's, or of whoever else reads and writes files with options in texts.
 *
 *   table            what the options of a data source say, checked: how its files are read and written.
 *
 * Options are texts by name; case does not matter, and names that are not known here are others' business:
 *
 *   recordType       Example (the default), SequenceExample, or ByteArray: one binary column, the record as it is
 *   codec            none, gzip, zlib, or as Spark and Hadoop call them (uncompressed, deflate, …GzipCodec, …); by
 *                    default what a file is is seen when it is read, and what is written is not compressed.
 *                    `compression` is the same
 *   inferSample      records to infer a schema from; all (the default) or 0: every one
 *   onCorrupt        fail (the default), or skip, which counts what it skips
 *   index            true: an index is written beside each file; false is the default
 *
 * Errors. INVALID names the option, what it may be, and what it is.
 *
 * Ownership. A table is its maker's; readers and writers that were opened with it do not need it any more.
 *
 * Threads. A table may be used by several threads. */
#ifndef TFOS_TABLE_H
#define TFOS_TABLE_H

#include "tfos/record.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfos_table tfos_table;

/* `options` is JSON, {"codec": "gzip", …}.
 *
 * Owner: the caller frees *out with tfos_table_free.
 * Thread: any. */
TFOS_API tfos_status tfos_table_new(const char *options, size_t bytes, tfos_table **out, tfos_error *error);

/* Owner: frees `table`. What was opened with it does not need it any more.
 * Thread: any. */
TFOS_API void tfos_table_free(tfos_table *table);

/* Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_record_kind tfos_table_record(const tfos_table *table);

/* Whether damaged records are skipped.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API bool tfos_table_skips(const tfos_table *table);

/* Records that a schema is inferred from; 0: all.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API int64_t tfos_table_sample(const tfos_table *table);

/* What the names of its files end with: ".tfrecord", and the codec behind it.
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_table_ending(const tfos_table *table);

/* Whether several readers may share a file, each a range of its bytes. False for a compressed one, as far as its name
 * or the codec tells; where neither does, it is read by whoever gets its first byte.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API bool tfos_table_splits(const tfos_table *table, const char *path);

/* Whether a path is that of data: not that of an index, which lies beside them.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API bool tfos_table_holds(const char *path);

/* A file, or what a range of it has: the records that start in it. */
typedef struct tfos_file_part {
    const char *path;
    int64_t bytes; /* of the whole file, for progress */
    int64_t start;
    int64_t end; /* -1: that of the file */
} tfos_file_part;

/* Reads the columns of a Spark schema (in its JSON form) in the thread that asks for them; without any, rows are
 * counted. `files`, `interrupted` and its context: see tfos_read_options.
 *
 * Owner: the caller closes *out with tfos_reader_close.
 * Thread: any. */
TFOS_API tfos_status tfos_table_read(const tfos_table *table, const tfos_file_part *part, const char *schema,
                                     size_t schema_bytes, const tfos_file_system *files,
                                     bool (*interrupted)(void *context), void *context, tfos_reader **out,
                                     tfos_error *error);

/* What parts of files have in them, as JSON for tfos_table_schema; of no more records than inferSample wants.
 *
 * Owner: the caller frees *out with tfos_string_free.
 * Thread: any. */
TFOS_API tfos_status tfos_table_survey(const tfos_table *table, const tfos_file_part *parts, size_t count,
                                       const tfos_file_system *files, bool (*interrupted)(void *context), void *context,
                                       char **out, tfos_error *error);

/* The Spark schema, in its JSON form, that follows from surveys of all files. NOT_FOUND when these have no record.
 *
 * Owner: the caller frees *out with tfos_string_free.
 * Thread: any. */
TFOS_API tfos_status tfos_table_schema(const tfos_table *table, const char *const *surveys, size_t count, char **out,
                                       tfos_error *error);

/* A writer for a file of the table.
 *
 * Owner: the caller ends it with tfos_writer_close or tfos_writer_abort.
 * Thread: any. */
TFOS_API tfos_status tfos_table_write(const tfos_table *table, const char *path, const tfos_file_system *files,
                                      tfos_writer **out, tfos_error *error);

#ifdef __cplusplus
}
#endif

#endif /* TFOS_TABLE_H */
