/* Batches from columns that somebody else has built, as the shells do. Every level is copied after it was checked, so
 * that a batch keeps its promises whoever made it: offsets that ascend, text that is UTF-8, bits beyond the end that
 * are 0. */
#include "column/batch.h"

static tfos_status check_level(const tfos__vector *to, const tfos_vector *from, int64_t length, tfos_error *error)
{
    const tfos_vector *view = &to->view;
    if (from == NULL || from->layout != view->layout || from->type != view->type ||
        from->list_length != view->list_length) {
        return tfos__fail(error, TFOS_MISMATCH, "expected a level of %s, %s, length %d; found %s, %s, length %d",
                          tfos_layout_name(view->layout), tfos_type_name(view->type), (int)view->list_length,
                          from == NULL ? "none" : tfos_layout_name(from->layout),
                          from == NULL ? "none" : tfos_type_name(from->type),
                          from == NULL ? 0 : (int)from->list_length);
    }
    if (from->length != length || length > TFOS__VECTOR_MAX) {
        return tfos__fail(error, TFOS_MISMATCH, "expected %lld values (at most %lld), found %lld", (long long)length,
                          (long long)TFOS__VECTOR_MAX, (long long)from->length);
    }
    return TFOS_OK;
}

/* A missing row of bytes or of a list is empty. */
static tfos_status copy_offsets(tfos__vector *to, const tfos_vector *from, tfos_error *error)
{
    bool ascending = from->offsets[0] == 0;
    for (int64_t row = 0; row < from->length; row++) {
        ascending &= from->offsets[row] <= from->offsets[row + 1];
        if (from->validity != NULL && !tfos__bit_get(from->validity, row)) {
            ascending &= from->offsets[row] == from->offsets[row + 1];
        }
    }
    if (!ascending) {
        return tfos__fail(error, TFOS_INVALID,
                          "the offsets must begin at 0 and never descend, and a missing row must "
                          "be empty; these do not");
    }
    to->offsets.size = 0;
    return tfos__buffer_append(&to->offsets, from->offsets, (size_t)(from->length + 1) * sizeof(int32_t), error);
}

static tfos_status copy_validity(tfos__vector *to, const tfos_vector *from, tfos_error *error)
{
    for (int64_t row = 0; from->validity != NULL && row < from->length; row++) {
        if (!tfos__bit_get(from->validity, row)) {
            TFOS_TRY(tfos__vector_mark_null(to, row, error));
        }
    }
    return TFOS_OK;
}

static tfos_status copy_bytes(tfos__vector *to, const tfos_vector *from, tfos_error *error)
{
    TFOS_TRY(copy_offsets(to, from, error));
    size_t bytes = (size_t)from->offsets[from->length];
    /* A character that two rows share would be valid in the whole and in neither of them. */
    for (int64_t row = 0; to->view.type == TFOS_TYPE_STRING && row < from->length; row++) {
        const uint8_t *text = (const uint8_t *)from->data + from->offsets[row];
        size_t count = (size_t)(from->offsets[row + 1] - from->offsets[row]);
        size_t valid = tfos__utf8_valid_prefix(text, count);
        if (valid != count) {
            return tfos__fail(error, TFOS_ENCODING, "invalid UTF-8 at byte %zu of '%s', row %lld", valid,
                              tfos__printable_of(text, count).text, (long long)row);
        }
    }
    return bytes > 0 ? tfos__buffer_append(&to->data, from->data, bytes, error) : TFOS_OK;
}

static tfos_status copy_values(tfos__vector *to, const tfos_vector *from, tfos_error *error)
{
    int width = tfos__type_width(from->type);
    size_t bytes = width == 0 ? tfos__bitmap_bytes(from->length) : (size_t)from->length * (size_t)width;
    if (bytes > 0) {
        TFOS_TRY(tfos__buffer_append(&to->data, from->data, bytes, error));
    }
    if (width == 0 && from->length % 8 != 0) {
        to->data.data[bytes - 1] &= (uint8_t)((1u << (from->length % 8)) - 1);
    }
    return TFOS_OK;
}

/* Columns are at most three levels deep. */
static tfos_status copy_level(tfos__vector *to, const tfos_vector *from, int64_t length, tfos_error *error)
{
    TFOS_TRY(check_level(to, from, length, error));
    switch (from->layout) {
    case TFOS_LAYOUT_VALUES:
        TFOS_TRY(copy_values(to, from, error));
        break;
    case TFOS_LAYOUT_BYTES:
        TFOS_TRY(copy_bytes(to, from, error));
        break;
    case TFOS_LAYOUT_LIST:
        TFOS_TRY(copy_offsets(to, from, error));
        TFOS_TRY(copy_level(to->child, from->child, from->offsets[length], error));
        break;
    case TFOS_LAYOUT_FIXED_LIST:
        TFOS_TRY(copy_level(to->child, from->child, length * from->list_length, error));
        break;
    }
    to->view.length = length;
    return TFOS_OK;
}

static tfos_status copy_column(tfos__vector *to, const tfos_field *field, const tfos_vector *from, int64_t rows,
                               tfos_error *error)
{
    tfos_status status = copy_level(to, from, rows, error);
    if (status == TFOS_OK) {
        status = copy_validity(to, from, error);
    }
    if (status == TFOS_OK && to->view.null_count > 0 && !field->nullable) {
        status = tfos__fail(error, TFOS_MISMATCH, "%lld rows have no value, but the column is not nullable",
                            (long long)to->view.null_count);
    }
    for (const tfos_vector *level = from->child; status == TFOS_OK && level != NULL; level = level->child) {
        if (level->validity != NULL) {
            status = tfos__fail(error, TFOS_MISMATCH, "a row may be missing, a value in a list may not");
        }
    }
    if (status != TFOS_OK && error != NULL) {
        tfos__error_prefix(error, "column '%s'", field->name);
    }
    return status;
}

tfos_status tfos_batch_new(const tfos_schema *schema, const tfos_vector *columns, int64_t rows, tfos_batch **out,
                           tfos_error *error)
{
    tfos_batch *batch;
    TFOS_TRY(tfos__batch_new(schema, &batch, error));
    tfos_status status = TFOS_OK;
    for (size_t i = 0; status == TFOS_OK && i < tfos_schema_field_count(schema); i++) {
        status = copy_column(tfos__batch_vector(batch, i), tfos_schema_field(schema, i), &columns[i], rows, error);
    }
    if (status == TFOS_OK) {
        status = tfos__batch_finish(batch, rows, error);
    }
    if (status != TFOS_OK) {
        tfos_batch_free(batch);
        return status;
    }
    *out = batch;
    return TFOS_OK;
}
