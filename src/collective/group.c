/* Groups: the one of this process, and the calls that are made in it.
 *
 * A call is carried out by the thread that makes it, which has nothing else to do meanwhile: to hand it to a thread of
 * ours and back costs two wakings, more than the whole call where tensors are small. */
#include "collective/group.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/options.h"
#include "base/status.h"
#include "net/listen.h"

static const tfos_call_options defaults = {.weight = 1, .wire = TFOS_ELEMENT_FLOAT32};

void tfos_call_options_init(tfos_call_options *options, size_t size)
{
    tfos__options_init(options, size, &defaults, sizeof defaults);
}

/* The group of this process, and how many there were before it. */
static pthread_mutex_t current_lock = PTHREAD_MUTEX_INITIALIZER;
static tfos_group *current;
static uint64_t meetings;

static bool is_interrupted(const tfos_call_options *options)
{
    return options->interrupted != NULL && options->interrupted(options->interrupted_context);
}

/* ---- opening ---- */

tfos_status tfos__group_check_patience(const tfos__group_opening *opening, const char *whom, tfos_error *error)
{
    if (is_interrupted(opening->options)) {
        return tfos__fail(error, TFOS_CANCELLED, "interrupted while waiting for %s", whom);
    }
    if (tfos__clock_ms() > opening->deadline) {
        return tfos__fail(error, TFOS_CANCELLED, "%s has not come in time to compute with the others", whom);
    }
    return TFOS_OK;
}

/* The socket to the node, as the environment says; -1: this process is no program of a node. */
static tfos_status find_node(int *out, tfos_error *error)
{
    const char *text = getenv("TFOS_GROUP_FD");
    char *end;
    *out = -1;
    if (text == NULL || text[0] == '\0') {
        return TFOS_OK;
    }
    errno = 0;
    long fd = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || fd < 0 || fd > INT_MAX) {
        return tfos__fail(error, TFOS_INVALID, "expected the number of an open file in TFOS_GROUP_FD, found '%s'",
                          tfos__printable_text(text).text);
    }
    *out = (int)fd;
    return TFOS_OK;
}

/* Where others will find this worker. */
static tfos_status open_doors(tfos__group_opening *opening, tfos_error *error)
{
    int64_t shared;
    tfos__ports ports = {.setting = "collective.port"};
    TFOS_TRY(tfos__setting_choose(TFOS__SETTING_COLLECTIVE_SHARED, -1, -1, &shared, error));
    TFOS_TRY(tfos__ports_parse(tfos__setting_text(TFOS__SETTING_COLLECTIVE_PORT, NULL), &ports, error));
    TFOS_TRY(tfos__local_listen("board", opening->board_name, &opening->local_socket, error));
    TFOS_TRY(tfos__listen("", &ports, &opening->far_socket, &opening->far_port, error));
    if (shared != 0) {
        tfos__machine_place(opening->shares);
    } else {
        snprintf(opening->shares, sizeof opening->shares, "%s", opening->board_name); /* which nobody else has */
    }
    return TFOS_OK;
}

static void close_doors(tfos__group_opening *opening)
{
    if (opening->local_socket >= 0) {
        close(opening->local_socket);
    }
    if (opening->far_socket >= 0) {
        close(opening->far_socket);
    }
}

static tfos_status be_alone(tfos_group *group, tfos_error *error)
{
    enum { BYTES = 4096 };
    group->size = 1;
    group->members = calloc(1, sizeof *group->members);
    group->mates = calloc(1, sizeof *group->mates);
    if (group->members == NULL || group->mates == NULL) {
        return tfos__fail_memory(error, sizeof *group->members + sizeof *group->mates);
    }
    snprintf(group->members[0].name, sizeof group->members[0].name, "this process");
    group->mates[0].socket = -1;
    group->mate_count = 1;
    TFOS_TRY(tfos__group_find_hosts(group, error));
    return tfos__board_new(1, BYTES, 0, &group->board, error);
}

