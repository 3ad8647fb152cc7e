/* Producers elsewhere: Spark tasks that come over the network, with the key. For each of them the node does what a task
 * on this machine does for itself: it has a lane, writes into it the entries that the task sends, and sends back the
 * results. All of it happens in the node's loop.
 *
 * A lane has bells and no descriptor that a loop could wait for. So all lanes of tasks elsewhere have one bell, the
 * node's own; one thread sleeps at it, for all of them, and wakes the loop. The program rings it when it has given room
 * back, when there are results, and when it begins to starve. Nobody looks at anything before that, or before the
 * network has brought something: a task that is idle costs nothing.
 *
 * Nothing is sent for which there is no room: entries within the credit that the node gives, results within the credit
 * that the task gives. So neither end ever waits for the other's program with what it was sent, and what lies in
 * between is bounded by the lanes. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "base/thread.h"
#include "feed/entry.h"
#include "feed/feeder.h"
#include "node/feed.h"
#include "service/note.h"

enum {
    HUNGER_MS = 50,          /* between two words about hunger to those who have no lane */
    BACKLOG_BYTES = 1 << 20, /* of results that wait for the network, in one connection */
    VISITORS_MOST = 2048,    /* at a time; of all producers the rest is for those on this machine */
    PIECE_FRAME_BYTES = TFOS__PIECE_BYTES + 1024, /* no task says more at once */
    LEAVE_MS = 2000,                              /* for what is to be said before the node exits */
};

struct tfos__feed_visitor {
    tfos__feed_producer base;
    tfos__feed_visitor *next;
    tfos__feed_visitor *previous;
    tfos__link *link;
    bool asked; /* for a lane */
    bool left;  /* it is no producer any more … */
    bool over;  /* … or will not be: nothing is heard or said */
    bool dirty; /* there may be something to say */
    tfos__lane *lane;
    tfos__lane *results;
    uint8_t *entry; /* in the lane, where its pieces go; NULL: none was begun */
    size_t entry_bytes;
    size_t entry_done;
    uint64_t end_row;        /* of what was committed */
    uint64_t committed;      /* bytes, since the beginning */
    bool ended;              /* it has said that nothing more comes */
    size_t result_done;      /* bytes of the first result that were sent */
    uint64_t results_sent;   /* bytes of whole ones, since the beginning … */
    uint64_t results_credit; /* … and for how many the task has room */
    bool results_over;

    /* What was said last. */
    uint64_t said_committed;
    uint64_t said_credit;
    uint64_t said_consumed;
    uint64_t said_flags;
    bool said_hungry;
};

static tfos__feed_visitor *visitor_of(tfos__feed_producer *base)
{
    return (tfos__feed_visitor *)base; /* its first member */
}

static tfos__node_feed *feed_of(const tfos__feed_visitor *v)
{
    return v->base.node->feed;
}

/* ---- who is there ---- */

/* Those with a lane come first, in a list of which the bell concerns only these. */
static void put_first(tfos__feed_visitor *v)
{
    tfos__node_feed *feed = feed_of(v);
    v->previous = NULL;
    v->next = feed->visitors;
    feed->visitor_count++;
    *(v->next != NULL ? &v->next->previous : &feed->last_visitor) = v;
    feed->visitors = v;
}

static void put_last(tfos__feed_visitor *v)
{
    tfos__node_feed *feed = feed_of(v);
    v->next = NULL;
    v->previous = feed->last_visitor;
    feed->visitor_count++;
    *(v->previous != NULL ? &v->previous->next : &feed->visitors) = v;
    feed->last_visitor = v;
}

static void take_out(tfos__feed_visitor *v)
{
    tfos__node_feed *feed = feed_of(v);
    feed->visitor_count--;
    *(v->previous != NULL ? &v->previous->next : &feed->visitors) = v->next;
    *(v->next != NULL ? &v->next->previous : &feed->last_visitor) = v->previous;
}

