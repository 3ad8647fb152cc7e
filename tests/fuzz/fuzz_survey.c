/* Findings of surveys, as they travel: any lines are refused with a message, or add up to findings that are exported
 * and imported again the same, and to a schema if they agree. */
#include "fuzz_tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require_message(const tfos_error *error)
{
    size_t length = strlen(error->message);
    require(error->status != TFOS_OK && length > 0, "a failure without a message");
    require(tfos__utf8_valid_prefix(error->message, length) == length, "a message that is no text");
}

static void check_schema(const tfos_survey *survey)
{
    tfos_schema *schema = NULL;
    tfos_error error = {0};
    char *text = NULL;
    if (tfos_survey_schema(survey, "somewhere", &schema, &error) != TFOS_OK) {
        require(schema == NULL, "a schema after a failure");
        require_message(&error);
        return;
    }
    require(tfos_survey_records(survey) > 0, "a schema of no records");
    require(tfos_schema_to_json(schema, &text, NULL) == TFOS_OK, "a schema cannot be written");
    tfos_string_free(text);
    tfos_schema_free(schema);
}

static void check_export(const tfos_survey *survey)
{
    tfos_survey *again;
    char *text = NULL;
    char *text_again = NULL;
    require(tfos_survey_new(TFOS_RECORD_AUTO, &again, NULL) == TFOS_OK, "no survey");
    require(tfos_survey_export(survey, &text, NULL) == TFOS_OK, "findings cannot be exported");
    require(tfos_survey_add(again, text, strlen(text), NULL) == TFOS_OK, "what was exported cannot be imported");
    require(tfos_survey_export(again, &text_again, NULL) == TFOS_OK, "findings cannot be exported");
    require(strcmp(text, text_again) == 0, "what was exported is imported as something else");
    tfos_string_free(text);
    tfos_string_free(text_again);
    tfos_survey_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    tfos_survey *survey;
    require(tfos_survey_new(TFOS_RECORD_AUTO, &survey, NULL) == TFOS_OK, "no survey");
    bool whole = true;
    for (size_t at = 0; at < bytes && whole;) {
        const uint8_t *end = memchr(data + at, '\n', bytes - at);
        size_t line = end != NULL ? (size_t)(end - data) - at : bytes - at;
        tfos_error error = {0};
        whole = tfos_survey_add(survey, (const char *)data + at, line, &error) == TFOS_OK;
        if (!whole) {
            require_message(&error);
        }
        at += line + 1;
    }
    if (whole) {
        check_export(survey);
        check_schema(survey);
    }
    tfos_survey_free(survey);
    return 0;
}
