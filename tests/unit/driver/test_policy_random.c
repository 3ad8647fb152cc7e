/* The policy in a world that does its worst: nodes, coordinators and executors die, jobs fail, feeds fail, programs
 * want no more, somebody stops everything, the Spark context ends; and whatever is under way comes late. Around the
 * policy stand models of a coordinator, of Spark and of a shell, which know only what was really fed and taken.
 *
 * Whatever happens: a coordinator is opened when there is none, as often as it may be, and closed; nobody talks to one
 * that is not there; one job of a call runs at a time; epochs are fed in their order, after a restart from the first on
 * that was not said to be taken; a call has one outcome, and a good one only if everything was fed and nothing is on
 * its way; and everybody is answered in the end.
 *
 * TFOS_TEST_SEED repeats a run that failed. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "driver/policy.h"
#include "helper_random.h"

enum {
    RUNS = 30000,
    CALLS_MOST = 8,
    FEEDS_MOST = 64,
    NOTES_MOST = 256,
    STEPS = 400,       /* with faults */
    PATIENCE = 200000, /* steps without any in which everything must come to its end */
};

/* An event on its way from the coordinator to the driver. */
typedef struct note {
    tfos_cluster_event_kind kind;
    tfos_feed_state state;
    uint64_t feed;
    int64_t epoch;
    tfos_status status;
    tfos_fault fault;
} note;

typedef struct call {
    uint64_t number;
    bool feeds;
    size_t turns;
    int64_t epochs;
    bool done;
    tfos_call_outcome outcome;
    uint64_t job; /* 0: none runs */
    bool job_cancelled;
    size_t job_feed;
    int64_t job_epoch;
    int64_t next_step;     /* that must be begun next in this attempt; -1: none was */
    int64_t consumed[2];   /* epochs of which the policy was told that all their rows were taken */
    int64_t settled_at[2]; /* … or are on no way any more, in the last attempt */
} call;

typedef struct feed {
    uint64_t number;
    size_t call;
    size_t source;
    int attempt;
    bool open;
    bool ended;
    int64_t base;      /* the first epoch of the attempt */
    int64_t begun;     /* epochs, from 0 on, up to which they were begun, … */
    int64_t exhausted; /* … every row is in a lane, … */
    int64_t settled;   /* … and in none any more */
    bool dropped;      /* some rows were left behind: nothing behind them counts */
} feed;

typedef struct world {
    uint64_t seed;
    uint64_t random;
    uint64_t now;
    tfos__policy *policy;
    tfos__policy_options options;
    bool faults;     /* may happen */
    bool had_faults; /* have happened */

    bool opening;
    bool open;
    bool ready;
    bool failing;
    bool stopping; /* OVER follows */
    int attempts;
    note notes[NOTES_MOST];
    size_t note_first;
    size_t note_count;

    int looks_due;
    bool nodes_job;
    bool nodes_end_due;
    bool context_ended;
    bool over;
    bool finish_asked;
    uint64_t finish;

    call calls[CALLS_MOST];
    size_t call_count;
    feed feeds[FEEDS_MOST];
    size_t feed_count;
} world;

/* How often something happened in all runs: a test that never comes to the point has proved nothing. */
static struct {
    uint64_t restarts, refused, gone, failed, stopped, contexts, jobs_failed, cancelled, again, done, ended, fed_failed,
        dropped, late, abandoned;
} seen;

#define CHECK(w, condition)                                                                                            \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fail_msg("TFOS_TEST_SEED=%" PRIu64 ": %s", (w)->seed, #condition);                                         \
        }                                                                                                              \
    } while (0)

static uint64_t draw(world *w, uint64_t below)
{
    return helper_draw(&w->random, below);
}

/* ---- the coordinator ---- */

static void send(world *w, note sent)
{
    CHECK(w, w->note_count - w->note_first < NOTES_MOST);
    w->notes[w->note_count++ % NOTES_MOST] = sent;
}

static void send_feed(world *w, const feed *f, tfos_feed_state state, int64_t epoch, tfos_status status,
                      tfos_fault fault)
{
    send(w, (note){.kind = TFOS_EVENT_FEED,
                   .state = state,
                   .feed = f->number,
                   .epoch = epoch,
                   .status = status,
                   .fault = fault});
}

