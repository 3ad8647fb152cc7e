/* CSV to batches.
 *
 * The columns of a file are cut into runs: neighbouring columns that go to one field, or to none. A row is parsed run
 * by run from the text as it lies in the window; integers and decimal numbers of usual length go straight to the
 * column's memory. Everything else, and everything that is wrong, takes the slow way through a cell. */
#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "column/batch.h"
#include "record/base64.h"
#include "record/csv_scan.h"
#include "record/number.h"

struct tfos__csv_reader {
    const tfos__csv_options *options;
    tfos__text *text;
    tfos__csv_columns columns;
    tfos__csv_runs runs;
    tfos__text_batches batches;
    tfos_batch *batch;    /* being built */
    tfos__buffer scratch; /* of base64 */
};

/* ---- one value, the slow way ---- */

static tfos_status fail_type(tfos_type type, const tfos__csv_cell *cell, tfos_error *error)
{
    return tfos__fail(error, TFOS_MISMATCH, "expected %s, found '%s'", tfos_type_name(type),
                      tfos__printable_of(cell->text, cell->bytes).text);
}

static tfos_status push_number(tfos__vector *leaf, const tfos__csv_cell *cell, tfos_error *error)
{
    int64_t integer = 0;
    double real = 0;
    tfos_type type = leaf->view.type;
    tfos__number_kind kind = tfos__number_parse(cell->text, cell->bytes, &integer, &real);
    if (kind == TFOS__NUMBER_NONE) {
        return fail_type(type, cell, error);
    }
    if (type == TFOS_TYPE_FLOAT || type == TFOS_TYPE_DOUBLE) {
        double stored = type == TFOS_TYPE_FLOAT ? (double)(float)real : real;
        if (isinf(stored) && kind != TFOS__NUMBER_SPECIAL) {
            return tfos__fail(error, TFOS_RANGE, "the value '%s' does not fit %s",
                              tfos__printable_of(cell->text, cell->bytes).text, tfos_type_name(type));
        }
        return tfos__vector_push_real(leaf, real, error);
    }
    if (kind == TFOS__NUMBER_BIG) {
        return tfos__fail(error, TFOS_RANGE, "the value '%s' does not fit %s",
                          tfos__printable_of(cell->text, cell->bytes).text, tfos_type_name(type));
    }
    return kind == TFOS__NUMBER_INT ? tfos__vector_push_int(leaf, integer, error) : fail_type(type, cell, error);
}

static bool is_word(const tfos__csv_cell *cell, const char *word)
{
    return cell->bytes == strlen(word) && strncasecmp(cell->text, word, cell->bytes) == 0;
}

static tfos_status push_bool(tfos__vector *leaf, const tfos__csv_cell *cell, tfos_error *error)
{
    if (is_word(cell, "true") || is_word(cell, "1")) {
        return tfos__vector_push_int(leaf, 1, error);
    }
    if (is_word(cell, "false") || is_word(cell, "0")) {
        return tfos__vector_push_int(leaf, 0, error);
    }
    return tfos__fail(error, TFOS_MISMATCH, "expected true, false, 1 or 0, found '%s'",
                      tfos__printable_of(cell->text, cell->bytes).text);
}

static tfos_status push_cell(tfos__csv_reader *reader, tfos__vector *leaf, const tfos__csv_cell *cell,
                             tfos_error *error)
{
    switch (leaf->view.type) {
    case TFOS_TYPE_STRING:
        return tfos__vector_push_bytes(leaf, cell->text, cell->bytes, error);
    case TFOS_TYPE_BINARY:
        reader->scratch.size = 0;
        TFOS_TRY(tfos__base64_decode(cell->text, cell->bytes, &reader->scratch, error));
        return tfos__vector_push_bytes(leaf, reader->scratch.data, reader->scratch.size, error);
    case TFOS_TYPE_BOOL:
        return push_bool(leaf, cell, error);
    default:
        return push_number(leaf, cell, error);
    }
}

/* An empty field is a missing value; so is "" where a string cannot be. */
static bool is_null(const tfos__csv_cell *cell, tfos_type type)
{
    return cell->bytes == 0 && (!cell->quoted || (type != TFOS_TYPE_STRING && type != TFOS_TYPE_BINARY));
}

static tfos_status fail_null(const tfos__csv_run *run, tfos_error *error)
{
    return tfos__fail(error, TFOS_MISMATCH,
                      "expected %s, found an empty field; the schema says that it is not nullable",
                      tfos_type_name(run->type));
}

/* ---- one value, the fast way: NULL sends it to the slow one ---- */

static inline char *fast_int(char *at, int64_t *out)
{
    bool negative = *at == '-';
    at += negative;
    char *digits = at;
    uint64_t value = 0;
    unsigned digit;
    while ((digit = (unsigned)(unsigned char)*at - '0') < 10) {
        value = value * 10 + digit;
        at++;
    }
    *out = (int64_t)(negative ? 0 - value : value);
    return at > digits && at - digits <= 18 ? at : NULL;
}

