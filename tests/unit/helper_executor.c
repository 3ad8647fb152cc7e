/* An executor: a process that starts `tfos node`, holds its stdin, and reports its end. Everything that it starts
 * carries a mark in its environment, by which what is left can be found. */
#include <dirent.h>
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper_coordinator.h"
#include "net/frame.h"

static void put_words(tfos__buffer *out, const char *const *words)
{
    for (; words != NULL && *words != NULL; words++) {
        assert_int_equal(tfos__buffer_append(out, *words, strlen(*words) + 1, NULL), TFOS_OK);
    }
}

static void put_list(tfos__message *message, tfos__field field, const tfos__buffer *list)
{
    if (list->size > 0) {
        tfos__message_put_text(message, field, (const char *)list->data, list->size - 1);
    }
}

static void make_orders(const helper_executor *executor, const helper_coordinator *it, const helper_start *start,
                        tfos__buffer *out)
{
    tfos__message message;
    tfos__buffer lists[4] = {{0}};
    put_words(&lists[0], start->program);
    put_words(&lists[1], start->environment);
    put_words(&lists[2], start->settings);
    put_words(&lists[3], start->tensorboard);
    tfos__message_init(&message, TFOS__MESSAGE_TICKET);
    tfos__message_put_text(&message, TFOS__FIELD_KEY, (const char *)(start->key != NULL ? start->key : it->key),
                           TFOS__KEY_BYTES);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, start->host != NULL ? start->host : "127.0.0.1");
    tfos__message_put_number(&message, TFOS__FIELD_PORT, it->port);
    tfos__message_put_string(&message, TFOS__FIELD_CLUSTER, "test");
    tfos__message_put_number(&message, TFOS__FIELD_FLAGS, start->flags);
    tfos__message_put_number(&message, TFOS__FIELD_ATTEMPT, 0);
    tfos__message_put_number(&message, TFOS__FIELD_BEAT_MS, 0);
    tfos__message_put_number(&message, TFOS__FIELD_LEASE_MS, 0);
    tfos__message_put_string(&message, TFOS__FIELD_CONTEXT, "{\"args\": [1, 2]}");
    tfos__message_put_string(&message, TFOS__FIELD_PAYLOAD, start->payload != NULL ? start->payload : "");
    put_list(&message, TFOS__FIELD_PROGRAM, &lists[0]);
    put_list(&message, TFOS__FIELD_SETTINGS, &lists[2]);
    put_list(&message, TFOS__FIELD_TENSORBOARD, &lists[3]);
    assert_int_equal(tfos__frame_append(&message, out, NULL), TFOS_OK);
    tfos__message_init(&message, TFOS__MESSAGE_START);
    tfos__message_put_number(&message, TFOS__FIELD_INDEX, 3);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, "127.0.0.1");
    tfos__message_put_string(&message, TFOS__FIELD_EXECUTOR, "7");
    tfos__message_put_number(&message, TFOS__FIELD_EXECUTOR_PID,
                             start->wrong_pid != 0 ? start->wrong_pid : (uint64_t)getpid());
    tfos__message_put_number(&message, TFOS__FIELD_CORES, 2);
    tfos__message_put_string(&message, TFOS__FIELD_WORK_FOLDER, executor->folder);
    tfos__message_put_string(&message, TFOS__FIELD_SPARK, "{\"files\": \"/f\"}");
    if (start->gpus != NULL) {
        tfos__message_put_string(&message, TFOS__FIELD_GPUS, start->gpus);
        tfos__message_put_string(&message, TFOS__FIELD_GPU_SOURCE, "spark");
    }
    put_list(&message, TFOS__FIELD_ENVIRONMENT, &lists[1]);
    assert_int_equal(tfos__frame_append(&message, out, NULL), TFOS_OK);
    for (size_t i = 0; i < 4; i++) {
        tfos__buffer_reset(&lists[i]);
    }
}

static void put_environment(const char *const *assignments)
{
    for (; *assignments != NULL; assignments++) {
        putenv((char *)(uintptr_t)*assignments);
    }
}

