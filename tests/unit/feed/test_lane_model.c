/* The protocol of lanes and bells in every interleaving of its steps.
 *
 * What runs here is the code itself: bell.c and lane.c are part of this file, with every atomic access turned into a
 * step of the explorer (helper_interleave.h) followed by that access, and the futex replaced by one that wakes nobody
 * but those who sleep. So there is no model that could differ from what it stands for.
 *
 * Around them are a producer, a consumer and an owner that use them as they are meant to be used. In every
 * interleaving: nobody sleeps while there is something to do; entries come once, whole and in order; what the owner
 * counts after closing the head is what the consumer reads. Each rule of the protocol is then broken once, and that
 * must be seen. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "helper_interleave.h"
#include "helper_records.h"

/* ---- what the test itself does, which is no step ---- */

static uint32_t now_32(const _Atomic uint32_t *at)
{
    return atomic_load(at);
}

static uint64_t now_64(const _Atomic uint64_t *at)
{
    return atomic_load(at);
}

static void clear_32(_Atomic uint32_t *at)
{
    atomic_store(at, 0);
}

static void clear_64(_Atomic uint64_t *at)
{
    atomic_store(at, 0);
}

/* ---- steps in the place of atomic accesses ---- */

static uint64_t saw(uint64_t value)
{
    helper_saw(value);
    return value;
}

static uint32_t load_32(const _Atomic uint32_t *at)
{
    helper_step();
    return (uint32_t)saw(atomic_load(at));
}

static uint64_t load_64(const _Atomic uint64_t *at)
{
    helper_step();
    return saw(atomic_load(at));
}

static void store_64(_Atomic uint64_t *at, uint64_t value)
{
    helper_step();
    atomic_store(at, value);
}

static uint32_t add_32(_Atomic uint32_t *at, uint32_t value)
{
    helper_step();
    return (uint32_t)saw(atomic_fetch_add(at, value));
}

static uint64_t add_64(_Atomic uint64_t *at, uint64_t value)
{
    helper_step();
    return saw(atomic_fetch_add(at, value));
}

static uint64_t or_64(_Atomic uint64_t *at, uint64_t value)
{
    helper_step();
    return saw(atomic_fetch_or(at, value));
}

static bool swap_64(_Atomic uint64_t *at, uint64_t *found, uint64_t value)
{
    helper_step();
    bool swapped = atomic_compare_exchange_strong(at, found, value);
    saw(*found);
    return swapped;
}

/* Comparing and falling asleep are one step, as in the kernel. */
static void futex(const _Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
    (void)timeout; /* none of them is too short */
    helper_step();
    if (operation == FUTEX_WAKE) {
        helper_wake(word);
    } else if (saw(now_32(word)) == value) {
        helper_sleep(word);
    }
}

#define BY_WIDTH(at, narrow, wide)                                                                                     \
    _Generic((at), _Atomic uint32_t *                                                                                  \
             : narrow, const _Atomic uint32_t *                                                                        \
             : narrow, _Atomic uint64_t *                                                                              \
             : wide, const _Atomic uint64_t *                                                                          \
             : wide)

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or_explicit
#undef atomic_compare_exchange_strong_explicit
#define atomic_load_explicit(at, order) BY_WIDTH(at, load_32, load_64)(at)
#define atomic_store_explicit(at, value, order) store_64(at, value)
#define atomic_fetch_add_explicit(at, value, order) BY_WIDTH(at, add_32, add_64)(at, value)
#define atomic_fetch_sub_explicit(at, value, order) add_32(at, -(uint32_t)(value))
#define atomic_fetch_or_explicit(at, value, order) or_64(at, value)
#define atomic_compare_exchange_strong_explicit(at, found, value, order, otherwise) swap_64(at, found, value)
#define syscall(number, word, operation, value, timeout, ...) futex(word, operation, (uint32_t)(value), timeout)

#include "../../src/base/chime.c"
#include "../../src/feed/bell.c"
#include "../../src/feed/lane.c"

/* ---- what the actors do, and what may be wrong about it ---- */

enum { PRODUCER, CONSUMER, OWNER };

