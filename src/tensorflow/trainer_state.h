/* What the files of the trainer share. */
#ifndef TFOS_TENSORFLOW_TRAINER_STATE_H
#define TFOS_TENSORFLOW_TRAINER_STATE_H

#include "tensorflow/checkpoints.h"
#include "tensorflow/events.h"
#include "tensorflow/stopping.h"
#include "tensorflow/trainer.h"
#include "tensorflow/trainer_input.h"

/* Where training is. It is the same on all workers, but for one that has joined. */
typedef struct tfos__trainer_position {
    int64_t epoch;   /* from 0: the one that is under way */
    int64_t batches; /* of this epoch, that each worker has taken */
    int64_t step;    /* iterations of the optimizer */
    int64_t reached; /* … that there were once, if it has gone back to its best epoch since */
    bool done;       /* training has come to its end */
} tfos__trainer_position;

enum { TFOS__CHECKPOINT_BYTES = 64 };

typedef struct tfos__trainer {
    const tfos__tensorflow *tf;
    const tfos__trainer_options *options;
    const tfos__trainer_listener *listener;
    tfos_group *group;
    size_t rank;
    size_t size;
    tfos__trainable *model;
    tfos__step_kind kind; /* of steps of training */
    tfos__trainer_input *data;
    tfos__trainer_input *validation; /* NULL: none */

    tfos__trainer_position at;
    int64_t epoch_now;      /* from 1, as people count */
    tfos__step_sums recent; /* of this worker, since the last tally */
    tfos__step_sums seen;   /* of all workers, in this epoch, at the last tally */
    double epoch_rows;      /* of this worker, since all had the same state */
    int64_t rows;           /* of all workers, since this run began */
    tfos__trainer_outcome *outcome;

    int64_t tally_in;    /* steps until the next one */
    int64_t tally_steps; /* … and how many these were at first */
    int64_t tally_ms;    /* when the last one was */
    bool stops;          /* all have agreed to stop */
    bool all_here;       /* nobody had joined at the last tally */
    bool is_final;       /* the model is about to be exported: its weights are none to go on from */
    int64_t undone;      /* steps, the last ones */
    bool data_over;      /* this worker has no rows left in this epoch */
    bool complete;       /* nobody has; known when all have joined */

    bool keeps; /* this worker writes checkpoints */
    tfos__checkpoints checkpoints;
    int64_t saved_ms;
    int64_t asked_step;                      /* for which `save_steps` has asked for one last */
    bool unsaved;                            /* a step was taken since the state was that of a checkpoint */
    char state_name[TFOS__CHECKPOINT_BYTES]; /* … of this one; empty: of none that is kept */
    char best_name[TFOS__CHECKPOINT_BYTES];  /* the checkpoint of the best epoch; empty: there is none */
    bool seen_is_known;                      /* `seen` is all that this epoch has had */
    bool seen_lacks;                         /* … but for the last steps of the worker that came last */
    bool goes_on;                            /* it began with a checkpoint */
    tfos__events *train_events;
    tfos__events *validation_events;

    tfos__stopping stopping;
    const char *monitor;    /* NULL: no early stopping */
    tfos__snapshot *best;   /* NULL: the best is not in memory */
    tfos__snapshot *before; /* of the step that is under way, if it may have to be undone */
} tfos__trainer;

static inline bool tfos__trainer_is_first(const tfos__trainer *trainer)
{
    return trainer->rank == 0;
}

static inline bool tfos__trainer_is_alone(const tfos__trainer *trainer)
{
    return trainer->size == 1;
}

