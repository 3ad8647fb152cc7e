/* How a producer comes: it shows its ticket to the coordinator, waits until it is let in, and looks for the nodes that
 * it can feed. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/options.h"
#include "base/status.h"
#include "feed/feeder_state.h"
#include "feed/ledger.h"
#include "net/machine.h"

enum {
    CONNECT_MS = 30000,
    SEARCH_MS = 20000, /* for nodes elsewhere that answer, all together */
    FAR_MOST = 3,      /* nodes elsewhere that a task feeds, if there is none on its machine */
};

void tfos_feeder_close(tfos_feeder *feeder)
{
    if (feeder == NULL) {
        return;
    }
    if (feeder->ended) {
        tfos__feeder_tell_progress(feeder, true); /* for the last time: a program has ended the feed midway */
    }
    for (size_t i = 0; i < feeder->place_count; i++) {
        tfos__place_reset(&feeder->places[i]);
    }
    tfos__dial_close(feeder->coordinator);
    tfos__bell_free(feeder->bell);
    tfos__buffer_reset(&feeder->schema);
    tfos_schema_free(feeder->schema_now);
    free(feeder->expected);
    tfos__batch_queue_reset(&feeder->ready);
    tfos__secret_wipe(feeder->token, sizeof feeder->token);
    tfos__secret_wipe(feeder->key, sizeof feeder->key);
    free(feeder->places);
    free(feeder);
}

static tfos_status dial(tfos_feeder *feeder, const tfos__message *ticket, tfos_error *error)
{
    char host[256];
    tfos__text key = tfos__message_text(ticket, TFOS__FIELD_KEY);
    if (ticket->type != TFOS__MESSAGE_FEED_TICKET || key.count != TFOS__KEY_BYTES) {
        return tfos__fail(error, TFOS_INVALID, "this is no ticket for a feed");
    }
    memcpy(feeder->key, key.at, sizeof feeder->key);
    TFOS_TRY(tfos__key_derive((const uint8_t *)key.at, TFOS__FEED_TOKEN_PURPOSE, feeder->token, error));
    tfos__message_copy(ticket, TFOS__FIELD_HOST, host, sizeof host);
    tfos_status status =
        tfos__dial_open(host, (uint16_t)tfos__message_number(ticket, TFOS__FIELD_PORT), (const uint8_t *)key.at,
                        TFOS__LINK_PURPOSE, CONNECT_MS, &feeder->sink.patience, &feeder->coordinator, error);
    if (status == TFOS_IO) {
        tfos__error_prefix(error,
                           "the cluster does not answer; it has ended or failed, and its shutdown(), or the first "
                           "attempt of this task, says how");
    }
    return status;
}

static tfos_status ask_to_feed(tfos_feeder *feeder, const tfos_feeder_options *options, tfos_error *error)
{
    tfos__message message;
    char machine[64];
    tfos__machine_id(machine);
    tfos__message_init(&message, TFOS__MESSAGE_HELLO);
    tfos__message_put_string(&message, TFOS__FIELD_VERSION, TFOS_VERSION);
    TFOS_TRY(tfos__dial_send(feeder->coordinator, &message, error));
    tfos__message_init(&message, TFOS__MESSAGE_ADMIT);
    tfos__attempt_put(&feeder->attempt, &message);
    tfos__message_put_string(&message, TFOS__FIELD_MACHINE, machine);
    if (options->host != NULL) {
        tfos__message_put_text(&message, TFOS__FIELD_HOST, options->host, strnlen(options->host, 255));
    }
    return tfos__dial_send(feeder->coordinator, &message, error);
}

/* Waits for the ledger's decision: as long as another attempt feeds the partition. */
static tfos_status await_admission(tfos_feeder *feeder, tfos_error *error)
{
    tfos__message message;
    do {
        TFOS_TRY(tfos__dial_receive(feeder->coordinator, -1, &message, error));
        if (message.type == TFOS__MESSAGE_REFUSED) {
            return tfos__feeder_fail_as_told(feeder, &message, error);
        }
        if (message.type == TFOS__MESSAGE_FEED_OVER) {
            return TFOS_END;
        }
        if (message.type == TFOS__MESSAGE_DISMISSED) {
            bool failed = tfos__message_number(&message, TFOS__FIELD_ADMISSION) == TFOS__ADMISSION_FAILED;
            return failed ? tfos__feeder_fail_as_told(feeder, &message, error) : TFOS_END;
        }
    } while (message.type != TFOS__MESSAGE_GRANTED);
    feeder->granted = true;
    feeder->fed = tfos__message_number(&message, TFOS__FIELD_FED_BEFORE);
    feeder->flags = tfos__message_number(&message, TFOS__FIELD_FEED_FLAGS);
    feeder->sink.inference = (feeder->flags & TFOS__FEED_INFERENCE) != 0;
    feeder->held_back = (feeder->flags & TFOS__FEED_HELD_BACK) != 0;
    feeder->timeout_ms = (int64_t)tfos__message_number(&message, TFOS__FIELD_FEED_TIMEOUT_MS);
    tfos__message_copy(&message, TFOS__FIELD_QUEUE, feeder->queue, sizeof feeder->queue);
    return tfos__feeder_find_places(feeder, tfos__message_text(&message, TFOS__FIELD_PLACES), error);
}

