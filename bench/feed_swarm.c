/* Many tasks that feed many nodes, against one coordinator: `feed_swarm NODES PRODUCERS` prints a line of JSON.
 *
 * The coordinator is a process of its own, as beside a driver. Nodes and tasks are links in this process: each connects
 * with TLS and says what its likes say in the life of a feed, but no row moves. All tasks are there at the same time;
 * what is measured is the coordinator's processor time for each event while they are, and its memory. With 1 000, 4 000
 * and 16 000 tasks, what an event costs must be the same. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "feed/ledger.h"
#include "swarm.h"

enum {
    WAIT_S = 600,
    COMING_MOST = 1000, /* tasks that are about to be admitted, at a time */
    BEAT_S = 10,        /* between two heartbeats while something else is measured: a node has a lease */
    BEAT_ROUNDS = 5,
    STARVING = 4, /* nodes that have nothing, and then something */
    ROWS = 100,   /* of a partition */
};

typedef struct member {
    tfos__link *link;
    uint64_t sequence; /* of what a node has settled */
} member;

/* What a phase has cost the coordinator. */
typedef struct cost {
    double seconds;
    double cpu;
} cost;

static uv_loop_t loop;
static tfos_cluster *cluster;
static pid_t coordinator;
static uint64_t feed;
static member *nodes;
static member *producers;
static long node_count;
static long producer_count;

/* Events so far. */
static long assigned, beats, granted, completed, hungry_news, producers_closed, nodes_closed, opened, begun, consumed;

static double phase_seconds, phase_cpu;
static double beaten; /* when nodes have beaten last */

/* ---- what is heard ---- */

static void check_closed(const tfos_error *error)
{
    if (error->status != TFOS_OK) {
        swarm_stop("a link broke", error->message);
    }
}

static void on_node_message(tfos__link *link, const tfos__message *message, void *context)
{
    (void)context;
    switch (message->type) {
    case TFOS__MESSAGE_ASSIGN:
        assigned++;
        break;
    case TFOS__MESSAGE_ALIVE:
        beats++;
        break;
    case TFOS__MESSAGE_STOP:
        swarm_end(link);
        break;
    case TFOS__MESSAGE_BYE:
        tfos__link_close(link);
        break;
    case TFOS__MESSAGE_REFUSED:
        swarm_stop("a node was refused", "see the coordinator's output");
    default:
        break;
    }
}

static void on_node_closed(tfos__link *link, const tfos_error *error, void *context)
{
    (void)link, (void)context;
    nodes_closed++;
    check_closed(error);
}

static void on_producer_message(tfos__link *link, const tfos__message *message, void *context)
{
    char text[512];
    (void)link, (void)context;
    switch (message->type) {
    case TFOS__MESSAGE_GRANTED:
        granted++;
        break;
    case TFOS__MESSAGE_DISMISSED:
        if (tfos__message_number(message, TFOS__FIELD_ADMISSION) != TFOS__ADMISSION_COMPLETE) {
            swarm_stop("a task was sent home", tfos__message_copy(message, TFOS__FIELD_TEXT, text, sizeof text));
        }
        completed++;
        break;
    case TFOS__MESSAGE_HUNGRY:
        hungry_news++;
        break;
    case TFOS__MESSAGE_REFUSED:
        swarm_stop("a task was refused", tfos__message_copy(message, TFOS__FIELD_TEXT, text, sizeof text));
    default:
        break;
    }
}

static void on_producer_closed(tfos__link *link, const tfos_error *error, void *context)
{
    (void)link, (void)context;
    producers_closed++;
    check_closed(error);
}

/* What the coordinator tells the driver must be read. */
static void hear_driver(void)
{
    tfos_cluster_event event;
    tfos_error error;
    for (;;) {
        tfos_status status = tfos_cluster_next(cluster, 0, &event, &error);
        if (status == TFOS_END || (status == TFOS_OK && event.kind == TFOS_EVENT_NONE)) {
            return;
        }
        if (status != TFOS_OK) {
            swarm_stop("the coordinator failed", error.message);
        }
        if (event.kind == TFOS_EVENT_FAILED) {
            swarm_stop("the cluster failed", event.text);
        }
        if (event.kind == TFOS_EVENT_FEED) {
            opened += strcmp(event.state, "open") == 0;
            begun += strcmp(event.state, "epoch") == 0;
            consumed += strcmp(event.state, "consumed") == 0;
            if (strcmp(event.state, "failed") == 0) {
                swarm_stop("the feed failed", event.text);
            }
        }
    }
}

