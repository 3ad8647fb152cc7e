/* Reader: a scan whose work is decoding, and whose results are batches.
 *
 * Where no schema is given, it is a property of all records, so they are all looked at before the first batch is handed
 * out. They are decoded on that occasion, by the schema that the first of them have, and the batches kept: should every
 * record bear that schema out, there is nothing left to read. That is done where it pays: to fill memory that was never
 * used before costs more than to look at values twice, but less than to inflate them twice, or to step twice over what
 * nobody has asked for. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/choice.h"
#include "base/config.h"
#include "base/options.h"
#include "base/status.h"
#include "column/batch.h"
#include "fs/fs.h"
#include "record/decode.h"
#include "record/findings.h"
#include "record/mixer.h"
#include "record/parts.h"
#include "record/scan.h"

struct tfos_reader {
    atomic_int references;
    tfos_paths *paths;
    tfos_schema *schema;
    tfos_file_system files;
    tfos_on_corrupt on_corrupt;
    tfos_store *store; /* NULL, or: whence memory comes, and where it is left */
    tfos__batch_pool *pool;
    int decoder_count;
    tfos__decoder **decoders; /* one for each thread */
    tfos__part *parts;        /* NULL, or one for each path */
    tfos__mixer *mixer;       /* NULL where chunks of the files are batches as they are */
    tfos__scan *scan;
    pthread_mutex_t next_lock; /* callers of tfos_reader_next take turns */
    tfos_batch **kept;         /* batches that were read on opening; those that were handed out are NULL */
    size_t kept_count;
    size_t kept_capacity;
    atomic_size_t kept_next;
    atomic_llong kept_rows; /* of those handed out */
    atomic_bool cancelled;
    atomic_llong read_bytes; /* of records, as they are when nothing is compressed */
    atomic_bool inflates;
};

static const tfos_read_options defaults = {.record = TFOS_RECORD_AUTO,
                                           .codec = TFOS_CODEC_AUTO,
                                           .on_corrupt = TFOS_ON_CORRUPT_ERROR,
                                           .threads = -1,
                                           .ordered = true,
                                           .range_end = -1};

const char *const tfos__on_corrupt_names[] = {"error", "skip", NULL};
TFOS__CHOICE_FUNCTIONS(on_corrupt, "on_corrupt", tfos__on_corrupt_names)

void tfos_read_options_init(tfos_read_options *options, size_t size)
{
    tfos__options_init(options, size, &defaults, sizeof defaults);
}

tfos_status tfos__read_options_take(const tfos_read_options *from, tfos_read_options *out, tfos_error *error)
{
    return tfos__options_take("tfos_read_options", from, &defaults, out, sizeof *out, error);
}

/* Puts the settings in where the caller left the choice to them. */
static tfos_status settle_options(tfos_read_options *options, tfos_error *error)
{
    TFOS_TRY(
        tfos__setting_choose(TFOS__SETTING_RECORDS_BATCH_ROWS, options->batch_rows, 0, &options->batch_rows, error));
    TFOS_TRY(
        tfos__setting_choose(TFOS__SETTING_RECORDS_BATCH_BYTES, options->batch_bytes, 0, &options->batch_bytes, error));
    if (options->infer_records < 0 || options->range_start < 0 || options->range_end < -1) {
        return tfos__fail(
            error, TFOS_INVALID,
            "infer_records and range_start must be 0 or more, range_end -1 or more, found %lld, %lld, %lld",
            (long long)options->infer_records, (long long)options->range_start, (long long)options->range_end);
    }
    if (options->shuffle_rows < 0 || options->shard_count < 0 ||
        (options->shard_count > 0 && (options->shard < 0 || options->shard >= options->shard_count))) {
        return tfos__fail(
            error, TFOS_INVALID,
            "shuffle_rows and shard_count must be 0 or more, shard below shard_count, found %lld, %d and shard %d",
            (long long)options->shuffle_rows, (int)options->shard_count, (int)options->shard);
    }
    if (options->shard_count > 1 && (options->range_start > 0 || options->range_end >= 0)) {
        return tfos__fail(error, TFOS_INVALID, "expected a range of bytes or a shard, found both");
    }
    options->exact = options->exact || options->shuffle_rows > 0 || options->shard_count > 1;
    return tfos__scan_threads(&options->threads, error);
}

