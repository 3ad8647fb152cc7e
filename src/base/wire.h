/* The protobuf wire format: tags, varints and lengths, read with bounds and written without.
 *
 *   message = { tag value }        tag = varint(field number << 3 | wire type)
 *   wire type 0: varint   1: 8 bytes   2: varint length, bytes   3/4: group start/end   5: 4 bytes
 *
 * Only what tf.train.Example and our own messages need. Readers advance a cursor and return false on nonsense, in which case the
 * cursor's position is where the nonsense is. */
#ifndef TFOS_BASE_WIRE_H
#define TFOS_BASE_WIRE_H

#include "base/bytes.h"

typedef struct tfos__wire {
    const uint8_t *at;
    const uint8_t *end;
} tfos__wire;

enum { TFOS__WIRE_VARINT = 0, TFOS__WIRE_FIXED64 = 1, TFOS__WIRE_BYTES = 2, TFOS__WIRE_FIXED32 = 5 };

#define TFOS__WIRE_TAG(field, type) ((uint32_t)((field) << 3 | (type)))

/* The general case of tfos__wire_varint. */
bool tfos__wire_varint_slow(tfos__wire *wire, uint64_t *out);

/* Skips the value of a field whose tag was just read, groups included. */
bool tfos__wire_skip(tfos__wire *wire, uint32_t tag);

static inline bool tfos__wire_varint(tfos__wire *wire, uint64_t *out)
{
    if (__builtin_expect(wire->at < wire->end && *wire->at < 0x80, 1)) {
        *out = *wire->at++;
        return true;
    }
    return tfos__wire_varint_slow(wire, out);
}

/* A tag must fit 32 bits and have a field number. */
static inline bool tfos__wire_tag(tfos__wire *wire, uint32_t *out)
{
    uint64_t value;
    if (!tfos__wire_varint(wire, &value) || value > UINT32_MAX || (value >> 3) == 0) {
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

/* A length-delimited value: `out` covers its bytes and the cursor moves behind them. */
static inline bool tfos__wire_bytes(tfos__wire *wire, tfos__wire *out)
{
    uint64_t length;
    if (!tfos__wire_varint(wire, &length) || length > (uint64_t)(wire->end - wire->at)) {
        return false;
    }
    out->at = wire->at;
    out->end = wire->at + length;
    wire->at = out->end;
    return true;
}

static inline size_t tfos__wire_varint_bytes(uint64_t value)
{
    return (size_t)((63 - __builtin_clzll(value | 1)) / 7 + 1);
}

static inline uint8_t *tfos__wire_put_varint(uint8_t *to, uint64_t value)
{
    while (value >= 0x80) {
        *to++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *to++ = (uint8_t)value;
    return to;
}

#endif
