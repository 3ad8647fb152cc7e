/* Batches to Spark's rows: what is written is read again by the code that takes rows of Spark's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "helper_batches.h"
#include "helper_records.h"
#include "helper_sample.h"
#include "helper_spark.h"
#include "helper_text.h"

static char *show(const tfos_batch *batch)
{
    tfos__buffer text = {0};
    helper_show_batch(batch, &text);
    char *shown = helper_string(&text);
    tfos__buffer_reset(&text);
    return shown;
}

static tfos_spark_writer *writer_of(const char *fields)
{
    char schema[4096];
    tfos_spark_writer *writer = NULL;
    tfos_error error = {0};
    int bytes = snprintf(schema, sizeof schema, "{\"type\": \"struct\", \"fields\": [%s]}", fields);
    assert_int_equal(tfos_spark_writer_new(schema, (size_t)bytes, &writer, &error), TFOS_OK);
    return writer;
}

/* ---- every type ---- */

static tfos_schema *without_nulls(const tfos_schema *schema)
{
    tfos_schema *copy = NULL;
    assert_int_equal(tfos_schema_new(TFOS_RECORD_SEQUENCE, &copy, NULL), TFOS_OK);
    for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
        tfos_field field = *tfos_schema_field(schema, i);
        field.nullable = false;
        assert_int_equal(tfos_schema_add(copy, &field, NULL), TFOS_OK);
    }
    return copy;
}

static void expect_round_trip(const tfos_batch *batch)
{
    char *schema = NULL;
    tfos_spark_writer *writer = NULL;
    tfos_spark_rows *rows = NULL;
    tfos_batch *again = NULL;
    const void *block;
    size_t bytes, used;
    char description[16384];
    assert_int_equal(tfos_schema_to_spark(tfos_batch_schema(batch), &schema, NULL), TFOS_OK);
    assert_int_equal(tfos_spark_writer_new(schema, strlen(schema), &writer, NULL), TFOS_OK);
    assert_int_equal(tfos_spark_writer_write(writer, batch, 0, &block, &bytes, NULL), TFOS_OK);
    int length = snprintf(description, sizeof description, "{\"schema\": %s}", schema);
    assert_int_equal(tfos_spark_rows_new(description, (size_t)length, &rows, NULL), TFOS_OK);
    assert_int_equal(tfos_spark_rows_append(rows, block, bytes, &used, NULL), TFOS_OK);
    assert_int_equal(used, bytes);
    assert_int_equal(tfos_spark_rows_take(rows, &again, NULL), TFOS_OK);
    char *expected = show(batch);
    char *found = show(again);
    helper_expect_text(found, expected);
    free(expected);
    free(found);
    tfos_batch_free(again);
    tfos_spark_rows_free(rows);
    tfos_spark_writer_free(writer);
    tfos_string_free(schema);
}

static void test_random_batches_come_back(void **state)
{
    (void)state;
    uint64_t random = 5;
    for (int i = 0; i < 300; i++) {
        tfos_schema *any = helper_random_schema(&random, 8);
        tfos_schema *schema = without_nulls(any);
        tfos_batch *batch = helper_random_batch(schema, &random, 1 + (int64_t)(helper_random(&random) % 50));
        if (tfos_schema_field_count(schema) > 0) {
            expect_round_trip(batch);
        }
        tfos_batch_free(batch);
        tfos_schema_free(schema);
        tfos_schema_free(any);
    }
}

static void test_missing_values_are_nulls_of_sparks(void **state)
{
    (void)state;
    uint64_t random = 9;
    tfos_schema *schema = NULL;
    tfos_field field = {.name = "a", .type = TFOS_TYPE_STRING, .shape = TFOS_SHAPE_RAGGED, .nullable = true};
    assert_int_equal(tfos_schema_new(TFOS_RECORD_EXAMPLE, &schema, NULL), TFOS_OK);
    assert_int_equal(tfos_schema_add(schema, &field, NULL), TFOS_OK);
    tfos_batch *batch = helper_random_batch(schema, &random, 200);
    const tfos_vector *column = tfos_batch_column(batch, 0);
    tfos_spark_writer *writer = writer_of(FIELD("a", ARRAY_OF("\"string\"")));
    const void *block;
    size_t bytes;
    assert_true(column->null_count > 0);
    assert_int_equal(tfos_spark_writer_write(writer, batch, 0, &block, &bytes, NULL), TFOS_OK);
    const uint8_t *at = block;
    for (int64_t row = 0; row < 200; row++) {
        assert_int_equal(tfos__load_u64(at + 8), tfos__vector_is_null(column, row));
        at += 8 + tfos__load_u64(at);
    }
    assert_ptr_equal(at, (const uint8_t *)block + bytes);
    tfos_spark_writer_free(writer);
    tfos_batch_free(batch);
    tfos_schema_free(schema);
}

