/* Links by themselves: addresses that do not answer, closing at every moment, limits. Who may connect is tested with
 * the coordinator. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper_loop.h"
#include "helper_records.h"
#include "node/port.h"
#include "service/link.h"

typedef struct end {
    tfos__link *link;
    bool ready;
    bool closed;
    int messages;
    size_t bytes;
    int cause;
    tfos_error error;
    bool close_when_ready;
    bool close_at_message;
} end;

typedef struct scene {
    uv_loop_t loop;
    uv_tcp_t listener;
    uint16_t port;
    tfos__tls_context *client_tls;
    tfos__tls_context *server_tls;
    end client;
    end server;
} scene;

static void on_ready(tfos__link *link, void *context)
{
    end *it = context;
    it->ready = true;
    if (it->close_when_ready) {
        tfos__link_close(link);
    }
}

static void on_message(tfos__link *link, const tfos__message *message, void *context)
{
    end *it = context;
    it->messages++;
    it->bytes += tfos__message_text(message, TFOS__FIELD_TEXT).count;
    if (it->close_at_message) {
        tfos__link_close(link);
    }
}

static void on_closed(tfos__link *link, const tfos_error *error, void *context)
{
    end *it = context;
    assert_false(it->closed);
    it->closed = true;
    it->link = NULL;
    it->cause = tfos__link_cause(link);
    it->error = *error;
}

static const tfos__link_events events = {.ready = on_ready, .message = on_message, .closed = on_closed};

static void on_connection(uv_stream_t *stream, int status)
{
    scene *s = stream->data;
    assert_int_equal(status, 0);
    assert_int_equal(tfos__link_accept(stream, s->server_tls, &events, &s->server, &s->server.link, NULL), TFOS_OK);
}

static int open_scene(void **state)
{
    scene *s = calloc(1, sizeof *s);
    uint8_t key[TFOS__KEY_BYTES];
    struct sockaddr_in address;
    int bytes = sizeof address;
    *state = s;
    assert_int_equal(helper_loop_init(&s->loop), 0);
    assert_int_equal(tfos__key_make(key, NULL), TFOS_OK);
    assert_int_equal(tfos__tls_context_new(TFOS__TLS_CLIENT, key, TFOS__LINK_PURPOSE, &s->client_tls, NULL), TFOS_OK);
    assert_int_equal(tfos__tls_context_new(TFOS__TLS_SERVER, key, TFOS__LINK_PURPOSE, &s->server_tls, NULL), TFOS_OK);
    assert_int_equal(uv_tcp_init(&s->loop, &s->listener), 0);
    s->listener.data = s;
    assert_int_equal(uv_ip4_addr("127.0.0.1", 0, &address), 0);
    assert_int_equal(uv_tcp_bind(&s->listener, (const struct sockaddr *)&address, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&s->listener, 4, on_connection), 0);
    assert_int_equal(uv_tcp_getsockname(&s->listener, (struct sockaddr *)&address, &bytes), 0);
    s->port = ntohs(address.sin_port);
    return 0;
}

static int close_scene(void **state)
{
    scene *s = *state;
    if (s->client.link != NULL) {
        tfos__link_close(s->client.link);
    }
    if (s->server.link != NULL) {
        tfos__link_close(s->server.link);
    }
    uv_close((uv_handle_t *)&s->listener, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&s->loop), 0);
    tfos__tls_context_free(s->client_tls);
    tfos__tls_context_free(s->server_tls);
    free(s);
    return 0;
}

static void connect_to(scene *s, const char *host, uint16_t port)
{
    assert_int_equal(
        tfos__link_connect(&s->loop, s->client_tls, host, port, &events, &s->client, &s->client.link, NULL), TFOS_OK);
}

/* Runs the loop until `flag`, at most for some seconds. */
static void run_until(scene *s, const bool *flag)
{
    uint64_t deadline = uv_hrtime() + UINT64_C(8000000000);
    while (!*flag && uv_hrtime() < deadline) {
        uv_run(&s->loop, UV_RUN_ONCE);
    }
    assert_true(*flag);
}

static void send_text(tfos__link *link, const char *text, size_t count)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_REFUSED);
    tfos__message_put_text(&message, TFOS__FIELD_TEXT, text, count);
    tfos__link_send(link, &message);
}

static void test_messages(void **state)
{
    scene *s = *state;
    static char large[1 << 20];
    memset(large, 'x', sizeof large);
    connect_to(s, "127.0.0.1", s->port);
    send_text(s->client.link, "early", 5); /* before it is connected */
    run_until(s, &s->client.ready);
    send_text(s->client.link, large, sizeof large);
    tfos__link_close(s->client.link); /* what was sent arrives first */
    run_until(s, &s->server.closed);
    assert_int_equal(s->server.messages, 2);
    assert_int_equal(s->server.bytes, sizeof large + 5);
    assert_int_equal(s->server.error.status, TFOS_OK);
    run_until(s, &s->client.closed);
    assert_int_equal(s->client.error.status, TFOS_OK);
    assert_int_equal(s->client.cause, 0);
}

