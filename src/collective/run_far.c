/* Calls of workers on several hosts. Of each host only the first worker has links; what it hears it shows to the others
 * of its host, on the board.
 *
 * Heads go around first, and with them the whole stream of everybody if it is small: then nothing else has to. A larger
 * one goes through in pieces, of which four are under way at a time:
 *
 *   stage            t                                     t + 1
 *   all              put piece t + 1 into their slots      …
 *   all but first    sum up piece t, in a wide slot        …
 *   the first        merges t - 1 with the other hosts     …
 *   all              take t - 2 from the slot of results   …
 *
 * A place is used again two stages after it was written, when everybody has advanced beyond the stage at which it is
 * read. */
#include <stddef.h>
#include <string.h>

#include "base/status.h"
#include "collective/run_state.h"

enum {
    SMALL_BYTES = 16384,      /* of a stream that travels with its head, at most, … */
    SMALL_ALL_BYTES = 262144, /* … and of those of all workers together */
    FIXED_BYTES = offsetof(tfos__head, classes),
};

/* ---- what is heard ---- */

/*   heads, by rank │ small streams, by rank */
static size_t heads_bytes(size_t size)
{
    return (size_t)tfos__call_align(size * sizeof(tfos__head));
}

static size_t small_bytes_of(size_t size)
{
    size_t each = SMALL_ALL_BYTES / size / TFOS__CALL_ALIGN * TFOS__CALL_ALIGN;
    return each < SMALL_BYTES ? each : SMALL_BYTES;
}

size_t tfos__runner_far_bytes(size_t size)
{
    return heads_bytes(size) + size * small_bytes_of(size);
}

size_t tfos__runner_small_bytes(const tfos__runner *runner)
{
    size_t bytes = small_bytes_of(runner->size);
    return bytes < runner->slot_bytes ? bytes : runner->slot_bytes;
}

static tfos__head *heard_heads(const tfos__runner *runner)
{
    return tfos__board_far(runner->options.board);
}

uint8_t *tfos__runner_small(const tfos__runner *runner, size_t rank)
{
    return (uint8_t *)tfos__board_far(runner->options.board) + heads_bytes(runner->size) +
           rank * small_bytes_of(runner->size);
}

/* ---- heads ---- */

/*   for each worker   bytes of its small stream (8) · head, without classes that it has not · the stream, to a multiple
 *                     of 8 */
