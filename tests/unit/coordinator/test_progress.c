/* Progress of programs as the coordinator knows it: lines for the driver, and what is shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coordinator/progress.h"

typedef struct scene {
    tfos__roster *roster;
    tfos__feeds *feeds;
    tfos__progress *progress;
    tfos__buffer said; /* lines */
} scene;

static scene s;

static void ignore_node(void *context, uint32_t index, const tfos__message *message)
{
    (void)context, (void)index, (void)message;
}

static void ignore_driver(void *context, const tfos__message *message)
{
    (void)context, (void)message;
}

static void ignore_producer(void *context, uint64_t producer, const tfos__message *message)
{
    (void)context, (void)producer, (void)message;
}

static void hear_line(void *context, const tfos__message *message)
{
    char node[64];
    (void)context;
    assert_int_equal(message->type, TFOS__MESSAGE_OUTPUT);
    tfos__text text = tfos__message_text(message, TFOS__FIELD_TEXT);
    tfos__message_copy(message, TFOS__FIELD_NODE, node, sizeof node);
    tfos__buffer_printf(&s.said, NULL, "%s: %.*s", node, (int)text.count, text.at);
}

static int open_scene(void **state)
{
    (void)state;
    const tfos__roster_options options = {.roles = {.nodes = 3, .ps = 1}, .worker_gpus = -1, .timeout_ms = 1000};
    const tfos__roster_calls calls = {.to_node = ignore_node, .to_driver = ignore_driver};
    const tfos__feeds_calls feed_calls = {
        .to_node = ignore_node, .to_driver = ignore_driver, .to_producer = ignore_producer};
    s = (scene){0};
    assert_int_equal(tfos__roster_new(&options, &calls, 0, &s.roster, NULL), TFOS_OK);
    assert_int_equal(tfos__feeds_new(s.roster, &feed_calls, &s.feeds, NULL), TFOS_OK);
    assert_int_equal(tfos__progress_new(s.roster, s.feeds, hear_line, NULL, &s.progress, NULL), TFOS_OK);
    return 0;
}

static int close_scene(void **state)
{
    (void)state;
    tfos__progress_free(s.progress);
    tfos__feeds_free(s.feeds);
    tfos__roster_free(s.roster);
    tfos__buffer_reset(&s.said);
    return 0;
}

static void hear(uint32_t index, uint64_t sequence, const char *json, uint64_t now_ms)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_REPORT);
    tfos__message_put_string(&message, TFOS__FIELD_JSON, json);
    tfos__message_put_number(&message, TFOS__FIELD_SEQUENCE, sequence);
    tfos__progress_hear(s.progress, index, &message, now_ms);
}

static void expect_said(const char *wanted)
{
    assert_string_equal(s.said.size > 0 ? (const char *)s.said.data : "", wanted);
    tfos__buffer_reset(&s.said);
}

static void test_lines(void **state)
{
    (void)state;
    hear(1, 1, "{\"step\": 7, \"aloud\": true, \"values\": {\"loss\": \"NaN\"}}", 10);
    expect_said("worker:0: step 7 · loss nan\n");
    hear(1, 1, "{\"step\": 7, \"aloud\": true, \"values\": {\"loss\": \"NaN\"}}", 20); /* after a reconnect */
    expect_said("");
    hear(2, 1, "{\"step\": 8, \"values\": {}}", 30); /* nobody has asked for its lines */
    hear(1, 2, "nonsense", 40);
    expect_said("");
}

static void test_what_is_shown(void **state)
{
    const tfos__report *report;
    const tfos__history *history;
    uint64_t heard_ms;
    (void)state;
    assert_false(tfos__progress_of(s.progress, 1, &report, &history, &heard_ms));
    assert_int_equal(tfos__progress_first(s.progress), -1);
    hear(0, 1, "{\"step\": 1}", 10);
    assert_int_equal(tfos__progress_first(s.progress), 0); /* a ps, for want of others */
    hear(2, 1, "{\"step\": 1, \"values\": {\"loss\": 2}}", 10);
    hear(2, 2, "{\"step\": 2, \"values\": {\"loss\": 1}}", 20);
    assert_int_equal(tfos__progress_first(s.progress), 2);
    hear(1, 1, "{\"step\": 1}", 30);
    assert_int_equal(tfos__progress_first(s.progress), 1);
    assert_true(tfos__progress_of(s.progress, 2, &report, &history, &heard_ms));
    assert_true(report->step == 2 && heard_ms == 20 && history->count == 2);
}

/* However long a program reports, memory is bounded. */
static void test_a_long_run(void **state)
{
    const tfos__report *report;
    const tfos__history *history;
    uint64_t heard_ms;
    char json[64];
    (void)state;
    for (uint64_t i = 1; i <= 10000; i++) {
        snprintf(json, sizeof json, "{\"step\": %d, \"values\": {\"loss\": 1}}", (int)i);
        hear(1, i, json, i);
    }
    assert_true(tfos__progress_of(s.progress, 1, &report, &history, &heard_ms));
    assert_true(history->count <= TFOS__PROGRESS_ROWS && history->count > TFOS__PROGRESS_ROWS / 2);
    assert_true(history->column[0].cells[history->count - 1] == 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_what_is_shown, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_a_long_run, open_scene, close_scene),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
