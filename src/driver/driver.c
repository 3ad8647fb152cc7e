/* A driver: the policy, bound to a coordinator and a clock.
 *
 * The thread that takes orders does all the work that may wait: it opens and closes the coordinator, tells it what the
 * policy wants it to know, and hears it. Other threads only tell the policy something, and wake that thread. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/choice.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/status.h"
#include "base/tls.h"
#include "driver/client.h"
#include "driver/policy.h"

static const char *const order_names[] = {"none",   "say",         "look",      "opened", "start_nodes",
                                          "ready",  "tensorboard", "end_nodes", "feed",   "cancel",
                                          "result", "done",        "over",      NULL};
TFOS__CHOICE_FUNCTIONS(order_kind, "kind of order", order_names)

static const char *const outcome_names[] = {"done", "stopped", "failed", NULL};
TFOS__CHOICE_FUNCTIONS(call_outcome, "outcome", outcome_names)

struct tfos_driver {
    TAILQ_ENTRY(tfos_driver) among_drivers;
    tfos_cluster_options cluster; /* as it was asked for */
    tfos_driver_options options;
    char *application;
    pid_t owner;
    int wake; /* an eventfd: the policy was told something */

    pthread_mutex_t lock; /* of what follows */
    tfos__policy *policy;
    int64_t slots;
    int64_t slots_most;
    char *slots_reason;
    char title[256]; /* of the status page without its secret part; empty: there is none */

    /* Changed by the thread that takes orders alone, with the lock: */
    pthread_mutex_t coordinator_lock;
    tfos_cluster *coordinator; /* NULL: there is none now */

    /* Of that thread alone: */
    tfos__deed deed; /* the last */
    uint8_t *bytes;  /* … and what goes with it: a ticket or a value */
    size_t byte_count;
};

/* All drivers of this process: clusters of one Spark application share its slots. Its lock comes before those of
 * drivers. */
static TAILQ_HEAD(driver_list, tfos_driver) drivers = TAILQ_HEAD_INITIALIZER(drivers);
static pthread_mutex_t drivers_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- options ---- */

static const tfos_driver_options driver_defaults;
static const tfos_spark_view view_defaults = {.slots = -1, .slots_most = -1};
static const tfos_feed_call call_defaults = {.epochs = 1};

void tfos_driver_options_init(tfos_driver_options *options, size_t size)
{
    tfos__options_init(options, size, &driver_defaults, sizeof driver_defaults);
}

void tfos_spark_view_init(tfos_spark_view *view, size_t size)
{
    tfos__options_init(view, size, &view_defaults, sizeof view_defaults);
}

void tfos_feed_call_init(tfos_feed_call *call, size_t size)
{
    tfos__options_init(call, size, &call_defaults, sizeof call_defaults);
}

/* ---- opening and closing ---- */

static tfos_status take_options(const tfos_driver_options *options, tfos_cluster_options *cluster, tfos_error *error)
{
    if (options->cluster == NULL) {
        return tfos__fail(error, TFOS_INVALID, "a driver needs the options of its cluster");
    }
    TFOS_TRY(tfos__cluster_options_take(options->cluster, cluster, error));
    cluster->size = sizeof *cluster;
    if (options->restarts < 0) {
        return tfos__fail(error, TFOS_INVALID, "a cluster cannot be restarted %d times", (int)options->restarts);
    }
    if (options->here < 0 || options->here > cluster->nodes) {
        return tfos__fail(error, TFOS_INVALID, "%d of %d nodes cannot be on the driver's machine", (int)options->here,
                          (int)cluster->nodes);
    }
    return TFOS_OK;
}

static tfos_status open_driver(tfos_driver *driver, tfos_error *error)
{
    const tfos__policy_options policy = {.nodes = driver->cluster.nodes,
                                         .here = driver->options.here,
                                         .restarts = driver->options.restarts,
                                         .spark_feeds = driver->cluster.spark_feeds};
    const char *application = driver->options.application != NULL ? driver->options.application : "";
    driver->application = strdup(application);
    if (driver->application == NULL) {
        return tfos__fail_memory(error, strlen(application));
    }
    driver->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (driver->wake < 0) {
        return tfos__fail_errno(error, errno, "cannot make an eventfd");
    }
    return tfos__policy_new(&policy, (uint64_t)tfos__clock_ms(), &driver->policy, error);
}

