/* JSON lines: what is read, what is inferred, what is refused, what is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "helper_text.h"
#include "record/json_lines.h"

static tfos_status find_schema(const char *json, const char *text, size_t step, tfos_schema **out, tfos_error *error)
{
    if (json != NULL) {
        return tfos_schema_from_json(json, strlen(json), out, error);
    }
    helper_text source;
    tfos__json_survey *survey;
    assert_int_equal(tfos__json_survey_new(&survey, error), TFOS_OK);
    helper_text_open(&source, text, strlen(text), step);
    tfos_status status = tfos__json_survey_add(survey, &source.text, error);
    if (status == TFOS_OK) {
        status = tfos__json_survey_schema(survey, out, error);
    }
    tfos__json_survey_free(survey);
    helper_text_close(&source);
    return status;
}

static tfos_status read_text(const tfos_schema *schema, int64_t batch_rows, const char *text, size_t step, char **out,
                             tfos_error *error)
{
    helper_text source;
    tfos__json_reader *reader;
    tfos__buffer rows = {0};
    helper_text_open(&source, text, strlen(text), step);
    assert_int_equal(tfos__json_reader_open(schema, batch_rows, 1 << 20, &source.text, &reader, error), TFOS_OK);
    tfos_status status = TFOS_OK;
    while (status == TFOS_OK) {
        tfos_batch *batch;
        status = tfos__json_reader_next(reader, &batch, error);
        if (status == TFOS_OK) {
            assert_true(tfos_batch_rows(batch) >= 1 && tfos_batch_rows(batch) <= batch_rows);
            helper_show_batch(batch, &rows);
            tfos_batch_free(batch);
        }
    }
    tfos__json_reader_close(reader);
    helper_text_close(&source);
    *out = helper_string(&rows);
    tfos__buffer_reset(&rows);
    return status;
}

/* Reads `text` with the schema `json`, or an inferred one. */
static void expect_read(const char *json, const char *text, const char *types, const char *rows)
{
    static const size_t steps[] = {1, 5, 1 << 20};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        tfos_error error = {0};
        tfos_schema *schema;
        if (find_schema(json, text, steps[i], &schema, &error) != TFOS_OK) {
            fail_msg("%s", error.message);
        }
        char *found_types = helper_show_schema(schema);
        assert_string_equal(found_types, types);
        char *found;
        if (read_text(schema, i == 0 ? 1 : 100, text, steps[i], &found, &error) != TFOS_END) {
            fail_msg("%s", error.message);
        }
        assert_string_equal(found, rows);
        free(found);
        free(found_types);
        tfos_schema_free(schema);
    }
}

static void expect_failure(const char *json, const char *text, tfos_status expected, const char *message)
{
    tfos_error error = {0};
    tfos_schema *schema = NULL;
    tfos_status status = find_schema(json, text, 100, &schema, &error);
    if (status == TFOS_OK) {
        char *found;
        status = read_text(schema, 100, text, 100, &found, &error);
        free(found);
    }
    assert_string_equal(tfos_status_name(status), tfos_status_name(expected));
    assert_int_equal(error.status, expected);
    if (strstr(error.message, message) == NULL) {
        fail_msg("expected '%s' in '%s'", message, error.message);
    }
    tfos_schema_free(schema);
}

static void reads_types(void **state)
{
    (void)state;
    expect_read(NULL,
                "{\"i\": -5, \"f\": 1.5, \"s\": \"x\\u00e9\\n\", \"b\": true}\r\n\n"
                "  {\"i\": 9223372036854775807, \"f\": 2, \"s\": \"\", \"b\": false}",
                "i int64, f float, s string, b bool",
                "{\"i\": -5, \"f\": 1.5, \"s\": \"xé\\n\", \"b\": true}\n"
                "{\"i\": 9223372036854775807, \"f\": 2.0, \"s\": \"\", \"b\": false}\n");
}

static void reads_lists(void **state)
{
    (void)state;
    expect_read(NULL, "{\"l\": [1, 2], \"r\": [\"a\"], \"e\": []}\n{\"l\": [3, 4], \"r\": [], \"e\": []}\n",
                "l int64[2], r string[], e int64[]",
                "{\"l\": [1, 2], \"r\": [\"a\"], \"e\": []}\n{\"l\": [3, 4], \"r\": [], \"e\": []}\n");
}