/* Functions and orders of the protocol, as they are or broken. */
typedef struct protocol {
    void (*wait)(tfos__bell *bell, uint32_t seen, int64_t timeout_ms);
    void (*ring)(tfos__bell *bell);
    tfos_status (*commit)(tfos__lane *lane, size_t bytes, uint64_t rows, uint64_t end_row, tfos_error *error);
    void (*count)(const tfos__lane *lane, tfos__lane_counts *out);
    bool look_before_reading_the_bell;
    bool ring_before_commit;
    bool ring_before_release;
    bool commit_before_writing;
    bool release_before_reading;
    bool no_ring_after_closing;
} protocol;

static const protocol as_written = {
    .wait = tfos__bell_wait, .ring = tfos__bell_ring, .commit = tfos__lane_commit, .count = tfos__lane_count};

/* What happens, and to whom. */
typedef struct story {
    int entries;
    size_t entry_bytes; /* of each; the ring has LEAST_BYTES */
    bool kill_producer; /* by the owner, before it closes */
    bool kill_consumer;
    bool close_tail;  /* the owner closes the tail and not the head */
    bool only_count;  /* the owner closes nothing */
    bool no_consumer; /* nor anybody to wake */
} story;

static const protocol *rules;
static const story *plot;
static bool with_owner;
static tfos__lane *lane;
static tfos__bell *producer_bell;
static tfos__bell *consumer_bell;

/* What came of it. */
static int committed; /* entries, as the producer was told */
static int consumed;  /* entries */
static bool owner_done;
static tfos__lane_counts counted;

/* Entry `number` has as many rows as its number says, so that every count belongs to one entry. */
static uint64_t rows_of(int entries)
{
    return (uint64_t)(entries * (entries + 1) / 2);
}

/* A step in the middle of an entry, for others to come in. Whether it is torn is a matter between the two ends: where
 * there is an owner, these steps would only add to what there is to explore. */
static void step_inside(void)
{
    if (!with_owner) {
        helper_step();
    }
}

/* An entry is its number, at both ends. */
static void write_entry(uint8_t *to, int number)
{
    step_inside();
    tfos__store_u32(to, (uint32_t)number);
    step_inside();
    tfos__store_u32(to + plot->entry_bytes - 4, (uint32_t)number);
}

static void read_entry(const uint8_t *from)
{
    step_inside();
    uint32_t first = (uint32_t)saw(tfos__load_u32(from));
    step_inside();
    uint32_t last = (uint32_t)saw(tfos__load_u32(from + plot->entry_bytes - 4));
    if (first != last || first != (uint32_t)consumed + 1) {
        helper_broken("an entry was lost, came twice, or was torn");
    }
}

/* True when there is room; false when the lane is closed. */
static bool wait_for_room(int number, uint8_t **to)
{
    for (;;) {
        helper_forget((uint64_t)number);
        uint32_t seen = rules->look_before_reading_the_bell ? 0 : tfos__bell_read(producer_bell);
        tfos_status status = tfos__lane_reserve(lane, plot->entry_bytes, to, NULL);
        if (status != TFOS_END) {
            return status == TFOS_OK;
        }
        seen = rules->look_before_reading_the_bell ? tfos__bell_read(producer_bell) : seen;
        rules->wait(producer_bell, seen, -1);
    }
}

static bool feed_entry(int number)
{
    uint8_t *to;
    if (!wait_for_room(number, &to)) {
        return false;
    }
    if (!rules->commit_before_writing) {
        write_entry(to, number);
    }
    if (rules->ring_before_commit) {
        rules->ring(consumer_bell);
    }
    if (rules->commit(lane, plot->entry_bytes, (uint64_t)number, rows_of(number), NULL) != TFOS_OK) {
        return false;
    }
    committed = number;
    if (rules->commit_before_writing) {
        write_entry(to, number);
    }
    if (!rules->ring_before_commit) {
        rules->ring(consumer_bell);
    }
    return true;
}

static void produce(void)
{
    for (int number = 1; number <= plot->entries; number++) {
        if (!feed_entry(number)) {
            return;
        }
    }
    tfos__lane_close_head(lane);
    rules->ring(consumer_bell);
}

