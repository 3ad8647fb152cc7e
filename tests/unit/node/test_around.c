/* What a node finds and starts besides its child: GPUs by nvidia-smi, TensorBoard, the memory limit. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper_coordinator.h"
#include "helper_records.h"

typedef struct scene {
    helper_coordinator it;
    helper_executor executor;
    char tools[300]; /* a folder for PATH */
    char path[1200];
} scene;

static scene *s;

static int open_scene(void **state)
{
    (void)state;
    s = calloc(1, sizeof *s);
    helper_coordinator_open(&s->it);
    const char *parent = getenv("TMPDIR");
    snprintf(s->tools, sizeof s->tools, "%s/tools-%ld", parent != NULL ? parent : "/tmp", (long)getpid());
    mkdir(s->tools, 0755);
    snprintf(s->path, sizeof s->path, "PATH=%s:%.800s", s->tools, getenv("PATH"));
    return 0;
}

static int close_scene(void **state)
{
    char name[400];
    (void)state;
    helper_executor_close(&s->executor, &s->it);
    helper_coordinator_close(&s->it);
    snprintf(name, sizeof name, "%s/nvidia-smi", s->tools);
    unlink(name);
    rmdir(s->tools);
    free(s);
    return 0;
}

/* ---- GPUs ---- */

static void put_tool(const char *script)
{
    char name[400];
    snprintf(name, sizeof name, "%s/nvidia-smi", s->tools);
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", script);
    fclose(file);
    assert_int_equal(chmod(name, 0755), 0);
}

static void run_with(const char *outside, const char *gpus)
{
    const char *const program[] = {"/bin/sh", "-c", "echo \"cuda $CUDA_VISIBLE_DEVICES\"", NULL};
    helper_executor_start(&s->executor, &s->it,
                          &(helper_start){.program = program, .outside = {s->path, outside}, .gpus = gpus});
    assert_int_equal(helper_executor_wait(&s->executor, &s->it, 20000), 0);
}

static const char two_gpus[] = "case $1 in\n"
                               "--query-gpu=index,uuid) printf '0, GPU-aaaa\\n1, GPU-bbbb\\n2, GPU-cccc\\n';;\n"
                               "--query-compute-apps=gpu_uuid) echo GPU-bbbb;;\n"
                               "*) exit 9;;\n"
                               "esac";

static void test_gpus_of_nvidia_smi(void **state)
{
    (void)state;
    put_tool(two_gpus);
    s->it.gpus = "2";
    run_with(NULL, NULL);
    assert_string_equal(s->it.offered_gpus, "0,2");
    assert_string_equal(s->it.gpu_source, "nvidia-smi");
    assert_string_equal((const char *)s->it.out.data, "cuda 2\n");
}

static void test_gpus_that_the_executor_may_see(void **state)
{
    (void)state;
    put_tool(two_gpus);
    run_with("CUDA_VISIBLE_DEVICES=2,1", NULL);
    assert_string_equal(s->it.offered_gpus, "2");
    assert_string_equal((const char *)s->it.out.data, "cuda \n");
}

static void test_gpus_of_spark_come_first(void **state)
{
    (void)state;
    put_tool(two_gpus);
    run_with(NULL, "5,6");
    assert_string_equal(s->it.offered_gpus, "5,6");
    assert_string_equal(s->it.gpu_source, "spark");
}

static void test_gpus_on_kubernetes(void **state)
{
    (void)state;
    put_tool(two_gpus);
    run_with("SPARK_EXECUTOR_POD_IP=10.0.0.1", NULL);
    assert_string_equal(s->it.offered_gpus, "");
    assert_string_equal(s->it.gpu_source, "");
}

static void test_gpus_of_an_old_nvidia_smi(void **state)
{
    (void)state;
    put_tool("[ \"$1\" = --list-gpus ] || exit 2\n"
             "echo 'GPU 0: Tesla K80 (UUID: GPU-aaaa)'; echo 'GPU 1: Tesla K80 (UUID: GPU-bbbb)'");
    run_with(NULL, NULL);
    assert_string_equal(s->it.offered_gpus, "0,1");
    helper_expect_in((const char *)s->it.err.data, "cannot say which GPUs are busy, so all are offered");
}

static void test_gpus_of_a_broken_nvidia_smi(void **state)
{
    (void)state;
    put_tool("echo NVIDIA-SMI has failed because it could not talk to the driver; exit 0");
    run_with(NULL, NULL);
    assert_string_equal(s->it.offered_gpus, "");
    helper_expect_in((const char *)s->it.err.data, "no GPU is used on this host: expected a line like '0, GPU-");
}

/* It is given up after ten seconds, and what it started goes, too. */
static void test_gpus_of_an_nvidia_smi_that_hangs(void **state)
{
    (void)state;
    put_tool("setsid sleep 1000 & sleep 1000");
    int64_t before = helper_now_ms();
    run_with(NULL, NULL);
    assert_in_range(helper_now_ms() - before, 9000, 15000);
    assert_string_equal(s->it.offered_gpus, "");
    helper_expect_in((const char *)s->it.err.data, "did not answer within 10 seconds");
}

