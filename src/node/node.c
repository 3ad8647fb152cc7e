/* The life of a node:
 *
 *   orders → GPUs → registered → role → child → everything below the keeper gone → ENDED → BYE
 *
 * From any point it may be told to stop, or lose its executor, its coordinator or its keeper. There is one way out for
 * all of them: everything below the keeper is ended first, then the coordinator is told, if there is one. */
#include "node/node.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "base/status.h"
#include "node/state.h"
#include "service/note.h"

void tfos__node_note(tfos__node *node, const char *format, ...)
{
    char line[TFOS_ERROR_MESSAGE_BYTES + 512] = "tfos: ";
    size_t used = strlen(line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + used, sizeof line - used, format, arguments);
    va_end(arguments);
    tfos__note("%s", line + used);
    tfos__journal_note(node->journal, (int64_t)uv_now(&node->loop), line);
    tfos__node_journal_schedule(node);
}

/* For the Spark task, which may be gone. */
static void say(const char *line)
{
    (void)!write(STDOUT_FILENO, line, strlen(line));
}

/* ---- the end ---- */

void tfos__node_leave(tfos__node *node)
{
    uv_stop(&node->loop);
}

static void on_leave(uv_timer_t *timer)
{
    tfos__node_leave(timer->data);
}

static void say_ended(const tfos__node *node)
{
    char line[64];
    snprintf(line, sizeof line, "ended %s\n", tfos__outcome_name(node->outcome));
    say(line);
}

void tfos__node_done(tfos__node *node, tfos__node_exit code)
{
    enum { GOOD_BYE_MS = 1000 };
    tfos__message bye;
    if (node->phase == TFOS__LIFE_DONE) {
        return;
    }
    node->phase = TFOS__LIFE_DONE;
    node->exit = code;
    say_ended(node);
    if (!node->link_ready) {
        tfos__node_leave(node);
        return;
    }
    tfos__message_init(&bye, TFOS__MESSAGE_BYE);
    tfos__node_send(node, &bye);
    uv_timer_start(&node->bye_timer, on_leave, GOOD_BYE_MS, 0);
    tfos__link_close(node->link);
}

static void on_no_bye(uv_timer_t *timer)
{
    tfos__node *node = timer->data;
    tfos__node_note(node, "the coordinator did not confirm that it knows how the program ended");
    tfos__node_done(node, node->executor_dead ? TFOS__NODE_EXIT_EXECUTOR_LOST : TFOS__NODE_EXIT_COORDINATOR_LOST);
}

static void wait_for_bye(tfos__node *node)
{
    uv_timer_start(&node->bye_timer, on_no_bye, node->executor_dead ? TFOS__NODE_BYE_ORPHAN_MS : TFOS__NODE_BYE_MS, 0);
}

static tfos__node_exit exit_of(const tfos__node *node)
{
    if (node->cause == TFOS__CAUSE_REFUSED) {
        return TFOS__NODE_EXIT_REFUSED;
    }
    if (node->cause == TFOS__CAUSE_COORDINATOR) {
        return TFOS__NODE_EXIT_COORDINATOR_LOST;
    }
    switch (node->outcome) {
    case TFOS__OUTCOME_FINISHED:
    case TFOS__OUTCOME_STOPPED:
        return TFOS__NODE_EXIT_OK;
    case TFOS__OUTCOME_EXECUTOR_LOST:
        return TFOS__NODE_EXIT_EXECUTOR_LOST;
    case TFOS__OUTCOME_CANCELLED:
        return TFOS__NODE_EXIT_CANCELLED;
    default:
        return TFOS__NODE_EXIT_FAILED;
    }
}

void tfos__node_report_end(tfos__node *node)
{
    wait_for_bye(node);
    tfos__node_send_ended(node);
}

