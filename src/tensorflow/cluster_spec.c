/* Cluster specs from JSON. TensorFlow takes what it is given and fails later, in another process, with a message about
 * a channel: so everything that can be known to be wrong is refused here. */
#include "tensorflow/cluster_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/status.h"

enum { MAX_DEPTH = 16 };

/* ---- JSON ---- */

static tfos_status parse_object(const char *text, size_t bytes, json_object **out, tfos_error *error)
{
    if (bytes > TFOS__CLUSTER_SPEC_MAX_BYTES) {
        return tfos__fail(error, TFOS_LIMIT, "expected at most %d bytes of JSON, found %zu",
                          TFOS__CLUSTER_SPEC_MAX_BYTES, bytes);
    }
    tfos__json_fault fault = {0};
    tfos_status status = tfos__json_object_parse(text, bytes, MAX_DEPTH, out, &fault, error);
    if (status != TFOS_INVALID) {
        return status;
    }
    return tfos__fail(error, TFOS_INVALID, "expected a JSON object {…}, found '%s': %s, at byte %zu",
                      tfos__printable_of(text, bytes < 40 ? bytes : 40).text, fault.what, fault.at);
}

/* The text of a JSON string, or NULL if it is something else or holds a NUL. */
static const char *text_of(json_object *value)
{
    if (!json_object_is_type(value, json_type_string)) {
        return NULL;
    }
    const char *text = json_object_get_string(value);
    return strlen(text) == (size_t)json_object_get_string_len(value) ? text : NULL;
}

static tfos__printable show(json_object *value)
{
    const char *text = value != NULL ? json_object_to_json_string_ext(value, JSON_C_TO_STRING_NOSLASHESCAPE) : "null";
    return tfos__printable_of(text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

/* ---- addresses ---- */

/* The colon before the port, or NULL if there is no port. An IPv6 address stands in brackets. */
static const char *port_colon(const char *address)
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || colon == address) {
        return NULL;
    }
    bool bracketed = address[0] == '[' && colon[-1] == ']' && colon - address > 2;
    return bracketed || strcspn(address, ":[]") == (size_t)(colon - address) ? colon : NULL;
}

int tfos__cluster_address_port(const char *address)
{
    return atoi(strrchr(address, ':') + 1);
}

static bool is_host(const char *host, size_t bytes)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    if (host[0] == '[') {
        size_t inside = strspn(host + 1, "0123456789abcdefABCDEF:.");
        /* A zone, as in [fe80::1%eth0]. */
        if (host[1 + inside] == '%') {
            inside += 1 + strspn(host + 2 + inside, letters);
        }
        return inside + 2 == bytes;
    }
    return bytes > 0 && bytes <= TFOS__CLUSTER_SPEC_MAX_HOST_BYTES && strspn(host, letters) == bytes;
}

static bool is_port(const char *port)
{
    size_t digits = strspn(port, "0123456789");
    return digits > 0 && digits <= 5 && port[digits] == '\0' && atoi(port) >= 1 && atoi(port) <= 65535;
}

static tfos_status check_address(const char *job, size_t task, json_object *value, tfos_error *error)
{
    const char *address = text_of(value);
    const char *colon = address != NULL ? port_colon(address) : NULL;
    if (colon == NULL || !is_host(address, (size_t)(colon - address)) || !is_port(colon + 1)) {
        return tfos__fail(error, TFOS_INVALID,
                          "%s:%zu: expected an address \"host:port\" with a port from 1 to 65535, found %s", job, task,
                          show(value).text);
    }
    return TFOS_OK;
}

/* ---- jobs ---- */

/* Such a name can stand in the name of a device: /job:NAME/task:0/device:CPU:0 */
static bool is_job_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t bytes = strlen(name);
    return bytes > 0 && bytes <= TFOS__CLUSTER_SPEC_MAX_NAME_BYTES && strspn(name, letters) == bytes &&
           (name[0] < '0' || name[0] > '9') && name[0] != '_';
}

static tfos_status check_job(const char *name, json_object *tasks, tfos_error *error)
{
    if (!is_job_name(name)) {
        return tfos__fail(error, TFOS_INVALID,
                          "expected the name of a job (ps, worker, chief, …: a letter, then letters, digits and _, at "
                          "most %d), found \"%s\"",
                          TFOS__CLUSTER_SPEC_MAX_NAME_BYTES, tfos__printable_text(name).text);
    }
    if (!json_object_is_type(tasks, json_type_array)) {
        return tfos__fail(error, TFOS_INVALID, "%s: expected a list of addresses [\"host:port\", …], found %s", name,
                          show(tasks).text);
    }
    if (json_object_array_length(tasks) == 0) {
        return tfos__fail(error, TFOS_INVALID,
                          "%s: expected at least one address, found an empty list; leave out a "
                          "job that has no tasks",
                          name);
    }
    return TFOS_OK;
}

