/* The status of a cluster as JSON: what the status page, `tfos status` and the driver show. */
#ifndef TFOS_COORDINATOR_STATUS_H
#define TFOS_COORDINATOR_STATUS_H

#include "coordinator/progress.h"

/* What the coordinator counts about those who connect. */
typedef struct tfos__peer_counts {
    uint64_t accepted;
    uint64_t refused_key;     /* no key, another key, or no TLS at all */
    uint64_t refused_version; /* has the key, but is of another version */
    uint64_t refused_slow;    /* did not say who it is in time */
    uint64_t refused_other;   /* nonsense, too many connections, a cluster that has ended */
} tfos__peer_counts;

/* Some nodes. */
typedef struct tfos__status_nodes {
    bool all;
    size_t count;
    uint32_t index[64];
} tfos__status_nodes;

/* What is wanted besides the rest, `{0}` for nothing: whose logs, whose curves (if nobody's, those of the first that
 * reports), and the partitions of which feed. */
typedef struct tfos__status_wish {
    tfos__status_nodes logs;
    tfos__status_nodes curves;
    bool partitions;    /* every partition of … */
    bool all_feeds;     /* … all feeds, … */
    uint64_t feed;      /* … or this one */
    uint64_t most_each; /* but only of feeds that have no more of them; 0: no limit */
} tfos__status_wish;

/* Reads "logs=all" or "logs=0,17", "curves=" likewise, and "partitions=all" or "partitions=3", from the query of an
 * address; whatever else there is counts for nothing. */
void tfos__status_wish_parse(const char *query, tfos__status_wish *out);

/* Where everything stands that is shown. */
typedef struct tfos__status_parts {
    const tfos__roster *roster;
    const tfos__feeds *feeds;
    const tfos__progress *progress;
    const tfos__peer_counts *counts;
} tfos__status_parts;

/* A JSON object on the heap, which the caller frees; NULL when memory is short. It is valid UTF-8 whatever nodes have
 * sent. */
char *tfos__status_json(const tfos__status_parts *parts, const tfos__status_wish *wish, uint64_t now_ms);

/* The same with every partition of feeds that have no more than 10 000, as far as that fits a message. */
char *tfos__status_for_driver(const tfos__status_parts *parts, uint64_t now_ms);

#endif
