/* Types of tensors. Values of types that columns do not have go by way of the column that has them all: int64 for whole
 * numbers, float for short ones. */
#include "tensorflow/dtype.h"

#include <math.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/status.h"
#include "collective/reduce.h"
#include "column/convert.h"

#define DTYPE_NAME(name, number, text) [number] = text,
static const char *const names[] = {TFOS__DTYPE_MAP(DTYPE_NAME)};

const char *tfos__dtype_name(tfos__dtype dtype)
{
    size_t number = (size_t)dtype;
    bool known = number < sizeof names / sizeof names[0] && names[number] != NULL;
    return known ? names[number] : "unknown";
}

tfos__dtype_form tfos__dtype_form_of(tfos__dtype dtype)
{
    switch (dtype) {
    case TFOS__DTYPE_FLOAT:
        return (tfos__dtype_form){true, TFOS_TYPE_FLOAT, 4, true};
    case TFOS__DTYPE_DOUBLE:
        return (tfos__dtype_form){true, TFOS_TYPE_DOUBLE, 8, true};
    case TFOS__DTYPE_INT32:
        return (tfos__dtype_form){true, TFOS_TYPE_INT32, 4, true};
    case TFOS__DTYPE_INT64:
        return (tfos__dtype_form){true, TFOS_TYPE_INT64, 8, true};
    case TFOS__DTYPE_BOOL:
        return (tfos__dtype_form){true, TFOS_TYPE_BOOL, 1, false};
    case TFOS__DTYPE_STRING:
        return (tfos__dtype_form){true, TFOS_TYPE_BINARY, 0, false};
    case TFOS__DTYPE_UINT8:
    case TFOS__DTYPE_INT8:
        return (tfos__dtype_form){true, TFOS_TYPE_INT32, 1, false};
    case TFOS__DTYPE_UINT16:
    case TFOS__DTYPE_INT16:
        return (tfos__dtype_form){true, TFOS_TYPE_INT32, 2, false};
    case TFOS__DTYPE_UINT32:
        return (tfos__dtype_form){true, TFOS_TYPE_INT64, 4, false};
    case TFOS__DTYPE_UINT64:
        return (tfos__dtype_form){true, TFOS_TYPE_INT64, 8, false};
    case TFOS__DTYPE_HALF:
    case TFOS__DTYPE_BFLOAT16:
        return (tfos__dtype_form){true, TFOS_TYPE_FLOAT, 2, false};
    default:
        return (tfos__dtype_form){0};
    }
}

bool tfos__dtype_takes(tfos__dtype dtype, tfos_type from)
{
    tfos__dtype_form form = tfos__dtype_form_of(dtype);
    if (dtype == TFOS__DTYPE_UINT8 && from == TFOS_TYPE_BINARY) {
        return true;
    }
    return form.has_columns && tfos__convert_allows(from, form.type);
}

static tfos_element element_of(tfos__dtype dtype)
{
    return dtype == TFOS__DTYPE_HALF ? TFOS_ELEMENT_FLOAT16 : TFOS_ELEMENT_BFLOAT16;
}

/* ---- writing ---- */

typedef struct bounds {
    int64_t least;
    int64_t most;
} bounds;

static bounds bounds_of(tfos__dtype dtype)
{
    switch (dtype) {
    case TFOS__DTYPE_UINT8:
        return (bounds){0, UINT8_MAX};
    case TFOS__DTYPE_INT8:
        return (bounds){INT8_MIN, INT8_MAX};
    case TFOS__DTYPE_UINT16:
        return (bounds){0, UINT16_MAX};
    case TFOS__DTYPE_INT16:
        return (bounds){INT16_MIN, INT16_MAX};
    case TFOS__DTYPE_UINT32:
        return (bounds){0, UINT32_MAX};
    default:
        return (bounds){0, INT64_MAX};
    }
}

static tfos_status narrow_whole(tfos__dtype dtype, const int64_t *from, int64_t count, void *to, tfos_error *error)
{
    bounds allowed = bounds_of(dtype);
    size_t width = tfos__dtype_form_of(dtype).width;
    for (int64_t i = 0; i < count; i++) {
        if (from[i] < allowed.least || from[i] > allowed.most) {
            return tfos__fail(error, TFOS_RANGE, "the value %lld does not fit %s, which has %lld to %lld",
                              (long long)from[i], tfos__dtype_name(dtype), (long long)allowed.least,
                              (long long)allowed.most);
        }
        memcpy((uint8_t *)to + (size_t)i * width, &from[i], width); /* the lowest bytes are the first */
    }
    return TFOS_OK;
}

