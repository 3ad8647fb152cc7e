/* The child of a node: its environment, its files, its output, its report. */
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "base/status.h"
#include "node/state.h"

/* ---- output ---- */

static char incoming[65536];

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    (void)handle;
    (void)suggested;
    *buffer = uv_buf_init(incoming, sizeof incoming);
}

static void on_journal(uv_timer_t *timer)
{
    tfos__node_journal_schedule(timer->data);
}

void tfos__node_journal_schedule(tfos__node *node)
{
    int64_t wait = tfos__journal_tick(node->journal, (int64_t)uv_now(&node->loop));
    if (wait >= 0) {
        uv_timer_start(&node->journal_timer, on_journal, (uint64_t)tfos__max_i64(wait, 1), 0);
    }
}

void tfos__node_output_close(tfos__node *node, tfos__journal_source source)
{
    tfos__node_output *output = &node->output[source];
    if (output->open) {
        output->open = false;
        uv_close((uv_handle_t *)&output->pipe, NULL);
        tfos__journal_finish(node->journal, source, (int64_t)uv_now(&node->loop));
        tfos__node_journal_schedule(node);
    }
}

static void on_output(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    tfos__node *node = stream->data;
    tfos__node_output *output = (tfos__node_output *)stream;
    if (count > 0) {
        tfos__journal_take(node->journal, output->source, buffer->base, (size_t)count, (int64_t)uv_now(&node->loop));
        tfos__node_journal_schedule(node);
    } else if (count < 0) {
        tfos__node_output_close(node, output->source);
        tfos__node_look_whether_gone(node);
    }
}

int tfos__node_output_open(tfos__node *node, tfos__journal_source source)
{
    tfos__node_output *output = &node->output[source];
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    output->source = source;
    output->pipe.data = node;
    uv_pipe_init(&node->loop, &output->pipe, 0);
    output->open = true;
    int code = uv_pipe_open(&output->pipe, ends[0]);
    if (code != 0) {
        close(ends[0]); /* libuv has it otherwise */
    }
    code = code == 0 ? uv_read_start((uv_stream_t *)&output->pipe, give_buffer, on_output) : code;
    if (code != 0) {
        tfos__node_output_close(node, source);
        close(ends[1]);
        errno = -code;
        return -1;
    }
    return ends[1];
}

/* ---- the report ---- */

static void answer(tfos__node *node, const char *line)
{
    uv_buf_t piece = uv_buf_init((char *)(uintptr_t)line, (unsigned)strlen(line));
    /* Few bytes to a child that has just asked: if they do not fit, it does not read. */
    (void)uv_try_write((uv_stream_t *)&node->report_pipe, &piece, 1);
}

static void take_raised(tfos__node *node, struct json_object *report)
{
    struct json_object *text;
    if (json_object_object_get_ex(report, "text", &text) && json_object_get_type(text) == json_type_string) {
        free(node->raised);
        node->raised = strdup(json_object_get_string(text));
    }
}

static void take_report(tfos__node *node, const char *line)
{
    struct json_object *report = json_tokener_parse(line);
    struct json_object *event = NULL;
    const char *name = "";
    if (report != NULL && json_object_get_type(report) == json_type_object &&
        json_object_object_get_ex(report, "event", &event)) {
        name = json_object_get_string(event);
    }
    if (name != NULL && strcmp(name, "raised") == 0) {
        take_raised(node, report);
    } else if (name != NULL && strcmp(name, "release_port") == 0) {
        tfos__port_hand_over(&node->port);
        answer(node, "{\"ok\": true}\n");
    } else if (name != NULL && strcmp(name, "progress") == 0) {
        tfos__node_take_progress(node, report);
    } else if (name != NULL && strcmp(name, "returned") == 0) {
        tfos__node_take_returned(node, report);
    } else {
        answer(node, "{\"ok\": false, \"error\": \"expected the event raised, returned, progress or release_port\"}\n");
    }
    json_object_put(report);
}

void tfos__node_report_close(tfos__node *node)
{
    if (node->report_open) {
        node->report_open = false;
        uv_close((uv_handle_t *)&node->report_pipe, NULL);
    }
}

