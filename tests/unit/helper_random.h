/* Random numbers that a seed gives again, for stories that are drawn (splitmix64). */
#ifndef TFOS_TESTS_HELPER_RANDOM_H
#define TFOS_TESTS_HELPER_RANDOM_H

#include <stdint.h>

/* A number from 0 to below - 1. */
static inline uint64_t helper_draw(uint64_t *state, uint64_t below)
{
    *state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (z ^ (z >> 31)) % below;
}

#endif
