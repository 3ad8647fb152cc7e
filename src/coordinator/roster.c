/* The roster's story: nodes come (WAITING), all have their roles (RUNNING), somebody fails or the work is done
 * (STOPPING), everybody is gone (OVER). There is one failure: the first. What ends afterwards ends because of it. */
#include "coordinator/roster.h"

#include <assert.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "coordinator/roster_state.h"

tfos_status tfos__roster_new(const tfos__roster_options *options, const tfos__roster_calls *calls, uint64_t now_ms,
                             tfos__roster **out, tfos_error *error)
{
    TFOS_TRY(tfos__roles_check(&options->roles, error));
    if ((options->flags & TFOS__FLAG_NATIVE_WORKERS) != 0 && options->roles.master[0] == '\0') {
        return tfos__fail(error, TFOS_INVALID,
                          "workers that are native servers need a master that gives them work; set master_node");
    }
    size_t bytes = sizeof(tfos__roster) + options->roles.nodes * sizeof(tfos__roster_node);
    tfos__roster *roster = calloc(1, bytes);
    if (roster == NULL) {
        return tfos__fail_memory(error, bytes);
    }
    roster->options = *options;
    roster->calls = *calls;
    roster->start_ms = now_ms;
    roster->slots = -1;
    *out = roster;
    return TFOS_OK;
}

void tfos__roster_free(tfos__roster *roster)
{
    if (roster == NULL) {
        return;
    }
    for (uint32_t i = 0; i < roster->options.roles.nodes; i++) {
        tfos__roster_node *node = &roster->node[i];
        free(node->host);
        free(node->executor);
        free(node->gpus);
        free(node->tail);
        free(node->url);
        free(node->ended);
        tfos__buffer_reset(&node->given);
    }
    free(roster->failure);
    free(roster);
}

void tfos__roster_name(const tfos__roster *roster, uint32_t index, char out[64])
{
    uint32_t task;
    const char *role = tfos__roles_at(&roster->options.roles, index, &task);
    tfos__node_name(role, task, out);
}

static bool has_ended(const tfos__roster_node *node)
{
    return node->state >= TFOS__NODE_FINISHED;
}

static const char *host_of(const tfos__roster_node *node)
{
    return node->host != NULL ? node->host : "";
}

/* ---- what the driver is told ---- */

static void tell_node(tfos__roster *roster, uint32_t index)
{
    const tfos__roster_node *node = &roster->node[index];
    char name[64];
    tfos__message message;
    tfos__roster_name(roster, index, name);
    tfos__message_init(&message, TFOS__MESSAGE_NODE);
    tfos__message_put_number(&message, TFOS__FIELD_INDEX, index);
    tfos__message_put_string(&message, TFOS__FIELD_NODE, name);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, host_of(node));
    tfos__message_put_number(&message, TFOS__FIELD_STATE, node->state);
    tfos__message_put_number(&message, TFOS__FIELD_TENSORBOARD_PID, node->url_pid);
    tfos__message_put_string(&message, TFOS__FIELD_TENSORBOARD_URL, node->url != NULL ? node->url : "");
    if (node->ended != NULL) {
        tfos__message_put_text(&message, TFOS__FIELD_TEXT, node->ended, strnlen(node->ended, TFOS__ENDED_BYTES));
    }
    roster->calls.to_driver(roster->calls.context, &message);
}

static struct json_object *describe(const tfos__roster *roster, uint32_t index)
{
    const tfos__roster_node *node = &roster->node[index];
    uint32_t task;
    const char *role = tfos__roles_at(&roster->options.roles, index, &task);
    struct json_object *object = json_object_new_object();
    json_object_object_add(object, "executor_id", json_object_new_int64(index));
    json_object_object_add(object, "job_name", json_object_new_string(role));
    json_object_object_add(object, "task_index", json_object_new_int64(task));
    json_object_object_add(object, "host", json_object_new_string(host_of(node)));
    json_object_object_add(object, "port", json_object_new_int64((int64_t)node->port));
    json_object_object_add(object, "pid", json_object_new_int64((int64_t)node->pid));
    json_object_object_add(object, "executor", json_object_new_string(node->executor != NULL ? node->executor : ""));
    const char *gpus = node->given.size > 0 ? (const char *)node->given.data : "";
    json_object_object_add(object, "gpus", json_object_new_string(gpus));
    return object;
}

