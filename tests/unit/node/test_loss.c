/* Everybody around a node dies, with grandchildren alive that left their session and their parents: nothing is left
 * behind, and whoever is still there hears why. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper_coordinator.h"
#include "helper_records.h"
#include "node/usage.h"

/* A child, a grandchild, one in a session of its own, and one whose parent is gone; all ignore SIGTERM. */
static const char family[] = "trap '' TERM; sleep 1000 & setsid sleep 1000 & "
                             "(setsid sh -c 'trap \"\" TERM; (sleep 1000 &) ; sleep 1000' &) ; "
                             "sleep 0.2; echo ready; while true; do sleep 1000; done";

enum { FAMILY_LEAST = 7 }; /* with node and keeper */

static void start_family(const char *const *settings)
{
    const char *const program[] = {"/bin/sh", "-c", family, NULL};
    helper_start start = {.program = program};
    for (size_t i = 0; settings != NULL && settings[i] != NULL; i++) {
        start.settings[i] = settings[i];
    }
    helper_executor_start(&helper_now->executor, &helper_now->it, &start);
    helper_wait_log(&helper_now->it, &helper_now->it.out, "ready", 10000);
    assert_true(helper_executor_count(&helper_now->executor) >= FAMILY_LEAST);
}

static bool none_left(void *context)
{
    return helper_executor_count(context) == 0;
}

static void expect_none_left(int64_t most_ms)
{
    helper_wait(&helper_now->it, none_left, &helper_now->executor, most_ms, "the end of every process");
}

static pid_t keeper_of(pid_t node)
{
    tfos__processes below = {0};
    assert_int_equal(tfos__processes_below(node, &below, NULL), TFOS_OK);
    pid_t keeper = 0;
    for (size_t i = 0; i < below.count; i++) {
        keeper = below.at[i].parent == node ? below.at[i].pid : keeper;
    }
    tfos__processes_reset(&below);
    assert_true(keeper > 0);
    return keeper;
}

static void test_the_node_is_killed(void **state)
{
    (void)state;
    start_family(NULL);
    assert_int_equal(kill((pid_t)helper_now->it.node_pid, SIGKILL), 0);
    expect_none_left(3000);
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 3000), -SIGKILL);
    assert_null(helper_now->it.link);
    assert_int_equal(helper_now->it.heard[TFOS__MESSAGE_ENDED], 0);
}

static void test_the_keeper_is_killed(void **state)
{
    (void)state;
    start_family(NULL);
    assert_int_equal(kill(keeper_of((pid_t)helper_now->it.node_pid), SIGKILL), 0);
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 5000), 1);
    assert_int_equal(helper_now->it.outcome, TFOS__OUTCOME_KILLED);
    helper_expect_in((const char *)helper_now->it.text.data, "the keeper of the program, process ");
    expect_none_left(1000);
}

static void test_the_keeper_is_killed_before_a_role(void **state)
{
    (void)state;
    helper_now->it.hold_assign = true;
    helper_executor_script(&helper_now->executor, &helper_now->it, "true");
    helper_wait_heard(&helper_now->it, TFOS__MESSAGE_REGISTER, 1, 10000);
    assert_int_equal(kill(keeper_of((pid_t)helper_now->it.node_pid), SIGKILL), 0);
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 5000), 1);
    assert_int_equal(helper_now->it.outcome, TFOS__OUTCOME_NOT_STARTED);
}

static void lose_executor(const char *const *settings)
{
    start_family(settings);
    int64_t before = helper_now_ms();
    helper_executor_kill(&helper_now->executor);
    helper_wait_heard(&helper_now->it, TFOS__MESSAGE_ENDED, 1, 5000);
    assert_int_equal(helper_now->it.outcome, TFOS__OUTCOME_EXECUTOR_LOST);
    helper_expect_in((const char *)helper_now->it.text.data, "the executor, process ");
    expect_none_left(3000);
    assert_true(helper_now_ms() - before < 4000);
}

static void test_the_executor_is_killed(void **state)
{
    (void)state;
    lose_executor(NULL);
}

static void test_the_executor_is_killed_without_pidfd(void **state)
{
    (void)state;
    static const char *const settings[] = {"node.pidfd=0", NULL};
    lose_executor(settings);
}

static void test_the_executor_is_killed_after_detaching(void **state)
{
    (void)state;
    start_family(NULL);
    helper_executor_tell(&helper_now->executor, 'D');
    helper_executor_tell(&helper_now->executor, 'C');
    helper_run_for(&helper_now->it, 600);
    assert_int_equal(helper_now->it.heard[TFOS__MESSAGE_ENDED], 0);
    assert_true(helper_executor_count(&helper_now->executor) >= FAMILY_LEAST);
    helper_executor_kill(&helper_now->executor);
    helper_wait_heard(&helper_now->it, TFOS__MESSAGE_ENDED, 1, 5000);
    assert_int_equal(helper_now->it.outcome, TFOS__OUTCOME_EXECUTOR_LOST);
    expect_none_left(3000);
}