/* Whoever has a connection learns that the host at its other end is gone, without sending anything. */
static void test_keep_alive(void **state)
{
    scene *s = *state;
    int connected = 0;
    connect_to(s, "127.0.0.1", s->port);
    send_text(s->client.link, "hello", 5);
    run_until(s, &s->server.ready);
    for (int socket = 3; socket < 256; socket++) {
        struct sockaddr_storage peer;
        int protocol = 0;
        int value[5] = {0};
        const int names[5] = {TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT};
        socklen_t bytes = sizeof protocol;
        if (getsockopt(socket, SOL_SOCKET, SO_PROTOCOL, &protocol, &bytes) != 0 || protocol != IPPROTO_TCP ||
            getpeername(socket, (struct sockaddr *)&peer, &(socklen_t){sizeof peer}) != 0) {
            continue;
        }
        connected++;
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(getsockopt(socket, IPPROTO_TCP, names[i], &value[i], &(socklen_t){sizeof(int)}), 0);
        }
        assert_int_equal(getsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &value[4], &(socklen_t){sizeof(int)}), 0);
        assert_true(value[4] != 0);
        assert_true(value[0] + value[1] * value[2] <= 90);
        assert_true(value[3] > 0 && value[3] <= 90000);
    }
    assert_int_equal(connected, 2);
}

/* A program that dies while something is said to it. */
static void test_a_peer_is_gone(void **state)
{
    scene *s = *state;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    assert_int_equal(tfos__link_adopt(&s->loop, ends[0], &events, &s->client, &s->client.link, NULL), TFOS_OK);
    close(ends[1]);
    send_text(s->client.link, "hello", 5);
    run_until(s, &s->client.closed);
    assert_int_equal(s->client.messages, 0);
}

static void test_nobody_listens(void **state)
{
    scene *s = *state;
    tfos__port port;
    assert_int_equal(tfos__port_reserve(NULL, &port, NULL), TFOS_OK);
    tfos__port_release(&port);
    connect_to(s, "127.0.0.1", port.number);
    run_until(s, &s->client.closed);
    assert_int_equal(s->client.cause, ECONNREFUSED);
    assert_int_equal(s->client.error.status, TFOS_IO);
    helper_expect_in(s->client.error.message, "cannot connect to 127.0.0.1:");
    assert_false(s->client.ready);
}

static void test_a_host_that_is_unknown(void **state)
{
    scene *s = *state;
    connect_to(s, "no-such-host.invalid", 1);
    run_until(s, &s->client.closed);
    assert_int_equal(s->client.error.status, TFOS_IO);
    assert_int_equal(s->client.error.fault, TFOS_FAULT_AGAIN);
    helper_expect_in(s->client.error.message, "cannot find the address of no-such-host.invalid:1");
    assert_int_equal(s->client.cause, 0);
}

/* Where localhost is ::1 first, nobody listens there; the next address does. */
static void test_a_name(void **state)
{
    scene *s = *state;
    connect_to(s, "localhost", s->port);
    run_until(s, &s->client.ready);
}

/* As Spark writes an address of IPv6; whichever it is, it is taken without them. */
static void test_an_address_in_brackets(void **state)
{
    scene *s = *state;
    connect_to(s, "[127.0.0.1]", s->port);
    run_until(s, &s->client.ready);
}

static void test_closing_at_once(void **state)
{
    scene *s = *state;
    connect_to(s, "localhost", s->port); /* while the name is looked up */
    tfos__link_close(s->client.link);
    run_until(s, &s->client.closed);
    assert_int_equal(s->client.error.status, TFOS_OK);
    s->client = (end){.close_when_ready = true};
    connect_to(s, "127.0.0.1", s->port);
    run_until(s, &s->client.closed);
    assert_true(s->client.ready);
    run_until(s, &s->server.closed);
    s->client = (end){0};
    s->server = (end){.close_at_message = true};
    connect_to(s, "127.0.0.1", s->port);
    send_text(s->client.link, "a", 1);
    send_text(s->client.link, "b", 1);
    run_until(s, &s->client.closed);
    run_until(s, &s->server.closed);
    assert_int_equal(s->server.messages, 1);
}

/* Closing at every moment of a connection's beginning. */
static void test_closing_at_any_moment(void **state)
{
    scene *s = *state;
    for (int turns = 0; turns < 12; turns++) {
        s->client = (end){0};
        s->server = (end){0};
        connect_to(s, turns % 2 == 0 ? "localhost" : "127.0.0.1", s->port);
        for (int i = 0; i < turns && s->client.link != NULL; i++) {
            uv_run(&s->loop, UV_RUN_NOWAIT);
        }
        if (s->client.link != NULL) {
            tfos__link_close(s->client.link);
        }
        run_until(s, &s->client.closed);
        if (s->server.link != NULL) {
            run_until(s, &s->server.closed);
        }
    }
}

static void test_a_peer_that_does_not_read(void **state)
{
    scene *s = *state;
    static char large[1 << 20];
    connect_to(s, "127.0.0.1", s->port);
    send_text(s->client.link, "a", 1);
    run_until(s, &s->client.ready);
    for (int i = 0; i < 40 && s->client.link != NULL; i++) {
        send_text(s->client.link, large, sizeof large); /* the loop does not run, so nobody reads */
    }
    run_until(s, &s->client.closed);
    assert_int_equal(s->client.error.status, TFOS_LIMIT);
    helper_expect_in(s->client.error.message, "does not read: more than ");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)
    const struct CMUnitTest tests[] = {
        TEST(test_messages),
        TEST(test_keep_alive),
        TEST(test_a_peer_is_gone),
        TEST(test_nobody_listens),
        TEST(test_a_host_that_is_unknown),
        TEST(test_a_name),
        TEST(test_an_address_in_brackets),
        TEST(test_closing_at_once),
        TEST(test_closing_at_any_moment),
        TEST(test_a_peer_that_does_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
