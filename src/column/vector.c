/* Vector: building columns in Arrow layout. */
#include "column/vector.h"

#include <assert.h>
#include <stdlib.h>

#include "base/choice.h"

static const char *const layout_names[] = {"values", "bytes", "list", "fixed_list", NULL};
TFOS__CHOICE_FUNCTIONS(layout, "layout", layout_names)

/* Buffers of length zero point here, so that consumers need not expect NULL. */
static _Alignas(TFOS__BUFFER_ALIGN) const uint8_t nothing[TFOS__BUFFER_ALIGN];

static tfos__vector *new_level(tfos_layout layout, tfos_type type, int32_t list_length, tfos__vector *child)
{
    tfos__vector *vector = calloc(1, sizeof *vector);
    if (vector != NULL) {
        vector->view.layout = layout;
        vector->view.type = type;
        vector->view.list_length = list_length;
        vector->child = child;
    }
    return vector;
}

static bool has_offsets(const tfos__vector *vector)
{
    return vector->view.layout == TFOS_LAYOUT_BYTES || vector->view.layout == TFOS_LAYOUT_LIST;
}

/* Puts a list level above `child`; frees the child if that fails. */
static tfos__vector *wrap(tfos__vector *child, tfos_layout layout, int32_t list_length)
{
    if (child == NULL) {
        return NULL;
    }
    tfos__vector *list = new_level(layout, child->view.type, list_length, child);
    if (list == NULL) {
        tfos__vector_free(child);
    }
    return list;
}

tfos_status tfos__vector_new(const tfos_field *field, tfos__vector **out, tfos_error *error)
{
    tfos_layout leaf = tfos__type_width(field->type) < 0 ? TFOS_LAYOUT_BYTES : TFOS_LAYOUT_VALUES;
    tfos__vector *vector = new_level(leaf, field->type, 0, NULL);
    if (field->shape == TFOS_SHAPE_FIXED) {
        vector = wrap(vector, TFOS_LAYOUT_FIXED_LIST, field->length);
    } else if (field->shape == TFOS_SHAPE_RAGGED) {
        vector = wrap(vector, TFOS_LAYOUT_LIST, 0);
    }
    if (field->feature_list) {
        vector = wrap(vector, TFOS_LAYOUT_LIST, 0);
    }
    if (vector == NULL) {
        return tfos__fail_memory(error, sizeof *vector);
    }
    for (tfos__vector *level = vector; level != NULL; level = level->child) {
        tfos_status status = tfos__vector_reserve(level, 0, error);
        if (status != TFOS_OK) {
            tfos__vector_free(vector);
            return status;
        }
    }
    tfos__vector_clear(vector);
    *out = vector;
    return TFOS_OK;
}

void tfos__vector_free(tfos__vector *vector)
{
    while (vector != NULL) {
        tfos__vector *child = vector->child;
        tfos__buffer_reset(&vector->validity);
        tfos__buffer_reset(&vector->offsets);
        tfos__buffer_reset(&vector->data);
        free(vector);
        vector = child;
    }
}

void tfos__vector_clear(tfos__vector *vector)
{
    for (; vector != NULL; vector = vector->child) {
        vector->view.length = 0;
        vector->view.null_count = 0;
        vector->validity.size = 0;
        vector->data.size = 0;
        if (has_offsets(vector)) {
            tfos__vector_offsets(vector)[0] = 0;
            vector->offsets.size = sizeof(int32_t);
        }
    }
}

void tfos__vector_truncate(tfos__vector *vector, int64_t length)
{
    assert(length <= vector->view.length);
    int64_t covered = tfos__min_i64((int64_t)vector->validity.size * 8, vector->view.length);
    for (int64_t row = length; row < covered; row++) {
        if (!tfos__bit_get(vector->validity.data, row)) {
            tfos__bit_set(vector->validity.data, row);
            vector->view.null_count--;
        }
    }
    if (has_offsets(vector)) {
        vector->offsets.size = (size_t)(length + 1) * sizeof(int32_t);
    }
    switch (vector->view.layout) {
    case TFOS_LAYOUT_VALUES:
        if (vector->view.type == TFOS_TYPE_BOOL) {
            for (int64_t row = length; row < vector->view.length; row++) {
                tfos__bit_clear(vector->data.data, row);
            }
            vector->data.size = tfos__bitmap_bytes(length);
        } else {
            vector->data.size = (size_t)length * (size_t)tfos__type_width(vector->view.type);
        }
        break;
    case TFOS_LAYOUT_BYTES:
        vector->data.size = (size_t)tfos__vector_offsets(vector)[length];
        break;
    case TFOS_LAYOUT_LIST:
        tfos__vector_truncate(vector->child, tfos__vector_offsets(vector)[length]);
        break;
    case TFOS_LAYOUT_FIXED_LIST:
        tfos__vector_truncate(vector->child, length * vector->view.list_length);
        break;
    }
    vector->view.length = length;
}

