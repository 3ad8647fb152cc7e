/* Files that are made to cost time, to be taken for something else, or to be lost between processes. Where the fault
 * would be a time without end, the test's limit of time is the assertion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/fs.h"
#include "helper_records.h"

static tfos_paths *expand(const char *path)
{
    tfos_paths *paths = NULL;
    assert_int_equal(tfos_paths_expand(&path, 1, &paths, NULL), TFOS_OK);
    return paths;
}

static tfos_progress verify(const char *path)
{
    tfos_progress progress = {0};
    tfos_paths *paths = expand(path);
    assert_int_equal(tfos_records_verify(paths, NULL, false, NULL, NULL, &progress, NULL), TFOS_OK);
    tfos_paths_free(paths);
    return progress;
}

/* Headers with right checksums, each of which claims the rest of the file as its payload. */
static void headers_that_lie_are_passed_in_bounded_time(void **state)
{
    enum { COUNT = 500000 };
    const char *path = helper_path(state, "lies.tfrecord");
    size_t total = (size_t)COUNT * 12;
    uint8_t *bytes = malloc(total);
    assert_non_null(bytes);
    for (size_t i = 0; i < COUNT; i++) {
        memcpy(bytes + 12 * i, helper_header(total - 12 * i - 16).data, 12);
    }
    helper_to_file(path, (helper_bytes){bytes, total});
    free(bytes);
    tfos_progress progress = verify(path);
    assert_int_equal(progress.records, 0);
    assert_int_equal(progress.skipped_bytes, total);
}

/* A hundred thousand small holes between good records. */
static void many_small_holes_are_crossed_in_place(void **state)
{
    enum { COUNT = 100000 };
    const char *path = helper_path(state, "holes.tfrecord");
    helper_bytes record = helper_frame(helper_from_text("x"));
    size_t step = record.count + 5;
    uint8_t *bytes = malloc(COUNT * step);
    assert_non_null(bytes);
    for (size_t i = 0; i < COUNT; i++) {
        memcpy(bytes + i * step, record.data, record.count);
        memset(bytes + i * step + record.count, 0xEE, 5);
    }
    helper_to_file(path, (helper_bytes){bytes, COUNT * step});
    free(bytes);
    tfos_progress progress = verify(path);
    assert_int_equal(progress.records, COUNT);
    assert_int_equal(progress.skipped_records, COUNT);
    assert_int_equal(progress.skipped_bytes, COUNT * 5);
}

static void count_places(const tfos_damage *damage, void *context)
{
    int64_t *numbers = context;
    assert_int_equal(damage->record, numbers[0] * 2 + 1); /* a hole counts as a record */
    assert_int_equal(damage->offset, numbers[0] * 22 + 17);
    numbers[0]++;
}

static void records_behind_holes_keep_their_numbers(void **state)
{
    const char *path = helper_path(state, "numbers.tfrecord");
    helper_bytes whole = {NULL, 0};
    for (int i = 0; i < 10; i++) {
        whole = JOIN(whole, helper_frame(helper_from_text("x")), helper_repeat(0xEE, 5));
    }
    helper_to_file(path, whole);
    tfos_paths *paths = expand(path);
    int64_t places = 0;
    assert_int_equal(tfos_records_verify(paths, NULL, false, count_places, &places, NULL, NULL), TFOS_OK);
    assert_int_equal(places, 10);
    tfos_paths_free(paths);
}

/* A record of 376 bytes has a length that begins like zlib; if its header is damaged, the file is still no zlib file.
 */
static void a_damaged_header_is_not_taken_for_zlib(void **state)
{
    const char *path = helper_path(state, "zlib.tfrecord");
    helper_bytes record = helper_frame(helper_repeat('x', 0x0178));
    assert_int_equal(record.data[0], 0x78);
    assert_int_equal(record.data[1], 0x01);
    helper_bytes whole = JOIN(record, record, record);
    uint8_t *bytes = malloc(whole.count);
    assert_non_null(bytes);
    memcpy(bytes, whole.data, whole.count);
    bytes[9] ^= 1;
    helper_to_file(path, (helper_bytes){bytes, whole.count});
    free(bytes);
    tfos_progress progress = verify(path);
    assert_int_equal(progress.records, 2);
    assert_int_equal(progress.skipped_bytes, record.count);
}

