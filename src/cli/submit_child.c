/* spark-submit as a child of this process: what it says is read, and signals that come meanwhile end it in good order.
 *
 * It has a process group of its own, so Ctrl-C in a terminal comes to us, who pass it on once: Spark ends its
 * application, our class removes what is half written, and then we end. If we are killed, the kernel ends it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "cli/submit.h"

enum {
    LOOK_MS = 100,
    GRACE_MS = 20000,      /* for an application that was told to end */
    KEPT_BYTES = 3000,     /* of what Spark has written last, to be shown if there is no answer */
    LINE_BYTES = 16 << 20, /* of an answer */
    ANSWER_DEPTH = 32,
    FAILED_TO_START = 127,
    LEFT_MS = 1000, /* for what processes that the child has left have to say */
};

static const char mark[] = "tfos: ";

/* ---- signals ---- */

static atomic_int signal_number; /* that came; 0: none */
static atomic_int signal_count;

static void on_signal(int number)
{
    atomic_store(&signal_number, number);
    atomic_fetch_add(&signal_count, 1);
}

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

enum { ENDING_COUNT = sizeof ending / sizeof ending[0] };

static void take_signals(struct sigaction before[ENDING_COUNT])
{
    struct sigaction action = {.sa_handler = on_signal};
    for (size_t i = 0; i < ENDING_COUNT; i++) {
        tfos__cli_signal_take(ending[i], &action, &before[i]);
    }
}

static void give_signals_back(const struct sigaction before[ENDING_COUNT])
{
    for (size_t i = 0; i < ENDING_COUNT; i++) {
        sigaction(ending[i], &before[i], NULL);
    }
}

/* ---- the child ---- */

typedef struct submission {
    const tfos__cli_application *of;
    pid_t child;
    int out; /* its stdout */
    int err; /* its stderr; -1: it is ours */
    tfos__buffer line;
    tfos__buffer kept;
    json_object *answer;
    json_object *failed;
    atomic_llong tasks; /* that were begun with, and those of them that are done */
    atomic_llong done;
    int64_t end_by_ms; /* 0: it was not told to end */
    int signals;       /* that were passed on */
} submission;

_Noreturn static void become(char *const *words, const submission *self, int in, int out, int err, pid_t parent)
{
    sigset_t none;
    struct sigaction action = {.sa_handler = SIG_DFL};
    setpgid(0, 0);
    /* The parent may have died before this line; then another process has taken its place. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        _exit(FAILED_TO_START);
    }
    for (int number = 1; number < NSIG; number++) {
        sigaction(number, &action, NULL);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    if (err >= 0) {
        dup2(err, STDERR_FILENO);
    }
    if (self->of->python != NULL) {
        setenv("PYSPARK_PYTHON", self->of->python, 0);
    }
    execv(words[0], words);
    dprintf(STDERR_FILENO, "%s: %s\n", words[0], strerror(errno));
    _exit(FAILED_TO_START);
}

static tfos_status start(char *const *words, int in, submission *self, tfos_error *error)
{
    int out[2];
    int err[2] = {-1, -1};
    if (pipe2(out, O_CLOEXEC) != 0) {
        return tfos__fail_errno(error, errno, "no pipe for spark-submit");
    }
    if (!self->of->spark->verbose && pipe2(err, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        return tfos__fail_errno(error, errno, "no pipe for spark-submit");
    }
    pid_t parent = getpid();
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    fflush(NULL);
    /* A signal that came before the child has handlers and a group of its own would be lost: it waits until then. */
    sigprocmask(SIG_BLOCK, &all, &before);
    self->child = fork();
    if (self->child == 0) {
        become(words, self, in, out[1], err[1], parent);
    }
    int code = errno;
    (void)setpgid(self->child, self->child); /* as the child does: whoever comes first */
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(out[1]);
    if (err[1] >= 0) {
        close(err[1]);
    }
    self->out = out[0];
    self->err = err[0];
    return self->child > 0 ? TFOS_OK : tfos__fail_errno(error, code, "%s: cannot be started", words[0]);
}

/* ---- what it says ---- */

/* The end of what Spark has written is kept. */
static void keep(submission *self, const char *text, size_t bytes)
{
    (void)tfos__buffer_append(&self->kept, text, bytes, NULL);
    if (self->kept.size > 2 * (size_t)KEPT_BYTES) {
        tfos__buffer_shift(&self->kept, self->kept.size - KEPT_BYTES);
    }
}

