/* Two hosts on one machine: nodes in one network namespace, tasks in another, and a cable between them. Tasks find no
 * Unix socket that answers, and feed over TLS. Skipped where namespaces cannot be made. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "helper_cluster.h"
#include "helper_hosts.h"

enum { FEW_MS = 20000 };

static void test_tasks_on_both_hosts(void **state)
{
    (void)state;
    enum { TASKS = 6 };
    helper_cluster it;
    helper_task tasks[TASKS];
    int64_t sizes[TASKS];
    const tfos_feed_options options = helper_feed_of(TASKS);
    if (helper_other_host == 0) {
        skip();
    }
    helper_cluster_open(&it, 2, "take", 100, NULL);
    uint64_t feed = helper_cluster_begin(&it, &options);
    for (size_t i = 0; i < TASKS; i++) {
        sizes[i] = (int64_t)i * 3000;
        tasks[i] = (helper_task){.feed = feed,
                                 .partition = i,
                                 .attempt = i,
                                 .rows = sizes[i],
                                 .batch_rows = 500,
                                 .host = i % 3 != 0 ? helper_other_host : 0};
        helper_task_start(&tasks[i], &it);
    }
    for (size_t i = 0; i < TASKS; i++) {
        helper_task_expect_ok(&tasks[i], &it);
    }
    helper_cluster_wait_over(&it);
    helper_cluster_expect_rows(&it, sizes, TASKS, 1);
    helper_cluster_abandon(&it);
}

/* A task there is killed, and one here goes on where it was. */
static void test_a_task_moves(void **state)
{
    (void)state;
    helper_cluster it;
    const int64_t sizes[] = {40000};
    const tfos_feed_options options = helper_feed_of(1);
    if (helper_other_host == 0) {
        skip();
    }
    helper_cluster_open(&it, 1, "slow:1", 100, NULL);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {
        .feed = feed, .attempt = 1, .rows = 40000, .batch_rows = 100, .host = helper_other_host, .pause_ms = 5};
    helper_task_start(&task, &it);
    while (helper_cluster_count(&it) < 1000) {
        helper_cluster_pump(&it, 5);
    }
    kill(task.pid, SIGKILL);
    assert_int_equal(helper_task_wait(&task, &it, FEW_MS, NULL, 0), -SIGKILL);
    task = (helper_task){.feed = feed, .attempt = 2, .rows = 40000, .batch_rows = 1000};
    helper_task_start(&task, &it);
    helper_task_expect_ok(&task, &it);
    helper_cluster_wait_over(&it);
    helper_cluster_expect_rows(&it, sizes, 1, 1);
    helper_cluster_abandon(&it);
}

static void test_inference(void **state)
{
    (void)state;
    helper_cluster it;
    tfos_feed_options options = helper_feed_of(1);
    options.inference = true;
    options.determinate = false;
    if (helper_other_host == 0) {
        skip();
    }
    helper_cluster_open(&it, 2, "infer", 100, NULL);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {
        .feed = feed, .attempt = 1, .rows = 30000, .batch_rows = 700, .inference = true, .host = helper_other_host};
    helper_task_start(&task, &it);
    helper_task_expect_ok(&task, &it);
    helper_cluster_wait_over(&it);
    helper_cluster_abandon(&it);
}

int main(int argc, char **argv)
{
    helper_program_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tasks_on_both_hosts),
        cmocka_unit_test(test_a_task_moves),
        cmocka_unit_test(test_inference),
    };
    helper_hosts_make();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    helper_hosts_end();
    return failed;
}
