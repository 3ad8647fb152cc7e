/* The life of a cluster, over all its attempts:
 *
 *   looking ── opening ── starting ── running ── closing ─┬─ over
 *      ▲                                                  │
 *      └───────────────── again, if it failed and may ────┘
 *
 * In each stage it may fail, be stopped, or lose its Spark context; the way on is always through closing, where the
 * coordinator is ended and the tasks that have started the nodes, so that nothing is left behind. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "driver/policy_state.h"

enum {
    LOOK_MS = 500,      /* how often Spark is looked at while nodes are waited for */
    JOB_END_MS = 10000, /* for tasks to end after their nodes have … */
    JOB_STOP_MS = 500,  /* … when the cluster was stopped or has failed … */
    JOB_CANCEL_MS =
        2000, /* … and when they were cancelled: one whose node is frozen takes longer, and is not waited for */
};

/* ---- deeds ---- */

void tfos__failure_reset(tfos__failure *failure)
{
    free(failure->text);
    *failure = (tfos__failure){.status = TFOS_OK};
}

void tfos__failure_set(tfos__failure *failure, tfos_status status, tfos_fault fault, const char *text, uint64_t cause)
{
    char *copy = strdup(text); /* which may be that of the failure itself */
    free(failure->text);
    *failure = (tfos__failure){.status = status, .fault = fault, .text = copy, .cause = cause};
}

void tfos__deed_reset(tfos__deed *deed)
{
    free(deed->text);
    *deed = (tfos__deed){0};
}

void tfos__policy_do(tfos__policy *policy, tfos__deed deed, const char *text)
{
    if (policy->deed_first > 0 && policy->deed_first == policy->deed_count) {
        policy->deed_first = policy->deed_count = 0;
    }
    deed.text = text != NULL ? strdup(text) : NULL;
    if ((text != NULL && deed.text == NULL) ||
        tfos__array_reserve(&policy->deeds, policy->deed_count, &policy->deed_capacity, sizeof *policy->deeds, NULL) !=
            TFOS_OK) {
        free(deed.text);
        policy->deeds_lost = true;
        return;
    }
    policy->deeds[policy->deed_count++] = deed;
}

void tfos__policy_order(tfos__policy *policy, tfos_order order, const char *text)
{
    tfos__policy_do(policy, (tfos__deed){.kind = TFOS__DEED_ORDER, .order = order}, text);
}

tfos_status tfos__policy_take(tfos__policy *policy, tfos__deed *out, tfos_error *error)
{
    if (policy->deeds_lost) {
        return tfos__fail_memory(error, sizeof *out);
    }
    if (policy->deed_first == policy->deed_count) {
        return TFOS_END;
    }
    *out = policy->deeds[policy->deed_first++];
    out->options.queue = out->text;
    out->order.text = out->text != NULL ? out->text : "";
    out->order.title = "";
    return TFOS_OK;
}

static void say(tfos__policy *policy, const char *text)
{
    tfos__buffer line = {0};
    (void)tfos__buffer_printf(&line, NULL, "[tfos] %s", text);
    tfos__policy_order(policy, (tfos_order){.kind = TFOS_ORDER_SAY}, line.size > 0 ? (const char *)line.data : text);
    tfos__buffer_reset(&line);
}

void tfos__policy_tell(tfos__policy *policy, tfos__deed deed, const char *text)
{
    if (tfos__policy_has_coordinator(policy)) {
        tfos__policy_do(policy, deed, text);
    }
}

static void tell(tfos__policy *policy, tfos__deed_kind kind, int64_t number, const char *text)
{
    tfos__policy_tell(policy, (tfos__deed){.kind = kind, .number = number}, text);
}

void tfos__policy_tell_finish(tfos__policy *policy)
{
    if (policy->options.spark_feeds) {
        tell(policy, TFOS__DEED_END_FEEDS, 0, NULL);
    }
    if (policy->ready) {
        tell(policy, TFOS__DEED_FINISH, policy->grace_ms, NULL);
    }
}