static void show(const char *line, size_t bytes)
{
    tfos__cli_progress_hold();
    fprintf(stderr, "%.*s\n", (int)bytes, line);
    tfos__cli_progress_release();
}

static void take_object(submission *self, json_object *said)
{
    json_object *answer = tfos__json_member_of(said, "answer", json_type_object);
    json_object *failed = tfos__json_member_of(said, "failed", json_type_object);
    const char *text = tfos__json_text(said, "say");
    json_object *progress = tfos__json_member_of(said, "progress", json_type_object);
    if (text[0] != '\0' && !self->of->quiet) {
        show(text, strlen(text));
    }
    if (progress != NULL) {
        atomic_store(&self->tasks, json_object_get_int64(tfos__json_member(progress, "tasks")));
        atomic_store(&self->done, json_object_get_int64(tfos__json_member(progress, "done")));
    }
    if (answer != NULL) {
        json_object_put(self->answer);
        self->answer = json_object_get(answer);
    }
    if (failed != NULL && self->failed == NULL) {
        self->failed = json_object_get(failed);
    }
}

/* A line of stdout: an answer of our class, or something that others have printed. */
static void take_line(submission *self, const char *line, size_t bytes)
{
    json_object *said = NULL;
    tfos__json_fault fault;
    size_t skipped = sizeof mark - 1;
    if (bytes > skipped && strncmp(line, mark, skipped) == 0 &&
        tfos__json_object_parse(line + skipped, bytes - skipped, ANSWER_DEPTH, &said, &fault, NULL) == TFOS_OK) {
        take_object(self, said);
        json_object_put(said);
        return;
    }
    if (self->of->spark->verbose) {
        show(line, bytes);
    } else {
        keep(self, line, bytes);
        keep(self, "\n", 1);
    }
}

static void take_lines(submission *self)
{
    const char *end;
    while (self->line.size > 0 && (end = memchr(self->line.data, '\n', self->line.size)) != NULL) {
        size_t bytes = (size_t)(end - (const char *)self->line.data);
        take_line(self, (const char *)self->line.data, bytes);
        tfos__buffer_shift(&self->line, bytes + 1);
    }
    if (self->line.size > LINE_BYTES) {
        self->line.size = 0;
    }
}

/* Reads what is there. False at the end. */
static bool read_some(submission *self, int from)
{
    char bytes[16384];
    ssize_t count = read(from, bytes, sizeof bytes);
    if (count < 0) {
        return errno == EINTR || errno == EAGAIN;
    }
    if (count > 0 && from == self->out) {
        (void)tfos__buffer_append(&self->line, bytes, (size_t)count, NULL);
        take_lines(self);
    } else if (count > 0) {
        keep(self, bytes, (size_t)count);
    }
    return count > 0;
}

/* A tfos__cli_progress_function. */
static void count_tasks(void *context, tfos_progress *out)
{
    submission *self = context;
    *out = (tfos_progress){.total_bytes = atomic_load(&self->tasks), .done_bytes = atomic_load(&self->done)};
}

/* ---- its end ---- */

/* spark-submit becomes the JVM of the application, which ends all else in good order. Executors of local-cluster are
 * in its group as well, and would be gone before what runs on them has saved anything. Some wrappers of spark-submit
 * stay, and pass nothing on: then all of the group are told. */
static bool is_java(pid_t process)
{
    char link[64];
    char path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)process);
    ssize_t count = readlink(link, path, sizeof path - 1);
    path[count > 0 ? count : 0] = '\0';
    const char *slash = strrchr(path, '/');
    return slash != NULL && strcmp(slash, "/java") == 0;
}

/* A signal is passed on once, and a second one kills; so does time. */
static void pass_signals(submission *self)
{
    int count = atomic_load(&signal_count);
    if (count > self->signals) {
        int64_t grace_ms = self->of->grace_ms > 0 ? self->of->grace_ms : GRACE_MS;
        if (self->signals == 0) {
            kill(is_java(self->child) ? self->child : -self->child, SIGTERM);
        } else {
            kill(-self->child, SIGKILL);
        }
        self->signals = count;
        self->end_by_ms = self->end_by_ms > 0 ? self->end_by_ms : tfos__clock_ms() + grace_ms;
    }
    if (self->end_by_ms > 0 && tfos__clock_ms() > self->end_by_ms) {
        kill(-self->child, SIGKILL);
    }
}

