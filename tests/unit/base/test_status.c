/* Status, errors and the log: what users read when something goes wrong. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/status.h"

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(tfos_status_name(TFOS_OK), "OK");
    assert_string_equal(tfos_status_name(TFOS_CORRUPT), "CORRUPT");
    assert_string_equal(tfos_status_text(TFOS_CORRUPT), "corrupt data");
    assert_string_equal(tfos_status_name((tfos_status)999), "unknown");
    assert_string_equal(tfos_status_text((tfos_status)-1), "unknown status");
    assert_string_equal(tfos_version(), TFOS_VERSION);
}

static void test_fail_fills_the_error_or_does_without(void **state)
{
    (void)state;
    tfos_error error = {.fault = TFOS_FAULT_CLUSTER};
    assert_int_equal(tfos__fail(&error, TFOS_RANGE, "%d is %s", 7, "odd"), TFOS_RANGE);
    assert_int_equal(error.status, TFOS_RANGE);
    assert_int_equal(error.fault, TFOS_FAULT_FINAL);
    assert_string_equal(error.message, "7 is odd");
    assert_int_equal(tfos__fail(NULL, TFOS_LIMIT, "unseen"), TFOS_LIMIT);
    assert_int_equal(tfos__fail_errno(NULL, ENOENT, "unseen"), TFOS_NOT_FOUND);
    tfos__error_prefix(NULL, "unseen");
}

static void test_errno_becomes_a_status(void **state)
{
    (void)state;
    static const struct {
        int number;
        tfos_status status;
    } cases[] = {
        {ENOENT, TFOS_NOT_FOUND}, {ENOTDIR, TFOS_NOT_FOUND}, {EACCES, TFOS_PERMISSION},
        {EROFS, TFOS_PERMISSION}, {EEXIST, TFOS_EXISTS},     {ENOSPC, TFOS_NO_SPACE},
        {EDQUOT, TFOS_NO_SPACE},  {EFBIG, TFOS_NO_SPACE},    {ENOMEM, TFOS_NO_MEMORY},
        {EIO, TFOS_IO},           {EMFILE, TFOS_IO},         {ESTALE, TFOS_IO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tfos_error error = {0};
        assert_int_equal(tfos__fail_errno(&error, cases[i].number, "x"), cases[i].status);
        assert_int_equal(error.status, cases[i].status);
        assert_int_equal(error.fault, TFOS_FAULT_AGAIN);
        assert_int_equal(strncmp(error.message, "x: ", 3), 0);
        assert_string_equal(error.message + 3, strerror(cases[i].number));
    }
}

static void test_every_status_has_a_fault(void **state)
{
    (void)state;
    tfos_fault fault;
    assert_int_equal(tfos__status_fault(TFOS_IO), TFOS_FAULT_AGAIN);
    assert_int_equal(tfos__status_fault(TFOS_RANGE), TFOS_FAULT_FINAL);
    assert_int_equal(tfos__status_fault((tfos_status)999), TFOS_FAULT_AGAIN);
    for (int i = 0; i <= TFOS_FAULT_CLUSTER; i++) {
        assert_int_equal(tfos_fault_parse(tfos_fault_name((tfos_fault)i), &fault, NULL), TFOS_OK);
        assert_int_equal(fault, i);
    }
    assert_string_equal(tfos_fault_name((tfos_fault)(TFOS_FAULT_CLUSTER + 1)), "unknown");
    assert_int_equal(tfos_fault_parse("nobody's", &fault, NULL), TFOS_INVALID);
}

/* A message that does not fit is cut between characters: Python and Java decode it as UTF-8. */
static void test_long_messages_stay_valid_utf8(void **state)
{
    (void)state;
    static const char *const characters[] = {"a", "é", "…", "😀"};
    char text[1200];
    for (size_t kind = 0; kind < 4; kind++) {
        for (size_t lead = 0; lead < 4; lead++) {
            size_t used = lead;
            memset(text, 'x', lead);
            while (used + 4 < sizeof text) {
                memcpy(text + used, characters[kind], strlen(characters[kind]));
                used += strlen(characters[kind]);
            }
            text[used] = '\0';
            tfos_error error = {0};
            tfos__fail(&error, TFOS_IO, "%s", text);
            size_t bytes = strlen(error.message);
            assert_in_range(bytes, TFOS_ERROR_MESSAGE_BYTES - 4, TFOS_ERROR_MESSAGE_BYTES - 1);
            assert_int_equal(tfos__utf8_valid_prefix(error.message, bytes), bytes);
            tfos__error_prefix(&error, "%.*s", (int)lead, "yyyy");
            bytes = strlen(error.message);
            assert_int_equal(tfos__utf8_valid_prefix(error.message, bytes), bytes);
            tfos__error_prefix(&error, "%s", text);
            bytes = strlen(error.message);
            assert_int_equal(tfos__utf8_valid_prefix(error.message, bytes), bytes);
            tfos__fail_errno(&error, EIO, "%s", text);
            bytes = strlen(error.message);
            assert_true(bytes < TFOS_ERROR_MESSAGE_BYTES);
            assert_int_equal(tfos__utf8_valid_prefix(error.message, bytes), bytes);
        }
    }
}

