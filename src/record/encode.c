/* Rows to records.
 *
 * Lengths come before what they measure, so a feature is sized first and written second; everything above it (entry,
 * map, message) is sized from that. Names and the bytes around them are the same for every row and are prepared once.
 * One number under a name, which is what most features are, is written by its shape (see shape.h). */
#include "record/encode.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "base/wire.h"
#include "column/vector.h"
#include "record/shape.h"

typedef struct prepared {
    const tfos_field *field;
    tfos__feature_kind kind;
    tfos__shape shape; /* of one number; none for others */
    uint8_t *name;     /* tag, length and bytes of the key */
    size_t name_bytes;
} prepared;

struct tfos__encoder {
    tfos_schema *schema;
    tfos_record_kind kind;
    size_t count;
    prepared columns[];
};

static tfos_status prepare(prepared *column, const tfos_field *field, tfos_error *error)
{
    size_t bytes = strlen(field->name);
    column->field = field;
    column->kind = tfos__feature_kind_of(field->type);
    column->name_bytes = 1 + tfos__wire_varint_bytes(bytes) + bytes;
    column->name = malloc(column->name_bytes);
    if (column->name == NULL) {
        return tfos__fail_memory(error, column->name_bytes);
    }
    column->name[0] = TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES);
    uint8_t *text = tfos__wire_put_varint(column->name + 1, bytes);
    memcpy(text, field->name, bytes);
    if (field->shape == TFOS_SHAPE_SCALAR && !field->feature_list && column->kind != TFOS__FEATURE_BYTES) {
        tfos__shape_make(&column->shape, (tfos__wire){text, text + bytes}, column->kind);
    }
    return TFOS_OK;
}

tfos_status tfos__encoder_new(const tfos_schema *schema, tfos__encoder **out, tfos_error *error)
{
    size_t count = tfos_schema_field_count(schema);
    tfos__encoder *encoder = calloc(1, sizeof *encoder + count * sizeof encoder->columns[0]);
    if (encoder == NULL) {
        return tfos__fail_memory(error, sizeof *encoder + count * sizeof encoder->columns[0]);
    }
    encoder->schema = tfos__schema_retain(schema);
    encoder->kind = tfos_schema_kind(schema);
    for (; encoder->count < count; encoder->count++) {
        tfos_status status =
            prepare(&encoder->columns[encoder->count], tfos_schema_field(schema, encoder->count), error);
        if (status != TFOS_OK) {
            tfos__encoder_free(encoder);
            return status;
        }
    }
    *out = encoder;
    return TFOS_OK;
}

void tfos__encoder_free(tfos__encoder *encoder)
{
    if (encoder == NULL) {
        return;
    }
    for (size_t i = 0; i < encoder->count; i++) {
        free(encoder->columns[i].name);
    }
    tfos_schema_free(encoder->schema);
    free(encoder);
}

/* ---- values ---- */

/* A run of values at the innermost level. */
typedef struct run {
    const tfos_vector *values;
    int64_t first;
    int64_t count;
} run;

/* The values of row `row` at `level`, which is a list or the values themselves. */
static run run_of(const tfos_vector *level, int64_t row)
{
    switch (level->layout) {
    case TFOS_LAYOUT_LIST:
        return (run){level->child, level->offsets[row], level->offsets[row + 1] - level->offsets[row]};
    case TFOS_LAYOUT_FIXED_LIST:
        return (run){level->child, row * level->list_length, level->list_length};
    default:
        return (run){level, row, 1};
    }
}

static inline int64_t integer_at(const tfos_vector *values, int64_t index)
{
    switch (values->type) {
    case TFOS_TYPE_INT64:
        return ((const int64_t *)values->data)[index];
    case TFOS_TYPE_INT32:
        return ((const int32_t *)values->data)[index];
    default:
        return tfos__bit_get(values->data, index);
    }
}

/* Bytes of the packed or repeated values, without the tag and length of a packed run. */
static size_t size_values(const prepared *column, run values)
{
    size_t bytes = 0;
    switch (column->kind) {
    case TFOS__FEATURE_FLOAT:
        return (size_t)values.count * sizeof(float);
    case TFOS__FEATURE_INT64:
        for (int64_t i = 0; i < values.count; i++) {
            bytes += tfos__wire_varint_bytes((uint64_t)integer_at(values.values, values.first + i));
        }
        return bytes;
    default:
        for (int64_t i = 0; i < values.count; i++) {
            const int32_t *offsets = values.values->offsets + values.first + i;
            size_t length = (size_t)(offsets[1] - offsets[0]);
            bytes += 1 + tfos__wire_varint_bytes(length) + length;
        }
        return bytes;
    }
}

