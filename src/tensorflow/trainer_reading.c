/* Reading an epoch: its thread, and the queue between it and whoever takes batches. */
#include "tensorflow/trainer_reading.h"

#include <assert.h>

#include "base/bytes.h"
#include "base/status.h"
#include "base/thread.h"
#include "column/schema.h"

enum {
    AHEAD_LARGE = 4, /* large batches that wait; whoever has made as many as may wait goes on when half are gone */
    LARGE_BYTES = 1 << 23,
    SHUFFLES_LEFT = 4, /* to be read of an epoch when the next one may begin, in rows that are shuffled */
    LOOK_MS = 100,     /* between two questions whether to go on */
};

void tfos__reading_init(tfos__reading *reading, const tfos__trainer_source *of)
{
    reading->of = of;
    pthread_mutex_init(&reading->lock, NULL);
    tfos__condition_init(&reading->changed);
}

void tfos__reading_reset(tfos__reading *reading)
{
    tfos__reading_leave(reading);
    tfos__trainable_rows_free(reading->rows);
    tfos_schema_free(reading->rows_schema);
    pthread_cond_destroy(&reading->changed);
    pthread_mutex_destroy(&reading->lock);
}

bool tfos__reading_is_left(void *context)
{
    tfos__reading *self = context;
    const tfos__trainer_input_options *options = &self->of->options;
    return atomic_load(&self->leaves) || (options->stops != NULL && options->stops(options->stops_context));
}

/* ---- the thread ---- */

/* Whether there is no room. Who has come to that waits until half is taken: to be woken for each batch costs more. */
static bool must_wait(tfos__reading *self)
{
    bool full = self->count == TFOS__READING_AHEAD || (self->count >= AHEAD_LARGE && self->all_bytes >= LARGE_BYTES);
    if (full) {
        self->pause_until = self->count / 2;
    } else if (self->count <= self->pause_until) {
        self->pause_until = 0;
    }
    return self->pause_until > 0;
}

/* Puts a batch into the queue, when there is room. */
static tfos_status put(tfos__reading *self, tfos__step_batch *batch, size_t bytes)
{
    tfos_status status = TFOS_OK;
    pthread_mutex_lock(&self->lock);
    while (status == TFOS_OK && must_wait(self)) {
        tfos__condition_wait(&self->changed, &self->lock, LOOK_MS);
        status = tfos__reading_is_left(self) ? TFOS_CANCELLED : TFOS_OK;
    }
    if (status == TFOS_OK) {
        size_t at = (self->first + self->count++) % TFOS__READING_AHEAD;
        self->ahead[at] = batch;
        self->bytes[at] = bytes;
        self->all_bytes += bytes;
    }
    if (self->count == 1) {
        pthread_cond_signal(&self->changed);
    }
    pthread_mutex_unlock(&self->lock);
    if (status != TFOS_OK) {
        tfos__step_batch_free(self->of->options.model, batch);
    }
    return status;
}

tfos_status tfos__reading_bind(tfos__reading *reading, const tfos_schema *schema, tfos_error *error)
{
    const tfos__trainer_input_options *options = &reading->of->options;
    if (reading->rows != NULL && tfos_schema_equal(reading->rows_schema, schema)) {
        return TFOS_OK;
    }
    tfos__trainable_rows_free(reading->rows);
    tfos_schema_free(reading->rows_schema);
    reading->rows = NULL;
    reading->rows_schema = tfos__schema_retain(schema);
    return tfos__trainable_rows_new(options->model, schema, options->of->columns, &reading->rows, error);
}

/* A batch becomes tensors, unless it belongs to those that are left out. */
static tfos_status pass(tfos__reading *self, tfos_batch *batch, tfos_error *error)
{
    tfos__step_batch *made;
    int64_t rows = tfos_batch_rows(batch);
    if (self->skip > 0) {
        self->skip--;
        return TFOS_OK;
    }
    if (rows == 0) {
        return TFOS_OK;
    }
    if (self->of->exact && rows < self->of->batch_rows) {
        self->dropped += rows;
        return TFOS_OK;
    }
    TFOS_TRY(tfos__reading_bind(self, tfos_batch_schema(batch), error));
    TFOS_TRY(tfos__step_batch_new(self->of->options.model, self->rows, batch, &made, error));
    return put(self, made, tfos_batch_bytes(batch));
}

static tfos_status pass_feed(tfos__reading *self, tfos_error *error)
{
    tfos_feed *feed = self->of->feed;
    tfos_feed_want want;
    tfos_feed_want_init(&want, sizeof want);
    want.rows = self->of->batch_rows;
    want.split_epochs = true;
    want.interrupted = tfos__reading_is_left;
    want.interrupted_context = self;
    for (;;) {
        tfos_batch *batch;
        tfos_status status = tfos_feed_next(feed, &want, &batch, error);
        if (status == TFOS_END) {
            self->ended = tfos_feed_ended(feed);
        }
        TFOS_TRY(status);
        status = pass(self, batch, error);
        tfos_batch_free(batch);
        TFOS_TRY(status);
    }
}