static void end_feed(world *w, feed *f, tfos_feed_state state, tfos_status status, tfos_fault fault)
{
    if (f->open && !f->ended) {
        f->ended = true;
        send_feed(w, f, state, f->begun > 0 ? f->begun - 1 : 0, status, fault);
    }
}

static feed *find_feed(world *w, uint64_t number)
{
    for (size_t i = 0; i < w->feed_count; i++) {
        if (w->feeds[i].number == number) {
            return &w->feeds[i];
        }
    }
    return NULL;
}

static void end_feeds(world *w, tfos_feed_state state, tfos_status status, tfos_fault fault)
{
    for (size_t i = 0; i < w->feed_count; i++) {
        end_feed(w, &w->feeds[i], state, status, fault);
    }
}

static void stop_nodes(world *w)
{
    if (!w->stopping) {
        w->stopping = true;
        end_feeds(w, TFOS_FEED_STATE_ENDED, TFOS_OK, TFOS_FAULT_AGAIN);
        send(w, (note){.kind = TFOS_EVENT_OVER});
    }
}

static void fail_cluster(world *w)
{
    if (!w->stopping) {
        w->stopping = w->failing = true;
        send(w, (note){.kind = TFOS_EVENT_FAILED});
        end_feeds(w, TFOS_FEED_STATE_FAILED, TFOS_CANCELLED, TFOS_FAULT_CLUSTER);
        send(w, (note){.kind = TFOS_EVENT_OVER});
    }
}

static void lose_coordinator(world *w)
{
    w->open = w->ready = false;
    w->note_first = w->note_count;
    for (size_t i = 0; i < w->feed_count; i++) {
        w->feeds[i].open = false;
    }
    for (size_t i = 0; i < w->call_count; i++) {
        w->calls[i].next_step = -1;
    }
}

/* A word arrives. */
static void deliver(world *w)
{
    const note *n = &w->notes[w->note_first++ % NOTES_MOST];
    const tfos_cluster_event event = {.kind = n->kind,
                                      .count = (int64_t)n->feed,
                                      .total = n->epoch,
                                      .node = "",
                                      .host = "",
                                      .state = "",
                                      .url = "",
                                      .text = n->kind == TFOS_EVENT_FAILED ? "a node was lost" : "a feed has failed",
                                      .feed = n->state,
                                      .status = n->status,
                                      .fault = n->fault};
    if (n->kind == TFOS_EVENT_FEED) {
        feed *f = find_feed(w, n->feed);
        call *c = &w->calls[f->call];
        if (n->state == TFOS_FEED_STATE_CONSUMED || n->state == TFOS_FEED_STATE_DROPPED) {
            f->dropped = f->dropped || n->state == TFOS_FEED_STATE_DROPPED;
            c->settled_at[f->source] = n->epoch + 1;
            if (!f->dropped && c->consumed[f->source] < n->epoch + 1) {
                c->consumed[f->source] = n->epoch + 1;
            }
        }
    }
    tfos__policy_hear(w->policy, &event, w->now);
}

/* ---- deeds ---- */

static call *call_of_feed(world *w, const tfos__deed *deed)
{
    feed *f = find_feed(w, deed->feed);
    CHECK(w, f != NULL && f->attempt == w->attempts);
    return &w->calls[f->call];
}

/* The call that opens a feed is the one that waits for it: the queue has its number. */
static void open_feed(world *w, const tfos__deed *deed)
{
    CHECK(w, w->feed_count < FEEDS_MOST && find_feed(w, deed->feed) == NULL);
    size_t at = (size_t)deed->options.partitions;
    w->feeds[w->feed_count++] = (feed){
        .number = deed->feed, .call = at / 2, .source = at % 2, .attempt = w->attempts, .open = true, .base = -1};
    if (w->stopping) {
        w->feeds[w->feed_count - 1].ended = true;
        send_feed(w, &w->feeds[w->feed_count - 1], w->failing ? TFOS_FEED_STATE_FAILED : TFOS_FEED_STATE_ENDED, 0,
                  TFOS_CANCELLED, TFOS_FAULT_CLUSTER);
    }
}

/* The first step that was not said to be taken. */
static int64_t first_step(const call *c)
{
    int64_t step = 0;
    while ((c->epochs < 0 || step < c->epochs * (int64_t)c->turns) &&
           c->consumed[step % (int64_t)c->turns] > step / (int64_t)c->turns) {
        step++;
    }
    return step;
}