static void enter_cgroup(const char *folder)
{
    char path[512];
    char pid[32];
    if (folder == NULL) {
        return;
    }
    snprintf(path, sizeof path, "%s/cgroup.procs", folder);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    int count = snprintf(pid, sizeof pid, "%ld", (long)getpid());
    if (file < 0 || write(file, pid, (size_t)count) != count) {
        _exit(98);
    }
    close(file);
}

/* A pipe that takes no byte more; its other end stays open in this process. */
static int open_full_pipe(void)
{
    static const char bytes[4096];
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        _exit(99);
    }
    while (write(ends[1], bytes, sizeof bytes) > 0) {}
    fcntl(ends[1], F_SETFL, 0);
    return ends[1];
}

/* Passes bytes of the test on to the node until the node has ended, then tells how. */
_Noreturn static void attend(pid_t node, int control, int input, int status)
{
    for (;;) {
        int how;
        struct pollfd wait = {.fd = control, .events = POLLIN};
        char byte = 0;
        if (poll(&wait, 1, 5) > 0 && read(control, &byte, 1) != 1) {
            control = -1;
        }
        if (byte == 'C') {
            close(input);
        } else if (byte != 0) {
            (void)!write(input, &byte, 1);
        }
        if (waitpid(node, &how, WNOHANG) == node) {
            (void)!write(status, &how, sizeof how);
            _exit(0);
        }
    }
}

_Noreturn static void be_executor(const helper_executor *executor, const helper_coordinator *it,
                                  const helper_start *start, const int *control, const int *output, const int *status)
{
    int input[2];
    uv_os_fd_t listener;
    char errors[300];
    tfos__buffer orders = {0};
    close(control[1]);
    close(output[0]);
    close(status[0]);
    if (it->listening && uv_fileno((const uv_handle_t *)&it->listener, &listener) == 0) {
        close(listener); /* it must be gone when the coordinator closes it */
    }
    signal(SIGPIPE, SIG_IGN);
    enter_cgroup(start->cgroup);
    make_orders(executor, it, start, &orders);
    setenv("TFOS_TEST_MARK", executor->mark, 1);
    put_environment(start->outside);
    snprintf(errors, sizeof errors, "%s/stderr", executor->folder);
    if (pipe2(input, O_CLOEXEC) != 0) {
        _exit(99);
    }
    int error_file = start->stuck_errors ? open_full_pipe() : open(errors, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    pid_t node = fork();
    if (node == 0) {
        dup2(input[0], 0);
        dup2(output[1], 1);
        dup2(error_file, 2);
        if (start->leak != 0) {
            dup2(error_file, start->leak);
        }
        execl(getenv("TFOS_COMMAND"), "tfos", "node", (char *)NULL);
        _exit(99);
    }
    close(input[0]);
    close(output[1]);
    for (size_t done = 0; done < orders.size;) {
        ssize_t count = write(input[1], orders.data + done, orders.size - done);
        if (count < 0) {
            break;
        }
        done += (size_t)count;
    }
    attend(node, control[0], input[1], status[1]);
}

void helper_executor_start(helper_executor *executor, helper_coordinator *it, const helper_start *start)
{
    static int number;
    int control[2];
    int output[2];
    int status[2];
    memset(executor, 0, sizeof *executor);
    assert_non_null(getenv("TFOS_COMMAND"));
    snprintf(executor->mark, sizeof executor->mark, "%ld-%d-%lld", (long)getpid(), number++,
             (long long)helper_now_ms());
    const char *parent = getenv("TMPDIR");
    snprintf(executor->folder, sizeof executor->folder, "%s/node-%s", parent != NULL ? parent : "/tmp", executor->mark);
    assert_int_equal(mkdir(executor->folder, 0755), 0);
    assert_int_equal(pipe2(control, O_CLOEXEC) | pipe2(output, O_CLOEXEC) | pipe2(status, O_CLOEXEC), 0);
    executor->pid = fork();
    assert_true(executor->pid >= 0);
    if (executor->pid == 0) {
        be_executor(executor, it, start, control, output, status);
    }
    close(control[0]);
    close(output[1]);
    close(status[1]);
    executor->control = control[1];
    executor->output = output[0];
    executor->status = status[0];
}

void helper_executor_script(helper_executor *executor, helper_coordinator *it, const char *script)
{
    const char *const program[] = {"/bin/sh", "-c", script, NULL};
    helper_executor_start(executor, it, &(helper_start){.program = program});
}

typedef struct ending {
    helper_executor *executor;
    int how;
} ending;

static bool has_ended(void *context)
{
    ending *wanted = context;
    struct pollfd wait = {.fd = wanted->executor->status, .events = POLLIN};
    return poll(&wait, 1, 0) > 0 && read(wanted->executor->status, &wanted->how, sizeof wanted->how) == sizeof(int);
}

static void read_said(helper_executor *executor)
{
    char bytes[4096];
    ssize_t count;
    fcntl(executor->output, F_SETFL, O_NONBLOCK);
    while ((count = read(executor->output, bytes, sizeof bytes)) > 0) {
        assert_int_equal(tfos__buffer_append(&executor->said, bytes, (size_t)count, NULL), TFOS_OK);
    }
    assert_int_equal(tfos__buffer_append(&executor->said, "", 1, NULL), TFOS_OK);
    executor->said.size--;
    char *errors = helper_executor_read(executor, "stderr");
    executor->complained.size = 0;
    if (errors != NULL) {
        assert_int_equal(tfos__buffer_append(&executor->complained, errors, strlen(errors) + 1, NULL), TFOS_OK);
    }
    free(errors);
}

int helper_executor_wait(helper_executor *executor, helper_coordinator *it, int64_t most_ms)
{
    ending wanted = {.executor = executor};
    helper_wait(it, has_ended, &wanted, most_ms, "the end of the node");
    read_said(executor);
    return WIFSIGNALED(wanted.how) ? -WTERMSIG(wanted.how) : WEXITSTATUS(wanted.how);
}

void helper_executor_kill(helper_executor *executor)
{
    assert_int_equal(kill(executor->pid, SIGKILL), 0);
    assert_int_equal(waitpid(executor->pid, NULL, 0), executor->pid);
    executor->pid = 0;
}

void helper_executor_tell(helper_executor *executor, char byte)
{
    assert_int_equal(write(executor->control, &byte, 1), 1);
}

/* Whether the environment of a process has the mark. */
static bool is_marked(const char *pid, const char *mark)
{
    char path[300];
    static char text[1 << 18];
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    size_t count = 0;
    ssize_t more;
    while ((more = read(file, text + count, sizeof text - count)) > 0) {
        count += (size_t)more;
    }
    close(file);
    return memmem(text, count, mark, strlen(mark)) != NULL;
}

size_t helper_executor_count(const helper_executor *executor)
{
    size_t count = 0;
    DIR *folder = opendir("/proc");
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        count += entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && is_marked(entry->d_name, executor->mark);
    }
    closedir(folder);
    return count;
}

