/* What a machine offers to compute a CRC-32C: one file for each kind of processor. */
#ifndef TFOS_BASE_CRC32C_WAYS_H
#define TFOS_BASE_CRC32C_WAYS_H

#include "base/crc32c.h"

enum { TFOS__CRC32C_MAX_HARDWARE_WAYS = 2 };

/* Fills `ways`, which has room for the maximum, with what this machine has, the fastest first; returns how many. */
size_t tfos__crc32c_hardware_ways(tfos__crc32c_way *ways);

#endif