/* Something may have changed for it; it is looked at before the loop sleeps again. */
static void touch(tfos__feed_visitor *v)
{
    v->dirty = true;
    feed_of(v)->far_touched = true;
}

/* ---- hunger, for those who have no lane: a hint, that comes and goes quickly ---- */

static void on_hunger(uv_timer_t *timer)
{
    const tfos__node *node = timer->data;
    tfos__node_feed *feed = node->feed;
    bool hungry = tfos__bell_hungry(feed->bell) != 0;
    bool changed = hungry != feed->far_told_hungry;
    feed->far_told_hungry = hungry;
    for (tfos__feed_visitor *v = feed->last_visitor; changed && v != NULL && v->lane == NULL; v = v->previous) {
        touch(v);
    }
    if (hungry && feed->last_visitor != NULL && feed->last_visitor->lane == NULL) {
        uv_timer_start(timer, on_hunger, HUNGER_MS, 0);
    }
}

static void watch_hunger(tfos__feed_visitor *v)
{
    tfos__node_feed *feed = feed_of(v);
    feed->far_told_hungry = true;
    if (!uv_is_active((uv_handle_t *)&feed->far_timer)) {
        uv_timer_start(&feed->far_timer, on_hunger, HUNGER_MS, 0);
    }
}

/* ---- what has become of its rows ---- */

static void say_state(tfos__feed_visitor *v)
{
    tfos__lane_counts counts = {0};
    tfos__message message;
    bool hungry = tfos__bell_hungry(feed_of(v)->bell) != 0;
    uint64_t credit = 0;
    if (v->lane != NULL) {
        tfos__lane_count(v->lane, &counts);
        credit = counts.tail + tfos__lane_ring_bytes(v->lane);
    }
    uint64_t flags = (counts.given_up ? TFOS__LANE_GIVEN_UP : 0u) |
                     (counts.fed_out && !v->ended ? TFOS__LANE_FENCED : 0u) |
                     (v->results_over ? TFOS__LANE_RESULTS_OVER : 0u);
    if (v->committed == v->said_committed && credit == v->said_credit && counts.consumed_rows == v->said_consumed &&
        hungry == v->said_hungry && flags == v->said_flags) {
        return;
    }
    v->said_committed = v->committed;
    v->said_credit = credit;
    v->said_consumed = counts.consumed_rows;
    v->said_hungry = hungry;
    v->said_flags = flags;
    if (hungry && v->lane == NULL) {
        watch_hunger(v); /* nobody rings when it is over */
    }
    tfos__message_init(&message, TFOS__MESSAGE_LANE_STATE);
    tfos__message_put_number(&message, TFOS__FIELD_COMMITTED, v->committed);
    tfos__message_put_number(&message, TFOS__FIELD_CREDIT, credit);
    tfos__message_put_number(&message, TFOS__FIELD_CONSUMED, counts.consumed_rows);
    tfos__message_put_number(&message, TFOS__FIELD_HUNGRY, hungry ? 1 : 0);
    tfos__message_put_number(&message, TFOS__FIELD_LANE_FLAGS, flags);
    tfos__link_send(v->link, &message);
}

/* ---- results ---- */

/* The next piece of an entry. True: it was the last. */
static bool send_piece(tfos__feed_visitor *v, const uint8_t *bytes, size_t count)
{
    size_t left = count - v->result_done;
    size_t piece = left < TFOS__PIECE_BYTES ? left : TFOS__PIECE_BYTES;
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_ENTRY);
    tfos__message_put_number(&message, TFOS__FIELD_ENTRY_BYTES, count);
    tfos__message_put_text(&message, TFOS__FIELD_PIECE, (const char *)bytes + v->result_done, piece);
    tfos__link_send(v->link, &message);
    v->result_done = piece == left ? 0 : v->result_done + piece;
    return piece == left;
}

/* Sends what results there are, as far as the task and the network have room: an entry may be as large as a lane, and
 * goes out piece by piece, as the network takes them. */
