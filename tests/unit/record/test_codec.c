/* Compressed files: cut and flipped at every byte, of several members, and read with the wrong codec. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "helper_sample.h"
#include "record/codec.h"

static const tfos_codec codecs[] = {TFOS_CODEC_GZIP, TFOS_CODEC_ZLIB};

static helper_result read_as(const char *path, tfos_codec codec, tfos_on_corrupt on_corrupt)
{
    tfos_read_options options = helper_raw_options();
    options.codec = codec;
    options.on_corrupt = on_corrupt;
    return helper_read(path, &options);
}

static void expect_first(const helper_result *result, const helper_sample *sample)
{
    assert_true(result->row_count <= sample->count);
    for (size_t i = 0; i < result->row_count; i++) {
        assert_true(helper_equal(result->records[i], sample->payload[i]));
    }
}

static void expect_all(const helper_result *result, const helper_sample *sample)
{
    if (result->status != TFOS_END) {
        fail_msg("%s", result->error.message);
    }
    assert_int_equal(result->row_count, sample->count);
    expect_first(result, sample);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const names[] = {"auto", "none", "gzip", "zlib"};
    for (int i = 0; i < 4; i++) {
        tfos_codec codec;
        assert_int_equal(tfos_codec_parse(names[i], &codec, NULL), TFOS_OK);
        assert_int_equal(codec, i);
        assert_string_equal(tfos_codec_name(codec), names[i]);
    }
    tfos_codec codec;
    tfos_error error = {0};
    assert_int_equal(tfos_codec_parse("gz", &codec, &error), TFOS_INVALID);
    helper_expect_in(error.message, "unknown codec 'gz': expected auto, none, gzip or zlib");
    assert_int_equal(tfos__codec_of_name("a.tfrecord.gz"), TFOS_CODEC_GZIP);
    assert_int_equal(tfos__codec_of_name("a.zlib"), TFOS_CODEC_ZLIB);
    assert_int_equal(tfos__codec_of_name("a.zz"), TFOS_CODEC_ZLIB);
    assert_int_equal(tfos__codec_of_name("a.tfrecord"), TFOS_CODEC_NONE);
    assert_int_equal(tfos__codec_of_name("gz"), TFOS_CODEC_NONE);
    assert_int_equal(tfos__codec_of_name("d.gz/part-0"), TFOS_CODEC_NONE);
}

static void test_whole_files(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    for (size_t i = 0; i < 2; i++) {
        helper_to_file(path, helper_deflate(sample.file, codecs[i]));
        helper_result result = read_as(path, TFOS_CODEC_AUTO, TFOS_ON_CORRUPT_ERROR);
        expect_all(&result, &sample);
        assert_int_equal(result.progress.done_bytes, result.progress.total_bytes);
        result = read_as(path, codecs[i], TFOS_ON_CORRUPT_SKIP);
        expect_all(&result, &sample);
        assert_int_equal(result.progress.skipped_records, 0);
        int64_t count = -1;
        assert_int_equal(tfos_records_count(path, TFOS_CODEC_AUTO, &count, NULL), TFOS_OK);
        assert_int_equal(count, sample.count);
        helper_to_file(path, helper_deflate(helper_from_text(""), codecs[i]));
        result = read_as(path, TFOS_CODEC_AUTO, TFOS_ON_CORRUPT_ERROR);
        assert_int_equal(result.status, TFOS_END);
        assert_int_equal(result.progress.done_bytes, result.progress.total_bytes);
    }
}

/* However a compressed file is cut, the records before the cut come and then the error: it never looks complete. */
static void test_every_prefix(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    for (size_t i = 0; i < 2; i++) {
        helper_bytes whole = helper_deflate(sample.file, codecs[i]);
        for (size_t cut = 0; cut < whole.count; cut++) {
            helper_to_file(path, helper_part(whole, 0, cut));
            helper_result result = read_as(path, codecs[i], TFOS_ON_CORRUPT_ERROR);
            assert_true(result.status == TFOS_TRUNCATED || (cut < 3 && result.status == TFOS_CORRUPT));
            helper_expect_in(result.error.message, path);
            expect_first(&result, &sample);
            size_t rows = result.row_count;
            int64_t count = -1;
            assert_int_equal(tfos_records_count(path, codecs[i], &count, NULL), result.status);
            if (cut < 3) { /* too short to tell what it is */
                continue;
            }
            helper_expect_in(result.error.message, "the compressed file");
            result = read_as(path, TFOS_CODEC_AUTO, TFOS_ON_CORRUPT_SKIP);
            assert_int_equal(result.status, TFOS_END);
            assert_int_equal(result.row_count, rows);
            expect_first(&result, &sample);
            assert_int_equal(result.progress.skipped_records, 1);
        }
    }
}

