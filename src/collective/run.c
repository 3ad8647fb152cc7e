/* Carrying out calls.
 *
 * A call begins with a stage at which everybody shows its head, what it is about to do, and the first piece of its
 * data; where there are other hosts (run_far.c), their heads come next. All see all heads, come to the same opinion,
 * and go on, or fail, together. A worker that has joined takes its word of what is done from the first that has not,
 * and has nothing to add.
 *
 * Heads are written in turn in two places: when one is written again, everybody has shown the next one, and so has read
 * it. */
#include "collective/run.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "collective/run_state.h"

enum {
    DIRECT_RANKS = 2,      /* workers that reduce everything for themselves, … */
    DIRECT_BYTES = 16384,  /* … or as many as there are, if it is no more than this */
    DESCRIBED_BYTES = 400, /* of what a call is, for people */
};

static_assert(2 * sizeof(tfos__head) <= TFOS__BOARD_HEAD_BYTES, "a board has room for two");

tfos_status tfos__runner_new(const tfos__runner_options *options, tfos__runner **out, tfos_error *error)
{
    tfos__runner *runner = calloc(1, sizeof *runner);
    if (runner == NULL) {
        return tfos__fail_memory(error, sizeof *runner);
    }
    runner->options = *options;
    runner->hosts = options->hosts;
    runner->size = options->hosts->size;
    runner->host = options->hosts->host_of[options->rank];
    runner->mates = tfos__hosts_mates(options->hosts, runner->host);
    runner->place = tfos__hosts_place(options->hosts, options->rank);
    runner->slot_bytes = tfos__board_slot_bytes(options->board);
    runner->stage = tfos__board_stage(options->board, runner->place);
    assert(runner->mates == tfos__board_ranks(options->board));
    assert((options->far != NULL) == (tfos__runner_is_far(runner) && runner->place == 0));
    if (options->far != NULL) {
        tfos__far_set_look(options->far, tfos__runner_look_far, runner);
    }
    runner->heads = calloc(runner->size, sizeof *runner->heads);
    runner->operands = calloc(runner->size, sizeof *runner->operands);
    runner->lengths = calloc(runner->size, sizeof *runner->lengths);
    if (runner->heads == NULL || runner->operands == NULL || runner->lengths == NULL) {
        size_t bytes = runner->size * (sizeof *runner->heads + sizeof *runner->operands + sizeof *runner->lengths);
        tfos__runner_free(runner);
        return tfos__fail_memory(error, bytes);
    }
    *out = runner;
    return TFOS_OK;
}

void tfos__runner_free(tfos__runner *runner)
{
    if (runner != NULL) {
        tfos__buffer_reset(&runner->wire);
        free(runner->heads);
        free(runner->operands);
        free(runner->lengths);
        free(runner);
    }
}

void tfos_call_result_reset(tfos_call_result *result)
{
    for (size_t i = 0; result->gathered != NULL && i < result->gathered_count; i++) {
        free(result->gathered[i]);
    }
    free(result->gathered);
    free(result->rows);
    *result = (tfos_call_result){0};
}

const char *tfos__runner_name_of(const tfos__runner *runner, size_t rank)
{
    return runner->options.name(runner->options.context, rank);
}

uint64_t tfos__runner_progress(const tfos__runner *runner)
{
    return runner->stage + (runner->options.far != NULL ? tfos__far_moved(runner->options.far) : 0);
}

/* While workers of this host are waited for. Who waits for the first of them may have to blame one elsewhere; and those
 * elsewhere are told whom this host waits for. */
static tfos_status look_near(void *context, size_t missing, tfos_error *error)
{
    tfos__runner *runner = context;
    size_t blamed = missing == 0 ? tfos__board_blamed(runner->options.board) : SIZE_MAX;
    size_t rank = blamed < runner->size ? blamed : tfos__runner_rank(runner, missing);
    if (runner->options.far != NULL) {
        tfos__far_blame(runner->options.far, rank);
        TFOS_TRY(tfos__far_listen(runner->options.far, error));
    }
    return runner->options.look(runner->options.context, rank, error);
}

