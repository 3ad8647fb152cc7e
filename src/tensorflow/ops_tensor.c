/* Columns as tensors.
 *
 * A column is a chain of levels. Each LIST level gives a tensor of row splits, a FIXED_LIST gives one more dimension,
 * and the values at the end give the tensor of values:
 *
 *   rows: LIST → LIST → VALUES      values [n]     splits of the rows    splits of their lists
 *   rows: LIST → FIXED_LIST → …     values [n, k]  splits of the rows
 *
 * Numbers in Arrow layout are the memory of a tensor already: the tensor is made over the memory of the batch and holds
 * a reference to it. Bits, strings and offsets, which TensorFlow lays out differently, are written to tensors of its
 * own. */
#include <limits.h>
#include <string.h>

#include "base/status.h"
#include "column/convert.h"
#include "tensorflow/ops.h"

static const int tensor_types[] = {
    [TFOS_TYPE_INT32] = TFOS__DTYPE_INT32,   [TFOS_TYPE_INT64] = TFOS__DTYPE_INT64,
    [TFOS_TYPE_FLOAT] = TFOS__DTYPE_FLOAT,   [TFOS_TYPE_DOUBLE] = TFOS__DTYPE_DOUBLE,
    [TFOS_TYPE_BOOL] = TFOS__DTYPE_BOOL,     [TFOS_TYPE_STRING] = TFOS__DTYPE_STRING,
    [TFOS_TYPE_BINARY] = TFOS__DTYPE_STRING,
};

/* Of an element of a tensor of such a type. */
static size_t width_of(int tensor_type)
{
    switch (tensor_type) {
    case TFOS__DTYPE_BOOL:
        return 1;
    case TFOS__DTYPE_INT32:
    case TFOS__DTYPE_FLOAT:
        return 4;
    case TFOS__DTYPE_STRING:
        return sizeof(TF_TString);
    default:
        return 8;
    }
}

int tfos__ops_tensor_type(tfos_type type)
{
    return tensor_types[type];
}

static bool is_list_of_any_length(const tfos_field *field)
{
    return field->shape == TFOS_SHAPE_RAGGED;
}

int tfos__ops_component_count(const tfos_field *field)
{
    return 1 + (field->feature_list ? 1 : 0) + (is_list_of_any_length(field) ? 1 : 0);
}

/* ---- outputs ---- */

static int64_t elements_of(const tfos__ops_shape *of)
{
    int64_t elements = 1;
    for (int i = 0; i < of->count; i++) {
        elements *= of->dim[i];
    }
    return elements;
}

static tfos_status look_at_status(const tfos__ops_outputs *out, tfos_error *error)
{
    return tfos__tensorflow_check(out->tf, out->status, "cannot make a tensor of the rows", error);
}

tfos_status tfos__ops_allocate(tfos__ops_outputs *out, int type, const tfos__ops_shape *of, TF_Tensor **tensor,
                               void **data, tfos_error *error)
{
    size_t bytes = (size_t)elements_of(of) * width_of(type);
    *tensor = out->tf->TF_AllocateOutput(out->context, out->next++, type, of->dim, of->count, bytes, out->status);
    TFOS_TRY(look_at_status(out, error));
    *data = out->tf->TF_TensorData(*tensor);
    return TFOS_OK;
}

tfos_status tfos__ops_write_flag(tfos__ops_outputs *out, bool flag, tfos_error *error)
{
    TF_Tensor *tensor;
    void *data;
    const tfos__ops_shape scalar = {.count = 0};
    TFOS_TRY(tfos__ops_allocate(out, TFOS__DTYPE_BOOL, &scalar, &tensor, &data, error));
    *(uint8_t *)data = flag;
    out->tf->TF_DeleteTensor(tensor);
    return TFOS_OK;
}

static void give_up_batch(void *data, size_t bytes, void *batch)
{
    (void)data;
    (void)bytes;
    tfos_batch_free(batch);
}

tfos_status tfos__ops_write_shared(tfos__ops_outputs *out, tfos_batch *batch, int type, const void *data,
                                   const tfos__ops_shape *of, tfos_error *error)
{
    union {
        const void *from;
        void *to;
    } memory = {.from = data};
    size_t bytes = (size_t)elements_of(of) * width_of(type);
    TF_Tensor *tensor =
        out->tf->TF_NewTensor(type, of->dim, of->count, memory.to, bytes, give_up_batch, tfos_batch_retain(batch));
    if (tensor == NULL) {
        tfos_batch_free(batch);
        return tfos__fail(error, TFOS_NO_MEMORY, "TensorFlow made no tensor of %zu bytes", bytes);
    }
    out->tf->TF_SetOutput(out->context, out->next++, tensor, out->status);
    out->tf->TF_DeleteTensor(tensor);
    return look_at_status(out, error);
}

