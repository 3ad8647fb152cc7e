/* The consumer, with real lanes and a node that is played: which rows come in which batch, where epochs end, and what
 * is said when something is not as it should be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"
#include "helper_feed.h"

/* ---- rows ---- */

static void test_batches_across_lanes(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lanes[3];
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    tfos_feed_want want = helper_want_rows(4);
    for (size_t i = 0; i < 3; i++) {
        helper_lane_open(&lanes[i], &feed, "input", i, false);
        helper_lane_put_numbers(&lanes[i], &feed, (int64_t)i * 100, 2);
        helper_lane_put_numbers(&lanes[i], &feed, (int64_t)i * 100 + 2, 3);
    }
    /* An entry of each lane, then the next of each. */
    helper_expect_numbers(input, &want, "0 1 100 101");
    tfos__lane_counts counts;
    tfos__lane_count(lanes[2].lane, &counts);
    assert_int_equal(counts.consumed_rows, 0);
    helper_expect_numbers(input, &want, "200 201 2 3");
    tfos__lane_count(lanes[0].lane, &counts);
    assert_int_equal(counts.consumed_rows, 4);
    assert_true(counts.tail < counts.head); /* an entry is given back as a whole */
    helper_expect_numbers(input, &want, "4 102 103 104");
    tfos__lane_count(lanes[0].lane, &counts);
    assert_int_equal(counts.tail, counts.head);
    /* One lane ends; the other two stay. */
    helper_lane_end(&lanes[0], &feed);
    want.timeout_ms = 20;
    helper_expect_status(input, &want, TFOS_CANCELLED, "no row came within 20 ms");
    helper_feed_hear(&feed);
    assert_int_equal(feed.done, 1);
    assert_int_equal(feed.done_last, 1);
    /* Rows that were taken before the time was over are not lost; and a call that wants fewer gets fewer. */
    want.rows = 2;
    helper_expect_numbers(input, &want, "202 203");
    const tfos_feed_want one = helper_want_within(1, 0);
    helper_expect_numbers(input, &one, "204");
    helper_expect_status(input, &want, TFOS_CANCELLED, NULL);
    for (size_t i = 0; i < 3; i++) {
        helper_lane_close(&lanes[i]);
    }
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

static void test_another_schema_makes_another_batch(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lane;
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    tfos_schema *other = helper_schema_with("m", TFOS_TYPE_INT64, TFOS_SHAPE_SCALAR, 0);
    tfos_batch *batch = helper_numbers(other, 70, 3);
    const tfos_feed_want want = helper_want_rows(100);
    helper_lane_open(&lane, &feed, "input", 0, false);
    helper_lane_put_numbers(&lane, &feed, 1, 3);
    helper_lane_put_schema(&lane, &feed, other);
    assert_true(helper_lane_put_batch(&lane, &feed, batch));
    helper_lane_end(&lane, &feed);
    helper_feed_say(&feed, TFOS__PACKET_END, "", 0);
    helper_expect_numbers(input, &want, "1 2 3");
    tfos_batch *found = NULL;
    assert_int_equal(tfos_feed_next(input, &want, &found, NULL), TFOS_OK);
    assert_string_equal(helper_show_numbers(found), "70 71 72");
    assert_string_equal(tfos_schema_field(tfos_batch_schema(found), 0)->name, "m");
    tfos_batch_free(found);
    helper_expect_status(input, &want, TFOS_END, NULL);
    tfos_batch_free(batch);
    tfos_schema_free(other);
    helper_lane_close(&lane);
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

/* Rows of lists, fed with the lengths given: "1 | 2 3 |". */
static tfos_batch *lists(const tfos_schema *schema, const int *lengths, size_t count)
{
    tfos_batch *batch = NULL;
    int64_t value = 0;
    assert_int_equal(tfos__batch_new(schema, &batch, NULL), TFOS_OK);
    tfos__vector *vector = tfos__batch_vector(batch, 0);
    for (size_t i = 0; i < count; i++) {
        for (int j = 0; j < lengths[i]; j++) {
            assert_int_equal(tfos__vector_push_int(vector->child, value++, NULL), TFOS_OK);
        }
        assert_int_equal(tfos__vector_push_list(vector, NULL), TFOS_OK);
    }
    assert_int_equal(tfos__batch_finish(batch, (int64_t)count, NULL), TFOS_OK);
    return batch;
}

static void test_columns_as_they_are_wanted(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lane;
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    tfos_schema *ragged = helper_schema_with("v", TFOS_TYPE_INT64, TFOS_SHAPE_RAGGED, 0);
    tfos_schema *pairs = helper_schema_with("v", TFOS_TYPE_INT64, TFOS_SHAPE_FIXED, 2);
    tfos_schema *reals = helper_schema_with("v", TFOS_TYPE_FLOAT, TFOS_SHAPE_RAGGED, 0);
    tfos_schema *absent = helper_schema_with("w", TFOS_TYPE_INT64, TFOS_SHAPE_RAGGED, 0);
    tfos_batch *batch = lists(ragged, (const int[]){2, 2, 3}, 3);
    tfos_batch *fixed = lists(pairs, (const int[]){2, 2}, 2);
    helper_lane_open(&lane, &feed, "input", 11, false);
    helper_lane_put_schema(&lane, &feed, ragged);
    assert_true(helper_lane_put_batch(&lane, &feed, batch));
    tfos_feed_want want = helper_want_rows(2);
    want.as = reals;
    helper_expect_status(input, &want, TFOS_MISMATCH, "column 'v', partition 11, rows from 0 on: expected ");
    want.as = absent;
    helper_expect_status(input, &want, TFOS_MISMATCH,
                         "column 'w', partition 11, rows from 0 on: the rows that are fed have no");
    /* After an error somebody may ask for something else. */
    want.as = pairs;
    tfos_batch *found = NULL;
    assert_int_equal(tfos_feed_next(input, &want, &found, NULL), TFOS_OK);
    assert_int_equal(tfos_batch_rows(found), 2);
    assert_int_equal(tfos_batch_column(found, 0)->layout, TFOS_LAYOUT_FIXED_LIST);
    assert_int_equal(((const int64_t *)tfos_batch_column(found, 0)->child->data)[3], 3);
    tfos_batch_free(found);
    helper_expect_status(input, &want, TFOS_MISMATCH, "column 'v', partition 11, rows from 2 on");
    want.as = NULL;
    want.rows = 1;
    assert_int_equal(tfos_feed_next(input, &want, &found, NULL), TFOS_OK);
    assert_int_equal(tfos_batch_column(found, 0)->layout, TFOS_LAYOUT_LIST);
    assert_int_equal(tfos_batch_column(found, 0)->offsets[1], 3);
    tfos_batch_free(found);
    /* Lists of any length take fixed ones, and rows of both schemas make one batch. */
    helper_lane_put_schema(&lane, &feed, pairs);
    assert_true(helper_lane_put_batch(&lane, &feed, fixed));
    helper_lane_put_schema(&lane, &feed, ragged);
    assert_true(helper_lane_put_batch(&lane, &feed, batch));
    want.as = ragged;
    want.rows = 5;
    assert_int_equal(tfos_feed_next(input, &want, &found, NULL), TFOS_OK);
    assert_int_equal(tfos_batch_rows(found), 5);
    assert_int_equal(tfos_batch_column(found, 0)->offsets[5], 11);
    tfos_batch_free(found);
    tfos_batch_free(batch);
    tfos_batch_free(fixed);
    tfos_schema_free(ragged);
    tfos_schema_free(pairs);
    tfos_schema_free(reals);
    tfos_schema_free(absent);
    helper_lane_close(&lane);
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

/* ---- epochs and ends ---- */

static void feed_two_epochs(helper_feed *feed, helper_lane lanes[3])
{
    helper_lane_open(&lanes[0], feed, "input", 0, false);
    helper_lane_open(&lanes[1], feed, "input", 1, false);
    helper_lane_put_numbers(&lanes[0], feed, 0, 2);
    helper_lane_put_numbers(&lanes[1], feed, 10, 1);
    helper_lane_end(&lanes[0], feed);
    helper_feed_say(feed, TFOS__PACKET_MARK, "input", 0);
    helper_lane_open(&lanes[2], feed, "input", 0, false);
    helper_lane_put_numbers(&lanes[2], feed, 20, 3);
    helper_lane_end(&lanes[2], feed);
}

static void test_epochs_split(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lanes[3];
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    tfos_feed_want want = helper_want_rows(100);
    want.split_epochs = true;
    feed_two_epochs(&feed, lanes);
    /* A lane of the first epoch is open: rows of the second are left alone until it has ended. */
    want.timeout_ms = 20;
    helper_expect_status(input, &want, TFOS_CANCELLED, NULL);
    helper_lane_put_numbers(&lanes[1], &feed, 11, 1);
    helper_lane_end(&lanes[1], &feed);
    want.timeout_ms = 10000;
    helper_expect_numbers(input, &want, "0 1 10 11");
    helper_expect_status(input, &want, TFOS_END, NULL);
    want.rows = 3;
    helper_expect_numbers(input, &want, "20 21 22");
    want.timeout_ms = 20;
    helper_expect_status(input, &want, TFOS_CANCELLED, NULL); /* its mark has not come */
    helper_feed_say(&feed, TFOS__PACKET_MARK, "input", 0);
    helper_feed_say(&feed, TFOS__PACKET_MARK, "input", 0); /* an epoch of no rows for us */
    assert_false(tfos_feed_ended(input));
    assert_int_equal(tfos_feed_epochs(input), 1);
    helper_expect_status(input, &want, TFOS_END, NULL);
    helper_expect_status(input, &want, TFOS_END, NULL);
    helper_expect_status(input, &want, TFOS_CANCELLED, NULL);
    assert_int_equal(tfos_feed_epochs(input), 3);
    helper_feed_say(&feed, TFOS__PACKET_END, "", 0);
    for (size_t i = 0; i < 3; i++) {
        helper_expect_status(input, &want, TFOS_END, NULL);
        helper_lane_close(&lanes[i]);
    }
    assert_true(tfos_feed_ended(input));
    assert_int_equal(tfos_feed_epochs(input), 3);
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

/* The iterators of a dataset have a schema each: rows that one of them has waited for are the next one's. */
static void test_rows_that_wait_are_for_an_equal_schema(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lane;
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    tfos_feed_want want = helper_want_within(5, 20);
    helper_lane_open(&lane, &feed, "input", 0, false);
    helper_lane_put_numbers(&lane, &feed, 0, 3);
    tfos_schema *first = helper_schema_with("n", TFOS_TYPE_INT64, TFOS_SHAPE_SCALAR, 0);
    want.as = first;
    helper_expect_status(input, &want, TFOS_CANCELLED, NULL);
    tfos_schema_free(first);
    helper_lane_put_numbers(&lane, &feed, 3, 2);
    tfos_schema *second = helper_schema_with("n", TFOS_TYPE_INT64, TFOS_SHAPE_SCALAR, 0);
    want.as = second;
    want.timeout_ms = 10000;
    helper_expect_numbers(input, &want, "0 1 2 3 4");
    helper_lane_put_numbers(&lane, &feed, 5, 3);
    want.timeout_ms = 20;
    helper_expect_status(input, &want, TFOS_CANCELLED, NULL);
    tfos_schema *third = helper_schema_with("n", TFOS_TYPE_INT64, TFOS_SHAPE_SCALAR, 0);
    assert_int_equal(tfos_schema_set_note(third, "another", NULL), TFOS_OK); /* what waits is handed out as it is */
    want.as = third;
    helper_lane_put_numbers(&lane, &feed, 8, 5);
    want.timeout_ms = 10000;
    helper_expect_numbers(input, &want, "5 6 7");
    helper_expect_numbers(input, &want, "8 9 10 11 12");
    tfos_schema_free(second);
    tfos_schema_free(third);
    helper_lane_close(&lane);
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

/* Whoever wants the second epoch need not have come to the end of the first, and gets what is left of it. */
static void test_one_epoch_by_its_number(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lanes[3];
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    tfos_feed_want want = helper_want_rows(2);
    want.split_epochs = true;
    want.epoch = 0;
    feed_two_epochs(&feed, lanes);
    helper_lane_end(&lanes[1], &feed);
    helper_expect_numbers(input, &want, "0 1");
    want.epoch = 1;
    want.rows = 100;
    want.timeout_ms = 20;
    helper_expect_status(input, &want, TFOS_CANCELLED, NULL); /* its mark has not come: there may be more */
    want.timeout_ms = 10000;
    helper_feed_say(&feed, TFOS__PACKET_MARK, "input", 0);
    helper_expect_numbers(input, &want, "10 20 21 22");
    helper_expect_status(input, &want, TFOS_END, NULL);
    helper_expect_status(input, &want, TFOS_END, NULL); /* and no mark of another epoch is taken for it */
    want.epoch = 0;
    helper_expect_status(input, &want, TFOS_END, NULL);
    want.epoch = 2;
    want.timeout_ms = 20;
    helper_expect_status(input, &want, TFOS_CANCELLED, NULL);
    helper_feed_say(&feed, TFOS__PACKET_MARK, "input", 0);
    helper_expect_status(input, &want, TFOS_END, NULL);
    for (size_t i = 0; i < 3; i++) {
        helper_lane_close(&lanes[i]);
    }
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

static void test_epochs_joined(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lanes[3];
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    const tfos_feed_want want = helper_want_rows(5);
    feed_two_epochs(&feed, lanes);
    helper_lane_end(&lanes[1], &feed);
    helper_feed_say(&feed, TFOS__PACKET_MARK, "input", 0);
    helper_feed_say(&feed, TFOS__PACKET_END, "", 0);
    helper_expect_numbers(input, &want, "0 1 10 20 21");
    assert_false(tfos_feed_ended(input));
    helper_expect_numbers(input, &want, "22");
    assert_true(tfos_feed_ended(input)); /* without another call that finds nothing */
    helper_expect_status(input, &want, TFOS_END, NULL);
    helper_feed_hear(&feed);
    assert_int_equal(feed.done, 3);
    for (size_t i = 0; i < 3; i++) {
        helper_lane_close(&lanes[i]);
    }
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

static bool is_given_up(const helper_lane *lane)
{
    tfos__lane_counts counts;
    tfos__lane_count(lane->lane, &counts);
    return counts.given_up;
}

static void test_an_end_that_drops(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lane;
    helper_lane late;
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    tfos_feed *other = helper_feed_queue(&feed, "other");
    const tfos_feed_want want = helper_want_rows(2);
    helper_lane_open(&lane, &feed, "input", 0, false);
    helper_lane_put_numbers(&lane, &feed, 0, 10);
    helper_expect_numbers(input, &want, "0 1");
    uint32_t rings = tfos__bell_read(lane.bell);
    helper_feed_say(&feed, TFOS__PACKET_END, "input", TFOS__PACKET_DROP);
    helper_expect_status(input, &want, TFOS_END, NULL);
    assert_true(is_given_up(&lane));
    assert_int_not_equal(tfos__bell_read(lane.bell), rings);
    /* A lane that comes later is given up at once. */
    helper_lane_open(&late, &feed, "input", 1, false);
    assert_true(tfos_feed_ended(input));
    assert_true(is_given_up(&late));
    assert_false(tfos_feed_ended(other));
    helper_feed_hear(&feed);
    assert_int_equal(feed.done, 2);
    helper_lane_close(&lane);
    helper_lane_close(&late);
    tfos_feed_close(input);
    tfos_feed_close(other);
    helper_feed_close(&feed);
}

static void test_terminate(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lane;
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    const tfos_feed_want want = helper_want_rows(2);
    helper_lane_open(&lane, &feed, "input", 0, false);
    helper_lane_put_numbers(&lane, &feed, 0, 10);
    helper_expect_numbers(input, &want, "0 1");
    assert_int_equal(tfos_feed_terminate(input, NULL), TFOS_OK);
    helper_expect_status(input, &want, TFOS_END, NULL);
    assert_true(is_given_up(&lane));
    helper_feed_hear(&feed);
    assert_int_equal(feed.terminated, 1);
    assert_string_equal(feed.announced, "input,");
    helper_lane_close(&lane);
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

/* ---- waiting ---- */

static bool ask_three_times(void *context)
{
    return ++*(int *)context >= 3;
}

static void test_a_wait_that_is_interrupted(void **state)
{
    (void)state;
    helper_feed feed;
    int asked = 0;
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    tfos_feed_want want = helper_want_rows(1);
    want.timeout_ms = -1;
    want.interrupted = ask_three_times;
    want.interrupted_context = &asked;
    helper_expect_status(input, &want, TFOS_CANCELLED, "interrupted");
    tfos_schema *schema = NULL;
    tfos_error error;
    assert_int_equal(tfos_feed_schema(input, &want, &schema, &error), TFOS_CANCELLED);
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

static void test_the_node_is_gone(void **state)
{
    (void)state;
    helper_feed feed;
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    const tfos_feed_want want = helper_want_rows(1);
    tfos_schema *schema = NULL;
    tfos_error error;
    close(feed.node);
    feed.node = -1;
    helper_expect_status(input, &want, TFOS_IO, "the node of this program is gone");
    assert_int_equal(tfos_feed_schema(input, &want, &schema, &error), TFOS_IO);
    assert_int_equal(tfos_feed_terminate(input, &error), TFOS_IO);
    assert_true(tfos_feed_ended(input));
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

static void test_the_schema_comes_by_both_ways(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lane;
    tfos_schema *found = NULL;
    tfos_schema *numbers = helper_number_schema();
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    tfos_feed *other = helper_feed_queue(&feed, "other");
    tfos_feed *empty = helper_feed_queue(&feed, "empty");
    const tfos_feed_want want = helper_want_rows(1);
    helper_feed_say_schema(&feed, "other", numbers);
    assert_int_equal(tfos_feed_schema(other, &want, &found, NULL), TFOS_OK);
    assert_string_equal(tfos_schema_field(found, 0)->name, "n");
    tfos_schema_free(found);
    /* A schema that was too long to be told is found in the lane, and the rows behind it are still there. */
    helper_lane_open(&lane, &feed, "input", 0, false);
    helper_lane_put_numbers(&lane, &feed, 5, 2);
    assert_int_equal(tfos_feed_schema(input, &want, &found, NULL), TFOS_OK);
    tfos_schema_free(found);
    const tfos_feed_want two = helper_want_within(2, 0);
    helper_expect_numbers(input, &two, "5 6");
    helper_feed_say(&feed, TFOS__PACKET_END, "", 0);
    assert_int_equal(tfos_feed_schema(empty, &want, &found, NULL), TFOS_END);
    helper_lane_close(&lane);
    tfos_schema_free(numbers);
    tfos_feed_close(input);
    tfos_feed_close(other);
    tfos_feed_close(empty);
    helper_feed_close(&feed);
}

/* ---- results ---- */

static void expect_results(const helper_lane *lane, uint64_t rows)
{
    tfos__lane_counts counts;
    tfos__lane_count(lane->results, &counts);
    assert_int_equal(counts.fed_rows, rows);
}

static tfos_status give(tfos_feed *feed, const tfos_schema *schema, int64_t first, int64_t rows, tfos_error *error)
{
    tfos_batch *batch = helper_numbers(schema, first, rows);
    tfos_status status = tfos_feed_put_results(feed, batch, NULL, error);
    tfos_batch_free(batch);
    return status;
}

static void test_results_go_back_to_where_rows_came_from(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lanes[2];
    tfos_error error;
    tfos_schema *schema = helper_number_schema();
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    const tfos_feed_want want = helper_want_rows(100);
    for (size_t i = 0; i < 2; i++) {
        helper_lane_open(&lanes[i], &feed, "input", i, true);
        helper_lane_put_numbers(&lanes[i], &feed, (int64_t)i * 10, 3);
    }
    helper_lane_end(&lanes[0], &feed);
    helper_expect_numbers(input, &want, "0 1 2 10 11 12"); /* the end of a partition is that of a batch */
    assert_int_equal(give(input, schema, 0, 2, &error), TFOS_OK);
    expect_results(&lanes[0], 2);
    assert_int_equal(give(input, schema, 0, 5, &error), TFOS_MISMATCH);
    assert_non_null(strstr(error.message, "5 results were given, but only 4 rows are without one"));
    helper_feed_hear(&feed);
    assert_int_equal(feed.done, 0); /* rows without a result keep a lane open */
    assert_int_equal(give(input, schema, 0, 4, &error), TFOS_OK);
    expect_results(&lanes[0], 3);
    expect_results(&lanes[1], 3);
    helper_lane_put_numbers(&lanes[1], &feed, 13, 1);
    helper_lane_end(&lanes[1], &feed);
    helper_expect_numbers(input, &want, "13");
    /* The task is gone: its results are not wanted, and that is no error. */
    tfos__lane_close_tail(lanes[1].results);
    assert_int_equal(give(input, schema, 0, 1, &error), TFOS_OK);
    assert_int_equal(give(input, schema, 0, 1, &error), TFOS_MISMATCH);
    helper_feed_say(&feed, TFOS__PACKET_END, "", 0);
    assert_true(tfos_feed_ended(input));
    helper_feed_hear(&feed);
    assert_int_equal(feed.done, 2);
    helper_lane_close(&lanes[0]);
    helper_lane_close(&lanes[1]);
    tfos_schema_free(schema);
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

/* A program that owes results and asks for rows comes to the end all the same; and what nobody wants keeps no lane. */
static void test_results_that_are_owed_keep_nobody_waiting(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lanes[2];
    tfos_schema *schema = helper_number_schema();
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    const tfos_feed_want want = helper_want_rows(10);
    for (size_t i = 0; i < 2; i++) {
        helper_lane_open(&lanes[i], &feed, "input", i, true);
        helper_lane_put_numbers(&lanes[i], &feed, (int64_t)i * 10, 3);
        helper_lane_end(&lanes[i], &feed);
    }
    helper_feed_say(&feed, TFOS__PACKET_END, "", 0);
    helper_expect_numbers(input, &want, "0 1 2 10 11 12");
    tfos__lane_close_tail(lanes[1].results); /* that task is gone */
    helper_expect_status(input, &want, TFOS_END, NULL);
    assert_true(tfos_feed_ended(input));
    helper_feed_hear(&feed);
    assert_int_equal(feed.done, 1);
    assert_int_equal(feed.done_last, 2);
    assert_int_equal(give(input, schema, 0, 6, NULL), TFOS_OK);
    expect_results(&lanes[0], 3);
    helper_lane_close(&lanes[0]);
    helper_lane_close(&lanes[1]);
    tfos_schema_free(schema);
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

/* Many rows, always some without a result, from two lanes in turn: what is remembered of them does not grow. */
static void test_what_is_owed_does_not_pile_up(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lanes[2];
    tfos_schema *schema = helper_number_schema();
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    const tfos_feed_want want = helper_want_rows(1);
    helper_lane_open(&lanes[0], &feed, "input", 0, true);
    helper_lane_open(&lanes[1], &feed, "input", 1, true);
    for (int64_t i = 0; i < 5000; i++) {
        tfos_batch *batch = NULL;
        helper_lane_put_numbers(&lanes[i % 2], &feed, i, 1);
        assert_int_equal(tfos_feed_next(input, &want, &batch, NULL), TFOS_OK);
        tfos_batch_free(batch);
        if (i > 2) {
            assert_int_equal(give(input, schema, i, 1, NULL), TFOS_OK);
            const uint8_t *at;
            size_t bytes;
            bool over;
            assert_int_equal(tfos__lane_peek(lanes[(i - 3) % 2].results, &at, &bytes, &over, NULL), TFOS_OK);
            tfos__lane_release(lanes[(i - 3) % 2].results, bytes);
        }
    }
    tfos__queue_view view;
    tfos__feed_view(input, &view);
    assert_true(view.answers < 100);
    helper_lane_close(&lanes[0]);
    helper_lane_close(&lanes[1]);
    tfos_schema_free(schema);
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

static void test_a_result_larger_than_a_lane(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lane;
    tfos_error error;
    tfos_schema *schema = helper_schema_with("v", TFOS_TYPE_INT64, TFOS_SHAPE_RAGGED, 0);
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    helper_lane_open(&lane, &feed, "input", 0, true);
    helper_lane_put_numbers(&lane, &feed, 0, 1);
    const tfos_feed_want one = helper_want_within(1, 1000);
    helper_expect_numbers(input, &one, "0");
    tfos_batch *batch = lists(schema, (const int[]){100000}, 1);
    assert_int_equal(tfos_feed_put_results(input, batch, NULL, &error), TFOS_LIMIT);
    assert_non_null(strstr(error.message, "feed.lane_bytes"));
    tfos_batch_free(batch);
    tfos_schema_free(schema);
    helper_lane_close(&lane);
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

/* ---- who may ---- */

static void test_bad_wishes(void **state)
{
    (void)state;
    helper_feed feed;
    tfos_feed *opened = NULL;
    tfos_error error;
    helper_feed_open(&feed);
    char longest[TFOS__QUEUE_BYTES + 1];
    memset(longest, 'q', sizeof longest);
    longest[TFOS__QUEUE_BYTES] = '\0';
    assert_int_equal(tfos__feed_new(feed.intake, "", &opened, &error), TFOS_INVALID);
    assert_int_equal(tfos__feed_new(feed.intake, "a,b", &opened, &error), TFOS_INVALID);
    assert_int_equal(tfos__feed_new(feed.intake, longest, &opened, &error), TFOS_INVALID);
    longest[TFOS__QUEUE_BYTES - 1] = '\0';
    assert_int_equal(tfos__feed_new(feed.intake, longest, &opened, &error), TFOS_OK);
    helper_expect_status(opened, &(tfos_feed_want){.rows = 1}, TFOS_INVALID, "tfos_feed_want: its size is 0");
    helper_expect_status(opened, &(tfos_feed_want){.size = 4096}, TFOS_INVALID, "newer version");
    const tfos_feed_want none = helper_want_within(0, 0);
    helper_expect_status(opened, &none, TFOS_INVALID, "at least one row");
    tfos_feed_close(opened);
    unsetenv("TFOS_FEED_FD");
    assert_int_equal(tfos_feed_open("input", &opened, &error), TFOS_NOT_FOUND);
    assert_non_null(strstr(error.message, "InputMode.SPARK"));
    setenv("TFOS_FEED_FD", "5x", 1);
    assert_int_equal(tfos_feed_open("input", &opened, &error), TFOS_NOT_FOUND);
    setenv("TFOS_FEED_FD", "987", 1);
    assert_int_equal(tfos_feed_open("input", &opened, &error), TFOS_IO);
    assert_non_null(strstr(error.message, "TFOS_FEED_FD is 987"));
    unsetenv("TFOS_FEED_FD");
    helper_feed_close(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches_across_lanes),
        cmocka_unit_test(test_another_schema_makes_another_batch),
        cmocka_unit_test(test_columns_as_they_are_wanted),
        cmocka_unit_test(test_epochs_split),
        cmocka_unit_test(test_rows_that_wait_are_for_an_equal_schema),
        cmocka_unit_test(test_one_epoch_by_its_number),
        cmocka_unit_test(test_epochs_joined),
        cmocka_unit_test(test_an_end_that_drops),
        cmocka_unit_test(test_terminate),
        cmocka_unit_test(test_a_wait_that_is_interrupted),
        cmocka_unit_test(test_the_node_is_gone),
        cmocka_unit_test(test_the_schema_comes_by_both_ways),
        cmocka_unit_test(test_results_go_back_to_where_rows_came_from),
        cmocka_unit_test(test_results_that_are_owed_keep_nobody_waiting),
        cmocka_unit_test(test_what_is_owed_does_not_pile_up),
        cmocka_unit_test(test_a_result_larger_than_a_lane),
        cmocka_unit_test(test_bad_wishes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
