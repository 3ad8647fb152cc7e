/* A node's connection to its coordinator. It may break and come back: whoever registered once says so, and what the
 * coordinator may not have got is sent again. Log messages are numbered and kept until a heartbeat that was sent after
 * them has been answered; messages of one connection arrive in order, so they have then arrived as well. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "node/state.h"

static void connect_now(tfos__node *node);

/* ---- what is sent ---- */

void tfos__node_send(tfos__node *node, const tfos__message *message)
{
    if (node->link != NULL && node->link_ready) {
        tfos__link_send(node->link, message);
    }
}

void tfos__node_send_state(tfos__node *node, tfos__node_state state)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_STATE);
    tfos__message_put_number(&message, TFOS__FIELD_STATE, state);
    if (node->child_pid > 0) {
        tfos__message_put_number(&message, TFOS__FIELD_CHILD_PID, (uint64_t)node->child_pid);
    }
    tfos__node_send(node, &message);
}

/* The last `most` bytes of a text, from the beginning of a character on. */
static tfos__text last_bytes(const char *text, size_t count, size_t most)
{
    size_t skip = count > most ? count - most : 0;
    while (skip < count && ((uint8_t)text[skip] & 0xC0) == 0x80) {
        skip++;
    }
    return (tfos__text){.at = text + skip, .count = count - skip};
}

void tfos__node_send_ended(tfos__node *node)
{
    tfos__message message;
    tfos__node_feed_say_all(node);
    const char *how = node->outcome_text != NULL ? node->outcome_text : "";
    tfos__text text = last_bytes(how, strlen(how), 1 << 20);
    tfos__text tail =
        last_bytes(node->tail.data != NULL ? (const char *)node->tail.data : "", node->tail.size, 1 << 16);
    tfos__message_init(&message, TFOS__MESSAGE_ENDED);
    tfos__message_put_number(&message, TFOS__FIELD_OUTCOME, node->outcome);
    if (node->child_ended && WIFEXITED(node->child_status)) {
        tfos__message_put_number(&message, TFOS__FIELD_EXIT_CODE, (uint64_t)WEXITSTATUS(node->child_status));
    }
    if (node->child_ended && WIFSIGNALED(node->child_status)) {
        tfos__message_put_number(&message, TFOS__FIELD_SIGNAL, (uint64_t)WTERMSIG(node->child_status));
    }
    tfos__message_put_text(&message, TFOS__FIELD_TEXT, text.at, text.count);
    tfos__message_put_text(&message, TFOS__FIELD_TAIL, tail.at, tail.count);
    tfos__message_put_number(&message, TFOS__FIELD_SEQUENCE, node->sequence + 1);
    tfos__node_feed_count(node, &message);
    tfos__node_send(node, &message);
}

void tfos__node_send_tensorboard(tfos__node *node)
{
    tfos__message message;
    if (node->tensorboard.answered) {
        tfos__message_init(&message, TFOS__MESSAGE_TENSORBOARD);
        tfos__message_put_string(&message, TFOS__FIELD_TENSORBOARD_URL, node->tensorboard.url);
        tfos__message_put_number(&message, TFOS__FIELD_TENSORBOARD_PID, (uint64_t)node->tensorboard.pid);
        tfos__node_send(node, &message);
    }
}

static void send_hello(tfos__node *node)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_HELLO);
    tfos__message_put_string(&message, TFOS__FIELD_VERSION, TFOS_VERSION);
    tfos__node_send(node, &message);
    tfos__message_init(&message, TFOS__MESSAGE_REGISTER);
    tfos__message_put_number(&message, TFOS__FIELD_INDEX, node->orders.index);
    tfos__message_put_number(&message, TFOS__FIELD_ATTEMPT, node->orders.attempt);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, node->orders.node_host);
    tfos__message_put_number(&message, TFOS__FIELD_PORT, node->port.number);
    tfos__message_put_number(&message, TFOS__FIELD_CORES, node->orders.cores);
    tfos__message_put_string(&message, TFOS__FIELD_GPUS, node->gpus);
    tfos__message_put_string(&message, TFOS__FIELD_GPU_SOURCE, node->gpu_source);
    tfos__message_put_number(&message, TFOS__FIELD_NODE_PID, (uint64_t)getpid());
    tfos__message_put_string(&message, TFOS__FIELD_EXECUTOR, node->orders.executor);
    tfos__message_put_number(&message, TFOS__FIELD_RETURNS, node->known ? 1 : 0);
    tfos__node_feed_register(node, &message);
    tfos__node_send(node, &message);
}