static tfos_status copy_paths(const tfos_paths *from, tfos_paths **out, tfos_error *error)
{
    tfos_paths *paths = calloc(1, sizeof *paths);
    if (paths != NULL) {
        paths->path = calloc(from->count + 1, sizeof *paths->path);
        paths->bytes = calloc(from->count + 1, sizeof *paths->bytes);
    }
    bool whole = paths != NULL && paths->path != NULL && paths->bytes != NULL;
    for (size_t i = 0; i < from->count && whole; i++) {
        paths->path[i] = strdup(from->path[i]);
        paths->bytes[i] = from->bytes[i];
        paths->count++;
        whole = paths->path[i] != NULL;
    }
    if (!whole) {
        tfos_paths_free(paths);
        return tfos__fail_memory(error, from->count * sizeof *from->path);
    }
    paths->total_bytes = from->total_bytes;
    *out = paths;
    return TFOS_OK;
}

/* Takes `whole` over. */
static tfos_status select_columns(tfos_schema *whole, const tfos_read_options *options, tfos_schema **out,
                                  tfos_error *error)
{
    if (options->columns == NULL) {
        *out = whole;
        return TFOS_OK;
    }
    tfos_status status = tfos_schema_select(whole, options->columns, options->column_count, out, error);
    tfos_schema_free(whole);
    return status;
}

/* Only what is wanted is looked at. If some of it is nowhere, the message names what is there, so everything is looked
 * at after all. */
static tfos_status infer(const tfos_paths *paths, const tfos_read_options *options, tfos_schema **out,
                         tfos_error *error)
{
    tfos_schema *found = NULL;
    TFOS_TRY(tfos__paths_check_twice(paths, error));
    if (options->columns != NULL && options->column_count > 0) {
        TFOS_TRY(tfos__schema_infer_columns(paths, options, &found, error));
        if (select_columns(found, options, out, NULL) == TFOS_OK) {
            return TFOS_OK;
        }
    }
    TFOS_TRY(tfos_schema_infer(paths, options, &found, error));
    return select_columns(found, options, out, error);
}

static tfos_status choose_schema(const tfos_paths *paths, const tfos_read_options *options, tfos_schema **out,
                                 tfos_error *error)
{
    tfos_schema *whole = NULL;
    if (options->schema == NULL && options->record != TFOS_RECORD_BYTES) {
        return infer(paths, options, out, error);
    }
    if (options->schema != NULL) {
        whole = tfos__schema_retain(options->schema);
    } else {
        TFOS_TRY(tfos_schema_new(TFOS_RECORD_BYTES, &whole, error));
    }
    return select_columns(whole, options, out, error);
}

/* ---- the work of a thread ---- */

static tfos_status decode_record(void *context, size_t span, const uint8_t *record, size_t bytes, tfos_error *error)
{
    (void)span;
    return tfos__decoder_row(context, record, bytes, error);
}

static tfos_status decode_chunk(void *context, int thread, tfos__chunk *chunk, void **result, tfos_error *error)
{
    tfos_reader *reader = context;
    tfos__decoder *decoder = reader->decoders[thread];
    tfos_batch *batch;
    atomic_fetch_add_explicit(&reader->read_bytes, (long long)chunk->data.size, memory_order_relaxed);
    atomic_store_explicit(&reader->inflates, chunk->segment_count > 0 && chunk->segments[0].compressed,
                          memory_order_relaxed);
    TFOS_TRY(tfos__batch_take(reader->pool, &batch, error));
    tfos_status status = tfos__decoder_begin(decoder, batch, (int64_t)chunk->span_count, error);
    if (status == TFOS_OK) {
        status = tfos__chunk_each(chunk, reader->on_corrupt, decode_record, decoder, error);
    }
    /* The rows before a failure are good, and are handed out before it is told. */
    int64_t rows = tfos__decoder_rows(decoder);
    tfos_error trouble;
    tfos_status finished = tfos__batch_finish(batch, rows, &trouble);
    if (finished == TFOS_OK && rows > 0) {
        tfos__scan_count_memory(reader->scan, (int64_t)tfos_batch_bytes(batch));
        *result = batch;
        return status;
    }
    tfos_batch_free(batch);
    if (status == TFOS_OK && finished != TFOS_OK && error != NULL) {
        *error = trouble;
    }
    return status == TFOS_OK ? finished : status;
}

