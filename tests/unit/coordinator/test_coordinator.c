/* A real coordinator process, with a driver's end in libtfos and nodes that only talk: the life of a cluster, and
 * strangers of every kind, whom nobody else must notice. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper_loop.h"
#include "helper_nodes.h"
#include "helper_records.h"

typedef struct scene {
    uv_loop_t loop;
    tfos_cluster *cluster;
    helper_address address;
    tfos__tls_context *tls;
    helper_node node[4];
    tfos__buffer heard; /* "READY\n", "FAILED text\n", … */
    bool over;
} scene;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void open_scene(scene *s, int32_t nodes)
{
    static const char *const program[] = {"true", NULL};
    tfos_cluster_options options;
    tfos_error error = {0};
    memset(s, 0, sizeof *s);
    helper_loop_init(&s->loop);
    tfos_cluster_options_init(&options, sizeof options);
    options.nodes = nodes;
    options.host = "127.0.0.1";
    options.program = program;
    if (tfos_cluster_open(&options, &s->cluster, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    helper_ticket_read(s->cluster, &s->address);
    assert_int_equal(tfos__tls_context_new(TFOS__TLS_CLIENT, s->address.key, TFOS__LINK_PURPOSE, &s->tls, NULL),
                     TFOS_OK);
}

static bool all_said_bye(scene *s);
static void work_until(scene *s, bool (*done)(scene *s));

static void close_scene(scene *s)
{
    /* Nodes that end in good order are not waited for. */
    for (size_t i = 0; i < 4; i++) {
        helper_node_end(&s->node[i], TFOS__OUTCOME_FINISHED, "");
    }
    work_until(s, all_said_bye);
    for (size_t i = 0; i < 4; i++) {
        if (s->node[i].link != NULL) {
            tfos__link_close(s->node[i].link);
        }
    }
    uv_run(&s->loop, UV_RUN_DEFAULT);
    tfos_cluster_close(s->cluster); /* nobody is left to be waited for */
    assert_int_equal(uv_loop_close(&s->loop), 0);
    tfos__tls_context_free(s->tls);
    tfos__buffer_reset(&s->heard);
}

static void take_events(scene *s)
{
    static const char *const kinds[] = {
        [TFOS_EVENT_NONE] = "NONE", [TFOS_EVENT_PROGRESS] = "PROGRESS", [TFOS_EVENT_READY] = "READY",
        [TFOS_EVENT_NODE] = "NODE", [TFOS_EVENT_LOG] = "LOG",           [TFOS_EVENT_FAILED] = "FAILED",
        [TFOS_EVENT_FEED] = "FEED", [TFOS_EVENT_STATUS] = "STATUS",     [TFOS_EVENT_RESULT] = "RESULT",
        [TFOS_EVENT_OVER] = "OVER"};
    tfos_cluster_event event;
    tfos_error error = {0};
    while (!s->over) {
        tfos_status status = tfos_cluster_next(s->cluster, 0, &event, &error);
        if (status != TFOS_OK) {
            tfos__buffer_printf(&s->heard, NULL, "error %s\n", error.message);
            s->over = true;
        } else if (event.kind == TFOS_EVENT_NONE) {
            break;
        } else {
            tfos__buffer_printf(&s->heard, NULL, "%s %s %s\n", kinds[event.kind], event.node, event.text);
            s->over = event.kind == TFOS_EVENT_OVER;
        }
    }
}

/* Lets everybody work until `done` says so; fails after ten seconds. */
static void work_until(scene *s, bool (*done)(scene *s))
{
    int64_t deadline = now_ms() + 10000;
    while (!done(s)) {
        if (now_ms() > deadline) {
            tfos__buffer_append(&s->heard, "", 1, NULL);
            fail_msg("it did not happen; heard: %s", s->heard.data);
        }
        uv_run(&s->loop, UV_RUN_NOWAIT);
        take_events(s);
        poll(NULL, 0, 2);
    }
}

static bool all_said_bye(scene *s)
{
    bool all = true;
    for (size_t i = 0; i < 2 && !s->over; i++) {
        all = all && (s->node[i].link == NULL || s->node[i].bye);
    }
    return all;
}

static bool heard(scene *s, const char *text)
{
    tfos__buffer_append(&s->heard, "", 1, NULL);
    s->heard.size--;
    return strstr((const char *)s->heard.data, text) != NULL;
}

static void connect_node(scene *s, uint32_t at)
{
    helper_node_connect(&s->node[at], &s->loop, s->tls, &s->address, at, TFOS_VERSION, "127.0.0.1");
}

static bool two_assigned(scene *s)
{
    return s->node[0].assigned && s->node[1].assigned && heard(s, "READY");
}

static bool is_over(scene *s)
{
    return s->over;
}

static void start_two(scene *s)
{
    open_scene(s, 2);
    connect_node(s, 0);
    connect_node(s, 1);
    work_until(s, two_assigned);
}

static bool beat_was_answered(scene *s)
{
    return s->node[0].beats > 0;
}

/* The cluster is as alive as it can be. */
static void expect_alive(scene *s)
{
    s->node[0].beats = 0;
    helper_node_beat(&s->node[0]);
    work_until(s, beat_was_answered);
    assert_false(heard(s, "FAILED"));
}

static void test_a_cluster_lives_and_ends(void **state)
{
    (void)state;
    scene s;
    start_two(&s);
    expect_alive(&s);
    assert_int_equal(tfos_cluster_finish(s.cluster, 0, NULL), TFOS_OK);
    helper_node_end(&s.node[0], TFOS__OUTCOME_FINISHED, "");
    helper_node_end(&s.node[1], TFOS__OUTCOME_FINISHED, "");
    work_until(&s, is_over);
    assert_true(s.node[0].bye);
    assert_false(heard(&s, "FAILED"));
    tfos_cluster_event event;
    assert_int_equal(tfos_cluster_next(s.cluster, 0, &event, NULL), TFOS_END);
    close_scene(&s);
}

/* A file that the driver has open, for whoever inherits it, is not held by the coordinator. */
static void test_files_of_the_driver(void **state)
{
    (void)state;
    scene s;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    start_two(&s);
    close(ends[1]);
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    int closed = poll(&end, 1, 0);
    s.node[0].ends_on_stop = true;
    helper_node_end(&s.node[1], TFOS__OUTCOME_EXITED, "");
    work_until(&s, is_over);
    close_scene(&s);
    close(ends[0]);
    assert_int_equal(closed, 1);
}

static void test_a_failure_reaches_driver_and_nodes(void **state)
{
    (void)state;
    scene s;
    start_two(&s);
    s.node[0].ends_on_stop = true;
    helper_node_end(&s.node[1], TFOS__OUTCOME_RAISED, "Traceback:\n  ValueError: no");
    work_until(&s, is_over);
    assert_true(s.node[0].stopped);
    assert_true(heard(&s, "FAILED worker:1 worker:1 on 127.0.0.1 raised an exception:\nTraceback:\n  ValueError: no"));
    close_scene(&s);
}

static bool last_line_came(scene *s)
{
    return heard(s, "the last line");
}

static bool one_registered(scene *s)
{
    return heard(s, "1 of 2 nodes registered");
}

static bool spare_was_answered(scene *s)
{
    return s->node[2].beats > 0;
}

static bool failed(scene *s)
{
    return heard(s, "FAILED");
}

static void test_a_closed_connection_is_a_lost_node(void **state)
{
    (void)state;
    scene s;
    start_two(&s);
    tfos__link_close(s.node[1].link);
    int64_t start = now_ms();
    work_until(&s, failed);
    assert_true(now_ms() - start < 5000);
    assert_true(heard(&s, "worker:1 on 127.0.0.1 disappeared"));
    close_scene(&s);
}

static bool node_two_closed(scene *s)
{
    return s->node[2].closed;
}

static void test_a_stranger_with_another_key(void **state)
{
    (void)state;
    scene s;
    tfos__tls_context *other;
    uint8_t key[TFOS__KEY_BYTES] = {7};
    start_two(&s);
    assert_int_equal(tfos__tls_context_new(TFOS__TLS_CLIENT, key, TFOS__LINK_PURPOSE, &other, NULL), TFOS_OK);
    helper_node_connect(&s.node[2], &s.loop, other, &s.address, 0, TFOS_VERSION, "127.0.0.1");
    work_until(&s, node_two_closed);
    assert_int_equal(s.node[2].error.status, TFOS_PERMISSION);
    expect_alive(&s);
    close_scene(&s);
    tfos__tls_context_free(other);
}

static void test_another_version_is_told_so(void **state)
{
    (void)state;
    scene s;
    start_two(&s);
    helper_node_connect(&s.node[2], &s.loop, s.tls, &s.address, 0, "9.9.9", "127.0.0.1");
    work_until(&s, node_two_closed);
    helper_expect_in(s.node[2].refused, "the driver runs tfos " TFOS_VERSION ", this node tfos 9.9.9");
    expect_alive(&s);
    close_scene(&s);
}

static void test_too_many_nodes(void **state)
{
    (void)state;
    scene s;
    start_two(&s);
    connect_node(&s, 2);
    work_until(&s, node_two_closed);
    helper_expect_in(s.node[2].refused, "this cluster has 2 nodes; there is no node 2");
    expect_alive(&s);
    close_scene(&s);
}

static int dial(const scene *s)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(s->address.port)};
    int socket_of = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(socket_of, (struct sockaddr *)&address, sizeof address), 0);
    return socket_of;
}

