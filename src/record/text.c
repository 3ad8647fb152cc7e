/* Text: a window that moves over a file. */
#include "record/text.h"

#include "base/status.h"

enum { CHUNK_BYTES = 1 << 20 };

void tfos__text_init(tfos__text *text, const char *name, tfos__text_function read, void *context)
{
    *text = (tfos__text){.read = read, .context = context, .name = name, .line = 1};
}

void tfos__text_reset(tfos__text *text)
{
    tfos__buffer_reset(&text->window);
}

/* Reads at least one byte behind the window, or finds the end. */
static tfos_status read_more(tfos__text *text, size_t bytes, tfos_error *error)
{
    TFOS_TRY(tfos__buffer_reserve(&text->window, text->window.size + bytes + 1, error));
    size_t got = 0;
    TFOS_TRY(text->read(text->context, text->window.data + text->window.size, bytes, &got, error));
    text->window.size += got;
    text->ended = got == 0;
    return TFOS_OK;
}

/* A byte order mark says nothing about UTF-8 and is not part of the first line. */
static tfos_status start(tfos__text *text, tfos_error *error)
{
    while (text->window.size < 3 && !text->ended) {
        TFOS_TRY(read_more(text, CHUNK_BYTES, error));
    }
    if (text->window.size >= 3 && memcmp(text->window.data, "\xEF\xBB\xBF", 3) == 0) {
        text->at = 3;
    }
    text->started = true;
    return TFOS_OK;
}

static void add_line_end(tfos__text *text)
{
    if (text->window.size > text->at && text->window.data[text->window.size - 1] != '\n') {
        text->window.data[text->window.size++] = '\n';
    }
}

tfos_status tfos__text_fill(tfos__text *text, tfos_error *error)
{
    if (!text->started) {
        TFOS_TRY(start(text, error));
    } else if (!text->ended) {
        size_t rest = text->window.size - text->at;
        if (rest > TFOS__TEXT_MAX_RECORD_BYTES) {
            return tfos__fail(
                error, TFOS_LIMIT,
                "%s: line %lld: a record is longer than %d MiB, the most allowed; is a closing quote missing, "
                "or is this no text file?",
                text->name, (long long)text->line, TFOS__TEXT_MAX_RECORD_BYTES >> 20);
        }
        memmove(text->window.data, text->window.data + text->at, rest);
        text->window.size = rest;
        text->at = 0;
        /* As much again as is there: a long record is looked at a few times, not once for each chunk. */
        TFOS_TRY(read_more(text, rest > CHUNK_BYTES ? rest : CHUNK_BYTES, error));
    }
    if (text->ended) {
        add_line_end(text);
    }
    return TFOS_OK;
}

tfos_status tfos__text_line(tfos__text *text, char **line, size_t *bytes, tfos_error *error)
{
    size_t searched = 0;
    while (!text->started) {
        TFOS_TRY(tfos__text_fill(text, error));
    }
    for (;;) {
        size_t there = text->window.size - text->at;
        uint8_t *from = text->window.data + text->at;
        uint8_t *found = memchr(from + searched, '\n', there - searched);
        if (found != NULL) {
            size_t length = (size_t)(found - from);
            text->at += length + 1;
            text->line++;
            *line = (char *)from;
            *bytes = length > 0 && from[length - 1] == '\r' ? length - 1 : length;
            return TFOS_OK;
        }
        if (text->ended) {
            return TFOS_END;
        }
        searched = there;
        TFOS_TRY(tfos__text_fill(text, error));
    }
}

/* ---- batches of the rows of a text ---- */

tfos_status tfos__text_batches_init(tfos__text_batches *batches, const tfos_schema *schema, tfos_error *error)
{
    enum { KEPT_BATCHES = 2 };
    *batches = (tfos__text_batches){0};
    return tfos__batch_pool_new(schema, KEPT_BATCHES, &batches->pool, error);
}

void tfos__text_batches_reset(tfos__text_batches *batches)
{
    tfos__batch_pool_free(batches->pool);
}

static tfos_status next_batch(tfos__text_batches *batches, tfos__text_rows_function read_rows, void *reader,
                              tfos_batch **out, tfos_error *error)
{
    int64_t rows = 0;
    tfos_batch *batch;
    TFOS_TRY(tfos__batch_take(batches->pool, &batch, error));
    tfos_status status = read_rows(reader, batch, &rows, error);
    if (status == TFOS_OK) {
        status = rows > 0 ? tfos__batch_finish(batch, rows, error) : TFOS_END;
    }
    if (status != TFOS_OK) {
        tfos_batch_free(batch);
        return status;
    }
    *out = batch;
    return TFOS_OK;
}

tfos_status tfos__text_batches_next(tfos__text_batches *batches, tfos__text_rows_function read_rows, void *reader,
                                    tfos_batch **out, tfos_error *error)
{
    if (batches->failure.status == TFOS_OK) {
        tfos_error trouble;
        tfos_status status = next_batch(batches, read_rows, reader, out, &trouble);
        if (status == TFOS_OK || status == TFOS_END) {
            return status;
        }
        batches->failure = trouble;
    }
    if (error != NULL) {
        *error = batches->failure;
    }
    return batches->failure.status;
}
