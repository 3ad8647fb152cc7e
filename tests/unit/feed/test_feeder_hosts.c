/* Two hosts on one machine: nodes in one network namespace, tasks in another, and a cable between them. Tasks find no
 * Unix socket that answers, and feed over TLS. Skipped where namespaces cannot be made. */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "helper_cluster.h"

enum { FEW_MS = 20000 };

static int other_host; /* its network namespace; 0: there are none here */
static pid_t other_pid;

static bool write_file(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    bool written = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
    if (file >= 0) {
        close(file);
    }
    return written;
}

/* A network of our own; who is not root is root of a user namespace for that. */
static bool leave_network(void)
{
    char map[64];
    unsigned user = getuid();
    unsigned group = getgid();
    if (user == 0) {
        return unshare(CLONE_NEWNET) == 0;
    }
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 || !write_file("/proc/self/setgroups", "deny")) {
        return false;
    }
    snprintf(map, sizeof map, "0 %u 1", user);
    bool mapped = write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "0 %u 1", group);
    return mapped && write_file("/proc/self/gid_map", map);
}

/* A process that does nothing but have a network of its own. */
static bool start_other_host(void)
{
    int ready[2];
    char byte;
    if (pipe(ready) != 0) {
        return false;
    }
    other_pid = fork();
    if (other_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        bool left = unshare(CLONE_NEWNET) == 0;
        (void)!write(ready[1], left ? "y" : "n", 1);
        for (;;) {
            pause();
        }
    }
    bool left = read(ready[0], &byte, 1) == 1 && byte == 'y';
    close(ready[0]);
    close(ready[1]);
    return left;
}

static bool make_hosts(void)
{
    char path[64];
    char command[512];
    if (!leave_network() || !start_other_host()) {
        return false;
    }
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)other_pid);
    snprintf(command, sizeof command,
             "(ip link set lo up && ip link add v0 type veth peer name v1 && ip addr add 10.77.0.1/24 dev v0 &&"
             " ip link set v0 up && ip link set v1 netns %d &&"
             " nsenter --net=%s sh -c 'ip addr add 10.77.0.2/24 dev v1 && ip link set v1 up && ip link set lo up')"
             " >/dev/null 2>&1",
             (int)other_pid, path);
    if (system(command) != 0) {
        return false;
    }
    other_host = open(path, O_RDONLY | O_CLOEXEC);
    helper_cluster_host = "10.77.0.1";
    return other_host > 0;
}

static void test_tasks_on_both_hosts(void **state)
{
    (void)state;
    enum { TASKS = 6 };
    helper_cluster it;
    helper_task tasks[TASKS];
    int64_t sizes[TASKS];
    const tfos_feed_options options = helper_feed_of(TASKS);
    if (other_host == 0) {
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
                                 .host = i % 3 != 0 ? other_host : 0};
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
    if (other_host == 0) {
        skip();
    }
    helper_cluster_open(&it, 1, "slow:1", 100, NULL);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {
        .feed = feed, .attempt = 1, .rows = 40000, .batch_rows = 100, .host = other_host, .pause_ms = 5};
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
    if (other_host == 0) {
        skip();
    }
    helper_cluster_open(&it, 2, "infer", 100, NULL);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {
        .feed = feed, .attempt = 1, .rows = 30000, .batch_rows = 700, .inference = true, .host = other_host};
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
    if (!make_hosts()) {
        print_message("network namespaces cannot be made here\n");
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (other_pid > 0) {
        kill(other_pid, SIGKILL);
        waitpid(other_pid, NULL, 0);
    }
    return failed;
}
