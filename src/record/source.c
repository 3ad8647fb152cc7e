/* Source: follows the headers of a file and cuts it into chunks.
 *
 *      data   | record | record | record | part of a reco          |
 *             0                          at                        size
 *                                        ^ file offset `offset`
 *
 * The bytes from `at` on are moved to the next chunk's buffer. How much to read is estimated from the records of the
 * last chunk, so little is moved.
 *
 * Where a header is wrong, everything up to the next record whose two checksums match is a hole. The search needs an
 * empty buffer (so that scanning a gigabyte of zeros needs no gigabyte of memory): a chunk that has records is handed
 * out first. */
#include "record/source.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "record/codec.h"
#include "record/frame.h"
#include "record/index.h"

enum { MIN_READ_BYTES = 64 * 1024, MAX_READ_BYTES = 1024 * 1024 };

/* A search may meet headers that are made to lie: each would have the payload that it claims checked. What may be
 * checked in all is bounded: one payload of any size, and so many bytes for every byte that was passed. */
#define FIRST_SEARCH_BUDGET (2 * (int64_t)TFOS__FRAME_MAX_PAYLOAD_BYTES)
enum { SEARCH_BUDGET_PER_BYTE = 16 };

/* Damage up to this size is crossed while the records before it are still in the buffer. */
enum { SMALL_HOLE_BYTES = 64 * 1024 };

struct tfos__source {
    const char *const *paths;
    size_t count;
    size_t first_index;
    size_t next_file;
    tfos__source_options options;

    tfos__stream *stream; /* of the current file, NULL between files */
    bool stream_ended;
    bool stream_broken; /* it ended in damaged compressed data */
    int64_t stored_reported;
    int64_t offset; /* of the next header in the file */
    int64_t stop;   /* records from here on are not ours: the first one at or behind the end of the range */
    int64_t record; /* its number, -1 when unknown */

    tfos__buffer data;
    size_t at;
    int64_t mean_bytes; /* of a record, as last seen */

    bool in_hole;       /* the bytes at `offset` are no record */
    bool hole_paused;   /* the search needs an empty buffer: hand out the records first */
    int64_t hole_start; /* where it began, -1 while the search has not */
    tfos_status hole_status;
    char hole_why[TFOS_ERROR_MESSAGE_BYTES];
    int64_t search_budget; /* bytes of payload that searching may still check */

    bool failed; /* an error that waits until the records before it have been handed out */
    tfos_error failure;
};

tfos_status tfos__source_new(const char *const *paths, size_t count, size_t first_index,
                             const tfos__source_options *options, tfos__source **out, tfos_error *error)
{
    assert(options->chunk_rows > 0 && options->chunk_bytes > 0);
    tfos__source *source = calloc(1, sizeof *source);
    if (source == NULL) {
        return tfos__fail_memory(error, sizeof *source);
    }
    source->paths = paths;
    source->count = count;
    source->first_index = first_index;
    source->options = *options;
    source->mean_bytes = 512;
    source->search_budget = FIRST_SEARCH_BUDGET;
    *out = source;
    return TFOS_OK;
}

void tfos__source_free(tfos__source *source)
{
    if (source != NULL) {
        tfos__stream_close(source->stream);
        tfos__buffer_reset(&source->data);
        free(source);
    }
}

static size_t available(const tfos__source *source)
{
    return source->data.size - source->at;
}

/* ---- reading ---- */

/* Reads at least `needed` more bytes, if the file has them. A length that is a lie costs at most as much memory as
 * there is data. */
