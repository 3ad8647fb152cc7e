/* The output of a child on its way: every line into a file, as many as the limit allows to the driver, the last ones
 * kept for the report of its end. It knows no clock and no socket: the time is given to it, and what is to be sent is
 * handed to a function. */
#ifndef TFOS_NODE_LOG_JOURNAL_H
#define TFOS_NODE_LOG_JOURNAL_H

#include "node/log_file.h"
#include "node/log_lines.h"

typedef enum tfos__journal_source {
    TFOS__JOURNAL_OUT,
    TFOS__JOURNAL_ERR,
    TFOS__JOURNAL_TENSORBOARD, /* its lines get a prefix and go with stderr */
    TFOS__JOURNAL_SOURCES,
} tfos__journal_source;

enum {
    TFOS__JOURNAL_TAIL_LINES = 50,
    TFOS__JOURNAL_TAIL_LINE_BYTES = 430, /* of each; a byte that is replaced becomes three, and all must fit TAIL */
    TFOS__JOURNAL_BATCH_MS = 50,
    TFOS__JOURNAL_BATCH_BYTES = 256 << 10,
    TFOS__JOURNAL_UPDATE_MS = 100,
    TFOS__JOURNAL_BURST = 5, /* times the lines of a second */
};

typedef struct tfos__journal_stream {
    tfos__lines lines;
    tfos__buffer update; /* the newest update that was not passed on */
    bool has_update;
    int64_t update_ms; /* when it is passed on */
    bool in_piece;     /* the line before was a piece of the same line */
} tfos__journal_stream;

typedef struct tfos__journal {
    tfos__log_file file;
    char host[257];
    tfos__journal_stream stream[TFOS__JOURNAL_SOURCES];
    /* Whole lines for one stream: 1 or 2, as in the field STREAM. */
    void (*send)(void *context, int stream, const char *text, size_t count);
    void *context;
    bool blocked; /* set by the owner: nobody takes what is sent, so lines are dropped */
    tfos__buffer batch;
    int batch_stream;
    int64_t batch_ms; /* when it is sent */
    int64_t now_ms;
    int64_t rate;
    int64_t tokens;
    int64_t refill_ms;
    int64_t dropped; /* since it was last said */
    char tail[TFOS__JOURNAL_TAIL_LINES][TFOS__JOURNAL_TAIL_LINE_BYTES];
    uint16_t tail_bytes[TFOS__JOURNAL_TAIL_LINES];
    size_t tail_count; /* so far; the newest is at (tail_count - 1) % TAIL_LINES */
} tfos__journal;

/* Owner: the caller frees it with tfos__journal_free. There is no file until `file` is opened. */
tfos__journal *tfos__journal_new(int64_t rate, int64_t now_ms, tfos_error *error);
void tfos__journal_free(tfos__journal *journal);

void tfos__journal_take(tfos__journal *journal, tfos__journal_source source, const char *bytes, size_t count,
                        int64_t now_ms);

/* A source has ended. */
void tfos__journal_finish(tfos__journal *journal, tfos__journal_source source, int64_t now_ms);

/* A line of our own: not limited, goes with stderr. */
void tfos__journal_note(tfos__journal *journal, int64_t now_ms, const char *text);

/* Does what is due. Returns in how many milliseconds it wants to be called again, or -1. */
int64_t tfos__journal_tick(tfos__journal *journal, int64_t now_ms);

/* Sends all that waits, with the number of lines that were dropped. */
void tfos__journal_flush(tfos__journal *journal, int64_t now_ms);

/* The last lines, ended by newlines. */
tfos_status tfos__journal_tail(const tfos__journal *journal, tfos__buffer *out, tfos_error *error);

#endif