/* ---- log messages ---- */

static void send_unseen(tfos__node *node, const tfos__unseen *unseen)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_LOG);
    tfos__message_put_text(&message, TFOS__FIELD_TEXT, unseen->text, unseen->count);
    tfos__message_put_number(&message, TFOS__FIELD_STREAM, (uint64_t)unseen->stream);
    tfos__message_put_number(&message, TFOS__FIELD_SEQUENCE, unseen->sequence);
    tfos__node_send(node, &message);
}

void tfos__node_send_log(void *context, int stream, const char *text, size_t count)
{
    tfos__node *node = context;
    tfos__unseen *unseen = malloc(sizeof *unseen + count);
    if (unseen == NULL) {
        return; /* the file has it */
    }
    *unseen = (tfos__unseen){.sequence = ++node->sequence, .stream = stream, .count = count};
    memcpy(unseen->text, text, count);
    *node->unseen_end = unseen;
    node->unseen_end = &unseen->next;
    node->unseen_bytes += count;
    node->journal->blocked = node->unseen_bytes > TFOS__NODE_UNSEEN_BYTES;
    send_unseen(node, unseen);
}

static void forget_seen(tfos__node *node, uint64_t sequence)
{
    while (node->unseen != NULL && node->unseen->sequence <= sequence) {
        tfos__unseen *seen = node->unseen;
        node->unseen = seen->next;
        node->unseen_bytes -= seen->count;
        free(seen);
    }
    if (node->unseen == NULL) {
        node->unseen_end = &node->unseen;
    }
    node->journal->blocked = node->unseen_bytes > TFOS__NODE_UNSEEN_BYTES;
}

/* ---- heartbeats and the lease ---- */

static void send_beat(tfos__node *node)
{
    enum { LOOK_EVERY = 10 }; /* beats; to look through all processes of a machine takes milliseconds */
    tfos__message message;
    tfos__usage usage = {0};
    if (node->child_pid > 0 && !node->keeper_dead) {
        bool look_for_new = node->beats_sent % LOOK_EVERY == 0 || node->rss_bytes == 0; /* nothing was seen yet */
        usage = tfos__usage_below(node->keeper.pid, look_for_new, &node->known_below);
        if (usage.rss_bytes > 0) {
            node->rss_bytes = usage.rss_bytes;
        }
    }
    tfos__message_init(&message, TFOS__MESSAGE_BEAT);
    tfos__message_put_number(&message, TFOS__FIELD_CPU_MS, usage.cpu_ms);
    tfos__message_put_number(&message, TFOS__FIELD_RSS_BYTES, usage.rss_bytes);
    tfos__node_feed_beat(node, &message);
    tfos__node_send(node, &message);
    node->beats_sent++;
    if (node->mark_beat == 0) {
        node->mark_beat = node->beats_sent;
        node->mark_sequence = node->sequence;
        tfos__node_feed_mark(node);
    }
}

void tfos__node_beat(tfos__node *node)
{
    if (node->link_ready) {
        send_beat(node);
    }
}

static void on_beat(uv_timer_t *timer)
{
    tfos__node *node = timer->data;
    uint64_t silent_ms = uv_now(&node->loop) - node->heard_ms;
    if (silent_ms > (uint64_t)node->lease_ms) {
        tfos__node_kill(node, TFOS__CAUSE_COORDINATOR, "the coordinator at %s:%u was silent for %" PRIu64 " ms",
                        node->orders.host, node->orders.port, silent_ms);
        return;
    }
    tfos__node_group_check(node);
    tfos__node_beat(node);
}

/* The lease is looked at as often as beats are sent, so a beat must not be longer than it. */
static void schedule_beats(tfos__node *node)
{
    uint64_t every = (uint64_t)tfos__max_i64(1, tfos__min_i64(node->beat_ms, node->lease_ms / 2));
    uv_timer_start(&node->beat_timer, on_beat, every, every);
}

