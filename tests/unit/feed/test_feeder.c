/* Feeding from end to end: a real coordinator, real nodes whose programs write down what they get, and tasks that are
 * processes of their own. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "helper_cluster.h"

enum { FEW_MS = 20000 };

static tfos_feed_options usual;

/* Feeds partitions of these sizes, at most `slots` at a time, in one epoch. */
static void feed_epoch(helper_cluster *it, uint64_t feed, uint64_t epoch, const int64_t *sizes, size_t count,
                       size_t slots)
{
    static uint64_t attempt;
    helper_task tasks[64];
    assert_true(count <= 64);
    for (size_t i = 0; i < count + slots; i++) {
        if (i >= slots && i - slots < count) {
            helper_task_expect_ok(&tasks[i - slots], it);
        }
        if (i < count) {
            tasks[i] = (helper_task){.feed = feed,
                                     .epoch = epoch,
                                     .partition = i,
                                     .attempt = ++attempt,
                                     .rows = sizes[i],
                                     .batch_rows = 500};
            helper_task_start(&tasks[i], it);
        }
    }
}

/* Waits for a word of the coordinator about an epoch. */
static void expect_epoch(helper_cluster *it, const char *word, uint64_t feed, uint64_t epoch)
{
    char event[64];
    snprintf(event, sizeof event, "%s %llu/%llu", word, (unsigned long long)feed, (unsigned long long)epoch);
    helper_cluster_expect_event(it, event, FEW_MS);
}

static void expect_epochs(const helper_cluster *it, int32_t node, size_t epochs)
{
    size_t count;
    size_t found = 0;
    int64_t *rows = helper_cluster_rows(it, node, &count);
    for (size_t i = 0; i < count; i++) {
        found += rows[i] == HELPER_EPOCH_END ? 1 : 0;
    }
    free(rows);
    assert_int_equal(found, epochs);
}

static void test_one_partition_one_node(void **state)
{
    (void)state;
    helper_cluster it;
    const int64_t sizes[] = {1234};
    helper_cluster_open(&it, 1, "take", 100, NULL);
    uint64_t feed = helper_cluster_begin(&it, &usual);
    feed_epoch(&it, feed, 0, sizes, 1, 1);
    helper_cluster_wait_over(&it);
    helper_cluster_expect_rows(&it, sizes, 1, 1);
    expect_epochs(&it, 0, 1);
    /* From one producer, rows come in their order. */
    size_t count;
    int64_t *rows = helper_cluster_rows(&it, 0, &count);
    for (size_t i = 0; i < 1234; i++) {
        assert_int_equal(rows[i], i);
    }
    free(rows);
    helper_cluster_abandon(&it);
}

static void test_partitions_of_every_size(void **state)
{
    (void)state;
    helper_cluster it;
    const int64_t sizes[] = {0, 1, 999, 10000, 0, 3};
    const tfos_feed_options options = helper_feed_of(6);
    helper_cluster_open(&it, 2, "take", 64, NULL);
    uint64_t feed = helper_cluster_begin(&it, &options);
    feed_epoch(&it, feed, 0, sizes, 6, 3);
    helper_cluster_wait_over(&it);
    helper_cluster_expect_rows(&it, sizes, 6, 1);
    expect_epochs(&it, 0, 1);
    expect_epochs(&it, 1, 1);
    helper_cluster_abandon(&it);
}

/* One slot and one partition: both nodes get rows, and both learn of the end. */
static void test_nobody_starves(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        helper_cluster it;
        const int64_t sizes[] = {999};
        helper_cluster_open(&it, 2, "take", 32, NULL);
        helper_cluster_wait_hungry(&it);
        uint64_t feed = helper_cluster_begin(&it, &usual);
        helper_task task = {.feed = feed, .attempt = 1, .rows = 999, .batch_rows = 999};
        helper_task_start(&task, &it);
        helper_task_expect_ok(&task, &it);
        helper_cluster_wait_over(&it);
        helper_cluster_expect_rows(&it, sizes, 1, 1);
        helper_cluster_expect_shared(&it, 100);
        helper_cluster_abandon(&it);
    }
}

