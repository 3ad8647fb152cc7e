/* Tasks that feed are killed with SIGKILL at any moment and started again, sometimes two for one partition, some over
 * the network: the rows that programs got are those of the data, each once in every epoch.
 *
 * TFOS_TEST_SEED repeats a run that failed; TFOS_TEST_SECONDS gives more time for runs than the usual few seconds. */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "helper_cluster.h"
#include "helper_records.h"

enum { PARTITIONS_MOST = 6, TASKS_MOST = 64, ATTEMPTS_MOST = 8 };

typedef struct run {
    helper_cluster it;
    uint64_t random;
    uint64_t feed;
    uint64_t epoch;
    uint64_t attempt;
    size_t partitions;
    int64_t sizes[PARTITIONS_MOST];
    bool done[PARTITIONS_MOST];
    int attempts[PARTITIONS_MOST]; /* in this epoch */
    helper_task tasks[TASKS_MOST]; /* pid 0: none */
    uint64_t kills;
    uint64_t copies;
} run;

static uint64_t below(run *r, uint64_t limit)
{
    return helper_random(&r->random) % limit;
}

static size_t living(const run *r, uint64_t partition)
{
    size_t count = 0;
    for (size_t i = 0; i < TASKS_MOST; i++) {
        count += r->tasks[i].pid != 0 && (partition == UINT64_MAX || r->tasks[i].partition == partition) ? 1 : 0;
    }
    return count;
}

static void start_attempt(run *r, uint64_t partition)
{
    for (size_t i = 0; i < TASKS_MOST; i++) {
        if (r->tasks[i].pid == 0) {
            r->tasks[i] = (helper_task){.feed = r->feed,
                                        .epoch = r->epoch,
                                        .partition = partition,
                                        .attempt = ++r->attempt,
                                        .rows = r->sizes[partition],
                                        .batch_rows = 50 + (int64_t)below(r, 700),
                                        .far = below(r, 3) == 0,
                                        .near_one = below(r, 3) == 0,
                                        .pause_ms = below(r, 3) == 0 ? 1 : 0};
            helper_task_start(&r->tasks[i], &r->it);
            r->attempts[partition]++;
            return;
        }
    }
}

