/* tfos/driver.h: a driver, which starts a cluster on Spark, feeds it and sees it through to its end.
 *
 *   driver           decides what is to be done: when nodes are started, and started again; which epoch is fed; what a
 *                    failed job means; when to give up, and what to say. It knows nothing of Spark.
 *   order            what the shell around it is to do with Spark or to say to people; it takes one after the other.
 *   report           what the shell says of Spark, and of what has become of an order.
 *   call             what the program of the user waits for: its nodes, its data being fed, the end. The outcome of a
 *                    call is an order, DONE.
 *
 * A shell has one thread that takes orders and hands those with a call to whichever thread waits for it; it decides
 * nothing. That is the same in Python, Java and Scala.
 *
 * Errors. A call that makes no sense is refused at once with INVALID. What fails later is the outcome of a call.
 *
 * Ownership. The texts and bytes of an order are the driver's until the next order is asked for.
 *
 * Threads. Orders are taken by one thread at a time; everything else may be called by any. */
#ifndef TFOS_DRIVER_H
#define TFOS_DRIVER_H

#include "tfos/cluster.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfos_driver tfos_driver;

typedef struct tfos_driver_options {
    size_t size; /* of this struct; see tfos_driver_options_init */
    /* What the cluster is to be. `attempt` and what begins with `slots` are the driver's to fill in. */
    const tfos_cluster_options *cluster;
    int32_t here;            /* nodes, from the first on, that are children of this process instead of Spark's */
    int32_t restarts;        /* how often a cluster that failed is started again */
    const char *application; /* of Spark: clusters of one share its task slots */
} tfos_driver_options;

/* Fills in the defaults, which lack a cluster. `size` is that of *options.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_driver_options_init(tfos_driver_options *options, size_t size);

/* Makes a driver. Nothing is started before the first order is taken.
 *
 * Owner: the caller closes *out with tfos_driver_close. What `options->cluster` points to, and what is in it, stays the
 * caller's and must be there until then, for the cluster may be started again; the rest is copied.
 * Thread: any. */
TFOS_API tfos_status tfos_driver_open(const tfos_driver_options *options, tfos_driver **out, tfos_error *error);

/* Ends whatever there still is of the cluster, and waits for it.
 *
 * Owner: frees `driver`.
 * Thread: any, when no other call is under way. */
TFOS_API void tfos_driver_close(tfos_driver *driver);

/* ---- Orders ------------------------------------------------------------------------------------------------------ */

typedef enum tfos_order_kind {
    TFOS_ORDER_NONE,        /* nothing was to be done in the given time */
    TFOS_ORDER_SAY,         /* text is for people, line by line */
    TFOS_ORDER_LOOK,        /* say how Spark is, once: tfos_driver_report_spark */
    TFOS_ORDER_OPENED,      /* attempt `index` of the cluster is under way; text is the address of its status page, with
                             * the token; title may be shown to anybody */
    TFOS_ORDER_START_NODES, /* submit the job that starts the nodes `index` to `index` + `count` - 1, each with the
                             * ticket in `bytes`, as `title`; that it cannot be is reported as the failure of job 0 */
    TFOS_ORDER_READY,       /* every node has its role; text is JSON: a list of nodes */
    TFOS_ORDER_TENSORBOARD, /* of the node `index`: its address is text, its process pid */
    TFOS_ORDER_END_NODES,   /* the tasks of that job end by themselves: wait for that as long as patience_ms, then
                             * cancel it and wait for cancel_ms; then, in any case, report the end of job 0 */
    TFOS_ORDER_FEED,        /* of a call: run the job `job`, which feeds the data number `source` of the call with the
                             * ticket in `bytes`, and report its end; that it cannot be run is its failure */
    TFOS_ORDER_CANCEL, /* of a call: cancel that job, again and again until it has ended: Spark does not cancel what
                        * has yet to be submitted */
    TFOS_ORDER_RESULT, /* of a call: what the node `index` has left behind. Text is JSON: {"role": "worker", "task": 1,
                        * "host": …, "state": "finished", "ended": how, "history": {name: […]}, "problem": why there is
                        * no value}; `bytes` are the value that its program returned, none for none */
    TFOS_ORDER_DONE,   /* a call has come to its end; nothing follows for it */
    TFOS_ORDER_OVER,   /* so has the cluster, for good; if it has failed, with an error as that of a call */
} tfos_order_kind;

/* "none", "say", …
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_order_kind_name(tfos_order_kind kind);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_order_kind_parse(const char *text, tfos_order_kind *out, tfos_error *error);

typedef enum tfos_call_outcome {
    TFOS_CALL_DONE,
    TFOS_CALL_STOPPED, /* the programs wanted no more, or have all ended in good order */
    TFOS_CALL_FAILED, /* status, fault and text say why. INVALID: what was asked makes no sense. RAISED: of what the job
                       * `cause` has thrown. Otherwise `cause`, unless it is 0, is the job or the call whose failure is
                       * behind this one */
} tfos_call_outcome;

/* "done", "stopped" or "failed".
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_call_outcome_name(tfos_call_outcome outcome);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_call_outcome_parse(const char *text, tfos_call_outcome *out, tfos_error *error);

/* Texts are never NULL. Jobs and calls are known by numbers that are used once, and are not 0. */
typedef struct tfos_order {
    tfos_order_kind kind;
    uint64_t call; /* whose order it is; 0: of nobody's */
    uint64_t job;
    int32_t source;
    int32_t index;
    int32_t count;
    int64_t pid;
    int64_t patience_ms;
    int64_t cancel_ms;
    const uint8_t *bytes;
    size_t byte_count;
    const char *text;
    const char *title;
    tfos_call_outcome outcome;
    tfos_status status;
    tfos_fault fault;
    uint64_t cause;
} tfos_order;