static void tell_ready(tfos__roster *roster)
{
    struct json_object *list = json_object_new_array();
    for (uint32_t i = 0; i < roster->options.roles.nodes; i++) {
        json_object_array_add(list, describe(roster, i));
    }
    tfos__message message;
    size_t count = 0;
    const char *text = json_object_to_json_string_length(list, JSON_C_TO_STRING_NOSLASHESCAPE, &count);
    tfos__message_init(&message, TFOS__MESSAGE_READY);
    /* A cluster so large that its description does not fit is still a cluster: the driver can ask for the status. */
    bool fits = text != NULL && count <= 1 << 20;
    tfos__message_put_text(&message, TFOS__FIELD_JSON, fits ? text : "[]", fits ? count : 2);
    roster->calls.to_driver(roster->calls.context, &message);
    json_object_put(list);
}

/* ---- stopping ---- */

static void send_stop(tfos__roster *roster, uint32_t index, const char *reason, uint64_t grace_ms)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_STOP);
    tfos__message_put_number(&message, TFOS__FIELD_GRACE_MS, grace_ms);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, reason);
    roster->node[index].stop_sent = true;
    roster->calls.to_node(roster->calls.context, index, &message);
}

static void look_whether_over(tfos__roster *roster)
{
    bool stopping = roster->phase == TFOS__PHASE_STOPPING;
    for (uint32_t i = 0; i < roster->options.roles.nodes; i++) {
        const tfos__roster_node *node = &roster->node[i];
        /* Whoever never came is not waited for once we stop; and nobody comes any more. */
        if (!has_ended(node) && !(stopping && node->state == TFOS__NODE_ABSENT)) {
            return;
        }
    }
    if (roster->phase != TFOS__PHASE_OVER) {
        tfos__message message;
        roster->phase = TFOS__PHASE_OVER;
        tfos__message_init(&message, TFOS__MESSAGE_OVER);
        roster->calls.to_driver(roster->calls.context, &message);
    }
}

static void note_end(tfos__roster_node *node, tfos__node_state state, const char *text)
{
    node->state = state;
    free(node->ended);
    node->ended = strdup(text);
}

void tfos__roster_stop(tfos__roster *roster, const char *reason, uint64_t now_ms)
{
    if (roster->phase >= TFOS__PHASE_STOPPING) {
        return;
    }
    roster->phase = TFOS__PHASE_STOPPING;
    roster->stop_ms = now_ms;
    for (uint32_t i = 0; i < roster->options.roles.nodes; i++) {
        tfos__roster_node *node = &roster->node[i];
        if (node->state != TFOS__NODE_ABSENT && !has_ended(node)) {
            send_stop(roster, i, reason, 0); /* one that is not connected is told when it comes back */
        }
    }
    look_whether_over(roster);
}

static void tell_failure(tfos__roster *roster, uint32_t index, tfos__outcome outcome, uint64_t exit_code,
                         uint64_t signal, const char *text, const char *tail)
{
    const tfos__roster_node *node = &roster->node[index];
    char name[64];
    tfos__message message;
    tfos__roster_name(roster, index, name);
    tfos__message_init(&message, TFOS__MESSAGE_FAILED);
    tfos__message_put_number(&message, TFOS__FIELD_INDEX, index);
    tfos__message_put_string(&message, TFOS__FIELD_NODE, name);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, host_of(node));
    tfos__message_put_number(&message, TFOS__FIELD_OUTCOME, outcome);
    tfos__message_put_number(&message, TFOS__FIELD_EXIT_CODE, exit_code);
    tfos__message_put_number(&message, TFOS__FIELD_SIGNAL, signal);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, text);
    tfos__message_put_string(&message, TFOS__FIELD_TAIL, tail);
    roster->calls.to_driver(roster->calls.context, &message);
}

