/* Mixer: slots that hold records until they are drawn.
 *
 *     source ──► chunk `in` ──► slots, shuffle_rows of them ──► chunk
 *                                 ^ one is drawn, and filled again with the next record
 *
 * A slot has memory of its own: records that leave in random order would leave gaps in any common memory, and keep the
 * chunks that they came in alive for long. It is a piece of a block, as large as the first record and a little more:
 * that serves records of one size, and whoever is longer gets memory from the heap for as long as it waits. Blocks
 * ask for huge pages; to fault in small ones took longer than to read and check what came into them. In order, records
 * go straight from one chunk to the other. */
#include "record/mixer.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/random.h"
#include "base/status.h"
#include "record/example.h"
#include "record/frame.h"

/* Where a record came from. */
typedef struct origin {
    const char *path;
    size_t file_index;
    int64_t file_offset;
    int64_t record;
    bool compressed;
} origin;

/* A record that waits to be drawn: its payload, and behind it its checksum. */
typedef struct slot {
    uint8_t *data; /* the piece, or from the heap */
    size_t capacity;
    size_t bytes; /* of the payload */
    uint8_t *piece;
    size_t piece_bytes;
    origin from;
} slot;

/* Memory that pieces are cut from. Each block is larger than the one before it, up to a huge page. */
enum { BLOCK_FIRST = 1 << 16, BLOCK_MOST = 1 << 21, PIECE_MOST = BLOCK_FIRST / 4, PIECE_ALIGN = 64 };

struct tfos__mixer {
    tfos__mixer_options options;
    uint64_t random;
    tfos__chunk in;
    size_t next; /* span of `in` */
    size_t holes_told;
    int64_t stored_bytes; /* that `in` used up and no chunk has told of */
    size_t file;          /* that the last record was of … */
    int64_t number;       /* … and how many came before it there */
    slot *slots;
    size_t slot_count; /* that hold a record: the first ones */
    size_t slot_capacity;
    uint8_t **blocks;
    size_t block_count;
    size_t block_capacity;
    size_t block_bytes; /* of the last one … */
    size_t block_used;  /* … and how much of it was cut */
    tfos__joined joined;
    bool ended; /* the source has no more, or has failed: */
    tfos_error end;
};

tfos_status tfos__mixer_new(const tfos__mixer_options *options, tfos__mixer **out, tfos_error *error)
{
    assert(options->chunk_rows > 0);
    tfos__mixer *mixer = calloc(1, sizeof *mixer);
    if (mixer == NULL) {
        return tfos__fail_memory(error, sizeof *mixer);
    }
    mixer->options = *options;
    mixer->random = tfos__random_mix(options->seed);
    mixer->file = SIZE_MAX;
    *out = mixer;
    return TFOS_OK;
}

static void leave_heap(slot *self)
{
    if (self->data != self->piece) {
        free(self->data);
    }
    self->data = self->piece;
    self->capacity = self->piece_bytes;
}

void tfos__mixer_free(tfos__mixer *mixer)
{
    if (mixer == NULL) {
        return;
    }
    for (size_t i = 0; i < mixer->slot_capacity; i++) {
        leave_heap(&mixer->slots[i]);
    }
    for (size_t i = 0; i < mixer->block_count; i++) {
        free(mixer->blocks[i]);
    }
    free((void *)mixer->blocks);
    free(mixer->slots);
    tfos__joined_reset(&mixer->joined);
    tfos__chunk_reset(&mixer->in);
    free(mixer);
}

/* ---- records in ---- */

/* With on_corrupt=skip: whether a record can be read. One that cannot is a hole. */
static tfos_status check(tfos__mixer *mixer, size_t span, bool *sound, tfos_error *error)
{
    const uint8_t *record = mixer->in.data.data + mixer->in.spans[span].at;
    size_t bytes = mixer->in.spans[span].bytes;
    *sound = tfos__frame_payload(record, bytes);
    if (!*sound) {
        return tfos__chunk_skip(&mixer->in, span, TFOS_CORRUPT, "the checksum of the payload does not match", error);
    }
    bool sequence = mixer->options.record == TFOS_RECORD_SEQUENCE;
    *sound = mixer->options.record == TFOS_RECORD_BYTES ||
             tfos__message_valid((tfos__wire){record, record + bytes}, sequence, &mixer->joined);
    if (*sound) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__joined_check(&mixer->joined, error));
    return tfos__chunk_skip(&mixer->in, span, TFOS_CORRUPT, "the record does not parse", error);
}

/* Whether it is this shard's turn. Every sound record of the file counts. */
static bool is_ours(tfos__mixer *mixer, size_t span)
{
    if (mixer->options.parts == NULL) {
        return true;
    }
    size_t file = tfos__chunk_segment(&mixer->in, span)->file_index;
    if (file != mixer->file) {
        mixer->file = file;
        mixer->number = 0;
    }
    int32_t turn = mixer->options.parts[file].turn;
    return turn < 0 || mixer->number++ % mixer->options.shard_count == turn;
}