tfos_status tfos_driver_open(const tfos_driver_options *options, tfos_driver **out, tfos_error *error)
{
    tfos_driver_options taken;
    TFOS_TRY(tfos__options_take("tfos_driver_options", options, &driver_defaults, &taken, sizeof taken, error));
    tfos_cluster_options cluster;
    TFOS_TRY(take_options(&taken, &cluster, error));
    tfos_driver *driver = calloc(1, sizeof *driver);
    if (driver == NULL) {
        return tfos__fail_memory(error, sizeof *driver);
    }
    driver->options = taken;
    driver->cluster = cluster;
    driver->owner = getpid();
    driver->wake = -1;
    driver->slots = driver->slots_most = -1;
    pthread_mutex_init(&driver->lock, NULL);
    pthread_mutex_init(&driver->coordinator_lock, NULL);
    tfos_status status = open_driver(driver, error);
    pthread_mutex_lock(&drivers_lock);
    TAILQ_INSERT_TAIL(&drivers, driver, among_drivers);
    pthread_mutex_unlock(&drivers_lock);
    if (status != TFOS_OK) {
        tfos_driver_close(driver);
        return status;
    }
    *out = driver;
    return TFOS_OK;
}

static void forget_deed(tfos_driver *driver)
{
    if (driver->bytes != NULL) {
        tfos__secret_wipe(driver->bytes, driver->byte_count);
        tfos_string_free(driver->bytes);
        driver->bytes = NULL;
    }
    tfos__deed_reset(&driver->deed);
}

void tfos_driver_close(tfos_driver *driver)
{
    if (driver == NULL) {
        return;
    }
    if (driver->owner ==
        getpid()) { /* a fork of that process has nobody to ask, and perhaps a lock that stays locked */
        pthread_mutex_lock(&drivers_lock);
        TAILQ_REMOVE(&drivers, driver, among_drivers);
        pthread_mutex_unlock(&drivers_lock);
    }
    tfos_cluster_close(driver->coordinator);
    forget_deed(driver);
    tfos__policy_free(driver->policy);
    if (driver->wake >= 0) {
        close(driver->wake);
    }
    pthread_mutex_destroy(&driver->lock);
    pthread_mutex_destroy(&driver->coordinator_lock);
    free(driver->slots_reason);
    free(driver->application);
    free(driver);
}

/* ---- telling the policy ---- */

static uint64_t now(void)
{
    return (uint64_t)tfos__clock_ms();
}

static tfos__policy *enter(tfos_driver *driver)
{
    pthread_mutex_lock(&driver->lock);
    return driver->policy;
}

static void leave(tfos_driver *driver)
{
    pthread_mutex_unlock(&driver->lock);
}

/* … and has the other thread look at what follows from it. */
static void leave_and_wake(tfos_driver *driver)
{
    uint64_t one = 1;
    leave(driver);
    ssize_t written = write(driver->wake, &one, sizeof one);
    (void)written; /* it fails only when it is full, and then that thread is awake */
}

tfos_status tfos_driver_report_spark(tfos_driver *driver, const tfos_spark_view *view, tfos_error *error)
{
    tfos_spark_view taken;
    TFOS_TRY(tfos__options_take("tfos_spark_view", view, &view_defaults, &taken, sizeof taken, error));
    char *reason = taken.slots_reason != NULL ? strdup(taken.slots_reason) : NULL;
    tfos__policy *policy = enter(driver);
    free(driver->slots_reason);
    driver->slots_reason = reason;
    driver->slots = taken.slots;
    driver->slots_most = taken.slots_most;
    tfos__policy_see_spark(policy, &taken, now());
    leave_and_wake(driver);
    return TFOS_OK;
}

void tfos_driver_report_job(tfos_driver *driver, uint64_t job, const char *failure)
{
    tfos__policy_see_job(enter(driver), job, failure, now());
    leave_and_wake(driver);
}

/* Stops every node now: the thread that takes orders may be carrying one out, and Spark may take its time. It will say
 * so again, which changes nothing. */
static void stop_nodes(tfos_driver *driver, const char *reason)
{
    pthread_mutex_lock(&driver->coordinator_lock);
    if (driver->coordinator != NULL) {
        (void)tfos_cluster_stop(driver->coordinator, reason, NULL);
    }
    pthread_mutex_unlock(&driver->coordinator_lock);
}

void tfos_driver_report_context_end(tfos_driver *driver, const char *how)
{
    char reason[TFOS__POLICY_REASON_BYTES];
    tfos__policy_see_context_end(enter(driver), how, now());
    leave_and_wake(driver);
    tfos__policy_name_context_end(how, reason);
    stop_nodes(driver, reason);
}

