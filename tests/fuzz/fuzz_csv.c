/* CSV: any bytes are read or refused, and what was read is the same after it has been written and read again.
 *
 * The first byte chooses the options, the second how many bytes a read gets; the rest is the file. */
#include "fuzz_tools.h"
#include "record/csv.h"
#include "record/json_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static tfos_schema *survey(const tfos__csv_options *options, memory from)
{
    tfos__text text;
    tfos__csv_survey *survey = NULL;
    tfos_schema *schema = NULL;
    tfos_error error = {0};
    tfos__text_init(&text, "fuzz", read_memory, &from);
    tfos_status status = tfos__csv_survey_new(options, &survey, &error);
    if (status == TFOS_OK) {
        status = tfos__csv_survey_add(survey, &text, &error);
    }
    if (status == TFOS_OK) {
        status = tfos__csv_survey_schema(survey, &schema, &error);
    }
    require(status == TFOS_OK || error.message[0] != '\0', "a failure without a message");
    tfos__csv_survey_free(survey);
    tfos__text_reset(&text);
    return schema;
}

/* Appends the rows as JSON to `rows` and, unless it is NULL, as CSV to `csv`. */
static tfos_status read_rows(const tfos__csv_options *options, const tfos_schema *schema, memory from,
                             tfos__buffer *rows, tfos__buffer *csv)
{
    tfos__text text;
    tfos__csv_reader *reader = NULL;
    tfos_error error = {0};
    tfos__text_init(&text, "fuzz", read_memory, &from);
    tfos_status status = tfos__csv_reader_open(options, schema, schema, &text, &reader, &error);
    while (status == TFOS_OK) {
        tfos_batch *batch;
        status = tfos__csv_reader_next(reader, &batch, &error);
        for (int64_t row = 0; status == TFOS_OK && row < tfos_batch_rows(batch); row++) {
            require(tfos__json_write_row(batch, row, rows, NULL) == TFOS_OK, "a row cannot be shown");
            require(csv == NULL || tfos__csv_write_row(batch, row, ',', csv, NULL) == TFOS_OK,
                    "a row cannot be written");
        }
        if (status == TFOS_OK) {
            tfos_batch_free(batch);
        }
    }
    require(status == TFOS_END || error.message[0] != '\0', "a failure without a message");
    tfos__csv_reader_close(reader);
    tfos__text_reset(&text);
    return status;
}

static void check_round_trip(const tfos_schema *schema, const tfos__buffer *csv, const tfos__buffer *rows)
{
    tfos__csv_options options;
    tfos__buffer again = {0};
    tfos__csv_options_init(&options);
    memory from = {.bytes = csv->data, .left = csv->size, .step = SIZE_MAX};
    require(read_rows(&options, schema, from, &again, NULL) == TFOS_END, "what was written cannot be read");
    require(again.size == rows->size && (rows->size == 0 || memcmp(again.data, rows->data, rows->size) == 0),
            "what was written reads as something else");
    tfos__buffer_reset(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 2) {
        return 0;
    }
    tfos__csv_options options;
    tfos__csv_fold fold = {.name = "image", .start = 1, .end = 3};
    tfos__csv_options_init(&options);
    options.header = (data[0] & 1) != 0;
    options.delimiter = ",\t;|"[data[0] >> 1 & 3];
    options.label = (tfos__csv_label)((data[0] >> 3 & 3) % 3);
    options.folds = &fold;
    options.fold_count = (data[0] & 32) != 0;
    if (options.header) {
        fold.first = "b";
        fold.last = "c";
    }
    options.batch_rows = (data[0] & 64) != 0 ? 1 : 1000;
    memory from = {.bytes = data + 2, .left = bytes - 2, .step = (size_t)data[1] + 1};
    tfos_schema *schema = survey(&options, from);
    tfos__buffer rows = {0};
    tfos__buffer csv = {0};
    if (schema != NULL) {
        /* A fold may make a name that another column has. */
        bool written = tfos__csv_write_header(schema, ',', &csv, NULL) == TFOS_OK;
        require(written || (options.header && options.fold_count > 0), "the header cannot be written");
        /* A missing string in a file of one column cannot be told from an empty one. */
        bool read = read_rows(&options, schema, from, &rows, &csv) == TFOS_END;
        if (read && written && tfos_schema_field_count(schema) > 1) {
            check_round_trip(schema, &csv, &rows);
        }
    }
    tfos__buffer_reset(&rows);
    tfos__buffer_reset(&csv);
    tfos_schema_free(schema);
    return 0;
}
