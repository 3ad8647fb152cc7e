/* How many may be connected to a coordinator, and what happens to those that are too many. A real coordinator has few
 * files here, so that a crowd need not be large: this process has, and a child inherits that. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "coordinator/crowd.h"
#include "helper_loop.h"
#include "helper_nodes.h"
#include "net/attempt.h"

enum { FILES = 400, CROWD = 200, TASKS = 203 /* beside one node */ };

/* ---- the plan ---- */

static void test_plan(void **state)
{
    (void)state;
    tfos__crowd crowd;
    tfos_error error;
    assert_int_equal(tfos__crowd_plan(20000, 1000, &crowd, &error), TFOS_OK);
    assert_int_equal(crowd.others_most, 3024);
    assert_int_equal(crowd.producers_most, 16384);
    assert_int_equal(tfos__crowd_plan(SIZE_MAX, 2, &crowd, &error), TFOS_OK);
    assert_int_equal(crowd.others_most, 1028);
    assert_int_equal(crowd.producers_most, 16384);
    assert_int_equal(tfos__crowd_plan(FILES, 1, &crowd, &error), TFOS_OK);
    assert_int_equal(crowd.others_most, 1 + 1 + 67);
    assert_int_equal(crowd.producers_most, TASKS);
    /* Whatever there is, it is not given out twice. */
    for (size_t files = 0; files < 3000; files++) {
        if (tfos__crowd_plan(files, 500, &crowd, &error) == TFOS_OK) {
            assert_true(crowd.others_most > 500 && crowd.producers_most > 0);
            assert_true(crowd.others_most + crowd.producers_most < files);
        } else {
            assert_true(files < 640);
        }
    }
    assert_int_equal(tfos__crowd_plan(1024, 1000, &crowd, &error), TFOS_LIMIT);
    assert_string_equal(error.message,
                        "a coordinator of 1000 nodes has more than 1128 files open, and this one may have 1024; raise "
                        "the limit of the driver (ulimit -Hn), or ask for fewer nodes");
}

static void test_too_many_nodes_for_the_files(void **state)
{
    (void)state;
    tfos_cluster_options options;
    tfos_cluster *cluster;
    tfos_error error;
    tfos_cluster_options_init(&options, sizeof options);
    options.nodes = 300;
    options.host = "127.0.0.1";
    assert_int_equal(tfos_cluster_open(&options, &cluster, &error), TFOS_LIMIT);
    assert_non_null(strstr(error.message, "300 nodes has more than 428 files open, and this one may have 400"));
}

/* ---- a coordinator ---- */

typedef struct scene {
    uv_loop_t loop;
    tfos_cluster *cluster;
    helper_address address;
    tfos__tls_context *tls;
} scene;

