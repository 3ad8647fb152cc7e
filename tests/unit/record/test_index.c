/* Index and splits: every record is found, by the index and without it, and read by one split only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helper_sample.h"
#include "record/index.h"

/* The file twice as long as an index lists one record of: many blocks, the last one not full. */
static helper_bytes many_records(size_t count, size_t *starts)
{
    helper_bytes *records = calloc(count + 1, sizeof *records);
    assert_non_null(records);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        records[i] = helper_frame(helper_repeat((uint8_t)i, i * 7 % 50));
        starts[i] = at;
        at += records[i].count;
    }
    starts[count] = at;
    helper_bytes file = helper_join(records, count);
    free(records);
    return file;
}

static void test_every_offset(void **state)
{
    const char *path = helper_path(state, "f");
    size_t starts[200];
    static const size_t counts[] = {0, 1, 31, 32, 33, 64, 199};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        helper_to_file(path, many_records(counts[i], starts));
        int64_t records = -1;
        tfos_error error = {0};
        assert_int_equal(tfos_index_build(path, &records, &error), TFOS_OK);
        assert_int_equal(records, counts[i]);
        assert_int_equal(tfos_index_build(path, NULL, &error), TFOS_OK); /* again */
        tfos_index *index = NULL;
        assert_int_equal(tfos_index_open(path, &index, &error), TFOS_OK);
        assert_int_equal(tfos_index_records(index), counts[i]);
        int64_t offset;
        for (size_t record = 0; record <= counts[i]; record++) {
            size_t number = (record * 37) % (counts[i] + 1);
            assert_int_equal(tfos_index_offset(index, (int64_t)number, &offset, &error), TFOS_OK);
            assert_int_equal(offset, starts[number]);
        }
        assert_int_equal(tfos_index_offset(index, (int64_t)counts[i] + 1, &offset, &error), TFOS_RANGE);
        helper_expect_in(error.message, "there is no record");
        assert_int_equal(tfos_index_offset(index, -1, &offset, &error), TFOS_RANGE);
        tfos_index_free(index);
        tfos_index_free(NULL);
    }
}

/* A writer makes the index that tfos_index_build makes, of files of any size. */
static void test_an_index_that_is_written_along(void **state)
{
    static const size_t counts[] = {0, 1, 32, 33, 100, 5000};
    const char *path = helper_path(state, "f");
    tfos_write_options options;
    tfos_write_options_init(&options, sizeof options);
    options.index = true;
    options.overwrite = true;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        tfos_writer *writer = NULL;
        assert_int_equal(tfos_writer_open(path, &options, &writer, NULL), TFOS_OK);
        for (size_t record = 0; record < counts[i]; record++) {
            static const char bytes[4000];
            assert_int_equal(tfos_writer_write_record(writer, bytes, record % 37 * 100, NULL), TFOS_OK);
        }
        assert_int_equal(tfos_writer_close(writer, NULL), TFOS_OK);
        helper_bytes along = helper_of_file(helper_path(state, "f.tfindex"));
        assert_int_equal(tfos_index_build(path, NULL, NULL), TFOS_OK);
        assert_true(helper_equal(along, helper_of_file(helper_path(state, "f.tfindex"))));
    }
    tfos_error error = {0};
    tfos_writer *none = NULL;
    options.codec = TFOS_CODEC_GZIP;
    assert_int_equal(tfos_writer_open(helper_path(state, "g"), &options, &none, &error), TFOS_INVALID);
    helper_expect_in(error.message, "g: a file that is compressed (gzip) cannot be indexed");
}

static void test_what_cannot_be_indexed(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    tfos_error error = {0};
    assert_int_equal(tfos_index_build(path, NULL, &error), TFOS_NOT_FOUND);
    helper_to_file(path, helper_deflate(sample.file, TFOS_CODEC_GZIP));
    assert_int_equal(tfos_index_build(path, NULL, &error), TFOS_UNSUPPORTED);
    helper_expect_in(error.message, "only an uncompressed file can be indexed, found gzip");
    helper_to_file(path, helper_part(sample.file, 0, sample.file.count - 1));
    assert_int_equal(tfos_index_build(path, NULL, &error), TFOS_TRUNCATED);
    helper_to_file(path, JOIN(sample.file, helper_repeat('x', 30)));
    assert_int_equal(tfos_index_build(path, NULL, &error), TFOS_CORRUPT);
    char where[40];
    snprintf(where, sizeof where, "offset %zu (record %zu)", sample.file.count, sample.count);
    helper_expect_in(error.message, where);
    /* Nothing of these attempts is left. */
    assert_false(helper_exists(helper_path(state, "f.tfindex")));
    tfos_index *index = NULL;
    assert_int_equal(tfos_index_open(path, &index, &error), TFOS_NOT_FOUND);
    assert_null(index);
}

