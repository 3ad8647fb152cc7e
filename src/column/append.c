/* Appending rows, level by level. A level first makes room and lets its child append, both of which may fail, and
 * writes only then, which may not: so a failure leaves every level as it was. Only where a list of one kind becomes one
 * of the other its child may have to be filled in parts; what is there then is cut off again.
 *
 * Most rows are numbers without nulls, for which all of this comes down to one memcpy. */
#include "column/append.h"

#include <assert.h>

#include "column/bits.h"

static int64_t count_nulls(const tfos_vector *from, int64_t first, int64_t count)
{
    return from->validity == NULL ? 0 : count - tfos__bits_count(from->validity, first, count);
}

/* Room for the validity of `count` more rows, if some of them are nulls. */
static tfos_status reserve_validity(tfos__vector *to, int64_t count, int64_t nulls, tfos_error *error)
{
    return nulls == 0 ? TFOS_OK
                      : tfos__buffer_reserve(&to->validity, tfos__bitmap_bytes(to->view.length + count), error);
}

/* Rows beyond the bitmap are values, and so are the bits behind the last row. */
static void append_validity(tfos__vector *to, const tfos_vector *from, int64_t first, int64_t count, int64_t nulls)
{
    if (nulls == 0) {
        return;
    }
    size_t bytes = tfos__bitmap_bytes(to->view.length + count);
    if (to->validity.size < bytes) {
        memset(to->validity.data + to->validity.size, 0xFF, bytes - to->validity.size);
        to->validity.size = bytes;
    }
    tfos__bits_copy(to->validity.data, to->view.length, from->validity, first, count);
    to->view.null_count += nulls;
}

static void append_values(tfos__vector *to, const tfos_vector *from, int64_t first, int64_t count)
{
    int64_t length = to->view.length;
    if (to->view.type == TFOS_TYPE_BOOL) {
        size_t bytes = tfos__bitmap_bytes(length + count);
        memset(to->data.data + to->data.size, 0, bytes - to->data.size);
        tfos__bits_copy(to->data.data, length, from->data, first, count);
        to->data.size = bytes;
        return;
    }
    size_t width = (size_t)tfos__type_width(to->view.type);
    memcpy(to->data.data + to->data.size, (const uint8_t *)from->data + (size_t)first * width, (size_t)count * width);
    to->data.size += (size_t)count * width;
}

/* Offsets of `count` rows, moved so that the first of them begins at the end of what is there. */
static void append_offsets(tfos__vector *to, const int32_t *offsets, int64_t count)
{
    int32_t *out = tfos__vector_offsets(to) + to->view.length;
    uint32_t move = (uint32_t)out[0] - (uint32_t)offsets[0];
    for (int64_t i = 1; i <= count; i++) {
        out[i] = (int32_t)((uint32_t)offsets[i] + move);
    }
    to->offsets.size += (size_t)count * sizeof(int32_t);
}

static tfos_status append_bytes(tfos__vector *to, const tfos_vector *from, int64_t first, int64_t count,
                                tfos_error *error)
{
    const int32_t *offsets = from->offsets + first;
    size_t bytes = (size_t)(offsets[count] - offsets[0]);
    if (bytes > (size_t)TFOS__VECTOR_MAX - to->data.size) {
        return tfos__fail(error, TFOS_LIMIT, "a batch would hold more than %lld bytes in one column: lower batch_rows",
                          (long long)TFOS__VECTOR_MAX);
    }
    if (bytes > 0) {
        TFOS_TRY(tfos__buffer_append(&to->data, (const uint8_t *)from->data + offsets[0], bytes, error));
    }
    append_offsets(to, offsets, count);
    return TFOS_OK;
}

/* ---- lists of one kind to lists of the other ---- */

/* Where the values of a row begin in the child. */
static int64_t begin_of(const tfos_vector *list, int64_t row)
{
    return list->layout == TFOS_LAYOUT_LIST ? list->offsets[row] : row * list->list_length;
}

