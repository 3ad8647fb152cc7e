/* Every interleaving, by running again: a run follows the choices of the one before up to the last that can be made
 * differently, and ends where another run has been. Actors are fibers that live as long as the exploration; a run that
 * is given up sends each of them back to its beginning. */
#include "helper_interleave.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#elif __has_feature(thread_sanitizer)
#define WITH_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define WITH_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define WITH_TSAN 1
#endif

#ifdef WITH_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif

enum { STACK_BYTES = 256 << 10, STEPS_MOST = 1000 };

typedef enum state { READY, ASLEEP, ENDED } state;

/* A stack to run on. */
typedef struct fiber {
    ucontext_t context;
    void *stack;
    size_t stack_bytes;
#ifdef WITH_ASAN
    void *fake_stack;
#endif
#ifdef WITH_TSAN
    void *tsan;
#endif
} fiber;

typedef struct actor {
    fiber fiber;
    state state;
    const volatile void *bed;
    uint64_t past; /* of its steps and what it saw */
    jmp_buf beginning;
} actor;

/* A moment at which a choice is made. */
typedef struct node {
    unsigned left; /* who else can go on, and was not tried */
    unsigned chosen;
} node;

static const helper_world *world;
static fiber home;
static actor actors[HELPER_ACTORS_MOST];
static size_t running;
static bool giving_up;
static bool alone;
static const char *failure;
static node path[STEPS_MOST];
static uint64_t *known;     /* moments where a run has been; 0: a free place */
static size_t known_places; /* a power of two */
static size_t known_count;

/* ---- fibers ---- */

static void switch_fiber(fiber *from, fiber *to)
{
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_bytes);
#endif
#ifdef WITH_TSAN
    __tsan_switch_to_fiber(to->tsan, 0);
#endif
    swapcontext(&from->context, &to->context);
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

static void leave(void)
{
    switch_fiber(&actors[running].fiber, &home);
}

/* Runs the actor `running` again and again, once for each run. */
static void live(void)
{
    actor *self = &actors[running];
#ifdef WITH_ASAN
    const void *bottom;
    __sanitizer_finish_switch_fiber(NULL, &bottom, &home.stack_bytes);
    home.stack = (void *)(size_t)bottom;
#endif
    for (;;) {
        if (setjmp(self->beginning) == 0) {
            world->actor[running]();
        }
        self->state = ENDED;
        leave();
    }
}

static void enter(size_t index)
{
    running = index;
    switch_fiber(&home, &actors[index].fiber);
}

static void make_fiber(fiber *made)
{
    *made = (fiber){.stack_bytes = STACK_BYTES, .stack = malloc(STACK_BYTES)};
    if (made->stack == NULL || getcontext(&made->context) != 0) {
        abort();
    }
    made->context.uc_stack.ss_sp = made->stack;
    made->context.uc_stack.ss_size = STACK_BYTES;
#ifdef WITH_TSAN
    made->tsan = __tsan_create_fiber(0);
#endif
    makecontext(&made->context, live, 0);
}

static void make_fibers(void)
{
#ifdef WITH_TSAN
    home.tsan = __tsan_get_current_fiber();
#endif
    for (size_t i = 0; i < world->actors; i++) {
        make_fiber(&actors[i].fiber);
    }
}

static void free_fibers(void)
{
    for (size_t i = 0; i < world->actors; i++) {
#ifdef WITH_TSAN
        __tsan_destroy_fiber(actors[i].fiber.tsan);
#endif
        free(actors[i].fiber.stack);
    }
}

/* ---- what actors call ---- */

static void leave_or_begin_again(void)
{
    leave();
    if (giving_up) {
        longjmp(actors[running].beginning, 1);
    }
}

void helper_alone(bool yes)
{
    alone = yes;
}

void helper_step(void)
{
    if (alone) {
        return;
    }
    actors[running].past = helper_mix(actors[running].past, 1);
    leave_or_begin_again();
}

void helper_saw(uint64_t value)
{
    actors[running].past = helper_mix(actors[running].past, value);
}

void helper_forget(uint64_t but)
{
    actors[running].past = helper_mix(running + 1, but);
}

void helper_sleep(const volatile void *word)
{
    actors[running].bed = word;
    actors[running].state = ASLEEP;
    leave_or_begin_again();
}

void helper_wake(const volatile void *word)
{
    for (size_t i = 0; i < world->actors; i++) {
        if (actors[i].state == ASLEEP && actors[i].bed == word) {
            actors[i].state = READY;
        }
    }
}

