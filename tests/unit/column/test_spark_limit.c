/* Rows of Spark that are too large to be fed: told by their heads, and never of a row that could be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "column/spark_limit.h"
#include "feed/entry.h"
#include "helper_spark.h"

enum { MANY = 100000 };

/* A row of one column that has this inside. */
static part *row_of(const part *inner)
{
    part *row = spark_row(1);
    spark_put(row, spark_slot(1, 0), inner);
    return row;
}

/* Bytes that a row takes in a lane. */
static int64_t bytes_in_lane(tfos_spark_rows *rows, const part *row)
{
    tfos_batch *batch;
    part *block = spark_part(0);
    spark_add_row(block, row);
    spark_append(rows, block);
    assert_int_equal(tfos_spark_rows_take(rows, &batch, NULL), TFOS_OK);
    int64_t bytes = (int64_t)tfos__entry_batch_bytes(batch, 0, 1);
    tfos_batch_free(batch);
    return bytes;
}

/* It can be fed through a lane of its size, and is refused where the lane has less than one part in `slack` of it. */
static void expect_bound(const char *fields, const char *columns, const part *row, int64_t slack)
{
    tfos_error error;
    tfos_spark_rows *rows = spark_rows_of(fields, columns);
    assert_int_equal(tfos_spark_rows_check(rows, row->data, &error), TFOS_OK); /* nobody has said how large lanes are */
    int64_t bytes = bytes_in_lane(rows, row);
    tfos__spark_rows_limit(rows, bytes);
    if (tfos_spark_rows_check(rows, row->data, &error) != TFOS_OK) {
        fail_msg("%s: it takes %lld bytes; %s", fields, (long long)bytes, error.message);
    }
    tfos__spark_rows_limit(rows, bytes / slack * 9 / 10);
    assert_int_equal(tfos_spark_rows_check(rows, row->data, &error), TFOS_LIMIT);
    tfos_spark_rows_free(rows);
}

static part *list_of(size_t width)
{
    uint8_t *zeros = calloc(MANY, width);
    part *list = spark_values(MANY, width, zeros);
    free(zeros);
    return list;
}

static void test_lists_of_numbers(void **state)
{
    (void)state;
    expect_bound(FIELD("x", ARRAY_OF("\"float\"")), "", row_of(list_of(4)), 1);
    expect_bound(FIELD("x", ARRAY_OF("\"double\"")), "", row_of(list_of(8)), 1);
    expect_bound(FIELD("x", ARRAY_OF("\"double\"")), "{\"x\": {\"cast\": \"float\"}}", row_of(list_of(8)), 1);
    expect_bound(FIELD("x", ARRAY_OF("\"byte\"")), "", row_of(list_of(1)), 2);
    expect_bound(FIELD("x", ARRAY_OF("\"boolean\"")), "", row_of(list_of(1)), 2);
}

/* The smallest values have the most around them. */
static void test_lists_of_texts(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < 3; bytes++) {
        part *list = spark_array(1000, 8);
        for (size_t i = 0; i < 1000; i++) {
            spark_put_bytes(list, spark_element(1000, 8, i), "ab", bytes);
        }
        expect_bound(FIELD("x", ARRAY_OF("\"string\"")), "", row_of(list), 4);
    }
}

static void test_lists_of_lists(void **state)
{
    (void)state;
    size_t lengths[80];
    for (size_t length = 0; length < 3; length++) {
        for (size_t i = 0; i < 80; i++) {
            lengths[i] = length;
        }
        const char *shape = length == 1 ? "{\"x\": {\"shape\": [null, 1]}}" : "{\"x\": {\"shape\": [null, null]}}";
        expect_bound(FIELD("x", ARRAY_OF(ARRAY_OF("\"integer\""))), shape, spark_lists_row(80, lengths), 12);
    }
}

static void test_vectors(void **state)
{
    (void)state;
    int32_t indices[1000];
    double values[1000] = {0};
    for (int32_t i = 0; i < 1000; i++) {
        indices[i] = i;
    }
    part *numbers = spark_values(1000, 8, values);
    part *sparse = spark_ml_vector(0, 1000, spark_values(1000, 4, indices), numbers);
    expect_bound(FIELD("x", VECTOR), "", row_of(sparse), 1);
    expect_bound(FIELD("x", VECTOR), "", row_of(spark_ml_vector(1, 1000, NULL, numbers)), 2);
}

/* The largest column is named, and nulls have no size. */
static void test_what_is_said(void **state)
{
    (void)state;
    tfos_error error;
    char *text = calloc(1, MANY);
    part *row = spark_row(3);
    spark_put_bytes(row, spark_slot(3, 0), "small", 5);
    spark_put_bytes(row, spark_slot(3, 1), text, MANY);
    spark_put_bytes(row, spark_slot(3, 2), text, 1000);
    tfos_spark_rows *rows = spark_rows_of(SIMPLE("a", "string") "," SIMPLE("b", "binary") "," SIMPLE("c", "string"),
                                          "{\"b\": {\"default\": \"\"}}");
    tfos_spark_rows_skip(rows, 41);
    tfos__spark_rows_limit(rows, 1 << 16);
    assert_int_equal(tfos_spark_rows_check(rows, row->data, &error), TFOS_LIMIT);
    assert_string_equal(
        error.message,
        "row 41 of the partition takes 101005 bytes, 100000 of them in column 'b': more than a lane has, "
        "65536. Set feed.lane_bytes (spark.tfos.feed.lane_bytes) to more");
    assert_int_equal(tfos_spark_rows_refuse(rows, 2, MANY, &error), TFOS_LIMIT);
    assert_non_null(strstr(error.message, "row 41 of the partition takes 100000 bytes, 100000 of them in column 'c'"));
    spark_set_null(row, 1);
    assert_int_equal(tfos_spark_rows_check(rows, row->data, &error), TFOS_OK);
    free(text);
    tfos_spark_rows_free(rows);
}

/* Values in vectors have the width that they have in Java. */
static void test_forms(void **state)
{
    (void)state;
    tfos_spark_form form;
    tfos_spark_rows *rows = spark_rows_of(SIMPLE("a", "string") "," FIELD("b", ARRAY_OF("\"double\"")) "," FIELD(
                                              "c", ARRAY_OF("\"boolean\"")) "," SIMPLE("d", "decimal(30,2)"),
                                          "{\"b\": {\"cast\": \"float\"}, \"d\": {\"cast\": \"double\"}}");
    assert_true(tfos_spark_rows_form(rows, 0, &form));
    assert_true(form.row_bytes == INT64_MAX);
    tfos__spark_rows_limit(rows, 1 << 16);
    const int64_t expected[] = {1 << 16, 2 << 16, 8 << 16, 2 << 16};
    for (size_t i = 0; i < 4; i++) {
        assert_true(tfos_spark_rows_form(rows, i, &form));
        assert_int_equal(form.row_bytes, expected[i]);
    }
    tfos_spark_rows_free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_lists_of_numbers, spark_free),
        cmocka_unit_test_teardown(test_lists_of_texts, spark_free),
        cmocka_unit_test_teardown(test_lists_of_lists, spark_free),
        cmocka_unit_test_teardown(test_vectors, spark_free),
        cmocka_unit_test_teardown(test_what_is_said, spark_free),
        cmocka_unit_test_teardown(test_forms, spark_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
