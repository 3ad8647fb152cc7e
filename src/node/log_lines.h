/* Cuts a stream of bytes into lines. */
#ifndef TFOS_NODE_LOG_LINES_H
#define TFOS_NODE_LOG_LINES_H

#include "base/bytes.h"

enum { TFOS__LINE_BYTES = 64 << 10 }; /* a longer line comes in pieces */

typedef enum tfos__line_kind {
    TFOS__LINE_WHOLE,  /* ended by a newline */
    TFOS__LINE_UPDATE, /* ended by a carriage return: what comes next stands in its place (a progress bar) */
    TFOS__LINE_PIECE,  /* a part of a long line; more follows */
} tfos__line_kind;

/* `{0}` is empty. */
typedef struct tfos__lines {
    tfos__buffer pending;
    bool returned; /* `pending` was ended by a carriage return; a newline may follow */
} tfos__lines;

/* `text` is without what ended it. */
typedef void (*tfos__line_taker)(void *context, const char *text, size_t count, tfos__line_kind kind);

/* Takes bytes and hands out the lines that end in them. NO_MEMORY. */
tfos_status tfos__lines_feed(tfos__lines *lines, const char *bytes, size_t count, tfos__line_taker taker, void *context,
                             tfos_error *error);

/* The stream has ended: hands out what is left and frees the memory. */
void tfos__lines_finish(tfos__lines *lines, tfos__line_taker taker, void *context);

/* Appends text as valid UTF-8 without NULs: what is not valid becomes U+FFFD. Backspaces, with which progress bars
 * go back, are left out. */
tfos_status tfos__lines_append_clean(tfos__buffer *out, const char *text, size_t count, tfos_error *error);

#endif
