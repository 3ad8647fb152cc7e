/* The feeds of a cluster, played without sockets or clocks: what is said to the driver, to nodes and to producers when
 * something happens to any of them. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coordinator/feeds.h"
#include "helper_nodes.h"
#include "net/frame.h"

enum { NODES = 2 };

/* Everything that was said, as text: "node 1: MARK queue='input' marks=1\n". */
typedef struct story {
    tfos__roster *roster;
    tfos__feeds *feeds;
    tfos__buffer said;
    uint64_t now_ms;
} story;

/* "1\th1\tsocket-1\t0\t0\n" for each. */
static void write_places(story *s, tfos__text list)
{
    size_t used;
    for (size_t at = 0; at < list.count; at += used) {
        tfos__message place;
        char host[32];
        char name[32];
        assert_int_equal(tfos__frame_take(list.at + at, list.count - at, list.count, &place, &used, NULL), TFOS_OK);
        tfos__message_copy(&place, TFOS__FIELD_HOST, host, sizeof host);
        tfos__message_copy(&place, TFOS__FIELD_FEED_NAME, name, sizeof name);
        tfos__buffer_printf(&s->said, NULL, "%" PRIu64 "\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\n",
                            tfos__message_number(&place, TFOS__FIELD_INDEX), host, name,
                            tfos__message_number(&place, TFOS__FIELD_FEED_PORT),
                            tfos__message_number(&place, TFOS__FIELD_HUNGRY));
    }
}

static void write_fields(story *s, const tfos__message *message)
{
    static const struct {
        tfos__field field;
        const char *name;
        bool number;
    } shown[] = {
        {TFOS__FIELD_FEED, "feed", true},           {TFOS__FIELD_EPOCH, "epoch", true},
        {TFOS__FIELD_PARTITION, "partition", true}, {TFOS__FIELD_TASK_ATTEMPT, "attempt", true},
        {TFOS__FIELD_ADMISSION, "admission", true}, {TFOS__FIELD_FED_BEFORE, "rows", true},
        {TFOS__FIELD_QUEUE, "queue", false},        {TFOS__FIELD_MARKS, "marks", true},
        {TFOS__FIELD_HUNGRY, "hungry", true},       {TFOS__FIELD_TERMINATED, "terminated", true},
        {TFOS__FIELD_PLACES, "places", false},      {TFOS__FIELD_FEED_FLAGS, "flags", true},
        {TFOS__FIELD_STATUS, "status", true},       {TFOS__FIELD_FAULT, "fault", true},
        {TFOS__FIELD_TEXT, "text", false},          {TFOS__FIELD_SCHEMA, "schema", false},
    };
    bool is_state = message->type == TFOS__MESSAGE_FEED_STATE;
    for (size_t i = is_state ? 4 : 0; i < sizeof shown / sizeof shown[0]; i++) {
        if (!tfos__message_has(message, shown[i].field)) {
            continue;
        }
        if (shown[i].number) {
            tfos__buffer_printf(&s->said, NULL, " %s=%" PRIu64, shown[i].name,
                                tfos__message_number(message, shown[i].field));
            continue;
        }
        tfos__text text = tfos__message_text(message, shown[i].field);
        tfos__buffer_printf(&s->said, NULL, " %s='", shown[i].name);
        if (shown[i].field == TFOS__FIELD_PLACES) {
            write_places(s, text);
        } else {
            tfos__buffer_append(&s->said, text.at, text.count, NULL);
        }
        tfos__buffer_append(&s->said, "'", 1, NULL);
    }
    tfos__buffer_append(&s->said, "\n", 1, NULL);
}

static void write_message(story *s, const tfos__message *message)
{
    tfos__buffer_printf(&s->said, NULL, "%s", tfos__message_name(message->type));
    write_fields(s, message);
}

static void to_node(void *context, uint32_t index, const tfos__message *message)
{
    story *s = context;
    tfos__buffer_printf(&s->said, NULL, "node %u: ", index);
    write_message(s, message);
}

/* "driver: 1 open", and the epoch where it matters. */
static void to_driver(void *context, const tfos__message *message)
{
    story *s = context;
    tfos_feed_state state = (tfos_feed_state)tfos__message_number(message, TFOS__FIELD_FEED_STATE);
    assert_int_equal(message->type, TFOS__MESSAGE_FEED_STATE);
    tfos__buffer_printf(&s->said, NULL, "driver: %" PRIu64 " %s", tfos__message_number(message, TFOS__FIELD_FEED),
                        tfos_feed_state_name(state));
    if (state == TFOS_FEED_STATE_EXHAUSTED || state == TFOS_FEED_STATE_CONSUMED || state == TFOS_FEED_STATE_DROPPED) {
        tfos__buffer_printf(&s->said, NULL, " %" PRIu64, tfos__message_number(message, TFOS__FIELD_EPOCH));
    }
    write_fields(s, message);
}

static void to_producer(void *context, uint64_t producer, const tfos__message *message)
{
    story *s = context;
    tfos__buffer_printf(&s->said, NULL, "producer %" PRIu64 ": ", producer);
    write_message(s, message);
}

static void roster_to_node(void *context, uint32_t index, const tfos__message *message)
{
    (void)context, (void)index, (void)message;
}

static void roster_to_driver(void *context, const tfos__message *message)
{
    (void)context, (void)message;
}

