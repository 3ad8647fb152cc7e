/* Appending rows: any part of any column, to any number of rows that are there, and lists of one kind to the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "column/append.h"
#include "column/bits.h"
#include "helper_batches.h"
#include "helper_records.h"

/* ---- bits ---- */

static void test_bits_are_copied_and_nothing_beside_them(void **state)
{
    (void)state;
    uint64_t random = 3;
    for (int round = 0; round < 20000; round++) {
        int64_t from = (int64_t)(helper_random(&random) % 150);
        int64_t to = (int64_t)(helper_random(&random) % 150);
        int64_t count = (int64_t)(helper_random(&random) % 300);
        /* Exact sizes: AddressSanitizer sees a byte that is touched on either side. */
        size_t source_bytes = tfos__bitmap_bytes(from + count);
        size_t target_bytes = tfos__bitmap_bytes(to + count);
        uint8_t *source = malloc(source_bytes + 1);
        uint8_t *target = malloc(target_bytes + 1);
        uint8_t *before = malloc(target_bytes + 1);
        assert_true(source != NULL && target != NULL && before != NULL);
        int64_t set = 0;
        for (size_t i = 0; i < source_bytes; i++) {
            source[i] = (uint8_t)helper_random(&random);
        }
        for (size_t i = 0; i < target_bytes; i++) {
            target[i] = before[i] = (uint8_t)helper_random(&random);
        }
        tfos__bits_copy(target, to, source, from, count);
        for (int64_t i = 0; i < (int64_t)target_bytes * 8; i++) {
            bool inside = i >= to && i < to + count;
            bool expected = inside ? tfos__bit_get(source, from + i - to) : tfos__bit_get(before, i);
            set += inside && expected;
            assert_int_equal(tfos__bit_get(target, i), expected);
        }
        assert_int_equal(tfos__bits_count(source, from, count), set);
        free(source);
        free(target);
        free(before);
    }
}

/* ---- whole columns ---- */

/* Takes random parts of a batch into another until enough rows are there. */
static void append_parts(const tfos_schema *schema, uint64_t *random)
{
    int64_t rows = (int64_t)(helper_random(random) % 200);
    tfos_batch *batch = helper_random_batch(schema, random, rows);
    tfos_batch *copy = NULL;
    int64_t first[20];
    int64_t count[20];
    assert_int_equal(tfos__batch_new(schema, &copy, NULL), TFOS_OK);
    int64_t total = 0;
    for (int i = 0; i < 20; i++) {
        first[i] = (int64_t)(helper_random(random) % (uint64_t)(rows + 1));
        count[i] = (int64_t)(helper_random(random) % (uint64_t)(rows - first[i] + 1));
        total += count[i];
        for (size_t c = 0; c < tfos_schema_field_count(schema); c++) {
            tfos__vector *to = tfos__batch_vector(copy, c);
            assert_int_equal(tfos__vector_append(to, tfos_batch_column(batch, c), first[i], count[i], NULL), TFOS_OK);
        }
    }
    assert_int_equal(tfos__batch_finish(copy, total, NULL), TFOS_OK);
    for (size_t c = 0; c < tfos_schema_field_count(schema); c++) {
        const tfos_vector *found = tfos_batch_column(copy, c);
        helper_expect_sound(found);
        int64_t at = 0;
        for (int i = 0; i < 20; i++) {
            helper_expect_same_rows(found, at, tfos_batch_column(batch, c), first[i], count[i]);
            at += count[i];
        }
    }
    tfos_batch_free(copy);
    tfos_batch_free(batch);
}

static void test_random_parts_of_random_columns(void **state)
{
    (void)state;
    uint64_t random = 17;
    for (int round = 0; round < 120; round++) {
        tfos_schema *schema = helper_random_schema(&random, 6);
        append_parts(schema, &random);
        tfos_schema_free(schema);
    }
}

