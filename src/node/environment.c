/* The environment of a child. What the user has set stays as it is, but for what makes the child a part of its
 * cluster. */
#include "node/environment.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "net/message.h"

static tfos_status parse_object(const char *text, const char *what, struct json_object **out, tfos_error *error)
{
    enum json_tokener_error problem;
    struct json_object *object = json_tokener_parse_verbose(text[0] != '\0' ? text : "{}", &problem);
    if (object == NULL || json_object_get_type(object) != json_type_object) {
        json_object_put(object);
        return tfos__fail(error, TFOS_INVALID, "expected a JSON object as %s, found '%s' (%s)", what,
                          tfos__printable_text(text).text, json_tokener_error_desc(problem));
    }
    *out = object;
    return TFOS_OK;
}

static tfos_status set_json(tfos__words *out, const char *name, struct json_object *object, tfos_error *error)
{
    const char *text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    if (text == NULL) {
        return tfos__fail_memory(error, 1 << 16);
    }
    return tfos__words_set(out, name, text, error);
}

static struct json_object *list_of(const char *commas)
{
    struct json_object *list = json_object_new_array();
    while (*commas != '\0') {
        size_t bytes = strcspn(commas, ",");
        if (bytes > 0) {
            json_object_array_add(list, json_object_new_string_len(commas, (int)bytes));
        }
        commas += bytes + (commas[bytes] == ',' ? 1 : 0);
    }
    return list;
}

static tfos_status set_tf_config(tfos__words *out, const tfos__assignment *assignment, struct json_object *spec,
                                 tfos_error *error)
{
    struct json_object *config = json_object_new_object();
    struct json_object *task = json_object_new_object();
    json_object_object_add(task, "type", json_object_new_string(assignment->role));
    json_object_object_add(task, "index", json_object_new_int64((int64_t)assignment->task));
    json_object_object_add(config, "cluster", json_object_get(spec));
    json_object_object_add(config, "task", task);
    json_object_object_add(config, "environment", json_object_new_string("cloud"));
    tfos_status status = set_json(out, "TF_CONFIG", config, error);
    json_object_put(config);
    return status;
}

static struct json_object *describe_node(const tfos__orders *orders, const tfos__assignment *assignment, uint16_t port,
                                         const char *log, struct json_object *spec)
{
    struct json_object *node = json_object_new_object();
    json_object_object_add(node, "index", json_object_new_int64((int64_t)orders->index));
    json_object_object_add(node, "attempt", json_object_new_int64((int64_t)orders->attempt));
    json_object_object_add(node, "role", json_object_new_string(assignment->role));
    json_object_object_add(node, "task", json_object_new_int64((int64_t)assignment->task));
    json_object_object_add(node, "nodes", json_object_new_int64((int64_t)assignment->nodes));
    json_object_object_add(node, "spec", json_object_get(spec));
    json_object_object_add(node, "host", json_object_new_string(orders->node_host));
    json_object_object_add(node, "port", json_object_new_int64(port));
    json_object_object_add(node, "gpus", list_of(assignment->gpus));
    json_object_object_add(node, "cores", json_object_new_int64((int64_t)orders->cores));
    json_object_object_add(node, "executor", json_object_new_string(orders->executor));
    json_object_object_add(node, "cluster", json_object_new_string(orders->cluster));
    json_object_object_add(node, "log", json_object_new_string(log));
    return node;
}

static tfos_status set_context(tfos__words *out, const tfos__orders *orders, struct json_object *node,
                               tfos_error *error)
{
    struct json_object *context = json_object_new_object();
    struct json_object *part = NULL;
    json_object_object_add(context, "node", json_object_get(node));
    tfos_status status = parse_object(orders->context, "the driver's context", &part, error);
    if (status == TFOS_OK) {
        json_object_object_add(context, "driver", part);
        status = parse_object(orders->spark, "the Spark task's context", &part, error);
    }
    if (status == TFOS_OK) {
        json_object_object_add(context, "spark", part);
        status = set_json(out, "TFOS_CONTEXT", context, error);
    }
    json_object_put(context);
    return status;
}

/* Sets a number unless the user has. */
static tfos_status set_threads(tfos__words *out, const char *name, uint64_t threads, tfos_error *error)
{
    char text[24];
    if (tfos__words_variable(out, name) != NULL) {
        return TFOS_OK;
    }
    snprintf(text, sizeof text, "%" PRIu64, threads);
    return tfos__words_set(out, name, text, error);
}

