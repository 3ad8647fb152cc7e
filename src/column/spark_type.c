/* The description of Spark columns: the JSON form of a Spark schema, as Spark writes it, and what the user declares.
 *
 *   {"schema": {"type": "struct", "fields": [{"name": "image", "type": {"type": "array", …}, "nullable": true}, …]},
 *    "columns": {"image": {"shape": [784], "cast": "float", "default": 0}}}
 *
 * or, for records of files, "records" with their kind instead of "columns".
 *
 * A column is selected, renamed or computed by Spark; here it is only given a type of ours. */
#include "column/spark_type.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"

enum { MAX_DESCRIPTION_BYTES = 64 << 20, MAX_DESCRIPTION_DEPTH = 64, MOST_DIGITS_IN_LONG = 18 };

/* What Spark's simple types are, and what they become unless a cast is declared. */
static const struct spark_name {
    const char *name;
    tfos__spark_kind kind;
    int width;
    tfos_type type;
} spark_names[] = {
    {"boolean", TFOS__SPARK_BOOLEAN, 1, TFOS_TYPE_BOOL}, {"byte", TFOS__SPARK_BYTE, 1, TFOS_TYPE_INT32},
    {"short", TFOS__SPARK_SHORT, 2, TFOS_TYPE_INT32},    {"integer", TFOS__SPARK_INT, 4, TFOS_TYPE_INT32},
    {"long", TFOS__SPARK_LONG, 8, TFOS_TYPE_INT64},      {"float", TFOS__SPARK_FLOAT, 4, TFOS_TYPE_FLOAT},
    {"double", TFOS__SPARK_DOUBLE, 8, TFOS_TYPE_DOUBLE}, {"date", TFOS__SPARK_INT, 4, TFOS_TYPE_INT32},
    {"timestamp", TFOS__SPARK_LONG, 8, TFOS_TYPE_INT64}, {"timestamp_ntz", TFOS__SPARK_LONG, 8, TFOS_TYPE_INT64},
    {"string", TFOS__SPARK_BYTES, 8, TFOS_TYPE_STRING},  {"binary", TFOS__SPARK_BYTES, 8, TFOS_TYPE_BINARY},
};

static const struct spark_name *find_name(const char *name)
{
    for (size_t i = 0; i < sizeof spark_names / sizeof spark_names[0]; i++) {
        if (strcmp(spark_names[i].name, name) == 0) {
            return &spark_names[i];
        }
    }
    return NULL;
}

bool tfos__spark_name_find(const char *name, tfos__spark_kind *kind, int *width)
{
    const struct spark_name *found = find_name(name);
    if (found != NULL) {
        *kind = found->kind;
        *width = found->width;
    }
    return found != NULL;
}

static tfos_status fail_description(tfos_error *error, const char *what)
{
    return tfos__fail(error, TFOS_INVALID,
                      "the description of the columns must be {\"schema\": a Spark schema, \"columns\": {…}}, or "
                      "\"records\" with a kind of record instead of \"columns\": %s",
                      what);
}

/* ---- the type that Spark says ---- */

static tfos_status parse_decimal(const char *name, tfos__spark_column *column, tfos_error *error)
{
    int precision;
    char end;
    if (sscanf(name, "decimal(%2d,%3d%c", &precision, &column->scale, &end) != 3 || end != ')' || precision < 1 ||
        precision > 38 || column->scale > precision || column->scale < -precision) {
        return tfos__fail(error, TFOS_UNSUPPORTED, "Spark's type '%s' is not known here",
                          tfos__printable_text(name).text);
    }
    column->precision = precision;
    column->kind = precision <= MOST_DIGITS_IN_LONG ? TFOS__SPARK_DECIMAL : TFOS__SPARK_BIG_DECIMAL;
    column->width = 8;
    column->field.type = TFOS_TYPE_DOUBLE;
    return TFOS_OK;
}

