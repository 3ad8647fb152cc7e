/* The feed of a node from inside: what the files node_feed*.c share. All of it belongs to the thread of the loop. */
#ifndef TFOS_NODE_FEED_H
#define TFOS_NODE_FEED_H

#include <pthread.h>
#include <stdatomic.h>

#include "feed/packet.h"
#include "net/local.h"
#include "node/state.h"

/* Somebody who feeds, or waits for a lane: near (feed_near.c) or far (feed_far.c). */
typedef struct tfos__feed_producer tfos__feed_producer;

struct tfos__feed_producer {
    tfos__feed_producer *next; /* came later */
    tfos__feed_producer *previous;
    tfos__node *node;
    bool wants; /* `request` waits for memory, or for the child to read its queue */
    tfos__packet request;
    tfos__bell *bell; /* that the child rings for it; NULL before it asked for a lane */

    /* Tells it LANE, BUSY or REFUSED. IO: it is gone, or does not listen. */
    tfos_status (*tell)(tfos__feed_producer *producer, const tfos__packet *packet, const int *fds, size_t count,
                        tfos_error *error);
    /* Frees it, now or later. */
    void (*leave)(tfos__feed_producer *producer);
};

typedef struct tfos__feed_lane {
    struct tfos__feed_lane *next;
    tfos__lane *lane;
    tfos__lane *results;
    tfos__bell *bell;              /* a copy of the producer's */
    tfos__feed_producer *producer; /* NULL: it has gone */
    bool sealed;                   /* its head is closed: what is in it is all */
    bool settled;                  /* … and the coordinator is told what has become of it */
    bool left;                     /* the child takes nothing more of it, and may never say so */
    int64_t memory;                /* bytes that count for it */
    char queue[TFOS__QUEUE_BYTES];
} tfos__feed_lane;

/* What has become of the rows of a lane, until the coordinator knows. */
typedef struct tfos__feed_settled {
    tfos__attempt attempt;
    uint64_t sequence;
    uint64_t consumed;
    uint64_t dropped;
} tfos__feed_settled;

/* What an attempt has fed here in the current epoch, kept when its lanes are gone. */
typedef struct tfos__feed_record {
    tfos__attempt attempt;
    uint64_t end_row;
    bool fenced;
} tfos__feed_record;

/* What the coordinator has said about a feed. A producer may be faster than the coordinator's word of a mark and a new
 * epoch: it gets its lane when both have come, or its rows would be taken for those of the epoch before. */
typedef struct tfos__feed_epoch {
    uint64_t feed;
    uint64_t epoch;
} tfos__feed_epoch;

/* Marks that were passed on, and whether the program has ended the queue for all. */
typedef struct tfos__feed_queue {
    char name[TFOS__QUEUE_BYTES];
    uint64_t marks;
    bool reads;      /* the child does */
    bool left;       /* … and never will again */
    bool terminated; /* so it has said, and the coordinator has not answered yet */
} tfos__feed_queue;

/* A packet for the child that did not fit its socket. */
typedef struct tfos__feed_pending {
    struct tfos__feed_pending *next;
    tfos__packet packet;
    int fds[TFOS__PACKET_FDS_MOST]; /* ours; -1 behind the last */
} tfos__feed_pending;

/* Somebody elsewhere who has not shown the key yet, and who has. */
typedef struct tfos__feed_stranger tfos__feed_stranger;
typedef struct tfos__feed_visitor tfos__feed_visitor;

typedef struct tfos__node_feed {
    char name[TFOS__LOCAL_NAME_BYTES];
    uint8_t token[TFOS__KEY_BYTES];
    char machine[64];
    int near_socket; /* where producers of this machine come … */
    uv_poll_t near_poll;
    int far_socket; /* … and those of others */
    uint16_t far_port;
    uv_poll_t far_poll;
    tfos__tls_context *tls;         /* for them */
    tfos__feed_stranger *strangers; /* in the order in which they came */
    size_t stranger_count;
    uv_timer_t door_timer;        /* for the first of them … */
    int64_t handshake_ms;         /* … who has so much time */
    uint64_t refused;             /* connections, so far … */
    unsigned refusals_told;       /* … and a bit for each kind that was noted */
    tfos__feed_visitor *visitors; /* those with a lane first */
    tfos__feed_visitor *last_visitor;
    size_t visitor_count;
    tfos__bell *far_bell;     /* that the child rings for them, and when it starves */
    pthread_t far_thread;     /* sleeps at the bell … */
    bool far_listens;         /* … if there is one … */
    uint32_t far_seen;        /* … what it has heard before it began … */
    atomic_bool far_quiet;    /* … and is to end */
    uv_async_t far_async;     /* what it wakes */
    uv_prepare_t far_prepare; /* before the loop sleeps, visitors who were touched are looked at */
    bool far_touched;         /* some were */
    uv_timer_t far_timer;
    bool far_told_hungry; /* those without a lane think that the program starves */
    bool far_leaving;     /* the node is about to exit */
    bool far_told;        /* that somebody was sent away */
    tfos__bell *bell;     /* of the child */
    int child;            /* our end of the child's socket; -1: there is none */
    uv_poll_t child_poll;
    bool child_ended;
    tfos__feed_pending *pending;
    tfos__feed_pending **pending_end;
    size_t pending_count;
    tfos__feed_queue *queues;
    size_t queue_count;
    size_t queue_capacity;
    char queue_text[1024]; /* ",input,": what the child reads, for the coordinator */
    tfos__feed_epoch *epochs;
    size_t epoch_count;
    size_t epoch_capacity;
    tfos__feed_producer *producers; /* in the order in which they came */
    tfos__feed_producer *last_producer;
    size_t producer_count;
    tfos__feed_lane *lanes;
    size_t lane_count;
    uv_timer_t settle_timer; /* while rows of sealed lanes are consumed */
    tfos__feed_settled *settled;
    size_t settled_count;
    size_t settled_capacity;
    uint64_t settled_sequence; /* of the last one */
    uint64_t settled_before;   /* what was said up to here had arrived when the next answer to a beat comes */
    uint64_t lane_number;
    int64_t lane_bytes;
    int64_t memory_bytes;
    int64_t memory_used;
    uint64_t fed_rows; /* of lanes that are gone */
    uint64_t consumed_rows;
    tfos__feed_record *records;
    size_t record_count;
    size_t record_capacity;
} tfos__node_feed;