static tfos_status set_files(tfos__words *out, const tfos__orders *orders, tfos_error *error)
{
    char text[24];
    snprintf(text, sizeof text, "%d", TFOS__CHILD_PAYLOAD_FILE);
    TFOS_TRY(tfos__words_set(out, "TFOS_PAYLOAD_FD", text, error));
    snprintf(text, sizeof text, "%d", TFOS__CHILD_REPORT_FILE);
    TFOS_TRY(tfos__words_set(out, "TFOS_REPORT_FD", text, error));
    snprintf(text, sizeof text, "%d", TFOS__CHILD_GROUP_FILE);
    TFOS_TRY(tfos__words_set(out, "TFOS_GROUP_FD", text, error));
    snprintf(text, sizeof text, "%d", TFOS__CHILD_RESULT_FILE);
    TFOS_TRY(tfos__words_set(out, "TFOS_RESULT_FD", text, error));
    snprintf(text, sizeof text, "%d", TFOS__CHILD_FEED_FILE);
    return tfos__orders_are_fed(orders) ? tfos__words_set(out, "TFOS_FEED_FD", text, error) : TFOS_OK;
}

static tfos_status check_lengths(const tfos__words *words, tfos_error *error)
{
    for (size_t i = 0; i < words->count; i++) {
        size_t bytes = strlen(words->at[i]) + 1;
        if (bytes > TFOS__VARIABLE_BYTES) {
            return tfos__fail(error, TFOS_LIMIT,
                              "the environment variable %.*s of the child has %zu bytes, and Linux takes %d for one; "
                              "pass large values as arguments of the function, not in its environment",
                              (int)strcspn(words->at[i], "="), words->at[i], bytes, TFOS__VARIABLE_BYTES);
        }
    }
    return TFOS_OK;
}

static tfos_status make_with_spec(const tfos__orders *orders, const tfos__assignment *assignment, uint16_t port,
                                  const char *log, struct json_object *spec, tfos__words *out, tfos_error *error)
{
    struct json_object *node = describe_node(orders, assignment, port, log, spec);
    tfos_status status = set_context(out, orders, node, error);
    json_object_put(node);
    TFOS_TRY(status);
    if ((orders->flags & TFOS__FLAG_PARALLEL) == 0) {
        TFOS_TRY(set_tf_config(out, assignment, spec, error));
    }
    if (assignment->has_gpus) {
        TFOS_TRY(tfos__words_set(out, "CUDA_VISIBLE_DEVICES", assignment->gpus, error));
    }
    if (orders->cores > 0) {
        TFOS_TRY(set_threads(out, "TF_NUM_INTRAOP_THREADS", orders->cores, error));
        /* With one thread, an op that waits for another one would wait for ever. */
        TFOS_TRY(set_threads(out, "TF_NUM_INTEROP_THREADS", orders->cores > 2 ? orders->cores : 2, error));
        TFOS_TRY(set_threads(out, "OMP_NUM_THREADS", orders->cores, error));
    }
    TFOS_TRY(set_files(out, orders, error));
    return check_lengths(out, error);
}

tfos_status tfos__environment_make(const char *const *base, const tfos__orders *orders,
                                   const tfos__assignment *assignment, uint16_t port, const char *log, tfos__words *out,
                                   tfos_error *error)
{
    struct json_object *spec = NULL;
    for (size_t i = 0; base[i] != NULL; i++) {
        TFOS_TRY(tfos__words_add(out, base[i], strlen(base[i]), error));
    }
    for (size_t i = 0; i < orders->environment.count; i++) {
        TFOS_TRY(tfos__words_put(out, orders->environment.at[i], error));
    }
    TFOS_TRY(parse_object(assignment->spec, "the cluster spec", &spec, error));
    tfos_status status = make_with_spec(orders, assignment, port, log, spec, out, error);
    json_object_put(spec);
    return status;
}

bool tfos__assignment_is_chief(const tfos__assignment *assignment)
{
    struct json_object *spec = NULL;
    bool has_chief = false;
    if (parse_object(assignment->spec, "the cluster spec", &spec, NULL) == TFOS_OK) {
        has_chief = json_object_object_get_ex(spec, "chief", NULL) || json_object_object_get_ex(spec, "master", NULL);
        json_object_put(spec);
    }
    bool is_chief = strcmp(assignment->role, "chief") == 0 || strcmp(assignment->role, "master") == 0;
    return assignment->task == 0 && (is_chief || (!has_chief && strcmp(assignment->role, "worker") == 0));
}