static bool is_empty(void *context)
{
    return helper_executor_count(context) == 0;
}

static void remove_folder(const char *path)
{
    char name[600];
    DIR *folder = opendir(path);
    for (struct dirent *entry = folder != NULL ? readdir(folder) : NULL; entry != NULL; entry = readdir(folder)) {
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        unlink(name);
    }
    closedir(folder);
    rmdir(path);
}

void helper_executor_close(helper_executor *executor, helper_coordinator *it)
{
    helper_wait(it, is_empty, executor, 8000, "the end of every process");
    if (executor->pid > 0) {
        helper_executor_kill(executor);
    }
    close(executor->control);
    close(executor->output);
    close(executor->status);
    tfos__buffer_reset(&executor->said);
    tfos__buffer_reset(&executor->complained);
    remove_folder(executor->folder);
}

static char *read_whole(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 64 << 20);
    assert_true(file != NULL && text != NULL);
    size_t count = fread(text, 1, (64 << 20) - 1, file);
    fclose(file);
    return realloc(text, count + 1);
}

char *helper_executor_read(const helper_executor *executor, const char *ending_of)
{
    char name[600];
    char *found = NULL;
    DIR *folder = opendir(executor->folder);
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL && found == NULL; entry = readdir(folder)) {
        size_t count = strlen(entry->d_name);
        if (count >= strlen(ending_of) && strcmp(entry->d_name + count - strlen(ending_of), ending_of) == 0) {
            snprintf(name, sizeof name, "%s/%s", executor->folder, entry->d_name);
            found = read_whole(name);
        }
    }
    closedir(folder);
    return found;
}
