/* What cannot be fed: nulls, nonsense, and columns that are not for TensorFlow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "helper_spark.h"

/* ---- nulls ---- */

static void test_a_null_without_default_is_named(void **state)
{
    (void)state;
    part *block = spark_part(0);
    spark_add_row(block, spark_scalar_row(1, "a"));
    part *row = spark_scalar_row(2, "b");
    spark_set_null(row, 6);
    spark_add_row(block, row);
    spark_expect_failure(spark_rows_of(spark_scalar_fields, ""), block, TFOS_MISMATCH,
                         WORDS("column 'double', row 1 of the partition", "null", "default"));
}

static void test_defaults_stand_for_nulls(void **state)
{
    (void)state;
    tfos_spark_rows *rows = spark_rows_of(
        spark_scalar_fields,
        "{\"boolean\": {\"default\": true}, \"byte\": {\"default\": -1}, \"short\": {\"default\": 2}, \"int\": "
        "{\"default\": 3}, \"long\": {\"default\": 4}, \"float\": {\"default\": 5}, \"double\": {\"default\": 6.5}, "
        "\"string\": {\"default\": \"none\"}, \"binary\": {\"default\": \"\"}, \"date\": {\"default\": 7}, \"time\": "
        "{\"default\": 8}, \"ntz\": {\"default\": 9}}");
    part *block = spark_part(0);
    part *row = spark_scalar_row(1, "a");
    for (size_t i = 0; i < SCALARS; i++) {
        spark_set_null(row, i);
    }
    spark_add_row(block, row);
    spark_add_row(block, spark_scalar_row(1, "a"));
    spark_append(rows, block);
    spark_expect_batch(rows,
                       "{\"boolean\": true, \"byte\": -1, \"short\": 2, \"int\": 3, \"long\": 4, \"float\": 5.0, "
                       "\"double\": 6.5, \"string\": \"none\", \"binary\": \"\", \"date\": 7, \"time\": 8, \"ntz\": "
                       "9}\n"
                       "{\"boolean\": true, \"byte\": -1, \"short\": 100, \"int\": -100000, \"long\": 10000000000, "
                       "\"float\": 0.5, \"double\": 0.25, \"string\": \"a\", \"binary\": \"/wAB\", \"date\": 1, "
                       "\"time\": 1000000, \"ntz\": -1}\n");
    tfos_spark_rows_free(rows);
}

/* A block of one row: [1, null, 3], or null. */
static part *list_with_null(bool whole)
{
    part *row = spark_row(1);
    part *block = spark_part(0);
    part *array = spark_values(3, 4, (float[]){1, 0, 3});
    tfos__bit_set(array->data + 8, 1);
    spark_put(row, spark_slot(1, 0), array);
    if (whole) {
        spark_set_null(row, 0);
    }
    spark_add_row(block, row);
    return block;
}

static void test_nulls_in_lists(void **state)
{
    (void)state;
    const char *field = FIELD("x", ARRAY_OF("\"float\""));
    spark_expect_failure(spark_rows_of(field, ""), list_with_null(false), TFOS_MISMATCH,
                         WORDS("column 'x', row 0", "null"));
    spark_expect_failure(spark_rows_of(field, ""), list_with_null(true), TFOS_MISMATCH,
                         WORDS("column 'x', row 0", "null"));
    spark_expect_failure(spark_rows_of(field, "{\"x\": {\"default\": 9}}"), list_with_null(true), TFOS_MISMATCH,
                         WORDS("column 'x', row 0", "declare the shape"));
    spark_expect_failure(spark_rows_of(field, "{\"x\": {\"default\": [9]}}"), list_with_null(false), TFOS_MISMATCH,
                         WORDS("column 'x', row 0", "a value of the list is null"));
    static const struct {
        const char *columns;
        bool whole;
        const char *expected;
    } cases[] = {
        {"{\"x\": {\"default\": 9}}", false, "{\"x\": [1.0, 9.0, 3.0]}\n"},
        {"{\"x\": {\"default\": 9, \"shape\": [2]}}", true, "{\"x\": [9.0, 9.0]}\n"},
        {"{\"x\": {\"default\": 9, \"shape\": [null]}}", true, "{\"x\": []}\n"},
        {"{\"x\": {\"default\": [7, 8]}}", true, "{\"x\": [7.0, 8.0]}\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tfos_spark_rows *rows = spark_rows_of(field, cases[i].columns);
        spark_append(rows, list_with_null(cases[i].whole));
        spark_expect_batch(rows, cases[i].expected);
        tfos_spark_rows_free(rows);
    }
}

static void test_nulls_in_lists_of_lists(void **state)
{
    (void)state;
    const char *field = FIELD("x", ARRAY_OF(ARRAY_OF("\"integer\"")));
    part *row = spark_lists_row(2, (size_t[]){1, 1});
    size_t outer = (size_t)(tfos__load_u64(row->data + spark_slot(1, 0)) >> 32);
    tfos__bit_set(row->data + outer + 8, 0);
    part *block = spark_part(0);
    spark_add_row(block, row);
    spark_expect_failure(spark_rows_of(field, ""), block, TFOS_MISMATCH,
                         WORDS("column 'x', row 0", "the list is null"));
    tfos_spark_rows *rows = spark_rows_of(field, "{\"x\": {\"default\": 5, \"shape\": [null, 1]}}");
    spark_append(rows, block);
    spark_set_null(row, 0);
    block->size = 0;
    spark_add_row(block, row);
    spark_append(rows, block);
    spark_expect_batch(rows, "{\"x\": [[5], [10]]}\n{\"x\": []}\n");
    tfos_spark_rows_free(rows);
}

/* ---- nonsense ---- */

/* Not even the size of a row is there. The memory is as long as the block, so that the sanitizer sees a byte too far.
 */
static void expect_cut(size_t bytes)
{
    uint8_t *block = malloc(bytes);
    assert_non_null(block);
    memset(block, 0xFF, bytes);
    part cut = {.data = block, .size = bytes};
    spark_expect_failure(spark_rows_of(SIMPLE("x", "long"), ""), &cut, TFOS_CORRUPT, WORDS("row 0 of the partition"));
    free(block);
}

static void test_sizes_of_rows_are_checked(void **state)
{
    (void)state;
    const char *field = SIMPLE("x", "long");
    static const uint64_t sizes[] = {0, 8, 15, 17, UINT64_MAX, (uint64_t)1 << 63};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        part *block = spark_part(0);
        spark_add_row(block, spark_row(1));
        tfos__store_u64(block->data, sizes[i]);
        spark_expect_failure(spark_rows_of(field, ""), block, TFOS_CORRUPT, WORDS("row 0 of the partition"));
    }
    for (size_t bytes = 1; bytes < 8; bytes++) {
        expect_cut(bytes);
    }
}