static void test_the_executor_is_killed_before_a_role(void **state)
{
    (void)state;
    helper_now->it.hold_assign = true;
    helper_executor_script(&helper_now->executor, &helper_now->it, "true");
    helper_wait_heard(&helper_now->it, TFOS__MESSAGE_REGISTER, 1, 10000);
    helper_executor_kill(&helper_now->executor);
    helper_wait_heard(&helper_now->it, TFOS__MESSAGE_ENDED, 1, 5000);
    assert_int_equal(helper_now->it.outcome, TFOS__OUTCOME_EXECUTOR_LOST);
    expect_none_left(3000);
}

/* Nobody answers ENDED: the node does not wait for long. */
static void test_executor_and_coordinator_are_gone(void **state)
{
    (void)state;
    start_family(NULL);
    helper_now->it.mute = true;
    helper_executor_kill(&helper_now->executor);
    expect_none_left(5000);
}

static void test_stdin_ends(void **state)
{
    (void)state;
    static const char *const settings[] = {"node.kill_ms=200", NULL};
    start_family(settings);
    helper_executor_tell(&helper_now->executor, 'C');
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 5000), 7);
    assert_int_equal(helper_now->it.outcome, TFOS__OUTCOME_CANCELLED);
    assert_string_equal((const char *)helper_now->executor.said.data, "running\nended cancelled\n");
}

/* Nobody reads stderr, as when the disk of the executor's logs is full. */
static void test_stdin_ends_and_stderr_is_stuck(void **state)
{
    (void)state;
    const char *const program[] = {"/bin/sh", "-c", family, NULL};
    helper_executor_start(&helper_now->executor, &helper_now->it,
                          &(helper_start){.program = program, .settings = {"node.kill_ms=200"}, .stuck_errors = true});
    helper_wait_log(&helper_now->it, &helper_now->it.out, "ready", 10000);
    helper_executor_tell(&helper_now->executor, 'C');
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 5000), 7);
    assert_int_equal(helper_now->it.outcome, TFOS__OUTCOME_CANCELLED);
    helper_expect_in((const char *)helper_now->it.err.data, "tfos: stdin ended: the Spark task was cancelled\n");
}

/* A name server that does not answer holds up a thread, but not the end of the node. */
static void test_stdin_ends_while_the_resolver_hangs(void **state)
{
    (void)state;
    const char *const program[] = {"/bin/true", NULL};
    char preload[600];
    snprintf(preload, sizeof preload, "LD_PRELOAD=%.500s/stand_in_resolver_that_hangs.so",
             getenv("TFOS_TEST_STAND_INS"));
    helper_executor_start(&helper_now->executor, &helper_now->it,
                          &(helper_start){.program = program,
                                          .host = "coordinator.invalid",
                                          .outside = {preload, "ASAN_OPTIONS=verify_asan_link_order=0"}});
    helper_run_for(&helper_now->it, 300); /* or it would end before it asks, which is as good */
    helper_executor_tell(&helper_now->executor, 'C');
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 5000), 7);
    assert_string_equal((const char *)helper_now->executor.said.data, "ended cancelled\n");
}

static void test_stdin_ends_before_a_role(void **state)
{
    (void)state;
    helper_now->it.hold_assign = true;
    helper_executor_script(&helper_now->executor, &helper_now->it, "true");
    helper_wait_heard(&helper_now->it, TFOS__MESSAGE_REGISTER, 1, 10000);
    helper_executor_tell(&helper_now->executor, 'C');
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 5000), 7);
    assert_int_equal(helper_now->it.outcome, TFOS__OUTCOME_CANCELLED);
}

static void test_the_coordinator_is_gone(void **state)
{
    (void)state;
    start_family(NULL);
    int64_t before = helper_now_ms();
    helper_coordinator_vanish(&helper_now->it);
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 5000), 5);
    assert_true(helper_now_ms() - before < 3000);
    helper_expect_in((const char *)helper_now->executor.complained.data, "any more: the coordinator is gone");
}

static void test_nobody_ever_listened(void **state)
{
    (void)state;
    helper_coordinator_vanish(&helper_now->it);
    helper_run_for(&helper_now->it, 20);
    helper_executor_script(&helper_now->executor, &helper_now->it, "true");
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 5000), 5);
}

static void test_the_coordinator_is_silent(void **state)
{
    (void)state;
    helper_now->it.lease_ms = 700;
    start_family(NULL);
    helper_run_for(&helper_now->it, 1500); /* answers keep the lease */
    assert_true(helper_executor_count(&helper_now->executor) >= FAMILY_LEAST);
    helper_now->it.mute = true;
    int64_t before = helper_now_ms();
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 5000), 5);
    assert_in_range(helper_now_ms() - before, 400, 3000);
    helper_expect_in((const char *)helper_now->executor.complained.data, "was silent for ");
}

