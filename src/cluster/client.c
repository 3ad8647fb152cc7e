/* The driver's end of a cluster. The coordinator is a child of this process with a socket as its stdin: frames go both
 * ways, and whichever side ends, the other one sees the socket close. Calls that send take a lock and may come from any
 * thread; one thread at a time waits for events. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "base/status.h"
#include "base/tls.h"
#include "cluster/message.h"
#include "cluster/roles.h"
#include "cluster/spawn.h"

enum {
    OPEN_MS = 10000,   /* for the coordinator to listen */
    CLOSE_MS = 20000,  /* for it to stop everything and exit, besides node.kill_ms */
    SILENCE_MS = 5000, /* a coordinator may always be silent for so long */
    NODES_HERE_MOST = 64,
};

struct tfos_cluster {
    int socket;
    pid_t pid;
    pid_t owner; /* the process that opened it; a fork of it must leave the coordinator alone */
    char command[PATH_MAX];
    char *folder; /* NULL: the working folder */
    pthread_mutex_t send_lock;
    tfos__buffer in;
    size_t in_used; /* bytes of `in` that belong to the message that was handed out last */
    char *texts[5]; /* of the last event */
    tfos__buffer ticket;
    char *url;
    bool over;
    int64_t heard_ms; /* of the coordinator */
    int64_t lease_ms;
    int64_t close_ms;
    struct {
        pid_t pid;
        int socket;
    } here[NODES_HERE_MOST]; /* nodes that are children of this process */
    size_t here_count;
};

void tfos_cluster_options_init(tfos_cluster_options *options)
{
    *options = (tfos_cluster_options){.gpus = -1, .timeout_ms = 600000, .slots = -1, .slots_most = -1};
}

/* ---- the socket ---- */

static int64_t monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static tfos_status send_all(int socket, const uint8_t *bytes, size_t count, tfos_error *error)
{
    while (count > 0) {
        ssize_t sent = send(socket, bytes, count, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            return tfos__fail_errno(error, errno, "cannot send to the process tfos");
        }
        bytes += sent > 0 ? sent : 0;
        count -= sent > 0 ? (size_t)sent : 0;
    }
    return TFOS_OK;
}

