/* The arithmetic of collectives: against plain loops, and one way of computing against the other, bit for bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collective/reduce.h"
#include "helper_random.h"

enum { MOST = 5000, OPERANDS = 5 };

static const tfos_element all_elements[] = {
#define ELEMENT(name, value, word, bytes) TFOS_ELEMENT_##name,
    TFOS_ELEMENT_MAP(ELEMENT)
#undef ELEMENT
};

enum { ELEMENTS = sizeof all_elements / sizeof all_elements[0] };

/* Any bits: also numbers that are infinite, none at all, or smaller than normal. */
static void fill_with_anything(uint64_t *seed, void *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)at)[i] = (uint8_t)helper_draw(seed, 256);
    }
}

static void fill_with_numbers(uint64_t *seed, tfos_element element, size_t count, void *at)
{
    for (size_t i = 0; i < count; i++) {
        float number = ((float)helper_draw(seed, 20001) - 10000.f) / 128.f;
        if (element == TFOS_ELEMENT_FLOAT64) {
            ((double *)at)[i] = (double)number;
        } else if (element == TFOS_ELEMENT_FLOAT32) {
            ((float *)at)[i] = number;
        } else if (element == TFOS_ELEMENT_INT32) {
            ((int32_t *)at)[i] = (int32_t)helper_draw(seed, UINT64_C(1) << 32);
        } else if (element == TFOS_ELEMENT_INT64) {
            ((int64_t *)at)[i] = (int64_t)helper_draw(seed, UINT64_MAX);
        } else {
            tfos__element_convert(TFOS_ELEMENT_FLOAT32, &number, 1, element, (uint16_t *)at + i);
        }
    }
}

static double number_at(tfos_element element, const void *at, size_t i)
{
    float wide;
    switch (element) {
    case TFOS_ELEMENT_FLOAT64:
        return ((const double *)at)[i];
    case TFOS_ELEMENT_FLOAT32:
        return (double)((const float *)at)[i];
    default:
        tfos__element_convert(element, (const uint16_t *)at + i, 1, TFOS_ELEMENT_FLOAT32, &wide);
        return (double)wide;
    }
}

static double tolerance_of(tfos_element element)
{
    return element == TFOS_ELEMENT_FLOAT64   ? 1e-14
           : element == TFOS_ELEMENT_FLOAT32 ? 1e-6
           : element == TFOS_ELEMENT_FLOAT16 ? 1e-3
                                             : 8e-3;
}

static void test_floating_numbers_are_scaled_and_added(void **state)
{
    (void)state;
    uint64_t seed = 1;
    const tfos_element elements[] = {TFOS_ELEMENT_FLOAT32, TFOS_ELEMENT_FLOAT64, TFOS_ELEMENT_FLOAT16,
                                     TFOS_ELEMENT_BFLOAT16};
    for (size_t e = 0; e < 4; e++) {
        void *in[OPERANDS];
        tfos__operand operands[OPERANDS];
        const size_t count = 2500;
        for (size_t k = 0; k < OPERANDS; k++) {
            in[k] = malloc(count * 8);
            fill_with_numbers(&seed, elements[e], count, in[k]);
            operands[k] = (tfos__operand){in[k], 0.125 * (double)(k + 1)};
        }
        void *out = malloc(count * 8);
        tfos__reduce(TFOS__REDUCE_SUM, elements[e], operands, OPERANDS, count, elements[e], out);
        for (size_t i = 0; i < count; i++) {
            double expected = 0;
            double size = 1;
            for (size_t k = 0; k < OPERANDS; k++) {
                expected += operands[k].scale * number_at(elements[e], in[k], i);
                size += fabs(operands[k].scale * number_at(elements[e], in[k], i));
            }
            assert_true(fabs(number_at(elements[e], out, i) - expected) <= tolerance_of(elements[e]) * size);
        }
        for (size_t k = 0; k < OPERANDS; k++) {
            free(in[k]);
        }
        free(out);
    }
}

