/* CRC-32C on x86-64: by the instruction that computes it and by carry-less multiplication.
 *
 * The crc32 instruction has a latency of three cycles and a throughput of one, so three chains run at the same time
 * over three neighbouring blocks, and their results are joined by moving the first two over the bytes behind them:
 *
 *     |---- a ----|---- b ----|---- c ----|        crc(abc) = move(crc(a), 2n) ^ move(crc(b), n) ^ crc(c)
 *
 * Folding (VPCLMULQDQ) works on eight accumulators of 128 bits at once. Bytes are a polynomial of which only the
 * remainder mod P counts, so an accumulator A may be moved over D bits, to take in the 16 bytes that lie there, by
 * multiplying its halves with powers of x that were reduced before:
 *
 *     A = low·x^64 + high        A·x^D = low·(x^(D+64) mod P) + high·(x^D mod P)        mod P
 *
 * The two kinds of work use different parts of the processor. The fused way does both in one loop, folding the front of
 * a block while three chains run over the rest of it:
 *
 *     |-------- folded --------|-- a --|-- b --|-- c --|
 *
 * Folding 16 bytes at a time (PCLMULQDQ) beside the chains was not faster than the chains alone on AMD Zen 3, the one
 * processor where it was measured.
 *
 * All constants are of one kind. Bits are reflected: the first bit in memory is the highest power, and the product of a
 * 64-bit word and a constant c below x^32 comes out as 128 bits that stand for word·c·x^33. So moving over n words of 8
 * bytes takes c = x^(64n-33) mod P. For n = 1 that is x^31, which is 1 as reflected bits. The crc32 instruction maps a
 * word to word·x^32 mod P, and a constant in the lower half of a word stands for c·x^32: so it maps one constant to the
 * next. */
#include "base/crc32c_ways.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "base/bytes.h"

enum {
    WORD = 8,
    MAX_CHAIN_WORDS = 255, /* so that moving over three chains is in the table */
    MIN_CHAIN_WORDS = 8,   /* shorter ones cost more to join than they gain */
    ROUND_BYTES = 128,     /* of folding: four registers of 32 bytes */
    TRIPLES = 4,           /* steps of the three chains in a round of folding, so that both take as long */
    MIN_FUSED_BYTES = 512, /* below, three chains are as fast */
};

/* moves[n] = x^(64n-33) mod P, reflected. */
static uint32_t moves[3 * MAX_CHAIN_WORDS + 1];

__attribute__((target("sse4.2"))) static void make_moves(void)
{
    moves[1] = 1;
    for (size_t n = 1; n < 3 * MAX_CHAIN_WORDS; n++) {
        moves[n + 1] = (uint32_t)_mm_crc32_u64(0, moves[n]);
    }
}

/* ---- chains ---- */

typedef struct chains {
    uint64_t a, b, c;
} chains;

#define CHAINS_TARGET __attribute__((target("sse4.2,pclmul")))

CHAINS_TARGET static inline void step(chains *at, const uint8_t *from, size_t block)
{
    at->a = _mm_crc32_u64(at->a, tfos__load_u64(from));
    at->b = _mm_crc32_u64(at->b, tfos__load_u64(from + block));
    at->c = _mm_crc32_u64(at->c, tfos__load_u64(from + 2 * block));
}

/* A remainder moved over `words`, not yet reduced: 64 bits, for the crc32 instruction. */
CHAINS_TARGET static inline uint64_t moved(uint64_t crc, size_t words)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)crc), _mm_cvtsi32_si128((int)moves[words]), 0);
    return (uint64_t)_mm_cvtsi128_si64(product);
}

CHAINS_TARGET static inline uint64_t join(const chains *at, uint64_t before, size_t words)
{
    uint64_t sum = moved(before, 3 * words) ^ moved(at->a, 2 * words) ^ moved(at->b, words);
    return _mm_crc32_u64(0, sum) ^ at->c;
}

/* What is shorter than three chains. */
CHAINS_TARGET static inline uint32_t finish(uint64_t crc, const uint8_t *at, size_t count)
{
    for (; count >= 8; at += 8, count -= 8) {
        crc = _mm_crc32_u64(crc, tfos__load_u64(at));
    }
    uint32_t tail = (uint32_t)crc;
    if (count & 4) {
        tail = _mm_crc32_u32(tail, tfos__load_u32(at));
        at += 4;
    }
    if (count & 2) {
        tail = _mm_crc32_u16(tail, (uint16_t)(at[0] | at[1] << 8));
        at += 2;
    }
    return count & 1 ? _mm_crc32_u8(tail, *at) : tail;
}

static inline size_t chain_words(size_t count)
{
    size_t words = count / (3 * WORD);
    return words < MAX_CHAIN_WORDS ? words : MAX_CHAIN_WORDS;
}

CHAINS_TARGET static uint32_t crc_chains(uint32_t start, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    uint64_t crc = ~start;
    while (count >= 3 * WORD * MIN_CHAIN_WORDS) {
        size_t words = chain_words(count);
        chains three = {.a = crc};
        for (size_t i = 0; i < words; i++) {
            step(&three, at + i * WORD, words * WORD);
        }
        crc = join(&three, 0, words);
        at += 3 * WORD * words;
        count -= 3 * WORD * words;
    }
    return ~finish(crc, at, count);
}