/* Takes note of tasks that have ended. */
static void reap(run *r)
{
    for (size_t i = 0; i < TASKS_MOST; i++) {
        helper_task *task = &r->tasks[i];
        siginfo_t info = {0};
        if (task->pid == 0 || waitid(P_PID, (id_t)task->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == 0) {
            continue;
        }
        char message[2048];
        int code = helper_task_wait(task, &r->it, 1000, message, sizeof message);
        if (code == HELPER_TASK_OK || code == HELPER_TASK_END) {
            r->done[task->partition] = true;
        } else if (code != -SIGKILL) {
            fail_msg("attempt %" PRIu64 " at partition %" PRIu64 " failed: %s; %s", task->attempt, task->partition,
                     message, r->it.failure);
        }
        task->pid = 0;
    }
}

/* Whatever Spark might do to its tasks, in a random order. */
static void disturb(run *r)
{
    for (uint64_t p = 0; p < r->partitions; p++) {
        size_t alive = living(r, p);
        if (!r->done[p] && alive == 0) {
            start_attempt(r, p);
        } else if (!r->done[p] && alive == 1 && r->attempts[p] < ATTEMPTS_MOST && below(r, 40) == 0) {
            start_attempt(r, p);
            r->copies++;
        }
    }
    for (size_t i = 0; i < TASKS_MOST; i++) {
        const helper_task *task = &r->tasks[i];
        if (task->pid != 0 && r->attempts[task->partition] < ATTEMPTS_MOST && below(r, 25) == 0) {
            kill(task->pid, SIGKILL);
            r->kills++;
        }
    }
}

static bool is_epoch_done(const run *r)
{
    for (size_t p = 0; p < r->partitions; p++) {
        if (!r->done[p]) {
            return false;
        }
    }
    return living(r, UINT64_MAX) == 0;
}

static void run_epoch(run *r)
{
    int64_t deadline = tfos__clock_ms() + 60000;
    memset(r->done, 0, sizeof r->done);
    memset(r->attempts, 0, sizeof r->attempts);
    helper_cluster_epoch(&r->it, r->feed, r->epoch);
    while (!is_epoch_done(r)) {
        if (tfos__clock_ms() > deadline) {
            fail_msg("epoch %" PRIu64 " does not end; failure: %s", r->epoch, r->it.failure);
        }
        disturb(r);
        helper_cluster_pump(&r->it, (int64_t)below(r, 8));
        reap(r);
    }
}

static void run_once(uint64_t seed, uint64_t *kills, uint64_t *copies)
{
    static const char *const narrow[] = {"feed.lane_bytes=65536", "feed.memory_bytes=200000", "cluster.beat_ms=20",
                                         NULL};
    static const char *const modes[] = {"take", "take", "slow:1"};
    static run r;
    memset(&r, 0, sizeof r);
    r.random = seed;
    print_message("TFOS_TEST_SEED=%" PRIu64 "\n", seed);
    int32_t nodes = 1 + (int32_t)below(&r, 3);
    const char *mode = modes[below(&r, 3)];
    helper_cluster_open(&r.it, nodes, mode, 50 + (int64_t)below(&r, 600), below(&r, 2) == 0 ? narrow : NULL);
    r.partitions = 1 + below(&r, PARTITIONS_MOST);
    for (size_t p = 0; p < r.partitions; p++) {
        r.sizes[p] = (int64_t)below(&r, below(&r, 4) == 0 ? 3 : 30000);
    }
    const tfos_feed_options options = helper_feed_of((int64_t)r.partitions);
    r.feed = helper_cluster_feed(&r.it, &options);
    uint64_t epochs = 1 + below(&r, 3);
    for (; r.epoch < epochs; r.epoch++) {
        run_epoch(&r);
    }
    char consumed[64]; /* also if nobody asks for more, and whoever has fed it */
    snprintf(consumed, sizeof consumed, "consumed %" PRIu64 "/%" PRIu64, r.feed, epochs - 1);
    helper_cluster_expect_event(&r.it, consumed, 60000);
    assert_int_equal(tfos_cluster_end_feeds(r.it.cluster, NULL), TFOS_OK);
    assert_int_equal(tfos_cluster_finish(r.it.cluster, 0, NULL), TFOS_OK);
    for (int64_t deadline = tfos__clock_ms() + 30000; !r.it.over;) {
        assert_true(tfos__clock_ms() < deadline);
        helper_cluster_pump(&r.it, 5);
    }
    assert_string_equal(r.it.failure, "");
    helper_cluster_expect_rows(&r.it, r.sizes, r.partitions, (int)epochs);
    helper_cluster_abandon(&r.it);
    *kills += r.kills;
    *copies += r.copies;
}

static void test_every_row_comes_once_per_epoch(void **state)
{
    (void)state;
    uint64_t kills = 0;
    uint64_t copies = 0;
    size_t runs = 0;
    const char *given = getenv("TFOS_TEST_SEED");
    const char *seconds = getenv("TFOS_TEST_SECONDS");
    if (given != NULL) {
        run_once(strtoull(given, NULL, 10), &kills, &copies);
        return;
    }
    int64_t deadline = tfos__clock_ms() + 1000 * (seconds != NULL ? strtol(seconds, NULL, 10) : 15);
    for (uint64_t seed = (uint64_t)getpid() << 20; tfos__clock_ms() < deadline; seed++, runs++) {
        run_once(seed, &kills, &copies);
    }
    print_message("%zu runs, %" PRIu64 " kills, %" PRIu64 " second attempts at the same time\n", runs, kills, copies);
    assert_true(kills > 0);
}

int main(int argc, char **argv)
{
    helper_program_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_comes_once_per_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