static void test_integers_are_exact_and_wrap_around(void **state)
{
    (void)state;
    const int32_t a[] = {1, INT32_MAX, -5, INT32_MIN};
    const int32_t b[] = {2, 1, 5, -1};
    int32_t out[4];
    const tfos__operand operands[] = {{a, 0.5}, {b, 0.25}};
    tfos__reduce(TFOS__REDUCE_SUM, TFOS_ELEMENT_INT32, operands, 2, 4, TFOS_ELEMENT_INT32, out);
    const int32_t sums[] = {3, INT32_MIN, 0, INT32_MAX};
    assert_memory_equal(out, sums, sizeof sums);
    tfos__reduce(TFOS__REDUCE_LEAST, TFOS_ELEMENT_INT32, operands, 2, 4, TFOS_ELEMENT_INT32, out);
    const int32_t least[] = {1, 1, -5, INT32_MIN};
    assert_memory_equal(out, least, sizeof least);
    tfos__reduce(TFOS__REDUCE_GREATEST, TFOS_ELEMENT_INT32, operands, 2, 4, TFOS_ELEMENT_INT32, out);
    const int32_t greatest[] = {2, INT32_MAX, 5, -1};
    assert_memory_equal(out, greatest, sizeof greatest);
}

static void test_nothing_is_neutral(void **state)
{
    (void)state;
    float f[3];
    int64_t whole[3];
    uint16_t half[3];
    tfos__reduce(TFOS__REDUCE_SUM, TFOS_ELEMENT_FLOAT32, NULL, 0, 3, TFOS_ELEMENT_FLOAT32, f);
    assert_true(f[0] == 0 && f[2] == 0);
    tfos__reduce(TFOS__REDUCE_LEAST, TFOS_ELEMENT_FLOAT32, NULL, 0, 3, TFOS_ELEMENT_FLOAT32, f);
    assert_true(f[0] == INFINITY && f[2] == INFINITY);
    tfos__reduce(TFOS__REDUCE_GREATEST, TFOS_ELEMENT_INT64, NULL, 0, 3, TFOS_ELEMENT_INT64, whole);
    assert_true(whole[0] == INT64_MIN && whole[2] == INT64_MIN);
    tfos__reduce(TFOS__REDUCE_GREATEST, TFOS_ELEMENT_FLOAT16, NULL, 0, 3, TFOS_ELEMENT_FLOAT16, half);
    assert_int_equal(half[1], 0xFC00);
}

/* A NaN is not lost, in whichever operand it is. */
static void test_nan_comes_through(void **state)
{
    (void)state;
    for (int reduction = 0; reduction < TFOS__REDUCTION_COUNT; reduction++) {
        for (size_t nan_in = 0; nan_in < 3; nan_in++) {
            float in[3] = {1, 2, 3};
            in[nan_in] = NAN;
            const tfos__operand operands[] = {{&in[0], 1}, {&in[1], 1}, {&in[2], 1}};
            float out = 0;
            tfos__reduce((tfos__reduction)reduction, TFOS_ELEMENT_FLOAT32, operands, 3, 1, TFOS_ELEMENT_FLOAT32, &out);
            assert_true(isnan(out));
        }
    }
}

/* The next float above or below one that is not negative. */
static float neighbour(float value, int by)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = bits == 0 && by < 0 ? 0 : bits + (uint32_t)by;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

