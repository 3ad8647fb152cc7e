/* JSON lines to batches. */
#include <math.h>
#include <stdlib.h>

#include "column/batch.h"
#include "column/schema.h"
#include "record/base64.h"
#include "record/decode.h"
#include "record/json_scan.h"

struct tfos__json_reader {
    const tfos_schema *schema; /* the pool holds it */
    int64_t batch_rows;
    int64_t batch_bytes;
    tfos__text *text;
    tfos__json_scan scan;
    tfos__text_batches batches;
    tfos__buffer scratch; /* of base64 */
    int64_t filled;       /* values of the batch that stand for missing lists */
};

static tfos_status fail_kind(const tfos__vector *vector, json_object *value, tfos_error *error)
{
    bool list = vector->view.layout == TFOS_LAYOUT_LIST || vector->view.layout == TFOS_LAYOUT_FIXED_LIST;
    return tfos__fail(error, TFOS_MISMATCH, "expected %s%s, found %s", list ? "an array of " : "",
                      tfos_type_name(vector->view.type), tfos__json_kind(value));
}

static tfos_status push_real(tfos__vector *leaf, json_object *value, tfos_error *error)
{
    double real = 0;
    json_type kind = json_object_get_type(value);
    if (kind == json_type_string && tfos__json_is_special(value, &real)) {
        return tfos__vector_push_real(leaf, real, error);
    }
    if (kind != json_type_int && kind != json_type_double) {
        return fail_kind(leaf, value, error);
    }
    real = json_object_get_double(value);
    bool fits = leaf->view.type == TFOS_TYPE_FLOAT ? !isinf((float)real) : !isinf(real);
    /* json-c takes Infinity without quotes too, as some programs write it. */
    if (!fits && !tfos__json_is_special(value, &real)) {
        return tfos__fail(error, TFOS_RANGE, "the value %s does not fit %s", json_object_get_string(value),
                          tfos_type_name(leaf->view.type));
    }
    return tfos__vector_push_real(leaf, real, error);
}

static tfos_status push_int(tfos__vector *leaf, json_object *value, tfos_error *error)
{
    if (!json_object_is_type(value, json_type_int)) {
        return fail_kind(leaf, value, error);
    }
    if (tfos__json_is_big(value)) {
        return tfos__fail(error, TFOS_RANGE, "the value %s does not fit %s", json_object_get_string(value),
                          tfos_type_name(leaf->view.type));
    }
    return tfos__vector_push_int(leaf, json_object_get_int64(value), error);
}

static tfos_status push_text(tfos__json_reader *reader, tfos__vector *leaf, json_object *value, tfos_error *error)
{
    if (!json_object_is_type(value, json_type_string)) {
        return fail_kind(leaf, value, error);
    }
    const char *text = json_object_get_string(value);
    size_t bytes = (size_t)json_object_get_string_len(value);
    if (leaf->view.type == TFOS_TYPE_STRING) {
        return tfos__vector_push_bytes(leaf, text, bytes, error);
    }
    reader->scratch.size = 0;
    TFOS_TRY(tfos__base64_decode(text, bytes, &reader->scratch, error));
    return tfos__vector_push_bytes(leaf, reader->scratch.data, reader->scratch.size, error);
}

static tfos_status push_leaf(tfos__json_reader *reader, tfos__vector *leaf, json_object *value, tfos_error *error)
{
    switch (leaf->view.type) {
    case TFOS_TYPE_FLOAT:
    case TFOS_TYPE_DOUBLE:
        return push_real(leaf, value, error);
    case TFOS_TYPE_STRING:
    case TFOS_TYPE_BINARY:
        return push_text(reader, leaf, value, error);
    case TFOS_TYPE_BOOL:
        if (json_object_is_type(value, json_type_boolean)) {
            return tfos__vector_push_int(leaf, json_object_get_boolean(value), error);
        }
        break;
    default:
        break;
    }
    return push_int(leaf, value, error);
}

