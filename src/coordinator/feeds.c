/* Feeds: what the coordinator does with the ledger's decisions. */
#include "coordinator/feeds_state.h"
#include "net/frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

enum {
    FEEDS_KEPT = 2000,    /* for reports; a streaming job makes one for each batch, for ever */
    FEEDS_MOST = 1 << 20, /* open at a time */
    QUEUES_MOST = 1 << 16,
    PLACES_BYTES = 1 << 20,
};

tfos__known_feed *tfos__feeds_find(const tfos__feeds *feeds, uint64_t number)
{
    for (size_t i = feeds->feed_count; i-- > 0;) {
        if (feeds->feeds[i].number == number) {
            return &feeds->feeds[i];
        }
    }
    return NULL;
}

tfos__known_producer *tfos__feeds_find_producer(const tfos__feeds *feeds, uint64_t number)
{
    for (size_t i = feeds->producer_count; i-- > 0;) {
        if (feeds->producers[i].number == number) {
            return &feeds->producers[i];
        }
    }
    return NULL;
}

tfos__known_queue *tfos__feeds_queue(tfos__feeds *feeds, const char *name)
{
    for (size_t i = 0; i < feeds->queue_count; i++) {
        if (strcmp(feeds->queues[i].name, name) == 0) {
            return &feeds->queues[i];
        }
    }
    if (feeds->queue_count >= QUEUES_MOST ||
        tfos__array_reserve(&feeds->queues, feeds->queue_count, &feeds->queue_capacity, sizeof *feeds->queues, NULL) !=
            TFOS_OK) {
        return NULL;
    }
    tfos__known_queue *queue = &feeds->queues[feeds->queue_count++];
    *queue = (tfos__known_queue){0};
    snprintf(queue->name, sizeof queue->name, "%s", name);
    return queue;
}

/* ---- what is said ---- */

void tfos__feeds_tell_driver(tfos__feeds *feeds, const tfos__known_feed *which, tfos__feed_state state,
                             const tfos_error *error)
{
    tfos__feeds_tell_epoch(feeds, which, state, which->epoch, error);
}

void tfos__feeds_tell_epoch(tfos__feeds *feeds, const tfos__known_feed *which, tfos__feed_state state, uint64_t epoch,
                            const tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FEED_STATE);
    tfos__message_put_number(&message, TFOS__FIELD_FEED, which->number);
    tfos__message_put_number(&message, TFOS__FIELD_EPOCH, epoch);
    tfos__message_put_number(&message, TFOS__FIELD_FEED_STATE, state);
    if (error != NULL) {
        tfos__message_put_number(&message, TFOS__FIELD_STATUS, error->status);
        tfos__message_put_string(&message, TFOS__FIELD_TEXT, error->message);
    }
    feeds->calls.to_driver(feeds->calls.context, &message);
}

void tfos__feeds_fail(tfos__feeds *feeds, tfos__known_feed *which, const tfos_error *error)
{
    if (!which->failed) {
        which->failed = true;
        tfos__feeds_tell_driver(feeds, which, TFOS__FEED_STATE_FAILED, error);
    }
}

void tfos__feeds_tell_nodes(tfos__feeds *feeds, const tfos__message *message)
{
    for (uint32_t i = 0; i < feeds->node_count; i++) {
        if (feeds->nodes[i].known && !feeds->nodes[i].gone) {
            feeds->calls.to_node(feeds->calls.context, i, message);
        }
    }
}

/* ---- what the ledger wants ---- */

/* The nodes that a producer may feed: those of its machine first. */
static void list_places(const tfos__feeds *feeds, const tfos__known_producer *who, tfos__buffer *out)
{
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < feeds->node_count && out->size < PLACES_BYTES - 1024; i++) {
            const tfos__fed_node *node = &feeds->nodes[i];
            tfos__node_view view;
            tfos__message place;
            bool near = strcmp(node->machine, who->machine) == 0;
            if (!node->known || node->gone || near != (pass == 0)) {
                continue;
            }
            tfos__roster_view(feeds->roster, i, &view);
            tfos__message_init(&place, TFOS__MESSAGE_PLACE);
            tfos__message_put_number(&place, TFOS__FIELD_INDEX, i);
            tfos__message_put_string(&place, TFOS__FIELD_HOST, view.host);
            tfos__message_put_string(&place, TFOS__FIELD_FEED_NAME, node->name);
            tfos__message_put_number(&place, TFOS__FIELD_FEED_PORT, node->port);
            tfos__message_put_number(&place, TFOS__FIELD_HUNGRY, node->starves ? 1 : 0);
            if (tfos__frame_append(&place, out, NULL) != TFOS_OK) {
                return;
            }
        }
    }
}

