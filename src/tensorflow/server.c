/* TensorFlow servers.
 *
 *   ServerDef    1 cluster: ClusterDef   2 job_name   3 task_index   4 default_session_config: ConfigProto   5 protocol
 *   ClusterDef   1 job: JobDef, repeated
 *   JobDef       1 name   2 tasks: entry {1 key: the index   2 value: "host:port"}, repeated
 *   ConfigProto  5 inter_op_parallelism_threads
 *
 * Lengths stand before what they measure, so sizes are computed first and everything is written once, front to back. */
#include "tensorflow/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wire.h"

enum {
    SERVER_CLUSTER = 1,
    SERVER_JOB_NAME = 2,
    SERVER_TASK_INDEX = 3,
    SERVER_SESSION_CONFIG = 4,
    SERVER_PROTOCOL = 5,
    CLUSTER_JOB = 1,
    JOB_NAME = 1,
    JOB_TASKS = 2,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2,
    CONFIG_INTER_OP_THREADS = 5,
    MAX_INTER_OP_THREADS = 256,
};

static const char protocol[] = "grpc";

/* ---- the message ---- */

/* All field numbers here are below 16: a tag is one byte. */
static size_t bytes_field_size(size_t bytes)
{
    return 1 + tfos__wire_varint_bytes(bytes) + bytes;
}

static uint8_t *put_length(uint8_t *to, int field, size_t bytes)
{
    *to++ = (uint8_t)TFOS__WIRE_TAG(field, TFOS__WIRE_BYTES);
    return tfos__wire_put_varint(to, bytes);
}

static uint8_t *put_text(uint8_t *to, int field, const char *text)
{
    size_t bytes = strlen(text);
    to = put_length(to, field, bytes);
    memcpy(to, text, bytes);
    return to + bytes;
}

static uint8_t *put_number(uint8_t *to, int field, uint64_t value)
{
    *to++ = (uint8_t)TFOS__WIRE_TAG(field, TFOS__WIRE_VARINT);
    return tfos__wire_put_varint(to, value);
}

static size_t entry_size(size_t index, const char *address)
{
    return 1 + tfos__wire_varint_bytes(index) + bytes_field_size(strlen(address));
}

static size_t job_size(const tfos__cluster_job *job)
{
    size_t size = bytes_field_size(strlen(job->name));
    for (size_t i = 0; i < job->count; i++) {
        size += bytes_field_size(entry_size(i, job->addresses[i]));
    }
    return size;
}

static uint8_t *put_job(uint8_t *to, const tfos__cluster_job *job)
{
    to = put_length(to, CLUSTER_JOB, job_size(job));
    to = put_text(to, JOB_NAME, job->name);
    for (size_t i = 0; i < job->count; i++) {
        to = put_length(to, JOB_TASKS, entry_size(i, job->addresses[i]));
        to = put_number(to, ENTRY_KEY, i);
        to = put_text(to, ENTRY_VALUE, job->addresses[i]);
    }
    return to;
}

tfos_status tfos__server_encode(const tfos__cluster_spec *cluster, const char *job, int64_t task,
                                int32_t inter_op_threads, tfos__buffer *out, tfos_error *error)
{
    const tfos__cluster_job *own;
    TFOS_TRY(tfos__cluster_spec_find(cluster, job, task, &own, error));
    size_t cluster_size = 0;
    for (size_t i = 0; i < cluster->job_count; i++) {
        cluster_size += bytes_field_size(job_size(&cluster->jobs[i]));
    }
    size_t config_size = inter_op_threads > 0 ? 1 + tfos__wire_varint_bytes((uint64_t)inter_op_threads) : 0;
    size_t size = bytes_field_size(cluster_size) + bytes_field_size(strlen(own->name)) +
                  (task > 0 ? 1 + tfos__wire_varint_bytes((uint64_t)task) : 0) +
                  (config_size > 0 ? bytes_field_size(config_size) : 0) + bytes_field_size(strlen(protocol));
    TFOS_TRY(tfos__buffer_reserve(out, out->size + size, error));
    uint8_t *to = put_length(out->data + out->size, SERVER_CLUSTER, cluster_size);
    for (size_t i = 0; i < cluster->job_count; i++) {
        to = put_job(to, &cluster->jobs[i]);
    }
    to = put_text(to, SERVER_JOB_NAME, own->name);
    if (task > 0) {
        to = put_number(to, SERVER_TASK_INDEX, (uint64_t)task);
    }
    if (config_size > 0) {
        to = put_length(to, SERVER_SESSION_CONFIG, config_size);
        to = put_number(to, CONFIG_INTER_OP_THREADS, (uint64_t)inter_op_threads);
    }
    put_text(to, SERVER_PROTOCOL, protocol);
    out->size += size;
    return TFOS_OK;
}

