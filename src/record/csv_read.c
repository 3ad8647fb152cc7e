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

typedef struct csv_run {
    int64_t field; /* in the batch, or -1: not wanted */
    size_t first;  /* column of the file */
    size_t count;
    bool list;
    bool nullable;
    tfos_type type;
} csv_run;

struct tfos__csv_reader {
    const tfos__csv_options *options;
    tfos__text *text;
    tfos__csv_columns columns;
    csv_run *runs;
    size_t run_count;
    tfos__batch_pool *pool;
    tfos_batch *batch;    /* being built */
    tfos__buffer scratch; /* of base64 */
    bool failed;
    tfos_error failure;
};

void tfos__csv_options_init(tfos__csv_options *options)
{
    *options = (tfos__csv_options){
        .delimiter = ',', .header = true, .label_name = "label", .batch_rows = 4096, .batch_bytes = 16 << 20};
}

tfos_status tfos__csv_options_check(const tfos__csv_options *options, tfos_error *error)
{
    unsigned char delimiter = (unsigned char)options->delimiter;
    bool in_number = delimiter == '.' || delimiter == '+' || delimiter == '-';
    bool is_letter = (delimiter >= '0' && delimiter <= '9') || ((delimiter | 32) >= 'a' && (delimiter | 32) <= 'z');
    if (delimiter == '"' || in_number || is_letter || delimiter >= 0x80 || (delimiter < ' ' && delimiter != '\t')) {
        return tfos__fail(
            error, TFOS_INVALID,
            "the delimiter '%s' cannot be used: expected a tab, a space or a sign such as , ; | that is not "
            "part of a number or a quote",
            tfos__printable_of(&options->delimiter, 1).text);
    }
    for (size_t i = 0; i < options->fold_count; i++) {
        const tfos__csv_fold *fold = &options->folds[i];
        if (fold->start < 0 || fold->end <= fold->start || fold->end > TFOS__CSV_MAX_COLUMNS) {
            return tfos__fail(error, TFOS_INVALID,
                              "the fold %s=%lld:%lld has no columns: expected START:END with START < END <= %d",
                              fold->name, (long long)fold->start, (long long)fold->end, TFOS__CSV_MAX_COLUMNS);
        }
        for (size_t j = 0; j < i; j++) {
            const tfos__csv_fold *other = &options->folds[j];
            if (fold->start < other->end && other->start < fold->end) {
                return tfos__fail(error, TFOS_INVALID, "the folds %s=%lld:%lld and %s=%lld:%lld overlap", other->name,
                                  (long long)other->start, (long long)other->end, fold->name, (long long)fold->start,
                                  (long long)fold->end);
            }
        }
    }
    return TFOS_OK;
}

/* ---- runs: which columns go to which field ---- */

/* One column of the file as the table shows it: a plain one, or all columns of a fold. */
static csv_run output_run(const tfos__csv_reader *reader, size_t at)
{
    const tfos__csv_column *column = &reader->columns.column[at];
    csv_run run = {.field = -1, .first = at, .count = 1};
    if (column->fold >= 0) {
        run.count = (size_t)(reader->options->folds[column->fold].end - (int64_t)at);
        run.list = true;
    }
    return run;
}

static const char *output_name(const tfos__csv_reader *reader, const csv_run *run)
{
    const tfos__csv_column *column = &reader->columns.column[run->first];
    return column->fold >= 0 ? reader->options->folds[column->fold].name : column->name;
}

/* Whether the columns from `at` on are name_0, name_1, … as a written list has them. */
static bool is_unfolded(const tfos__csv_reader *reader, size_t at, const tfos_field *field)
{
    if ((size_t)field->length > reader->columns.count - at) {
        return false;
    }
    char *end;
    size_t bytes = strlen(field->name);
    for (size_t i = 0; i < (size_t)field->length; i++) {
        const tfos__csv_column *column = &reader->columns.column[at + i];
        bool named = column->fold < 0 && strncmp(column->name, field->name, bytes) == 0 && column->name[bytes] == '_' &&
                     column->name[bytes + 1] >= '0' && column->name[bytes + 1] <= '9';
        if (!named || strtoul(column->name + bytes + 1, &end, 10) != i || *end != '\0') {
            return false;
        }
    }
    return field->length > 0;
}

