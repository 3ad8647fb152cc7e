/* Bindings: names first, then types and shapes, each with an error that says what the signature wants and what the rows
 * have. */
#include "tensorflow/binding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/status.h"
#include "column/schema.h"
#include "tensorflow/binding_parts.h"

enum { ORDER_DEPTH = 8, DESCRIPTION_BYTES = 192 };

static const char default_signature[] = "serving_default";

/* ---- tensors of a signature ---- */

int64_t tfos__tensor_spec_row_values(const tfos__tensor_spec *spec)
{
    int64_t values = 1;
    for (int i = 1; i < spec->rank; i++) {
        if (spec->shape[i] < 0 || __builtin_mul_overflow(values, spec->shape[i], &values)) {
            return -1;
        }
    }
    return spec->rank < 0 ? -1 : values;
}

/* Whether this is the name of the tensor in the graph: "op:0", or "op" for the first output of an op. */
static bool is_in_graph(const tfos__tensor_spec *spec, const char *name)
{
    size_t bytes = strlen(name);
    return spec->tensor[0] != '\0' && (strcmp(spec->tensor, name) == 0 || (strncmp(spec->tensor, name, bytes) == 0 &&
                                                                           strcmp(spec->tensor + bytes, ":0") == 0));
}

/* By its name, its tensor, or its position. NULL: there is none. */
static const tfos__tensor_spec *find_spec(const tfos__tensor_specs *specs, const char *name)
{
    for (size_t i = 0; i < specs->count; i++) {
        if (strcmp(specs->at[i].name, name) == 0) {
            return &specs->at[i];
        }
    }
    for (size_t i = 0; i < specs->count; i++) {
        if (is_in_graph(&specs->at[i], name)) {
            return &specs->at[i];
        }
    }
    char *end;
    unsigned long position = strtoul(name, &end, 10);
    bool is_position = name[0] >= '0' && name[0] <= '9' && *end == '\0';
    return is_position && position < specs->count ? &specs->at[position] : NULL;
}

/* ---- pairs of columns and tensors ---- */

void tfos__bounds_reset(tfos__bounds *bounds)
{
    for (size_t i = 0; i < bounds->count; i++) {
        free(bounds->at[i].column);
    }
    free(bounds->at);
    *bounds = (tfos__bounds){0};
}

static tfos_status add(tfos__bounds *bounds, const tfos__tensor_spec *spec, const char *column, tfos_error *error)
{
    TFOS_TRY(tfos__array_reserve(&bounds->at, bounds->count, &bounds->capacity, sizeof *bounds->at, error));
    char *name = strdup(column);
    if (name == NULL) {
        return tfos__fail_memory(error, strlen(column));
    }
    bounds->at[bounds->count] = (tfos__bound){.spec = spec, .column = name, .index = bounds->count};
    bounds->count++;
    return TFOS_OK;
}

static const tfos__bound *find_bound(const tfos__bounds *bounds, const tfos__tensor_spec *spec, const char *column)
{
    for (size_t i = 0; i < bounds->count; i++) {
        if (bounds->at[i].spec == spec || strcmp(bounds->at[i].column, column) == 0) {
            return &bounds->at[i];
        }
    }
    return NULL;
}

