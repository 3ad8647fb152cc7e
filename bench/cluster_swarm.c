/* Many nodes against one coordinator: `cluster_swarm NODES SECONDS` prints a line of JSON.
 *
 * The coordinator is a process of its own, as beside a driver. The nodes are links in this process: each connects with
 * TLS, registers, beats once a second, and ends when it is told to stop. What is measured is the coordinator: how long
 * until every node has its role, processor time and memory for each node, how long until all have stopped. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "service/link.h"

enum { WAIT_MS = 120000 };

typedef struct node {
    tfos__link *link;
    bool assigned;
} node;

static uv_loop_t loop;
static node *nodes;
static long node_count;
static long assigned;
static long closed;
static uint64_t answers;

static void stop_with(const char *what, const char *why)
{
    fprintf(stderr, "cluster_swarm: %s: %s\n", what, why);
    exit(1);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void end_node(tfos__link *link)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_ENDED);
    tfos__message_put_number(&message, TFOS__FIELD_OUTCOME, TFOS__OUTCOME_STOPPED);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, "");
    tfos__message_put_string(&message, TFOS__FIELD_TAIL, "");
    tfos__message_put_number(&message, TFOS__FIELD_SEQUENCE, 1);
    tfos__link_send(link, &message);
}

static void on_message(tfos__link *link, const tfos__message *message, void *context)
{
    node *self = context;
    switch (message->type) {
    case TFOS__MESSAGE_ASSIGN:
        assigned += !self->assigned;
        self->assigned = true;
        break;
    case TFOS__MESSAGE_ALIVE:
        answers++;
        break;
    case TFOS__MESSAGE_STOP:
        end_node(link);
        break;
    case TFOS__MESSAGE_BYE:
        tfos__link_close(link);
        break;
    case TFOS__MESSAGE_REFUSED:
        stop_with("a node was refused", "see the coordinator's output");
        break;
    default:
        break;
    }
}

static void on_closed(tfos__link *link, const tfos_error *error, void *context)
{
    node *self = context;
    (void)link;
    self->link = NULL;
    closed++;
    if (error->status != TFOS_OK) {
        stop_with("a link broke", error->message);
    }
}

static void connect_node(long index, tfos__tls_context *tls, const char *host, uint16_t port)
{
    static const tfos__link_events events = {.message = on_message, .closed = on_closed};
    tfos__message message;
    tfos_error error;
    if (tfos__link_connect(&loop, tls, host, port, &events, &nodes[index], &nodes[index].link, &error) != TFOS_OK) {
        stop_with("a node cannot connect", error.message);
    }
    tfos__message_init(&message, TFOS__MESSAGE_HELLO);
    tfos__message_put_string(&message, TFOS__FIELD_VERSION, TFOS_VERSION);
    tfos__link_send(nodes[index].link, &message);
    tfos__message_init(&message, TFOS__MESSAGE_REGISTER);
    tfos__message_put_number(&message, TFOS__FIELD_INDEX, (uint64_t)index);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, host);
    tfos__message_put_number(&message, TFOS__FIELD_PORT, 20000 + (uint64_t)index);
    tfos__message_put_number(&message, TFOS__FIELD_NODE_PID, (uint64_t)getpid());
    tfos__message_put_number(&message, TFOS__FIELD_ATTEMPT, 0);
    tfos__message_put_number(&message, TFOS__FIELD_CORES, 1);
    tfos__message_put_string(&message, TFOS__FIELD_GPUS, "");
    tfos__message_put_string(&message, TFOS__FIELD_GPU_SOURCE, "");
    tfos__message_put_string(&message, TFOS__FIELD_EXECUTOR, "0");
    tfos__message_put_number(&message, TFOS__FIELD_RETURNS, 0);
    tfos__link_send(nodes[index].link, &message);
}

static void beat_all(void)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_BEAT);
    tfos__message_put_number(&message, TFOS__FIELD_CPU_MS, 1000);
    tfos__message_put_number(&message, TFOS__FIELD_RSS_BYTES, 1 << 30);
    for (long i = 0; i < node_count; i++) {
        tfos__link_send(nodes[i].link, &message);
    }
}

/* Drops what the coordinator tells the driver, which must be read. Returns whether the cluster is over. */
static bool drain(tfos_cluster *cluster)
{
    tfos_cluster_event event;
    tfos_error error;
    for (;;) {
        tfos_status status = tfos_cluster_next(cluster, 0, &event, &error);
        if (status == TFOS_END) {
            return true;
        }
        if (status != TFOS_OK) {
            stop_with("the coordinator failed", error.message);
        }
        if (event.kind == TFOS_EVENT_FAILED) {
            stop_with("the cluster failed", event.text);
        }
        if (event.kind == TFOS_EVENT_NONE) {
            return false;
        }
    }
}

