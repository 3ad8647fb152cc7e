/* What is gathered: each worker has some rows of each part, and all get all of them, in the order of workers. What a
 * worker has is one run of bytes, part behind part, each of which begins at a multiple of 64, so that no element is cut
 * in two.
 *
 * On one host it goes through the slots piece by piece, as long as anybody has some left. With other hosts little goes
 * around at once, and much in pieces that are relayed from host to host, each of one worker:
 *
 *   stage        t                                                t + 1
 *   its worker   puts piece t into its slot                       …
 *   the first    relays t - 1, from its slot or to one of results …
 *   all          take t - 1, if it is of this host, else t - 2    …
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "collective/run_state.h"

typedef struct gathering {
    const tfos__work *work;
    size_t parts;
    uint64_t *row_bytes; /* of each part */
    uint64_t *rows;      /* for each part, and each worker */
    uint64_t *runs;      /* of each worker: all its bytes; the runner's `lengths` */
    void **all;          /* for each part; NULL: this worker has joined, and takes nothing */
} gathering;

static uint64_t rows_of(const gathering *g, size_t part, size_t rank)
{
    return g->rows[part * g->work->runner->size + rank];
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

/* ---- rows ---- */

/* Where what a worker has said of its rows is to be read. */
typedef struct said {
    const tfos__runner *runner;
    const uint8_t *all; /* of workers on several hosts; NULL: in their slots */
    size_t bytes;       /* of each */
} said;

static const uint64_t *said_by(const said *it, size_t rank)
{
    const uint8_t *at =
        it->all != NULL ? it->all + rank * it->bytes : tfos__runner_slot(it->runner, rank, it->runner->pieces);
    return (const uint64_t *)(const void *)at;
}

static tfos_status meet_with_rows(const gathering *g, said *it, tfos_error *error)
{
    tfos__runner *runner = g->work->runner;
    if (!tfos__runner_is_far(runner)) {
        return tfos__runner_meet(runner, error);
    }
    for (size_t rank = 0; rank < runner->size; rank++) {
        g->runs[rank] = it->bytes; /* for now */
    }
    return tfos__work_exchange(g->work, &it->all, error);
}

/* Everybody shows how long the rows of each part are, and how many it has. One that has joined has none, and learns
 * from the others how long they are, so that it knows when to stop. */
static tfos_status share_rows(gathering *g, tfos_error *error)
{
    tfos__runner *runner = g->work->runner;
    size_t leading = (size_t)(g->work->leading - runner->heads);
    uint64_t *mine = (uint64_t *)(void *)tfos__runner_slot(runner, runner->place, runner->pieces);
    bool left_out = g->work->call == NULL || runner->heads[runner->options.rank].weight == 0;
    for (size_t i = 0; i < g->parts; i++) {
        mine[i] = left_out ? 0 : (uint64_t)part_at(g, i)->shape[0];
        mine[g->parts + i] = g->work->call != NULL ? tfos__part_row_bytes(part_at(g, i)) : 0;
    }
    said it = {.runner = runner, .bytes = 2 * g->parts * sizeof *mine};
    TFOS_TRY(meet_with_rows(g, &it, error));
    for (size_t rank = 0; rank < runner->size; rank++) {
        const uint64_t *theirs = said_by(&it, rank);
        for (size_t i = 0; i < g->parts; i++) {
            g->rows[i * runner->size + rank] = theirs[i];
            g->row_bytes[i] = rank == leading ? theirs[g->parts + i] : g->row_bytes[i];
        }
    }
    runner->pieces++;
    for (size_t i = 0; g->work->call != NULL && i < g->parts; i++) {
        if (g->row_bytes[i] != tfos__part_row_bytes(part_at(g, i))) {
            return tfos__fail(error, TFOS_CORRUPT, "%s says that rows have %llu bytes, expected %llu",
                              tfos__runner_name_of(runner, leading), (unsigned long long)g->row_bytes[i],
                              (unsigned long long)tfos__part_row_bytes(part_at(g, i)));
        }
    }
    return TFOS_OK;
}

static tfos_status make_room(gathering *g, tfos_error *error)
{
    memset(g->runs, 0, g->work->runner->size * sizeof *g->runs);
    for (size_t i = 0; i < g->parts; i++) {
        uint64_t bytes = 0;
        for (size_t rank = 0; rank < g->work->runner->size; rank++) {
            uint64_t more;
            if (__builtin_mul_overflow(rows_of(g, i, rank), g->row_bytes[i], &more) ||
                __builtin_add_overflow(bytes, more, &bytes) || bytes > (uint64_t)INT64_MAX / 2) {
                return tfos__fail_memory(error, SIZE_MAX);
            }
            g->runs[rank] += tfos__call_align(more);
        }
        /* As TensorFlow wants the memory of its tensors, which otherwise copies it. */
        g->all[i] = g->work->call != NULL ? aligned_alloc(TFOS__CALL_ALIGN, (size_t)tfos__call_align(bytes + 1)) : NULL;
        if (g->work->call != NULL && g->all[i] == NULL) {
            return tfos__fail_memory(error, (size_t)bytes);
        }
    }
    return TFOS_OK;
}

/* ---- bytes ---- */

/* Some bytes of the run of this worker. */
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

/* Some bytes of the run of a worker go where they belong. */
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
    uint64_t left = g->runs[rank] > at ? g->runs[rank] - at : 0;
    return left < g->work->runner->slot_bytes ? (size_t)left : g->work->runner->slot_bytes;
}

/* ---- on one host ---- */

static bool is_anything_left(const gathering *g, uint64_t at)
{
    bool left = false;
    for (size_t rank = 0; rank < g->work->runner->size; rank++) {
        left = left || piece_of(g, rank, at) > 0;
    }
    return left;
}