tfos_status tfos__runner_look_far(void *context, size_t rank, tfos_error *error)
{
    tfos__runner *runner = context;
    TFOS_TRY(tfos__board_check(runner->options.board, error));
    tfos__board_blame(runner->options.board, rank);
    return runner->options.look(runner->options.context, rank, error);
}

tfos_status tfos__runner_meet(tfos__runner *runner, tfos_error *error)
{
    if (runner->options.far != NULL) {
        tfos__board_blame(runner->options.board, SIZE_MAX);
    }
    tfos__board_advance(runner->options.board, runner->place);
    runner->stage++;
    TFOS_TRY(tfos__board_await(runner->options.board, runner->stage, look_near, runner, error));
    if (runner->options.far != NULL) {
        tfos__far_blame(runner->options.far, SIZE_MAX);
    }
    return TFOS_OK;
}

uint8_t *tfos__runner_slot(const tfos__runner *runner, size_t place, uint64_t piece)
{
    return tfos__board_slot(runner->options.board, place, (unsigned)(piece % 2));
}

static tfos__head *head_of(const tfos__runner *runner, size_t place)
{
    return (tfos__head *)tfos__board_head(runner->options.board, place) + runner->sequence % 2;
}

/* ---- opinions ---- */

/* Everybody has something else in mind: now it says what, so that all can say so. */
static tfos_status tell_mismatch(const tfos__work *work, size_t one, size_t other, tfos_error *error)
{
    tfos__runner *runner = work->runner;
    char mine[DESCRIBED_BYTES] = "";
    char first[DESCRIBED_BYTES];
    char second[DESCRIBED_BYTES];
    if (work->call != NULL) {
        tfos__call_describe(work->call, mine, sizeof mine);
    }
    TFOS_TRY(tfos__work_share_texts(work, (const size_t[]){one, other}, mine, (char *[]){first, second},
                                    DESCRIBED_BYTES, error));
    char one_name[128];
    snprintf(one_name, sizeof one_name, "%s", tfos__runner_name_of(runner, one));
    if (runner->heads[one].sequence != runner->heads[other].sequence) {
        return tfos__fail(error, TFOS_MISMATCH,
                          "workers do not make the same calls: %s is at call %llu (%.*s), %s at call %llu (%.*s)",
                          one_name, (unsigned long long)runner->heads[one].sequence, DESCRIBED_BYTES / 2, first,
                          tfos__runner_name_of(runner, other), (unsigned long long)runner->heads[other].sequence,
                          DESCRIBED_BYTES / 2, second);
    }
    return tfos__fail(error, TFOS_MISMATCH,
                      "workers do not make the same calls: at call %llu %s wants the %.*s, and %s the %.*s; all must "
                      "run the same program in the same order",
                      (unsigned long long)runner->heads[one].sequence, one_name, DESCRIBED_BYTES / 2, first,
                      tfos__runner_name_of(runner, other), DESCRIBED_BYTES / 2, second);
}

/* Of each tensor that is gathered, and of each worker of whom all hear at once, two numbers must find room. */
static size_t gathered_most(const tfos__runner *runner)
{
    size_t near = runner->slot_bytes / (2 * sizeof(uint64_t));
    size_t far = 2 * runner->slot_bytes / (2 * sizeof(uint64_t) * runner->size);
    return tfos__runner_is_far(runner) && far < near ? far : near;
}

/* The heads of others are checked before anything is done by them: another process has written them. */
static bool are_sound_classes(const tfos__head *head)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < head->class_count; i++) {
        const tfos__class *each = &head->classes[i];
        if (each->element > TFOS_ELEMENT_INT64 || each->merge > TFOS_MERGE_BROADCAST ||
            each->at != tfos__call_align(end) || each->at > head->stream_bytes ||
            each->bytes > head->stream_bytes - each->at || each->bytes == 0 ||
            each->bytes % tfos_element_bytes((tfos_element)each->element) != 0) {
            return false;
        }
        end = each->at + each->bytes;
    }
    return end == head->stream_bytes;
}

