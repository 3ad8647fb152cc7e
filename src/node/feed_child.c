/* The child's side of a node's feed: its socket, and what the coordinator has to say about feeds. Packets that the
 * child does not read wait here; it reads them whenever it wants rows. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"
#include "feed/entry.h"
#include "node/feed.h"

enum { PENDING_MOST = 65536 }; /* packets that the child has not read */

/* ---- packets for the child ---- */

static void on_child(uv_poll_t *poll, int code, int events);

static void watch_child(tfos__node_feed *feed)
{
    uv_poll_start(&feed->child_poll, UV_READABLE | (feed->pending != NULL ? UV_WRITABLE : 0), on_child);
}

static void free_pending(tfos__feed_pending *packet)
{
    tfos__packet_close_fds(packet->fds);
    free(packet);
}

/* Sends what waits, as far as there is room. */
static void flush_pending(tfos__node_feed *feed)
{
    while (feed->pending != NULL && feed->child >= 0) {
        tfos__feed_pending *first = feed->pending;
        size_t count = 0;
        while (count < TFOS__PACKET_FDS_MOST && first->fds[count] >= 0) {
            count++;
        }
        tfos_status status = tfos__packet_send(feed->child, &first->packet, first->fds, count, NULL);
        if (status == TFOS_END) {
            break;
        }
        feed->pending = first->next;
        feed->pending_end = feed->pending == NULL ? &feed->pending : feed->pending_end;
        feed->pending_count--;
        free_pending(first);
    }
    tfos__bell_ring(feed->bell);
    if (feed->child >= 0) {
        watch_child(feed);
    }
}

tfos_status tfos__feed_tell_child(tfos__node_feed *feed, const tfos__packet *packet, const int *fds, size_t count,
                                  tfos_error *error)
{
    if (feed->child_ended) {
        return TFOS_OK;
    }
    if (feed->pending_count >= PENDING_MOST) {
        return tfos__fail(error, TFOS_LIMIT, "the program has not read %d packets about its feed", PENDING_MOST);
    }
    tfos__feed_pending *added = calloc(1, sizeof *added);
    if (added == NULL) {
        return tfos__fail_memory(error, sizeof *added);
    }
    added->packet = *packet;
    for (size_t i = 0; i < TFOS__PACKET_FDS_MOST; i++) {
        added->fds[i] = i < count ? fcntl(fds[i], F_DUPFD_CLOEXEC, 3) : -1;
        if (i < count && added->fds[i] < 0) {
            int number = errno;
            free_pending(added);
            return tfos__fail_errno(error, number, "cannot pass a lane to the program");
        }
    }
    *feed->pending_end = added;
    feed->pending_end = &added->next;
    feed->pending_count++;
    flush_pending(feed);
    return TFOS_OK;
}

/* ---- the child ---- */

static void forget_lane(tfos__node *node, uint64_t number)
{
    tfos__node_feed *feed = node->feed;
    for (tfos__feed_lane *lane = feed->lanes; lane != NULL; lane = lane->next) {
        if (tfos__lane_id_of(lane->lane)->number == number) {
            tfos__feed_free_lane(node, lane);
            tfos__feed_serve_waiting(feed);
            return;
        }
    }
}

static void say_terminate(tfos__node *node, const char *queue)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_TERMINATE);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUE, queue);
    tfos__node_send(node, &message);
}

static void open_queue(tfos__node *node, tfos__feed_queue *queue)
{
    tfos__node_feed *feed = node->feed;
    size_t used = strlen(feed->queue_text);
    if (queue->reads) {
        return;
    }
    if (used + strlen(queue->name) + 3 > sizeof feed->queue_text) {
        tfos__node_note(node, "the program has opened more queues than a status has room for; '%s' is not shown",
                        queue->name);
    } else {
        snprintf(feed->queue_text + used, sizeof feed->queue_text - used, used == 0 ? ",%s," : "%s,", queue->name);
    }
    queue->reads = true;
    tfos__feed_serve_waiting(feed);
    tfos__node_beat(node); /* tasks that hold rows back for this program are to hear of it */
}

