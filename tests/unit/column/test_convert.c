/* Conversions: a whole number stays that number or is an error, a real one is rounded and stays finite. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "column/convert.h"
#include "helper_records.h"

static tfos_status convert(tfos_type from, const void *data, int64_t count, tfos_type to, void *out, tfos_error *error)
{
    const tfos_vector values = {.layout = TFOS_LAYOUT_VALUES, .type = from, .length = count, .data = data};
    return tfos__convert_numbers(&values, to, out, error);
}

static void expect_refusal(tfos_type from, const void *data, int64_t count, tfos_type to, const char *message)
{
    double out[8];
    tfos_error error = {0};
    assert_int_equal(convert(from, data, count, to, out, &error), TFOS_RANGE);
    helper_expect_in(error.message, message);
}

static void test_whole_numbers_stay_what_they_are(void **state)
{
    (void)state;
    static const int64_t small[] = {0, -1, 1 << 24, -(1 << 24), INT32_MAX, INT32_MIN};
    int32_t ints[6];
    double doubles[6];
    float floats[6];
    assert_int_equal(convert(TFOS_TYPE_INT64, small, 6, TFOS_TYPE_INT32, ints, NULL), TFOS_OK);
    assert_int_equal(convert(TFOS_TYPE_INT64, small, 6, TFOS_TYPE_DOUBLE, doubles, NULL), TFOS_OK);
    for (int i = 0; i < 6; i++) {
        assert_true(ints[i] == small[i] && doubles[i] == (double)small[i]);
    }
    /* Large ones that a float happens to be. */
    static const int64_t large[] = {INT64_C(1) << 60, (1 << 24) + 2, INT64_MIN, -(INT64_C(3) << 40)};
    assert_int_equal(convert(TFOS_TYPE_INT64, large, 4, TFOS_TYPE_FLOAT, floats, NULL), TFOS_OK);
    assert_int_equal(convert(TFOS_TYPE_INT64, large, 4, TFOS_TYPE_DOUBLE, doubles, NULL), TFOS_OK);
    for (int i = 0; i < 4; i++) {
        assert_true(floats[i] == (float)large[i] && (double)floats[i] == doubles[i]);
    }
    static const int32_t narrow[] = {INT32_MIN, 7, 1 << 30};
    int64_t wide[3];
    assert_int_equal(convert(TFOS_TYPE_INT32, narrow, 3, TFOS_TYPE_INT64, wide, NULL), TFOS_OK);
    assert_int_equal(convert(TFOS_TYPE_INT32, narrow, 3, TFOS_TYPE_FLOAT, floats, NULL), TFOS_OK);
    assert_int_equal(convert(TFOS_TYPE_INT32, narrow, 3, TFOS_TYPE_DOUBLE, doubles, NULL), TFOS_OK);
    for (int i = 0; i < 3; i++) {
        assert_true(wide[i] == narrow[i] && floats[i] == (float)narrow[i] && doubles[i] == narrow[i]);
    }
}

static void test_whole_numbers_that_would_become_others(void **state)
{
    (void)state;
    expect_refusal(TFOS_TYPE_INT64, (const int64_t[]){1, INT64_C(1) << 31}, 2, TFOS_TYPE_INT32,
                   "the value 2147483648 does not fit int32; ask for int64");
    expect_refusal(TFOS_TYPE_INT64, (const int64_t[]){INT32_MIN - INT64_C(1)}, 1, TFOS_TYPE_INT32, "-2147483649");
    expect_refusal(
        TFOS_TYPE_INT64, (const int64_t[]){5, (1 << 24) + 1}, 2, TFOS_TYPE_FLOAT,
        "the value 16777217 is no float, which would make it 16777216; ask for int64 or double, and convert");
    expect_refusal(TFOS_TYPE_INT64, (const int64_t[]){INT64_MAX}, 1, TFOS_TYPE_FLOAT,
                   "the value 9223372036854775807 is no float, which would make it 9223372036854775808");
    expect_refusal(
        TFOS_TYPE_INT64, (const int64_t[]){-(INT64_C(1) << 53) - 1}, 1, TFOS_TYPE_DOUBLE,
        "the value -9007199254740993 is no double, which would make it -9007199254740992; ask for int64, and");
    expect_refusal(TFOS_TYPE_INT64, (const int64_t[]){INT64_MAX}, 1, TFOS_TYPE_DOUBLE, "9223372036854775807 is no");
    expect_refusal(TFOS_TYPE_INT32, (const int32_t[]){INT32_MAX}, 1, TFOS_TYPE_FLOAT,
                   "the value 2147483647 is no float, which would make it 2147483648; ask for int32 or double");
}

