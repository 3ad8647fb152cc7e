/* The ledger, told stories: who is let in, who waits, who is sent home, and what is known about rows when somebody
 * dies. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "feed/ledger.h"

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

/* ---- what the ledger said, as text ---- */

typedef struct story {
    tfos__ledger *ledger;
    char said[4096];
    tfos_error error; /* the last one */
} story;

static void say(story *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(story *s, const char *format, ...)
{
    va_list arguments;
    size_t count = strlen(s->said);
    va_start(arguments, format);
    vsnprintf(s->said + count, sizeof s->said - count, format, arguments);
    va_end(arguments);
}

static void on_answer(void *context, uint64_t producer, tfos__admission admission, uint64_t fed,
                      const tfos_error *error)
{
    static const char *const names[] = {"granted", "complete", "ended", "failed"};
    story *s = context;
    assert_int_equal(admission == TFOS__ADMISSION_FAILED, error != NULL);
    say(s, "%" PRIu64 " %s", producer, names[admission]);
    if (admission == TFOS__ADMISSION_GRANTED) {
        say(s, " from %" PRIu64, fed);
    } else {
        assert_int_equal(fed, 0);
    }
    if (error != NULL) {
        s->error = *error;
    }
    say(s, "; ");
}

static void on_fence(void *context, const tfos__attempt *attempt)
{
    say(context, "fence %" PRIu64 "/%" PRIu64 "/%" PRIu64 "#%" PRIu64 "; ", attempt->feed, attempt->epoch,
        attempt->partition, attempt->attempt);
}

static void on_mark(void *context, uint64_t feed, uint64_t epoch)
{
    say(context, "mark %" PRIu64 "/%" PRIu64 "; ", feed, epoch);
}

static void on_consumed(void *context, uint64_t feed, uint64_t epoch)
{
    say(context, "consumed %" PRIu64 "/%" PRIu64 "; ", feed, epoch);
}

static void on_stop(void *context, uint64_t producer)
{
    say(context, "stop %" PRIu64 "; ", producer);
}

static void expect_at(story *s, const char *expected, int line)
{
    if (strcmp(s->said, expected) != 0) {
        print_error("line %d: the ledger said \"%s\", not \"%s\"\n", line, s->said, expected);
        fail();
    }
    s->said[0] = '\0';
}

#define expect(s, text) expect_at(s, text, __LINE__)

static void start(story *s)
{
    const tfos__ledger_calls calls = {.answer = on_answer,
                                      .fence = on_fence,
                                      .mark = on_mark,
                                      .consumed = on_consumed,
                                      .stop = on_stop,
                                      .context = s};
    memset(s, 0, sizeof *s);
    assert_int_equal(tfos__ledger_new(&calls, &s->ledger, NULL), TFOS_OK);
}

typedef enum order { DETERMINATE, INDETERMINATE, AGAIN } order;

/* Opens feed 1 and begins its epoch 0. */
static void start_feed(story *s, uint64_t partitions, order kind)
{
    const tfos__ledger_feed feed = {
        .feed = 1, .partitions = partitions, .determinate = kind == DETERMINATE, .again = kind == AGAIN};
    start(s);
    assert_int_equal(tfos__ledger_open(s->ledger, &feed, NULL), TFOS_OK);
    assert_int_equal(tfos__ledger_begin(s->ledger, 1, 0, NULL), TFOS_OK);
}

/* Producers have the numbers of their attempts, unless a test says otherwise. */
static void admit(story *s, uint64_t producer, uint64_t partition)
{
    const tfos__attempt attempt = {.feed = 1, .epoch = 0, .partition = partition, .attempt = producer};
    tfos__ledger_admit(s->ledger, producer, &attempt);
}

static void leave(story *s, uint64_t producer, size_t count)
{
    static const uint32_t nodes[] = {0, 64, 130, 7};
    tfos__ledger_leave(s->ledger, producer, nodes, count);
}

static void fenced(story *s, uint64_t attempt, uint64_t partition, uint32_t node, uint64_t fed)
{
    const tfos__attempt which = {.feed = 1, .epoch = 0, .partition = partition, .attempt = attempt};
    tfos__ledger_fenced(s->ledger, &which, node, fed);
}

/* Of a lane of an attempt in an epoch of feed 1. */
static void settle_in(story *s, uint64_t epoch, uint64_t attempt, uint64_t partition, uint64_t consumed,
                      uint64_t dropped)
{
    const tfos__attempt which = {.feed = 1, .epoch = epoch, .partition = partition, .attempt = attempt};
    tfos__ledger_settle(s->ledger, &which, consumed, dropped);
}

static void settle(story *s, uint64_t attempt, uint64_t partition, uint64_t consumed)
{
    settle_in(s, 0, attempt, partition, consumed, 0);
}

static tfos__ledger_counts counts_of(const story *s)
{
    tfos__ledger_counts counts;
    assert_true(tfos__ledger_count(s->ledger, 1, &counts));
    return counts;
}

static void expect_partition(const story *s, uint64_t partition, tfos__partition_state state, uint64_t rows,
                             uint64_t attempts, uint64_t fed)
{
    tfos__partition_view view;
    assert_true(tfos__ledger_partition(s->ledger, 1, partition, &view));
    assert_int_equal(view.state, state);
    assert_int_equal(view.rows, rows);
    assert_int_equal(view.attempts, attempts);
    assert_int_equal(view.fed, fed);
}

static void expect_rows(const story *s, uint64_t partition, uint64_t sent, uint64_t consumed, uint64_t skipped)
{
    tfos__partition_view view;
    assert_true(tfos__ledger_partition(s->ledger, 1, partition, &view));
    assert_int_equal(view.sent, sent);
    assert_int_equal(view.consumed, consumed);
    assert_int_equal(view.skipped, skipped);
}

/* ---- the usual ---- */

static void test_progress_is_reported(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 2, DETERMINATE);
    admit(&s, 10, 0);
    admit(&s, 11, 1);
    admit(&s, 12, 1); /* parked: it has fed nothing */
    tfos__ledger_progress(s.ledger, 10, 50, 20);
    tfos__ledger_progress(s.ledger, 11, 7, 9); /* no more can be consumed than was fed */
    tfos__ledger_progress(s.ledger, 12, 99, 99);
    tfos__ledger_progress(s.ledger, 77, 1, 1);
    expect_rows(&s, 0, 50, 20, 0);
    expect_rows(&s, 1, 7, 7, 0);
    tfos__ledger_exhaust(s.ledger, 10, 60);
    expect_rows(&s, 0, 60, 20, 0);
    tfos__ledger_progress(s.ledger, 10, 60, 50); /* it is gone */
    settle(&s, 10, 0, 40);
    expect_rows(&s, 0, 60, 40, 0);
    expect_partition(&s, 0, TFOS__PARTITION_DRAINING, 60, 1, 0);
    settle_in(&s, 0, 10, 0, 18, 2); /* a program has left two behind */
    expect_rows(&s, 0, 60, 58, 2);
    expect_partition(&s, 0, TFOS__PARTITION_COMPLETE, 60, 1, 0);
    tfos__ledger_end(s.ledger, 1);
    tfos__ledger_progress(s.ledger, 11, 9, 8);
    expect_rows(&s, 1, 9, 8, 0); /* it may still be taken */
    leave(&s, 11, 0);
    expect_rows(&s, 1, 9, 8, 1);
    tfos__ledger_close(s.ledger, 1);
    expect_rows(&s, 1, 9, 8, 1);
    tfos__ledger_free(s.ledger);
}

