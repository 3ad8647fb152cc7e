/* The plan of a binding, for a driver: of all columns that rows of Spark's have it takes those that are fed, and
 * declares for them what the signature says of lengths and types; so whatever does not fit is refused where the row is,
 * with its number. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "column/schema.h"
#include "column/spark_type.h"
#include "tensorflow/binding_parts.h"

enum { SCHEMA_DEPTH = 64 };

static json_object *fields_of(json_object *schema)
{
    return tfos__json_member_of(schema, "fields", json_type_array);
}

static tfos_status names_in(json_object *schema, tfos__names *out, tfos_error *error)
{
    json_object *fields = fields_of(schema);
    size_t count = fields != NULL ? json_object_array_length(fields) : 0;
    out->at = calloc(count + 1, sizeof *out->at);
    if (out->at == NULL) {
        return tfos__fail_memory(error, (count + 1) * sizeof *out->at);
    }
    out->spark = fields;
    for (out->count = 0; out->count < count; out->count++) {
        out->at[out->count] = tfos__json_text(json_object_array_get_idx(fields, out->count), "name");
    }
    return TFOS_OK;
}

static json_object *find_field(json_object *schema, const char *name)
{
    json_object *fields = fields_of(schema);
    for (size_t i = 0; i < json_object_array_length(fields); i++) {
        json_object *field = json_object_array_get_idx(fields, i);
        if (strcmp(tfos__json_text(field, "name"), name) == 0) {
            return field;
        }
    }
    return NULL;
}

/* How many lists of lists a type of Spark's is: 0 for a value, 1 for an array and a vector of Spark ML. */
static int lists_of(json_object *type)
{
    const char *name = tfos__json_text(type, "type");
    if (strcmp(name, "array") == 0) {
        return 1 + lists_of(tfos__json_member(type, "elementType"));
    }
    return strcmp(name, "udt") == 0 ? 1 : 0;
}

/* The name of the values' type, or "". */
static const char *values_of(json_object *type)
{
    while (strcmp(tfos__json_text(type, "type"), "array") == 0) {
        type = tfos__json_member(type, "elementType");
    }
    return json_object_is_type(type, json_type_string) ? json_object_get_string(type) : "";
}

static json_object *shape_of(const tfos__bound *bound, int lists)
{
    int64_t values = tfos__tensor_spec_row_values(bound->spec);
    if (lists == 2) { /* the inner lists have the last size */
        values = bound->spec->rank == 3 ? bound->spec->shape[2] : -1;
    }
    json_object *shape = json_object_new_array();
    if (lists == 2) {
        json_object_array_add(shape, NULL);
    }
    json_object_array_add(shape, values >= 0 ? json_object_new_int64(values) : NULL);
    return shape;
}

/* What is declared for a column. Decimals have no type of ours, so they are cast; other numbers travel as they are, for
 * the model's process says which of them do not fit, and a cast would round them to anything. */
static json_object *declare(const tfos__bound *bound, json_object *field)
{
    json_object *type = tfos__json_member(field, "type");
    json_object *declared = json_object_new_object();
    const char *values = values_of(type);
    int lists = lists_of(type);
    bool is_decimal = strncmp(values, "decimal", strlen("decimal")) == 0;
    tfos__dtype_form form = tfos__dtype_form_of(bound->spec->dtype);
    if (lists > 0) {
        json_object_object_add(declared, "shape", shape_of(bound, lists));
    }
    if (form.has_columns && form.width > 0 && is_decimal) {
        json_object_object_add(declared, "cast", json_object_new_string(tfos_type_name(form.type)));
    }
    return declared;
}

/* The fed columns, as a schema of Spark's, and what is declared for each of them. */
typedef struct chosen {
    json_object *schema;
    json_object *columns;
} chosen;

static void choose(const tfos__bounds *inputs, json_object *schema, chosen *out)
{
    json_object *fields = json_object_new_array();
    *out = (chosen){json_object_new_object(), json_object_new_object()};
    for (size_t i = 0; i < inputs->count; i++) {
        const tfos__bound *bound = &inputs->at[i];
        json_object *field = find_field(schema, bound->column);
        json_object_array_add(fields, json_object_get(field));
        json_object_object_add(out->columns, bound->column, declare(bound, field));
    }
    json_object_object_add(out->schema, "type", json_object_new_string("struct"));
    json_object_object_add(out->schema, "fields", fields);
}

/* The schema in which they are fed. */
static tfos_status fed_schema(const chosen *from, tfos_schema **out, tfos_error *error)
{
    tfos__spark_columns columns = {0};
    json_object *description = json_object_new_object();
    json_object_object_add(description, "schema", json_object_get(from->schema));
    json_object_object_add(description, "columns", json_object_get(from->columns));
    const char *text = json_object_to_json_string_ext(description, JSON_C_TO_STRING_PLAIN);
    tfos_status status = text != NULL ? tfos__spark_columns_parse(text, strlen(text), &columns, error)
                                      : tfos__fail_memory(error, sizeof *from);
    if (status == TFOS_OK) {
        status = tfos__spark_columns_schema(&columns, out, error);
        tfos__spark_columns_reset(&columns);
    }
    json_object_put(description);
    return status;
}

