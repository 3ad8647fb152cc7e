/* A node from its orders to its end: what its child gets, what it says, how it ends. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "helper_coordinator.h"
#include "helper_records.h"

static void start_script(const char *script)
{
    helper_executor_script(&helper_now->executor, &helper_now->it, script);
}

static void expect_end(int code, tfos__outcome outcome)
{
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 20000), code);
    assert_string_equal(tfos__outcome_name((tfos__outcome)helper_now->it.outcome), tfos__outcome_name(outcome));
}

static void test_a_child_that_finishes(void **state)
{
    (void)state;
    start_script(
        "echo hello; echo there >&2; echo \"$TF_CONFIG\"; echo \"$TFOS_CONTEXT\"; echo \"cuda $CUDA_VISIBLE_DEVICES\"; "
        "echo \"threads $TF_NUM_INTRAOP_THREADS $TF_NUM_INTEROP_THREADS $OMP_NUM_THREADS\"; read x || echo no input");
    expect_end(0, TFOS__OUTCOME_FINISHED);
    assert_string_equal((const char *)helper_now->executor.said.data, "running\nended finished\n");
    assert_string_equal(helper_now->it.version, TFOS_VERSION);
    assert_string_equal(helper_now->it.host, "127.0.0.1");
    assert_string_equal(helper_now->it.executor, "7");
    assert_true(helper_now->it.node_port > 0);
    assert_int_equal(helper_now->it.returned, 0);
    const char *out = (const char *)helper_now->it.out.data;
    helper_expect_in(out, "hello\n");
    helper_expect_in(out, "{\"cluster\":{\"worker\":[\"127.0.0.1:1\"]},\"task\":{\"type\":\"worker\",\"index\":0}");
    helper_expect_in(out, "\"driver\":{\"args\":[1,2]}");
    helper_expect_in(out, "\"spark\":{\"files\":\"/f\"}");
    helper_expect_in(out, "\"index\":3,\"attempt\":0,\"role\":\"worker\",\"task\":0");
    helper_expect_in(out, "threads 2 2 2\n");
    helper_expect_in(out, "no input\n");
    assert_string_equal((const char *)helper_now->it.err.data, "there\n");
    helper_expect_in((const char *)helper_now->it.tail.data, "no input\n");
    char *log = helper_executor_read(&helper_now->executor, "tfos-test-worker-0.log");
    assert_non_null(log);
    helper_expect_in(log, "hello\n");
    free(log);
}

static void test_payload_and_files(void **state)
{
    (void)state;
    const char *const program[] = {"/bin/sh", "-c",
                                   "cat <&$TFOS_PAYLOAD_FD; echo; ls /proc/self/fd | tr '\\n' ' '; "
                                   "(echo more >&3) 2>/dev/null || echo sealed",
                                   NULL};
    helper_executor_start(
        &helper_now->executor, &helper_now->it,
        &(helper_start){.program = program, .payload = "the function", .flags = TFOS__FLAG_TENSORFLOW});
    expect_end(0, TFOS__OUTCOME_FINISHED);
    helper_expect_in((const char *)helper_now->it.out.data, "the function\n");
    helper_expect_in((const char *)helper_now->it.out.data, "sealed\n");
    helper_expect_in((const char *)helper_now->it.out.data, "0 1 2 3 4 5 6 7 ");
    assert_null(strstr((const char *)helper_now->it.out.data, " 8 "));
}

/* With InputMode.SPARK there is one more: the socket of the feed. */
static void test_feed_file(void **state)
{
    (void)state;
    const char *const program[] = {"/bin/sh", "-c", "readlink /proc/self/fd/$TFOS_FEED_FD", NULL};
    helper_executor_start(&helper_now->executor, &helper_now->it, &(helper_start){.program = program});
    expect_end(0, TFOS__OUTCOME_FINISHED);
    helper_expect_in((const char *)helper_now->it.out.data, "socket:[");
}

static bool is_open(pid_t pid, int file)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)pid, file);
    return lstat(path, &info) == 0;
}

