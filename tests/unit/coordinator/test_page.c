/* The status page without sockets: who gets in, what is answered, what Prometheus reads; and the status as JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "coordinator/metrics.h"
#include "coordinator/page.h"
#include "helper_loop.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

static const char sample[] =
    "{\"cluster\":\"a\\\"b\\\\c\\nd\",\"version\":\"1.2.3\",\"phase\":\"running\",\"attempt\":2,\"registered\":2,"
    "\"failure\":\"\",\"nodes\":["
    "{\"node\":\"worker:0\",\"host\":\"h\\\"1\",\"state\":\"running\",\"uptime_s\":12.5,\"heard_s\":0.25,\"cpu_s\":3."
    "125,"
    "\"rss_bytes\":12345678901,\"feed\":{\"fed_rows\":30,\"consumed_rows\":20,\"rows_per_s\":5.5,\"lane_bytes\":65536,"
    "\"hungry\":false}},"
    "{\"node\":\"worker:1\",\"host\":\"\",\"state\":\"absent\"},"
    "{\"node\":\"worker:2\",\"host\":\"h2\",\"state\":\"running\",\"uptime_s\":1,\"heard_s\":0,\"cpu_s\":0,"
    "\"rss_bytes\":0}],"
    "\"feeds\":[{\"feed\":4,\"queue\":\"in\\\"put\",\"complete\":1,\"feeding\":2,\"waiting\":0,\"skipped\":3,\"rows\":"
    "77,"
    "\"dropped_rows\":5,\"duplicate_rows\":6}],"
    "\"connections\":{\"accepted\":7,\"refused_key\":1,\"refused_version\":2,\"refused_slow\":3,\"refused_other\":4}}";

static tfos__status_wish asked;

static char *give_sample(void *context, const tfos__status_wish *logs)
{
    asked = *logs;
    return context == NULL ? strdup(sample) : NULL;
}

/* What the page answers to "GET address"; the caller resets the body. */
static tfos__http_answer get_from(const char *address, void *context)
{
    char text[512];
    size_t used;
    tfos__http_request request;
    tfos__http_answer answer = {.status = 404};
    int count = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\n\r\n", address);
    tfos__http_request_init(&request);
    assert_int_equal(tfos__http_request_feed(&request, text, (size_t)count, &used), TFOS__HTTP_READY);
    tfos__page_answer("/" TOKEN "/", give_sample, context, &request, &answer);
    return answer;
}

static tfos__http_answer get(const char *address)
{
    return get_from(address, NULL);
}

static void gives_its_files(void **state)
{
    static const struct {
        const char *address;
        const char *type;
        const char *part;
    } cases[] = {
        {"/" TOKEN "/", "text/html; charset=utf-8", "<script src=\"page.js\""},
        {"/" TOKEN "/page.html", "text/html; charset=utf-8", "<!DOCTYPE html>"},
        {"/" TOKEN "/page.js", "text/javascript; charset=utf-8", "'use strict'"},
        {"/" TOKEN "/page.css", "text/css; charset=utf-8", "prefers-color-scheme"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tfos__http_answer answer = get(cases[i].address);
        assert_int_equal(answer.status, 200);
        assert_true(answer.known);
        assert_string_equal(answer.type, cases[i].type);
        assert_non_null(memmem(answer.bytes, answer.count, cases[i].part, strlen(cases[i].part)));
    }
}

/* Without the last "/" the page's own links would lead elsewhere. */
static void leads_to_its_folder(void **state)
{
    (void)state;
    tfos__http_answer answer = get("/" TOKEN);
    assert_int_equal(answer.status, 308);
    assert_string_equal(answer.location, "/" TOKEN "/");
}

/* A wrong token and a wrong path under the right one look the same. */
static void tells_nothing_to_others(void **state)
{
    static const char *const addresses[] = {
        "/",
        "/status.json",
        "/metrics",
        "/1123456789abcdef0123456789abcdef/",
        "/0123456789abcdef0123456789abcdee/status.json",
        "/0123456789abcdef0123456789abcde/status.json",
        "/0123456789ABCDEF0123456789ABCDEF/",
        "/" TOKEN "0/status.json",
        "//" TOKEN "/status.json",
        "/" TOKEN "/nothing",
        "/" TOKEN "/status.json/",
        "/" TOKEN "/../" TOKEN "/",
        "/%30123456789abcdef0123456789abcdef/",
    };
    (void)state;
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        tfos__http_answer answer = get(addresses[i]);
        assert_int_equal(answer.status, 404);
        assert_false(answer.known);
        assert_null(answer.bytes);
        assert_int_equal(answer.body.size, 0);
    }
}

