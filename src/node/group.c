/* The socket between a node and its program by which the program finds those that it computes with. The node passes
 * MEET on to the coordinator, and the answer back with a key that it makes of the cluster key, which the program does
 * not get. While programs compute together each shows its node that it lives: one that is stopped or frozen would have
 * all others wait for it, and nobody else can tell it from one that takes long. */
#include <errno.h>
#include <inttypes.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"
#include "node/state.h"

/* Purpose of the key. */
#define GROUP_PURPOSE "tfos group 1"

static void hear_meet(tfos__node *node, const tfos__message *message)
{
    tfos_error error;
    node->group.asked.size = 0;
    if (tfos__message_encode(message, &node->group.asked, &error) != TFOS_OK) {
        tfos__node_kill(node, TFOS__CAUSE_STOP, "what the program asks cannot be kept: %s", error.message);
        return;
    }
    tfos__node_send(node, message);
}

static void on_message(tfos__link *link, const tfos__message *message, void *context)
{
    tfos__node *node = context;
    (void)link;
    node->group.pulse_ms = uv_now(&node->loop);
    switch (message->type) {
    case TFOS__MESSAGE_MEET:
        hear_meet(node, message);
        break;
    case TFOS__MESSAGE_PULSE:
        node->group.pulses = true;
        break;
    case TFOS__MESSAGE_PART:
        node->group.pulses = false;
        break;
    default:
        tfos__node_note(node, "the program has said %s to its node, which makes no sense",
                        tfos__message_name(message->type));
        break;
    }
}

static void on_closed(tfos__link *link, const tfos_error *error, void *context)
{
    tfos__node *node = context;
    (void)link;
    (void)error; /* how the program ends, the keeper tells */
    node->group.child = NULL;
    node->group.pulses = false;
}

tfos_status tfos__node_group_begin(tfos__node *node, tfos_error *error)
{
    return tfos__key_derive(node->orders.key, GROUP_PURPOSE, node->group.key, error);
}

int tfos__node_group_child(tfos__node *node, tfos_error *error)
{
    static const tfos__link_events events = {.message = on_message, .closed = on_closed};
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return -1;
    }
    if (tfos__link_adopt(&node->loop, pair[0], &events, node, &node->group.child, error) != TFOS_OK) {
        close(pair[1]);
        errno = ENOMEM;
        return -1;
    }
    return pair[1];
}

void tfos__node_group_end(tfos__node *node)
{
    node->group.pulses = false;
    if (node->group.child != NULL) {
        tfos__link_close(node->group.child);
    }
    tfos__buffer_reset(&node->group.asked);
}

void tfos__node_group_hear(tfos__node *node, const tfos__message *message)
{
    tfos__message answer = *message;
    node->group.asked.size = 0;
    if (node->group.child == NULL) {
        return;
    }
    if (message->type == TFOS__MESSAGE_MET) {
        tfos__message_put_text(&answer, TFOS__FIELD_GROUP_KEY, (const char *)node->group.key, sizeof node->group.key);
        tfos__message_put_number(&answer, TFOS__FIELD_BEAT_MS,
                                 (uint64_t)tfos__min_i64(node->beat_ms, node->lease_ms / 4 + 1));
    }
    tfos__link_send(node->group.child, &answer);
}

void tfos__node_group_say_again(tfos__node *node)
{
    tfos__message message;
    const tfos__buffer *asked = &node->group.asked;
    if (asked->size > 0 && tfos__message_decode(asked->data, asked->size, &message, NULL) == TFOS_OK) {
        tfos__node_send(node, &message);
    }
}

void tfos__node_group_check(tfos__node *node)
{
    uint64_t now = uv_now(&node->loop);
    uint64_t silent_ms = now - node->group.pulse_ms;
    uint64_t unseen_ms = now - node->group.checked_ms;
    node->group.checked_ms = now;
    if (unseen_ms > (uint64_t)node->lease_ms / 2) {
        node->group.pulse_ms = now; /* this process has not run, either */
    } else if (node->group.pulses && silent_ms > (uint64_t)node->lease_ms) {
        node->group.pulses = false;
        tfos__node_kill(node, TFOS__CAUSE_STALLED,
                        "the program has not shown that it lives for %" PRIu64
                        " s (cluster.lease_ms), and others wait for it: its process is stopped, or the machine has no "
                        "time for it",
                        silent_ms / 1000);
    }
}
