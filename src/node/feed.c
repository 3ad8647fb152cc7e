/* The feed of a node: it makes the lanes and hands them to producers and to its child. Those on this machine write into
 * their lanes themselves (feed_near.c); for those elsewhere the node does (feed_far.c).
 *
 * A lane lives from the moment when a producer has asked for it and there is memory, until the child has read it to its
 * end. It outlives its producer: what was committed is consumed. When a producer's socket closes, however that came,
 * its lanes are closed at their head, which decides to the row what was fed; the number is kept until the epoch is
 * over, for the coordinator asks for it (FENCE) before another attempt goes on. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/config.h"
#include "base/status.h"
#include "feed/feeder.h"
#include "net/machine.h"
#include "node/feed.h"

enum {
    PRODUCERS_MOST = 4096, /* connected at a time */
    LANES_MOST = 64,       /* at a time: each takes descriptors of the program */
};

/* ---- what was fed ---- */

static tfos__feed_record *find_record(const tfos__node_feed *feed, const tfos__attempt *attempt)
{
    for (size_t i = feed->record_count; i-- > 0;) {
        if (tfos__attempt_equal(&feed->records[i].attempt, attempt)) {
            return &feed->records[i];
        }
    }
    return NULL;
}

tfos__feed_record *tfos__feed_record_of(tfos__node_feed *feed, const tfos__attempt *attempt, tfos_error *error)
{
    tfos__feed_record *record = find_record(feed, attempt);
    if (record == NULL && tfos__array_reserve(&feed->records, feed->record_count, &feed->record_capacity,
                                              sizeof *feed->records, error) == TFOS_OK) {
        record = &feed->records[feed->record_count++];
        *record = (tfos__feed_record){.attempt = *attempt};
    }
    return record;
}

static tfos__feed_epoch *find_epoch(const tfos__node_feed *feed, uint64_t number)
{
    for (size_t i = feed->epoch_count; i-- > 0;) {
        if (feed->epochs[i].feed == number) {
            return &feed->epochs[i];
        }
    }
    return NULL;
}

tfos_status tfos__feed_begin_epoch(tfos__node_feed *feed, uint64_t number, uint64_t epoch, tfos_error *error)
{
    tfos__feed_epoch *known = find_epoch(feed, number);
    if (known == NULL) {
        TFOS_TRY(
            tfos__array_reserve(&feed->epochs, feed->epoch_count, &feed->epoch_capacity, sizeof *feed->epochs, error));
        known = &feed->epochs[feed->epoch_count++];
    }
    *known = (tfos__feed_epoch){.feed = number, .epoch = epoch};
    tfos__feed_forget(feed, number, epoch);
    tfos__feed_serve_waiting(feed);
    return TFOS_OK;
}

static tfos__feed_queue *find_queue(const tfos__node_feed *feed, const char *name)
{
    for (size_t i = 0; i < feed->queue_count; i++) {
        if (strcmp(feed->queues[i].name, name) == 0) {
            return &feed->queues[i];
        }
    }
    return NULL;
}

tfos__feed_queue *tfos__feed_queue_of(tfos__node_feed *feed, const char *name)
{
    tfos__feed_queue *found = find_queue(feed, name);
    if (found != NULL) {
        return found;
    }
    if (tfos__array_reserve(&feed->queues, feed->queue_count, &feed->queue_capacity, sizeof *feed->queues, NULL) !=
        TFOS_OK) {
        return NULL;
    }
    tfos__feed_queue *queue = &feed->queues[feed->queue_count++];
    *queue = (tfos__feed_queue){0};
    snprintf(queue->name, sizeof queue->name, "%s", name);
    return queue;
}

void tfos__feed_forget(tfos__node_feed *feed, uint64_t number, uint64_t epoch_before)
{
    size_t kept = 0;
    for (size_t i = 0; i < feed->record_count; i++) {
        const tfos__feed_record *record = &feed->records[i];
        if (record->attempt.feed != number || record->attempt.epoch >= epoch_before) {
            feed->records[kept++] = *record;
        }
    }
    feed->record_count = kept;
    const tfos__feed_epoch *known = find_epoch(feed, number);
    if (epoch_before == UINT64_MAX && known != NULL) {
        size_t at = (size_t)(known - feed->epochs);
        memmove(&feed->epochs[at], &feed->epochs[at + 1], (--feed->epoch_count - at) * sizeof *feed->epochs);
    }
}

