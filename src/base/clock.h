/* The clock for deadlines: milliseconds, or nanoseconds, that only grow. */
#ifndef TFOS_BASE_CLOCK_H
#define TFOS_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t tfos__clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline uint64_t tfos__clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#endif
