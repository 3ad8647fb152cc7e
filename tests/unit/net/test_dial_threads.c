/* Two threads with a connection between them. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "net/dial.h"

#define PURPOSE "a test"

enum { PIECE_BYTES = 64 << 10, PIECES = 64, FEW_MS = 20000 };

static const uint8_t key[TFOS__KEY_BYTES] = "a key that everybody knows";

/* One end: what it has to do, and how that went. */
typedef struct talker {
    tfos__dial *dial;
    uint64_t first; /* the number of its first message */
    tfos_status status;
    tfos_error error;
} talker;

typedef struct answerer {
    int listener;
    tfos__tls_context *tls;
    tfos__dial *dial;
    bool heard;
} answerer;

static int listen_here(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(listener, 4), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    *port = ntohs(address.sin_port);
    return listener;
}

static void *answer(void *context)
{
    answerer *self = context;
    tfos__message hello;
    tfos__buffer plain = {0};
    tfos__tls *tls;
    int socket = accept4(self->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket >= 0 && tfos__tls_new(self->tls, &tls, NULL) == TFOS_OK &&
        tfos__dial_adopt(socket, tls, &plain, "a client", NULL, &self->dial, NULL) == TFOS_OK) {
        self->heard = tfos__dial_receive(self->dial, FEW_MS, &hello, NULL) == TFOS_OK; /* the handshake with it */
    }
    return NULL;
}

