/* A stand-in for a node elsewhere. To its producer it looks like a node on the same machine: it hands out a lane
 * through a Unix socket, and takes entries out of it. It carries them to the node over TLS, and brings back what the
 * node says.
 *
 *   producer ═══ lane ═══► stand-in ───── TLS: ENTRY ─────► node ═══ lane ═══► program
 *            ◄═ results ══          ◄── LANE_STATE, ENTRY ──     ◄═ results ══
 *
 * The room of an entry is given back when the node has committed it to its own lane, so whatever is in the lane here
 * has not been acknowledged; rows count as consumed when the program there has consumed them. An entry is sent only
 * when the node has room for it: the node says how many bytes that are (the credit), so it never has to wait for its
 * program with what it was sent. Likewise for results: the stand-in says how many bytes of them there is room for, and
 * a producer that waits for room for its rows takes its results meanwhile. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "feed/feeder_state.h"

enum { CONNECT_MS = 8000, WAIT_MS = 100 };

struct tfos__stand_in {
    pthread_t thread;
    int socket; /* to the producer */
    int wake;   /* an eventfd: something is in the lane */
    atomic_bool leaving;
    char host[256];
    uint16_t port;
    uint8_t key[TFOS__KEY_BYTES];
    tfos_error error; /* what ended it; read when the thread is gone */

    tfos__dial *node;
    tfos__bell *bell;     /* of the program, as far as it is known here */
    tfos__bell *producer; /* its own; NULL before it asked for a lane */
    tfos__packet request;
    tfos__lane *lane; /* NULL: the node has not granted one */
    tfos__lane *results;
    size_t sent;             /* bytes of the lane that were sent and are not acknowledged */
    uint64_t acknowledged;   /* bytes, since the beginning */
    _Atomic uint64_t credit; /* bytes, since the beginning, that the node has room for; the producer looks, too */
    uint64_t consumed;       /* rows */
    bool ended;              /* LANE_END was sent */
    uint8_t *result;         /* in the lane of results, where its pieces go; NULL: none was begun */
    size_t result_bytes;
    size_t result_done;
    uint64_t room_said; /* bytes of results, since the beginning, that the node knows there is room for */
    bool hungry;
    bool met; /* the node has said how things are */
};

/* ---- to the node ---- */

static tfos_status ask_for_lane(tfos__stand_in *self, tfos_error *error)
{
    tfos__message message;
    bool inference = (self->request.flags & TFOS__PACKET_INFERENCE) != 0;
    tfos__message_init(&message, TFOS__MESSAGE_LANE);
    tfos__attempt_put(&self->request.id.attempt, &message);
    tfos__message_put_number(&message, TFOS__FIELD_FEED_FLAGS, inference ? TFOS__FEED_INFERENCE : 0);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUE, self->request.queue);
    return tfos__dial_send(self->node, &message, error);
}

/* ---- to the producer ---- */

static tfos_status tell(tfos__stand_in *self, const tfos__packet *packet, const int *fds, size_t count,
                        tfos_error *error)
{
    tfos_status status = tfos__packet_send(self->socket, packet, fds, count, error);
    if (self->producer != NULL) {
        tfos__bell_ring(self->producer);
    }
    return status == TFOS_END ? tfos__fail(error, TFOS_IO, "a task does not read its socket") : status;
}

static tfos_status hand_out_lane(tfos__stand_in *self, const tfos__message *message, tfos_error *error)
{
    tfos__packet packet;
    uint64_t bytes = tfos__message_number(message, TFOS__FIELD_LANE_BYTES);
    bool inference = (self->request.flags & TFOS__PACKET_INFERENCE) != 0;
    if (self->producer == NULL || self->lane != NULL || bytes > TFOS__LANE_MOST_BYTES) {
        return tfos__fail(error, TFOS_CORRUPT, "%s sent a lane that nobody asked for", self->host);
    }
    TFOS_TRY(tfos__lane_new((size_t)bytes, &self->request.id, &self->lane, error));
    if (inference) {
        TFOS_TRY(tfos__lane_new((size_t)bytes, &self->request.id, &self->results, error));
        self->room_said = tfos__lane_ring_bytes(self->results);
    }
    atomic_store(&self->credit, bytes);
    const int fds[] = {tfos__lane_fd(self->lane), inference ? tfos__lane_fd(self->results) : -1};
    tfos__packet_init(&packet, TFOS__PACKET_LANE);
    packet.id = self->request.id;
    packet.flags = self->request.flags;
    return tell(self, &packet, fds, inference ? 2 : 1, error);
}

