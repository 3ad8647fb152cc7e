/* The pump of a task, with a source that is played, against a real coordinator and real nodes. */
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"
#include "helper_cluster.h"
#include "helper_feed.h"

enum { FEW_MS = 20000, MANY = 1 << 30 };

/* ---- a source of numbers ---- */

typedef struct numbers {
    int64_t rows;       /* of the partition; the numbers are those of helper_row_of(0, …) */
    int64_t batch_rows; /* of each batch */
    int64_t fails_at;   /* MANY, or the row before which it fails … */
    tfos_status status; /* … with this … */
    tfos_status at_end; /* … or how it fails when its end is to be proven */
    bool can_skip;
    int64_t row_bytes; /* that it says to hold for each row without a result */
    bool interrupted;
    void (*before)(struct numbers *self); /* NULL, or: called before each batch */
    helper_cluster *it;
    int64_t row; /* the next */
    int64_t asked;
    int64_t skipped;
    int64_t ends; /* how often it was to prove its end */
    int64_t results;
    int64_t held_most;
    int64_t patience_ms;
    tfos_schema *schema;
} numbers;

static tfos_status fail_as(tfos_status status, int64_t row, tfos_error *error)
{
    return tfos__fail(error, status, "row %" PRId64 " of the partition: it is bad", row);
}

static tfos_status next_numbers(void *context, int64_t patience_ms, int64_t held_bytes, tfos_batch **out,
                                tfos_error *error)
{
    numbers *self = context;
    self->asked++;
    self->patience_ms = patience_ms;
    if (self->before != NULL) {
        self->before(self);
    }
    if (self->row >= self->fails_at) {
        return fail_as(self->status, self->row, error);
    }
    int64_t count = tfos__min_i64(self->batch_rows, self->rows - self->row);
    if (self->row_bytes > 0) {
        count = tfos__min_i64(count, held_bytes / self->row_bytes + 1);
    }
    if (count > 0) {
        *out = helper_numbers(self->schema, helper_row_of(0, self->row), count);
    }
    self->row += count;
    self->held_most = tfos__max_i64(self->held_most, (self->row - self->results) * self->row_bytes);
    return self->row < self->rows ? TFOS_OK : TFOS_END;
}

static tfos_status skip_numbers(void *context, int64_t rows, int64_t *skipped, tfos_error *error)
{
    numbers *self = context;
    (void)error;
    assert_int_equal(self->row, 0);
    *skipped = tfos__min_i64(rows, self->rows);
    self->row += *skipped;
    self->skipped += *skipped;
    return TFOS_OK;
}

static tfos_status prove_end(void *context, tfos_error *error)
{
    numbers *self = context;
    self->ends++;
    assert_int_equal(self->row, self->rows);
    return self->at_end != TFOS_OK ? fail_as(self->at_end, self->row, error) : TFOS_OK;
}

static int64_t held_by(void *context)
{
    const numbers *self = context;
    return (self->row - self->results) * self->row_bytes;
}

static bool is_interrupted(void *context)
{
    return ((const numbers *)context)->interrupted;
}

static numbers numbers_of(int64_t rows, int64_t batch_rows)
{
    return (numbers){.rows = rows, .batch_rows = batch_rows, .fails_at = MANY};
}

static tfos_status open_pump(helper_cluster *it, uint64_t feed, numbers *from, tfos_pump **out, tfos_error *error)
{
    static uint64_t attempt;
    uint8_t *ticket = NULL;
    tfos_feeder_options options;
    tfos_pump_source source;
    tfos_feeder_options_init(&options, sizeof options);
    tfos_pump_source_init(&source, sizeof source);
    assert_int_equal(tfos_cluster_feed_ticket(it->cluster, feed, 0, &ticket, &options.ticket_bytes, NULL), TFOS_OK);
    options.ticket = ticket;
    options.attempt = ++attempt;
    options.host = "here";
    options.interrupted = is_interrupted;
    options.interrupted_context = from;
    from->it = it;
    from->schema = helper_number_schema();
    source.context = from;
    source.next = next_numbers;
    source.skip = from->can_skip ? skip_numbers : NULL;
    source.check_end = prove_end;
    source.held_bytes = from->row_bytes > 0 ? held_by : NULL;
    tfos_status status = tfos_pump_open(&options, &source, out, error);
    tfos_string_free(ticket);
    return status;
}

