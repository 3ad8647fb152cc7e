/* Chunk: its lists, and the words for a place in a file. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/status.h"
#include "record/frame.h"
#include "record/source.h"

void tfos__chunk_reset(tfos__chunk *chunk)
{
    tfos__buffer_reset(&chunk->data);
    free(chunk->spans);
    free(chunk->segments);
    free(chunk->holes);
    *chunk = (tfos__chunk){0};
}

const tfos__segment *tfos__chunk_segment(const tfos__chunk *chunk, size_t span)
{
    size_t low = 0; /* the last segment that begins at or before the span */
    size_t high = chunk->segment_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (chunk->segments[middle].first <= span) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &chunk->segments[low];
}

static int64_t record_number(const tfos__segment *segment, size_t span)
{
    return segment->first_record < 0 ? -1 : segment->first_record + (int64_t)(span - segment->first);
}

void tfos__chunk_locate(const tfos__chunk *chunk, size_t span, tfos_error *error)
{
    const tfos__segment *segment = tfos__chunk_segment(chunk, span);
    int64_t record = record_number(segment, span);
    char number[40] = "";
    if (record >= 0) {
        snprintf(number, sizeof number, " (record %lld)", (long long)record);
    }
    tfos__error_prefix(error, "%s: offset %lld%s%s", segment->path, (long long)chunk->spans[span].file_offset,
                       segment->compressed ? " of the uncompressed data" : "", number);
}

void tfos__hole_explain(tfos__hole *hole, const char *why)
{
    size_t path = hole->path != NULL ? strlen(hole->path) : 0;
    if (path > 0 && strncmp(why, hole->path, path) == 0 && strncmp(why + path, ": ", 2) == 0) {
        why += path + 2;
    }
    size_t bytes = strlen(why);
    if (bytes >= sizeof hole->message) {
        bytes = tfos__utf8_valid_prefix(why, sizeof hole->message - 1);
    }
    memcpy(hole->message, why, bytes);
    hole->message[bytes] = '\0';
}

tfos_status tfos__chunk_add_hole(tfos__chunk *chunk, const tfos__hole *hole, tfos_error *error)
{
    TFOS_TRY(tfos__array_reserve(&chunk->holes, chunk->hole_count, &chunk->hole_capacity, sizeof *chunk->holes, error));
    chunk->holes[chunk->hole_count++] = *hole;
    tfos__log(TFOS_LOG_WARN, "%s: offset %lld: skipped %lld bytes: %s", hole->path, (long long)hole->offset,
              (long long)hole->bytes, hole->message);
    return TFOS_OK;
}

tfos_status tfos__chunk_skip(tfos__chunk *chunk, size_t span, tfos_status status, const char *why, tfos_error *error)
{
    const tfos__segment *segment = tfos__chunk_segment(chunk, span);
    tfos__hole hole = {.path = segment->path,
                       .file_index = segment->file_index,
                       .offset = chunk->spans[span].file_offset,
                       .bytes = (int64_t)chunk->spans[span].bytes + TFOS__FRAME_OVERHEAD_BYTES,
                       .record = record_number(segment, span),
                       .status = status};
    tfos__hole_explain(&hole, why);
    return tfos__chunk_add_hole(chunk, &hole, error);
}

static int by_place(const void *a, const void *b)
{
    const tfos__hole *left = a;
    const tfos__hole *right = b;
    if (left->file_index != right->file_index) {
        return left->file_index < right->file_index ? -1 : 1;
    }
    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

void tfos__chunk_sort_holes(tfos__chunk *chunk)
{
    if (chunk->hole_count > 1) {
        qsort(chunk->holes, chunk->hole_count, sizeof *chunk->holes, by_place);
    }
}

static tfos_status one_record(tfos__chunk *chunk, size_t span, tfos__record_function function, void *context,
                              tfos_error *error)
{
    const uint8_t *record = chunk->data.data + chunk->spans[span].at;
    size_t bytes = chunk->spans[span].bytes;
    if (__builtin_expect(!tfos__frame_payload(record, bytes), 0)) {
        return tfos__fail(error, TFOS_CORRUPT, "the checksum of the payload (%zu bytes) does not match", bytes);
    }
    return function(context, span, record, bytes, error);
}

tfos_status tfos__chunk_each(tfos__chunk *chunk, tfos_on_corrupt on_corrupt, tfos__record_function function,
                             void *context, tfos_error *error)
{
    chunk->good = 0;
    for (size_t i = 0; i < chunk->span_count; i++) {
        tfos_error trouble;
        tfos_status status = one_record(chunk, i, function, context, &trouble);
        if (__builtin_expect(status == TFOS_OK, 1)) {
            chunk->good++;
        } else if (status == TFOS_CORRUPT && on_corrupt == TFOS_ON_CORRUPT_SKIP) {
            TFOS_TRY(tfos__chunk_skip(chunk, i, status, trouble.message, error));
        } else {
            tfos__chunk_locate(chunk, i, &trouble);
            if (error != NULL) {
                *error = trouble;
            }
            return status;
        }
    }
    return TFOS_OK;
}