/* Nothing is left below us: the rest is to tell the coordinator. */
static void finish(tfos__node *node)
{
    uv_timer_stop(&node->stop_timer);
    uv_timer_stop(&node->drain_timer);
    uv_timer_stop(&node->cancel_timer);
    tfos__node_decide_outcome(node);
    tfos__journal_flush(node->journal, (int64_t)uv_now(&node->loop));
    tfos__journal_tail(node->journal, &node->tail, NULL);
    node->exit = exit_of(node);
    node->phase = TFOS__LIFE_REPORTING;
    /* A coordinator that has never heard of this node has nothing to hear of its end. */
    if (node->cause == TFOS__CAUSE_REFUSED || node->cause == TFOS__CAUSE_COORDINATOR || !node->connected) {
        tfos__node_done(node, node->exit);
        return;
    }
    if (!tfos__node_result_send(node)) {
        tfos__node_report_end(node);
    }
}

static void on_drained(uv_timer_t *timer)
{
    tfos__node *node = timer->data;
    if (!node->gone) {
        node->gone = true;
        tfos__node_note(node, "some processes of the program do not die; they are left to their keeper");
    }
    for (int source = 0; source < TFOS__JOURNAL_SOURCES; source++) {
        tfos__node_output_close(node, (tfos__journal_source)source);
    }
    tfos__node_report_close(node);
    tfos__node_look_whether_gone(node);
}

void tfos__node_look_whether_gone(tfos__node *node)
{
    if (node->phase < TFOS__LIFE_STARTING || node->phase > TFOS__LIFE_CHILD || !node->child_over) {
        return;
    }
    bool open = node->report_open;
    for (int source = 0; source < TFOS__JOURNAL_SOURCES; source++) {
        open |= node->output[source].open;
    }
    if (node->gone && !open) {
        finish(node);
    } else if (node->gone || uv_is_active((uv_handle_t *)&node->drain_timer) == 0) {
        uv_timer_start(&node->drain_timer, on_drained, node->gone ? TFOS__NODE_DRAIN_MS : TFOS__NODE_CLEAR_MS, 0);
    }
}

/* ---- stopping ---- */

/* The keeper does not do its work; it may have been stopped (SIGSTOP). Without it, what is below it is ours. */
static void on_idle_keeper(uv_timer_t *timer)
{
    tfos__node *node = timer->data;
    if (!node->child_over && !node->keeper_dead) {
        kill(node->keeper.pid, SIGKILL);
    }
}

static void kill_now(tfos__node *node)
{
    node->stage = TFOS__STAGE_KILL;
    uv_timer_start(&node->stop_timer, on_idle_keeper, TFOS__NODE_CLEAR_MS, 0);
    if (!node->keeper_dead) {
        tfos__keeper_end(&node->keeper);
    }
}

static void on_stop(uv_timer_t *timer)
{
    tfos__node *node = timer->data;
    if (node->child_over) {
        return;
    }
    if (node->stage == TFOS__STAGE_GRACE && node->kill_ms > 0) {
        node->stage = TFOS__STAGE_TERM;
        node->stop_ms = uv_now(&node->loop) + (uint64_t)node->kill_ms;
        tfos__keeper_signal(&node->keeper, TFOS__KEEPER_CHILD, SIGTERM);
        uv_timer_start(&node->stop_timer, on_stop, (uint64_t)node->kill_ms, 0);
    } else {
        kill_now(node);
    }
}

/* What came first stays, but nobody can be told once there is nobody to tell; and a child that has ended has ended.
 * Whether there is something to note: that comes after the signals, because it writes to files. */
__attribute__((format(printf, 3, 0))) static bool take_cause(tfos__node *node, tfos__node_cause cause,
                                                             const char *format, va_list arguments)
{
    bool nobody_to_tell = cause == TFOS__CAUSE_REFUSED || cause == TFOS__CAUSE_COORDINATOR;
    bool replaces = cause == TFOS__CAUSE_EXECUTOR && node->cause < TFOS__CAUSE_EXECUTOR && !node->child_over;
    bool first = node->cause == TFOS__CAUSE_NONE && !node->child_over;
    if (node->phase >= TFOS__LIFE_REPORTING || !(nobody_to_tell || replaces || first)) {
        return false;
    }
    node->cause = cause;
    vsnprintf(node->cause_text, sizeof node->cause_text, format, arguments);
    return cause != TFOS__CAUSE_STOP;
}

static bool has_child(const tfos__node *node)
{
    return node->phase >= TFOS__LIFE_STARTING && node->phase <= TFOS__LIFE_CHILD && !node->child_over;
}