static void test_more_nodes_than_partitions_and_no_partition_at_all(void **state)
{
    (void)state;
    helper_cluster it;
    const int64_t sizes[] = {10, 1};
    const tfos_feed_options options = helper_feed_of(2);
    const tfos_feed_options empty = helper_feed_of(0);
    helper_cluster_open(&it, 4, "take", 64, NULL);
    uint64_t feed = helper_cluster_begin(&it, &options);
    feed_epoch(&it, feed, 0, sizes, 2, 2);
    assert_int_equal(tfos_cluster_close_feed(it.cluster, feed, NULL), TFOS_OK);
    helper_cluster_begin(&it, &empty);
    helper_cluster_wait_over(&it);
    helper_cluster_expect_rows(&it, sizes, 2, 1);
    for (int32_t i = 0; i < 4; i++) {
        expect_epochs(&it, i, 2);
    }
    helper_cluster_abandon(&it);
}

/* The rows of an epoch are in it, on every node, however close epochs follow one another. */
static void test_epochs(void **state)
{
    (void)state;
    enum { EPOCHS = 6 };
    helper_cluster it;
    const int64_t sizes[] = {100, 7, 300};
    const tfos_feed_options options = helper_feed_of(3);
    helper_cluster_open(&it, 2, "take", 50, NULL);
    uint64_t feed = helper_cluster_feed(&it, &options);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        helper_cluster_epoch(&it, feed, epoch);
        feed_epoch(&it, feed, epoch, sizes, 3, 2);
    }
    helper_cluster_wait_over(&it);
    helper_cluster_expect_rows(&it, sizes, 3, EPOCHS);
    size_t rows_of[EPOCHS] = {0};
    for (int32_t i = 0; i < 2; i++) {
        size_t count;
        size_t epoch = 0;
        int64_t *rows = helper_cluster_rows(&it, i, &count);
        for (size_t j = 0; j < count; j++) {
            if (rows[j] == HELPER_EPOCH_END) {
                epoch++;
            } else {
                assert_true(epoch < EPOCHS);
                rows_of[epoch]++;
            }
        }
        assert_int_equal(epoch, EPOCHS);
        free(rows);
    }
    for (size_t i = 0; i < EPOCHS; i++) {
        assert_int_equal(rows_of[i], 407);
    }
    helper_cluster_abandon(&it);
}

/* One program wants no more: the feed ends for all, also for tasks that come later, and for programs that wait. */
static void test_terminate(void **state)
{
    (void)state;
    helper_cluster it;
    const tfos_feed_options options = helper_feed_of(2);
    helper_cluster_open(&it, 2, "terminate:300", 100, NULL);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 5000000, .batch_rows = 1000};
    helper_task_start(&task, &it);
    assert_int_equal(helper_task_wait(&task, &it, FEW_MS, NULL, 0), HELPER_TASK_END);
    helper_cluster_expect_event(&it, "terminated", FEW_MS);
    helper_task later = {.feed = feed, .partition = 1, .attempt = 2, .rows = 10, .batch_rows = 10};
    helper_task_start(&later, &it);
    assert_int_equal(helper_task_wait(&later, &it, FEW_MS, NULL, 0), HELPER_TASK_END);
    /* A feed of the same queue that is opened now has ended before it begins. */
    it.feed_events.size = 0;
    uint64_t another = helper_cluster_begin(&it, &usual);
    helper_cluster_expect_event(&it, "terminated", FEW_MS);
    later = (helper_task){.feed = another, .attempt = 3, .rows = 10, .batch_rows = 10};
    helper_task_start(&later, &it);
    assert_int_equal(helper_task_wait(&later, &it, FEW_MS, NULL, 0), HELPER_TASK_END);
    /* Both programs have come to their end without another word. */
    char go[300];
    snprintf(go, sizeof go, "%s/go", it.folder);
    fclose(fopen(go, "w"));
    assert_int_equal(tfos_cluster_finish(it.cluster, 0, NULL), TFOS_OK);
    for (int64_t deadline = tfos__clock_ms() + FEW_MS; !it.over;) {
        assert_true(tfos__clock_ms() < deadline);
        helper_cluster_pump(&it, 10);
    }
    assert_string_equal(it.failure, "");
    helper_cluster_abandon(&it);
}