bool tfos__policy_has_coordinator(const tfos__policy *policy)
{
    return policy->stage == TFOS__STAGE_STARTING || policy->stage == TFOS__STAGE_RUNNING;
}

/* ---- making one ---- */

static void look(tfos__policy *policy)
{
    policy->looks++;
    tfos__policy_order(policy, (tfos_order){.kind = TFOS_ORDER_LOOK}, NULL);
}

tfos_status tfos__policy_new(const tfos__policy_options *options, uint64_t now_ms, tfos__policy **out,
                             tfos_error *error)
{
    tfos__policy *policy = calloc(1, sizeof *policy);
    if (policy == NULL) {
        return tfos__fail_memory(error, sizeof *policy);
    }
    policy->options = *options;
    policy->now_ms = now_ms;
    TAILQ_INIT(&policy->calls);
    TAILQ_INIT(&policy->unfed);
    look(policy);
    *out = policy;
    return TFOS_OK;
}

void tfos__policy_free(tfos__policy *policy)
{
    if (policy == NULL) {
        return;
    }
    for (tfos__call *call; (call = TAILQ_FIRST(&policy->calls)) != NULL;) {
        tfos__call_free(policy, call);
    }
    for (tfos__unfed *each; (each = TAILQ_FIRST(&policy->unfed)) != NULL;) {
        TAILQ_REMOVE(&policy->unfed, each, among_unfed);
        free(each->text);
        free(each);
    }
    for (size_t i = policy->deed_first; i < policy->deed_count; i++) {
        tfos__deed_reset(&policy->deeds[i]);
    }
    free(policy->deeds);
    tfos__failure_reset(&policy->failure);
    tfos__failure_reset(&policy->error);
    free(policy->stop_reason);
    free(policy->context_end);
    free(policy->url);
    free(policy->status);
    free(policy->tensorboard);
    tfos__policy_results_forget(policy);
    free(policy);
}

bool tfos__policy_is_idle(const tfos__policy *policy)
{
    return policy->stage == TFOS__STAGE_OVER && TAILQ_EMPTY(&policy->calls);
}

bool tfos__policy_is_ready(const tfos__policy *policy)
{
    return policy->ready;
}

bool tfos__policy_holds_slots(const tfos__policy *policy)
{
    return policy->stage != TFOS__STAGE_OVER && !(policy->ready && policy->options.spark_feeds);
}

/* ---- the end of an attempt ---- */

/* The first failure counts: what follows is its consequence. */
static void fail(tfos__policy *policy, tfos_status status, const char *text)
{
    if (policy->failure.status == TFOS_OK) {
        tfos__failure_set(&policy->failure, status, TFOS_FAULT_CLUSTER, text, 0);
    }
}

/* Nobody wants it to go on. */
static bool is_to_end(const tfos__policy *policy)
{
    return policy->stop_reason != NULL || policy->context_end != NULL;
}

/* Whatever a cluster meets with when its Spark context ends, that is the cause. */
static void explain(tfos__policy *policy)
{
    char text[512];
    if (policy->stop_reason != NULL) {
        return;
    }
    if (policy->context_end != NULL && (policy->context_end_noted || policy->failure.status != TFOS_OK)) {
        snprintf(text, sizeof text,
                 "the Spark context %s while the cluster ran, and every node was stopped. Call shutdown() before the "
                 "context is stopped.",
                 policy->context_end);
        tfos__failure_set(&policy->error, TFOS_CANCELLED, TFOS_FAULT_CLUSTER, text, 0);
    } else if (policy->failure.status != TFOS_OK) {
        tfos__failure_set(&policy->error, policy->failure.status, TFOS_FAULT_CLUSTER, policy->failure.text,
                          policy->failure.cause);
    }
}

static void end(tfos__policy *policy)
{
    explain(policy);
    policy->stage = TFOS__STAGE_OVER;
    tfos__policy_order(policy,
                       (tfos_order){.kind = TFOS_ORDER_OVER,
                                    .outcome = policy->error.status == TFOS_OK ? TFOS_CALL_DONE : TFOS_CALL_FAILED,
                                    .status = policy->error.status,
                                    .fault = policy->error.fault,
                                    .cause = policy->error.cause},
                       policy->error.text);
}