static tfos_status send_results(tfos__feed_visitor *v, tfos_error *error)
{
    while (v->results != NULL && !v->results_over && tfos__link_backlog(v->link) < BACKLOG_BYTES) {
        const uint8_t *bytes;
        size_t count;
        bool fed_out;
        tfos__entry entry;
        TFOS_TRY(tfos__lane_peek(v->results, &bytes, &count, &fed_out, error));
        if (count == 0) {
            v->results_over = fed_out;
            break;
        }
        TFOS_TRY(tfos__entry_read(bytes, count, &entry, error));
        if (v->results_sent + entry.bytes > v->results_credit) {
            break;
        }
        if (send_piece(v, bytes, entry.bytes)) {
            v->results_sent += entry.bytes;
            tfos__lane_release(v->results, entry.bytes);
            tfos__bell_ring(feed_of(v)->bell);
        }
    }
    return TFOS_OK;
}

/* ---- the end of a visit ---- */

static void on_closed(tfos__link *link, const tfos_error *error, void *context)
{
    tfos__feed_visitor *v = context;
    tfos__node_feed *feed = feed_of(v);
    /* If it is gone, whatever it was, its attempt ends, or the next one goes on. But a limit is ours. */
    if (error->status == TFOS_LIMIT) {
        tfos__node_note(v->base.node, "a task of another host (%s) is cut off: %s", tfos__link_peer(link),
                        error->message);
    }
    take_out(v);
    if (!v->left) {
        tfos__feed_lose(&v->base);
        tfos__feed_serve_waiting(feed);
    }
    tfos__lane_free(v->lane);
    tfos__lane_free(v->results);
    free(v);
}

static void leave(tfos__feed_producer *base)
{
    tfos__feed_visitor *v = visitor_of(base);
    v->left = v->over = true;
    if (v->link != NULL) {
        tfos__link_close(v->link); /* nothing happens if it is closed already */
    }
}

/* It has sent, or its program has written, what cannot be. */
static void give_up(tfos__feed_visitor *v, const tfos_error *error)
{
    v->over = true;
    tfos__node_note(v->base.node, "a task of another host (%s) is cut off: %s", tfos__link_peer(v->link),
                    error->message);
    tfos__link_close(v->link);
}

/* ---- entries ---- */

/* Room in the lane for the whole entry: there is, for no task sends more than it was told. CANCELLED: the lane takes
 * nothing more. */
static tfos_status begin_entry(tfos__feed_visitor *v, uint64_t bytes, tfos_error *error)
{
    if (v->lane == NULL || bytes == 0 || bytes % TFOS__LANE_ALIGN != 0 || bytes > tfos__lane_ring_bytes(v->lane)) {
        return tfos__fail(error, TFOS_CORRUPT, "it sent an entry of %" PRIu64 " bytes", bytes);
    }
    v->entry_bytes = (size_t)bytes;
    v->entry_done = 0;
    tfos_status status = tfos__lane_reserve(v->lane, (size_t)bytes, &v->entry, error);
    return status != TFOS_END
               ? status
               : tfos__fail(error, TFOS_CORRUPT, "it sent an entry of %" PRIu64 " bytes, and there is room for %zu",
                            bytes, tfos__lane_free_bytes(v->lane));
}

static tfos_status commit_entry(tfos__feed_visitor *v, tfos_error *error)
{
    tfos__entry entry;
    TFOS_TRY(tfos__entry_read(v->entry, v->entry_bytes, &entry, error));
    if (entry.bytes != v->entry_bytes) {
        return tfos__fail(error, TFOS_CORRUPT, "it sent an entry of %zu bytes as one of %zu", entry.bytes,
                          v->entry_bytes);
    }
    v->end_row = entry.rows > 0 ? entry.first_row + entry.rows : v->end_row;
    v->entry = NULL;
    TFOS_TRY(tfos__lane_commit(v->lane, entry.bytes, entry.rows, v->end_row, error));
    tfos__bell_give(feed_of(v)->bell, entry.rows);
    tfos__bell_ring(feed_of(v)->bell);
    v->committed += entry.bytes;
    return TFOS_OK;
}

