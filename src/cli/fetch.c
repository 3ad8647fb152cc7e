/* A small HTTP client for status pages: one request, one answer, in a bounded time. */
#include <errno.h>
#include <fcntl.h>
#include <http_parser.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "cli/cli.h"

enum {
    FETCH_MS = 15000,       /* from the start to the end */
    BODY_BYTES = 256 << 20, /* the logs of many nodes */
    ADDRESS_BYTES = 2048,
};

typedef struct fetch {
    const char *url;
    char host[256];
    char port[8];
    char path[ADDRESS_BYTES];
    int64_t deadline_ms;
    int socket;
    tfos__buffer *body;
    bool complete;
    bool too_large;
} fetch;

static tfos_status fail_url(const char *url, const char *what, tfos_error *error)
{
    return tfos__fail(error, TFOS_INVALID,
                      "'%s' is no address of a status page (%s); it looks like http://HOST:PORT/TOKEN/, and the driver "
                      "prints it",
                      tfos__printable_text(url).text, what);
}

/* The folder of the page, whether its address ends in "/", in a file or in neither, and `file` in it. */
static tfos_status split_url(fetch *self, const char *file, tfos_error *error)
{
    struct http_parser_url url;
    size_t bytes = strlen(self->url);
    http_parser_url_init(&url);
    if (bytes >= ADDRESS_BYTES || http_parser_parse_url(self->url, bytes, 0, &url) != 0) {
        return fail_url(self->url, "not an address", error);
    }
    if (url.field_data[UF_SCHEMA].len != 4 || strncasecmp(self->url, "http", 4) != 0) {
        return fail_url(self->url, "not http", error);
    }
    if (url.field_data[UF_HOST].len >= sizeof self->host) {
        return fail_url(self->url, "a long name", error);
    }
    snprintf(self->host, sizeof self->host, "%.*s", (int)url.field_data[UF_HOST].len,
             self->url + url.field_data[UF_HOST].off);
    snprintf(self->port, sizeof self->port, "%u", url.port != 0 ? url.port : 80);
    const char *path = self->url + url.field_data[UF_PATH].off;
    size_t count = url.field_data[UF_PATH].len;
    const char *second = count > 1 ? memchr(path + 1, '/', count - 1) : NULL;
    count = second != NULL ? (size_t)(second - path) : count;
    if (count < 2) {
        return fail_url(self->url, "without a token", error);
    }
    snprintf(self->path, sizeof self->path, "%.*s/%s", (int)count, path, file);
    return TFOS_OK;
}

static tfos_status fail_gone(const fetch *self, int problem, tfos_error *error)
{
    return tfos__fail(error, TFOS_IO,
                      "the coordinator does not answer at %s:%s (%s); the cluster has ended, or this machine cannot "
                      "reach it",
                      self->host, self->port, problem == ETIMEDOUT ? "no answer in time" : strerror(problem));
}

/* Waits until the socket can be read or written. False with errno when the time is over. */
static bool wait_for(const fetch *self, short what)
{
    for (;;) {
        struct pollfd poll_of = {.fd = self->socket, .events = what};
        int64_t left = self->deadline_ms - tfos__clock_ms();
        int count = left > 0 ? poll(&poll_of, 1, (int)left) : 0;
        if (count > 0) {
            return true;
        }
        if (count == 0) {
            errno = ETIMEDOUT;
            return false;
        }
        if (errno != EINTR) {
            return false;
        }
    }
}

static bool connect_to(fetch *self, const struct addrinfo *address)
{
    int problem = 0;
    socklen_t bytes = sizeof problem;
    self->socket = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (self->socket < 0) {
        return false;
    }
    if (connect(self->socket, address->ai_addr, address->ai_addrlen) == 0) {
        return true;
    }
    if (errno == EINPROGRESS && wait_for(self, POLLOUT) &&
        getsockopt(self->socket, SOL_SOCKET, SO_ERROR, &problem, &bytes) == 0) {
        errno = problem;
        if (problem == 0) {
            return true;
        }
    }
    problem = errno;
    close(self->socket);
    self->socket = -1;
    errno = problem;
    return false;
}