/* Every word of a row of lists and strings is overwritten with nonsense: an error or not, never a fault. The block is
 * exactly as long as its memory, so that the sanitizer sees a byte too far. */
static void test_no_word_of_a_row_can_make_us_fault(void **state)
{
    (void)state;
    const char *fields = SIMPLE("a", "string") "," FIELD("b", ARRAY_OF("\"string\"")) "," FIELD(
        "c", ARRAY_OF(ARRAY_OF("\"double\""))) "," FIELD("d", VECTOR) "," SIMPLE("e", "decimal(30,2)");
    part *row = spark_row(5);
    part *block = spark_part(0);
    part *words = spark_array(1, 8);
    part *lists = spark_array(1, 8);
    spark_put_bytes(words, spark_element(1, 8, 0), "word", 4);
    spark_put(lists, spark_element(1, 8, 0), spark_values(2, 8, (double[]){1, 2}));
    spark_put_bytes(row, spark_slot(5, 0), "text", 4);
    spark_put(row, spark_slot(5, 1), words);
    spark_put(row, spark_slot(5, 2), lists);
    spark_put(row, spark_slot(5, 3),
              spark_ml_vector(0, 3, spark_values(1, 4, (int32_t[]){1}), spark_values(1, 8, (double[]){5})));
    spark_put_bytes(row, spark_slot(5, 4), "\x01\x02", 2);
    spark_add_row(block, row);
    static const uint64_t nonsense[] = {UINT64_MAX,
                                        0,
                                        1,
                                        (uint64_t)1 << 63,
                                        (uint64_t)8 << 32,
                                        (uint64_t)8 << 32 | 8,
                                        UINT32_MAX,
                                        (uint64_t)UINT32_MAX << 32,
                                        0x2000000000000000u,
                                        (uint64_t)16 << 32 | 0xffffff00u};
    int failures = 0;
    for (size_t word = 0; word < block->size / 8; word++) {
        for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
            uint8_t *bytes = malloc(block->size);
            assert_non_null(bytes);
            memcpy(bytes, block->data, block->size);
            tfos__store_u64(bytes + word * 8, nonsense[i]);
            tfos_spark_rows *rows = spark_rows_of(fields, "{\"e\": {\"cast\": \"double\"}}");
            size_t used;
            failures += tfos_spark_rows_append(rows, bytes, block->size, &used, NULL) != TFOS_OK;
            tfos_spark_rows_free(rows);
            free(bytes);
        }
    }
    assert_true(failures > 50);
}

static void test_text_that_is_none(void **state)
{
    (void)state;
    part *row = spark_row(1);
    part *block = spark_part(0);
    spark_put_bytes(row, spark_slot(1, 0), "a\xff", 2);
    spark_add_row(block, row);
    spark_expect_failure(spark_rows_of(SIMPLE("x", "string"), ""), block, TFOS_ENCODING,
                         WORDS("column 'x', row 0", "UTF-8"));
}

/* ---- descriptions ---- */