/* Bytes that count for a lane. One that is sealed takes what was ever written to it: its other pages do not exist. */
static void count_memory(tfos__node_feed *feed, tfos__feed_lane *lane, size_t bytes)
{
    int64_t memory = (int64_t)bytes * (lane->results != NULL ? 2 : 1);
    feed->memory_used += memory - lane->memory;
    lane->memory = memory;
}

void tfos__feed_seal(tfos__node *node, tfos__feed_lane *lane)
{
    tfos__node_feed *feed = node->feed;
    tfos__lane_counts counts;
    lane->producer = NULL;
    if (lane->sealed) {
        return;
    }
    lane->sealed = true;
    tfos__lane_close_head(lane->lane);
    tfos__lane_count(lane->lane, &counts);
    tfos__feed_record *record = find_record(feed, &tfos__lane_id_of(lane->lane)->attempt);
    if (record != NULL && counts.end_row > record->end_row) {
        record->end_row = counts.end_row;
    }
    if (lane->results != NULL) {
        tfos__lane_close_tail(lane->results); /* nobody takes them, and the child must not wait for room */
    } else if (counts.head < tfos__lane_ring_bytes(lane->lane)) {
        count_memory(feed, lane, (size_t)counts.head);
    }
    tfos__feed_watch(node, lane);
}

/* ---- lanes ---- */

void tfos__feed_free_lane(tfos__node *node, tfos__feed_lane *lane)
{
    tfos__node_feed *feed = node->feed;
    tfos__lane_counts counts;
    for (tfos__feed_lane **at = &feed->lanes; *at != NULL; at = &(*at)->next) {
        if (*at == lane) {
            *at = lane->next;
            break;
        }
    }
    feed->lane_count--;
    tfos__feed_seal(node, lane);
    tfos__feed_settle(node, lane);
    tfos__lane_count(lane->lane, &counts);
    feed->fed_rows += counts.fed_rows;
    feed->consumed_rows += counts.consumed_rows;
    count_memory(feed, lane, 0);
    tfos__lane_free(lane->lane);
    tfos__lane_free(lane->results);
    tfos__bell_free(lane->bell);
    free(lane);
}

void tfos__feed_close_lane(tfos__feed_lane *lane)
{
    tfos__lane_close_tail(lane->lane);
    if (lane->results != NULL) {
        tfos__lane_close_head(lane->results);
    }
    tfos__bell_ring(lane->bell);
}

void tfos__feed_leave_lane(tfos__node *node, tfos__feed_lane *lane)
{
    lane->left = true;
    tfos__feed_close_lane(lane);
    if (lane->sealed) {
        tfos__feed_watch(node, lane);
    }
}

static tfos_status make_lane(tfos__node_feed *feed, tfos__feed_producer *producer, tfos__feed_lane **out,
                             tfos_error *error)
{
    tfos__lane_id id = producer->request.id;
    bool inference = (producer->request.flags & TFOS__PACKET_INFERENCE) != 0;
    tfos__feed_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL) {
        return tfos__fail_memory(error, sizeof *lane);
    }
    id.number = ++feed->lane_number;
    int bell = fcntl(tfos__bell_fd(producer->bell), F_DUPFD_CLOEXEC, 3);
    tfos_status status = bell >= 0 ? tfos__bell_adopt(bell, &lane->bell, error)
                                   : tfos__fail_errno(error, errno, "cannot keep the bell of a task");
    status = status == TFOS_OK ? tfos__lane_new((size_t)feed->lane_bytes, &id, &lane->lane, error) : status;
    if (status == TFOS_OK && inference) {
        status = tfos__lane_new((size_t)feed->lane_bytes, &id, &lane->results, error);
    }
    if (status != TFOS_OK) {
        tfos__lane_free(lane->lane);
        tfos__bell_free(lane->bell);
        free(lane);
        return status;
    }
    lane->producer = producer;
    memcpy(lane->queue, producer->request.queue, sizeof lane->queue);
    lane->next = feed->lanes;
    feed->lanes = lane;
    feed->lane_count++;
    count_memory(feed, lane, tfos__lane_ring_bytes(lane->lane));
    *out = lane;
    return TFOS_OK;
}

