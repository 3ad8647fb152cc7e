/* CRC-32C (Castagnoli), the checksum of TFRecord headers and payloads. */
#ifndef TFOS_BASE_CRC32C_H
#define TFOS_BASE_CRC32C_H

#include "tfos.h"

typedef uint32_t (*tfos__crc32c_function)(uint32_t crc, const void *bytes, size_t count);

/* Extends `crc` (0 to begin) by `count` bytes, with the fastest way that this machine has. */
uint32_t tfos__crc32c(uint32_t crc, const void *bytes, size_t count);

/* TFRecord stores checksums masked, so that a checksum over data that holds checksums stays sound. */
static inline uint32_t tfos__crc32c_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + UINT32_C(0xa282ead8);
}

/* All ways that this machine has, for tests that compare them: name and function until a NULL name. */
typedef struct tfos__crc32c_way {
    const char *name;
    tfos__crc32c_function function;
} tfos__crc32c_way;

const tfos__crc32c_way *tfos__crc32c_ways(void);

#endif
