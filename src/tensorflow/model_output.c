/* The tensors of outputs as columns of results. */
#include <string.h>

#include "base/status.h"
#include "column/batch.h"
#include "tensorflow/model.h"

/* ---- levels of lists ---- */

/* Ends `count` lists of `length` values each, which are all in the child. */
static tfos_status end_lists(tfos__vector *lists, int64_t count, int64_t length, tfos_error *error)
{
    TFOS_TRY(tfos__vector_reserve(lists, count, error));
    if (lists->view.layout == TFOS_LAYOUT_LIST) {
        if (count * length > TFOS__VECTOR_MAX) {
            return tfos__fail(error, TFOS_LIMIT,
                              "the results of a batch have %lld values, the limit is %lld: lower "
                              "batch_size",
                              (long long)(count * length), (long long)TFOS__VECTOR_MAX);
        }
        int32_t *offsets = tfos__vector_offsets(lists);
        for (int64_t i = 1; i <= count; i++) {
            offsets[i] = (int32_t)(i * length);
        }
        lists->offsets.size = (size_t)(count + 1) * sizeof(int32_t);
    }
    lists->view.length = count;
    return TFOS_OK;
}

/* ---- values ---- */

static tfos_status put_texts(const tfos__tensorflow *tf, tfos__vector *to, const TF_TString *from, int64_t count,
                             tfos_error *error)
{
    for (int64_t i = 0; i < count; i++) {
        TFOS_TRY(
            tfos__vector_push_bytes(to, tf->TF_StringGetDataPointer(&from[i]), tf->TF_StringGetSize(&from[i]), error));
    }
    return TFOS_OK;
}

static tfos_status put_values(const tfos__tensorflow *tf, tfos__vector *to, tfos__dtype dtype, const TF_Tensor *tensor,
                              int64_t count, tfos_error *error)
{
    const void *data = tf->TF_TensorData(tensor);
    tfos__dtype_form form = tfos__dtype_form_of(dtype);
    if (dtype == TFOS__DTYPE_STRING) {
        return put_texts(tf, to, data, count, error);
    }
    if (form.same && count > 0) {
        tfos__vector_lend(to, data, count);
        return TFOS_OK;
    }
    TFOS_TRY(tfos__vector_reserve(to, count, error));
    size_t bytes =
        dtype == TFOS__DTYPE_BOOL ? tfos__bitmap_bytes(count) : (size_t)count * (size_t)tfos__type_width(form.type);
    memset(to->data.data, 0, bytes);
    TFOS_TRY(tfos__dtype_read(dtype, data, count, to->data.data, error));
    to->data.size = bytes;
    to->view.length = count;
    return TFOS_OK;
}

/* ---- shapes ---- */

static tfos_status fail_rows(int64_t found, int64_t rows, tfos_error *error)
{
    return tfos__fail(error, TFOS_MISMATCH,
                      "the model gave %lld results for %lld rows: its signature computes something of a whole batch, "
                      "and not a result for each row",
                      (long long)found, (long long)rows);
}

/* Values of each row of the tensor, of which there are `rows` at least. */
static tfos_status measure(const tfos__tensorflow *tf, const TF_Tensor *tensor, int64_t all_rows, int64_t *values,
                           tfos_error *error)
{
    int rank = tf->TF_NumDims(tensor);
    if (rank < 1 || tf->TF_Dim(tensor, 0) != all_rows) {
        return fail_rows(rank < 1 ? 1 : tf->TF_Dim(tensor, 0), all_rows, error);
    }
    *values = 1;
    for (int i = 1; i < rank; i++) {
        *values *= tf->TF_Dim(tensor, i);
    }
    return TFOS_OK;
}

static tfos_status check_length(const tfos__vector *lists, int64_t length, tfos_error *error)
{
    if (lists->view.layout == TFOS_LAYOUT_FIXED_LIST && lists->view.list_length != length) {
        return tfos__fail(error, TFOS_MISMATCH, "the signature says %d values, and the model gave %lld",
                          (int)lists->view.list_length, (long long)length);
    }
    return TFOS_OK;
}

/* A tensor of three dimensions: lists of lists. */
static tfos_status put_lists(const tfos__tensorflow *tf, tfos__vector *column, tfos__dtype dtype,
                             const TF_Tensor *tensor, int64_t rows, tfos_error *error)
{
    if (tf->TF_NumDims(tensor) != 3) {
        return tfos__fail(error, TFOS_MISMATCH, "the signature says three dimensions, and the model gave %d",
                          tf->TF_NumDims(tensor));
    }
    int64_t lists = tf->TF_Dim(tensor, 1);
    int64_t values = tf->TF_Dim(tensor, 2);
    tfos__vector *inner = column->child;
    TFOS_TRY(check_length(inner, values, error));
    TFOS_TRY(put_values(tf, inner->child, dtype, tensor, rows * lists * values, error));
    TFOS_TRY(end_lists(inner, rows * lists, values, error));
    return end_lists(column, rows, lists, error);
}

tfos_status tfos__model_column_of(const tfos__tensorflow *tf, const tfos__bound *output, const TF_Tensor *tensor,
                                  int64_t rows, int64_t all_rows, tfos_batch *batch, tfos_error *error)
{
    tfos__vector *column = tfos__batch_vector(batch, output->index);
    tfos__dtype dtype = output->spec->dtype;
    int64_t values = 0;
    TFOS_TRY(measure(tf, tensor, all_rows, &values, error));
    if (tf->TF_TensorType(tensor) != (int)dtype) {
        return tfos__fail(error, TFOS_MISMATCH, "the signature says %s, and the model gave %s", tfos__dtype_name(dtype),
                          tfos__dtype_name((tfos__dtype)tf->TF_TensorType(tensor)));
    }
    if (column->child != NULL && column->child->child != NULL) {
        return put_lists(tf, column, dtype, tensor, rows, error);
    }
    if (column->child == NULL) {
        return values == 1
                   ? put_values(tf, column, dtype, tensor, rows, error)
                   : tfos__fail(error, TFOS_MISMATCH, "the signature says one value a row, and the model gave %lld",
                                (long long)values);
    }
    TFOS_TRY(check_length(column, values, error));
    TFOS_TRY(put_values(tf, column->child, dtype, tensor, rows * values, error));
    return end_lists(column, rows, values, error);
}
