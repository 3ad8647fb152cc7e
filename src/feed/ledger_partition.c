/* The life of a partition in an epoch: who holds it, who waits for it, and where the next one begins.
 *
 * A partition that is exhausted is all in lanes, and no other attempt is let in: what comes is sent home.
 *
 * Where Spark calls the order of the data indeterminate, "the first n rows" of another computation are other rows. An
 * attempt may follow one that fed nothing; otherwise the rest cannot be found. With `again` each attempt begins with
 * the first row instead, and what an earlier one had fed are duplicates. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/status.h"
#include "feed/ledger_state.h"

enum { NODES_MOST = 1 << 20 };

/* ---- producers ---- */

static uint64_t number_of(const tfos__producer_record *producer)
{
    return (uint64_t)(producer->partition - producer->feed->partition);
}

tfos__attempt tfos__ledger_attempt_of(const tfos__producer_record *producer)
{
    return (tfos__attempt){.feed = producer->feed->about.feed,
                           .epoch = producer->feed->now.epoch,
                           .partition = number_of(producer),
                           .task = producer->attempt};
}

static void enlist(tfos__producer_record **list, tfos__producer_record *producer)
{
    producer->next = *list;
    producer->link = list;
    if (*list != NULL) {
        (*list)->link = &producer->next;
    }
    *list = producer;
}

static void delist(tfos__producer_record *producer)
{
    *producer->link = producer->next;
    if (producer->next != NULL) {
        producer->next->link = producer->link;
    }
}

static tfos_status enter(tfos__ledger *ledger, tfos__feed_record *feed, uint64_t number, const tfos__attempt *attempt,
                         tfos__producer_record **out, tfos_error *error)
{
    tfos__producer_record *producer = calloc(1, sizeof *producer);
    if (producer == NULL) {
        return tfos__fail_memory(error, sizeof *producer);
    }
    tfos_status status = tfos__number_map_put(&ledger->producer, number, producer, error);
    if (status != TFOS_OK) {
        free(producer);
        return status;
    }
    producer->number = number;
    producer->attempt = attempt->task;
    producer->feed = feed;
    producer->partition = &feed->partition[attempt->partition];
    enlist(&feed->producers, producer);
    *out = producer;
    return TFOS_OK;
}

/* Those that wait are let in one after the other, in the order in which they came. */
static void park(tfos__producer_record *producer)
{
    tfos__producer_record *first = producer->partition->waiting;
    producer->state = TFOS__PRODUCER_PARKED;
    producer->after = first != NULL ? first : producer;
    producer->before = first != NULL ? first->before : producer;
    producer->before->after = producer;
    producer->after->before = producer;
    if (first == NULL) {
        producer->partition->waiting = producer;
    }
    producer->feed->waiting++;
}

static void unpark(tfos__producer_record *producer)
{
    tfos__partition_record *partition = producer->partition;
    producer->after->before = producer->before;
    producer->before->after = producer->after;
    if (partition->waiting == producer) {
        partition->waiting = producer->after != producer ? producer->after : NULL;
    }
    producer->feed->waiting--;
}

void tfos__ledger_drop(tfos__ledger *ledger, tfos__producer_record *producer)
{
    if (producer->state == TFOS__PRODUCER_PARKED) {
        unpark(producer);
    } else {
        producer->partition->holder = NULL;
        producer->partition->state = TFOS__PARTITION_IDLE;
    }
    if (producer->state == TFOS__PRODUCER_ADMITTED) {
        producer->feed->feeding--;
    }
    if (producer->state != TFOS__PRODUCER_GONE) {
        tfos__number_map_remove(&ledger->producer, producer->number);
    }
    delist(producer);
    free(producer->asked);
    free(producer);
}

void tfos__ledger_dismiss(tfos__ledger *ledger, tfos__producer_record *producer, tfos__admission admission,
                          const tfos_error *error)
{
    uint64_t number = producer->number;
    tfos__ledger_drop(ledger, producer);
    ledger->calls.answer(ledger->calls.context, number, admission, 0, error);
}

