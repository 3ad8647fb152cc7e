/* Both ends of a lane as threads, for ThreadSanitizer to watch: millions of rows through a small ring, counted and
 * fenced by a third thread meanwhile. Both threads use one lane and not a mapping each, because only so the sanitizer
 * sees that they touch the same memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "helper_lanes.h"
#include "helper_records.h"

enum { BATCH_ROWS = 10007 };

typedef struct pair {
    tfos__lane *lane;
    tfos__bell *bells[2];
    helper_producer producer;
    helper_consumer consumer;
    uint64_t end_row;
    tfos_status status;
    atomic_bool ended;
} pair;

static tfos_batch *batch;

static void make_pair(pair *self, uint64_t seed, int64_t most_rows, uint64_t end_row)
{
    tfos__lane_id id = {.number = seed};
    *self = (pair){.end_row = end_row};
    assert_int_equal(tfos__lane_new(0, &id, &self->lane, NULL), TFOS_OK);
    assert_int_equal(tfos__bell_new(&self->bells[0], NULL), TFOS_OK);
    assert_int_equal(tfos__bell_new(&self->bells[1], NULL), TFOS_OK);
    self->producer = (helper_producer){.lane = self->lane,
                                       .bell = self->bells[0],
                                       .consumer_bell = self->bells[1],
                                       .batch = batch,
                                       .random = seed,
                                       .most_rows = most_rows};
    self->consumer =
        (helper_consumer){.lane = self->lane, .bell = self->bells[1], .producer_bell = self->bells[0], .batch = batch};
}

static void free_pair(pair *self)
{
    helper_consumer_reset(&self->consumer);
    tfos__lane_free(self->lane);
    tfos__bell_free(self->bells[0]);
    tfos__bell_free(self->bells[1]);
}

static void *produce(void *context)
{
    pair *self = context;
    self->status = helper_produce(&self->producer, self->end_row);
    return NULL;
}

static void *consume(void *context)
{
    pair *self = context;
    helper_consume_all(&self->consumer);
    atomic_store(&self->ended, true);
    return NULL;
}

static pthread_t start(void *(*function)(void *), pair *self)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, function, self), 0);
    return thread;
}

static void join(pthread_t thread)
{
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Counts until the consumer is done; each count must be true of one moment, and none goes back. */
static size_t watch(pair *self)
{
    tfos__lane_counts last = {0};
    size_t times = 0;
    for (; !atomic_load(&self->ended); times++) {
        tfos__lane_counts counts;
        tfos__lane_count(self->lane, &counts);
        assert_int_equal(counts.fed_rows, counts.end_row);
        assert_true(counts.consumed_rows <= counts.fed_rows && counts.tail <= counts.head);
        assert_true(counts.fed_rows >= last.fed_rows && counts.consumed_rows >= last.consumed_rows);
        assert_true((counts.head == last.head) == (counts.fed_rows == last.fed_rows) || last.head == 0);
        assert_true(tfos__lane_used(self->lane) <= tfos__lane_ring_bytes(self->lane));
        last = counts;
    }
    return times;
}

static void run_rows(uint64_t seed, int64_t most_rows, uint64_t end_row)
{
    pair self;
    make_pair(&self, seed, most_rows, end_row);
    pthread_t consumer = start(consume, &self);
    pthread_t producer = start(produce, &self);
    assert_true(watch(&self) > 0);
    join(producer);
    join(consumer);
    assert_int_equal(self.status, TFOS_OK);
    assert_int_equal(self.consumer.next_row, end_row);
    tfos__lane_counts counts;
    tfos__lane_count(self.lane, &counts);
    assert_int_equal(counts.fed_rows, end_row);
    assert_int_equal(counts.consumed_rows, end_row);
    assert_int_equal(counts.head, counts.tail);
    assert_true(counts.fed_out);
    free_pair(&self);
}

static void test_millions_of_rows(void **state)
{
    (void)state;
    run_rows(1, 900, 2000000);
    run_rows(2, 100, 500000);
    run_rows(3, 2, 40000);
}

/* The owner closes the head at any time: what was committed is read, and the count says how much that was. */
static void test_fences_at_random_moments(void **state)
{
    (void)state;
    uint64_t random = 77;
    uint64_t fenced_rows = 0;
    for (int round = 0; round < 150; round++) {
        pair self;
        make_pair(&self, 100 + (uint64_t)round, 20, INT64_MAX);
        pthread_t consumer = start(consume, &self);
        pthread_t producer = start(produce, &self);
        usleep((useconds_t)(helper_random(&random) % 2000));
        tfos__lane_counts counts;
        tfos__lane_close_head(self.lane);
        tfos__lane_count(self.lane, &counts);
        tfos__bell_ring(self.bells[0]);
        tfos__bell_ring(self.bells[1]);
        join(producer);
        join(consumer);
        assert_int_equal(self.status, TFOS_CANCELLED);
        assert_true(counts.fed_out);
        assert_int_equal(counts.end_row, self.producer.next_row);
        assert_int_equal(counts.end_row, self.consumer.next_row);
        fenced_rows += counts.end_row;
        free_pair(&self);
    }
    assert_true(fenced_rows > 0);
}