/* What the executor had open is not held by those who live longer. */
static void test_files_of_the_executor(void **state)
{
    (void)state;
    enum { LEAK = 77 };
    const char *const program[] = {"/bin/sh", "-c", "echo parent $PPID.; sleep 1000; true", NULL};
    helper_executor_start(&helper_now->executor, &helper_now->it, &(helper_start){.program = program, .leak = LEAK});
    helper_wait_log(&helper_now->it, &helper_now->it.out, ".\n", 10000);
    long keeper = 0;
    assert_int_equal(sscanf((const char *)helper_now->it.out.data, "parent %ld", &keeper), 1);
    assert_true(is_open((pid_t)keeper, 0) && is_open((pid_t)helper_now->it.node_pid, 0));
    assert_false(is_open((pid_t)keeper, LEAK));
    assert_false(is_open((pid_t)helper_now->it.node_pid, LEAK));
    helper_coordinator_stop(&helper_now->it, 0);
    expect_end(0, TFOS__OUTCOME_STOPPED);
}

/* A core of the node would have the key in it; one of the program is the user's. */
static void test_core_dumps(void **state)
{
    (void)state;
    char path[64];
    char text[4096] = "";
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_CORE, &before), 0);
    struct rlimit most = {.rlim_cur = before.rlim_max, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_CORE, &most), 0);
    start_script("grep core /proc/self/limits; sleep 1000; true");
    assert_int_equal(setrlimit(RLIMIT_CORE, &before), 0);
    helper_wait_log(&helper_now->it, &helper_now->it.out, "\n", 10000);
    char soft[32] = "";
    char hard[32] = "";
    assert_int_equal(sscanf((const char *)helper_now->it.out.data, "Max core file size %31s %31s", soft, hard), 2);
    assert_string_equal(soft, hard);
    snprintf(path, sizeof path, "/proc/%ld/limits", (long)helper_now->it.node_pid);
    FILE *limits = fopen(path, "r");
    assert_non_null(limits);
    assert_true(fread(text, 1, sizeof text - 1, limits) > 0);
    fclose(limits);
    const char *line = strstr(text, "Max core file size");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "Max core file size %31s", soft), 1);
    assert_string_equal(soft, "0");
    helper_coordinator_stop(&helper_now->it, 0);
    expect_end(0, TFOS__OUTCOME_STOPPED);
}

static void test_a_traceback(void **state)
{
    (void)state;
    start_script("printf '{\"event\": \"raised\", \"text\": \"Traceback…\\\\nValueError: no\"}\\n' >&4; exit 1");
    expect_end(1, TFOS__OUTCOME_RAISED);
    assert_int_equal(helper_now->it.exit_code, 1);
    assert_string_equal((const char *)helper_now->it.text.data, "Traceback…\nValueError: no");
    assert_string_equal((const char *)helper_now->executor.said.data, "running\nended raised\n");
}

static void test_an_exit_code(void **state)
{
    (void)state;
    start_script("echo last words; exit 3");
    expect_end(1, TFOS__OUTCOME_EXITED);
    assert_int_equal(helper_now->it.exit_code, 3);
    assert_string_equal((const char *)helper_now->it.text.data, "exited with code 3");
    assert_string_equal((const char *)helper_now->it.tail.data, "last words\n");
}

static void test_a_signal(void **state)
{
    (void)state;
    start_script("sleep 1000 & setsid sleep 1000 & kill -SEGV $$");
    expect_end(1, TFOS__OUTCOME_KILLED);
    assert_int_equal(helper_now->it.signal, SIGSEGV);
    helper_expect_in((const char *)helper_now->it.text.data, "was killed by signal 11 (SIGSEGV, Segmentation fault)");
}

static void test_a_child_killed_from_outside(void **state)
{
    (void)state;
    start_script("(setsid sh -c 'sleep 1000 & sleep 1000' &) ; echo ready; sleep 1000; true");
    helper_wait_log(&helper_now->it, &helper_now->it.out, "ready", 10000);
    int64_t before = helper_now_ms();
    assert_int_equal(kill((pid_t)helper_now->it.child_pid, SIGKILL), 0);
    expect_end(1, TFOS__OUTCOME_KILLED);
    assert_int_equal(helper_now->it.signal, SIGKILL);
    assert_true(helper_now_ms() - before < 3000);
}

