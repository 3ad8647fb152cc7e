/* Feeds with thousands of producers and nodes: what an event costs does not depend on how many there are, and those who
 * are told that a node starves are told when it no longer does. Counted in messages, and in time without sockets. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "coordinator/feeds.h"
#include "helper_nodes.h"
#include "net/frame.h"

enum {
    NODES_MOST = 1000,
    PRODUCERS_MOST = 16000,
    AT_ONCE = 64,    /* producers that hear of a node when it begins to starve, … */
    OF_A_TICK = 128, /* … and in all with every tick */
    KNOWN_MOST = 32, /* of one producer */
};

typedef struct story {
    tfos__roster *roster;
    tfos__feeds *feeds;
    uint32_t nodes;
    uint64_t now_ms;
    uint64_t messages;                         /* to producers, … */
    uint64_t others;                           /* … and to anybody else */
    uint8_t knows[PRODUCERS_MOST][NODES_MOST]; /* producer i was told that a node starves */
    uint16_t known[PRODUCERS_MOST];            /* … of so many */
    uint16_t knowing[NODES_MOST];              /* producers that were told of a node */
    bool reads_places;
} story;

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- what is heard ---- */

static void to_node(void *context, uint32_t index, const tfos__message *message)
{
    (void)index, (void)message;
    ((story *)context)->others++;
}

static void to_driver(void *context, const tfos__message *message)
{
    (void)message;
    ((story *)context)->others++;
}

/* Nobody is told twice, and nobody is told that it is over who did not know. */
static void learn(story *s, uint64_t producer, uint64_t node, bool starves)
{
    assert_true(producer < PRODUCERS_MOST && node < s->nodes);
    assert_int_not_equal(s->knows[producer][node], starves);
    s->knows[producer][node] = starves;
    s->known[producer] = (uint16_t)(s->known[producer] + (starves ? 1 : -1));
    s->knowing[node] = (uint16_t)(s->knowing[node] + (starves ? 1 : -1));
    assert_true(s->known[producer] <= KNOWN_MOST);
}

/* Every node is in the list once, and those of its machine come first. */
static void read_places(story *s, uint64_t producer, const tfos__message *message)
{
    bool seen[NODES_MOST] = {false};
    uint32_t count = 0;
    size_t used;
    tfos__text list = tfos__message_text(message, TFOS__FIELD_PLACES);
    for (size_t at = 0; at < list.count; at += used, count++) {
        tfos__message place;
        assert_int_equal(tfos__frame_take(list.at + at, list.count - at, list.count, &place, &used, NULL), TFOS_OK);
        uint64_t index = tfos__message_number(&place, TFOS__FIELD_INDEX);
        assert_true(index < s->nodes && !seen[index]);
        seen[index] = true;
        assert_true(count > 0 || index == producer % s->nodes);
        if (tfos__message_number(&place, TFOS__FIELD_HUNGRY) != 0) {
            learn(s, producer, index, true);
        }
    }
    assert_int_equal(count, s->nodes);
}

static void to_producer(void *context, uint64_t producer, const tfos__message *message)
{
    story *s = context;
    s->messages++;
    if (message->type == TFOS__MESSAGE_HUNGRY) {
        learn(s, producer, tfos__message_number(message, TFOS__FIELD_INDEX),
              tfos__message_number(message, TFOS__FIELD_HUNGRY) != 0);
    } else if (message->type == TFOS__MESSAGE_GRANTED && s->reads_places) {
        read_places(s, producer, message);
    }
}

static void roster_to_node(void *context, uint32_t index, const tfos__message *message)
{
    (void)context, (void)index, (void)message;
}

static void roster_to_driver(void *context, const tfos__message *message)
{
    (void)context, (void)message;
}

/* ---- what happens ---- */

static void beat(story *s, uint32_t node, bool hungry, uint64_t rows)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_BEAT);
    tfos__message_put_number(&message, TFOS__FIELD_HUNGRY, hungry ? 1 : 0);
    tfos__message_put_number(&message, TFOS__FIELD_FED, rows);
    tfos__message_put_number(&message, TFOS__FIELD_CONSUMED, rows);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUES, ",input,");
    tfos__feeds_hear_node(s->feeds, node, &message, s->now_ms);
}

