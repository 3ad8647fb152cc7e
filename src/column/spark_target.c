/* What Spark expects of rows that are made here, and what batches have for it.
 *
 * Batches come from programs: columns with names, or rows of Python objects, whose note says how they were rows
 * (tfos/rows.h). A program may give
 *
 *   {"a": 1, "b": 2.0}   columns by name
 *   (1, 2.0)             columns by position
 *   2.0                  the only column
 *
 * Numbers are converted where that says the same: to a wider type, from double to float, and to narrower integers as
 * long as they fit. */
#include "column/spark_target.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "column/rows_note.h"
#include "column/schema.h"

enum { MAX_SCHEMA_BYTES = 16 << 20, MAX_SCHEMA_DEPTH = 64 };

/* ---- what Spark expects ---- */

static tfos_status fail_type(tfos_error *error, const char *type)
{
    return tfos__fail(
        error, TFOS_UNSUPPORTED,
        "results cannot have the type %s: boolean, byte, short, int, long, float, double, string, binary, "
        "date, timestamp, arrays of these and arrays of such arrays are possible; convert in Spark",
        tfos__printable_text(type).text);
}

static tfos_status parse_type(json_object *type, tfos__spark_target *target, tfos_error *error)
{
    while (strcmp(tfos__json_text(type, "type"), "array") == 0 && target->lists < TFOS__SPARK_LISTS_MAX) {
        target->lists++;
        type = tfos__json_member(type, "elementType");
    }
    const char *name = json_object_is_type(type, json_type_string) ? json_object_get_string(type) : "";
    if (!tfos__spark_name_find(name, &target->kind, &target->width)) {
        return fail_type(error, *name != '\0' ? name : tfos__json_text(type, "type"));
    }
    target->text = strcmp(name, "string") == 0;
    snprintf(target->type, sizeof target->type, "%s%s%s",
             target->lists == 0   ? ""
             : target->lists == 1 ? "array<"
                                  : "array<array<",
             strcmp(name, "integer") == 0 ? "int" : name,
             target->lists == 0   ? ""
             : target->lists == 1 ? ">"
                                  : ">>");
    return TFOS_OK;
}

static tfos_status parse_field(json_object *field, tfos__spark_target *target, tfos_error *error)
{
    json_object *nullable = tfos__json_member(field, "nullable");
    target->name = strdup(tfos__json_text(field, "name"));
    target->nullable = !json_object_is_type(nullable, json_type_boolean) || json_object_get_boolean(nullable);
    if (target->name == NULL) {
        return tfos__fail_memory(error, 1);
    }
    tfos_status status = parse_type(tfos__json_member(field, "type"), target, error);
    if (status != TFOS_OK) {
        tfos__error_prefix(error, "column '%s'", tfos__printable_text(target->name).text);
    }
    return status;
}

static tfos_status parse_fields(json_object *root, tfos__spark_targets *out, tfos_error *error)
{
    json_object *fields = tfos__json_member(root, "fields");
    size_t count = json_object_is_type(fields, json_type_array) ? json_object_array_length(fields) : 0;
    if (count == 0 || count > TFOS_SCHEMA_MAX_FIELDS) {
        return tfos__fail(error, TFOS_INVALID, "results have 1 to %d columns, found %zu", TFOS_SCHEMA_MAX_FIELDS,
                          count);
    }
    out->at = calloc(count, sizeof *out->at);
    if (out->at == NULL) {
        return tfos__fail_memory(error, count * sizeof *out->at);
    }
    out->count = count;
    for (size_t i = 0; i < count; i++) {
        TFOS_TRY(parse_field(json_object_array_get_idx(fields, i), &out->at[i], error));
    }
    return TFOS_OK;
}

tfos_status tfos__spark_targets_parse(const char *text, size_t bytes, tfos__spark_targets *out, tfos_error *error)
{
    tfos__json_fault fault = {0};
    json_object *root;
    if (bytes > MAX_SCHEMA_BYTES) {
        return tfos__fail(error, TFOS_LIMIT, "a Spark schema has at most %d bytes, found %zu", MAX_SCHEMA_BYTES, bytes);
    }
    tfos_status status = tfos__json_object_parse(text, bytes, MAX_SCHEMA_DEPTH, &root, &fault, error);
    if (status == TFOS_INVALID) {
        return tfos__fail(error, TFOS_INVALID, "this is no Spark schema: %s, at byte %zu", fault.what, fault.at);
    }
    TFOS_TRY(status);
    tfos__spark_targets targets = {0};
    status = parse_fields(root, &targets, error);
    json_object_put(root);
    if (status != TFOS_OK) {
        tfos__spark_targets_reset(&targets);
        return status;
    }
    *out = targets;
    return TFOS_OK;
}