/* It may feed, from row `fed` on. */
static void grant(tfos__feeds *feeds, tfos__known_producer *who, tfos__known_feed *which, uint64_t fed)
{
    tfos__buffer places = {0};
    tfos__message message;
    who->granted = true;
    if (which->producers++ == 0) {
        which->moved_ms = feeds->now_ms; /* before that there was nobody whose rows could be taken */
    }
    who->held_back = !tfos__feeds_is_read_by_all(feeds, which);
    list_places(feeds, who, &places);
    tfos__message_init(&message, TFOS__MESSAGE_GRANTED);
    tfos__message_put_number(&message, TFOS__FIELD_FED_BEFORE, fed);
    tfos__message_put_number(&message, TFOS__FIELD_FEED_FLAGS,
                             which->flags | (who->held_back ? TFOS__FEED_HELD_BACK : 0u));
    tfos__message_put_number(&message, TFOS__FIELD_FEED_TIMEOUT_MS, which->timeout_ms);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUE, which->queue);
    tfos__message_put_text(&message, TFOS__FIELD_PLACES, places.size > 0 ? (const char *)places.data : "", places.size);
    feeds->calls.to_producer(feeds->calls.context, who->number, &message);
    tfos__buffer_reset(&places);
}

static void dismiss(tfos__feeds *feeds, uint64_t number, tfos__admission admission, const tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_DISMISSED);
    tfos__message_put_number(&message, TFOS__FIELD_ADMISSION, admission);
    if (error != NULL) {
        tfos__message_put_number(&message, TFOS__FIELD_STATUS, error->status);
        tfos__message_put_string(&message, TFOS__FIELD_TEXT, error->message);
    }
    feeds->calls.to_producer(feeds->calls.context, number, &message);
}

static void on_answer(void *context, uint64_t number, tfos__admission admission, uint64_t fed, const tfos_error *error)
{
    tfos__feeds *feeds = context;
    tfos__known_producer *who = tfos__feeds_find_producer(feeds, number);
    tfos__known_feed *which = who != NULL ? tfos__feeds_find(feeds, who->feed) : NULL;
    tfos__ledger_counts counts;
    if (admission == TFOS__ADMISSION_GRANTED && which != NULL) {
        grant(feeds, who, which, fed);
        return;
    }
    /* An attempt that comes too late, say, is refused, and nothing is wrong with the feed. */
    if (error != NULL && which != NULL && tfos__ledger_count(feeds->ledger, which->number, &counts) && counts.failed) {
        tfos__feeds_fail(feeds, which, error);
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
        tfos__known_queue *queue = tfos__feeds_queue(feeds, which->queue); /* it was made with the feed */
        queue->marks++;
        tfos__feeds_make_mark(queue, &message);
        tfos__feeds_tell_nodes(feeds, &message);
        tfos__feeds_tell_driver(feeds, which, TFOS__FEED_STATE_EXHAUSTED, NULL);
    }
}

/* What was dropped is not fed again while the cluster runs, but it was not taken: a restart begins with it. */
static void on_consumed(void *context, uint64_t number, uint64_t epoch, uint64_t dropped)
{
    tfos__feeds *feeds = context;
    const tfos__known_feed *which = tfos__feeds_find(feeds, number);
    if (which != NULL && !tfos__feeds_is_inference(which)) {
        tfos__feeds_tell_epoch(feeds, which, dropped == 0 ? TFOS__FEED_STATE_CONSUMED : TFOS__FEED_STATE_DROPPED, epoch,
                               NULL);
    }
}

