/* Linear probing, at most half full. Removing moves later entries back into the gap, so that there are no tombstones
 * and a table through which a million producers have gone is as fast as a new one. */
#include "feed/number_map.h"

#include <assert.h>
#include <stdlib.h>

#include "base/status.h"

enum { LEAST_CAPACITY = 16 };

/* Numbers in a row, as they are given out, are spread over the whole table. */
static size_t home_of(const tfos__number_map *map, uint64_t number)
{
    return (size_t)((number * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - __builtin_ctzll(map->capacity)));
}

/* The slot that has the number, or the empty one where it belongs. */
static size_t find(const tfos__number_map *map, uint64_t number)
{
    size_t at = home_of(map, number);
    while (map->slot[at].value != NULL && map->slot[at].number != number) {
        at = (at + 1) & (map->capacity - 1);
    }
    return at;
}

void *tfos__number_map_get(const tfos__number_map *map, uint64_t number)
{
    return map->capacity == 0 ? NULL : map->slot[find(map, number)].value;
}

static tfos_status grow(tfos__number_map *map, tfos_error *error)
{
    tfos__number_map larger = {.count = map->count, .capacity = map->capacity * 2};
    if (larger.capacity == 0) {
        larger.capacity = LEAST_CAPACITY;
    }
    larger.slot = calloc(larger.capacity, sizeof *larger.slot);
    if (larger.slot == NULL) {
        return tfos__fail_memory(error, larger.capacity * sizeof *larger.slot);
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->slot[i].value != NULL) {
            larger.slot[find(&larger, map->slot[i].number)] = map->slot[i];
        }
    }
    free(map->slot);
    *map = larger;
    return TFOS_OK;
}

tfos_status tfos__number_map_put(tfos__number_map *map, uint64_t number, void *value, tfos_error *error)
{
    if (map->count >= map->capacity / 2) {
        TFOS_TRY(grow(map, error));
    }
    size_t at = find(map, number);
    assert(value != NULL && map->slot[at].value == NULL);
    map->slot[at] = (tfos__number_slot){.number = number, .value = value};
    map->count++;
    return TFOS_OK;
}

void tfos__number_map_remove(tfos__number_map *map, uint64_t number)
{
    if (tfos__number_map_get(map, number) == NULL) {
        return;
    }
    size_t mask = map->capacity - 1;
    size_t gap = find(map, number);
    for (size_t at = (gap + 1) & mask; map->slot[at].value != NULL; at = (at + 1) & mask) {
        /* An entry may move to the gap if that is not before its home, going round. */
        size_t home = home_of(map, map->slot[at].number);
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            map->slot[gap] = map->slot[at];
            gap = at;
        }
    }
    map->slot[gap] = (tfos__number_slot){0};
    map->count--;
}

void tfos__number_map_reset(tfos__number_map *map)
{
    free(map->slot);
    *map = (tfos__number_map){0};
}
