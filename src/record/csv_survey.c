/* The schema of CSV files: one pass that notes, for every column, which kinds of values it has. */
#include <stdlib.h>

#include "record/csv_scan.h"
#include "record/number.h"

enum { SAW_NULL = 1, SAW_INT = 2, SAW_BIG = 4, SAW_REAL = 8, SAW_TEXT = 16 };

struct tfos__csv_survey {
    const tfos__csv_options *options;
    tfos__csv_columns columns; /* of the first file that has any */
    uint8_t *saw;
    char *file; /* the name of that file */
};

tfos_status tfos__csv_survey_new(const tfos__csv_options *options, tfos__csv_survey **out, tfos_error *error)
{
    TFOS_TRY(tfos__csv_options_check(options, error));
    tfos__csv_survey *survey = calloc(1, sizeof *survey);
    if (survey == NULL) {
        return tfos__fail_memory(error, sizeof *survey);
    }
    survey->options = options;
    *out = survey;
    return TFOS_OK;
}

void tfos__csv_survey_free(tfos__csv_survey *survey)
{
    if (survey != NULL) {
        tfos__csv_columns_reset(&survey->columns);
        free(survey->saw);
        free(survey->file);
        free(survey);
    }
}

static uint8_t look(const tfos__csv_cell *cell)
{
    if (cell->bytes == 0) {
        return cell->quoted ? SAW_TEXT : SAW_NULL;
    }
    int64_t integer;
    double real;
    switch (tfos__number_parse(cell->text, cell->bytes, &integer, &real)) {
    case TFOS__NUMBER_INT:
        return SAW_INT;
    case TFOS__NUMBER_BIG:
        return SAW_BIG;
    case TFOS__NUMBER_REAL:
    case TFOS__NUMBER_SPECIAL:
        return SAW_REAL;
    case TFOS__NUMBER_NONE:
        break;
    }
    return SAW_TEXT;
}

/* Whether the field at `at` is an integer of few digits, as most are; *next is then behind its delimiter. */
static inline bool is_short_int(char *at, const char *end, char delimiter, char **next)
{
    at += *at == '-';
    char *digits = at;
    while ((unsigned)(unsigned char)*at - '0' < 10) {
        at++;
    }
    *next = at + 1;
    return at > digits && at - digits <= 18 && (at == end || *at == delimiter);
}

static tfos_status look_at_record(tfos__csv_survey *survey, const tfos__text *text, tfos__csv_record *record,
                                  tfos_error *error)
{
    char delimiter = survey->options->delimiter;
    size_t count = survey->columns.count;
    size_t at = 0;
    for (; at < count && !tfos__csv_record_done(record); at++) {
        char *next;
        if (is_short_int(record->at, record->end, delimiter, &next)) {
            survey->saw[at] |= SAW_INT;
            record->at = next;
        } else {
            tfos__csv_cell cell;
            tfos__csv_cell_next(record, delimiter, &cell);
            survey->saw[at] |= look(&cell);
        }
    }
    if (at < count || !tfos__csv_record_done(record)) {
        return tfos__csv_fail_count(text->name, record, delimiter, count, at, error);
    }
    return TFOS_OK;
}

/* Files that are read together have the same columns in the same order. */
static tfos_status check_same(const tfos__csv_survey *survey, const tfos__text *text, const tfos__csv_columns *columns,
                              tfos_error *error)
{
    if (columns->count != survey->columns.count) {
        return tfos__fail(error, TFOS_MISMATCH, "%s: expected %zu columns as in %s, found %zu", text->name,
                          survey->columns.count, survey->file, columns->count);
    }
    for (size_t i = 0; i < columns->count; i++) {
        const char *expected = survey->columns.column[i].name;
        const char *found = columns->column[i].name;
        if (strcmp(expected, found) != 0) {
            return tfos__fail(error, TFOS_MISMATCH, "%s: expected column %zu to be '%s' as in %s, found '%s'",
                              text->name, i, tfos__printable_text(expected).text, survey->file,
                              tfos__printable_text(found).text);
        }
    }
    return TFOS_OK;
}