static uint8_t *write_floats(uint8_t *to, run values)
{
    if (values.values->type == TFOS_TYPE_FLOAT) {
        memcpy(to, (const float *)values.values->data + values.first, (size_t)values.count * sizeof(float));
    } else {
        const double *from = (const double *)values.values->data + values.first;
        for (int64_t i = 0; i < values.count; i++) {
            float value = (float)from[i];
            memcpy(to + (size_t)i * sizeof value, &value, sizeof value);
        }
    }
    return to + (size_t)values.count * sizeof(float);
}

static uint8_t *write_values(uint8_t *to, const prepared *column, run values)
{
    if (column->kind == TFOS__FEATURE_FLOAT) {
        return write_floats(to, values);
    }
    for (int64_t i = 0; i < values.count; i++) {
        if (column->kind == TFOS__FEATURE_INT64) {
            to = tfos__wire_put_varint(to, (uint64_t)integer_at(values.values, values.first + i));
            continue;
        }
        const int32_t *offsets = values.values->offsets + values.first + i;
        size_t length = (size_t)(offsets[1] - offsets[0]);
        *to++ = TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES);
        to = tfos__wire_put_varint(to, length);
        memcpy(to, (const uint8_t *)values.values->data + offsets[0], length);
        to += length;
    }
    return to;
}

/* ---- features ---- */

/* The sizes of a Feature, from the inside out. */
typedef struct feature_sizes {
    size_t values;
    size_t list;
    size_t feature;
} feature_sizes;

static feature_sizes size_feature(const prepared *column, run values)
{
    feature_sizes sizes;
    sizes.values = size_values(column, values);
    bool packed = column->kind != TFOS__FEATURE_BYTES && values.count > 0;
    sizes.list = packed ? 1 + tfos__wire_varint_bytes(sizes.values) + sizes.values : sizes.values;
    sizes.feature = 1 + tfos__wire_varint_bytes(sizes.list) + sizes.list;
    return sizes;
}

static uint8_t *write_feature(uint8_t *to, const prepared *column, run values, feature_sizes sizes)
{
    *to++ = (uint8_t)TFOS__WIRE_TAG(column->kind, TFOS__WIRE_BYTES);
    to = tfos__wire_put_varint(to, sizes.list);
    if (column->kind != TFOS__FEATURE_BYTES && values.count > 0) {
        *to++ = TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES);
        to = tfos__wire_put_varint(to, sizes.values);
    }
    return write_values(to, column, values);
}

/* Writes the head of a map entry: its own tag and length, the name, the tag and length of the value. */
static uint8_t *write_entry_head(uint8_t *to, const prepared *column, size_t value_bytes)
{
    *to++ = TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES);
    to = tfos__wire_put_varint(to, column->name_bytes + 1 + tfos__wire_varint_bytes(value_bytes) + value_bytes);
    memcpy(to, column->name, column->name_bytes);
    to += column->name_bytes;
    *to++ = TFOS__WIRE_TAG(2, TFOS__WIRE_BYTES);
    return tfos__wire_put_varint(to, value_bytes);
}

/* More than the head of any entry of this column takes. */
static size_t head_bound(const prepared *column)
{
    return column->name_bytes + 32;
}

/* An Example holds floats: a double that is too large for one would turn into infinity unseen. */
static tfos_status check_doubles(const prepared *column, run values, int64_t row, tfos_error *error)
{
    if (values.values->type != TFOS_TYPE_DOUBLE) {
        return TFOS_OK;
    }
    const double *from = (const double *)values.values->data + values.first;
    for (int64_t i = 0; i < values.count; i++) {
        if (isfinite(from[i]) && !isfinite((float)from[i])) {
            return tfos__fail(
                error, TFOS_RANGE,
                "column '%s', row %lld: the value %g does not fit the floats that a tf.train.Example holds",
                tfos__printable_text(column->field->name).text, (long long)row, from[i]);
        }
    }
    return TFOS_OK;
}

