/* The HTTP server, over real sockets: good clients are served whatever bad ones do. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "coordinator/http.h"
#include "helper_loop.h"

enum { LARGE_BYTES = 4 << 20, WAIT_S = 20 };

/* ---- a server in a thread of its own ---- */

typedef struct site {
    pthread_t thread;
    uv_loop_t loop;
    uv_async_t stop;
    tfos__http *server;
    uint16_t port;
    bool closed;
} site;

static void on_request(void *context, const tfos__http_request *request, tfos__http_answer *answer)
{
    static const char text[] = "hello";
    (void)context;
    if (strcmp(request->path, "/hello") == 0) {
        *answer = (tfos__http_answer){
            .status = 200, .type = "text/plain", .bytes = text, .count = sizeof text - 1, .known = true};
    } else if (strcmp(request->path, "/large") == 0) {
        answer->status = 200;
        answer->known = true;
        assert_int_equal(tfos__buffer_reserve(&answer->body, LARGE_BYTES, NULL), TFOS_OK);
        memset(answer->body.data, 'x', LARGE_BYTES);
        answer->body.size = LARGE_BYTES;
    } else if (strcmp(request->path, "/moved") == 0) {
        answer->status = 308;
        answer->location = "/hello";
    }
}

static void on_closed(void *context)
{
    ((site *)context)->closed = true;
}

static void on_stop(uv_async_t *stop)
{
    site *self = stop->data;
    tfos__http_close(self->server, on_closed);
    uv_close((uv_handle_t *)stop, NULL);
}

static void *run_loop(void *context)
{
    uv_run(&((site *)context)->loop, UV_RUN_DEFAULT);
    return NULL;
}

static void start(site *self, tfos__http_limits limits)
{
    const tfos__ports any = {.setting = "NOTHING"};
    tfos_error error;
    *self = (site){0};
    helper_loop_init(&self->loop);
    uv_async_init(&self->loop, &self->stop, on_stop);
    self->stop.data = self;
    assert_int_equal(tfos__http_open(&self->loop, "127.0.0.1", &any, &limits, "X-Test: yes\r\n", on_request, self,
                                     &self->server, &error),
                     TFOS_OK);
    self->port = tfos__http_port(self->server);
    assert_int_equal(pthread_create(&self->thread, NULL, run_loop, self), 0);
}

static void finish(site *self)
{
    uv_async_send(&self->stop);
    pthread_join(self->thread, NULL);
    assert_true(self->closed);
    assert_int_equal(uv_loop_close(&self->loop), 0); /* no handle is left */
}

/* ---- a client ---- */

static int dial(const site *to)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(to->port)};
    struct timeval patience = {.tv_sec = WAIT_S};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int made = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(made, (struct sockaddr *)&address, sizeof address), 0);
    return made;
}

