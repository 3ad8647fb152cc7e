/* The process of a model: its first thread lets tasks in and watches whoever needs it; each task has a thread. */
#include "inference/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "base/thread.h"
#include "column/schema.h"
#include "feed/line.h"
#include "inference/orders.h"
#include "net/local.h"
#include "service/note.h"
#include "service/pidfd.h"
#include "tensorflow/model.h"

enum {
    FIRST_MS = 30000,          /* for the task that has started it to come */
    PAUSE_NS = 10000000,       /* after a task that could not be let in */
    LOOK_MS = 200,             /* between two looks at the parent, where the kernel has no pidfd */
    LINES_MOST = 1024,         /* tasks at a time */
    BATCH_ROWS = 1024,         /* where an order says nothing */
    BATCH_ROWS_MOST = 1 << 24, /* that an order may ask for */
    OOM_MORE = 100,            /* by which this process is rather killed than its executor */
};

typedef struct server {
    tfos__inference_orders orders;
    tfos__model *model;
    int listener;
    char name[TFOS__LOCAL_NAME_BYTES];
    pid_t parent;
    int parent_fd; /* -1: the kernel has none */
    int answers;   /* what was stdout: models, and libraries of ops, may print there */
    atomic_int lines;
    atomic_llong left_ms; /* when the last one was left */
    atomic_bool used;     /* a task has come */
    bool is_stuck;        /* nobody is served, and nobody can be */
} server;

/* ---- a task ---- */

typedef struct visit {
    server *server;
    int socket;
} visit;

/* What one task has asked for. */
typedef struct service {
    tfos__model *model;
    tfos__line *line;
    const char *order;
    int64_t batch_rows;
    tfos__binding *binding; /* NULL: no rows have come */
    tfos_schema *schema;    /* that it was made for */
} service;

static tfos_status read_order(service *self, tfos_error *error)
{
    json_object *order = NULL;
    tfos__json_fault fault;
    self->order = tfos__line_order(self->line);
    tfos_status status = tfos__json_object_parse(self->order, strlen(self->order), 8, &order, &fault, error);
    if (status == TFOS_INVALID) {
        return tfos__fail(error, TFOS_INVALID, "a task's order is no JSON object: %s", fault.what);
    }
    TFOS_TRY(status);
    json_object *rows = tfos__json_member_of(order, "batch_rows", json_type_int);
    self->batch_rows = rows != NULL ? json_object_get_int64(rows) : BATCH_ROWS;
    json_object_put(order);
    if (self->batch_rows < 1 || self->batch_rows > BATCH_ROWS_MOST) {
        return tfos__fail(error, TFOS_INVALID, "expected a batch size of 1 to %d rows, found %lld", BATCH_ROWS_MOST,
                          (long long)self->batch_rows);
    }
    return TFOS_OK;
}

/* What becomes of rows of this schema. */
static tfos_status bind_rows(service *self, const tfos_schema *schema, tfos_error *error)
{
    if (self->binding != NULL && tfos_schema_equal(self->schema, schema)) {
        return TFOS_OK;
    }
    tfos__binding_free(self->binding);
    tfos_schema_free(self->schema);
    self->binding = NULL;
    self->schema = tfos__schema_retain(schema);
    TFOS_TRY(tfos__binding_new(tfos__model_about(self->model), self->order, schema, &self->binding, error));
    int64_t most = self->binding->batch_rows;
    if (most > 0 && self->batch_rows > most) {
        return tfos__fail(error, TFOS_INVALID, "the signature takes %lld rows at a time, and the batch size is %lld",
                          (long long)most, (long long)self->batch_rows);
    }
    return TFOS_OK;
}

