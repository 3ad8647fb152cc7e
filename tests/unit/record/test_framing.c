/* Framing: every way to damage a small file ends in the documented error or in the counted skip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helper_sample.h"
#include "record/frame.h"

/* The sample without its records from `lost` to `lost_end`. */
static helper_sample without(const helper_sample *sample, size_t lost, size_t lost_end)
{
    helper_sample rest = {0};
    for (size_t i = 0; i < sample->count; i++) {
        if (i < lost || i >= lost_end) {
            rest.payload[rest.count++] = sample->payload[i];
        }
    }
    return rest;
}

static void test_a_whole_file(void **state)
{
    helper_sample sample = helper_small_sample();
    assert_int_equal(helper_expect_skip(helper_path(state, "f"), sample.file, &sample), 0);
    helper_result result = helper_read(helper_path(state, "f"), NULL);
    assert_int_equal(result.status, TFOS_END);
    assert_int_equal(result.row_count, sample.count);
}

static void test_an_empty_file(void **state)
{
    helper_sample sample = {0};
    assert_int_equal(helper_expect_skip(helper_path(state, "f"), sample.file, &sample), 0);
    int64_t count = -1;
    assert_int_equal(tfos_records_count(helper_path(state, "f"), TFOS_CODEC_AUTO, &count, NULL), TFOS_OK);
    assert_int_equal(count, 0);
}

static void test_every_prefix(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    for (size_t cut = 0; cut < sample.file.count; cut++) {
        size_t whole = helper_sample_record(&sample, cut);
        helper_sample rest = without(&sample, whole, sample.count);
        bool boundary = sample.start[whole] == cut;
        assert_int_equal(helper_expect_skip(path, helper_part(sample.file, 0, cut), &rest), boundary ? 0 : 1);
        int64_t counted = -1;
        tfos_error error = {0};
        tfos_status status = tfos_records_count(path, TFOS_CODEC_AUTO, &counted, &error);
        if (boundary) {
            assert_int_equal(helper_read(path, NULL).status, TFOS_END);
            assert_int_equal(status, TFOS_OK);
            assert_int_equal(counted, whole);
        } else {
            helper_expect_error(path, &sample, whole, (int64_t)sample.start[whole]);
            assert_int_equal(helper_read(path, NULL).status, TFOS_TRUNCATED);
            assert_int_equal(status, TFOS_TRUNCATED);
            helper_expect_in(error.message, path);
            assert_int_equal(counted, -1);
        }
    }
}

static void test_every_flipped_bit(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    for (size_t bit = 0; bit < sample.file.count * 8; bit++) {
        helper_bytes flipped = helper_copy(sample.file.data, sample.file.count);
        ((uint8_t *)(uintptr_t)flipped.data)[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        size_t record = helper_sample_record(&sample, bit / 8);
        helper_sample rest = without(&sample, record, record + 1);
        assert_int_equal(helper_expect_skip(path, flipped, &rest), 1);
        helper_expect_error(path, &sample, record, (int64_t)sample.start[record]);
    }
}

/* Bytes that are lost inside a record cost that record, and no other. */
static void test_bytes_lost_inside_a_record(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    for (size_t record = 0; record < sample.count; record++) {
        for (size_t bytes = 1; bytes < sample.payload[record].count && bytes < 16; bytes++) {
            size_t from = sample.start[record] + 12;
            helper_sample rest = without(&sample, record, record + 1);
            helper_bytes less =
                JOIN(helper_part(sample.file, 0, from), helper_part(sample.file, from + bytes, sample.file.count));
            helper_expect_skip(path, less, &rest);
            helper_expect_error(path, &sample, record, (int64_t)sample.start[record]);
        }
    }
}

static void test_bytes_lost_anywhere(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    static const size_t lengths[] = {1, 5, 16, 40};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (size_t from = 0; from + lengths[i] <= sample.file.count; from++) {
            size_t to = from + lengths[i];
            helper_bytes less =
                JOIN(helper_part(sample.file, 0, from), helper_part(sample.file, to, sample.file.count));
            helper_sample rest = helper_recover(less);
            helper_expect_skip(path, less, &rest);
        }
    }
}

/* Bytes that came between cost the record that they are in, if any. */
static void test_added_bytes(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    static const size_t lengths[] = {1, 12, 50};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (size_t at = 0; at <= sample.file.count; at++) {
            bool inside = at < sample.file.count && sample.start[helper_sample_record(&sample, at)] != at;
            size_t record = inside ? helper_sample_record(&sample, at) : 0;
            helper_sample rest = without(&sample, record, record + inside);
            helper_bytes more = JOIN(helper_part(sample.file, 0, at), helper_repeat(0xA5, lengths[i]),
                                     helper_part(sample.file, at, sample.file.count));
            helper_expect_skip(path, more, &rest);
        }
    }
}