/* Real numbers are rounded, but they do not become infinite, which both types write as all ones in the exponent and
 * zeros behind it. */
static tfos_status narrow_real(tfos__dtype dtype, const float *from, int64_t count, uint16_t *to, tfos_error *error)
{
    bool half = dtype == TFOS__DTYPE_HALF;
    uint16_t infinite = half ? 0x7C00 : 0x7F80;
    tfos__element_convert(TFOS_ELEMENT_FLOAT32, from, (size_t)count, element_of(dtype), to);
    for (int64_t i = 0; i < count; i++) {
        if (__builtin_expect((to[i] & 0x7FFF) == infinite, 0) && !isinf(from[i])) {
            return tfos__fail(error, TFOS_RANGE, "the value %g is too large for %s, which has up to %s", from[i],
                              tfos__dtype_name(dtype), half ? "65504" : "3.38953e+38");
        }
    }
    return TFOS_OK;
}

static tfos_status narrow(tfos__dtype dtype, const tfos_vector *values, tfos_type via, void *to, tfos_error *error)
{
    size_t bytes = (size_t)values->length * (via == TFOS_TYPE_FLOAT ? sizeof(float) : sizeof(int64_t));
    void *wide = malloc(bytes > 0 ? bytes : 1);
    if (wide == NULL) {
        return tfos__fail_memory(error, bytes);
    }
    tfos_status status = tfos__convert_numbers(values, via, wide, error);
    if (status == TFOS_OK && via == TFOS_TYPE_FLOAT) {
        status = narrow_real(dtype, wide, values->length, to, error);
    } else if (status == TFOS_OK) {
        status = narrow_whole(dtype, wide, values->length, to, error);
    }
    free(wide);
    return status;
}

tfos_status tfos__dtype_write(tfos__dtype dtype, const tfos_vector *values, void *to, tfos_error *error)
{
    tfos__dtype_form form = tfos__dtype_form_of(dtype);
    if (form.same || dtype == TFOS__DTYPE_BOOL) {
        return tfos__convert_numbers(values, form.type, to, error);
    }
    return narrow(dtype, values, form.type == TFOS_TYPE_FLOAT ? TFOS_TYPE_FLOAT : TFOS_TYPE_INT64, to, error);
}

/* ---- reading ---- */

#define WIDEN(from_type, to_type)                                                                                      \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        ((to_type *)to)[i] = ((const from_type *)from)[i];                                                             \
    }                                                                                                                  \
    break

tfos_status tfos__dtype_read(tfos__dtype dtype, const void *from, int64_t count, void *to, tfos_error *error)
{
    tfos__dtype_form form = tfos__dtype_form_of(dtype);
    switch (dtype) {
    case TFOS__DTYPE_BOOL:
        for (int64_t i = 0; i < count; i++) {
            tfos__bit_put(to, i, ((const uint8_t *)from)[i] != 0);
        }
        break;
    case TFOS__DTYPE_UINT8:
        WIDEN(uint8_t, int32_t);
    case TFOS__DTYPE_INT8:
        WIDEN(int8_t, int32_t);
    case TFOS__DTYPE_UINT16:
        WIDEN(uint16_t, int32_t);
    case TFOS__DTYPE_INT16:
        WIDEN(int16_t, int32_t);
    case TFOS__DTYPE_UINT32:
        WIDEN(uint32_t, int64_t);
    case TFOS__DTYPE_UINT64:
        for (int64_t i = 0; i < count; i++) {
            if (((const uint64_t *)from)[i] > INT64_MAX) {
                return tfos__fail(error, TFOS_RANGE, "the value %llu of uint64 is larger than any number of a column",
                                  (unsigned long long)((const uint64_t *)from)[i]);
            }
        }
        memcpy(to, from, (size_t)count * sizeof(int64_t));
        break;
    case TFOS__DTYPE_HALF:
    case TFOS__DTYPE_BFLOAT16:
        tfos__element_convert(element_of(dtype), from, (size_t)count, TFOS_ELEMENT_FLOAT32, to);
        break;
    default:
        memcpy(to, from, (size_t)count * form.width);
    }
    return TFOS_OK;
}
