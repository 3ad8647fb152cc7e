/* The ledger, told stories about feeds and their epochs: what a driver may do, several epochs at a time, failures,
 * ends, and memory that runs out. */
#include "helper_ledger.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The linker puts these in the place of malloc, calloc and realloc (tests/CMakeLists.txt). */
static size_t allocations_left = SIZE_MAX;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

static bool may_allocate(void)
{
    if (allocations_left == 0) {
        return false;
    }
    allocations_left -= allocations_left != SIZE_MAX;
    return true;
}

void *__wrap_malloc(size_t bytes)
{
    return may_allocate() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return may_allocate() ? __real_calloc(count, bytes) : NULL;
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return may_allocate() ? __real_realloc(old, bytes) : NULL;
}

/* ---- epochs and feeds ---- */

static void test_what_a_driver_may_not(void **state)
{
    (void)state;
    helper_story s;
    tfos_error error;
    helper_ledger_start_feed(&s, 1, DETERMINATE);
    assert_int_equal(tfos__ledger_open(s.ledger, &(tfos__ledger_feed){.feed = 1}, &error), TFOS_INVALID);
    assert_int_equal(tfos__ledger_begin(s.ledger, 2, 0, &error), TFOS_NOT_FOUND);
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 3, &error), TFOS_INVALID);
    assert_non_null(strstr(error.message, "0 of 1 partitions of epoch 0 are fed"));
    helper_ledger_feed_all(&s, 0, 1, 0);
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 3, &error), TFOS_OK);
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 3, &error), TFOS_INVALID);
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 2, &error), TFOS_INVALID);
    assert_non_null(strstr(error.message, "epoch 3"));
    const tfos__ledger_feed large = {.feed = 2, .partitions = TFOS__LEDGER_PARTITIONS_MOST + UINT64_C(1)};
    assert_int_equal(tfos__ledger_open(s.ledger, &large, &error), TFOS_LIMIT);
    assert_non_null(strstr(error.message, "16777217"));
    assert_non_null(strstr(error.message, "16777216"));
    tfos__ledger_close(s.ledger, 1);
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 4, &error), TFOS_INVALID);
    assert_int_equal(tfos__ledger_open(s.ledger, &(tfos__ledger_feed){.feed = 1}, &error), TFOS_INVALID);
    tfos__ledger_counts counts;
    assert_false(tfos__ledger_count(s.ledger, 2, &counts));
    tfos__ledger_close(s.ledger, 2);
    tfos__ledger_end(s.ledger, 2);
    tfos__ledger_free(s.ledger);
    tfos__ledger_free(NULL);
}

static void test_what_a_producer_may_not(void **state)
{
    (void)state;
    static const struct {
        tfos__attempt attempt;
        tfos_status status;
        const char *text;
    } cases[] = {
        {{.feed = 9, .epoch = 2}, TFOS_NOT_FOUND, "no feed 9"},
        {{.feed = 1, .epoch = 1}, TFOS_CANCELLED, "epoch 1 of feed 1 is over"},
        {{.feed = 1, .epoch = 3}, TFOS_INVALID, "epoch 3 of feed 1 has not begun"},
        {{.feed = 1, .epoch = 2, .partition = 4}, TFOS_INVALID, "no partition 4"},
        {{.feed = 1, .epoch = 2, .partition = UINT64_MAX}, TFOS_INVALID, "was opened for 4 partitions"},
        {{.feed = 2, .epoch = 0}, TFOS_INVALID, "has not begun"},
    };
    helper_story s;
    helper_ledger_start_feed(&s, 4, DETERMINATE);
    assert_int_equal(tfos__ledger_open(s.ledger, &(tfos__ledger_feed){.feed = 2, .partitions = 1}, NULL), TFOS_OK);
    helper_ledger_feed_all(&s, 0, 4, 1);
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 2, NULL), TFOS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tfos__ledger_admit(s.ledger, 10, &cases[i].attempt);
        expect(&s, "10 failed; ");
        assert_int_equal(s.error.status, cases[i].status);
        assert_non_null(strstr(s.error.message, cases[i].text));
    }
    tfos__ledger_free(s.ledger);
}