static void gives_the_status(void **state)
{
    (void)state;
    tfos__http_answer answer = get("/" TOKEN "/status.json?logs=2,0");
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.type, "application/json");
    assert_int_equal(answer.body.size, sizeof sample - 1);
    assert_memory_equal(answer.body.data, sample, sizeof sample - 1);
    assert_int_equal(asked.logs.count, 2);
    assert_int_equal(asked.logs.index[0], 2);
    assert_int_equal(asked.logs.index[1], 0);
    tfos__buffer_reset(&answer.body);
    answer = get_from("/" TOKEN "/status.json", &asked);
    assert_int_equal(answer.status, 503); /* memory was short */
    answer = get_from("/" TOKEN "/metrics", &asked);
    assert_int_equal(answer.status, 503);
}

static void reads_whose_logs_are_wanted(void **state)
{
    tfos__status_wish logs;
    char many[1024] = "logs=";
    (void)state;
    tfos__status_wish_parse("", &logs);
    assert_true(!logs.logs.all && logs.logs.count == 0);
    tfos__status_wish_parse("x=1&logs=all&y", &logs);
    assert_true(logs.logs.all);
    tfos__status_wish_parse("logs=allow", &logs);
    assert_true(!logs.logs.all && logs.logs.count == 0);
    tfos__status_wish_parse("logs=7,,8", &logs);
    assert_true(logs.logs.count == 1 && logs.logs.index[0] == 7);
    tfos__status_wish_parse("logs=99999999999999999999999,3,x", &logs);
    assert_true(logs.logs.count == 1 && logs.logs.index[0] == 3);
    tfos__status_wish_parse("logs=-1", &logs);
    assert_int_equal(logs.logs.count, 0);
    for (size_t i = 0; i < 200; i++) {
        strcat(many, "1,");
    }
    tfos__status_wish_parse(many, &logs);
    assert_int_equal(logs.logs.count, sizeof logs.logs.index / sizeof logs.logs.index[0]);
}

static void speaks_prometheus(void **state)
{
    static const char *const lines[] = {
        "\n# TYPE tfos_cluster_info gauge\ntfos_cluster_info{cluster=\"a\\\"b\\\\c\\nd\",version=\"1.2.3\"} 1\n",
        "\ntfos_cluster_phase{phase=\"running\"} 1\n",
        "\ntfos_cluster_phase{phase=\"over\"} 0\n",
        "\ntfos_cluster_attempt 2\n",
        "\ntfos_cluster_failed 0\n",
        "\ntfos_nodes{state=\"running\"} 2\n",
        "\ntfos_nodes{state=\"absent\"} 1\n",
        "\ntfos_nodes{state=\"lost\"} 0\n",
        "\n# TYPE tfos_node_cpu_seconds_total counter\n"
        "tfos_node_cpu_seconds_total{node=\"worker:0\",host=\"h\\\"1\"} 3.125\n"
        "tfos_node_cpu_seconds_total{node=\"worker:2\",host=\"h2\"} 0\n#",
        "\ntfos_node_resident_memory_bytes{node=\"worker:0\",host=\"h\\\"1\"} 12345678901\n",
        "\ntfos_node_uptime_seconds{node=\"worker:0\",host=\"h\\\"1\"} 12.5\n",
        "\ntfos_node_heartbeat_age_seconds{node=\"worker:0\",host=\"h\\\"1\"} 0.25\n",
        "\n# TYPE tfos_node_fed_rows_total counter\ntfos_node_fed_rows_total{node=\"worker:0\",host=\"h\\\"1\"} 30\n#",
        "\ntfos_node_consumed_rows_total{node=\"worker:0\",host=\"h\\\"1\"} 20\n",
        "\ntfos_node_lane_bytes{node=\"worker:0\",host=\"h\\\"1\"} 65536\n",
        "\ntfos_feed_partitions{feed=\"4\",queue=\"in\\\"put\",state=\"complete\"} 1\n",
        "\ntfos_feed_partitions{feed=\"4\",queue=\"in\\\"put\",state=\"skipped\"} 3\n",
        "\ntfos_feed_rows{feed=\"4\",queue=\"in\\\"put\"} 77\n",
        "\ntfos_feed_dropped_rows{feed=\"4\",queue=\"in\\\"put\"} 5\n",
        "\ntfos_connections_accepted_total 7\n",
        "\ntfos_connections_refused_total{cause=\"slow\"} 3\n",
        "\n# TYPE tfos_coordinator_resident_memory_bytes gauge\ntfos_coordinator_resident_memory_bytes ",
    };
    (void)state;
    tfos__http_answer answer = get("/" TOKEN "/metrics");
    assert_string_equal(answer.type, "text/plain; version=0.0.4; charset=utf-8");
    assert_int_equal(tfos__buffer_append(&answer.body, "", 1, NULL), TFOS_OK);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (strstr((const char *)answer.body.data, lines[i]) == NULL) {
            fail_msg("the metrics have no %s", lines[i]);
        }
    }
    assert_null(strstr((const char *)answer.body.data, "resident_memory_bytes 0\n"));
    tfos__buffer_reset(&answer.body);
    assert_int_equal(tfos__metrics_write("[]", &answer.body, NULL), TFOS_CORRUPT);
    assert_int_equal(tfos__metrics_write("nonsense", &answer.body, NULL), TFOS_CORRUPT);
}

