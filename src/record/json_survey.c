/* The schema of JSON lines: one pass that notes, for every key, which kinds of values and which lengths it has. */
#include <stdlib.h>

#include "record/json_scan.h"

enum { SAW_INT = 1, SAW_BIG = 2, SAW_REAL = 4, SAW_SPECIAL = 8, SAW_STRING = 16, SAW_BOOL = 32 };
enum { SAW_NUMBER = SAW_INT | SAW_BIG | SAW_REAL };

static const char null_in_list[] = "null inside an array: a list has no missing values";

/* A value is a scalar, a list or a list of lists: depth 0, 1 or 2. */
enum { MAX_DEPTH = 2 };

typedef struct json_column {
    uint8_t saw;
    int depth;        /* -1: only nulls so far */
    int64_t rows;     /* that have a value */
    int64_t shortest; /* innermost list; -1 before the first */
    int64_t longest;
    int64_t gaps_line; /* the first with an array of nothing but nulls, which only an array of arrays may be; 0: none */
} json_column;

struct tfos__json_survey {
    tfos_schema *names; /* finds a column by its name */
    json_column *columns;
    size_t capacity;
    int64_t rows;
    tfos__json_scan scan;
};

tfos_status tfos__json_survey_new(tfos__json_survey **out, tfos_error *error)
{
    tfos__json_survey *survey = calloc(1, sizeof *survey);
    if (survey == NULL) {
        return tfos__fail_memory(error, sizeof *survey);
    }
    tfos_status status = tfos__json_scan_init(&survey->scan, error);
    if (status == TFOS_OK) {
        status = tfos_schema_new(TFOS_RECORD_EXAMPLE, &survey->names, error);
    }
    if (status != TFOS_OK) {
        tfos__json_survey_free(survey);
        return status;
    }
    *out = survey;
    return TFOS_OK;
}

void tfos__json_survey_free(tfos__json_survey *survey)
{
    if (survey != NULL) {
        tfos__json_scan_reset(&survey->scan);
        tfos_schema_free(survey->names);
        free(survey->columns);
        free(survey);
    }
}

static tfos_status find_column(tfos__json_survey *survey, const char *name, json_column **out, tfos_error *error)
{
    int64_t at = tfos_schema_find(survey->names, name);
    if (at < 0) {
        size_t count = tfos_schema_field_count(survey->names);
        TFOS_TRY(tfos__array_reserve(&survey->columns, count, &survey->capacity, sizeof *survey->columns, error));
        TFOS_TRY(tfos_schema_add(survey->names, &(tfos_field){.name = name}, error));
        survey->columns[count] = (json_column){.depth = -1, .shortest = -1};
        at = (int64_t)count;
    }
    *out = &survey->columns[at];
    return TFOS_OK;
}

static const char *saw_name(uint8_t saw)
{
    if ((saw & SAW_NUMBER) != 0) {
        return "a number";
    }
    return (saw & SAW_BOOL) != 0 ? "true or false" : "a string";
}

/* Whether no type holds all that was seen. "NaN" is a number among numbers and a string among strings. */
static bool clashes(uint8_t saw)
{
    bool number = (saw & SAW_NUMBER) != 0;
    bool string = (saw & SAW_STRING) != 0 || ((saw & SAW_SPECIAL) != 0 && !number);
    return number + string + ((saw & SAW_BOOL) != 0) > 1;
}

static tfos_status look_at_scalar(json_column *column, json_object *value, tfos_error *error)
{
    double real;
    uint8_t saw = 0;
    switch (json_object_get_type(value)) {
    case json_type_boolean:
        saw = SAW_BOOL;
        break;
    case json_type_int:
        saw = tfos__json_is_big(value) ? SAW_BIG : SAW_INT;
        break;
    case json_type_double:
        saw = SAW_REAL;
        break;
    case json_type_string:
        saw = tfos__json_is_special(value, &real) ? SAW_SPECIAL : SAW_STRING;
        break;
    case json_type_null:
        return tfos__fail(error, TFOS_MISMATCH, "%s", null_in_list);
    case json_type_object:
        return tfos__fail(error, TFOS_UNSUPPORTED,
                          "an object inside a row: expected numbers, strings, true, false or arrays "
                          "of them");
    case json_type_array:
        return tfos__fail(error, TFOS_UNSUPPORTED, "arrays are nested more than %d deep", MAX_DEPTH);
    }
    if (clashes(column->saw | saw)) {
        return tfos__fail(error, TFOS_MISMATCH, "expected %s as on the lines before, found %s", saw_name(column->saw),
                          saw_name(saw));
    }
    column->saw |= saw;
    return TFOS_OK;
}