tfos_status tfos__vector_reserve(tfos__vector *vector, int64_t rows, tfos_error *error)
{
    if (rows > TFOS__VECTOR_MAX) {
        return tfos__fail(error, TFOS_LIMIT, "a batch would hold %lld values, the limit is %lld: lower batch_rows",
                          (long long)rows, (long long)TFOS__VECTOR_MAX);
    }
    if (has_offsets(vector)) {
        return tfos__buffer_reserve(&vector->offsets, (size_t)(rows + 1) * sizeof(int32_t), error);
    }
    if (vector->view.layout == TFOS_LAYOUT_VALUES) {
        int width = tfos__type_width(vector->view.type);
        size_t bytes = width == 0 ? tfos__bitmap_bytes(rows) : (size_t)rows * (size_t)width;
        return tfos__buffer_reserve(&vector->data, bytes, error);
    }
    return TFOS_OK;
}

void tfos__vector_lend(tfos__vector *vector, const void *values, int64_t length)
{
    assert(vector->view.layout == TFOS_LAYOUT_VALUES && vector->view.type != TFOS_TYPE_BOOL);
    assert(vector->view.length == 0);
    vector->lent = values;
    vector->view.length = length;
}

tfos_status tfos__vector_mark_null(tfos__vector *vector, int64_t row, tfos_error *error)
{
    size_t bytes = tfos__bitmap_bytes(row + 1);
    if (vector->validity.size < bytes) {
        TFOS_TRY(tfos__buffer_reserve(&vector->validity, bytes, error));
        memset(vector->validity.data + vector->validity.size, 0xFF, bytes - vector->validity.size);
        vector->validity.size = bytes;
    }
    if (tfos__bit_get(vector->validity.data, row)) {
        tfos__bit_clear(vector->validity.data, row);
        vector->view.null_count++;
    }
    return TFOS_OK;
}

tfos_status tfos__vector_push_zeros(tfos__vector *vector, int32_t count, tfos_error *error)
{
    int64_t length = vector->view.length + count;
    if (count == 0) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__vector_reserve(vector, length, error));
    if (vector->view.layout == TFOS_LAYOUT_BYTES) {
        int32_t *offsets = tfos__vector_offsets(vector);
        for (int64_t row = vector->view.length; row < length; row++) {
            offsets[row + 1] = (int32_t)vector->data.size;
        }
        vector->offsets.size += (size_t)count * sizeof(int32_t);
    } else {
        int width = tfos__type_width(vector->view.type);
        size_t bytes = width == 0 ? tfos__bitmap_bytes(length) : (size_t)length * (size_t)width;
        memset(vector->data.data + vector->data.size, 0, bytes - vector->data.size);
        vector->data.size = bytes;
    }
    vector->view.length = length;
    return TFOS_OK;
}

/* One more row of value zero, nothing or an empty list. */
static tfos_status push_zero(tfos__vector *vector, tfos_error *error)
{
    switch (vector->view.layout) {
    case TFOS_LAYOUT_VALUES:
    case TFOS_LAYOUT_BYTES:
        return tfos__vector_push_zeros(vector, 1, error);
    case TFOS_LAYOUT_FIXED_LIST:
        TFOS_TRY(tfos__vector_push_zeros(vector->child, vector->view.list_length, error));
        return tfos__vector_push_list(vector, error);
    case TFOS_LAYOUT_LIST:
        return tfos__vector_push_list(vector, error);
    }
    return TFOS_OK;
}

tfos_status tfos__vector_push_null(tfos__vector *vector, tfos_error *error)
{
    TFOS_TRY(push_zero(vector, error));
    return tfos__vector_mark_null(vector, vector->view.length - 1, error);
}

static tfos_status fail_range(tfos__vector *vector, int64_t value, tfos_error *error)
{
    return tfos__fail(error, TFOS_RANGE, "the value %lld does not fit %s", (long long)value,
                      tfos_type_name(vector->view.type));
}

tfos_status tfos__vector_push_int(tfos__vector *vector, int64_t value, tfos_error *error)
{
    assert(vector->view.layout == TFOS_LAYOUT_VALUES);
    int64_t row = vector->view.length;
    TFOS_TRY(tfos__vector_reserve(vector, row + 1, error));
    switch (vector->view.type) {
    case TFOS_TYPE_INT64:
        ((int64_t *)(void *)vector->data.data)[row] = value;
        break;
    case TFOS_TYPE_INT32:
        if (value < INT32_MIN || value > INT32_MAX) {
            return fail_range(vector, value, error);
        }
        ((int32_t *)(void *)vector->data.data)[row] = (int32_t)value;
        break;
    case TFOS_TYPE_BOOL:
        if (value != 0 && value != 1) {
            return fail_range(vector, value, error);
        }
        if ((row & 7) == 0) {
            vector->data.data[row >> 3] = 0;
        }
        tfos__bit_put(vector->data.data, row, value != 0);
        vector->data.size = tfos__bitmap_bytes(row + 1);
        vector->view.length = row + 1;
        return TFOS_OK;
    default:
        return tfos__vector_push_real(vector, (double)value, error);
    }
    vector->view.length = row + 1;
    vector->data.size += (size_t)tfos__type_width(vector->view.type);
    return TFOS_OK;
}