static void begin_epoch(world *w, const tfos__deed *deed)
{
    call *c = call_of_feed(w, deed);
    feed *f = find_feed(w, deed->feed);
    int64_t step = (int64_t)deed->epoch * (int64_t)c->turns + (int64_t)f->source;
    CHECK(w, f->open && !c->done && c->job == 0);
    if (c->next_step < 0) {
        CHECK(w, step == first_step(c));
        seen.again += w->attempts > 1 ? 1 : 0;
        /* What comes behind is fed again, too, whatever was taken of it: programs are where they were before. */
        for (int64_t i = 0; i < (int64_t)c->turns; i++) {
            c->settled_at[i] = c->consumed[i] = (step + (int64_t)c->turns - 1 - i) / (int64_t)c->turns;
        }
    } else {
        CHECK(w, step == c->next_step);
    }
    c->next_step = step + 1;
    f->begun = (int64_t)deed->epoch + 1;
    if (f->base < 0) {
        f->base = f->exhausted = f->settled = (int64_t)deed->epoch;
    }
    CHECK(w, f->exhausted == (int64_t)deed->epoch);
    if (!f->ended) {
        send_feed(w, f, TFOS_FEED_STATE_EPOCH, (int64_t)deed->epoch, TFOS_OK, TFOS_FAULT_AGAIN);
    }
}

static void obey_order(world *w, const tfos__deed *deed)
{
    const tfos_order *order = &deed->order;
    call *c = NULL;
    for (size_t i = 0; order->call != 0 && i < w->call_count; i++) {
        c = w->calls[i].number == order->call ? &w->calls[i] : c;
    }
    switch (order->kind) {
    case TFOS_ORDER_LOOK:
        w->looks_due++;
        break;
    case TFOS_ORDER_START_NODES:
        CHECK(w, w->open && !w->nodes_job && order->count == w->options.nodes - w->options.here);
        w->nodes_job = true;
        break;
    case TFOS_ORDER_END_NODES:
        CHECK(w, !w->open && w->nodes_job);
        w->nodes_end_due = true;
        break;
    case TFOS_ORDER_FEED:
        CHECK(w, c != NULL && !c->done && c->job == 0 && (size_t)order->source < c->turns);
        c->job = order->job;
        c->job_cancelled = false;
        c->job_feed = (size_t)(find_feed(w, deed->feed) - w->feeds);
        c->job_epoch = (int64_t)deed->epoch;
        CHECK(w, w->feeds[c->job_feed].begun == c->job_epoch + 1);
        CHECK(w, w->feeds[c->job_feed].source == (size_t)order->source);
        break;
    case TFOS_ORDER_CANCEL:
        CHECK(w, c != NULL && c->job == order->job && !c->job_cancelled);
        c->job_cancelled = true;
        seen.cancelled++;
        break;
    case TFOS_ORDER_DONE:
        CHECK(w, c != NULL && !c->done && c->job == 0);
        c->done = true;
        c->outcome = order->outcome;
        if (order->outcome == TFOS_CALL_DONE) {
            for (size_t i = 0; c->feeds && i < c->turns; i++) {
                CHECK(w, c->settled_at[i] >= c->epochs);
            }
            seen.done++;
        } else {
            CHECK(w, w->had_faults);
            CHECK(w, order->outcome == TFOS_CALL_STOPPED || order->status > TFOS_END);
            seen.ended++;
        }
        break;
    case TFOS_ORDER_OVER:
        CHECK(w, !w->over && !w->open && !w->nodes_job);
        CHECK(w, order->outcome == TFOS_CALL_DONE || w->had_faults);
        w->over = true;
        break;
    default:
        break;
    }
}