void tfos__roster_fail(tfos__roster *roster, uint32_t index, tfos__outcome outcome, uint64_t exit_code, uint64_t signal,
                       const char *text, const char *tail, uint64_t now_ms)
{
    if (roster->phase >= TFOS__PHASE_STOPPING) {
        return;
    }
    char name[64];
    tfos__buffer failure = {0};
    tfos__roster_name(roster, index, name);
    if (tfos__buffer_printf(&failure, NULL, "%s on %s %s%s%s", name, host_of(&roster->node[index]),
                            tfos__outcome_text(outcome), text[0] != '\0' ? ": " : "", text) == TFOS_OK) {
        free(roster->failure);
        roster->failure = strndup((const char *)failure.data, failure.size);
    }
    tfos__buffer_reset(&failure);
    tell_failure(roster, index, outcome, exit_code, signal, text, tail);
    char reason[160];
    snprintf(reason, sizeof reason, "%s %s", name, tfos__outcome_text(outcome));
    tfos__roster_stop(roster, reason, now_ms);
}

/* A node that is gone without having said so. */
static void lose(tfos__roster *roster, uint32_t index, tfos__outcome outcome, const char *text, uint64_t now_ms)
{
    tfos__roster_node *node = &roster->node[index];
    note_end(node, TFOS__NODE_LOST, text);
    tell_node(roster, index);
    tfos__roster_fail(roster, index, outcome, 0, 0, text, node->tail != NULL ? node->tail : "", now_ms);
    look_whether_over(roster);
}

/* ---- coming ---- */

static bool is_same_node(const tfos__roster_node *node, const tfos__message *message)
{
    tfos__text host = tfos__message_text(message, TFOS__FIELD_HOST);
    return node->pid == tfos__message_number(message, TFOS__FIELD_NODE_PID) && node->host != NULL &&
           strlen(node->host) == host.count && memcmp(node->host, host.at, host.count) == 0;
}

static tfos_status refuse_to_register(const tfos__roster *roster, const tfos__message *message, tfos_error *error)
{
    uint64_t index = tfos__message_number(message, TFOS__FIELD_INDEX);
    if (index >= roster->options.roles.nodes) {
        return tfos__fail(error, TFOS_INVALID, "this cluster has %" PRIu32 " nodes; there is no node %" PRIu64,
                          roster->options.roles.nodes, index);
    }
    if (tfos__message_number(message, TFOS__FIELD_ATTEMPT) != roster->options.attempt) {
        return tfos__fail(error, TFOS_INVALID, "this is attempt %" PRIu32 " of the cluster, not attempt %" PRIu64,
                          roster->options.attempt, tfos__message_number(message, TFOS__FIELD_ATTEMPT));
    }
    const tfos__roster_node *node = &roster->node[index];
    bool comes_back = tfos__message_number(message, TFOS__FIELD_RETURNS) != 0;
    if (has_ended(node) || (comes_back && node->state == TFOS__NODE_ABSENT)) {
        return tfos__fail(error, TFOS_CANCELLED, "this node has ended before");
    }
    /* A node that is being stopped may still need its connection: its program may be saving what it has. */
    if (roster->phase >= TFOS__PHASE_STOPPING && (node->state == TFOS__NODE_ABSENT || !is_same_node(node, message))) {
        return tfos__fail(error, TFOS_CANCELLED, "the cluster has been stopped");
    }
    return TFOS_OK;
}