static tfos_status parse_name(const char *name, tfos__spark_column *column, tfos_error *error)
{
    const struct spark_name *found = find_name(name);
    if (found != NULL) {
        column->kind = found->kind;
        column->width = found->width;
        column->field.type = found->type;
        return TFOS_OK;
    }
    if (strncmp(name, "decimal(", 8) == 0) {
        return parse_decimal(name, column, error);
    }
    return tfos__fail(error, TFOS_UNSUPPORTED,
                      "values of Spark's type '%s' cannot be fed: cast them in Spark to a number, string, binary, date "
                      "or timestamp, or leave the column out",
                      tfos__printable_text(name).text);
}

static bool is_ml_vector(json_object *type)
{
    const char *class = tfos__json_text(type, "class");
    return strcmp(class, "org.apache.spark.ml.linalg.VectorUDT") == 0 ||
           strcmp(class, "org.apache.spark.mllib.linalg.VectorUDT") == 0;
}

/* Follows arrays and user-defined types to the values. */
static tfos_status parse_type(json_object *type, tfos__spark_column *column, tfos_error *error)
{
    const char *found;
    for (;;) {
        found = tfos__json_text(type, "type");
        if (strcmp(found, "udt") == 0 && is_ml_vector(type) && column->lists == 0) {
            column->ml = true;
            column->lists = 1;
            return parse_name("double", column, error);
        }
        if (strcmp(found, "udt") == 0) {
            json_object_object_get_ex(type, "sqlType", &type);
        } else if (strcmp(found, "array") == 0 && column->lists < TFOS__SPARK_LISTS_MAX) {
            column->lists++;
            json_object_object_get_ex(type, "elementType", &type);
        } else {
            break;
        }
    }
    if (json_object_is_type(type, json_type_string)) {
        return parse_name(json_object_get_string(type), column, error);
    }
    if (strcmp(found, "array") == 0) {
        return tfos__fail(error, TFOS_UNSUPPORTED,
                          "arrays are fed up to a depth of %d, this one is deeper: use flatten() in Spark",
                          TFOS__SPARK_LISTS_MAX);
    }
    return tfos__fail(error, TFOS_UNSUPPORTED,
                      "a %s cannot be fed: select what is wanted of it as columns of their own, as in "
                      "df.select(\"column.field\")",
                      strcmp(found, "map") == 0      ? "map"
                      : strcmp(found, "struct") == 0 ? "struct"
                                                     : "value of this type");
}

/* ---- what the user declares ---- */

static bool is_decimal(const tfos__spark_column *column)
{
    return column->kind == TFOS__SPARK_DECIMAL || column->kind == TFOS__SPARK_BIG_DECIMAL;
}

static bool can_cast(const tfos__spark_column *column, tfos_type to)
{
    bool real = to == TFOS_TYPE_FLOAT || to == TFOS_TYPE_DOUBLE;
    switch (column->kind) {
    case TFOS__SPARK_BYTES:
        return to == TFOS_TYPE_STRING || to == TFOS_TYPE_BINARY;
    case TFOS__SPARK_FLOAT:
    case TFOS__SPARK_DOUBLE:
        return real;
    case TFOS__SPARK_DECIMAL:
    case TFOS__SPARK_BIG_DECIMAL:
        return real || to == TFOS_TYPE_INT64 || to == TFOS_TYPE_STRING;
    case TFOS__SPARK_BOOLEAN:
        return real || to == TFOS_TYPE_INT32 || to == TFOS_TYPE_INT64 || to == TFOS_TYPE_BOOL;
    default:
        return real || to == TFOS_TYPE_INT32 || to == TFOS_TYPE_INT64;
    }
}