/* Lanes that were given to the child since it last looked, it may not look at for as long as it lives. */
static void leave_queue(tfos__node *node, tfos__feed_queue *queue)
{
    queue->left = true;
    queue->terminated = true; /* and said again until the coordinator answers */
    for (tfos__feed_lane *lane = node->feed->lanes; lane != NULL; lane = lane->next) {
        if (strcmp(lane->queue, queue->name) == 0) {
            tfos__feed_leave_lane(node, lane);
        }
    }
    say_terminate(node, queue->name);
}

static void hear_child(tfos__node *node, const tfos__packet *packet)
{
    tfos__node_feed *feed = node->feed;
    if (packet->kind == TFOS__PACKET_DONE) {
        forget_lane(node, packet->id.number);
        return;
    }
    tfos__feed_queue *queue = tfos__feed_queue_of(feed, packet->queue);
    if (queue == NULL) {
        tfos__node_kill(node, TFOS__CAUSE_STOP, "no memory for a queue of the feed");
    } else if (packet->kind == TFOS__PACKET_TERMINATE) {
        leave_queue(node, queue);
    } else if (packet->kind == TFOS__PACKET_QUEUE) {
        open_queue(node, queue);
    }
}

static void close_child(tfos__node_feed *feed)
{
    if (feed->child >= 0) {
        uv_poll_stop(&feed->child_poll);
        uv_close((uv_handle_t *)&feed->child_poll, NULL);
        close(feed->child);
        feed->child = -1;
    }
    while (feed->pending != NULL) {
        tfos__feed_pending *first = feed->pending;
        feed->pending = first->next;
        free_pending(first);
    }
    feed->pending_end = &feed->pending;
    feed->pending_count = 0;
}

static void on_child(uv_poll_t *poll, int code, int events)
{
    tfos__node *node = poll->data;
    tfos__node_feed *feed = node->feed;
    tfos__packet packet;
    int fds[TFOS__PACKET_FDS_MOST];
    if (code != 0) {
        close_child(feed);
        tfos__node_feed_end(node);
        return;
    }
    if ((events & UV_WRITABLE) != 0) {
        flush_pending(feed);
    }
    tfos_status status = TFOS_END;
    while (feed->child >= 0 && (status = tfos__packet_receive(feed->child, &packet, fds, NULL)) == TFOS_OK) {
        hear_child(node, &packet);
        tfos__packet_close_fds(fds);
    }
    if (feed->child >= 0 && status != TFOS_END) {
        close_child(feed);
        tfos__node_feed_end(node); /* the program has closed it, or is gone, which the keeper tells */
    }
}

int tfos__node_feed_child(tfos__node *node, tfos_error *error)
{
    tfos__node_feed *feed = node->feed;
    int pair[2];
    const int bells[] = {tfos__bell_fd(feed->bell), tfos__bell_fd(feed->far_bell)};
    tfos__packet packet;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return -1;
    }
    if (uv_poll_init(&node->loop, &feed->child_poll, pair[0]) != 0) {
        close(pair[0]);
        close(pair[1]);
        errno = ENOMEM;
        return -1;
    }
    feed->child = pair[0];
    tfos__packet_init(&packet, TFOS__PACKET_BELL);
    if (tfos__packet_send(feed->child, &packet, bells, 2, error) != TFOS_OK) {
        close_child(feed);
        close(pair[1]);
        errno = ENOMEM;
        return -1;
    }
    flush_pending(feed); /* what was said before there was a child */
    return pair[1];
}

void tfos__node_feed_end(tfos__node *node)
{
    tfos__node_feed *feed = node->feed;
    if (feed == NULL || feed->child_ended) {
        return;
    }
    feed->child_ended = true;
    for (tfos__feed_lane *lane = feed->lanes; lane != NULL; lane = lane->next) {
        tfos__feed_close_lane(lane);
    }
    tfos__feed_serve_waiting(feed); /* they are refused */
}

/* ---- the coordinator ---- */

void tfos__node_feed_register(const tfos__node *node, tfos__message *message)
{
    if (node->feed != NULL) {
        tfos__message_put_string(message, TFOS__FIELD_FEED_NAME, node->feed->name);
        tfos__message_put_string(message, TFOS__FIELD_MACHINE, node->feed->machine);
        tfos__message_put_number(message, TFOS__FIELD_FEED_PORT, node->feed->far_port);
    }
}

