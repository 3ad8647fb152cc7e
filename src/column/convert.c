/* Numbers of one type as another: a loop for each pair of types. */
#include "column/convert.h"

#include <math.h>

#include "base/status.h"

bool tfos__convert_allows(tfos_type from, tfos_type to)
{
    bool is_text = from == TFOS_TYPE_STRING || from == TFOS_TYPE_BINARY;
    bool is_real = from == TFOS_TYPE_FLOAT || from == TFOS_TYPE_DOUBLE;
    switch (to) {
    case TFOS_TYPE_STRING:
    case TFOS_TYPE_BINARY:
        return is_text;
    case TFOS_TYPE_BOOL:
        return from == TFOS_TYPE_BOOL;
    case TFOS_TYPE_INT32:
    case TFOS_TYPE_INT64:
        return !is_text && !is_real;
    default:
        return !is_text;
    }
}

/* ---- whether a value stays what it is ---- */

/* Up to here every whole number is a float, or a double. */
static const int64_t FLOAT_WHOLE = INT64_C(1) << 24;
static const int64_t DOUBLE_WHOLE = INT64_C(1) << 53;

static bool is_within(int64_t value, int64_t most)
{
    return value >= -most && value <= most;
}

/* Whether a real number that was made of a whole one is still that number. 2⁶³ is no int64_t. */
static bool is_still(double real, int64_t value)
{
    return real < 0x1p63 && (int64_t)real == value;
}

static bool keeps_INT64_INT32(int64_t value)
{
    return value >= INT32_MIN && value <= INT32_MAX;
}

static bool keeps_INT32_FLOAT(int32_t value)
{
    return is_within(value, FLOAT_WHOLE) || is_still((double)(float)value, value);
}

static bool keeps_INT64_FLOAT(int64_t value)
{
    return is_within(value, FLOAT_WHOLE) || is_still((double)(float)value, value);
}

static bool keeps_INT64_DOUBLE(int64_t value)
{
    return is_within(value, DOUBLE_WHOLE) || is_still((double)value, value);
}

static bool keeps_DOUBLE_FLOAT(double value)
{
    return !isinf((float)value) || isinf(value);
}

/* ---- conversions ---- */

static tfos_status fail_whole(int64_t value, tfos_type from, tfos_type to, tfos_error *error)
{
    if (to == TFOS_TYPE_INT32) {
        return tfos__fail(error, TFOS_RANGE, "the value %lld does not fit int32; ask for int64", (long long)value);
    }
    return tfos__fail(error, TFOS_RANGE,
                      "the value %lld is no %s, which would make it %.0f; ask for %s%s, and convert it in the program "
                      "if that is meant",
                      (long long)value, tfos_type_name(to),
                      to == TFOS_TYPE_FLOAT ? (double)(float)value : (double)value, tfos_type_name(from),
                      to == TFOS_TYPE_FLOAT ? " or double" : "");
}

static tfos_status fail_INT64_INT32(int64_t value, tfos_error *error)
{
    return fail_whole(value, TFOS_TYPE_INT64, TFOS_TYPE_INT32, error);
}

static tfos_status fail_INT32_FLOAT(int32_t value, tfos_error *error)
{
    return fail_whole(value, TFOS_TYPE_INT32, TFOS_TYPE_FLOAT, error);
}

static tfos_status fail_INT64_FLOAT(int64_t value, tfos_error *error)
{
    return fail_whole(value, TFOS_TYPE_INT64, TFOS_TYPE_FLOAT, error);
}

static tfos_status fail_INT64_DOUBLE(int64_t value, tfos_error *error)
{
    return fail_whole(value, TFOS_TYPE_INT64, TFOS_TYPE_DOUBLE, error);
}

static tfos_status fail_DOUBLE_FLOAT(double value, tfos_error *error)
{
    return tfos__fail(error, TFOS_RANGE, "the value %g is too large for float; ask for double", value);
}

/* X(from, C type, to, C type): every pair that is no plain copy. What is EXACT always fits. */
#define EXACT_MAP(X)                                                                                                   \
    X(INT32, int32_t, INT64, int64_t)                                                                                  \
    X(INT32, int32_t, DOUBLE, double)                                                                                  \
    X(FLOAT, float, DOUBLE, double)
