/* Reductions for processors with AVX2 and F16C. */
#include "collective/reduce_ways.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <string.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

static void from_f16(float *into, const uint16_t *in, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        _mm256_storeu_ps(into + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(in + i))));
    }
    for (; i < count; i++) {
        into[i] = _cvtsh_ss(in[i]);
    }
}

static void to_f16(uint16_t *into, const float *in, size_t count)
{
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(into + i), halves);
    }
    for (; i < count; i++) {
        into[i] = _cvtss_sh(in[i], _MM_FROUND_TO_NEAREST_INT);
    }
}

#define WAY_HALVES
#define WAY_NAME avx2
#include "collective/reduce_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

/* Clang has no word for it. */
static bool has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

const tfos__reduce_way *tfos__reduce_way_avx2(void)
{
    return __builtin_cpu_supports("avx2") && has_f16c() ? &avx2 : NULL;
}

#else

const tfos__reduce_way *tfos__reduce_way_avx2(void)
{
    return NULL;
}

#endif
