/* Runs of bits in bitmaps: copied and counted, a word at a time. */
#ifndef TFOS_COLUMN_BITS_H
#define TFOS_COLUMN_BITS_H

#include "tfos.h"

/* Copies `count` bits from bit `from` of `source` to bit `to` of `target`. Bits of `target` beside them stay; only the
 * bytes that hold these bits are touched on either side. */
void tfos__bits_copy(uint8_t *target, int64_t to, const uint8_t *source, int64_t from, int64_t count);

/* How many of the `count` bits from bit `from` on are set. */
int64_t tfos__bits_count(const uint8_t *bits, int64_t from, int64_t count);

#endif
