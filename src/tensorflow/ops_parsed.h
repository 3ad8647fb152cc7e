/* Columns of records as the tensors of tf.io.parse_example. */
#ifndef TFOS_TENSORFLOW_OPS_PARSED_H
#define TFOS_TENSORFLOW_OPS_PARSED_H

#include "tensorflow/ops.h"

/* What becomes of a column; the Python shell (data.py) says these numbers. */
typedef enum tfos__ops_form {
    TFOS__OPS_DENSE,
    TFOS__OPS_SPARSE,
    TFOS__OPS_RAGGED,
    TFOS__OPS_PADDED,
    TFOS__OPS_FORM_COUNT
} tfos__ops_form;

typedef struct tfos__ops_parsed {
    size_t column; /* of one value or of fixed length for DENSE, else a list of any length */
    tfos__ops_form form;
    tfos__ops_shape inner; /* of a row, or of one step of PADDED; it leaves room for two dimensions */
    int64_t inner_elements;
    int filler; /* number of the input that stands for what is missing; -1: none */
} tfos__ops_parsed;

/* The outputs of a column. `filler` is the memory of its input: all values of a row for DENSE, one for PADDED, where
 * NULL stands for zero or the empty string. A column that may have nulls has one, if it is DENSE. */
tfos_status tfos__ops_write_parsed(tfos__ops_outputs *out, tfos_batch *batch, const tfos__ops_parsed *parsed,
                                   const void *filler, tfos_error *error);

#endif
