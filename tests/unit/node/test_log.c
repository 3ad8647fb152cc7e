/* Lines, log files and the journal, with a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper_records.h"
#include "node/log_journal.h"

/* ---- lines ---- */

static tfos__buffer seen;

static void take(void *context, const char *text, size_t count, tfos__line_kind kind)
{
    static const char marks[] = {'$', '<', '+'}; /* whole, update, piece */
    (void)context;
    assert_int_equal(tfos__buffer_append(&seen, text, count, NULL), TFOS_OK);
    assert_int_equal(tfos__buffer_append(&seen, &marks[kind], 1, NULL), TFOS_OK);
}

static const char *cut(const char *text, size_t step)
{
    tfos__lines lines = {0};
    seen.size = 0;
    for (size_t at = 0; at < strlen(text); at += step) {
        size_t count = strlen(text) - at < step ? strlen(text) - at : step;
        assert_int_equal(tfos__lines_feed(&lines, text + at, count, take, NULL, NULL), TFOS_OK);
    }
    tfos__lines_finish(&lines, take, NULL);
    assert_int_equal(tfos__buffer_append(&seen, "", 1, NULL), TFOS_OK);
    return (const char *)seen.data;
}

static void test_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *lines;
    } cases[] = {
        {"", ""},
        {"a", "a$"},
        {"a\n", "a$"},
        {"\n\n", "$$"},
        {"a\nb\nc", "a$b$c$"},
        {"a\r\nb\r\n", "a$b$"},
        {"a\rb\rc\n", "a<b<c$"},
        {"\ra\rb", "<a<b$"},
        {"a\r", "a$"},
        {"a\r\r\n", "a<$"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t step = 1; step < 5; step++) {
            assert_string_equal(cut(cases[i].text, step), cases[i].lines);
        }
    }
    tfos__buffer_reset(&seen);
}

static void test_long_lines(void **state)
{
    (void)state;
    static char text[3 * TFOS__LINE_BYTES + 10];
    memset(text, 'x', sizeof text - 1);
    const char *lines = cut(text, 1000);
    assert_int_equal(strcspn(lines, "+"), TFOS__LINE_BYTES);
    assert_int_equal(strlen(lines), sizeof text - 1 + 4);
    /* Exactly full, then the newline. */
    text[TFOS__LINE_BYTES] = '\n';
    text[TFOS__LINE_BYTES + 1] = '\0';
    assert_int_equal(strcspn(cut(text, 77), "$"), TFOS__LINE_BYTES);
    /* A character at the border stays whole. */
    memset(text, 'x', sizeof text - 1);
    memcpy(text + TFOS__LINE_BYTES - 1, "ä", 2);
    lines = cut(text, 5000);
    assert_int_equal(strcspn(lines, "+"), TFOS__LINE_BYTES - 1);
    assert_memory_equal(lines + TFOS__LINE_BYTES, "ä", 2);
    tfos__buffer_reset(&seen);
}

static void test_clean(void **state)
{
    (void)state;
    tfos__buffer out = {0};
    static const char text[] = "a\0b\xFF\xC3\xA4\b\xE2\x82";
    assert_int_equal(tfos__lines_append_clean(&out, text, sizeof text - 1, NULL), TFOS_OK);
    static const char clean[] = "a\xEF\xBF\xBD"
                                "b\xEF\xBF\xBD\xC3\xA4\xEF\xBF\xBD\xEF\xBF\xBD";
    assert_int_equal(out.size, sizeof clean - 1);
    assert_memory_equal(out.data, clean, out.size);
    tfos__buffer_reset(&out);
}

/* ---- files ---- */

static void test_files(void **state)
{
    tfos__log_file log;
    const char *path = helper_path(state, "a.log");
    assert_int_equal(tfos__log_file_open(&log, path, 100, 3, NULL), TFOS_OK);
    for (int i = 0; i < 50; i++) {
        char line[32];
        snprintf(line, sizeof line, "line number %d\n", i);
        tfos__log_file_put(&log, line, strlen(line));
        assert_int_equal(tfos__log_file_flush(&log, NULL), TFOS_OK);
    }
    tfos__log_file_close(&log);
    helper_bytes now = helper_of_file(path);
    assert_true(now.count <= 100);
    assert_memory_equal(now.data + now.count - 15, "line number 49\n", 15);
    assert_true(helper_exists(helper_path(state, "a.log.1")));
    assert_true(helper_exists(helper_path(state, "a.log.2")));
    assert_false(helper_exists(helper_path(state, "a.log.3")));
    /* Opened again, it goes on. */
    assert_int_equal(tfos__log_file_open(&log, path, 1000, 3, NULL), TFOS_OK);
    tfos__log_file_put(&log, "more\n", 5);
    tfos__log_file_close(&log);
    assert_int_equal(helper_of_file(path).count, now.count + 5);
    /* One file only: it begins anew. */
    assert_int_equal(tfos__log_file_open(&log, path, 10, 1, NULL), TFOS_OK);
    tfos__log_file_put(&log, "fresh\n", 6);
    tfos__log_file_close(&log);
    assert_int_equal(helper_of_file(path).count, 6);
}

