/* Feeding, on the driver: one epoch after the other, each in a Spark job of its own; between two of the data, one of
 * what it is validated with. The next begins when every row of one is on its way, and the last is waited for until it
 * was taken.
 *
 *   waits ── begins ── runs ──┬────────── exhausts ──┬── the next epoch: waits …
 *                             └─ cancels ─┘          └── settles ── done
 *
 * Whatever fails on the way is judged: if the cluster has failed, that is the cause, and the cluster may start again.
 * Then feeding goes back to the first epoch whose rows were not all taken. Only the ledger knows which; that Spark has
 * fed them proves nothing. */
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "driver/policy_state.h"

enum {
    PATIENCE_MS = 10000,     /* for a cluster to say that it has failed, when a job has … */
    PATIENCE_TOLD_MS = 1000, /* … whose code or data has, by its own word: then it is hardly the cluster */
};

/* ---- what is heard ---- */

static void heard_reset(tfos__heard *heard)
{
    tfos__failure_reset(&heard->failure);
    tfos__failure_reset(&heard->abandoned);
    *heard = (tfos__heard){.end = TFOS_FEED_STATE_NONE};
}

void tfos__feeding_reset(tfos__call *call)
{
    for (size_t i = 0; i < call->turn_count; i++) {
        heard_reset(&call->turns[i].heard);
    }
    tfos__failure_reset(&call->job_failure);
    tfos__failure_reset(&call->verdict);
}

static void hear(tfos__heard *heard, const tfos_cluster_event *event)
{
    uint64_t epochs = (uint64_t)event->total + 1;
    switch (event->feed) {
    case TFOS_FEED_STATE_NONE:
    case TFOS_FEED_STATE_OPEN:
        break;
    case TFOS_FEED_STATE_EPOCH:
        heard->begun = epochs;
        break;
    case TFOS_FEED_STATE_EXHAUSTED:
        heard->exhausted = epochs;
        break;
    case TFOS_FEED_STATE_CONSUMED:
        /* Rows that a program has left behind were not taken: none behind them counts after a restart. */
        heard->consumed = heard->consumed == heard->settled ? epochs : heard->consumed;
        heard->settled = epochs;
        break;
    case TFOS_FEED_STATE_DROPPED:
        heard->settled = epochs;
        break;
    case TFOS_FEED_STATE_ABANDONED:
        tfos__failure_set(&heard->abandoned, event->status, event->fault, event->text, 0);
        break;
    case TFOS_FEED_STATE_TERMINATED:
    case TFOS_FEED_STATE_FINISHED:
    case TFOS_FEED_STATE_ENDED:
    case TFOS_FEED_STATE_FAILED:
        if (heard->end == TFOS_FEED_STATE_NONE) {
            heard->end = event->feed;
            tfos__failure_set(&heard->failure, event->status, event->fault, event->text, 0);
        }
        break;
    }
}

void tfos__feeding_hear(tfos__policy *policy, const tfos_cluster_event *event)
{
    tfos__call *call;
    TAILQ_FOREACH (call, &policy->calls, among_calls) {
        for (size_t i = 0; i < call->turn_count; i++) {
            if (call->turns[i].feed != 0 && call->turns[i].feed == (uint64_t)event->count) {
                hear(&call->turns[i].heard, event);
            }
        }
    }
}

/* ---- where it stands ---- */

static tfos__turn *turn_of(tfos__call *call)
{
    return &call->turns[call->step % call->turn_count];
}

static uint64_t epoch_of(const tfos__call *call)
{
    return call->step / call->turn_count;
}

/* Every epoch was fed. */
static bool is_fed(const tfos__call *call)
{
    return call->epochs >= 0 && call->step == (uint64_t)call->epochs * call->turn_count;
}

/* Whether the attempt of the cluster that was fed is not the one that runs, or no longer does. */
static bool is_left(const tfos__policy *policy, const tfos__call *call)
{
    return policy->stage == TFOS__STAGE_OVER || policy->attempt != call->attempt;
}