/* A type by our name for it or by Spark's. */
static tfos_status parse_target(const char *name, tfos_type *out, tfos_error *error)
{
    static const struct {
        const char *name;
        tfos_type type;
    } of_spark[] = {
        {"boolean", TFOS_TYPE_BOOL}, {"int", TFOS_TYPE_INT32},    {"integer", TFOS_TYPE_INT32},
        {"long", TFOS_TYPE_INT64},   {"bigint", TFOS_TYPE_INT64},
    };
    for (size_t i = 0; i < sizeof of_spark / sizeof of_spark[0]; i++) {
        if (strcmp(of_spark[i].name, name) == 0) {
            *out = of_spark[i].type;
            return TFOS_OK;
        }
    }
    if (tfos_type_parse(name, out, NULL) == TFOS_OK) {
        return TFOS_OK;
    }
    return tfos__fail(
        error, TFOS_INVALID,
        "unknown type '%s' to cast to: expected int32 (int, integer), int64 (long, bigint), float, double, "
        "bool (boolean), string or binary",
        tfos__printable_text(name).text);
}

static tfos_status parse_cast(json_object *cast, tfos__spark_column *column, tfos_error *error)
{
    if (cast == NULL && is_decimal(column)) {
        return tfos__fail(error, TFOS_UNSUPPORTED,
                          "TensorFlow has no decimals: declare a cast for the column (to double, float, long or "
                          "string), or cast it in Spark");
    }
    if (cast == NULL) {
        return TFOS_OK;
    }
    if (!json_object_is_type(cast, json_type_string)) {
        return tfos__fail(error, TFOS_INVALID, "\"cast\" must be the name of a type, such as \"float\"");
    }
    tfos_type type;
    TFOS_TRY(parse_target(json_object_get_string(cast), &type, error));
    if (!can_cast(column, type)) {
        return tfos__fail(error, TFOS_UNSUPPORTED, "%s cannot be cast to %s here: cast the column in Spark",
                          column->type, tfos_type_name(type));
    }
    column->field.type = type;
    return TFOS_OK;
}

/* The last dimension; the first of two is that of a feature list, which has any length. */
static tfos_status parse_shape(json_object *shape, tfos__spark_column *column, tfos_error *error)
{
    column->field.shape = column->lists > 0 ? TFOS_SHAPE_RAGGED : TFOS_SHAPE_SCALAR;
    column->field.feature_list = column->lists > 1;
    column->open = shape == NULL && column->lists > 0;
    if (shape == NULL) {
        return TFOS_OK;
    }
    static const char *const forms[] = {"[] for a scalar", "[n] or [null] for a list", "[null, n] or [null, null]"};
    size_t count = (size_t)column->lists;
    bool valid = json_object_is_type(shape, json_type_array) && json_object_array_length(shape) == count;
    json_object *last = valid && count > 0 ? json_object_array_get_idx(shape, count - 1) : NULL;
    valid = valid && (count < 2 || json_object_array_get_idx(shape, 0) == NULL);
    if (valid && last != NULL) {
        int64_t length = json_object_get_int64(last);
        valid = json_object_is_type(last, json_type_int) && length >= 0 && length <= TFOS_SCHEMA_MAX_LENGTH;
        column->field.shape = TFOS_SHAPE_FIXED;
        column->field.length = (int32_t)length;
    }
    if (!valid) {
        return tfos__fail(error, TFOS_INVALID, "the \"shape\" of %s must be %s, where n is at most %d; found %s%s",
                          column->type, forms[column->lists], TFOS_SCHEMA_MAX_LENGTH,
                          tfos__printable_text(json_object_to_json_string(shape)).text,
                          count == 2 ? ". For a list of one fixed length, use flatten() in Spark" : "");
    }
    return TFOS_OK;
}

