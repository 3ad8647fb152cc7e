/* tfos/cluster.h: TensorFlow nodes on Spark executors, as the driver sees them.
 *
 *   cluster          a coordinator process and its nodes.
 *   event            what has happened to them; the driver asks for one after the other.
 *   ticket           what a Spark task needs to start a node, or to feed; the cluster key is inside.
 *   feed             rows for the programs on the nodes, epoch by epoch; tfos/feed.h is for those who feed and are fed.
 *
 * Errors. A call says that an order was sent, or why it could not be; what becomes of it is an event.
 *
 * Ownership. Everything in options is copied. The texts of an event are the cluster's until the next one is asked for.
 *
 * Threads. Orders may be given by any thread; events are taken by one at a time. */
#ifndef TFOS_CLUSTER_H
#define TFOS_CLUSTER_H

#include "tfos/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Cluster ----------------------------------------------------------------------------------------------------- */

/* A cluster as the driver sees it. A process of our own, `tfos coordinator`, does the work; this object is the driver's
 * end of a socket pair to it. When that end closes, however the driver ends, the coordinator stops every node. */
typedef struct tfos_cluster tfos_cluster;

typedef struct tfos_cluster_options {
    size_t size; /* of this struct; see tfos_cluster_options_init */
    const char
        *command; /* the program tfos; NULL: TFOS_COMMAND, else beside libtfos, else in bin/ beside it, else PATH */
    const char *folder; /* for the log files of nodes on this machine; NULL: the working folder */
    const char *host;   /* where nodes reach the coordinator, unless the setting server.host says otherwise */
    int32_t nodes;      /* all of them: ps, master, evaluator and workers, in this order of their indexes */
    int32_t ps;
    const char *master; /* "chief", "master", or NULL for none */
    bool evaluator;
    bool parallel;            /* independent instances: no cluster spec, no ports, every node a worker */
    bool no_barrier;          /* a node starts when it comes, without waiting for the others */
    bool spark_feeds;         /* InputMode.SPARK */
    bool native_ps;           /* ps nodes are TensorFlow servers without Python … */
    bool native_workers;      /* … and workers */
    bool keep_port;           /* the child asks for its port itself (release_port=False) */
    int32_t gpus;             /* of each worker; -1: not asked for, one where there are some */
    int32_t attempt;          /* how often the cluster was restarted */
    int64_t timeout_ms;       /* how long to wait for all nodes to come */
    int64_t slots;            /* tasks that Spark can run at a time now; -1: unknown */
    int64_t slots_most;       /* … and ever, by its configuration; -1: unknown */
    const char *slots_reason; /* where slots_most comes from: "spark.master is local[2]" */

    /* What every node starts. */
    const char *const *program;     /* NULL-terminated words */
    const char *const *environment; /* NULL-terminated NAME=value, or NULL */
    const char *const *tensorboard; /* NULL, or NULL-terminated words, with {port} and {host} to be replaced */
    const void *payload;            /* for the child, as it is */
    size_t payload_bytes;
    const char *context;         /* JSON object for the child, as it is */
    const char *const *settings; /* NULL, or NULL-terminated key=value, as in docs/config.md */
    int32_t all_gpus;            /* of all workers together, shared out evenly, instead of `gpus`; 0: not asked for */
} tfos_cluster_options;

/* Fills in the defaults: no nodes, ten minutes to come. `size` is that of *options.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_cluster_options_init(tfos_cluster_options *options, size_t size);

/* Checks the numbers, makes the cluster key, starts the coordinator and waits until it listens. LIMIT when Spark can
 * never have enough task slots.
 *
 * Owner: the caller closes *out with tfos_cluster_close. Everything in `options` is copied.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_open(const tfos_cluster_options *options, tfos_cluster **out, tfos_error *error);

/* What a Spark task hands to `tfos node`, with the cluster key inside: it must travel in Spark's own task data and
 * nowhere else. The task appends what it knows itself; docs/design.md says how.
 *
 * Owner: the cluster.
 * Thread: any. */
