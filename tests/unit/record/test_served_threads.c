/* Files that a caller serves: the same rows as from local ones, read ahead, split, indexed, failing and waiting. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "base/thread.h"
#include "helper_records.h"
#include "helper_served.h"

static helper_served served;

static int setup(void **state)
{
    helper_served_init(&served);
    setenv("TFOS_FS_AHEAD_BYTES", "256KiB", 1);
    return helper_setup(state);
}

static int teardown(void **state)
{
    assert_int_equal(atomic_load(&served.open_now), 0);
    unsetenv("TFOS_FS_AHEAD_BYTES");
    return helper_teardown(state);
}

/* Records of 0 to 2000 bytes, which differ. */
static const char *write_records(void **state, const char *name, size_t count)
{
    const char *path = helper_path(state, name);
    tfos_write_options options;
    tfos_writer *writer;
    tfos_write_options_init(&options, sizeof options);
    options.overwrite = true;
    assert_int_equal(tfos_writer_open(path, &options, &writer, NULL), TFOS_OK);
    uint64_t random = 7;
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[2000];
        size_t size = helper_random(&random) % sizeof bytes;
        for (size_t at = 0; at < size; at++) {
            bytes[at] = (uint8_t)helper_random(&random);
        }
        assert_int_equal(tfos_writer_write_record(writer, bytes, size, NULL), TFOS_OK);
    }
    assert_int_equal(tfos_writer_close(writer, NULL), TFOS_OK);
    return path;
}

static tfos_read_options raw_served(void)
{
    tfos_read_options options = helper_raw_options();
    options.files = &served.system;
    return options;
}

static void expect_same(const helper_result *found, const helper_result *expected)
{
    assert_int_equal(found->status, TFOS_END);
    assert_int_equal(found->row_count, expected->row_count);
    for (size_t i = 0; i < expected->row_count; i++) {
        assert_true(helper_equal(found->records[i], expected->records[i]));
    }
}

static void test_rows(void **state)
{
    static const size_t most[] = {0, 1000, 65536, 100000};
    const char *path = write_records(state, "f", 2000);
    helper_result expected = helper_read(path, NULL);
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        served.most_bytes = most[i];
        for (int32_t threads = 0; threads < 3; threads++) {
            tfos_read_options options = raw_served();
            options.threads = threads;
            helper_result found = helper_read(helper_served_path(path), &options);
            expect_same(&found, &expected);
        }
    }
    assert_true(atomic_load(&served.reads_elsewhere) > 0);
}

/* A small file is opened once and read at once, without a thread. */
static void test_a_small_file(void **state)
{
    const char *path = write_records(state, "f", 20);
    helper_result expected = helper_read(path, NULL);
    tfos_read_options options = raw_served();
    options.range_end = 1 << 20;
    helper_result found = helper_read(helper_served_path(path), &options);
    expect_same(&found, &expected);
    assert_int_equal(atomic_load(&served.opened), 1);
    assert_int_equal(atomic_load(&served.reads), 1);
    assert_int_equal(atomic_load(&served.reads_elsewhere), 0);
}

static void test_nothing_is_read_ahead(void **state)
{
    setenv("TFOS_FS_AHEAD_BYTES", "0", 1);
    const char *path = write_records(state, "f", 2000);
    helper_result expected = helper_read(path, NULL);
    tfos_read_options options = raw_served();
    helper_result found = helper_read(helper_served_path(path), &options);
    expect_same(&found, &expected);
    assert_int_equal(atomic_load(&served.reads_elsewhere), 0);
}

