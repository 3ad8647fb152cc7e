/* The life of a connection: a request is READ, its answer is WRITTEN, and so on; or, after the last answer, what still
 * comes is DRAINED for a moment, because closing a socket with unread bytes makes the kernel throw away what was sent.
 * One timer per connection watches whichever of these it is. */
#include "coordinator/http.h"

#include <stdlib.h>

#include "base/status.h"

enum {
    READ_BYTES = 16384, /* at a time; pipelined requests wait in this buffer */
    DRAIN_MS = 2000,
};

typedef enum connection_state { READING, WRITING, DRAINING, CLOSING } connection_state;

typedef struct connection {
    tfos__http *server;
    struct connection *next;
    struct connection *previous;
    uv_tcp_t socket;
    uv_timer_t timer;
    uv_write_t write;
    uv_shutdown_t shutdown;
    size_t handles;
    connection_state state;
    bool known;        /* its last request was a good one */
    uint64_t since_ms; /* in this state */
    tfos__http_request request;
    size_t unread; /* bytes of `buffer` that belong to the next request */
    tfos__http_answer answer;
    size_t queued;
    char head[2048];
    char buffer[READ_BYTES];
} connection;

struct tfos__http {
    uv_loop_t *loop;
    uv_tcp_t listener;
    tfos__http_limits limits;
    const char *headers;
    tfos__http_handler handler;
    void *context;
    uint16_t port;
    connection *connections;
    size_t count;
    size_t queued;
    size_t handles; /* connections whose memory libuv still has, and the listener */
    bool closing;
    void (*closed)(void *context);
};

static void read_requests(connection *client);

/* ---- the end ---- */

static void release(tfos__http *server)
{
    if (--server->handles == 0) {
        void (*closed)(void *) = server->closed;
        void *context = server->context;
        free(server);
        if (closed != NULL) {
            closed(context);
        }
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    connection *client = handle->data;
    if (--client->handles == 0) {
        release(client->server);
        tfos__buffer_reset(&client->answer.body);
        free(client);
    }
}

static void end(connection *client)
{
    tfos__http *server = client->server;
    if (client->state == CLOSING) {
        return;
    }
    client->state = CLOSING;
    if (client->previous != NULL) {
        client->previous->next = client->next;
    } else {
        server->connections = client->next;
    }
    if (client->next != NULL) {
        client->next->previous = client->previous;
    }
    server->count--;
    server->queued -= client->queued;
    client->queued = 0;
    uv_close((uv_handle_t *)&client->socket, on_handle_closed);
    uv_close((uv_handle_t *)&client->timer, on_handle_closed);
}

/* ---- answers ---- */

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {431, "Request Header Fields Too Large"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (reasons[i].status == status) {
            return reasons[i].reason;
        }
    }
    return "Internal Server Error";
}

static void on_timeout(uv_timer_t *timer);

static void enter(connection *client, connection_state state, uint64_t limit_ms)
{
    client->state = state;
    client->since_ms = uv_now(client->server->loop);
    uv_timer_start(&client->timer, on_timeout, limit_ms, 0);
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    connection *client = handle->data;
    (void)suggested;
    *buffer = uv_buf_init(client->buffer + client->unread, (unsigned)(READ_BYTES - client->unread));
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    connection *client = stream->data;
    (void)buffer;
    if (count < 0) {
        end(client);
    } else if (count > 0 && client->state == READING) {
        client->unread += (size_t)count;
        read_requests(client);
    }
}

static void on_shutdown(uv_shutdown_t *request, int code)
{
    connection *client = request->data;
    if (code == UV_ECANCELED || client->state == CLOSING) {
        return;
    }
    client->unread = 0;
    if (code != 0 || uv_read_start((uv_stream_t *)&client->socket, give_buffer, on_read) != 0) {
        end(client);
    }
}

