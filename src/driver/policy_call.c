/* Calls: what the program of the user waits for. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "driver/policy_state.h"

enum {
    STATUS_MS = 5000,
    TENSORBOARD_MS = 60000,
};

/* ---- their lives ---- */

tfos__call *tfos__call_new(tfos__policy *policy, tfos__call_kind kind, tfos_error *error)
{
    tfos__call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        tfos__fail_memory(error, sizeof *call);
        return NULL;
    }
    call->number = ++policy->last_number;
    call->kind = kind;
    call->deadline_ms = UINT64_MAX;
    call->attempt = -1;
    call->job_ended = true;
    TAILQ_INSERT_TAIL(&policy->calls, call, among_calls);
    return call;
}

void tfos__call_free(tfos__policy *policy, tfos__call *call)
{
    TAILQ_REMOVE(&policy->calls, call, among_calls);
    tfos__feeding_reset(call);
    free(call);
}

void tfos__call_done(tfos__policy *policy, tfos__call *call, tfos_call_outcome outcome, const char *text)
{
    tfos__deed deed = {.kind = TFOS__DEED_ORDER,
                       .order = {.kind = TFOS_ORDER_DONE, .call = call->number, .outcome = outcome}};
    if (call->kind == TFOS__CALL_TICKET && outcome == TFOS_CALL_DONE) {
        deed.feed = call->turns[0].feed;
    }
    tfos__policy_do(policy, deed, text);
    tfos__call_free(policy, call);
}

void tfos__call_fail(tfos__policy *policy, tfos__call *call, const tfos__failure *failure)
{
    tfos__policy_order(policy,
                       (tfos_order){.kind = TFOS_ORDER_DONE,
                                    .call = call->number,
                                    .outcome = TFOS_CALL_FAILED,
                                    .status = failure->status,
                                    .fault = failure->fault,
                                    .cause = failure->cause},
                       failure->text);
    tfos__call_free(policy, call);
}

/* ---- queues that were not fed ---- */

static tfos__unfed *find_unfed(tfos__policy *policy, const char *queue)
{
    tfos__unfed *each;
    TAILQ_FOREACH (each, &policy->unfed, among_unfed) {
        if (strcmp(each->queue, queue) == 0) {
            return each;
        }
    }
    return NULL;
}

void tfos__unfed_note(tfos__policy *policy, const char *queue, uint64_t call, const tfos__failure *failure)
{
    tfos__unfed *found = find_unfed(policy, queue);
    if (found != NULL) {
        TAILQ_REMOVE(&policy->unfed, found, among_unfed);
        free(found->text);
        free(found);
    }
    if (failure == NULL) {
        return;
    }
    tfos__unfed *made = calloc(1, sizeof *made);
    char *text = strdup(failure->text != NULL ? failure->text : "");
    if (made == NULL || text == NULL) {
        free(made);
        free(text);
        policy->deeds_lost = true;
        return;
    }
    snprintf(made->queue, sizeof made->queue, "%s", queue);
    made->call = call;
    made->text = text;
    TAILQ_INSERT_TAIL(&policy->unfed, made, among_unfed);
}

/* Orders for it that wait to be taken are for nobody. */
static void forget_orders(tfos__policy *policy, uint64_t number)
{
    size_t kept = policy->deed_first;
    for (size_t i = policy->deed_first; i < policy->deed_count; i++) {
        if (policy->deeds[i].kind == TFOS__DEED_ORDER && policy->deeds[i].order.call == number) {
            tfos__deed_reset(&policy->deeds[i]);
        } else {
            policy->deeds[kept++] = policy->deeds[i];
        }
    }
    policy->deed_count = kept;
}

void tfos__policy_abandon(tfos__policy *policy, uint64_t number, uint64_t now_ms)
{
    policy->now_ms = now_ms;
    forget_orders(policy, number);
    tfos__call *call;
    TAILQ_FOREACH (call, &policy->calls, among_calls) {
        if (call->number == number) {
            tfos__feeding_close(policy, call);
            tfos__call_free(policy, call);
            return;
        }
    }
}

/* ---- how they come to their ends ---- */

/* The nodes are there, or will never be. */
static void advance_nodes(tfos__policy *policy, tfos__call *call)
{
    char text[1024];
    if (policy->ready) {
        snprintf(text, sizeof text, "[tfos] %" PRId32 " nodes are there; status: %s", policy->options.nodes,
                 policy->url);
        tfos__policy_order(policy, (tfos_order){.kind = TFOS_ORDER_SAY}, text);
        tfos__call_done(policy, call, TFOS_CALL_DONE, NULL);
    } else if (policy->error.status != TFOS_OK) {
        tfos__call_fail(policy, call, &policy->error);
    } else if (policy->stage == TFOS__STAGE_OVER) {
        tfos__call_done(policy, call, TFOS_CALL_STOPPED, NULL);
    }
}

/* The programs have ended well. But were they given their data? */
static void end_well(tfos__policy *policy, tfos__call *call)
{
    const tfos__unfed *unfed = TAILQ_FIRST(&policy->unfed);
    tfos__buffer text = {0};
    if (unfed == NULL) {
        tfos__call_done(policy, call, TFOS_CALL_DONE, NULL);
        return;
    }
    (void)tfos__buffer_printf(&text, NULL, "the programs have ended, but their data was not fed: %s", unfed->text);
    tfos__call_fail(
        policy, call,
        &(tfos__failure){
            .status = TFOS_CANCELLED, .fault = TFOS_FAULT_PROGRAM, .text = (char *)text.data, .cause = unfed->call});
    tfos__buffer_reset(&text);
}

