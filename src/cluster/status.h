/* The status of a cluster as JSON: what the status page, `tfos status` and the driver show. */
#ifndef TFOS_CLUSTER_STATUS_H
#define TFOS_CLUSTER_STATUS_H

#include "cluster/roster.h"

/* What the coordinator counts about those who connect. */
typedef struct tfos__peer_counts {
    uint64_t accepted;
    uint64_t refused_key;     /* no key, another key, or no TLS at all */
    uint64_t refused_version; /* has the key, but is of another version */
    uint64_t refused_slow;    /* did not say who it is in time */
    uint64_t refused_other;   /* nonsense, too many connections, a cluster that has ended */
} tfos__peer_counts;

/* A JSON object on the heap, which the caller frees; NULL when memory is short. `wall_ms` is the time of day. */
char *tfos__status_json(const tfos__roster *roster, const tfos__peer_counts *counts, uint64_t now_ms, uint64_t wall_ms);

#endif
