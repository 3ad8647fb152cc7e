/* Producers elsewhere, who have shown the key (feed_door.c). Each has a connection over TLS and a thread of its
 * own here, which is to this node what any producer on its machine is: it asks for a lane through the node's own Unix
 * socket, so that memory, fences and ends are dealt with in one place. The thread commits entries as they come and says
 * what has become of them, and how much room there is: nothing is sent that does not fit, so it always reads and
 * commits, whatever the program does. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "feed/feeder.h"
#include "net/frame.h"
#include "node/feed.h"
#include "service/note.h"

enum {
    THREADS_MOST = 512, /* producers elsewhere at a time */
    BUSY_MS = 2,        /* between looks at a lane that has rows, or results */
    IDLE_MS = 50,       /* … that has none */
};

static atomic_int thread_count;
static atomic_bool leaving; /* the node is about to exit */

static bool is_leaving(void *context)
{
    (void)context;
    return atomic_load(&leaving);
}

void tfos__feed_leave_far(const tfos__node *node)
{
    enum { PATIENCE_MS = 2000 };
    if (node->feed != NULL && node->feed->refused > 1) {
        tfos__note("%" PRIu64 " connections to the port of the feed did not show the key", node->feed->refused);
    }
    atomic_store(&leaving, true);
    for (int waited = 0; waited < PATIENCE_MS && atomic_load(&thread_count) > 0; waited += 5) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

typedef struct visitor {
    char name[64]; /* of the node's Unix socket */
    tfos__dial *dial;
    tfos_feeder self; /* what we are to the node; only what feeder_place.c needs */
    bool asked;
    bool told;      /* that there is a lane */
    bool busy;      /* … was told that there is none now */
    uint8_t *entry; /* in the lane, where its pieces go; NULL: none was begun */
    size_t entry_bytes;
    size_t entry_done;
    uint64_t committed; /* bytes, since the beginning */
    bool ended;

    /* What was said last. */
    uint64_t said_committed;
    uint64_t said_credit;
    uint64_t said_consumed;
    uint64_t said_flags;
    bool said_hungry;
} visitor;

static tfos__place *place_of(const visitor *v)
{
    return &v->self.places[0];
}

/* ---- what has become of it ---- */

static uint64_t flags_of(const visitor *v, const tfos__lane_counts *counts, bool results_over)
{
    return (counts->given_up ? TFOS__LANE_GIVEN_UP : 0u) | (counts->fed_out && !v->ended ? TFOS__LANE_FENCED : 0u) |
           (results_over ? TFOS__LANE_RESULTS_OVER : 0u);
}

static tfos_status say_state(visitor *v, bool results_over, tfos_error *error)
{
    const tfos__place *place = place_of(v);
    tfos__lane_counts counts = {0};
    tfos__message message;
    bool hungry = tfos__bell_hungry(place->bell) != 0;
    uint64_t credit = 0;
    if (place->lane != NULL) {
        tfos__lane_count(place->lane, &counts);
        credit = counts.tail + tfos__lane_ring_bytes(place->lane);
    }
    uint64_t flags = flags_of(v, &counts, results_over);
    if (v->committed == v->said_committed && credit == v->said_credit && counts.consumed_rows == v->said_consumed &&
        hungry == v->said_hungry && flags == v->said_flags) {
        return TFOS_OK;
    }
    v->said_committed = v->committed;
    v->said_credit = credit;
    v->said_consumed = counts.consumed_rows;
    v->said_hungry = hungry;
    v->said_flags = flags;
    tfos__message_init(&message, TFOS__MESSAGE_LANE_STATE);
    tfos__message_put_number(&message, TFOS__FIELD_COMMITTED, v->committed);
    tfos__message_put_number(&message, TFOS__FIELD_CREDIT, credit);
    tfos__message_put_number(&message, TFOS__FIELD_CONSUMED, counts.consumed_rows);
    tfos__message_put_number(&message, TFOS__FIELD_HUNGRY, hungry ? 1 : 0);
    tfos__message_put_number(&message, TFOS__FIELD_LANE_FLAGS, flags);
    return tfos__dial_send(v->dial, &message, error);
}

/* ---- results ---- */

static tfos_status send_result(visitor *v, const uint8_t *bytes, size_t count, tfos_error *error)
{
    for (size_t at = 0; at < count; at += TFOS__PIECE_BYTES) {
        size_t piece = count - at < TFOS__PIECE_BYTES ? count - at : TFOS__PIECE_BYTES;
        tfos__message message;
        tfos__message_init(&message, TFOS__MESSAGE_ENTRY);
        tfos__message_put_number(&message, TFOS__FIELD_ENTRY_BYTES, count);
        tfos__message_put_text(&message, TFOS__FIELD_PIECE, (const char *)bytes + at, piece);
        TFOS_TRY(tfos__dial_send(v->dial, &message, error));
    }
    return TFOS_OK;
}

/* Sends the next result, if there is one: what comes meanwhile must not wait for all of them. */
static tfos_status send_results(visitor *v, bool *over, tfos_error *error)
{
    const tfos__place *place = place_of(v);
    const uint8_t *bytes;
    size_t count;
    bool fed_out;
    *over = false;
    if (place->results == NULL) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__lane_peek(place->results, &bytes, &count, &fed_out, error));
    if (count > 0) {
        tfos__entry entry;
        TFOS_TRY(tfos__entry_read(bytes, count, &entry, error));
        TFOS_TRY(send_result(v, bytes, entry.bytes, error));
        tfos__lane_release(place->results, entry.bytes);
        tfos__bell_ring(place->bell);
        TFOS_TRY(tfos__lane_peek(place->results, &bytes, &count, &fed_out, error));
    }
    *over = fed_out && count == 0;
    return TFOS_OK;
}