static tfos_status push_default(json_object *value, tfos__spark_column *column, tfos_error *error)
{
    json_type type = json_object_get_type(value);
    switch (column->field.type) {
    case TFOS_TYPE_INT32:
    case TFOS_TYPE_INT64:
        if (type == json_type_int) {
            return tfos__vector_push_int(column->defaults, json_object_get_int64(value), error);
        }
        break;
    case TFOS_TYPE_FLOAT:
    case TFOS_TYPE_DOUBLE:
        if (type == json_type_int || type == json_type_double) {
            return tfos__vector_push_real(column->defaults, json_object_get_double(value), error);
        }
        break;
    case TFOS_TYPE_BOOL:
        if (type == json_type_boolean) {
            return tfos__vector_push_int(column->defaults, json_object_get_boolean(value), error);
        }
        break;
    case TFOS_TYPE_STRING:
    case TFOS_TYPE_BINARY:
        if (type == json_type_string) {
            return tfos__vector_push_bytes(column->defaults, json_object_get_string(value),
                                           (size_t)json_object_get_string_len(value), error);
        }
        break;
    }
    return tfos__fail(error, TFOS_INVALID, "the default must be of the column's type, which is %s; found %s",
                      tfos_type_name(column->field.type), tfos__printable_text(json_object_to_json_string(value)).text);
}

static tfos_status parse_default(json_object *value, tfos__spark_column *column, tfos_error *error)
{
    TFOS_TRY(tfos__vector_new(&(tfos_field){.name = "default", .type = column->field.type}, &column->defaults, error));
    if (column->lists == 0 || !json_object_is_type(value, json_type_array)) {
        return push_default(value, column, error);
    }
    size_t count = json_object_array_length(value);
    column->default_list = true;
    if (column->lists > 1 && count > 0) {
        return tfos__fail(error, TFOS_INVALID,
                          "the default of an array of arrays is one value, for its nulls, or [] for the arrays");
    }
    for (size_t i = 0; i < count; i++) {
        TFOS_TRY(push_default(json_object_array_get_idx(value, i), column, error));
    }
    if (column->field.shape == TFOS_SHAPE_FIXED && count != (size_t)column->field.length) {
        return tfos__fail(error, TFOS_INVALID, "the default has %zu values, the declared shape is [%d]", count,
                          (int)column->field.length);
    }
    return TFOS_OK;
}

/* ---- columns ---- */

static tfos_status check_options(json_object *options, tfos_error *error)
{
    json_object_object_foreach(options, key, value)
    {
        (void)value;
        if (strcmp(key, "shape") != 0 && strcmp(key, "default") != 0 && strcmp(key, "cast") != 0) {
            return tfos__fail(error, TFOS_INVALID, "unknown option \"%s\": a column has shape, default and cast",
                              tfos__printable_text(key).text);
        }
    }
    return TFOS_OK;
}

/* In a file a value may be missing, lists have any length, and the only real number is float. */
static tfos_status fit_record(const tfos__spark_columns *columns, tfos__spark_column *column, tfos_error *error)
{
    column->field.nullable = true;
    column->field.type = is_decimal(column) ? TFOS_TYPE_FLOAT : column->field.type;
    TFOS_TRY(parse_shape(NULL, column, error));
    column->open = false;
    if (column->lists > 1 && columns->record == TFOS_RECORD_EXAMPLE) {
        return tfos__fail(error, TFOS_UNSUPPORTED,
                          "an array of arrays has no place in a tf.train.Example: write records of type "
                          "SequenceExample, or flatten() the column in Spark");
    }
    if (columns->record == TFOS_RECORD_BYTES && (column->lists > 0 || column->kind != TFOS__SPARK_BYTES)) {
        return tfos__fail(error, TFOS_UNSUPPORTED, "records of type ByteArray are one column of binary, found %s",
                          column->type);
    }
    return TFOS_OK;
}

static tfos_status parse_column(json_object *spark_field, json_object *options, const tfos__spark_columns *columns,
                                tfos__spark_column *column, tfos_error *error)
{
    json_object *type = NULL;
    json_object_object_get_ex(spark_field, "type", &type);
    const char *text =
        json_object_is_type(type, json_type_string) ? json_object_get_string(type) : tfos__json_text(type, "type");
    snprintf(column->type, sizeof column->type, "%s", text);
    TFOS_TRY(parse_type(type, column, error));
    if (column->ml) {
        snprintf(column->type, sizeof column->type, "a Spark ML vector");
    }
    if (columns->for_records) {
        return fit_record(columns, column, error);
    }
    if (options == NULL) {
        TFOS_TRY(parse_cast(NULL, column, error));
        return parse_shape(NULL, column, error);
    }
    TFOS_TRY(check_options(options, error));
    TFOS_TRY(parse_cast(json_object_object_get(options, "cast"), column, error));
    TFOS_TRY(parse_shape(json_object_object_get(options, "shape"), column, error));
    json_object *value;
    return json_object_object_get_ex(options, "default", &value) ? parse_default(value, column, error) : TFOS_OK;
}

