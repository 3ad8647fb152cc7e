/* The clock for deadlines: milliseconds that only grow. */
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

#endif
