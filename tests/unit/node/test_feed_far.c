/* Producers elsewhere at a node, played over TLS: a thousand of them, of IPv4 and IPv6, that cost no thread and, while
 * they wait, no time; results that nobody takes; and those who do not keep to the rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"
#include "column/batch.h"
#include "feed/feeder.h"
#include "helper_cluster.h"
#include "helper_fed_node.h"
#include "helper_feed.h"
#include "helper_process.h"
#include "net/dial.h"

enum { FEW_MS = 20000 };

static helper_fed_node *s;

static int open_scene(void **state)
{
    (void)state;
    s = calloc(1, sizeof *s);
    return helper_fed_node_open(s);
}

static int close_scene(void **state)
{
    (void)state;
    helper_fed_node_close(s);
    free(s);
    return 0;
}

/* ---- a producer ---- */

static tfos__dial *come(const char *host)
{
    tfos__dial *dial;
    tfos_error error;
    if (tfos__dial_open(host, (uint16_t)s->it.feed_port, s->it.key, TFOS__FEED_PLANE_PURPOSE, FEW_MS, NULL, &dial,
                        &error) != TFOS_OK) {
        fail_msg("%s: %s", host, error.message);
    }
    return dial;
}

static void ask(tfos__dial *dial, uint64_t partition, uint64_t flags)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_LANE);
    tfos__attempt_put(&(tfos__attempt){.feed = 1, .partition = partition, .task = partition}, &message);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUE, "input");
    tfos__message_put_number(&message, TFOS__FIELD_FEED_FLAGS, flags);
    assert_int_equal(tfos__dial_send(dial, &message, NULL), TFOS_OK);
}

/* Reads what the node says, while the coordinator goes on, until a message of this type comes. */
static void hear(tfos__dial *dial, tfos__message_type type, tfos__message *out)
{
    tfos_error error = {.message = ""};
    for (int64_t deadline = tfos__clock_ms() + FEW_MS; tfos__clock_ms() < deadline;) {
        tfos_status status = tfos__dial_receive(dial, 10, out, &error);
        if (status == TFOS_OK && out->type == type) {
            return;
        }
        if (status != TFOS_OK && status != TFOS_END) {
            break;
        }
        helper_run_for(&s->it, 1);
    }
    fail_msg("no %s came: %s", tfos__message_name(type), error.message);
}

static void send_entry(tfos__dial *dial, const uint8_t *bytes, size_t count)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_ENTRY);
    tfos__message_put_number(&message, TFOS__FIELD_ENTRY_BYTES, count);
    tfos__message_put_text(&message, TFOS__FIELD_PIECE, (const char *)bytes, count);
    assert_int_equal(tfos__dial_send(dial, &message, NULL), TFOS_OK);
}

/* Rows first … first + rows - 1 of a partition, as numbers. Returns the bytes of the entry. */
static size_t send_numbers(tfos__dial *dial, int64_t first, int64_t rows)
{
    tfos_schema *schema = helper_number_schema();
    tfos_batch *batch = helper_numbers(schema, first, rows);
    tfos__buffer entry = {0};
    if (first == 0) {
        assert_int_equal(tfos__entry_append_schema(schema, &entry, NULL), TFOS_OK);
        send_entry(dial, entry.data, entry.size);
    }
    size_t bytes = tfos__entry_batch_bytes(batch, 0, rows);
    assert_int_equal(tfos__buffer_reserve(&entry, bytes, NULL), TFOS_OK);
    tfos__entry_write_batch(batch, 0, rows, (uint64_t)first, entry.data);
    send_entry(dial, entry.data, bytes);
    tfos__buffer_reset(&entry);
    tfos_batch_free(batch);
    tfos_schema_free(schema);
    return bytes;
}

static void say_end(tfos__dial *dial)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_LANE_END);
    assert_int_equal(tfos__dial_send(dial, &message, NULL), TFOS_OK);
}