static inline char *fast_real(char *at, double *out)
{
    bool negative = *at == '-';
    at += negative;
    char *digits = at;
    uint64_t mantissa = 0;
    unsigned digit;
    while ((digit = (unsigned)(unsigned char)*at - '0') < 10) {
        mantissa = mantissa * 10 + digit;
        at++;
    }
    long count = at - digits;
    long fraction = 0;
    if (*at == '.') {
        char *start = ++at;
        while ((digit = (unsigned)(unsigned char)*at - '0') < 10) {
            mantissa = mantissa * 10 + digit;
            at++;
        }
        fraction = at - start;
        count += fraction;
    }
    if (count == 0 || count > 18 || mantissa > TFOS__NUMBER_EXACT_MANTISSA) {
        return NULL;
    }
    double value = (double)mantissa / tfos__number_power[fraction];
    *out = negative ? -value : value;
    return at;
}

/* Pushes values from `record` as long as they are plain int64 fields; returns how many. There is room in the vector. */
static size_t fast_ints(tfos__vector *leaf, tfos__csv_record *record, char delimiter, size_t count)
{
    int64_t *to = (int64_t *)(void *)leaf->data.data + leaf->view.length;
    char *at = record->at;
    size_t done = 0;
    for (; done < count && at <= record->end; done++) {
        char *end = fast_int(at, &to[done]);
        if (end == NULL || (end != record->end && *end != delimiter)) {
            break;
        }
        at = end + 1;
    }
    record->at = at;
    return done;
}

static size_t fast_floats(tfos__vector *leaf, tfos__csv_record *record, char delimiter, size_t count)
{
    float *to = (float *)(void *)leaf->data.data + leaf->view.length;
    char *at = record->at;
    size_t done = 0;
    for (; done < count && at <= record->end; done++) {
        double value;
        char *end = fast_real(at, &value);
        if (end == NULL || (end != record->end && *end != delimiter)) {
            break;
        }
        to[done] = (float)value;
        at = end + 1;
    }
    record->at = at;
    return done;
}

static size_t fast_doubles(tfos__vector *leaf, tfos__csv_record *record, char delimiter, size_t count)
{
    double *to = (double *)(void *)leaf->data.data + leaf->view.length;
    char *at = record->at;
    size_t done = 0;
    for (; done < count && at <= record->end; done++) {
        char *end = fast_real(at, &to[done]);
        if (end == NULL || (end != record->end && *end != delimiter)) {
            break;
        }
        at = end + 1;
    }
    record->at = at;
    return done;
}

static size_t fast_push(tfos__vector *leaf, tfos__csv_record *record, char delimiter, size_t count)
{
    size_t done = 0;
    if (leaf->view.type == TFOS_TYPE_INT64) {
        done = fast_ints(leaf, record, delimiter, count);
        leaf->data.size += done * sizeof(int64_t);
    } else if (leaf->view.type == TFOS_TYPE_FLOAT) {
        done = fast_floats(leaf, record, delimiter, count);
        leaf->data.size += done * sizeof(float);
    } else if (leaf->view.type == TFOS_TYPE_DOUBLE) {
        done = fast_doubles(leaf, record, delimiter, count);
        leaf->data.size += done * sizeof(double);
    }
    leaf->view.length += (int64_t)done;
    return done;
}

/* ---- rows ---- */

static tfos_status place_error(const tfos__csv_reader *reader, const tfos__csv_record *record, size_t column,
                               tfos_status status, tfos_error *error)
{
    const char *name = reader->columns.column[column].name;
    tfos__error_prefix(error, "%s: line %lld, column %zu ('%s')", reader->text->name, (long long)record->line, column,
                       tfos__printable_text(name).text);
    return status;
}

/* The fields of a run from `*done` on; *done counts those that are there. A list with no value in any field is missing
 * as a whole. */
static tfos_status push_slow(tfos__csv_reader *reader, const tfos__csv_run *run, tfos__vector *leaf,
                             tfos__csv_record *record, size_t *done, size_t *nulls, tfos_error *error)
{
    tfos__csv_cell cell;
    tfos__csv_cell_next(record, reader->options->delimiter, &cell);
    tfos_status status;
    if (is_null(&cell, run->type)) {
        status = run->nullable ? TFOS_OK : fail_null(run, error);
        ++*nulls;
    } else {
        status = push_cell(reader, leaf, &cell, error);
    }
    if (status != TFOS_OK) {
        return place_error(reader, record, run->first + *done, status, error);
    }
    ++*done;
    return TFOS_OK;
}