static void expect_at(story *s, const char *expected, int line)
{
    tfos__buffer_append(&s->said, "", 1, NULL);
    if (strcmp((const char *)s->said.data, expected) != 0) {
        fail_msg("line %d: expected\n%s\nfound\n%s", line, expected, (const char *)s->said.data);
    }
    s->said.size = 0;
}

#define expect(s, text) expect_at(s, text, __LINE__)

static void expect_part_at(story *s, const char *part, int line)
{
    tfos__buffer_append(&s->said, "", 1, NULL);
    if (strstr((const char *)s->said.data, part) == NULL) {
        fail_msg("line %d: expected a part\n%s\nfound\n%s", line, part, (const char *)s->said.data);
    }
    s->said.size = 0;
}

#define expect_part(s, text) expect_part_at(s, text, __LINE__)

/* ---- who is there ---- */

static void node_comes(story *s, uint32_t index)
{
    tfos__message message;
    uint32_t given;
    char name[16];
    snprintf(name, sizeof name, "socket-%u", index);
    helper_registration(&message, index, index == 0 ? "h0" : "h1", 2000);
    tfos__message_put_string(&message, TFOS__FIELD_FEED_NAME, name);
    tfos__message_put_string(&message, TFOS__FIELD_MACHINE, index == 0 ? "m0" : "m1");
    assert_int_equal(tfos__roster_register(s->roster, &message, s->now_ms, &given, NULL), TFOS_OK);
    assert_int_equal(given, index);
    tfos__feeds_hear_node(s->feeds, index, &message, s->now_ms);
    tfos__roster_welcome(s->roster, index, s->now_ms);
}

static void begin_without_nodes(story *s)
{
    const tfos__roster_options options = {.roles = {.nodes = NODES},
                                          .flags = TFOS__FLAG_BARRIER,
                                          .worker_gpus = -1,
                                          .timeout_ms = 60000,
                                          .beat_ms = 1000,
                                          .lease_ms = 1000000000,
                                          .stop_ms = 15000,
                                          .name = "test"};
    const tfos__roster_calls roster_calls = {.to_node = roster_to_node, .to_driver = roster_to_driver};
    const tfos__feeds_calls calls = {
        .to_node = to_node, .to_driver = to_driver, .to_producer = to_producer, .context = s};
    memset(s, 0, sizeof *s);
    s->now_ms = 1000000;
    assert_int_equal(tfos__roster_new(&options, &roster_calls, s->now_ms, &s->roster, NULL), TFOS_OK);
    assert_int_equal(tfos__feeds_new(s->roster, &calls, &s->feeds, NULL), TFOS_OK);
}

static void begin(story *s)
{
    begin_without_nodes(s);
    for (uint32_t i = 0; i < NODES; i++) {
        node_comes(s, i);
    }
    expect(s, "");
}

static void end(story *s)
{
    tfos__feeds_free(s->feeds);
    tfos__roster_free(s->roster);
    tfos__buffer_reset(&s->said);
}

/* ---- the driver ---- */

static void open_feed(story *s, uint64_t feed, const char *queue, uint64_t partitions, uint64_t flags)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FEED);
    tfos__message_put_number(&message, TFOS__FIELD_FEED, feed);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUE, queue);
    tfos__message_put_number(&message, TFOS__FIELD_PARTITIONS, partitions);
    tfos__message_put_number(&message, TFOS__FIELD_FEED_TIMEOUT_MS, 10000);
    tfos__message_put_number(&message, TFOS__FIELD_FEED_FLAGS, flags);
    tfos__feeds_obey(s->feeds, &message, s->now_ms);
}

static void order(story *s, tfos__message_type type, uint64_t feed, uint64_t epoch)
{
    tfos__message message;
    tfos__message_init(&message, type);
    if (type != TFOS__MESSAGE_END_OF_FEED) {
        tfos__message_put_number(&message, TFOS__FIELD_FEED, feed);
    }
    if (type == TFOS__MESSAGE_EPOCH || type == TFOS__MESSAGE_EPOCH_END) {
        tfos__message_put_number(&message, TFOS__FIELD_EPOCH, epoch);
    }
    tfos__feeds_obey(s->feeds, &message, s->now_ms);
}

static void start(story *s, uint64_t partitions, uint64_t flags)
{
    begin(s);
    open_feed(s, 1, "input", partitions, flags);
    expect(s, "driver: 1 open\n");
    order(s, TFOS__MESSAGE_EPOCH, 1, 0);
    s->said.size = 0;
}

/* ---- producers ---- */

static void admit_to(story *s, uint64_t producer, uint64_t feed, uint64_t epoch, uint64_t partition)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_ADMIT);
    tfos__attempt_put(&(tfos__attempt){feed, epoch, partition, producer}, &message);
    tfos__message_put_string(&message, TFOS__FIELD_MACHINE, "m1");
    tfos__feeds_hear_producer(s->feeds, producer, &message, s->now_ms);
}

static void admit(story *s, uint64_t producer, uint64_t partition)
{
    admit_to(s, producer, 1, 0, partition);
}

static void exhaust(story *s, uint64_t producer, uint64_t rows)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_EXHAUSTED);
    tfos__message_put_number(&message, TFOS__FIELD_ROWS, rows);
    tfos__feeds_hear_producer(s->feeds, producer, &message, s->now_ms);
}

static void complete(story *s, uint64_t producer)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_COMPLETE);
    tfos__feeds_hear_producer(s->feeds, producer, &message, s->now_ms);
}

