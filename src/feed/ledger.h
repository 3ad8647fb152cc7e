/* The ledger: which rows of which partition have been fed, so that every row is fed once per epoch whatever Spark does
 * with its tasks.
 *
 * It is a state machine without sockets or clocks: the coordinator tells it what happened and does what it answers. A
 * producer is known by a number that the coordinator gives it when it connects.
 *
 *   IDLE ──admit──► FEEDING ──exhaust──► DRAINING ──every row of it is settled──► COMPLETE
 *                      │
 *                      └──leave──► FENCING ──every node has answered──► IDLE, with the rows that are fed
 *
 * A second attempt at a partition that is FEEDING or FENCING is parked. It is let in when the first has left, and told
 * to go home when the first has put the last row into a lane; until then Spark must believe that it works, because
 * Spark kills the others as soon as one attempt returns. A task that waited until its rows are consumed would hold a
 * slot that the tasks of a hungry node need: programs that wait for each other would wait for ever.
 *
 * So a partition is none of Spark's business any more when it is exhausted, and the ledger alone knows when it was
 * consumed. It counts the rows that attempts have committed to lanes; nodes settle them, lane by lane: so many rows
 * were consumed, so many never will be, because a program has ended in good order or wants no more. An epoch is
 * consumed when it is exhausted and all of its rows are settled. Several epochs may be under way at a time: the driver
 * begins the next one as soon as one is exhausted.
 *
 * A producer commits its rows in order, to whichever lanes, and never begins a batch before the one before it is in its
 * lane. So what an attempt has fed is always the first rows of its partition, up to the last one found in any lane.
 * When a producer leaves before its partition is complete, every node is asked to fence it: no lane of that attempt
 * takes another entry, none is opened, and the answer is the number behind the last row that was committed there. The
 * largest of them is where the next attempt goes on. What was committed will be settled, for a lane outlives its
 * producer; and if the consumer dies, so does the cluster. */
#ifndef TFOS_FEED_LEDGER_H
#define TFOS_FEED_LEDGER_H

#include "net/attempt.h"

typedef struct tfos__ledger tfos__ledger;

enum { TFOS__LEDGER_PARTITIONS_MOST = 16 << 20 }; /* of a feed */

typedef struct tfos__ledger_feed {
    uint64_t feed;
    uint64_t partitions;
    bool determinate; /* Spark computes a partition in the same order every time */
    bool again;       /* otherwise: feed a partition again and count the duplicates; false: an error */
} tfos__ledger_feed;

typedef enum tfos__admission {
    TFOS__ADMISSION_GRANTED,
    TFOS__ADMISSION_COMPLETE, /* the partition is in lanes, all of it: return, all is well */
    TFOS__ADMISSION_ENDED,    /* the feed was ended by its consumers: return, all is well */
    TFOS__ADMISSION_FAILED,   /* the feed, or this partition, cannot be fed: the error says why */
} tfos__admission;

/* What the ledger wants done. Called from within the functions below; must not call back into the ledger. */
typedef struct tfos__ledger_calls {
    /* Answers a producer that asked to be admitted, at once or later. GRANTED: `fed` rows at the beginning are to be
     * left out. `error` is NULL unless FAILED. COMPLETE follows GRANTED when the producer has exhausted its partition,
     * FAILED when the feed fails while it is feeding: it gives up with this error. */
    void (*answer)(void *context, uint64_t producer, tfos__admission admission, uint64_t fed, const tfos_error *error);
    /* Has every node fence an attempt; each live one answers, see tfos__ledger_fenced. */
    void (*fence)(void *context, const tfos__attempt *attempt);
    /* Every row of the epoch is in a lane: nodes may end it when they have no more rows. Given once. */
    void (*mark)(void *context, uint64_t feed, uint64_t epoch);
    /* … and every one of them, and of the epochs before, is settled: consumed, but for so many. Given once, epoch by
     * epoch. */
    void (*consumed)(void *context, uint64_t feed, uint64_t epoch, uint64_t dropped);
    /* A producer that is feeding is to stop: the feed has ended, or its epoch is over. */
    void (*stop)(void *context, uint64_t producer);
    void *context;
} tfos__ledger_calls;

tfos_status tfos__ledger_new(const tfos__ledger_calls *calls, tfos__ledger **out, tfos_error *error);
void tfos__ledger_free(tfos__ledger *ledger);

/* The driver opens a feed, and begins its epochs one after the other, each when the one before is exhausted. INVALID
 * for a feed that exists, for an epoch that is not behind the current one, and while partitions of that are yet to be
 * fed; LIMIT for too many partitions; the feed's own error when it has failed. */
tfos_status tfos__ledger_open(tfos__ledger *ledger, const tfos__ledger_feed *feed, tfos_error *error);
tfos_status tfos__ledger_begin(tfos__ledger *ledger, uint64_t feed, uint64_t epoch, tfos_error *error);

