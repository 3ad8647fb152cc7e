/* How a program gets on, and what it leaves behind: from the program to its coordinator. */
#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "helper_coordinator.h"
#include "helper_records.h"

/* Whatever $1 is, as an event. */
#define SAY "say() { echo \"$1\" >&$TFOS_REPORT_FD; }; "

static void start(const char *script, const char *setting)
{
    const char *const program[] = {"/bin/sh", "-c", script, NULL};
    helper_executor_start(&helper_now->executor, &helper_now->it,
                          &(helper_start){.program = program, .settings = {setting}});
}

static void expect_end(tfos__outcome outcome)
{
    helper_executor_wait(&helper_now->executor, &helper_now->it, 20000);
    assert_string_equal(tfos__outcome_name((tfos__outcome)helper_now->it.outcome), tfos__outcome_name(outcome));
}

static struct json_object *head(void)
{
    char *text = strndup((const char *)helper_now->it.result.data, helper_now->it.head_bytes);
    struct json_object *object = json_tokener_parse(text);
    assert_non_null(object);
    free(text);
    return object;
}

static void expect_history(const char *wanted)
{
    struct json_object *object = head();
    struct json_object *history = json_object_object_get(object, "history");
    assert_string_equal(json_object_to_json_string_ext(history, JSON_C_TO_STRING_PLAIN), wanted);
    json_object_put(object);
}

static void test_a_value_and_a_history(void **state)
{
    (void)state;
    start(SAY "say '{\"event\": \"progress\", \"epoch\": 1, \"values\": {\"loss\": 0.5, \"worst\": \"nan\"}}'; "
              "say '{\"event\": \"progress\", \"epoch\": 2, \"values\": {\"loss\": \"inf\", \"more\": 2}}'; "
              "printf abcdef >&$TFOS_RESULT_FD; say '{\"event\": \"returned\", \"bytes\": 5}'",
          NULL);
    expect_end(TFOS__OUTCOME_FINISHED);
    assert_int_equal(helper_now->it.value_bytes, 5);
    assert_int_equal(helper_now->it.result.size, helper_now->it.head_bytes + 5);
    assert_memory_equal(helper_now->it.result.data + helper_now->it.head_bytes, "abcde", 5);
    expect_history("{\"epoch\":[1.0,2.0],\"loss\":[0.5,\"Infinity\"],\"worst\":[\"NaN\",null],\"more\":[null,2.0]}");
}

static void test_nothing(void **state)
{
    (void)state;
    start("true", NULL);
    expect_end(TFOS__OUTCOME_FINISHED);
    assert_int_equal(helper_now->it.heard[TFOS__MESSAGE_RESULT], 0);
}

/* More than fits a message. */
static void test_many_pieces(void **state)
{
    (void)state;
    start(SAY "head -c 3000000 /dev/zero | tr '\\0' 'x' >&$TFOS_RESULT_FD; "
              "say '{\"event\": \"returned\", \"bytes\": 3000000}'",
          NULL);
    expect_end(TFOS__OUTCOME_FINISHED);
    assert_int_equal(helper_now->it.result.size, helper_now->it.head_bytes + 3000000);
    for (size_t i = helper_now->it.head_bytes; i < helper_now->it.result.size; i++) {
        assert_int_equal(helper_now->it.result.data[i], 'x');
    }
    assert_true(helper_now->it.heard[TFOS__MESSAGE_RESULT] > 10);
}

/* What was on its way when a connection broke comes again, and the end comes behind it. */
static void test_a_connection_that_breaks(void **state)
{
    (void)state;
    helper_now->it.hold_seen = true;
    start(SAY "printf abc >&$TFOS_RESULT_FD; say '{\"event\": \"returned\", \"bytes\": 3}'", NULL);
    helper_wait_heard(&helper_now->it, TFOS__MESSAGE_RESULT, 1, 10000);
    assert_int_equal(helper_now->it.heard[TFOS__MESSAGE_ENDED], 0);
    helper_now->it.hold_seen = false;
    helper_coordinator_cut(&helper_now->it);
    expect_end(TFOS__OUTCOME_FINISHED);
    assert_int_equal(helper_now->it.result.size, helper_now->it.head_bytes + 3);
    assert_memory_equal(helper_now->it.result.data + helper_now->it.head_bytes, "abc", 3);
}

