/* The ledger, told stories: who is let in, who waits, who is sent home, and what is known about rows when somebody
 * dies. */
#include "helper_ledger.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- the usual ---- */

static void test_progress_is_reported(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 2, DETERMINATE);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_admit(&s, 11, 1);
    helper_ledger_admit(&s, 12, 1); /* parked: it has fed nothing */
    tfos__ledger_progress(s.ledger, 10, 50, 20);
    tfos__ledger_progress(s.ledger, 11, 7, 9); /* no more can be consumed than was fed */
    tfos__ledger_progress(s.ledger, 12, 99, 99);
    tfos__ledger_progress(s.ledger, 77, 1, 1);
    helper_ledger_expect_rows(&s, 0, 50, 20, 0);
    helper_ledger_expect_rows(&s, 1, 7, 7, 0);
    tfos__ledger_exhaust(s.ledger, 10, 60);
    helper_ledger_expect_rows(&s, 0, 60, 20, 0);
    tfos__ledger_progress(s.ledger, 10, 60, 50); /* it is gone */
    helper_ledger_settle(&s, 10, 0, 40);
    helper_ledger_expect_rows(&s, 0, 60, 40, 0);
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_DRAINING, 60, 1, 0);
    helper_ledger_settle_in(&s, 0, 10, 0, 18, 2); /* a program has left two behind */
    helper_ledger_expect_rows(&s, 0, 60, 58, 2);
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_COMPLETE, 60, 1, 0);
    tfos__ledger_end(s.ledger, 1);
    tfos__ledger_progress(s.ledger, 11, 9, 8);
    helper_ledger_expect_rows(&s, 1, 9, 8, 0); /* it may still be taken */
    helper_ledger_leave(&s, 11, 0);
    helper_ledger_expect_rows(&s, 1, 9, 8, 1);
    tfos__ledger_close(s.ledger, 1);
    helper_ledger_expect_rows(&s, 1, 9, 8, 1);
    tfos__ledger_free(s.ledger);
}

static void test_partitions_of_old_feeds_are_forgotten(void **state)
{
    (void)state;
    enum { FEEDS = 5, PARTITIONS = 1 << 16 };
    helper_story s;
    tfos__partition_view view;
    helper_ledger_start_feed(&s, 1, DETERMINATE);
    for (uint64_t feed = 2; feed < 2 + FEEDS; feed++) {
        const tfos__ledger_feed about = {.feed = feed, .partitions = PARTITIONS, .determinate = true};
        assert_int_equal(tfos__ledger_open(s.ledger, &about, NULL), TFOS_OK);
        tfos__ledger_close(s.ledger, feed);
    }
    assert_true(tfos__ledger_partition(s.ledger, 1 + FEEDS, 0, &view));
    assert_true(tfos__ledger_partition(s.ledger, FEEDS, 0, &view));
    assert_false(tfos__ledger_partition(s.ledger, FEEDS - 1, 0, &view));
    assert_true(tfos__ledger_partition(s.ledger, 1, 0, &view)); /* it is open */
    tfos__ledger_free(s.ledger);
}

static void test_two_partitions_are_fed(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 2, DETERMINATE);
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_IDLE, 0, 0, 0);
    helper_ledger_admit(&s, 10, 0);
    expect(&s, "10 granted from 0; ");
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_FEEDING, 0, 1, 0);
    helper_ledger_admit(&s, 11, 1);
    expect(&s, "11 granted from 0; ");
    assert_int_equal(helper_ledger_counts_of(&s).feeding, 2);
    tfos__ledger_exhaust(s.ledger, 10, 100);
    expect(&s, "10 complete; "); /* it does not wait until they are consumed */
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_DRAINING, 100, 1, 0);
    assert_int_equal(helper_ledger_counts_of(&s).unsettled, 100);
    tfos__ledger_exhaust(s.ledger, 11, 0);
    expect(&s, "11 complete; mark 1/0; "); /* before the last rows are consumed */
    helper_ledger_expect_partition(&s, 1, TFOS__PARTITION_COMPLETE, 0, 1, 0);
    helper_ledger_leave(&s, 10, 3);
    helper_ledger_leave(&s, 11, 3);
    helper_ledger_settle(&s, 10, 0, 60);
    expect(&s, "");
    assert_int_equal(helper_ledger_counts_of(&s).unsettled, 40);
    helper_ledger_settle(&s, 10, 0, 40);
    expect(&s, "consumed 1/0; ");
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_COMPLETE, 100, 1, 0);
    tfos__ledger_counts counts = helper_ledger_counts_of(&s);
    assert_int_equal(counts.partitions, 2);
    assert_int_equal(counts.complete, 2);
    assert_int_equal(counts.exhausted, 2);
    assert_int_equal(counts.unsettled, 0);
    assert_int_equal(counts.feeding, 0);
    assert_int_equal(counts.rows, 100);
    assert_int_equal(counts.takeovers, 0);
    assert_false(counts.ended || counts.failed);
    helper_ledger_admit(&s, 12, 0);
    expect(&s, "12 complete; ");
    tfos__ledger_free(s.ledger);
}