/* The coordinator is not needed any more, or gone. */
static void close_attempt(tfos__policy *policy)
{
    bool finished = policy->failure.status == TFOS_OK && policy->stop_reason == NULL;
    policy->stage = TFOS__STAGE_CLOSING;
    tfos__policy_do(policy, (tfos__deed){.kind = TFOS__DEED_CLOSE}, NULL);
    if (policy->submitted) {
        tfos__policy_order(policy,
                           (tfos_order){.kind = TFOS_ORDER_END_NODES,
                                        .patience_ms = finished ? JOB_END_MS : JOB_STOP_MS,
                                        .cancel_ms = JOB_CANCEL_MS},
                           NULL);
    } else {
        look(policy); /* whether the Spark context has ended is asked behind everything else */
    }
}

static bool may_restart(const tfos__policy *policy)
{
    return policy->failure.status != TFOS_OK && !policy->hopeless && !is_to_end(policy) &&
           policy->attempt < policy->options.restarts;
}

static void open_coordinator(tfos__policy *policy)
{
    policy->stage = TFOS__STAGE_OPENING;
    tfos__policy_do(policy, (tfos__deed){.kind = TFOS__DEED_OPEN, .number = policy->attempt}, NULL);
}

static void restart(tfos__policy *policy)
{
    char text[128];
    policy->attempt++;
    policy->ready = false;
    say(policy, policy->failure.text);
    snprintf(text, sizeof text, "starting the cluster again: %" PRId32 " of %" PRId32 " restarts", policy->attempt,
             policy->options.restarts);
    say(policy, text);
    tfos__failure_reset(&policy->failure);
    tfos__policy_results_forget(policy); /* what a program returned that is run again has no meaning */
    open_coordinator(policy);
}

/* Spark was looked at when nothing of the attempt was left. */
static void decide(tfos__policy *policy)
{
    if (may_restart(policy)) {
        restart(policy);
    } else {
        end(policy);
    }
}

/* ---- starting ---- */

static void start_nodes(tfos__policy *policy)
{
    const tfos__policy_options *options = &policy->options;
    for (int32_t i = 0; i < options->here; i++) {
        tell(policy, TFOS__DEED_SPAWN, i, NULL);
    }
    if (options->here < options->nodes) {
        policy->submitted = true;
        tfos__policy_order(policy,
                           (tfos_order){.kind = TFOS_ORDER_START_NODES,
                                        .index = options->here,
                                        .count = options->nodes - options->here},
                           NULL);
    }
}

void tfos__policy_opened(tfos__policy *policy, const char *url, uint64_t now_ms)
{
    policy->now_ms = now_ms;
    policy->stage = TFOS__STAGE_STARTING;
    policy->looked_ms = now_ms;
    free(policy->url);
    policy->url = strdup(url);
    tfos__policy_order(policy, (tfos_order){.kind = TFOS_ORDER_OPENED, .index = policy->attempt}, url);
    if (is_to_end(policy)) {
        close_attempt(policy);
    } else {
        start_nodes(policy);
    }
    tfos__calls_advance(policy);
}

void tfos__policy_refused(tfos__policy *policy, const tfos_error *why, uint64_t now_ms)
{
    policy->now_ms = now_ms;
    fail(policy, why->status, why->message);
    policy->hopeless = true;
    if (policy->stage == TFOS__STAGE_OPENING) {
        policy->stage = TFOS__STAGE_CLOSING;
        look(policy);
    } else if (tfos__policy_has_coordinator(policy)) {
        close_attempt(policy);
    }
    tfos__calls_advance(policy);
}

void tfos__policy_gone(tfos__policy *policy, const tfos_error *why, uint64_t now_ms)
{
    policy->now_ms = now_ms;
    if (tfos__policy_has_coordinator(policy)) {
        fail(policy, TFOS_CANCELLED, why->message);
        close_attempt(policy);
    }
    tfos__calls_advance(policy);
}