static tfos_status answer_some(service *self, tfos_error *error)
{
    tfos_batch *rows;
    tfos_batch *results = NULL;
    TFOS_TRY(tfos__line_next(self->line, self->batch_rows, &rows, error));
    tfos_status status = bind_rows(self, tfos_batch_schema(rows), error);
    status = status == TFOS_OK ? tfos__model_run(self->model, self->binding, rows, &results, error) : status;
    tfos_batch_free(rows);
    status = status == TFOS_OK ? tfos__line_answer(self->line, results, error) : status;
    tfos_batch_free(results);
    return status;
}

/* Until there are no more rows, the task is gone, or something is wrong with them. */
static void serve(service *self)
{
    tfos_error error = {.status = TFOS_OK};
    tfos_status status = read_order(self, &error);
    while (status == TFOS_OK) {
        status = answer_some(self, &error);
    }
    if (status != TFOS_END && status != TFOS_CANCELLED) {
        tfos__line_fail(self->line, &error);
    }
    tfos__binding_free(self->binding);
    tfos_schema_free(self->schema);
}

static void *run_visit(void *context)
{
    visit self = *(visit *)context;
    server *at = self.server;
    tfos_error error;
    service task = {.model = at->model};
    free(context);
    tfos_status status =
        tfos__line_accept(self.socket, at->orders.token, (size_t)at->orders.lane_bytes, &task.line, &error);
    if (status == TFOS_OK) {
        serve(&task);
        tfos__line_close(task.line);
    } else if (status != TFOS_CANCELLED && status != TFOS_IO) {
        tfos__note("a task was not served: %s", error.message);
    }
    atomic_store(&at->left_ms, tfos__clock_ms());
    atomic_fetch_sub(&at->lines, 1);
    return NULL;
}

static void let_in(server *self)
{
    int socket = accept4(self->listener, NULL, NULL, SOCK_CLOEXEC);
    visit *next = socket >= 0 && atomic_load(&self->lines) < LINES_MOST ? malloc(sizeof *next) : NULL;
    pthread_t thread;
    if (next == NULL) {
        if (socket >= 0) {
            close(socket); /* the task tries again */
        }
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL); /* there may be no descriptor left for it */
        return;
    }
    *next = (visit){self, socket};
    atomic_store(&self->used, true);
    atomic_fetch_add(&self->lines, 1);
    int code = tfos__thread_start(&thread, run_visit, next);
    if (code == 0) {
        pthread_detach(thread);
        return;
    }
    free(next);
    self->is_stuck = atomic_fetch_sub(&self->lines, 1) == 1; /* if others are served, they will leave room */
    if (self->is_stuck) {
        tfos__note("no thread to serve a task: %s%s", strerror(code),
                   self->orders.memory_bytes > 0 ? ". The model has no more memory than its limit" : "");
    }
    close(socket); /* the task tries again, and finds nobody or why there is nobody */
}

/* ---- who needs it ---- */

/* Whoever has started it comes, if it takes a while. */
static int64_t idle_ms(const server *self)
{
    return atomic_load(&self->used) ? self->orders.idle_ms : tfos__max_i64(self->orders.idle_ms, FIRST_MS);
}

static bool is_wanted(const server *self)
{
    bool idle = atomic_load(&self->lines) == 0 && tfos__clock_ms() - atomic_load(&self->left_ms) >= idle_ms(self);
    return !idle && getppid() == self->parent;
}

static int wait_ms(const server *self)
{
    int64_t left = idle_ms(self) - (tfos__clock_ms() - atomic_load(&self->left_ms));
    return (int)tfos__max_i64(1, tfos__min_i64(left > 0 ? left : LOOK_MS, LOOK_MS));
}

/* Until nobody needs it any more. Tasks that are served then have lost their executor. */
static void watch(server *self)
{
    while (is_wanted(self) && !self->is_stuck) {
        struct pollfd waits[] = {{.fd = self->listener, .events = POLLIN},
                                 {.fd = STDIN_FILENO, .events = POLLIN},
                                 {.fd = self->parent_fd, .events = POLLIN}};
        if (poll(waits, 3, wait_ms(self)) <= 0) {
            continue;
        }
        if (waits[1].revents != 0 || waits[2].revents != 0) {
            return; /* nothing is said on stdin, so that is its end */
        }
        if (waits[0].revents != 0) {
            let_in(self);
        }
    }
}

