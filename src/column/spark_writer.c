/* Batches to Spark's rows; spark_row.c draws what a row looks like.
 *
 * All rows of a batch are written to one block, which grows: places in it are kept as offsets. A row is begun with its
 * null words and slots, and what lies elsewhere in it (strings, arrays) follows as it comes, at multiples of 8. */
#include <stdlib.h>

#include "column/spark_row.h"
#include "column/spark_target.h"

enum { SIZE_BYTES = 8, WORD_BYTES = 8 };

struct tfos_spark_writer {
    tfos__spark_targets targets;
    tfos__buffer block;
};

/* Values of the innermost level of a column. */
typedef struct values {
    const tfos__spark_target *target;
    const tfos_vector *vector;
} values;

tfos_status tfos_spark_writer_new(const char *schema, size_t bytes, tfos_spark_writer **out, tfos_error *error)
{
    tfos_spark_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL) {
        return tfos__fail_memory(error, sizeof *writer);
    }
    tfos_status status = tfos__spark_targets_parse(schema, bytes, &writer->targets, error);
    if (status != TFOS_OK) {
        free(writer);
        return status;
    }
    *out = writer;
    return TFOS_OK;
}

void tfos_spark_writer_free(tfos_spark_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    tfos__spark_targets_reset(&writer->targets);
    tfos__buffer_reset(&writer->block);
    free(writer);
}

/* ---- the block ---- */

/* Adds so many bytes of zero, and as many more as are missing to a multiple of 8. */
static tfos_status add_zeros(tfos__buffer *block, size_t bytes, tfos_error *error)
{
    bytes = (bytes + WORD_BYTES - 1) / WORD_BYTES * WORD_BYTES;
    TFOS_TRY(tfos__buffer_reserve(block, block->size + bytes, error));
    memset(block->data + block->size, 0, bytes);
    block->size += bytes;
    return TFOS_OK;
}

/* Lets the slot at `slot` say where something lies that ends with the block; offsets are counted from `base`. */
static tfos_status point(tfos__buffer *block, size_t base, size_t slot, size_t start, size_t bytes, tfos_error *error)
{
    if (start - base > INT32_MAX || bytes > INT32_MAX) {
        return tfos__fail(error, TFOS_LIMIT, "a row of Spark's has at most 2^31 bytes, found more");
    }
    tfos__store_u64(block->data + slot, (uint64_t)(start - base) << 32 | bytes);
    return TFOS_OK;
}

/* ---- numbers ---- */

static int64_t load_whole(const values *from, int64_t index)
{
    switch (from->target->leaf) {
#define LOAD(name, type, code, text)                                                                                   \
    case TFOS__LEAF_##name: {                                                                                          \
        type value;                                                                                                    \
        memcpy(&value, (const uint8_t *)from->vector->data + (size_t)index * sizeof value, sizeof value);              \
        return (int64_t)value;                                                                                         \
    }
        TFOS__SPARK_WHOLE_MAP(LOAD)
#undef LOAD
    default:
        return 0;
    }
}

static double load_real(const values *from, int64_t index)
{
    const uint8_t *data = from->vector->data;
    uint16_t half;
    float single;
    double value;
    switch (from->target->leaf) {
    case TFOS__LEAF_HALF:
        memcpy(&half, data + (size_t)index * sizeof half, sizeof half);
        return (double)tfos__half_to_float(half);
    case TFOS__LEAF_FLOAT:
        memcpy(&single, data + (size_t)index * sizeof single, sizeof single);
        return (double)single;
    default:
        memcpy(&value, data + (size_t)index * sizeof value, sizeof value);
        return value;
    }
}

static void store_real(tfos__spark_kind kind, double value, uint8_t *out)
{
    float single = (float)value;
    if (kind == TFOS__SPARK_FLOAT) {
        memcpy(out, &single, sizeof single);
    } else {
        memcpy(out, &value, sizeof value);
    }
}

static tfos_status put_whole(const values *from, int64_t index, uint8_t *out, tfos_error *error)
{
    const tfos__spark_target *target = from->target;
    int64_t value = load_whole(from, index);
    bool beyond = value < 0 && (target->leaf == TFOS__LEAF_ULONG || target->leaf == TFOS__LEAF_UINT64);
    if (target->kind == TFOS__SPARK_FLOAT || target->kind == TFOS__SPARK_DOUBLE) {
        store_real(target->kind, beyond ? (double)(uint64_t)value : (double)value, out);
        return TFOS_OK;
    }
    int spare = 64 - target->width * 8;
    if (beyond || value != (int64_t)((uint64_t)value << spare) >> spare) {
        return tfos__fail(error, TFOS_RANGE,
                          beyond ? "the value %llu does not fit %s" : "the value %lld does not fit %s",
                          (long long)value, target->type);
    }
    memcpy(out, &value, (size_t)target->width);
    return TFOS_OK;
}