static tfos_status check_lengths(const tfos__vector *to, const tfos_vector *from, int64_t first, int64_t count,
                                 tfos_error *error)
{
    for (int64_t row = first; row < first + count; row++) {
        int64_t found = begin_of(from, row + 1) - begin_of(from, row);
        if (found != to->view.list_length && !tfos__vector_is_null(from, row)) {
            return tfos__fail(error, TFOS_MISMATCH,
                              "row %lld has a list of %lld values, expected %d: declare the shape [null] if lengths "
                              "differ",
                              (long long)row, (long long)found, (int)to->view.list_length);
        }
    }
    return TFOS_OK;
}

/* Fills the child: values of rows that follow one another at once; for a null, what a null of `to` has. */
static tfos_status append_runs(tfos__vector *to, const tfos_vector *from, int64_t first, int64_t count,
                               tfos_error *error)
{
    bool fixed = to->view.layout == TFOS_LAYOUT_FIXED_LIST;
    int64_t end = first + count;
    for (int64_t row = first; row < end;) {
        if (tfos__vector_is_null(from, row)) {
            TFOS_TRY(tfos__vector_push_zeros(to->child, fixed ? to->view.list_length : 0, error));
            row++;
            continue;
        }
        int64_t stop = row + 1;
        while (stop < end && !tfos__vector_is_null(from, stop)) {
            stop++;
        }
        int64_t begin = begin_of(from, row);
        TFOS_TRY(tfos__vector_append(to->child, from->child, begin, begin_of(from, stop) - begin, error));
        row = stop;
    }
    return TFOS_OK;
}

static tfos_status append_other_list(tfos__vector *to, const tfos_vector *from, int64_t first, int64_t count,
                                     tfos_error *error)
{
    if (to->view.layout == TFOS_LAYOUT_FIXED_LIST) {
        TFOS_TRY(check_lengths(to, from, first, count, error));
    }
    int64_t before = to->child->view.length;
    tfos_status status = append_runs(to, from, first, count, error);
    if (status != TFOS_OK) {
        tfos__vector_truncate(to->child, before);
        return status;
    }
    if (to->view.layout == TFOS_LAYOUT_LIST) {
        int32_t *out = tfos__vector_offsets(to) + to->view.length;
        for (int64_t i = 0; i < count; i++) {
            out[i + 1] = out[i] + (tfos__vector_is_null(from, first + i) ? 0 : from->list_length);
        }
        to->offsets.size += (size_t)count * sizeof(int32_t);
    }
    return TFOS_OK;
}

static tfos_status append_list(tfos__vector *to, const tfos_vector *from, int64_t first, int64_t count,
                               tfos_error *error)
{
    if (to->view.layout != from->layout || to->view.list_length != from->list_length) {
        return append_other_list(to, from, first, count, error);
    }
    int64_t begin = begin_of(from, first);
    TFOS_TRY(tfos__vector_append(to->child, from->child, begin, begin_of(from, first + count) - begin, error));
    if (to->view.layout == TFOS_LAYOUT_LIST) {
        append_offsets(to, from->offsets + first, count);
    }
    return TFOS_OK;
}

tfos_status tfos__vector_append(tfos__vector *to, const tfos_vector *from, int64_t first, int64_t count,
                                tfos_error *error)
{
    assert(first >= 0 && count >= 0 && first + count <= from->length && to->view.type == from->type);
    assert((to->child == NULL) == (from->child == NULL));
    if (count == 0) {
        return TFOS_OK;
    }
    int64_t nulls = count_nulls(from, first, count);
    TFOS_TRY(tfos__vector_reserve(to, to->view.length + count, error));
    TFOS_TRY(reserve_validity(to, count, nulls, error));
    switch (to->view.layout) {
    case TFOS_LAYOUT_VALUES:
        append_values(to, from, first, count);
        break;
    case TFOS_LAYOUT_BYTES:
        TFOS_TRY(append_bytes(to, from, first, count, error));
        break;
    case TFOS_LAYOUT_LIST:
    case TFOS_LAYOUT_FIXED_LIST:
        TFOS_TRY(append_list(to, from, first, count, error));
        break;
    }
    append_validity(to, from, first, count, nulls);
    to->view.length += count;
    return TFOS_OK;
}