/* Whether the coordinator has closed this connection by `deadline`. */
static bool was_cut(scene *s, int file, int64_t deadline)
{
    char bytes[4096];
    while (now_ms() < deadline) {
        uv_run(&s->loop, UV_RUN_NOWAIT);
        ssize_t got = recv(file, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            return true;
        }
        poll(NULL, 0, 5);
    }
    return false;
}

static void test_plain_text_and_garbage(void **state)
{
    (void)state;
    static const char *const texts[] = {"GET / HTTP/1.1\r\nHost: example\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n",
                                        "\x01\x00\x00\x00\xFF\xFF\xFF\xFF", "\x16\x03\x01\x00\x04\x01\x00\x00\x00"};
    scene s;
    start_two(&s);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int file = dial(&s);
        size_t count = i < 2 ? strlen(texts[i]) : i == 2 ? 8 : 9;
        assert_int_equal(send(file, texts[i], count, MSG_NOSIGNAL), count);
        assert_true(was_cut(&s, file, now_ms() + 5000));
        close(file);
    }
    expect_alive(&s);
    close_scene(&s);
}

/* Connections that say nothing, and one that says a byte at a time, are cut when their time is over. */
static void test_half_open_and_slow_connections(void **state)
{
    (void)state;
    enum { COUNT = 20 };
    scene s;
    int files[COUNT];
    setenv("TFOS_CLUSTER_HANDSHAKE_MS", "1000", 1);
    start_two(&s);
    for (size_t i = 0; i < COUNT; i++) {
        files[i] = dial(&s);
    }
    expect_alive(&s); /* nobody waits for them */
    int64_t deadline = now_ms() + 5000;
    bool cut = false;
    while (!cut && now_ms() < deadline) {
        cut = send(files[0], "\x16", 1, MSG_NOSIGNAL) < 0 || was_cut(&s, files[0], now_ms() + 100);
    }
    assert_true(cut);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(i == 0 || was_cut(&s, files[i], now_ms() + 5000));
        close(files[i]);
    }
    unsetenv("TFOS_CLUSTER_HANDSHAKE_MS");
    expect_alive(&s);
    close_scene(&s);
}

