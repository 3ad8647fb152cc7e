/* Ahead: blocks in a ring, one thread that fills them, one reader that empties them. */
#include "fs/ahead.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/config.h"
#include "base/status.h"
#include "base/thread.h"

enum { FIRST_BYTES = 64 << 10, BLOCKS = 4, POLL_MS = 100 };

typedef struct block {
    int64_t offset;
    size_t bytes;
    uint8_t *data;
    size_t capacity;
} block;

struct tfos__ahead {
    const tfos_file_system *system;
    void *file;
    bool (*stops)(void *context);
    void *stops_context;
    size_t block_bytes; /* 0: nothing is read ahead */

    block first; /* what was read by the reader itself */

    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t room;   /* for the thread */
    pthread_cond_t filled; /* for the reader */
    block ring[BLOCKS];
    size_t head;   /* the block that the reader is in */
    size_t count;  /* blocks that are filled */
    int64_t next;  /* what the thread reads next */
    int64_t limit; /* where it pauses */
    int64_t over;  /* by how much the limit is raised when the reader has come to it */
    int jumps;     /* of the reader: what was begun before the last one is thrown away */
    bool quit;
    bool ended; /* behind the last block the file ends, or it cannot be read: */
    tfos_status status;
    tfos_error error;
};

tfos_status tfos__ahead_new(const tfos_file_system *system, void *file, tfos__ahead **out, tfos_error *error)
{
    int64_t window;
    TFOS_TRY(tfos__setting_choose(TFOS__SETTING_FS_AHEAD_BYTES, -1, -1, &window, error));
    tfos__ahead *ahead = calloc(1, sizeof *ahead);
    if (ahead == NULL) {
        return tfos__fail_memory(error, sizeof *ahead);
    }
    ahead->system = system;
    ahead->file = file;
    ahead->block_bytes = (size_t)window / BLOCKS;
    ahead->limit = INT64_MAX;
    ahead->over = FIRST_BYTES;
    pthread_mutex_init(&ahead->lock, NULL);
    pthread_cond_init(&ahead->room, NULL);
    tfos__condition_init(&ahead->filled);
    *out = ahead;
    return TFOS_OK;
}

/* ---- the thread ---- */

static bool has_work(const tfos__ahead *ahead)
{
    return ahead->count < BLOCKS && !ahead->ended && ahead->next < ahead->limit;
}

/* With the lock held on entry and exit: reads one block, without it. */
static void fill_block(tfos__ahead *ahead)
{
    block *into = &ahead->ring[(ahead->head + ahead->count) % BLOCKS];
    int jumps = ahead->jumps;
    int64_t offset = ahead->next;
    size_t bytes = (size_t)tfos__min_i64((int64_t)into->capacity, ahead->limit - offset);
    pthread_mutex_unlock(&ahead->lock);

    size_t got = 0;
    tfos_error error;
    tfos_status status =
        ahead->system->read(ahead->system->context, ahead->file, offset, into->data, bytes, &got, &error);

    pthread_mutex_lock(&ahead->lock);
    if (jumps != ahead->jumps) {
        return;
    }
    ahead->status = status;
    ahead->ended = status != TFOS_OK || got == 0;
    if (status != TFOS_OK) {
        ahead->error = error;
    } else if (got > 0) {
        into->offset = offset;
        into->bytes = got;
        ahead->next += (int64_t)got;
        ahead->count++;
    }
    pthread_cond_signal(&ahead->filled);
}

static void *thread_main(void *argument)
{
    tfos__ahead *ahead = argument;
    pthread_mutex_lock(&ahead->lock);
    while (!ahead->quit) {
        if (has_work(ahead)) {
            fill_block(ahead);
        } else {
            pthread_cond_wait(&ahead->room, &ahead->lock);
        }
    }
    pthread_mutex_unlock(&ahead->lock);
    return NULL;
}

static void free_ring(tfos__ahead *ahead)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        free(ahead->ring[i].data);
        ahead->ring[i].data = NULL;
    }
}

static bool make_ring(tfos__ahead *ahead)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        ahead->ring[i].data = malloc(ahead->block_bytes);
        ahead->ring[i].capacity = ahead->block_bytes;
        if (ahead->ring[i].data == NULL) {
            return false;
        }
    }
    return true;
}

/* Where there is no memory or no thread for it, the file is read without. */
static void start_thread(tfos__ahead *ahead, int64_t offset)
{
    ahead->next = offset;
    ahead->running = make_ring(ahead) && tfos__thread_start(&ahead->thread, thread_main, ahead) == 0;
    if (!ahead->running) {
        free_ring(ahead);
        ahead->block_bytes = 0;
    }
}

/* ---- the reader ---- */

/* Copies what a block has from `offset` on; 0: it has nothing. */
static size_t copy_from(const block *from, int64_t offset, void *to, size_t bytes)
{
    if (offset < from->offset || offset >= from->offset + (int64_t)from->bytes) {
        return 0;
    }
    size_t skip = (size_t)(offset - from->offset);
    size_t here = from->bytes - skip;
    size_t count = here < bytes ? here : bytes;
    memcpy(to, from->data + skip, count);
    return count;
}

/* With the lock held: gives back blocks that end at or before `offset`. */
static void give_back(tfos__ahead *ahead, int64_t offset)
{
    while (ahead->count > 0 && ahead->ring[ahead->head].offset + (int64_t)ahead->ring[ahead->head].bytes <= offset) {
        ahead->head = (ahead->head + 1) % BLOCKS;
        ahead->count--;
        pthread_cond_signal(&ahead->room);
    }
}