/* ---- what is said ---- */

static void beat(long node, bool hungry, uint64_t rows)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_BEAT);
    tfos__message_put_number(&message, TFOS__FIELD_CPU_MS, 1000);
    tfos__message_put_number(&message, TFOS__FIELD_RSS_BYTES, 1 << 30);
    tfos__message_put_number(&message, TFOS__FIELD_HUNGRY, hungry ? 1 : 0);
    tfos__message_put_number(&message, TFOS__FIELD_FED, rows);
    tfos__message_put_number(&message, TFOS__FIELD_CONSUMED, rows);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUES, ",input,");
    tfos__link_send(nodes[node].link, &message);
}

static void beat_all(void)
{
    beaten = swarm_seconds();
    for (long i = 0; i < node_count; i++) {
        beat(i, false, ROWS);
    }
}

static void name_machine(long node, char out[64])
{
    snprintf(out, 64, "00000000-0000-0000-0000-%012ld", node);
}

static void connect_node(long index, tfos__tls_context *tls, const char *host, uint16_t port)
{
    static const tfos__link_events events = {.message = on_node_message, .closed = on_node_closed};
    tfos__message message;
    tfos_error error;
    char name[64];
    char machine[64];
    snprintf(name, sizeof name, "tfos-feed-swarm-%d-%ld", (int)getpid(), index);
    name_machine(index, machine);
    if (tfos__link_connect(&loop, tls, host, port, &events, &nodes[index], &nodes[index].link, &error) != TFOS_OK) {
        swarm_stop("a node cannot connect", error.message);
    }
    swarm_hello(nodes[index].link);
    swarm_make_registration(index, host, &message);
    tfos__message_put_string(&message, TFOS__FIELD_FEED_NAME, name);
    tfos__message_put_number(&message, TFOS__FIELD_FEED_PORT, 30000 + (uint64_t)index);
    tfos__message_put_string(&message, TFOS__FIELD_MACHINE, machine);
    tfos__link_send(nodes[index].link, &message);
}

static void about(tfos__message *message, tfos__message_type type, long partition)
{
    const tfos__attempt attempt = {.feed = feed, .partition = (uint64_t)partition, .task = (uint64_t)partition};
    tfos__message_init(message, type);
    tfos__attempt_put(&attempt, message);
}

static void connect_producer(long index, tfos__tls_context *tls, const char *host, uint16_t port)
{
    static const tfos__link_events events = {.message = on_producer_message, .closed = on_producer_closed};
    tfos__message message;
    tfos_error error;
    char machine[64];
    member *self = &producers[index];
    if (tfos__link_connect(&loop, tls, host, port, &events, self, &self->link, &error) != TFOS_OK) {
        swarm_stop("a task cannot connect", error.message);
    }
    swarm_hello(self->link);
    name_machine(index % node_count, machine);
    about(&message, TFOS__MESSAGE_ADMIT, index);
    tfos__message_put_string(&message, TFOS__FIELD_MACHINE, machine);
    tfos__link_send(self->link, &message);
}

static void say_fed(long producer)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FED);
    tfos__message_put_number(&message, TFOS__FIELD_FED, ROWS);
    tfos__message_put_number(&message, TFOS__FIELD_CONSUMED, ROWS / 2);
    tfos__link_send(producers[producer].link, &message);
}

static void say_exhausted(long producer)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_EXHAUSTED);
    tfos__message_put_number(&message, TFOS__FIELD_ROWS, ROWS);
    tfos__link_send(producers[producer].link, &message);
}