static tfos_status take_piece(tfos__feed_visitor *v, const tfos__message *message, tfos_error *error)
{
    tfos__text piece = tfos__message_text(message, TFOS__FIELD_PIECE);
    if (v->entry == NULL) {
        TFOS_TRY(begin_entry(v, tfos__message_number(message, TFOS__FIELD_ENTRY_BYTES), error));
    }
    if (piece.count > v->entry_bytes - v->entry_done) {
        return tfos__fail(error, TFOS_CORRUPT, "it sent more bytes than its entry has");
    }
    memcpy(v->entry + v->entry_done, piece.at, piece.count);
    v->entry_done += piece.count;
    return v->entry_done == v->entry_bytes ? commit_entry(v, error) : TFOS_OK;
}

/* ---- the lane ---- */

static tfos_status adopt(int fd, tfos__lane **out, tfos_error *error)
{
    int mine = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return mine >= 0 ? tfos__lane_adopt(mine, out, error) : tfos__fail_errno(error, errno, "cannot keep a lane");
}

static tfos_status take_lane(tfos__feed_visitor *v, const int *fds, size_t count, tfos_error *error)
{
    tfos__message message;
    TFOS_TRY(adopt(fds[0], &v->lane, error));
    if (count > 1) {
        TFOS_TRY(adopt(fds[1], &v->results, error));
        v->results_credit = tfos__lane_ring_bytes(v->results);
    }
    take_out(v);
    put_first(v);
    tfos__message_init(&message, TFOS__MESSAGE_LANE_GRANTED);
    tfos__message_put_number(&message, TFOS__FIELD_LANE_BYTES, tfos__lane_ring_bytes(v->lane));
    tfos__link_send(v->link, &message);
    touch(v);
    return TFOS_OK;
}

/* What a task on this machine would hear through its socket. */
static tfos_status tell(tfos__feed_producer *base, const tfos__packet *packet, const int *fds, size_t count,
                        tfos_error *error)
{
    tfos__feed_visitor *v = visitor_of(base);
    tfos__message message;
    switch (packet->kind) {
    case TFOS__PACKET_LANE:
        return take_lane(v, fds, count, error);
    case TFOS__PACKET_BUSY:
        tfos__message_init(&message, TFOS__MESSAGE_LANE_BUSY);
        tfos__link_send(v->link, &message);
        return TFOS_OK;
    default:
        tfos__message_init(&message, TFOS__MESSAGE_LANE_REFUSED);
        tfos__message_put_number(&message, TFOS__FIELD_ENDED, (packet->flags & TFOS__PACKET_ENDED) != 0 ? 1 : 0);
        tfos__message_put_string(&message, TFOS__FIELD_TEXT, packet->text);
        tfos__link_send(v->link, &message);
        return TFOS_OK;
    }
}

static tfos_status ask(tfos__feed_visitor *v, const tfos__message *message, tfos_error *error)
{
    tfos__packet *request = &v->base.request;
    uint64_t flags = tfos__message_number(message, TFOS__FIELD_FEED_FLAGS);
    if (v->asked) {
        return tfos__fail(error, TFOS_CORRUPT, "it asked for two lanes");
    }
    v->asked = true;
    tfos__packet_init(request, TFOS__PACKET_OPEN);
    request->id.attempt = tfos__attempt_of(message);
    request->flags = (flags & TFOS__FEED_INFERENCE) != 0 ? TFOS__PACKET_INFERENCE : 0;
    tfos__message_copy(message, TFOS__FIELD_QUEUE, request->queue, sizeof request->queue);
    tfos__feed_serve(&v->base);
    return TFOS_OK;
}

/* ---- what it says ---- */

static tfos_status take_room(tfos__feed_visitor *v, const tfos__message *message, tfos_error *error)
{
    uint64_t credit = tfos__message_number(message, TFOS__FIELD_CREDIT);
    if (v->results == NULL || credit < v->results_credit ||
        credit > v->results_sent + tfos__lane_ring_bytes(v->results)) {
        return tfos__fail(error, TFOS_CORRUPT, "it has room for results that it cannot have");
    }
    v->results_credit = credit;
    return TFOS_OK;
}

