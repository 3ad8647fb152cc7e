/* The nodes that a producer can feed through shared memory: those whose Unix socket answers. The names are abstract, so
 * a process in another container or network namespace gets no answer, whatever its host is called. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "feed/feeder_state.h"
#include "net/frame.h"
#include "net/local.h"

enum { ANSWER_MS = 10000 };

void tfos__place_reset(tfos__place *place)
{
    tfos__lane_free(place->lane);
    tfos__lane_free(place->results);
    tfos__bell_free(place->bell);
    tfos__lane_reader_reset(&place->reader);
    if (place->socket >= 0) {
        close(place->socket);
    }
    tfos__stand_in_close(place->stand_in, NULL); /* it sees that its socket is closed */
    place->stand_in = NULL;
    place->lane = place->results = NULL;
    place->bell = NULL;
    place->socket = -1;
    place->asked = false;
}

void tfos__place_ring(const tfos__place *place)
{
    tfos__bell_ring(place->bell);
    if (place->stand_in != NULL) {
        tfos__stand_in_wake(place->stand_in);
    }
}

static tfos_status send_to(tfos__place *place, const tfos__packet *packet, const int *fds, size_t count,
                           tfos_error *error)
{
    tfos_status status = tfos__packet_send_within(place->socket, ANSWER_MS, packet, fds, count, error);
    if (status == TFOS_END) {
        return tfos__fail(error, TFOS_IO, "node %u on %s does not read what is sent to it", place->index, place->host);
    }
    return status;
}

static tfos_status say_hello(tfos_feeder *feeder, tfos__place *place, tfos_error *error)
{
    tfos__packet packet;
    tfos__packet_init(&packet, TFOS__PACKET_HELLO);
    memcpy(packet.token, feeder->token, sizeof packet.token);
    return send_to(place, &packet, NULL, 0, error);
}

/* Waits until the node has something to say. */
static tfos_status await_answer(const tfos_feeder *feeder, const tfos__place *place, int64_t deadline,
                                tfos_error *error)
{
    enum { SLICE_MS = 100 };
    for (;;) {
        struct pollfd wait = {.fd = place->socket, .events = POLLIN};
        int64_t left = deadline - tfos__clock_ms();
        int ready = poll(&wait, 1, (int)tfos__max_i64(0, tfos__min_i64(left, SLICE_MS)));
        if (ready > 0) {
            return TFOS_OK;
        }
        if (ready < 0 && errno != EINTR) {
            return tfos__fail_errno(error, errno, "cannot wait for node %u on %s", place->index, place->host);
        }
        if (feeder->sink.patience.interrupted != NULL &&
            feeder->sink.patience.interrupted(feeder->sink.patience.context)) {
            return tfos__fail(error, TFOS_CANCELLED, "interrupted while waiting for node %u on %s", place->index,
                              place->host);
        }
        if (left <= 0) {
            return tfos__fail(error, TFOS_IO, "node %u on %s did not answer in time", place->index, place->host);
        }
    }
}

/* The node answers HELLO with the bell of its program. */
static tfos_status greet(tfos_feeder *feeder, tfos__place *place, int64_t deadline, tfos_error *error)
{
    tfos__packet packet;
    int fds[TFOS__PACKET_FDS_MOST];
    TFOS_TRY(say_hello(feeder, place, error));
    TFOS_TRY(await_answer(feeder, place, tfos__min_i64(deadline, tfos__clock_ms() + ANSWER_MS), error));
    TFOS_TRY(tfos__packet_receive(place->socket, &packet, fds, error));
    if (packet.kind != TFOS__PACKET_BELL) {
        tfos__packet_close_fds(fds);
        return tfos__fail(error, TFOS_PERMISSION, "node %u on %s refused this task: %s", place->index, place->host,
                          packet.text);
    }
    int fd = fds[0];
    fds[0] = -1;
    tfos__packet_close_fds(fds);
    return tfos__bell_adopt(fd, &place->bell, error);
}

static tfos_status add_place(tfos_feeder *feeder, size_t *capacity, const tfos__message *message, tfos_error *error)
{
    tfos__place place = {.socket = -1,
                         .index = (uint32_t)tfos__message_number(message, TFOS__FIELD_INDEX),
                         .port = (uint16_t)tfos__message_number(message, TFOS__FIELD_FEED_PORT),
                         .hungry = tfos__message_number(message, TFOS__FIELD_HUNGRY) != 0};
    tfos__message_copy(message, TFOS__FIELD_HOST, place.host, sizeof place.host);
    tfos__message_copy(message, TFOS__FIELD_FEED_NAME, place.name, sizeof place.name);
    TFOS_TRY(tfos__array_reserve(&feeder->places, feeder->place_count, capacity, sizeof *feeder->places, error));
    feeder->places[feeder->place_count++] = place;
    tfos__place *added = &feeder->places[feeder->place_count - 1];
    int64_t here = 0;
    for (size_t i = 0; i < feeder->place_count; i++) {
        here += feeder->places[i].socket >= 0 ? 1 : 0;
    }
    added->socket = here < feeder->local_most ? tfos__local_connect(added->name) : -1;
    if (added->socket < 0) {
        return TFOS_OK;
    }
    tfos_status status = greet(feeder, added, INT64_MAX, error);
    if (status != TFOS_OK) {
        tfos__place_reset(added);
        return status == TFOS_IO ? TFOS_OK : status; /* it is going away, as the coordinator will tell */
    }
    return TFOS_OK;
}