static tfos_status fill(tfos__source *source, size_t needed, int64_t rows_left, tfos_error *error)
{
    /* The record that fills the chunk ends behind its limit: without room for it, a second read would follow, and most
     * of what that brings would be moved to the next chunk. */
    int64_t beyond = source->mean_bytes + source->options.chunk_bytes / 32;
    int64_t wanted =
        tfos__min_i64(rows_left * source->mean_bytes, source->options.chunk_bytes - (int64_t)source->at + beyond);
    int64_t estimate = wanted - (int64_t)available(source);
    estimate = tfos__min_i64(tfos__max_i64(estimate, MIN_READ_BYTES), MAX_READ_BYTES);
    size_t step = needed > (size_t)estimate ? needed : (size_t)estimate;
    int64_t left = tfos__stream_left(source->stream);
    if (source->options.stops != NULL && source->options.stops(source->options.stops_context)) {
        return tfos__fail(error, TFOS_CANCELLED, "reading was cancelled");
    }
    if (left == 0) {
        source->stream_ended = true; /* what is appended from now on is not read */
        return TFOS_OK;
    }
    size_t bound = left > 0 ? (size_t)left : source->data.size + MAX_READ_BYTES;
    step = step < bound ? step : bound;
    TFOS_TRY(tfos__buffer_reserve(&source->data, source->data.size + step, error));
    size_t got = 0;
    tfos_error trouble;
    tfos_status status = tfos__stream_read(source->stream, source->data.data + source->data.size, step, &got, &trouble);
    bool damage = status == TFOS_CORRUPT || status == TFOS_TRUNCATED;
    if (damage && source->options.on_corrupt == TFOS_ON_CORRUPT_SKIP) {
        /* Compressed data that is damaged ends there: nothing behind can be inflated. */
        source->stream_broken = true;
        source->hole_status = status;
        memcpy(source->hole_why, trouble.message, sizeof source->hole_why);
    } else if (status != TFOS_OK) {
        if (error != NULL) {
            *error = trouble;
        }
        return status;
    }
    source->data.size += got;
    source->stream_ended = got == 0;
    return TFOS_OK;
}

/* Forgets the bytes before `at`. Only while no record of the chunk points to them. */
static void compact(tfos__source *source)
{
    if (source->at == 0) {
        return; /* as in an empty buffer, which has no memory yet */
    }
    memmove(source->data.data, source->data.data + source->at, available(source));
    source->data.size -= source->at;
    source->at = 0;
}

/* ---- lists of the chunk ---- */

static tfos_status push_span(tfos__chunk *chunk, const tfos__source *source, uint64_t length, tfos_error *error)
{
    TFOS_TRY(tfos__array_reserve(&chunk->spans, chunk->span_count, &chunk->span_capacity, sizeof *chunk->spans, error));
    chunk->spans[chunk->span_count++] = (tfos__span){
        .at = source->at + TFOS__FRAME_HEADER_BYTES, .bytes = (size_t)length, .file_offset = source->offset};
    return TFOS_OK;
}

static tfos_status push_segment(tfos__chunk *chunk, const tfos__source *source, tfos_error *error)
{
    TFOS_TRY(tfos__array_reserve(&chunk->segments, chunk->segment_count, &chunk->segment_capacity,
                                 sizeof *chunk->segments, error));
    chunk->segments[chunk->segment_count++] =
        (tfos__segment){.first = chunk->span_count,
                        .path = source->paths[source->next_file - 1],
                        .file_index = source->first_index + source->next_file - 1,
                        .first_record = source->record,
                        .compressed = tfos__stream_codec(source->stream) != TFOS_CODEC_NONE};
    return TFOS_OK;
}

/* ---- damage ---- */

/* Whether the bytes at `at` are a header, whatever it says. */
static bool at_header(const tfos__source *source)
{
    uint64_t length;
    return available(source) >= TFOS__FRAME_HEADER_BYTES && tfos__frame_header(source->data.data + source->at, &length);
}

/* If the record before a wrong header is damaged too, bytes were lost inside it and the search must begin there. False
 * if it is sound. */
static bool take_back_damaged_record(tfos__source *source, tfos__chunk *chunk)
{
    const tfos__segment *segment = &chunk->segments[chunk->segment_count - 1];
    if (chunk->span_count == 0 || segment->first == chunk->span_count) {
        return false;
    }
    const tfos__span *last = &chunk->spans[chunk->span_count - 1];
    bool adjacent = last->file_offset + (int64_t)last->bytes + TFOS__FRAME_OVERHEAD_BYTES == source->offset;
    if (!adjacent || tfos__frame_payload(source->data.data + last->at, last->bytes)) {
        return false;
    }
    source->at = last->at - TFOS__FRAME_HEADER_BYTES;
    source->offset = last->file_offset;
    source->record -= source->record > 0;
    chunk->span_count--;
    return true;
}