static void test_partitions_of_old_feeds_are_forgotten(void **state)
{
    (void)state;
    enum { FEEDS = 5, PARTITIONS = 1 << 16 };
    story s;
    tfos__partition_view view;
    start_feed(&s, 1, DETERMINATE);
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
    story s;
    start_feed(&s, 2, DETERMINATE);
    expect_partition(&s, 0, TFOS__PARTITION_IDLE, 0, 0, 0);
    admit(&s, 10, 0);
    expect(&s, "10 granted from 0; ");
    expect_partition(&s, 0, TFOS__PARTITION_FEEDING, 0, 1, 0);
    admit(&s, 11, 1);
    expect(&s, "11 granted from 0; ");
    assert_int_equal(counts_of(&s).feeding, 2);
    tfos__ledger_exhaust(s.ledger, 10, 100);
    expect(&s, "10 complete; "); /* it does not wait until they are consumed */
    expect_partition(&s, 0, TFOS__PARTITION_DRAINING, 100, 1, 0);
    assert_int_equal(counts_of(&s).unsettled, 100);
    tfos__ledger_exhaust(s.ledger, 11, 0);
    expect(&s, "11 complete; mark 1/0; "); /* before the last rows are consumed */
    expect_partition(&s, 1, TFOS__PARTITION_COMPLETE, 0, 1, 0);
    leave(&s, 10, 3);
    leave(&s, 11, 3);
    settle(&s, 10, 0, 60);
    expect(&s, "");
    assert_int_equal(counts_of(&s).unsettled, 40);
    settle(&s, 10, 0, 40);
    expect(&s, "consumed 1/0; ");
    expect_partition(&s, 0, TFOS__PARTITION_COMPLETE, 100, 1, 0);
    tfos__ledger_counts counts = counts_of(&s);
    assert_int_equal(counts.partitions, 2);
    assert_int_equal(counts.complete, 2);
    assert_int_equal(counts.exhausted, 2);
    assert_int_equal(counts.unsettled, 0);
    assert_int_equal(counts.feeding, 0);
    assert_int_equal(counts.rows, 100);
    assert_int_equal(counts.takeovers, 0);
    assert_false(counts.ended || counts.failed);
    admit(&s, 12, 0);
    expect(&s, "12 complete; ");
    tfos__ledger_free(s.ledger);
}