static tfos_status enter(tfos__roster *roster, tfos__roster_node *node, const tfos__message *message, uint64_t now_ms,
                         tfos_error *error)
{
    char *host = tfos__message_duplicate(message, TFOS__FIELD_HOST);
    char *executor = tfos__message_duplicate(message, TFOS__FIELD_EXECUTOR);
    char *gpus = tfos__message_duplicate(message, TFOS__FIELD_GPUS);
    if (host == NULL || executor == NULL || gpus == NULL) {
        free(host);
        free(executor);
        free(gpus);
        return tfos__fail_memory(error, 1024);
    }
    free(node->host);
    free(node->executor);
    free(node->gpus);
    node->host = host;
    node->executor = executor;
    node->gpus = gpus;
    tfos__text source = tfos__message_text(message, TFOS__FIELD_GPU_SOURCE);
    node->gpus_by_spark = source.count == 5 && memcmp(source.at, "spark", 5) == 0;
    node->port = tfos__message_number(message, TFOS__FIELD_PORT);
    node->pid = tfos__message_number(message, TFOS__FIELD_NODE_PID);
    node->cores = tfos__message_number(message, TFOS__FIELD_CORES);
    node->since_ms = now_ms;
    node->state = TFOS__NODE_REGISTERED;
    roster->registered++;
    return TFOS_OK;
}

tfos_status tfos__roster_register(tfos__roster *roster, const tfos__message *message, uint64_t now_ms, uint32_t *index,
                                  tfos_error *error)
{
    TFOS_TRY(refuse_to_register(roster, message, error));
    uint32_t at = (uint32_t)tfos__message_number(message, TFOS__FIELD_INDEX);
    tfos__roster_node *node = &roster->node[at];
    if (node->state == TFOS__NODE_ABSENT) {
        TFOS_TRY(enter(roster, node, message, now_ms, error));
    } else if (!is_same_node(node, message)) {
        return tfos__fail(error, TFOS_EXISTS, "node %" PRIu32 " is there already, on %s", at, host_of(node));
    }
    node->connected = true;
    node->heard_ms = now_ms;
    *index = at;
    return TFOS_OK;
}

void tfos__roster_welcome(tfos__roster *roster, uint32_t index, uint64_t now_ms)
{
    tfos__roster_node *node = &roster->node[index];
    bool barrier = (roster->options.flags & TFOS__FLAG_BARRIER) != 0;
    tell_node(roster, index);
    if (node->stop_sent) {
        send_stop(roster, index, "the cluster stops", 0);
    } else if (node->assigned) {
        tfos__roster_assign_one(roster, index, now_ms); /* it may have missed it */
    } else if (roster->phase == TFOS__PHASE_WAITING) {
        tfos__roster_tell_progress(roster, now_ms);
        bool complete = roster->registered == roster->options.roles.nodes;
        if (complete) {
            roster->phase = TFOS__PHASE_RUNNING;
        }
        if (!barrier) {
            tfos__roster_assign_one(roster, index, now_ms);
        } else if (complete) {
            tfos__roster_assign(roster, now_ms);
        }
        if (complete && roster->phase == TFOS__PHASE_RUNNING) {
            tell_ready(roster);
        }
    }
}

/* ---- messages of nodes ---- */

/* Keeps the end of a node's log. */
static void keep_tail(tfos__roster_node *node, const char *text, size_t count)
{
    if (node->tail == NULL) {
        node->tail = malloc(TFOS__LOG_TAIL_BYTES + 1);
        node->tail_bytes = 0;
    }
    if (node->tail == NULL) {
        return;
    }
    if (count > TFOS__LOG_TAIL_BYTES) {
        text += count - TFOS__LOG_TAIL_BYTES;
        count = TFOS__LOG_TAIL_BYTES;
    }
    size_t keep = TFOS__LOG_TAIL_BYTES - count;
    keep = keep < node->tail_bytes ? keep : node->tail_bytes;
    memmove(node->tail, node->tail + node->tail_bytes - keep, keep);
    memcpy(node->tail + keep, text, count);
    node->tail_bytes = keep + count;
    node->tail[node->tail_bytes] = '\0';
}