static void close_pump(tfos_pump *pump, numbers *from)
{
    tfos_pump_close(pump);
    tfos_schema_free(from->schema);
}

/* Results must be twice the numbers, in their order. */
static void take_results(numbers *from, tfos_batch *results)
{
    const int64_t *found = tfos_batch_column(results, 0)->data;
    for (int64_t i = 0; i < tfos_batch_rows(results); i++) {
        assert_int_equal(found[i], 2 * helper_row_of(0, from->results + i));
    }
    from->results += tfos_batch_rows(results);
    tfos_batch_free(results);
}

/* All that a task does: END, or how it failed. */
static tfos_status run(helper_cluster *it, uint64_t feed, numbers *from, tfos_error *error)
{
    tfos_pump *pump = NULL;
    tfos_batch *results;
    tfos_status status = open_pump(it, feed, from, &pump, error);
    while (status == TFOS_OK && (status = tfos_pump_next(pump, &results, error)) == TFOS_OK) {
        take_results(from, results);
    }
    if (pump != NULL) { /* what has come to an end stays so */
        tfos_error again;
        assert_int_equal(tfos_pump_next(pump, &results, &again), status);
        assert_true(status == TFOS_END || strcmp(again.message, error->message) == 0);
    }
    close_pump(pump, from);
    return status;
}

static void expect_end(helper_cluster *it, uint64_t feed, numbers *from)
{
    tfos_error error;
    tfos_status status = run(it, feed, from, &error);
    if (status != TFOS_END) {
        fail_msg("%s: %s", tfos_status_name(status), error.message);
    }
}

/* The driver hears that the feed, or an attempt at it, came to this. */
static void expect_event(helper_cluster *it, const char *what, uint64_t feed, const char *words)
{
    char event[256];
    snprintf(event, sizeof event, "%s %" PRIu64 "/0: %s", what, feed, words);
    helper_cluster_expect_event(it, event, FEW_MS);
}

static void expect_no_event(helper_cluster *it, const char *text)
{
    helper_cluster_pump(it, 300);
    tfos__buffer_append(&it->feed_events, "", 1, NULL);
    it->feed_events.size--;
    assert_null(strstr((const char *)it->feed_events.data, text));
}

static uint64_t begin(helper_cluster *it, const char *mode, int64_t batch_rows, bool inference)
{
    tfos_feed_options options = helper_feed_of(1);
    options.inference = inference;
    helper_cluster_open(it, 1, mode, batch_rows, NULL);
    return helper_cluster_begin(it, &options);
}

static void expect_rows_once(helper_cluster *it, int64_t rows)
{
    helper_cluster_wait_over(it);
    helper_cluster_expect_rows(it, &rows, 1, 1);
    helper_cluster_abandon(it);
}

/* ---- training ---- */

static void test_rows_come_in_their_order(void **state)
{
    (void)state;
    helper_cluster it;
    size_t count;
    uint64_t feed = begin(&it, "take", 100, false);
    numbers from = numbers_of(1234, 100);
    expect_end(&it, feed, &from);
    assert_int_equal(from.ends, 1);
    assert_int_equal(from.asked, 13);
    helper_cluster_wait_over(&it);
    int64_t *rows = helper_cluster_rows(&it, 0, &count);
    assert_int_equal(count, 1234 + 1);
    for (size_t i = 0; i < 1234; i++) {
        assert_int_equal(rows[i], i);
    }
    free(rows);
    helper_cluster_abandon(&it);
}

static void test_no_rows(void **state)
{
    (void)state;
    helper_cluster it;
    uint64_t feed = begin(&it, "take", 100, false);
    numbers from = numbers_of(0, 100);
    expect_end(&it, feed, &from);
    assert_int_equal(from.ends, 1);
    expect_rows_once(&it, 0);
}

