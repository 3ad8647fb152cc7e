/* A piece of the stream among hosts: what each host has made of it, what that is on the wire, and what becomes of it.
 *
 *   slots ── sum ──► wide slot ── encode ──► wire ══ other hosts ══► wire ── decode ──► slot of results
 *   float16          float32                 float32, or halves                        float16
 *
 * Everybody must get the same bits. So what counts of a host is what was sent, also for itself; and operands are taken
 * in an order that is the same everywhere, or one host takes them for all. */
#include <string.h>

#include "base/status.h"
#include "collective/run_state.h"

enum {
    BLOCK = 1024, /* elements that are converted at a time */
    UNIT = 64,    /* elements, of which shares are whole numbers */
    GATHERED_BYTES =
        262144, /* from all other hosts, at most, if there are more than two: else they go around in a ring */
};

static size_t line_up(size_t at)
{
    return (size_t)tfos__call_align(at);
}

static bool is_sum(tfos_merge merge)
{
    return merge == TFOS_MERGE_SUM || merge == TFOS_MERGE_MEAN || merge == TFOS_MERGE_WEIGHTED_MEAN;
}

size_t tfos__work_runs(const tfos__work *work, uint64_t piece, tfos__run *runs, size_t *wire_bytes)
{
    const tfos__runner *runner = work->runner;
    uint64_t start = piece * runner->slot_bytes;
    size_t bytes = tfos__runner_piece_bytes(runner, work->leading->stream_bytes, piece);
    size_t count = 0;
    size_t wide_at = 0;
    size_t wire_at = 0;
    for (uint32_t i = 0; i < work->leading->class_count; i++) {
        const tfos__class *each = &work->leading->classes[i];
        uint64_t begin;
        uint64_t end;
        if (!tfos__bytes_meet(each->at, each->bytes, start, bytes, &begin, &end)) {
            continue;
        }
        tfos__run *run = &runs[count++];
        *run = (tfos__run){.merge = (tfos_merge)each->merge, .element = (tfos_element)each->element};
        run->sum = is_sum(run->merge) ? tfos__element_sum(run->element) : run->element;
        run->wire =
            is_sum(run->merge) && run->sum == TFOS_ELEMENT_FLOAT32 ? (tfos_element)work->leading->wire : run->sum;
        run->count = (size_t)(end - begin) / tfos_element_bytes(run->element);
        run->at = (size_t)(begin - start);
        run->wide_at = wide_at;
        run->wire_at = wire_at;
        wide_at = line_up(wide_at + run->count * tfos_element_bytes(run->sum));
        wire_at = line_up(wire_at + run->count * tfos_element_bytes(run->wire));
    }
    *wire_bytes = wire_at;
    return count;
}

static uint8_t *wide_of(const tfos__runner *runner, uint64_t piece)
{
    return tfos__board_wide(runner->options.board, (unsigned)((runner->pieces + piece) % 2));
}

static bool has_root(const tfos__work *work)
{
    return work->runner->hosts->host_of[work->leading->root] == work->runner->host;
}

/* ---- the workers of a host ---- */

/* The first worker talks to the other hosts meanwhile, unless it is the only one. */
static void share_of(const tfos__runner *runner, size_t count, size_t *first, size_t *end)
{
    size_t units = (count + UNIT - 1) / UNIT;
    size_t workers = runner->mates > 1 ? runner->mates - 1 : 1;
    size_t mine = runner->mates > 1 ? runner->place - 1 : 0;
    *first = *end = 0;
    if (runner->mates == 1 || runner->place > 0) {
        *first = units * mine / workers * UNIT;
        *end = units * (mine + 1) / workers * UNIT;
        *end = *end < count ? *end : count;
    }
}

void tfos__work_sum_run(const tfos__work *work, const tfos__run *run, uint64_t piece)
{
    tfos__runner *runner = work->runner;
    size_t element_bytes = tfos_element_bytes(run->element);
    size_t first;
    size_t end;
    size_t operands = 0;
    share_of(runner, run->count, &first, &end);
    if (first >= end || (run->merge == TFOS_MERGE_BROADCAST && !has_root(work))) {
        return;
    }
    uint8_t *out = wide_of(runner, piece) + run->wide_at + first * tfos_element_bytes(run->sum);
    for (size_t place = 0; place < runner->mates; place++) {
        size_t rank = tfos__runner_rank(runner, place);
        const uint8_t *slot = tfos__runner_slot(runner, place, runner->pieces + piece);
        const uint8_t *from = slot + run->at + first * element_bytes;
        if (run->merge == TFOS_MERGE_BROADCAST && rank == work->leading->root) {
            memcpy(out, from, (end - first) * element_bytes);
            return;
        }
        if (runner->heads[rank].weight != 0) {
            runner->operands[operands++] = (tfos__operand){from, tfos__work_scale(work, run->merge, rank)};
        }
    }
    tfos__reduce(tfos__work_reduction(run->merge), run->element, runner->operands, operands, end - first, run->sum,
                 out);
}

