/* The feeds of a ledger, and what befalls all producers of one at once: an epoch begins, the feed fails, ends or is
 * closed. What happens at one partition is in ledger_partition.c.
 *
 * A feed has one array of partitions, made when it is opened and cleared when an epoch begins: of the epochs before it,
 * whose rows are still being consumed, two numbers are kept. Every producer is found by its number, its feed and its
 * partition, so nothing looks through all partitions. */
#include "feed/ledger.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "feed/ledger_state.h"

enum { KEPT_PARTITIONS = 1 << 17 }; /* of closed feeds */

tfos_status tfos__ledger_new(const tfos__ledger_calls *calls, tfos__ledger **out, tfos_error *error)
{
    tfos__ledger *ledger = calloc(1, sizeof *ledger);
    if (ledger == NULL) {
        return tfos__fail_memory(error, sizeof *ledger);
    }
    ledger->calls = *calls;
    *out = ledger;
    return TFOS_OK;
}

static void drop_all(tfos__ledger *ledger, tfos__feed_record *feed)
{
    while (feed->producers != NULL) {
        tfos__ledger_drop(ledger, feed->producers);
    }
    while (feed->fences != NULL) {
        tfos__ledger_drop(ledger, feed->fences);
    }
}

static void free_feed(tfos__ledger *ledger, tfos__feed_record *feed)
{
    drop_all(ledger, feed);
    free(feed->partition);
    free(feed->past);
    free(feed->failure);
    free(feed);
}

void tfos__ledger_free(tfos__ledger *ledger)
{
    if (ledger == NULL) {
        return;
    }
    for (tfos__feed_record *feed = ledger->feeds, *next; feed != NULL; feed = next) {
        next = feed->next;
        free_feed(ledger, feed);
    }
    tfos__number_map_reset(&ledger->feed);
    tfos__number_map_reset(&ledger->producer);
    free(ledger);
}

/* ---- the driver ---- */

static tfos_status make_feed(const tfos__ledger_feed *about, tfos__feed_record **out, tfos_error *error)
{
    tfos__feed_record *feed = calloc(1, sizeof *feed);
    if (feed == NULL) {
        return tfos__fail_memory(error, sizeof *feed);
    }
    feed->about = *about;
    if (about->partitions > 0) {
        feed->partition = calloc((size_t)about->partitions, sizeof *feed->partition);
        if (feed->partition == NULL) {
            free(feed);
            return tfos__fail_memory(error, (size_t)about->partitions * sizeof *feed->partition);
        }
    }
    *out = feed;
    return TFOS_OK;
}

tfos_status tfos__ledger_open(tfos__ledger *ledger, const tfos__ledger_feed *feed, tfos_error *error)
{
    tfos__feed_record *record = NULL;
    if (tfos__number_map_get(&ledger->feed, feed->feed) != NULL) {
        return tfos__fail(error, TFOS_INVALID,
                          "there is a feed %" PRIu64 " already; each feed needs a number of its own", feed->feed);
    }
    if (feed->partitions > TFOS__LEDGER_PARTITIONS_MOST) {
        return tfos__fail(error, TFOS_LIMIT,
                          "feed %" PRIu64 " has %" PRIu64 " partitions, and at most %d can be fed; coalesce() the data "
                          "to fewer partitions",
                          feed->feed, feed->partitions, TFOS__LEDGER_PARTITIONS_MOST);
    }
    TFOS_TRY(make_feed(feed, &record, error));
    tfos_status status = tfos__number_map_put(&ledger->feed, feed->feed, record, error);
    if (status != TFOS_OK) {
        free(record->partition);
        free(record);
        return status;
    }
    record->ended = ledger->ended;
    record->next = ledger->feeds;
    ledger->feeds = record;
    return TFOS_OK;
}

