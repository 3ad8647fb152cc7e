/* TLS 1.3 between two holders of the cluster key, as a machine without sockets: bytes from the network go in, bytes for
 * the network and plain text come out. Event loops and blocking sockets drive it alike.
 *
 * Both ends are authenticated by an external pre-shared key derived from the cluster key; there are no certificates,
 * and a peer that offers one instead is refused. Keys of a connection come from a fresh Diffie-Hellman exchange, so
 * what was recorded stays secret when the cluster key becomes known later. */
#ifndef TFOS_BASE_TLS_H
#define TFOS_BASE_TLS_H

#include "base/bytes.h"

enum { TFOS__KEY_BYTES = 32 };

typedef enum tfos__tls_end { TFOS__TLS_CLIENT, TFOS__TLS_SERVER } tfos__tls_end;

typedef struct tfos__tls_context tfos__tls_context;
typedef struct tfos__tls tfos__tls;

/* What the connections of one end have in common. `purpose` is mixed into the key, so that a connection of one plane is
 * no use in another. */
tfos_status tfos__tls_context_new(tfos__tls_end end, const uint8_t key[TFOS__KEY_BYTES], const char *purpose,
                                  tfos__tls_context **out, tfos_error *error);

/* When its connections are gone. */
void tfos__tls_context_free(tfos__tls_context *context);

/* A connection. A client has its first bytes for the network ready at once. */
tfos_status tfos__tls_new(tfos__tls_context *context, tfos__tls **out, tfos_error *error);
void tfos__tls_free(tfos__tls *tls);

/* Takes bytes from the network and appends the plain text in them to `plain`. After a failure the connection is of no
 * use; what it has for the network (an alert) may still be sent. TFOS_END: the peer has closed in good order. */
tfos_status tfos__tls_receive(tfos__tls *tls, const void *bytes, size_t count, tfos__buffer *plain, tfos_error *error);

/* Takes plain text to be sent. Before the handshake is over it is kept. */
tfos_status tfos__tls_send(tfos__tls *tls, const void *bytes, size_t count, tfos_error *error);

/* Says good-bye to the peer; goes out with the next bytes for the network. */
void tfos__tls_close(tfos__tls *tls);

/* Moves what is to go out to the network to the end of `out`. */
tfos_status tfos__tls_take(tfos__tls *tls, tfos__buffer *out, tfos_error *error);

/* Gives back the memory that this needed, which only grows otherwise: for a connection that has sent much and is going
 * to be quiet. Nothing happens while something is to go out. */
void tfos__tls_shrink(tfos__tls *tls);

/* Whether the handshake is over: the peer has the key. */
bool tfos__tls_is_ready(const tfos__tls *tls);

/* On the side of a server, before that: whether the peer's first message was made with the key. It may be somebody else
 * who repeats what was recorded; then the handshake will not end well. */
bool tfos__tls_was_greeted(const tfos__tls *tls);

/* A secret for one purpose, made of the cluster key. Who has it knows nothing of the key. */
tfos_status tfos__key_derive(const uint8_t key[TFOS__KEY_BYTES], const char *purpose, uint8_t out[TFOS__KEY_BYTES],
                             tfos_error *error);

/* A random key, from the kernel. */
tfos_status tfos__key_make(uint8_t key[TFOS__KEY_BYTES], tfos_error *error);

/* Compares without telling by its time where the difference is. */
bool tfos__secret_equal(const void *a, const void *b, size_t count);

/* Overwrites a secret in a way that the compiler keeps. */
void tfos__secret_wipe(void *bytes, size_t count);

#endif
