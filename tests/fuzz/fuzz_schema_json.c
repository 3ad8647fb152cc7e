/* Schemas as JSON: any text is refused with a message, or is a schema that is written and read again the same. */
#include "fuzz_tools.h"

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
    check_export(schema);
    tfos_string_free(text);
    tfos_string_free(text_again);
    tfos_schema_free(schema);
    tfos_schema_free(again);
    return 0;
}