/* ---- the server ---- */

/* Ops that wait for other tasks hold a thread each. TensorFlow has as many as the machine has cores, which on a small
 * machine is fewer than there are workers; its guide to ParameterServerStrategy then asks for one a worker and one
 * more. TF_NUM_INTEROP_THREADS is TensorFlow's own way to say it, and comes first. */
static int32_t choose_inter_op_threads(const tfos__cluster_spec *cluster)
{
    const tfos__cluster_job *workers;
    const char *set = getenv("TF_NUM_INTEROP_THREADS");
    if ((set != NULL && set[0] != '\0') || tfos__cluster_spec_find(cluster, "worker", 0, &workers, NULL) != TFOS_OK) {
        return 0;
    }
    int64_t wanted = tfos__min_i64((int64_t)workers->count + 1, MAX_INTER_OP_THREADS);
    return wanted > sysconf(_SC_NPROCESSORS_ONLN) ? (int32_t)wanted : 0;
}

/* The errno that a server on this port would meet, or 0. Ports that wait after a connection are free for a server. */
static int probe_port(int port)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in address4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1;
    int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has_ipv6 = probe >= 0;
    if (!has_ipv6) {
        probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
    if (probe < 0) {
        return 0;
    }
    setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const void *at = has_ipv6 ? (const void *)&address : (const void *)&address4;
    socklen_t bytes = has_ipv6 ? sizeof address : sizeof address4;
    int problem = bind(probe, at, bytes) != 0 || listen(probe, 1) != 0 ? errno : 0;
    close(probe);
    return problem == EADDRINUSE || problem == EACCES ? problem : 0;
}

/* TensorFlow says "Could not start gRPC server", whatever the reason: look for the usual ones. */
static tfos_status explain(const char *job, int64_t task, const char *address, tfos_error *error)
{
    int port = tfos__cluster_address_port(address);
    int problem = probe_port(port);
    if (problem == EADDRINUSE) {
        return tfos__fail_errno(error, problem,
                                "%s:%lld cannot serve on %s: another process has port %d (`ss -ltnp 'sport = :%d'` "
                                "shows which); end it, or choose another port",
                                job, (long long)task, address, port, port);
    }
    if (problem == EACCES) {
        return tfos__fail_errno(
            error, problem, "%s:%lld cannot serve on %s: port %d is for privileged processes; choose one above 1023",
            job, (long long)task, address, port);
    }
    return TFOS_OK;
}

static tfos_status start(const tfos__tensorflow *tf, const tfos__buffer *message, const char *doing, TF_Server **out,
                         tfos_error *error)
{
    TF_Status *status = tf->TF_NewStatus();
    TF_Server *server = tf->TF_NewServer(message->data, message->size, status);
    tfos_status ours = tfos__tensorflow_check(tf, status, doing, error);
    if (ours == TFOS_OK) {
        tf->TF_ServerStart(server, status);
        ours = tfos__tensorflow_check(tf, status, doing, error);
    }
    tf->TF_DeleteStatus(status);
    if (ours == TFOS_OK) {
        *out = server;
    }
    return ours;
}

tfos_status tfos__server_start(const tfos__tensorflow *tf, const tfos__cluster_spec *cluster, const char *job,
                               int64_t task, TF_Server **out, tfos_error *error)
{
    tfos__buffer message = {0};
    const tfos__cluster_job *own;
    TFOS_TRY(tfos__cluster_spec_find(cluster, job, task, &own, error));
    tfos_status status = tfos__server_encode(cluster, job, task, choose_inter_op_threads(cluster), &message, error);
    if (status == TFOS_OK) {
        char doing[TFOS__CLUSTER_SPEC_MAX_NAME_BYTES + TFOS__CLUSTER_SPEC_MAX_HOST_BYTES + 64];
        const char *address = own->addresses[task];
        snprintf(doing, sizeof doing, "%s:%lld cannot serve on %s", job, (long long)task, address);
        status = start(tf, &message, doing, out, error);
        tfos_status reason = status != TFOS_OK ? explain(job, task, address, error) : TFOS_OK;
        status = reason != TFOS_OK ? reason : status;
    }
    tfos__buffer_reset(&message);
    return status;
}

tfos_status tfos__server_join(const tfos__tensorflow *tf, TF_Server *server, tfos_error *error)
{
    TF_Status *status = tf->TF_NewStatus();
    tf->TF_ServerJoin(server, status);
    tfos_status ours = tfos__tensorflow_check(tf, status, "the server has stopped", error);
    tf->TF_DeleteStatus(status);
    return ours != TFOS_OK ? ours : tfos__fail(error, TFOS_IO, "the server has stopped by itself");
}
