/* tfos/model.h: SavedModels, as a driver looks at them.
 *
 *   model plan       what a model takes of the rows of a DataFrame, and what it gives for each. It is read from the
 *                    model's file, without TensorFlow.
 *   trainer plan     what a trainer will do with its options: checked before anything is started.
 *
 * Errors. NOT_FOUND: there is no model, no graph with these tags, or no such signature. MISMATCH: names, types or
 * shapes do not fit; the message has what the signature wants and what the rows have. UNSUPPORTED: no column can be
 * that. INVALID: an option makes no sense.
 *
 * Ownership. What a plan has is its own.
 *
 * Threads. Any. */
#ifndef TFOS_MODEL_H
#define TFOS_MODEL_H

#include "tfos/fs.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfos_model_plan {
    char *fed;     /* the schema of the columns that are fed, in this order, as Spark's StructType.json() gives it */
    char *columns; /* what is declared for them, as in tfos_spark_rows_new */
    char *results; /* the schema of results, as Spark has it */
    char *order;   /* the order, for those who carry it out: what had to be looked for in the model is in it */
    int64_t batch_rows; /* that each run of the model must have; -1: it takes any number */
} tfos_model_plan;

/* `served` reaches folders with a scheme, and may be NULL. `tags` have commas between them. `order` is JSON:
 *
 *   {"signature": "serving_default",
 *    "inputs": {COLUMN: TENSOR, …},     null or missing: columns have the names of inputs, or there is one of each
 *    "lenient": false,                  true: pairs of "inputs" are left out if the signature has no such TENSOR
 *    "outputs": {TENSOR: COLUMN, …},    null or missing: every output, under its name
 *    "layers": {LAYER: OUTPUT, …}}      null or missing: if "outputs" names layers, they are looked for
 *
 * A TENSOR is the name of an input or output, of its tensor in the graph, or its position as a text: "0"; of outputs
 * also the name of the layer that makes it. `schema` is that of the rows, as Spark's StructType.json() gives it.
 *
 * Owner: the caller resets *out with tfos_model_plan_reset.
 * Thread: any. */
TFOS_API tfos_status tfos_model_plan_make(const tfos_file_system *served, const char *folder, const char *tags,
                                          const char *order, const char *schema, tfos_model_plan *out,
                                          tfos_error *error);

/* Owner: frees what the plan has.
 * Thread: one at a time per plan. */
TFOS_API void tfos_model_plan_reset(tfos_model_plan *plan);

/* Checks the options of a trainer, as JSON (docs/native.md lists them), and the model that they name. `served` reaches
 * a model whose folder has a scheme, and may be NULL. *plan is JSON:
 *
 *   {"columns": [columns of rows that the model takes, …], "inputs": [those among them that it predicts from, …],
 *    "optional": [those that may be missing, …], "fed": whether Spark feeds it, "validates": whether it is validated,
 *    "together": whether it can have many workers, "restart_problem": why a cluster of it cannot be started again, or
 *    null, "options": {option: its value, also by default, …},
 *    "settings": {those of a cluster of trainers that differ from the defaults: value, unless somebody sets them, …}}
 *
 * Owner: the caller frees *plan with tfos_string_free.
 * Thread: any. */
TFOS_API tfos_status tfos_trainer_plan(const tfos_file_system *served, const char *options, size_t bytes, char **plan,
                                       tfos_error *error);

#ifdef __cplusplus
}
#endif

#endif /* TFOS_MODEL_H */
