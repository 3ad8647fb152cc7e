/* Columns as tf.io.parse_example would give them.
 *
 *   DENSE    [rows, …]               FixedLenFeature: every row has all values; a row without any has the default
 *   SPARSE   indices, values, shape  VarLenFeature
 *   RAGGED   values, row splits      RaggedFeature
 *   PADDED   [rows, longest, …]      FixedLenSequenceFeature: rows that are shorter are filled up
 *
 * Numbers are tensors over the memory of the batch wherever that is laid out so already: DENSE without a default that
 * is needed, and the values of SPARSE and RAGGED. */
#include "tensorflow/ops_parsed.h"

#include <string.h>

#include "base/status.h"

static bool is_bytes(const tfos_vector *values)
{
    return values->layout == TFOS_LAYOUT_BYTES;
}

static size_t width_of(const tfos_vector *values)
{
    return is_bytes(values) ? sizeof(TF_TString) : values->type == TFOS_TYPE_FLOAT ? sizeof(float) : sizeof(int64_t);
}

static bool is_null(const tfos_vector *rows, int64_t row)
{
    return rows->null_count > 0 && (rows->validity[row >> 3] >> (row & 7) & 1) == 0;
}

/* Copies elements of a tensor to another, of which strings are empty. */
static void copy_elements(const tfos__tensorflow *tf, const tfos_vector *like, void *to, const void *from, size_t count)
{
    if (!is_bytes(like)) {
        memcpy(to, from, count * width_of(like));
        return;
    }
    const TF_TString *texts = from;
    for (size_t i = 0; i < count; i++) {
        tf->TF_StringCopy((TF_TString *)to + i, tf->TF_StringGetDataPointer(&texts[i]),
                          tf->TF_StringGetSize(&texts[i]));
    }
}

/* Copies values of a column, from `at` on. */
static void copy_values(const tfos__tensorflow *tf, const tfos_vector *values, int64_t at, size_t count, void *to)
{
    if (!is_bytes(values)) {
        size_t width = width_of(values);
        memcpy(to, (const char *)values->data + (size_t)at * width, count * width);
        return;
    }
    tfos_vector some = *values;
    some.offsets += at;
    some.length = (int64_t)count;
    tfos__ops_copy_texts(tf, &some, to);
}

/* All values of a column, as they are. */
static tfos_status write_plain(tfos__ops_outputs *out, tfos_batch *batch, const tfos_vector *values,
                               const tfos__ops_shape *of, tfos_error *error)
{
    TF_Tensor *tensor;
    void *data;
    int type = tfos__ops_tensor_type(values->type);
    if (!is_bytes(values) && values->length > 0) {
        return tfos__ops_write_shared(out, batch, type, values->data, of, error);
    }
    TFOS_TRY(tfos__ops_allocate(out, type, of, &tensor, &data, error));
    if (values->length > 0) {
        copy_values(out->tf, values, 0, (size_t)values->length, data);
    }
    out->tf->TF_DeleteTensor(tensor);
    return TFOS_OK;
}

/* ---- the forms ---- */

static void prepend(tfos__ops_shape *shape, int64_t dimension)
{
    memmove(shape->dim + 1, shape->dim, (size_t)shape->count * sizeof shape->dim[0]);
    shape->dim[0] = dimension;
    shape->count++;
}

static tfos_status write_dense(tfos__ops_outputs *out, tfos_batch *batch, const tfos_vector *rows,
                               const tfos__ops_parsed *parsed, const void *filler, tfos_error *error)
{
    TF_Tensor *tensor;
    void *data;
    const tfos_vector *values = rows->child != NULL ? rows->child : rows;
    tfos__ops_shape of = parsed->inner;
    prepend(&of, rows->length);
    if (rows->null_count == 0) {
        return write_plain(out, batch, values, &of, error);
    }
    TFOS_TRY(tfos__ops_allocate(out, tfos__ops_tensor_type(values->type), &of, &tensor, &data, error));
    size_t count = (size_t)parsed->inner_elements;
    size_t width = width_of(values);
    for (int64_t row = 0; row < rows->length; row++) {
        char *to = (char *)data + (size_t)row * count * width;
        if (is_null(rows, row)) {
            copy_elements(out->tf, values, to, filler, count);
        } else {
            copy_values(out->tf, values, row * (int64_t)count, count, to);
        }
    }
    out->tf->TF_DeleteTensor(tensor);
    return TFOS_OK;
}

static int64_t longest_of(const tfos_vector *rows)
{
    int32_t longest = 0;
    for (int64_t row = 0; row < rows->length; row++) {
        int32_t length = rows->offsets[row + 1] - rows->offsets[row];
        longest = length > longest ? length : longest;
    }
    return longest;
}

