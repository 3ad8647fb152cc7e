/* Blocking sockets around the TLS machine of base/tls.h, or around nothing. Sockets are non-blocking underneath and
 * waited for by poll, in slices, so that a thread of Spark's that is to end does not sit in a system call. Whoever
 * waits until it can send also takes in what comes: two ends that have much to say would otherwise wait for each other.
 */
#include "net/dial.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "net/frame.h"
#include "net/machine.h"

enum { SLICE_MS = 100, RECEIVE_BYTES = 65536, SEND_MS = 60000 };

struct tfos__dial {
    int socket;
    tfos__patience patience;
    tfos__tls_context *context; /* NULL: it is somebody else's */
    tfos__tls *tls;
    tfos__buffer out;   /* encrypted, to be sent */
    size_t out_sent;    /* bytes of it that are */
    tfos__buffer plain; /* received */
    size_t plain_used;  /* bytes of it that were pulled, or belong to the message handed out last */
    bool ended;         /* the peer has said good-bye */
    char peer[300];
};

static int64_t deadline_after(int64_t timeout_ms)
{
    return timeout_ms < 0 ? INT64_MAX : tfos__clock_ms() + timeout_ms;
}

/* Waits until the socket can be read or written. END when the time is over. */
static tfos_status wait_for(tfos__dial *dial, short events, int64_t deadline, tfos_error *error)
{
    for (;;) {
        int64_t left = deadline == INT64_MAX ? SLICE_MS : deadline - tfos__clock_ms();
        struct pollfd wait = {.fd = dial->socket, .events = events};
        int ready = poll(&wait, 1, (int)tfos__max_i64(0, tfos__min_i64(left, SLICE_MS)));
        if (ready > 0) {
            return TFOS_OK;
        }
        if (ready < 0 && errno != EINTR) {
            return tfos__fail_errno(error, errno, "cannot wait for %s", dial->peer);
        }
        if (dial->patience.interrupted != NULL && dial->patience.interrupted(dial->patience.context)) {
            return tfos__fail(error, TFOS_CANCELLED, "interrupted while waiting for %s", dial->peer);
        }
        if (tfos__clock_ms() >= deadline) {
            return TFOS_END;
        }
    }
}

/* ---- bytes ---- */

/* Receives what the network has, and answers nothing. END: it has nothing. */
static tfos_status receive_some(tfos__dial *dial, tfos_error *error)
{
    uint8_t bytes[RECEIVE_BYTES];
    ssize_t got = recv(dial->socket, bytes, sizeof bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return TFOS_END;
    }
    if (got < 0) {
        return tfos__fail_errno(error, errno, "the connection to %s is lost", dial->peer);
    }
    if (got == 0) {
        return tfos__fail(error, TFOS_IO, "%s has closed the connection", dial->peer);
    }
    tfos_status status = dial->tls != NULL ? tfos__tls_receive(dial->tls, bytes, (size_t)got, &dial->plain, error)
                                           : tfos__buffer_append(&dial->plain, bytes, (size_t)got, error);
    if (status == TFOS_END) {
        dial->ended = true;
        status = TFOS_OK;
    }
    return status;
}

/* Plain bytes become bytes for the network, … */
static tfos_status enqueue(tfos__dial *dial, const void *bytes, size_t count, tfos_error *error)
{
    return dial->tls != NULL ? tfos__tls_send(dial->tls, bytes, count, error)
                             : tfos__buffer_append(&dial->out, bytes, count, error);
}

/* … and those that TLS has made are added to them. */
static tfos_status collect(tfos__dial *dial, tfos_error *error)
{
    return dial->tls != NULL ? tfos__tls_take(dial->tls, &dial->out, error) : TFOS_OK;
}

/* Waits until something can be sent, and receives what comes before that. */
static tfos_status wait_to_send(tfos__dial *dial, int64_t deadline, tfos_error *error)
{
    tfos_status status = wait_for(dial, POLLIN | POLLOUT, deadline, error);
    if (status == TFOS_END) {
        return tfos__fail(error, TFOS_IO, "%s did not read for %d s", dial->peer, SEND_MS / 1000);
    }
    TFOS_TRY(status);
    status = receive_some(dial, error);
    if (status == TFOS_OK && dial->ended) {
        return tfos__fail(error, TFOS_IO, "%s has ended the connection", dial->peer);
    }
    return status == TFOS_OK || status == TFOS_END ? collect(dial, error) : status;
}