static void drop_batch(void *context, void *result)
{
    (void)context;
    tfos_batch_free(result);
}

/* ---- life ---- */

static tfos_status make_decoders(tfos_reader *reader, const tfos_read_options *options, bool confirms,
                                 tfos_error *error)
{
    int count = tfos__scan_workers(options->threads);
    reader->decoders = calloc((size_t)count, sizeof *reader->decoders);
    if (reader->decoders == NULL) {
        return tfos__fail_memory(error, (size_t)count * sizeof *reader->decoders);
    }
    for (; reader->decoder_count < count; reader->decoder_count++) {
        tfos__decoder **decoder = &reader->decoders[reader->decoder_count];
        TFOS_TRY(tfos__decoder_new(reader->schema, decoder, error));
        if (confirms) {
            tfos__decoder_confirm(*decoder, options->record, options->columns != NULL);
        }
        if (options->multiples != NULL) {
            tfos__decoder_expect_multiples(*decoder, options->multiples);
        }
    }
    return TFOS_OK;
}

/* Batches that are exact are chunks of one sequence of records. Where records are held back, left out or changed in
 * their order on the way, a mixer makes these chunks; else the source cuts them so by itself. */
static tfos_status make_exact(tfos_reader *reader, const tfos_read_options *options, tfos__scan_options *scan,
                              tfos_error *error)
{
    bool dealt = false;
    TFOS_TRY(tfos__parts_choose(reader->paths, options, &reader->parts, error));
    for (size_t i = 0; reader->parts != NULL && i < reader->paths->count; i++) {
        dealt = dealt || reader->parts[i].turn >= 0;
    }
    scan->joined = true;
    scan->source.parts = reader->parts;
    if (options->shuffle_rows <= 1 && !dealt && options->on_corrupt == TFOS_ON_CORRUPT_ERROR) {
        scan->source.chunk_rows = options->batch_rows;
        scan->source.chunk_bytes = INT64_MAX / 4; /* never reached, and sums of it fit */
        return TFOS_OK;
    }
    tfos__mixer_options mixing = {.chunk_rows = options->batch_rows,
                                  .shuffle_rows = options->shuffle_rows,
                                  .seed = options->shuffle_seed,
                                  .parts = reader->parts,
                                  .shard_count = options->shard_count,
                                  .on_corrupt = options->on_corrupt,
                                  .record = tfos_schema_kind(reader->schema)};
    TFOS_TRY(tfos__mixer_new(&mixing, &reader->mixer, error));
    scan->mixer = reader->mixer;
    return TFOS_OK;
}

/* Begins to read by the schema; with `confirms`, which the records must bear out. */
static tfos_status start(tfos_reader *reader, const tfos_read_options *options, bool confirms, tfos_error *error)
{
    enum { HELD_BATCHES = 2, HELD_EXACT_BATCHES = 8 }; /* whoever wants exact ones has a queue of them, too */
    int threads = options->threads;
    int held = options->exact ? HELD_EXACT_BATCHES : HELD_BATCHES;
    int limit = tfos__scan_workers(threads) + held;
    TFOS_TRY(tfos__store_take_pool(reader->store, reader->schema, limit, &reader->pool, error));
    TFOS_TRY(make_decoders(reader, options, confirms, error));
    tfos__scan_options scan_options = {
        .source = {.served = &reader->files,
                   .codec = options->codec,
                   .on_corrupt = options->on_corrupt,
                   .chunk_rows = tfos__schema_rows_for(reader->schema, options->batch_rows, options->batch_bytes),
                   .chunk_bytes = options->batch_bytes,
                   .range_start = options->range_start,
                   .range_end = options->range_end},
        .store = reader->store,
        .threads = threads,
        .ordered = options->ordered,
        .interrupted = options->interrupted,
        .interrupted_context = options->interrupted_context};
    if (options->exact) {
        TFOS_TRY(make_exact(reader, options, &scan_options, error));
    }
    tfos__scan_work work = {decode_chunk, drop_batch, reader};
    return tfos__scan_open(reader->paths, &scan_options, &work, &reader->scan, error);
}

