/* The keeper by itself: what it starts, reports and ends. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/keeper.h"
#include "node/usage.h"

static tfos__keeper keeper;

static int open_keeper(void **state)
{
    (void)state;
    return tfos__keeper_open(&keeper, NULL) == TFOS_OK ? 0 : -1;
}

static int close_keeper(void **state)
{
    tfos__processes below = {0};
    (void)state;
    tfos__keeper_close(&keeper);
    assert_int_equal(waitpid(keeper.pid, NULL, 0), keeper.pid);
    assert_int_equal(tfos__processes_below(getpid(), &below, NULL), TFOS_OK);
    assert_int_equal(below.count, 0);
    tfos__processes_reset(&below);
    return 0;
}

static tfos__keeper_event next_event(void)
{
    tfos__keeper_event event = {0};
    struct pollfd wait = {.fd = keeper.socket, .events = POLLIN};
    assert_int_equal(poll(&wait, 1, 10000), 1);
    assert_int_equal(tfos__keeper_next(&keeper, &event, NULL), TFOS_OK);
    return event;
}

static void expect_event(tfos__keeper_event_kind kind, tfos__keeper_slot slot, int value)
{
    tfos__keeper_event event = next_event();
    assert_int_equal(event.kind, kind);
    assert_int_equal(event.slot, slot);
    assert_int_equal(event.value, value);
}

static void start_script(tfos__keeper_slot slot, const char *script, int output)
{
    const char *const arguments[] = {"sh", "-c", script, NULL};
    const char *const environment[] = {"PATH=/usr/bin:/bin", "NAME=some value", NULL};
    tfos__keeper_order order = {.slot = slot,
                                .file = "sh",
                                .arguments = arguments,
                                .environment = environment,
                                .files = {output, -1},
                                .file_count = 2};
    assert_int_equal(tfos__keeper_start(&keeper, &order, NULL), TFOS_OK);
}

static void test_a_program(void **state)
{
    (void)state;
    int ends[2];
    char text[256] = "";
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    start_script(TFOS__KEEPER_CHILD, "echo \"$0 $NAME $(ls /proc/self/fd | tr '\\n' ' ')\"; exit 3", ends[1]);
    close(ends[1]);
    expect_event(TFOS__KEEPER_STARTED, TFOS__KEEPER_CHILD, 0);
    expect_event(TFOS__KEEPER_ENDED, TFOS__KEEPER_CHILD, 3 << 8);
    expect_event(TFOS__KEEPER_GONE, 0, 0);
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    assert_string_equal(text, "sh some value 0 1 2 3 \n"); /* 3 is ls's own */
    assert_int_equal(read(ends[0], text, sizeof text), 0);
    close(ends[0]);
}

static void test_a_program_that_is_not_there(void **state)
{
    (void)state;
    const char *const words[] = {"nothing", NULL};
    const char *const environment[] = {"PATH=/no/such", NULL};
    tfos__keeper_order order = {
        .slot = TFOS__KEEPER_TOOL, .file = "no-such-program", .arguments = words, .environment = environment};
    assert_int_equal(tfos__keeper_start(&keeper, &order, NULL), TFOS_OK);
    expect_event(TFOS__KEEPER_FAILED, TFOS__KEEPER_TOOL, ENOENT);
    order.file = "/etc/passwd";
    assert_int_equal(tfos__keeper_start(&keeper, &order, NULL), TFOS_OK);
    expect_event(TFOS__KEEPER_FAILED, TFOS__KEEPER_TOOL, EACCES);
}

static void test_a_large_environment(void **state)
{
    (void)state;
    enum { VARIABLES = 1000 };
    static char texts[VARIABLES][1100];
    static const char *environment[VARIABLES + 1];
    const char *const arguments[] = {"sh", "-c", "exit ${#V999}", NULL};
    for (int i = 0; i < VARIABLES; i++) {
        snprintf(texts[i], sizeof texts[i], "V%d=%0*d", i, i == 999 ? 42 : 1000, 0);
        environment[i] = texts[i];
    }
    tfos__keeper_order order = {
        .slot = TFOS__KEEPER_CHILD, .file = "/bin/sh", .arguments = arguments, .environment = environment};
    assert_int_equal(tfos__keeper_start(&keeper, &order, NULL), TFOS_OK);
    expect_event(TFOS__KEEPER_STARTED, TFOS__KEEPER_CHILD, 0);
    expect_event(TFOS__KEEPER_ENDED, TFOS__KEEPER_CHILD, 42 << 8);
    expect_event(TFOS__KEEPER_GONE, 0, 0);
}

/* The end of the child takes everything along, also what is in other sessions; a tool's end does not. */
static void test_what_the_child_leaves(void **state)
{
    (void)state;
    start_script(TFOS__KEEPER_TENSORBOARD, "sleep 1000", -1);
    expect_event(TFOS__KEEPER_STARTED, TFOS__KEEPER_TENSORBOARD, 0);
    start_script(TFOS__KEEPER_TOOL, "exit 0", -1);
    expect_event(TFOS__KEEPER_STARTED, TFOS__KEEPER_TOOL, 0);
    expect_event(TFOS__KEEPER_ENDED, TFOS__KEEPER_TOOL, 0);
    start_script(TFOS__KEEPER_CHILD, "(setsid sleep 1000 &) ; sleep 1000 & exit 0", -1);
    expect_event(TFOS__KEEPER_STARTED, TFOS__KEEPER_CHILD, 0);
    expect_event(TFOS__KEEPER_ENDED, TFOS__KEEPER_CHILD, 0);
    expect_event(TFOS__KEEPER_ENDED, TFOS__KEEPER_TENSORBOARD, SIGKILL);
    expect_event(TFOS__KEEPER_GONE, 0, 0);
    tfos__processes below = {0};
    assert_int_equal(tfos__processes_below(keeper.pid, &below, NULL), TFOS_OK);
    assert_int_equal(below.count, 0);
    tfos__processes_reset(&below);
}