static void hear_log(tfos__roster *roster, uint32_t index, const tfos__message *message)
{
    tfos__roster_node *node = &roster->node[index];
    uint64_t sequence = tfos__message_number(message, TFOS__FIELD_SEQUENCE);
    if (sequence != 0 && sequence <= node->sequence) {
        return; /* sent again after a reconnect */
    }
    node->sequence = sequence;
    tfos__text text = tfos__message_text(message, TFOS__FIELD_TEXT);
    keep_tail(node, text.at, text.count);
    tfos__message output;
    char name[64];
    tfos__roster_name(roster, index, name);
    tfos__message_init(&output, TFOS__MESSAGE_OUTPUT);
    tfos__message_put_number(&output, TFOS__FIELD_INDEX, index);
    tfos__message_put_string(&output, TFOS__FIELD_NODE, name);
    tfos__message_put_string(&output, TFOS__FIELD_HOST, host_of(node));
    tfos__message_put_text(&output, TFOS__FIELD_TEXT, text.at, text.count);
    tfos__message_put_number(&output, TFOS__FIELD_STREAM, tfos__message_number(message, TFOS__FIELD_STREAM));
    roster->calls.to_driver(roster->calls.context, &output);
}

static void hear_beat(tfos__roster *roster, uint32_t index, const tfos__message *message, uint64_t now_ms)
{
    tfos__roster_node *node = &roster->node[index];
    uint64_t cpu_ms = tfos__message_number(message, TFOS__FIELD_CPU_MS);
    if (node->cpu_at_ms != 0 && now_ms > node->cpu_at_ms && cpu_ms >= node->cpu_ms) {
        node->cpu_share = (double)(cpu_ms - node->cpu_ms) / (double)(now_ms - node->cpu_at_ms);
    }
    node->cpu_ms = cpu_ms;
    node->cpu_at_ms = now_ms;
    node->rss_bytes = tfos__message_number(message, TFOS__FIELD_RSS_BYTES);
    tfos__message answer;
    tfos__message_init(&answer, TFOS__MESSAGE_ALIVE);
    roster->calls.to_node(roster->calls.context, index, &answer);
}

/* Whether the cluster's work is done when this node has ended. Servers never end by themselves. */
static bool is_waited_for(const tfos__roster *roster, uint32_t index)
{
    uint32_t task;
    const char *role = tfos__roles_at(&roster->options.roles, index, &task);
    bool is_server = (roster->options.flags & TFOS__FLAG_NATIVE_WORKERS) != 0 && strcmp(role, "worker") == 0;
    return tfos__roles_is_worker(&roster->options.roles, index) && !is_server;
}

static void look_whether_done(tfos__roster *roster, uint64_t now_ms)
{
    for (uint32_t i = 0; i < roster->options.roles.nodes; i++) {
        if (is_waited_for(roster, i) && roster->node[i].state != TFOS__NODE_FINISHED) {
            return;
        }
    }
    if (roster->workers_done_ms == 0) {
        roster->workers_done_ms = now_ms;
    }
    if (roster->finish && now_ms - roster->workers_done_ms >= roster->finish_grace_ms) {
        tfos__roster_stop(roster, "the workers have finished", now_ms);
    }
}

/* An executor was lost before anything began: Spark runs its task again elsewhere, so the node will come again. */
static void leave_again(tfos__roster *roster, uint32_t index, uint64_t now_ms)
{
    tfos__roster_node *node = &roster->node[index];
    free(node->url);
    tfos__buffer_reset(&node->given);
    /* Whoever comes next begins anew; of this one only the host stays, to be shown. */
    *node = (tfos__roster_node){
        .host = node->host, .executor = node->executor, .gpus = node->gpus, .tail = node->tail, .ended = node->ended};
    if (node->tail != NULL) {
        node->tail[0] = '\0';
    }
    roster->registered--;
    tell_node(roster, index);
    tfos__roster_tell_progress(roster, now_ms);
}

