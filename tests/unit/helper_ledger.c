/* A ledger that is told stories. */
#include "helper_ledger.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void say(helper_story *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(helper_story *s, const char *format, ...)
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
    helper_story *s = context;
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
        attempt->partition, attempt->task);
}

static void on_mark(void *context, uint64_t feed, uint64_t epoch)
{
    say(context, "mark %" PRIu64 "/%" PRIu64 "; ", feed, epoch);
}

static void on_consumed(void *context, uint64_t feed, uint64_t epoch, uint64_t dropped)
{
    say(context, "consumed %" PRIu64 "/%" PRIu64, feed, epoch);
    if (dropped > 0) {
        say(context, " but for %" PRIu64, dropped);
    }
    say(context, "; ");
}

static void on_stop(void *context, uint64_t producer)
{
    say(context, "stop %" PRIu64 "; ", producer);
}

void helper_ledger_expect_at(helper_story *s, const char *expected, int line)
{
    if (strcmp(s->said, expected) != 0) {
        print_error("line %d: the ledger said \"%s\", not \"%s\"\n", line, s->said, expected);
        fail();
    }
    s->said[0] = '\0';
}

void helper_ledger_start(helper_story *s)
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

void helper_ledger_start_feed(helper_story *s, uint64_t partitions, helper_order kind)
{
    const tfos__ledger_feed feed = {
        .feed = 1, .partitions = partitions, .determinate = kind == DETERMINATE, .again = kind == AGAIN};
    helper_ledger_start(s);
    assert_int_equal(tfos__ledger_open(s->ledger, &feed, NULL), TFOS_OK);
    assert_int_equal(tfos__ledger_begin(s->ledger, 1, 0, NULL), TFOS_OK);
}

void helper_ledger_admit(helper_story *s, uint64_t producer, uint64_t partition)
{
    const tfos__attempt attempt = {.feed = 1, .epoch = 0, .partition = partition, .task = producer};
    tfos__ledger_admit(s->ledger, producer, &attempt);
}

void helper_ledger_leave(helper_story *s, uint64_t producer, size_t count)
{
    static const uint32_t nodes[] = {0, 64, 130, 7};
    tfos__ledger_leave(s->ledger, producer, nodes, count);
}

void helper_ledger_fenced(helper_story *s, uint64_t attempt, uint64_t partition, uint32_t node, uint64_t fed)
{
    const tfos__attempt which = {.feed = 1, .epoch = 0, .partition = partition, .task = attempt};
    tfos__ledger_fenced(s->ledger, &which, node, fed);
}

void helper_ledger_settle_in(helper_story *s, uint64_t epoch, uint64_t attempt, uint64_t partition, uint64_t consumed,
                             uint64_t dropped)
{
    const tfos__attempt which = {.feed = 1, .epoch = epoch, .partition = partition, .task = attempt};
    tfos__ledger_settle(s->ledger, &which, consumed, dropped);
}

void helper_ledger_settle(helper_story *s, uint64_t attempt, uint64_t partition, uint64_t consumed)
{
    helper_ledger_settle_in(s, 0, attempt, partition, consumed, 0);
}

tfos__ledger_counts helper_ledger_counts_of(const helper_story *s)
{
    tfos__ledger_counts counts;
    assert_true(tfos__ledger_count(s->ledger, 1, &counts));
    return counts;
}

void helper_ledger_expect_partition(const helper_story *s, uint64_t partition, tfos__partition_state state,
                                    uint64_t rows, uint64_t attempts, uint64_t fed)
{
    tfos__partition_view view;
    assert_true(tfos__ledger_partition(s->ledger, 1, partition, &view));
    assert_int_equal(view.state, state);
    assert_int_equal(view.rows, rows);
    assert_int_equal(view.attempts, attempts);
    assert_int_equal(view.fed, fed);
}

void helper_ledger_expect_rows(const helper_story *s, uint64_t partition, uint64_t sent, uint64_t consumed,
                               uint64_t skipped)
{
    tfos__partition_view view;
    assert_true(tfos__ledger_partition(s->ledger, 1, partition, &view));
    assert_int_equal(view.sent, sent);
    assert_int_equal(view.consumed, consumed);
    assert_int_equal(view.skipped, skipped);
}

void helper_ledger_feed_all(helper_story *s, uint64_t epoch, uint64_t partitions, uint64_t rows)
{
    for (uint64_t i = 0; i < partitions; i++) {
        uint64_t producer = 1000 + 100 * epoch + i;
        tfos__ledger_admit(s->ledger, producer,
                           &(tfos__attempt){.feed = 1, .epoch = epoch, .partition = i, .task = producer});
        tfos__ledger_exhaust(s->ledger, producer, rows);
    }
    s->said[0] = '\0';
}
