/* A line, the task's end: the sink of a pump.
 *
 * Both lanes may be full at once: then the task takes results, and keeps them until they are asked for. Otherwise the
 * server would wait for room for results, and the task for room for rows, for ever. When many are kept, the rest of the
 * rows waits instead, until these were asked for: results may be much larger than rows. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/options.h"
#include "base/status.h"
#include "feed/batch_queue.h"
#include "feed/lane_rows.h"
#include "feed/line.h"
#include "feed/packet.h"
#include "net/local.h"

enum {
    ANSWER_MS = 30000,     /* for the first word of a server that may be busy */
    WAIT_MS = 100,         /* between two looks at the socket */
    WINDOW = 4,            /* entries of the largest size that are under way */
    KEPT_BYTES = 32 << 20, /* of results, before the rest of a batch of rows waits */
};

typedef struct line {
    tfos__sink sink; /* first */
    int socket;
    size_t batch_bytes;
    tfos__bell *bell;
    tfos__bell *server;
    tfos__lane *lane;
    tfos__lane *results;
    tfos__lane_writer writer;
    tfos__lane_reader reader;
    tfos__batch_queue ready; /* results that were taken while the task waited for room */
    size_t ready_bytes;
    tfos_batch *rest; /* rows of a batch that were not put yet, from rest_first on; NULL: there are none */
    int64_t rest_first;
    uint64_t row;      /* rows that were put */
    uint64_t answered; /* … and whose results were taken */
    bool exhausted;    /* no more rows come; behind the rest, that is said */
    bool ended;        /* … and was */
    bool gone;         /* the socket is closed: what is in the lane of results is all there will be */
    bool refused;      /* the server takes no more rows: what it has computed comes first, and then why */
} line;

static line *line_of(tfos__sink *sink)
{
    return (line *)sink;
}

static void close_line(tfos__sink *sink)
{
    line *self = line_of(sink);
    if (self->server != NULL) { /* the last that was given */
        tfos__lane_close_tail(self->results);
        tfos__bell_ring(self->server);
    }
    if (self->socket >= 0) {
        close(self->socket);
    }
    tfos__batch_queue_reset(&self->ready);
    tfos_batch_free(self->rest);
    tfos__lane_reader_reset(&self->reader);
    tfos__lane_writer_reset(&self->writer);
    tfos__lane_free(self->lane);
    tfos__lane_free(self->results);
    tfos__bell_free(self->server);
    tfos__bell_free(self->bell);
    free(self);
}

/* ---- looking around ---- */

static tfos_status fail_nobody(tfos_error *error)
{
    return tfos__fail(error, TFOS_NOT_FOUND, "the process that computes results does not listen any more");
}

static tfos_status fail_gone(const line *self, tfos_error *error)
{
    return tfos__fail(error, TFOS_IO, "the process that computes the results is gone; %llu of %llu rows have none yet",
                      (unsigned long long)(self->row - self->answered), (unsigned long long)self->row);
}

/* A server closes its socket when it has said all that it has to say, which the task may not have read yet. */
static tfos_status look_around(line *self, tfos_error *error)
{
    tfos__packet packet;
    int fds[TFOS__PACKET_FDS_MOST];
    const tfos__patience *patience = &self->sink.patience;
    if (patience->interrupted != NULL && patience->interrupted(patience->context)) {
        return tfos__fail(error, TFOS_CANCELLED, "the task was interrupted while it waited for results");
    }
    tfos_status status = tfos__packet_receive(self->socket, &packet, fds, NULL);
    if (status == TFOS_END) {
        return TFOS_OK;
    }
    tfos__packet_close_fds(fds);
    self->gone = true;
    return TFOS_OK;
}

/* ---- results ---- */

static void ring_if_released(line *self)
{
    if (self->reader.released) {
        self->reader.released = false;
        tfos__bell_ring(self->server);
    }
}

/* What the server says instead of results. */
static tfos_status fail_as_told(line *self, tfos_error *error)
{
    tfos__buffer text = {0};
    tfos__message message;
    tfos_error told = {.status = TFOS_CORRUPT};
    tfos_status status = tfos__entry_read_text(self->reader.bytes, &self->reader.entry, &text, error);
    status = status == TFOS_OK ? tfos__message_decode(text.data, text.size, &message, error) : status;
    if (status == TFOS_OK) {
        tfos__message_error(&message, &told);
        status = told.status;
        if (error != NULL) {
            *error = told;
        }
    }
    tfos__buffer_reset(&text);
    return status;
}

