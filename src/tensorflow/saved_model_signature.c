/* Signatures: tensors by name, their types and shapes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tensorflow/saved_model_parts.h"

enum { MOST_RANK = 254 };

static const char inits_prefix[] = "__saved_model_"; /* …init_op, …train_op */

/* ---- tensors ---- */

static void reset_spec(tfos__tensor_spec *spec)
{
    free(spec->name);
    free(spec->tensor);
    free(spec->shape);
    *spec = (tfos__tensor_spec){.rank = -1};
}

static tfos_status take_size(void *context, const tfos__model_field *field, tfos_error *error)
{
    (void)error;
    if (field->number == 1) {
        *(int64_t *)context = (int64_t)field->value < 0 ? -1 : (int64_t)field->value;
    }
    return TFOS_OK;
}

static tfos_status take_shape_field(void *context, const tfos__model_field *field, tfos_error *error)
{
    tfos__tensor_spec *spec = context;
    if (field->number == 3 && field->value != 0) {
        spec->rank = -1;
    }
    if (field->number != 2 || spec->rank < 0) {
        return TFOS_OK;
    }
    if (spec->rank == MOST_RANK) {
        return tfos__model_fail(error);
    }
    int64_t *shape = realloc(spec->shape, ((size_t)spec->rank + 1) * sizeof *shape);
    if (shape == NULL) {
        return tfos__fail_memory(error, ((size_t)spec->rank + 1) * sizeof *shape);
    }
    spec->shape = shape;
    shape[spec->rank] = 0;
    return tfos__model_each_field(field->bytes, take_size, &shape[spec->rank++], error);
}

static tfos_status take_tensor_field(void *context, const tfos__model_field *field, tfos_error *error)
{
    tfos__tensor_spec *spec = context;
    switch (field->number) {
    case 1:
        spec->form = TFOS__TENSOR_DENSE;
        return tfos__model_take_text(field->bytes, &spec->tensor, error);
    case 2:
        spec->dtype = field->value <= TFOS__DTYPE_UINT64 ? (tfos__dtype)field->value : TFOS__DTYPE_NONE;
        return TFOS_OK;
    case 3:
        spec->rank = 0;
        return tfos__model_each_field(field->bytes, take_shape_field, spec, error);
    case 4:
    case 5:
        spec->form = field->number == 4 ? TFOS__TENSOR_SPARSE : TFOS__TENSOR_COMPOSITE;
        return tfos__model_take_text((tfos__wire){0}, &spec->tensor, error);
    default:
        return TFOS_OK;
    }
}

void tfos__tensor_spec_describe(const tfos__tensor_spec *spec, char *out, size_t bytes)
{
    static const char *const forms[] = {"", "sparse ", "composite "};
    int at = snprintf(out, bytes, "%s%s", forms[spec->form], tfos__dtype_name(spec->dtype));
    if (spec->rank < 0) {
        snprintf(out + at, bytes - (size_t)at, " of any shape");
        return;
    }
    for (int i = 0; i < spec->rank && (size_t)at < bytes; i++) {
        const char *before = i == 0 ? " [" : ", ";
        at += spec->shape[i] < 0 ? snprintf(out + at, bytes - (size_t)at, "%s?", before)
                                 : snprintf(out + at, bytes - (size_t)at, "%s%lld", before, (long long)spec->shape[i]);
    }
    if ((size_t)at < bytes) {
        snprintf(out + at, bytes - (size_t)at, spec->rank == 0 ? " []" : "]");
    }
}

/* TensorFlow has no tensor of more values than a number counts, and all who read a size multiply it by others. */
static tfos_status check_sizes(const tfos__tensor_spec *spec, tfos_error *error)
{
    char text[192];
    int64_t values = 1;
    for (int i = 0; i < spec->rank; i++) {
        if (spec->shape[i] > 0 && __builtin_mul_overflow(values, spec->shape[i], &values)) {
            tfos__tensor_spec_describe(spec, text, sizeof text);
            return tfos__fail(error, TFOS_CORRUPT, "this is no SavedModel: no tensor is as large as '%s' %s",
                              tfos__printable_text(spec->name).text, text);
        }
    }
    return TFOS_OK;
}

/* ---- maps ---- */

typedef struct map_entry {
    char *key;
    tfos__wire value;
} map_entry;

static tfos_status take_entry_field(void *context, const tfos__model_field *field, tfos_error *error)
{
    map_entry *entry = context;
    if (field->number == 1) {
        return tfos__model_take_text(field->bytes, &entry->key, error);
    }
    if (field->number == 2) {
        entry->value = field->bytes;
    }
    return TFOS_OK;
}

/* *key is the caller's. */
static tfos_status take_entry(tfos__wire bytes, char **key, tfos__wire *value, tfos_error *error)
{
    map_entry entry = {0};
    tfos_status status = tfos__model_each_field(bytes, take_entry_field, &entry, error);
    if (status == TFOS_OK && entry.key == NULL) {
        status = tfos__model_take_text((tfos__wire){0}, &entry.key, error);
    }
    if (status != TFOS_OK) {
        free(entry.key);
        return status;
    }
    *key = entry.key;
    *value = entry.value;
    return TFOS_OK;
}