static tfos_status refuse(tfos__stand_in *self, const tfos__message *message, tfos_error *error)
{
    tfos__packet packet;
    tfos__packet_init(&packet, TFOS__PACKET_REFUSED);
    packet.flags = tfos__message_number(message, TFOS__FIELD_ENDED) != 0 ? TFOS__PACKET_ENDED : 0;
    tfos__message_copy(message, TFOS__FIELD_TEXT, packet.text, sizeof packet.text);
    return tell(self, &packet, NULL, 0, error);
}

static tfos_status take_state(tfos__stand_in *self, const tfos__message *message, tfos_error *error)
{
    uint64_t flags = tfos__message_number(message, TFOS__FIELD_LANE_FLAGS);
    uint64_t acknowledged = tfos__message_number(message, TFOS__FIELD_COMMITTED);
    uint64_t consumed = tfos__message_number(message, TFOS__FIELD_CONSUMED);
    bool hungry = tfos__message_number(message, TFOS__FIELD_HUNGRY) != 0;
    self->met = true;
    if (hungry != self->hungry) {
        self->hungry = hungry;
        tfos__bell_set_hungry(self->bell, hungry ? tfos__clock_ns() : 0);
    }
    if (self->lane == NULL) {
        return TFOS_OK;
    }
    uint64_t more = acknowledged - self->acknowledged;
    uint64_t credit = tfos__message_number(message, TFOS__FIELD_CREDIT);
    if (acknowledged < self->acknowledged || more > self->sent || more % TFOS__LANE_ALIGN != 0 ||
        consumed < self->consumed) {
        return tfos__fail(error, TFOS_CORRUPT, "%s acknowledged what was not sent", self->host);
    }
    if (credit < atomic_load(&self->credit) || credit - acknowledged > tfos__lane_ring_bytes(self->lane)) {
        return tfos__fail(error, TFOS_CORRUPT, "%s says that it has room for %llu bytes in a lane of %zu", self->host,
                          (unsigned long long)(credit - acknowledged), tfos__lane_ring_bytes(self->lane));
    }
    tfos__lane_take_rows(self->lane, consumed - self->consumed);
    tfos__bell_take(self->bell, consumed - self->consumed);
    tfos__lane_release(self->lane, (size_t)more);
    self->sent -= (size_t)more;
    self->acknowledged = acknowledged;
    atomic_store(&self->credit, credit);
    self->consumed = consumed;
    if (self->results != NULL && (flags & TFOS__LANE_RESULTS_OVER) != 0) {
        tfos__lane_close_head(self->results); /* they have all come: what is sent stays in order */
    }
    if ((flags & TFOS__LANE_GIVEN_UP) != 0) {
        tfos__lane_close_tail(self->lane);
    } else if ((flags & TFOS__LANE_FENCED) != 0 && !self->ended) {
        tfos__lane_close_head(self->lane);
    }
    tfos__bell_ring(self->producer);
    return TFOS_OK;
}

/* ---- results ---- */

/* A piece of a result, straight into the lane: the node sends none for which it was not told that there is room. */
static tfos_status take_result(tfos__stand_in *self, const tfos__message *message, tfos_error *error)
{
    tfos__text piece = tfos__message_text(message, TFOS__FIELD_PIECE);
    uint64_t bytes = tfos__message_number(message, TFOS__FIELD_ENTRY_BYTES);
    if (self->result == NULL) {
        if (self->results == NULL || bytes == 0 || bytes % TFOS__LANE_ALIGN != 0 ||
            bytes > tfos__lane_free_bytes(self->results)) {
            return tfos__fail(error, TFOS_CORRUPT, "%s sent a result of %llu bytes for which there is no room",
                              self->host, (unsigned long long)bytes);
        }
        TFOS_TRY(tfos__lane_reserve(self->results, (size_t)bytes, &self->result, error));
        self->result_bytes = (size_t)bytes;
        self->result_done = 0;
    }
    if (piece.count > self->result_bytes - self->result_done) {
        return tfos__fail(error, TFOS_CORRUPT, "%s sent more bytes than its result has", self->host);
    }
    memcpy(self->result + self->result_done, piece.at, piece.count);
    self->result_done += piece.count;
    if (self->result_done < self->result_bytes) {
        return TFOS_OK;
    }
    tfos__entry entry;
    TFOS_TRY(tfos__entry_read(self->result, self->result_bytes, &entry, error));
    if (entry.bytes != self->result_bytes) {
        return tfos__fail(error, TFOS_CORRUPT, "%s sent a result of %zu bytes as one of %zu", self->host, entry.bytes,
                          self->result_bytes);
    }
    self->result = NULL;
    TFOS_TRY(tfos__lane_commit(self->results, entry.bytes, entry.rows, 0, error));
    tfos__bell_ring(self->producer);
    return TFOS_OK;
}

/* Tells the node that the producer has taken results: when it has taken all, or a good part of what there is room for.
 */
