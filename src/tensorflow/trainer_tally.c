/* What workers tell each other: sums of what they have seen, who wants to stop, whether the first writes a checkpoint.
 * A group of one tells itself, so that there is one way for all.
 *
 *   tally = | what was seen since the last | wants to stop | has rows left | is here | saves | steps until the next |
 *           all add up                       any             any             all       the first, 0 from all others
 *
 * There is one at the end of each epoch, too, when all have joined: for what came behind the last, for whoever wants to
 * stop where epochs are short, and because then all know whether the data have ended or something else has. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "tensorflow/trainer_state.h"

enum {
    TALLY_MS = 500, /* between two tallies, about */
    STEPS_MOST = 10000,
    STEPS_MOST_TOGETHER = 256, /* for steps may become slow, and until the next one nobody looks at the clock */
    TALLY_GROWTH = 4,          /* the first steps take longer than the others */
};

enum { WORD_STOP, WORD_LEFT, WORD_HERE, WORD_SAVE, WORD_NEXT, WORDS };

tfos_status tfos__trainer_sum(tfos__trainer *trainer, double *numbers, size_t count, const char *about,
                              tfos_error *error)
{
    tfos_part part = {.element = TFOS_ELEMENT_FLOAT64,
                      .merge = TFOS_MERGE_SUM,
                      .dimensions = 1,
                      .shape = {(int64_t)count},
                      .input = numbers,
                      .output = numbers};
    tfos_call_options options;
    if (tfos__trainer_is_alone(trainer)) {
        return TFOS_OK;
    }
    tfos__trainer_call_options(trainer, about, &options);
    return tfos_group_call(trainer->group, &part, 1, &options, NULL, error);
}

tfos_status tfos__trainer_share(tfos__trainer *trainer, bool source, double rows, tfos_error *error)
{
    return tfos__trainer_is_alone(trainer) ? TFOS_OK
                                           : tfos__trainable_synchronize(trainer->model, source ? 1 : 0, rows, error);
}

/* ---- reports ---- */

void tfos__trainer_report_values(tfos__trainer *trainer, const tfos__step_values *values, bool epoch_end)
{
    const tfos__trainer_options *options = trainer->options;
    tfos__trainer_report report = {.epoch = trainer->epoch_now,
                                   .epochs = options->data.count > 0 ? options->epochs : 0,
                                   .step = trainer->at.step,
                                   .steps = options->steps,
                                   .rows = trainer->rows,
                                   .epoch_end = epoch_end,
                                   .first = tfos__trainer_is_first(trainer),
                                   .values = values};
    if (trainer->listener->report != NULL) {
        trainer->listener->report(trainer->listener->context, &report);
    }
}

static tfos_status report_progress(tfos__trainer *self, double rows, int64_t ms, tfos_error *error)
{
    tfos__step_values values = {0};
    TFOS_TRY(tfos__trainable_results(self->model, self->kind, &self->seen, "", &values, error));
    tfos__trainer_report_values(self, &values, false);
    tfos__trainer_events_add(self, &values, false, ms > 0 ? rows * 1000 / (double)ms : NAN);
    return TFOS_OK;
}

/* ---- tallies ---- */

/* What all have seen since the last one is added to what they have seen in this epoch. */
static void take_seen(tfos__trainer *self, const double *numbers)
{
    for (size_t i = 0; i < self->seen.count; i++) {
        self->seen.at[i] += numbers[i];
    }
    self->rows += (int64_t)(numbers[self->seen.metrics + self->seen.means]);
    tfos__step_sums_clear(&self->recent);
}

/* How many steps take about as long as there is to be between two tallies. */
static int64_t choose_steps(const tfos__trainer *self, int64_t ms)
{
    int64_t fitting = self->tally_steps * TALLY_MS / tfos__max_i64(ms, 1);
    int64_t most = tfos__trainer_is_alone(self) ? STEPS_MOST : STEPS_MOST_TOGETHER;
    return tfos__max_i64(1, tfos__min_i64(fitting, tfos__min_i64(self->tally_steps * TALLY_GROWTH, most)));
}

/* Whether `save_steps` asks for a checkpoint: once for a step, which may be that of several batches. */
static bool is_asked(const tfos__trainer *self)
{
    int64_t every = self->options->save_steps;
    return every > 0 && self->at.step % every == 0 && self->at.step != self->asked_step;
}

