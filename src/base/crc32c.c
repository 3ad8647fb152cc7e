/* CRC-32C.
 *
 * The portable way takes eight bytes a step through eight tables ("slicing"). The x86 way uses the crc32 instruction,
 * which has a latency of three cycles and a throughput of one: three chains run over three neighbouring blocks at the
 * same time, and their results are joined by moving the first two over the bytes behind them.
 *
 *     |---- a ----|---- b ----|---- c ----|        crc(abc) = move(crc(a), 2n) ^ move(crc(b), n) ^ crc(c)
 *
 * Moving a remainder r over n zero bytes is r · x^(8n) mod P. With k = x^(8n-33) mod P, bit-reflected, the carry-less
 * product r·k fits 64 bits and crc32(0, r·k) reduces it: one multiplication and one crc32 instruction. The constants
 * are computed once, at first use.
 *
 * The ARM way uses the CRC32 extension, one chain. */
#include "base/crc32c.h"

#include <pthread.h>

#include "base/bytes.h"

#define POLYNOMIAL UINT32_C(0x82f63b78) /* bit-reflected */

/* ---- portable ---- */

static uint32_t table[8][256];

static void make_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (POLYNOMIAL & (0u - (crc & 1)));
        }
        table[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        for (int slice = 1; slice < 8; slice++) {
            uint32_t before = table[slice - 1][byte];
            table[slice][byte] = (before >> 8) ^ table[0][before & 0xFF];
        }
    }
}

static uint32_t crc_portable(uint32_t crc, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    crc = ~crc;
    while (count >= 8) {
        uint32_t low = tfos__load_u32(at) ^ crc;
        uint32_t high = tfos__load_u32(at + 4);
        crc = table[7][low & 0xFF] ^ table[6][(low >> 8) & 0xFF] ^ table[5][(low >> 16) & 0xFF] ^ table[4][low >> 24] ^
              table[3][high & 0xFF] ^ table[2][(high >> 8) & 0xFF] ^ table[1][(high >> 16) & 0xFF] ^
              table[0][high >> 24];
        at += 8;
        count -= 8;
    }
    while (count-- > 0) {
        crc = (crc >> 8) ^ table[0][(crc ^ *at++) & 0xFF];
    }
    return ~crc;
}

#if defined(__x86_64__)

#include <nmmintrin.h>
#include <wmmintrin.h>

/* Block sizes of the three chains: long ones for large payloads, short ones for records of a few hundred bytes. */
enum { LONG_BLOCK = 2048, SHORT_BLOCK = 128 };

static uint64_t long_move_1, long_move_2, short_move_1, short_move_2;

/* x^exponent mod P in the reflected form that the carry-less multiplication expects. */
static uint64_t power_of_x(unsigned exponent)
{
    uint32_t value = UINT32_C(0x80000000); /* x^0 */
    for (unsigned i = 0; i < exponent; i++) {
        value = (value >> 1) ^ (POLYNOMIAL & (0u - (value & 1)));
    }
    return value;
}

static void make_moves(void)
{
    long_move_1 = power_of_x(8 * LONG_BLOCK - 33);
    long_move_2 = power_of_x(2 * 8 * LONG_BLOCK - 33);
    short_move_1 = power_of_x(8 * SHORT_BLOCK - 33);
    short_move_2 = power_of_x(2 * 8 * SHORT_BLOCK - 33);
}

__attribute__((target("sse4.2,pclmul"))) static inline uint64_t move(uint64_t crc, uint64_t by)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)crc), _mm_cvtsi64_si128((int64_t)by), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

__attribute__((target("sse4.2,pclmul"))) static inline uint64_t three_blocks(uint64_t crc, const uint8_t *at,
                                                                             size_t block, uint64_t move_1,
                                                                             uint64_t move_2)
{
    uint64_t b = 0;
    uint64_t c = 0;
    for (size_t i = 0; i < block; i += 8) {
        crc = _mm_crc32_u64(crc, tfos__load_u64(at + i));
        b = _mm_crc32_u64(b, tfos__load_u64(at + block + i));
        c = _mm_crc32_u64(c, tfos__load_u64(at + 2 * block + i));
    }
    return move(crc, move_2) ^ move(b, move_1) ^ c;
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t crc_x86(uint32_t start, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    uint64_t crc = ~start;
    while (count >= 3 * LONG_BLOCK) {
        crc = three_blocks(crc, at, LONG_BLOCK, long_move_1, long_move_2);
        at += 3 * LONG_BLOCK;
        count -= 3 * LONG_BLOCK;
    }
    while (count >= 3 * SHORT_BLOCK) {
        crc = three_blocks(crc, at, SHORT_BLOCK, short_move_1, short_move_2);
        at += 3 * SHORT_BLOCK;
        count -= 3 * SHORT_BLOCK;
    }
    while (count >= 8) {
        crc = _mm_crc32_u64(crc, tfos__load_u64(at));
        at += 8;
        count -= 8;
    }
    uint32_t tail = (uint32_t)crc;
    while (count-- > 0) {
        tail = _mm_crc32_u8(tail, *at++);
    }
    return ~tail;
}

static bool have_hardware(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

#define HARDWARE_NAME "x86 crc32 + pclmul"
#define HARDWARE_FUNCTION crc_x86

#elif defined(__aarch64__)

#include <arm_acle.h>
#include <sys/auxv.h>

#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif

__attribute__((target("+crc"))) static uint32_t crc_arm(uint32_t crc, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    crc = ~crc;
    while (count >= 8) {
        crc = __crc32cd(crc, tfos__load_u64(at));
        at += 8;
        count -= 8;
    }
    while (count-- > 0) {
        crc = __crc32cb(crc, *at++);
    }
    return ~crc;
}

static void make_moves(void)
{
}

static bool have_hardware(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}

#define HARDWARE_NAME "arm crc32"
#define HARDWARE_FUNCTION crc_arm

#else

static void make_moves(void)
{
}

static bool have_hardware(void)
{
    return false;
}

#define HARDWARE_NAME "none"
#define HARDWARE_FUNCTION crc_portable

#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static tfos__crc32c_way ways[3];

static void choose(void)
{
    int count = 0;
    make_table();
    if (have_hardware()) {
        make_moves();
        ways[count++] = (tfos__crc32c_way){HARDWARE_NAME, HARDWARE_FUNCTION};
    }
    ways[count++] = (tfos__crc32c_way){"portable", crc_portable};
}

const tfos__crc32c_way *tfos__crc32c_ways(void)
{
    pthread_once(&once, choose);
    return ways;
}

uint32_t tfos__crc32c(uint32_t crc, const void *bytes, size_t count)
{
    pthread_once(&once, choose);
    return ways[0].function(crc, bytes, count);
}
