/* Many files read by many threads: the same rows whatever their number, and every way to stop in between. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helper_decode.h"
#include "record/scan.h"

static const int32_t thread_counts[] = {0, 1, 2, 8};

/* ---- files: their records are numbered through ---- */

typedef struct numbered {
    tfos_paths *paths;
    tfos_schema *schema;
    int64_t rows;
} numbered;

static void write_file(const char *path, int64_t first, int64_t count, size_t padding)
{
    tfos_writer *writer = NULL;
    helper_bytes pad = helper_bytes_field(1, helper_bytes_field(1, helper_repeat('p', padding)));
    assert_int_equal(tfos_writer_open(path, NULL, &writer, NULL), TFOS_OK);
    for (int64_t i = 0; i < count; i++) {
        helper_bytes record = EXAMPLE(helper_entry("id", INTS(first + i)), helper_entry("pad", pad));
        assert_int_equal(tfos_writer_write_record(writer, record.data, record.count, NULL), TFOS_OK);
    }
    assert_int_equal(tfos_writer_close(writer, NULL), TFOS_OK);
}

/* Small files with 0 to 39 records and a few large ones that are read by several threads each, plain and compressed. */
static numbered make_files(void **state, int small, int large)
{
    numbered made = {0};
    uint64_t random = 11;
    for (int i = 0; i < small + large; i++) {
        bool is_large = large > 0 && i % (small / large + 1) == small / large;
        char name[32];
        snprintf(name, sizeof name, "f%03d%s", i, i % 3 == 1 ? ".gz" : "");
        int64_t count = is_large ? 2500 : (int64_t)(helper_random(&random) % 40);
        write_file(helper_path(state, name), made.rows, count, is_large ? 2000 : 20);
        made.rows += count;
    }
    const char *folder = *state;
    assert_int_equal(tfos_paths_expand(&folder, 1, &made.paths, NULL), TFOS_OK);
    assert_int_equal(made.paths->count, small + large);
    made.schema = helper_schema(FIELDS("id int64", "pad binary"));
    return made;
}

static void free_files(numbered *files)
{
    tfos_paths_free(files->paths);
    tfos_schema_free(files->schema);
}

static tfos_read_options options_for(const numbered *files, int32_t threads)
{
    tfos_read_options options;
    tfos_read_options_init(&options, sizeof options);
    options.schema = files->schema;
    options.threads = threads;
    options.batch_rows = 100;
    return options;
}

