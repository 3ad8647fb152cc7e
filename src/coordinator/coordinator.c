/* The coordinator binds the roster to the world: a listening socket for nodes, the driver's socket, a clock.
 *
 * Whoever connects is a stranger until TLS has shown that it has the key, and nobody until it has said HELLO with our
 * version and REGISTER. Strangers are bounded in number and in time and cost nobody else anything. */
#include "coordinator/coordinator.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/status.h"
#include "coordinator/crowd.h"
#include "coordinator/feeds.h"
#include "coordinator/muster.h"
#include "coordinator/opening.h"
#include "coordinator/page.h"
#include "coordinator/progress.h"
#include "coordinator/results.h"
#include "coordinator/roster.h"
#include "coordinator/status.h"
#include "feed/number_map.h"
#include "service/link.h"
#include "service/note.h"

enum {
    TICK_MS = 100,
    STRANGER_MS = 2000,             /* that a stranger has to say who it is, when others wait */
    LAST_WORDS_MS = 5000,           /* after the driver has gone and nodes were given up */
    DRIVER_BACKLOG_BYTES = 8 << 20, /* of output that waits for the driver */
    SLEEP_MS = 2000,                /* between two ticks: we were not running */
};

typedef enum peer_kind { PEER_STRANGER, PEER_GREETED, PEER_NODE, PEER_SPARE, PEER_PRODUCER } peer_kind;

typedef struct coordinator coordinator;

typedef struct peer {
    coordinator *of;
    tfos__link *link;
    peer_kind kind;
    bool evicted;
    uint64_t came_ms;
    uint32_t index;            /* of a node */
    uint64_t producer;         /* the number of a producer */
    tfos__buffer registration; /* of a spare: what it said, for the day when it is needed */
    TAILQ_ENTRY(peer) among_all;
    TAILQ_ENTRY(peer) among_strangers;
} peer;

struct coordinator {
    uv_loop_t loop;
    uv_tcp_t listener;
    tfos__page *page;
    uv_timer_t ticker;
    uv_signal_t terminate;
    tfos__link *driver;
    pid_t driver_pid;
    uint64_t driver_left_ms;
    uint64_t ticked_ms;
    uint64_t beat_sent_ms; /* to the driver */
    uint64_t dropped_lines;
    tfos__tls_context *tls;
    tfos__roster *roster;
    tfos__feeds *feeds;
    tfos__muster *muster;
    tfos__progress *progress;
    tfos__results *results;
    uint64_t last_producer;
    tfos__number_map producers; /* peers by their numbers as producers */
    peer **nodes;               /* by index; NULL when not connected */
    TAILQ_HEAD(, peer) peers;
    TAILQ_HEAD(, peer) strangers; /* the oldest first; not those that were evicted */
    size_t others;                /* peers that are neither producers nor evicted */
    bool others_wait;             /* a connection was not accepted for want of room */
    tfos__crowd crowd;
    tfos__peer_counts counts;
    bool told[4]; /* which causes of refusal have been logged */
    bool closing;
    tfos_error error;
};

static uint64_t now_of(const coordinator *self)
{
    return uv_now(&self->loop);
}

/* A driver that reads again after a pause is told what it missed. */
static void tell_dropped(coordinator *self)
{
    char text[128];
    tfos__message message;
    snprintf(text, sizeof text, "%" PRIu64 " lines were dropped here: the driver did not read them in time\n",
             self->dropped_lines);
    tfos__message_init(&message, TFOS__MESSAGE_OUTPUT);
    tfos__message_put_string(&message, TFOS__FIELD_NODE, "tfos");
    tfos__message_put_string(&message, TFOS__FIELD_HOST, "coordinator");
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, text);
    self->dropped_lines = 0;
    tfos__link_send(self->driver, &message);
}

/* Output of programs gives way when the driver does not read; what it must know always has room. */
static void tell_driver(void *context, const tfos__message *message)
{
    coordinator *self = context;
    if (self->driver == NULL) {
        return;
    }
    if (message->type == TFOS__MESSAGE_OUTPUT) {
        if (tfos__link_backlog(self->driver) > DRIVER_BACKLOG_BYTES) {
            tfos__text text = tfos__message_text(message, TFOS__FIELD_TEXT);
            self->dropped_lines += tfos__lines_in(text.at, text.count);
            return;
        }
        if (self->dropped_lines > 0) {
            tell_dropped(self);
        }
    }
    tfos__link_send(self->driver, message);
}