static void note_cause(tfos__node *node, bool is_new)
{
    if (is_new) {
        tfos__node_note(node, "%s", node->cause_text);
    }
}

/* A node that never had a child has nothing to wait for. */
static void end_without_child(tfos__node *node)
{
    if (node->phase < TFOS__LIFE_STARTING) {
        finish(node);
    }
}

static void stop_child(tfos__node *node, uint64_t grace_ms)
{
    uint64_t most_ms = UINT64_C(365) * 24 * 3600 * 1000;
    uint64_t due = uv_now(&node->loop) + (grace_ms < most_ms ? grace_ms : most_ms);
    if (node->stage == TFOS__STAGE_NONE) {
        node->stage = TFOS__STAGE_GRACE;
        tfos__node_send_state(node, TFOS__NODE_STOPPING);
    } else if (node->stage != TFOS__STAGE_GRACE || due >= node->stop_ms) {
        return;
    }
    node->stop_ms = due;
    if (grace_ms == 0) {
        on_stop(&node->stop_timer);
    } else {
        uv_timer_start(&node->stop_timer, on_stop, due - uv_now(&node->loop), 0);
    }
}

void tfos__node_stop(tfos__node *node, tfos__node_cause cause, uint64_t grace_ms, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool is_new = take_cause(node, cause, format, arguments);
    va_end(arguments);
    if (has_child(node)) {
        stop_child(node, grace_ms);
        note_cause(node, is_new);
    } else {
        note_cause(node, is_new);
        end_without_child(node);
        tfos__node_result_hurry(node);
    }
}

void tfos__node_kill(tfos__node *node, tfos__node_cause cause, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bool is_new = take_cause(node, cause, format, arguments);
    va_end(arguments);
    if (has_child(node)) {
        if (node->stage != TFOS__STAGE_KILL) {
            kill_now(node);
        }
        note_cause(node, is_new);
        return;
    }
    note_cause(node, is_new);
    if (node->phase == TFOS__LIFE_REPORTING) {
        if (cause == TFOS__CAUSE_EXECUTOR) {
            wait_for_bye(node);
        } else {
            tfos__node_done(node, TFOS__NODE_EXIT_COORDINATOR_LOST);
        }
    } else {
        end_without_child(node);
    }
}

/* ---- the beginning ---- */

static tfos_status read_settings(tfos__node *node, int64_t *log_lines, tfos_error *error)
{
    TFOS_TRY(tfos__setting_choose(TFOS__SETTING_CLUSTER_BEAT_MS, -1, -1, &node->beat_ms, error));
    TFOS_TRY(tfos__setting_choose(TFOS__SETTING_CLUSTER_LEASE_MS, -1, -1, &node->lease_ms, error));
    TFOS_TRY(tfos__setting_choose(TFOS__SETTING_NODE_KILL_MS, -1, -1, &node->kill_ms, error));
    TFOS_TRY(tfos__setting_choose(TFOS__SETTING_NODE_LOG_LINES, -1, -1, log_lines, error));
    if (node->orders.beat_ms > 0 && node->orders.beat_ms < INT32_MAX) {
        node->beat_ms = (int64_t)node->orders.beat_ms;
    }
    if (node->orders.lease_ms > 0 && node->orders.lease_ms < INT32_MAX) {
        node->lease_ms = (int64_t)node->orders.lease_ms;
    }
    return TFOS_OK;
}

static void init_timers(tfos__node *node)
{
    uv_timer_t *const timers[] = {
        &node->sweep_timer, &node->executor_timer, &node->cancel_timer,      &node->retry_timer,
        &node->beat_timer,  &node->drain_timer,    &node->journal_timer,     &node->stop_timer,
        &node->bye_timer,   &node->tool.timer,     &node->tensorboard.timer, &node->result.timer,
    };
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++) {
        uv_timer_init(&node->loop, timers[i]);
        timers[i]->data = node;
    }
}

