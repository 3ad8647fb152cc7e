/* Shards: records out to files that appear together. */
#include "record/shards.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/status.h"
#include "fs/fs.h"
#include "fs/local.h"
#include "record/codec.h"
#include "record/frame.h"

/* Written when a file has this much: large enough for few system calls, small enough for thousands of files. */
enum { BUFFER_BYTES = 128 << 10 };

typedef struct shard_file {
    char *path;
    tfos__output *output;
    tfos__deflater *deflater; /* NULL: not compressed */
    tfos__buffer plain;
    tfos__buffer packed;
    bool committed;
    bool replaced; /* another file, which is gone */
} shard_file;

struct tfos__shards {
    bool text;
    bool synced;
    size_t count;
    size_t next;
    atomic_llong records;
    shard_file shards[];
};

static tfos_status flush(shard_file *shard, bool last, tfos_error *error)
{
    const tfos__buffer *from = &shard->plain;
    if (shard->deflater != NULL) {
        shard->packed.size = 0;
        tfos_status status =
            tfos__deflater_run(shard->deflater, shard->plain.data, shard->plain.size, last, &shard->packed, error);
        if (status != TFOS_OK) {
            tfos__error_prefix(error, "%s", shard->path);
            return status;
        }
        from = &shard->packed;
    }
    if (from->size > 0) {
        TFOS_TRY(tfos__output_write(shard->output, from->data, from->size, error));
    }
    shard->plain.size = 0;
    return TFOS_OK;
}

static tfos_status open_shard(shard_file *shard, const char *path, const tfos__shards_options *options,
                              tfos_error *error)
{
    const char *local;
    TFOS_TRY(tfos__path_local(path, &local, error));
    shard->path = strdup(local);
    if (shard->path == NULL) {
        return tfos__fail_memory(error, strlen(path) + 1);
    }
    tfos_codec codec = options->codec == TFOS_CODEC_AUTO ? tfos__codec_of_name(path) : options->codec;
    if (codec != TFOS_CODEC_NONE) {
        TFOS_TRY(tfos__deflater_new(codec, options->level, &shard->deflater, error));
    }
    TFOS_TRY(tfos__output_open(NULL, path, options->overwrite, &shard->output, error));
    return tfos__buffer_append(&shard->plain, options->header, options->header_bytes, error);
}

tfos_status tfos__shards_open(const char *const *paths, size_t count, const tfos__shards_options *options,
                              tfos__shards **out, tfos_error *error)
{
    tfos__shards *shards = calloc(1, sizeof *shards + count * sizeof shards->shards[0]);
    if (shards == NULL) {
        return tfos__fail_memory(error, sizeof *shards + count * sizeof shards->shards[0]);
    }
    shards->text = options->text;
    atomic_init(&shards->records, 0);
    for (size_t i = 0; i < count; i++) {
        shards->count++;
        tfos_status status = open_shard(&shards->shards[i], paths[i], options, error);
        if (status != TFOS_OK) {
            tfos__shards_abort(shards);
            return status;
        }
    }
    *out = shards;
    return TFOS_OK;
}

static tfos_status put_framed(tfos__buffer *out, const void *record, size_t bytes, tfos_error *error)
{
    TFOS_TRY(tfos__buffer_reserve(out, out->size + bytes + TFOS__FRAME_OVERHEAD_BYTES, error));
    uint8_t *to = out->data + out->size;
    tfos__frame_put_header(to, bytes);
    if (bytes > 0) {
        memcpy(to + TFOS__FRAME_HEADER_BYTES, record, bytes);
    }
    tfos__frame_put_footer(to + TFOS__FRAME_HEADER_BYTES + bytes, to + TFOS__FRAME_HEADER_BYTES, bytes);
    out->size += bytes + TFOS__FRAME_OVERHEAD_BYTES;
    return TFOS_OK;
}

tfos_status tfos__shards_write(tfos__shards *shards, const void *record, size_t bytes, tfos_error *error)
{
    shard_file *shard = &shards->shards[shards->next];
    shards->next = shards->next + 1 < shards->count ? shards->next + 1 : 0;
    if (shards->text) {
        TFOS_TRY(tfos__buffer_append(&shard->plain, record, bytes, error));
    } else {
        TFOS_TRY(put_framed(&shard->plain, record, bytes, error));
    }
    atomic_fetch_add_explicit(&shards->records, 1, memory_order_relaxed);
    return shard->plain.size < BUFFER_BYTES ? TFOS_OK : flush(shard, false, error);
}

int64_t tfos__shards_records(const tfos__shards *shards)
{
    return atomic_load_explicit(&shards->records, memory_order_relaxed);
}

/* With `failed`, names that are taken already are given up again, unless that would lose what they replaced as well. */
static void free_all(tfos__shards *shards, bool failed)
{
    for (size_t i = 0; i < shards->count; i++) {
        shard_file *shard = &shards->shards[i];
        tfos__output_abort(shard->output);
        if (shard->committed && failed && !shard->replaced) {
            unlink(shard->path);
        }
        tfos__deflater_free(shard->deflater);
        tfos__buffer_reset(&shard->plain);
        tfos__buffer_reset(&shard->packed);
        free(shard->path);
    }
    free(shards);
}

/* Everything that can fill a disk or take long: what is left to fail afterwards is rare and quick. */
tfos_status tfos__shards_sync(tfos__shards *shards, tfos_error *error)
{
    for (size_t i = 0; i < shards->count && !shards->synced; i++) {
        TFOS_TRY(flush(&shards->shards[i], true, error));
        TFOS_TRY(tfos__output_sync(shards->shards[i].output, error));
    }
    shards->synced = true;
    return TFOS_OK;
}

static size_t folder_bytes(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : (size_t)(slash - path);
}

/* Once for each folder, as shards that lie in one stand beside each other. */
static void sync_folders(const tfos__shards *shards)
{
    const char *last = NULL;
    for (size_t i = 0; i < shards->count; i++) {
        const char *path = shards->shards[i].path;
        size_t bytes = folder_bytes(path);
        if (last == NULL || folder_bytes(last) != bytes || strncmp(last, path, bytes) != 0) {
            tfos__output_sync_folder(path);
        }
        last = path;
    }
}

static tfos_status commit_all(tfos__shards *shards, tfos_error *error)
{
    TFOS_TRY(tfos__shards_sync(shards, error));
    for (size_t i = 0; i < shards->count; i++) {
        shard_file *shard = &shards->shards[i];
        tfos__output *output = shard->output;
        shard->output = NULL;
        shard->replaced = access(shard->path, F_OK) == 0;
        TFOS_TRY(tfos__output_rename(output, error));
        shard->committed = true;
    }
    sync_folders(shards);
    return TFOS_OK;
}

tfos_status tfos__shards_commit(tfos__shards *shards, tfos_error *error)
{
    tfos_status status = commit_all(shards, error);
    free_all(shards, status != TFOS_OK);
    return status;
}

void tfos__shards_abort(tfos__shards *shards)
{
    if (shards != NULL) {
        free_all(shards, false);
    }
}
