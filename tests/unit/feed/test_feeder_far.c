/* Tasks on hosts where no node is: they feed over TLS. The setting feed.local makes them do so on this one. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "column/batch.h"
#include "feed/feeder_state.h"
#include "helper_cluster.h"
#include "helper_process.h"

enum { FEW_MS = 20000 };

/* The driver's settings travel in the ticket. */
static void test_settings_of_the_driver_reach_tasks(void **state)
{
    (void)state;
    static const char *const settings[] = {"feed.local=0", "feed.batch_bytes=4KiB", NULL};
    helper_cluster it;
    tfos_feeder *feeder;
    tfos_error error;
    uint8_t *ticket;
    size_t bytes;
    const tfos_feed_options options = helper_feed_of(1);
    helper_cluster_open(&it, 1, "take", 64, settings);
    uint64_t feed = helper_cluster_begin(&it, &options);
    assert_int_equal(tfos_cluster_feed_ticket(it.cluster, feed, 0, &ticket, &bytes, &error), TFOS_OK);
    tfos_feeder_options task;
    tfos_feeder_options_init(&task, sizeof task);
    task.ticket = ticket;
    task.ticket_bytes = bytes;
    task.attempt = 1;
    assert_int_equal(tfos_feeder_open(&task, &feeder, &error), TFOS_OK);
    tfos_string_free(ticket);
    tfos__feeder_view view;
    tfos__feeder_look(feeder, &view);
    assert_int_equal(view.local_most, 0);
    assert_int_equal(view.batch_bytes, 4096);
    assert_int_equal(tfos_feeder_finish(feeder, &error), TFOS_OK);
    tfos_feeder_close(feeder);
    helper_cluster_wait_over(&it);
    helper_cluster_close(&it);
}

/* Partitions of every size, some of whose tasks are on the machine of the nodes and some are not, in two epochs. */
static void test_rows_come_from_near_and_far(void **state)
{
    (void)state;
    helper_cluster it;
    const int64_t sizes[] = {0, 1, 999, 20000, 0, 3, 5000};
    const tfos_feed_options options = helper_feed_of(7);
    helper_task tasks[7];
    helper_cluster_open(&it, 2, "take", 64, NULL);
    uint64_t feed = helper_cluster_feed(&it, &options);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        helper_cluster_epoch(&it, feed, epoch);
        for (size_t i = 0; i < 7; i++) {
            tasks[i] = (helper_task){.feed = feed,
                                     .epoch = epoch,
                                     .partition = i,
                                     .attempt = 10 * epoch + i,
                                     .rows = sizes[i],
                                     .batch_rows = 700,
                                     .far = (i + epoch) % 3 != 0};
            helper_task_start(&tasks[i], &it);
        }
        for (size_t i = 0; i < 7; i++) {
            helper_task_expect_ok(&tasks[i], &it);
        }
    }
    helper_cluster_wait_over(&it);
    helper_cluster_expect_rows(&it, sizes, 7, 2);
    helper_cluster_abandon(&it);
}

/* One task elsewhere, one partition: both nodes get rows. */
static void test_nobody_starves(void **state)
{
    (void)state;
    helper_cluster it;
    const int64_t sizes[] = {5000};
    const tfos_feed_options options = helper_feed_of(1);
    helper_cluster_open(&it, 2, "slow:1", 32, NULL);
    helper_cluster_wait_hungry(&it);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 5000, .batch_rows = 5000, .far = true};
    helper_task_start(&task, &it);
    helper_task_expect_ok(&task, &it);
    helper_cluster_wait_over(&it);
    helper_cluster_expect_rows(&it, sizes, 1, 1);
    helper_cluster_expect_shared(&it, 100);
    helper_cluster_abandon(&it);
}

/* A program that was hungry a moment ago and has not come to read is not hungry any more: what its node has taken for
 * it waits there, and the others have their share. */