void tfos__node_feed_count(const tfos__node *node, tfos__message *message)
{
    const tfos__node_feed *feed = node->feed;
    if (feed == NULL) {
        return;
    }
    uint64_t fed = feed->fed_rows;
    uint64_t consumed = feed->consumed_rows;
    uint64_t skipped = fed - consumed; /* of lanes that are gone */
    for (const tfos__feed_lane *lane = feed->lanes; lane != NULL; lane = lane->next) {
        tfos__lane_counts counts;
        tfos__lane_count(lane->lane, &counts);
        fed += counts.fed_rows;
        consumed += counts.consumed_rows;
        skipped += counts.given_up ? counts.fed_rows - counts.consumed_rows : 0;
    }
    tfos__message_put_number(message, TFOS__FIELD_FED, fed);
    tfos__message_put_number(message, TFOS__FIELD_CONSUMED, consumed);
    tfos__message_put_number(message, TFOS__FIELD_SKIPPED, skipped);
}

void tfos__node_feed_beat(tfos__node *node, tfos__message *message)
{
    tfos__node_feed *feed = node->feed;
    if (feed == NULL) {
        return;
    }
    tfos__feed_accept_again(feed);
    tfos__node_feed_count(node, message);
    tfos__message_put_number(message, TFOS__FIELD_LANE_MEMORY, (uint64_t)feed->memory_used);
    tfos__message_put_number(message, TFOS__FIELD_HUNGRY, tfos__bell_hungry(feed->bell) != 0 ? 1 : 0);
    tfos__message_put_string(message, TFOS__FIELD_QUEUES, feed->queue_text);
    for (size_t i = 0; i < feed->queue_count; i++) {
        if (feed->queues[i].terminated) {
            say_terminate(node, feed->queues[i].name);
        }
    }
}

static void say_fenced(tfos__node *node, const tfos__feed_record *record)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FENCED);
    tfos__attempt_put(&record->attempt, &message);
    tfos__message_put_number(&message, TFOS__FIELD_FED_BEFORE, record->end_row);
    tfos__node_send(node, &message);
}

/* Nobody will be here to answer a fence. */
void tfos__node_feed_say_all(tfos__node *node)
{
    tfos__node_feed *feed = node->feed;
    if (feed == NULL) {
        return;
    }
    tfos__node_feed_end(node);
    for (tfos__feed_lane *lane = feed->lanes; lane != NULL; lane = lane->next) {
        tfos__feed_seal(node, lane);
        /* Rows of a program that was killed were not dropped: the cluster has failed, and they are fed again. */
        if (node->outcome == TFOS__OUTCOME_FINISHED) {
            tfos__feed_settle(node, lane);
        }
    }
    for (size_t i = 0; i < feed->record_count; i++) {
        if (feed->records[i].end_row > 0) {
            say_fenced(node, &feed->records[i]);
        }
    }
}

/* No lane of the attempt takes another row, and none is opened. */
static void fence(tfos__node *node, const tfos__message *message)
{
    tfos__node_feed *feed = node->feed;
    tfos__attempt attempt = tfos__attempt_of(message);
    tfos_error error;
    tfos__feed_record *record = tfos__feed_record_of(feed, &attempt, &error);
    if (record == NULL) {
        tfos__node_kill(node, TFOS__CAUSE_STOP, "cannot fence a task: %s", error.message);
        return;
    }
    for (tfos__feed_lane *lane = feed->lanes; lane != NULL; lane = lane->next) {
        if (tfos__attempt_equal(&tfos__lane_id_of(lane->lane)->attempt, &attempt)) {
            tfos__feed_seal(node, lane);
            tfos__bell_ring(lane->bell);
        }
    }
    tfos__bell_ring(feed->bell);
    record->fenced = true;
    say_fenced(node, record);
    tfos__feed_serve_waiting(feed); /* a sealed lane may need less memory */
}

static void pass_on(tfos__node *node, const tfos__packet *packet, const int *fds, size_t count)
{
    tfos_error error;
    if (tfos__feed_tell_child(node->feed, packet, fds, count, &error) != TFOS_OK) {
        tfos__node_note(node, "the program is not told about its feed: %s", error.message);
    }
}

/* The coordinator says how many marks a queue has had in all, so that one that was missed, or is said again, does no
 * harm. */