/* Any mixture of lost, added and changed bytes. */
static void test_random_damage(void **state)
{
    uint64_t random = 20260101;
    const char *path = helper_path(state, "f");
    for (int round = 0; round < 300; round++) {
        helper_bytes file = helper_random_sample(&random, 60).file;
        for (size_t wounds = helper_random(&random) % 6; wounds > 0 && file.count > 0; wounds--) {
            size_t from = helper_random(&random) % file.count;
            size_t lost = helper_random(&random) % 40;
            size_t to = from + lost < file.count ? from + lost : file.count;
            helper_bytes added = helper_repeat((uint8_t)helper_random(&random), helper_random(&random) % 40);
            file = JOIN(helper_part(file, 0, from), added, helper_part(file, to, file.count));
        }
        helper_sample rest = helper_recover(file);
        helper_expect_skip(path, file, &rest);
    }
}

/* Lengths whose checksum is right and that no file can hold. */
static const uint64_t lying_lengths[] = {
    UINT64_MAX,
    UINT64_MAX - 3,
    UINT64_MAX - 11,
    UINT64_MAX - 15,
    UINT64_C(1) << 63,
    (UINT64_C(1) << 63) - 1,
    UINT64_C(1) << 40,
    UINT64_C(1) << 31,
    INT32_MAX,
    1 << 20,
    1000,
};

static void test_lengths_that_lie(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    for (size_t i = 0; i < sizeof lying_lengths / sizeof lying_lengths[0]; i++) {
        for (size_t place = 0; place <= sample.count; place++) {
            size_t at = sample.start[place];
            helper_bytes file = JOIN(helper_part(sample.file, 0, at), helper_header(lying_lengths[i]),
                                     helper_part(sample.file, at, sample.file.count));
            assert_int_equal(helper_expect_skip(path, file, &sample), 1);
            helper_expect_error(path, &sample, place, (int64_t)at);
            int64_t counted;
            tfos_error error = {0};
            assert_int_equal(tfos_records_count(path, TFOS_CODEC_NONE, &counted, &error), TFOS_TRUNCATED);
            helper_expect_in(error.message, "cut short");
        }
    }
}

static void read_in_both_ways(const char *path)
{
    tfos_read_options options = helper_raw_options();
    helper_result result = helper_read(path, &options);
    helper_need(result.status == TFOS_TRUNCATED || result.status == TFOS_CORRUPT || result.status == TFOS_LIMIT);
    helper_need(result.progress.memory_bytes < 8 << 20);
    options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
    result = helper_read(path, &options);
    helper_need(result.status == TFOS_END);
    helper_need(result.progress.memory_bytes < 8 << 20);
}

static void test_lengths_cost_no_memory(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    for (size_t i = 0; i < sizeof lying_lengths / sizeof lying_lengths[0]; i++) {
        helper_bytes file = JOIN(sample.file, helper_header(lying_lengths[i]), sample.file);
        helper_to_file(path, file);
        helper_run_within(24, read_in_both_ways, path);
        helper_to_file(path, helper_deflate(file, TFOS_CODEC_GZIP)); /* of which the size is not known */
        helper_run_within(24, read_in_both_ways, path);
    }
}

static void read_past_garbage(const char *path)
{
    tfos_read_options options = helper_raw_options();
    options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
    helper_result result = helper_read(path, &options);
    helper_need(result.status == TFOS_END);
    helper_need(result.row_count == 2 * helper_small_sample().count);
    helper_need(result.progress.skipped_records == 1);
    helper_need(result.progress.skipped_bytes + 2 * (int64_t)helper_small_sample().file.count ==
                result.progress.done_bytes);
    helper_need(result.progress.memory_bytes < 8 << 20);
}

static void test_much_garbage_takes_little_memory(void **state)
{
    size_t garbage = HELPER_SANITIZED ? 8 << 20 : 64 << 20;
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    helper_to_file(path, JOIN(sample.file, helper_repeat(0x5A, garbage), sample.file));
    helper_run_within(24, read_past_garbage, path);
    helper_to_file(path, helper_deflate(JOIN(sample.file, helper_repeat(0, garbage), sample.file), TFOS_CODEC_ZLIB));
    tfos_read_options options = helper_raw_options();
    options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
    helper_result result = helper_read(path, &options);
    assert_int_equal(result.row_count, 2 * sample.count);
    assert_int_equal(result.progress.skipped_bytes, garbage);
    assert_true(result.progress.memory_bytes < 8 << 20);
}