static tfos_status connect_to_host(fetch *self, tfos_error *error)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int code = getaddrinfo(self->host, self->port, &hints, &found);
    if (code != 0) {
        return tfos__fail(error, TFOS_IO, "the address of the coordinator's host '%s' cannot be found: %s", self->host,
                          gai_strerror(code));
    }
    int problem = ECONNREFUSED;
    for (const struct addrinfo *each = found; each != NULL && self->socket < 0; each = each->ai_next) {
        if (!connect_to(self, each)) {
            problem = errno;
        }
    }
    freeaddrinfo(found);
    return self->socket >= 0 ? TFOS_OK : fail_gone(self, problem, error);
}

static tfos_status send_request(fetch *self, tfos_error *error)
{
    char request[ADDRESS_BYTES + 512];
    bool is_number = strchr(self->host, ':') != NULL;
    int count = snprintf(request, sizeof request,
                         "GET %s HTTP/1.1\r\nHost: %s%s%s:%s\r\nUser-Agent: tfos/%s\r\nConnection: close\r\n\r\n",
                         self->path, is_number ? "[" : "", self->host, is_number ? "]" : "", self->port, TFOS_VERSION);
    for (int sent = 0; sent < count;) {
        ssize_t step = send(self->socket, request + sent, (size_t)(count - sent), MSG_NOSIGNAL);
        if (step > 0) {
            sent += (int)step;
        } else if (errno != EINTR && (errno != EAGAIN || !wait_for(self, POLLOUT))) {
            return fail_gone(self, errno, error);
        }
    }
    return TFOS_OK;
}

/* ---- the answer ---- */

static int on_body(http_parser *parser, const char *at, size_t count)
{
    fetch *self = parser->data;
    self->too_large = self->body->size + count > BODY_BYTES;
    return self->too_large || tfos__buffer_append(self->body, at, count, NULL) != TFOS_OK ? -1 : 0;
}

static int on_complete(http_parser *parser)
{
    fetch *self = parser->data;
    self->complete = true;
    return 0;
}

static tfos_status check_answer(const fetch *self, const http_parser *parser, tfos_error *error)
{
    if (self->too_large) {
        return tfos__fail(error, TFOS_LIMIT, "%s:%s answers with more than %d MiB", self->host, self->port,
                          BODY_BYTES >> 20);
    }
    if (!self->complete) {
        return tfos__fail(error, TFOS_CORRUPT, "what answers at %s:%s is no status page of tfos", self->host,
                          self->port);
    }
    if (parser->status_code == 404) {
        return tfos__fail(error, TFOS_PERMISSION,
                          "the coordinator at %s:%s does not know this address: its token is of another cluster, or "
                          "mistyped; the driver prints the address",
                          self->host, self->port);
    }
    if (parser->status_code != 200) {
        return tfos__fail(error, TFOS_CORRUPT, "%s:%s answers with HTTP status %u", self->host, self->port,
                          parser->status_code);
    }
    return TFOS_OK;
}

static tfos_status receive_answer(fetch *self, tfos_error *error)
{
    static const http_parser_settings settings = {.on_body = on_body, .on_message_complete = on_complete};
    char bytes[65536];
    http_parser parser;
    http_parser_init(&parser, HTTP_RESPONSE);
    parser.data = self;
    while (!self->complete) {
        ssize_t count = recv(self->socket, bytes, sizeof bytes, 0);
        if (count < 0 && errno != EINTR && (errno != EAGAIN || !wait_for(self, POLLIN))) {
            return fail_gone(self, errno, error);
        }
        if (count >= 0) {
            size_t used = http_parser_execute(&parser, &settings, bytes, (size_t)count);
            if (count == 0 || used != (size_t)count) {
                break;
            }
        }
    }
    return check_answer(self, &parser, error);
}

tfos_status tfos__cli_fetch(const char *url, const char *file, tfos__buffer *body, tfos_error *error)
{
    fetch self = {.url = url, .deadline_ms = tfos__clock_ms() + FETCH_MS, .socket = -1, .body = body};
    TFOS_TRY(split_url(&self, file, error));
    TFOS_TRY(connect_to_host(&self, error));
    tfos_status status = send_request(&self, error);
    if (status == TFOS_OK) {
        status = receive_answer(&self, error);
    }
    close(self.socket);
    return status;
}