static void test_prefix(void **state)
{
    (void)state;
    tfos_error error = {.status = TFOS_RANGE, .message = "too large"};
    tfos__error_prefix(&error, "column '%s'", "a");
    assert_string_equal(error.message, "column 'a': too large");
    assert_int_equal(error.status, TFOS_RANGE);
}

static void test_printable(void **state)
{
    (void)state;
    assert_string_equal(tfos__printable_of("ab c", 4).text, "ab c");
    assert_string_equal(tfos__printable_of("", 0).text, "");
    assert_string_equal(tfos__printable_of("a\n\\\xFF", 4).text, "a\\x0a\\x5c\\xff");
    /* Of every length, and of bytes that take one or four characters, the text fits and is cut with a mark. */
    for (size_t length = 0; length < 300; length++) {
        for (int wide = 0; wide < 2; wide++) {
            char bytes[300];
            memset(bytes, wide ? '\x01' : 'x', sizeof bytes);
            tfos__printable out = tfos__printable_of(bytes, length);
            size_t used = strlen(out.text);
            assert_true(used < sizeof out.text);
            size_t needed = length * (wide ? 4 : 1);
            bool cut = used >= 3 && strcmp(out.text + used - 3, "…") == 0;
            assert_true(cut ? needed > 88 : used == needed);
        }
    }
}

typedef struct heard_lines {
    int count;
    tfos_log_level level;
    char line[TFOS_ERROR_MESSAGE_BYTES];
} heard_lines;

static void hear(tfos_log_level level, const char *message, void *context)
{
    heard_lines *heard = context;
    heard->count++;
    heard->level = level;
    strncpy(heard->line, message, sizeof heard->line - 1);
}

static void test_log(void **state)
{
    (void)state;
    heard_lines heard = {0};
    tfos__log(TFOS_LOG_ERROR, "nobody listens");
    tfos_log_set(hear, &heard);
    tfos__log(TFOS_LOG_WARN, "%d rows", 3);
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard.level, TFOS_LOG_WARN);
    assert_string_equal(heard.line, "3 rows");
    tfos_log_set(NULL, NULL);
    tfos__log(TFOS_LOG_ERROR, "nobody listens");
    assert_int_equal(heard.count, 1);
}

static void hear_once(tfos_log_level level, const char *message, void *context)
{
    hear(level, message, context);
    tfos_log_set(NULL, NULL);
    tfos__log(TFOS_LOG_ERROR, "from within");
}

/* A function that hears a line may call the library, even to be heard no more. */
static void test_log_from_within(void **state)
{
    (void)state;
    heard_lines heard = {0};
    tfos_log_set(hear_once, &heard);
    tfos__log(TFOS_LOG_INFO, "first");
    tfos__log(TFOS_LOG_INFO, "second");
    assert_int_equal(heard.count, 1);
    assert_string_equal(heard.line, "first");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_fail_fills_the_error_or_does_without),
        cmocka_unit_test(test_errno_becomes_a_status),
        cmocka_unit_test(test_every_status_has_a_fault),
        cmocka_unit_test(test_long_messages_stay_valid_utf8),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_printable),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_log_from_within),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
