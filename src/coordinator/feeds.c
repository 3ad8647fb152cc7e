/* Feeds: what the coordinator does with the ledger's decisions. */
#include "coordinator/feeds_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

/* ---- what is said ---- */

void tfos__feeds_tell_driver(tfos__feeds *feeds, const tfos__known_feed *which, tfos_feed_state state,
                             const tfos_error *error)
{
    tfos__feeds_tell_epoch(feeds, which, state, which->epoch, error);
}

void tfos__feeds_tell_epoch(tfos__feeds *feeds, const tfos__known_feed *which, tfos_feed_state state, uint64_t epoch,
                            const tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FEED_STATE);
    tfos__message_put_number(&message, TFOS__FIELD_FEED, which->number);
    tfos__message_put_number(&message, TFOS__FIELD_EPOCH, epoch);
    tfos__message_put_number(&message, TFOS__FIELD_FEED_STATE, state);
    if (error != NULL) {
        tfos__message_put_error(&message, error);
    }
    feeds->calls.to_driver(feeds->calls.context, &message);
}

void tfos__feeds_fail(tfos__feeds *feeds, tfos__known_feed *which, const tfos_error *error)
{
    if (!which->failed) {
        which->failed = true;
        tfos__feeds_tell_driver(feeds, which, TFOS_FEED_STATE_FAILED, error);
    }
}

void tfos__feeds_tell_nodes(tfos__feeds *feeds, const tfos__message *message)
{
    size_t count;
    const uint32_t *alive = tfos__feeds_alive(feeds, &count);
    for (size_t i = 0; i < count; i++) {
        feeds->calls.to_node(feeds->calls.context, alive[i], message);
    }
}

/* ---- what the ledger wants ---- */

/* It may feed, from row `fed` on. */
static void grant(tfos__feeds *feeds, tfos__known_producer *who, uint64_t fed)
{
    const tfos__known_feed *which = who->feed;
    const tfos__buffer *places = tfos__feeds_list_places(feeds, who);
    tfos__message message;
    tfos__feeds_note_granted(feeds, who);
    tfos__message_init(&message, TFOS__MESSAGE_GRANTED);
    tfos__message_put_number(&message, TFOS__FIELD_FED_BEFORE, fed);
    tfos__message_put_number(&message, TFOS__FIELD_FEED_FLAGS,
                             which->flags | (who->held_back ? TFOS__FEED_HELD_BACK : 0u));
    tfos__message_put_number(&message, TFOS__FIELD_FEED_TIMEOUT_MS, which->timeout_ms);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUE, which->queue);
    tfos__message_put_text(&message, TFOS__FIELD_PLACES, places->size > 0 ? (const char *)places->data : "",
                           places->size);
    feeds->calls.to_producer(feeds->calls.context, who->number, &message);
}

static void dismiss(tfos__feeds *feeds, uint64_t number, tfos__admission admission, const tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_DISMISSED);
    tfos__message_put_number(&message, TFOS__FIELD_ADMISSION, admission);
    if (error != NULL) {
        tfos__message_put_error(&message, error);
    }
    feeds->calls.to_producer(feeds->calls.context, number, &message);
}

static void on_answer(void *context, uint64_t number, tfos__admission admission, uint64_t fed, const tfos_error *error)
{
    tfos__feeds *feeds = context;
    tfos__known_producer *who = tfos__feeds_find_producer(feeds, number);
    tfos__known_feed *which = who != NULL ? who->feed : NULL;
    tfos__ledger_counts counts;
    if (admission == TFOS__ADMISSION_GRANTED && which != NULL) {
        grant(feeds, who, fed);
        return;
    }
    if (error != NULL && which != NULL && tfos__ledger_count(feeds->ledger, which->number, &counts)) {
        if (counts.failed) {
            tfos__feeds_fail(feeds, which, error);
        } else if (error->fault != TFOS_FAULT_AGAIN && who->attempt.epoch == which->epoch) {
            /* Spark tries again in vain. An attempt that comes too late, say, is refused and is nobody's business. */
            tfos__feeds_tell_driver(feeds, which, TFOS_FEED_STATE_ABANDONED, error);
        }
    }
    dismiss(feeds, number, admission, error);
}

static void on_fence(void *context, const tfos__attempt *attempt)
{
    tfos__feeds *feeds = context;
    tfos__message message;
    tfos__feeds_make_fence(attempt, &message);
    tfos__feeds_tell_nodes(feeds, &message);
}

