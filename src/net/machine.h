/* The names of machines and addresses. */
#ifndef TFOS_NET_MACHINE_H
#define TFOS_NET_MACHINE_H

#include <sys/socket.h>

enum { TFOS__ADDRESS_BYTES = 80, TFOS__HOST_BYTES = 256 };

/* The kernel's boot id: the same for all processes of a machine, in whatever container, until it is started again. */
void tfos__machine_id(char out[64]);

enum { TFOS__PLACE_BYTES = 128 };

/* Where a process is, as far as memory can be shared: the machine, the network namespace, whose abstract sockets it
 * sees, and the user. Two with the same text can pass each other descriptors. */
void tfos__machine_place(char out[TFOS__PLACE_BYTES]);

/* "10.0.0.7:41234" or "[fe80::1]:41234", for people; an address of IPv4 in the clothes of IPv6 is shown without. */
void tfos__address_name(const struct sockaddr *address, socklen_t bytes, char out[TFOS__ADDRESS_BYTES]);

/* A host as resolvers take it: an address of IPv6 may come in brackets, as Spark writes it. */
void tfos__host_bare(const char *host, char out[TFOS__HOST_BYTES]);

#endif