/* It gets nothing from one heartbeat to the next. */
static void starve(story *s, uint32_t node)
{
    beat(s, node, true, 0);
    beat(s, node, true, 0);
}

static void node_comes(story *s, uint32_t index)
{
    tfos__message message;
    uint32_t given;
    char text[32];
    snprintf(text, sizeof text, "m%u", index);
    helper_registration(&message, index, "some-host-of-a-cluster.example.org", 2000);
    tfos__message_put_string(&message, TFOS__FIELD_FEED_NAME, text);
    tfos__message_put_string(&message, TFOS__FIELD_MACHINE, text);
    assert_int_equal(tfos__roster_register(s->roster, &message, s->now_ms, &given, NULL), TFOS_OK);
    tfos__feeds_hear_node(s->feeds, index, &message, s->now_ms);
}

static void open_feed(story *s, uint64_t partitions)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FEED);
    tfos__message_put_number(&message, TFOS__FIELD_FEED, 1);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUE, "input");
    tfos__message_put_number(&message, TFOS__FIELD_PARTITIONS, partitions);
    tfos__message_put_number(&message, TFOS__FIELD_FEED_TIMEOUT_MS, 0);
    tfos__message_put_number(&message, TFOS__FIELD_FEED_FLAGS, TFOS__FEED_DETERMINATE);
    tfos__feeds_obey(s->feeds, &message, s->now_ms);
    tfos__message_init(&message, TFOS__MESSAGE_EPOCH);
    tfos__message_put_number(&message, TFOS__FIELD_FEED, 1);
    tfos__message_put_number(&message, TFOS__FIELD_EPOCH, 0);
    tfos__feeds_obey(s->feeds, &message, s->now_ms);
}

static story *begin(uint32_t nodes, uint64_t partitions)
{
    const tfos__roster_options options = {
        .roles = {.nodes = nodes}, .worker_gpus = -1, .timeout_ms = 60000, .beat_ms = 1000, .lease_ms = 1000000000};
    const tfos__roster_calls roster_calls = {.to_node = roster_to_node, .to_driver = roster_to_driver};
    story *s = calloc(1, sizeof *s);
    assert_non_null(s);
    const tfos__feeds_calls calls = {
        .to_node = to_node, .to_driver = to_driver, .to_producer = to_producer, .context = s};
    s->nodes = nodes;
    s->now_ms = 1000000;
    assert_int_equal(tfos__roster_new(&options, &roster_calls, s->now_ms, &s->roster, NULL), TFOS_OK);
    assert_int_equal(tfos__feeds_new(s->roster, &calls, &s->feeds, NULL), TFOS_OK);
    for (uint32_t i = 0; i < nodes; i++) {
        node_comes(s, i);
        beat(s, i, false, 0);
    }
    open_feed(s, partitions);
    s->messages = s->others = 0;
    return s;
}

static void end(story *s)
{
    tfos__feeds_free(s->feeds);
    tfos__roster_free(s->roster);
    free(s);
}

static void admit(story *s, uint64_t producer, uint64_t partition)
{
    tfos__message message;
    char machine[32];
    snprintf(machine, sizeof machine, "m%" PRIu64, producer % s->nodes);
    tfos__message_init(&message, TFOS__MESSAGE_ADMIT);
    tfos__attempt_put(&(tfos__attempt){.feed = 1, .partition = partition, .task = producer}, &message);
    tfos__message_put_string(&message, TFOS__FIELD_MACHINE, machine);
    tfos__feeds_hear_producer(s->feeds, producer, &message, s->now_ms);
}

static void say_fed(story *s, uint64_t producer)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FED);
    tfos__message_put_number(&message, TFOS__FIELD_FED, 10);
    tfos__message_put_number(&message, TFOS__FIELD_CONSUMED, 5);
    tfos__feeds_hear_producer(s->feeds, producer, &message, s->now_ms);
}