static void hear_ended(tfos__roster *roster, uint32_t index, const tfos__message *message, uint64_t now_ms)
{
    tfos__roster_node *node = &roster->node[index];
    tfos__message bye;
    tfos__message_init(&bye, TFOS__MESSAGE_BYE);
    roster->calls.to_node(roster->calls.context, index, &bye);
    if (has_ended(node)) {
        return;
    }
    tfos__outcome outcome = (tfos__outcome)tfos__message_number(message, TFOS__FIELD_OUTCOME);
    if (outcome == TFOS__OUTCOME_EXECUTOR_LOST && roster->phase == TFOS__PHASE_WAITING && !node->assigned) {
        leave_again(roster, index, now_ms);
        return;
    }
    char *text = tfos__message_duplicate(message, TFOS__FIELD_TEXT);
    char *tail = tfos__message_duplicate(message, TFOS__FIELD_TAIL);
    const char *how = text != NULL && text[0] != '\0' ? text : tfos__outcome_text(outcome);
    bool asked = node->stop_sent && outcome != TFOS__OUTCOME_FINISHED;
    note_end(node,
             outcome == TFOS__OUTCOME_FINISHED        ? TFOS__NODE_FINISHED
             : asked                                  ? TFOS__NODE_STOPPED
             : outcome == TFOS__OUTCOME_EXECUTOR_LOST ? TFOS__NODE_LOST
                                                      : TFOS__NODE_FAILED,
             how);
    tell_node(roster, index);
    if (outcome != TFOS__OUTCOME_FINISHED && !asked) {
        tfos__roster_fail(roster, index, outcome, tfos__message_number(message, TFOS__FIELD_EXIT_CODE),
                          tfos__message_number(message, TFOS__FIELD_SIGNAL), text != NULL ? text : "",
                          tail != NULL ? tail : "", now_ms);
    }
    free(text);
    free(tail);
    look_whether_done(roster, now_ms);
    look_whether_over(roster);
}

static void hear_tensorboard(tfos__roster *roster, uint32_t index, const tfos__message *message)
{
    tfos__roster_node *node = &roster->node[index];
    free(node->url);
    node->url = tfos__message_duplicate(message, TFOS__FIELD_TENSORBOARD_URL);
    node->url_pid = tfos__message_number(message, TFOS__FIELD_TENSORBOARD_PID);
    tell_node(roster, index);
}

void tfos__roster_hear(tfos__roster *roster, uint32_t index, const tfos__message *message, uint64_t now_ms)
{
    assert(index < roster->options.roles.nodes);
    tfos__roster_node *node = &roster->node[index];
    node->heard_ms = now_ms;
    switch (message->type) {
    case TFOS__MESSAGE_BEAT:
        hear_beat(roster, index, message, now_ms);
        break;
    case TFOS__MESSAGE_LOG:
        hear_log(roster, index, message);
        break;
    case TFOS__MESSAGE_STATE: {
        uint64_t state = tfos__message_number(message, TFOS__FIELD_STATE);
        if (!has_ended(node) && state > TFOS__NODE_REGISTERED && state <= TFOS__NODE_STOPPING) {
            node->state = (tfos__node_state)state;
            tell_node(roster, index);
        }
        break;
    }
    case TFOS__MESSAGE_ENDED:
        hear_ended(roster, index, message, now_ms);
        break;
    case TFOS__MESSAGE_TENSORBOARD:
        hear_tensorboard(roster, index, message);
        break;
    default:
        break; /* nothing that a node has to say to us */
    }
}

void tfos__roster_disconnect(tfos__roster *roster, uint32_t index, uint64_t now_ms)
{
    tfos__roster_node *node = &roster->node[index];
    node->connected = false;
    node->left_ms = now_ms;
}

void tfos__roster_obey(tfos__roster *roster, const tfos__message *message, uint64_t now_ms)
{
    char reason[160];
    switch (message->type) {
    case TFOS__MESSAGE_FINISH:
        roster->finish = true;
        roster->finish_grace_ms = tfos__message_number(message, TFOS__FIELD_GRACE_MS);
        look_whether_done(roster, now_ms);
        break;
    case TFOS__MESSAGE_STOP:
        tfos__message_copy(message, TFOS__FIELD_TEXT, reason, sizeof reason);
        tfos__roster_stop(roster, reason[0] != '\0' ? reason : "the driver said so", now_ms);
        break;
    case TFOS__MESSAGE_SLOTS:
        tfos__roster_hear_slots(roster, message, now_ms);
        break;
    default:
        break;
    }
}

/* ---- time ---- */

