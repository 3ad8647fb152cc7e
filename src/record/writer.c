/* Writer: rows are encoded straight into a buffer of framed records, which goes through the codec to a hidden file. */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/status.h"
#include "column/arrow_import.h"
#include "fs/fs.h"
#include "record/codec.h"
#include "record/encode.h"
#include "record/frame.h"
#include "record/index.h"

enum { FLUSH_BYTES = 1 << 20, ARROW_ROWS = 4096, POLL_MS = 100 };

struct tfos_writer {
    tfos__output *output;
    tfos__deflater *deflater; /* NULL: uncompressed */
    tfos__index_maker *index; /* NULL: none is asked for */
    tfos_file_system files;
    char *path;
    tfos_record_kind kind; /* AUTO until the first rows tell */
    tfos__buffer framed;
    tfos__buffer deflated;
    tfos__encoder *encoder;
    tfos_schema *schema; /* of the encoder */
    int64_t records;
    bool (*interrupted)(void *context);
    void *interrupted_context;
    int64_t asked_ms; /* when that was asked last */
    bool failed;      /* the first failure; nothing is written after it */
    tfos_error failure;
};

static const tfos_write_options defaults = {.record = TFOS_RECORD_AUTO, .codec = TFOS_CODEC_AUTO, .level = -1};

void tfos_write_options_init(tfos_write_options *options, size_t size)
{
    tfos__options_init(options, size, &defaults, sizeof defaults);
}

static void free_writer(tfos_writer *writer)
{
    tfos__deflater_free(writer->deflater);
    if (writer->index != NULL) {
        tfos__index_maker_reset(writer->index);
        free(writer->index);
    }
    free(writer->path);
    tfos__encoder_free(writer->encoder);
    tfos_schema_free(writer->schema);
    tfos__buffer_reset(&writer->framed);
    tfos__buffer_reset(&writer->deflated);
    free(writer);
}

static tfos_status prepare_index(tfos_writer *writer, const char *path, tfos_codec codec, tfos_error *error)
{
    if (codec != TFOS_CODEC_NONE) {
        return tfos__fail(error, TFOS_INVALID,
                          "%s: a file that is compressed (%s) cannot be indexed: ask for one of the two", path,
                          tfos_codec_name(codec));
    }
    writer->index = calloc(1, sizeof *writer->index);
    writer->path = strdup(path);
    return writer->index != NULL && writer->path != NULL ? TFOS_OK : tfos__fail_memory(error, sizeof *writer->index);
}

static tfos_status open_parts(tfos_writer *writer, const char *path, const tfos_write_options *options,
                              tfos_error *error)
{
    tfos_codec codec = options->codec == TFOS_CODEC_AUTO ? tfos__codec_of_name(path) : options->codec;
    TFOS_TRY(tfos__file_system_take(options->files, &writer->files, error));
    if (options->index) {
        TFOS_TRY(prepare_index(writer, path, codec, error));
    }
    if (codec != TFOS_CODEC_NONE) {
        TFOS_TRY(tfos__deflater_new(codec, options->level, &writer->deflater, error));
    }
    return tfos__output_open(&writer->files, path, options->overwrite, &writer->output, error);
}

tfos_status tfos_writer_open(const char *path, const tfos_write_options *options, tfos_writer **out, tfos_error *error)
{
    tfos_write_options taken;
    TFOS_TRY(tfos__options_take("tfos_write_options", options, &defaults, &taken, sizeof taken, error));
    options = &taken;
    if (options->level != -1 && (options->level < 1 || options->level > 9)) {
        return tfos__fail(error, TFOS_INVALID, "the level of compression must be from 1 to 9, or -1, found %d",
                          (int)options->level);
    }
    tfos_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL) {
        return tfos__fail_memory(error, sizeof *writer);
    }
    writer->kind = options->record;
    writer->interrupted = options->interrupted;
    writer->interrupted_context = options->interrupted_context;
    tfos_status status = open_parts(writer, path, options, error);
    if (status != TFOS_OK) {
        free_writer(writer);
        return status;
    }
    *out = writer;
    return TFOS_OK;
}

