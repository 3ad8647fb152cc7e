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
 * Owner: the process.
 * Thread: any. */
tfos_status tfos__ops_register(const tfos__tensorflow *tf, tfos_error *error);

enum { TFOS__OPS_WAIT_MS = 200 };

/* ---- between the files of the ops ---- */

/* Add ops and their kernels. */
void tfos__ops_add_feed(const tfos__tensorflow *tf, TF_Status *status);
void tfos__ops_add_merge(const tfos__tensorflow *tf, TF_Status *status);

/* A text attribute of any length, with its end. NULL after a failure, which is in `status`, or without memory. The
 * caller frees it. */
char *tfos__ops_read_text(const tfos__tensorflow *tf, TF_OpKernelConstruction *from, const char *name, size_t *bytes,
                          TF_Status *status);

/* SIGINTs so far, counted before Python's handler notes them. Always 0 where there is no Python, or where it was told
 * to leave the signal to the system. */
unsigned tfos__ops_interrupts(void);

/* What a kernel writes its outputs with. */
typedef struct tfos__ops_outputs {
    const tfos__tensorflow *tf;
    TF_OpKernelContext *context;
    TF_Status *status; /* of TensorFlow, when a call fails with TFOS_IO and without a message */
    int next;          /* output */
} tfos__ops_outputs;

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