static tfos_status say_room(tfos__stand_in *self, bool *moved, tfos_error *error)
{
    enum { PARTS = 8 };
    tfos__lane_counts counts;
    tfos__message message;
    tfos__lane_count(self->results, &counts);
    uint64_t ring = tfos__lane_ring_bytes(self->results);
    uint64_t room = counts.tail + ring;
    if (room == self->room_said || (room - self->room_said < ring / PARTS && counts.head != counts.tail)) {
        return TFOS_OK;
    }
    self->room_said = room;
    *moved = true;
    tfos__message_init(&message, TFOS__MESSAGE_RESULTS_ROOM);
    tfos__message_put_number(&message, TFOS__FIELD_CREDIT, room);
    return tfos__dial_send(self->node, &message, error);
}

/* ---- listening ---- */

static tfos_status hear_node(tfos__stand_in *self, bool *moved, tfos_error *error)
{
    for (;;) {
        tfos__message message;
        tfos__packet packet;
        tfos_status status = tfos__dial_receive(self->node, 0, &message, error);
        if (status == TFOS_END) {
            return TFOS_OK;
        }
        TFOS_TRY(status);
        *moved = true;
        switch (message.type) {
        case TFOS__MESSAGE_LANE_GRANTED:
            TFOS_TRY(hand_out_lane(self, &message, error));
            break;
        case TFOS__MESSAGE_LANE_BUSY:
            tfos__packet_init(&packet, TFOS__PACKET_BUSY);
            TFOS_TRY(tell(self, &packet, NULL, 0, error));
            break;
        case TFOS__MESSAGE_LANE_REFUSED:
            TFOS_TRY(refuse(self, &message, error));
            break;
        case TFOS__MESSAGE_LANE_STATE:
            TFOS_TRY(take_state(self, &message, error));
            break;
        case TFOS__MESSAGE_ENTRY:
            TFOS_TRY(take_result(self, &message, error));
            break;
        default:
            break;
        }
    }
}

/* ---- entries ---- */

/* Between the pieces the node is heard, so that it can go on with what it has to say. */
static tfos_status send_entry(tfos__stand_in *self, const uint8_t *bytes, size_t count, tfos_error *error)
{
    for (size_t at = 0; at < count; at += TFOS__PIECE_BYTES) {
        size_t piece = count - at < TFOS__PIECE_BYTES ? count - at : TFOS__PIECE_BYTES;
        tfos__message message;
        if (at > 0) {
            TFOS_TRY(hear_node(self, &(bool){false}, error));
        }
        tfos__message_init(&message, TFOS__MESSAGE_ENTRY);
        tfos__message_put_number(&message, TFOS__FIELD_ENTRY_BYTES, count);
        tfos__message_put_text(&message, TFOS__FIELD_PIECE, (const char *)bytes + at, piece);
        TFOS_TRY(tfos__dial_send(self->node, &message, error));
    }
    return TFOS_OK;
}

/* Sends the next entry that the producer has committed, if the node has room for it. */
static tfos_status carry(tfos__stand_in *self, bool *moved, tfos_error *error)
{
    const uint8_t *bytes;
    size_t count;
    bool fed_out;
    TFOS_TRY(tfos__lane_peek(self->lane, &bytes, &count, &fed_out, error));
    if (self->sent < count) {
        tfos__entry entry;
        TFOS_TRY(tfos__entry_read(bytes + self->sent, count - self->sent, &entry, error));
        if (self->acknowledged + self->sent + entry.bytes > atomic_load(&self->credit)) {
            return TFOS_OK;
        }
        TFOS_TRY(send_entry(self, bytes + self->sent, entry.bytes, error));
        self->sent += entry.bytes;
        *moved = true;
    } else if (fed_out && !self->ended) {
        tfos__message message;
        self->ended = true;
        tfos__message_init(&message, TFOS__MESSAGE_LANE_END);
        return tfos__dial_send(self->node, &message, error);
    }
    return TFOS_OK;
}

static tfos_status hear_producer(tfos__stand_in *self, bool *moved, tfos_error *error)
{
    tfos__packet packet;
    int fds[TFOS__PACKET_FDS_MOST];
    if (!self->met) {
        return TFOS_OK; /* whether somebody is hungry there, the producer wants to know from the first row on */
    }
    tfos_status status = tfos__packet_receive(self->socket, &packet, fds, error);
    if (status != TFOS_OK) {
        return status == TFOS_END ? TFOS_OK : status;
    }
    *moved = true;
    if (packet.kind == TFOS__PACKET_HELLO) {
        int bell = tfos__bell_fd(self->bell);
        tfos__packet_init(&packet, TFOS__PACKET_BELL);
        status = tell(self, &packet, &bell, 1, error);
    } else if (packet.kind == TFOS__PACKET_OPEN && self->producer == NULL) {
        int bell = fds[0];
        fds[0] = -1;
        self->request = packet;
        status = tfos__bell_adopt(bell, &self->producer, error);
        status = status == TFOS_OK ? ask_for_lane(self, error) : status;
    }
    tfos__packet_close_fds(fds);
    return status;
}