static void begin_hole(tfos__source *source, tfos_status status, const char *why)
{
    source->in_hole = true;
    source->hole_paused = false;
    source->hole_start = -1;
    source->hole_status = status;
    snprintf(source->hole_why, sizeof source->hole_why, "%s", why);
}

/* The bytes at `offset` are no record. With on_corrupt=skip a hole begins, otherwise the source has failed. */
static tfos_status damaged(tfos__source *source, tfos__chunk *chunk, tfos_status status, const char *why,
                           tfos_error *error)
{
    if (source->options.on_corrupt == TFOS_ON_CORRUPT_SKIP) {
        begin_hole(source, status, why);
        if (!at_header(source)) {
            take_back_damaged_record(source, chunk);
        }
        return TFOS_OK;
    }
    char number[40] = "";
    if (source->record >= 0) {
        snprintf(number, sizeof number, " (record %lld)", (long long)source->record);
    }
    bool plain = tfos__stream_codec(source->stream) == TFOS_CODEC_NONE;
    return tfos__fail(error, status, "%s: offset %lld%s%s: %s", tfos__stream_path(source->stream),
                      (long long)source->offset, plain ? "" : " of the uncompressed data", number, why);
}

/* What the bytes at `at` may be, for a search. */
typedef enum sighting { NO_RECORD, A_RECORD, MORE_BYTES } sighting;

/* A header whose checksum matches and, since eight random bytes in four billion do, a payload whose checksum matches
 * too. `missing` bytes more are needed to tell. */
static sighting look(tfos__source *source, size_t *missing)
{
    size_t here = available(source);
    if (here < TFOS__FRAME_HEADER_BYTES) {
        *missing = TFOS__FRAME_HEADER_BYTES - here;
        return source->stream_ended ? NO_RECORD : MORE_BYTES;
    }
    const uint8_t *at = source->data.data + source->at;
    uint64_t length = tfos__load_u64(at);
    if (length > TFOS__FRAME_MAX_PAYLOAD_BYTES || (int64_t)length > source->search_budget ||
        !tfos__frame_header(at, &length)) {
        return NO_RECORD;
    }
    size_t whole = (size_t)length + TFOS__FRAME_OVERHEAD_BYTES;
    if (whole > here) {
        int64_t left = source->stream_ended ? 0 : tfos__stream_left(source->stream);
        *missing = whole - here;
        return left < 0 || *missing <= (size_t)left ? MORE_BYTES : NO_RECORD;
    }
    source->search_budget -= (int64_t)length;
    return tfos__frame_payload(at + TFOS__FRAME_HEADER_BYTES, (size_t)length) ? A_RECORD : NO_RECORD;
}

/* Looks for a record at `at` or behind. Ends there, at the end of the file, or, if the buffer holds records that were
 * not handed out, when it would grow too much: *paused. */
static tfos_status search(tfos__source *source, bool holds_records, bool *paused, tfos_error *error)
{
    size_t start = source->at;
    *paused = false;
    for (;;) {
        size_t missing = 0;
        sighting seen = look(source, &missing);
        if (seen == A_RECORD || (seen == NO_RECORD && available(source) == 0)) {
            return TFOS_OK;
        }
        if (seen == NO_RECORD) {
            source->at++;
            source->offset++;
            source->search_budget += SEARCH_BUDGET_PER_BYTE;
            continue;
        }
        if (holds_records && (source->at - start > SMALL_HOLE_BYTES || missing > SMALL_HOLE_BYTES)) {
            *paused = true;
            return TFOS_OK;
        }
        if (!holds_records) {
            compact(source);
        }
        TFOS_TRY(fill(source, missing, 1, error));
    }
}

