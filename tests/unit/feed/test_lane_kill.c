/* Ends of a lane that are killed at any instruction: what was committed is read to the last byte and row, and who is
 * left learns of it at once. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "helper_lanes.h"
#include "helper_records.h"

enum { BATCH_ROWS = 1009, KILLS = HELPER_SANITIZED ? 120 : 400 };

static tfos_batch *batch;

typedef struct scene {
    tfos__lane *lane;
    tfos__bell *producer_bell;
    tfos__bell *consumer_bell;
} scene;

static scene make_scene(uint64_t number)
{
    scene made;
    tfos__lane_id id = {.number = number};
    assert_int_equal(tfos__lane_new(0, &id, &made.lane, NULL), TFOS_OK);
    assert_int_equal(tfos__bell_new(&made.producer_bell, NULL), TFOS_OK);
    assert_int_equal(tfos__bell_new(&made.consumer_bell, NULL), TFOS_OK);
    return made;
}

static void free_scene(scene *self)
{
    tfos__lane_free(self->lane);
    tfos__bell_free(self->producer_bell);
    tfos__bell_free(self->consumer_bell);
}

/* In a process of its own each end adopts descriptors, as if they had come through a socket. */
static scene adopt_scene(const scene *from)
{
    scene made = {0};
    helper_need(tfos__lane_adopt(dup(tfos__lane_fd(from->lane)), &made.lane, NULL) == TFOS_OK);
    helper_need(tfos__bell_adopt(dup(tfos__bell_fd(from->producer_bell)), &made.producer_bell, NULL) == TFOS_OK);
    helper_need(tfos__bell_adopt(dup(tfos__bell_fd(from->consumer_bell)), &made.consumer_bell, NULL) == TFOS_OK);
    return made;
}

/* Ends with 0 when the lane was cancelled, which is the only way that this ends. */
static pid_t start_producer(const scene *on, uint64_t seed, int64_t most_rows)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        scene here = adopt_scene(on);
        helper_producer producer = {.lane = here.lane,
                                    .bell = here.producer_bell,
                                    .consumer_bell = here.consumer_bell,
                                    .batch = batch,
                                    .random = seed,
                                    .most_rows = most_rows};
        helper_end_child(helper_produce(&producer, INT64_MAX) == TFOS_CANCELLED ? 0 : 1);
    }
    return child;
}

static pid_t start_consumer(const scene *on)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        scene here = adopt_scene(on);
        helper_consumer consumer = {
            .lane = here.lane, .bell = here.consumer_bell, .producer_bell = here.producer_bell, .batch = batch};
        helper_consume_all(&consumer);
        helper_end_child(0);
    }
    return child;
}

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void end_process(pid_t child, int signal)
{
    int status;
    assert_int_equal(kill(child, signal), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signal);
}

/* Kills a producer while its entries are taken; returns how many rows it has fed. */
static uint64_t kill_producer(uint64_t seed, int64_t after_us, int64_t most_rows)
{
    scene on = make_scene(seed);
    helper_consumer consumer = {
        .lane = on.lane, .bell = on.consumer_bell, .producer_bell = on.producer_bell, .batch = batch};
    pid_t child = start_producer(&on, seed, most_rows);
    int64_t end = now_us() + after_us;
    do {
        assert_true(helper_consume(&consumer));
    } while (now_us() < end);
    end_process(child, SIGKILL);
    tfos__lane_counts counts;
    tfos__lane_close_head(on.lane);
    tfos__lane_count(on.lane, &counts);
    helper_consume_all(&consumer);
    assert_int_equal(counts.end_row, consumer.next_row);
    assert_int_equal(counts.fed_rows, consumer.next_row);
    assert_int_equal(tfos__lane_used(on.lane), 0);
    helper_consumer_reset(&consumer);
    free_scene(&on);
    return counts.end_row;
}

static void test_producers_killed_at_random_instants(void **state)
{
    (void)state;
    uint64_t random = 4242;
    uint64_t rows = 0;
    int fed = 0;
    size_t descriptors = helper_count_descriptors();
    for (int i = 0; i < KILLS; i++) {
        int64_t after_us = (int64_t)(helper_random(&random) % 6000);
        uint64_t more = kill_producer(1000 + (uint64_t)i, after_us, i % 2 == 0 ? 3 : 200);
        rows += more;
        fed += more > 0;
    }
    print_message("%d producers were killed after %llu rows; %d of them had fed some\n", KILLS,
                  (unsigned long long)rows, fed);
    assert_true(fed > KILLS / 10);
    assert_int_equal(helper_count_descriptors(), descriptors);
    assert_int_equal(helper_count_mappings("tfos-lane"), 0);
    assert_int_equal(helper_count_mappings("tfos-bell"), 0);
}

/* The ring is full and the producer sleeps when it is killed. */
static void test_a_producer_killed_in_its_sleep(void **state)
{
    (void)state;
    scene on = make_scene(7);
    helper_consumer consumer = {
        .lane = on.lane, .bell = on.consumer_bell, .producer_bell = on.producer_bell, .batch = batch};
    pid_t child = start_producer(&on, 7, 200);
    uint64_t used = 0;
    while (used == 0 || used != tfos__lane_used(on.lane)) {
        used = tfos__lane_used(on.lane);
        usleep(20000);
    }
    end_process(child, SIGKILL);
    tfos__lane_close_head(on.lane);
    helper_consume_all(&consumer);
    tfos__lane_counts counts;
    tfos__lane_count(on.lane, &counts);
    assert_int_equal(counts.end_row, consumer.next_row);
    assert_int_equal(counts.consumed_rows, counts.fed_rows);
    helper_consumer_reset(&consumer);
    free_scene(&on);
}

/* The owner is a third process; the producer must end by itself within a second, asleep or not. */
static void test_consumers_killed_at_random_instants(void **state)
{
    (void)state;
    uint64_t random = 99;
    int64_t longest_us = 0;
    size_t descriptors = helper_count_descriptors();
    for (int i = 0; i < KILLS / 4; i++) {
        scene on = make_scene((uint64_t)i);
        int status;
        pid_t consumer = start_consumer(&on);
        pid_t producer = start_producer(&on, 2000 + (uint64_t)i, 50);
        usleep((useconds_t)(helper_random(&random) % 8000));
        end_process(consumer, SIGKILL);
        if (i % 3 == 0) {
            usleep(5000); /* it has filled the ring by now, and sleeps */
        }
        int64_t before = now_us();
        tfos__lane_close_tail(on.lane);
        tfos__bell_ring(on.producer_bell);
        assert_int_equal(waitpid(producer, &status, 0), producer);
        int64_t took = now_us() - before;
        longest_us = took > longest_us ? took : longest_us;
        assert_int_equal(status, 0);
        tfos__lane_counts counts;
        tfos__lane_count(on.lane, &counts);
        assert_true(counts.given_up && counts.consumed_rows <= counts.fed_rows && counts.tail <= counts.head);
        free_scene(&on);
    }
    print_message("the last producer was gone %lld µs after its consumer\n", (long long)longest_us);
    assert_true(longest_us < 1000000);
    assert_int_equal(helper_count_descriptors(), descriptors);
    assert_int_equal(helper_count_mappings("tfos-lane"), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_producers_killed_at_random_instants),
        cmocka_unit_test(test_a_producer_killed_in_its_sleep),
        cmocka_unit_test(test_consumers_killed_at_random_instants),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