static void open_scene(scene *s)
{
    static const char *const program[] = {"true", NULL};
    tfos_cluster_options options;
    tfos_error error;
    helper_loop_init(&s->loop);
    tfos_cluster_options_init(&options, sizeof options);
    options.nodes = 1;
    options.host = "127.0.0.1";
    options.program = program;
    if (tfos_cluster_open(&options, &s->cluster, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    helper_ticket_read(s->cluster, &s->address);
    assert_int_equal(tfos__tls_context_new(TFOS__TLS_CLIENT, s->address.key, TFOS__LINK_PURPOSE, &s->tls, NULL),
                     TFOS_OK);
}

static void close_scene(scene *s)
{
    uv_run(&s->loop, UV_RUN_DEFAULT);
    tfos_cluster_close(s->cluster);
    assert_int_equal(uv_loop_close(&s->loop), 0);
    tfos__tls_context_free(s->tls);
}

static void work(scene *s)
{
    tfos_cluster_event event;
    uv_run(&s->loop, UV_RUN_NOWAIT);
    while (tfos_cluster_next(s->cluster, 0, &event, NULL) == TFOS_OK && event.kind != TFOS_EVENT_NONE) {}
    poll(NULL, 0, 2);
}

static size_t count_cut(const int *files, size_t count)
{
    size_t cut = 0;
    for (size_t i = 0; i < count; i++) {
        char byte;
        ssize_t got = recv(files[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK);
        cut += got == 0 || (got < 0 && errno != EAGAIN) ? 1 : 0;
    }
    return cut;
}

/* More than there is room for, and they say nothing. They have a moment to do so, for if they were tasks that begin at
 * the same time, nothing would be wrong with them; then the oldest go, and whoever has the key gets in. */
static void test_a_crowd_of_strangers_makes_room(void **state)
{
    (void)state;
    static int files[CROWD];
    scene s;
    helper_node node = {0};
    open_scene(&s);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(s.address.port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int64_t start = tfos__clock_ms();
    for (size_t i = 0; i < CROWD; i++) {
        files[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(files[i], (struct sockaddr *)&address, sizeof address), 0);
    }
    helper_node_connect(&node, &s.loop, s.tls, &s.address, 0, TFOS_VERSION, "127.0.0.1");
    while (!node.assigned && tfos__clock_ms() < start + 9000) {
        size_t cut = count_cut(files, CROWD);
        assert_true(cut == 0 || tfos__clock_ms() >= start + 2000);
        work(&s);
    }
    assert_true(node.assigned);
    assert_true(count_cut(files, CROWD) >= CROWD - 70);
    for (size_t i = 0; i < CROWD; i++) {
        close(files[i]);
    }
    helper_node_end(&node, TFOS__OUTCOME_FINISHED, "");
    while (!node.bye) {
        work(&s);
    }
    tfos__link_close(node.link);
    close_scene(&s);
}

/* ---- tasks ---- */

typedef struct task {
    tfos__link *link;
    char refused[512];
    bool answered;
} task;

static void on_message(tfos__link *link, const tfos__message *message, void *context)
{
    task *self = context;
    (void)link;
    self->answered = true;
    if (message->type == TFOS__MESSAGE_REFUSED) {
        tfos__message_copy(message, TFOS__FIELD_TEXT, self->refused, sizeof self->refused);
    }
}

static void on_closed(tfos__link *link, const tfos_error *error, void *context)
{
    (void)link, (void)error;
    ((task *)context)->link = NULL;
}

static void ask_to_feed(scene *s, task *self)
{
    static const tfos__link_events events = {.message = on_message, .closed = on_closed};
    tfos__message message;
    *self = (task){0};
    assert_int_equal(
        tfos__link_connect(&s->loop, s->tls, s->address.host, s->address.port, &events, self, &self->link, NULL),
        TFOS_OK);
    tfos__message_init(&message, TFOS__MESSAGE_HELLO);
    tfos__message_put_string(&message, TFOS__FIELD_VERSION, TFOS_VERSION);
    tfos__link_send(self->link, &message);
    tfos__message_init(&message, TFOS__MESSAGE_ADMIT);
    tfos__attempt_put(&(tfos__attempt){.feed = 1}, &message);
    tfos__message_put_string(&message, TFOS__FIELD_MACHINE, "m");
    tfos__link_send(self->link, &message);
}

static void await_answer(scene *s, const task *self)
{
    int64_t deadline = tfos__clock_ms() + 10000;
    while (!self->answered && tfos__clock_ms() < deadline) {
        work(s);
    }
    assert_true(self->answered);
}

/* The feed is unknown, so they are told that; but they are there until they leave. */
static void test_too_many_tasks_for_the_files(void **state)
{
    (void)state;
    static task tasks[TASKS];
    scene s;
    open_scene(&s);
    for (size_t i = 0; i < TASKS; i++) {
        ask_to_feed(&s, &tasks[i]);
    }
    for (size_t i = 0; i < TASKS; i++) {
        await_answer(&s, &tasks[i]);
        assert_string_equal(tasks[i].refused, "");
    }
    task last;
    ask_to_feed(&s, &last);
    await_answer(&s, &last);
    assert_string_equal(last.refused,
                        "203 tasks feed this cluster, and more cannot at the same time, because the coordinator may "
                        "have no more than 400 files open; raise the limit of the driver (ulimit -Hn), or give the "
                        "data fewer partitions");
    while (last.link != NULL) {
        work(&s);
    }
    /* One leaves, one can come. */
    tfos__link_close(tasks[0].link);
    while (tasks[0].link != NULL) {
        work(&s);
    }
    for (int64_t deadline = tfos__clock_ms() + 5000; tfos__clock_ms() < deadline;) {
        ask_to_feed(&s, &tasks[0]);
        await_answer(&s, &tasks[0]);
        if (tasks[0].refused[0] == '\0') {
            break;
        }
    }
    assert_string_equal(tasks[0].refused, "");
    for (size_t i = 0; i < TASKS; i++) {
        tfos__link_close(tasks[i].link);
    }
    close_scene(&s);
}

int main(void)
{
    const struct rlimit few = {.rlim_cur = FILES, .rlim_max = FILES};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_too_many_nodes_for_the_files),
        cmocka_unit_test(test_a_crowd_of_strangers_makes_room),
        cmocka_unit_test(test_too_many_tasks_for_the_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