static void test_a_feed_without_partitions(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 0, DETERMINATE);
    expect(&s, "mark 1/0; consumed 1/0; ");
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 1, NULL), TFOS_OK);
    expect(&s, "mark 1/1; consumed 1/1; ");
    helper_ledger_admit(&s, 10, 0);
    expect(&s, "10 failed; ");
    tfos__ledger_free(s.ledger);
}

static void test_what_is_out_of_turn_changes_nothing(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 1, DETERMINATE);
    tfos__ledger_exhaust(s.ledger, 10, 5);
    helper_ledger_leave(&s, 10, 2);
    tfos__ledger_fail(s.ledger, 10, &s.error);
    helper_ledger_settle_in(&s, 1, 10, 0, 5, 0); /* no such epoch, … */
    tfos__ledger_settle(s.ledger, &(tfos__attempt){.feed = 9}, 5, 0);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_admit(&s, 11, 0);
    expect(&s, "10 granted from 0; ");
    tfos__ledger_exhaust(s.ledger, 11, 5); /* it waits */
    tfos__ledger_fail(s.ledger, 11, &s.error);
    expect(&s, "");
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_FEEDING, 0, 1, 0);
    tfos__ledger_exhaust(s.ledger, 10, 5);
    tfos__ledger_exhaust(s.ledger, 10, 9); /* it has said so */
    tfos__ledger_fail(s.ledger, 10, &s.error);
    expect(&s, "10 complete; 11 complete; mark 1/0; ");
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_DRAINING, 5, 1, 0);
    assert_int_equal(helper_ledger_counts_of(&s).rows, 5);
    tfos__ledger_free(s.ledger);
}

static void test_a_producer_asks_twice(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 2, DETERMINATE);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_admit(&s, 10, 0);
    expect(&s, "10 granted from 0; 10 granted from 0; ");
    helper_ledger_admit(&s, 11, 0);
    helper_ledger_admit(&s, 11, 0);
    expect(&s, ""); /* parked once */
    assert_int_equal(helper_ledger_counts_of(&s).waiting, 1);
    assert_int_equal(helper_ledger_counts_of(&s).feeding, 1);
    helper_ledger_admit(&s, 10, 1);
    expect(&s, "10 failed; ");
    assert_non_null(strstr(s.error.message, "feeds partition 0 of feed 1"));
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_FEEDING, 0, 1, 0);
    helper_ledger_expect_partition(&s, 1, TFOS__PARTITION_IDLE, 0, 0, 0);
    tfos__ledger_free(s.ledger);
}

/* ---- dying ---- */

static void test_the_next_goes_on_where_one_died(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 1, DETERMINATE);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_leave(&s, 10, 3);
    expect(&s, "10 granted from 0; fence 1/0/0#10; ");
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_FENCING, 0, 1, 0);
    helper_ledger_admit(&s, 11, 0);
    helper_ledger_fenced(&s, 10, 0, 64, 30);
    helper_ledger_fenced(&s, 10, 0, 130, 50);
    expect(&s, "");
    assert_int_equal(helper_ledger_counts_of(&s).feeding, 0);
    assert_int_equal(helper_ledger_counts_of(&s).waiting, 1);
    helper_ledger_fenced(&s, 10, 0, 0, 40);
    expect(&s, "11 granted from 50; ");
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_FEEDING, 0, 2, 50);
    /* This one feeds nothing: nodes know of no row of it. */
    helper_ledger_leave(&s, 11, 1);
    helper_ledger_fenced(&s, 11, 0, 0, 0);
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_IDLE, 0, 2, 50);
    helper_ledger_admit(&s, 12, 0);
    expect(&s, "fence 1/0/0#11; 12 granted from 50; ");
    assert_int_equal(helper_ledger_counts_of(&s).takeovers, 2);
    tfos__ledger_exhaust(s.ledger, 12, 60);
    expect(&s, "12 complete; mark 1/0; ");
    /* What is left of those who died counts as well. */
    helper_ledger_settle(&s, 12, 0, 10);
    helper_ledger_settle(&s, 10, 0, 20);
    expect(&s, "");
    helper_ledger_settle(&s, 10, 0, 30);
    expect(&s, "consumed 1/0; ");
    tfos__ledger_free(s.ledger);
}