/* Files of other kinds, and a file that is one long record. */
static void test_other_files(void **state)
{
    helper_sample none = {0};
    const char *path = helper_path(state, "f");
    helper_bytes text = helper_from_text("a,b,c\n1,2,3\n4,5,6\n");
    assert_int_equal(helper_expect_skip(path, text, &none), 1);
    helper_result result = helper_read(path, NULL);
    assert_int_equal(result.status, TFOS_CORRUPT);
    helper_expect_in(result.error.message,
                     "f: offset 0 (record 0): the checksum of the header does not match: expected "
                     "a TFRecord file, found something else");
    helper_bytes large = helper_repeat('x', 3 << 20);
    helper_to_file(path, JOIN(helper_frame(large), helper_frame(helper_from_text("y"))));
    tfos_read_options options = helper_raw_options();
    options.batch_bytes = 1;
    result = helper_read(path, &options);
    assert_int_equal(result.status, TFOS_END);
    assert_int_equal(result.batch_count, 2);
    assert_true(helper_equal(result.records[0], large));
}

static void test_batches_end_by_rows_or_bytes(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    helper_to_file(path, sample.file);
    tfos_read_options options = helper_raw_options();
    for (int64_t rows = 1; rows <= (int64_t)sample.count + 1; rows++) {
        options.batch_rows = rows;
        helper_result result = helper_read(path, &options);
        assert_int_equal(result.batch_count, ((int64_t)sample.count + rows - 1) / rows);
    }
    options.batch_rows = 1024;
    options.batch_bytes = 60;
    helper_result result = helper_read(path, &options);
    assert_int_equal(result.row_count, sample.count);
    assert_true(result.batch_count >= 3 && result.batch_count < sample.count);
}

static void test_options_out_of_range(void **state)
{
    helper_to_file(helper_path(state, "f"), helper_small_sample().file);
    tfos_read_options options[7];
    for (size_t i = 0; i < 7; i++) {
        options[i] = helper_raw_options();
    }
    options[0].batch_rows = -1;
    options[1].batch_rows = INT64_MAX;
    options[2].batch_bytes = -1;
    options[3].threads = -2;
    options[4].infer_records = -1;
    options[5].range_start = -1;
    options[6].range_end = -2;
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(helper_read(helper_path(state, "f"), &options[i]).status, TFOS_INVALID);
    }
}

static void test_files_that_cannot_be_opened(void **state)
{
    helper_result result = helper_read(helper_path(state, "missing"), NULL);
    assert_int_equal(result.status, TFOS_NOT_FOUND);
    helper_expect_in(result.error.message, "missing: cannot be opened for reading");
    tfos_read_options options = helper_raw_options();
    options.on_corrupt = TFOS_ON_CORRUPT_SKIP; /* a file that is not there is no damage */
    assert_int_equal(helper_read(helper_path(state, "missing"), &options).status, TFOS_NOT_FOUND);
    assert_int_equal(helper_read(*state, NULL).status, TFOS_INVALID);
}

/* ---- pipes ---- */

typedef struct piped {
    pthread_t thread;
    const char *path;
    helper_bytes bytes;
} piped;

static void *feed_pipe(void *context)
{
    const piped *self = context;
    int descriptor = open(self->path, O_WRONLY | O_CLOEXEC);
    for (size_t at = 0; descriptor >= 0 && at < self->bytes.count;) {
        size_t part = self->bytes.count - at < 100 ? self->bytes.count - at : 100;
        ssize_t written = write(descriptor, self->bytes.data + at, part);
        at = written > 0 ? at + (size_t)written : self->bytes.count;
    }
    close(descriptor);
    return NULL;
}

static helper_result read_pipe(void **state, helper_bytes bytes, const tfos_read_options *options)
{
    piped pipe = {.path = helper_path(state, "pipe"), .bytes = bytes};
    assert_int_equal(mkfifo(pipe.path, 0666), 0);
    assert_int_equal(pthread_create(&pipe.thread, NULL, feed_pipe, &pipe), 0);
    helper_result result = helper_read(pipe.path, options);
    assert_int_equal(pthread_join(pipe.thread, NULL), 0);
    assert_int_equal(unlink(pipe.path), 0);
    return result;
}

static void test_pipes(void **state)
{
    helper_sample sample = helper_small_sample();
    helper_bytes long_file = sample.file;
    for (int i = 0; i < 12; i++) {
        long_file = JOIN(long_file, long_file);
    }
    tfos_read_options options = helper_raw_options();
    for (options.threads = 0; options.threads < 3; options.threads++) {
        helper_result result = read_pipe(state, long_file, &options);
        assert_int_equal(result.status, TFOS_END);
        assert_int_equal(result.row_count, sample.count << 12);
        result = read_pipe(state, helper_deflate(long_file, TFOS_CODEC_GZIP), &options);
        assert_int_equal(result.status, TFOS_END);
        assert_int_equal(result.row_count, sample.count << 12);
    }
    options.threads = 0;
    assert_int_equal(read_pipe(state, helper_from_text(""), &options).status, TFOS_END);
    helper_bytes cut = helper_part(sample.file, 0, sample.file.count - 1);
    helper_result result = read_pipe(state, cut, &options);
    assert_int_equal(result.status, TFOS_TRUNCATED);
    assert_int_equal(result.row_count, sample.count - 1);
    options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
    result = read_pipe(state, JOIN(cut, sample.file), &options);
    assert_int_equal(result.status, TFOS_END);
    assert_int_equal(result.row_count, 2 * sample.count - 1);
    assert_int_equal(result.progress.skipped_records, 1);
}

