/* The note of a schema that says how rows of Python were made columns; see tfos/rows.h. */
#ifndef TFOS_COLUMN_ROWS_NOTE_H
#define TFOS_COLUMN_ROWS_NOTE_H

#include "tfos.h"

/* What a note says. *out is freed with tfos__rows_free; of NULL, or of a note that is not of rows, it has the shape
 * NONE. CORRUPT says what is wrong with one that is. */
tfos_status tfos__rows_parse(const char *note, tfos_rows **out, tfos_error *error);
void tfos__rows_free(tfos_rows *rows);

/* What it says of the column called `name`, which is mostly the one at `index`; NULL: nothing. */
const tfos_row_kind *tfos__rows_find(const tfos_rows *rows, size_t index, const char *name);

#endif