static void test_a_feed_without_partitions(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 0, DETERMINATE);
    expect(&s, "mark 1/0; consumed 1/0; ");
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 1, NULL), TFOS_OK);
    expect(&s, "mark 1/1; consumed 1/1; ");
    admit(&s, 10, 0);
    expect(&s, "10 failed; ");
    tfos__ledger_free(s.ledger);
}

static void test_what_is_out_of_turn_changes_nothing(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 1, DETERMINATE);
    tfos__ledger_exhaust(s.ledger, 10, 5);
    leave(&s, 10, 2);
    tfos__ledger_fail(s.ledger, 10, &s.error);
    settle_in(&s, 1, 10, 0, 5, 0); /* no such epoch, … */
    tfos__ledger_settle(s.ledger, &(tfos__attempt){.feed = 9}, 5, 0);
    admit(&s, 10, 0);
    admit(&s, 11, 0);
    expect(&s, "10 granted from 0; ");
    tfos__ledger_exhaust(s.ledger, 11, 5); /* it waits */
    tfos__ledger_fail(s.ledger, 11, &s.error);
    expect(&s, "");
    expect_partition(&s, 0, TFOS__PARTITION_FEEDING, 0, 1, 0);
    tfos__ledger_exhaust(s.ledger, 10, 5);
    tfos__ledger_exhaust(s.ledger, 10, 9); /* it has said so */
    tfos__ledger_fail(s.ledger, 10, &s.error);
    expect(&s, "10 complete; 11 complete; mark 1/0; ");
    expect_partition(&s, 0, TFOS__PARTITION_DRAINING, 5, 1, 0);
    assert_int_equal(counts_of(&s).rows, 5);
    tfos__ledger_free(s.ledger);
}

static void test_a_producer_asks_twice(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 2, DETERMINATE);
    admit(&s, 10, 0);
    admit(&s, 10, 0);
    expect(&s, "10 granted from 0; 10 granted from 0; ");
    admit(&s, 11, 0);
    admit(&s, 11, 0);
    expect(&s, ""); /* parked once */
    assert_int_equal(counts_of(&s).waiting, 1);
    assert_int_equal(counts_of(&s).feeding, 1);
    admit(&s, 10, 1);
    expect(&s, "10 failed; ");
    assert_non_null(strstr(s.error.message, "feeds partition 0 of feed 1"));
    expect_partition(&s, 0, TFOS__PARTITION_FEEDING, 0, 1, 0);
    expect_partition(&s, 1, TFOS__PARTITION_IDLE, 0, 0, 0);
    tfos__ledger_free(s.ledger);
}

/* ---- dying ---- */

static void test_the_next_goes_on_where_one_died(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 1, DETERMINATE);
    admit(&s, 10, 0);
    leave(&s, 10, 3);
    expect(&s, "10 granted from 0; fence 1/0/0#10; ");
    expect_partition(&s, 0, TFOS__PARTITION_FENCING, 0, 1, 0);
    admit(&s, 11, 0);
    fenced(&s, 10, 0, 64, 30);
    fenced(&s, 10, 0, 130, 50);
    expect(&s, "");
    assert_int_equal(counts_of(&s).feeding, 0);
    assert_int_equal(counts_of(&s).waiting, 1);
    fenced(&s, 10, 0, 0, 40);
    expect(&s, "11 granted from 50; ");
    expect_partition(&s, 0, TFOS__PARTITION_FEEDING, 0, 2, 50);
    /* This one feeds nothing: nodes know of no row of it. */
    leave(&s, 11, 1);
    fenced(&s, 11, 0, 0, 0);
    expect_partition(&s, 0, TFOS__PARTITION_IDLE, 0, 2, 50);
    admit(&s, 12, 0);
    expect(&s, "fence 1/0/0#11; 12 granted from 50; ");
    assert_int_equal(counts_of(&s).takeovers, 2);
    tfos__ledger_exhaust(s.ledger, 12, 60);
    expect(&s, "12 complete; mark 1/0; ");
    /* What is left of those who died counts as well. */
    settle(&s, 12, 0, 10);
    settle(&s, 10, 0, 20);
    expect(&s, "");
    settle(&s, 10, 0, 30);
    expect(&s, "consumed 1/0; ");
    tfos__ledger_free(s.ledger);
}