static tfos_status append_feature(const prepared *column, const tfos_vector *vector, int64_t row, tfos__buffer *out,
                                  tfos_error *error)
{
    if (tfos__vector_is_null(vector, row)) {
        return TFOS_OK;
    }
    run values = run_of(vector, row);
    TFOS_TRY(check_doubles(column, values, row, error));
    feature_sizes sizes = size_feature(column, values);
    TFOS_TRY(tfos__buffer_reserve(out, out->size + head_bound(column) + sizes.feature, error));
    uint8_t *to = write_entry_head(out->data + out->size, column, sizes.feature);
    to = write_feature(to, column, values, sizes);
    out->size = (size_t)(to - out->data);
    return TFOS_OK;
}

/* A null inside a feature list is a Feature without a kind. */
static size_t size_inner(const prepared *column, const tfos_vector *inner, int64_t row)
{
    size_t bytes = tfos__vector_is_null(inner, row) ? 0 : size_feature(column, run_of(inner, row)).feature;
    return 1 + tfos__wire_varint_bytes(bytes) + bytes;
}

static tfos_status append_feature_list(const prepared *column, const tfos_vector *vector, int64_t row,
                                       tfos__buffer *out, tfos_error *error)
{
    if (tfos__vector_is_null(vector, row)) {
        return TFOS_OK;
    }
    const tfos_vector *inner = vector->child;
    int64_t first = vector->offsets[row];
    int64_t last = vector->offsets[row + 1];
    size_t total = 0;
    for (int64_t i = first; i < last; i++) {
        TFOS_TRY(check_doubles(column, run_of(inner, i), row, error));
        total += size_inner(column, inner, i);
    }
    TFOS_TRY(tfos__buffer_reserve(out, out->size + head_bound(column) + total, error));
    uint8_t *to = write_entry_head(out->data + out->size, column, total);
    for (int64_t i = first; i < last; i++) {
        *to++ = TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES);
        if (tfos__vector_is_null(inner, i)) {
            *to++ = 0;
            continue;
        }
        run values = run_of(inner, i);
        feature_sizes sizes = size_feature(column, values);
        to = tfos__wire_put_varint(to, sizes.feature);
        to = write_feature(to, column, values, sizes);
    }
    out->size = (size_t)(to - out->data);
    return TFOS_OK;
}

/* ---- one number ---- */

/* Groups of seven bits, each in a byte of its own. Of numbers below 2^56. */
static inline uint64_t spread(uint64_t number)
{
    number = (number & UINT64_C(0x000000000FFFFFFF)) | (number & UINT64_C(0x00FFFFFFF0000000)) << 4;
    number = (number & UINT64_C(0x00003FFF00003FFF)) | (number & UINT64_C(0x0FFFC0000FFFC000)) << 2;
    return (number & UINT64_C(0x007F007F007F007F)) | (number & UINT64_C(0x3F803F803F803F80)) << 1;
}

/* Room for an entry that is written by its shape: whole blocks, and the number behind them. */
enum { SHAPED_BYTES = TFOS__SHAPE_BLOCKS * TFOS__SHAPE_BLOCK_BYTES + 8 };

static inline uint8_t *write_shaped(uint8_t *to, const tfos__shape *shape, uint64_t number, size_t bytes)
{
    tfos__shape_write(shape, bytes, to);
    memcpy(to + shape->bytes, &number, sizeof number);
    return to + shape->bytes + bytes;
}

/* Writes the feature of a row if it is one number, and none of those that are long or do not fit; else returns NULL. */
static inline uint8_t *write_number(uint8_t *to, const prepared *column, const tfos_vector *vector, int64_t row)
{
    enum { LONG_BITS = 56 };
    float real;
    uint32_t bits;
    if (column->shape.bytes == 0 || tfos__vector_is_null(vector, row)) {
        return NULL;
    }
    if (column->kind == TFOS__FEATURE_INT64) {
        uint64_t number = (uint64_t)integer_at(vector, row);
        if (number >> LONG_BITS != 0) {
            return NULL;
        }
        size_t bytes = tfos__wire_varint_bytes(number);
        uint64_t more = UINT64_C(0x8080808080808080) & ((UINT64_C(1) << (8 * (bytes - 1))) - 1);
        return write_shaped(to, &column->shape, spread(number) | more, bytes);
    }
    if (vector->type == TFOS_TYPE_FLOAT) {
        real = ((const float *)vector->data)[row];
    } else {
        double value = ((const double *)vector->data)[row];
        real = (float)value;
        if (isfinite(value) && !isfinite(real)) {
            return NULL;
        }
    }
    memcpy(&bits, &real, sizeof bits);
    return write_shaped(to, &column->shape, bits, sizeof bits);
}

