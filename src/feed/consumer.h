/* The consumer from inside: what its files share. All of it is guarded by the lock of the intake. */
#ifndef TFOS_FEED_CONSUMER_H
#define TFOS_FEED_CONSUMER_H

#include <pthread.h>
#include <sys/types.h>

#include "column/batch.h"
#include "feed/bell.h"
#include "feed/lane_rows.h"
#include "feed/packet.h"

typedef struct tfos__taken_lane {
    struct tfos__taken_lane *next;
    tfos__lane *lane;
    tfos__lane *results;  /* of inference; NULL otherwise */
    tfos__bell *producer; /* rung when there is room, or results */
    uint64_t marks;       /* that came before it */
    uint64_t unanswered;  /* rows that were taken and have no result yet */
    bool drained;         /* no more rows come; it is kept for the results */
    tfos_schema *schema;
    bool reading; /* `entry` was begun: its rows before `row` were taken */
    tfos__entry entry;
    int64_t row;
    tfos__entry_views views;
    tfos__lane_writer writer; /* of the results */
} tfos__taken_lane;

/* Rows that were handed out together, whose results are expected in this order. */
typedef struct tfos__answer {
    tfos__taken_lane *lane; /* NULL: its task is gone, the results are not wanted */
    uint64_t rows;
} tfos__answer;

typedef struct tfos__queue {
    struct tfos__queue *next;
    char name[TFOS__QUEUE_BYTES];
    tfos__taken_lane *lanes;
    tfos__taken_lane *current; /* the one to go on with; NULL: the first */
    size_t lane_count;
    uint64_t marks_received;
    uint64_t marks_passed;
    bool ended;     /* no more lanes come */
    bool dropped;   /* … and rows that are in lanes are not wanted */
    bool taking;    /* a thread is in tfos_feed_next */
    bool answering; /* … in tfos_feed_put_results */
    bool announced; /* the node knows that somebody reads it */
    tfos_schema *schema;

    /* The batch that is being filled; it outlives a call that fails. */
    tfos_batch *batch;
    int64_t batch_rows;
    tfos__batch_pool *pool;
    tfos_schema *pool_schema; /* of its batches: that which was asked for … */
    bool pool_as_fed;         /* … or, if this is set, that of the lanes */

    tfos__answer *answers;
    size_t answer_first;
    size_t answer_count; /* behind the last */
    size_t answer_capacity;
} tfos__queue;

/* What a process has of the feed. */
typedef struct tfos__intake {
    pthread_mutex_t lock;
    pthread_cond_t left; /* a call that others of its queue wait for has ended */
    int socket;
    pid_t owner; /* a fork of it has no part in the feed */
    tfos__bell *bell;
    tfos__bell *node; /* to be rung when we begin to starve; NULL: nobody wants to know */
    bool ended;
    size_t hungry; /* threads that wait for rows */
    tfos__queue *queues;
    tfos_error failure;  /* what the node sent could not be taken: rows would be missing, so every call fails */
    size_t lanes;        /* of all queues */
    tfos__lane_id *done; /* lanes that were left, of which the node does not know yet */
    size_t done_count;
    size_t done_capacity;
} tfos__intake;

struct tfos_feed {
    tfos__intake *intake;
    tfos__queue *queue;
};

/* A queue as it can be looked at. */
typedef struct tfos__queue_view {
    uint64_t marks_received; /* epochs that have ended … */
    uint64_t marks_passed;   /* … and whose end the program has come to */
    size_t answers;          /* places in memory for rows that may have to be answered */
} tfos__queue_view;

void tfos__feed_view(const tfos_feed *feed, tfos__queue_view *out);

/* ---- consumer_intake.c ---- */

/* The intake of this process, made at the first call from TFOS_FEED_FD. NOT_FOUND when there is none. */
tfos_status tfos__intake_get(tfos__intake **out, tfos_error *error);

/* An intake around a socket, for tests; the socket is the intake's from then on. */
tfos_status tfos__intake_new(int socket, tfos__intake **out, tfos_error *error);
void tfos__intake_free(tfos__intake *intake);

/* UNSUPPORTED in a fork of the process that the feed belongs to. Before the lock is taken: it may have been held when
 * the process was forked. */
tfos_status tfos__intake_check_owner(const tfos__intake *intake, tfos_error *error);

/* Reads what the node has sent. IO when it is gone. */
tfos_status tfos__intake_pump(tfos__intake *intake, tfos_error *error);

/* The queue of a name; NULL when memory is short. */
tfos__queue *tfos__intake_queue(tfos__intake *intake, const char *name, tfos_error *error);

/* What the caller has set, and the defaults. `from` NULL: the defaults. */
tfos_status tfos__feed_want_take(const tfos_feed_want *from, tfos_feed_want *out, tfos_error *error);

/* Waits until *busy is false, which another thread sees to, and sets it. CANCELLED as soon as `want` says
 * so. */
tfos_status tfos__intake_enter(tfos__intake *intake, bool *busy, const tfos_feed_want *want, tfos_error *error);
void tfos__intake_exit(tfos__intake *intake, bool *busy);

/* Whether a caller must not be kept waiting any longer: CANCELLED. Gives up the lock meanwhile: what decides that may
 * use the feed itself, as the handler of a signal does. */
tfos_status tfos__intake_look_at(tfos__intake *intake, const tfos_feed_want *want, int64_t deadline, tfos_error *error);

/* Sleeps, without the lock, until the bell is rung after `seen` was read, or for a moment. */
void tfos__intake_wait(tfos__intake *intake, uint32_t seen);

/* Whether the task behind a lane takes no results any more. */
bool tfos__intake_is_unwanted(const tfos__taken_lane *lane);

/* Leaves a lane: nothing more is taken from it. */
void tfos__intake_leave(tfos__intake *intake, tfos__queue *queue, tfos__taken_lane *lane);

/* Nothing more is taken from the queue. */
void tfos__intake_end(tfos__intake *intake, tfos__queue *queue, bool drop);

tfos_status tfos__intake_tell(tfos__intake *intake, const tfos__packet *packet, tfos_error *error);

/* A handle of a queue of this intake. */
tfos_status tfos__feed_new(tfos__intake *intake, const char *queue, tfos_feed **out, tfos_error *error);

#endif
