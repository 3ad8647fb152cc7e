/* Arrow types to schemas: what of Arrow has a place in a record, and what to cast the rest to. */
#include "column/arrow_type.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/status.h"

/* Integers up to 32 bits with sign share INT32: an Example holds int64 all the same. */
static const tfos__arrow_leaf leaf_types[] = {
    {"n", TFOS__LEAF_NULL, TFOS_TYPE_BINARY, 0},        {"b", TFOS__LEAF_BIT, TFOS_TYPE_BOOL, 2},
    {"c", TFOS__LEAF_I8, TFOS_TYPE_INT32, 2},           {"C", TFOS__LEAF_U8, TFOS_TYPE_INT32, 2},
    {"s", TFOS__LEAF_I16, TFOS_TYPE_INT32, 2},          {"S", TFOS__LEAF_U16, TFOS_TYPE_INT32, 2},
    {"i", TFOS__LEAF_I32, TFOS_TYPE_INT32, 2},          {"I", TFOS__LEAF_U32, TFOS_TYPE_INT64, 2},
    {"l", TFOS__LEAF_I64, TFOS_TYPE_INT64, 2},          {"L", TFOS__LEAF_U64, TFOS_TYPE_INT64, 2},
    {"e", TFOS__LEAF_HALF, TFOS_TYPE_FLOAT, 2},         {"f", TFOS__LEAF_FLOAT, TFOS_TYPE_FLOAT, 2},
    {"g", TFOS__LEAF_DOUBLE, TFOS_TYPE_DOUBLE, 2},      {"u", TFOS__LEAF_BYTES, TFOS_TYPE_STRING, 3},
    {"z", TFOS__LEAF_BYTES, TFOS_TYPE_BINARY, 3},       {"U", TFOS__LEAF_LARGE_BYTES, TFOS_TYPE_STRING, 3},
    {"Z", TFOS__LEAF_LARGE_BYTES, TFOS_TYPE_BINARY, 3}, {"vu", TFOS__LEAF_VIEW, TFOS_TYPE_STRING, 3},
    {"vz", TFOS__LEAF_VIEW, TFOS_TYPE_BINARY, 3},
};

static const tfos__arrow_leaf fixed_bytes_type = {"w:", TFOS__LEAF_FIXED_BYTES, TFOS_TYPE_BINARY, 2};

/* Types that a tf.train.Example has no place for, by the beginning of their format. */
static const struct {
    const char *prefix;
    const char *name;
    const char *advice;
} refused_types[] = {
    {"td", "date", "cast it to int64 (days or milliseconds) or to string"},
    {"tt", "time", "cast it to int64 or to string"},
    {"ts", "timestamp", "cast it to int64 or to string"},
    {"tD", "duration", "cast it to int64"},
    {"ti", "interval", "cast it to string"},
    {"d:", "decimal", "cast it to double, int64 or string"},
    {"+s", "struct", "make its fields columns of their own"},
    {"+m", "map", "make its entries columns of their own, or two lists of keys and values"},
    {"+u", "union", "choose one of its types for the whole column"},
    {"+vl", "list view", "cast it to list"},
    {"+vL", "large list view", "cast it to list"},
    {"+r", "run-end encoded", "decode it first (in PyArrow: pyarrow.compute.run_end_decode)"},
};

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static tfos_status fail_type(const char *format, tfos_error *error)
{
    for (size_t i = 0; i < sizeof refused_types / sizeof refused_types[0]; i++) {
        if (starts_with(format, refused_types[i].prefix)) {
            return tfos__fail(error, TFOS_UNSUPPORTED,
                              "the Arrow type %s (format '%s') cannot be written to a record: %s",
                              refused_types[i].name, tfos__printable_text(format).text, refused_types[i].advice);
        }
    }
    return tfos__fail(
        error, TFOS_UNSUPPORTED,
        "the Arrow format '%s' is not known: cast it to int64, float, double, bool, string, binary or a list "
        "of one of these",
        tfos__printable_text(format).text);
}

/* The number behind "w:" or "+w:". */
static tfos_status parse_width(const char *format, const char *digits, int32_t *out, tfos_error *error)
{
    char *end;
    long width = strtol(digits, &end, 10);
    if (end == digits || *end != '\0' || width < 0 || width > TFOS_SCHEMA_MAX_LENGTH) {
        return tfos__fail(error, TFOS_UNSUPPORTED, "the Arrow format '%s' needs a length from 0 to %d",
                          tfos__printable_text(format).text, TFOS_SCHEMA_MAX_LENGTH);
    }
    *out = (int32_t)width;
    return TFOS_OK;
}

static const tfos__arrow_leaf *find_leaf(const char *format)
{
    for (size_t i = 0; i < sizeof leaf_types / sizeof leaf_types[0]; i++) {
        if (strcmp(format, leaf_types[i].format) == 0) {
            return &leaf_types[i];
        }
    }
    return NULL;
}