/* A feed of one partition with so many rows, all of them in lanes; its task is gone. */
static void start_fed(story *s, uint64_t rows)
{
    start(s, 1, TFOS__FEED_DETERMINATE);
    admit(s, 10, 0);
    exhaust(s, 10, rows);
    tfos__feeds_producer_left(s->feeds, 10);
    s->said.size = 0;
}

static void say_schema(story *s, uint64_t producer)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_SCHEMA);
    tfos__message_put_string(&message, TFOS__FIELD_SCHEMA, "{}");
    tfos__feeds_hear_producer(s->feeds, producer, &message, s->now_ms);
}

static void give_up(story *s, uint64_t producer, tfos_status status, tfos_fault fault, const char *text)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_GAVE_UP);
    tfos__message_put_number(&message, TFOS__FIELD_STATUS, status);
    tfos__message_put_number(&message, TFOS__FIELD_FAULT, fault);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, text);
    tfos__feeds_hear_producer(s->feeds, producer, &message, s->now_ms);
}

/* ---- nodes ---- */

static void about(tfos__message *message, tfos__message_type type, uint64_t partition, uint64_t attempt)
{
    tfos__message_init(message, type);
    tfos__attempt_put(&(tfos__attempt){1, 0, partition, attempt}, message);
}

static void fenced(story *s, uint32_t node, uint64_t partition, uint64_t attempt, uint64_t rows)
{
    tfos__message message;
    about(&message, TFOS__MESSAGE_FENCED, partition, attempt);
    tfos__message_put_number(&message, TFOS__FIELD_FED_BEFORE, rows);
    tfos__feeds_hear_node(s->feeds, node, &message, s->now_ms);
}

/* Of partition 0; the sequence numbers of a node grow. */
static void settled(story *s, uint32_t node, uint64_t sequence, uint64_t attempt, uint64_t consumed, uint64_t dropped)
{
    tfos__message message;
    about(&message, TFOS__MESSAGE_SETTLED, 0, attempt);
    tfos__message_put_number(&message, TFOS__FIELD_CONSUMED, consumed);
    tfos__message_put_number(&message, TFOS__FIELD_SKIPPED, dropped);
    tfos__message_put_number(&message, TFOS__FIELD_SEQUENCE, sequence);
    tfos__feeds_hear_node(s->feeds, node, &message, s->now_ms);
}

static void beat_with(story *s, uint32_t node, uint64_t fed, uint64_t consumed, bool hungry, const char *queues)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_BEAT);
    tfos__message_put_number(&message, TFOS__FIELD_HUNGRY, hungry ? 1 : 0);
    tfos__message_put_number(&message, TFOS__FIELD_FED, fed);
    tfos__message_put_number(&message, TFOS__FIELD_CONSUMED, consumed);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUES, queues);
    tfos__feeds_hear_node(s->feeds, node, &message, s->now_ms);
}

static void beat(story *s, uint32_t node, uint64_t fed, uint64_t consumed, const char *queues)
{
    beat_with(s, node, fed, consumed, false, queues);
}

static void terminate(story *s, uint32_t node, const char *queue)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_TERMINATE);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUE, queue);
    tfos__feeds_hear_node(s->feeds, node, &message, s->now_ms);
}

/* The roster hears it first, as in the coordinator. */
static void node_ends(story *s, uint32_t node, tfos__outcome outcome, const char *text)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_ENDED);
    tfos__message_put_number(&message, TFOS__FIELD_OUTCOME, outcome);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, text);
    tfos__roster_hear(s->roster, node, &message, s->now_ms);
    tfos__feeds_hear_node(s->feeds, node, &message, s->now_ms);
}

static void wait_for(story *s, uint64_t ms)
{
    for (uint64_t passed = 0; passed < ms; passed += 100) {
        s->now_ms += 100;
        tfos__feeds_tick(s->feeds, s->now_ms);
    }
}

/* ---- stories ---- */