static tfos_status check_begin(const tfos__ledger *ledger, uint64_t number, uint64_t epoch, tfos_error *error)
{
    const tfos__feed_record *feed = tfos__number_map_get(&ledger->feed, number);
    if (feed == NULL) {
        return tfos__fail(error, TFOS_NOT_FOUND, "there is no feed %" PRIu64 "; open it before its epochs", number);
    }
    if (feed->closed) {
        return tfos__fail(error, TFOS_INVALID, "feed %" PRIu64 " is closed and has no more epochs; open another one",
                          number);
    }
    if (feed->failed) {
        tfos_error failure;
        tfos__ledger_failure(feed, &failure);
        return tfos__fail(error, failure.status, "%s", failure.message);
    }
    if (feed->begun && epoch <= feed->now.epoch) {
        return tfos__fail(error, TFOS_INVALID,
                          "feed %" PRIu64 " is in epoch %" PRIu64 "; epoch %" PRIu64 " cannot begin again", number,
                          feed->now.epoch, epoch);
    }
    if (feed->begun && !feed->ended && feed->exhausted < feed->about.partitions) {
        return tfos__fail(error, TFOS_INVALID,
                          "epoch %" PRIu64 " of feed %" PRIu64 " cannot begin: %" PRIu64 " of %" PRIu64
                          " partitions of epoch %" PRIu64 " are fed",
                          epoch, number, feed->exhausted, feed->about.partitions, feed->now.epoch);
    }
    return TFOS_OK;
}

/* Whoever is still there is sent home, and nodes are to fence those that feed; their answers are of no interest. */
static void send_home(tfos__ledger *ledger, tfos__feed_record *feed, const tfos_error *reason)
{
    while (feed->producers != NULL) {
        tfos__producer_record *producer = feed->producers;
        if (producer->state == TFOS__PRODUCER_PARKED) {
            tfos__ledger_dismiss(ledger, producer, TFOS__ADMISSION_FAILED, reason);
            continue;
        }
        tfos__attempt attempt = tfos__ledger_attempt_of(producer);
        uint64_t number = producer->number;
        bool is_told = producer->stopped;
        tfos__ledger_drop(ledger, producer);
        if (!is_told) {
            ledger->calls.stop(ledger->calls.context, number);
        }
        ledger->calls.fence(ledger->calls.context, &attempt);
    }
    drop_all(ledger, feed);
}

/* What the current epoch has in lanes is kept in mind. */
static tfos_status leave_epoch(tfos__ledger *ledger, tfos__feed_record *feed, uint64_t next, tfos_error *error)
{
    tfos_error reason;
    if (!feed->consumed) {
        TFOS_TRY(tfos__array_reserve(&feed->past, feed->past_count, &feed->past_capacity, sizeof *feed->past, error));
        feed->past[feed->past_count++] = feed->now;
    }
    tfos__fail(&reason, TFOS_CANCELLED, "epoch %" PRIu64 " of feed %" PRIu64 " is over: epoch %" PRIu64 " has begun",
               feed->now.epoch, feed->about.feed, next);
    send_home(ledger, feed, &reason);
    if (feed->partition != NULL) {
        memset(feed->partition, 0, (size_t)feed->about.partitions * sizeof *feed->partition);
    }
    return TFOS_OK;
}

tfos_status tfos__ledger_begin(tfos__ledger *ledger, uint64_t feed, uint64_t epoch, tfos_error *error)
{
    TFOS_TRY(check_begin(ledger, feed, epoch, error));
    tfos__feed_record *record = tfos__number_map_get(&ledger->feed, feed);
    if (record->begun) {
        TFOS_TRY(leave_epoch(ledger, record, epoch, error));
    }
    record->now = (tfos__epoch_record){.epoch = epoch};
    record->begun = true;
    record->marked = false;
    record->consumed = false;
    record->complete = 0;
    record->exhausted = 0;
    record->rows = 0;
    tfos__ledger_mark(ledger, record);
    return TFOS_OK;
}

/* Partitions of closed feeds are kept for reports, the newest first, as long as there are not too many. */
static void forget_old(tfos__ledger *ledger)
{
    uint64_t kept = 0;
    for (tfos__feed_record *feed = ledger->feeds; feed != NULL; feed = feed->next) {
        if (!feed->closed || feed->partition == NULL) {
            continue;
        }
        kept += feed->about.partitions;
        if (kept > KEPT_PARTITIONS) {
            free(feed->partition);
            feed->partition = NULL;
        }
    }
}

