/* The note by which rows of Python are columns. All who read or write it do so here:
 *
 *   {"rows": 1, "row": "tuple", "fields": [{"name": "_1", "is": "list", "of": "int"},
 *                                          {"name": "_2", "is": "array", "of": "numpy f", "shape": [28, 28]}]}
 *
 * "rows" is the version of the form, and says that the note is of rows: other shells may have notes of their own. */
#include "column/rows_note.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choice.h"
#include "base/json.h"
#include "base/status.h"

enum { VERSION = 1, DEPTH_MAX = 16 };

#define NAME(name, text, ...) text,
static const char *const shape_names[] = {TFOS_ROW_SHAPE_MAP(NAME) NULL};
static const char *const form_names[] = {TFOS_ROW_FORM_MAP(NAME) NULL};
static const char *const leaf_names[] = {TFOS_ROW_LEAF_MAP(NAME) NULL};
#undef NAME
#define TYPE(name, text, type) TFOS_TYPE_##type,
static const tfos_type leaf_types[] = {TFOS_ROW_LEAF_MAP(TYPE)};
#undef TYPE

TFOS__CHOICE_FUNCTIONS(row_shape, "shape of rows", shape_names)
TFOS__CHOICE_FUNCTIONS(row_form, "form of a value", form_names)
TFOS__CHOICE_FUNCTIONS(row_leaf, "leaf of a value", leaf_names)

/* ---- kinds ---- */

static const tfos_numpy_type numpy_types[] = {
    {'?', TFOS_TYPE_BOOL, 1, "bool"},          {'i', TFOS_TYPE_INT32, 4, "int32"},
    {'l', TFOS_TYPE_INT64, 8, "int64"},        {'f', TFOS_TYPE_FLOAT, 4, "float32"},
    {'d', TFOS_TYPE_DOUBLE, 8, "float64"},     {'b', TFOS_TYPE_BINARY, 1, "int8"},
    {'B', TFOS_TYPE_BINARY, 1, "uint8"},       {'h', TFOS_TYPE_BINARY, 2, "int16"},
    {'H', TFOS_TYPE_BINARY, 2, "uint16"},      {'I', TFOS_TYPE_BINARY, 4, "uint32"},
    {'L', TFOS_TYPE_BINARY, 8, "uint64"},      {'q', TFOS_TYPE_BINARY, 8, "int64"},
    {'Q', TFOS_TYPE_BINARY, 8, "uint64"},      {'e', TFOS_TYPE_BINARY, 2, "float16"},
    {'g', TFOS_TYPE_BINARY, 16, "longdouble"}, {'F', TFOS_TYPE_BINARY, 8, "complex64"},
    {'D', TFOS_TYPE_BINARY, 16, "complex128"}, {'G', TFOS_TYPE_BINARY, 32, "clongdouble"},
};

size_t tfos_numpy_type_count(void)
{
    return sizeof numpy_types / sizeof numpy_types[0];
}

const tfos_numpy_type *tfos_numpy_type_at(size_t index)
{
    return &numpy_types[index];
}

const tfos_numpy_type *tfos_numpy_type_find(char code)
{
    for (size_t i = 0; i < tfos_numpy_type_count(); i++) {
        if (numpy_types[i].code == code) {
            return &numpy_types[i];
        }
    }
    return NULL;
}

tfos_type tfos_row_kind_type(const tfos_row_kind *kind)
{
    return kind->leaf == TFOS_ROW_LEAF_NUMPY ? kind->numpy->type : leaf_types[kind->leaf];
}

bool tfos_row_kind_has_lists(const tfos_row_kind *kind)
{
    return kind->form == TFOS_ROW_FORM_ARRAY ? kind->numpy->type != TFOS_TYPE_BINARY
                                             : kind->form != TFOS_ROW_FORM_VALUE;
}

const tfos_row_kind *tfos__rows_find(const tfos_rows *rows, size_t index, const char *name)
{
    if (index < rows->count && strcmp(rows->fields[index].name, name) == 0) {
        return &rows->fields[index].kind;
    }
    for (size_t i = 0; i < rows->count; i++) {
        if (strcmp(rows->fields[i].name, name) == 0) {
            return &rows->fields[i].kind;
        }
    }
    return NULL;
}