/* Bytes of a gzip header that say when and where the file was made, and that nobody checks. */
static bool is_unchecked(tfos_codec codec, size_t byte)
{
    return codec == TFOS_CODEC_GZIP && byte >= 4 && byte <= 9;
}

static void test_every_flipped_bit(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    for (size_t i = 0; i < 2; i++) {
        helper_bytes whole = helper_deflate(sample.file, codecs[i]);
        for (size_t bit = 0; bit < whole.count * 8; bit++) {
            helper_bytes flipped = helper_copy(whole.data, whole.count);
            ((uint8_t *)(uintptr_t)flipped.data)[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            helper_to_file(path, flipped);
            helper_result result = read_as(path, codecs[i], TFOS_ON_CORRUPT_ERROR);
            expect_first(&result, &sample);
            if (is_unchecked(codecs[i], bit / 8)) {
                expect_all(&result, &sample);
                continue;
            }
            bool damage = result.status == TFOS_CORRUPT || result.status == TFOS_TRUNCATED;
            /* What does not matter, like the bits that fill the last byte, may differ: then all is there. */
            if (!damage) {
                expect_all(&result, &sample);
            }
            if (damage) {
                helper_expect_in(result.error.message, path);
            }
            result = read_as(path, codecs[i], TFOS_ON_CORRUPT_SKIP);
            assert_true(result.status == TFOS_END || bit / 8 < 3);
            if (damage && result.status == TFOS_END) {
                assert_true(result.progress.skipped_records >= 1);
            }
        }
    }
}

static void test_the_wrong_codec(void **state)
{
    helper_sample sample = helper_small_sample();
    helper_bytes files[] = {sample.file, helper_deflate(sample.file, TFOS_CODEC_GZIP),
                            helper_deflate(sample.file, TFOS_CODEC_ZLIB)};
    const char *path = helper_path(state, "f");
    static const char *const stated[] = {"expected uncompressed data", "expected gzip data", "expected zlib data"};
    static const char *const remedy[] = {"state the codec 'none' or 'auto'", "state the codec 'gzip' or 'auto'",
                                         "state the codec 'zlib' or 'auto'"};
    for (int is = 0; is < 3; is++) {
        helper_to_file(path, files[is]);
        for (int asked = 0; asked < 3; asked++) {
            for (int skip_damage = 0; skip_damage < 2; skip_damage++) {
                helper_result result = read_as(path, (tfos_codec)(asked + 1), (tfos_on_corrupt)skip_damage);
                if (asked == is) {
                    expect_all(&result, &sample);
                    continue;
                }
                assert_int_equal(result.status, TFOS_CORRUPT);
                helper_expect_in(result.error.message, "f: offset 0: ");
                helper_expect_in(result.error.message, stated[asked]);
                helper_expect_in(result.error.message, remedy[is]);
            }
        }
    }
    /* An empty file is not a compressed one that was cut. */
    helper_to_file(path, helper_from_text(""));
    assert_int_equal(read_as(path, TFOS_CODEC_NONE, TFOS_ON_CORRUPT_ERROR).status, TFOS_END);
    assert_int_equal(read_as(path, TFOS_CODEC_AUTO, TFOS_ON_CORRUPT_ERROR).status, TFOS_END);
    assert_int_equal(read_as(path, TFOS_CODEC_GZIP, TFOS_ON_CORRUPT_ERROR).status, TFOS_TRUNCATED);
}

/* Whatever their length, plain records are not taken for compressed data. */
static void test_lengths_that_look_like_a_codec(void **state)
{
    const char *path = helper_path(state, "f");
    static const size_t lengths[] = {0x0178, 0x5E78, 0x9C78, 0xDA78, 0x088B1F};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        helper_bytes payload = helper_repeat('x', lengths[i]);
        helper_to_file(path, helper_frame(payload));
        for (int codec = TFOS_CODEC_AUTO; codec <= TFOS_CODEC_NONE; codec++) {
            helper_result result = read_as(path, (tfos_codec)codec, TFOS_ON_CORRUPT_ERROR);
            assert_int_equal(result.status, TFOS_END);
            assert_true(helper_equal(result.records[0], payload));
        }
    }
}