static char *text_of(json_object *object)
{
    const char *text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN);
    return text != NULL ? strdup(text) : NULL;
}

static const char *output_of(const tfos__binding *binding, const char *column)
{
    for (size_t i = 0; i < binding->output_count; i++) {
        if (strcmp(binding->outputs[i].column, column) == 0) {
            return binding->outputs[i].spec->name;
        }
    }
    return "";
}

/* The order, and which output each name of its mapping was found to be: a model that is replaced while tasks go on may
 * have the same layers elsewhere, and they have loaded the one before. */
static char *settle(json_object *order, const tfos__binding *binding)
{
    json_object *mapping = tfos__json_member_of(order, "outputs", json_type_object);
    json_object *layers = json_object_new_object();
    if (mapping != NULL) {
        json_object_object_foreach(mapping, name, column)
        {
            const char *output = output_of(binding, json_object_get_string(column));
            json_object_object_add(layers, name, json_object_new_string(output));
        }
    }
    json_object_object_add(order, "layers", layers);
    return text_of(order);
}

static tfos_status write_plan(const chosen *from, json_object *order, const tfos__binding *binding,
                              tfos_model_plan *out, tfos_error *error)
{
    *out = (tfos_model_plan){.fed = text_of(from->schema),
                             .columns = text_of(from->columns),
                             .order = settle(order, binding),
                             .batch_rows = binding->batch_rows};
    tfos_status status = tfos_schema_to_spark(binding->results, &out->results, error);
    if (status == TFOS_OK && (out->fed == NULL || out->columns == NULL || out->order == NULL)) {
        status = tfos__fail_memory(error, sizeof *from);
    }
    if (status != TFOS_OK) {
        tfos_model_plan_reset(out);
    }
    return status;
}

static tfos_status plan_with(const tfos__saved_model *model, const char *order, json_object *parsed, const chosen *from,
                             tfos_model_plan *out, tfos_error *error)
{
    tfos_schema *fed = NULL;
    tfos__binding *binding = NULL;
    tfos_status status = fed_schema(from, &fed, error);
    status = status == TFOS_OK ? tfos__binding_new(model, order, fed, &binding, error) : status;
    status = status == TFOS_OK ? write_plan(from, parsed, binding, out, error) : status;
    tfos__binding_free(binding);
    tfos_schema_free(fed);
    return status;
}

static tfos_status plan_for(const tfos__saved_model *model, const char *order, json_object *parsed, json_object *schema,
                            tfos_model_plan *out, tfos_error *error)
{
    const tfos__signature *signature = NULL;
    tfos__names names = {0};
    tfos__bounds inputs = {0};
    tfos_status status = tfos__order_signature(model, parsed, &signature, error);
    status = status == TFOS_OK ? names_in(schema, &names, error) : status;
    status = status == TFOS_OK ? tfos__bind_inputs(signature, parsed, &names, &inputs, error) : status;
    if (status == TFOS_OK) {
        chosen fed;
        choose(&inputs, schema, &fed);
        status = plan_with(model, order, parsed, &fed, out, error);
        json_object_put(fed.schema);
        json_object_put(fed.columns);
    }
    tfos__bounds_reset(&inputs);
    free(names.at);
    return status;
}

tfos_status tfos__binding_plan(const tfos__saved_model *model, const char *order, const char *schema,
                               tfos_model_plan *out, tfos_error *error)
{
    json_object *parsed = NULL;
    json_object *spark = NULL;
    tfos__json_fault fault;
    TFOS_TRY(tfos__order_parse(order, &parsed, error));
    tfos_status status = tfos__json_object_parse(schema, strlen(schema), SCHEMA_DEPTH, &spark, &fault, error);
    if (status == TFOS_INVALID) {
        tfos__fail(error, TFOS_INVALID, "the schema of a DataFrame is no JSON object: %s, at byte %zu", fault.what,
                   fault.at);
    }
    status = status == TFOS_OK ? plan_for(model, order, parsed, spark, out, error) : status;
    json_object_put(parsed);
    json_object_put(spark);
    return status;
}

tfos_status tfos_model_plan_make(const tfos_file_system *served, const char *folder, const char *tags,
                                 const char *order, const char *schema, tfos_model_plan *out, tfos_error *error)
{
    tfos__saved_model *model;
    TFOS_TRY(tfos__saved_model_read(served, folder, tags, &model, error));
    tfos_status status = tfos__binding_plan(model, order, schema, out, error);
    tfos__saved_model_free(model);
    return status;
}

void tfos_model_plan_reset(tfos_model_plan *plan)
{
    free(plan->fed);
    free(plan->columns);
    free(plan->order);
    tfos_string_free(plan->results);
    *plan = (tfos_model_plan){.batch_rows = -1};
}