/* ---- coming ---- */

static tfos_status check_epoch(const tfos__feed_record *feed, const tfos__attempt *attempt, tfos_error *error)
{
    uint64_t number = attempt->feed;
    if (feed->closed) {
        return tfos__fail(error, TFOS_CANCELLED, "feed %" PRIu64 " is closed: the driver is done with it", number);
    }
    if (!feed->begun || attempt->epoch > feed->now.epoch) {
        return tfos__fail(error, TFOS_INVALID,
                          "epoch %" PRIu64 " of feed %" PRIu64 " has not begun; the driver begins it before its tasks",
                          attempt->epoch, number);
    }
    if (attempt->epoch < feed->now.epoch) {
        return tfos__fail(error, TFOS_CANCELLED,
                          "epoch %" PRIu64 " of feed %" PRIu64 " is over: epoch %" PRIu64 " has begun", attempt->epoch,
                          number, feed->now.epoch);
    }
    if (attempt->partition >= feed->about.partitions) {
        return tfos__fail(error, TFOS_INVALID,
                          "feed %" PRIu64 " was opened for %" PRIu64 " partitions; there is no partition %" PRIu64
                          " (they are counted from 0)",
                          number, feed->about.partitions, attempt->partition);
    }
    return TFOS_OK;
}

/* Whether an attempt could feed what is left of its partition. */
static tfos_status check_rest(const tfos__feed_record *feed, const tfos__partition_record *partition, uint64_t attempt,
                              tfos_error *error)
{
    uint64_t number = (uint64_t)(partition - feed->partition);
    /* Nodes open no lane to an attempt that was fenced. */
    if (partition->attempts > 0 && partition->attempt == attempt) {
        return tfos__fail(error, TFOS_CANCELLED,
                          "attempt %" PRIu64 " to feed partition %" PRIu64 " of feed %" PRIu64
                          " is known by another connection; a task that has lost its connection cannot go on, and "
                          "Spark has to start another",
                          attempt, number, feed->about.feed);
    }
    if (partition->fed > 0 && !feed->about.determinate && !feed->about.again) {
        return tfos__fail(
            error, TFOS_UNSUPPORTED,
            "partition %" PRIu64 " of feed %" PRIu64 " cannot be fed to its end: a task died when %" PRIu64
            " rows had been fed, and Spark calls the order of this data indeterminate, so the rest cannot "
            "be found; checkpoint() or localCheckpoint() the data before feeding, or pass "
            "retry=\"again\" to feed the partition again with duplicates",
            number, feed->about.feed, partition->fed);
    }
    return TFOS_OK;
}

/* GRANTED: the attempt may come in, now or later. */
static tfos__admission judge(const tfos__ledger *ledger, const tfos__attempt *attempt, tfos_error *error)
{
    const tfos__feed_record *feed = tfos__number_map_get(&ledger->feed, attempt->feed);
    if (feed == NULL && ledger->ended) {
        return TFOS__ADMISSION_ENDED;
    }
    if (feed == NULL) {
        tfos__fail(error, TFOS_NOT_FOUND, "there is no feed %" PRIu64 "; the driver opens it before its tasks start",
                   attempt->feed);
        return TFOS__ADMISSION_FAILED;
    }
    if (feed->failed) {
        tfos__ledger_failure(feed, error);
        return TFOS__ADMISSION_FAILED;
    }
    if (feed->ended) {
        return TFOS__ADMISSION_ENDED;
    }
    if (check_epoch(feed, attempt, error) != TFOS_OK) {
        return TFOS__ADMISSION_FAILED;
    }
    const tfos__partition_record *partition = &feed->partition[attempt->partition];
    if (partition->state == TFOS__PARTITION_DRAINING || partition->state == TFOS__PARTITION_COMPLETE) {
        return TFOS__ADMISSION_COMPLETE;
    }
    bool fits = check_rest(feed, partition, attempt->task, error) == TFOS_OK;
    return fits ? TFOS__ADMISSION_GRANTED : TFOS__ADMISSION_FAILED;
}

