/* The ledger under a Spark that does its worst: tasks are retried, run twice, killed and cut off at any point while
 * they go on feeding; nodes are lost; answers come late, twice and in any order. Around the ledger stands a model of
 * lanes that knows only which row was committed how often, and which lanes are settled: at any time, also when further
 * epochs are under way. Whatever happens, each row is committed once per epoch, no task returns before its partition is
 * in lanes, the mark comes once and after the last row, an epoch is called consumed once, in turn and when all that was
 * committed is settled, and nobody waits for ever.
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

#include "feed/ledger.h"
#include "helper_random.h"

enum {
    RUNS = 40000,
    FEEDING_NODES = 3, /* take rows, and are never lost: the cluster would be lost with them */
    NODES = 5,
    PARTITIONS_MOST = 5,
    ROWS_MOST = 12,
    TASKS_MOST = 600,
    NOTES_MOST = 8192,
    PATIENCE = 40000, /* steps without faults in which everything must come to its end */
    EPOCHS_MOST = 3,
};

typedef enum order { DETERMINATE, INDETERMINATE, AGAIN, ORDERS } order;

typedef struct task {
    uint64_t epoch;
    uint64_t partition;
    uint32_t generation;
    bool alive;
    bool connected;
    bool asked;
    bool known; /* to the ledger: it waits or feeds there */
    bool granted;
    bool exhausted;
    bool stopped;
    uint64_t start;
    uint64_t next;
    uint64_t end_row[NODES];
    uint64_t lane_rows[NODES];
    bool lane_settled[NODES];
    bool fenced[NODES];
} task;

/* What is under way between coordinator and nodes. */
typedef struct note {
    bool is_answer;
    size_t task;
    uint32_t node;
    uint64_t fed;
} note;

typedef struct world {
    uint64_t random;
    order kind;
    tfos__ledger *ledger;
    uint64_t partitions;
    uint64_t rows[PARTITIONS_MOST];
    uint64_t epoch;
    uint32_t generation; /* how many epochs were begun */
    bool begins;
    uint64_t epochs[EPOCHS_MOST];       /* their numbers, … */
    uint64_t committed_in[EPOCHS_MOST]; /* … rows in lanes … */
    uint64_t settled_in[EPOCHS_MOST];
    uint64_t dropped_in[EPOCHS_MOST];
    uint32_t consumed; /* how many of them were called so */
    bool ended;
    bool failed;
    bool faults;
    uint32_t marks;
    uint64_t takeovers;
    uint64_t surplus; /* rows committed beyond the first time, in epochs before */
    uint32_t committed[PARTITIONS_MOST][ROWS_MOST];
    bool exhausted[PARTITIONS_MOST];
    uint64_t settled[PARTITIONS_MOST];
    bool lost[PARTITIONS_MOST]; /* the rest cannot be found */
    bool node_alive[NODES];
    size_t task_count;
    size_t note_count;
    task task[TASKS_MOST];
    note note[NOTES_MOST];
} world;

/* How often something happened in all runs: a test that never comes to the point has proved nothing. */
static struct {
    uint64_t granted, takeovers, sent_home, ended, unfindable, stale, repeated, marks, fences, stops, failures, early,
        overlaps;
} seen;

static uint64_t draw(world *w, uint64_t below)
{
    return helper_draw(&w->random, below);
}

static bool is_current(const world *w, const task *t)
{
    return t->generation == w->generation;
}

static tfos__attempt attempt_of(const world *w, const task *t)
{
    return (tfos__attempt){
        .feed = 7, .epoch = t->epoch, .partition = t->partition, .task = 1000 + (uint64_t)(t - w->task)};
}

static uint64_t producer_of(const world *w, const task *t)
{
    return 1 + (uint64_t)(t - w->task);
}

static task *task_of(world *w, uint64_t producer)
{
    assert_in_range(producer, 1, w->task_count);
    return &w->task[producer - 1];
}

static uint64_t committed_rows(const world *w, uint64_t partition)
{
    uint64_t rows = 0;
    for (uint64_t row = 0; row < w->rows[partition]; row++) {
        rows += w->committed[partition][row];
    }
    return rows;
}

/* ---- what the ledger wants ---- */