static bool driver_has_room(void *context)
{
    const coordinator *self = context;
    return self->driver == NULL || tfos__link_backlog(self->driver) <= DRIVER_BACKLOG_BYTES;
}

static void tell_node(void *context, uint32_t index, const tfos__message *message)
{
    coordinator *self = context;
    if (self->nodes[index] != NULL) {
        tfos__link_send(self->nodes[index]->link, message);
    }
}

static void tell_producer(void *context, uint64_t producer, const tfos__message *message)
{
    coordinator *self = context;
    peer *found = tfos__number_map_get(&self->producers, producer);
    if (found != NULL) {
        tfos__link_send(found->link, message);
    }
}

/* ---- the end ---- */

static void close_all(coordinator *self)
{
    if (self->closing) {
        return;
    }
    self->closing = true;
    peer *each;
    TAILQ_FOREACH (each, &self->peers, among_all) {
        tfos__link_close(each->link);
    }
    if (self->driver != NULL) {
        tfos__link_close(self->driver);
    }
    tfos__page_close(self->page);
    uv_close((uv_handle_t *)&self->listener, NULL);
    uv_close((uv_handle_t *)&self->ticker, NULL);
    uv_close((uv_handle_t *)&self->terminate, NULL);
}

static void driver_is_gone(coordinator *self)
{
    if (self->driver_left_ms == 0) {
        self->driver_left_ms = now_of(self);
        if (self->roster != NULL) {
            tfos__roster_stop(self->roster, "the driver is gone", now_of(self));
        }
    }
}

/* Lets the driver know that we are there. */
static void beat_driver(coordinator *self, uint64_t now)
{
    tfos__message message;
    if (self->driver == NULL || now - self->beat_sent_ms < tfos__roster_options_of(self->roster)->beat_ms ||
        tfos__link_backlog(self->driver) > 0) {
        return;
    }
    self->beat_sent_ms = now;
    tfos__message_init(&message, TFOS__MESSAGE_ALIVE);
    tfos__link_send(self->driver, &message);
}

static void let_others_in(coordinator *self);

static void on_tick(uv_timer_t *timer)
{
    coordinator *self = timer->data;
    uint64_t now = now_of(self);
    uint64_t slept_ms = self->ticked_ms != 0 ? now - self->ticked_ms : 0;
    self->ticked_ms = now;
    let_others_in(self);
    if (getppid() != self->driver_pid) {
        driver_is_gone(self);
    }
    bool over = self->roster == NULL;
    uint64_t stop_ms = 0;
    if (self->roster != NULL) {
        if (slept_ms > SLEEP_MS) {
            tfos__roster_forgive(self->roster, slept_ms);
        }
        tfos__roster_tick(self->roster, now);
        tfos__feeds_tick(self->feeds, now);
        tfos__muster_tick(self->muster, now);
        tfos__results_tick(self->results);
        beat_driver(self, now);
        over = tfos__roster_phase(self->roster) == TFOS__PHASE_OVER;
        stop_ms = tfos__roster_options_of(self->roster)->stop_ms;
    }
    if (self->driver_left_ms != 0 && (over || now - self->driver_left_ms > stop_ms + LAST_WORDS_MS)) {
        close_all(self);
    }
}

static void on_terminate(uv_signal_t *handle, int number)
{
    coordinator *self = handle->data;
    (void)number;
    driver_is_gone(self);
}

/* ---- nodes ---- */

/* Logs the first of its kind: a stranger that tries all day must not fill the driver's terminal. */
static void note_refusal(coordinator *self, size_t cause, uint64_t *count, const char *text)
{
    ++*count;
    if (!self->told[cause]) {
        self->told[cause] = true;
        tfos__note("refused a connection: %s (further ones of this kind are only counted)", text);
    }
}

static void refuse(peer *stranger, const char *text)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_REFUSED);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, text);
    tfos__link_send(stranger->link, &message);
    tfos__link_close(stranger->link);
}

static void become_known(peer *stranger)
{
    if (!stranger->evicted) {
        TAILQ_REMOVE(&stranger->of->strangers, stranger, among_strangers);
    }
    stranger->kind = PEER_GREETED;
}

