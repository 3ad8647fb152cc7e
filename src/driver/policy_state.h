/* The inside of the policy, for the files that make it up. */
#ifndef TFOS_DRIVER_POLICY_STATE_H
#define TFOS_DRIVER_POLICY_STATE_H

#include <sys/queue.h>

#include "base/bytes.h"
#include "driver/policy.h"

/* Why something has failed. */
typedef struct tfos__failure {
    tfos_status status; /* OK: it has not */
    tfos_fault fault;
    char *text; /* owned */
    uint64_t cause;
} tfos__failure;

typedef enum tfos__stage {
    TFOS__STAGE_LOOKING,  /* at Spark, before the coordinator is opened, or not opened again */
    TFOS__STAGE_OPENING,  /* the coordinator */
    TFOS__STAGE_STARTING, /* nodes are waited for */
    TFOS__STAGE_RUNNING,
    TFOS__STAGE_CLOSING, /* the coordinator is gone, the tasks that started the nodes have yet to end */
    TFOS__STAGE_OVER,
} tfos__stage;

/* What was heard of a feed, from an attempt of the cluster. */
typedef struct tfos__heard {
    tfos_feed_state end; /* TERMINATED, FINISHED, ENDED or FAILED; else NONE */
    tfos__failure failure;
    tfos__failure abandoned; /* the last attempt at a partition that was given up */
    /* Counts of epochs, from the first on: */
    uint64_t begun;
    uint64_t exhausted; /* every row of them is in a lane */
    uint64_t settled;   /* … and in none any more */
    uint64_t consumed;  /* … because it was taken */
} tfos__heard;

/* One of the data sets that a call feeds in turn. */
typedef struct tfos__turn {
    tfos_feed_options options;
    char queue[64];
    uint64_t feed;     /* 0: it has yet to be opened in this attempt of the cluster */
    uint64_t consumed; /* epochs that were before this attempt */
    tfos__heard heard;
} tfos__turn;

typedef enum tfos__call_kind {
    TFOS__CALL_NODES,
    TFOS__CALL_FEED,
    TFOS__CALL_TICKET,
    TFOS__CALL_FINISH,
    TFOS__CALL_STATUS,
    TFOS__CALL_TENSORBOARD,
    TFOS__CALL_RESULTS,
} tfos__call_kind;

/* How far a call is that feeds. */
typedef enum tfos__feeding {
    TFOS__FEEDING_WAITS,     /* for the nodes */
    TFOS__FEEDING_BEGINS,    /* an epoch: for the coordinator's word that it may be fed */
    TFOS__FEEDING_RUNS,      /* its job */
    TFOS__FEEDING_CANCELS,   /* its job */
    TFOS__FEEDING_EXHAUSTS,  /* the job has ended: for the word that every row is in a lane */
    TFOS__FEEDING_SETTLES,   /* all epochs were fed: for the word that every row was taken */
    TFOS__FEEDING_JUDGES,    /* something has failed: is it the cluster that has, or starts again? */
    TFOS__FEEDING_ASKS_WORD, /* … and does the coordinator still answer? */
} tfos__feeding;

enum { TFOS__TURNS_MOST = 2 };

typedef struct tfos__call {
    TAILQ_ENTRY(tfos__call) among_calls;
    uint64_t number;
    tfos__call_kind kind;
    uint64_t deadline_ms; /* UINT64_MAX: none */
    uint64_t status_seen; /* how many answers there were before it asked */
    bool late;            /* FINISH: it has taken too long */
    int64_t timeout_ms;

    /* Of calls that feed: */
    tfos__feeding feeding;
    tfos__turn turns[TFOS__TURNS_MOST];
    size_t turn_count;
    int64_t epochs;
    bool stream;
    uint64_t step;   /* epochs of all turns, one after the other */
    int32_t attempt; /* of the cluster, to which the feeds belong; -1: none was opened yet */
    uint64_t job;
    bool job_ended;
    tfos__failure job_failure;
    uint64_t judged_ms;
    tfos__failure verdict; /* unless it was the cluster */
    bool patient;          /* the cluster has failed, by its own word: it will be over, or start again */
} tfos__call;

TAILQ_HEAD(tfos__call_list, tfos__call);

/* A queue whose last data was not fed. */
typedef struct tfos__unfed {
    TAILQ_ENTRY(tfos__unfed) among_unfed;
    char queue[64];
    uint64_t call;
    char *text;
} tfos__unfed;

TAILQ_HEAD(tfos__unfed_list, tfos__unfed);

