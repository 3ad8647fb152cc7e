/* Links to the other hosts of a group. Each host dials those behind it, while a thread answers those before it: if all
 * dialled first, nobody would answer. Whoever comes shows the group's key by the handshake, and says who it is. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "collective/group.h"

#define LINK_PURPOSE "tfos collective plane 1"

enum {
    SLICE_MS = 100,
    STRANGERS_MOST = 64, /* that are connected and have not said who they are */
    GREETING_MS = 10000, /* for them to do so */
};

typedef struct stranger {
    tfos__dial *dial; /* NULL: nobody */
    int64_t due_ms;
} stranger;

typedef struct linking {
    tfos_group *group;
    const tfos__group_opening *opening;
    size_t host;
    size_t links;
    tfos__dial *out[TFOS__FAR_LINKS_MOST];
    tfos__dial *in[TFOS__FAR_LINKS_MOST];
    stranger strangers[STRANGERS_MOST];
    _Atomic bool failed; /* either side has */
    int ended;           /* an eventfd, by which the thread that answers says that it has ended */
    tfos_status answered;
    tfos_error error; /* of the thread that answers */
} linking;

/* ---- answering ---- */

/* The first host that is still missing; SIZE_MAX: none is. */
static size_t missing_link(const linking *self)
{
    for (size_t i = 0; i < self->links; i++) {
        if (self->in[i] == NULL) {
            return i;
        }
    }
    return SIZE_MAX;
}

static const char *name_before(const linking *self, size_t link)
{
    const tfos__hosts *hosts = &self->group->hosts;
    for (size_t host = 0; host < hosts->count; host++) {
        if (tfos__far_host_behind(hosts->count, host, link) == self->host) {
            return self->group->members[hosts->leaders[host]].name;
        }
    }
    return "another host";
}

/* Whether somebody that has said who it is was waited for. */
static bool admit(linking *self, tfos__dial *dial, const tfos__message *greeting)
{
    const tfos__hosts *hosts = &self->group->hosts;
    uint64_t rank = tfos__message_number(greeting, TFOS__FIELD_RANK);
    if (greeting->type != TFOS__MESSAGE_GREETING ||
        tfos__message_number(greeting, TFOS__FIELD_MEETING) != self->group->meeting || rank >= hosts->size ||
        hosts->leaders[hosts->host_of[rank]] != rank) {
        return false;
    }
    for (size_t link = 0; link < self->links; link++) {
        bool awaited = tfos__far_host_behind(hosts->count, hosts->host_of[rank], link) == self->host;
        if (awaited && self->in[link] == NULL) {
            self->in[link] = dial;
            return true;
        }
    }
    return false;
}

/* One that is free, or else that of the oldest, which has to go. */
static stranger *make_place(linking *self)
{
    stranger *oldest = &self->strangers[0];
    for (size_t i = 0; i < STRANGERS_MOST; i++) {
        stranger *each = &self->strangers[i];
        if (each->dial == NULL) {
            return each;
        }
        oldest = each->due_ms < oldest->due_ms ? each : oldest;
    }
    tfos__dial_close(oldest->dial);
    oldest->dial = NULL;
    return oldest;
}

static void receive_stranger(linking *self)
{
    tfos__tls *tls;
    int socket = accept4(self->opening->far_socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
        poll(NULL, 0, 10); /* it stays in the queue, if this process has too many files open, say */
        return;
    }
    if (tfos__tls_new(self->group->far_tls, &tls, NULL) != TFOS_OK) {
        close(socket);
        return;
    }
    tfos__socket_keep_alive(socket);
    stranger *place = make_place(self);
    if (tfos__dial_adopt(socket, tls, NULL, "another host", NULL, &place->dial, NULL) != TFOS_OK) {
        place->dial = NULL;
        return;
    }
    place->due_ms = tfos__clock_ms() + GREETING_MS;
}