static void test_answers_that_are_not_waited_for(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 1, DETERMINATE);
    admit(&s, 10, 0);
    fenced(&s, 10, 0, 0, 15); /* nobody asked yet */
    leave(&s, 10, 3);
    admit(&s, 11, 0);
    expect(&s, "10 granted from 0; fence 1/0/0#10; ");
    fenced(&s, 10, 0, 64, 30);
    fenced(&s, 10, 0, 64, 30);   /* twice */
    fenced(&s, 10, 0, 64, 90);   /* and not to be believed */
    fenced(&s, 10, 0, 65, 90);   /* was not asked */
    fenced(&s, 10, 0, 9999, 90); /* unknown */
    fenced(&s, 11, 0, 0, 90);    /* another attempt */
    fenced(&s, 10, 1, 0, 90);    /* no such partition */
    tfos__ledger_fenced(s.ledger, &(tfos__attempt){.feed = 1, .epoch = 1, .attempt = 10}, 0, 90);
    tfos__ledger_fenced(s.ledger, &(tfos__attempt){.feed = 2, .epoch = 0, .attempt = 10}, 0, 90);
    expect(&s, "");
    fenced(&s, 10, 0, 0, 20);
    fenced(&s, 10, 0, 130, 0);
    expect(&s, "11 granted from 30; ");
    fenced(&s, 10, 0, 130, 95); /* late */
    leave(&s, 11, 1);
    fenced(&s, 10, 0, 0, 95);
    expect(&s, "fence 1/0/0#11; ");
    fenced(&s, 11, 0, 0, 31);
    expect_partition(&s, 0, TFOS__PARTITION_IDLE, 0, 2, 31);
    tfos__ledger_free(s.ledger);
}

static void test_a_node_is_lost_while_it_is_asked(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 3, DETERMINATE);
    admit(&s, 10, 0);
    admit(&s, 11, 1);
    admit(&s, 12, 2);
    leave(&s, 10, 1);
    leave(&s, 11, 2);
    leave(&s, 12, 2);
    admit(&s, 20, 0);
    admit(&s, 21, 1);
    fenced(&s, 11, 1, 64, 8);
    s.said[0] = '\0';
    tfos__ledger_lose(s.ledger, 5);
    expect(&s, "");
    tfos__ledger_lose(s.ledger, 0);
    expect(&s, "21 granted from 8; 20 granted from 0; ");
    expect_partition(&s, 2, TFOS__PARTITION_FENCING, 0, 1, 0);
    tfos__ledger_lose(s.ledger, 0); /* again */
    expect_partition(&s, 2, TFOS__PARTITION_FENCING, 0, 1, 0);
    fenced(&s, 12, 2, 64, 3);
    expect_partition(&s, 2, TFOS__PARTITION_IDLE, 0, 1, 3);
    tfos__ledger_free(s.ledger);
}

static void test_leaving_where_no_nodes_are(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 1, DETERMINATE);
    admit(&s, 10, 0);
    admit(&s, 11, 0);
    leave(&s, 10, 0);
    expect(&s, "10 granted from 0; 11 granted from 0; ");
    leave(&s, 11, 0);
    expect_partition(&s, 0, TFOS__PARTITION_IDLE, 0, 2, 0);
    assert_int_equal(counts_of(&s).takeovers, 0);
    tfos__ledger_free(s.ledger);
}

static void test_one_that_waits_leaves(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 1, DETERMINATE);
    for (uint64_t producer = 10; producer < 16; producer++) {
        admit(&s, producer, 0);
    }
    leave(&s, 11, 2); /* the first of them */
    leave(&s, 15, 2); /* the last */
    leave(&s, 13, 2);
    expect(&s, "10 granted from 0; ");
    assert_int_equal(counts_of(&s).waiting, 2);
    leave(&s, 10, 0);
    expect(&s, "12 granted from 0; ");
    leave(&s, 12, 0);
    expect(&s, "14 granted from 0; ");
    leave(&s, 14, 0);
    assert_int_equal(counts_of(&s).waiting, 0);
    admit(&s, 16, 0);
    expect(&s, "16 granted from 0; ");
    tfos__ledger_free(s.ledger);
}

static void test_speculation(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 1, DETERMINATE);
    admit(&s, 10, 0);
    admit(&s, 11, 0);
    tfos__ledger_exhaust(s.ledger, 10, 7);
    admit(&s, 12, 0);
    expect(&s, "10 granted from 0; 10 complete; 11 complete; mark 1/0; 12 complete; ");
    assert_int_equal(counts_of(&s).waiting, 0);
    leave(&s, 11, 2);
    leave(&s, 12, 2);
    expect(&s, "");
    tfos__ledger_free(s.ledger);
}

static void test_dying_when_all_is_in_lanes(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 1, DETERMINATE);
    admit(&s, 10, 0);
    leave(&s, 10, 1);
    expect(&s, "10 granted from 0; fence 1/0/0#10; ");
    fenced(&s, 10, 0, 0, 7); /* it could not say any more that these are all */
    expect_partition(&s, 0, TFOS__PARTITION_IDLE, 0, 1, 7);
    settle(&s, 10, 0, 7);
    admit(&s, 11, 0);
    expect(&s, "11 granted from 7; ");
    tfos__ledger_exhaust(s.ledger, 11, 7);
    expect(&s, "11 complete; mark 1/0; consumed 1/0; ");
    assert_int_equal(counts_of(&s).rows, 7);
    assert_int_equal(counts_of(&s).complete, 1);
    tfos__ledger_free(s.ledger);
}

