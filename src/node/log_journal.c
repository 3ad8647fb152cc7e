/* The journal. The limit is a bucket of tokens that is filled once a second, so that in a flood whole stretches of
 * lines get through, each followed by one line that counts what was left out, instead of every hundredth line. */
#include "node/log_journal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"

enum { NEVER = -1, REFILL_MS = 1000 };

tfos__journal *tfos__journal_new(int64_t rate, int64_t now_ms, tfos_error *error)
{
    tfos__journal *journal = calloc(1, sizeof *journal);
    if (journal == NULL) {
        tfos__fail_memory(error, sizeof *journal);
        return NULL;
    }
    journal->file.file = -1;
    journal->rate = rate;
    journal->tokens = rate * TFOS__JOURNAL_BURST;
    journal->refill_ms = now_ms;
    journal->now_ms = now_ms;
    return journal;
}

void tfos__journal_free(tfos__journal *journal)
{
    if (journal == NULL) {
        return;
    }
    for (int i = 0; i < TFOS__JOURNAL_SOURCES; i++) {
        tfos__buffer_reset(&journal->stream[i].lines.pending);
        tfos__buffer_reset(&journal->stream[i].update);
    }
    tfos__log_file_close(&journal->file);
    tfos__buffer_reset(&journal->batch);
    free(journal);
}

static int stream_of(tfos__journal_source source)
{
    return source == TFOS__JOURNAL_OUT ? 1 : 2;
}

static const char *prefix_of(tfos__journal_source source)
{
    return source == TFOS__JOURNAL_TENSORBOARD ? "[tensorboard] " : "";
}

static void send_batch(tfos__journal *journal)
{
    if (journal->batch.size > 0) {
        journal->send(journal->context, journal->batch_stream, (const char *)journal->batch.data, journal->batch.size);
        journal->batch.size = 0;
    }
}

/* Puts a line that may go out into the batch. When memory is short the line is lost, and nothing else. */
static void put_line(tfos__journal *journal, int stream, const char *prefix, const char *text, size_t count)
{
    if (journal->batch.size > 0 && journal->batch_stream != stream) {
        send_batch(journal); /* the order of stdout and stderr is kept */
    }
    if (journal->batch.size == 0) {
        journal->batch_stream = stream;
        journal->batch_ms = journal->now_ms + TFOS__JOURNAL_BATCH_MS;
    }
    tfos__buffer_append(&journal->batch, prefix, strlen(prefix), NULL);
    tfos__lines_append_clean(&journal->batch, text, count, NULL);
    tfos__buffer_append(&journal->batch, "\n", 1, NULL);
    if (journal->batch.size >= TFOS__JOURNAL_BATCH_BYTES) {
        send_batch(journal);
    }
}

static void keep_in_tail(tfos__journal *journal, const char *prefix, const char *text, size_t count)
{
    size_t at = journal->tail_count++ % TFOS__JOURNAL_TAIL_LINES;
    char *line = journal->tail[at];
    size_t used = strlen(prefix);
    size_t room = TFOS__JOURNAL_TAIL_LINE_BYTES - used;
    count = count < room ? count : room;
    memcpy(line, prefix, used);
    memcpy(line + used, text, count);
    journal->tail_bytes[at] = (uint16_t)(used + count);
}

/* "1 234 567". */
static void show_number(int64_t number, char *out, size_t bytes)
{
    char digits[24];
    int count = snprintf(digits, sizeof digits, "%lld", (long long)number);
    size_t used = 0;
    for (int i = 0; i < count && used + 2 < bytes; i++) {
        if (i > 0 && (count - i) % 3 == 0) {
            out[used++] = ' ';
        }
        out[used++] = digits[i];
    }
    out[used] = '\0';
}

static void say_dropped(tfos__journal *journal)
{
    char number[40];
    char line[PATH_MAX + 512];
    if (journal->dropped == 0) {
        return;
    }
    show_number(journal->dropped, number, sizeof number);
    snprintf(line, sizeof line, "… %s %s dropped; the whole log is in %s on %s", number,
             journal->dropped == 1 ? "line" : "lines", journal->file.path, journal->host);
    journal->dropped = 0;
    put_line(journal, 2, "", line, strlen(line));
}

static void refill(tfos__journal *journal)
{
    int64_t seconds = (journal->now_ms - journal->refill_ms) / REFILL_MS;
    if (seconds > 0) {
        int64_t most = journal->rate * TFOS__JOURNAL_BURST;
        int64_t more = journal->rate * tfos__min_i64(seconds, TFOS__JOURNAL_BURST);
        journal->tokens = tfos__min_i64(most, journal->tokens + more);
        journal->refill_ms += seconds * REFILL_MS;
    }
}

/* Passes a line on if the limit allows it. */
static void pass_on(tfos__journal *journal, tfos__journal_source source, const char *text, size_t count)
{
    refill(journal);
    if (journal->tokens == 0 || journal->blocked) {
        journal->dropped++;
        return;
    }
    say_dropped(journal);
    journal->tokens--;
    put_line(journal, stream_of(source), prefix_of(source), text, count);
}

static void pass_on_update(tfos__journal *journal, tfos__journal_source source)
{
    tfos__journal_stream *stream = &journal->stream[source];
    if (stream->has_update) {
        stream->has_update = false;
        if (stream->update.size > 0) {
            pass_on(journal, source, (const char *)stream->update.data, stream->update.size);
        }
    }
}

