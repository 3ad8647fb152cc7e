/* Ops of our own for TensorFlow graphs: kernels in plain C, registered through the table of its C API. */
#ifndef TFOS_TENSORFLOW_OPS_H
#define TFOS_TENSORFLOW_OPS_H

#include "tensorflow/api.h"

/* Makes the ops known to TensorFlow, unless they are: to register one twice would end the process.
 *
 *   TfosFeedNext   the next rows of a queue of this process
 *     queue           its name
 *     schema          the columns that are wanted, in the JSON form of a schema; types that differ from those of the
 *                     rows are converted where nothing is lost
 *     batch_size      rows of a batch; fewer come only at an end …
 *     drop_remainder  … and are left out then
 *     split_epochs    the end of an epoch is an end
 *     epoch           … only of this one; -1: of whichever comes next
 *     T               the types of the components
 *     → goes_on       false: this is an end
 *     → has_rows      false and no end: there are none yet, or they were left out; ask again
 *     → components    for each column its values and, where it has lists of any length, the row splits of each level of
 *                     lists, outermost first. Without rows they are empty
 *
 * A call lasts no longer than TFOS__OPS_WAIT_MS and a moment: TensorFlow cannot interrupt a kernel in C, but stops
 * asking between two calls.
 *
 *   TfosMerge       a call of all workers (tfos/collective.h)
 *     token           the handle of one variable for all of them: TensorFlow keeps ops that use it in their order, also
 *                     across functions. Nothing is done with it
 *     weight          how much this worker counts
 *     tensors         what it has
 *     merges          what becomes of each of them, as numbers of tfos_merge
 *     root, about,    as in tfos_call_options; wire as a number of tfos_element
 *     wire
 *     → all_weight    of all workers
 *     → merged        for each tensor what became of it
 *   TfosMergeRows   the same, where some tensors are gathered: shapes of what comes out lack the first dimension
 *
 * These last until all have come.
 *
 *   TfosRecordsOpen begins to read TFRecord files
 *     files           names, folders and globs
 *     seed            of the order, where rows are shuffled
 *     schema          the columns, in the JSON form of a schema
 *     multiples, batch_size, codec, on_corrupt, threads, shuffle, shard, shards: as in tfos_read_options
 *     → reader        its number. The reader is closed when the memory of this tensor is given back
 *   TfosRecordsNext the next rows of a reader, as tf.io.parse_example gives them
 *     reader
 *     filler_values   what stands for missing values
 *     batch_size,     rows of a batch; fewer come only at the end, and are left out there if that is said
 *     drop_remainder
 *     columns, forms, for each output: the column, what becomes of it (ops_parsed.h), the number of its filler or -1,
 *     fillers, ranks  and how many of the dimensions are those of its row
 *     dimensions      of all outputs
 *     F, T            the types of fillers and components
 *     → components    for each output one, two or three. After the last rows the op fails with OUT_OF_RANGE
 *
 * Owner: the process.
 * Thread: any. */
tfos_status tfos__ops_register(const tfos__tensorflow *tf, tfos_error *error);

enum { TFOS__OPS_WAIT_MS = 200 };

/* ---- between the files of the ops ---- */

/* Add ops and their kernels. */
void tfos__ops_add_feed(const tfos__tensorflow *tf, TF_Status *status);
void tfos__ops_add_records(const tfos__tensorflow *tf, TF_Status *status);
void tfos__ops_add_merge(const tfos__tensorflow *tf, TF_Status *status);

/* A text attribute of any length, with its end. NULL after a failure, which is in `status`, or without memory. The
 * caller frees it. */
char *tfos__ops_read_text(const tfos__tensorflow *tf, TF_OpKernelConstruction *from, const char *name, size_t *bytes,
                          TF_Status *status);

/* SIGINTs so far, counted before Python's handler notes them. Always 0 where there is no Python, or where it was told
 * to leave the signal to the system. */
unsigned tfos__ops_interrupts(void);

/* As if there were another SIGINT: whatever kernels wait for, they do not wait any more. Safe in a signal handler. */
void tfos__ops_interrupt(void);

/* What a kernel writes its outputs with. */
typedef struct tfos__ops_outputs {
    const tfos__tensorflow *tf;
    TF_OpKernelContext *context;
    TF_Status *status; /* of TensorFlow, when a call fails with TFOS_IO and without a message */
    int next;          /* output */
} tfos__ops_outputs;

/* The shape of a tensor. */
enum { TFOS__OPS_DIMENSIONS_MOST = 16 };

typedef struct tfos__ops_shape {
    int64_t dim[TFOS__OPS_DIMENSIONS_MOST];
    int count;
} tfos__ops_shape;

/* The next output, with memory of TensorFlow's own in *data: strings in it are empty, numbers are not set. The caller
 * gives *tensor up by TF_DeleteTensor. `type` is a number of TensorFlow's. */
tfos_status tfos__ops_allocate(tfos__ops_outputs *out, int type, const tfos__ops_shape *of, TF_Tensor **tensor,
                               void **data, tfos_error *error);

/* The next output, over `data`, which is memory of the batch and not empty. TensorFlow does not write to it: it does
 * not own it. The tensor holds a reference to the batch. */
tfos_status tfos__ops_write_shared(tfos__ops_outputs *out, tfos_batch *batch, int type, const void *data,
                                   const tfos__ops_shape *of, tfos_error *error);

/* Values of bytes as strings of a tensor, one for each. */
void tfos__ops_copy_texts(const tfos__tensorflow *tf, const tfos_vector *values, TF_TString *to);

/* The components of a column of a batch, as `field` wants it. Numbers are not copied unless they are converted: tensors
 * hold references to the batch. MISMATCH for a null, RANGE for a number that does not fit. */
tfos_status tfos__ops_write_column(tfos__ops_outputs *out, tfos_batch *batch, size_t column, const tfos_field *field,
                                   tfos_error *error);

/* The components of a column without rows. */
tfos_status tfos__ops_write_empty(tfos__ops_outputs *out, const tfos_field *field, tfos_error *error);

/* A scalar bool. */
tfos_status tfos__ops_write_flag(tfos__ops_outputs *out, bool flag, tfos_error *error);

/* How many components a column has. */
int tfos__ops_component_count(const tfos_field *field);

/* TensorFlow's number of the type that values of a column have in a tensor. */
int tfos__ops_tensor_type(tfos_type type);

#endif
