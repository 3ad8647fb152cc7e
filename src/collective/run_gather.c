/* What is gathered: each worker has some rows of each part, and all get all of them, in the order of workers. What a
 * worker has is one run of bytes, part behind part, each of which begins at a multiple of 64, so that no element is cut
 * in two; it goes through the slots piece by piece, as long as anybody has some left. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "collective/run_state.h"

typedef struct gathering {
    const tfos__work *work;
    size_t parts;
    uint64_t *row_bytes; /* of each part */
    uint64_t *rows;      /* for each part, and each worker */
    void **all;          /* for each part; NULL: this worker has joined, and takes nothing */
} gathering;

static uint64_t rows_of(const gathering *g, size_t part, size_t rank)
{
    return g->rows[part * g->work->runner->ranks + rank];
}

static uint64_t bytes_of(const gathering *g, size_t part, size_t rank)
{
    return rows_of(g, part, rank) * g->row_bytes[part];
}

/* … and with what follows up to the next one. */
static uint64_t padded_bytes_of(const gathering *g, size_t part, size_t rank)
{
    return tfos__call_align(bytes_of(g, part, rank));
}

static const tfos_part *part_at(const gathering *g, size_t part)
{
    return &g->work->call->parts[g->work->call->gathered[part]];
}

/* Everybody shows how long the rows of each part are, and how many it has. One that has joined has none, and learns
 * from the others how long they are, so that it knows when to stop. */
static tfos_status share_rows(gathering *g, tfos_error *error)
{
    tfos__runner *runner = g->work->runner;
    size_t leading = (size_t)(g->work->leading - runner->heads);
    uint64_t *mine = (uint64_t *)(void *)tfos__runner_slot(runner, runner->options.rank, runner->pieces);
    bool left_out = g->work->call == NULL || runner->heads[runner->options.rank].weight == 0;
    for (size_t i = 0; i < g->parts; i++) {
        mine[i] = left_out ? 0 : (uint64_t)part_at(g, i)->shape[0];
        mine[g->parts + i] = g->work->call != NULL ? tfos__part_row_bytes(part_at(g, i)) : 0;
    }
    TFOS_TRY(tfos__runner_meet(runner, error));
    for (size_t rank = 0; rank < runner->ranks; rank++) {
        const uint64_t *theirs = (const uint64_t *)(const void *)tfos__runner_slot(runner, rank, runner->pieces);
        for (size_t i = 0; i < g->parts; i++) {
            g->rows[i * runner->ranks + rank] = theirs[i];
            g->row_bytes[i] = rank == leading ? theirs[g->parts + i] : g->row_bytes[i];
        }
    }
    runner->pieces++;
    return TFOS_OK;
}

static tfos_status make_room(gathering *g, tfos_error *error)
{
    for (size_t i = 0; i < g->parts; i++) {
        uint64_t bytes = 0;
        for (size_t rank = 0; rank < g->work->runner->ranks; rank++) {
            uint64_t more;
            if (__builtin_mul_overflow(rows_of(g, i, rank), g->row_bytes[i], &more) ||
                __builtin_add_overflow(bytes, more, &bytes) || bytes > (uint64_t)INT64_MAX / 2) {
                return tfos__fail_memory(error, SIZE_MAX);
            }
        }
        /* As TensorFlow wants the memory of its tensors, which otherwise copies it. */
        g->all[i] = g->work->call != NULL ? aligned_alloc(TFOS__CALL_ALIGN, (size_t)tfos__call_align(bytes + 1)) : NULL;
        if (g->work->call != NULL && g->all[i] == NULL) {
            return tfos__fail_memory(error, (size_t)bytes);
        }
    }
    return TFOS_OK;
}

static void put(const gathering *g, uint64_t at, size_t bytes, uint8_t *to)
{
    uint64_t begin;
    uint64_t end;
    uint64_t part_begin = 0;
    for (size_t i = 0; i < g->parts && g->work->call != NULL; i++) {
        uint64_t part_bytes = bytes_of(g, i, g->work->runner->options.rank);
        if (tfos__bytes_meet(part_begin, part_bytes, at, bytes, &begin, &end)) {
            const uint8_t *input = part_at(g, i)->input;
            memcpy(to + (begin - at), input + (begin - part_begin), (size_t)(end - begin));
        }
        part_begin += padded_bytes_of(g, i, g->work->runner->options.rank);
    }
}

