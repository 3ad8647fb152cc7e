/* Sockets that listen: of the coordinator, for nodes and for people; of a node, for producers elsewhere. */
#ifndef TFOS_NET_LISTEN_H
#define TFOS_NET_LISTEN_H

#include "tfos.h"

/* The ports that are tried in turn: {0, 0} for one that the system chooses. `setting` is what the user can change, for
 * messages. */
typedef struct tfos__ports {
    uint16_t first;
    uint16_t last;
    const char *setting;
} tfos__ports;

/* "9997", "9997-9999", or NULL or empty for any. INVALID for nonsense, by the name of `out->setting`. */
tfos_status tfos__ports_parse(const char *text, tfos__ports *out, tfos_error *error);

/* A socket that listens and does not block, on `host` if that is an address of this machine, else (a name that only
 * others know, as behind a load balancer, or empty) on all addresses, of IPv6 and IPv4. EXISTS: every port is in use.
 */
tfos_status tfos__listen(const char *host, const tfos__ports *ports, int *out, uint16_t *port, tfos_error *error);

#endif
