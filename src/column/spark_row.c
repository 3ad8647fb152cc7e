/* Values of Spark's UnsafeRows.
 *
 * A row, as Spark lays it out:
 *
 *   ┌ null words ──────────────┐┌ a slot of 8 bytes per column ┐┌ variable part ───────┐
 *   a bit per column, 64 a word  a value in its lowest bytes, or  strings, arrays, structs
 *                                offset << 32 | size
 *
 * An array is `count` (8 bytes), null words, then values of their own width, or offset << 32 | size counted from the
 * array. A struct inside a row is a row. A vector of Spark ML is a struct of
 *
 *   type tinyint (0 sparse, 1 dense) · size int · indices array<int> · values array<double>
 *
 * The JVM may hand over anything: every offset and size is checked against the part that it lies in. */
#include "column/spark_row.h"

#include "column/spark_decimal.h"

/* An array whose sizes have been checked. */
typedef struct array {
    tfos__spark_part part;
    size_t count;
    const uint8_t *nulls;
    const uint8_t *values;
} array;

static tfos_status fail_damaged(tfos_error *error, const char *what, uint64_t bytes, size_t there)
{
    return tfos__fail(error, TFOS_CORRUPT,
                      "the memory of Spark's row is damaged: %s of %llu bytes does not fit the %zu bytes it lies in",
                      what, (unsigned long long)bytes, there);
}

static tfos_status find_part(const tfos__spark_part *in, const uint8_t *slot, const char *what, tfos__spark_part *out,
                             tfos_error *error)
{
    uint64_t word = tfos__load_u64(slot);
    size_t offset = (size_t)(word >> 32);
    size_t bytes = (size_t)(uint32_t)word;
    if (offset > in->bytes || bytes > in->bytes - offset) {
        return fail_damaged(error, what, bytes, in->bytes > offset ? in->bytes - offset : 0);
    }
    *out = (tfos__spark_part){.at = in->at + offset, .bytes = bytes};
    return TFOS_OK;
}

static tfos_status find_array(const tfos__spark_part *in, const uint8_t *slot, size_t width, array *out,
                              tfos_error *error)
{
    TFOS_TRY(find_part(in, slot, "an array", &out->part, error));
    size_t bytes = out->part.bytes;
    uint64_t count = bytes >= 8 ? tfos__load_u64(out->part.at) : UINT64_MAX;
    if (count > bytes || 8 + tfos__spark_null_bytes((size_t)count) > bytes ||
        count * width > bytes - 8 - tfos__spark_null_bytes((size_t)count)) {
        return tfos__fail(error, TFOS_CORRUPT,
                          "the memory of Spark's row is damaged: an array of %zu bytes says that it has %llu values",
                          bytes, (unsigned long long)count);
    }
    out->count = (size_t)count;
    out->nulls = out->part.at + 8;
    out->values = out->nulls + tfos__spark_null_bytes(out->count);
    return TFOS_OK;
}

static bool has_nulls(const array *values)
{
    uint64_t any = 0;
    for (size_t i = 0; i < tfos__spark_null_bytes(values->count); i += 8) {
        any |= tfos__load_u64(values->nulls + i);
    }
    return any != 0;
}

/* ---- one value ---- */

/* The value in a slot of `in`, or in an element of an array. */
static tfos_status append_value(const tfos__spark_column *column, const tfos__spark_part *in, const uint8_t *slot,
                                tfos__vector *to, tfos_error *error)
{
    tfos__spark_part part;
    tfos__int128 unscaled;
    size_t done;
    switch (column->kind) {
    case TFOS__SPARK_BYTES:
        TFOS_TRY(find_part(in, slot, "a string", &part, error));
        return tfos__vector_push_bytes(to, part.at, part.bytes, error);
    case TFOS__SPARK_DECIMAL:
        return tfos__decimal_push(to, (int64_t)tfos__load_u64(slot), column->scale, error);
    case TFOS__SPARK_BIG_DECIMAL:
        TFOS_TRY(find_part(in, slot, "a decimal", &part, error));
        if (!tfos__decimal_read(part.at, part.bytes, &unscaled)) {
            return fail_damaged(error, "a decimal", part.bytes, sizeof unscaled);
        }
        return tfos__decimal_push(to, unscaled, column->scale, error);
    default:
        return tfos__spark_numbers_append(column, &(tfos__spark_source){.base = slot}, 1, to, &done, error);
    }
}

