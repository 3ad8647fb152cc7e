/* Links. Bytes that arrive go through TLS into `plain`, from which whole frames are taken; messages that are sent are
 * framed, encrypted and handed to libuv in one buffer each. Closing is two steps: a link that is closing writes what it
 * has and then gives its handles back; a link that failed gives them back at once. */
#include "service/link.h"

#include <assert.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/config.h"
#include "base/status.h"
#include "net/dial.h"
#include "net/frame.h"
#include "net/machine.h"

enum { BYTES_KEPT = 4096 }; /* of memory for the network, in a link that has sent more */

struct tfos__link {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } socket;
    uv_timer_t timer; /* for the handshake and the first message */
    tfos__tls *tls;   /* NULL on a Unix socket */
    tfos__link_events events;
    void *context;
    tfos__buffer plain;
    size_t frame_bytes; /* most of a message */
    size_t backlog;
    size_t handles; /* that libuv still has */
    bool accepted;
    bool ready;
    bool heard; /* the first message has come */
    bool closing;
    bool lingers; /* see leave_when_sent */
    bool shut;    /* … it does */
    bool ended;   /* handles are being given back */
    uv_shutdown_t shutdown;
    tfos_error error;
    uv_connect_t connect;
    uv_getaddrinfo_t resolve;
    bool resolving;
    uint64_t handshake_ms;
    struct addrinfo *found; /* the addresses of the host's name … */
    struct addrinfo *next;  /* … and the one to try when this one does not answer */
    bool reopening;         /* the socket is being replaced, to try that one */
    int cause;              /* the errno of the failure, if it has one */
    char peer[TFOS__ADDRESS_BYTES];
};

/* Bytes are taken from here before anything else is read, so the links of a loop share it. */
static _Thread_local char incoming[65536];

/* What one write needs until libuv is done with it. */
typedef struct outgoing {
    uv_write_t request;
    tfos__link *link;
    tfos__buffer bytes;
} outgoing;

static void give_back(uv_handle_t *handle)
{
    tfos__link *link = handle->data;
    if (--link->handles == 0 && !link->resolving) {
        link->events.closed(link, &link->error, link->context);
        tfos__tls_free(link->tls);
        tfos__buffer_reset(&link->plain);
        uv_freeaddrinfo(link->found);
        free(link);
    }
}

static void end(tfos__link *link)
{
    if (!link->ended) {
        link->ended = true;
        link->closing = true;
        if (link->resolving) {
            uv_cancel((uv_req_t *)&link->resolve);
        }
        if (!link->reopening) {
            uv_close(&link->socket.handle, give_back);
        }
        uv_close((uv_handle_t *)&link->timer, give_back);
    }
}

static void fail(tfos__link *link, const tfos_error *error)
{
    if (!link->ended) {
        if (link->error.status == TFOS_OK && !link->closing) {
            link->error = *error;
        }
        end(link);
    }
}

static void fail_uv(tfos__link *link, int code, const char *what)
{
    tfos_error error;
    if (!link->ended && !link->closing) {
        link->cause = -code;
    }
    tfos__fail_errno(&error, -code, "%s %s", what, link->peer);
    fail(link, &error);
}

static void on_timeout(uv_timer_t *timer)
{
    tfos__link *link = timer->data;
    tfos_error error;
    if (link->closing) {
        end(link);
        return;
    }
    tfos__fail(&error, TFOS_LIMIT, "%s did not %s within %" PRIu64 " ms (cluster.handshake_ms)", link->peer,
               link->ready ? "say who it is" : "complete the handshake", link->handshake_ms);
    fail(link, &error);
}

static void on_shut(uv_shutdown_t *request, int code)
{
    tfos__link *link = request->handle->data;
    if (code != 0 && code != UV_ECANCELED) {
        end(link);
    }
}

/* A link that is closing has sent all. What the kernel has of it is lost if something comes from the peer behind our
 * close; so a link that lingers waits until the peer has closed, or for as long as the timer allows. */
