/* Writer: the codec of a name, the first error for ever, and files that the reader reads. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sys/resource.h>

#include "helper_decode.h"
#include "record/frame.h"

static tfos_writer *open_writer(const char *path, const tfos_write_options *options)
{
    tfos_writer *writer = NULL;
    tfos_error error = {0};
    if (tfos_writer_open(path, options, &writer, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    return writer;
}

static void write_text(tfos_writer *writer, const char *text)
{
    assert_int_equal(tfos_writer_write_record(writer, text, strlen(text), NULL), TFOS_OK);
}

static void test_bytes_of_a_file(void **state)
{
    const char *path = helper_path(state, "f");
    tfos_writer *writer = open_writer(path, NULL);
    write_text(writer, "one");
    assert_int_equal(tfos_writer_write_record(writer, NULL, 0, NULL), TFOS_OK);
    write_text(writer, "three");
    assert_int_equal(tfos_writer_records(writer), 3);
    assert_false(helper_exists(path));
    assert_int_equal(tfos_writer_close(writer, NULL), TFOS_OK);
    helper_bytes expected = JOIN(helper_frame(helper_from_text("one")), helper_frame(helper_from_text("")),
                                 helper_frame(helper_from_text("three")));
    assert_true(helper_equal(helper_of_file(path), expected));
    assert_int_equal(tfos_writer_close(NULL, NULL), TFOS_OK);
    tfos_writer_abort(NULL);
}

static void test_a_file_without_records(void **state)
{
    static const char *const names[] = {"f", "f.gz", "f.zlib"};
    for (size_t i = 0; i < 3; i++) {
        const char *path = helper_path(state, names[i]);
        assert_int_equal(tfos_writer_close(open_writer(path, NULL), NULL), TFOS_OK);
        helper_result result = helper_read(path, NULL);
        assert_int_equal(result.status, TFOS_END);
        assert_int_equal(result.row_count, 0);
    }
}

static void test_the_codec(void **state)
{
    static const struct {
        const char *name;
        tfos_codec codec;
        uint8_t first; /* byte of the file */
    } cases[] = {
        {"a", TFOS_CODEC_AUTO, 5},       {"a.gz", TFOS_CODEC_AUTO, 0x1F},    {"a.zlib", TFOS_CODEC_AUTO, 0x78},
        {"a.zz", TFOS_CODEC_AUTO, 0x78}, {"b.gz", TFOS_CODEC_NONE, 5},       {"b", TFOS_CODEC_GZIP, 0x1F},
        {"c.gz", TFOS_CODEC_ZLIB, 0x78}, {"a.tfrecord", TFOS_CODEC_AUTO, 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int32_t level = -1; level <= 9; level += 5) {
            tfos_write_options options;
            tfos_write_options_init(&options, sizeof options);
            options.codec = cases[i].codec;
            options.overwrite = true;
            options.level = level;
            const char *path = helper_path(state, cases[i].name);
            tfos_writer *writer = open_writer(path, &options);
            write_text(writer, "hello");
            assert_int_equal(tfos_writer_close(writer, NULL), TFOS_OK);
            assert_int_equal(helper_of_file(path).data[0], cases[i].first);
            helper_result result = helper_read(path, NULL); /* found by what is in the file */
            assert_int_equal(result.status, TFOS_END);
            assert_true(helper_equal(result.records[0], helper_from_text("hello")));
        }
    }
}

static void test_options_out_of_range(void **state)
{
    static const int32_t levels[] = {0, 10, -2, INT32_MIN};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        tfos_write_options options;
        tfos_write_options_init(&options, sizeof options);
        options.level = levels[i];
        tfos_writer *writer = NULL;
        tfos_error error = {0};
        assert_int_equal(tfos_writer_open(helper_path(state, "f.gz"), &options, &writer, &error), TFOS_INVALID);
        helper_expect_in(error.message, "from 1 to 9, or -1");
        assert_null(writer);
    }
    assert_int_equal(helper_count_files(*state), 0);
}

