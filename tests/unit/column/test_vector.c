/* Vectors: rows pushed, cut off again and shown, for every type and shape. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "column/vector.h"
#include "helper_records.h"
#include "helper_text.h"
#include "record/json_lines.h"

static tfos__vector *new_vector(tfos_type type, tfos_shape shape, int32_t length, bool list)
{
    tfos__vector *vector = NULL;
    tfos_field field = {.name = "x", .type = type, .shape = shape, .length = length, .feature_list = list};
    assert_int_equal(tfos__vector_new(&field, &vector, NULL), TFOS_OK);
    return vector;
}

static void push_ints(tfos__vector *vector, const int64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(tfos__vector_push_int(vector, values[i], NULL), TFOS_OK);
    }
}

static void push_text(tfos__vector *vector, const char *text)
{
    assert_int_equal(tfos__vector_push_bytes(vector, text, strlen(text), NULL), TFOS_OK);
}

static void end_list(tfos__vector *vector)
{
    assert_int_equal(tfos__vector_push_list(vector, NULL), TFOS_OK);
}

static void push_null(tfos__vector *vector)
{
    assert_int_equal(tfos__vector_push_null(vector, NULL), TFOS_OK);
}

/* Finishes the vector and compares its rows, one JSON value each, joined by spaces. */
static void expect_rows(tfos__vector *vector, const char *expected)
{
    tfos__buffer text = {0};
    assert_int_equal(tfos__vector_finish(vector, NULL), TFOS_OK);
    for (int64_t row = 0; row < vector->view.length; row++) {
        assert_int_equal(tfos__buffer_append(&text, " ", row > 0, NULL), TFOS_OK);
        assert_int_equal(tfos__json_write_value(&vector->view, row, &text, NULL), TFOS_OK);
    }
    char *found = helper_string(&text);
    helper_expect_text(found, expected);
    free(found);
    tfos__buffer_reset(&text);
}