void tfos__feeds_make_fence(const tfos__attempt *attempt, tfos__message *out)
{
    tfos__message_init(out, TFOS__MESSAGE_FENCE);
    tfos__attempt_put(attempt, out);
}

void tfos__feeds_make_epoch(const tfos__known_feed *which, tfos__message *out)
{
    tfos__message_init(out, TFOS__MESSAGE_EPOCH);
    tfos__message_put_number(out, TFOS__FIELD_FEED, which->number);
    tfos__message_put_number(out, TFOS__FIELD_EPOCH, which->epoch);
}

void tfos__feeds_make_mark(const tfos__known_queue *queue, tfos__message *out)
{
    tfos__message_init(out, TFOS__MESSAGE_MARK);
    tfos__message_put_string(out, TFOS__FIELD_QUEUE, queue->name);
    tfos__message_put_number(out, TFOS__FIELD_MARKS, queue->marks);
}

void tfos__feeds_make_schema(const tfos__known_feed *which, tfos__message *out)
{
    tfos__message_init(out, TFOS__MESSAGE_FEED_SCHEMA);
    tfos__message_put_number(out, TFOS__FIELD_FEED, which->number);
    tfos__message_put_string(out, TFOS__FIELD_QUEUE, which->queue);
    tfos__message_put_string(out, TFOS__FIELD_SCHEMA, which->schema);
}

void tfos__feeds_make_end(const tfos__known_queue *queue, tfos__message *out)
{
    tfos__message_init(out, queue != NULL ? TFOS__MESSAGE_QUEUE_END : TFOS__MESSAGE_END_OF_FEED);
    if (queue != NULL) {
        tfos__message_put_string(out, TFOS__FIELD_QUEUE, queue->name);
    }
}

static void on_mark(void *context, uint64_t number, uint64_t epoch)
{
    tfos__feeds *feeds = context;
    const tfos__known_feed *which = tfos__feeds_find(feeds, number);
    tfos__message message;
    if (which != NULL && which->epoch == epoch && !tfos__feeds_is_inference(which)) {
        tfos__known_queue *queue = which->known_queue;
        queue->marks++;
        tfos__feeds_make_mark(queue, &message);
        tfos__feeds_tell_nodes(feeds, &message);
        tfos__feeds_tell_driver(feeds, which, TFOS_FEED_STATE_EXHAUSTED, NULL);
    }
}

/* What was dropped is not fed again while the cluster runs, but it was not taken: a restart begins with it. */
static void on_consumed(void *context, uint64_t number, uint64_t epoch, uint64_t dropped)
{
    tfos__feeds *feeds = context;
    const tfos__known_feed *which = tfos__feeds_find(feeds, number);
    if (which != NULL && !tfos__feeds_is_inference(which)) {
        tfos__feeds_tell_epoch(feeds, which, dropped == 0 ? TFOS_FEED_STATE_CONSUMED : TFOS_FEED_STATE_DROPPED, epoch,
                               NULL);
    }
}

static void on_stop(void *context, uint64_t number)
{
    tfos__feeds *feeds = context;
    const tfos__known_producer *who = tfos__feeds_find_producer(feeds, number);
    tfos__message message;
    bool terminated = who != NULL && who->feed != NULL && who->feed->known_queue->terminated;
    tfos__message_init(&message, TFOS__MESSAGE_FEED_OVER);
    tfos__message_put_number(&message, TFOS__FIELD_TERMINATED, terminated ? 1 : 0);
    feeds->calls.to_producer(feeds->calls.context, number, &message);
}

void tfos__feeds_answer(tfos__feeds *feeds, uint64_t number, tfos__admission admission, const tfos_error *error)
{
    on_answer(feeds, number, admission, 0, error);
}

bool tfos__feeds_is_inference(const tfos__known_feed *which)
{
    return (which->flags & TFOS__FEED_INFERENCE) != 0;
}

void tfos__feeds_break(tfos__feeds *feeds, tfos__known_feed *which, const tfos_error *error)
{
    const tfos__known_producer *each;
    tfos__ledger_break(feeds->ledger, which->number, error);
    if (tfos__feeds_is_inference(which)) {
        TAILQ_FOREACH (each, &which->asking, among_asking) {
            on_answer(feeds, each->number, TFOS__ADMISSION_FAILED, 0, error);
        }
    }
    tfos__feeds_fail(feeds, which, error);
}