/* ---- records ---- */

/* The tag and length of a message whose length is not known yet, as they usually are: lengths of 128 to 16383. */
enum { MESSAGE_HEAD_BYTES = 3, MOST_HEAD_BYTES = 6 };

/* Appends the map of the features or, with `lists`, of the feature lists, as field 1 or 2 of the record. The length is
 * written in front when it is known; where there is too much room for it, or too little, the bytes are moved: that
 * costs less than sizing every feature twice. */
static tfos_status append_map(const tfos__encoder *encoder, const tfos_batch *batch, int64_t row, bool lists,
                              tfos__buffer *out, tfos_error *error)
{
    size_t start = out->size;
    TFOS_TRY(tfos__buffer_reserve(out, start + MOST_HEAD_BYTES, error));
    out->size += MESSAGE_HEAD_BYTES;
    for (size_t i = 0; i < encoder->count; i++) {
        const prepared *column = &encoder->columns[i];
        if (column->field->feature_list == lists) {
            const tfos_vector *vector = tfos_batch_column(batch, i);
            TFOS_TRY(tfos__buffer_reserve(out, out->size + SHAPED_BYTES, error));
            uint8_t *end = write_number(out->data + out->size, column, vector, row);
            if (end != NULL) {
                out->size = (size_t)(end - out->data);
                continue;
            }
            TFOS_TRY(lists ? append_feature_list(column, vector, row, out, error)
                           : append_feature(column, vector, row, out, error));
        }
    }
    size_t bytes = out->size - start - MESSAGE_HEAD_BYTES;
    if (bytes > INT32_MAX) {
        return tfos__fail(error, TFOS_LIMIT, "row %lld would make a record of %zu bytes, the limit is %d",
                          (long long)row, bytes, INT32_MAX);
    }
    if (bytes == 0 && lists) {
        out->size = start;
        return TFOS_OK;
    }
    uint8_t head[MOST_HEAD_BYTES];
    head[0] = (uint8_t)TFOS__WIRE_TAG(lists ? 2 : 1, TFOS__WIRE_BYTES);
    size_t head_bytes = (size_t)(tfos__wire_put_varint(head + 1, bytes) - head);
    if (head_bytes != MESSAGE_HEAD_BYTES) {
        TFOS_TRY(tfos__buffer_reserve(out, start + head_bytes + bytes, error));
        memmove(out->data + start + head_bytes, out->data + start + MESSAGE_HEAD_BYTES, bytes);
    }
    memcpy(out->data + start, head, head_bytes);
    out->size = start + head_bytes + bytes;
    return TFOS_OK;
}

static tfos_status append_bytes(const tfos_batch *batch, int64_t row, tfos__buffer *out, tfos_error *error)
{
    const tfos_vector *vector = tfos_batch_column(batch, 0);
    int32_t first = vector->offsets[row];
    return tfos__buffer_append(out, (const uint8_t *)vector->data + first, (size_t)(vector->offsets[row + 1] - first),
                               error);
}

tfos_status tfos__encoder_row(const tfos__encoder *encoder, const tfos_batch *batch, int64_t row, tfos__buffer *out,
                              tfos_error *error)
{
    assert(tfos_schema_field_count(tfos_batch_schema(batch)) == encoder->count && row < tfos_batch_rows(batch));
    if (encoder->kind == TFOS_RECORD_BYTES) {
        return append_bytes(batch, row, out, error);
    }
    size_t start = out->size;
    tfos_status status = append_map(encoder, batch, row, false, out, error);
    if (status == TFOS_OK && encoder->kind == TFOS_RECORD_SEQUENCE) {
        status = append_map(encoder, batch, row, true, out, error);
    }
    if (status != TFOS_OK) {
        out->size = start;
    }
    return status;
}