/* gzip files may be put one behind the other, and padded with zeros. */
static void test_members_and_padding(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    size_t half = sample.start[3] + 5; /* in the middle of a record */
    helper_bytes first = helper_deflate(helper_part(sample.file, 0, half), TFOS_CODEC_GZIP);
    helper_bytes second = helper_deflate(helper_part(sample.file, half, sample.file.count), TFOS_CODEC_GZIP);
    helper_bytes empty = helper_deflate(helper_from_text(""), TFOS_CODEC_GZIP);
    helper_bytes zeros = helper_repeat(0, 1000);
    helper_bytes many_zeros = helper_repeat(0, 600 * 1024);
    helper_bytes files[] = {JOIN(first, second), JOIN(empty, first, empty, second, empty), JOIN(first, second, zeros),
                            JOIN(first, zeros, second, many_zeros), JOIN(first, second, HEX(0))};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        helper_to_file(path, files[i]);
        helper_result result = read_as(path, TFOS_CODEC_AUTO, TFOS_ON_CORRUPT_ERROR);
        expect_all(&result, &sample);
        assert_int_equal(result.progress.done_bytes, result.progress.total_bytes);
    }
    /* What is neither a member nor padding is damage. */
    helper_to_file(path, JOIN(first, second, helper_from_text("garbage")));
    helper_result result = read_as(path, TFOS_CODEC_AUTO, TFOS_ON_CORRUPT_ERROR);
    assert_int_equal(result.status, TFOS_CORRUPT);
    assert_int_equal(result.row_count, sample.count);
    helper_to_file(path, JOIN(first, helper_part(second, 0, second.count - 1)));
    assert_int_equal(read_as(path, TFOS_CODEC_AUTO, TFOS_ON_CORRUPT_ERROR).status, TFOS_TRUNCATED);
    /* zlib has no members. */
    helper_bytes zlib = helper_deflate(sample.file, TFOS_CODEC_ZLIB);
    helper_to_file(path, JOIN(zlib, zlib));
    result = read_as(path, TFOS_CODEC_AUTO, TFOS_ON_CORRUPT_ERROR);
    assert_int_equal(result.status, TFOS_CORRUPT);
    helper_expect_in(result.error.message, "more data follows the end of the zlib stream");
    assert_int_equal(result.row_count, sample.count);
}

/* Damage of the records inside sound compressed data: offsets are of the uncompressed data, and say so. */
static void test_damage_inside(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    char where[80];
    for (size_t byte = 0; byte < sample.file.count; byte += 3) {
        helper_bytes flipped = helper_copy(sample.file.data, sample.file.count);
        ((uint8_t *)(uintptr_t)flipped.data)[byte] ^= 0x10;
        helper_to_file(path, helper_deflate(flipped, TFOS_CODEC_GZIP));
        size_t record = helper_sample_record(&sample, byte);
        helper_result result = read_as(path, TFOS_CODEC_AUTO, TFOS_ON_CORRUPT_ERROR);
        assert_int_equal(result.status, TFOS_CORRUPT);
        assert_int_equal(result.row_count, record);
        snprintf(where, sizeof where, "offset %zu of the uncompressed data (record %zu)", sample.start[record], record);
        helper_expect_in(result.error.message, where);
        result = read_as(path, TFOS_CODEC_AUTO, TFOS_ON_CORRUPT_SKIP);
        assert_int_equal(result.status, TFOS_END);
        assert_int_equal(result.row_count, sample.count - 1);
        assert_int_equal(result.progress.skipped_records, 1);
    }
}

