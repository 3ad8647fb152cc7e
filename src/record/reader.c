/* Reader: a scan whose work is decoding, and whose results are batches. */
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
#include "record/scan.h"

struct tfos_reader {
    atomic_int references;
    tfos_paths *paths;
    tfos_schema *schema;
    tfos_file_system files;
    tfos_on_corrupt on_corrupt;
    tfos__batch_pool *pool;
    int decoder_count;
    tfos__decoder **decoders; /* one for each thread */
    tfos__scan *scan;
    pthread_mutex_t next_lock; /* callers of tfos_reader_next take turns */
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

static tfos_status open_parts(tfos_reader *reader, const tfos_paths *paths, const tfos_read_options *options,
                              tfos_error *error)
{
    TFOS_TRY(copy_paths(paths, &reader->paths, error));
    TFOS_TRY(tfos__file_system_take(options->files, &reader->files, error));
    TFOS_TRY(choose_schema(reader->paths, options, &reader->schema, error));
    int threads = options->threads;
    TFOS_TRY(tfos__batch_pool_new(reader->schema, tfos__scan_workers(threads) + 2, &reader->pool, error));
    int count = tfos__scan_workers(threads);
    reader->decoders = calloc((size_t)count, sizeof *reader->decoders);
    if (reader->decoders == NULL) {
        return tfos__fail_memory(error, (size_t)count * sizeof *reader->decoders);
    }
    for (; reader->decoder_count < count; reader->decoder_count++) {
        TFOS_TRY(tfos__decoder_new(reader->schema, &reader->decoders[reader->decoder_count], error));
    }
    tfos__scan_options scan_options = {
        .source = {.served = &reader->files,
                   .codec = options->codec,
                   .on_corrupt = options->on_corrupt,
                   .chunk_rows = tfos__schema_rows_for(reader->schema, options->batch_rows, options->batch_bytes),
                   .chunk_bytes = options->batch_bytes,
                   .range_start = options->range_start,
                   .range_end = options->range_end},
        .threads = threads,
        .ordered = options->ordered,
        .interrupted = options->interrupted,
        .interrupted_context = options->interrupted_context};
    tfos__scan_work work = {decode_chunk, drop_batch, reader};
    return tfos__scan_open(reader->paths, &scan_options, &work, &reader->scan, error);
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
    pthread_mutex_init(&reader->next_lock, NULL);
    reader->on_corrupt = settled.on_corrupt;
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

tfos_status tfos_reader_next(tfos_reader *reader, tfos_batch **out, tfos_error *error)
{
    void *result = NULL;
    if (!tfos__scan_is_mine(reader->scan)) {
        return tfos__fail(
            error, TFOS_INVALID,
            "the reader belongs to the process that this one was forked from, and its threads stayed there: open a "
            "reader in this process, or use threads=0");
    }
    pthread_mutex_lock(&reader->next_lock);
    tfos_status status = tfos__scan_next(reader->scan, &result, error);
    pthread_mutex_unlock(&reader->next_lock);
    if (status == TFOS_OK) {
        *out = result;
        tfos__scan_count_memory(reader->scan, -(int64_t)tfos_batch_bytes(*out));
    }
    return status;
}

void tfos_reader_progress(const tfos_reader *reader, tfos_progress *out)
{
    tfos__scan_progress(reader->scan, out);
}

void tfos_reader_cancel(tfos_reader *reader)
{
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
    tfos__scan_close(reader->scan);
    for (int i = 0; i < reader->decoder_count; i++) {
        tfos__decoder_free(reader->decoders[i]);
    }
    free(reader->decoders);
    tfos__batch_pool_free(reader->pool);
    tfos_schema_free(reader->schema);
    tfos_paths_free(reader->paths);
    pthread_mutex_destroy(&reader->next_lock);
    free(reader);
}
