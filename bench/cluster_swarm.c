/* Many nodes against one coordinator: `cluster_swarm NODES SECONDS` prints a line of JSON.
 *
 * The coordinator is a process of its own, as beside a driver. The nodes are links in this process: each connects with
 * TLS, registers, beats once a second, and ends when it is told to stop. What is measured is the coordinator: how long
 * until every node has its role, processor time and memory for each node, how long until all have stopped. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "swarm.h"

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
        swarm_end(link);
        break;
    case TFOS__MESSAGE_BYE:
        tfos__link_close(link);
        break;
    case TFOS__MESSAGE_REFUSED:
        swarm_stop("a node was refused", "see the coordinator's output");
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
        swarm_stop("a link broke", error->message);
    }
}

static void connect_node(long index, tfos__tls_context *tls, const char *host, uint16_t port)
{
    static const tfos__link_events events = {.message = on_message, .closed = on_closed};
    tfos__message message;
    tfos_error error;
    if (tfos__link_connect(&loop, tls, host, port, &events, &nodes[index], &nodes[index].link, &error) != TFOS_OK) {
        swarm_stop("a node cannot connect", error.message);
    }
    swarm_hello(nodes[index].link);
    swarm_make_registration(index, host, &message);
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
            swarm_stop("the coordinator failed", error.message);
        }
        if (event.kind == TFOS_EVENT_FAILED) {
            swarm_stop("the cluster failed", event.text);
        }
        if (event.kind == TFOS_EVENT_NONE) {
            return false;
        }
    }
}

static double work_until(tfos_cluster *cluster, const long *counter, double limit)
{
    double start = swarm_seconds();
    while (*counter < node_count) {
        if (swarm_seconds() - start > limit) {
            swarm_stop("it takes too long", counter == &assigned ? "registering" : "stopping");
        }
        uv_run(&loop, UV_RUN_NOWAIT);
        drain(cluster);
        usleep(500);
    }
    return swarm_seconds() - start;
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
    swarm_raise_file_limit(node_count + 64);
    uv_loop_init(&loop);
    nodes = calloc((size_t)node_count, sizeof *nodes);
    tfos_cluster_options_init(&options, sizeof options);
    options.nodes = (int32_t)node_count;
    options.host = "127.0.0.1";
    if (nodes == NULL || tfos_cluster_open(&options, &cluster, &error) != TFOS_OK) {
        swarm_stop("cannot open a cluster", nodes != NULL ? error.message : "out of memory");
    }
    pid_t coordinator = swarm_coordinator();
    tfos__tls_context *tls = swarm_read_ticket(cluster, host, &port);
    double rss_before = swarm_rss_bytes(coordinator);
    for (long i = 0; i < node_count; i++) {
        connect_node(i, tls, host, port);
    }
    double start_seconds = work_until(cluster, &assigned, WAIT_MS / 1e3);
    double cpu_before = swarm_cpu_seconds(coordinator);
    double begin = swarm_seconds();
    for (double next = begin; swarm_seconds() - begin < beat_seconds;) {
        if (swarm_seconds() >= next) {
            beat_all();
            next += 1;
        }
        uv_run(&loop, UV_RUN_NOWAIT);
        drain(cluster);
        usleep(1000);
    }
    double cpu = swarm_cpu_seconds(coordinator) - cpu_before;
    double rss = swarm_rss_bytes(coordinator);
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