static void test_answers_that_are_not_waited_for(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 1, DETERMINATE);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_fenced(&s, 10, 0, 0, 15); /* nobody asked yet */
    helper_ledger_leave(&s, 10, 3);
    helper_ledger_admit(&s, 11, 0);
    expect(&s, "10 granted from 0; fence 1/0/0#10; ");
    helper_ledger_fenced(&s, 10, 0, 64, 30);
    helper_ledger_fenced(&s, 10, 0, 64, 30);   /* twice */
    helper_ledger_fenced(&s, 10, 0, 64, 90);   /* and not to be believed */
    helper_ledger_fenced(&s, 10, 0, 65, 90);   /* was not asked */
    helper_ledger_fenced(&s, 10, 0, 9999, 90); /* unknown */
    helper_ledger_fenced(&s, 11, 0, 0, 90);    /* another attempt */
    helper_ledger_fenced(&s, 10, 1, 0, 90);    /* no such partition */
    tfos__ledger_fenced(s.ledger, &(tfos__attempt){.feed = 1, .epoch = 1, .task = 10}, 0, 90);
    tfos__ledger_fenced(s.ledger, &(tfos__attempt){.feed = 2, .epoch = 0, .task = 10}, 0, 90);
    expect(&s, "");
    helper_ledger_fenced(&s, 10, 0, 0, 20);
    helper_ledger_fenced(&s, 10, 0, 130, 0);
    expect(&s, "11 granted from 30; ");
    helper_ledger_fenced(&s, 10, 0, 130, 95); /* late */
    helper_ledger_leave(&s, 11, 1);
    helper_ledger_fenced(&s, 10, 0, 0, 95);
    expect(&s, "fence 1/0/0#11; ");
    helper_ledger_fenced(&s, 11, 0, 0, 31);
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_IDLE, 0, 2, 31);
    tfos__ledger_free(s.ledger);
}

static void test_a_node_is_lost_while_it_is_asked(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 3, DETERMINATE);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_admit(&s, 11, 1);
    helper_ledger_admit(&s, 12, 2);
    helper_ledger_leave(&s, 10, 1);
    helper_ledger_leave(&s, 11, 2);
    helper_ledger_leave(&s, 12, 2);
    helper_ledger_admit(&s, 20, 0);
    helper_ledger_admit(&s, 21, 1);
    helper_ledger_fenced(&s, 11, 1, 64, 8);
    s.said[0] = '\0';
    tfos__ledger_lose(s.ledger, 5);
    expect(&s, "");
    tfos__ledger_lose(s.ledger, 0);
    expect(&s, "21 granted from 8; 20 granted from 0; ");
    helper_ledger_expect_partition(&s, 2, TFOS__PARTITION_FENCING, 0, 1, 0);
    tfos__ledger_lose(s.ledger, 0); /* again */
    helper_ledger_expect_partition(&s, 2, TFOS__PARTITION_FENCING, 0, 1, 0);
    helper_ledger_fenced(&s, 12, 2, 64, 3);
    helper_ledger_expect_partition(&s, 2, TFOS__PARTITION_IDLE, 0, 1, 3);
    tfos__ledger_free(s.ledger);
}

static void test_leaving_where_no_nodes_are(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 1, DETERMINATE);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_admit(&s, 11, 0);
    helper_ledger_leave(&s, 10, 0);
    expect(&s, "10 granted from 0; 11 granted from 0; ");
    helper_ledger_leave(&s, 11, 0);
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_IDLE, 0, 2, 0);
    assert_int_equal(helper_ledger_counts_of(&s).takeovers, 0);
    tfos__ledger_free(s.ledger);
}

