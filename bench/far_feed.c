/* One node and those who feed it over the network: `far_feed ROWS CROWD` prints a line of JSON.
 *
 * A real coordinator, a real node and a program that takes rows and drops them. Two tasks, processes of their own, feed
 * it rows of 784 floats and a label: once through shared memory, once through TLS, as from another host. Then a crowd
 * of tasks is connected and has nothing to say: what are they to the node, in threads and in processor time? */
#include <dirent.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "column/append.h"
#include "column/batch.h"
#include "feed/feeder.h"
#include "net/dial.h"
#include "swarm.h"

enum { TASKS = 2, BATCH_ROWS = 256, WAIT_MS = 120000, IDLE_S = 3 };

static void need(tfos_status status, const char *what, const tfos_error *error)
{
    if (status != TFOS_OK) {
        swarm_stop(what, error->message);
    }
}

/* ---- the program of the node ---- */

_Noreturn static void take_all(void)
{
    tfos_feed *feed;
    tfos_feed_want want;
    tfos_error error;
    tfos_feed_want_init(&want, sizeof want);
    want.rows = BATCH_ROWS;
    need(tfos_feed_open("input", &feed, &error), "tfos_feed_open", &error);
    for (;;) {
        tfos_batch *batch;
        tfos_status status = tfos_feed_next(feed, &want, &batch, &error);
        if (status == TFOS_END) {
            exit(0);
        }
        need(status, "tfos_feed_next", &error);
        tfos_batch_free(batch);
    }
}

/* ---- the tasks ---- */

static tfos_batch *make_batch(void)
{
    static const char text[] = "{\"fields\": [{\"name\": \"image\", \"type\": \"float\", \"shape\": [784]},"
                               "{\"name\": \"label\", \"type\": \"int64\"}]}";
    tfos_error error;
    tfos_schema *schema;
    tfos_batch *batch;
    need(tfos_schema_from_json(text, strlen(text), &schema, &error), "the schema", &error);
    need(tfos__batch_new(schema, &batch, &error), "a batch", &error);
    tfos_schema_free(schema);
    tfos__vector *image = tfos__batch_vector(batch, 0);
    for (int row = 0; row < BATCH_ROWS; row++) {
        for (int i = 0; i < 784; i++) {
            need(tfos__vector_push_real(image->child, i, &error), "a batch", &error);
        }
        need(tfos__vector_push_list(image, &error), "a batch", &error);
        need(tfos__vector_push_int(tfos__batch_vector(batch, 1), row, &error), "a batch", &error);
    }
    need(tfos__batch_finish(batch, BATCH_ROWS, &error), "a batch", &error);
    return batch;
}

_Noreturn static void feed_partition(const uint8_t *ticket, size_t bytes, uint64_t partition, long rows, bool far)
{
    tfos_feeder_options options;
    tfos_feeder *feeder;
    tfos_error error;
    setenv("TFOS_FEED_LOCAL", far ? "0" : "1", 1);
    tfos_feeder_options_init(&options, sizeof options);
    options.ticket = ticket;
    options.ticket_bytes = bytes;
    options.partition = partition;
    options.attempt = partition;
    need(tfos_feeder_open(&options, &feeder, &error), "tfos_feeder_open", &error);
    tfos_batch *batch = make_batch();
    for (long fed = 0; fed < rows; fed += BATCH_ROWS) {
        need(tfos_feeder_put_batch(feeder, batch, &error), "tfos_feeder_put_batch", &error);
    }
    need(tfos_feeder_finish(feeder, &error), "tfos_feeder_finish", &error);
    tfos_feeder_close(feeder);
    _exit(0);
}

/* ---- the driver ---- */

/* Waits for an event; *out is the number behind `key` in its text, if that is asked for. */
static void await(tfos_cluster *cluster, tfos_cluster_event_kind kind, const char *state, const char *key, long *out)
{
    tfos_cluster_event event;
    tfos_error error;
    for (double deadline = swarm_seconds() + WAIT_MS / 1000.0; swarm_seconds() < deadline;) {
        need(tfos_cluster_next(cluster, 100, &event, &error), "the coordinator", &error);
        if (event.kind == TFOS_EVENT_FAILED) {
            swarm_stop("the cluster failed", event.text);
        }
        if (event.kind == kind && (state == NULL || strcmp(event.state, state) == 0)) {
            const char *at = key != NULL ? strstr(event.text, key) : NULL;
            if (at != NULL) {
                *out = strtol(at + strlen(key), NULL, 10);
            }
            return;
        }
    }
    swarm_stop("something did not happen", state != NULL ? state : "the start");
}

