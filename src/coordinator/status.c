/* Status as JSON. Times are given as ages in seconds, so that a reader needs no clock that agrees with ours. */
#include "coordinator/status.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

/* What is not UTF-8 (a program may print anything, and a log is cut where its memory ends) becomes U+FFFD, so that
 * every reader of JSON takes it. */
enum { ENDED_BYTES = 500, FAILURE_BYTES = 100000, FEEDS_MOST = 50, UNDER_WAY_MOST = 20, SCAN_MOST = 1 << 20 };

static struct json_object *make_text(const char *text)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t left = strlen(text);
    size_t valid = tfos__utf8_valid_prefix(text, left);
    if (valid == left) {
        return json_object_new_string_len(text, (int)left);
    }
    tfos__buffer clean = {0};
    while (left > 0) {
        (void)tfos__buffer_append(&clean, text, valid, NULL);
        text += valid;
        left -= valid;
        if (left > 0) {
            (void)tfos__buffer_append(&clean, replacement, sizeof replacement - 1, NULL);
            text++;
            left--;
        }
        valid = tfos__utf8_valid_prefix(text, left);
    }
    struct json_object *made = json_object_new_string_len((const char *)clean.data, (int)clean.size);
    tfos__buffer_reset(&clean);
    return made;
}

static void add_text(struct json_object *to, const char *key, const char *text)
{
    json_object_object_add(to, key, make_text(text));
}

/* The beginning of a text that may be long: the whole status has to fit a message. */
static void add_beginning(struct json_object *to, const char *key, const char *text, size_t most)
{
    char *cut = strlen(text) > most ? strndup(text, most) : NULL;
    add_text(to, key, cut != NULL ? cut : text);
    free(cut);
}

static void add_number(struct json_object *to, const char *key, uint64_t number)
{
    json_object_object_add(to, key, json_object_new_uint64(number));
}

static void add_seconds(struct json_object *to, const char *key, double seconds)
{
    static char format[] = "%.3f";
    struct json_object *number = json_object_new_double(seconds);
    json_object_set_serializer(number, json_object_double_to_json_string, format, NULL);
    json_object_object_add(to, key, number);
}

static const char *phase_text(tfos__phase phase)
{
    static const char *const texts[] = {
        [TFOS__PHASE_WAITING] = "waiting for nodes",
        [TFOS__PHASE_RUNNING] = "running",
        [TFOS__PHASE_STOPPING] = "stopping",
        [TFOS__PHASE_OVER] = "over",
    };
    return texts[phase];
}

/* What stands behind a key in the query of an address, or NULL. */
static const char *find_value(const char *query, const char *key)
{
    while (query != NULL && strncmp(query, key, strlen(key)) != 0) {
        query = strchr(query, '&');
        query = query != NULL ? query + 1 : NULL;
    }
    return query != NULL ? query + strlen(key) : NULL;
}

/* "all", or numbers with commas between them. */
static void read_nodes(const char *at, tfos__status_nodes *out)
{
    if (at == NULL) {
        return;
    }
    out->all = strncmp(at, "all", 3) == 0 && (at[3] == '\0' || at[3] == '&');
    while (*at >= '0' && *at <= '9' && out->count < sizeof out->index / sizeof out->index[0]) {
        char *end;
        unsigned long long index = strtoull(at, &end, 10);
        if (index <= UINT32_MAX) {
            out->index[out->count++] = (uint32_t)index;
        }
        at = *end == ',' ? end + 1 : end;
    }
}

void tfos__status_wish_parse(const char *query, tfos__status_wish *out)
{
    *out = (tfos__status_wish){0};
    const char *partitions = find_value(query, "partitions=");
    if (partitions != NULL) {
        out->partitions = true;
        out->all_feeds = strncmp(partitions, "all", 3) == 0;
        out->feed = strtoull(partitions, NULL, 10);
    }
    read_nodes(find_value(query, "logs="), &out->logs);
    read_nodes(find_value(query, "curves="), &out->curves);
}

static bool is_among(const tfos__status_nodes *nodes, uint32_t index)
{
    for (size_t i = 0; i < nodes->count && !nodes->all; i++) {
        if (nodes->index[i] == index) {
            return true;
        }
    }
    return nodes->all;
}

