/* A trainable model: a session over what `native.export` has written, whose signatures are steps of training. The
 * contract of these is in docs/design.md, "Trainable models".
 *
 *   rows (batch) ──► tensors ──► train, train_together or evaluate ──► what the step says, added to sums
 *                                             │ variables
 *                                save, restore, take, put
 *
 * Steps, and all that touches variables, are called by one thread at a time; tensors may be made by another. */
#ifndef TFOS_TENSORFLOW_TRAINABLE_H
#define TFOS_TENSORFLOW_TRAINABLE_H

#include "tensorflow/binding.h"
#include "tensorflow/description.h"
#include "tensorflow/session.h"

typedef struct tfos__trainable tfos__trainable;

typedef struct tfos__trainable_options {
    const char *folder; /* local */
    int threads;        /* that an op may use for itself */
    bool together;      /* with other workers: the ops of tfos must have been registered */
} tfos__trainable_options;

/* NOT_FOUND, CORRUPT and UNSUPPORTED as tfos__description_read and tfos__session_open say; UNSUPPORTED also for a model
 * without a step of many workers, if that is wanted. */
tfos_status tfos__trainable_load(const tfos__tensorflow *tf, const tfos__trainable_options *options,
                                 tfos__trainable **out, tfos_error *error);
void tfos__trainable_free(tfos__trainable *trainable);

const tfos__description *tfos__trainable_about(const tfos__trainable *trainable);
const char *tfos__trainable_folder(const tfos__trainable *trainable);

/* ---- rows ---- */

/* Which columns of rows become which tensors. */
typedef struct tfos__trainable_rows tfos__trainable_rows;

/* `columns` is an object {COLUMN: NAME of a port}, or NULL: columns have the names of ports. MISMATCH says what the
 * model wants and what the rows have. Sample weights without a column are ones.
 *
 * The caller frees *out with tfos__trainable_rows_free; the model must live as long. */
tfos_status tfos__trainable_rows_new(const tfos__trainable *trainable, const tfos_schema *schema, json_object *columns,
                                     tfos__trainable_rows **out, tfos_error *error);
void tfos__trainable_rows_free(tfos__trainable_rows *rows);

/* The column of a port, by its name or by what is mapped to it. */
const char *tfos__port_column(const tfos__port *port, json_object *columns);

/* MISMATCH: a column is mapped to a name that no port has. */
tfos_status tfos__ports_check_columns(const tfos__description *about, json_object *columns, tfos_error *error);

/* A batch as a step takes it. */
typedef struct tfos__step_batch {
    int64_t rows;
    size_t count;
    TF_Tensor *tensors[]; /* for each port */
} tfos__step_batch;

/* The caller frees *out with tfos__step_batch_free. Tensors may have the memory of the batch.
 *
 * Thread: any. */
tfos_status tfos__step_batch_new(const tfos__trainable *trainable, const tfos__trainable_rows *rows, tfos_batch *batch,
                                 tfos__step_batch **out, tfos_error *error);
void tfos__step_batch_free(const tfos__trainable *trainable, tfos__step_batch *batch);

/* ---- steps ---- */

typedef enum tfos__step_kind { TFOS__STEP_TRAIN, TFOS__STEP_TOGETHER, TFOS__STEP_EVALUATE } tfos__step_kind;

/* What steps have said, added up. Everything in `at` is a sum, over steps and over workers:
 *
 *   at = | metrics, as many as the description says | means, each times its rows | rows | steps | loss, times rows | */
typedef struct tfos__step_sums {
    size_t metrics;
    size_t means;
    size_t count; /* of all */
    double *at;
} tfos__step_sums;

tfos_status tfos__step_sums_init(const tfos__trainable *trainable, tfos__step_kind kind, tfos__step_sums *out,
                                 tfos_error *error);
void tfos__step_sums_reset(tfos__step_sums *sums);
void tfos__step_sums_clear(tfos__step_sums *sums);

static inline double tfos__step_sums_rows(const tfos__step_sums *sums)
{
    return sums->at[sums->metrics + sums->means];
}

static inline double tfos__step_sums_steps(const tfos__step_sums *sums)
{
    return sums->at[sums->metrics + sums->means + 1];
}

