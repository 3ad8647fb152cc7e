/* A trainer, from its beginning to its end. */
#include "tensorflow/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "tensorflow/ops.h"
#include "tensorflow/trainer_state.h"

enum { SENTENCE_BYTES = 2048 };

const char *tfos__trainer_end_name(tfos__trainer_end end)
{
    static const char *const words[] = {
#define WORD(name, word) word,
        TFOS__TRAINER_END_MAP(WORD)
#undef WORD
    };
    return words[end];
}

void tfos__trainer_outcome_reset(tfos__trainer_outcome *outcome)
{
    free(outcome->checkpoint);
    *outcome = (tfos__trainer_outcome){0};
}

/* ---- whoever listens ---- */

void tfos__trainer_say(const tfos__trainer *trainer, const char *format, ...)
{
    char text[SENTENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (trainer->listener->say != NULL) {
        trainer->listener->say(trainer->listener->context, text);
    }
}

bool tfos__trainer_stops(const tfos__trainer *trainer)
{
    return trainer->listener->stops != NULL && trainer->listener->stops(trainer->listener->context);
}

bool tfos__trainer_breaks(void *trainer)
{
    const tfos__trainer_listener *listener = ((const tfos__trainer *)trainer)->listener;
    return listener->breaks != NULL && listener->breaks(listener->context);
}

void tfos__trainer_call_options(tfos__trainer *trainer, const char *about, tfos_call_options *out)
{
    tfos_call_options_init(out, sizeof *out);
    out->about = about;
    out->interrupted = tfos__trainer_breaks;
    out->interrupted_context = trainer;
}

/* ---- the beginning ---- */

static tfos_status open_group(tfos__trainer *self, tfos_error *error)
{
    tfos_call_options options;
    tfos__trainer_call_options(self, NULL, &options);
    TFOS_TRY(tfos_group_open(&options, &self->group, error));
    self->rank = tfos_group_rank(self->group);
    self->size = tfos_group_size(self->group);
    return TFOS_OK;
}

static int threads_of(const tfos__trainer_options *options)
{
    const char *cores = getenv("TF_NUM_INTRAOP_THREADS"); /* a node says how many it has */
    int64_t threads = options->threads > 0 ? options->threads : cores != NULL ? atoi(cores) : 0;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return (int)(threads > 0 ? threads : online > 0 ? online : 1);
}

static tfos_status load_model(tfos__trainer *self, tfos_error *error)
{
    tfos__trainable_options options = {.folder = self->options->model,
                                       .threads = threads_of(self->options),
                                       .together = !tfos__trainer_is_alone(self)};
    TFOS_TRY(tfos__ops_register(self->tf, error)); /* graphs of many workers have ops of ours, also for one alone */
    for (size_t i = 0; i < self->options->libraries.count; i++) {
        TFOS_TRY(tfos__tensorflow_load_ops(self->tf, self->options->libraries.at[i], error));
    }
    TFOS_TRY(tfos__trainable_load(self->tf, &options, &self->model, error));
    self->kind = options.together ? TFOS__STEP_TOGETHER : TFOS__STEP_TRAIN;
    TFOS_TRY(tfos__step_sums_init(self->model, self->kind, &self->recent, error));
    return tfos__step_sums_init(self->model, self->kind, &self->seen, error);
}

static tfos_status open_inputs(tfos__trainer *self, tfos_error *error)
{
    tfos__trainer_input_options options = {.model = self->model,
                                           .of = self->options,
                                           .shard = self->rank,
                                           .shards = self->size,
                                           .stops = tfos__trainer_breaks,
                                           .stops_context = self};
    TFOS_TRY(tfos__trainer_input_open(&options, &self->data, error));
    options.validation = true;
    tfos_status status =
        self->options->validates ? tfos__trainer_input_open(&options, &self->validation, error) : TFOS_OK;
    if (status != TFOS_OK) {
        tfos__error_prefix(error, "validation");
    }
    return status;
}

tfos_status tfos__trainer_fail_monitor(const tfos__trainer *trainer, const tfos__step_values *values, tfos_error *error)
{
    char have[512] = "";
    size_t at = 0;
    for (size_t i = 0; i < values->count && at < sizeof have; i++) {
        at += (size_t)snprintf(have + at, sizeof have - at, "%s%s", i > 0 ? ", " : "", values->at[i].name);
    }
    return tfos__fail(error, TFOS_INVALID, "monitor: expected one of the values of an epoch (%s), found '%s'", have,
                      tfos__printable_text(trainer->monitor).text);
}

/* The names of the values that an epoch will have: those of sums of nothing but one row. */
static tfos_status name_values(tfos__trainer *self, tfos__step_kind kind, const char *prefix, tfos__step_values *out,
                               tfos_error *error)
{
    tfos__step_sums sums;
    TFOS_TRY(tfos__step_sums_init(self->model, kind, &sums, error));
    sums.at[sums.metrics + sums.means] = 1;
    tfos_status status = tfos__trainable_results(self->model, kind, &sums, prefix, out, error);
    tfos__step_sums_reset(&sums);
    return status;
}

static tfos_status check_monitor(tfos__trainer *self, tfos_error *error)
{
    tfos__step_values values = {0};
    TFOS_TRY(name_values(self, self->kind, "", &values, error));
    if (self->options->validates) {
        TFOS_TRY(name_values(self, TFOS__STEP_EVALUATE, "val_", &values, error));
    }
    return tfos__step_values_find(&values, self->monitor) != NULL ? TFOS_OK
                                                                  : tfos__trainer_fail_monitor(self, &values, error);
}

static tfos_status begin_stopping(tfos__trainer *self, tfos_error *error)
{
    const tfos__trainer_options *options = self->options;
    if (options->patience < 0) {
        return TFOS_OK;
    }
    self->monitor = options->monitor != NULL ? options->monitor : options->validates ? "val_loss" : "loss";
    self->stopping = (tfos__stopping){.least = options->min_delta, .patience = options->patience};
    self->stopping.largest = options->mode == TFOS__MONITOR_AUTO ? tfos__stopping_is_larger_better(self->monitor)
                                                                 : options->mode == TFOS__MONITOR_MAX;
    return check_monitor(self, error);
}

static tfos_status begin(tfos__trainer *self, tfos_error *error)
{
    TFOS_TRY(open_group(self, error));
    TFOS_TRY(load_model(self, error));
    TFOS_TRY(tfos__trainer_check_readers(self->options, error)); /* before one of them is made */
    TFOS_TRY(open_inputs(self, error));
    TFOS_TRY(tfos__trainer_keep_open(self, error));
    TFOS_TRY(tfos__trainer_compare_files(self, error));
    TFOS_TRY(begin_stopping(self, error));
    TFOS_TRY(tfos__trainer_resume(self, error));
    tfos__trainer_events_open(self);
    self->tally_steps = 1;
    return TFOS_OK;
}

/* ---- the end ---- */

/* Weights as fit would leave them. */
static tfos_status export_model(tfos__trainer *self, tfos_error *error)
{
    self->is_final = true;
    TFOS_TRY(tfos__trainable_finalize(self->model, error));
    TFOS_TRY(tfos__export_write(self->tf, self->model, self->options->export_dir, error));
    self->outcome->exported = true;
    return TFOS_OK;
}

/* What each worker has left out, of all. */
static tfos_status count_dropped(tfos__trainer *self, tfos_error *error)
{
    const tfos__trainer_input *inputs[] = {self->data, self->validation};
    double numbers[] = {0, 0};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        numbers[0] += inputs[i] != NULL ? (double)tfos__trainer_input_dropped(inputs[i]) : 0;
        numbers[1] += inputs[i] != NULL ? (double)tfos__trainer_input_skipped(inputs[i]) : 0;
    }
    TFOS_TRY(tfos__trainer_sum(self, numbers, 2, "what was left out", error));
    self->outcome->dropped_rows = (int64_t)numbers[0];
    self->outcome->damaged_records = (int64_t)numbers[1];
    if (tfos__trainer_is_first(self) && numbers[0] > 0) {
        tfos__trainer_say(self, "rows that fill no batch of the one size that the model takes were left out: %.0f",
                          numbers[0]);
    }
    if (tfos__trainer_is_first(self) && numbers[1] > 0) {
        tfos__trainer_say(self, "damaged records were skipped (on_corrupt=skip): %.0f", numbers[1]);
    }
    return TFOS_OK;
}

