/* Nodes that are fed, as the coordinator hears them; and what happens when a node is gone. */
#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"
#include "coordinator/feeds_state.h"

enum { RATE_MS = 2000 }; /* over which rows per second are counted */

/* ---- nodes ---- */

/* Tells producers that were held back when that is over. */
static void release(tfos__feeds *feeds, tfos__known_feed *which)
{
    tfos__known_producer *each;
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_READ_BY_ALL);
    which->held_back = 0;
    TAILQ_FOREACH (each, &which->asking, among_asking) {
        if (each->held_back) {
            each->held_back = false;
            feeds->calls.to_producer(feeds->calls.context, each->number, &message);
        }
    }
}

static void look_who_reads(tfos__feeds *feeds)
{
    tfos__known_feed *each;
    TAILQ_FOREACH (each, &feeds->open, among_open) {
        if (each->held_back > 0 && tfos__feeds_is_read_by_all(feeds, each)) {
            release(feeds, each);
        }
    }
}

/* A node says again what may not have arrived. */
static void settle(tfos__feeds *feeds, tfos__fed_node *node, const tfos__message *message)
{
    uint64_t sequence = tfos__message_number(message, TFOS__FIELD_SEQUENCE);
    uint64_t dropped = tfos__message_number(message, TFOS__FIELD_SKIPPED);
    tfos__attempt attempt = tfos__attempt_of(message);
    tfos__known_feed *which = tfos__feeds_find(feeds, attempt.feed);
    if (sequence <= node->settled) {
        return;
    }
    node->settled = sequence;
    if (which != NULL) {
        which->dropped += dropped;
    }
    tfos__ledger_settle(feeds->ledger, &attempt, tfos__message_number(message, TFOS__FIELD_CONSUMED), dropped);
}

static void take_counts(const tfos__feeds *feeds, tfos__fed_node *node, const tfos__message *message)
{
    node->fed.fed_rows = tfos__message_number(message, TFOS__FIELD_FED);
    node->fed.consumed_rows = tfos__message_number(message, TFOS__FIELD_CONSUMED);
    node->fed.skipped_rows = tfos__message_number(message, TFOS__FIELD_SKIPPED);
    node->fed.counted_ms = feeds->now_ms;
}

/* What its program has opened. That seldom changes. */
static void take_queues(tfos__feeds *feeds, tfos__fed_node *node, const tfos__message *beat)
{
    uint32_t index = (uint32_t)(node - feeds->nodes);
    char now[sizeof node->queues];
    tfos__message_copy(beat, TFOS__FIELD_QUEUES, now, sizeof now);
    if (strcmp(now, node->queues) != 0) {
        tfos__feeds_count_reader(feeds, index, -1);
        memcpy(node->queues, now, sizeof now);
        tfos__feeds_count_reader(feeds, index, 1);
        look_who_reads(feeds);
    }
}

static void count_rows(tfos__feeds *feeds, tfos__fed_node *node, const tfos__message *beat)
{
    uint64_t consumed = tfos__message_number(beat, TFOS__FIELD_CONSUMED);
    uint64_t fed = tfos__message_number(beat, TFOS__FIELD_FED);
    bool waited = node->fed.fed_rows > node->fed.consumed_rows;
    if (consumed != node->fed.consumed_rows || (!waited && fed > consumed)) {
        feeds->taken_ms = feeds->now_ms;
    }
    bool hungry = tfos__message_number(beat, TFOS__FIELD_HUNGRY) != 0;
    bool starves = hungry && node->fed.hungry && fed == node->fed.fed_rows;
    take_counts(feeds, node, beat);
    node->fed.lane_bytes = tfos__message_number(beat, TFOS__FIELD_LANE_MEMORY);
    node->fed.hungry = hungry;
    if (starves && !node->starves) {
        tfos__hunger_begin(feeds, node);
    } else if (!starves) {
        tfos__hunger_end(feeds, node);
    }
    take_queues(feeds, node, beat);
    uint64_t elapsed = feeds->now_ms - node->rate_ms;
    if (elapsed >= RATE_MS) {
        node->fed.rows_per_second = (double)(consumed - node->rate_rows) * 1000.0 / (double)elapsed;
        node->rate_ms = feeds->now_ms;
        node->rate_rows = consumed;
    }
}

/* A program wants no more of a queue: its feeds end for all. */
static void terminate(tfos__feeds *feeds, const tfos__message *message)
{
    char name[64];
    tfos__message end;
    tfos__message_copy(message, TFOS__FIELD_QUEUE, name, sizeof name);
    tfos__known_queue *queue = tfos__feeds_queue(feeds, name);
    if (queue == NULL) {
        return; /* the node will say it again */
    }
    tfos__feeds_make_end(queue, &end);
    tfos__feeds_tell_nodes(feeds, &end);
    if (queue->terminated) {
        return;
    }
    queue->terminated = true;
    tfos__known_feed *each;
    TAILQ_FOREACH (each, &feeds->open, among_open) {
        if (each->known_queue == queue) {
            tfos__feeds_stop(feeds, each, TFOS_FEED_STATE_TERMINATED);
        }
    }
}

/* A program has ended: nobody fences or is fed there any more. When it was the last one, nobody is left to feed. If it
 * has failed, so has the cluster, and producers must not think that all is well. */
