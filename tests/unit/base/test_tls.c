/* TLS by the cluster key: two ends in one process, and what happens to whoever has no key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/tls.h"
#include "helper_records.h"

static const uint8_t key_a[TFOS__KEY_BYTES] = {1, 2, 3};
static const uint8_t key_b[TFOS__KEY_BYTES] = {1, 2, 4};

typedef struct ends {
    tfos__tls_context *contexts[2];
    tfos__tls *client;
    tfos__tls *server;
    tfos__buffer to_client; /* plain text that arrived */
    tfos__buffer to_server;
    tfos_status client_status;
    tfos_status server_status;
    tfos_error client_error;
    tfos_error server_error;
} ends;

static void open_ends(ends *e, const uint8_t *client_key, const char *client_purpose)
{
    memset(e, 0, sizeof *e);
    assert_int_equal(
        tfos__tls_context_new(TFOS__TLS_CLIENT, client_key, client_purpose, &e->contexts[0], &e->client_error),
        TFOS_OK);
    assert_int_equal(tfos__tls_context_new(TFOS__TLS_SERVER, key_a, "test", &e->contexts[1], &e->server_error),
                     TFOS_OK);
    assert_int_equal(tfos__tls_new(e->contexts[0], &e->client, &e->client_error), TFOS_OK);
    assert_int_equal(tfos__tls_new(e->contexts[1], &e->server, &e->server_error), TFOS_OK);
}

static void close_ends(ends *e)
{
    tfos__tls_free(e->client);
    tfos__tls_free(e->server);
    tfos__tls_context_free(e->contexts[0]);
    tfos__tls_context_free(e->contexts[1]);
    tfos__buffer_reset(&e->to_client);
    tfos__buffer_reset(&e->to_server);
}

/* Carries bytes to and fro, in pieces of `step`, until nothing moves. */
static void carry(ends *e, size_t step)
{
    for (bool moved = true; moved;) {
        tfos__buffer wire = {0};
        moved = false;
        assert_int_equal(tfos__tls_take(e->client, &wire, NULL), TFOS_OK);
        for (size_t at = 0; at < wire.size && e->server_status == TFOS_OK; at += step) {
            size_t count = wire.size - at < step ? wire.size - at : step;
            e->server_status = tfos__tls_receive(e->server, wire.data + at, count, &e->to_server, &e->server_error);
            moved = true;
        }
        wire.size = 0;
        assert_int_equal(tfos__tls_take(e->server, &wire, NULL), TFOS_OK);
        for (size_t at = 0; at < wire.size && e->client_status == TFOS_OK; at += step) {
            size_t count = wire.size - at < step ? wire.size - at : step;
            e->client_status = tfos__tls_receive(e->client, wire.data + at, count, &e->to_client, &e->client_error);
            moved = true;
        }
        tfos__buffer_reset(&wire);
    }
}

static void test_both_have_the_key(void **state)
{
    (void)state;
    static const size_t steps[] = {1, 7, 1 << 20};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        ends e;
        open_ends(&e, key_a, "test");
        assert_int_equal(tfos__tls_send(e.client, "early", 5, NULL), TFOS_OK); /* before the handshake is over */
        carry(&e, steps[i]);
        assert_true(tfos__tls_is_ready(e.client) && tfos__tls_is_ready(e.server));
        assert_int_equal(e.to_server.size, 5);
        assert_memory_equal(e.to_server.data, "early", 5);
        assert_int_equal(tfos__tls_send(e.server, "answer", 6, NULL), TFOS_OK);
        carry(&e, steps[i]);
        assert_memory_equal(e.to_client.data, "answer", 6);
        tfos__tls_close(e.client);
        carry(&e, steps[i]);
        assert_int_equal(e.server_status, TFOS_END);
        close_ends(&e);
    }
}