#define CHECKED_MAP(X)                                                                                                 \
    X(INT64, int64_t, INT32, int32_t)                                                                                  \
    X(INT32, int32_t, FLOAT, float)                                                                                    \
    X(INT64, int64_t, FLOAT, float)                                                                                    \
    X(INT64, int64_t, DOUBLE, double)                                                                                  \
    X(DOUBLE, double, FLOAT, float)
#define SAME_MAP(X)                                                                                                    \
    X(INT32, int32_t, INT32, int32_t)                                                                                  \
    X(INT64, int64_t, INT64, int64_t)                                                                                  \
    X(FLOAT, float, FLOAT, float)                                                                                      \
    X(DOUBLE, double, DOUBLE, double)

#define CONVERT(from, from_type, to, to_type)                                                                          \
    static tfos_status convert_##from##_##to(const tfos_vector *values, void *data, tfos_error *error)                 \
    {                                                                                                                  \
        const from_type *in = values->data;                                                                            \
        to_type *out = data;                                                                                           \
        (void)error;                                                                                                   \
        for (int64_t i = 0; i < values->length; i++) {                                                                 \
            out[i] = (to_type)in[i];                                                                                   \
        }                                                                                                              \
        return TFOS_OK;                                                                                                \
    }
#define CONVERT_CHECKED(from, from_type, to, to_type)                                                                  \
    static tfos_status convert_##from##_##to(const tfos_vector *values, void *data, tfos_error *error)                 \
    {                                                                                                                  \
        const from_type *in = values->data;                                                                            \
        to_type *out = data;                                                                                           \
        for (int64_t i = 0; i < values->length; i++) {                                                                 \
            if (__builtin_expect(!keeps_##from##_##to(in[i]), 0)) {                                                    \
                return fail_##from##_##to(in[i], error);                                                               \
            }                                                                                                          \
            out[i] = (to_type)in[i];                                                                                   \
        }                                                                                                              \
        return TFOS_OK;                                                                                                \
    }
EXACT_MAP(CONVERT)
SAME_MAP(CONVERT)
CHECKED_MAP(CONVERT_CHECKED)

static const struct {
    tfos_type from;
    tfos_type to;
    tfos_status (*convert)(const tfos_vector *values, void *data, tfos_error *error);
} conversions[] = {
#define CONVERSION(from, from_type, to, to_type) {TFOS_TYPE_##from, TFOS_TYPE_##to, convert_##from##_##to},
    EXACT_MAP(CONVERSION) SAME_MAP(CONVERSION) CHECKED_MAP(CONVERSION)
#undef CONVERSION
};

static void spread_bits(const tfos_vector *values, tfos_type to, void *data)
{
    const uint8_t *bits = values->data;
    for (int64_t i = 0; i < values->length; i++) {
        bool bit = (bits[i >> 3] >> (i & 7) & 1) != 0;
        switch (to) {
        case TFOS_TYPE_INT32:
            ((int32_t *)data)[i] = bit;
            break;
        case TFOS_TYPE_INT64:
            ((int64_t *)data)[i] = bit;
            break;
        case TFOS_TYPE_FLOAT:
            ((float *)data)[i] = bit ? 1 : 0;
            break;
        case TFOS_TYPE_DOUBLE:
            ((double *)data)[i] = bit ? 1 : 0;
            break;
        default:
            ((uint8_t *)data)[i] = bit;
        }
    }
}

tfos_status tfos__convert_numbers(const tfos_vector *values, tfos_type to, void *data, tfos_error *error)
{
    if (values->type == TFOS_TYPE_BOOL && tfos__convert_allows(values->type, to)) {
        spread_bits(values, to, data);
        return TFOS_OK;
    }
    for (size_t i = 0; i < sizeof conversions / sizeof conversions[0]; i++) {
        if (conversions[i].from == values->type && conversions[i].to == to) {
            return conversions[i].convert(values, data, error);
        }
    }
    return tfos__fail(error, TFOS_MISMATCH, "expected %s, found %s", tfos_type_name(to), tfos_type_name(values->type));
}