static void hear_stranger(linking *self, stranger *who)
{
    tfos__message message;
    tfos_status status = tfos__dial_receive(who->dial, 0, &message, NULL);
    if (status == TFOS_END && tfos__clock_ms() < who->due_ms) {
        return;
    }
    if (status != TFOS_OK || !admit(self, who->dial, &message)) {
        tfos__dial_close(who->dial);
    }
    who->dial = NULL;
}

static tfos_status answer_some(linking *self, tfos_error *error)
{
    struct pollfd files[STRANGERS_MOST + 1];
    for (size_t i = 0; i < STRANGERS_MOST; i++) {
        const tfos__dial *dial = self->strangers[i].dial;
        files[i] = (struct pollfd){.fd = dial != NULL ? tfos__dial_socket(dial) : -1, .events = POLLIN};
    }
    files[STRANGERS_MOST] = (struct pollfd){.fd = self->opening->far_socket, .events = POLLIN};
    if (poll(files, STRANGERS_MOST + 1, SLICE_MS) < 0 && errno != EINTR) {
        return tfos__fail_errno(error, errno, "cannot wait for the other hosts");
    }
    for (size_t i = 0; i < STRANGERS_MOST; i++) {
        if (self->strangers[i].dial != NULL) {
            hear_stranger(self, &self->strangers[i]);
        }
    }
    if (files[STRANGERS_MOST].revents != 0) {
        receive_stranger(self);
    }
    return TFOS_OK;
}

static tfos_status answer_all(linking *self, tfos_error *error)
{
    for (size_t missing; (missing = missing_link(self)) != SIZE_MAX;) {
        if (atomic_load(&self->failed)) {
            return TFOS_OK; /* the other thread says why */
        }
        if (tfos__clock_ms() > self->opening->deadline) {
            return tfos__fail(error, TFOS_CANCELLED,
                              "%s has not connected to %s in time; are the ports between these hosts open "
                              "(collective.port)?",
                              name_before(self, missing), self->group->members[self->group->rank].name);
        }
        TFOS_TRY(answer_some(self, error));
    }
    return TFOS_OK;
}

static void *answer(void *context)
{
    linking *self = context;
    self->answered = answer_all(self, &self->error);
    if (self->answered != TFOS_OK) {
        atomic_store(&self->failed, true);
    }
    for (size_t i = 0; i < STRANGERS_MOST; i++) {
        tfos__dial_close(self->strangers[i].dial);
    }
    uint64_t one = 1;
    (void)!write(self->ended, &one, sizeof one);
    return NULL;
}

/* ---- dialling ---- */

static bool is_interrupted(const linking *self)
{
    const tfos_call_options *options = self->opening->options;
    return options->interrupted != NULL && options->interrupted(options->interrupted_context);
}

static bool should_give_up(void *context)
{
    const linking *self = context;
    return atomic_load(&self->failed) || is_interrupted(self);
}

static tfos_status dial_one(linking *self, size_t link, tfos_error *error)
{
    const tfos_group *group = self->group;
    size_t host = tfos__far_host_behind(group->hosts.count, self->host, link);
    const tfos__group_member *member = &group->members[group->hosts.leaders[host]];
    const tfos__patience patience = {.interrupted = should_give_up, .context = self};
    int64_t left = tfos__max_i64(0, self->opening->deadline - tfos__clock_ms());
    tfos__message message;
    tfos_status status =
        tfos__dial_open(member->host, member->port, group->key, LINK_PURPOSE, left, &patience, &self->out[link], error);
    if (status == TFOS_OK) {
        tfos__message_init(&message, TFOS__MESSAGE_GREETING);
        tfos__message_put_number(&message, TFOS__FIELD_MEETING, group->meeting);
        tfos__message_put_number(&message, TFOS__FIELD_RANK, group->rank);
        status = tfos__dial_send(self->out[link], &message, error);
    }
    if (status != TFOS_OK) {
        tfos__error_prefix(error, "%s cannot reach %s (collective.port)", group->members[group->rank].name,
                           member->name);
    }
    return status;
}