static void reads_feature_lists(void **state)
{
    (void)state;
    const char *rows = "{\"id\": 7, \"frames\": [[1.0, 2.0], [3.0, 4.0]], \"words\": [[\"a\"], []]}\n"
                       "{\"id\": 8, \"frames\": [], \"words\": [[\"b\", \"c\"]]}\n";
    expect_read(NULL, rows, "id int64, frames list of float[2], words list of string[]", rows);
    /* An empty array may be the first that is seen of a list of lists. */
    expect_read(NULL, "{\"x\": []}\n{\"x\": [[1]]}\n{\"x\": []}\n", "x list of int64[1]",
                "{\"x\": []}\n{\"x\": [[1]]}\n{\"x\": []}\n");
    /* A null in it is a feature of no kind. */
    const char *gaps = "{\"x\": [null, [1]]}\n{\"x\": [[2], null]}\n";
    expect_read(NULL, gaps, "x list of int64[]", gaps);
    expect_read("{\"record\": \"sequence_example\", \"fields\": [{\"name\": \"x\", \"type\": \"int64\", "
                "\"feature_list\": true}]}",
                "{\"x\": [1, null]}\n", "x list of int64", "{\"x\": [1, null]}\n");
    expect_failure(NULL, "{\"x\": [[null]]}\n", TFOS_MISMATCH, "null inside an array");
    const char *all = "{\"x\": [null, null]}\n{\"x\": [[1, 2]]}\n{\"x\": [null]}\n";
    expect_read(NULL, all, "x list of int64[]", all);
    expect_failure(NULL, "{\"x\": [1]}\n{\"x\": [null]}\n", TFOS_MISMATCH, "line 2, column 'x': null inside an array");
    expect_failure(NULL, "{}\n{\"x\": [null]}\n{\"x\": [1]}\n", TFOS_MISMATCH, "line 2, column 'x': null inside");
    expect_failure(NULL, "{\"x\": [null]}\n", TFOS_MISMATCH, "line 1, column 'x': null inside an array");
}

static void reads_missing_values(void **state)
{
    (void)state;
    expect_read(NULL, "{\"a\": 1}\n{\"b\": [1]}\n{\"a\": null, \"c\": null}\n",
                "a int64 nullable, b int64[] nullable, c string nullable",
                "{\"a\": 1, \"b\": null, \"c\": null}\n{\"a\": null, \"b\": [1], \"c\": null}\n"
                "{\"a\": null, \"b\": null, \"c\": null}\n");
}

/* Nor may a short line ask for any amount of memory. */
static void bounds_missing_lists_of_a_line(void **state)
{
    (void)state;
    const char *json = "{\"record\": \"sequence_example\", \"fields\": [{\"name\": \"x\", \"type\": \"bool\", "
                       "\"shape\": [1000000], \"feature_list\": true}]}";
    char line[1000] = "{\"x\": [null";
    for (int i = 0; i < 69; i++) {
        strcat(line, ", null");
    }
    expect_failure(json, strcat(line, "]}\n"), TFOS_LIMIT, "line 1, column 'x': missing lists of 1000000 values");
}

/* A fixed list takes its full size also where it is missing. */
static void bounds_batches_of_missing_lists(void **state)
{
    (void)state;
    const char *json =
        "{\"fields\": [{\"name\": \"l\", \"type\": \"int64\", \"shape\": [100000], \"nullable\": true}]}";
    tfos__buffer text = {0};
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(tfos__buffer_append(&text, "{}\n", 3, NULL), TFOS_OK);
    }
    helper_text source;
    tfos_schema *schema;
    tfos__json_reader *reader;
    tfos_error error;
    assert_int_equal(tfos_schema_from_json(json, strlen(json), &schema, NULL), TFOS_OK);
    helper_text_open(&source, (const char *)text.data, text.size, 1 << 20);
    assert_int_equal(tfos__json_reader_open(schema, 1000, 1 << 20, &source.text, &reader, &error), TFOS_OK);
    int64_t rows = 0;
    tfos_batch *batch;
    while (tfos__json_reader_next(reader, &batch, &error) == TFOS_OK) {
        assert_true(tfos_batch_bytes(batch) <= 16 << 20);
        rows += tfos_batch_rows(batch);
        tfos_batch_free(batch);
    }
    assert_int_equal(rows, 1000);
    tfos__json_reader_close(reader);
    helper_text_close(&source);
    tfos_schema_free(schema);
    tfos__buffer_reset(&text);
}

static void reads_special_numbers(void **state)
{
    (void)state;
    expect_read(
        NULL,
        "{\"x\": \"NaN\", \"s\": \"NaN\"}\n{\"x\": 1, \"s\": \"x\"}\n{\"x\": \"-Infinity\", \"s\": \"Infinity\"}\n",
        "x float, s string",
        "{\"x\": \"NaN\", \"s\": \"NaN\"}\n{\"x\": 1.0, \"s\": \"x\"}\n{\"x\": \"-Infinity\", \"s\": \"Infinity\"}\n");
    expect_read(NULL, "{\"x\": 18446744073709551615}\n{\"x\": 0.5}\n", "x float",
                "{\"x\": 1.8446744e+19}\n{\"x\": 0.5}\n");
}

