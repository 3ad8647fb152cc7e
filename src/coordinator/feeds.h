/* The feeds of a cluster, in the coordinator: binds the ledger to the driver, the producers and the nodes.
 *
 * Like the roster it has no sockets and no clock: it is told what was heard and what time it is, and calls back with
 * what is to be sent. A producer is known by the number that the coordinator gave to its connection. */
#ifndef TFOS_COORDINATOR_FEEDS_H
#define TFOS_COORDINATOR_FEEDS_H

#include "coordinator/roster.h"
#include "feed/ledger.h"
#include "net/message.h"

typedef struct tfos__feeds tfos__feeds;

typedef struct tfos__feeds_calls {
    void (*to_node)(void *context, uint32_t index, const tfos__message *message);
    void (*to_driver)(void *context, const tfos__message *message);
    void (*to_producer)(void *context, uint64_t producer, const tfos__message *message);
    void *context;
} tfos__feeds_calls;

tfos_status tfos__feeds_new(tfos__roster *roster, const tfos__feeds_calls *calls, tfos__feeds **out, tfos_error *error);
void tfos__feeds_free(tfos__feeds *feeds);

/* FEED, EPOCH, EPOCH_END, FEED_CLOSE and END_OF_FEED of the driver. */
void tfos__feeds_obey(tfos__feeds *feeds, const tfos__message *message, uint64_t now_ms);

/* ADMIT and what follows it. */
void tfos__feeds_hear_producer(tfos__feeds *feeds, uint64_t producer, const tfos__message *message, uint64_t now_ms);
void tfos__feeds_producer_left(tfos__feeds *feeds, uint64_t producer);

/* REGISTER, BEAT, FENCED, SETTLED, TERMINATE and ENDED of a node; others are none of our business. */
void tfos__feeds_hear_node(tfos__feeds *feeds, uint32_t index, const tfos__message *message, uint64_t now_ms);

/* The last that ENDED says of what a node was fed. */
void tfos__feeds_count_last(tfos__feeds *feeds, uint32_t index, const tfos__message *ended, uint64_t now_ms);

/* A node has come back on a new connection: what it may have missed is said again. */
void tfos__feeds_node_returned(tfos__feeds *feeds, uint32_t index);

/* The cluster ends: producers go home; if it has failed, with that failure. */
void tfos__feeds_end(tfos__feeds *feeds);

/* Looks for feeds that do not move. */
void tfos__feeds_tick(tfos__feeds *feeds, uint64_t now_ms);

/* What a node was fed, for the status page. */
typedef struct tfos__fed {
    bool is_fed; /* false: it never said that it takes rows */
    uint64_t fed_rows;
    uint64_t consumed_rows;
    uint64_t skipped_rows; /* that were fed and never will be taken */
    uint64_t lane_bytes;
    uint64_t counted_ms; /* when it said so */
    double rows_per_second;
    bool hungry;
} tfos__fed;

void tfos__feeds_of_node(const tfos__feeds *feeds, uint32_t index, tfos__fed *out);

/* The feeds, from the first to the last; false behind it. */
typedef struct tfos__feed_view {
    uint64_t feed;
    const char *queue;
    bool inference;
    bool open;
    uint64_t dropped; /* rows that were in lanes and that nobody has taken */
    tfos__ledger_counts counts;
} tfos__feed_view;

size_t tfos__feeds_count(const tfos__feeds *feeds);
bool tfos__feeds_view(const tfos__feeds *feeds, size_t at, tfos__feed_view *out);
const tfos__ledger *tfos__feeds_ledger(const tfos__feeds *feeds);

#endif