/* ---- reading ---- */

static tfos_status fail(const char *what, tfos_error *error)
{
    return tfos__fail(
        error, TFOS_CORRUPT,
        "the note of a batch is not one of tfos's rows: %s. Were the rows fed by another version of tfos?", what);
}

static bool parse_leaf(const char *text, tfos_row_kind *out)
{
    if (strncmp(text, "numpy ", 6) == 0 && strlen(text) == 7) {
        out->leaf = TFOS_ROW_LEAF_NUMPY;
        out->numpy = tfos_numpy_type_find(text[6]);
        return out->numpy != NULL;
    }
    return tfos_row_leaf_parse(text, &out->leaf, NULL) == TFOS_OK && out->leaf != TFOS_ROW_LEAF_NUMPY;
}

static bool parse_shape(json_object *shape, tfos_row_kind *out)
{
    out->dimensions = out->form == TFOS_ROW_FORM_ARRAY ? 1 : 0;
    if (shape == NULL || out->form != TFOS_ROW_FORM_ARRAY) {
        return true;
    }
    size_t count = json_object_is_type(shape, json_type_array) ? json_object_array_length(shape) : SIZE_MAX;
    if (count > TFOS_ROW_MAX_DIMENSIONS) {
        return false;
    }
    out->dimensions = (int)count;
    for (size_t i = 0; i < count; i++) {
        json_object *length = json_object_array_get_idx(shape, i);
        out->shape[i] = json_object_is_type(length, json_type_int) ? json_object_get_int64(length) : -1;
        if (out->shape[i] < 0) {
            return false;
        }
    }
    return true;
}

static tfos_status parse_field(json_object *entry, tfos_row_field *out, tfos_error *error)
{
    const char *name = tfos__json_text(entry, "name");
    if (!json_object_is_type(tfos__json_member(entry, "name"), json_type_string)) {
        return fail("a field has no name", error);
    }
    if (!parse_leaf(tfos__json_text(entry, "of"), &out->kind) ||
        tfos_row_form_parse(tfos__json_text(entry, "is"), &out->kind.form, NULL) != TFOS_OK ||
        (out->kind.form == TFOS_ROW_FORM_ARRAY && out->kind.leaf != TFOS_ROW_LEAF_NUMPY) ||
        !parse_shape(tfos__json_member(entry, "shape"), &out->kind)) {
        char what[160];
        const char *text = json_object_to_json_string(entry);
        snprintf(what, sizeof what, "the field %s is not known here", tfos__printable_text(text).text);
        return fail(what, error);
    }
    out->name = strdup(name);
    return out->name != NULL ? TFOS_OK : tfos__fail_memory(error, strlen(name));
}

static tfos_status parse_note(json_object *root, tfos_rows *out, tfos_error *error)
{
    json_object *version = tfos__json_member(root, "rows");
    json_object *fields = tfos__json_member(root, "fields");
    size_t count = json_object_is_type(fields, json_type_array) ? json_object_array_length(fields) : 0;
    if (!json_object_is_type(version, json_type_int) || json_object_get_int64(version) != VERSION) {
        return fail("its version is not known here", error);
    }
    if (tfos_row_shape_parse(tfos__json_text(root, "row"), &out->shape, NULL) != TFOS_OK ||
        out->shape == TFOS_ROW_NONE) {
        return fail("the shape of its rows is not known here", error);
    }
    if (count == 0 || (out->shape == TFOS_ROW_VALUE && count != 1)) {
        return fail("its fields are missing", error);
    }
    tfos_row_field *read = calloc(count, sizeof *read);
    if (read == NULL) {
        return tfos__fail_memory(error, count * sizeof *read);
    }
    out->fields = read;
    for (; out->count < count; out->count++) {
        TFOS_TRY(parse_field(json_object_array_get_idx(fields, out->count), &read[out->count], error));
    }
    return TFOS_OK;
}