static void advance_finish(tfos__policy *policy, tfos__call *call)
{
    char text[512];
    double timeout_s = (double)call->timeout_ms / 1000;
    if (policy->stage != TFOS__STAGE_OVER) {
        if (policy->now_ms >= call->deadline_ms) {
            call->late = true;
            call->deadline_ms = UINT64_MAX;
            snprintf(text, sizeof text, "not finished within %g s, the timeout of shutdown", timeout_s);
            tfos__policy_stop(policy, text, policy->now_ms);
        }
        return;
    }
    if (call->late) {
        snprintf(
            text, sizeof text,
            "the cluster had not finished after %g s, the timeout of shutdown, and was stopped. Raise the timeout, "
            "or look in the logs of its nodes for what they were waiting for.",
            timeout_s);
        tfos__call_fail(policy, call,
                        &(tfos__failure){.status = TFOS_LIMIT, .fault = TFOS_FAULT_PROGRAM, .text = text});
    } else if (policy->error.status != TFOS_OK) {
        tfos__call_fail(policy, call, &policy->error);
    } else {
        end_well(policy, call);
    }
}

static void advance_status(tfos__policy *policy, tfos__call *call)
{
    if (policy->status_count > call->status_seen || policy->now_ms >= call->deadline_ms ||
        !tfos__policy_has_coordinator(policy)) {
        tfos__call_done(policy, call, TFOS_CALL_DONE, policy->status);
    }
}

static void advance_tensorboard(tfos__policy *policy, tfos__call *call)
{
    if (policy->tensorboard != NULL || policy->now_ms >= call->deadline_ms || policy->stage == TFOS__STAGE_OVER) {
        tfos__call_done(policy, call, TFOS_CALL_DONE, policy->tensorboard);
    }
}

static void advance(tfos__policy *policy, tfos__call *call)
{
    switch (call->kind) {
    case TFOS__CALL_NODES:
        advance_nodes(policy, call);
        break;
    case TFOS__CALL_FEED:
    case TFOS__CALL_TICKET:
        tfos__feeding_advance(policy, call);
        break;
    case TFOS__CALL_FINISH:
        advance_finish(policy, call);
        break;
    case TFOS__CALL_STATUS:
        advance_status(policy, call);
        break;
    case TFOS__CALL_TENSORBOARD:
        advance_tensorboard(policy, call);
        break;
    case TFOS__CALL_RESULTS:
        tfos__policy_results_tell(policy, call);
        break;
    }
}

/* A call may stop the cluster, of which others need not hear now: they will when it has stopped. */
void tfos__calls_advance(tfos__policy *policy)
{
    if (policy->advancing) {
        return;
    }
    policy->advancing = true;
    tfos__call *next;
    for (tfos__call *call = TAILQ_FIRST(&policy->calls); call != NULL; call = next) {
        next = TAILQ_NEXT(call, among_calls);
        advance(policy, call);
    }
    policy->advancing = false;
}

/* ---- making them ---- */

static tfos_status make(tfos__policy *policy, tfos__call_kind kind, uint64_t now_ms, uint64_t wait_ms, uint64_t *number,
                        tfos_error *error)
{
    policy->now_ms = now_ms;
    tfos__call *call = tfos__call_new(policy, kind, error);
    if (call == NULL) {
        return TFOS_NO_MEMORY;
    }
    *number = call->number;
    call->status_seen = policy->status_count;
    if (wait_ms != UINT64_MAX) {
        call->deadline_ms = now_ms + wait_ms;
    }
    tfos__calls_advance(policy);
    return TFOS_OK;
}

tfos_status tfos__policy_await_nodes(tfos__policy *policy, uint64_t now_ms, uint64_t *call, tfos_error *error)
{
    return make(policy, TFOS__CALL_NODES, now_ms, UINT64_MAX, call, error);
}

tfos_status tfos__policy_ask_status(tfos__policy *policy, uint64_t now_ms, uint64_t *call, tfos_error *error)
{
    tfos__policy_tell(policy, (tfos__deed){.kind = TFOS__DEED_ASK}, NULL);
    return make(policy, TFOS__CALL_STATUS, now_ms, STATUS_MS, call, error);
}

tfos_status tfos__policy_await_tensorboard(tfos__policy *policy, uint64_t now_ms, uint64_t *call, tfos_error *error)
{
    return make(policy, TFOS__CALL_TENSORBOARD, now_ms, TENSORBOARD_MS, call, error);
}

tfos_status tfos__policy_ask_results(tfos__policy *policy, uint64_t now_ms, uint64_t *call, tfos_error *error)
{
    return make(policy, TFOS__CALL_RESULTS, now_ms, UINT64_MAX, call, error);
}

tfos_status tfos__policy_finish(tfos__policy *policy, int64_t grace_ms, int64_t timeout_ms, uint64_t now_ms,
                                uint64_t *number, tfos_error *error)
{
    policy->now_ms = now_ms;
    tfos__call *call = tfos__call_new(policy, TFOS__CALL_FINISH, error);
    if (call == NULL) {
        return TFOS_NO_MEMORY;
    }
    *number = call->number;
    call->timeout_ms = timeout_ms;
    call->deadline_ms = timeout_ms >= 0 ? now_ms + (uint64_t)timeout_ms : UINT64_MAX;
    policy->finishing = true;
    policy->grace_ms = grace_ms;
    tfos__policy_tell_finish(policy);
    tfos__calls_advance(policy);
    return TFOS_OK;
}