TFOS_API void tfos_cluster_ticket(const tfos_cluster *cluster, const uint8_t **bytes, size_t *count);

/* The address of the status page, with its token.
 *
 * Owner: the cluster.
 * Thread: any. */
TFOS_API const char *tfos_cluster_url(const tfos_cluster *cluster);

/* Starts the node `index` on this machine, as a child of this process.
 *
 * Owner: the cluster, which ends it.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_spawn(tfos_cluster *cluster, int32_t index, tfos_error *error);

typedef enum tfos_cluster_event_kind {
    TFOS_EVENT_NONE,     /* nothing happened in the given time */
    TFOS_EVENT_PROGRESS, /* while nodes are waited for: count of total have come; text says what is missing */
    TFOS_EVENT_READY,    /* all have come and know their roles; text is JSON: a list of nodes */
    TFOS_EVENT_NODE,     /* a node is in another state: node, host, state; text is how it ended, if it has; url of its
                          * TensorBoard if it has one */
    TFOS_EVENT_LOG,      /* lines that a node's child wrote: node, host, text, stream */
    TFOS_EVENT_FAILED,   /* the first failure: node, host, text. All others are being stopped */
    TFOS_EVENT_STATUS,   /* the answer to tfos_cluster_request_status: text is JSON */
    TFOS_EVENT_FEED,     /* a feed: count is its number, total the epoch; feed, and state in words, is how far it is;
                          * what was given up or has failed has status, fault and text */
    TFOS_EVENT_RESULT,   /* a piece of what the program of a node has left behind: index, bytes from offset on, of
                          * head_bytes of JSON and value_bytes of the value that it returned */
    TFOS_EVENT_OVER,     /* every node is gone; nothing follows */
} tfos_cluster_event_kind;

/* "none", "progress", …
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_cluster_event_kind_name(tfos_cluster_event_kind kind);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_event_kind_parse(const char *text, tfos_cluster_event_kind *out, tfos_error *error);

/* How far a feed is. X(name, value, word, "what it means"). */
#define TFOS_FEED_STATE_MAP(X)                                                                                         \
    X(NONE, 0, "none", "nothing was heard of it")                                                                      \
    X(OPEN, 1, "open", "it is known")                                                                                  \
    X(EPOCH, 2, "epoch", "an epoch may be fed")                                                                        \
    X(EXHAUSTED, 3, "exhausted", "every row of an epoch is on its way to a program")                                   \
    X(CONSUMED, 4, "consumed", "… and was taken, and so was every epoch before it settled")                            \
    X(DROPPED, 5, "dropped", "… but for some rows, of a program that had ended")                                       \
    X(TERMINATED, 6, "terminated", "a program wants no more")                                                          \
    X(FINISHED, 7, "finished", "every program has ended")                                                              \
    X(ENDED, 8, "ended", "the cluster stops")                                                                          \
    X(FAILED, 9, "failed", "it has failed")                                                                            \
    X(ABANDONED, 10, "abandoned", "an attempt at a partition was given up; Spark may try again")

typedef enum tfos_feed_state {
#define TFOS_FEED_STATE_ENUM(name, value, word, text) TFOS_FEED_STATE_##name = (value),
    TFOS_FEED_STATE_MAP(TFOS_FEED_STATE_ENUM)
#undef TFOS_FEED_STATE_ENUM
} tfos_feed_state;

/* "none", "open", …
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_feed_state_name(tfos_feed_state state);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_feed_state_parse(const char *text, tfos_feed_state *out, tfos_error *error);

/* Texts are never NULL; they and the bytes are valid until the next call. */
typedef struct tfos_cluster_event {
    tfos_cluster_event_kind kind;
    int64_t count;
    int64_t total;
    int32_t index;    /* of the node, or -1 */
    int32_t stream;   /* 1 for stdout, 2 for stderr */
    const char *node; /* "worker:1" */
    const char *host;
    const char *state;
    const char *url;
    int64_t pid; /* of the process behind the url */
    const char *text;
    tfos_feed_state feed;
    tfos_status status;
    tfos_fault fault;
    const uint8_t *bytes;
    size_t byte_count;
    uint64_t offset;
    uint64_t head_bytes;
    uint64_t value_bytes;
} tfos_cluster_event;

