/* Shuffle: an external sort by random keys.
 *
 * Records are collected in one arena, from its front; their keys stand at its back and grow towards them:
 *
 *      | bytes record | bytes record | …  →        free        ←  … | key at | key at |
 *
 * When the two meet, the arena is sorted by key and written to the spill file as one run; in the end the runs are
 * merged. A run in the file is a row of
 *
 *      0     8       16
 *      | key | bytes | record |
 *
 * The arena is mapped, not allocated: a small input touches only the pages that it needs. */
#include "record/shuffle.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/random.h"
#include "base/status.h"

enum {
    RUN_HEADER_BYTES = 16,
    MAX_BUFFER_BYTES = 1 << 20,
    /* A merge of more runs than memory / MIN_BUFFER_BYTES takes more memory than was asked for: that is data of memory²
     * / 4 KiB, four terabytes for 128 MiB. */
    MIN_BUFFER_BYTES = 4096,
};

typedef struct entry {
    uint64_t key;
    uint64_t at; /* of the record in the arena */
} entry;

typedef struct run {
    int64_t start;
    int64_t end;
} run;

struct tfos__shuffle {
    uint64_t state;
    size_t memory;
    char *folder;
    uint8_t *arena;
    size_t arena_bytes;
    size_t used;        /* from the front */
    size_t entry_count; /* at the back */
    int file;           /* -1: nothing was spilled */
    int64_t file_bytes;
    tfos__buffer buffer; /* of what goes to the file */
    run *runs;
    size_t run_count;
    size_t run_capacity;
};

static void unmap(tfos__shuffle *shuffle)
{
    if (shuffle->arena != NULL) {
        munmap(shuffle->arena, shuffle->arena_bytes);
        shuffle->arena = NULL;
    }
}