static void test_descriptions_that_cannot_be(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        const char *columns;
        tfos_status status;
        const char *words;
    } cases[] = {
        {"", "", TFOS_INVALID, "columns, found 0"},
        {SIMPLE("x", "decimal(10,2)"), "", TFOS_UNSUPPORTED, "column 'x': TensorFlow has no decimals"},
        {SIMPLE("x", "decimal(99,2)"), "", TFOS_UNSUPPORTED, "column 'x'"},
        {SIMPLE("x", "interval day to second"), "", TFOS_UNSUPPORTED, "column 'x': values of Spark's type 'interval"},
        {SIMPLE("x", "void"), "", TFOS_UNSUPPORTED, "column 'x'"},
        {FIELD("x", "{\"type\": \"struct\", \"fields\": []}"), "", TFOS_UNSUPPORTED, "column 'x': a struct cannot"},
        {FIELD("x", "{\"type\": \"map\"}"), "", TFOS_UNSUPPORTED, "column 'x': a map cannot"},
        {FIELD("x", "{\"type\": \"udt\", \"class\": \"a.B\"}"), "", TFOS_UNSUPPORTED, "column 'x'"},
        {FIELD("x", "7"), "", TFOS_UNSUPPORTED, "column 'x'"},
        {FIELD("x", ARRAY_OF(ARRAY_OF(ARRAY_OF("\"long\"")))), "", TFOS_UNSUPPORTED, "column 'x': arrays are fed"},
        {SIMPLE("x", "long") "," SIMPLE("x", "long"), "", TFOS_INVALID, "twice"},
        {SIMPLE("x", "long"), "{\"y\": {}}", TFOS_INVALID, "there is no column 'y'; the columns are: x"},
        {SIMPLE("x", "long"), "{\"x\": 1}", TFOS_INVALID, "column 'x'"},
        {SIMPLE("x", "long"), "{\"x\": {\"defualt\": 1}}", TFOS_INVALID, "column 'x': unknown option \"defualt\""},
        {SIMPLE("x", "long"), "{\"x\": {\"default\": 1.5}}", TFOS_INVALID, "column 'x': the default must be"},
        {SIMPLE("x", "long"), "{\"x\": {\"default\": null}}", TFOS_INVALID, "column 'x': the default must be"},
        {SIMPLE("x", "long"), "{\"x\": {\"default\": [1]}}", TFOS_INVALID, "column 'x': the default must be"},
        {SIMPLE("x", "byte"), "{\"x\": {\"default\": 4294967296}}", TFOS_RANGE, "column 'x'"},
        {SIMPLE("x", "long"), "{\"x\": {\"cast\": \"string\"}}", TFOS_UNSUPPORTED, "column 'x': long cannot"},
        {SIMPLE("x", "long"), "{\"x\": {\"cast\": \"number\"}}", TFOS_INVALID, "column 'x': unknown type"},
        {SIMPLE("x", "long"), "{\"x\": {\"shape\": [1]}}", TFOS_INVALID, "column 'x': the \"shape\" of long"},
        {FIELD("x", ARRAY_OF("\"long\"")), "{\"x\": {\"shape\": [-1]}}", TFOS_INVALID, "column 'x': the \"shape\""},
        {FIELD("x", ARRAY_OF("\"long\"")), "{\"x\": {\"shape\": [2, 2]}}", TFOS_INVALID, "column 'x': the \"shape\""},
        {FIELD("x", ARRAY_OF(ARRAY_OF("\"long\""))), "{\"x\": {\"shape\": [2, 2]}}", TFOS_INVALID, "flatten()"},
        {FIELD("x", ARRAY_OF("\"long\"")), "{\"x\": {\"shape\": [2], \"default\": [1]}}", TFOS_INVALID, "has 1 values"},
        {SIMPLE("x", "long"), "[]", TFOS_INVALID, "\"columns\" is no object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tfos_error error = {0};
        tfos_spark_rows *rows = NULL;
        tfos_status status = spark_describe(cases[i].fields, cases[i].columns, &rows, &error);
        if (status != cases[i].status || strstr(error.message, cases[i].words) == NULL) {
            fail_msg("%s %s: %s: %s", cases[i].fields, cases[i].columns, tfos_status_name(status), error.message);
        }
    }
    tfos_spark_rows *rows = NULL;
    assert_int_equal(tfos_spark_rows_new("{", 1, &rows, NULL), TFOS_INVALID);
    assert_int_equal(tfos_spark_rows_new("{}", 2, &rows, NULL), TFOS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_null_without_default_is_named, spark_free),
        cmocka_unit_test_teardown(test_defaults_stand_for_nulls, spark_free),
        cmocka_unit_test_teardown(test_nulls_in_lists, spark_free),
        cmocka_unit_test_teardown(test_nulls_in_lists_of_lists, spark_free),
        cmocka_unit_test_teardown(test_sizes_of_rows_are_checked, spark_free),
        cmocka_unit_test_teardown(test_no_word_of_a_row_can_make_us_fault, spark_free),
        cmocka_unit_test_teardown(test_text_that_is_none, spark_free),
        cmocka_unit_test_teardown(test_descriptions_that_cannot_be, spark_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
