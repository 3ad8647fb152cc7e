/* CSV records and fields.
 *
 * The end of a record is looked for with memchr: a line without a quote ends at its line end, which is how nearly all
 * lines are. Only a line with a quote is walked field by field, and only there can it be malformed. A quote is special
 * at the start of a field; elsewhere it is a letter like others. */
#include "record/csv_scan.h"

#include <stdio.h>
#include <stdlib.h>

/* The position behind the closing quote of the field that opens at `at`, or NULL if it is not in the window. */
static char *skip_quoted(char *at, char *end)
{
    at++;
    for (;;) {
        char *quote = memchr(at, '"', (size_t)(end - at));
        if (quote == NULL || quote + 1 >= end) {
            return NULL;
        }
        if (quote[1] != '"') {
            return quote + 1;
        }
        at = quote + 2;
    }
}

static tfos_status fail_quote(const tfos__text *text, const char *from, const char *at, tfos_error *error)
{
    int64_t line = text->line;
    for (const char *p = from; p < at; p++) {
        line += *p == '\n';
    }
    return tfos__fail(
        error, TFOS_CORRUPT,
        "%s: line %lld: expected a delimiter or a line end behind a closing quote, found '%s'; a quote inside a "
        "quoted field is written twice",
        text->name, (long long)line, tfos__printable_of(at, 1).text);
}

/* The line end of the record at `from`, walking its quoted fields; NULL if the window ends before. */
static tfos_status find_end(const tfos__text *text, char *from, char *end, char delimiter, char **out,
                            tfos_error *error)
{
    char *at = from;
    *out = NULL;
    for (;;) {
        if (at < end && *at == '"') {
            at = skip_quoted(at, end);
            if (at == NULL) {
                return TFOS_OK;
            }
            at += at + 1 < end && at[0] == '\r' && at[1] == '\n';
            if (*at == '\r' && at + 1 == end && !text->ended) {
                return TFOS_OK;
            }
            if (*at != delimiter && *at != '\n') {
                return fail_quote(text, from, at, error);
            }
        } else {
            char *line_end = memchr(at, '\n', (size_t)(end - at));
            if (line_end == NULL) {
                return TFOS_OK;
            }
            char *next = memchr(at, delimiter, (size_t)(line_end - at));
            at = next != NULL ? next : line_end;
        }
        if (*at == '\n') {
            *out = at;
            return TFOS_OK;
        }
        at++;
    }
}

/* The line end of the record at the start of the window, or NULL if more bytes are needed. */
static tfos_status record_end(const tfos__text *text, char delimiter, char **out, tfos_error *error)
{
    char *from = (char *)text->window.data + text->at;
    char *end = (char *)text->window.data + text->window.size;
    *out = memchr(from, '\n', (size_t)(end - from));
    char *line_end = *out != NULL ? *out : end;
    if (memchr(from, '"', (size_t)(line_end - from)) == NULL) {
        return TFOS_OK;
    }
    return find_end(text, from, end, delimiter, out, error);
}

static int64_t count_lines(const char *from, const char *end)
{
    int64_t lines = 0;
    while (from < end && (from = memchr(from, '\n', (size_t)(end - from))) != NULL) {
        lines++;
        from++;
    }
    return lines;
}

tfos_status tfos__csv_record_next(tfos__text *text, char delimiter, tfos__csv_record *out, tfos_error *error)
{
    for (;;) {
        char *end = NULL;
        if (text->started) {
            TFOS_TRY(record_end(text, delimiter, &end, error));
        }
        if (end == NULL && text->ended) {
            if (text->at == text->window.size) {
                return TFOS_END;
            }
            return tfos__fail(
                error, TFOS_CORRUPT,
                "%s: line %lld: a quoted field begins in this record and is not closed before the end of the file",
                text->name, (long long)text->line);
        }
        if (end == NULL) {
            TFOS_TRY(tfos__text_fill(text, error));
            continue;
        }
        char *from = (char *)text->window.data + text->at;
        int64_t line = text->line;
        text->at += (size_t)(end - from) + 1;
        text->line += 1 + count_lines(from, end);
        end -= end > from && end[-1] == '\r';
        if (end > from) {
            *out = (tfos__csv_record){.at = from, .end = end, .line = line};
            return TFOS_OK;
        }
    }
}

/* Takes the quotes off the field at `at`; the record has been checked to close it. */
static char *unquote(char *at, char *end, tfos__csv_cell *out)
{
    char *to = at + 1;
    char *from = at + 1;
    out->text = to;
    for (;;) {
        char *quote = memchr(from, '"', (size_t)(end - from));
        size_t bytes = (size_t)(quote - from);
        if (to != from) {
            memmove(to, from, bytes);
        }
        to += bytes;
        if (quote + 1 >= end || quote[1] != '"') {
            out->bytes = (size_t)(to - out->text);
            /* What follows must not read as more of a number. */
            *to = '"';
            return quote + 1;
        }
        *to++ = '"';
        from = quote + 2;
    }
}

