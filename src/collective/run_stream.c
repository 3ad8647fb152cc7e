/* The stream of a call, piece by piece:
 *
 *   piece      0          1          2
 *   slot       a          b          a          each worker puts a piece there, …
 *   result                0          1          … reduces its part of the one before, and takes the whole of that
 *
 * With two workers, or little to do, each reduces everything for itself, from its own tensors and the others' slots:
 * that moves fewest bytes, and needs fewest stages. With more each reduces a part of the piece into a result that all
 * take. Both give the same bits to everybody: operands are taken in the order of workers.
 *
 * A slot is filled again two pieces later, when everybody has advanced beyond the stage at which it is read; so are
 * results. */
#include <string.h>

#include "base/status.h"
#include "collective/run_state.h"

size_t tfos__runner_piece_bytes(const tfos__runner *runner, uint64_t stream_bytes, uint64_t piece)
{
    uint64_t at = piece * runner->slot_bytes;
    uint64_t left = stream_bytes > at ? stream_bytes - at : 0;
    return left < runner->slot_bytes ? (size_t)left : runner->slot_bytes;
}

uint8_t *tfos__runner_result(const tfos__runner *runner, uint64_t piece)
{
    return tfos__board_result(runner->options.board, (unsigned)((runner->pieces + piece) % TFOS__BOARD_RESULTS));
}

void tfos__work_put(const tfos__work *work, uint64_t stream_bytes, uint64_t piece)
{
    tfos__runner *runner = work->runner;
    size_t bytes = tfos__runner_piece_bytes(runner, stream_bytes, piece);
    if (work->call != NULL && bytes > 0) {
        uint8_t *slot = tfos__runner_slot(runner, runner->place, runner->pieces + piece);
        tfos__call_take(work->call, piece * runner->slot_bytes, bytes, slot);
    }
}

tfos__reduction tfos__work_reduction(tfos_merge merge)
{
    return merge == TFOS_MERGE_MIN   ? TFOS__REDUCE_LEAST
           : merge == TFOS_MERGE_MAX ? TFOS__REDUCE_GREATEST
                                     : TFOS__REDUCE_SUM;
}

double tfos__work_scale(const tfos__work *work, tfos_merge merge, size_t rank)
{
    switch (merge) {
    case TFOS_MERGE_MEAN:
        return 1.0 / (double)work->contributors;
    case TFOS_MERGE_WEIGHTED_MEAN:
    case TFOS_MERGE_GATHER_WEIGHTED:
        return work->runner->heads[rank].weight / work->weight;
    default:
        return 1;
    }
}

/* Where the elements of a worker are: in its slot, or, if it may be elsewhere, where all small streams are. */
static const uint8_t *operand_of(const tfos__runner *runner, size_t rank, uint64_t piece)
{
    return tfos__runner_is_far(runner) ? tfos__runner_small(runner, rank)
                                       : tfos__runner_slot(runner, rank, runner->pieces + piece);
}

/* Reduces elements that everybody has at the same place of a piece. `own` are those of this worker, wherever they are;
 * NULL: in its slot. */
static void reduce_some(const tfos__work *work, const tfos__class *alike, uint64_t piece, size_t at, size_t bytes,
                        const void *own, void *out)
{
    tfos__runner *runner = work->runner;
    tfos_merge merge = (tfos_merge)alike->merge;
    tfos_element element = (tfos_element)alike->element;
    size_t count = 0;
    for (size_t rank = 0; rank < runner->size; rank++) {
        const uint8_t *from = operand_of(runner, rank, piece) + at;
        from = rank == runner->options.rank && own != NULL ? own : from;
        if (merge == TFOS_MERGE_BROADCAST && rank == work->leading->root) {
            memmove(out, from, bytes);
            return;
        }
        if (runner->heads[rank].weight != 0) {
            runner->operands[count++] = (tfos__operand){from, tfos__work_scale(work, merge, rank)};
        }
    }
    tfos__reduce(tfos__work_reduction(merge), element, runner->operands, count, bytes / tfos_element_bytes(element),
                 element, out);
}

/* Reduces the part of a piece that falls to this worker, for all. */
static void reduce_share(const tfos__work *work, uint64_t piece)
{
    tfos__runner *runner = work->runner;
    uint64_t start = piece * runner->slot_bytes;
    uint64_t bytes = tfos__runner_piece_bytes(runner, work->leading->stream_bytes, piece);
    uint64_t lines = tfos__call_align(bytes) / TFOS__CALL_ALIGN;
    uint64_t first = lines * runner->place / runner->mates * TFOS__CALL_ALIGN;
    uint64_t last = lines * (runner->place + 1) / runner->mates * TFOS__CALL_ALIGN;
    for (size_t i = 0; i < work->leading->class_count; i++) {
        uint64_t begin;
        uint64_t end;
        const tfos__class *each = &work->leading->classes[i];
        if (tfos__bytes_meet(each->at, each->bytes, start + first, last - first, &begin, &end)) {
            reduce_some(work, each, piece, (size_t)(begin - start), (size_t)(end - begin), NULL,
                        tfos__runner_result(runner, piece) + (begin - start));
        }
    }
}

/* Reduces a piece into the outputs of this worker, which has made the call. */
static void reduce_for_itself(const tfos__work *work, uint64_t piece)
{
    const tfos__call *call = work->call;
    uint64_t start = piece * work->runner->slot_bytes;
    size_t bytes = tfos__runner_piece_bytes(work->runner, work->leading->stream_bytes, piece);
    const tfos__class *each = work->leading->classes;
    for (size_t i = tfos__call_find(call, start); i < call->span_count; i++) {
        uint64_t begin;
        uint64_t end;
        const tfos__span *span = &call->spans[i];
        const tfos_part *part = &call->parts[span->part];
        if (!tfos__bytes_meet(span->at, span->bytes, start, bytes, &begin, &end)) {
            return;
        }
        while (each->at + each->bytes <= begin) {
            each++;
        }
        reduce_some(work, each, piece, (size_t)(begin - start), (size_t)(end - begin),
                    (const uint8_t *)part->input + (begin - span->at), (uint8_t *)part->output + (begin - span->at));
    }
}

tfos_status tfos__work_pass_stream(const tfos__work *work, tfos_error *error)
{
    tfos__runner *runner = work->runner;
    if (tfos__runner_is_far(runner) && !work->direct) {
        return tfos__work_pass_far(work, error);
    }
    uint64_t bytes = work->leading->stream_bytes;
    uint64_t count = (bytes + runner->slot_bytes - 1) / runner->slot_bytes;
    for (uint64_t piece = 0; piece < count; piece++) {
        if (work->direct) {
            tfos__work_put(work, bytes, piece + 1);
            if (work->call != NULL) {
                reduce_for_itself(work, piece);
            }
        } else {
            reduce_share(work, piece);
            tfos__work_put(work, bytes, piece + 1);
        }
        if (!work->direct || piece + 1 < count) {
            TFOS_TRY(tfos__runner_meet(runner, error));
        }
        if (!work->direct && work->call != NULL) {
            tfos__call_give(work->call, piece * runner->slot_bytes, tfos__runner_piece_bytes(runner, bytes, piece),
                            tfos__runner_result(runner, piece));
        }
    }
    runner->pieces += count;
    return TFOS_OK;
}