/* ---- results of programs ---- */

enum { ROWS = 2 };

static tfos_batch *noted_batch(const char *json, const tfos_vector *columns)
{
    tfos_schema *schema = NULL;
    tfos_batch *batch = NULL;
    tfos_error error = {0};
    assert_int_equal(tfos_schema_from_json(json, strlen(json), &schema, &error), TFOS_OK);
    assert_int_equal(tfos_batch_new(schema, columns, ROWS, &batch, &error), TFOS_OK);
    tfos_schema_free(schema);
    return batch;
}

#define NOTED(row, note_fields, fields)                                                                                \
    "{\"record\": \"example\", \"note\": \"{\\\"rows\\\": 1, \\\"row\\\": \\\"" row                                    \
    "\\\", \\\"fields\\\": [" note_fields "]}\", \"fields\": [" fields "]}"
#define NOTE(name, of) "{\\\"name\\\": \\\"" name "\\\", \\\"is\\\": \\\"value\\\", \\\"of\\\": \\\"" of "\\\"}"
#define ARRAY_NOTE(of, shape)                                                                                          \
    "{\\\"name\\\": \\\"value\\\", \\\"is\\\": \\\"array\\\", \\\"of\\\": \\\"" of "\\\", \\\"shape\\\": " shape "}"
#define COLUMN(name, type, shape) "{\"name\": \"" name "\", \"type\": \"" type "\", \"shape\": " shape "}"