/* ---- beginning ---- */

/* The executor must not be what is killed when memory runs out. */
static void offer_to_die_first(void)
{
    char path[64];
    char text[32] = "";
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)getppid());
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        (void)!read(file, text, sizeof text - 1);
        close(file);
    }
    int score = atoi(text) + OOM_MORE;
    int count = snprintf(text, sizeof text, "%d", score < 1000 ? score : 1000);
    file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        (void)!write(file, text, (size_t)count);
        close(file);
    }
}

static tfos_status limit_memory(int64_t bytes, tfos_error *error)
{
    struct rlimit limit = {.rlim_cur = (rlim_t)bytes, .rlim_max = (rlim_t)bytes};
    if (bytes > 0 && setrlimit(RLIMIT_DATA, &limit) != 0) {
        return tfos__fail_errno(error, errno, "cannot limit the memory of a model to %lld bytes", (long long)bytes);
    }
    return TFOS_OK;
}

static tfos_status load_libraries(const tfos__tensorflow *tf, json_object *list, tfos_error *error)
{
    for (size_t i = 0; list != NULL && i < json_object_array_length(list); i++) {
        TFOS_TRY(tfos__tensorflow_load_ops(tf, json_object_get_string(json_object_array_get_idx(list, i)), error));
    }
    return TFOS_OK;
}

static tfos_status load(server *self, const tfos__tensorflow **tf, tfos_error *error)
{
    const tfos__model_options options = {
        .folder = self->orders.folder, .tags = self->orders.tags, .threads = self->orders.threads};
    setenv("TF_CPP_MIN_LOG_LEVEL", "2", 0); /* before it is loaded: it looks once */
    TFOS_TRY(limit_memory(self->orders.memory_bytes, error));
    TFOS_TRY(tfos__tensorflow_load(self->orders.python, tf, error));
    TFOS_TRY(load_libraries(*tf, self->orders.libraries, error));
    TFOS_TRY(tfos__model_load(*tf, &options, &self->model, error));
    return tfos__local_listen("model", self->name, &self->listener, error);
}

/* A word, another one, and the rest of the line. */
static void say(const server *self, const char *first, const char *second, const char *rest)
{
    char line[2 * TFOS_ERROR_MESSAGE_BYTES];
    snprintf(line, sizeof line, "%s %s %s", first, second, rest);
    for (char *at = line; *at != '\0'; at++) {
        *at = *at == '\n' ? ' ' : *at;
    }
    dprintf(self->answers, "%s\n", line);
}

tfos__inference_exit tfos__inference_run(void)
{
    static server self; /* its threads use it until the process ends */
    const tfos__tensorflow *tf = NULL;
    tfos_error error = {0};
    signal(SIGPIPE, SIG_IGN);
    /* Ctrl-C in a terminal goes to all processes of an application in local mode; the driver decides what it means. */
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    self.answers = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    self.parent = getppid();
    self.parent_fd = tfos__pidfd_open(self.parent);
    offer_to_die_first();
    if (tfos__inference_orders_read(STDIN_FILENO, &self.orders, &error) != TFOS_OK) {
        tfos__note("%s", error.message);
        return TFOS__INFERENCE_EXIT_ORDERS;
    }
    if (load(&self, &tf, &error) != TFOS_OK) {
        say(&self, "failed", tfos_status_name(error.status), error.message);
        return TFOS__INFERENCE_EXIT_MODEL;
    }
    atomic_store(&self.left_ms, tfos__clock_ms());
    say(&self, "ready", self.name, tf->version);
    watch(&self);
    return self.is_stuck ? TFOS__INFERENCE_EXIT_STUCK : TFOS__INFERENCE_EXIT_OK;
}
