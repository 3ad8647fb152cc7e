/* The machine that a process runs on: an id that containers on it share, too. */
#ifndef TFOS_NET_MACHINE_H
#define TFOS_NET_MACHINE_H

/* Empty when the kernel does not tell. */
void tfos__machine_id(char out[64]);

#endif