/* ---- the status, from a roster ---- */

static void ignore_node(void *context, uint32_t index, const tfos__message *message)
{
    (void)context;
    (void)index;
    (void)message;
}

static void ignore_driver(void *context, const tfos__message *message)
{
    (void)context;
    (void)message;
}

static tfos__roster *make_roster(void)
{
    const tfos__roster_options options = {
        .roles = {.nodes = 2}, .worker_gpus = -1, .timeout_ms = 1000, .lease_ms = 1000000, .name = "x"};
    const tfos__roster_calls calls = {.to_node = ignore_node, .to_driver = ignore_driver};
    tfos__roster *roster;
    tfos__message message;
    uint32_t index;
    assert_int_equal(tfos__roster_new(&options, &calls, 1000, &roster, NULL), TFOS_OK);
    tfos__message_init(&message, TFOS__MESSAGE_REGISTER);
    tfos__message_put_number(&message, TFOS__FIELD_INDEX, 1);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, "h\xff");
    assert_int_equal(tfos__roster_register(roster, &message, 2000, &index, NULL), TFOS_OK);
    tfos__message_init(&message, TFOS__MESSAGE_LOG);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, "a\xc3\xa9\xc3 <b>\xe2\x82");
    tfos__roster_hear(roster, 1, &message, 3000);
    return roster;
}

static void ignore_producer(void *context, uint64_t producer, const tfos__message *message)
{
    (void)context, (void)producer, (void)message;
}

static tfos__feeds *make_feeds(tfos__roster *roster)
{
    const tfos__feeds_calls calls = {
        .to_node = ignore_node, .to_driver = ignore_driver, .to_producer = ignore_producer};
    tfos__feeds *feeds = NULL;
    assert_int_equal(tfos__feeds_new(roster, &calls, &feeds, NULL), TFOS_OK);
    return feeds;
}

static struct json_object *status_with(const tfos__roster *roster, const tfos__feeds *feeds, const char *query,
                                       uint64_t now_ms)
{
    const tfos__peer_counts counts = {.accepted = 1};
    tfos__status_wish logs;
    tfos__status_wish_parse(query, &logs);
    tfos__progress *progress = NULL;
    assert_int_equal(tfos__progress_new(roster, feeds, ignore_driver, NULL, &progress, NULL), TFOS_OK);
    const tfos__status_parts parts = {.roster = roster, .feeds = feeds, .progress = progress, .counts = &counts};
    char *text = tfos__status_json(&parts, &logs, now_ms);
    tfos__progress_free(progress);
    assert_non_null(text);
    assert_int_equal(tfos__utf8_valid_prefix(text, strlen(text)), strlen(text));
    struct json_object *status = json_tokener_parse(text);
    free(text);
    return status;
}

static struct json_object *status_of(tfos__roster *roster, const char *query, uint64_t now_ms)
{
    tfos__feeds *feeds = make_feeds(roster);
    struct json_object *status = status_with(roster, feeds, query, now_ms);
    tfos__feeds_free(feeds);
    return status;
}