/* What was skipped is told by the chunk that is being made. */
static tfos_status tell_holes(tfos__mixer *mixer, tfos__chunk *chunk, tfos_error *error)
{
    for (; mixer->holes_told < mixer->in.hole_count; mixer->holes_told++) {
        TFOS_TRY(
            tfos__array_reserve(&chunk->holes, chunk->hole_count, &chunk->hole_capacity, sizeof *chunk->holes, error));
        chunk->holes[chunk->hole_count++] = mixer->in.holes[mixer->holes_told];
    }
    return TFOS_OK;
}

static tfos_status refill(tfos__mixer *mixer, tfos__source *source, tfos__chunk *chunk, tfos_error *error)
{
    TFOS_TRY(tell_holes(mixer, chunk, error));
    mixer->next = 0;
    tfos_status status = tfos__source_next(source, &mixer->in, error);
    mixer->holes_told = 0;
    mixer->stored_bytes += mixer->in.stored_bytes;
    return status;
}

/* The next record that is to be taken, as a span of `in`. END, or a failure: there is none. */
static tfos_status find(tfos__mixer *mixer, tfos__source *source, tfos__chunk *chunk, size_t *out, tfos_error *error)
{
    for (;;) {
        bool sound = true;
        if (mixer->next == mixer->in.span_count) {
            TFOS_TRY(refill(mixer, source, chunk, error));
            continue;
        }
        size_t span = mixer->next++;
        if (mixer->options.on_corrupt == TFOS_ON_CORRUPT_SKIP) {
            TFOS_TRY(check(mixer, span, &sound, error));
        }
        if (sound && is_ours(mixer, span)) {
            *out = span;
            return TFOS_OK;
        }
    }
}

/* As find does. What ends the records is kept. */
static bool take(tfos__mixer *mixer, tfos__source *source, tfos__chunk *chunk, size_t *span)
{
    if (!mixer->ended) {
        tfos_status status = find(mixer, source, chunk, span, &mixer->end);
        mixer->ended = status != TFOS_OK;
        mixer->end.status = status;
    }
    return !mixer->ended;
}

static origin origin_of(const tfos__chunk *chunk, size_t span)
{
    const tfos__segment *segment = tfos__chunk_segment(chunk, span);
    return (origin){.path = segment->path,
                    .file_index = segment->file_index,
                    .file_offset = chunk->spans[span].file_offset,
                    .record = segment->first_record < 0 ? -1 : segment->first_record + (int64_t)(span - segment->first),
                    .compressed = segment->compressed};
}

/* ---- slots ---- */

static tfos_status add_block(tfos__mixer *mixer, tfos_error *error)
{
    size_t bytes = mixer->block_count == 0 ? BLOCK_FIRST : mixer->block_bytes * 2;
    bytes = bytes < BLOCK_MOST ? bytes : BLOCK_MOST;
    void *block;
    TFOS_TRY(
        tfos__array_reserve(&mixer->blocks, mixer->block_count, &mixer->block_capacity, sizeof *mixer->blocks, error));
    if (posix_memalign(&block, bytes, bytes) != 0) {
        return tfos__fail_memory(error, bytes);
    }
    if (bytes == BLOCK_MOST) {
        (void)madvise(block, bytes, MADV_HUGEPAGE); /* a wish */
    }
    mixer->blocks[mixer->block_count++] = block;
    mixer->block_bytes = bytes;
    mixer->block_used = 0;
    return TFOS_OK;
}