static struct json_object *describe_node(const tfos__roster *roster, uint32_t index, bool with_log, uint64_t now_ms)
{
    struct json_object *object = json_object_new_object();
    tfos__node_view node;
    char name[64];
    tfos__roster_view(roster, index, &node);
    tfos__node_name(node.role, node.task, name);
    add_number(object, "index", index);
    add_text(object, "node", name);
    add_text(object, "role", node.role);
    add_number(object, "task", node.task);
    add_text(object, "host", node.host);
    add_number(object, "port", node.port);
    add_number(object, "pid", node.pid);
    add_text(object, "executor", node.executor);
    add_text(object, "gpus", node.gpus);
    add_text(object, "state", tfos__node_state_text(node.state));
    uint64_t until_ms = node.state >= TFOS__NODE_FINISHED ? node.heard_ms : now_ms;
    add_seconds(object, "uptime_s", node.since_ms != 0 ? (double)(until_ms - node.since_ms) / 1000 : 0);
    add_seconds(object, "heard_s", node.since_ms != 0 ? (double)(now_ms - node.heard_ms) / 1000 : 0);
    add_seconds(object, "cpu_s", (double)node.cpu_ms / 1000);
    add_seconds(object, "cpu_share", node.cpu_share);
    add_number(object, "rss_bytes", node.rss_bytes);
    add_text(object, "tensorboard", node.url);
    add_number(object, "tensorboard_pid", node.url_pid);
    add_beginning(object, "ended", node.ended, ENDED_BYTES);
    if (with_log) {
        add_text(object, "log", node.tail);
    }
    return object;
}

static const char *partition_text(tfos__partition_state state)
{
    static const char *const texts[] = {
        [TFOS__PARTITION_IDLE] = "waiting",      [TFOS__PARTITION_FEEDING] = "feeding",
        [TFOS__PARTITION_DRAINING] = "draining", [TFOS__PARTITION_FENCING] = "changing hands",
        [TFOS__PARTITION_COMPLETE] = "complete", [TFOS__PARTITION_SKIPPED] = "skipped",
    };
    return texts[state];
}

/* In the order of partition_columns. An array for each, because there may be many. */
static struct json_object *describe_partition(uint64_t number, const tfos__partition_view *view)
{
    struct json_object *list = json_object_new_array();
    json_object_array_add(list, json_object_new_uint64(number));
    json_object_array_add(list, json_object_new_string(partition_text(view->state)));
    json_object_array_add(list, view->exhausted ? json_object_new_uint64(view->rows) : NULL);
    json_object_array_add(list, json_object_new_uint64(view->sent));
    json_object_array_add(list, json_object_new_uint64(view->consumed));
    json_object_array_add(list, json_object_new_uint64(view->skipped));
    json_object_array_add(list, json_object_new_uint64(view->attempts));
    return list;
}

/* Rows of all partitions of the epoch; and the partitions that are wanted, or else the first that are under way. */
static void add_partitions(struct json_object *object, const tfos__ledger *ledger, const tfos__feed_view *feed,
                           const tfos__status_wish *wish)
{
    struct json_object *shown = json_object_new_array();
    uint64_t fed = 0, consumed = 0, skipped = 0;
    uint64_t most = wish->most_each > 0 ? wish->most_each : UINT64_MAX;
    bool all = wish->partitions && (wish->all_feeds || wish->feed == feed->feed) && feed->counts.partitions <= most;
    tfos__partition_view view;
    for (uint64_t i = 0; i < SCAN_MOST && tfos__ledger_partition(ledger, feed->feed, i, &view); i++) {
        fed += view.sent;
        consumed += view.consumed;
        skipped += view.skipped;
        bool under_way = view.state != TFOS__PARTITION_IDLE && view.state < TFOS__PARTITION_COMPLETE;
        if (all || (under_way && json_object_array_length(shown) < UNDER_WAY_MOST)) {
            json_object_array_add(shown, describe_partition(i, &view));
        }
    }
    add_number(object, "fed_rows", fed);
    add_number(object, "consumed_rows", consumed);
    add_number(object, "skipped_rows", skipped);
    json_object_object_add(object, all ? "partition_list" : "under_way", shown);
}

static struct json_object *describe_feed(const tfos__feed_view *feed, const tfos__ledger *ledger,
                                         const tfos__status_wish *wish)
{
    struct json_object *object = json_object_new_object();
    const tfos__ledger_counts *counts = &feed->counts;
    add_number(object, "feed", feed->feed);
    add_text(object, "queue", feed->queue);
    add_text(object, "kind", feed->inference ? "inference" : "train");
    add_text(object, "state", counts->failed ? "failed" : counts->ended ? "ended" : !feed->open ? "closed" : "open");
    add_number(object, "epoch", counts->epoch);
    add_number(object, "partitions", counts->partitions);
    add_number(object, "complete", counts->complete);
    add_number(object, "feeding", counts->feeding);
    add_number(object, "waiting", counts->waiting);
    add_number(object, "skipped", counts->skipped);
    add_number(object, "rows", counts->rows);
    add_number(object, "dropped_rows", feed->dropped);
    add_number(object, "takeovers", counts->takeovers);
    add_number(object, "duplicate_rows", counts->duplicates);
    if (!feed->inference) {
        add_partitions(object, ledger, feed, wish);
    }
    return object;
}

/* The last of them: a streaming job makes one for each batch. */
static struct json_object *describe_feeds(const tfos__feeds *feeds, const tfos__status_wish *wish)
{
    struct json_object *list = json_object_new_array();
    tfos__feed_view view;
    size_t count = tfos__feeds_count(feeds);
    for (size_t i = count > FEEDS_MOST ? count - FEEDS_MOST : 0; tfos__feeds_view(feeds, i, &view); i++) {
        json_object_array_add(list, describe_feed(&view, tfos__feeds_ledger(feeds), wish));
    }
    return list;
}

