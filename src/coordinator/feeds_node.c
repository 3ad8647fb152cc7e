/* Nodes that are fed, as the coordinator hears them; and what happens when a node is gone. */
#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"
#include "coordinator/feeds_state.h"

enum { RATE_MS = 2000 }; /* over which rows per second are counted */

/* ---- nodes ---- */

/* Producers on other hosts cannot see for themselves that somebody has nothing to do. */
static void tell_of_starving(tfos__feeds *feeds, const tfos__fed_node *node)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_HUNGRY);
    tfos__message_put_number(&message, TFOS__FIELD_INDEX, (uint64_t)(node - feeds->nodes));
    tfos__message_put_number(&message, TFOS__FIELD_HUNGRY, node->starves ? 1 : 0);
    for (size_t i = 0; i < feeds->producer_count; i++) {
        if (feeds->producers[i].granted) {
            feeds->calls.to_producer(feeds->calls.context, feeds->producers[i].number, &message);
        }
    }
}

bool tfos__feeds_reads(const tfos__fed_node *node, const char *queue)
{
    char name[72];
    snprintf(name, sizeof name, ",%s,", queue);
    return strstr(node->queues, name) != NULL;
}

/* Parameter servers and evaluators read nothing, nor does a chief that has others do the work. */
static bool may_read(const tfos__feeds *feeds, uint32_t index)
{
    const tfos__roster_options *options = tfos__roster_options_of(feeds->roster);
    const tfos__fed_node *node = &feeds->nodes[index];
    uint32_t task;
    const char *role = tfos__roles_at(&options->roles, index, &task);
    bool is_chief = options->roles.master[0] != '\0' && strcmp(role, options->roles.master) == 0;
    return node->known && !node->gone && tfos__roles_is_worker(&options->roles, index) &&
           !(is_chief && (options->flags & TFOS__FLAG_NATIVE_WORKERS) != 0);
}

bool tfos__feeds_is_read_by_all(const tfos__feeds *feeds, const tfos__known_feed *which)
{
    for (uint32_t i = 0; !tfos__feeds_is_inference(which) && i < feeds->node_count; i++) {
        if (may_read(feeds, i) && !tfos__feeds_reads(&feeds->nodes[i], which->queue)) {
            return false;
        }
    }
    return true;
}

/* Tells producers that were held back when that is over. */
static void look_who_reads(tfos__feeds *feeds)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_READ_BY_ALL);
    for (size_t i = 0; i < feeds->producer_count; i++) {
        tfos__known_producer *each = &feeds->producers[i];
        const tfos__known_feed *which = each->held_back ? tfos__feeds_find(feeds, each->feed) : NULL;
        if (which != NULL && tfos__feeds_is_read_by_all(feeds, which)) {
            each->held_back = false;
            feeds->calls.to_producer(feeds->calls.context, each->number, &message);
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

static void count_rows(tfos__feeds *feeds, tfos__fed_node *node, const tfos__message *beat)
{
    uint64_t consumed = tfos__message_number(beat, TFOS__FIELD_CONSUMED);
    uint64_t fed = tfos__message_number(beat, TFOS__FIELD_FED);
    bool waited = node->fed.fed_rows > node->fed.consumed_rows;
    if (consumed != node->fed.consumed_rows || (!waited && fed > consumed)) {
        for (size_t i = 0; i < feeds->feed_count; i++) {
            feeds->feeds[i].moved_ms = feeds->feeds[i].open ? feeds->now_ms : feeds->feeds[i].moved_ms;
        }
    }
    bool hungry = tfos__message_number(beat, TFOS__FIELD_HUNGRY) != 0;
    bool starves = hungry && node->fed.hungry && fed == node->fed.fed_rows;
    take_counts(feeds, node, beat);
    node->fed.lane_bytes = tfos__message_number(beat, TFOS__FIELD_LANE_MEMORY);
    node->fed.hungry = hungry;
    if (starves != node->starves) {
        node->starves = starves;
        tell_of_starving(feeds, node);
    }
    char before[sizeof node->queues];
    memcpy(before, node->queues, sizeof before);
    tfos__message_copy(beat, TFOS__FIELD_QUEUES, node->queues, sizeof node->queues);
    if (strcmp(before, node->queues) != 0) {
        look_who_reads(feeds);
    }
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
    for (size_t i = 0; i < feeds->feed_count; i++) {
        tfos__known_feed *each = &feeds->feeds[i];
        if (each->open && strcmp(each->queue, name) == 0) {
            tfos__feeds_stop(feeds, each, TFOS__FEED_STATE_TERMINATED);
        }
    }
}

/* A program has ended: nobody fences or is fed there any more. When it was the last one, nobody is left to feed. If it
 * has failed, so has the cluster, and producers must not think that all is well. */
static void lose_node(tfos__feeds *feeds, uint32_t index)
{
    size_t left = 0;
    if (feeds->nodes[index].gone) {
        return;
    }
    if (tfos__roster_is_vacant(feeds->roster, index)) {
        feeds->nodes[index] = (tfos__fed_node){0}; /* its executor was lost before anything began: another one comes */
        return;
    }
    feeds->nodes[index].gone = true;
    for (uint32_t i = 0; i < feeds->node_count; i++) {
        left += feeds->nodes[i].known && !feeds->nodes[i].gone ? 1 : 0;
    }
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
        tfos__message_copy(message, TFOS__FIELD_FEED_NAME, node->name, sizeof node->name);
        tfos__message_copy(message, TFOS__FIELD_MACHINE, node->machine, sizeof node->machine);
        node->port = (uint16_t)tfos__message_number(message, TFOS__FIELD_FEED_PORT);
        node->known = node->fed.is_fed = node->name[0] != '\0';
        node->rate_ms = now_ms;
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
        if (feeds->queues[i].marks > 0) {
            tfos__feeds_make_mark(&feeds->queues[i], &message);
            feeds->calls.to_node(feeds->calls.context, index, &message);
        }
        if (feeds->queues[i].terminated) {
            tfos__feeds_make_end(&feeds->queues[i], &message);
            feeds->calls.to_node(feeds->calls.context, index, &message);
        }
    }
    for (size_t i = 0; i < feeds->feed_count; i++) {
        const tfos__known_feed *each = &feeds->feeds[i];
        tfos__ledger_counts counts;
        if (each->open && tfos__ledger_count(feeds->ledger, each->number, &counts) && counts.begun) {
            tfos__feeds_make_epoch(each, &message);
            feeds->calls.to_node(feeds->calls.context, index, &message);
        }
        if (each->open && each->schema != NULL) {
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
    }
    for (size_t i = 0; i < feeds->feed_count; i++) {
        tfos__known_feed *each = &feeds->feeds[i];
        if (each->open && failure[0] != '\0') {
            tfos__feeds_break(feeds, each, &error);
        } else if (each->open && !each->failed) {
            tfos__feeds_stop(feeds, each, stopping ? TFOS__FEED_STATE_ENDED : TFOS__FEED_STATE_FINISHED);
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
    tfos__feeds_look_for_stalled(feeds);
}