static void test_an_attempt_that_was_cut_off_cannot_come_back(void **state)
{
    (void)state;
    story s;
    const tfos__attempt attempt = {.feed = 1, .epoch = 0, .partition = 0, .attempt = 10};
    start_feed(&s, 1, DETERMINATE);
    admit(&s, 10, 0);
    tfos__ledger_admit(s.ledger, 20, &attempt); /* while its first connection seems alive */
    expect(&s, "10 granted from 0; 20 failed; ");
    assert_true(s.error.retriable);
    leave(&s, 10, 0);
    tfos__ledger_admit(s.ledger, 21, &attempt);
    expect(&s, "21 failed; ");
    /* Two connections of one attempt wait. */
    admit(&s, 11, 0);
    admit(&s, 12, 0);
    tfos__ledger_admit(s.ledger, 22, &(tfos__attempt){.feed = 1, .attempt = 12});
    leave(&s, 11, 0);
    leave(&s, 12, 0);
    expect(&s, "11 granted from 0; 12 granted from 0; 22 failed; ");
    assert_int_equal(counts_of(&s).waiting, 0);
    tfos__ledger_free(s.ledger);
}

static void test_a_partition_changes_when_it_is_computed_again(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 2, DETERMINATE);
    admit(&s, 10, 0);
    leave(&s, 10, 1);
    fenced(&s, 10, 0, 0, 5);
    admit(&s, 11, 0);
    s.said[0] = '\0';
    tfos__ledger_exhaust(s.ledger, 11, 4);
    expect(&s, "11 failed; ");
    assert_int_equal(s.error.status, TFOS_MISMATCH);
    assert_non_null(strstr(s.error.message, "partition 0 of feed 1 had at least 5 rows"));
    assert_non_null(strstr(s.error.message, "has 4"));
    assert_true(counts_of(&s).failed);
    tfos__ledger_free(s.ledger);
}

/* ---- indeterminate order ---- */

static void test_indeterminate_order(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 2, INDETERMINATE);
    admit(&s, 10, 1);
    leave(&s, 10, 1);
    admit(&s, 11, 1);
    fenced(&s, 10, 1, 0, 0);
    expect(&s, "10 granted from 0; fence 1/0/1#10; 11 granted from 0; "); /* nothing was fed */
    leave(&s, 11, 1);
    admit(&s, 12, 1);
    admit(&s, 13, 1);
    fenced(&s, 11, 1, 0, 123);
    expect(&s, "fence 1/0/1#11; 12 failed; 13 failed; ");
    assert_int_equal(s.error.status, TFOS_UNSUPPORTED);
    assert_non_null(strstr(s.error.message, "partition 1 of feed 1"));
    assert_non_null(strstr(s.error.message, "123 rows"));
    assert_non_null(strstr(s.error.message, "Spark calls the order of this data indeterminate"));
    assert_non_null(strstr(s.error.message, "localCheckpoint()"));
    assert_non_null(strstr(s.error.message, "retry=\"again\""));
    admit(&s, 14, 1);
    expect(&s, "14 failed; ");
    assert_int_equal(counts_of(&s).waiting, 0);
    tfos__ledger_free(s.ledger);
}

static void test_indeterminate_order_matters_not_when_all_is_fed(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 1, INDETERMINATE);
    admit(&s, 10, 0);
    tfos__ledger_exhaust(s.ledger, 10, 9);
    leave(&s, 10, 1);
    admit(&s, 11, 0);
    settle(&s, 10, 0, 9);
    expect(&s, "10 granted from 0; 10 complete; mark 1/0; 11 complete; consumed 1/0; ");
    assert_int_equal(counts_of(&s).complete, 1);
    tfos__ledger_free(s.ledger);
}

static void test_feeding_again(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 1, AGAIN);
    admit(&s, 10, 0);
    leave(&s, 10, 1);
    fenced(&s, 10, 0, 0, 30);
    admit(&s, 11, 0);
    expect(&s, "10 granted from 0; fence 1/0/0#10; 11 granted from 0; ");
    assert_int_equal(counts_of(&s).duplicates, 30);
    tfos__ledger_exhaust(s.ledger, 11, 50);
    leave(&s, 11, 1);
    admit(&s, 12, 0);
    expect(&s, "11 complete; mark 1/0; 12 complete; ");
    assert_int_equal(counts_of(&s).rows, 50);
    assert_int_equal(counts_of(&s).takeovers, 0);
    /* The duplicates are rows in lanes like others. */
    settle(&s, 11, 0, 50);
    expect(&s, "");
    settle(&s, 10, 0, 30);
    expect(&s, "consumed 1/0; ");
    expect_rows(&s, 0, 80, 80, 0);
    tfos__ledger_free(s.ledger);
}

/* ---- epochs and feeds ---- */

/* Every partition of an epoch of feed 1 is fed, with so many rows; nothing of what is said is kept. */
static void feed_all(story *s, uint64_t epoch, uint64_t partitions, uint64_t rows)
{
    for (uint64_t i = 0; i < partitions; i++) {
        uint64_t producer = 1000 + 100 * epoch + i;
        tfos__ledger_admit(s->ledger, producer,
                           &(tfos__attempt){.feed = 1, .epoch = epoch, .partition = i, .attempt = producer});
        tfos__ledger_exhaust(s->ledger, producer, rows);
    }
    s->said[0] = '\0';
}

