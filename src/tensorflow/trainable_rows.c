/* Rows as tensors of steps. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "column/schema.h"
#include "tensorflow/model.h"
#include "tensorflow/trainable.h"

struct tfos__trainable_rows {
    size_t count;
    tfos__bound at[]; /* for each port; without a column: ones */
};

void tfos__trainable_rows_free(tfos__trainable_rows *rows)
{
    for (size_t i = 0; rows != NULL && i < rows->count; i++) {
        free(rows->at[i].column);
    }
    free(rows);
}

const char *tfos__port_column(const tfos__port *port, json_object *columns)
{
    if (columns != NULL) {
        json_object_object_foreach(columns, column, name)
        {
            const char *text = json_object_get_string(name);
            if (text != NULL && strcmp(text, port->name) == 0) {
                return column;
            }
        }
    }
    return port->name;
}

static tfos_status list_columns(const tfos_schema *schema, tfos__buffer *out, tfos_error *error)
{
    for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
        const tfos_field *field = tfos_schema_field(schema, i);
        char text[64];
        tfos__field_describe(field, text, sizeof text);
        TFOS_TRY(tfos__buffer_printf(out, error, "%s%s %s", i > 0 ? ", " : "", tfos__printable_text(field->name).text,
                                     text));
    }
    return TFOS_OK;
}

static tfos_status fail_column(const tfos__port *port, const char *column, const tfos_schema *schema, tfos_error *error)
{
    tfos__buffer have = {0};
    if (list_columns(schema, &have, NULL) == TFOS_OK) {
        tfos__fail(error, TFOS_MISMATCH,
                   "the model's %s '%s' takes the column '%s', and the rows have: %.*s. Say which column it is "
                   "(columns={COLUMN: '%s'}), or export the model with other names",
                   tfos__port_kind_name(port->kind), tfos__printable_text(port->name).text,
                   tfos__printable_text(column).text, (int)have.size, (const char *)have.data,
                   tfos__printable_text(port->name).text);
    }
    tfos__buffer_reset(&have);
    return TFOS_MISMATCH;
}

static const tfos__tensor_spec *spec_of(const tfos__signature *signature, const char *key)
{
    for (size_t i = 0; i < signature->inputs.count; i++) {
        if (strcmp(signature->inputs.at[i].name, key) == 0) {
            return &signature->inputs.at[i];
        }
    }
    return NULL;
}

static tfos_status bind_port(const tfos__trainable *trainable, const tfos__port *port, const tfos_schema *schema,
                             json_object *columns, tfos__bound *out, tfos_error *error)
{
    const char *column = tfos__port_column(port, columns);
    out->spec = spec_of(tfos__trainable_signature(trainable), port->key);
    int64_t index = tfos__schema_find(schema, column, strlen(column));
    if (index < 0) {
        /* A column that was named has to be there. */
        bool ones = port->kind == TFOS__PORT_WEIGHT && column == port->name;
        return ones ? TFOS_OK : fail_column(port, column, schema, error);
    }
    out->column = strdup(column);
    out->index = (size_t)index;
    return out->column != NULL ? tfos__bound_check(out, tfos_schema_field(schema, out->index), error)
                               : tfos__fail_memory(error, strlen(column));
}

tfos_status tfos__ports_check_columns(const tfos__description *about, json_object *columns, tfos_error *error)
{
    if (columns == NULL) {
        return TFOS_OK;
    }
    json_object_object_foreach(columns, column, name)
    {
        const char *text = json_object_get_string(name);
        if (text == NULL || tfos__description_port(about, text) == NULL) {
            return tfos__fail(
                error, TFOS_MISMATCH,
                "the column '%s' is mapped to '%s', and the model has no input, label or sample weight of "
                "that name",
                tfos__printable_text(column).text, tfos__printable_text(text != NULL ? text : "null").text);
        }
        json_object_object_foreach(columns, other, same)
        {
            if (strcmp(column, other) != 0 && strcmp(text, json_object_get_string(same)) == 0) {
                return tfos__fail(error, TFOS_MISMATCH, "the columns '%s' and '%s' are both mapped to '%s'",
                                  tfos__printable_text(column).text, tfos__printable_text(other).text,
                                  tfos__printable_text(text).text);
            }
        }
    }
    return TFOS_OK;
}