static tfos_status parse_columns(json_object *fields, json_object *options, tfos__spark_columns *columns,
                                 tfos_error *error)
{
    size_t count = json_object_array_length(fields);
    columns->at = calloc(count + 1, sizeof *columns->at);
    if (columns->at == NULL) {
        return tfos__fail_memory(error, count * sizeof *columns->at);
    }
    columns->count = count;
    for (size_t i = 0; i < count; i++) {
        json_object *spark_field = json_object_array_get_idx(fields, i);
        tfos__spark_column *column = &columns->at[i];
        const char *name = tfos__json_text(spark_field, "name");
        column->field.name = strdup(name);
        if (column->field.name == NULL) {
            return tfos__fail_memory(error, strlen(name) + 1);
        }
        tfos_status status =
            parse_column(spark_field, tfos__json_member_of(options, name, json_type_object), columns, column, error);
        if (status != TFOS_OK) {
            tfos__error_prefix(error, "column '%s'", tfos__printable_text(name).text);
            return status;
        }
    }
    return TFOS_OK;
}

/* Options for a column that is not there would be silently ignored. */
static tfos_status check_names(json_object *options, const tfos_schema *schema, tfos_error *error)
{
    if (options == NULL) {
        return TFOS_OK;
    }
    json_object_object_foreach(options, key, value)
    {
        if (!json_object_is_type(value, json_type_object)) {
            return tfos__fail(error, TFOS_INVALID,
                              "column '%s': its options must be an object, such as {\"default\": 0}",
                              tfos__printable_text(key).text);
        }
        const char *names[] = {key};
        tfos_schema *found;
        TFOS_TRY(tfos_schema_select(schema, names, 1, &found, error));
        tfos_schema_free(found);
    }
    return TFOS_OK;
}

static tfos_status parse_record(json_object *record, tfos__spark_columns *columns, tfos_error *error)
{
    if (!json_object_is_type(record, json_type_string)) {
        return fail_description(error, "\"records\" is no text");
    }
    columns->for_records = true;
    return tfos_record_kind_parse(json_object_get_string(record), &columns->record, error);
}

/* A reader may want no column at all, and count rows. */
static tfos_status check_count(const tfos__spark_columns *columns, size_t count, tfos_error *error)
{
    if ((count == 0 && !columns->for_records) || count > TFOS_SCHEMA_MAX_FIELDS) {
        return tfos__fail(error, TFOS_INVALID, "a DataFrame has 1 to %d columns, found %zu", TFOS_SCHEMA_MAX_FIELDS,
                          count);
    }
    if (columns->record == TFOS_RECORD_BYTES && count > 1) {
        return tfos__fail(error, TFOS_UNSUPPORTED, "records of type ByteArray are one column of binary, found %zu",
                          count);
    }
    return TFOS_OK;
}

static tfos_status parse_root(json_object *root, tfos__spark_columns *columns, tfos_error *error)
{
    json_object_object_foreach(root, key, value)
    {
        if (strcmp(key, "records") == 0) {
            TFOS_TRY(parse_record(value, columns, error));
        } else if (strcmp(key, "schema") != 0 && strcmp(key, "columns") != 0) {
            return fail_description(error, "it has another key");
        }
    }
    json_object *fields =
        tfos__json_member_of(tfos__json_member_of(root, "schema", json_type_object), "fields", json_type_array);
    if (fields == NULL) {
        return fail_description(error, "the Spark schema is missing");
    }
    json_object *options = json_object_object_get(root, "columns");
    if (options != NULL && !json_object_is_type(options, json_type_object)) {
        return fail_description(error, "\"columns\" is no object");
    }
    if (options != NULL && columns->for_records) {
        return fail_description(error, "it has both");
    }
    TFOS_TRY(check_count(columns, json_object_array_length(fields), error));
    TFOS_TRY(parse_columns(fields, options, columns, error));
    tfos_schema *schema;
    TFOS_TRY(tfos__spark_columns_schema(columns, &schema, error));
    tfos_status status = check_names(options, schema, error);
    tfos_schema_free(schema);
    return status;
}