static inline double tfos__step_sums_loss(const tfos__step_sums *sums)
{
    return sums->at[sums->metrics + sums->means + 2];
}

typedef struct tfos__step_told {
    double loss;        /* of this batch, before the step */
    int64_t iterations; /* behind the step; -1 of an evaluation */
} tfos__step_told;

/* Takes a step. `rate` is that of learning; below 0: the optimizer's own. What it says is added to `sums`. */
tfos_status tfos__trainable_step(tfos__trainable *trainable, tfos__step_kind kind, const tfos__step_batch *batch,
                                 double rate, tfos__step_sums *sums, tfos__step_told *out, tfos_error *error);

enum { TFOS__STEP_VALUES = 128, TFOS__STEP_NAME_BYTES = 64 };

typedef struct tfos__step_value {
    char name[TFOS__STEP_NAME_BYTES];
    double value;
} tfos__step_value;

/* Values by their names. What does not fit is left out. */
typedef struct tfos__step_values {
    size_t count;
    tfos__step_value at[TFOS__STEP_VALUES];
} tfos__step_values;

/* Adds a value; `prefix` stands before its name. */
void tfos__step_values_add(tfos__step_values *values, const char *prefix, const char *name, double value);

/* NULL: there is none. */
const double *tfos__step_values_find(const tfos__step_values *values, const char *name);

/* What sums come to: results of metrics, and means. Added to *out, each with the prefix. Of a result that is a list
 * each element is a value, NAME_0, NAME_1, … */
tfos_status tfos__trainable_results(tfos__trainable *trainable, tfos__step_kind kind, const tfos__step_sums *sums,
                                    const char *prefix, tfos__step_values *out, tfos_error *error);

/* ---- state ---- */

typedef struct tfos__trainable_status {
    int64_t iterations;
    double rate; /* the optimizer's own */
} tfos__trainable_status;

tfos_status tfos__trainable_status_of(tfos__trainable *trainable, tfos__trainable_status *out, tfos_error *error);

/* What `fit` does at its end: averages of weights are put in their place. */
tfos_status tfos__trainable_finalize(tfos__trainable *trainable, tfos_error *error);

/* A call of all workers: state becomes that of the worker whose `source` is 1, it being 0 on all others; moving
 * statistics become the mean over `rows`. */
tfos_status tfos__trainable_synchronize(tfos__trainable *trainable, double source, double rows, tfos_error *error);

/* Writes and reads all variables, as a checkpoint of TensorFlow's with this prefix, in a folder that is there. */
tfos_status tfos__trainable_save(tfos__trainable *trainable, const char *prefix, tfos_error *error);
tfos_status tfos__trainable_restore(tfos__trainable *trainable, const char *prefix, tfos_error *error);

/* All variables as they are at a moment, in memory. TensorFlow copies a variable when it is written to while this is
 * held; until then nothing is copied. */
typedef struct tfos__snapshot tfos__snapshot;

/* Takes one, into *out, which may hold one before. */
tfos_status tfos__trainable_take(tfos__trainable *trainable, tfos__snapshot **out, tfos_error *error);

/* Variables become what they were. */
tfos_status tfos__trainable_put(tfos__trainable *trainable, const tfos__snapshot *snapshot, tfos_error *error);

/* Whether all numbers of all variables are finite. */
tfos_status tfos__trainable_is_finite(tfos__trainable *trainable, bool *out, tfos_error *error);
void tfos__snapshot_free(const tfos__trainable *trainable, tfos__snapshot *snapshot);

/* ---- between the files of trainable models ---- */

const tfos__session *tfos__trainable_session(const tfos__trainable *trainable);
const tfos__signature *tfos__trainable_signature(const tfos__trainable *trainable); /* of steps */

/* The graph's part of snapshots: made when the first is taken. */
typedef struct tfos__variables {
    size_t count;
    TF_Output *reads;
    TF_Output *fills;
    const TF_Operation **assigns;
} tfos__variables;

tfos_status tfos__variables_init(const tfos__session *session, tfos__variables *out, tfos_error *error);
void tfos__variables_reset(tfos__variables *variables);
tfos__variables *tfos__trainable_variables(tfos__trainable *trainable);

#endif