/* ---- feed.c: producers and lanes ---- */

/* The record of an attempt, which is made when its first lane is. NULL when memory is short. */
tfos__feed_record *tfos__feed_record_of(tfos__node_feed *feed, const tfos__attempt *attempt, tfos_error *error);

/* Forgets what epochs of a feed before this one have left. */
void tfos__feed_forget(tfos__node_feed *feed, uint64_t number, uint64_t epoch_before);

/* Closes the head of a lane and notes what is in it. */
void tfos__feed_seal(tfos__node *node, tfos__feed_lane *lane);

void tfos__feed_free_lane(tfos__node *node, tfos__feed_lane *lane);

/* Closes the child's end of a lane, which does not, and tells its producer. */
void tfos__feed_close_lane(tfos__feed_lane *lane);

/* Nothing more of a lane is taken: its producer sees that, and what is in it is settled when nothing can be added. */
void tfos__feed_leave_lane(tfos__node *node, tfos__feed_lane *lane);

/* Memory has become free, or the child reads another queue: whoever waits for a lane may get one. */
void tfos__feed_serve_waiting(tfos__node_feed *feed);

/* What is known of a queue, which is made if it is new: for the words of the child and of the coordinator. NULL when
 * memory is short. */
tfos__feed_queue *tfos__feed_queue_of(tfos__node_feed *feed, const char *name);

/* The coordinator has begun an epoch of a feed: producers of it may have lanes. */
tfos_status tfos__feed_begin_epoch(tfos__node_feed *feed, uint64_t number, uint64_t epoch, tfos_error *error);

/* Adds a producer. False: there are too many. */
bool tfos__feed_enlist(tfos__feed_producer *producer);

/* It has asked: gives it its lane, or lets it wait, or sends it away. */
void tfos__feed_serve(tfos__feed_producer *producer);

/* Sends it away, with a reason; or it has gone. Its lanes are fenced: what it has committed stays. */
void tfos__feed_refuse(tfos__feed_producer *producer, uint32_t flags, const char *why);
void tfos__feed_lose(tfos__feed_producer *producer);

/* Accepts a connection, which does not block; -1: there is none, or the process has as many files as it may have. Then
 * nobody is accepted before the next beat: those who wait in line would wake us without end. */
int tfos__feed_accept(uv_poll_t *poll, int listener);
void tfos__feed_accept_again(tfos__node_feed *feed);

/* ---- feed_near.c: producers of this machine ---- */

tfos_status tfos__feed_listen_near(tfos__node *node, tfos_error *error);

/* Accepts again, after a pause. */
void tfos__feed_open_near(tfos__node_feed *feed);

/* ---- feed_settle.c: what has become of rows ---- */

/* A lane was sealed: what was consumed is said now, or when it is. */
void tfos__feed_watch(tfos__node *node, tfos__feed_lane *lane);

/* What is left in a lane is not consumed any more. */
void tfos__feed_settle(tfos__node *node, tfos__feed_lane *lane);

/* ---- feed_door.c: who comes from elsewhere ---- */

/* Listens on one of these ports, or on any. Needs the cluster key. */
tfos_status tfos__feed_listen_far(tfos__node *node, const char *ports, tfos_error *error);

/* Accepts again, after a pause. */
void tfos__feed_open_door(tfos__node_feed *feed);

/* ---- feed_far.c: producers elsewhere ---- */

tfos_status tfos__feed_begin_far(tfos__node *node, tfos_error *error);

/* Takes over a connection whose other end has the key, and what it has said so far. */
void tfos__feed_receive_visitor(tfos__node *node, int socket, tfos__tls *tls, tfos__buffer *plain);

/* ---- feed_child.c: the child, and what the coordinator has to say to it ---- */

/* Queues a packet for the child. Copies of the descriptors travel; the caller keeps its own. */
tfos_status tfos__feed_tell_child(tfos__node_feed *feed, const tfos__packet *packet, const int *fds, size_t count,
                                  tfos_error *error);

#endif
