/* Runs of bits. The target is brought to a whole byte first; from there on it is written in words, each put together
 * from the nine bytes of the source that hold its bits. */
#include "column/bits.h"

#include "base/bytes.h"

static void copy_bitwise(uint8_t *target, int64_t to, const uint8_t *source, int64_t from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        tfos__bit_put(target, to + i, tfos__bit_get(source, from + i));
    }
}

/* 64 bits from bit `from` on, which is not the first of its byte. */
static uint64_t load_across(const uint8_t *source, int64_t from)
{
    const uint8_t *at = source + (from >> 3);
    unsigned shift = (unsigned)(from & 7);
    return tfos__load_u64(at) >> shift | (uint64_t)at[8] << (64 - shift);
}

void tfos__bits_copy(uint8_t *target, int64_t to, const uint8_t *source, int64_t from, int64_t count)
{
    int64_t head = tfos__min_i64((8 - (to & 7)) & 7, count);
    copy_bitwise(target, to, source, from, head);
    to += head;
    from += head;
    count -= head;
    if ((from & 7) == 0) {
        int64_t bytes = count >> 3;
        if (bytes > 0) {
            memcpy(target + (to >> 3), source + (from >> 3), (size_t)bytes);
        }
        copy_bitwise(target, to + bytes * 8, source, from + bytes * 8, count & 7);
        return;
    }
    for (; count >= 64; count -= 64, to += 64, from += 64) {
        tfos__store_u64(target + (to >> 3), load_across(source, from));
    }
    copy_bitwise(target, to, source, from, count);
}

int64_t tfos__bits_count(const uint8_t *bits, int64_t from, int64_t count)
{
    int64_t set = 0;
    for (; count > 0 && (from & 7) != 0; count--, from++) {
        set += tfos__bit_get(bits, from);
    }
    for (; count >= 64; count -= 64, from += 64) {
        set += __builtin_popcountll(tfos__load_u64(bits + (from >> 3)));
    }
    for (; count >= 8; count -= 8, from += 8) {
        set += __builtin_popcount(bits[from >> 3]);
    }
    for (; count > 0; count--, from++) {
        set += tfos__bit_get(bits, from);
    }
    return set;
}