/* With the lock held: what is wanted is not what comes next. */
static void jump(tfos__ahead *ahead, int64_t offset)
{
    ahead->jumps++;
    ahead->count = 0;
    ahead->next = offset;
    ahead->ended = false;
    pthread_cond_signal(&ahead->room);
}

/* With the lock held: waits for what comes next, and asks now and then, without the lock, whether to go on. */
static tfos_status wait_for_block(tfos__ahead *ahead, tfos_error *error)
{
    while (ahead->count == 0 && !ahead->ended) {
        tfos__condition_wait(&ahead->filled, &ahead->lock, POLL_MS);
        if (ahead->count > 0 || ahead->ended || ahead->stops == NULL) {
            continue;
        }
        pthread_mutex_unlock(&ahead->lock);
        bool stops = ahead->stops(ahead->stops_context);
        pthread_mutex_lock(&ahead->lock);
        if (stops) {
            return tfos__fail(error, TFOS_CANCELLED, "reading was cancelled");
        }
    }
    return TFOS_OK;
}

/* With the lock held. */
static tfos_status take(tfos__ahead *ahead, int64_t offset, void *to, size_t bytes, size_t *got, tfos_error *error)
{
    give_back(ahead, offset);
    bool here = ahead->count > 0 ? offset >= ahead->ring[ahead->head].offset : offset == ahead->next;
    if (!here) {
        jump(ahead, offset);
    }
    if (offset >= ahead->limit) {
        ahead->limit = offset + ahead->over; /* usually the rest of one record; who goes on gets more and more */
        ahead->over = tfos__min_i64(2 * ahead->over, (int64_t)1 << 40);
        pthread_cond_signal(&ahead->room);
    }
    TFOS_TRY(wait_for_block(ahead, error));
    if (ahead->count > 0) {
        *got = copy_from(&ahead->ring[ahead->head], offset, to, bytes);
        return TFOS_OK;
    }
    if (ahead->status != TFOS_OK) {
        if (error != NULL) {
            *error = ahead->error;
        }
        return ahead->status;
    }
    *got = 0;
    return TFOS_OK;
}

/* Without the thread: a block that begins where the reader is, however little it wants of it. */
static tfos_status read_first(tfos__ahead *ahead, int64_t offset, void *to, size_t bytes, size_t *got,
                              tfos_error *error)
{
    if (bytes >= FIRST_BYTES) {
        ahead->first.offset = offset;
        ahead->first.bytes = 0;
        TFOS_TRY(ahead->system->read(ahead->system->context, ahead->file, offset, to, bytes, got, error));
        ahead->first.offset += (int64_t)*got; /* where a reader that goes on is next */
        return TFOS_OK;
    }
    if (ahead->first.data == NULL) {
        ahead->first.data = malloc(FIRST_BYTES);
        if (ahead->first.data == NULL) {
            return tfos__fail_memory(error, FIRST_BYTES);
        }
    }
    ahead->first.bytes = 0;
    size_t found = 0;
    TFOS_TRY(ahead->system->read(ahead->system->context, ahead->file, offset, ahead->first.data, FIRST_BYTES, &found,
                                 error));
    ahead->first.offset = offset;
    ahead->first.bytes = found;
    *got = copy_from(&ahead->first, offset, to, bytes);
    return TFOS_OK;
}

tfos_status tfos__ahead_read(tfos__ahead *ahead, int64_t offset, void *to, size_t bytes, size_t *got, tfos_error *error)
{
    size_t known = copy_from(&ahead->first, offset, to, bytes);
    if (known > 0 || bytes == 0) {
        *got = known;
        return TFOS_OK;
    }
    bool goes_on = offset > 0 && offset == ahead->first.offset + (int64_t)ahead->first.bytes;
    if (!ahead->running && goes_on && ahead->block_bytes > 0) {
        start_thread(ahead, offset);
    }
    if (!ahead->running) {
        return read_first(ahead, offset, to, bytes, got, error);
    }
    pthread_mutex_lock(&ahead->lock);
    tfos_status status = take(ahead, offset, to, bytes, got, error);
    pthread_mutex_unlock(&ahead->lock);
    return status;
}

void tfos__ahead_limit(tfos__ahead *ahead, int64_t offset)
{
    pthread_mutex_lock(&ahead->lock);
    ahead->limit = offset;
    pthread_cond_signal(&ahead->room);
    pthread_mutex_unlock(&ahead->lock);
}

void tfos__ahead_set_stops(tfos__ahead *ahead, bool (*stops)(void *context), void *context)
{
    ahead->stops = stops;
    ahead->stops_context = context;
}

void tfos__ahead_free(tfos__ahead *ahead)
{
    if (ahead == NULL) {
        return;
    }
    if (ahead->running) {
        pthread_mutex_lock(&ahead->lock);
        ahead->quit = true;
        pthread_cond_signal(&ahead->room);
        pthread_mutex_unlock(&ahead->lock);
        pthread_join(ahead->thread, NULL);
    }
    free_ring(ahead);
    free(ahead->first.data);
    pthread_mutex_destroy(&ahead->lock);
    pthread_cond_destroy(&ahead->room);
    pthread_cond_destroy(&ahead->filled);
    free(ahead);
}
