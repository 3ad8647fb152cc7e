/* A TensorFlow server in this process: a task of a cluster that runs what others send it, as parameter servers and the
 * workers of ParameterServerStrategy do. */
#ifndef TFOS_TENSORFLOW_SERVER_H
#define TFOS_TENSORFLOW_SERVER_H

#include "base/bytes.h"
#include "tensorflow/api.h"
#include "tensorflow/cluster_spec.h"

/* Appends to `out` the message tensorflow.ServerDef for a task of a cluster, the same bytes as TensorFlow's Python
 * makes for tf.distribute.Server. `inter_op_threads` goes into default_session_config unless it is 0. INVALID if the
 * cluster has no such task.
 *
 * Owner: `out` is the caller's.
 * Thread: any. */
tfos_status tfos__server_encode(const tfos__cluster_spec *cluster, const char *job, int64_t task,
                                int32_t inter_op_threads, tfos__buffer *out, tfos_error *error);

/* Starts the server of a task; it serves when this returns. A port that is taken is named.
 *
 * TensorFlow cannot stop a server that has been started (and aborts when one is deleted): it ends with the process.
 *
 * Owner: the process.
 * Thread: any. */
tfos_status tfos__server_start(const tfos__tensorflow *tf, const tfos__cluster_spec *cluster, const char *job,
                               int64_t task, TF_Server **out, tfos_error *error);

/* Waits for as long as the server serves: it returns only with a failure.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
tfos_status tfos__server_join(const tfos__tensorflow *tf, TF_Server *server, tfos_error *error);

#endif