static void test_a_feed_of_two_epochs(void **state)
{
    (void)state;
    story s;
    begin(&s);
    open_feed(&s, 1, "input", 2, TFOS__FEED_DETERMINATE);
    expect(&s, "driver: 1 open\n");
    order(&s, TFOS__MESSAGE_EPOCH, 1, 0);
    expect(&s, "node 0: EPOCH feed=1 epoch=0\n"
               "node 1: EPOCH feed=1 epoch=0\n"
               "driver: 1 epoch\n");
    /* Nodes of its own machine come first. */
    admit(&s, 10, 0);
    expect(&s, "producer 10: GRANTED rows=0 queue='input' "
               "places='1\th1\tsocket-1\t0\t0\n0\th0\tsocket-0\t0\t0\n' flags=10\n");
    admit(&s, 11, 1);
    say_schema(&s, 10);
    say_schema(&s, 11); /* the first one counts */
    expect_part(
        &s,
        "node 0: FEED_SCHEMA feed=1 queue='input' schema='{}'\nnode 1: FEED_SCHEMA feed=1 queue='input' schema='{}'\n");
    exhaust(&s, 10, 5);
    expect(&s, "producer 10: DISMISSED admission=1\n");
    tfos__feeds_producer_left(s.feeds, 10);
    exhaust(&s, 11, 6);
    expect(&s, "producer 11: DISMISSED admission=1\n"
               "node 0: MARK queue='input' marks=1\nnode 1: MARK queue='input' marks=1\n"
               "driver: 1 exhausted 0\n");
    tfos__feeds_producer_left(s.feeds, 11);
    order(&s, TFOS__MESSAGE_EPOCH_END, 1, 0);
    expect(&s, "");
    tfos__feed_view view;
    assert_true(tfos__feeds_view(s.feeds, 0, &view));
    assert_int_equal(view.counts.exhausted, 2);
    assert_int_equal(view.counts.complete, 0);
    assert_int_equal(view.counts.rows, 11);
    assert_false(tfos__feeds_view(s.feeds, 1, &view));
    order(&s, TFOS__MESSAGE_EPOCH, 1, 1);
    s.said.size = 0;
    /* While the next one is being fed, the last rows of this one are taken. */
    settled(&s, 0, 1, 10, 5, 0);
    settled(&s, 1, 1, 11, 4, 0);
    expect(&s, "");
    settled(&s, 1, 2, 11, 2, 0);
    expect(&s, "driver: 1 consumed 0\n");
    /* A task of the epoch before comes too late: that is its own failure, and not the feed's. */
    admit(&s, 12, 0);
    expect(
        &s,
        "producer 12: DISMISSED admission=3 status=17 fault=0 text='epoch 0 of feed 1 is over: epoch 1 has begun'\n");
    admit_to(&s, 13, 1, 1, 0);
    expect_part(&s, "producer 13: GRANTED ");
    order(&s, TFOS__MESSAGE_FEED_CLOSE, 1, 0);
    expect(
        &s,
        "node 0: FEED_CLOSE feed=1\nnode 1: FEED_CLOSE feed=1\n"
        "producer 13: FEED_OVER terminated=0\n"
        "node 0: FENCE feed=1 epoch=1 partition=0 attempt=13\nnode 1: FENCE feed=1 epoch=1 partition=0 attempt=13\n");
    order(&s, TFOS__MESSAGE_END_OF_FEED, 0, 0);
    expect(&s, "node 0: END_OF_FEED\nnode 1: END_OF_FEED\n");
    end(&s);
}

static void test_what_a_driver_may_not(void **state)
{
    (void)state;
    story s;
    start(&s, 1, TFOS__FEED_DETERMINATE);
    open_feed(&s, 1, "input", 2, 0);
    expect_part(&s, "driver: 1 failed status=");
    open_feed(&s, 2, "input", UINT64_MAX, 0);
    expect_part(&s, "driver: 2 failed status=14");
    order(&s, TFOS__MESSAGE_EPOCH, 77, 0); /* no such feed */
    expect(&s, "");
    admit_to(&s, 5, 77, 0, 0);
    expect_part(&s, "producer 5: DISMISSED admission=3 status=3 fault=0 text='there is no feed 77");
    /* An empty epoch has its mark at once, behind the word that it has begun. */
    open_feed(&s, 3, "other", 0, 0);
    order(&s, TFOS__MESSAGE_EPOCH, 3, 4);
    expect(&s, "driver: 3 open\n"
               "node 0: EPOCH feed=3 epoch=4\nnode 1: EPOCH feed=3 epoch=4\n"
               "node 0: MARK queue='other' marks=1\nnode 1: MARK queue='other' marks=1\n"
               "driver: 3 exhausted 4\ndriver: 3 consumed 4\n"
               "driver: 3 epoch\n");
    end(&s);
}

/* Spark's job has ended as if all were well: tasks that were told to stop, say, or that ended without a word. */
static void test_a_job_that_has_not_fed_everything(void **state)
{
    (void)state;
    story s;
    start(&s, 3, TFOS__FEED_DETERMINATE);
    admit(&s, 10, 0);
    exhaust(&s, 10, 5);
    s.said.size = 0;
    order(&s, TFOS__MESSAGE_EPOCH_END, 1, 7); /* of another epoch */
    order(&s, TFOS__MESSAGE_EPOCH_END, 2, 0); /* … or feed */
    expect(&s, "");
    order(&s, TFOS__MESSAGE_EPOCH_END, 1, 0);
    expect(&s, "driver: 1 failed status=9 fault=1 text='Spark says that it has fed epoch 0, but 2 of 3 "
               "partitions, the first of them 1, have not come: their tasks ended without having fed their rows'\n");
    order(&s, TFOS__MESSAGE_EPOCH_END, 1, 0);
    expect(&s, "");
    end(&s);
}

static void test_a_task_dies(void **state)
{
    (void)state;
    story s;
    start(&s, 1, TFOS__FEED_DETERMINATE);
    admit(&s, 10, 0);
    admit(&s, 11, 0); /* waits */
    s.said.size = 0;
    tfos__feeds_producer_left(s.feeds, 10);
    expect(&s, "node 0: FENCE feed=1 epoch=0 partition=0 attempt=10\n"
               "node 1: FENCE feed=1 epoch=0 partition=0 attempt=10\n");
    fenced(&s, 1, 0, 10, 40);
    expect(&s, "");
    /* Node 0 was away and has not heard of it. */
    tfos__feeds_node_returned(s.feeds, 0);
    expect(&s, "node 0: EPOCH feed=1 epoch=0\n"
               "node 0: FENCE feed=1 epoch=0 partition=0 attempt=10\n"
               "node 1: FENCE feed=1 epoch=0 partition=0 attempt=10\n");
    fenced(&s, 1, 0, 10, 40); /* once more, which changes nothing */
    fenced(&s, 0, 0, 10, 55);
    expect_part(&s, "producer 11: GRANTED rows=55 queue='input'");
    tfos__feeds_producer_left(s.feeds, 77); /* nobody */
    expect(&s, "");
    end(&s);
}