static void check_grant(world *w, task *t, uint64_t fed)
{
    assert_false(w->exhausted[t->partition]);
    for (size_t i = 0; i < w->task_count; i++) {
        const task *other = &w->task[i];
        if (other == t || !is_current(w, other) || other->partition != t->partition || !other->granted) {
            continue;
        }
        /* Nobody else can commit a row of this partition any more. */
        assert_false(other->known);
        for (uint32_t node = 0; node < FEEDING_NODES && other->alive; node++) {
            assert_true(other->fenced[node]);
        }
    }
    if (w->kind == AGAIN) {
        assert_int_equal(fed, 0);
        return;
    }
    assert_int_equal(fed, committed_rows(w, t->partition));
    assert_true(w->kind == DETERMINATE || fed == 0);
    w->takeovers += fed > 0;
    seen.takeovers += fed > 0;
}

static void on_failed(world *w, task *t, const tfos_error *error)
{
    if (w->failed) {
        assert_string_equal(error->message, "a bad row");
    } else if (!is_current(w, t) || w->begins) {
        assert_int_equal(error->status, TFOS_CANCELLED);
        seen.stale++;
    } else {
        assert_int_equal(error->status, TFOS_UNSUPPORTED);
        assert_int_equal(w->kind, INDETERMINATE);
        assert_true(committed_rows(w, t->partition) > 0);
        assert_false(w->exhausted[t->partition]);
        w->lost[t->partition] = true;
        seen.unfindable++;
    }
}

static void on_answer(void *context, uint64_t producer, tfos__admission admission, uint64_t fed,
                      const tfos_error *error)
{
    world *w = context;
    task *t = task_of(w, producer);
    assert_true(t->asked && t->known);
    if (admission == TFOS__ADMISSION_GRANTED && t->granted) {
        assert_int_equal(fed, t->start); /* it had asked again */
        return;
    }
    if (admission == TFOS__ADMISSION_GRANTED) {
        assert_true(is_current(w, t) && !w->ended && !w->failed);
        check_grant(w, t, fed);
        seen.granted++;
        t->granted = true;
        t->start = fed;
        t->next = fed;
        return;
    }
    t->known = false;
    t->alive = false;
    if (admission == TFOS__ADMISSION_COMPLETE) {
        assert_true(is_current(w, t) && w->exhausted[t->partition]);
        seen.sent_home += !t->exhausted;
    } else if (admission == TFOS__ADMISSION_ENDED) {
        assert_true(w->ended);
        seen.ended++;
    } else {
        on_failed(w, t, error);
    }
}

static void send(world *w, bool is_answer, size_t index, uint32_t node, uint64_t fed)
{
    assert_true(w->note_count < NOTES_MOST);
    w->note[w->note_count++] = (note){.is_answer = is_answer, .task = index, .node = node, .fed = fed};
}

static void on_fence(void *context, const tfos__attempt *attempt)
{
    world *w = context;
    size_t index = (size_t)(attempt->task - 1000);
    tfos__attempt expected = attempt_of(w, task_of(w, index + 1));
    assert_memory_equal(attempt, &expected, sizeof expected);
    seen.fences++;
    for (uint32_t node = 0; node < NODES; node++) {
        if (w->node_alive[node]) {
            send(w, false, index, node, 0);
        }
    }
}

static void on_mark(void *context, uint64_t feed, uint64_t epoch)
{
    world *w = context;
    assert_int_equal(feed, 7);
    assert_int_equal(epoch, w->epoch);
    assert_int_equal(w->marks, 0);
    assert_false(w->ended || w->failed);
    w->marks++;
    seen.marks++;
    for (uint64_t partition = 0; partition < w->partitions; partition++) {
        assert_true(w->exhausted[partition]);
        for (uint64_t row = 0; row < w->rows[partition]; row++) {
            assert_true(w->committed[partition][row] > 0);
        }
    }
}

static void on_consumed(void *context, uint64_t feed, uint64_t epoch, uint64_t dropped)
{
    world *w = context;
    uint32_t which = w->consumed++;
    assert_int_equal(feed, 7);
    assert_true(which < w->generation);
    assert_int_equal(epoch, w->epochs[which]);
    assert_int_equal(w->settled_in[which], w->committed_in[which]);
    assert_int_equal(dropped, w->dropped_in[which]);
    assert_true(which + 1 < w->generation || w->marks == 1);
    assert_false(w->ended || w->failed);
    seen.overlaps += which + 1 < w->generation;
}

