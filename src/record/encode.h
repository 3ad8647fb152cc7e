/* Rows of a batch to tf.train.Example and SequenceExample. */
#ifndef TFOS_RECORD_ENCODE_H
#define TFOS_RECORD_ENCODE_H

#include "base/bytes.h"
#include "tfos.h"

/* What is the same for every row: the encoded names, in the order of the schema. */
typedef struct tfos__encoder tfos__encoder;

tfos_status tfos__encoder_new(const tfos_schema *schema, tfos__encoder **out, tfos_error *error);
void tfos__encoder_free(tfos__encoder *encoder);

/* Appends the encoded record of one row to `out`. The batch has the encoder's schema. A null leaves the feature out. */
tfos_status tfos__encoder_row(const tfos__encoder *encoder, const tfos_batch *batch, int64_t row, tfos__buffer *out,
                              tfos_error *error);

#endif