static tfos_status note_hole(const tfos__source *source, tfos__chunk *chunk, int64_t start, int64_t bytes,
                             tfos_error *error)
{
    tfos__hole hole = {.path = source->paths[source->next_file - 1],
                       .file_index = source->first_index + source->next_file - 1,
                       .offset = start,
                       .bytes = bytes,
                       .record = source->record,
                       .status = source->hole_status};
    tfos__hole_explain(&hole, source->hole_why);
    return tfos__chunk_add_hole(chunk, &hole, error);
}

/* Ends the hole at the next record and notes it in the chunk; or pauses, if that needs an empty buffer. */
static tfos_status cross_hole(tfos__source *source, tfos__chunk *chunk, tfos_error *error)
{
    if (source->hole_start < 0) {
        source->hole_start = source->offset;
        source->at++;
        source->offset++;
    }
    TFOS_TRY(search(source, chunk->span_count > 0, &source->hole_paused, error));
    if (source->hole_paused) {
        return TFOS_OK;
    }
    source->offset = tfos__min_i64(source->offset, source->stop); /* the rest is told by the next split */
    source->in_hole = false;
    source->stream_broken = false; /* this hole tells of it */
    TFOS_TRY(note_hole(source, chunk, source->hole_start, source->offset - source->hole_start, error));
    source->record += source->record >= 0;
    return push_segment(chunk, source, error); /* so that the records behind it have their numbers */
}

/* ---- hopping ---- */

typedef enum hop_result { HOP_GO_ON, HOP_RECORD, HOP_FILE_END, HOP_HOLE } hop_result;

static tfos_status no_header(tfos__source *source, tfos__chunk *chunk, hop_result *result, tfos_error *error)
{
    char why[200];
    *result = HOP_HOLE;
    if (source->offset == 0) {
        snprintf(why, sizeof why,
                 "the checksum of the header does not match: expected a TFRecord file, found something else or a "
                 "damaged first header");
    } else {
        snprintf(why, sizeof why, "the checksum of the header does not match: expected a record here");
    }
    return damaged(source, chunk, TFOS_CORRUPT, why, error);
}

static tfos_status cut_short(tfos__source *source, tfos__chunk *chunk, uint64_t expected, uint64_t found,
                             hop_result *result, tfos_error *error)
{
    char why[200];
    *result = HOP_HOLE;
    snprintf(why, sizeof why, "the record is cut short: expected %llu bytes, the file has %llu left",
             (unsigned long long)expected, (unsigned long long)found);
    return damaged(source, chunk, TFOS_TRUNCATED, why, error);
}

/* What was inflated behind the last whole record is lost together with what could not be inflated. */
static tfos_status end_broken_stream(tfos__source *source, tfos__chunk *chunk, tfos_error *error)
{
    int64_t lost = (int64_t)available(source);
    source->at = source->data.size;
    return note_hole(source, chunk, source->offset, lost, error);
}

/* Looks at the bytes at `at` once: a whole record, not enough bytes yet, the end, or damage. */
static tfos_status hop(tfos__source *source, tfos__chunk *chunk, uint64_t *length, hop_result *result,
                       tfos_error *error)
{
    size_t here = available(source);
    int64_t rows_left = source->options.chunk_rows - (int64_t)chunk->span_count;
    *result = HOP_GO_ON;
    if (here < TFOS__FRAME_HEADER_BYTES) {
        if (!source->stream_ended) {
            return fill(source, TFOS__FRAME_HEADER_BYTES - here, rows_left, error);
        }
        *result = HOP_FILE_END;
        if (source->stream_broken) {
            return end_broken_stream(source, chunk, error);
        }
        return here == 0 ? TFOS_OK : cut_short(source, chunk, TFOS__FRAME_HEADER_BYTES, here, result, error);
    }
    if (!tfos__frame_header(source->data.data + source->at, length)) {
        return no_header(source, chunk, result, error);
    }
    int64_t left = source->stream_ended ? 0 : tfos__stream_left(source->stream);
    uint64_t payload_here = here - TFOS__FRAME_HEADER_BYTES;
    if (source->stream_broken && *length + TFOS__FRAME_FOOTER_BYTES > payload_here) {
        *result = HOP_FILE_END;
        return end_broken_stream(source, chunk, error);
    }
    if (left >= 0 && (*length > INT64_MAX || *length + TFOS__FRAME_FOOTER_BYTES > payload_here + (uint64_t)left)) {
        uint64_t whole = *length > INT64_MAX ? *length : *length + TFOS__FRAME_OVERHEAD_BYTES;
        return cut_short(source, chunk, whole, here + (uint64_t)left, result, error);
    }
    if (*length > TFOS__FRAME_MAX_PAYLOAD_BYTES) {
        char why[200];
        *result = HOP_HOLE;
        snprintf(why, sizeof why, "the record has %llu bytes, the limit is %llu", (unsigned long long)*length,
                 (unsigned long long)TFOS__FRAME_MAX_PAYLOAD_BYTES);
        return damaged(source, chunk, TFOS_LIMIT, why, error);
    }
    size_t whole = (size_t)*length + TFOS__FRAME_OVERHEAD_BYTES;
    if (here < whole) {
        return fill(source, whole - here, rows_left, error);
    }
    *result = HOP_RECORD;
    return TFOS_OK;
}