static void test_large_texts(void **state)
{
    (void)state;
    ends e;
    size_t count = 1000003;
    uint8_t *text = malloc(count);
    for (size_t i = 0; i < count; i++) {
        text[i] = (uint8_t)(i * 7);
    }
    open_ends(&e, key_a, "test");
    carry(&e, 4096);
    assert_int_equal(tfos__tls_send(e.server, text, count, NULL), TFOS_OK);
    carry(&e, 4096);
    assert_int_equal(e.to_client.size, count);
    assert_memory_equal(e.to_client.data, text, count);
    /* Memory may be given back between any two texts, and while one waits to be taken nothing happens. */
    e.to_client.size = 0;
    tfos__tls_shrink(e.server);
    assert_int_equal(tfos__tls_send(e.server, text, 5000, NULL), TFOS_OK);
    tfos__tls_shrink(e.server);
    assert_int_equal(tfos__tls_send(e.server, text + 5000, count - 5000, NULL), TFOS_OK);
    carry(&e, 4096);
    assert_int_equal(e.to_client.size, count);
    assert_memory_equal(e.to_client.data, text, count);
    close_ends(&e);
    free(text);
}

static void expect_refused(const uint8_t *key, const char *purpose)
{
    ends e;
    open_ends(&e, key, purpose);
    tfos__tls_send(e.client, "secret", 6, NULL);
    carry(&e, 1 << 20);
    assert_int_equal(e.server_status, TFOS_PERMISSION);
    helper_expect_in(e.server_error.message, "another cluster key, or does not speak tfos");
    assert_int_equal(e.client_status, TFOS_PERMISSION);
    assert_false(tfos__tls_is_ready(e.client) || tfos__tls_is_ready(e.server));
    assert_int_equal(e.to_server.size, 0);
    close_ends(&e);
}

static void test_another_key_is_refused(void **state)
{
    (void)state;
    expect_refused(key_b, "test");
}

static void test_another_purpose_is_refused(void **state)
{
    (void)state;
    expect_refused(key_a, "feed");
}

static void test_plain_text_and_garbage_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                        "\x16\x03\x01\xFF\xFFgarbage that is no hello at all, only noise",
                                        "\x80\x2E\x01\x00\x02\x00\x15\x00\x00\x00\x10\x01\x00\x80"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        ends e;
        open_ends(&e, key_a, "test");
        tfos_status status = TFOS_OK;
        /* A record that announces more than it has is waited for, but not for ever: other bytes follow here. */
        for (int round = 0; round < 2000 && status == TFOS_OK; round++) {
            status = tfos__tls_receive(e.server, texts[i], strlen(texts[i]), &e.to_server, &e.server_error);
        }
        assert_int_equal(status, TFOS_PERMISSION);
        assert_int_equal(e.to_server.size, 0);
        close_ends(&e);
    }
}

/* Every byte of a connection is covered: flipping one breaks it, and never changes what arrives. */
static void test_tampering_is_noticed(void **state)
{
    (void)state;
    for (size_t at = 0; at < 60; at++) {
        ends e;
        tfos__buffer wire = {0};
        open_ends(&e, key_a, "test");
        carry(&e, 1 << 20);
        tfos__tls_send(e.client, "pay 1 to alice", 14, NULL);
        tfos__tls_take(e.client, &wire, NULL);
        if (at < wire.size) {
            wire.data[at] ^= 0x40;
            tfos_status status = tfos__tls_receive(e.server, wire.data, wire.size, &e.to_server, &e.server_error);
            /* A longer length makes it wait for bytes that do not come. */
            assert_true(status == TFOS_CORRUPT || (status == TFOS_OK && e.to_server.size == 0));
        }
        tfos__buffer_reset(&wire);
        close_ends(&e);
    }
}

static void test_keys_are_random(void **state)
{
    (void)state;
    uint8_t one[TFOS__KEY_BYTES] = {0};
    uint8_t two[TFOS__KEY_BYTES] = {0};
    assert_int_equal(tfos__key_make(one, NULL), TFOS_OK);
    assert_int_equal(tfos__key_make(two, NULL), TFOS_OK);
    assert_memory_not_equal(one, two, sizeof one);
    assert_false(tfos__secret_equal(one, two, sizeof one));
    memcpy(two, one, sizeof one);
    assert_true(tfos__secret_equal(one, two, sizeof one));
    tfos__secret_wipe(two, sizeof two);
    assert_memory_equal(two, (uint8_t[TFOS__KEY_BYTES]){0}, sizeof two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_have_the_key),
        cmocka_unit_test(test_large_texts),
        cmocka_unit_test(test_another_key_is_refused),
        cmocka_unit_test(test_another_purpose_is_refused),
        cmocka_unit_test(test_plain_text_and_garbage_are_refused),
        cmocka_unit_test(test_tampering_is_noticed),
        cmocka_unit_test(test_keys_are_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