static void test_overwriting(void **state)
{
    const char *path = helper_path(state, "f");
    helper_to_file(path, helper_from_text("old"));
    tfos_writer *writer = NULL;
    tfos_error error = {0};
    assert_int_equal(tfos_writer_open(path, NULL, &writer, &error), TFOS_EXISTS);
    helper_expect_in(error.message, "f: exists already");
    tfos_write_options options;
    tfos_write_options_init(&options, sizeof options);
    options.overwrite = true;
    writer = open_writer(path, &options);
    write_text(writer, "new");
    assert_true(helper_equal(helper_of_file(path), helper_from_text("old")));
    assert_int_equal(tfos_writer_close(writer, NULL), TFOS_OK);
    assert_true(helper_equal(helper_of_file(path), helper_frame(helper_from_text("new"))));
}

static void test_an_abort_leaves_nothing(void **state)
{
    tfos_writer *writer = open_writer(helper_path(state, "f.gz"), NULL);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(tfos_writer_write_record(writer, helper_repeat('x', 3000).data, 3000, NULL), TFOS_OK);
    }
    tfos_writer_abort(writer);
    assert_int_equal(helper_count_files(*state), 0);
}

/* Records larger than the buffer, and so many that it is emptied often. */
static void test_large_files(void **state)
{
    static const char *const names[] = {"f", "f.gz", "f.zz"};
    uint64_t random = 9;
    helper_bytes large = helper_repeat(0, 5 << 20);
    for (size_t i = 0; i < large.count; i += 8) {
        tfos__store_u64((uint8_t *)(uintptr_t)large.data + i, helper_random(&random));
    }
    for (size_t i = 0; i < 3; i++) {
        tfos_writer *writer = open_writer(helper_path(state, names[i]), NULL);
        for (size_t record = 0; record < 50; record++) {
            assert_int_equal(tfos_writer_write_record(writer, large.data, record * record * 1000, NULL), TFOS_OK);
        }
        assert_int_equal(tfos_writer_write_record(writer, large.data, large.count, NULL), TFOS_OK);
        assert_int_equal(tfos_writer_close(writer, NULL), TFOS_OK);
        helper_result result = helper_read(helper_path(state, names[i]), NULL);
        assert_int_equal(result.status, TFOS_END);
        assert_int_equal(result.row_count, 51);
        for (size_t record = 0; record < 50; record++) {
            assert_true(helper_equal(result.records[record], helper_part(large, 0, record * record * 1000)));
        }
        assert_true(helper_equal(result.records[50], large));
    }
}

/* ---- rows ---- */

static tfos_batch *batch_of(const char *schema_json, const helper_bytes *records, size_t count)
{
    tfos_schema *schema = helper_schema(schema_json);
    tfos_batch *batch = helper_batch(schema, records, count);
    tfos_schema_free(schema);
    return batch;
}

static void test_batches(void **state)
{
    helper_bytes records[] = {EXAMPLE(helper_entry("a", INTS(1)), helper_entry("b", STRINGS("x"))),
                              EXAMPLE(helper_entry("a", INTS(2)))};
    const char *path = helper_path(state, "f.gz");
    tfos_batch *first = batch_of(FIELDS("a int64", "b string nullable"), records, 2);
    tfos_batch *second = batch_of(FIELDS("a int64"), records, 2); /* of another schema */
    tfos_writer *writer = open_writer(path, NULL);
    assert_int_equal(tfos_writer_write_batch(writer, first, NULL), TFOS_OK);
    assert_int_equal(tfos_writer_write_batch(writer, second, NULL), TFOS_OK);
    assert_int_equal(tfos_writer_write_batch(writer, first, NULL), TFOS_OK);
    assert_int_equal(tfos_writer_records(writer), 6);
    assert_int_equal(tfos_writer_close(writer, NULL), TFOS_OK);
    tfos_batch_free(first);
    tfos_batch_free(second);
    tfos_read_options options;
    tfos_read_options_init(&options, sizeof options);
    helper_result result = helper_read(path, &options);
    helper_expect_text(result.rows, "{\"a\": 1, \"b\": \"x\"}\n{\"a\": 2, \"b\": null}\n{\"a\": 1, \"b\": null}\n"
                                    "{\"a\": 2, \"b\": null}\n{\"a\": 1, \"b\": \"x\"}\n{\"a\": 2, \"b\": null}\n");
}

