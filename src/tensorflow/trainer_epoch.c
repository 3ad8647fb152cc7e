/* An epoch: steps until the data ends, then what all workers make of it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "tensorflow/trainer_state.h"

enum { UNDONE_MOST = 20 };

/* ---- a step ---- */

static tfos_status fail_nan(const tfos__trainer *self, double loss, double rate, tfos_error *error)
{
    char learning[64] = "the optimizer's own learning rate";
    if (rate >= 0) {
        snprintf(learning, sizeof learning, "a learning rate of %g", rate);
    }
    return tfos__fail(
        error, TFOS_RANGE,
        "the loss is %s in batch %lld of epoch %lld, behind step %lld, with %s. Lower the rate, clip "
        "gradients, or look for values in the data that are not finite; on_nan says what else may be done "
        "(skip, continue). Checkpoints from before are as they were",
        isnan(loss) ? "nan" : "infinite", (long long)self->at.batches, (long long)self->epoch_now,
        (long long)self->at.step, learning);
}

/* A step that may have to be undone. Sums are small, and variables are copied only when they are written to. */
static tfos_status remember(tfos__trainer *self, double *sums, tfos_error *error)
{
    memcpy(sums, self->recent.at, self->recent.count * sizeof *sums);
    return tfos__trainable_take(self->model, &self->before, error);
}

/* All take the step back if the loss of one of them is not finite, or what the step has made of the weights: the loss
 * is that from before the step. */
static tfos_status undo_if_bad(tfos__trainer *self, const double *sums, double loss, int64_t rows, bool *undone,
                               tfos_error *error)
{
    bool finite = false;
    if (isfinite(loss)) {
        TFOS_TRY(tfos__trainable_is_finite(self->model, &finite, error));
    }
    double numbers[] = {finite ? 0 : 1, (double)rows};
    TFOS_TRY(tfos__trainer_sum(self, numbers, 2, "whether a step is finite", error));
    *undone = numbers[0] > 0;
    self->undone = *undone ? self->undone + 1 : 0;
    if (self->undone == UNDONE_MOST) {
        return tfos__fail(error, TFOS_RANGE,
                          "%d steps in a row, up to batch %lld of epoch %lld, were not finite and had to be undone "
                          "(on_nan=skip): a step before them has spoilt the weights, or the data are bad. Lower the "
                          "learning rate, clip gradients, or look for values in the data that are not finite",
                          UNDONE_MOST, (long long)self->at.batches, (long long)self->epoch_now);
    }
    if (*undone) {
        memcpy(self->recent.at, sums, self->recent.count * sizeof *sums);
        self->outcome->skipped_steps++;
        self->outcome->skipped_rows += (int64_t)numbers[1];
        TFOS_TRY(tfos__trainable_put(self->model, self->before, error));
    }
    return TFOS_OK;
}

/* Nobody knows whether all have kept the step: it is as if it had not been taken. */
static void take_back(tfos__trainer *self, const double *sums)
{
    self->at.batches--;
    memcpy(self->recent.at, sums, self->recent.count * sizeof *sums);
    if (tfos__trainable_put(self->model, self->before, NULL) != TFOS_OK) {
        self->unsaved = true; /* the weights are others than those of the last checkpoint */
    }
}

static tfos_status step_and_look(tfos__trainer *self, const tfos__step_batch *batch, double *sums, tfos_error *error)
{
    const int on_nan = self->options->on_nan;
    const double rate = tfos__trainer_rate(self->options, self->at.step);
    tfos__step_told told;
    bool undone = false;
    if (on_nan == TFOS__ON_NAN_SKIP) {
        TFOS_TRY(remember(self, sums, error));
    }
    TFOS_TRY(tfos__trainable_step(self->model, self->kind, batch, rate, &self->recent, &told, error));
    self->at.batches++;
    if (on_nan == TFOS__ON_NAN_SKIP) {
        tfos_status status = undo_if_bad(self, sums, told.loss, batch->rows, &undone, error);
        if (status != TFOS_OK) {
            take_back(self, sums);
            return status;
        }
    } else if (on_nan == TFOS__ON_NAN_STOP && !isfinite(told.loss)) {
        return fail_nan(self, told.loss, rate, error);
    }
    if (!undone) {
        self->unsaved = true;
        self->at.step = told.iterations;
        self->epoch_rows += (double)batch->rows;
    }
    return TFOS_OK;
}

