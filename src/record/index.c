/* Index: where the records of a file are, without reading it.
 *
 *      0         8           16        24       28           32
 *      | magic   | file size | records | stride | file print | offset of record 0, stride, 2 · stride, … | crc |
 *
 * All little-endian, 8 bytes an offset; the checksum (masked crc32c) covers everything before it. One record in
 * `stride` is listed: from there at most stride - 1 headers are followed. The file print is a checksum of the first and
 * the last bytes of the data file, so that a file which was replaced by another of the same size is noticed. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/status.h"
#include "fs/fs.h"
#include "record/codec.h"
#include "record/frame.h"
#include "record/index.h"
#include "record/source.h"

enum { HEAD_BYTES = 32, TAIL_BYTES = 4, STRIDE = 32, WINDOW_BYTES = 64 * 1024 };
enum { PRINT_BYTES = TFOS__INDEX_PRINT_BYTES };

#define MAGIC "TFOSIDX1"

struct tfos_index {
    tfos__file *file; /* of the data */
    bool owns_file;
    int64_t file_bytes;
    int64_t records;
    int64_t stride;
    size_t listed;
    tfos__buffer bytes; /* the index file as it is */
};

/* ---- following headers ---- */

/* A window on a file that moves forward. */
typedef struct header_walk {
    tfos__file *file;
    int64_t size;
    int64_t offset; /* of the header that comes next */
    int64_t record;
    int64_t window_start;
    size_t window_bytes;
    uint8_t window[WINDOW_BYTES];
} header_walk;

static tfos_status walk_load(header_walk *walk, tfos_error *error)
{
    int64_t end = walk->window_start + (int64_t)walk->window_bytes;
    if (walk->offset >= walk->window_start && walk->offset + TFOS__FRAME_HEADER_BYTES <= end) {
        return TFOS_OK;
    }
    size_t got;
    walk->window_start = walk->offset;
    walk->window_bytes = 0;
    do {
        TFOS_TRY(tfos__file_read(walk->file, walk->offset + (int64_t)walk->window_bytes,
                                 walk->window + walk->window_bytes, WINDOW_BYTES - walk->window_bytes, &got, error));
        walk->window_bytes += got;
    } while (got > 0 && walk->window_bytes < TFOS__FRAME_HEADER_BYTES);
    return TFOS_OK;
}

/* Moves over one record; END at the end of the file. */
static tfos_status walk_next(header_walk *walk, tfos_error *error)
{
    if (walk->offset == walk->size) {
        return TFOS_END;
    }
    TFOS_TRY(walk_load(walk, error));
    const char *path = tfos__file_path(walk->file);
    int64_t left = walk->size - walk->offset;
    if (left < TFOS__FRAME_OVERHEAD_BYTES || walk->window_bytes < TFOS__FRAME_HEADER_BYTES) {
        return tfos__fail(error, TFOS_TRUNCATED,
                          "%s: offset %lld (record %lld): the record is cut short: %lld bytes are left", path,
                          (long long)walk->offset, (long long)walk->record, (long long)left);
    }
    uint64_t length;
    if (!tfos__frame_header(walk->window + (walk->offset - walk->window_start), &length)) {
        return tfos__fail(error, TFOS_CORRUPT,
                          "%s: offset %lld (record %lld): the checksum of the header does not match", path,
                          (long long)walk->offset, (long long)walk->record);
    }
    if (length > (uint64_t)(left - TFOS__FRAME_OVERHEAD_BYTES)) {
        return tfos__fail(
            error, TFOS_TRUNCATED,
            "%s: offset %lld (record %lld): the record is cut short: expected %llu bytes, the file has %lld left", path,
            (long long)walk->offset, (long long)walk->record, (unsigned long long)length + TFOS__FRAME_OVERHEAD_BYTES,
            (long long)left);
    }
    walk->offset += (int64_t)length + TFOS__FRAME_OVERHEAD_BYTES;
    walk->record++;
    return TFOS_OK;
}

static tfos_status walk_new(tfos__file *file, header_walk **out, tfos_error *error)
{
    header_walk *walk = malloc(sizeof *walk);
    if (walk == NULL) {
        return tfos__fail_memory(error, sizeof *walk);
    }
    walk->file = file;
    walk->size = tfos__file_size(file);
    walk->offset = 0;
    walk->record = 0;
    walk->window_start = 0;
    walk->window_bytes = 0;
    *out = walk;
    return TFOS_OK;
}

/* ---- the index file ---- */

