/* The protobuf wire format: tags, varints and lengths, read with bounds and written without.
 *
 *   message = { tag value }        tag = varint(field number << 3 | wire type)
 *   wire type 0: varint   1: 8 bytes   2: varint length, bytes   3/4: group start/end   5: 4 bytes
 *
 * Only what tf.train.Example and our own messages need. Readers advance a cursor and return false on nonsense, in which
 * case the cursor's position is where the nonsense is. */
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

/* A varint of exactly `bytes` bytes, 1 to 8, in a few operations: the seven-bit groups of a word are pushed together in
 * three steps. False if it does not end where it should. Reads 8 bytes. */
static inline bool tfos__wire_varint_exact(const uint8_t *at, size_t bytes, uint64_t *out)
{
    uint64_t used = bytes == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * bytes)) - 1;
    uint64_t word = tfos__load_u64(at) & used;
    uint64_t more = UINT64_C(0x8080808080808080) & (used >> 8);
    if ((word & UINT64_C(0x8080808080808080)) != more) {
        return false;
    }
    word &= UINT64_C(0x7F7F7F7F7F7F7F7F);
    word = (word & UINT64_C(0x007F007F007F007F)) | ((word & UINT64_C(0x7F007F007F007F00)) >> 1);
    word = (word & UINT64_C(0x00003FFF00003FFF)) | ((word & UINT64_C(0x3FFF00003FFF0000)) >> 2);
    *out = (word & UINT64_C(0x000000000FFFFFFF)) | ((word & UINT64_C(0x0FFFFFFF00000000)) >> 4);
    return true;
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