static void on_stop(void *context, uint64_t producer)
{
    world *w = context;
    task *t = task_of(w, producer);
    assert_true((w->ended || w->begins) && t->granted && t->known && !t->stopped);
    t->stopped = true;
    t->known = !w->begins;
    seen.stops++;
}

/* ---- what happens ---- */

/* Batches are given to lanes in order; a node that has fenced the attempt takes none. */
static void commit(world *w, task *t)
{
    uint32_t node = (uint32_t)draw(w, FEEDING_NODES);
    uint64_t end = t->next + 1 + draw(w, 3);
    end = end < w->rows[t->partition] ? end : w->rows[t->partition];
    if (t->fenced[node]) {
        t->alive = false;
        return;
    }
    t->lane_rows[node] += end - t->next;
    assert_false(t->lane_settled[node]);
    for (; t->next < end; t->next++) {
        w->committed_in[t->generation - 1]++;
        if (!is_current(w, t)) {
            assert_true(w->ended); /* otherwise those of the epochs before are all fenced */
            continue;
        }
        uint32_t times = ++w->committed[t->partition][t->next];
        assert_true(w->kind == AGAIN || times == 1);
        assert_int_equal(w->marks, 0);
    }
    t->end_row[node] = end;
}

/* A node tells what has become of a lane that takes nothing more. */
static void settle(world *w, task *t, uint32_t node)
{
    bool sealed = t->fenced[node] || !t->alive || t->exhausted;
    uint64_t rows = t->lane_rows[node];
    if (!sealed || rows == 0 || t->lane_settled[node]) {
        return;
    }
    uint64_t dropped = draw(w, 4) == 0 ? draw(w, rows + 1) : 0;
    tfos__attempt attempt = attempt_of(w, t);
    t->lane_settled[node] = true;
    t->alive = t->alive && !t->fenced[node];
    w->settled_in[t->generation - 1] += rows;
    w->dropped_in[t->generation - 1] += dropped;
    w->settled[t->partition] += is_current(w, t) ? rows : 0;
    seen.early += is_current(w, t) && !w->exhausted[t->partition];
    tfos__ledger_settle(w->ledger, &attempt, rows - dropped, dropped);
}

static void settle_some(world *w)
{
    task *t = &w->task[draw(w, w->task_count)];
    settle(w, t, (uint32_t)draw(w, FEEDING_NODES));
}

static void tell_leave(world *w, task *t)
{
    uint32_t nodes[NODES];
    size_t count = 0;
    for (uint32_t node = 0; node < NODES; node++) {
        if (w->node_alive[node]) {
            nodes[count++] = node;
        }
    }
    t->connected = false;
    t->known = false;
    tfos__ledger_leave(w->ledger, producer_of(w, t), nodes, count);
}

/* One that feeds takes its next step; one that has lost its connection goes on as long as it can. */
static void feed_on(world *w, task *t)
{
    uint64_t rows = w->rows[t->partition];
    if (t->stopped && draw(w, 2) == 0) {
        t->alive = false;
    } else if (t->next < rows) {
        commit(w, t);
    } else if (!t->connected) {
        t->alive = false;
    } else if (!t->exhausted) {
        t->exhausted = true;
        if (is_current(w, t) && t->known) {
            w->exhausted[t->partition] = true;
        }
        tfos__ledger_exhaust(w->ledger, producer_of(w, t), rows);
        t->alive = false;
    }
}

static void step_task(world *w, task *t)
{
    tfos__attempt attempt = attempt_of(w, t);
    if (!t->alive) {
        if (t->connected) {
            tell_leave(w, t);
        }
    } else if (!t->asked) {
        t->asked = true;
        t->known = true;
        tfos__ledger_admit(w->ledger, producer_of(w, t), &attempt);
    } else if (t->granted) {
        feed_on(w, t);
    } else if (draw(w, 8) == 0) {
        tfos__ledger_admit(w->ledger, producer_of(w, t), &attempt);
    }
    /* What is said out of turn, by those who wait or have left, is nothing. */
    if (!t->known || !t->granted) {
        tfos__ledger_exhaust(w->ledger, producer_of(w, t), draw(w, ROWS_MOST));
        tfos__ledger_fail(w->ledger, producer_of(w, t), &(tfos_error){.status = TFOS_IO});
    }
}