static void test_a_stale_index(void **state)
{
    size_t starts[200];
    helper_bytes file = many_records(199, starts);
    const char *path = helper_path(state, "f");
    tfos_index *index = NULL;
    tfos_error error = {0};
    helper_to_file(path, file);
    assert_int_equal(tfos_index_build(path, NULL, NULL), TFOS_OK);
    helper_to_file(path, JOIN(file, helper_frame(helper_from_text("more"))));
    assert_int_equal(tfos_index_open(path, &index, &error), TFOS_MISMATCH);
    helper_expect_in(error.message, "f: the file has changed since it was indexed");
    /* Counting then does without it. */
    int64_t count = -1;
    assert_int_equal(tfos_records_count(path, TFOS_CODEC_AUTO, &count, NULL), TFOS_OK);
    assert_int_equal(count, 200);
    /* Another file of the same size: the records are the same number of bytes, in another order. */
    helper_bytes turned = JOIN(helper_part(file, starts[1], starts[2]), helper_part(file, 0, starts[1]),
                               helper_part(file, starts[2], file.count));
    helper_to_file(path, turned);
    assert_int_equal(tfos_index_open(path, &index, &error), TFOS_MISMATCH);
    helper_expect_in(error.message, "build the index again");
    assert_null(index);
}

/* A change in the middle, of which neither the size nor the ends tell. */
static void test_a_file_that_changed_in_the_middle(void **state)
{
    static size_t starts[600];
    helper_bytes file = many_records(599, starts);
    const char *path = helper_path(state, "f");
    helper_to_file(path, file);
    assert_int_equal(tfos_index_build(path, NULL, NULL), TFOS_OK);
    size_t listed = 288; /* two neighbours change places, and the second was listed */
    assert_true(starts[listed - 1] > 4096 && file.count - starts[listed + 1] > 4096);
    helper_to_file(path,
                   JOIN(helper_part(file, 0, starts[listed - 1]), helper_part(file, starts[listed], starts[listed + 1]),
                        helper_part(file, starts[listed - 1], starts[listed]),
                        helper_part(file, starts[listed + 1], file.count)));
    tfos_index *index = NULL;
    tfos_error error = {0};
    int64_t offset = -1;
    assert_int_equal(tfos_index_open(path, &index, NULL), TFOS_OK);
    assert_int_equal(tfos_index_offset(index, (int64_t)listed - 1, &offset, NULL), TFOS_OK);
    assert_int_equal(offset, starts[listed - 1]);
    assert_int_equal(tfos_index_offset(index, (int64_t)listed, &offset, &error), TFOS_MISMATCH);
    helper_expect_in(error.message, "the file has changed since it was indexed: build the index again");
    assert_int_equal(offset, starts[listed - 1]); /* untouched */
    tfos_index_free(index);
    /* A split that begins there finds its record all the same. */
    size_t swapped = starts[listed - 1] + (starts[listed + 1] - starts[listed]);
    assert_int_equal(tfos_records_align(path, (int64_t)starts[listed - 1] + 1, &offset, NULL), TFOS_OK);
    assert_int_equal(offset, swapped);
    assert_int_equal(tfos_records_align(path, (int64_t)starts[listed], &offset, NULL), TFOS_OK);
    assert_int_equal(offset, swapped < starts[listed] ? starts[listed + 1] : swapped);
}