static void test_executor_lost_while_nvidia_smi_hangs(void **state)
{
    (void)state;
    const char *const program[] = {"/bin/true", NULL};
    put_tool("setsid sleep 1000 & touch $TFOS_TEST_READY; sleep 1000");
    char ready[400];
    snprintf(ready, sizeof ready, "TFOS_TEST_READY=%s/ready", s->tools);
    helper_executor_start(&s->executor, &s->it, &(helper_start){.program = program, .outside = {s->path, ready}});
    for (int i = 0; i < 500 && access(strchr(ready, '=') + 1, F_OK) != 0; i++) {
        helper_run_for(&s->it, 10);
    }
    assert_int_equal(unlink(strchr(ready, '=') + 1), 0);
    int64_t before = helper_now_ms();
    helper_executor_kill(&s->executor);
    while (helper_executor_count(&s->executor) > 0 && helper_now_ms() - before < 5000) {
        helper_run_for(&s->it, 10);
    }
    assert_true(helper_now_ms() - before < 4000);
}

/* The coordinator has not heard of the node: nobody is waited for. */
static void test_stdin_ends_while_nvidia_smi_hangs(void **state)
{
    (void)state;
    const char *const program[] = {"/bin/true", NULL};
    put_tool("sleep 1000");
    helper_executor_start(&s->executor, &s->it, &(helper_start){.program = program, .outside = {s->path}});
    helper_executor_tell(&s->executor, 'C');
    assert_int_equal(helper_executor_wait(&s->executor, &s->it, 5000), 7);
    assert_string_equal((const char *)s->executor.said.data, "ended cancelled\n");
    helper_expect_in((const char *)s->executor.complained.data, "tfos: stdin ended: the Spark task was cancelled\n");
    assert_int_equal(s->it.connections, 0);
}

/* ---- TensorBoard ---- */

static const char server[] =
    "import socket, sys, time\n"
    "print('TensorBoard stand-in', *sys.argv[1:], flush=True)\n"
    "time.sleep(0.3)\n"
    "listener = socket.create_server((sys.argv[1].split('=')[1], int(sys.argv[2].split('=')[1])))\n"
    "while True: listener.accept()[0].close()\n";

static void test_tensorboard(void **state)
{
    (void)state;
    const char *const program[] = {"/bin/sh", "-c", "echo ready; sleep 1000; true", NULL};
    const char *const board[] = {"python3", "-c", server, "--host={host}", "--port={port}", NULL};
    helper_executor_start(&s->executor, &s->it, &(helper_start){.program = program, .tensorboard = board});
    helper_wait_heard(&s->it, TFOS__MESSAGE_TENSORBOARD, 1, 20000);
    unsigned port = 0;
    assert_int_equal(sscanf(s->it.url, "http://127.0.0.1:%u", &port), 1);
    assert_true(port > 0);
    helper_coordinator_cut(&s->it); /* a coordinator that is met again hears it again */
    helper_wait_heard(&s->it, TFOS__MESSAGE_TENSORBOARD, 2, 20000);
    helper_wait_log(&s->it, &s->it.err, "[tensorboard] TensorBoard stand-in --host=127.0.0.1 --port=", 5000);
    helper_coordinator_stop(&s->it, 0);
    assert_int_equal(helper_executor_wait(&s->executor, &s->it, 10000), 0);
}

static void test_tensorboard_at_a_given_port(void **state)
{
    (void)state;
    const char *const program[] = {"/bin/sh", "-c", "echo ready; sleep 1000; true", NULL};
    const char *const board[] = {"python3", "-c", server, "--host={host}", "--port={port}", NULL};
    s->it.role = "chief";
    s->it.spec = "{\"chief\": [\"127.0.0.1:1\"], \"worker\": [\"127.0.0.1:2\"]}";
    helper_executor_start(
        &s->executor, &s->it,
        &(helper_start){.program = program, .tensorboard = board, .environment = {"TENSORBOARD_PORT=38000-38900"}});
    helper_wait_heard(&s->it, TFOS__MESSAGE_TENSORBOARD, 1, 20000);
    unsigned port = 0;
    assert_int_equal(sscanf(s->it.url, "http://127.0.0.1:%u", &port), 1);
    assert_in_range(port, 38000, 38900);
    helper_coordinator_stop(&s->it, 0);
    assert_int_equal(helper_executor_wait(&s->executor, &s->it, 10000), 0);
}

