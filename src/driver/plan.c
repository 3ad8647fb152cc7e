/* Plans: options and settings are checked before anything is started, so that a mistake costs nobody a process. */
#include "driver/plan.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "base/config.h"
#include "base/status.h"
#include "net/frame.h"

static tfos_status check_slots(const tfos_cluster_options *options, tfos_error *error)
{
    int64_t needed = options->no_barrier ? 1 : options->nodes;
    if (options->slots_most >= 0 && options->slots_most < needed) {
        return tfos__fail(
            error, TFOS_LIMIT,
            "the cluster needs %" PRId64 " task slots at the same time, but Spark can have at most %" PRId64
            "%s%s%s. Ask for fewer nodes, or give Spark more executors or cores.",
            needed, options->slots_most, options->slots_reason != NULL ? " (" : "",
            options->slots_reason != NULL ? options->slots_reason : "", options->slots_reason != NULL ? ")" : "");
    }
    return TFOS_OK;
}

static uint64_t flags_of(const tfos_cluster_options *options)
{
    return (options->no_barrier ? 0u : TFOS__FLAG_BARRIER) | (options->spark_feeds ? 0u : TFOS__FLAG_TENSORFLOW) |
           (options->native_ps ? TFOS__FLAG_NATIVE_PS : 0u) |
           (options->native_workers ? TFOS__FLAG_NATIVE_WORKERS : 0u) |
           (options->keep_port ? TFOS__FLAG_KEEP_PORT : 0u) | (options->parallel ? TFOS__FLAG_PARALLEL : 0u);
}

static tfos_status roles_of(const tfos_cluster_options *options, tfos__roles *roles, tfos_error *error)
{
    if (options->nodes < 0 || options->ps < 0) {
        return tfos__fail(error, TFOS_INVALID, "the numbers of nodes (%d) and ps nodes (%d) cannot be negative",
                          options->nodes, options->ps);
    }
    *roles =
        (tfos__roles){.nodes = (uint32_t)options->nodes, .ps = (uint32_t)options->ps, .evaluators = options->evaluator};
    snprintf(roles->master, sizeof roles->master, "%s", options->master != NULL ? options->master : "");
    return tfos__roles_check(roles, error);
}

/* Words joined with NUL between them. */
static tfos_status join(const char *const *words, tfos__buffer *out, tfos_error *error)
{
    for (size_t i = 0; words != NULL && words[i] != NULL; i++) {
        if (i > 0) {
            TFOS_TRY(tfos__buffer_append(out, "", 1, error));
        }
        TFOS_TRY(tfos__buffer_append(out, words[i], strlen(words[i]), error));
    }
    return TFOS_OK;
}

static tfos_status check_size(const char *what, size_t count, size_t most, tfos_error *error)
{
    if (count > most) {
        return tfos__fail(error, TFOS_LIMIT, "%s has %zu bytes; the most is %zu", what, count, most);
    }
    return TFOS_OK;
}

static tfos_status check_settings(const char *const *settings, tfos_error *error)
{
    for (size_t i = 0; settings != NULL && settings[i] != NULL; i++) {
        TFOS_TRY(tfos__setting_check(settings[i], strlen(settings[i]), error));
    }
    return TFOS_OK;
}

tfos_status tfos__plan_make(const tfos_cluster_options *options, tfos__plan *out, tfos_error *error)
{
    TFOS_TRY(roles_of(options, &out->roles, error));
    TFOS_TRY(check_slots(options, error));
    TFOS_TRY(check_settings(options->settings, error));
    out->ports.setting = "server.port (TFOS_SERVER_PORT)";
    out->status_ports.setting = "status.port (TFOS_STATUS_PORT)";
    TFOS_TRY(tfos__ports_parse(tfos__setting_text(TFOS__SETTING_SERVER_PORT, options->settings), &out->ports, error));
    TFOS_TRY(
        tfos__ports_parse(tfos__setting_text(TFOS__SETTING_STATUS_PORT, options->settings), &out->status_ports, error));
    TFOS_TRY(tfos__setting_number(TFOS__SETTING_CLUSTER_BEAT_MS, options->settings, &out->beat_ms, error));
    TFOS_TRY(tfos__setting_number(TFOS__SETTING_CLUSTER_LEASE_MS, options->settings, &out->lease_ms, error));
    TFOS_TRY(tfos__setting_number(TFOS__SETTING_NODE_KILL_MS, options->settings, &out->kill_ms, error));
    TFOS_TRY(check_size("the context for the nodes", options->context != NULL ? strlen(options->context) : 0, 1 << 20,
                        error));
    TFOS_TRY(
        check_size("the pickled function and its arguments", options->payload_bytes, INT32_MAX - (1 << 24), error));
    const char *host = tfos__setting_text(TFOS__SETTING_SERVER_HOST, options->settings);
    out->host = host != NULL && host[0] != '\0' ? host : options->host != NULL ? options->host : "";
    TFOS_TRY(check_size("server.host", strlen(out->host), 255, error));
    uint64_t id = 0;
    TFOS_TRY(tfos__key_make(out->key, error));
    uint8_t random[TFOS__KEY_BYTES];
    TFOS_TRY(tfos__key_make(random, error));
    memcpy(&id, random, sizeof id);
    snprintf(out->name, sizeof out->name, "%08" PRIx32 "-%d", (uint32_t)id, options->attempt);
    return TFOS_OK;
}