/* However much comes at once: files are of the size that was asked for, and lines are whole. */
static void test_files_of_a_flood(void **state)
{
    tfos__log_file log;
    const char *path = helper_path(state, "f.log");
    assert_int_equal(tfos__log_file_open(&log, path, 100, 3, NULL), TFOS_OK);
    for (int i = 10; i < 58; i++) {
        char line[32];
        snprintf(line, sizeof line, "line number %d\n", i);
        tfos__log_file_put(&log, line, strlen(line));
    }
    tfos__log_file_close(&log);
    /* Six lines of 15 bytes fit: 52 to 57, 46 to 51, 40 to 45. */
    static const char *const names[] = {"f.log", "f.log.1", "f.log.2"};
    static const char *const firsts[] = {"line number 52\n", "line number 46\n", "line number 40\n"};
    for (size_t i = 0; i < 3; i++) {
        helper_bytes file = helper_of_file(helper_path(state, names[i]));
        assert_int_equal(file.count, 90);
        assert_memory_equal(file.data, firsts[i], 15);
    }
    assert_false(helper_exists(helper_path(state, "f.log.3")));
    /* A line that no file has room for has one to itself. */
    char wide[121];
    memset(wide, 'w', 120);
    wide[120] = '\n';
    assert_int_equal(tfos__log_file_open(&log, path, 100, 3, NULL), TFOS_OK);
    tfos__log_file_put(&log, "short\n", 6);
    tfos__log_file_put(&log, wide, sizeof wide);
    tfos__log_file_put(&log, "behind\n", 7);
    tfos__log_file_close(&log);
    assert_int_equal(helper_of_file(helper_path(state, "f.log.2")).count, 96);
    assert_int_equal(helper_of_file(helper_path(state, "f.log.1")).count, 121);
    assert_int_equal(helper_of_file(path).count, 7);
}

static void test_files_that_fail(void **state)
{
    tfos__log_file log;
    tfos_error error;
    assert_int_equal(tfos__log_file_open(&log, helper_path(state, "no/such.log"), 100, 3, &error), TFOS_NOT_FOUND);
    helper_expect_in(error.message, "cannot open the log file ");
    tfos__log_file_put(&log, "lost\n", 5);
    assert_int_equal(tfos__log_file_flush(&log, &error), TFOS_OK);
    tfos__log_file_close(&log);
    /* A link that somebody put there is not followed. */
    const char *path = helper_path(state, "link.log");
    assert_int_equal(symlink("/etc/hostname", path), 0);
    assert_int_not_equal(tfos__log_file_open(&log, path, 100, 3, &error), TFOS_OK);
    /* A disk that is full is reported once. */
    assert_int_equal(tfos__log_file_open(&log, "/dev/full", 1 << 20, 3, NULL), TFOS_OK);
    tfos__log_file_put(&log, "a\n", 2);
    assert_int_equal(tfos__log_file_flush(&log, &error), TFOS_NO_SPACE);
    tfos__log_file_put(&log, "b\n", 2);
    assert_int_equal(tfos__log_file_flush(&log, &error), TFOS_OK);
    tfos__log_file_close(&log);
}

/* ---- the journal ---- */

static tfos__buffer sent;
static int messages;

static void take_sent(void *context, int stream, const char *text, size_t count)
{
    char mark[8];
    (void)context;
    messages++;
    snprintf(mark, sizeof mark, "%d:", stream);
    assert_int_equal(tfos__buffer_append(&sent, mark, 2, NULL), TFOS_OK);
    assert_int_equal(tfos__buffer_append(&sent, text, count, NULL), TFOS_OK);
}

static const char *sent_text(void)
{
    assert_int_equal(tfos__buffer_append(&sent, "", 1, NULL), TFOS_OK);
    sent.size = 0;
    return (const char *)sent.data;
}