/* The partition has been fed: whoever comes then computes nothing. */
static void test_nothing_to_do(void **state)
{
    (void)state;
    helper_cluster it;
    uint64_t feed = begin(&it, "take", 100, false);
    numbers from = numbers_of(10, 10);
    expect_end(&it, feed, &from);
    numbers late = numbers_of(10, 10);
    tfos_pump *pump = NULL;
    tfos_error error;
    assert_int_equal(open_pump(&it, feed, &late, &pump, &error), TFOS_END);
    assert_null(pump);
    assert_int_equal(late.asked, 0);
    close_pump(pump, &late);
    expect_rows_once(&it, 10);
}

/* A source has less than a batch and is asked again: the program has the rows by then, and did not wait for others. */
static void await_rows(numbers *self)
{
    int64_t deadline = tfos__clock_ms() + FEW_MS;
    while ((int64_t)helper_cluster_count(self->it) < self->row) {
        assert_true(tfos__clock_ms() < deadline);
        poll(NULL, 0, 2);
    }
}

static void test_rows_that_come_slowly_do_not_wait_for_others(void **state)
{
    (void)state;
    helper_cluster it;
    uint64_t feed = begin(&it, "take", 1, false);
    numbers from = numbers_of(3, 1);
    from.before = await_rows;
    expect_end(&it, feed, &from);
    assert_true(from.patience_ms > 0 && from.patience_ms <= 100);
    expect_rows_once(&it, 3);
}

static void test_a_program_that_wants_no_more(void **state)
{
    (void)state;
    helper_cluster it;
    uint64_t feed = begin(&it, "take:50", 50, false);
    numbers from = numbers_of(1 << 24, 1000);
    expect_end(&it, feed, &from);
    assert_true(from.row < from.rows);
    assert_int_equal(from.ends, 0);
    helper_cluster_close(&it);
}

/* The first attempt fails midway, the second one goes on behind its last row. */
static void take_over(bool can_skip)
{
    helper_cluster it;
    tfos_error error;
    uint64_t feed = begin(&it, "take", 50, false);
    numbers first = numbers_of(1000, 100);
    first.fails_at = 300;
    first.status = TFOS_RAISED;
    assert_int_equal(run(&it, feed, &first, &error), TFOS_RAISED);
    numbers second = numbers_of(1000, 100);
    second.can_skip = can_skip;
    expect_end(&it, feed, &second);
    assert_int_equal(second.skipped, can_skip ? 300 : 0);
    assert_int_equal(second.asked, can_skip ? 7 : 10);
    expect_rows_once(&it, 1000);
}

static void test_what_was_fed_is_skipped(void **state)
{
    (void)state;
    take_over(true);
    take_over(false);
}

/* It is not computed in the same way every time, and has lost rows that were fed. */
static void test_a_partition_that_has_shrunk(void **state)
{
    (void)state;
    helper_cluster it;
    tfos_error error;
    uint64_t feed = begin(&it, "take", 50, false);
    numbers first = numbers_of(1000, 100);
    first.fails_at = 300;
    first.status = TFOS_RAISED;
    assert_int_equal(run(&it, feed, &first, &error), TFOS_RAISED);
    numbers second = numbers_of(200, 100);
    second.can_skip = true;
    assert_int_equal(run(&it, feed, &second, &error), TFOS_MISMATCH);
    assert_non_null(strstr(error.message, "partition 0 has 200 rows now, but an earlier attempt has fed 300"));
    expect_event(&it, "failed", feed, "partition 0 has 200 rows now");
    helper_cluster_close(&it);
}

/* ---- errors ---- */

/* Another attempt would meet the same: the whole feed fails, and the partition is named once. */
static void test_a_row_that_cannot_be_fed(void **state)
{
    (void)state;
    static const char words[] = "partition 0: row 300 of the partition: it is bad";
    helper_cluster it;
    tfos_error error;
    uint64_t feed = begin(&it, "take", 50, false);
    numbers from = numbers_of(1000, 100);
    from.fails_at = 300;
    from.status = TFOS_RANGE;
    assert_int_equal(run(&it, feed, &from, &error), TFOS_RANGE);
    assert_int_equal(error.fault, TFOS_FAULT_FINAL);
    assert_string_equal(error.message, words);
    expect_event(&it, "failed", feed, "partition 0: row 300 of the partition: it is bad\n");
    expect_no_event(&it, "abandoned");
    /* The next attempt is told at once, and asks for nothing. */
    numbers next = numbers_of(1000, 100);
    assert_int_equal(run(&it, feed, &next, &error), TFOS_RANGE);
    assert_string_equal(error.message, words);
    assert_int_equal(next.asked, 0);
    helper_cluster_close(&it);
}