static void deliver(world *w)
{
    size_t at = (size_t)draw(w, w->note_count);
    note n = w->note[at];
    bool twice = draw(w, 6) == 0;
    task *t = &w->task[n.task];
    if (!twice) {
        w->note[at] = w->note[--w->note_count];
    }
    if (n.is_answer) {
        tfos__attempt attempt = attempt_of(w, t);
        tfos__ledger_fenced(w->ledger, &attempt, n.node, n.fed);
    } else if (w->node_alive[n.node]) {
        t->fenced[n.node] = true;
        send(w, true, n.task, n.node, t->end_row[n.node]);
    }
}

static void launch(world *w, uint64_t partition)
{
    if (w->task_count < TASKS_MOST) {
        w->task[w->task_count++] = (task){
            .epoch = w->epoch, .partition = partition, .generation = w->generation, .alive = true, .connected = true};
    }
}

/* Spark starts what has no task, and sometimes a second one of what has, even if it has just been completed. */
static void schedule(world *w)
{
    if (w->partitions == 0 || (w->failed && !w->faults)) {
        return;
    }
    uint64_t partition = draw(w, w->partitions);
    bool has_one = false;
    for (size_t i = 0; i < w->task_count; i++) {
        const task *t = &w->task[i];
        has_one = has_one || (t->alive && t->connected && is_current(w, t) && t->partition == partition);
    }
    bool is_done = w->exhausted[partition] || w->lost[partition] || (w->ended && !w->faults);
    if ((!has_one && !is_done) || (w->faults && draw(w, 4) == 0)) {
        launch(w, partition);
    }
}

/* Mostly one of the youngest: the others have ended long ago. */
static task *pick(world *w)
{
    uint64_t recent = w->task_count < 12 || draw(w, 4) == 0 ? w->task_count : 12;
    return &w->task[w->task_count - 1 - draw(w, recent)];
}

static void do_harm(world *w)
{
    task *t = w->task_count > 0 ? pick(w) : NULL;
    uint32_t node = FEEDING_NODES + (uint32_t)draw(w, NODES - FEEDING_NODES);
    uint64_t what = draw(w, 40);
    if (what < 12 && t != NULL) {
        t->alive = false;
    } else if (what < 24 && t != NULL && t->connected && t->asked) {
        t->alive = t->alive && t->granted;
        tell_leave(w, t);
    } else if (what == 24) {
        w->node_alive[node] = false;
        tfos__ledger_lose(w->ledger, node);
    } else if (what == 25 && draw(w, 12) == 0) {
        w->ended = true;
        tfos__ledger_end(w->ledger, draw(w, 2) == 0 ? 7 : UINT64_MAX);
    } else if (what == 26 && t != NULL && t->known && t->granted && !w->ended && draw(w, 2) == 0) {
        w->failed = true;
        seen.failures++;
        t->known = false;
        t->alive = false;
        tfos__ledger_fail(w->ledger, producer_of(w, t), &(tfos_error){.status = TFOS_RANGE, .message = "a bad row"});
    }
}

static void check_counts(const world *w)
{
    uint64_t feeding = 0;
    uint64_t waiting = 0;
    uint64_t exhausted = 0;
    uint64_t complete = 0;
    tfos__ledger_counts counts;
    for (size_t i = 0; i < w->task_count; i++) {
        feeding += w->task[i].known && w->task[i].granted;
        waiting += w->task[i].known && !w->task[i].granted;
    }
    for (uint64_t partition = 0; partition < w->partitions; partition++) {
        exhausted += w->exhausted[partition];
        complete += w->exhausted[partition] && w->settled[partition] == committed_rows(w, partition);
    }
    assert_true(tfos__ledger_count(w->ledger, 7, &counts));
    assert_int_equal(counts.feeding, feeding);
    assert_int_equal(counts.waiting, waiting);
    assert_int_equal(counts.exhausted, exhausted);
    assert_int_equal(counts.complete, complete);
    assert_int_equal(counts.skipped, w->ended ? w->partitions - exhausted - feeding : 0);
    assert_int_equal(counts.ended, w->ended);
    assert_int_equal(counts.failed, w->failed);
    assert_int_equal(counts.takeovers, w->takeovers);
}