static void hear_beat(tfos__node *node)
{
    node->known = true;
    node->beats_answered++;
    if (node->mark_beat != 0 && node->beats_answered >= node->mark_beat) {
        forget_seen(node, node->mark_sequence);
        tfos__node_feed_answered(node);
        node->mark_beat = 0;
    }
}

/* ---- what is heard ---- */

static void hear_assign(tfos__node *node, const tfos__message *message)
{
    tfos__assignment *assignment = &node->assignment;
    node->known = true;
    if (node->assigned || node->phase != TFOS__LIFE_JOINING) {
        return; /* sent again after a reconnect */
    }
    assignment->spec = tfos__message_duplicate(message, TFOS__FIELD_SPEC);
    if (assignment->spec == NULL) {
        return;
    }
    node->assigned = true;
    tfos__message_copy(message, TFOS__FIELD_ROLE, assignment->role, sizeof assignment->role);
    tfos__message_copy(message, TFOS__FIELD_GIVEN_GPUS, assignment->gpus, sizeof assignment->gpus);
    assignment->task = tfos__message_number(message, TFOS__FIELD_TASK);
    assignment->nodes = tfos__message_number(message, TFOS__FIELD_NODES);
    assignment->has_gpus = tfos__message_has(message, TFOS__FIELD_GIVEN_GPUS);
    assignment->native = tfos__message_number(message, TFOS__FIELD_NATIVE) != 0;
    uint64_t beat_ms = tfos__message_number(message, TFOS__FIELD_BEAT_MS);
    uint64_t lease_ms = tfos__message_number(message, TFOS__FIELD_LEASE_MS);
    node->beat_ms = beat_ms > 0 && beat_ms < INT32_MAX ? (int64_t)beat_ms : node->beat_ms;
    node->lease_ms = lease_ms > 0 && lease_ms < INT32_MAX ? (int64_t)lease_ms : node->lease_ms;
    schedule_beats(node);
    tfos__node_child_begin(node);
}

static void hear_stop(tfos__node *node, const tfos__message *message)
{
    char why[512];
    tfos__message_copy(message, TFOS__FIELD_TEXT, why, sizeof why);
    tfos__node_stop(node, TFOS__CAUSE_STOP, tfos__message_number(message, TFOS__FIELD_GRACE_MS), "%s", why);
}

static void hear_refused(tfos__node *node, const tfos__message *message)
{
    char why[TFOS_ERROR_MESSAGE_BYTES];
    tfos__message_copy(message, TFOS__FIELD_TEXT, why, sizeof why);
    if (node->phase == TFOS__LIFE_REPORTING) {
        tfos__node_done(node, node->exit); /* it has heard of our end before */
    } else {
        tfos__node_kill(node, TFOS__CAUSE_REFUSED, "the coordinator refused this node: %s", why);
    }
}

static void hear_bye(tfos__node *node)
{
    if (node->phase == TFOS__LIFE_REPORTING) {
        tfos__node_done(node, node->exit);
    } else {
        tfos__node_stop(node, TFOS__CAUSE_STOP, 0, "the coordinator said good-bye");
    }
}

static void on_message(tfos__link *link, const tfos__message *message, void *context)
{
    tfos__node *node = context;
    (void)link;
    node->heard_ms = uv_now(&node->loop);
    switch (message->type) {
    case TFOS__MESSAGE_ASSIGN:
        hear_assign(node, message);
        break;
    case TFOS__MESSAGE_ALIVE:
        hear_beat(node);
        break;
    case TFOS__MESSAGE_STOP:
        hear_stop(node, message);
        break;
    case TFOS__MESSAGE_REFUSED:
        hear_refused(node, message);
        break;
    case TFOS__MESSAGE_BYE:
        hear_bye(node);
        break;
    case TFOS__MESSAGE_MET:
    case TFOS__MESSAGE_NOT_MET:
        tfos__node_group_hear(node, message);
        break;
    case TFOS__MESSAGE_RESULT_SEEN:
        tfos__node_result_hear(node, message);
        break;
    default:
        tfos__node_feed_hear(node, message);
        break;
    }
}

/* ---- the connection ---- */