/* The feed will have nothing more to tell, or its cluster will not. */
static bool is_silent(const tfos__policy *policy, const tfos__call *call, const tfos__turn *turn)
{
    return turn->heard.end != TFOS_FEED_STATE_NONE || is_left(policy, call);
}

static void tell_feed(tfos__policy *policy, tfos__deed_kind kind, uint64_t feed, uint64_t epoch)
{
    tfos__policy_tell(policy, (tfos__deed){.kind = kind, .feed = feed, .epoch = epoch}, NULL);
}

/* ---- outcomes ---- */

void tfos__feeding_close(tfos__policy *policy, const tfos__call *call)
{
    for (size_t i = 0; i < call->turn_count; i++) {
        if (call->turns[i].feed != 0 && !is_left(policy, call)) {
            tell_feed(policy, TFOS__DEED_CLOSE_FEED, call->turns[i].feed, 0);
        }
    }
}

/* Whether the end of the cluster is to tell if this was fed. */
static bool is_owed(const tfos__call *call)
{
    return call->kind == TFOS__CALL_FEED && !call->turns[0].options.inference;
}

static void succeed(tfos__policy *policy, tfos__call *call, tfos_call_outcome outcome)
{
    static const char refusal[] = "the cluster takes no more rows";
    if (call->kind == TFOS__CALL_TICKET) {
        if (outcome == TFOS_CALL_STOPPED) {
            tfos__call_fail(policy, call,
                            &(tfos__failure){.status = TFOS_CANCELLED,
                                             .fault = TFOS_FAULT_PROGRAM,
                                             .text = (char *)(uintptr_t)refusal});
        } else {
            tfos__call_done(policy, call, outcome, NULL);
        }
        return;
    }
    tfos__feeding_close(policy, call);
    if (is_owed(call) && call->attempt >= 0) { /* a batch that came too late to be fed proves nothing */
        tfos__unfed_note(policy, call->turns[0].queue, call->number, NULL);
    }
    tfos__call_done(policy, call, outcome, NULL);
}

static void give_up(tfos__policy *policy, tfos__call *call, const tfos__failure *why)
{
    /* A batch of a stream may come when the programs have ended, in good order. */
    if (call->stream && policy->stage == TFOS__STAGE_OVER && policy->error.status == TFOS_OK) {
        succeed(policy, call, TFOS_CALL_STOPPED);
        return;
    }
    tfos__feeding_close(policy, call);
    if (is_owed(call)) {
        tfos__unfed_note(policy, call->turns[0].queue, call->number, why);
    }
    tfos__call_fail(policy, call, why);
}

static void give_up_saying(tfos__policy *policy, tfos__call *call, const char *text)
{
    tfos__failure why = {.status = TFOS_OK};
    tfos__failure_set(&why, TFOS_CANCELLED, TFOS_FAULT_CLUSTER, text, 0);
    give_up(policy, call, &why);
    tfos__failure_reset(&why);
}

/* The cluster is over: as it had to be, or not. */
static void end_with_cluster(tfos__policy *policy, tfos__call *call)
{
    if (policy->error.status != TFOS_OK) {
        give_up(policy, call, &policy->error);
    } else if (call->attempt < 0 || policy->stop_reason != NULL) {
        give_up_saying(policy, call, "the cluster has ended; it cannot be fed any more");
    } else {
        succeed(policy, call, TFOS_CALL_STOPPED);
    }
}

/* ---- after a restart ---- */

/* Goes back to the first step whose rows were not all taken. */
static void rewind_feeds(const tfos__policy *policy, tfos__call *call)
{
    uint64_t consumed[TFOS__TURNS_MOST];
    for (size_t i = 0; i < call->turn_count; i++) {
        const tfos__turn *turn = &call->turns[i];
        consumed[i] = turn->heard.consumed > turn->consumed ? turn->heard.consumed : turn->consumed;
    }
    call->step = 0;
    while (!is_fed(call) && consumed[call->step % call->turn_count] > epoch_of(call)) {
        call->step++;
    }
    for (size_t i = 0; i < call->turn_count; i++) {
        call->turns[i].consumed = (call->step + call->turn_count - 1 - i) / call->turn_count;
        call->turns[i].feed = 0;
        heard_reset(&call->turns[i].heard);
    }
    tfos__failure_reset(&call->job_failure);
    tfos__failure_reset(&call->verdict);
    call->patient = false;
    call->attempt = policy->attempt;
    call->feeding = TFOS__FEEDING_WAITS;
}