/* ---- steps ---- */

static bool has_steps_left(const tfos__trainer *self)
{
    return self->options->steps == 0 || self->at.step < self->options->steps;
}

/* Takes rows that nobody is trained on: a batch, or `all` that are left of the epoch. */
static tfos_status pass_over(tfos__trainer *self, bool all, bool *any, tfos_error *error)
{
    tfos_status status = TFOS_OK;
    *any = false;
    while (status == TFOS_OK && !(*any && (!all || tfos__trainer_stops(self)))) {
        tfos__step_batch *batch;
        status = tfos__trainer_input_next(self->data, &batch, error);
        if (status == TFOS_OK) {
            tfos__step_batch_free(self->model, batch);
            *any = true;
        }
    }
    return status;
}

/* There are no more steps to take. Whether there are rows left says whether the epoch is complete, and for that a look
 * is enough; damage in files behind the last step is nobody's business. But Spark computes rows to validate with when
 * it has got rid of all others. Where nothing depends on it, nobody waits for what is fed. */
static tfos_status look_ahead(tfos__trainer *self, tfos_error *error)
{
    bool any;
    bool fed = self->options->data.count == 0;
    if (fed && self->validation == NULL && self->monitor == NULL) {
        return TFOS_END;
    }
    tfos_status status = pass_over(self, fed && self->validation != NULL, &any, error);
    self->data_over = status == TFOS_END && !any;
    return status == TFOS_OK || (!fed && status != TFOS_CANCELLED) ? TFOS_END : status;
}

/* END: the data, or the number of steps that were wanted, have ended; or all stop, and somebody has joined who has yet
 * to hear of it and of the steps since. */
static tfos_status take_steps(tfos__trainer *self, double *sums, tfos_error *error)
{
    while (!self->stops) {
        tfos__step_batch *batch;
        if (!has_steps_left(self)) {
            return look_ahead(self, error);
        }
        tfos_status status = tfos__trainer_input_next(self->data, &batch, error);
        self->data_over = status == TFOS_END;
        TFOS_TRY(status);
        status = step_and_look(self, batch, sums, error);
        tfos__step_batch_free(self->model, batch);
        TFOS_TRY(status);
        TFOS_TRY(tfos__trainer_step_end(self, error));
    }
    return self->all_here ? TFOS_OK : TFOS_END;
}

static tfos_status run_steps(tfos__trainer *self, tfos_error *error)
{
    double *sums = calloc(self->recent.count, sizeof *sums);
    if (sums == NULL) {
        return tfos__fail_memory(error, self->recent.count * sizeof *sums);
    }
    if (self->at.batches == 0) {
        tfos__step_sums_clear(&self->seen);
        self->seen_is_known = true;
    }
    tfos__step_sums_clear(&self->recent);
    self->data_over = false;
    self->tally_in = self->tally_steps;
    self->tally_ms = tfos__clock_ms();
    tfos_status status = tfos__trainer_input_begin(self->data, self->at.epoch, self->at.batches, error);
    status = status == TFOS_OK ? take_steps(self, sums, error) : status;
    tfos__trainer_input_leave(self->data);
    free(sums);
    return status;
}

/* ---- its end ---- */

/* What the worker that came last says and has becomes what all say and have: it has taken part in every tally, and they
 * have not. Numbers that go with weights count when these are there. */
static tfos_status take_from_last(tfos__trainer *self, bool mine, tfos_error *error)
{
    enum { STEP, BATCHES, ROWS, UNDONE, SKIPPED_STEPS, SKIPPED_ROWS, UNTOLD, SEEN };
    size_t count = SEEN + self->seen.count;
    double *numbers = calloc(count, sizeof *numbers);
    if (numbers == NULL) {
        return tfos__fail_memory(error, count * sizeof *numbers);
    }
    if (mine) {
        numbers[STEP] = (double)self->at.step;
        numbers[BATCHES] = (double)self->at.batches;
        numbers[ROWS] = (double)self->rows;
        numbers[UNDONE] = (double)self->undone;
        numbers[SKIPPED_STEPS] = (double)self->outcome->skipped_steps;
        numbers[SKIPPED_ROWS] = (double)self->outcome->skipped_rows;
        numbers[UNTOLD] = tfos__step_sums_steps(&self->recent);
        memcpy(numbers + SEEN, self->seen.at, self->seen.count * sizeof *numbers);
    }
    tfos_status status = tfos__trainer_sum(self, numbers, count, "where training is", error);
    status = status == TFOS_OK ? tfos__trainer_share(self, mine, self->epoch_rows, error) : status;
    if (status == TFOS_OK) {
        self->at.step = (int64_t)numbers[STEP];
        self->at.batches = (int64_t)numbers[BATCHES];
        self->rows = (int64_t)numbers[ROWS];
        self->undone = (int64_t)numbers[UNDONE];
        self->outcome->skipped_steps = (int64_t)numbers[SKIPPED_STEPS];
        self->outcome->skipped_rows = (int64_t)numbers[SKIPPED_ROWS];
        self->seen_lacks = !mine && numbers[UNTOLD] > 0;
        memcpy(self->seen.at, numbers + SEEN, self->seen.count * sizeof *numbers);
    }
    free(numbers);
    return status;
}