static void on_ready(tfos__link *link, void *context)
{
    tfos__node *node = context;
    (void)link;
    node->link_ready = true;
    node->connected = true;
    node->failures = 0;
    node->refusals = 0;
    node->beats_sent = 0;
    node->beats_answered = 0;
    node->mark_beat = 0;
    send_hello(node);
    if (node->phase == TFOS__LIFE_CHILD && !node->child_ended) {
        tfos__node_send_state(node, node->stage != TFOS__STAGE_NONE ? TFOS__NODE_STOPPING : TFOS__NODE_RUNNING);
    }
    for (const tfos__unseen *unseen = node->unseen; unseen != NULL; unseen = unseen->next) {
        send_unseen(node, unseen);
    }
    tfos__node_feed_say_again(node);
    tfos__node_group_say_again(node);
    tfos__node_send_tensorboard(node);
    tfos__node_result_say_again(node);
    if (node->phase == TFOS__LIFE_REPORTING && !node->result.sending) {
        tfos__node_send_ended(node);
    }
    send_beat(node);
}

static void on_retry(uv_timer_t *timer)
{
    connect_now(timer->data);
}

/* At once, then after 100 ms, 200 ms, … 5 s. */
static void retry_later(tfos__node *node)
{
    enum { FIRST_MS = 100, MOST_MS = 5000, MOST_SHIFT = 6 };
    int shift = node->failures - 1 < MOST_SHIFT ? node->failures - 1 : MOST_SHIFT;
    int64_t wait = node->failures == 0 ? 0 : tfos__min_i64((int64_t)FIRST_MS << shift, MOST_MS);
    node->failures++;
    uv_timer_start(&node->retry_timer, on_retry, (uint64_t)wait, 0);
}

static void lose_coordinator(tfos__node *node)
{
    if (node->phase == TFOS__LIFE_REPORTING) {
        tfos__node_note(node,
                        "nobody listens at %s:%u any more, so the coordinator does not know how the program ended",
                        node->orders.host, node->orders.port);
        tfos__node_done(node, TFOS__NODE_EXIT_COORDINATOR_LOST);
    } else {
        tfos__node_kill(node, TFOS__CAUSE_COORDINATOR, "nobody listens at %s:%u any more: the coordinator is gone",
                        node->orders.host, node->orders.port);
    }
}

static void on_closed(tfos__link *link, const tfos_error *error, void *context)
{
    tfos__node *node = context;
    bool was_ready = node->link_ready;
    node->link = NULL;
    node->link_ready = false;
    if (node->phase == TFOS__LIFE_DONE) {
        tfos__node_leave(node);
        return;
    }
    if (node->cause == TFOS__CAUSE_REFUSED || node->cause == TFOS__CAUSE_COORDINATOR) {
        return; /* nobody there to come back to */
    }
    if (error->status == TFOS_PERMISSION && !was_ready) {
        tfos__node_kill(node, TFOS__CAUSE_REFUSED, "the coordinator does not accept this node: %s", error->message);
        return;
    }
    if (error->status != TFOS_OK && node->failures == 0) {
        tfos__node_note(node, "the connection to the coordinator is lost and tried again: %s", error->message);
    }
    node->refusals = tfos__link_cause(link) == ECONNREFUSED ? node->refusals + 1 : 0;
    if (node->refusals >= TFOS__NODE_REFUSALS) {
        lose_coordinator(node);
    } else {
        retry_later(node);
    }
}

static void connect_now(tfos__node *node)
{
    static const tfos__link_events events = {.ready = on_ready, .message = on_message, .closed = on_closed};
    tfos_error error;
    if (node->link != NULL || node->phase == TFOS__LIFE_DONE) {
        return;
    }
    if (tfos__link_connect(&node->loop, node->tls, node->orders.host, node->orders.port, &events, node, &node->link,
                           &error) != TFOS_OK) {
        tfos__node_note(node, "cannot connect to the coordinator: %s", error.message);
        retry_later(node);
    }
}

void tfos__node_join(tfos__node *node)
{
    node->phase = TFOS__LIFE_JOINING;
    uv_update_time(&node->loop);
    node->heard_ms = uv_now(&node->loop);
    schedule_beats(node);
    connect_now(node);
}