static void step(world *w)
{
    uint64_t what = draw(w, 11);
    if (what == 10 && w->task_count > 0) {
        settle_some(w);
    } else if (what == 0) {
        schedule(w);
    } else if (what < 3 && w->note_count > 0) {
        deliver(w);
    } else if (what == 3 && w->faults) {
        do_harm(w);
    } else if (w->task_count > 0) {
        step_task(w, pick(w));
    }
}

/* Whether nothing is left to be fed. */
static bool is_fed(const world *w)
{
    for (uint64_t partition = 0; partition < w->partitions; partition++) {
        if (!w->exhausted[partition] && !w->lost[partition] && !w->ended && !w->failed) {
            return false;
        }
    }
    return true;
}

static bool is_quiet(const world *w)
{
    for (size_t i = 0; i < w->task_count; i++) {
        const task *t = &w->task[i];
        for (uint32_t node = 0; node < FEEDING_NODES; node++) {
            if (t->lane_rows[node] > 0 && !t->lane_settled[node]) {
                return false;
            }
        }
        if (t->alive || t->connected) {
            return false;
        }
    }
    return w->note_count == 0 && is_fed(w);
}

/* ---- runs ---- */

static void begin_epoch(world *w, uint64_t epoch)
{
    for (uint64_t partition = 0; partition < w->partitions; partition++) {
        w->surplus += w->exhausted[partition] ? committed_rows(w, partition) - w->rows[partition] : 0;
    }
    w->begins = true;
    w->marks = 0;
    w->epoch = epoch;
    w->epochs[w->generation++] = epoch;
    memset(w->committed, 0, sizeof w->committed);
    memset(w->exhausted, 0, sizeof w->exhausted);
    memset(w->settled, 0, sizeof w->settled);
    memset(w->lost, 0, sizeof w->lost);
    assert_int_equal(tfos__ledger_begin(w->ledger, 7, epoch, NULL), TFOS_OK);
    w->begins = false;
    for (size_t i = 0; i < w->task_count; i++) {
        w->task[i].known = false;
    }
}

static void start_world(world *w, uint64_t seed)
{
    const tfos__ledger_calls calls = {.answer = on_answer,
                                      .fence = on_fence,
                                      .mark = on_mark,
                                      .consumed = on_consumed,
                                      .stop = on_stop,
                                      .context = w};
    memset(w, 0, offsetof(world, task));
    w->random = seed;
    w->kind = (order)draw(w, ORDERS);
    w->partitions = draw(w, PARTITIONS_MOST + 1);
    for (uint64_t partition = 0; partition < w->partitions; partition++) {
        w->rows[partition] = draw(w, 4) == 0 ? 0 : draw(w, ROWS_MOST + 1);
    }
    for (uint32_t node = 0; node < NODES; node++) {
        w->node_alive[node] = node < FEEDING_NODES || draw(w, 2) == 0;
    }
    const tfos__ledger_feed feed = {
        .feed = 7, .partitions = w->partitions, .determinate = w->kind == DETERMINATE, .again = w->kind == AGAIN};
    assert_int_equal(tfos__ledger_new(&calls, &w->ledger, NULL), TFOS_OK);
    assert_int_equal(tfos__ledger_open(w->ledger, &feed, NULL), TFOS_OK);
}