static tfos_status fail_missing(const tfos__csv_reader *reader, const tfos_field *field, tfos_error *error)
{
    bool list = field->shape == TFOS_SHAPE_FIXED;
    return tfos__fail(error, TFOS_MISMATCH,
                      "%s: the schema has the column '%s', the file with %zu columns from '%s' to '%s' has not%s",
                      reader->text->name, field->name, reader->columns.count, reader->columns.column[0].name,
                      reader->columns.column[reader->columns.count - 1].name,
                      list ? "; a list is made by --fold name=START:END or found as name_0, name_1, …" : "");
}

static tfos_status find_by_name(const tfos__csv_reader *reader, const tfos_field *field, csv_run *out,
                                tfos_error *error)
{
    for (size_t at = 0; at < reader->columns.count; at += out->count) {
        *out = output_run(reader, at);
        if (strcmp(output_name(reader, out), field->name) == 0) {
            return TFOS_OK;
        }
        if (field->shape == TFOS_SHAPE_FIXED && is_unfolded(reader, at, field)) {
            *out = (csv_run){.first = at, .count = (size_t)field->length, .list = true};
            return TFOS_OK;
        }
    }
    return fail_missing(reader, field, error);
}

/* The columns at *at: a fold, one column, or as many plain columns as the list is long. */
static tfos_status find_by_position(const tfos__csv_reader *reader, const tfos_field *field, size_t *at, csv_run *out,
                                    tfos_error *error)
{
    if (*at >= reader->columns.count) {
        return fail_missing(reader, field, error);
    }
    *out = output_run(reader, *at);
    if (!out->list && field->shape == TFOS_SHAPE_FIXED) {
        if ((size_t)field->length > reader->columns.count - *at || field->length == 0) {
            return fail_missing(reader, field, error);
        }
        *out = (csv_run){.first = *at, .count = (size_t)field->length, .list = true};
    }
    *at += out->count;
    return TFOS_OK;
}

static tfos_status check_field(const tfos__csv_reader *reader, const tfos_field *field, const csv_run *run,
                               tfos_error *error)
{
    if (field->feature_list || field->shape == TFOS_SHAPE_RAGGED) {
        return tfos__fail(
            error, TFOS_UNSUPPORTED,
            "%s: column '%s' of the schema is a list of varying length, which CSV has not: use JSON lines",
            reader->text->name, field->name);
    }
    bool list = field->shape == TFOS_SHAPE_FIXED;
    if (list != run->list || (list && (size_t)field->length != run->count)) {
        return tfos__fail(error, TFOS_MISMATCH, "%s: column '%s' has %zu values in the file and %d in the schema",
                          reader->text->name, field->name, run->count, list ? (int)field->length : 1);
    }
    return TFOS_OK;
}

static int by_first(const void *a, const void *b)
{
    const csv_run *left = a;
    const csv_run *right = b;
    return left->first < right->first ? -1 : left->first > right->first;
}

/* Adds runs that skip the columns between the wanted ones. The array has room for them. */
static tfos_status fill_gaps(tfos__csv_reader *reader, size_t wanted, tfos_error *error)
{
    csv_run *found = reader->runs;
    qsort(found, wanted, sizeof *found, by_first);
    csv_run *runs = calloc(2 * wanted + 1, sizeof *runs);
    if (runs == NULL) {
        return tfos__fail_memory(error, (2 * wanted + 1) * sizeof *runs);
    }
    size_t count = 0;
    size_t at = 0;
    for (size_t i = 0; i < wanted; i++) {
        if (found[i].first > at) {
            runs[count++] = (csv_run){.field = -1, .first = at, .count = found[i].first - at};
        }
        runs[count++] = found[i];
        at = found[i].first + found[i].count;
    }
    if (at < reader->columns.count) {
        runs[count++] = (csv_run){.field = -1, .first = at, .count = reader->columns.count - at};
    }
    free(found);
    reader->runs = runs;
    reader->run_count = count;
    return TFOS_OK;
}

