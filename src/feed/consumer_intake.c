/* The intake: the socket between a program and its node, through which lanes and marks come.
 *
 * There is no thread of ours in the program's process: whoever waits for rows reads the socket. Between two calls
 * nothing happens here, and lanes fill up until their producers wait. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "feed/consumer.h"

enum {
    WAIT_MS = 100,   /* between two looks at what nobody rings a bell for */
    SEND_MS = 10000, /* for the node to read a packet */
};

tfos_status tfos__intake_check_owner(const tfos__intake *intake, tfos_error *error)
{
    if (intake->owner == getpid()) {
        return TFOS_OK;
    }
    return tfos__fail(error, TFOS_UNSUPPORTED,
                      "the feed belongs to the process %d, which the node started, and not to its child %d; read the "
                      "rows there",
                      (int)intake->owner, (int)getpid());
}

/* ---- lanes ---- */

static void free_lane(tfos__taken_lane *lane)
{
    if (lane != NULL) {
        tfos__lane_free(lane->lane);
        tfos__lane_free(lane->results);
        tfos__bell_free(lane->producer);
        tfos_schema_free(lane->schema);
        tfos__lane_writer_reset(&lane->writer);
        tfos__entry_views_reset(&lane->views);
        free(lane);
    }
}

tfos_status tfos__intake_tell(tfos__intake *intake, const tfos__packet *packet, tfos_error *error)
{
    tfos_status status = tfos__packet_send_within(intake->socket, SEND_MS, packet, NULL, 0, error);
    if (status == TFOS_END) {
        return tfos__fail(error, TFOS_IO, "the node did not read from its program for %d s", SEND_MS / 1000);
    }
    return status;
}

bool tfos__intake_is_unwanted(const tfos__taken_lane *lane)
{
    tfos__lane_counts counts;
    tfos__lane_count(lane->results, &counts);
    return counts.given_up;
}

/* Tells the node which lanes were left, as far as it takes that now; the rest at the next pump. A failure means that
 * the node is gone, which whoever waits for rows notices. */
static void say_done(tfos__intake *intake)
{
    size_t said = 0;
    while (said < intake->done_count) {
        tfos__packet packet;
        tfos__packet_init(&packet, TFOS__PACKET_DONE);
        packet.id = intake->done[said];
        if (tfos__packet_send(intake->socket, &packet, NULL, 0, NULL) == TFOS_END) {
            break;
        }
        said++;
    }
    if (said > 0) {
        intake->done_count -= said;
        memmove(intake->done, intake->done + said, intake->done_count * sizeof *intake->done);
    }
}

void tfos__intake_leave(tfos__intake *intake, tfos__queue *queue, tfos__taken_lane *lane)
{
    tfos__taken_lane **at = &queue->lanes;
    while (*at != lane) {
        at = &(*at)->next;
    }
    *at = lane->next;
    queue->lane_count--;
    intake->lanes--;
    if (queue->current == lane) {
        queue->current = lane->next;
    }
    for (size_t i = queue->answer_first; i < queue->answer_count; i++) {
        if (queue->answers[i].lane == lane) {
            queue->answers[i].lane = NULL;
        }
    }
    tfos__lane_close_tail(lane->lane);
    tfos__lane_counts counts;
    tfos__lane_count(lane->lane, &counts);
    tfos__bell_take(intake->bell, counts.fed_rows - counts.consumed_rows); /* if any are left, they are not wanted */
    if (lane->results != NULL) {
        tfos__lane_close_head(lane->results);
    }
    tfos__bell_ring(lane->producer);
    intake->done[intake->done_count++] = *tfos__lane_id_of(lane->lane); /* room was made when it was taken */
    say_done(intake);
    free_lane(lane);
}

void tfos__intake_end(tfos__intake *intake, tfos__queue *queue, bool drop)
{
    queue->ended = true;
    if (drop) {
        queue->dropped = true;
        while (queue->lanes != NULL) {
            tfos__intake_leave(intake, queue, queue->lanes);
        }
    }
}

/* ---- what the node says ---- */