/* Notes the values of one array level. A null among lists is a feature of no kind; lists beside it have any length, as
 * where rows are missing. */
static tfos_status look_at_list(json_column *column, json_object *list, int depth, tfos_error *error)
{
    size_t count = json_object_array_length(list);
    if (depth == 1) {
        column->shortest =
            column->shortest < 0 || (int64_t)count < column->shortest ? (int64_t)count : column->shortest;
        column->longest = (int64_t)count > column->longest ? (int64_t)count : column->longest;
    }
    for (size_t i = 0; i < count; i++) {
        json_object *element = json_object_array_get_idx(list, i);
        if (depth == 1) {
            TFOS_TRY(look_at_scalar(column, element, error));
        } else if (json_object_is_type(element, json_type_array)) {
            TFOS_TRY(look_at_list(column, element, depth - 1, error));
        } else if (element == NULL) {
            column->shortest = 0;
        } else {
            return tfos__fail(error, TFOS_MISMATCH, "expected an array of arrays, found %s in it",
                              tfos__json_kind(element));
        }
    }
    return TFOS_OK;
}

/* How many nulls an array begins with. */
static size_t count_gaps(json_object *list)
{
    size_t count = json_object_array_length(list);
    size_t first = 0;
    while (first < count && json_object_array_get_idx(list, first) == NULL) {
        first++;
    }
    return first;
}

/* An array whose first element, nulls apart, is an array is a list of lists. */
static int depth_of(json_object *value)
{
    if (!json_object_is_type(value, json_type_array)) {
        return 0;
    }
    size_t first = count_gaps(value);
    bool nested = first < json_object_array_length(value) &&
                  json_object_is_type(json_object_array_get_idx(value, first), json_type_array);
    return nested ? 2 : 1;
}

static const char *depth_name(int depth)
{
    return depth == 0 ? "a single value" : depth == 1 ? "an array" : "an array of arrays";
}

static tfos_status look_at_value(json_column *column, json_object *value, int64_t line, tfos_error *error)
{
    int depth = depth_of(value);
    bool no_list = depth == 1 && count_gaps(value) == json_object_array_length(value);
    bool empty = no_list && json_object_array_length(value) == 0;
    if (empty && column->depth == 2) {
        /* No lists at all: says nothing about their length. */
        column->rows++;
        return TFOS_OK;
    }
    if (no_list && !empty && (column->depth != 1 || column->longest == 0) && column->depth != 0) {
        /* Lists that are missing, if others are lists. */
        column->gaps_line = column->gaps_line > 0 ? column->gaps_line : line;
        column->rows++;
        return TFOS_OK;
    }
    if (depth == 2 && column->depth == 1 && column->longest == 0) {
        /* The arrays so far were empty, so they can have been lists of lists. */
        column->depth = 2;
        column->shortest = -1;
    }
    if (column->depth >= 0 && column->depth != depth) {
        return tfos__fail(error, TFOS_MISMATCH, "expected %s as on the lines before, found %s",
                          depth_name(column->depth), depth_name(depth));
    }
    column->depth = depth;
    column->rows++;
    return depth == 0 ? look_at_scalar(column, value, error) : look_at_list(column, value, depth, error);
}

