/* The other side of a consumer. */
#include "helper_feed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"

void helper_feed_open(helper_feed *feed)
{
    int pair[2];
    tfos__packet packet;
    *feed = (helper_feed){0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(tfos__bell_new(&feed->bell, NULL), TFOS_OK);
    feed->node = pair[0];
    tfos__packet_init(&packet, TFOS__PACKET_BELL);
    int fd = tfos__bell_fd(feed->bell);
    assert_int_equal(tfos__packet_send(feed->node, &packet, &fd, 1, NULL), TFOS_OK);
    assert_int_equal(tfos__intake_new(pair[1], &feed->intake, NULL), TFOS_OK);
}

void helper_feed_close(helper_feed *feed)
{
    tfos__intake_free(feed->intake);
    tfos__bell_free(feed->bell);
    if (feed->node >= 0) {
        close(feed->node);
    }
}

tfos_feed *helper_feed_queue(helper_feed *feed, const char *queue)
{
    tfos_feed *opened = NULL;
    assert_int_equal(tfos__feed_new(feed->intake, queue, &opened, NULL), TFOS_OK);
    return opened;
}

void helper_feed_hear(helper_feed *feed)
{
    tfos__packet packet;
    int fds[TFOS__PACKET_FDS_MOST];
    while (tfos__packet_receive(feed->node, &packet, fds, NULL) == TFOS_OK) {
        assert_int_equal(fds[0], -1);
        if (packet.kind == TFOS__PACKET_DONE) {
            feed->done++;
            feed->done_last = packet.id.number;
        } else if (packet.kind == TFOS__PACKET_TERMINATE) {
            feed->terminated++;
        } else if (packet.kind == TFOS__PACKET_QUEUE) {
            size_t used = strlen(feed->announced);
            snprintf(feed->announced + used, sizeof feed->announced - used, "%s,", packet.queue);
        } else {
            fail_msg("the consumer sent a packet of the kind %u", packet.kind);
        }
    }
}

void helper_feed_say(helper_feed *feed, tfos__packet_kind kind, const char *queue, uint32_t flags)
{
    tfos__packet packet;
    tfos__packet_init(&packet, kind);
    packet.flags = flags;
    snprintf(packet.queue, sizeof packet.queue, "%s", queue);
    assert_int_equal(tfos__packet_send(feed->node, &packet, NULL, 0, NULL), TFOS_OK);
    tfos__bell_ring(feed->bell);
}

void helper_feed_say_schema(helper_feed *feed, const char *queue, const tfos_schema *schema)
{
    tfos__packet packet;
    tfos__buffer entry = {0};
    int fd = memfd_create("schema", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(tfos__entry_append_schema(schema, &entry, NULL), TFOS_OK);
    assert_int_equal(write(fd, entry.data, entry.size), entry.size);
    tfos__packet_init(&packet, TFOS__PACKET_SCHEMA);
    snprintf(packet.queue, sizeof packet.queue, "%s", queue);
    assert_int_equal(tfos__packet_send(feed->node, &packet, &fd, 1, NULL), TFOS_OK);
    tfos__bell_ring(feed->bell);
    close(fd);
    tfos__buffer_reset(&entry);
}

void helper_lane_open(helper_lane *lane, helper_feed *feed, const char *queue, uint64_t partition, bool inference)
{
    tfos__packet packet;
    *lane = (helper_lane){0};
    tfos__packet_init(&packet, TFOS__PACKET_LANE);
    packet.id =
        (tfos__lane_id){.number = ++feed->lane_number, .attempt = {.feed = 1, .partition = partition, .task = 7}};
    packet.flags = inference ? TFOS__PACKET_INFERENCE : 0;
    snprintf(packet.queue, sizeof packet.queue, "%s", queue);
    assert_int_equal(tfos__lane_new(0, &packet.id, &lane->lane, NULL), TFOS_OK);
    assert_int_equal(tfos__bell_new(&lane->bell, NULL), TFOS_OK);
    if (inference) {
        assert_int_equal(tfos__lane_new(0, &packet.id, &lane->results, NULL), TFOS_OK);
    }
    const int fds[] = {tfos__lane_fd(lane->lane), tfos__bell_fd(lane->bell),
                       inference ? tfos__lane_fd(lane->results) : -1};
    assert_int_equal(tfos__packet_send(feed->node, &packet, fds, inference ? 3 : 2, NULL), TFOS_OK);
    tfos__bell_ring(feed->bell);
}

/* Waits for room. False when the lane is given up. */
static bool reserve(helper_lane *lane, size_t bytes, uint8_t **out)
{
    for (;;) {
        uint32_t seen = tfos__bell_read(lane->bell);
        tfos_status status = tfos__lane_reserve(lane->lane, bytes, out, NULL);
        if (status != TFOS_END) {
            assert_true(status == TFOS_OK || status == TFOS_CANCELLED);
            return status == TFOS_OK;
        }
        tfos__bell_wait(lane->bell, seen, 100);
    }
}

void helper_lane_put_schema(helper_lane *lane, helper_feed *feed, const tfos_schema *schema)
{
    tfos__buffer entry = {0};
    uint8_t *to;
    assert_int_equal(tfos__entry_append_schema(schema, &entry, NULL), TFOS_OK);
    if (reserve(lane, entry.size, &to)) {
        memcpy(to, entry.data, entry.size);
        assert_int_equal(tfos__lane_commit(lane->lane, entry.size, 0, 0, NULL), TFOS_OK);
        tfos__bell_ring(feed->bell);
    }
    tfos__buffer_reset(&entry);
}

bool helper_lane_put_batch(helper_lane *lane, helper_feed *feed, const tfos_batch *batch)
{
    uint8_t *to;
    int64_t rows = tfos_batch_rows(batch);
    size_t bytes = tfos__entry_batch_bytes(batch, 0, rows);
    if (!reserve(lane, bytes, &to)) {
        return false;
    }
    tfos__entry_write_batch(batch, 0, rows, lane->row, to);
    lane->row += (uint64_t)rows;
    assert_int_equal(tfos__lane_commit(lane->lane, bytes, (uint64_t)rows, lane->row, NULL), TFOS_OK);
    tfos__bell_ring(feed->bell);
    return true;
}

void helper_lane_end(helper_lane *lane, helper_feed *feed)
{
    uint8_t *to;
    if (lane->results != NULL && reserve(lane, TFOS__ENTRY_HEADER_BYTES, &to)) {
        tfos__entry_write_partition(lane->row, to);
        assert_int_equal(tfos__lane_commit(lane->lane, TFOS__ENTRY_HEADER_BYTES, 0, 0, NULL), TFOS_OK);
    }
    tfos__lane_close_head(lane->lane);
    tfos__bell_ring(feed->bell);
}

void helper_lane_close(helper_lane *lane)
{
    tfos__lane_free(lane->lane);
    tfos__lane_free(lane->results);
    tfos__bell_free(lane->bell);
}

tfos_schema *helper_number_schema(void)
{
    tfos_schema *schema = NULL;
    const tfos_field field = {.name = "n", .type = TFOS_TYPE_INT64};
    assert_int_equal(tfos_schema_new(TFOS_RECORD_EXAMPLE, &schema, NULL), TFOS_OK);
    assert_int_equal(tfos_schema_add(schema, &field, NULL), TFOS_OK);
    return schema;
}

tfos_batch *helper_numbers(const tfos_schema *schema, int64_t first, int64_t rows)
{
    tfos_batch *batch = NULL;
    assert_int_equal(tfos__batch_new(schema, &batch, NULL), TFOS_OK);
    for (int64_t i = 0; i < rows; i++) {
        assert_int_equal(tfos__vector_push_int(tfos__batch_vector(batch, 0), first + i, NULL), TFOS_OK);
    }
    assert_int_equal(tfos__batch_finish(batch, rows, NULL), TFOS_OK);
    return batch;
}

void helper_lane_put_numbers(helper_lane *lane, helper_feed *feed, int64_t first, int64_t rows)
{
    tfos_schema *schema = helper_number_schema();
    tfos_batch *batch = helper_numbers(schema, first, rows);
    if (lane->row == 0) {
        helper_lane_put_schema(lane, feed, schema);
    }
    assert_true(helper_lane_put_batch(lane, feed, batch));
    tfos_batch_free(batch);
    tfos_schema_free(schema);
}

const char *helper_show_numbers(const tfos_batch *batch)
{
    static char text[4096];
    size_t used = 0;
    const int64_t *numbers = tfos_batch_column(batch, 0)->data;
    text[0] = '\0';
    for (int64_t i = 0; i < tfos_batch_rows(batch) && used < sizeof text; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, i == 0 ? "%lld" : " %lld", (long long)numbers[i]);
    }
    return text;
}

tfos_schema *helper_schema_with(const char *name, tfos_type type, tfos_shape shape, int32_t length)
{
    tfos_schema *schema = NULL;
    const tfos_field field = {.name = name, .type = type, .shape = shape, .length = length};
    assert_int_equal(tfos_schema_new(TFOS_RECORD_EXAMPLE, &schema, NULL), TFOS_OK);
    assert_int_equal(tfos_schema_add(schema, &field, NULL), TFOS_OK);
    return schema;
}

tfos_feed_want helper_want_rows(int64_t rows)
{
    tfos_feed_want want;
    tfos_feed_want_init(&want, sizeof want);
    want.rows = rows;
    want.timeout_ms = 10000;
    return want;
}

tfos_feed_want helper_want_within(int64_t rows, int64_t timeout_ms)
{
    tfos_feed_want want = helper_want_rows(rows);
    want.timeout_ms = timeout_ms;
    return want;
}

void helper_expect_numbers(tfos_feed *feed, const tfos_feed_want *want, const char *numbers)
{
    tfos_batch *batch = NULL;
    tfos_error error = {0};
    tfos_status status = tfos_feed_next(feed, want, &batch, &error);
    if (status != TFOS_OK) {
        fail_msg("expected %s, found the status %d: %s", numbers, status, error.message);
    }
    assert_string_equal(helper_show_numbers(batch), numbers);
    tfos_batch_free(batch);
}

void helper_expect_status(tfos_feed *feed, const tfos_feed_want *want, tfos_status status, const char *text)
{
    tfos_batch *batch = NULL;
    tfos_error error = {0};
    tfos_status found = tfos_feed_next(feed, want, &batch, &error);
    if (found == TFOS_OK) {
        fail_msg("expected the status %d, found rows: %s", status, helper_show_numbers(batch));
    }
    assert_int_equal(found, status);
    if (text != NULL && strstr(error.message, text) == NULL) {
        fail_msg("expected \"%s\" in: %s", text, error.message);
    }
}