/* ---- verdicts ---- */

/* Something is wrong: unless the cluster has failed, or starts again, it is this. */
static void judge(tfos__policy *policy, tfos__call *call, tfos_status status, tfos_fault fault, const char *text,
                  uint64_t cause)
{
    tfos__failure_set(&call->verdict, status, fault, text, cause);
    call->judged_ms = policy->now_ms;
    call->feeding = TFOS__FEEDING_JUDGES;
}

/* The feed has come to an end by itself, or its cluster has: why? */
static void judge_end(tfos__policy *policy, tfos__call *call, const tfos__turn *turn)
{
    const tfos__failure *failure = &turn->heard.failure;
    switch (turn->heard.end) {
    case TFOS_FEED_STATE_TERMINATED:
    case TFOS_FEED_STATE_FINISHED:
        succeed(policy, call, TFOS_CALL_STOPPED);
        return;
    case TFOS_FEED_STATE_FAILED:
        if (failure->fault == TFOS_FAULT_CLUSTER) {
            call->patient = true;
            judge(policy, call, TFOS_CANCELLED, failure->fault, failure->text, 0);
            return;
        }
        if (failure->fault == TFOS_FAULT_PROGRAM) {
            /* Its programs would not end by themselves, either. */
            tfos__policy_stop(policy, "its programs do not take what is fed to them", policy->now_ms);
        }
        give_up(policy, call,
                &(tfos__failure){.status = TFOS_CANCELLED, .fault = failure->fault, .text = failure->text});
        return;
    default:
        judge(policy, call, TFOS_CANCELLED, TFOS_FAULT_CLUSTER, "the cluster was stopped while it was being fed", 0);
        return;
    }
}

/* A job has failed, and its feed has not. What a task has told of itself says more than what Spark does. */
static void judge_job(tfos__policy *policy, tfos__call *call)
{
    judge(policy, call, TFOS_RAISED, TFOS_FAULT_AGAIN, call->job_failure.text, call->job);
}

/* How long the cluster has time to say that it was that. */
static uint64_t patience_of(const tfos__call *call)
{
    const tfos__heard *heard = &call->turns[call->step % call->turn_count].heard;
    if (call->patient) {
        return UINT64_MAX;
    }
    const tfos__failure *told = &heard->abandoned;
    bool innocent = told->status == TFOS_RAISED || (told->status != TFOS_OK && told->fault == TFOS_FAULT_FINAL);
    return innocent ? PATIENCE_TOLD_MS : PATIENCE_MS;
}

uint64_t tfos__feeding_deadline(const tfos__call *call)
{
    bool judges = call->turn_count > 0 && call->feeding == TFOS__FEEDING_JUDGES;
    uint64_t patience = judges ? patience_of(call) : UINT64_MAX;
    return patience == UINT64_MAX ? UINT64_MAX : call->judged_ms + patience;
}

/* Nothing is wrong with the cluster. */
static void pronounce(tfos__policy *policy, tfos__call *call)
{
    const tfos__heard *heard = &turn_of(call)->heard;
    if (call->verdict.status == TFOS_RAISED && heard->abandoned.status != TFOS_OK &&
        heard->abandoned.status != TFOS_RAISED) {
        tfos__failure_set(&call->verdict, TFOS_CANCELLED, heard->abandoned.fault, heard->abandoned.text,
                          call->verdict.cause);
    }
    give_up(policy, call, &call->verdict);
}

/* ---- its steps; each returns whether there is another to take now ---- */

