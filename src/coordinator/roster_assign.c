/* The moment when all nodes have come: GPUs, cluster spec, ASSIGN.
 *
 * GPUs that Spark gave to a task are that node's. GPUs that nvidia-smi found belong to the host: its workers get
 * different ones, ps nodes and evaluators none. */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "coordinator/gpu_share.h"
#include "coordinator/roster_state.h"

static bool uses_gpus(const tfos__roster *roster, uint32_t index)
{
    return tfos__roles_is_worker(&roster->options.roles, index);
}

/* Its part of those that all workers are to have: the first of them get one more where it does not come out even. */
static size_t share_of(const tfos__roster *roster, uint32_t index)
{
    uint64_t workers = 0;
    uint64_t before = 0;
    for (uint32_t i = 0; i < roster->options.roles.nodes; i++) {
        bool is_worker = uses_gpus(roster, i);
        workers += is_worker;
        before += is_worker && i < index;
    }
    return (size_t)(roster->options.all_gpus / workers + (before < roster->options.all_gpus % workers));
}

/* What a worker is to have, given what was found where it runs. */
static size_t gpus_wanted(const tfos__roster *roster, uint32_t index)
{
    const tfos__roster_node *node = &roster->node[index];
    if (roster->options.all_gpus > 0) {
        return share_of(roster, index);
    }
    if (roster->options.worker_gpus >= 0) {
        return (size_t)roster->options.worker_gpus;
    }
    size_t found = tfos__words_count(node->gpus);
    return node->gpus_by_spark ? found : found > 0;
}

/* The GPUs of a host that other nodes have, as a list. */
static tfos__buffer taken_on(const tfos__roster *roster, const char *host)
{
    tfos__buffer taken = {0};
    for (uint32_t i = 0; i < roster->options.roles.nodes; i++) {
        const tfos__roster_node *other = &roster->node[i];
        if (other->given.size > 0 && !other->gpus_by_spark && strcmp(other->host, host) == 0) {
            tfos__buffer unused = {0};
            tfos__words_take((const char *)other->given.data, SIZE_MAX, &taken, &unused);
            tfos__buffer_reset(&unused);
        }
    }
    return taken;
}

/* False when there are too few and the user has asked for them. */
static bool give_gpus(tfos__roster *roster, uint32_t index, uint64_t now_ms)
{
    tfos__roster_node *node = &roster->node[index];
    if (!uses_gpus(roster, index) || node->given.size > 0) {
        return true;
    }
    size_t wanted = gpus_wanted(roster, index);
    tfos__buffer taken = node->gpus_by_spark ? (tfos__buffer){0} : taken_on(roster, node->host);
    size_t busy = taken.size > 0 ? tfos__words_count((const char *)taken.data) : 0;
    size_t have = tfos__words_take(node->gpus, wanted, &taken, &node->given);
    tfos__buffer_reset(&taken);
    bool asked = roster->options.all_gpus > 0;
    if (have >= wanted || (roster->options.worker_gpus < 0 && !asked)) {
        return true;
    }
    char text[512];
    if (asked) {
        snprintf(
            text, sizeof text,
            "%" PRIu64 " GPUs were asked for in all, of which this worker is to have %zu, but there are %zu for it "
            "on host %s. Ask for fewer, or let Spark hand out more of them: spark.executor.resource.gpu.amount and "
            "spark.task.resource.gpu.amount, or the name that the resource has instead of gpu.",
            roster->options.all_gpus, wanted, have, node->host);
        tfos__roster_fail(roster, index, TFOS__OUTCOME_GPUS, 0, 0, text, "", now_ms);
        return false;
    }
    snprintf(text, sizeof text,
             "num_gpus asks for %zu GPUs for each worker, but host %s has %zu free for it%s (%zu there, %zu given to "
             "other nodes of this cluster). Lower num_gpus, put fewer nodes on a host (spark.executor.cores), or let "
             "Spark hand out GPUs (spark.executor.resource.gpu.amount, spark.task.resource.gpu.amount).",
             wanted, node->host, have, node->gpus_by_spark ? " by spark.task.resource.gpu.amount" : "",
             tfos__words_count(node->gpus), busy);
    tfos__roster_fail(roster, index, TFOS__OUTCOME_GPUS, 0, 0, text, "", now_ms);
    return false;
}