static void end_lane(tfos__feed_visitor *v)
{
    if (v->lane != NULL) {
        v->ended = true;
        tfos__lane_close_head(v->lane);
        tfos__bell_ring(feed_of(v)->bell);
    }
}

static void on_message(tfos__link *link, const tfos__message *message, void *context)
{
    tfos__feed_visitor *v = context;
    tfos_error error;
    tfos_status status = TFOS_OK;
    (void)link;
    if (v->over) {
        return;
    }
    switch (message->type) {
    case TFOS__MESSAGE_LANE:
        status = ask(v, message, &error);
        break;
    case TFOS__MESSAGE_ENTRY:
        status = take_piece(v, message, &error);
        break;
    case TFOS__MESSAGE_LANE_END:
        end_lane(v);
        break;
    case TFOS__MESSAGE_RESULTS_ROOM:
        status = take_room(v, message, &error);
        break;
    default:
        status = tfos__fail(&error, TFOS_CORRUPT, "it sent a message %s", tfos__message_name(message->type));
        break;
    }
    if (status != TFOS_OK && status != TFOS_CANCELLED) {
        give_up(v, &error);
    } else {
        touch(v); /* a lane that takes nothing more says so itself */
    }
}

static void on_drained(tfos__link *link, void *context)
{
    (void)link;
    touch(context);
}

/* ---- the loop ---- */

static void look(tfos__feed_visitor *v)
{
    tfos_error error;
    v->dirty = false;
    if (v->over) {
        return;
    }
    if (send_results(v, &error) != TFOS_OK) {
        give_up(v, &error);
        return;
    }
    say_state(v);
    bool has_results = v->results != NULL && tfos__lane_used(v->results) > 0;
    if (feed_of(v)->far_leaving && !has_results) {
        tfos__link_close(v->link);
    }
}

/* Before the loop sleeps: everybody for whom something may have changed. */
static void on_prepare(uv_prepare_t *handle)
{
    const tfos__node *node = handle->data;
    tfos__node_feed *feed = node->feed;
    while (feed->far_touched) {
        feed->far_touched = false;
        for (tfos__feed_visitor *v = feed->visitors, *next; v != NULL; v = next) {
            next = v->next;
            if (v->dirty) {
                look(v);
            }
        }
    }
}

/* The bell has rung. */
static void on_bell(uv_async_t *async)
{
    const tfos__node *node = async->data;
    tfos__node_feed *feed = node->feed;
    tfos__feed_visitor *v = feed->visitors;
    for (; v != NULL && v->lane != NULL; v = v->next) {
        touch(v);
    }
    if (v != NULL && !uv_is_active((uv_handle_t *)&feed->far_timer)) {
        uv_timer_start(&feed->far_timer, on_hunger, HUNGER_MS, 0);
    }
}

/* ---- the thread that sleeps at the bell ---- */

static void *listen_to_bell(void *context)
{
    tfos__node_feed *feed = context;
    uint32_t seen = feed->far_seen;
    while (!atomic_load(&feed->far_quiet)) {
        tfos__bell_wait(feed->far_bell, seen, -1);
        uint32_t now = tfos__bell_read(feed->far_bell);
        if (now != seen) {
            seen = now;
            uv_async_send(&feed->far_async);
        }
    }
    return NULL;
}

static tfos_status start_listener(tfos__node_feed *feed, tfos_error *error)
{
    if (feed->far_listens) {
        return TFOS_OK;
    }
    feed->far_seen = tfos__bell_read(feed->far_bell); /* now, not when the thread runs: visitors are looked at before */
    int code = tfos__thread_start(&feed->far_thread, listen_to_bell, feed);
    feed->far_listens = code == 0;
    return code == 0 ? TFOS_OK : tfos__fail_errno(error, code, "cannot start a thread");
}

