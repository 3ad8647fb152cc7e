/* Columns of Spark's batches to columns of ours: the same rows as from UnsafeRows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "helper_records.h"
#include "helper_spark.h"

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof((array)[0])))
#define NUMBERS(array) ((tfos_spark_vector){.length = COUNT(array), .values = (array)})
/* `starts` has one more element than there are rows. */
#define BYTES(text, starts) ((tfos_spark_vector){.length = COUNT(starts) - 1, .values = (text), .offsets = (starts)})
#define LISTS(starts, inner) ((tfos_spark_vector){.length = COUNT(starts) - 1, .offsets = (starts), .child = (inner)})

static void append(tfos_spark_rows *rows, const tfos_spark_vector *columns, int64_t first, int64_t count)
{
    tfos_error error = {0};
    int64_t used = -1;
    if (tfos_spark_rows_append_columns(rows, columns, first, count, &used, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(used, count);
}

/* Frees `rows`. */
static void expect_failure(tfos_spark_rows *rows, const tfos_spark_vector *columns, int64_t first, int64_t count,
                           tfos_status expected, const char *const *words)
{
    tfos_error error = {0};
    int64_t used = 77;
    assert_int_equal(tfos_spark_rows_append_columns(rows, columns, first, count, &used, &error), expected);
    assert_int_equal(used, 77);
    spark_expect_broken(rows, &error, expected, words);
}

/* ---- values ---- */

static void test_scalars_of_every_type(void **state)
{
    (void)state;
    const uint8_t booleans[] = {1, 0};
    const int8_t bytes[] = {-1, -2};
    const int16_t shorts[] = {100, 200};
    const int32_t ints[] = {-100000, -200000};
    const int64_t longs[] = {10000000000, 20000000000};
    const float floats[] = {0.5F, 1};
    const double doubles[] = {0.25, 0.5};
    const int32_t text_starts[] = {0, 2, 2};
    const int32_t binary_starts[] = {1, 4, 5};
    const int32_t dates[] = {1, 2};
    const int64_t times[] = {1000000, 2000000};
    const int64_t ntz[] = {-1, -2};
    const tfos_spark_vector columns[SCALARS] = {
        NUMBERS(booleans), NUMBERS(bytes),          NUMBERS(shorts),
        NUMBERS(ints),     NUMBERS(longs),          NUMBERS(floats),
        NUMBERS(doubles),  BYTES("é", text_starts), BYTES("?\xff\x00\x01!", binary_starts),
        NUMBERS(dates),    NUMBERS(times),          NUMBERS(ntz),
    };
    tfos_spark_rows *rows = spark_rows_of(spark_scalar_fields, "");
    append(rows, columns, 0, 2);
    append(rows, columns, 1, 1);
    assert_int_equal(tfos_spark_rows_count(rows), 3);
    const char *second = "{\"boolean\": false, \"byte\": -2, \"short\": 200, \"int\": -200000, \"long\": 20000000000, "
                         "\"float\": 1.0, \"double\": 0.5, \"string\": \"\", \"binary\": \"IQ==\", \"date\": 2, "
                         "\"time\": 2000000, \"ntz\": -2}\n";
    char expected[1024];
    snprintf(expected, sizeof expected,
             "{\"boolean\": true, \"byte\": -1, \"short\": 100, \"int\": -100000, \"long\": 10000000000, "
             "\"float\": 0.5, \"double\": 0.25, \"string\": \"é\", \"binary\": \"/wAB\", \"date\": 1, "
             "\"time\": 1000000, \"ntz\": -1}\n%s%s",
             second, second);
    spark_expect_batch(rows, expected);
    tfos_spark_rows_free(rows);
}

static void test_forms_say_how_columns_come(void **state)
{
    (void)state;
    static const tfos_spark_value expected[SCALARS] = {
        TFOS_SPARK_VALUE_BOOLEAN, TFOS_SPARK_VALUE_BYTE,  TFOS_SPARK_VALUE_SHORT,  TFOS_SPARK_VALUE_INT,
        TFOS_SPARK_VALUE_LONG,    TFOS_SPARK_VALUE_FLOAT, TFOS_SPARK_VALUE_DOUBLE, TFOS_SPARK_VALUE_BYTES,
        TFOS_SPARK_VALUE_BYTES,   TFOS_SPARK_VALUE_INT,   TFOS_SPARK_VALUE_LONG,   TFOS_SPARK_VALUE_LONG,
    };
    tfos_spark_form form;
    tfos_spark_rows *rows = spark_rows_of(spark_scalar_fields, "");
    for (size_t i = 0; i < SCALARS; i++) {
        assert_true(tfos_spark_rows_form(rows, i, &form));
        assert_int_equal(form.value, expected[i]);
        assert_int_equal(form.lists, 0);
        assert_int_equal(form.precision, 0);
    }
    tfos_spark_rows_free(rows);
    rows = spark_rows_of(
        SIMPLE("a", "decimal(9,2)") "," FIELD("b", ARRAY_OF(ARRAY_OF("\"decimal(38,3)\""))) "," FIELD("c", VECTOR),
        "{\"a\": {\"cast\": \"double\"}, \"b\": {\"cast\": \"double\"}}");
    assert_true(tfos_spark_rows_form(rows, 0, &form));
    assert_true(form.value == TFOS_SPARK_VALUE_LONG && form.lists == 0 && form.precision == 9 && form.scale == 2);
    assert_true(tfos_spark_rows_form(rows, 1, &form));
    assert_true(form.value == TFOS_SPARK_VALUE_BYTES && form.lists == 2 && form.precision == 38 && form.scale == 3);
    assert_false(tfos_spark_rows_form(rows, 2, &form));
    const tfos_spark_vector columns[3] = {{0}};
    expect_failure(rows, columns, 0, 0, TFOS_UNSUPPORTED, WORDS("column 'c'", "come in rows"));
}

static void test_casts_of_numbers(void **state)
{
    (void)state;
    const int64_t longs[] = {-7, (int64_t)INT32_MAX + 1};
    const double doubles[] = {0.1, 0};
    const uint8_t booleans[] = {1, 0};
    const tfos_spark_vector columns[] = {NUMBERS(longs), NUMBERS(doubles), NUMBERS(booleans)};
    tfos_spark_rows *rows =
        spark_rows_of(SIMPLE("a", "long") "," SIMPLE("b", "double") "," SIMPLE("c", "boolean"),
                      "{\"a\": {\"cast\": \"int32\"}, \"b\": {\"cast\": \"float\"}, \"c\": {\"cast\": \"int64\"}}");
    append(rows, columns, 0, 1);
    spark_expect_batch(rows, "{\"a\": -7, \"b\": 0.1, \"c\": 1}\n");
    expect_failure(rows, columns, 0, 2, TFOS_RANGE, WORDS("column 'a', row 2 of the partition", "2147483648", "int32"));
}

static void test_decimals_by_cast(void **state)
{
    (void)state;
    const int64_t small[] = {-12345, 0};
    const int32_t starts[] = {0, 2, 3};
    const tfos_spark_vector columns[] = {NUMBERS(small), BYTES("\xf8\x2f\xff", starts)};
    tfos_spark_rows *rows = spark_rows_of(SIMPLE("a", "decimal(10,2)") "," SIMPLE("b", "decimal(20,3)"),
                                          "{\"a\": {\"cast\": \"double\"}, \"b\": {\"cast\": \"string\"}}");
    append(rows, columns, 0, 2);
    spark_expect_batch(rows, "{\"a\": -123.45, \"b\": \"-2.001\"}\n{\"a\": 0.0, \"b\": \"-0.001\"}\n");
    const int32_t none[] = {0, 0};
    const tfos_spark_vector empty[] = {NUMBERS(small), BYTES("", none)};
    expect_failure(rows, empty, 0, 1, TFOS_CORRUPT, WORDS("column 'b', row 2", "a decimal has 1 to 16 bytes, found 0"));
}

/* ---- nulls ---- */

static void test_nulls_become_the_default(void **state)
{
    (void)state;
    const int32_t numbers[] = {1, 99, 99, 4, 99};
    const uint8_t nulls[] = {0, 1, 1, 0, 1};
    const uint8_t flags[] = {1, 0, 0, 1, 0};
    const int32_t starts[] = {0, 1, 1, 1, 2, 2};
    const tfos_spark_vector columns[] = {
        {.length = 5, .values = numbers, .nulls = nulls},
        {.length = 5, .values = flags, .nulls = nulls},
        {.length = 5, .values = "xy", .offsets = starts, .nulls = nulls},
    };
    tfos_spark_rows *rows =
        spark_rows_of(SIMPLE("n", "integer") "," SIMPLE("f", "boolean") "," SIMPLE("t", "string"),
                      "{\"n\": {\"default\": -1}, \"f\": {\"default\": true}, \"t\": {\"default\": \"none\"}}");
    append(rows, columns, 0, 5);
    spark_expect_batch(rows, "{\"n\": 1, \"f\": true, \"t\": \"x\"}\n"
                             "{\"n\": -1, \"f\": true, \"t\": \"none\"}\n"
                             "{\"n\": -1, \"f\": true, \"t\": \"none\"}\n"
                             "{\"n\": 4, \"f\": true, \"t\": \"y\"}\n"
                             "{\"n\": -1, \"f\": true, \"t\": \"none\"}\n");
    tfos_spark_rows_free(rows);
}

static void test_a_null_without_default_is_named(void **state)
{
    (void)state;
    const int32_t numbers[] = {1, 2, 3};
    const uint8_t nulls[] = {0, 0, 1};
    const tfos_spark_vector columns[] = {{.length = 3, .values = numbers, .nulls = nulls}};
    tfos_spark_rows *rows = spark_rows_of(SIMPLE("n", "integer"), "");
    tfos_spark_rows_skip(rows, 40);
    append(rows, columns, 0, 2);
    expect_failure(rows, columns, 1, 2, TFOS_MISMATCH, WORDS("column 'n', row 43 of the partition: the value is null"));
}

/* A value that a null hides is not looked at: it may be anything. */
static void test_hidden_values_need_not_fit(void **state)
{
    (void)state;
    const int64_t numbers[] = {1, INT64_MAX};
    const uint8_t nulls[] = {0, 1};
    const tfos_spark_vector columns[] = {{.length = 2, .values = numbers, .nulls = nulls}};
    tfos_spark_rows *rows = spark_rows_of(SIMPLE("n", "long"), "{\"n\": {\"cast\": \"int32\", \"default\": 0}}");
    append(rows, columns, 0, 2);
    spark_expect_batch(rows, "{\"n\": 1}\n{\"n\": 0}\n");
    tfos_spark_rows_free(rows);
}

/* ---- lists ---- */

static void test_lists_fixed_and_ragged(void **state)
{
    (void)state;
    const float values[] = {9, 1, 2, 3, 4, 5, 6};
    const int32_t pairs[] = {1, 3, 5};
    const int32_t uneven[] = {0, 0, 3};
    const tfos_spark_vector numbers = NUMBERS(values);
    const tfos_spark_vector columns[] = {LISTS(pairs, &numbers), LISTS(uneven, &numbers)};
    tfos_spark_rows *rows =
        spark_rows_of(FIELD("pair", ARRAY_OF("\"float\"")) "," FIELD("any", ARRAY_OF("\"float\"")), "");
    append(rows, columns, 0, 2);
    spark_expect_batch(rows, "{\"pair\": [1.0, 2.0], \"any\": []}\n{\"pair\": [3.0, 4.0], \"any\": [9.0, 1.0, 2.0]}\n");
    assert_int_equal(tfos_schema_field(tfos_spark_rows_schema(rows), 0)->shape, TFOS_SHAPE_FIXED);
    assert_int_equal(tfos_schema_field(tfos_spark_rows_schema(rows), 1)->shape, TFOS_SHAPE_RAGGED);
    const tfos_spark_vector others[] = {columns[1], columns[1]};
    expect_failure(rows, others, 1, 1, TFOS_MISMATCH,
                   WORDS("column 'pair', row 2", "expected a list of 2 values, as in the rows before, found 3"));
}

static void test_nulls_in_lists_and_of_lists(void **state)
{
    (void)state;
    const int64_t values[] = {1, 99, 3};
    const uint8_t value_nulls[] = {0, 1, 0};
    const uint8_t list_nulls[] = {0, 1, 0};
    const int32_t starts[] = {0, 2, 2, 3};
    const tfos_spark_vector numbers = {.length = 3, .values = values, .nulls = value_nulls};
    const tfos_spark_vector columns[] = {{.length = 3, .offsets = starts, .nulls = list_nulls, .child = &numbers}};
    const char *field = FIELD("l", ARRAY_OF("\"long\""));
    tfos_spark_rows *rows = spark_rows_of(field, "{\"l\": {\"shape\": [null], \"default\": -1}}");
    append(rows, columns, 0, 3);
    spark_expect_batch(rows, "{\"l\": [1, -1]}\n{\"l\": []}\n{\"l\": [3]}\n");
    tfos_spark_rows_free(rows);
    rows = spark_rows_of(field, "{\"l\": {\"shape\": [null], \"default\": [7, 8]}}");
    append(rows, columns, 1, 2);
    spark_expect_batch(rows, "{\"l\": [7, 8]}\n{\"l\": [3]}\n");
    expect_failure(rows, columns, 0, 1, TFOS_MISMATCH, WORDS("column 'l', row 2", "a value of the list is null"));
    expect_failure(spark_rows_of(field, ""), columns, 1, 1, TFOS_MISMATCH,
                   WORDS("column 'l', row 0", "the list is null"));
}

static void test_lists_of_lists(void **state)
{
    (void)state;
    const int32_t starts[] = {0, 1, 3, 3};
    const int32_t inner_starts[] = {0, 2, 2, 3};
    const int32_t outer_starts[] = {0, 2, 2, 3};
    const uint8_t list_nulls[] = {0, 0, 1};
    const tfos_spark_vector texts = BYTES("abc", starts);
    const tfos_spark_vector inner = {.length = 3, .offsets = inner_starts, .nulls = list_nulls, .child = &texts};
    const tfos_spark_vector columns[] = {LISTS(outer_starts, &inner)};
    tfos_spark_rows *rows = spark_rows_of(FIELD("l", ARRAY_OF(ARRAY_OF("\"string\""))),
                                          "{\"l\": {\"shape\": [null, null], \"default\": []}}");
    append(rows, columns, 0, 3);
    spark_expect_batch(rows, "{\"l\": [[\"a\", \"bc\"], []]}\n{\"l\": []}\n{\"l\": [[]]}\n");
    tfos_spark_rows_free(rows);
}

/* ---- many rows ---- */

/* Takes what is there; returns how many rows it was. */
static int64_t take_count(tfos_spark_rows *rows, int64_t expected_first)
{
    tfos_batch *batch = NULL;
    assert_int_equal(tfos_spark_rows_take(rows, &batch, NULL), TFOS_OK);
    const int64_t *numbers = tfos_batch_column(batch, 0)->data;
    int64_t count = tfos_batch_rows(batch);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(numbers[i], expected_first + i);
    }
    tfos_batch_free(batch);
    return count;
}

static void test_many_rows_make_batches(void **state)
{
    (void)state;
    enum { ROWS = 200000 };
    int64_t *numbers = malloc(ROWS * sizeof *numbers);
    assert_non_null(numbers);
    for (int64_t i = 0; i < ROWS; i++) {
        numbers[i] = i;
    }
    const tfos_spark_vector columns[] = {{.length = ROWS, .values = numbers}};
    tfos_spark_rows *rows = spark_rows_of(SIMPLE("n", "long"), "");
    int64_t at = 0;
    int64_t taken = 0;
    while (at < ROWS) {
        int64_t used = 0;
        assert_int_equal(tfos_spark_rows_append_columns(rows, columns, at, ROWS - at, &used, NULL), TFOS_OK);
        at += used;
        assert_true(at == ROWS || tfos_spark_rows_full(rows));
        taken += take_count(rows, taken);
        assert_int_equal(taken, at);
    }
    tfos_spark_rows_free(rows);
    free(numbers);
}

/* Large values do not make a batch that is much larger than others. */
static void test_large_values_make_small_batches(void **state)
{
    (void)state;
    enum { ROWS = 64, BYTES_EACH = 256 << 10 };
    int64_t numbers[ROWS];
    int32_t starts[ROWS + 1];
    uint8_t *bytes = calloc(ROWS, BYTES_EACH);
    assert_non_null(bytes);
    for (int i = 0; i <= ROWS; i++) {
        starts[i] = i * BYTES_EACH;
        numbers[i % ROWS] = i % ROWS;
    }
    const tfos_spark_vector columns[] = {NUMBERS(numbers), BYTES(bytes, starts)};
    tfos_spark_rows *rows = spark_rows_of(SIMPLE("n", "long") "," SIMPLE("b", "binary"), "");
    int64_t taken = 0;
    while (taken < ROWS) {
        int64_t used = 0;
        assert_int_equal(tfos_spark_rows_append_columns(rows, columns, taken, ROWS - taken, &used, NULL), TFOS_OK);
        assert_true(used > 0 && used <= 8);
        taken += take_count(rows, taken);
    }
    assert_int_equal(taken, ROWS);
    tfos_spark_rows_free(rows);
    free(bytes);
}

static void test_rows_and_columns_mix(void **state)
{
    (void)state;
    const int32_t numbers[] = {1, 2};
    const tfos_spark_vector columns[] = {NUMBERS(numbers)};
    tfos_spark_rows *rows = spark_rows_of(SIMPLE("n", "integer"), "");
    part *block = spark_part(0);
    part *row = spark_row(1);
    spark_put_long(row, spark_slot(1, 0), 5);
    spark_add_row(block, row);
    append(rows, columns, 0, 2);
    spark_append(rows, block);
    append(rows, columns, 1, 1);
    spark_expect_batch(rows, "{\"n\": 1}\n{\"n\": 2}\n{\"n\": 5}\n{\"n\": 2}\n");
    tfos_spark_rows_free(rows);
}

/* ---- bad input ---- */

static void test_damaged_vectors_are_refused(void **state)
{
    (void)state;
    const int64_t values[] = {1, 2, 3};
    const int32_t falling[] = {0, 2, 1};
    const int32_t negative[] = {-1, 2, 3};
    const int32_t beyond[] = {0, 1, 4};
    const tfos_spark_vector numbers = NUMBERS(values);
    const char *field = FIELD("l", ARRAY_OF("\"long\""));
    const struct {
        tfos_spark_vector vector;
        const char *word;
    } cases[] = {
        {LISTS(falling, &numbers), "offsets do not rise"},
        {LISTS(negative, &numbers), "offsets do not rise"},
        {LISTS(beyond, &numbers), "fewer values"},
        {LISTS(beyond, NULL), "lacks a level"},
        {{.length = 2, .child = &numbers}, "lacks a level"},
        {{.length = 1, .offsets = beyond, .child = &numbers}, "fewer values"},
        {{.length = 2, .offsets = beyond, .child = &(tfos_spark_vector){.length = 4}}, "no values"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_failure(spark_rows_of(field, ""), &cases[i].vector, 0, 2, TFOS_CORRUPT,
                       WORDS("column 'l'", "damaged", cases[i].word));
    }
    const tfos_spark_vector good[] = {NUMBERS(values)};
    expect_failure(spark_rows_of(SIMPLE("n", "long"), ""), good, 2, 2, TFOS_CORRUPT, WORDS("fewer values"));
    expect_failure(spark_rows_of(SIMPLE("n", "long"), ""), good, -1, 2, TFOS_CORRUPT, WORDS("fewer values"));
}

static void test_text_must_be_utf8(void **state)
{
    (void)state;
    const int32_t starts[] = {0, 1, 3};
    const tfos_spark_vector columns[] = {BYTES("a\xff\xfe", starts)};
    expect_failure(spark_rows_of(SIMPLE("t", "string"), ""), columns, 0, 2, TFOS_ENCODING,
                   WORDS("column 't', row 1", "invalid UTF-8"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars_of_every_type),
        cmocka_unit_test(test_forms_say_how_columns_come),
        cmocka_unit_test(test_casts_of_numbers),
        cmocka_unit_test(test_decimals_by_cast),
        cmocka_unit_test(test_nulls_become_the_default),
        cmocka_unit_test(test_a_null_without_default_is_named),
        cmocka_unit_test(test_hidden_values_need_not_fit),
        cmocka_unit_test(test_lists_fixed_and_ragged),
        cmocka_unit_test(test_nulls_in_lists_and_of_lists),
        cmocka_unit_test(test_lists_of_lists),
        cmocka_unit_test(test_many_rows_make_batches),
        cmocka_unit_test(test_large_values_make_small_batches),
        cmocka_unit_test_teardown(test_rows_and_columns_mix, spark_free),
        cmocka_unit_test(test_damaged_vectors_are_refused),
        cmocka_unit_test(test_text_must_be_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