static void reads_with_schema(void **state)
{
    (void)state;
    const char *schema =
        "{\"fields\": [{\"name\": \"b\", \"type\": \"binary\", \"shape\": [2]},"
        "{\"name\": \"d\", \"type\": \"double\", \"nullable\": true}, {\"name\": \"ok\", \"type\": \"bool\"}]}";
    expect_read(
        schema,
        "{\"ok\": 1, \"unknown\": {}, \"b\": [\"AAEC\", \"\"], \"d\": 0.1}\n{\"ok\": false, \"b\": [\"\", \"/w==\"]}\n",
        "b binary[2], d double nullable, ok bool",
        "{\"b\": [\"AAEC\", \"\"], \"d\": 0.1, \"ok\": true}\n{\"b\": [\"\", \"/w==\"], \"d\": null, \"ok\": false}\n");
}

static void refuses_lines(void **state)
{
    (void)state;
    expect_failure(NULL, "{\"a\": 1}\n{\"a\": 1\n", TFOS_CORRUPT,
                   "in: line 2: not a line of JSON: the line ends before");
    expect_failure(NULL, "{\"a\": 1} x\n", TFOS_CORRUPT, "in: line 1: not a line of JSON");
    expect_failure(NULL, "[1]\n", TFOS_CORRUPT, "expected an object");
    expect_failure(NULL, "{\"a\": nope}\n", TFOS_CORRUPT, "in: line 1");
    expect_failure(NULL, "{\"a\": \"\xFF\"}\n", TFOS_CORRUPT, "in: line 1");
    expect_failure(NULL, "{\"a\": [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]}\n", TFOS_CORRUPT, "in: line 1");
    expect_failure(NULL, "\n\n", TFOS_INVALID, "no object with a key");
    expect_failure(NULL, "{\"a\": 1}\n{\"a\": \"x\"}\n", TFOS_MISMATCH,
                   "in: line 2, column 'a': expected a number as on the lines before, found a string");
    expect_failure(NULL, "{\"a\": true}\n{\"a\": 1}\n", TFOS_MISMATCH, "expected true or false as on the lines before");
    expect_failure(NULL, "{\"a\": \"NaN\"}\n{\"a\": true}\n", TFOS_MISMATCH, "expected a string");
    expect_failure(NULL, "{\"a\": [1]}\n{\"a\": 1}\n", TFOS_MISMATCH, "expected an array as on the lines before");
    expect_failure(NULL, "{\"a\": [1, null]}\n", TFOS_MISMATCH, "no missing values");
    expect_failure(NULL, "{\"a\": {\"b\": 1}}\n", TFOS_UNSUPPORTED, "in: line 1, column 'a': an object");
    expect_failure(NULL, "{\"a\": [[[1]]]}\n", TFOS_UNSUPPORTED, "nested");
    expect_failure(NULL, "{\"a\": [[1], 2]}\n", TFOS_MISMATCH, "expected an array of arrays");
    expect_failure(NULL, "{\"a\": 9223372036854775808}\n", TFOS_RANGE, "beyond int64");
    expect_failure(NULL, "{\"\": 1}\n", TFOS_INVALID, "in: line 1");
}

/* json-c cuts what is beyond 64 bits to the nearest that is not: that is another number. */
static void refuses_integers_beyond_64_bits(void **state)
{
    (void)state;
    const char *integer = "{\"fields\": [{\"name\": \"a\", \"type\": \"int64\"}]}";
    const char *real = "{\"fields\": [{\"name\": \"a\", \"type\": \"double\"}]}";
    static const char *const huge[] = {"-9223372036854775809", "-99999999999999999999999", "18446744073709551616",
                                       "99999999999999999999999"};
    for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++) {
        char line[200];
        char message[100];
        snprintf(line, sizeof line, "{\"a\": 1}\n{\"pad\": \"\\\"%s\", \"a\":%s}\n", huge[i], huge[i]);
        snprintf(message, sizeof message, "in: line 2: the integer %s is beyond int64", huge[i]);
        expect_failure(NULL, line, TFOS_RANGE, message);
        expect_failure(integer, line, TFOS_RANGE, message);
        expect_failure(real, line, TFOS_RANGE, message);
    }
    expect_read(NULL, "{\"a\": -9223372036854775808}\n", "a int64", "{\"a\": -9223372036854775808}\n");
    expect_read(NULL, "{\"a\": \"99999999999999999999999\"}\n", "a string", "{\"a\": \"99999999999999999999999\"}\n");
    expect_read(real, "{\"a\": 99999999999999999999999.5}\n{\"a\": 0.000000000000000000000001}\n{\"a\": 1e22}\n",
                "a double", "{\"a\": 1e+23}\n{\"a\": 1e-24}\n{\"a\": 1e+22}\n");
}