void tfos__spark_targets_reset(tfos__spark_targets *targets)
{
    for (size_t i = 0; i < targets->count; i++) {
        free(targets->at[i].name);
    }
    free(targets->at);
    tfos_schema_free(targets->bound);
    *targets = (tfos__spark_targets){0};
}

/* ---- what batches have ---- */

typedef struct found {
    tfos__spark_leaf leaf;
    size_t raw_bytes;
    int lists;
    int64_t length; /* of every list at the innermost level, or -1 */
    int dimensions; /* of the arrays that the lists were, or 0 */
    int64_t shape[TFOS_ROW_MAX_DIMENSIONS];
} found;

static const struct leaf_name {
    const char *text;
    char code;
    size_t bytes;
} leaves[] = {
#define LEAF(name, type, code, text) [TFOS__LEAF_##name] = {text, code, sizeof(type)},
    TFOS__SPARK_WHOLE_MAP(LEAF)
#undef LEAF
        [TFOS__LEAF_HALF] = {"float16", 'e', 2},
    [TFOS__LEAF_FLOAT] = {"float", 'f', 4},
    [TFOS__LEAF_DOUBLE] = {"double", 'd', 8},
    [TFOS__LEAF_BOOL] = {"bool", '?', 1},
    [TFOS__LEAF_STRING] = {"string", '\0', 0},
    [TFOS__LEAF_BINARY] = {"bytes", '\0', 0},
    [TFOS__LEAF_NOTHING] = {"None", '\0', 0},
    [TFOS__LEAF_OBJECT] = {"an object of Python's that is no number, text, bytes, list of these or array", '\0', 0},
};

static tfos__spark_leaf leaf_of_type(tfos_type type)
{
    switch (type) {
    case TFOS_TYPE_INT32:
        return TFOS__LEAF_INT32;
    case TFOS_TYPE_INT64:
        return TFOS__LEAF_INT64;
    case TFOS_TYPE_FLOAT:
        return TFOS__LEAF_FLOAT;
    case TFOS_TYPE_DOUBLE:
        return TFOS__LEAF_DOUBLE;
    case TFOS_TYPE_BOOL:
        return TFOS__LEAF_BOOL;
    case TFOS_TYPE_STRING:
        return TFOS__LEAF_STRING;
    default:
        return TFOS__LEAF_BINARY;
    }
}

/* Numbers of NumPy for which there is no column travel as their bytes. */
static void look_at_raw(char code, bool is_array, found *out)
{
    for (size_t i = 0; i <= TFOS__LEAF_HALF; i++) {
        if (leaves[i].code == code) {
            out->leaf = (tfos__spark_leaf)i;
            out->raw_bytes = leaves[i].bytes;
            out->lists = is_array ? 1 : 0;
            return;
        }
    }
    out->leaf = TFOS__LEAF_OBJECT;
}

static void look_at_kind(const tfos_row_kind *kind, const tfos_field *column, found *out)
{
    if (kind->leaf == TFOS_ROW_LEAF_PICKLE) {
        out->leaf = TFOS__LEAF_OBJECT;
    } else if (kind->leaf == TFOS_ROW_LEAF_NONE) {
        out->leaf = TFOS__LEAF_NOTHING;
    } else if (kind->leaf == TFOS_ROW_LEAF_NUMPY && column->type == TFOS_TYPE_BINARY) {
        look_at_raw(kind->numpy->code, kind->form == TFOS_ROW_FORM_ARRAY, out);
    }
    out->dimensions = kind->dimensions != 1 ? kind->dimensions : 0;
    memcpy(out->shape, kind->shape, sizeof out->shape);
}

/* Column `index`, and what it was in the rows of a program in Python. */
static found look_at(const tfos_schema *schema, const tfos_rows *rows, size_t index)
{
    const tfos_field *column = tfos_schema_field(schema, index);
    const tfos_row_kind *kind = tfos__rows_find(rows, index, column->name);
    found out = {.leaf = leaf_of_type(column->type),
                 .lists = (column->shape != TFOS_SHAPE_SCALAR ? 1 : 0) + (column->feature_list ? 1 : 0),
                 .length = column->shape == TFOS_SHAPE_FIXED ? column->length : -1};
    if (kind != NULL) {
        look_at_kind(kind, column, &out);
    }
    return out;
}

