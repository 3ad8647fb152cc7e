/* Who has come is counted by meeting: the first is number 0, and nobody comes to the next before all have come to this
 * one. What everybody needs to know of all others is made once, when the last one comes. */
#include "coordinator/muster.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "net/frame.h"

/* A worker, by its rank. */
typedef struct recruit {
    uint32_t index; /* of its node */
    bool here;      /* it has come, and waits */
    uint64_t since_ms;
    uint64_t wait_ms;
    uint64_t port;
    char shares[129];
    char board_name[101];
} recruit;

struct tfos__muster {
    const tfos__roster *roster;
    tfos__muster_calls calls;
    uint64_t meeting; /* that is waited for */
    size_t here_count;
    tfos__buffer members; /* of the meeting before */
    size_t count;
    recruit recruits[];
};

tfos_status tfos__muster_new(const tfos__roster *roster, const tfos__muster_calls *calls, tfos__muster **out,
                             tfos_error *error)
{
    const tfos__roles *roles = &tfos__roster_options_of(roster)->roles;
    size_t bytes = sizeof(tfos__muster) + roles->nodes * sizeof(recruit);
    tfos__muster *muster = calloc(1, bytes);
    if (muster == NULL) {
        return tfos__fail_memory(error, bytes);
    }
    muster->roster = roster;
    muster->calls = *calls;
    for (uint32_t index = 0; index < roles->nodes; index++) {
        if (tfos__roles_is_worker(roles, index)) {
            muster->recruits[muster->count++].index = index;
        }
    }
    *out = muster;
    return TFOS_OK;
}

void tfos__muster_free(tfos__muster *muster)
{
    if (muster != NULL) {
        tfos__buffer_reset(&muster->members);
        free(muster);
    }
}

/* Ranks grow with the index. */
static size_t rank_of(const tfos__muster *muster, uint32_t index)
{
    size_t low = 0;
    size_t high = muster->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (muster->recruits[middle].index < index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < muster->count && muster->recruits[low].index == index ? low : SIZE_MAX;
}

static void name_of(const tfos__muster *muster, size_t rank, char out[64], tfos__node_view *view)
{
    tfos__roster_view(muster->roster, muster->recruits[rank].index, view);
    tfos__node_name(view->role, view->task, out);
}

/* ---- what they are told ---- */

static tfos_status add_member(tfos__muster *muster, size_t rank, tfos_error *error)
{
    const recruit *each = &muster->recruits[rank];
    tfos__node_view view;
    char name[64];
    tfos__message message;
    name_of(muster, rank, name, &view);
    tfos__message_init(&message, TFOS__MESSAGE_MEMBER);
    tfos__message_put_string(&message, TFOS__FIELD_NODE, name);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, view.host);
    tfos__message_put_number(&message, TFOS__FIELD_PORT, each->port);
    tfos__message_put_string(&message, TFOS__FIELD_SHARES, each->shares);
    tfos__message_put_string(&message, TFOS__FIELD_BOARD_NAME, each->board_name);
    return tfos__frame_append(&message, &muster->members, error);
}

static void tell_met(tfos__muster *muster, size_t rank, uint64_t meeting)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_MET);
    tfos__message_put_number(&message, TFOS__FIELD_MEETING, meeting);
    tfos__message_put_number(&message, TFOS__FIELD_RANK, rank);
    tfos__message_put_text(&message, TFOS__FIELD_MEMBERS, (const char *)muster->members.data, muster->members.size);
    muster->calls.to_node(muster->calls.context, muster->recruits[rank].index, &message);
}

static void tell_not_met(tfos__muster *muster, size_t rank, uint64_t meeting, tfos_status status, const char *text)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_NOT_MET);
    tfos__message_put_number(&message, TFOS__FIELD_MEETING, meeting);
    tfos__message_put_number(&message, TFOS__FIELD_STATUS, status);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, text);
    muster->calls.to_node(muster->calls.context, muster->recruits[rank].index, &message);
}

/* Somebody waits in vain. It may come again. */
static void send_away(tfos__muster *muster, size_t rank, tfos_status status, const char *text)
{
    muster->recruits[rank].here = false;
    muster->here_count--;
    tell_not_met(muster, rank, muster->meeting, status, text);
}

static void send_all_away(tfos__muster *muster, tfos_status status, const char *text)
{
    for (size_t rank = 0; rank < muster->count; rank++) {
        if (muster->recruits[rank].here) {
            send_away(muster, rank, status, text);
        }
    }
}

static void depart(tfos__muster *muster)
{
    tfos_error error;
    tfos_status status = TFOS_OK;
    muster->members.size = 0;
    for (size_t rank = 0; rank < muster->count && status == TFOS_OK; rank++) {
        status = add_member(muster, rank, &error);
    }
    if (status == TFOS_OK && muster->members.size > 1 << 20) {
        status = tfos__fail(&error, TFOS_LIMIT, "the addresses of %zu workers have %zu bytes; the most is %d",
                            muster->count, muster->members.size, 1 << 20);
    }
    if (status != TFOS_OK) {
        send_all_away(muster, status, error.message);
        return;
    }
    uint64_t meeting = muster->meeting++;
    muster->here_count = 0;
    for (size_t rank = 0; rank < muster->count; rank++) {
        muster->recruits[rank].here = false;
        tell_met(muster, rank, meeting);
    }
}