/* The driver is done with a feed: producers that it still has are sent home, and calls.consumed does not come any more.
 * Its counts are kept for reports, and for a while its partitions; the rest is freed. */
void tfos__ledger_close(tfos__ledger *ledger, uint64_t feed);

/* Nothing is known of a closed feed from then on. One that is not closed stays. */
void tfos__ledger_forget(tfos__ledger *ledger, uint64_t feed);

/* A producer asks to feed; calls.answer follows, now or later. */
void tfos__ledger_admit(tfos__ledger *ledger, uint64_t producer, const tfos__attempt *attempt);

/* A producer has put its last row into a lane; the partition has so many rows in all. It is answered COMPLETE, and
 * nothing is known of it from then on. */
void tfos__ledger_exhaust(tfos__ledger *ledger, uint64_t producer, uint64_t rows);

/* Of the rows that an attempt has committed to a lane that takes no more, so many were consumed, and so many never will
 * be. To be said once for each lane, by whoever owns it. */
void tfos__ledger_settle(tfos__ledger *ledger, const tfos__attempt *attempt, uint64_t consumed, uint64_t dropped);

/* What a producer says meanwhile, for reports: it has fed the rows before `fed`, and so many of them were consumed. */
void tfos__ledger_progress(tfos__ledger *ledger, uint64_t producer, uint64_t fed, uint64_t consumed);

/* A producer found a row that cannot be fed: the feed fails, every later attempt gets this error at once. The message
 * is the producer's. */
void tfos__ledger_fail(tfos__ledger *ledger, uint64_t producer, const tfos_error *error);

/* The same for a reason that is no producer's. */
void tfos__ledger_break(tfos__ledger *ledger, uint64_t feed, const tfos_error *error);

/* A producer's connection is gone. `nodes` are the numbers of the nodes that calls.fence will reach and that will
 * answer; without any, it is fenced already. */
void tfos__ledger_leave(tfos__ledger *ledger, uint64_t producer, const uint32_t *nodes, size_t count);

/* A node has fenced an attempt: the rows before `fed` are in lanes, of this node or others, or were consumed. An answer
 * that is not waited for, because it comes twice or too late, changes nothing; but that of a node whose program has
 * ended comes early, and is remembered until its producer leaves. */
void tfos__ledger_fenced(tfos__ledger *ledger, const tfos__attempt *attempt, uint32_t node, uint64_t fed);

/* A node may not have heard what it was asked: calls.fence comes again for every attempt that it has not fenced. */
void tfos__ledger_fence_again(tfos__ledger *ledger, uint32_t node);

/* A node is lost: it counts as one that has answered every fence, with 0. */
void tfos__ledger_lose(tfos__ledger *ledger, uint32_t node);

/* The consumers want no more of a feed, or (for all feeds, UINT64_MAX) the cluster is ending: producers are stopped,
 * later ones are told ENDED. */
void tfos__ledger_end(tfos__ledger *ledger, uint64_t feed);

typedef struct tfos__ledger_counts {
    uint64_t partitions;
    uint64_t complete;  /* in this epoch, like what follows */
    uint64_t exhausted; /* complete, or to be consumed */
    uint64_t feeding;   /* admitted and not exhausted */
    uint64_t waiting;   /* parked attempts */
    uint64_t epoch;
    uint64_t rows;       /* of the partitions that are exhausted */
    uint64_t skipped;    /* partitions that will not be fed because the feed has ended */
    uint64_t unsettled;  /* in all epochs: rows of attempts that are over, in lanes */
    uint64_t takeovers;  /* in all epochs: attempts that went on where another had stopped */
    uint64_t duplicates; /* in all epochs: rows of attempts after which the partition was fed again */
    bool begun;          /* an epoch has */
    bool ended;
    bool failed;
} tfos__ledger_counts;

/* False for an unknown feed. */
bool tfos__ledger_count(const tfos__ledger *ledger, uint64_t feed, tfos__ledger_counts *out);

/* One partition of the current epoch, for reports. */
typedef enum tfos__partition_state {
    TFOS__PARTITION_IDLE,
    TFOS__PARTITION_FEEDING,
    TFOS__PARTITION_DRAINING,
    TFOS__PARTITION_FENCING,
    TFOS__PARTITION_COMPLETE,
    TFOS__PARTITION_SKIPPED,
} tfos__partition_state;

typedef struct tfos__partition_view {
    tfos__partition_state state;
    uint64_t rows;     /* known when exhausted */
    uint64_t attempts; /* that were let in */
    uint64_t fed;      /* rows known to have been committed by attempts that left */
    uint64_t sent;     /* rows known to have been committed by anybody, … */
    uint64_t consumed; /* … of which so many were taken, … */
    uint64_t skipped;  /* … and so many never will be */
    bool exhausted;    /* `rows` is known */
} tfos__partition_view;

/* False for an unknown feed, one that was closed long ago, and behind the last partition. */
bool tfos__ledger_partition(const tfos__ledger *ledger, uint64_t feed, uint64_t partition, tfos__partition_view *out);

#endif