static void leave_when_sent(tfos__link *link)
{
    if (link->backlog > 0 || link->ended || link->shut) {
        return;
    }
    link->shut = link->lingers && uv_shutdown(&link->shutdown, &link->socket.stream, on_shut) == 0;
    if (!link->shut) {
        end(link);
    }
}

static void on_written(uv_write_t *request, int code)
{
    outgoing *write = (outgoing *)request;
    tfos__link *link = write->link;
    link->backlog -= write->bytes.size;
    tfos__buffer_reset(&write->bytes);
    free(write);
    if (code != 0 && code != UV_ECANCELED) {
        fail_uv(link, code, "cannot send to");
    } else if (link->closing) {
        leave_when_sent(link);
    } else if (link->backlog == 0 && link->events.drained != NULL) {
        link->events.drained(link, link->context);
    }
}

/* Hands bytes to libuv, which owns them from now on. */
static void write_bytes(tfos__link *link, tfos__buffer *bytes)
{
    tfos_error error;
    if (bytes->size == 0 || link->ended) {
        tfos__buffer_reset(bytes);
        return;
    }
    outgoing *write = calloc(1, sizeof *write);
    if (write == NULL) {
        tfos__buffer_reset(bytes);
        tfos__fail_memory(&error, sizeof *write);
        fail(link, &error);
        return;
    }
    write->link = link;
    write->bytes = *bytes;
    *bytes = (tfos__buffer){0};
    link->backlog += write->bytes.size;
    uv_buf_t piece = uv_buf_init((char *)write->bytes.data, (unsigned)write->bytes.size);
    int code = uv_write(&write->request, &link->socket.stream, &piece, 1, on_written);
    if (code != 0) {
        link->backlog -= write->bytes.size;
        tfos__buffer_reset(&write->bytes);
        free(write);
        fail_uv(link, code, "cannot send to");
    }
}

/* Sends what TLS has for the network. */
static void flush_tls(tfos__link *link)
{
    tfos__buffer bytes = {0};
    tfos_error error;
    if (link->tls == NULL || (!link->ready && uv_is_writable(&link->socket.stream) == 0)) {
        return;
    }
    if (tfos__tls_take(link->tls, &bytes, &error) != TFOS_OK) {
        tfos__buffer_reset(&bytes);
        fail(link, &error);
        return;
    }
    if (bytes.size > BYTES_KEPT) {
        tfos__tls_shrink(link->tls); /* thousands of quiet links, here as well */
    }
    write_bytes(link, &bytes);
}

static void became_ready(tfos__link *link)
{
    link->ready = true;
    if (!link->accepted) {
        uv_timer_stop(&link->timer);
    }
    if (link->events.ready != NULL) {
        link->events.ready(link, link->context);
    }
}

static size_t frame_limit(const tfos__link *link)
{
    return link->accepted && !link->heard ? TFOS__LINK_FIRST_FRAME_BYTES : link->frame_bytes;
}

/* Takes one frame from the front of `plain` at `*offset`. False when there is no whole one, or after a failure. */
static bool take_frame(tfos__link *link, size_t *offset)
{
    tfos_error error;
    tfos__message message;
    size_t used;
    tfos_status status = tfos__frame_take(link->plain.data + *offset, link->plain.size - *offset, frame_limit(link),
                                          &message, &used, &error);
    *offset += used;
    if (status == TFOS_END) {
        return false;
    }
    if (status != TFOS_OK) {
        tfos__error_prefix(&error, "%s", link->peer);
        fail(link, &error);
        return false;
    }
    if (!link->heard) {
        link->heard = true;
        uv_timer_stop(&link->timer);
    }
    link->events.message(link, &message, link->context);
    return true;
}

static void take_frames(tfos__link *link)
{
    size_t offset = 0;
    while (!link->closing && take_frame(link, &offset)) {}
    if (link->tls == NULL) {
        tfos__secret_wipe(link->plain.data, offset); /* the driver's first message brings the key */
        tfos__secret_wipe(incoming, sizeof incoming);
    }
    tfos__buffer_shift(&link->plain, offset);
    if (link->plain.size == 0) {
        tfos__buffer_reset(&link->plain); /* a thousand quiet links must not hold a thousand buffers */
    }
}