/* Every half, and what is between two of them: to the nearest, ties to even. */
static void test_halves_are_rounded_to_the_nearest(void **state)
{
    (void)state;
    const tfos_element halves[] = {TFOS_ELEMENT_FLOAT16, TFOS_ELEMENT_BFLOAT16};
    for (size_t e = 0; e < 2; e++) {
        uint32_t infinite = e == 0 ? 0x7C00 : 0x7F80;
        for (uint32_t bits = 0; bits < infinite; bits++) {
            uint16_t here = (uint16_t)bits;
            uint16_t next = (uint16_t)(bits + 1);
            float low;
            float high;
            tfos__element_convert(halves[e], &here, 1, TFOS_ELEMENT_FLOAT32, &low);
            tfos__element_convert(halves[e], &next, 1, TFOS_ELEMENT_FLOAT32, &high);
            high = isinf(high) ? (e == 0 ? 65536.f : high) : high;
            assert_true(low < high);
            for (int sign = 0; sign < 2; sign++) {
                float middle = isinf(high) ? low : (float)(((double)low + (double)high) / 2);
                const float in[] = {low, neighbour(middle, -1), middle, neighbour(middle, 1)};
                const uint16_t expected[] = {here, here, (bits & 1) == 0 ? here : next, next};
                for (size_t i = 0; i < (isinf(high) ? 1u : 4u); i++) {
                    float value = sign != 0 ? -in[i] : in[i];
                    uint16_t out;
                    tfos__element_convert(TFOS_ELEMENT_FLOAT32, &value, 1, halves[e], &out);
                    uint16_t wanted = in[i] == low ? here : expected[i];
                    assert_int_equal(out, wanted | (sign != 0 ? 0x8000 : 0));
                }
            }
        }
    }
}

/* Halves that are not numbers stay so. */
static void test_halves_that_are_not_numbers(void **state)
{
    (void)state;
    const float in[] = {INFINITY, -INFINITY, NAN, 1e30f, -1e30f};
    uint16_t out[5];
    float back[5];
    tfos__element_convert(TFOS_ELEMENT_FLOAT32, in, 5, TFOS_ELEMENT_FLOAT16, out);
    tfos__element_convert(TFOS_ELEMENT_FLOAT16, out, 5, TFOS_ELEMENT_FLOAT32, back);
    assert_true(back[0] == INFINITY && back[1] == -INFINITY && isnan(back[2]) && isinf(back[3]) && back[4] < 0);
    tfos__element_convert(TFOS_ELEMENT_FLOAT32, in, 5, TFOS_ELEMENT_BFLOAT16, out);
    tfos__element_convert(TFOS_ELEMENT_BFLOAT16, out, 5, TFOS_ELEMENT_FLOAT32, back);
    assert_true(back[0] == INFINITY && back[1] == -INFINITY && isnan(back[2]) && fabsf(back[3] - 1e30f) < 1e28f);
    /* A NaN of which only the lower half of the bits is set. */
    uint32_t bits = 0x7F800001;
    float nan;
    memcpy(&nan, &bits, sizeof nan);
    tfos__element_convert(TFOS_ELEMENT_FLOAT32, &nan, 1, TFOS_ELEMENT_BFLOAT16, out);
    assert_true((out[0] & 0x7FFF) > 0x7F80);
}

/* Partial sums of halves keep what one half has no room for. */
static void test_partial_sums_of_halves_are_wide(void **state)
{
    (void)state;
    float big = 2048;
    float small = 1;
    uint16_t in[2];
    float sum;
    uint16_t rounded;
    tfos__element_convert(TFOS_ELEMENT_FLOAT32, &big, 1, TFOS_ELEMENT_FLOAT16, &in[0]);
    tfos__element_convert(TFOS_ELEMENT_FLOAT32, &small, 1, TFOS_ELEMENT_FLOAT16, &in[1]);
    const tfos__operand operands[] = {{&in[0], 1}, {&in[1], 1}, {&in[1], 1}, {&in[1], 1}};
    assert_int_equal(tfos__element_sum(TFOS_ELEMENT_FLOAT16), TFOS_ELEMENT_FLOAT32);
    tfos__reduce(TFOS__REDUCE_SUM, TFOS_ELEMENT_FLOAT16, operands, 4, 1, TFOS_ELEMENT_FLOAT32, &sum);
    assert_true(sum == 2051);
    tfos__reduce(TFOS__REDUCE_SUM, TFOS_ELEMENT_FLOAT16, operands, 4, 1, TFOS_ELEMENT_FLOAT16, &rounded);
    tfos__element_convert(TFOS_ELEMENT_FLOAT16, &rounded, 1, TFOS_ELEMENT_FLOAT32, &sum);
    assert_true(sum == 2052);
}