/* Appends the text of how a child ended, if it has. */
static void describe_end(pid_t pid, char *out, size_t bytes)
{
    int code;
    out[0] = '\0';
    /* It may take a moment from the closing of its sockets to its end. */
    for (int i = 0; i < 50; i++) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
            return;
        }
        if (info.si_pid == pid) {
            code = info.si_status;
            snprintf(out, bytes, info.si_code == CLD_EXITED ? " (exit code %d)" : " (killed by signal %d)", code);
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

static tfos_status fail_gone(const tfos_cluster *cluster, tfos_error *error)
{
    char how[64];
    describe_end(cluster->pid, how, sizeof how);
    return tfos__fail(error, TFOS_IO,
                      "the coordinator (pid %d) is gone%s; every node of this cluster stops. Start the cluster again",
                      (int)cluster->pid, how);
}

static tfos_status send_message(tfos_cluster *cluster, const tfos__message *message, tfos_error *error)
{
    tfos__buffer frame = {0};
    tfos_status status = tfos__message_encode(message, &frame, error);
    if (status == TFOS_OK) {
        pthread_mutex_lock(&cluster->send_lock);
        status = send_all(cluster->socket, frame.data, frame.size, NULL);
        pthread_mutex_unlock(&cluster->send_lock);
        if (status != TFOS_OK) {
            status = fail_gone(cluster, error);
        }
    }
    tfos__secret_wipe(frame.data, frame.size);
    tfos__buffer_reset(&frame);
    return status;
}

/* Waits for the next message. END when the time is over. */
static tfos_status receive(tfos_cluster *cluster, int64_t timeout_ms, tfos__message *out, tfos_error *error)
{
    int64_t deadline = timeout_ms < 0 ? INT64_MAX : monotonic_ms() + timeout_ms;
    tfos__buffer *in = &cluster->in;
    tfos__buffer_shift(in, cluster->in_used);
    cluster->in_used = 0;
    for (;;) {
        size_t count = in->size >= sizeof(uint32_t) ? tfos__load_u32(in->data) : 0;
        if (count > TFOS__FRAME_BYTES) {
            return tfos__fail(error, TFOS_CORRUPT, "the coordinator sent a message of %zu bytes", count);
        }
        if (in->size >= sizeof(uint32_t) && in->size - sizeof(uint32_t) >= count) {
            cluster->in_used = sizeof(uint32_t) + count;
            return tfos__message_decode(in->data + sizeof(uint32_t), count, out, error);
        }
        int64_t left = deadline == INT64_MAX ? 1000 : deadline - monotonic_ms();
        struct pollfd wait = {.fd = cluster->socket, .events = POLLIN};
        int ready = poll(&wait, 1, (int)tfos__max_i64(0, tfos__min_i64(left, 1000)));
        if (ready < 0 && errno != EINTR) {
            return tfos__fail_errno(error, errno, "cannot wait for the coordinator");
        }
        if (ready <= 0) {
            int64_t now = monotonic_ms();
            if (cluster->lease_ms > 0 && now - cluster->heard_ms > cluster->lease_ms) {
                return tfos__fail(error, TFOS_IO,
                                  "the coordinator (pid %d) has been silent for %" PRId64
                                  " s (cluster.lease_ms): it is frozen, and the nodes stop. Start the cluster again",
                                  (int)cluster->pid, (now - cluster->heard_ms) / 1000);
            }
            if (now >= deadline) {
                return TFOS_END;
            }
            continue;
        }
        TFOS_TRY(tfos__buffer_reserve(in, in->size + 65536, error));
        ssize_t got = recv(cluster->socket, in->data + in->size, 65536, 0);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return fail_gone(cluster, error);
        }
        in->size += got > 0 ? (size_t)got : 0;
        cluster->heard_ms = monotonic_ms();
    }
}

/* ---- opening ---- */

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