static tfos_status come_together(tfos_group *group, int node, const tfos_call_options *options, tfos_error *error)
{
    tfos__group_opening opening = {
        .options = options, .deadline = tfos__clock_ms() + group->timeout_ms, .local_socket = -1, .far_socket = -1};
    tfos_status status = open_doors(&opening, error);
    status = status == TFOS_OK ? tfos__group_meet(group, node, &opening, error) : status;
    /* From here on all are there, and nobody is to be kept waiting by what is wrong with another. */
    opening.deadline = tfos__clock_ms() + group->timeout_ms;
    status = status == TFOS_OK ? tfos__group_share(group, &opening, error) : status;
    status = status == TFOS_OK ? tfos__group_link(group, &opening, error) : status;
    close_doors(&opening);
    return status == TFOS_OK ? tfos__group_watch(group, error) : status;
}

/* ---- waiting ---- */

const char *tfos__group_name(void *context, size_t rank)
{
    return tfos_group_member(context, rank);
}

/* Asked while others are waited for. */
static tfos_status look(void *context, size_t missing, tfos_error *error)
{
    tfos_group *group = context;
    uint64_t progress = tfos__runner_progress(group->runner);
    int64_t now = tfos__clock_ms();
    if (is_interrupted(group->call_options)) {
        return tfos__fail(error, TFOS_CANCELLED, "%s was interrupted while it waited for %s",
                          group->members[group->rank].name, tfos__group_name(group, missing));
    }
    if (progress != group->wait_progress) {
        group->wait_progress = progress;
        group->wait_ms = now;
    }
    if (now - group->wait_ms > group->timeout_ms) {
        return tfos__fail(error, TFOS_CANCELLED,
                          "%s has waited for %s for %lld s (collective.timeout_ms), which lives and does not come to "
                          "%s: every worker must make the same calls, and as many, or join when its data has ended",
                          group->members[group->rank].name, tfos__group_name(group, missing),
                          (long long)((now - group->wait_ms) / 1000), group->call_about);
    }
    return TFOS_OK;
}

/* ---- the life of a group ---- */

static void free_group(tfos_group *group)
{
    tfos__group_leave(group);
    tfos__runner_free(group->runner);
    tfos__far_free(group->far);
    tfos__tls_context_free(group->far_tls);
    tfos__board_free(group->board);
    tfos__hosts_reset(&group->hosts);
    tfos__secret_wipe(group->key, sizeof group->key);
    pthread_mutex_destroy(&group->call_lock);
    free(group->mates);
    free(group->members);
    free(group);
}

static tfos_status fill_group(tfos_group *group, const tfos_call_options *options, tfos_error *error)
{
    int node;
    TFOS_TRY(tfos__setting_choose(TFOS__SETTING_COLLECTIVE_TIMEOUT_MS, -1, -1, &group->timeout_ms, error));
    TFOS_TRY(find_node(&node, error));
    TFOS_TRY(node >= 0 ? come_together(group, node, options, error) : be_alone(group, error));
    const tfos__runner_options running = {.board = group->board,
                                          .hosts = &group->hosts,
                                          .rank = group->rank,
                                          .far = group->far,
                                          .name = tfos__group_name,
                                          .look = look,
                                          .context = group};
    return tfos__runner_new(&running, &group->runner, error);
}

static tfos_status open_group(const tfos_call_options *options, tfos_group **out, tfos_error *error)
{
    tfos_group *group = calloc(1, sizeof *group);
    if (group == NULL) {
        return tfos__fail_memory(error, sizeof *group);
    }
    group->references = 1;
    group->owner = getpid();
    group->wake = -1;
    group->meeting = meetings;
    pthread_mutex_init(&group->call_lock, NULL);
    tfos_status status = fill_group(group, options, error);
    if (group->size > 0) {
        meetings++; /* it was a meeting, whatever came of it */
    }
    if (status != TFOS_OK) {
        free_group(group);
        return status;
    }
    *out = group;
    return TFOS_OK;
}