/* Sends what is in the buffer to the file. */
static tfos_status flush(tfos_writer *writer, bool last, tfos_error *error)
{
    tfos_status status = TFOS_OK;
    if (writer->index != NULL) {
        tfos__index_maker_see(writer->index, writer->framed.data, writer->framed.size);
    }
    if (writer->deflater == NULL) {
        status = tfos__output_write(writer->output, writer->framed.data, writer->framed.size, error);
    } else {
        writer->deflated.size = 0;
        status = tfos__deflater_run(writer->deflater, writer->framed.data, writer->framed.size, last, &writer->deflated,
                                    error);
        if (status == TFOS_OK) {
            status = tfos__output_write(writer->output, writer->deflated.data, writer->deflated.size, error);
        }
    }
    writer->framed.size = 0;
    return status;
}

/* Remembers the first failure, and repeats it for every call after it. */
static tfos_status settle(tfos_writer *writer, tfos_status status, const tfos_error *trouble, tfos_error *error)
{
    if (status != TFOS_OK && !writer->failed) {
        writer->failed = true;
        writer->failure = *trouble;
    }
    if (writer->failed && error != NULL) {
        *error = writer->failure;
    }
    return writer->failed ? writer->failure.status : TFOS_OK;
}

/* ---- records ---- */

/* Room for a header; returns where the payload begins. */
static tfos_status begin_record(tfos_writer *writer, size_t *payload, tfos_error *error)
{
    size_t start = writer->framed.size;
    if (writer->index != NULL) {
        TFOS_TRY(tfos__index_maker_add(writer->index, writer->index->file_bytes + (int64_t)start, error));
    }
    TFOS_TRY(tfos__buffer_reserve(&writer->framed, start + TFOS__FRAME_OVERHEAD_BYTES, error));
    writer->framed.size = start + TFOS__FRAME_HEADER_BYTES;
    *payload = writer->framed.size;
    return TFOS_OK;
}

static tfos_status check_length(const tfos_writer *writer, size_t bytes, tfos_error *error)
{
    if (bytes > TFOS__FRAME_MAX_PAYLOAD_BYTES) {
        return tfos__fail(error, TFOS_LIMIT, "record %lld would have %zu bytes, the limit is %llu",
                          (long long)writer->records, bytes, (unsigned long long)TFOS__FRAME_MAX_PAYLOAD_BYTES);
    }
    return TFOS_OK;
}

static tfos_status end_record(tfos_writer *writer, size_t payload, tfos_error *error)
{
    tfos__buffer *framed = &writer->framed;
    size_t bytes = framed->size - payload;
    TFOS_TRY(check_length(writer, bytes, error));
    TFOS_TRY(tfos__buffer_reserve(framed, framed->size + TFOS__FRAME_FOOTER_BYTES, error));
    tfos__frame_put_header(framed->data + payload - TFOS__FRAME_HEADER_BYTES, bytes);
    tfos__frame_put_footer(framed->data + framed->size, framed->data + payload, bytes);
    framed->size += TFOS__FRAME_FOOTER_BYTES;
    writer->records++;
    return framed->size >= FLUSH_BYTES ? flush(writer, false, error) : TFOS_OK;
}

static tfos_status write_record(tfos_writer *writer, const void *data, size_t bytes, tfos_error *error)
{
    size_t payload;
    TFOS_TRY(check_length(writer, bytes, error)); /* before gigabytes are copied */
    TFOS_TRY(begin_record(writer, &payload, error));
    TFOS_TRY(tfos__buffer_append(&writer->framed, data, bytes, error));
    return end_record(writer, payload, error);
}

tfos_status tfos_writer_write_record(tfos_writer *writer, const void *data, size_t bytes, tfos_error *error)
{
    tfos_error trouble;
    tfos_status status = writer->failed ? TFOS_OK : write_record(writer, data, bytes, &trouble);
    return settle(writer, status, &trouble, error);
}

/* ---- batches ---- */

static tfos_status use_schema(tfos_writer *writer, const tfos_schema *schema, tfos_error *error)
{
    if (writer->schema != NULL && tfos_schema_equal(writer->schema, schema)) {
        return TFOS_OK;
    }
    tfos__encoder *encoder = NULL;
    TFOS_TRY(tfos__encoder_new(schema, &encoder, error));
    tfos__encoder_free(writer->encoder);
    tfos_schema_free(writer->schema);
    writer->encoder = encoder;
    writer->schema = tfos__schema_retain(schema);
    return TFOS_OK;
}