static bool is_leaving(void *context)
{
    return atomic_load(&((tfos__stand_in *)context)->leaving);
}

static tfos_status work(tfos__stand_in *self, tfos_error *error)
{
    const tfos__patience patience = {is_leaving, self};
    TFOS_TRY(tfos__bell_new(&self->bell, error));
    TFOS_TRY(tfos__dial_open(self->host, self->port, self->key, TFOS__FEED_PLANE_PURPOSE, CONNECT_MS, &patience,
                             &self->node, error));
    while (!is_leaving(self)) {
        bool moved = false;
        uint64_t count;
        (void)!read(self->wake, &count, sizeof count);
        TFOS_TRY(hear_producer(self, &moved, error));
        tfos_status status = self->lane != NULL ? carry(self, &moved, error) : TFOS_OK;
        if (status == TFOS_IO) {
            (void)hear_node(self, &moved, NULL); /* it may have said why */
        }
        TFOS_TRY(status);
        TFOS_TRY(hear_node(self, &moved, error));
        if (self->results != NULL) {
            TFOS_TRY(say_room(self, &moved, error));
        }
        if (!moved) {
            struct pollfd waits[] = {{.fd = self->socket, .events = self->met ? POLLIN : 0},
                                     {.fd = self->wake, .events = POLLIN},
                                     {.fd = tfos__dial_socket(self->node), .events = POLLIN}};
            poll(waits, 3, self->met ? -1 : WAIT_MS);
        }
    }
    return TFOS_OK;
}

static void *run(void *context)
{
    tfos__stand_in *self = context;
    if (work(self, &self->error) == TFOS_OK) {
        self->error.status = TFOS_OK;
    }
    if (self->results != NULL) {
        tfos__lane_close_head(self->results);
    }
    tfos__dial_close(self->node);
    self->node = NULL;
    shutdown(self->socket, SHUT_RDWR); /* the producer sees that nobody is there */
    if (self->producer != NULL) {
        tfos__bell_ring(self->producer);
    }
    return NULL;
}

/* ---- one of them ---- */

static void free_stand_in(tfos__stand_in *self)
{
    tfos__lane_free(self->lane);
    tfos__lane_free(self->results);
    tfos__bell_free(self->bell);
    tfos__bell_free(self->producer);
    tfos__secret_wipe(self->key, sizeof self->key);
    if (self->socket >= 0) {
        close(self->socket);
    }
    if (self->wake >= 0) {
        close(self->wake);
    }
    free(self);
}

tfos_status tfos__stand_in_open(const char *host, uint16_t port, const uint8_t key[TFOS__KEY_BYTES], int *socket,
                                tfos__stand_in **out, tfos_error *error)
{
    int pair[2];
    tfos__stand_in *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return tfos__fail_memory(error, sizeof *self);
    }
    self->socket = -1;
    self->port = port;
    memcpy(self->key, key, sizeof self->key);
    snprintf(self->host, sizeof self->host, "%s", host);
    self->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->wake < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        int number = errno;
        free_stand_in(self);
        return tfos__fail_errno(error, number, "cannot make a socket");
    }
    self->socket = pair[0];
    int code = tfos__thread_start(&self->thread, run, self);
    if (code != 0) {
        close(pair[1]);
        free_stand_in(self);
        return tfos__fail_errno(error, code, "cannot start a thread");
    }
    *socket = pair[1];
    *out = self;
    return TFOS_OK;
}

void tfos__stand_in_close(tfos__stand_in *self, tfos_error *why)
{
    if (self == NULL) {
        return;
    }
    atomic_store(&self->leaving, true);
    tfos__stand_in_wake(self);
    pthread_join(self->thread, NULL);
    if (why != NULL) {
        *why = self->error;
    }
    free_stand_in(self);
}

size_t tfos__stand_in_room(tfos__stand_in *self, const tfos__lane *lane)
{
    tfos__lane_counts counts;
    uint64_t credit = atomic_load(&self->credit);
    size_t here = tfos__lane_free_bytes(lane);
    tfos__lane_count(lane, &counts);
    uint64_t there = credit > counts.head ? credit - counts.head : 0;
    return there < here ? (size_t)there : here;
}

void tfos__stand_in_wake(const tfos__stand_in *self)
{
    uint64_t one = 1;
    (void)!write(self->wake, &one, sizeof one); /* if it is full, it wakes somebody already */
}