/* Every record is in one split, by search and by the index, which is served as well. */
static void test_splits(void **state)
{
    const char *path = write_records(state, "f", 1500);
    helper_result expected = helper_read(path, NULL);
    int64_t size = (int64_t)helper_of_file(path).count;
    for (int indexed = 0; indexed < 2; indexed++) {
        for (int64_t pieces = 2; pieces < 9; pieces += 3) {
            size_t row = 0;
            for (int64_t i = 0; i < pieces; i++) {
                tfos_read_options options = raw_served();
                options.range_start = size * i / pieces;
                options.range_end = i + 1 < pieces ? size * (i + 1) / pieces : -1;
                atomic_store(&served.opened, 0);
                helper_result found = helper_read(helper_served_path(path), &options);
                assert_int_equal(found.status, TFOS_END);
                for (size_t at = 0; at < found.row_count; at++) {
                    assert_true(helper_equal(found.records[at], expected.records[row++]));
                }
                if (i + 1 == pieces) { /* what is before it is for others to report */
                    assert_in_range(found.progress.done_bytes, 1, size - options.range_start);
                }
                assert_int_equal(atomic_load(&served.opened), 1 + indexed);
            }
            assert_int_equal(row, expected.row_count);
        }
        assert_int_equal(tfos_index_build(path, NULL, NULL), TFOS_OK);
    }
}

/* What lies behind a split is not fetched for nothing. */
static void test_the_end_of_a_split(void **state)
{
    const char *path = write_records(state, "f", 3000);
    tfos_read_options options = raw_served();
    options.range_end = 500000;
    assert_true(helper_of_file(path).count > 2000000);
    helper_result found = helper_read(helper_served_path(path), &options);
    assert_int_equal(found.status, TFOS_END);
    assert_in_range(atomic_load(&served.read_to), 500000, 500000 + 65536 + 2000);
    /* … however large the window is. */
    setenv("TFOS_FS_AHEAD_BYTES", "8MiB", 1);
    atomic_store(&served.read_to, 0);
    found = helper_read(helper_served_path(path), &options);
    assert_int_equal(found.status, TFOS_END);
    assert_in_range(atomic_load(&served.read_to), 500000, 500000 + 65536 + 2000);
}

static void test_compressed(void **state)
{
    const char *path = write_records(state, "f", 2000);
    const char *packed = helper_path(state, "g");
    helper_result expected = helper_read(path, NULL);
    helper_to_file(packed, helper_deflate(helper_of_file(path), TFOS_CODEC_GZIP));
    tfos_read_options options = raw_served();
    helper_result found = helper_read(helper_served_path(packed), &options);
    expect_same(&found, &expected);
    /* One that is small needs no thread to find its end. */
    atomic_store(&served.reads_elsewhere, 0);
    helper_to_file(packed, helper_deflate(helper_frame(helper_from_text("one")), TFOS_CODEC_GZIP));
    assert_int_equal(helper_read(helper_served_path(packed), &options).row_count, 1);
    assert_int_equal(atomic_load(&served.reads_elsewhere), 0);
}

/* A file that is shorter than its listing said has lost something, even if it ends behind a record. */
static void test_a_file_that_ends_early(void **state)
{
    const char *path = write_records(state, "f", 2000);
    int64_t size = (int64_t)helper_of_file(path).count;
    tfos_read_options options = raw_served();
    served.claims_more = 1000;
    helper_result found = helper_read(helper_served_path(path), &options);
    assert_int_equal(found.status, TFOS_TRUNCATED);
    helper_expect_in(found.error.message, "when it was opened, and ends at offset");
    assert_int_equal(found.row_count, 2000);
    options.range_start = size + 10;
    found = helper_read(helper_served_path(path), &options);
    assert_int_equal(found.status, TFOS_TRUNCATED);
}

static void test_functions_that_are_missing(void **state)
{
    const char *path = write_records(state, "f", 3);
    tfos_read_options options = raw_served();
    served.system.close = NULL;
    helper_result found = helper_read(helper_served_path(path), &options);
    assert_int_equal(found.status, TFOS_INVALID);
    helper_expect_in(found.error.message, "a function is missing");
}

/* Rows before the failure come before it, whoever meets it. */
static void test_failures(void **state)
{
    const char *path = write_records(state, "f", 2000);
    tfos_read_options options = raw_served();
    helper_result found = helper_read(helper_served_path(helper_path(state, "none")), &options);
    assert_int_equal(found.status, TFOS_NOT_FOUND);
    helper_expect_in(found.error.message, "none: is not played");
    static const int64_t places[] = {0, 100000, 1000000};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        served.fails_at = places[i];
        found = helper_read(helper_served_path(path), &options);
        assert_int_equal(found.status, TFOS_IO);
        helper_expect_in(found.error.message, "f: the player stumbles");
        assert_true(found.row_count > 0 || places[i] < 1000000);
    }
}

