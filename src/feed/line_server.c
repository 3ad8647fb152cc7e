/* A line, the server's end: rows come out of the lane as batches of the size that the server wants, and results go
 * back. One thread serves one line: it sleeps at the line's bell, and looks at the socket now and then. */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "column/schema.h"
#include "feed/lane_rows.h"
#include "feed/line.h"
#include "feed/packet.h"
#include "net/local.h"

enum {
    HELLO_MS = 10000, /* for a task to say who it is */
    WAIT_MS = 100,    /* between two looks at the socket */
    POOL_BATCHES = 4,
    ORDER_BYTES = 16 << 20,
};

struct tfos__line {
    int socket;
    tfos__bell *bell;
    tfos__bell *task;
    tfos__lane *lane;
    tfos__lane *results;
    tfos__lane_reader reader;
    tfos__lane_writer writer;
    tfos__buffer order;
    bool ended; /* the last row was taken */
    bool gone;  /* the task has closed its end; what it left in the lane counts */
    tfos__batch_pool *pool;
    tfos_schema *pool_schema;
};

void tfos__line_close(tfos__line *line)
{
    if (line == NULL) {
        return;
    }
    if (line->results != NULL) {
        tfos__lane_close_head(line->results);
        tfos__lane_close_tail(line->lane);
        tfos__bell_ring(line->task);
    }
    close(line->socket);
    tfos__lane_reader_reset(&line->reader);
    tfos__lane_writer_reset(&line->writer);
    tfos__batch_pool_free(line->pool);
    tfos_schema_free(line->pool_schema);
    tfos__lane_free(line->lane);
    tfos__lane_free(line->results);
    tfos__bell_free(line->task);
    tfos__bell_free(line->bell);
    tfos__buffer_reset(&line->order);
    free(line);
}

static tfos_status fail_gone(tfos_error *error)
{
    return tfos__fail(error, TFOS_CANCELLED, "the task is gone");
}

/* Sleeps until something may have happened. CANCELLED: the task is gone. A task may leave as soon as it has put its
 * last word into the lane, so whoever finds that it has left looks there once more before that counts. */
static tfos_status wait_for_task(tfos__line *line, uint32_t seen, tfos_error *error)
{
    tfos__packet packet;
    int fds[TFOS__PACKET_FDS_MOST];
    if (line->gone) {
        return fail_gone(error);
    }
    tfos__bell_wait(line->bell, seen, WAIT_MS);
    tfos_status status = tfos__packet_receive(line->socket, &packet, fds, NULL);
    if (status != TFOS_END) {
        tfos__packet_close_fds(fds); /* a task says nothing more, so it is gone, or is none */
        line->gone = true;
    }
    return TFOS_OK;
}

static void ring_if_released(tfos__line *line)
{
    if (line->reader.released) {
        line->reader.released = false;
        tfos__bell_ring(line->task);
    }
}

/* ---- opening ---- */

static tfos_status refuse(tfos__line *line, const char *why, tfos_error *error)
{
    tfos__packet packet;
    tfos__packet_init(&packet, TFOS__PACKET_REFUSED);
    strncpy(packet.text, why, sizeof packet.text - 1);
    (void)tfos__packet_send(line->socket, &packet, NULL, 0, NULL);
    return tfos__fail(error, TFOS_PERMISSION, "%s", why);
}

static tfos_status hear_hello(tfos__line *line, const uint8_t token[TFOS__KEY_BYTES], tfos_error *error)
{
    tfos__packet packet;
    int fds[TFOS__PACKET_FDS_MOST];
    struct pollfd wait = {.fd = line->socket, .events = POLLIN};
    if (!tfos__local_is_own(line->socket)) {
        return refuse(line, "it belongs to another user", error);
    }
    (void)poll(&wait, 1, HELLO_MS);
    tfos_status status = tfos__packet_receive(line->socket, &packet, fds, error);
    if (status == TFOS_END) {
        return refuse(line, "it did not say who it is", error);
    }
    TFOS_TRY(status);
    int bell = fds[0];
    fds[0] = -1;
    tfos__packet_close_fds(fds);
    if (packet.kind != TFOS__PACKET_HELLO || !tfos__secret_equal(packet.token, token, TFOS__KEY_BYTES)) {
        close(bell);
        return refuse(line, "it does not belong to this application", error);
    }
    return tfos__bell_adopt(bell, &line->task, error);
}