static void take_entry(const uint8_t *from)
{
    if (!rules->release_before_reading) {
        read_entry(from);
        tfos__lane_take_rows(lane, (uint64_t)consumed + 1);
    }
    if (rules->ring_before_release) {
        rules->ring(producer_bell);
    }
    tfos__lane_release(lane, plot->entry_bytes);
    if (rules->release_before_reading) {
        read_entry(from);
    }
    if (!rules->ring_before_release) {
        rules->ring(producer_bell);
    }
    consumed++;
}

static void consume(void)
{
    for (;;) {
        const uint8_t *from;
        size_t bytes;
        bool fed_out;
        helper_forget((uint64_t)consumed);
        uint32_t seen = rules->look_before_reading_the_bell ? 0 : tfos__bell_read(consumer_bell);
        if (tfos__lane_peek(lane, &from, &bytes, &fed_out, NULL) != TFOS_OK) {
            helper_broken("the words of the lane make no sense");
        }
        if (bytes >= plot->entry_bytes) {
            take_entry(from);
        } else if (fed_out) {
            return;
        } else {
            seen = rules->look_before_reading_the_bell ? tfos__bell_read(consumer_bell) : seen;
            rules->wait(consumer_bell, seen, -1);
        }
    }
}

static void stay_away(void)
{
}

/* What one count says must be true of one moment. */
static void check_count(void)
{
    uint64_t entries = counted.head / plot->entry_bytes;
    if (counted.fed_rows != rows_of((int)entries) || counted.end_row != counted.fed_rows) {
        helper_broken("the count of rows does not go with the head");
    }
    if (counted.consumed_rows > counted.fed_rows || counted.tail > counted.head) {
        helper_broken("more was consumed than fed");
    }
}

static void own(void)
{
    if (plot->kill_producer || plot->kill_consumer) {
        helper_step();
        helper_stop(plot->kill_producer ? PRODUCER : CONSUMER);
    }
    if (plot->close_tail) {
        tfos__lane_close_tail(lane);
    } else if (!plot->only_count) {
        tfos__lane_close_head(lane);
    }
    /* Once the head is closed, what is counted does not change; only the story about counting needs its steps. */
    helper_alone(!plot->only_count);
    rules->count(lane, &counted);
    check_count();
    helper_alone(false);
    helper_forget(counted.fed_rows);
    owner_done = true;
    if (!rules->no_ring_after_closing && !plot->only_count) {
        rules->ring(plot->kill_producer ? consumer_bell : producer_bell);
    }
    if (!rules->no_ring_after_closing && !plot->only_count && !plot->kill_producer && !plot->kill_consumer) {
        helper_forget(counted.fed_rows);
        rules->ring(consumer_bell);
    }
}

static void reset(void)
{
    lane_control *control = lane->control;
    clear_64(&control->head);
    clear_64(&control->tail);
    clear_64(&control->consumed_rows);
    for (int i = 0; i < 2; i++) {
        clear_64(&control->slot[i].fed_rows);
        clear_64(&control->slot[i].end_row);
    }
    tfos__bell *bells[] = {producer_bell, consumer_bell};
    for (int i = 0; i < 2; i++) {
        clear_32(&bells[i]->page->chime.rings);
        clear_32(&bells[i]->page->chime.waiting);
    }
    for (size_t at = 0; at < TFOS__LANE_LEAST_BYTES; at += plot->entry_bytes) {
        tfos__store_u32(lane->ring + at, 0);
        tfos__store_u32(lane->ring + at + plot->entry_bytes - 4, 0);
    }
    committed = 0;
    consumed = 0;
    owner_done = false;
}