/* Expects the connection to be closed by the node. */
static void expect_cut_off(tfos__dial *dial)
{
    tfos__message message;
    tfos_status status = TFOS_OK;
    for (int64_t deadline = tfos__clock_ms() + FEW_MS; status != TFOS_IO && tfos__clock_ms() < deadline;) {
        status = tfos__dial_receive(dial, 10, &message, NULL);
        helper_run_for(&s->it, 1);
    }
    assert_int_equal(status, TFOS_IO);
    tfos__dial_close(dial);
}

/* ---- what the node costs ---- */

static long cpu_ms_of_node(void)
{
    return helper_process_ticks((long)s->it.node_pid) * 1000 / sysconf(_SC_CLK_TCK);
}

/* ---- stories ---- */

/* All of them wait for one node; it serves them in turn, as it has memory for lanes. */
static void test_a_thousand(void **state)
{
    (void)state;
    enum { MANY = 1000, ROWS = 3, IDLE_MS = 2000 };
    static tfos__dial *dials[MANY];
    tfos__message message;
    struct rlimit files;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    helper_fed_node_start(s, "take", NULL);
    for (size_t i = 0; i < MANY; i++) {
        dials[i] = come(i % 3 == 0 ? "127.0.0.1" : i % 3 == 1 ? "::1" : "[::1]");
        ask(dials[i], i, 0);
        helper_run_for(&s->it, 0);
    }
    hear(dials[MANY - 1], TFOS__MESSAGE_LANE_BUSY, &message); /* no epoch has begun */
    helper_run_for(&s->it, 100);
    long before = cpu_ms_of_node();
    helper_run_for(&s->it, IDLE_MS);
    long idle = cpu_ms_of_node() - before;
    size_t threads = helper_process_threads((long)s->it.node_pid);
    if (threads > 8 || idle > IDLE_MS / 20) {
        fail_msg("the node has %zu threads, and took %ld ms of %d without anything to do", threads, idle, IDLE_MS);
    }
    helper_fed_node_say_epoch(s, 0);
    for (size_t i = 0; i < MANY; i++) {
        hear(dials[i], TFOS__MESSAGE_LANE_GRANTED, &message);
        send_numbers(dials[i], 0, ROWS);
        say_end(dials[i]);
        tfos__dial_close(dials[i]);
    }
    helper_fed_node_wait(s, MANY * ROWS);
}

/* A task that takes no results gets as many as it has room for, and no more; the node and its program wait. */
static void test_results_that_nobody_takes(void **state)
{
    (void)state;
    enum { ROWS = 500 };
    static const char *const settings[] = {"feed.lane_bytes=64KiB", NULL};
    tfos__message message;
    helper_fed_node_start(s, "infer", settings);
    helper_fed_node_say_epoch(s, 0);
    tfos__dial *dial = come("127.0.0.1");
    ask(dial, 0, TFOS__FEED_INFERENCE);
    hear(dial, TFOS__MESSAGE_LANE_GRANTED, &message);
    uint64_t ring = tfos__message_number(&message, TFOS__FIELD_LANE_BYTES);
    uint64_t credit = ring;
    uint64_t sent = 0;
    uint64_t received = 0;
    int64_t first = 0;
    /* Rows as long as there is room for them: then both lanes are full, and the program waits. */
    for (int quiet = 0; quiet < 30;) {
        if (sent + 8192 < credit) {
            sent += send_numbers(dial, first, ROWS) + (first == 0 ? 1024 : 0);
            first += ROWS;
        }
        tfos_status status = tfos__dial_receive(dial, 10, &message, NULL);
        assert_true(status == TFOS_OK || status == TFOS_END);
        quiet = status == TFOS_END ? quiet + 1 : 0;
        if (status == TFOS_OK && message.type == TFOS__MESSAGE_ENTRY) {
            received += tfos__message_text(&message, TFOS__FIELD_PIECE).count;
        } else if (status == TFOS_OK) {
            assert_int_equal(message.type, TFOS__MESSAGE_LANE_STATE);
            credit = tfos__message_number(&message, TFOS__FIELD_CREDIT);
        }
        helper_run_for(&s->it, 1);
    }
    assert_true(received > ring / 2);
    assert_true(received <= ring);
    /* Room for as many again. */
    tfos__message_init(&message, TFOS__MESSAGE_RESULTS_ROOM);
    tfos__message_put_number(&message, TFOS__FIELD_CREDIT, received + ring);
    assert_int_equal(tfos__dial_send(dial, &message, NULL), TFOS_OK);
    hear(dial, TFOS__MESSAGE_ENTRY, &message);
    tfos__dial_close(dial);
}