static bool has_results(const visitor *v)
{
    return place_of(v)->results != NULL && tfos__lane_used(place_of(v)->results) > 0;
}

static tfos_status say_all(visitor *v, tfos_error *error)
{
    bool over;
    TFOS_TRY(send_results(v, &over, error));
    return say_state(v, over, error);
}

/* ---- entries ---- */

/* Room in the lane for the whole entry: there is, for no task sends more than it was told. CANCELLED: the lane takes
 * nothing more. */
static tfos_status begin_entry(visitor *v, uint64_t bytes, tfos_error *error)
{
    const tfos__place *place = place_of(v);
    if (place->lane == NULL || bytes == 0 || bytes % TFOS__LANE_ALIGN != 0 ||
        bytes > tfos__lane_ring_bytes(place->lane)) {
        return tfos__fail(error, TFOS_CORRUPT, "a task elsewhere sent an entry of %llu bytes",
                          (unsigned long long)bytes);
    }
    v->entry_bytes = (size_t)bytes;
    v->entry_done = 0;
    tfos_status status = tfos__lane_reserve(place->lane, (size_t)bytes, &v->entry, error);
    return status != TFOS_END ? status
                              : tfos__fail(error, TFOS_CORRUPT,
                                           "a task elsewhere sent an entry of %llu bytes, and there is room for %zu",
                                           (unsigned long long)bytes, tfos__lane_free_bytes(place->lane));
}

static tfos_status commit_entry(visitor *v, tfos_error *error)
{
    tfos__place *place = place_of(v);
    tfos__entry entry;
    TFOS_TRY(tfos__entry_read(v->entry, v->entry_bytes, &entry, error));
    if (entry.bytes != v->entry_bytes) {
        return tfos__fail(error, TFOS_CORRUPT, "a task elsewhere sent an entry of %zu bytes as one of %zu", entry.bytes,
                          v->entry_bytes);
    }
    place->end_row = entry.rows > 0 ? entry.first_row + entry.rows : place->end_row;
    TFOS_TRY(tfos__lane_commit(place->lane, entry.bytes, entry.rows, place->end_row, error));
    tfos__bell_give(place->bell, entry.rows);
    tfos__bell_ring(place->bell);
    v->committed += entry.bytes;
    v->entry = NULL;
    return TFOS_OK;
}