static void say_exhausted(story *s, uint64_t producer)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_EXHAUSTED);
    tfos__message_put_number(&message, TFOS__FIELD_ROWS, 10);
    tfos__feeds_hear_producer(s->feeds, producer, &message, s->now_ms);
}

static void settle(story *s, uint64_t partition)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_SETTLED);
    tfos__attempt_put(&(tfos__attempt){.feed = 1, .partition = partition, .task = partition}, &message);
    tfos__message_put_number(&message, TFOS__FIELD_CONSUMED, 10);
    tfos__message_put_number(&message, TFOS__FIELD_SKIPPED, 0);
    tfos__message_put_number(&message, TFOS__FIELD_SEQUENCE, partition / s->nodes + 1);
    tfos__feeds_hear_node(s->feeds, (uint32_t)(partition % s->nodes), &message, s->now_ms);
}

static void leave(story *s, uint64_t producer)
{
    tfos__feeds_producer_left(s->feeds, producer);
    for (uint32_t i = 0; i < s->nodes && s->known[producer] > 0; i++) {
        if (s->knows[producer][i]) {
            learn(s, producer, i, false);
        }
    }
}

static void tick(story *s)
{
    s->now_ms += 100;
    tfos__feeds_tick(s->feeds, s->now_ms);
}

static void expect_messages(story *s, uint64_t to_producers, uint64_t to_others)
{
    assert_int_equal(s->messages, to_producers);
    assert_int_equal(s->others, to_others);
    s->messages = s->others = 0;
}

/* ---- stories ---- */

/* With so many, each event says what it has to say to those whom it concerns, and takes microseconds. To look through
 * all producers for each would take minutes. */
static void test_the_life_of_many(void **state)
{
    (void)state;
    story *s = begin(NODES_MOST, PRODUCERS_MOST);
    double started = cpu_seconds();
    for (uint64_t i = 0; i < PRODUCERS_MOST; i++) {
        admit(s, i, i);
    }
    expect_messages(s, PRODUCERS_MOST, 0);
    for (uint64_t i = 0; i < PRODUCERS_MOST; i++) {
        say_fed(s, i);
        beat(s, (uint32_t)(i % NODES_MOST), false, i);
    }
    tick(s);
    expect_messages(s, 0, 0);
    for (uint64_t i = 0; i < PRODUCERS_MOST; i++) {
        say_exhausted(s, i);
    }
    expect_messages(s, PRODUCERS_MOST, NODES_MOST + 1); /* and the mark, once */
    for (uint64_t i = 0; i < PRODUCERS_MOST; i++) {
        leave(s, i);
        settle(s, i);
    }
    expect_messages(s, 0, 1); /* all of it was consumed */
    double us = (cpu_seconds() - started) * 1e6 / (PRODUCERS_MOST * 6.0);
    print_message("%d producers, %d nodes: %.1f us an event\n", PRODUCERS_MOST, NODES_MOST, us);
    assert_true(us < 500); /* about 2, most of it for the list of nodes */
    end(s);
}

/* News of one node reaches a few at once and all of them in the end, a limited number at a time. */
static void test_one_node_starves(void **state)
{
    (void)state;
    story *s = begin(NODES_MOST, PRODUCERS_MOST);
    for (uint64_t i = 0; i < PRODUCERS_MOST; i++) {
        admit(s, i, i);
    }
    s->messages = 0;
    starve(s, 7);
    expect_messages(s, AT_ONCE, 0);
    for (uint64_t known = AT_ONCE; known < PRODUCERS_MOST;) {
        tick(s);
        assert_true(s->messages > 0 && s->messages <= OF_A_TICK);
        known += s->messages;
        s->messages = 0;
    }
    assert_int_equal(s->knowing[7], PRODUCERS_MOST);
    tick(s);
    expect_messages(s, 0, 0);
    beat(s, 7, true, 1); /* it got a row */
    expect_messages(s, PRODUCERS_MOST, 0);
    assert_int_equal(s->knowing[7], 0);
    end(s);
}