static void describe(const found *what, char *out, size_t bytes)
{
    int at = snprintf(out, bytes, "%s", what->lists > 1 ? "lists of lists of " : what->lists == 1 ? "lists of " : "");
    if (what->lists > 0 && what->length >= 0) {
        at += snprintf(out + at, bytes - (size_t)at, "%lld ", (long long)what->length);
    }
    snprintf(out + at, bytes - (size_t)at, "%s", leaves[what->leaf].text);
}

/* ---- both ---- */

static bool goes(const tfos__spark_target *target, tfos__spark_leaf leaf)
{
    bool real = leaf == TFOS__LEAF_HALF || leaf == TFOS__LEAF_FLOAT || leaf == TFOS__LEAF_DOUBLE;
    switch (target->kind) {
    case TFOS__SPARK_BOOLEAN:
        return leaf == TFOS__LEAF_BOOL || leaf == TFOS__LEAF_NOTHING;
    case TFOS__SPARK_BYTES:
        return leaf == TFOS__LEAF_STRING || leaf == TFOS__LEAF_BINARY || leaf == TFOS__LEAF_NOTHING;
    case TFOS__SPARK_FLOAT:
    case TFOS__SPARK_DOUBLE:
        return leaf <= TFOS__LEAF_UINT64 || real || leaf == TFOS__LEAF_NOTHING;
    default:
        return leaf <= TFOS__LEAF_UINT64 || leaf == TFOS__LEAF_NOTHING;
    }
}

/* Lists for lists; but also the one value of a list for a scalar, and arrays of two dimensions for arrays of arrays. */
static bool nests(tfos__spark_target *target, const found *what)
{
    target->single = false;
    target->split = 0;
    if (what->lists == target->lists) {
        return true;
    }
    if (what->leaf == TFOS__LEAF_NOTHING) {
        return what->lists == 0 || target->lists > 0;
    }
    if (what->lists == 1 && target->lists == 0) {
        target->single = what->length == 1;
        return target->single;
    }
    if (what->lists == 1 && target->lists == 2 && what->dimensions == 2 && what->shape[0] > 0) {
        target->split = what->shape[0];
        return true;
    }
    return false;
}

static tfos_status bind_target(tfos__spark_target *target, size_t column, const tfos_schema *schema,
                               const tfos_rows *rows, tfos_error *error)
{
    char text[160];
    found what = look_at(schema, rows, column);
    if (!goes(target, what.leaf) || !nests(target, &what)) {
        describe(&what, text, sizeof text);
        return tfos__fail(error, TFOS_MISMATCH, "expected %s in column '%s', found %s", target->type,
                          tfos__printable_text(target->name).text, text);
    }
    target->column = column;
    target->nested = what.lists;
    target->leaf = what.leaf;
    target->raw_bytes = what.raw_bytes;
    return TFOS_OK;
}

static tfos_status bind_by_name(tfos__spark_targets *targets, const tfos_schema *schema, const tfos_rows *rows,
                                tfos_error *error)
{
    for (size_t i = 0; i < targets->count; i++) {
        int64_t column = tfos_schema_find(schema, targets->at[i].name);
        if (column < 0) {
            return tfos__fail(
                error, TFOS_MISMATCH,
                "the results have no column '%s'; their first column is '%s'. Give what schema= declares, "
                "or declare what is given",
                tfos__printable_text(targets->at[i].name).text,
                tfos__printable_text(tfos_schema_field(schema, 0)->name).text);
        }
        TFOS_TRY(bind_target(&targets->at[i], (size_t)column, schema, rows, error));
    }
    for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
        bool known = false;
        for (size_t j = 0; j < targets->count; j++) {
            known = known || targets->at[j].column == i;
        }
        if (!known) {
            return tfos__fail(error, TFOS_MISMATCH, "the results have a column '%s', which schema= does not declare",
                              tfos__printable_text(tfos_schema_field(schema, i)->name).text);
        }
    }
    return TFOS_OK;
}