static void on_report(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    tfos__node *node = stream->data;
    if (count < 0) {
        tfos__node_report_close(node);
        tfos__node_look_whether_gone(node);
        return;
    }
    const char *at = buffer->base;
    const char *end = at + count;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t bytes = (size_t)((newline != NULL ? newline : end) - at);
        /* A line beyond the limit is cut, is no JSON any more, and so is refused. */
        if (node->report.size + bytes <= TFOS__NODE_REPORT_BYTES) {
            tfos__buffer_append(&node->report, at, bytes, NULL);
        }
        if (newline == NULL) {
            break;
        }
        if (tfos__buffer_append(&node->report, "", 1, NULL) == TFOS_OK) {
            take_report(node, (const char *)node->report.data);
        }
        node->report.size = 0;
        at = newline + 1;
    }
}

static int open_report(tfos__node *node)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return -1;
    }
    uv_pipe_init(&node->loop, &node->report_pipe, 0);
    node->report_pipe.data = node;
    node->report_open = true;
    int code = uv_pipe_open(&node->report_pipe, pair[0]);
    code = code == 0 ? uv_read_start((uv_stream_t *)&node->report_pipe, give_buffer, on_report) : code;
    if (code != 0) {
        tfos__node_report_close(node);
        close(pair[1]);
        errno = -code;
        return -1;
    }
    return pair[1];
}

/* ---- the start ---- */

/* Letters, digits, '-', '_' and '.' of a name stay; it becomes part of a file's name. */
static void make_harmless(char *name)
{
    for (; *name != '\0'; name++) {
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", *name) == NULL) {
            *name = '_';
        }
    }
}

static void open_log(tfos__node *node)
{
    char name[192];
    char folder[PATH_MAX];
    char path[PATH_MAX + 256];
    int64_t most_bytes;
    int64_t most_files;
    tfos_error error;
    snprintf(name, sizeof name, "tfos-%s-%s-%llu.log", node->orders.cluster, node->assignment.role,
             (unsigned long long)node->assignment.task);
    make_harmless(name);
    bool resolved = realpath(node->orders.work_folder, folder) != NULL;
    snprintf(path, sizeof path, "%s/%s", resolved ? folder : node->orders.work_folder, name);
    if (tfos__setting_choose(TFOS__SETTING_NODE_LOG_BYTES, -1, -1, &most_bytes, &error) != TFOS_OK ||
        tfos__setting_choose(TFOS__SETTING_NODE_LOG_FILES, -1, -1, &most_files, &error) != TFOS_OK ||
        tfos__log_file_open(&node->journal->file, path, most_bytes, most_files, &error) != TFOS_OK) {
        tfos__node_note(node, "the output of the program is not kept on this host: %s", error.message);
    }
}

static tfos_status order_child(tfos__node *node, tfos__words *arguments, const tfos__words *environment,
                               tfos__keeper_order *order, tfos_error *error)
{
    order->slot = TFOS__KEEPER_CHILD;
    order->environment = (const char *const *)environment->at;
    if (node->assignment.native) {
        TFOS_TRY(tfos__words_add(arguments, "tfos", 4, error));
        TFOS_TRY(tfos__words_add(arguments, "ps", 2, error));
        TFOS_TRY(tfos__words_add(arguments, "--python", 8, error));
        TFOS_TRY(tfos__words_add(arguments, node->orders.program.at[0], strlen(node->orders.program.at[0]), error));
        order->file = "/proc/self/exe"; /* the keeper is this program, too, even when its file is gone by now */
        order->arguments = (const char *const *)arguments->at;
        snprintf(node->child_program, sizeof node->child_program, "tfos ps");
    } else {
        bool ours = strcmp(node->orders.program.at[0], "tfos") == 0; /* a command of this program */
        order->file = ours ? "/proc/self/exe" : node->orders.program.at[0];
        order->arguments = (const char *const *)node->orders.program.at;
        snprintf(node->child_program, sizeof node->child_program, "%s", node->orders.program.at[0]);
    }
    order->files[0] = tfos__node_output_open(node, TFOS__JOURNAL_OUT);
    order->files[1] = tfos__node_output_open(node, TFOS__JOURNAL_ERR);
    order->files[TFOS__CHILD_PAYLOAD_FILE - 1] = node->orders.payload;
    order->files[TFOS__CHILD_REPORT_FILE - 1] = open_report(node);
    order->files[TFOS__CHILD_GROUP_FILE - 1] = tfos__node_group_child(node, error);
    order->files[TFOS__CHILD_RESULT_FILE - 1] = tfos__node_result_file(node);
    order->file_count = TFOS__CHILD_RESULT_FILE;
    if (node->feed != NULL) {
        order->files[TFOS__CHILD_FEED_FILE - 1] = tfos__node_feed_child(node, error);
        order->file_count = TFOS__CHILD_FEED_FILE;
    }
    for (size_t i = 0; i < order->file_count; i++) {
        if (order->files[i] < 0) {
            return tfos__fail_errno(error, errno, "cannot make pipes for the program");
        }
    }
    return tfos__keeper_start(&node->keeper, order, error);
}