static size_t padded(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

static size_t small_of(const tfos__runner *runner, const tfos__head *head)
{
    bool small = head->kind == TFOS__HEAD_CALL && head->stream_bytes <= tfos__runner_small_bytes(runner);
    return small ? (size_t)head->stream_bytes : 0;
}

static tfos_status pack_head(tfos__runner *runner, size_t place, tfos_error *error)
{
    static const uint8_t zeros[8];
    const tfos__head *head = &runner->heads[tfos__runner_rank(runner, place)];
    uint64_t small = small_of(runner, head);
    if (head->class_count > TFOS__CALL_CLASSES_MOST) {
        return tfos__fail(error, TFOS_CORRUPT, "%s shows a call that cannot be read",
                          tfos__runner_name_of(runner, tfos__runner_rank(runner, place)));
    }
    TFOS_TRY(tfos__buffer_append(&runner->wire, &small, sizeof small, error));
    TFOS_TRY(tfos__buffer_append(&runner->wire, head, FIXED_BYTES + head->class_count * sizeof *head->classes, error));
    TFOS_TRY(tfos__buffer_append(&runner->wire, tfos__runner_slot(runner, place, runner->pieces), small, error));
    return tfos__buffer_append(&runner->wire, zeros, padded(small) - small, error);
}

/* Takes the head of a worker from what its host has sent. END: it cannot be read. */
static tfos_status unpack_head(tfos__runner *runner, size_t rank, const uint8_t **at, const uint8_t *end)
{
    uint64_t small;
    tfos__head head = {0};
    if ((size_t)(end - *at) < sizeof small + FIXED_BYTES) {
        return TFOS_END;
    }
    memcpy(&small, *at, sizeof small);
    memcpy(&head, *at + sizeof small, FIXED_BYTES);
    *at += sizeof small + FIXED_BYTES;
    if (head.class_count > TFOS__CALL_CLASSES_MOST || small > small_bytes_of(runner->size)) {
        return TFOS_END;
    }
    size_t classes = head.class_count * sizeof *head.classes;
    if ((size_t)(end - *at) < classes + padded(small)) {
        return TFOS_END;
    }
    memcpy(head.classes, *at, classes);
    memcpy(tfos__runner_small(runner, rank), *at + classes, small);
    /* What is read later is what this worker has sent, or zeros; nothing of an earlier call. */
    memset(tfos__runner_small(runner, rank) + small, 0, small_bytes_of(runner->size) - small);
    heard_heads(runner)[rank] = head;
    *at += classes + padded(small);
    return TFOS_OK;
}

static tfos_status unpack_heads(tfos__runner *runner, tfos_error *error)
{
    for (size_t host = 0; host < runner->hosts->count; host++) {
        size_t bytes;
        const uint8_t *at = tfos__far_block(runner->options.far, host, &bytes);
        const uint8_t *end = at + bytes;
        for (size_t place = 0; place < tfos__hosts_mates(runner->hosts, host); place++) {
            size_t rank = tfos__hosts_rank(runner->hosts, host, place);
            if (unpack_head(runner, rank, &at, end) != TFOS_OK) {
                return tfos__fail(error, TFOS_CORRUPT, "what the host of %s says of its calls cannot be read",
                                  tfos__runner_name_of(runner, rank));
            }
        }
    }
    return TFOS_OK;
}

static tfos_status exchange_heads(tfos__runner *runner, tfos_error *error)
{
    runner->wire.size = 0;
    for (size_t place = 0; place < runner->mates; place++) {
        TFOS_TRY(pack_head(runner, place, error));
    }
    size_t most = runner->size * (sizeof(tfos__head) + 16 + small_bytes_of(runner->size));
    TFOS_TRY(tfos__far_gather(runner->options.far, runner->wire.data, runner->wire.size, most, error));
    return unpack_heads(runner, error);
}

tfos_status tfos__work_announce(tfos__work *work, tfos_error *error)
{
    tfos__runner *runner = work->runner;
    if (runner->options.far != NULL) {
        TFOS_TRY(exchange_heads(runner, error));
    }
    TFOS_TRY(tfos__runner_meet(runner, error));
    memcpy(runner->heads, heard_heads(runner), runner->size * sizeof *runner->heads);
    return TFOS_OK;
}

/* ---- blocks ---- */

static uint64_t sum_before(const uint64_t *bytes, size_t rank)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < rank; i++) {
        sum += bytes[i];
    }
    return sum;
}

static tfos_status gather_blocks(tfos__runner *runner, uint8_t *into, tfos_error *error)
{
    const uint64_t *bytes = runner->lengths;
    runner->wire.size = 0;
    for (size_t place = 0; place < runner->mates; place++) {
        TFOS_TRY(tfos__buffer_append(&runner->wire, tfos__runner_slot(runner, place, runner->pieces),
                                     (size_t)bytes[tfos__runner_rank(runner, place)], error));
    }
    size_t most = (size_t)sum_before(bytes, runner->size); /* of one host; all fit a wide slot */
    TFOS_TRY(tfos__far_gather(runner->options.far, runner->wire.data, runner->wire.size, most, error));
    for (size_t host = 0; host < runner->hosts->count; host++) {
        size_t left;
        const uint8_t *at = tfos__far_block(runner->options.far, host, &left);
        for (size_t place = 0; place < tfos__hosts_mates(runner->hosts, host); place++) {
            size_t rank = tfos__hosts_rank(runner->hosts, host, place);
            if (bytes[rank] > left) {
                return tfos__fail(error, TFOS_CORRUPT, "%s has sent less than it said",
                                  tfos__runner_name_of(runner, rank));
            }
            memcpy(into + sum_before(bytes, rank), at, (size_t)bytes[rank]);
            at += bytes[rank];
            left -= (size_t)bytes[rank];
        }
    }
    return TFOS_OK;
}