static struct json_object *of_node(struct json_object *status, size_t index, const char *key)
{
    return json_object_object_get(json_object_array_get_idx(json_object_object_get(status, "nodes"), index), key);
}

static void is_valid_whatever_nodes_send(void **state)
{
    (void)state;
    tfos__roster *roster = make_roster();
    struct json_object *status = status_of(roster, "logs=1", 4000);
    assert_string_equal(json_object_get_string(of_node(status, 1, "host")), "h\xef\xbf\xbd");
    assert_string_equal(json_object_get_string(of_node(status, 1, "log")),
                        "a\xc3\xa9\xef\xbf\xbd <b>\xef\xbf\xbd\xef\xbf\xbd");
    assert_null(of_node(status, 0, "log"));
    json_object_put(status);
    status = status_of(roster, "", 4000);
    assert_null(of_node(status, 1, "log"));
    json_object_put(status);
    tfos__roster_free(roster);
}

/* The uptime of a node that has ended stands still. */
static void counts_time_until_the_end(void **state)
{
    tfos__message message;
    (void)state;
    tfos__roster *roster = make_roster();
    struct json_object *status = status_of(roster, "", 4500);
    assert_true(json_object_get_double(of_node(status, 1, "uptime_s")) == 2.5);
    assert_true(json_object_get_double(of_node(status, 1, "heard_s")) == 1.5);
    assert_true(json_object_get_double(of_node(status, 0, "uptime_s")) == 0);
    json_object_put(status);
    tfos__message_init(&message, TFOS__MESSAGE_ENDED);
    tfos__message_put_number(&message, TFOS__FIELD_OUTCOME, TFOS__OUTCOME_FINISHED);
    tfos__roster_hear(roster, 1, &message, 5000);
    status = status_of(roster, "", 9000);
    assert_string_equal(json_object_get_string(of_node(status, 1, "state")), "finished");
    assert_true(json_object_get_double(of_node(status, 1, "uptime_s")) == 3);
    json_object_put(status);
    tfos__roster_free(roster);
}

static void gives_its_address(void **state)
{
    const tfos__ports any = {.setting = ""};
    uv_loop_t loops[2];
    tfos__page *pages[2];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        helper_loop_init(&loops[i]);
        assert_int_equal(tfos__page_open(&loops[i], "localhost", &any, give_sample, NULL, &pages[i], NULL), TFOS_OK);
        assert_int_equal(strncmp(tfos__page_url(pages[i]), "http://localhost:", 17), 0);
    }
    const char *first = strchr(tfos__page_url(pages[0]) + 17, '/');
    const char *second = strchr(tfos__page_url(pages[1]) + 17, '/');
    assert_int_equal(strspn(first + 1, "0123456789abcdef"), TFOS__PAGE_TOKEN_BYTES);
    assert_string_equal(first + 1 + TFOS__PAGE_TOKEN_BYTES, "/");
    assert_string_not_equal(first, second);
    for (size_t i = 0; i < 2; i++) {
        tfos__page_close(pages[i]);
        uv_run(&loops[i], UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&loops[i]), 0);
    }
    tfos__page_close(NULL);
}

static void expect_number(struct json_object *object, const char *key, double expected)
{
    double found = json_object_get_double(json_object_object_get(object, key));
    if (found < expected || found > expected) {
        fail_msg("%s is %f, not %f", key, found, expected);
    }
}

static void expect_text(struct json_object *object, const char *key, const char *expected)
{
    struct json_object *value = json_object_object_get(object, key);
    assert_non_null(value);
    assert_string_equal(json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN), expected);
}

