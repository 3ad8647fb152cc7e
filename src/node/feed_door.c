/* The door for producers elsewhere. Whoever comes is a stranger until TLS has shown that it has the key; strangers are
 * dealt with by the loop alone, have no thread, and are bounded in number and in time. When there are too many, the
 * oldest makes room, of those whose first message was made with the key or of those whose was not, whichever are more:
 * a crowd that says nothing, or nonsense, cannot push out one that is half-way through its handshake. Only whoever has
 * the key becomes a visitor (feed_far.c). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/config.h"
#include "base/status.h"
#include "feed/feeder.h"
#include "net/dial.h"
#include "net/listen.h"
#include "net/machine.h"
#include "node/feed.h"

enum {
    STRANGERS_MOST = 256, /* at a time */
    RECEIVE_BYTES = 4096, /* at a time; a handshake has fewer */
};

typedef enum refusal { REFUSAL_KEY, REFUSAL_SLOW, REFUSAL_MANY } refusal;

struct tfos__feed_stranger {
    tfos__feed_stranger *next; /* came later */
    tfos__node *node;
    uv_poll_t poll;
    int socket;
    tfos__tls *tls; /* NULL: it has said nothing */
    tfos__buffer plain;
    uint64_t deadline_ms;
};

/* ---- leaving ---- */

static void on_closed(uv_handle_t *handle)
{
    tfos__feed_stranger *gone = handle->data;
    if (gone->socket >= 0) {
        close(gone->socket);
    }
    tfos__tls_free(gone->tls);
    tfos__buffer_reset(&gone->plain);
    free(gone);
}

/* What it holds goes with it, unless it was taken out before. */
static void take_out(tfos__feed_stranger *stranger)
{
    tfos__node_feed *feed = stranger->node->feed;
    tfos__feed_stranger **at = &feed->strangers;
    while (*at != stranger) {
        at = &(*at)->next;
    }
    *at = stranger->next;
    feed->stranger_count--;
    uv_close((uv_handle_t *)&stranger->poll, on_closed);
}

static const char *name_of(const tfos__feed_stranger *stranger, char out[TFOS__ADDRESS_BYTES])
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    if (getpeername(stranger->socket, (struct sockaddr *)&address, &bytes) != 0) {
        return "somebody";
    }
    tfos__address_name((const struct sockaddr *)&address, bytes, out);
    return out;
}

/* The first of its kind is noted: one that tries all day must not fill the log. */
static void refuse(tfos__feed_stranger *stranger, refusal why, const char *text)
{
    tfos__node_feed *feed = stranger->node->feed;
    char name[TFOS__ADDRESS_BYTES];
    feed->refused++;
    if ((feed->refusals_told & 1u << why) == 0) {
        feed->refusals_told |= 1u << why;
        tfos__node_note(stranger->node,
                        "refused a connection of %s to the port of the feed: %s (further ones of this kind are only "
                        "counted)",
                        name_of(stranger, name), text);
    }
    take_out(stranger);
}

/* ---- the time ---- */

static void on_time(uv_timer_t *timer);

/* Whoever came first has to be through first. */
static void watch_oldest(tfos__node_feed *feed)
{
    uint64_t now = uv_now(feed->door_timer.loop);
    if (feed->strangers == NULL) {
        uv_timer_stop(&feed->door_timer);
    } else {
        uint64_t due = feed->strangers->deadline_ms;
        uv_timer_start(&feed->door_timer, on_time, due > now ? due - now : 0, 0);
    }
}

static void on_time(uv_timer_t *timer)
{
    const tfos__node *node = timer->data;
    tfos__node_feed *feed = node->feed;
    while (feed->strangers != NULL && feed->strangers->deadline_ms <= uv_now(timer->loop)) {
        refuse(feed->strangers, REFUSAL_SLOW, "it did not show in time (cluster.handshake_ms) that it has the key");
    }
    watch_oldest(feed);
}

/* ---- the number ---- */

static bool has_greeted(const tfos__feed_stranger *stranger)
{
    return stranger->tls != NULL && tfos__tls_was_greeted(stranger->tls);
}

/* Of those who have greeted with the key and those who have not, the more numerous lose their oldest. False if nobody
 * is there. */
static bool make_room(tfos__node_feed *feed)
{
    tfos__feed_stranger *oldest[2] = {NULL, NULL};
    size_t count[2] = {0, 0};
    for (tfos__feed_stranger *each = feed->strangers; each != NULL; each = each->next) {
        size_t kind = has_greeted(each) ? 1 : 0;
        oldest[kind] = count[kind]++ == 0 ? each : oldest[kind];
    }
    tfos__feed_stranger *leaves = oldest[count[1] > count[0] ? 1 : 0];
    if (leaves != NULL) {
        refuse(leaves, REFUSAL_MANY, "there are too many that do not show that they have the key");
    }
    return leaves != NULL;
}

/* ---- the handshake ---- */