static tfos_status fail_twice(const tfos__bound *before, const tfos__tensor_spec *spec, const char *column,
                              tfos_error *error)
{
    return tfos__fail(error, TFOS_MISMATCH,
                      "the mapping of '%s' and '%s' is in conflict with that of '%s' and '%s': each tensor and each "
                      "column can be in one pair only",
                      tfos__printable_text(spec->name).text, tfos__printable_text(column).text,
                      tfos__printable_text(before->spec->name).text, tfos__printable_text(before->column).text);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The keys of an object in their order, which is not that of a Python dict, or of JSON. *out is the caller's, and what
 * it points to is the object's. */
static tfos_status sorted_keys(json_object *object, const char ***out, size_t *count, tfos_error *error)
{
    size_t length = (size_t)json_object_object_length(object);
    const char **keys = calloc(length + 1, sizeof *keys);
    if (keys == NULL) {
        return tfos__fail_memory(error, (length + 1) * sizeof *keys);
    }
    *count = 0;
    json_object_object_foreach(object, key, value)
    {
        (void)value;
        keys[(*count)++] = key;
    }
    qsort(keys, *count, sizeof *keys, compare_texts);
    *out = keys;
    return TFOS_OK;
}

/* What a pair goes between, and what is said if it is not there. */
typedef struct ends {
    const tfos__saved_model *model; /* for outputs */
    const tfos__signature *signature;
    const tfos__names *names; /* for inputs */
    json_object *layers;      /* NULL, or which outputs layers were found to make */
    bool outputs;
    bool lenient; /* pairs are left out whose tensor there is not */
} ends;

/* By the layer that makes it, which takes a while: nothing else has that name. */
static tfos_status find_by_layer(const ends *of, const char *name, const tfos__tensor_spec **out, tfos_error *error)
{
    tfos__layer_search search;
    tfos_status status = tfos__saved_model_find_layer(of->model, of->signature, name, &search, error);
    if (status == TFOS_OK && search.output == NULL) {
        status = tfos__fail_output(of->signature, &search, name, error);
    }
    *out = search.output;
    tfos__layer_search_reset(&search);
    return status;
}

/* *out is NULL if the pair is to be left out. */
static tfos_status find_tensor(const ends *of, const char *name, const tfos__tensor_spec **out, tfos_error *error)
{
    const tfos__tensor_specs *specs = of->outputs ? &of->signature->outputs : &of->signature->inputs;
    *out = find_spec(specs, name);
    if (*out == NULL && of->outputs) {
        *out = find_spec(specs, tfos__json_text(of->layers, name));
    }
    if (*out != NULL || of->lenient) {
        return TFOS_OK;
    }
    return of->outputs ? find_by_layer(of, name, out, error)
                       : tfos__fail_tensor(of->signature, of->names, "the input mapping names a tensor", name,
                                           "Name an input, or its position: '0' for the first", error);
}

/* The pairs of a mapping, either way. */
static tfos_status add_mapped(const ends *of, json_object *mapping, tfos__bounds *bounds, tfos_error *error)
{
    const char **keys = NULL;
    size_t count = 0;
    TFOS_TRY(sorted_keys(mapping, &keys, &count, error));
    tfos_status status = TFOS_OK;
    for (size_t i = 0; i < count && status == TFOS_OK; i++) {
        const char *value = tfos__json_text(mapping, keys[i]);
        const char *column = of->outputs ? value : keys[i];
        const tfos__tensor_spec *spec = NULL;
        status = find_tensor(of, of->outputs ? keys[i] : value, &spec, error);
        if (status == TFOS_OK && spec != NULL) {
            const tfos__bound *before = find_bound(bounds, spec, column);
            status = before != NULL ? fail_twice(before, spec, column, error) : add(bounds, spec, column, error);
        }
    }
    free(keys);
    return status;
}

static bool has_name(const tfos__names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->at[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Without a mapping: columns have the names of inputs, or there is one of each. */
static tfos_status add_by_name(const tfos__signature *signature, const tfos__names *names, tfos__bounds *bounds,
                               tfos_error *error)
{
    const tfos__tensor_specs *inputs = &signature->inputs;
    if (inputs->count == 1 && names->count == 1) {
        return add(bounds, &inputs->at[0], names->at[0], error);
    }
    for (size_t i = 0; i < inputs->count; i++) {
        if (has_name(names, inputs->at[i].name)) {
            TFOS_TRY(add(bounds, &inputs->at[i], inputs->at[i].name, error));
        }
    }
    return TFOS_OK;
}

/* The parts of a sparse tensor come as "x", "x_1" and "x_2", and nothing says what they are. */
static bool is_sparse(const tfos__signature *signature, const tfos__tensor_spec *first)
{
    char names[2][256];
    snprintf(names[0], sizeof names[0], "%s_1", first->name);
    snprintf(names[1], sizeof names[1], "%s_2", first->name);
    const tfos__tensor_spec *values = find_spec(&signature->inputs, names[0]);
    const tfos__tensor_spec *sizes = find_spec(&signature->inputs, names[1]);
    return values != NULL && sizes != NULL && first->dtype == TFOS__DTYPE_INT64 && first->rank == 2 &&
           first->shape[1] > 0 && values->rank == 1 && sizes->dtype == TFOS__DTYPE_INT64 && sizes->rank == 1 &&
           sizes->shape[0] == first->shape[1];
}

static tfos_status refuse_sparse(const tfos__signature *signature, tfos_error *error)
{
    for (size_t i = 0; i < signature->inputs.count; i++) {
        const tfos__printable name = tfos__printable_text(signature->inputs.at[i].name);
        if (is_sparse(signature, &signature->inputs.at[i])) {
            return tfos__fail(error, TFOS_UNSUPPORTED,
                              "the inputs '%s', '%s_1' and '%s_2' of the signature '%s' are the parts of a sparse "
                              "tensor, which no column can be. Export the model with a signature that has dense "
                              "tensors, and make the sparse one of them inside",
                              name.text, name.text, name.text, tfos__printable_text(signature->name).text);
        }
    }
    return TFOS_OK;
}

/* The parts of a ragged tensor come as "x" and "x_1", …, its row splits; other models have such inputs, too. */
static bool may_be_splits(const tfos__signature *signature, const tfos__tensor_spec *spec)
{
    const char *end = strrchr(spec->name, '_');
    size_t stem = end != NULL ? (size_t)(end - spec->name) : 0;
    char name[256];
    if (stem == 0 || stem >= sizeof name || end[1] < '1' || end[1] > '9' || spec->rank != 1 ||
        (spec->dtype != TFOS__DTYPE_INT64 && spec->dtype != TFOS__DTYPE_INT32)) {
        return false;
    }
    memcpy(name, spec->name, stem);
    name[stem] = '\0';
    return find_spec(&signature->inputs, name) != NULL;
}

static tfos_status fail_without_column(const tfos__signature *signature, const tfos__names *names,
                                       const tfos__tensor_spec *spec, tfos_error *error)
{
    const char *advice = may_be_splits(signature, spec)
                             ? "If it is a part of a ragged tensor, its row splits, no column can be that: export the "
                               "model with a signature that has dense tensors, and make the ragged one of them inside. "
                               "Otherwise map a column to it (setInputMapping({column: tensor}), --inputs "
                               "COLUMN=TENSOR)"
                             : "Map a column to each of them (setInputMapping({column: tensor}), --inputs "
                               "COLUMN=TENSOR)";
    return tfos__fail_tensor(signature, names, "no column is mapped to the input", spec->name, advice, error);
}

tfos_status tfos__bind_inputs(const tfos__signature *signature, json_object *order, const tfos__names *names,
                              tfos__bounds *bounds, tfos_error *error)
{
    json_object *mapping = tfos__json_member_of(order, "inputs", json_type_object);
    const ends of = {.signature = signature,
                     .names = names,
                     .lenient = json_object_get_boolean(tfos__json_member_of(order, "lenient", json_type_boolean))};
    TFOS_TRY(refuse_sparse(signature, error));
    TFOS_TRY(mapping != NULL ? add_mapped(&of, mapping, bounds, error) : add_by_name(signature, names, bounds, error));
    for (size_t i = 0; i < bounds->count; i++) {
        if (!has_name(names, bounds->at[i].column)) {
            return tfos__fail_column(signature, names, bounds->at[i].column, error);
        }
    }
    for (size_t i = 0; i < signature->inputs.count; i++) {
        if (find_bound(bounds, &signature->inputs.at[i], "") == NULL) {
            return fail_without_column(signature, names, &signature->inputs.at[i], error);
        }
    }
    return TFOS_OK;
}

static tfos_status bind_outputs(const tfos__saved_model *model, const tfos__signature *signature, json_object *order,
                                tfos__bounds *bounds, tfos_error *error)
{
    const ends of = {.model = model,
                     .signature = signature,
                     .layers = tfos__json_member_of(order, "layers", json_type_object),
                     .outputs = true};
    json_object *mapping = tfos__json_member_of(order, "outputs", json_type_object);
    if (mapping != NULL && json_object_object_length(mapping) > 0) {
        return add_mapped(&of, mapping, bounds, error);
    }
    for (size_t i = 0; i < signature->outputs.count; i++) {
        TFOS_TRY(add(bounds, &signature->outputs.at[i], signature->outputs.at[i].name, error));
    }
    return TFOS_OK;
}

/* ---- types and shapes ---- */

/* What no column can be, whatever its type. */
static tfos_status check_tensor(const tfos__tensor_spec *spec, tfos_error *error)
{
    if (spec->form != TFOS__TENSOR_DENSE) {
        return tfos__fail(error, TFOS_UNSUPPORTED,
                          "it is a %s tensor, which no column can be. Export the model with a signature that has dense "
                          "tensors, and make the others of them inside",
                          spec->form == TFOS__TENSOR_SPARSE ? "sparse" : "composite");
    }
    if (!tfos__dtype_form_of(spec->dtype).has_columns) {
        return tfos__fail(error, TFOS_UNSUPPORTED,
                          "no column has values of %s. Convert them inside of the model's signature",
                          tfos__dtype_name(spec->dtype));
    }
    if (spec->rank == 0) {
        return tfos__fail(error, TFOS_UNSUPPORTED,
                          "it is one value for a whole batch, not one for each row. Export the model with a signature "
                          "whose tensors have a first dimension for rows, or map the others only");
    }
    return TFOS_OK;
}

static bool is_bytes_of_numbers(const tfos_field *field, const tfos__tensor_spec *spec)
{
    return field->type == TFOS_TYPE_BINARY && spec->dtype == TFOS__DTYPE_UINT8;
}

/* Values of a row that a column has; -1: each row its own number. */
static int64_t values_of(const tfos_field *field, const tfos__tensor_spec *spec)
{
    if (field->feature_list || field->shape == TFOS_SHAPE_RAGGED || is_bytes_of_numbers(field, spec)) {
        return -1;
    }
    return field->shape == TFOS_SHAPE_FIXED ? field->length : 1;
}

static int unknown_sizes(const tfos__tensor_spec *spec, int64_t *known)
{
    int count = 0;
    *known = 1;
    for (int i = 1; i < spec->rank; i++) {
        count += spec->shape[i] < 0 ? 1 : 0;
        *known *= spec->shape[i] < 0 ? 1 : spec->shape[i];
    }
    return count;
}

static tfos_status check_shape(const tfos_field *field, const tfos__tensor_spec *spec, tfos_error *error)
{
    int64_t known;
    int64_t want = tfos__tensor_spec_row_values(spec);
    int64_t have = values_of(field, spec);
    int unknown = unknown_sizes(spec, &known);
    if (is_bytes_of_numbers(field, spec) && (field->feature_list || field->shape != TFOS_SHAPE_SCALAR)) {
        return tfos__fail(error, TFOS_MISMATCH,
                          "the bytes of one binary a row are numbers of uint8, and the column has lists of binaries");
    }
    if (field->feature_list && spec->rank >= 0 && spec->rank != 3) {
        return tfos__fail(error, TFOS_MISMATCH, "a list of lists becomes a tensor of three dimensions, and it has %d",
                          spec->rank);
    }
    if (unknown > 1 && !field->feature_list) {
        return tfos__fail(
            error, TFOS_MISMATCH,
            "%d of the sizes of a row are open, and one list says only one of them. Export the model with "
            "sizes that are known",
            unknown);
    }
    if (want >= 0 && have >= 0 && want != have) {
        return tfos__fail(error, TFOS_MISMATCH, "it wants %lld values a row, and the column has %lld", (long long)want,
                          (long long)have);
    }
    if (want < 0 && have >= 0 && known > 0 && have % known != 0) {
        return tfos__fail(error, TFOS_MISMATCH, "it wants a multiple of %lld values a row, and the column has %lld",
                          (long long)known, (long long)have);
    }
    return TFOS_OK;
}

static tfos_status check_input(const tfos__bound *bound, const tfos_field *field, tfos_error *error)
{
    TFOS_TRY(check_tensor(bound->spec, error));
    if (!tfos__dtype_takes(bound->spec->dtype, field->type)) {
        return tfos__fail(error, TFOS_MISMATCH,
                          "values of %s do not become %s by themselves. Cast the column, or give one that fits",
                          tfos_type_name(field->type), tfos__dtype_name(bound->spec->dtype));
    }
    return check_shape(field, bound->spec, error);
}

/* "input 'x' float32 [?, 784], column 'image' float[784]: …". */
static tfos_status locate_input(tfos_status status, const tfos__bound *bound, const tfos_field *field,
                                tfos_error *error)
{
    char tensor[DESCRIPTION_BYTES];
    char column[64];
    if (status != TFOS_OK) {
        tfos__tensor_spec_describe(bound->spec, tensor, sizeof tensor);
        tfos__field_describe(field, column, sizeof column);
        tfos__error_prefix(error, "input '%s' %s, column '%s' %s", tfos__printable_text(bound->spec->name).text, tensor,
                           tfos__printable_text(bound->column).text, column);
    }
    return status;
}

tfos_status tfos__bound_check(const tfos__bound *bound, const tfos_field *field, tfos_error *error)
{
    return locate_input(check_input(bound, field, error), bound, field, error);
}

/* The number of rows of a run that a tensor asks for, if it does. */
static tfos_status take_batch_rows(const tfos__tensor_spec *spec, int64_t *rows, tfos_error *error)
{
    int64_t wanted = spec->rank > 0 ? spec->shape[0] : -1;
    if (wanted == 0 || (wanted > 0 && *rows > 0 && *rows != wanted)) {
        return tfos__fail(error, TFOS_UNSUPPORTED,
                          "it takes %lld rows at a time, and another input takes %lld: one of them is no batch of rows",
                          (long long)wanted, (long long)*rows);
    }
    *rows = wanted > 0 ? wanted : *rows;
    return TFOS_OK;
}

static tfos_status check_inputs(tfos__binding *binding, const tfos_schema *rows, tfos_error *error)
{
    for (size_t i = 0; i < binding->input_count; i++) {
        tfos__bound *bound = &binding->inputs[i];
        bound->index = (size_t)tfos__schema_find(rows, bound->column, strlen(bound->column));
        const tfos_field *field = tfos_schema_field(rows, bound->index);
        tfos_status status = check_input(bound, field, error);
        status = status == TFOS_OK ? take_batch_rows(bound->spec, &binding->batch_rows, error) : status;
        TFOS_TRY(locate_input(status, bound, field, error));
    }
    return TFOS_OK;
}

/* ---- results ---- */

tfos_field tfos__binding_field(const tfos__bound *output)
{
    const tfos__tensor_spec *spec = output->spec;
    tfos_field field = {.name = output->column, .type = tfos__dtype_form_of(spec->dtype).type};
    int64_t values = tfos__tensor_spec_row_values(spec);
    if (spec->rank == 3) {
        field.feature_list = true;
        values = spec->shape[2];
    }
    if (spec->rank != 1) {
        bool fixed = values >= 0 && values <= TFOS_SCHEMA_MAX_LENGTH;
        field.shape = fixed ? TFOS_SHAPE_FIXED : TFOS_SHAPE_RAGGED;
        field.length = fixed ? (int32_t)values : 0;
    }
    return field;
}

static tfos_status add_result(tfos_schema *results, const tfos__bound *output, tfos_error *error)
{
    tfos_status status = check_tensor(output->spec, error);
    if (status == TFOS_OK) {
        tfos_field field = tfos__binding_field(output);
        status = tfos_schema_add(results, &field, error);
    }
    if (status != TFOS_OK) {
        char tensor[DESCRIPTION_BYTES];
        tfos__tensor_spec_describe(output->spec, tensor, sizeof tensor);
        tfos__error_prefix(error, "output '%s' %s", tfos__printable_text(output->spec->name).text, tensor);
    }
    return status;
}

static tfos_status make_results(tfos__binding *binding, tfos_error *error)
{
    bool lists = false;
    for (size_t i = 0; i < binding->output_count; i++) {
        lists = lists || binding->outputs[i].spec->rank == 3;
    }
    TFOS_TRY(tfos_schema_new(lists ? TFOS_RECORD_SEQUENCE : TFOS_RECORD_EXAMPLE, &binding->results, error));
    for (size_t i = 0; i < binding->output_count; i++) {
        TFOS_TRY(add_result(binding->results, &binding->outputs[i], error));
    }
    return TFOS_OK;
}

/* ---- bindings ---- */

void tfos__binding_free(tfos__binding *binding)
{
    if (binding != NULL) {
        tfos__bounds inputs = {.at = binding->inputs, .count = binding->input_count};
        tfos__bounds outputs = {.at = binding->outputs, .count = binding->output_count};
        tfos__bounds_reset(&inputs);
        tfos__bounds_reset(&outputs);
        tfos_schema_free(binding->results);
        free(binding);
    }
}

tfos_status tfos__order_parse(const char *text, json_object **out, tfos_error *error)
{
    tfos__json_fault fault;
    tfos_status status = tfos__json_object_parse(text, strlen(text), ORDER_DEPTH, out, &fault, error);
    if (status == TFOS_INVALID) {
        return tfos__fail(error, TFOS_INVALID, "an order for a model is no JSON object: %s, at byte %zu", fault.what,
                          fault.at);
    }
    return status;
}

tfos_status tfos__order_signature(const tfos__saved_model *model, json_object *order, const tfos__signature **out,
                                  tfos_error *error)
{
    const char *name = tfos__json_text(order, "signature");
    return tfos__saved_model_signature(model, name[0] != '\0' ? name : default_signature, out, error);
}

tfos_status tfos__names_of(const tfos_schema *schema, tfos__names *out, tfos_error *error)
{
    size_t count = tfos_schema_field_count(schema);
    out->at = calloc(count + 1, sizeof *out->at);
    if (out->at == NULL) {
        return tfos__fail_memory(error, (count + 1) * sizeof *out->at);
    }
    out->schema = schema;
    for (out->count = 0; out->count < count; out->count++) {
        out->at[out->count] = tfos_schema_field(schema, out->count)->name;
    }
    return TFOS_OK;
}

static tfos_status bind(tfos__binding *binding, const tfos__saved_model *model, json_object *order,
                        const tfos_schema *rows, tfos_error *error)
{
    tfos__names names = {0};
    tfos__bounds inputs = {0};
    tfos__bounds outputs = {0};
    tfos_status status = tfos__names_of(rows, &names, error);
    status = status == TFOS_OK ? tfos__bind_inputs(binding->signature, order, &names, &inputs, error) : status;
    status = status == TFOS_OK ? bind_outputs(model, binding->signature, order, &outputs, error) : status;
    free(names.at);
    binding->inputs = inputs.at;
    binding->input_count = inputs.count;
    binding->outputs = outputs.at;
    binding->output_count = outputs.count;
    TFOS_TRY(status);
    TFOS_TRY(check_inputs(binding, rows, error));
    return make_results(binding, error);
}

tfos_status tfos__binding_new(const tfos__saved_model *model, const char *order, const tfos_schema *rows,
                              tfos__binding **out, tfos_error *error)
{
    json_object *parsed = NULL;
    tfos__binding *binding = calloc(1, sizeof *binding);
    if (binding == NULL) {
        return tfos__fail_memory(error, sizeof *binding);
    }
    binding->batch_rows = -1;
    tfos_status status = tfos__order_parse(order, &parsed, error);
    status = status == TFOS_OK ? tfos__order_signature(model, parsed, &binding->signature, error) : status;
    status = status == TFOS_OK ? bind(binding, model, parsed, rows, error) : status;
    json_object_put(parsed);
    if (status != TFOS_OK) {
        tfos__binding_free(binding);
        return status;
    }
    *out = binding;
    return TFOS_OK;
}
