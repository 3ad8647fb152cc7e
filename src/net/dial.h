/* A connection for a thread that may wait: messages, as a rule through TLS, without an event loop. What a producer in
 * somebody else's process uses to talk to the coordinator and to nodes elsewhere, where libuv has no place. */
#ifndef TFOS_NET_DIAL_H
#define TFOS_NET_DIAL_H

#include "base/tls.h"
#include "net/message.h"

typedef struct tfos__dial tfos__dial;

/* Whoever waits in a call is asked about ten times a second whether it should go on. */
typedef struct tfos__patience {
    bool (*interrupted)(void *context); /* NULL: nobody asks */
    void *context;
} tfos__patience;

/* Connects, tries the addresses of a name in turn, and sees the handshake through, in `timeout_ms` at most. */
tfos_status tfos__dial_open(const char *host, uint16_t port, const uint8_t key[TFOS__KEY_BYTES], const char *purpose,
                            int64_t timeout_ms, const tfos__patience *patience, tfos__dial **out, tfos_error *error);

/* The other end, whose handshake is over or goes on while messages are waited for: takes over, whatever the result, a
 * socket that was accepted and does not block, its TLS, whose context must outlive it, and what was received, if
 * anything was (`plain` may be NULL). Without TLS (NULL) for a socket that one process of a machine was given by
 * another. `peer` is for messages. */
tfos_status tfos__dial_adopt(int socket, tfos__tls *tls, tfos__buffer *plain, const char *peer,
                             const tfos__patience *patience, tfos__dial **out, tfos_error *error);
void tfos__dial_close(tfos__dial *dial);

/* Has the kernel notice within about a minute that the host at the other end of a TCP connection is gone, whether
 * something is under way to it or not. To the kernel a host is gone as well if for as long nobody there reads, so that
 * it has no room for what is sent: whoever may read late must be given time. Small messages go out at once. For every
 * connection, also those with an event loop. */
void tfos__socket_keep_alive(int socket);

/* … and so much time for it to take what is sent. */
void tfos__socket_give_time(int socket, int64_t ms);

/* The socket, to be polled together with others. */
int tfos__dial_socket(const tfos__dial *dial);

/* Sends it all; takes in what comes meanwhile. IO: the peer is gone, or has read nothing for a minute. */
tfos_status tfos__dial_send(tfos__dial *dial, const tfos__message *message, tfos_error *error);

/* Bytes instead of messages, for both ends that know what comes: nobody waits here. `push` takes some of them, as many
 * as there is room for at the moment, and `pull` gives some of those that have come; 0 means: wait for what `events`
 * says, together with others. What was received behind the last message is the first to be pulled. `put` takes all, for
 * a caller that has looked at the room, and leaves the sending to the next push. */
size_t tfos__dial_room(const tfos__dial *dial);
tfos_status tfos__dial_put(tfos__dial *dial, const void *bytes, size_t count, tfos_error *error);
tfos_status tfos__dial_push(tfos__dial *dial, const void *bytes, size_t count, size_t *taken, tfos_error *error);
tfos_status tfos__dial_pull(tfos__dial *dial, void *into, size_t count, size_t *got, tfos_error *error);
short tfos__dial_events(const tfos__dial *dial);

/* The next message; it lives until the next call of any of these functions. `timeout_ms` -1: as long as it takes; 0:
 * what has come. END: none has come in time. IO: the peer is gone. */
tfos_status tfos__dial_receive(tfos__dial *dial, int64_t timeout_ms, tfos__message *out, tfos_error *error);

#endif