/* Keeps the columns of the first file; those of others are compared and freed at the end. */
static tfos_status take_columns(tfos__csv_survey *survey, const tfos__text *text, const tfos__csv_columns *columns,
                                tfos_error *error)
{
    if (survey->file != NULL) {
        return check_same(survey, text, columns, error);
    }
    survey->saw = calloc(columns->count, 1);
    survey->file = strdup(text->name);
    if (survey->saw == NULL || survey->file == NULL) {
        return tfos__fail_memory(error, columns->count);
    }
    survey->columns = *columns;
    return TFOS_OK;
}

static tfos_status look_at_records(tfos__csv_survey *survey, tfos__text *text, tfos__csv_columns *columns,
                                   tfos_error *error)
{
    for (;;) {
        tfos__csv_record record;
        tfos_status status = tfos__csv_columns_record(columns, text, survey->options->delimiter, &record, error);
        if (status == TFOS_END) {
            return TFOS_OK;
        }
        TFOS_TRY(status);
        TFOS_TRY(look_at_record(survey, text, &record, error));
    }
}

tfos_status tfos__csv_survey_add(tfos__csv_survey *survey, tfos__text *text, tfos_error *error)
{
    tfos__csv_columns columns;
    TFOS_TRY(tfos__csv_columns_read(survey->options, text, &columns, error));
    if (columns.count == 0) {
        return TFOS_OK;
    }
    tfos_status status = take_columns(survey, text, &columns, error);
    if (status == TFOS_OK) {
        status = look_at_records(survey, text, &columns, error);
    }
    if (columns.column != survey->columns.column) {
        tfos__csv_columns_reset(&columns);
    }
    return status;
}

static tfos_type type_of(uint8_t saw)
{
    if ((saw & SAW_TEXT) != 0) {
        return TFOS_TYPE_STRING;
    }
    if ((saw & SAW_REAL) != 0) {
        return TFOS_TYPE_FLOAT;
    }
    /* As a float an integer of 20 digits would lose most of them; a column without any value says nothing. */
    return (saw & SAW_BIG) == 0 && (saw & SAW_INT) != 0 ? TFOS_TYPE_INT64 : TFOS_TYPE_STRING;
}

tfos_status tfos__csv_survey_schema(const tfos__csv_survey *survey, tfos_schema **out, tfos_error *error)
{
    if (survey->columns.count == 0) {
        return tfos__fail(error, TFOS_INVALID,
                          "the CSV input has no %s, so that its columns are not known: pass --schema",
                          survey->options->header ? "header" : "record");
    }
    tfos_schema *schema;
    TFOS_TRY(tfos_schema_new(TFOS_RECORD_EXAMPLE, &schema, error));
    tfos_status status = TFOS_OK;
    for (size_t i = 0; i < survey->columns.count && status == TFOS_OK;) {
        const tfos__csv_column *column = &survey->columns.column[i];
        tfos_field field = {.name = column->name};
        uint8_t saw = survey->saw[i++];
        if (column->fold >= 0) {
            size_t folded = tfos__csv_columns_folded(&survey->columns, i - 1);
            for (size_t end = i - 1 + folded; i < end; i++) {
                saw |= survey->saw[i];
            }
            field.name = survey->options->folds[column->fold].name;
            field.shape = TFOS_SHAPE_FIXED;
            field.length = (int32_t)folded;
        }
        field.type = type_of(saw);
        field.nullable = (saw & SAW_NULL) != 0;
        status = tfos_schema_add(schema, &field, error);
    }
    if (status != TFOS_OK) {
        tfos__error_prefix(error, "%s", survey->file);
        tfos_schema_free(schema);
        return status;
    }
    *out = schema;
    return TFOS_OK;
}
