/* A node from inside: what the files node_*.c share. All of it belongs to the thread of the loop. */
#ifndef TFOS_NODE_STATE_H
#define TFOS_NODE_STATE_H

#include <uv.h>

#include "node/environment.h"
#include "node/gpu.h"
#include "node/keeper.h"
#include "node/log_journal.h"
#include "node/node.h"
#include "node/port.h"
#include "node/usage.h"
#include "service/history.h"
#include "service/link.h"

enum {
    TFOS__NODE_ORDERS_MS = 60000,       /* how long orders may take to come */
    TFOS__NODE_REFUSALS = 3,            /* connections that nobody takes, in a row: the coordinator is gone */
    TFOS__NODE_BYE_MS = 10000,          /* how long the coordinator may take to answer ENDED … */
    TFOS__NODE_BYE_ORPHAN_MS = 2000,    /* … when the executor is dead */
    TFOS__NODE_DRAIN_MS = 1000,         /* output of a dead child that somebody still holds open */
    TFOS__NODE_CLEAR_MS = 5000,         /* processes that do not die */
    TFOS__NODE_CANCEL_MS = 300,         /* from the end of stdin until it is believed to be a cancelled task */
    TFOS__NODE_POLL_MS = 200,           /* between two looks at the executor without pidfd */
    TFOS__NODE_UNSEEN_BYTES = 4 << 20,  /* log messages that were not acknowledged; beyond, lines are dropped */
    TFOS__NODE_REPORT_BYTES = 8 << 20,  /* one line of the child's report */
    TFOS__NODE_HISTORY_ROWS = 1024,     /* of a program's reports */
    TFOS__NODE_PIECE_BYTES = 256 << 10, /* of a result that is sent at a time */
    TFOS__NODE_RESULT_MS = 2000,        /* for the rest of a result when the cluster is being stopped */
    TFOS__NODE_TOOL_MS = 10000,         /* all that is asked of nvidia-smi */
    TFOS__NODE_TOOL_BYTES = 1 << 20,    /* … and what it may print */
    TFOS__NODE_TENSORBOARD_MS = 180000, /* until TensorBoard answers */
};

typedef enum tfos__node_phase {
    TFOS__LIFE_ASKING,    /* which GPUs are there */
    TFOS__LIFE_JOINING,   /* no role yet */
    TFOS__LIFE_STARTING,  /* the keeper was told to start the child */
    TFOS__LIFE_CHILD,     /* the child runs, or what is left of it is being cleared */
    TFOS__LIFE_REPORTING, /* all is gone; the coordinator is to know */
    TFOS__LIFE_DONE,
} tfos__node_phase;

/* Why the node ends, if not because its child did; a later one replaces an earlier one. */
typedef enum tfos__node_cause {
    TFOS__CAUSE_NONE,
    TFOS__CAUSE_STOP,        /* the coordinator, or SIGTERM */
    TFOS__CAUSE_CANCELLED,   /* stdin ended */
    TFOS__CAUSE_STALLED,     /* the program does not show that it lives */
    TFOS__CAUSE_EXECUTOR,    /* it died */
    TFOS__CAUSE_REFUSED,     /* by the coordinator */
    TFOS__CAUSE_COORDINATOR, /* it is gone */
} tfos__node_cause;

typedef enum tfos__node_stage {
    TFOS__STAGE_NONE,
    TFOS__STAGE_GRACE,
    TFOS__STAGE_TERM,
    TFOS__STAGE_KILL
} tfos__node_stage;

/* A LOG message that the coordinator may not have. */
typedef struct tfos__unseen {
    struct tfos__unseen *next;
    uint64_t sequence;
    int stream;
    size_t count;
    char text[];
} tfos__unseen;

/* Output that is read to its end. */
typedef struct tfos__node_output {
    uv_pipe_t pipe;
    tfos__journal_source source;
    bool open;
} tfos__node_output;

