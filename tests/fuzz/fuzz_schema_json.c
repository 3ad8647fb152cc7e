/* Schemas as JSON: any text is refused with a message, or is a schema that is written and read again the same. */
#include "fuzz_tools.h"

/* A note of rows that is read can be written, and says the same then. */
static void check_rows(const tfos_schema *schema, tfos_schema *other)
{
    const tfos_rows *rows;
    const tfos_rows *again;
    tfos_error error = {0};
    if (tfos_schema_rows(schema, &rows, &error) != TFOS_OK) {
        require(error.status == TFOS_CORRUPT && error.message[0] != '\0', "a note is refused without a message");
        return;
    }
    if (rows->shape != TFOS_ROW_NONE && tfos_schema_set_rows(other, rows, NULL) == TFOS_OK) {
        require(tfos_schema_rows(other, &again, NULL) == TFOS_OK, "a note that was written cannot be read");
        require(again->shape == rows->shape && again->count == rows->count, "a note says something else");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_export(const tfos_schema *schema)
{
    struct ArrowSchema type;
    require(tfos_schema_export(schema, &type, NULL) == TFOS_OK, "a schema cannot be exported");
    require(type.n_children == (int64_t)tfos_schema_field_count(schema), "other columns than the schema");
    type.release(&type);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    tfos_schema *schema = NULL;
    tfos_schema *again = NULL;
    tfos_error error = {0};
    char *text = NULL;
    char *text_again = NULL;
    if (tfos_schema_from_json((const char *)data, bytes, &schema, &error) != TFOS_OK) {
        require(schema == NULL && error.status != TFOS_OK && error.message[0] != '\0', "a failure without a message");
        require(tfos__utf8_valid_prefix(error.message, strlen(error.message)) == strlen(error.message),
                "a message that is no text");
        return 0;
    }
    require(tfos_schema_to_json(schema, &text, NULL) == TFOS_OK, "a schema cannot be written");
    require(tfos_schema_from_json(text, strlen(text), &again, NULL) == TFOS_OK, "what was written cannot be read");
    require(tfos_schema_to_json(again, &text_again, NULL) == TFOS_OK, "a schema cannot be written");
    require(strcmp(text, text_again) == 0, "what was written reads as something else");
    require(tfos_schema_equal(schema, again), "what was written is another schema");
    check_export(schema);
    check_rows(schema, again);
    tfos_string_free(text);
    tfos_string_free(text_again);
    tfos_schema_free(schema);
    tfos_schema_free(again);
    return 0;
}
