/* tfos/model.h: SavedModels, as a driver looks at them.
 *
 *   model plan       what a model takes of the rows of a DataFrame, and what it gives for each. It is read from the
 *                    model's file, without TensorFlow.
 *
 * Errors. NOT_FOUND: there is no model, no graph with these tags, or no such signature. MISMATCH: names, types or
 * shapes do not fit; the message has what the signature wants and what the rows have. UNSUPPORTED: no column can be
 * that.
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
    int64_t batch_rows; /* that each run of the model must have; -1: it takes any number */
} tfos_model_plan;

/* `served` reaches folders with a scheme, and may be NULL. `tags` have commas between them. `order` is JSON:
 *
 *   {"signature": "serving_default",
 *    "inputs": {COLUMN: TENSOR, …},     null or missing: columns have the names of inputs, or there is one of each
 *    "outputs": {TENSOR: COLUMN, …}}    null or missing: every output, under its name
 *
 * A TENSOR is the name of an input or output, of its tensor in the graph, or its position as a text: "0". `schema` is
 * that of the rows, as Spark's StructType.json() gives it.
 *
 * Owner: the caller resets *out with tfos_model_plan_reset.
 * Thread: any. */
TFOS_API tfos_status tfos_model_plan_make(const tfos_file_system *served, const char *folder, const char *tags,
                                          const char *order, const char *schema, tfos_model_plan *out,
                                          tfos_error *error);

/* Owner: frees what the plan has.
 * Thread: one at a time per plan. */
TFOS_API void tfos_model_plan_reset(tfos_model_plan *plan);

#ifdef __cplusplus
}
#endif

#endif /* TFOS_MODEL_H */
