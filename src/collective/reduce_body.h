/* The functions of a tfos__reduce_way, for whatever the including file is compiled for. Plain loops, which the compiler
 * turns into vectors. It defines WAY_NAME, and WAY_HALVES if it has its own conversions of float16. */

#define SUM_OF(suffix, type)                                                                                           \
    static void sum_##suffix(void *into, const void *in, double scale, bool first, size_t count)                       \
    {                                                                                                                  \
        type *restrict sum = into;                                                                                     \
        const type *restrict each = in;                                                                                \
        type factor = (type)scale;                                                                                     \
        if (first) {                                                                                                   \
            for (size_t i = 0; i < count; i++) {                                                                       \
                sum[i] = each[i] * factor;                                                                             \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                                           \
            sum[i] += each[i] * factor;                                                                                \
        }                                                                                                              \
    }

/* Integers wrap around. */
#define WHOLE_SUM_OF(suffix, type, unsigned_type)                                                                      \
    static void sum_##suffix(void *into, const void *in, double scale, bool first, size_t count)                       \
    {                                                                                                                  \
        type *restrict sum = into;                                                                                     \
        const type *restrict each = in;                                                                                \
        (void)scale;                                                                                                   \
        for (size_t i = 0; !first && i < count; i++) {                                                                 \
            sum[i] = (type)((unsigned_type)sum[i] + (unsigned_type)each[i]);                                           \
        }                                                                                                              \
        if (first) {                                                                                                   \
            memcpy(into, in, count * sizeof *each);                                                                    \
        }                                                                                                              \
    }

/* A NaN stays, for nothing is before it, and comes through, for it does not equal itself. */
#define EXTREME_OF(name, suffix, type, before)                                                                         \
    static void name##_##suffix(void *into, const void *in, double scale, bool first, size_t count)                    \
    {                                                                                                                  \
        type *restrict best = into;                                                                                    \
        const type *restrict each = in;                                                                                \
        (void)scale;                                                                                                   \
        for (size_t i = 0; !first && i < count; i++) {                                                                 \
            type one = each[i];                                                                                        \
            type better = one before best[i] ? one : best[i];                                                          \
            best[i] = one == one ? better : one;                                                                       \
        }                                                                                                              \
        if (first) {                                                                                                   \
            memcpy(into, in, count * sizeof *each);                                                                    \
        }                                                                                                              \
    }

SUM_OF(f32, float)
SUM_OF(f64, double)
WHOLE_SUM_OF(i32, int32_t, uint32_t)
WHOLE_SUM_OF(i64, int64_t, uint64_t)
EXTREME_OF(least, f32, float, <)
EXTREME_OF(least, f64, double, <)
EXTREME_OF(least, i32, int32_t, <)
EXTREME_OF(least, i64, int64_t, <)
EXTREME_OF(greatest, f32, float, >)
EXTREME_OF(greatest, f64, double, >)
EXTREME_OF(greatest, i32, int32_t, >)
EXTREME_OF(greatest, i64, int64_t, >)

/* Halves of bfloat16 are the upper halves of float32. A NaN must not become infinite when its lower half is dropped. */
static void from_bf16(float *restrict into, const uint16_t *restrict in, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)in[i] << 16;
        memcpy(&into[i], &bits, sizeof bits);
    }
}

static void to_bf16(uint16_t *restrict into, const float *restrict in, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &in[i], sizeof bits);
        uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
        uint32_t quiet = (bits >> 16) | 0x40u;
        into[i] = (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
    }
}

#ifndef WAY_HALVES
static uint16_t as_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t rest = bits & 0x7FFFFFFFu;
    if (rest > 0x7F800000u) {
        return (uint16_t)(sign | 0x7E00u | ((rest >> 13) & 0x3FFu));
    }
    if (rest >= 0x477FF000u) { /* 65520 and more: the nearest is infinite */
        return (uint16_t)(sign | 0x7C00u);
    }
    if (rest >= 0x38800000u) { /* at least 2^-14: normal */
        uint32_t odd = (rest >> 13) & 1u;
        return (uint16_t)(sign | ((rest - 0x38000000u + 0xFFFu + odd) >> 13));
    }
    /* A float that adds 2^-24 in its last place rounds to a multiple of that. */
    float magnitude;
    memcpy(&magnitude, &rest, sizeof magnitude);
    magnitude += 0.5f;
    memcpy(&rest, &magnitude, sizeof rest);
    return (uint16_t)(sign | (rest - 0x3F000000u));
}

static void from_f16(float *restrict into, const uint16_t *restrict in, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        into[i] = tfos__half_to_float(in[i]);
    }
}

static void to_f16(uint16_t *restrict into, const float *restrict in, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        into[i] = as_f16(in[i]);
    }
}
#endif

static const tfos__reduce_way WAY_NAME = {
    .combine = {[TFOS__REDUCE_SUM] = {sum_f32, sum_f64, sum_i32, sum_i64},
                [TFOS__REDUCE_LEAST] = {least_f32, least_f64, least_i32, least_i64},
                [TFOS__REDUCE_GREATEST] = {greatest_f32, greatest_f64, greatest_i32, greatest_i64}},
    .from_f16 = from_f16,
    .from_bf16 = from_bf16,
    .to_f16 = to_f16,
    .to_bf16 = to_bf16,
};