/* Ends what start has begun, whether or not it succeeded. */
static void stop(tfos_reader *reader)
{
    tfos__scan_close(reader->scan);
    reader->scan = NULL;
    tfos__mixer_free(reader->mixer);
    reader->mixer = NULL;
    free(reader->parts);
    reader->parts = NULL;
    for (; reader->kept_count > 0; reader->kept_count--) {
        tfos_batch_free(reader->kept[reader->kept_count - 1]);
    }
    for (; reader->decoder_count > 0; reader->decoder_count--) {
        tfos__decoder_free(reader->decoders[reader->decoder_count - 1]);
    }
    free(reader->decoders);
    reader->decoders = NULL;
    tfos__store_give_pool(reader->store, reader->pool);
    reader->pool = NULL;
    tfos_schema_free(reader->schema);
    reader->schema = NULL;
}

/* Whether it pays to keep all batches, after some of them, of so many bytes: they are a small part of what is read. */
static bool pays(const tfos_reader *reader, int64_t bytes, int64_t most_bytes)
{
    enum { SMALL_PART = 8 };
    tfos_progress progress;
    tfos__scan_progress(reader->scan, &progress);
    double part = (double)progress.done_bytes / (double)progress.total_bytes;
    bool small = bytes <= atomic_load(&reader->read_bytes) / SMALL_PART || atomic_load(&reader->inflates);
    return small && (double)bytes <= (double)most_bytes * part;
}

/* Reads everything. LIMIT if that is more than is to be kept. */
static tfos_status keep_all(tfos_reader *reader, int64_t most_bytes, tfos_error *error)
{
    int64_t bytes = 0;
    for (;;) {
        void *result = NULL;
        tfos_status status =
            tfos__array_reserve(&reader->kept, reader->kept_count, &reader->kept_capacity, sizeof *reader->kept, error);
        status = status == TFOS_OK ? tfos__scan_next(reader->scan, &result, error) : status;
        if (status != TFOS_OK) {
            return status == TFOS_END ? TFOS_OK : status;
        }
        reader->kept[reader->kept_count++] = result;
        bytes += (int64_t)tfos_batch_bytes(result);
        if (!pays(reader, bytes, most_bytes)) {
            return tfos__fail(error, TFOS_LIMIT, "the batches would take more than %lld bytes", (long long)most_bytes);
        }
    }
}

static tfos_status guess_schema(tfos_reader *reader, const tfos_read_options *options, tfos_error *error)
{
    tfos_schema *guess;
    TFOS_TRY(tfos__schema_guess(reader->paths, options, &guess, error));
    return select_columns(guess, options, &reader->schema, error);
}

/* Reads everything while it finds out the schema; false where that does not go. Whatever is wrong is left to be told by
 * who does one after the other, but for the wish to stop. */
static tfos_status read_at_once(tfos_reader *reader, const tfos_read_options *options, bool *done, tfos_error *error)
{
    int64_t most_bytes;
    *done = false;
    TFOS_TRY(tfos__setting_number(TFOS__SETTING_RECORDS_KEEP_BYTES, NULL, &most_bytes, error));
    bool infers = options->schema == NULL && options->record != TFOS_RECORD_BYTES && options->infer_records == 0;
    bool some = options->columns != NULL;
    if (!infers || (some && options->column_count == 0) || options->on_corrupt == TFOS_ON_CORRUPT_SKIP ||
        most_bytes == 0 || options->exact || tfos__paths_check_twice(reader->paths, NULL) != TFOS_OK) {
        return TFOS_OK;
    }
    tfos_status status = guess_schema(reader, options, error);
    status = status == TFOS_OK ? start(reader, options, true, error) : status;
    status = status == TFOS_OK ? keep_all(reader, most_bytes, error) : status;
    *done = status == TFOS_OK;
    if (!*done) {
        stop(reader);
    }
    return status == TFOS_CANCELLED ? status : TFOS_OK;
}