static tfos_status file_print(tfos__file *file, uint32_t *out, tfos_error *error)
{
    uint8_t bytes[PRINT_BYTES];
    size_t got;
    int64_t size = tfos__file_size(file);
    TFOS_TRY(tfos__file_read_whole(file, 0, bytes, sizeof bytes, &got, error));
    uint32_t crc = tfos__crc32c(0, bytes, got);
    TFOS_TRY(tfos__file_read_whole(file, tfos__max_i64(0, size - PRINT_BYTES), bytes, sizeof bytes, &got, error));
    *out = tfos__crc32c(crc, bytes, got);
    return TFOS_OK;
}

static tfos_status index_name(const char *path, char **out, tfos_error *error)
{
    size_t bytes = strlen(path) + sizeof TFOS_INDEX_SUFFIX;
    char *name = malloc(bytes);
    if (name == NULL) {
        return tfos__fail_memory(error, bytes);
    }
    snprintf(name, bytes, "%s%s", path, TFOS_INDEX_SUFFIX);
    *out = name;
    return TFOS_OK;
}

/* ---- making ---- */

tfos_status tfos__index_maker_add(tfos__index_maker *maker, int64_t offset, tfos_error *error)
{
    if (maker->bytes.size == 0) {
        TFOS_TRY(tfos__buffer_reserve(&maker->bytes, HEAD_BYTES, error));
        maker->bytes.size = HEAD_BYTES;
    }
    if (maker->records % STRIDE == 0) {
        uint8_t bytes[8];
        tfos__store_u64(bytes, (uint64_t)offset);
        TFOS_TRY(tfos__buffer_append(&maker->bytes, bytes, sizeof bytes, error));
    }
    maker->records++;
    return TFOS_OK;
}

void tfos__index_maker_see(tfos__index_maker *maker, const void *bytes, size_t count)
{
    const uint8_t *from = bytes;
    if (count == 0) {
        return;
    }
    if (maker->file_bytes < PRINT_BYTES) {
        size_t room = PRINT_BYTES - (size_t)maker->file_bytes;
        memcpy(maker->first + maker->file_bytes, from, count < room ? count : room);
    }
    maker->file_bytes += (int64_t)count;
    size_t fresh = count < PRINT_BYTES ? count : PRINT_BYTES;
    size_t kept = maker->last_bytes + fresh > PRINT_BYTES ? PRINT_BYTES - fresh : maker->last_bytes;
    memmove(maker->last, maker->last + maker->last_bytes - kept, kept);
    memcpy(maker->last + kept, from + count - fresh, fresh);
    maker->last_bytes = kept + fresh;
}

static tfos_status finish_index(tfos__index_maker *maker, int64_t file_bytes, uint32_t print, tfos_error *error)
{
    tfos__buffer *out = &maker->bytes;
    if (out->size == 0) { /* no record at all */
        TFOS_TRY(tfos__buffer_reserve(out, HEAD_BYTES, error));
        out->size = HEAD_BYTES;
    }
    memcpy(out->data, MAGIC, 8);
    tfos__store_u64(out->data + 8, (uint64_t)file_bytes);
    tfos__store_u64(out->data + 16, (uint64_t)maker->records);
    tfos__store_u32(out->data + 24, STRIDE);
    tfos__store_u32(out->data + 28, print);
    uint8_t crc[TAIL_BYTES];
    tfos__store_u32(crc, tfos__crc32c_mask(tfos__crc32c(0, out->data, out->size)));
    return tfos__buffer_append(out, crc, sizeof crc, error);
}

static tfos_status write_index(const tfos_file_system *served, const char *path, const tfos__buffer *bytes,
                               tfos_error *error)
{
    char *name = NULL;
    tfos__output *output = NULL;
    TFOS_TRY(index_name(path, &name, error));
    tfos_status status = tfos__output_open(served, name, true, &output, error);
    free(name);
    TFOS_TRY(status);
    status = tfos__output_write(output, bytes->data, bytes->size, error);
    if (status != TFOS_OK) {
        tfos__output_abort(output);
        return status;
    }
    return tfos__output_commit(output, error);
}

tfos_status tfos__index_maker_write(tfos__index_maker *maker, const tfos_file_system *served, const char *path,
                                    tfos_error *error)
{
    size_t first = maker->file_bytes < PRINT_BYTES ? (size_t)maker->file_bytes : PRINT_BYTES;
    uint32_t print = tfos__crc32c(tfos__crc32c(0, maker->first, first), maker->last, maker->last_bytes);
    TFOS_TRY(finish_index(maker, maker->file_bytes, print, error));
    return write_index(served, path, &maker->bytes, error);
}