static void test_one_that_waits_leaves(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 1, DETERMINATE);
    for (uint64_t producer = 10; producer < 16; producer++) {
        helper_ledger_admit(&s, producer, 0);
    }
    helper_ledger_leave(&s, 11, 2); /* the first of them */
    helper_ledger_leave(&s, 15, 2); /* the last */
    helper_ledger_leave(&s, 13, 2);
    expect(&s, "10 granted from 0; ");
    assert_int_equal(helper_ledger_counts_of(&s).waiting, 2);
    helper_ledger_leave(&s, 10, 0);
    expect(&s, "12 granted from 0; ");
    helper_ledger_leave(&s, 12, 0);
    expect(&s, "14 granted from 0; ");
    helper_ledger_leave(&s, 14, 0);
    assert_int_equal(helper_ledger_counts_of(&s).waiting, 0);
    helper_ledger_admit(&s, 16, 0);
    expect(&s, "16 granted from 0; ");
    tfos__ledger_free(s.ledger);
}

static void test_speculation(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 1, DETERMINATE);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_admit(&s, 11, 0);
    tfos__ledger_exhaust(s.ledger, 10, 7);
    helper_ledger_admit(&s, 12, 0);
    expect(&s, "10 granted from 0; 10 complete; 11 complete; mark 1/0; 12 complete; ");
    assert_int_equal(helper_ledger_counts_of(&s).waiting, 0);
    helper_ledger_leave(&s, 11, 2);
    helper_ledger_leave(&s, 12, 2);
    expect(&s, "");
    tfos__ledger_free(s.ledger);
}

static void test_dying_when_all_is_in_lanes(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 1, DETERMINATE);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_leave(&s, 10, 1);
    expect(&s, "10 granted from 0; fence 1/0/0#10; ");
    helper_ledger_fenced(&s, 10, 0, 0, 7); /* it could not say any more that these are all */
    helper_ledger_expect_partition(&s, 0, TFOS__PARTITION_IDLE, 0, 1, 7);
    helper_ledger_settle(&s, 10, 0, 7);
    helper_ledger_admit(&s, 11, 0);
    expect(&s, "11 granted from 7; ");
    tfos__ledger_exhaust(s.ledger, 11, 7);
    expect(&s, "11 complete; mark 1/0; consumed 1/0; ");
    assert_int_equal(helper_ledger_counts_of(&s).rows, 7);
    assert_int_equal(helper_ledger_counts_of(&s).complete, 1);
    tfos__ledger_free(s.ledger);
}

static void test_an_attempt_that_was_cut_off_cannot_come_back(void **state)
{
    (void)state;
    helper_story s;
    const tfos__attempt attempt = {.feed = 1, .epoch = 0, .partition = 0, .task = 10};
    helper_ledger_start_feed(&s, 1, DETERMINATE);
    helper_ledger_admit(&s, 10, 0);
    tfos__ledger_admit(s.ledger, 20, &attempt); /* while its first connection seems alive */
    expect(&s, "10 granted from 0; 20 failed; ");
    assert_int_equal(s.error.fault, TFOS_FAULT_AGAIN);
    helper_ledger_leave(&s, 10, 0);
    tfos__ledger_admit(s.ledger, 21, &attempt);
    expect(&s, "21 failed; ");
    /* Two connections of one attempt wait. */
    helper_ledger_admit(&s, 11, 0);
    helper_ledger_admit(&s, 12, 0);
    tfos__ledger_admit(s.ledger, 22, &(tfos__attempt){.feed = 1, .task = 12});
    helper_ledger_leave(&s, 11, 0);
    helper_ledger_leave(&s, 12, 0);
    expect(&s, "11 granted from 0; 12 granted from 0; 22 failed; ");
    assert_int_equal(helper_ledger_counts_of(&s).waiting, 0);
    tfos__ledger_free(s.ledger);
}

static void test_a_partition_changes_when_it_is_computed_again(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 2, DETERMINATE);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_leave(&s, 10, 1);
    helper_ledger_fenced(&s, 10, 0, 0, 5);
    helper_ledger_admit(&s, 11, 0);
    s.said[0] = '\0';
    tfos__ledger_exhaust(s.ledger, 11, 4);
    expect(&s, "11 failed; ");
    assert_int_equal(s.error.status, TFOS_MISMATCH);
    assert_non_null(strstr(s.error.message, "partition 0 of feed 1 had at least 5 rows"));
    assert_non_null(strstr(s.error.message, "has 4"));
    assert_true(helper_ledger_counts_of(&s).failed);
    tfos__ledger_free(s.ledger);
}

/* ---- indeterminate order ---- */

