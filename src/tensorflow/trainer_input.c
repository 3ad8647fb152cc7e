/* Batches of a trainer: where rows come from, and which epoch is read.
 *
 *     files ──► reading, by a thread ──► queue ──► steps            of this epoch
 *     files ──► reading, by a thread ──► queue                      of the next one
 *
 * What is shuffled gives no row until as many as are shuffled were read, so the next epoch of files begins while this
 * one has a few times as many left to read. */
#include "tensorflow/trainer_input.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "column/schema.h"
#include "tensorflow/trainer_reading.h"

enum {
    READINGS = 2,         /* this epoch, and the next one */
    INFER_RECORDS = 1000, /* that say what columns are like */
};

struct tfos__trainer_input {
    tfos__trainer_source from;
    char *about;
    tfos__reading readings[READINGS];
    tfos__reading *now;
    tfos__reading *next;
    int64_t dropped; /* of epochs that were left */
    int64_t damaged;
};

/* ---- epochs ---- */

/* It is a matter of speed alone: without a thread, the next epoch begins in its turn. */
static void begin_next(tfos__trainer_input *self)
{
    bool follows = !self->from.options.validation && self->now->epoch + 1 < self->from.options.of->epochs;
    if (follows && !self->next->runs && atomic_load(&self->now->ends)) {
        (void)tfos__reading_begin(self->next, self->now->epoch + 1, 0, NULL);
    }
}

tfos_status tfos__trainer_input_begin(tfos__trainer_input *input, int64_t epoch, int64_t skip, tfos_error *error)
{
    tfos__reading *next = input->next;
    tfos__trainer_input_leave(input);
    if (next->runs && next->epoch == epoch && skip == 0) {
        input->next = input->now;
        input->now = next;
        return TFOS_OK;
    }
    tfos__reading_leave(next);
    return tfos__reading_begin(input->now, epoch, input->from.feed != NULL ? 0 : skip, error);
}

tfos_status tfos__trainer_input_next(tfos__trainer_input *input, tfos__step_batch **out, tfos_error *error)
{
    begin_next(input);
    return tfos__reading_take(input->now, out, error);
}

void tfos__trainer_input_leave(tfos__trainer_input *input)
{
    tfos__reading *now = input->now;
    if (now->runs) {
        tfos__reading_leave(now);
        input->dropped += now->dropped;
        input->damaged += now->damaged;
    }
}

/* ---- opening ---- */

static tfos_status choose_rows(tfos__trainer_input *self, tfos_error *error)
{
    const tfos__trainer_options *of = self->from.options.of;
    int64_t wanted = tfos__trainable_about(self->from.options.model)->batch_rows;
    if (wanted > 0 && wanted != of->batch_rows && json_object_object_get_ex(of->text, "batch_size", NULL)) {
        return tfos__fail(error, TFOS_INVALID,
                          "batch_size: the model was exported for batches of %" PRId64 " rows, found %" PRId64, wanted,
                          of->batch_rows);
    }
    self->from.exact = wanted > 0;
    self->from.batch_rows = wanted > 0 ? wanted : of->batch_rows;
    return TFOS_OK;
}

/* The columns of the files that the model takes. That one is missing is said when rows are bound. */
static tfos_status choose_columns(tfos__trainer_input *self, tfos_error *error)
{
    const tfos__description *about = tfos__trainable_about(self->from.options.model);
    self->from.columns = calloc(about->port_count + 1, sizeof *self->from.columns);
    if (self->from.columns == NULL) {
        return tfos__fail_memory(error, about->port_count * sizeof *self->from.columns);
    }
    TFOS_TRY(tfos__reading_bind(self->now, self->from.schema, error));
    for (size_t i = 0; i < about->port_count; i++) {
        const char *column = tfos__port_column(&about->ports[i], self->from.options.of->columns);
        bool twice = false;
        for (size_t j = 0; j < self->from.column_count; j++) {
            twice = twice || strcmp(self->from.columns[j], column) == 0;
        }
        if (!twice && tfos__schema_find(self->from.schema, column, strlen(column)) >= 0) {
            self->from.columns[self->from.column_count++] = column;
        }
    }
    return TFOS_OK;
}

