/* Values of every type of Spark's, to columns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "helper_records.h"
#include "helper_spark.h"

/* ---- scalars ---- */

static void test_scalars_of_every_type(void **state)
{
    (void)state;
    tfos_spark_rows *rows = spark_rows_of(spark_scalar_fields, "");
    part *block = spark_part(0);
    spark_add_row(block, spark_scalar_row(1, "é"));
    spark_add_row(block, spark_scalar_row(2, ""));
    spark_append(rows, block);
    assert_int_equal(tfos_spark_rows_count(rows), 2);
    spark_expect_batch(rows,
                       "{\"boolean\": true, \"byte\": -1, \"short\": 100, \"int\": -100000, \"long\": 10000000000, "
                       "\"float\": 0.5, \"double\": 0.25, \"string\": \"é\", \"binary\": \"/wAB\", \"date\": 1, "
                       "\"time\": 1000000, \"ntz\": -1}\n"
                       "{\"boolean\": false, \"byte\": -2, \"short\": 200, \"int\": -200000, \"long\": 20000000000, "
                       "\"float\": 1.0, \"double\": 0.5, \"string\": \"\", \"binary\": \"/wAB\", \"date\": 2, "
                       "\"time\": 2000000, \"ntz\": -2}\n");
    tfos_spark_rows_free(rows);
}

static void test_many_rows_make_batches(void **state)
{
    (void)state;
    enum { ROWS = 5000 };
    tfos_spark_rows *rows = spark_rows_of(spark_scalar_fields, "");
    part *row = spark_scalar_row(3, "a string that is not so short");
    part *block = spark_part(0);
    for (int i = 0; i < ROWS; i++) {
        spark_put_long(row, spark_slot(SCALARS, 4), i);
        spark_add_row(block, row);
    }
    int64_t total = 0;
    size_t at = 0;
    while (at < block->size) {
        size_t used = 0;
        assert_int_equal(tfos_spark_rows_append(rows, block->data + at, block->size - at, &used, NULL), TFOS_OK);
        at += used;
        assert_true(tfos_spark_rows_full(rows) || at == block->size);
        tfos_batch *batch = NULL;
        assert_int_equal(tfos_spark_rows_take(rows, &batch, NULL), TFOS_OK);
        assert_false(tfos_spark_rows_full(rows));
        const int64_t *numbers = tfos_batch_column(batch, 4)->data;
        for (int64_t i = 0; i < tfos_batch_rows(batch); i++) {
            assert_int_equal(numbers[i], total + i);
        }
        total += tfos_batch_rows(batch);
        tfos_batch_free(batch);
    }
    assert_int_equal(total, ROWS);
    tfos_batch *none = (tfos_batch *)(void *)rows;
    assert_int_equal(tfos_spark_rows_take(rows, &none, NULL), TFOS_OK);
    assert_null(none);
    tfos_spark_rows_free(rows);
}

static void test_casts_of_numbers(void **state)
{
    (void)state;
    tfos_spark_rows *rows =
        spark_rows_of(SIMPLE("a", "long") "," SIMPLE("b", "double") "," SIMPLE("c", "boolean") "," SIMPLE(
                          "d", "string") "," SIMPLE("e", "integer"),
                      "{\"a\": {\"cast\": \"int32\"}, \"b\": {\"cast\": \"float\"}, \"c\": {\"cast\": "
                      "\"int64\"}, \"d\": {\"cast\": \"binary\"}, \"e\": {\"cast\": \"double\"}}");
    part *row = spark_row(5);
    part *block = spark_part(0);
    spark_put_long(row, spark_slot(5, 0), -7);
    spark_put_double(row, spark_slot(5, 1), 0.1);
    row->data[spark_slot(5, 2)] = 1;
    spark_put_bytes(row, spark_slot(5, 3), "\xff", 1);
    spark_put_long(row, spark_slot(5, 4), 12);
    spark_add_row(block, row);
    spark_append(rows, block);
    spark_expect_batch(rows, "{\"a\": -7, \"b\": 0.1, \"c\": 1, \"d\": \"/w==\", \"e\": 12.0}\n");
    spark_put_long(row, spark_slot(5, 0), (int64_t)INT32_MAX + 1);
    spark_add_row(block, row);
    spark_expect_failure(rows, block, TFOS_RANGE, WORDS("column 'a', row 2 of the partition", "2147483648", "int32"));
}