static void test_tensorboard_only_beside_the_chief(void **state)
{
    (void)state;
    const char *const program[] = {"/bin/sh", "-c", "sleep 0.3; echo fine", NULL};
    const char *const board[] = {"/bin/sh", "-c", "echo wrong; sleep 1000", NULL};
    s->it.spec = "{\"chief\": [\"127.0.0.1:1\"], \"worker\": [\"127.0.0.1:2\"]}";
    helper_executor_start(&s->executor, &s->it, &(helper_start){.program = program, .tensorboard = board});
    assert_int_equal(helper_executor_wait(&s->executor, &s->it, 10000), 0);
    assert_int_equal(s->it.err.size, 0);
}

static void test_tensorboard_that_fails(void **state)
{
    (void)state;
    const char *const program[] = {"/bin/sh", "-c", "sleep 0.5; echo fine", NULL};
    const char *const board[] = {"/bin/sh", "-c", "echo no module named tensorboard >&2; exit 1", NULL};
    helper_executor_start(&s->executor, &s->it, &(helper_start){.program = program, .tensorboard = board});
    assert_int_equal(helper_executor_wait(&s->executor, &s->it, 10000), 0);
    helper_expect_in((const char *)s->it.err.data, "[tensorboard] no module named tensorboard\n");
    helper_expect_in((const char *)s->it.err.data, "tfos: TensorBoard ended (with exit code 1)");
    helper_executor_close(&s->executor, &s->it);
    const char *const absent[] = {"/no/such/tensorboard", NULL};
    helper_executor_start(&s->executor, &s->it, &(helper_start){.program = program, .tensorboard = absent});
    s->it.sequence = 0;
    assert_int_equal(helper_executor_wait(&s->executor, &s->it, 10000), 0);
    helper_expect_in((const char *)s->it.err.data,
                     "tfos: TensorBoard could not be started: /no/such/tensorboard: No such");
}

/* ---- the memory limit ---- */

static bool write_text(const char *folder, const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    bool good = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
    if (file >= 0) {
        close(file);
    }
    return good;
}

/* A cgroup of our own with a limit of 64 MiB, by either version. */
static bool make_cgroup(char *folder, size_t bytes)
{
    snprintf(folder, bytes, "/sys/fs/cgroup/memory/tfos-test-%ld", (long)getpid());
    if (mkdir(folder, 0755) == 0) {
        write_text(folder, "memory.swappiness", "0");
        return write_text(folder, "memory.limit_in_bytes", "67108864");
    }
    snprintf(folder, bytes, "/sys/fs/cgroup/tfos-test-%ld", (long)getpid());
    if (mkdir(folder, 0755) == 0) {
        write_text(folder, "memory.swap.max", "0");
        return write_text(folder, "memory.max", "67108864");
    }
    return false;
}

static void test_the_memory_limit(void **state)
{
    (void)state;
    char folder[256];
    if (!make_cgroup(folder, sizeof folder)) {
        rmdir(folder);
        helper_executor_script(&s->executor, &s->it, "true");
        assert_int_equal(helper_executor_wait(&s->executor, &s->it, 10000), 0);
        print_message("no cgroup with a memory limit can be made here (that needs root and a mounted controller)\n");
        skip();
    }
    const char *const program[] = {"python3", "-c",
                                   "import time\nheld = []\nprint('ready', flush=True)\n"
                                   "while True:\n held.append(bytes(b'x' * (1 << 20)))\n time.sleep(0.01)",
                                   NULL};
    helper_executor_start(&s->executor, &s->it, &(helper_start){.program = program, .cgroup = folder});
    int code = helper_executor_wait(&s->executor, &s->it, 30000);
    char text[2048];
    snprintf(text, sizeof text, "%s", (const char *)s->it.text.data);
    helper_executor_kill(&s->executor);
    for (int i = 0; i < 100 && rmdir(folder) != 0; i++) { /* those who died leave it after a moment */
        helper_run_for(&s->it, 20);
    }
    assert_int_equal(code, 1);
    assert_string_equal(tfos__outcome_name((tfos__outcome)s->it.outcome), "memory");
    assert_int_equal(s->it.signal, SIGKILL);
    helper_expect_in(text, "because memory ran out: its container may use 64 MiB");
    helper_expect_in(text, "used ");
    helper_expect_in(text, "Raise spark.executor.memoryOverhead");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        TEST(test_gpus_of_nvidia_smi),
        TEST(test_gpus_that_the_executor_may_see),
        TEST(test_gpus_of_spark_come_first),
        TEST(test_gpus_on_kubernetes),
        TEST(test_gpus_of_an_old_nvidia_smi),
        TEST(test_gpus_of_a_broken_nvidia_smi),
        TEST(test_gpus_of_an_nvidia_smi_that_hangs),
        TEST(test_executor_lost_while_nvidia_smi_hangs),
        TEST(test_stdin_ends_while_nvidia_smi_hangs),
        TEST(test_tensorboard),
        TEST(test_tensorboard_at_a_given_port),
        TEST(test_tensorboard_only_beside_the_chief),
        TEST(test_tensorboard_that_fails),
        TEST(test_the_memory_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