static void check_end(world *w)
{
    tfos__ledger_counts counts;
    check_counts(w);
    assert_true(tfos__ledger_count(w->ledger, 7, &counts));
    assert_int_equal(counts.feeding + counts.waiting, 0);
    if (w->ended || w->failed) {
        return;
    }
    bool all = true;
    uint64_t rows = 0;
    for (uint64_t partition = 0; partition < w->partitions; partition++) {
        tfos__partition_view view;
        uint64_t committed = committed_rows(w, partition);
        assert_true(tfos__ledger_partition(w->ledger, 7, partition, &view));
        all = all && w->exhausted[partition];
        if (w->exhausted[partition]) {
            assert_int_equal(view.state, TFOS__PARTITION_COMPLETE);
            assert_int_equal(view.rows, w->rows[partition]);
            assert_true(w->kind == AGAIN ? committed >= view.rows : committed == view.rows);
            rows += view.rows;
            w->surplus += committed - view.rows;
        }
    }
    assert_int_equal(counts.rows, rows);
    assert_int_equal(w->marks, all);
    assert_true(all || w->kind == INDETERMINATE);
    assert_int_equal(w->consumed, w->generation - (all ? 0 : 1));
    assert_int_equal(counts.unsettled, 0);
    assert_int_equal(counts.duplicates, w->surplus);
    seen.repeated += w->surplus;
}

/* One epoch with faults, then peace; the last one is followed to its end, others until their partitions are in lanes.
 */
static void live(world *w, bool is_last)
{
    uint64_t steps = draw(w, 600);
    w->faults = true;
    for (uint64_t i = 0; i < steps; i++) {
        step(w);
        if (i % 16 == 0) {
            check_counts(w);
        }
    }
    w->faults = false;
    size_t patience = 0;
    while (is_last ? !is_quiet(w) : !is_fed(w)) {
        step(w);
        assert_true(++patience < PATIENCE);
    }
}

static bool is_exhausted(const world *w)
{
    bool all = true;
    for (uint64_t partition = 0; partition < w->partitions; partition++) {
        all = all && w->exhausted[partition];
    }
    return all;
}

static void run(world *w, uint64_t seed)
{
    uint64_t epochs;
    uint64_t epoch = 0;
    start_world(w, seed);
    epochs = 1 + draw(w, EPOCHS_MOST);
    for (uint64_t i = 0; i < epochs && !w->failed; i++) {
        if (i > 0 && !w->ended && !is_exhausted(w)) {
            assert_int_equal(tfos__ledger_begin(w->ledger, 7, epoch, NULL), TFOS_INVALID);
            break; /* a partition is lost */
        }
        begin_epoch(w, epoch);
        live(w, false);
        epoch += 1 + draw(w, 2);
    }
    live(w, true);
    check_end(w);
    tfos__ledger_close(w->ledger, 7);
    tfos__ledger_free(w->ledger);
}

static uint64_t last_seed;

static void test_a_spark_that_does_its_worst(void **state)
{
    (void)state;
    const char *given = getenv("TFOS_TEST_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) * RUNS;
    uint64_t runs = given != NULL ? 1 : RUNS;
    world *w = malloc(sizeof *w);
    assert_non_null(w);
    for (uint64_t i = 0; i < runs; i++) {
        last_seed = seed + i;
        run(w, last_seed);
    }
    free(w);
    print_message("let in %" PRIu64 ", takeovers %" PRIu64 ", sent home %" PRIu64 ", ended %" PRIu64
                  ", unfindable %" PRIu64 ", stale %" PRIu64 ", rows repeated %" PRIu64 ", marks %" PRIu64
                  ", fences %" PRIu64 ", stops %" PRIu64 ", failures %" PRIu64 ", settled early %" PRIu64
                  ", epochs consumed behind others %" PRIu64 "\n",
                  seen.granted, seen.takeovers, seen.sent_home, seen.ended, seen.unfindable, seen.stale, seen.repeated,
                  seen.marks, seen.fences, seen.stops, seen.failures, seen.early, seen.overlaps);
    if (given == NULL) {
        assert_true(seen.takeovers > RUNS / 10 && seen.sent_home > RUNS / 10 && seen.marks > RUNS / 10);
        assert_true(seen.unfindable > RUNS / 100 && seen.repeated > RUNS / 100 && seen.stale > RUNS / 100);
        assert_true(seen.ended > RUNS / 100 && seen.stops > RUNS / 100 && seen.failures > RUNS / 100);
        assert_true(seen.early > RUNS / 10 && seen.overlaps > RUNS / 10);
    }
}

static int tell_seed(void **state)
{
    (void)state;
    print_message("the last run was TFOS_TEST_SEED=%" PRIu64 "\n", last_seed);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_a_spark_that_does_its_worst, tell_seed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