static void test_numbers(void **state)
{
    (void)state;
    tfos__vector *vector = new_vector(TFOS_TYPE_INT64, TFOS_SHAPE_SCALAR, 0, false);
    expect_rows(vector, "");
    assert_non_null(vector->view.data);
    push_ints(vector, (const int64_t[]){0, -1, INT64_MAX, INT64_MIN}, 4);
    expect_rows(vector, "0 -1 9223372036854775807 -9223372036854775808");
    assert_null(vector->view.validity);
    assert_int_equal((uintptr_t)vector->view.data % 64, 0);
    tfos__vector_free(vector);

    vector = new_vector(TFOS_TYPE_FLOAT, TFOS_SHAPE_SCALAR, 0, false);
    assert_int_equal(tfos__vector_push_real(vector, 0.5, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_push_int(vector, -3, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_push_real(vector, INFINITY, NULL), TFOS_OK);
    push_null(vector);
    expect_rows(vector, "0.5 -3.0 \"Infinity\" null");
    tfos__vector_free(vector);

    vector = new_vector(TFOS_TYPE_DOUBLE, TFOS_SHAPE_SCALAR, 0, false);
    assert_int_equal(tfos__vector_push_real(vector, DBL_MAX, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_finish(vector, NULL), TFOS_OK);
    assert_true(((const double *)vector->view.data)[0] == DBL_MAX);
    tfos__vector_free(vector);
}

static void test_int32_and_bool_have_a_range(void **state)
{
    (void)state;
    tfos_error error = {0};
    tfos__vector *vector = new_vector(TFOS_TYPE_INT32, TFOS_SHAPE_SCALAR, 0, false);
    push_ints(vector, (const int64_t[]){INT32_MIN, INT32_MAX}, 2);
    assert_int_equal(tfos__vector_push_int(vector, (int64_t)INT32_MAX + 1, &error), TFOS_RANGE);
    assert_string_equal(error.message, "the value 2147483648 does not fit int32");
    assert_int_equal(tfos__vector_push_int(vector, (int64_t)INT32_MIN - 1, &error), TFOS_RANGE);
    assert_int_equal(tfos__vector_push_real(vector, 1.5, &error), TFOS_MISMATCH);
    push_ints(vector, (const int64_t[]){7}, 1);
    expect_rows(vector, "-2147483648 2147483647 7");
    tfos__vector_free(vector);

    vector = new_vector(TFOS_TYPE_BOOL, TFOS_SHAPE_SCALAR, 0, false);
    for (int64_t i = 0; i < 20; i++) {
        assert_int_equal(tfos__vector_push_int(vector, i % 3 == 0, NULL), TFOS_OK);
        assert_int_equal(tfos__vector_push_int(vector, 2, &error), TFOS_RANGE);
        assert_int_equal(tfos__vector_push_int(vector, -1, &error), TFOS_RANGE);
    }
    helper_expect_in(error.message, "the value -1 does not fit bool");
    assert_int_equal(vector->view.length, 20);
    assert_int_equal(tfos__vector_finish(vector, NULL), TFOS_OK);
    for (int64_t i = 0; i < 20; i++) {
        assert_int_equal(tfos__bit_get(vector->view.data, i), i % 3 == 0);
    }
    assert_int_equal(((const uint8_t *)vector->view.data)[2] >> 4, 0); /* bits beyond the length */
    tfos__vector_free(vector);
}

static void test_text_must_be_utf8_and_binary_need_not(void **state)
{
    (void)state;
    tfos_error error = {0};
    tfos__vector *vector = new_vector(TFOS_TYPE_STRING, TFOS_SHAPE_SCALAR, 0, false);
    push_text(vector, "é");
    assert_int_equal(tfos__vector_push_bytes(vector, "ab\xC3", 3, &error), TFOS_ENCODING);
    helper_expect_in(error.message, "invalid UTF-8 at byte 2 of 'ab\\xc3'");
    push_text(vector, "");
    push_null(vector);
    assert_int_equal(tfos__vector_push_bytes(vector, "a\0b", 3, NULL), TFOS_OK);
    expect_rows(vector, "\"é\" \"\" null \"a\\u0000b\"");
    tfos__vector_free(vector);

    vector = new_vector(TFOS_TYPE_BINARY, TFOS_SHAPE_SCALAR, 0, false);
    assert_int_equal(tfos__vector_push_bytes(vector, "ab\xC3", 3, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_finish(vector, NULL), TFOS_OK);
    assert_int_equal(vector->view.offsets[1], 3);
    tfos__vector_free(vector);
}

static void test_lists(void **state)
{
    (void)state;
    tfos__vector *vector = new_vector(TFOS_TYPE_INT64, TFOS_SHAPE_RAGGED, 0, false);
    push_ints(vector->child, (const int64_t[]){1, 2}, 2);
    end_list(vector);
    end_list(vector);
    push_null(vector);
    push_ints(vector->child, (const int64_t[]){3}, 1);
    end_list(vector);
    expect_rows(vector, "[1, 2] [] null [3]");
    tfos__vector_free(vector);

    vector = new_vector(TFOS_TYPE_STRING, TFOS_SHAPE_FIXED, 2, false);
    push_text(vector->child, "a");
    push_text(vector->child, "b");
    end_list(vector);
    push_null(vector);
    push_text(vector->child, "c");
    push_text(vector->child, "d");
    end_list(vector);
    expect_rows(vector, "[\"a\", \"b\"] null [\"c\", \"d\"]");
    assert_int_equal(vector->view.child->length, 6);
    tfos__vector_free(vector);

    vector = new_vector(TFOS_TYPE_FLOAT, TFOS_SHAPE_FIXED, 0, false);
    end_list(vector);
    push_null(vector);
    expect_rows(vector, "[] null");
    tfos__vector_free(vector);
}

static void test_a_fixed_list_has_its_length(void **state)
{
    (void)state;
    tfos_error error = {0};
    tfos__vector *vector = new_vector(TFOS_TYPE_BOOL, TFOS_SHAPE_FIXED, 3, false);
    push_ints(vector->child, (const int64_t[]){1, 0, 1}, 3);
    end_list(vector);
    push_ints(vector->child, (const int64_t[]){1, 1}, 2);
    assert_int_equal(tfos__vector_push_list(vector, &error), TFOS_MISMATCH);
    assert_string_equal(error.message,
                        "expected a list of 3 values, found 2: declare the shape [null] if lengths differ");
    push_ints(vector->child, (const int64_t[]){1, 1}, 2);
    assert_int_equal(tfos__vector_push_list(vector, &error), TFOS_MISMATCH);
    helper_expect_in(error.message, "found 4");
    tfos__vector_truncate(vector, 1); /* throws the unfinished row away */
    push_null(vector);
    push_ints(vector->child, (const int64_t[]){0, 0, 1}, 3);
    end_list(vector);
    expect_rows(vector, "[true, false, true] null [false, false, true]");
    tfos__vector_free(vector);
}

/* A null list of many values takes its room at once, and within the limit of a batch. */
static void test_missing_fixed_lists_stay_within_the_limit(void **state)
{
    (void)state;
    tfos_error error = {0};
    static const tfos_type types[] = {TFOS_TYPE_FLOAT, TFOS_TYPE_BOOL, TFOS_TYPE_STRING};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        tfos__vector *vector = new_vector(types[i], TFOS_SHAPE_FIXED, 70001, false);
        push_null(vector);
        push_null(vector);
        assert_int_equal(vector->child->view.length, 2 * 70001);
        assert_int_equal(tfos__vector_finish(vector, NULL), TFOS_OK);
        tfos__vector_free(vector);
    }
    tfos__vector *vector = new_vector(TFOS_TYPE_INT32, TFOS_SHAPE_FIXED, 1 << 28, true);
    vector->child->child->view.length = TFOS__VECTOR_MAX - 5; /* as if so many were there */
    assert_int_equal(tfos__vector_push_null(vector->child, &error), TFOS_LIMIT);
    helper_expect_in(error.message, "lower batch_rows");
    vector->child->child->view.length = 0;
    tfos__vector_free(vector);
}

static void test_lists_of_lists(void **state)
{
    (void)state;
    tfos__vector *vector = new_vector(TFOS_TYPE_INT64, TFOS_SHAPE_RAGGED, 0, true);
    push_ints(vector->child->child, (const int64_t[]){1, 2}, 2);
    end_list(vector->child);
    push_null(vector->child);
    end_list(vector);
    end_list(vector);
    push_null(vector);
    end_list(vector->child);
    end_list(vector);
    expect_rows(vector, "[[1, 2], null] [] null [[]]");
    tfos__vector_free(vector);
}

/* ---- cutting off ---- */

/* Whatever is pushed, cutting back to n rows and pushing the rest again gives the same: also when the cut leaves an
 * unfinished row at any level. */
static void push_some_row(tfos__vector *vector, tfos_field field, int number)
{
    tfos__vector *inner = field.feature_list ? vector->child : vector;
    tfos__vector *leaf = inner->child != NULL ? inner->child : inner;
    int features = field.feature_list ? number % 3 : 1;
    if (number % 5 == 4) {
        push_null(vector);
        return;
    }
    for (int feature = 0; feature < features; feature++) {
        int values = field.shape == TFOS_SHAPE_SCALAR  ? 1
                     : field.shape == TFOS_SHAPE_FIXED ? field.length
                                                       : (number + feature) % 4;
        if (field.feature_list && (number + feature) % 7 == 6) {
            push_null(inner);
            continue;
        }
        for (int i = 0; i < values; i++) {
            int64_t value = number * 31 + feature * 7 + i;
            if (field.type == TFOS_TYPE_STRING || field.type == TFOS_TYPE_BINARY) {
                assert_int_equal(tfos__vector_push_bytes(leaf, "abcdefgh", (size_t)value % 8, NULL), TFOS_OK);
            } else {
                value = field.type == TFOS_TYPE_BOOL ? value % 2 : value;
                assert_int_equal(tfos__vector_push_int(leaf, value, NULL), TFOS_OK);
            }
        }
        if (inner != leaf) {
            end_list(inner);
        }
    }
    if (field.feature_list) {
        end_list(vector);
    }
}

/* Values without the end of their rows. */
static void push_unfinished(tfos__vector *vector, tfos_field field)
{
    tfos__vector *leaf = vector;
    while (leaf->child != NULL) {
        leaf = leaf->child;
    }
    if (leaf == vector) {
        return;
    }
    if (field.feature_list && field.shape != TFOS_SHAPE_SCALAR) {
        push_null(vector->child);
    }
    push_null(leaf);
    for (int i = 0; i < 3; i++) {
        if (leaf->view.layout == TFOS_LAYOUT_BYTES) {
            push_text(leaf, "unfinished");
        } else {
            push_ints(leaf, (const int64_t[]){1}, 1);
        }
    }
}

static char *shown(tfos__vector *vector)
{
    tfos__buffer text = {0};
    assert_int_equal(tfos__vector_finish(vector, NULL), TFOS_OK);
    for (int64_t row = 0; row < vector->view.length; row++) {
        assert_int_equal(tfos__json_write_value(&vector->view, row, &text, NULL), TFOS_OK);
        assert_int_equal(tfos__buffer_append(&text, "\n", 1, NULL), TFOS_OK);
    }
    char *out = helper_string(&text);
    tfos__buffer_reset(&text);
    return out;
}

static void check_truncate(tfos_field field, tfos__vector *vector, const char *expected, int rows)
{
    for (int cut = 0; cut <= rows; cut++) {
        tfos__vector_clear(vector);
        for (int row = 0; row < rows; row++) {
            push_some_row(vector, field, row + 100);
        }
        push_unfinished(vector, field);
        tfos__vector_truncate(vector, cut);
        if (cut % 2 == 0) {
            push_unfinished(vector, field);
            tfos__vector_truncate(vector, cut);
        }
        assert_int_equal(vector->view.length, cut);
        tfos__vector_truncate(vector, 0);
        for (int row = 0; row < cut; row++) {
            push_some_row(vector, field, row);
        }
        push_unfinished(vector, field);
        tfos__vector_truncate(vector, cut);
        for (int row = cut; row < rows; row++) {
            push_some_row(vector, field, row);
        }
        char *found = shown(vector);
        helper_expect_text(found, expected);
        free(found);
    }
}

static void test_truncate_every_type_and_shape(void **state)
{
    (void)state;
    enum { ROWS = 23 };
    for (int i = 0; i < 7 * 3 * 2; i++) {
        tfos_field field = {.name = "x", .type = (tfos_type)(i % 7), .shape = (tfos_shape)(i / 7 % 3)};
        field.length = field.shape == TFOS_SHAPE_FIXED ? 3 : 0;
        field.feature_list = i >= 21;
        tfos__vector *vector = new_vector(field.type, field.shape, field.length, field.feature_list);
        for (int row = 0; row < ROWS; row++) {
            push_some_row(vector, field, row);
        }
        char *expected = shown(vector);
        check_truncate(field, vector, expected, ROWS);
        free(expected);
        tfos__vector_free(vector);
    }
}

static void test_null_counts(void **state)
{
    (void)state;
    tfos__vector *vector = new_vector(TFOS_TYPE_INT64, TFOS_SHAPE_SCALAR, 0, false);
    for (int i = 0; i < 30; i++) {
        push_ints(vector, (const int64_t[]){i}, 1);
    }
    assert_int_equal(tfos__vector_mark_null(vector, 3, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_mark_null(vector, 3, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_mark_null(vector, 17, NULL), TFOS_OK);
    assert_int_equal(vector->view.null_count, 2);
    assert_int_equal(tfos__vector_finish(vector, NULL), TFOS_OK);
    for (int64_t i = 0; i < 30; i++) {
        assert_int_equal(tfos__bit_get(vector->view.validity, i), i != 3 && i != 17);
    }
    tfos__vector_truncate(vector, 17);
    assert_int_equal(vector->view.null_count, 1);
    tfos__vector_truncate(vector, 3);
    assert_int_equal(tfos__vector_finish(vector, NULL), TFOS_OK);
    assert_int_equal(vector->view.null_count, 0);
    assert_null(vector->view.validity);
    tfos__vector_clear(vector);
    push_ints(vector, (const int64_t[]){1, 2, 3, 4}, 4);
    expect_rows(vector, "1 2 3 4");
    tfos__vector_free(vector);
}

static void test_limits(void **state)
{
    (void)state;
    tfos_error error = {0};
    tfos__vector *vector = new_vector(TFOS_TYPE_BINARY, TFOS_SHAPE_SCALAR, 0, false);
    assert_int_equal(tfos__vector_reserve(vector, (int64_t)INT32_MAX + 1, &error), TFOS_LIMIT);
    helper_expect_in(error.message, "lower batch_rows");
    push_text(vector, "x");
    assert_int_equal(tfos__vector_push_bytes(vector, "never read", (size_t)INT32_MAX, &error), TFOS_LIMIT);
    helper_expect_in(error.message, "more than 2147483647 bytes in one column");
    assert_int_equal(vector->view.length, 1);
    tfos__vector_free(vector);
    tfos__vector_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_int32_and_bool_have_a_range),
        cmocka_unit_test(test_text_must_be_utf8_and_binary_need_not),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_a_fixed_list_has_its_length),
        cmocka_unit_test(test_missing_fixed_lists_stay_within_the_limit),
        cmocka_unit_test(test_lists_of_lists),
        cmocka_unit_test(test_truncate_every_type_and_shape),
        cmocka_unit_test(test_null_counts),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