/* ---- folding ---- */

/* How a block is cut: so many rounds of folding, then three chains of so many words. The first round only loads, and no
 * step of the chains goes with it. */
typedef struct cut {
    size_t rounds;
    size_t words;
} cut;

static inline cut cut_block(size_t count)
{
    size_t rounds = (count + TRIPLES * 3 * WORD) / (ROUND_BYTES + TRIPLES * 3 * WORD);
    rounds = rounds < MAX_CHAIN_WORDS / TRIPLES ? rounds : MAX_CHAIN_WORDS / TRIPLES;
    return (cut){.rounds = rounds, .words = chain_words(count - rounds * ROUND_BYTES)};
}

/* The two constants that move 128 bits over `words`: the lower half is `words` + 1 from there. */
static inline __m128i mover(size_t words)
{
    return _mm_set_epi64x(moves[words], moves[words + 1]);
}

CHAINS_TARGET static inline __m128i move_one(__m128i sum, __m128i by)
{
    return _mm_xor_si128(_mm_clmulepi64_si128(sum, by, 0x00), _mm_clmulepi64_si128(sum, by, 0x11));
}

/* The remainder of 128 bits. */
CHAINS_TARGET static inline uint64_t reduce(__m128i sum)
{
    uint64_t low = (uint64_t)_mm_cvtsi128_si64(sum);
    return _mm_crc32_u64(_mm_crc32_u64(0, low), (uint64_t)_mm_extract_epi64(sum, 1));
}

#define FOLD_TARGET __attribute__((target("avx2,sse4.2,pclmul,vpclmulqdq")))

FOLD_TARGET static inline __m256i move_both(__m256i sum, __m256i by)
{
    return _mm256_xor_si256(_mm256_clmulepi64_epi128(sum, by, 0x00), _mm256_clmulepi64_epi128(sum, by, 0x11));
}

FOLD_TARGET static inline __m256i load(const uint8_t *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

FOLD_TARGET static inline void fold(__m256i *sum, __m256i by, const uint8_t *at)
{
    *sum = _mm256_xor_si256(move_both(*sum, by), load(at));
}

FOLD_TARGET static inline __m256i movers(size_t words)
{
    return _mm256_broadcastsi128_si256(mover(words));
}

/* One block. */
FOLD_TARGET static inline uint64_t fuse(uint64_t crc, const uint8_t *at, cut block)
{
    const uint8_t *chained = at + block.rounds * ROUND_BYTES;
    const __m256i by = movers(ROUND_BYTES / WORD);
    __m256i s0 = _mm256_xor_si256(load(at), _mm256_zextsi128_si256(_mm_cvtsi64_si128((int64_t)crc)));
    __m256i s1 = load(at + 32);
    __m256i s2 = load(at + 64);
    __m256i s3 = load(at + 96);
    chains three = {0};
    size_t i = 0;
    for (size_t round = 1; round < block.rounds; round++) {
        at += ROUND_BYTES;
        fold(&s0, by, at);
        fold(&s1, by, at + 32);
        fold(&s2, by, at + 64);
        fold(&s3, by, at + 96);
        for (int triple = 0; triple < TRIPLES; triple++, i++) {
            step(&three, chained + i * WORD, block.words * WORD);
        }
    }
    __m256i wide =
        _mm256_xor_si256(_mm256_xor_si256(move_both(s0, movers(96 / WORD)), move_both(s1, movers(64 / WORD))),
                         _mm256_xor_si256(move_both(s2, movers(32 / WORD)), s3));
    __m128i sum =
        _mm_xor_si128(move_one(_mm256_castsi256_si128(wide), mover(16 / WORD)), _mm256_extracti128_si256(wide, 1));
    for (; i < block.words; i++) {
        step(&three, chained + i * WORD, block.words * WORD);
    }
    return join(&three, reduce(sum), block.words);
}

FOLD_TARGET static uint32_t crc_fused(uint32_t start, const void *bytes, size_t count)
{
    if (count < MIN_FUSED_BYTES) {
        return crc_chains(start, bytes, count);
    }
    const uint8_t *at = bytes;
    uint64_t crc = ~start;
    while (count >= MIN_FUSED_BYTES) {
        cut block = cut_block(count);
        size_t done = block.rounds * ROUND_BYTES + block.words * 3 * WORD;
        crc = fuse(crc, at, block);
        at += done;
        count -= done;
    }
    return count < 3 * WORD ? ~finish(crc, at, count) : crc_chains(~(uint32_t)crc, at, count);
}

size_t tfos__crc32c_hardware_ways(tfos__crc32c_way *ways)
{
    size_t count = 0;
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul")) {
        return 0;
    }
    make_moves();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq")) {
        ways[count++] = (tfos__crc32c_way){"x86 crc32 + vpclmulqdq", crc_fused};
    }
    ways[count++] = (tfos__crc32c_way){"x86 crc32 + pclmulqdq", crc_chains};
    return count;
}

#endif