/* Code of the user's fails: the driver hears of it, and Spark may try again. */
static void test_code_that_raises(void **state)
{
    (void)state;
    helper_cluster it;
    tfos_error error;
    uint64_t feed = begin(&it, "take", 50, false);
    numbers from = numbers_of(1000, 100);
    from.fails_at = 0;
    from.status = TFOS_RAISED;
    assert_int_equal(run(&it, feed, &from, &error), TFOS_RAISED);
    assert_string_equal(error.message, "partition 0: row 0 of the partition: it is bad");
    expect_event(&it, "abandoned", feed, "partition 0: row 0 of the partition: it is bad\n");
    expect_no_event(&it, "failed");
    numbers next = numbers_of(1000, 100);
    expect_end(&it, feed, &next);
    expect_rows_once(&it, 1000);
}

static void interrupt_third(numbers *self)
{
    self->interrupted = self->asked == 3;
}

/* A task that is killed has no fault: neither what it is told nor what its code makes of that is passed on. */
static void test_a_task_that_is_interrupted(void **state)
{
    (void)state;
    helper_cluster it;
    tfos_error error;
    uint64_t feed = begin(&it, "take", 50, false);
    numbers cancelled = numbers_of(1000, 100);
    cancelled.before = interrupt_third;
    assert_int_equal(run(&it, feed, &cancelled, &error), TFOS_CANCELLED);
    assert_int_equal(cancelled.asked, 3);
    numbers raising = numbers_of(1000, 100);
    raising.before = interrupt_third;
    raising.fails_at = 200;
    raising.status = TFOS_RAISED;
    assert_int_equal(run(&it, feed, &raising, &error), TFOS_CANCELLED);
    expect_no_event(&it, "abandoned");
    expect_no_event(&it, "failed");
    numbers next = numbers_of(1000, 100);
    expect_end(&it, feed, &next);
    expect_rows_once(&it, 1000);
}

/* Rows break off as if there were no more: the partition is not finished, and the next attempt has the rest. */
static void test_an_end_that_is_none(void **state)
{
    (void)state;
    helper_cluster it;
    tfos_error error;
    uint64_t feed = begin(&it, "take", 50, false);
    numbers broken = numbers_of(400, 100);
    broken.at_end = TFOS_RAISED;
    assert_int_equal(run(&it, feed, &broken, &error), TFOS_RAISED);
    assert_int_equal(broken.ends, 1);
    expect_event(&it, "abandoned", feed, "partition 0: row 400");
    expect_no_event(&it, "exhausted");
    numbers whole = numbers_of(1000, 100);
    whole.can_skip = true;
    expect_end(&it, feed, &whole);
    assert_int_equal(whole.skipped, 400);
    expect_rows_once(&it, 1000);
}

/* ---- inference ---- */

static void test_results_come_in_the_order_of_the_rows(void **state)
{
    (void)state;
    helper_cluster it;
    uint64_t feed = begin(&it, "infer", 64, true);
    numbers from = numbers_of(10000, 300);
    expect_end(&it, feed, &from);
    assert_int_equal(from.results, 10000);
    assert_int_equal(from.ends, 1);
    numbers none = numbers_of(0, 300);
    expect_end(&it, feed, &none);
    assert_int_equal(none.results, 0);
    helper_cluster_close(&it);
}

/* What is held for rows without results stays little … */
static void test_what_is_held_is_bounded(void **state)
{
    (void)state;
    helper_cluster it;
    uint64_t feed = begin(&it, "infer", 1, true);
    numbers from = numbers_of(2000, 100);
    from.row_bytes = 1 << 20;
    expect_end(&it, feed, &from);
    assert_int_equal(from.results, 2000);
    assert_true(from.held_most > 0);
    if (from.held_most > 48 << 20) {
        fail_msg("%" PRId64 " bytes were held", from.held_most);
    }
    helper_cluster_close(&it);
}