static void test_a_row_larger_than_a_lane(void **state)
{
    (void)state;
    helper_cluster it;
    char message[2048];
    const char *const settings[] = {"feed.lane_bytes=65536", NULL};
    helper_cluster_open(&it, 1, "take", 1, settings);
    uint64_t feed = helper_cluster_begin(&it, &usual);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 3, .batch_rows = 3, .row_bytes = 60000};
    helper_task_start(&task, &it);
    helper_task_expect_ok(&task, &it); /* these fit, one after the other */
    helper_cluster_epoch(&it, feed, 1);
    task = (helper_task){.feed = feed, .epoch = 1, .attempt = 2, .rows = 1, .batch_rows = 1, .row_bytes = 70000};
    helper_task_start(&task, &it);
    assert_int_equal(helper_task_wait(&task, &it, FEW_MS, message, sizeof message), HELPER_TASK_FAILED);
    assert_non_null(strstr(message, "partition 0: row 0 of the partition takes 70"));
    assert_non_null(strstr(message, "65536"));
    assert_non_null(strstr(message, "feed.lane_bytes"));
    helper_cluster_close(&it);
}

static void test_a_program_that_is_stuck(void **state)
{
    (void)state;
    helper_cluster it;
    char message[2048];
    tfos_feed_options options = usual;
    options.timeout_ms = 5000; /* a program under load may need seconds until it reads */
    helper_cluster_open(&it, 1, "stuck", 1, NULL);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 1000, .batch_rows = 100};
    helper_task_start(&task, &it);
    helper_task_expect_ok(&task, &it); /* its rows are in a lane */
    helper_cluster_expect_event(
        &it, "no row was consumed for 5 s (feed_timeout): worker:0 on 127.0.0.1 has 999 rows waiting", FEW_MS);
    helper_cluster_expect_event(&it, "I am stuck", FEW_MS);
    /* A task that has more than fits hears of it, too. */
    task = (helper_task){.feed = feed, .attempt = 2, .rows = 1000, .batch_rows = 100};
    helper_task_start(&task, &it);
    assert_int_equal(helper_task_wait(&task, &it, FEW_MS, message, sizeof message), HELPER_TASK_FAILED);
    assert_non_null(strstr(message, "no row was consumed for 5 s (feed_timeout)"));
    helper_cluster_abandon(&it);
}

static void test_a_queue_that_nobody_opens(void **state)
{
    (void)state;
    helper_cluster it;
    char message[2048];
    tfos_feed_options options = usual;
    options.timeout_ms = 1500;
    helper_cluster_open(&it, 1, "idle", 1, NULL);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 1000, .batch_rows = 100};
    helper_task_start(&task, &it);
    assert_int_equal(helper_task_wait(&task, &it, FEW_MS, message, sizeof message), HELPER_TASK_FAILED);
    assert_non_null(strstr(message, "no program has opened the queue 'input'"));
    helper_cluster_abandon(&it);
}

/* A program takes what it wants and exits: the other one gets the rest, and what it had left is counted. */
static void test_a_program_that_has_finished(void **state)
{
    (void)state;
    helper_cluster it;
    helper_cluster_open(&it, 2, "take:250", 50, NULL);
    uint64_t feed = helper_cluster_begin(&it, &usual);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 5000000, .batch_rows = 1000}; /* more than lanes hold */
    helper_task_start(&task, &it);
    /* Both finish, and then nobody is left: the feed has ended, which is no failure. */
    assert_int_equal(helper_task_wait(&task, &it, FEW_MS, NULL, 0), HELPER_TASK_END);
    assert_string_equal(it.failure, "");
    assert_int_equal(helper_cluster_count(&it), 500);
    helper_cluster_close(&it);
}