/* What is known of a node, and what its program has left behind. */
typedef struct tfos__node_result {
    char *node; /* "worker:1"; NULL: it has not come */
    char *host;
    char *state;
    char *ended;       /* how */
    tfos__buffer body; /* pieces, as far as they have come: JSON, then the value */
    uint64_t head_bytes;
    uint64_t value_bytes;
} tfos__node_result;

struct tfos__policy {
    tfos__policy_options options;
    tfos__stage stage;
    int32_t attempt;
    bool ready;
    bool submitted; /* the job that starts the nodes was ordered and its end was not reported */
    uint32_t looks; /* that were ordered and not reported */
    uint64_t looked_ms;
    tfos__failure failure;  /* the first of this attempt */
    bool hopeless;          /* … which another one would meet again: a command that is not there, say */
    tfos__failure error;    /* what the cluster has failed with in the end */
    char *stop_reason;      /* NULL: nobody has asked for the end */
    char *context_end;      /* NULL: the Spark context runs */
    bool context_end_noted; /* … while the cluster ran */
    char *url;
    bool finishing;
    int64_t grace_ms;
    uint64_t status_count; /* answers so far */
    char *status;
    char *tensorboard;
    tfos__node_result *results; /* of each node; NULL: none has come */
    struct tfos__call_list calls;
    struct tfos__unfed_list unfed;
    uint64_t last_number; /* of calls and jobs */
    uint64_t last_feed;
    uint64_t now_ms;
    tfos__deed *deeds;
    size_t deed_first;
    size_t deed_count; /* behind the last */
    size_t deed_capacity;
    bool deeds_lost;
    bool advancing; /* calls are being looked at */
};

/* ---- policy.c ---- */

/* A copy of the text for the failure to own. */
void tfos__failure_set(tfos__failure *failure, tfos_status status, tfos_fault fault, const char *text, uint64_t cause);
void tfos__failure_reset(tfos__failure *failure);

/* Adds a deed; `text` is copied. */
void tfos__policy_do(tfos__policy *policy, tfos__deed deed, const char *text);
void tfos__policy_order(tfos__policy *policy, tfos_order order, const char *text);

/* Whether the coordinator is there to be told something; and a deed that is for it, if it is. */
bool tfos__policy_has_coordinator(const tfos__policy *policy);
void tfos__policy_tell(tfos__policy *policy, tfos__deed deed, const char *text);

/* Tells it that the cluster is to come to its end: of feeds at any time, of nodes when they are there. */
void tfos__policy_tell_finish(tfos__policy *policy);

/* ---- policy_call.c ---- */

tfos__call *tfos__call_new(tfos__policy *policy, tfos__call_kind kind, tfos_error *error);
void tfos__call_free(tfos__policy *policy, tfos__call *call);

/* The outcome; the call is gone then. */
void tfos__call_done(tfos__policy *policy, tfos__call *call, tfos_call_outcome outcome, const char *text);
void tfos__call_fail(tfos__policy *policy, tfos__call *call, const tfos__failure *failure);

/* Looks at every call: something has changed, or time has passed. */
void tfos__calls_advance(tfos__policy *policy);

/* ---- policy_result.c ---- */

/* NODE and RESULT of this attempt; and the end of what is known of it. */
void tfos__policy_results_hear_node(tfos__policy *policy, const tfos_cluster_event *event);
void tfos__policy_results_hear(tfos__policy *policy, const tfos_cluster_event *event);
void tfos__policy_results_forget(tfos__policy *policy);

/* An order for each node, and the end of the call. */
void tfos__policy_results_tell(tfos__policy *policy, tfos__call *call);

/* ---- policy_feed.c ---- */

/* Goes on with a call that feeds, as far as it can. */
void tfos__feeding_advance(tfos__policy *policy, tfos__call *call);

/* A feed has come so far. */
void tfos__feeding_hear(tfos__policy *policy, const tfos_cluster_event *event);

/* When it is to be looked at again, if nothing happens; UINT64_MAX: never. */
uint64_t tfos__feeding_deadline(const tfos__call *call);

void tfos__feeding_reset(tfos__call *call);

/* Tells the coordinator that nothing more comes of what the call has fed. */
void tfos__feeding_close(tfos__policy *policy, const tfos__call *call);

/* The queue was fed well or, if `failure` is given, was not. */
void tfos__unfed_note(tfos__policy *policy, const char *queue, uint64_t call, const tfos__failure *failure);

#endif
