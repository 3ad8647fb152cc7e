/* A task that is let in by a coordinator that is played, while the nodes are going away. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"
#include "feed/ledger.h"
#include "net/dial.h"
#include "net/frame.h"
#include "net/listen.h"

enum { FEW_MS = 20000, MOMENT_MS = 300 };

static const uint8_t key[TFOS__KEY_BYTES] = "a key that everybody knows";

typedef struct coordinator {
    int listener;
    uint16_t port;
    uint16_t nobody; /* a port where nobody listens */
    tfos__message_type word;
    tfos_status status; /* how it went */
} coordinator;

/* Lets the task in, to feed a node that has gone, and a moment later says `word`. */
static tfos_status play(coordinator *self, tfos__dial *dial)
{
    tfos__message message;
    tfos__buffer places = {0};
    tfos_error why;
    TFOS_TRY(tfos__dial_receive(dial, FEW_MS, &message, NULL));
    TFOS_TRY(tfos__dial_receive(dial, FEW_MS, &message, NULL));
    tfos__message_init(&message, TFOS__MESSAGE_PLACE);
    tfos__message_put_number(&message, TFOS__FIELD_INDEX, 0);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, "127.0.0.1");
    tfos__message_put_string(&message, TFOS__FIELD_FEED_NAME, "tfos-feed-of-nobody");
    tfos__message_put_number(&message, TFOS__FIELD_FEED_PORT, self->nobody);
    tfos__message_put_number(&message, TFOS__FIELD_HUNGRY, 1);
    TFOS_TRY(tfos__frame_append(&message, &places, NULL));
    tfos__message_init(&message, TFOS__MESSAGE_GRANTED);
    tfos__message_put_number(&message, TFOS__FIELD_FED_BEFORE, 0);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUE, "input");
    tfos__message_put_number(&message, TFOS__FIELD_FEED_FLAGS, TFOS__FEED_DETERMINATE);
    tfos__message_put_number(&message, TFOS__FIELD_FEED_TIMEOUT_MS, FEW_MS);
    tfos__message_put_text(&message, TFOS__FIELD_PLACES, (const char *)places.data, places.size);
    tfos_status status = tfos__dial_send(dial, &message, NULL);
    tfos__buffer_reset(&places);
    TFOS_TRY(status);
    usleep(MOMENT_MS * 1000);
    tfos__message_init(&message, self->word);
    if (self->word == TFOS__MESSAGE_FEED_OVER) {
        tfos__message_put_number(&message, TFOS__FIELD_TERMINATED, 1);
    } else {
        tfos__fail(&why, TFOS_CANCELLED, "the cluster has failed, says the test");
        tfos__message_put_number(&message, TFOS__FIELD_ADMISSION, TFOS__ADMISSION_FAILED);
        tfos__message_put_error(&message, &why);
    }
    TFOS_TRY(tfos__dial_send(dial, &message, NULL));
    return tfos__dial_receive(dial, FEW_MS, &message, NULL) == TFOS_IO ? TFOS_OK
                                                                       : TFOS_MISMATCH; /* until it has gone */
}

static void *answer(void *context)
{
    coordinator *self = context;
    tfos__tls_context *secrets = NULL;
    tfos__tls *tls = NULL;
    tfos__dial *dial = NULL;
    int socket = -1;
    while (socket < 0) {
        socket = accept4(self->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    }
    self->status = tfos__tls_context_new(TFOS__TLS_SERVER, key, TFOS__LINK_PURPOSE, &secrets, NULL);
    self->status = self->status == TFOS_OK ? tfos__tls_new(secrets, &tls, NULL) : self->status;
    if (self->status == TFOS_OK) {
        tfos__buffer nothing = {0};
        self->status = tfos__dial_adopt(socket, tls, &nothing, "a task", NULL, &dial, NULL);
    }
    self->status = self->status == TFOS_OK ? play(self, dial) : self->status;
    tfos__dial_close(dial);
    tfos__tls_context_free(secrets);
    return NULL;
}

static uint16_t listen_anywhere(int *out)
{
    uint16_t port;
    assert_int_equal(tfos__listen("127.0.0.1", &(tfos__ports){0}, out, &port, NULL), TFOS_OK);
    return port;
}

static void make_ticket(const coordinator *self, tfos__buffer *out)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FEED_TICKET);
    tfos__message_put_text(&message, TFOS__FIELD_KEY, (const char *)key, sizeof key);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, "127.0.0.1");
    tfos__message_put_number(&message, TFOS__FIELD_PORT, self->port);
    tfos__message_put_number(&message, TFOS__FIELD_FEED, 1);
    tfos__message_put_number(&message, TFOS__FIELD_EPOCH, 0);
    assert_int_equal(tfos__message_encode(&message, out, NULL), TFOS_OK);
}

static tfos_status open_feeder(tfos__message_type word, tfos_error *error)
{
    coordinator self = {.word = word};
    pthread_t thread;
    tfos__buffer ticket = {0};
    tfos_feeder *feeder = NULL;
    tfos_feeder_options options;
    int taken;
    self.port = listen_anywhere(&self.listener);
    self.nobody = listen_anywhere(&taken);
    close(taken);
    assert_int_equal(pthread_create(&thread, NULL, answer, &self), 0);
    make_ticket(&self, &ticket);
    tfos_feeder_options_init(&options, sizeof options);
    options.ticket = ticket.data;
    options.ticket_bytes = ticket.size;
    tfos_status status = tfos_feeder_open(&options, &feeder, error);
    assert_null(feeder);
    pthread_join(thread, NULL);
    assert_int_equal(self.status, TFOS_OK);
    close(self.listener);
    tfos__buffer_reset(&ticket);
    return status;
}

/* The programs have what they want, and end: nothing is wrong with a task that comes a moment too late. */
static void test_the_feed_ends_meanwhile(void **state)
{
    (void)state;
    tfos_error error;
    assert_int_equal(open_feeder(TFOS__MESSAGE_FEED_OVER, &error), TFOS_END);
}

/* The cluster fails: that is the cause, and not that nobody answers. */
static void test_the_feed_fails_meanwhile(void **state)
{
    (void)state;
    tfos_error error;
    assert_int_equal(open_feeder(TFOS__MESSAGE_DISMISSED, &error), TFOS_CANCELLED);
    assert_non_null(strstr(error.message, "the cluster has failed, says the test"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_feed_ends_meanwhile),
        cmocka_unit_test(test_the_feed_fails_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
