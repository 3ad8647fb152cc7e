/* The consumer in several threads: producers that fill lanes, two queues that are read at the same time, one queue that
 * several read, and results that are given while rows are taken. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"
#include "helper_feed.h"

enum { ENTRIES = 400, ENTRY_ROWS = 50, LANES = 3, ROWS = ENTRIES * ENTRY_ROWS };

typedef struct producing {
    pthread_t thread;
    helper_feed *feed;
    helper_lane lane;
    int64_t first;
} producing;

static void *produce(void *context)
{
    producing *self = context;
    for (int64_t i = 0; i < ENTRIES; i++) {
        helper_lane_put_numbers(&self->lane, self->feed, self->first + i * ENTRY_ROWS, ENTRY_ROWS);
    }
    helper_lane_end(&self->lane, self->feed);
    return NULL;
}

static void start_producing(producing *self, helper_feed *feed, const char *queue, int64_t first, bool inference)
{
    self->feed = feed;
    self->first = first;
    helper_lane_open(&self->lane, feed, queue, (uint64_t)first, inference);
    assert_int_equal(pthread_create(&self->thread, NULL, produce, self), 0);
}

static void end_producing(producing *self)
{
    pthread_join(self->thread, NULL);
    helper_lane_close(&self->lane);
}

typedef struct taking {
    pthread_t thread;
    tfos_feed *feed;
    atomic_uchar *seen; /* how often each number came */
    int64_t taken;
    tfos_status status;
} taking;

static void *take_all(void *context)
{
    taking *self = context;
    tfos_feed_want want;
    tfos_feed_want_init(&want, sizeof want);
    want.rows = 64;
    for (;;) {
        tfos_batch *batch = NULL;
        self->status = tfos_feed_next(self->feed, &want, &batch, NULL);
        if (self->status != TFOS_OK) {
            return NULL;
        }
        const int64_t *numbers = tfos_batch_column(batch, 0)->data;
        for (int64_t i = 0; i < tfos_batch_rows(batch); i++) {
            atomic_fetch_add(&self->seen[numbers[i]], 1);
        }
        self->taken += tfos_batch_rows(batch);
        tfos_batch_free(batch);
    }
}

static void start_taking(taking *self, tfos_feed *feed, atomic_uchar *seen)
{
    *self = (taking){.feed = feed, .seen = seen};
    assert_int_equal(pthread_create(&self->thread, NULL, take_all, self), 0);
}

/* Two queues, one of them read by two threads: every row once, in one of them. */
static void test_rows_are_taken_once(void **state)
{
    (void)state;
    static atomic_uchar seen[2][LANES * ROWS];
    helper_feed feed;
    producing producers[2][LANES];
    taking takers[3];
    helper_feed_open(&feed);
    tfos_feed *queues[2] = {helper_feed_queue(&feed, "input"), helper_feed_queue(&feed, "validation")};
    for (size_t q = 0; q < 2; q++) {
        for (size_t i = 0; i < LANES; i++) {
            start_producing(&producers[q][i], &feed, q == 0 ? "input" : "validation", (int64_t)i * ROWS, false);
        }
    }
    for (size_t i = 0; i < 3; i++) {
        start_taking(&takers[i], queues[i == 2], seen[i == 2]);
    }
    for (size_t i = 0; i < 2 * LANES; i++) {
        end_producing(&producers[i / LANES][i % LANES]);
    }
    helper_feed_say(&feed, TFOS__PACKET_END, "", 0);
    for (size_t i = 0; i < 3; i++) {
        pthread_join(takers[i].thread, NULL);
        assert_int_equal(takers[i].status, TFOS_END);
    }
    assert_int_equal(takers[0].taken + takers[1].taken, LANES * ROWS);
    for (size_t i = 0; i < 2 * LANES * ROWS; i++) {
        assert_int_equal(seen[i / (LANES * ROWS)][i % (LANES * ROWS)], 1);
    }
    assert_int_equal(tfos__bell_hungry(feed.bell), 0);
    tfos_feed_close(queues[0]);
    tfos_feed_close(queues[1]);
    helper_feed_close(&feed);
}