static tfos_status look_at_object(tfos__json_survey *survey, const char *file, tfos_error *error)
{
    json_object_object_foreach(survey->scan.object, name, value)
    {
        json_column *column = NULL;
        tfos_status status = find_column(survey, name, &column, error);
        if (status == TFOS_OK && value != NULL) {
            status = look_at_value(column, value, survey->scan.line, error);
        }
        if (status != TFOS_OK) {
            tfos__error_prefix(error, "%s: line %lld, column '%s'", file, (long long)survey->scan.line,
                               tfos__printable_text(name).text);
            return status;
        }
    }
    survey->rows++;
    return TFOS_OK;
}

tfos_status tfos__json_survey_add(tfos__json_survey *survey, tfos__text *text, tfos_error *error)
{
    for (;;) {
        tfos_status status = tfos__json_scan_next(&survey->scan, text, error);
        if (status == TFOS_END) {
            return TFOS_OK;
        }
        TFOS_TRY(status);
        TFOS_TRY(look_at_object(survey, text->name, error));
    }
}

static tfos_status type_of(const json_column *column, const char *name, tfos_type *out, tfos_error *error)
{
    if ((column->saw & SAW_REAL) != 0 || ((column->saw & SAW_SPECIAL) != 0 && (column->saw & SAW_NUMBER) != 0)) {
        *out = TFOS_TYPE_FLOAT;
    } else if ((column->saw & SAW_BIG) != 0) {
        return tfos__fail(
            error, TFOS_RANGE,
            "column '%s' has integers beyond int64: write them as strings, or declare the column as float", name);
    } else if ((column->saw & SAW_INT) != 0) {
        *out = TFOS_TYPE_INT64;
    } else if ((column->saw & SAW_BOOL) != 0) {
        *out = TFOS_TYPE_BOOL;
    } else if ((column->saw & (SAW_STRING | SAW_SPECIAL)) != 0 || column->depth <= 0) {
        *out = TFOS_TYPE_STRING;
    } else {
        /* Only empty arrays. */
        *out = TFOS_TYPE_INT64;
    }
    return TFOS_OK;
}

static tfos_status add_column(const tfos__json_survey *survey, size_t index, tfos_schema *schema, tfos_error *error)
{
    const json_column *column = &survey->columns[index];
    tfos_field field = {.name = tfos_schema_field(survey->names, index)->name};
    TFOS_TRY(type_of(column, field.name, &field.type, error));
    if (column->gaps_line > 0 && column->depth != 2) {
        return tfos__fail(error, TFOS_MISMATCH, "line %lld, column '%s': %s", (long long)column->gaps_line,
                          tfos__printable_text(field.name).text, null_in_list);
    }
    field.nullable = column->rows < survey->rows;
    field.feature_list = column->depth == 2;
    if (column->depth > 0) {
        /* A missing row of a fixed list takes as much memory as one that is there: with gaps, lists have any length. */
        bool gaps = field.nullable && !field.feature_list;
        bool fixed = column->shortest == column->longest && column->longest > 0 && !gaps && column->gaps_line == 0 &&
                     column->longest <= TFOS_SCHEMA_MAX_LENGTH;
        field.shape = fixed ? TFOS_SHAPE_FIXED : TFOS_SHAPE_RAGGED;
        field.length = fixed ? (int32_t)column->longest : 0;
    }
    return tfos_schema_add(schema, &field, error);
}

tfos_status tfos__json_survey_schema(const tfos__json_survey *survey, tfos_schema **out, tfos_error *error)
{
    size_t count = tfos_schema_field_count(survey->names);
    if (count == 0) {
        return tfos__fail(error, TFOS_INVALID,
                          "the JSON input has no object with a key, so that its columns are not known: pass --schema");
    }
    tfos_record_kind kind = TFOS_RECORD_EXAMPLE;
    for (size_t i = 0; i < count; i++) {
        kind = survey->columns[i].depth == 2 ? TFOS_RECORD_SEQUENCE : kind;
    }
    tfos_schema *schema;
    TFOS_TRY(tfos_schema_new(kind, &schema, error));
    for (size_t i = 0; i < count; i++) {
        tfos_status status = add_column(survey, i, schema, error);
        if (status != TFOS_OK) {
            tfos_schema_free(schema);
            return status;
        }
    }
    *out = schema;
    return TFOS_OK;
}