/* The consumer gives up at any time: the producer learns it, also if it waits for room. */
static void test_consumers_that_give_up(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        pair self;
        make_pair(&self, 300 + (uint64_t)round, 50, INT64_MAX);
        pthread_t producer = start(produce, &self);
        for (int i = 0; i < round; i++) {
            helper_consume(&self.consumer);
        }
        tfos__lane_close_tail(self.lane);
        tfos__bell_ring(self.bells[0]);
        join(producer);
        assert_int_equal(self.status, TFOS_CANCELLED);
        free_pair(&self);
    }
}

/* Several producers ring one bell, whose owner goes to sleep whenever there is nothing. */
static void test_one_bell_for_several_lanes(void **state)
{
    (void)state;
    enum { LANES = 4, ROWS = 60000 };
    pair pairs[LANES];
    pthread_t producers[LANES];
    for (int i = 0; i < LANES; i++) {
        make_pair(&pairs[i], 500 + (uint64_t)i, 30, ROWS);
        pairs[i].producer.consumer_bell = pairs[0].bells[1];
    }
    for (int i = 0; i < LANES; i++) {
        producers[i] = start(produce, &pairs[i]);
    }
    for (int open = LANES; open > 0;) {
        uint32_t seen = tfos__bell_read(pairs[0].bells[1]);
        size_t used = 0;
        open = 0;
        for (int i = 0; i < LANES; i++) {
            used += tfos__lane_used(pairs[i].lane);
            open += helper_consume(&pairs[i].consumer);
        }
        if (open > 0 && used == 0) {
            tfos__bell_wait(pairs[0].bells[1], seen, -1);
        }
    }
    for (int i = 0; i < LANES; i++) {
        join(producers[i]);
        assert_int_equal(pairs[i].status, TFOS_OK);
        assert_int_equal(pairs[i].consumer.next_row, ROWS);
        free_pair(&pairs[i]);
    }
}

static int setup(void **state)
{
    (void)state;
    batch = helper_numbered_batch(BATCH_ROWS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tfos_batch_free(batch);
    return 0;
}

/* ---- a consumer that leaves ---- */

typedef struct leaving {
    tfos__lane *lane;
    atomic_int turn; /* 1: the consumer's, 2: it is to end */
} leaving;

static void *take_and_leave(void *context)
{
    leaving *shared = context;
    for (int turn = 0; turn != 2; turn = atomic_load(&shared->turn)) {
        const uint8_t *bytes;
        size_t count;
        bool fed_out;
        if (turn == 0) {
            sched_yield();
            continue;
        }
        assert_int_equal(tfos__lane_peek(shared->lane, &bytes, &count, &fed_out, NULL), TFOS_OK);
        tfos__lane_take_rows(shared->lane, 1);
        tfos__lane_release(shared->lane, count);
        tfos__lane_close_tail(shared->lane);
        atomic_store(&shared->turn, 0);
    }
    return NULL;
}

/* Whoever sees that nothing more is taken also sees what was: or rows would count as dropped that were not. */
static void test_what_was_taken_before_leaving(void **state)
{
    (void)state;
    enum { LANES = 2000 };
    leaving shared = {0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_and_leave, &shared), 0);
    for (uint64_t i = 0; i < LANES; i++) {
        const tfos__lane_id id = {.number = i};
        tfos__lane_counts counts;
        uint8_t *to;
        assert_int_equal(tfos__lane_new(TFOS__LANE_LEAST_BYTES, &id, &shared.lane, NULL), TFOS_OK);
        assert_int_equal(tfos__lane_reserve(shared.lane, 64, &to, NULL), TFOS_OK);
        assert_int_equal(tfos__lane_commit(shared.lane, 64, 1, 1, NULL), TFOS_OK);
        atomic_store(&shared.turn, 1);
        do {
            tfos__lane_count(shared.lane, &counts);
        } while (!counts.given_up);
        assert_int_equal(counts.consumed_rows, 1);
        while (atomic_load(&shared.turn) != 0) {
            sched_yield();
        }
        tfos__lane_free(shared.lane);
    }
    atomic_store(&shared.turn, 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_millions_of_rows),
        cmocka_unit_test(test_fences_at_random_moments),
        cmocka_unit_test(test_consumers_that_give_up),
        cmocka_unit_test(test_one_bell_for_several_lanes),
        cmocka_unit_test(test_what_was_taken_before_leaving),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