static void wait_until_hungry(const helper_feed *feed, bool hungry)
{
    int64_t deadline = tfos__clock_ms() + 10000;
    while ((tfos__bell_hungry(feed->bell) != 0) != hungry) {
        assert_true(tfos__clock_ms() < deadline);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* One thread waits for rows of one queue while another gets those of the other: the node is hungry all the time. */
static void test_hunger_of_one_queue_is_not_stilled_by_another(void **state)
{
    (void)state;
    static atomic_uchar seen[100];
    helper_feed feed;
    helper_lane lane;
    taking taker;
    tfos_batch *batch = NULL;
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    tfos_feed *other = helper_feed_queue(&feed, "validation");
    start_taking(&taker, input, seen);
    wait_until_hungry(&feed, true);
    const uint64_t since = tfos__bell_hungry(feed.bell);
    helper_lane_open(&lane, &feed, "validation", 0, false);
    for (int64_t i = 0; i < 20; i++) {
        const tfos_feed_want want = helper_want_within(1, 1);
        if (i % 2 == 0) {
            helper_lane_put_numbers(&lane, &feed, i, 1);
        }
        assert_int_equal(tfos_feed_next(other, &want, &batch, NULL), i % 2 == 0 ? TFOS_OK : TFOS_CANCELLED);
        tfos_batch_free(batch);
        batch = NULL;
        assert_int_equal(tfos__bell_hungry(feed.bell), since);
    }
    helper_feed_say(&feed, TFOS__PACKET_END, "", 0);
    pthread_join(taker.thread, NULL);
    wait_until_hungry(&feed, false);
    helper_lane_close(&lane);
    tfos_feed_close(input);
    tfos_feed_close(other);
    helper_feed_close(&feed);
}

/* A thread that waits its turn can be interrupted, and has it at once when the other is done. */
static void test_a_turn_is_waited_for(void **state)
{
    (void)state;
    static atomic_uchar seen[100];
    helper_feed feed;
    taking taker;
    tfos_batch *batch = NULL;
    tfos_error error;
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    start_taking(&taker, input, seen);
    wait_until_hungry(&feed, true);
    const tfos_feed_want want = helper_want_within(1, 50);
    assert_int_equal(tfos_feed_next(input, &want, &batch, &error), TFOS_CANCELLED);
    helper_feed_say(&feed, TFOS__PACKET_END, "", 0);
    pthread_join(taker.thread, NULL);
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

typedef struct answering {
    pthread_t thread;
    helper_lane *lane;
    helper_feed *feed;
    uint64_t received;
} answering;

/* The task: takes results out of its lane until all have come. */
static void *receive_results(void *context)
{
    answering *self = context;
    while (self->received < ROWS) {
        const uint8_t *at;
        size_t bytes;
        bool over;
        uint32_t rings = tfos__bell_read(self->lane->bell);
        assert_int_equal(tfos__lane_peek(self->lane->results, &at, &bytes, &over, NULL), TFOS_OK);
        if (bytes == 0) {
            tfos__bell_wait(self->lane->bell, rings, 100);
            continue;
        }
        tfos__entry entry;
        assert_int_equal(tfos__entry_read(at, bytes, &entry, NULL), TFOS_OK);
        self->received += entry.rows;
        tfos__lane_release(self->lane->results, entry.bytes);
        tfos__bell_ring(self->feed->bell);
    }
    return NULL;
}

/* Results that fill their lane while rows fill theirs. */
static void test_results_while_rows_come(void **state)
{
    (void)state;
    helper_feed feed;
    producing producer;
    answering task;
    int64_t given = 0;
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    start_producing(&producer, &feed, "input", 0, true);
    task = (answering){.lane = &producer.lane, .feed = &feed};
    assert_int_equal(pthread_create(&task.thread, NULL, receive_results, &task), 0);
    const tfos_feed_want want = helper_want_within(1000, 10000);
    while (given < ROWS) {
        tfos_batch *batch = NULL;
        assert_int_equal(tfos_feed_next(input, &want, &batch, NULL), TFOS_OK);
        assert_int_equal(tfos_feed_put_results(input, batch, NULL, NULL), TFOS_OK);
        given += tfos_batch_rows(batch);
        tfos_batch_free(batch);
    }
    pthread_join(task.thread, NULL);
    assert_int_equal(task.received, ROWS);
    end_producing(&producer); /* it closes its lane behind the last row, and may take its time */
    helper_feed_say(&feed, TFOS__PACKET_END, "", 0);
    assert_true(tfos_feed_ended(input));
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_taken_once),
        cmocka_unit_test(test_hunger_of_one_queue_is_not_stilled_by_another),
        cmocka_unit_test(test_a_turn_is_waited_for),
        cmocka_unit_test(test_results_while_rows_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
