/* A chime: two words in memory that processes share, by which some sleep until another one rings. What they wait for is
 * their own matter: whoever waits reads the chime, looks whether there is something to do, and then sleeps. */
#ifndef TFOS_BASE_CHIME_H
#define TFOS_BASE_CHIME_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct tfos__chime {
    _Atomic uint32_t rings;   /* a futex: counts how often it was rung */
    _Atomic uint32_t waiting; /* how many sleep, so that nobody makes a system call for a waiter that is not there */
} tfos__chime;

/* What to pass to tfos__chime_wait. */
uint32_t tfos__chime_read(const tfos__chime *chime);

/* Sleeps until it is rung after `seen` was read, or for `timeout_ms` (negative: without end). Also returns for no
 * reason. */
void tfos__chime_wait(tfos__chime *chime, uint32_t seen, int64_t timeout_ms);

/* Wakes all that wait. */
void tfos__chime_ring(tfos__chime *chime);

#endif