static void test_epochs_that_are_under_way_at_the_same_time(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 2, DETERMINATE);
    helper_ledger_feed_all(&s, 0, 2, 5);
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 1, NULL), TFOS_OK);
    helper_ledger_feed_all(&s, 1, 2, 7);
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 2, NULL), TFOS_OK);
    expect(&s, "");
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_IDLE, 0, 0, 0);
    assert_int_equal(helper_ledger_counts_of(&s).unsettled, 24);
    assert_int_equal(helper_ledger_counts_of(&s).epoch, 2);
    /* The second is consumed before the first: that is said when the first is, too. */
    helper_ledger_settle_in(&s, 1, 1100, 0, 7, 0);
    helper_ledger_settle_in(&s, 1, 1101, 1, 7, 0);
    helper_ledger_settle_in(&s, 0, 1000, 0, 2, 3);
    expect(&s, "");
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_IDLE, 0, 0, 0); /* of the third */
    helper_ledger_settle_in(&s, 0, 1001, 1, 5, 0);
    expect(&s, "consumed 1/0 but for 3; consumed 1/1; ");
    assert_int_equal(helper_ledger_counts_of(&s).unsettled, 0);
    helper_ledger_settle_in(&s, 0, 1001, 1, 5, 0); /* nothing is known of it any more */
    helper_ledger_feed_all(&s, 2, 2, 0);
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 3, NULL), TFOS_OK);
    expect(&s, "");
    tfos__ledger_admit(s.ledger, 10, &(tfos__attempt){.feed = 1, .epoch = 1, .partition = 1, .task = 20});
    expect(&s, "10 failed; ");
    assert_int_equal(s.error.status, TFOS_CANCELLED);
    /* Nobody is told of what is consumed behind the end. */
    helper_ledger_feed_all(&s, 3, 2, 4);
    tfos__ledger_end(s.ledger, 1);
    helper_ledger_settle_in(&s, 3, 1300, 0, 4, 0);
    helper_ledger_settle_in(&s, 3, 1301, 1, 0, 4);
    expect(&s, "");
    assert_int_equal(helper_ledger_counts_of(&s).complete, 2);
    helper_ledger_expect_rows(&s, 1, 4, 0, 4);
    tfos__ledger_free(s.ledger);
}

/* A lane may be settled while its attempt goes on, with other lanes. */
static void test_rows_are_settled_before_all_are_fed(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 1, DETERMINATE);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_settle(&s, 10, 0, 30);
    assert_int_equal(helper_ledger_counts_of(&s).unsettled, 0);
    helper_ledger_expect_rows(&s, 0, 0, 30, 0);
    expect(&s, "10 granted from 0; ");
    tfos__ledger_exhaust(s.ledger, 10, 40);
    expect(&s, "10 complete; mark 1/0; ");
    helper_ledger_settle(&s, 10, 0, 10);
    expect(&s, "consumed 1/0; ");
    tfos__ledger_free(s.ledger);
}

static void test_each_epoch_has_its_mark(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 1, DETERMINATE);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        char expected[96];
        assert_int_equal(epoch == 0 ? TFOS_OK : tfos__ledger_begin(s.ledger, 1, epoch, NULL), TFOS_OK);
        tfos__ledger_admit(s.ledger, 10, &(tfos__attempt){.feed = 1, .epoch = epoch, .task = epoch});
        tfos__ledger_exhaust(s.ledger, 10, 4);
        helper_ledger_settle_in(&s, epoch, epoch, 0, 4, 0);
        snprintf(expected, sizeof expected,
                 "10 granted from 0; 10 complete; mark 1/%" PRIu64 "; consumed 1/%" PRIu64 "; ", epoch, epoch);
        expect(&s, expected);
        assert_int_equal(helper_ledger_counts_of(&s).rows, 4);
    }
    tfos__ledger_free(s.ledger);
}