static void lose_node(tfos__feeds *feeds, uint32_t index)
{
    size_t left;
    if (feeds->nodes[index].gone) {
        return;
    }
    tfos__hunger_end(feeds, &feeds->nodes[index]);
    tfos__feeds_count_reader(feeds, index, -1);
    tfos__feeds_nodes_changed(feeds);
    if (tfos__roster_is_vacant(feeds->roster, index)) {
        feeds->nodes[index] = (tfos__fed_node){0}; /* its executor was lost before anything began: another one comes */
        return;
    }
    feeds->nodes[index].gone = true;
    (void)tfos__feeds_alive(feeds, &left);
    if (tfos__roster_failure(feeds->roster)[0] != '\0') {
        tfos__feeds_end(feeds);
        return;
    }
    tfos__ledger_lose(feeds->ledger, index);
    look_who_reads(feeds); /* one less to be waited for */
    if (left == 0) {
        tfos__feeds_end(feeds);
    }
}

void tfos__feeds_count_last(tfos__feeds *feeds, uint32_t index, const tfos__message *ended, uint64_t now_ms)
{
    feeds->now_ms = now_ms;
    if (feeds->nodes[index].known && !feeds->nodes[index].gone) {
        take_counts(feeds, &feeds->nodes[index], ended);
    }
}

void tfos__feeds_hear_node(tfos__feeds *feeds, uint32_t index, const tfos__message *message, uint64_t now_ms)
{
    tfos__fed_node *node = &feeds->nodes[index];
    tfos__attempt attempt;
    feeds->now_ms = now_ms;
    switch (message->type) {
    case TFOS__MESSAGE_REGISTER:
        tfos__feeds_count_reader(feeds, index, -1);
        tfos__message_copy(message, TFOS__FIELD_FEED_NAME, node->name, sizeof node->name);
        tfos__message_copy(message, TFOS__FIELD_MACHINE, node->machine, sizeof node->machine);
        node->port = (uint16_t)tfos__message_number(message, TFOS__FIELD_FEED_PORT);
        node->known = node->fed.is_fed = node->name[0] != '\0';
        node->rate_ms = now_ms;
        tfos__feeds_count_reader(feeds, index, 1);
        tfos__feeds_nodes_changed(feeds);
        break;
    case TFOS__MESSAGE_BEAT:
        count_rows(feeds, node, message);
        break;
    case TFOS__MESSAGE_FENCED:
        attempt = tfos__attempt_of(message);
        tfos__ledger_fenced(feeds->ledger, &attempt, index, tfos__message_number(message, TFOS__FIELD_FED_BEFORE));
        break;
    case TFOS__MESSAGE_SETTLED:
        settle(feeds, node, message);
        break;
    case TFOS__MESSAGE_TERMINATE:
        terminate(feeds, message);
        break;
    case TFOS__MESSAGE_ENDED:
        lose_node(feeds, index);
        break;
    default:
        break;
    }
}

/* In this order: lanes of an epoch are handed out when it is said, behind the marks before it. */
void tfos__feeds_node_returned(tfos__feeds *feeds, uint32_t index)
{
    tfos__message message;
    if (!feeds->nodes[index].known || feeds->nodes[index].gone) {
        return;
    }
    for (size_t i = 0; i < feeds->queue_count; i++) {
        if (feeds->queues[i]->marks > 0) {
            tfos__feeds_make_mark(feeds->queues[i], &message);
            feeds->calls.to_node(feeds->calls.context, index, &message);
        }
        if (feeds->queues[i]->terminated) {
            tfos__feeds_make_end(feeds->queues[i], &message);
            feeds->calls.to_node(feeds->calls.context, index, &message);
        }
    }
    const tfos__known_feed *each;
    TAILQ_FOREACH (each, &feeds->open, among_open) {
        tfos__ledger_counts counts;
        if (tfos__ledger_count(feeds->ledger, each->number, &counts) && counts.begun) {
            tfos__feeds_make_epoch(each, &message);
            feeds->calls.to_node(feeds->calls.context, index, &message);
        }
        if (each->schema != NULL) {
            tfos__feeds_make_schema(each, &message);
            feeds->calls.to_node(feeds->calls.context, index, &message);
        }
    }
    tfos__ledger_fence_again(feeds->ledger, index);
    if (feeds->ended) {
        tfos__feeds_make_end(NULL, &message);
        feeds->calls.to_node(feeds->calls.context, index, &message);
    }
}

void tfos__feeds_end(tfos__feeds *feeds)
{
    const char *failure = tfos__roster_failure(feeds->roster);
    tfos_error error;
    if (feeds->stopped) {
        return;
    }
    bool stopping = tfos__roster_phase(feeds->roster) >= TFOS__PHASE_STOPPING;
    feeds->stopped = true;
    if (failure[0] != '\0') {
        tfos__fail(&error, TFOS_CANCELLED, "the cluster has failed: %s", failure);
        error.fault = TFOS_FAULT_CLUSTER;
    }
    tfos__known_feed *each;
    TAILQ_FOREACH (each, &feeds->open, among_open) {
        if (failure[0] != '\0') {
            tfos__feeds_break(feeds, each, &error);
        } else if (!each->failed) {
            tfos__feeds_stop(feeds, each, stopping ? TFOS_FEED_STATE_ENDED : TFOS_FEED_STATE_FINISHED);
        }
    }
    tfos__ledger_end(feeds->ledger, UINT64_MAX);
}

void tfos__feeds_tick(tfos__feeds *feeds, uint64_t now_ms)
{
    feeds->now_ms = now_ms;
    if (!feeds->stopped && tfos__roster_phase(feeds->roster) >= TFOS__PHASE_STOPPING) {
        tfos__feeds_end(feeds);
    }
    tfos__hunger_tick(feeds);
    tfos__feeds_look_for_stalled(feeds);
}
