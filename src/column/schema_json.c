/* The JSON form of a schema:
 *
 *   {"record": "example",
 *    "fields": [
 *     {"name": "image", "type": "float", "shape": [784]},
 *     {"name": "tags", "type": "string", "shape": [null], "nullable": true},
 *     {"name": "label", "type": "int64"}]}
 *
 * "record" is example (the default), sequence_example or bytes. "shape" is [] for a scalar (the default), [n] for a
 * list of n, [null] for a list of any length. "nullable" and, in a sequence_example, "feature_list" are false unless
 * said. "note" beside "fields" is a text that means nothing here: it is kept, and written again. */
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/status.h"
#include "column/schema.h"

enum { MAX_JSON_BYTES = 64 << 20, MAX_JSON_DEPTH = 8 };

static tfos_status parse_text(const char *text, size_t bytes, json_object **out, tfos_error *error)
{
    if (bytes > MAX_JSON_BYTES) {
        return tfos__fail(error, TFOS_LIMIT, "a schema has at most %d bytes, found %zu", MAX_JSON_BYTES, bytes);
    }
    tfos__json_fault fault = {0};
    tfos_status status = tfos__json_object_parse(text, bytes, MAX_JSON_DEPTH, out, &fault, error);
    if (status != TFOS_INVALID) {
        return status;
    }
    return tfos__fail(error, TFOS_INVALID,
                      "schema: expected a JSON object {\"record\": …, \"fields\": […]}; %s, at byte %zu", fault.what,
                      fault.at);
}

/* Unknown keys would be silently ignored features of the schema: refuse them. */
static tfos_status check_keys(json_object *object, const char *const *known, const char *where, tfos_error *error)
{
    json_object_object_foreach(object, key, value)
    {
        (void)value;
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], key) != 0) {
            i++;
        }
        if (known[i] == NULL) {
            return tfos__fail(error, TFOS_INVALID, "schema: %s: unknown key \"%s\"", where,
                              tfos__printable_text(key).text);
        }
    }
    return TFOS_OK;
}

static tfos_status get_string(json_object *object, const char *key, const char *where, const char **out,
                              tfos_error *error)
{
    json_object *value;
    if (!json_object_object_get_ex(object, key, &value)) {
        return tfos__fail(error, TFOS_INVALID, "schema: %s: \"%s\" is missing", where, key);
    }
    if (!json_object_is_type(value, json_type_string)) {
        return tfos__fail(error, TFOS_INVALID, "schema: %s: \"%s\" must be a string", where, key);
    }
    *out = json_object_get_string(value);
    if (strlen(*out) != (size_t)json_object_get_string_len(value)) {
        return tfos__fail(error, TFOS_INVALID, "schema: %s: \"%s\" contains a NUL character", where, key);
    }
    return TFOS_OK;
}

static tfos_status get_flag(json_object *object, const char *key, const char *where, bool *out, tfos_error *error)
{
    json_object *value;
    *out = false;
    if (!json_object_object_get_ex(object, key, &value)) {
        return TFOS_OK;
    }
    if (!json_object_is_type(value, json_type_boolean)) {
        return tfos__fail(error, TFOS_INVALID, "schema: %s: \"%s\" must be true or false", where, key);
    }
    *out = json_object_get_boolean(value);
    return TFOS_OK;
}

static tfos_status get_shape(json_object *object, const char *where, tfos_field *field, tfos_error *error)
{
    json_object *shape;
    if (!json_object_object_get_ex(object, "shape", &shape)) {
        return TFOS_OK;
    }
    if (!json_object_is_type(shape, json_type_array) || json_object_array_length(shape) > 1) {
        return tfos__fail(
            error, TFOS_INVALID,
            "schema: %s: \"shape\" must be [] for a scalar, [n] for a list of n values or [null] for a list "
            "of any length",
            where);
    }
    if (json_object_array_length(shape) == 0) {
        return TFOS_OK;
    }
    json_object *length = json_object_array_get_idx(shape, 0);
    if (length == NULL) {
        field->shape = TFOS_SHAPE_RAGGED;
        return TFOS_OK;
    }
    int64_t value = json_object_get_int64(length);
    if (!json_object_is_type(length, json_type_int) || value < 0 || value > TFOS_SCHEMA_MAX_LENGTH) {
        return tfos__fail(error, TFOS_INVALID,
                          "schema: %s: the length in \"shape\" must be a whole number from 0 to %d", where,
                          TFOS_SCHEMA_MAX_LENGTH);
    }
    field->shape = TFOS_SHAPE_FIXED;
    field->length = (int32_t)value;
    return TFOS_OK;
}