tfos_status tfos__vector_push_real(tfos__vector *vector, double value, tfos_error *error)
{
    assert(vector->view.layout == TFOS_LAYOUT_VALUES);
    int64_t row = vector->view.length;
    TFOS_TRY(tfos__vector_reserve(vector, row + 1, error));
    if (vector->view.type == TFOS_TYPE_FLOAT) {
        ((float *)(void *)vector->data.data)[row] = (float)value;
    } else if (vector->view.type == TFOS_TYPE_DOUBLE) {
        ((double *)(void *)vector->data.data)[row] = value;
    } else {
        return tfos__fail(error, TFOS_MISMATCH, "expected %s, found the real number %g",
                          tfos_type_name(vector->view.type), value);
    }
    vector->view.length = row + 1;
    vector->data.size += (size_t)tfos__type_width(vector->view.type);
    return TFOS_OK;
}

tfos_status tfos__vector_push_bytes(tfos__vector *vector, const void *bytes, size_t count, tfos_error *error)
{
    assert(vector->view.layout == TFOS_LAYOUT_BYTES);
    if (vector->view.type == TFOS_TYPE_STRING && count > 0) {
        size_t valid = tfos__utf8_valid_prefix(bytes, count);
        if (valid != count) {
            return tfos__fail(error, TFOS_ENCODING,
                              "invalid UTF-8 at byte %zu of '%s': declare the column as binary, or repair the text",
                              valid, tfos__printable_of(bytes, count).text);
        }
    }
    if (count > (size_t)TFOS__VECTOR_MAX - vector->data.size) {
        return tfos__fail(error, TFOS_LIMIT, "a batch would hold more than %lld bytes in one column: lower batch_rows",
                          (long long)TFOS__VECTOR_MAX);
    }
    int64_t row = vector->view.length;
    TFOS_TRY(tfos__vector_reserve(vector, row + 1, error));
    TFOS_TRY(tfos__buffer_append(&vector->data, bytes, count, error));
    tfos__vector_offsets(vector)[row + 1] = (int32_t)vector->data.size;
    vector->offsets.size += sizeof(int32_t);
    vector->view.length = row + 1;
    return TFOS_OK;
}

tfos_status tfos__vector_push_list(tfos__vector *vector, tfos_error *error)
{
    int64_t row = vector->view.length;
    if (vector->view.layout == TFOS_LAYOUT_FIXED_LIST) {
        int64_t found = vector->child->view.length - row * vector->view.list_length;
        if (found != vector->view.list_length) {
            return tfos__fail(error, TFOS_MISMATCH,
                              "expected a list of %d values, found %lld: declare the shape [null] if lengths differ",
                              (int)vector->view.list_length, (long long)found);
        }
    } else {
        assert(vector->view.layout == TFOS_LAYOUT_LIST);
        TFOS_TRY(tfos__vector_reserve(vector, row + 1, error));
        tfos__vector_offsets(vector)[row + 1] = (int32_t)vector->child->view.length;
        vector->offsets.size += sizeof(int32_t);
    }
    vector->view.length = row + 1;
    return TFOS_OK;
}

static const void *or_nothing(const tfos__buffer *buffer)
{
    return buffer->data != NULL ? buffer->data : nothing;
}

tfos_status tfos__vector_finish(tfos__vector *vector, tfos_error *error)
{
    for (; vector != NULL; vector = vector->child) {
        tfos_vector *view = &vector->view;
        size_t bitmap = tfos__bitmap_bytes(view->length);
        view->validity = NULL;
        if (view->null_count > 0) {
            TFOS_TRY(tfos__buffer_reserve(&vector->validity, bitmap, error));
            if (vector->validity.size < bitmap) {
                memset(vector->validity.data + vector->validity.size, 0xFF, bitmap - vector->validity.size);
                vector->validity.size = bitmap;
            }
            view->validity = vector->validity.data;
        }
        view->offsets = has_offsets(vector) ? (const int32_t *)or_nothing(&vector->offsets) : NULL;
        bool has_data = view->layout == TFOS_LAYOUT_VALUES || view->layout == TFOS_LAYOUT_BYTES;
        view->data = vector->lent != NULL ? vector->lent : has_data ? or_nothing(&vector->data) : NULL;
        view->child = vector->child != NULL ? &vector->child->view : NULL;
    }
    return TFOS_OK;
}

size_t tfos__vector_memory(const tfos__vector *vector)
{
    size_t bytes = 0;
    for (; vector != NULL; vector = vector->child) {
        bytes += vector->validity.capacity + vector->offsets.capacity + vector->data.capacity;
    }
    return bytes;
}
