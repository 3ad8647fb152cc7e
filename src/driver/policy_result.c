/* What programs leave behind. The driver is where it ends, so all of it is kept here: the pieces as they come, one
 * behind the other, for the attempt of the cluster that runs or ran last. */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>

#include "base/status.h"
#include "driver/policy_state.h"

static void reset(tfos__node_result *result)
{
    free(result->node);
    free(result->host);
    free(result->state);
    free(result->ended);
    tfos__buffer_reset(&result->body);
}

void tfos__policy_results_forget(tfos__policy *policy)
{
    for (int32_t i = 0; policy->results != NULL && i < policy->options.nodes; i++) {
        reset(&policy->results[i]);
    }
    free(policy->results);
    policy->results = NULL;
}

/* NULL when memory is short, or the cluster has no such node. */
static tfos__node_result *result_of(tfos__policy *policy, int32_t index)
{
    if (policy->results == NULL) {
        policy->results = calloc((size_t)policy->options.nodes, sizeof *policy->results);
    }
    return policy->results != NULL && index >= 0 && index < policy->options.nodes ? &policy->results[index] : NULL;
}

static void keep(char **kept, const char *text)
{
    free(*kept);
    *kept = strdup(text);
}

void tfos__policy_results_hear_node(tfos__policy *policy, const tfos_cluster_event *event)
{
    tfos__node_result *result = result_of(policy, event->index);
    if (result != NULL) {
        keep(&result->node, event->node);
        keep(&result->host, event->host);
        keep(&result->state, event->state);
        keep(&result->ended, event->text);
    }
}

/* A piece that does not follow the last one makes no sense, and neither does what comes behind it. */
void tfos__policy_results_hear(tfos__policy *policy, const tfos_cluster_event *event)
{
    tfos__node_result *result = result_of(policy, event->index);
    if (result == NULL || event->offset != result->body.size) {
        return;
    }
    result->head_bytes = event->head_bytes;
    result->value_bytes = event->value_bytes;
    (void)tfos__buffer_append(&result->body, event->bytes, event->byte_count, NULL);
}

static bool is_whole(const tfos__node_result *result)
{
    return result->body.size > 0 && result->body.size == result->head_bytes + result->value_bytes;
}

/* ---- telling ---- */

static void add_text(struct json_object *to, const char *key, const char *text)
{
    json_object_object_add(to, key, json_object_new_string(text != NULL ? text : ""));
}

/* What the node has put in front of the value. */
static struct json_object *read_head(const tfos__node_result *result)
{
    struct json_object *head = NULL;
    struct json_tokener *parser = is_whole(result) ? json_tokener_new() : NULL;
    if (parser != NULL) {
        head = json_tokener_parse_ex(parser, (const char *)result->body.data, (int)result->head_bytes);
        json_tokener_free(parser);
    }
    if (!json_object_is_type(head, json_type_object)) {
        json_object_put(head);
        head = json_object_new_object();
    }
    return head;
}

static void tell(tfos__policy *policy, const tfos__call *call, int32_t index)
{
    const tfos__node_result *result = &policy->results[index];
    struct json_object *object = read_head(result);
    const char *colon = strrchr(result->node, ':');
    size_t role_bytes = colon != NULL ? (size_t)(colon - result->node) : strlen(result->node);
    json_object_object_add(object, "role", json_object_new_string_len(result->node, (int)role_bytes));
    json_object_object_add(object, "task", json_object_new_int64(colon != NULL ? strtoll(colon + 1, NULL, 10) : 0));
    add_text(object, "host", result->host);
    add_text(object, "state", result->state);
    add_text(object, "ended", result->ended);
    tfos__policy_do(policy,
                    (tfos__deed){.kind = TFOS__DEED_ORDER,
                                 .number = policy->attempt,
                                 .order = {.kind = TFOS_ORDER_RESULT, .call = call->number, .index = index}},
                    json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(object);
}

void tfos__policy_results_tell(tfos__policy *policy, tfos__call *call)
{
    for (int32_t i = 0; policy->results != NULL && i < policy->options.nodes; i++) {
        if (policy->results[i].node != NULL) {
            tell(policy, call, i);
        }
    }
    tfos__call_done(policy, call, TFOS_CALL_DONE, NULL);
}

tfos_status tfos__policy_copy_value(const tfos__policy *policy, int32_t index, int32_t attempt, uint8_t **out,
                                    size_t *count, tfos_error *error)
{
    *out = NULL;
    *count = 0;
    if (policy->results == NULL || attempt != policy->attempt || !is_whole(&policy->results[index]) ||
        policy->results[index].value_bytes == 0) {
        return TFOS_OK;
    }
    const tfos__node_result *result = &policy->results[index];
    uint8_t *copy = malloc(result->value_bytes);
    if (copy == NULL) {
        return tfos__fail_memory(error, result->value_bytes);
    }
    memcpy(copy, result->body.data + result->head_bytes, result->value_bytes);
    *out = copy;
    *count = result->value_bytes;
    return TFOS_OK;
}