/* NaNs may differ in bits that mean nothing; what is a NaN does not. */
static bool same(tfos_element element, const void *a, const void *b, size_t i)
{
    size_t bytes = tfos_element_bytes(element);
    bool equal = memcmp((const uint8_t *)a + i * bytes, (const uint8_t *)b + i * bytes, bytes) == 0;
    bool whole = element == TFOS_ELEMENT_INT32 || element == TFOS_ELEMENT_INT64;
    return equal || (!whole && isnan(number_at(element, a, i)) && isnan(number_at(element, b, i)));
}

/* Whatever the bits are, wherever they begin, and also into one of the operands. */
static void test_every_way_gives_the_same(void **state)
{
    (void)state;
    uint64_t seed = 7;
    uint8_t *in[OPERANDS];
    uint8_t *first = malloc(MOST * 8 + 64);
    uint8_t *other = malloc(MOST * 8 + 64);
    for (size_t k = 0; k < OPERANDS; k++) {
        in[k] = malloc(MOST * 8 + 64);
    }
    for (int round = 0; round < 300; round++) {
        tfos_element from = all_elements[helper_draw(&seed, ELEMENTS)];
        tfos_element to = helper_draw(&seed, 2) == 0 ? from : tfos__element_sum(from);
        tfos__reduction reduction = (tfos__reduction)helper_draw(&seed, TFOS__REDUCTION_COUNT);
        size_t count = helper_draw(&seed, 4) == 0 ? helper_draw(&seed, MOST) : helper_draw(&seed, 40);
        size_t operand_count = helper_draw(&seed, OPERANDS + 1);
        tfos__operand operands[OPERANDS];
        for (size_t k = 0; k < operand_count; k++) {
            size_t shift = helper_draw(&seed, 8) * tfos_element_bytes(from);
            fill_with_anything(&seed, in[k], count * 8 + 64);
            operands[k] = (tfos__operand){in[k] + shift, (double)helper_draw(&seed, 1000) / 999};
        }
        tfos__reduce(reduction, from, operands, operand_count, count, to, first);
        for (size_t way = 1; way < tfos__reduce_way_count(); way++) {
            tfos__reduce_by(way, reduction, from, operands, operand_count, count, to, other);
            for (size_t i = 0; i < count; i++) {
                assert_true(same(to, first, other, i));
            }
        }
        if (operand_count > 0 && to == from) {
            size_t at = helper_draw(&seed, operand_count);
            void *into = in[at] + ((const uint8_t *)operands[at].at - in[at]);
            tfos__reduce(reduction, from, operands, operand_count, count, to, into);
            for (size_t i = 0; i < count; i++) {
                assert_true(same(to, first, into, i));
            }
        }
    }
    for (size_t k = 0; k < OPERANDS; k++) {
        free(in[k]);
    }
    free(first);
    free(other);
}

static void test_names(void **state)
{
    (void)state;
    for (size_t e = 0; e < ELEMENTS; e++) {
        tfos_element parsed;
        assert_int_equal(tfos_element_parse(tfos_element_name(all_elements[e]), &parsed, NULL), TFOS_OK);
        assert_int_equal(parsed, all_elements[e]);
    }
    assert_int_equal(tfos_element_bytes(TFOS_ELEMENT_BFLOAT16), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floating_numbers_are_scaled_and_added),
        cmocka_unit_test(test_integers_are_exact_and_wrap_around),
        cmocka_unit_test(test_nothing_is_neutral),
        cmocka_unit_test(test_nan_comes_through),
        cmocka_unit_test(test_halves_are_rounded_to_the_nearest),
        cmocka_unit_test(test_halves_that_are_not_numbers),
        cmocka_unit_test(test_partial_sums_of_halves_are_wide),
        cmocka_unit_test(test_every_way_gives_the_same),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