/* Seconds from the first task to the last row that was taken. */
static double feed_all(tfos_cluster *cluster, long rows, bool far)
{
    tfos_feed_options options;
    tfos_error error;
    uint64_t feed;
    uint8_t *ticket;
    size_t bytes;
    int status;
    tfos_feed_options_init(&options, sizeof options);
    options.partitions = TASKS;
    options.determinate = true;
    need(tfos_cluster_open_feed(cluster, &options, &feed, &error), "a feed", &error);
    need(tfos_cluster_begin_epoch(cluster, feed, 0, &error), "an epoch", &error);
    await(cluster, TFOS_EVENT_FEED, "epoch", NULL, NULL);
    need(tfos_cluster_feed_ticket(cluster, feed, 0, &ticket, &bytes, &error), "a ticket", &error);
    double begin = swarm_seconds();
    for (uint64_t i = 0; i < TASKS; i++) {
        if (fork() == 0) {
            feed_partition(ticket, bytes, i, rows / TASKS, far);
        }
    }
    await(cluster, TFOS_EVENT_FEED, "consumed", NULL, NULL);
    double seconds = swarm_seconds() - begin;
    for (int i = 0; i < TASKS; i++) {
        if (wait(&status) < 0 || status != 0) {
            swarm_stop("a task failed", "see above");
        }
    }
    tfos_string_free((char *)ticket);
    need(tfos_cluster_close_feed(cluster, feed, &error), "a feed", &error);
    return seconds;
}

/* ---- the crowd ---- */

static uint16_t find_port(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6};
    socklen_t bytes = sizeof address;
    int file = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file < 0 || bind(file, (const struct sockaddr *)&address, bytes) != 0 ||
        getsockname(file, (struct sockaddr *)&address, &bytes) != 0) {
        swarm_stop("no port", "for the node");
    }
    close(file);
    return ntohs(address.sin6_port);
}

static long threads_of(long pid)
{
    char path[64];
    long count = -2; /* "." and ".." */
    snprintf(path, sizeof path, "/proc/%ld/task", pid);
    DIR *threads = opendir(path);
    while (threads != NULL && readdir(threads) != NULL) {
        count++;
    }
    if (threads != NULL) {
        closedir(threads);
    }
    return count;
}

/* Connects so many, and prints what they cost while nothing happens. */
static void gather(const tfos_cluster *cluster, uint16_t port, long node, long crowd)
{
    tfos__message ticket;
    tfos_error error;
    const uint8_t *bytes;
    size_t count;
    tfos_cluster_ticket(cluster, &bytes, &count);
    need(tfos__message_decode(bytes, count, &ticket, &error), "the ticket", &error);
    const uint8_t *key = (const uint8_t *)tfos__message_text(&ticket, TFOS__FIELD_KEY).at;
    double before = swarm_cpu_seconds((pid_t)node);
    tfos__dial **dials = calloc((size_t)crowd, sizeof *dials);
    for (long i = 0; i < crowd; i++) {
        need(tfos__dial_open("127.0.0.1", port, key, TFOS__FEED_PLANE_PURPOSE, WAIT_MS, NULL, &dials[i], &error),
             "a connection", &error);
    }
    sleep(1);
    double connected = swarm_cpu_seconds((pid_t)node);
    sleep(IDLE_S);
    double idle = swarm_cpu_seconds((pid_t)node) - connected;
    printf("\"crowd\": %ld, \"threads\": %ld, \"idle_percent\": %.2f, \"connect_cpu_us\": %.0f}\n", crowd,
           threads_of(node), 100 * idle / IDLE_S, 1e6 * (connected - before) / (double)crowd);
    for (long i = 0; i < crowd; i++) {
        tfos__dial_close(dials[i]);
    }
    free(dials);
}

int main(int argc, char **argv)
{
    char self[512] = "";
    char setting[32];
    tfos_cluster_options options;
    tfos_cluster *cluster;
    tfos_error error;
    long node = 0;
    if (argc == 2 && strcmp(argv[1], "program") == 0) {
        take_all();
    }
    if (argc != 3 || readlink("/proc/self/exe", self, sizeof self - 1) <= 0) {
        swarm_stop("usage", "far_feed ROWS CROWD");
    }
    long rows = strtol(argv[1], NULL, 10) / (TASKS * BATCH_ROWS) * (TASKS * BATCH_ROWS);
    long crowd = strtol(argv[2], NULL, 10);
    uint16_t port = find_port();
    const char *const program[] = {self, "program", NULL};
    const char *const settings[] = {setting, NULL};
    snprintf(setting, sizeof setting, "feed.port=%u", port);
    swarm_raise_file_limit(crowd + 100);
    tfos_cluster_options_init(&options, sizeof options);
    options.nodes = 1;
    options.host = "127.0.0.1";
    options.program = program;
    options.spark_feeds = true;
    options.settings = settings;
    options.folder = getenv("TMPDIR");
    need(tfos_cluster_open(&options, &cluster, &error), "the cluster", &error);
    need(tfos_cluster_spawn(cluster, 0, &error), "the node", &error);
    await(cluster, TFOS_EVENT_READY, NULL, "\"pid\":", &node);
    feed_all(cluster, rows, false); /* the first is to warm up */
    double near = feed_all(cluster, rows, false);
    double far = feed_all(cluster, rows, true);
    printf("{\"rows\": %ld, \"near_rows_s\": %.0f, \"far_rows_s\": %.0f, ", rows, (double)rows / near,
           (double)rows / far);
    fflush(stdout);
    gather(cluster, port, node, crowd);
    tfos_cluster_close(cluster);
    return 0;
}
