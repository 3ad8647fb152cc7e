/* What a node does with the output of its child: floods, long lines, bytes that are no text, progress bars, files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper_coordinator.h"
#include "helper_records.h"

static void run_script(const char *script, const char *const *settings)
{
    const char *const program[] = {"/bin/sh", "-c", script, NULL};
    helper_start start = {.program = program};
    for (size_t i = 0; settings != NULL && settings[i] != NULL; i++) {
        start.settings[i] = settings[i];
    }
    helper_executor_start(&helper_now->executor, &helper_now->it, &start);
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 30000), 0);
}

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++) {
        count += *text == '\n';
    }
    return count;
}

static const char *out_text(void)
{
    return helper_now->it.out.size > 0 ? (const char *)helper_now->it.out.data : "";
}

static void test_a_flood(void **state)
{
    (void)state;
    static const char *const settings[] = {"node.log_lines_per_second=10", NULL};
    run_script("i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo line $i; done; sleep 1.2; echo calm", settings);
    size_t lines = count_lines(out_text());
    assert_in_range(lines, 50, 100);
    assert_memory_equal(out_text(), "line 1\nline 2\nline 3\n", 21);
    helper_expect_in(out_text(), "calm\n");
    const char *err = (const char *)helper_now->it.err.data;
    helper_expect_in(err, " lines dropped; the whole log is in ");
    helper_expect_in(err, "tfos-test-worker-0.log on 127.0.0.1\n");
    /* Every line was either passed on or counted. */
    long dropped = 0;
    for (const char *at = err; (at = strstr(at, "… ")) != NULL;) {
        long number = 0;
        for (at += strlen("… "); *at == ' ' || (*at >= '0' && *at <= '9'); at++) {
            number = *at == ' ' ? number : number * 10 + (*at - '0');
        }
        dropped += number;
    }
    assert_int_equal(lines + (size_t)dropped, 5001);
    char *log = helper_executor_read(&helper_now->executor, "worker-0.log");
    assert_int_equal(count_lines(log), 5001);
    helper_expect_in(log, "\nline 4999\nline 5000\ncalm\n");
    free(log);
    helper_expect_in((const char *)helper_now->it.tail.data, "line 4960\n");
}

static void test_rotation(void **state)
{
    (void)state;
    static const char *const settings[] = {"node.log_file_bytes=4KiB", "node.log_files=3", NULL};
    run_script("i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo a line of the log, number $i; done", settings);
    static const char *const names[] = {"worker-0.log", "worker-0.log.1", "worker-0.log.2"};
    for (size_t i = 0; i < 3; i++) {
        char *log = helper_executor_read(&helper_now->executor, names[i]);
        assert_non_null(log);
        assert_int_equal(strncmp(log, "a line of the log", 17), 0);
        assert_in_range(strlen(log), 1, 4096);
        if (i == 0) {
            helper_expect_in(log, "number 3000\n");
        }
        free(log);
    }
    assert_null(helper_executor_read(&helper_now->executor, "worker-0.log.3"));
}

static void test_a_huge_line(void **state)
{
    (void)state;
    run_script("head -c 1000000 /dev/zero | tr '\\0' 'x'; echo; echo after", NULL);
    const char *out = out_text();
    size_t longest = 0;
    size_t total = 0;
    for (const char *at = out; *at != '\0';) {
        size_t bytes = strcspn(at, "\n");
        longest = bytes > longest ? bytes : longest;
        total += *at == 'x' ? bytes : 0;
        at += bytes + 1;
    }
    assert_int_equal(longest, 64 << 10);
    assert_int_equal(total, 1000000);
    helper_expect_in(out, "\nafter\n");
    char *log = helper_executor_read(&helper_now->executor, "worker-0.log");
    assert_int_equal(strlen(log), 1000000 + 1 + 6);
    free(log);
}

static void test_bytes_that_are_no_text(void **state)
{
    (void)state;
    run_script("printf 'good \\303\\244 bad \\377\\376 nul \\0 end\\n'; head -c 300000 /dev/urandom; echo", NULL);
    const char *out = out_text();
    assert_int_equal(strlen(out), helper_now->it.out.size);
    assert_int_equal(tfos__utf8_valid_prefix(out, helper_now->it.out.size), helper_now->it.out.size);
    helper_expect_in(out, "good ä bad \xEF\xBF\xBD\xEF\xBF\xBD nul \xEF\xBF\xBD end\n");
}

static void test_a_progress_bar(void **state)
{
    (void)state;
    run_script("i=0; while [ $i -lt 2000 ]; do i=$((i+1)); printf '\\r%d/2000 [===]' $i; done; echo; echo done; "
               "printf 'dos line\\r\\n'",
               NULL);
    const char *out = out_text();
    assert_in_range(count_lines(out), 3, 40);
    helper_expect_in(out, "2000/2000 [===]\ndone\ndos line\n");
    assert_null(strchr(out, '\r'));
}

static void test_a_last_line_without_end(void **state)
{
    (void)state;
    run_script("printf 'no newline'", NULL);
    assert_string_equal(out_text(), "no newline\n");
}

/* Whoever holds the output of a dead child open is killed, so its end comes. */
static void test_grandchildren_hold_the_output(void **state)
{
    (void)state;
    int64_t before = helper_now_ms();
    run_script("(setsid sh -c 'while true; do sleep 1000; done' &) ; echo bye", NULL);
    assert_string_equal(out_text(), "bye\n");
    assert_true(helper_now_ms() - before < 3000);
}

static void test_a_folder_that_cannot_be_written(void **state)
{
    (void)state;
    const char *const program[] = {"/bin/sh", "-c", "echo fine", NULL};
    helper_now->it.role = "worker/../../../no/such"; /* nor does a name lead out of its folder */
    helper_executor_start(&helper_now->executor, &helper_now->it, &(helper_start){.program = program});
    assert_int_equal(helper_executor_wait(&helper_now->executor, &helper_now->it, 10000), 0);
    char *log = helper_executor_read(&helper_now->executor, "tfos-test-worker_.._.._.._no_such-0.log");
    assert_string_equal(log, "fine\n");
    free(log);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, helper_scene_open, helper_scene_close)
    const struct CMUnitTest tests[] = {
        TEST(test_a_flood),
        TEST(test_rotation),
        TEST(test_a_huge_line),
        TEST(test_bytes_that_are_no_text),
        TEST(test_a_progress_bar),
        TEST(test_a_last_line_without_end),
        TEST(test_grandchildren_hold_the_output),
        TEST(test_a_folder_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