void helper_stop(size_t index)
{
    if (actors[index].state != ENDED) {
        actors[index].state = ASLEEP;
        actors[index].bed = &actors[index]; /* nobody wakes it there */
    }
}

void helper_broken(const char *promise)
{
    failure = promise;
    giving_up = true;
    longjmp(actors[running].beginning, 1);
}

/* ---- exploring ---- */

/* The moment, as one number; never 0. */
static uint64_t moment(void)
{
    uint64_t hash = world->fingerprint();
    for (size_t i = 0; i < world->actors; i++) {
        hash = helper_mix(helper_mix(hash, actors[i].past), (uint64_t)actors[i].state);
    }
    return hash | 1;
}

static bool insert(uint64_t *places, size_t count, uint64_t hash)
{
    size_t at = hash & (count - 1);
    for (; places[at] != 0; at = (at + 1) & (count - 1)) {
        if (places[at] == hash) {
            return false;
        }
    }
    places[at] = hash;
    return true;
}

/* Whether no run has been here. */
static bool is_new(uint64_t hash)
{
    if (known_count * 2 >= known_places) {
        size_t places = known_places == 0 ? 1 << 16 : known_places * 2;
        uint64_t *larger = calloc(places, sizeof *larger);
        if (larger == NULL) {
            abort();
        }
        for (size_t i = 0; i < known_places; i++) {
            if (known[i] != 0) {
                insert(larger, places, known[i]);
            }
        }
        free(known);
        known = larger;
        known_places = places;
    }
    bool added = insert(known, known_places, hash);
    known_count += added;
    return added;
}

static unsigned ready(void)
{
    unsigned mask = 0;
    for (size_t i = 0; i < world->actors; i++) {
        mask |= actors[i].state == READY ? 1u << i : 0;
    }
    return mask;
}

static bool all_ended(void)
{
    for (size_t i = 0; i < world->actors; i++) {
        if (actors[i].state != ENDED && actors[i].bed != &actors[i]) {
            return false;
        }
    }
    return true;
}

static void begin(void)
{
    giving_up = false;
    alone = false;
    failure = NULL;
    world->reset();
    for (size_t i = 0; i < world->actors; i++) {
        actors[i].state = READY;
        actors[i].bed = NULL;
        actors[i].past = i + 1;
        enter(i); /* up to its first step */
    }
}

/* Sends everybody home who has not come to the end. */
static void end(void)
{
    giving_up = true;
    for (size_t i = 0; i < world->actors; i++) {
        if (actors[i].state != ENDED) {
            enter(i);
        }
    }
}

/* Runs once, along the first `given` choices of the path and then always by the first that is left. Returns the length
 * of the path; *at_end is set if everybody came to the end. */
static size_t run(size_t given, bool *at_end)
{
    size_t depth = 0;
    *at_end = false;
    begin();
    for (; failure == NULL; depth++) {
        unsigned enabled = ready();
        if (enabled == 0) {
            *at_end = true;
            failure = all_ended() ? world->check() : "somebody sleeps, and nobody is left to wake him";
            break;
        }
        if (depth == STEPS_MOST) {
            failure = "it does not come to an end";
            break;
        }
        if (depth >= given) {
            if (!is_new(moment())) {
                break;
            }
            unsigned chosen = (unsigned)__builtin_ctz(enabled);
            path[depth] = (node){.left = enabled & ~(1u << chosen), .chosen = chosen};
        }
        enter(path[depth].chosen);
    }
    const char *found = failure;
    end();
    failure = found;
    return depth;
}

/* Goes back to the last choice that can be made differently, and makes it. False: there is none. */
static bool choose_next(size_t *depth)
{
    for (; *depth > 0; (*depth)--) {
        node *at = &path[*depth - 1];
        if (at->left != 0) {
            at->chosen = (unsigned)__builtin_ctz(at->left);
            at->left &= at->left - 1;
            return true;
        }
    }
    return false;
}

helper_outcome helper_interleave(const helper_world *of)
{
    helper_outcome outcome = {0};
    size_t depth = 0;
    size_t runs = 0;
    bool at_end;
    world = of;
    make_fibers();
    do {
        depth = run(depth, &at_end);
        outcome.ends += at_end;
        if (failure == NULL && ++runs > of->most_runs) {
            failure = "there are more interleavings than the test has time for";
        }
    } while (failure == NULL && choose_next(&depth));
    outcome.failure = failure;
    outcome.moments = known_count;
    free_fibers();
    free(known);
    known = NULL;
    known_places = 0;
    known_count = 0;
    return outcome;
}