tfos_status tfos__shuffle_new(uint64_t seed, size_t memory_bytes, const char *folder, tfos__shuffle **out,
                              tfos_error *error)
{
    assert(memory_bytes >= TFOS__SHUFFLE_MIN_MEMORY_BYTES);
    tfos__shuffle *shuffle = calloc(1, sizeof *shuffle);
    if (shuffle == NULL) {
        return tfos__fail_memory(error, sizeof *shuffle);
    }
    /* Seeds that differ by one must not give orders that are shifted by one. */
    shuffle->state = tfos__random_mix(seed ^ UINT64_C(0xD1B54A32D192ED03));
    shuffle->memory = memory_bytes;
    shuffle->file = -1;
    shuffle->folder = strdup(folder);
    shuffle->arena_bytes = memory_bytes / 4 * 3 / sizeof(entry) * sizeof(entry);
    void *arena =
        mmap(NULL, shuffle->arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    shuffle->arena = arena != MAP_FAILED ? arena : NULL;
    if (shuffle->folder == NULL || shuffle->arena == NULL) {
        tfos_status status = tfos__fail_memory(error, shuffle->arena_bytes);
        tfos__shuffle_free(shuffle);
        return status;
    }
    *out = shuffle;
    return TFOS_OK;
}

void tfos__shuffle_free(tfos__shuffle *shuffle)
{
    if (shuffle != NULL) {
        unmap(shuffle);
        if (shuffle->file >= 0) {
            close(shuffle->file);
        }
        tfos__buffer_reset(&shuffle->buffer);
        free(shuffle->runs);
        free(shuffle->folder);
        free(shuffle);
    }
}

/* ---- the arena ---- */

static entry *entries(const tfos__shuffle *shuffle)
{
    return (entry *)(void *)(shuffle->arena + shuffle->arena_bytes) - shuffle->entry_count;
}

/* Keys do not repeat, so this is a total order. */
static int by_key(const void *a, const void *b)
{
    const entry *left = a;
    const entry *right = b;
    return left->key < right->key ? -1 : left->key > right->key;
}

static void sort_arena(tfos__shuffle *shuffle)
{
    qsort(entries(shuffle), shuffle->entry_count, sizeof(entry), by_key);
}

/* ---- the spill file ---- */

/* Not every file system has O_TMPFILE; elsewhere the name is there for a moment. */
static tfos_status open_file(tfos__shuffle *shuffle, tfos_error *error)
{
    if (shuffle->file >= 0) {
        return TFOS_OK;
    }
    shuffle->file = open(shuffle->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (shuffle->file >= 0) {
        return TFOS_OK;
    }
    char *name = NULL;
    if (asprintf(&name, "%s/.tfos-shuffle-XXXXXX", shuffle->folder) < 0) {
        return tfos__fail_memory(error, strlen(shuffle->folder) + 32);
    }
    shuffle->file = mkostemp(name, O_CLOEXEC);
    int problem = errno;
    if (shuffle->file >= 0) {
        unlink(name);
    }
    free(name);
    return shuffle->file >= 0 ? TFOS_OK
                              : tfos__fail_errno(error, problem, "cannot make the temporary file of the shuffle in %s",
                                                 shuffle->folder);
}

static tfos_status write_file(tfos__shuffle *shuffle, const uint8_t *bytes, size_t count, tfos_error *error)
{
    while (count > 0) {
        ssize_t wrote = pwrite(shuffle->file, bytes, count, shuffle->file_bytes);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote < 0) {
            return tfos__fail_errno(
                error, errno,
                "cannot write the temporary file of the shuffle in %s (free space there, or allow more "
                "memory)",
                shuffle->folder);
        }
        bytes += wrote;
        count -= (size_t)wrote;
        shuffle->file_bytes += wrote;
    }
    return TFOS_OK;
}

static tfos_status flush(tfos__shuffle *shuffle, tfos_error *error)
{
    tfos_status status = write_file(shuffle, shuffle->buffer.data, shuffle->buffer.size, error);
    shuffle->buffer.size = 0;
    return status;
}

static size_t buffer_bytes(const tfos__shuffle *shuffle)
{
    size_t quarter = shuffle->memory / 4;
    return quarter < MAX_BUFFER_BYTES ? quarter : MAX_BUFFER_BYTES;
}

static tfos_status spill_record(tfos__shuffle *shuffle, uint64_t key, const uint8_t *record, size_t bytes,
                                tfos_error *error)
{
    if (shuffle->buffer.size + RUN_HEADER_BYTES + bytes > buffer_bytes(shuffle)) {
        TFOS_TRY(flush(shuffle, error));
    }
    uint8_t header[RUN_HEADER_BYTES];
    tfos__store_u64(header, key);
    tfos__store_u64(header + 8, bytes);
    TFOS_TRY(tfos__buffer_append(&shuffle->buffer, header, sizeof header, error));
    if (RUN_HEADER_BYTES + bytes > buffer_bytes(shuffle)) {
        TFOS_TRY(flush(shuffle, error));
        return write_file(shuffle, record, bytes, error);
    }
    return tfos__buffer_append(&shuffle->buffer, record, bytes, error);
}

static tfos_status begin_run(tfos__shuffle *shuffle, tfos_error *error)
{
    TFOS_TRY(open_file(shuffle, error));
    TFOS_TRY(tfos__buffer_reserve(&shuffle->buffer, buffer_bytes(shuffle), error));
    TFOS_TRY(
        tfos__array_reserve(&shuffle->runs, shuffle->run_count, &shuffle->run_capacity, sizeof *shuffle->runs, error));
    shuffle->runs[shuffle->run_count].start = shuffle->file_bytes;
    return TFOS_OK;
}

static tfos_status end_run(tfos__shuffle *shuffle, tfos_error *error)
{
    TFOS_TRY(flush(shuffle, error));
    shuffle->runs[shuffle->run_count++].end = shuffle->file_bytes;
    return TFOS_OK;
}

static tfos_status spill_arena(tfos__shuffle *shuffle, tfos_error *error)
{
    if (shuffle->entry_count == 0) {
        return TFOS_OK;
    }
    sort_arena(shuffle);
    TFOS_TRY(begin_run(shuffle, error));
    const entry *sorted = entries(shuffle);
    for (size_t i = 0; i < shuffle->entry_count; i++) {
        const uint8_t *at = shuffle->arena + sorted[i].at;
        TFOS_TRY(spill_record(shuffle, sorted[i].key, at + 8, (size_t)tfos__load_u64(at), error));
    }
    shuffle->entry_count = 0;
    shuffle->used = 0;
    return end_run(shuffle, error);
}

tfos_status tfos__shuffle_add(tfos__shuffle *shuffle, const void *record, size_t bytes, tfos_error *error)
{
    assert(shuffle->arena != NULL);
    size_t need = 8 + bytes + sizeof(entry);
    size_t room = shuffle->arena_bytes - shuffle->used - shuffle->entry_count * sizeof(entry);
    uint64_t key = tfos__random_next(&shuffle->state);
    if (need > room) {
        TFOS_TRY(spill_arena(shuffle, error));
        if (need > shuffle->arena_bytes) {
            TFOS_TRY(begin_run(shuffle, error));
            TFOS_TRY(spill_record(shuffle, key, record, bytes, error));
            return end_run(shuffle, error);
        }
    }
    uint8_t *at = shuffle->arena + shuffle->used;
    tfos__store_u64(at, bytes);
    if (bytes > 0) {
        memcpy(at + 8, record, bytes);
    }
    shuffle->entry_count++;
    *entries(shuffle) = (entry){.key = key, .at = shuffle->used};
    shuffle->used += 8 + bytes;
    return TFOS_OK;
}

/* ---- merging ---- */

/* A place in a run: the header of its next record has been read. */
typedef struct run_cursor {
    int64_t at; /* in the file, of what is read next */
    int64_t end;
    uint8_t *buffer;
    size_t from; /* in the buffer */
    size_t to;
    uint64_t key;
    size_t bytes;
} run_cursor;

typedef struct merger {
    const tfos__shuffle *shuffle;
    run_cursor *cursors;
    size_t *heap; /* of cursors, the smallest key first */
    size_t heap_count;
    uint8_t *buffers;
    size_t buffer_bytes;
    tfos__buffer record; /* that does not lie whole in a buffer */
} merger;

static tfos_status read_file(const tfos__shuffle *shuffle, int64_t at, uint8_t *to, size_t bytes, tfos_error *error)
{
    while (bytes > 0) {
        ssize_t got = pread(shuffle->file, to, bytes, at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return tfos__fail_errno(error, got < 0 ? errno : EIO, "cannot read the temporary file of the shuffle in %s",
                                    shuffle->folder);
        }
        to += got;
        at += got;
        bytes -= (size_t)got;
    }
    return TFOS_OK;
}

static tfos_status refill(const merger *merge, run_cursor *cursor, tfos_error *error)
{
    size_t left = cursor->to - cursor->from;
    memmove(cursor->buffer, cursor->buffer + cursor->from, left);
    size_t want = (size_t)tfos__min_i64((int64_t)(merge->buffer_bytes - left), cursor->end - cursor->at);
    TFOS_TRY(read_file(merge->shuffle, cursor->at, cursor->buffer + left, want, error));
    cursor->at += (int64_t)want;
    cursor->from = 0;
    cursor->to = left + want;
    return TFOS_OK;
}

/* Reads the next header; *done when the run has no more. */
static tfos_status load_header(const merger *merge, run_cursor *cursor, bool *done, tfos_error *error)
{
    *done = cursor->from == cursor->to && cursor->at == cursor->end;
    if (*done) {
        return TFOS_OK;
    }
    if (cursor->to - cursor->from < RUN_HEADER_BYTES) {
        TFOS_TRY(refill(merge, cursor, error));
    }
    cursor->key = tfos__load_u64(cursor->buffer + cursor->from);
    cursor->bytes = (size_t)tfos__load_u64(cursor->buffer + cursor->from + 8);
    cursor->from += RUN_HEADER_BYTES;
    return TFOS_OK;
}

/* The record whose header has been read. */
static tfos_status load_record(merger *merge, run_cursor *cursor, const uint8_t **out, tfos_error *error)
{
    if (cursor->to - cursor->from < cursor->bytes && cursor->bytes <= merge->buffer_bytes) {
        TFOS_TRY(refill(merge, cursor, error));
    }
    size_t there = cursor->to - cursor->from;
    if (there >= cursor->bytes) {
        *out = cursor->buffer + cursor->from;
        cursor->from += cursor->bytes;
        return TFOS_OK;
    }
    merge->record.size = 0;
    TFOS_TRY(tfos__buffer_reserve(&merge->record, cursor->bytes, error));
    memcpy(merge->record.data, cursor->buffer + cursor->from, there);
    TFOS_TRY(read_file(merge->shuffle, cursor->at, merge->record.data + there, cursor->bytes - there, error));
    cursor->at += (int64_t)(cursor->bytes - there);
    cursor->from = cursor->to = 0;
    *out = merge->record.data;
    return TFOS_OK;
}

static void sift_down(merger *merge, size_t at)
{
    for (;;) {
        size_t smallest = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < merge->heap_count; child++) {
            if (merge->cursors[merge->heap[child]].key < merge->cursors[merge->heap[smallest]].key) {
                smallest = child;
            }
        }
        if (smallest == at) {
            return;
        }
        size_t moved = merge->heap[at];
        merge->heap[at] = merge->heap[smallest];
        merge->heap[smallest] = moved;
        at = smallest;
    }
}