static void drain(connection *client)
{
    enter(client, DRAINING, DRAIN_MS);
    client->shutdown.data = client;
    if (uv_shutdown(&client->shutdown, (uv_stream_t *)&client->socket, on_shutdown) != 0) {
        end(client);
    }
}

static void on_written(uv_write_t *request, int code)
{
    connection *client = request->data;
    if (client->state == CLOSING) {
        return;
    }
    tfos__http *server = client->server;
    server->queued -= client->queued;
    client->queued = 0;
    tfos__buffer_reset(&client->answer.body);
    if (code != 0) {
        end(client);
    } else if (!client->request.keep_alive) {
        drain(client);
    } else {
        enter(client, READING, server->limits.idle_ms);
        read_requests(client);
    }
}

/* Sends client->answer. */
static void send_answer(connection *client)
{
    tfos__http *server = client->server;
    tfos__http_answer *answer = &client->answer;
    uv_buf_t pieces[2];
    const void *bytes = answer->bytes != NULL ? answer->bytes : answer->body.data;
    size_t count = answer->bytes != NULL ? answer->count : answer->body.size;
    int head = snprintf(client->head, sizeof client->head,
                        "HTTP/1.1 %d %s\r\n%s%s%s%s%sContent-Type: %s\r\nContent-Length: %zu\r\n%s\r\n", answer->status,
                        reason_of(answer->status), server->headers, answer->status == 405 ? "Allow: GET, HEAD\r\n" : "",
                        answer->location != NULL ? "Location: " : "", answer->location != NULL ? answer->location : "",
                        answer->location != NULL ? "\r\n" : "", answer->type, count,
                        client->request.keep_alive ? "" : "Connection: close\r\n");
    if (head < 0 || (size_t)head >= sizeof client->head) {
        end(client);
        return;
    }
    pieces[0] = uv_buf_init(client->head, (unsigned)head);
    pieces[1] = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)count);
    client->queued = answer->body.size + (size_t)head;
    server->queued += client->queued;
    client->write.data = client;
    enter(client, WRITING, server->limits.answer_ms);
    uv_read_stop((uv_stream_t *)&client->socket);
    bool has_body = count > 0 && !client->request.is_head;
    if (uv_write(&client->write, (uv_stream_t *)&client->socket, pieces, has_body ? 2 : 1, on_written) != 0) {
        end(client);
    }
}

/* An answer of our own: its text is its reason. */
static void send_status(connection *client, int status)
{
    const char *reason = reason_of(status);
    tfos__buffer_reset(&client->answer.body);
    client->answer = (tfos__http_answer){
        .status = status, .type = "text/plain; charset=utf-8", .bytes = reason, .count = strlen(reason)};
    send_answer(client);
}

static void refuse(connection *client, int status)
{
    client->request.keep_alive = false;
    client->known = false;
    send_status(client, status);
}

static void answer_request(connection *client)
{
    tfos__http *server = client->server;
    tfos__http_answer *answer = &client->answer;
    *answer = (tfos__http_answer){.status = 404, .type = "text/plain; charset=utf-8"};
    server->handler(server->context, &client->request, answer);
    client->known = answer->known;
    bool has_content = answer->bytes != NULL || answer->body.size > 0;
    if (server->queued + answer->body.size > server->limits.queued_bytes) {
        send_status(client, 503);
    } else if (!has_content) {
        answer->bytes = reason_of(answer->status);
        answer->count = strlen(answer->bytes);
        send_answer(client);
    } else {
        send_answer(client);
    }
}

/* ---- requests ---- */

static void on_timeout(uv_timer_t *timer)
{
    connection *client = timer->data;
    if (client->state == READING && client->request.begun && !client->request.complete) {
        refuse(client, 408);
    } else {
        end(client);
    }
}

