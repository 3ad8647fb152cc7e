/* What a trainer is told: an object of JSON, which Python, Java and the command make, and one function reads. */
#ifndef TFOS_TENSORFLOW_TRAINER_OPTIONS_H
#define TFOS_TENSORFLOW_TRAINER_OPTIONS_H

#include <json-c/json.h>

#include "tfos.h"

/* What becomes of a step whose loss is not a finite number. */
typedef enum tfos__on_nan {
    TFOS__ON_NAN_STOP,     /* training fails */
    TFOS__ON_NAN_CONTINUE, /* it goes on, as fit does */
    TFOS__ON_NAN_SKIP,     /* the step is undone, on all workers, and its rows are counted as skipped */
} tfos__on_nan;

/* Which values of what is monitored are better. */
typedef enum tfos__monitor_mode { TFOS__MONITOR_AUTO, TFOS__MONITOR_MIN, TFOS__MONITOR_MAX } tfos__monitor_mode;

typedef struct tfos__texts {
    const char **at;
    size_t count;
} tfos__texts;

/* From a step on. */
typedef struct tfos__rate_step {
    int64_t step;
    double rate;
} tfos__rate_step;

/* X(kind, member, key, default, least, most, "meaning"), in the order of the documentation. NUMBER is whole, REAL is
 * not, SWITCH is true or false. What has another form (data, validation, columns, learning_rate) is not in it. */
#define TFOS__TRAINER_OPTION_MAP(X)                                                                                    \
    X(TEXT, model, "model", NULL, 0, 0, "the folder that native.export has written")                                   \
    X(TEXT, queue, "queue", "input", 0, 0, "the queue that Spark feeds, where there are no files")                     \
    X(NUMBER, batch_rows, "batch_size", 32, 1, 1 << 24, "rows of a batch, on each worker")                             \
    X(NUMBER, epochs, "epochs", 1, 1, INT32_MAX,                                                                       \
      "how often the files are read; what Spark feeds has epochs of its own")                                          \
    X(NUMBER, steps, "steps", 0, 0, INT64_MAX / 2,                                                                     \
      "training ends with this step, counted over all runs; 0: with the data")                                         \
    X(NUMBER, shuffle_rows, "shuffle", 16384, 0, 1 << 30,                                                              \
      "rows of files that each row is drawn from; 0: in their order")                                                  \
    X(NUMBER, seed, "seed", 0, 0, INT64_MAX / 2, "of the order of rows")                                               \
    X(TEXT, model_dir, "model_dir", NULL, 0, 0, "where checkpoints are written to, and looked for")                    \
    X(TEXT, export_dir, "export_dir", NULL, 0, 0, "where the trained model is written to, for prediction")             \
    X(TEXT, log_dir, "log_dir", NULL, 0, 0, "event files for TensorBoard; by default in model_dir")                    \
    X(NUMBER, save_steps, "save_steps", 0, 0, INT64_MAX / 2, "steps between two checkpoints; 0: by time alone")        \
    X(REAL, save_s, "save_seconds", 600, 0, 1e12, "seconds between two checkpoints; 0: by steps alone")                \
    X(NUMBER, keep, "keep", 5, 1, 1 << 20, "checkpoints that are kept")                                                \
    X(SWITCH, resume, "resume", true, 0, 1, "go on from the newest checkpoint in model_dir")                           \
    X(TEXT, monitor, "monitor", NULL, 0, 0, "the value that early stopping looks at; val_loss, or loss")               \
    X(NUMBER, patience, "patience", -1, -1, INT32_MAX,                                                                 \
      "early stopping: epochs without a better value after which training ends; -1: never")                            \
    X(REAL, min_delta, "min_delta", 0, 0, 1e300, "by how much a better value is better, at least")                     \
    X(CHOICE, mode, "mode", "auto", 0, 0, "min, max, or auto: max for accuracy, auc, precision, recall and the like")  \
    X(SWITCH, restore_best, "restore_best", true, 0, 1, "early stopping goes back to the best epoch")                  \
    X(CHOICE, on_nan, "on_nan", "stop", 0, 0,                                                                          \
      "what becomes of a step whose loss is not finite: stop, continue or skip")                                       \
    X(CHOICE, on_corrupt, "on_corrupt", "error", 0, 0, "what becomes of damaged records: error or skip")               \
    X(NUMBER, threads, "threads", 0, 0, 1024, "threads of TensorFlow's; 0: as many as the node has cores")             \
    X(TEXT, python, "python", NULL, 0, 0, "the Python whose TensorFlow is used, if it is not found otherwise")

typedef struct tfos__trainer_options {
    json_object *text; /* the texts below are its */
    tfos__texts data;  /* files, folders and globs; none: Spark feeds */
    tfos__texts validation;
    bool validates;       /* there is validation, of files or fed */
    json_object *columns; /* {COLUMN: NAME}, or NULL */
    tfos__rate_step *rates;
    size_t rate_count;     /* 0: the optimizer's own rate */
    tfos__texts libraries; /* of ops */
    int64_t attempt;       /* of the cluster that it is in, from 0 on */
    const char *run;       /* a name that restarts of this training share, NULL for none */
    const char *model;
    const char *queue;
    int64_t batch_rows;
    int64_t epochs;
    int64_t steps;
    int64_t shuffle_rows;
    int64_t seed;
    const char *model_dir;
    const char *export_dir;
    const char *log_dir;
    int64_t save_steps;
    double save_s;
    int64_t keep;
    bool resume;
    const char *monitor;
    int64_t patience;
    double min_delta;
    int mode; /* tfos__monitor_mode */
    bool restore_best;
    int on_nan;     /* tfos__on_nan */
    int on_corrupt; /* tfos_on_corrupt */
    int64_t threads;
    const char *python;
} tfos__trainer_options;

typedef enum tfos__option_kind {
    TFOS__OPTION_TEXT,
    TFOS__OPTION_NUMBER,
    TFOS__OPTION_REAL,
    TFOS__OPTION_SWITCH,
    TFOS__OPTION_CHOICE,
} tfos__option_kind;

/* A line of the map. */
typedef struct tfos__trainer_option {
    tfos__option_kind kind;
    const char *key;
    size_t offset; /* in tfos__trainer_options */
    double least;
    double most;
    const char *fallback; /* as it stands in the map: "NULL", "32", … */
    const char *meaning;
} tfos__trainer_option;

/* NULL: there are no more. */
const tfos__trainer_option *tfos__trainer_option_at(size_t index);

/* The word of an option of the kind CHOICE. */
const char *tfos__trainer_choice_name(const tfos__trainer_option *option, int value);

/* INVALID says which key has what is wrong with it; a key that there is not is one, too. */
tfos_status tfos__trainer_options_parse(const char *text, size_t bytes, tfos__trainer_options *out, tfos_error *error);
void tfos__trainer_options_reset(tfos__trainer_options *options);

/* The rate of a step; below 0: the optimizer's own. */
double tfos__trainer_rate(const tfos__trainer_options *options, int64_t step);

#endif
