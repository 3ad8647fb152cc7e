/* A model: a SavedModel in TensorFlow's memory, which makes results of rows. Several threads may run it at once.
 *
 *   rows (batch) ──► tensors ──► TF_SessionRun ──► tensors ──► results (batch)
 *
 * Numbers that lie in a column as they do in a tensor are not copied on the way, in either direction. */
#ifndef TFOS_TENSORFLOW_MODEL_H
#define TFOS_TENSORFLOW_MODEL_H

#include "tensorflow/binding.h"
#include "tensorflow/session.h"

typedef struct tfos__model tfos__model;

typedef tfos__session_options tfos__model_options;

/* Loads a model, as tfos__session_open does. */
tfos_status tfos__model_load(const tfos__tensorflow *tf, const tfos__model_options *options, tfos__model **out,
                             tfos_error *error);
void tfos__model_free(tfos__model *model);

/* What it says of itself, for bindings. */
const tfos__saved_model *tfos__model_about(const tfos__model *model);

/* Results of the rows, one for each. Where the signature has a fixed number of rows, at most so many may be given, and
 * are filled up.
 *
 * The caller gives *out up with tfos_batch_free.
 * Thread: any. */
tfos_status tfos__model_run(tfos__model *model, const tfos__binding *binding, tfos_batch *rows, tfos_batch **out,
                            tfos_error *error);

/* ---- between the files of the model ---- */

/* A column of a batch as the tensor of an input, with rows added at the end until there are `rows`: the last one again.
 * The tensor may have the memory of the batch, and holds a reference to it. */
tfos_status tfos__model_tensor_of(const tfos__tensorflow *tf, const tfos__bound *input, tfos_batch *batch, int64_t rows,
                                  TF_Tensor **out, tfos_error *error);

/* The first `rows` rows of the tensor of an output, which must have `all_rows`, as a column of `batch`, which may have
 * the tensor's memory. */
tfos_status tfos__model_column_of(const tfos__tensorflow *tf, const tfos__bound *output, const TF_Tensor *tensor,
                                  int64_t rows, int64_t all_rows, tfos_batch *batch, tfos_error *error);

#endif