static void take_some(const gathering *g, size_t part, size_t rank, const uint8_t *from, size_t bytes, uint8_t *to)
{
    tfos_element element = part_at(g, part)->element;
    tfos_merge merge = part_at(g, part)->merge;
    const tfos__operand operand = {from, tfos__work_scale(g->work, merge, rank)};
    if (merge == TFOS_MERGE_GATHER) {
        memcpy(to, from, bytes);
    } else {
        tfos__reduce(TFOS__REDUCE_SUM, element, &operand, 1, bytes / tfos_element_bytes(element), element, to);
    }
}

static void take(const gathering *g, size_t rank, uint64_t at, size_t bytes, const uint8_t *from)
{
    uint64_t begin;
    uint64_t end;
    uint64_t part_begin = 0;
    for (size_t i = 0; i < g->parts && g->work->call != NULL; i++) {
        uint64_t part_bytes = bytes_of(g, i, rank);
        if (tfos__bytes_meet(part_begin, part_bytes, at, bytes, &begin, &end)) {
            uint64_t before = 0;
            for (size_t other = 0; other < rank; other++) {
                before += bytes_of(g, i, other);
            }
            take_some(g, i, rank, from + (begin - at), (size_t)(end - begin),
                      (uint8_t *)g->all[i] + before + (begin - part_begin));
        }
        part_begin += padded_bytes_of(g, i, rank);
    }
}

static size_t piece_of(const gathering *g, size_t rank, uint64_t at)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < g->parts; i++) {
        bytes += padded_bytes_of(g, i, rank);
    }
    uint64_t left = bytes > at ? bytes - at : 0;
    return left < g->work->runner->slot_bytes ? (size_t)left : g->work->runner->slot_bytes;
}

static bool is_anything_left(const gathering *g, uint64_t at)
{
    bool left = false;
    for (size_t rank = 0; rank < g->work->runner->ranks; rank++) {
        left = left || piece_of(g, rank, at) > 0;
    }
    return left;
}

static tfos_status pass(const gathering *g, tfos_error *error)
{
    tfos__runner *runner = g->work->runner;
    size_t me = runner->options.rank;
    for (uint64_t at = 0; is_anything_left(g, at); at += runner->slot_bytes) {
        put(g, at, piece_of(g, me, at), tfos__runner_slot(runner, me, runner->pieces));
        TFOS_TRY(tfos__runner_meet(runner, error));
        for (size_t rank = 0; rank < runner->ranks; rank++) {
            take(g, rank, at, piece_of(g, rank, at), tfos__runner_slot(runner, rank, runner->pieces));
        }
        runner->pieces++;
    }
    return TFOS_OK;
}

tfos_status tfos__work_gather(const tfos__work *work, tfos_call_result *out, tfos_error *error)
{
    size_t parts = work->leading->gathered_count;
    size_t ranks = work->runner->ranks;
    if (parts == 0) {
        return TFOS_OK;
    }
    uint64_t *row_bytes = calloc(parts, sizeof *row_bytes);
    out->gathered_count = parts;
    out->rows = calloc(parts * ranks, sizeof *out->rows);
    out->gathered = calloc(parts, sizeof *out->gathered);
    if (row_bytes == NULL || out->rows == NULL || out->gathered == NULL) {
        free(row_bytes);
        return tfos__fail_memory(error, parts * (ranks + 2) * sizeof *row_bytes);
    }
    gathering g = {.work = work, .parts = parts, .row_bytes = row_bytes, .rows = out->rows, .all = out->gathered};
    tfos_status status = share_rows(&g, error);
    status = status == TFOS_OK ? make_room(&g, error) : status;
    status = status == TFOS_OK ? pass(&g, error) : status;
    free(row_bytes);
    return status;
}
