/* A coordinator of one node. */
#include "helper_coordinator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "helper_loop.h"

int64_t helper_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void copy_text(const tfos__message *message, tfos__field field, tfos__buffer *out)
{
    tfos__text text = tfos__message_text(message, field);
    assert_int_equal(tfos__buffer_append(out, text.at, text.count, NULL), TFOS_OK);
}

static void terminate(tfos__buffer *buffer)
{
    assert_int_equal(tfos__buffer_append(buffer, "", 1, NULL), TFOS_OK);
    buffer->size--;
}

static void send_assign(helper_coordinator *it)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_ASSIGN);
    tfos__message_put_string(&message, TFOS__FIELD_ROLE, it->role);
    tfos__message_put_number(&message, TFOS__FIELD_TASK, it->task);
    tfos__message_put_string(&message, TFOS__FIELD_SPEC, it->spec);
    if (it->gpus != NULL) {
        tfos__message_put_string(&message, TFOS__FIELD_GIVEN_GPUS, it->gpus);
    }
    tfos__message_put_number(&message, TFOS__FIELD_BEAT_MS, 100);
    tfos__message_put_number(&message, TFOS__FIELD_LEASE_MS, it->lease_ms);
    tfos__message_put_number(&message, TFOS__FIELD_NODES, 1);
    tfos__message_put_number(&message, TFOS__FIELD_NATIVE, it->native ? 1 : 0);
    tfos__link_send(it->link, &message);
}

static void hear_register(helper_coordinator *it, const tfos__message *message)
{
    tfos__message answer;
    tfos__message_copy(message, TFOS__FIELD_HOST, it->host, sizeof it->host);
    tfos__message_copy(message, TFOS__FIELD_GPUS, it->offered_gpus, sizeof it->offered_gpus);
    tfos__message_copy(message, TFOS__FIELD_GPU_SOURCE, it->gpu_source, sizeof it->gpu_source);
    tfos__message_copy(message, TFOS__FIELD_EXECUTOR, it->executor, sizeof it->executor);
    it->node_port = tfos__message_number(message, TFOS__FIELD_PORT);
    it->node_pid = tfos__message_number(message, TFOS__FIELD_NODE_PID);
    it->returned = tfos__message_number(message, TFOS__FIELD_RETURNS);
    tfos__message_copy(message, TFOS__FIELD_FEED_NAME, it->feed_name, sizeof it->feed_name);
    it->feed_port = tfos__message_number(message, TFOS__FIELD_FEED_PORT);
    if (it->refuse != NULL) {
        tfos__message_init(&answer, TFOS__MESSAGE_REFUSED);
        tfos__message_put_string(&answer, TFOS__FIELD_TEXT, it->refuse);
        tfos__link_send(it->link, &answer);
        tfos__link_close(it->link);
    } else if (!it->hold_assign) {
        send_assign(it);
    }
}

static void hear_log(helper_coordinator *it, const tfos__message *message)
{
    uint64_t sequence = tfos__message_number(message, TFOS__FIELD_SEQUENCE);
    if (sequence > it->sequence) {
        assert_int_equal(sequence, it->sequence + 1); /* nothing is lost on the way */
        it->sequence = sequence;
        tfos__buffer *log = tfos__message_number(message, TFOS__FIELD_STREAM) == 1 ? &it->out : &it->err;
        copy_text(message, TFOS__FIELD_TEXT, log);
        terminate(log);
    }
}

static void hear_ended(helper_coordinator *it, const tfos__message *message)
{
    tfos__message answer;
    it->ended_ms = helper_now_ms();
    it->outcome = tfos__message_number(message, TFOS__FIELD_OUTCOME);
    it->exit_code = tfos__message_number(message, TFOS__FIELD_EXIT_CODE);
    it->signal = tfos__message_number(message, TFOS__FIELD_SIGNAL);
    it->text.size = 0;
    it->tail.size = 0;
    copy_text(message, TFOS__FIELD_TEXT, &it->text);
    copy_text(message, TFOS__FIELD_TAIL, &it->tail);
    terminate(&it->text);
    terminate(&it->tail);
    if (!it->hold_bye) {
        tfos__message_init(&answer, TFOS__MESSAGE_BYE);
        tfos__link_send(it->link, &answer);
    }
}

