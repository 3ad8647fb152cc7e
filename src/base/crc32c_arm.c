/* CRC-32C on 64-bit ARM: the instructions of its CRC32 extension, one chain. */
#include "base/crc32c_ways.h"

#if defined(__aarch64__)

#include <arm_acle.h>
#include <sys/auxv.h>

#include "base/bytes.h"

#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif

__attribute__((target("+crc"))) static uint32_t crc_arm(uint32_t crc, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    crc = ~crc;
    for (; count >= 8; at += 8, count -= 8) {
        crc = __crc32cd(crc, tfos__load_u64(at));
    }
    while (count-- > 0) {
        crc = __crc32cb(crc, *at++);
    }
    return ~crc;
}

size_t tfos__crc32c_hardware_ways(tfos__crc32c_way *ways)
{
    if ((getauxval(AT_HWCAP) & HWCAP_CRC32) == 0) {
        return 0;
    }
    ways[0] = (tfos__crc32c_way){"arm crc32", crc_arm};
    return 1;
}

#endif