/* ---- files ---- */

/* The first record at or behind `offset`, found by its checksums. The stream stays where that was seen. */
static tfos_status find_record(const tfos__source *source, tfos__stream *stream, int64_t offset, int64_t *out,
                               tfos_error *error)
{
    bool paused;
    tfos__source finder = {.options = source->options,
                           .stream = stream,
                           .mean_bytes = source->mean_bytes,
                           .search_budget = FIRST_SEARCH_BUDGET};
    finder.options.on_corrupt = TFOS_ON_CORRUPT_ERROR;
    finder.offset = tfos__min_i64(offset, tfos__stream_stored(stream));
    tfos_status status = tfos__stream_seek(stream, finder.offset, error);
    status = status == TFOS_OK ? search(&finder, false, &paused, error) : status;
    tfos__buffer_reset(&finder.data);
    if (status == TFOS_OK) {
        *out = finder.offset;
    }
    return status;
}

static tfos_status align(const tfos__source *source, tfos__stream *stream, tfos_index *index, int64_t offset,
                         int64_t *out, tfos_error *error)
{
    if (offset <= 0) {
        *out = 0;
        return TFOS_OK;
    }
    tfos_status status = index != NULL ? tfos__index_align(index, offset, out, error) : TFOS_NOT_FOUND;
    /* A file that was damaged or changed since: the record is found as without an index. */
    bool stale = status == TFOS_CORRUPT || status == TFOS_TRUNCATED || status == TFOS_MISMATCH;
    return stale || index == NULL ? find_record(source, stream, offset, out, error) : status;
}

static tfos_status align_range(tfos__source *source, tfos_index *index, int64_t *start, tfos_error *error)
{
    TFOS_TRY(align(source, source->stream, index, source->options.range_start, start, error));
    if (source->options.range_end >= 0) {
        TFOS_TRY(align(source, source->stream, index, source->options.range_end, &source->stop, error));
        tfos__file_hint_end(tfos__stream_file(source->stream), source->stop);
    }
    return tfos__stream_seek(source->stream, *start, error);
}

/* Both ends of a range are found in the same way, so that neighbours agree on the record where one stops and the other
 * begins: damage is told by the split that it follows, even where the border lies in it. */
static tfos_status find_range(tfos__source *source, int64_t *start, tfos_error *error)
{
    int64_t stored = tfos__stream_stored(source->stream);
    if (source->options.range_start == 0 && source->options.range_end >= stored && stored >= 0) {
        return TFOS_OK;
    }
    if (tfos__stream_codec(source->stream) != TFOS_CODEC_NONE) {
        source->stop = source->options.range_start == 0 && source->options.range_end != 0 ? INT64_MAX : 0;
        return TFOS_OK;
    }
    TFOS_TRY(tfos__stream_seek(source->stream, 0, error)); /* not in every file */
    tfos_index *index = tfos__index_of_file(source->options.served, tfos__stream_file(source->stream));
    tfos_status status = align_range(source, index, start, error);
    tfos_index_free(index);
    return status;
}

