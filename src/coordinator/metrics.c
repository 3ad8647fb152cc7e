/* Metrics. What Prometheus sees is what the page shows, so both come from the same JSON. Every metric of a family
 * stands behind its HELP and TYPE, as the format asks. */
#include "coordinator/metrics.h"

#include <assert.h>
#include <json-c/json.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/status.h"
#include "net/message.h"

/* Where the text goes; the first failure is kept and ends the writing. */
typedef struct writer {
    tfos__buffer *out;
    tfos_error *error;
    tfos_status status;
} writer;

static void append(writer *to, const char *text, size_t count)
{
    if (to->status == TFOS_OK) {
        to->status = tfos__buffer_append(to->out, text, count, to->error);
    }
}

__attribute__((format(printf, 2, 3))) static void put(writer *to, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int count = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    assert(count >= 0 && (size_t)count < sizeof text); /* texts from outside go through put_label_value */
    append(to, text, (size_t)count);
}

static void put_family(writer *to, const char *name, const char *type, const char *help)
{
    put(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* The value of a label, with what the format gives a meaning escaped. */
static void put_label_value(writer *to, const char *text)
{
    while (*text != '\0') {
        size_t plain = strcspn(text, "\\\"\n");
        append(to, text, plain);
        text += plain;
        if (*text != '\0') {
            append(to, *text == '\n' ? "\\n" : *text == '"' ? "\\\"" : "\\\\", 2);
            text++;
        }
    }
}

static void put_label(writer *to, const char *before, const char *name, const char *value)
{
    put(to, "%s%s=\"", before, name);
    put_label_value(to, value);
    put(to, "\"");
}

static const char *text_of(struct json_object *object, const char *key)
{
    struct json_object *found = json_object_object_get(object, key);
    return found != NULL ? json_object_get_string(found) : "";
}

static double number_of(struct json_object *object, const char *key)
{
    return json_object_get_double(json_object_object_get(object, key));
}

static void put_cluster(writer *to, struct json_object *status)
{
    static const char *const phases[] = {"waiting for nodes", "running", "stopping", "over"};
    const char *phase = text_of(status, "phase");
    put_family(to, "tfos_cluster_info", "gauge", "The cluster and the version of tfos; always 1.");
    put_label(to, "tfos_cluster_info{", "cluster", text_of(status, "cluster"));
    put_label(to, ",", "version", text_of(status, "version"));
    put(to, "} 1\n");
    put_family(to, "tfos_cluster_phase", "gauge", "1 for the phase that the cluster is in, 0 for the others.");
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++) {
        put(to, "tfos_cluster_phase{phase=\"%s\"} %d\n", phases[i], strcmp(phase, phases[i]) == 0);
    }
    put_family(to, "tfos_cluster_attempt", "gauge", "How often the cluster was restarted.");
    put(to, "tfos_cluster_attempt %.0f\n", number_of(status, "attempt"));
    put_family(to, "tfos_cluster_failed", "gauge", "1 once a node has failed.");
    put(to, "tfos_cluster_failed %d\n", text_of(status, "failure")[0] != '\0');
}

static void put_states(writer *to, struct json_object *nodes)
{
    static const char *const states[] = {
#define STATE(name, value, text) text,
        TFOS__NODE_STATE_MAP(STATE)
#undef STATE
    };
    put_family(to, "tfos_nodes", "gauge", "Nodes by state.");
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        size_t count = 0;
        for (size_t k = 0; k < json_object_array_length(nodes); k++) {
            count += strcmp(text_of(json_object_array_get_idx(nodes, k), "state"), states[i]) == 0;
        }
        put(to, "tfos_nodes{state=\"%s\"} %zu\n", states[i], count);
    }
}

/* One number of every node that has come. `part`: NULL, or an object in it that some nodes have. */
static void put_nodes(writer *to, struct json_object *nodes, const char *part, const char *key, const char *name,
                      const char *type, const char *help)
{
    put_family(to, name, type, help);
    for (size_t i = 0; i < json_object_array_length(nodes); i++) {
        struct json_object *node = json_object_array_get_idx(nodes, i);
        struct json_object *from = part != NULL ? json_object_object_get(node, part) : node;
        if (from != NULL && strcmp(text_of(node, "state"), tfos__node_state_text(TFOS__NODE_ABSENT)) != 0) {
            put(to, "%s", name);
            put_label(to, "{", "node", text_of(node, "node"));
            put_label(to, ",", "host", text_of(node, "host"));
            put(to, "} %.15g\n", number_of(from, key));
        }
    }
}

/* A number as Prometheus writes it; reports have strings for those that are not finite. */
static void put_number(writer *to, struct json_object *number)
{
    const char *text = json_object_is_type(number, json_type_string) ? json_object_get_string(number) : NULL;
    if (text == NULL) {
        put(to, "%.15g\n", json_object_get_double(number));
    } else {
        put(to, "%s\n", strcmp(text, "NaN") == 0 ? "NaN" : text[0] == '-' ? "-Inf" : "+Inf");
    }
}

static void put_node_labels(writer *to, const char *name, struct json_object *node)
{
    put(to, "%s", name);
    put_label(to, "{", "node", text_of(node, "node"));
    put_label(to, ",", "host", text_of(node, "host"));
}

/* One number of every program that has reported it. */
static void put_progress(writer *to, struct json_object *nodes, const char *key, const char *name, const char *help)
{
    put_family(to, name, "gauge", help);
    for (size_t i = 0; i < json_object_array_length(nodes); i++) {
        struct json_object *node = json_object_array_get_idx(nodes, i);
        struct json_object *number = json_object_object_get(json_object_object_get(node, "progress"), key);
        if (number != NULL) {
            put_node_labels(to, name, node);
            put(to, "} ");
            put_number(to, number);
        }
    }
}