static tfos_status open_parts(tfos_reader *reader, const tfos_paths *paths, const tfos_read_options *options,
                              tfos_error *error)
{
    bool done;
    TFOS_TRY(copy_paths(paths, &reader->paths, error));
    TFOS_TRY(tfos__file_system_take(options->files, &reader->files, error));
    TFOS_TRY(read_at_once(reader, options, &done, error));
    if (done) {
        return TFOS_OK;
    }
    TFOS_TRY(choose_schema(reader->paths, options, &reader->schema, error));
    return start(reader, options, false, error);
}

tfos_status tfos_reader_open(const tfos_paths *paths, const tfos_read_options *options, tfos_reader **out,
                             tfos_error *error)
{
    tfos_read_options settled;
    TFOS_TRY(tfos__read_options_take(options, &settled, error));
    TFOS_TRY(settle_options(&settled, error));
    tfos_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        return tfos__fail_memory(error, sizeof *reader);
    }
    atomic_init(&reader->references, 1);
    atomic_init(&reader->kept_next, 0);
    atomic_init(&reader->kept_rows, 0);
    atomic_init(&reader->cancelled, false);
    atomic_init(&reader->read_bytes, 0);
    atomic_init(&reader->inflates, false);
    pthread_mutex_init(&reader->next_lock, NULL);
    reader->on_corrupt = settled.on_corrupt;
    reader->store = tfos__store_retain(settled.store);
    tfos_status status = open_parts(reader, paths, &settled, error);
    if (status != TFOS_OK) {
        tfos_reader_close(reader);
        return status;
    }
    *out = reader;
    return TFOS_OK;
}

const tfos_schema *tfos_reader_schema(const tfos_reader *reader)
{
    return reader->schema;
}

/* The next of the batches that were kept, or of those that are read. */
static tfos_status next_batch(tfos_reader *reader, tfos_batch **out, tfos_error *error)
{
    void *result = NULL;
    size_t next = atomic_load(&reader->kept_next);
    if (next == reader->kept_count) {
        TFOS_TRY(tfos__scan_next(reader->scan, &result, error));
        *out = result;
        return TFOS_OK;
    }
    if (atomic_load(&reader->cancelled)) {
        return tfos__fail(error, TFOS_CANCELLED, "reading was cancelled");
    }
    *out = reader->kept[next];
    reader->kept[next] = NULL;
    atomic_fetch_add(&reader->kept_rows, (long long)tfos_batch_rows(*out));
    atomic_store(&reader->kept_next, next + 1);
    return TFOS_OK;
}

tfos_status tfos_reader_next(tfos_reader *reader, tfos_batch **out, tfos_error *error)
{
    if (!tfos__scan_is_mine(reader->scan)) {
        return tfos__fail(
            error, TFOS_INVALID,
            "the reader belongs to the process that this one was forked from, and its threads stayed there: open a "
            "reader in this process, or use threads=0");
    }
    pthread_mutex_lock(&reader->next_lock);
    tfos_status status = next_batch(reader, out, error);
    pthread_mutex_unlock(&reader->next_lock);
    if (status == TFOS_OK) {
        tfos__scan_count_memory(reader->scan, -(int64_t)tfos_batch_bytes(*out));
    }
    return status;
}

void tfos_reader_progress(const tfos_reader *reader, tfos_progress *out)
{
    tfos__scan_progress(reader->scan, out);
    size_t next = atomic_load(&reader->kept_next);
    if (next < reader->kept_count) {
        out->records = atomic_load(&reader->kept_rows);
        out->done_bytes = (int64_t)((double)out->done_bytes * (double)next / (double)reader->kept_count);
    }
}

void tfos_reader_cancel(tfos_reader *reader)
{
    atomic_store(&reader->cancelled, true);
    tfos__scan_cancel(reader->scan);
}

tfos_reader *tfos_reader_retain(tfos_reader *reader)
{
    atomic_fetch_add(&reader->references, 1);
    return reader;
}

void tfos_reader_close(tfos_reader *reader)
{
    if (reader == NULL || atomic_fetch_sub(&reader->references, 1) > 1) {
        return;
    }
    if (reader->scan != NULL && !tfos__scan_is_mine(reader->scan)) {
        return; /* in a forked child: what threads may hold locked is left as it is */
    }
    stop(reader);
    free(reader->kept);
    tfos_store_free(reader->store);
    tfos_paths_free(reader->paths);
    pthread_mutex_destroy(&reader->next_lock);
    free(reader);
}