static void test_rows_do_not_pile_up_where_nobody_reads(void **state)
{
    (void)state;
    helper_cluster it;
    const int64_t sizes[] = {5000};
    const tfos_feed_options options = helper_feed_of(1);
    helper_cluster_open(&it, 2, "take", 32, NULL);
    helper_cluster_wait_hungry(&it);
    pid_t sleeper = helper_cluster_program_pid(&it, 0);
    assert_int_equal(kill(sleeper, SIGSTOP), 0);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 5000, .batch_rows = 5000, .far = true};
    helper_task_start(&task, &it);
    helper_task_expect_ok(&task, &it);
    assert_int_equal(kill(sleeper, SIGCONT), 0);
    helper_cluster_wait_over(&it);
    helper_cluster_expect_rows(&it, sizes, 1, 1);
    helper_cluster_expect_shared(&it, 100);
    helper_cluster_abandon(&it);
}

/* A task has a node on its machine; another one elsewhere has nothing to do. */
static void test_a_starving_node_elsewhere_is_fed(void **state)
{
    (void)state;
    helper_cluster it;
    const int64_t sizes[] = {30000};
    const tfos_feed_options options = helper_feed_of(1);
    const char *const settings[] = {"cluster.beat_ms=100", NULL};
    helper_cluster_open(&it, 2, "slow:5", 50, settings);
    helper_cluster_wait_hungry(&it);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 30000, .batch_rows = 100, .near_one = true, .pause_ms = 2};
    helper_task_start(&task, &it);
    helper_task_expect_ok(&task, &it);
    helper_cluster_wait_over(&it);
    helper_cluster_expect_rows(&it, sizes, 1, 1);
    helper_cluster_expect_shared(&it, 500);
    helper_cluster_abandon(&it);
}

/* Entries that are larger than a piece of a message, in a lane that they fill. */
static void test_large_rows(void **state)
{
    (void)state;
    helper_cluster it;
    char message[2048];
    const int64_t sizes[] = {20};
    const tfos_feed_options options = helper_feed_of(1);
    const char *const settings[] = {"feed.lane_bytes=1048576", NULL};
    helper_cluster_open(&it, 1, "take", 3, settings);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 20, .batch_rows = 7, .row_bytes = 900000, .far = true};
    helper_task_start(&task, &it);
    helper_task_expect_ok(&task, &it);
    /* The last batch is not full: the program gets it, and writes it down, when it hears of the end of the epoch. */
    for (int64_t deadline = tfos__clock_ms() + FEW_MS; helper_cluster_count(&it) < 20;) {
        assert_true(tfos__clock_ms() < deadline);
        helper_cluster_pump(&it, 10);
    }
    helper_cluster_expect_rows(&it, sizes, 1, 1);
    helper_cluster_epoch(&it, feed, 1);
    task = (helper_task){
        .feed = feed, .epoch = 1, .attempt = 2, .rows = 1, .batch_rows = 1, .row_bytes = 1100000, .far = true};
    helper_task_start(&task, &it);
    assert_int_equal(helper_task_wait(&task, &it, FEW_MS, message, sizeof message), HELPER_TASK_FAILED);
    assert_non_null(strstr(message, "feed.lane_bytes"));
    helper_cluster_close(&it);
}

static void test_inference(void **state)
{
    (void)state;
    helper_cluster it;
    tfos_feed_options options = helper_feed_of(2);
    const char *const settings[] = {"feed.lane_bytes=65536", NULL};
    options.inference = true;
    helper_cluster_open(&it, 2, "infer", 64, settings);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task tasks[2];
    for (size_t i = 0; i < 2; i++) {
        tasks[i] = (helper_task){.feed = feed,
                                 .partition = i,
                                 .attempt = i,
                                 .rows = i == 0 ? 1 : 50000,
                                 .batch_rows = 50000,
                                 .inference = true,
                                 .far = true};
        helper_task_start(&tasks[i], &it);
    }
    helper_task_expect_ok(&tasks[0], &it);
    helper_task_expect_ok(&tasks[1], &it);
    helper_cluster_close(&it);
}

/* A result that is larger than what a connection keeps waiting: it goes out piece by piece. */
static void test_large_results(void **state)
{
    (void)state;
    enum { ROWS = 3000000 };
    static const char *const settings[] = {"feed.lane_bytes=64MiB", "feed.memory_bytes=512MiB", NULL};
    helper_cluster it;
    tfos_feed_options options = helper_feed_of(1);
    options.inference = true;
    helper_cluster_open(&it, 1, "infer", ROWS, settings);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {
        .feed = feed, .attempt = 1, .rows = ROWS, .batch_rows = ROWS / 6, .inference = true, .far = true};
    helper_task_start(&task, &it);
    helper_task_expect_ok(&task, &it);
    helper_cluster_close(&it);
}