static tfos_status count_tasks(json_object *cluster, size_t *out, tfos_error *error)
{
    size_t jobs = 0;
    *out = 0;
    json_object_object_foreach(cluster, name, tasks)
    {
        TFOS_TRY(check_job(name, tasks, error));
        *out += json_object_array_length(tasks);
        if (++jobs > TFOS__CLUSTER_SPEC_MAX_JOBS || *out > TFOS__CLUSTER_SPEC_MAX_TASKS) {
            return tfos__fail(error, TFOS_LIMIT, "a cluster has at most %d jobs and %d tasks",
                              TFOS__CLUSTER_SPEC_MAX_JOBS, TFOS__CLUSTER_SPEC_MAX_TASKS);
        }
    }
    if (jobs == 0) {
        return tfos__fail(error, TFOS_INVALID,
                          "expected a cluster {\"ps\": [\"host:port\", …], …}, found one without jobs");
    }
    return TFOS_OK;
}

static int compare_jobs(const void *left, const void *right)
{
    return strcmp(((const tfos__cluster_job *)left)->name, ((const tfos__cluster_job *)right)->name);
}

static int compare_addresses(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The `skip`th task that has an address, as job and index. */
static const tfos__cluster_job *owner_of(const tfos__cluster_spec *spec, const char *address, size_t skip, size_t *task)
{
    for (size_t i = 0; i < spec->job_count; i++) {
        for (size_t k = 0; k < spec->jobs[i].count; k++) {
            if (strcmp(spec->jobs[i].addresses[k], address) == 0 && skip-- == 0) {
                *task = k;
                return &spec->jobs[i];
            }
        }
    }
    return NULL;
}

static tfos_status check_unique(const tfos__cluster_spec *spec, tfos_error *error)
{
    const char *twice = NULL;
    const char **sorted = malloc(spec->task_count * sizeof *sorted);
    if (sorted == NULL) {
        return tfos__fail_memory(error, spec->task_count * sizeof *sorted);
    }
    memcpy(sorted, spec->addresses, spec->task_count * sizeof *sorted);
    qsort(sorted, spec->task_count, sizeof *sorted, compare_addresses);
    for (size_t i = 1; i < spec->task_count && twice == NULL; i++) {
        twice = strcmp(sorted[i - 1], sorted[i]) == 0 ? sorted[i] : NULL;
    }
    free(sorted);
    if (twice == NULL) {
        return TFOS_OK;
    }
    size_t first_task = 0;
    size_t second_task = 0;
    const tfos__cluster_job *first = owner_of(spec, twice, 0, &first_task);
    const tfos__cluster_job *second = owner_of(spec, twice, 1, &second_task);
    return tfos__fail(error, TFOS_INVALID,
                      "expected an address of its own for each task, found %s for both %s:%zu and "
                      "%s:%zu",
                      twice, first->name, first_task, second->name, second_task);
}

static tfos_status fill(tfos__cluster_spec *spec, json_object *cluster, tfos_error *error)
{
    size_t used = 0;
    json_object_object_foreach(cluster, name, tasks)
    {
        size_t count = json_object_array_length(tasks);
        for (size_t i = 0; i < count; i++) {
            json_object *value = json_object_array_get_idx(tasks, i);
            TFOS_TRY(check_address(name, i, value, error));
            spec->addresses[used + i] = json_object_get_string(value);
        }
        spec->jobs[spec->job_count++] =
            (tfos__cluster_job){.name = name, .addresses = spec->addresses + used, .count = count};
        used += count;
    }
    spec->task_count = used;
    qsort(spec->jobs, spec->job_count, sizeof spec->jobs[0], compare_jobs);
    return check_unique(spec, error);
}

/* Takes over `cluster`, also when it fails. */
static tfos_status init_from(tfos__cluster_spec *out, json_object *cluster, tfos_error *error)
{
    tfos__cluster_spec spec = {.json = cluster};
    size_t tasks;
    tfos_status status = count_tasks(cluster, &tasks, error);
    if (status == TFOS_OK) {
        spec.addresses = malloc(tasks * sizeof *spec.addresses);
        status = spec.addresses != NULL ? fill(&spec, cluster, error)
                                        : tfos__fail_memory(error, tasks * sizeof *spec.addresses);
    }
    if (status != TFOS_OK) {
        tfos__cluster_spec_reset(&spec);
        return status;
    }
    *out = spec;
    return TFOS_OK;
}

tfos_status tfos__cluster_spec_init(tfos__cluster_spec *out, const char *text, size_t bytes, tfos_error *error)
{
    json_object *cluster;
    TFOS_TRY(parse_object(text, bytes, &cluster, error));
    return init_from(out, cluster, error);
}

void tfos__cluster_spec_reset(tfos__cluster_spec *spec)
{
    json_object_put(spec->json);
    free(spec->addresses);
    *spec = (tfos__cluster_spec){0};
}

tfos_status tfos__cluster_spec_find(const tfos__cluster_spec *spec, const char *job, int64_t task,
                                    const tfos__cluster_job **out, tfos_error *error)
{
    char names[256] = "";
    for (size_t i = 0; i < spec->job_count; i++) {
        const tfos__cluster_job *at = &spec->jobs[i];
        if (strcmp(at->name, job) != 0) {
            size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", at->name);
        } else if (task < 0 || task >= (int64_t)at->count) {
            return tfos__fail(error, TFOS_INVALID,
                              "expected the index of a task of the job %s, from 0 to %zu in this cluster, found %lld",
                              job, at->count - 1, (long long)task);
        } else {
            *out = at;
            return TFOS_OK;
        }
    }
    return tfos__fail(error, TFOS_INVALID, "the cluster has no job \"%s\": expected one of %s",
                      tfos__printable_text(job).text, names);
}

/* ---- TF_CONFIG ---- */

/* The index may be a number or, as TensorFlow allows, its text. */
static tfos_status read_index(json_object *value, int64_t *out, tfos_error *error)
{
    const char *text = text_of(value);
    if (text != NULL && text[0] != '\0' && strlen(text) < 10 && strspn(text, "0123456789") == strlen(text)) {
        *out = atoi(text);
        return TFOS_OK;
    }
    int64_t number = json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : -1;
    if (number < 0) {
        return tfos__fail(error, TFOS_INVALID, "task: expected an index, 0 or more, found %s", show(value).text);
    }
    *out = number;
    return TFOS_OK;
}

static tfos_status read_task(json_object *task, tfos__cluster_config *config, tfos_error *error)
{
    json_object *value;
    if (!json_object_is_type(task, json_type_object)) {
        return tfos__fail(error, TFOS_INVALID, "task: expected an object {\"type\": \"ps\", \"index\": 0}, found %s",
                          show(task).text);
    }
    if (json_object_object_get_ex(task, "type", &value)) {
        const char *job = text_of(value);
        if (job == NULL || !is_job_name(job)) {
            return tfos__fail(error, TFOS_INVALID, "task: expected the name of a job as \"type\", found %s",
                              show(value).text);
        }
        strcpy(config->job, job);
    }
    if (json_object_object_get_ex(task, "index", &value)) {
        TFOS_TRY(read_index(value, &config->task, error));
    }
    return TFOS_OK;
}

static tfos_status read_config(json_object *root, tfos__cluster_config *config, tfos_error *error)
{
    json_object *value;
    if (json_object_object_get_ex(root, "task", &value)) {
        TFOS_TRY(read_task(value, config, error));
    }
    if (json_object_object_get_ex(root, "cluster", &value)) {
        if (!json_object_is_type(value, json_type_object)) {
            return tfos__fail(error, TFOS_INVALID,
                              "cluster: expected an object {\"ps\": [\"host:port\", …], …}, found %s",
                              show(value).text);
        }
        tfos_status status = init_from(&config->cluster, json_object_get(value), error);
        if (status != TFOS_OK) {
            tfos__error_prefix(error, "cluster");
            return status;
        }
    }
    return TFOS_OK;
}

tfos_status tfos__cluster_config_init(tfos__cluster_config *out, const char *text, size_t bytes, tfos_error *error)
{
    json_object *root;
    tfos__cluster_config config = {.task = -1};
    TFOS_TRY(parse_object(text, bytes, &root, error));
    tfos_status status = read_config(root, &config, error);
    json_object_put(root);
    TFOS_TRY(status);
    *out = config;
    return TFOS_OK;
}