static void settle(long partition)
{
    member *node = &nodes[partition % node_count];
    tfos__message message;
    about(&message, TFOS__MESSAGE_SETTLED, partition);
    tfos__message_put_number(&message, TFOS__FIELD_CONSUMED, ROWS);
    tfos__message_put_number(&message, TFOS__FIELD_SKIPPED, 0);
    tfos__message_put_number(&message, TFOS__FIELD_SEQUENCE, ++node->sequence);
    tfos__link_send(node->link, &message);
}

/* ---- phases ---- */

static void begin_phase(void)
{
    phase_seconds = swarm_seconds();
    phase_cpu = swarm_cpu_seconds(coordinator);
}

static cost end_phase(void)
{
    return (cost){.seconds = swarm_seconds() - phase_seconds, .cpu = swarm_cpu_seconds(coordinator) - phase_cpu};
}

static void work(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
    hear_driver();
    if (beaten != 0 && swarm_seconds() - beaten > BEAT_S) {
        beat_all();
    }
    usleep(200);
}

static void work_until(const long *counter, long wanted, const char *what)
{
    double start = swarm_seconds();
    while (*counter < wanted) {
        if (swarm_seconds() - start > WAIT_S) {
            swarm_stop("it takes too long", what);
        }
        work();
    }
}

static void work_for(double duration)
{
    for (double start = swarm_seconds(); swarm_seconds() - start < duration;) {
        work();
    }
}

/* Every node beats, and is answered. */
static void beat_round(void)
{
    long wanted = beats + node_count;
    beat_all();
    work_until(&beats, wanted, "heartbeats");
}

static void open_feed(void)
{
    tfos_feed_options options;
    tfos_feed_options_init(&options, sizeof options);
    options.queue = "input";
    options.partitions = producer_count;
    options.determinate = true;
    options.timeout_ms = WAIT_S * 1000;
    tfos_error error;
    if (tfos_cluster_open_feed(cluster, &options, &feed, &error) != TFOS_OK) {
        swarm_stop("cannot open a feed", error.message);
    }
    work_until(&opened, 1, "opening the feed");
    if (tfos_cluster_begin_epoch(cluster, feed, 0, &error) != TFOS_OK) {
        swarm_stop("cannot begin an epoch", error.message);
    }
    work_until(&begun, 1, "beginning the epoch");
}

static cost admit_all(tfos__tls_context *tls, const char *host, uint16_t port)
{
    begin_phase();
    for (long next = 0; granted < producer_count;) {
        while (next < producer_count && next - granted < COMING_MOST) {
            connect_producer(next++, tls, host, port);
        }
        work();
    }
    return end_phase();
}

static cost beat_for_a_while(void)
{
    begin_phase();
    for (int i = 0; i < BEAT_ROUNDS; i++) {
        beat_round();
    }
    return end_phase();
}

/* A few nodes get nothing for two heartbeats, and then something: two pieces of news each. */
static cost starve_and_feed(void)
{
    static const struct {
        bool hungry;
        uint64_t more_rows;
    } story[] = {{true, 0}, {true, 0}, {false, 1}};
    begin_phase();
    for (size_t step = 0; step < sizeof story / sizeof story[0]; step++) {
        long wanted = beats + STARVING;
        for (long i = 0; i < STARVING; i++) {
            beat(i, story[step].hungry, ROWS + story[step].more_rows);
        }
        work_until(&beats, wanted, "heartbeats of nodes that starve");
        work_for(0.25); /* news goes out with the coordinator's clock */
    }
    return end_phase();
}

static cost say_progress(void)
{
    begin_phase();
    for (long i = 0; i < producer_count; i++) {
        say_fed(i);
    }
    work_for(0.5);
    return end_phase();
}

static cost exhaust_all(void)
{
    begin_phase();
    for (long i = 0; i < producer_count; i++) {
        say_exhausted(i);
    }
    work_until(&completed, producer_count, "the end of every partition");
    return end_phase();
}

static cost settle_all(void)
{
    begin_phase();
    for (long i = 0; i < producer_count; i++) {
        settle(i);
    }
    work_until(&consumed, 1, "settling every row");
    return end_phase();
}

