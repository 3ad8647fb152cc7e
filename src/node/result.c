/* How the program gets on, and what it leaves behind.
 *
 * Reports come as fast as the program likes. All of them go into its history, which is bounded; to the coordinator goes
 * the newest, at most one in node.report_ms, and the end of an epoch rather than what comes behind it.
 *
 * What the program returns it puts into a file in memory that cannot grow, so that no program makes its node hold more
 * than node.result_bytes. When it has ended well, the result (the history as JSON, then the value) is sent piece by
 * piece: the next one when the coordinator has said that the one before has arrived. On a new connection the piece that
 * may be lost is sent again, and ENDED follows only behind the last. */
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/config.h"
#include "base/status.h"
#include "node/state.h"

tfos_status tfos__node_result_begin(tfos__node *node, tfos_error *error)
{
    int64_t every_ms;
    TFOS_TRY(tfos__setting_choose(TFOS__SETTING_NODE_REPORT_MS, -1, -1, &every_ms, error));
    TFOS_TRY(tfos__setting_choose(TFOS__SETTING_NODE_RESULT_BYTES, -1, -1, &node->result.most_bytes, error));
    node->result.every_ms = (uint64_t)every_ms;
    node->result.history.most = TFOS__NODE_HISTORY_ROWS;
    node->result.file = -1;
    return TFOS_OK;
}

int tfos__node_result_file(tfos__node *node)
{
    int file = memfd_create("tfos-result", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0) {
        return -1;
    }
    if (ftruncate(file, node->result.most_bytes) != 0 ||
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        close(file);
        return -1;
    }
    node->result.file = file;
    return fcntl(file, F_DUPFD_CLOEXEC, 0);
}

/* ---- reports ---- */

static void send_said(tfos__node *node)
{
    tfos__message message;
    const tfos__buffer *said = &node->result.said;
    if (said->size > 0) {
        tfos__message_init(&message, TFOS__MESSAGE_REPORT);
        tfos__message_put_text(&message, TFOS__FIELD_JSON, (const char *)said->data, said->size);
        tfos__message_put_number(&message, TFOS__FIELD_SEQUENCE, node->result.sequence);
        tfos__node_send(node, &message);
    }
}

/* How fast a count has grown since it was told last. */
static double rate_of(double now, double before, uint64_t ms)
{
    return ms > 0 && now >= before ? (now - before) * 1000 / (double)ms : NAN;
}

static void pass_on(tfos__node *node)
{
    tfos__report *report = &node->result.held;
    uint64_t now = uv_now(&node->loop);
    size_t count = 0;
    report->steps_per_s = rate_of(report->step, node->result.said_step, now - node->result.said_ms);
    report->rows_per_s = rate_of(report->rows, node->result.said_rows, now - node->result.said_ms);
    node->result.said_ms = now;
    node->result.said_step = report->step;
    node->result.said_rows = report->rows;
    node->result.holds = false;
    struct json_object *object = tfos__report_json(report);
    const char *text = json_object_to_json_string_length(object, JSON_C_TO_STRING_PLAIN, &count);
    node->result.said.size = 0;
    if (text != NULL && count <= TFOS__REPORT_BYTES &&
        tfos__buffer_append(&node->result.said, text, count, NULL) == TFOS_OK) {
        node->result.sequence++;
        send_said(node);
    }
    json_object_put(object);
}

static void on_due(uv_timer_t *timer)
{
    tfos__node *node = timer->data;
    if (node->result.holds) {
        pass_on(node);
    }
}

static void keep_in_history(tfos__node *node, const tfos__report *report)
{
    if (report->epoch_end && !node->result.by_epoch) {
        node->result.by_epoch = true;
        tfos__history_reset(&node->result.history);
    }
    if (report->epoch_end || !node->result.by_epoch) {
        (void)tfos__history_add(&node->result.history, report, NULL); /* memory that is short costs a row */
    }
}

void tfos__node_take_progress(tfos__node *node, struct json_object *object)
{
    tfos__report report;
    uint64_t now = uv_now(&node->loop);
    bool first = node->result.said_ms == 0;
    tfos__report_read(object, &report);
    report.aloud = report.aloud || tfos__assignment_is_chief(&node->assignment);
    keep_in_history(node, &report);
    if (!node->result.holds || report.epoch_end || !node->result.held.epoch_end) {
        node->result.held = report;
        node->result.holds = true;
    }
    if (first) {
        node->result.said_ms = now;
        node->result.said_step = report.step;
        node->result.said_rows = report.rows;
    }
    uint64_t passed = now - node->result.said_ms;
    if (first || passed >= node->result.every_ms) {
        pass_on(node);
    } else if (!uv_is_active((uv_handle_t *)&node->result.timer)) {
        uv_timer_start(&node->result.timer, on_due, node->result.every_ms - passed, 0);
    }
}

