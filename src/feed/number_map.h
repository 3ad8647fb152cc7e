/* Numbers to pointers: a hash table for numbers that we give out ourselves. `{0}` is an empty one. */
#ifndef TFOS_FEED_NUMBER_MAP_H
#define TFOS_FEED_NUMBER_MAP_H

#include "tfos.h"

typedef struct tfos__number_slot {
    uint64_t number;
    void *value; /* NULL: the slot is empty */
} tfos__number_slot;

typedef struct tfos__number_map {
    tfos__number_slot *slot;
    size_t count;
    size_t capacity; /* a power of two, or 0 */
} tfos__number_map;

/* NULL for a number that is not there. */
void *tfos__number_map_get(const tfos__number_map *map, uint64_t number);

/* Adds a number that is not there; `value` is not NULL. */
tfos_status tfos__number_map_put(tfos__number_map *map, uint64_t number, void *value, tfos_error *error);

/* Takes a number out, if it is there. */
void tfos__number_map_remove(tfos__number_map *map, uint64_t number);

void tfos__number_map_reset(tfos__number_map *map);

#endif
