/* The feed of a node, with a coordinator and producers that are played: who gets a lane and when, what is fenced, what
 * the program hears of epochs, also when things are said twice or not at all. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "column/batch.h"
#include "feed/feeder.h"
#include "helper_cluster.h"
#include "helper_coordinator.h"
#include "helper_fed_node.h"
#include "helper_feed.h"
#include "net/local.h"

enum { FEW_MS = 10000 };

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

static void start_node(const char *mode, const char *const *settings)
{
    helper_fed_node_start(s, mode, settings);
}

static void say_epoch(uint64_t epoch)
{
    helper_fed_node_say_epoch(s, epoch);
}

static void say_fence(uint64_t partition, uint64_t task)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FENCE);
    tfos__attempt_put(&(tfos__attempt){.feed = 1, .epoch = 0, .partition = partition, .task = task}, &message);
    tfos__link_send(s->it.link, &message);
}

static void say_marks(uint64_t marks)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_MARK);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUE, "input");
    tfos__message_put_number(&message, TFOS__FIELD_MARKS, marks);
    tfos__link_send(s->it.link, &message);
}

/* ---- producers ---- */

typedef struct producer {
    int socket;
    tfos__bell *bell;    /* its own */
    tfos__bell *program; /* of the program */
    tfos__lane *lane;
    tfos__packet heard;
} producer;

static void connect_producer(producer *p)
{
    *p = (producer){.socket = tfos__local_connect(s->it.feed_name)};
    assert_true(p->socket >= 0);
    assert_int_equal(tfos__bell_new(&p->bell, NULL), TFOS_OK);
}

static void close_producer(producer *p)
{
    close(p->socket);
    tfos__bell_free(p->bell);
    tfos__bell_free(p->program);
    tfos__lane_free(p->lane);
}

static bool can_be_read(void *context)
{
    struct pollfd wait = {.fd = *(const int *)context, .events = POLLIN};
    return poll(&wait, 1, 0) == 1;
}

/* The next packet of the node, or IO when it has closed the socket. */
static tfos_status hear(producer *p)
{
    int fds[TFOS__PACKET_FDS_MOST];
    helper_wait(&s->it, can_be_read, &p->socket, FEW_MS, "a packet of the node");
    TFOS_TRY(tfos__packet_receive(p->socket, &p->heard, fds, NULL));
    if (p->heard.kind == TFOS__PACKET_BELL) {
        assert_int_equal(tfos__bell_adopt(fds[0], &p->program, NULL), TFOS_OK);
        fds[0] = -1;
    } else if (p->heard.kind == TFOS__PACKET_LANE) {
        assert_int_equal(tfos__lane_adopt(fds[0], &p->lane, NULL), TFOS_OK);
        fds[0] = -1;
    }
    tfos__packet_close_fds(fds);
    return TFOS_OK;
}

static void greet(producer *p)
{
    tfos__packet packet;
    tfos__packet_init(&packet, TFOS__PACKET_HELLO);
    assert_int_equal(tfos__key_derive(s->it.key, TFOS__FEED_TOKEN_PURPOSE, packet.token, NULL), TFOS_OK);
    assert_int_equal(tfos__packet_send(p->socket, &packet, NULL, 0, NULL), TFOS_OK);
    assert_int_equal(hear(p), TFOS_OK);
    assert_int_equal(p->heard.kind, TFOS__PACKET_BELL);
}

static void ask(producer *p, uint64_t epoch, uint64_t partition, uint64_t attempt)
{
    tfos__packet packet;
    int fd = tfos__bell_fd(p->bell);
    tfos__packet_init(&packet, TFOS__PACKET_OPEN);
    packet.id.attempt = (tfos__attempt){.feed = 1, .epoch = epoch, .partition = partition, .task = attempt};
    strcpy(packet.queue, "input");
    assert_int_equal(tfos__packet_send(p->socket, &packet, &fd, 1, NULL), TFOS_OK);
}

/* Connects, asks and waits for the lane, however long the program takes to open its queue. */
static void get_lane(producer *p, uint64_t epoch, uint64_t partition, uint64_t attempt)
{
    connect_producer(p);
    greet(p);
    ask(p, epoch, partition, attempt);
    while (p->lane == NULL) {
        assert_int_equal(hear(p), TFOS_OK);
        assert_true(p->heard.kind == TFOS__PACKET_BUSY || p->heard.kind == TFOS__PACKET_LANE);
    }
}