static void add_fed(struct json_object *node, const tfos__feeds *feeds, uint32_t index, uint64_t now_ms)
{
    tfos__fed fed;
    tfos__feeds_of_node(feeds, index, &fed);
    if (fed.is_fed) {
        struct json_object *object = json_object_new_object();
        add_number(object, "fed_rows", fed.fed_rows);
        add_number(object, "consumed_rows", fed.consumed_rows);
        add_number(object, "skipped_rows", fed.skipped_rows);
        add_seconds(object, "counted_s", (double)(now_ms - fed.counted_ms) / 1000);
        add_seconds(object, "rows_per_s", fed.rows_per_second);
        add_number(object, "lane_bytes", fed.lane_bytes);
        json_object_object_add(object, "hungry", json_object_new_boolean(fed.hungry));
        json_object_object_add(node, "feed", object);
    }
}

/* The newest report of a node, and its history if that is wanted. */
static void add_progress(struct json_object *node, const tfos__progress *progress, const tfos__status_wish *wish,
                         uint32_t index, uint64_t now_ms)
{
    const tfos__report *report;
    const tfos__history *history;
    uint64_t heard_ms;
    bool asked = wish->curves.all || wish->curves.count > 0;
    if (tfos__progress_of(progress, index, &report, &history, &heard_ms)) {
        struct json_object *object = tfos__report_json(report);
        json_object_object_del(object, "aloud");
        json_object_object_del(object, "epoch_end");
        add_seconds(object, "reported_s", (double)(now_ms - heard_ms) / 1000);
        if (asked ? is_among(&wish->curves, index) : tfos__progress_first(progress) == index) {
            json_object_object_add(object, "curves", tfos__history_json(history));
        }
        json_object_object_add(node, "progress", object);
    }
}

static struct json_object *describe_nodes(const tfos__status_parts *parts, const tfos__status_wish *wish,
                                          uint64_t now_ms)
{
    struct json_object *nodes = json_object_new_array();
    for (uint32_t i = 0; i < tfos__roster_options_of(parts->roster)->roles.nodes; i++) {
        struct json_object *node = describe_node(parts->roster, i, is_among(&wish->logs, i), now_ms);
        add_fed(node, parts->feeds, i, now_ms);
        add_progress(node, parts->progress, wish, i, now_ms);
        json_object_array_add(nodes, node);
    }
    return nodes;
}

static struct json_object *describe_peers(const tfos__peer_counts *counts)
{
    struct json_object *peers = json_object_new_object();
    add_number(peers, "accepted", counts->accepted);
    add_number(peers, "refused_key", counts->refused_key);
    add_number(peers, "refused_version", counts->refused_version);
    add_number(peers, "refused_slow", counts->refused_slow);
    add_number(peers, "refused_other", counts->refused_other);
    return peers;
}

static uint64_t wall_ms(void)
{
    struct timeval wall;
    gettimeofday(&wall, NULL);
    return (uint64_t)wall.tv_sec * 1000 + (uint64_t)wall.tv_usec / 1000;
}

char *tfos__status_json(const tfos__status_parts *parts, const tfos__status_wish *wish, uint64_t now_ms)
{
    const tfos__roster_options *options = tfos__roster_options_of(parts->roster);
    struct json_object *object = json_object_new_object();
    add_text(object, "cluster", options->name);
    add_text(object, "version", TFOS_VERSION);
    add_number(object, "time_ms", wall_ms());
    add_text(object, "phase", phase_text(tfos__roster_phase(parts->roster)));
    add_number(object, "attempt", options->attempt);
    add_number(object, "registered", tfos__roster_registered(parts->roster));
    add_beginning(object, "failure", tfos__roster_failure(parts->roster), FAILURE_BYTES);
    json_object_object_add(object, "nodes", describe_nodes(parts, wish, now_ms));
    json_object_object_add(object, "feeds", describe_feeds(parts->feeds, wish));
    json_object_object_add(object, "connections", describe_peers(parts->counts));
    const char *text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_NOSLASHESCAPE);
    char *copy = text != NULL ? strdup(text) : NULL;
    json_object_put(object);
    return copy;
}

char *tfos__status_for_driver(const tfos__status_parts *parts, uint64_t now_ms)
{
    enum { PARTITIONS_MOST = 10000, MESSAGE_MOST = 1 << 20 };
    const tfos__status_wish all = {.partitions = true, .all_feeds = true, .most_each = PARTITIONS_MOST};
    const tfos__status_wish none = {.all_feeds = false};
    const tfos__status_wish *const wishes[] = {&all, &none};
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
        char *json = tfos__status_json(parts, wishes[i], now_ms);
        if (json == NULL || strlen(json) <= MESSAGE_MOST) {
            return json;
        }
        free(json);
    }
    return strdup("{}");
}