void tfos_driver_stop(tfos_driver *driver, const char *reason)
{
    tfos__policy_stop(enter(driver), reason, now());
    leave_and_wake(driver);
    stop_nodes(driver, reason);
}

void tfos_driver_abandon(tfos_driver *driver, uint64_t call)
{
    tfos__policy_abandon(enter(driver), call, now());
    leave_and_wake(driver);
}

tfos_status tfos_driver_await_nodes(tfos_driver *driver, uint64_t *call, tfos_error *error)
{
    tfos_status status = tfos__policy_await_nodes(enter(driver), now(), call, error);
    leave_and_wake(driver);
    return status;
}

tfos_status tfos_driver_finish(tfos_driver *driver, int64_t grace_ms, int64_t timeout_ms, uint64_t *call,
                               tfos_error *error)
{
    tfos_status status = tfos__policy_finish(enter(driver), tfos__max_i64(0, grace_ms), timeout_ms, now(), call, error);
    leave_and_wake(driver);
    return status;
}

tfos_status tfos_driver_ask_status(tfos_driver *driver, uint64_t *call, tfos_error *error)
{
    tfos_status status = tfos__policy_ask_status(enter(driver), now(), call, error);
    leave_and_wake(driver);
    return status;
}

tfos_status tfos_driver_ask_results(tfos_driver *driver, uint64_t *call, tfos_error *error)
{
    tfos_status status = tfos__policy_ask_results(enter(driver), now(), call, error);
    leave_and_wake(driver);
    return status;
}

tfos_status tfos_driver_await_tensorboard(tfos_driver *driver, uint64_t *call, tfos_error *error)
{
    tfos_status status = tfos__policy_await_tensorboard(enter(driver), now(), call, error);
    leave_and_wake(driver);
    return status;
}

tfos_status tfos_driver_open_feed(tfos_driver *driver, const tfos_feed_options *options, uint64_t *call,
                                  tfos_error *error)
{
    tfos_feed_options taken;
    TFOS_TRY(tfos__feed_options_take(options, &taken, error));
    tfos_status status = tfos__policy_open_feed(enter(driver), &taken, now(), call, error);
    leave_and_wake(driver);
    return status;
}

tfos_status tfos_driver_feed(tfos_driver *driver, const tfos_feed_call *options, uint64_t *call, tfos_error *error)
{
    tfos_feed_call taken;
    tfos_feed_options data;
    tfos_feed_options validation;
    TFOS_TRY(tfos__options_take("tfos_feed_call", options, &call_defaults, &taken, sizeof taken, error));
    if (taken.data == NULL || taken.epochs < -1 || taken.epochs == 0) {
        return tfos__fail(error, TFOS_INVALID,
                          taken.data == NULL ? "there is no data to be fed"
                                             : "data is fed once or more often, or -1 times: until nobody wants more");
    }
    TFOS_TRY(tfos__feed_options_take(taken.data, &data, error));
    taken.data = &data;
    if (taken.validation != NULL) {
        TFOS_TRY(tfos__feed_options_take(taken.validation, &validation, error));
        taken.validation = &validation;
    }
    tfos_status status = tfos__policy_feed(enter(driver), &taken, now(), call, error);
    leave_and_wake(driver);
    return status;
}

/* ---- other clusters of the application ---- */

/* What can be told of one to somebody else: not the secret part of its address. */
static tfos_status describe(tfos_driver *driver, const char *gap, tfos__buffer *out)
{
    const tfos_cluster_options *options = &driver->cluster;
    const char *kind = options->parallel      ? "TFParallel"
                       : options->spark_feeds ? "InputMode.SPARK"
                                              : "InputMode.TENSORFLOW";
    return tfos__buffer_printf(out, NULL, "%sstatus page %s, %d nodes, %s%s", gap, driver->title,
                               (int)(options->nodes - driver->options.here), kind,
                               tfos__policy_is_ready(driver->policy) ? "" : ", starting");
}

/* Those whose tasks hold slots: clusters that start, and those that read their data themselves. */
static void find_holders(const tfos_driver *asking, tfos__buffer *out)
{
    tfos_driver *each;
    pthread_mutex_lock(&drivers_lock);
    TAILQ_FOREACH (each, &drivers, among_drivers) {
        if (each == asking || each->policy == NULL || strcmp(each->application, asking->application) != 0) {
            continue;
        }
        if (tfos__policy_holds_slots(enter(each)) && each->title[0] != '\0') {
            (void)describe(each, out->size > 0 ? ", and " : "", out);
        }
        leave(each);
    }
    pthread_mutex_unlock(&drivers_lock);
}