static tfos_status flush(tfos__dial *dial, int64_t patience_ms, tfos_error *error)
{
    int64_t deadline = deadline_after(patience_ms);
    TFOS_TRY(collect(dial, error));
    tfos_status status = TFOS_OK;
    while (status == TFOS_OK && dial->out_sent < dial->out.size) {
        ssize_t count =
            send(dial->socket, dial->out.data + dial->out_sent, dial->out.size - dial->out_sent, MSG_NOSIGNAL);
        if (count > 0) {
            dial->out_sent += (size_t)count;
            deadline = deadline_after(patience_ms);
        } else if (count < 0 && errno == EAGAIN) {
            status = wait_to_send(dial, deadline, error);
            if (status == TFOS_OK && tfos__clock_ms() > deadline) {
                status = tfos__fail(error, TFOS_IO, "%s talks, and does not read", dial->peer);
            }
        } else if (count < 0 && errno != EINTR) {
            status = tfos__fail_errno(error, errno, "cannot send to %s", dial->peer);
        }
    }
    dial->out.size = dial->out_sent = 0;
    return status;
}

/* Takes in what the network has. END: it has nothing. */
static tfos_status take_in(tfos__dial *dial, tfos_error *error)
{
    tfos_status status = receive_some(dial, error);
    if (status == TFOS_END) {
        return TFOS_END;
    }
    /* An alert, or our part of the handshake. */
    tfos_status sent = flush(dial, SEND_MS, status == TFOS_OK ? error : NULL);
    return status != TFOS_OK ? status : sent;
}

/* ---- connecting ---- */

void tfos__socket_keep_alive(int socket)
{
    enum { IDLE_S = 20, BETWEEN_S = 10, PROBES = 4, GONE_MS = 60000 };
    const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, BETWEEN_S},
        {IPPROTO_TCP, TCP_KEEPCNT, PROBES},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, GONE_MS}, /* while something is under way, no probes are sent */
        {IPPROTO_TCP, TCP_NODELAY, 1},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        setsockopt(socket, options[i].level, options[i].name, &options[i].value, sizeof options[i].value);
    }
}

void tfos__socket_give_time(int socket, int64_t ms)
{
    unsigned value = (unsigned)tfos__max_i64(1, tfos__min_i64(ms, INT_MAX));
    setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, sizeof value);
}

static tfos_status connect_one(tfos__dial *dial, const struct addrinfo *address, int64_t deadline, tfos_error *error)
{
    int code = 0;
    socklen_t bytes = sizeof code;
    dial->socket = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (dial->socket < 0) {
        return tfos__fail_errno(error, errno, "cannot make a socket");
    }
    tfos__socket_keep_alive(dial->socket);
    if (connect(dial->socket, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) {
        return tfos__fail_errno(error, errno, "cannot connect to %s", dial->peer);
    }
    tfos_status status = wait_for(dial, POLLOUT, deadline, error);
    if (status == TFOS_END) {
        return tfos__fail(error, TFOS_IO, "%s does not answer; is the port open between these hosts?", dial->peer);
    }
    TFOS_TRY(status);
    getsockopt(dial->socket, SOL_SOCKET, SO_ERROR, &code, &bytes);
    return code == 0 ? TFOS_OK : tfos__fail_errno(error, code, "cannot connect to %s", dial->peer);
}

static tfos_status connect_any(tfos__dial *dial, const char *host, uint16_t port, int64_t deadline, tfos_error *error)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char service[8];
    char name[TFOS__HOST_BYTES];
    snprintf(service, sizeof service, "%u", port);
    tfos__host_bare(host, name);
    int code = getaddrinfo(name, service, &hints, &found);
    if (code != 0) {
        return tfos__fail(error, TFOS_NOT_FOUND, "cannot find the address of %s: %s", dial->peer, gai_strerror(code));
    }
    tfos_status status = TFOS_OK;
    int64_t left = 0;
    for (const struct addrinfo *each = found; each != NULL; each = each->ai_next) {
        left++;
    }
    for (const struct addrinfo *each = found; each != NULL; each = each->ai_next, left--) {
        /* An address that is not answered at must leave some time for the others. */
        int64_t now = tfos__clock_ms();
        int64_t until = deadline == INT64_MAX ? deadline : now + (deadline - now) / left;
        status = connect_one(dial, each, until, error);
        if (status == TFOS_OK || status == TFOS_CANCELLED) {
            break;
        }
        if (dial->socket >= 0) {
            close(dial->socket);
            dial->socket = -1;
        }
    }
    freeaddrinfo(found);
    return status;
}

