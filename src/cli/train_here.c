/* Training on this machine: a driver whose nodes are children of this process, and no Spark. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "cli/train.h"
#include "fs/fs.h"

enum { LOOK_MS = 200, VALUE_DEPTH = 8 };

/* Ctrl-C is a reason to stop and not to die: the nodes write a checkpoint first. The second one does not wait. */
static atomic_int interruptions;

static void on_signal(int number)
{
    (void)number;
    atomic_fetch_add(&interruptions, 1);
}

static void watch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction before;
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        tfos__cli_signal_take(ending[i], &action, &before);
    }
}

/* ---- what is started ---- */

typedef struct training {
    const tfos__cli_train *of;
    char folder[64]; /* for logs of the nodes */
    tfos_driver *driver;
    uint64_t call; /* that is waited for */
    tfos_order_kind want;
    bool failed;
    tfos_error error;
    json_object *value; /* of the first worker */
    json_object *history;
} training;

/* Each node has its part of the cores. */
static void share_cores(const tfos__cli_train *train)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t part = cores > train->nodes ? cores / train->nodes : 1;
    if (!json_object_object_get_ex(train->options, "threads", NULL)) {
        json_object_object_add(train->options, "threads", json_object_new_int64(part));
    }
}

static tfos_status make_folder(training *self, tfos_error *error)
{
    const char *base = getenv("TMPDIR");
    char *path = NULL;
    if (asprintf(&path, "%s/tfos-train-XXXXXX", base != NULL && base[0] != '\0' && strlen(base) < 40 ? base : "/tmp") <
        0) {
        return tfos__fail_memory(error, 1);
    }
    bool made = mkdtemp(path) != NULL;
    snprintf(self->folder, sizeof self->folder, "%s", path);
    tfos_status status = made ? TFOS_OK : tfos__fail_errno(error, errno, "%s: no folder for logs", path);
    free(path);
    return status;
}

/* ---- orders ---- */

static void say(const training *self, const char *text)
{
    if (!self->of->quiet) {
        fflush(stdout);
        fprintf(stderr, "%s\n", text);
    }
}

static void take_result(training *self, const tfos_order *order)
{
    json_object *told = NULL;
    tfos__json_fault fault;
    const char *text = (const char *)order->bytes;
    if (order->index != 0 ||
        tfos__json_object_parse(order->text, strlen(order->text), VALUE_DEPTH, &told, &fault, NULL) != TFOS_OK) {
        return;
    }
    self->history = json_object_get(tfos__json_member(told, "history"));
    json_object_put(told);
    if (order->byte_count > 0) {
        (void)tfos__json_object_parse(text, order->byte_count, VALUE_DEPTH, &self->value, &fault, NULL);
    }
}

static void take_done(training *self, const tfos_order *order)
{
    if (order->outcome == TFOS_CALL_FAILED) {
        self->failed = true;
        tfos__fail(&self->error, TFOS_RAISED, "%s", order->text); /* what has failed is the trainer, elsewhere */
    }
    self->call = 0;
}

static tfos_status take(training *self, const tfos_order *order, tfos_error *error)
{
    tfos_spark_view view;
    switch (order->kind) {
    case TFOS_ORDER_SAY:
        say(self, order->text);
        break;
    case TFOS_ORDER_LOOK: /* there is no Spark, and as many slots as nodes */
        tfos_spark_view_init(&view, sizeof view);
        return tfos_driver_report_spark(self->driver, &view, error);
    case TFOS_ORDER_END_NODES:
        tfos_driver_report_job(self->driver, 0, NULL);
        break;
    case TFOS_ORDER_RESULT:
        take_result(self, order);
        break;
    case TFOS_ORDER_DONE:
        take_done(self, order);
        break;
    default:
        break;
    }
    return TFOS_OK;
}

/* Until the call has come to its end. */
static tfos_status await(training *self, tfos_error *error)
{
    bool stopped = false;
    while (self->call != 0) {
        tfos_order order;
        tfos_status status = tfos_driver_next(self->driver, LOOK_MS, &order, error);
        if (status == TFOS_END) {
            return TFOS_OK;
        }
        TFOS_TRY(status);
        TFOS_TRY(take(self, &order, error));
        if (atomic_load(&interruptions) > 1) {
            return TFOS_OK; /* without the driver all of it ends, whatever it is about */
        }
        if (atomic_load(&interruptions) > 0 && !stopped) {
            stopped = true;
            tfos_driver_stop(self->driver, "interrupted");
        }
    }
    return TFOS_OK;
}

/* ---- all of it ---- */

static tfos_status run(training *self, tfos_error *error)
{
    static const char *const program[] = {"tfos", "trainer", NULL};
    char name[32];
    snprintf(name, sizeof name, "%016" PRIx64, (uint64_t)tfos__clock_ns() ^ ((uint64_t)getpid() << 48));
    json_object_object_add(self->of->options, "run", json_object_new_string(name));
    const char *payload = json_object_to_json_string(self->of->options);
    tfos_cluster_options cluster;
    tfos_driver_options options;
    tfos_cluster_options_init(&cluster, sizeof cluster);
    cluster.command = "/proc/self/exe";
    cluster.folder = self->folder;
    cluster.host = "127.0.0.1";
    cluster.nodes = (int32_t)self->of->nodes;
    cluster.program = program;
    cluster.settings = self->of->settings;
    cluster.payload = payload;
    cluster.payload_bytes = strlen(payload);
    cluster.context = "{}";
    tfos_driver_options_init(&options, sizeof options);
    options.cluster = &cluster;
    options.here = cluster.nodes;
    options.restarts = (int32_t)self->of->restarts;
    TFOS_TRY(tfos_driver_open(&options, &self->driver, error));
    tfos_status status = tfos_driver_finish(self->driver, 0, -1, &self->call, error);
    status = status == TFOS_OK ? await(self, error) : status;
    if (status == TFOS_OK) {
        status = tfos_driver_ask_results(self->driver, &self->call, error);
        status = status == TFOS_OK ? await(self, error) : status;
    }
    tfos_driver_close(self->driver);
    return status;
}

static int end(training *self)
{
    if (atomic_load(&interruptions) > 0) {
        return tfos__cli_train_stopped(self->of, true);
    }
    if (self->failed) {
        return tfos__cli_fail(&self->error);
    }
    tfos__cli_train_report(self->of, self->value, self->history);
    return CLI_OK;
}

int tfos__cli_train_here(const tfos__cli_train *train)
{
    training self = {.of = train};
    tfos_error error;
    watch_signals();
    share_cores(train);
    tfos_status status = make_folder(&self, &error);
    status = status == TFOS_OK ? run(&self, &error) : status;
    tfos__folder_remove(self.folder);
    int code = status == TFOS_OK ? end(&self) : tfos__cli_fail(&error);
    json_object_put(self.value);
    json_object_put(self.history);
    return code;
}
