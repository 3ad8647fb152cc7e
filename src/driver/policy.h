/* The policy: the mind of a driver. It knows which attempt of a cluster runs, who waits for what and how far each feed
 * is, and decides what is to be done next.
 *
 * It has no sockets, no clock and no Spark: it is told what happened and what time it is (milliseconds that only grow),
 * and is asked for deeds, one after the other, so a test can play any story in no time. */
#ifndef TFOS_DRIVER_POLICY_H
#define TFOS_DRIVER_POLICY_H

#include "tfos.h"

typedef struct tfos__policy tfos__policy;

typedef struct tfos__policy_options {
    int32_t nodes;
    int32_t here; /* of these: children of the driver */
    int32_t restarts;
    bool spark_feeds; /* InputMode.SPARK */
} tfos__policy_options;

/* What is to be done. */
typedef enum tfos__deed_kind {
    TFOS__DEED_OPEN,        /* the coordinator of attempt `number`; then tfos__policy_opened or tfos__policy_refused */
    TFOS__DEED_SPAWN,       /* the node `number` on this machine; tfos__policy_refused if that fails */
    TFOS__DEED_SLOTS,       /* tell the coordinator how many slots there are */
    TFOS__DEED_STOP,        /* … every node, because of `text` */
    TFOS__DEED_FINISH,      /* … `number` ms after the last worker */
    TFOS__DEED_END_FEEDS,   /* … that no feed follows */
    TFOS__DEED_ASK,         /* … to tell the status */
    TFOS__DEED_OPEN_FEED,   /* … of `feed`, with `options` */
    TFOS__DEED_BEGIN_EPOCH, /* … `epoch` of `feed` */
    TFOS__DEED_END_EPOCH,
    TFOS__DEED_CLOSE_FEED,
    TFOS__DEED_CLOSE, /* the coordinator */
    TFOS__DEED_ORDER, /* for the shell; the ticket of START_NODES, and of `feed` and `epoch` with FEED and of a feed
                       * that was opened, is to be put in */
} tfos__deed_kind;

typedef struct tfos__deed {
    tfos__deed_kind kind;
    int64_t number;
    uint64_t feed;
    uint64_t epoch;
    tfos_feed_options options; /* its queue is in `text` */
    tfos_order order;          /* its text is `text` */
    char *text;                /* NULL, or owned */
} tfos__deed;

tfos_status tfos__policy_new(const tfos__policy_options *options, uint64_t now_ms, tfos__policy **out,
                             tfos_error *error);
void tfos__policy_free(tfos__policy *policy);

/* The next deed, to be given up with tfos__deed_reset. END: there is none now. NO_MEMORY: one was lost. */
tfos_status tfos__policy_take(tfos__policy *policy, tfos__deed *out, tfos_error *error);
void tfos__deed_reset(tfos__deed *deed);

/* When time alone makes a difference; UINT64_MAX: never. */
uint64_t tfos__policy_deadline(const tfos__policy *policy);
void tfos__policy_tick(tfos__policy *policy, uint64_t now_ms);

/* Whether the cluster is over for good and nobody waits for anything. */
bool tfos__policy_is_idle(const tfos__policy *policy);

/* Whether its nodes hold task slots of Spark for as long as they run, or until they are there. */
bool tfos__policy_holds_slots(const tfos__policy *policy);
bool tfos__policy_is_ready(const tfos__policy *policy);

/* ---- what has happened ---- */

void tfos__policy_opened(tfos__policy *policy, const char *url, uint64_t now_ms);

/* The coordinator, or a node on this machine, cannot be started: no other attempt is worth its while. */
void tfos__policy_refused(tfos__policy *policy, const tfos_error *why, uint64_t now_ms);

/* The coordinator is gone. */
void tfos__policy_gone(tfos__policy *policy, const tfos_error *why, uint64_t now_ms);

void tfos__policy_hear(tfos__policy *policy, const tfos_cluster_event *event, uint64_t now_ms);

void tfos__policy_see_spark(tfos__policy *policy, const tfos_spark_view *view, uint64_t now_ms);
void tfos__policy_see_job(tfos__policy *policy, uint64_t job, const char *failure, uint64_t now_ms);
void tfos__policy_see_context_end(tfos__policy *policy, const char *how, uint64_t now_ms);

/* Why the nodes are stopped then. */
enum { TFOS__POLICY_REASON_BYTES = 256 };
void tfos__policy_name_context_end(const char *how, char out[TFOS__POLICY_REASON_BYTES]);

/* ---- what is asked for; the options of feeds are right ---- */

tfos_status tfos__policy_await_nodes(tfos__policy *policy, uint64_t now_ms, uint64_t *call, tfos_error *error);
tfos_status tfos__policy_feed(tfos__policy *policy, const tfos_feed_call *options, uint64_t now_ms, uint64_t *call,
                              tfos_error *error);
tfos_status tfos__policy_open_feed(tfos__policy *policy, const tfos_feed_options *options, uint64_t now_ms,
                                   uint64_t *call, tfos_error *error);
tfos_status tfos__policy_finish(tfos__policy *policy, int64_t grace_ms, int64_t timeout_ms, uint64_t now_ms,
                                uint64_t *call, tfos_error *error);
tfos_status tfos__policy_ask_status(tfos__policy *policy, uint64_t now_ms, uint64_t *call, tfos_error *error);
tfos_status tfos__policy_await_tensorboard(tfos__policy *policy, uint64_t now_ms, uint64_t *call, tfos_error *error);
tfos_status tfos__policy_ask_results(tfos__policy *policy, uint64_t now_ms, uint64_t *call, tfos_error *error);

/* A copy of what the program of a node returned in an attempt of the cluster; NULL and 0 if there is nothing, or not
 * all of it has come. The caller frees it. */
tfos_status tfos__policy_copy_value(const tfos__policy *policy, int32_t index, int32_t attempt, uint8_t **out,
                                    size_t *count, tfos_error *error);
void tfos__policy_abandon(tfos__policy *policy, uint64_t call, uint64_t now_ms);
void tfos__policy_stop(tfos__policy *policy, const char *reason, uint64_t now_ms);

#endif