/* A null in a feature list. */
static tfos_status push_gap(tfos__json_reader *reader, tfos__vector *vector, tfos_error *error)
{
    if (vector->view.layout == TFOS_LAYOUT_FIXED_LIST) {
        reader->filled += vector->view.list_length;
        if (reader->filled > TFOS__MOST_FILLED_VALUES) {
            return tfos__fail_filled(vector->view.list_length, error);
        }
    }
    return tfos__vector_push_null(vector, error);
}

/* Lists nest as deep as the column's levels, which are three at most. With `gaps`, a null in the list is a feature of
 * no kind. */
static tfos_status push_value(tfos__json_reader *reader, tfos__vector *vector, json_object *value, bool gaps,
                              tfos_error *error)
{
    if (vector->child == NULL) {
        return push_leaf(reader, vector, value, error);
    }
    if (!json_object_is_type(value, json_type_array)) {
        return fail_kind(vector, value, error);
    }
    size_t count = json_object_array_length(value);
    for (size_t i = 0; i < count; i++) {
        json_object *element = json_object_array_get_idx(value, i);
        TFOS_TRY(gaps && element == NULL ? push_gap(reader, vector->child, error)
                                         : push_value(reader, vector->child, element, false, error));
    }
    return tfos__vector_push_list(vector, error);
}

static tfos_status push_row(tfos__json_reader *reader, tfos_batch *batch, tfos_error *error)
{
    for (size_t i = 0; i < tfos_schema_field_count(reader->schema); i++) {
        const tfos_field *field = tfos_schema_field(reader->schema, i);
        json_object *value = NULL;
        bool there = json_object_object_get_ex(reader->scan.object, field->name, &value);
        tfos_status status;
        if (value != NULL) {
            status = push_value(reader, tfos__batch_vector(batch, i), value, field->feature_list, error);
        } else if (field->nullable) {
            status = tfos__vector_push_null(tfos__batch_vector(batch, i), error);
        } else {
            status = tfos__fail(error, TFOS_MISMATCH, "the value is %s; the schema says that it is not nullable",
                                there ? "null" : "missing");
        }
        if (status != TFOS_OK) {
            tfos__error_prefix(error, "%s: line %lld, column '%s'", reader->text->name, (long long)reader->scan.line,
                               tfos__printable_text(field->name).text);
            return status;
        }
    }
    return TFOS_OK;
}

static tfos_status read_rows(void *context, tfos_batch *batch, int64_t *rows, tfos_error *error)
{
    tfos__json_reader *reader = context;
    int64_t bytes = 0;
    reader->filled = 0;
    while (*rows < reader->batch_rows && bytes < reader->batch_bytes) {
        tfos_status status = tfos__json_scan_next(&reader->scan, reader->text, error);
        if (status == TFOS_END) {
            return TFOS_OK;
        }
        TFOS_TRY(status);
        TFOS_TRY(push_row(reader, batch, error));
        bytes += (int64_t)reader->scan.bytes;
        ++*rows;
    }
    return TFOS_OK;
}

tfos_status tfos__json_reader_next(tfos__json_reader *reader, tfos_batch **out, tfos_error *error)
{
    return tfos__text_batches_next(&reader->batches, read_rows, reader, out, error);
}

void tfos__json_reader_close(tfos__json_reader *reader)
{
    if (reader != NULL) {
        tfos__json_scan_reset(&reader->scan);
        tfos__buffer_reset(&reader->scratch);
        tfos__text_batches_reset(&reader->batches);
        free(reader);
    }
}

tfos_status tfos__json_reader_open(const tfos_schema *schema, int64_t batch_rows, int64_t batch_bytes, tfos__text *text,
                                   tfos__json_reader **out, tfos_error *error)
{
    tfos__json_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        return tfos__fail_memory(error, sizeof *reader);
    }
    reader->schema = schema;
    reader->batch_rows = tfos__schema_rows_for(schema, batch_rows, batch_bytes);
    reader->batch_bytes = batch_bytes;
    reader->text = text;
    tfos_status status = tfos__json_scan_init(&reader->scan, error);
    if (status == TFOS_OK) {
        status = tfos__text_batches_init(&reader->batches, schema, error);
    }
    if (status != TFOS_OK) {
        tfos__json_reader_close(reader);
        return status;
    }
    *out = reader;
    return TFOS_OK;
}