char *tfos__roster_spec(const tfos__roster *roster)
{
    struct json_object *spec = json_object_new_object();
    bool parallel = (roster->options.flags & TFOS__FLAG_PARALLEL) != 0;
    for (uint32_t i = 0; spec != NULL && !parallel && i < roster->options.roles.nodes; i++) {
        uint32_t task;
        const char *role = tfos__roles_at(&roster->options.roles, i, &task);
        const tfos__roster_node *node = &roster->node[i];
        struct json_object *list;
        char address[320];
        if (!json_object_object_get_ex(spec, role, &list)) {
            list = json_object_new_array();
            json_object_object_add(spec, role, list);
        }
        bool is_ipv6 = node->host != NULL && strchr(node->host, ':') != NULL;
        snprintf(address, sizeof address, is_ipv6 ? "[%s]:%" PRIu64 : "%s:%" PRIu64,
                 node->host != NULL ? node->host : "", node->port);
        json_object_array_add(list, json_object_new_string(address));
    }
    const char *text = spec != NULL ? json_object_to_json_string_ext(spec, JSON_C_TO_STRING_NOSLASHESCAPE) : NULL;
    char *copy = text != NULL ? strdup(text) : NULL;
    json_object_put(spec);
    return copy;
}

static bool is_native(const tfos__roster *roster, const char *role)
{
    return (strcmp(role, "ps") == 0 && (roster->options.flags & TFOS__FLAG_NATIVE_PS) != 0) ||
           (strcmp(role, "worker") == 0 && (roster->options.flags & TFOS__FLAG_NATIVE_WORKERS) != 0);
}

static void send_assign(tfos__roster *roster, uint32_t index, const char *spec)
{
    uint32_t task;
    const char *role = tfos__roles_at(&roster->options.roles, index, &task);
    tfos__roster_node *node = &roster->node[index];
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_ASSIGN);
    tfos__message_put_string(&message, TFOS__FIELD_ROLE, role);
    tfos__message_put_number(&message, TFOS__FIELD_TASK, task);
    tfos__message_put_string(&message, TFOS__FIELD_SPEC, spec);
    tfos__message_put_string(&message, TFOS__FIELD_GIVEN_GPUS,
                             node->given.size > 0 ? (const char *)node->given.data : "");
    tfos__message_put_number(&message, TFOS__FIELD_BEAT_MS, roster->options.beat_ms);
    tfos__message_put_number(&message, TFOS__FIELD_LEASE_MS, roster->options.lease_ms);
    tfos__message_put_number(&message, TFOS__FIELD_NODES, roster->options.roles.nodes);
    tfos__message_put_number(&message, TFOS__FIELD_NATIVE, is_native(roster, role));
    node->assigned = true;
    roster->calls.to_node(roster->calls.context, index, &message);
}

/* The spec, or NULL: then the cluster has failed. */
static char *make_spec(tfos__roster *roster, uint64_t now_ms)
{
    enum { SPEC_BYTES_MOST = 1 << 20 };
    char text[256];
    char *spec = tfos__roster_spec(roster);
    if (spec != NULL && strlen(spec) <= SPEC_BYTES_MOST) {
        return spec;
    }
    if (spec != NULL) {
        snprintf(text, sizeof text,
                 "the cluster spec of %" PRIu32 " nodes has %zu bytes; the most is %d. Ask for fewer nodes.",
                 roster->options.roles.nodes, strlen(spec), SPEC_BYTES_MOST);
    } else {
        snprintf(text, sizeof text, "the coordinator is out of memory");
    }
    free(spec);
    tfos__roster_fail(roster, 0, TFOS__OUTCOME_NOT_STARTED, 0, 0, text, "", now_ms);
    return NULL;
}

void tfos__roster_assign_one(tfos__roster *roster, uint32_t index, uint64_t now_ms)
{
    char *spec = make_spec(roster, now_ms);
    if (spec != NULL && give_gpus(roster, index, now_ms)) {
        send_assign(roster, index, spec);
    }
    free(spec);
}

void tfos__roster_assign(tfos__roster *roster, uint64_t now_ms)
{
    char *spec = make_spec(roster, now_ms);
    bool enough = spec != NULL;
    for (uint32_t i = 0; enough && i < roster->options.roles.nodes; i++) {
        enough = give_gpus(roster, i, now_ms);
    }
    for (uint32_t i = 0; enough && i < roster->options.roles.nodes; i++) {
        send_assign(roster, i, spec);
    }
    free(spec);
}
