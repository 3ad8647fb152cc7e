/* A socket that listens, in libuv's loop. */
#ifndef TFOS_SERVICE_LISTENER_H
#define TFOS_SERVICE_LISTENER_H

#include <uv.h>

#include "net/listen.h"

/* Listens as tfos__listen does. The caller has initialised `listener` and closes it, also after a failure. */
tfos_status tfos__listener_open(uv_tcp_t *listener, const char *host, const tfos__ports *ports,
                                uv_connection_cb on_connection, uint16_t *port, tfos_error *error);

#endif