static void test_the_coordinator_is_silent_from_the_start(void **state)
{
    (void)state;
    const char *const program[] = {"/bin/true", NULL};
    helper_now->it.mute = true;
    helper_executor_start(&helper_now->executor, &helper_now->it,
                          &(helper_start){.program = program, .settings = {"cluster.lease_ms=500"}});
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 5000), 5);
}

/* The connection breaks several times while the child writes: no line is lost or doubled, and the end is told. */
static void test_the_connection_breaks(void **state)
{
    (void)state;
    helper_executor_script(&helper_now->executor, &helper_now->it,
                           "i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo line $i; sleep 0.02; done");
    for (int i = 0; i < 4; i++) {
        helper_wait_heard(&helper_now->it, TFOS__MESSAGE_LOG, helper_now->it.heard[TFOS__MESSAGE_LOG] + 2, 10000);
        helper_coordinator_cut(&helper_now->it);
    }
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 10000), 0);
    assert_int_equal(helper_now->it.outcome, TFOS__OUTCOME_FINISHED);
    assert_true(helper_now->it.connections >= 5);
    assert_int_equal(helper_now->it.returned, 1);
    char expected[2048] = "";
    for (int i = 1; i <= 60; i++) {
        snprintf(expected + strlen(expected), 32, "line %d\n", i);
    }
    assert_string_equal((const char *)helper_now->it.out.data, expected);
}

static void test_the_connection_breaks_before_bye(void **state)
{
    (void)state;
    helper_now->it.hold_bye = true;
    helper_executor_script(&helper_now->executor, &helper_now->it, "exit 3");
    helper_wait_heard(&helper_now->it, TFOS__MESSAGE_ENDED, 1, 10000);
    helper_now->it.hold_bye = false;
    helper_coordinator_cut(&helper_now->it);
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 5000), 1);
    assert_int_equal(helper_now->it.heard[TFOS__MESSAGE_ENDED], 2);
    assert_int_equal(helper_now->it.exit_code, 3);
}

/* A node that was stopped and goes on finds that its lease is over. */
static void test_the_node_is_frozen(void **state)
{
    (void)state;
    helper_now->it.lease_ms = 600;
    start_family(NULL);
    assert_int_equal(kill((pid_t)helper_now->it.node_pid, SIGSTOP), 0);
    helper_run_for(&helper_now->it, 900);
    helper_coordinator_vanish(&helper_now->it);
    assert_int_equal(kill((pid_t)helper_now->it.node_pid, SIGCONT), 0);
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 5000), 5);
}

/* A keeper that does nothing does not keep the node from ending. */
static void test_the_keeper_is_frozen(void **state)
{
    (void)state;
    static const char *const settings[] = {"node.kill_ms=100", NULL};
    start_family(settings);
    pid_t keeper = keeper_of((pid_t)helper_now->it.node_pid);
    assert_int_equal(kill(keeper, SIGSTOP), 0);
    int64_t before = helper_now_ms();
    helper_coordinator_stop(&helper_now->it, 0);
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 12000), 0);
    assert_int_equal(helper_now->it.outcome, TFOS__OUTCOME_STOPPED);
    assert_true(helper_now_ms() - before < 8000);
}

/* A family that keeps growing while it is killed. */
static void test_a_child_that_forks_without_end(void **state)
{
    (void)state;
    helper_executor_script(&helper_now->executor, &helper_now->it,
                           "echo ready; while true; do (setsid sleep 1000 &) ; sleep 0.01; done");
    helper_wait_log(&helper_now->it, &helper_now->it.out, "ready", 10000);
    helper_run_for(&helper_now->it, 200);
    assert_int_equal(kill((pid_t)helper_now->it.node_pid, SIGKILL), 0);
    expect_none_left(3000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, helper_scene_open, helper_scene_close)
    const struct CMUnitTest tests[] = {
        TEST(test_the_node_is_killed),
        TEST(test_the_keeper_is_killed),
        TEST(test_the_keeper_is_killed_before_a_role),
        TEST(test_the_executor_is_killed),
        TEST(test_the_executor_is_killed_without_pidfd),
        TEST(test_the_executor_is_killed_after_detaching),
        TEST(test_the_executor_is_killed_before_a_role),
        TEST(test_executor_and_coordinator_are_gone),
        TEST(test_stdin_ends),
        TEST(test_stdin_ends_and_stderr_is_stuck),
        TEST(test_stdin_ends_while_the_resolver_hangs),
        TEST(test_stdin_ends_before_a_role),
        TEST(test_the_coordinator_is_gone),
        TEST(test_nobody_ever_listened),
        TEST(test_the_coordinator_is_silent),
        TEST(test_the_coordinator_is_silent_from_the_start),
        TEST(test_the_connection_breaks),
        TEST(test_the_connection_breaks_before_bye),
        TEST(test_the_node_is_frozen),
        TEST(test_the_keeper_is_frozen),
        TEST(test_a_child_that_forks_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