static tfos_status parse_level(const struct ArrowSchema *schema, tfos__arrow_level *out, tfos_error *error)
{
    const char *format = schema->format;
    *out = (tfos__arrow_level){.kind = TFOS__LEVEL_VALUES};
    if (format == NULL) {
        return tfos__fail(error, TFOS_INVALID, "the Arrow schema has no format: it was released or never filled");
    }
    if (schema->dictionary != NULL) {
        out->kind = TFOS__LEVEL_DICTIONARY;
        out->leaf = find_leaf(format);
        if (out->leaf == NULL || out->leaf->kind < TFOS__LEAF_I8 || out->leaf->kind > TFOS__LEAF_U64) {
            return tfos__fail(error, TFOS_INVALID, "the indices of an Arrow dictionary are integers, found format '%s'",
                              tfos__printable_text(format).text);
        }
        return TFOS_OK;
    }
    if (strcmp(format, "+l") == 0) {
        out->kind = TFOS__LEVEL_LIST;
    } else if (strcmp(format, "+L") == 0) {
        out->kind = TFOS__LEVEL_LARGE_LIST;
    } else if (starts_with(format, "+w:")) {
        out->kind = TFOS__LEVEL_FIXED_LIST;
        return parse_width(format, format + 3, &out->width, error);
    } else if (starts_with(format, "w:")) {
        out->leaf = &fixed_bytes_type;
        return parse_width(format, format + 2, &out->width, error);
    } else {
        out->leaf = find_leaf(format);
        if (out->leaf == NULL) {
            return fail_type(format, error);
        }
    }
    return TFOS_OK;
}

static tfos_status parse_levels(const struct ArrowSchema *schema, tfos__arrow_levels *out, tfos_error *error)
{
    *out = (tfos__arrow_levels){0};
    for (;;) {
        if (out->count == TFOS__ARROW_LEVELS_MAX) {
            return tfos__fail(error, TFOS_UNSUPPORTED, "the type is nested more than %d levels deep",
                              TFOS__ARROW_LEVELS_MAX);
        }
        tfos__arrow_level *now = &out->at[out->count++];
        TFOS_TRY(parse_level(schema, now, error));
        if (now->kind == TFOS__LEVEL_DICTIONARY) {
            schema = schema->dictionary;
        } else if (now->kind == TFOS__LEVEL_VALUES) {
            return TFOS_OK;
        } else {
            if (++out->lists > 2) {
                return tfos__fail(
                    error, TFOS_UNSUPPORTED,
                    "lists are nested more than two deep: a SequenceExample holds lists of lists, an Example "
                    "lists; flatten the inner ones");
            }
            if (schema->n_children != 1 || schema->children == NULL || schema->children[0] == NULL) {
                return tfos__fail(error, TFOS_INVALID, "an Arrow list type has one child, found %lld",
                                  (long long)schema->n_children);
            }
            schema = schema->children[0];
        }
    }
}

/* ---- schema ---- */

/* Arrow's metadata: number of pairs, then length and bytes of each key and value. */
static bool has_feature_list_key(const char *metadata)
{
    static const char wanted[] = TFOS__ARROW_FEATURE_LIST_KEY;
    if (metadata == NULL) {
        return false;
    }
    uint32_t pairs = tfos__load_u32(metadata);
    metadata += 4;
    for (uint32_t i = 0; i < pairs; i++) {
        uint32_t key_bytes = tfos__load_u32(metadata);
        const char *key = metadata + 4;
        if (key_bytes == sizeof wanted - 1 && memcmp(key, wanted, key_bytes) == 0) {
            return true;
        }
        metadata = key + key_bytes;
        metadata += 4 + tfos__load_u32(metadata);
    }
    return false;
}

const char *tfos__arrow_name(const struct ArrowSchema *schema)
{
    return schema->name != NULL ? schema->name : "";
}

/* Parses the type of a column and says what field it is. */
tfos_status tfos__arrow_parse_field(const struct ArrowSchema *schema, tfos__arrow_levels *parsed, tfos_field *out,
                                    tfos_error *error)
{
    TFOS_TRY(parse_levels(schema, parsed, error));
    bool marked = has_feature_list_key(schema->metadata);
    if (marked && parsed->lists == 0) {
        return tfos__fail(error, TFOS_INVALID, "the metadata says %s, but the column is not a list",
                          TFOS__ARROW_FEATURE_LIST_KEY);
    }
    *out = (tfos_field){.name = tfos__arrow_name(schema),
                        .type = parsed->at[parsed->count - 1].leaf->type,
                        .nullable = (schema->flags & ARROW_FLAG_NULLABLE) != 0,
                        .feature_list = marked || parsed->lists == 2};
    bool has_shape = parsed->lists > (out->feature_list ? 1 : 0);
    int list = 0;
    for (int i = 0; i < parsed->count; i++) {
        tfos__arrow_level *now = &parsed->at[i];
        now->takes_null = list == 0 || (out->feature_list && list == 1);
        if (now->kind == TFOS__LEVEL_VALUES || now->kind == TFOS__LEVEL_DICTIONARY) {
            continue;
        }
        if (++list == parsed->lists && has_shape) {
            out->shape = now->kind == TFOS__LEVEL_FIXED_LIST ? TFOS_SHAPE_FIXED : TFOS_SHAPE_RAGGED;
            out->length = now->kind == TFOS__LEVEL_FIXED_LIST ? now->width : 0;
        }
    }
    return TFOS_OK;
}

