/* The protobuf wire format: varints, tags, lengths and what is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/wire.h"

static bool read_varint(const uint8_t *bytes, size_t count, uint64_t *value, size_t *used)
{
    tfos__wire wire = {bytes, bytes + count};
    bool read = tfos__wire_varint(&wire, value);
    *used = (size_t)(wire.at - bytes);
    return read;
}

static void test_varints_of_every_length(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        for (int below = 0; below < 2; below++) {
            uint64_t value = (UINT64_C(1) << bit) - (uint64_t)below;
            uint8_t bytes[16];
            size_t length = (size_t)(tfos__wire_put_varint(bytes, value) - bytes);
            assert_int_equal(length, tfos__wire_varint_bytes(value));
            uint64_t found;
            size_t used;
            assert_true(read_varint(bytes, length, &found, &used));
            assert_true(found == value);
            assert_int_equal(used, length);
            /* Cut short it is none, and the cursor stays where the nonsense is. */
            for (size_t cut = 0; cut < length; cut++) {
                assert_false(read_varint(bytes, cut, &found, &used));
                assert_int_equal(used, 0);
            }
        }
    }
    assert_int_equal(tfos__wire_varint_bytes(UINT64_MAX), 10);
}

static void test_varints_of_more_than_ten_bytes_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[16];
    uint64_t value;
    size_t used;
    for (size_t length = 1; length <= 14; length++) {
        memset(bytes, 0x80, sizeof bytes);
        bytes[0] |= 5;
        bytes[length - 1] &= 0x7F;
        assert_int_equal(read_varint(bytes, length, &value, &used), length <= 10);
        if (length <= 10) {
            assert_true(value == 5); /* zeros in front of a number change nothing */
        }
    }
    /* What a tenth byte has beyond 64 bits is dropped, as protobuf drops it. */
    memset(bytes, 0xFF, 9);
    bytes[9] = 0x7F;
    assert_true(read_varint(bytes, 10, &value, &used));
    assert_true(value == UINT64_MAX);
}

/* The quick way for a known length agrees with the general one: same value, or refused by both or for its length. */
static void test_exact_varints_against_the_general_way(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (size_t length = 1; length <= 8; length++) {
        for (int round = 0; round < 200000; round++) {
            uint8_t bytes[16];
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
            memcpy(bytes, &random, 8);
            uint64_t other = random * UINT64_C(0x9E3779B97F4A7C15);
            memcpy(bytes + 8, &other, 8);
            for (size_t i = 0; i < length && round % 2 == 0; i++) {
                bytes[i] = (uint8_t)(i + 1 < length ? bytes[i] | 0x80 : bytes[i] & 0x7F);
            }
            uint64_t general = 0;
            uint64_t exact = 1;
            size_t used;
            bool whole = read_varint(bytes, length, &general, &used) && used == length;
            assert_int_equal(tfos__wire_varint_exact(bytes, length, &exact), whole);
            if (whole) {
                assert_true(exact == general);
            }
        }
    }
}