static tfos_status open_next(tfos__source *source, tfos__chunk *chunk, tfos_error *error)
{
    const char *path = source->paths[source->next_file];
    int64_t start = 0;
    TFOS_TRY(tfos__stream_open(source->options.served, path, source->options.codec, TFOS__CONTENT_RECORDS,
                               &source->stream, error));
    tfos__file_set_stops(tfos__stream_file(source->stream), source->options.stops, source->options.stops_context);
    if (source->options.parts != NULL) {
        const tfos__part *part = &source->options.parts[source->first_index + source->next_file];
        source->options.range_start = part->start;
        source->options.range_end = part->end;
    }
    source->next_file++;
    source->stream_ended = false;
    source->stream_broken = false;
    source->stored_reported = 0;
    source->in_hole = false;
    source->stop = INT64_MAX;
    if (source->options.range_start > 0 || source->options.range_end >= 0) {
        TFOS_TRY(find_range(source, &start, error));
        source->stored_reported = tfos__stream_consumed(source->stream); /* others read what is before it */
    }
    source->offset = start;
    source->record = start > 0 ? -1 : 0;
    return push_segment(chunk, source, error);
}

static void note_progress(tfos__source *source, tfos__chunk *chunk)
{
    int64_t consumed = tfos__stream_consumed(source->stream);
    chunk->stored_bytes += consumed - source->stored_reported;
    source->stored_reported = consumed;
}

static void close_file(tfos__source *source, tfos__chunk *chunk)
{
    note_progress(source, chunk);
    tfos__stream_close(source->stream);
    source->stream = NULL;
    source->at = source->data.size; /* bytes beyond a range's end are of no use */
}

static bool is_full(const tfos__source *source, const tfos__chunk *chunk)
{
    return (int64_t)chunk->span_count >= source->options.chunk_rows ||
           (chunk->span_count > 0 && (int64_t)source->at >= source->options.chunk_bytes);
}

static void pass(tfos__source *source, int64_t whole)
{
    source->at += (size_t)whole;
    source->offset += whole;
    source->record += source->record >= 0;
}

static tfos_status take_record(tfos__source *source, tfos__chunk *chunk, uint64_t length, tfos_error *error)
{
    int64_t whole = (int64_t)length + TFOS__FRAME_OVERHEAD_BYTES;
    if (source->offset + whole > source->stop &&
        !tfos__frame_payload(source->data.data + source->at + TFOS__FRAME_HEADER_BYTES, (size_t)length)) {
        /* It lost bytes, and the next split begins inside of what its length covers. */
        return damaged(source, chunk, TFOS_CORRUPT, "the checksum of the payload does not match", error);
    }
    TFOS_TRY(push_span(chunk, source, length, error));
    pass(source, whole);
    return TFOS_OK;
}

/* One step towards a full chunk: opens a file, crosses a hole, takes a record or ends a file. */
static tfos_status step(tfos__source *source, tfos__chunk *chunk, tfos_error *error)
{
    if (source->stream == NULL) {
        return open_next(source, chunk, error);
    }
    if (source->in_hole) {
        return cross_hole(source, chunk, error);
    }
    if (source->offset >= source->stop) {
        close_file(source, chunk);
        return TFOS_OK;
    }
    uint64_t length = 0;
    hop_result result;
    TFOS_TRY(hop(source, chunk, &length, &result, error));
    if (result == HOP_FILE_END) {
        close_file(source, chunk);
    } else if (result == HOP_RECORD) {
        return take_record(source, chunk, length, error);
    }
    return TFOS_OK;
}

/* The common case in one loop: records that are in the buffer as a whole. Everything else is left to step. */
static tfos_status take_whole_records(tfos__source *source, tfos__chunk *chunk, tfos_error *error)
{
    while (!is_full(source, chunk)) {
        size_t here = available(source);
        uint64_t length;
        if (here < TFOS__FRAME_OVERHEAD_BYTES || !tfos__frame_header(source->data.data + source->at, &length) ||
            length > here - TFOS__FRAME_OVERHEAD_BYTES || length > TFOS__FRAME_MAX_PAYLOAD_BYTES) {
            return TFOS_OK;
        }
        int64_t whole = (int64_t)length + TFOS__FRAME_OVERHEAD_BYTES;
        if (source->offset + whole > source->stop) {
            return TFOS_OK;
        }
        TFOS_TRY(push_span(chunk, source, length, error));
        pass(source, whole);
    }
    return TFOS_OK;
}