/* "9997", "9997-9999" or nothing. */
static tfos_status parse_ports(const char *text, const char *setting, uint64_t *first, uint64_t *last,
                               tfos_error *error)
{
    unsigned from;
    unsigned to;
    int used = 0;
    *first = *last = 0;
    if (text == NULL || text[0] == '\0') {
        return TFOS_OK;
    }
    if (sscanf(text, "%u%n", &from, &used) == 1 && text[used] == '\0') {
        to = from;
    } else if (sscanf(text, "%u-%u%n", &from, &to, &used) != 2 || text[used] != '\0') {
        from = to = UINT_MAX;
    }
    if (from > UINT16_MAX || to > UINT16_MAX || to < from) {
        return tfos__fail(error, TFOS_INVALID, "%s must be a port or a range such as 9997-9999, found '%s'", setting,
                          tfos__printable_of(text, strlen(text)).text);
    }
    *first = from;
    *last = to;
    return TFOS_OK;
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

typedef struct plan {
    tfos__roles roles;
    uint8_t key[TFOS__KEY_BYTES];
    char name[64];
    uint64_t port_first;
    uint64_t port_last;
    uint64_t status_port_first;
    uint64_t status_port_last;
    int64_t beat_ms;
    int64_t lease_ms;
    int64_t kill_ms;
    const char *host;
} plan;

static tfos_status check_settings(const char *const *settings, tfos_error *error)
{
    for (size_t i = 0; settings != NULL && settings[i] != NULL; i++) {
        TFOS_TRY(tfos__setting_check(settings[i], strlen(settings[i]), error));
    }
    return TFOS_OK;
}

static tfos_status prepare(const tfos_cluster_options *options, plan *out, tfos_error *error)
{
    TFOS_TRY(roles_of(options, &out->roles, error));
    TFOS_TRY(check_slots(options, error));
    TFOS_TRY(check_settings(options->settings, error));
    TFOS_TRY(parse_ports(tfos__setting_text(TFOS__SETTING_SERVER_PORT, options->settings),
                         "server.port (TFOS_SERVER_PORT)", &out->port_first, &out->port_last, error));
    TFOS_TRY(parse_ports(tfos__setting_text(TFOS__SETTING_STATUS_PORT, options->settings),
                         "status.port (TFOS_STATUS_PORT)", &out->status_port_first, &out->status_port_last, error));
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

static tfos_status send_open(tfos_cluster *cluster, const tfos_cluster_options *options, const plan *plan_of,
                             tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_OPEN);
    tfos__message_put_text(&message, TFOS__FIELD_KEY, (const char *)plan_of->key, sizeof plan_of->key);
    tfos__message_put_string(&message, TFOS__FIELD_CLUSTER, plan_of->name);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, plan_of->host);
    tfos__message_put_number(&message, TFOS__FIELD_PORT, plan_of->port_first);
    tfos__message_put_number(&message, TFOS__FIELD_PORT_LAST, plan_of->port_last);
    tfos__message_put_number(&message, TFOS__FIELD_STATUS_PORT, plan_of->status_port_first);
    tfos__message_put_number(&message, TFOS__FIELD_STATUS_PORT_LAST, plan_of->status_port_last);
    tfos__message_put_number(&message, TFOS__FIELD_NODES, plan_of->roles.nodes);
    tfos__message_put_number(&message, TFOS__FIELD_PS, plan_of->roles.ps);
    tfos__message_put_string(&message, TFOS__FIELD_MASTER, plan_of->roles.master);
    tfos__message_put_number(&message, TFOS__FIELD_EVALUATORS, plan_of->roles.evaluators);
    tfos__message_put_number(&message, TFOS__FIELD_WORKER_GPUS, (uint64_t)(options->gpus + 1));
    tfos__message_put_number(&message, TFOS__FIELD_FLAGS, flags_of(options));
    tfos__message_put_number(&message, TFOS__FIELD_ATTEMPT, (uint64_t)options->attempt);
    tfos__message_put_number(&message, TFOS__FIELD_TIMEOUT_MS, (uint64_t)tfos__max_i64(0, options->timeout_ms));
    tfos__message_put_number(&message, TFOS__FIELD_BEAT_MS, (uint64_t)plan_of->beat_ms);
    tfos__message_put_number(&message, TFOS__FIELD_LEASE_MS, (uint64_t)plan_of->lease_ms);
    tfos__buffer settings = {0};
    tfos_status status = join(options->settings, &settings, error);
    status = status == TFOS_OK ? check_size("the list of settings", settings.size, 1 << 16, error) : status;
    if (status == TFOS_OK) {
        tfos__message_put_text(&message, TFOS__FIELD_SETTINGS, settings.size > 0 ? (const char *)settings.data : "",
                               settings.size);
        status = send_message(cluster, &message, error);
    }
    tfos__buffer_reset(&settings);
    return status == TFOS_OK && options->slots >= 0 ? tfos_cluster_slots(cluster, options->slots, error) : status;
}