/* A number at `out`, which has room for 8 bytes. */
static tfos_status put_number(const values *from, int64_t index, uint8_t *out, tfos_error *error)
{
    if (from->target->leaf == TFOS__LEAF_BOOL) {
        *out = tfos__bit_get(from->vector->data, index);
        return TFOS_OK;
    }
    if (from->target->leaf <= TFOS__LEAF_UINT64) {
        return put_whole(from, index, out, error);
    }
    store_real(from->target->kind, load_real(from, index), out);
    return TFOS_OK;
}

/* Whether values lie in the batch as they do in an array of Spark's. */
static bool lies_the_same(const tfos__spark_target *target)
{
    switch (target->kind) {
    case TFOS__SPARK_INT:
        return target->leaf == TFOS__LEAF_INT32;
    case TFOS__SPARK_LONG:
        return target->leaf == TFOS__LEAF_INT64;
    case TFOS__SPARK_FLOAT:
        return target->leaf == TFOS__LEAF_FLOAT;
    case TFOS__SPARK_DOUBLE:
        return target->leaf == TFOS__LEAF_DOUBLE;
    default:
        return false;
    }
}

/* ---- values ---- */

static tfos_status put_bytes(tfos__buffer *block, const values *from, int64_t index, size_t base, size_t slot,
                             tfos_error *error)
{
    const int32_t *offsets = from->vector->offsets;
    size_t bytes = (size_t)(offsets[index + 1] - offsets[index]);
    const uint8_t *data = bytes > 0 ? (const uint8_t *)from->vector->data + offsets[index] : NULL;
    size_t start = block->size;
    size_t valid = from->target->text && from->target->leaf == TFOS__LEAF_BINARY && bytes > 0
                       ? tfos__utf8_valid_prefix(data, bytes)
                       : bytes;
    if (valid < bytes) {
        return tfos__fail(error, TFOS_ENCODING,
                          "expected a string, found bytes that are no UTF-8 (at byte %zu of '%s'): declare binary",
                          valid, tfos__printable_of(data, bytes).text);
    }
    TFOS_TRY(add_zeros(block, bytes, error));
    if (bytes > 0) {
        memcpy(block->data + start, data, bytes);
    }
    return point(block, base, slot, start, bytes, error);
}

static tfos_status put_value(tfos__buffer *block, const values *from, int64_t index, size_t base, size_t slot,
                             tfos_error *error)
{
    if (from->target->kind == TFOS__SPARK_BYTES) {
        return put_bytes(block, from, index, base, slot, error);
    }
    uint8_t word[WORD_BYTES] = {0};
    TFOS_TRY(put_number(from, index, word, error));
    memcpy(block->data + slot, word, (size_t)from->target->width);
    return TFOS_OK;
}

static tfos_status fail_missing(tfos_error *error, const tfos__spark_target *target)
{
    return tfos__fail(error, TFOS_MISMATCH, "expected %s, which is declared to be NOT NULL, found None", target->type);
}

/* Begins an array at *start; its values are at *first. */
static tfos_status begin_array(tfos__buffer *block, int64_t count, size_t width, size_t *start, size_t *first,
                               tfos_error *error)
{
    size_t nulls = tfos__spark_null_bytes((size_t)count);
    *start = block->size;
    *first = *start + WORD_BYTES + nulls;
    TFOS_TRY(add_zeros(block, WORD_BYTES + nulls + (size_t)count * width, error));
    tfos__store_u64(block->data + *start, (uint64_t)count);
    return TFOS_OK;
}

static tfos_status put_array(tfos__buffer *block, const values *from, int64_t begin, int64_t end, size_t base,
                             size_t slot, tfos_error *error)
{
    const tfos__spark_target *target = from->target;
    size_t width = (size_t)target->width;
    size_t start, first;
    TFOS_TRY(begin_array(block, end - begin, width, &start, &first, error));
    if (lies_the_same(target) && from->vector->validity == NULL) {
        if (end > begin) {
            memcpy(block->data + first, (const uint8_t *)from->vector->data + (size_t)begin * width,
                   (size_t)(end - begin) * width);
        }
    } else {
        for (int64_t i = begin; i < end; i++) {
            if (!tfos__vector_is_null(from->vector, i)) {
                TFOS_TRY(put_value(block, from, i, start, first + (size_t)(i - begin) * width, error));
            } else {
                tfos__bit_set(block->data + start + WORD_BYTES, i - begin);
            }
        }
    }
    return point(block, base, slot, start, block->size - start, error);
}