void tfos__index_maker_reset(tfos__index_maker *maker)
{
    tfos__buffer_reset(&maker->bytes);
}

static tfos_status make_index(tfos__file *file, tfos__index_maker *maker, tfos_error *error)
{
    header_walk *walk = NULL;
    uint32_t print;
    TFOS_TRY(file_print(file, &print, error));
    TFOS_TRY(walk_new(file, &walk, error));
    tfos_status status = TFOS_OK;
    while (status == TFOS_OK) {
        int64_t offset = walk->offset;
        status = walk_next(walk, error);
        status = status == TFOS_OK ? tfos__index_maker_add(maker, offset, error) : status;
    }
    free(walk);
    return status == TFOS_END ? finish_index(maker, tfos__file_size(file), print, error) : status;
}

/* Opens a TFRecord file that can be indexed: one that is not compressed. */
static tfos_status open_plain(const char *path, tfos__file **out, tfos_error *error)
{
    tfos__stream *stream;
    TFOS_TRY(tfos__stream_open(NULL, path, TFOS_CODEC_AUTO, TFOS__CONTENT_RECORDS, &stream, error));
    tfos_codec codec = tfos__stream_codec(stream);
    bool seekable = tfos__stream_left(stream) >= 0;
    tfos__stream_close(stream);
    if (codec != TFOS_CODEC_NONE || !seekable) {
        return tfos__fail(error, TFOS_UNSUPPORTED, "%s: only an uncompressed file can be indexed, found %s", path,
                          codec != TFOS_CODEC_NONE ? tfos_codec_name(codec) : "a pipe");
    }
    return tfos__file_open(NULL, path, out, error);
}

tfos_status tfos_index_build(const char *path, int64_t *records, tfos_error *error)
{
    tfos__file *file = NULL;
    tfos__index_maker *maker = calloc(1, sizeof *maker);
    if (maker == NULL) {
        return tfos__fail_memory(error, sizeof *maker);
    }
    tfos_status status = open_plain(path, &file, error);
    if (status == TFOS_OK) {
        status = make_index(file, maker, error);
        tfos__file_close(file);
    }
    if (status == TFOS_OK) {
        status = write_index(NULL, path, &maker->bytes, error);
    }
    if (status == TFOS_OK && records != NULL) {
        *records = maker->records;
    }
    tfos__index_maker_reset(maker);
    free(maker);
    return status;
}

/* ---- reading ---- */

tfos_status tfos__index_parse(const uint8_t *bytes, size_t count, const char *name, tfos__index_head *out,
                              tfos_error *error)
{
    if (count < HEAD_BYTES + TAIL_BYTES || memcmp(bytes, MAGIC, 8) != 0) {
        return tfos__fail(error, TFOS_CORRUPT,
                          "%s: expected an index of a TFRecord file, found something else: build it again", name);
    }
    uint32_t crc = tfos__load_u32(bytes + count - TAIL_BYTES);
    if (tfos__crc32c_mask(tfos__crc32c(0, bytes, count - TAIL_BYTES)) != crc) {
        return tfos__fail(error, TFOS_CORRUPT, "%s: the checksum of the index does not match: build it again", name);
    }
    tfos__index_head head = {.file_bytes = (int64_t)tfos__load_u64(bytes + 8),
                             .records = (int64_t)tfos__load_u64(bytes + 16),
                             .stride = tfos__load_u32(bytes + 24),
                             .file_print = tfos__load_u32(bytes + 28),
                             .listed = (count - HEAD_BYTES - TAIL_BYTES) / 8,
                             .offsets = bytes + HEAD_BYTES};
    bool sound = head.file_bytes >= 0 && head.records >= 0 && head.stride > 0 &&
                 (count - HEAD_BYTES - TAIL_BYTES) % 8 == 0 &&
                 (uint64_t)head.listed == ((uint64_t)head.records + (uint64_t)head.stride - 1) / (uint64_t)head.stride;
    int64_t before = -1;
    for (size_t i = 0; i < head.listed && sound; i++) {
        int64_t offset = (int64_t)tfos__load_u64(head.offsets + 8 * i);
        sound = offset > before && offset < head.file_bytes;
        before = offset;
    }
    if (!sound) {
        return tfos__fail(error, TFOS_CORRUPT, "%s: the numbers in the index contradict each other: build it again",
                          name);
    }
    *out = head;
    return TFOS_OK;
}

