/* Requests of HTTP, from bytes in any portions: what is taken, what is refused, and where one ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "coordinator/http_request.h"

/* Feeds `text`, at most `step` bytes at a time, until there is a verdict. *left is what was not used. */
static tfos__http_verdict feed(tfos__http_request *request, const char *text, size_t count, size_t step, size_t *left)
{
    tfos__http_verdict verdict = TFOS__HTTP_MORE;
    while (count > 0 && verdict == TFOS__HTTP_MORE) {
        size_t used;
        size_t portion = count < step ? count : step;
        verdict = tfos__http_request_feed(request, text, portion, &used);
        if (verdict != TFOS__HTTP_REFUSED) {
            assert_true(used <= portion);
            assert_true(verdict == TFOS__HTTP_READY || used == portion);
        } else {
            used = portion;
        }
        text += used;
        count -= used;
    }
    *left = count;
    return verdict;
}

static void check_ready(const char *text, const char *path, const char *query, bool is_head, bool keep_alive)
{
    for (size_t step = 1; step <= strlen(text); step++) {
        tfos__http_request request;
        size_t left;
        tfos__http_request_init(&request);
        assert_int_equal(feed(&request, text, strlen(text), step, &left), TFOS__HTTP_READY);
        assert_int_equal(left, 0);
        assert_string_equal(request.path, path);
        assert_string_equal(request.query, query);
        assert_int_equal(request.is_head, is_head);
        assert_int_equal(request.keep_alive, keep_alive);
    }
}

static void check_refused(const char *text, size_t count, int status)
{
    for (size_t step = 1; step <= count; step = step < 64 ? step + 1 : step * 2) {
        tfos__http_request request;
        size_t left;
        tfos__http_request_init(&request);
        assert_int_equal(feed(&request, text, count, step, &left), TFOS__HTTP_REFUSED);
        assert_int_equal(request.refusal, status);
    }
}

static void refuse_text(const char *text, int status)
{
    check_refused(text, strlen(text), status);
}

static void takes_good_requests(void **state)
{
    (void)state;
    check_ready("GET /a/b HTTP/1.1\r\nHost: x\r\n\r\n", "/a/b", "", false, true);
    check_ready("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "/", "", false, false);
    check_ready("GET / HTTP/1.0\r\n\r\n", "/", "", false, false);
    check_ready("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "/", "", false, true);
    check_ready("HEAD /x?logs=1,2#here HTTP/1.1\r\n\r\n", "/x", "logs=1,2", true, true);
    check_ready("GET http://host:81/x?y HTTP/1.1\r\n\r\n", "/x", "y", false, true);
    check_ready("GET * HTTP/1.1\r\n\r\n", "*", "", false, true);
    check_ready("GET /x HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "/x", "", false, true);
    check_ready("\r\n\r\nGET /x HTTP/1.1\r\n\r\n", "/x", "", false, true);
}

static void another_protocol_is_not_taken_up(void **state)
{
    (void)state;
    check_ready("GET /x HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", "/x", "", false, false);
}

static void refuses_what_it_does_not_take(void **state)
{
    (void)state;
    refuse_text("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405);
    refuse_text("DELETE / HTTP/1.1\r\n\r\n", 405);
    refuse_text("OPTIONS * HTTP/1.1\r\n\r\n", 405);
    refuse_text("CONNECT host:443 HTTP/1.1\r\n\r\n", 405);
    refuse_text("GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 413);
    refuse_text("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 413);
    refuse_text("GET / HTTP/2.0\r\n\r\n", 505);
}

static void refuses_nonsense(void **state)
{
    (void)state;
    refuse_text("hello\r\n\r\n", 400);
    refuse_text("\x16\x03\x01\x02\x01\x01\xfc\x03\x03", 400); /* a client that speaks TLS */
    refuse_text("GET / HTTP/1.1\r\nno colon\r\n\r\n", 400);
    refuse_text("GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400);
    refuse_text("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400);
    refuse_text("GET / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400);
    check_refused("GET /\0 HTTP/1.1\r\n\r\n", 20, 400);
}

static void bounds_the_address(void **state)
{
    char text[TFOS__HTTP_TARGET_BYTES + 64];
    (void)state;
    memset(text, 'a', sizeof text);
    memcpy(text, "GET /", 5);
    memcpy(text + 4 + TFOS__HTTP_TARGET_BYTES, " HTTP/1.1\r\n\r\n", 13);
    tfos__http_request request;
    size_t left;
    tfos__http_request_init(&request);
    assert_int_equal(feed(&request, text, 4 + TFOS__HTTP_TARGET_BYTES + 13, 100, &left), TFOS__HTTP_READY);
    assert_int_equal(strlen(request.path), TFOS__HTTP_TARGET_BYTES);
    memset(text + 4 + TFOS__HTTP_TARGET_BYTES, 'a', 13);
    check_refused(text, sizeof text, 414);
}

static void bounds_the_headers(void **state)
{
    static char text[4 * TFOS__HTTP_HEAD_BYTES];
    (void)state;
    memset(text, 'a', sizeof text);
    int count = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nX: ");
    text[count] = 'a';
    check_refused(text, sizeof text, 431);
    /* Many small ones, too. */
    for (size_t at = (size_t)count; at + 6 <= sizeof text; at += 6) {
        memcpy(text + at, "a\r\nB: ", 6);
    }
    check_refused(text, sizeof text, 431);
    memset(text, '\n', sizeof text);
    check_refused(text, sizeof text, 431);
}

static void one_after_another(void **state)
{
    const char *text =
        "GET /1 HTTP/1.1\r\n\r\nHEAD /2?q HTTP/1.1\r\n\r\nGET /3 HTTP/1.1\r\n\r\nPUT /4 HTTP/1.1\r\n\r\n";
    (void)state;
    for (size_t step = 1; step <= strlen(text); step++) {
        tfos__http_request request;
        size_t left = strlen(text);
        const char *end = text + left;
        tfos__http_request_init(&request);
        assert_int_equal(feed(&request, end - left, left, step, &left), TFOS__HTTP_READY);
        assert_string_equal(request.path, "/1");
        assert_int_equal(feed(&request, end - left, left, step, &left), TFOS__HTTP_READY);
        assert_string_equal(request.path, "/2");
        assert_string_equal(request.query, "q");
        assert_true(request.is_head);
        assert_int_equal(feed(&request, end - left, left, step, &left), TFOS__HTTP_READY);
        assert_string_equal(request.path, "/3");
        assert_string_equal(request.query, "");
        assert_false(request.is_head);
        assert_int_equal(feed(&request, end - left, left, step, &left), TFOS__HTTP_REFUSED);
        assert_int_equal(request.refusal, 405);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_good_requests),
        cmocka_unit_test(another_protocol_is_not_taken_up),
        cmocka_unit_test(refuses_what_it_does_not_take),
        cmocka_unit_test(refuses_nonsense),
        cmocka_unit_test(bounds_the_address),
        cmocka_unit_test(bounds_the_headers),
        cmocka_unit_test(one_after_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
