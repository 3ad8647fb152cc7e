/* Appends rows of a finished vector to one that is being built: the copy out of a lane, and out of a batch. */
#ifndef TFOS_COLUMN_APPEND_H
#define TFOS_COLUMN_APPEND_H

#include "column/vector.h"

/* Appends rows `first` to `first + count` of `from`, whose levels have the same layout, type and length as those of
 * `to`; but a LIST takes the rows of a FIXED_LIST, and a FIXED_LIST takes a LIST whose rows have its length: otherwise
 * MISMATCH, with the row and both lengths. LIMIT when the offsets of `to` would pass 32 bits. After a failure `to` has
 * the rows that it had. */
tfos_status tfos__vector_append(tfos__vector *to, const tfos_vector *from, int64_t first, int64_t count,
                                tfos_error *error);

#endif
