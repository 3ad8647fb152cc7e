/* CRC-32C: published vectors, and every way that this machine has agrees with the definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc32c_ways.h"

/* One bit at a time, from the polynomial. */
static uint32_t slow_crc(uint32_t crc, const uint8_t *bytes, size_t count)
{
    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (UINT32_C(0x82f63b78) & (0u - (crc & 1)));
        }
    }
    return ~crc;
}

/* RFC 3720, appendix B.4, and the check value of the Rocksoft model. */
static void test_published_vectors(void **state)
{
    (void)state;
    uint8_t bytes[32];
    for (const tfos__crc32c_way *way = tfos__crc32c_ways(); way->name != NULL; way++) {
        memset(bytes, 0, sizeof bytes);
        assert_int_equal(way->function(0, bytes, sizeof bytes), 0x8a9136aa);
        memset(bytes, 0xFF, sizeof bytes);
        assert_int_equal(way->function(0, bytes, sizeof bytes), 0x62a8ab43);
        for (size_t i = 0; i < sizeof bytes; i++) {
            bytes[i] = (uint8_t)i;
        }
        assert_int_equal(way->function(0, bytes, sizeof bytes), 0x46dd794e);
        for (size_t i = 0; i < sizeof bytes; i++) {
            bytes[i] = (uint8_t)(31 - i);
        }
        assert_int_equal(way->function(0, bytes, sizeof bytes), 0x113fdb5c);
        assert_int_equal(way->function(0, "123456789", 9), 0xe3069283);
        assert_int_equal(way->function(0, NULL, 0), 0);
    }
}

static void test_ways_agree_for_every_length_and_alignment(void **state)
{
    (void)state;
    enum { LENGTHS = 5000, ALIGNMENTS = 16, LONGEST = 50000 };
    static uint8_t bytes[LONGEST + ALIGNMENTS];
    uint32_t random = 1;
    for (size_t i = 0; i < sizeof bytes; i++) {
        random = random * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(random >> 24);
    }
    size_t ways = 0;
    for (const tfos__crc32c_way *way = tfos__crc32c_ways(); way->name != NULL; way++, ways++) {
        for (size_t alignment = 0; alignment < ALIGNMENTS; alignment++) {
            uint32_t expected = 0; /* grown byte by byte */
            for (size_t length = 0; length <= LENGTHS; length++) {
                if (way->function(0, bytes + alignment, length) != expected) {
                    fail_msg("%s: length %zu, alignment %zu", way->name, length, alignment);
                }
                expected = slow_crc(expected, bytes + alignment + length, 1);
            }
        }
        assert_int_equal(way->function(0, bytes, LONGEST), slow_crc(0, bytes, LONGEST));
    }
    assert_in_range(ways, 1, 1 + TFOS__CRC32C_MAX_HARDWARE_WAYS);
}

/* Memory that ends where the bytes end: AddressSanitizer sees a load that goes beyond. */
static void test_reads_no_byte_outside(void **state)
{
    (void)state;
    for (size_t length = 1; length <= 1100; length++) {
        uint8_t *bytes = malloc(length);
        assert_non_null(bytes);
        memset(bytes, (int)length, length);
        uint32_t expected = slow_crc(7, bytes, length);
        for (const tfos__crc32c_way *way = tfos__crc32c_ways(); way->name != NULL; way++) {
            assert_int_equal(way->function(7, bytes, length), expected);
        }
        free(bytes);
    }
}

/* A checksum may be taken in parts, cut anywhere. */
static void test_parts_make_the_whole(void **state)
{
    (void)state;
    uint8_t bytes[3000];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * i);
    }
    for (const tfos__crc32c_way *way = tfos__crc32c_ways(); way->name != NULL; way++) {
        uint32_t whole = way->function(0, bytes, sizeof bytes);
        for (size_t cut = 0; cut <= sizeof bytes; cut++) {
            uint32_t first = way->function(0, bytes, cut);
            assert_int_equal(way->function(first, bytes + cut, sizeof bytes - cut), whole);
        }
    }
    assert_int_equal(tfos__crc32c(0, bytes, sizeof bytes), tfos__crc32c_ways()[0].function(0, bytes, sizeof bytes));
}

/* The first header and footer of a file that TensorFlow wrote: length 1, payload "x". */
static void test_masks_as_tensorflow(void **state)
{
    (void)state;
    assert_int_equal(tfos__crc32c_mask(0), 0xa282ead8);
    const uint8_t length_one[8] = {1};
    assert_int_equal(tfos__crc32c_mask(tfos__crc32c(0, length_one, 8)), 0x41de7501);
    assert_int_equal(tfos__crc32c_mask(tfos__crc32c(0, "x", 1)), 0x61aa3d50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_vectors),     cmocka_unit_test(test_ways_agree_for_every_length_and_alignment),
        cmocka_unit_test(test_reads_no_byte_outside), cmocka_unit_test(test_parts_make_the_whole),
        cmocka_unit_test(test_masks_as_tensorflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