/* What a program took before it ended is not fed again when the task dies after that. */
static void test_a_task_dies_behind_a_program_that_has_finished(void **state)
{
    (void)state;
    enum { ROWS = 20000 };
    helper_cluster it;
    helper_cluster_open(&it, 2, "leave:250", 50, NULL);
    helper_cluster_wait_hungry(&it);
    uint64_t feed = helper_cluster_begin(&it, &usual);
    helper_task task = {.feed = feed, .attempt = 1, .rows = ROWS, .batch_rows = 100, .pause_ms = 2};
    helper_task_start(&task, &it);
    size_t count = 0;
    while (count < 250) {
        helper_cluster_pump(&it, 5);
        free(helper_cluster_rows(&it, 0, &count));
    }
    helper_cluster_pump(&it, 300); /* it is gone by now */
    kill(task.pid, SIGKILL);
    assert_int_equal(helper_task_wait(&task, &it, FEW_MS, NULL, 0), -SIGKILL);
    task = (helper_task){.feed = feed, .attempt = 2, .rows = ROWS, .batch_rows = 1000};
    helper_task_start(&task, &it);
    helper_task_expect_ok(&task, &it);
    helper_cluster_wait_over(&it);
    static unsigned char seen[ROWS];
    for (int32_t i = 0; i < 2; i++) {
        int64_t *rows = helper_cluster_rows(&it, i, &count);
        for (size_t j = 0; j < count; j++) {
            if (rows[j] != HELPER_EPOCH_END && ++seen[rows[j]] > 1) {
                fail_msg("row %d came twice", (int)rows[j]);
            }
        }
        free(rows);
    }
    helper_cluster_abandon(&it);
}

/* A program is killed: the cluster fails, and no task may think that its rows were consumed. */
static void test_a_program_that_is_killed(void **state)
{
    (void)state;
    enum { ROWS = 8000000 }; /* more than lanes have room for: a task whose last row is in a lane has done its part */
    for (int32_t nodes = 1; nodes <= 2; nodes++) {
        helper_cluster it;
        char message[2048];
        helper_cluster_open(&it, nodes, "kill:150", 50, NULL);
        uint64_t feed = helper_cluster_begin(&it, &usual);
        helper_task task = {.feed = feed, .attempt = 1, .rows = ROWS, .batch_rows = 100};
        helper_task_start(&task, &it);
        assert_int_equal(helper_task_wait(&task, &it, FEW_MS, message, sizeof message), HELPER_TASK_FAILED);
        assert_non_null(strstr(message, "the cluster has failed"));
        while (it.failure[0] == '\0') {
            helper_cluster_pump(&it, 10);
        }
        assert_non_null(strstr(it.failure, "SIGKILL"));
        helper_cluster_abandon(&it);
    }
}

/* … also when all rows were in its lane, and no task was there any more: nobody says that they were consumed. */
static void test_a_program_that_is_killed_at_the_end(void **state)
{
    (void)state;
    helper_cluster it;
    helper_cluster_open(&it, 1, "kill:150", 50, NULL);
    uint64_t feed = helper_cluster_begin(&it, &usual);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 200, .batch_rows = 200};
    helper_task_start(&task, &it);
    helper_task_wait(&task, &it, FEW_MS, NULL, 0); /* it may hear of the failure before its rows are noted */
    for (int64_t deadline = tfos__clock_ms() + FEW_MS; !it.over;) {
        assert_true(tfos__clock_ms() < deadline);
        helper_cluster_pump(&it, 10);
    }
    assert_non_null(strstr(it.failure, "SIGKILL"));
    tfos__buffer_append(&it.feed_events, "", 1, NULL);
    assert_null(strstr((const char *)it.feed_events.data, "consumed"));
    helper_cluster_abandon(&it);
}

static void test_a_row_that_cannot_be_fed(void **state)
{
    (void)state;
    helper_cluster it;
    char message[2048];
    const tfos_feed_options options = helper_feed_of(2);
    helper_cluster_open(&it, 1, "take", 50, NULL);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task other = {.feed = feed, .partition = 1, .attempt = 2, .rows = 1000000, .batch_rows = 100, .pause_ms = 5};
    helper_task_start(&other, &it);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 1000, .batch_rows = 100, .fails = true};
    helper_task_start(&task, &it);
    assert_int_equal(helper_task_wait(&task, &it, FEW_MS, NULL, 0), HELPER_TASK_FAILED);
    helper_cluster_expect_event(&it, "row 77: it is bad", FEW_MS);
    assert_int_equal(helper_task_wait(&other, &it, FEW_MS, message, sizeof message), HELPER_TASK_FAILED);
    assert_non_null(strstr(message, "row 77: it is bad"));
    helper_cluster_close(&it);
}