typedef tfos_status (*pipe_function)(const char *path, int64_t *out, tfos_error *error);

static tfos_status with_pipe(void **state, helper_bytes bytes, pipe_function function, int64_t *out, tfos_error *error)
{
    piped pipe = {.path = helper_path(state, "pipe"), .bytes = bytes};
    assert_int_equal(mkfifo(pipe.path, 0666), 0);
    assert_int_equal(pthread_create(&pipe.thread, NULL, feed_pipe, &pipe), 0);
    tfos_status status = function(pipe.path, out, error);
    assert_int_equal(pthread_join(pipe.thread, NULL), 0);
    assert_int_equal(unlink(pipe.path), 0);
    return status;
}

static tfos_status count_pipe(const char *path, int64_t *out, tfos_error *error)
{
    return tfos_records_count(path, TFOS_CODEC_AUTO, out, error);
}

static tfos_status verify_pipe(const char *path, int64_t *out, tfos_error *error)
{
    tfos_progress progress = {0};
    tfos_status status = tfos_records_verify(helper_paths(path), NULL, false, NULL, NULL, &progress, error);
    *out = progress.records;
    return status;
}

/* What needs one pass only works with a pipe. */
static void test_pipes_are_counted_and_verified(void **state)
{
    helper_sample sample = helper_small_sample();
    int64_t count = -1;
    tfos_error error = {0};
    assert_int_equal(with_pipe(state, sample.file, count_pipe, &count, &error), TFOS_OK);
    assert_int_equal(count, sample.count);
    assert_int_equal(with_pipe(state, helper_deflate(sample.file, TFOS_CODEC_GZIP), count_pipe, &count, &error),
                     TFOS_OK);
    assert_int_equal(count, sample.count);
    count = -1;
    assert_int_equal(with_pipe(state, sample.file, verify_pipe, &count, &error), TFOS_OK);
    assert_int_equal(count, sample.count);
}

/* What needs two passes, or a place in the middle, says so instead of finding nothing or waiting for ever. */
static void test_what_a_pipe_cannot(void **state)
{
    const char *path = helper_path(state, "pipe");
    assert_int_equal(mkfifo(path, 0666), 0);
    int keep_open = open(path, O_RDWR | O_CLOEXEC); /* so that opening it does not wait for a writer */
    assert_true(keep_open >= 0);
    helper_bytes record = helper_frame(helper_from_text("x"));
    assert_int_equal(write(keep_open, record.data, record.count), record.count);
    tfos_read_options options;
    tfos_read_options_init(&options, sizeof options);
    options.threads = 0;
    helper_result result = helper_read(path, &options);
    assert_int_equal(result.status, TFOS_INVALID);
    helper_expect_in(result.error.message, "can be read only once");
    options = helper_raw_options();
    options.range_start = 16;
    result = helper_read(path, &options);
    assert_int_equal(result.status, TFOS_UNSUPPORTED);
    helper_expect_in(result.error.message, "found a pipe");
    assert_int_equal(write(keep_open, record.data, record.count), record.count);
    tfos_error error = {0};
    assert_int_equal(tfos_index_build(path, NULL, &error), TFOS_UNSUPPORTED);
    close(keep_open);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_setup, helper_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_a_whole_file),
        IN_FOLDER(test_an_empty_file),
        IN_FOLDER(test_every_prefix),
        IN_FOLDER(test_every_flipped_bit),
        IN_FOLDER(test_bytes_lost_inside_a_record),
        IN_FOLDER(test_bytes_lost_anywhere),
        IN_FOLDER(test_added_bytes),
        IN_FOLDER(test_random_damage),
        IN_FOLDER(test_lengths_that_lie),
        IN_FOLDER(test_lengths_cost_no_memory),
        IN_FOLDER(test_much_garbage_takes_little_memory),
        IN_FOLDER(test_other_files),
        IN_FOLDER(test_batches_end_by_rows_or_bytes),
        IN_FOLDER(test_options_out_of_range),
        IN_FOLDER(test_files_that_cannot_be_opened),
        IN_FOLDER(test_pipes),
        IN_FOLDER(test_pipes_are_counted_and_verified),
        IN_FOLDER(test_what_a_pipe_cannot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