void tfos__rows_free(tfos_rows *rows)
{
    for (size_t i = 0; rows != NULL && i < rows->count; i++) {
        free((char *)(uintptr_t)rows->fields[i].name);
    }
    if (rows != NULL) {
        free((tfos_row_field *)(uintptr_t)rows->fields);
        free(rows);
    }
}

tfos_status tfos__rows_parse(const char *note, tfos_rows **out, tfos_error *error)
{
    tfos__json_fault fault = {0};
    json_object *root = NULL;
    tfos_rows *rows = calloc(1, sizeof *rows);
    if (rows == NULL) {
        return tfos__fail_memory(error, sizeof *rows);
    }
    tfos_status status = TFOS_OK;
    if (note != NULL && tfos__json_object_parse(note, strlen(note), DEPTH_MAX, &root, &fault, NULL) == TFOS_OK) {
        status = tfos__json_member(root, "rows") != NULL ? parse_note(root, rows, error) : TFOS_OK;
        json_object_put(root);
    }
    if (status != TFOS_OK) {
        tfos__rows_free(rows);
        return status;
    }
    *out = rows;
    return TFOS_OK;
}

/* ---- writing ---- */

/* False: no memory. Takes `value` over, also on failure. */
static bool put(json_object *object, const char *key, json_object *value)
{
    if (value == NULL || json_object_object_add(object, key, value) != 0) {
        json_object_put(value);
        return false;
    }
    return true;
}

static json_object *show_shape(const tfos_row_kind *kind)
{
    json_object *shape = json_object_new_array();
    for (int i = 0; shape != NULL && i < kind->dimensions; i++) {
        json_object *length = json_object_new_int64(kind->shape[i]);
        if (length == NULL || json_object_array_add(shape, length) != 0) {
            json_object_put(length);
            json_object_put(shape);
            return NULL;
        }
    }
    return shape;
}

static json_object *show_field(const tfos_row_field *field)
{
    const tfos_row_kind *kind = &field->kind;
    char leaf[16];
    snprintf(leaf, sizeof leaf, kind->leaf == TFOS_ROW_LEAF_NUMPY ? "%s %c" : "%s", leaf_names[kind->leaf],
             kind->leaf == TFOS_ROW_LEAF_NUMPY ? kind->numpy->code : '\0');
    json_object *entry = json_object_new_object();
    bool made = entry != NULL && put(entry, "name", json_object_new_string(field->name)) &&
                put(entry, "is", json_object_new_string(form_names[kind->form])) &&
                put(entry, "of", json_object_new_string(leaf));
    if (made && kind->form == TFOS_ROW_FORM_ARRAY && kind->dimensions != 1) {
        made = put(entry, "shape", show_shape(kind));
    }
    if (!made) {
        json_object_put(entry);
        return NULL;
    }
    return entry;
}

static json_object *show_rows(const tfos_rows *rows)
{
    json_object *root = json_object_new_object();
    json_object *fields = json_object_new_array();
    bool made = root != NULL && fields != NULL;
    for (size_t i = 0; made && i < rows->count; i++) {
        json_object *entry = show_field(&rows->fields[i]);
        made = entry != NULL && json_object_array_add(fields, entry) == 0;
    }
    made = made && put(root, "rows", json_object_new_int(VERSION)) &&
           put(root, "row", json_object_new_string(shape_names[rows->shape])) &&
           put(root, "fields", json_object_get(fields));
    json_object_put(fields);
    if (!made) {
        json_object_put(root);
        return NULL;
    }
    return root;
}

tfos_status tfos_schema_set_rows(tfos_schema *schema, const tfos_rows *rows, tfos_error *error)
{
    json_object *root = show_rows(rows);
    const int form = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE;
    const char *text = root != NULL ? json_object_to_json_string_ext(root, form) : NULL;
    tfos_status status = text != NULL ? tfos_schema_set_note(schema, text, error) : tfos__fail_memory(error, 1);
    json_object_put(root);
    return status;
}