/* Lanes are bounded however many tasks there are: the others wait for them. */
static void test_memory_is_bounded(void **state)
{
    (void)state;
    enum { TASKS = 8 };
    helper_cluster it;
    helper_task tasks[TASKS];
    int64_t sizes[TASKS];
    const tfos_feed_options options = helper_feed_of(TASKS);
    const char *const settings[] = {"feed.lane_bytes=100000", "feed.memory_bytes=300000", "cluster.beat_ms=100", NULL};
    helper_cluster_open(&it, 1, "slow:2", 500, settings);
    uint64_t feed = helper_cluster_begin(&it, &options);
    for (size_t i = 0; i < TASKS; i++) {
        sizes[i] = 20000;
        tasks[i] = (helper_task){.feed = feed, .partition = i, .attempt = i, .rows = sizes[i], .batch_rows = 1000};
        helper_task_start(&tasks[i], &it);
    }
    size_t looks = 0;
    while (helper_cluster_count(&it) < TASKS * 20000) {
        assert_int_equal(tfos_cluster_request_status(it.cluster, NULL), TFOS_OK);
        helper_cluster_pump(&it, 20);
        const char *at = it.status.size > 0 ? strstr((const char *)it.status.data, "\"lane_bytes\"") : NULL;
        if (at != NULL) {
            long bytes = strtol(at + strcspn(at, "0123456789"), NULL, 10);
            assert_true(bytes <= 300000);
            looks += bytes == 262144 ? 1 : 0; /* two lanes of 128 KiB */
        }
    }
    assert_true(looks > 0);
    for (size_t i = 0; i < TASKS; i++) {
        helper_task_expect_ok(&tasks[i], &it);
    }
    helper_cluster_wait_over(&it);
    helper_cluster_expect_rows(&it, sizes, TASKS, 1);
    helper_cluster_abandon(&it);
}

/* A task returns when its rows are in lanes, and the next epoch begins then. The ledger says when they were consumed:
 * not before. */
static void test_a_task_does_not_wait_for_the_program(void **state)
{
    (void)state;
    enum { ROWS = 1000, BATCH = 10 };
    helper_cluster it;
    helper_cluster_open(&it, 1, "slow:10", BATCH, NULL);
    uint64_t feed = helper_cluster_begin(&it, &usual);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        helper_task task = {.feed = feed, .epoch = epoch, .attempt = epoch + 1, .rows = ROWS, .batch_rows = ROWS};
        helper_task_start(&task, &it);
        helper_task_expect_ok(&task, &it);
        if (epoch == 0) {
            assert_true(helper_cluster_count(&it) < ROWS / 2);
            expect_epoch(&it, "exhausted", feed, 0);
            helper_cluster_epoch(&it, feed, 1);
        }
    }
    assert_true(helper_cluster_count(&it) < ROWS);
    expect_epoch(&it, "consumed", feed, 0);
    assert_true(helper_cluster_count(&it) >= ROWS - BATCH); /* it has them, and is about to write them down */
    expect_epoch(&it, "consumed", feed, 1);
    assert_true(helper_cluster_count(&it) >= 2 * ROWS - BATCH);
    helper_cluster_wait_over(&it);
    helper_cluster_expect_rows(&it, (const int64_t[]){ROWS}, 1, 2);
    helper_cluster_abandon(&it);
}

/* What a task that died has left in lanes counts like the rest. */
static void test_rows_of_a_dead_task_are_waited_for(void **state)
{
    (void)state;
    enum { ROWS = 1000, BATCH = 10 };
    helper_cluster it;
    helper_cluster_open(&it, 1, "slow:10", BATCH, NULL);
    uint64_t feed = helper_cluster_begin(&it, &usual);
    helper_task task = {.feed = feed, .attempt = 1, .rows = ROWS, .batch_rows = ROWS / 2, .pause_ms = 600};
    helper_task_start(&task, &it);
    while (helper_cluster_count(&it) < BATCH) {
        helper_cluster_pump(&it, 5);
    }
    kill(task.pid, SIGKILL); /* the first half is in a lane */
    assert_int_equal(helper_task_wait(&task, &it, FEW_MS, NULL, 0), -SIGKILL);
    task = (helper_task){.feed = feed, .attempt = 2, .rows = ROWS, .batch_rows = ROWS};
    helper_task_start(&task, &it);
    helper_task_expect_ok(&task, &it);
    expect_epoch(&it, "consumed", feed, 0);
    assert_true(helper_cluster_count(&it) >= ROWS - BATCH);
    helper_cluster_wait_over(&it);
    helper_cluster_expect_rows(&it, (const int64_t[]){ROWS}, 1, 1);
    helper_cluster_abandon(&it);
}