/* ---- lists ---- */

static tfos_status append_array(const tfos__spark_column *column, const tfos__spark_part *in, const uint8_t *slot,
                                tfos__vector *to, tfos_error *error)
{
    array values;
    TFOS_TRY(find_array(in, slot, (size_t)column->width, &values, error));
    bool nulls = has_nulls(&values);
    if (!nulls && tfos__spark_is_number(column)) {
        size_t done;
        tfos__spark_source run = {.base = values.values};
        TFOS_TRY(tfos__spark_numbers_append(column, &run, values.count, to->child, &done, error));
        return tfos__spark_list_end(column, values.count, to, error);
    }
    for (size_t i = 0; i < values.count; i++) {
        if (!nulls || !tfos__bit_get(values.nulls, (int64_t)i)) {
            const uint8_t *value = values.values + i * (size_t)column->width;
            TFOS_TRY(append_value(column, &values.part, value, to->child, error));
        } else {
            TFOS_TRY(tfos__spark_null_value_append(column, to->child, error));
        }
    }
    return tfos__spark_list_end(column, values.count, to, error);
}

static tfos_status append_arrays(const tfos__spark_column *column, const tfos__spark_part *in, const uint8_t *slot,
                                 tfos__vector *to, tfos_error *error)
{
    array lists;
    TFOS_TRY(find_array(in, slot, 8, &lists, error));
    for (size_t i = 0; i < lists.count; i++) {
        if (tfos__bit_get(lists.nulls, (int64_t)i)) {
            TFOS_TRY(tfos__spark_null_list_append(column, to->child, error));
        } else {
            TFOS_TRY(append_array(column, &lists.part, lists.values + i * 8, to->child, error));
        }
    }
    return tfos__vector_push_list(to, error);
}

/* ---- vectors of Spark ML ---- */

enum { ML_TYPE, ML_SIZE, ML_INDICES, ML_VALUES, ML_FIELDS };
/* A sparse vector takes a few bytes of a row, whatever its size: this many doubles are a GiB. */
enum { ML_MOST_SIZE = 1 << 27 };
enum { ML_SLOTS = 8, ML_BYTES = ML_SLOTS + ML_FIELDS * 8, ML_SPARSE = 0, ML_DENSE = 1 };

static tfos_status append_sparse(const tfos__spark_column *column, const tfos__spark_part *in, const array *values,
                                 tfos__vector *leaf, size_t *count, tfos_error *error)
{
    array indices;
    TFOS_TRY(find_array(in, in->at + ML_SLOTS + ML_INDICES * 8, sizeof(int32_t), &indices, error));
    int32_t length = (int32_t)tfos__load_u32(in->at + ML_SLOTS + ML_SIZE * 8);
    if (length < 0 || indices.count != values->count) {
        return tfos__fail(error, TFOS_CORRUPT, "a sparse vector of size %d has %zu indices and %zu values", (int)length,
                          indices.count, values->count);
    }
    if (length > ML_MOST_SIZE) {
        return tfos__fail(error, TFOS_LIMIT,
                          "a sparse vector has size %d, and is fed with all its zeros: the limit is %d", (int)length,
                          ML_MOST_SIZE);
    }
    size_t width = (size_t)tfos__type_width(leaf->view.type);
    TFOS_TRY(tfos__vector_reserve(leaf, leaf->view.length + tfos__max_i64(length, 1), error));
    uint8_t *out = leaf->data.data + leaf->data.size;
    memset(out, 0, (size_t)length * width);
    for (size_t i = 0; i < indices.count; i++) {
        int32_t index = (int32_t)tfos__load_u32(indices.values + i * sizeof index);
        if (index < 0 || index >= length) {
            return tfos__fail(error, TFOS_CORRUPT, "a sparse vector of size %d has a value at index %d", (int)length,
                              (int)index);
        }
        const uint8_t *value = values->values + i * (size_t)column->width;
        tfos__spark_number_convert(column, value, leaf->view.type, out + (size_t)index * width);
    }
    leaf->data.size += (size_t)length * width;
    leaf->view.length += length;
    *count = (size_t)length;
    return TFOS_OK;
}

