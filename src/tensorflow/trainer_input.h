/* The batches of a trainer, from files or from the feed. A thread makes tensors of them, some batches ahead of whoever
 * takes steps.
 *
 * Of files, an epoch is all rows of this worker's shard, in an order that depends on the seed and the epoch alone. Of
 * the feed, it is what comes until the mark of its end. */
#ifndef TFOS_TENSORFLOW_TRAINER_INPUT_H
#define TFOS_TENSORFLOW_TRAINER_INPUT_H

#include "tensorflow/trainable.h"
#include "tensorflow/trainer_options.h"

typedef struct tfos__trainer_input tfos__trainer_input;

typedef struct tfos__trainer_input_options {
    const tfos__trainable *model;
    const tfos__trainer_options *of;
    bool validation; /* what it is validated with, instead of what is trained on */
    size_t shard;
    size_t shards;
    bool (*stops)(void *context); /* asked ten times a second by whoever waits for rows: true ends the wait */
    void *stops_context;
} tfos__trainer_input_options;

/* Finds files and their schema, or opens the queue. Everything in `options` must live as long.
 *
 * The caller closes *out with tfos__trainer_input_close. */
tfos_status tfos__trainer_input_open(const tfos__trainer_input_options *options, tfos__trainer_input **out,
                                     tfos_error *error);
void tfos__trainer_input_close(tfos__trainer_input *input);

/* Begins the epoch `epoch`, counted from 0, behind its first `skip` batches. */
tfos_status tfos__trainer_input_begin(tfos__trainer_input *input, int64_t epoch, int64_t skip, tfos_error *error);

/* The next batch. END: the epoch is over. CANCELLED: somebody wants the wait to end.
 *
 * The caller gives *out up with tfos__step_batch_free. */
tfos_status tfos__trainer_input_next(tfos__trainer_input *input, tfos__step_batch **out, tfos_error *error);

/* Leaves the rest of an epoch, which may be over. */
void tfos__trainer_input_leave(tfos__trainer_input *input);

/* Whether no epoch follows the one that was left: the feed has ended. Never of files. */
bool tfos__trainer_input_ended(const tfos__trainer_input *input);

/* Epochs of the feed that have ended, with rows or without. */
int64_t tfos__trainer_input_epochs(const tfos__trainer_input *input);

/* Wants no more rows: feeding ends for the whole cluster. */
tfos_status tfos__trainer_input_terminate(tfos__trainer_input *input, tfos_error *error);

/* What says which data these are: a text that is the same for the same files, order and shards. NULL of a feed. */
const char *tfos__trainer_input_about(const tfos__trainer_input *input);

/* The files. NULL of a feed. */
const tfos_paths *tfos__trainer_input_paths(const tfos__trainer_input *input);

/* Rows of a batch that is not the last. */
int64_t tfos__trainer_input_batch_rows(const tfos__trainer_input *input);

/* Rows that were left out because the model takes batches of one size, and records that were damaged, of all epochs
 * that were left. */
int64_t tfos__trainer_input_dropped(const tfos__trainer_input *input);
int64_t tfos__trainer_input_skipped(const tfos__trainer_input *input);

#endif