static void let_in(tfos__ledger *ledger, tfos__producer_record *producer)
{
    tfos__feed_record *feed = producer->feed;
    tfos__partition_record *partition = producer->partition;
    if (tfos__ledger_repeats(feed)) {
        producer->start = 0;
        feed->duplicates += partition->fed;
    } else {
        producer->start = partition->fed;
        feed->takeovers += partition->fed > 0;
    }
    producer->state = TFOS__PRODUCER_ADMITTED;
    partition->holder = producer;
    partition->state = TFOS__PARTITION_FEEDING;
    partition->attempt = producer->attempt;
    partition->attempts++;
    feed->feeding++;
    ledger->calls.answer(ledger->calls.context, producer->number, TFOS__ADMISSION_GRANTED, producer->start, NULL);
}

/* A producer that asks twice has lost the answer, or has yet to get it. One that asks for something else instead is
 * told so; what it holds is freed when it leaves. */
static void answer_again(tfos__ledger *ledger, const tfos__producer_record *producer, const tfos__attempt *attempt)
{
    tfos__attempt first = tfos__ledger_attempt_of(producer);
    if (!tfos__attempt_equal(&first, attempt)) {
        tfos_error error;
        tfos__fail(&error, TFOS_INVALID,
                   "this task feeds partition %" PRIu64 " of feed %" PRIu64
                   "; it cannot feed another one over the same connection",
                   first.partition, first.feed);
        ledger->calls.answer(ledger->calls.context, producer->number, TFOS__ADMISSION_FAILED, 0, &error);
    } else if (producer->state == TFOS__PRODUCER_ADMITTED) {
        ledger->calls.answer(ledger->calls.context, producer->number, TFOS__ADMISSION_GRANTED, producer->start, NULL);
    }
}

void tfos__ledger_admit(tfos__ledger *ledger, uint64_t producer, const tfos__attempt *attempt)
{
    const tfos__producer_record *known = tfos__number_map_get(&ledger->producer, producer);
    if (known != NULL) {
        answer_again(ledger, known, attempt);
        return;
    }
    tfos_error error;
    tfos__producer_record *record = NULL;
    tfos__admission admission = judge(ledger, attempt, &error);
    if (admission == TFOS__ADMISSION_GRANTED) {
        tfos__feed_record *feed = tfos__number_map_get(&ledger->feed, attempt->feed);
        if (enter(ledger, feed, producer, attempt, &record, &error) != TFOS_OK) {
            admission = TFOS__ADMISSION_FAILED;
        }
    }
    if (admission != TFOS__ADMISSION_GRANTED) {
        ledger->calls.answer(ledger->calls.context, producer, admission, 0,
                             admission == TFOS__ADMISSION_FAILED ? &error : NULL);
    } else if (record->partition->state == TFOS__PARTITION_IDLE) {
        let_in(ledger, record);
    } else {
        park(record);
    }
}

/* ---- feeding ---- */

/* An attempt is over, and so many of its rows are in lanes. */
static void note_committed(tfos__feed_record *feed, tfos__partition_record *partition, uint64_t rows)
{
    partition->committed += rows;
    feed->now.committed += rows;
}

static void look_whether_complete(tfos__feed_record *feed, tfos__partition_record *partition)
{
    if (partition->state == TFOS__PARTITION_DRAINING && partition->settled == partition->committed) {
        partition->state = TFOS__PARTITION_COMPLETE;
        feed->complete++;
    }
}