static bool is_sound(const tfos__runner *runner, const tfos__head *head)
{
    bool wire =
        head->wire == TFOS_ELEMENT_FLOAT32 || head->wire == TFOS_ELEMENT_FLOAT16 || head->wire == TFOS_ELEMENT_BFLOAT16;
    return head->kind == TFOS__HEAD_CALL && wire && head->class_count <= TFOS__CALL_CLASSES_MOST &&
           head->stream_bytes <= (uint64_t)INT64_MAX / 2 && head->gathered_count <= gathered_most(runner) &&
           head->root < runner->size && head->weight >= 0 && are_sound_classes(head);
}

/* With the same signature all else is the same, too, as long as everybody is honest. */
static bool agree(const tfos__head *a, const tfos__head *b)
{
    return a->sequence == b->sequence && memcmp(a->signature, b->signature, sizeof a->signature) == 0 &&
           a->root == b->root && a->wire == b->wire && a->stream_bytes == b->stream_bytes &&
           a->gathered_count == b->gathered_count && a->class_count == b->class_count &&
           memcmp(a->classes, b->classes, a->class_count * sizeof *a->classes) == 0;
}

static bool has_broadcast(const tfos__head *head)
{
    bool found = false;
    for (uint32_t i = 0; i < head->class_count; i++) {
        found = found || head->classes[i].merge == TFOS_MERGE_BROADCAST;
    }
    return found;
}

/* What is to be done, from all heads. END: all have joined. */
static tfos_status form_opinion(tfos__work *work, tfos_error *error)
{
    tfos__runner *runner = work->runner;
    for (size_t rank = 0; rank < runner->size; rank++) {
        const tfos__head *each = &runner->heads[rank];
        if (each->slot_bytes != runner->slot_bytes) {
            return tfos__fail(error, TFOS_MISMATCH,
                              "the pieces of %s have %llu bytes, and those of %s %zu: set collective.piece_bytes alike "
                              "for all workers",
                              tfos__runner_name_of(runner, rank), (unsigned long long)each->slot_bytes,
                              tfos__runner_name_of(runner, runner->options.rank), runner->slot_bytes);
        }
        if (each->kind == TFOS__HEAD_JOIN) {
            runner->heads[rank].weight = 0;
            continue;
        }
        if (!is_sound(runner, each)) {
            return tfos__fail(error, TFOS_CORRUPT, "%s shows a call that cannot be read",
                              tfos__runner_name_of(runner, rank));
        }
        work->leading = work->leading != NULL ? work->leading : each;
        if (!agree(work->leading, each)) {
            return tell_mismatch(work, (size_t)(work->leading - runner->heads), rank, error);
        }
        work->weight += each->weight;
        work->contributors += each->weight != 0 ? 1 : 0;
    }
    if (work->leading == NULL) {
        return TFOS_END;
    }
    if (has_broadcast(work->leading) && runner->heads[work->leading->root].kind == TFOS__HEAD_JOIN) {
        return tfos__fail(error, TFOS_MISMATCH, "a broadcast from %s, which has joined: its data has ended",
                          tfos__runner_name_of(runner, work->leading->root));
    }
    work->direct = tfos__runner_is_far(runner)
                       ? work->leading->stream_bytes <= tfos__runner_small_bytes(runner)
                       : runner->mates <= DIRECT_RANKS || work->leading->stream_bytes <= DIRECT_BYTES;
    return TFOS_OK;
}

/* ---- calls ---- */

static tfos_status go_through(tfos__work *work, const tfos__head *mine, tfos_call_result *out, tfos_error *error)
{
    tfos__runner *runner = work->runner;
    *head_of(runner, runner->place) = *mine;
    if (work->call != NULL) {
        tfos__work_put(work, mine->stream_bytes, 0);
    }
    TFOS_TRY(tfos__runner_meet(runner, error));
    for (size_t place = 0; place < runner->mates; place++) {
        runner->heads[tfos__runner_rank(runner, place)] = *head_of(runner, place);
    }
    if (tfos__runner_is_far(runner)) {
        TFOS_TRY(tfos__work_announce(work, error));
    }
    TFOS_TRY(form_opinion(work, error));
    runner->sequence++;
    TFOS_TRY(tfos__work_pass_stream(work, error));
    TFOS_TRY(tfos__work_gather(work, out, error));
    out->weight = work->weight;
    out->contributors = work->contributors;
    return TFOS_OK;
}