static double work_until(tfos_cluster *cluster, const long *counter, double limit)
{
    double start = seconds();
    while (*counter < node_count) {
        if (seconds() - start > limit) {
            stop_with("it takes too long", counter == &assigned ? "registering" : "stopping");
        }
        uv_run(&loop, UV_RUN_NOWAIT);
        drain(cluster);
        usleep(500);
    }
    return seconds() - start;
}

static pid_t child_pid(void)
{
    char path[64];
    int pid = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%d", &pid) != 1) {
        stop_with("cannot find the coordinator in", path);
    }
    fclose(file);
    return pid;
}

static double rss_bytes(pid_t pid)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) {
        stop_with("cannot read", path);
    }
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double cpu_seconds(pid_t pid)
{
    char path[64];
    unsigned long user = 0;
    unsigned long system_ticks = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL ||
        fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system_ticks) != 2) {
        stop_with("cannot read", path);
    }
    fclose(file);
    return (double)(user + system_ticks) / (double)sysconf(_SC_CLK_TCK);
}

/* The address and the key, out of the ticket. */
static tfos__tls_context *read_ticket(const tfos_cluster *cluster, char host[256], uint16_t *port)
{
    tfos__message ticket;
    tfos__tls_context *tls;
    tfos_error error;
    const uint8_t *bytes;
    size_t count;
    tfos_cluster_ticket(cluster, &bytes, &count);
    if (tfos__message_decode(bytes, count, &ticket, &error) != TFOS_OK ||
        tfos__tls_context_new(TFOS__TLS_CLIENT, (const uint8_t *)tfos__message_text(&ticket, TFOS__FIELD_KEY).at,
                              TFOS__LINK_PURPOSE, &tls, &error) != TFOS_OK) {
        stop_with("bad ticket", error.message);
    }
    tfos__message_copy(&ticket, TFOS__FIELD_HOST, host, 256);
    *port = (uint16_t)tfos__message_number(&ticket, TFOS__FIELD_PORT);
    return tls;
}

static void raise_file_limit(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    tfos_cluster_options options;
    tfos_cluster *cluster;
    tfos_error error;
    char host[256];
    uint16_t port;
    node_count = argc > 1 ? atol(argv[1]) : 1000;
    double beat_seconds = argc > 2 ? atof(argv[2]) : 10;
    raise_file_limit();
    uv_loop_init(&loop);
    nodes = calloc((size_t)node_count, sizeof *nodes);
    tfos_cluster_options_init(&options);
    options.nodes = (int32_t)node_count;
    options.host = "127.0.0.1";
    if (nodes == NULL || tfos_cluster_open(&options, &cluster, &error) != TFOS_OK) {
        stop_with("cannot open a cluster", nodes != NULL ? error.message : "out of memory");
    }
    pid_t coordinator = child_pid();
    tfos__tls_context *tls = read_ticket(cluster, host, &port);
    double rss_before = rss_bytes(coordinator);
    for (long i = 0; i < node_count; i++) {
        connect_node(i, tls, host, port);
    }
    double start_seconds = work_until(cluster, &assigned, WAIT_MS / 1e3);
    double cpu_before = cpu_seconds(coordinator);
    double begin = seconds();
    for (double next = begin; seconds() - begin < beat_seconds;) {
        if (seconds() >= next) {
            beat_all();
            next += 1;
        }
        uv_run(&loop, UV_RUN_NOWAIT);
        drain(cluster);
        usleep(1000);
    }
    double cpu = cpu_seconds(coordinator) - cpu_before;
    double rss = rss_bytes(coordinator);
    tfos_cluster_stop(cluster, "the measurement is over", NULL);
    double stop_seconds = work_until(cluster, &closed, WAIT_MS / 1e3);
    printf("{\"nodes\": %ld, \"start_s\": %.4f, \"stop_s\": %.4f, \"beats\": %" PRIu64 ", \"beat_cpu_us\": %.2f, "
           "\"rss_bytes\": %.0f, \"node_bytes\": %.0f}\n",
           node_count, start_seconds, stop_seconds, answers, answers > 0 ? cpu / (double)answers * 1e6 : 0, rss,
           (rss - rss_before) / (double)node_count);
    tfos_cluster_close(cluster);
    uv_run(&loop, UV_RUN_DEFAULT);
    tfos__tls_context_free(tls);
    free(nodes);
    return 0;
}
