/* Ports that are held, and how they are let go. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper_records.h"
#include "node/port.h"

/* Binds and listens as a server does; 0 or an errno. */
static int try_to_listen(uint16_t *number, bool reuse)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(*number)};
    socklen_t bytes = sizeof address;
    int yes = reuse;
    int code = 0;
    int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(file >= 0);
    setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(file, (struct sockaddr *)&address, sizeof address) != 0 || listen(file, 1) != 0) {
        code = errno;
    } else {
        assert_int_equal(getsockname(file, (struct sockaddr *)&address, &bytes), 0);
        *number = ntohs(address.sin_port);
    }
    close(file);
    return code;
}

static void test_held_and_released(void **state)
{
    (void)state;
    tfos__port port;
    assert_int_equal(tfos__port_reserve(NULL, &port, NULL), TFOS_OK);
    uint16_t number = port.number;
    assert_true(number > 0);
    assert_int_equal(try_to_listen(&number, true), EADDRINUSE);
    tfos__port_release(&port);
    assert_int_equal(port.socket, -1);
    assert_int_equal(port.number, number);
    /* Whoever does not ask for it by SO_REUSEADDR does not get it; TensorFlow does. */
    assert_int_equal(try_to_listen(&number, false), EADDRINUSE);
    assert_int_equal(try_to_listen(&number, true), 0);
    tfos__port_release(&port); /* a second time: nothing */
}

/* Servers and clients of others that let the kernel choose do not get a released port. */
static void test_a_released_port_is_not_handed_out(void **state)
{
    enum { PORTS = 20, TRIES = 3000 };
    (void)state;
    tfos__port ports[PORTS];
    for (int i = 0; i < PORTS; i++) {
        assert_int_equal(tfos__port_reserve("", &ports[i], NULL), TFOS_OK);
    }
    for (int i = 0; i < PORTS; i++) {
        tfos__port_release(&ports[i]);
    }
    for (int i = 0; i < TRIES; i++) {
        uint16_t number = 0;
        assert_int_equal(try_to_listen(&number, i % 2 == 0), 0);
        for (int j = 0; j < PORTS; j++) {
            assert_int_not_equal(number, ports[j].number);
        }
    }
}

static void test_handed_over(void **state)
{
    (void)state;
    tfos__port port;
    assert_int_equal(tfos__port_reserve(NULL, &port, NULL), TFOS_OK);
    uint16_t number = port.number;
    assert_int_equal(try_to_listen(&number, true), EADDRINUSE);
    tfos__port_hand_over(&port);
    assert_int_equal(port.socket, -1);
    assert_int_equal(try_to_listen(&number, false), 0);
    assert_int_equal(try_to_listen(&number, true), 0);
    tfos__port_hand_over(&port); /* a second time: nothing */
    tfos__port_release(&port);
    assert_int_equal(port.guard, -1);
    assert_int_equal(try_to_listen(&number, false), 0);
}

/* The port that the kernel gives to a server of both families, as Java's are. */
static uint16_t any_port_of_both_families(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6};
    socklen_t bytes = sizeof address;
    int no = 0;
    int file = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(file >= 0);
    setsockopt(file, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    assert_int_equal(bind(file, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(file, (struct sockaddr *)&address, &bytes), 0);
    close(file);
    return ntohs(address.sin6_port);
}

/* Servers of both families that let the kernel choose do not get a port that was handed over. */
static void test_a_port_that_was_handed_over_is_guarded(void **state)
{
    enum { PORTS = 200, TRIES = 3000 };
    (void)state;
    tfos__port ports[PORTS];
    for (int i = 0; i < PORTS; i++) {
        assert_int_equal(tfos__port_reserve("", &ports[i], NULL), TFOS_OK);
    }
    for (int i = 0; i < PORTS; i++) {
        tfos__port_hand_over(&ports[i]);
    }
    for (int i = 0; i < TRIES && ports[0].guard >= 0; i++) { /* where the machine has IPv6 */
        uint16_t number = any_port_of_both_families();
        for (int j = 0; j < PORTS; j++) {
            assert_int_not_equal(number, ports[j].number);
        }
    }
    for (int i = 0; i < PORTS; i++) {
        tfos__port_release(&ports[i]);
    }
}

static void test_a_wanted_port(void **state)
{
    (void)state;
    tfos__port any;
    tfos__port port;
    tfos_error error;
    char text[32];
    assert_int_equal(tfos__port_reserve(NULL, &any, NULL), TFOS_OK);
    snprintf(text, sizeof text, "%u", any.number);
    assert_int_equal(tfos__port_reserve(text, &port, &error), TFOS_EXISTS);
    helper_expect_in(error.message, "is taken on this machine");
    tfos__port_release(&any);
    /* Again, a moment after the cluster before let it go. */
    assert_int_equal(tfos__port_reserve(text, &port, NULL), TFOS_OK);
    assert_int_equal(port.number, any.number);
    snprintf(text, sizeof text, "%u-%u", any.number, any.number > 65000 ? any.number : any.number + 500);
    tfos__port next;
    if (any.number <= 65000) {
        assert_int_equal(tfos__port_reserve(text, &next, NULL), TFOS_OK);
        assert_true(next.number > any.number);
        tfos__port_release(&next);
    }
    tfos__port_release(&port);
}

/* A stranger who is connected when the port is let go is not in the way. */
static void test_strangers(void **state)
{
    (void)state;
    tfos__port port;
    int strangers[5];
    assert_int_equal(tfos__port_reserve(NULL, &port, NULL), TFOS_OK);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port.number), .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    for (int i = 0; i < 5; i++) {
        strangers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(strangers[i], (struct sockaddr *)&address, sizeof address), 0);
    }
    uint16_t number = port.number;
    tfos__port_release(&port);
    for (int i = 0; i < 5; i++) {
        close(strangers[i]);
    }
    assert_int_equal(try_to_listen(&number, true), 0);
}

static void test_nonsense(void **state)
{
    (void)state;
    static const char *const texts[] = {"0", "-5", "65536", "9000-8000", "9000-", "9000-70000", "x", "80x", "1-2-3"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        tfos__port port;
        tfos_error error;
        assert_int_equal(tfos__port_reserve(texts[i], &port, &error), TFOS_INVALID);
        helper_expect_in(error.message, "must be a port from 1 to 65535 or a range such as 9997-9999");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_held_and_released), cmocka_unit_test(test_a_released_port_is_not_handed_out),
        cmocka_unit_test(test_handed_over),       cmocka_unit_test(test_a_port_that_was_handed_over_is_guarded),
        cmocka_unit_test(test_a_wanted_port),     cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
