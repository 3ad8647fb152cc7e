/* An epoch of a trainer that is read: a thread makes batches of rows, and puts them into a queue. */
#ifndef TFOS_TENSORFLOW_TRAINER_READING_H
#define TFOS_TENSORFLOW_TRAINER_READING_H

#include <pthread.h>
#include <stdatomic.h>

#include "tensorflow/trainer_input.h"

/* What all epochs are read from. */
typedef struct tfos__trainer_source {
    tfos__trainer_input_options options;
    int64_t batch_rows;
    bool exact; /* the model takes no smaller batch */
    /* One of these two. */
    tfos_feed *feed;
    tfos_paths *paths;
    tfos_store *store;   /* the memory of epochs that were read */
    tfos_schema *schema; /* of the files */
    const char **columns;
    size_t column_count;
} tfos__trainer_source;

enum { TFOS__READING_AHEAD = 16 }; /* batches that wait to be taken at most */

typedef struct tfos__reading {
    const tfos__trainer_source *of;
    pthread_t thread;
    bool runs;
    int64_t epoch;
    int64_t skip;
    tfos__trainable_rows *rows;
    tfos_schema *rows_schema; /* that they were bound for */
    atomic_bool leaves;       /* whoever takes wants no more of this epoch */
    atomic_bool ends;         /* the next epoch may begin to be read */
    /* Known when it was left: */
    int64_t dropped;
    int64_t damaged;
    bool ended; /* the feed has: no epoch follows */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    tfos__step_batch *ahead[TFOS__READING_AHEAD];
    size_t bytes[TFOS__READING_AHEAD]; /* of each */
    size_t first;
    size_t count;
    size_t all_bytes;
    size_t pause_until; /* so few are left; 0: there is no pause */
    tfos_status status; /* with which the thread has ended, behind what is in the queue; OK: it runs */
    tfos_error error;
} tfos__reading;

/* Everything in `of` must live as long. */
void tfos__reading_init(tfos__reading *reading, const tfos__trainer_source *of);
void tfos__reading_reset(tfos__reading *reading);

/* Whether somebody wants the reading to end (a tfos_reader's question). */
bool tfos__reading_is_left(void *reading);

/* Binds the columns of rows of this schema, unless they are bound. */
tfos_status tfos__reading_bind(tfos__reading *reading, const tfos_schema *schema, tfos_error *error);

/* Begins the epoch `epoch`, behind its first `skip` batches, on a reading that nobody has begun or that was left. */
tfos_status tfos__reading_begin(tfos__reading *reading, int64_t epoch, int64_t skip, tfos_error *error);

/* As tfos__trainer_input_next. */
tfos_status tfos__reading_take(tfos__reading *reading, tfos__step_batch **out, tfos_error *error);

/* Ends the thread, if there is one, and drops what it has made. */
void tfos__reading_leave(tfos__reading *reading);

#endif