void tfos__feeds_stop(tfos__feeds *feeds, const tfos__known_feed *which, tfos_feed_state state)
{
    const tfos__known_producer *each;
    tfos__ledger_end(feeds->ledger, which->number);
    if (tfos__feeds_is_inference(which)) {
        TAILQ_FOREACH (each, &which->asking, among_asking) {
            on_stop(feeds, each->number);
        }
    }
    tfos__feeds_tell_driver(feeds, which, state, NULL);
}

/* ---- making one ---- */

tfos_status tfos__feeds_new(tfos__roster *roster, const tfos__feeds_calls *calls, tfos__feeds **out, tfos_error *error)
{
    tfos__feeds *feeds = calloc(1, sizeof *feeds);
    if (feeds == NULL) {
        return tfos__fail_memory(error, sizeof *feeds);
    }
    const tfos__ledger_calls ledger_calls = {
        .answer = on_answer,
        .fence = on_fence,
        .mark = on_mark,
        .consumed = on_consumed,
        .stop = on_stop,
        .context = feeds,
    };
    feeds->roster = roster;
    feeds->calls = *calls;
    TAILQ_INIT(&feeds->open);
    TAILQ_INIT(&feeds->granted);
    TAILQ_INIT(&feeds->starving);
    tfos__hunger_tick(feeds);
    feeds->node_count = tfos__roster_options_of(roster)->roles.nodes;
    feeds->nodes = calloc(feeds->node_count, sizeof *feeds->nodes);
    feeds->alive = calloc(feeds->node_count, sizeof *feeds->alive);
    tfos_status status = feeds->nodes != NULL && feeds->alive != NULL
                             ? tfos__ledger_new(&ledger_calls, &feeds->ledger, error)
                             : tfos__fail_memory(error, feeds->node_count * sizeof *feeds->nodes);
    if (status != TFOS_OK) {
        tfos__feeds_free(feeds);
        return status;
    }
    *out = feeds;
    return TFOS_OK;
}

void tfos__feeds_free(tfos__feeds *feeds)
{
    if (feeds != NULL) {
        tfos__ledger_free(feeds->ledger);
        tfos__feeds_free_index(feeds);
        free(feeds);
    }
}

/* ---- the driver ---- */

static tfos_status open_feed(tfos__feeds *feeds, const tfos__message *message, tfos_error *error)
{
    uint64_t flags = tfos__message_number(message, TFOS__FIELD_FEED_FLAGS);
    tfos__known_feed opened = {.number = tfos__message_number(message, TFOS__FIELD_FEED),
                               .flags = flags,
                               .partitions = tfos__message_number(message, TFOS__FIELD_PARTITIONS),
                               .timeout_ms = tfos__message_number(message, TFOS__FIELD_FEED_TIMEOUT_MS),
                               .open = true,
                               .moved_ms = feeds->now_ms};
    const tfos__ledger_feed ledger_feed = {.feed = opened.number,
                                           .partitions = opened.partitions,
                                           .determinate = (flags & TFOS__FEED_DETERMINATE) != 0,
                                           .again = (flags & TFOS__FEED_AGAIN) != 0};
    tfos__message_copy(message, TFOS__FIELD_QUEUE, opened.queue, sizeof opened.queue);
    tfos__feeds_forget_old(feeds);
    TFOS_TRY(tfos__ledger_open(feeds->ledger, &ledger_feed, error));
    tfos_status status = tfos__feeds_add(feeds, &opened, error);
    if (status != TFOS_OK) {
        tfos__ledger_close(feeds->ledger, opened.number);
        tfos__ledger_forget(feeds->ledger, opened.number);
    }
    return status;
}

static void begin_epoch(tfos__feeds *feeds, tfos__known_feed *which, const tfos__message *message)
{
    tfos_error error;
    tfos__message begin;
    uint64_t before = which->epoch;
    which->epoch = tfos__message_number(message, TFOS__FIELD_EPOCH);
    which->moved_ms = feeds->now_ms;
    /* Nodes first: an epoch of no partitions has its mark at once. */
    tfos__feeds_make_epoch(which, &begin);
    tfos__feeds_tell_nodes(feeds, &begin);
    if (tfos__ledger_begin(feeds->ledger, which->number, which->epoch, &error) != TFOS_OK) {
        which->epoch = before;
        which->failed = true;
        tfos__feeds_tell_driver(feeds, which, TFOS_FEED_STATE_FAILED, &error);
    } else {
        tfos__feeds_tell_driver(feeds, which, TFOS_FEED_STATE_EPOCH, NULL);
    }
}