static void received(tfos__link *link, const char *bytes, size_t count)
{
    tfos_error error;
    tfos_status status;
    if (link->tls == NULL) {
        status = tfos__buffer_append(&link->plain, bytes, count, &error);
    } else {
        status = tfos__tls_receive(link->tls, bytes, count, &link->plain, &error);
        if (!link->ready && tfos__tls_is_ready(link->tls)) {
            became_ready(link);
        }
        flush_tls(link);
    }
    if (status != TFOS_OK && status != TFOS_END) {
        if (error.status == TFOS_PERMISSION) {
            tfos__error_prefix(&error, "%s", link->peer);
        }
        fail(link, &error);
        return;
    }
    if (link->plain.size > 0) {
        take_frames(link);
    }
    if (status == TFOS_END) {
        end(link);
    }
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    (void)handle;
    (void)suggested;
    *buffer = uv_buf_init(incoming, sizeof incoming);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    tfos__link *link = stream->data;
    tfos_error error;
    if (link->ended) {
        return;
    }
    if (count > 0) {
        if (!link->closing) {
            received(link, buffer->base, (size_t)count);
        }
    } else if (count == UV_EOF) {
        if (link->tls != NULL) {
            tfos__fail(&error, TFOS_IO, "%s closed the connection without a word", link->peer);
            fail(link, &error);
        } else {
            end(link);
        }
    } else if (count < 0) {
        fail_uv(link, (int)count, "the connection broke with");
    }
}

static void note_peer(tfos__link *link)
{
    struct sockaddr_storage address;
    int bytes = sizeof address;
    if (uv_tcp_getpeername(&link->socket.tcp, (struct sockaddr *)&address, &bytes) == 0) {
        tfos__address_name((const struct sockaddr *)&address, (socklen_t)bytes, link->peer);
    }
}

/* Begins to receive on a connected socket. */
static int begin(tfos__link *link)
{
    int code = uv_read_start(&link->socket.stream, give_buffer, on_read);
    uv_os_fd_t socket;
    if (code == 0 && link->tls != NULL) {
        if (uv_fileno(&link->socket.handle, &socket) == 0) {
            tfos__socket_keep_alive(socket);
        }
        flush_tls(link);
    }
    return code;
}

static void try_next_address(tfos__link *link);

/* The socket of the address before is gone; a socket that failed to connect is of no further use. */
static void on_reopened(uv_handle_t *handle)
{
    tfos__link *link = handle->data;
    link->reopening = false;
    if (link->ended) {
        give_back(handle);
        return;
    }
    uv_tcp_init(link->timer.loop, &link->socket.tcp);
    link->socket.handle.data = link;
    try_next_address(link);
}

/* An address does not answer: the next one, if there is one. */
static void give_up_address(tfos__link *link, int code)
{
    if (link->next != NULL) {
        link->reopening = true;
        uv_close(&link->socket.handle, on_reopened);
    } else {
        fail_uv(link, code, "cannot connect to");
    }
}

static void on_connected(uv_connect_t *request, int code)
{
    tfos__link *link = request->handle->data;
    if (code == UV_ECANCELED || link->ended) {
        return;
    }
    if (code == 0) {
        code = begin(link);
    }
    if (code != 0) {
        give_up_address(link, code);
    }
}

static void try_next_address(tfos__link *link)
{
    const struct addrinfo *address = link->next;
    link->next = address->ai_next;
    int code = uv_tcp_connect(&link->connect, &link->socket.tcp, address->ai_addr, on_connected);
    if (code != 0) {
        give_up_address(link, code);
    }
}