static tfos_status shake_hands(tfos__dial *dial, int64_t deadline, tfos_error *error)
{
    TFOS_TRY(flush(dial, SEND_MS, error));
    while (!tfos__tls_is_ready(dial->tls)) {
        tfos_status status = wait_for(dial, POLLIN, deadline, error);
        if (status == TFOS_END) {
            return tfos__fail(error, TFOS_IO, "%s did not finish the handshake in time", dial->peer);
        }
        TFOS_TRY(status);
        status = take_in(dial, error);
        if (status != TFOS_END) {
            TFOS_TRY(status);
        }
    }
    return flush(dial, SEND_MS, error);
}

tfos_status tfos__dial_open(const char *host, uint16_t port, const uint8_t key[TFOS__KEY_BYTES], const char *purpose,
                            int64_t timeout_ms, const tfos__patience *patience, tfos__dial **out, tfos_error *error)
{
    tfos__dial *dial = calloc(1, sizeof *dial);
    int64_t deadline = deadline_after(timeout_ms);
    if (dial == NULL) {
        return tfos__fail_memory(error, sizeof *dial);
    }
    dial->socket = -1;
    dial->patience = patience != NULL ? *patience : (tfos__patience){0};
    snprintf(dial->peer, sizeof dial->peer, "%.255s:%u", host, port);
    tfos_status status = tfos__tls_context_new(TFOS__TLS_CLIENT, key, purpose, &dial->context, error);
    status = status == TFOS_OK ? tfos__tls_new(dial->context, &dial->tls, error) : status;
    status = status == TFOS_OK ? connect_any(dial, host, port, deadline, error) : status;
    status = status == TFOS_OK ? shake_hands(dial, deadline, error) : status;
    if (status != TFOS_OK) {
        tfos__dial_close(dial);
        return status;
    }
    *out = dial;
    return TFOS_OK;
}

tfos_status tfos__dial_adopt(int socket, tfos__tls *tls, tfos__buffer *plain, const char *peer,
                             const tfos__patience *patience, tfos__dial **out, tfos_error *error)
{
    tfos__dial *dial = calloc(1, sizeof *dial);
    if (dial == NULL) {
        close(socket);
        tfos__tls_free(tls);
        if (plain != NULL) {
            tfos__buffer_reset(plain);
        }
        return tfos__fail_memory(error, sizeof *dial);
    }
    dial->socket = socket;
    dial->patience = patience != NULL ? *patience : (tfos__patience){0};
    dial->tls = tls;
    if (plain != NULL) {
        dial->plain = *plain;
        *plain = (tfos__buffer){0};
    }
    snprintf(dial->peer, sizeof dial->peer, "%s", peer);
    *out = dial;
    return TFOS_OK;
}

void tfos__dial_close(tfos__dial *dial)
{
    if (dial == NULL) {
        return;
    }
    if (dial->socket >= 0) {
        if (dial->tls != NULL && tfos__tls_is_ready(dial->tls) && !dial->ended) {
            tfos__tls_close(dial->tls);
            dial->patience = (tfos__patience){0}; /* whoever gave it may be gone */
            (void)flush(dial, 0, NULL);           /* nobody waits for a peer that does not read */
        }
        close(dial->socket);
    }
    tfos__tls_free(dial->tls);
    tfos__tls_context_free(dial->context);
    tfos__buffer_reset(&dial->out);
    tfos__buffer_reset(&dial->plain);
    free(dial);
}

int tfos__dial_socket(const tfos__dial *dial)
{
    return dial->socket;
}

/* ---- bytes without waiting ---- */

enum { PUSH_BYTES = 1 << 18 }; /* that are encrypted and not yet sent */