static tfos_status find_runs(tfos__csv_reader *reader, const tfos_schema *schema, const tfos_schema *chosen,
                             tfos_error *error)
{
    size_t count = tfos_schema_field_count(schema);
    reader->runs = calloc(count + 1, sizeof *reader->runs);
    if (reader->runs == NULL) {
        return tfos__fail_memory(error, (count + 1) * sizeof *reader->runs);
    }
    size_t wanted = 0;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const tfos_field *field = tfos_schema_field(schema, i);
        int64_t index = tfos_schema_find(chosen, field->name);
        csv_run run = {0};
        if (!reader->options->header) {
            TFOS_TRY(find_by_position(reader, field, &at, &run, error));
        } else if (index >= 0) {
            TFOS_TRY(find_by_name(reader, field, &run, error));
        }
        if (index >= 0) {
            TFOS_TRY(check_field(reader, field, &run, error));
            run.field = index;
            run.type = field->type;
            run.nullable = field->nullable;
            reader->runs[wanted++] = run;
        }
    }
    if (!reader->options->header && at != reader->columns.count) {
        return tfos__fail(error, TFOS_MISMATCH, "%s: the schema describes %zu columns, the file has %zu",
                          reader->text->name, at, reader->columns.count);
    }
    return fill_gaps(reader, wanted, error);
}

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

static tfos_status fail_null(const csv_run *run, tfos_error *error)
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

static size_t fast_push(tfos__vector *leaf, tfos__csv_record *record, char delimiter, size_t count)
{
    size_t done = 0;
    if (leaf->view.type == TFOS_TYPE_INT64) {
        done = fast_ints(leaf, record, delimiter, count);
        leaf->data.size += done * sizeof(int64_t);
    } else if (leaf->view.type == TFOS_TYPE_FLOAT) {
        done = fast_floats(leaf, record, delimiter, count);
        leaf->data.size += done * sizeof(float);
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
                       tfos__printable_of(name, strlen(name)).text);
    return status;
}

/* The fields of a run from `*done` on; *done counts those that are there. A list with no value in any field is missing
 * as a whole. */
static tfos_status push_slow(tfos__csv_reader *reader, const csv_run *run, tfos__vector *leaf, tfos__csv_record *record,
                             size_t *done, size_t *nulls, tfos_error *error)
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
static tfos_status parse_run(tfos__csv_reader *reader, const csv_run *run, tfos__csv_record *record, size_t *done,
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

static void skip_run(const tfos__csv_reader *reader, const csv_run *run, tfos__csv_record *record, size_t *done)
{
    tfos__csv_cell cell;
    for (*done = 0; *done < run->count && !tfos__csv_record_done(record); ++*done) {
        tfos__csv_cell_next(record, reader->options->delimiter, &cell);
    }
}

static tfos_status parse_row(tfos__csv_reader *reader, tfos__csv_record *record, tfos_error *error)
{
    size_t seen = 0;
    for (size_t i = 0; i < reader->run_count; i++) {
        const csv_run *run = &reader->runs[i];
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
static tfos_status read_rows(tfos__csv_reader *reader, int64_t *rows, tfos_error *error)
{
    const tfos__csv_options *options = reader->options;
    int64_t bytes = 0;
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

static tfos_status next_batch(tfos__csv_reader *reader, tfos_batch **out, tfos_error *error)
{
    int64_t rows = 0;
    TFOS_TRY(tfos__batch_take(reader->pool, &reader->batch, error));
    tfos_status status = read_rows(reader, &rows, error);
    if (status == TFOS_OK && rows > 0) {
        status = tfos__batch_finish(reader->batch, rows, error);
    } else if (status == TFOS_OK) {
        status = TFOS_END;
    }
    if (status == TFOS_OK) {
        *out = reader->batch;
    } else {
        tfos_batch_free(reader->batch);
    }
    reader->batch = NULL;
    return status;
}

tfos_status tfos__csv_reader_next(tfos__csv_reader *reader, tfos_batch **out, tfos_error *error)
{
    if (reader->columns.count == 0) {
        return TFOS_END;
    }
    if (!reader->failed) {
        tfos_status status = next_batch(reader, out, &reader->failure);
        reader->failed = status != TFOS_OK && status != TFOS_END;
        if (!reader->failed) {
            return status;
        }
    }
    if (error != NULL) {
        *error = reader->failure;
    }
    return reader->failure.status;
}

void tfos__csv_reader_close(tfos__csv_reader *reader)
{
    if (reader != NULL) {
        tfos__csv_columns_reset(&reader->columns);
        tfos__buffer_reset(&reader->scratch);
        tfos__batch_pool_free(reader->pool);
        free(reader->runs);
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
        status = find_runs(reader, schema, chosen, error);
    }
    if (status == TFOS_OK) {
        status = tfos__batch_pool_new(chosen, 2, &reader->pool, error);
    }
    if (status != TFOS_OK) {
        tfos__csv_reader_close(reader);
        return status;
    }
    *out = reader;
    return TFOS_OK;
}