/* Descriptors that were adopted, whatever the result, are no longer the packet's. */
static tfos_status adopt_lane(int *fd, tfos__lane **out, tfos_error *error)
{
    int mine = *fd;
    *fd = -1;
    return tfos__lane_adopt(mine, out, error);
}

static tfos_status adopt_bell(int *fd, tfos__bell **out, tfos_error *error)
{
    int mine = *fd;
    *fd = -1;
    return tfos__bell_adopt(mine, out, error);
}

static tfos_status take_lane(tfos__intake *intake, tfos__queue *queue, const tfos__packet *packet,
                             int fds[TFOS__PACKET_FDS_MOST], tfos_error *error)
{
    /* Leaving a lane cannot fail. */
    TFOS_TRY(tfos__array_reserve(&intake->done, intake->done_count + intake->lanes, &intake->done_capacity,
                                 sizeof *intake->done, error));
    tfos__taken_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL) {
        return tfos__fail_memory(error, sizeof *lane);
    }
    tfos_status status = adopt_lane(&fds[0], &lane->lane, error);
    status = status == TFOS_OK ? adopt_bell(&fds[1], &lane->producer, error) : status;
    if (status == TFOS_OK && (packet->flags & TFOS__PACKET_INFERENCE) != 0) {
        status = adopt_lane(&fds[2], &lane->results, error);
    }
    if (status != TFOS_OK) {
        free_lane(lane);
        return status;
    }
    lane->writer = (tfos__lane_writer){.lane = lane->results, .reader = lane->producer};
    lane->marks = queue->marks_received;
    tfos__taken_lane **at = &queue->lanes;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = lane;
    queue->lane_count++;
    intake->lanes++;
    if (queue->dropped) {
        tfos__intake_leave(intake, queue, lane);
    }
    return TFOS_OK;
}

static tfos_status read_schema(int fd, tfos__buffer *bytes, tfos_schema **out, tfos_error *error)
{
    tfos__entry entry;
    off_t count = lseek(fd, 0, SEEK_END);
    if (count <= 0 || count > TFOS__LANE_MOST_BYTES) {
        return tfos__fail(error, TFOS_CORRUPT, "the node sent a schema of %lld bytes", (long long)count);
    }
    TFOS_TRY(tfos__buffer_reserve(bytes, (size_t)count, error));
    if (pread(fd, bytes->data, (size_t)count, 0) != count) {
        return tfos__fail_errno(error, errno, "cannot read the schema that the node sent");
    }
    TFOS_TRY(tfos__entry_read(bytes->data, (size_t)count, &entry, error));
    return tfos__entry_read_schema(bytes->data, &entry, out, error);
}

static tfos_status take_schema(tfos__queue *queue, const int fds[TFOS__PACKET_FDS_MOST], tfos_error *error)
{
    tfos__buffer bytes = {0};
    tfos_schema *schema;
    tfos_status status = read_schema(fds[0], &bytes, &schema, error);
    tfos__buffer_reset(&bytes);
    if (status == TFOS_OK) {
        tfos_schema_free(queue->schema);
        queue->schema = schema;
    }
    return status;
}

tfos__queue *tfos__intake_queue(tfos__intake *intake, const char *name, tfos_error *error)
{
    for (tfos__queue *queue = intake->queues; queue != NULL; queue = queue->next) {
        if (strcmp(queue->name, name) == 0) {
            return queue;
        }
    }
    tfos__queue *queue = calloc(1, sizeof *queue);
    if (queue == NULL) {
        tfos__fail_memory(error, sizeof *queue);
        return NULL;
    }
    snprintf(queue->name, sizeof queue->name, "%s", name);
    queue->ended = intake->ended;
    queue->next = intake->queues;
    intake->queues = queue;
    return queue;
}

static void end_all(tfos__intake *intake, bool drop)
{
    intake->ended = true;
    for (tfos__queue *queue = intake->queues; queue != NULL; queue = queue->next) {
        tfos__intake_end(intake, queue, drop);
    }
}

