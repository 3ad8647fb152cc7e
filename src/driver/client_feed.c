/* What a driver says about feeds, and the tickets for the tasks that feed. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/options.h"
#include "base/status.h"
#include "base/tls.h"
#include "driver/client.h"

/* Numbers of feeds are never used twice in a process, whichever cluster they are for. */
static atomic_uint_fast64_t last_feed;

static const tfos_feed_options defaults = {.queue = "input", .timeout_ms = 600000};

void tfos_feed_options_init(tfos_feed_options *options, size_t size)
{
    tfos__options_init(options, size, &defaults, sizeof defaults);
}

tfos_status tfos__feed_options_take(const tfos_feed_options *options, tfos_feed_options *out, tfos_error *error)
{
    TFOS_TRY(tfos__options_take("tfos_feed_options", options, &defaults, out, sizeof *out, error));
    out->queue = out->queue != NULL ? out->queue : defaults.queue;
    size_t bytes = strlen(out->queue);
    if (bytes == 0 || bytes > 63 || strchr(out->queue, ',') != NULL) {
        return tfos__fail(error, TFOS_INVALID, "the name of a queue has 1 to 63 bytes and no comma, found '%s'",
                          tfos__printable_of(out->queue, bytes).text);
    }
    if (out->partitions < 0) {
        return tfos__fail(error, TFOS_INVALID, "a feed cannot have %lld partitions", (long long)out->partitions);
    }
    return TFOS_OK;
}

tfos_status tfos__cluster_open_feed_as(tfos_cluster *cluster, const tfos_feed_options *options, uint64_t feed,
                                       tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FEED);
    tfos__message_put_number(&message, TFOS__FIELD_FEED, feed);
    tfos__message_put_string(&message, TFOS__FIELD_QUEUE, options->queue);
    tfos__message_put_number(&message, TFOS__FIELD_PARTITIONS, (uint64_t)options->partitions);
    tfos__message_put_number(&message, TFOS__FIELD_FEED_TIMEOUT_MS, (uint64_t)tfos__max_i64(0, options->timeout_ms));
    tfos__message_put_number(&message, TFOS__FIELD_FEED_FLAGS,
                             (options->inference ? TFOS__FEED_INFERENCE : 0u) |
                                 (options->determinate ? TFOS__FEED_DETERMINATE : 0u) |
                                 (options->again ? TFOS__FEED_AGAIN : 0u));
    return tfos__cluster_send(cluster, &message, error);
}

tfos_status tfos_cluster_open_feed(tfos_cluster *cluster, const tfos_feed_options *options, uint64_t *feed,
                                   tfos_error *error)
{
    tfos_feed_options taken;
    TFOS_TRY(tfos__feed_options_take(options, &taken, error));
    uint64_t number = atomic_fetch_add(&last_feed, 1) + 1;
    TFOS_TRY(tfos__cluster_open_feed_as(cluster, &taken, number, error));
    *feed = number;
    return TFOS_OK;
}

static tfos_status send_epoch(tfos_cluster *cluster, tfos__message_type type, uint64_t feed, uint64_t epoch,
                              tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, type);
    tfos__message_put_number(&message, TFOS__FIELD_FEED, feed);
    tfos__message_put_number(&message, TFOS__FIELD_EPOCH, epoch);
    return tfos__cluster_send(cluster, &message, error);
}

tfos_status tfos_cluster_begin_epoch(tfos_cluster *cluster, uint64_t feed, uint64_t epoch, tfos_error *error)
{
    return send_epoch(cluster, TFOS__MESSAGE_EPOCH, feed, epoch, error);
}

tfos_status tfos_cluster_end_epoch(tfos_cluster *cluster, uint64_t feed, uint64_t epoch, tfos_error *error)
{
    return send_epoch(cluster, TFOS__MESSAGE_EPOCH_END, feed, epoch, error);
}

tfos_status tfos_cluster_close_feed(tfos_cluster *cluster, uint64_t feed, tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FEED_CLOSE);
    tfos__message_put_number(&message, TFOS__FIELD_FEED, feed);
    return tfos__cluster_send(cluster, &message, error);
}

tfos_status tfos_cluster_end_feeds(tfos_cluster *cluster, tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_END_OF_FEED);
    return tfos__cluster_send(cluster, &message, error);
}

tfos_status tfos_cluster_feed_ticket(tfos_cluster *cluster, uint64_t feed, uint64_t epoch, uint8_t **bytes,
                                     size_t *count, tfos_error *error)
{
    tfos__message start;
    tfos__message ticket;
    tfos__buffer made = {0};
    const uint8_t *at;
    size_t start_bytes;
    tfos_cluster_ticket(cluster, &at, &start_bytes);
    TFOS_TRY(tfos__message_decode(at, start_bytes, &start, error));
    tfos__text key = tfos__message_text(&start, TFOS__FIELD_KEY);
    tfos__text host = tfos__message_text(&start, TFOS__FIELD_HOST);
    tfos__message_init(&ticket, TFOS__MESSAGE_FEED_TICKET);
    tfos__message_put_text(&ticket, TFOS__FIELD_KEY, key.at, key.count);
    tfos__message_put_text(&ticket, TFOS__FIELD_HOST, host.at, host.count);
    tfos__message_put_number(&ticket, TFOS__FIELD_PORT, tfos__message_number(&start, TFOS__FIELD_PORT));
    tfos__message_put_number(&ticket, TFOS__FIELD_FEED, feed);
    tfos__message_put_number(&ticket, TFOS__FIELD_EPOCH, epoch);
    tfos__text settings = tfos__message_text(&start, TFOS__FIELD_SETTINGS);
    tfos__message_put_text(&ticket, TFOS__FIELD_SETTINGS, settings.at, settings.count);
    tfos_status status = tfos__message_encode(&ticket, &made, error);
    if (status == TFOS_OK) {
        *count = made.size;
        *bytes = malloc(*count);
        status = *bytes != NULL ? TFOS_OK : tfos__fail_memory(error, *count);
    }
    if (status == TFOS_OK) {
        memcpy(*bytes, made.data, *count);
    }
    tfos__secret_wipe(made.data, made.size);
    tfos__buffer_reset(&made);
    return status;
}
