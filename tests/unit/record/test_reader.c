/* Reader: which columns of which schema it gives, and what a fork may do with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helper_decode.h"
#include "helper_text.h"

static const char *make_file(void **state)
{
    const char *path = helper_path(state, "f");
    helper_bytes record =
        EXAMPLE(helper_entry("a", INTS(1)), helper_entry("b", FLOATS(2)), helper_entry("c", STRINGS("x")));
    helper_to_file(path, JOIN(helper_frame(record), helper_frame(record)));
    return path;
}

static tfos_read_options plain_options(void)
{
    tfos_read_options options;
    tfos_read_options_init(&options, sizeof options);
    options.threads = 0;
    return options;
}

static void test_the_defaults(void **state)
{
    tfos_reader *reader = NULL;
    tfos_batch *batch = NULL;
    assert_int_equal(tfos_reader_open(helper_paths(make_file(state)), NULL, &reader, NULL), TFOS_OK);
    char *schema = helper_show_schema(tfos_reader_schema(reader));
    assert_string_equal(schema, "a int64, b float, c string");
    free(schema);
    assert_int_equal(tfos_reader_next(reader, &batch, NULL), TFOS_OK);
    assert_int_equal(tfos_batch_rows(batch), 2);
    tfos_batch_free(batch);
    assert_int_equal(tfos_reader_next(reader, &batch, NULL), TFOS_END);
    assert_int_equal(tfos_reader_next(reader, &batch, NULL), TFOS_END);
    tfos_reader_close(reader);
}

static void test_columns(void **state)
{
    const char *path = make_file(state);
    tfos_read_options options = plain_options();
    options.columns = (const char *const[]){"c", "a"};
    options.column_count = 2;
    helper_result result = helper_read(path, &options);
    helper_expect_text(result.rows, "{\"c\": \"x\", \"a\": 1}\n{\"c\": \"x\", \"a\": 1}\n");
    options.column_count = 0; /* rows without columns can still be counted */
    result = helper_read(path, &options);
    helper_expect_text(result.rows, "{}\n{}\n");
    options.columns = (const char *const[]){"a", "z"};
    options.column_count = 2;
    result = helper_read(path, &options);
    assert_int_equal(result.status, TFOS_INVALID);
    assert_string_equal(result.error.message, "there is no column 'z'; the columns are: a, b, c");
}

static void test_a_given_schema(void **state)
{
    const char *path = make_file(state);
    tfos_schema *schema = helper_schema(FIELDS("b double", "a int32[]", "new string nullable"));
    tfos_read_options options = plain_options();
    options.schema = schema;
    helper_result result = helper_read(path, &options);
    helper_expect_text(result.rows,
                       "{\"b\": 2.0, \"a\": [1], \"new\": null}\n{\"b\": 2.0, \"a\": [1], \"new\": null}\n");
    options.columns = (const char *const[]){"a"};
    options.column_count = 1;
    tfos_reader *reader = NULL;
    assert_int_equal(tfos_reader_open(helper_paths(path), &options, &reader, NULL), TFOS_OK);
    tfos_schema_free(schema); /* the reader keeps what it needs */
    tfos_batch *batch = NULL;
    assert_int_equal(tfos_reader_next(reader, &batch, NULL), TFOS_OK);
    tfos_reader_close(reader);
    assert_string_equal(tfos_schema_field(tfos_batch_schema(batch), 0)->name, "a");
    tfos_batch_free(batch);
}

/* A record that does not go with the schema is an error also where damage is skipped: it is not damaged. */
static void test_a_mismatch_is_not_skipped(void **state)
{
    const char *path = make_file(state);
    tfos_schema *schema = helper_schema(FIELDS("a float"));
    tfos_read_options options = plain_options();
    options.schema = schema;
    options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
    helper_result result = helper_read(path, &options);
    assert_int_equal(result.status, TFOS_MISMATCH);
    helper_expect_in(result.error.message, "f: offset 0 (record 0): column 'a': expected float values");
    tfos_schema_free(schema);
}

/* A record that is no Example is damage. */
static void test_what_is_no_example_is_skipped(void **state)
{
    const char *path = helper_path(state, "f");
    helper_bytes good = helper_frame(EXAMPLE(helper_entry("a", INTS(1))));
    helper_bytes bad = helper_frame(helper_from_text("hello"));
    helper_to_file(path, JOIN(good, bad, good));
    tfos_schema *schema = helper_schema(FIELDS("a int64"));
    tfos_read_options options = plain_options();
    options.schema = schema;
    helper_result result = helper_read(path, &options);
    assert_int_equal(result.status, TFOS_CORRUPT);
    assert_int_equal(result.row_count, 1);
    options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
    result = helper_read(path, &options);
    assert_int_equal(result.status, TFOS_END);
    helper_expect_text(result.rows, "{\"a\": 1}\n{\"a\": 1}\n");
    assert_int_equal(result.progress.skipped_records, 1);
    assert_int_equal(result.progress.skipped_bytes, bad.count);
    tfos_schema_free(schema);
}

/* A child has none of the threads: it is told so, and may close what it got without waiting for them. */
static void test_a_fork(void **state)
{
    const char *path = make_file(state);
    for (int32_t threads = 0; threads <= 2; threads += 2) {
        tfos_read_options options = plain_options();
        options.threads = threads;
        tfos_reader *reader = NULL;
        assert_int_equal(tfos_reader_open(helper_paths(path), &options, &reader, NULL), TFOS_OK);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            tfos_batch *batch = NULL;
            tfos_error error = {0};
            tfos_status status = tfos_reader_next(reader, &batch, &error);
            bool right =
                threads == 0 ? status == TFOS_OK : status == TFOS_INVALID && strstr(error.message, "fork") != NULL;
            tfos_batch_free(batch);
            tfos_reader_close(reader);
            helper_end_child(right ? 0 : 1);
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        tfos_batch *batch = NULL;
        assert_int_equal(tfos_reader_next(reader, &batch, NULL), TFOS_OK); /* the parent goes on */
        tfos_batch_free(batch);
        tfos_reader_close(reader);
    }
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_setup, helper_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_the_defaults),
        IN_FOLDER(test_columns),
        IN_FOLDER(test_a_given_schema),
        IN_FOLDER(test_a_mismatch_is_not_skipped),
        IN_FOLDER(test_what_is_no_example_is_skipped),
        IN_FOLDER(test_a_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