/* A checkpoint that cannot be written is no reason to lose the model as well, nor the other way round. */
static tfos_status leave_first(tfos__trainer *self, tfos_error *error)
{
    tfos_error later;
    TFOS_TRY(tfos__trainer_check_finite(self, error));
    tfos_status status = tfos__trainer_save(self, true, error);
    if (self->options->export_dir == NULL) {
        return status;
    }
    tfos_status exported = export_model(self, &later);
    if (status == TFOS_OK && exported != TFOS_OK) {
        *error = later;
    }
    return status != TFOS_OK ? status : exported;
}

/* What is there is saved before anybody waits for others, who may have lost their patience. */
static tfos_status end_stopped(tfos__trainer *self, tfos_error *error)
{
    tfos_error ignored;
    TFOS_TRY(tfos__trainer_is_first(self) ? tfos__trainer_save(self, true, error) : TFOS_OK);
    (void)count_dropped(self, &ignored);
    return TFOS_OK;
}

/* Of a feed that has ended without a row nothing is left: a model that knows nothing must not look like one that was
 * trained. Whoever shuts a cluster down without feeding it, because something else has failed, is not told of that. */
static tfos_status end_untrained(const tfos__trainer *self, tfos_error *error)
{
    int64_t epochs = tfos__trainer_input_epochs(self->data);
    if (self->outcome->skipped_steps > 0) {
        return tfos__fail(error, TFOS_RANGE,
                          "no step was finite, and all %" PRId64
                          " of them were undone (on_nan=skip): lower the learning "
                          "rate, clip gradients, or look for values in the data that are not finite",
                          self->outcome->skipped_steps);
    }
    if (tfos__trainer_input_dropped(self->data) > 0) {
        return tfos__trainer_fail_short(self, error);
    }
    if (epochs > 0) {
        return tfos__fail(error, TFOS_INVALID,
                          "data: expected rows to train on, found none (epochs that were fed: %" PRId64 ")", epochs);
    }
    if (self->options->attempt > 0) {
        return tfos__fail(error, TFOS_INVALID,
                          "data: expected rows to train on, found none: the cluster was started again after a failure, "
                          "rows that were consumed before are not fed again, and there is no checkpoint to go on from");
    }
    if (tfos__trainer_is_first(self)) {
        tfos__trainer_say(self, "nothing was fed, so nothing was trained, and no model is written");
    }
    return TFOS_OK;
}

