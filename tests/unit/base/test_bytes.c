/* Bytes: bitmaps, buffers, UTF-8 and hashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/bytes.h"

static void test_bitmaps(void **state)
{
    (void)state;
    uint8_t bits[4] = {0};
    for (int64_t i = 0; i < 32; i++) {
        tfos__bit_set(bits, i);
        for (int64_t j = 0; j < 32; j++) {
            assert_int_equal(tfos__bit_get(bits, j), j == i);
        }
        tfos__bit_clear(bits, i);
    }
    tfos__bit_put(bits, 9, true);
    assert_int_equal(bits[1], 2);
    tfos__bit_put(bits, 9, false);
    assert_int_equal(bits[1], 0);
    assert_int_equal(tfos__bitmap_bytes(0), 0);
    assert_int_equal(tfos__bitmap_bytes(1), 1);
    assert_int_equal(tfos__bitmap_bytes(8), 1);
    assert_int_equal(tfos__bitmap_bytes(9), 2);
}

static void test_buffer_grows_and_keeps_its_bytes(void **state)
{
    (void)state;
    tfos__buffer buffer = {0};
    int grown = 0;
    for (size_t i = 0; i < 100000; i++) {
        uint8_t byte = (uint8_t)(i * 31);
        size_t before = buffer.capacity;
        assert_int_equal(tfos__buffer_append(&buffer, &byte, 1, NULL), TFOS_OK);
        grown += buffer.capacity != before;
        assert_int_equal((uintptr_t)buffer.data % TFOS__BUFFER_ALIGN, 0);
    }
    assert_true(grown < 40); /* appending is linear in all */
    for (size_t i = 0; i < buffer.size; i++) {
        assert_int_equal(buffer.data[i], (uint8_t)(i * 31));
    }
    /* The slack behind the capacity may be written. */
    memset(buffer.data + buffer.capacity, 0xFF, TFOS__BUFFER_SLACK);
    tfos__buffer_reset(&buffer);
    assert_null(buffer.data);
    assert_int_equal(buffer.size + buffer.capacity, 0);
    tfos__buffer_reset(&buffer);
}

static void test_buffer_takes_nothing_and_text(void **state)
{
    (void)state;
    tfos__buffer buffer = {0};
    assert_int_equal(tfos__buffer_append(&buffer, NULL, 0, NULL), TFOS_OK);
    assert_null(buffer.data);
    assert_int_equal(tfos__buffer_printf(&buffer, NULL, "%s-%d", "a", 12), TFOS_OK);
    assert_int_equal(tfos__buffer_printf(&buffer, NULL, "%0200d", 7), TFOS_OK);
    assert_int_equal(buffer.size, 204);
    assert_memory_equal(buffer.data, "a-12000", 7);
    assert_int_equal(buffer.data[203], '7');
    tfos__buffer_reset(&buffer);
}

static void test_buffer_too_large_is_an_error(void **state)
{
    (void)state;
    tfos__buffer buffer = {0};
    tfos_error error = {0};
    assert_int_equal(tfos__buffer_append(&buffer, "abc", 3, NULL), TFOS_OK);
    assert_int_equal(tfos__buffer_reserve(&buffer, SIZE_MAX - 100, &error), TFOS_NO_MEMORY);
    assert_int_equal(error.status, TFOS_NO_MEMORY);
    assert_int_equal(buffer.size, 3);
    assert_memory_equal(buffer.data, "abc", 3);
    tfos__buffer_reset(&buffer);
}

static void test_array_grows_and_keeps_its_elements(void **state)
{
    (void)state;
    int64_t *elements = NULL;
    size_t capacity = 0;
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(tfos__array_reserve(&elements, i, &capacity, sizeof *elements, NULL), TFOS_OK);
        assert_true(capacity > i);
        elements[i] = (int64_t)(i * i);
    }
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(elements[i], i * i);
    }
    tfos_error error;
    size_t huge = SIZE_MAX / 4;
    int64_t *kept = elements;
    assert_int_equal(tfos__array_reserve(&elements, huge, &huge, sizeof *elements, &error), TFOS_NO_MEMORY);
    assert_ptr_equal(elements, kept);
    assert_int_equal(huge, SIZE_MAX / 4);
    free(elements);
}

/* The answer of a plain decoder, written from the definition: bit patterns first, then the rules. */
static size_t slow_valid_prefix(const uint8_t *p, size_t count)
{
    size_t i = 0;
    while (i < count) {
        uint32_t lead = p[i];
        size_t length = lead < 0x80 ? 1 : (lead >> 5) == 6 ? 2 : (lead >> 4) == 14 ? 3 : (lead >> 3) == 30 ? 4 : 0;
        if (length == 0 || count - i < length) {
            return i;
        }
        uint32_t point = length == 1 ? lead : lead & (0xFFu >> (length + 1));
        for (size_t j = 1; j < length; j++) {
            if ((p[i + j] & 0xC0) != 0x80) {
                return i;
            }
            point = point << 6 | (p[i + j] & 0x3Fu);
        }
        static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
        if (point < least[length] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) {
            return i;
        }
        i += length;
    }
    return count;
}