static uint64_t fingerprint(void)
{
    const lane_control *control = lane->control;
    uint64_t hash = now_64(&control->head);
    hash = helper_mix(hash, now_64(&control->tail));
    hash = helper_mix(hash, now_64(&control->consumed_rows));
    for (int i = 0; i < 2; i++) {
        hash = helper_mix(hash, now_64(&control->slot[i].fed_rows));
        hash = helper_mix(hash, now_64(&control->slot[i].end_row));
    }
    const tfos__bell *bells[] = {producer_bell, consumer_bell};
    for (int i = 0; i < 2; i++) {
        hash = helper_mix(hash, now_32(&bells[i]->page->chime.rings));
        hash = helper_mix(hash, now_32(&bells[i]->page->chime.waiting));
    }
    for (size_t at = 0; at < TFOS__LANE_LEAST_BYTES; at += plot->entry_bytes) {
        hash = helper_mix(hash, tfos__load_u32(lane->ring + at));
        hash = helper_mix(hash, tfos__load_u32(lane->ring + at + plot->entry_bytes - 4));
    }
    return hash;
}

/* After everybody has come to the end. */
static const char *check(void)
{
    uint64_t head = position_of(now_64(&lane->control->head)) / plot->entry_bytes;
    if (!plot->kill_producer && head != (uint64_t)committed) {
        return "the producer was told something else than what is in the lane";
    }
    bool read_out = !plot->kill_consumer && !plot->close_tail && !plot->no_consumer;
    if (read_out && (uint64_t)consumed != head) {
        return "an entry that was committed was not read";
    }
    bool closed = owner_done && !plot->close_tail && !plot->only_count;
    if (closed && (counted.fed_rows != rows_of((int)head) || !counted.fed_out)) {
        return "something was committed after the fence";
    }
    return NULL;
}

static helper_outcome explore(const story *told, const protocol *by, bool owned)
{
    helper_world world = {.actors = owned ? 3 : 2,
                          .actor = {produce, told->no_consumer ? stay_away : consume, own},
                          .reset = reset,
                          .fingerprint = fingerprint,
                          .check = check,
                          .most_runs = 3000000};
    tfos__lane_id id = {.number = 1};
    plot = told;
    rules = by;
    with_owner = owned;
    assert_int_equal(tfos__lane_new(0, &id, &lane, NULL), TFOS_OK);
    assert_int_equal(tfos__bell_new(&producer_bell, NULL), TFOS_OK);
    assert_int_equal(tfos__bell_new(&consumer_bell, NULL), TFOS_OK);
    helper_outcome outcome = helper_interleave(&world);
    tfos__lane_free(lane);
    tfos__bell_free(producer_bell);
    tfos__bell_free(consumer_bell);
    return outcome;
}

/* ---- as it is written ---- */

enum { WHOLE = TFOS__LANE_LEAST_BYTES, HALF = WHOLE / 2 };

static const story fills_the_ring = {.entries = 2, .entry_bytes = WHOLE};
static const story wraps = {.entries = 3, .entry_bytes = HALF};
static const story fenced = {.entries = 2, .entry_bytes = HALF};
static const story fenced_when_full = {.entries = 2, .entry_bytes = WHOLE};
static const story producer_killed = {.entries = 2, .entry_bytes = HALF, .kill_producer = true};
static const story consumer_killed = {.entries = 2, .entry_bytes = WHOLE, .kill_consumer = true, .close_tail = true};
static const story watched = {.entries = 1, .entry_bytes = HALF, .only_count = true};
static const story watched_closely = {.entries = 3, .entry_bytes = HALF / 2, .only_count = true, .no_consumer = true};

static void expect_right(const story *told, const char *name, bool owned)
{
    helper_outcome outcome = explore(told, &as_written, owned);
    print_message("%s: %zu moments, %zu ends\n", name, outcome.moments, outcome.ends);
    if (outcome.failure != NULL) {
        fail_msg("%s: %s", name, outcome.failure);
    }
    assert_true(outcome.moments > 100 && outcome.ends > 1);
}

static void test_two_ends(void **state)
{
    (void)state;
    expect_right(&fills_the_ring, "each entry fills the ring", false);
    expect_right(&wraps, "half of the ring each", false);
}

static void test_a_fence_at_any_step(void **state)
{
    (void)state;
    expect_right(&fenced, "a fence", true);
    expect_right(&fenced_when_full, "a fence while the producer waits", true);
}