void tfos__ledger_exhaust(tfos__ledger *ledger, uint64_t producer, uint64_t rows)
{
    tfos__producer_record *record = tfos__number_map_get(&ledger->producer, producer);
    if (record == NULL || record->state != TFOS__PRODUCER_ADMITTED) {
        return; /* what anybody else says is out of date */
    }
    tfos__feed_record *feed = record->feed;
    tfos__partition_record *partition = record->partition;
    if (rows < record->start) {
        tfos_error error;
        tfos__fail(&error, TFOS_MISMATCH,
                   "partition %" PRIu64 " of feed %" PRIu64 " had at least %" PRIu64
                   " rows when it was fed first, and has %" PRIu64
                   " when Spark computes it again, so what was fed is no part of it; checkpoint() or "
                   "localCheckpoint() the data before feeding",
                   number_of(record), feed->about.feed, record->start, rows);
        tfos__ledger_fail_feed(ledger, feed, &error);
        return;
    }
    note_committed(feed, partition, rows - record->start);
    tfos__ledger_dismiss(ledger, record, TFOS__ADMISSION_COMPLETE, NULL);
    partition->state = TFOS__PARTITION_DRAINING;
    partition->rows = rows;
    feed->exhausted++;
    feed->rows += rows;
    while (partition->waiting != NULL) {
        tfos__ledger_dismiss(ledger, partition->waiting, TFOS__ADMISSION_COMPLETE, NULL);
    }
    look_whether_complete(feed, partition);
    tfos__ledger_mark(ledger, feed);
}

void tfos__ledger_settle(tfos__ledger *ledger, const tfos__attempt *attempt, uint64_t consumed, uint64_t dropped)
{
    tfos__feed_record *feed = tfos__number_map_get(&ledger->feed, attempt->feed);
    tfos__epoch_record *epoch = feed != NULL ? tfos__ledger_epoch(feed, attempt->epoch) : NULL;
    if (epoch == NULL) {
        return;
    }
    epoch->settled += consumed + dropped;
    epoch->dropped += dropped;
    if (epoch == &feed->now && feed->partition != NULL && attempt->partition < feed->about.partitions) {
        tfos__partition_record *partition = &feed->partition[attempt->partition];
        partition->settled += consumed + dropped;
        partition->dropped += dropped;
        look_whether_complete(feed, partition);
    }
    tfos__ledger_mark(ledger, feed);
}

/* ---- leaving ---- */

/* The attempt is fenced, and the partition is free for the next one. */
static void settle(tfos__ledger *ledger, tfos__producer_record *producer)
{
    tfos__feed_record *feed = producer->feed;
    tfos__partition_record *partition = producer->partition;
    uint64_t fed = producer->fed > producer->start ? producer->fed : producer->start;
    note_committed(feed, partition, fed - producer->start);
    partition->fed = fed;
    tfos__ledger_drop(ledger, producer);
    while (partition->state == TFOS__PARTITION_IDLE && partition->waiting != NULL) {
        tfos_error error;
        tfos__producer_record *next = partition->waiting;
        if (check_rest(feed, partition, next->attempt, &error) == TFOS_OK) {
            unpark(next);
            let_in(ledger, next);
        } else {
            tfos__ledger_dismiss(ledger, next, TFOS__ADMISSION_FAILED, &error);
        }
    }
}

static tfos_status note_nodes(tfos__producer_record *producer, const uint32_t *nodes, size_t count, tfos_error *error)
{
    uint32_t last = 0;
    if (count == 0) {
        return TFOS_OK;
    }
    for (size_t i = 0; i < count; i++) {
        assert(nodes[i] < NODES_MOST);
        last = nodes[i] > last ? nodes[i] : last;
    }
    producer->asked_words = (size_t)last / 64 + 1;
    producer->asked = calloc(producer->asked_words, sizeof *producer->asked);
    if (producer->asked == NULL) {
        return tfos__fail_memory(error, producer->asked_words * sizeof *producer->asked);
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t bit = UINT64_C(1) << (nodes[i] % 64);
        producer->missing += (producer->asked[nodes[i] / 64] & bit) == 0;
        producer->asked[nodes[i] / 64] |= bit;
    }
    return TFOS_OK;
}