/* Until both pipes have ended, or the child has and nothing more comes, or for too long: processes of its may live on,
 * and the pipes may hold more than is read at once. */
static int await(submission *self)
{
    int status = 0;
    bool ended = false;
    int64_t ended_ms = 0;
    struct pollfd from[] = {{.fd = self->out, .events = POLLIN}, {.fd = self->err, .events = POLLIN}};
    while (!ended || from[0].fd >= 0 || from[1].fd >= 0) {
        pass_signals(self);
        int ready = poll(from, 2, LOOK_MS);
        for (int i = 0; ready > 0 && i < 2; i++) {
            if (from[i].fd >= 0 && from[i].revents != 0 && !read_some(self, from[i].fd)) {
                from[i].fd = -1;
            }
        }
        if (ended && (ready == 0 || tfos__clock_ms() - ended_ms > LEFT_MS)) {
            break;
        }
        if (!ended && waitpid(self->child, &status, WNOHANG) == self->child) {
            ended = true;
            ended_ms = tfos__clock_ms();
        }
    }
    kill(-self->child, SIGKILL); /* whatever it has left */
    return status;
}

/* ---- what comes of it ---- */

static int fail_as_told(json_object *failed)
{
    tfos_status status = TFOS_RAISED;
    if (tfos_status_parse(tfos__json_text(failed, "status"), &status, NULL) != TFOS_OK) {
        status = TFOS_RAISED;
    }
    tfos__cli_note("%s", tfos__json_text(failed, "message"));
    return tfos__cli_exit_code(status);
}

static int fail_without_answer(const submission *self, const char *program, int status)
{
    tfos__buffer text = {0};
    const char *kept = self->kept.size > 0 ? (const char *)self->kept.data : "";
    size_t bytes = self->kept.size;
    while (bytes > 0 && kept[bytes - 1] == '\n') {
        bytes--;
    }
    size_t from = bytes > KEPT_BYTES ? bytes - KEPT_BYTES : 0;
    (void)tfos__buffer_append(&text, kept + from, bytes - from, NULL);
    tfos__cli_note("%s ended with %s %d, and its application gave no answer%s%.*s", program,
                   WIFSIGNALED(status) ? "signal" : "exit code",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                   self->of->spark->verbose ? ""
                   : text.size > 0          ? "; --verbose shows all that it says. It said last:\n"
                                            : ", and it said nothing",
                   (int)text.size, text.size > 0 ? (const char *)text.data : "");
    tfos__buffer_reset(&text);
    return CLI_SYSTEM;
}

static int end(submission *self, const char *program, int status, json_object **answer)
{
    int number = atomic_load(&signal_number);
    if (number != 0) {
        tfos__cli_note("interrupted; the application on Spark was ended");
        return number == SIGINT ? CLI_INTERRUPTED : 128 + number;
    }
    if (self->failed != NULL) {
        return fail_as_told(self->failed);
    }
    if (self->answer == NULL || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return fail_without_answer(self, program, status);
    }
    *answer = json_object_get(self->answer);
    return CLI_OK;
}

int tfos__cli_submit_run(char *const *words, int in, const tfos__cli_application *application, json_object **answer)
{
    tfos_error error;
    struct sigaction before[ENDING_COUNT];
    submission self = {.of = application, .out = -1, .err = -1};
    take_signals(before);
    int code = CLI_OK;
    if (start(words, in, &self, &error) == TFOS_OK) {
        tfos__cli_progress_start_items("on Spark", "tasks", count_tasks, &self,
                                       application->quiet || application->no_tasks || application->spark->verbose);
        int status = await(&self);
        tfos__cli_progress_stop();
        code = end(&self, words[0], status, answer);
    } else {
        code = tfos__cli_fail(&error);
    }
    give_signals_back(before);
    close(self.out);
    if (self.err >= 0) {
        close(self.err);
    }
    tfos__buffer_reset(&self.line);
    tfos__buffer_reset(&self.kept);
    json_object_put(self.answer);
    json_object_put(self.failed);
    return code;
}