void tfos__ledger_close(tfos__ledger *ledger, uint64_t feed)
{
    tfos__feed_record *record = tfos__number_map_get(&ledger->feed, feed);
    if (record == NULL || record->closed) {
        return;
    }
    tfos_error reason;
    tfos__fail(&reason, TFOS_CANCELLED, "feed %" PRIu64 " was closed by the driver before this partition was fed",
               feed);
    send_home(ledger, record, &reason);
    record->closed = true;
    forget_old(ledger);
}

void tfos__ledger_forget(tfos__ledger *ledger, uint64_t feed)
{
    tfos__feed_record **at = &ledger->feeds;
    while (*at != NULL && (*at)->about.feed != feed) {
        at = &(*at)->next;
    }
    tfos__feed_record *record = *at;
    if (record == NULL || !record->closed) {
        return;
    }
    *at = record->next;
    tfos__number_map_remove(&ledger->feed, feed);
    free_feed(ledger, record);
}

/* ---- marks and failures ---- */

static void say_consumed(tfos__ledger *ledger, tfos__feed_record *feed)
{
    size_t count = 0;
    while (count < feed->past_count && feed->past[count].settled == feed->past[count].committed) {
        const tfos__epoch_record *past = &feed->past[count++];
        ledger->calls.consumed(ledger->calls.context, feed->about.feed, past->epoch, past->dropped);
    }
    if (count > 0) {
        feed->past_count -= count;
        memmove(feed->past, feed->past + count, feed->past_count * sizeof *feed->past);
    }
    if (feed->past_count == 0 && feed->marked && !feed->consumed && feed->now.settled == feed->now.committed) {
        feed->consumed = true;
        ledger->calls.consumed(ledger->calls.context, feed->about.feed, feed->now.epoch, feed->now.dropped);
    }
}

void tfos__ledger_mark(tfos__ledger *ledger, tfos__feed_record *feed)
{
    if (!feed->begun || tfos__ledger_is_over(feed)) {
        return;
    }
    if (!feed->marked && feed->exhausted == feed->about.partitions) {
        feed->marked = true;
        ledger->calls.mark(ledger->calls.context, feed->about.feed, feed->now.epoch);
    }
    say_consumed(ledger, feed);
}

tfos__epoch_record *tfos__ledger_epoch(tfos__feed_record *feed, uint64_t epoch)
{
    if (feed->begun && feed->now.epoch == epoch) {
        return &feed->now;
    }
    for (size_t i = 0; i < feed->past_count; i++) {
        if (feed->past[i].epoch == epoch) {
            return &feed->past[i];
        }
    }
    return NULL;
}

void tfos__ledger_failure(const tfos__feed_record *feed, tfos_error *out)
{
    if (feed->failure != NULL) {
        *out = *feed->failure;
    } else {
        tfos__fail(out, TFOS_NO_MEMORY,
                   "feed %" PRIu64 " has failed, and the coordinator had no memory left to keep the reason; give the "
                   "driver more memory",
                   feed->about.feed);
    }
}

void tfos__ledger_fail_feed(tfos__ledger *ledger, tfos__feed_record *feed, const tfos_error *error)
{
    if (tfos__ledger_is_over(feed)) {
        return;
    }
    feed->failed = true;
    feed->failure = malloc(sizeof *feed->failure);
    if (feed->failure != NULL) {
        *feed->failure = *error;
    }
    while (feed->producers != NULL) {
        tfos__ledger_dismiss(ledger, feed->producers, TFOS__ADMISSION_FAILED, error);
    }
    drop_all(ledger, feed);
}

void tfos__ledger_fail(tfos__ledger *ledger, uint64_t producer, const tfos_error *error)
{
    tfos__producer_record *record = tfos__number_map_get(&ledger->producer, producer);
    /* One that waits has computed nothing; and a feed that has ended wants no rows, good or bad. */
    if (record == NULL || record->state != TFOS__PRODUCER_ADMITTED || tfos__ledger_is_over(record->feed)) {
        return;
    }
    tfos__feed_record *feed = record->feed;
    tfos__ledger_drop(ledger, record);
    tfos__ledger_fail_feed(ledger, feed, error);
}