static void test_what_a_driver_may_not(void **state)
{
    (void)state;
    story s;
    tfos_error error;
    start_feed(&s, 1, DETERMINATE);
    assert_int_equal(tfos__ledger_open(s.ledger, &(tfos__ledger_feed){.feed = 1}, &error), TFOS_INVALID);
    assert_int_equal(tfos__ledger_begin(s.ledger, 2, 0, &error), TFOS_NOT_FOUND);
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 3, &error), TFOS_INVALID);
    assert_non_null(strstr(error.message, "0 of 1 partitions of epoch 0 are fed"));
    feed_all(&s, 0, 1, 0);
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
    story s;
    start_feed(&s, 4, DETERMINATE);
    assert_int_equal(tfos__ledger_open(s.ledger, &(tfos__ledger_feed){.feed = 2, .partitions = 1}, NULL), TFOS_OK);
    feed_all(&s, 0, 4, 1);
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
    story s;
    start_feed(&s, 2, DETERMINATE);
    feed_all(&s, 0, 2, 5);
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 1, NULL), TFOS_OK);
    feed_all(&s, 1, 2, 7);
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 2, NULL), TFOS_OK);
    expect(&s, "");
    expect_partition(&s, 0, TFOS__PARTITION_IDLE, 0, 0, 0);
    assert_int_equal(counts_of(&s).unsettled, 24);
    assert_int_equal(counts_of(&s).epoch, 2);
    /* The second is consumed before the first: that is said when the first is, too. */
    settle_in(&s, 1, 1100, 0, 7, 0);
    settle_in(&s, 1, 1101, 1, 7, 0);
    settle_in(&s, 0, 1000, 0, 5, 0);
    expect(&s, "");
    expect_partition(&s, 0, TFOS__PARTITION_IDLE, 0, 0, 0); /* of the third */
    settle_in(&s, 0, 1001, 1, 5, 0);
    expect(&s, "consumed 1/0; consumed 1/1; ");
    assert_int_equal(counts_of(&s).unsettled, 0);
    settle_in(&s, 0, 1001, 1, 5, 0); /* nothing is known of it any more */
    feed_all(&s, 2, 2, 0);
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 3, NULL), TFOS_OK);
    expect(&s, "");
    tfos__ledger_admit(s.ledger, 10, &(tfos__attempt){.feed = 1, .epoch = 1, .partition = 1, .attempt = 20});
    expect(&s, "10 failed; ");
    assert_int_equal(s.error.status, TFOS_CANCELLED);
    /* Nobody is told of what is consumed behind the end. */
    feed_all(&s, 3, 2, 4);
    tfos__ledger_end(s.ledger, 1);
    settle_in(&s, 3, 1300, 0, 4, 0);
    settle_in(&s, 3, 1301, 1, 0, 4);
    expect(&s, "");
    assert_int_equal(counts_of(&s).complete, 2);
    expect_rows(&s, 1, 4, 0, 4);
    tfos__ledger_free(s.ledger);
}

/* A lane may be settled while its attempt goes on, with other lanes. */
static void test_rows_are_settled_before_all_are_fed(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 1, DETERMINATE);
    admit(&s, 10, 0);
    settle(&s, 10, 0, 30);
    assert_int_equal(counts_of(&s).unsettled, 0);
    expect_rows(&s, 0, 0, 30, 0);
    expect(&s, "10 granted from 0; ");
    tfos__ledger_exhaust(s.ledger, 10, 40);
    expect(&s, "10 complete; mark 1/0; ");
    settle(&s, 10, 0, 10);
    expect(&s, "consumed 1/0; ");
    tfos__ledger_free(s.ledger);
}

static void test_each_epoch_has_its_mark(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 1, DETERMINATE);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        char expected[96];
        assert_int_equal(epoch == 0 ? TFOS_OK : tfos__ledger_begin(s.ledger, 1, epoch, NULL), TFOS_OK);
        tfos__ledger_admit(s.ledger, 10, &(tfos__attempt){.feed = 1, .epoch = epoch, .attempt = epoch});
        tfos__ledger_exhaust(s.ledger, 10, 4);
        settle_in(&s, epoch, epoch, 0, 4, 0);
        snprintf(expected, sizeof expected,
                 "10 granted from 0; 10 complete; mark 1/%" PRIu64 "; consumed 1/%" PRIu64 "; ", epoch, epoch);
        expect(&s, expected);
        assert_int_equal(counts_of(&s).rows, 4);
    }
    tfos__ledger_free(s.ledger);
}