/* Where the order of rows is not the same again, no other attempt can go on: the driver hears why. */
static void test_a_task_dies_and_its_rows_cannot_be_found(void **state)
{
    (void)state;
    story s;
    start(&s, 1, 0);
    admit(&s, 10, 0);
    tfos__feeds_producer_left(s.feeds, 10);
    fenced(&s, 0, 0, 10, 40);
    fenced(&s, 1, 0, 10, 55);
    s.said.size = 0;
    admit(&s, 11, 0);
    expect_part(&s, "driver: 1 abandoned status=15 fault=1 text='partition 0 of feed 1 cannot be fed to its end");
    admit_to(&s, 12, 1, 7, 0); /* of another epoch: that is nobody's business */
    expect_part(&s, "producer 12: DISMISSED");
    end(&s);
}

static void test_what_a_dead_task_has_left(void **state)
{
    (void)state;
    story s;
    start(&s, 1, TFOS__FEED_DETERMINATE);
    admit(&s, 10, 0);
    tfos__feeds_producer_left(s.feeds, 10);
    fenced(&s, 0, 0, 10, 40);
    fenced(&s, 1, 0, 10, 55);
    admit(&s, 11, 0);
    exhaust(&s, 11, 100);
    s.said.size = 0;
    settled(&s, 1, 1, 11, 45, 0);
    settled(&s, 0, 1, 10, 40, 0);
    expect(&s, "");
    /* A node that has come back says again what may not have arrived. */
    settled(&s, 0, 1, 10, 40, 0);
    settled(&s, 1, 1, 11, 45, 0);
    expect(&s, "");
    settled(&s, 1, 2, 10, 15, 0);
    expect(&s, "driver: 1 consumed 0\n");
    end(&s);
}

static void test_a_node_comes_back(void **state)
{
    (void)state;
    story s;
    start(&s, 0, TFOS__FEED_DETERMINATE);
    order(&s, TFOS__MESSAGE_EPOCH, 1, 1);
    open_feed(&s, 2, "validation", 1, 0);
    order(&s, TFOS__MESSAGE_EPOCH, 2, 0);
    admit_to(&s, 10, 2, 0, 0);
    say_schema(&s, 10);
    terminate(&s, 1, "validation");
    order(&s, TFOS__MESSAGE_END_OF_FEED, 0, 0);
    s.said.size = 0;
    tfos__feeds_node_returned(s.feeds, 1);
    expect(&s, "node 1: MARK queue='input' marks=2\n"
               "node 1: QUEUE_END queue='validation'\n"
               "node 1: EPOCH feed=1 epoch=1\n"
               "node 1: EPOCH feed=2 epoch=0\n"
               "node 1: FEED_SCHEMA feed=2 queue='validation' schema='{}'\n"
               "node 1: END_OF_FEED\n");
    end(&s);
}

/* Its executor was lost before the cluster began: another node comes in its place, and is fed. */
static void test_a_node_is_replaced(void **state)
{
    (void)state;
    story s;
    begin_without_nodes(&s);
    node_comes(&s, 0);
    node_ends(&s, 0, TFOS__OUTCOME_EXECUTOR_LOST, "the executor died");
    for (uint32_t i = 0; i < NODES; i++) {
        node_comes(&s, i);
    }
    open_feed(&s, 1, "input", 1, TFOS__FEED_DETERMINATE);
    expect(&s, "driver: 1 open\n");
    order(&s, TFOS__MESSAGE_EPOCH, 1, 0);
    expect(&s, "node 0: EPOCH feed=1 epoch=0\nnode 1: EPOCH feed=1 epoch=0\ndriver: 1 epoch\n");
    end(&s);
}

static void test_terminate(void **state)
{
    (void)state;
    story s;
    start(&s, 3, TFOS__FEED_DETERMINATE);
    open_feed(&s, 2, "other", 1, TFOS__FEED_DETERMINATE);
    admit(&s, 10, 0);
    admit(&s, 11, 0);
    s.said.size = 0;
    terminate(&s, 0, "input");
    expect(&s, "node 0: QUEUE_END queue='input'\nnode 1: QUEUE_END queue='input'\n"
               "producer 11: DISMISSED admission=2\nproducer 10: FEED_OVER terminated=1\n"
               "driver: 1 terminated\n");
    /* Said again, because the answer was lost. */
    terminate(&s, 0, "input");
    expect(&s, "node 0: QUEUE_END queue='input'\nnode 1: QUEUE_END queue='input'\n");
    admit(&s, 12, 1);
    expect(&s, "producer 12: DISMISSED admission=2\n");
    open_feed(&s, 3, "input", 1, TFOS__FEED_DETERMINATE);
    expect(&s, "driver: 3 open\ndriver: 3 terminated\n");
    end(&s);
}

static void test_a_row_that_cannot_be_fed(void **state)
{
    (void)state;
    story s;
    start(&s, 3, TFOS__FEED_DETERMINATE);
    admit(&s, 10, 0);
    admit(&s, 11, 1);
    s.said.size = 0;
    give_up(&s, 10, TFOS_IO, TFOS_FAULT_AGAIN, "a wire is cut"); /* nobody else is concerned */
    expect(&s, "driver: 1 abandoned status=6 fault=0 text='a wire is cut'\n");
    give_up(&s, 10, TFOS_INVALID, TFOS_FAULT_FINAL, "row 3 is bad");
    expect(&s, "driver: 1 failed status=2 fault=1 text='row 3 is bad'\n"
               "producer 11: DISMISSED admission=3 status=2 fault=1 text='row 3 is bad'\n");
    give_up(&s, 11, (tfos_status)12345, TFOS_FAULT_FINAL, "row 4 is bad, too");
    expect(&s, "");
    admit(&s, 12, 2);
    expect(&s, "producer 12: DISMISSED admission=3 status=2 fault=1 text='row 3 is bad'\n");
    order(&s, TFOS__MESSAGE_EPOCH, 1, 1);
    expect_part(&s, "driver: 1 failed");
    end(&s);
}

