/* Vector: one level of a column while it is being built, and the pushes that build it.
 *
 * `view` is what the batch shows when it is finished; while building, only view.layout, type, list_length, length and
 * null_count are kept current and the bytes are in the buffers. Hot loops (record/example_decode.c) write the buffers
 * themselves under the same rules:
 *
 *   VALUES       data holds length values; BOOL one bit each, bits beyond the length are 0
 *   BYTES        offsets holds length + 1 positions, offsets[0] is 0; data holds offsets[length] bytes
 *   LIST         offsets holds length + 1 positions; child holds offsets[length] rows
 *   FIXED_LIST   child holds length * list_length rows
 *   validity     covers validity.size * 8 rows, set bits are values; rows beyond are values too. A null row of a
 * FIXED_LIST has list_length zero values in the child, a null row of BYTES or LIST has none
 */
#ifndef TFOS_COLUMN_VECTOR_H
#define TFOS_COLUMN_VECTOR_H

#include <limits.h>

#include "base/bytes.h"
#include "base/status.h"
#include "column/schema.h"
#include "tfos.h"

typedef struct tfos__vector tfos__vector;
struct tfos__vector {
    tfos_vector view; /* first: a pointer to a tfos__vector is one to its view */
    tfos__buffer validity;
    tfos__buffer offsets;
    tfos__buffer data;
    const void *lent; /* VALUES: `length` of them that are somebody else's; then there is nothing in `data` */
    tfos__vector *child;
};

/* Offsets are 32 bits: no level of a batch has more values or bytes than this. */
#define TFOS__VECTOR_MAX ((int64_t)INT32_MAX)

/* The levels of a column of this field, empty. */
tfos_status tfos__vector_new(const tfos_field *field, tfos__vector **out, tfos_error *error);
void tfos__vector_free(tfos__vector *vector);

/* Empties the vector and its children; memory is kept for the next rows. */
void tfos__vector_clear(tfos__vector *vector);

/* Cuts the vector to its first `length` rows. */
void tfos__vector_truncate(tfos__vector *vector, int64_t length);

/* Makes room for `rows` rows in all at this level. */
tfos_status tfos__vector_reserve(tfos__vector *vector, int64_t rows, tfos_error *error);

/* Pushes: one more row. Numbers go to the innermost level's type: RANGE if they do not fit. */
tfos_status tfos__vector_push_null(tfos__vector *vector, tfos_error *error);
tfos_status tfos__vector_push_int(tfos__vector *vector, int64_t value, tfos_error *error);
tfos_status tfos__vector_push_real(tfos__vector *vector, double value, tfos_error *error);
tfos_status tfos__vector_push_bytes(tfos__vector *vector, const void *bytes, size_t count, tfos_error *error);

/* Adds values of zero, or empty ones, to the innermost level. Many at once: a null may stand for a fixed list of
 * millions. */
tfos_status tfos__vector_push_zeros(tfos__vector *vector, int32_t count, tfos_error *error);

/* Ends a row of a LIST or FIXED_LIST whose values have been pushed to the child. MISMATCH if a fixed list has another
 * length. */
tfos_status tfos__vector_push_list(tfos__vector *vector, tfos_error *error);

/* Makes an empty vector of VALUES, no bits, one of `length` values that lie elsewhere, for as long as the batch lives.
 */
void tfos__vector_lend(tfos__vector *vector, const void *values, int64_t length);

/* Marks a row that is already there as null. */
tfos_status tfos__vector_mark_null(tfos__vector *vector, int64_t row, tfos_error *error);

/* Sets the pointers of the views. The vector does not change after this until it is cleared. */
tfos_status tfos__vector_finish(tfos__vector *vector, tfos_error *error);

/* Bytes of memory held, children included. */
size_t tfos__vector_memory(const tfos__vector *vector);

/* Whether a row of a finished vector, of ours or of the public header's, has no value. */
static inline bool tfos__vector_is_null(const tfos_vector *vector, int64_t row)
{
    return vector->validity != NULL && !tfos__bit_get(vector->validity, row);
}

static inline int32_t *tfos__vector_offsets(tfos__vector *vector)
{
    return (int32_t *)(void *)vector->offsets.data;
}

#endif
