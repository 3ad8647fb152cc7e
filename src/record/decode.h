/* Records to rows of a batch. */
#ifndef TFOS_RECORD_DECODE_H
#define TFOS_RECORD_DECODE_H

#include "column/batch.h"
#include "record/shape.h"
#include "tfos.h"

/* Values of a batch that may stand for missing lists of a fixed length inside feature lists: each takes as much memory
 * as one that is there, and a small file could ask for any amount otherwise. */
enum { TFOS__MOST_FILLED_VALUES = 1 << 26 };

/* LIMIT: there are more, for lists of `length` values. */
tfos_status tfos__fail_filled(int32_t length, tfos_error *error);

/* What one thread needs to decode records of one schema. Not shared between threads. */
typedef struct tfos__decoder tfos__decoder;

tfos_status tfos__decoder_new(const tfos_schema *schema, tfos__decoder **out, tfos_error *error);
void tfos__decoder_free(tfos__decoder *decoder);

/* Begins a batch of up to `rows` rows. */
tfos_status tfos__decoder_begin(tfos__decoder *decoder, tfos_batch *batch, int64_t rows, tfos_error *error);

/* Bytes behind the end of a record that may be looked at: buffers have more. */
enum { TFOS__RECORD_SLACK_BYTES = TFOS__SHAPE_BLOCK_BYTES };

/* Appends one record as a row. On failure the batch is as before:
 * CORRUPT if the bytes are no such message; MISMATCH, RANGE, ENCODING or LIMIT, naming the column, if they do not go
 * with the schema. */
tfos_status tfos__decoder_row(tfos__decoder *decoder, const uint8_t *record, size_t bytes, tfos_error *error);

/* From now on the schema is a guess, made from some records, which the others must bear out: MISMATCH, too, where a
 * record has what a schema that is inferred from it would show. `asked` is the kind of record that was asked for; with
 * `some`, features without a column were not. */
void tfos__decoder_confirm(tfos__decoder *decoder, tfos_record_kind asked, bool some);

/* From now on lists of any length must have a multiple of so many values: a number for each column, 0 or 1 for any.
 * MISMATCH otherwise. */
void tfos__decoder_expect_multiples(tfos__decoder *decoder, const int32_t *multiples);

/* From now on as on a processor of the plain kind: for tests. */
void tfos__decoder_narrow(tfos__decoder *decoder);

/* Rows appended since begin. */
int64_t tfos__decoder_rows(const tfos__decoder *decoder);

#endif