static tfos_status add_field(tfos_schema *schema, json_object *object, size_t index, tfos_error *error)
{
    static const char *const known[] = {"name", "type", "shape", "nullable", "feature_list", NULL};
    char where[160];
    snprintf(where, sizeof where, "field %zu", index);
    if (!json_object_is_type(object, json_type_object)) {
        return tfos__fail(error, TFOS_INVALID, "schema: %s must be an object", where);
    }
    tfos_field field = {0};
    const char *type;
    TFOS_TRY(get_string(object, "name", where, &field.name, error));
    snprintf(where, sizeof where, "field '%s'", tfos__printable_text(field.name).text);
    TFOS_TRY(check_keys(object, known, where, error));
    TFOS_TRY(get_string(object, "type", where, &type, error));
    tfos_status status = tfos_type_parse(type, &field.type, error);
    if (status != TFOS_OK) {
        tfos__error_prefix(error, "schema: %s", where);
        return status;
    }
    TFOS_TRY(get_flag(object, "nullable", where, &field.nullable, error));
    TFOS_TRY(get_flag(object, "feature_list", where, &field.feature_list, error));
    TFOS_TRY(get_shape(object, where, &field, error));
    return tfos_schema_add(schema, &field, error);
}

static tfos_status get_kind(json_object *root, tfos_record_kind *out, tfos_error *error)
{
    *out = TFOS_RECORD_EXAMPLE;
    if (!json_object_object_get_ex(root, "record", NULL)) {
        return TFOS_OK;
    }
    const char *name;
    TFOS_TRY(get_string(root, "record", "top", &name, error));
    if (tfos_record_kind_parse(name, out, NULL) == TFOS_OK && *out != TFOS_RECORD_AUTO) {
        return TFOS_OK;
    }
    return tfos__fail(error, TFOS_INVALID, "schema: \"record\" must be example, sequence_example or bytes, found '%s'",
                      tfos__printable_text(name).text);
}

/* The one column of raw bytes is given; the form that tfos_schema_to_json writes names it again. */
static tfos_status check_bytes_fields(json_object *fields, tfos_error *error)
{
    json_object *name;
    size_t count = json_object_array_length(fields);
    json_object *first = count > 0 ? json_object_array_get_idx(fields, 0) : NULL;
    bool named = json_object_is_type(first, json_type_object) && json_object_object_get_ex(first, "name", &name) &&
                 json_object_is_type(name, json_type_string) && strcmp(json_object_get_string(name), "record") == 0;
    if (count > 1 || (count == 1 && !named)) {
        return tfos__fail(error, TFOS_INVALID,
                          "schema: records of kind bytes have the one column 'record': leave out \"fields\"");
    }
    return TFOS_OK;
}

static tfos_status add_fields(tfos_schema *schema, json_object *root, tfos_error *error)
{
    json_object *fields;
    bool bytes = tfos_schema_kind(schema) == TFOS_RECORD_BYTES;
    if (!json_object_object_get_ex(root, "fields", &fields)) {
        return bytes ? TFOS_OK : tfos__fail(error, TFOS_INVALID, "schema: \"fields\" is missing");
    }
    if (!json_object_is_type(fields, json_type_array)) {
        return tfos__fail(error, TFOS_INVALID, "schema: \"fields\" must be an array");
    }
    if (bytes) {
        return check_bytes_fields(fields, error);
    }
    for (size_t i = 0; i < json_object_array_length(fields); i++) {
        TFOS_TRY(add_field(schema, json_object_array_get_idx(fields, i), i, error));
    }
    return TFOS_OK;
}

static tfos_status get_note(tfos_schema *schema, json_object *root, tfos_error *error)
{
    const char *note;
    if (!json_object_object_get_ex(root, "note", NULL)) {
        return TFOS_OK;
    }
    TFOS_TRY(get_string(root, "note", "top", &note, error));
    return tfos_schema_set_note(schema, note, error);
}

