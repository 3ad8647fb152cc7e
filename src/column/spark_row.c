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
 * The JVM may hand over anything: every offset and size is checked against the part that it lies in. Values are loaded
 * by memcpy, so nothing need be aligned. */
#include "column/spark_row.h"

#include <stdlib.h>

#include "column/spark_decimal.h"

/* Where values lie: in the same slot of many rows, or one behind the other. */
typedef struct source {
    const tfos__spark_part *rows; /* NULL: one behind the other */
    const uint8_t *base;
    size_t step; /* bytes from one to the next; the place of the slot in each row */
} source;

/* An array whose sizes have been checked. */
typedef struct array {
    tfos__spark_part part;
    size_t count;
    const uint8_t *nulls;
    const uint8_t *values;
} array;

static inline const uint8_t *place(const source *from, size_t index)
{
    return from->rows != NULL ? from->rows[index].at + from->step : from->base + index * from->step;
}

static tfos_status fail_damaged(tfos_error *error, const char *what, uint64_t bytes, size_t there)
{
    return tfos__fail(error, TFOS_CORRUPT,
                      "the memory of Spark's row is damaged: %s of %llu bytes does not fit the %zu bytes it lies in",
                      what, (unsigned long long)bytes, there);
}

static tfos_status fail_null(tfos_error *error, const char *what)
{
    return tfos__fail(error, TFOS_MISMATCH,
                      "%s is null: declare a default for the column, or leave such rows out (df.dropna, df.filter)",
                      what);
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

/* ---- numbers ---- */

/* Pairs of a kind of Spark's and a type of ours, as one number for a switch. */
#define PAIR(kind, type) ((int)(kind)*16 + (int)(type))

#define CONVERT(kind, from_type, type, to_type)                                                                        \
    case PAIR(TFOS__SPARK_##kind, TFOS_TYPE_##type):                                                                   \
        for (size_t i = 0; i < count; i++) {                                                                           \
            from_type value;                                                                                           \
            memcpy(&value, place(from, i), sizeof value);                                                              \
            ((to_type *)out)[i] = (to_type)value;                                                                      \
        }                                                                                                              \
        return;

#define CONVERT_TO_ALL(kind, from_type)                                                                                \
    CONVERT(kind, from_type, INT32, int32_t)                                                                           \
    CONVERT(kind, from_type, INT64, int64_t)                                                                           \
    CONVERT(kind, from_type, FLOAT, float)                                                                             \
    CONVERT(kind, from_type, DOUBLE, double)

/* Inlined for either form of a source, so that each loop is as simple as it looks. Pairs that no column has come from
 * the table; LONG to INT32 is checked before. */
static inline __attribute__((always_inline)) void convert(int pair, const source *from, size_t count, void *out)
{
    switch (pair) {
        TFOS__SPARK_NUMBER_MAP(CONVERT_TO_ALL)
        CONVERT_TO_ALL(BOOLEAN, uint8_t)
    default:
        return;
    }
}

static __attribute__((noinline)) void convert_slots(int pair, const source *from, size_t count, void *out)
{
    const source slots = {.rows = from->rows, .step = from->step};
    if (slots.rows != NULL) {
        convert(pair, &slots, count, out);
    }
}

/* What lies one behind the other and keeps its type is one copy. */
static bool keeps_type(int pair)
{
    return pair == PAIR(TFOS__SPARK_INT, TFOS_TYPE_INT32) || pair == PAIR(TFOS__SPARK_LONG, TFOS_TYPE_INT64) ||
           pair == PAIR(TFOS__SPARK_FLOAT, TFOS_TYPE_FLOAT) || pair == PAIR(TFOS__SPARK_DOUBLE, TFOS_TYPE_DOUBLE);
}

static __attribute__((noinline)) void convert_run(int pair, const source *from, size_t count, void *out)
{
    if (keeps_type(pair) && from->step != 0) { /* 0: the same value again and again */
        memcpy(out, from->base, count * from->step);
        return;
    }
    const source run = {.base = from->base, .step = from->step};
    convert(pair, &run, count, out);
}

static void convert_bits(const source *from, size_t count, int64_t first, uint8_t *bits)
{
    for (size_t i = 0; i < count; i++) {
        int64_t at = first + (int64_t)i;
        if ((at & 7) == 0) {
            bits[at >> 3] = 0;
        }
        bits[at >> 3] = (uint8_t)(bits[at >> 3] | (unsigned)(*place(from, i) != 0) << (at & 7));
    }
}

/* How many values at the beginning fit; only a LONG may not. */
static size_t fitting(const tfos__spark_column *column, const source *from, size_t count)
{
    if (column->kind != TFOS__SPARK_LONG || column->field.type != TFOS_TYPE_INT32) {
        return count;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t value = (int64_t)tfos__load_u64(place(from, i));
        if (value != (int32_t)value) {
            return i;
        }
    }
    return count;
}

/* Appends numbers; *done is how many of them, also when one does not fit. */
static tfos_status append_numbers(const tfos__spark_column *column, const source *from, size_t count, tfos__vector *to,
                                  size_t *done, tfos_error *error)
{
    tfos_type type = to->view.type;
    int64_t first = to->view.length;
    size_t fit = fitting(column, from, count);
    *done = fit;
    if (count == 0) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__vector_reserve(to, first + (int64_t)count, error));
    if (type == TFOS_TYPE_BOOL) {
        convert_bits(from, fit, first, to->data.data);
        to->data.size = tfos__bitmap_bytes(first + (int64_t)fit);
    } else {
        size_t width = (size_t)tfos__type_width(type);
        void *out = to->data.data + (size_t)first * width;
        if (from->rows != NULL) {
            convert_slots(PAIR(column->kind, type), from, fit, out);
        } else {
            convert_run(PAIR(column->kind, type), from, fit, out);
        }
        to->data.size = ((size_t)first + fit) * width;
    }
    to->view.length = first + (int64_t)fit;
    if (fit < count) {
        return tfos__fail(error, TFOS_RANGE, "the value %lld does not fit int32: leave the cast away",
                          (long long)tfos__load_u64(place(from, fit)));
    }
    return TFOS_OK;
}

/* ---- one value ---- */

static bool is_number(const tfos__spark_column *column)
{
    return column->kind <= TFOS__SPARK_BOOLEAN;
}

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
        return append_numbers(column, &(source){.base = slot}, 1, to, &done, error);
    }
}