static tfos_status merge_init(merger *merge, tfos_error *error)
{
    const tfos__shuffle *shuffle = merge->shuffle;
    size_t count = shuffle->run_count;
    size_t share = shuffle->memory / count;
    merge->buffer_bytes = share < MIN_BUFFER_BYTES   ? MIN_BUFFER_BYTES
                          : share > MAX_BUFFER_BYTES ? MAX_BUFFER_BYTES
                                                     : share;
    merge->cursors = calloc(count, sizeof *merge->cursors);
    merge->heap = calloc(count, sizeof *merge->heap);
    merge->buffers = malloc(count * merge->buffer_bytes);
    if (merge->cursors == NULL || merge->heap == NULL || merge->buffers == NULL) {
        return tfos__fail_memory(error, count * merge->buffer_bytes);
    }
    for (size_t i = 0; i < count; i++) {
        run_cursor *cursor = &merge->cursors[i];
        cursor->at = shuffle->runs[i].start;
        cursor->end = shuffle->runs[i].end;
        cursor->buffer = merge->buffers + i * merge->buffer_bytes;
        bool done;
        TFOS_TRY(load_header(merge, cursor, &done, error));
        merge->heap[merge->heap_count++] = i;
    }
    for (size_t i = count / 2; i-- > 0;) {
        sift_down(merge, i);
    }
    return TFOS_OK;
}

