/* A link: messages over a TCP connection with TLS, or over a Unix socket without, driven by a libuv loop.
 *
 * Limits: frames have a largest size, what waits to be sent has a largest size, a handshake and the first message have
 * a time limit (the setting cluster.handshake_ms). A peer that breaks one is cut off with a status; nobody else
 * notices. Whoever has links ignores SIGPIPE: libuv writes to peers that may be gone. */
#ifndef TFOS_SERVICE_LINK_H
#define TFOS_SERVICE_LINK_H

#include <uv.h>

#include "base/tls.h"
#include "net/message.h"

typedef struct tfos__link tfos__link;

/* Called on the loop's thread. `closed` is the last call and comes exactly once for a link that was handed out, also
 * after tfos__link_close; the link is freed when it returns. `error` has status OK when the link was closed in good
 * order by either side. Any of the functions may close the link. */
typedef struct tfos__link_events {
    void (*ready)(tfos__link *link, void *context); /* connected, and the peer has the key; may be NULL */
    void (*message)(tfos__link *link, const tfos__message *message, void *context);
    void (*closed)(tfos__link *link, const tfos_error *error, void *context);
    void (*drained)(tfos__link *link, void *context); /* nothing waits to be sent any more; may be NULL */
} tfos__link_events;

enum {
    TFOS__LINK_BACKLOG_BYTES = 16 << 20, /* waiting to be sent; beyond, the link is cut with TFOS_LIMIT */
    TFOS__LINK_FIRST_FRAME_BYTES = 4096, /* the first message of a peer that was accepted */
};

/* Connects; `host` is a name, whose addresses are tried in turn, or an address. What is sent before the link is ready
 * waits. */
tfos_status tfos__link_connect(uv_loop_t *loop, tfos__tls_context *tls, const char *host, uint16_t port,
                               const tfos__link_events *events, void *context, tfos__link **out, tfos_error *error);

/* Takes the connection that `listener` has pending. */
tfos_status tfos__link_accept(uv_stream_t *listener, tfos__tls_context *tls, const tfos__link_events *events,
                              void *context, tfos__link **out, tfos_error *error);

/* Takes over a connected stream socket without TLS: the driver's end of a socket pair. */
tfos_status tfos__link_adopt(uv_loop_t *loop, int socket, const tfos__link_events *events, void *context,
                             tfos__link **out, tfos_error *error);

/* Takes over, whatever the result, a TCP connection whose handshake is over: its socket, its TLS, whose context must
 * outlive it, and what was received. Messages that are in that are heard before the call returns. None has more than
 * `frame_bytes`. Such a link lingers when it is closed, for two seconds at most: what it has sent arrives, also where
 * the peer has something to say at the same time. */
tfos_status tfos__link_take(uv_loop_t *loop, int socket, tfos__tls *tls, tfos__buffer *plain, size_t frame_bytes,
                            const tfos__link_events *events, void *context, tfos__link **out, tfos_error *error);

/* Sends, or notes the failure: `closed` follows. */
void tfos__link_send(tfos__link *link, const tfos__message *message);

/* Sends what is waiting, says good-bye, closes. Nothing is received any more. */
void tfos__link_close(tfos__link *link);

/* Bytes that wait to be sent. */
size_t tfos__link_backlog(const tfos__link *link);

/* In `closed`: the errno behind the failure (ECONNREFUSED when nobody listens there), or 0. */
int tfos__link_cause(const tfos__link *link);

/* "10.0.0.7:41234", for logs. */
const char *tfos__link_peer(const tfos__link *link);

void tfos__link_set_context(tfos__link *link, void *context);
void *tfos__link_context(const tfos__link *link);

#endif