tfos_status tfos__trainable_rows_new(const tfos__trainable *trainable, const tfos_schema *schema, json_object *columns,
                                     tfos__trainable_rows **out, tfos_error *error)
{
    const tfos__description *about = tfos__trainable_about(trainable);
    TFOS_TRY(tfos__ports_check_columns(about, columns, error));
    tfos__trainable_rows *rows = calloc(1, sizeof *rows + about->port_count * sizeof rows->at[0]);
    if (rows == NULL) {
        return tfos__fail_memory(error, sizeof *rows);
    }
    rows->count = about->port_count;
    for (size_t i = 0; i < about->port_count; i++) {
        tfos_status status = bind_port(trainable, &about->ports[i], schema, columns, &rows->at[i], error);
        if (status != TFOS_OK) {
            tfos__trainable_rows_free(rows);
            return status;
        }
    }
    *out = rows;
    return TFOS_OK;
}

/* ---- batches ---- */

void tfos__step_batch_free(const tfos__trainable *trainable, tfos__step_batch *batch)
{
    for (size_t i = 0; batch != NULL && i < batch->count; i++) {
        if (batch->tensors[i] != NULL) {
            tfos__trainable_session(trainable)->tf->TF_DeleteTensor(batch->tensors[i]);
        }
    }
    free(batch);
}

static void free_memory(void *data, size_t bytes, void *context)
{
    (void)bytes;
    (void)context;
    free(data);
}

/* Every row counts for one. */
static tfos_status make_ones(const tfos__tensorflow *tf, const tfos__tensor_spec *spec, int64_t rows, TF_Tensor **out,
                             tfos_error *error)
{
    enum { RANK_MOST = 8 };
    int64_t dims[RANK_MOST] = {rows};
    int64_t values = rows;
    if (spec->dtype != TFOS__DTYPE_FLOAT || spec->rank < 1 || spec->rank > RANK_MOST) {
        return tfos__fail(error, TFOS_UNSUPPORTED,
                          "the sample weight '%s' is no list of float32: give it a column of its own",
                          tfos__printable_text(spec->name).text);
    }
    for (int i = 1; i < spec->rank; i++) {
        dims[i] = spec->shape[i] > 0 ? spec->shape[i] : 1;
        if (__builtin_mul_overflow(values, dims[i], &values)) {
            return tfos__fail_memory(error, SIZE_MAX);
        }
    }
    void *memory = NULL;
    size_t bytes;
    if (__builtin_mul_overflow((size_t)values, sizeof(float), &bytes)) {
        return tfos__fail_memory(error, SIZE_MAX);
    }
    if (posix_memalign(&memory, TFOS__BUFFER_ALIGN, bytes > 0 ? bytes : 1) != 0) {
        return tfos__fail_memory(error, bytes);
    }
    for (int64_t i = 0; i < values; i++) {
        ((float *)memory)[i] = 1;
    }
    *out = tf->TF_NewTensor(TFOS__DTYPE_FLOAT, dims, spec->rank, memory, bytes, free_memory, NULL);
    return *out != NULL ? TFOS_OK : tfos__fail_memory(error, bytes);
}

static tfos_status make_tensor(const tfos__trainable *trainable, const tfos__bound *from, tfos_batch *batch,
                               TF_Tensor **out, tfos_error *error)
{
    const tfos__tensorflow *tf = tfos__trainable_session(trainable)->tf;
    int64_t rows = tfos_batch_rows(batch);
    if (from->column == NULL) {
        return make_ones(tf, from->spec, rows, out, error);
    }
    tfos_status status = tfos__model_tensor_of(tf, from, batch, rows, out, error);
    if (status != TFOS_OK) {
        tfos__error_prefix(error, "'%s', column '%s'", tfos__printable_text(from->spec->name).text,
                           tfos__printable_text(from->column).text);
    }
    return status;
}

tfos_status tfos__step_batch_new(const tfos__trainable *trainable, const tfos__trainable_rows *rows, tfos_batch *batch,
                                 tfos__step_batch **out, tfos_error *error)
{
    tfos__step_batch *made = calloc(1, sizeof *made + rows->count * sizeof made->tensors[0]);
    if (made == NULL) {
        return tfos__fail_memory(error, sizeof *made);
    }
    made->rows = tfos_batch_rows(batch);
    made->count = rows->count;
    for (size_t i = 0; i < rows->count; i++) {
        tfos_status status = make_tensor(trainable, &rows->at[i], batch, &made->tensors[i], error);
        if (status != TFOS_OK) {
            tfos__step_batch_free(trainable, made);
            return status;
        }
    }
    *out = made;
    return TFOS_OK;
}