/* Sends as much as the network takes now. */
static tfos_status send_some(tfos__dial *dial, tfos_error *error)
{
    TFOS_TRY(collect(dial, error));
    while (dial->out_sent < dial->out.size) {
        ssize_t count =
            send(dial->socket, dial->out.data + dial->out_sent, dial->out.size - dial->out_sent, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0 && errno == EAGAIN) {
            break;
        }
        if (count < 0) {
            return tfos__fail_errno(error, errno, "cannot send to %s", dial->peer);
        }
        dial->out_sent += (size_t)count;
    }
    /* What is left is moved only when as much was sent: each byte about once. */
    if (dial->out_sent >= dial->out.size - dial->out_sent) {
        tfos__buffer_shift(&dial->out, dial->out_sent);
        dial->out_sent = 0;
    }
    return TFOS_OK;
}

size_t tfos__dial_room(const tfos__dial *dial)
{
    size_t waiting = dial->out.size - dial->out_sent;
    return waiting < PUSH_BYTES ? PUSH_BYTES - waiting : 0;
}

tfos_status tfos__dial_put(tfos__dial *dial, const void *bytes, size_t count, tfos_error *error)
{
    TFOS_TRY(enqueue(dial, bytes, count, error));
    return collect(dial, error);
}

tfos_status tfos__dial_push(tfos__dial *dial, const void *bytes, size_t count, size_t *taken, tfos_error *error)
{
    size_t room = tfos__dial_room(dial);
    size_t some = count < room ? count : room;
    if (some > 0) {
        TFOS_TRY(tfos__dial_put(dial, bytes, some, error));
    }
    *taken = some;
    return send_some(dial, error);
}

tfos_status tfos__dial_pull(tfos__dial *dial, void *into, size_t count, size_t *got, tfos_error *error)
{
    *got = 0;
    if (dial->plain.size == dial->plain_used && count > 0) {
        dial->plain.size = dial->plain_used = 0;
        tfos_status status = receive_some(dial, error);
        if (status == TFOS_END) {
            return TFOS_OK;
        }
        TFOS_TRY(status);
        /* An alert, or what the handshake owes. A peer that reads no more may have had a last word. */
        status = send_some(dial, error);
        TFOS_TRY(dial->plain.size > 0 ? TFOS_OK : status);
    }
    size_t have = dial->plain.size - dial->plain_used;
    size_t some = count < have ? count : have;
    if (some == 0 && count > 0 && dial->ended) {
        return tfos__fail(error, TFOS_IO, "%s has ended the connection", dial->peer);
    }
    if (some > 0) {
        memcpy(into, dial->plain.data + dial->plain_used, some);
        dial->plain_used += some;
    }
    *got = some;
    return TFOS_OK;
}

short tfos__dial_events(const tfos__dial *dial)
{
    return dial->out.size > dial->out_sent ? POLLIN | POLLOUT : POLLIN;
}

/* ---- messages ---- */

tfos_status tfos__dial_send(tfos__dial *dial, const tfos__message *message, tfos_error *error)
{
    tfos__buffer frame = {0};
    tfos_status status = tfos__frame_append(message, &frame, error);
    status = status == TFOS_OK ? enqueue(dial, frame.data, frame.size, error) : status;
    tfos__buffer_reset(&frame);
    return status == TFOS_OK ? flush(dial, SEND_MS, error) : status;
}

/* The message at the beginning of what has come. END: it is not whole yet. */
static tfos_status decode_first(tfos__dial *dial, tfos__message *out, tfos_error *error)
{
    tfos_status status =
        tfos__frame_take(dial->plain.data, dial->plain.size, TFOS__FRAME_BYTES, out, &dial->plain_used, error);
    if (status != TFOS_OK && status != TFOS_END) {
        tfos__error_prefix(error, "%s", dial->peer);
    }
    return status;
}

tfos_status tfos__dial_receive(tfos__dial *dial, int64_t timeout_ms, tfos__message *out, tfos_error *error)
{
    int64_t deadline = deadline_after(timeout_ms);
    tfos__buffer_shift(&dial->plain, dial->plain_used);
    dial->plain_used = 0;
    for (;;) {
        tfos_status status = decode_first(dial, out, error);
        if (status != TFOS_END) {
            return status;
        }
        if (dial->ended) {
            return tfos__fail(error, TFOS_IO, "%s has ended the connection", dial->peer);
        }
        status = take_in(dial, error);
        if (status == TFOS_END) {
            status = timeout_ms == 0 ? TFOS_END : wait_for(dial, POLLIN, deadline, error);
        }
        TFOS_TRY(status);
    }
}