static void check_node(tfos__roster *roster, uint32_t index, uint64_t now_ms)
{
    tfos__roster_node *node = &roster->node[index];
    char text[512];
    if (node->state == TFOS__NODE_ABSENT || has_ended(node)) {
        return;
    }
    if (!node->connected && now_ms - node->left_ms > TFOS__RECONNECT_MS) {
        snprintf(text, sizeof text,
                 "the process `tfos node` (pid %" PRIu64 ", executor %s) closed its connection and did not come back: "
                 "it was killed, or its container was, for example for using more memory than Spark asked for "
                 "(spark.executor.memoryOverhead)",
                 node->pid, node->executor);
        lose(roster, index, TFOS__OUTCOME_NODE_LOST, text, now_ms);
    } else if (now_ms - node->heard_ms > roster->options.lease_ms) {
        snprintf(text, sizeof text,
                 "nothing was heard of it for %" PRIu64
                 " s (cluster.lease_ms): its host or the network is down, or the "
                 "process `tfos node` (pid %" PRIu64 ", executor %s) is frozen",
                 (now_ms - node->heard_ms) / 1000, node->pid, node->executor);
        lose(roster, index, TFOS__OUTCOME_LEASE_EXPIRED, text, now_ms);
    }
}

void tfos__roster_tick(tfos__roster *roster, uint64_t now_ms)
{
    for (uint32_t i = 0; i < roster->options.roles.nodes; i++) {
        check_node(roster, i, now_ms);
    }
    switch (roster->phase) {
    case TFOS__PHASE_WAITING:
        tfos__roster_check_waiting(roster, now_ms);
        break;
    case TFOS__PHASE_RUNNING:
        look_whether_done(roster, now_ms);
        break;
    case TFOS__PHASE_STOPPING:
        for (uint32_t i = 0; now_ms - roster->stop_ms > roster->options.stop_ms && i < roster->options.roles.nodes;
             i++) {
            if (roster->node[i].state != TFOS__NODE_ABSENT && !has_ended(&roster->node[i])) {
                note_end(&roster->node[i], TFOS__NODE_LOST, "it did not confirm that it had stopped");
                tell_node(roster, i);
            }
        }
        look_whether_over(roster);
        break;
    case TFOS__PHASE_OVER:
        break;
    }
}

void tfos__roster_forgive(tfos__roster *roster, uint64_t ms)
{
    for (uint32_t i = 0; i < roster->options.roles.nodes; i++) {
        roster->node[i].heard_ms += ms;
        roster->node[i].left_ms += ms;
    }
}

/* ---- looking ---- */

bool tfos__roster_is_vacant(const tfos__roster *roster, uint64_t index)
{
    return roster->phase == TFOS__PHASE_WAITING && index < roster->options.roles.nodes &&
           roster->node[index].state == TFOS__NODE_ABSENT;
}

tfos__phase tfos__roster_phase(const tfos__roster *roster)
{
    return roster->phase;
}

const tfos__roster_options *tfos__roster_options_of(const tfos__roster *roster)
{
    return &roster->options;
}

uint32_t tfos__roster_registered(const tfos__roster *roster)
{
    return roster->registered;
}

const char *tfos__roster_failure(const tfos__roster *roster)
{
    return roster->failure != NULL ? roster->failure : "";
}

void tfos__roster_view(const tfos__roster *roster, uint32_t index, tfos__node_view *out)
{
    const tfos__roster_node *node = &roster->node[index];
    uint32_t task;
    const char *role = tfos__roles_at(&roster->options.roles, index, &task);
    *out = (tfos__node_view){
        .role = role,
        .task = task,
        .host = host_of(node),
        .port = node->port,
        .pid = node->pid,
        .executor = node->executor != NULL ? node->executor : "",
        .gpus = node->given.size > 0 ? (const char *)node->given.data : "",
        .state = node->state,
        .since_ms = node->since_ms,
        .heard_ms = node->heard_ms,
        .cpu_ms = node->cpu_ms,
        .cpu_share = node->cpu_share,
        .rss_bytes = node->rss_bytes,
        .tail = node->tail != NULL ? node->tail : "",
        .url = node->url != NULL ? node->url : "",
        .url_pid = node->url_pid,
        .ended = node->ended != NULL ? node->ended : "",
    };
}