static void test_closing(void **state)
{
    (void)state;
    story s;
    tfos__partition_view view;
    start_feed(&s, 3, DETERMINATE);
    admit(&s, 9, 2);
    tfos__ledger_exhaust(s.ledger, 9, 6);
    settle(&s, 9, 2, 6);
    admit(&s, 10, 0);
    admit(&s, 11, 0);
    s.said[0] = '\0';
    tfos__ledger_close(s.ledger, 1);
    expect(&s, "11 failed; stop 10; fence 1/0/0#10; ");
    tfos__ledger_close(s.ledger, 1);
    fenced(&s, 10, 0, 0, 3);
    leave(&s, 10, 2);
    tfos__ledger_end(s.ledger, 1);
    expect(&s, "");
    assert_int_equal(counts_of(&s).complete, 1);
    assert_int_equal(counts_of(&s).rows, 6);
    expect_partition(&s, 0, TFOS__PARTITION_SKIPPED, 0, 1, 0); /* kept for reports */
    expect_partition(&s, 2, TFOS__PARTITION_COMPLETE, 6, 1, 0);
    assert_false(tfos__ledger_partition(s.ledger, 1, 3, &view));
    admit(&s, 12, 1);
    expect(&s, "12 failed; ");
    assert_non_null(strstr(s.error.message, "closed"));
    tfos__ledger_free(s.ledger);
}

static void test_failing(void **state)
{
    (void)state;
    story s;
    tfos_error error = {.status = TFOS_RANGE, .message = "partition 0, row 5: 300 is no byte"};
    tfos_error begin_error;
    start_feed(&s, 4, DETERMINATE);
    admit(&s, 10, 0);
    admit(&s, 11, 0);
    admit(&s, 12, 1);
    admit(&s, 13, 2);
    leave(&s, 13, 2);
    s.said[0] = '\0';
    tfos__ledger_fail(s.ledger, 10, &error);
    expect(&s, "12 failed; 11 failed; ");
    assert_string_equal(s.error.message, error.message);
    assert_true(counts_of(&s).failed);
    assert_int_equal(counts_of(&s).feeding + counts_of(&s).waiting, 0);
    tfos__ledger_fail(s.ledger, 12, &(tfos_error){.status = TFOS_IO, .message = "later"});
    leave(&s, 10, 2);
    fenced(&s, 13, 2, 0, 1);
    fenced(&s, 13, 2, 64, 1);
    expect(&s, "");
    admit(&s, 14, 3);
    expect(&s, "14 failed; ");
    assert_string_equal(s.error.message, error.message);
    assert_int_equal(s.error.status, TFOS_RANGE);
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 1, &begin_error), TFOS_RANGE);
    assert_string_equal(begin_error.message, error.message);
    tfos__ledger_end(s.ledger, 1);
    admit(&s, 15, 3);
    expect(&s, "15 failed; ");
    tfos__ledger_free(s.ledger);
}

/* ---- the end ---- */

static void test_ending(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 6, DETERMINATE);
    admit(&s, 10, 0); /* completes before */
    tfos__ledger_exhaust(s.ledger, 10, 1);
    settle(&s, 10, 0, 1);
    admit(&s, 11, 1); /* feeds */
    admit(&s, 12, 1); /* waits */
    admit(&s, 13, 2); /* drains */
    tfos__ledger_exhaust(s.ledger, 13, 2);
    admit(&s, 14, 3); /* is being fenced; 15 waits */
    leave(&s, 14, 2);
    admit(&s, 15, 3);
    s.said[0] = '\0';
    tfos__ledger_end(s.ledger, 1);
    expect(&s, "15 ended; 12 ended; stop 11; ");
    tfos__ledger_end(s.ledger, 1);
    expect(&s, "");
    tfos__ledger_counts counts = counts_of(&s);
    assert_true(counts.ended);
    assert_int_equal(counts.skipped, 3); /* 3, 4, 5 */
    assert_int_equal(counts.feeding, 1);
    expect_partition(&s, 3, TFOS__PARTITION_SKIPPED, 0, 1, 0);
    expect_partition(&s, 4, TFOS__PARTITION_SKIPPED, 0, 0, 0);
    expect_partition(&s, 0, TFOS__PARTITION_COMPLETE, 1, 1, 0);
    expect_partition(&s, 1, TFOS__PARTITION_FEEDING, 0, 1, 0);
    /* What is in lanes is dropped, who feeds obeys; a bad row interests nobody any more. */
    settle_in(&s, 0, 13, 2, 0, 2);
    tfos__ledger_fail(s.ledger, 11, &(tfos_error){.status = TFOS_RANGE});
    leave(&s, 11, 2);
    expect(&s, "");
    counts = counts_of(&s);
    assert_false(counts.failed);
    assert_int_equal(counts.complete, 2);
    assert_int_equal(counts.skipped, 4);
    admit(&s, 16, 4);
    admit(&s, 17, 0);
    expect(&s, "16 ended; 17 ended; ");
    /* A later epoch is skipped as a whole. */
    assert_int_equal(tfos__ledger_begin(s.ledger, 1, 1, NULL), TFOS_OK);
    expect(&s, "");
    assert_int_equal(counts_of(&s).skipped, 6);
    tfos__ledger_free(s.ledger);
}