static bool status_came(scene *s)
{
    return heard(s, "STATUS");
}

static void test_strangers_are_counted(void **state)
{
    (void)state;
    scene s;
    start_two(&s);
    for (int i = 0; i < 3; i++) {
        int file = dial(&s);
        assert_int_equal(send(file, "hello, hello, hello", 19, MSG_NOSIGNAL), 19);
        assert_true(was_cut(&s, file, now_ms() + 5000));
        close(file);
    }
    tfos_cluster_request_status(s.cluster, NULL);
    work_until(&s, status_came);
    assert_true(heard(&s, "\"refused_key\":3"));
    assert_true(heard(&s, "\"accepted\":5"));
    close_scene(&s);
}

/* A node that floods its link with logs while another connection is refused, many times over. */
static void test_a_message_too_large_cuts_its_sender_alone(void **state)
{
    (void)state;
    scene s;
    start_two(&s);
    helper_node_connect(&s.node[2], &s.loop, s.tls, &s.address, 1, TFOS_VERSION, NULL);
    tfos__message huge;
    char *text = calloc(1, 900000);
    memset(text, 'x', 899999);
    tfos__message_init(&huge, TFOS__MESSAGE_STOP);
    tfos__message_put_string(&huge, TFOS__FIELD_TEXT, text);
    tfos__link_send(s.node[2].link, &huge); /* not REGISTER, as it should be */
    work_until(&s, node_two_closed);
    expect_alive(&s);
    close_scene(&s);
    free(text);
}