static void say(int to, const char *text)
{
    assert_int_equal(send(to, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Everything until the other end closes. The caller frees it. */
static char *hear_all(int from)
{
    tfos__buffer all = {0};
    char bytes[65536];
    ssize_t count;
    while ((count = recv(from, bytes, sizeof bytes, 0)) > 0) {
        assert_int_equal(tfos__buffer_append(&all, bytes, (size_t)count, NULL), TFOS_OK);
    }
    assert_true(count == 0 || errno == ECONNRESET); /* not our own time limit */
    assert_int_equal(tfos__buffer_append(&all, "", 1, NULL), TFOS_OK);
    char *text = strdup((const char *)all.data);
    tfos__buffer_reset(&all);
    return text;
}

static void check_answer(int socket_fd, const char *request, const char *beginning)
{
    say(socket_fd, request);
    char *answer = hear_all(socket_fd);
    if (strncmp(answer, beginning, strlen(beginning)) != 0) {
        fail_msg("expected %s, found %.200s", beginning, answer);
    }
    free(answer);
    close(socket_fd);
}

/* A good request is served. */
static void check_served(const site *from)
{
    int socket_fd = dial(from);
    say(socket_fd, "GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n");
    char *answer = hear_all(socket_fd);
    assert_non_null(strstr(answer, "HTTP/1.1 200 OK\r\n"));
    assert_non_null(strstr(answer, "X-Test: yes\r\n"));
    assert_non_null(strstr(answer, "Content-Length: 5\r\n"));
    assert_non_null(strstr(answer, "\r\n\r\nhello"));
    free(answer);
    close(socket_fd);
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part)) {
        count++;
    }
    return count;
}

static const tfos__http_limits usual = TFOS__HTTP_LIMITS;

/* ---- tests ---- */

static void serves(void **state)
{
    site self;
    (void)state;
    start(&self, usual);
    check_served(&self);
    check_answer(dial(&self), "GET /other HTTP/1.0\r\n\r\n", "HTTP/1.1 404 Not Found\r\n");
    check_answer(dial(&self), "POST /hello HTTP/1.1\r\n\r\n",
                 "HTTP/1.1 405 Method Not Allowed\r\nX-Test: yes\r\nAllow: ");
    check_answer(dial(&self), "GET /moved HTTP/1.0\r\n\r\n", "HTTP/1.1 308 Permanent Redirect\r\nX-Test: yes\r\nLoc");
    finish(&self);
}

static void head_has_no_body(void **state)
{
    site self;
    (void)state;
    start(&self, usual);
    int socket_fd = dial(&self);
    say(socket_fd, "HEAD /large HTTP/1.1\r\nConnection: close\r\n\r\n");
    char *answer = hear_all(socket_fd);
    assert_non_null(strstr(answer, "Content-Length: 4194304\r\n"));
    assert_string_equal(strstr(answer, "\r\n\r\n"), "\r\n\r\n");
    free(answer);
    close(socket_fd);
    finish(&self);
}

static void keeps_connections(void **state)
{
    site self;
    char bytes[4096];
    (void)state;
    start(&self, usual);
    int socket_fd = dial(&self);
    for (size_t i = 0; i < 100; i++) {
        say(socket_fd, "GET /hello HTTP/1.1\r\n\r\n");
        size_t have = 0;
        do {
            ssize_t count = recv(socket_fd, bytes + have, sizeof bytes - have - 1, 0);
            assert_true(count > 0);
            have += (size_t)count;
            bytes[have] = '\0';
        } while (strstr(bytes, "\r\n\r\nhello") == NULL);
        assert_null(strstr(bytes, "Connection: close"));
    }
    close(socket_fd);
    finish(&self);
}

/* More requests than fit into the server's buffer, without waiting for an answer. */
static void answers_pipelined_requests_in_turn(void **state)
{
    enum { REQUESTS = 2000 };
    static const char request[] = "GET /hello HTTP/1.1\r\n\r\n";
    site self;
    (void)state;
    start(&self, usual);
    int socket_fd = dial(&self);
    char *all = malloc(REQUESTS * sizeof request + 64);
    size_t used = 0;
    for (size_t i = 0; i < REQUESTS; i++) {
        memcpy(all + used, request, sizeof request - 1);
        used += sizeof request - 1;
    }
    strcpy(all + used, "GET /none HTTP/1.0\r\n\r\n");
    say(socket_fd, all);
    free(all);
    char *answer = hear_all(socket_fd);
    assert_int_equal(count_of(answer, "HTTP/1.1 200 OK\r\n"), REQUESTS);
    assert_int_equal(count_of(answer, "\r\n\r\nhello"), REQUESTS);
    assert_int_equal(count_of(answer, "HTTP/1.1 404 Not Found\r\n"), 1);
    free(answer);
    close(socket_fd);
    finish(&self);
}

static void refuses_garbage_and_goes_on(void **state)
{
    site self;
    (void)state;
    start(&self, usual);
    check_answer(dial(&self), "what?\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n");
    check_answer(dial(&self), "\x16\x03\x01\x02", "HTTP/1.1 400 Bad Request\r\n");
    check_served(&self);
    finish(&self);
}

/* The client gets to read why, although it is still sending when the server has had enough. */
static void refuses_huge_headers(void **state)
{
    enum { BYTES = 1 << 20 };
    site self;
    (void)state;
    start(&self, usual);
    int socket_fd = dial(&self);
    char *text = malloc(BYTES + 1);
    memset(text, 'a', BYTES);
    memcpy(text, "GET / HTTP/1.1\r\nX: ", 19);
    text[BYTES] = '\0';
    for (size_t sent = 0; sent < BYTES;) {
        ssize_t count = send(socket_fd, text + sent, BYTES - sent, MSG_NOSIGNAL);
        if (count <= 0) {
            break; /* cut off in the middle is as good */
        }
        sent += (size_t)count;
    }
    free(text);
    char *answer = hear_all(socket_fd);
    assert_non_null(strstr(answer, "HTTP/1.1 431 "));
    free(answer);
    close(socket_fd);
    check_served(&self);
    finish(&self);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A client that sends a byte now and then does not win time by it, and others are served meanwhile. */
static void cuts_slow_clients_off(void **state)
{
    site self;
    tfos__http_limits limits = usual;
    (void)state;
    limits.request_ms = 500;
    start(&self, limits);
    int slow = dial(&self);
    int silent = dial(&self);
    double begun = seconds();
    bool cut = false;
    say(slow, "GET /hello HTTP/1.1\r\n");
    while (!cut) {
        char byte;
        check_served(&self);
        cut = send(slow, "X", 1, MSG_NOSIGNAL) < 0 || recv(slow, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
        assert_true(seconds() - begun < WAIT_S);
        usleep(20000);
    }
    assert_true(seconds() - begun > 0.4);
    char *answer = hear_all(slow);
    assert_true(answer[0] == '\0' || strstr(answer, "HTTP/1.1 408 ") == answer);
    free(answer);
    answer = hear_all(silent); /* who never says a word gets none */
    assert_string_equal(answer, "");
    free(answer);
    close(slow);
    close(silent);
    finish(&self);
}

static void closes_idle_connections(void **state)
{
    site self;
    tfos__http_limits limits = usual;
    (void)state;
    limits.idle_ms = 200;
    start(&self, limits);
    int socket_fd = dial(&self);
    say(socket_fd, "GET /hello HTTP/1.1\r\n\r\n");
    char *answer = hear_all(socket_fd);
    assert_non_null(strstr(answer, "\r\n\r\nhello"));
    free(answer);
    close(socket_fd);
    finish(&self);
}

/* A client that asks for much and reads nothing. */
static void cuts_off_who_does_not_read(void **state)
{
    site self;
    tfos__http_limits limits = usual;
    (void)state;
    limits.answer_ms = 200;
    start(&self, limits);
    int lazy = dial(&self);
    say(lazy, "GET /large HTTP/1.1\r\n\r\n");
    usleep(1500000); /* much longer than it may take */
    check_served(&self);
    char *answer = hear_all(lazy);
    assert_true(strlen(answer) < LARGE_BYTES);
    free(answer);
    close(lazy);
    finish(&self);
}

static void bounds_what_waits(void **state)
{
    site self;
    tfos__http_limits limits = usual;
    (void)state;
    limits.queued_bytes = LARGE_BYTES + (LARGE_BYTES >> 1);
    start(&self, limits);
    int lazy = dial(&self);
    say(lazy, "GET /large HTTP/1.1\r\n\r\n");
    char byte;
    assert_int_equal(recv(lazy, &byte, 1, MSG_PEEK), 1); /* its answer is under way, and more than a socket holds */
    check_answer(dial(&self), "GET /large HTTP/1.0\r\n\r\n", "HTTP/1.1 503 Service Unavailable\r\n");
    check_served(&self);
    close(lazy);
    finish(&self);
}

/* Strangers that hold every connection do not keep anybody out, nor push out one that knows the way. */
static void many_connections_keep_nobody_out(void **state)
{
    enum { STRANGERS = 300 };
    static int strangers[STRANGERS];
    site self;
    tfos__http_limits limits = usual;
    char bytes[4096];
    (void)state;
    limits.connections = 16;
    start(&self, limits);
    int friend_fd = dial(&self);
    say(friend_fd, "GET /hello HTTP/1.1\r\n\r\n");
    assert_true(recv(friend_fd, bytes, sizeof bytes, 0) > 0);
    for (size_t i = 0; i < STRANGERS; i++) {
        strangers[i] = dial(&self);
        say(strangers[i], "GET /he");
        if (i % 50 == 0) {
            check_served(&self);
        }
    }
    say(friend_fd, "GET /hello HTTP/1.1\r\nConnection: close\r\n\r\n");
    char *answer = hear_all(friend_fd);
    assert_non_null(strstr(answer, "200 OK"));
    free(answer);
    close(friend_fd);
    for (size_t i = 0; i < STRANGERS; i++) {
        close(strangers[i]);
    }
    check_served(&self);
    finish(&self);
}

/* With connections in every state. */
static void closes_in_the_middle(void **state)
{
    site self;
    (void)state;
    start(&self, usual);
    int reading = dial(&self);
    int writing = dial(&self);
    int draining = dial(&self);
    char byte;
    say(reading, "GET /he");
    say(writing, "GET /large HTTP/1.1\r\n\r\n");
    say(draining, "what?\r\n");
    assert_int_equal(recv(writing, &byte, 1, MSG_PEEK), 1);
    assert_int_equal(recv(draining, &byte, 1, MSG_PEEK), 1);
    finish(&self);
    close(reading);
    close(writing);
    close(draining);
}

static void names_the_setting_of_a_port_in_use(void **state)
{
    site self;
    tfos__http *second = NULL;
    tfos_error error;
    uv_loop_t loop;
    (void)state;
    start(&self, usual);
    tfos__ports taken = {.first = self.port, .last = self.port, .setting = "TFOS_SOME_PORT"};
    helper_loop_init(&loop);
    assert_int_equal(tfos__http_open(&loop, "127.0.0.1", &taken, &usual, "", on_request, NULL, &second, &error),
                     TFOS_EXISTS);
    assert_non_null(strstr(error.message, "TFOS_SOME_PORT"));
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    finish(&self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serves),
        cmocka_unit_test(head_has_no_body),
        cmocka_unit_test(keeps_connections),
        cmocka_unit_test(answers_pipelined_requests_in_turn),
        cmocka_unit_test(refuses_garbage_and_goes_on),
        cmocka_unit_test(refuses_huge_headers),
        cmocka_unit_test(cuts_slow_clients_off),
        cmocka_unit_test(closes_idle_connections),
        cmocka_unit_test(cuts_off_who_does_not_read),
        cmocka_unit_test(bounds_what_waits),
        cmocka_unit_test(many_connections_keep_nobody_out),
        cmocka_unit_test(closes_in_the_middle),
        cmocka_unit_test(names_the_setting_of_a_port_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
