/* Workers are compared with the first of each host that is known so far: there are few hosts. */
#include "collective/hosts.h"

#include <assert.h>
#include <stdlib.h>

#include "base/status.h"

static void find_hosts(tfos__hosts *hosts, bool (*same)(const void *context, size_t a, size_t b), const void *context)
{
    for (size_t rank = 0; rank < hosts->size; rank++) {
        size_t host = 0;
        while (host < hosts->count && !same(context, hosts->leaders[host], rank)) {
            host++;
        }
        if (host == hosts->count) {
            hosts->leaders[hosts->count++] = rank;
        }
        hosts->host_of[rank] = host;
    }
}

static void list_ranks(tfos__hosts *hosts)
{
    size_t at = 0;
    for (size_t host = 0; host < hosts->count; host++) {
        hosts->first[host] = at;
        for (size_t rank = hosts->leaders[host]; rank < hosts->size; rank++) {
            if (hosts->host_of[rank] == host) {
                hosts->ranks[at++] = rank;
            }
        }
    }
    hosts->first[hosts->count] = at;
}

tfos_status tfos__hosts_init(tfos__hosts *hosts, size_t size, bool (*same)(const void *context, size_t a, size_t b),
                             const void *context, tfos_error *error)
{
    *hosts = (tfos__hosts){.size = size};
    size_t *memory = calloc(4 * size + 1, sizeof *memory);
    if (memory == NULL) {
        return tfos__fail_memory(error, (4 * size + 1) * sizeof *memory);
    }
    hosts->host_of = memory;
    hosts->ranks = memory + size;
    hosts->leaders = memory + 2 * size;
    hosts->first = memory + 3 * size;
    find_hosts(hosts, same, context);
    list_ranks(hosts);
    return TFOS_OK;
}

void tfos__hosts_reset(tfos__hosts *hosts)
{
    free(hosts->host_of);
    *hosts = (tfos__hosts){0};
}

size_t tfos__hosts_place(const tfos__hosts *hosts, size_t rank)
{
    size_t host = hosts->host_of[rank];
    size_t place = 0;
    while (tfos__hosts_rank(hosts, host, place) != rank) {
        place++;
        assert(place < tfos__hosts_mates(hosts, host));
    }
    return place;
}
