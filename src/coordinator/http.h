/* A small HTTP server on a libuv loop, for pages that few people look at.
 *
 * Every connection may cost a bounded amount of memory and of time, their number is bounded, and so is what waits to be
 * sent on all of them. When there are too many connections, the one that has shown nothing for the longest time goes:
 * strangers who hold connections open cannot keep out somebody who knows an address. */
#ifndef TFOS_COORDINATOR_HTTP_H
#define TFOS_COORDINATOR_HTTP_H

#include <uv.h>

#include "base/bytes.h"
#include "coordinator/http_request.h"
#include "service/listener.h"

typedef struct tfos__http tfos__http;

/* What a handler says. `bytes` live on after the answer has been sent or, when NULL, `body` is sent and reset. */
typedef struct tfos__http_answer {
    int status;
    const char *type; /* of the content */
    const void *bytes;
    size_t count;
    tfos__buffer body;
    const char *location; /* of a redirection; must live as long as the server */
    bool known;           /* the client has shown that it knows a secret */
} tfos__http_answer;

/* Called with status 404 filled in. */
typedef void (*tfos__http_handler)(void *context, const tfos__http_request *request, tfos__http_answer *answer);

typedef struct tfos__http_limits {
    size_t connections;
    size_t queued_bytes; /* waiting to be sent, on all connections */
    uint64_t request_ms; /* from the first byte of a request, or from the connection, to the end of it */
    uint64_t idle_ms;    /* between requests */
    uint64_t answer_ms;  /* for the client to take an answer */
} tfos__http_limits;

#define TFOS__HTTP_LIMITS                                                                                              \
    {                                                                                                                  \
        .connections = 64, .queued_bytes = 64 << 20, .request_ms = 10000, .idle_ms = 60000, .answer_ms = 30000         \
    }

/* Listens (service/listener.h). `headers` are sent with every answer; each ends with "\r\n"; must live as long as the
 * server, as `context` must. */
tfos_status tfos__http_open(uv_loop_t *loop, const char *host, const tfos__ports *ports,
                            const tfos__http_limits *limits, const char *headers, tfos__http_handler handler,
                            void *context, tfos__http **out, tfos_error *error);

uint16_t tfos__http_port(const tfos__http *server);

/* Closes everything; calls `closed` when libuv has given all handles back. The handler is not called any more. */
void tfos__http_close(tfos__http *server, void (*closed)(void *context));

#endif