/* ---- waiting ---- */

static atomic_int asked;

static bool after_three(void *context)
{
    (void)context;
    return atomic_fetch_add(&asked, 1) >= 2;
}

static void *release(void *context)
{
    (void)context;
    while (atomic_load(&asked) < 3) {
        poll(NULL, 0, 1);
    }
    atomic_store(&served.hangs_at, -1);
    return NULL;
}

/* Whoever waits for a file that does not answer can be interrupted. */
static void test_a_read_that_hangs(void **state)
{
    const char *path = write_records(state, "f", 2000);
    tfos_read_options options = raw_served();
    pthread_t thread;
    options.interrupted = after_three;
    atomic_store(&asked, 0);
    atomic_store(&served.hangs_at, 1000000);
    assert_int_equal(tfos__thread_start(&thread, release, NULL), 0);
    helper_result found = helper_read(helper_served_path(path), &options);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(found.status, TFOS_CANCELLED);
}

/* ---- inference and writing ---- */

static void test_inference(void **state)
{
    const char *path = helper_path(state, "f");
    helper_to_file(path, helper_frame(EXAMPLE(helper_entry("x", INTS(1, 2)))));
    tfos_read_options options;
    tfos_schema *schema;
    tfos_read_options_init(&options, sizeof options);
    options.files = &served.system;
    assert_int_equal(tfos_schema_infer(helper_paths(helper_served_path(path)), &options, &schema, NULL), TFOS_OK);
    assert_int_equal(tfos_schema_field(schema, 0)->length, 2);
    tfos_schema_free(schema);
    helper_result found = helper_read(helper_served_path(path), &options);
    helper_expect_text(found.rows, "{\"x\": [1, 2]}\n");
}

static tfos_status write_served(const char *path, bool overwrite, tfos_error *error)
{
    tfos_write_options options;
    tfos_writer *writer;
    tfos_write_options_init(&options, sizeof options);
    options.files = &served.system;
    options.overwrite = overwrite;
    TFOS_TRY(tfos_writer_open(helper_served_path(path), &options, &writer, error));
    for (size_t i = 0; i < 3000; i++) {
        tfos_status status = tfos_writer_write_record(writer, &(char[1000]){0}, 1000, error);
        if (status != TFOS_OK) {
            tfos_writer_abort(writer);
            return status;
        }
    }
    return tfos_writer_close(writer, error);
}

static void test_writing(void **state)
{
    tfos_error error;
    const char *path = helper_path(state, "f");
    assert_int_equal(write_served(path, false, &error), TFOS_OK);
    assert_int_equal(atomic_load(&served.finished), 1);
    assert_int_equal(helper_read(path, NULL).row_count, 3000);
    assert_int_equal(write_served(path, false, &error), TFOS_EXISTS);
    helper_expect_in(error.message, "is played already");
    served.write_fails_at = 1500000;
    assert_int_equal(write_served(path, true, &error), TFOS_NO_SPACE);
    helper_expect_in(error.message, "f: the stage is full");
    assert_int_equal(atomic_load(&served.abandoned), 1);
    assert_false(helper_exists(path));
}

/* A path without a scheme is local, and one with a scheme that nobody serves is refused. */
static void test_who_serves(void **state)
{
    const char *path = write_records(state, "f", 3);
    tfos_read_options options = raw_served();
    assert_int_equal(helper_read(path, &options).row_count, 3);
    assert_int_equal(atomic_load(&served.opened), 0);
    helper_result found = helper_read(helper_served_path(path), NULL);
    assert_int_equal(found.status, TFOS_UNSUPPORTED);
    helper_expect_in(found.error.message, "the scheme 'played' is not supported here");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_rows),
        TEST(test_a_small_file),
        TEST(test_nothing_is_read_ahead),
        TEST(test_splits),
        TEST(test_the_end_of_a_split),
        TEST(test_compressed),
        TEST(test_a_file_that_ends_early),
        TEST(test_functions_that_are_missing),
        TEST(test_failures),
        TEST(test_a_read_that_hangs),
        TEST(test_inference),
        TEST(test_writing),
        TEST(test_who_serves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