static void test_tags(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[6];
        size_t count;
        bool good;
        uint32_t tag;
    } cases[] = {
        {{0x0A}, 1, true, 0x0A},
        {{0xFF, 0xFF, 0xFF, 0xFF, 0x0F}, 5, true, 0xFFFFFFFF},
        {{0xFF, 0xFF, 0xFF, 0xFF, 0x1F}, 5, false, 0},       /* more than 32 bits */
        {{0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, 6, false, 0}, /* more than 32 bits */
        {{0x00}, 1, false, 0},                               /* field number 0 */
        {{0x07}, 1, false, 0},                               /* field number 0 */
        {{0x80}, 1, false, 0},                               /* cut short */
        {{0}, 0, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tfos__wire wire = {cases[i].bytes, cases[i].bytes + cases[i].count};
        uint32_t tag;
        assert_int_equal(tfos__wire_tag(&wire, &tag), cases[i].good);
        if (cases[i].good) {
            assert_int_equal(tag, cases[i].tag);
            assert_ptr_equal(wire.at, wire.end);
        }
    }
}

static void test_lengths(void **state)
{
    (void)state;
    const uint8_t good[] = {3, 'a', 'b', 'c', 'd'};
    tfos__wire wire = {good, good + sizeof good};
    tfos__wire value;
    assert_true(tfos__wire_bytes(&wire, &value));
    assert_int_equal(value.end - value.at, 3);
    assert_memory_equal(value.at, "abc", 3);
    assert_int_equal(wire.end - wire.at, 1);
    const uint8_t over[] = {3, 'a', 'b'};
    wire = (tfos__wire){over, over + sizeof over};
    assert_false(tfos__wire_bytes(&wire, &value));
    /* A length that would wrap a pointer. */
    const uint8_t huge[] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 'a'};
    wire = (tfos__wire){huge, huge + sizeof huge};
    assert_false(tfos__wire_bytes(&wire, &value));
}

/* Skips one field; returns the bytes that it took, or -1. */
static long skip_field(const uint8_t *bytes, size_t count)
{
    tfos__wire wire = {bytes, bytes + count};
    uint32_t tag;
    if (!tfos__wire_tag(&wire, &tag) || !tfos__wire_skip(&wire, tag)) {
        return -1;
    }
    return (long)(wire.at - bytes);
}

#define SKIP(...) skip_field((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void test_skip(void **state)
{
    (void)state;
    assert_int_equal(SKIP(0x08, 0x96, 0x01, 0xAA), 3);
    assert_int_equal(SKIP(0x09, 1, 2, 3, 4, 5, 6, 7, 8, 9), 9);
    assert_int_equal(SKIP(0x09, 1, 2, 3, 4, 5, 6, 7), -1);
    assert_int_equal(SKIP(0x0A, 2, 'a', 'b', 'c'), 4);
    assert_int_equal(SKIP(0x0A, 2, 'a'), -1);
    assert_int_equal(SKIP(0x0D, 1, 2, 3, 4, 5), 5);
    assert_int_equal(SKIP(0x0D, 1, 2, 3), -1);
    assert_int_equal(SKIP(0x0E, 0), -1); /* wire types 6 and 7 are none */
    assert_int_equal(SKIP(0x0F, 0), -1);
    assert_int_equal(SKIP(0x0C), -1); /* an end without a start */
}

static void test_skip_groups(void **state)
{
    (void)state;
    assert_int_equal(SKIP(0x0B, 0x0C, 0xAA), 2);
    assert_int_equal(SKIP(0x0B, 0x10, 0x05, 0x0C), 4);
    assert_int_equal(SKIP(0x0B, 0x13, 0x14, 0x0C), 4);
    assert_int_equal(SKIP(0x0B), -1);             /* never ended */
    assert_int_equal(SKIP(0x0B, 0x14), -1);       /* ended by another */
    assert_int_equal(SKIP(0x0B, 0x13, 0x0C), -1); /* ended out of order */
    assert_int_equal(SKIP(0x0B, 0x00, 0x0C), -1); /* nonsense inside */
}

static void test_groups_nest_to_a_hundred(void **state)
{
    (void)state;
    uint8_t bytes[400];
    for (size_t depth = 98; depth <= 102; depth++) {
        memset(bytes, 0x0B, depth);
        memset(bytes + depth, 0x0C, depth);
        assert_int_equal(skip_field(bytes, 2 * depth), depth <= 100 ? (long)(2 * depth) : -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_varints_of_every_length),
        cmocka_unit_test(test_varints_of_more_than_ten_bytes_are_refused),
        cmocka_unit_test(test_exact_varints_against_the_general_way),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_skip),
        cmocka_unit_test(test_skip_groups),
        cmocka_unit_test(test_groups_nest_to_a_hundred),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
