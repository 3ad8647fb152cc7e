/* Scan: groups of files, threads, and the order of results. */
#include "record/scan.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/status.h"
#include "base/thread.h"

enum { GROUP_BYTES = 4 << 20, MAX_THREADS = 256, POLL_MS = 100 };

/* What became of one chunk. */
typedef struct outcome {
    struct outcome *next;
    int64_t number; /* in its file_group */
    void *result;
    tfos_status status;
    tfos_error error;
} outcome;

typedef struct file_group {
    size_t first; /* path */
    size_t count;
    tfos__source *source; /* opened when its first chunk is made */
    bool busy;            /* a thread is making a chunk */
    bool ended;           /* no more chunks; `taken` is their number */
    int64_t taken;        /* chunks taken up */
    int64_t handed;       /* chunks handed out: the number that comes next */
    outcome *done;        /* by number */
} file_group;

struct tfos__scan {
    const tfos_paths *paths;
    tfos__scan_options options;
    tfos__scan_work work;
    file_group *groups;
    size_t group_count;
    size_t front; /* groups before this are done with */
    int thread_count;
    pthread_t *threads;

    pthread_mutex_t lock;
    pthread_cond_t work_ready;    /* a thread may find something to do */
    pthread_cond_t outcome_ready; /* the consumer may find what it waits for */
    int idle_threads;             /* that wait for work_ready */
    bool consumer_waits;
    int under_way;
    int limit;
    int reserved; /* of these, for the group whose results come next */
    bool stopping;
    tfos__chunk *spare[MAX_THREADS * 2 + 8];
    int spare_count;

    tfos_status status; /* OK until the end or an error; then that for ever */
    tfos_error error;

    int64_t poll_at_ms; /* without threads: when to ask again */
    pid_t owner;        /* a child that was forked has none of the threads */
    atomic_bool cancelled;
    atomic_llong done_bytes;
    atomic_llong records;
    atomic_llong skipped_records;
    atomic_llong skipped_bytes;
    atomic_llong memory;
    atomic_llong memory_peak;
};

tfos_status tfos__scan_threads(int32_t *threads, tfos_error *error)
{
    int64_t count;
    TFOS_TRY(tfos__setting_choose(TFOS__SETTING_RECORDS_THREADS, *threads, -1, &count, error));
    if (count < 0) {
        cpu_set_t cores;
        count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    }
    *threads = count < MAX_THREADS ? (int32_t)count : MAX_THREADS;
    return TFOS_OK;
}

int tfos__scan_workers(int threads)
{
    return threads > 0 ? threads : 1;
}

bool tfos__scan_is_mine(const tfos__scan *scan)
{
    return scan->thread_count == 0 || scan->owner == getpid();
}

/* ---- counting ---- */

void tfos__scan_count_memory(tfos__scan *scan, int64_t bytes)
{
    long long now = atomic_fetch_add(&scan->memory, bytes) + bytes;
    long long peak = atomic_load(&scan->memory_peak);
    while (now > peak && !atomic_compare_exchange_weak(&scan->memory_peak, &peak, now)) {}
}

void tfos__scan_progress(const tfos__scan *scan, tfos_progress *out)
{
    *out = (tfos_progress){.total_bytes = scan->paths->total_bytes,
                           .done_bytes = atomic_load(&scan->done_bytes),
                           .records = atomic_load(&scan->records),
                           .skipped_records = atomic_load(&scan->skipped_records),
                           .skipped_bytes = atomic_load(&scan->skipped_bytes),
                           .memory_bytes = atomic_load(&scan->memory_peak)};
}

static void count_chunk(tfos__scan *scan, const tfos__chunk *chunk)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < chunk->hole_count; i++) {
        bytes += chunk->holes[i].bytes;
    }
    atomic_fetch_add(&scan->done_bytes, chunk->stored_bytes);
    atomic_fetch_add(&scan->records, (long long)chunk->good);
    atomic_fetch_add(&scan->skipped_records, (long long)chunk->hole_count);
    atomic_fetch_add(&scan->skipped_bytes, bytes);
}

/* ---- chunks ---- */