static void greet(peer *stranger, const tfos__message *message)
{
    coordinator *self = stranger->of;
    char version[64];
    char text[256];
    if (message->type != TFOS__MESSAGE_HELLO) {
        note_refusal(self, 2, &self->counts.refused_other, "it did not begin with HELLO");
        refuse(stranger, "the first message must be HELLO");
        return;
    }
    tfos__message_copy(message, TFOS__FIELD_VERSION, version, sizeof version);
    if (strcmp(version, TFOS_VERSION) != 0) {
        snprintf(text, sizeof text,
                 "the driver runs tfos %s, this node tfos %s; install the same version on the executors or on none",
                 TFOS_VERSION, tfos__printable_text(version).text);
        note_refusal(self, 1, &self->counts.refused_version, text);
        refuse(stranger, text);
        return;
    }
    become_known(stranger);
}

static void admit_producer(peer *greeted, const tfos__message *message)
{
    coordinator *self = greeted->of;
    char text[256];
    tfos_error error;
    if (self->producers.count >= self->crowd.producers_most) {
        tfos__crowd_describe(&self->crowd, text, sizeof text);
        note_refusal(self, 3, &self->counts.refused_other, text);
        refuse(greeted, text);
        return;
    }
    if (tfos__number_map_put(&self->producers, self->last_producer + 1, greeted, &error) != TFOS_OK) {
        refuse(greeted, error.message);
        return;
    }
    greeted->kind = PEER_PRODUCER;
    greeted->producer = ++self->last_producer;
    self->others--;
    tfos__feeds_hear_producer(self->feeds, greeted->producer, message, now_of(self));
    let_others_in(self);
}

static void register_node(peer *greeted, const tfos__message *message)
{
    coordinator *self = greeted->of;
    tfos_error error;
    uint32_t index;
    if (message->type == TFOS__MESSAGE_ADMIT) {
        admit_producer(greeted, message);
        return;
    }
    if (message->type != TFOS__MESSAGE_REGISTER) {
        note_refusal(self, 2, &self->counts.refused_other, "it did not register");
        refuse(greeted, "REGISTER or ADMIT must follow HELLO");
        return;
    }
    tfos_status status = tfos__roster_register(self->roster, message, now_of(self), &index, &error);
    if (status == TFOS_EXISTS) {
        greeted->kind = PEER_SPARE;
        tfos__buffer_reset(&greeted->registration);
        if (tfos__message_encode(message, &greeted->registration, &error) != TFOS_OK) {
            refuse(greeted, error.message);
        }
    } else if (status != TFOS_OK) {
        note_refusal(self, 2, &self->counts.refused_other, error.message);
        refuse(greeted, error.message);
    } else {
        peer *before = self->nodes[index];
        if (before != NULL) {
            before->kind = PEER_GREETED; /* it has come back on another connection: this one means nothing any more */
            tfos__link_close(before->link);
        }
        greeted->kind = PEER_NODE;
        greeted->index = index;
        self->nodes[index] = greeted;
        tfos__feeds_hear_node(self->feeds, index, message, now_of(self));
        tfos__feeds_node_returned(self->feeds, index);
        tfos__roster_welcome(self->roster, index, now_of(self));
    }
}

/* The node that a spare stands in for is gone before anything began: now it is the node. */
static void promote(peer *spare)
{
    tfos__message message;
    tfos__buffer registration = spare->registration;
    spare->registration = (tfos__buffer){0};
    if (tfos__message_decode(registration.data, registration.size, &message, NULL) == TFOS_OK) {
        register_node(spare, &message);
    }
    tfos__buffer_reset(&registration);
}

static void answer_spare(peer *spare, const tfos__message *message)
{
    tfos__message answer;
    tfos__message registration;
    if (tfos__roster_phase(spare->of->roster) >= TFOS__PHASE_STOPPING) {
        refuse(spare, "the cluster has been stopped");
    } else if (message->type == TFOS__MESSAGE_ENDED) {
        tfos__message_init(&answer, TFOS__MESSAGE_BYE);
        tfos__link_send(spare->link, &answer);
    } else if (message->type == TFOS__MESSAGE_BEAT) {
        tfos__message_init(&answer, TFOS__MESSAGE_ALIVE);
        tfos__link_send(spare->link, &answer);
        if (tfos__message_decode(spare->registration.data, spare->registration.size, &registration, NULL) == TFOS_OK &&
            tfos__roster_is_vacant(spare->of->roster, tfos__message_number(&registration, TFOS__FIELD_INDEX))) {
            promote(spare);
        }
    }
}