static tfos_status write_splits(tfos__ops_outputs *out, const int32_t *offsets, int64_t rows, tfos_error *error)
{
    TF_Tensor *tensor;
    void *data;
    const tfos__ops_shape of = {.dim = {rows + 1}, .count = 1};
    TFOS_TRY(tfos__ops_allocate(out, TFOS__DTYPE_INT64, &of, &tensor, &data, error));
    int64_t *to = data;
    for (int64_t i = 0; i <= rows; i++) {
        to[i] = offsets[i];
    }
    out->tf->TF_DeleteTensor(tensor);
    return TFOS_OK;
}

/* ---- conversion ---- */

void tfos__ops_copy_texts(const tfos__tensorflow *tf, const tfos_vector *values, TF_TString *to)
{
    const char *bytes = values->data;
    for (int64_t i = 0; i < values->length; i++) {
        tf->TF_StringCopy(&to[i], bytes + values->offsets[i], (size_t)(values->offsets[i + 1] - values->offsets[i]));
    }
}

static tfos_status convert(const tfos__tensorflow *tf, const tfos_vector *values, tfos_type to, void *data,
                           tfos_error *error)
{
    if (values->layout == TFOS_LAYOUT_BYTES) {
        tfos__ops_copy_texts(tf, values, data);
        return TFOS_OK;
    }
    return tfos__convert_numbers(values, to, data, error);
}

/* ---- columns ---- */

static tfos_status refuse_nulls(const tfos_vector *level, tfos_error *error)
{
    if (level->null_count == 0) {
        return TFOS_OK;
    }
    int64_t row = 0;
    while ((level->validity[row >> 3] >> (row & 7) & 1) != 0) {
        row++;
    }
    return tfos__fail(error, TFOS_MISMATCH,
                      "row %lld of the batch has no value, and a tensor has a value for each row; fill it in where the "
                      "rows are fed (DataFrame.fillna), or leave the column out",
                      (long long)row);
}

static tfos_status write_values(tfos__ops_outputs *out, tfos_batch *batch, const tfos_vector *values, tfos_type type,
                                const tfos__ops_shape *of, tfos_error *error)
{
    TF_Tensor *tensor;
    void *data;
    TFOS_TRY(refuse_nulls(values, error));
    bool is_plain = values->layout == TFOS_LAYOUT_VALUES && values->type == type && type != TFOS_TYPE_BOOL;
    if (is_plain && values->length > 0) {
        return tfos__ops_write_shared(out, batch, tensor_types[type], values->data, of, error);
    }
    TFOS_TRY(tfos__ops_allocate(out, tensor_types[type], of, &tensor, &data, error));
    tfos_status status = values->length > 0 ? convert(out->tf, values, type, data, error) : TFOS_OK;
    out->tf->TF_DeleteTensor(tensor);
    return status;
}

tfos_status tfos__ops_write_column(tfos__ops_outputs *out, tfos_batch *batch, size_t column, const tfos_field *field,
                                   tfos_error *error)
{
    const tfos_vector *rows = tfos_batch_column(batch, column);
    const tfos_vector *values = rows;
    tfos__ops_shape of = {.dim = {rows->length}, .count = 1};
    for (; values->child != NULL; values = values->child) {
        TFOS_TRY(refuse_nulls(values, error));
        if (values->layout == TFOS_LAYOUT_FIXED_LIST) {
            of.dim[of.count++] = values->list_length;
        } else {
            of.dim[0] = values->child->length;
        }
    }
    TFOS_TRY(write_values(out, batch, values, field->type, &of, error));
    for (const tfos_vector *level = rows; level->child != NULL; level = level->child) {
        if (level->layout == TFOS_LAYOUT_LIST) {
            TFOS_TRY(write_splits(out, level->offsets, level->length, error));
        }
    }
    return TFOS_OK;
}

tfos_status tfos__ops_write_empty(tfos__ops_outputs *out, const tfos_field *field, tfos_error *error)
{
    static const int32_t zero = 0;
    TF_Tensor *tensor;
    void *data;
    bool is_fixed = field->shape == TFOS_SHAPE_FIXED;
    const tfos__ops_shape of = {.dim = {0, is_fixed ? field->length : 0}, .count = is_fixed ? 2 : 1};
    TFOS_TRY(tfos__ops_allocate(out, tensor_types[field->type], &of, &tensor, &data, error));
    out->tf->TF_DeleteTensor(tensor);
    for (int i = 1; i < tfos__ops_component_count(field); i++) {
        TFOS_TRY(write_splits(out, &zero, 0, error));
    }
    return TFOS_OK;
}
