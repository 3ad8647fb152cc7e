/* Shape: the bytes around one number in a record, to be compared as a whole.
 *
 * Most features are one number under a name that every record has at the same place. In the usual encoding nothing
 * changes from record to record but the number and four lengths, each of which is a constant plus the bytes L of the
 * number:
 *
 *     0A  base+L  0A  n  name  12  4+L  kind  2+L  0A  L  number
 *     ^entry          ^name    ^Feature ^list      ^packed
 *
 * So what is expected for L is `fixed` + L · `varying`, word by word (no length reaches 128, so nothing carries over),
 * and one comparison of a few words replaces reading five tags, five lengths and a name. */
#ifndef TFOS_RECORD_SHAPE_H
#define TFOS_RECORD_SHAPE_H

#include "record/example.h"

enum { TFOS__SHAPE_WORDS = 6, TFOS__SHAPE_AROUND_BYTES = 10, TFOS__SHAPE_MOST_NUMBER_BYTES = 8 };

typedef struct tfos__shape {
    uint32_t bytes; /* before the number; 0: there is no shape */
    uint32_t words;
    uint8_t base;
    uint8_t least; /* bytes of the number */
    uint8_t most;
    uint64_t last; /* mask of the last word */
    uint64_t fixed[TFOS__SHAPE_WORDS];
    uint64_t varying[TFOS__SHAPE_WORDS];
} tfos__shape;

/* The shape of a feature of this name; none (bytes is 0) if the name is too long. `kind` is FLOAT or INT64. */
void tfos__shape_make(tfos__shape *shape, tfos__wire name, tfos__feature_kind kind);

/* The bytes of the number if the entry at `at` has this shape, else 0. The number begins shape->bytes behind `at`. */
static inline size_t tfos__shape_match(const tfos__shape *shape, const uint8_t *at, const uint8_t *end)
{
    size_t left = (size_t)(end - at);
    if (shape->bytes == 0 || left < shape->bytes + (size_t)shape->least) {
        return 0;
    }
    uint64_t number = (uint64_t)at[1] - shape->base;
    if (number < shape->least || number > shape->most || left < shape->bytes + number) {
        return 0;
    }
    uint64_t difference = 0;
    uint32_t i = 0;
    for (; i + 1 < shape->words; i++) {
        difference |= tfos__load_u64(at + 8 * (size_t)i) ^ (shape->fixed[i] + number * shape->varying[i]);
    }
    uint64_t last = tfos__load_u64(at + 8 * (size_t)i) ^ (shape->fixed[i] + number * shape->varying[i]);
    return (difference | (last & shape->last)) == 0 ? (size_t)number : 0;
}

#endif