/* With the lock held. */
static tfos__chunk *take_chunk(tfos__scan *scan)
{
    if (scan->spare_count > 0) {
        return scan->spare[--scan->spare_count];
    }
    tfos__chunk *chunk = tfos__store_take_chunk(scan->options.store);
    if (chunk != NULL) {
        tfos__scan_count_memory(scan, (int64_t)chunk->data.capacity);
        return chunk;
    }
    return calloc(1, sizeof(tfos__chunk));
}

/* With the lock held. */
static void give_chunk(tfos__scan *scan, tfos__chunk *chunk)
{
    if (chunk != NULL && scan->spare_count < scan->thread_count + 1) {
        scan->spare[scan->spare_count++] = chunk;
    } else if (chunk != NULL) {
        tfos__scan_count_memory(scan, -(int64_t)chunk->data.capacity);
        tfos__store_give_chunk(scan->options.store, chunk);
    }
}

/* Makes the next chunk of a group and works on it. END: the group has no more. */
static tfos_status make_chunk(tfos__scan *scan, file_group *group, tfos__chunk *chunk, tfos_error *error)
{
    if (group->source == NULL) {
        const char *const *paths = (const char *const *)scan->paths->path + group->first;
        TFOS_TRY(tfos__source_new(paths, group->count, group->first, &scan->options.source, &group->source, error));
    }
    if (scan->options.mixer != NULL) {
        return tfos__mixer_next(scan->options.mixer, group->source, chunk, error);
    }
    return tfos__source_next(group->source, chunk, error);
}

static tfos_status work_on(tfos__scan *scan, int thread, tfos__chunk *chunk, void **result, tfos_error *error)
{
    chunk->good = 0;
    tfos_status status = scan->work.run(scan->work.context, thread, chunk, result, error);
    count_chunk(scan, chunk);
    return status;
}

/* ---- threads ---- */

/* With the lock held. Signals cost more than small chunks do, so nobody is woken who does not wait. */
static void wake_a_thread(tfos__scan *scan)
{
    if (scan->idle_threads > 0) {
        pthread_cond_signal(&scan->work_ready);
    }
}

static void wake_consumer(tfos__scan *scan)
{
    if (scan->consumer_waits) {
        pthread_cond_signal(&scan->outcome_ready);
    }
}

static int64_t under_way_of(const file_group *group)
{
    return group->taken - group->handed + group->busy;
}

/* With the lock held: whether one more chunk of a group may be under way. What is made ahead of other groups, while a
 * thread makes a chunk of the first, has to wait for that one's end: it may not take all the places, or the threads
 * would be left with one chunk at a time. */
static bool has_room(const tfos__scan *scan, size_t index)
{
    if (!scan->options.ordered) {
        return scan->under_way < scan->limit;
    }
    int64_t front = under_way_of(&scan->groups[scan->front]);
    return index == scan->front ? front < scan->reserved || scan->under_way < scan->limit
                                : scan->under_way - front < scan->limit - scan->reserved;
}

/* With the lock held: the first group that has something to do, or NULL. */
static file_group *find_work(tfos__scan *scan)
{
    size_t open = 0;
    for (size_t i = scan->front; i < scan->group_count && open < (size_t)scan->thread_count; i++) {
        file_group *group = &scan->groups[i];
        if (group->ended) {
            continue;
        }
        open++;
        if (!group->busy && has_room(scan, i)) {
            return group;
        }
    }
    return NULL;
}

static bool all_ended(const tfos__scan *scan)
{
    for (size_t i = scan->front; i < scan->group_count; i++) {
        if (!scan->groups[i].ended) {
            return false;
        }
    }
    return true;
}

/* With the lock held: files an outcome under its group, in order. */
static void file_outcome(file_group *group, outcome *made)
{
    outcome **at = &group->done;
    while (*at != NULL && (*at)->number < made->number) {
        at = &(*at)->next;
    }
    made->next = *at;
    *at = made;
}

