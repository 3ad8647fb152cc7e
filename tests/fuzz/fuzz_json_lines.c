/* JSON lines: any bytes are read or refused, and what was read is the same after it has been written and read again.
 *
 * The first byte says how many bytes a read gets; the rest is the file. */
#include "fuzz_tools.h"
#include "record/json_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static tfos_schema *survey(memory from)
{
    tfos__text text;
    tfos__json_survey *survey;
    tfos_schema *schema = NULL;
    tfos_error error = {0};
    require(tfos__json_survey_new(&survey, NULL) == TFOS_OK, "no survey");
    tfos__text_init(&text, "fuzz", read_memory, &from);
    tfos_status status = tfos__json_survey_add(survey, &text, &error);
    if (status == TFOS_OK) {
        status = tfos__json_survey_schema(survey, &schema, &error);
    }
    require(status == TFOS_OK || error.message[0] != '\0', "a failure without a message");
    tfos__json_survey_free(survey);
    tfos__text_reset(&text);
    return schema;
}

static tfos_status read_rows(const tfos_schema *schema, memory from, tfos__buffer *rows)
{
    tfos__text text;
    tfos__json_reader *reader;
    tfos_error error = {0};
    tfos__text_init(&text, "fuzz", read_memory, &from);
    tfos_status status = tfos__json_reader_open(schema, 3, 1 << 20, &text, &reader, &error);
    while (status == TFOS_OK) {
        tfos_batch *batch;
        status = tfos__json_reader_next(reader, &batch, &error);
        for (int64_t row = 0; status == TFOS_OK && row < tfos_batch_rows(batch); row++) {
            require(tfos__json_write_row(batch, row, rows, NULL) == TFOS_OK, "a row cannot be written");
            require(tfos__buffer_append(rows, "\n", 1, NULL) == TFOS_OK, "no memory");
        }
        if (status == TFOS_OK) {
            tfos_batch_free(batch);
        }
    }
    require(status == TFOS_END || error.message[0] != '\0', "a failure without a message");
    tfos__json_reader_close(reader);
    tfos__text_reset(&text);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 1) {
        return 0;
    }
    memory from = {.bytes = data + 1, .left = bytes - 1, .step = (size_t)data[0] + 1};
    tfos_schema *schema = survey(from);
    tfos__buffer rows = {0};
    tfos__buffer again = {0};
    if (schema != NULL && read_rows(schema, from, &rows) == TFOS_END && rows.size > 0) {
        memory written = {.bytes = rows.data, .left = rows.size, .step = SIZE_MAX};
        require(read_rows(schema, written, &again) == TFOS_END, "what was written cannot be read");
        require(again.size == rows.size && memcmp(again.data, rows.data, rows.size) == 0,
                "what was written reads as something else");
    }
    tfos__buffer_reset(&rows);
    tfos__buffer_reset(&again);
    tfos_schema_free(schema);
    return 0;
}