/* Writes and reads again; the rows as JSON lines. */
static void expect_rows(const char *fields, tfos_batch *batch, const char *expected)
{
    tfos_spark_writer *writer = writer_of(fields);
    tfos_spark_rows *rows = spark_rows_of(fields, "");
    tfos_error error = {0};
    const void *block;
    size_t bytes, used;
    if (tfos_spark_writer_write(writer, batch, 0, &block, &bytes, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(tfos_spark_rows_append(rows, block, bytes, &used, NULL), TFOS_OK);
    spark_expect_batch(rows, expected);
    tfos_spark_rows_free(rows);
    tfos_spark_writer_free(writer);
    tfos_batch_free(batch);
}

static void expect_refusal(const char *fields, tfos_batch *batch, tfos_status status, const char *const *words)
{
    tfos_spark_writer *writer = writer_of(fields);
    tfos_error error = {0};
    const void *block;
    size_t bytes;
    assert_int_equal(tfos_spark_writer_write(writer, batch, 40, &block, &bytes, &error), status);
    for (; *words != NULL; words++) {
        if (strstr(error.message, *words) == NULL) {
            fail_msg("no '%s' in: %s", *words, error.message);
        }
    }
    tfos_spark_writer_free(writer);
    tfos_batch_free(batch);
}

static const int64_t longs[] = {7, -300};
static const double doubles[] = {0.5, 2};
static const tfos_vector long_column = {
    .layout = TFOS_LAYOUT_VALUES, .type = TFOS_TYPE_INT64, .length = ROWS, .data = longs};
static const tfos_vector double_column = {
    .layout = TFOS_LAYOUT_VALUES, .type = TFOS_TYPE_DOUBLE, .length = ROWS, .data = doubles};

static void test_columns_by_position_and_by_name(void **state)
{
    (void)state;
    const tfos_vector both[] = {long_column, double_column};
    const char *tuple = NOTED("tuple", NOTE("_1", "int") "," NOTE("_2", "float"),
                              COLUMN("_1", "int64", "[]") "," COLUMN("_2", "double", "[]"));
    const char *dict = NOTED("dict", NOTE("b", "int") "," NOTE("a", "float"),
                             COLUMN("b", "int64", "[]") "," COLUMN("a", "double", "[]"));
    expect_rows(SIMPLE("a", "short") "," SIMPLE("b", "float"), noted_batch(tuple, both),
                "{\"a\": 7, \"b\": 0.5}\n{\"a\": -300, \"b\": 2.0}\n");
    expect_rows(SIMPLE("a", "float") "," SIMPLE("b", "double"), noted_batch(dict, both),
                "{\"a\": 0.5, \"b\": 7.0}\n{\"a\": 2.0, \"b\": -300.0}\n");
    expect_refusal(SIMPLE("a", "float"), noted_batch(dict, both), TFOS_MISMATCH,
                   WORDS("result 40", "a column 'b', which schema= does not declare"));
    expect_refusal(SIMPLE("a", "float") "," SIMPLE("c", "long"), noted_batch(dict, both), TFOS_MISMATCH,
                   WORDS("result 40", "no column 'c'"));
    expect_refusal(SIMPLE("a", "float"), noted_batch(tuple, both), TFOS_MISMATCH,
                   WORDS("expected a result of 1 value,", "found a tuple or list of 2"));
}

static void test_types_that_do_not_go_together(void **state)
{
    (void)state;
    const char *real = NOTED("value", NOTE("value", "float"), COLUMN("value", "double", "[]"));
    const char *whole = NOTED("value", NOTE("value", "int"), COLUMN("value", "int64", "[]"));
    expect_refusal(SIMPLE("a", "integer"), noted_batch(real, &double_column), TFOS_MISMATCH,
                   WORDS("result 40", "expected int in column 'a', found double"));
    expect_refusal(SIMPLE("a", "string"), noted_batch(real, &double_column), TFOS_MISMATCH,
                   WORDS("expected string in column 'a', found double"));
    expect_refusal(FIELD("a", ARRAY_OF("\"double\"")), noted_batch(real, &double_column), TFOS_MISMATCH,
                   WORDS("expected array<double> in column 'a', found double"));
    expect_refusal(SIMPLE("a", "byte"), noted_batch(whole, &long_column), TFOS_RANGE,
                   WORDS("result 41", "column 'a'", "-300 does not fit byte"));
    expect_rows(SIMPLE("a", "date"), noted_batch(whole, &long_column), "{\"a\": 7}\n{\"a\": -300}\n");
}

static void test_bytes_of_numpy_are_numbers(void **state)
{
    (void)state;
    static const int32_t ends[] = {0, 2, 4};
    static const uint16_t halves[] = {0x3800, 0xC000}; /* 0.5, -2 */
    static const uint8_t small[] = {1, 200, 3, 4};
    const tfos_vector half = {
        .layout = TFOS_LAYOUT_BYTES, .type = TFOS_TYPE_BINARY, .length = ROWS, .offsets = ends, .data = halves};
    const tfos_vector bytes = {
        .layout = TFOS_LAYOUT_BYTES, .type = TFOS_TYPE_BINARY, .length = ROWS, .offsets = ends, .data = small};
    const char *value = NOTED("value", NOTE("value", "numpy e"), COLUMN("value", "binary", "[]"));
    const char *array = NOTED("value", ARRAY_NOTE("numpy B", "[1, 2]"), COLUMN("value", "binary", "[]"));
    const char *pickled = NOTED("value", NOTE("value", "pickle"), COLUMN("value", "binary", "[]"));
    expect_rows(SIMPLE("a", "float"), noted_batch(value, &half), "{\"a\": 0.5}\n{\"a\": -2.0}\n");
    expect_rows(FIELD("a", ARRAY_OF("\"short\"")), noted_batch(array, &bytes), "{\"a\": [1, 200]}\n{\"a\": [3, 4]}\n");
    expect_rows(FIELD("a", ARRAY_OF(ARRAY_OF("\"double\""))), noted_batch(array, &bytes),
                "{\"a\": [[1.0, 200.0]]}\n{\"a\": [[3.0, 4.0]]}\n");
    expect_refusal(FIELD("a", ARRAY_OF("\"byte\"")), noted_batch(array, &bytes), TFOS_RANGE,
                   WORDS("result 40: column 'a': the value 200 does not fit array<byte>"));
    expect_refusal(SIMPLE("a", "binary"), noted_batch(pickled, &bytes), TFOS_MISMATCH,
                   WORDS("expected binary in column 'a', found an object of Python's"));
}

static void test_bytes_are_text_where_they_are(void **state)
{
    (void)state;
    static const int32_t ends[] = {0, 2, 4};
    const tfos_vector good = {
        .layout = TFOS_LAYOUT_BYTES, .type = TFOS_TYPE_BINARY, .length = ROWS, .offsets = ends, .data = "abcd"};
    const tfos_vector bad = {
        .layout = TFOS_LAYOUT_BYTES, .type = TFOS_TYPE_BINARY, .length = ROWS, .offsets = ends, .data = "abc\xFF"};
    const char *schema = NOTED("value", NOTE("value", "bytes"), COLUMN("value", "binary", "[]"));
    expect_rows(SIMPLE("a", "string"), noted_batch(schema, &good), "{\"a\": \"ab\"}\n{\"a\": \"cd\"}\n");
    expect_refusal(SIMPLE("a", "string"), noted_batch(schema, &bad), TFOS_ENCODING,
                   WORDS("result 41: column 'a'", "no UTF-8", "declare binary"));
}

static void test_lists_of_one_value_are_scalars(void **state)
{
    (void)state;
    const tfos_vector list = {.layout = TFOS_LAYOUT_FIXED_LIST,
                              .type = TFOS_TYPE_DOUBLE,
                              .list_length = 1,
                              .length = ROWS,
                              .child = &double_column};
    const char *schema = NOTED("value", ARRAY_NOTE("numpy d", "[1]"), COLUMN("value", "double", "[1]"));
    expect_rows(SIMPLE("a", "float"), noted_batch(schema, &list), "{\"a\": 0.5}\n{\"a\": 2.0}\n");
    expect_rows(FIELD("a", ARRAY_OF("\"float\"")), noted_batch(schema, &list), "{\"a\": [0.5]}\n{\"a\": [2.0]}\n");
}

static void test_schemas_that_cannot_be(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        tfos_status status;
        const char *word;
    } cases[] = {
        {"[]", TFOS_INVALID, "no Spark schema"},
        {"{\"type\": \"struct\", \"fields\": []}", TFOS_INVALID, "1 to"},
        {"{\"type\": \"struct\", \"fields\": [" SIMPLE("a", "decimal(3,1)") "]}", TFOS_UNSUPPORTED, "decimal(3,1)"},
        {"{\"type\": \"struct\", \"fields\": [" FIELD("a", "{\"type\": \"map\"}") "]}", TFOS_UNSUPPORTED, "map"},
        {"{\"type\": \"struct\", \"fields\": [" FIELD("a", ARRAY_OF(ARRAY_OF(ARRAY_OF("\"long\"")))) "]}",
         TFOS_UNSUPPORTED, "array"},
        {"{\"type\": \"struct\", \"fields\": [7]}", TFOS_UNSUPPORTED, "column"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tfos_spark_writer *writer = NULL;
        tfos_error error = {0};
        assert_int_equal(tfos_spark_writer_new(cases[i].text, strlen(cases[i].text), &writer, &error), cases[i].status);
        assert_non_null(strstr(error.message, cases[i].word));
        assert_null(writer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_batches_come_back),
        cmocka_unit_test(test_missing_values_are_nulls_of_sparks),
        cmocka_unit_test_teardown(test_columns_by_position_and_by_name, spark_free),
        cmocka_unit_test_teardown(test_types_that_do_not_go_together, spark_free),
        cmocka_unit_test_teardown(test_bytes_of_numpy_are_numbers, spark_free),
        cmocka_unit_test_teardown(test_bytes_are_text_where_they_are, spark_free),
        cmocka_unit_test_teardown(test_lists_of_one_value_are_scalars, spark_free),
        cmocka_unit_test(test_schemas_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
