/* A TCP port that is kept for a program which is started later. */
#ifndef TFOS_NODE_PORT_H
#define TFOS_NODE_PORT_H

#include "tfos.h"

typedef struct tfos__port {
    int socket; /* -1: not held */
    int guard;  /* of a port that was handed over; -1: none */
    uint16_t number;
} tfos__port;

#define TFOS__PORT_NONE ((tfos__port){.socket = -1, .guard = -1})

/* Takes a port of this machine: any if `wanted` is NULL or empty, else "9000" or the first free of "9000-9010". Nobody
 * else gets it while it is held. INVALID for nonsense, EXISTS if all that are wanted are taken. */
tfos_status tfos__port_reserve(const char *wanted, tfos__port *out, tfos_error *error);

/* Gives the port up in such a way that the kernel hands it to nobody for a minute but to a program that asks for this
 * very number with SO_REUSEADDR, as TensorFlow does. */
void tfos__port_release(tfos__port *port);

/* Gives the port up to a program that has asked for it and takes it at once, with SO_REUSEADDR or without. Until
 * tfos__port_release the kernel hands it to nobody who connects, and to no server but one of IPv4 alone; where the
 * machine has no IPv6, to anybody. */
void tfos__port_hand_over(tfos__port *port);

#endif
