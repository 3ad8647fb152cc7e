/* A way to reduce blocks of elements: one table of functions for each kind of processor. The bodies are the same
 * (reduce_body.h), compiled for what that processor has. */
#ifndef TFOS_COLLECTIVE_REDUCE_WAYS_H
#define TFOS_COLLECTIVE_REDUCE_WAYS_H

#include "collective/reduce.h"

/* Combines `count` elements with what has been combined before; the first operand only sets it. Integers are not
 * scaled, nor is anything of which the least or greatest is wanted. */
typedef void tfos__combine(void *into, const void *in, double scale, bool first, size_t count);

/* The types that are computed with: halves are float32 meanwhile. */
enum { TFOS__KIND_F32, TFOS__KIND_F64, TFOS__KIND_I32, TFOS__KIND_I64, TFOS__KIND_COUNT };

typedef struct tfos__reduce_way {
    tfos__combine *combine[TFOS__REDUCTION_COUNT][TFOS__KIND_COUNT];
    void (*from_f16)(float *into, const uint16_t *in, size_t count);
    void (*from_bf16)(float *into, const uint16_t *in, size_t count);
    void (*to_f16)(uint16_t *into, const float *in, size_t count);
    void (*to_bf16)(uint16_t *into, const float *in, size_t count);
} tfos__reduce_way;

/* NULL where the processor has not what it needs. */
const tfos__reduce_way *tfos__reduce_way_avx2(void);

#endif
