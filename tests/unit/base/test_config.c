/* Settings: what is given, what the environment says, what stands in the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/config.h"
#include "helper_records.h"

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        int64_t value;
    } cases[] = {
        {"0", true, 0},
        {"-1", true, -1},
        {"1024", true, 1024},
        {"64KiB", true, 65536},
        {"2MiB", true, 2 << 20},
        {"3GiB", true, INT64_C(3) << 30},
        {"9223372036854775807", true, INT64_MAX},
        {"9223372036854775808", false, 0},
        {"9223372036854775807KiB", false, 0},
        {"", false, 0},
        {"KiB", false, 0},
        {"1kb", false, 0},
        {"1 KiB", false, 0},
        {"1.5", false, 0},
        {"1e3", false, 0},
        {"many", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = 77;
        tfos_error error = {0};
        assert_int_equal(tfos_number_parse(cases[i].text, &value, &error), cases[i].good ? TFOS_OK : TFOS_INVALID);
        assert_int_equal(value, cases[i].good ? cases[i].value : 77);
        if (!cases[i].good) {
            helper_expect_in(error.message, "expected a whole number, with KiB, MiB or GiB behind it");
        }
    }
}

static void test_the_table(void **state)
{
    (void)state;
    assert_true(tfos_setting_count() > 0);
    for (size_t i = 0; i < tfos_setting_count(); i++) {
        const tfos_setting *setting = tfos_setting_at(i);
        assert_non_null(strchr(setting->key, '.'));
        assert_int_equal(strncmp(setting->environment, "TFOS_", 5), 0);
        assert_true(setting->form != NULL || setting->least < setting->most);
        assert_true(setting->least <= setting->fallback && setting->fallback <= setting->most);
        size_t bytes = strlen(setting->text);
        assert_true(bytes > 0 && setting->text[bytes - 1] == '.');
    }
}

static void test_who_decides(void **state)
{
    (void)state;
    int64_t value = 0;
    tfos_error error = {0};
    unsetenv("TFOS_RECORDS_BATCH_ROWS");
    assert_int_equal(tfos__setting_choose(TFOS__SETTING_RECORDS_BATCH_ROWS, 0, 0, &value, NULL), TFOS_OK);
    assert_int_equal(value, 1024);
    setenv("TFOS_RECORDS_BATCH_ROWS", "4KiB", 1);
    assert_int_equal(tfos__setting_choose(TFOS__SETTING_RECORDS_BATCH_ROWS, 0, 0, &value, NULL), TFOS_OK);
    assert_int_equal(value, 4096);
    assert_int_equal(tfos__setting_choose(TFOS__SETTING_RECORDS_BATCH_ROWS, 7, 0, &value, NULL), TFOS_OK);
    assert_int_equal(value, 7); /* what a call says comes first */
    assert_int_equal(tfos__setting_choose(TFOS__SETTING_RECORDS_BATCH_ROWS, -5, 0, &value, &error), TFOS_INVALID);
    assert_string_equal(error.message, "batch_rows must be from 1 to 16777216, found -5");
    setenv("TFOS_RECORDS_BATCH_ROWS", "0", 1);
    assert_int_equal(tfos__setting_choose(TFOS__SETTING_RECORDS_BATCH_ROWS, 0, 0, &value, &error), TFOS_INVALID);
    helper_expect_in(error.message, "TFOS_RECORDS_BATCH_ROWS must be from 1");
    setenv("TFOS_RECORDS_BATCH_ROWS", "lots", 1);
    assert_int_equal(tfos__setting_choose(TFOS__SETTING_RECORDS_BATCH_ROWS, 0, 0, &value, &error), TFOS_INVALID);
    helper_expect_in(error.message, "the environment variable TFOS_RECORDS_BATCH_ROWS: expected a whole number");
    setenv("TFOS_RECORDS_BATCH_ROWS", "", 1); /* as if it were not set */
    assert_int_equal(tfos__setting_choose(TFOS__SETTING_RECORDS_BATCH_ROWS, 0, 0, &value, NULL), TFOS_OK);
    assert_int_equal(value, 1024);
    unsetenv("TFOS_RECORDS_BATCH_ROWS");
}

static void test_texts(void **state)
{
    (void)state;
    static const char *const given[] = {"server.port=1", "server.port=9997-9999", "cluster.lease_ms=5000", NULL};
    int64_t value = 0;
    setenv("TFOS_SERVER_HOST", "driver.example", 1);
    unsetenv("TFOS_STATUS_PORT");
    assert_string_equal(tfos__setting_text(TFOS__SETTING_SERVER_HOST, given), "driver.example");
    assert_string_equal(tfos__setting_text(TFOS__SETTING_SERVER_PORT, given), "9997-9999"); /* the last one */
    assert_null(tfos__setting_text(TFOS__SETTING_STATUS_PORT, NULL));
    assert_int_equal(tfos__setting_number(TFOS__SETTING_CLUSTER_LEASE_MS, given, &value, NULL), TFOS_OK);
    assert_int_equal(value, 5000);
    assert_int_equal(tfos__setting_number(TFOS__SETTING_CLUSTER_BEAT_MS, given, &value, NULL), TFOS_OK);
    assert_int_equal(value, 1000);
    unsetenv("TFOS_SERVER_HOST");
}

static void test_assignments(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message; /* NULL: it is good */
    } cases[] = {
        {"cluster.lease_ms=5000", NULL},
        {"server.host=anything at all", NULL},
        {"cluster.lease_ms=1", "cluster.lease_ms must be from 100"},
        {"cluster.lease_ms=soon", "the setting cluster.lease_ms: expected a whole number"},
        {"cluster.lease=1", "there is no setting 'cluster.lease'; `tfos config` lists them"},
        {"cluster.lease_ms", "expected a setting as key=value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tfos_error error = {0};
        bool good = cases[i].message == NULL;
        assert_int_equal(tfos__setting_check(cases[i].text, strlen(cases[i].text), &error),
                         good ? TFOS_OK : TFOS_INVALID);
        if (!good) {
            helper_expect_in(error.message, cases[i].message);
        }
    }
    assert_int_equal(tfos__setting_assign("server.port=77-78 ", 17, NULL), TFOS_OK);
    assert_string_equal(getenv("TFOS_SERVER_PORT"), "77-78");
    unsetenv("TFOS_SERVER_PORT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_the_table),   cmocka_unit_test(test_who_decides),
        cmocka_unit_test(test_texts),   cmocka_unit_test(test_assignments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