tfos_status tfos__plan_open(const tfos__plan *plan, const tfos_cluster_options *options, tfos__buffer *frame,
                            tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_OPEN);
    tfos__message_put_text(&message, TFOS__FIELD_KEY, (const char *)plan->key, sizeof plan->key);
    tfos__message_put_string(&message, TFOS__FIELD_CLUSTER, plan->name);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, plan->host);
    tfos__message_put_number(&message, TFOS__FIELD_PORT, plan->ports.first);
    tfos__message_put_number(&message, TFOS__FIELD_PORT_LAST, plan->ports.last);
    tfos__message_put_number(&message, TFOS__FIELD_STATUS_PORT, plan->status_ports.first);
    tfos__message_put_number(&message, TFOS__FIELD_STATUS_PORT_LAST, plan->status_ports.last);
    tfos__message_put_number(&message, TFOS__FIELD_NODES, plan->roles.nodes);
    tfos__message_put_number(&message, TFOS__FIELD_PS, plan->roles.ps);
    tfos__message_put_string(&message, TFOS__FIELD_MASTER, plan->roles.master);
    tfos__message_put_number(&message, TFOS__FIELD_EVALUATORS, plan->roles.evaluators);
    tfos__message_put_number(&message, TFOS__FIELD_WORKER_GPUS, (uint64_t)(options->gpus + 1));
    if (options->all_gpus > 0) {
        tfos__message_put_number(&message, TFOS__FIELD_ALL_GPUS, (uint64_t)options->all_gpus);
    }
    tfos__message_put_number(&message, TFOS__FIELD_FLAGS, flags_of(options));
    tfos__message_put_number(&message, TFOS__FIELD_ATTEMPT, (uint64_t)options->attempt);
    tfos__message_put_number(&message, TFOS__FIELD_RESERVATION_MS, (uint64_t)tfos__max_i64(0, options->timeout_ms));
    tfos__message_put_number(&message, TFOS__FIELD_BEAT_MS, (uint64_t)plan->beat_ms);
    tfos__message_put_number(&message, TFOS__FIELD_LEASE_MS, (uint64_t)plan->lease_ms);
    tfos__buffer settings = {0};
    tfos_status status = join(options->settings, &settings, error);
    status = status == TFOS_OK ? check_size("the list of settings", settings.size, 1 << 16, error) : status;
    if (status == TFOS_OK) {
        tfos__message_put_text(&message, TFOS__FIELD_SETTINGS, settings.size > 0 ? (const char *)settings.data : "",
                               settings.size);
        status = tfos__frame_append(&message, frame, error);
    }
    tfos__buffer_reset(&settings);
    return status;
}

tfos_status tfos__plan_ticket(const tfos__plan *plan, const tfos_cluster_options *options, const char *host,
                              uint64_t port, tfos__buffer *frame, tfos_error *error)
{
    enum { PROGRAM, ENVIRONMENT, TENSORBOARD, SETTINGS, LISTS };
    static const tfos__field list_fields[LISTS] = {TFOS__FIELD_PROGRAM, TFOS__FIELD_ENVIRONMENT,
                                                   TFOS__FIELD_TENSORBOARD, TFOS__FIELD_SETTINGS};
    static const size_t most[LISTS] = {1 << 16, 1 << 20, 1 << 16, 1 << 16};
    static const char *const names[LISTS] = {"the program", "the environment", "the command of TensorBoard",
                                             "the list of settings"};
    const char *const *words[LISTS] = {options->program, options->environment, options->tensorboard, options->settings};
    tfos__buffer lists[LISTS] = {{0}};
    tfos__message message;
    tfos_status status = TFOS_OK;
    tfos__message_init(&message, TFOS__MESSAGE_TICKET);
    tfos__message_put_text(&message, TFOS__FIELD_KEY, (const char *)plan->key, sizeof plan->key);
    tfos__message_put_string(&message, TFOS__FIELD_CLUSTER, plan->name);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, host);
    tfos__message_put_number(&message, TFOS__FIELD_PORT, port);
    tfos__message_put_number(&message, TFOS__FIELD_FLAGS, flags_of(options));
    tfos__message_put_number(&message, TFOS__FIELD_ATTEMPT, (uint64_t)options->attempt);
    tfos__message_put_number(&message, TFOS__FIELD_LEASE_MS, (uint64_t)plan->lease_ms);
    tfos__message_put_number(&message, TFOS__FIELD_BEAT_MS, (uint64_t)plan->beat_ms);
    tfos__message_put_string(&message, TFOS__FIELD_CONTEXT, options->context != NULL ? options->context : "{}");
    tfos__message_put_text(&message, TFOS__FIELD_PAYLOAD, options->payload != NULL ? options->payload : "",
                           options->payload_bytes);
    for (size_t i = 0; status == TFOS_OK && i < LISTS; i++) {
        status = join(words[i], &lists[i], error);
        status = status == TFOS_OK ? check_size(names[i], lists[i].size, most[i], error) : status;
        if (status == TFOS_OK && lists[i].size > 0) {
            tfos__message_put_text(&message, list_fields[i], (const char *)lists[i].data, lists[i].size);
        }
    }
    status = status == TFOS_OK ? tfos__frame_append(&message, frame, error) : status;
    for (size_t i = 0; i < LISTS; i++) {
        tfos__buffer_reset(&lists[i]);
    }
    return status;
}