static tfos_status bind_all(tfos__spark_targets *targets, const tfos_schema *schema, const tfos_rows *rows,
                            tfos_error *error)
{
    size_t columns = tfos_schema_field_count(schema);
    bool value = rows->shape == TFOS_ROW_VALUE;
    if (!value && rows->shape != TFOS_ROW_TUPLE && rows->shape != TFOS_ROW_LIST) {
        return bind_by_name(targets, schema, rows, error);
    }
    if (columns != targets->count) {
        return tfos__fail(
            error, TFOS_MISMATCH,
            "expected a result of %zu value%s, as schema= declares columns, found %s of %zu: give a tuple "
            "or dict with a value for each column",
            targets->count, targets->count == 1 ? "" : "s", value ? "one" : "a tuple or list", columns);
    }
    for (size_t i = 0; i < columns; i++) {
        TFOS_TRY(bind_target(&targets->at[i], i, schema, rows, error));
    }
    return TFOS_OK;
}

tfos_status tfos__spark_targets_bind(tfos__spark_targets *targets, const tfos_schema *schema, tfos_error *error)
{
    const tfos_rows *rows;
    if (targets->bound != NULL && tfos_schema_equal(targets->bound, schema)) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos_schema_rows(schema, &rows, error));
    TFOS_TRY(bind_all(targets, schema, rows, error));
    tfos_schema_free(targets->bound);
    targets->bound = tfos__schema_retain(schema);
    return TFOS_OK;
}

/* ---- a schema for Spark ---- */

static const char *spark_name_of(tfos__spark_leaf leaf)
{
    switch (leaf) {
    case TFOS__LEAF_INT8:
        return "byte";
    case TFOS__LEAF_UINT8:
    case TFOS__LEAF_INT16:
        return "short";
    case TFOS__LEAF_UINT16:
    case TFOS__LEAF_INT32:
        return "integer";
    case TFOS__LEAF_HALF:
    case TFOS__LEAF_FLOAT:
        return "float";
    case TFOS__LEAF_DOUBLE:
        return "double";
    case TFOS__LEAF_BOOL:
        return "boolean";
    case TFOS__LEAF_STRING:
        return "string";
    case TFOS__LEAF_BINARY:
        return "binary";
    default:
        return "long";
    }
}

/* One entry of the list of fields. */
static tfos_status derive(const tfos_schema *schema, const tfos_rows *rows, size_t index, tfos__buffer *out,
                          tfos_error *error)
{
    const tfos_field *column = tfos_schema_field(schema, index);
    found what = look_at(schema, rows, index);
    if (what.leaf == TFOS__LEAF_NOTHING || what.leaf == TFOS__LEAF_OBJECT) {
        return tfos__fail(
            error, TFOS_MISMATCH,
            "column '%s': no type of Spark's goes with %s. Declare the columns of the results with schema=",
            tfos__printable_text(column->name).text, leaves[what.leaf].text);
    }
    int lists = what.lists == 1 && what.dimensions == 2 ? 2 : what.lists;
    json_object *name = json_object_new_string(column->name);
    const char *quoted = name != NULL ? json_object_to_json_string(name) : NULL;
    tfos_status status =
        quoted != NULL ? tfos__buffer_printf(out, error, "%s{\"name\":%s,\"nullable\":true,\"metadata\":{},\"type\":",
                                             out->data[out->size - 1] == '}' ? "," : "", quoted)
                       : tfos__fail_memory(error, 1);
    json_object_put(name);
    for (int i = 0; status == TFOS_OK && i < lists; i++) {
        status = tfos__buffer_printf(out, error, "{\"type\":\"array\",\"containsNull\":true,\"elementType\":");
    }
    status = status == TFOS_OK ? tfos__buffer_printf(out, error, "\"%s\"}", spark_name_of(what.leaf)) : status;
    for (int i = 0; status == TFOS_OK && i < lists; i++) {
        status = tfos__buffer_append(out, "}", 1, error);
    }
    return status;
}

tfos_status tfos_schema_to_spark(const tfos_schema *schema, char **out, tfos_error *error)
{
    const tfos_rows *rows;
    tfos__buffer text = {0};
    TFOS_TRY(tfos_schema_rows(schema, &rows, error));
    tfos_status status = tfos__buffer_printf(&text, error, "{\"type\":\"struct\",\"fields\":[");
    for (size_t i = 0; status == TFOS_OK && i < tfos_schema_field_count(schema); i++) {
        status = derive(schema, rows, i, &text, error);
    }
    status = status == TFOS_OK ? tfos__buffer_append(&text, "]}", 3, error) : status;
    char *copy = status == TFOS_OK ? strdup((const char *)text.data) : NULL;
    if (status == TFOS_OK && copy == NULL) {
        status = tfos__fail_memory(error, text.size);
    }
    tfos__buffer_reset(&text);
    TFOS_TRY(status);
    *out = copy;
    return TFOS_OK;
}