/* Rows that are pushed before and after rows that are appended: the rules of column/vector.h hold in between. */
static void test_appended_between_pushed(void **state)
{
    (void)state;
    tfos_field field = {.name = "x", .type = TFOS_TYPE_BOOL, .nullable = true};
    tfos__vector *from = NULL;
    tfos__vector *to = NULL;
    assert_int_equal(tfos__vector_new(&field, &from, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_new(&field, &to, NULL), TFOS_OK);
    for (int i = 0; i < 11; i++) {
        assert_int_equal(i % 4 == 3 ? tfos__vector_push_null(from, NULL) : tfos__vector_push_int(from, 1, NULL),
                         TFOS_OK);
    }
    assert_int_equal(tfos__vector_finish(from, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_push_int(to, 1, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_append(to, &from->view, 1, 10, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_append(to, &from->view, 0, 0, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_append(to, &from->view, 4, 2, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_push_int(to, 0, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_push_null(to, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_push_int(to, 1, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_finish(to, NULL), TFOS_OK);
    helper_expect_sound(&to->view);
    const char *expected = "111.111.111110.1";
    assert_int_equal(to->view.length, strlen(expected));
    for (int64_t row = 0; row < to->view.length; row++) {
        char found = tfos__vector_is_null(&to->view, row) ? '.' : tfos__bit_get(to->view.data, row) ? '1' : '0';
        assert_int_equal(found, expected[row]);
    }
    tfos__vector_free(from);
    tfos__vector_free(to);
}

/* ---- one kind of list to the other ---- */

static tfos__vector *list_of(tfos_type type, tfos_shape shape, int32_t length, bool feature_list)
{
    tfos__vector *vector = NULL;
    tfos_field field = {.name = "x", .type = type, .shape = shape, .length = length, .feature_list = feature_list};
    assert_int_equal(tfos__vector_new(&field, &vector, NULL), TFOS_OK);
    return vector;
}

/* Lists of `length` strings; a negative length is a null. */
static void push_strings(tfos__vector *list, int length)
{
    if (length < 0) {
        assert_int_equal(tfos__vector_push_null(list, NULL), TFOS_OK);
        return;
    }
    for (int i = 0; i < length; i++) {
        char text = (char)('a' + list->child->view.length % 26);
        assert_int_equal(tfos__vector_push_bytes(list->child, &text, 1, NULL), TFOS_OK);
    }
    assert_int_equal(tfos__vector_push_list(list, NULL), TFOS_OK);
}

static tfos__vector *strings(tfos_shape shape, int32_t fixed, const int *lengths, size_t count)
{
    tfos__vector *list = list_of(TFOS_TYPE_STRING, shape, fixed, false);
    for (size_t i = 0; i < count; i++) {
        push_strings(list, lengths[i]);
    }
    assert_int_equal(tfos__vector_finish(list, NULL), TFOS_OK);
    return list;
}

static void test_fixed_lists_become_ragged_ones(void **state)
{
    (void)state;
    static const int lengths[] = {3, 3, -1, 3, -1, -1, 3};
    static const int ragged[] = {1, -1, 0};
    tfos__vector *from = strings(TFOS_SHAPE_FIXED, 3, lengths, 7);
    tfos__vector *to = strings(TFOS_SHAPE_RAGGED, 0, ragged, 3);
    assert_int_equal(tfos__vector_append(to, &from->view, 1, 6, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_finish(to, NULL), TFOS_OK);
    helper_expect_sound(&to->view);
    assert_int_equal(to->view.length, 9);
    helper_expect_same_rows(&to->view, 3, &from->view, 1, 6);
    tfos__vector_free(from);
    tfos__vector_free(to);
}

static void test_ragged_lists_become_fixed_ones(void **state)
{
    (void)state;
    static const int lengths[] = {1, 2, 2, -1, -1, 2, 3};
    static const int fixed[] = {2, -1};
    tfos__vector *from = strings(TFOS_SHAPE_RAGGED, 0, lengths, 7);
    tfos__vector *to = strings(TFOS_SHAPE_FIXED, 2, fixed, 2);
    tfos_error error = {0};
    assert_int_equal(tfos__vector_append(to, &from->view, 1, 6, &error), TFOS_MISMATCH);
    helper_expect_in(error.message, "row 6 has a list of 3 values, expected 2");
    assert_int_equal(to->view.length, 2);
    assert_int_equal(to->child->view.length, 4);
    assert_int_equal(tfos__vector_append(to, &from->view, 0, 1, &error), TFOS_MISMATCH);
    helper_expect_in(error.message, "row 0 has a list of 1 values, expected 2");
    assert_int_equal(tfos__vector_append(to, &from->view, 1, 5, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_finish(to, NULL), TFOS_OK);
    helper_expect_sound(&to->view);
    helper_expect_same_rows(&to->view, 2, &from->view, 1, 5);
    tfos__vector_free(from);
    tfos__vector_free(to);
}

static void test_fixed_lists_of_another_length(void **state)
{
    (void)state;
    static const int lengths[] = {-1, 3};
    tfos__vector *from = strings(TFOS_SHAPE_FIXED, 3, lengths, 2);
    tfos__vector *to = strings(TFOS_SHAPE_FIXED, 2, lengths, 1);
    tfos_error error = {0};
    assert_int_equal(tfos__vector_append(to, &from->view, 0, 2, &error), TFOS_MISMATCH);
    helper_expect_in(error.message, "row 1 has a list of 3 values, expected 2");
    assert_int_equal(tfos__vector_append(to, &from->view, 0, 1, &error), TFOS_OK);
    assert_int_equal(to->view.null_count, 2);
    assert_int_equal(to->child->view.length, 4);
    tfos__vector_free(from);
    tfos__vector_free(to);
}

/* A feature list of ragged rows that takes fixed ones: the levels differ below the first. */
static void test_lists_inside_lists(void **state)
{
    (void)state;
    tfos__vector *from = list_of(TFOS_TYPE_INT32, TFOS_SHAPE_FIXED, 2, true);
    tfos__vector *to = list_of(TFOS_TYPE_INT32, TFOS_SHAPE_RAGGED, 0, true);
    for (int row = 0; row < 5; row++) {
        for (int i = 0; i < row * 2; i++) {
            assert_int_equal(tfos__vector_push_int(from->child->child, row * 10 + i, NULL), TFOS_OK);
            if (i % 2 == 1) {
                assert_int_equal(tfos__vector_push_list(from->child, NULL), TFOS_OK);
            }
        }
        assert_int_equal(tfos__vector_push_list(from, NULL), TFOS_OK);
    }
    assert_int_equal(tfos__vector_finish(from, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_append(to, &from->view, 2, 3, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_append(to, &from->view, 0, 4, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_finish(to, NULL), TFOS_OK);
    helper_expect_sound(&to->view);
    helper_expect_same_rows(&to->view, 0, &from->view, 2, 3);
    helper_expect_same_rows(&to->view, 3, &from->view, 0, 4);
    tfos__vector_free(from);
    tfos__vector_free(to);
}

/* ---- the limit of offsets ---- */

/* A source that says that its rows are huge, without having the memory: the limit is noticed before it is touched. */
static void test_offsets_beyond_32_bits_are_a_limit(void **state)
{
    (void)state;
    int32_t offsets[3] = {0, INT32_MAX - 1, INT32_MAX};
    tfos_vector bytes = {.layout = TFOS_LAYOUT_BYTES, .type = TFOS_TYPE_BINARY, .length = 2, .offsets = offsets};
    tfos_error error = {0};
    tfos__vector *to = list_of(TFOS_TYPE_BINARY, TFOS_SHAPE_SCALAR, 0, false);
    assert_int_equal(tfos__vector_push_bytes(to, "xy", 2, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_append(to, &bytes, 0, 1, &error), TFOS_LIMIT);
    helper_expect_in(error.message, "lower batch_rows");
    assert_int_equal(to->view.length, 1);
    assert_int_equal(to->data.size, 2);
    tfos__vector_free(to);

    /* Values of lists: the child says no, and the list has the rows that it had. */
    tfos_vector leaf = {.layout = TFOS_LAYOUT_VALUES, .type = TFOS_TYPE_BOOL, .length = INT32_MAX};
    tfos_vector list = {
        .layout = TFOS_LAYOUT_LIST, .type = TFOS_TYPE_BOOL, .length = 2, .offsets = offsets, .child = &leaf};
    to = list_of(TFOS_TYPE_BOOL, TFOS_SHAPE_RAGGED, 0, false);
    assert_int_equal(tfos__vector_push_zeros(to->child, 2, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_push_list(to, NULL), TFOS_OK);
    assert_int_equal(tfos__vector_append(to, &list, 0, 2, &error), TFOS_LIMIT);
    assert_int_equal(to->view.length, 1);
    assert_int_equal(to->offsets.size, 2 * sizeof(int32_t));
    assert_int_equal(to->child->view.length, 2);
    tfos__vector_free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_are_copied_and_nothing_beside_them),
        cmocka_unit_test(test_random_parts_of_random_columns),
        cmocka_unit_test(test_appended_between_pushed),
        cmocka_unit_test(test_fixed_lists_become_ragged_ones),
        cmocka_unit_test(test_ragged_lists_become_fixed_ones),
        cmocka_unit_test(test_fixed_lists_of_another_length),
        cmocka_unit_test(test_lists_inside_lists),
        cmocka_unit_test(test_offsets_beyond_32_bits_are_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