tfos_status tfos__spark_columns_parse(const char *text, size_t bytes, tfos__spark_columns *out, tfos_error *error)
{
    if (bytes > MAX_DESCRIPTION_BYTES) {
        return tfos__fail(error, TFOS_LIMIT, "the description of columns has at most %d bytes, found %zu",
                          MAX_DESCRIPTION_BYTES, bytes);
    }
    json_object *root;
    tfos__json_fault fault = {0};
    tfos_status status = tfos__json_object_parse(text, bytes, MAX_DESCRIPTION_DEPTH, &root, &fault, error);
    if (status == TFOS_INVALID) {
        char what[128];
        snprintf(what, sizeof what, "%s, at byte %zu", fault.what, fault.at);
        return fail_description(error, what);
    }
    TFOS_TRY(status);
    tfos__spark_columns columns = {0};
    status = parse_root(root, &columns, error);
    json_object_put(root);
    if (status != TFOS_OK) {
        tfos__spark_columns_reset(&columns);
        return status;
    }
    *out = columns;
    return TFOS_OK;
}

void tfos__spark_columns_reset(tfos__spark_columns *columns)
{
    for (size_t i = 0; i < columns->count; i++) {
        free((char *)(uintptr_t)columns->at[i].field.name);
        tfos__vector_free(columns->at[i].defaults);
    }
    free(columns->at);
    *columns = (tfos__spark_columns){0};
}

tfos_status tfos__spark_columns_schema(const tfos__spark_columns *columns, tfos_schema **out, tfos_error *error)
{
    tfos_record_kind kind = columns->record == TFOS_RECORD_SEQUENCE ? TFOS_RECORD_SEQUENCE : TFOS_RECORD_EXAMPLE;
    if (columns->record == TFOS_RECORD_BYTES && columns->count == 1) {
        return tfos_schema_new(TFOS_RECORD_BYTES, out, error);
    }
    for (size_t i = 0; i < columns->count; i++) {
        if (columns->at[i].field.feature_list) {
            kind = TFOS_RECORD_SEQUENCE;
        }
    }
    tfos_schema *schema;
    TFOS_TRY(tfos_schema_new(kind, &schema, error));
    for (size_t i = 0; i < columns->count; i++) {
        tfos_status status = tfos_schema_add(schema, &columns->at[i].field, error);
        if (status != TFOS_OK) {
            tfos_schema_free(schema);
            return status;
        }
    }
    *out = schema;
    return TFOS_OK;
}

tfos_status tfos_schema_from_spark(const char *schema, size_t bytes, tfos_record_kind record, tfos_schema **out,
                                   tfos_error *error)
{
    tfos__buffer description = {0};
    tfos__spark_columns columns;
    tfos_status status =
        tfos__buffer_printf(&description, error, "{\"records\":\"%s\",\"schema\":", tfos_record_kind_name(record));
    status = status == TFOS_OK ? tfos__buffer_append(&description, schema, bytes, error) : status;
    status = status == TFOS_OK ? tfos__buffer_append(&description, "}", 1, error) : status;
    if (status == TFOS_OK) {
        status = tfos__spark_columns_parse((const char *)description.data, description.size, &columns, error);
    }
    tfos__buffer_reset(&description);
    TFOS_TRY(status);
    status = tfos__spark_columns_schema(&columns, out, error);
    tfos__spark_columns_reset(&columns);
    return status;
}