/* The child first: what a producer commits is then always seen. */
static tfos_status hand_out(tfos__feed_producer *producer, tfos_error *error)
{
    tfos__node *node = producer->node;
    tfos__node_feed *feed = node->feed;
    tfos__feed_lane *lane = NULL;
    tfos__packet packet;
    TFOS_TRY(make_lane(feed, producer, &lane, error));
    tfos__packet_init(&packet, TFOS__PACKET_LANE);
    packet.id = *tfos__lane_id_of(lane->lane);
    packet.flags = producer->request.flags;
    memcpy(packet.queue, producer->request.queue, sizeof packet.queue);
    const int to_child[3] = {tfos__lane_fd(lane->lane), tfos__bell_fd(lane->bell),
                             lane->results != NULL ? tfos__lane_fd(lane->results) : -1};
    const int to_producer[2] = {to_child[0], to_child[2]};
    tfos_status status = tfos__feed_tell_child(feed, &packet, to_child, lane->results != NULL ? 3 : 2, error);
    if (status != TFOS_OK) {
        tfos__feed_free_lane(node, lane);
        return status;
    }
    const tfos__feed_queue *queue = find_queue(feed, lane->queue);
    if (queue != NULL && queue->left) {
        tfos__feed_leave_lane(node, lane); /* the child does not look any more */
    }
    status = producer->tell(producer, &packet, to_producer, lane->results != NULL ? 2 : 1, error);
    if (status != TFOS_OK) {
        tfos__feed_seal(node, lane); /* the child has it, and will say when it is done with it */
    }
    return status;
}