/* All of them starve, as when Spark is slow: somebody hears of each soon, and a tick costs no more than for one. */
static void test_all_nodes_starve(void **state)
{
    (void)state;
    story *s = begin(NODES_MOST, PRODUCERS_MOST);
    for (uint64_t i = 0; i < PRODUCERS_MOST; i++) {
        admit(s, i, i);
    }
    for (uint32_t i = 0; i < NODES_MOST; i++) {
        starve(s, i);
    }
    for (int i = 0; i < 40; i++) {
        s->messages = 0;
        tick(s);
        assert_true(s->messages <= 2 * OF_A_TICK); /* one may be told that another node is not to be minded any more */
    }
    for (uint32_t i = 0; i < NODES_MOST; i++) {
        assert_true(s->knowing[i] > 0);
    }
    for (uint32_t i = 0; i < NODES_MOST; i++) {
        beat(s, i, false, 1);
        assert_int_equal(s->knowing[i], 0);
    }
    end(s);
}

/* Few producers and more nodes that starve than one may know of: each has its turn. */
static void test_every_starving_node_has_its_turn(void **state)
{
    (void)state;
    enum { STARVING = 100 };
    bool heard[STARVING] = {false};
    story *s = begin(STARVING, 2);
    s->reads_places = true;
    admit(s, 0, 0);
    for (uint32_t i = 0; i < STARVING; i++) {
        starve(s, i);
    }
    admit(s, 1, 1);
    assert_int_equal(s->known[0], KNOWN_MOST);
    assert_int_equal(s->known[1], KNOWN_MOST);
    for (int i = 0; i < 300; i++) {
        tick(s);
        for (uint32_t node = 0; node < STARVING; node++) {
            heard[node] = heard[node] || s->knows[0][node];
        }
    }
    for (uint32_t node = 0; node < STARVING; node++) {
        assert_true(heard[node]);
    }
    end(s);
}

/* Whatever happens in whatever order: nobody believes that a node starves which does not, and whoever has been there
 * for long knows of all that do. */
static void test_random_hunger(void **state)
{
    (void)state;
    enum { NODES = 40, PARTITIONS = 200, STEPS = 20000 };
    story *s = begin(NODES, PARTITIONS);
    bool starves[NODES] = {false};
    bool there[PRODUCERS_MOST] = {false};
    uint64_t rows[NODES] = {0};
    uint64_t next = 0;
    s->reads_places = true;
    srand(7);
    for (int step = 0; step < STEPS; step++) {
        uint32_t node = (uint32_t)rand() % NODES;
        uint64_t producer = next > 0 ? (uint64_t)rand() % next : 0;
        switch (rand() % 8) {
        case 0:
            if (next < PARTITIONS) {
                there[next] = true;
                admit(s, next, next);
                next++;
            }
            break;
        case 1:
            if (there[producer] && rand() % 8 == 0) {
                there[producer] = false;
                leave(s, producer);
            }
            break;
        case 2:
        case 3:
            beat(s, node, true, rows[node]);
            beat(s, node, true, rows[node]);
            starves[node] = true;
            break;
        case 4:
            beat(s, node, false, ++rows[node]);
            starves[node] = false;
            break;
        default:
            tick(s);
            break;
        }
        for (uint32_t i = 0; i < NODES; i++) {
            assert_true(starves[i] || s->knowing[i] == 0);
        }
    }
    for (uint32_t i = 0; i < NODES; i++) {
        beat(s, i, false, ++rows[i]); /* all but the first twenty */
    }
    for (uint32_t i = 0; i < 20; i++) {
        beat(s, i, true, rows[i]);
        beat(s, i, true, rows[i]);
    }
    for (int i = 0; i < 200; i++) {
        tick(s);
    }
    for (uint64_t i = 0; i < next; i++) {
        assert_int_equal(s->known[i], there[i] ? 20 : 0);
    }
    end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_life_of_many), cmocka_unit_test(test_one_node_starves),
        cmocka_unit_test(test_all_nodes_starve), cmocka_unit_test(test_every_starving_node_has_its_turn),
        cmocka_unit_test(test_random_hunger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