static void test_a_producer_killed_at_any_step(void **state)
{
    (void)state;
    expect_right(&producer_killed, "the producer is killed", true);
}

static void test_a_consumer_killed_at_any_step(void **state)
{
    (void)state;
    expect_right(&consumer_killed, "the consumer is killed", true);
}

static void test_counting_at_any_step(void **state)
{
    (void)state;
    expect_right(&watched, "somebody counts", true);
    expect_right(&watched_closely, "somebody counts while three are fed", true);
}

/* ---- broken on purpose ---- */

static void wait_without_telling(tfos__bell *bell, uint32_t seen, int64_t timeout_ms)
{
    sleep_unless_rung(&bell->page->chime.rings, seen, timeout_ms);
}

/* Looks, then tells that it waits, then sleeps without looking again. */
static void wait_telling_late(tfos__bell *bell, uint32_t seen, int64_t timeout_ms)
{
    if (atomic_load_explicit(&bell->page->chime.rings, memory_order_seq_cst) != seen) {
        return;
    }
    atomic_fetch_add_explicit(&bell->page->chime.waiting, 1, memory_order_seq_cst);
    sleep_unless_rung(&bell->page->chime.rings, now_32(&bell->page->chime.rings), timeout_ms);
    atomic_fetch_sub_explicit(&bell->page->chime.waiting, 1, memory_order_seq_cst);
}

