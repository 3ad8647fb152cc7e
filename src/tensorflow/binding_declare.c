/* What is declared of columns that files are read for: what the signature says of their values. A file that has
 * something else is then refused by whoever reads it, with its name, the offset and the column. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "column/schema.h"
#include "tensorflow/binding_parts.h"

static bool is_among(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Records have one kind of whole numbers, and bytes are text or not as they happen to be. */
static tfos_type type_for(const tfos__tensor_spec *spec, tfos_type found)
{
    tfos__dtype_form form = tfos__dtype_form_of(spec->dtype);
    bool narrower = form.has_columns && form.width > 0 && form.type != found;
    if (found == TFOS_TYPE_INT64 && narrower && (form.type == TFOS_TYPE_INT32 || form.type == TFOS_TYPE_BOOL)) {
        return form.type;
    }
    if (found == TFOS_TYPE_DOUBLE && narrower && form.type == TFOS_TYPE_FLOAT) {
        return form.type;
    }
    return found == TFOS_TYPE_STRING && spec->dtype == TFOS__DTYPE_UINT8 ? TFOS_TYPE_BINARY : found;
}

static void declare_length(const tfos__tensor_spec *spec, tfos_field *field)
{
    int64_t values = tfos__tensor_spec_row_values(spec);
    if (field->feature_list) {
        values = spec->rank == 3 ? spec->shape[2] : -1;
    }
    if (field->shape == TFOS_SHAPE_RAGGED && values >= 0 && values <= TFOS_SCHEMA_MAX_LENGTH) {
        field->shape = TFOS_SHAPE_FIXED;
        field->length = (int32_t)values;
    }
}

static tfos_status add_fed(const tfos__bounds *inputs, const tfos_schema *rows, const char *const *kept,
                           size_t kept_count, tfos_schema *out, tfos_error *error)
{
    for (size_t i = 0; i < inputs->count; i++) {
        const tfos__bound *bound = &inputs->at[i];
        tfos_field field =
            *tfos_schema_field(rows, (size_t)tfos__schema_find(rows, bound->column, strlen(bound->column)));
        field.nullable = false;
        declare_length(bound->spec, &field);
        /* One that is kept comes out as it was. */
        field.type = is_among(kept, kept_count, field.name) ? field.type : type_for(bound->spec, field.type);
        TFOS_TRY(tfos_schema_add(out, &field, error));
    }
    return TFOS_OK;
}

static tfos_status add_kept(const tfos__names *names, const tfos_schema *rows, const char *const *kept,
                            size_t kept_count, tfos_schema *out, tfos_error *error)
{
    for (size_t i = 0; i < kept_count; i++) {
        int64_t index = tfos_schema_find(rows, kept[i]);
        if (index < 0) {
            return tfos__fail_kept(names, kept[i], error);
        }
        if (tfos_schema_find(out, kept[i]) < 0) {
            TFOS_TRY(tfos_schema_add(out, tfos_schema_field(rows, (size_t)index), error));
        }
    }
    return TFOS_OK;
}

static tfos_status declare(const tfos__names *names, const tfos__bounds *inputs, const tfos_schema *rows,
                           const char *const *kept, size_t kept_count, tfos_schema **out, tfos_error *error)
{
    tfos_schema *made = NULL;
    bool bytes = tfos_schema_kind(rows) == TFOS_RECORD_BYTES; /* there is one schema of these */
    if (bytes) {
        made = tfos__schema_retain(rows);
    } else {
        TFOS_TRY(tfos_schema_new(tfos_schema_kind(rows), &made, error));
    }
    tfos_status status = bytes ? TFOS_OK : add_fed(inputs, rows, kept, kept_count, made, error);
    status = status == TFOS_OK ? add_kept(names, rows, kept, kept_count, made, error) : status;
    if (status != TFOS_OK) {
        tfos_schema_free(made);
        return status;
    }
    *out = made;
    return TFOS_OK;
}

tfos_status tfos__binding_declare(const tfos__saved_model *model, const char *order, const tfos_schema *rows,
                                  const char *const *kept, size_t kept_count, tfos_schema **out, tfos_error *error)
{
    json_object *parsed = NULL;
    const tfos__signature *signature = NULL;
    tfos__names names = {0};
    tfos__bounds inputs = {0};
    TFOS_TRY(tfos__order_parse(order, &parsed, error));
    tfos_status status = tfos__order_signature(model, parsed, &signature, error);
    status = status == TFOS_OK ? tfos__names_of(rows, &names, error) : status;
    status = status == TFOS_OK ? tfos__bind_inputs(signature, parsed, &names, &inputs, error) : status;
    status = status == TFOS_OK ? declare(&names, &inputs, rows, kept, kept_count, out, error) : status;
    tfos__bounds_reset(&inputs);
    free(names.at);
    json_object_put(parsed);
    return status;
}