static tfos_status append_default(const tfos__spark_column *column, int64_t index, tfos__vector *to, tfos_error *error)
{
    const tfos__vector *from = column->defaults;
    if (to->view.layout == TFOS_LAYOUT_BYTES) {
        const int32_t *offsets = (const int32_t *)(const void *)from->offsets.data;
        size_t count = (size_t)(offsets[index + 1] - offsets[index]);
        return tfos__vector_push_bytes(to, count == 0 ? NULL : from->data.data + offsets[index], count, error);
    }
    if (to->view.type == TFOS_TYPE_BOOL) {
        return tfos__vector_push_int(to, tfos__bit_get(from->data.data, index), error);
    }
    size_t width = (size_t)tfos__type_width(to->view.type);
    TFOS_TRY(tfos__vector_reserve(to, to->view.length + 1, error));
    memcpy(to->data.data + to->data.size, from->data.data + (size_t)index * width, width);
    to->data.size += width;
    to->view.length++;
    return TFOS_OK;
}

/* ---- lists ---- */

/* Ends a list of `found` values, which is the length that all of them have or must have. */
static tfos_status end_list(const tfos__spark_column *column, size_t found, tfos__vector *to, tfos_error *error)
{
    if (column->field.shape == TFOS_SHAPE_FIXED && found != (size_t)column->field.length) {
        return tfos__fail(error, TFOS_MISMATCH,
                          "expected a list of %d values, %s, found %zu: declare the shape [%s] if "
                          "lengths differ",
                          (int)column->field.length, column->shown ? "as in the rows before" : "as declared", found,
                          column->lists > 1 ? "null, null" : "null");
    }
    return tfos__vector_push_list(to, error);
}