static void on_stop(void *context, uint64_t number)
{
    tfos__feeds *feeds = context;
    const tfos__known_producer *who = tfos__feeds_find_producer(feeds, number);
    const tfos__known_feed *which = who != NULL ? tfos__feeds_find(feeds, who->feed) : NULL;
    tfos__message message;
    bool terminated = which != NULL && tfos__feeds_queue(feeds, which->queue)->terminated;
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
    tfos__ledger_break(feeds->ledger, which->number, error);
    for (size_t i = 0; tfos__feeds_is_inference(which) && i < feeds->producer_count; i++) {
        if (feeds->producers[i].feed == which->number) {
            on_answer(feeds, feeds->producers[i].number, TFOS__ADMISSION_FAILED, 0, error);
        }
    }
    tfos__feeds_fail(feeds, which, error);
}

void tfos__feeds_stop(tfos__feeds *feeds, const tfos__known_feed *which, tfos__feed_state state)
{
    tfos__ledger_end(feeds->ledger, which->number);
    for (size_t i = 0; tfos__feeds_is_inference(which) && i < feeds->producer_count; i++) {
        if (feeds->producers[i].feed == which->number) {
            on_stop(feeds, feeds->producers[i].number);
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
        for (size_t i = 0; i < feeds->feed_count; i++) {
            free(feeds->feeds[i].schema);
            free(feeds->feeds[i].unfit);
        }
        tfos__ledger_free(feeds->ledger);
        free(feeds->feeds);
        free(feeds->queues);
        free(feeds->producers);
        free(feeds->nodes);
        free(feeds->alive);
        free(feeds);
    }
}

/* ---- the driver ---- */

static bool is_being_fed(const tfos__feeds *feeds, uint64_t feed)
{
    for (size_t i = 0; i < feeds->producer_count; i++) {
        if (feeds->producers[i].feed == feed) {
            return true;
        }
    }
    return false;
}

/* Makes room by forgetting the oldest of those that are closed. */
static void forget_old(tfos__feeds *feeds)
{
    size_t kept = 0;
    size_t left = feeds->feed_count;
    if (left < FEEDS_KEPT) {
        return;
    }
    for (size_t i = 0; i < feeds->feed_count; i++) {
        tfos__known_feed *each = &feeds->feeds[i];
        if (left > FEEDS_KEPT / 2 && !each->open && !is_being_fed(feeds, each->number)) {
            tfos__ledger_forget(feeds->ledger, each->number);
            free(each->schema);
            free(each->unfit);
            left--;
        } else {
            feeds->feeds[kept++] = *each;
        }
    }
    feeds->feed_count = kept;
}

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
    forget_old(feeds);
    if (feeds->feed_count >= FEEDS_MOST) {
        return tfos__fail(error, TFOS_LIMIT, "a cluster has at most %d feeds", FEEDS_MOST);
    }
    if (tfos__feeds_queue(feeds, opened.queue) == NULL) {
        return tfos__fail(error, TFOS_LIMIT, "no memory for another queue, or there are %d of them", QUEUES_MOST);
    }
    TFOS_TRY(tfos__array_reserve(&feeds->feeds, feeds->feed_count, &feeds->feed_capacity, sizeof *feeds->feeds, error));
    TFOS_TRY(tfos__ledger_open(feeds->ledger, &ledger_feed, error));
    feeds->feeds[feeds->feed_count++] = opened;
    return TFOS_OK;
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
        tfos__feeds_tell_driver(feeds, which, TFOS__FEED_STATE_FAILED, &error);
    } else {
        tfos__feeds_tell_driver(feeds, which, TFOS__FEED_STATE_EPOCH, NULL);
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
    which->open = false;
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
            tfos__feeds_tell_driver(feeds, &refused, TFOS__FEED_STATE_FAILED, &error);
            return;
        }
        which = tfos__feeds_find(feeds, tfos__message_number(message, TFOS__FIELD_FEED));
        tfos__feeds_tell_driver(feeds, which, TFOS__FEED_STATE_OPEN, NULL);
        if (feeds->stopped || tfos__feeds_queue(feeds, which->queue)->terminated) {
            tfos__feeds_stop(feeds, which, feeds->stopped ? TFOS__FEED_STATE_ENDED : TFOS__FEED_STATE_TERMINATED);
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
    const tfos__known_feed *each = &feeds->feeds[at];
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