/* While nodes are missing: has the job failed that starts them? */
static void look_at_start(tfos__policy *policy, const tfos_spark_view *view)
{
    if (view->unanswered == NULL && view->nodes_failure == NULL) {
        tell(policy, TFOS__DEED_SLOTS, 0, NULL);
        return;
    }
    static const char reason[] = "the Spark job that starts the nodes failed";
    tfos__buffer text = {0};
    tfos_status status =
        view->unanswered != NULL
            ? tfos__buffer_printf(&text, NULL, "%s: Spark does not answer any more: %s", reason, view->unanswered)
            : tfos__buffer_printf(&text, NULL, "%s: %s", reason, view->nodes_failure);
    fail(policy, TFOS_CANCELLED, status == TFOS_OK ? (const char *)text.data : reason);
    tfos__buffer_reset(&text);
    tell(policy, TFOS__DEED_STOP, 0, reason);
}

void tfos__policy_see_spark(tfos__policy *policy, const tfos_spark_view *view, uint64_t now_ms)
{
    policy->now_ms = now_ms;
    policy->looks -= policy->looks > 0 ? 1 : 0;
    policy->looked_ms = now_ms;
    if (view->context_end != NULL && policy->context_end == NULL) {
        policy->context_end = strdup(view->context_end);
    }
    switch (policy->stage) {
    case TFOS__STAGE_LOOKING:
        policy->context_end_noted = policy->context_end != NULL; /* nothing was run, and somebody waits for it */
        if (is_to_end(policy)) {
            end(policy);
        } else {
            open_coordinator(policy);
        }
        break;
    case TFOS__STAGE_STARTING:
        if (policy->failure.status == TFOS_OK && !is_to_end(policy)) {
            look_at_start(policy, view);
        }
        break;
    case TFOS__STAGE_CLOSING:
        if (!policy->submitted && policy->looks == 0) { /* what was seen before may be otherwise now */
            decide(policy);
        }
        break;
    default:
        break;
    }
    tfos__calls_advance(policy);
}

/* ---- what is heard ---- */

static void say_log(tfos__policy *policy, const tfos_cluster_event *event)
{
    tfos__buffer text = {0};
    for (const char *line = event->text; *line != '\0';) {
        size_t count = strcspn(line, "\n");
        bool last = line[count] == '\0' || line[count + 1] == '\0';
        (void)tfos__buffer_printf(&text, NULL, "[%s %s] %.*s%s", event->node, event->host, (int)count, line,
                                  last ? "" : "\n");
        line += count + (line[count] == '\n' ? 1 : 0);
    }
    if (text.size > 0) {
        tfos__policy_order(policy, (tfos_order){.kind = TFOS_ORDER_SAY}, (const char *)text.data);
    }
    tfos__buffer_reset(&text);
}

static void hear_ready(tfos__policy *policy, const tfos_cluster_event *event)
{
    policy->stage = TFOS__STAGE_RUNNING;
    policy->ready = true;
    tfos__policy_order(policy, (tfos_order){.kind = TFOS_ORDER_READY}, event->text);
    if (policy->finishing) {
        tfos__policy_tell_finish(policy);
    }
}

static void keep(char **kept, const char *text)
{
    free(*kept);
    *kept = strdup(text);
}

void tfos__policy_hear(tfos__policy *policy, const tfos_cluster_event *event, uint64_t now_ms)
{
    policy->now_ms = now_ms;
    if (!tfos__policy_has_coordinator(policy)) {
        return;
    }
    switch (event->kind) {
    case TFOS_EVENT_LOG:
        say_log(policy, event);
        return;
    case TFOS_EVENT_PROGRESS:
        say(policy, event->text);
        return;
    case TFOS_EVENT_READY:
        hear_ready(policy, event);
        break;
    case TFOS_EVENT_STATUS:
        policy->status_count++;
        keep(&policy->status, event->text);
        break;
    case TFOS_EVENT_FEED:
        tfos__feeding_hear(policy, event);
        break;
    case TFOS_EVENT_NODE:
        tfos__policy_results_hear_node(policy, event);
        if (event->url[0] != '\0') {
            keep(&policy->tensorboard, event->url);
            tfos__policy_order(policy,
                               (tfos_order){.kind = TFOS_ORDER_TENSORBOARD, .index = event->index, .pid = event->pid},
                               event->url);
        }
        break;
    case TFOS_EVENT_FAILED:
        fail(policy, TFOS_CANCELLED, event->text);
        break;
    case TFOS_EVENT_RESULT:
        tfos__policy_results_hear(policy, event);
        return;
    case TFOS_EVENT_OVER:
        close_attempt(policy);
        break;
    case TFOS_EVENT_NONE:
        return;
    }
    tfos__calls_advance(policy);
}