/* ---- coming and going ---- */

static tfos__feed_visitor *new_visitor(tfos__node *node, tfos_error *error)
{
    tfos__node_feed *feed = node->feed;
    tfos__feed_visitor *v = calloc(1, sizeof *v);
    if (v == NULL) {
        tfos__fail_memory(error, sizeof *v);
        return NULL;
    }
    v->base = (tfos__feed_producer){.node = node, .bell = feed->far_bell, .tell = tell, .leave = leave};
    v->said_committed = UINT64_MAX; /* something is said at once */
    if (start_listener(feed, error) != TFOS_OK) {
        free(v);
        return NULL;
    }
    if (feed->visitor_count >= VISITORS_MOST || !tfos__feed_enlist(&v->base)) {
        tfos__fail(error, TFOS_LIMIT, "as many tasks feed this node as can");
        free(v);
        return NULL;
    }
    put_last(v);
    return v;
}

void tfos__feed_receive_visitor(tfos__node *node, int socket, tfos__tls *tls, tfos__buffer *plain)
{
    static const tfos__link_events events = {.message = on_message, .closed = on_closed, .drained = on_drained};
    tfos_error error;
    tfos__feed_visitor *v = new_visitor(node, &error);
    if (v == NULL) {
        close(socket);
        tfos__tls_free(tls);
        tfos__buffer_reset(plain);
    } else if (tfos__link_take(&node->loop, socket, tls, plain, PIECE_FRAME_BYTES, &events, v, &v->link, &error) ==
               TFOS_OK) {
        touch(v);
        return;
    } else {
        v->over = true;
        tfos__feed_lose(&v->base);
        take_out(v);
        free(v);
    }
    if (!node->feed->far_told) {
        node->feed->far_told = true;
        tfos__node_note(node, "a task of another host is sent away: %s", error.message);
    }
}

tfos_status tfos__feed_begin_far(tfos__node *node, tfos_error *error)
{
    tfos__node_feed *feed = node->feed;
    TFOS_TRY(tfos__bell_new(&feed->far_bell, error));
    int code = uv_async_init(&node->loop, &feed->far_async, on_bell);
    code = code == 0 ? uv_timer_init(&node->loop, &feed->far_timer) : code;
    code = code == 0 ? uv_prepare_init(&node->loop, &feed->far_prepare) : code;
    code = code == 0 ? uv_prepare_start(&feed->far_prepare, on_prepare) : code;
    feed->far_async.data = feed->far_timer.data = feed->far_prepare.data = node;
    return code == 0 ? TFOS_OK : tfos__fail_errno(error, -code, "cannot wait for Spark tasks of other hosts");
}

static void on_patience_over(uv_timer_t *timer)
{
    const tfos__node *node = timer->data;
    node->feed->far_leaving = false;
}

/* However it ends, tasks learn of it: by what is said now, or because the connection closes. */
static void say_the_last(tfos__node *node)
{
    tfos__node_feed *feed = node->feed;
    feed->far_leaving = true;
    uv_timer_stop(&node->beat_timer);
    uv_timer_start(&feed->far_timer, on_patience_over, LEAVE_MS, 0);
    for (tfos__feed_visitor *v = feed->visitors; v != NULL; v = v->next) {
        touch(v);
    }
    while (feed->visitors != NULL && feed->far_leaving) {
        uv_run(&node->loop, UV_RUN_ONCE);
    }
}

void tfos__feed_leave_far(tfos__node *node)
{
    tfos__node_feed *feed = node->feed;
    if (feed == NULL) {
        return;
    }
    if (feed->refused > 1) {
        tfos__note("%" PRIu64 " connections to the port of the feed did not show the key", feed->refused);
    }
    if (feed->visitors != NULL) {
        say_the_last(node);
    }
    if (feed->far_listens) {
        atomic_store(&feed->far_quiet, true);
        tfos__bell_ring(feed->far_bell);
        pthread_join(feed->far_thread, NULL);
    }
}