static tfos_reader *open_reader(const numbered *files, const tfos_read_options *options)
{
    tfos_reader *reader = NULL;
    tfos_error error = {0};
    if (tfos_reader_open(files->paths, options, &reader, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    return reader;
}

static const int64_t *ids_of(const tfos_batch *batch)
{
    return tfos_batch_column(batch, 0)->data;
}

/* ---- the same rows ---- */

typedef struct gathered {
    int64_t *ids;
    int64_t count;
    int64_t *ends; /* where each batch ended */
    int64_t batches;
    tfos_status status;
    tfos_error error;
} gathered;

static gathered gather(tfos_reader *reader, int64_t room)
{
    gathered all = {.ids = calloc((size_t)room + 1, sizeof *all.ids),
                    .ends = calloc((size_t)room + 1, sizeof *all.ends)};
    assert_true(all.ids != NULL && all.ends != NULL);
    tfos_batch *batch;
    while ((all.status = tfos_reader_next(reader, &batch, &all.error)) == TFOS_OK) {
        for (int64_t row = 0; row < tfos_batch_rows(batch); row++) {
            assert_true(all.count < room);
            all.ids[all.count++] = ids_of(batch)[row];
        }
        all.ends[all.batches++] = all.count;
        tfos_batch_free(batch);
    }
    return all;
}

static void free_gathered(gathered *all)
{
    free(all->ids);
    free(all->ends);
}

static void test_ordered_rows_in_the_same_batches(void **state)
{
    numbered files = make_files(state, 40, 3);
    gathered first = {0};
    for (size_t i = 0; i < sizeof thread_counts / sizeof thread_counts[0]; i++) {
        tfos_read_options options = options_for(&files, thread_counts[i]);
        tfos_reader *reader = open_reader(&files, &options);
        gathered all = gather(reader, files.rows);
        tfos_progress progress;
        tfos_reader_progress(reader, &progress);
        tfos_reader_close(reader);
        assert_int_equal(all.status, TFOS_END);
        assert_int_equal(all.count, files.rows);
        for (int64_t row = 0; row < all.count; row++) {
            assert_int_equal(all.ids[row], row);
        }
        assert_int_equal(progress.records, files.rows);
        assert_int_equal(progress.done_bytes, progress.total_bytes);
        assert_int_equal(progress.total_bytes, files.paths->total_bytes);
        if (i == 0) {
            first = all;
            continue;
        }
        assert_int_equal(all.batches, first.batches);
        assert_memory_equal(all.ends, first.ends, (size_t)first.batches * sizeof *first.ends);
        free_gathered(&all);
    }
    free_gathered(&first);
    free_files(&files);
}

static int by_number(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

static void expect_each_once(int64_t *ids, int64_t count, int64_t expected)
{
    assert_int_equal(count, expected);
    qsort(ids, (size_t)count, sizeof *ids, by_number);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(ids[i], i);
    }
}

static void test_unordered_rows_are_the_same_set(void **state)
{
    numbered files = make_files(state, 40, 3);
    for (size_t i = 0; i < sizeof thread_counts / sizeof thread_counts[0]; i++) {
        tfos_read_options options = options_for(&files, thread_counts[i]);
        options.ordered = false;
        tfos_reader *reader = open_reader(&files, &options);
        gathered all = gather(reader, files.rows);
        assert_int_equal(all.status, TFOS_END);
        expect_each_once(all.ids, all.count, files.rows);
        tfos_batch *batch;
        assert_int_equal(tfos_reader_next(reader, &batch, NULL), TFOS_END);
        tfos_reader_close(reader);
        free_gathered(&all);
    }
    free_files(&files);
}

/* Damage that is skipped is counted the same, and verifying finds the same. */
static void test_skipping_is_counted_the_same(void **state)
{
    numbered files = make_files(state, 30, 2);
    for (size_t i = 0; i < files.paths->count; i += 3) { /* the uncompressed ones */
        helper_bytes whole = helper_of_file(files.paths->path[i]);
        for (size_t at = 500; at < whole.count; at += 100000) {
            ((uint8_t *)(uintptr_t)whole.data)[at] ^= 0x20;
        }
        helper_to_file(files.paths->path[i], whole);
    }
    tfos_progress first = {0};
    for (size_t i = 0; i < sizeof thread_counts / sizeof thread_counts[0]; i++) {
        tfos_read_options options = options_for(&files, thread_counts[i]);
        options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
        tfos_reader *reader = open_reader(&files, &options);
        gathered all = gather(reader, files.rows);
        tfos_progress progress;
        tfos_progress verified = {0};
        tfos_reader_progress(reader, &progress);
        tfos_reader_close(reader);
        assert_int_equal(all.status, TFOS_END);
        free_gathered(&all);
        assert_int_equal(tfos_records_verify(files.paths, &options, true, NULL, NULL, &verified, NULL), TFOS_OK);
        assert_int_equal(verified.skipped_bytes, progress.skipped_bytes);
        assert_int_equal(verified.skipped_records, progress.skipped_records);
        first = i == 0 ? progress : first;
        assert_true(progress.skipped_records > 20);
        assert_int_equal(progress.records, first.records);
        assert_int_equal(progress.skipped_bytes, first.skipped_bytes);
        assert_int_equal(progress.skipped_records, first.skipped_records);
    }
    free_files(&files);
}

/* ---- errors ---- */

static void test_an_error_in_a_middle_file(void **state)
{
    numbered files = make_files(state, 40, 3);
    size_t bad = 30; /* uncompressed, and not empty */
    int64_t before = 0;
    helper_bytes whole = helper_of_file(files.paths->path[bad]);
    assert_true(whole.count > 200);
    ((uint8_t *)(uintptr_t)whole.data)[150] ^= 1;
    helper_to_file(files.paths->path[bad], whole);
    for (size_t i = 0; i < sizeof thread_counts / sizeof thread_counts[0]; i++) {
        for (int ordered = 1; ordered >= 0; ordered--) {
            tfos_read_options options = options_for(&files, thread_counts[i]);
            options.ordered = ordered;
            tfos_reader *reader = open_reader(&files, &options);
            gathered all = gather(reader, files.rows);
            assert_int_equal(all.status, TFOS_CORRUPT);
            helper_expect_in(all.error.message, files.paths->path[bad]);
            for (int again = 0; again < 3; again++) {
                tfos_batch *batch;
                tfos_error error = {0};
                assert_int_equal(tfos_reader_next(reader, &batch, &error), TFOS_CORRUPT);
                assert_string_equal(error.message, all.error.message);
            }
            tfos_reader_close(reader);
            if (ordered) { /* every row before the damage, and none behind it */
                before = i == 0 ? all.count : before;
                assert_true(before > 2500);
                assert_int_equal(all.count, before);
                for (int64_t row = 0; row < all.count; row++) {
                    assert_int_equal(all.ids[row], row);
                }
            }
            free_gathered(&all);
        }
    }
    free_files(&files);
}

static void test_a_file_that_is_gone(void **state)
{
    numbered files = make_files(state, 40, 3);
    assert_int_equal(unlink(files.paths->path[20]), 0);
    for (size_t i = 0; i < sizeof thread_counts / sizeof thread_counts[0]; i++) {
        tfos_read_options options = options_for(&files, thread_counts[i]);
        options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
        tfos_reader *reader = open_reader(&files, &options);
        gathered all = gather(reader, files.rows);
        assert_int_equal(all.status, TFOS_NOT_FOUND);
        helper_expect_in(all.error.message, files.paths->path[20]);
        assert_true(all.count > 0);
        tfos_reader_close(reader);
        free_gathered(&all);
    }
    free_files(&files);
}

/* ---- cancelling ---- */

typedef struct canceller {
    tfos_reader *reader;
    atomic_bool waiting;
} canceller;

static void *cancel_when_waiting(void *context)
{
    canceller *self = context;
    while (!atomic_load(&self->waiting)) {
        sched_yield();
    }
    tfos_reader_cancel(self->reader);
    return NULL;
}

typedef struct releaser {
    const char *path;
    atomic_bool done;
} releaser;

/* A thread that comes late to open a pipe waits for a writer; one is there again and again. */
static void *release_pipe(void *context)
{
    releaser *self = context;
    while (!atomic_load(&self->done)) {
        int writer = open(self->path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        if (writer >= 0) {
            close(writer);
        }
        usleep(1000);
    }
    return NULL;
}

/* A pipe that nobody writes to keeps the consumer waiting for ever, were it not for the cancel. */
static void test_cancel_while_next_waits(void **state)
{
    const char *path = helper_path(state, "pipe");
    assert_int_equal(mkfifo(path, 0666), 0);
    int pipe = open(path, O_RDWR | O_CLOEXEC);
    assert_true(pipe >= 0);
    tfos_read_options options = helper_raw_options();
    options.threads = 2;
    canceller self = {0};
    pthread_t thread;
    tfos_batch *batch;
    tfos_error error = {0};
    assert_int_equal(tfos_reader_open(helper_paths(path), &options, &self.reader, NULL), TFOS_OK);
    assert_int_equal(pthread_create(&thread, NULL, cancel_when_waiting, &self), 0);
    atomic_store(&self.waiting, true);
    assert_int_equal(tfos_reader_next(self.reader, &batch, &error), TFOS_CANCELLED);
    helper_expect_in(error.message, "cancelled");
    assert_int_equal(tfos_reader_next(self.reader, &batch, NULL), TFOS_CANCELLED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(pipe); /* so that the thread which reads it can end */
    releaser release = {.path = path};
    assert_int_equal(pthread_create(&thread, NULL, release_pipe, &release), 0);
    tfos_reader_close(self.reader);
    atomic_store(&release.done, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void test_cancel_at_any_time(void **state)
{
    numbered files = make_files(state, 30, 2);
    for (int round = 0; round < 24; round++) {
        tfos_read_options options = options_for(&files, thread_counts[round % 4]);
        options.ordered = round % 8 < 4;
        canceller self = {.reader = open_reader(&files, &options)};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, cancel_when_waiting, &self), 0);
        tfos_batch *batch;
        tfos_status status = TFOS_OK;
        for (int i = 0; status == TFOS_OK; i++) {
            atomic_store(&self.waiting, i >= round);
            status = tfos_reader_next(self.reader, &batch, NULL);
            if (status == TFOS_OK) {
                tfos_batch_free(batch);
            }
        }
        atomic_store(&self.waiting, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(status == TFOS_CANCELLED || status == TFOS_END);
        assert_int_equal(tfos_reader_next(self.reader, &batch, NULL), status);
        tfos_reader_close(self.reader);
    }
    free_files(&files);
}

/* ---- closing ---- */

typedef struct keeper {
    tfos_batch *batch;
    int64_t first;
    int64_t rows;
} keeper;

static void *check_and_free(void *context)
{
    const keeper *self = context;
    bool same = tfos_batch_rows(self->batch) == self->rows;
    for (int64_t row = 0; same && row < self->rows; row++) {
        same = ids_of(self->batch)[row] == self->first + row;
    }
    struct ArrowArray array;
    same = same && tfos_batch_export(self->batch, &array, NULL, NULL) == TFOS_OK;
    tfos_batch_free(self->batch);
    if (same) {
        same = ((const int64_t *)array.children[0]->buffers[1])[0] == self->first;
        array.release(&array);
    }
    return same ? NULL : (void *)(uintptr_t)1;
}

static void test_batches_outlive_a_reader_closed_midway(void **state)
{
    enum { KEPT = 12 };
    numbered files = make_files(state, 20, 2);
    for (size_t i = 0; i < sizeof thread_counts / sizeof thread_counts[0]; i++) {
        tfos_read_options options = options_for(&files, thread_counts[i]);
        tfos_reader *reader = open_reader(&files, &options);
        keeper kept[KEPT];
        pthread_t threads[KEPT];
        for (int k = 0; k < KEPT; k++) {
            assert_int_equal(tfos_reader_next(reader, &kept[k].batch, NULL), TFOS_OK);
            kept[k].rows = tfos_batch_rows(kept[k].batch);
            kept[k].first = ids_of(kept[k].batch)[0];
        }
        for (int k = 0; k < KEPT / 2; k++) { /* some are given up while the reader works on, some when it is gone */
            assert_int_equal(pthread_create(&threads[k], NULL, check_and_free, &kept[k]), 0);
        }
        tfos_reader_close(reader);
        for (int k = KEPT / 2; k < KEPT; k++) {
            assert_int_equal(pthread_create(&threads[k], NULL, check_and_free, &kept[k]), 0);
        }
        for (int k = 0; k < KEPT; k++) {
            void *problem;
            assert_int_equal(pthread_join(threads[k], &problem), 0);
            assert_null(problem);
        }
    }
    free_files(&files);
}

static void test_open_and_close_at_once(void **state)
{
    numbered files = make_files(state, 20, 1);
    for (int round = 0; round < 80; round++) {
        tfos_read_options options = options_for(&files, thread_counts[round % 4]);
        options.ordered = round % 2 == 0;
        tfos_reader *reader = open_reader(&files, &options);
        tfos_batch *batch;
        if (round % 3 == 0 && tfos_reader_next(reader, &batch, NULL) == TFOS_OK) {
            tfos_batch_free(batch);
        }
        tfos_reader_close(reader);
    }
    tfos_reader_close(NULL);
    free_files(&files);
}

/* ---- several threads outside ---- */

typedef struct consumer {
    pthread_t thread;
    tfos_reader *reader;
    gathered all;
    int64_t room;
} consumer;

static void *consume(void *context)
{
    consumer *self = context;
    self->all = gather(self->reader, self->room);
    return NULL;
}

static void test_several_consumers_of_one_reader(void **state)
{
    enum { CONSUMERS = 4 };
    numbered files = make_files(state, 30, 3);
    for (size_t i = 0; i < sizeof thread_counts / sizeof thread_counts[0]; i++) {
        tfos_read_options options = options_for(&files, thread_counts[i]);
        tfos_reader *reader = open_reader(&files, &options);
        consumer consumers[CONSUMERS] = {0};
        int64_t *ids = calloc((size_t)files.rows + 1, sizeof *ids);
        int64_t count = 0;
        assert_non_null(ids);
        for (int k = 0; k < CONSUMERS; k++) {
            consumers[k] = (consumer){.reader = reader, .room = files.rows};
            assert_int_equal(pthread_create(&consumers[k].thread, NULL, consume, &consumers[k]), 0);
        }
        for (int k = 0; k < CONSUMERS; k++) {
            assert_int_equal(pthread_join(consumers[k].thread, NULL), 0);
            assert_int_equal(consumers[k].all.status, TFOS_END);
            assert_true(count + consumers[k].all.count <= files.rows);
            memcpy(ids + count, consumers[k].all.ids, (size_t)consumers[k].all.count * sizeof *ids);
            count += consumers[k].all.count;
            free_gathered(&consumers[k].all);
        }
        tfos_reader_close(reader);
        expect_each_once(ids, count, files.rows);
        free(ids);
    }
    free_files(&files);
}

/* Readers of their own, with one schema between them. */
static void test_several_readers(void **state)
{
    enum { READERS = 4 };
    numbered files = make_files(state, 20, 1);
    consumer consumers[READERS] = {0};
    for (int k = 0; k < READERS; k++) {
        tfos_read_options options = options_for(&files, k);
        consumers[k] = (consumer){.reader = open_reader(&files, &options), .room = files.rows};
        assert_int_equal(pthread_create(&consumers[k].thread, NULL, consume, &consumers[k]), 0);
    }
    for (int k = 0; k < READERS; k++) {
        assert_int_equal(pthread_join(consumers[k].thread, NULL), 0);
        expect_each_once(consumers[k].all.ids, consumers[k].all.count, files.rows);
        free_gathered(&consumers[k].all);
        tfos_reader_close(consumers[k].reader);
    }
    free_files(&files);
}

typedef struct watcher {
    const tfos_reader *reader;
    tfos_progress *progress; /* of a verification */
    atomic_bool stop;
    bool fell;
} watcher;

static void *watch(void *context)
{
    watcher *self = context;
    tfos_progress last = {0};
    while (!atomic_load(&self->stop)) {
        tfos_progress now = {0};
        if (self->reader != NULL) {
            tfos_reader_progress(self->reader, &now);
        } else {
            now.done_bytes = __atomic_load_n(&self->progress->done_bytes, __ATOMIC_RELAXED);
            now.records = __atomic_load_n(&self->progress->records, __ATOMIC_RELAXED);
            now.memory_bytes = __atomic_load_n(&self->progress->memory_bytes, __ATOMIC_RELAXED);
        }
        self->fell = self->fell || now.done_bytes < last.done_bytes || now.records < last.records ||
                     now.memory_bytes < last.memory_bytes;
        last = now;
    }
    return NULL;
}

static void test_progress_is_watched(void **state)
{
    numbered files = make_files(state, 30, 3);
    for (size_t i = 0; i < sizeof thread_counts / sizeof thread_counts[0]; i++) {
        tfos_read_options options = options_for(&files, thread_counts[i]);
        tfos_reader *reader = open_reader(&files, &options);
        watcher self = {.reader = reader};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, watch, &self), 0);
        gathered all = gather(reader, files.rows);
        atomic_store(&self.stop, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_false(self.fell);
        assert_int_equal(all.count, files.rows);
        free_gathered(&all);
        tfos_reader_close(reader);

        tfos_progress progress = {0};
        self = (watcher){.progress = &progress};
        assert_int_equal(pthread_create(&thread, NULL, watch, &self), 0);
        assert_int_equal(tfos_records_verify(files.paths, &options, true, NULL, NULL, &progress, NULL), TFOS_OK);
        atomic_store(&self.stop, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_false(self.fell);
        assert_int_equal(progress.records, files.rows);
        assert_int_equal(progress.skipped_records, 0);
    }
    free_files(&files);
}

/* A consumer that takes its time makes the threads wait: memory is bounded by their number, not by the files. */
static void test_memory_is_bounded(void **state)
{
    numbered files = make_files(state, 10, 6);
    for (int ordered = 0; ordered < 2; ordered++) {
        tfos_read_options options = options_for(&files, 4);
        options.batch_bytes = 64 * 1024;
        options.ordered = ordered;
        tfos_reader *reader = open_reader(&files, &options);
        gathered all = gather(reader, files.rows);
        tfos_progress progress;
        tfos_reader_progress(reader, &progress);
        tfos_reader_close(reader);
        assert_int_equal(all.count, files.rows);
        free_gathered(&all);
        assert_true(files.paths->total_bytes > 16 << 20);
        assert_in_range(progress.memory_bytes, 64 * 1024, 8 << 20);
    }
    free_files(&files);
}

/* ---- several large files, in order ---- */

typedef struct tally {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int of_first; /* chunks of the first file that were worked on */
    int all;
} tally;

static tfos_status count_chunk(void *context, int thread, tfos__chunk *chunk, void **result, tfos_error *error)
{
    (void)thread;
    (void)error;
    tally *counts = context;
    pthread_mutex_lock(&counts->lock);
    counts->of_first += chunk->segments[0].file_index == 0;
    counts->all++;
    pthread_cond_signal(&counts->changed);
    pthread_mutex_unlock(&counts->lock);
    *result = counts;
    return TFOS_OK;
}

static void drop_count(void *context, void *result)
{
    (void)context;
    (void)result;
}

/* What is made ahead of later files leaves the threads their places at the first one, whose results come next: with two
 * threads, five chunks are under way, and three of them are the first file's. */
static void test_later_files_do_not_hold_up_the_first(void **state)
{
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "f%d", i);
        write_file(helper_path(state, name), 0, 2500, 2000);
    }
    const char *folder = *state;
    tfos_paths *paths;
    assert_int_equal(tfos_paths_expand(&folder, 1, &paths, NULL), TFOS_OK);
    for (int round = 0; round < 20; round++) {
        tally counts = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
        tfos__scan_options options = {
            .source = {.chunk_rows = 100, .chunk_bytes = 1 << 20, .range_end = -1}, .threads = 2, .ordered = true};
        tfos__scan_work work = {count_chunk, drop_count, &counts};
        tfos__scan *scan;
        assert_int_equal(tfos__scan_open(paths, &options, &work, &scan, NULL), TFOS_OK);
        pthread_mutex_lock(&counts.lock);
        while (counts.all < 5) {
            pthread_cond_wait(&counts.changed, &counts.lock);
        }
        assert_true(counts.of_first >= 3);
        pthread_mutex_unlock(&counts.lock);
        void *result;
        int handed = 0;
        while (tfos__scan_next(scan, &result, NULL) == TFOS_OK) {
            handed++;
        }
        assert_int_equal(handed, 75);
        tfos__scan_close(scan);
    }
    tfos_paths_free(paths);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_setup, helper_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_ordered_rows_in_the_same_batches),
        IN_FOLDER(test_unordered_rows_are_the_same_set),
        IN_FOLDER(test_skipping_is_counted_the_same),
        IN_FOLDER(test_an_error_in_a_middle_file),
        IN_FOLDER(test_a_file_that_is_gone),
        IN_FOLDER(test_cancel_while_next_waits),
        IN_FOLDER(test_cancel_at_any_time),
        IN_FOLDER(test_batches_outlive_a_reader_closed_midway),
        IN_FOLDER(test_open_and_close_at_once),
        IN_FOLDER(test_several_consumers_of_one_reader),
        IN_FOLDER(test_several_readers),
        IN_FOLDER(test_progress_is_watched),
        IN_FOLDER(test_memory_is_bounded),
        IN_FOLDER(test_later_files_do_not_hold_up_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
