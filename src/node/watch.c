/* What a node watches: its executor, its stdin, SIGTERM, its keeper. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "base/status.h"
#include "node/state.h"
#include "service/pidfd.h"

/* ---- the executor ---- */

static void lose_executor(tfos__node *node)
{
    if (!node->executor_dead) {
        node->executor_dead = true;
        uv_timer_stop(&node->executor_timer);
        tfos__node_kill(node, TFOS__CAUSE_EXECUTOR, "the executor, process %ld, died", (long)node->executor_pid);
    }
}

static void on_executor(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    uv_poll_stop(poll);
    lose_executor(poll->data);
}

/* Whether the process with the executor's number is still the executor. */
static bool executor_lives(const tfos__node *node)
{
    tfos__process process;
    return getppid() == node->executor_pid && tfos__process_read(node->executor_pid, &process) &&
           process.start == node->executor_start;
}

static void on_look(uv_timer_t *timer)
{
    tfos__node *node = timer->data;
    if (!executor_lives(node)) {
        lose_executor(node);
    }
}

static tfos_status watch_executor(tfos__node *node, tfos_error *error)
{
    int64_t with_pidfd;
    tfos__process process;
    TFOS_TRY(tfos__setting_choose(TFOS__SETTING_NODE_PIDFD, -1, -1, &with_pidfd, error));
    node->executor_pid = node->orders.executor_pid != 0 ? node->orders.executor_pid : getppid();
    int file = with_pidfd != 0 ? tfos__pidfd_open(node->executor_pid) : -1;
    bool found = tfos__process_read(node->executor_pid, &process);
    node->executor_start = process.start;
    /* Only now: had it died before, its number might have been given to another process. */
    if (!found || getppid() != node->executor_pid) {
        return tfos__fail(error, TFOS_INVALID,
                          "the orders name process %ld as the executor, but the parent of this process is %ld: the "
                          "executor died, or this command was not started by it",
                          (long)node->executor_pid, (long)getppid());
    }
    node->executor_poll.data = node;
    if (file >= 0 && uv_poll_init(&node->loop, &node->executor_poll, file) == 0 &&
        uv_poll_start(&node->executor_poll, UV_READABLE, on_executor) == 0) {
        return TFOS_OK;
    }
    uv_timer_start(&node->executor_timer, on_look, TFOS__NODE_POLL_MS, TFOS__NODE_POLL_MS);
    return TFOS_OK;
}

/* ---- stdin ---- */

static void on_cancel(uv_timer_t *timer)
{
    tfos__node *node = timer->data;
    if (!node->executor_dead) {
        tfos__node_stop(node, TFOS__CAUSE_CANCELLED, 0, "stdin ended: the Spark task was cancelled");
    }
}

/* The task says D and goes on, or its end of the pipe closes. A process that dies closes its files before it is known
 * to be dead, so it is waited for a moment. */
static void on_input(uv_poll_t *poll, int status, int events)
{
    tfos__node *node = poll->data;
    char bytes[64];
    (void)status;
    (void)events;
    ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (count > 0 && memchr(bytes, 'D', (size_t)count) == NULL) {
        return;
    }
    uv_poll_stop(poll);
    if (count > 0) {
        node->detached = true;
    } else {
        uv_timer_start(&node->cancel_timer, on_cancel, TFOS__NODE_CANCEL_MS, 0);
    }
}

/* ---- the keeper ---- */

/* Kills and waits for what the keeper has left to us, until nothing is there. */
static void on_sweep(uv_timer_t *timer)
{
    tfos__node *node = timer->data;
    int status;
    pid_t pid;
    tfos__processes_kill_below(&node->scratch);
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == node->child_pid && !node->child_ended) {
            node->child_ended = true;
            node->child_status = status;
        }
    }
    bool all_gone = pid < 0 && errno == ECHILD;
    if (all_gone || uv_now(&node->loop) - node->sweep_ms > TFOS__NODE_CLEAR_MS) {
        uv_timer_stop(timer);
        if (!all_gone) {
            tfos__node_note(node, "some processes of the program do not die; they are left to the system");
        }
        node->gone = true;
        node->child_over = true;
        if (node->phase < TFOS__LIFE_STARTING) {
            tfos__node_stop(node, TFOS__CAUSE_STOP, 0, "the keeper was killed");
        }
        tfos__node_look_whether_gone(node);
    }
}

static void lose_keeper(tfos__node *node)
{
    enum { EVERY_MS = 10 };
    node->keeper_dead = true;
    uv_poll_stop(&node->keeper_poll);
    if (!node->child_over) {
        snprintf(node->child_problem, sizeof node->child_problem,
                 "the keeper of the program, process %ld, was killed, and the program with it", (long)node->keeper.pid);
        tfos__node_note(node, "%s", node->child_problem);
    }
    node->sweep_ms = uv_now(&node->loop);
    uv_timer_start(&node->sweep_timer, on_sweep, 0, EVERY_MS);
}

static void on_keeper(uv_poll_t *poll, int status, int events)
{
    tfos__node *node = poll->data;
    tfos__keeper_event event;
    (void)status;
    (void)events;
    tfos_status next = tfos__keeper_next(&node->keeper, &event, NULL);
    for (; next == TFOS_OK; next = tfos__keeper_next(&node->keeper, &event, NULL)) {
        if (event.kind == TFOS__KEEPER_GONE) {
            node->gone = true;
            if (event.value > 0) {
                tfos__node_note(node, "%d processes of the program do not die", event.value);
            }
            tfos__node_look_whether_gone(node);
        } else if (event.slot == TFOS__KEEPER_CHILD) {
            tfos__node_child_event(node, &event);
        } else if (event.slot == TFOS__KEEPER_TENSORBOARD) {
            tfos__node_tensorboard_event(node, &event);
        } else {
            tfos__node_gpus_event(node, &event);
        }
    }
    if (next != TFOS_END) {
        lose_keeper(node);
    }
}

/* ---- all of them ---- */

static void on_term(uv_signal_t *handle, int number)
{
    (void)number;
    tfos__node_stop(handle->data, TFOS__CAUSE_STOP, 0, "the node got SIGTERM");
}

tfos_status tfos__node_watch_begin(tfos__node *node, tfos_error *error)
{
    TFOS_TRY(watch_executor(node, error));
    node->input_poll.data = node;
    node->keeper_poll.data = node;
    node->term_signal.data = node;
    int code = uv_poll_init(&node->loop, &node->input_poll, STDIN_FILENO);
    code = code == 0 ? uv_poll_start(&node->input_poll, UV_READABLE | UV_DISCONNECT, on_input) : code;
    code = code == 0 ? uv_poll_init(&node->loop, &node->keeper_poll, node->keeper.socket) : code;
    code = code == 0 ? uv_poll_start(&node->keeper_poll, UV_READABLE, on_keeper) : code;
    code = code == 0 ? uv_signal_init(&node->loop, &node->term_signal) : code;
    code = code == 0 ? uv_signal_start(&node->term_signal, on_term, SIGTERM) : code;
    return code == 0 ? TFOS_OK : tfos__fail_errno(error, -code, "cannot watch stdin, the keeper and SIGTERM");
}
