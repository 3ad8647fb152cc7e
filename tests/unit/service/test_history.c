/* Reports and their histories: what a program said of its progress, kept within bounds. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "service/history.h"

static tfos__report parse(const char *text)
{
    tfos__report report;
    tfos_error error;
    assert_int_equal(tfos__report_parse(text, strlen(text), &report, &error), TFOS_OK);
    return report;
}

static void expect_json(struct json_object *object, const char *wanted)
{
    assert_string_equal(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN), wanted);
    json_object_put(object);
}

static void test_numbers_that_are_not_finite(void **state)
{
    (void)state;
    static const char text[] = "{\"step\":7.0,\"epoch_end\":false,\"aloud\":false,\"values\":{\"a\":\"NaN\",\"b\":"
                               "\"Infinity\",\"c\":\"-Infinity\",\"d\":-0.25}}";
    tfos__report report = parse(text);
    assert_true(isnan(report.epoch) && isnan(report.rows));
    assert_true(isnan(report.values[0].value));
    assert_true(report.values[1].value == INFINITY && report.values[2].value == -INFINITY);
    expect_json(tfos__report_json(&report), text);
    report = parse("{\"values\": {\"a\": \"nan\", \"b\": \"-inf\"}}"); /* as Python writes them */
    assert_true(isnan(report.values[0].value) && report.values[1].value == -INFINITY);
}

static void test_what_is_left_out(void **state)
{
    (void)state;
    tfos__report report = parse("{\"epoch\": \"two\", \"values\": {\"a\": \"x\", \"b\": [], \"\": 1, \"c\": 1}}");
    assert_true(isnan(report.epoch));
    assert_int_equal(report.count, 1);
    assert_string_equal(report.values[0].name, "c");
    assert_int_equal(parse("{\"values\": [1]}").count, 0);
    char many[4096] = "{\"values\": {";
    for (int i = 0; i < 40; i++) {
        sprintf(many + strlen(many), "%s\"v%d\": %d", i > 0 ? "," : "", i, i);
    }
    strcat(many, "}}");
    assert_int_equal(parse(many).count, TFOS__REPORT_VALUES);
    char name[128] = "{\"values\": {\"";
    memset(name + strlen(name), 'n', 62);
    strcat(name, "\xc3\xa9\": 1}}"); /* the character that does not fit is gone as a whole */
    assert_int_equal(strlen(parse(name).values[0].name), 62);
    tfos_error error;
    assert_int_equal(tfos__report_parse("[]", 2, &report, &error), TFOS_INVALID);
}

static void expect_line(const char *text, const char *wanted)
{
    tfos__report report = parse(text);
    tfos__buffer line = {0};
    assert_int_equal(tfos__report_line(&report, &line, NULL), TFOS_OK);
    assert_string_equal(line.size > 0 ? (const char *)line.data : "", wanted);
    tfos__buffer_reset(&line);
}

static void test_lines(void **state)
{
    (void)state;
    expect_line("{\"epoch\": 2, \"epochs\": 10, \"step\": 640, \"rows_per_s\": 12345.6, \"steps_per_s\": 8, "
                "\"values\": {\"loss\": 0.31234, \"accuracy\": 0.5}}",
                "epoch 2/10 · step 640 · loss 0.3123 · accuracy 0.5 · 12346 rows/s");
    expect_line("{\"step\": 1234567, \"steps_per_s\": 8.25, \"values\": {\"loss\": \"nan\", \"rate\": 0.00001}}",
                "step 1234567 · loss nan · rate 1e-05 · 8.25 steps/s");
    expect_line("{\"values\": {\"mean\": 1234.5}}", "mean 1234"); /* rounded to even, as printf does */
    expect_line("{}", "");
}

static void add(tfos__history *history, double step, const char *name, double value)
{
    tfos__report report = {.epoch = NAN, .step = step, .count = 1};
    snprintf(report.values[0].name, sizeof report.values[0].name, "%s", name);
    report.values[0].value = value;
    assert_int_equal(tfos__history_add(history, &report, NULL), TFOS_OK);
}

static void test_a_table(void **state)
{
    (void)state;
    tfos__history history = {.most = 8};
    expect_json(tfos__history_json(&history), "{}");
    add(&history, 1, "loss", 0.5);
    add(&history, 2, "other", NAN);
    expect_json(tfos__history_json(&history), "{\"step\":[1.0,2.0],\"loss\":[0.5,null],\"other\":[null,\"NaN\"]}");
    tfos__history_reset(&history);
    expect_json(tfos__history_json(&history), "{}");
}

/* However many come, the rows are few, evenly spread, and the newest is the last. */
static void test_it_is_thinned_out(void **state)
{
    (void)state;
    enum { MOST = 8 };
    tfos__history history = {.most = MOST};
    for (int i = 0; i < 1000; i++) {
        add(&history, i, "v", i);
        assert_true(history.count <= MOST);
        assert_true(history.column[0].cells[history.count - 1] == i);
        assert_true(history.column[0].cells[0] == 0);
        for (size_t row = 1; row + 1 < history.count; row++) {
            assert_true(history.column[0].cells[row] == (double)(row * history.stride));
        }
        assert_true(i < MOST || history.count > MOST / 2);
    }
    assert_int_equal(history.stride, 256);
    tfos__history_reset(&history);
}

static void test_columns_are_bounded(void **state)
{
    (void)state;
    tfos__history history = {.most = 2};
    char name[16];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "v%d", i);
        add(&history, i, name, i);
    }
    assert_int_equal(history.columns, TFOS__HISTORY_COLUMNS);
    tfos__history_reset(&history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_that_are_not_finite),
        cmocka_unit_test(test_what_is_left_out),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_a_table),
        cmocka_unit_test(test_it_is_thinned_out),
        cmocka_unit_test(test_columns_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
