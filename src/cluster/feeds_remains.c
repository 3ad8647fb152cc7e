/* What attempts that have left have put into lanes, until it is consumed.
 *
 * The next attempt goes on behind it and may be done with the rest while the first rows of the partition still wait. If
 * it were told then that the partition is complete, the driver would begin the next epoch, and a program that dies
 * would take with it rows that nobody feeds again. So nodes are asked until nothing is left. */
#include "cluster/feeds_state.h"

enum { ASK_MS = 200 };

static bool is_same_partition(const tfos__attempt *a, const tfos__attempt *b)
{
    return a->feed == b->feed && a->epoch == b->epoch && a->partition == b->partition;
}

static void drop(tfos__feeds *feeds, tfos__remains *which)
{
    *which = feeds->remains[--feeds->remains_count];
}

void tfos__feeds_note_remains(tfos__feeds *feeds, const tfos__attempt *attempt, uint32_t node, bool any)
{
    const tfos__known_feed *feed = tfos__feeds_find(feeds, attempt->feed);
    for (size_t i = 0; i < feeds->remains_count; i++) {
        tfos__remains *each = &feeds->remains[i];
        if (each->node == node && each->attempt.attempt == attempt->attempt &&
            is_same_partition(&each->attempt, attempt)) {
            if (!any) {
                drop(feeds, each);
            }
            return;
        }
    }
    bool counts = any && feed != NULL && feed->open && feed->epoch == attempt->epoch && !tfos__feeds_is_inference(feed);
    /* Without memory for it, what was so before it was asked for is so again: the next attempt does not wait. */
    if (counts && tfos__array_reserve(&feeds->remains, feeds->remains_count, &feeds->remains_capacity,
                                      sizeof *feeds->remains, NULL) == TFOS_OK) {
        feeds->remains[feeds->remains_count++] =
            (tfos__remains){.attempt = *attempt, .node = node, .asked_ms = feeds->now_ms};
    }
}

bool tfos__feeds_has_remains(const tfos__feeds *feeds, const tfos__attempt *attempt)
{
    for (size_t i = 0; i < feeds->remains_count; i++) {
        if (is_same_partition(&feeds->remains[i].attempt, attempt)) {
            return true;
        }
    }
    return false;
}

void tfos__feeds_ask_for_remains(tfos__feeds *feeds)
{
    for (size_t i = 0; i < feeds->remains_count; i++) {
        tfos__remains *each = &feeds->remains[i];
        if (feeds->now_ms - each->asked_ms >= ASK_MS) {
            tfos__message message;
            tfos__feeds_make_fence(&each->attempt, &message);
            each->asked_ms = feeds->now_ms;
            feeds->calls.to_node(feeds->calls.context, each->node, &message);
        }
    }
}

void tfos__feeds_forget_remains_of_node(tfos__feeds *feeds, uint32_t node)
{
    for (size_t i = feeds->remains_count; i-- > 0;) {
        if (feeds->remains[i].node == node) {
            drop(feeds, &feeds->remains[i]);
        }
    }
}

void tfos__feeds_forget_remains_of_feed(tfos__feeds *feeds, uint64_t feed)
{
    for (size_t i = feeds->remains_count; i-- > 0;) {
        if (feeds->remains[i].attempt.feed == feed) {
            drop(feeds, &feeds->remains[i]);
        }
    }
}