/* The element of this name, which is added if there is none. Takes `name` over. */
static tfos_status find_spec(tfos__tensor_specs *specs, char *name, tfos__tensor_spec **out, tfos_error *error)
{
    for (size_t i = 0; i < specs->count; i++) {
        if (strcmp(specs->at[i].name, name) == 0) {
            *out = &specs->at[i];
            reset_spec(*out);
            (*out)->name = name;
            return TFOS_OK;
        }
    }
    tfos__tensor_spec *more = realloc(specs->at, (specs->count + 1) * sizeof *more);
    if (more == NULL) {
        free(name);
        return tfos__fail_memory(error, (specs->count + 1) * sizeof *more);
    }
    specs->at = more;
    *out = &more[specs->count++];
    **out = (tfos__tensor_spec){.name = name, .rank = -1};
    return TFOS_OK;
}

static tfos_status take_spec(tfos__tensor_specs *specs, tfos__wire bytes, tfos_error *error)
{
    char *name;
    tfos__wire value;
    tfos__tensor_spec *spec = NULL;
    TFOS_TRY(take_entry(bytes, &name, &value, error));
    TFOS_TRY(find_spec(specs, name, &spec, error));
    TFOS_TRY(tfos__model_each_field(value, take_tensor_field, spec, error));
    TFOS_TRY(check_sizes(spec, error));
    return spec->tensor != NULL ? TFOS_OK : tfos__model_take_text((tfos__wire){0}, &spec->tensor, error);
}

/* ---- signatures ---- */

static void reset_specs(tfos__tensor_specs *specs)
{
    for (size_t i = 0; i < specs->count; i++) {
        reset_spec(&specs->at[i]);
    }
    free(specs->at);
    *specs = (tfos__tensor_specs){0};
}

void tfos__model_reset_signature(tfos__signature *signature)
{
    free(signature->name);
    free(signature->method);
    reset_specs(&signature->inputs);
    reset_specs(&signature->outputs);
    *signature = (tfos__signature){0};
}

static tfos_status take_signature_field(void *context, const tfos__model_field *field, tfos_error *error)
{
    tfos__signature *signature = context;
    switch (field->number) {
    case 1:
        return take_spec(&signature->inputs, field->bytes, error);
    case 2:
        return take_spec(&signature->outputs, field->bytes, error);
    case 3:
        return tfos__model_take_text(field->bytes, &signature->method, error);
    default:
        return TFOS_OK;
    }
}

static size_t digits_of(const char *text)
{
    return strspn(text, "0123456789");
}

/* By name, in which numbers count as numbers. Names that differ only in leading zeros are told apart by strcmp. */
static int compare_names(const char *left, const char *right)
{
    const char *a = left;
    const char *b = right;
    while (*a != '\0' && *b != '\0') {
        size_t digits_a = digits_of(a);
        size_t digits_b = digits_of(b);
        if (digits_a == 0 || digits_b == 0) {
            if (*a != *b) {
                return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
            }
            a++;
            b++;
            continue;
        }
        size_t zeros_a = strspn(a, "0");
        size_t zeros_b = strspn(b, "0");
        size_t length_a = digits_a - zeros_a;
        size_t length_b = digits_b - zeros_b;
        if (length_a != length_b) {
            return length_a < length_b ? -1 : 1;
        }
        int order = memcmp(a + zeros_a, b + zeros_b, length_a);
        if (order != 0) {
            return order;
        }
        a += digits_a;
        b += digits_b;
    }
    return *a != '\0' ? 1 : *b != '\0' ? -1 : strcmp(left, right);
}

static int by_name(const void *a, const void *b)
{
    return compare_names(((const tfos__tensor_spec *)a)->name, ((const tfos__tensor_spec *)b)->name);
}

static int signature_by_name(const void *a, const void *b)
{
    return compare_names(((const tfos__signature *)a)->name, ((const tfos__signature *)b)->name);
}

void tfos__model_sort_signatures(tfos__saved_model *model)
{
    if (model->signature_count > 0) {
        qsort(model->signatures, model->signature_count, sizeof *model->signatures, signature_by_name);
    }
}

static tfos_status find_signature(tfos__saved_model *model, char *name, tfos__signature **out, tfos_error *error)
{
    for (size_t i = 0; i < model->signature_count; i++) {
        if (strcmp(model->signatures[i].name, name) == 0) {
            *out = &model->signatures[i];
            tfos__model_reset_signature(*out);
            (*out)->name = name;
            return TFOS_OK;
        }
    }
    tfos__signature *more = realloc(model->signatures, (model->signature_count + 1) * sizeof *more);
    if (more == NULL) {
        free(name);
        return tfos__fail_memory(error, (model->signature_count + 1) * sizeof *more);
    }
    model->signatures = more;
    *out = &more[model->signature_count++];
    **out = (tfos__signature){.name = name};
    return TFOS_OK;
}

tfos_status tfos__model_take_signature(tfos__saved_model *model, tfos__wire bytes, tfos_error *error)
{
    char *name;
    tfos__wire value;
    tfos__signature *signature = NULL;
    TFOS_TRY(take_entry(bytes, &name, &value, error));
    if (strncmp(name, inits_prefix, strlen(inits_prefix)) == 0) {
        free(name);
        return TFOS_OK;
    }
    TFOS_TRY(find_signature(model, name, &signature, error));
    TFOS_TRY(tfos__model_each_field(value, take_signature_field, signature, error));
    if (signature->inputs.count > 0) {
        qsort(signature->inputs.at, signature->inputs.count, sizeof *signature->inputs.at, by_name);
    }
    if (signature->outputs.count > 0) {
        qsort(signature->outputs.at, signature->outputs.count, sizeof *signature->outputs.at, by_name);
    }
    return signature->method != NULL ? TFOS_OK : tfos__model_take_text((tfos__wire){0}, &signature->method, error);
}