static void test_closing(void **state)
{
    (void)state;
    helper_story s;
    tfos__partition_view view;
    helper_ledger_start_feed(&s, 3, DETERMINATE);
    helper_ledger_admit(&s, 9, 2);
    tfos__ledger_exhaust(s.ledger, 9, 6);
    helper_ledger_settle(&s, 9, 2, 6);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_admit(&s, 11, 0);
    s.said[0] = '\0';
    tfos__ledger_close(s.ledger, 1);
    expect(&s, "11 failed; stop 10; fence 1/0/0#10; ");
    tfos__ledger_close(s.ledger, 1);
    helper_ledger_fenced(&s, 10, 0, 0, 3);
    helper_ledger_leave(&s, 10, 2);
    tfos__ledger_end(s.ledger, 1);
    expect(&s, "");
    assert_int_equal(helper_ledger_counts_of(&s).complete, 1);
    assert_int_equal(helper_ledger_counts_of(&s).rows, 6);
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_SKIPPED, 0, 1, 0); /* kept for reports */
    helper_ledger_expect_partition(&s, 2, TFOS__PARTITION_COMPLETE, 6, 1, 0);
    assert_false(tfos__ledger_partition(s.ledger, 1, 3, &view));
    helper_ledger_admit(&s, 12, 1);
    expect(&s, "12 failed; ");
    assert_non_null(strstr(s.error.message, "closed"));
    tfos__ledger_free(s.ledger);
}

static void test_failing(void **state)
{
    (void)state;
    helper_story s;
    tfos_error error = {.status = TFOS_RANGE, .message = "partition 0, row 5: 300 is no byte"};
    tfos_error begin_error;
    helper_ledger_start_feed(&s, 4, DETERMINATE);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_admit(&s, 11, 0);
    helper_ledger_admit(&s, 12, 1);
    helper_ledger_admit(&s, 13, 2);
    helper_ledger_leave(&s, 13, 2);
    s.said[0] = '\0';
    tfos__ledger_fail(s.ledger, 10, &error);
    expect(&s, "12 failed; 11 failed; ");
    assert_string_equal(s.error.message, error.message);
    assert_true(helper_ledger_counts_of(&s).failed);
    assert_int_equal(helper_ledger_counts_of(&s).feeding + helper_ledger_counts_of(&s).waiting, 0);
    tfos__ledger_fail(s.ledger, 12, &(tfos_error){.status = TFOS_IO, .message = "later"});
    helper_ledger_leave(&s, 10, 2);
    helper_ledger_fenced(&s, 13, 2, 0, 1);
    helper_ledger_fenced(&s, 13, 2, 64, 1);
    expect(&s, "");
    helper_ledger_admit(&s, 14, 3);
    expect(&s, "14 failed; ");
    assert_string_equal(s.error.message, error.message);
    assert_int_equal(s.error.status, TFOS_RANGE);
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 1, &begin_error), TFOS_RANGE);
    assert_string_equal(begin_error.message, error.message);
    tfos__ledger_end(s.ledger, 1);
    helper_ledger_admit(&s, 15, 3);
    expect(&s, "15 failed; ");
    tfos__ledger_free(s.ledger);
}

/* ---- the end ---- */

static void test_ending(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 6, DETERMINATE);
    helper_ledger_admit(&s, 10, 0); /* completes before */
    tfos__ledger_exhaust(s.ledger, 10, 1);
    helper_ledger_settle(&s, 10, 0, 1);
    helper_ledger_admit(&s, 11, 1); /* feeds */
    helper_ledger_admit(&s, 12, 1); /* waits */
    helper_ledger_admit(&s, 13, 2); /* drains */
    tfos__ledger_exhaust(s.ledger, 13, 2);
    helper_ledger_admit(&s, 14, 3); /* is being fenced; 15 waits */
    helper_ledger_leave(&s, 14, 2);
    helper_ledger_admit(&s, 15, 3);
    s.said[0] = '\0';
    tfos__ledger_end(s.ledger, 1);
    expect(&s, "15 ended; 12 ended; stop 11; ");
    tfos__ledger_end(s.ledger, 1);
    expect(&s, "");
    tfos__ledger_counts counts = helper_ledger_counts_of(&s);
    assert_true(counts.ended);
    assert_int_equal(counts.skipped, 3); /* 3, 4, 5 */
    assert_int_equal(counts.feeding, 1);
    helper_ledger_expect_partition(&s, 3, TFOS__PARTITION_SKIPPED, 0, 1, 0);
    helper_ledger_expect_partition(&s, 4, TFOS__PARTITION_SKIPPED, 0, 0, 0);
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_COMPLETE, 1, 1, 0);
    helper_ledger_expect_partition(&s, 1, TFOS__PARTITION_FEEDING, 0, 1, 0);
    /* What is in lanes is dropped, who feeds obeys; a bad row interests nobody any more. */
    helper_ledger_settle_in(&s, 0, 13, 2, 0, 2);
    tfos__ledger_fail(s.ledger, 11, &(tfos_error){.status = TFOS_RANGE});
    helper_ledger_leave(&s, 11, 2);
    expect(&s, "");
    counts = helper_ledger_counts_of(&s);
    assert_false(counts.failed);
    assert_int_equal(counts.complete, 2);
    assert_int_equal(counts.skipped, 4);
    helper_ledger_admit(&s, 16, 4);
    helper_ledger_admit(&s, 17, 0);
    expect(&s, "16 ended; 17 ended; ");
    /* A later epoch is skipped as a whole. */
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 1, NULL), TFOS_OK);
    expect(&s, "");
    assert_int_equal(helper_ledger_counts_of(&s).skipped, 6);
    tfos__ledger_free(s.ledger);
}