/* The roster first: whether a program that ended has failed, it must know before its rows are given up. */
static void hear_node(coordinator *self, uint32_t index, const tfos__message *message)
{
    if (message->type == TFOS__MESSAGE_ENDED) {
        tfos__feeds_count_last(self->feeds, index, message, now_of(self)); /* the cluster may be over with this */
    }
    tfos__roster_hear(self->roster, index, message, now_of(self));
    switch (message->type) {
    case TFOS__MESSAGE_MEET:
        tfos__muster_hear(self->muster, index, message, now_of(self));
        break;
    case TFOS__MESSAGE_REPORT:
        tfos__progress_hear(self->progress, index, message, now_of(self));
        break;
    case TFOS__MESSAGE_RESULT:
        tfos__results_hear(self->results, index, message);
        break;
    default:
        tfos__feeds_hear_node(self->feeds, index, message, now_of(self));
        break;
    }
}

static void on_node_message(tfos__link *link, const tfos__message *message, void *context)
{
    peer *from = context;
    (void)link;
    switch (from->kind) {
    case PEER_STRANGER:
        greet(from, message);
        break;
    case PEER_GREETED:
        register_node(from, message);
        break;
    case PEER_NODE:
        hear_node(from->of, from->index, message);
        break;
    case PEER_PRODUCER:
        tfos__feeds_hear_producer(from->of->feeds, from->producer, message, now_of(from->of));
        break;
    case PEER_SPARE:
        answer_spare(from, message);
        break;
    }
}

static void count_refusal(coordinator *self, const tfos_error *error)
{
    if (error->status == TFOS_PERMISSION) {
        note_refusal(self, 0, &self->counts.refused_key, error->message);
    } else if (error->status == TFOS_LIMIT) {
        note_refusal(self, 2, &self->counts.refused_slow, error->message);
    } else {
        self->counts.refused_other++; /* came and went, as port scanners and health checks do */
    }
}

static void on_node_closed(tfos__link *link, const tfos_error *error, void *context)
{
    peer *gone = context;
    coordinator *self = gone->of;
    (void)link;
    if (gone->kind == PEER_STRANGER && error->status != TFOS_OK && !gone->evicted) {
        count_refusal(self, error);
    }
    if (gone->kind == PEER_NODE) {
        self->nodes[gone->index] = NULL;
        if (!self->closing) {
            tfos__roster_disconnect(self->roster, gone->index, now_of(self));
        }
    }
    if (gone->kind == PEER_PRODUCER) {
        tfos__number_map_remove(&self->producers, gone->producer);
        if (!self->closing) {
            tfos__feeds_producer_left(self->feeds, gone->producer);
        }
    } else if (!gone->evicted) {
        self->others--;
    }
    if (gone->kind == PEER_STRANGER) {
        become_known(gone);
    }
    TAILQ_REMOVE(&self->peers, gone, among_all);
    tfos__buffer_reset(&gone->registration);
    free(gone);
    let_others_in(self);
}

/* Whether another one may come in. If there are too many, the oldest of those who have not shown the key makes room,
 * once it had the time to do so: when thousands of tasks begin to feed at the same moment, nobody is to blame, and the
 * kernel keeps the rest of them waiting. */
static bool make_room(coordinator *self)
{
    peer *oldest = TAILQ_FIRST(&self->strangers);
    if (self->others < self->crowd.others_most || oldest == NULL) {
        return true;
    }
    if (now_of(self) - oldest->came_ms < STRANGER_MS) {
        return false;
    }
    TAILQ_REMOVE(&self->strangers, oldest, among_strangers);
    oldest->evicted = true;
    self->others--;
    note_refusal(self, 2, &self->counts.refused_slow, "there are too many that do not say who they are");
    tfos__link_close(oldest->link);
    return true;
}