static void hear_beat(helper_coordinator *it, const tfos__message *message)
{
    tfos__message answer;
    uint64_t cpu_ms = tfos__message_number(message, TFOS__FIELD_CPU_MS);
    uint64_t rss_bytes = tfos__message_number(message, TFOS__FIELD_RSS_BYTES);
    it->cpu_ms = cpu_ms > it->cpu_ms ? cpu_ms : it->cpu_ms;
    it->rss_bytes = rss_bytes > it->rss_bytes ? rss_bytes : it->rss_bytes;
    tfos__message_init(&answer, TFOS__MESSAGE_ALIVE);
    tfos__link_send(it->link, &answer);
}

/* As the coordinator does: the next piece is taken, any other one was sent twice. */
static void hear_result(helper_coordinator *it, const tfos__message *message)
{
    tfos__message answer;
    if (it->hold_seen) {
        return;
    }
    if (tfos__message_number(message, TFOS__FIELD_OFFSET) == it->result.size) {
        copy_text(message, TFOS__FIELD_PIECE, &it->result);
    }
    it->head_bytes = tfos__message_number(message, TFOS__FIELD_HEAD_BYTES);
    it->value_bytes = tfos__message_number(message, TFOS__FIELD_VALUE_BYTES);
    tfos__message_init(&answer, TFOS__MESSAGE_RESULT_SEEN);
    tfos__message_put_number(&answer, TFOS__FIELD_OFFSET, it->result.size);
    tfos__link_send(it->link, &answer);
}

static void on_message(tfos__link *link, const tfos__message *message, void *context)
{
    helper_coordinator *it = context;
    it->heard[message->type]++;
    if (message->type == TFOS__MESSAGE_HELLO) {
        it->link = link;
        tfos__message_copy(message, TFOS__FIELD_VERSION, it->version, sizeof it->version);
    }
    if (it->mute || link != it->link) {
        return;
    }
    switch (message->type) {
    case TFOS__MESSAGE_REGISTER:
        hear_register(it, message);
        break;
    case TFOS__MESSAGE_BEAT:
        hear_beat(it, message);
        break;
    case TFOS__MESSAGE_FENCED:
        it->fenced_rows = tfos__message_number(message, TFOS__FIELD_FED_BEFORE);
        break;
    case TFOS__MESSAGE_TERMINATE:
        tfos__message_copy(message, TFOS__FIELD_QUEUE, it->terminated, sizeof it->terminated);
        break;
    case TFOS__MESSAGE_LOG:
        hear_log(it, message);
        break;
    case TFOS__MESSAGE_STATE:
        it->state = tfos__message_number(message, TFOS__FIELD_STATE);
        it->child_pid = tfos__message_number(message, TFOS__FIELD_CHILD_PID);
        break;
    case TFOS__MESSAGE_TENSORBOARD:
        tfos__message_copy(message, TFOS__FIELD_TENSORBOARD_URL, it->url, sizeof it->url);
        break;
    case TFOS__MESSAGE_REPORT:
        it->report.size = 0;
        copy_text(message, TFOS__FIELD_JSON, &it->report);
        terminate(&it->report);
        break;
    case TFOS__MESSAGE_RESULT:
        hear_result(it, message);
        break;
    case TFOS__MESSAGE_ENDED:
        hear_ended(it, message);
        break;
    default:
        break;
    }
}

static void on_closed(tfos__link *link, const tfos_error *error, void *context)
{
    helper_coordinator *it = context;
    (void)error;
    if (it->link == link) {
        it->link = NULL;
    }
}

static void on_connection(uv_stream_t *stream, int status)
{
    static const tfos__link_events events = {.message = on_message, .closed = on_closed};
    helper_coordinator *it = stream->data;
    tfos__link *link;
    assert_int_equal(status, 0);
    it->connections++;
    assert_int_equal(tfos__link_accept(stream, it->tls, &events, it, &link, NULL), TFOS_OK);
}

void helper_coordinator_open(helper_coordinator *it)
{
    struct sockaddr_in address;
    int bytes = sizeof address;
    memset(it, 0, sizeof *it);
    it->role = "worker";
    it->spec = "{\"worker\": [\"127.0.0.1:1\"]}";
    it->gpus = "";
    it->lease_ms = 20000;
    assert_int_equal(helper_loop_init(&it->loop), 0);
    assert_int_equal(tfos__key_make(it->key, NULL), TFOS_OK);
    assert_int_equal(tfos__tls_context_new(TFOS__TLS_SERVER, it->key, TFOS__LINK_PURPOSE, &it->tls, NULL), TFOS_OK);
    assert_int_equal(uv_tcp_init(&it->loop, &it->listener), 0);
    it->listener.data = it;
    assert_int_equal(uv_ip4_addr("127.0.0.1", 0, &address), 0);
    assert_int_equal(uv_tcp_bind(&it->listener, (const struct sockaddr *)&address, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&it->listener, 16, on_connection), 0);
    assert_int_equal(uv_tcp_getsockname(&it->listener, (struct sockaddr *)&address, &bytes), 0);
    it->port = ntohs(address.sin_port);
    it->listening = true;
}

