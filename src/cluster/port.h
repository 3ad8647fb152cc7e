/* A TCP port that is kept for a program which is started later. */
#ifndef TFOS_CLUSTER_PORT_H
#define TFOS_CLUSTER_PORT_H

#include "tfos.h"

typedef struct tfos__port {
    int socket; /* -1: not held */
    uint16_t number;
} tfos__port;

/* Takes a port of this machine: any if `wanted` is NULL or empty, else "9000" or the first free of "9000-9010". Nobody
 * else gets it while it is held. INVALID for nonsense, EXISTS if all that are wanted are taken. */
tfos_status tfos__port_reserve(const char *wanted, tfos__port *out, tfos_error *error);

/* Gives the port up in such a way that the kernel hands it to nobody for a minute but to a program that asks for this
 * very number with SO_REUSEADDR, as TensorFlow does. */
void tfos__port_release(tfos__port *port);

#endif