/* True if this answer was missing. */
static bool note_answer(tfos__producer_record *producer, uint32_t node, uint64_t fed)
{
    uint64_t bit = UINT64_C(1) << (node % 64);
    if (node / 64 >= producer->asked_words || (producer->asked[node / 64] & bit) == 0) {
        return false;
    }
    producer->asked[node / 64] &= ~bit;
    producer->missing--;
    producer->fed = fed > producer->fed ? fed : producer->fed;
    return true;
}

void tfos__ledger_leave(tfos__ledger *ledger, uint64_t producer, const uint32_t *nodes, size_t count)
{
    tfos__producer_record *record = tfos__number_map_get(&ledger->producer, producer);
    if (record == NULL) {
        return;
    }
    tfos__feed_record *feed = record->feed;
    if (record->state == TFOS__PRODUCER_PARKED || tfos__ledger_is_over(feed)) {
        tfos__ledger_drop(ledger, record);
        return;
    }
    tfos_error error;
    if (note_nodes(record, nodes, count, &error) != TFOS_OK) {
        /* Without the answers, nobody knows what was fed. */
        tfos__ledger_drop(ledger, record);
        tfos__ledger_fail_feed(ledger, feed, &error);
        return;
    }
    tfos__number_map_remove(&ledger->producer, producer);
    delist(record);
    enlist(&feed->fences, record);
    feed->feeding--;
    record->state = TFOS__PRODUCER_GONE;
    record->partition->state = TFOS__PARTITION_FENCING;
    if (record->missing == 0) {
        settle(ledger, record);
        return;
    }
    tfos__attempt attempt = tfos__ledger_attempt_of(record);
    ledger->calls.fence(ledger->calls.context, &attempt);
}

void tfos__ledger_fenced(tfos__ledger *ledger, const tfos__attempt *attempt, uint32_t node, uint64_t fed)
{
    const tfos__feed_record *feed = tfos__number_map_get(&ledger->feed, attempt->feed);
    if (feed == NULL || feed->partition == NULL || attempt->epoch != feed->now.epoch ||
        attempt->partition >= feed->about.partitions) {
        return;
    }
    tfos__producer_record *gone = feed->partition[attempt->partition].holder;
    if (gone == NULL || gone->attempt != attempt->task) {
        return;
    }
    if (gone->state != TFOS__PRODUCER_GONE) {
        gone->fed = fed > gone->fed ? fed : gone->fed;
        return;
    }
    if (note_answer(gone, node, fed) && gone->missing == 0) {
        settle(ledger, gone);
    }
}

void tfos__ledger_progress(tfos__ledger *ledger, uint64_t producer, uint64_t fed, uint64_t consumed)
{
    const tfos__producer_record *record = tfos__number_map_get(&ledger->producer, producer);
    if (record != NULL && record->state == TFOS__PRODUCER_ADMITTED) {
        record->partition->sent = fed;
        record->partition->taken = consumed < fed ? consumed : fed;
    }
}

void tfos__ledger_fence_again(tfos__ledger *ledger, uint32_t node)
{
    for (const tfos__feed_record *feed = ledger->feeds; feed != NULL; feed = feed->next) {
        for (const tfos__producer_record *gone = feed->fences; gone != NULL; gone = gone->next) {
            if (node / 64 < gone->asked_words && (gone->asked[node / 64] >> (node % 64) & 1) != 0) {
                tfos__attempt attempt = tfos__ledger_attempt_of(gone);
                ledger->calls.fence(ledger->calls.context, &attempt);
            }
        }
    }
}

void tfos__ledger_lose(tfos__ledger *ledger, uint32_t node)
{
    for (tfos__feed_record *feed = ledger->feeds; feed != NULL; feed = feed->next) {
        /* Settling frees this one, and none of the others. */
        for (tfos__producer_record *gone = feed->fences, *next; gone != NULL; gone = next) {
            next = gone->next;
            if (note_answer(gone, node, 0) && gone->missing == 0) {
                settle(ledger, gone);
            }
        }
    }
}
