/* Which GPUs a node may offer: those that Spark gave it, else those that nvidia-smi lists and that nobody computes on.
 * nvidia-smi may hang on a sick machine, so it runs beside the loop, under the keeper, for a limited time. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/program.h"
#include "base/status.h"
#include "node/state.h"

enum { STEP_QUERY, STEP_LIST, STEP_BUSY };

static void run_step(tfos__node *node, int step);

static void join(tfos__node *node)
{
    if (node->phase == TFOS__LIFE_ASKING && !node->tool.over) {
        node->tool.over = true;
        uv_timer_stop(&node->tool.timer);
        tfos__buffer_reset(&node->tool.text);
        tfos__node_join(node);
    }
}

static void join_without(tfos__node *node, const char *why)
{
    if (!node->tool.over) {
        tfos__node_note(node, "no GPU is used on this host: %s", why);
        join(node);
    }
}

static void take_busy(tfos__node *node, const char *text, bool succeeded)
{
    if (succeeded) {
        tfos__gpus_mark_busy(&node->tool.found, text);
    } else {
        tfos__node_note(node, "%s cannot say which GPUs are busy, so all are offered", node->tool.path);
    }
    tfos__gpus_restrict(&node->tool.found, getenv("CUDA_VISIBLE_DEVICES"));
    tfos__gpus_free_list(&node->tool.found, node->gpus, sizeof node->gpus);
    snprintf(node->gpu_source, sizeof node->gpu_source, "nvidia-smi");
    join(node);
}

static void finish_step(tfos__node *node)
{
    tfos_error error;
    tfos_status status = TFOS_OK;
    const char *text = node->tool.text.size > 0 ? (const char *)node->tool.text.data : "";
    bool succeeded = WIFEXITED(node->tool.status) && WEXITSTATUS(node->tool.status) == 0;
    if (node->tool.step == STEP_BUSY) {
        take_busy(node, text, succeeded);
        return;
    }
    if (!succeeded && node->tool.step == STEP_QUERY) {
        run_step(node, STEP_LIST);
        return;
    }
    if (succeeded) {
        status = node->tool.step == STEP_QUERY ? tfos__gpus_read_query(text, &node->tool.found, &error)
                                               : tfos__gpus_read_list(text, &node->tool.found, &error);
    } else {
        status = tfos__fail(&error, TFOS_IO, "%s failed", node->tool.path);
    }
    if (status != TFOS_OK) {
        join_without(node, error.message);
    } else if (node->tool.found.count == 0) {
        join(node);
    } else {
        run_step(node, STEP_BUSY);
    }
}

/* A step is over when the program has ended and its output, too. */
static void look_whether_finished(tfos__node *node)
{
    if (!node->tool.running && !node->tool.pipe_open && !node->tool.over) {
        tfos__buffer_append(&node->tool.text, "", 1, NULL);
        finish_step(node);
    }
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    static char bytes[4096];
    (void)handle;
    (void)suggested;
    *buffer = uv_buf_init(bytes, sizeof bytes);
}

static void on_pipe_closed(uv_handle_t *handle)
{
    tfos__node *node = handle->data;
    node->tool.pipe_open = false;
    look_whether_finished(node);
}

static void on_text(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    tfos__node *node = stream->data;
    if (count > 0 && node->tool.text.size + (size_t)count < TFOS__NODE_TOOL_BYTES) {
        tfos__buffer_append(&node->tool.text, buffer->base, (size_t)count, NULL);
    } else if (count < 0) {
        uv_close((uv_handle_t *)stream, on_pipe_closed);
    }
}

static tfos_status start_step(tfos__node *node, const char *const *arguments, tfos_error *error)
{
    int ends[2];
    tfos__keeper_order order = {
        .slot = TFOS__KEEPER_TOOL,
        .file = node->tool.path,
        .arguments = arguments,
        .environment = (const char *const *)environ,
        .file_count = 2,
    };
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return tfos__fail_errno(error, errno, "cannot make a pipe");
    }
    node->tool.pipe.data = node;
    uv_pipe_init(&node->loop, &node->tool.pipe, 0);
    int code = uv_pipe_open(&node->tool.pipe, ends[0]);
    code = code == 0 ? uv_read_start((uv_stream_t *)&node->tool.pipe, give_buffer, on_text) : code;
    if (code != 0) {
        close(ends[0]);
        close(ends[1]);
        return tfos__fail_errno(error, -code, "cannot read from a pipe");
    }
    order.files[0] = ends[1];
    order.files[1] = -1;
    tfos_status status = tfos__keeper_start(&node->keeper, &order, error);
    close(ends[1]);
    node->tool.pipe_open = status == TFOS_OK;
    node->tool.running = status == TFOS_OK;
    return status;
}

static void run_step(tfos__node *node, int step)
{
    static const char *const arguments[][4] = {
        [STEP_QUERY] = {"nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader", NULL},
        [STEP_LIST] = {"nvidia-smi", "--list-gpus", NULL, NULL},
        [STEP_BUSY] = {"nvidia-smi", "--query-compute-apps=gpu_uuid", "--format=csv,noheader", NULL},
    };
    tfos_error error;
    node->tool.step = step;
    node->tool.text.size = 0;
    if (start_step(node, arguments[step], &error) != TFOS_OK) {
        join_without(node, error.message);
    }
}

void tfos__node_gpus_event(tfos__node *node, const tfos__keeper_event *event)
{
    char why[256];
    if (event->kind == TFOS__KEEPER_FAILED) {
        snprintf(why, sizeof why, "cannot run %.100s: %s", node->tool.path, strerror(event->value));
        join_without(node, why);
    } else if (event->kind == TFOS__KEEPER_ENDED) {
        node->tool.running = false;
        node->tool.status = event->value;
        look_whether_finished(node);
    }
}

static void on_timeout(uv_timer_t *timer)
{
    tfos__node *node = timer->data;
    char why[256];
    tfos__keeper_signal(&node->keeper, TFOS__KEEPER_TOOL, SIGKILL);
    snprintf(why, sizeof why, "%.100s did not answer within %d seconds", node->tool.path, TFOS__NODE_TOOL_MS / 1000);
    join_without(node, why);
}

void tfos__node_gpus_begin(tfos__node *node)
{
    if (node->orders.has_gpus) {
        memcpy(node->gpus, node->orders.gpus, sizeof node->gpus);
        memcpy(node->gpu_source, node->orders.gpu_source, sizeof node->gpu_source);
        join(node);
    } else if (getenv("SPARK_EXECUTOR_POD_IP") != NULL ||
               !tfos__program_find("nvidia-smi", node->tool.path, sizeof node->tool.path)) {
        join(node); /* on Kubernetes what nvidia-smi shows may be another pod's */
    } else {
        uv_timer_start(&node->tool.timer, on_timeout, TFOS__NODE_TOOL_MS, 0);
        run_step(node, STEP_QUERY);
    }
}
