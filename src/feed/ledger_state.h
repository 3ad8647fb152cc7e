/* The inside of a ledger, for the files that make it up. */
#ifndef TFOS_FEED_LEDGER_STATE_H
#define TFOS_FEED_LEDGER_STATE_H

#include "feed/ledger.h"
#include "feed/number_map.h"

typedef struct tfos__feed_record tfos__feed_record;
typedef struct tfos__partition_record tfos__partition_record;
typedef struct tfos__producer_record tfos__producer_record;

typedef enum tfos__producer_state {
    TFOS__PRODUCER_PARKED,
    TFOS__PRODUCER_ADMITTED, /* it holds its partition */
    TFOS__PRODUCER_GONE,     /* … and is being fenced */
} tfos__producer_state;

/* A producer that has been neither sent home nor fenced. */
struct tfos__producer_record {
    uint64_t number;
    uint64_t attempt;
    tfos__feed_record *feed;
    tfos__partition_record *partition;
    tfos__producer_state state;
    bool stopped;
    uint64_t start;               /* the row it began with */
    uint64_t fed;                 /* the largest answer of the nodes */
    uint64_t *asked;              /* a bit for each node whose answer is missing */
    size_t asked_words;           /* of 64 bits */
    size_t missing;               /* how many bits are set */
    tfos__producer_record *next;  /* in the list of the feed */
    tfos__producer_record **link; /* to this one, in that list */
    tfos__producer_record *after; /* among those parked at the partition, a ring */
    tfos__producer_record *before;
};

/* A partition in the current epoch; all zero when nobody has come. */
struct tfos__partition_record {
    tfos__producer_record *holder;  /* NULL when it is idle or complete */
    tfos__producer_record *waiting; /* the first of those that are parked; it has a holder then */
    uint64_t rows;                  /* when it is exhausted */
    uint64_t fed;                   /* by attempts that left */
    uint64_t sent;                  /* what the last attempt said that it had fed, counted from the first row, … */
    uint64_t taken;                 /* … and how many of these were consumed */
    uint64_t committed;             /* rows in lanes, of all attempts that are over */
    uint64_t settled;               /* rows of lanes that are done with, of any attempt, … */
    uint64_t dropped;               /* … and how many of them nobody has consumed */
    uint64_t attempt;               /* the last one that was let in */
    uint32_t attempts;
    uint8_t state; /* tfos__partition_state, but SKIPPED: what is idle in a feed that has ended is skipped */
};

/* How far the rows of an epoch are. */
typedef struct tfos__epoch_record {
    uint64_t epoch;
    uint64_t committed; /* to lanes, by attempts that are over */
    uint64_t settled;
    uint64_t dropped; /* of these */
} tfos__epoch_record;

struct tfos__feed_record {
    tfos__ledger_feed about;
    tfos__feed_record *next;
    tfos__partition_record *partition; /* NULL when it was closed long ago */
    tfos__producer_record *producers;
    tfos__producer_record *fences; /* producers that are gone */
    tfos_error *failure;           /* why it has failed; NULL if there was no memory to keep that */
    tfos__epoch_record now;        /* the current epoch */
    tfos__epoch_record *past; /* epochs before it that are exhausted and not yet consumed, the first of them first */
    size_t past_count;
    size_t past_capacity;
    uint64_t complete;
    uint64_t exhausted; /* partitions that are, complete or not */
    uint64_t feeding;
    uint64_t waiting;
    uint64_t rows;
    uint64_t takeovers;
    uint64_t duplicates;
    bool begun;    /* an epoch */
    bool marked;   /* the current one, … */
    bool consumed; /* … and that it was consumed has been said */
    bool failed;
    bool ended;
    bool closed;
};

struct tfos__ledger {
    tfos__ledger_calls calls;
    tfos__number_map feed;     /* tfos__feed_record by number */
    tfos__number_map producer; /* tfos__producer_record by number, those that are not gone */
    tfos__feed_record *feeds;
    bool ended;
};

/* Whether attempts after one that died begin with the first row again. */
static inline bool tfos__ledger_repeats(const tfos__feed_record *feed)
{
    return !feed->about.determinate && feed->about.again;
}

/* Whether nobody will be let in any more. */
static inline bool tfos__ledger_is_over(const tfos__feed_record *feed)
{
    return feed->failed || feed->ended || feed->closed;
}

/* ---- ledger.c ---- */

/* Gives the mark of the epoch when it is time, and says which epochs were consumed. */
void tfos__ledger_mark(tfos__ledger *ledger, tfos__feed_record *feed);

/* The record of an epoch that is not consumed yet; NULL: there is none. */
tfos__epoch_record *tfos__ledger_epoch(tfos__feed_record *feed, uint64_t epoch);

/* The feed fails, unless it is over already: every producer is told and forgotten. */
void tfos__ledger_fail_feed(tfos__ledger *ledger, tfos__feed_record *feed, const tfos_error *error);

/* The error that a feed has failed with. */
void tfos__ledger_failure(const tfos__feed_record *feed, tfos_error *out);

/* ---- ledger_partition.c ---- */

/* Who a producer is, to nodes. */
tfos__attempt tfos__ledger_attempt_of(const tfos__producer_record *producer);

/* Forgets a producer. If it held its partition, that is idle now, and it is for the caller to let the next one in. */
void tfos__ledger_drop(tfos__ledger *ledger, tfos__producer_record *producer);

/* Answers a producer for the last time and forgets it. */
void tfos__ledger_dismiss(tfos__ledger *ledger, tfos__producer_record *producer, tfos__admission admission,
                          const tfos_error *error);

#endif