static void make_log(tfos__message *out, const char *text, uint64_t sequence)
{
    tfos__message_init(out, TFOS__MESSAGE_LOG);
    tfos__message_put_string(out, TFOS__FIELD_TEXT, text);
    tfos__message_put_number(out, TFOS__FIELD_STREAM, 1);
    tfos__message_put_number(out, TFOS__FIELD_SEQUENCE, sequence);
}

/* A driver that reads nothing for a while loses output of programs, and nothing else. */
static void test_a_driver_that_does_not_read(void **state)
{
    (void)state;
    enum { LINE_BYTES = 60000, LINES = 800 };
    scene s;
    start_two(&s);
    char *line = malloc(LINE_BYTES + 1);
    memset(line, 'x', LINE_BYTES);
    line[LINE_BYTES - 1] = '\n';
    line[LINE_BYTES] = '\0';
    for (int i = 0; i < LINES; i++) {
        tfos__message log;
        make_log(&log, line, (uint64_t)i + 1);
        tfos__link_send(s.node[0].link, &log);
        while (tfos__link_backlog(s.node[0].link) > 1 << 20) {
            uv_run(&s.loop, UV_RUN_NOWAIT);
        }
    }
    s.node[1].beats = 0;
    helper_node_beat(&s.node[1]); /* answered behind all that */
    while (s.node[1].beats == 0) {
        uv_run(&s.loop, UV_RUN_NOWAIT);
    }
    expect_alive(&s); /* reads it all */
    tfos__message log;
    make_log(&log, "the last line\n", LINES + 1);
    tfos__link_send(s.node[0].link, &log);
    work_until(&s, last_line_came);
    assert_true(heard(&s, "lines were dropped here: the driver did not read them in time"));
    assert_false(heard(&s, "FAILED") || heard(&s, "error"));
    close_scene(&s);
    free(line);
}

static bool node_one_assigned(scene *s)
{
    if (s->node[2].link != NULL) {
        helper_node_beat(&s->node[2]);
    }
    return s->node[1].assigned && s->node[2].assigned;
}

/* Two tasks for one index, as speculation makes them; the first loses its executor before anything began. */
static void test_a_spare_steps_in(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, 2);
    connect_node(&s, 0);
    work_until(&s, one_registered);
    helper_node_connect(&s.node[2], &s.loop, s.tls, &s.address, 0, TFOS_VERSION, "127.0.0.2");
    s.node[2].index = 0;
    helper_node_beat(&s.node[2]);
    work_until(&s, spare_was_answered);
    helper_node_end(&s.node[0], TFOS__OUTCOME_EXECUTOR_LOST, "");
    connect_node(&s, 1);
    work_until(&s, node_one_assigned);
    assert_false(heard(&s, "FAILED"));
    helper_node_end(&s.node[2], TFOS__OUTCOME_FINISHED, "");
    helper_node_end(&s.node[1], TFOS__OUTCOME_FINISHED, "");
    work_until(&s, is_over);
    close_scene(&s);
}