static tfos_status merge_run(merger *merge, tfos__shuffle_function function, void *context, tfos_error *error)
{
    TFOS_TRY(merge_init(merge, error));
    while (merge->heap_count > 0) {
        run_cursor *first = &merge->cursors[merge->heap[0]];
        const uint8_t *record;
        size_t bytes = first->bytes;
        TFOS_TRY(load_record(merge, first, &record, error));
        TFOS_TRY(function(context, record, bytes, error));
        bool done;
        TFOS_TRY(load_header(merge, first, &done, error));
        if (done) {
            merge->heap[0] = merge->heap[--merge->heap_count];
        }
        sift_down(merge, 0);
    }
    return TFOS_OK;
}

static tfos_status drain_runs(tfos__shuffle *shuffle, tfos__shuffle_function function, void *context, tfos_error *error)
{
    TFOS_TRY(spill_arena(shuffle, error));
    unmap(shuffle);
    tfos__buffer_reset(&shuffle->buffer);
    merger merge = {.shuffle = shuffle};
    tfos_status status = merge_run(&merge, function, context, error);
    tfos__buffer_reset(&merge.record);
    free(merge.cursors);
    free(merge.heap);
    free(merge.buffers);
    return status;
}

tfos_status tfos__shuffle_drain(tfos__shuffle *shuffle, tfos__shuffle_function function, void *context,
                                tfos_error *error)
{
    if (shuffle->run_count > 0) {
        return drain_runs(shuffle, function, context, error);
    }
    sort_arena(shuffle);
    const entry *sorted = entries(shuffle);
    for (size_t i = 0; i < shuffle->entry_count; i++) {
        const uint8_t *at = shuffle->arena + sorted[i].at;
        TFOS_TRY(function(context, at + 8, (size_t)tfos__load_u64(at), error));
    }
    return TFOS_OK;
}
