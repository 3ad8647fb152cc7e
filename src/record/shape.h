/* Shape: the bytes around one number in a record, to be compared as a whole.
 *
 * Most features are one number under a name that every record has at the same place. In the usual encoding nothing
 * changes from record to record but the number and four lengths, each of which is a constant plus the bytes L of the
 * number:
 *
 *     0A  base+L  0A  n  name  12  4+L  kind  2+L  0A  L  number
 *     ^entry          ^name    ^Feature ^list      ^packed
 *
 * So what is expected for L is `fixed`, with L added where `varying` says so (no length reaches 128, so nothing carries
 * over), and one comparison of a block or two replaces reading five tags, five lengths and a name.
 *
 * Processors with AVX2 and a quick BMI2 do it in half as many instructions: functions that are compiled for these say
 * that they are `wide`. */
#ifndef TFOS_RECORD_SHAPE_H
#define TFOS_RECORD_SHAPE_H

#include "record/example.h"

enum {
    TFOS__SHAPE_BLOCK_BYTES = 32,
    TFOS__SHAPE_BLOCKS = 2,
    TFOS__SHAPE_AROUND_BYTES = 10,
    TFOS__SHAPE_MOST_NUMBER_BYTES = 10,
};

/* Aligned as malloc aligns. */
typedef uint8_t tfos__shape_block __attribute__((vector_size(TFOS__SHAPE_BLOCK_BYTES), aligned(16)));
typedef uint64_t tfos__shape_words __attribute__((vector_size(TFOS__SHAPE_BLOCK_BYTES), aligned(16)));

typedef struct tfos__shape {
    uint32_t bytes; /* before the number; 0: there is no shape */
    uint32_t base;
    uint32_t least;  /* bytes of the number; more than any has, if there is no shape */
    uint32_t spread; /* … and how many more it may have */
    tfos__shape_block fixed[TFOS__SHAPE_BLOCKS];
    tfos__shape_block varying[TFOS__SHAPE_BLOCKS]; /* 0xFF where L is added */
    tfos__shape_block known[TFOS__SHAPE_BLOCKS];   /* 0xFF up to the number */
} tfos__shape;

/* From now on, nothing has this shape. */
static inline void tfos__shape_forget(tfos__shape *shape)
{
    *shape = (tfos__shape){.least = UINT32_MAX / 2, .spread = 1};
}

/* The shape of a feature of this name; none (bytes is 0) if the name is too long. `kind` is FLOAT or INT64. */
void tfos__shape_make(tfos__shape *shape, tfos__wire name, tfos__feature_kind kind);

/* Blocks whose bytes all are the number of the block. */
extern const tfos__shape_block tfos__shape_counts[TFOS__SHAPE_MOST_NUMBER_BYTES + 1];

/* Whether `wide` may be said. */
bool tfos__shape_is_wide(void);

#if defined(__x86_64__)
#define TFOS__SHAPE_WIDE __attribute__((target("avx2,bmi2")))
#else
#define TFOS__SHAPE_WIDE
#endif
#define TFOS__SHAPE_INLINE static inline __attribute__((always_inline))

/* Writes what is expected before a number of so many bytes. */
static inline void tfos__shape_write(const tfos__shape *shape, size_t number, uint8_t *to)
{
    for (size_t i = 0; i * TFOS__SHAPE_BLOCK_BYTES < shape->bytes; i++) {
        tfos__shape_block block = shape->fixed[i] + (tfos__shape_counts[number] & shape->varying[i]);
        memcpy(to + i * TFOS__SHAPE_BLOCK_BYTES, &block, sizeof block);
    }
}

/* Whether a block is what is expected there. */
TFOS__SHAPE_INLINE bool tfos__shape_is(const tfos__shape *shape, size_t i, const uint8_t *at, size_t number)
{
    tfos__shape_block found;
    memcpy(&found, at + i * TFOS__SHAPE_BLOCK_BYTES, sizeof found);
    const tfos__shape_block expected = shape->fixed[i] + (tfos__shape_counts[number] & shape->varying[i]);
    const tfos__shape_words difference = (tfos__shape_words)((found ^ expected) & shape->known[i]);
    return (difference[0] | difference[1] | difference[2] | difference[3]) == 0;
}

/* The bytes of the number if the entry at `at` has this shape, else 0. The number begins shape->bytes behind `at`. May
 * look at up to 31 bytes behind the end, which buffers have. */
TFOS__SHAPE_INLINE size_t tfos__shape_match(const tfos__shape *shape, const uint8_t *at, const uint8_t *end)
{
    uint32_t number = shape->least;
    if (shape->spread > 0) { /* else the processor need not wait for the length to know where the next entry is */
        number = at[1] - shape->base;
        if (number - shape->least > shape->spread) {
            return 0;
        }
    }
    if ((size_t)(end - at) < (size_t)shape->bytes + number || !tfos__shape_is(shape, 0, at, number)) {
        return 0;
    }
    return shape->bytes <= TFOS__SHAPE_BLOCK_BYTES || tfos__shape_is(shape, 1, at, number) ? number : 0;
}

/* One of more than eight bytes, which is negative, or large; false if it does not end with them. */
bool tfos__shape_large(const uint8_t *at, size_t bytes, uint64_t *out);

/* The whole number of so many bytes; false if it does not end with them. */
TFOS__SHAPE_INLINE bool tfos__shape_whole(const uint8_t *at, size_t bytes, uint64_t *out, bool wide)
{
    if (__builtin_expect(bytes > sizeof *out, 0)) {
        return tfos__shape_large(at, bytes, out);
    }
#if defined(__x86_64__)
    if (wide) {
        const uint64_t ends = UINT64_C(0x8080808080808080);
        const uint64_t used = UINT64_MAX >> (64 - 8 * bytes);
        const uint64_t word = tfos__load_u64(at) & used;
        __asm__("pextq %2, %1, %0" : "=r"(*out) : "r"(word), "r"(~ends));
        return (word & ends) == (ends & (used >> 8));
    }
#endif
    return tfos__wire_varint_exact(at, bytes, out);
}

#endif
