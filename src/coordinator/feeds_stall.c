/* Feeds that do not move: rows are in lanes, or wait for one, and nobody takes any.
 *
 * Often the program that has rows is not to blame. Programs that train in step wait for each other; if one of them gets
 * no more rows because there are none, the others stop where they are, with rows that they do not take. */
#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"
#include "coordinator/feeds_state.h"

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

/* Rows that a program may still take. */
static uint64_t waiting_at(const tfos__fed *fed)
{
    uint64_t over = fed->consumed_rows + fed->skipped_rows;
    return fed->fed_rows > over ? fed->fed_rows - over : 0;
}

/* A program that wants rows of which there are no more: SIZE_MAX, or its node. */
static size_t find_starving(const tfos__feeds *feeds, const tfos__known_feed *which)
{
    tfos__ledger_counts counts;
    if (which->producers > 0 || !tfos__ledger_count(feeds->ledger, which->number, &counts) ||
        counts.exhausted < counts.partitions) {
        return SIZE_MAX;
    }
    for (uint32_t i = 0; i < feeds->node_count; i++) {
        const tfos__fed_node *node = &feeds->nodes[i];
        if (node->known && !node->gone && node->fed.hungry && waiting_at(&node->fed) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* One program has rows and takes none, another one would take some and has none. */
static void blame_both(const tfos__feeds *feeds, const tfos__known_feed *which, const tfos__node_view *has,
                       uint64_t rows, uint32_t starving, tfos_error *error)
{
    tfos__node_view wants;
    tfos__roster_view(feeds->roster, starving, &wants);
    tfos__fail(error, TFOS_LIMIT,
               "no row was consumed for %" PRIu64 " s (feed_timeout): %s:%" PRIu32
               " on %s waits for rows, and there are no more; %s:%" PRIu32 " on %s has %" PRIu64
               " rows waiting and takes none. Programs that wait for each other, as in synchronous training, must stop "
               "at the same step, before one of them runs out of rows: train for fewer steps, 90 %% of what the data "
               "has for each worker, and call terminate() then. ",
               which->timeout_ms / 1000, wants.role, wants.task, wants.host, has->role, has->task, has->host, rows);
}

/* The node that has rows and takes none; false when there is none. */
static bool blame_node(const tfos__feeds *feeds, const tfos__known_feed *which, tfos_error *error)
{
    size_t starving = find_starving(feeds, which);
    for (uint32_t i = 0; i < feeds->node_count; i++) {
        const tfos__fed *fed = &feeds->nodes[i].fed;
        tfos__node_view view;
        uint64_t rows = waiting_at(fed);
        if (rows == 0 || feeds->nodes[i].gone) {
            continue;
        }
        tfos__roster_view(feeds->roster, i, &view);
        if (starving != SIZE_MAX) {
            blame_both(feeds, which, &view, rows, (uint32_t)starving, error);
        } else {
            tfos__fail(error, TFOS_LIMIT,
                       "no row was consumed for %" PRIu64 " s (feed_timeout): %s:%" PRIu32 " on %s has %" PRIu64
                       " rows waiting and takes none. Does its program still read the feed, and does it call "
                       "terminate() when it wants no more? ",
                       which->timeout_ms / 1000, view.role, view.task, view.host, rows);
        }
        error->fault = TFOS_FAULT_PROGRAM;
        add_log(&view, error);
        return true;
    }
    return false;
}

/* Whether nobody has opened the queue of a feed. */
static bool nobody_reads(const tfos__feeds *feeds, const tfos__known_feed *which, tfos_error *error)
{
    uint32_t last = 0; /* a worker, rather than ps and chief before it */
    tfos__node_view view;
    for (uint32_t i = 0; i < feeds->node_count; i++) {
        if (tfos__feeds_reads(&feeds->nodes[i], which->queue)) {
            return false;
        }
        last = feeds->nodes[i].known && !feeds->nodes[i].gone ? i : last;
    }
    tfos__fail(error, TFOS_LIMIT,
               "no program has opened the queue '%s' for %" PRIu64 " s (feed_timeout), so nobody takes the rows. Does "
               "map_fun make a DataFeed (ctx.get_data_feed()) for this queue, and did it get that far? ",
               which->queue, which->timeout_ms / 1000);
    error->fault = TFOS_FAULT_PROGRAM;
    tfos__roster_view(feeds->roster, last, &view);
    add_log(&view, error);
    return true;
}

/* Rows were put into lanes, no program has any, and no node has said what became of them. That must not be; if it is,
 * it must not be waited for. */
static bool rows_are_missing(const tfos__feeds *feeds, const tfos__known_feed *which, tfos_error *error)
{
    tfos__ledger_counts counts;
    if (which->producers > 0 || !tfos__ledger_count(feeds->ledger, which->number, &counts) || counts.unsettled == 0 ||
        counts.exhausted < counts.partitions) {
        return false;
    }
    tfos__fail(error, TFOS_CORRUPT,
               "nobody knows what became of %" PRIu64 " rows of epoch %" PRIu64
               ": they were fed, no program has them, and no node has said that they were consumed",
               counts.unsettled, counts.epoch);
    return true;
}

static void look_at_stalled(tfos__feeds *feeds, tfos__known_feed *which)
{
    tfos_error error;
    if (!blame_node(feeds, which, &error) && !nobody_reads(feeds, which, &error) &&
        !rows_are_missing(feeds, which, &error)) {
        which->moved_ms = feeds->now_ms; /* everything that was fed was consumed: it is Spark that takes its time */
        return;
    }
    tfos__feeds_break(feeds, which, &error);
}

/* Whether rows of a feed are in lanes, or wait for one. */
static bool is_under_way(const tfos__feeds *feeds, const tfos__known_feed *which)
{
    tfos__ledger_counts counts;
    return which->producers > 0 ||
           (tfos__ledger_count(feeds->ledger, which->number, &counts) && counts.unsettled > 0 && !counts.ended);
}

void tfos__feeds_look_for_stalled(tfos__feeds *feeds)
{
    tfos__known_feed *each;
    TAILQ_FOREACH (each, &feeds->open, among_open) {
        uint64_t moved_ms = each->moved_ms > feeds->taken_ms ? each->moved_ms : feeds->taken_ms;
        if (!each->failed && each->timeout_ms > 0 && feeds->now_ms - moved_ms > each->timeout_ms &&
            is_under_way(feeds, each)) {
            look_at_stalled(feeds, each);
        }
    }
}
