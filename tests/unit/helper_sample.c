#include "helper_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "record/frame.h"

static void add(helper_sample *sample, helper_bytes payload)
{
    sample->start[sample->count] = sample->file.count;
    sample->payload[sample->count++] = payload;
    sample->file = JOIN(sample->file, helper_frame(payload));
    sample->start[sample->count] = sample->file.count;
}

helper_sample helper_small_sample(void)
{
    helper_sample sample = {0};
    uint8_t rising[40];
    for (size_t i = 0; i < sizeof rising; i++) {
        rising[i] = (uint8_t)(i * 7);
    }
    add(&sample, helper_from_text("first"));
    add(&sample, helper_from_text(""));
    add(&sample, helper_copy(rising, sizeof rising));
    add(&sample, helper_from_text("x"));
    add(&sample, helper_repeat(0, 9));
    add(&sample, helper_from_text("a record in the middle"));
    add(&sample, helper_from_text("last"));
    return sample;
}

helper_sample helper_random_sample(uint64_t *random, size_t longest)
{
    helper_sample sample = {0};
    uint8_t payload[4096];
    assert_true(longest + 8 <= sizeof payload);
    size_t count = helper_random(random) % (SAMPLE_MOST + 1);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = 8 + helper_random(random) % (longest + 1);
        for (size_t j = 0; j < bytes; j++) {
            payload[j] = (uint8_t)helper_random(random);
        }
        tfos__store_u64(payload, i); /* no two are the same */
        add(&sample, helper_copy(payload, bytes));
    }
    return sample;
}

size_t helper_sample_record(const helper_sample *sample, size_t offset)
{
    size_t record = 0;
    while (sample->start[record + 1] <= offset) {
        record++;
    }
    return record;
}

/* ---- what can be recovered ---- */

static bool header_at(helper_bytes file, size_t at, uint64_t *length)
{
    return file.count >= at + 12 && tfos__frame_header(file.data + at, length);
}

/* Whether a record fits at `at`, its payload sound or not. */
static bool frame_at(helper_bytes file, size_t at, uint64_t *length)
{
    return header_at(file, at, length) && *length <= file.count && *length + 16 <= file.count - at;
}

static bool record_at(helper_bytes file, size_t at, uint64_t *length)
{
    return frame_at(file, at, length) && tfos__frame_payload(file.data + at + 12, (size_t)*length);
}

helper_sample helper_recover(helper_bytes file)
{
    helper_sample found = {.file = file};
    size_t at = 0;
    while (at < file.count) {
        uint64_t length;
        uint64_t next_length;
        if (record_at(file, at, &length)) {
            assert_true(found.count < SAMPLE_MOST);
            found.start[found.count] = at;
            found.payload[found.count++] = helper_part(file, at + 12, at + 12 + (size_t)length);
            at += (size_t)length + 16;
            continue;
        }
        if (frame_at(file, at, &length)) {
            size_t next = at + (size_t)length + 16;
            if (next == file.count || header_at(file, next, &next_length)) {
                at = next;
                continue;
            }
        }
        do {
            at++;
        } while (at < file.count && !record_at(file, at, &length));
    }
    return found;
}

/* ---- reading ---- */

typedef struct told_damage {
    int64_t count;
    int64_t bytes;
    int64_t end; /* of the last */
} told_damage;

static void hear(const tfos_damage *damage, void *context)
{
    told_damage *told = context;
    assert_true(damage->offset >= told->end);
    assert_true(damage->bytes >= 0);
    assert_true(damage->status == TFOS_CORRUPT || damage->status == TFOS_TRUNCATED);
    assert_true(damage->message[0] != '\0');
    told->count++;
    told->bytes += damage->bytes;
    told->end = damage->offset + damage->bytes;
}

static void expect_rows(const helper_result *result, const helper_sample *sample, size_t count)
{
    assert_int_equal(result->row_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_true(helper_equal(result->records[i], sample->payload[i]));
    }
    assert_int_equal(result->progress.records, count);
}

int64_t helper_expect_skip(const char *path, helper_bytes file, const helper_sample *expected)
{
    static const int64_t batch_rows[] = {1, 2, 1024};
    int64_t good_bytes = 0;
    told_damage heard = {0};
    tfos_progress progress = {0};
    tfos_read_options options = helper_raw_options();
    helper_to_file(path, file);
    for (size_t i = 0; i < expected->count; i++) {
        good_bytes += (int64_t)expected->payload[i].count + TFOS__FRAME_OVERHEAD_BYTES;
    }
    tfos_status status = tfos_records_verify(helper_paths(path), &options, false, hear, &heard, &progress, NULL);
    assert_int_equal(status, TFOS_OK);
    assert_int_equal(progress.records, expected->count);
    assert_int_equal(heard.bytes + good_bytes, (int64_t)file.count);
    assert_int_equal(heard.count, progress.skipped_records);
    assert_int_equal(progress.done_bytes, (int64_t)file.count);
    options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
    for (size_t i = 0; i < sizeof batch_rows / sizeof batch_rows[0]; i++) {
        options.batch_rows = batch_rows[i];
        helper_result result = helper_read(path, &options);
        assert_int_equal(result.status, TFOS_END);
        expect_rows(&result, expected, expected->count);
        assert_int_equal(result.progress.skipped_bytes + good_bytes, (int64_t)file.count);
        assert_int_equal(result.progress.skipped_records, heard.count);
        assert_int_equal(result.progress.done_bytes, (int64_t)file.count);
    }
    return heard.count;
}

void helper_expect_error(const char *path, const helper_sample *sample, size_t good, int64_t offset)
{
    static const int64_t batch_rows[] = {1, 1024};
    char where[40];
    snprintf(where, sizeof where, ": offset %lld (record %zu): ", (long long)offset, good);
    for (size_t i = 0; i < sizeof batch_rows / sizeof batch_rows[0]; i++) {
        tfos_read_options options = helper_raw_options();
        options.batch_rows = batch_rows[i];
        helper_result result = helper_read(path, &options);
        assert_true(result.status == TFOS_CORRUPT || result.status == TFOS_TRUNCATED);
        assert_int_equal(result.error.status, result.status);
        helper_expect_in(result.error.message, path);
        if (offset >= 0) {
            helper_expect_in(result.error.message, where);
        }
        expect_rows(&result, sample, good);
    }
}
