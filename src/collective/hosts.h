/* Who of a group is where. Hosts are numbered by their first worker, and workers are places on the board of their host
 * in the order of their ranks. */
#ifndef TFOS_COLLECTIVE_HOSTS_H
#define TFOS_COLLECTIVE_HOSTS_H

#include "tfos.h"

typedef struct tfos__hosts {
    size_t size;     /* workers */
    size_t count;    /* hosts */
    size_t *host_of; /* by rank */
    size_t *first;   /* by host: where its workers begin in … */
    size_t *ranks;   /* … all ranks, host by host */
    size_t *leaders; /* by host: its first worker */
} tfos__hosts;

/* `same` says whether two workers are on one host. */
tfos_status tfos__hosts_init(tfos__hosts *hosts, size_t size, bool (*same)(const void *context, size_t a, size_t b),
                             const void *context, tfos_error *error);
void tfos__hosts_reset(tfos__hosts *hosts);

static inline size_t tfos__hosts_mates(const tfos__hosts *hosts, size_t host)
{
    return hosts->first[host + 1] - hosts->first[host];
}

static inline size_t tfos__hosts_rank(const tfos__hosts *hosts, size_t host, size_t place)
{
    return hosts->ranks[hosts->first[host] + place];
}

/* The place of a worker on the board of its host. */
size_t tfos__hosts_place(const tfos__hosts *hosts, size_t rank);

#endif
