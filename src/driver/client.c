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

#include "base/choice.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/status.h"
#include "driver/client.h"
#include "driver/plan.h"
#include "driver/spawn.h"
#include "net/frame.h"

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
    tfos_status send_failure; /* of the first message that could not be sent whole */
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

static const char *const event_names[] = {"none",   "progress", "ready",  "node", "log", "failed",
                                          "status", "feed",     "result", "over", NULL};
TFOS__CHOICE_FUNCTIONS(cluster_event_kind, "kind of event", event_names)

static const char *const feed_state_names[] = {
#define NAME(name, value, word, text) [value] = word,
    TFOS_FEED_STATE_MAP(NAME)
#undef NAME
        NULL,
};
TFOS__CHOICE_FUNCTIONS(feed_state, "state of a feed", feed_state_names)

static const tfos_cluster_options defaults = {.gpus = -1, .timeout_ms = 600000, .slots = -1, .slots_most = -1};

void tfos_cluster_options_init(tfos_cluster_options *options, size_t size)
{
    tfos__options_init(options, size, &defaults, sizeof defaults);
}

/* ---- the socket ---- */

/* LIMIT: nothing was read at the other end for so long. */
static tfos_status send_all(int socket, const uint8_t *bytes, size_t count, int64_t patience_ms, tfos_error *error)
{
    int64_t deadline = tfos__clock_ms() + patience_ms;
    while (count > 0) {
        ssize_t sent = send(socket, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EINTR && errno != EAGAIN) {
            return tfos__fail_errno(error, errno, "cannot send to the process tfos");
        }
        if (sent > 0) {
            bytes += sent;
            count -= (size_t)sent;
            deadline = tfos__clock_ms() + patience_ms;
            continue;
        }
        int64_t left = deadline - tfos__clock_ms();
        struct pollfd wait = {.fd = socket, .events = POLLOUT};
        if (left <= 0) {
            return tfos__fail(error, TFOS_LIMIT, "the process tfos has read nothing for %" PRId64 " s",
                              patience_ms / 1000);
        }
        poll(&wait, 1, (int)tfos__min_i64(left, 1000));
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

/* How long the coordinator may neither say nor read anything. */
static int64_t patience_of(const tfos_cluster *cluster)
{
    return cluster->lease_ms > 0 ? cluster->lease_ms : OPEN_MS;
}

static tfos_status fail_frozen(tfos_cluster *cluster, int64_t silent_ms, tfos_error *error)
{
    pthread_mutex_lock(&cluster->send_lock);
    cluster->close_ms = 0; /* who is frozen does not go by itself */
    pthread_mutex_unlock(&cluster->send_lock);
    return tfos__fail(error, TFOS_IO,
                      "the coordinator (pid %d) has been silent for %" PRId64
                      " s (cluster.lease_ms): it is frozen, and the nodes stop. Start the cluster again",
                      (int)cluster->pid, silent_ms / 1000);
}

tfos_status tfos__cluster_send(tfos_cluster *cluster, const tfos__message *message, tfos_error *error)
{
    tfos__buffer frame = {0};
    tfos_status status = tfos__frame_append(message, &frame, error);
    if (status == TFOS_OK) {
        pthread_mutex_lock(&cluster->send_lock);
        /* Half a message may be out there: nothing can follow it. */
        if (cluster->send_failure == TFOS_OK) {
            cluster->send_failure = send_all(cluster->socket, frame.data, frame.size, patience_of(cluster), NULL);
        }
        status = cluster->send_failure;
        pthread_mutex_unlock(&cluster->send_lock);
        if (status != TFOS_OK) {
            status =
                status == TFOS_LIMIT ? fail_frozen(cluster, patience_of(cluster), error) : fail_gone(cluster, error);
        }
    }
    tfos__secret_wipe(frame.data, frame.size);
    tfos__buffer_reset(&frame);
    return status;
}

/* Waits for the next message. END when the time is over. */
static tfos_status receive(tfos_cluster *cluster, int64_t timeout_ms, tfos__message *out, tfos_error *error)
{
    int64_t deadline = timeout_ms < 0 ? INT64_MAX : tfos__clock_ms() + timeout_ms;
    tfos__buffer *in = &cluster->in;
    tfos__buffer_shift(in, cluster->in_used);
    cluster->in_used = 0;
    for (;;) {
        tfos_status status = tfos__frame_take(in->data, in->size, TFOS__FRAME_BYTES, out, &cluster->in_used, error);
        if (status != TFOS_END) {
            if (status != TFOS_OK) {
                tfos__error_prefix(error, "the coordinator");
            }
            return status;
        }
        int64_t left = deadline == INT64_MAX ? 1000 : deadline - tfos__clock_ms();
        struct pollfd wait = {.fd = cluster->socket, .events = POLLIN};
        int ready = poll(&wait, 1, (int)tfos__max_i64(0, tfos__min_i64(left, 1000)));
        if (ready < 0 && errno != EINTR) {
            return tfos__fail_errno(error, errno, "cannot wait for the coordinator");
        }
        if (ready <= 0) {
            int64_t now = tfos__clock_ms();
            if (cluster->lease_ms > 0 && now - cluster->heard_ms > cluster->lease_ms) {
                return fail_frozen(cluster, now - cluster->heard_ms, error);
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
        cluster->heard_ms = tfos__clock_ms();
    }
}

int tfos__cluster_socket(const tfos_cluster *cluster)
{
    return cluster->socket;
}

bool tfos__cluster_has_message(const tfos_cluster *cluster)
{
    size_t bytes;
    size_t left = cluster->in.size - cluster->in_used;
    const uint8_t *at = left > 0 ? cluster->in.data + cluster->in_used : NULL;
    tfos_status status = tfos__frame_measure(at, left, TFOS__FRAME_BYTES, &bytes, NULL);
    return status == TFOS_OK ? bytes <= left : status != TFOS_END;
}

/* ---- opening ---- */

static tfos_status send_open(tfos_cluster *cluster, const tfos_cluster_options *options, const tfos__plan *plan,
                             tfos_error *error)
{
    tfos__buffer frame = {0};
    tfos_status status = tfos__plan_open(plan, options, &frame, error);
    status = status == TFOS_OK ? send_all(cluster->socket, frame.data, frame.size, OPEN_MS, error) : status;
    tfos__secret_wipe(frame.data, frame.size);
    tfos__buffer_reset(&frame);
    return status == TFOS_OK && options->slots >= 0 ? tfos_cluster_set_slots(cluster, options->slots, NULL, error)
                                                    : status;
}

static tfos_status start(tfos_cluster *cluster, const tfos_cluster_options *options, tfos__plan *plan,
                         tfos_error *error)
{
    char host[256];
    tfos__message answer;
    TFOS_TRY(tfos__plan_make(options, plan, error));
    if (options->folder != NULL && (cluster->folder = strdup(options->folder)) == NULL) {
        return tfos__fail_memory(error, strlen(options->folder));
    }
    TFOS_TRY(tfos__command_find(options->command, cluster->command, sizeof cluster->command, error));
    TFOS_TRY(tfos__command_spawn(cluster->command, "coordinator", environ, &cluster->pid, &cluster->socket, error));
    TFOS_TRY(send_open(cluster, options, plan, error));
    tfos_status status = receive(cluster, OPEN_MS, &answer, error);
    if (status == TFOS_END) {
        return tfos__fail(error, TFOS_IO, "the coordinator did not answer within %d s", OPEN_MS / 1000);
    }
    TFOS_TRY(status);
    if (answer.type == TFOS__MESSAGE_REFUSED) {
        tfos__message_error(&answer, error);
        return error->status;
    }
    if (answer.type != TFOS__MESSAGE_LISTENING) {
        return tfos__fail(error, TFOS_CORRUPT, "the coordinator answered with a message %s",
                          tfos__message_name(answer.type));
    }
    cluster->lease_ms = tfos__max_i64(plan->lease_ms, SILENCE_MS);
    cluster->close_ms = CLOSE_MS + plan->kill_ms;
    cluster->url = tfos__message_duplicate(&answer, TFOS__FIELD_STATUS_URL);
    tfos__message_copy(&answer, TFOS__FIELD_HOST, host, sizeof host);
    return tfos__plan_ticket(plan, options, host, tfos__message_number(&answer, TFOS__FIELD_PORT), &cluster->ticket,
                             error);
}

tfos_status tfos__cluster_options_take(const tfos_cluster_options *options, tfos_cluster_options *out,
                                       tfos_error *error)
{
    return tfos__options_take("tfos_cluster_options", options, &defaults, out, sizeof *out, error);
}

tfos_status tfos_cluster_open(const tfos_cluster_options *options, tfos_cluster **out, tfos_error *error)
{
    tfos_cluster_options taken;
    TFOS_TRY(tfos__cluster_options_take(options, &taken, error));
    options = &taken;
    tfos_error mine;
    tfos__plan plan = {0};
    tfos_cluster *cluster = calloc(1, sizeof *cluster);
    if (cluster == NULL) {
        return tfos__fail_memory(error, sizeof *cluster);
    }
    cluster->socket = -1;
    cluster->owner = getpid();
    cluster->close_ms = CLOSE_MS;
    pthread_mutex_init(&cluster->send_lock, NULL);
    tfos_status status = start(cluster, options, &plan, error != NULL ? error : &mine);
    tfos__secret_wipe(plan.key, sizeof plan.key);
    if (status != TFOS_OK) {
        tfos_cluster_close(cluster);
        return status;
    }
    *out = cluster;
    return TFOS_OK;
}

void tfos_cluster_ticket(const tfos_cluster *cluster, const uint8_t **bytes, size_t *count)
{
    *bytes = cluster->ticket.data + TFOS__FRAME_LENGTH_BYTES;
    *count = cluster->ticket.size - TFOS__FRAME_LENGTH_BYTES;
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

/* What a Spark task would say to the node that it starts, behind the ticket. */
static tfos_status make_start(const tfos_cluster *cluster, int32_t index, tfos__buffer *frame, tfos_error *error)
{
    tfos__message message;
    char host[256] = "";
    char folder[PATH_MAX] = ".";
    TFOS_TRY(own_address(cluster, host, sizeof host, error));
    if (cluster->folder != NULL) {
        snprintf(folder, sizeof folder, "%s", cluster->folder);
    } else if (getcwd(folder, sizeof folder) == NULL) {
        return tfos__fail_errno(error, errno, "cannot find the working folder");
    }
    tfos__message_init(&message, TFOS__MESSAGE_START);
    tfos__message_put_number(&message, TFOS__FIELD_INDEX, (uint64_t)index);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, host);
    tfos__message_put_string(&message, TFOS__FIELD_EXECUTOR, "driver");
    tfos__message_put_number(&message, TFOS__FIELD_EXECUTOR_PID, (uint64_t)getpid());
    tfos__message_put_number(&message, TFOS__FIELD_CORES, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    tfos__message_put_text(&message, TFOS__FIELD_WORK_FOLDER, folder, strlen(folder));
    return tfos__frame_append(&message, frame, error);
}

static tfos_status spawn_locked(tfos_cluster *cluster, const tfos__buffer *start, tfos_error *error)
{
    pid_t pid;
    int socket;
    if (cluster->here_count == NODES_HERE_MOST) {
        return tfos__fail(error, TFOS_LIMIT, "at most %d nodes can run on the driver", NODES_HERE_MOST);
    }
    TFOS_TRY(tfos__command_spawn(cluster->command, "node", environ, &pid, &socket, error));
    cluster->here[cluster->here_count].pid = pid;
    cluster->here[cluster->here_count++].socket = socket;
    TFOS_TRY(send_all(socket, cluster->ticket.data, cluster->ticket.size, OPEN_MS, error));
    return send_all(socket, start->data, start->size, OPEN_MS, error);
}

tfos_status tfos_cluster_spawn(tfos_cluster *cluster, int32_t index, tfos_error *error)
{
    tfos__buffer start = {0};
    tfos_status status = make_start(cluster, index, &start, error);
    if (status == TFOS_OK) {
        pthread_mutex_lock(&cluster->send_lock);
        status = spawn_locked(cluster, &start, error);
        pthread_mutex_unlock(&cluster->send_lock);
    }
    tfos__buffer_reset(&start);
    return status;
}

/* ---- events ---- */

/* The texts of an event: of a node, its host, its TensorBoard, what is said (for people, or for programs), its log. */
enum { EVENT_NODE, EVENT_HOST, EVENT_URL, EVENT_TEXT, EVENT_TAIL, EVENT_TEXTS };

static const tfos__field event_texts[EVENT_TEXTS] = {TFOS__FIELD_NODE, TFOS__FIELD_HOST, TFOS__FIELD_TENSORBOARD_URL,
                                                     TFOS__FIELD_TEXT, TFOS__FIELD_TAIL};

static tfos_cluster_event_kind kind_of(tfos__message_type type)
{
    switch (type) {
    case TFOS__MESSAGE_PROGRESS:
        return TFOS_EVENT_PROGRESS;
    case TFOS__MESSAGE_READY:
        return TFOS_EVENT_READY;
    case TFOS__MESSAGE_NODE:
        return TFOS_EVENT_NODE;
    case TFOS__MESSAGE_OUTPUT:
        return TFOS_EVENT_LOG;
    case TFOS__MESSAGE_FAILED:
        return TFOS_EVENT_FAILED;
    case TFOS__MESSAGE_STATUS:
        return TFOS_EVENT_STATUS;
    case TFOS__MESSAGE_FEED_STATE:
        return TFOS_EVENT_FEED;
    case TFOS__MESSAGE_RESULT:
        return TFOS_EVENT_RESULT;
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

static tfos_status copy_texts(tfos_cluster *cluster, const tfos__message *message, tfos_error *error)
{
    for (size_t i = 0; i < EVENT_TEXTS; i++) {
        bool is_json = i == EVENT_TEXT && tfos__message_has(message, TFOS__FIELD_JSON);
        free(cluster->texts[i]);
        cluster->texts[i] = tfos__message_duplicate(message, is_json ? TFOS__FIELD_JSON : event_texts[i]);
        if (cluster->texts[i] == NULL) {
            return tfos__fail_memory(error, 1024);
        }
    }
    return TFOS_OK;
}

static tfos_status fill_event(tfos_cluster *cluster, const tfos__message *message, tfos_cluster_event *event,
                              tfos_error *error)
{
    TFOS_TRY(copy_texts(cluster, message, error));
    *event = (tfos_cluster_event){
        .kind = kind_of(message->type),
        .count = (int64_t)tfos__message_number(message, TFOS__FIELD_NODES_HERE),
        .total = (int64_t)tfos__message_number(message, TFOS__FIELD_NODES),
        .index = tfos__message_has(message, TFOS__FIELD_INDEX)
                     ? (int32_t)tfos__message_number(message, TFOS__FIELD_INDEX)
                     : -1,
        .stream = (int32_t)tfos__message_number(message, TFOS__FIELD_STREAM),
        .node = cluster->texts[EVENT_NODE],
        .host = cluster->texts[EVENT_HOST],
        .state = tfos__node_state_text((tfos__node_state)tfos__message_number(message, TFOS__FIELD_STATE)),
        .url = cluster->texts[EVENT_URL],
        .pid = (int64_t)tfos__message_number(message, TFOS__FIELD_TENSORBOARD_PID),
        .text = cluster->texts[EVENT_TEXT],
    };
    if (event->kind == TFOS_EVENT_FEED) {
        event->count = (int64_t)tfos__message_number(message, TFOS__FIELD_FEED);
        event->total = (int64_t)tfos__message_number(message, TFOS__FIELD_EPOCH);
        event->feed = (tfos_feed_state)tfos__message_number(message, TFOS__FIELD_FEED_STATE);
        event->state = tfos_feed_state_name(event->feed);
        event->status = (tfos_status)tfos__message_number(message, TFOS__FIELD_STATUS);
        event->fault = (tfos_fault)tfos__message_number(message, TFOS__FIELD_FAULT);
    }
    if (event->kind == TFOS_EVENT_RESULT) {
        tfos__text piece = tfos__message_text(message, TFOS__FIELD_PIECE);
        event->bytes = (const uint8_t *)piece.at;
        event->byte_count = piece.count;
        event->offset = tfos__message_number(message, TFOS__FIELD_OFFSET);
        event->head_bytes = tfos__message_number(message, TFOS__FIELD_HEAD_BYTES);
        event->value_bytes = tfos__message_number(message, TFOS__FIELD_VALUE_BYTES);
    }
    if (event->kind == TFOS_EVENT_FAILED) {
        char *text = failure_text(event, message, cluster->texts[EVENT_TAIL]);
        if (text != NULL) {
            free(cluster->texts[EVENT_TEXT]);
            event->text = cluster->texts[EVENT_TEXT] = text;
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
    int64_t deadline = timeout_ms < 0 ? -1 : tfos__clock_ms() + timeout_ms;
    tfos_status status;
    do {
        int64_t left = deadline < 0 ? -1 : tfos__max_i64(0, deadline - tfos__clock_ms());
        status = receive(cluster, left, &message, error);
    } while (status == TFOS_OK && message.type == TFOS__MESSAGE_ALIVE);
    if (status == TFOS_END) {
        tfos__message_init(&message, TFOS__MESSAGE_ALIVE); /* stands for nothing */
        status = TFOS_OK;
    }
    return status == TFOS_OK ? fill_event(cluster, &message, event, error) : status;
}

/* ---- orders ---- */

tfos_status tfos_cluster_set_slots(tfos_cluster *cluster, int64_t slots, const char *holders, tfos_error *error)
{
    enum { HOLDERS_BYTES = 1024 };
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_SLOTS);
    tfos__message_put_number(&message, TFOS__FIELD_SLOTS, (uint64_t)slots);
    if (holders != NULL) {
        tfos__message_put_text(&message, TFOS__FIELD_HOLDERS, holders, strnlen(holders, HOLDERS_BYTES));
    }
    return tfos__cluster_send(cluster, &message, error);
}

tfos_status tfos_cluster_request_status(tfos_cluster *cluster, tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_ASK_STATUS);
    return tfos__cluster_send(cluster, &message, error);
}

tfos_status tfos_cluster_finish(tfos_cluster *cluster, int64_t grace_ms, tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FINISH);
    tfos__message_put_number(&message, TFOS__FIELD_GRACE_MS, (uint64_t)tfos__max_i64(0, grace_ms));
    return tfos__cluster_send(cluster, &message, error);
}

tfos_status tfos_cluster_stop(tfos_cluster *cluster, const char *reason, tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_STOP);
    tfos__message_put_text(&message, TFOS__FIELD_TEXT, reason, strnlen(reason, 1000));
    return tfos__cluster_send(cluster, &message, error);
}

/* ---- closing ---- */

/* Waits for a child that has been told to go; one that does not is killed. */
static void reap(pid_t pid, int64_t patience_ms)
{
    int64_t deadline = tfos__clock_ms() + patience_ms;
    int64_t pause_ms = 1;
    int code;
    while (waitpid(pid, &code, WNOHANG) == 0) {
        if (tfos__clock_ms() > deadline) {
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
    for (size_t i = 0; i < EVENT_TEXTS; i++) {
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