/* ---- deeds ---- */

/* The part of an address that may be shown to anybody: its host and port. */
static void make_title(tfos_driver *driver, const char *url)
{
    const char *host = strstr(url, "://");
    host = host != NULL ? host + 3 : url;
    snprintf(driver->title, sizeof driver->title, "%.*s", (int)strcspn(host, "/?"), host);
}

static void set_coordinator(tfos_driver *driver, tfos_cluster *coordinator)
{
    pthread_mutex_lock(&driver->coordinator_lock);
    driver->coordinator = coordinator;
    pthread_mutex_unlock(&driver->coordinator_lock);
}

static void open_cluster(tfos_driver *driver, int32_t attempt)
{
    tfos_error error;
    tfos_cluster_options options = driver->cluster;
    int64_t here = driver->options.here;
    enter(driver);
    char *reason = driver->slots_reason != NULL ? strdup(driver->slots_reason) : NULL;
    options.slots = driver->slots < 0 ? -1 : driver->slots + here;
    options.slots_most = driver->slots_most < 0 ? -1 : driver->slots_most + here;
    leave(driver);
    options.slots_reason = reason;
    options.attempt = attempt;
    tfos_cluster *opened;
    tfos_status status = tfos_cluster_open(&options, &opened, &error);
    free(reason);
    if (status == TFOS_OK) {
        set_coordinator(driver, opened);
    }
    tfos__policy *policy = enter(driver);
    if (status == TFOS_OK) {
        make_title(driver, tfos_cluster_url(opened));
        tfos__policy_opened(policy, tfos_cluster_url(opened), now());
    } else {
        tfos__policy_refused(policy, &error, now());
    }
    leave(driver);
}

static void tell_slots(const tfos_driver *driver, int64_t slots)
{
    tfos__buffer holders = {0};
    find_holders(driver, &holders);
    (void)tfos_cluster_set_slots(driver->coordinator, slots + driver->options.here,
                                 holders.size > 0 ? (const char *)holders.data : NULL, NULL);
    tfos__buffer_reset(&holders);
}

static void spawn(tfos_driver *driver, int32_t index)
{
    tfos_error error;
    if (tfos_cluster_spawn(driver->coordinator, index, &error) != TFOS_OK) {
        tfos__policy_refused(enter(driver), &error, now());
        leave(driver);
    }
}

/* What cannot be sent is not said again: whoever hears the coordinator finds out why. */
static void tell_coordinator(const tfos_driver *driver, const tfos__deed *deed)
{
    tfos_cluster *cluster = driver->coordinator;
    switch (deed->kind) {
    case TFOS__DEED_STOP:
        (void)tfos_cluster_stop(cluster, deed->text, NULL);
        break;
    case TFOS__DEED_FINISH:
        (void)tfos_cluster_finish(cluster, deed->number, NULL);
        break;
    case TFOS__DEED_END_FEEDS:
        (void)tfos_cluster_end_feeds(cluster, NULL);
        break;
    case TFOS__DEED_ASK:
        (void)tfos_cluster_request_status(cluster, NULL);
        break;
    case TFOS__DEED_OPEN_FEED:
        (void)tfos__cluster_open_feed_as(cluster, &deed->options, deed->feed, NULL);
        break;
    case TFOS__DEED_BEGIN_EPOCH:
        (void)tfos_cluster_begin_epoch(cluster, deed->feed, deed->epoch, NULL);
        break;
    case TFOS__DEED_END_EPOCH:
        (void)tfos_cluster_end_epoch(cluster, deed->feed, deed->epoch, NULL);
        break;
    case TFOS__DEED_CLOSE_FEED:
        (void)tfos_cluster_close_feed(cluster, deed->feed, NULL);
        break;
    default:
        break;
    }
}

static void do_deed(tfos_driver *driver, const tfos__deed *deed, int64_t slots)
{
    if (deed->kind == TFOS__DEED_OPEN) {
        open_cluster(driver, (int32_t)deed->number);
    } else if (driver->coordinator == NULL) {
        return;
    } else if (deed->kind == TFOS__DEED_CLOSE) {
        tfos_cluster *closed = driver->coordinator;
        set_coordinator(driver, NULL);
        tfos_cluster_close(closed);
    } else if (deed->kind == TFOS__DEED_SLOTS) {
        tell_slots(driver, slots);
    } else if (deed->kind == TFOS__DEED_SPAWN) {
        spawn(driver, (int32_t)deed->number);
    } else {
        tell_coordinator(driver, deed);
    }
}