static tfos_status end(tfos__trainer *self, tfos_error *error)
{
    if (self->outcome->end == TFOS__TRAINER_END_STOPPED) {
        return end_stopped(self, error);
    }
    if (self->options->data.count == 0 && self->rows == 0 && !self->goes_on) {
        return end_untrained(self, error);
    }
    if (self->outcome->end != TFOS__TRAINER_END_DATA) {
        TFOS_TRY(tfos__trainer_input_terminate(self->data, error)); /* epochs that are left are not wanted */
    }
    TFOS_TRY(tfos__trainer_use_best(self, error));
    TFOS_TRY(count_dropped(self, error));
    return tfos__trainer_is_first(self) ? leave_first(self, error) : TFOS_OK;
}

/* Something had to be left at once. What the first worker has is the state behind its last step, and what all have seen
 * since the last tally nobody knows, unless it is alone. */
static tfos_status end_broken(tfos__trainer *self, tfos_error *error)
{
    self->outcome->end = TFOS__TRAINER_END_STOPPED;
    if (tfos__trainer_is_alone(self)) {
        tfos__trainer_take_recent(self);
    } else if (tfos__step_sums_steps(&self->recent) > 0) {
        self->seen_is_known = false;
    }
    tfos_status status = tfos__trainer_save(self, true, error);
    if (status == TFOS_RANGE) {
        tfos__trainer_say(self, "no checkpoint is written: %s", error->message);
        return TFOS_OK;
    }
    return status;
}