/* A list that is null, or missing from a list of lists. */
static tfos_status append_null_list(const tfos__spark_column *column, tfos__vector *to, tfos_error *error)
{
    if (column->defaults == NULL) {
        return fail_null(error, "the list");
    }
    int64_t count = column->defaults->view.length;
    if (!column->default_list) {
        if (column->open && !column->shown) {
            return tfos__fail(error, TFOS_MISMATCH,
                              "the list is null, and its length is not known: declare the shape of the column, or a "
                              "list as its default");
        }
        count = column->field.length;
    }
    for (int64_t i = 0; i < count; i++) {
        TFOS_TRY(append_default(column, column->default_list ? i : 0, to->child, error));
    }
    return end_list(column, (size_t)count, to, error);
}

static tfos_status append_array(const tfos__spark_column *column, const tfos__spark_part *in, const uint8_t *slot,
                                tfos__vector *to, tfos_error *error)
{
    array values;
    TFOS_TRY(find_array(in, slot, (size_t)column->width, &values, error));
    bool nulls = has_nulls(&values);
    if (!nulls && is_number(column)) {
        size_t done;
        source run = {.base = values.values, .step = (size_t)column->width};
        TFOS_TRY(append_numbers(column, &run, values.count, to->child, &done, error));
        return end_list(column, values.count, to, error);
    }
    for (size_t i = 0; i < values.count; i++) {
        if (!nulls || !tfos__bit_get(values.nulls, (int64_t)i)) {
            const uint8_t *value = values.values + i * (size_t)column->width;
            TFOS_TRY(append_value(column, &values.part, value, to->child, error));
        } else if (column->defaults == NULL || column->default_list) {
            return fail_null(error, "a value of the list");
        } else {
            TFOS_TRY(append_default(column, 0, to->child, error));
        }
    }
    return end_list(column, values.count, to, error);
}

static tfos_status append_arrays(const tfos__spark_column *column, const tfos__spark_part *in, const uint8_t *slot,
                                 tfos__vector *to, tfos_error *error)
{
    array lists;
    TFOS_TRY(find_array(in, slot, 8, &lists, error));
    for (size_t i = 0; i < lists.count; i++) {
        if (tfos__bit_get(lists.nulls, (int64_t)i)) {
            TFOS_TRY(append_null_list(column, to->child, error));
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
        source one = {.base = values->values + i * (size_t)column->width};
        convert_run(PAIR(column->kind, leaf->view.type), &one, 1, out + (size_t)index * width);
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
        source run = {.base = values.values, .step = (size_t)column->width};
        TFOS_TRY(append_numbers(column, &run, count, to->child, &done, error));
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
    return end_list(column, count, to, error);
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

static tfos_status append_null_row(const tfos__spark_column *column, tfos__vector *to, tfos_error *error)
{
    if (column->lists == 1) {
        return append_null_list(column, to, error);
    }
    if (column->defaults == NULL) {
        return fail_null(error, column->lists == 0 ? "the value" : "the list");
    }
    return column->lists == 0 ? append_default(column, 0, to, error) : tfos__vector_push_list(to, error);
}

static tfos_status prefix(const tfos__spark_column *column, int64_t row, tfos_status status, tfos_error *error)
{
    tfos__error_prefix(error, "column '%s', row %lld of the partition",
                       tfos__printable_of(column->field.name, strlen(column->field.name)).text, (long long)row);
    return status;
}

tfos_status tfos__spark_column_append(tfos__spark_column *column, size_t ordinal, size_t fields,
                                      const tfos__spark_part *rows, size_t count, bool nulls, int64_t first,
                                      tfos__vector *to, tfos_error *error)
{
    size_t slot = tfos__spark_null_bytes(fields) + ordinal * 8;
    if (!nulls && column->lists == 0 && is_number(column)) {
        size_t done = 0;
        tfos_status status = append_numbers(column, &(source){.rows = rows, .step = slot}, count, to, &done, error);
        return status == TFOS_OK ? TFOS_OK : prefix(column, first + (int64_t)done, status, error);
    }
    for (size_t i = 0; i < count; i++) {
        bool null = nulls && tfos__bit_get(rows[i].at, (int64_t)ordinal);
        tfos_status status =
            null ? append_null_row(column, to, error) : append_row(column, &rows[i], rows[i].at + slot, to, error);
        if (status != TFOS_OK) {
            return prefix(column, first + (int64_t)i, status, error);
        }
    }
    return TFOS_OK;
}