/* ---- inference ---- */

static void test_inference(void **state)
{
    (void)state;
    story s;
    tfos__feed_view view;
    start(&s, 2, TFOS__FEED_INFERENCE);
    admit(&s, 10, 0);
    admit(&s, 11, 0); /* a second attempt needs its own results, now */
    expect_part(&s, "producer 11: GRANTED rows=0");
    exhaust(&s, 10, 5);
    complete(&s, 10);
    tfos__feeds_producer_left(s.feeds, 10);
    tfos__feeds_producer_left(s.feeds, 11);
    expect(&s, "producer 10: NOTED\n"); /* no mark, no fence */
    admit(&s, 12, 0);
    expect_part(&s, "producer 12: GRANTED rows=0");
    assert_true(tfos__feeds_view(s.feeds, 0, &view));
    assert_true(view.inference);
    assert_int_equal(view.counts.complete, 1);
    assert_int_equal(view.counts.feeding, 1);
    admit_to(&s, 13, 1, 7, 0);
    expect_part(&s, "producer 13: DISMISSED admission=3 status=");
    admit_to(&s, 14, 1, 0, 2);
    expect_part(&s, "producer 14: DISMISSED admission=3 status=");
    give_up(&s, 12, TFOS_INVALID, TFOS_FAULT_FINAL, "row 3 is bad");
    expect_part(&s, "driver: 1 failed status=2 fault=1 text='row 3 is bad'\n");
    admit(&s, 15, 1);
    expect(&s, "producer 15: DISMISSED admission=3 status=2 fault=1 text='row 3 is bad'\n");
    end(&s);
}

static void test_inference_ends(void **state)
{
    (void)state;
    story s;
    start(&s, 2, TFOS__FEED_INFERENCE);
    admit(&s, 10, 0);
    s.said.size = 0;
    node_ends(&s, 0, TFOS__OUTCOME_FINISHED, "");
    expect(&s, "");
    node_ends(&s, 1, TFOS__OUTCOME_FINISHED, "");
    expect_part(&s, "producer 10: FEED_OVER terminated=0\n"); /* without the word that somebody wanted it */
    admit(&s, 11, 0); /* to be sent home as if all were well would lose its rows */
    expect(&s, "driver: 1 abandoned status=11 fault=1 text='"
               "the rows of partition 0 get no results: the programs of the cluster have ended'\n"
               "producer 11: DISMISSED admission=3 status=11 fault=1 text='"
               "the rows of partition 0 get no results: the programs of the cluster have ended'\n");
    end(&s);
}

/* ---- programs that end ---- */

static void test_rows_of_a_program_that_has_finished(void **state)
{
    (void)state;
    story s;
    tfos__feed_view view;
    start(&s, 1, TFOS__FEED_DETERMINATE);
    admit(&s, 10, 0);
    exhaust(&s, 10, 50);
    s.said.size = 0;
    settled(&s, 0, 1, 10, 20, 0);
    expect(&s, "");
    /* A program that has ended in good order has left seven behind. */
    settled(&s, 1, 1, 10, 23, 7);
    node_ends(&s, 1, TFOS__OUTCOME_FINISHED, "");
    expect(&s, "driver: 1 dropped 0\n");
    assert_true(tfos__feeds_view(s.feeds, 0, &view));
    assert_int_equal(view.dropped, 7);
    assert_int_equal(view.counts.complete, 1);
    end(&s);
}

/* Nobody says of its rows that they were taken: they are fed again when the cluster starts again. */
static void test_rows_of_a_program_that_was_killed(void **state)
{
    (void)state;
    story s;
    start_fed(&s, 50);
    settled(&s, 0, 1, 10, 20, 0);
    node_ends(&s, 1, TFOS__OUTCOME_KILLED, "by SIGKILL");
    expect_part(&s, "driver: 1 failed status=17 fault=3 text='the cluster has failed: ");
    settled(&s, 0, 2, 10, 30, 0);
    expect(&s, "");
    end(&s);
}

static void test_a_program_that_has_failed(void **state)
{
    (void)state;
    story s;
    start(&s, 2, TFOS__FEED_DETERMINATE);
    admit(&s, 10, 0);
    admit(&s, 11, 0);
    s.said.size = 0;
    node_ends(&s, 0, TFOS__OUTCOME_RAISED, "it failed");
    tfos__buffer_append(&s.said, "", 1, NULL);
    assert_null(strstr((const char *)s.said.data, "STOP")); /* nobody may think that all is well */
    assert_non_null(strstr((const char *)s.said.data, "producer 10: DISMISSED admission=3"));
    assert_non_null(strstr((const char *)s.said.data, "producer 11: DISMISSED admission=3"));
    assert_non_null(strstr((const char *)s.said.data, "driver: 1 failed"));
    s.said.size = 0;
    admit(&s, 12, 1);
    expect_part(&s, "producer 12: DISMISSED admission=3");
    end(&s);
}