/* ---- the result ---- */

void tfos__node_take_returned(tfos__node *node, struct json_object *report)
{
    struct json_object *problem = json_object_object_get(report, "problem");
    int64_t bytes = json_object_get_int64(json_object_object_get(report, "bytes"));
    node->result.value_bytes = bytes > 0 && bytes <= node->result.most_bytes ? (size_t)bytes : 0;
    if (problem != NULL) {
        free(node->result.problem);
        node->result.problem = strdup(json_object_get_string(problem));
        tfos__node_note(node, "what the program returned does not reach the driver: %s",
                        json_object_get_string(problem));
    }
}

/* The head; false: there is nothing to be said. */
static bool make_head(tfos__node *node)
{
    size_t count = 0;
    if (node->result.history.count == 0 && node->result.problem == NULL && node->result.value_bytes == 0) {
        return false;
    }
    struct json_object *head = json_object_new_object();
    json_object_object_add(head, "history", tfos__history_json(&node->result.history));
    if (node->result.problem != NULL) {
        json_object_object_add(head, "problem", json_object_new_string(node->result.problem));
    }
    const char *text = json_object_to_json_string_length(head, JSON_C_TO_STRING_PLAIN, &count);
    bool made = text != NULL && tfos__buffer_append(&node->result.body, text, count, NULL) == TFOS_OK;
    node->result.head_bytes = made ? count : 0;
    json_object_put(head);
    return made;
}

static tfos_status read_value(tfos__node *node, tfos_error *error)
{
    tfos__buffer *body = &node->result.body;
    size_t end = body->size + node->result.value_bytes;
    TFOS_TRY(tfos__buffer_reserve(body, end, error));
    while (body->size < end) {
        off_t from = (off_t)(body->size - node->result.head_bytes);
        ssize_t got = pread(node->result.file, body->data + body->size, end - body->size, from);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return tfos__fail_errno(error, got == 0 ? EIO : errno, "cannot read it");
        }
        body->size += got > 0 ? (size_t)got : 0;
    }
    return TFOS_OK;
}

static void send_piece(tfos__node *node)
{
    tfos__message message;
    const tfos__buffer *body = &node->result.body;
    size_t left = body->size - node->result.seen;
    tfos__message_init(&message, TFOS__MESSAGE_RESULT);
    tfos__message_put_number(&message, TFOS__FIELD_OFFSET, node->result.seen);
    tfos__message_put_number(&message, TFOS__FIELD_HEAD_BYTES, node->result.head_bytes);
    tfos__message_put_number(&message, TFOS__FIELD_VALUE_BYTES, body->size - node->result.head_bytes);
    tfos__message_put_text(&message, TFOS__FIELD_PIECE, (const char *)body->data + node->result.seen,
                           left < TFOS__NODE_PIECE_BYTES ? left : TFOS__NODE_PIECE_BYTES);
    tfos__node_send(node, &message);
}

bool tfos__node_result_send(tfos__node *node)
{
    tfos_error error;
    on_due(&node->result.timer);
    uv_timer_stop(&node->result.timer);
    if (node->outcome != TFOS__OUTCOME_FINISHED || !make_head(node)) {
        return false;
    }
    if (read_value(node, &error) != TFOS_OK) {
        tfos__node_note(node, "what the program returned does not reach the driver: %s", error.message);
        return false;
    }
    node->result.sending = true;
    send_piece(node);
    return true;
}

static void end_sending(tfos__node *node)
{
    node->result.sending = false;
    tfos__buffer_reset(&node->result.body);
    tfos__node_report_end(node);
}

void tfos__node_result_hear(tfos__node *node, const tfos__message *message)
{
    uint64_t seen = tfos__message_number(message, TFOS__FIELD_OFFSET);
    if (!node->result.sending || seen > node->result.body.size) {
        return;
    }
    node->result.seen = (size_t)seen;
    if (seen == node->result.body.size) {
        end_sending(node);
    } else {
        send_piece(node);
    }
}

void tfos__node_result_say_again(tfos__node *node)
{
    send_said(node);
    if (node->result.sending) {
        send_piece(node);
    }
}

static void on_late(uv_timer_t *timer)
{
    tfos__node *node = timer->data;
    if (node->result.sending) {
        tfos__node_note(node, "the cluster was stopped before what the program returned had reached the driver");
        tfos__journal_flush(node->journal, (int64_t)uv_now(&node->loop)); /* ENDED is the last word */
        end_sending(node);
    }
}

void tfos__node_result_hurry(tfos__node *node)
{
    if (node->result.sending && !uv_is_active((uv_handle_t *)&node->result.timer)) {
        uv_timer_start(&node->result.timer, on_late, TFOS__NODE_RESULT_MS, 0);
    }
}
