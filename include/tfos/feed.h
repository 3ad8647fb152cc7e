/* tfos/feed.h: rows on their way from Spark tasks to the programs on nodes, and results on their way back.
 *
 *   feeder           a Spark task that feeds the rows of one partition to the nodes of a cluster.
 *   pump             what such a task does, in whichever language its rows are: from a source to a feeder, and results.
 *   feed             the rows of a queue, as the program on a node takes them.
 *
 * Errors. TFOS_END is no error: the feed wants no more, or has no more. CANCELLED: the caller was interrupted while it
 * waited. A row that cannot be fed fails the whole feed, because the next attempt would have it as well: see
 * tfos_feeder_give_up, which a pump calls by itself.
 *
 * Ownership. Batches that are handed in stay the caller's; those that come out are given up with tfos_batch_free.
 *
 * Threads. A feeder, or a pump, belongs to one thread at a time. Feeds may be used by any; calls for one queue are
 * serialized. */
#ifndef TFOS_FEED_H
#define TFOS_FEED_H

#include "tfos/column.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Feeder: a Spark task ---------------------------------------------------------------------------------------- */

typedef struct tfos_feeder tfos_feeder;

typedef struct tfos_feeder_options {
    size_t size; /* of this struct; see tfos_feeder_options_init */
    const void *ticket;
    size_t ticket_bytes;
    uint64_t partition;
    uint64_t attempt; /* TaskContext.taskAttemptId() */
    const char *host; /* of the executor, for messages */
    /* NULL, or: asked about ten times a second by the thread that waits in a call; true ends the call with CANCELLED.
     */
    bool (*interrupted)(void *context);
    void *interrupted_context;
} tfos_feeder_options;

/* Fills in the defaults, which lack a ticket. `size` is that of *options.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_feeder_options_init(tfos_feeder_options *options, size_t size);

/* Asks to feed a partition, and waits until that is decided: as long as another attempt feeds it. END: there is nothing
 * to do, for the partition has been fed or the feed has ended; the task returns.
 *
 * Owner: the caller closes *out with tfos_feeder_close. Everything in `options` is copied.
 * Thread: any. */
TFOS_API tfos_status tfos_feeder_open(const tfos_feeder_options *options, tfos_feeder **out, tfos_error *error);

/* How many rows at the beginning of the partition an earlier attempt has fed. They are to be passed all the same (the
 * feeder leaves them out), or may be skipped with tfos_feeder_skip where that is cheaper.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API int64_t tfos_feeder_fed(const tfos_feeder *feeder);

/* The next `rows` rows were not passed, because they have been fed. At most what is left of tfos_feeder_fed.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per feeder. */
TFOS_API void tfos_feeder_skip(tfos_feeder *feeder, int64_t rows);

/* Feeds the rows of a batch, waiting for room. END: the feed has ended and wants no more; the task returns. A schema
 * that differs from that of the batch before is sent along. LIMIT names a row that is larger than a lane.
 *
 * Owner: `batch` stays the caller's.
 * Thread: one at a time per feeder. */
TFOS_API tfos_status tfos_feeder_put_batch(tfos_feeder *feeder, const tfos_batch *batch, tfos_error *error);

/* How long to wait for results. */
typedef enum tfos_feeder_wait {
    TFOS_WAIT_NOT,
    TFOS_WAIT_FOR_RESULTS, /* until there are some */
    TFOS_WAIT_FOR_ROOM,    /* … or the program that owes them has taken all its rows: it may need more to go on */
} tfos_feeder_wait;

/* "not", "for_results" or "for_room".
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_feeder_wait_name(tfos_feeder_wait wait);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_feeder_wait_parse(const char *text, tfos_feeder_wait *out, tfos_error *error);

/* With inference: the results that have come, in the order of the rows. END: every row that was fed has its result; or,
 * after tfos_feeder_exhaust, a program has terminated the feed. MISMATCH when rows get no result: programs gave fewer,
 * ended before, or gave none for as long as the feed's timeout. OK with *out NULL: nothing has come yet.
 *
 * Owner: the caller gives *out up with tfos_batch_free.
 * Thread: one at a time per feeder. */
TFOS_API tfos_status tfos_feeder_take_results(tfos_feeder *feeder, tfos_feeder_wait wait, tfos_batch **out,
                                              tfos_error *error);

/* The partition has no more rows. With inference this comes before the last results are waited for; otherwise
 * tfos_feeder_finish does it.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per feeder. */
