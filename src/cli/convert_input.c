/* Rows from TFRecord, CSV and JSON lines. Text files are read one after the other, in the calling thread. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/status.h"
#include "cli/convert.h"
#include "fs/fs.h"
#include "record/codec.h"
#include "record/json_lines.h"

enum { BATCH_ROWS = 1024, BATCH_BYTES = 16 << 20 };

struct tfos__convert_input {
    const tfos__convert_options *options;
    tfos__convert_format format;
    tfos__convert_format to;
    const tfos__csv_options *csv;
    const tfos_paths *paths;
    tfos_schema *schema;           /* of the data */
    tfos_schema *chosen;           /* of the batches */
    _Atomic(tfos_reader *) reader; /* of TFRecords; NULL until the first is asked for */
    /* Text: */
    size_t file; /* that is read next */
    tfos__stream *stream;
    tfos__text text;
    tfos__csv_reader *csv_reader;
    tfos__json_reader *json_reader;
    atomic_llong files_bytes; /* of files that are done */
    atomic_llong stream_bytes;
    atomic_llong rows;
};

/* ---- text files ---- */

static tfos_status read_stream(void *context, void *to, size_t bytes, size_t *got, tfos_error *error)
{
    tfos__convert_input *input = context;
    tfos_status status = tfos__stream_read(input->stream, to, bytes, got, error);
    atomic_store(&input->stream_bytes, tfos__stream_consumed(input->stream));
    return status;
}

static tfos_status open_text(tfos__convert_input *input, size_t file, tfos_error *error)
{
    const char *path = input->paths->path[file];
    TFOS_TRY(tfos__stream_open(NULL, path, (tfos_codec)input->options->common.codec, TFOS__CONTENT_TEXT, &input->stream,
                               error));
    tfos__text_init(&input->text, path, read_stream, input);
    return TFOS_OK;
}

static void close_text(tfos__convert_input *input)
{
    tfos__csv_reader_close(input->csv_reader);
    tfos__json_reader_close(input->json_reader);
    input->csv_reader = NULL;
    input->json_reader = NULL;
    tfos__text_reset(&input->text);
    tfos__stream_close(input->stream);
    input->stream = NULL;
    atomic_store(&input->stream_bytes, 0);
}

/* ---- schema of text files ---- */

static tfos_status survey_files(tfos__convert_input *input, tfos__csv_survey *csv, tfos__json_survey *json,
                                tfos_error *error)
{
    for (size_t i = 0; i < input->paths->count; i++) {
        TFOS_TRY(open_text(input, i, error));
        tfos_status status = csv != NULL ? tfos__csv_survey_add(csv, &input->text, error)
                                         : tfos__json_survey_add(json, &input->text, error);
        close_text(input);
        atomic_fetch_add(&input->files_bytes, input->paths->bytes[i]);
        TFOS_TRY(status);
    }
    return csv != NULL ? tfos__csv_survey_schema(csv, &input->schema, error)
                       : tfos__json_survey_schema(json, &input->schema, error);
}

/* A record has 32 bits for a number with a fraction, text as many as it takes: on the way from text to text none is
 * lost that a double has. */
static tfos_status widen(tfos__convert_input *input, tfos_error *error)
{
    tfos_schema *wide;
    TFOS_TRY(tfos_schema_new(tfos_schema_kind(input->schema), &wide, error));
    for (size_t i = 0; i < tfos_schema_field_count(input->schema); i++) {
        tfos_field field = *tfos_schema_field(input->schema, i);
        field.type = field.type == TFOS_TYPE_FLOAT ? TFOS_TYPE_DOUBLE : field.type;
        tfos_status status = tfos_schema_add(wide, &field, error);
        if (status != TFOS_OK) {
            tfos_schema_free(wide);
            return status;
        }
    }
    tfos_schema_free(input->schema);
    input->schema = wide;
    return TFOS_OK;
}

static tfos_status survey(tfos__convert_input *input, tfos_error *error)
{
    tfos__csv_survey *csv = NULL;
    tfos__json_survey *json = NULL;
    TFOS_TRY(tfos__paths_check_twice(input->paths, error));
    tfos_status status = input->format == CONVERT_CSV ? tfos__csv_survey_new(input->csv, &csv, error)
                                                      : tfos__json_survey_new(&json, error);
    if (status == TFOS_OK) {
        tfos__cli_progress_start("looking for types", tfos__convert_input_progress, input,
                                 input->options->common.quiet);
        status = survey_files(input, csv, json, error);
        tfos__cli_progress_stop();
        atomic_store(&input->files_bytes, 0);
    }
    tfos__csv_survey_free(csv);
    tfos__json_survey_free(json);
    return status == TFOS_OK && input->to != CONVERT_TFRECORD ? widen(input, error) : status;
}