/* Whether an earlier run has come to the end, and to which. */
static bool is_over(const tfos__trainer *self, tfos__trainer_end *end)
{
    const tfos__trainer_options *options = self->options;
    bool no_epoch = options->data.count > 0 && self->at.epoch >= options->epochs;
    bool no_step = options->steps > 0 && tfos__max_i64(self->at.step, self->at.reached) >= options->steps;
    *end = self->at.done ? TFOS__TRAINER_END_EARLY : no_step ? TFOS__TRAINER_END_STEPS : TFOS__TRAINER_END_DATA;
    return self->at.done || no_epoch || no_step;
}

static void say_over(const tfos__trainer *self)
{
    if (!tfos__trainer_is_first(self)) {
        return;
    }
    if (self->at.done) {
        tfos__trainer_say(self,
                          "there is nothing left to train: early stopping was the end, because no epoch of %" PRId64
                          " was better by %s than epoch %" PRId64 "; more patience, or resume=False, goes on",
                          self->stopping.waited, self->monitor, self->stopping.best_epoch);
    } else {
        tfos__trainer_say(self,
                          "there is nothing left to train: epoch %" PRId64 ", step %" PRId64
                          " were the last; more epochs or steps go on from there",
                          self->at.epoch, self->at.step);
    }
}

static tfos_status train(tfos__trainer *self, tfos_error *error)
{
    bool over = is_over(self, &self->outcome->end);
    if (over) {
        say_over(self);
    }
    tfos_status status = TFOS_OK;
    uint64_t began = tfos__clock_ns();
    while (!over && status == TFOS_OK) {
        status = tfos__trainer_epoch(self, &over, error);
    }
    self->outcome->seconds = (double)(tfos__clock_ns() - began) / 1e9;
    status = status == TFOS_OK ? end(self, error) : status;
    bool told = tfos__trainer_breaks(self) || tfos__trainer_stops(self);
    if (status == TFOS_OK || !told || self->is_final) {
        return status;
    }
    /* Where several are told to stop, one of them loses its patience first, and that fails all others. */
    if (status != TFOS_CANCELLED) {
        tfos__trainer_say(self, "%s", error->message);
    }
    return end_broken(self, error);
}

static void close_all(tfos__trainer *self)
{
    tfos__trainer_input_close(self->data);
    tfos__trainer_input_close(self->validation);
    tfos__trainer_events_close(self);
    tfos__checkpoints_close(&self->checkpoints);
    if (self->model != NULL) {
        tfos__snapshot_free(self->model, self->best);
        tfos__snapshot_free(self->model, self->before);
    }
    tfos__trainable_free(self->model);
    tfos__step_sums_reset(&self->recent);
    tfos__step_sums_reset(&self->seen);
    if (self->group != NULL) {
        tfos_group_close(self->group);
    }
}

tfos_status tfos__trainer_run(const tfos__tensorflow *tf, const tfos__trainer_options *options,
                              const tfos__trainer_listener *listener, tfos__trainer_outcome *out, tfos_error *error)
{
    *out = (tfos__trainer_outcome){0};
    tfos__trainer self = {.tf = tf, .options = options, .listener = listener, .outcome = out};
    tfos_status status = begin(&self, error);
    if (status == TFOS_OK) {
        status = train(&self, error);
    } else if (tfos__trainer_breaks(&self)) { /* nothing was begun, so nothing is lost */
        out->end = TFOS__TRAINER_END_STOPPED;
        status = TFOS_OK;
    }
    out->steps = self.at.step;
    out->rows = self.rows;
    close_all(&self);
    if (status != TFOS_OK) {
        tfos__trainer_outcome_reset(out);
    }
    return status;
}