/* Takes the connection that the listener has. */
static void let_in(coordinator *self)
{
    static const tfos__link_events events = {.message = on_node_message, .closed = on_node_closed};
    tfos_error error;
    peer *stranger = calloc(1, sizeof *stranger);
    if (stranger == NULL) {
        self->others_wait = true; /* until there is memory */
        return;
    }
    stranger->of = self;
    stranger->came_ms = now_of(self);
    tfos_status status =
        tfos__link_accept((uv_stream_t *)&self->listener, self->tls, &events, stranger, &stranger->link, &error);
    if (status != TFOS_OK) {
        self->others_wait = status == TFOS_NO_MEMORY;
        free(stranger);
        return;
    }
    self->counts.accepted++;
    TAILQ_INSERT_TAIL(&self->peers, stranger, among_all);
    TAILQ_INSERT_TAIL(&self->strangers, stranger, among_strangers);
    if (++self->others > self->crowd.others_most) {
        note_refusal(self, 2, &self->counts.refused_other, "there are too many connections");
        become_known(stranger);
        tfos__link_close(stranger->link);
    }
}

static void let_others_in(coordinator *self)
{
    if (self->others_wait && !self->closing && make_room(self)) {
        self->others_wait = false;
        let_in(self);
    }
}

static void on_connection(uv_stream_t *listener, int code)
{
    coordinator *self = listener->data;
    if (code == 0 && make_room(self)) {
        let_in(self);
    } else if (code == 0) {
        self->others_wait = true; /* libuv asks again when this one was accepted */
    }
}

/* ---- the driver ---- */

static tfos__status_parts parts_of(const coordinator *self)
{
    return (tfos__status_parts){
        .roster = self->roster, .feeds = self->feeds, .progress = self->progress, .counts = &self->counts};
}

static char *status_json(void *context, const tfos__status_wish *wish)
{
    const coordinator *self = context;
    const tfos__status_parts parts = parts_of(self);
    return tfos__status_json(&parts, wish, now_of(self));
}

static void answer_status(coordinator *self)
{
    tfos__message message;
    const tfos__status_parts parts = parts_of(self);
    char *json = tfos__status_for_driver(&parts, now_of(self));
    if (json != NULL) {
        tfos__message_init(&message, TFOS__MESSAGE_STATUS);
        tfos__message_put_string(&message, TFOS__FIELD_JSON, json);
        tell_driver(self, &message);
        free(json);
    }
}

/* The last words are preceded by a status, which nobody can ask for any more. */
static void tell_driver_last(void *context, const tfos__message *message)
{
    if (message->type == TFOS__MESSAGE_OVER) {
        answer_status(context);
    }
    tell_driver(context, message);
}

static tfos__ports ports_of(const tfos__message *open, tfos__field first, tfos__field last, const char *setting)
{
    return (tfos__ports){.first = (uint16_t)tfos__message_number(open, first),
                         .last = (uint16_t)tfos__message_number(open, last),
                         .setting = setting};
}

static tfos_status open_cluster(coordinator *self, const tfos__message *open, tfos_error *error)
{
    const tfos__roster_calls calls = {.to_node = tell_node, .to_driver = tell_driver_last, .context = self};
    tfos__text key = tfos__message_text(open, TFOS__FIELD_KEY);
    tfos__roster_options options;
    char host[256];
    uint16_t port = 0;
    TFOS_TRY(tfos__opening_read(open, &options, error));
    if (key.count != TFOS__KEY_BYTES) {
        return tfos__fail(error, TFOS_INVALID, "the cluster key has %zu bytes instead of %d", key.count,
                          TFOS__KEY_BYTES);
    }
    TFOS_TRY(tfos__crowd_plan(tfos__crowd_files(), options.roles.nodes, &self->crowd, error));
    TFOS_TRY(tfos__tls_context_new(TFOS__TLS_SERVER, (const uint8_t *)key.at, TFOS__LINK_PURPOSE, &self->tls, error));
    TFOS_TRY(tfos__roster_new(&options, &calls, now_of(self), &self->roster, error));
    const tfos__feeds_calls feed_calls = {
        .to_node = tell_node, .to_driver = tell_driver, .to_producer = tell_producer, .context = self};
    TFOS_TRY(tfos__feeds_new(self->roster, &feed_calls, &self->feeds, error));
    const tfos__muster_calls muster_calls = {.to_node = tell_node, .context = self};
    TFOS_TRY(tfos__muster_new(self->roster, &muster_calls, &self->muster, error));
    TFOS_TRY(tfos__progress_new(self->roster, self->feeds, tell_driver, self, &self->progress, error));
    const tfos__results_calls result_calls = {
        .to_node = tell_node, .to_driver = tell_driver, .has_room = driver_has_room, .context = self};
    TFOS_TRY(tfos__results_new(options.roles.nodes, &result_calls, &self->results, error));
    self->nodes = calloc(options.roles.nodes, sizeof *self->nodes);
    if (self->nodes == NULL) {
        return tfos__fail_memory(error, options.roles.nodes * sizeof *self->nodes);
    }
    tfos__message_copy(open, TFOS__FIELD_HOST, host, sizeof host);
    tfos__ports ports = ports_of(open, TFOS__FIELD_PORT, TFOS__FIELD_PORT_LAST, "TFOS_SERVER_PORT");
    TFOS_TRY(tfos__listener_open(&self->listener, host, &ports, on_connection, &port, error));
    ports = ports_of(open, TFOS__FIELD_STATUS_PORT, TFOS__FIELD_STATUS_PORT_LAST, "TFOS_STATUS_PORT");
    TFOS_TRY(tfos__page_open(&self->loop, host, &ports, status_json, self, &self->page, error));
    tfos__message answer;
    tfos__message_init(&answer, TFOS__MESSAGE_LISTENING);
    tfos__message_put_string(&answer, TFOS__FIELD_HOST, host);
    tfos__message_put_number(&answer, TFOS__FIELD_PORT, port);
    tfos__message_put_string(&answer, TFOS__FIELD_STATUS_URL, tfos__page_url(self->page));
    tell_driver(self, &answer);
    return TFOS_OK;
}