static tfos_status put_numbers(producer *p, int64_t first, int64_t rows, bool with_schema)
{
    tfos_schema *schema = helper_number_schema();
    tfos_batch *batch = helper_numbers(schema, first, rows);
    tfos__buffer entry = {0};
    uint8_t *to;
    tfos_status status = TFOS_OK;
    if (with_schema) {
        assert_int_equal(tfos__entry_append_schema(schema, &entry, NULL), TFOS_OK);
        assert_int_equal(tfos__lane_reserve(p->lane, entry.size, &to, NULL), TFOS_OK);
        memcpy(to, entry.data, entry.size);
        assert_int_equal(tfos__lane_commit(p->lane, entry.size, 0, 0, NULL), TFOS_OK);
    }
    size_t bytes = tfos__entry_batch_bytes(batch, 0, rows);
    status = tfos__lane_reserve(p->lane, bytes, &to, NULL);
    if (status == TFOS_OK) {
        tfos__entry_write_batch(batch, 0, rows, (uint64_t)first, to);
        status = tfos__lane_commit(p->lane, bytes, (uint64_t)rows, (uint64_t)(first + rows), NULL);
        tfos__bell_ring(p->program);
    }
    tfos__buffer_reset(&entry);
    tfos_batch_free(batch);
    tfos_schema_free(schema);
    return status;
}

static void wait_for_numbers(int count)
{
    helper_fed_node_wait(s, count);
}

/* ---- stories ---- */

static void test_strangers_get_nothing(void **state)
{
    (void)state;
    producer p;
    tfos__packet packet;
    start_node("take", NULL);
    connect_producer(&p); /* the wrong token */
    tfos__packet_init(&packet, TFOS__PACKET_HELLO);
    assert_int_equal(tfos__packet_send(p.socket, &packet, NULL, 0, NULL), TFOS_OK);
    assert_int_equal(hear(&p), TFOS_OK);
    assert_int_equal(p.heard.kind, TFOS__PACKET_REFUSED);
    assert_string_equal(p.heard.text, "it does not belong to this cluster");
    assert_int_equal(hear(&p), TFOS_IO);
    close_producer(&p);
    connect_producer(&p); /* no greeting at all */
    ask(&p, 0, 0, 1);
    assert_int_equal(hear(&p), TFOS_OK);
    assert_int_equal(p.heard.kind, TFOS__PACKET_REFUSED);
    close_producer(&p);
    connect_producer(&p); /* nonsense */
    assert_int_equal(send(p.socket, "hello", 5, MSG_NOSIGNAL), 5);
    assert_int_equal(hear(&p), TFOS_IO);
    close_producer(&p);
    connect_producer(&p); /* a bell that is none */
    greet(&p);
    tfos__packet_init(&packet, TFOS__PACKET_OPEN);
    assert_int_equal(tfos__packet_send(p.socket, &packet, &p.socket, 1, NULL), TFOS_OK);
    assert_int_equal(hear(&p), TFOS_OK);
    assert_int_equal(p.heard.kind, TFOS__PACKET_REFUSED);
    close_producer(&p);
    /* The node is as it was. */
    say_epoch(0);
    get_lane(&p, 0, 0, 1);
    assert_int_equal(put_numbers(&p, 0, 20, true), TFOS_OK);
    wait_for_numbers(20);
    close_producer(&p);
}

/* A producer may be faster than the coordinator's word that the epoch has begun. */
static void test_a_lane_does_not_overtake_its_epoch(void **state)
{
    (void)state;
    producer early;
    producer late;
    start_node("take", NULL);
    say_epoch(0);
    producer first;
    get_lane(&first, 0, 0, 1);
    assert_int_equal(put_numbers(&first, 0, 10, true), TFOS_OK);
    close_producer(&first);
    wait_for_numbers(10);
    connect_producer(&early);
    greet(&early);
    ask(&early, 1, 0, 2); /* of the next epoch, whose mark is still on its way */
    assert_int_equal(hear(&early), TFOS_OK);
    assert_int_equal(early.heard.kind, TFOS__PACKET_BUSY);
    say_marks(1);
    say_epoch(1);
    assert_int_equal(hear(&early), TFOS_OK);
    assert_int_equal(early.heard.kind, TFOS__PACKET_LANE);
    assert_int_equal(put_numbers(&early, 100, 10, true), TFOS_OK);
    wait_for_numbers(21);
    connect_producer(&late);
    greet(&late);
    ask(&late, 0, 3, 3);
    assert_int_equal(hear(&late), TFOS_OK);
    assert_int_equal(late.heard.kind, TFOS__PACKET_REFUSED);
    assert_string_equal(late.heard.text, "its epoch is over");
    close_producer(&late);
    close_producer(&early);
    int64_t numbers[21];
    FILE *file = fopen(s->rows, "rb");
    assert_int_equal(fread(numbers, sizeof numbers[0], 21, file), 21);
    fclose(file);
    assert_int_equal(numbers[9], 9);
    assert_int_equal(numbers[10], HELPER_EPOCH_END);
    assert_int_equal(numbers[11], 100);
}

