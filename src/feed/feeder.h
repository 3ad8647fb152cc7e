/* What producers and the nodes that they feed have to agree on, and what can be seen of a producer. */
#ifndef TFOS_FEED_FEEDER_H
#define TFOS_FEED_FEEDER_H

#include "feed/lane.h"

/* What the token of producers on a node's machine is made of the cluster key for. */
#define TFOS__FEED_TOKEN_PURPOSE "tfos feed token 1"

/* The purpose of TLS between a producer and a node elsewhere. */
#define TFOS__FEED_PLANE_PURPOSE "tfos feed plane 1"

enum { TFOS__PIECE_BYTES = 256 << 10 }; /* of an entry, at a time */

/* How a producer stands. */
typedef struct tfos__feeder_view {
    uint64_t sent;       /* rows that it has committed */
    int64_t batch_bytes; /* by the settings */
    int64_t local_most;  /* nodes that it may share memory with, by the settings */
    size_t near;         /* nodes that it shares memory with */
    size_t far;          /* … that it feeds over the network */
    size_t lanes;        /* that it was given */
    size_t unreached;    /* … that it has tried to reach in vain, because they starve */
    size_t lane_bytes;   /* in its lanes, of near nodes and on their way to far ones */
} tfos__feeder_view;

void tfos__feeder_look(const tfos_feeder *feeder, tfos__feeder_view *out);

/* Looks at everything that may have changed. END: the feed wants no more. MISMATCH: of inference, and no program has
 * said so, thus rows have no results. */
tfos_status tfos__feeder_look_around(tfos_feeder *feeder, tfos_error *error);

#endif
