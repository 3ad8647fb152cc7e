/* Batches to CSV: a list of fixed length is as many columns, name_0, name_1, … */
#include <stdlib.h>

#include "base/status.h"
#include "column/vector.h"
#include "record/base64.h"
#include "record/csv.h"
#include "record/number.h"

static tfos_status put(tfos__buffer *out, char character, tfos_error *error)
{
    return tfos__buffer_append(out, &character, 1, error);
}

/* Quotes are needed around what would read as something else; an empty string would read as a missing value, and a byte
 * order mark at the start of a file as none. */
static bool needs_quotes(const char *text, size_t bytes, char delimiter)
{
    bool mark = bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
    if (bytes == 0 || mark) {
        return true;
    }
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == delimiter || text[i] == '"' || text[i] == '\n' || text[i] == '\r') {
            return true;
        }
    }
    return false;
}

static tfos_status put_text(const char *text, size_t bytes, char delimiter, tfos__buffer *out, tfos_error *error)
{
    if (!needs_quotes(text, bytes, delimiter)) {
        return tfos__buffer_append(out, text, bytes, error);
    }
    TFOS_TRY(put(out, '"', error));
    for (size_t from = 0; from < bytes;) {
        const char *quote = memchr(text + from, '"', bytes - from);
        size_t end = quote != NULL ? (size_t)(quote - text) + 1 : bytes;
        TFOS_TRY(tfos__buffer_append(out, text + from, end - from, error));
        if (quote != NULL) {
            TFOS_TRY(put(out, '"', error));
        }
        from = end;
    }
    return put(out, '"', error);
}

static tfos_status put_value(const tfos_vector *leaf, int64_t index, char delimiter, tfos__buffer *out,
                             tfos_error *error)
{
    char number[TFOS__NUMBER_BYTES];
    size_t bytes = 0;
    switch (leaf->type) {
    case TFOS_TYPE_INT32:
        bytes = tfos__number_format_int(((const int32_t *)leaf->data)[index], number);
        break;
    case TFOS_TYPE_INT64:
        bytes = tfos__number_format_int(((const int64_t *)leaf->data)[index], number);
        break;
    case TFOS_TYPE_FLOAT:
        bytes = tfos__number_format_float(((const float *)leaf->data)[index], number);
        break;
    case TFOS_TYPE_DOUBLE:
        bytes = tfos__number_format_double(((const double *)leaf->data)[index], number);
        break;
    case TFOS_TYPE_BOOL:
        return tfos__buffer_printf(out, error, "%s", tfos__bit_get(leaf->data, index) ? "true" : "false");
    case TFOS_TYPE_STRING: {
        const char *text = (const char *)leaf->data + leaf->offsets[index];
        return put_text(text, (size_t)(leaf->offsets[index + 1] - leaf->offsets[index]), delimiter, out, error);
    }
    case TFOS_TYPE_BINARY: {
        int32_t start = leaf->offsets[index];
        int32_t end = leaf->offsets[index + 1];
        if (start == end) {
            return tfos__buffer_append(out, "\"\"", 2, error);
        }
        return tfos__base64_encode((const char *)leaf->data + start, (size_t)(end - start), out, error);
    }
    }
    return tfos__buffer_append(out, number, bytes, error);
}

static tfos_status check_shape(const tfos_field *field, tfos_error *error)
{
    bool varying = field->feature_list || field->shape == TFOS_SHAPE_RAGGED;
    if (!varying && !(field->shape == TFOS_SHAPE_FIXED && field->length == 0)) {
        return TFOS_OK;
    }
    char type[64];
    tfos__field_describe(field, type, sizeof type);
    return tfos__fail(
        error, TFOS_UNSUPPORTED,
        "column '%s' is %s, a list %s, which CSV cannot hold: write JSON lines (--to jsonl), or leave the "
        "column out (--columns)",
        tfos__printable_text(field->name).text, type, varying ? "of varying length" : "without values");
}

/* The list that is written as a column of this name too, or NULL. A name that ends in _12 can be the value 12 of one
 * list only. */
static const tfos_field *find_clash(const tfos_schema *schema, const char *name)
{
    const char *number = strrchr(name, '_');
    if (number == NULL || number[1] == '\0' || strspn(number + 1, "0123456789") != strlen(number + 1) ||
        strlen(number + 1) > 10 || (number[1] == '0' && number[2] != '\0')) {
        return NULL;
    }
    int64_t index = tfos__schema_find(schema, name, (size_t)(number - name));
    const tfos_field *field = index >= 0 ? tfos_schema_field(schema, (size_t)index) : NULL;
    bool list = field != NULL && field->shape == TFOS_SHAPE_FIXED;
    return list && strtoll(number + 1, NULL, 10) < field->length ? field : NULL;
}

static tfos_status check_name(const tfos_schema *schema, const tfos_field *field, tfos_error *error)
{
    const tfos_field *clash = field->shape == TFOS_SHAPE_SCALAR ? find_clash(schema, field->name) : NULL;
    if (clash == NULL) {
        return TFOS_OK;
    }
    tfos__printable list = tfos__printable_text(clash->name);
    return tfos__fail(error, TFOS_UNSUPPORTED,
                      "two columns would be called '%s': the list '%s' is written as %s_0 to %s_%d: write JSON lines "
                      "(--to jsonl), or leave one of them out (--columns)",
                      tfos__printable_text(field->name).text, list.text, list.text, list.text, (int)clash->length - 1);
}

tfos_status tfos__csv_write_header(const tfos_schema *schema, char delimiter, tfos__buffer *out, tfos_error *error)
{
    size_t count = tfos_schema_field_count(schema);
    bool first = true;
    for (size_t i = 0; i < count; i++) {
        const tfos_field *field = tfos_schema_field(schema, i);
        TFOS_TRY(check_shape(field, error));
        TFOS_TRY(check_name(schema, field, error));
        bool list = field->shape == TFOS_SHAPE_FIXED;
        for (int32_t j = 0; j < (list ? field->length : 1); j++) {
            tfos__buffer name = {0};
            tfos_status status = list ? tfos__buffer_printf(&name, error, "%s_%d", field->name, (int)j)
                                      : tfos__buffer_printf(&name, error, "%s", field->name);
            if (status == TFOS_OK && !first) {
                status = put(out, delimiter, error);
            }
            if (status == TFOS_OK) {
                status = put_text((const char *)name.data, name.size, delimiter, out, error);
            }
            tfos__buffer_reset(&name);
            TFOS_TRY(status);
            first = false;
        }
    }
    return put(out, '\n', error);
}

tfos_status tfos__csv_write_row(const tfos_batch *batch, int64_t row, char delimiter, tfos__buffer *out,
                                tfos_error *error)
{
    size_t count = tfos_schema_field_count(tfos_batch_schema(batch));
    size_t start = out->size;
    bool first = true;
    for (size_t i = 0; i < count; i++) {
        const tfos_vector *vector = tfos_batch_column(batch, i);
        bool list = vector->layout == TFOS_LAYOUT_FIXED_LIST;
        bool missing = tfos__vector_is_null(vector, row);
        int64_t values = list ? vector->list_length : 1;
        for (int64_t j = 0; j < values; j++) {
            if (!first) {
                TFOS_TRY(put(out, delimiter, error));
            }
            first = false;
            if (!missing) {
                TFOS_TRY(put_value(list ? vector->child : vector, row * values + j, delimiter, out, error));
            }
        }
    }
    if (out->size == start) {
        TFOS_TRY(tfos__buffer_append(out, "\"\"", 2, error));
    }
    return put(out, '\n', error);
}
