/* Shape: made once for a name, compared for every record. */
#include "record/shape.h"

#define BLOCK(n)                                                                                                       \
    {                                                                                                                  \
        n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n, n                 \
    }
const tfos__shape_block tfos__shape_counts[TFOS__SHAPE_MOST_NUMBER_BYTES + 1] = {
    BLOCK(0), BLOCK(1), BLOCK(2), BLOCK(3), BLOCK(4), BLOCK(5), BLOCK(6), BLOCK(7), BLOCK(8), BLOCK(9), BLOCK(10)};

/* The first two generations of AMD's Zen have BMI2 and take hundreds of cycles for the one instruction of it that is
 * wanted. */
bool tfos__shape_is_wide(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && !__builtin_cpu_is("znver1") &&
           !__builtin_cpu_is("znver2");
#else
    return false;
#endif
}

void tfos__shape_make(tfos__shape *shape, tfos__wire name, tfos__feature_kind kind)
{
    uint8_t fixed[TFOS__SHAPE_BLOCKS * TFOS__SHAPE_BLOCK_BYTES] = {0};
    uint8_t varying[sizeof fixed] = {0};
    uint8_t known[sizeof fixed] = {0};
    size_t bytes = (size_t)(name.end - name.at);
    tfos__shape_forget(shape);
    if (bytes + TFOS__SHAPE_AROUND_BYTES > sizeof fixed) {
        return;
    }
    shape->base = (uint32_t)(bytes + TFOS__SHAPE_AROUND_BYTES - 2); /* all but its own tag and length */
    uint8_t *to = fixed;
    *to++ = TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES);
    *to++ = (uint8_t)shape->base;
    *to++ = TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES);
    *to++ = (uint8_t)bytes;
    memcpy(to, name.at, bytes);
    to += bytes;
    *to++ = TFOS__WIRE_TAG(2, TFOS__WIRE_BYTES);
    *to++ = 4;
    *to++ = (uint8_t)TFOS__WIRE_TAG(kind, TFOS__WIRE_BYTES);
    *to++ = 2;
    *to++ = TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES);
    *to++ = 0;
    shape->bytes = (uint32_t)(to - fixed);
    varying[1] = 0xFF;
    varying[shape->bytes - 5] = 0xFF;
    varying[shape->bytes - 3] = 0xFF;
    varying[shape->bytes - 1] = 0xFF;
    memset(known, 0xFF, shape->bytes);
    shape->least = kind == TFOS__FEATURE_FLOAT ? sizeof(float) : 1;
    shape->spread = kind == TFOS__FEATURE_FLOAT ? 0 : TFOS__SHAPE_MOST_NUMBER_BYTES - 1;
    memcpy(shape->fixed, fixed, sizeof fixed);
    memcpy(shape->varying, varying, sizeof varying);
    memcpy(shape->known, known, sizeof known);
}

bool tfos__shape_large(const uint8_t *at, size_t bytes, uint64_t *out)
{
    tfos__wire wire = {at, at + bytes};
    return tfos__wire_varint(&wire, out) && wire.at == wire.end;
}