static void test_utf8_table(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t valid;
        const char *what;
    } cases[] = {
        {"", 0, "nothing"},
        {"plain", 5, "ASCII"},
        {"\x7F", 1, "the last of one byte"},
        {"\xC2\x80", 2, "the first of two bytes"},
        {"\xDF\xBF", 2, "the last of two bytes"},
        {"\xE0\xA0\x80", 3, "the first of three bytes"},
        {"\xED\x9F\xBF", 3, "before the surrogates"},
        {"\xEE\x80\x80", 3, "behind the surrogates"},
        {"\xEF\xBF\xBF", 3, "the last of three bytes"},
        {"\xF0\x90\x80\x80", 4, "the first of four bytes"},
        {"\xF4\x8F\xBF\xBF", 4, "U+10FFFF"},
        {"a\xC0\x80", 1, "overlong NUL"},
        {"a\xC1\xBF", 1, "overlong of two"},
        {"a\xE0\x9F\xBF", 1, "overlong of three"},
        {"a\xF0\x8F\xBF\xBF", 1, "overlong of four"},
        {"a\xED\xA0\x80", 1, "the first surrogate"},
        {"a\xED\xBF\xBF", 1, "the last surrogate"},
        {"a\xF4\x90\x80\x80", 1, "beyond U+10FFFF"},
        {"a\xF5\x80\x80\x80", 1, "far beyond"},
        {"a\xFF", 1, "no lead byte"},
        {"a\x80", 1, "a continuation alone"},
        {"ab\xC3", 2, "cut after one of two"},
        {"ab\xE2\x82", 2, "cut after two of three"},
        {"ab\xF0\x9F\x98", 2, "cut after three of four"},
        {"12345678\xC3\xA9"
         "12345678\xFF",
         18, "behind whole words"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t valid = tfos__utf8_valid_prefix(cases[i].bytes, strlen(cases[i].bytes));
        if (valid != cases[i].valid) {
            fail_msg("%s: expected %zu, found %zu", cases[i].what, cases[i].valid, valid);
        }
    }
}

/* Every sequence of three bytes, and four with a lead of four, agrees with the definition, alone and at the end of a
 * word. */
static void test_utf8_against_the_definition(void **state)
{
    (void)state;
    static const uint8_t fourth[] = {0x00, 0x7F, 0x80, 0xBF, 0xC0};
    uint8_t bytes[12] = "abcdefg";
    for (uint32_t value = 0; value < 1u << 24; value++) {
        uint8_t *p = bytes + 7;
        p[0] = (uint8_t)(value >> 16);
        p[1] = (uint8_t)(value >> 8);
        p[2] = (uint8_t)value;
        if (p[0] < 0x80 && p[1] < 0x80) {
            continue;
        }
        for (size_t i = 0; i < (p[0] >= 0xF0 ? sizeof fourth : 1); i++) {
            p[3] = fourth[i];
            size_t count = p[0] >= 0xF0 ? 4 : 3;
            size_t expected = slow_valid_prefix(p, count);
            if (tfos__utf8_valid_prefix(p, count) != expected ||
                tfos__utf8_valid_prefix(bytes, 7 + count) != 7 + expected) {
                fail_msg("%02x %02x %02x %02x: expected %zu", p[0], p[1], p[2], p[3], expected);
            }
        }
    }
}

static void test_hash(void **state)
{
    (void)state;
    uint8_t text[64];
    memset(text, 'a', sizeof text);
    for (size_t length = 0; length < sizeof text; length++) {
        uint64_t hash = tfos__hash(text, length);
        assert_true(tfos__hash(text, length) == hash);
        assert_true(tfos__hash(text, length + 1) != hash);
        for (size_t i = 0; i < length; i++) {
            text[i] ^= 1;
            assert_true(tfos__hash(text, length) != hash);
            text[i] ^= 1;
        }
    }
    uint8_t zeros[16] = {0};
    assert_true(tfos__hash(zeros, 3) != tfos__hash(zeros, 4));
}

static void test_lines(void **state)
{
    (void)state;
    assert_int_equal(tfos__lines_in("", 0), 0);
    assert_int_equal(tfos__lines_in("a", 1), 1);
    assert_int_equal(tfos__lines_in("a\n", 2), 1);
    assert_int_equal(tfos__lines_in("a\n\nb", 4), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_bitmaps),
        cmocka_unit_test(test_buffer_grows_and_keeps_its_bytes),
        cmocka_unit_test(test_buffer_takes_nothing_and_text),
        cmocka_unit_test(test_buffer_too_large_is_an_error),
        cmocka_unit_test(test_array_grows_and_keeps_its_elements),
        cmocka_unit_test(test_utf8_table),
        cmocka_unit_test(test_utf8_against_the_definition),
        cmocka_unit_test(test_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