void tfos__csv_cell_next(tfos__csv_record *record, char delimiter, tfos__csv_cell *out)
{
    char *at = record->at;
    out->quoted = at < record->end && *at == '"';
    if (out->quoted) {
        at = unquote(at, record->end, out);
    } else {
        char *end = memchr(at, delimiter, (size_t)(record->end - at));
        at = end != NULL ? end : record->end;
        out->text = record->at;
        out->bytes = (size_t)(at - record->at);
    }
    record->at = at + 1;
}

tfos_status tfos__csv_fail_count(const char *file, const tfos__csv_record *record, char delimiter, size_t expected,
                                 size_t found, tfos_error *error)
{
    tfos__csv_record rest = *record;
    while (!tfos__csv_record_done(&rest)) {
        tfos__csv_cell cell;
        tfos__csv_cell_next(&rest, delimiter, &cell);
        found++;
    }
    return tfos__fail(error, TFOS_MISMATCH, "%s: line %lld: expected %zu columns, found %zu%s", file,
                      (long long)record->line, expected, found,
                      found == 1 ? "; is the delimiter right (--delimiter)?" : "");
}

/* ---- columns ---- */

void tfos__csv_columns_reset(tfos__csv_columns *columns)
{
    for (size_t i = 0; i < columns->count; i++) {
        free(columns->column[i].name);
    }
    free(columns->column);
    *columns = (tfos__csv_columns){0};
}

/* Counts the fields of a record without changing it. */
static size_t count_cells(tfos__csv_record record, char delimiter)
{
    size_t count = 0;
    while (!tfos__csv_record_done(&record) && count <= TFOS__CSV_MAX_COLUMNS) {
        if (record.at < record.end && *record.at == '"') {
            record.at = skip_quoted(record.at, record.end + 1) + 1;
        } else {
            char *end = memchr(record.at, delimiter, (size_t)(record.end - record.at));
            record.at = (end != NULL ? end : record.end) + 1;
        }
        count++;
    }
    return count;
}

static tfos_status name_column(const tfos__csv_options *options, const tfos__text *text, tfos__csv_columns *columns,
                               size_t index, const tfos__csv_cell *cell, tfos_error *error)
{
    char generated[32];
    const char *name = generated;
    size_t bytes = (size_t)snprintf(generated, sizeof generated, "c%zu", index);
    bool is_label = (options->label == TFOS__CSV_LABEL_FIRST && index == 0) ||
                    (options->label == TFOS__CSV_LABEL_LAST && index + 1 == columns->count);
    if (is_label) {
        name = options->label_name;
        bytes = strlen(name);
    } else if (cell != NULL && cell->bytes > 0) {
        name = cell->text;
        bytes = cell->bytes;
    }
    if (memchr(name, '\0', bytes) != NULL || tfos__utf8_valid_prefix(name, bytes) != bytes) {
        return tfos__fail(error, TFOS_ENCODING, "%s: line 1: the name of column %zu, '%s', is not valid UTF-8 text",
                          text->name, index, tfos__printable_of(name, bytes).text);
    }
    columns->column[index].name = strndup(name, bytes);
    return columns->column[index].name != NULL ? TFOS_OK : tfos__fail_memory(error, bytes + 1);
}

/* ---- folds ---- */

tfos__printable tfos__csv_fold_text(const tfos__csv_fold *fold)
{
    char text[256];
    int bytes = fold->first != NULL ? snprintf(text, sizeof text, "%s=%s:%s", fold->name, fold->first, fold->last)
                                    : snprintf(text, sizeof text, "%s=%lld:%lld", fold->name, (long long)fold->start,
                                               (long long)fold->end);
    return tfos__printable_of(text, (size_t)tfos__min_i64(bytes, sizeof text - 1));
}

size_t tfos__csv_columns_folded(const tfos__csv_columns *columns, size_t at)
{
    size_t end = at + 1;
    while (end < columns->count && columns->column[end].fold == columns->column[at].fold) {
        end++;
    }
    return end - at;
}

static tfos_status find_named(const tfos__text *text, const tfos__csv_columns *columns, const tfos__csv_fold *fold,
                              const char *name, int64_t *out, tfos_error *error)
{
    *out = -1;
    for (size_t i = 0; i < columns->count; i++) {
        if (strcmp(columns->column[i].name, name) != 0) {
            continue;
        }
        if (*out >= 0) {
            return tfos__fail(
                error, TFOS_MISMATCH, "%s: the fold %s: the columns %lld and %zu are both named '%s': fold by position",
                text->name, tfos__csv_fold_text(fold).text, (long long)*out, i, tfos__printable_text(name).text);
        }
        *out = (int64_t)i;
    }
    return *out >= 0 ? TFOS_OK
                     : tfos__fail(error, TFOS_MISMATCH, "%s: the fold %s: the header has no column '%s'", text->name,
                                  tfos__csv_fold_text(fold).text, tfos__printable_text(name).text);
}

