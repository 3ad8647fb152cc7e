/* A session: a SavedModel in TensorFlow's memory, whose tensors can be fed and fetched. Several threads may run it at
 * once. */
#ifndef TFOS_TENSORFLOW_SESSION_H
#define TFOS_TENSORFLOW_SESSION_H

#include "tensorflow/api.h"
#include "tensorflow/saved_model.h"

typedef struct tfos__session {
    const tfos__tensorflow *tf;
    tfos__saved_model *about;
    TF_Graph *graph;
    TF_Session *session;
} tfos__session;

typedef struct tfos__session_options {
    const char *folder; /* local */
    const char *tags;   /* with commas between them */
    int threads;        /* that an op may use for itself; 1: the thread that runs the model, and no other */
} tfos__session_options;

/* Loads a model. What cannot run here is refused now: ops that this TensorFlow does not know, Python inside. */
tfos_status tfos__session_open(const tfos__tensorflow *tf, const tfos__session_options *options, tfos__session *out,
                               tfos_error *error);
void tfos__session_close(tfos__session *session);

/* A tensor of the graph, "op:1". CORRUPT: a signature names it, and the graph does not have it. */
tfos_status tfos__session_tensor(const tfos__session *session, const char *tensor, TF_Output *out, tfos_error *error);

typedef struct tfos__session_call {
    const TF_Output *inputs;
    TF_Tensor *const *input_values;
    size_t input_count;
    const TF_Output *outputs;
    TF_Tensor **output_values; /* the caller deletes them */
    size_t output_count;
    const TF_Operation *const *targets;
    size_t target_count;
} tfos__session_call;

/* `doing` begins the message of what TensorFlow says. */
tfos_status tfos__session_run(const tfos__session *session, const tfos__session_call *call, const char *doing,
                              tfos_error *error);

/* Writes and reads the variables of the model, as a checkpoint of TensorFlow's with this prefix, in a folder that is
 * there. One at a time, and nothing else beside it. */
tfos_status tfos__session_save(const tfos__session *session, const char *prefix, tfos_error *error);
tfos_status tfos__session_restore(const tfos__session *session, const char *prefix, tfos_error *error);

#endif