/* Takes the next request from what has been read; asks for more bytes when it is not complete. */
static void read_requests(connection *client)
{
    size_t used = 0;
    bool had_begun = client->request.begun && !client->request.complete;
    tfos__http_verdict verdict = TFOS__HTTP_MORE;
    if (client->unread > 0) {
        verdict = tfos__http_request_feed(&client->request, client->buffer, client->unread, &used);
        memmove(client->buffer, client->buffer + used, client->unread - used);
        client->unread -= used;
    }
    if (verdict == TFOS__HTTP_READY) {
        answer_request(client);
    } else if (verdict == TFOS__HTTP_REFUSED) {
        refuse(client, client->request.refusal);
    } else {
        if (!had_begun && used > 0) {
            enter(client, READING, client->server->limits.request_ms); /* and no byte that follows makes it longer */
        }
        int code = uv_read_start((uv_stream_t *)&client->socket, give_buffer, on_read);
        if (code != 0 && code != UV_EALREADY) {
            end(client);
        }
    }
}

/* ---- coming ---- */

/* Makes room for one more: ends the connection that matters least. Those that have not shown that they know a secret
 * come first, then those that wait for a request, then the longest in its state. */
static void make_room(tfos__http *server)
{
    connection *least = NULL;
    for (connection *each = server->connections; each != NULL; each = each->next) {
        bool less = least == NULL || each->known < least->known;
        bool equal = least != NULL && each->known == least->known;
        bool waits = each->state != WRITING;
        if (equal && waits != (least->state != WRITING)) {
            less = waits;
        } else if (equal) {
            less = each->since_ms <= least->since_ms;
        }
        least = less ? each : least;
    }
    if (least != NULL) {
        end(least);
    }
}

static void on_connection(uv_stream_t *listener, int code)
{
    tfos__http *server = listener->data;
    connection *client = code == 0 && !server->closing ? calloc(1, sizeof *client) : NULL;
    if (client == NULL) {
        return;
    }
    if (server->count >= server->limits.connections) {
        make_room(server);
    }
    client->server = server;
    client->handles = 2;
    server->handles++;
    uv_tcp_init(server->loop, &client->socket);
    uv_timer_init(server->loop, &client->timer);
    client->socket.data = client;
    client->timer.data = client;
    tfos__http_request_init(&client->request);
    client->next = server->connections;
    if (client->next != NULL) {
        client->next->previous = client;
    }
    server->connections = client;
    server->count++;
    if (uv_accept(listener, (uv_stream_t *)&client->socket) != 0) {
        end(client);
        return;
    }
    uv_tcp_nodelay(&client->socket, 1);
    enter(client, READING, server->limits.request_ms);
    read_requests(client);
}

/* ---- the server ---- */

static void on_listener_closed(uv_handle_t *handle)
{
    release(handle->data);
}

tfos_status tfos__http_open(uv_loop_t *loop, const char *host, const tfos__ports *ports,
                            const tfos__http_limits *limits, const char *headers, tfos__http_handler handler,
                            void *context, tfos__http **out, tfos_error *error)
{
    tfos__http *server = calloc(1, sizeof *server);
    if (server == NULL) {
        return tfos__fail_memory(error, sizeof *server);
    }
    server->loop = loop;
    server->limits = *limits;
    server->headers = headers;
    server->handler = handler;
    server->context = context;
    server->handles = 1;
    uv_tcp_init(loop, &server->listener);
    server->listener.data = server;
    tfos_status status = tfos__listener_open(&server->listener, host, ports, on_connection, &server->port, error);
    if (status != TFOS_OK) {
        uv_close((uv_handle_t *)&server->listener, on_listener_closed);
        return status;
    }
    *out = server;
    return TFOS_OK;
}

uint16_t tfos__http_port(const tfos__http *server)
{
    return server->port;
}

void tfos__http_close(tfos__http *server, void (*closed)(void *context))
{
    server->closing = true;
    server->closed = closed;
    while (server->connections != NULL) {
        end(server->connections);
    }
    uv_close((uv_handle_t *)&server->listener, on_listener_closed);
}
