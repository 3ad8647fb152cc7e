/* Random numbers that a seed gives again (splitmix64): for orders that are to be the same in every run, not for
 * secrets. */
#ifndef TFOS_BASE_RANDOM_H
#define TFOS_BASE_RANDOM_H

#include <stdint.h>

/* Spreads what distinguishes two numbers over all their bits. A bijection. */
static inline uint64_t tfos__random_mix(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    value = (value ^ value >> 27) * UINT64_C(0x94D049BB133111EB);
    return value ^ value >> 31;
}

/* The next number. Counting up by an odd number, they do not repeat before all have come. */
static inline uint64_t tfos__random_next(uint64_t *state)
{
    *state += UINT64_C(0x9E3779B97F4A7C15);
    return tfos__random_mix(*state);
}

/* One of the numbers below `count`, which is so much smaller than 2⁶⁴ that all are as good as equally likely. */
static inline uint64_t tfos__random_below(uint64_t *state, uint64_t count)
{
    return tfos__random_next(state) % count;
}

#endif