/* What the messages of every node have in common. The frame's length is left out: tasks append to it. */
static tfos_status make_ticket(tfos_cluster *cluster, const tfos_cluster_options *options, const plan *plan_of,
                               const char *host, uint64_t port, tfos_error *error)
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
    tfos__message_init(&message, TFOS__MESSAGE_START);
    tfos__message_put_text(&message, TFOS__FIELD_KEY, (const char *)plan_of->key, sizeof plan_of->key);
    tfos__message_put_string(&message, TFOS__FIELD_CLUSTER, plan_of->name);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, host);
    tfos__message_put_number(&message, TFOS__FIELD_PORT, port);
    tfos__message_put_number(&message, TFOS__FIELD_FLAGS, flags_of(options));
    tfos__message_put_number(&message, TFOS__FIELD_ATTEMPT, (uint64_t)options->attempt);
    tfos__message_put_number(&message, TFOS__FIELD_LEASE_MS, (uint64_t)plan_of->lease_ms);
    tfos__message_put_number(&message, TFOS__FIELD_BEAT_MS, (uint64_t)plan_of->beat_ms);
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
    status = status == TFOS_OK ? tfos__message_encode(&message, &cluster->ticket, error) : status;
    for (size_t i = 0; i < LISTS; i++) {
        tfos__buffer_reset(&lists[i]);
    }
    return status;
}

static tfos_status start(tfos_cluster *cluster, const tfos_cluster_options *options, plan *plan_of, tfos_error *error)
{
    char host[256];
    tfos__message answer;
    TFOS_TRY(prepare(options, plan_of, error));
    if (options->folder != NULL && (cluster->folder = strdup(options->folder)) == NULL) {
        return tfos__fail_memory(error, strlen(options->folder));
    }
    TFOS_TRY(tfos__command_find(options->command, cluster->command, sizeof cluster->command, error));
    TFOS_TRY(tfos__command_spawn(cluster->command, "coordinator", environ, &cluster->pid, &cluster->socket, error));
    TFOS_TRY(send_open(cluster, options, plan_of, error));
    tfos_status status = receive(cluster, OPEN_MS, &answer, error);
    if (status == TFOS_END) {
        return tfos__fail(error, TFOS_IO, "the coordinator did not answer within %d s", OPEN_MS / 1000);
    }
    TFOS_TRY(status);
    if (answer.type == TFOS__MESSAGE_REFUSED) {
        char text[TFOS_ERROR_MESSAGE_BYTES];
        tfos_status cause = (tfos_status)tfos__message_number(&answer, TFOS__FIELD_STATUS);
        return tfos__fail(error, cause != TFOS_OK ? cause : TFOS_INVALID, "%s",
                          tfos__message_copy(&answer, TFOS__FIELD_TEXT, text, sizeof text));
    }
    if (answer.type != TFOS__MESSAGE_LISTENING) {
        return tfos__fail(error, TFOS_CORRUPT, "the coordinator answered with a message of type %d", (int)answer.type);
    }
    cluster->lease_ms = tfos__max_i64(plan_of->lease_ms, SILENCE_MS);
    cluster->close_ms = CLOSE_MS + plan_of->kill_ms;
    cluster->url = tfos__message_duplicate(&answer, TFOS__FIELD_URL);
    tfos__message_copy(&answer, TFOS__FIELD_HOST, host, sizeof host);
    return make_ticket(cluster, options, plan_of, host, tfos__message_number(&answer, TFOS__FIELD_PORT), error);
}

tfos_status tfos_cluster_open(const tfos_cluster_options *options, tfos_cluster **out, tfos_error *error)
{
    tfos_error mine;
    plan plan_of = {0};
    tfos_cluster *cluster = calloc(1, sizeof *cluster);
    if (cluster == NULL) {
        return tfos__fail_memory(error, sizeof *cluster);
    }
    cluster->socket = -1;
    cluster->owner = getpid();
    cluster->close_ms = CLOSE_MS;
    pthread_mutex_init(&cluster->send_lock, NULL);
    tfos_status status = start(cluster, options, &plan_of, error != NULL ? error : &mine);
    tfos__secret_wipe(plan_of.key, sizeof plan_of.key);
    if (status != TFOS_OK) {
        tfos_cluster_close(cluster);
        return status;
    }
    *out = cluster;
    return TFOS_OK;
}

void tfos_cluster_ticket(const tfos_cluster *cluster, const uint8_t **bytes, size_t *count)
{
    *bytes = cluster->ticket.data + sizeof(uint32_t);
    *count = cluster->ticket.size - sizeof(uint32_t);
}