/* ---- on the wire ---- */

/* Floating numbers of one width become those of another, or stay what they are. */
static void convert(tfos_element from, const uint8_t *in, size_t count, tfos_element to, uint8_t *out)
{
    if (from == to) {
        memcpy(out, in, count * tfos_element_bytes(to));
    } else if (from == TFOS_ELEMENT_FLOAT32 || to == TFOS_ELEMENT_FLOAT32) {
        tfos__element_convert(from, in, count, to, out);
    } else {
        float wide[BLOCK];
        for (size_t at = 0; at < count; at += BLOCK) {
            size_t some = count - at < BLOCK ? count - at : BLOCK;
            tfos__element_convert(from, in + 2 * at, some, TFOS_ELEMENT_FLOAT32, wide);
            tfos__element_convert(TFOS_ELEMENT_FLOAT32, wide, some, to, out + 2 * at);
        }
    }
}

/* A piece that goes around in a ring. */
typedef struct ringing {
    const tfos__work *work;
    const tfos__run *runs;
    size_t run_count;
    const uint8_t *wide;
    uint8_t *wire;
} ringing;

/* What a run and some bytes of the wire have in common, in elements of the run. */
static size_t meet_run(const tfos__run *run, size_t at, size_t bytes, size_t *first)
{
    uint64_t begin;
    uint64_t end;
    size_t each = tfos_element_bytes(run->wire);
    if (!tfos__bytes_meet(run->wire_at, run->count * each, at, bytes, &begin, &end)) {
        return 0;
    }
    *first = (size_t)(begin - run->wire_at) / each;
    return (size_t)(end - begin) / each;
}

static void encode(const ringing *self, size_t at, size_t bytes)
{
    for (size_t i = 0; i < self->run_count; i++) {
        size_t first;
        const tfos__run *run = &self->runs[i];
        size_t count = meet_run(run, at, bytes, &first);
        if (count > 0) {
            convert(run->sum, self->wide + run->wide_at + first * tfos_element_bytes(run->sum), count, run->wire,
                    self->wire + run->wire_at + first * tfos_element_bytes(run->wire));
        }
    }
}

/* What has come was narrowed, and so is what becomes of it. */
static void combine_narrow(const tfos__run *run, const uint8_t *come, const uint8_t *own, size_t count, uint8_t *out)
{
    float sum[BLOCK];
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t some = count - at < BLOCK ? count - at : BLOCK;
        const tfos__operand operands[] = {{sum, 1}, {own + at * sizeof *sum, 1}};
        tfos__element_convert(run->wire, come + 2 * at, some, TFOS_ELEMENT_FLOAT32, sum);
        tfos__reduce(TFOS__REDUCE_SUM, TFOS_ELEMENT_FLOAT32, operands, 2, some, TFOS_ELEMENT_FLOAT32, sum);
        tfos__element_convert(TFOS_ELEMENT_FLOAT32, sum, some, run->wire, out + 2 * at);
    }
}

static void combine_run(const ringing *self, const tfos__run *run, size_t first, size_t count, const uint8_t *come)
{
    const uint8_t *own = self->wide + run->wide_at + first * tfos_element_bytes(run->sum);
    uint8_t *out = self->wire + run->wire_at + first * tfos_element_bytes(run->wire);
    const tfos__operand operands[] = {{come, 1}, {own, 1}};
    if (run->merge == TFOS_MERGE_BROADCAST) {
        memcpy(out, has_root(self->work) ? own : come, count * tfos_element_bytes(run->wire));
    } else if (run->wire != run->sum) {
        combine_narrow(run, come, own, count, out);
    } else {
        tfos__reduce(tfos__work_reduction(run->merge), run->sum, operands, 2, count, run->sum, out);
    }
}

static void combine(void *context, size_t at, size_t bytes, const uint8_t *come)
{
    const ringing *self = context;
    for (size_t i = 0; i < self->run_count; i++) {
        size_t first;
        const tfos__run *run = &self->runs[i];
        size_t count = meet_run(run, at, bytes, &first);
        if (count > 0) {
            combine_run(self, run, first, count, come + (run->wire_at + first * tfos_element_bytes(run->wire) - at));
        }
    }
}