static tfos_status append_ml(tfos__spark_column *column, const tfos__spark_part *in, const uint8_t *slot,
                             tfos__vector *to, tfos_error *error)
{
    tfos__spark_part vector;
    array values;
    TFOS_TRY(find_part(in, slot, "a vector", &vector, error));
    if (vector.bytes < ML_BYTES) {
        return fail_damaged(error, "a vector", vector.bytes, vector.bytes);
    }
    TFOS_TRY(find_array(&vector, vector.at + ML_SLOTS + ML_VALUES * 8, (size_t)column->width, &values, error));
    uint8_t type = vector.at[ML_SLOTS + ML_TYPE * 8];
    size_t count = values.count;
    if (type == ML_DENSE) {
        size_t done;
        tfos__spark_source run = {.base = values.values};
        TFOS_TRY(tfos__spark_numbers_append(column, &run, count, to->child, &done, error));
    } else if (type == ML_SPARSE) {
        TFOS_TRY(append_sparse(column, &vector, &values, to->child, &count, error));
    } else {
        return tfos__fail(error, TFOS_CORRUPT, "a Spark ML vector is sparse (0) or dense (1), found %d", type);
    }
    if (column->open && !column->shown) {
        column->shown = true;
        column->field.length = (int32_t)count;
    }
    if (column->shown && count != (size_t)column->field.length) {
        return tfos__fail(error, TFOS_MISMATCH,
                          "expected a vector of size %d, as in the rows before, found %zu: declare the shape [null] if "
                          "sizes differ",
                          (int)column->field.length, count);
    }
    return tfos__spark_list_end(column, count, to, error);
}

/* ---- columns ---- */

static tfos_status append_row(tfos__spark_column *column, const tfos__spark_part *row, const uint8_t *slot,
                              tfos__vector *to, tfos_error *error)
{
    if (column->ml) {
        return append_ml(column, row, slot, to, error);
    }
    switch (column->lists) {
    case 0:
        return append_value(column, row, slot, to, error);
    case 1:
        return append_array(column, row, slot, to, error);
    default:
        return append_arrays(column, row, slot, to, error);
    }
}

tfos_status tfos__spark_column_append(tfos__spark_column *column, size_t ordinal, size_t fields,
                                      const tfos__spark_part *rows, size_t count, bool nulls, int64_t first,
                                      tfos__vector *to, tfos_error *error)
{
    size_t slot = tfos__spark_null_bytes(fields) + ordinal * 8;
    if (!nulls && column->lists == 0 && tfos__spark_is_number(column)) {
        size_t done = 0;
        tfos_status status = tfos__spark_numbers_append(column, &(tfos__spark_source){.rows = rows, .slot = slot},
                                                        count, to, &done, error);
        return status == TFOS_OK ? TFOS_OK : tfos__spark_fail_at(column, first + (int64_t)done, status, error);
    }
    for (size_t i = 0; i < count; i++) {
        bool null = nulls && tfos__bit_get(rows[i].at, (int64_t)ordinal);
        tfos_status status = null ? tfos__spark_null_append(column, to, error)
                                  : append_row(column, &rows[i], rows[i].at + slot, to, error);
        if (status != TFOS_OK) {
            return tfos__spark_fail_at(column, first + (int64_t)i, status, error);
        }
    }
    return TFOS_OK;
}