void tfos__ledger_break(tfos__ledger *ledger, uint64_t feed, const tfos_error *error)
{
    tfos__feed_record *record = tfos__number_map_get(&ledger->feed, feed);
    if (record != NULL) {
        tfos__ledger_fail_feed(ledger, record, error);
    }
}

/* ---- the consumers ---- */

/* Producers that are told to stop keep their partitions until they have left, for they may be about to complete them.
 */
static void end_feed(tfos__ledger *ledger, tfos__feed_record *feed)
{
    if (feed->ended || feed->closed) {
        return;
    }
    feed->ended = true;
    for (tfos__producer_record *producer = feed->producers, *next; producer != NULL; producer = next) {
        next = producer->next;
        if (producer->state == TFOS__PRODUCER_PARKED) {
            tfos__ledger_dismiss(ledger, producer, TFOS__ADMISSION_ENDED, NULL);
        } else {
            producer->stopped = true;
            ledger->calls.stop(ledger->calls.context, producer->number);
        }
    }
    while (feed->fences != NULL) {
        tfos__ledger_drop(ledger, feed->fences);
    }
}

void tfos__ledger_end(tfos__ledger *ledger, uint64_t feed)
{
    if (feed != UINT64_MAX) {
        tfos__feed_record *record = tfos__number_map_get(&ledger->feed, feed);
        if (record != NULL) {
            end_feed(ledger, record);
        }
        return;
    }
    ledger->ended = true;
    for (tfos__feed_record *record = ledger->feeds; record != NULL; record = record->next) {
        end_feed(ledger, record);
    }
}

/* ---- reports ---- */

/* A lane may be settled before its attempt is over. */
static uint64_t left_of(const tfos__epoch_record *epoch)
{
    return epoch->committed > epoch->settled ? epoch->committed - epoch->settled : 0;
}

bool tfos__ledger_count(const tfos__ledger *ledger, uint64_t feed, tfos__ledger_counts *out)
{
    const tfos__feed_record *record = tfos__number_map_get(&ledger->feed, feed);
    if (record == NULL) {
        return false;
    }
    bool skips = record->ended && record->begun;
    uint64_t unsettled = left_of(&record->now);
    for (size_t i = 0; i < record->past_count; i++) {
        unsettled += left_of(&record->past[i]);
    }
    *out = (tfos__ledger_counts){
        .partitions = record->about.partitions,
        .complete = record->complete,
        .exhausted = record->exhausted,
        .feeding = record->feeding,
        .waiting = record->waiting,
        .epoch = record->now.epoch,
        .rows = record->rows,
        .skipped = skips ? record->about.partitions - record->exhausted - record->feeding : 0,
        .unsettled = unsettled,
        .takeovers = record->takeovers,
        .duplicates = record->duplicates,
        .begun = record->begun,
        .ended = record->ended,
        .failed = record->failed,
    };
    return true;
}

bool tfos__ledger_partition(const tfos__ledger *ledger, uint64_t feed, uint64_t partition, tfos__partition_view *out)
{
    const tfos__feed_record *record = tfos__number_map_get(&ledger->feed, feed);
    if (record == NULL || record->partition == NULL || partition >= record->about.partitions) {
        return false;
    }
    const tfos__partition_record *found = &record->partition[partition];
    tfos__partition_state state = (tfos__partition_state)found->state;
    bool over = tfos__ledger_is_over(record);
    bool exhausted = state == TFOS__PARTITION_DRAINING || state == TFOS__PARTITION_COMPLETE;
    uint64_t sent = found->sent > found->fed ? found->sent : found->fed;
    uint64_t consumed = found->settled - found->dropped;
    *out = (tfos__partition_view){
        .state = state == TFOS__PARTITION_IDLE && over ? TFOS__PARTITION_SKIPPED : state,
        .rows = found->rows,
        .attempts = found->attempts,
        .fed = found->fed,
        .sent = exhausted ? found->committed : sent,
        .consumed = consumed > found->taken ? consumed : found->taken,
        .skipped = found->dropped,
        .exhausted = exhausted,
    };
    if (out->state == TFOS__PARTITION_SKIPPED) {
        out->skipped = out->sent > out->consumed ? out->sent - out->consumed : 0;
    }
    return true;
}
