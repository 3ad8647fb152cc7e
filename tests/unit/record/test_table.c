/* Tables: options by their names, what follows from them, and schemas that are found in parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "helper_records.h"

static tfos_table *table_of(const char *options)
{
    tfos_table *table = NULL;
    tfos_error error = {0};
    if (tfos_table_new(options, strlen(options), &table, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    return table;
}

static void expect_refused(const char *options, const char *part)
{
    tfos_table *table = NULL;
    tfos_error error = {0};
    assert_int_equal(tfos_table_new(options, strlen(options), &table, &error), TFOS_INVALID);
    helper_expect_in(error.message, part);
    assert_null(table);
}

static void test_options(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        const char *ending;
    } codecs[] = {
        {"{}", ".tfrecord"},
        {"{\"codec\": \"\"}", ".tfrecord"},
        {"{\"codec\": \"GZIP\"}", ".tfrecord.gz"},
        {"{\"compression\": \"deflate\"}", ".tfrecord.deflate"},
        {"{\"codec\": \"org.apache.hadoop.io.compress.DefaultCodec\"}", ".tfrecord.deflate"},
        {"{\"codec\": \"uncompressed\", \"index\": \"true\"}", ".tfrecord"},
    };
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        tfos_table *table = table_of(codecs[i].options);
        assert_string_equal(tfos_table_ending(table), codecs[i].ending);
        tfos_table_free(table);
    }
    tfos_table *table = table_of(
        "{\"RECORDTYPE\": \"sequenceexample\", \"onCorrupt\": \"skip\", \"inferSample\": \"10\", \"x\": \"y\"}");
    assert_int_equal(tfos_table_record(table), TFOS_RECORD_SEQUENCE);
    assert_true(tfos_table_skips(table));
    assert_int_equal(tfos_table_sample(table), 10);
    assert_true(tfos_table_splits(table, "a/part-0"));
    assert_false(tfos_table_splits(table, "a/part-0.gz"));
    tfos_table_free(table);
    assert_true(tfos_table_holds("x.tfrecord"));
    assert_false(tfos_table_holds("x.tfrecord.tfindex"));
}

static void test_options_that_are_wrong(void **state)
{
    (void)state;
    expect_refused("{\"codec\": \"lz4\"}", "option codec: expected none, gzip or zlib, found 'lz4'");
    expect_refused("{\"recordType\": \"\"}", "option recordType: expected Example, SequenceExample or ByteArray");
    expect_refused("{\"onCorrupt\": \"no\"}", "option onCorrupt: expected fail or skip, found 'no'");
    expect_refused("{\"inferSample\": \"-1\"}", "option inferSample: expected a number of records, or all");
    expect_refused("{\"index\": \"yes\"}", "option index: expected true or false, found 'yes'");
    expect_refused("{\"index\": \"true\", \"codec\": \"gzip\"}", "options index and codec");
    expect_refused("{\"codec\": 1}", "option codec: expected a text");
    expect_refused("[]", "options must be a JSON object of texts");
    expect_refused("{", "options must be a JSON object of texts");
}

/* ---- surveys ---- */