static void test_real_numbers_are_rounded(void **state)
{
    (void)state;
    static const double values[] = {0.1, -2.5, 1e-300, 3.4028234e38, INFINITY, -INFINITY, NAN, 0.0};
    float floats[8];
    double doubles[8];
    assert_int_equal(convert(TFOS_TYPE_DOUBLE, values, 8, TFOS_TYPE_FLOAT, floats, NULL), TFOS_OK);
    for (int i = 0; i < 8; i++) {
        assert_true(isnan(values[i]) ? isnan(floats[i]) : floats[i] == (float)values[i]);
    }
    assert_int_equal(convert(TFOS_TYPE_FLOAT, floats, 8, TFOS_TYPE_DOUBLE, doubles, NULL), TFOS_OK);
    assert_true(doubles[0] == (double)0.1f && isinf(doubles[4]) && isnan(doubles[6]));
    expect_refusal(TFOS_TYPE_DOUBLE, (const double[]){0, 1e39}, 2, TFOS_TYPE_FLOAT,
                   "the value 1e+39 is too large for float; ask for double");
    expect_refusal(TFOS_TYPE_DOUBLE, (const double[]){-1e300}, 1, TFOS_TYPE_FLOAT, "-1e+300");
}

static void test_booleans(void **state)
{
    (void)state;
    static const uint8_t bits[] = {0x05, 0x01};
    static const tfos_type types[] = {TFOS_TYPE_BOOL, TFOS_TYPE_INT32, TFOS_TYPE_INT64, TFOS_TYPE_FLOAT,
                                      TFOS_TYPE_DOUBLE};
    uint8_t bytes[9];
    int32_t ints[9];
    int64_t longs[9];
    float floats[9];
    double doubles[9];
    void *const out[] = {bytes, ints, longs, floats, doubles};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        assert_int_equal(convert(TFOS_TYPE_BOOL, bits, 9, types[i], out[i], NULL), TFOS_OK);
    }
    for (int i = 0; i < 9; i++) {
        int expected = i == 0 || i == 2 || i == 8;
        assert_true(bytes[i] == expected && ints[i] == expected && longs[i] == expected);
        assert_true(floats[i] == (float)expected && doubles[i] == expected);
    }
}

/* What is allowed is done, and what is not allowed is refused, for every pair of types. */
static void test_every_pair(void **state)
{
    (void)state;
    static const char *const allowed[] = {
        [TFOS_TYPE_INT32] = "int32 int64 float double",
        [TFOS_TYPE_INT64] = "int32 int64 float double",
        [TFOS_TYPE_FLOAT] = "float double",
        [TFOS_TYPE_DOUBLE] = "float double",
        [TFOS_TYPE_BOOL] = "int32 int64 float double bool",
    };
    for (int from = TFOS_TYPE_INT32; from <= TFOS_TYPE_BOOL; from++) {
        for (int to = TFOS_TYPE_INT32; to <= TFOS_TYPE_BINARY; to++) {
            double in = 0;
            double out = 1;
            tfos_error error = {0};
            const char *name = tfos_type_name((tfos_type)to);
            bool expected = strstr(allowed[from], name) != NULL;
            assert_int_equal(tfos__convert_allows((tfos_type)from, (tfos_type)to), expected);
            assert_int_equal(convert((tfos_type)from, &in, 1, (tfos_type)to, &out, &error),
                             expected ? TFOS_OK : TFOS_MISMATCH);
        }
    }
    assert_true(tfos__convert_allows(TFOS_TYPE_STRING, TFOS_TYPE_BINARY));
    assert_true(tfos__convert_allows(TFOS_TYPE_BINARY, TFOS_TYPE_STRING));
    assert_false(tfos__convert_allows(TFOS_TYPE_STRING, TFOS_TYPE_INT64));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_numbers_stay_what_they_are),
        cmocka_unit_test(test_whole_numbers_that_would_become_others),
        cmocka_unit_test(test_real_numbers_are_rounded),
        cmocka_unit_test(test_booleans),
        cmocka_unit_test(test_every_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
