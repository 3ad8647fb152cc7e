/* tfos/record.h: TFRecord files.
 *
 *   paths            a list of files, expanded from folders and globs.
 *   survey           the schema of many files, found in parts.
 *   reader           TFRecord files in, batches out, parsed by a pool of threads.
 *   writer           batches, Arrow arrays or raw bytes in, one TFRecord file out.
 *   index            the offsets of a TFRecord file, for seeking and splitting.
 *
 * Errors name file, byte offset and record. Rows before an error are delivered before the error.
 *
 * Ownership. Options and paths are copied. Batches may outlive the reader that gave them. A file that is written
 * appears whole, when its writer is closed, or not at all.
 *
 * Threads. A reader may be used by several threads, a writer and an index by one at a time. A process that was forked
 * leaves the readers and writers of its parent alone. */
#ifndef TFOS_RECORD_H
#define TFOS_RECORD_H

#include "tfos/column.h"
#include "tfos/fs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Files ------------------------------------------------------------------------------------------------------- */

typedef enum tfos_codec { TFOS_CODEC_AUTO, TFOS_CODEC_NONE, TFOS_CODEC_GZIP, TFOS_CODEC_ZLIB } tfos_codec;

/* "auto", "none", "gzip" or "zlib".
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_codec_name(tfos_codec codec);

/* The reverse of the name.
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

/* ---- Reader ------------------------------------------------------------------------------------------------------ */

typedef enum tfos_on_corrupt { TFOS_ON_CORRUPT_ERROR, TFOS_ON_CORRUPT_SKIP } tfos_on_corrupt;

/* "error" or "skip".
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_on_corrupt_name(tfos_on_corrupt choice);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_on_corrupt_parse(const char *text, tfos_on_corrupt *out, tfos_error *error);

/* The memory of readers that have ended, for those that come after them: who reads the same files again, epoch by
 * epoch, opens a reader each time, and the system takes longer to give fresh memory than a reader to fill it again. */
typedef struct tfos_store tfos_store;

typedef struct tfos_read_options {
    size_t size;                /* of this struct; see tfos_read_options_init */
    const tfos_schema *schema;  /* NULL: inferred first, from infer_records records */
    const char *const *columns; /* NULL: all; else these, in this order; without any, rows are counted, not parsed */
    size_t column_count;
    tfos_record_kind record; /* when the schema is NULL */
    tfos_codec codec;
    tfos_on_corrupt on_corrupt;
    int64_t batch_rows;    /* most rows of a batch; 0: the setting records.batch_rows */
    int64_t batch_bytes;   /* a batch ends once its records reach this size; 0: the setting records.batch_bytes */
    int64_t infer_records; /* 0: infer from every record */
    int32_t threads;       /* 0: work in the calling thread; -1: the setting records.threads, by default every core */
    bool ordered;          /* rows come in file order; false: as they are ready */
    int64_t range_start;   /* only records that start in [range_start, range_end) of each file; all of a compressed */
    int64_t range_end;     /* file are in the range that has its first byte. -1: to the end */
    /* NULL, or: asked about ten times a second by the thread that waits in a call; true ends the call, and the reader,
     * with CANCELLED. For programs that must look at signals themselves. */
    bool (*interrupted)(void *context);
    void *interrupted_context;
    const tfos_file_system *files; /* NULL, or: serves the paths that have a scheme */
    bool exact;                    /* every batch but the last has batch_rows rows, whatever files and bytes they are */
    /* 0, or: rows come in random order. Each is drawn from so many that are held in memory, and files are read in
     * random order, too. The order depends on the seed, the files and this number alone. Batches are exact. */
    int64_t shuffle_rows;
    uint64_t shuffle_seed;
    /* 0, or: only the rows of one of `shard_count` shards, numbered from 0. Every row is in exactly one of them. Files
     * are cut by bytes, as ranges are; compressed files, which cannot be cut, are dealt out whole where there are at
     * least as many as shards, and row by row, in turn, where there are fewer. Batches are exact. */
    int32_t shard_count;
    int32_t shard;
    const int32_t *multiples; /* NULL, or, for each column: lists of any length have a multiple of so many values */
    tfos_store *store;        /* NULL, or: whence memory comes, and where it is left */
} tfos_read_options;

/* Fills in the defaults: everything inferred, errors on corruption, ordered. `size` is that of *options.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_read_options_init(tfos_read_options *options, size_t size);

/* A store without anything in it yet. Readers that are open at the same time may share one.
 *
 * Owner: the caller frees *out with tfos_store_free, which may be before readers with it are closed.
 * Thread: any. */
TFOS_API tfos_status tfos_store_new(tfos_store **out, tfos_error *error);

/* Gives a store up, NULL as well. What is in it is freed when no reader has it any more.
 *
 * Owner: the store is gone for the caller.
 * Thread: any. */
TFOS_API void tfos_store_free(tfos_store *store);

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

/* The batches that nobody has taken yet, as an Arrow stream. It takes from the same batches as tfos_reader_next, and
 * several streams of a reader share them.
 *
 * Owner: the caller calls out->release. The stream has a reference to the reader, and may outlive the caller's.
 * Thread: any; so may the stream be used. */