typedef struct tfos__node {
    uv_loop_t loop;
    tfos__orders orders;
    tfos__assignment assignment;
    bool assigned;
    tfos__node_phase phase;
    tfos__node_exit exit;

    /* Settings. */
    int64_t beat_ms;
    int64_t lease_ms;
    int64_t kill_ms;

    tfos__keeper keeper;
    uv_poll_t keeper_poll;
    bool keeper_dead;
    uv_timer_t sweep_timer; /* kills what a dead keeper has left us … */
    uint64_t sweep_ms;      /* … since then */
    tfos__processes scratch;

    /* What is watched. */
    pid_t executor_pid;
    uint64_t executor_start;
    uv_poll_t executor_poll;
    uv_timer_t executor_timer;
    bool executor_dead;
    uv_poll_t input_poll;
    uv_timer_t cancel_timer;
    bool detached;
    uv_signal_t term_signal;

    tfos__port port;
    char gpus[4097];
    char gpu_source[65];

    /* nvidia-smi. */
    struct {
        char path[PATH_MAX];
        int step;
        uv_pipe_t pipe;
        bool pipe_open;
        bool running;
        int status;
        bool over;
        uv_timer_t timer;
        tfos__buffer text;
        tfos__gpus found;
    } tool;

    /* The connection to the coordinator. */
    tfos__tls_context *tls;
    tfos__link *link;
    bool link_ready;
    bool connected; /* it was, at least once */
    bool known;     /* the coordinator has answered as to one that is registered */
    int failures;
    int refusals;
    uv_timer_t retry_timer;
    uv_timer_t beat_timer;
    uint64_t heard_ms;
    uint64_t beats_sent;
    tfos__processes known_below; /* whose usage the beats tell */
    uint64_t beats_answered;
    uint64_t mark_beat;     /* when this beat is answered … */
    uint64_t mark_sequence; /* … messages up to this one have arrived */
    tfos__unseen *unseen;
    tfos__unseen **unseen_end;
    size_t unseen_bytes;
    uint64_t sequence;

    /* Output. */
    tfos__journal *journal;
    uv_timer_t journal_timer;
    tfos__node_output output[TFOS__JOURNAL_SOURCES];

    /* The child. */
    pid_t child_pid;
    bool child_ended; /* it was waited for: child_status */
    bool child_over;  /* it has ended, or could not be started */
    int child_status;
    char child_problem[TFOS_ERROR_MESSAGE_BYTES]; /* why it was not started */
    char child_program[256];
    bool gone; /* nothing is left below the keeper */
    tfos__memory_state memory_before;
    bool memory_killed;
    uint64_t memory_limit;
    uint64_t rss_bytes; /* last seen */
    uv_pipe_t report_pipe;
    bool report_open; /* until its end was read: the traceback must not come too late */
    tfos__buffer report;
    char *raised; /* the traceback */
    uv_timer_t drain_timer;

    /* TensorBoard. */
    struct {
        tfos__port port;
        pid_t pid;
        char url[512];
        bool answered;
        uv_timer_t timer;
        uv_tcp_t probe;
        uv_connect_t connect;
        bool probing;
        unsigned tries;
        uint64_t since_ms;
    } tensorboard;

    struct tfos__node_feed *feed; /* NULL: not fed by Spark */

    /* The program and those that it computes with. */
    struct {
        tfos__link *child;  /* NULL: there is none, or it has closed it */
        tfos__buffer asked; /* MEET, until it is answered */
        bool pulses;        /* the program shows that it lives … */
        uint64_t pulse_ms;  /* … and did last then */
        uint64_t checked_ms;
        uint8_t key[TFOS__KEY_BYTES];
    } group;

    /* How the program gets on, and what it leaves behind. */
    struct {
        tfos__history history;
        bool by_epoch;      /* … has ends of epochs alone */
        tfos__report held;  /* the newest report that was not passed on … */
        bool holds;         /* … if there is one */
        uv_timer_t timer;   /* … and is passed on then */
        uint64_t every_ms;  /* between two that are */
        tfos__buffer said;  /* the last that was, as JSON */
        uint64_t sequence;  /* … and its number */
        uint64_t said_ms;   /* since when steps and rows are counted, for rates … */
        double said_step;   /* … from here … */
        double said_rows;   /* … and here */
        int64_t most_bytes; /* that the program may return … */
        int file;           /* … and puts here */
        size_t value_bytes; /* so many */
        char *problem;      /* why it has not; NULL: it could */
        tfos__buffer body;  /* of the result: its head and the value */
        size_t head_bytes;
        size_t seen; /* bytes of it that have arrived */
        bool sending;
    } result;

    /* The end. */
    tfos__node_cause cause;
    char cause_text[TFOS_ERROR_MESSAGE_BYTES];
    tfos__node_stage stage;
    uint64_t stop_ms; /* when the next stage begins */
    uv_timer_t stop_timer;
    tfos__outcome outcome;
    char *outcome_text;
    tfos__buffer tail;
    uv_timer_t bye_timer;
} tfos__node;

/* ---- node.c ---- */