static tfos_status cut_piece(tfos__mixer *mixer, slot *to, size_t bytes, tfos_error *error)
{
    size_t wanted = (bytes + bytes / 8 + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
    if (mixer->block_used + wanted > mixer->block_bytes) {
        TFOS_TRY(add_block(mixer, error));
    }
    to->piece = mixer->blocks[mixer->block_count - 1] + mixer->block_used;
    to->piece_bytes = wanted;
    mixer->block_used += wanted;
    return TFOS_OK;
}

/* Memory that is far too large is given back: a few long records would otherwise leave every slot so large in time. */
static tfos_status fit(tfos__mixer *mixer, slot *to, size_t bytes, tfos_error *error)
{
    enum { TOO_LARGE = 4 };
    if (to->piece == NULL && bytes <= PIECE_MOST) {
        leave_heap(to);
        TFOS_TRY(cut_piece(mixer, to, bytes, error));
    }
    if (bytes <= to->piece_bytes || bytes > to->capacity || bytes < to->capacity / TOO_LARGE) {
        leave_heap(to);
    }
    if (bytes <= to->capacity) {
        return TFOS_OK;
    }
    uint8_t *data = malloc(bytes);
    if (data == NULL) {
        return tfos__fail_memory(error, bytes);
    }
    to->data = data;
    to->capacity = bytes;
    return TFOS_OK;
}

static tfos_status hold(tfos__mixer *mixer, slot *to, size_t span, tfos_error *error)
{
    const tfos__span *from = &mixer->in.spans[span];
    TFOS_TRY(fit(mixer, to, from->bytes + TFOS__FRAME_FOOTER_BYTES, error));
    memcpy(to->data, mixer->in.data.data + from->at, from->bytes + TFOS__FRAME_FOOTER_BYTES);
    to->bytes = from->bytes;
    to->from = origin_of(&mixer->in, span);
    return TFOS_OK;
}

/* Room for one more slot. They are made as records come: few records must not cost what many would. */
static tfos_status reserve_slot(tfos__mixer *mixer, tfos_error *error)
{
    size_t before = mixer->slot_capacity;
    TFOS_TRY(tfos__array_reserve(&mixer->slots, mixer->slot_count, &mixer->slot_capacity, sizeof *mixer->slots, error));
    if (mixer->slot_capacity > before) {
        memset(mixer->slots + before, 0, (mixer->slot_capacity - before) * sizeof *mixer->slots);
    }
    return TFOS_OK;
}

static tfos_status fill_slots(tfos__mixer *mixer, tfos__source *source, tfos__chunk *chunk, tfos_error *error)
{
    size_t span;
    while ((int64_t)mixer->slot_count < mixer->options.shuffle_rows && take(mixer, source, chunk, &span)) {
        TFOS_TRY(reserve_slot(mixer, error));
        TFOS_TRY(hold(mixer, &mixer->slots[mixer->slot_count], span, error));
        mixer->slot_count++;
    }
    return TFOS_OK;
}

/* ---- records out ---- */

/* Records that followed each other in a file share a segment. */
static tfos_status push_segment(tfos__chunk *chunk, const origin *from, tfos_error *error)
{
    const tfos__segment *last = chunk->segment_count > 0 ? &chunk->segments[chunk->segment_count - 1] : NULL;
    if (last != NULL && last->file_index == from->file_index &&
        (from->record < 0 ? last->first_record < 0
                          : last->first_record + (int64_t)(chunk->span_count - last->first) == from->record)) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__array_reserve(&chunk->segments, chunk->segment_count, &chunk->segment_capacity,
                                 sizeof *chunk->segments, error));
    chunk->segments[chunk->segment_count++] = (tfos__segment){.first = chunk->span_count,
                                                              .path = from->path,
                                                              .file_index = from->file_index,
                                                              .first_record = from->record,
                                                              .compressed = from->compressed};
    return TFOS_OK;
}

static tfos_status push(tfos__chunk *chunk, const uint8_t *payload, size_t bytes, const origin *from, tfos_error *error)
{
    TFOS_TRY(push_segment(chunk, from, error));
    TFOS_TRY(tfos__array_reserve(&chunk->spans, chunk->span_count, &chunk->span_capacity, sizeof *chunk->spans, error));
    size_t at = chunk->data.size;
    TFOS_TRY(tfos__buffer_append(&chunk->data, payload, bytes + TFOS__FRAME_FOOTER_BYTES, error));
    chunk->spans[chunk->span_count++] = (tfos__span){.at = at, .bytes = bytes, .file_offset = from->file_offset};
    return TFOS_OK;
}

static tfos_status push_drawn(tfos__mixer *mixer, tfos__source *source, tfos__chunk *chunk, tfos_error *error)
{
    size_t span;
    slot *drawn = &mixer->slots[tfos__random_below(&mixer->random, mixer->slot_count)];
    TFOS_TRY(push(chunk, drawn->data, drawn->bytes, &drawn->from, error));
    if (take(mixer, source, chunk, &span)) {
        return hold(mixer, drawn, span, error);
    }
    slot last = mixer->slots[--mixer->slot_count]; /* the drawn one's memory is kept behind the others */
    mixer->slots[mixer->slot_count] = *drawn;
    *drawn = last;
    return TFOS_OK;
}

/* One more record. *more is false if there is none. */
static tfos_status step(tfos__mixer *mixer, tfos__source *source, tfos__chunk *chunk, bool *more, tfos_error *error)
{
    size_t span;
    if (mixer->options.shuffle_rows > 1) {
        *more = mixer->slot_count > 0;
        return *more ? push_drawn(mixer, source, chunk, error) : TFOS_OK;
    }
    *more = take(mixer, source, chunk, &span);
    if (!*more) {
        return TFOS_OK;
    }
    const tfos__span *from = &mixer->in.spans[span];
    origin place = origin_of(&mixer->in, span);
    return push(chunk, mixer->in.data.data + from->at, from->bytes, &place, error);
}

tfos_status tfos__mixer_next(tfos__mixer *mixer, tfos__source *source, tfos__chunk *chunk, tfos_error *error)
{
    bool more = true;
    chunk->data.size = 0;
    chunk->span_count = 0;
    chunk->segment_count = 0;
    chunk->hole_count = 0;
    if (mixer->options.shuffle_rows > 1) {
        TFOS_TRY(fill_slots(mixer, source, chunk, error));
    }
    while (more && (int64_t)chunk->span_count < mixer->options.chunk_rows) {
        TFOS_TRY(step(mixer, source, chunk, &more, error));
    }
    TFOS_TRY(tell_holes(mixer, chunk, error));
    chunk->stored_bytes = mixer->stored_bytes;
    mixer->stored_bytes = 0;
    if (chunk->span_count > 0 || chunk->hole_count > 0) {
        return TFOS_OK;
    }
    if (mixer->end.status != TFOS_END && error != NULL) {
        *error = mixer->end;
    }
    return mixer->end.status;
}
