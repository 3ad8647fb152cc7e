/* A driver from its first order to its last, with a real coordinator and real nodes, which are children of this
 * process: so the shell around it needs no Spark. It is as small as a shell can be. */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "column/batch.h"
#include "helper_cluster.h"
#include "helper_records.h"

enum { PARTITIONS = 3, ROWS = 2000, LIMIT_MS = 60000 };

typedef struct shell {
    helper_cluster about; /* where its programs write down their rows */
    tfos_driver *driver;
    tfos__buffer said;
    int64_t patience_ms; /* for an order */
    bool over;
    tfos_order done; /* the last DONE; its texts are gone */
    char text[4096]; /* … but this one */
    /* The job that runs: */
    pthread_t thread;
    uint64_t job;
    uint8_t ticket[4096];
    size_t ticket_bytes;
    atomic_bool cancelled;
} shell;

/* ---- jobs ---- */

static bool is_cancelled(void *context)
{
    const shell *it = context;
    return atomic_load(&it->cancelled);
}

static tfos_batch *rows_of(uint64_t partition)
{
    tfos_schema *schema;
    tfos_batch *batch;
    const tfos_field number = {.name = "n", .type = TFOS_TYPE_INT64};
    assert_int_equal(tfos_schema_new(TFOS_RECORD_EXAMPLE, &schema, NULL), TFOS_OK);
    assert_int_equal(tfos_schema_add(schema, &number, NULL), TFOS_OK);
    assert_int_equal(tfos__batch_new(schema, &batch, NULL), TFOS_OK);
    for (int64_t i = 0; i < ROWS; i++) {
        tfos__vector_push_int(tfos__batch_vector(batch, 0), helper_row_of(partition, i), NULL);
    }
    assert_int_equal(tfos__batch_finish(batch, ROWS, NULL), TFOS_OK);
    tfos_schema_free(schema);
    return batch;
}

static tfos_status feed_partition(shell *it, uint64_t partition, tfos_error *error)
{
    tfos_feeder *feeder;
    tfos_feeder_options options;
    tfos_feeder_options_init(&options, sizeof options);
    options.ticket = it->ticket;
    options.ticket_bytes = it->ticket_bytes;
    options.partition = partition;
    options.attempt = it->job * PARTITIONS + partition;
    options.interrupted = is_cancelled;
    options.interrupted_context = it;
    tfos_status status = tfos_feeder_open(&options, &feeder, error);
    if (status != TFOS_OK) {
        return status == TFOS_END ? TFOS_OK : status;
    }
    tfos_batch *batch = rows_of(partition);
    status = tfos_feeder_put_batch(feeder, batch, error);
    status = status == TFOS_OK ? tfos_feeder_finish(feeder, error) : status;
    tfos_batch_free(batch);
    tfos_feeder_close(feeder);
    return status == TFOS_END ? TFOS_OK : status;
}

static void *run_job(void *context)
{
    shell *it = context;
    tfos_error error = {0};
    tfos_status status = TFOS_OK;
    for (uint64_t i = 0; status == TFOS_OK && i < PARTITIONS; i++) {
        status = feed_partition(it, i, &error);
    }
    tfos_driver_report_job(it->driver, it->job, status == TFOS_OK ? NULL : error.message);
    return NULL;
}

/* ---- orders ---- */

static void carry_out(shell *it, const tfos_order *order)
{
    tfos_spark_view view;
    tfos_spark_view_init(&view, sizeof view);
    switch (order->kind) {
    case TFOS_ORDER_SAY:
        tfos__buffer_printf(&it->said, NULL, "%s\n", order->text);
        break;
    case TFOS_ORDER_LOOK:
        view.slots = 0;
        assert_int_equal(tfos_driver_report_spark(it->driver, &view, NULL), TFOS_OK);
        break;
    case TFOS_ORDER_FEED:
        assert_true(order->byte_count > 0 && order->byte_count <= sizeof it->ticket && it->job == 0);
        memcpy(it->ticket, order->bytes, order->byte_count);
        it->ticket_bytes = order->byte_count;
        it->job = order->job;
        atomic_store(&it->cancelled, false);
        assert_int_equal(pthread_create(&it->thread, NULL, run_job, it), 0);
        break;
    case TFOS_ORDER_CANCEL:
        assert_true(it->job == order->job);
        atomic_store(&it->cancelled, true);
        break;
    case TFOS_ORDER_OVER:
        it->over = true;
        break;
    case TFOS_ORDER_DONE:
        it->done = *order;
        snprintf(it->text, sizeof it->text, "%s", order->text);
        break;
    default:
        assert_true(order->kind != TFOS_ORDER_START_NODES && order->kind != TFOS_ORDER_END_NODES);
        break;
    }
}