static tfos_status dial_all(linking *self, tfos_error *error)
{
    for (size_t link = 0; link < self->links; link++) {
        tfos_status status = dial_one(self, link, error);
        if (status != TFOS_OK) {
            atomic_store(&self->failed, true);
            return status;
        }
    }
    return TFOS_OK;
}

/* ---- both ---- */

/* Waits for the other thread. Whoever has given the options is asked by the thread that it knows, which is this. */
static tfos_status await_answerer(linking *self, pthread_t thread, tfos_error *error)
{
    struct pollfd wait = {.fd = self->ended, .events = POLLIN};
    tfos_status status = TFOS_OK;
    while (poll(&wait, 1, SLICE_MS) <= 0) {
        if (status == TFOS_OK && is_interrupted(self)) {
            status = tfos__fail(error, TFOS_CANCELLED, "interrupted while waiting for the other hosts");
            atomic_store(&self->failed, true);
        }
    }
    pthread_join(thread, NULL);
    return status;
}

static tfos_status keep_links(linking *self, tfos_error *error)
{
    tfos_group *group = self->group;
    for (size_t i = 0; i < self->links; i++) {
        /* Who is late for a call does not read what the others have sent. */
        tfos__socket_give_time(tfos__dial_socket(self->out[i]), group->timeout_ms);
        tfos__socket_give_time(tfos__dial_socket(self->in[i]), group->timeout_ms);
    }
    const tfos__far_options options = {.size = group->size,
                                       .hosts = group->hosts.count,
                                       .host = self->host,
                                       .leaders = group->hosts.leaders,
                                       .name = tfos__group_name,
                                       .name_context = group};
    return tfos__far_new(&options, self->out, self->in, &group->far, error);
}

static tfos_status make_links(linking *self, tfos_error *error)
{
    pthread_t thread;
    int code = tfos__thread_start(&thread, answer, self);
    if (code != 0) {
        return tfos__fail_errno(error, code, "cannot start a thread that answers other hosts");
    }
    tfos_status status = dial_all(self, error);
    tfos_status waited = await_answerer(self, thread, status == TFOS_OK ? error : NULL);
    status = status == TFOS_OK ? waited : status;
    if (self->answered != TFOS_OK) {
        status = tfos__fail(error, self->answered, "%s", self->error.message); /* the dialler gave up for it */
    }
    if (status == TFOS_OK) {
        return keep_links(self, error);
    }
    for (size_t i = 0; i < self->links; i++) {
        tfos__dial_close(self->out[i]);
        tfos__dial_close(self->in[i]);
    }
    return status;
}

tfos_status tfos__group_link(tfos_group *group, const tfos__group_opening *opening, tfos_error *error)
{
    tfos_error why;
    linking self = {.group = group,
                    .opening = opening,
                    .host = group->hosts.host_of[group->rank],
                    .links = tfos__far_link_count(group->hosts.count)};
    if (group->hosts.count == 1 || group->mate > 0) {
        return TFOS_OK;
    }
    tfos_status status = self.links > TFOS__FAR_LINKS_MOST
                             ? tfos__fail(&why, TFOS_LIMIT, "workers can be on %d hosts at most, found %zu",
                                          1 << TFOS__FAR_LINKS_MOST, group->hosts.count)
                             : tfos__tls_context_new(TFOS__TLS_SERVER, group->key, LINK_PURPOSE, &group->far_tls, &why);
    self.ended = eventfd(0, EFD_CLOEXEC);
    if (status == TFOS_OK && self.ended < 0) {
        status = tfos__fail_errno(&why, errno, "cannot wait for the other hosts");
    }
    status = status == TFOS_OK ? make_links(&self, &why) : status;
    if (self.ended >= 0) {
        close(self.ended);
    }
    if (status != TFOS_OK) {
        tfos__board_fail(group->board, status, why.message); /* for those that wait here */
        return tfos__fail(error, status, "%s", why.message);
    }
    return TFOS_OK;
}