/* A line of our own: to stderr, and into the log. */
void tfos__node_note(tfos__node *node, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Stops the child, or ends a node that has none: SIGTERM after `grace_ms`, SIGKILL to all later. A call with a shorter
 * grace than what is left shortens it. */
void tfos__node_stop(tfos__node *node, tfos__node_cause cause, uint64_t grace_ms, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Kills everything at once. */
void tfos__node_kill(tfos__node *node, tfos__node_cause cause, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Something that may have been the last thing to wait for has happened. */
void tfos__node_look_whether_gone(tfos__node *node);

/* The last word: how the program ended. */
void tfos__node_report_end(tfos__node *node);

/* The coordinator knows how it ended, or never will. */
void tfos__node_done(tfos__node *node, tfos__node_exit code);

/* The loop stops, the process ends. */
void tfos__node_leave(tfos__node *node);

/* ---- watch.c: the executor, stdin, SIGTERM, the keeper ---- */

tfos_status tfos__node_watch_begin(tfos__node *node, tfos_error *error);

/* ---- gpus.c ---- */

/* Finds out which GPUs are there; tfos__node_join follows. */
void tfos__node_gpus_begin(tfos__node *node);
void tfos__node_gpus_event(tfos__node *node, const tfos__keeper_event *event);

/* ---- control.c ---- */

void tfos__node_join(tfos__node *node);
void tfos__node_send(tfos__node *node, const tfos__message *message);
void tfos__node_send_state(tfos__node *node, tfos__node_state state);
void tfos__node_send_ended(tfos__node *node);
void tfos__node_send_tensorboard(tfos__node *node);

/* A heartbeat out of turn, if there is a connection. */
void tfos__node_beat(tfos__node *node);

/* Hands a log message to the link and keeps it until it was acknowledged. */
void tfos__node_send_log(void *context, int stream, const char *text, size_t count);

/* ---- child.c ---- */

void tfos__node_child_begin(tfos__node *node);
void tfos__node_child_event(tfos__node *node, const tfos__keeper_event *event);

/* Makes a pipe whose read end feeds the journal; the other end is for whoever writes. -1 after a failure. */
int tfos__node_output_open(tfos__node *node, tfos__journal_source source);
void tfos__node_output_close(tfos__node *node, tfos__journal_source source);
void tfos__node_report_close(tfos__node *node);
void tfos__node_journal_schedule(tfos__node *node);

/* ---- feed.c: lanes between producers and the child ---- */

/* Opens the socket where producers ask for lanes. */
tfos_status tfos__node_feed_begin(tfos__node *node, tfos_error *error);

/* Makes the socket of the child; returns the child's end, or -1. */
int tfos__node_feed_child(tfos__node *node, tfos_error *error);

/* The child has ended: nothing is consumed any more. */
void tfos__node_feed_end(tfos__node *node);

/* Says what every attempt has fed here; before ENDED, behind which nobody can be asked. */
void tfos__node_feed_say_all(tfos__node *node);

/* Says what producers elsewhere are to hear before the node exits, for a moment; after the loop has ended. */
void tfos__feed_leave_far(tfos__node *node);

/* Adds how many rows the program was fed, has taken and never will take. */
void tfos__node_feed_count(const tfos__node *node, tfos__message *message);

/* Fills in what REGISTER and BEAT say of the feed. The texts live until the next call. */
void tfos__node_feed_register(const tfos__node *node, tfos__message *message);
void tfos__node_feed_beat(tfos__node *node, tfos__message *message);

/* What was said of settled rows and may not have arrived is said again. */
void tfos__node_feed_say_again(tfos__node *node);

/* A beat is sent by whose answer we know that what was said before it has arrived; and it was answered. */
void tfos__node_feed_mark(tfos__node *node);
void tfos__node_feed_answered(tfos__node *node);

/* EPOCH, FENCE, MARK, SCHEMA, FEED_CLOSE and END_OF_FEED of the coordinator. */
void tfos__node_feed_hear(tfos__node *node, const tfos__message *message);

/* ---- group.c: the program and those that it computes with ---- */

/* Needs the cluster key. */
tfos_status tfos__node_group_begin(tfos__node *node, tfos_error *error);

/* Makes the socket of the child; returns the child's end, or -1. */
int tfos__node_group_child(tfos__node *node, tfos_error *error);

/* The child has ended. */
void tfos__node_group_end(tfos__node *node);

/* MET and NOT_MET of the coordinator. */
void tfos__node_group_hear(tfos__node *node, const tfos__message *message);

/* What the coordinator may not have heard is said again. */
void tfos__node_group_say_again(tfos__node *node);

/* Kills a program that computes with others and has stood still for longer than the lease. */
void tfos__node_group_check(tfos__node *node);

/* ---- result.c: how the program gets on, and what it leaves behind ---- */

tfos_status tfos__node_result_begin(tfos__node *node, tfos_error *error);

/* The file for what the program returns, which the caller closes; -1 after a failure. */
int tfos__node_result_file(tfos__node *node);

/* The events "progress" and "returned" of the program. */
void tfos__node_take_progress(tfos__node *node, struct json_object *report);
void tfos__node_take_returned(tfos__node *node, struct json_object *report);

/* The program has ended: begins to send what it has left behind. False: there is nothing. tfos__node_report_end follows
 * when it has arrived. */
bool tfos__node_result_send(tfos__node *node);

/* RESULT_SEEN of the coordinator. */
void tfos__node_result_hear(tfos__node *node, const tfos__message *message);

/* What may not have arrived is sent again. */
void tfos__node_result_say_again(tfos__node *node);

/* The cluster is being stopped: what does not arrive soon is given up. */
void tfos__node_result_hurry(tfos__node *node);

/* ---- end.c: how it ended, in words ---- */

void tfos__node_decide_outcome(tfos__node *node);

/* ---- tensorboard.c ---- */

void tfos__node_tensorboard_begin(tfos__node *node, const tfos__words *environment);
void tfos__node_tensorboard_event(tfos__node *node, const tfos__keeper_event *event);

#endif