static tfos_status start_child(tfos__node *node, tfos__words *environment, tfos_error *error)
{
    tfos__words arguments = {0};
    tfos__keeper_order order = {.files = {-1, -1, -1, -1, -1, -1, -1}};
    TFOS_TRY(tfos__environment_make((const char *const *)environ, &node->orders, &node->assignment, node->port.number,
                                    node->journal->file.path, environment, error));
    if ((node->orders.flags & TFOS__FLAG_KEEP_PORT) == 0) {
        tfos__port_release(&node->port);
    }
    node->memory_before = tfos__memory_state_read("");
    tfos_status status = order_child(node, &arguments, environment, &order, error);
    /* Our copies of the child's ends: the output must end when the child does. */
    for (size_t i = 0; i < order.file_count; i++) {
        if (order.files[i] >= 0) {
            close(order.files[i]);
        }
    }
    node->orders.payload = -1;
    tfos__words_reset(&arguments);
    return status;
}

static void give_up_child(tfos__node *node, const char *why)
{
    snprintf(node->child_problem, sizeof node->child_problem, "%s", why);
    node->child_over = true;
    for (int source = 0; source < TFOS__JOURNAL_SOURCES; source++) {
        tfos__node_output_close(node, (tfos__journal_source)source);
    }
    tfos__node_report_close(node);
    tfos__keeper_end(&node->keeper);
    tfos__node_look_whether_gone(node);
}

void tfos__node_child_begin(tfos__node *node)
{
    tfos_error error;
    tfos__words environment = {0};
    node->phase = TFOS__LIFE_STARTING;
    open_log(node);
    tfos__node_send_state(node, TFOS__NODE_STARTING);
    if (start_child(node, &environment, &error) != TFOS_OK) {
        give_up_child(node, error.message);
    } else if (node->orders.tensorboard.count > 0 && tfos__assignment_is_chief(&node->assignment)) {
        tfos__node_tensorboard_begin(node, &environment);
    }
    tfos__words_reset(&environment);
}

void tfos__node_child_event(tfos__node *node, const tfos__keeper_event *event)
{
    char why[512];
    tfos__memory_state memory;
    switch (event->kind) {
    case TFOS__KEEPER_STARTED:
        node->phase = TFOS__LIFE_CHILD;
        node->child_pid = event->pid;
        (void)!write(STDOUT_FILENO, "running\n", 8);
        tfos__node_send_state(node, node->stage == TFOS__STAGE_NONE ? TFOS__NODE_RUNNING : TFOS__NODE_STOPPING);
        break;
    case TFOS__KEEPER_FAILED:
        snprintf(why, sizeof why, "cannot start the program '%s': %s", node->child_program, strerror(event->value));
        give_up_child(node, why);
        break;
    case TFOS__KEEPER_ENDED:
        memory = tfos__memory_state_read("");
        node->memory_killed = memory.known && node->memory_before.known && memory.kills > node->memory_before.kills;
        node->memory_limit = memory.limit_bytes;
        node->child_ended = true;
        node->child_over = true;
        node->child_status = event->value;
        tfos__node_feed_end(node);
        tfos__node_group_end(node);
        tfos__node_look_whether_gone(node);
        break;
    default:
        break;
    }
}