static tfos_status copy_rows(line *self, tfos_batch **out, tfos_error *error)
{
    int64_t count = (int64_t)self->reader.entry.rows - self->reader.row;
    if ((uint64_t)count > self->row - self->answered) {
        return tfos__fail(error, TFOS_CORRUPT, "there are more results than rows");
    }
    TFOS_TRY(tfos__lane_reader_copy(&self->reader, count, out, error));
    self->answered += (uint64_t)count;
    return TFOS_OK;
}

/* What is there. OK with *out NULL: nothing yet. */
static tfos_status take(line *self, tfos_batch **out, tfos_error *error)
{
    bool over;
    *out = NULL;
    tfos_status status = tfos__lane_reader_begin(&self->reader, &over, error);
    if (status == TFOS_OK) {
        bool rows = self->reader.entry.kind == TFOS__ENTRY_BATCH;
        bool text = self->reader.entry.kind == TFOS__ENTRY_TEXT;
        status = rows   ? copy_rows(self, out, error)
                 : text ? fail_as_told(self, error)
                        : tfos__fail(error, TFOS_CORRUPT, "the results make no sense");
    } else if (status == TFOS_END) {
        status = over ? fail_gone(self, error) : TFOS_OK;
    }
    ring_if_released(self);
    return status;
}

/* Takes what results there are, but not too many. What is wrong with them is said when they are asked for. */
static void drain(line *self)
{
    tfos_batch *batch;
    while (self->answered < self->row && self->ready_bytes < KEPT_BYTES &&
           tfos__batch_queue_reserve(&self->ready, NULL) == TFOS_OK && take(self, &batch, NULL) == TFOS_OK &&
           batch != NULL) {
        tfos__batch_queue_put(&self->ready, batch);
        self->ready_bytes += tfos_batch_bytes(batch);
    }
}

static tfos_batch *take_ready(line *self)
{
    tfos_batch *batch = tfos__batch_queue_take(&self->ready);
    self->ready_bytes -= batch != NULL ? tfos_batch_bytes(batch) : 0;
    return batch;
}

/* ---- rows ---- */

/* A lane that takes nothing more, or a server that is gone: what it has computed comes first, and then why. */
static void give_up_rest(line *self)
{
    self->refused = true;
    tfos_batch_free(self->rest);
    self->rest = NULL;
}

static tfos_status put_end(line *self, tfos_error *error)
{
    _Alignas(8) uint8_t entry[TFOS__ENTRY_HEADER_BYTES];
    tfos__entry_write_partition(self->row, entry);
    TFOS_TRY(tfos__lane_put_entry(&self->writer, entry, sizeof entry, error));
    tfos__lane_close_head(self->lane);
    tfos__bell_ring(self->server);
    self->ended = true;
    return TFOS_OK;
}

/* Something is larger than the lane: a row, which has a column to be named, or else what was said stands. */
static tfos_status explain_limit(line *self, tfos_error *error)
{
    size_t bytes = tfos__entry_batch_bytes(self->rest, self->rest_first, 1);
    return bytes > tfos__lane_ring_bytes(self->lane)
               ? tfos__sink_refuse_row(&self->sink, self->rest, self->rest_first, self->row, bytes, error)
               : TFOS_LIMIT;
}

/* Puts what there is room for now, and the end behind the last row. END: there is no room for the rest. */
static tfos_status put_some(line *self, tfos_error *error)
{
    while (self->rest != NULL) {
        int64_t done = 0;
        int64_t count = tfos_batch_rows(self->rest) - self->rest_first;
        tfos_status status = tfos__lane_put_rows(&self->writer, self->rest, self->rest_first, count, self->batch_bytes,
                                                 self->row, &done, error);
        if (status == TFOS_LIMIT) {
            return explain_limit(self, error);
        }
        TFOS_TRY(status);
        self->row += (uint64_t)done;
        self->rest_first += done;
        if (done == count) {
            tfos_batch_free(self->rest);
            self->rest = NULL;
        }
    }
    return self->exhausted && !self->ended ? put_end(self, error) : TFOS_OK;
}

/* The same, for whoever goes on with something else. OK: all was put, or nothing more will be. */
static tfos_status push(line *self, tfos_error *error)
{
    tfos_status status = self->refused ? TFOS_OK : put_some(self, error);
    if (status == TFOS_CANCELLED || (status == TFOS_END && self->gone)) {
        give_up_rest(self);
        return TFOS_OK;
    }
    return status;
}