/* The end of a range is never compared with places in the uncompressed data: rows would be lost silently. */
static void test_ranges_of_a_compressed_file(void **state)
{
    helper_sample sample = helper_small_sample();
    const char *path = helper_path(state, "f");
    for (size_t i = 0; i < 2; i++) {
        helper_to_file(path, helper_deflate(sample.file, codecs[i]));
        tfos_read_options options = helper_raw_options();
        options.range_start = 20;
        helper_result result = helper_read(path, &options);
        assert_int_equal(result.status, TFOS_END);
        assert_int_equal(result.row_count, 0);
        options.range_start = 0;
        options.range_end = 20;
        result = helper_read(path, &options);
        assert_int_equal(result.status, TFOS_END);
        assert_int_equal(result.row_count, sample.count);
        int64_t aligned;
        tfos_error error = {0};
        assert_int_equal(tfos_records_align(path, 20, &aligned, &error), TFOS_UNSUPPORTED);
        helper_expect_in(error.message, "only an uncompressed file can be read from the middle");
    }
}

/* ---- writing ---- */

static void test_deflate_in_parts(void **state)
{
    (void)state;
    helper_bytes bytes = helper_repeat('x', 300000);
    for (size_t i = 0; i < 2; i++) {
        for (int level = -1; level <= 9; level += 2) {
            tfos__deflater *deflater;
            tfos__buffer out = {0};
            assert_int_equal(tfos__deflater_new(codecs[i], level, &deflater, NULL), TFOS_OK);
            for (size_t at = 0; at < bytes.count; at += 100000) {
                assert_int_equal(tfos__deflater_run(deflater, bytes.data + at, 100000, false, &out, NULL), TFOS_OK);
            }
            assert_int_equal(tfos__deflater_run(deflater, NULL, 0, true, &out, NULL), TFOS_OK);
            tfos__deflater_free(deflater);
            helper_to_file(helper_path(state, "f"), helper_copy(out.data, out.size));
            tfos__buffer_reset(&out);
            tfos__stream *stream = NULL;
            size_t got = 0;
            uint8_t *found = malloc(bytes.count + 10);
            assert_non_null(found);
            assert_int_equal(
                tfos__stream_open(NULL, helper_path(state, "f"), codecs[i], TFOS__CONTENT_TEXT, &stream, NULL),
                TFOS_OK);
            assert_int_equal(tfos__stream_read(stream, found, bytes.count + 10, &got, NULL), TFOS_OK);
            assert_int_equal(got, bytes.count);
            assert_memory_equal(found, bytes.data, got);
            assert_int_equal(tfos__stream_read(stream, found, 10, &got, NULL), TFOS_OK);
            assert_int_equal(got, 0);
            tfos__stream_close(stream);
            free(found);
        }
    }
    tfos__deflater_free(NULL);
    tfos__stream_close(NULL);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_setup, helper_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        IN_FOLDER(test_whole_files),
        IN_FOLDER(test_every_prefix),
        IN_FOLDER(test_every_flipped_bit),
        IN_FOLDER(test_the_wrong_codec),
        IN_FOLDER(test_lengths_that_look_like_a_codec),
        IN_FOLDER(test_members_and_padding),
        IN_FOLDER(test_damage_inside),
        IN_FOLDER(test_ranges_of_a_compressed_file),
        IN_FOLDER(test_deflate_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