/* Two programs that wait for each other behind each batch, as in synchronous training, one of which begins late: both
 * come to 90 % of the data, whether it has few partitions or many, because neither is given much more than the other.
 */
static void test_programs_in_lockstep(void **state)
{
    (void)state;
    enum { ROWS = 24000, BATCH = 50, STEPS = ROWS * 9 / 10 / 2 / BATCH };
    for (int64_t partitions = 1; partitions <= 60; partitions *= 60) {
        helper_cluster it;
        char mode[32];
        char go[300];
        const tfos_feed_options options = helper_feed_of(partitions);
        snprintf(mode, sizeof mode, "lockstep:%d", STEPS);
        helper_cluster_open(&it, 2, mode, BATCH, NULL);
        snprintf(go, sizeof go, "%s/go", it.folder);
        uint64_t feed = helper_cluster_begin(&it, &options);
        for (int64_t i = 0; i < partitions; i++) {
            int64_t rows = ROWS / partitions;
            helper_task task = {
                .feed = feed, .partition = (uint64_t)i, .attempt = 1 + (uint64_t)i, .rows = rows, .batch_rows = rows};
            helper_task_start(&task, &it);
            while (i == 0 && helper_cluster_count(&it) < BATCH) {
                helper_cluster_pump(&it, 5);
            }
            if (i == 0) {
                helper_cluster_pump(&it, 300); /* all of it would be with the first one by now */
                fclose(fopen(go, "w"));
            }
            char text[1024];
            int code = helper_task_wait(&task, &it, FEW_MS, text, sizeof text);
            if (code != HELPER_TASK_OK && code != HELPER_TASK_END) {
                fail_msg("task %d of %d ended with %d: %s", (int)i, (int)partitions, code, text);
            }
        }
        helper_cluster_expect_event(&it, "terminated", FEW_MS);
        assert_int_equal(helper_cluster_count(&it), 2 * STEPS * BATCH);
        helper_cluster_abandon(&it);
    }
}

/* ---- inference ---- */

static void test_inference(void **state)
{
    (void)state;
    helper_cluster it;
    tfos_feed_options options = helper_feed_of(3);
    options.inference = true;
    helper_cluster_open(&it, 2, "infer", 64, NULL);
    uint64_t feed = helper_cluster_begin(&it, &options);
    const int64_t sizes[] = {0, 1, 10000};
    helper_task tasks[3];
    helper_cluster_wait_hungry(&it); /* so that each gets some of the rows, however slowly it starts */
    for (size_t i = 0; i < 3; i++) {
        tasks[i] = (helper_task){
            .feed = feed, .partition = i, .attempt = 10 + i, .rows = sizes[i], .batch_rows = 300, .inference = true};
        helper_task_start(&tasks[i], &it);
    }
    for (size_t i = 0; i < 3; i++) {
        helper_task_expect_ok(&tasks[i], &it);
    }
    helper_cluster_expect_rows(&it, sizes, 3, 1);
    size_t count;
    for (int32_t i = 0; i < 2; i++) {
        free(helper_cluster_rows(&it, i, &count));
        assert_true(count > 0);
    }
    /* Spark may want the results again. */
    tasks[2].attempt = 20;
    helper_task_start(&tasks[2], &it);
    helper_task_expect_ok(&tasks[2], &it);
    helper_cluster_close(&it);
}

/* Rows and results that do not fit their lanes: neither side waits for the other for ever. */
static void test_inference_through_narrow_lanes(void **state)
{
    (void)state;
    helper_cluster it;
    tfos_feed_options options = usual;
    const char *const settings[] = {"feed.lane_bytes=65536", NULL};
    options.inference = true;
    helper_cluster_open(&it, 2, "infer", 1000, settings);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 200000, .batch_rows = 200000, .inference = true};
    helper_task_start(&task, &it);
    helper_task_expect_ok(&task, &it);
    helper_cluster_close(&it);
}