static void connect_two(tfos__dial **a, tfos__dial **b, answerer *self)
{
    uint16_t port;
    pthread_t thread;
    tfos__message hello;
    tfos_error error;
    self->listener = listen_here(&port);
    assert_int_equal(tfos__tls_context_new(TFOS__TLS_SERVER, key, PURPOSE, &self->tls, &error), TFOS_OK);
    assert_int_equal(pthread_create(&thread, NULL, answer, self), 0);
    if (tfos__dial_open("127.0.0.1", port, key, PURPOSE, FEW_MS, NULL, a, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    tfos__message_init(&hello, TFOS__MESSAGE_HELLO);
    tfos__message_put_string(&hello, TFOS__FIELD_VERSION, "1");
    assert_int_equal(tfos__dial_send(*a, &hello, &error), TFOS_OK);
    pthread_join(thread, NULL);
    assert_true(self->heard);
    *b = self->dial;
    close(self->listener);
}

static void close_two(tfos__dial *a, tfos__dial *b, answerer *self)
{
    tfos__dial_close(a);
    tfos__dial_close(b);
    tfos__tls_context_free(self->tls);
}

/* Who may read late is given time. */
static void test_time_is_given(void **state)
{
    (void)state;
    unsigned ms = 0;
    socklen_t bytes = sizeof ms;
    int socket_here = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    tfos__socket_keep_alive(socket_here);
    assert_int_equal(getsockopt(socket_here, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &bytes), 0);
    assert_int_equal(ms, 60000);
    tfos__socket_give_time(socket_here, 600000);
    assert_int_equal(getsockopt(socket_here, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &bytes), 0);
    assert_int_equal(ms, 600000);
    close(socket_here);
}

/* A peer that has said something and reads no more: what it said is there to be read, although nothing can be sent. */
static void test_what_was_said_before_the_close(void **state)
{
    (void)state;
    answerer server = {0};
    tfos__dial *a;
    tfos__dial *b;
    tfos_error error;
    char text[8] = "";
    size_t count = 0;
    connect_two(&a, &b, &server);
    assert_int_equal(tfos__dial_push(b, "bye", 4, &count, &error), TFOS_OK);
    tfos__dial_close(b); /* which has not read what comes now */
    for (int i = 0; i < 50; i++) {
        static const char much[65536];
        (void)tfos__dial_push(a, much, sizeof much, &count, NULL);
        poll(NULL, 0, 1);
    }
    assert_int_equal(tfos__dial_pull(a, text, sizeof text, &count, &error), TFOS_OK);
    assert_string_equal(text, "bye");
    tfos__dial_close(a);
    tfos__tls_context_free(server.tls);
}

/* Says all that it has to say, and only then listens. */
static tfos_status talk_then_listen(talker *self)
{
    static const char piece[PIECE_BYTES];
    tfos__message message;
    for (uint64_t i = 0; i < PIECES; i++) {
        tfos__message_init(&message, TFOS__MESSAGE_ENTRY);
        tfos__message_put_number(&message, TFOS__FIELD_ENTRY_BYTES, self->first + i);
        tfos__message_put_text(&message, TFOS__FIELD_PIECE, piece, sizeof piece);
        TFOS_TRY(tfos__dial_send(self->dial, &message, &self->error));
    }
    uint64_t other = self->first == 0 ? 1000 : 0;
    for (uint64_t i = 0; i < PIECES; i++) {
        TFOS_TRY(tfos__dial_receive(self->dial, FEW_MS, &message, &self->error));
        if (tfos__message_number(&message, TFOS__FIELD_ENTRY_BYTES) != other + i ||
            tfos__message_text(&message, TFOS__FIELD_PIECE).count != PIECE_BYTES) {
            return TFOS_CORRUPT;
        }
    }
    return TFOS_OK;
}

static void *talk(void *context)
{
    talker *self = context;
    self->status = talk_then_listen(self);
    return NULL;
}

/* Much more in both directions than the network holds. */
static void test_both_talk_at_once(void **state)
{
    (void)state;
    answerer server = {0};
    talker talkers[2] = {{.first = 0}, {.first = 1000}};
    pthread_t threads[2];
    const int small = 32 << 10;
    connect_two(&talkers[0].dial, &talkers[1].dial, &server);
    for (size_t i = 0; i < 2; i++) {
        int socket = tfos__dial_socket(talkers[i].dial);
        assert_int_equal(setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
        assert_int_equal(setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, talk, &talkers[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        if (talkers[i].status != TFOS_OK) {
            fail_msg("end %zu: %d, %s", i, talkers[i].status, talkers[i].error.message);
        }
    }
    close_two(talkers[0].dial, talkers[1].dial, &server);
}

enum { STREAM_BYTES = (6 << 20) + 12345 };

static uint8_t byte_at(uint64_t first, size_t i)
{
    return (uint8_t)((i * 2654435761u + first) >> 13);
}

/* Sends and receives at the same time, and waits only when neither can be done. */
static tfos_status stream(talker *self)
{
    uint8_t bytes[10000];
    uint64_t other = self->first == 0 ? 1000 : 0;
    size_t sent = 0;
    size_t received = 0;
    while (sent < STREAM_BYTES || received < STREAM_BYTES || (tfos__dial_events(self->dial) & POLLOUT) != 0) {
        size_t count = STREAM_BYTES - sent < sizeof bytes ? STREAM_BYTES - sent : sizeof bytes;
        size_t moved;
        size_t got;
        for (size_t i = 0; i < count; i++) {
            bytes[i] = byte_at(self->first, sent + i);
        }
        TFOS_TRY(tfos__dial_push(self->dial, bytes, count, &moved, &self->error));
        sent += moved;
        count = STREAM_BYTES - received < sizeof bytes ? STREAM_BYTES - received : sizeof bytes;
        TFOS_TRY(tfos__dial_pull(self->dial, bytes, count, &got, &self->error));
        for (size_t i = 0; i < got; i++) {
            if (bytes[i] != byte_at(other, received + i)) {
                return TFOS_CORRUPT;
            }
        }
        received += got;
        struct pollfd wait = {.fd = tfos__dial_socket(self->dial), .events = tfos__dial_events(self->dial)};
        if (moved == 0 && got == 0 && poll(&wait, 1, FEW_MS) <= 0) {
            return TFOS_END;
        }
    }
    return TFOS_OK;
}

static void *stream_in_thread(void *context)
{
    talker *self = context;
    self->status = stream(self);
    return NULL;
}

/* Bytes behind messages, in both directions and more than the network holds; then one leaves. */
static void test_bytes_without_messages(void **state)
{
    (void)state;
    answerer server = {0};
    talker talkers[2] = {{.first = 0}, {.first = 1000}};
    pthread_t threads[2];
    tfos_error error;
    uint8_t byte;
    size_t got = 0;
    connect_two(&talkers[0].dial, &talkers[1].dial, &server);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, stream_in_thread, &talkers[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        if (talkers[i].status != TFOS_OK) {
            fail_msg("end %zu: %d, %s", i, talkers[i].status, talkers[i].error.message);
        }
    }
    assert_int_equal(tfos__dial_pull(talkers[1].dial, &byte, 1, &got, &error), TFOS_OK);
    assert_int_equal(got, 0);
    tfos__dial_close(talkers[0].dial);
    tfos_status status = TFOS_OK;
    for (int i = 0; status == TFOS_OK && i < 100; i++) {
        struct pollfd wait = {.fd = tfos__dial_socket(talkers[1].dial), .events = POLLIN};
        poll(&wait, 1, FEW_MS);
        status = tfos__dial_pull(talkers[1].dial, &byte, 1, &got, &error);
    }
    assert_int_equal(status, TFOS_IO);
    close_two(NULL, talkers[1].dial, &server);
}

/* The last words of a peer that has left are heard, also by one who finds out when it cannot send. */
static void test_last_words(void **state)
{
    (void)state;
    static const char piece[PIECE_BYTES];
    answerer server = {0};
    tfos__dial *one;
    tfos__dial *other;
    tfos__message message;
    tfos_error error;
    tfos_status status = TFOS_OK;
    connect_two(&one, &other, &server);
    tfos__message_init(&message, TFOS__MESSAGE_REFUSED);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, "I have enough");
    assert_int_equal(tfos__dial_send(other, &message, &error), TFOS_OK);
    tfos__dial_close(other);
    for (int i = 0; status == TFOS_OK && i < 10000; i++) {
        tfos__message_init(&message, TFOS__MESSAGE_ENTRY);
        tfos__message_put_number(&message, TFOS__FIELD_ENTRY_BYTES, sizeof piece);
        tfos__message_put_text(&message, TFOS__FIELD_PIECE, piece, sizeof piece);
        status = tfos__dial_send(one, &message, &error);
    }
    assert_int_equal(status, TFOS_IO);
    assert_int_equal(tfos__dial_receive(one, 0, &message, &error), TFOS_OK);
    assert_int_equal(message.type, TFOS__MESSAGE_REFUSED);
    assert_int_equal(tfos__dial_receive(one, 0, &message, &error), TFOS_IO);
    close_two(one, NULL, &server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_talk_at_once), cmocka_unit_test(test_bytes_without_messages),
        cmocka_unit_test(test_last_words),        cmocka_unit_test(test_what_was_said_before_the_close),
        cmocka_unit_test(test_time_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