/* Spark has other names for some types; a cast may have either. */
static void test_casts_by_the_names_of_spark(void **state)
{
    (void)state;
    tfos_spark_rows *rows =
        spark_rows_of(SIMPLE("a", "long") "," SIMPLE("b", "long") "," SIMPLE("c", "integer") "," SIMPLE(
                          "d", "integer") "," SIMPLE("e", "boolean"),
                      "{\"a\": {\"cast\": \"int\"}, \"b\": {\"cast\": \"integer\"}, \"c\": {\"cast\": "
                      "\"long\"}, \"d\": {\"cast\": \"bigint\"}, \"e\": {\"cast\": \"boolean\"}}");
    part *row = spark_row(5);
    part *block = spark_part(0);
    for (int i = 0; i < 4; i++) {
        spark_put_long(row, spark_slot(5, i), i);
    }
    row->data[spark_slot(5, 4)] = 1;
    spark_add_row(block, row);
    spark_append(rows, block);
    tfos_batch *batch;
    assert_int_equal(tfos_spark_rows_take(rows, &batch, NULL), TFOS_OK);
    static const tfos_type expected[] = {TFOS_TYPE_INT32, TFOS_TYPE_INT32, TFOS_TYPE_INT64, TFOS_TYPE_INT64,
                                         TFOS_TYPE_BOOL};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(tfos_schema_field(tfos_batch_schema(batch), i)->type, expected[i]);
    }
    tfos_batch_free(batch);
    tfos_spark_rows_free(rows);
}

/* ---- decimals ---- */