static void test_the_cluster_ends(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 1, DETERMINATE);
    const tfos__ledger_feed second = {.feed = 2, .partitions = 0, .determinate = true};
    const tfos__ledger_feed third = {.feed = 3, .partitions = 1, .determinate = true};
    assert_int_equal(tfos__ledger_open(s.ledger, &second, NULL), TFOS_OK);
    helper_ledger_admit(&s, 10, 0);
    tfos__ledger_end(s.ledger, UINT64_MAX);
    expect(&s, "10 granted from 0; stop 10; ");
    assert_int_equal(tfos__ledger_begin(s.ledger, 2, 0, NULL), TFOS_OK);
    expect(&s, ""); /* no mark: it has ended */
    assert_int_equal(tfos__ledger_open(s.ledger, &third, NULL), TFOS_OK);
    tfos__ledger_admit(s.ledger, 11, &(tfos__attempt){.feed = 3});
    tfos__ledger_admit(s.ledger, 12, &(tfos__attempt){.feed = 4});
    expect(&s, "11 ended; 12 ended; ");
    tfos__ledger_close(s.ledger, 1);
    expect(&s, "fence 1/0/0#10; "); /* it was told to stop before */
    helper_ledger_admit(&s, 13, 0);
    expect(&s, "13 ended; ");
    tfos__ledger_free(s.ledger);
}

/* ---- limits ---- */

static void test_memory_runs_out(void **state)
{
    (void)state;
    helper_story s;
    tfos__ledger *none = NULL;
    tfos_error error;
    const tfos__ledger_calls calls = {0};
    const tfos__ledger_feed more = {.feed = 2, .partitions = 5, .determinate = true};
    allocations_left = 0;
    assert_int_equal(tfos__ledger_new(&calls, &none, &error), TFOS_NO_MEMORY);
    allocations_left = SIZE_MAX;
    helper_ledger_start(&s);
    for (size_t count = 0; count < 3; count++) {
        allocations_left = count;
        assert_int_equal(tfos__ledger_open(s.ledger, &more, &error), TFOS_NO_MEMORY);
    }
    allocations_left = SIZE_MAX;
    assert_int_equal(tfos__ledger_open(s.ledger, &more, &error), TFOS_OK);
    assert_int_equal(tfos__ledger_begin(s.ledger, 2, 0, &error), TFOS_OK);
    for (size_t count = 0; count < 2; count++) {
        allocations_left = count;
        tfos__ledger_admit(s.ledger, 10, &(tfos__attempt){.feed = 2, .task = 10});
        expect(&s, "10 failed; ");
        assert_int_equal(s.error.status, TFOS_NO_MEMORY);
    }
    allocations_left = SIZE_MAX;
    tfos__ledger_admit(s.ledger, 10, &(tfos__attempt){.feed = 2, .task = 10});
    tfos__ledger_admit(s.ledger, 11, &(tfos__attempt){.feed = 2, .task = 11});
    expect(&s, "10 granted from 0; ");
    /* An epoch whose rows are in lanes must be kept in mind. */
    const tfos__ledger_feed third = {.feed = 3, .partitions = 1, .determinate = true};
    assert_int_equal(tfos__ledger_open(s.ledger, &third, &error), TFOS_OK);
    assert_int_equal(tfos__ledger_begin(s.ledger, 3, 0, &error), TFOS_OK);
    tfos__ledger_admit(s.ledger, 30, &(tfos__attempt){.feed = 3, .task = 30});
    tfos__ledger_exhaust(s.ledger, 30, 5);
    expect(&s, "30 granted from 0; 30 complete; mark 3/0; ");
    allocations_left = 0;
    assert_int_equal(tfos__ledger_begin(s.ledger, 3, 1, &error), TFOS_NO_MEMORY);
    allocations_left = SIZE_MAX;
    tfos__ledger_settle(s.ledger, &(tfos__attempt){.feed = 3, .task = 30}, 5, 0);
    expect(&s, "consumed 3/0; ");
    /* Who cannot be fenced cannot be followed. */
    allocations_left = 0;
    helper_ledger_leave(&s, 10, 2);
    tfos__ledger_admit(s.ledger, 12, &(tfos__attempt){.feed = 2, .task = 12});
    allocations_left = SIZE_MAX;
    expect(&s, "11 failed; 12 failed; ");
    assert_int_equal(s.error.status, TFOS_NO_MEMORY);
    assert_int_equal(tfos__ledger_begin(s.ledger, 2, 1, &error), TFOS_NO_MEMORY);
    assert_non_null(strstr(error.message, "no memory left to keep the reason"));
    tfos__ledger_free(s.ledger);
}