static tfos_status hear_of_queue(tfos__intake *intake, const tfos__packet *packet, int fds[TFOS__PACKET_FDS_MOST],
                                 tfos_error *error)
{
    tfos__queue *queue = tfos__intake_queue(intake, packet->queue, error);
    if (queue == NULL) {
        return TFOS_NO_MEMORY;
    }
    switch (packet->kind) {
    case TFOS__PACKET_LANE:
        return take_lane(intake, queue, packet, fds, error);
    case TFOS__PACKET_SCHEMA:
        return take_schema(queue, fds, error);
    case TFOS__PACKET_MARK:
        queue->marks_received++;
        return TFOS_OK;
    case TFOS__PACKET_END:
        tfos__intake_end(intake, queue, (packet->flags & TFOS__PACKET_DROP) != 0);
        return TFOS_OK;
    default:
        return tfos__fail(error, TFOS_CORRUPT, "the node sent a packet of the unknown kind %u", packet->kind);
    }
}

static tfos_status hear(tfos__intake *intake, tfos_error *error)
{
    tfos__packet packet;
    int fds[TFOS__PACKET_FDS_MOST];
    tfos_status status = tfos__packet_receive(intake->socket, &packet, fds, error);
    if (status == TFOS_END) {
        return status;
    }
    if (status == TFOS_IO) {
        return tfos__fail(error, TFOS_IO, "the node of this program is gone, and with it the feed");
    }
    if (status == TFOS_OK && packet.kind == TFOS__PACKET_END && packet.queue[0] == '\0') {
        end_all(intake, (packet.flags & TFOS__PACKET_DROP) != 0);
    } else if (status == TFOS_OK) {
        status = hear_of_queue(intake, &packet, fds, error);
    }
    tfos__packet_close_fds(fds);
    return status;
}

tfos_status tfos__intake_pump(tfos__intake *intake, tfos_error *error)
{
    tfos_status status = intake->failure.status;
    say_done(intake);
    while (status == TFOS_OK) {
        status = hear(intake, &intake->failure);
    }
    if (status == TFOS_END) {
        return TFOS_OK;
    }
    intake->failure.status = status;
    if (error != NULL) {
        *error = intake->failure;
    }
    return status;
}

void tfos__intake_wait(tfos__intake *intake, uint32_t seen)
{
    tfos__bell *bell = intake->bell;
    pthread_mutex_unlock(&intake->lock);
    tfos__bell_wait(bell, seen, WAIT_MS);
    pthread_mutex_lock(&intake->lock);
}

tfos_status tfos__intake_look_at(tfos__intake *intake, const tfos_feed_want *want, int64_t deadline, tfos_error *error)
{
    bool interrupted = false;
    if (want->interrupted != NULL) {
        pthread_mutex_unlock(&intake->lock);
        interrupted = want->interrupted(want->interrupted_context);
        pthread_mutex_lock(&intake->lock);
    }
    if (interrupted) {
        return tfos__fail(error, TFOS_CANCELLED, "interrupted while waiting for rows");
    }
    if (tfos__clock_ms() >= deadline) {
        return tfos__fail(error, TFOS_CANCELLED, "no row came within %lld ms", (long long)want->timeout_ms);
    }
    return TFOS_OK;
}

tfos_status tfos__intake_enter(tfos__intake *intake, bool *busy, const tfos_feed_want *want, tfos_error *error)
{
    int64_t deadline =
        want == NULL || want->timeout_ms < 0 ? INT64_MAX : tfos__clock_ms() + tfos__max_i64(1, want->timeout_ms);
    while (*busy) {
        tfos__condition_wait(&intake->left, &intake->lock, WAIT_MS);
        if (*busy && want != NULL) {
            TFOS_TRY(tfos__intake_look_at(intake, want, deadline, error));
        }
    }
    *busy = true;
    return TFOS_OK;
}

void tfos__intake_exit(tfos__intake *intake, bool *busy)
{
    *busy = false;
    pthread_cond_broadcast(&intake->left);
}

/* ---- making one ---- */