static cost leave_all(void)
{
    begin_phase();
    for (long i = 0; i < producer_count; i++) {
        tfos__link_close(producers[i].link);
    }
    work_until(&producers_closed, producer_count, "the tasks' going home");
    work_for(0.2);
    return end_phase();
}

static void open_cluster(void)
{
    tfos_cluster_options options;
    tfos_error error;
    tfos_cluster_options_init(&options, sizeof options);
    options.nodes = (int32_t)node_count;
    options.host = "127.0.0.1";
    if (tfos_cluster_open(&options, &cluster, &error) != TFOS_OK) {
        swarm_stop("cannot open a cluster", error.message);
    }
    coordinator = swarm_coordinator();
}

static void start_nodes(tfos__tls_context *tls, const char *host, uint16_t port)
{
    for (long i = 0; i < node_count; i++) {
        connect_node(i, tls, host, port);
    }
    work_until(&assigned, node_count, "registering");
    beat_round();
}

static double per_event_us(cost whole, long events)
{
    return whole.cpu / (double)events * 1e6;
}

/* The whole life of a feed; what each of its events costs is printed. */
static void measure(tfos__tls_context *tls, const char *host, uint16_t port)
{
    double rss_before = swarm_rss_bytes(coordinator);
    open_feed();
    cost admission = admit_all(tls, host, port);
    double rss = swarm_rss_bytes(coordinator);
    begin_phase();
    work_for(1);
    cost idle = end_phase();
    cost heartbeat = beat_for_a_while();
    cost hunger = starve_and_feed();
    cost progress = say_progress();
    cost exhausted = exhaust_all();
    cost settled = settle_all();
    cost leaving = leave_all();
    printf("{\"nodes\": %ld, \"producers\": %ld, \"admission_us\": %.1f, \"admission_cpu_us\": %.1f, "
           "\"beat_cpu_us\": %.2f, \"idle_cpu_ms_per_s\": %.2f, \"hunger_cpu_us\": %.1f, \"hunger_messages\": %.1f, "
           "\"progress_cpu_us\": %.2f, \"exhausted_cpu_us\": %.2f, \"settled_cpu_us\": %.2f, \"leaving_cpu_us\": %.2f, "
           "\"rss_bytes\": %.0f, \"producer_bytes\": %.0f}\n",
           node_count, producer_count, admission.seconds / (double)producer_count * 1e6,
           per_event_us(admission, producer_count), per_event_us(heartbeat, BEAT_ROUNDS * node_count),
           idle.cpu * 1e3 / idle.seconds, per_event_us(hunger, 2 * STARVING),
           (double)hungry_news / (double)(2 * STARVING), per_event_us(progress, producer_count),
           per_event_us(exhausted, producer_count), per_event_us(settled, producer_count),
           per_event_us(leaving, producer_count), rss, (rss - rss_before) / (double)producer_count);
}

int main(int argc, char **argv)
{
    char host[256];
    uint16_t port;
    node_count = argc > 1 ? atol(argv[1]) : 1000;
    producer_count = argc > 2 ? atol(argv[2]) : 16000;
    if (node_count < STARVING || producer_count < 1) {
        swarm_stop("usage", "feed_swarm NODES PRODUCERS, with at least 4 nodes and a task");
    }
    swarm_raise_file_limit(node_count + producer_count + 64);
    uv_loop_init(&loop);
    nodes = calloc((size_t)node_count, sizeof *nodes);
    producers = calloc((size_t)producer_count, sizeof *producers);
    if (nodes == NULL || producers == NULL) {
        swarm_stop("cannot begin", "out of memory");
    }
    open_cluster();
    tfos__tls_context *tls = swarm_read_ticket(cluster, host, &port);
    start_nodes(tls, host, port);
    measure(tls, host, port);
    beaten = 0; /* nobody beats any more */
    tfos_cluster_stop(cluster, "the measurement is over", NULL);
    work_until(&nodes_closed, node_count, "stopping");
    tfos_cluster_close(cluster);
    uv_run(&loop, UV_RUN_DEFAULT);
    tfos__tls_context_free(tls);
    free(nodes);
    free(producers);
    return 0;
}