/* The order of each epoch is another one, and the same in every run. */
static uint64_t seed_of(const tfos__reading *self)
{
    const int64_t numbers[] = {self->of->options.of->seed, self->epoch};
    return tfos__hash_from(0, numbers, sizeof numbers);
}

static tfos_status open_reader(tfos__reading *self, tfos_reader **out, tfos_error *error)
{
    const tfos__trainer_source *input = self->of;
    const tfos__trainer_options *of = input->options.of;
    tfos_read_options options;
    tfos_read_options_init(&options, sizeof options);
    options.schema = input->schema;
    options.columns = input->columns;
    options.column_count = input->column_count;
    options.on_corrupt = (tfos_on_corrupt)of->on_corrupt;
    options.batch_rows = input->batch_rows;
    options.exact = true;
    options.shuffle_rows = input->options.validation ? 0 : of->shuffle_rows;
    options.shuffle_seed = seed_of(self);
    options.shard = (int32_t)input->options.shard;
    options.shard_count = input->options.shards > 1 ? (int32_t)input->options.shards : 0;
    options.interrupted = tfos__reading_is_left;
    options.interrupted_context = self;
    options.store = input->store;
    return tfos_reader_open(input->paths, &options, out, error);
}

/* Whether so little is left to be read that the next epoch should begin. */
static bool is_ending(const tfos__reading *self, const tfos_progress *progress)
{
    const double shuffled = (double)self->of->options.of->shuffle_rows;
    const double rows = (double)progress->records + shuffled; /* that were read, as far as can be known */
    const double left = rows * ((double)progress->total_bytes / (double)progress->done_bytes - 1);
    return progress->done_bytes > 0 && left <= SHUFFLES_LEFT * shuffled;
}

static tfos_status pass_files(tfos__reading *self, tfos_error *error)
{
    tfos_reader *reader;
    tfos_progress progress;
    TFOS_TRY(open_reader(self, &reader, error));
    tfos_status status = TFOS_OK;
    while (status == TFOS_OK) {
        tfos_batch *batch;
        status = tfos_reader_next(reader, &batch, error);
        tfos_reader_progress(reader, &progress);
        atomic_store(&self->ends, is_ending(self, &progress));
        if (status == TFOS_OK) {
            status = pass(self, batch, error);
            tfos_batch_free(batch);
        }
    }
    self->damaged = progress.skipped_records;
    tfos_reader_close(reader);
    return status;
}

static void *run(void *context)
{
    tfos__reading *self = context;
    tfos_error error = {.status = TFOS_OK};
    tfos_status status = self->of->feed != NULL ? pass_feed(self, &error) : pass_files(self, &error);
    pthread_mutex_lock(&self->lock);
    self->status = status;
    self->error = error;
    pthread_cond_signal(&self->changed);
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* ---- its beginning and end ---- */

tfos_status tfos__reading_begin(tfos__reading *reading, int64_t epoch, int64_t skip, tfos_error *error)
{
    assert(!reading->runs);
    reading->epoch = epoch;
    reading->skip = skip;
    reading->status = TFOS_OK;
    reading->pause_until = 0;
    atomic_store(&reading->leaves, false);
    atomic_store(&reading->ends, false);
    reading->dropped = 0;
    reading->damaged = 0;
    int code = tfos__thread_start(&reading->thread, run, reading);
    if (code != 0) {
        return tfos__fail_errno(error, code, "no thread for reading ahead");
    }
    reading->runs = true;
    return TFOS_OK;
}

/* With the lock held, or without a thread. */
static tfos__step_batch *pop(tfos__reading *self)
{
    tfos__step_batch *batch = self->ahead[self->first];
    self->all_bytes -= self->bytes[self->first];
    self->first = (self->first + 1) % TFOS__READING_AHEAD;
    self->count--;
    return batch;
}

void tfos__reading_leave(tfos__reading *reading)
{
    if (!reading->runs) {
        return;
    }
    atomic_store(&reading->leaves, true);
    pthread_mutex_lock(&reading->lock);
    pthread_cond_signal(&reading->changed);
    pthread_mutex_unlock(&reading->lock);
    pthread_join(reading->thread, NULL);
    reading->runs = false;
    while (reading->count > 0) {
        tfos__step_batch_free(reading->of->options.model, pop(reading));
    }
}

tfos_status tfos__reading_take(tfos__reading *reading, tfos__step_batch **out, tfos_error *error)
{
    pthread_mutex_lock(&reading->lock);
    while (reading->count == 0 && reading->status == TFOS_OK) {
        tfos__condition_wait(&reading->changed, &reading->lock, LOOK_MS);
    }
    tfos_status status = reading->count > 0 ? TFOS_OK : reading->status;
    if (status == TFOS_OK) {
        *out = pop(reading);
    } else if (error != NULL) {
        *error = reading->error;
    }
    if (reading->count == reading->pause_until) {
        pthread_cond_signal(&reading->changed);
    }
    pthread_mutex_unlock(&reading->lock);
    return status;
}