static void on_resolved(uv_getaddrinfo_t *request, int code, struct addrinfo *found)
{
    tfos__link *link = request->data;
    link->resolving = false;
    link->found = found;
    link->next = found;
    if (link->ended) {
        if (link->handles == 0) {
            link->handles = 1; /* the handles were given back first: finish what they could not */
            give_back(&link->socket.handle);
        }
        return;
    }
    if (code == 0) {
        try_next_address(link);
    } else {
        tfos_error error;
        tfos__fail(&error, TFOS_IO, "cannot find the address of %s: %s", link->peer, uv_strerror(code));
        fail(link, &error);
    }
}

static tfos__link *make(uv_loop_t *loop, const tfos__link_events *events, void *context, tfos_error *error)
{
    int64_t handshake_ms;
    if (tfos__setting_choose(TFOS__SETTING_CLUSTER_HANDSHAKE_MS, -1, -1, &handshake_ms, error) != TFOS_OK) {
        return NULL;
    }
    tfos__link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        tfos__fail_memory(error, sizeof *link);
        return NULL;
    }
    link->handshake_ms = (uint64_t)handshake_ms;
    link->events = *events;
    link->context = context;
    uv_timer_init(loop, &link->timer);
    link->timer.data = link;
    link->handles = 2;
    link->frame_bytes = TFOS__FRAME_BYTES;
    return link;
}

static void free_unborn(uv_handle_t *handle)
{
    tfos__link *link = handle->data;
    if (--link->handles == 0) {
        tfos__tls_free(link->tls);
        tfos__buffer_reset(&link->plain);
        free(link);
    }
}

/* Gives up a link that nobody has heard of yet. */
static tfos_status abandon(tfos__link *link, tfos_error *error, int code, const char *what)
{
    tfos_status status = code != 0 ? tfos__fail_errno(error, -code, "%s", what) : error->status;
    link->ended = true;
    uv_close(&link->socket.handle, free_unborn);
    uv_close((uv_handle_t *)&link->timer, free_unborn);
    return status;
}

tfos_status tfos__link_connect(uv_loop_t *loop, tfos__tls_context *tls, const char *host, uint16_t port,
                               const tfos__link_events *events, void *context, tfos__link **out, tfos_error *error)
{
    tfos_error mine;
    error = error != NULL ? error : &mine;
    tfos__link *link = make(loop, events, context, error);
    if (link == NULL) {
        return error->status;
    }
    uv_tcp_init(loop, &link->socket.tcp);
    link->socket.handle.data = link;
    snprintf(link->peer, sizeof link->peer, "%.64s:%u", host, port);
    if (tfos__tls_new(tls, &link->tls, error) != TFOS_OK) {
        return abandon(link, error, 0, NULL);
    }
    char service[8];
    char name[TFOS__HOST_BYTES];
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    snprintf(service, sizeof service, "%u", port);
    tfos__host_bare(host, name);
    link->resolve.data = link;
    link->resolving = true;
    int code = uv_getaddrinfo(loop, &link->resolve, on_resolved, name, service, &hints);
    if (code != 0) {
        link->resolving = false;
        return abandon(link, error, code, "cannot look up the address of the coordinator");
    }
    uv_timer_start(&link->timer, on_timeout, link->handshake_ms, 0);
    *out = link;
    return TFOS_OK;
}

tfos_status tfos__link_accept(uv_stream_t *listener, tfos__tls_context *tls, const tfos__link_events *events,
                              void *context, tfos__link **out, tfos_error *error)
{
    tfos_error mine;
    error = error != NULL ? error : &mine;
    tfos__link *link = make(listener->loop, events, context, error);
    if (link == NULL) {
        return error->status;
    }
    link->accepted = true;
    uv_tcp_init(listener->loop, &link->socket.tcp);
    link->socket.handle.data = link;
    int code = uv_accept(listener, &link->socket.stream);
    if (code != 0) {
        return abandon(link, error, code, "cannot accept a connection");
    }
    note_peer(link);
    if (tfos__tls_new(tls, &link->tls, error) != TFOS_OK) {
        return abandon(link, error, 0, NULL);
    }
    uv_timer_start(&link->timer, on_timeout, link->handshake_ms, 0);
    code = begin(link);
    if (code != 0) {
        return abandon(link, error, code, "cannot read from a connection");
    }
    *out = link;
    return TFOS_OK;
}