static bool begin(tfos__policy *policy, tfos__call *call)
{
    if (policy->stage == TFOS__STAGE_OVER) {
        end_with_cluster(policy, call);
        return true;
    }
    if (is_fed(call)) {
        call->feeding = TFOS__FEEDING_SETTLES;
        return true;
    }
    if (policy->stage != TFOS__STAGE_RUNNING) {
        return false;
    }
    tfos__turn *turn = turn_of(call);
    call->attempt = policy->attempt;
    if (turn->feed == 0) {
        turn->feed = ++policy->last_feed;
        tfos__policy_do(policy,
                        (tfos__deed){.kind = TFOS__DEED_OPEN_FEED, .feed = turn->feed, .options = turn->options},
                        turn->queue);
    }
    tfos__failure_reset(&turn->heard.abandoned);
    tell_feed(policy, TFOS__DEED_BEGIN_EPOCH, turn->feed, epoch_of(call));
    call->feeding = TFOS__FEEDING_BEGINS;
    return false;
}

static bool run(tfos__policy *policy, tfos__call *call)
{
    tfos__turn *turn = turn_of(call);
    if (is_silent(policy, call, turn)) {
        judge_end(policy, call, turn);
        return true;
    }
    if (turn->heard.begun != epoch_of(call) + 1) {
        return false;
    }
    if (call->kind == TFOS__CALL_TICKET) {
        succeed(policy, call, TFOS_CALL_DONE);
        return true;
    }
    call->job = ++policy->last_number;
    call->job_ended = false;
    tfos__failure_reset(&call->job_failure);
    tfos__policy_do(policy,
                    (tfos__deed){.kind = TFOS__DEED_ORDER,
                                 .feed = turn->feed,
                                 .epoch = epoch_of(call),
                                 .order = {.kind = TFOS_ORDER_FEED,
                                           .call = call->number,
                                           .job = call->job,
                                           .source = (int32_t)(turn - call->turns)}},
                    NULL);
    call->feeding = TFOS__FEEDING_RUNS;
    return false;
}

static bool follow_job(tfos__policy *policy, tfos__call *call)
{
    tfos__turn *turn = turn_of(call);
    tfos_feed_state end = turn->heard.end;
    if (!call->job_ended) {
        /* Where the programs want no more, tasks go home by themselves. */
        bool in_vain = end == TFOS_FEED_STATE_FAILED || end == TFOS_FEED_STATE_ENDED || is_left(policy, call);
        if (in_vain && call->feeding == TFOS__FEEDING_RUNS) {
            tfos__policy_order(policy, (tfos_order){.kind = TFOS_ORDER_CANCEL, .call = call->number, .job = call->job},
                               NULL);
            call->feeding = TFOS__FEEDING_CANCELS;
        }
        return false;
    }
    if (call->job_failure.status != TFOS_OK && end == TFOS_FEED_STATE_NONE) {
        judge_job(policy, call);
        return true;
    }
    if (turn->options.inference && end == TFOS_FEED_STATE_NONE) {
        succeed(policy, call, TFOS_CALL_DONE);
        return true;
    }
    if (!is_left(policy, call)) {
        tell_feed(policy, TFOS__DEED_END_EPOCH, turn->feed, epoch_of(call));
    }
    call->feeding = TFOS__FEEDING_EXHAUSTS;
    return true;
}

static bool await_exhausted(tfos__policy *policy, tfos__call *call)
{
    tfos__turn *turn = turn_of(call);
    if (is_silent(policy, call, turn)) {
        judge_end(policy, call, turn);
        return true;
    }
    if (turn->heard.exhausted <= epoch_of(call)) {
        return false;
    }
    call->step++;
    call->feeding = TFOS__FEEDING_WAITS;
    return true;
}

static bool await_settled(tfos__policy *policy, tfos__call *call)
{
    for (size_t i = 0; i < call->turn_count; i++) {
        tfos__turn *turn = &call->turns[i];
        uint64_t settled = turn->heard.settled > turn->consumed ? turn->heard.settled : turn->consumed;
        if (settled >= (uint64_t)call->epochs) {
            continue;
        }
        if (is_silent(policy, call, turn)) {
            judge_end(policy, call, turn);
            return true;
        }
        return false;
    }
    succeed(policy, call, TFOS_CALL_DONE);
    return true;
}