/* Names and sizes of files, and all that their order depends on. */
static tfos_status describe(tfos__trainer_input *self, tfos_error *error)
{
    const tfos__trainer_options *of = self->from.options.of;
    uint64_t hash = 0;
    for (size_t i = 0; i < self->from.paths->count; i++) {
        const char *name = strrchr(self->from.paths->path[i], '/');
        name = name != NULL ? name : self->from.paths->path[i];
        hash = tfos__hash_from(hash, name, strlen(name));
        hash = tfos__hash_from(hash, &self->from.paths->bytes[i], sizeof self->from.paths->bytes[i]);
    }
    int code = asprintf(
        &self->about,
        "%zu files, %" PRIx64 ", batch_size %" PRId64 ", shuffle %" PRId64 ", seed %" PRId64 ", workers %zu",
        self->from.paths->count, hash, self->from.batch_rows, of->shuffle_rows, of->seed, self->from.options.shards);
    return code >= 0 ? TFOS_OK : tfos__fail_memory(error, 1);
}

static tfos_status open_files(tfos__trainer_input *self, tfos_error *error)
{
    const tfos__texts *files =
        self->from.options.validation ? &self->from.options.of->validation : &self->from.options.of->data;
    tfos_read_options options;
    tfos_read_options_init(&options, sizeof options);
    options.infer_records = INFER_RECORDS;
    options.on_corrupt = (tfos_on_corrupt)self->from.options.of->on_corrupt;
    options.interrupted = tfos__reading_is_left;
    options.interrupted_context = self->now;
    TFOS_TRY(tfos_paths_expand(files->at, files->count, &self->from.paths, error));
    TFOS_TRY(tfos_schema_infer(self->from.paths, &options, &self->from.schema, error));
    TFOS_TRY(choose_columns(self, error));
    TFOS_TRY(tfos_store_new(&self->from.store, error));
    return describe(self, error);
}

static tfos_status open_feed(tfos__trainer_input *self, tfos_error *error)
{
    char *queue = NULL;
    if (asprintf(&queue, "%s%s", self->from.options.of->queue, self->from.options.validation ? ".validation" : "") <
        0) {
        return tfos__fail_memory(error, 1);
    }
    tfos_status status = tfos_feed_open(queue, &self->from.feed, error);
    free(queue);
    if (status == TFOS_NOT_FOUND) {
        return tfos__fail(error, TFOS_INVALID,
                          "data: expected files to train on, found nothing: this trainer is not fed by Spark "
                          "(InputMode.SPARK)");
    }
    return status;
}

void tfos__trainer_input_close(tfos__trainer_input *input)
{
    if (input == NULL) {
        return;
    }
    for (size_t i = 0; i < READINGS; i++) {
        tfos__reading_reset(&input->readings[i]);
    }
    if (input->from.feed != NULL) {
        tfos_feed_close(input->from.feed);
    }
    tfos_store_free(input->from.store);
    tfos_schema_free(input->from.schema);
    tfos_paths_free(input->from.paths);
    free((void *)input->from.columns);
    free(input->about);
    free(input);
}

tfos_status tfos__trainer_input_open(const tfos__trainer_input_options *options, tfos__trainer_input **out,
                                     tfos_error *error)
{
    tfos__trainer_input *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return tfos__fail_memory(error, sizeof *self);
    }
    self->from.options = *options;
    for (size_t i = 0; i < READINGS; i++) {
        tfos__reading_init(&self->readings[i], &self->from);
    }
    self->now = &self->readings[0];
    self->next = &self->readings[1];
    tfos_status status = choose_rows(self, error);
    if (status == TFOS_OK) {
        status = options->of->data.count > 0 ? open_files(self, error) : open_feed(self, error);
    }
    if (status != TFOS_OK) {
        tfos__trainer_input_close(self);
        return status;
    }
    *out = self;
    return TFOS_OK;
}

/* ---- what is known of it ---- */

bool tfos__trainer_input_ended(const tfos__trainer_input *input)
{
    return input->now->ended;
}

int64_t tfos__trainer_input_epochs(const tfos__trainer_input *input)
{
    return input->from.feed != NULL ? tfos_feed_epochs(input->from.feed) : 0;
}

tfos_status tfos__trainer_input_terminate(tfos__trainer_input *input, tfos_error *error)
{
    return input->from.feed != NULL ? tfos_feed_terminate(input->from.feed, error) : TFOS_OK;
}

const char *tfos__trainer_input_about(const tfos__trainer_input *input)
{
    return input->about;
}

const tfos_paths *tfos__trainer_input_paths(const tfos__trainer_input *input)
{
    return input->from.paths;
}

int64_t tfos__trainer_input_batch_rows(const tfos__trainer_input *input)
{
    return input->from.batch_rows;
}

int64_t tfos__trainer_input_dropped(const tfos__trainer_input *input)
{
    return input->dropped;
}

int64_t tfos__trainer_input_skipped(const tfos__trainer_input *input)
{
    return input->damaged;
}
