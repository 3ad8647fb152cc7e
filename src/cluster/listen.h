/* Listening sockets of the coordinator: one for nodes, one for people. */
#ifndef TFOS_CLUSTER_LISTEN_H
#define TFOS_CLUSTER_LISTEN_H

#include <uv.h>

#include "tfos.h"

/* The ports that are tried in turn: {0, 0} for one that the system chooses. `setting` is what the user can change, for
 * messages. */
typedef struct tfos__ports {
    uint16_t first;
    uint16_t last;
    const char *setting;
} tfos__ports;

/* Listens on `host` if that is an address of this machine, else (a name that only others know, as behind a load
 * balancer) on all addresses. The caller has initialised `listener` and closes it, also after a failure. EXISTS: every
 * port is in use. */
tfos_status tfos__listen(uv_tcp_t *listener, const char *host, const tfos__ports *ports, uv_connection_cb on_connection,
                         uint16_t *port, tfos_error *error);

#endif
