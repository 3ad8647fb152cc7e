/* Shape: made once for a name, compared for every record. */
#include "record/shape.h"

void tfos__shape_make(tfos__shape *shape, tfos__wire name, tfos__feature_kind kind)
{
    uint8_t fixed[TFOS__SHAPE_WORDS * 8] = {0};
    uint8_t varying[TFOS__SHAPE_WORDS * 8] = {0};
    size_t bytes = (size_t)(name.end - name.at);
    *shape = (tfos__shape){0};
    if (bytes + TFOS__SHAPE_AROUND_BYTES > sizeof fixed) {
        return;
    }
    shape->base = (uint8_t)(bytes + TFOS__SHAPE_AROUND_BYTES - 2); /* all but its own tag and length */
    uint8_t *to = fixed;
    *to++ = TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES);
    *to++ = shape->base;
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
    varying[1] = 1;
    varying[shape->bytes - 5] = 1;
    varying[shape->bytes - 3] = 1;
    varying[shape->bytes - 1] = 1;
    shape->least = kind == TFOS__FEATURE_FLOAT ? sizeof(float) : 1;
    shape->most = kind == TFOS__FEATURE_FLOAT ? sizeof(float) : TFOS__SHAPE_MOST_NUMBER_BYTES;
    shape->words = (shape->bytes + 7) / 8;
    uint32_t used = shape->bytes - 8 * (shape->words - 1);
    shape->last = used == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * used)) - 1;
    memcpy(shape->fixed, fixed, sizeof fixed);
    memcpy(shape->varying, varying, sizeof varying);
}