/* Where a fold begins and ends in this file. */
static tfos_status place_fold(const tfos__text *text, const tfos__csv_columns *columns, const tfos__csv_fold *fold,
                              int64_t *start, int64_t *end, tfos_error *error)
{
    if (fold->first == NULL) {
        *start = fold->start;
        *end = fold->end;
        return (size_t)*end <= columns->count
                   ? TFOS_OK
                   : tfos__fail(error, TFOS_MISMATCH,
                                "%s: the fold %s needs %lld columns, found %zu; the end is not included", text->name,
                                tfos__csv_fold_text(fold).text, (long long)*end, columns->count);
    }
    int64_t last = -1;
    TFOS_TRY(find_named(text, columns, fold, fold->first, start, error));
    TFOS_TRY(find_named(text, columns, fold, fold->last, &last, error));
    *end = last + 1;
    return *start <= last ? TFOS_OK
                          : tfos__fail(error, TFOS_MISMATCH,
                                       "%s: the fold %s begins behind its end: these are the columns %lld and %lld",
                                       text->name, tfos__csv_fold_text(fold).text, (long long)*start, (long long)last);
}

static tfos_status apply_fold(const tfos__csv_options *options, const tfos__text *text, tfos__csv_columns *columns,
                              size_t index, tfos_error *error)
{
    const tfos__csv_fold *fold = &options->folds[index];
    int64_t start;
    int64_t end;
    TFOS_TRY(place_fold(text, columns, fold, &start, &end, error));
    bool takes_label = (options->label == TFOS__CSV_LABEL_FIRST && start == 0) ||
                       (options->label == TFOS__CSV_LABEL_LAST && (size_t)end == columns->count);
    if (takes_label) {
        return tfos__fail(error, TFOS_INVALID, "%s: the fold %s takes in the label, which is column %zu", text->name,
                          tfos__csv_fold_text(fold).text,
                          options->label == TFOS__CSV_LABEL_FIRST ? 0 : columns->count - 1);
    }
    for (int64_t at = start; at < end; at++) {
        if (columns->column[at].fold >= 0) {
            return tfos__fail(error, TFOS_INVALID, "%s: the folds %s and %s overlap in column %lld", text->name,
                              tfos__csv_fold_text(&options->folds[columns->column[at].fold]).text,
                              tfos__csv_fold_text(fold).text, (long long)at);
        }
        columns->column[at].fold = (int64_t)index;
    }
    return TFOS_OK;
}

static tfos_status fill_columns(const tfos__csv_options *options, const tfos__text *text, tfos__csv_columns *columns,
                                tfos_error *error)
{
    tfos__csv_record header = columns->first;
    size_t count = count_cells(header, options->delimiter);
    if (count > TFOS__CSV_MAX_COLUMNS) {
        return tfos__fail(error, TFOS_LIMIT, "%s: line %lld: more than %d columns", text->name, (long long)header.line,
                          TFOS__CSV_MAX_COLUMNS);
    }
    columns->column = calloc(count, sizeof *columns->column);
    if (columns->column == NULL) {
        return tfos__fail_memory(error, count * sizeof *columns->column);
    }
    columns->count = count;
    for (size_t i = 0; i < count; i++) {
        tfos__csv_cell cell;
        if (options->header) {
            tfos__csv_cell_next(&header, options->delimiter, &cell);
        }
        columns->column[i].fold = -1;
        TFOS_TRY(name_column(options, text, columns, i, options->header ? &cell : NULL, error));
    }
    columns->first_pending = !options->header;
    for (size_t i = 0; i < options->fold_count; i++) {
        TFOS_TRY(apply_fold(options, text, columns, i, error));
    }
    return TFOS_OK;
}

tfos_status tfos__csv_columns_read(const tfos__csv_options *options, tfos__text *text, tfos__csv_columns *out,
                                   tfos_error *error)
{
    *out = (tfos__csv_columns){0};
    tfos_status status = tfos__csv_record_next(text, options->delimiter, &out->first, error);
    if (status == TFOS_END) {
        return TFOS_OK;
    }
    TFOS_TRY(status);
    status = fill_columns(options, text, out, error);
    if (status != TFOS_OK) {
        tfos__csv_columns_reset(out);
    }
    return status;
}

tfos_status tfos__csv_columns_record(tfos__csv_columns *columns, tfos__text *text, char delimiter,
                                     tfos__csv_record *out, tfos_error *error)
{
    if (columns->first_pending) {
        columns->first_pending = false;
        *out = columns->first;
        return TFOS_OK;
    }
    return tfos__csv_record_next(text, delimiter, out, error);
}
