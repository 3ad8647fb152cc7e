/* Arithmetic of the collectives: several arrays into one, element by element.
 *
 * Operands are taken in their order, in blocks that stay in the first cache, and halves are added up as float32 and
 * rounded once. The same operands give the same bits on every machine: no way of computing fuses a multiplication with
 * an addition. */
#ifndef TFOS_COLLECTIVE_REDUCE_H
#define TFOS_COLLECTIVE_REDUCE_H

#include "tfos.h"

typedef enum tfos__reduction {
    TFOS__REDUCE_SUM,
    TFOS__REDUCE_LEAST,
    TFOS__REDUCE_GREATEST,
    TFOS__REDUCTION_COUNT,
} tfos__reduction;

typedef struct tfos__operand {
    const void *at;
    double scale; /* of a sum of floating numbers: what each element is multiplied with first */
} tfos__operand;

/* out[i] = Σ scale · operand[i], or the least or the greatest. NaN in any operand makes NaN. With no operand at all: 0,
 * or what every other value is less or greater than. `to` is `from`, or what tfos__element_sum says of it. `out` may be
 * one of the operands, but not overlap with one otherwise. */
void tfos__reduce(tfos__reduction reduction, tfos_element from, const tfos__operand *operands, size_t operand_count,
                  size_t count, tfos_element to, void *out);

/* The type in which partial sums of a type are kept: float32 for halves, else the type itself. */
tfos_element tfos__element_sum(tfos_element element);

/* Rounds to the nearest, ties to even. `to` is narrower or wider than `from`, both floating, and neither is float64. */
void tfos__element_convert(tfos_element from, const void *in, size_t count, tfos_element to, void *out);

/* Another way to compute the same, for tests: 0 is the one that is used, the last is portable. */
size_t tfos__reduce_way_count(void);
void tfos__reduce_by(size_t way, tfos__reduction reduction, tfos_element from, const tfos__operand *operands,
                     size_t operand_count, size_t count, tfos_element to, void *out);

#endif
