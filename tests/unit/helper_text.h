/* Texts from memory, handed out a few bytes at a time, and batches shown as JSON lines: how tests of CSV and JSON lines
 * say what goes in and what must come out. */
#ifndef TFOS_TESTS_HELPER_TEXT_H
#define TFOS_TESTS_HELPER_TEXT_H

#include "record/text.h"

typedef struct helper_text {
    const char *bytes;
    size_t count;
    size_t at;
    size_t step; /* most bytes of one read */
    tfos__text text;
} helper_text;

/* Opens `bytes` as the file "in"; ended with helper_text_close. */
void helper_text_open(helper_text *self, const char *bytes, size_t count, size_t step);
void helper_text_close(helper_text *self);

/* Appends the rows of a batch to `out` as JSON lines. */
void helper_show_batch(const tfos_batch *batch, tfos__buffer *out);

/* "a int64, b float[3] nullable": a schema in one line. The caller frees it. */
char *helper_show_schema(const tfos_schema *schema);

/* The text of a buffer. The caller frees it. */
char *helper_string(const tfos__buffer *buffer);

#endif