static int open_text_input(tfos__convert_input *input)
{
    tfos_error error;
    const tfos__cli_common *common = &input->options->common;
    if (common->schema != NULL) {
        int code = tfos__cli_load_schema(common->schema, &input->schema);
        if (code != CLI_OK) {
            return code;
        }
    } else if (survey(input, &error) != TFOS_OK) {
        return tfos__cli_fail(&error);
    }
    return tfos__cli_choose_columns(common, input->schema, &input->chosen);
}

/* ---- both ---- */

static int look_at_records(tfos__convert_input *input)
{
    return tfos__cli_find_schema(&input->options->common, input->paths, 0, true, &input->schema, &input->chosen);
}

static tfos_status open_reader(tfos__convert_input *input, tfos_error *error)
{
    tfos_read_options read;
    tfos__cli_read_options(&input->options->common, &read);
    read.schema = input->chosen;
    read.batch_rows = input->options->batch_rows;
    read.exact = input->options->exact;
    tfos_reader *reader;
    TFOS_TRY(tfos_reader_open(input->paths, &read, &reader, error));
    atomic_store(&input->reader, reader); /* the bar asks it from now on */
    return TFOS_OK;
}

int tfos__convert_input_open(const tfos__convert_options *options, tfos__convert_format format, tfos__convert_format to,
                             const tfos__csv_options *csv, const tfos_paths *paths, tfos__convert_input **out)
{
    tfos__convert_input *input = calloc(1, sizeof *input);
    if (input == NULL) {
        tfos__cli_note("out of memory");
        return CLI_SYSTEM;
    }
    input->options = options;
    input->format = format;
    input->to = to;
    input->csv = csv;
    input->paths = paths;
    int code = format == CONVERT_TFRECORD ? look_at_records(input) : open_text_input(input);
    if (code != CLI_OK) {
        tfos__convert_input_close(input);
        return code;
    }
    *out = input;
    return CLI_OK;
}

const tfos_schema *tfos__convert_input_schema(const tfos__convert_input *input)
{
    return input->chosen;
}

void tfos__convert_input_declare(tfos__convert_input *input, tfos_schema *schema)
{
    tfos_schema_free(input->chosen);
    input->chosen = schema;
}

/* Opens the next text file and its reader; END when there is none. */
static tfos_status next_file(tfos__convert_input *input, tfos_error *error)
{
    if (input->file == input->paths->count) {
        return TFOS_END;
    }
    TFOS_TRY(open_text(input, input->file++, error));
    if (input->format == CONVERT_CSV) {
        return tfos__csv_reader_open(input->csv, input->schema, input->chosen, &input->text, &input->csv_reader, error);
    }
    int64_t rows = input->options->batch_rows > 0 ? input->options->batch_rows : BATCH_ROWS;
    return tfos__json_reader_open(input->chosen, rows, BATCH_BYTES, &input->text, &input->json_reader, error);
}

static tfos_status next_text(tfos__convert_input *input, tfos_batch **out, tfos_error *error)
{
    for (;;) {
        if (input->stream == NULL) {
            TFOS_TRY(next_file(input, error));
        }
        tfos_status status = input->csv_reader != NULL ? tfos__csv_reader_next(input->csv_reader, out, error)
                                                       : tfos__json_reader_next(input->json_reader, out, error);
        if (status != TFOS_END) {
            return status;
        }
        close_text(input);
        atomic_fetch_add(&input->files_bytes, input->paths->bytes[input->file - 1]);
    }
}

tfos_status tfos__convert_input_next(tfos__convert_input *input, tfos_batch **out, tfos_error *error)
{
    if (input->format == CONVERT_TFRECORD) {
        TFOS_TRY(input->reader == NULL ? open_reader(input, error) : TFOS_OK);
        return tfos_reader_next(input->reader, out, error);
    }
    tfos_status status = next_text(input, out, error);
    if (status == TFOS_OK) {
        atomic_fetch_add(&input->rows, tfos_batch_rows(*out));
    }
    return status;
}

void tfos__convert_input_progress(void *context, tfos_progress *out)
{
    tfos__convert_input *input = context;
    const tfos_reader *reader = atomic_load(&input->reader);
    if (reader != NULL) {
        tfos_reader_progress(reader, out);
        return;
    }
    *out = (tfos_progress){.total_bytes = input->paths->total_bytes,
                           .done_bytes = atomic_load(&input->files_bytes) + atomic_load(&input->stream_bytes),
                           .records = atomic_load(&input->rows)};
}

void tfos__convert_input_close(tfos__convert_input *input)
{
    if (input != NULL) {
        close_text(input);
        tfos_reader_close(input->reader);
        tfos_schema_free(input->schema);
        tfos_schema_free(input->chosen);
        free(input);
    }
}
