/* What a driver asks for, checked and made into the two messages that say it: OPEN to the coordinator, and the ticket
 * from which every node is started. */
#ifndef TFOS_DRIVER_PLAN_H
#define TFOS_DRIVER_PLAN_H

#include "base/tls.h"
#include "driver/roles.h"
#include "net/listen.h"

typedef struct tfos__plan {
    tfos__roles roles;
    uint8_t key[TFOS__KEY_BYTES];
    char name[64];
    tfos__ports ports;
    tfos__ports status_ports;
    int64_t beat_ms;
    int64_t lease_ms;
    int64_t kill_ms;
    const char *host; /* of the options or the environment */
} tfos__plan;

/* Checks the options, takes the settings and makes the cluster's key and name. */
tfos_status tfos__plan_make(const tfos_cluster_options *options, tfos__plan *out, tfos_error *error);

/* The frame of OPEN. */
tfos_status tfos__plan_open(const tfos__plan *plan, const tfos_cluster_options *options, tfos__buffer *frame,
                            tfos_error *error);

/* The frame of START, with what all nodes have in common. Tasks append to it, so its length is not the last word. */
tfos_status tfos__plan_ticket(const tfos__plan *plan, const tfos_cluster_options *options, const char *host,
                              uint64_t port, tfos__buffer *frame, tfos_error *error);

#endif