static void refuses_a_key_with_a_zero_byte(void **state)
{
    (void)state;
    const char *schema = "{\"fields\": [{\"name\": \"a\", \"type\": \"int64\"}]}";
    const char *line = "{\"a\": 1}\n{\"a\\u0000b\" : 1, \"a\": 2}\n";
    expect_failure(NULL, line, TFOS_ENCODING, "has a zero byte");
    expect_failure(schema, line, TFOS_ENCODING, "in: line 2: the key");
    /* In a value, and behind a backslash, it is nothing special. */
    const char *fine = "{\"a\": \"x\\u0000:\", \"b\\\\u0000\": 1}\n";
    expect_read(NULL, fine, "a string, b\\u0000 int64", fine);
}

static void refuses_values(void **state)
{
    (void)state;
    const char *number = "{\"fields\": [{\"name\": \"a\", \"type\": \"int32\"}]}";
    expect_failure(number, "{\"a\": 1}\n{\"a\": 2147483648}\n", TFOS_RANGE, "in: line 2, column 'a'");
    expect_failure(number, "{\"a\": 18446744073709551615}\n", TFOS_RANGE, "does not fit int32");
    expect_failure(number, "{\"a\": 1.0}\n", TFOS_MISMATCH, "expected int32, found a number with a fraction");
    expect_failure(number, "{\"a\": [1]}\n", TFOS_MISMATCH, "expected int32, found an array");
    expect_failure(number, "{\"a\": null}\n", TFOS_MISMATCH, "the value is null");
    expect_failure(number, "{}\n", TFOS_MISMATCH, "the value is missing");
    const char *real = "{\"fields\": [{\"name\": \"a\", \"type\": \"float\"}]}";
    expect_failure(real, "{\"a\": 1e39}\n", TFOS_RANGE, "does not fit float");
    expect_failure(real, "{\"a\": 1e400}\n", TFOS_RANGE, "the value 1e400 does not fit float");
    expect_failure(real, "{\"a\": \"one\"}\n", TFOS_MISMATCH, "expected float, found a string");
    const char *list = "{\"fields\": [{\"name\": \"a\", \"type\": \"int64\", \"shape\": [2]}]}";
    expect_failure(list, "{\"a\": [1]}\n", TFOS_MISMATCH, "expected a list of 2 values, found 1");
    expect_failure(list, "{\"a\": 1}\n", TFOS_MISMATCH, "expected an array of int64, found an integer");
    const char *binary = "{\"fields\": [{\"name\": \"a\", \"type\": \"binary\"}]}";
    expect_failure(binary, "{\"a\": \"a\"}\n", TFOS_INVALID, "expected base64");
    expect_failure(binary, "{\"a\": \"ab!=\"}\n", TFOS_INVALID, "character 2");
    expect_failure(binary, "{\"a\": \"ab==\"}\n", TFOS_INVALID, "expected base64");
}

static void writes_strings(void **state)
{
    (void)state;
    static const char bytes[] = "a\"\\\n\t\x01\xC3\xA9\xFF\x7F\xC2\x9B\xC2\xA0";
    tfos__buffer out = {0};
    assert_int_equal(tfos__json_write_string(bytes, sizeof bytes - 1, &out, NULL), TFOS_OK);
    char *found = helper_string(&out);
    assert_string_equal(found, "\"a\\\"\\\\\\n\\t\\u0001\xC3\xA9\xEF\xBF\xBD\\u007f\\u009b\xC2\xA0\"");
    free(found);
    tfos__buffer_reset(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_types),
        cmocka_unit_test(reads_lists),
        cmocka_unit_test(reads_feature_lists),
        cmocka_unit_test(reads_missing_values),
        cmocka_unit_test(reads_special_numbers),
        cmocka_unit_test(reads_with_schema),
        cmocka_unit_test(refuses_lines),
        cmocka_unit_test(refuses_values),
        cmocka_unit_test(writes_strings),
        cmocka_unit_test(refuses_integers_beyond_64_bits),
        cmocka_unit_test(refuses_a_key_with_a_zero_byte),
        cmocka_unit_test(bounds_missing_lists_of_a_line),
        cmocka_unit_test(bounds_batches_of_missing_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