const char *tfos_cluster_url(const tfos_cluster *cluster)
{
    return cluster->url != NULL ? cluster->url : "";
}

/* ---- a node here ---- */

static tfos_status own_address(const tfos_cluster *cluster, char *host, size_t bytes, tfos_error *error)
{
    tfos__message ticket;
    const uint8_t *at;
    size_t count;
    tfos_cluster_ticket(cluster, &at, &count);
    TFOS_TRY(tfos__message_decode(at, count, &ticket, error));
    tfos__message_copy(&ticket, TFOS__FIELD_HOST, host, bytes);
    if (host[0] == '\0') {
        gethostname(host, bytes - 1);
    }
    return TFOS_OK;
}

/* The ticket with what a task would have appended to it, as a frame. */
static tfos_status make_start(const tfos_cluster *cluster, int32_t index, tfos__buffer *frame, tfos_error *error)
{
    tfos__message extra;
    tfos__buffer tail = {0};
    char host[256] = "";
    char folder[PATH_MAX] = ".";
    TFOS_TRY(own_address(cluster, host, sizeof host, error));
    if (cluster->folder != NULL) {
        snprintf(folder, sizeof folder, "%s", cluster->folder);
    } else if (getcwd(folder, sizeof folder) == NULL) {
        return tfos__fail_errno(error, errno, "cannot find the working folder");
    }
    tfos__message_init(&extra, TFOS__MESSAGE_START);
    tfos__message_put_number(&extra, TFOS__FIELD_INDEX, (uint64_t)index);
    tfos__message_put_string(&extra, TFOS__FIELD_NODE_HOST, host);
    tfos__message_put_string(&extra, TFOS__FIELD_EXECUTOR, "driver");
    tfos__message_put_number(&extra, TFOS__FIELD_PID, (uint64_t)getpid());
    tfos__message_put_number(&extra, TFOS__FIELD_CORES, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    tfos__message_put_text(&extra, TFOS__FIELD_WORK_FOLDER, folder, strlen(folder));
    tfos_status status = tfos__message_encode(&extra, &tail, error);
    if (status == TFOS_OK) {
        /* At once: growing would leave copies of the key behind. */
        status = tfos__buffer_reserve(frame, cluster->ticket.size + tail.size, error);
    }
    if (status == TFOS_OK) {
        memcpy(frame->data, cluster->ticket.data, cluster->ticket.size);
        memcpy(frame->data + cluster->ticket.size, tail.data + sizeof(uint32_t), tail.size - sizeof(uint32_t));
        frame->size = cluster->ticket.size + tail.size - sizeof(uint32_t);
        tfos__store_u32(frame->data, (uint32_t)(frame->size - sizeof(uint32_t)));
    }
    tfos__buffer_reset(&tail);
    return status;
}

static tfos_status spawn_locked(tfos_cluster *cluster, const tfos__buffer *frame, tfos_error *error)
{
    pid_t pid;
    int socket;
    if (cluster->here_count == NODES_HERE_MOST) {
        return tfos__fail(error, TFOS_LIMIT, "at most %d nodes can run on the driver", NODES_HERE_MOST);
    }
    TFOS_TRY(tfos__command_spawn(cluster->command, "node", environ, &pid, &socket, error));
    cluster->here[cluster->here_count].pid = pid;
    cluster->here[cluster->here_count++].socket = socket;
    return send_all(socket, frame->data, frame->size, error);
}

tfos_status tfos_cluster_spawn(tfos_cluster *cluster, int32_t index, tfos_error *error)
{
    tfos__buffer frame = {0};
    tfos_status status = make_start(cluster, index, &frame, error);
    if (status == TFOS_OK) {
        pthread_mutex_lock(&cluster->send_lock);
        status = spawn_locked(cluster, &frame, error);
        pthread_mutex_unlock(&cluster->send_lock);
    }
    tfos__secret_wipe(frame.data, frame.size);
    tfos__buffer_reset(&frame);
    return status;
}

/* ---- events ---- */

static const tfos__field event_texts[5] = {TFOS__FIELD_NODE, TFOS__FIELD_HOST, TFOS__FIELD_URL, TFOS__FIELD_TEXT,
                                           TFOS__FIELD_TAIL};

static tfos_cluster_event_kind kind_of(tfos__message_type type)
{
    switch (type) {
    case TFOS__MESSAGE_PROGRESS:
        return TFOS_EVENT_PROGRESS;
    case TFOS__MESSAGE_READY:
        return TFOS_EVENT_READY;
    case TFOS__MESSAGE_NODE:
        return TFOS_EVENT_NODE;
    case TFOS__MESSAGE_LOG:
        return TFOS_EVENT_LOG;
    case TFOS__MESSAGE_FAILED:
        return TFOS_EVENT_FAILED;
    case TFOS__MESSAGE_STATUS:
        return TFOS_EVENT_STATUS;
    case TFOS__MESSAGE_OVER:
        return TFOS_EVENT_OVER;
    default:
        return TFOS_EVENT_NONE;
    }
}

/* The whole story of a failure: what, in which node, where; the traceback; the last lines of its log. */
static char *failure_text(const tfos_cluster_event *event, const tfos__message *message, const char *tail)
{
    tfos__buffer text = {0};
    tfos__outcome outcome = (tfos__outcome)tfos__message_number(message, TFOS__FIELD_OUTCOME);
    bool whole = outcome == TFOS__OUTCOME_TIMED_OUT;
    tfos_status status =
        whole ? tfos__buffer_printf(&text, NULL, "the cluster did not start: ")
              : tfos__buffer_printf(&text, NULL, "%s on %s %s", event->node, event->host, tfos__outcome_text(outcome));
    if (status == TFOS_OK && event->text[0] != '\0') {
        const char *gap = whole ? "" : strchr(event->text, '\n') != NULL ? ":\n" : ": ";
        status = tfos__buffer_printf(&text, NULL, "%s%s", gap, event->text);
    }
    if (status == TFOS_OK && tail[0] != '\0' && outcome != TFOS__OUTCOME_RAISED) {
        status = tfos__buffer_printf(&text, NULL, "\nThe last lines of its log:\n%s", tail);
    }
    char *copy = status == TFOS_OK ? strndup((const char *)text.data, text.size) : NULL;
    tfos__buffer_reset(&text);
    return copy;
}

static tfos_status fill_event(tfos_cluster *cluster, const tfos__message *message, tfos_cluster_event *event,
                              tfos_error *error)
{
    for (size_t i = 0; i < 5; i++) {
        free(cluster->texts[i]);
        cluster->texts[i] = tfos__message_duplicate(message, event_texts[i]);
        if (cluster->texts[i] == NULL) {
            return tfos__fail_memory(error, 1024);
        }
    }
    *event = (tfos_cluster_event){
        .kind = kind_of(message->type),
        .count = (int64_t)tfos__message_number(message, TFOS__FIELD_COUNT),
        .total = (int64_t)tfos__message_number(message, TFOS__FIELD_NODES),
        .index = tfos__message_has(message, TFOS__FIELD_INDEX)
                     ? (int32_t)tfos__message_number(message, TFOS__FIELD_INDEX)
                     : -1,
        .stream = (int32_t)tfos__message_number(message, TFOS__FIELD_STREAM),
        .node = cluster->texts[0],
        .host = cluster->texts[1],
        .state = tfos__node_state_text((tfos__node_state)tfos__message_number(message, TFOS__FIELD_STATE)),
        .url = cluster->texts[2],
        .pid = (int64_t)tfos__message_number(message, TFOS__FIELD_PID),
        .text = cluster->texts[3],
    };
    if (event->kind == TFOS_EVENT_FAILED) {
        char *text = failure_text(event, message, cluster->texts[4]);
        if (text != NULL) {
            free(cluster->texts[3]);
            event->text = cluster->texts[3] = text;
        }
    }
    cluster->over = event->kind == TFOS_EVENT_OVER;
    return TFOS_OK;
}

tfos_status tfos_cluster_next(tfos_cluster *cluster, int64_t timeout_ms, tfos_cluster_event *event, tfos_error *error)
{
    tfos__message message;
    if (cluster->over) {
        return TFOS_END;
    }
    int64_t deadline = timeout_ms < 0 ? -1 : monotonic_ms() + timeout_ms;
    tfos_status status;
    do {
        int64_t left = deadline < 0 ? -1 : tfos__max_i64(0, deadline - monotonic_ms());
        status = receive(cluster, left, &message, error);
    } while (status == TFOS_OK && message.type == TFOS__MESSAGE_BEAT);
    if (status == TFOS_END) {
        tfos__message_init(&message, TFOS__MESSAGE_HELLO); /* stands for nothing */
        status = TFOS_OK;
    }
    return status == TFOS_OK ? fill_event(cluster, &message, event, error) : status;
}

/* ---- orders ---- */

tfos_status tfos_cluster_slots(tfos_cluster *cluster, int64_t slots, tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_SLOTS);
    tfos__message_put_number(&message, TFOS__FIELD_COUNT, (uint64_t)slots);
    return send_message(cluster, &message, error);
}