/* ---- who comes ---- */

static void enlist(tfos__muster *muster, size_t rank, const tfos__message *message, uint64_t now_ms)
{
    recruit *each = &muster->recruits[rank];
    if (!each->here) {
        each->here = true;
        each->since_ms = now_ms;
        muster->here_count++;
    }
    each->wait_ms = tfos__message_number(message, TFOS__FIELD_WAIT_MS);
    each->port = tfos__message_number(message, TFOS__FIELD_PORT);
    tfos__message_copy(message, TFOS__FIELD_SHARES, each->shares, sizeof each->shares);
    tfos__message_copy(message, TFOS__FIELD_BOARD_NAME, each->board_name, sizeof each->board_name);
    if (muster->here_count == muster->count) {
        depart(muster);
    }
}

void tfos__muster_hear(tfos__muster *muster, uint32_t index, const tfos__message *message, uint64_t now_ms)
{
    char text[160];
    size_t rank = rank_of(muster, index);
    uint64_t meeting = tfos__message_number(message, TFOS__FIELD_MEETING);
    assert(message->type == TFOS__MESSAGE_MEET);
    if (rank == SIZE_MAX) {
        tfos__message answer;
        tfos__message_init(&answer, TFOS__MESSAGE_NOT_MET);
        tfos__message_put_number(&answer, TFOS__FIELD_MEETING, meeting);
        tfos__message_put_number(&answer, TFOS__FIELD_STATUS, TFOS_UNSUPPORTED);
        tfos__message_put_string(&answer, TFOS__FIELD_TEXT,
                                 "only the master and the workers compute together, not parameter servers or "
                                 "evaluators");
        muster->calls.to_node(muster->calls.context, index, &answer);
    } else if (meeting == muster->meeting) {
        enlist(muster, rank, message, now_ms);
    } else if (meeting + 1 == muster->meeting) {
        tell_met(muster, rank, meeting); /* it was told before, and may not have heard it */
    } else {
        snprintf(text, sizeof text, "expected a worker that comes to meeting %" PRIu64 ", found one at %" PRIu64,
                 muster->meeting, meeting);
        tell_not_met(muster, rank, meeting, TFOS_MISMATCH, text);
    }
}

/* ---- time ---- */

/* "worker:1 on h2, worker:2 on h3 and 5 more". */
static void list_missing(const tfos__muster *muster, char *out, size_t bytes)
{
    enum { SHOWN = 4 };
    size_t missing = 0;
    size_t used = 0;
    out[0] = '\0';
    for (size_t rank = 0; rank < muster->count; rank++) {
        if (muster->recruits[rank].here) {
            continue;
        }
        if (++missing <= SHOWN && used < bytes) {
            tfos__node_view view;
            char name[64];
            name_of(muster, rank, name, &view);
            used += (size_t)snprintf(out + used, bytes - used, "%s%s on %s", missing > 1 ? ", " : "", name, view.host);
        }
    }
    if (missing > SHOWN && used < bytes) {
        snprintf(out + used, bytes - used, " and %zu more", missing - SHOWN);
    }
}

/* A worker that has ended and is not here never comes. */
static bool find_ended(const tfos__muster *muster, char *out, size_t bytes)
{
    for (size_t rank = 0; rank < muster->count; rank++) {
        tfos__node_view view;
        char name[64];
        name_of(muster, rank, name, &view);
        if (!muster->recruits[rank].here && view.state >= TFOS__NODE_FINISHED) {
            snprintf(out, bytes,
                     "%s on %s has ended without coming to compute with the others: every worker must run the same "
                     "program",
                     name, view.host);
            return true;
        }
    }
    return false;
}

void tfos__muster_tick(tfos__muster *muster, uint64_t now_ms)
{
    char text[1024];
    char missing[600];
    if (muster->here_count == 0) {
        return;
    }
    if (find_ended(muster, text, sizeof text)) {
        send_all_away(muster, TFOS_CANCELLED, text);
        return;
    }
    list_missing(muster, missing, sizeof missing);
    for (size_t rank = 0; rank < muster->count; rank++) {
        const recruit *each = &muster->recruits[rank];
        if (each->here && each->wait_ms > 0 && now_ms - each->since_ms > each->wait_ms) {
            snprintf(text, sizeof text,
                     "not all workers have come to compute together after %" PRIu64
                     " s (collective.timeout_ms): %s. Every worker must run the same program",
                     each->wait_ms / 1000, missing);
            send_away(muster, rank, TFOS_CANCELLED, text);
        }
    }
}
