/* Processes by /proc, and the memory limit by trees of files like those of the kernel. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/usage.h"

/* The linker puts these in the place of realloc and kill (tests/CMakeLists.txt). */
static bool out_of_memory;
static bool only_count_signals;
static size_t signals;

void *__real_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
int __real_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number);

void *__wrap_realloc(void *at, size_t bytes)
{
    return out_of_memory ? NULL : __real_realloc(at, bytes);
}

int __wrap_kill(pid_t pid, int number)
{
    signals++;
    return only_count_signals ? 0 : __real_kill(pid, number);
}

static void test_a_process(void **state)
{
    (void)state;
    tfos__process self;
    prctl(PR_SET_NAME, "odd ) name (");
    assert_true(tfos__process_read(getpid(), &self));
    assert_int_equal(self.pid, getpid());
    assert_int_equal(self.parent, getppid());
    assert_int_equal(self.state, 'R');
    assert_true(self.start > 0);
    assert_in_range(self.rss_bytes, 100 << 10, INT64_C(1) << 40);
    assert_false(tfos__process_read(0x7fffffff, &self));
}

/* Starts a child with a child of its own; both wait. Returns when both are there. */
static pid_t start_two(void)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0) {
            (void)!write(ready[1], "x", 1);
        }
        for (;;) {
            pause();
        }
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void test_those_below(void **state)
{
    (void)state;
    tfos__processes below = {0};
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    pid_t child = start_two();
    assert_int_equal(tfos__processes_below(getpid(), &below, NULL), TFOS_OK);
    assert_int_equal(below.count, 2);
    assert_int_equal(tfos__processes_below(child, &below, NULL), TFOS_OK);
    assert_int_equal(below.count, 1);
    assert_int_equal(below.at[0].parent, child);
    assert_int_equal(tfos__processes_kill_below(&below), 2);
    assert_true(waitpid(-1, NULL, 0) > 0);
    assert_true(waitpid(-1, NULL, 0) > 0);
    assert_int_equal(waitpid(-1, NULL, 0), -1);
    assert_int_equal(tfos__processes_kill_below(&below), 0);
    tfos__processes_reset(&below);
}

/* How many signals would be sent. */
static size_t count_signals(tfos__processes *scratch)
{
    signals = 0;
    only_count_signals = true;
    tfos__processes_kill_below(scratch);
    only_count_signals = false;
    return signals;
}

static void kill_all(tfos__processes *scratch)
{
    tfos__processes_kill_below(scratch);
    while (waitpid(-1, NULL, 0) > 0) {}
    tfos__processes_reset(scratch);
}

/* Half a list of all processes is nothing to kill by. */
static void test_no_memory_for_the_list(void **state)
{
    (void)state;
    tfos__processes below = {.at = malloc(sizeof *below.at), .capacity = 1};
    start_two();
    out_of_memory = true;
    tfos_status status = tfos__processes_below(getpid(), &below, NULL);
    size_t count = below.count;
    size_t sent = count_signals(&below);
    out_of_memory = false;
    kill_all(&below);
    assert_int_equal(status, TFOS_NO_MEMORY);
    assert_int_equal(count, 0);
    assert_int_equal(sent, 0);
}

/* Those of the last look may be others by now. */
static void test_proc_cannot_be_listed(void **state)
{
    (void)state;
    tfos__processes below = {0};
    struct rlimit before;
    start_two();
    assert_int_equal(tfos__processes_below(getpid(), &below, NULL), TFOS_OK);
    assert_int_equal(below.count, 2);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    size_t sent = count_signals(&below);
    tfos_status status = tfos__processes_below(getpid(), &below, NULL);
    size_t count = below.count;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    kill_all(&below);
    assert_int_not_equal(status, TFOS_OK);
    assert_int_equal(count, 0);
    assert_int_equal(sent, 0);
}

/* Those who are known are asked again; new ones are found by a look. */
static void test_usage_of_those_below(void **state)
{
    (void)state;
    tfos__processes known = {0};
    pid_t child = start_two();
    uint64_t two = tfos__usage_below(getpid(), false, &known).rss_bytes; /* nobody is known, so it looks */
    assert_int_equal(known.count, 2);
    start_two();
    tfos__usage_below(getpid(), false, &known);
    assert_int_equal(known.count, 2);
    assert_true(tfos__usage_below(getpid(), true, &known).rss_bytes > two);
    assert_int_equal(known.count, 4);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    tfos__usage_below(getpid(), false, &known);
    assert_int_equal(known.count, 3);
    tfos__processes_kill_below(&known);
    while (waitpid(-1, NULL, 0) > 0) {}
    assert_int_equal(tfos__usage_below(getpid(), false, &known).rss_bytes, 0);
    tfos__processes_reset(&known);
}

