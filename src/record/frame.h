/* The framing of a TFRecord file: records one after the other, each
 *
 *      0        8          12               12 + n      16 + n
 *      | length | crc of 8 | payload, n     | crc of n  |
 *
 * little-endian, both checksums masked crc32c. */
#ifndef TFOS_RECORD_FRAME_H
#define TFOS_RECORD_FRAME_H

#include "base/bytes.h"
#include "base/crc32c.h"

enum {
    TFOS__FRAME_HEADER_BYTES = 12,
    TFOS__FRAME_FOOTER_BYTES = 4,
    TFOS__FRAME_OVERHEAD_BYTES = TFOS__FRAME_HEADER_BYTES + TFOS__FRAME_FOOTER_BYTES,
};

/* Columns address bytes with 32 bits, so no record may be longer. */
#define TFOS__FRAME_MAX_PAYLOAD_BYTES ((uint64_t)INT32_MAX)

/* Whether twelve bytes are a header; *length is what it says. */
static inline bool tfos__frame_header(const uint8_t *at, uint64_t *length)
{
    *length = tfos__load_u64(at);
    return tfos__crc32c_mask(tfos__crc32c(0, at, 8)) == tfos__load_u32(at + 8);
}

/* Whether the four bytes behind the payload are its checksum. */
static inline bool tfos__frame_payload(const uint8_t *payload, size_t bytes)
{
    return tfos__crc32c_mask(tfos__crc32c(0, payload, bytes)) == tfos__load_u32(payload + bytes);
}

static inline void tfos__frame_put_header(uint8_t *to, uint64_t length)
{
    tfos__store_u64(to, length);
    tfos__store_u32(to + 8, tfos__crc32c_mask(tfos__crc32c(0, to, 8)));
}

static inline void tfos__frame_put_footer(uint8_t *to, const uint8_t *payload, size_t bytes)
{
    tfos__store_u32(to, tfos__crc32c_mask(tfos__crc32c(0, payload, bytes)));
}

#endif