static tfos_status take_piece(visitor *v, const tfos__message *message, tfos_error *error)
{
    tfos__text piece = tfos__message_text(message, TFOS__FIELD_PIECE);
    if (v->entry == NULL) {
        TFOS_TRY(begin_entry(v, tfos__message_number(message, TFOS__FIELD_ENTRY_BYTES), error));
    }
    if (piece.count > v->entry_bytes - v->entry_done) {
        return tfos__fail(error, TFOS_CORRUPT, "a task elsewhere sent more bytes than its entry has");
    }
    memcpy(v->entry + v->entry_done, piece.at, piece.count);
    v->entry_done += piece.count;
    return v->entry_done == v->entry_bytes ? commit_entry(v, error) : TFOS_OK;
}

/* ---- the lane ---- */

static tfos_status ask_for_lane(visitor *v, const tfos__message *message, tfos_error *error)
{
    if (v->asked) {
        return tfos__fail(error, TFOS_CORRUPT, "a task elsewhere asked for two lanes");
    }
    v->asked = true;
    v->self.attempt = tfos__attempt_of(message);
    v->self.flags = tfos__message_number(message, TFOS__FIELD_FEED_FLAGS);
    tfos__message_copy(message, TFOS__FIELD_QUEUE, v->self.queue, sizeof v->self.queue);
    return tfos__place_ask(&v->self, place_of(v), error);
}

static tfos_status say_refused(visitor *v, bool ended, const char *text, tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_LANE_REFUSED);
    tfos__message_put_number(&message, TFOS__FIELD_ENDED, ended ? 1 : 0);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, text);
    return tfos__dial_send(v->dial, &message, error);
}

/* What the node says of the lane is passed on. */
static tfos_status look_for_lane(visitor *v, tfos_error *error)
{
    tfos__place *place = place_of(v);
    tfos__message message;
    tfos_status status = tfos__place_hear(&v->self, place, error);
    if (status == TFOS_CANCELLED && error != NULL) {
        tfos_error told = *error;
        TFOS_TRY(say_refused(v, false, told.message, error));
        return status;
    }
    TFOS_TRY(status);
    if (place->finished) {
        TFOS_TRY(say_refused(v, true, "the program of this node has ended", error));
        return tfos__fail(error, TFOS_CANCELLED, "the program of this node has ended");
    }
    if (place->lane != NULL && !v->told) {
        v->told = true;
        tfos__message_init(&message, TFOS__MESSAGE_LANE_GRANTED);
        tfos__message_put_number(&message, TFOS__FIELD_LANE_BYTES, tfos__lane_ring_bytes(place->lane));
        return tfos__dial_send(v->dial, &message, error);
    }
    if (place->busy && !v->busy) {
        v->busy = true;
        tfos__message_init(&message, TFOS__MESSAGE_LANE_BUSY);
        return tfos__dial_send(v->dial, &message, error);
    }
    return TFOS_OK;
}

/* ---- a visit ---- */

static tfos_status hear(visitor *v, int64_t wait_ms, tfos_error *error)
{
    tfos__message message;
    tfos_status status = tfos__dial_receive(v->dial, wait_ms, &message, error);
    if (status == TFOS_END) {
        return TFOS_OK;
    }
    TFOS_TRY(status);
    switch (message.type) {
    case TFOS__MESSAGE_LANE:
        return ask_for_lane(v, &message, error);
    case TFOS__MESSAGE_ENTRY:
        return take_piece(v, &message, error);
    case TFOS__MESSAGE_LANE_END:
        if (place_of(v)->lane != NULL) {
            v->ended = true;
            tfos__lane_close_head(place_of(v)->lane);
            tfos__bell_ring(place_of(v)->bell);
        }
        return TFOS_OK;
    default:
        return TFOS_OK;
    }
}

