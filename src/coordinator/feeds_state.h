/* The inside of the feeds of a cluster, for the files that make it up. */
#ifndef TFOS_COORDINATOR_FEEDS_STATE_H
#define TFOS_COORDINATOR_FEEDS_STATE_H

#include <sys/queue.h>

#include "coordinator/feeds.h"
#include "feed/number_map.h"

typedef struct tfos__known_producer tfos__known_producer;
typedef struct tfos__known_queue tfos__known_queue;
typedef struct tfos__hunger tfos__hunger;

TAILQ_HEAD(tfos__producer_list, tfos__known_producer);
TAILQ_HEAD(tfos__feed_list, tfos__known_feed);
TAILQ_HEAD(tfos__hunger_list, tfos__hunger);
TAILQ_HEAD(tfos__starving_list, tfos__fed_node);

typedef struct tfos__known_feed {
    uint64_t number;
    char queue[64];
    tfos__known_queue *known_queue; /* of that name */
    uint64_t flags;
    uint64_t partitions;
    uint64_t timeout_ms;
    uint64_t epoch;
    bool open;
    bool failed;                       /* the driver knows */
    uint64_t dropped;                  /* rows that were in lanes and that nobody has taken */
    uint64_t moved_ms;                 /* when something had to be taken; see also taken_ms */
    uint64_t producers;                /* that were let in and have not left */
    uint64_t held_back;                /* of these: were told that not every program reads the queue */
    uint64_t answered;                 /* attempts of inference that got all of their results */
    char *schema;                      /* of the first rows; NULL: not known yet */
    char *unfit;                       /* what an attempt of inference has failed with; NULL: none has */
    struct tfos__producer_list asking; /* everybody who came to feed it, let in or not, and has not left */
    TAILQ_ENTRY(tfos__known_feed) among_open;
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
    /* While it starves, see feeds_hunger.c: */
    TAILQ_ENTRY(tfos__fed_node) among_starving;
    struct tfos__hunger_list told; /* producers that know */
    size_t told_count;
    uint64_t told_last; /* the number of the producer that was looked at last; UINT64_MAX: none yet */
    /* Its place in the list that producers get, see feeds_places.c: */
    size_t place_at;
    size_t place_bytes;
} tfos__fed_node;

struct tfos__known_producer {
    uint64_t number;
    tfos__known_feed *feed; /* NULL: there was none of that number when it came */
    char machine[64];
    tfos__attempt attempt;
    bool granted;
    bool held_back;       /* it was told that not every program reads the queue */
    tfos__hunger *hunger; /* what it was told of nodes that starve; NULL: nothing yet */
    TAILQ_ENTRY(tfos__known_producer) among_asking;
    TAILQ_ENTRY(tfos__known_producer) among_granted;
};

/* A queue, whichever feeds it has had. */
struct tfos__known_queue {
    char name[64];
    uint64_t marks;   /* ends of epochs, in all */
    bool terminated;  /* a program wants no more of it */
    uint32_t readers; /* nodes that may read, and whose programs have opened it */
};

/* A node, by its machine. */
typedef struct tfos__machine_node {
    const char *machine;
    uint32_t index;
} tfos__machine_node;

struct tfos__feeds {
    tfos__roster *roster;
    tfos__feeds_calls calls;
    tfos__ledger *ledger;
    tfos__known_feed **feeds; /* the oldest first */
    size_t feed_count;
    size_t feed_capacity;
    tfos__number_map feed_of; /* tfos__known_feed by number */
    struct tfos__feed_list open;
    tfos__number_map producer_of; /* tfos__known_producer by number */
    struct tfos__producer_list granted;
    size_t granted_count;
    tfos__known_queue **queues;
    size_t queue_count;
    size_t queue_capacity;
    uint32_t node_count;
    tfos__fed_node *nodes;
    uint32_t may_read;  /* how many nodes may read */
    uint64_t taken_ms;  /* when any node has taken rows last, or had to */
    uint32_t *alive;    /* the numbers of those that are known and not gone, … */
    size_t alive_count; /* … unless alive_changed */
    bool alive_changed;
    tfos__buffer places; /* of those that are alive, one behind the other, … */
    tfos__machine_node *by_machine;
    bool places_known; /* … unless this is false */
    tfos__buffer list; /* what one producer is given */
    struct tfos__starving_list starving;
    size_t starving_count;
    uint64_t told_last; /* where the next node that starves begins to tell */
    size_t news_left;   /* until the next tick */
    bool ended;         /* END_OF_FEED was said */
    bool stopped;       /* the cluster is ending */
    uint64_t now_ms;
};

/* ---- feeds_index.c ---- */

tfos__known_feed *tfos__feeds_find(const tfos__feeds *feeds, uint64_t number);
tfos__known_producer *tfos__feeds_find_producer(const tfos__feeds *feeds, uint64_t number);