tfos_status tfos__work_exchange(const tfos__work *work, const uint8_t **out, tfos_error *error)
{
    tfos__runner *runner = work->runner;
    uint8_t *into = tfos__board_wide(runner->options.board, 0);
    TFOS_TRY(tfos__runner_meet(runner, error));
    if (runner->options.far != NULL) {
        TFOS_TRY(gather_blocks(runner, into, error));
    }
    TFOS_TRY(tfos__runner_meet(runner, error));
    *out = into;
    return TFOS_OK;
}

tfos_status tfos__work_share_texts(const tfos__work *work, const size_t ranks[2], const char *mine, char *texts[2],
                                   size_t bytes, tfos_error *error)
{
    tfos__runner *runner = work->runner;
    bool far = tfos__runner_is_far(runner);
    const uint8_t *all = NULL;
    runner->pieces++; /* the other slot: the first piece may still be read */
    memcpy(tfos__runner_slot(runner, runner->place, runner->pieces), mine, bytes);
    if (far) {
        memset(runner->lengths, 0, runner->size * sizeof *runner->lengths);
        runner->lengths[ranks[0]] = runner->lengths[ranks[1]] = bytes;
        TFOS_TRY(tfos__work_exchange(work, &all, error));
    } else {
        TFOS_TRY(tfos__runner_meet(runner, error));
    }
    for (size_t i = 0; i < 2; i++) {
        /* Of two, that of the lower rank is the first. */
        bool second = far && ranks[i] > ranks[1 - i];
        const void *from = far ? all + (second ? bytes : 0) : tfos__runner_slot(runner, ranks[i], runner->pieces);
        memcpy(texts[i], from, bytes);
        texts[i][bytes - 1] = '\0';
    }
    return TFOS_OK;
}

/* ---- streams ---- */

/* The share of this worker in what its host has of a piece. */
static void sum_up(const tfos__work *work, uint64_t piece)
{
    tfos__run runs[TFOS__CALL_CLASSES_MOST];
    size_t wire_bytes;
    size_t count = tfos__work_runs(work, piece, runs, &wire_bytes);
    for (size_t i = 0; i < count; i++) {
        tfos__work_sum_run(work, &runs[i], piece);
    }
}

static void give(const tfos__work *work, uint64_t piece)
{
    tfos__runner *runner = work->runner;
    size_t bytes = tfos__runner_piece_bytes(runner, work->leading->stream_bytes, piece);
    if (work->call != NULL) {
        tfos__call_give(work->call, piece * runner->slot_bytes, bytes, tfos__runner_result(runner, piece));
    }
}

tfos_status tfos__work_pass_far(const tfos__work *work, tfos_error *error)
{
    tfos__runner *runner = work->runner;
    uint64_t bytes = work->leading->stream_bytes;
    uint64_t count = (bytes + runner->slot_bytes - 1) / runner->slot_bytes;
    for (uint64_t stage = 0; stage < count + 2; stage++) {
        tfos__work_put(work, bytes, stage + 1);
        if (stage < count) {
            sum_up(work, stage);
        }
        if (stage >= 1 && stage - 1 < count && runner->options.far != NULL) {
            TFOS_TRY(tfos__work_merge_hosts(work, stage - 1, error));
        }
        if (stage >= 2) {
            give(work, stage - 2);
        }
        if (stage < count + 1) {
            TFOS_TRY(tfos__runner_meet(runner, error));
        }
    }
    runner->pieces += count;
    return TFOS_OK;
}
