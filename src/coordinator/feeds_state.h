/* The inside of the feeds of a cluster, for the files that make it up. */
#ifndef TFOS_COORDINATOR_FEEDS_STATE_H
#define TFOS_COORDINATOR_FEEDS_STATE_H

#include "coordinator/feeds.h"

typedef struct tfos__known_feed {
    uint64_t number;
    char queue[64];
    uint64_t flags;
    uint64_t partitions;
    uint64_t timeout_ms;
    uint64_t epoch;
    bool open;
    bool failed;        /* the driver knows */
    uint64_t dropped;   /* rows that were in lanes and that nobody has taken */
    uint64_t moved_ms;  /* when anything was taken last, or had to be */
    uint64_t producers; /* that were let in and have not left */
    uint64_t answered;  /* attempts of inference that got all of their results */
    char *schema;       /* of the first rows; NULL: not known yet */
    char *unfit;        /* what an attempt of inference has failed with; NULL: none has */
} tfos__known_feed;

typedef struct tfos__fed_node {
    bool known;
    bool gone;
    char name[101];
    char machine[64];
    uint16_t port;
    char queues[1024]; /* that its program has opened: ",input,validation," */
    tfos__fed fed;
    bool starves;     /* it was hungry for a whole heartbeat and got nothing */
    uint64_t settled; /* the number of the last SETTLED that counts */
    uint64_t rate_ms;
    uint64_t rate_rows;
} tfos__fed_node;

typedef struct tfos__known_producer {
    uint64_t number;
    uint64_t feed;
    char machine[64];
    tfos__attempt attempt;
    bool granted;
    bool held_back; /* it was told that not every program reads the queue */
} tfos__known_producer;

/* A queue, whichever feeds it has had. */
typedef struct tfos__known_queue {
    char name[64];
    uint64_t marks;  /* ends of epochs, in all */
    bool terminated; /* a program wants no more of it */
} tfos__known_queue;

struct tfos__feeds {
    tfos__roster *roster;
    tfos__feeds_calls calls;
    tfos__ledger *ledger;
    tfos__known_feed *feeds;
    size_t feed_count;
    size_t feed_capacity;
    tfos__known_producer *producers;
    size_t producer_count;
    size_t producer_capacity;
    tfos__known_queue *queues;
    size_t queue_count;
    size_t queue_capacity;
    uint32_t node_count;
    tfos__fed_node *nodes;
    uint32_t *alive; /* scratch */
    bool ended;      /* END_OF_FEED was said */
    bool stopped;    /* the cluster is ending */
    uint64_t now_ms;
};

/* ---- feeds.c ---- */

tfos__known_feed *tfos__feeds_find(const tfos__feeds *feeds, uint64_t number);
tfos__known_producer *tfos__feeds_find_producer(const tfos__feeds *feeds, uint64_t number);

/* NULL when memory is short. */
tfos__known_queue *tfos__feeds_queue(tfos__feeds *feeds, const char *name);

void tfos__feeds_tell_driver(tfos__feeds *feeds, const tfos__known_feed *feed, tfos__feed_state state,
                             const tfos_error *error);
void tfos__feeds_tell_epoch(tfos__feeds *feeds, const tfos__known_feed *feed, tfos__feed_state state, uint64_t epoch,
                            const tfos_error *error);
void tfos__feeds_tell_nodes(tfos__feeds *feeds, const tfos__message *message);

/* Results belong to the task that fed the rows, and Spark may compute them as often as it likes: an attempt of
 * inference has nothing to do with others, and nothing with the ledger. */
bool tfos__feeds_is_inference(const tfos__known_feed *feed);

/* A feed fails, and all of its producers with it. */
void tfos__feeds_break(tfos__feeds *feeds, tfos__known_feed *feed, const tfos_error *error);

/* Nobody takes its rows any more: producers go home. `state` says to the driver why. */
void tfos__feeds_stop(tfos__feeds *feeds, const tfos__known_feed *feed, tfos__feed_state state);

/* The driver is told once. */
void tfos__feeds_fail(tfos__feeds *feeds, tfos__known_feed *feed, const tfos_error *error);

/* Answers a producer that the ledger knows nothing of: an attempt of inference, say. */
void tfos__feeds_answer(tfos__feeds *feeds, uint64_t producer, tfos__admission admission, const tfos_error *error);

void tfos__feeds_make_fence(const tfos__attempt *attempt, tfos__message *out);
void tfos__feeds_make_epoch(const tfos__known_feed *feed, tfos__message *out);
void tfos__feeds_make_mark(const tfos__known_queue *queue, tfos__message *out);
void tfos__feeds_make_schema(const tfos__known_feed *feed, tfos__message *out);
void tfos__feeds_make_end(const tfos__known_queue *queue, tfos__message *out); /* NULL: of all */

/* ---- feeds_node.c ---- */

/* Whether the program of a node has opened a queue. */
bool tfos__feeds_reads(const tfos__fed_node *node, const char *queue);

/* … and every one that may. Results are made by whoever comes first. */
bool tfos__feeds_is_read_by_all(const tfos__feeds *feeds, const tfos__known_feed *feed);

/* ---- feeds_stall.c ---- */

/* Looks for feeds whose rows nobody takes. */
void tfos__feeds_look_for_stalled(tfos__feeds *feeds);

#endif