static void ring_looking_early(tfos__bell *bell)
{
    bool waits = atomic_load_explicit(&bell->page->chime.waiting, memory_order_seq_cst) != 0;
    atomic_fetch_add_explicit(&bell->page->chime.rings, 1, memory_order_seq_cst);
    if (waits) {
        syscall(SYS_futex, &bell->page->chime.rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

static void ring_only_for_those_who_wait(tfos__bell *bell)
{
    if (atomic_load_explicit(&bell->page->chime.waiting, memory_order_seq_cst) != 0) {
        atomic_fetch_add_explicit(&bell->page->chime.rings, 1, memory_order_seq_cst);
        syscall(SYS_futex, &bell->page->chime.rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

static void ring_nobody(tfos__bell *bell)
{
    atomic_fetch_add_explicit(&bell->page->chime.rings, 1, memory_order_seq_cst);
}

static void write_slot(uint64_t which, uint64_t rows, uint64_t end_row)
{
    uint64_t before = now_64(&lane->control->slot[lane->reserved_at & SLOT].fed_rows);
    atomic_store_explicit(&lane->control->slot[which].fed_rows, before + rows, memory_order_release);
    atomic_store_explicit(&lane->control->slot[which].end_row, end_row, memory_order_release);
}

static tfos_status swap_head(size_t bytes, uint64_t which)
{
    uint64_t head = lane->reserved_at;
    return atomic_compare_exchange_strong_explicit(&lane->control->head, &head, (position_of(head) + bytes) | which,
                                                   memory_order_release, memory_order_relaxed)
               ? TFOS_OK
               : TFOS_CANCELLED;
}

static tfos_status commit_to_one_slot(tfos__lane *to, size_t bytes, uint64_t rows, uint64_t end_row, tfos_error *error)
{
    (void)to;
    (void)error;
    write_slot(0, rows, end_row);
    return swap_head(bytes, 0);
}

static tfos_status commit_counting_late(tfos__lane *to, size_t bytes, uint64_t rows, uint64_t end_row,
                                        tfos_error *error)
{
    (void)to;
    (void)error;
    uint64_t other = (lane->reserved_at & SLOT) ^ SLOT;
    TFOS_TRY(swap_head(bytes, other));
    write_slot(other, rows, end_row);
    return TFOS_OK;
}

static tfos_status commit_whatever_happened(tfos__lane *to, size_t bytes, uint64_t rows, uint64_t end_row,
                                            tfos_error *error)
{
    (void)to;
    (void)error;
    uint64_t other = (lane->reserved_at & SLOT) ^ SLOT;
    write_slot(other, rows, end_row);
    uint64_t head = load_64(&lane->control->head);
    store_64(&lane->control->head, ((position_of(head) + bytes) | other) | (head & CLOSED));
    return TFOS_OK;
}

/* Does not look whether head has moved. */
static void count_once(const tfos__lane *of, tfos__lane_counts *out)
{
    *out = (tfos__lane_counts){0};
    uint64_t head = atomic_load_explicit(&of->control->head, memory_order_acquire);
    out->head = position_of(head);
    out->fed_out = (head & CLOSED) != 0;
    out->fed_rows = atomic_load_explicit(&of->control->slot[head & SLOT].fed_rows, memory_order_acquire);
    out->end_row = atomic_load_explicit(&of->control->slot[head & SLOT].end_row, memory_order_acquire);
}

static void expect_wrong(const story *told, protocol broken, bool owned, const char *failure)
{
    broken.wait = broken.wait != NULL ? broken.wait : tfos__bell_wait;
    broken.ring = broken.ring != NULL ? broken.ring : tfos__bell_ring;
    broken.commit = broken.commit != NULL ? broken.commit : tfos__lane_commit;
    broken.count = broken.count != NULL ? broken.count : tfos__lane_count;
    helper_outcome outcome = explore(told, &broken, owned);
    assert_non_null(outcome.failure);
    helper_expect_text(outcome.failure, failure);
}

static void test_a_lost_ring_is_seen(void **state)
{
    (void)state;
    const char *sleeps = "somebody sleeps, and nobody is left to wake him";
    expect_wrong(&fills_the_ring, (protocol){.wait = wait_without_telling}, false, sleeps);
    expect_wrong(&fills_the_ring, (protocol){.wait = wait_telling_late}, false, sleeps);
    expect_wrong(&fills_the_ring, (protocol){.ring = ring_looking_early}, false, sleeps);
    expect_wrong(&fills_the_ring, (protocol){.ring = ring_only_for_those_who_wait}, false, sleeps);
    expect_wrong(&fills_the_ring, (protocol){.ring = ring_nobody}, false, sleeps);
    expect_wrong(&fills_the_ring, (protocol){.look_before_reading_the_bell = true}, false, sleeps);
    expect_wrong(&fills_the_ring, (protocol){.ring_before_release = true}, false, sleeps);
    expect_wrong(&producer_killed, (protocol){.no_ring_after_closing = true}, true, sleeps);
    expect_wrong(&consumer_killed, (protocol){.no_ring_after_closing = true}, true, sleeps);
    /* The close that follows the last entry rings again, so this takes a producer that dies in between. */
    expect_wrong(&producer_killed, (protocol){.ring_before_commit = true, .no_ring_after_closing = true}, true, sleeps);
}

static void test_a_torn_entry_is_seen(void **state)
{
    (void)state;
    const char *torn = "an entry was lost, came twice, or was torn";
    expect_wrong(&wraps, (protocol){.commit_before_writing = true}, false, torn);
    expect_wrong(&fills_the_ring, (protocol){.release_before_reading = true}, false, torn);
}

static void test_a_wrong_count_is_seen(void **state)
{
    (void)state;
    const char *count = "the count of rows does not go with the head";
    expect_wrong(&producer_killed, (protocol){.commit = commit_to_one_slot}, true, count);
    expect_wrong(&producer_killed, (protocol){.commit = commit_counting_late}, true, count);
    expect_wrong(&watched_closely, (protocol){.count = count_once}, true, count);
}

static void test_a_fence_with_a_hole_is_seen(void **state)
{
    (void)state;
    expect_wrong(&fenced, (protocol){.commit = commit_whatever_happened}, true,
                 "something was committed after the fence");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_ends),
        cmocka_unit_test(test_a_fence_at_any_step),
        cmocka_unit_test(test_a_producer_killed_at_any_step),
        cmocka_unit_test(test_a_consumer_killed_at_any_step),
        cmocka_unit_test(test_counting_at_any_step),
        cmocka_unit_test(test_a_lost_ring_is_seen),
        cmocka_unit_test(test_a_torn_entry_is_seen),
        cmocka_unit_test(test_a_wrong_count_is_seen),
        cmocka_unit_test(test_a_fence_with_a_hole_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