static void test_the_cluster_is_stopped(void **state)
{
    (void)state;
    story s;
    start(&s, 2, TFOS__FEED_DETERMINATE);
    admit(&s, 10, 0);
    s.said.size = 0;
    tfos__roster_stop(s.roster, "the user wants it", s.now_ms);
    wait_for(&s, 200);
    expect(&s, "producer 10: FEED_OVER terminated=0\ndriver: 1 ended\n");
    open_feed(&s, 2, "input", 1, 0);
    expect(&s, "driver: 2 open\ndriver: 2 ended\n");
    end(&s);
}

static void test_every_program_has_finished(void **state)
{
    (void)state;
    story s;
    start(&s, 2, TFOS__FEED_DETERMINATE);
    admit(&s, 10, 0);
    s.said.size = 0;
    node_ends(&s, 0, TFOS__OUTCOME_FINISHED, "");
    node_ends(&s, 1, TFOS__OUTCOME_FINISHED, "");
    expect_part(&s, "producer 10: FEED_OVER terminated=0\ndriver: 1 ");
    end(&s);
}

/* ---- feeds that do not move ---- */

static void test_rows_that_nobody_takes(void **state)
{
    (void)state;
    story s;
    start(&s, 1, TFOS__FEED_DETERMINATE);
    beat(&s, 0, 0, 0, ",input,");
    beat(&s, 1, 0, 0, ",input,");
    wait_for(&s, 60000); /* nobody feeds: nothing is wrong */
    expect(&s, "");
    admit(&s, 10, 0);
    s.said.size = 0;
    wait_for(&s, 60000); /* Spark takes its time: nothing is wrong */
    expect(&s, "");
    beat(&s, 1, 30, 0, ",input,"); /* now there are rows; the time counts from here */
    wait_for(&s, 9000);
    expect(&s, "");
    beat(&s, 1, 50, 10, ",input,");
    wait_for(&s, 9000);
    expect(&s, "");
    beat(&s, 0, 50, 50, ",input,"); /* another node moves: so does the feed */
    beat(&s, 1, 50, 10, ",input,");
    wait_for(&s, 9900);
    expect(&s, "");
    wait_for(&s, 300);
    expect_part(
        &s, "producer 10: DISMISSED admission=3 status=14 fault=2 text='no row was consumed for 10 s (feed_timeout): "
            "worker:1 on h1 has 40 rows waiting and takes none.");
    wait_for(&s, 60000);
    expect(&s, ""); /* said once */
    end(&s);
}

/* A program that trains in step with another one waits for it, and that one for rows that do not come. */
static void test_programs_that_wait_for_each_other(void **state)
{
    (void)state;
    story s;
    start_fed(&s, 100);
    beat_with(&s, 0, 60, 20, false, ",input,");
    beat_with(&s, 1, 40, 40, true, ",input,");
    wait_for(&s, 9900); /* no task feeds any more, and still nothing may stay where it is */
    expect(&s, "");
    wait_for(&s, 300);
    expect_part(&s, "driver: 1 failed status=14 fault=2 text='no row was consumed for 10 s (feed_timeout): "
                    "worker:1 on h1 waits for rows, and there are no more; worker:0 on h0 has 40 rows waiting and "
                    "takes none.");
    end(&s);
}

static void test_rows_of_which_nobody_knows(void **state)
{
    (void)state;
    story s;
    start_fed(&s, 100);
    settled(&s, 0, 1, 10, 60, 0);
    beat(&s, 0, 60, 60, ",input,");
    beat(&s, 1, 30, 30, ",input,");
    wait_for(&s, 10100);
    expect_part(&s, "driver: 1 failed status=9 fault=1 text='nobody knows what became of 40 rows of epoch 0");
    end(&s);
}

/* Tasks give those who read no more than they need while others have yet to come. */
static void test_a_program_that_is_late(void **state)
{
    (void)state;
    story s;
    start(&s, 2, TFOS__FEED_DETERMINATE);
    beat(&s, 0, 0, 0, ",other,input,");
    admit(&s, 10, 0);
    expect_part(&s, " flags=10\n");
    beat(&s, 1, 0, 0, ",other,");
    expect(&s, "");
    beat(&s, 1, 0, 0, ",other,input,");
    expect(&s, "producer 10: READ_BY_ALL\n");
    beat(&s, 1, 0, 0, ",other,input,validation,");
    expect(&s, "");
    admit(&s, 11, 1);
    expect_part(&s, " flags=2\n");
    end(&s);
    /* One that has ended is not waited for. */
    start(&s, 1, TFOS__FEED_DETERMINATE);
    beat(&s, 0, 0, 0, ",input,");
    admit(&s, 10, 0);
    s.said.size = 0;
    node_ends(&s, 1, TFOS__OUTCOME_FINISHED, "");
    expect(&s, "producer 10: READ_BY_ALL\n");
    end(&s);
}

static void test_a_queue_that_nobody_reads(void **state)
{
    (void)state;
    story s;
    start(&s, 1, TFOS__FEED_DETERMINATE);
    beat(&s, 0, 0, 0, ",inputs,my_input,");
    admit(&s, 10, 0);
    s.said.size = 0;
    wait_for(&s, 9900);
    expect(&s, "");
    wait_for(&s, 300);
    expect_part(&s,
                "driver: 1 failed status=14 fault=2 text='no program has opened the queue 'input' for 10 s "
                "(feed_timeout), so nobody takes the rows. Does map_fun make a DataFeed (ctx.get_data_feed()) for this "
                "queue, and did it get that far? worker:1 has written nothing to its log.'\n");
    end(&s);
}

