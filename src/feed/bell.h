/* A bell: one page of shared memory with a word that others ring and one waits for.
 *
 * A consumer has many lanes and a producer may have several; each of them waits for whichever comes first, so the word
 * it sleeps on belongs to the one who waits and not to a lane. A bell is a sealed memfd: its owner makes it, the file
 * descriptor travels to those who ring it.
 *
 *   0        8        12       16       24       32       40       64
 *   ┌────────┬────────┬────────┬────────┬────────┬────────┬────────┬─────────
 *   │ magic  │ rings  │waiting │ hungry │ given  │ taken  │ zero   │ zero …  4096
 *   └────────┴────────┴────────┴────────┴────────┴────────┴────────┴─────────
 *   rings     a futex: counts how often it was rung
 *   waiting   how many sleep on `rings`, so that nobody makes a system call for a waiter that is not there
 *   hungry    of a consumer's bell: since when (CLOCK_MONOTONIC, nanoseconds) it has waited for rows; 0: it has some
 *   given     … rows that producers have put into its lanes, and taken: that it will not see again. The difference is
 *             a hint for producers, who do not see each other's lanes; one that is killed may leave it a little wrong
 */
#ifndef TFOS_FEED_BELL_H
#define TFOS_FEED_BELL_H

#include "tfos.h"

typedef struct tfos__bell tfos__bell;

/* Makes a bell. */
tfos_status tfos__bell_new(tfos__bell **out, tfos_error *error);

/* Takes over the descriptor of a bell that another process made, whatever the result. CORRUPT if it is none: its size
 * and seals are checked before it is mapped, so that nobody can make us fault. */
tfos_status tfos__bell_adopt(int fd, tfos__bell **out, tfos_error *error);

/* The descriptor to be sent; it stays the bell's. */
int tfos__bell_fd(const tfos__bell *bell);

void tfos__bell_free(tfos__bell *bell);

/* What to pass to tfos__bell_wait: read it, then look whether there is something to do, then wait. */
uint32_t tfos__bell_read(const tfos__bell *bell);

/* Sleeps until the bell is rung after `seen` was read, or for `timeout_ms` (negative: without end). Also returns for no
 * reason. Thread: any. */
void tfos__bell_wait(tfos__bell *bell, uint32_t seen, int64_t timeout_ms);

/* Wakes whoever waits. Thread: any. */
void tfos__bell_ring(tfos__bell *bell);

/* Rows are in a lane of the owner, and are not any more. How many there are. */
void tfos__bell_give(tfos__bell *bell, uint64_t rows);
void tfos__bell_take(tfos__bell *bell, uint64_t rows);
uint64_t tfos__bell_backlog(const tfos__bell *bell);

void tfos__bell_set_hungry(tfos__bell *bell, uint64_t since_ns);
uint64_t tfos__bell_hungry(const tfos__bell *bell);

#endif
