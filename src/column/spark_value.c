/* Values of Spark: conversion of numbers, defaults in the place of nulls, lengths of lists. Values are loaded by
 * memcpy, so nothing need be aligned. */
#include "column/spark_value.h"

/* ---- numbers ---- */

static inline const uint8_t *place(const tfos__spark_source *from, size_t index, size_t width)
{
    return from->rows != NULL ? from->rows[index].at + from->slot : from->base + index * width;
}

/* Pairs of a kind of Spark's and a type of ours, as one number for a switch. */
#define PAIR(kind, type) ((int)(kind)*16 + (int)(type))

#define CONVERT(kind, from_type, type, to_type)                                                                        \
    case PAIR(TFOS__SPARK_##kind, TFOS_TYPE_##type):                                                                   \
        for (size_t i = 0; i < count; i++) {                                                                           \
            from_type value;                                                                                           \
            memcpy(&value, place(from, i, sizeof value), sizeof value);                                                \
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
static inline __attribute__((always_inline)) void convert(int pair, const tfos__spark_source *from, size_t count,
                                                          void *out)
{
    switch (pair) {
        TFOS__SPARK_NUMBER_MAP(CONVERT_TO_ALL)
        CONVERT_TO_ALL(BOOLEAN, uint8_t)
    default:
        return;
    }
}

static __attribute__((noinline)) void convert_slots(int pair, const tfos__spark_source *from, size_t count, void *out)
{
    const tfos__spark_source slots = {.rows = from->rows, .slot = from->slot};
    if (slots.rows != NULL) {
        convert(pair, &slots, count, out);
    }
}

/* Most numbers stay what they are: those are copied at once. */
static __attribute__((noinline)) void convert_run(int pair, const uint8_t *base, size_t count, void *out)
{
    const tfos__spark_source run = {.base = base};
    switch (pair) {
    case PAIR(TFOS__SPARK_INT, TFOS_TYPE_INT32):
    case PAIR(TFOS__SPARK_FLOAT, TFOS_TYPE_FLOAT):
        memcpy(out, base, count * 4);
        return;
    case PAIR(TFOS__SPARK_LONG, TFOS_TYPE_INT64):
    case PAIR(TFOS__SPARK_DOUBLE, TFOS_TYPE_DOUBLE):
        memcpy(out, base, count * 8);
        return;
    default:
        convert(pair, &run, count, out);
    }
}

void tfos__spark_number_convert(const tfos__spark_column *column, const uint8_t *from, tfos_type type, void *to)
{
    convert_run(PAIR(column->kind, type), from, 1, to);
}

static void convert_bits(const tfos__spark_source *from, size_t count, int64_t first, uint8_t *bits)
{
    for (size_t i = 0; i < count; i++) {
        int64_t at = first + (int64_t)i;
        if ((at & 7) == 0) {
            bits[at >> 3] = 0;
        }
        bits[at >> 3] = (uint8_t)(bits[at >> 3] | (unsigned)(*place(from, i, 1) != 0) << (at & 7));
    }
}

/* How many values at the beginning fit; only a LONG may not. */
static size_t fitting(const tfos__spark_column *column, const tfos__spark_source *from, size_t count)
{
    if (column->kind != TFOS__SPARK_LONG || column->field.type != TFOS_TYPE_INT32) {
        return count;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t value = (int64_t)tfos__load_u64(place(from, i, sizeof value));
        if (value != (int32_t)value) {
            return i;
        }
    }
    return count;
}

tfos_status tfos__spark_numbers_append(const tfos__spark_column *column, const tfos__spark_source *from, size_t count,
                                       tfos__vector *to, size_t *done, tfos_error *error)
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
            convert_run(PAIR(column->kind, type), from->base, fit, out);
        }
        to->data.size = ((size_t)first + fit) * width;
    }
    to->view.length = first + (int64_t)fit;
    if (fit < count) {
        return tfos__fail(error, TFOS_RANGE, "the value %lld does not fit int32: leave the cast away",
                          (long long)tfos__load_u64(place(from, fit, 8)));
    }
    return TFOS_OK;
}

/* ---- nulls ---- */

static tfos_status fail_null(const tfos__spark_column *column, const char *what, tfos_error *error)
{
    return tfos__fail(error, TFOS_MISMATCH, "%s is null: %s", what,
                      column->field.nullable
                          ? "a feature has no place for that: replace or remove it in Spark (transform, filter)"
                          : "declare a default for the column, or leave such rows out (df.dropna, df.filter)");
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

tfos_status tfos__spark_null_value_append(const tfos__spark_column *column, tfos__vector *to, tfos_error *error)
{
    if (column->defaults == NULL || column->default_list) {
        return fail_null(column, "a value of the list", error);
    }
    return append_default(column, 0, to, error);
}

tfos_status tfos__spark_null_list_append(const tfos__spark_column *column, tfos__vector *to, tfos_error *error)
{
    if (column->field.nullable && column->lists > 1) {
        return tfos__vector_push_null(to, error); /* in a feature list: a feature without a kind */
    }
    if (column->defaults == NULL) {
        return fail_null(column, "the list", error);
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
    return tfos__spark_list_end(column, (size_t)count, to, error);
}

tfos_status tfos__spark_null_append(const tfos__spark_column *column, tfos__vector *to, tfos_error *error)
{
    if (column->field.nullable) {
        return tfos__vector_push_null(to, error);
    }
    if (column->lists == 1) {
        return tfos__spark_null_list_append(column, to, error);
    }
    if (column->defaults == NULL) {
        return fail_null(column, column->lists == 0 ? "the value" : "the list", error);
    }
    return column->lists == 0 ? append_default(column, 0, to, error) : tfos__vector_push_list(to, error);
}

/* ---- lists ---- */

tfos_status tfos__spark_list_end(const tfos__spark_column *column, size_t found, tfos__vector *to, tfos_error *error)
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

/* ---- messages ---- */

tfos_status tfos__spark_fail_at(const tfos__spark_column *column, int64_t row, tfos_status status, tfos_error *error)
{
    tfos__error_prefix(error, "column '%s', row %lld of the partition", tfos__printable_text(column->field.name).text,
                       (long long)row);
    return status;
}