/* Waits for the next event, at most `timeout_ms` (-1: as long as it takes). TFOS_END after OVER; IO when the
 * coordinator is gone.
 *
 * Owner: the texts of *event are the cluster's.
 * Thread: one at a time. */
TFOS_API tfos_status tfos_cluster_next(tfos_cluster *cluster, int64_t timeout_ms, tfos_cluster_event *event,
                                       tfos_error *error);

/* Tells how many tasks Spark can run at a time now, for what is shown and said while nodes are missing. `holders`
 * describes other clusters of the application whose tasks hold some of the slots; NULL: there are none.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_set_slots(tfos_cluster *cluster, int64_t slots, const char *holders,
                                            tfos_error *error);

/* Asks for the status; it comes as an event.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_request_status(tfos_cluster *cluster, tfos_error *error);

/* Lets the cluster end: once every worker has, ps and evaluators are stopped `grace_ms` later.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_finish(tfos_cluster *cluster, int64_t grace_ms, tfos_error *error);

/* Stops every node now.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_stop(tfos_cluster *cluster, const char *reason, tfos_error *error);

/* Ends the coordinator, and with it whatever is left of the cluster, and waits for it.
 *
 * Owner: frees `cluster`.
 * Thread: any, when no other call is under way. */
TFOS_API void tfos_cluster_close(tfos_cluster *cluster);

/* ---- Feeds ------------------------------------------------------------------------------------------------------- */

typedef struct tfos_feed_options {
    size_t size;        /* of this struct; see tfos_feed_options_init */
    const char *queue;  /* "input" */
    int64_t partitions; /* of the data, in every epoch */
    bool inference;     /* a result comes back for each row */
    bool determinate;   /* Spark computes a partition in the same order every time … */
    bool again;         /* … or it may be fed again from the beginning if its task dies */
    int64_t timeout_ms; /* without progress, while there are rows that nobody consumes */
} tfos_feed_options;

/* Fills in the defaults: the queue "input", no partitions, an order that is not determinate, ten minutes. `size` is
 * that of *options.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_feed_options_init(tfos_feed_options *options, size_t size);

/* Opens a feed; an event FEED with its number and the state "open" follows.
 *
 * Owner: `options` is copied.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_open_feed(tfos_cluster *cluster, const tfos_feed_options *options, uint64_t *feed,
                                            tfos_error *error);

/* Begins an epoch of a feed, when the one before is exhausted; an event FEED with the state "epoch" follows. Spark
 * tasks may then feed with the ticket for it.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_begin_epoch(tfos_cluster *cluster, uint64_t feed, uint64_t epoch, tfos_error *error);

/* Spark's job has ended well. That alone proves nothing: the feed fails if partitions of this epoch were not fed. The
 * proof is the event FEED with the state "exhausted", and later "consumed".
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_end_epoch(tfos_cluster *cluster, uint64_t feed, uint64_t epoch, tfos_error *error);

/* What a Spark task needs to feed; the cluster key is inside, so it must travel in Spark's own task data and nowhere
 * else.
 *
 * Owner: the caller frees *bytes with tfos_string_free.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_feed_ticket(tfos_cluster *cluster, uint64_t feed, uint64_t epoch, uint8_t **bytes,
                                              size_t *count, tfos_error *error);

/* The driver is done with a feed.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_close_feed(tfos_cluster *cluster, uint64_t feed, tfos_error *error);

/* No feed of any queue will follow: every consumer comes to its end when it has read what is there.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_cluster_end_feeds(tfos_cluster *cluster, tfos_error *error);

#ifdef __cplusplus
}
#endif

#endif /* TFOS_CLUSTER_H */