static tfos_status schema_of(json_object *root, tfos_schema **out, tfos_error *error)
{
    static const char *const known[] = {"record", "note", "fields", NULL};
    tfos_record_kind kind;
    TFOS_TRY(check_keys(root, known, "top", error));
    TFOS_TRY(get_kind(root, &kind, error));
    tfos_schema *schema;
    TFOS_TRY(tfos_schema_new(kind, &schema, error));
    tfos_status status = get_note(schema, root, error);
    status = status == TFOS_OK ? add_fields(schema, root, error) : status;
    if (status != TFOS_OK) {
        tfos_schema_free(schema);
        return status;
    }
    *out = schema;
    return TFOS_OK;
}

tfos_status tfos_schema_from_json(const char *text, size_t bytes, tfos_schema **out, tfos_error *error)
{
    json_object *root = NULL;
    TFOS_TRY(parse_text(text, bytes, &root, error));
    tfos_status status = schema_of(root, out, error);
    json_object_put(root);
    return status;
}

/* Written without json-c, which aborts the process when it is out of memory. Names are valid UTF-8. */
static tfos_status put_string(tfos__buffer *text, const char *string, tfos_error *error)
{
    TFOS_TRY(tfos__buffer_append(text, "\"", 1, error));
    for (const unsigned char *at = (const unsigned char *)string; *at != '\0'; at++) {
        if (*at < 0x20) {
            TFOS_TRY(tfos__buffer_printf(text, error, "\\u%04x", *at));
        } else {
            TFOS_TRY(tfos__buffer_append(text, "\\", *at == '"' || *at == '\\', error));
            TFOS_TRY(tfos__buffer_append(text, at, 1, error));
        }
    }
    return tfos__buffer_append(text, "\"", 1, error);
}

static tfos_status put_field(tfos__buffer *text, const tfos_field *field, tfos_error *error)
{
    char shape[32] = "[ ]";
    if (field->shape == TFOS_SHAPE_FIXED) {
        snprintf(shape, sizeof shape, "[ %d ]", (int)field->length);
    } else if (field->shape == TFOS_SHAPE_RAGGED) {
        snprintf(shape, sizeof shape, "[ null ]");
    }
    TFOS_TRY(tfos__buffer_printf(text, error, "{ \"name\": "));
    TFOS_TRY(put_string(text, field->name, error));
    return tfos__buffer_printf(text, error, ", \"type\": \"%s\", \"shape\": %s, \"nullable\": %s%s }",
                               tfos_type_name(field->type), shape, field->nullable ? "true" : "false",
                               field->feature_list ? ", \"feature_list\": true" : "");
}

static tfos_status put_note(tfos__buffer *text, const char *note, tfos_error *error)
{
    if (note == NULL) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__buffer_printf(text, error, ",\n \"note\": "));
    return put_string(text, note, error);
}

static tfos_status put_fields(tfos__buffer *text, const tfos_schema *schema, tfos_error *error)
{
    size_t count = tfos_schema_field_count(schema);
    TFOS_TRY(tfos__buffer_printf(text, error, ",\n \"fields\": ["));
    for (size_t i = 0; i < count; i++) {
        TFOS_TRY(tfos__buffer_printf(text, error, "%s\n  ", i == 0 ? "" : ","));
        TFOS_TRY(put_field(text, tfos_schema_field(schema, i), error));
    }
    return tfos__buffer_printf(text, error, "]}");
}

static tfos_status put_schema(tfos__buffer *text, const tfos_schema *schema, tfos_error *error)
{
    const char *kind = tfos_record_kind_name(tfos_schema_kind(schema));
    TFOS_TRY(tfos__buffer_printf(text, error, "{\"record\": \"%s\"", kind));
    TFOS_TRY(put_note(text, tfos_schema_note(schema), error));
    return put_fields(text, schema, error);
}

tfos_status tfos_schema_to_json(const tfos_schema *schema, char **out, tfos_error *error)
{
    tfos__buffer text = {0};
    tfos_status status = put_schema(&text, schema, error);
    if (status == TFOS_OK) {
        char *copy = strndup((const char *)text.data, text.size);
        if (copy != NULL) {
            *out = copy;
        } else {
            status = tfos__fail_memory(error, text.size + 1);
        }
    }
    tfos__buffer_reset(&text);
    return status;
}