/* How long nothing needs to be looked at but the connection. A row that has no result yet may get one at any time. */
static int64_t time_to_wait(const visitor *v)
{
    const tfos__place *place = place_of(v);
    tfos__lane_counts counts;
    if (place->lane == NULL) {
        return v->asked ? BUSY_MS : IDLE_MS;
    }
    tfos__lane_count(place->lane, &counts);
    uint64_t done = counts.consumed_rows;
    if (place->results != NULL) {
        tfos__lane_counts results;
        tfos__lane_count(place->results, &results);
        done = results.fed_rows < done ? results.fed_rows : done;
        if (results.head != results.tail) {
            return 0;
        }
    }
    return done < counts.fed_rows ? BUSY_MS : IDLE_MS;
}

static tfos_status receive_visitor(visitor *v, tfos_error *error)
{
    tfos__message here;
    tfos__buffer list = {0};
    tfos__message_init(&here, TFOS__MESSAGE_PLACE);
    tfos__message_put_number(&here, TFOS__FIELD_INDEX, 0);
    tfos__message_put_string(&here, TFOS__FIELD_HOST, "here");
    tfos__message_put_string(&here, TFOS__FIELD_FEED_NAME, v->name);
    tfos__message_put_number(&here, TFOS__FIELD_FEED_PORT, 0);
    tfos__message_put_number(&here, TFOS__FIELD_HUNGRY, 0);
    TFOS_TRY(tfos__bell_new(&v->self.bell, error));
    v->self.local_most = 1;
    tfos_status status = tfos__frame_append(&here, &list, error);
    if (status == TFOS_OK) {
        status = tfos__feeder_find_places(&v->self, (tfos__text){(const char *)list.data, list.size}, error);
    }
    tfos__buffer_reset(&list);
    TFOS_TRY(status);
    if (v->self.place_count != 1 || place_of(v)->socket < 0) {
        return tfos__fail(error, TFOS_IO, "the node is going away");
    }
    for (;;) {
        TFOS_TRY(say_all(v, error));
        TFOS_TRY(hear(v, time_to_wait(v), error));
        TFOS_TRY(look_for_lane(v, error));
    }
}

static void free_visitor(visitor *v)
{
    for (size_t i = 0; i < v->self.place_count; i++) {
        tfos__place_reset(&v->self.places[i]);
    }
    free(v->self.places);
    tfos__bell_free(v->self.bell);
    tfos__dial_close(v->dial);
    tfos__secret_wipe(v->self.token, sizeof v->self.token);
    free(v);
}

static void *run(void *context)
{
    visitor *v = context;
    tfos_error error;
    /* However it ends, the other side learns of it: by what was said, or because the connection closes. */
    if (receive_visitor(v, &error) != TFOS_OK && v->told) {
        while (say_all(v, NULL) == TFOS_OK && has_results(v)) {}
    }
    free_visitor(v);
    atomic_fetch_sub(&thread_count, 1);
    return NULL;
}

static bool start_thread(visitor *v)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    if (atomic_fetch_add(&thread_count, 1) >= THREADS_MOST || pthread_attr_init(&attributes) != 0) {
        atomic_fetch_sub(&thread_count, 1);
        return false;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(&thread, &attributes, run, v);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (code != 0) {
        atomic_fetch_sub(&thread_count, 1);
    }
    return code == 0;
}

void tfos__feed_receive_visitor(tfos__node *node, int socket, tfos__tls *tls, tfos__buffer *plain)
{
    static const tfos__patience patience = {is_leaving, NULL};
    const tfos__node_feed *feed = node->feed;
    tfos__dial *dial;
    tfos_error error;
    if (tfos__dial_adopt(socket, tls, plain, &patience, &dial, &error) != TFOS_OK) {
        return; /* it sees that nobody is there */
    }
    visitor *v = calloc(1, sizeof *v);
    if (v == NULL) {
        tfos__dial_close(dial);
        return;
    }
    v->dial = dial;
    v->said_committed = UINT64_MAX; /* something is said at once */
    memcpy(v->name, feed->name, sizeof v->name);
    memcpy(v->self.token, feed->token, sizeof v->self.token);
    if (!start_thread(v)) {
        static bool told;
        if (!told) {
            told = true;
            tfos__node_note(node, "a task of another host is sent away: as many feed this node as can (%d)",
                            THREADS_MOST);
        }
        free_visitor(v);
    }
}