static void shows_what_was_fed(void **state)
{
    (void)state;
    tfos__roster *roster = make_roster();
    tfos__feeds *feeds = make_feeds(roster);
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_REGISTER);
    tfos__message_put_string(&message, TFOS__FIELD_FEED_NAME, "socket");
    tfos__feeds_hear_node(feeds, 1, &message, 2000);
    tfos__message_init(&message, TFOS__MESSAGE_BEAT);
    tfos__message_put_number(&message, TFOS__FIELD_FED, 700);
    tfos__message_put_number(&message, TFOS__FIELD_CONSUMED, 600);
    tfos__message_put_number(&message, TFOS__FIELD_SKIPPED, 5);
    tfos__message_put_number(&message, TFOS__FIELD_LANE_MEMORY, 65536);
    tfos__message_put_number(&message, TFOS__FIELD_HUNGRY, 1);
    tfos__feeds_hear_node(feeds, 1, &message, 4000);
    for (uint64_t feed = 1; feed <= 60; feed++) {
        tfos__message_init(&message, TFOS__MESSAGE_FEED);
        tfos__message_put_number(&message, TFOS__FIELD_FEED, feed);
        tfos__message_put_number(&message, TFOS__FIELD_PARTITIONS, 3);
        tfos__message_put_string(&message, TFOS__FIELD_QUEUE, "input");
        tfos__feeds_obey(feeds, &message, 4000);
    }
    tfos__message_init(&message, TFOS__MESSAGE_EPOCH);
    tfos__message_put_number(&message, TFOS__FIELD_FEED, 60);
    tfos__message_put_number(&message, TFOS__FIELD_EPOCH, 2);
    tfos__feeds_obey(feeds, &message, 4000);
    tfos__message_init(&message, TFOS__MESSAGE_ADMIT);
    tfos__attempt_put(&(tfos__attempt){.feed = 60, .epoch = 2}, &message);
    tfos__feeds_hear_producer(feeds, 9, &message, 4000);
    tfos__message_init(&message, TFOS__MESSAGE_FED);
    tfos__message_put_number(&message, TFOS__FIELD_FED, 40);
    tfos__message_put_number(&message, TFOS__FIELD_CONSUMED, 30);
    tfos__feeds_hear_producer(feeds, 9, &message, 4000);
    struct json_object *status = status_with(roster, feeds, "", 4000);
    assert_null(of_node(status, 0, "feed"));
    struct json_object *fed = of_node(status, 1, "feed");
    expect_number(fed, "fed_rows", 700);
    expect_number(fed, "consumed_rows", 600);
    expect_number(fed, "skipped_rows", 5);
    expect_number(fed, "counted_s", 0);
    expect_number(fed, "lane_bytes", 65536);
    expect_number(fed, "rows_per_s", 300);
    assert_true(json_object_get_boolean(json_object_object_get(fed, "hungry")));
    struct json_object *list = json_object_object_get(status, "feeds");
    assert_int_equal(json_object_array_length(list), 50); /* the last of them */
    struct json_object *last = json_object_array_get_idx(list, 49);
    expect_number(last, "feed", 60);
    expect_number(last, "epoch", 2);
    expect_number(last, "partitions", 3);
    expect_number(last, "feeding", 1);
    expect_number(last, "skipped", 0);
    assert_string_equal(json_object_get_string(json_object_object_get(last, "state")), "open");
    expect_number(last, "fed_rows", 40);
    expect_number(last, "consumed_rows", 30);
    expect_text(last, "under_way", "[[0,\"feeding\",null,40,30,0,1]]");
    assert_null(json_object_object_get(last, "partition_list"));
    json_object_put(status);
    static const char every[] = "[[0,\"feeding\",null,40,30,0,1],[1,\"waiting\",null,0,0,0,0],"
                                "[2,\"waiting\",null,0,0,0,0]]";
    static const char *const queries[] = {"logs=1&partitions=60", "partitions=all"};
    for (size_t i = 0; i < 2; i++) {
        status = status_with(roster, feeds, queries[i], 4000);
        list = json_object_object_get(status, "feeds");
        expect_text(json_object_array_get_idx(list, 49), "partition_list", every);
        assert_true((json_object_object_get(json_object_array_get_idx(list, 48), "partition_list") != NULL) ==
                    (i == 1));
        json_object_put(status);
    }
    tfos__feeds_end(feeds);
    status = status_with(roster, feeds, "", 4000);
    last = json_object_array_get_idx(json_object_object_get(status, "feeds"), 49);
    assert_string_equal(json_object_get_string(json_object_object_get(last, "state")), "ended");
    expect_number(last, "skipped", 2);
    json_object_put(status);
    tfos__feeds_free(feeds);
    tfos__roster_free(roster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_its_files),
        cmocka_unit_test(leads_to_its_folder),
        cmocka_unit_test(tells_nothing_to_others),
        cmocka_unit_test(gives_the_status),
        cmocka_unit_test(reads_whose_logs_are_wanted),
        cmocka_unit_test(speaks_prometheus),
        cmocka_unit_test(is_valid_whatever_nodes_send),
        cmocka_unit_test(shows_what_was_fed),
        cmocka_unit_test(counts_time_until_the_end),
        cmocka_unit_test(gives_its_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