static tfos_status write_batch(tfos_writer *writer, const tfos_batch *batch, tfos_error *error)
{
    tfos_record_kind kind = tfos_schema_kind(tfos_batch_schema(batch));
    if (writer->kind == TFOS_RECORD_AUTO) {
        writer->kind = kind;
    }
    if (writer->kind != kind) {
        return tfos__fail(error, TFOS_MISMATCH, "expected rows for records of kind %s, found %s",
                          tfos_record_kind_name(writer->kind), tfos_record_kind_name(kind));
    }
    TFOS_TRY(use_schema(writer, tfos_batch_schema(batch), error));
    for (int64_t row = 0; row < tfos_batch_rows(batch); row++) {
        size_t payload;
        TFOS_TRY(begin_record(writer, &payload, error));
        TFOS_TRY(tfos__encoder_row(writer->encoder, batch, row, &writer->framed, error));
        TFOS_TRY(end_record(writer, payload, error));
    }
    return TFOS_OK;
}

tfos_status tfos_writer_write_batch(tfos_writer *writer, const tfos_batch *batch, tfos_error *error)
{
    tfos_error trouble;
    tfos_status status = writer->failed ? TFOS_OK : write_batch(writer, batch, &trouble);
    return settle(writer, status, &trouble, error);
}

static tfos_status check_interrupted(tfos_writer *writer, tfos_error *error)
{
    int64_t now = writer->interrupted != NULL ? tfos__clock_ms() : 0;
    if (now - writer->asked_ms < POLL_MS) {
        return TFOS_OK;
    }
    writer->asked_ms = now;
    return writer->interrupted(writer->interrupted_context) ? tfos__fail(error, TFOS_CANCELLED, "interrupted")
                                                            : TFOS_OK;
}

/* Rows of an Arrow array are imported a few thousand at a time, so that memory stays bounded whatever the array's
 * length. */
static tfos_status write_arrow(tfos_writer *writer, const struct ArrowArray *array, const struct ArrowSchema *type,
                               tfos_error *error)
{
    tfos_schema *schema = NULL;
    TFOS_TRY(tfos_schema_import(type, writer->kind, &schema, error));
    tfos_status status = TFOS_OK;
    for (int64_t row = 0; row < array->length && status == TFOS_OK; row += ARROW_ROWS) {
        int64_t rows = tfos__min_i64(ARROW_ROWS, array->length - row);
        tfos_batch *batch;
        status = check_interrupted(writer, error);
        status = status == TFOS_OK ? tfos__batch_import(array, type, schema, row, rows, &batch, error) : status;
        if (status == TFOS_OK) {
            status = write_batch(writer, batch, error);
            tfos_batch_free(batch);
        }
    }
    tfos_schema_free(schema);
    return status;
}

tfos_status tfos_writer_write_arrow(tfos_writer *writer, const struct ArrowArray *array,
                                    const struct ArrowSchema *schema, tfos_error *error)
{
    tfos_error trouble;
    tfos_status status = writer->failed ? TFOS_OK : write_arrow(writer, array, schema, &trouble);
    return settle(writer, status, &trouble, error);
}

int64_t tfos_writer_records(const tfos_writer *writer)
{
    return writer->records;
}

/* ---- the end ---- */

tfos_status tfos_writer_close(tfos_writer *writer, tfos_error *error)
{
    if (writer == NULL) {
        return TFOS_OK;
    }
    tfos_error trouble;
    tfos_status status = writer->failed ? TFOS_OK : flush(writer, true, &trouble);
    status = settle(writer, status, &trouble, error);
    if (status != TFOS_OK) {
        tfos__output_abort(writer->output);
    } else {
        status = tfos__output_commit(writer->output, error);
        if (status == TFOS_OK && writer->index != NULL) {
            status = tfos__index_maker_write(writer->index, &writer->files, writer->path, error);
        }
    }
    free_writer(writer);
    return status;
}

void tfos_writer_abort(tfos_writer *writer)
{
    if (writer != NULL) {
        tfos__output_abort(writer->output);
        free_writer(writer);
    }
}
