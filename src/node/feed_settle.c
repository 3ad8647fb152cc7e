/* What has become of the rows in a node's lanes: the coordinator's ledger counts an epoch as consumed when it has heard
 * of every one of them.
 *
 * A lane is settled once, when nothing is added any more and its rows were consumed, or when nobody will consume what
 * is left. A program that has copied the last rows out of a lane may not ask for more for a long time, and nobody would
 * say that they were consumed: so lanes that are sealed are looked at now and then, as long as there are any.
 *
 * What was said is kept and numbered, and said again on a new connection, until a heartbeat that was sent after it was
 * answered. */
#include <string.h>

#include "base/status.h"
#include "node/feed.h"

enum { LOOK_MS = 25 };

static void say(tfos__node *node, const tfos__feed_settled *settled)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_SETTLED);
    tfos__attempt_put(&settled->attempt, &message);
    tfos__message_put_number(&message, TFOS__FIELD_CONSUMED, settled->consumed);
    tfos__message_put_number(&message, TFOS__FIELD_SKIPPED, settled->dropped);
    tfos__message_put_number(&message, TFOS__FIELD_SEQUENCE, settled->sequence);
    tfos__node_send(node, &message);
}

void tfos__feed_settle(tfos__node *node, tfos__feed_lane *lane)
{
    tfos__node_feed *feed = node->feed;
    tfos__lane_counts counts;
    tfos_error error;
    tfos__lane_count(lane->lane, &counts);
    /* Inference is none of the ledger's business. */
    if (lane->settled || lane->results != NULL || counts.fed_rows == 0) {
        lane->settled = true;
        return;
    }
    if (tfos__array_reserve(&feed->settled, feed->settled_count, &feed->settled_capacity, sizeof *feed->settled,
                            &error) != TFOS_OK) {
        tfos__node_kill(node, TFOS__CAUSE_STOP, "cannot tell what has become of rows: %s", error.message);
        return;
    }
    lane->settled = true;
    tfos__feed_settled *added = &feed->settled[feed->settled_count++];
    *added = (tfos__feed_settled){.attempt = tfos__lane_id_of(lane->lane)->attempt,
                                  .sequence = ++feed->settled_sequence,
                                  .consumed = counts.consumed_rows,
                                  .dropped = counts.fed_rows - counts.consumed_rows};
    say(node, added);
}

/* Settles a sealed lane if its rows were consumed, or never will be. False: not yet. */
static bool look_at(tfos__node *node, tfos__feed_lane *lane)
{
    tfos__lane_counts counts;
    tfos__lane_count(lane->lane, &counts);
    if (!lane->settled && (lane->left || counts.fed_rows == counts.consumed_rows)) {
        tfos__feed_settle(node, lane);
    }
    return lane->settled;
}

static void on_look(uv_timer_t *timer)
{
    tfos__node *node = timer->data;
    bool more = false;
    for (tfos__feed_lane *lane = node->feed->lanes; lane != NULL; lane = lane->next) {
        bool waits = lane->sealed && !look_at(node, lane);
        more = more || waits;
    }
    if (!more) {
        uv_timer_stop(timer);
    }
}

void tfos__feed_watch(tfos__node *node, tfos__feed_lane *lane)
{
    uv_timer_t *timer = &node->feed->settle_timer;
    if (!look_at(node, lane) && !uv_is_active((const uv_handle_t *)timer)) {
        uv_timer_start(timer, on_look, LOOK_MS, LOOK_MS);
    }
}

void tfos__node_feed_say_again(tfos__node *node)
{
    const tfos__node_feed *feed = node->feed;
    for (size_t i = 0; feed != NULL && i < feed->settled_count; i++) {
        say(node, &feed->settled[i]);
    }
}

void tfos__node_feed_mark(tfos__node *node)
{
    if (node->feed != NULL) {
        node->feed->settled_before = node->feed->settled_sequence;
    }
}

void tfos__node_feed_answered(tfos__node *node)
{
    tfos__node_feed *feed = node->feed;
    size_t known = 0;
    while (feed != NULL && known < feed->settled_count && feed->settled[known].sequence <= feed->settled_before) {
        known++;
    }
    if (known > 0) {
        feed->settled_count -= known;
        memmove(feed->settled, feed->settled + known, feed->settled_count * sizeof *feed->settled);
    }
}
