/* The protobuf wire format: the paths that are rarely taken. */
#include "base/wire.h"

bool tfos__wire_varint_slow(tfos__wire *wire, uint64_t *out)
{
    uint64_t value = 0;
    const uint8_t *at = wire->at;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (at == wire->end) {
            return false;
        }
        uint8_t byte = *at++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            wire->at = at;
            *out = value;
            return true;
        }
    }
    return false; /* more than ten bytes */
}

/* Groups nest; protobuf parsers bound the depth at 100. */
enum { MAX_GROUP_DEPTH = 100 };

static bool skip_one(tfos__wire *wire, uint32_t tag, int *depth)
{
    uint64_t value;
    tfos__wire bytes;
    switch (tag & 7) {
    case TFOS__WIRE_VARINT:
        return tfos__wire_varint(wire, &value);
    case TFOS__WIRE_FIXED64:
        value = 8;
        break;
    case TFOS__WIRE_BYTES:
        return tfos__wire_bytes(wire, &bytes);
    case 3:
        return ++*depth <= MAX_GROUP_DEPTH;
    case 4:
        return --*depth >= 0;
    case TFOS__WIRE_FIXED32:
        value = 4;
        break;
    default:
        return false;
    }
    if ((uint64_t)(wire->end - wire->at) < value) {
        return false;
    }
    wire->at += value;
    return true;
}

bool tfos__wire_skip(tfos__wire *wire, uint32_t tag)
{
    /* The field numbers of the groups that are open: an end must name the group that it ends. */
    uint32_t open[MAX_GROUP_DEPTH];
    int depth = 0;
    for (;;) {
        int before = depth;
        if (!skip_one(wire, tag, &depth)) {
            return false;
        }
        if (depth > before) {
            open[before] = tag >> 3;
        } else if (depth < before && open[depth] != tag >> 3) {
            return false;
        }
        if (depth == 0) {
            return true;
        }
        if (!tfos__wire_tag(wire, &tag)) {
            return false;
        }
    }
}
