/* Batches to JSON lines. */
#include <math.h>

#include "base/status.h"
#include "column/vector.h"
#include "record/base64.h"
#include "record/json_lines.h"
#include "record/number.h"

/* Appends a constant. */
static tfos_status put(tfos__buffer *out, const char *text, tfos_error *error)
{
    return tfos__buffer_append(out, text, strlen(text), error);
}

static tfos_status put_escape(unsigned char character, tfos__buffer *out, tfos_error *error)
{
    switch (character) {
    case '"':
        return put(out, "\\\"", error);
    case '\\':
        return put(out, "\\\\", error);
    case '\n':
        return put(out, "\\n", error);
    case '\r':
        return put(out, "\\r", error);
    case '\t':
        return put(out, "\\t", error);
    default:
        return tfos__buffer_printf(out, error, "\\u%04x", character);
    }
}

tfos_status tfos__json_write_string(const void *bytes, size_t count, tfos__buffer *out, tfos_error *error)
{
    const unsigned char *text = bytes;
    TFOS_TRY(tfos__buffer_reserve(out, out->size + count + 2, error));
    TFOS_TRY(put(out, "\"", error));
    size_t valid = tfos__utf8_valid_prefix(text, count);
    size_t from = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == valid) {
            TFOS_TRY(tfos__buffer_append(out, text + from, i - from, error));
            TFOS_TRY(put(out, "\xEF\xBF\xBD", error));
            from = i + 1;
            valid = from + tfos__utf8_valid_prefix(text + from, count - from);
        } else if (text[i] == 0xC2 && text[i + 1] < 0xA0) {
            /* U+0080 to U+009F, which some terminals obey; the character is valid, so its second byte is there. */
            TFOS_TRY(tfos__buffer_append(out, text + from, i - from, error));
            TFOS_TRY(put_escape(text[++i], out, error));
            from = i + 1;
        } else if (text[i] < 0x20 || text[i] == '"' || text[i] == '\\' || text[i] == 0x7F) {
            TFOS_TRY(tfos__buffer_append(out, text + from, i - from, error));
            TFOS_TRY(put_escape(text[i], out, error));
            from = i + 1;
        }
    }
    TFOS_TRY(tfos__buffer_append(out, text + from, count - from, error));
    return put(out, "\"", error);
}

static tfos_status put_real(double value, tfos_type type, tfos__buffer *out, tfos_error *error)
{
    char number[TFOS__NUMBER_BYTES];
    size_t bytes = type == TFOS_TYPE_FLOAT ? tfos__number_format_float((float)value, number)
                                           : tfos__number_format_double(value, number);
    return isfinite(value) ? tfos__buffer_append(out, number, bytes, error)
                           : tfos__buffer_printf(out, error, "\"%s\"", number);
}

static tfos_status put_int(int64_t value, tfos__buffer *out, tfos_error *error)
{
    char number[TFOS__NUMBER_BYTES];
    size_t bytes = tfos__number_format_int(value, number);
    return tfos__buffer_append(out, number, bytes, error);
}

static tfos_status put_bytes(const tfos_vector *leaf, int64_t index, tfos__buffer *out, tfos_error *error)
{
    const uint8_t *bytes = (const uint8_t *)leaf->data + leaf->offsets[index];
    size_t count = (size_t)(leaf->offsets[index + 1] - leaf->offsets[index]);
    if (leaf->type == TFOS_TYPE_STRING) {
        return tfos__json_write_string(bytes, count, out, error);
    }
    TFOS_TRY(put(out, "\"", error));
    TFOS_TRY(tfos__base64_encode(bytes, count, out, error));
    return put(out, "\"", error);
}

static tfos_status put_leaf(const tfos_vector *leaf, int64_t index, tfos__buffer *out, tfos_error *error)
{
    switch (leaf->type) {
    case TFOS_TYPE_INT32:
        return put_int(((const int32_t *)leaf->data)[index], out, error);
    case TFOS_TYPE_INT64:
        return put_int(((const int64_t *)leaf->data)[index], out, error);
    case TFOS_TYPE_FLOAT:
        return put_real((double)((const float *)leaf->data)[index], TFOS_TYPE_FLOAT, out, error);
    case TFOS_TYPE_DOUBLE:
        return put_real(((const double *)leaf->data)[index], TFOS_TYPE_DOUBLE, out, error);
    case TFOS_TYPE_BOOL:
        return put(out, tfos__bit_get(leaf->data, index) ? "true" : "false", error);
    case TFOS_TYPE_STRING:
    case TFOS_TYPE_BINARY:
        break;
    }
    return put_bytes(leaf, index, out, error);
}

tfos_status tfos__json_write_value(const tfos_vector *vector, int64_t row, tfos__buffer *out, tfos_error *error)
{
    if (tfos__vector_is_null(vector, row)) {
        return put(out, "null", error);
    }
    if (vector->layout == TFOS_LAYOUT_VALUES || vector->layout == TFOS_LAYOUT_BYTES) {
        return put_leaf(vector, row, out, error);
    }
    bool fixed = vector->layout == TFOS_LAYOUT_FIXED_LIST;
    int64_t start = fixed ? row * vector->list_length : vector->offsets[row];
    int64_t end = fixed ? start + vector->list_length : vector->offsets[row + 1];
    TFOS_TRY(put(out, "[", error));
    for (int64_t i = start; i < end; i++) {
        if (i > start) {
            TFOS_TRY(put(out, ", ", error));
        }
        TFOS_TRY(tfos__json_write_value(vector->child, i, out, error));
    }
    return put(out, "]", error);
}

tfos_status tfos__json_write_row(const tfos_batch *batch, int64_t row, tfos__buffer *out, tfos_error *error)
{
    const tfos_schema *schema = tfos_batch_schema(batch);
    TFOS_TRY(put(out, "{", error));
    for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
        const char *name = tfos_schema_field(schema, i)->name;
        TFOS_TRY(put(out, i == 0 ? "" : ", ", error));
        TFOS_TRY(tfos__json_write_string(name, strlen(name), out, error));
        TFOS_TRY(put(out, ": ", error));
        TFOS_TRY(tfos__json_write_value(tfos_batch_column(batch, i), row, out, error));
    }
    return put(out, "}", error);
}