TFOS_API tfos_status tfos_feeder_exhaust(tfos_feeder *feeder, tfos_error *error);

/* Ends the partition: returns when its last row is in a lane, or all results have come, and that is noted. When rows
 * are consumed is no business of the task's. END: the feed has ended before.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per feeder. */
TFOS_API tfos_status tfos_feeder_finish(tfos_feeder *feeder, tfos_error *error);

/* The task gives up, and says why: to the driver; and unless another attempt may help (TFOS_FAULT_AGAIN) the whole feed
 * fails with this error. What the task was told itself, or what has cancelled it, is not said again.
 *
 * Owner: `why` is copied.
 * Thread: one at a time per feeder. */
TFOS_API void tfos_feeder_give_up(tfos_feeder *feeder, const tfos_error *why);

/* Leaves. A partition that is not finished can be taken over by another attempt.
 *
 * Owner: frees `feeder`.
 * Thread: when no other call is under way. */
TFOS_API void tfos_feeder_close(tfos_feeder *feeder);

/* ---- Pump: a Spark task, from its first row to its last result --------------------------------------------------- */

typedef struct tfos_pump tfos_pump;

/* Where the rows of a partition come from: functions of the caller's, which are called in the thread that is in
 * tfos_pump_next, and nothing before the first of such calls. Each returns OK or the error that ends the task, with its
 * status and fault in *error, which is never NULL. The message names the row; the pump puts the partition before it.
 * RAISED is for a failure of code that is not ours, CANCELLED for a task that is to end. */
typedef struct tfos_pump_source {
    size_t size; /* of this struct; see tfos_pump_source_init */
    void *context;
    /* The next rows: until they are a batch, or so many milliseconds are over and there is one, or so many bytes more
     * are held (see below). END: there are no more; *out has the last ones. *out is NULL where there are none. The pump
     * gives the batch up. */
    tfos_status (*next)(void *context, int64_t patience_ms, int64_t held_bytes, tfos_batch **out, tfos_error *error);
    /* NULL, or: leaves out the next rows, before the first call of next. *skipped is less than `rows` where there are
     * no more. Without it, rows that were fed before are asked for like others, and left out then. */
    tfos_status (*skip)(void *context, int64_t rows, int64_t *skipped, tfos_error *error);
    /* NULL, or: OK if there really was an end behind the last row. */
    tfos_status (*check_end)(void *context, tfos_error *error);
    /* NULL, or, of inference: bytes that the source holds for rows until their results have come. */
    int64_t (*held_bytes)(void *context);
} tfos_pump_source;

/* Fills in the defaults, which lack `next`. `size` is that of *source.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_pump_source_init(tfos_pump_source *source, size_t size);

/* Asks to feed a partition as tfos_feeder_open does. END: there is nothing to do; the source is not asked.
 *
 * Owner: the caller closes *out with tfos_pump_close. Everything in `options` is copied, and so is *source; its context
 * stays the caller's.
 * Thread: any. */
TFOS_API tfos_status tfos_pump_open(const tfos_feeder_options *options, const tfos_pump_source *source, tfos_pump **out,
                                    tfos_error *error);

typedef struct tfos_line_options {
    size_t size;      /* of this struct; see tfos_line_options_init */
    const char *name; /* of the socket of a process on this machine that computes results: `tfos model` says it */
    const void *token;
    size_t token_bytes; /* 32 */
    const char *order;  /* what is to be done with the rows, in that process's terms */
    size_t order_bytes;
    uint64_t partition; /* for messages */
    /* As in tfos_feeder_options. */
    bool (*interrupted)(void *context);
    void *interrupted_context;
} tfos_line_options;

/* Fills in the defaults, which lack a name and a token. `size` is that of *options.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_line_options_init(tfos_line_options *options, size_t size);

/* A pump that feeds a process on this machine, with results, and without a cluster. NOT_FOUND: there is no such process
 * any more.
 *
 * Owner: as with tfos_pump_open.
 * Thread: any. */
TFOS_API tfos_status tfos_pump_open_line(const tfos_line_options *options, const tfos_pump_source *source,
                                         tfos_pump **out, tfos_error *error);

/* Feeds the partition. With inference it returns with the results that have come, in the order of the rows, and asks
 * for no more rows than these needed: whoever has enough of them calls no more. END: all is done, or wanted; without
 * inference the first call does it all. An error ends the task: the coordinator has been told (tfos_feeder_give_up),
 * and further calls give it again.
 *
 * Owner: the caller gives *out up with tfos_batch_free.
 * Thread: one at a time per pump. */