static void see_nodes_job(tfos__policy *policy, const char *failure)
{
    if (!policy->submitted) {
        return;
    }
    policy->submitted = false;
    if (policy->stage == TFOS__STAGE_CLOSING) {
        look(policy);
    } else if (failure != NULL && tfos__policy_has_coordinator(policy)) {
        fail(policy, TFOS_RAISED, failure); /* it could not be submitted */
        policy->hopeless = true;
        close_attempt(policy);
    }
}

void tfos__policy_see_job(tfos__policy *policy, uint64_t job, const char *failure, uint64_t now_ms)
{
    policy->now_ms = now_ms;
    if (job == 0) {
        see_nodes_job(policy, failure);
    }
    tfos__call *call;
    TAILQ_FOREACH (call, &policy->calls, among_calls) {
        if (job != 0 && call->job == job && !call->job_ended) {
            call->job_ended = true;
            if (failure != NULL) {
                tfos__failure_set(&call->job_failure, TFOS_RAISED, TFOS_FAULT_AGAIN, failure, job);
            }
        }
    }
    tfos__calls_advance(policy);
}

void tfos__policy_name_context_end(const char *how, char out[TFOS__POLICY_REASON_BYTES])
{
    snprintf(out, TFOS__POLICY_REASON_BYTES, "the Spark context %s", how);
}

/* As the death of the driver does, the end of the Spark context ends the cluster. */
void tfos__policy_see_context_end(tfos__policy *policy, const char *how, uint64_t now_ms)
{
    char reason[TFOS__POLICY_REASON_BYTES];
    policy->now_ms = now_ms;
    if (policy->stage == TFOS__STAGE_OVER || policy->context_end_noted) {
        return;
    }
    policy->context_end_noted = true;
    keep(&policy->context_end, how);
    tfos__policy_name_context_end(how, reason);
    tell(policy, TFOS__DEED_STOP, 0, reason);
    tfos__calls_advance(policy);
}

void tfos__policy_stop(tfos__policy *policy, const char *reason, uint64_t now_ms)
{
    policy->now_ms = now_ms;
    if (policy->stop_reason == NULL && policy->stage != TFOS__STAGE_OVER) {
        policy->stop_reason = strdup(reason);
        policy->deeds_lost = policy->deeds_lost || policy->stop_reason == NULL;
        tell(policy, TFOS__DEED_STOP, 0, reason);
        tfos__calls_advance(policy);
    }
}

/* ---- time ---- */

static bool is_to_look(const tfos__policy *policy)
{
    return policy->stage == TFOS__STAGE_STARTING && policy->looks == 0 && policy->failure.status == TFOS_OK;
}

uint64_t tfos__policy_deadline(const tfos__policy *policy)
{
    uint64_t first = is_to_look(policy) ? policy->looked_ms + LOOK_MS : UINT64_MAX;
    const tfos__call *call;
    TAILQ_FOREACH (call, &policy->calls, among_calls) {
        uint64_t feeding = tfos__feeding_deadline(call);
        first = call->deadline_ms < first ? call->deadline_ms : first;
        first = feeding < first ? feeding : first;
    }
    return first;
}

void tfos__policy_tick(tfos__policy *policy, uint64_t now_ms)
{
    policy->now_ms = now_ms;
    if (is_to_look(policy) && now_ms >= policy->looked_ms + LOOK_MS) {
        look(policy);
    }
    if (now_ms >= tfos__policy_deadline(policy)) {
        tfos__calls_advance(policy);
    }
}