static void zlib_is_still_found(void **state)
{
    const char *path = helper_path(state, "packed.tfrecord");
    helper_to_file(path, helper_deflate(helper_frame(helper_from_text("hello")), TFOS_CODEC_ZLIB));
    assert_int_equal(verify(path).records, 1);
    helper_to_file(path, helper_deflate((helper_bytes){NULL, 0}, TFOS_CODEC_ZLIB));
    assert_int_equal(verify(path).records, 0);
    assert_int_equal(verify(path).skipped_records, 0);
}

/* A compressed file is in the range that has its first byte, and in no other. */
static void a_compressed_file_is_one_range(void **state)
{
    const char *path = helper_path(state, "one.tfrecord.gz");
    helper_bytes packed = helper_deflate(helper_frame(helper_from_text("hello")), TFOS_CODEC_GZIP);
    helper_to_file(path, packed);
    for (int64_t border = 0; border <= (int64_t)packed.count + 1; border++) {
        tfos_read_options options = helper_raw_options();
        options.range_end = border;
        size_t before = helper_read(path, &options).row_count;
        options.range_start = border;
        options.range_end = -1;
        size_t behind = helper_read(path, &options).row_count;
        assert_int_equal(before, border > 0);
        assert_int_equal(before + behind, 1);
    }
}

static bool yes(void *context)
{
    ++*(int *)context;
    return true;
}

/* Searching a file of nothing takes long; whoever waits for it can still leave, and quickly. */
static void a_search_can_be_interrupted(void **state)
{
    const char *path = helper_path(state, "zeros.tfrecord");
    helper_to_file(path, (helper_bytes){NULL, 0});
    assert_int_equal(truncate(path, (off_t)1 << 36), 0); /* sparse: it takes no room */
    tfos_paths *paths = expand(path);
    for (int threads = 0; threads < 3; threads++) {
        int asked = 0;
        tfos_read_options options;
        tfos_read_options_init(&options, sizeof options);
        options.threads = threads;
        options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
        options.interrupted = yes;
        options.interrupted_context = &asked;
        tfos_schema *schema;
        assert_int_equal(tfos_schema_infer(paths, &options, &schema, NULL), TFOS_CANCELLED);
        assert_int_equal(asked, 1);
        assert_int_equal(tfos_records_verify(paths, &options, false, NULL, NULL, NULL, NULL), TFOS_CANCELLED);
        options.record = TFOS_RECORD_BYTES;
        tfos_reader *reader;
        tfos_batch *batch;
        assert_int_equal(tfos_reader_open(paths, &options, &reader, NULL), TFOS_OK);
        assert_int_equal(tfos_reader_next(reader, &batch, NULL), TFOS_CANCELLED);
        assert_int_equal(tfos_reader_next(reader, &batch, NULL), TFOS_CANCELLED);
        tfos_reader_close(reader);
        assert_int_equal(asked, 3);
    }
    tfos_paths_free(paths);
}

