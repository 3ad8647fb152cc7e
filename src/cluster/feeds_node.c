/* Nodes that are fed, as the coordinator hears them; and what happens when rows are not taken, or a node is gone. */
#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"
#include "cluster/feeds_state.h"

enum { RATE_MS = 2000 }; /* over which rows per second are counted */

/* ---- nodes ---- */

/* Producers on other hosts cannot see for themselves that somebody has nothing to do. */
static void tell_of_starving(tfos__feeds *feeds, const tfos__fed_node *node)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_HUNGRY);
    tfos__message_put_number(&message, TFOS__FIELD_INDEX, (uint64_t)(node - feeds->nodes));
    tfos__message_put_number(&message, TFOS__FIELD_COUNT, node->starves ? 1 : 0);
    for (size_t i = 0; i < feeds->producer_count; i++) {
        if (feeds->producers[i].granted) {
            feeds->calls.to_producer(feeds->calls.context, feeds->producers[i].number, &message);
        }
    }
}

static void take_counts(const tfos__feeds *feeds, tfos__fed_node *node, const tfos__message *message)
{
    node->fed.fed_rows = tfos__message_number(message, TFOS__FIELD_ROWS);
    node->fed.consumed_rows = tfos__message_number(message, TFOS__FIELD_CONSUMED);
    node->fed.skipped_rows = tfos__message_number(message, TFOS__FIELD_SKIPPED);
    node->fed.counted_ms = feeds->now_ms;
}

static void count_rows(tfos__feeds *feeds, tfos__fed_node *node, const tfos__message *beat)
{
    uint64_t consumed = tfos__message_number(beat, TFOS__FIELD_CONSUMED);
    uint64_t fed = tfos__message_number(beat, TFOS__FIELD_ROWS);
    bool waited = node->fed.fed_rows > node->fed.consumed_rows;
    if (consumed != node->fed.consumed_rows || (!waited && fed > consumed)) {
        for (size_t i = 0; i < feeds->feed_count; i++) {
            feeds->feeds[i].moved_ms = feeds->feeds[i].open ? feeds->now_ms : feeds->feeds[i].moved_ms;
        }
    }
    bool hungry = tfos__message_number(beat, TFOS__FIELD_COUNT) != 0;
    bool starves = hungry && node->fed.hungry && fed == node->fed.fed_rows;
    take_counts(feeds, node, beat);
    node->fed.lane_bytes = tfos__message_number(beat, TFOS__FIELD_LANE_BYTES);
    node->fed.hungry = hungry;
    if (starves != node->starves) {
        node->starves = starves;
        tell_of_starving(feeds, node);
    }
    tfos__message_copy(beat, TFOS__FIELD_TEXT, node->queues, sizeof node->queues);
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
            tfos__feeds_stop(feeds, each, "terminated");
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
    tfos__feeds_forget_remains_of_node(feeds, index);
    for (uint32_t i = 0; i < feeds->node_count; i++) {
        left += feeds->nodes[i].known && !feeds->nodes[i].gone ? 1 : 0;
    }
    if (tfos__roster_failure(feeds->roster)[0] != '\0') {
        tfos__feeds_end(feeds);
        return;
    }
    tfos__feeds_judge(feeds);
    tfos__ledger_lose(feeds->ledger, index);
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
        attempt = tfos__feeds_attempt_of(message);
        tfos__feeds_note_remains(feeds, &attempt, index, tfos__message_number(message, TFOS__FIELD_COUNT) != 0);
        tfos__ledger_fenced(feeds->ledger, &attempt, index, tfos__message_number(message, TFOS__FIELD_ROWS));
        tfos__feeds_judge(feeds);
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
            tfos__feeds_stop(feeds, each, stopping ? "ended" : "finished");
        }
    }
    tfos__ledger_end(feeds->ledger, UINT64_MAX);
}

/* ---- feeds that do not move ---- */

/* Appends what a node has written last. */
static void add_log(const tfos__node_view *node, tfos_error *error)
{
    size_t used = strlen(error->message);
    size_t bytes = node->tail != NULL ? strlen(node->tail) : 0;
    if (bytes == 0) {
        snprintf(error->message + used, sizeof error->message - used, "%s:%" PRIu32 " has written nothing to its log.",
                 node->role, node->task);
    } else {
        snprintf(error->message + used, sizeof error->message - used,
                 "The last lines of the log of %s:%" PRIu32 ":\n%s", node->role, node->task,
                 node->tail + (bytes > 500 ? bytes - 500 : 0));
    }
}

/* The node that has rows and takes none; false when there is none. */
static bool blame_node(const tfos__feeds *feeds, const tfos__known_feed *which, tfos_error *error)
{
    for (uint32_t i = 0; i < feeds->node_count; i++) {
        const tfos__fed *fed = &feeds->nodes[i].fed;
        tfos__node_view view;
        if (fed->fed_rows <= fed->consumed_rows || feeds->nodes[i].gone) {
            continue;
        }
        tfos__roster_view(feeds->roster, i, &view);
        tfos__fail(error, TFOS_LIMIT,
                   "no row was consumed for %" PRIu64 " s (feed_timeout): %s:%" PRIu32 " on %s has %" PRIu64
                   " rows waiting and takes none. Does its program still read the feed, and does it call terminate() "
                   "when it wants no more? ",
                   which->timeout_ms / 1000, view.role, view.task, view.host, fed->fed_rows - fed->consumed_rows);
        add_log(&view, error);
        return true;
    }
    return false;
}

/* Whether nobody has opened the queue of a feed. */
static bool nobody_reads(const tfos__feeds *feeds, const tfos__known_feed *which, tfos_error *error)
{
    char name[72];
    uint32_t last = 0; /* a worker, rather than ps and chief before it */
    tfos__node_view view;
    snprintf(name, sizeof name, ",%s,", which->queue);
    for (uint32_t i = 0; i < feeds->node_count; i++) {
        if (strstr(feeds->nodes[i].queues, name) != NULL) {
            return false;
        }
        last = feeds->nodes[i].known && !feeds->nodes[i].gone ? i : last;
    }
    tfos__fail(error, TFOS_LIMIT,
               "no program has opened the queue '%s' for %" PRIu64 " s (feed_timeout), so nobody takes the rows. Does "
               "map_fun make a DataFeed (ctx.get_data_feed()) for this queue, and did it get that far? ",
               which->queue, which->timeout_ms / 1000);
    tfos__roster_view(feeds->roster, last, &view);
    add_log(&view, error);
    return true;
}

static void look_at_stalled(tfos__feeds *feeds, tfos__known_feed *which)
{
    tfos_error error;
    if (!blame_node(feeds, which, &error) && !nobody_reads(feeds, which, &error)) {
        which->moved_ms = feeds->now_ms; /* everything that was fed was consumed: it is Spark that takes its time */
        return;
    }
    tfos__feeds_break(feeds, which, &error);
}

void tfos__feeds_tick(tfos__feeds *feeds, uint64_t now_ms)
{
    feeds->now_ms = now_ms;
    if (!feeds->stopped && tfos__roster_phase(feeds->roster) >= TFOS__PHASE_STOPPING) {
        tfos__feeds_end(feeds);
    }
    tfos__feeds_ask_for_remains(feeds);
    tfos__feeds_judge(feeds);
    for (size_t i = 0; i < feeds->feed_count; i++) {
        tfos__known_feed *each = &feeds->feeds[i];
        if (each->open && !each->failed && each->producers > 0 && each->timeout_ms > 0 &&
            now_ms - each->moved_ms > each->timeout_ms) {
            look_at_stalled(feeds, each);
        }
    }
}