/* A queue that the child waits for must not starve because another one has all the memory. */
static bool queue_has_lane(const tfos__node_feed *feed, const char *queue)
{
    for (const tfos__feed_lane *lane = feed->lanes; lane != NULL; lane = lane->next) {
        if (strcmp(lane->queue, queue) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- producers ---- */

bool tfos__feed_enlist(tfos__feed_producer *producer)
{
    tfos__node_feed *feed = producer->node->feed;
    if (feed->producer_count >= PRODUCERS_MOST) {
        return false;
    }
    producer->next = NULL;
    producer->previous = feed->last_producer;
    *(feed->last_producer != NULL ? &feed->last_producer->next : &feed->producers) = producer;
    feed->last_producer = producer;
    feed->producer_count++;
    return true;
}

/* Its lanes are fenced: what it has committed stays, nothing is added. */
void tfos__feed_lose(tfos__feed_producer *producer)
{
    tfos__node_feed *feed = producer->node->feed;
    *(producer->previous != NULL ? &producer->previous->next : &feed->producers) = producer->next;
    *(producer->next != NULL ? &producer->next->previous : &feed->last_producer) = producer->previous;
    feed->producer_count--;
    for (tfos__feed_lane *lane = feed->lanes; lane != NULL; lane = lane->next) {
        if (lane->producer == producer) {
            tfos__feed_seal(producer->node, lane);
        }
    }
    tfos__bell_ring(feed->bell);
    producer->leave(producer);
}

void tfos__feed_refuse(tfos__feed_producer *producer, uint32_t flags, const char *why)
{
    tfos__packet packet;
    tfos__packet_init(&packet, TFOS__PACKET_REFUSED);
    packet.flags = flags;
    snprintf(packet.text, sizeof packet.text, "%.*s", (int)sizeof packet.text - 1, why);
    (void)producer->tell(producer, &packet, NULL, 0, NULL); /* if it does not listen, it sees that we leave it */
    tfos__feed_lose(producer);
}

/* Whether there is memory, somebody reads, and the coordinator has said that the epoch has begun. */
static bool may_have_lane(const tfos__feed_producer *producer)
{
    tfos__node_feed *feed = producer->node->feed;
    const tfos__feed_epoch *known = find_epoch(feed, producer->request.id.attempt.feed);
    const tfos__feed_queue *queue = find_queue(feed, producer->request.queue); /* a question makes none */
    int64_t bytes = feed->lane_bytes * ((producer->request.flags & TFOS__PACKET_INFERENCE) != 0 ? 2 : 1);
    return known != NULL && known->epoch == producer->request.id.attempt.epoch && queue != NULL && queue->reads &&
           ((feed->memory_used + bytes <= feed->memory_bytes && feed->lane_count < LANES_MOST) ||
            !queue_has_lane(feed, producer->request.queue));
}

void tfos__feed_serve(tfos__feed_producer *producer)
{
    tfos__node_feed *feed = producer->node->feed;
    const tfos__feed_record *record = find_record(feed, &producer->request.id.attempt);
    const tfos__feed_epoch *known = find_epoch(feed, producer->request.id.attempt.feed);
    tfos_error error;
    if (record != NULL && record->fenced) {
        tfos__feed_refuse(producer, 0, "another attempt has taken over this partition");
    } else if (known != NULL && known->epoch > producer->request.id.attempt.epoch) {
        tfos__feed_refuse(producer, 0, "its epoch is over");
    } else if (feed->child_ended) {
        tfos__feed_refuse(producer, TFOS__PACKET_ENDED, "the program of this node has ended");
    } else if (may_have_lane(producer)) {
        producer->wants = false;
        tfos_status status = tfos__feed_record_of(feed, &producer->request.id.attempt, &error) != NULL
                                 ? hand_out(producer, &error)
                                 : TFOS_NO_MEMORY;
        if (status == TFOS_IO) {
            tfos__feed_lose(producer); /* it has gone in the meantime */
        } else if (status != TFOS_OK) {
            tfos__node_note(producer->node, "cannot give a lane to a task: %s", error.message);
            tfos__feed_refuse(producer, 0, error.message);
        }
    } else if (!producer->wants) {
        tfos__packet packet;
        tfos__packet_init(&packet, TFOS__PACKET_BUSY);
        producer->wants = true;
        (void)producer->tell(producer, &packet, NULL, 0, NULL);
    }
}

void tfos__feed_serve_waiting(tfos__node_feed *feed)
{
    for (tfos__feed_producer *producer = feed->producers, *next; producer != NULL; producer = next) {
        next = producer->next;
        if (producer->wants) {
            tfos__feed_serve(producer);
        }
    }
}

int tfos__feed_accept(uv_poll_t *poll, int listener)
{
    int socket = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
        uv_poll_stop(poll);
    }
    return socket;
}

void tfos__feed_accept_again(tfos__node_feed *feed)
{
    if (!uv_is_active((uv_handle_t *)&feed->near_poll)) {
        tfos__feed_open_near(feed);
    }
    if (!uv_is_active((uv_handle_t *)&feed->far_poll)) {
        tfos__feed_open_door(feed);
    }
}

/* ---- the start ---- */

tfos_status tfos__node_feed_begin(tfos__node *node, tfos_error *error)
{
    tfos__node_feed *feed = calloc(1, sizeof *feed);
    if (feed == NULL) {
        return tfos__fail_memory(error, sizeof *feed);
    }
    node->feed = feed;
    feed->child = -1;
    feed->pending_end = &feed->pending;
    tfos__machine_id(feed->machine);
    TFOS_TRY(tfos__key_derive(node->orders.key, TFOS__FEED_TOKEN_PURPOSE, feed->token, error));
    int64_t lane_bytes;
    TFOS_TRY(tfos__setting_choose(TFOS__SETTING_FEED_LANE_BYTES, -1, -1, &lane_bytes, error));
    feed->lane_bytes = TFOS__LANE_LEAST_BYTES;
    while (feed->lane_bytes < lane_bytes) {
        feed->lane_bytes *= 2; /* as lanes are, so that the memory is counted as it is */
    }
    TFOS_TRY(tfos__setting_choose(TFOS__SETTING_FEED_MEMORY_BYTES, -1, -1, &feed->memory_bytes, error));
    TFOS_TRY(tfos__bell_new(&feed->bell, error));
    feed->child_poll.data = node;
    uv_timer_init(&node->loop, &feed->settle_timer);
    feed->settle_timer.data = node;
    TFOS_TRY(tfos__feed_listen_near(node, error));
    TFOS_TRY(tfos__feed_begin_far(node, error));
    return tfos__feed_listen_far(node, tfos__setting_text(TFOS__SETTING_FEED_PORT, NULL), error);
}