/* What children used that are gone by now counts as well. */
static void test_cpu_of_the_dead(void **state)
{
    (void)state;
    tfos__processes scratch = {0};
    uint64_t before = tfos__usage_below(getpid(), true, &scratch).cpu_ms;
    pid_t child = fork();
    if (child == 0) {
        struct timespec used;
        do {
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        } while (used.tv_sec == 0 && used.tv_nsec < 200000000);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(tfos__usage_below(getpid(), true, &scratch).cpu_ms >= before + 50);
    tfos__processes_reset(&scratch);
}

/* ---- memory ---- */

static char root[256];

static void put_file(const char *path, const char *text)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s", root, path);
    for (char *slash = name + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(name, 0755);
        *slash = '/';
    }
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_root(void **state)
{
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/usage-XXXXXX", parent != NULL ? parent : "/tmp");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int remove_root(void **state)
{
    char command[300];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command) == 0 ? 0 : -1;
}

static void test_version_2(void **state)
{
    (void)state;
    put_file("/proc/self/cgroup", "0::/pod/box\n");
    put_file("/sys/fs/cgroup/pod/box/memory.events", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 3\noom_group_kill 0\n");
    put_file("/sys/fs/cgroup/pod/box/memory.max", "max\n");
    put_file("/sys/fs/cgroup/pod/memory.max", "1073741824\n");
    put_file("/sys/fs/cgroup/pod/memory.events", "oom_kill 77\n");
    put_file("/proc/vmstat", "nr_free_pages 1\noom_kill 99\n");
    tfos__memory_state memory = tfos__memory_state_read(root);
    assert_true(memory.known && memory.of_cgroup);
    assert_int_equal(memory.kills, 3);
    assert_int_equal(memory.limit_bytes, 1 << 30);
}

static void test_version_1(void **state)
{
    (void)state;
    put_file("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n");
    put_file("/sys/fs/cgroup/memory/a/b/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
    put_file("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "536870912\n");
    put_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    tfos__memory_state memory = tfos__memory_state_read(root);
    assert_true(memory.known && memory.of_cgroup);
    assert_int_equal(memory.kills, 5);
    assert_int_equal(memory.limit_bytes, 512 << 20);
}

/* A container whose own cgroup is mounted, while /proc names it as the host does. */
static void test_a_container(void **state)
{
    (void)state;
    put_file("/proc/self/cgroup", "4:memory:/docker/0123456789abcdef\n");
    put_file("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    put_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n");
    tfos__memory_state memory = tfos__memory_state_read(root);
    assert_true(memory.known && memory.of_cgroup);
    assert_int_equal(memory.kills, 1);
    assert_int_equal(memory.limit_bytes, 256 << 20);
}

static void test_no_cgroup(void **state)
{
    (void)state;
    tfos__memory_state memory = tfos__memory_state_read(root);
    assert_false(memory.known);
    char pages[20000] = "";
    for (int i = 0; i < 300; i++) {
        snprintf(pages + strlen(pages), 64, "some_counter_of_pages_%d 12345678\n", i);
    }
    strcat(pages, "oom_kill 42\n");
    put_file("/proc/vmstat", pages);
    memory = tfos__memory_state_read(root);
    assert_true(memory.known);
    assert_false(memory.of_cgroup);
    assert_int_equal(memory.kills, 42);
    assert_int_equal(memory.limit_bytes, 0);
    put_file("/proc/self/cgroup", "nonsense\n::\n4:memory\n");
    assert_int_equal(tfos__memory_state_read(root).kills, 42);
}

int main(void)
{
#define WITH_ROOT(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_process),
        cmocka_unit_test(test_those_below),
        cmocka_unit_test(test_no_memory_for_the_list),
        cmocka_unit_test(test_proc_cannot_be_listed),
        cmocka_unit_test(test_usage_of_those_below),
        cmocka_unit_test(test_cpu_of_the_dead),
        WITH_ROOT(test_version_2),
        WITH_ROOT(test_version_1),
        WITH_ROOT(test_a_container),
        WITH_ROOT(test_no_cgroup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