/* Runs `function` in a forked child and returns its exit code. */
static int in_a_child(void (*function)(void *), void *context)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        function(context);
        helper_end_child(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void abort_writer(void *writer)
{
    tfos_writer_abort(writer);
}

static void a_child_does_not_take_its_parents_file(void **state)
{
    const char *path = helper_path(state, "forked.tfrecord");
    tfos_writer *writer;
    assert_int_equal(tfos_writer_open(path, NULL, &writer, NULL), TFOS_OK);
    assert_int_equal(tfos_writer_write_record(writer, "x", 1, NULL), TFOS_OK);
    assert_int_equal(in_a_child(abort_writer, writer), 0);
    assert_int_equal(tfos_writer_close(writer, NULL), TFOS_OK);
    assert_int_equal(verify(path).records, 1);
}

static void read_and_close(void *reader)
{
    tfos_batch *batch;
    tfos_error error;
    tfos_status status = tfos_reader_next(reader, &batch, &error);
    tfos_reader_close(reader);
    helper_end_child(status == TFOS_INVALID && strstr(error.message, "forked") != NULL ? 7 : 1);
}

static void a_child_is_told_that_the_reader_is_not_its_own(void **state)
{
    const char *path = helper_path(state, "forked.tfrecord");
    helper_to_file(path, helper_frame(helper_from_text("x")));
    tfos_paths *paths = expand(path);
    tfos_read_options options;
    tfos_read_options_init(&options, sizeof options);
    options.record = TFOS_RECORD_BYTES;
    options.threads = 2;
    tfos_reader *reader;
    assert_int_equal(tfos_reader_open(paths, &options, &reader, NULL), TFOS_OK);
    assert_int_equal(in_a_child(read_and_close, reader), 7);
    tfos_reader_close(reader);
    tfos_paths_free(paths);
}

static void find_no_memory(const char *path)
{
    tfos_read_options options = helper_raw_options();
    options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
    const tfos_paths *paths = helper_paths(path);
    /* There is enough to read the record, so what fails below is the joining. */
    helper_need(tfos_records_verify(paths, &options, false, NULL, NULL, NULL, NULL) == TFOS_OK);
    options.record = TFOS_RECORD_EXAMPLE;
    helper_need(tfos_records_verify(paths, &options, true, NULL, NULL, NULL, NULL) == TFOS_NO_MEMORY);
    tfos_schema *schema = NULL;
    helper_need(tfos_schema_infer(paths, &options, &schema, NULL) == TFOS_NO_MEMORY);
    schema = helper_schema("{\"record\": \"example\", \"fields\": [{\"name\": \"x\", \"type\": \"binary\"}]}");
    options.schema = schema;
    helper_need(helper_read(path, &options).status == TFOS_NO_MEMORY);
}

enum { PART_MEGABYTES = 24 };

/* In a process of its own, too, for the same reason that the test is the first. */
static void write_parts(const char *path)
{
    helper_bytes bytes = helper_repeat('x', PART_MEGABYTES << 20);
    helper_bytes part = helper_bytes_field(2, helper_bytes_field(1, helper_bytes_field(1, bytes)));
    helper_bytes entry = JOIN(helper_bytes_field(1, helper_from_text("x")), part, part);
    helper_to_file(path, helper_frame(EXAMPLE(helper_bytes_field(1, entry))));
}

/* A value in two parts is joined before it is looked at. Without the memory for that, nothing is known of the record:
 * it must not be skipped as damaged. */
static void a_value_that_cannot_be_joined_is_not_damage(void **state)
{
    if (HELPER_SANITIZED) {
        skip(); /* the memory cannot be limited */
    }
    const char *path = helper_path(state, "parts.tfrecord");
    helper_run_within(40 * PART_MEGABYTES, write_parts, path);
    helper_run_within(3 * PART_MEGABYTES, find_no_memory, path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First, while the process has no freed memory to use again. */
        cmocka_unit_test_setup_teardown(a_value_that_cannot_be_joined_is_not_damage, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(headers_that_lie_are_passed_in_bounded_time, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(many_small_holes_are_crossed_in_place, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(records_behind_holes_keep_their_numbers, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(a_damaged_header_is_not_taken_for_zlib, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(zlib_is_still_found, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(a_compressed_file_is_one_range, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(a_search_can_be_interrupted, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(a_child_does_not_take_its_parents_file, helper_setup, helper_teardown),
        cmocka_unit_test_setup_teardown(a_child_is_told_that_the_reader_is_not_its_own, helper_setup, helper_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