static void put_values(writer *to, struct json_object *nodes)
{
    static const char name[] = "tfos_progress_value";
    put_family(to, name, "gauge", "The newest value of each metric that a program has reported.");
    for (size_t i = 0; i < json_object_array_length(nodes); i++) {
        struct json_object *node = json_object_array_get_idx(nodes, i);
        struct json_object *values = json_object_object_get(json_object_object_get(node, "progress"), "values");
        if (values == NULL) {
            continue;
        }
        json_object_object_foreach(values, metric, value)
        {
            put_node_labels(to, name, node);
            put_label(to, ",", "metric", metric);
            put(to, "} ");
            put_number(to, value);
        }
    }
}

static void put_feed_label(writer *to, const char *name, struct json_object *feed)
{
    put(to, "%s{feed=\"%.0f\"", name, number_of(feed, "feed"));
    put_label(to, ",", "queue", text_of(feed, "queue"));
}

static void put_feeds(writer *to, struct json_object *feeds)
{
    static const char *const states[] = {"complete", "feeding", "waiting", "skipped"};
    static const char *const rows[] = {"rows", "dropped_rows", "duplicate_rows"};
    static const char *const helps[] = {"Rows of the partitions that are exhausted, in the current epoch.",
                                        "Rows that were fed to programs that had ended.",
                                        "Rows that were fed again because a task had died."};
    size_t count = json_object_is_type(feeds, json_type_array) ? json_object_array_length(feeds) : 0;
    put_family(to, "tfos_feed_partitions", "gauge", "Partitions of the current epoch by state.");
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < sizeof states / sizeof states[0]; k++) {
            struct json_object *feed = json_object_array_get_idx(feeds, i);
            put_feed_label(to, "tfos_feed_partitions", feed);
            put(to, ",state=\"%s\"} %.0f\n", states[k], number_of(feed, states[k]));
        }
    }
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        char name[64];
        snprintf(name, sizeof name, "tfos_feed_%s", rows[k]);
        put_family(to, name, "gauge", helps[k]);
        for (size_t i = 0; i < count; i++) {
            struct json_object *feed = json_object_array_get_idx(feeds, i);
            put_feed_label(to, name, feed);
            put(to, "} %.0f\n", number_of(feed, rows[k]));
        }
    }
}

static void put_connections(writer *to, struct json_object *connections)
{
    static const char *const causes[] = {"key", "version", "slow", "other"};
    put_family(to, "tfos_connections_accepted_total", "counter", "Connections to the port for nodes.");
    put(to, "tfos_connections_accepted_total %.0f\n", number_of(connections, "accepted"));
    put_family(to, "tfos_connections_refused_total", "counter",
               "Connections to the port for nodes that were refused, by cause.");
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        char key[32];
        snprintf(key, sizeof key, "refused_%s", causes[i]);
        put(to, "tfos_connections_refused_total{cause=\"%s\"} %.0f\n", causes[i], number_of(connections, key));
    }
}

static double resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file != NULL) {
        if (fscanf(file, "%*s %llu", &pages) != 1) {
            pages = 0;
        }
        fclose(file);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void put_process(writer *to)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    put_family(to, "tfos_coordinator_resident_memory_bytes", "gauge", "Memory of the coordinator.");
    put(to, "tfos_coordinator_resident_memory_bytes %.0f\n", resident_bytes());
    put_family(to, "tfos_coordinator_cpu_seconds_total", "counter", "CPU time of the coordinator.");
    put(to, "tfos_coordinator_cpu_seconds_total %.3f\n",
        (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
            (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
}

tfos_status tfos__metrics_write(const char *status_json, tfos__buffer *out, tfos_error *error)
{
    writer to = {.out = out, .error = error};
    struct json_object *status = json_tokener_parse(status_json);
    struct json_object *nodes = json_object_object_get(status, "nodes");
    if (!json_object_is_type(nodes, json_type_array)) {
        json_object_put(status);
        return tfos__fail(error, TFOS_CORRUPT, "the status is not what it should be");
    }
    put_cluster(&to, status);
    put_states(&to, nodes);
    put_nodes(&to, nodes, NULL, "cpu_s", "tfos_node_cpu_seconds_total", "counter",
              "CPU time of a node's process and of those below it.");
    put_nodes(&to, nodes, NULL, "rss_bytes", "tfos_node_resident_memory_bytes", "gauge",
              "Memory of a node's process and of those below it.");
    put_nodes(&to, nodes, NULL, "uptime_s", "tfos_node_uptime_seconds", "gauge", "Seconds since a node registered.");
    put_nodes(&to, nodes, NULL, "heard_s", "tfos_node_heartbeat_age_seconds", "gauge",
              "Seconds since a node was last heard of.");
    put_nodes(&to, nodes, "feed", "fed_rows", "tfos_node_fed_rows_total", "counter", "Rows that a node was fed.");
    put_nodes(&to, nodes, "feed", "consumed_rows", "tfos_node_consumed_rows_total", "counter",
              "Rows that a node's program has taken.");
    put_nodes(&to, nodes, "feed", "lane_bytes", "tfos_node_lane_bytes", "gauge", "Memory of the lanes of a node.");
    put_progress(&to, nodes, "epoch", "tfos_progress_epoch", "The epoch that a program is in, as it has reported.");
    put_progress(&to, nodes, "step", "tfos_progress_step", "Steps that a program has taken, as it has reported.");
    put_progress(&to, nodes, "rows_per_s", "tfos_progress_rows_per_second", "Rows that a program takes each second.");
    put_values(&to, nodes);
    put_feeds(&to, json_object_object_get(status, "feeds"));
    put_connections(&to, json_object_object_get(status, "connections"));
    put_process(&to);
    json_object_put(status);
    return to.status;
}