/* ---- columns ---- */

/* Which values of the level below, or of the bytes of numbers, belong to a row. */
static void look_up(const tfos__spark_target *target, const tfos_vector *vector, int64_t row, int64_t *begin,
                    int64_t *end)
{
    if (vector->layout == TFOS_LAYOUT_FIXED_LIST) {
        *begin = row * vector->list_length;
        *end = *begin + vector->list_length;
        return;
    }
    int32_t unit = target->raw_bytes > 0 ? (int32_t)target->raw_bytes : 1;
    *begin = vector->offsets[row] / unit;
    *end = vector->offsets[row + 1] / unit;
}

static tfos_status put_arrays(tfos__buffer *block, const tfos__spark_target *target, const tfos_vector *vector,
                              int64_t row, size_t base, size_t slot, tfos_error *error)
{
    int64_t begin, end;
    size_t start, first;
    look_up(target, vector, row, &begin, &end);
    int64_t count = target->split > 0 ? target->split : target->nested == 2 ? end - begin : 0;
    TFOS_TRY(begin_array(block, count, WORD_BYTES, &start, &first, error));
    for (int64_t i = 0; i < count; i++) {
        size_t inner = first + (size_t)i * WORD_BYTES;
        int64_t length = (end - begin) / count;
        if (target->split > 0) {
            const values from = {.target = target, .vector = target->raw_bytes > 0 ? vector : vector->child};
            TFOS_TRY(put_array(block, &from, begin + i * length, begin + (i + 1) * length, start, inner, error));
            continue;
        }
        int64_t inner_begin, inner_end;
        const values from = {.target = target, .vector = vector->child->child};
        look_up(target, vector->child, begin + i, &inner_begin, &inner_end);
        TFOS_TRY(put_array(block, &from, inner_begin, inner_end, start, inner, error));
    }
    return point(block, base, slot, start, block->size - start, error);
}

static tfos_status put_column(tfos__buffer *block, const tfos__spark_target *target, const tfos_vector *vector,
                              int64_t row, size_t base, size_t slot, tfos_error *error)
{
    int64_t begin = row;
    int64_t end = row;
    if (target->lists == 2) {
        return put_arrays(block, target, vector, row, base, slot, error);
    }
    if (target->nested > 0 || target->raw_bytes > 0) {
        look_up(target, vector, row, &begin, &end);
    }
    const values from = {.target = target,
                         .vector = target->raw_bytes > 0 || target->nested == 0 ? vector : vector->child};
    if (target->lists == 1) {
        return put_array(block, &from, begin, end, base, slot, error);
    }
    return put_value(block, &from, begin, base, slot, error);
}

static tfos_status put_row(tfos_spark_writer *writer, const tfos_batch *batch, int64_t row, tfos_error *error)
{
    tfos__buffer *block = &writer->block;
    size_t count = writer->targets.count;
    size_t nulls = tfos__spark_null_bytes(count);
    size_t start = block->size;
    size_t base = start + SIZE_BYTES;
    TFOS_TRY(add_zeros(block, SIZE_BYTES + nulls + count * WORD_BYTES, error));
    for (size_t i = 0; i < count; i++) {
        const tfos__spark_target *target = &writer->targets.at[i];
        const tfos_vector *vector = tfos_batch_column(batch, target->column);
        tfos_status status = TFOS_OK;
        if (!tfos__vector_is_null(vector, row)) {
            status = put_column(block, target, vector, row, base, base + nulls + i * WORD_BYTES, error);
        } else if (target->nullable) {
            tfos__bit_set(block->data + base, (int64_t)i);
        } else {
            status = fail_missing(error, target);
        }
        if (status != TFOS_OK) {
            tfos__error_prefix(error, "column '%s'", tfos__printable_text(target->name).text);
            return status;
        }
    }
    tfos__store_u64(block->data + start, block->size - base);
    return TFOS_OK;
}

tfos_status tfos_spark_writer_write(tfos_spark_writer *writer, const tfos_batch *batch, int64_t first,
                                    const void **block, size_t *bytes, tfos_error *error)
{
    writer->block.size = 0;
    tfos_status status = tfos__spark_targets_bind(&writer->targets, tfos_batch_schema(batch), error);
    int64_t row = 0;
    for (; status == TFOS_OK && row < tfos_batch_rows(batch); row++) {
        status = put_row(writer, batch, row, error);
    }
    if (status != TFOS_OK) {
        tfos__error_prefix(error, "result %lld", (long long)(first + (row > 0 ? row - 1 : 0)));
        return status;
    }
    *block = writer->block.data;
    *bytes = writer->block.size;
    return TFOS_OK;
}