static void test_a_node_comes_back_and_is_asked_again(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 2, DETERMINATE);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_admit(&s, 11, 1);
    helper_ledger_leave(&s, 10, 2); /* nodes 0 and 64 */
    helper_ledger_leave(&s, 11, 1);
    helper_ledger_fenced(&s, 10, 0, 0, 5);
    expect(&s, "10 granted from 0; 11 granted from 0; fence 1/0/0#10; fence 1/0/1#11; ");
    tfos__ledger_fence_again(s.ledger, 64);
    expect(&s, "fence 1/0/0#10; ");
    tfos__ledger_fence_again(s.ledger, 0);
    expect(&s, "fence 1/0/1#11; ");
    tfos__ledger_fence_again(s.ledger, 7);
    expect(&s, "");
    tfos__ledger_free(s.ledger);
}

/* What a node had when its program ended is known before anybody asks. */
static void test_a_node_ends_before_it_is_asked(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 1, DETERMINATE);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_admit(&s, 11, 0);
    helper_ledger_fenced(&s, 9, 0, 7, 90); /* of another attempt */
    helper_ledger_fenced(&s, 10, 0, 7, 60);
    tfos__ledger_lose(s.ledger, 7);
    helper_ledger_leave(&s, 10, 1);
    helper_ledger_fenced(&s, 10, 0, 0, 40);
    expect(&s, "10 granted from 0; fence 1/0/0#10; 11 granted from 60; ");
    tfos__ledger_free(s.ledger);
}

static void test_breaking(void **state)
{
    (void)state;
    helper_story s;
    tfos_error error = {.status = TFOS_CANCELLED, .message = "the cluster has failed"};
    helper_ledger_start_feed(&s, 2, DETERMINATE);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_admit(&s, 11, 0);
    expect(&s, "10 granted from 0; ");
    tfos__ledger_break(s.ledger, 2, &error); /* no such feed */
    tfos__ledger_break(s.ledger, 1, &error);
    expect(&s, "11 failed; 10 failed; ");
    helper_ledger_admit(&s, 12, 1);
    expect(&s, "12 failed; ");
    assert_string_equal(s.error.message, "the cluster has failed");
    tfos__ledger_free(s.ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_driver_may_not),
        cmocka_unit_test(test_what_a_producer_may_not),
        cmocka_unit_test(test_epochs_that_are_under_way_at_the_same_time),
        cmocka_unit_test(test_rows_are_settled_before_all_are_fed),
        cmocka_unit_test(test_each_epoch_has_its_mark),
        cmocka_unit_test(test_closing),
        cmocka_unit_test(test_failing),
        cmocka_unit_test(test_ending),
        cmocka_unit_test(test_the_cluster_ends),
        cmocka_unit_test(test_a_node_comes_back_and_is_asked_again),
        cmocka_unit_test(test_a_node_ends_before_it_is_asked),
        cmocka_unit_test(test_breaking),
        cmocka_unit_test(test_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
