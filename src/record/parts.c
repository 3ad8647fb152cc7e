/* Parts: how the records of some files are divided among shards.
 *
 *     files     | a      | b                   | c  |
 *     shards    | 0         | 1         | 2         |       of three: the same number of bytes each
 *
 * Every shard works this out by itself, from the list of files alone, so all must see the same list. Where a shard ends
 * inside of a file, its neighbour begins at the same record: both find it in the same way (see source.c). */
#include "record/parts.h"

#include <stdlib.h>

#include "base/random.h"
#include "base/status.h"
#include "record/codec.h"

/* Nothing of a file. */
static const tfos__part nothing = {0, 0, -1};
static const tfos__part everything = {0, -1, -1};

static bool is_nothing(const tfos__part *part)
{
    return part->end == 0;
}

/* Whether a file can be cut: not if it is compressed, and not if nobody knows its size. */
static tfos_status can_be_cut(const tfos_paths *paths, size_t file, const tfos_read_options *options, bool *out,
                              tfos_error *error)
{
    tfos__stream *stream = NULL;
    *out = options->codec == TFOS_CODEC_NONE && paths->bytes[file] > 0;
    if (options->codec != TFOS_CODEC_AUTO || paths->bytes[file] <= 0) {
        return TFOS_OK;
    }
    TFOS_TRY(
        tfos__stream_open(options->files, paths->path[file], TFOS_CODEC_AUTO, TFOS__CONTENT_RECORDS, &stream, error));
    *out = tfos__stream_codec(stream) == TFOS_CODEC_NONE;
    tfos__stream_close(stream);
    return TFOS_OK;
}

/* The bytes at which a shard begins; they end where the next one does. */
static int64_t border(int64_t bytes, int32_t shard, int32_t shard_count)
{
    return bytes / shard_count * shard + bytes % shard_count * shard / shard_count;
}

/* The part of a file that begins `before` bytes into all that are cut. */
static tfos__part cut(int64_t before, int64_t bytes, int64_t all_bytes, const tfos_read_options *options)
{
    int64_t start = border(all_bytes, options->shard, options->shard_count) - before;
    int64_t end = border(all_bytes, options->shard + 1, options->shard_count) - before;
    start = start > 0 ? start : 0;
    if (start >= bytes || end <= 0 || start >= end) {
        return nothing;
    }
    return (tfos__part){.start = start, .end = end >= bytes ? -1 : end, .turn = -1};
}

/* The part of a file that is not cut, the `number`th of `count`. */
static tfos__part deal(size_t number, size_t count, const tfos_read_options *options)
{
    size_t shards = (size_t)options->shard_count;
    size_t shard = (size_t)options->shard;
    if (count >= shards) {
        return number % shards == shard ? everything : nothing;
    }
    tfos__part part = everything;
    part.turn = (int32_t)((shard + shards - number) % shards); /* not always the first shard has one more */
    return part;
}

static tfos_status divide(const tfos_paths *paths, const tfos_read_options *options, tfos__part *parts,
                          tfos_error *error)
{
    int64_t all_bytes = 0;
    size_t whole_count = 0;
    for (size_t i = 0; i < paths->count; i++) {
        bool cuts;
        TFOS_TRY(can_be_cut(paths, i, options, &cuts, error));
        parts[i].turn = cuts ? -1 : 0;
        all_bytes += cuts ? paths->bytes[i] : 0;
        whole_count += !cuts;
    }
    int64_t before = 0;
    size_t number = 0;
    for (size_t i = 0; i < paths->count; i++) {
        if (parts[i].turn == 0) {
            parts[i] = deal(number++, whole_count, options);
        } else {
            parts[i] = cut(before, paths->bytes[i], all_bytes, options);
            before += paths->bytes[i];
        }
    }
    return TFOS_OK;
}

/* Takes the files of which nothing is read off the list. */
static void drop_files(tfos_paths *paths, tfos__part *parts)
{
    size_t kept = 0;
    paths->total_bytes = 0;
    for (size_t i = 0; i < paths->count; i++) {
        if (is_nothing(&parts[i])) {
            free(paths->path[i]);
            continue;
        }
        paths->path[kept] = paths->path[i];
        paths->bytes[kept] = paths->bytes[i];
        parts[kept] = parts[i];
        paths->total_bytes += (parts[i].end < 0 ? paths->bytes[i] : parts[i].end) - parts[i].start;
        kept++;
    }
    paths->count = kept;
}

static void shuffle_files(tfos_paths *paths, tfos__part *parts, uint64_t seed)
{
    uint64_t random = tfos__random_mix(~seed);
    for (size_t i = paths->count; i > 1; i--) {
        size_t other = (size_t)tfos__random_below(&random, i);
        char *path = paths->path[i - 1];
        int64_t bytes = paths->bytes[i - 1];
        tfos__part part = parts[i - 1];
        paths->path[i - 1] = paths->path[other];
        paths->bytes[i - 1] = paths->bytes[other];
        parts[i - 1] = parts[other];
        paths->path[other] = path;
        paths->bytes[other] = bytes;
        parts[other] = part;
    }
}

tfos_status tfos__parts_choose(tfos_paths *paths, const tfos_read_options *options, tfos__part **out, tfos_error *error)
{
    *out = NULL;
    if (options->shard_count <= 1 && options->shuffle_rows == 0) {
        return TFOS_OK;
    }
    tfos__part *parts = calloc(paths->count + 1, sizeof *parts);
    if (parts == NULL) {
        return tfos__fail_memory(error, paths->count * sizeof *parts);
    }
    for (size_t i = 0; i < paths->count; i++) {
        parts[i] = (tfos__part){options->range_start, options->range_end, -1};
    }
    if (options->shard_count > 1) {
        tfos_status status = divide(paths, options, parts, error);
        if (status != TFOS_OK) {
            free(parts);
            return status;
        }
        drop_files(paths, parts);
    }
    if (options->shuffle_rows > 0) {
        shuffle_files(paths, parts, options->shuffle_seed);
    }
    *out = parts;
    return TFOS_OK;
}