static tfos_status reserve_port(tfos__node *node, tfos_error *error)
{
    static const char name[] = "TENSORFLOW_PORT";
    if ((node->orders.flags & TFOS__FLAG_PARALLEL) != 0) {
        return TFOS_OK;
    }
    const char *wanted = tfos__words_variable(&node->orders.environment, name);
    wanted = wanted != NULL ? wanted : getenv(name);
    tfos_status status = tfos__port_reserve(wanted, &node->port, error);
    if (status != TFOS_OK && wanted != NULL && wanted[0] != '\0') {
        tfos__error_prefix(error, "the environment variable %s", name);
    }
    return status;
}

static tfos_status begin(tfos__node *node, tfos_error *error)
{
    int64_t log_lines;
    TFOS_TRY(read_settings(node, &log_lines, error));
    int code = uv_loop_init(&node->loop);
    if (code != 0) {
        return tfos__fail_errno(error, -code, "cannot make an event loop");
    }
    init_timers(node);
    TFOS_TRY(tfos__node_result_begin(node, error));
    node->journal = tfos__journal_new(log_lines, (int64_t)uv_now(&node->loop), error);
    if (node->journal == NULL) {
        return error->status;
    }
    node->journal->send = tfos__node_send_log;
    node->journal->context = node;
    snprintf(node->journal->host, sizeof node->journal->host, "%s", node->orders.node_host);
    TFOS_TRY(tfos__tls_context_new(TFOS__TLS_CLIENT, node->orders.key, TFOS__LINK_PURPOSE, &node->tls, error));
    tfos_status status = tfos__node_group_begin(node, error);
    status = status == TFOS_OK && tfos__orders_are_fed(&node->orders) ? tfos__node_feed_begin(node, error) : status;
    tfos__secret_wipe(node->orders.key, sizeof node->orders.key);
    TFOS_TRY(status);
    TFOS_TRY(tfos__node_watch_begin(node, error));
    TFOS_TRY(reserve_port(node, error));
    return TFOS_OK;
}

/* The keeper has nothing left to do but to exit; a machine under load gets a little time for that. */
static void let_keeper_go(tfos__node *node)
{
    enum { PATIENCE_MS = 2000 };
    tfos__keeper_close(&node->keeper);
    for (int waited = 0; waited < PATIENCE_MS; waited++) {
        if (waitpid(node->keeper.pid, NULL, WNOHANG) != 0) {
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static bool is_pipe(int file)
{
    struct stat info;
    return fstat(file, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
}

static tfos__node_exit fail(const tfos_error *error, tfos__node_exit code)
{
    tfos__note("%s", error->message);
    return code;
}

tfos__node_exit tfos__node_run(void)
{
    /* What it holds is in use until the process ends, and goes with it. */
    static tfos__node node;
    tfos_error error;
    if (!is_pipe(STDIN_FILENO)) {
        tfos__fail(
            &error, TFOS_INVALID,
            "`tfos node` is started by Spark tasks and reads its orders from a pipe on stdin; call TFCluster.run "
            "in a Spark application instead");
        return fail(&error, TFOS__NODE_EXIT_ORDERS);
    }
    signal(SIGPIPE, SIG_IGN);
    /* Ctrl-C in a terminal goes to all processes of an application in local mode; the driver decides what it means. */
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    node.unseen_end = &node.unseen;
    node.port = TFOS__PORT_NONE;
    node.tensorboard.port = TFOS__PORT_NONE;
    if (tfos__keeper_open(&node.keeper, &error) != TFOS_OK) {
        return fail(&error, TFOS__NODE_EXIT_SYSTEM);
    }
    tfos__node_exit code = TFOS__NODE_EXIT_OK;
    if (tfos__orders_read(STDIN_FILENO, TFOS__NODE_ORDERS_MS, &node.orders, &error) != TFOS_OK) {
        code = fail(&error, TFOS__NODE_EXIT_ORDERS);
    } else if (begin(&node, &error) != TFOS_OK) {
        code = fail(&error, error.status == TFOS_INVALID ? TFOS__NODE_EXIT_ORDERS : TFOS__NODE_EXIT_SYSTEM);
    } else {
        tfos__node_gpus_begin(&node);
        uv_run(&node.loop, UV_RUN_DEFAULT);
        code = node.exit;
    }
    tfos__feed_leave_far(&node);
    let_keeper_go(&node);
    return code;
}