static void test_every_damaged_byte_of_an_index(void **state)
{
    size_t starts[200];
    const char *path = helper_path(state, "f");
    const char *name = helper_path(state, "f.tfindex");
    tfos_index *index = NULL;
    helper_to_file(path, many_records(99, starts));
    assert_int_equal(tfos_index_build(path, NULL, NULL), TFOS_OK);
    helper_bytes good = helper_of_file(name);
    for (size_t bit = 0; bit < good.count * 8; bit++) {
        helper_bytes bad = helper_copy(good.data, good.count);
        ((uint8_t *)(uintptr_t)bad.data)[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        helper_to_file(name, bad);
        tfos_error error = {0};
        assert_int_equal(tfos_index_open(path, &index, &error), TFOS_CORRUPT);
        helper_expect_in(error.message, "f.tfindex: ");
        helper_expect_in(error.message, "build it again");
    }
    for (size_t cut = 0; cut < good.count; cut++) {
        helper_to_file(name, helper_part(good, 0, cut));
        assert_int_equal(tfos_index_open(path, &index, NULL), TFOS_CORRUPT);
    }
    helper_to_file(name, JOIN(good, HEX(0)));
    assert_int_equal(tfos_index_open(path, &index, NULL), TFOS_CORRUPT);
    /* A damaged index makes nothing unreadable. */
    int64_t count = -1;
    int64_t offset = -1;
    assert_int_equal(tfos_records_count(path, TFOS_CODEC_AUTO, &count, NULL), TFOS_OK);
    assert_int_equal(count, 99);
    assert_int_equal(tfos_records_align(path, 1, &offset, NULL), TFOS_OK);
    assert_int_equal(offset, starts[1]);
    assert_null(index);
}

/* ---- alignment ---- */

static void test_align_every_offset(void **state)
{
    size_t starts[80];
    helper_bytes file = many_records(79, starts);
    const char *path = helper_path(state, "f");
    helper_to_file(path, file);
    for (int indexed = 0; indexed < 2; indexed++) {
        size_t record = 0;
        for (size_t offset = 0; offset <= file.count + 3; offset++) {
            while (record < 79 && starts[record] < offset) {
                record++;
            }
            int64_t aligned = -1;
            tfos_error error = {0};
            assert_int_equal(tfos_records_align(path, (int64_t)offset, &aligned, &error), TFOS_OK);
            assert_int_equal(aligned, starts[record]);
        }
        assert_int_equal(tfos_index_build(path, NULL, NULL), TFOS_OK);
    }
    int64_t aligned = -1;
    assert_int_equal(tfos_records_align(path, INT64_MAX, &aligned, NULL), TFOS_OK);
    assert_int_equal(aligned, file.count);
    assert_int_equal(tfos_records_align(path, -5, &aligned, NULL), TFOS_OK);
    assert_int_equal(aligned, 0);
}

/* ---- splits ---- */

typedef struct split_result {
    size_t rows;
    int64_t skipped_records;
    int64_t skipped_bytes;
    tfos_status status; /* of the first split that failed */
} split_result;

/* Reads the pieces [0, a), [a, b), [b, end) and puts their rows together. */
static split_result read_splits(const char *path, const int64_t *borders, size_t count, tfos_on_corrupt on_corrupt,
                                const helper_sample *expected)
{
    split_result all = {.status = TFOS_END};
    for (size_t i = 0; i + 1 < count; i++) {
        tfos_read_options options = helper_raw_options();
        options.on_corrupt = on_corrupt;
        options.range_start = borders[i];
        options.range_end = borders[i + 1];
        helper_result part = helper_read(path, &options);
        for (size_t row = 0; row < part.row_count; row++) {
            assert_true(all.rows < expected->count);
            assert_true(helper_equal(part.records[row], expected->payload[all.rows++]));
        }
        all.skipped_records += part.progress.skipped_records;
        all.skipped_bytes += part.progress.skipped_bytes;
        if (part.status != TFOS_END) {
            all.status = part.status;
            return all;
        }
    }
    return all;
}

static void test_every_pair_of_splits(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    helper_to_file(path, sample.file);
    for (int indexed = 0; indexed < 2; indexed++) {
        for (int64_t a = 0; a <= (int64_t)sample.file.count; a++) {
            int64_t step = indexed ? 23 : 11;
            for (int64_t b = a; b <= (int64_t)sample.file.count + 2; b += step) {
                int64_t borders[] = {0, a, b, -1};
                split_result all = read_splits(path, borders, 4, TFOS_ON_CORRUPT_ERROR, &sample);
                assert_int_equal(all.status, TFOS_END);
                assert_int_equal(all.rows, sample.count);
            }
        }
        assert_int_equal(tfos_index_build(path, NULL, NULL), TFOS_OK);
    }
}

static void test_random_splits(void **state)
{
    uint64_t random = 7;
    const char *path = helper_path(state, "f");
    for (int round = 0; round < 60; round++) {
        helper_sample sample = helper_random_sample(&random, 200);
        helper_to_file(path, sample.file);
        if (round % 2 == 1) {
            assert_int_equal(tfos_index_build(path, NULL, NULL), TFOS_OK);
        }
        int64_t borders[12] = {0};
        size_t count = 1 + helper_random(&random) % 10;
        for (size_t i = 1; i < count; i++) {
            size_t room = sample.file.count / count + 1;
            borders[i] = borders[i - 1] + (int64_t)(helper_random(&random) % (2 * room));
        }
        borders[count] = -1;
        split_result all = read_splits(path, borders, count + 1, TFOS_ON_CORRUPT_ERROR, &sample);
        assert_int_equal(all.status, TFOS_END);
        assert_int_equal(all.rows, sample.count);
        if (round % 2 == 1) {
            assert_int_equal(unlink(helper_path(state, "f.tfindex")), 0);
        }
    }
}

/* Damage at, before or behind a border: no split may pass over it silently, and all splits together count its bytes
 * once. With an index that was built before the damage, too. */
static void check_damaged_splits(const char *path, helper_bytes file, const helper_sample *expected)
{
    int64_t good_bytes = 0;
    for (size_t i = 0; i < expected->count; i++) {
        good_bytes += (int64_t)expected->payload[i].count + 16;
    }
    for (int64_t border = 0; border <= (int64_t)file.count; border++) {
        int64_t borders[] = {0, border, -1};
        split_result all = read_splits(path, borders, 3, TFOS_ON_CORRUPT_SKIP, expected);
        assert_int_equal(all.status, TFOS_END);
        assert_int_equal(all.rows, expected->count);
        assert_true(all.skipped_records >= 1);
        assert_int_equal(all.skipped_bytes + good_bytes, (int64_t)file.count);
        all = read_splits(path, borders, 3, TFOS_ON_CORRUPT_ERROR, expected);
        assert_true(all.status == TFOS_CORRUPT || all.status == TFOS_TRUNCATED);
    }
}

static void test_damage_at_borders(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    for (int indexed = 0; indexed < 2; indexed++) {
        if (indexed) {
            helper_to_file(path, sample.file);
            assert_int_equal(tfos_index_build(path, NULL, NULL), TFOS_OK);
        }
        for (size_t byte = 0; byte < sample.file.count; byte += 17) {
            helper_bytes flipped = helper_copy(sample.file.data, sample.file.count);
            ((uint8_t *)(uintptr_t)flipped.data)[byte] ^= 0x40;
            helper_to_file(path, flipped);
            helper_sample rest = helper_recover(flipped);
            check_damaged_splits(path, flipped, &rest);
        }
    }
}

static void test_a_cut_tail_at_borders(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    for (size_t cut = sample.start[sample.count - 1] + 1; cut < sample.file.count; cut += 3) {
        helper_bytes file = helper_part(sample.file, 0, cut);
        helper_to_file(path, file);
        helper_sample rest = helper_recover(file);
        check_damaged_splits(path, file, &rest);
    }
}

/* ---- an index whose numbers lie, with a right checksum ---- */

static helper_bytes make_index(uint64_t file_bytes, uint64_t records, uint32_t stride, const uint64_t *offsets,
                               size_t count)
{
    uint8_t head[32] = "TFOSIDX1";
    tfos__store_u64(head + 8, file_bytes);
    tfos__store_u64(head + 16, records);
    tfos__store_u32(head + 24, stride);
    helper_bytes body = JOIN(helper_copy(head, 32), helper_copy(offsets, count * 8));
    helper_bytes framed = helper_frame(body); /* its footer is the checksum that an index has */
    return JOIN(body, helper_part(framed, framed.count - 4, framed.count));
}

static void test_numbers_that_contradict(void **state)
{
    static const uint64_t offsets[] = {0, 100, 50, UINT64_MAX, 1000};
    static const struct {
        uint64_t file_bytes;
        uint64_t records;
        uint32_t stride;
        size_t first;
        size_t count;
        bool good;
    } cases[] = {
        {1000, 40, 32, 0, 2, true},
        {1000, 40, 0, 0, 2, false},          /* no stride */
        {1000, 400, 32, 0, 2, false},        /* too few offsets */
        {1000, 32, 32, 0, 2, false},         /* too many */
        {1000, UINT64_MAX, 32, 0, 2, false}, /* negative */
        {1000, UINT64_MAX - 31, 32, 0, 0, false},
        {UINT64_MAX, 40, 32, 0, 2, false},
        {100, 40, 32, 0, 2, false},  /* an offset at the end of the file */
        {1000, 40, 32, 1, 2, false}, /* offsets that fall */
        {1000, 40, 32, 2, 2, false}, /* a negative offset */
        {1000, 40, 32, 3, 2, false},
        {1000, 0, 32, 0, 0, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        helper_bytes bytes = make_index(cases[i].file_bytes, cases[i].records, cases[i].stride,
                                        offsets + cases[i].first, cases[i].count);
        tfos__index_head head;
        tfos_error error = {0};
        tfos_status status = tfos__index_parse(bytes.data, bytes.count, "i", &head, &error);
        if ((status == TFOS_OK) != cases[i].good || (status != TFOS_OK && status != TFOS_CORRUPT)) {
            fail_msg("case %zu: %s", i, error.message);
        }
    }
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_setup, helper_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_every_offset),
        IN_FOLDER(test_an_index_that_is_written_along),
        IN_FOLDER(test_what_cannot_be_indexed),
        IN_FOLDER(test_a_stale_index),
        IN_FOLDER(test_a_file_that_changed_in_the_middle),
        IN_FOLDER(test_every_damaged_byte_of_an_index),
        IN_FOLDER(test_align_every_offset),
        IN_FOLDER(test_every_pair_of_splits),
        IN_FOLDER(test_random_splits),
        IN_FOLDER(test_damage_at_borders),
        IN_FOLDER(test_a_cut_tail_at_borders),
        IN_FOLDER(test_numbers_that_contradict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
