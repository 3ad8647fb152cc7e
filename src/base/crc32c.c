/* CRC-32C: the portable way, and the choice of the fastest one that the machine has.
 *
 * The portable way takes eight bytes a step through eight tables ("slicing"). */
#include "base/crc32c.h"

#include <pthread.h>

#include "base/bytes.h"
#include "base/crc32c_ways.h"

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

#if !defined(__x86_64__) && !defined(__aarch64__)

size_t tfos__crc32c_hardware_ways(tfos__crc32c_way *out)
{
    (void)out;
    return 0;
}

#endif

/* ---- choosing ---- */

static tfos__crc32c_way ways[TFOS__CRC32C_MAX_HARDWARE_WAYS + 2];

static void choose(void)
{
    make_table();
    size_t count = tfos__crc32c_hardware_ways(ways);
    ways[count] = (tfos__crc32c_way){"portable", crc_portable};
}

const tfos__crc32c_way *tfos__crc32c_ways(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    return ways;
}

/* The first call chooses; each later one costs a load and a jump, which shows on headers of eight bytes. */
static uint32_t choose_and_run(uint32_t crc, const void *bytes, size_t count);
static tfos__crc32c_function fastest = choose_and_run;

static uint32_t choose_and_run(uint32_t crc, const void *bytes, size_t count)
{
    tfos__crc32c_function chosen = tfos__crc32c_ways()[0].function;
    __atomic_store_n(&fastest, chosen, __ATOMIC_RELEASE);
    return chosen(crc, bytes, count);
}

uint32_t tfos__crc32c(uint32_t crc, const void *bytes, size_t count)
{
    return __atomic_load_n(&fastest, __ATOMIC_ACQUIRE)(crc, bytes, count);
}