tfos_status tfos_cluster_ask(tfos_cluster *cluster, tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_STATUS);
    return send_message(cluster, &message, error);
}

tfos_status tfos_cluster_finish(tfos_cluster *cluster, int64_t grace_ms, tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FINISH);
    tfos__message_put_number(&message, TFOS__FIELD_GRACE_MS, (uint64_t)tfos__max_i64(0, grace_ms));
    return send_message(cluster, &message, error);
}

tfos_status tfos_cluster_stop(tfos_cluster *cluster, const char *reason, tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_STOP);
    tfos__message_put_text(&message, TFOS__FIELD_TEXT, reason, strnlen(reason, 1000));
    return send_message(cluster, &message, error);
}

/* ---- closing ---- */

/* Waits for a child that has been told to go; one that does not is killed. */
static void reap(pid_t pid, int64_t patience_ms)
{
    int64_t deadline = monotonic_ms() + patience_ms;
    int64_t pause_ms = 1;
    int code;
    while (waitpid(pid, &code, WNOHANG) == 0) {
        if (monotonic_ms() > deadline) {
            kill(pid, SIGKILL);
            deadline = INT64_MAX;
        }
        nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000}, NULL);
        pause_ms = tfos__min_i64(20, pause_ms * 2);
    }
}

void tfos_cluster_close(tfos_cluster *cluster)
{
    if (cluster == NULL) {
        return;
    }
    bool mine = cluster->owner == getpid();
    if (cluster->socket >= 0) {
        if (mine) {
            shutdown(cluster->socket, SHUT_RDWR); /* also for forks of this process that hold it open */
        }
        close(cluster->socket);
    }
    if (mine && cluster->pid > 0) {
        reap(cluster->pid, cluster->close_ms);
    }
    for (size_t i = 0; i < cluster->here_count; i++) {
        close(cluster->here[i].socket);
        if (mine) {
            reap(cluster->here[i].pid, cluster->close_ms);
        }
    }
    for (size_t i = 0; i < 5; i++) {
        free(cluster->texts[i]);
    }
    tfos__secret_wipe(cluster->ticket.data, cluster->ticket.size);
    tfos__buffer_reset(&cluster->ticket);
    tfos__buffer_reset(&cluster->in);
    pthread_mutex_destroy(&cluster->send_lock);
    free(cluster->url);
    free(cluster->folder);
    free(cluster);
}