/* With the lock held on entry and exit: one chunk from `group`, made and worked on without the lock. */
static void serve(tfos__scan *scan, int thread, file_group *group)
{
    outcome *made = calloc(1, sizeof *made);
    tfos__chunk *chunk = take_chunk(scan);
    if (made == NULL || chunk == NULL) {
        free(made);
        give_chunk(scan, chunk);
        scan->status = tfos__fail_memory(&scan->error, sizeof *made + sizeof *chunk);
        scan->stopping = true;
        wake_consumer(scan);
        return;
    }
    group->busy = true;
    scan->under_way++;
    made->number = group->taken;
    pthread_mutex_unlock(&scan->lock);

    int64_t before = (int64_t)chunk->data.capacity;
    made->status = make_chunk(scan, group, chunk, &made->error);
    tfos__scan_count_memory(scan, (int64_t)chunk->data.capacity - before);

    pthread_mutex_lock(&scan->lock);
    group->busy = false;
    group->ended = made->status != TFOS_OK;
    bool nothing = made->status == TFOS_END;
    group->taken += !nothing;
    wake_a_thread(scan);
    if (!nothing && made->status == TFOS_OK) {
        pthread_mutex_unlock(&scan->lock);
        made->status = work_on(scan, thread, chunk, &made->result, &made->error);
        pthread_mutex_lock(&scan->lock);
    }
    int64_t chunk_bytes = chunk->stored_bytes; /* a file without records is read as well */
    give_chunk(scan, chunk);
    if (nothing) {
        atomic_fetch_add(&scan->done_bytes, chunk_bytes);
        scan->under_way--;
        free(made);
    } else {
        file_outcome(group, made);
    }
    wake_consumer(scan);
}

typedef struct start {
    tfos__scan *scan;
    int thread;
} start;

static void *thread_main(void *argument)
{
    start mine = *(start *)argument;
    free(argument);
    tfos__scan *scan = mine.scan;
    pthread_mutex_lock(&scan->lock);
    while (!scan->stopping && !all_ended(scan)) {
        file_group *group = find_work(scan);
        if (group != NULL) {
            serve(scan, mine.thread, group);
        } else {
            scan->idle_threads++;
            pthread_cond_wait(&scan->work_ready, &scan->lock);
            scan->idle_threads--;
        }
    }
    pthread_cond_broadcast(&scan->work_ready); /* what ends one thread ends all */
    pthread_mutex_unlock(&scan->lock);
    return NULL;
}

/* ---- the consumer ---- */

/* With the lock held: the outcome that comes next, NULL when it is not there yet; *end when there will be none. */
static outcome *find_outcome(tfos__scan *scan, bool *end)
{
    *end = false;
    while (scan->front < scan->group_count) {
        file_group *group = &scan->groups[scan->front];
        if (!group->ended || group->handed < group->taken) {
            break;
        }
        tfos__source_free(group->source);
        group->source = NULL;
        scan->front++;
        wake_a_thread(scan);
    }
    for (size_t i = scan->front; i < scan->group_count; i++) {
        file_group *group = &scan->groups[i];
        outcome *first = group->done;
        if (first != NULL && (!scan->options.ordered || first->number == group->handed)) {
            group->done = first->next;
            group->handed++;
            return first;
        }
        if (scan->options.ordered || (group->taken == 0 && !group->busy && !group->ended)) {
            break; /* not begun: nor is any behind it */
        }
    }
    *end = scan->front == scan->group_count;
    return NULL;
}

/* Takes an outcome's failure, to be told once its result has been handed out. */
static void keep_failure(tfos__scan *scan, const outcome *next)
{
    if (next->status != TFOS_OK && scan->status == TFOS_OK) {
        scan->status = next->status;
        scan->error = next->error;
        scan->stopping = true;
        pthread_cond_broadcast(&scan->work_ready);
    }
}

static tfos_status fail_cancelled(tfos__scan *scan)
{
    return tfos__fail(&scan->error, TFOS_CANCELLED, "reading was cancelled");
}

/* With the lock held: waits until an outcome may have come. Asks now and then, without the lock, whether to go on: who
 * answers may wait for a thread that wants the lock. */
static void wait_a_while(tfos__scan *scan)
{
    bool polls = scan->options.interrupted != NULL;
    bool woken = true;
    scan->consumer_waits = true;
    if (polls) {
        woken = tfos__condition_wait(&scan->outcome_ready, &scan->lock, POLL_MS);
    } else {
        pthread_cond_wait(&scan->outcome_ready, &scan->lock);
    }
    scan->consumer_waits = false;
    if (!woken) {
        pthread_mutex_unlock(&scan->lock);
        bool interrupted = scan->options.interrupted(scan->options.interrupted_context);
        pthread_mutex_lock(&scan->lock);
        if (interrupted && scan->status == TFOS_OK) {
            scan->status = fail_cancelled(scan);
            scan->stopping = true;
            atomic_store(&scan->cancelled, true);
            pthread_cond_broadcast(&scan->work_ready);
        }
    }
}