tfos_status tfos__link_adopt(uv_loop_t *loop, int socket, const tfos__link_events *events, void *context,
                             tfos__link **out, tfos_error *error)
{
    tfos_error mine;
    error = error != NULL ? error : &mine;
    tfos__link *link = make(loop, events, context, error);
    if (link == NULL) {
        return error->status;
    }
    uv_pipe_init(loop, &link->socket.pipe, 0);
    link->socket.handle.data = link;
    link->ready = true;
    snprintf(link->peer, sizeof link->peer, "the driver");
    int code = uv_pipe_open(&link->socket.pipe, socket);
    code = code == 0 ? begin(link) : code;
    if (code != 0) {
        return abandon(link, error, code, "cannot use the socket of the driver");
    }
    *out = link;
    return TFOS_OK;
}

tfos_status tfos__link_take(uv_loop_t *loop, int socket, tfos__tls *tls, tfos__buffer *plain, size_t frame_bytes,
                            const tfos__link_events *events, void *context, tfos__link **out, tfos_error *error)
{
    tfos_error mine;
    error = error != NULL ? error : &mine;
    tfos__link *link = make(loop, events, context, error);
    if (link == NULL) {
        close(socket);
        tfos__tls_free(tls);
        tfos__buffer_reset(plain);
        return error->status;
    }
    uv_tcp_init(loop, &link->socket.tcp);
    link->socket.handle.data = link;
    link->tls = tls;
    link->plain = *plain;
    *plain = (tfos__buffer){0};
    link->ready = true;
    link->frame_bytes = frame_bytes;
    link->lingers = true;
    int code = uv_tcp_open(&link->socket.tcp, socket);
    if (code != 0) {
        close(socket);
        return abandon(link, error, code, "cannot use the socket of a connection");
    }
    note_peer(link);
    code = begin(link);
    if (code != 0) {
        return abandon(link, error, code, "cannot read from a connection");
    }
    *out = link;
    take_frames(link);
    return TFOS_OK;
}

void tfos__link_send(tfos__link *link, const tfos__message *message)
{
    tfos__buffer bytes = {0};
    tfos_error error;
    if (link->closing) {
        return;
    }
    tfos_status status = tfos__frame_append(message, &bytes, &error);
    if (status == TFOS_OK && link->backlog + bytes.size > TFOS__LINK_BACKLOG_BYTES) {
        status = tfos__fail(&error, TFOS_LIMIT, "%s does not read: more than %d bytes wait for it", link->peer,
                            TFOS__LINK_BACKLOG_BYTES);
    }
    if (status == TFOS_OK && link->tls != NULL) {
        status = tfos__tls_send(link->tls, bytes.data, bytes.size, &error);
        bytes.size = 0;
    }
    if (status != TFOS_OK) {
        tfos__buffer_reset(&bytes);
        fail(link, &error);
    } else if (link->tls != NULL) {
        tfos__buffer_reset(&bytes);
        if (link->ready) {
            flush_tls(link);
        }
    } else {
        write_bytes(link, &bytes);
    }
}

void tfos__link_close(tfos__link *link)
{
    enum { LINGER_MS = 2000 };
    if (link->closing) {
        return;
    }
    link->closing = true;
    if (link->tls != NULL && link->ready) {
        tfos__tls_close(link->tls);
        flush_tls(link);
    }
    if (!link->ended) {
        /* Whoever neither reads nor closes must not keep us. */
        uv_timer_start(&link->timer, on_timeout, LINGER_MS, 0);
        leave_when_sent(link);
    }
}

size_t tfos__link_backlog(const tfos__link *link)
{
    return link->backlog;
}

int tfos__link_cause(const tfos__link *link)
{
    return link->cause;
}

const char *tfos__link_peer(const tfos__link *link)
{
    return link->peer;
}

void tfos__link_set_context(tfos__link *link, void *context)
{
    link->context = context;
}

void *tfos__link_context(const tfos__link *link)
{
    return link->context;
}