/* Puts into an order what the policy has not. */
static tfos_status complete_order(tfos_driver *driver, tfos_order *order, tfos_error *error)
{
    tfos__deed *deed = &driver->deed;
    *order = deed->order;
    if (order->kind == TFOS_ORDER_START_NODES && driver->coordinator != NULL) {
        tfos_cluster_ticket(driver->coordinator, &order->bytes, &order->byte_count);
    }
    if (order->kind == TFOS_ORDER_START_NODES || order->kind == TFOS_ORDER_OPENED) {
        order->title = driver->title;
    }
    if (deed->feed != 0 && driver->coordinator != NULL) {
        TFOS_TRY(tfos_cluster_feed_ticket(driver->coordinator, deed->feed, deed->epoch, &driver->bytes,
                                          &driver->byte_count, error));
        order->bytes = driver->bytes;
        order->byte_count = driver->byte_count;
    }
    if (order->kind == TFOS_ORDER_RESULT) {
        tfos_status status = tfos__policy_copy_value(enter(driver), order->index, (int32_t)deed->number, &driver->bytes,
                                                     &driver->byte_count, error);
        leave(driver);
        TFOS_TRY(status);
        order->bytes = driver->bytes;
        order->byte_count = driver->byte_count;
    }
    return TFOS_OK;
}

/* Does what is to be done until something is the shell's to do. END: nothing is. */
static tfos_status work(tfos_driver *driver, tfos_order *order, tfos_error *error)
{
    for (;;) {
        forget_deed(driver);
        tfos__policy *policy = enter(driver);
        tfos__policy_tick(policy, now());
        tfos_status status = tfos__policy_take(policy, &driver->deed, error);
        int64_t slots = driver->slots;
        leave(driver);
        TFOS_TRY(status);
        if (driver->deed.kind == TFOS__DEED_ORDER) {
            return complete_order(driver, order, error);
        }
        do_deed(driver, &driver->deed, slots);
    }
}

/* ---- hearing the coordinator ---- */

static void hear(tfos_driver *driver)
{
    tfos_cluster_event event;
    tfos_error error;
    if (driver->coordinator == NULL) {
        return;
    }
    tfos_status status = tfos_cluster_next(driver->coordinator, 0, &event, &error);
    tfos__policy *policy = enter(driver);
    if (status == TFOS_OK) {
        tfos__policy_hear(policy, &event, now());
    } else if (status != TFOS_END) {
        tfos__policy_gone(policy, &error, now());
    }
    leave(driver);
}

/* Waits until somebody has something to say, or until a time, which is `deadline` or when the policy has one. */
static void wait_until(tfos_driver *driver, uint64_t deadline)
{
    enum { WAIT_MS = 1000 }; /* a coordinator that is silent has to be noticed */
    uint64_t count;
    tfos__policy *policy = enter(driver);
    uint64_t own = tfos__policy_deadline(policy);
    leave(driver);
    uint64_t until = own < deadline ? own : deadline;
    uint64_t at = now();
    int64_t left = until <= at ? 0 : until - at < WAIT_MS ? (int64_t)(until - at) : WAIT_MS;
    if (driver->coordinator != NULL && tfos__cluster_has_message(driver->coordinator)) {
        left = 0;
    }
    struct pollfd waits[2] = {
        {.fd = driver->wake, .events = POLLIN},
        {.fd = driver->coordinator != NULL ? tfos__cluster_socket(driver->coordinator) : -1, .events = POLLIN}};
    poll(waits, 2, (int)left);
    ssize_t got = read(driver->wake, &count, sizeof count);
    (void)got; /* nothing to be read is as good */
}

tfos_status tfos_driver_next(tfos_driver *driver, int64_t timeout_ms, tfos_order *order, tfos_error *error)
{
    uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : now() + (uint64_t)timeout_ms;
    for (;;) {
        tfos_status status = work(driver, order, error);
        if (status != TFOS_END) {
            return status;
        }
        bool idle = tfos__policy_is_idle(enter(driver));
        leave(driver);
        if (idle) {
            return TFOS_END;
        }
        if (now() >= deadline) {
            *order = (tfos_order){.kind = TFOS_ORDER_NONE, .text = "", .title = ""};
            return TFOS_OK;
        }
        wait_until(driver, deadline);
        hear(driver);
    }
}