static bool coordinator_is_gone(scene *s)
{
    return heard(s, "error");
}

static pid_t coordinator_pid(void)
{
    /* The only child of this process. */
    siginfo_t info = {0};
    char path[64];
    char text[64] = "";
    (void)info;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    return (pid_t)atoi(text);
}

static bool node_zero_closed(scene *s)
{
    return s->node[0].closed;
}

static void test_a_coordinator_that_is_killed(void **state)
{
    (void)state;
    scene s;
    start_two(&s);
    kill(coordinator_pid(), SIGKILL);
    work_until(&s, coordinator_is_gone);
    assert_true(heard(&s, "is gone (killed by signal 9)"));
    work_until(&s, node_zero_closed);
    assert_int_not_equal(s.node[0].error.status, TFOS_OK);
    assert_int_equal(tfos_cluster_stop(s.cluster, "x", NULL), TFOS_IO);
    close_scene(&s);
}

/* Frozen, not dead: the driver waits for its lease and no longer. */
static void test_a_coordinator_that_is_frozen(void **state)
{
    (void)state;
    scene s;
    setenv("TFOS_CLUSTER_LEASE_MS", "1000", 1);
    start_two(&s);
    unsetenv("TFOS_CLUSTER_LEASE_MS");
    pid_t pid = coordinator_pid();
    kill(pid, SIGSTOP);
    work_until(&s, coordinator_is_gone);
    assert_true(heard(&s, "has been silent for 5 s (cluster.lease_ms)"));
    kill(pid, SIGKILL);
    close_scene(&s);
}

/* Likewise where the driver stands when it has something to say: it does not wait for ever until that is read. */
static void test_a_coordinator_that_does_not_read(void **state)
{
    (void)state;
    enum { ORDERS_MOST = 1000000 };
    scene s;
    tfos_error error;
    setenv("TFOS_CLUSTER_LEASE_MS", "1000", 1);
    start_two(&s);
    unsetenv("TFOS_CLUSTER_LEASE_MS");
    pid_t pid = coordinator_pid();
    kill(pid, SIGSTOP);
    int64_t start = now_ms();
    tfos_status status = TFOS_OK;
    for (int i = 0; i < ORDERS_MOST && status == TFOS_OK; i++) {
        status = tfos_cluster_set_slots(s.cluster, i, NULL, &error);
    }
    assert_int_equal(status, TFOS_IO);
    helper_expect_in(error.message, "has been silent for 5 s (cluster.lease_ms): it is frozen");
    assert_true(now_ms() - start < 15000);
    kill(pid, SIGKILL);
    close_scene(&s);
}