static void obey(world *w, const tfos__deed *deed)
{
    feed *f = deed->feed != 0 && deed->kind != TFOS__DEED_OPEN_FEED ? find_feed(w, deed->feed) : NULL;
    CHECK(w, !w->over || deed->kind == TFOS__DEED_ORDER);
    CHECK(w,
          w->open || deed->kind == TFOS__DEED_OPEN || deed->kind == TFOS__DEED_CLOSE || deed->kind == TFOS__DEED_ORDER);
    switch (deed->kind) {
    case TFOS__DEED_OPEN:
        CHECK(w, !w->opening && deed->number == w->attempts && w->attempts <= w->options.restarts);
        seen.restarts += w->attempts > 0 ? 1 : 0;
        w->attempts++;
        w->opening = true;
        break;
    case TFOS__DEED_CLOSE:
        lose_coordinator(w);
        break;
    case TFOS__DEED_STOP:
        stop_nodes(w);
        break;
    case TFOS__DEED_FINISH:
        w->finish_asked = true;
        break;
    case TFOS__DEED_ASK:
        send(w, (note){.kind = TFOS_EVENT_STATUS});
        break;
    case TFOS__DEED_OPEN_FEED:
        open_feed(w, deed);
        break;
    case TFOS__DEED_BEGIN_EPOCH:
        begin_epoch(w, deed);
        break;
    case TFOS__DEED_END_EPOCH:
        CHECK(w, w->calls[f->call].job == 0 && f->begun == (int64_t)deed->epoch + 1);
        if (f->open && !f->ended && f->exhausted <= (int64_t)deed->epoch) { /* the job had not fed everything */
            w->had_faults = true;
            end_feed(w, f, TFOS_FEED_STATE_FAILED, TFOS_CORRUPT, TFOS_FAULT_FINAL);
        }
        break;
    case TFOS__DEED_CLOSE_FEED:
        f->open = false;
        break;
    case TFOS__DEED_ORDER:
        obey_order(w, deed);
        break;
    default:
        break;
    }
}

/* A coordinator that is gone hears nothing: what is said to it until the driver knows that is lost. */
static void obey_all(world *w, bool deaf)
{
    tfos__deed deed;
    while (tfos__policy_take(w->policy, &deed, NULL) == TFOS_OK) {
        if (!deaf || deed.kind == TFOS__DEED_ORDER || deed.kind == TFOS__DEED_OPEN || deed.kind == TFOS__DEED_CLOSE) {
            obey(w, &deed);
        }
        tfos__deed_reset(&deed);
    }
}

/* ---- what may happen ---- */

static void fault(world *w, uint64_t *count)
{
    w->had_faults = true;
    (*count)++;
}

static void end_job(world *w, call *c, const char *failure)
{
    uint64_t job = c->job;
    c->job = 0;
    tfos__policy_see_job(w->policy, job, failure, w->now);
}

/* Rows are fed and taken; jobs come to their ends. */
static void run_job(world *w, call *c)
{
    feed *f = &w->feeds[c->job_feed];
    if (c->job_cancelled || !f->open || f->ended) {
        end_job(w, c, c->job_cancelled || draw(w, 2) == 0 || !f->open ? "cancelled" : NULL);
        w->had_faults = true;
    } else if (f->exhausted <= c->job_epoch) {
        f->exhausted = c->job_epoch + 1;
        send_feed(w, f, TFOS_FEED_STATE_EXHAUSTED, c->job_epoch, TFOS_OK, TFOS_FAULT_AGAIN);
    } else {
        end_job(w, c, NULL);
    }
}

static void settle(world *w, feed *f)
{
    bool drop = w->faults && draw(w, 8) == 0;
    if (f->open && !f->ended && f->settled < f->exhausted) {
        if (drop) {
            fault(w, &seen.dropped);
        }
        send_feed(w, f, drop ? TFOS_FEED_STATE_DROPPED : TFOS_FEED_STATE_CONSUMED, f->settled++, TFOS_OK,
                  TFOS_FAULT_AGAIN);
    }
}

static void make_call(world *w)
{
    if (w->call_count == CALLS_MOST || w->finish != 0) {
        return;
    }
    call *c = &w->calls[w->call_count];
    *c = (call){.feeds = true, .turns = 1 + draw(w, 2), .epochs = 1 + (int64_t)draw(w, 4), .next_step = -1};
    /* The number of partitions tells the world whose feed it is. */
    const tfos_feed_options data = {.queue = "input", .partitions = (int64_t)(2 * w->call_count)};
    const tfos_feed_options checked = {.queue = "checked", .partitions = (int64_t)(2 * w->call_count + 1)};
    const tfos_feed_call options = {
        .data = &data, .validation = c->turns == 2 ? &checked : NULL, .epochs = c->epochs, .stream = draw(w, 4) == 0};
    w->call_count++;
    CHECK(w, tfos__policy_feed(w->policy, &options, w->now, &c->number, NULL) == TFOS_OK);
}

