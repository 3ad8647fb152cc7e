/* One HTTP request after another, as a machine without sockets: bytes go in, requests come out. Only what a status page
 * needs: GET and HEAD of HTTP/1.0 and 1.1, without bodies. */
#ifndef TFOS_COORDINATOR_HTTP_REQUEST_H
#define TFOS_COORDINATOR_HTTP_REQUEST_H

#include <http_parser.h>

#include "tfos.h"

enum {
    TFOS__HTTP_HEAD_BYTES = 8192,   /* of a request line and its headers */
    TFOS__HTTP_TARGET_BYTES = 2048, /* of the address in the request line */
};

typedef enum tfos__http_verdict {
    TFOS__HTTP_MORE,    /* the request is not complete */
    TFOS__HTTP_READY,   /* it is: answer it */
    TFOS__HTTP_REFUSED, /* it is nonsense or more than we take: answer with `refusal` and close */
} tfos__http_verdict;

typedef struct tfos__http_request {
    http_parser parser;
    bool begun;    /* at least one byte of the request has come */
    bool complete; /* all of it */
    bool is_head;  /* HEAD: the answer has no body */
    bool keep_alive;
    int refusal; /* a status of HTTP, when REFUSED */
    size_t target_bytes;
    char target[TFOS__HTTP_TARGET_BYTES + 1];
    const char *path;  /* of a request that is READY; both are terminated */
    const char *query; /* "" when there is none */
} tfos__http_request;

void tfos__http_request_init(tfos__http_request *request);

/* Takes bytes; *used is how many. After READY the next call begins the next request, with the bytes that were not used.
 * After REFUSED there is no next. */
tfos__http_verdict tfos__http_request_feed(tfos__http_request *request, const char *bytes, size_t count, size_t *used);

#endif