/* END: the server takes no more rows. */
static tfos_status put_batch(tfos__sink *sink, const tfos_batch *batch, tfos_error *error)
{
    line *self = line_of(sink);
    assert(self->rest == NULL && !self->exhausted);
    if (tfos_batch_rows(batch) > 0) {
        self->rest = tfos_batch_retain((tfos_batch *)(uintptr_t)batch);
        self->rest_first = 0;
    }
    for (;;) {
        uint32_t seen = tfos__bell_read(self->bell);
        tfos_status status = push(self, error);
        if (status != TFOS_END) {
            return status == TFOS_OK && self->refused ? TFOS_END : status;
        }
        drain(self);
        if (self->ready_bytes >= KEPT_BYTES) {
            return TFOS_OK; /* the rest goes on when results are asked for */
        }
        TFOS_TRY(look_around(self, error));
        if (!self->gone) {
            tfos__bell_wait(self->bell, seen, WAIT_MS);
        }
    }
}

static tfos_status exhaust(tfos__sink *sink, tfos_error *error)
{
    line *self = line_of(sink);
    self->exhausted = true;
    tfos_status status = push(self, error);
    return status == TFOS_END ? TFOS_OK : status;
}

static bool is_hungry(const line *self)
{
    tfos__lane_counts counts;
    tfos__lane_count(self->lane, &counts);
    return counts.consumed_rows >= counts.fed_rows;
}

/* Whether there is nothing left to be put or waited for. */
static bool is_done(const line *self)
{
    return self->answered == self->row && self->rest == NULL && !self->refused && (!self->exhausted || self->ended);
}

static tfos_status take_results(tfos__sink *sink, tfos_feeder_wait wait, tfos_batch **out, tfos_error *error)
{
    line *self = line_of(sink);
    *out = take_ready(self);
    while (*out == NULL) {
        bool was_gone = self->gone;
        uint32_t seen = tfos__bell_read(self->bell);
        tfos_status status = push(self, error);
        TFOS_TRY(status == TFOS_END ? TFOS_OK : status);
        if (is_done(self)) {
            return self->exhausted || wait != TFOS_WAIT_NOT ? TFOS_END : TFOS_OK;
        }
        TFOS_TRY(take(self, out, error));
        bool patient = wait == TFOS_WAIT_FOR_RESULTS || (wait == TFOS_WAIT_FOR_ROOM && !is_hungry(self));
        if (*out != NULL || (!patient && self->rest == NULL && !self->refused)) {
            return TFOS_OK;
        }
        if (was_gone) {
            return fail_gone(self, error);
        }
        TFOS_TRY(look_around(self, error));
        if (!self->gone) {
            tfos__bell_wait(self->bell, seen, WAIT_MS);
        }
    }
    return TFOS_OK;
}

static tfos_status finish(tfos__sink *sink, tfos_error *error)
{
    return exhaust(sink, error);
}

/* Nobody has to be told: the task fails, and Spark decides. */
static void give_up(tfos__sink *sink, const tfos_error *why)
{
    (void)sink;
    (void)why;
}

static int64_t least_lane(const tfos__sink *sink)
{
    return (int64_t)tfos__lane_ring_bytes(((const line *)sink)->lane);
}

static const tfos__sink_functions functions = {
    .put_batch = put_batch,
    .take_results = take_results,
    .exhaust = exhaust,
    .finish = finish,
    .give_up = give_up,
    .least_lane = least_lane,
    .close = close_line,
};

/* ---- opening ---- */

static tfos_status say_hello(line *self, const tfos__line_options *options, tfos_error *error)
{
    tfos__packet packet;
    int fd = tfos__bell_fd(self->bell);
    tfos__packet_init(&packet, TFOS__PACKET_HELLO);
    memcpy(packet.token, options->token, sizeof packet.token);
    tfos_status status = tfos__packet_send_within(self->socket, ANSWER_MS, &packet, &fd, 1, NULL);
    tfos__secret_wipe(&packet, sizeof packet);
    return status == TFOS_OK ? TFOS_OK : fail_nobody(error);
}

/* A server that ends, because nobody has wanted anything for long, may leave whoever comes then without an answer. */
static tfos_status await_lanes(const line *self, tfos__packet *packet, int fds[TFOS__PACKET_FDS_MOST],
                               tfos_error *error)
{
    const tfos__patience *patience = &self->sink.patience;
    for (int64_t deadline = tfos__clock_ms() + ANSWER_MS; tfos__clock_ms() < deadline;) {
        struct pollfd wait = {.fd = self->socket, .events = POLLIN};
        (void)poll(&wait, 1, WAIT_MS);
        tfos_status status = tfos__packet_receive(self->socket, packet, fds, error);
        if (status != TFOS_END) {
            return status == TFOS_IO ? fail_nobody(error) : status;
        }
        if (patience->interrupted != NULL && patience->interrupted(patience->context)) {
            return tfos__fail(error, TFOS_CANCELLED, "the task was interrupted while it waited for a process");
        }
    }
    return tfos__fail(error, TFOS_IO, "the process that computes results did not answer for %d s", ANSWER_MS / 1000);
}

