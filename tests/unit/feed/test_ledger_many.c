/* The ledger with a hundred thousand partitions: a step takes no longer than with one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "feed/ledger.h"

/* Of this process, whatever its neighbours do. */
static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void quiet_answer(void *context, uint64_t producer, tfos__admission admission, uint64_t fed,
                         const tfos_error *error)
{
    (void)producer, (void)fed, (void)error;
    ++((uint64_t *)context)[admission];
}

static void quiet_fence(void *context, const tfos__attempt *attempt)
{
    (void)context, (void)attempt;
}

static void quiet_mark(void *context, uint64_t feed, uint64_t epoch)
{
    (void)feed, (void)epoch;
    ++((uint64_t *)context)[4];
}

static void quiet_consumed(void *context, uint64_t feed, uint64_t epoch, uint64_t dropped)
{
    (void)feed, (void)epoch, (void)dropped;
    ++((uint64_t *)context)[5];
}

/* Everybody feeds at once, and half of them die and are followed. Looking through all partitions, or all producers, at
 * each step would take minutes. */
static void test_many_partitions(void **state)
{
    (void)state;
    enum { PARTITIONS = 100000 };
    uint64_t seen[6] = {0};
    const uint32_t nodes[] = {0, 1};
    const tfos__ledger_calls calls = {
        .answer = quiet_answer, .fence = quiet_fence, .mark = quiet_mark, .consumed = quiet_consumed, .context = seen};
    const tfos__ledger_feed feed = {.feed = 1, .partitions = PARTITIONS, .determinate = true};
    tfos__ledger *ledger;
    assert_int_equal(tfos__ledger_new(&calls, &ledger, NULL), TFOS_OK);
    assert_int_equal(tfos__ledger_open(ledger, &feed, NULL), TFOS_OK);
    assert_int_equal(tfos__ledger_begin(ledger, 1, 0, NULL), TFOS_OK);
    double started = cpu_seconds();
    for (uint64_t i = 0; i < PARTITIONS; i++) {
        tfos__ledger_admit(ledger, i, &(tfos__attempt){.feed = 1, .partition = i, .task = i});
        tfos__ledger_admit(ledger, PARTITIONS + i, &(tfos__attempt){.feed = 1, .partition = i, .task = ~i});
    }
    for (uint64_t i = 0; i < PARTITIONS; i += 2) {
        tfos__ledger_leave(ledger, i, nodes, 2);
    }
    for (uint64_t i = 0; i < PARTITIONS; i += 2) {
        tfos__ledger_fenced(ledger, &(tfos__attempt){.feed = 1, .partition = i, .task = i}, 1, 50);
    }
    tfos__ledger_lose(ledger, 0);
    for (uint64_t i = 0; i < PARTITIONS; i++) {
        uint64_t producer = i % 2 == 0 ? PARTITIONS + i : i;
        tfos__ledger_exhaust(ledger, producer, 100);
        tfos__ledger_settle(ledger, &(tfos__attempt){.feed = 1, .partition = i, .task = i}, 50, 0);
        tfos__ledger_settle(ledger, &(tfos__attempt){.feed = 1, .partition = i, .task = ~i}, 50, 0);
    }
    double ns = (cpu_seconds() - started) * 1e9 / (PARTITIONS * 6.0);
    print_message("%d partitions: %.0f ns a step\n", PARTITIONS, ns);
    assert_true(ns < 10000); /* about 200, and 1300 with sanitizers */
    assert_int_equal(seen[TFOS__ADMISSION_GRANTED], PARTITIONS + PARTITIONS / 2);
    assert_int_equal(seen[TFOS__ADMISSION_COMPLETE], PARTITIONS + PARTITIONS / 2);
    assert_int_equal(seen[4], 1);
    assert_int_equal(seen[5], 1);
    tfos__ledger_counts counts;
    assert_true(tfos__ledger_count(ledger, 1, &counts));
    assert_int_equal(counts.complete, PARTITIONS);
    assert_int_equal(counts.takeovers, PARTITIONS / 2);
    assert_int_equal(counts.rows, PARTITIONS * UINT64_C(100));
    tfos__ledger_free(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_partitions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