tfos_status tfos__place_begin_far(tfos_feeder *feeder, tfos__place *place, tfos_error *error)
{
    place->far = true;
    TFOS_TRY(tfos__stand_in_open(place->host, place->port, feeder->key, &place->socket, &place->stand_in, error));
    return say_hello(feeder, place, error);
}

tfos_status tfos__place_connect_far(tfos_feeder *feeder, tfos__place *place, int64_t deadline, tfos_error *error)
{
    tfos_error why = {0};
    if (place->port == 0) {
        return tfos__fail(error, TFOS_UNSUPPORTED, "node %u on %s takes no rows over the network", place->index,
                          place->host);
    }
    place->far = true;
    TFOS_TRY(tfos__stand_in_open(place->host, place->port, feeder->key, &place->socket, &place->stand_in, error));
    tfos_status status = greet(feeder, place, deadline, error);
    if (status != TFOS_OK) {
        tfos__stand_in_close(place->stand_in, &why);
        place->stand_in = NULL;
        tfos__place_reset(place);
        if (status == TFOS_IO && why.status != TFOS_OK && why.status != TFOS_CANCELLED) {
            return tfos__fail(error, why.status, "%s", why.message); /* the stand-in knows better */
        }
    }
    return status;
}

tfos_status tfos__feeder_find_places(tfos_feeder *feeder, tfos__text list, tfos_error *error)
{
    size_t capacity = 0;
    size_t used;
    for (size_t at = 0; at < list.count; at += used) {
        tfos__message place;
        tfos_status status = tfos__frame_take(list.at + at, list.count - at, TFOS__FRAME_BYTES, &place, &used, error);
        if (status == TFOS_END || (status == TFOS_OK && place.type != TFOS__MESSAGE_PLACE)) {
            return tfos__fail(error, TFOS_CORRUPT, "the coordinator sent a list of nodes that cannot be read");
        }
        TFOS_TRY(status);
        TFOS_TRY(add_place(feeder, &capacity, &place, error));
    }
    return TFOS_OK;
}

tfos_status tfos__place_ask(tfos_feeder *feeder, tfos__place *place, tfos_error *error)
{
    tfos__packet packet;
    int fd = tfos__bell_fd(feeder->bell);
    tfos__packet_init(&packet, TFOS__PACKET_OPEN);
    packet.id.attempt = feeder->attempt;
    packet.flags = feeder->sink.inference ? TFOS__PACKET_INFERENCE : 0;
    memcpy(packet.queue, feeder->queue, sizeof packet.queue);
    place->asked = true;
    place->asked_ms = tfos__clock_ms();
    return send_to(place, &packet, &fd, 1, error);
}

static tfos_status take_lane(tfos__place *place, int fds[TFOS__PACKET_FDS_MOST], tfos_error *error)
{
    int lane = fds[0];
    int results = fds[1];
    fds[0] = fds[1] = -1;
    if (place->lane != NULL) {
        fds[0] = lane;
        fds[1] = results;
        return tfos__fail(error, TFOS_CORRUPT, "node %u on %s gave this task a second lane", place->index, place->host);
    }
    tfos_status status = tfos__lane_adopt(lane, &place->lane, error);
    if (status == TFOS_OK && results >= 0) {
        return tfos__lane_adopt(results, &place->results, error);
    }
    if (results >= 0) {
        close(results);
    }
    return status;
}

tfos_status tfos__place_hear(tfos_feeder *feeder, tfos__place *place, tfos_error *error)
{
    tfos__packet packet;
    int fds[TFOS__PACKET_FDS_MOST];
    tfos_status status = tfos__packet_receive(place->socket, &packet, fds, error);
    (void)feeder;
    if (status != TFOS_OK) {
        return status == TFOS_END ? TFOS_OK : status;
    }
    place->busy = packet.kind == TFOS__PACKET_BUSY;
    if (packet.kind == TFOS__PACKET_LANE) {
        status = take_lane(place, fds, error);
    } else if (packet.kind == TFOS__PACKET_BELL && place->bell == NULL) {
        int bell = fds[0];
        fds[0] = -1;
        status = tfos__bell_adopt(bell, &place->bell, error);
    } else if (packet.kind == TFOS__PACKET_REFUSED && (packet.flags & TFOS__PACKET_ENDED) != 0) {
        place->finished = true;
    } else if (packet.kind == TFOS__PACKET_REFUSED) {
        status = tfos__fail(error, TFOS_CANCELLED, "node %u on %s refused this task: %s", place->index, place->host,
                            packet.text);
    }
    tfos__packet_close_fds(fds);
    return status;
}

tfos_status tfos__place_end(tfos_feeder *feeder, tfos__place *place, tfos_error *error)
{
    uint8_t *to;
    if (place->results != NULL) {
        tfos_status status = tfos__lane_reserve(place->lane, TFOS__ENTRY_HEADER_BYTES, &to, error);
        if (status == TFOS_OK) {
            tfos__entry_write_partition(feeder->row, to);
            status = tfos__lane_commit(place->lane, TFOS__ENTRY_HEADER_BYTES, 0, place->end_row, error);
        }
        TFOS_TRY(status == TFOS_CANCELLED ? TFOS_OK : status);
    }
    place->ended = true;
    tfos__lane_close_head(place->lane);
    tfos__place_ring(place);
    return TFOS_OK;
}