/* What a task sees of a lane that has no room, for as long as it takes to be sure. */
typedef struct patient {
    const tfos_feeder *feeder;
    int64_t quiet_since; /* when something was fed last */
    uint64_t sent;
} patient;

static bool is_full(void *context)
{
    enum { QUIET_MS = 1000 };
    patient *who = context;
    if (who->feeder == NULL) {
        return false;
    }
    tfos__feeder_view view;
    tfos__feeder_look(who->feeder, &view);
    if (view.sent != who->sent || view.lanes == 0) {
        who->sent = view.sent;
        who->quiet_since = tfos__clock_ms();
    }
    return tfos__clock_ms() - who->quiet_since > QUIET_MS;
}

static tfos_feeder *open_here(helper_cluster *it, uint64_t feed, patient *who)
{
    tfos_feeder_options task;
    tfos_feeder *feeder;
    tfos_error error;
    uint8_t *ticket;
    tfos_feeder_options_init(&task, sizeof task);
    assert_int_equal(tfos_cluster_feed_ticket(it->cluster, feed, 0, &ticket, &task.ticket_bytes, &error), TFOS_OK);
    task.ticket = ticket;
    task.interrupted = who != NULL ? is_full : NULL;
    task.interrupted_context = who;
    task.attempt = 1;
    if (tfos_feeder_open(&task, &feeder, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    tfos_string_free(ticket);
    return feeder;
}

static tfos_batch *make_batch(int64_t rows)
{
    tfos_schema *schema;
    tfos_batch *batch;
    const tfos_field number = {.name = "n", .type = TFOS_TYPE_INT64};
    assert_int_equal(tfos_schema_new(TFOS_RECORD_EXAMPLE, &schema, NULL), TFOS_OK);
    assert_int_equal(tfos_schema_add(schema, &number, NULL), TFOS_OK);
    assert_int_equal(tfos__batch_new(schema, &batch, NULL), TFOS_OK);
    for (int64_t i = 0; i < rows; i++) {
        tfos__vector_push_int(tfos__batch_vector(batch, 0), i, NULL);
    }
    assert_int_equal(tfos__batch_finish(batch, rows, NULL), TFOS_OK);
    tfos_schema_free(schema);
    return batch;
}

/* Whether a program reads or not, what was sent to its node is acknowledged: nobody waits for that. */
static void test_a_program_that_does_not_read(void **state)
{
    (void)state;
    helper_cluster it;
    tfos_error error;
    patient who = {.feeder = NULL};
    const tfos_feed_options options = helper_feed_of(1);
    static const char *const settings[] = {"feed.local=0", "feed.lane_bytes=64KiB", NULL};
    helper_cluster_open(&it, 1, "stuck", 64, settings);
    uint64_t feed = helper_cluster_begin(&it, &options);
    tfos_feeder *feeder = open_here(&it, feed, &who);
    who.feeder = feeder;
    who.quiet_since = tfos__clock_ms();
    tfos_batch *batch = make_batch(1000000);
    assert_int_equal(tfos_feeder_put_batch(feeder, batch, &error), TFOS_CANCELLED);
    tfos__feeder_view view;
    tfos__feeder_look(feeder, &view);
    assert_true(view.sent > 4000);
    assert_int_equal(view.lane_bytes, 0);
    tfos_batch_free(batch);
    tfos_feeder_close(feeder);
    helper_cluster_abandon(&it);
}

/* Rows without end, of a task that writes nonsense to its lane behind the first of them. */
typedef struct spoiler {
    tfos_pump *pump;
    tfos_batch *batch;
    int calls;
    int64_t deadline;
} spoiler;

static tfos_status spoil(void *context, int64_t patience_ms, int64_t held_bytes, tfos_batch **out, tfos_error *error)
{
    (void)patience_ms, (void)held_bytes;
    spoiler *who = context;
    if (++who->calls == 2) {
        uint8_t *to;
        const tfos__place *place = &tfos__pump_feeder(who->pump)->places[0];
        assert_int_equal(tfos__lane_reserve(place->lane, 64, &to, error), TFOS_OK);
        memset(to, 0xff, 64); /* no entry looks like this */
        assert_int_equal(tfos__lane_commit(place->lane, 64, 0, 0, error), TFOS_OK);
        tfos__place_ring(place);
    }
    assert_true(tfos__clock_ms() < who->deadline);
    *out = tfos_batch_retain(who->batch);
    return TFOS_OK;
}

/* What ends the way to a node is told as it is, and not as a node that is gone; and another attempt has another way. */
static void test_the_cause_is_told(void **state)
{
    (void)state;
    helper_cluster it;
    tfos_error error = {0};
    tfos_feeder_options task;
    tfos_pump_source source;
    uint8_t *ticket;
    tfos_batch *results;
    spoiler who = {.batch = make_batch(100), .deadline = tfos__clock_ms() + FEW_MS};
    static const char *const settings[] = {"feed.local=0", NULL};
    const tfos_feed_options options = helper_feed_of(1);
    helper_cluster_open(&it, 1, "take", 10, settings);
    uint64_t feed = helper_cluster_begin(&it, &options);
    tfos_feeder_options_init(&task, sizeof task);
    assert_int_equal(tfos_cluster_feed_ticket(it.cluster, feed, 0, &ticket, &task.ticket_bytes, &error), TFOS_OK);
    task.ticket = ticket;
    tfos_pump_source_init(&source, sizeof source);
    source.context = &who;
    source.next = spoil;
    assert_int_equal(tfos_pump_open(&task, &source, &who.pump, &error), TFOS_OK);
    assert_int_equal(tfos_pump_next(who.pump, &results, &error), TFOS_CORRUPT);
    assert_int_equal(error.fault, TFOS_FAULT_AGAIN);
    assert_non_null(strstr(error.message, "node 0 on 127.0.0.1"));
    assert_non_null(strstr(error.message, "entry"));
    tfos_pump_close(who.pump);
    tfos_string_free(ticket);
    tfos_batch_free(who.batch);
    helper_cluster_expect_event(&it, "abandoned", FEW_MS);
    helper_cluster_abandon(&it);
}

/* A task that has no descriptors left goes on with the node that it has. */
static void test_a_starving_node_is_out_of_reach(void **state)
{
    (void)state;
    helper_cluster it;
    tfos_error error = {0};
    struct rlimit files;
    const tfos_feed_options options = helper_feed_of(1);
    static const char *const settings[] = {"feed.local=1", "cluster.beat_ms=100", NULL};
    helper_cluster_open(&it, 2, "take", 10, settings);
    uint64_t feed = helper_cluster_begin(&it, &options);
    tfos_feeder *feeder = open_here(&it, feed, NULL);
    tfos_batch *batch = make_batch(100);
    assert_int_equal(tfos_feeder_put_batch(feeder, batch, &error), TFOS_OK);
    tfos__feeder_view view;
    tfos__feeder_look(feeder, &view);
    assert_true(view.near == 1 && view.far == 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 3, .rlim_max = files.rlim_max}), 0);
    tfos_status status = TFOS_OK;
    /* The node elsewhere gets nothing, and soon the coordinator says that it starves. */
    for (int64_t deadline = tfos__clock_ms() + FEW_MS;
         status == TFOS_OK && view.unreached == 0 && tfos__clock_ms() < deadline;) {
        status = tfos_feeder_put_batch(feeder, batch, &error);
        tfos__feeder_look(feeder, &view);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    if (status != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    assert_true(view.unreached == 1 && view.near == 1 && view.far == 0);
    assert_int_equal(tfos_feeder_finish(feeder, &error), TFOS_OK);
    tfos_batch_free(batch);
    tfos_feeder_close(feeder);
    helper_cluster_abandon(&it);
}

/* How often threads of a process have waited since they began. */
static long waits_of(long pid)
{
    char path[300];
    char line[256];
    long all = 0;
    snprintf(path, sizeof path, "/proc/%ld/task", pid);
    DIR *threads = opendir(path);
    assert_non_null(threads);
    for (const struct dirent *each = readdir(threads); each != NULL; each = readdir(threads)) {
        long count;
        snprintf(path, sizeof path, "/proc/%ld/task/%s/status", pid, each->d_name);
        FILE *file = each->d_name[0] != '.' ? fopen(path, "r") : NULL;
        while (file != NULL && fgets(line, sizeof line, file) != NULL) {
            all += sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1 ? count : 0;
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    closedir(threads);
    return all;
}

/* A task that has all its results and computes its next rows costs its node nothing. */
static void test_a_quiet_task(void **state)
{
    (void)state;
    helper_cluster it;
    tfos_error error;
    int64_t got = 0;
    static const char *const settings[] = {"feed.local=0", NULL};
    tfos_feed_options options = helper_feed_of(1);
    options.inference = true;
    helper_cluster_open(&it, 1, "infer", 10, settings);
    uint64_t feed = helper_cluster_begin(&it, &options);
    tfos_feeder *feeder = open_here(&it, feed, NULL);
    tfos_batch *batch = make_batch(100);
    assert_int_equal(tfos_feeder_put_batch(feeder, batch, &error), TFOS_OK);
    while (got < 100) {
        tfos_batch *results;
        assert_int_equal(tfos_feeder_take_results(feeder, TFOS_WAIT_FOR_RESULTS, &results, &error), TFOS_OK);
        got += tfos_batch_rows(results);
        tfos_batch_free(results);
    }
    long node = helper_cluster_node_pid(&it);
    long before = waits_of(node);
    helper_cluster_pump(&it, 1000);
    long waits = waits_of(node) - before;
    if (waits > 120) {
        fail_msg("the node has woken %ld times in a second", waits);
    }
    tfos_batch_free(batch);
    tfos_feeder_close(feeder);
    helper_cluster_abandon(&it);
}

/* A node that has as many files as it may have: tasks wait in line, and it does not spin meanwhile. */
static void accept_at_the_limit(bool far)
{
    enum { ROWS = 1000 };
    helper_cluster it;
    struct rlimit before;
    static const char *const settings[] = {"cluster.beat_ms=100", NULL};
    const tfos_feed_options options = helper_feed_of(1);
    helper_cluster_open(&it, 1, "take", 10, settings);
    uint64_t feed = helper_cluster_begin(&it, &options);
    long node = helper_cluster_node_pid(&it);
    assert_int_equal(prlimit((pid_t)node, RLIMIT_NOFILE, NULL, &before), 0);
    const struct rlimit none = {.rlim_cur = 1, .rlim_max = before.rlim_max};
    assert_int_equal(prlimit((pid_t)node, RLIMIT_NOFILE, &none, NULL), 0);
    helper_task task = {.feed = feed, .attempt = 1, .rows = ROWS, .batch_rows = 100, .far = far};
    helper_task_start(&task, &it);
    helper_cluster_pump(&it, 300);
    long ticks = helper_process_ticks(node);
    helper_cluster_pump(&it, 1000);
    ticks = helper_process_ticks(node) - ticks;
    assert_int_equal(prlimit((pid_t)node, RLIMIT_NOFILE, &before, NULL), 0);
    if (ticks > sysconf(_SC_CLK_TCK) / 4) {
        fail_msg("the node has worked for %ld ticks in a second", ticks);
    }
    helper_task_expect_ok(&task, &it);
    helper_cluster_wait_over(&it);
    helper_cluster_expect_rows(&it, (const int64_t[]){ROWS}, 1, 1);
    helper_cluster_abandon(&it);
}

static void test_a_node_at_its_limit_of_files(void **state)
{
    (void)state;
    accept_at_the_limit(false);
    accept_at_the_limit(true);
}

static bool is_interrupted(void *context)
{
    (void)context;
    return true;
}

/* A node that accepts and says nothing. */
static void test_interrupted_while_connecting(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof address;
    tfos_feeder feeder = {.sink.patience = {.interrupted = is_interrupted}};
    tfos__place place = {.socket = -1, .host = "127.0.0.1"};
    tfos_error error;
    int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(silent, (const struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(silent, 4), 0);
    assert_int_equal(getsockname(silent, (struct sockaddr *)&address, &bytes), 0);
    place.port = ntohs(address.sin_port);
    int64_t began = tfos__clock_ms();
    assert_int_equal(tfos__place_connect_far(&feeder, &place, INT64_MAX, &error), TFOS_CANCELLED);
    assert_true(tfos__clock_ms() - began < 5000);
    feeder.sink.patience.interrupted = NULL;
    began = tfos__clock_ms();
    assert_int_equal(tfos__place_connect_far(&feeder, &place, began + 300, &error), TFOS_IO);
    assert_true(tfos__clock_ms() - began < 5000);
    assert_true(place.socket < 0 && place.stand_in == NULL);
    close(silent);
}

/* Two programs that wait for each other after each batch, one of which begins when the other one has all that fits. */
static void test_programs_in_lockstep(void **state)
{
    (void)state;
    helper_cluster it;
    char path[512];
    static const char *const settings[] = {"feed.lane_bytes=64KiB", NULL};
    const tfos_feed_options options = helper_feed_of(1);
    helper_cluster_open(&it, 2, "lockstep:60", 64, settings);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 1000000, .batch_rows = 5000, .far = true};
    helper_task_start(&task, &it);
    while (helper_cluster_count(&it) < 64) {
        helper_cluster_pump(&it, 5);
    }
    helper_cluster_pump(&it, 300); /* its lane is full by then; if it is not, the test is weaker, and does not fail */
    snprintf(path, sizeof path, "%s/go", it.folder);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    assert_int_equal(helper_task_wait(&task, &it, FEW_MS, NULL, 0), HELPER_TASK_END);
    assert_int_equal(helper_cluster_count(&it), 2 * 60 * 64);
    helper_cluster_abandon(&it);
}

static void test_terminate(void **state)
{
    (void)state;
    helper_cluster it;
    const tfos_feed_options options = helper_feed_of(1);
    helper_cluster_open(&it, 1, "terminate:300", 100, NULL);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 5000000, .batch_rows = 1000, .far = true};
    helper_task_start(&task, &it);
    assert_int_equal(helper_task_wait(&task, &it, FEW_MS, NULL, 0), HELPER_TASK_END);
    helper_cluster_abandon(&it);
}

static bool has_event(helper_cluster *it, const char *text)
{
    tfos__buffer_append(&it->feed_events, "", 1, NULL);
    it->feed_events.size--;
    return strstr((const char *)it->feed_events.data, text) != NULL;
}

/* One program ends in good order while rows are on their way to it: no attempt may count them as fed, and the next one
 * gives them to somebody else. */
static void test_rows_on_their_way_to_a_program_that_ends(void **state)
{
    (void)state;
    enum { ROWS = 1000, ROW_BYTES = 60000 }; /* they take their time on the network */
    helper_cluster it;
    char settled[2][64];
    const tfos_feed_options options = helper_feed_of(1);
    helper_cluster_open(&it, 2, "leave:20", 10, NULL);
    helper_cluster_wait_hungry(&it);
    uint64_t feed = helper_cluster_begin(&it, &options);
    int code = HELPER_TASK_FAILED;
    for (uint64_t attempt = 1; attempt <= 3 && code != HELPER_TASK_OK; attempt++) {
        char message[2048] = "";
        helper_task task = {
            .feed = feed, .attempt = attempt, .rows = ROWS, .batch_rows = 100, .row_bytes = ROW_BYTES, .far = true};
        helper_task_start(&task, &it);
        code = helper_task_wait(&task, &it, FEW_MS, message, sizeof message);
        if (code != HELPER_TASK_OK) {
            assert_non_null(strstr(message, "has ended while rows were on their way to it"));
        }
    }
    assert_int_equal(code, HELPER_TASK_OK);
    /* What was in the lane of the first one is dropped, if anything was. */
    snprintf(settled[0], sizeof settled[0], "consumed %llu/0", (unsigned long long)feed);
    snprintf(settled[1], sizeof settled[1], "dropped %llu/0", (unsigned long long)feed);
    for (int64_t deadline = tfos__clock_ms() + FEW_MS; !has_event(&it, settled[0]) && !has_event(&it, settled[1]);) {
        assert_true(tfos__clock_ms() < deadline);
        helper_cluster_pump(&it, 10);
    }
    helper_cluster_abandon(&it);
}

static void test_programs_that_end(void **state)
{
    (void)state;
    helper_cluster it;
    const tfos_feed_options options = helper_feed_of(1);
    helper_cluster_open(&it, 2, "take:250", 50, NULL);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task;
    char message[2048];
    int code = HELPER_TASK_FAILED;
    for (uint64_t attempt = 1; attempt <= 3 && code == HELPER_TASK_FAILED; attempt++) {
        task = (helper_task){.feed = feed, .attempt = attempt, .rows = 1000000, .batch_rows = 100, .far = true};
        helper_task_start(&task, &it);
        code = helper_task_wait(&task, &it, FEW_MS, message, sizeof message);
        if (code == HELPER_TASK_FAILED && strstr(message, "has ended while rows were on their way to it") == NULL) {
            fail_msg("%s", message);
        }
    }
    assert_int_equal(code, HELPER_TASK_END);
    assert_int_equal(helper_cluster_count(&it), 500);
    helper_cluster_close(&it);
    helper_cluster_open(&it, 2, "kill:250", 50, NULL);
    feed = helper_cluster_begin(&it, &options);
    task = (helper_task){.feed = feed, .attempt = 1, .rows = 1000000, .batch_rows = 100, .far = true};
    helper_task_start(&task, &it);
    assert_int_equal(helper_task_wait(&task, &it, FEW_MS, message, sizeof message), HELPER_TASK_FAILED);
    assert_non_null(strstr(message, "the cluster has failed"));
    helper_cluster_abandon(&it);
}

/* Whoever knocks without the key, or says nothing, is not noticed by others. */
static void test_strangers(void **state)
{
    (void)state;
    enum { STRANGERS = 40 };
    helper_cluster it;
    char port[32];
    int strangers[STRANGERS];
    const int64_t sizes[] = {3000};
    const tfos_feed_options options = helper_feed_of(1);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(helper_find_port()), .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    snprintf(port, sizeof port, "feed.port=%u", ntohs(address.sin_port));
    const char *const settings[] = {port, NULL};
    helper_cluster_open(&it, 1, "slow:2", 50, settings);
    uint64_t feed = helper_cluster_begin(&it, &options);
    helper_task task = {.feed = feed, .attempt = 1, .rows = 3000, .batch_rows = 100, .far = true, .pause_ms = 10};
    helper_task_start(&task, &it);
    for (size_t i = 0; i < STRANGERS; i++) {
        strangers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(strangers[i], (const struct sockaddr *)&address, sizeof address), 0);
        if (i % 2 == 0) {
            (void)!send(strangers[i], "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
        }
        helper_cluster_pump(&it, 2);
    }
    helper_task_expect_ok(&task, &it);
    for (size_t i = 0; i < STRANGERS; i++) {
        close(strangers[i]);
    }
    helper_cluster_wait_over(&it);
    helper_cluster_expect_rows(&it, sizes, 1, 1);
    helper_cluster_abandon(&it);
}

int main(int argc, char **argv)
{
    helper_program_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_of_the_driver_reach_tasks),
        cmocka_unit_test(test_rows_come_from_near_and_far),
        cmocka_unit_test(test_nobody_starves),
        cmocka_unit_test(test_rows_do_not_pile_up_where_nobody_reads),
        cmocka_unit_test(test_a_starving_node_elsewhere_is_fed),
        cmocka_unit_test(test_large_rows),
        cmocka_unit_test(test_inference),
        cmocka_unit_test(test_large_results),
        cmocka_unit_test(test_a_program_that_does_not_read),
        cmocka_unit_test(test_programs_in_lockstep),
        cmocka_unit_test(test_the_cause_is_told),
        cmocka_unit_test(test_a_starving_node_is_out_of_reach),
        cmocka_unit_test(test_a_quiet_task),
        cmocka_unit_test(test_a_node_at_its_limit_of_files),
        cmocka_unit_test(test_interrupted_while_connecting),
        cmocka_unit_test(test_terminate),
        cmocka_unit_test(test_rows_on_their_way_to_a_program_that_ends),
        cmocka_unit_test(test_programs_that_end),
        cmocka_unit_test(test_strangers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