/* No node is on this machine: some elsewhere are fed over the network, not the same by every task. */
static tfos_status look_far(tfos_feeder *feeder, const char *host, tfos_error *error)
{
    size_t found = 0;
    int64_t deadline = tfos__clock_ms() + SEARCH_MS;
    tfos_error why = {.message = "there is none"};
    for (size_t i = 0; i < feeder->place_count && found < FAR_MOST && tfos__clock_ms() < deadline; i++) {
        tfos__place *place = &feeder->places[(feeder->place_first + i) % feeder->place_count];
        tfos_status status = tfos__place_connect_far(feeder, place, deadline, &why);
        if (status == TFOS_CANCELLED) {
            return tfos__fail(error, TFOS_CANCELLED, "%s", why.message);
        }
        found += status == TFOS_OK ? 1 : 0;
    }
    if (found > 0) {
        return TFOS_OK;
    }
    /* They may have come to their end since this task was let in. */
    TFOS_TRY(tfos__feeder_await_word(feeder, TFOS__FEEDER_GOING_MS, error));
    return tfos__fail(error, TFOS_IO,
                      "none of the %zu nodes of this feed is on the machine of this task (%s), and none answers "
                      "elsewhere: %s",
                      feeder->place_count, host != NULL ? host : "unknown", why.message);
}

/* The driver's settings, which are in the ticket; the environment of the task comes after them. */
static tfos_status read_settings(tfos_feeder *feeder, const tfos__message *ticket, tfos_error *error)
{
    enum { SETTINGS_MOST = 1024 };
    const char *given[SETTINGS_MOST + 1] = {NULL};
    size_t count = 0;
    char *list = tfos__message_duplicate(ticket, TFOS__FIELD_SETTINGS);
    size_t bytes = tfos__message_text(ticket, TFOS__FIELD_SETTINGS).count;
    if (list == NULL) {
        return tfos__fail_memory(error, bytes);
    }
    for (size_t at = 0; at < bytes && count < SETTINGS_MOST; at += strlen(list + at) + 1) {
        given[count++] = list + at;
    }
    tfos_status status = tfos__setting_number(TFOS__SETTING_FEED_BATCH_BYTES, given, &feeder->batch_bytes, error);
    if (status == TFOS_OK) {
        status = tfos__setting_number(TFOS__SETTING_FEED_LOCAL, given, &feeder->local_most, error);
    }
    if (status == TFOS_OK) {
        status = tfos__setting_number(TFOS__SETTING_FEED_LANE_BYTES, given, &feeder->lane_bytes, error);
    }
    feeder->lane_bytes = (int64_t)tfos__lane_round((size_t)feeder->lane_bytes);
    free(list);
    return status;
}

static tfos_status open_feeder(tfos_feeder *feeder, const tfos_feeder_options *options, tfos_error *error)
{
    tfos__message ticket;
    feeder->sink = (tfos__sink){.functions = &tfos__feeder_functions,
                                .patience = {options->interrupted, options->interrupted_context},
                                .partition = options->partition};
    TFOS_TRY(tfos__message_decode(options->ticket, options->ticket_bytes, &ticket, error));
    feeder->attempt = (tfos__attempt){.feed = tfos__message_number(&ticket, TFOS__FIELD_FEED),
                                      .epoch = tfos__message_number(&ticket, TFOS__FIELD_EPOCH),
                                      .partition = options->partition,
                                      .task = options->attempt};
    TFOS_TRY(read_settings(feeder, &ticket, error));
    TFOS_TRY(tfos__bell_new(&feeder->bell, error));
    TFOS_TRY(dial(feeder, &ticket, error));
    TFOS_TRY(ask_to_feed(feeder, options, error));
    TFOS_TRY(await_admission(feeder, error));
    feeder->place_first = feeder->place_count > 0 ? (size_t)(feeder->attempt.partition % feeder->place_count) : 0;
    for (size_t i = 0; i < feeder->place_count; i++) {
        if (feeder->places[i].socket >= 0) {
            return TFOS_OK;
        }
    }
    return look_far(feeder, options->host, error);
}

static const tfos_feeder_options defaults;

void tfos_feeder_options_init(tfos_feeder_options *options, size_t size)
{
    tfos__options_init(options, size, &defaults, sizeof defaults);
}

tfos_status tfos_feeder_open(const tfos_feeder_options *options, tfos_feeder **out, tfos_error *error)
{
    tfos_feeder_options taken;
    TFOS_TRY(tfos__options_take("tfos_feeder_options", options, &defaults, &taken, sizeof taken, error));
    options = &taken;
    tfos_feeder *feeder = calloc(1, sizeof *feeder);
    if (feeder == NULL) {
        return tfos__fail_memory(error, sizeof *feeder);
    }
    tfos_error mine;
    tfos_error *why = error != NULL ? error : &mine;
    tfos_status status = open_feeder(feeder, options, why);
    if (status != TFOS_OK) {
        if (status != TFOS_END && feeder->granted) {
            tfos_feeder_give_up(feeder, why);
        }
        tfos_feeder_close(feeder);
        return status;
    }
    *out = feeder;
    return TFOS_OK;
}