/* A driver that takes nothing does not keep a cluster that is being stopped. */
static void test_a_stop_meanwhile(void **state)
{
    (void)state;
    helper_now->it.hold_seen = true;
    start(SAY "printf abc >&$TFOS_RESULT_FD; say '{\"event\": \"returned\", \"bytes\": 3}'", NULL);
    helper_wait_heard(&helper_now->it, TFOS__MESSAGE_RESULT, 1, 10000);
    helper_coordinator_stop(&helper_now->it, 0);
    expect_end(TFOS__OUTCOME_FINISHED);
    helper_expect_in((const char *)helper_now->it.err.data, "before what the program returned had reached the driver");
}

static void test_a_program_that_fails(void **state)
{
    (void)state;
    start(SAY "printf abc >&$TFOS_RESULT_FD; say '{\"event\": \"returned\", \"bytes\": 3}'; exit 3", NULL);
    expect_end(TFOS__OUTCOME_EXITED);
    assert_int_equal(helper_now->it.heard[TFOS__MESSAGE_RESULT], 0);
}

static void test_the_file_does_not_grow(void **state)
{
    (void)state;
    start(SAY "head -c 1001 /dev/zero >&$TFOS_RESULT_FD || echo full; say '{\"event\": \"returned\", \"bytes\": 1001}'",
          "node.result_bytes=1000");
    expect_end(TFOS__OUTCOME_FINISHED);
    helper_expect_in((const char *)helper_now->it.out.data, "full\n");
    assert_int_equal(helper_now->it.heard[TFOS__MESSAGE_RESULT], 0);
}

static void test_a_problem_is_told(void **state)
{
    (void)state;
    start(SAY "say '{\"event\": \"returned\", \"problem\": \"it is too large\"}'", NULL);
    expect_end(TFOS__OUTCOME_FINISHED);
    helper_expect_in((const char *)helper_now->it.err.data, "does not reach the driver: it is too large\n");
    struct json_object *object = head();
    assert_string_equal(json_object_get_string(json_object_object_get(object, "problem")), "it is too large");
    json_object_put(object);
    assert_int_equal(helper_now->it.value_bytes, 0);
}

/* The newest of many reports is passed on, and the history has them all. */
static void test_reports_in_a_hurry(void **state)
{
    (void)state;
    start(SAY "for i in $(seq 1 500); do say '{\"event\": \"progress\", \"step\": '$i', \"values\": {}}'; done",
          "node.report_ms=60000");
    expect_end(TFOS__OUTCOME_FINISHED);
    assert_int_equal(helper_now->it.heard[TFOS__MESSAGE_REPORT], 2); /* the first, and at the end the last */
    helper_expect_in((const char *)helper_now->it.report.data, "\"step\":500");
    helper_expect_in((const char *)helper_now->it.report.data, "\"steps_per_s\":");
    helper_expect_in((const char *)helper_now->it.report.data, "\"aloud\":true"); /* it is the first worker */
    struct json_object *object = head();
    struct json_object *steps = json_object_object_get(json_object_object_get(object, "history"), "step");
    assert_int_equal(json_object_array_length(steps), 500);
    json_object_put(object);
}

/* Where ends of epochs are reported, they are the history; and one is not pushed out by what comes behind it. */
static void test_ends_of_epochs(void **state)
{
    (void)state;
    start(SAY "say '{\"event\": \"progress\", \"step\": 1, \"values\": {\"loss\": 9}}'; "
              "say '{\"event\": \"progress\", \"step\": 2, \"epoch_end\": true, \"values\": {\"loss\": 8}}'; "
              "say '{\"event\": \"progress\", \"step\": 3, \"values\": {\"loss\": 7}}'",
          "node.report_ms=60000");
    expect_end(TFOS__OUTCOME_FINISHED);
    expect_history("{\"step\":[2.0],\"loss\":[8.0]}");
    helper_expect_in((const char *)helper_now->it.report.data, "\"step\":2");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, helper_scene_open, helper_scene_close)
    const struct CMUnitTest tests[] = {
        TEST(test_a_value_and_a_history),    TEST(test_nothing),           TEST(test_many_pieces),
        TEST(test_a_connection_that_breaks), TEST(test_a_stop_meanwhile),  TEST(test_a_program_that_fails),
        TEST(test_the_file_does_not_grow),   TEST(test_a_problem_is_told), TEST(test_reports_in_a_hurry),
        TEST(test_ends_of_epochs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