/* All come to the end, and have the state of whoever came last. */
static tfos_status join(tfos__trainer *self, tfos_error *error)
{
    size_t last = 0;
    tfos_call_options options;
    if (tfos__trainer_is_alone(self)) {
        return TFOS_OK;
    }
    tfos__trainer_call_options(self, NULL, &options);
    TFOS_TRY(tfos_group_join(self->group, &options, &last, error));
    TFOS_TRY(take_from_last(self, last == self->rank, error));
    self->epoch_rows = 0;
    self->unsaved = true; /* moving statistics are those of all */
    self->asked_step = self->at.step;
    return TFOS_OK;
}

tfos_status tfos__trainer_fail_short(const tfos__trainer *trainer, tfos_error *error)
{
    return tfos__fail(error, TFOS_INVALID,
                      "data: expected rows enough for a batch of %lld, found %lld on this worker, and not one batch on "
                      "all of them",
                      (long long)tfos__trainer_input_batch_rows(trainer->data),
                      (long long)tfos__trainer_input_dropped(trainer->data));
}

/* An epoch of files in which nothing was learned is one of every other epoch, too. */
static tfos_status check_epoch(const tfos__trainer *self, tfos_error *error)
{
    if (!self->complete || tfos__step_sums_rows(&self->seen) > 0 || !self->seen_is_known) {
        return TFOS_OK;
    }
    if (self->at.batches > 0) {
        return tfos__fail(error, TFOS_RANGE,
                          "no step of epoch %lld was finite, and all %lld of them were undone (on_nan=skip): lower the "
                          "learning rate, clip gradients, or look for values in the data that are not finite",
                          (long long)self->epoch_now, (long long)self->at.batches);
    }
    return tfos__trainer_fail_short(self, error);
}

/* Whether this was no epoch at all: the feed has ended, and nobody had rows. */
static tfos_status look_for_end(tfos__trainer *self, bool *none, tfos_error *error)
{
    double ended = tfos__trainer_input_ended(self->data) ? 1 : 0;
    *none = false;
    if (self->options->data.count > 0) {
        return check_epoch(self, error);
    }
    TFOS_TRY(tfos__trainer_sum(self, &ended, 1, "whether the feed has ended", error));
    *none = ended == (double)self->size && tfos__step_sums_rows(&self->seen) == 0;
    return TFOS_OK;
}

static tfos_status evaluate(tfos__trainer *self, tfos__step_sums *sums, tfos_error *error)
{
    tfos_status status = tfos__trainer_input_begin(self->validation, 0, 0, error);
    while (status == TFOS_OK) {
        tfos__step_batch *batch;
        tfos__step_told told;
        status = tfos__trainer_input_next(self->validation, &batch, error);
        if (status == TFOS_OK) {
            status = tfos__trainable_step(self->model, TFOS__STEP_EVALUATE, batch, -1, sums, &told, error);
            tfos__step_batch_free(self->model, batch);
        }
    }
    tfos__trainer_input_leave(self->validation);
    return status == TFOS_END ? TFOS_OK : status;
}

static tfos_status validate(tfos__trainer *self, tfos__step_values *values, tfos_error *error)
{
    tfos__step_sums sums;
    if (self->validation == NULL) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__step_sums_init(self->model, TFOS__STEP_EVALUATE, &sums, error));
    tfos_status status = evaluate(self, &sums, error);
    status = status == TFOS_OK ? tfos__trainer_sum(self, sums.at, sums.count, "validation", error) : status;
    if (status == TFOS_OK && tfos__step_sums_rows(&sums) == 0) {
        status = tfos__fail(error, TFOS_INVALID, "validation: expected rows to validate with, found none");
    }
    status = status == TFOS_OK ? tfos__trainable_results(self->model, TFOS__STEP_EVALUATE, &sums, "val_", values, error)
                               : status;
    tfos__step_sums_reset(&sums);
    return status;
}