static tfos_status give_lanes(tfos__line *line, size_t lane_bytes, tfos_error *error)
{
    const tfos__lane_id id = {0};
    tfos__packet packet;
    TFOS_TRY(tfos__bell_new(&line->bell, error));
    TFOS_TRY(tfos__lane_new(lane_bytes, &id, &line->lane, error));
    TFOS_TRY(tfos__lane_new(lane_bytes, &id, &line->results, error));
    const int fds[] = {tfos__lane_fd(line->lane), tfos__lane_fd(line->results), tfos__bell_fd(line->bell)};
    tfos__packet_init(&packet, TFOS__PACKET_LANE);
    tfos_status status = tfos__packet_send_within(line->socket, HELLO_MS, &packet, fds, 3, error);
    return status == TFOS_END ? fail_gone(error) : status;
}

static tfos_status take_order(tfos__line *line, tfos_error *error)
{
    if (line->reader.entry.kind != TFOS__ENTRY_TEXT || line->reader.entry.bytes > ORDER_BYTES) {
        return tfos__fail(error, TFOS_CORRUPT, "a task said nothing of what it wants");
    }
    TFOS_TRY(tfos__entry_read_text(line->reader.bytes, &line->reader.entry, &line->order, error));
    TFOS_TRY(tfos__buffer_append(&line->order, "", 1, error));
    tfos__lane_reader_end(&line->reader);
    ring_if_released(line);
    return TFOS_OK;
}

static tfos_status hear_order(tfos__line *line, tfos_error *error)
{
    for (int64_t deadline = tfos__clock_ms() + HELLO_MS; tfos__clock_ms() < deadline;) {
        bool over;
        uint32_t seen = tfos__bell_read(line->bell);
        tfos_status status = tfos__lane_reader_begin(&line->reader, &over, error);
        if (status != TFOS_END) {
            return status == TFOS_OK ? take_order(line, error) : status;
        }
        TFOS_TRY(wait_for_task(line, seen, error));
    }
    return tfos__fail(error, TFOS_IO, "a task did not say what it wants");
}

static tfos_status accept_task(tfos__line *line, const uint8_t token[TFOS__KEY_BYTES], size_t lane_bytes,
                               tfos_error *error)
{
    TFOS_TRY(hear_hello(line, token, error));
    TFOS_TRY(give_lanes(line, lane_bytes, error));
    line->reader.lane = line->lane;
    line->writer = (tfos__lane_writer){.lane = line->results, .reader = line->task};
    return hear_order(line, error);
}

tfos_status tfos__line_accept(int socket, const uint8_t token[TFOS__KEY_BYTES], size_t lane_bytes, tfos__line **out,
                              tfos_error *error)
{
    tfos__line *line = calloc(1, sizeof *line);
    if (line == NULL) {
        close(socket);
        return tfos__fail_memory(error, sizeof *line);
    }
    line->socket = socket;
    tfos_status status = accept_task(line, token, lane_bytes, error);
    if (status != TFOS_OK) {
        tfos__line_close(line);
        return status;
    }
    *out = line;
    return TFOS_OK;
}

const char *tfos__line_order(const tfos__line *line)
{
    return (const char *)line->order.data;
}

/* ---- rows ---- */

/* An empty batch of the schema of the rows that come. */
static tfos_status begin_batch(tfos__line *line, tfos_batch **out, tfos_error *error)
{
    const tfos_schema *schema = line->reader.schema;
    if (line->pool == NULL || !tfos_schema_equal(line->pool_schema, schema)) {
        tfos__batch_pool *pool;
        TFOS_TRY(tfos__batch_pool_new(schema, POOL_BATCHES, &pool, error));
        tfos__batch_pool_free(line->pool);
        tfos_schema_free(line->pool_schema);
        line->pool = pool;
        line->pool_schema = tfos__schema_retain(schema);
    }
    return tfos__batch_take(line->pool, out, error);
}