/* Waits for the next order, at most `timeout_ms` (-1: as long as it takes). END: the cluster is over, and no call waits
 * for anything. A call that is made later is answered at once: its DONE is the next order then.
 *
 * Owner: what is in *order is the driver's.
 * Thread: one at a time. */
TFOS_API tfos_status tfos_driver_next(tfos_driver *driver, int64_t timeout_ms, tfos_order *order, tfos_error *error);

/* ---- Reports ----------------------------------------------------------------------------------------------------- */

/* How Spark is. */
typedef struct tfos_spark_view {
    size_t size;               /* of this struct; see tfos_spark_view_init */
    int64_t slots;             /* tasks that it can run at a time now */
    int64_t slots_most;        /* … and ever, by its configuration; -1: unknown */
    const char *slots_reason;  /* where slots_most comes from */
    const char *nodes_failure; /* what the job that starts the nodes has failed with; NULL: it has not */
    const char *unanswered;    /* it does not answer, because …; NULL: it does */
    const char *context_end;   /* how the context has come to its end ("was stopped"); NULL: it runs */
} tfos_spark_view;

/* Fills in the defaults: nothing is known of its slots, and nothing is wrong. `size` is that of *view.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_spark_view_init(tfos_spark_view *view, size_t size);

/* Owner: `view` is copied.
 * Thread: any. */
TFOS_API tfos_status tfos_driver_report_spark(tfos_driver *driver, const tfos_spark_view *view, tfos_error *error);

/* A job has ended: well if `failure` is NULL, else with that. Job 0 is the one that starts the nodes.
 *
 * Owner: `failure` is copied.
 * Thread: any. */
TFOS_API void tfos_driver_report_job(tfos_driver *driver, uint64_t job, const char *failure);

/* The Spark context has come to its end ("was stopped"), whenever that is seen.
 *
 * Owner: `how` is copied.
 * Thread: any. */
TFOS_API void tfos_driver_report_context_end(tfos_driver *driver, const char *how);

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

/* Waits until every node has its role.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_driver_await_nodes(tfos_driver *driver, uint64_t *call, tfos_error *error);

typedef struct tfos_feed_call {
    size_t size;                         /* of this struct; see tfos_feed_call_init */
    const tfos_feed_options *data;       /* source 0 */
    const tfos_feed_options *validation; /* NULL, or what is fed after each epoch of the data: source 1 */
    int64_t epochs;                      /* -1: until the programs want no more */
    bool stream;                         /* a batch of a stream: it may come when the programs have ended */
} tfos_feed_call;

/* Fills in the defaults, which lack data: one epoch. `size` is that of *call.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_feed_call_init(tfos_feed_call *call, size_t size);

/* Feeds data, epoch after epoch, over all restarts of the cluster, and waits until every row was taken. With inference
 * it is the job that has the results, and its end is the end of the call.
 *
 * Owner: everything in `options` is copied.
 * Thread: any. */
TFOS_API tfos_status tfos_driver_feed(tfos_driver *driver, const tfos_feed_call *options, uint64_t *call,
                                      tfos_error *error);

/* Opens a feed of inference that Spark runs whenever it needs results, while the cluster runs. DONE has the ticket for
 * its tasks in `bytes`.
 *
 * Owner: everything in `options` is copied.
 * Thread: any. */
TFOS_API tfos_status tfos_driver_open_feed(tfos_driver *driver, const tfos_feed_options *options, uint64_t *call,
                                           tfos_error *error);

/* Lets the cluster come to its end, and waits for that: no more rows come, and ps and evaluators are stopped `grace_ms`
 * after the last worker has ended. Fails if the cluster has, or the last that was fed to a queue, or if it takes longer
 * than `timeout_ms` (-1: as long as it takes); then the cluster is stopped.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_driver_finish(tfos_driver *driver, int64_t grace_ms, int64_t timeout_ms, uint64_t *call,
                                        tfos_error *error);

/* Asks what the status page shows; DONE has it as JSON in `text`, the last that was heard if nobody answers, and
 * nothing if nothing was heard.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_driver_ask_status(tfos_driver *driver, uint64_t *call, tfos_error *error);

/* Asks for the results of the programs, as far as they are there. For each node that has come an order RESULT follows,
 * in the order of the cluster, and then DONE. Results are those of the last attempt of the cluster.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_driver_ask_results(tfos_driver *driver, uint64_t *call, tfos_error *error);

/* Waits until TensorBoard has an address, a minute at most; DONE has it in `text`.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_driver_await_tensorboard(tfos_driver *driver, uint64_t *call, tfos_error *error);

/* Nobody waits for a call any more: no order follows for it, and what became of it is nobody's business. Its job, if
 * one runs, is the caller's to cancel.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_driver_abandon(tfos_driver *driver, uint64_t call);

/* Stops every node, at once; nothing is started again. The first reason counts.
 *
 * Owner: `reason` is copied.
 * Thread: any. */
TFOS_API void tfos_driver_stop(tfos_driver *driver, const char *reason);

#ifdef __cplusplus
}
#endif

#endif /* TFOS_DRIVER_H */