TFOS_API tfos_status tfos_reader_stream(tfos_reader *reader, struct ArrowArrayStream *out, tfos_error *error);

/* Owner: the caller owns one more reference, to be given up with tfos_reader_close.
 * Thread: any. */
TFOS_API tfos_reader *tfos_reader_retain(tfos_reader *reader);

/* Gives up one reference; the last one stops the threads and frees the reader.
 *
 * Owner: frees `reader`, if nobody else has a reference.
 * Thread: any; whoever is in tfos_reader_next meanwhile has a reference of its own. */
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

/* ---- Survey ------------------------------------------------------------------------------------------------------ */

/* What is in many files, found in parts and put together: inference on many machines. */
typedef struct tfos_survey tfos_survey;

/* `record` is the kind that the records are to be; AUTO: as they are.
 *
 * Owner: the caller frees *out with tfos_survey_free.
 * Thread: any. */
TFOS_API tfos_status tfos_survey_new(tfos_record_kind record, tfos_survey **out, tfos_error *error);

/* Owner: frees `survey`.
 * Thread: one at a time per survey. */
TFOS_API void tfos_survey_free(tfos_survey *survey);

/* Looks at files: as tfos_schema_infer does, but for the kind, which is the survey's, in the range of the options, and
 * only at the columns that these name. After a failure the survey is of no use.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per survey. */
TFOS_API tfos_status tfos_survey_add_files(tfos_survey *survey, const tfos_paths *paths,
                                           const tfos_read_options *options, tfos_error *error);

/* Adds what another survey has found. MISMATCH names a feature on whose kind they differ, and where each was seen.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per survey. */
TFOS_API tfos_status tfos_survey_add(tfos_survey *survey, const char *exported, size_t bytes, tfos_error *error);

/* What was found, as JSON, for another survey of the same version.
 *
 * Owner: the caller frees *out with tfos_string_free.
 * Thread: one at a time per survey. */
TFOS_API tfos_status tfos_survey_export(const tfos_survey *survey, char **out, tfos_error *error);

/* Records that were looked at.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per survey. */
TFOS_API int64_t tfos_survey_records(const tfos_survey *survey);

/* The schema of all. NOT_FOUND when no record was seen; `place` says where none was.
 *
 * Owner: the caller frees *out with tfos_schema_free.
 * Thread: one at a time per survey. */
TFOS_API tfos_status tfos_survey_schema(const tfos_survey *survey, const char *place, tfos_schema **out,
                                        tfos_error *error);

/* ---- Verify ------------------------------------------------------------------------------------------------------ */

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

/* ---- Writer ------------------------------------------------------------------------------------------------------ */

typedef struct tfos_write_options {
    size_t size;             /* of this struct; see tfos_write_options_init */
    tfos_record_kind record; /* AUTO: EXAMPLE, or SEQUENCE if a column is a list of lists */
    tfos_codec codec;        /* AUTO: by the end of the name: .gz is GZIP, .zlib, .zz and .deflate ZLIB, else NONE */
    int32_t level;           /* of compression, 1 to 9; -1 for the codec's default */
    bool overwrite;          /* replace a file that exists; otherwise EXISTS */
    /* NULL, or: asked about ten times a second by the thread that writes Arrow arrays; true ends the call, and the
     * writer, with CANCELLED. */
    bool (*interrupted)(void *context);
    void *interrupted_context;
    const tfos_file_system *files; /* NULL, or: serves the paths that have a scheme */
    bool index;                    /* an index is written, too; of uncompressed files only */
} tfos_write_options;

/* Fills in the defaults. `size` is that of *options.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_write_options_init(tfos_write_options *options, size_t size);

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
TFOS_API tfos_status tfos_writer_write_record(tfos_writer *writer, const void *data, size_t bytes, tfos_error *error);

/* Writes the rows of a batch as Examples or SequenceExamples, by the kind of its schema.
 *
 * Owner: `batch` stays the caller's.
 * Thread: one at a time per writer. */
TFOS_API tfos_status tfos_writer_write_batch(tfos_writer *writer, const tfos_batch *batch, tfos_error *error);

/* Writes the rows of an Arrow struct array. Integers of any width, half, float, double, boolean, strings and binaries
 * (also large, view and fixed-size), null, dictionaries of these, and lists (also large and fixed-size) of them are
 * taken; other types are UNSUPPORTED with the name of the column and the cast that helps. A null row of a column leaves
 * the feature out.
 *
 * Owner: `array` and `schema` stay the caller's.
 * Thread: one at a time per writer. */
TFOS_API tfos_status tfos_writer_write_arrow(tfos_writer *writer, const struct ArrowArray *array,
                                             const struct ArrowSchema *schema, tfos_error *error);

/* Writes the rows of all arrays of an Arrow stream, as tfos_writer_write_arrow does. A failure of the stream itself is
 * told with its own message; what came before it is written, and the writer can go on.
 *
 * Owner: `stream` stays the caller's, who releases it.
 * Thread: one at a time per writer. */
TFOS_API tfos_status tfos_writer_stream(tfos_writer *writer, struct ArrowArrayStream *stream, tfos_error *error);

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

/* ---- Index ------------------------------------------------------------------------------------------------------- */

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

#ifdef __cplusplus
}
#endif

#endif /* TFOS_RECORD_H */