/* Before a full chunk is handed out while damage is skipped: what follows its last record tells whether bytes were lost
 * inside that record, and once it is handed out it cannot be taken back. */
static tfos_status look_ahead(tfos__source *source, tfos__chunk *chunk, tfos_error *error)
{
    if (source->options.on_corrupt != TFOS_ON_CORRUPT_SKIP || source->stream == NULL || source->in_hole) {
        return TFOS_OK;
    }
    while (available(source) < TFOS__FRAME_HEADER_BYTES && !source->stream_ended) {
        TFOS_TRY(fill(source, TFOS__FRAME_HEADER_BYTES - available(source), 1, error));
    }
    if (available(source) > 0 && !at_header(source) && take_back_damaged_record(source, chunk)) {
        begin_hole(source, TFOS_CORRUPT, "the checksum of the payload does not match, and no record follows");
    }
    return TFOS_OK;
}

static tfos_status collect(tfos__source *source, tfos__chunk *chunk, tfos_error *error)
{
    if (source->stream != NULL) {
        TFOS_TRY(push_segment(chunk, source, error));
    }
    for (;;) {
        if (source->stream != NULL && !source->in_hole) {
            TFOS_TRY(take_whole_records(source, chunk, error));
        }
        if (is_full(source, chunk)) {
            TFOS_TRY(look_ahead(source, chunk, error));
        }
        bool end = source->stream == NULL && source->next_file == source->count;
        bool paused = source->in_hole && source->hole_paused && chunk->span_count > 0;
        if (end || paused || is_full(source, chunk)) {
            return TFOS_OK;
        }
        TFOS_TRY(step(source, chunk, error));
    }
}

/* Gives the buffer to the chunk and keeps what is behind the last record. */
static tfos_status hand_over(tfos__source *source, tfos__chunk *chunk, tfos_error *error)
{
    tfos__buffer empty = chunk->data;
    empty.size = 0;
    TFOS_TRY(tfos__buffer_append(&empty, source->data.data + source->at, available(source), error));
    chunk->data = source->data;
    chunk->data.size = source->at;
    source->data = empty;
    source->at = 0;
    if (chunk->span_count > 0) {
        source->mean_bytes = (int64_t)chunk->data.size / (int64_t)chunk->span_count + 1;
    }
    return TFOS_OK;
}

tfos_status tfos__source_next(tfos__source *source, tfos__chunk *chunk, tfos_error *error)
{
    chunk->span_count = 0;
    chunk->segment_count = 0;
    chunk->hole_count = 0;
    chunk->stored_bytes = 0;
    if (!source->failed) {
        source->failure.status = collect(source, chunk, &source->failure);
        source->failed = source->failure.status != TFOS_OK;
    }
    if (chunk->span_count > 0 || chunk->hole_count > 0) {
        if (source->stream != NULL) {
            note_progress(source, chunk);
        }
        return hand_over(source, chunk, error);
    }
    if (source->failed) {
        if (error != NULL) {
            *error = source->failure;
        }
        return source->failure.status;
    }
    return TFOS_END;
}

tfos_status tfos_records_align(const char *path, int64_t offset, int64_t *out, tfos_error *error)
{
    const tfos__source source = {.options = {.chunk_rows = 1, .chunk_bytes = 1}, .mean_bytes = 512};
    tfos__stream *stream = NULL;
    TFOS_TRY(tfos__stream_open(NULL, path, TFOS_CODEC_AUTO, TFOS__CONTENT_RECORDS, &stream, error));
    tfos_index *index = offset > 0 ? tfos__index_of_file(NULL, tfos__stream_file(stream)) : NULL;
    tfos_status status = align(&source, stream, index, offset, out, error);
    tfos_index_free(index);
    tfos__stream_close(stream);
    return status;
}