/* A task of inference that is killed: its results are nobody's, and the next one gets all of its own. */
static void test_inference_is_repeated(void **state)
{
    (void)state;
    helper_cluster it;
    tfos_feed_options options = usual;
    const char *const settings[] = {"feed.lane_bytes=65536", NULL};
    options.inference = true;
    helper_cluster_open(&it, 1, "infer", 100, settings);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 1000000, .batch_rows = 1000000, .inference = true};
    helper_task_start(&task, &it);
    while (helper_cluster_count(&it) < 20000) {
        helper_cluster_pump(&it, 5);
    }
    kill(task.pid, SIGKILL);
    assert_int_equal(helper_task_wait(&task, &it, FEW_MS, NULL, 0), -SIGKILL);
    task = (helper_task){.feed = feed, .attempt = 2, .rows = 5000, .batch_rows = 1000, .inference = true};
    helper_task_start(&task, &it);
    helper_task_expect_ok(&task, &it);
    helper_cluster_close(&it);
}

/* A program takes rows, forgets their results and waits for more. */
static void test_no_results_at_all(void **state)
{
    (void)state;
    helper_cluster it;
    char message[2048];
    tfos_feed_options options = usual;
    options.inference = true;
    options.timeout_ms = 2000;
    helper_cluster_open(&it, 1, "mute", 50, NULL);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_cluster_wait_hungry(&it);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 150, .batch_rows = 150, .inference = true};
    helper_task_start(&task, &it);
    assert_int_equal(helper_task_wait(&task, &it, FEW_MS, message, sizeof message), HELPER_TASK_FAILED);
    assert_non_null(strstr(message, "no result came for 2 s (feed_timeout): node 0 on 127.0.0.1 has taken all rows"));
    helper_cluster_expect_event(&it, "at least 150 of them have no result", FEW_MS);
    helper_cluster_close(&it);
}

static void test_fewer_results_than_rows(void **state)
{
    (void)state;
    helper_cluster it;
    char message[2048];
    tfos_feed_options options = usual;
    options.inference = true;
    helper_cluster_open(&it, 1, "few:150", 50, NULL);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 150, .batch_rows = 150, .inference = true};
    helper_task_start(&task, &it);
    assert_int_equal(helper_task_wait(&task, &it, FEW_MS, message, sizeof message), HELPER_TASK_FAILED);
    if (strstr(message, "50 rows of partition 0 got no result from node 0") == NULL &&
        strstr(message, "before all rows of partition 0 had their results") == NULL) {
        fail_msg("%s", message);
    }
    helper_cluster_close(&it);
}

int main(int argc, char **argv)
{
    helper_program_main(argc, argv);
    usual = helper_feed_of(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_partition_one_node),
        cmocka_unit_test(test_partitions_of_every_size),
        cmocka_unit_test(test_nobody_starves),
        cmocka_unit_test(test_more_nodes_than_partitions_and_no_partition_at_all),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_terminate),
        cmocka_unit_test(test_a_row_larger_than_a_lane),
        cmocka_unit_test(test_a_program_that_is_stuck),
        cmocka_unit_test(test_a_queue_that_nobody_opens),
        cmocka_unit_test(test_a_program_that_has_finished),
        cmocka_unit_test(test_a_task_dies_behind_a_program_that_has_finished),
        cmocka_unit_test(test_a_task_does_not_wait_for_the_program),
        cmocka_unit_test(test_rows_of_a_dead_task_are_waited_for),
        cmocka_unit_test(test_programs_in_lockstep),
        cmocka_unit_test(test_a_program_that_is_killed),
        cmocka_unit_test(test_a_program_that_is_killed_at_the_end),
        cmocka_unit_test(test_a_row_that_cannot_be_fed),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_inference),
        cmocka_unit_test(test_inference_through_narrow_lanes),
        cmocka_unit_test(test_inference_is_repeated),
        cmocka_unit_test(test_no_results_at_all),
        cmocka_unit_test(test_fewer_results_than_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