static void test_no_time_limit(void **state)
{
    (void)state;
    story s;
    begin(&s);
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FEED);
    tfos__message_put_number(&message, TFOS__FIELD_FEED, 1);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUE, "input");
    tfos__message_put_number(&message, TFOS__FIELD_PARTITIONS, 1);
    tfos__feeds_obey(s.feeds, &message, s.now_ms);
    order(&s, TFOS__MESSAGE_EPOCH, 1, 0);
    admit(&s, 10, 0);
    beat(&s, 0, 50, 10, ",input,");
    s.said.size = 0;
    wait_for(&s, 1000000);
    expect(&s, "");
    end(&s);
}

/* A node that was hungry for a whole heartbeat starves, which producers elsewhere must be told. */
static void test_a_node_starves(void **state)
{
    (void)state;
    story s;
    tfos__message message;
    start(&s, 2, TFOS__FEED_DETERMINATE);
    admit(&s, 10, 0);
    s.said.size = 0;
    tfos__message_init(&message, TFOS__MESSAGE_BEAT);
    tfos__message_put_number(&message, TFOS__FIELD_HUNGRY, 1);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUES, ",input,");
    tfos__feeds_hear_node(s.feeds, 0, &message, s.now_ms);
    expect(&s, "");
    tfos__feeds_hear_node(s.feeds, 0, &message, s.now_ms);
    expect(&s, "producer 10: HUNGRY hungry=1\n");
    tfos__feeds_hear_node(s.feeds, 0, &message, s.now_ms);
    expect(&s, "");
    admit(&s, 11, 1);
    expect_part(&s, "0\th0\tsocket-0\t0\t1\n");
    tfos__message_put_number(&message, TFOS__FIELD_FED, 5);
    tfos__feeds_hear_node(s.feeds, 0, &message, s.now_ms);
    expect_part(&s, "producer 10: HUNGRY hungry=0\n");
    end(&s);
}

/* ---- counts ---- */

static void test_counts_of_nodes(void **state)
{
    (void)state;
    story s;
    tfos__fed fed;
    begin(&s);
    s.now_ms += 2000;
    beat(&s, 0, 900, 800, ",input,");
    tfos__feeds_of_node(s.feeds, 0, &fed);
    assert_true(fed.is_fed);
    assert_int_equal(fed.fed_rows, 900);
    assert_int_equal(fed.consumed_rows, 800);
    assert_true(fed.rows_per_second > 399 && fed.rows_per_second < 401);
    s.now_ms += 2000;
    beat(&s, 0, 900, 800, ",input,");
    tfos__feeds_of_node(s.feeds, 0, &fed);
    assert_true(fed.rows_per_second < 1);
    end(&s);
}

/* A streaming job makes a feed for each batch, for as long as it lives. */
static void test_more_feeds_than_are_kept(void **state)
{
    (void)state;
    story s;
    begin(&s);
    open_feed(&s, 1, "input", 1, TFOS__FEED_DETERMINATE);
    for (uint64_t i = 2; i < 10000; i++) {
        open_feed(&s, i, "input", 1, TFOS__FEED_DETERMINATE);
        order(&s, TFOS__MESSAGE_EPOCH, i, 0);
        order(&s, TFOS__MESSAGE_FEED_CLOSE, i, 0);
        s.said.size = 0;
        assert_true(tfos__feeds_count(s.feeds) <= 2000);
    }
    /* The one that was never closed is still there. */
    order(&s, TFOS__MESSAGE_EPOCH, 1, 0);
    expect_part(&s, "driver: 1 epoch\n");
    admit(&s, 10, 0);
    expect_part(&s, "producer 10: GRANTED rows=0");
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_feed_of_two_epochs),
        cmocka_unit_test(test_what_a_driver_may_not),
        cmocka_unit_test(test_a_job_that_has_not_fed_everything),
        cmocka_unit_test(test_a_task_dies),
        cmocka_unit_test(test_a_task_dies_and_its_rows_cannot_be_found),
        cmocka_unit_test(test_what_a_dead_task_has_left),
        cmocka_unit_test(test_a_node_comes_back),
        cmocka_unit_test(test_a_node_is_replaced),
        cmocka_unit_test(test_terminate),
        cmocka_unit_test(test_a_row_that_cannot_be_fed),
        cmocka_unit_test(test_inference),
        cmocka_unit_test(test_inference_ends),
        cmocka_unit_test(test_rows_of_a_program_that_has_finished),
        cmocka_unit_test(test_rows_of_a_program_that_was_killed),
        cmocka_unit_test(test_a_program_that_has_failed),
        cmocka_unit_test(test_the_cluster_is_stopped),
        cmocka_unit_test(test_every_program_has_finished),
        cmocka_unit_test(test_rows_that_nobody_takes),
        cmocka_unit_test(test_programs_that_wait_for_each_other),
        cmocka_unit_test(test_rows_of_which_nobody_knows),
        cmocka_unit_test(test_a_program_that_is_late),
        cmocka_unit_test(test_a_queue_that_nobody_reads),
        cmocka_unit_test(test_no_time_limit),
        cmocka_unit_test(test_a_node_starves),
        cmocka_unit_test(test_counts_of_nodes),
        cmocka_unit_test(test_more_feeds_than_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