static tfos_status write_sparse(tfos__ops_outputs *out, tfos_batch *batch, const tfos_vector *rows, tfos_error *error)
{
    TF_Tensor *tensor;
    void *data;
    const tfos__ops_shape places = {.dim = {rows->child->length, 2}, .count = 2};
    const tfos__ops_shape flat = {.dim = {rows->child->length}, .count = 1};
    const tfos__ops_shape pair = {.dim = {2}, .count = 1};
    TFOS_TRY(tfos__ops_allocate(out, TFOS__DTYPE_INT64, &places, &tensor, &data, error));
    int64_t *place = data;
    for (int64_t row = 0; row < rows->length; row++) {
        int32_t length = rows->offsets[row + 1] - rows->offsets[row];
        for (int32_t i = 0; i < length; i++) {
            *place++ = row;
            *place++ = i;
        }
    }
    out->tf->TF_DeleteTensor(tensor);
    TFOS_TRY(write_plain(out, batch, rows->child, &flat, error));
    TFOS_TRY(tfos__ops_allocate(out, TFOS__DTYPE_INT64, &pair, &tensor, &data, error));
    ((int64_t *)data)[0] = rows->length;
    ((int64_t *)data)[1] = longest_of(rows);
    out->tf->TF_DeleteTensor(tensor);
    return TFOS_OK;
}

static tfos_status write_ragged(tfos__ops_outputs *out, tfos_batch *batch, const tfos_vector *rows, tfos_error *error)
{
    TF_Tensor *tensor;
    void *data;
    const tfos__ops_shape flat = {.dim = {rows->child->length}, .count = 1};
    const tfos__ops_shape borders = {.dim = {rows->length + 1}, .count = 1};
    TFOS_TRY(write_plain(out, batch, rows->child, &flat, error));
    if (out->tf->TF_ExpectedOutputDataType(out->context, out->next) == TFOS__DTYPE_INT32) {
        return tfos__ops_write_shared(out, batch, TFOS__DTYPE_INT32, rows->offsets, &borders, error);
    }
    TFOS_TRY(tfos__ops_allocate(out, TFOS__DTYPE_INT64, &borders, &tensor, &data, error));
    for (int64_t i = 0; i <= rows->length; i++) {
        ((int64_t *)data)[i] = rows->offsets[i];
    }
    out->tf->TF_DeleteTensor(tensor);
    return TFOS_OK;
}

/* Elements from `at` up to `end` of a tensor, which nobody has set: the one that stands for a missing one, or zero. */
static void fill_up(const tfos__tensorflow *tf, const tfos_vector *like, char *at, const char *end, const void *filler)
{
    size_t width = width_of(like);
    if (filler != NULL) {
        for (; at < end; at += width) {
            copy_elements(tf, like, at, filler, 1);
        }
    } else if (!is_bytes(like)) {
        memset(at, 0, (size_t)(end - at));
    }
}

static tfos_status write_padded(tfos__ops_outputs *out, const tfos_vector *rows, const tfos__ops_parsed *parsed,
                                const void *filler, tfos_error *error)
{
    TF_Tensor *tensor;
    void *data;
    const tfos_vector *values = rows->child;
    int64_t longest = longest_of(rows);
    tfos__ops_shape of = parsed->inner;
    prepend(&of, parsed->inner_elements > 0 ? longest / parsed->inner_elements : 0);
    prepend(&of, rows->length);
    TFOS_TRY(tfos__ops_allocate(out, tfos__ops_tensor_type(values->type), &of, &tensor, &data, error));
    size_t width = width_of(values);
    char *to = data;
    for (int64_t row = 0; row < rows->length && longest > 0; row++) {
        size_t count = (size_t)(rows->offsets[row + 1] - rows->offsets[row]);
        if (count > 0) {
            copy_values(out->tf, values, rows->offsets[row], count, to);
        }
        fill_up(out->tf, values, to + count * width, to + (size_t)longest * width, filler);
        to += (size_t)longest * width;
    }
    out->tf->TF_DeleteTensor(tensor);
    return TFOS_OK;
}

tfos_status tfos__ops_write_parsed(tfos__ops_outputs *out, tfos_batch *batch, const tfos__ops_parsed *parsed,
                                   const void *filler, tfos_error *error)
{
    const tfos_vector *rows = tfos_batch_column(batch, parsed->column);
    switch (parsed->form) {
    case TFOS__OPS_SPARSE:
        return write_sparse(out, batch, rows, error);
    case TFOS__OPS_RAGGED:
        return write_ragged(out, batch, rows, error);
    case TFOS__OPS_PADDED:
        return write_padded(out, rows, parsed, filler, error);
    default:
        return write_dense(out, batch, rows, parsed, filler, error);
    }
}