TFOS_API tfos_status tfos_pump_next(tfos_pump *pump, tfos_batch **out, tfos_error *error);

/* Results cannot be used as they are: puts the partition before *why, and tells it like an error of the pump's own.
 *
 * Owner: nothing changes hands.
 * Thread: one at a time per pump. */
TFOS_API void tfos_pump_give_up(tfos_pump *pump, tfos_error *why);

/* Leaves, at any time. A partition that is not finished can be taken over by another attempt.
 *
 * Owner: frees `pump`.
 * Thread: when no other call is under way. */
TFOS_API void tfos_pump_close(tfos_pump *pump);

/* ---- Feed: the program on a node --------------------------------------------------------------------------------- */

/* The rows of one queue. A process that a node has started finds them by itself (TFOS_FEED_FD). */
typedef struct tfos_feed tfos_feed;

/* NOT_FOUND when this process is no program of a node, or the node is not fed by Spark.
 *
 * Owner: the caller closes *out with tfos_feed_close. Several handles of one queue share its rows.
 * Thread: any. */
TFOS_API tfos_status tfos_feed_open(const char *queue, tfos_feed **out, tfos_error *error);

typedef struct tfos_feed_want {
    size_t size;           /* of this struct; see tfos_feed_want_init */
    int64_t rows;          /* most rows of the batch; it has fewer only at an end */
    bool split_epochs;     /* the end of an epoch is an end: TFOS_END comes once for each */
    int64_t epoch;         /* with split_epochs, from 0 on: only the end of this one, with what is left of those before;
                            * -1: of whichever comes next */
    int64_t timeout_ms;    /* -1: as long as it takes; otherwise CANCELLED after so long without a row */
    const tfos_schema *as; /* NULL: columns as they were fed; else these, by name. Lists of fixed and of any length are
                            * made of each other; another type is a MISMATCH */
    bool (*interrupted)(void *context); /* as in tfos_feeder_options; also CANCELLED */
    void *interrupted_context;
} tfos_feed_want;

/* Fills in the defaults: one row, of whichever epoch, as long as it takes. `size` is that of *want.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_feed_want_init(tfos_feed_want *want, size_t size);

/* The next rows, copied out of the lanes: they count as consumed. A batch has rows of one schema: unless `as` is given
 * it ends early when the schema changes. It also ends with a partition of inference. END: the epoch has ended
 * (split_epochs), or the feed; after the end of the feed every further call gives END. Rows that were taken before a
 * failure come with the next call.
 *
 * Owner: the caller gives *out up with tfos_batch_free.
 * Thread: any; calls for one queue are serialized. */
TFOS_API tfos_status tfos_feed_next(tfos_feed *feed, const tfos_feed_want *want, tfos_batch **out, tfos_error *error);

/* The schema of the queue, as soon as it is known: that of the first rows that any producer has fed to any node. Waits
 * as tfos_feed_next does. END: the feed ended before it had rows.
 *
 * Owner: the caller frees *out with tfos_schema_free.
 * Thread: any. */
TFOS_API tfos_status tfos_feed_schema(tfos_feed *feed, const tfos_feed_want *want, tfos_schema **out,
                                      tfos_error *error);

/* Whether the feed has ended and every row was taken.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API bool tfos_feed_ended(tfos_feed *feed);

/* How many epochs have ended for the caller: END came, or rows behind them.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API int64_t tfos_feed_epochs(tfos_feed *feed);

/* Ends feeding for the whole cluster: what is left is skipped.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_feed_terminate(tfos_feed *feed, tfos_error *error);

/* Results for the rows that were taken, in their order, one for each. MISMATCH when there are more than rows without a
 * result. `want` (may be NULL) says whether a wait for room was interrupted; the rest of it is not looked at.
 *
 * Owner: `batch` stays the caller's.
 * Thread: any; calls for one queue are serialized. */
TFOS_API tfos_status tfos_feed_put_results(tfos_feed *feed, const tfos_batch *batch, const tfos_feed_want *want,
                                           tfos_error *error);

/* Owner: frees `feed`.
 * Thread: when no other call with this handle is under way. */
TFOS_API void tfos_feed_close(tfos_feed *feed);

#ifdef __cplusplus
}
#endif

#endif /* TFOS_FEED_H */