static void do_harm(world *w)
{
    call *c = w->call_count > 0 ? &w->calls[draw(w, w->call_count)] : NULL;
    feed *f = w->feed_count > 0 ? &w->feeds[draw(w, w->feed_count)] : NULL;
    switch (draw(w, 12)) {
    case 0:
    case 1:
        if (w->ready && !w->stopping) {
            fault(w, &seen.failed);
            fail_cluster(w);
        }
        break;
    case 2:
        if (w->open) {
            fault(w, &seen.gone);
            lose_coordinator(w);
            obey_all(w, true);
            tfos__policy_gone(w->policy, &(tfos_error){.status = TFOS_IO, .message = "gone"}, w->now);
        }
        break;
    case 3:
        if (c != NULL && c->job != 0) {
            fault(w, &seen.jobs_failed);
            if (w->feeds[c->job_feed].open && draw(w, 2) == 0) {
                send_feed(w, &w->feeds[c->job_feed], TFOS_FEED_STATE_ABANDONED, c->job_epoch,
                          draw(w, 2) == 0 ? TFOS_RAISED : TFOS_IO, TFOS_FAULT_AGAIN);
            }
            end_job(w, c, "executor lost");
        }
        break;
    case 4:
        if (c != NULL && c->job != 0 && draw(w, 4) == 0) {
            end_job(w, c, NULL); /* sent home with a good word; see END_EPOCH */
        }
        break;
    case 5:
        if (f != NULL && f->open && !f->ended) {
            static const tfos_fault faults[] = {TFOS_FAULT_FINAL, TFOS_FAULT_PROGRAM};
            fault(w, &seen.fed_failed);
            end_feed(w, f, TFOS_FEED_STATE_FAILED, TFOS_MISMATCH, faults[draw(w, 2)]);
        }
        break;
    case 6:
        if (f != NULL && f->open && !f->ended) {
            fault(w, &seen.fed_failed);
            end_feed(w, f, draw(w, 2) == 0 ? TFOS_FEED_STATE_TERMINATED : TFOS_FEED_STATE_FINISHED, TFOS_OK,
                     TFOS_FAULT_AGAIN);
        }
        break;
    case 7:
        if (draw(w, 40) == 0) {
            fault(w, &seen.stopped);
            tfos__policy_stop(w->policy, "somebody stops it", w->now);
        }
        break;
    case 8:
        if (draw(w, 40) == 0 && !w->context_ended) {
            fault(w, &seen.contexts);
            w->context_ended = true;
            tfos__policy_see_context_end(w->policy, "was stopped", w->now);
        }
        break;
    case 9:
        obey_all(w, false);
        if (c != NULL && !c->done && draw(w, 8) == 0) {
            fault(w, &seen.abandoned);
            tfos__policy_abandon(w->policy, c->number, w->now);
            c->done = true;
            c->outcome = TFOS_CALL_STOPPED;
            c->job = 0; /* the shell cancels it, and reports that, or not */
        }
        break;
    default:
        break;
    }
}

static void go_on(world *w)
{
    w->now += draw(w, 300);
    tfos__policy_tick(w->policy, w->now);
    obey_all(w, false);
    switch (draw(w, 9)) {
    case 0:
        if (w->looks_due > 0) {
            w->looks_due--;
            tfos__policy_see_spark(
                w->policy, &(tfos_spark_view){.slots = 1, .context_end = w->context_ended ? "was stopped" : NULL},
                w->now);
        }
        break;
    case 1:
        if (w->opening) {
            w->opening = false;
            if (w->faults && draw(w, 10) == 0) {
                fault(w, &seen.refused);
                tfos__policy_refused(w->policy, &(tfos_error){.status = TFOS_LIMIT, .message = "no slots"}, w->now);
            } else {
                w->open = true;
                w->stopping = w->failing = w->finish_asked = false;
                tfos__policy_opened(w->policy, "http://h:1/s", w->now);
            }
        }
        break;
    case 2:
        if (w->open && !w->ready && !w->stopping) {
            w->ready = true;
            send(w, (note){.kind = TFOS_EVENT_READY});
        }
        break;
    case 3:
        if (w->nodes_end_due) {
            w->nodes_end_due = w->nodes_job = false;
            tfos__policy_see_job(w->policy, 0, NULL, w->now);
        }
        break;
    case 4:
        /* The programs end when they are to, and nothing is left to be taken. */
        if (w->ready && w->finish_asked && !w->stopping) {
            end_feeds(w, TFOS_FEED_STATE_FINISHED, TFOS_OK, TFOS_FAULT_AGAIN);
            w->stopping = true;
            send(w, (note){.kind = TFOS_EVENT_OVER});
        }
        break;
    case 5:
        for (size_t i = 0; i < w->call_count; i++) {
            if (w->calls[i].job != 0 && draw(w, 2) == 0) {
                run_job(w, &w->calls[i]);
            }
        }
        break;
    case 6:
        for (size_t i = 0; i < w->feed_count; i++) {
            if (draw(w, 2) == 0) {
                settle(w, &w->feeds[i]);
            }
        }
        break;
    default:
        if (w->note_first < w->note_count) {
            deliver(w);
        }
        break;
    }
    obey_all(w, false);
}