static tfos_status check_owner(const tfos_group *group, tfos_error *error)
{
    if (group->owner == getpid()) {
        return TFOS_OK;
    }
    return tfos__fail(error, TFOS_UNSUPPORTED,
                      "the group belongs to the process %d, which the node started, and not to its child %d; make the "
                      "call there",
                      (int)group->owner, (int)getpid());
}

tfos_status tfos_group_open(const tfos_call_options *options, tfos_group **out, tfos_error *error)
{
    tfos_call_options taken;
    TFOS_TRY(tfos__options_take("tfos_call_options", options, &defaults, &taken, sizeof taken, error));
    pthread_mutex_lock(&current_lock);
    tfos_status status = TFOS_OK;
    if (current != NULL) {
        status = check_owner(current, error);
        current->references += status == TFOS_OK ? 1 : 0;
    } else {
        status = open_group(&taken, &current, error);
    }
    *out = status == TFOS_OK ? current : *out;
    pthread_mutex_unlock(&current_lock);
    return status;
}

void tfos_group_close(tfos_group *group)
{
    if (group == NULL || check_owner(group, NULL) != TFOS_OK) {
        return; /* a fork leaves what is its parent's alone */
    }
    pthread_mutex_lock(&current_lock);
    assert(group == current);
    if (--group->references == 0) {
        current = NULL;
        free_group(group);
    }
    pthread_mutex_unlock(&current_lock);
}

size_t tfos_group_rank(const tfos_group *group)
{
    return group->rank;
}

size_t tfos_group_size(const tfos_group *group)
{
    return group->size;
}

size_t tfos_group_local_rank(const tfos_group *group)
{
    return group->mate;
}

size_t tfos_group_local_size(const tfos_group *group)
{
    return group->mate_count;
}

const char *tfos_group_member(const tfos_group *group, size_t rank)
{
    assert(rank < group->size);
    return group->members[rank].name;
}

/* ---- calls ---- */

static void begin_wait(tfos_group *group, const tfos_call_options *options, const char *about)
{
    group->call_options = options;
    group->call_about = about;
    group->wait_progress = tfos__runner_progress(group->runner);
    group->wait_ms = tfos__clock_ms();
}

static tfos_status carry_out(tfos_group *group, const tfos__call *call, const tfos_call_options *options,
                             tfos_call_result *out, tfos_error *error)
{
    char about[256];
    tfos__call_describe(call, about, sizeof about);
    pthread_mutex_lock(&group->call_lock);
    begin_wait(group, options, about);
    tfos_status status = tfos__runner_call(group->runner, call, options->weight, options->root, out, error);
    pthread_mutex_unlock(&group->call_lock);
    return status;
}

tfos_status tfos_group_call(tfos_group *group, const tfos_part *parts, size_t count, const tfos_call_options *options,
                            tfos_call_result *out, tfos_error *error)
{
    tfos_call_options taken;
    tfos_call_result mine = {0};
    tfos__call call;
    TFOS_TRY(tfos__options_take("tfos_call_options", options, &defaults, &taken, sizeof taken, error));
    TFOS_TRY(check_owner(group, error));
    TFOS_TRY(tfos__call_init(&call, parts, count, taken.about != NULL ? taken.about : "", taken.wire, error));
    if (out == NULL && call.gathered_count > 0) {
        tfos__call_reset(&call);
        return tfos__fail(error, TFOS_INVALID, "a call that gathers tensors needs a result to put them in");
    }
    tfos_status status = carry_out(group, &call, &taken, &mine, error);
    tfos__call_reset(&call);
    if (status == TFOS_OK && out != NULL) {
        *out = mine;
    }
    return status;
}

tfos_status tfos_group_join(tfos_group *group, const tfos_call_options *options, size_t *last, tfos_error *error)
{
    tfos_call_options taken;
    TFOS_TRY(tfos__options_take("tfos_call_options", options, &defaults, &taken, sizeof taken, error));
    TFOS_TRY(check_owner(group, error));
    pthread_mutex_lock(&group->call_lock);
    begin_wait(group, &taken, "join");
    tfos_status status = tfos__runner_join(group->runner, last, error);
    pthread_mutex_unlock(&group->call_lock);
    return status;
}