static char *survey_of(const tfos_table *table, const char *path)
{
    char *found = NULL;
    tfos_error error = {0};
    const tfos_file_part part = {.path = path, .end = -1};
    if (tfos_table_survey(table, &part, 1, NULL, NULL, NULL, &found, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    return found;
}

static const char *write_file(void **state, const char *name, helper_bytes record)
{
    const char *path = helper_path(state, name);
    helper_to_file(path, helper_frame(record));
    return path;
}

static void test_schemas_are_found_in_parts(void **state)
{
    tfos_table *table = table_of("{}");
    const char *const paths[] = {
        write_file(state, "a", EXAMPLE(helper_entry("x", INTS(1)), helper_entry("s", STRINGS("text")))),
        write_file(state, "b", EXAMPLE(helper_entry("x", INTS(1, 2)), helper_entry("f", FLOATS(0.5F)))),
        write_file(state, "c", EXAMPLE(helper_entry("s", STRINGS("\xFF")))),
    };
    char *found[4];
    for (size_t i = 0; i < 3; i++) {
        found[i] = survey_of(table, paths[i]);
    }
    char *schema = NULL;
    assert_int_equal(tfos_table_schema(table, (const char *const *)found, 3, &schema, NULL), TFOS_OK);
    helper_expect_in(schema, "\"name\":\"f\",\"nullable\":true,\"metadata\":{},\"type\":\"float\"");
    helper_expect_in(schema, "\"name\":\"s\",\"nullable\":true,\"metadata\":{},\"type\":\"binary\"");
    helper_expect_in(schema, "\"name\":\"x\",\"nullable\":true,\"metadata\":{},\"type\":{\"type\":\"array\"");
    tfos_string_free(schema);
    /* What contradicts is told with both places. */
    tfos_error error = {0};
    found[3] = survey_of(table, write_file(state, "d", EXAMPLE(helper_entry("f", INTS(3)))));
    assert_int_equal(tfos_table_schema(table, (const char *const *)found, 4, &schema, &error), TFOS_MISMATCH);
    helper_expect_in(error.message, "feature 'f' changes its kind: float at offset 0 of ");
    helper_expect_in(error.message, "/b, int64 at offset 0 of ");
    helper_expect_in(error.message, "/d");
    for (size_t i = 0; i < 4; i++) {
        tfos_string_free(found[i]);
    }
    tfos_table_free(table);
}

static void test_surveys_that_are_none(void **state)
{
    (void)state;
    static const char *const nonsense[] = {
        "",
        "[]",
        "{}",
        "{\"features\": 1}",
        "{\"features\": [1]}",
        "{\"features\": [{\"name\": \"x\", \"kind\": 9}]}",
        "{\"features\": [{\"kind\": 1}]}",
        "{\"features\": [{\"name\": \"x\", \"kind\": 3}]}",
        "{\"features\": [], \"records\": -1}",
        "{\"features\": [{\"name\": \"x\", \"kind\": 3, \"path\": \"p\", \"present\": -5}]}",
    };
    tfos_table *table = table_of("{}");
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        char *schema = NULL;
        tfos_error error = {0};
        assert_int_equal(tfos_table_schema(table, &nonsense[i], 1, &schema, &error), TFOS_INVALID);
        helper_expect_in(error.message, "expected the findings of another survey");
    }
    char *schema = NULL;
    tfos_error error = {0};
    assert_int_equal(tfos_table_schema(table, NULL, 0, &schema, &error), TFOS_NOT_FOUND);
    tfos_table_free(table);
}

static void test_a_sample(void **state)
{
    tfos_table *table = table_of("{\"inferSample\": \"1\"}");
    const tfos_file_part parts[] = {
        {.path = write_file(state, "a", EXAMPLE(helper_entry("x", INTS(1)))), .end = -1},
        {.path = "/no/such/file", .end = -1},
    };
    char *found = NULL;
    char *schema = NULL;
    assert_int_equal(tfos_table_survey(table, parts, 2, NULL, NULL, NULL, &found, NULL), TFOS_OK);
    assert_int_equal(tfos_table_schema(table, (const char *const *)&found, 1, &schema, NULL), TFOS_OK);
    helper_expect_in(schema, "\"long\"");
    tfos_string_free(found);
    tfos_string_free(schema);
    tfos_table_free(table);
}

/* ---- reading and writing ---- */

static void test_no_columns_count_rows(void **state)
{
    static const char schema[] = "{\"type\":\"struct\",\"fields\":[]}";
    const char *path = helper_path(state, "f");
    helper_bytes frames[100];
    for (size_t i = 0; i < 100; i++) {
        frames[i] = helper_frame(helper_from_text("no message at all"));
    }
    helper_to_file(path, helper_join(frames, 100));
    tfos_table *table = table_of("{}");
    tfos_reader *reader = NULL;
    const tfos_file_part part = {.path = path, .end = -1};
    assert_int_equal(tfos_table_read(table, &part, schema, strlen(schema), NULL, NULL, NULL, &reader, NULL), TFOS_OK);
    tfos_batch *batch = NULL;
    int64_t rows = 0;
    while (tfos_reader_next(reader, &batch, NULL) == TFOS_OK) {
        rows += tfos_batch_rows(batch);
        tfos_batch_free(batch);
    }
    assert_int_equal(rows, 100);
    tfos_reader_close(reader);
    tfos_table_free(table);
}

static void test_columns_that_records_do_not_have(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        tfos_record_kind record;
        const char *part;
    } cases[] = {
        {"{\"type\":\"array\",\"elementType\":{\"type\":\"array\",\"elementType\":\"long\"}}", TFOS_RECORD_EXAMPLE,
         "column 'x': an array of arrays has no place in a tf.train.Example"},
        {"\"long\"", TFOS_RECORD_BYTES, "column 'x': records of type ByteArray are one column of binary, found long"},
        {"{\"type\":\"map\"}", TFOS_RECORD_EXAMPLE, "column 'x': a map cannot be fed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[300];
        tfos_schema *schema = NULL;
        tfos_error error = {0};
        snprintf(text, sizeof text, "{\"type\":\"struct\",\"fields\":[{\"name\":\"x\",\"type\":%s}]}", cases[i].type);
        assert_int_equal(tfos_schema_from_spark(text, strlen(text), cases[i].record, &schema, &error),
                         TFOS_UNSUPPORTED);
        helper_expect_in(error.message, cases[i].part);
    }
}

int main(void)
{
#define IN_FOLDER(name) cmocka_unit_test_setup_teardown(name, helper_setup, helper_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_options_that_are_wrong),
        IN_FOLDER(test_schemas_are_found_in_parts),
        cmocka_unit_test(test_surveys_that_are_none),
        IN_FOLDER(test_a_sample),
        IN_FOLDER(test_no_columns_count_rows),
        cmocka_unit_test(test_columns_that_records_do_not_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