static void test_the_cluster_ends(void **state)
{
    (void)state;
    story s;
    start_feed(&s, 1, DETERMINATE);
    const tfos__ledger_feed second = {.feed = 2, .partitions = 0, .determinate = true};
    const tfos__ledger_feed third = {.feed = 3, .partitions = 1, .determinate = true};
    assert_int_equal(tfos__ledger_open(s.ledger, &second, NULL), TFOS_OK);
    admit(&s, 10, 0);
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
    admit(&s, 13, 0);
    expect(&s, "13 ended; ");
    tfos__ledger_free(s.ledger);
}

/* ---- limits ---- */

static void test_memory_runs_out(void **state)
{
    (void)state;
    story s;
    tfos__ledger *none = NULL;
    tfos_error error;
    const tfos__ledger_calls calls = {.answer = on_answer};
    const tfos__ledger_feed more = {.feed = 2, .partitions = 5, .determinate = true};
    allocations_left = 0;
    assert_int_equal(tfos__ledger_new(&calls, &none, &error), TFOS_NO_MEMORY);
    allocations_left = SIZE_MAX;
    start(&s);
    for (size_t count = 0; count < 3; count++) {
        allocations_left = count;
        assert_int_equal(tfos__ledger_open(s.ledger, &more, &error), TFOS_NO_MEMORY);
    }
    allocations_left = SIZE_MAX;
    assert_int_equal(tfos__ledger_open(s.ledger, &more, &error), TFOS_OK);
    assert_int_equal(tfos__ledger_begin(s.ledger, 2, 0, &error), TFOS_OK);
    for (size_t count = 0; count < 2; count++) {
        allocations_left = count;
        tfos__ledger_admit(s.ledger, 10, &(tfos__attempt){.feed = 2, .attempt = 10});
        expect(&s, "10 failed; ");
        assert_int_equal(s.error.status, TFOS_NO_MEMORY);
    }
    allocations_left = SIZE_MAX;
    tfos__ledger_admit(s.ledger, 10, &(tfos__attempt){.feed = 2, .attempt = 10});
    tfos__ledger_admit(s.ledger, 11, &(tfos__attempt){.feed = 2, .attempt = 11});
    expect(&s, "10 granted from 0; ");
    /* An epoch whose rows are in lanes must be kept in mind. */
    const tfos__ledger_feed third = {.feed = 3, .partitions = 1, .determinate = true};
    assert_int_equal(tfos__ledger_open(s.ledger, &third, &error), TFOS_OK);
    assert_int_equal(tfos__ledger_begin(s.ledger, 3, 0, &error), TFOS_OK);
    tfos__ledger_admit(s.ledger, 30, &(tfos__attempt){.feed = 3, .attempt = 30});
    tfos__ledger_exhaust(s.ledger, 30, 5);
    expect(&s, "30 granted from 0; 30 complete; mark 3/0; ");
    allocations_left = 0;
    assert_int_equal(tfos__ledger_begin(s.ledger, 3, 1, &error), TFOS_NO_MEMORY);
    allocations_left = SIZE_MAX;
    tfos__ledger_settle(s.ledger, &(tfos__attempt){.feed = 3, .attempt = 30}, 5, 0);
    expect(&s, "consumed 3/0; ");
    /* Who cannot be fenced cannot be followed. */
    allocations_left = 0;
    leave(&s, 10, 2);
    tfos__ledger_admit(s.ledger, 12, &(tfos__attempt){.feed = 2, .attempt = 12});
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
    story s;
    start_feed(&s, 2, DETERMINATE);
    admit(&s, 10, 0);
    admit(&s, 11, 1);
    leave(&s, 10, 2); /* nodes 0 and 64 */
    leave(&s, 11, 1);
    fenced(&s, 10, 0, 0, 5);
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
    story s;
    start_feed(&s, 1, DETERMINATE);
    admit(&s, 10, 0);
    admit(&s, 11, 0);
    fenced(&s, 9, 0, 7, 90); /* of another attempt */
    fenced(&s, 10, 0, 7, 60);
    tfos__ledger_lose(s.ledger, 7);
    leave(&s, 10, 1);
    fenced(&s, 10, 0, 0, 40);
    expect(&s, "10 granted from 0; fence 1/0/0#10; 11 granted from 60; ");
    tfos__ledger_free(s.ledger);
}

static void test_breaking(void **state)
{
    (void)state;
    story s;
    tfos_error error = {.status = TFOS_CANCELLED, .message = "the cluster has failed"};
    start_feed(&s, 2, DETERMINATE);
    admit(&s, 10, 0);
    admit(&s, 11, 0);
    expect(&s, "10 granted from 0; ");
    tfos__ledger_break(s.ledger, 2, &error); /* no such feed */
    tfos__ledger_break(s.ledger, 1, &error);
    expect(&s, "11 failed; 10 failed; ");
    admit(&s, 12, 1);
    expect(&s, "12 failed; ");
    assert_string_equal(s.error.message, "the cluster has failed");
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