/* … unless the program needs more rows than that to give any results. */
static void test_a_program_that_needs_many_rows(void **state)
{
    (void)state;
    helper_cluster it;
    uint64_t feed = begin(&it, "infer", 200, true);
    numbers from = numbers_of(1000, 100);
    from.row_bytes = 1 << 20;
    expect_end(&it, feed, &from);
    assert_int_equal(from.results, 1000);
    assert_true(from.held_most >= (int64_t)200 << 20);
    helper_cluster_close(&it);
}

/* Whoever has enough leaves: the rest is not computed, and the next attempt gets all of its own. */
static void test_results_that_nobody_wants(void **state)
{
    (void)state;
    helper_cluster it;
    tfos_pump *pump = NULL;
    tfos_batch *results = NULL;
    tfos_error error;
    uint64_t feed = begin(&it, "infer", 100, true);
    numbers from = numbers_of(1 << 24, 100);
    assert_int_equal(open_pump(&it, feed, &from, &pump, &error), TFOS_OK);
    assert_int_equal(from.asked, 0);
    assert_int_equal(tfos_pump_next(pump, &results, &error), TFOS_OK);
    take_results(&from, results);
    assert_true(from.row < from.rows);
    close_pump(pump, &from);
    expect_no_event(&it, "abandoned");
    numbers next = numbers_of(500, 100);
    expect_end(&it, feed, &next);
    assert_int_equal(next.results, 500);
    helper_cluster_close(&it);
}

static void test_results_that_cannot_be_used(void **state)
{
    (void)state;
    helper_cluster it;
    tfos_pump *pump = NULL;
    tfos_batch *results = NULL;
    tfos_error error;
    uint64_t feed = begin(&it, "infer", 100, true);
    numbers from = numbers_of(100, 100);
    assert_int_equal(open_pump(&it, feed, &from, &pump, &error), TFOS_OK);
    assert_int_equal(tfos_pump_next(pump, &results, &error), TFOS_OK);
    tfos_batch_free(results);
    tfos__fail(&error, TFOS_MISMATCH, "result 3: it is text");
    tfos_pump_give_up(pump, &error);
    assert_string_equal(error.message, "partition 0: result 3: it is text");
    helper_cluster_expect_event(&it, "partition 0: result 3: it is text\n", FEW_MS);
    close_pump(pump, &from);
    helper_cluster_close(&it);
}

static void test_rows_without_results(void **state)
{
    (void)state;
    helper_cluster it;
    tfos_error error;
    uint64_t feed = begin(&it, "few:150", 50, true);
    numbers from = numbers_of(150, 150);
    tfos_status status = run(&it, feed, &from, &error);
    assert_int_equal(status, TFOS_MISMATCH);
    assert_non_null(strstr(error.message, "partition 0"));
    helper_cluster_close(&it);
}

int main(int argc, char **argv)
{
    helper_program_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_come_in_their_order),
        cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_nothing_to_do),
        cmocka_unit_test(test_rows_that_come_slowly_do_not_wait_for_others),
        cmocka_unit_test(test_a_program_that_wants_no_more),
        cmocka_unit_test(test_what_was_fed_is_skipped),
        cmocka_unit_test(test_a_partition_that_has_shrunk),
        cmocka_unit_test(test_a_row_that_cannot_be_fed),
        cmocka_unit_test(test_code_that_raises),
        cmocka_unit_test(test_a_task_that_is_interrupted),
        cmocka_unit_test(test_an_end_that_is_none),
        cmocka_unit_test(test_results_come_in_the_order_of_the_rows),
        cmocka_unit_test(test_what_is_held_is_bounded),
        cmocka_unit_test(test_a_program_that_needs_many_rows),
        cmocka_unit_test(test_results_that_nobody_wants),
        cmocka_unit_test(test_results_that_cannot_be_used),
        cmocka_unit_test(test_rows_without_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
