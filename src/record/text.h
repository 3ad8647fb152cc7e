/* Text: the bytes of a text file, in a window that moves over it. CSV and JSON lines are read through it. */
#ifndef TFOS_RECORD_TEXT_H
#define TFOS_RECORD_TEXT_H

#include "base/bytes.h"
#include "column/batch.h"
#include "tfos.h"

/* Reads up to `bytes`; *got is 0 only at the end. */
typedef tfos_status (*tfos__text_function)(void *context, void *to, size_t bytes, size_t *got, tfos_error *error);

/* No line of JSON and no CSV record is longer than this. */
enum { TFOS__TEXT_MAX_RECORD_BYTES = 64 << 20 };

/* The bytes [at, window.size) are there and not used yet. At the end of the file a line end is added if it has none, so
 * that every line ends in one. A byte order mark at the start is left out. */
typedef struct tfos__text {
    tfos__text_function read;
    void *context;
    const char *name; /* of the file, for messages */
    tfos__buffer window;
    size_t at;
    int64_t line; /* number of the line that begins at `at`, from 1 */
    bool started;
    bool ended; /* the window holds the rest of the file */
} tfos__text;

/* `name` and `context` stay the caller's and live as long as the text. */
void tfos__text_init(tfos__text *text, const char *name, tfos__text_function read, void *context);
void tfos__text_reset(tfos__text *text);

/* Reads on, so that the window holds more bytes from `at` on than before, or `ended` is set. Bytes before `at` are
 * dropped: pointers into the window change. LIMIT when a record would be longer than the most allowed. */
tfos_status tfos__text_fill(tfos__text *text, tfos_error *error);

/* The next line without its end; END after the last. Its bytes can be changed and live until the next call; the byte
 * behind them can be read and is '\r' or '\n'. `text->line` is the number of the line after it. */
tfos_status tfos__text_line(tfos__text *text, char **line, size_t *bytes, tfos_error *error);

/* ---- batches of the rows of a text ---- */

/* The first failure ends them: every later call tells it again. */
typedef struct tfos__text_batches {
    tfos__batch_pool *pool;
    tfos_error failure; /* of status OK until there is one */
} tfos__text_batches;

/* Appends rows to `batch` and counts them in *rows; no row at the end of the text. */
typedef tfos_status (*tfos__text_rows_function)(void *reader, tfos_batch *batch, int64_t *rows, tfos_error *error);

tfos_status tfos__text_batches_init(tfos__text_batches *batches, const tfos_schema *schema, tfos_error *error);
void tfos__text_batches_reset(tfos__text_batches *batches);

/* The next batch, with at least one row; END after the last. */
tfos_status tfos__text_batches_next(tfos__text_batches *batches, tfos__text_rows_function read_rows, void *reader,
                                    tfos_batch **out, tfos_error *error);

#endif