/* Spark says that its job has ended well. That is no proof that all partitions were fed: only the ledger is. */
static void end_epoch(tfos__feeds *feeds, tfos__known_feed *which, const tfos__message *message)
{
    tfos__ledger_counts counts;
    tfos__partition_view view;
    tfos_error error;
    uint64_t epoch = tfos__message_number(message, TFOS__FIELD_EPOCH);
    if (!tfos__ledger_count(feeds->ledger, which->number, &counts) || counts.ended || counts.failed || !counts.begun ||
        counts.epoch != epoch || counts.exhausted == counts.partitions) {
        return;
    }
    uint64_t first = 0;
    while (tfos__ledger_partition(feeds->ledger, which->number, first, &view) && view.exhausted) {
        first++;
    }
    tfos__fail(&error, TFOS_CORRUPT,
               "Spark says that it has fed epoch %" PRIu64 ", but %" PRIu64 " of %" PRIu64
               " partitions, the first of them %" PRIu64
               ", have not come: their tasks ended without having fed their rows",
               epoch, counts.partitions - counts.exhausted, counts.partitions, first);
    tfos__feeds_break(feeds, which, &error);
}

static void close_feed(tfos__feeds *feeds, tfos__known_feed *which)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FEED_CLOSE);
    tfos__message_put_number(&message, TFOS__FIELD_FEED, which->number);
    if (which->open) {
        which->open = false;
        TAILQ_REMOVE(&feeds->open, which, among_open);
    }
    tfos__feeds_tell_nodes(feeds, &message);
    tfos__ledger_close(feeds->ledger, which->number);
}

void tfos__feeds_obey(tfos__feeds *feeds, const tfos__message *message, uint64_t now_ms)
{
    tfos_error error;
    tfos__known_feed *which = tfos__feeds_find(feeds, tfos__message_number(message, TFOS__FIELD_FEED));
    feeds->now_ms = now_ms;
    if (message->type == TFOS__MESSAGE_FEED) {
        if (open_feed(feeds, message, &error) != TFOS_OK) {
            const tfos__known_feed refused = {.number = tfos__message_number(message, TFOS__FIELD_FEED)};
            tfos__feeds_tell_driver(feeds, &refused, TFOS_FEED_STATE_FAILED, &error);
            return;
        }
        which = tfos__feeds_find(feeds, tfos__message_number(message, TFOS__FIELD_FEED));
        tfos__feeds_tell_driver(feeds, which, TFOS_FEED_STATE_OPEN, NULL);
        if (feeds->stopped || which->known_queue->terminated) {
            tfos__feeds_stop(feeds, which, feeds->stopped ? TFOS_FEED_STATE_ENDED : TFOS_FEED_STATE_TERMINATED);
        }
    } else if (message->type == TFOS__MESSAGE_EPOCH && which != NULL) {
        begin_epoch(feeds, which, message);
    } else if (message->type == TFOS__MESSAGE_EPOCH_END && which != NULL) {
        end_epoch(feeds, which, message);
    } else if (message->type == TFOS__MESSAGE_FEED_CLOSE && which != NULL) {
        close_feed(feeds, which);
    } else if (message->type == TFOS__MESSAGE_END_OF_FEED) {
        tfos__message end;
        feeds->ended = true;
        tfos__feeds_make_end(NULL, &end);
        tfos__feeds_tell_nodes(feeds, &end);
    }
}

/* ---- views ---- */

void tfos__feeds_of_node(const tfos__feeds *feeds, uint32_t index, tfos__fed *out)
{
    *out = feeds->nodes[index].fed;
}

size_t tfos__feeds_count(const tfos__feeds *feeds)
{
    return feeds->feed_count;
}

bool tfos__feeds_view(const tfos__feeds *feeds, size_t at, tfos__feed_view *out)
{
    if (at >= feeds->feed_count) {
        return false;
    }
    const tfos__known_feed *each = feeds->feeds[at];
    bool inference = tfos__feeds_is_inference(each);
    *out = (tfos__feed_view){.feed = each->number,
                             .queue = each->queue,
                             .inference = inference,
                             .open = each->open,
                             .dropped = each->dropped};
    if (!tfos__ledger_count(feeds->ledger, each->number, &out->counts)) {
        return false;
    }
    if (inference) {
        uint64_t partitions = out->counts.partitions;
        out->counts.feeding = each->producers;
        out->counts.complete = each->answered < partitions ? each->answered : partitions;
        out->counts.skipped = out->counts.ended ? partitions - out->counts.complete : 0;
    }
    return true;
}

const tfos__ledger *tfos__feeds_ledger(const tfos__feeds *feeds)
{
    return feeds->ledger;
}