/* The first worker decides whether it was better, for all. */
static tfos_status judge(tfos__trainer *self, const tfos__step_values *values, bool *better, bool *enough,
                         tfos_error *error)
{
    if (self->monitor == NULL) {
        return TFOS_OK;
    }
    const double *value = tfos__step_values_find(values, self->monitor);
    if (value == NULL && tfos__step_sums_rows(&self->seen) == 0) {
        return TFOS_OK; /* nothing was fed, or nobody knows of what was seen before it was broken off */
    }
    if (value == NULL) {
        return tfos__trainer_fail_monitor(self, values, error);
    }
    tfos__stopping_word word = tfos__stopping_add(&self->stopping, self->epoch_now, *value);
    bool first = tfos__trainer_is_first(self);
    double words[] = {first && word == TFOS__STOPPING_BETTER ? 1 : 0, first && word == TFOS__STOPPING_ENOUGH ? 1 : 0};
    TFOS_TRY(tfos__trainer_sum(self, words, 2, "whether it was better", error));
    *better = words[0] > 0;
    *enough = words[1] > 0;
    return TFOS_OK;
}

/* What Spark has fed is not fed again, so what was learned of it must be there for whoever goes on. */
static tfos_status save_epoch(tfos__trainer *self, bool better, tfos_error *error)
{
    if (better && self->options->restore_best) {
        return tfos__trainer_keep_best(self, error);
    }
    if (self->rows == 0 && !self->goes_on) {
        return TFOS_OK; /* nothing was learned: whoever goes on from that would take it for a model */
    }
    bool fed = self->options->data.count == 0;
    return fed || tfos__trainer_save_is_due(self) ? tfos__trainer_save(self, false, error) : TFOS_OK;
}

/* An epoch counts when it was validated and judged: whoever goes on from a checkpoint before that does so again. One
 * that has ended with the last step and not with the data is shown, and goes on if there are more steps one day. */
static tfos_status end_epoch(tfos__trainer *self, bool *end, tfos_error *error)
{
    bool better = false;
    bool enough = false;
    tfos__step_values *values = &self->outcome->values;
    *values = (tfos__step_values){0};
    TFOS_TRY(tfos__trainable_results(self->model, self->kind, &self->seen, "", values, error));
    TFOS_TRY(validate(self, values, error));
    if (self->complete) {
        TFOS_TRY(judge(self, values, &better, &enough, error));
        self->at.epoch++;
        self->at.batches = 0;
        self->outcome->epochs = self->at.epoch;
    }
    tfos__trainer_report_values(self, values, true);
    tfos__trainer_events_add(self, values, true, NAN);
    bool last = self->options->data.count > 0 && self->at.epoch >= self->options->epochs;
    *end = enough || last || !has_steps_left(self);
    self->outcome->end = enough                  ? TFOS__TRAINER_END_EARLY
                         : !has_steps_left(self) ? TFOS__TRAINER_END_STEPS
                                                 : TFOS__TRAINER_END_DATA;
    self->at.done = enough;
    return *end && !better ? TFOS_OK : save_epoch(self, better, error);
}

tfos_status tfos__trainer_epoch(tfos__trainer *trainer, bool *end, tfos_error *error)
{
    bool none;
    trainer->epoch_now = trainer->at.epoch + 1;
    tfos_status status = run_steps(trainer, error);
    if (status == TFOS_END) {
        TFOS_TRY(join(trainer, error));
        TFOS_TRY(tfos__trainer_add_up(trainer, error));
    } else if (status != TFOS_OK) {
        return status;
    }
    if (trainer->stops) { /* all have agreed */
        trainer->outcome->end = TFOS__TRAINER_END_STOPPED;
        *end = true;
        return TFOS_OK;
    }
    TFOS_TRY(look_for_end(trainer, &none, error));
    if (none) {
        trainer->outcome->end = TFOS__TRAINER_END_DATA;
        *end = true;
        return TFOS_OK;
    }
    return end_epoch(trainer, end, error);
}