/* One that is frozen knows of nothing: the coordinator is to answer before anybody else is blamed. */
static bool look_at_verdict(tfos__policy *policy, tfos__call *call)
{
    if (policy->stage == TFOS__STAGE_OVER) {
        end_with_cluster(policy, call);
        return true;
    }
    if (call->verdict.status == TFOS_RAISED && turn_of(call)->heard.end == TFOS_FEED_STATE_FAILED) {
        judge_end(policy, call, turn_of(call)); /* which was still on its way when Spark said that the job had failed */
        return true;
    }
    if (call->feeding == TFOS__FEEDING_JUDGES && policy->now_ms >= tfos__feeding_deadline(call)) {
        call->feeding = TFOS__FEEDING_ASKS_WORD;
        call->status_seen = policy->status_count;
        tell_feed(policy, TFOS__DEED_ASK, 0, 0);
    } else if (call->feeding == TFOS__FEEDING_ASKS_WORD && policy->status_count > call->status_seen) {
        pronounce(policy, call);
        return true;
    }
    return false;
}

/* The call may be gone when a step has been taken that returns true. */
static bool step(tfos__policy *policy, tfos__call *call)
{
    /* A job has to end before another may run. */
    if (call->attempt >= 0 && policy->attempt != call->attempt && policy->stage != TFOS__STAGE_OVER &&
        call->job_ended) {
        rewind_feeds(policy, call);
    }
    switch (call->feeding) {
    case TFOS__FEEDING_WAITS:
        return begin(policy, call);
    case TFOS__FEEDING_BEGINS:
        return run(policy, call);
    case TFOS__FEEDING_RUNS:
    case TFOS__FEEDING_CANCELS:
        return follow_job(policy, call);
    case TFOS__FEEDING_EXHAUSTS:
        return await_exhausted(policy, call);
    case TFOS__FEEDING_SETTLES:
        return await_settled(policy, call);
    case TFOS__FEEDING_JUDGES:
    case TFOS__FEEDING_ASKS_WORD:
        return look_at_verdict(policy, call);
    }
    return false;
}

static bool is_there(const tfos__policy *policy, uint64_t number)
{
    const tfos__call *call;
    TAILQ_FOREACH (call, &policy->calls, among_calls) {
        if (call->number == number) {
            return true;
        }
    }
    return false;
}

void tfos__feeding_advance(tfos__policy *policy, tfos__call *call)
{
    uint64_t number = call->number;
    while (step(policy, call) && is_there(policy, number)) {}
}

/* ---- making them ---- */

static void set_turn(tfos__call *call, const tfos_feed_options *options)
{
    tfos__turn *turn = &call->turns[call->turn_count++];
    turn->options = *options;
    snprintf(turn->queue, sizeof turn->queue, "%s", options->queue != NULL ? options->queue : "input");
    turn->options.queue = NULL; /* it is in `queue` */
}

tfos_status tfos__policy_feed(tfos__policy *policy, const tfos_feed_call *options, uint64_t now_ms, uint64_t *number,
                              tfos_error *error)
{
    policy->now_ms = now_ms;
    tfos__call *call = tfos__call_new(policy, TFOS__CALL_FEED, error);
    if (call == NULL) {
        return TFOS_NO_MEMORY;
    }
    *number = call->number;
    set_turn(call, options->data);
    if (options->validation != NULL) {
        set_turn(call, options->validation);
    }
    call->epochs = options->epochs;
    call->stream = options->stream;
    tfos__calls_advance(policy);
    return TFOS_OK;
}

tfos_status tfos__policy_open_feed(tfos__policy *policy, const tfos_feed_options *options, uint64_t now_ms,
                                   uint64_t *number, tfos_error *error)
{
    policy->now_ms = now_ms;
    tfos__call *call = tfos__call_new(policy, TFOS__CALL_TICKET, error);
    if (call == NULL) {
        return TFOS_NO_MEMORY;
    }
    *number = call->number;
    set_turn(call, options);
    call->epochs = 1;
    tfos__calls_advance(policy);
    return TFOS_OK;
}