static tfos__journal *open_journal(int64_t rate)
{
    tfos__journal *journal = tfos__journal_new(rate, 1000, NULL);
    assert_non_null(journal);
    journal->send = take_sent;
    snprintf(journal->host, sizeof journal->host, "host");
    snprintf(journal->file.path, sizeof journal->file.path, "/f");
    messages = 0;
    sent.size = 0;
    return journal;
}

static void give(tfos__journal *journal, tfos__journal_source source, const char *text, int64_t now_ms)
{
    tfos__journal_take(journal, source, text, strlen(text), now_ms);
}

static void close_journal(tfos__journal *journal)
{
    tfos__journal_free(journal);
    tfos__buffer_reset(&sent);
}

static void test_batches(void **state)
{
    (void)state;
    tfos__journal *journal = open_journal(100);
    assert_int_equal(tfos__journal_tick(journal, 1000), -1);
    give(journal, TFOS__JOURNAL_OUT, "a\nb\n", 1000);
    assert_int_equal(messages, 0);
    assert_int_equal(tfos__journal_tick(journal, 1010), 40);
    give(journal, TFOS__JOURNAL_OUT, "c\nhalf", 1040);
    assert_int_equal(tfos__journal_tick(journal, 1050), -1);
    assert_string_equal(sent_text(), "1:a\nb\nc\n");
    /* Another stream sends what waits, so that the order stays. */
    give(journal, TFOS__JOURNAL_OUT, " line\n", 1060);
    give(journal, TFOS__JOURNAL_ERR, "e\n", 1061);
    give(journal, TFOS__JOURNAL_TENSORBOARD, "t\n", 1062);
    give(journal, TFOS__JOURNAL_OUT, "d\n", 1063);
    tfos__journal_flush(journal, 1064);
    assert_string_equal(sent_text(), "1:half line\n2:e\n[tensorboard] t\n1:d\n");
    close_journal(journal);
}

static void test_the_limit(void **state)
{
    (void)state;
    tfos__journal *journal = open_journal(2);
    for (int i = 0; i < 1245; i++) {
        give(journal, TFOS__JOURNAL_OUT, "x\n", 1000);
    }
    assert_int_equal(tfos__journal_tick(journal, 1100), 900); /* until there are tokens again */
    assert_string_equal(sent_text(), "1:x\nx\nx\nx\nx\nx\nx\nx\nx\nx\n");
    tfos__journal_tick(journal, 2000);
    tfos__journal_tick(journal, 2050);
    assert_string_equal(sent_text(), "2:… 1 235 lines dropped; the whole log is in /f on host\n");
    give(journal, TFOS__JOURNAL_OUT, "y\ny\ny\n", 2100);
    tfos__journal_flush(journal, 2100);
    assert_string_equal(sent_text(), "1:y\ny\n2:… 1 line dropped; the whole log is in /f on host\n");
    /* A long silence fills the bucket, and no more than that. */
    for (int i = 0; i < 12; i++) {
        give(journal, TFOS__JOURNAL_OUT, "z\n", 100000);
    }
    tfos__journal_flush(journal, 100000);
    assert_string_equal(sent_text(),
                        "1:z\nz\nz\nz\nz\nz\nz\nz\nz\nz\n2:… 2 lines dropped; the whole log is in /f on host\n");
    close_journal(journal);
}

/* When nobody takes what is sent, lines are dropped and counted until somebody does. */
static void test_blocked(void **state)
{
    (void)state;
    tfos__journal *journal = open_journal(100);
    journal->blocked = true;
    give(journal, TFOS__JOURNAL_OUT, "a\nb\n", 1000);
    tfos__journal_tick(journal, 5000);
    assert_int_equal(messages, 0);
    journal->blocked = false;
    give(journal, TFOS__JOURNAL_OUT, "c\n", 5001);
    tfos__journal_flush(journal, 5002);
    assert_string_equal(sent_text(), "2:… 2 lines dropped; the whole log is in /f on host\n1:c\n");
    close_journal(journal);
}