/* Without threads: whether to stop, asked at most ten times a second. */
static bool is_interrupted(tfos__scan *scan)
{
    if (atomic_load(&scan->cancelled)) {
        return true;
    }
    if (scan->options.interrupted == NULL) {
        return false;
    }
    int64_t now_ms = tfos__clock_ms();
    if (now_ms < scan->poll_at_ms) {
        return false;
    }
    scan->poll_at_ms = now_ms + POLL_MS;
    return scan->options.interrupted(scan->options.interrupted_context);
}

/* With the lock held: waits for the next outcome. False when there is none: the status says why. */
static bool wait_outcome(tfos__scan *scan, void **result)
{
    while (scan->status == TFOS_OK) {
        bool end;
        outcome *next = find_outcome(scan, &end);
        if (next != NULL) {
            scan->under_way--;
            wake_a_thread(scan);
            keep_failure(scan, next);
            *result = next->result;
            free(next);
            return true;
        }
        if (end) {
            scan->status = TFOS_END;
        } else {
            wait_a_while(scan);
        }
    }
    return false;
}

/* Without threads the consumer does the work itself, and nothing is shared but the wish to cancel. */
static bool work_here(tfos__scan *scan, void **result)
{
    while (scan->status == TFOS_OK && scan->front < scan->group_count) {
        if (is_interrupted(scan)) {
            scan->status = fail_cancelled(scan);
            return false;
        }
        file_group *group = &scan->groups[scan->front];
        tfos__chunk *chunk = take_chunk(scan);
        if (chunk == NULL) {
            scan->status = tfos__fail_memory(&scan->error, sizeof *chunk);
            return false;
        }
        int64_t before = (int64_t)chunk->data.capacity;
        scan->status = make_chunk(scan, group, chunk, &scan->error);
        tfos__scan_count_memory(scan, (int64_t)chunk->data.capacity - before);
        if (scan->status == TFOS_OK) {
            scan->status = work_on(scan, 0, chunk, result, &scan->error);
        } else if (scan->status == TFOS_END) {
            scan->status = TFOS_OK;
            atomic_fetch_add(&scan->done_bytes, chunk->stored_bytes);
            tfos__source_free(group->source);
            group->source = NULL;
            scan->front++;
        }
        give_chunk(scan, chunk);
        if (*result != NULL) {
            return true;
        }
    }
    if (scan->status == TFOS_OK) {
        scan->status = TFOS_END;
    }
    return false;
}

/* The next result, NULL when there is none: the status says why. */
static void *next_result(tfos__scan *scan)
{
    void *result = NULL;
    bool found = true;
    if (scan->thread_count == 0) {
        work_here(scan, &result);
        return result;
    }
    pthread_mutex_lock(&scan->lock);
    while (result == NULL && found) {
        found = wait_outcome(scan, &result);
    }
    pthread_mutex_unlock(&scan->lock);
    return result;
}

tfos_status tfos__scan_next(tfos__scan *scan, void **out, tfos_error *error)
{
    void *result = next_result(scan);
    if (result != NULL) {
        *out = result;
        return TFOS_OK;
    }
    if (scan->status != TFOS_END && error != NULL) {
        *error = scan->error;
    }
    return scan->status;
}

void tfos__scan_cancel(tfos__scan *scan)
{
    atomic_store(&scan->cancelled, true);
    if (scan->thread_count == 0) {
        return;
    }
    pthread_mutex_lock(&scan->lock);
    if (scan->status == TFOS_OK) {
        scan->status = fail_cancelled(scan);
    }
    scan->stopping = true;
    pthread_cond_broadcast(&scan->work_ready);
    pthread_cond_broadcast(&scan->outcome_ready);
    pthread_mutex_unlock(&scan->lock);
}

/* What a source asks before each read, in whichever thread it is. */
static bool should_stop(void *context)
{
    tfos__scan *scan = context;
    return scan->thread_count == 0 ? is_interrupted(scan) : atomic_load(&scan->cancelled);
}

