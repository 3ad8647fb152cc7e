/* Every interleaving of a few actors: each runs real code on a stack of its own and stops before every access to memory
 * that others see; which of them goes on is tried in every order.
 *
 * An actor is where it is because of what it has read so far. So two moments with the same shared memory, at which
 * every actor has made as many steps and read the same values, have the same future, and only the first of them is
 * followed.
 *
 * Memory is sequentially consistent here; weaker orders are the matter of ThreadSanitizer and of the comments in the
 * code. */
#ifndef TFOS_TESTS_HELPER_INTERLEAVE_H
#define TFOS_TESTS_HELPER_INTERLEAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HELPER_ACTORS_MOST = 4 };

typedef struct helper_world {
    size_t actors;
    void (*actor[HELPER_ACTORS_MOST])(void);
    void (*reset)(void);           /* before each run */
    uint64_t (*fingerprint)(void); /* of the memory that they share, with helper_mix */
    const char *(*check)(void);    /* after each run: NULL, or which promise was broken */
    size_t most_runs;              /* a limit for the test, which fails beyond it */
} helper_world;

typedef struct helper_outcome {
    const char *failure; /* the first promise that was broken; NULL: none in any interleaving */
    size_t moments;      /* that differ, each followed in every way */
    size_t ends;         /* ways to come to the end */
} helper_outcome;

/* Stops at the first failure. */
helper_outcome helper_interleave(const helper_world *world);

static inline uint64_t helper_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

/* ---- called by actors ---- */

/* Before each access to shared memory. */
void helper_step(void);

/* Nobody else comes in between. */
void helper_alone(bool alone);

/* After each: what was read. */
void helper_saw(uint64_t value);

/* Where an actor stands at the top of a loop, what it does next depends on the shared memory and on this number alone:
 * what it saw before has no more consequences. The fewer moments differ, the longer the stories that can be told. */
void helper_forget(uint64_t but);

/* Falls asleep until helper_wake of the same word, without a step before. */
void helper_sleep(const volatile void *word);
void helper_wake(const volatile void *word);

/* The actor never runs again. */
void helper_stop(size_t actor);

/* A promise was broken: the run ends here. */
void helper_broken(const char *promise);

#endif