static tfos_status take_lanes(line *self, tfos_error *error)
{
    tfos__packet packet;
    int fds[TFOS__PACKET_FDS_MOST];
    TFOS_TRY(await_lanes(self, &packet, fds, error));
    if (packet.kind != TFOS__PACKET_LANE) {
        tfos__packet_close_fds(fds);
        return tfos__fail(error, TFOS_PERMISSION, "the process that computes results refused this task: %s",
                          packet.text);
    }
    tfos_status status = tfos__lane_adopt(fds[0], &self->lane, error);
    fds[0] = -1;
    if (status == TFOS_OK) {
        status = tfos__lane_adopt(fds[1], &self->results, error);
        fds[1] = -1;
    }
    if (status == TFOS_OK) {
        status = tfos__bell_adopt(fds[2], &self->server, error);
        fds[2] = -1;
    }
    tfos__packet_close_fds(fds);
    return status;
}

/* The lane is empty, so there is room for it, or never will be. */
static tfos_status give_order(line *self, const tfos__line_options *options, tfos_error *error)
{
    tfos__buffer entry = {0};
    tfos_status status = tfos__entry_append_text(options->order, options->order_bytes, &entry, error);
    status = status == TFOS_OK ? tfos__lane_put_entry(&self->writer, entry.data, entry.size, error) : status;
    tfos__buffer_reset(&entry);
    return status == TFOS_END || status == TFOS_CANCELLED ? fail_nobody(error) : status;
}

static tfos_status open_line(line *self, const tfos__line_options *options, tfos_error *error)
{
    TFOS_TRY(tfos__bell_new(&self->bell, error));
    self->socket = tfos__local_connect(options->name);
    if (self->socket < 0) {
        return fail_nobody(error);
    }
    if (!tfos__local_is_own(self->socket)) {
        return tfos__fail(error, TFOS_PERMISSION, "the process that listens for this task belongs to another user");
    }
    TFOS_TRY(say_hello(self, options, error));
    TFOS_TRY(take_lanes(self, error));
    self->writer = (tfos__lane_writer){
        .lane = self->lane, .reader = self->server, .window = WINDOW * (size_t)options->batch_bytes};
    self->reader.lane = self->results;
    return give_order(self, options, error);
}

tfos_status tfos__line_open(const tfos__line_options *options, tfos__sink **out, tfos_error *error)
{
    line *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return tfos__fail_memory(error, sizeof *self);
    }
    self->sink = (tfos__sink){
        .functions = &functions, .patience = options->patience, .partition = options->partition, .inference = true};
    self->socket = -1;
    self->batch_bytes = (size_t)options->batch_bytes;
    tfos_status status = open_line(self, options, error);
    if (status != TFOS_OK) {
        close_line(&self->sink);
        return status;
    }
    *out = &self->sink;
    return TFOS_OK;
}

/* ---- for shells ---- */

static const tfos_line_options defaults;

void tfos_line_options_init(tfos_line_options *options, size_t size)
{
    tfos__options_init(options, size, &defaults, sizeof defaults);
}

tfos_status tfos_pump_open_line(const tfos_line_options *options, const tfos_pump_source *source, tfos_pump **out,
                                tfos_error *error)
{
    tfos_line_options taken;
    tfos__sink *sink;
    TFOS_TRY(tfos__options_take("tfos_line_options", options, &defaults, &taken, sizeof taken, error));
    if (taken.name == NULL || taken.token == NULL || taken.token_bytes != TFOS__KEY_BYTES || taken.order == NULL) {
        return tfos__fail(error, TFOS_INVALID, "a line needs a name, a token of %d bytes and an order",
                          TFOS__KEY_BYTES);
    }
    tfos__line_options mine = {.name = taken.name,
                               .order = taken.order,
                               .order_bytes = taken.order_bytes,
                               .partition = taken.partition,
                               .patience = {taken.interrupted, taken.interrupted_context}};
    memcpy(mine.token, taken.token, sizeof mine.token);
    TFOS_TRY(tfos__setting_number(TFOS__SETTING_FEED_BATCH_BYTES, NULL, &mine.batch_bytes, error));
    tfos_status status = tfos__line_open(&mine, &sink, error);
    tfos__secret_wipe(mine.token, sizeof mine.token);
    return status == TFOS_OK ? tfos__pump_new(sink, NULL, source, out, error) : status;
}