/* The queue of that name, which is made if there is none. NULL when memory is short. */
tfos__known_queue *tfos__feeds_queue(tfos__feeds *feeds, const char *name);

/* Adds a feed that is open, and takes over what it has. EXISTS is the ledger's business. */
tfos_status tfos__feeds_add(tfos__feeds *feeds, const tfos__known_feed *opened, tfos_error *error);

/* Makes room by forgetting the oldest of those that are closed. */
void tfos__feeds_forget_old(tfos__feeds *feeds);

/* A producer comes, is let in, and leaves. */
tfos__known_producer *tfos__feeds_add_producer(tfos__feeds *feeds, uint64_t number, const tfos__attempt *attempt,
                                               tfos_error *error);
void tfos__feeds_note_granted(tfos__feeds *feeds, tfos__known_producer *producer);
void tfos__feeds_remove_producer(tfos__feeds *feeds, tfos__known_producer *producer);

/* The nodes that are known and not gone, in the order of their numbers. */
const uint32_t *tfos__feeds_alive(tfos__feeds *feeds, size_t *count);

/* To be called when a node has come or gone; … */
void tfos__feeds_nodes_changed(tfos__feeds *feeds);

/* … and before that or what its program reads changes, with -1, and with 1 when it has. */
void tfos__feeds_count_reader(tfos__feeds *feeds, uint32_t index, int sign);

/* Whether the program of a node has opened a queue. */
bool tfos__feeds_reads(const tfos__fed_node *node, const char *queue);

/* … and every one that may. Results are made by whoever comes first. */
bool tfos__feeds_is_read_by_all(const tfos__feeds *feeds, const tfos__known_feed *feed);

void tfos__feeds_free_index(tfos__feeds *feeds);

/* ---- feeds_places.c ---- */

/* The nodes that a producer may feed, as PLACES of GRANTED, until the next call: those of its machine first. */
const tfos__buffer *tfos__feeds_list_places(tfos__feeds *feeds, tfos__known_producer *producer);

/* ---- feeds_hunger.c ---- */

/* A node begins to starve, or no longer does. */
void tfos__hunger_begin(tfos__feeds *feeds, tfos__fed_node *node);
void tfos__hunger_end(tfos__feeds *feeds, tfos__fed_node *node);

/* A producer that is being let in gets to know of nodes that starve with the list of all; and whether it knows of this
 * one. */
void tfos__hunger_admit(tfos__feeds *feeds, tfos__known_producer *producer);
bool tfos__hunger_is_known(const tfos__known_producer *producer, uint32_t node);

/* Forgets what a producer knows. */
void tfos__hunger_forget(tfos__feeds *feeds, tfos__known_producer *producer);

/* Tells more producers of nodes that still starve. */
void tfos__hunger_tick(tfos__feeds *feeds);

/* ---- feeds.c ---- */

void tfos__feeds_tell_driver(tfos__feeds *feeds, const tfos__known_feed *feed, tfos_feed_state state,
                             const tfos_error *error);
void tfos__feeds_tell_epoch(tfos__feeds *feeds, const tfos__known_feed *feed, tfos_feed_state state, uint64_t epoch,
                            const tfos_error *error);
void tfos__feeds_tell_nodes(tfos__feeds *feeds, const tfos__message *message);

/* Results belong to the task that fed the rows, and Spark may compute them as often as it likes: an attempt of
 * inference has nothing to do with others, and nothing with the ledger. */
bool tfos__feeds_is_inference(const tfos__known_feed *feed);

/* A feed fails, and all of its producers with it. */
void tfos__feeds_break(tfos__feeds *feeds, tfos__known_feed *feed, const tfos_error *error);

/* Nobody takes its rows any more: producers go home. `state` says to the driver why. */
void tfos__feeds_stop(tfos__feeds *feeds, const tfos__known_feed *feed, tfos_feed_state state);

/* The driver is told once. */
void tfos__feeds_fail(tfos__feeds *feeds, tfos__known_feed *feed, const tfos_error *error);

/* Answers a producer that the ledger knows nothing of: an attempt of inference, say. */
void tfos__feeds_answer(tfos__feeds *feeds, uint64_t producer, tfos__admission admission, const tfos_error *error);

void tfos__feeds_make_fence(const tfos__attempt *attempt, tfos__message *out);
void tfos__feeds_make_epoch(const tfos__known_feed *feed, tfos__message *out);
void tfos__feeds_make_mark(const tfos__known_queue *queue, tfos__message *out);
void tfos__feeds_make_schema(const tfos__known_feed *feed, tfos__message *out);
void tfos__feeds_make_end(const tfos__known_queue *queue, tfos__message *out); /* NULL: of all */

/* ---- feeds_stall.c ---- */

/* Looks for feeds whose rows nobody takes. */
void tfos__feeds_look_for_stalled(tfos__feeds *feeds);

#endif