tfos_status tfos__arrow_prefix_column(tfos_status status, const struct ArrowSchema *schema, tfos_error *error)
{
    if (status != TFOS_OK) {
        tfos__error_prefix(error, "column '%s'", tfos__printable_text(tfos__arrow_name(schema)).text);
    }
    return status;
}

tfos_status tfos__arrow_check_struct(const struct ArrowSchema *schema, tfos_error *error)
{
    if (schema->release == NULL || schema->format == NULL) {
        return tfos__fail(error, TFOS_INVALID, "the Arrow schema was released or never filled");
    }
    if (strcmp(schema->format, "+s") != 0 || schema->dictionary != NULL) {
        return tfos__fail(
            error, TFOS_INVALID,
            "expected an Arrow struct whose fields are the columns (a table or record batch), found format '%s'",
            tfos__printable_text(schema->format).text);
    }
    if (schema->n_children < 0 || schema->n_children > TFOS_SCHEMA_MAX_FIELDS ||
        (schema->n_children > 0 && schema->children == NULL)) {
        return tfos__fail(error, TFOS_LIMIT, "an Arrow struct must have 0 to %d columns, found %lld",
                          TFOS_SCHEMA_MAX_FIELDS, (long long)schema->n_children);
    }
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (schema->children[i] == NULL || schema->children[i]->format == NULL) {
            return tfos__fail(error, TFOS_INVALID, "column %lld of the Arrow schema was released or never filled",
                              (long long)i);
        }
    }
    return TFOS_OK;
}

static tfos_status import_bytes(const struct ArrowSchema *schema, tfos_schema **out, tfos_error *error)
{
    tfos__arrow_levels parsed;
    tfos_field field;
    if (schema->n_children != 1) {
        return tfos__fail(error, TFOS_MISMATCH,
                          "records of raw bytes are written from one column of binaries, found %lld",
                          (long long)schema->n_children);
    }
    const struct ArrowSchema *column = schema->children[0];
    TFOS_TRY(tfos__arrow_prefix_column(tfos__arrow_parse_field(column, &parsed, &field, error), column, error));
    if (field.shape != TFOS_SHAPE_SCALAR || field.feature_list || tfos__type_width(field.type) >= 0) {
        char type[64];
        tfos__field_describe(&field, type, sizeof type);
        tfos__fail(error, TFOS_MISMATCH, "records of raw bytes are written from a column of binaries, found %s", type);
        return tfos__arrow_prefix_column(TFOS_MISMATCH, column, error);
    }
    return tfos_schema_new(TFOS_RECORD_BYTES, out, error);
}

static tfos_status add_column(tfos_schema *schema, const struct ArrowSchema *column, tfos_error *error)
{
    tfos__arrow_levels parsed;
    tfos_field field;
    TFOS_TRY(tfos__arrow_prefix_column(tfos__arrow_parse_field(column, &parsed, &field, error), column, error));
    if (field.feature_list && tfos_schema_kind(schema) == TFOS_RECORD_EXAMPLE) {
        tfos__fail(error, TFOS_MISMATCH,
                   "a tf.train.Example has no place for a list of lists: flatten the column or write sequence_example");
        return tfos__arrow_prefix_column(TFOS_MISMATCH, column, error);
    }
    return tfos_schema_add(schema, &field, error);
}

/* What AUTO stands for. Columns that cannot be parsed are told of later, with their names. */
static tfos_record_kind choose_kind(const struct ArrowSchema *schema)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        tfos__arrow_levels parsed;
        tfos_field field;
        if (tfos__arrow_parse_field(schema->children[i], &parsed, &field, NULL) == TFOS_OK && field.feature_list) {
            return TFOS_RECORD_SEQUENCE;
        }
    }
    return TFOS_RECORD_EXAMPLE;
}

tfos_status tfos_schema_import(const struct ArrowSchema *schema, tfos_record_kind kind, tfos_schema **out,
                               tfos_error *error)
{
    TFOS_TRY(tfos__arrow_check_struct(schema, error));
    if (kind == TFOS_RECORD_BYTES) {
        return import_bytes(schema, out, error);
    }
    tfos_schema *made;
    TFOS_TRY(tfos_schema_new(kind == TFOS_RECORD_AUTO ? choose_kind(schema) : kind, &made, error));
    for (int64_t i = 0; i < schema->n_children; i++) {
        tfos_status status = add_column(made, schema->children[i], error);
        if (status != TFOS_OK) {
            tfos_schema_free(made);
            return status;
        }
    }
    *out = made;
    return TFOS_OK;
}