static void test_updates(void **state)
{
    (void)state;
    tfos__journal *journal = open_journal(100);
    give(journal, TFOS__JOURNAL_ERR, "\r1/9\r2/9\r3/9\r4/9", 1000);
    assert_int_equal(tfos__journal_tick(journal, 1000), 100);
    give(journal, TFOS__JOURNAL_ERR, "\r\b\b\b5/9\r", 1050);
    tfos__journal_tick(journal, 1100);
    tfos__journal_tick(journal, 1150);
    assert_string_equal(sent_text(), "2:4/9\n");
    give(journal, TFOS__JOURNAL_ERR, "6/9\r\b\b\b\r7/9\n", 1160); /* the line stands in the update's place */
    tfos__journal_flush(journal, 1160);
    assert_string_equal(sent_text(), "2:7/9\n");
    give(journal, TFOS__JOURNAL_ERR, "8/9\r9/9", 1170);
    tfos__journal_finish(journal, TFOS__JOURNAL_ERR, 1180);
    tfos__journal_flush(journal, 1180);
    assert_string_equal(sent_text(), "2:9/9\n");
    close_journal(journal);
}

static void test_large_batches(void **state)
{
    (void)state;
    static char line[32 << 10];
    tfos__journal *journal = open_journal(1000);
    memset(line, 'x', sizeof line - 2);
    line[sizeof line - 2] = '\n';
    for (int i = 0; i < 100; i++) {
        give(journal, TFOS__JOURNAL_OUT, line, 1000);
    }
    assert_true(messages >= 11);
    close_journal(journal);
}

static void test_the_tail(void **state)
{
    (void)state;
    static char garbage[5000];
    tfos__journal *journal = open_journal(1);
    tfos__buffer tail = {0};
    char line[32];
    for (int i = 0; i < 120; i++) {
        snprintf(line, sizeof line, "line %d\n", i);
        give(journal, i % 2 == 0 ? TFOS__JOURNAL_OUT : TFOS__JOURNAL_ERR, line, 1000);
    }
    assert_int_equal(tfos__journal_tail(journal, &tail, NULL), TFOS_OK);
    assert_memory_equal(tail.data, "line 70\nline 71\n", 16);
    assert_memory_equal(tail.data + tail.size - 9, "line 119\n", 9);
    /* At its worst it fits the field of a message. */
    memset(garbage, 0xFF, sizeof garbage - 1);
    garbage[sizeof garbage - 1] = '\n';
    for (int i = 0; i < TFOS__JOURNAL_TAIL_LINES; i++) {
        tfos__journal_take(journal, TFOS__JOURNAL_TENSORBOARD, garbage, sizeof garbage, 1000);
    }
    tail.size = 0;
    assert_int_equal(tfos__journal_tail(journal, &tail, NULL), TFOS_OK);
    assert_in_range(tail.size, 1, 1 << 16);
    tfos__buffer_reset(&tail);
    close_journal(journal);
}

/* The file has every byte in the order of lines, also what the limit kept back. */
static void test_the_file(void **state)
{
    tfos__journal *journal = open_journal(1);
    const char *path = helper_path(state, "j.log");
    assert_int_equal(tfos__log_file_open(&journal->file, path, 1 << 20, 2, NULL), TFOS_OK);
    give(journal, TFOS__JOURNAL_OUT, "a\nhalf", 1000);
    give(journal, TFOS__JOURNAL_ERR, "e\r\n\xFF\n\rp1\rp2\n", 1000);
    give(journal, TFOS__JOURNAL_OUT, " line\n", 1000);
    give(journal, TFOS__JOURNAL_TENSORBOARD, "t\n", 1000);
    tfos__journal_note(journal, 1000, "ours");
    tfos__journal_finish(journal, TFOS__JOURNAL_OUT, 1000);
    helper_bytes file = helper_of_file(path);
    static const char expected[] = "a\ne\n\xFF\n\rp1\rp2\nhalf line\n[tensorboard] t\nours\n";
    assert_int_equal(file.count, sizeof expected - 1);
    assert_memory_equal(file.data, expected, file.count);
    close_journal(journal);
}

int main(void)
{
#define WITH_FOLDER(name) cmocka_unit_test_setup_teardown(name, helper_setup, helper_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),   cmocka_unit_test(test_long_lines),    cmocka_unit_test(test_clean),
        WITH_FOLDER(test_files),        WITH_FOLDER(test_files_of_a_flood),   WITH_FOLDER(test_files_that_fail),
        cmocka_unit_test(test_batches), cmocka_unit_test(test_the_limit),     cmocka_unit_test(test_blocked),
        cmocka_unit_test(test_updates), cmocka_unit_test(test_large_batches), cmocka_unit_test(test_the_tail),
        WITH_FOLDER(test_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