static void test_signals(void **state)
{
    (void)state;
    tfos__keeper_signal(&keeper, TFOS__KEEPER_CHILD, SIGTERM); /* nobody there */
    start_script(TFOS__KEEPER_CHILD, "sleep 1000 & wait", -1);
    expect_event(TFOS__KEEPER_STARTED, TFOS__KEEPER_CHILD, 0);
    tfos__keeper_signal(&keeper, TFOS__KEEPER_CHILD, SIGTERM);
    expect_event(TFOS__KEEPER_ENDED, TFOS__KEEPER_CHILD, SIGTERM);
    expect_event(TFOS__KEEPER_GONE, 0, 0);
    start_script(TFOS__KEEPER_CHILD, "trap '' TERM HUP INT; sleep 1000", -1);
    expect_event(TFOS__KEEPER_STARTED, TFOS__KEEPER_CHILD, 0);
    tfos__keeper_end(&keeper);
    expect_event(TFOS__KEEPER_ENDED, TFOS__KEEPER_CHILD, SIGKILL);
    expect_event(TFOS__KEEPER_GONE, 0, 0);
}

/* Signals that end others do not reach the keeper, and its children have the usual ones. */
static void test_the_keeper_ignores_signals(void **state)
{
    (void)state;
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_int_equal(kill(keeper.pid, numbers[i]), 0);
    }
    start_script(TFOS__KEEPER_CHILD,
                 "grep -q 'SigIgn:.*0000000000000000' /proc/self/status && "
                 "grep -q 'SigBlk:.*0000000000000000' /proc/self/status",
                 -1);
    expect_event(TFOS__KEEPER_STARTED, TFOS__KEEPER_CHILD, 0);
    expect_event(TFOS__KEEPER_ENDED, TFOS__KEEPER_CHILD, 0);
    expect_event(TFOS__KEEPER_GONE, 0, 0);
}

/* The kernel's first choice when memory runs out is the program, not we. */
static void test_who_dies_for_memory(void **state)
{
    (void)state;
    start_script(TFOS__KEEPER_CHILD,
                 "test $(cat /proc/self/oom_score_adj) -gt $(cat /proc/$PPID/oom_score_adj) || "
                 "test $(cat /proc/self/oom_score_adj) -eq 1000",
                 -1);
    expect_event(TFOS__KEEPER_STARTED, TFOS__KEEPER_CHILD, 0);
    expect_event(TFOS__KEEPER_ENDED, TFOS__KEEPER_CHILD, 0);
    expect_event(TFOS__KEEPER_GONE, 0, 0);
}

static void test_closing_ends_all(void **state)
{
    (void)state;
    start_script(TFOS__KEEPER_CHILD, "(setsid sh -c 'sleep 1000; true' &) ; sleep 1000", -1);
    expect_event(TFOS__KEEPER_STARTED, TFOS__KEEPER_CHILD, 0);
    /* close_keeper looks for what is left. */
}

static void test_a_dead_keeper(void **state)
{
    (void)state;
    tfos__keeper_event event;
    tfos_error error;
    const char *const words[] = {"true", NULL};
    const char *const environment[] = {NULL};
    tfos__keeper_order order = {
        .slot = TFOS__KEEPER_CHILD, .file = "true", .arguments = words, .environment = environment};
    assert_int_equal(tfos__keeper_next(&keeper, &event, &error), TFOS_END);
    assert_int_equal(kill(keeper.pid, SIGKILL), 0);
    struct pollfd wait = {.fd = keeper.socket, .events = POLLIN};
    assert_int_equal(poll(&wait, 1, 10000), 1);
    assert_int_equal(tfos__keeper_next(&keeper, &event, &error), TFOS_IO);
    assert_int_equal(tfos__keeper_start(&keeper, &order, &error), TFOS_IO);
}

/* As `make` leaves it to whom it starts: a signal that the C library keeps to itself, and so cannot give back. */
static void ignore_an_inner_signal(void)
{
    static const struct {
        void (*handler)(int);
        unsigned long flags;
        void *restorer;
        uint64_t mask;
    } ignore = {.handler = SIG_IGN};
    assert_int_equal(syscall(SYS_rt_sigaction, 32, &ignore, NULL, sizeof ignore.mask), 0);
}

int main(void)
{
    ignore_an_inner_signal();
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_keeper, close_keeper)
    const struct CMUnitTest tests[] = {
        TEST(test_a_program),
        TEST(test_a_program_that_is_not_there),
        TEST(test_a_large_environment),
        TEST(test_what_the_child_leaves),
        TEST(test_signals),
        TEST(test_the_keeper_ignores_signals),
        TEST(test_who_dies_for_memory),
        TEST(test_closing_ends_all),
        TEST(test_a_dead_keeper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