void helper_coordinator_cut(helper_coordinator *it)
{
    if (it->link != NULL) {
        tfos__link_close(it->link);
        it->link = NULL;
    }
}

void helper_coordinator_vanish(helper_coordinator *it)
{
    if (it->listening) {
        it->listening = false;
        uv_close((uv_handle_t *)&it->listener, NULL);
    }
    helper_coordinator_cut(it);
}

void helper_coordinator_close(helper_coordinator *it)
{
    helper_coordinator_vanish(it);
    uv_run(&it->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&it->loop), 0);
    tfos__tls_context_free(it->tls);
    tfos__buffer_reset(&it->out);
    tfos__buffer_reset(&it->err);
    tfos__buffer_reset(&it->text);
    tfos__buffer_reset(&it->tail);
    tfos__buffer_reset(&it->report);
    tfos__buffer_reset(&it->result);
}

/* ---- both ---- */

helper_scene *helper_now;

int helper_scene_open(void **state)
{
    (void)state;
    helper_now = calloc(1, sizeof *helper_now);
    helper_coordinator_open(&helper_now->it);
    return 0;
}

int helper_scene_close(void **state)
{
    (void)state;
    helper_executor_close(&helper_now->executor, &helper_now->it);
    helper_coordinator_close(&helper_now->it);
    free(helper_now);
    return 0;
}

void helper_coordinator_stop(helper_coordinator *it, uint64_t grace_ms)
{
    tfos__message message;
    assert_non_null(it->link);
    tfos__message_init(&message, TFOS__MESSAGE_STOP);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, "the test says so");
    tfos__message_put_number(&message, TFOS__FIELD_GRACE_MS, grace_ms);
    tfos__link_send(it->link, &message);
}

/* ---- waiting ---- */

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

void helper_wait(helper_coordinator *it, helper_condition condition, void *context, int64_t most_ms, const char *what)
{
    uv_timer_t tick; /* so that the loop does not sleep over what others do */
    int64_t deadline = helper_now_ms() + most_ms;
    uv_timer_init(&it->loop, &tick);
    uv_timer_start(&tick, on_tick, 5, 5);
    bool holds = condition(context);
    while (!holds && helper_now_ms() < deadline) {
        uv_run(&it->loop, UV_RUN_ONCE);
        holds = condition(context);
    }
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(&it->loop, UV_RUN_NOWAIT);
    if (!holds) {
        fail_msg("%s did not come within %lld ms; stderr of the child: %s", what, (long long)most_ms,
                 it->err.size > 0 ? (const char *)it->err.data : "nothing");
    }
}

typedef struct expected {
    helper_coordinator *it;
    tfos__message_type type;
    int count;
    const tfos__buffer *log;
    const char *text;
} expected;

static bool was_heard(void *context)
{
    const expected *wanted = context;
    return wanted->it->heard[wanted->type] >= wanted->count;
}

void helper_wait_heard(helper_coordinator *it, tfos__message_type type, int count, int64_t most_ms)
{
    char what[64];
    expected wanted = {.it = it, .type = type, .count = count};
    snprintf(what, sizeof what, "message %d, %d times,", (int)type, count);
    helper_wait(it, was_heard, &wanted, most_ms, what);
}

static bool is_in_log(void *context)
{
    const expected *wanted = context;
    return wanted->log->size > 0 && strstr((const char *)wanted->log->data, wanted->text) != NULL;
}

void helper_wait_log(helper_coordinator *it, const tfos__buffer *log, const char *text, int64_t most_ms)
{
    expected wanted = {.it = it, .log = log, .text = text};
    helper_wait(it, is_in_log, &wanted, most_ms, text);
}

static bool is_past(void *context)
{
    return helper_now_ms() >= *(int64_t *)context;
}

void helper_run_for(helper_coordinator *it, int64_t ms)
{
    int64_t until = helper_now_ms() + ms;
    helper_wait(it, is_past, &until, ms + 10000, "the time");
}