static void speak(const tfos__trainer *self, double *words, int64_t ms)
{
    bool first = tfos__trainer_is_first(self);
    words[WORD_STOP] = tfos__trainer_stops(self) ? 1 : 0;
    words[WORD_HERE] = 1;
    words[WORD_SAVE] = first && (is_asked(self) || tfos__trainer_save_is_due(self)) ? 1 : 0;
    words[WORD_NEXT] = first ? (double)choose_steps(self, ms) : 0;
}

/* Whoever stops us has to know how long a step may take. */
static void tell_pace(const tfos__trainer *self, int64_t ms)
{
    double steps = tfos__step_sums_steps(&self->recent);
    if (self->listener->pace != NULL && steps > 0) {
        self->listener->pace(self->listener->context, (int64_t)((double)ms / steps));
    }
}

static tfos_status hold_tally(tfos__trainer *self, double *numbers, tfos_error *error)
{
    double *words = numbers + self->recent.count;
    int64_t now = tfos__clock_ms();
    int64_t ms = now - self->tally_ms;
    memcpy(numbers, self->recent.at, self->recent.count * sizeof *numbers);
    speak(self, words, ms);
    tell_pace(self, ms);
    TFOS_TRY(tfos__trainer_sum(self, numbers, self->recent.count + WORDS, "a tally of training", error));
    double rows = numbers[self->recent.metrics + self->recent.means];
    take_seen(self, numbers);
    self->stops = words[WORD_STOP] > 0;
    self->all_here = words[WORD_HERE] == (double)self->size;
    /* Without the first worker, which may have joined, nobody says anything else. */
    self->tally_steps = words[WORD_NEXT] >= 1 ? (int64_t)words[WORD_NEXT] : self->tally_steps;
    self->tally_in = self->tally_steps;
    self->tally_ms = now;
    self->asked_step = self->at.step;
    TFOS_TRY(report_progress(self, rows, ms, error));
    return words[WORD_SAVE] > 0 && !self->stops ? tfos__trainer_save(self, false, error) : TFOS_OK;
}

static tfos_status with_numbers(tfos__trainer *self, tfos_status (*work)(tfos__trainer *, double *, tfos_error *),
                                tfos_error *error)
{
    double *numbers = calloc(self->recent.count + WORDS, sizeof *numbers);
    if (numbers == NULL) {
        return tfos__fail_memory(error, self->recent.count * sizeof *numbers);
    }
    tfos_status status = work(self, numbers, error);
    free(numbers);
    return status;
}

/* Alone there is nobody to agree with, and the clock may tell. */
static bool is_time(const tfos__trainer *self)
{
    return self->tally_in <= 0 || (tfos__trainer_is_alone(self) &&
                                   (tfos__trainer_stops(self) || tfos__clock_ms() - self->tally_ms >= TALLY_MS));
}

tfos_status tfos__trainer_step_end(tfos__trainer *trainer, tfos_error *error)
{
    trainer->tally_in--;
    return is_asked(trainer) || is_time(trainer) ? with_numbers(trainer, hold_tally, error) : TFOS_OK;
}

void tfos__trainer_take_recent(tfos__trainer *trainer)
{
    take_seen(trainer, trainer->recent.at);
}

static tfos_status add_up(tfos__trainer *self, double *numbers, tfos_error *error)
{
    double *words = numbers + self->recent.count;
    memcpy(numbers, self->recent.at, self->recent.count * sizeof *numbers);
    words[WORD_STOP] = tfos__trainer_stops(self) ? 1 : 0;
    words[WORD_LEFT] = self->data_over ? 0 : 1;
    words[WORD_NEXT] = tfos__trainer_is_first(self) ? (double)self->tally_steps : 0;
    TFOS_TRY(tfos__trainer_sum(self, numbers, self->recent.count + WORDS, "the end of an epoch", error));
    take_seen(self, numbers);
    self->seen_lacks = false;
    self->stops = words[WORD_STOP] > 0;
    self->complete = words[WORD_LEFT] == 0;
    self->tally_steps = (int64_t)words[WORD_NEXT]; /* a worker that had joined has missed the last ones */
    return TFOS_OK;
}

tfos_status tfos__trainer_add_up(tfos__trainer *trainer, tfos_error *error)
{
    return with_numbers(trainer, add_up, error);
}