static void keep_update(tfos__journal *journal, tfos__journal_source source, const char *text, size_t count)
{
    tfos__journal_stream *stream = &journal->stream[source];
    size_t backspaces = 0;
    while (backspaces < count && text[backspaces] == '\b') {
        backspaces++;
    }
    if (backspaces == count) {
        return; /* went back and wrote nothing */
    }
    if (!stream->has_update) {
        stream->has_update = true;
        stream->update_ms = journal->now_ms + TFOS__JOURNAL_UPDATE_MS;
    }
    stream->update.size = 0;
    tfos__buffer_append(&stream->update, text, count, NULL);
}

typedef struct taking {
    tfos__journal *journal;
    tfos__journal_source source;
} taking;

static void take_line(void *context, const char *text, size_t count, tfos__line_kind kind)
{
    const taking *take = context;
    tfos__journal *journal = take->journal;
    tfos__journal_stream *stream = &journal->stream[take->source];
    if (!stream->in_piece) {
        const char *prefix = prefix_of(take->source);
        tfos__log_file_put(&journal->file, prefix, strlen(prefix));
    }
    tfos__log_file_put(&journal->file, text, count);
    if (kind == TFOS__LINE_UPDATE) {
        tfos__log_file_put(&journal->file, "\r", 1);
        keep_update(journal, take->source, text, count);
    } else {
        tfos__log_file_put(&journal->file, "\n", kind == TFOS__LINE_WHOLE ? 1 : 0);
        stream->has_update = false; /* the line stands in its place */
        keep_in_tail(journal, prefix_of(take->source), text, count);
        pass_on(journal, take->source, text, count);
    }
    stream->in_piece = kind == TFOS__LINE_PIECE;
}

static void flush_file(tfos__journal *journal)
{
    tfos_error error;
    char line[TFOS_ERROR_MESSAGE_BYTES + 16];
    if (tfos__log_file_flush(&journal->file, &error) != TFOS_OK) {
        snprintf(line, sizeof line, "tfos: %s", error.message);
        put_line(journal, 2, "", line, strlen(line));
    }
}

void tfos__journal_take(tfos__journal *journal, tfos__journal_source source, const char *bytes, size_t count,
                        int64_t now_ms)
{
    taking take = {.journal = journal, .source = source};
    journal->now_ms = now_ms;
    tfos__lines_feed(&journal->stream[source].lines, bytes, count, take_line, &take, NULL);
    flush_file(journal);
}

void tfos__journal_finish(tfos__journal *journal, tfos__journal_source source, int64_t now_ms)
{
    taking take = {.journal = journal, .source = source};
    journal->now_ms = now_ms;
    tfos__lines_finish(&journal->stream[source].lines, take_line, &take);
    pass_on_update(journal, source);
    flush_file(journal);
}

void tfos__journal_note(tfos__journal *journal, int64_t now_ms, const char *text)
{
    journal->now_ms = now_ms;
    tfos__log_file_put(&journal->file, text, strlen(text));
    tfos__log_file_put(&journal->file, "\n", 1);
    flush_file(journal);
    keep_in_tail(journal, "", text, strlen(text));
    put_line(journal, 2, "", text, strlen(text));
}

static int64_t sooner(int64_t wait, int64_t due_ms, int64_t now_ms)
{
    int64_t left = tfos__max_i64(due_ms - now_ms, 0);
    return wait == NEVER || left < wait ? left : wait;
}

int64_t tfos__journal_tick(tfos__journal *journal, int64_t now_ms)
{
    int64_t wait = NEVER;
    journal->now_ms = now_ms;
    for (int source = 0; source < TFOS__JOURNAL_SOURCES; source++) {
        tfos__journal_stream *stream = &journal->stream[source];
        if (stream->has_update && stream->update_ms <= now_ms) {
            pass_on_update(journal, (tfos__journal_source)source);
        }
        if (stream->has_update) {
            wait = sooner(wait, stream->update_ms, now_ms);
        }
    }
    if (journal->dropped > 0) {
        refill(journal);
        if (journal->tokens > 0 && !journal->blocked) {
            say_dropped(journal);
        } else {
            wait = sooner(wait, journal->refill_ms + REFILL_MS, now_ms);
        }
    }
    if (journal->batch.size > 0 && journal->batch_ms <= now_ms) {
        send_batch(journal);
    }
    return journal->batch.size > 0 ? sooner(wait, journal->batch_ms, now_ms) : wait;
}

void tfos__journal_flush(tfos__journal *journal, int64_t now_ms)
{
    journal->now_ms = now_ms;
    for (int source = 0; source < TFOS__JOURNAL_SOURCES; source++) {
        pass_on_update(journal, (tfos__journal_source)source);
    }
    say_dropped(journal);
    send_batch(journal);
    flush_file(journal);
}

tfos_status tfos__journal_tail(const tfos__journal *journal, tfos__buffer *out, tfos_error *error)
{
    size_t count = journal->tail_count < TFOS__JOURNAL_TAIL_LINES ? journal->tail_count : TFOS__JOURNAL_TAIL_LINES;
    for (size_t i = journal->tail_count - count; i < journal->tail_count; i++) {
        size_t at = i % TFOS__JOURNAL_TAIL_LINES;
        TFOS_TRY(tfos__lines_append_clean(out, journal->tail[at], journal->tail_bytes[at], error));
        TFOS_TRY(tfos__buffer_append(out, "\n", 1, error));
    }
    return TFOS_OK;
}