static tfos_status pass_near(const gathering *g, tfos_error *error)
{
    tfos__runner *runner = g->work->runner;
    size_t me = runner->options.rank;
    for (uint64_t at = 0; is_anything_left(g, at); at += runner->slot_bytes) {
        put(g, at, piece_of(g, me, at), tfos__runner_slot(runner, runner->place, runner->pieces));
        TFOS_TRY(tfos__runner_meet(runner, error));
        for (size_t rank = 0; rank < runner->size; rank++) {
            take(g, rank, at, piece_of(g, rank, at), tfos__runner_slot(runner, rank, runner->pieces));
        }
        runner->pieces++;
    }
    return TFOS_OK;
}

/* ---- with other hosts ---- */

static bool is_little(const gathering *g)
{
    const tfos__runner *runner = g->work->runner;
    uint64_t sum = 0;
    bool fits = true;
    for (size_t rank = 0; rank < runner->size; rank++) {
        fits = fits && g->runs[rank] <= runner->slot_bytes;
        sum += fits ? g->runs[rank] : 0;
    }
    return fits && sum <= 2 * runner->slot_bytes;
}

static tfos_status pass_at_once(const gathering *g, tfos_error *error)
{
    tfos__runner *runner = g->work->runner;
    size_t me = runner->options.rank;
    const uint8_t *at;
    put(g, 0, (size_t)g->runs[me], tfos__runner_slot(runner, runner->place, runner->pieces));
    TFOS_TRY(tfos__work_exchange(g->work, &at, error));
    for (size_t rank = 0; rank < runner->size; rank++) {
        take(g, rank, 0, (size_t)g->runs[rank], at);
        at += g->runs[rank];
    }
    runner->pieces++;
    return TFOS_OK;
}

/* A piece of the run of a worker; without bytes: there are no more. */
typedef struct relayed {
    size_t rank;
    uint64_t at;
    size_t bytes;
} relayed;

static relayed piece_from(const gathering *g, size_t rank, uint64_t at)
{
    relayed it = {.rank = rank, .at = at};
    while (it.rank < g->work->runner->size && (it.bytes = piece_of(g, it.rank, it.at)) == 0) {
        it.rank++;
        it.at = 0;
    }
    return it;
}

static bool is_here(const tfos__runner *runner, const relayed *it)
{
    return runner->hosts->host_of[it->rank] == runner->host;
}

/* `number` counts pieces from the beginning of the gathering. */
static uint8_t *place_of(const tfos__runner *runner, const relayed *it, uint64_t number)
{
    return is_here(runner, it)
               ? tfos__runner_slot(runner, tfos__hosts_place(runner->hosts, it->rank), runner->pieces + number)
               : tfos__runner_result(runner, number);
}

static tfos_status relay(const tfos__runner *runner, const relayed *it, uint64_t number, tfos_error *error)
{
    if (runner->options.far == NULL || it->bytes == 0) {
        return TFOS_OK;
    }
    return tfos__far_relay(runner->options.far, runner->hosts->host_of[it->rank], place_of(runner, it, number),
                           it->bytes, error);
}

static void take_relayed(const gathering *g, const relayed *it, uint64_t number, bool here)
{
    const tfos__runner *runner = g->work->runner;
    if (it->bytes > 0 && is_here(runner, it) == here) {
        take(g, it->rank, it->at, it->bytes, place_of(runner, it, number));
    }
}

static tfos_status pass_in_relays(const gathering *g, tfos_error *error)
{
    tfos__runner *runner = g->work->runner;
    relayed now = piece_from(g, 0, 0);
    relayed before = {0};
    relayed earlier = {0};
    uint64_t stage = 0;
    for (;; stage++) {
        if (now.bytes > 0 && now.rank == runner->options.rank) {
            put(g, now.at, now.bytes, place_of(runner, &now, stage));
        }
        TFOS_TRY(relay(runner, &before, stage - 1, error));
        take_relayed(g, &before, stage - 1, true);
        take_relayed(g, &earlier, stage - 2, false);
        if (now.bytes == 0 && before.bytes == 0) {
            break;
        }
        TFOS_TRY(tfos__runner_meet(runner, error));
        earlier = before;
        before = now;
        now = now.bytes > 0 ? piece_from(g, now.rank, now.at + now.bytes) : now;
    }
    runner->pieces += stage;
    return TFOS_OK;
}

static tfos_status pass(const gathering *g, tfos_error *error)
{
    if (!tfos__runner_is_far(g->work->runner)) {
        return pass_near(g, error);
    }
    return is_little(g) ? pass_at_once(g, error) : pass_in_relays(g, error);
}

tfos_status tfos__work_gather(const tfos__work *work, tfos_call_result *out, tfos_error *error)
{
    size_t parts = work->leading->gathered_count;
    size_t size = work->runner->size;
    if (parts == 0) {
        return TFOS_OK;
    }
    uint64_t *row_bytes = calloc(parts, sizeof *row_bytes);
    out->gathered_count = parts;
    out->rows = calloc(parts * size, sizeof *out->rows);
    out->gathered = calloc(parts, sizeof *out->gathered);
    if (row_bytes == NULL || out->rows == NULL || out->gathered == NULL) {
        free(row_bytes);
        return tfos__fail_memory(error, parts * (size + 2) * sizeof *row_bytes);
    }
    gathering g = {.work = work,
                   .parts = parts,
                   .row_bytes = row_bytes,
                   .runs = work->runner->lengths,
                   .rows = out->rows,
                   .all = out->gathered};
    tfos_status status = share_rows(&g, error);
    status = status == TFOS_OK ? make_room(&g, error) : status;
    status = status == TFOS_OK ? pass(&g, error) : status;
    free(row_bytes);
    return status;
}