/* Sets *done to the number of columns that the record had for this run. */
static tfos_status parse_run(tfos__csv_reader *reader, const tfos__csv_run *run, tfos__csv_record *record, size_t *done,
                             tfos_error *error)
{
    tfos__vector *vector = tfos__batch_vector(reader->batch, (size_t)run->field);
    tfos__vector *leaf = run->list ? vector->child : vector;
    size_t nulls = 0;
    TFOS_TRY(tfos__vector_reserve(leaf, leaf->view.length + (int64_t)run->count, error));
    for (*done = 0; *done < run->count && !tfos__csv_record_done(record);) {
        *done += fast_push(leaf, record, reader->options->delimiter, run->count - *done);
        if (*done < run->count && !tfos__csv_record_done(record)) {
            TFOS_TRY(push_slow(reader, run, leaf, record, done, &nulls, error));
        }
    }
    if (*done < run->count) {
        return TFOS_OK;
    }
    if (nulls == run->count) {
        return tfos__vector_push_null(vector, error);
    }
    if (nulls > 0) {
        tfos__fail(error, TFOS_MISMATCH,
                   "%zu of the %zu fields of this list are empty; a list is there or missing as a whole", nulls,
                   run->count);
        return place_error(reader, record, run->first, TFOS_MISMATCH, error);
    }
    return run->list ? tfos__vector_push_list(vector, error) : TFOS_OK;
}

static void skip_run(const tfos__csv_reader *reader, const tfos__csv_run *run, tfos__csv_record *record, size_t *done)
{
    tfos__csv_cell cell;
    for (*done = 0; *done < run->count && !tfos__csv_record_done(record); ++*done) {
        tfos__csv_cell_next(record, reader->options->delimiter, &cell);
    }
}

static tfos_status parse_row(tfos__csv_reader *reader, tfos__csv_record *record, tfos_error *error)
{
    size_t seen = 0;
    for (size_t i = 0; i < reader->runs.count; i++) {
        const tfos__csv_run *run = &reader->runs.run[i];
        size_t done;
        if (run->field < 0) {
            skip_run(reader, run, record, &done);
        } else {
            TFOS_TRY(parse_run(reader, run, record, &done, error));
        }
        seen += done;
        if (done < run->count) {
            break;
        }
    }
    if (seen < reader->columns.count || !tfos__csv_record_done(record)) {
        return tfos__csv_fail_count(reader->text->name, record, reader->options->delimiter, reader->columns.count, seen,
                                    error);
    }
    return TFOS_OK;
}

/* Fills the batch that is being built. */
static tfos_status read_rows(void *context, tfos_batch *batch, int64_t *rows, tfos_error *error)
{
    tfos__csv_reader *reader = context;
    const tfos__csv_options *options = reader->options;
    int64_t bytes = 0;
    reader->batch = batch;
    while (*rows < options->batch_rows && bytes < options->batch_bytes) {
        tfos__csv_record record;
        tfos_status status =
            tfos__csv_columns_record(&reader->columns, reader->text, options->delimiter, &record, error);
        if (status == TFOS_END) {
            return TFOS_OK;
        }
        TFOS_TRY(status);
        bytes += record.end - record.at;
        TFOS_TRY(parse_row(reader, &record, error));
        ++*rows;
    }
    return TFOS_OK;
}

tfos_status tfos__csv_reader_next(tfos__csv_reader *reader, tfos_batch **out, tfos_error *error)
{
    if (reader->columns.count == 0) {
        return TFOS_END;
    }
    return tfos__text_batches_next(&reader->batches, read_rows, reader, out, error);
}

void tfos__csv_reader_close(tfos__csv_reader *reader)
{
    if (reader != NULL) {
        tfos__csv_columns_reset(&reader->columns);
        tfos__buffer_reset(&reader->scratch);
        tfos__text_batches_reset(&reader->batches);
        tfos__csv_runs_reset(&reader->runs);
        free(reader);
    }
}

tfos_status tfos__csv_reader_open(const tfos__csv_options *options, const tfos_schema *schema,
                                  const tfos_schema *chosen, tfos__text *text, tfos__csv_reader **out,
                                  tfos_error *error)
{
    TFOS_TRY(tfos__csv_options_check(options, error));
    tfos__csv_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL) {
        return tfos__fail_memory(error, sizeof *reader);
    }
    reader->options = options;
    reader->text = text;
    tfos_status status = tfos__csv_columns_read(options, text, &reader->columns, error);
    if (status == TFOS_OK && reader->columns.count > 0) {
        status = tfos__csv_runs_find(options, text->name, &reader->columns, schema, chosen, &reader->runs, error);
    }
    if (status == TFOS_OK) {
        status = tfos__text_batches_init(&reader->batches, chosen, error);
    }
    if (status != TFOS_OK) {
        tfos__csv_reader_close(reader);
        return status;
    }
    *out = reader;
    return TFOS_OK;
}