static void test_decimals_by_cast(void **state)
{
    (void)state;
    tfos_spark_rows *rows =
        spark_rows_of(SIMPLE("a", "decimal(10,2)") "," SIMPLE("b", "decimal(38,10)") "," SIMPLE(
                          "c", "decimal(18,0)") "," SIMPLE("d", "decimal(20,3)"),
                      "{\"a\": {\"cast\": \"double\"}, \"b\": {\"cast\": \"string\"}, \"c\": {\"cast\": "
                      "\"int64\"}, \"d\": {\"cast\": \"int64\"}}");
    part *block = spark_part(0);
    part *row = spark_row(4);
    spark_put_long(row, spark_slot(4, 0), -12345);
    spark_put_bytes(row, spark_slot(4, 1), "\x00\x8a\xc7\x23\x04\x89\xe8\x00\x00", 9); /* 10^19 */
    spark_put_long(row, spark_slot(4, 2), 999999999999999999);
    spark_put_bytes(row, spark_slot(4, 3), "\xf8\x2f", 2); /* -2001 */
    spark_add_row(block, row);
    part *small = spark_row(4);
    spark_put_bytes(small, spark_slot(4, 1), "\xff", 1); /* -1 */
    spark_put_bytes(small, spark_slot(4, 3), "\x00", 1);
    spark_add_row(block, small);
    spark_append(rows, block);
    spark_expect_batch(rows,
                       "{\"a\": -123.45, \"b\": \"1000000000.0000000000\", \"c\": 999999999999999999, \"d\": -2}\n"
                       "{\"a\": 0.0, \"b\": \"-0.0000000001\", \"c\": 0, \"d\": 0}\n");
    part *big = spark_row(4);
    block->size = 0;
    spark_put_bytes(big, spark_slot(4, 1), "\x01", 1);
    spark_put_bytes(big, spark_slot(4, 3), "\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11);
    spark_add_row(block, big);
    spark_expect_failure(rows, block, TFOS_RANGE, WORDS("column 'd', row 2", "154742504910672534362390.527", "int64"));
}

static void test_decimals_become_the_nearest_double(void **state)
{
    (void)state;
    tfos_spark_rows *rows = spark_rows_of(SIMPLE("a", "decimal(38,37)"), "{\"a\": {\"cast\": \"double\"}}");
    part *row = spark_row(1);
    part *block = spark_part(0);
    /* 1.2345678901234567890123456789012345678 */
    spark_put_bytes(row, spark_slot(1, 0), "\x09\x49\xb0\xf6\xf0\x02\x33\x13\xc4\x49\x90\x50\xde\x38\xf3\x4e", 16);
    spark_add_row(block, row);
    spark_append(rows, block);
    tfos_batch *batch = NULL;
    assert_int_equal(tfos_spark_rows_take(rows, &batch, NULL), TFOS_OK);
    double found = *(const double *)tfos_batch_column(batch, 0)->data;
    assert_true(found == 1.2345678901234567890123456789012345678);
    tfos_batch_free(batch);
    tfos_spark_rows_free(rows);
}

/* ---- lists ---- */

static void test_lists_of_one_length_are_fixed(void **state)
{
    (void)state;
    tfos_spark_rows *rows = spark_rows_of(FIELD("x", ARRAY_OF("\"float\"")) "," FIELD("y", ARRAY_OF("\"string\"")), "");
    part *row = spark_row(2);
    part *block = spark_part(0);
    part *words = spark_array(2, 8);
    spark_put_bytes(words, spark_element(2, 8, 0), "one", 3);
    spark_put_bytes(words, spark_element(2, 8, 1), "longer than a word", 18);
    spark_put(row, spark_slot(2, 0), spark_values(3, 4, (float[]){1, 2.5f, 3}));
    spark_put(row, spark_slot(2, 1), words);
    assert_int_equal(tfos_schema_field(tfos_spark_rows_schema(rows), 0)->shape, TFOS_SHAPE_RAGGED);
    spark_add_row(block, row);
    spark_add_row(block, row);
    spark_append(rows, block);
    spark_expect_batch(rows, "{\"x\": [1.0, 2.5, 3.0], \"y\": [\"one\", \"longer than a word\"]}\n"
                             "{\"x\": [1.0, 2.5, 3.0], \"y\": [\"one\", \"longer than a word\"]}\n");
    const tfos_field *field = tfos_schema_field(tfos_spark_rows_schema(rows), 0);
    assert_int_equal(field->shape, TFOS_SHAPE_FIXED);
    assert_int_equal(field->length, 3);
    spark_append(rows, block);
    spark_expect_batch(rows, "{\"x\": [1.0, 2.5, 3.0], \"y\": [\"one\", \"longer than a word\"]}\n"
                             "{\"x\": [1.0, 2.5, 3.0], \"y\": [\"one\", \"longer than a word\"]}\n");
    part *other = spark_row(2);
    spark_put(other, spark_slot(2, 0), spark_values(1, 4, (float[]){1}));
    spark_put(other, spark_slot(2, 1), words);
    spark_add_row(block, other);
    spark_expect_failure(rows, block, TFOS_MISMATCH,
                         WORDS("column 'x', row 6 of the partition",
                               "a list of 3 values, as in the rows before, found 1", "declare the shape [null]"));
}

static void test_lists_of_different_lengths_are_ragged(void **state)
{
    (void)state;
    tfos_spark_rows *rows = spark_rows_of(FIELD("x", ARRAY_OF("\"byte\"")) "," FIELD("y", ARRAY_OF("\"boolean\"")), "");
    part *first = spark_row(2);
    part *second = spark_row(2);
    part *block = spark_part(0);
    part *flags = spark_array(10, 1);
    part *bytes = spark_array(3, 1);
    memcpy(bytes->data + spark_element(3, 1, 0), "\x01\xff\x80", 3);
    flags->data[spark_element(10, 1, 9)] = 1;
    spark_put(first, spark_slot(2, 0), spark_array(0, 1));
    spark_put(first, spark_slot(2, 1), spark_array(0, 1));
    spark_put(second, spark_slot(2, 0), bytes);
    spark_put(second, spark_slot(2, 1), flags);
    spark_add_row(block, first);
    spark_add_row(block, second);
    spark_append(rows, block);
    spark_expect_batch(rows,
                       "{\"x\": [], \"y\": []}\n"
                       "{\"x\": [1, -1, -128], \"y\": [false, false, false, false, false, false, false, false, false, "
                       "true]}\n");
    assert_int_equal(tfos_schema_field(tfos_spark_rows_schema(rows), 1)->shape, TFOS_SHAPE_RAGGED);
    tfos_spark_rows_free(rows);
}

static void test_a_declared_length_is_kept(void **state)
{
    (void)state;
    tfos_spark_rows *rows =
        spark_rows_of(FIELD("x", ARRAY_OF("\"double\"")), "{\"x\": {\"shape\": [2], \"cast\": \"float\"}}");
    const tfos_field *field = tfos_schema_field(tfos_spark_rows_schema(rows), 0);
    assert_int_equal(field->length, 2);
    assert_int_equal(field->type, TFOS_TYPE_FLOAT);
    part *row = spark_row(1);
    part *block = spark_part(0);
    spark_put(row, spark_slot(1, 0), spark_values(3, 8, (double[]){1, 2, 3}));
    spark_add_row(block, row);
    tfos_spark_rows_skip(rows, 1000);
    spark_expect_failure(rows, block, TFOS_MISMATCH,
                         WORDS("column 'x', row 1000 of the partition", "a list of 2 values, as declared, found 3"));
}

static void test_empty_lists_show_no_length(void **state)
{
    (void)state;
    tfos_spark_rows *rows = spark_rows_of(FIELD("x", ARRAY_OF("\"long\"")), "");
    part *row = spark_row(1);
    part *block = spark_part(0);
    spark_put(row, spark_slot(1, 0), spark_array(0, 8));
    spark_add_row(block, row);
    spark_append(rows, block);
    spark_expect_batch(rows, "{\"x\": []}\n");
    assert_int_equal(tfos_schema_field(tfos_spark_rows_schema(rows), 0)->shape, TFOS_SHAPE_RAGGED);
    tfos_spark_rows_free(rows);
}

static void test_lists_of_lists_are_feature_lists(void **state)
{
    (void)state;
    tfos_spark_rows *rows = spark_rows_of(FIELD("x", ARRAY_OF(ARRAY_OF("\"integer\""))), "");
    part *block = spark_part(0);
    spark_add_row(block, spark_lists_row(2, (size_t[]){2, 2}));
    spark_add_row(block, spark_lists_row(0, NULL));
    spark_append(rows, block);
    spark_expect_batch(rows, "{\"x\": [[0, 1], [10, 11]]}\n{\"x\": []}\n");
    assert_int_equal(tfos_schema_kind(tfos_spark_rows_schema(rows)), TFOS_RECORD_SEQUENCE);
    const tfos_field *field = tfos_schema_field(tfos_spark_rows_schema(rows), 0);
    assert_true(field->feature_list);
    assert_int_equal(field->length, 2);
    block->size = 0;
    spark_add_row(block, spark_lists_row(3, (size_t[]){2, 1, 0}));
    spark_expect_failure(rows, block, TFOS_MISMATCH, WORDS("column 'x', row 2", "found 1", "[null, null]"));
    rows = spark_rows_of(FIELD("x", ARRAY_OF(ARRAY_OF("\"integer\""))), "{\"x\": {\"shape\": [null, null]}}");
    spark_append(rows, block);
    spark_expect_batch(rows, "{\"x\": [[0, 1], [10], []]}\n");
    tfos_spark_rows_free(rows);
}

/* ---- vectors of Spark ML ---- */

static void add_vector(part *block, const part *vector)
{
    part *row = spark_row(1);
    spark_put(row, spark_slot(1, 0), vector);
    spark_add_row(block, row);
}

static void test_ml_vectors(void **state)
{
    (void)state;
    part *block = spark_part(0);
    add_vector(block, spark_ml_vector(1, 0, NULL, spark_values(3, 8, (double[]){1, 2, 3})));
    add_vector(block,
               spark_ml_vector(0, 3, spark_values(2, 4, (int32_t[]){0, 2}), spark_values(2, 8, (double[]){5, 7})));
    add_vector(block, spark_ml_vector(0, 3, spark_values(0, 4, NULL), spark_values(0, 8, NULL)));
    tfos_spark_rows *rows = spark_rows_of(FIELD("x", VECTOR), "");
    spark_append(rows, block);
    spark_expect_batch(rows, "{\"x\": [1.0, 2.0, 3.0]}\n{\"x\": [5.0, 0.0, 7.0]}\n{\"x\": [0.0, 0.0, 0.0]}\n");
    assert_int_equal(tfos_schema_field(tfos_spark_rows_schema(rows), 0)->length, 3);
    tfos_spark_rows_free(rows);
    rows = spark_rows_of(FIELD("x", VECTOR), "{\"x\": {\"cast\": \"float\", \"shape\": [3]}}");
    spark_append(rows, block);
    spark_expect_batch(rows, "{\"x\": [1.0, 2.0, 3.0]}\n{\"x\": [5.0, 0.0, 7.0]}\n{\"x\": [0.0, 0.0, 0.0]}\n");
    assert_int_equal(tfos_schema_field(tfos_spark_rows_schema(rows), 0)->type, TFOS_TYPE_FLOAT);
    tfos_spark_rows_free(rows);
    add_vector(block, spark_ml_vector(0, 4, spark_values(0, 4, NULL), spark_values(0, 8, NULL)));
    rows = spark_rows_of(FIELD("x", VECTOR), "{\"x\": {\"shape\": [null]}}");
    spark_append(rows, block);
    assert_int_equal(tfos_spark_rows_count(rows), 4);
    tfos_spark_rows_free(rows);
    rows = spark_rows_of(FIELD("x", VECTOR), "");
    spark_expect_failure(rows, block, TFOS_MISMATCH, WORDS("column 'x', row 3", "a vector of size 3", "found 4"));
}

static void test_damaged_ml_vectors(void **state)
{
    (void)state;
    part *bad[] = {
        spark_ml_vector(2, 0, NULL, spark_values(1, 8, (double[]){1})),
        spark_ml_vector(0, 3, spark_values(1, 4, (int32_t[]){3}), spark_values(1, 8, (double[]){1})),
        spark_ml_vector(0, 3, spark_values(1, 4, (int32_t[]){-1}), spark_values(1, 8, (double[]){1})),
        spark_ml_vector(0, 3, spark_values(1, 4, (int32_t[]){0}), spark_values(0, 8, NULL)),
        spark_ml_vector(0, -3, spark_values(0, 4, NULL), spark_values(0, 8, NULL)),
        spark_part(8),
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        part *block = spark_part(0);
        add_vector(block, bad[i]);
        spark_expect_failure(spark_rows_of(FIELD("x", VECTOR), ""), block, TFOS_CORRUPT, WORDS("column 'x', row 0"));
    }
    part *block = spark_part(0);
    add_vector(block, spark_ml_vector(0, INT32_MAX, spark_values(0, 4, NULL), spark_values(0, 8, NULL)));
    spark_expect_failure(spark_rows_of(FIELD("x", VECTOR), ""), block, TFOS_LIMIT, WORDS("column 'x'", "2147483647"));
}

static void test_sparse_vectors_do_not_fill_the_memory(void **state)
{
    (void)state;
    enum { SIZE = 100000, ROWS = 100 };
    part *block = spark_part(0);
    const part *vector = spark_ml_vector(0, SIZE, spark_values(0, 4, NULL), spark_values(0, 8, NULL));
    for (int i = 0; i < ROWS; i++) {
        add_vector(block, vector);
    }
    tfos_spark_rows *rows = spark_rows_of(FIELD("x", VECTOR), "");
    size_t used = 0;
    assert_int_equal(tfos_spark_rows_append(rows, block->data, block->size, &used, NULL), TFOS_OK);
    assert_true(tfos_spark_rows_full(rows));
    assert_true(used > 0 && used < block->size / 10);
    tfos_spark_rows_free(rows);
}

/* ---- rows of a real Spark ---- */

static helper_bytes vector_file(const char *name)
{
    char path[4096];
    assert_non_null(getenv("TFOS_TEST_VECTORS"));
    snprintf(path, sizeof path, "%s/%s", getenv("TFOS_TEST_VECTORS"), name);
    return helper_of_file(path);
}

static void test_rows_of_a_real_spark(void **state)
{
    (void)state;
    tfos_error error = {0};
    tfos_spark_rows *rows = NULL;
    helper_bytes columns = vector_file("spark_rows.columns.json");
    helper_bytes block = vector_file("spark_rows.block");
    helper_bytes lines = vector_file("spark_rows.jsonl");
    char *expected = strndup((const char *)lines.data, lines.count);
    size_t used = 0;
    if (tfos_spark_rows_new((const char *)columns.data, columns.count, &rows, &error) != TFOS_OK ||
        tfos_spark_rows_append(rows, block.data, block.count, &used, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(used, block.count);
    spark_expect_batch(rows, expected);
    free(expected);
    tfos_spark_rows_free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_scalars_of_every_type, spark_free),
        cmocka_unit_test_teardown(test_many_rows_make_batches, spark_free),
        cmocka_unit_test_teardown(test_casts_of_numbers, spark_free),
        cmocka_unit_test_teardown(test_casts_by_the_names_of_spark, spark_free),
        cmocka_unit_test_teardown(test_decimals_by_cast, spark_free),
        cmocka_unit_test_teardown(test_decimals_become_the_nearest_double, spark_free),
        cmocka_unit_test_teardown(test_lists_of_one_length_are_fixed, spark_free),
        cmocka_unit_test_teardown(test_lists_of_different_lengths_are_ragged, spark_free),
        cmocka_unit_test_teardown(test_a_declared_length_is_kept, spark_free),
        cmocka_unit_test_teardown(test_empty_lists_show_no_length, spark_free),
        cmocka_unit_test_teardown(test_lists_of_lists_are_feature_lists, spark_free),
        cmocka_unit_test_teardown(test_ml_vectors, spark_free),
        cmocka_unit_test_teardown(test_damaged_ml_vectors, spark_free),
        cmocka_unit_test_teardown(test_sparse_vectors_do_not_fill_the_memory, spark_free),
        cmocka_unit_test_setup_teardown(test_rows_of_a_real_spark, helper_setup, helper_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