static void refuse_driver(coordinator *self, const tfos_error *error)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_REFUSED);
    tfos__message_put_error(&message, error);
    tell_driver(self, &message);
    tfos__link_close(self->driver);
}

static void on_driver_message(tfos__link *link, const tfos__message *message, void *context)
{
    coordinator *self = context;
    tfos_error error;
    (void)link;
    if (self->roster == NULL) {
        if (message->type != TFOS__MESSAGE_OPEN) {
            tfos__fail(&error, TFOS_INVALID, "the first message of a driver must be OPEN");
            refuse_driver(self, &error);
        } else if (open_cluster(self, message, &error) != TFOS_OK) {
            refuse_driver(self, &error);
        }
    } else if (message->type == TFOS__MESSAGE_ASK_STATUS) {
        answer_status(self);
    } else if (message->type >= TFOS__MESSAGE_FEED) {
        tfos__feeds_obey(self->feeds, message, now_of(self));
    } else {
        tfos__roster_obey(self->roster, message, now_of(self));
    }
}

static void on_driver_closed(tfos__link *link, const tfos_error *error, void *context)
{
    coordinator *self = context;
    (void)link;
    self->driver = NULL;
    /* A driver that goes before it has read everything resets the connection: that is an end like any other. */
    if (error->status != TFOS_OK && error->status != TFOS_IO && self->error.status == TFOS_OK) {
        self->error = *error;
    }
    driver_is_gone(self);
}

/* ---- running ---- */

tfos_status tfos__coordinator_run(int driver, tfos_error *error)
{
    static const tfos__link_events events = {.message = on_driver_message, .closed = on_driver_closed};
    coordinator *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return tfos__fail_memory(error, sizeof *self);
    }
    TAILQ_INIT(&self->peers);
    TAILQ_INIT(&self->strangers);
    self->driver_pid = getppid();
    uv_loop_init(&self->loop);
    uv_tcp_init(&self->loop, &self->listener);
    uv_timer_init(&self->loop, &self->ticker);
    uv_signal_init(&self->loop, &self->terminate);
    self->listener.data = self;
    self->ticker.data = self;
    self->terminate.data = self;
    uv_timer_start(&self->ticker, on_tick, TICK_MS, TICK_MS);
    uv_signal_start(&self->terminate, on_terminate, SIGTERM);
    tfos_status status = tfos__link_adopt(&self->loop, driver, &events, self, &self->driver, error);
    if (status != TFOS_OK) {
        close_all(self);
    }
    uv_run(&self->loop, UV_RUN_DEFAULT);
    if (status == TFOS_OK && self->error.status != TFOS_OK) {
        status = self->error.status;
        *error = self->error;
    }
    uv_loop_close(&self->loop);
    tfos__progress_free(self->progress);
    tfos__results_free(self->results);
    tfos__feeds_free(self->feeds);
    tfos__muster_free(self->muster);
    tfos__roster_free(self->roster);
    tfos__tls_context_free(self->tls);
    tfos__number_map_reset(&self->producers);
    free(self->nodes);
    free(self);
    return status;
}