/* Takes one order; false when there are no more. A job ends before the next one is ordered, or its call is done. */
static bool serve(shell *it)
{
    tfos_order order;
    tfos_error error;
    tfos_status status = tfos_driver_next(it->driver, it->patience_ms, &order, &error);
    if (status == TFOS_END) {
        return false;
    }
    if (status != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    assert_true(order.kind != TFOS_ORDER_NONE); /* something must happen in this time */
    if (it->job != 0 && (order.kind == TFOS_ORDER_FEED || order.kind == TFOS_ORDER_DONE)) {
        pthread_join(it->thread, NULL);
        it->job = 0;
    }
    carry_out(it, &order);
    return true;
}

static tfos_call_outcome await(shell *it, uint64_t call)
{
    it->done.call = 0;
    while (it->done.call != call) {
        assert_true(serve(it));
    }
    return it->done.outcome;
}

/* ---- opening and closing ---- */

static const char *words[6];
static char self[512];

static void open_shell(shell *it, int32_t nodes, const char *mode, int32_t restarts)
{
    static tfos_cluster_options cluster; /* which a driver needs for as long as it lives */
    tfos_driver_options options;
    tfos_error error;
    memset(it, 0, sizeof *it);
    const char *temporary = getenv("TMPDIR");
    it->patience_ms = LIMIT_MS;
    it->about.nodes = nodes;
    snprintf(it->about.folder, sizeof it->about.folder, "%s/driver.XXXXXX", temporary != NULL ? temporary : "/tmp");
    assert_non_null(mkdtemp(it->about.folder));
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    words[0] = self;
    words[1] = "program";
    words[2] = mode;
    words[3] = "64";
    words[4] = it->about.folder;
    tfos_cluster_options_init(&cluster, sizeof cluster);
    cluster.nodes = nodes;
    cluster.host = "127.0.0.1";
    cluster.folder = it->about.folder;
    cluster.program = words;
    cluster.spark_feeds = true;
    cluster.timeout_ms = LIMIT_MS;
    tfos_driver_options_init(&options, sizeof options);
    options.cluster = &cluster;
    options.here = nodes;
    options.restarts = restarts;
    options.application = "test";
    if (tfos_driver_open(&options, &it->driver, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
}

static void close_shell(shell *it)
{
    char command[300];
    while (serve(it)) {}
    assert_true(it->over && it->job == 0);
    tfos_driver_close(it->driver);
    tfos__buffer_reset(&it->said);
    snprintf(command, sizeof command, "rm -rf '%s'", it->about.folder);
    assert_int_equal(system(command), 0);
}

static uint64_t feed(shell *it, int64_t epochs)
{
    const tfos_feed_options data = helper_feed_of(PARTITIONS);
    tfos_feed_call options;
    uint64_t call;
    tfos_error error;
    tfos_feed_call_init(&options, sizeof options);
    options.data = &data;
    options.epochs = epochs;
    if (tfos_driver_feed(it->driver, &options, &call, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    return call;
}

/* ---- tests ---- */

static void test_from_the_first_order_to_the_last(void **state)
{
    (void)state;
    shell it;
    uint64_t call;
    const int64_t sizes[PARTITIONS] = {ROWS, ROWS, ROWS};
    open_shell(&it, 2, "take", 0);
    assert_int_equal(tfos_driver_await_nodes(it.driver, &call, NULL), TFOS_OK);
    assert_int_equal(await(&it, call), TFOS_CALL_DONE);
    helper_expect_in((const char *)it.said.data, "[tfos] 2 nodes are there; status: http://127.0.0.1:");
    assert_int_equal(await(&it, feed(&it, 2)), TFOS_CALL_DONE);
    assert_int_equal(tfos_driver_ask_status(it.driver, &call, NULL), TFOS_OK);
    assert_int_equal(await(&it, call), TFOS_CALL_DONE);
    helper_expect_in(it.text, "\"consumed_rows\":");
    assert_int_equal(tfos_driver_finish(it.driver, 0, LIMIT_MS, &call, NULL), TFOS_OK);
    assert_int_equal(await(&it, call), TFOS_CALL_DONE);
    helper_cluster_expect_rows(&it.about, sizes, PARTITIONS, 2);
    /* Who comes later is answered as well. */
    assert_int_equal(await(&it, feed(&it, 1)), TFOS_CALL_FAILED);
    assert_string_equal(it.text, "the cluster has ended; it cannot be fed any more");
    close_shell(&it);
}

/* Programs die in every attempt: the cluster is started again as often as it may be. */
static void test_a_cluster_that_is_started_again(void **state)
{
    (void)state;
    shell it;
    open_shell(&it, 1, "kill:500", 1);
    assert_int_equal(await(&it, feed(&it, 1)), TFOS_CALL_FAILED);
    helper_expect_in(it.text, "worker:0 on 127.0.0.1 was killed by a signal");
    assert_int_equal(it.done.fault, TFOS_FAULT_CLUSTER);
    helper_expect_in((const char *)it.said.data, "[tfos] starting the cluster again: 1 of 1 restarts\n");
    close_shell(&it);
}

static void *stop_soon(void *context)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    tfos_driver_stop(context, "somebody stops it");
    return NULL;
}

/* By another thread, while this one waits for an order. */
static void test_stop(void **state)
{
    (void)state;
    shell it;
    pthread_t thread;
    uint64_t call;
    open_shell(&it, 1, "take", 3);
    assert_int_equal(tfos_driver_await_nodes(it.driver, &call, NULL), TFOS_OK);
    assert_int_equal(await(&it, call), TFOS_CALL_DONE);
    assert_int_equal(tfos_driver_finish(it.driver, 0, -1, &call, NULL), TFOS_OK);
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, it.driver), 0);
    assert_int_equal(await(&it, call), TFOS_CALL_DONE);
    pthread_join(thread, NULL);
    close_shell(&it);
}

/* The coordinator is a child of this process, and its first argument tells which. */
static pid_t find_coordinator(void)
{
    char path[64];
    char words_of[256];
    pid_t found = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "r");
    assert_non_null(children);
    for (int pid; found == 0 && fscanf(children, "%d", &pid) == 1;) {
        snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
        FILE *line = fopen(path, "r");
        size_t bytes = line != NULL ? fread(words_of, 1, sizeof words_of, line) : 0;
        static const char wanted[] = "coordinator";
        if (bytes > sizeof wanted && memcmp(words_of + bytes - sizeof wanted, wanted, sizeof wanted) == 0) {
            found = pid;
        }
        if (line != NULL) {
            fclose(line);
        }
    }
    fclose(children);
    return found;
}

/* Nobody says anything, and nobody wakes the thread that waits: it has to notice by itself. */
static void test_a_coordinator_that_is_frozen(void **state)
{
    (void)state;
    shell it;
    uint64_t call;
    setenv("TFOS_CLUSTER_LEASE_MS", "5000", 1);
    open_shell(&it, 1, "take", 0);
    assert_int_equal(tfos_driver_await_nodes(it.driver, &call, NULL), TFOS_OK);
    assert_int_equal(await(&it, call), TFOS_CALL_DONE);
    unsetenv("TFOS_CLUSTER_LEASE_MS");
    assert_int_equal(tfos_driver_finish(it.driver, 0, -1, &call, NULL), TFOS_OK);
    pid_t coordinator = find_coordinator();
    assert_true(coordinator > 0);
    assert_int_equal(kill(coordinator, SIGSTOP), 0);
    it.patience_ms = -1;
    assert_int_equal(await(&it, call), TFOS_CALL_FAILED);
    helper_expect_in(it.text, "it is frozen");
    close_shell(&it);
}

static void test_what_makes_no_sense(void **state)
{
    (void)state;
    shell it;
    tfos_error error;
    tfos_driver *driver;
    tfos_driver_options options;
    tfos_cluster_options cluster;
    tfos_feed_call call;
    uint64_t number;
    tfos_driver_options_init(&options, sizeof options);
    assert_int_equal(tfos_driver_open(&options, &driver, &error), TFOS_INVALID);
    tfos_cluster_options_init(&cluster, sizeof cluster);
    options.cluster = &cluster;
    options.here = 1;
    assert_int_equal(tfos_driver_open(&options, &driver, &error), TFOS_INVALID);
    assert_string_equal(error.message, "1 of 0 nodes cannot be on the driver's machine");
    options.here = 0;
    options.restarts = -1;
    assert_int_equal(tfos_driver_open(&options, &driver, &error), TFOS_INVALID);

    open_shell(&it, 1, "take", 0);
    tfos_feed_options data = helper_feed_of(1);
    tfos_feed_call_init(&call, sizeof call);
    assert_int_equal(tfos_driver_feed(it.driver, &call, &number, &error), TFOS_INVALID);
    call.data = &data;
    call.epochs = 0;
    assert_int_equal(tfos_driver_feed(it.driver, &call, &number, &error), TFOS_INVALID);
    call.epochs = 1;
    data.queue = "a,b";
    assert_int_equal(tfos_driver_feed(it.driver, &call, &number, &error), TFOS_INVALID);
    helper_expect_in(error.message, "found 'a,b'");
    assert_int_equal(tfos_driver_open_feed(it.driver, &data, &number, &error), TFOS_INVALID);
    tfos_driver_stop(it.driver, "the test is over");
    close_shell(&it);
}

int main(int argc, char **argv)
{
    helper_program_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_the_first_order_to_the_last),
        cmocka_unit_test(test_a_cluster_that_is_started_again),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_a_coordinator_that_is_frozen),
        cmocka_unit_test(test_what_makes_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
