/* The status of a cluster as JSON: what the status page, `tfos status` and the driver show. */
#ifndef TFOS_COORDINATOR_STATUS_H
#define TFOS_COORDINATOR_STATUS_H

#include "coordinator/feeds.h"

/* What the coordinator counts about those who connect. */
typedef struct tfos__peer_counts {
    uint64_t accepted;
    uint64_t refused_key;     /* no key, another key, or no TLS at all */
    uint64_t refused_version; /* has the key, but is of another version */
    uint64_t refused_slow;    /* did not say who it is in time */
    uint64_t refused_other;   /* nonsense, too many connections, a cluster that has ended */
} tfos__peer_counts;

/* What is wanted besides the rest, `{0}` for nothing: whose logs, and the partitions of which feed. */
typedef struct tfos__status_wish {
    bool all;
    size_t count;
    uint32_t index[64];
    bool partitions;    /* every partition of … */
    bool all_feeds;     /* … all feeds, … */
    uint64_t feed;      /* … or this one */
    uint64_t most_each; /* but only of feeds that have no more of them; 0: no limit */
} tfos__status_wish;

/* Reads "logs=all" or "logs=0,17", and "partitions=all" or "partitions=3", from the query of an address; whatever else
 * there is counts for nothing. */
void tfos__status_wish_parse(const char *query, tfos__status_wish *out);

/* A JSON object on the heap, which the caller frees; NULL when memory is short. `wall_ms` is the time of day. It is
 * valid UTF-8 whatever nodes have sent. */
char *tfos__status_json(const tfos__roster *roster, const tfos__feeds *feeds, const tfos__peer_counts *counts,
                        const tfos__status_wish *wish, uint64_t now_ms, uint64_t wall_ms);

#endif
