/* Batches of random columns. */
#include "helper_batches.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "helper_records.h"

tfos_schema *helper_random_schema(uint64_t *random, size_t most)
{
    tfos_schema *schema = NULL;
    assert_int_equal(tfos_schema_new(TFOS_RECORD_SEQUENCE, &schema, NULL), TFOS_OK);
    size_t columns = helper_random(random) % (most + 1);
    for (size_t i = 0; i < columns; i++) {
        char name[32];
        snprintf(name, sizeof name, "c%zu", i);
        tfos_field field = {.name = name,
                            .type = (tfos_type)(helper_random(random) % (TFOS_TYPE_BINARY + 1)),
                            .shape = (tfos_shape)(helper_random(random) % 3),
                            .nullable = helper_random(random) % 2,
                            .feature_list = helper_random(random) % 4 == 0};
        if (field.shape == TFOS_SHAPE_FIXED) {
            field.length = (int32_t)(helper_random(random) % 6);
        }
        assert_int_equal(tfos_schema_add(schema, &field, NULL), TFOS_OK);
    }
    return schema;
}

/* One more row at this level. */
static void push_random(tfos__vector *vector, uint64_t *random)
{
    uint64_t value = helper_random(random);
    switch (vector->view.layout) {
    case TFOS_LAYOUT_BYTES:
        assert_int_equal(tfos__vector_push_bytes(vector, "abcdefghijklmnopqrstuvwxyz", value % 27, NULL), TFOS_OK);
        return;
    case TFOS_LAYOUT_VALUES:
        if (vector->view.type == TFOS_TYPE_BOOL) {
            value &= 1;
        } else if (vector->view.type == TFOS_TYPE_INT32) {
            value &= INT32_MAX;
        }
        assert_int_equal(tfos__vector_push_int(vector, (int64_t)value, NULL), TFOS_OK);
        return;
    case TFOS_LAYOUT_LIST:
    case TFOS_LAYOUT_FIXED_LIST: {
        int64_t count = vector->view.layout == TFOS_LAYOUT_LIST ? (int64_t)(value % 5) : vector->view.list_length;
        for (int64_t i = 0; i < count; i++) {
            push_random(vector->child, random);
        }
        assert_int_equal(tfos__vector_push_list(vector, NULL), TFOS_OK);
        return;
    }
    }
}

tfos_batch *helper_random_batch(const tfos_schema *schema, uint64_t *random, int64_t rows)
{
    tfos_batch *batch = NULL;
    assert_int_equal(tfos__batch_new(schema, &batch, NULL), TFOS_OK);
    for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
        uint64_t nulls = tfos_schema_field(schema, i)->nullable ? helper_random(random) % 3 : 0;
        for (int64_t row = 0; row < rows; row++) {
            if (nulls > 0 && helper_random(random) % (nulls == 1 ? 20 : 2) == 0) {
                assert_int_equal(tfos__vector_push_null(tfos__batch_vector(batch, i), NULL), TFOS_OK);
            } else {
                push_random(tfos__batch_vector(batch, i), random);
            }
        }
    }
    assert_int_equal(tfos__batch_finish(batch, rows, NULL), TFOS_OK);
    return batch;
}

static void expect_same_value(const tfos_vector *found, int64_t at, const tfos_vector *expected, int64_t expected_at)
{
    int width = tfos__type_width(expected->type);
    if (width == 0) {
        assert_int_equal(tfos__bit_get(found->data, at), tfos__bit_get(expected->data, expected_at));
    } else {
        size_t bytes = (size_t)width;
        assert_memory_equal((const uint8_t *)found->data + (size_t)at * bytes,
                            (const uint8_t *)expected->data + (size_t)expected_at * bytes, bytes);
    }
}

/* The range of a row's values or bytes. */
static int64_t begin_of(const tfos_vector *vector, int64_t row)
{
    return vector->layout == TFOS_LAYOUT_FIXED_LIST ? row * vector->list_length : vector->offsets[row];
}

static void expect_same_row(const tfos_vector *found, int64_t at, const tfos_vector *expected, int64_t expected_at)
{
    assert_int_equal(tfos__vector_is_null(found, at), tfos__vector_is_null(expected, expected_at));
    if (tfos__vector_is_null(found, at)) {
        return;
    }
    if (expected->layout == TFOS_LAYOUT_VALUES) {
        expect_same_value(found, at, expected, expected_at);
        return;
    }
    int64_t begin = begin_of(found, at);
    int64_t expected_begin = begin_of(expected, expected_at);
    int64_t count = begin_of(expected, expected_at + 1) - expected_begin;
    assert_int_equal(begin_of(found, at + 1) - begin, count);
    if (expected->layout != TFOS_LAYOUT_BYTES) {
        helper_expect_same_rows(found->child, begin, expected->child, expected_begin, count);
    } else if (count > 0) {
        assert_memory_equal((const uint8_t *)found->data + begin, (const uint8_t *)expected->data + expected_begin,
                            (size_t)count);
    }
}

void helper_expect_same_rows(const tfos_vector *found, int64_t at, const tfos_vector *expected, int64_t expected_at,
                             int64_t count)
{
    assert_int_equal(found->type, expected->type);
    assert_true(at + count <= found->length && expected_at + count <= expected->length);
    for (int64_t i = 0; i < count; i++) {
        expect_same_row(found, at + i, expected, expected_at + i);
    }
}

static void expect_sound_level(const tfos_vector *vector)
{
    int64_t nulls = 0;
    for (int64_t row = 0; row < vector->length; row++) {
        nulls += tfos__vector_is_null(vector, row);
        if (vector->offsets != NULL) {
            int32_t count = vector->offsets[row + 1] - vector->offsets[row];
            assert_true(count >= 0 && (count == 0 || !tfos__vector_is_null(vector, row)));
        }
    }
    assert_int_equal(nulls, vector->null_count);
    assert_true((vector->validity == NULL) == (nulls == 0));
    if (vector->offsets != NULL) {
        assert_int_equal(vector->offsets[0], 0);
    }
    if (vector->layout == TFOS_LAYOUT_VALUES && vector->type == TFOS_TYPE_BOOL) {
        for (int64_t row = vector->length; row % 8 != 0; row++) {
            assert_false(tfos__bit_get(vector->data, row));
        }
    }
}

void helper_expect_sound(const tfos_vector *vector)
{
    for (; vector != NULL; vector = vector->child) {
        expect_sound_level(vector);
        if (vector->child != NULL) {
            int64_t length = vector->layout == TFOS_LAYOUT_LIST ? vector->offsets[vector->length]
                                                                : vector->length * vector->list_length;
            assert_int_equal(vector->child->length, length);
        }
    }
}