static tfos_status check_fresh(tfos__file *file, const tfos__index_head *head, const char *path, tfos_error *error)
{
    uint32_t print;
    if (head->file_bytes != tfos__file_size(file)) {
        return tfos__fail(
            error, TFOS_MISMATCH,
            "%s: the file has changed since it was indexed: %lld bytes then, %lld now: build the index again", path,
            (long long)head->file_bytes, (long long)tfos__file_size(file));
    }
    TFOS_TRY(file_print(file, &print, error));
    if (print != head->file_print) {
        return tfos__fail(error, TFOS_MISMATCH, "%s: the file has changed since it was indexed: build the index again",
                          path);
    }
    return TFOS_OK;
}

/* The most that an index of such a file may have: every record takes the bytes of its frame at least. */
static size_t most_bytes(int64_t file_bytes)
{
    return HEAD_BYTES + TAIL_BYTES + 8 * (size_t)(tfos__max_i64(file_bytes, 0) / TFOS__FRAME_OVERHEAD_BYTES + 1);
}

static tfos_status load(tfos_index *index, const tfos_file_system *served, tfos_error *error)
{
    char *name = NULL;
    tfos__index_head head;
    const char *path = tfos__file_path(index->file);
    TFOS_TRY(index_name(path, &name, error));
    tfos_status status = tfos__file_slurp(served, name, most_bytes(tfos__file_size(index->file)), &index->bytes, error);
    if (status == TFOS_OK) {
        status = tfos__index_parse(index->bytes.data, index->bytes.size, name, &head, error);
    }
    free(name);
    TFOS_TRY(status);
    TFOS_TRY(check_fresh(index->file, &head, path, error));
    index->file_bytes = head.file_bytes;
    index->records = head.records;
    index->stride = head.stride;
    index->listed = head.listed;
    return TFOS_OK;
}

/* The file becomes the index's own only if that is opened. */
static tfos_status open_over(const tfos_file_system *served, tfos__file *file, tfos_index **out, tfos_error *error)
{
    tfos_index *index = calloc(1, sizeof *index);
    if (index == NULL) {
        return tfos__fail_memory(error, sizeof *index);
    }
    index->file = file;
    tfos_status status = load(index, served, error);
    if (status != TFOS_OK) {
        tfos_index_free(index);
        return status;
    }
    *out = index;
    return TFOS_OK;
}

tfos_status tfos_index_open(const char *path, tfos_index **out, tfos_error *error)
{
    tfos__file *file;
    TFOS_TRY(tfos__file_open(NULL, path, &file, error));
    tfos_status status = open_over(NULL, file, out, error);
    if (status == TFOS_OK) {
        (*out)->owns_file = true;
    } else {
        tfos__file_close(file);
    }
    return status;
}

void tfos_index_free(tfos_index *index)
{
    if (index != NULL) {
        if (index->owns_file) {
            tfos__file_close(index->file);
        }
        tfos__buffer_reset(&index->bytes);
        free(index);
    }
}

int64_t tfos_index_records(const tfos_index *index)
{
    return index->records;
}

static int64_t listed_offset(const tfos_index *index, size_t block)
{
    return (int64_t)tfos__load_u64(index->bytes.data + HEAD_BYTES + 8 * block);
}

static tfos_status fail_changed(const tfos_index *index, tfos_error *error)
{
    return tfos__fail(error, TFOS_MISMATCH, "%s: the file has changed since it was indexed: build the index again",
                      tfos__file_path(index->file));
}

/* That the file is as it was is known of its ends only, so where a walk ended there must be a record, or the end. */
static tfos_status check_arrival(const tfos_index *index, header_walk *walk, int64_t until_record, tfos_error *error)
{
    if (walk->offset == walk->size) {
        bool all = until_record == INT64_MAX || walk->record == until_record;
        return all ? TFOS_OK : fail_changed(index, error);
    }
    TFOS_TRY(walk_load(walk, error));
    uint64_t length;
    bool header = walk->window_start + (int64_t)walk->window_bytes >= walk->offset + TFOS__FRAME_HEADER_BYTES &&
                  tfos__frame_header(walk->window + (walk->offset - walk->window_start), &length);
    return header ? TFOS_OK : fail_changed(index, error);
}