/* ---- the first error ---- */

static void test_the_first_error_stays(void **state)
{
    helper_bytes record = EXAMPLE(helper_entry("a", INTS(1)));
    tfos_batch *example = batch_of(FIELDS("a int64"), &record, 1);
    helper_bytes sequence_record = helper_bytes_field(2, helper_from_text(""));
    tfos_batch *sequence = batch_of(FIELDS("x list of int64 nullable"), &sequence_record, 1);
    tfos_writer *writer = open_writer(helper_path(state, "f"), NULL);
    tfos_error error = {0};
    tfos_error again = {0};
    assert_int_equal(tfos_writer_write_batch(writer, example, NULL), TFOS_OK);
    assert_int_equal(tfos_writer_write_batch(writer, sequence, &error), TFOS_MISMATCH);
    helper_expect_in(error.message, "expected rows for records of kind example, found sequence_example");
    assert_int_equal(tfos_writer_write_batch(writer, example, &again), TFOS_MISMATCH);
    assert_string_equal(again.message, error.message);
    assert_int_equal(tfos_writer_write_record(writer, "x", 1, &again), TFOS_MISMATCH);
    assert_int_equal(tfos_writer_close(writer, &again), TFOS_MISMATCH);
    assert_string_equal(again.message, error.message);
    assert_int_equal(helper_count_files(*state), 0);
    tfos_batch_free(example);
    tfos_batch_free(sequence);
}

static void test_a_full_disk(void **state)
{
    struct rlimit before;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = {.rlim_cur = 3 << 20, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    helper_bytes megabyte = helper_repeat('x', 1 << 20);
    tfos_error error = {0};
    tfos_status status = TFOS_OK;
    tfos_writer *writer = open_writer(helper_path(state, "f"), NULL);
    for (int i = 0; i < 10 && status == TFOS_OK; i++) {
        status = tfos_writer_write_record(writer, megabyte.data, megabyte.count, &error);
    }
    assert_int_equal(status, TFOS_NO_SPACE);
    helper_expect_in(error.message, "f: writing failed");
    assert_int_equal(tfos_writer_close(writer, &error), TFOS_NO_SPACE);
    /* Noticed only when the file is closed, for all was still in the buffer. */
    small.rlim_cur = 10;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    writer = open_writer(helper_path(state, "f"), NULL);
    write_text(writer, "hello");
    tfos_status closed = tfos_writer_close(writer, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(closed, TFOS_NO_SPACE);
    assert_int_equal(helper_count_files(*state), 0);
}

static void test_a_record_that_is_too_long(void **state)
{
    tfos_writer *writer = open_writer(helper_path(state, "f"), NULL);
    tfos_error error = {0};
    write_text(writer, "x");
    /* So long that it cannot be there: the length alone must be refused, the bytes are not looked at. */
    assert_int_equal(tfos_writer_write_record(writer, "x", TFOS__FRAME_MAX_PAYLOAD_BYTES + 1, &error), TFOS_LIMIT);
    helper_expect_in(error.message, "record 1 would have 2147483648 bytes, the limit is 2147483647");
    assert_int_equal(tfos_writer_close(writer, &error), TFOS_LIMIT);
    assert_int_equal(helper_count_files(*state), 0);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_setup, helper_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_bytes_of_a_file),
        IN_FOLDER(test_a_file_without_records),
        IN_FOLDER(test_the_codec),
        IN_FOLDER(test_options_out_of_range),
        IN_FOLDER(test_overwriting),
        IN_FOLDER(test_an_abort_leaves_nothing),
        IN_FOLDER(test_large_files),
        IN_FOLDER(test_batches),
        IN_FOLDER(test_the_first_error_stays),
        IN_FOLDER(test_a_full_disk),
        IN_FOLDER(test_a_record_that_is_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