/* ---- life ---- */

static tfos_status make_groups(tfos__scan *scan, tfos_error *error)
{
    scan->groups = calloc(scan->paths->count + 1, sizeof *scan->groups);
    if (scan->groups == NULL) {
        return tfos__fail_memory(error, scan->paths->count * sizeof *scan->groups);
    }
    int64_t bytes = 0;
    for (size_t i = 0; i < scan->paths->count; i++) {
        bytes += scan->paths->bytes[i];
        if (scan->group_count == 0 || (bytes > GROUP_BYTES && !scan->options.joined)) {
            scan->groups[scan->group_count++].first = i;
            bytes = scan->paths->bytes[i];
        }
        scan->groups[scan->group_count - 1].count++;
    }
    return TFOS_OK;
}

static tfos_status start_threads(tfos__scan *scan, int count, tfos_error *error)
{
    scan->limit = 2 * count + 1;
    scan->reserved = count + 1;
    scan->threads = calloc((size_t)count + 1, sizeof *scan->threads);
    if (scan->threads == NULL) {
        return tfos__fail_memory(error, (size_t)count * sizeof *scan->threads);
    }
    pthread_mutex_lock(&scan->lock); /* nobody begins before thread_count is right */
    tfos_status status = TFOS_OK;
    for (; scan->thread_count < count && status == TFOS_OK; scan->thread_count++) {
        start *argument = malloc(sizeof *argument);
        if (argument == NULL) {
            status = tfos__fail_memory(error, sizeof *argument);
            break;
        }
        *argument = (start){scan, scan->thread_count};
        int problem = tfos__thread_start(&scan->threads[scan->thread_count], thread_main, argument);
        if (problem != 0) {
            free(argument);
            status = tfos__fail_errno(error, problem, "a thread for reading cannot be started");
            break;
        }
    }
    pthread_mutex_unlock(&scan->lock);
    return status;
}

tfos_status tfos__scan_open(const tfos_paths *paths, const tfos__scan_options *options, const tfos__scan_work *work,
                            tfos__scan **out, tfos_error *error)
{
    tfos__scan *scan = calloc(1, sizeof *scan);
    if (scan == NULL) {
        return tfos__fail_memory(error, sizeof *scan);
    }
    scan->paths = paths;
    scan->options = *options;
    scan->options.source.stops = should_stop;
    scan->options.source.stops_context = scan;
    scan->owner = getpid();
    scan->work = *work;
    pthread_mutex_init(&scan->lock, NULL);
    pthread_cond_init(&scan->work_ready, NULL);
    tfos__condition_init(&scan->outcome_ready);
    scan->poll_at_ms = tfos__clock_ms() + POLL_MS;
    tfos_status status = make_groups(scan, error);
    *out = scan; /* before there are threads: their work asks for it */
    if (status == TFOS_OK && options->threads > 0) {
        status = start_threads(scan, options->threads, error);
    }
    if (status != TFOS_OK) {
        tfos__scan_close(scan);
        *out = NULL;
    }
    return status;
}

static void drop_outcomes(tfos__scan *scan, file_group *group)
{
    while (group->done != NULL) {
        outcome *next = group->done->next;
        if (group->done->result != NULL) {
            scan->work.drop(scan->work.context, group->done->result);
        }
        free(group->done);
        group->done = next;
    }
}

void tfos__scan_close(tfos__scan *scan)
{
    if (scan == NULL) {
        return;
    }
    tfos__scan_cancel(scan);
    for (int i = 0; i < scan->thread_count; i++) {
        pthread_join(scan->threads[i], NULL);
    }
    for (size_t i = 0; i < scan->group_count; i++) {
        drop_outcomes(scan, &scan->groups[i]);
        tfos__source_free(scan->groups[i].source);
    }
    for (int i = 0; i < scan->spare_count; i++) {
        tfos__store_give_chunk(scan->options.store, scan->spare[i]);
    }
    pthread_mutex_destroy(&scan->lock);
    pthread_cond_destroy(&scan->work_ready);
    pthread_cond_destroy(&scan->outcome_ready);
    free(scan->threads);
    free(scan->groups);
    free(scan);
}