static void test_an_attempt_is_fenced(void **state)
{
    (void)state;
    producer p;
    producer again;
    start_node("take", NULL);
    say_epoch(0);
    get_lane(&p, 0, 7, 42);
    assert_int_equal(put_numbers(&p, 0, 30, true), TFOS_OK);
    say_fence(7, 42);
    helper_wait_heard(&s->it, TFOS__MESSAGE_FENCED, 1, FEW_MS);
    assert_int_equal(s->it.fenced_rows, 30);
    assert_int_equal(put_numbers(&p, 30, 10, false), TFOS_CANCELLED);
    wait_for_numbers(30); /* what was committed is consumed */
    connect_producer(&again);
    greet(&again);
    ask(&again, 0, 7, 42);
    assert_int_equal(hear(&again), TFOS_OK);
    assert_int_equal(again.heard.kind, TFOS__PACKET_REFUSED);
    close_producer(&again);
    /* An attempt that never came here is fenced, too; and one that is gone has left its number. */
    say_fence(7, 43);
    helper_wait_heard(&s->it, TFOS__MESSAGE_FENCED, 2, FEW_MS);
    assert_int_equal(s->it.fenced_rows, 0);
    close_producer(&p);
    say_fence(7, 42);
    helper_wait_heard(&s->it, TFOS__MESSAGE_FENCED, 3, FEW_MS);
    assert_int_equal(s->it.fenced_rows, 30);
}

/* The coordinator says how many marks there were: said twice, or missed, they come out right. */
static void test_marks_are_counted(void **state)
{
    (void)state;
    start_node("take", NULL);
    say_marks(1);
    say_marks(1);
    wait_for_numbers(1);
    helper_coordinator_cut(&s->it);
    helper_wait_heard(&s->it, TFOS__MESSAGE_REGISTER, 2, FEW_MS);
    say_marks(1);
    say_marks(3);
    wait_for_numbers(3);
}

/* What a program wants to end is said until somebody has heard it. */
static void test_terminate_is_said_again(void **state)
{
    (void)state;
    producer p;
    tfos__message message;
    start_node("terminate:10", (const char *const[]){"cluster.beat_ms=100", NULL});
    say_epoch(0);
    get_lane(&p, 0, 0, 1);
    assert_int_equal(put_numbers(&p, 0, 30, true), TFOS_OK);
    helper_wait_heard(&s->it, TFOS__MESSAGE_TERMINATE, 3, FEW_MS);
    assert_string_equal(s->it.terminated, "input");
    tfos__message_init(&message, TFOS__MESSAGE_QUEUE_END);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUE, "input");
    tfos__link_send(s->it.link, &message);
    helper_run_for(&s->it, 300);
    int heard = s->it.heard[TFOS__MESSAGE_TERMINATE];
    helper_run_for(&s->it, 500);
    assert_int_equal(s->it.heard[TFOS__MESSAGE_TERMINATE], heard);
    tfos__lane_counts counts;
    tfos__lane_count(p.lane, &counts);
    assert_true(counts.given_up);
    close_producer(&p);
}

/* A program that wants no more may not look at its feed again for as long as it lives, while tasks still come. */
static void test_nobody_feeds_behind_terminate(void **state)
{
    (void)state;
    producer p;
    producer late;
    start_node("terminate:10", NULL);
    say_epoch(0);
    get_lane(&p, 0, 0, 1);
    assert_int_equal(put_numbers(&p, 0, 30, true), TFOS_OK);
    helper_wait_heard(&s->it, TFOS__MESSAGE_TERMINATE, 1, FEW_MS);
    get_lane(&late, 0, 1, 2);
    assert_int_equal(put_numbers(&late, 0, 30, false), TFOS_CANCELLED);
    close_producer(&late);
    close_producer(&p);
    helper_wait_heard(&s->it, TFOS__MESSAGE_SETTLED, 1, FEW_MS);
}

/* The program is gone: producers learn of it, and what was fed is told before the node's last word. */
static void test_a_program_ends(void **state)
{
    (void)state;
    producer p;
    producer late;
    start_node("take:10", NULL);
    say_epoch(0);
    s->it.hold_bye = true;
    get_lane(&p, 0, 0, 1);
    assert_int_equal(put_numbers(&p, 0, 30, true), TFOS_OK);
    helper_wait_heard(&s->it, TFOS__MESSAGE_ENDED, 1, FEW_MS);
    assert_int_equal(s->it.heard[TFOS__MESSAGE_FENCED], 1);
    assert_int_equal(s->it.fenced_rows, 30);
    assert_int_equal(put_numbers(&p, 30, 1, false), TFOS_CANCELLED);
    connect_producer(&late);
    greet(&late);
    ask(&late, 0, 1, 2);
    assert_int_equal(hear(&late), TFOS_OK);
    assert_int_equal(late.heard.kind, TFOS__PACKET_REFUSED);
    assert_int_equal(late.heard.flags, TFOS__PACKET_ENDED);
    close_producer(&late);
    close_producer(&p);
}

int main(int argc, char **argv)
{
    helper_program_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_strangers_get_nothing, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_a_lane_does_not_overtake_its_epoch, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_an_attempt_is_fenced, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_marks_are_counted, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_terminate_is_said_again, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_nobody_feeds_behind_terminate, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_a_program_ends, open_scene, close_scene),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