/* Whoever fails first tells all others why. */
static tfos_status keep_failure(tfos__runner *runner, tfos_status status, const tfos_error *why, tfos_error *error)
{
    if (status == TFOS_OK || status == TFOS_END) {
        return status;
    }
    runner->failure = *why;
    tfos__board_fail(runner->options.board, status, why->message);
    if (runner->options.far != NULL) {
        tfos__far_fail(runner->options.far, status, why->message);
    }
    if (error != NULL) {
        *error = *why;
    }
    return status;
}

static tfos_status check_failed(const tfos__runner *runner, tfos_error *error)
{
    if (runner->failure.status != TFOS_OK && error != NULL) {
        *error = runner->failure;
    }
    return runner->failure.status;
}

tfos_status tfos__runner_call(tfos__runner *runner, const tfos__call *call, double weight, size_t root,
                              tfos_call_result *out, tfos_error *error)
{
    tfos_error why;
    tfos_call_result found = {0};
    TFOS_TRY(check_failed(runner, error));
    if (!(weight >= 0) || weight > 1e300 || root >= runner->size) {
        return tfos__fail(error, TFOS_INVALID, "expected a weight of 0 or more and a root below %zu, found %g and %zu",
                          runner->size, weight, root);
    }
    if (call->gathered_count > gathered_most(runner)) {
        return tfos__fail(error, TFOS_LIMIT,
                          "at most %zu tensors can be gathered in a call, found %zu; larger pieces "
                          "(collective.piece_bytes) allow more",
                          gathered_most(runner), call->gathered_count);
    }
    tfos__head mine = {.sequence = runner->sequence,
                       .kind = TFOS__HEAD_CALL,
                       .root = (uint32_t)root,
                       .weight = weight,
                       .signature = {call->signature[0], call->signature[1]},
                       .stream_bytes = call->stream_bytes,
                       .slot_bytes = runner->slot_bytes,
                       .wire = (uint32_t)call->wire,
                       .class_count = (uint32_t)call->class_count,
                       .gathered_count = (uint32_t)call->gathered_count};
    memcpy(mine.classes, call->classes, sizeof mine.classes);
    tfos__work work = {.runner = runner, .call = call};
    tfos_status status = keep_failure(runner, go_through(&work, &mine, &found, &why), &why, error);
    if (status != TFOS_OK) {
        tfos_call_result_reset(&found);
        return status;
    }
    *out = found;
    return TFOS_OK;
}

/* The one whose state is the newest: it has gone on for longest. */
static size_t last_to_join(const tfos__runner *runner)
{
    size_t last = 0;
    for (size_t rank = 1; rank < runner->size; rank++) {
        last = runner->heads[rank].joined_at > runner->heads[last].joined_at ? rank : last;
    }
    return last;
}

tfos_status tfos__runner_join(tfos__runner *runner, size_t *last, tfos_error *error)
{
    tfos_error why;
    const uint64_t joined_at = runner->sequence;
    TFOS_TRY(check_failed(runner, error));
    for (;;) {
        tfos_call_result nothing = {0};
        tfos__head mine = {.sequence = runner->sequence,
                           .kind = TFOS__HEAD_JOIN,
                           .joined_at = joined_at,
                           .slot_bytes = runner->slot_bytes};
        tfos__work work = {.runner = runner};
        tfos_status status = keep_failure(runner, go_through(&work, &mine, &nothing, &why), &why, error);
        tfos_call_result_reset(&nothing);
        if (status == TFOS_END) {
            *last = last_to_join(runner);
            runner->sequence++;
            return TFOS_OK;
        }
        TFOS_TRY(status);
    }
}