/* Walks from a listed record until the one with this number, or the first at or behind this offset. */
static tfos_status walk_from(tfos_index *index, size_t block, int64_t until_record, int64_t until_offset, int64_t *out,
                             tfos_error *error)
{
    header_walk *walk = NULL;
    TFOS_TRY(walk_new(index->file, &walk, error));
    walk->offset = listed_offset(index, block);
    walk->record = (int64_t)block * index->stride;
    tfos_status status = TFOS_OK;
    while (status == TFOS_OK && walk->record < until_record && walk->offset < until_offset) {
        status = walk_next(walk, error);
    }
    if (status == TFOS_OK || status == TFOS_END) {
        status = check_arrival(index, walk, until_record, error);
    }
    int64_t offset = walk->offset;
    free(walk);
    TFOS_TRY(status);
    *out = offset;
    return TFOS_OK;
}

tfos_status tfos_index_offset(tfos_index *index, int64_t record, int64_t *out, tfos_error *error)
{
    if (record < 0 || record > index->records) {
        return tfos__fail(error, TFOS_RANGE, "%s: there is no record %lld: the file has %lld",
                          tfos__file_path(index->file), (long long)record, (long long)index->records);
    }
    if (record == index->records) {
        *out = index->file_bytes;
        return TFOS_OK;
    }
    return walk_from(index, (size_t)(record / index->stride), record, INT64_MAX, out, error);
}

/* The last listed record that starts at or before `offset`. */
static size_t block_before(const tfos_index *index, int64_t offset)
{
    size_t low = 0;
    size_t high = index->listed;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (listed_offset(index, middle) <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Without it the work takes longer and gives the same, so that is worth a line in the log only if somebody meant there
 * to be one. */
tfos_index *tfos__index_of_file(const tfos_file_system *served, tfos__file *file)
{
    tfos_index *index = NULL;
    tfos_error trouble;
    tfos_status status = open_over(served, file, &index, &trouble);
    if (status != TFOS_OK && status != TFOS_NOT_FOUND) {
        tfos__log(TFOS_LOG_WARN, "the index is not used: %s", trouble.message);
    }
    return index;
}

tfos_status tfos__index_align(tfos_index *index, int64_t offset, int64_t *out, tfos_error *error)
{
    if (offset >= index->file_bytes || index->listed == 0) {
        *out = index->file_bytes;
        return TFOS_OK;
    }
    return walk_from(index, block_before(index, offset), INT64_MAX, offset, out, error);
}

/* ---- counting ---- */

static tfos_status count_headers(tfos__file *file, int64_t *out, tfos_error *error)
{
    header_walk *walk = NULL;
    tfos_status status = walk_new(file, &walk, error);
    while (status == TFOS_OK) {
        status = walk_next(walk, error);
    }
    if (status == TFOS_END) {
        *out = walk->record;
        status = TFOS_OK;
    }
    free(walk);
    return status;
}

/* By the index, or from header to header. */
static tfos_status count_plain(tfos__file *file, int64_t *out, tfos_error *error)
{
    tfos_index *index = tfos__index_of_file(NULL, file);
    if (index == NULL) {
        return count_headers(file, out, error);
    }
    *out = index->records;
    tfos_index_free(index);
    return TFOS_OK;
}

/* By reading everything: compressed files, and pipes. */
static tfos_status count_chunks(const char *path, tfos_codec codec, int64_t *out, tfos_error *error)
{
    tfos__source_options options = {.codec = codec, .chunk_rows = 65536, .chunk_bytes = 256 * 1024, .range_end = -1};
    tfos__source *source = NULL;
    tfos__chunk chunk = {0};
    int64_t count = 0;
    TFOS_TRY(tfos__source_new(&path, 1, 0, &options, &source, error));
    tfos_status status;
    while ((status = tfos__source_next(source, &chunk, error)) == TFOS_OK) {
        count += (int64_t)chunk.span_count;
    }
    tfos__chunk_reset(&chunk);
    tfos__source_free(source);
    if (status != TFOS_END) {
        return status;
    }
    *out = count;
    return TFOS_OK;
}

tfos_status tfos_records_count(const char *path, tfos_codec codec, int64_t *out, tfos_error *error)
{
    if (!tfos__path_is_regular(path)) {
        return count_chunks(path, codec, out, error);
    }
    tfos__stream *stream = NULL;
    TFOS_TRY(tfos__stream_open(NULL, path, codec, TFOS__CONTENT_RECORDS, &stream, error));
    bool plain = tfos__stream_codec(stream) == TFOS_CODEC_NONE;
    tfos_status status = plain ? count_plain(tfos__stream_file(stream), out, error) : TFOS_OK;
    tfos__stream_close(stream);
    return plain ? status : count_chunks(path, codec, out, error);
}
