/* Producers on this machine: Spark tasks that come to the node's abstract Unix socket. Who has the token of the cluster
 * and is the same user is handed a lane when it asks; from then on it writes there by itself, and its socket only shows
 * that it lives. */
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"
#include "net/local.h"
#include "node/feed.h"

typedef struct near_producer {
    tfos__feed_producer base;
    uv_poll_t poll;
    int socket;
    bool greeted;
} near_producer;

static near_producer *near_of(tfos__feed_producer *base)
{
    return (near_producer *)base; /* its first member */
}

static tfos_status tell(tfos__feed_producer *base, const tfos__packet *packet, const int *fds, size_t count,
                        tfos_error *error)
{
    tfos_status status = tfos__packet_send(near_of(base)->socket, packet, fds, count, error);
    if (base->bell != NULL) {
        tfos__bell_ring(base->bell); /* it waits for its bell, not for its socket */
    }
    return status == TFOS_END ? tfos__fail(error, TFOS_IO, "a task does not read its socket") : status;
}

static void on_closed(uv_handle_t *handle)
{
    near_producer *producer = handle->data;
    tfos__bell_free(producer->base.bell);
    free(producer);
}

static void leave(tfos__feed_producer *base)
{
    near_producer *producer = near_of(base);
    uv_poll_stop(&producer->poll);
    close(producer->socket);
    uv_close((uv_handle_t *)&producer->poll, on_closed);
}

static void greet(near_producer *producer, const tfos__packet *packet)
{
    const tfos__node_feed *feed = producer->base.node->feed;
    tfos__packet answer;
    int bell = tfos__bell_fd(feed->bell);
    if (packet->kind != TFOS__PACKET_HELLO || !tfos__secret_equal(packet->token, feed->token, sizeof feed->token)) {
        tfos__feed_refuse(&producer->base, 0, "it does not belong to this cluster");
        return;
    }
    producer->greeted = true;
    tfos__packet_init(&answer, TFOS__PACKET_BELL);
    if (tfos__packet_send(producer->socket, &answer, &bell, 1, NULL) != TFOS_OK) {
        tfos__feed_lose(&producer->base);
    }
}

static void hear(near_producer *producer, const tfos__packet *packet, int fds[TFOS__PACKET_FDS_MOST])
{
    tfos__feed_producer *base = &producer->base;
    tfos_error error;
    if (!producer->greeted) {
        greet(producer, packet);
        return;
    }
    if (packet->kind != TFOS__PACKET_OPEN || base->bell != NULL) {
        tfos__feed_refuse(base, 0, "it asked for something that a task does not ask for");
        return;
    }
    int bell = fds[0];
    fds[0] = -1;
    if (tfos__bell_adopt(bell, &base->bell, &error) != TFOS_OK) {
        tfos__feed_refuse(base, 0, error.message);
        return;
    }
    base->request = *packet;
    tfos__feed_serve(base);
}

static void on_packet(uv_poll_t *poll, int code, int events)
{
    near_producer *producer = poll->data;
    tfos__packet packet;
    int fds[TFOS__PACKET_FDS_MOST];
    (void)events;
    tfos_status status = code == 0 ? tfos__packet_receive(producer->socket, &packet, fds, NULL) : TFOS_IO;
    if (status == TFOS_OK) {
        hear(producer, &packet, fds);
        tfos__packet_close_fds(fds);
    } else if (status != TFOS_END) {
        tfos__node_feed *feed = producer->base.node->feed;
        tfos__feed_lose(&producer->base);
        tfos__feed_serve_waiting(feed); /* lanes that are sealed may need less memory */
    }
}

static void let_in(tfos__node *node, int socket)
{
    near_producer *producer = tfos__local_is_own(socket) ? calloc(1, sizeof *producer) : NULL;
    if (producer == NULL || uv_poll_init(&node->loop, &producer->poll, socket) != 0) {
        free(producer);
        close(socket);
        return;
    }
    producer->base.node = node;
    producer->base.tell = tell;
    producer->base.leave = leave;
    producer->socket = socket;
    producer->poll.data = producer;
    if (tfos__feed_enlist(&producer->base)) {
        uv_poll_start(&producer->poll, UV_READABLE, on_packet);
    } else {
        leave(&producer->base);
    }
}

static void on_connection(uv_poll_t *poll, int code, int events)
{
    tfos__node *node = poll->data;
    (void)code;
    (void)events;
    int socket = tfos__feed_accept(poll, node->feed->near_socket);
    if (socket >= 0) {
        let_in(node, socket);
    }
}

void tfos__feed_open_near(tfos__node_feed *feed)
{
    uv_poll_start(&feed->near_poll, UV_READABLE, on_connection);
}

tfos_status tfos__feed_listen_near(tfos__node *node, tfos_error *error)
{
    tfos__node_feed *feed = node->feed;
    TFOS_TRY(tfos__local_listen("feed", feed->name, &feed->near_socket, error));
    int code = uv_poll_init(&node->loop, &feed->near_poll, feed->near_socket);
    if (code != 0) {
        return tfos__fail_errno(error, -code, "cannot wait for Spark tasks");
    }
    feed->near_poll.data = node;
    tfos__feed_open_near(feed);
    return TFOS_OK;
}