static void test_a_program_that_is_not_there(void **state)
{
    (void)state;
    const char *const program[] = {"/no/such/python", NULL};
    helper_executor_start(&helper_now->executor, &helper_now->it, &(helper_start){.program = program});
    expect_end(1, TFOS__OUTCOME_NOT_STARTED);
    assert_string_equal((const char *)helper_now->it.text.data,
                        "cannot start the program '/no/such/python': No such file or directory");
    assert_string_equal((const char *)helper_now->executor.said.data, "ended not_started\n");
}

static void test_stop_with_grace(void **state)
{
    (void)state;
    start_script("trap 'echo terminated; exit 0' TERM; echo ready; while true; do sleep 0.05; done");
    helper_wait_log(&helper_now->it, &helper_now->it.out, "ready", 10000);
    int64_t before = helper_now_ms();
    helper_coordinator_stop(&helper_now->it, 60000);
    helper_run_for(&helper_now->it, 300);
    assert_int_equal(helper_now->it.heard[TFOS__MESSAGE_ENDED], 0);
    assert_int_equal(helper_now->it.state, TFOS__NODE_STOPPING);
    helper_coordinator_stop(&helper_now->it, 100); /* a shorter one counts */
    helper_coordinator_stop(&helper_now->it, 60000);
    expect_end(0, TFOS__OUTCOME_STOPPED);
    assert_in_range(helper_now->it.ended_ms - before, 350, 3000);
    helper_expect_in((const char *)helper_now->it.out.data, "terminated\n");
    helper_expect_in((const char *)helper_now->it.text.data, "was stopped: the test says so");
}

static void test_a_child_that_ends_in_its_grace(void **state)
{
    (void)state;
    start_script("echo ready; sleep 0.5; echo exported");
    helper_wait_log(&helper_now->it, &helper_now->it.out, "ready", 10000);
    helper_coordinator_stop(&helper_now->it, 60000);
    expect_end(0, TFOS__OUTCOME_FINISHED);
    helper_expect_in((const char *)helper_now->it.out.data, "exported\n");
}

static void test_a_child_that_ignores_sigterm(void **state)
{
    (void)state;
    const char *const program[] = {"/bin/sh", "-c", "trap '' TERM; echo ready; while true; do sleep 0.05; done", NULL};
    helper_executor_start(&helper_now->executor, &helper_now->it,
                          &(helper_start){.program = program, .settings = {"node.kill_ms=300"}});
    helper_wait_log(&helper_now->it, &helper_now->it.out, "ready", 10000);
    int64_t before = helper_now_ms();
    helper_coordinator_stop(&helper_now->it, 0);
    expect_end(0, TFOS__OUTCOME_STOPPED);
    assert_in_range(helper_now->it.ended_ms - before, 250, 3000);
    assert_int_equal(helper_now->it.signal, SIGKILL);
}

static void test_stop_before_a_role(void **state)
{
    (void)state;
    helper_now->it.hold_assign = true;
    start_script("echo never");
    helper_wait_heard(&helper_now->it, TFOS__MESSAGE_REGISTER, 1, 10000);
    helper_coordinator_stop(&helper_now->it, 60000);
    expect_end(0, TFOS__OUTCOME_STOPPED);
    assert_string_equal((const char *)helper_now->executor.said.data, "ended stopped\n");
    assert_int_equal(helper_now->it.out.size, 0);
}

static void test_sigterm_stops_the_node(void **state)
{
    (void)state;
    start_script("echo ready; sleep 1000; true");
    helper_wait_log(&helper_now->it, &helper_now->it.out, "ready", 10000);
    assert_int_equal(kill((pid_t)helper_now->it.node_pid, SIGTERM), 0);
    expect_end(0, TFOS__OUTCOME_STOPPED);
}

static void test_heartbeats_tell_usage(void **state)
{
    (void)state;
    start_script("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 0.5");
    expect_end(0, TFOS__OUTCOME_FINISHED);
    assert_true(helper_now->it.heard[TFOS__MESSAGE_BEAT] > 3);
    assert_true(helper_now->it.cpu_ms > 50);
    assert_in_range(helper_now->it.rss_bytes, 100 << 10, 1 << 30);
}