static void pass_marks(tfos__node *node, const tfos__message *message)
{
    tfos__packet packet;
    uint64_t marks = tfos__message_number(message, TFOS__FIELD_MARKS);
    tfos__packet_init(&packet, TFOS__PACKET_MARK);
    tfos__message_copy(message, TFOS__FIELD_QUEUE, packet.queue, sizeof packet.queue);
    tfos__feed_queue *queue = tfos__feed_queue_of(node->feed, packet.queue);
    for (; queue != NULL && queue->marks < marks; queue->marks++) {
        pass_on(node, &packet, NULL, 0);
    }
}

/* A program has ended a queue for all. */
static void pass_queue_end(tfos__node *node, const tfos__message *message)
{
    tfos__packet packet;
    tfos__packet_init(&packet, TFOS__PACKET_END);
    packet.flags = TFOS__PACKET_DROP;
    tfos__message_copy(message, TFOS__FIELD_QUEUE, packet.queue, sizeof packet.queue);
    tfos__feed_queue *queue = tfos__feed_queue_of(node->feed, packet.queue);
    if (queue != NULL) {
        queue->terminated = false;
    }
    pass_on(node, &packet, NULL, 0);
}

static void pass_end(tfos__node *node)
{
    tfos__packet packet;
    tfos__packet_init(&packet, TFOS__PACKET_END);
    pass_on(node, &packet, NULL, 0);
}

static tfos_status make_schema(const tfos__message *message, tfos__buffer *entry, int *out, tfos_error *error)
{
    tfos_schema *schema;
    tfos__text text = tfos__message_text(message, TFOS__FIELD_SCHEMA);
    TFOS_TRY(tfos_schema_from_json(text.at, text.count, &schema, error));
    tfos_status status = tfos__entry_append_schema(schema, entry, error);
    tfos_schema_free(schema);
    TFOS_TRY(status);
    int fd = memfd_create("tfos-schema", MFD_CLOEXEC);
    if (fd < 0 || write(fd, entry->data, entry->size) != (ssize_t)entry->size) {
        int number = errno;
        if (fd >= 0) {
            close(fd);
        }
        return tfos__fail_errno(error, number, "cannot pass a schema on");
    }
    *out = fd;
    return TFOS_OK;
}

static void pass_schema(tfos__node *node, const tfos__message *message)
{
    tfos__packet packet;
    tfos__buffer entry = {0};
    tfos_error error;
    int fd = -1;
    tfos__packet_init(&packet, TFOS__PACKET_SCHEMA);
    tfos__message_copy(message, TFOS__FIELD_QUEUE, packet.queue, sizeof packet.queue);
    if (make_schema(message, &entry, &fd, &error) == TFOS_OK) {
        pass_on(node, &packet, &fd, 1);
        close(fd);
    } else {
        tfos__node_note(node, "the schema of a feed is not understood: %s", error.message);
    }
    tfos__buffer_reset(&entry);
}

static void begin_epoch(tfos__node *node, const tfos__message *message)
{
    tfos_error error;
    if (tfos__feed_begin_epoch(node->feed, tfos__message_number(message, TFOS__FIELD_FEED),
                               tfos__message_number(message, TFOS__FIELD_EPOCH), &error) != TFOS_OK) {
        tfos__node_kill(node, TFOS__CAUSE_STOP, "cannot begin an epoch: %s", error.message);
    }
}

void tfos__node_feed_hear(tfos__node *node, const tfos__message *message)
{
    if (node->feed == NULL) {
        return;
    }
    switch (message->type) {
    case TFOS__MESSAGE_FENCE:
        fence(node, message);
        break;
    case TFOS__MESSAGE_MARK:
        pass_marks(node, message);
        break;
    case TFOS__MESSAGE_FEED_SCHEMA:
        pass_schema(node, message);
        break;
    case TFOS__MESSAGE_EPOCH:
        begin_epoch(node, message);
        break;
    case TFOS__MESSAGE_FEED_CLOSE:
        tfos__feed_forget(node->feed, tfos__message_number(message, TFOS__FIELD_FEED), UINT64_MAX);
        break;
    case TFOS__MESSAGE_END_OF_FEED:
        pass_end(node);
        break;
    case TFOS__MESSAGE_QUEUE_END:
        pass_queue_end(node, message);
        break;
    default:
        break;
    }
}