void tfos__trainer_say(const tfos__trainer *trainer, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool tfos__trainer_stops(const tfos__trainer *trainer);
bool tfos__trainer_breaks(void *trainer); /* so that whatever waits for the trainer can ask */

/* Of a call to the group, which is broken off with the trainer. */
void tfos__trainer_call_options(tfos__trainer *trainer, const char *about, tfos_call_options *out);

/* INVALID: the value that early stopping looks at is none of those that there are. */
tfos_status tfos__trainer_fail_monitor(const tfos__trainer *trainer, const tfos__step_values *values,
                                       tfos_error *error);

/* ---- trainer_tally.c: what workers tell each other ---- */

/* Numbers become the sums of all workers'. */
tfos_status tfos__trainer_sum(tfos__trainer *trainer, double *numbers, size_t count, const char *about,
                              tfos_error *error);

/* All have the state of the worker for whom `source` is true; `rows` is what this one has trained on since. */
tfos_status tfos__trainer_share(tfos__trainer *trainer, bool source, double rows, tfos_error *error);

/* Behind a step: a tally, if it is time for one. `trainer->stops` says what came of it. */
tfos_status tfos__trainer_step_end(tfos__trainer *trainer, tfos_error *error);

/* The tally at the end of an epoch, when all have joined: `trainer->stops`, and whether the epoch is complete. */
tfos_status tfos__trainer_add_up(tfos__trainer *trainer, tfos_error *error);

/* Of one worker: what it has seen since the last tally is seen. */
void tfos__trainer_take_recent(tfos__trainer *trainer);

/* Tells of training as it is now. */
void tfos__trainer_report_values(tfos__trainer *trainer, const tfos__step_values *values, bool epoch_end);

/* ---- trainer_epoch.c ---- */

/* The rest of the epoch, and what it was worth. `*end` is false if training goes on. */
tfos_status tfos__trainer_epoch(tfos__trainer *trainer, bool *end, tfos_error *error);

/* INVALID: there are rows, and not enough of them for one batch. */
tfos_status tfos__trainer_fail_short(const tfos__trainer *trainer, tfos_error *error);

/* ---- trainer_places.c ---- */

/* Whether nothing is written where all files are read as data. */
tfos_status tfos__trainer_check_readers(const tfos__trainer_options *options, tfos_error *error);

/* Whether the final export has a place, and takes nothing with it that the trainer needs. */
tfos_status tfos__trainer_check_export(const tfos__trainer *trainer, tfos_error *error);

/* ---- trainer_files.c ---- */

/* Whether all workers see the same files. All of them take part, and all get the same answer. */
tfos_status tfos__trainer_compare_files(tfos__trainer *trainer, tfos_error *error);

/* ---- trainer_keep.c: checkpoints, and going on from them ---- */

tfos_status tfos__trainer_keep_open(tfos__trainer *trainer, tfos_error *error);

/* The state of the newest checkpoint that can be read, if there is one; of all workers. */
tfos_status tfos__trainer_resume(tfos__trainer *trainer, tfos_error *error);

/* Whether a checkpoint is due by the clock. */
bool tfos__trainer_save_is_due(const tfos__trainer *trainer);

/* Writes a checkpoint, if this worker does that; of a state that is in one already, only where training is now. One
 * that cannot be written is told, and tried again later, unless it is the `last`. RANGE: there are weights that are not
 * finite, which is not kept. */
tfos_status tfos__trainer_save(tfos__trainer *trainer, bool last, tfos_error *error);

/* RANGE if there are weights that are not finite, unless `on_nan` lets them pass. */
tfos_status tfos__trainer_check_finite(tfos__trainer *trainer, tfos_error *error);

/* The state of the best epoch so far is kept, or becomes the state. */
tfos_status tfos__trainer_keep_best(tfos__trainer *trainer, tfos_error *error);
tfos_status tfos__trainer_use_best(tfos__trainer *trainer, tfos_error *error);

/* ---- trainer_events.c ---- */

void tfos__trainer_events_open(tfos__trainer *trainer);
void tfos__trainer_events_close(tfos__trainer *trainer);
void tfos__trainer_events_add(tfos__trainer *trainer, const tfos__step_values *values, bool epoch_end,
                              double rows_per_s);

/* ---- model_export.c ---- */

/* Writes the model for prediction that is beside a trainable one, with its weights as they are. It appears whole; a
 * model that was there is replaced. */
tfos_status tfos__export_write(const tfos__tensorflow *tf, tfos__trainable *trained, const char *folder,
                               tfos_error *error);

#endif
