/* TensorBoard beside the chief. It takes seconds to load; its address is told once its port answers. Without it the
 * program runs as well, so its failure is a line in the log. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "node/state.h"

enum { PROBE_MS = 250 };

static void on_probe(uv_timer_t *timer);

/* Appends `word` with `from` replaced by `to`. */
static tfos_status add_replaced(tfos__words *out, const char *word, const char *port, const char *host,
                                tfos_error *error)
{
    tfos__buffer text = {0};
    tfos_status status = TFOS_OK;
    while (*word != '\0' && status == TFOS_OK) {
        if (strncmp(word, "{port}", 6) == 0) {
            status = tfos__buffer_append(&text, port, strlen(port), error);
            word += 6;
        } else if (strncmp(word, "{host}", 6) == 0) {
            status = tfos__buffer_append(&text, host, strlen(host), error);
            word += 6;
        } else {
            status = tfos__buffer_append(&text, word++, 1, error);
        }
    }
    if (status == TFOS_OK) {
        status = tfos__words_add(out, text.data != NULL ? (const char *)text.data : "", text.size, error);
    }
    tfos__buffer_reset(&text);
    return status;
}

static void on_probe_closed(uv_handle_t *handle)
{
    tfos__node *node = handle->data;
    node->tensorboard.probing = false;
    if (node->tensorboard.answered) {
        tfos__node_send_tensorboard(node);
    } else if (node->tensorboard.pid > 0) {
        uv_timer_start(&node->tensorboard.timer, on_probe, PROBE_MS, 0);
    }
}

static void on_probe_connected(uv_connect_t *request, int code)
{
    tfos__node *node = request->data;
    node->tensorboard.answered = code == 0 && node->tensorboard.pid > 0;
    uv_close((uv_handle_t *)&node->tensorboard.probe, on_probe_closed);
}

static void on_probe(uv_timer_t *timer)
{
    tfos__node *node = timer->data;
    struct sockaddr_in address;
    if (node->tensorboard.pid == 0 || node->tensorboard.probing) {
        return;
    }
    if (uv_now(&node->loop) - node->tensorboard.since_ms > TFOS__NODE_TENSORBOARD_MS) {
        tfos__node_note(node, "TensorBoard does not answer at %s; its lines in this log may say why",
                        node->tensorboard.url);
        return;
    }
    /* It may listen on the loopback alone, on the node's address alone, or on all: the node's address first. */
    bool is_address = uv_ip4_addr(node->orders.node_host, node->tensorboard.port.number, &address) == 0;
    if (!is_address || node->tensorboard.tries++ % 2 == 1) {
        uv_ip4_addr("127.0.0.1", node->tensorboard.port.number, &address);
    }
    uv_tcp_init(&node->loop, &node->tensorboard.probe);
    node->tensorboard.probe.data = node;
    node->tensorboard.connect.data = node;
    node->tensorboard.probing = true;
    if (uv_tcp_connect(&node->tensorboard.connect, &node->tensorboard.probe, (const struct sockaddr *)&address,
                       on_probe_connected) != 0) {
        uv_close((uv_handle_t *)&node->tensorboard.probe, on_probe_closed);
    }
}

void tfos__node_tensorboard_event(tfos__node *node, const tfos__keeper_event *event)
{
    switch (event->kind) {
    case TFOS__KEEPER_STARTED:
        node->tensorboard.pid = event->pid;
        node->tensorboard.since_ms = uv_now(&node->loop);
        uv_timer_start(&node->tensorboard.timer, on_probe, PROBE_MS, 0);
        break;
    case TFOS__KEEPER_FAILED:
        tfos__node_note(node, "TensorBoard could not be started: %s: %s", node->orders.tensorboard.at[0],
                        strerror(event->value));
        tfos__node_output_close(node, TFOS__JOURNAL_TENSORBOARD);
        tfos__node_look_whether_gone(node);
        break;
    case TFOS__KEEPER_ENDED:
        node->tensorboard.pid = 0;
        if (!node->child_over && node->stage == TFOS__STAGE_NONE) {
            tfos__node_note(node, "TensorBoard ended (%s %d); its lines in this log may say why",
                            WIFSIGNALED(event->value) ? "by signal" : "with exit code",
                            WIFSIGNALED(event->value) ? WTERMSIG(event->value) : WEXITSTATUS(event->value));
        }
        break;
    default:
        break;
    }
}

static tfos_status start(tfos__node *node, const tfos__words *environment, tfos__words *arguments, tfos_error *error)
{
    char number[8];
    const char *wanted = tfos__words_variable(environment, "TENSORBOARD_PORT");
    tfos__port *port = &node->tensorboard.port;
    TFOS_TRY(tfos__port_reserve(wanted, port, error));
    snprintf(number, sizeof number, "%u", port->number);
    bool is_ipv6 = strchr(node->orders.node_host, ':') != NULL;
    snprintf(node->tensorboard.url, sizeof node->tensorboard.url, is_ipv6 ? "http://[%s]:%s" : "http://%s:%s",
             node->orders.node_host, number);
    for (size_t i = 0; i < node->orders.tensorboard.count; i++) {
        TFOS_TRY(add_replaced(arguments, node->orders.tensorboard.at[i], number, node->orders.node_host, error));
    }
    int output = tfos__node_output_open(node, TFOS__JOURNAL_TENSORBOARD);
    if (output < 0) {
        return tfos__fail_errno(error, errno, "cannot make a pipe");
    }
    tfos__port_release(port);
    tfos__keeper_order order = {
        .slot = TFOS__KEEPER_TENSORBOARD,
        .file = arguments->at[0],
        .arguments = (const char *const *)arguments->at,
        .environment = (const char *const *)environment->at,
        .files = {output, output},
        .file_count = 2,
    };
    tfos_status status = tfos__keeper_start(&node->keeper, &order, error);
    close(output);
    return status;
}

void tfos__node_tensorboard_begin(tfos__node *node, const tfos__words *environment)
{
    tfos_error error;
    tfos__words arguments = {0};
    if (start(node, environment, &arguments, &error) != TFOS_OK) {
        tfos__port_release(&node->tensorboard.port);
        tfos__node_output_close(node, TFOS__JOURNAL_TENSORBOARD);
        tfos__node_note(node, "TensorBoard could not be started: %s", error.message);
    }
    tfos__words_reset(&arguments);
}