/* The node's first packet has our bell, and its own. It was sent before this process was started. */
static tfos_status receive_bell(tfos__intake *intake, tfos_error *error)
{
    tfos__packet packet;
    int fds[TFOS__PACKET_FDS_MOST];
    struct pollfd wait = {.fd = intake->socket, .events = POLLIN};
    poll(&wait, 1, SEND_MS);
    tfos_status status = tfos__packet_receive(intake->socket, &packet, fds, error);
    if (status == TFOS_END || (status == TFOS_OK && packet.kind != TFOS__PACKET_BELL)) {
        status = tfos__fail(error, TFOS_CORRUPT, "the node did not send a bell to its program");
    } else if (status == TFOS_OK) {
        status = adopt_bell(&fds[0], &intake->bell, error);
        status = status == TFOS_OK && fds[1] >= 0 ? adopt_bell(&fds[1], &intake->node, error) : status;
    }
    tfos__packet_close_fds(fds);
    return status;
}

tfos_status tfos__intake_new(int socket, tfos__intake **out, tfos_error *error)
{
    tfos__intake *intake = calloc(1, sizeof *intake);
    if (intake == NULL) {
        close(socket);
        return tfos__fail_memory(error, sizeof *intake);
    }
    intake->socket = socket;
    intake->owner = getpid();
    pthread_mutex_init(&intake->lock, NULL);
    tfos__condition_init(&intake->left);
    tfos_status status = receive_bell(intake, error);
    if (status != TFOS_OK) {
        tfos__intake_free(intake);
        return status;
    }
    *out = intake;
    return TFOS_OK;
}

static void free_queue(tfos__queue *queue)
{
    while (queue->lanes != NULL) {
        tfos__taken_lane *lane = queue->lanes;
        queue->lanes = lane->next;
        free_lane(lane);
    }
    tfos_batch_free(queue->batch);
    tfos__batch_pool_free(queue->pool);
    tfos_schema_free(queue->pool_schema);
    tfos_schema_free(queue->schema);
    free(queue->answers);
    free(queue);
}

void tfos__intake_free(tfos__intake *intake)
{
    if (intake == NULL) {
        return;
    }
    while (intake->queues != NULL) {
        tfos__queue *queue = intake->queues;
        intake->queues = queue->next;
        free_queue(queue);
    }
    tfos__bell_free(intake->bell);
    tfos__bell_free(intake->node);
    free(intake->done);
    close(intake->socket);
    pthread_cond_destroy(&intake->left);
    pthread_mutex_destroy(&intake->lock);
    free(intake);
}

static pthread_mutex_t the_lock = PTHREAD_MUTEX_INITIALIZER;
static tfos__intake *the_intake; /* of this process, for as long as it lives */
static tfos_error the_failure;   /* of the only try to make it: the descriptor is closed, and its number another's */

static tfos_status find_intake(tfos_error *error)
{
    const char *text = getenv("TFOS_FEED_FD");
    char *end;
    if (the_failure.status != TFOS_OK) {
        return tfos__fail(error, the_failure.status, "%s", the_failure.message);
    }
    long fd = text != NULL ? strtol(text, &end, 10) : -1;
    if (text == NULL || end == text || *end != '\0' || fd < 0 || fd > INT32_MAX) {
        return tfos__fail(error, TFOS_NOT_FOUND,
                          "this process is not fed: TFOS_FEED_FD is not set. A feed is there in the program of a node "
                          "whose cluster was started with InputMode.SPARK");
    }
    /* Children of the program have no part in it. */
    if (fcntl((int)fd, F_SETFD, FD_CLOEXEC) != 0) {
        return tfos__fail_errno(error, errno, "TFOS_FEED_FD is %ld, which is no open file", fd);
    }
    tfos_status status = tfos__intake_new((int)fd, &the_intake, &the_failure);
    if (status != TFOS_OK && error != NULL) {
        *error = the_failure;
    }
    return status;
}

tfos_status tfos__intake_get(tfos__intake **out, tfos_error *error)
{
    pthread_mutex_lock(&the_lock);
    tfos_status status = the_intake == NULL ? find_intake(error) : TFOS_OK;
    status = status == TFOS_OK ? tfos__intake_check_owner(the_intake, error) : status;
    if (status == TFOS_OK) {
        *out = the_intake;
    }
    pthread_mutex_unlock(&the_lock);
    return status;
}