static void test_rules(void **state)
{
    (void)state;
    tfos__message message;
    uint8_t nonsense[64] = {0};
    helper_fed_node_start(s, "take", NULL);
    helper_fed_node_say_epoch(s, 0);
    tfos__dial *dial = come("localhost");
    send_entry(dial, nonsense, sizeof nonsense); /* without a lane */
    expect_cut_off(dial);
    dial = come("127.0.0.1");
    ask(dial, 0, 0);
    hear(dial, TFOS__MESSAGE_LANE_GRANTED, &message);
    send_entry(dial, nonsense, sizeof nonsense); /* that is none */
    expect_cut_off(dial);
    dial = come("127.0.0.1");
    ask(dial, 1, 0);
    ask(dial, 2, 0); /* two lanes */
    expect_cut_off(dial);
    dial = come("127.0.0.1");
    tfos__message_init(&message, TFOS__MESSAGE_HELLO); /* something else altogether */
    tfos__message_put_string(&message, TFOS__FIELD_VERSION, TFOS_VERSION);
    assert_int_equal(tfos__dial_send(dial, &message, NULL), TFOS_OK);
    expect_cut_off(dial);
    dial = come("127.0.0.1");
    ask(dial, 3, 0);
    hear(dial, TFOS__MESSAGE_LANE_GRANTED, &message);
    tfos__message_init(&message, TFOS__MESSAGE_RESULTS_ROOM); /* where there are none */
    tfos__message_put_number(&message, TFOS__FIELD_CREDIT, 1 << 20);
    assert_int_equal(tfos__dial_send(dial, &message, NULL), TFOS_OK);
    expect_cut_off(dial);
    dial = come("127.0.0.1"); /* nobody else was hurt */
    ask(dial, 4, 0);
    hear(dial, TFOS__MESSAGE_LANE_GRANTED, &message);
    send_numbers(dial, 0, 10);
    say_end(dial);
    helper_fed_node_wait(s, 10);
    tfos__dial_close(dial);
}

/* A task that is at work hears at once that the program starves, without any lane of its own to tell it. */
static void test_hunger_is_heard(void **state)
{
    (void)state;
    tfos__message message;
    helper_fed_node_start(s, "take", NULL);
    helper_fed_node_say_epoch(s, 0);
    tfos__dial *dial = come("127.0.0.1");
    do {
        hear(dial, TFOS__MESSAGE_LANE_STATE, &message);
    } while (tfos__message_number(&message, TFOS__FIELD_HUNGRY) == 0);
    tfos__dial_close(dial);
}

/* … and that it does not any more, though nobody rings for that. */
static void test_the_end_of_hunger_is_heard(void **state)
{
    (void)state;
    tfos__message message;
    helper_fed_node_start(s, "stuck", NULL); /* it takes a batch, and wants no other */
    helper_fed_node_say_epoch(s, 0);
    tfos__dial *idle = come("127.0.0.1");
    do {
        hear(idle, TFOS__MESSAGE_LANE_STATE, &message);
    } while (tfos__message_number(&message, TFOS__FIELD_HUNGRY) == 0);
    tfos__dial *dial = come("127.0.0.1");
    ask(dial, 0, 0);
    hear(dial, TFOS__MESSAGE_LANE_GRANTED, &message);
    send_numbers(dial, 0, 10);
    do {
        hear(idle, TFOS__MESSAGE_LANE_STATE, &message);
    } while (tfos__message_number(&message, TFOS__FIELD_HUNGRY) != 0);
    tfos__dial_close(dial);
    tfos__dial_close(idle);
}

int main(int argc, char **argv)
{
    helper_program_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_thousand, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_results_that_nobody_takes, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_rules, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_hunger_is_heard, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_the_end_of_hunger_is_heard, open_scene, close_scene),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