static void test_indeterminate_order(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 2, INDETERMINATE);
    helper_ledger_admit(&s, 10, 1);
    helper_ledger_leave(&s, 10, 1);
    helper_ledger_admit(&s, 11, 1);
    helper_ledger_fenced(&s, 10, 1, 0, 0);
    expect(&s, "10 granted from 0; fence 1/0/1#10; 11 granted from 0; "); /* nothing was fed */
    helper_ledger_leave(&s, 11, 1);
    helper_ledger_admit(&s, 12, 1);
    helper_ledger_admit(&s, 13, 1);
    helper_ledger_fenced(&s, 11, 1, 0, 123);
    expect(&s, "fence 1/0/1#11; 12 failed; 13 failed; ");
    assert_int_equal(s.error.status, TFOS_UNSUPPORTED);
    assert_non_null(strstr(s.error.message, "partition 1 of feed 1"));
    assert_non_null(strstr(s.error.message, "123 rows"));
    assert_non_null(strstr(s.error.message, "Spark calls the order of this data indeterminate"));
    assert_non_null(strstr(s.error.message, "localCheckpoint()"));
    assert_non_null(strstr(s.error.message, "retry=\"again\""));
    helper_ledger_admit(&s, 14, 1);
    expect(&s, "14 failed; ");
    assert_int_equal(helper_ledger_counts_of(&s).waiting, 0);
    tfos__ledger_free(s.ledger);
}

static void test_indeterminate_order_matters_not_when_all_is_fed(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 1, INDETERMINATE);
    helper_ledger_admit(&s, 10, 0);
    tfos__ledger_exhaust(s.ledger, 10, 9);
    helper_ledger_leave(&s, 10, 1);
    helper_ledger_admit(&s, 11, 0);
    helper_ledger_settle(&s, 10, 0, 9);
    expect(&s, "10 granted from 0; 10 complete; mark 1/0; 11 complete; consumed 1/0; ");
    assert_int_equal(helper_ledger_counts_of(&s).complete, 1);
    tfos__ledger_free(s.ledger);
}

static void test_feeding_again(void **state)
{
    (void)state;
    helper_story s;
    helper_ledger_start_feed(&s, 1, AGAIN);
    helper_ledger_admit(&s, 10, 0);
    helper_ledger_leave(&s, 10, 1);
    helper_ledger_fenced(&s, 10, 0, 0, 30);
    helper_ledger_admit(&s, 11, 0);
    expect(&s, "10 granted from 0; fence 1/0/0#10; 11 granted from 0; ");
    assert_int_equal(helper_ledger_counts_of(&s).duplicates, 30);
    tfos__ledger_exhaust(s.ledger, 11, 50);
    helper_ledger_leave(&s, 11, 1);
    helper_ledger_admit(&s, 12, 0);
    expect(&s, "11 complete; mark 1/0; 12 complete; ");
    assert_int_equal(helper_ledger_counts_of(&s).rows, 50);
    assert_int_equal(helper_ledger_counts_of(&s).takeovers, 0);
    /* The duplicates are rows in lanes like others. */
    helper_ledger_settle(&s, 11, 0, 50);
    expect(&s, "");
    helper_ledger_settle(&s, 10, 0, 30);
    expect(&s, "consumed 1/0; ");
    helper_ledger_expect_rows(&s, 0, 80, 80, 0);
    tfos__ledger_free(s.ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress_is_reported),
        cmocka_unit_test(test_partitions_of_old_feeds_are_forgotten),
        cmocka_unit_test(test_two_partitions_are_fed),
        cmocka_unit_test(test_a_feed_without_partitions),
        cmocka_unit_test(test_what_is_out_of_turn_changes_nothing),
        cmocka_unit_test(test_a_producer_asks_twice),
        cmocka_unit_test(test_the_next_goes_on_where_one_died),
        cmocka_unit_test(test_answers_that_are_not_waited_for),
        cmocka_unit_test(test_a_node_is_lost_while_it_is_asked),
        cmocka_unit_test(test_leaving_where_no_nodes_are),
        cmocka_unit_test(test_one_that_waits_leaves),
        cmocka_unit_test(test_speculation),
        cmocka_unit_test(test_dying_when_all_is_in_lanes),
        cmocka_unit_test(test_an_attempt_that_was_cut_off_cannot_come_back),
        cmocka_unit_test(test_a_partition_changes_when_it_is_computed_again),
        cmocka_unit_test(test_indeterminate_order),
        cmocka_unit_test(test_indeterminate_order_matters_not_when_all_is_fed),
        cmocka_unit_test(test_feeding_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