/* Adds rows of the entry that is being read. END: they are of another schema than those before. */
static tfos_status add_rows(tfos__line *line, int64_t most, tfos_batch **batch, int64_t *count, tfos_error *error)
{
    if (*batch == NULL) {
        TFOS_TRY(begin_batch(line, batch, error));
    } else if (!tfos_schema_equal(line->pool_schema, line->reader.schema)) {
        return TFOS_END;
    }
    int64_t rows = tfos__min_i64((int64_t)line->reader.entry.rows - line->reader.row, most - *count);
    TFOS_TRY(tfos__lane_reader_take(&line->reader, rows, *batch, error));
    tfos__lane_take_rows(line->lane, (uint64_t)rows);
    *count += rows;
    return TFOS_OK;
}

/* Reads one entry, or waits for it. END: the batch is to be handed out as it is. */
static tfos_status read_some(tfos__line *line, int64_t most, tfos_batch **batch, int64_t *count, tfos_error *error)
{
    bool over;
    uint32_t seen = tfos__bell_read(line->bell);
    tfos_status status = tfos__lane_reader_begin(&line->reader, &over, error);
    if (status == TFOS_END) {
        return over ? fail_gone(error) : wait_for_task(line, seen, error);
    }
    TFOS_TRY(status);
    if (line->reader.entry.kind == TFOS__ENTRY_BATCH) {
        status = add_rows(line, most, batch, count, error);
    } else if (line->reader.entry.kind == TFOS__ENTRY_PARTITION) {
        tfos__lane_reader_end(&line->reader);
        line->ended = true;
        status = TFOS_END;
    } else {
        status = tfos__fail(error, TFOS_CORRUPT, "what a task sends makes no sense");
    }
    ring_if_released(line);
    return status;
}

tfos_status tfos__line_next(tfos__line *line, int64_t rows, tfos_batch **out, tfos_error *error)
{
    tfos_batch *batch = NULL;
    int64_t count = 0;
    tfos_status status = TFOS_OK;
    while (status == TFOS_OK && !line->ended && count < rows) {
        status = read_some(line, rows, &batch, &count, error);
    }
    if (status == TFOS_OK || status == TFOS_END) {
        status = count > 0 ? tfos__batch_finish(batch, count, error) : TFOS_END;
    }
    if (status != TFOS_OK) {
        tfos_batch_free(batch);
        return status;
    }
    *out = batch;
    return TFOS_OK;
}

/* ---- results ---- */

tfos_status tfos__line_answer(tfos__line *line, const tfos_batch *batch, tfos_error *error)
{
    int64_t rows = tfos_batch_rows(batch);
    for (int64_t first = 0; first < rows;) {
        int64_t done = 0;
        uint32_t seen = tfos__bell_read(line->bell);
        tfos_status status =
            tfos__lane_put_rows(&line->writer, batch, first, rows - first, SIZE_MAX, (uint64_t)first, &done, error);
        if (status == TFOS_END) {
            TFOS_TRY(wait_for_task(line, seen, error));
        } else {
            TFOS_TRY(status);
        }
        first += done;
    }
    return TFOS_OK;
}

void tfos__line_fail(tfos__line *line, const tfos_error *why)
{
    tfos__buffer text = {0};
    tfos__buffer entry = {0};
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_GAVE_UP);
    tfos__message_put_error(&message, why);
    tfos_status status = tfos__message_encode(&message, &text, NULL);
    status = status == TFOS_OK ? tfos__entry_append_text(text.data, text.size, &entry, NULL) : status;
    while (status == TFOS_OK) {
        uint32_t seen = tfos__bell_read(line->bell);
        status = tfos__lane_put_entry(&line->writer, entry.data, entry.size, NULL);
        if (status != TFOS_END) {
            break;
        }
        status = wait_for_task(line, seen, NULL);
    }
    tfos__buffer_reset(&text);
    tfos__buffer_reset(&entry);
}