static void test_the_child_asks_for_its_port(void **state)
{
    (void)state;
    const char *const program[] = {
        "/bin/sh", "-c",
        "printf '{\"event\": \"release_port\"}\\n' >&4; read answer <&4; echo \"answer $answer\"; "
        "printf 'nonsense\\n' >&4; read answer <&4; echo \"answer $answer\"",
        NULL};
    helper_executor_start(&helper_now->executor, &helper_now->it,
                          &(helper_start){.program = program, .flags = TFOS__FLAG_KEEP_PORT});
    expect_end(0, TFOS__OUTCOME_FINISHED);
    helper_expect_in((const char *)helper_now->it.out.data, "answer {\"ok\": true}\n");
    helper_expect_in((const char *)helper_now->it.out.data, "answer {\"ok\": false, \"error\": \"expected the event");
}

static void test_environment_and_settings(void **state)
{
    (void)state;
    const char *const program[] = {
        "/bin/sh", "-c", "echo \"$OMP_NUM_THREADS $MINE $TFOS_NODE_KILL_MS ${TF_CONFIG-none} ${CUDA_VISIBLE_DEVICES}\"",
        NULL};
    helper_now->it.gpus = "1,3";
    helper_executor_start(&helper_now->executor, &helper_now->it,
                          &(helper_start){.program = program,
                                          .environment = {"OMP_NUM_THREADS=9", "MINE=a=b c"},
                                          .settings = {"node.kill_ms=77", "server.host=example"},
                                          .flags = TFOS__FLAG_PARALLEL});
    expect_end(0, TFOS__OUTCOME_FINISHED);
    assert_string_equal((const char *)helper_now->it.out.data, "9 a=b c 77 none 1,3\n");
    assert_int_equal(helper_now->it.node_port, 0);
}

static void test_wrong_orders(void **state)
{
    (void)state;
    const char *const program[] = {"/bin/true", NULL};
    helper_executor_start(&helper_now->executor, &helper_now->it, &(helper_start){.program = program, .wrong_pid = 1});
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 10000), 2);
    helper_expect_in((const char *)helper_now->executor.complained.data, "the orders name process 1 as the executor");
    helper_executor_close(&helper_now->executor, &helper_now->it);
    helper_executor_start(&helper_now->executor, &helper_now->it,
                          &(helper_start){.program = program, .settings = {"node.kill_ms=soon"}});
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 10000), 2);
    helper_expect_in((const char *)helper_now->executor.complained.data,
                     "the setting node.kill_ms: expected a whole number");
    assert_int_equal(helper_now->it.connections, 0);
}

static void test_refused(void **state)
{
    (void)state;
    helper_now->it.refuse = "another version";
    start_script("true");
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 10000), 4);
    helper_expect_in((const char *)helper_now->executor.complained.data,
                     "the coordinator refused this node: another version");
    assert_string_equal((const char *)helper_now->executor.said.data, "ended stopped\n");
}

static void test_a_wrong_key(void **state)
{
    (void)state;
    const char *const program[] = {"/bin/true", NULL};
    static const uint8_t key[TFOS__KEY_BYTES] = {1, 2, 3};
    helper_executor_start(&helper_now->executor, &helper_now->it, &(helper_start){.program = program, .key = key});
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 10000), 4);
    helper_expect_in((const char *)helper_now->executor.complained.data, "another cluster key");
    assert_int_equal(helper_now->it.heard[TFOS__MESSAGE_HELLO], 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, helper_scene_open, helper_scene_close)
    const struct CMUnitTest tests[] = {
        TEST(test_a_child_that_finishes),
        TEST(test_payload_and_files),
        TEST(test_feed_file),
        TEST(test_files_of_the_executor),
        TEST(test_core_dumps),
        TEST(test_a_traceback),
        TEST(test_an_exit_code),
        TEST(test_a_signal),
        TEST(test_a_child_killed_from_outside),
        TEST(test_a_program_that_is_not_there),
        TEST(test_stop_with_grace),
        TEST(test_a_child_that_ends_in_its_grace),
        TEST(test_a_child_that_ignores_sigterm),
        TEST(test_stop_before_a_role),
        TEST(test_sigterm_stops_the_node),
        TEST(test_heartbeats_tell_usage),
        TEST(test_the_child_asks_for_its_port),
        TEST(test_environment_and_settings),
        TEST(test_wrong_orders),
        TEST(test_refused),
        TEST(test_a_wrong_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