/* ---- two ways ---- */

static tfos_status merge_in_ring(ringing *self, size_t wire_bytes, uint8_t *result, tfos_error *error)
{
    tfos__far *far = self->work->runner->options.far;
    tfos__ring ring = {.wire = self->wire, .bytes = wire_bytes, .combine = combine, .context = self};
    size_t at;
    size_t bytes;
    tfos__ring_chunk(far, wire_bytes, &at, &bytes);
    encode(self, at, bytes);
    TFOS_TRY(tfos__far_ring(far, &ring, error));
    for (size_t i = 0; i < self->run_count; i++) {
        const tfos__run *run = &self->runs[i];
        convert(run->wire, self->wire + run->wire_at, run->count, run->element, result + run->at);
    }
    return TFOS_OK;
}

static void reduce_blocks(const ringing *self, const tfos__run *run, uint8_t *result)
{
    tfos__runner *runner = self->work->runner;
    size_t hosts = runner->hosts->count;
    size_t root = runner->hosts->host_of[self->work->leading->root];
    for (size_t host = 0; host < hosts; host++) {
        size_t bytes;
        const uint8_t *block = tfos__far_block(runner->options.far, host, &bytes);
        runner->operands[host] = (tfos__operand){block + run->wire_at, 1};
    }
    if (run->merge == TFOS_MERGE_BROADCAST) {
        memcpy(result + run->at, runner->operands[root].at, run->count * tfos_element_bytes(run->element));
        return;
    }
    if (run->element == run->sum) {
        tfos__reduce(tfos__work_reduction(run->merge), run->wire, runner->operands, hosts, run->count, run->sum,
                     result + run->at);
        return;
    }
    for (size_t at = 0; at < run->count; at += BLOCK) {
        float block[BLOCK];
        size_t some = run->count - at < BLOCK ? run->count - at : BLOCK;
        tfos__reduce(TFOS__REDUCE_SUM, run->wire, runner->operands, hosts, some, TFOS_ELEMENT_FLOAT32, block);
        tfos__element_convert(TFOS_ELEMENT_FLOAT32, block, some, run->element, result + run->at + 2 * at);
        for (size_t host = 0; host < hosts; host++) {
            runner->operands[host].at =
                (const uint8_t *)runner->operands[host].at + some * tfos_element_bytes(run->wire);
        }
    }
}

static tfos_status merge_by_gathering(ringing *self, size_t wire_bytes, uint8_t *result, tfos_error *error)
{
    const tfos__runner *runner = self->work->runner;
    encode(self, 0, wire_bytes);
    TFOS_TRY(tfos__far_gather(runner->options.far, self->wire, wire_bytes, wire_bytes, error));
    for (size_t host = 0; host < runner->hosts->count; host++) {
        size_t bytes;
        tfos__far_block(runner->options.far, host, &bytes);
        if (bytes != wire_bytes) {
            return tfos__fail(error, TFOS_CORRUPT,
                              "the host of %s sends %zu bytes where %zu are expected: all workers must have the same "
                              "settings",
                              tfos__runner_name_of(runner, runner->hosts->leaders[host]), bytes, wire_bytes);
        }
    }
    for (size_t i = 0; i < self->run_count; i++) {
        reduce_blocks(self, &self->runs[i], result);
    }
    return TFOS_OK;
}

tfos_status tfos__work_merge_hosts(const tfos__work *work, uint64_t piece, tfos_error *error)
{
    tfos__runner *runner = work->runner;
    size_t hosts = runner->hosts->count;
    tfos__run runs[TFOS__CALL_CLASSES_MOST];
    size_t wire_bytes;
    size_t count = tfos__work_runs(work, piece, runs, &wire_bytes);
    if (count == 0) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__buffer_reserve(&runner->wire, wire_bytes, error));
    for (size_t i = 0; i < count; i++) { /* what is between runs travels, too */
        size_t end = runs[i].wire_at + runs[i].count * tfos_element_bytes(runs[i].wire);
        memset(runner->wire.data + end, 0, line_up(end) - end);
    }
    ringing self = {
        .work = work, .runs = runs, .run_count = count, .wide = wide_of(runner, piece), .wire = runner->wire.data};
    uint8_t *result = tfos__runner_result(runner, piece);
    if (hosts == 2 || wire_bytes * (hosts - 1) <= GATHERED_BYTES) {
        return merge_by_gathering(&self, wire_bytes, result, error);
    }
    return merge_in_ring(&self, wire_bytes, result, error);
}
