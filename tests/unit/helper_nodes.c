#include "helper_nodes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

void helper_ticket_read(const tfos_cluster *cluster, helper_address *out)
{
    tfos__message ticket;
    const uint8_t *bytes;
    size_t count;
    tfos_cluster_ticket(cluster, &bytes, &count);
    assert_int_equal(tfos__message_decode(bytes, count, &ticket, NULL), TFOS_OK);
    assert_int_equal(ticket.type, TFOS__MESSAGE_TICKET);
    tfos__text key = tfos__message_text(&ticket, TFOS__FIELD_KEY);
    assert_int_equal(key.count, TFOS__KEY_BYTES);
    memcpy(out->key, key.at, TFOS__KEY_BYTES);
    tfos__message_copy(&ticket, TFOS__FIELD_HOST, out->host, sizeof out->host);
    out->port = (uint16_t)tfos__message_number(&ticket, TFOS__FIELD_PORT);
}

static void on_message(tfos__link *link, const tfos__message *message, void *context)
{
    helper_node *node = context;
    switch (message->type) {
    case TFOS__MESSAGE_ASSIGN:
        node->assigned = true;
        break;
    case TFOS__MESSAGE_STOP:
        node->stopped = true;
        if (node->ends_on_stop) {
            helper_node_end(node, TFOS__OUTCOME_STOPPED, "");
        }
        break;
    case TFOS__MESSAGE_ALIVE:
        node->beats++;
        break;
    case TFOS__MESSAGE_BYE:
        node->bye = true;
        if (node->ends_on_stop) {
            tfos__link_close(link);
        }
        break;
    case TFOS__MESSAGE_REFUSED:
        tfos__message_copy(message, TFOS__FIELD_TEXT, node->refused, sizeof node->refused);
        break;
    default:
        break;
    }
}

static void on_closed(tfos__link *link, const tfos_error *error, void *context)
{
    helper_node *node = context;
    (void)link;
    node->link = NULL;
    node->closed = true;
    node->error = *error;
}

void helper_registration(tfos__message *message, uint64_t index, const char *host, uint64_t port)
{
    tfos__message_init(message, TFOS__MESSAGE_REGISTER);
    tfos__message_put_number(message, TFOS__FIELD_INDEX, index);
    tfos__message_put_number(message, TFOS__FIELD_ATTEMPT, 0);
    tfos__message_put_string(message, TFOS__FIELD_HOST, host);
    tfos__message_put_number(message, TFOS__FIELD_PORT, port);
    tfos__message_put_number(message, TFOS__FIELD_CORES, 1);
    tfos__message_put_string(message, TFOS__FIELD_GPUS, "");
    tfos__message_put_string(message, TFOS__FIELD_GPU_SOURCE, "");
    tfos__message_put_number(message, TFOS__FIELD_NODE_PID, 1000 + index);
    tfos__message_put_string(message, TFOS__FIELD_EXECUTOR, "0");
    tfos__message_put_number(message, TFOS__FIELD_RETURNS, 0);
}

void helper_node_connect(helper_node *node, uv_loop_t *loop, tfos__tls_context *tls, const helper_address *address,
                         uint32_t index, const char *version, const char *host)
{
    static const tfos__link_events events = {.message = on_message, .closed = on_closed};
    tfos__message message;
    bool ends_on_stop = node->ends_on_stop;
    *node = (helper_node){.index = index, .ends_on_stop = ends_on_stop};
    assert_int_equal(tfos__link_connect(loop, tls, address->host, address->port, &events, node, &node->link, NULL),
                     TFOS_OK);
    tfos__message_init(&message, TFOS__MESSAGE_HELLO);
    tfos__message_put_string(&message, TFOS__FIELD_VERSION, version);
    tfos__link_send(node->link, &message);
    if (host != NULL) {
        helper_registration(&message, index, host, 2000 + index);
        tfos__link_send(node->link, &message);
    }
}

void helper_node_beat(helper_node *node)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_BEAT);
    tfos__message_put_number(&message, TFOS__FIELD_CPU_MS, 10);
    tfos__message_put_number(&message, TFOS__FIELD_RSS_BYTES, 1 << 20);
    if (node->link != NULL) {
        tfos__link_send(node->link, &message);
    }
}

void helper_node_end(helper_node *node, tfos__outcome outcome, const char *text)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_ENDED);
    tfos__message_put_number(&message, TFOS__FIELD_OUTCOME, outcome);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, text);
    tfos__message_put_string(&message, TFOS__FIELD_TAIL, "");
    tfos__message_put_number(&message, TFOS__FIELD_SEQUENCE, 1000000);
    if (node->link != NULL) {
        tfos__link_send(node->link, &message);
    }
}