/* A handshake fits any socket: whoever lets its answer not go out does not mean to shake hands. */
static tfos_status answer(tfos__feed_stranger *stranger, tfos_error *error)
{
    tfos__buffer out = {0};
    tfos_status status = tfos__tls_take(stranger->tls, &out, error);
    if (status == TFOS_OK && out.size > 0 &&
        send(stranger->socket, out.data, out.size, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)out.size) {
        status = tfos__fail(error, TFOS_IO, "it does not read");
    }
    tfos__buffer_reset(&out);
    return status;
}

/* END: it has left. */
static tfos_status shake_hands(tfos__feed_stranger *stranger, tfos_error *error)
{
    uint8_t bytes[RECEIVE_BYTES];
    ssize_t got = recv(stranger->socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return TFOS_OK;
    }
    if (got <= 0) {
        return TFOS_END;
    }
    if (stranger->tls == NULL) {
        TFOS_TRY(tfos__tls_new(stranger->node->feed->tls, &stranger->tls, error));
    }
    tfos_status status = tfos__tls_receive(stranger->tls, bytes, (size_t)got, &stranger->plain, error);
    tfos_status sent = answer(stranger, status == TFOS_OK ? error : NULL); /* also an alert, if there is one */
    return status != TFOS_OK ? status : sent;
}

static void on_bytes(uv_poll_t *poll, int code, int events)
{
    tfos__feed_stranger *stranger = poll->data;
    tfos_error error;
    (void)events;
    tfos_status status = code == 0 ? shake_hands(stranger, &error) : TFOS_END;
    if (status == TFOS_END) {
        stranger->node->feed->refused++; /* came and went, as port scanners and health checks do */
        take_out(stranger);
    } else if (status != TFOS_OK) {
        refuse(stranger, REFUSAL_KEY, error.message);
    } else if (stranger->tls != NULL && tfos__tls_is_ready(stranger->tls)) {
        take_out(stranger);
        tfos__feed_receive_visitor(stranger->node, stranger->socket, stranger->tls, &stranger->plain);
        stranger->socket = -1;
        stranger->tls = NULL;
    }
}

/* ---- coming ---- */

static void let_in(tfos__node *node, int socket)
{
    tfos__node_feed *feed = node->feed;
    tfos__feed_stranger *stranger = calloc(1, sizeof *stranger);
    if (stranger == NULL || uv_poll_init(&node->loop, &stranger->poll, socket) != 0) {
        free(stranger);
        close(socket);
        return;
    }
    tfos__socket_keep_alive(socket);
    stranger->node = node;
    stranger->socket = socket;
    stranger->poll.data = stranger;
    stranger->deadline_ms = uv_now(&node->loop) + (uint64_t)feed->handshake_ms;
    tfos__feed_stranger **last = &feed->strangers;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = stranger;
    uv_poll_start(&stranger->poll, UV_READABLE, on_bytes);
    feed->stranger_count++;
    on_bytes(&stranger->poll, 0, UV_READABLE); /* it has most likely greeted, while it waited in line */
    if (feed->stranger_count > STRANGERS_MOST) {
        make_room(feed);
    }
    watch_oldest(feed);
}

static void on_knock(uv_poll_t *poll, int code, int events)
{
    tfos__node *node = poll->data;
    tfos__node_feed *feed = node->feed;
    (void)code;
    (void)events;
    int socket = tfos__feed_accept(poll, feed->far_socket);
    if (socket >= 0) {
        let_in(node, socket);
    } else if (!uv_is_active((uv_handle_t *)poll) && make_room(feed)) {
        tfos__feed_open_door(feed); /* it was for want of files, and strangers have some */
    }
}

void tfos__feed_open_door(tfos__node_feed *feed)
{
    uv_poll_start(&feed->far_poll, UV_READABLE, on_knock);
}

tfos_status tfos__feed_listen_far(tfos__node *node, const char *wanted, tfos_error *error)
{
    tfos__node_feed *feed = node->feed;
    tfos__ports ports = {.setting = "feed.port (TFOS_FEED_PORT)"};
    TFOS_TRY(tfos__tls_context_new(TFOS__TLS_SERVER, node->orders.key, TFOS__FEED_PLANE_PURPOSE, &feed->tls, error));
    TFOS_TRY(tfos__setting_choose(TFOS__SETTING_CLUSTER_HANDSHAKE_MS, -1, -1, &feed->handshake_ms, error));
    TFOS_TRY(tfos__ports_parse(wanted, &ports, error));
    TFOS_TRY(tfos__listen("", &ports, &feed->far_socket, &feed->far_port, error));
    uv_timer_init(&node->loop, &feed->door_timer);
    feed->door_timer.data = node;
    int code = uv_poll_init(&node->loop, &feed->far_poll, feed->far_socket);
    feed->far_poll.data = node;
    code = code == 0 ? uv_poll_start(&feed->far_poll, UV_READABLE, on_knock) : code;
    return code == 0 ? TFOS_OK : tfos__fail_errno(error, -code, "cannot wait for Spark tasks of other hosts");
}
