/* A trainer: takes an exported model through its epochs, alone or together with the workers of a group, and leaves
 * checkpoints, event files and a model for prediction.
 *
 *   input ──► steps ──► tally (all workers, now and then): what was seen, and what to do next
 *                          │
 *              report, checkpoint, stop
 *
 * Workers take the same steps, one batch each. At a *tally* they add up what they have seen since the last one; the
 * first of them says with it whether a checkpoint is due and when the next tally is, and any of them that it wants to
 * stop. So all do the same at the same step, and a checkpoint is a state that all had. A worker whose data has ended
 * joins, and takes part in nothing until the epoch ends for all. */
#ifndef TFOS_TENSORFLOW_TRAINER_H
#define TFOS_TENSORFLOW_TRAINER_H

#include "tensorflow/trainable.h"
#include "tensorflow/trainer_options.h"

/* How training goes. */
typedef struct tfos__trainer_report {
    int64_t epoch;  /* from 1 */
    int64_t epochs; /* 0: nobody knows */
    int64_t step;   /* over all runs */
    int64_t steps;  /* 0: nobody knows */
    int64_t rows;   /* of all workers, since this run began */
    bool epoch_end; /* the values are those of a whole epoch */
    bool first;     /* this is the first worker, who speaks for all */
    const tfos__step_values *values;
} tfos__trainer_report;

/* Whoever hears of it; any function may be NULL. All but `breaks` are called by the thread that trains. */
typedef struct tfos__trainer_listener {
    void *context;
    void (*report)(void *context, const tfos__trainer_report *report);
    void (*say)(void *context, const char *text); /* a sentence for people */
    void (*pace)(void *context, int64_t ms);      /* about how long a step takes now */
    bool (*stops)(void *context);                 /* training is to end at the next tally, with a checkpoint */
    bool (*breaks)(void *context); /* … and whoever waits for rows or for others is not to wait any more */
} tfos__trainer_listener;

/* Why training has ended. X(name, "word"). */
#define TFOS__TRAINER_END_MAP(X)                                                                                       \
    X(DATA, "data")       /* there are no more epochs */                                                               \
    X(STEPS, "steps")     /* as many steps as were wanted */                                                           \
    X(EARLY, "early")     /* no epoch was better for a while */                                                        \
    X(STOPPED, "stopped") /* it was told to */

typedef enum tfos__trainer_end {
#define TFOS__TRAINER_END_ENUM(name, word) TFOS__TRAINER_END_##name,
    TFOS__TRAINER_END_MAP(TFOS__TRAINER_END_ENUM)
#undef TFOS__TRAINER_END_ENUM
} tfos__trainer_end;

const char *tfos__trainer_end_name(tfos__trainer_end end);

typedef struct tfos__trainer_outcome {
    tfos__trainer_end end;
    int64_t epochs;        /* that are complete, over all runs */
    int64_t steps;         /* over all runs */
    int64_t rows;          /* of all workers, in this run */
    double seconds;        /* from the first epoch of this run to the end of the last */
    int64_t skipped_steps; /* whose loss was not finite */
    int64_t skipped_rows;
    int64_t dropped_rows;    /* of all workers: they did not fill a batch of the one size that the model takes */
    int64_t damaged_records; /* of all workers: they were skipped */
    char *checkpoint;        /* the last one, of the first worker; NULL: none */
    bool exported;
    tfos__step_values values; /* of the last epoch */
} tfos__trainer_outcome;

/* Trains. The process may be a program of a node, and is one of the workers of its cluster then; otherwise it is alone.
 *
 * Owner: the caller resets *out with tfos__trainer_outcome_reset. `error` is not NULL. */
tfos_status tfos__trainer_run(const tfos__tensorflow *tf, const tfos__trainer_options *options,
                              const tfos__trainer_listener *listener, tfos__trainer_outcome *out, tfos_error *error);
void tfos__trainer_outcome_reset(tfos__trainer_outcome *outcome);

#endif