static bool all_fed(const world *w)
{
    for (size_t i = 0; i < w->call_count; i++) {
        if (w->calls[i].feeds && !w->calls[i].done) {
            return false;
        }
    }
    return true;
}

static void finish(world *w)
{
    int64_t timeout_ms = -1;
    if (w->faults && draw(w, 4) == 0) {
        timeout_ms = (int64_t)draw(w, 20000);
        fault(w, &seen.late);
    }
    call *c = &w->calls[w->call_count++];
    *c = (call){.epochs = 0};
    CHECK(w, tfos__policy_finish(w->policy, 0, timeout_ms, w->now, &c->number, NULL) == TFOS_OK);
    w->finish = c->number;
}

static void play(uint64_t seed)
{
    static world played;
    world *w = &played;
    *w = (world){.seed = seed, .random = seed};
    w->options = (tfos__policy_options){.nodes = 1 + (int32_t)draw(w, 3), .spark_feeds = true};
    w->options.here = (int32_t)draw(w, (uint64_t)w->options.nodes + 1);
    w->options.restarts = (int32_t)draw(w, 4);
    w->faults = draw(w, 4) != 0;
    CHECK(w, tfos__policy_new(&w->options, w->now, &w->policy, NULL) == TFOS_OK);
    for (int i = 0; i < STEPS && !w->over; i++) {
        if (draw(w, 40) == 0 && w->call_count < CALLS_MOST - 1) {
            make_call(w);
        }
        if (w->faults && draw(w, 10) == 0) {
            do_harm(w);
            obey_all(w, false);
        }
        go_on(w);
    }
    for (int i = 0; i < PATIENCE && !(tfos__policy_is_idle(w->policy) && w->finish != 0); i++) {
        w->faults = w->faults && i < 200;
        if (w->finish == 0 && (w->over || draw(w, w->faults ? 50 : 10) == 0) && (all_fed(w) || w->faults)) {
            finish(w);
        }
        go_on(w);
    }
    CHECK(w, tfos__policy_is_idle(w->policy) && w->over);
    for (size_t i = 0; i < w->call_count; i++) {
        CHECK(w, w->calls[i].done);
        CHECK(w, w->had_faults || w->calls[i].outcome == TFOS_CALL_DONE);
    }
    CHECK(w, tfos__policy_take(w->policy, &(tfos__deed){0}, NULL) == TFOS_END);
    tfos__policy_free(w->policy);
}

static void test_stories(void **state)
{
    (void)state;
    const char *given = getenv("TFOS_TEST_SEED");
    uint64_t first = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) * RUNS;
    for (uint64_t i = 0; i < (given != NULL ? 1 : RUNS); i++) {
        play(first + i);
    }
    if (given == NULL) {
        assert_true(seen.restarts > 1000 && seen.refused > 100 && seen.gone > 1000 && seen.failed > 1000);
        assert_true(seen.stopped > 100 && seen.contexts > 100 && seen.jobs_failed > 1000 && seen.cancelled > 1000);
        assert_true(seen.again > 1000 && seen.done > 10000 && seen.ended > 1000 && seen.fed_failed > 1000);
        assert_true(seen.dropped > 1000 && seen.late > 100 && seen.abandoned > 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stories)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