static void test_nodes_stop_when_the_driver_closes(void **state)
{
    (void)state;
    scene s;
    start_two(&s);
    s.node[0].ends_on_stop = s.node[1].ends_on_stop = true;
    pid_t pid = fork();
    if (pid == 0) {
        tfos_cluster_close(s.cluster); /* a fork of the driver is not the driver */
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    expect_alive(&s);
    int64_t start = now_ms();
    /* Closing waits for the coordinator, which waits for the nodes: they must be worked meanwhile. */
    pid_t worker = coordinator_pid();
    kill(worker, SIGTERM);
    work_until(&s, node_zero_closed);
    assert_true(s.node[0].stopped);
    assert_true(now_ms() - start < 5000);
    close_scene(&s);
}

static void test_wrong_orders(void **state)
{
    (void)state;
    tfos_cluster_options options;
    tfos_cluster *cluster;
    tfos_error error;
    tfos_cluster_options_init(&options, sizeof options);
    options.nodes = 4;
    options.slots_most = 3;
    options.slots_reason = "spark.master is local[3]";
    assert_int_equal(tfos_cluster_open(&options, &cluster, &error), TFOS_LIMIT);
    helper_expect_in(error.message,
                     "needs 4 task slots at the same time, but Spark can have at most 3 (spark.master is");
    options.slots_most = -1;
    options.ps = 4;
    assert_int_equal(tfos_cluster_open(&options, &cluster, &error), TFOS_INVALID);
    options.ps = 0;
    setenv("TFOS_SERVER_PORT", "99999", 1);
    assert_int_equal(tfos_cluster_open(&options, &cluster, &error), TFOS_INVALID);
    helper_expect_in(error.message, "must be a port from 1 to 65535 or a range such as 9997-9999, found '99999'");
    unsetenv("TFOS_SERVER_PORT");
    options.command = "/nowhere/tfos";
    assert_int_equal(tfos_cluster_open(&options, &cluster, &error), TFOS_NOT_FOUND);
}

/* The first port of the range is taken: the second is used; both taken: the error says so. */
static void test_port_ranges(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    scene s;
    char range[32];
    int taken = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(taken, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(taken, 1), 0);
    getsockname(taken, (struct sockaddr *)&address, &bytes);
    unsigned port = ntohs(address.sin_port);
    unsigned last = port < 65000 ? port + 20 : port;
    snprintf(range, sizeof range, "%u-%u", port, last);
    setenv("TFOS_SERVER_PORT", range, 1);
    if (last > port) {
        open_scene(&s, 1);
        assert_true(s.address.port > port && s.address.port <= last);
        close_scene(&s);
    }
    snprintf(range, sizeof range, "%u", port);
    setenv("TFOS_SERVER_PORT", range, 1);
    tfos_cluster_options options;
    tfos_cluster *cluster;
    tfos_error error;
    tfos_cluster_options_init(&options, sizeof options);
    options.nodes = 1;
    options.host = "127.0.0.1";
    assert_int_equal(tfos_cluster_open(&options, &cluster, &error), TFOS_EXISTS);
    helper_expect_in(error.message, "is in use; set TFOS_SERVER_PORT to others");
    unsetenv("TFOS_SERVER_PORT");
    close(taken);
}

static void test_the_key_is_no_argument_and_no_variable(void **state)
{
    (void)state;
    scene s;
    char path[64];
    char bytes[65536];
    start_two(&s);
    static const char *const files[] = {"cmdline", "environ"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", (int)coordinator_pid(), files[i]);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        size_t count = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        assert_true(count > 0 && count < sizeof bytes);
        assert_null(memmem(bytes, count, s.address.key, 8));
    }
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cluster_lives_and_ends),
        cmocka_unit_test(test_files_of_the_driver),
        cmocka_unit_test(test_a_failure_reaches_driver_and_nodes),
        cmocka_unit_test(test_a_closed_connection_is_a_lost_node),
        cmocka_unit_test(test_a_stranger_with_another_key),
        cmocka_unit_test(test_another_version_is_told_so),
        cmocka_unit_test(test_too_many_nodes),
        cmocka_unit_test(test_plain_text_and_garbage),
        cmocka_unit_test(test_half_open_and_slow_connections),
        cmocka_unit_test(test_strangers_are_counted),
        cmocka_unit_test(test_a_message_too_large_cuts_its_sender_alone),
        cmocka_unit_test(test_a_driver_that_does_not_read),
        cmocka_unit_test(test_a_spare_steps_in),
        cmocka_unit_test(test_a_coordinator_that_is_killed),
        cmocka_unit_test(test_a_coordinator_that_is_frozen),
        cmocka_unit_test(test_a_coordinator_that_does_not_read),
        cmocka_unit_test(test_nodes_stop_when_the_driver_closes),
        cmocka_unit_test(test_wrong_orders),
        cmocka_unit_test(test_port_ranges),
        cmocka_unit_test(test_the_key_is_no_argument_and_no_variable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
