/* Which columns of a CSV file go to which fields of a schema. */
#include <stdlib.h>

#include "column/schema.h"
#include "record/csv_scan.h"

void tfos__csv_options_init(tfos__csv_options *options)
{
    *options = (tfos__csv_options){
        .delimiter = ',', .header = true, .label_name = "label", .batch_rows = 4096, .batch_bytes = 16 << 20};
}

static tfos_status check_fold(const tfos__csv_options *options, size_t index, tfos_error *error)
{
    const tfos__csv_fold *fold = &options->folds[index];
    if (fold->first != NULL) {
        return options->header ? TFOS_OK
                               : tfos__fail(error, TFOS_INVALID,
                                            "the fold %s names columns, but there is no header: expected positions, as "
                                            "in image=0:784",
                                            tfos__csv_fold_text(fold).text);
    }
    if (fold->start < 0 || fold->end <= fold->start || fold->end > TFOS__CSV_MAX_COLUMNS) {
        return tfos__fail(error, TFOS_INVALID, "the fold %s has no columns: expected START:END with START < END <= %d",
                          tfos__csv_fold_text(fold).text, TFOS__CSV_MAX_COLUMNS);
    }
    for (size_t i = 0; i < index; i++) {
        const tfos__csv_fold *other = &options->folds[i];
        if (other->first == NULL && fold->start < other->end && other->start < fold->end) {
            return tfos__fail(error, TFOS_INVALID, "the folds %s and %s overlap", tfos__csv_fold_text(other).text,
                              tfos__csv_fold_text(fold).text);
        }
    }
    return TFOS_OK;
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
        TFOS_TRY(check_fold(options, i, error));
    }
    return TFOS_OK;
}

/* What the questions below are asked about. */
typedef struct matcher {
    const tfos__csv_options *options;
    const char *file;
    const tfos__csv_columns *columns;
} matcher;

/* One column of the file as the table shows it: a plain one, or all columns of a fold. */
static tfos__csv_run output_run(const matcher *self, size_t at)
{
    const tfos__csv_column *column = &self->columns->column[at];
    tfos__csv_run run = {.field = -1, .first = at, .count = 1};
    if (column->fold >= 0) {
        run.count = tfos__csv_columns_folded(self->columns, at);
        run.list = true;
    }
    return run;
}

static const char *output_name(const matcher *self, const tfos__csv_run *run)
{
    const tfos__csv_column *column = &self->columns->column[run->first];
    return column->fold >= 0 ? self->options->folds[column->fold].name : column->name;
}

/* Whether the columns from `at` on are name_0, name_1, … as a written list has them. */
static bool is_unfolded(const matcher *self, size_t at, const tfos_field *field)
{
    if ((size_t)field->length > self->columns->count - at) {
        return false;
    }
    char *end;
    size_t bytes = strlen(field->name);
    for (size_t i = 0; i < (size_t)field->length; i++) {
        const tfos__csv_column *column = &self->columns->column[at + i];
        bool named = column->fold < 0 && strncmp(column->name, field->name, bytes) == 0 && column->name[bytes] == '_' &&
                     column->name[bytes + 1] >= '0' && column->name[bytes + 1] <= '9';
        if (!named || strtoul(column->name + bytes + 1, &end, 10) != i || *end != '\0') {
            return false;
        }
    }
    return field->length > 0;
}

static tfos_status fail_missing(const matcher *self, const tfos_field *field, tfos_error *error)
{
    bool list = field->shape == TFOS_SHAPE_FIXED;
    return tfos__fail(error, TFOS_MISMATCH,
                      "%s: the schema has the column '%s', the file with %zu columns from '%s' to '%s' has not%s",
                      self->file, field->name, self->columns->count, self->columns->column[0].name,
                      self->columns->column[self->columns->count - 1].name,
                      list ? "; a list is made by --fold name=START:END or found as name_0, name_1, …" : "");
}

/* The columns at *at: a fold, one column, or as many plain columns as the list is long. */
static tfos_status find_by_position(const matcher *self, const tfos_field *field, size_t *at, tfos__csv_run *out,
                                    tfos_error *error)
{
    if (*at >= self->columns->count) {
        return fail_missing(self, field, error);
    }
    *out = output_run(self, *at);
    if (!out->list && field->shape == TFOS_SHAPE_FIXED) {
        if ((size_t)field->length > self->columns->count - *at || field->length == 0) {
            return fail_missing(self, field, error);
        }
        *out = (tfos__csv_run){.first = *at, .count = (size_t)field->length, .list = true};
    }
    *at += out->count;
    return TFOS_OK;
}

static tfos_status check_field(const matcher *self, const tfos_field *field, const tfos__csv_run *run,
                               tfos_error *error)
{
    if (field->feature_list || field->shape == TFOS_SHAPE_RAGGED) {
        return tfos__fail(
            error, TFOS_UNSUPPORTED,
            "%s: column '%s' of the schema is a list of varying length, which CSV has not: use JSON lines", self->file,
            field->name);
    }
    bool list = field->shape == TFOS_SHAPE_FIXED;
    if (list != run->list || (list && (size_t)field->length != run->count)) {
        return tfos__fail(error, TFOS_MISMATCH, "%s: column '%s' has %zu values in the file and %d in the schema",
                          self->file, field->name, run->count, list ? (int)field->length : 1);
    }
    return TFOS_OK;
}

/* Notes that the columns of `run` are the field at `index` of `chosen`. */
static tfos_status claim(const matcher *self, const tfos_schema *chosen, int64_t index, tfos__csv_run run,
                         tfos__csv_runs *runs, tfos_error *error)
{
    const tfos_field *field = tfos_schema_field(chosen, (size_t)index);
    tfos__csv_run *mine = &runs->run[index];
    if (mine->count > 0) {
        return tfos__fail(error, TFOS_MISMATCH,
                          "%s: the columns %zu and %zu are both '%s', so that it is not clear which one is meant: give "
                          "one of them another name",
                          self->file, mine->first, run.first, tfos__printable_text(field->name).text);
    }
    TFOS_TRY(check_field(self, field, &run, error));
    run.field = index;
    run.type = field->type;
    run.nullable = field->nullable;
    *mine = run;
    return TFOS_OK;
}

/* The list that begins with the column `at`, which is then called name_0; -1 if none does. */
static int64_t find_list(const matcher *self, const tfos_schema *chosen, size_t at)
{
    const char *name = self->columns->column[at].name;
    size_t bytes = strlen(name);
    if (bytes < 3 || strcmp(name + bytes - 2, "_0") != 0) {
        return -1;
    }
    int64_t index = tfos__schema_find(chosen, name, bytes - 2);
    if (index < 0) {
        return -1;
    }
    const tfos_field *field = tfos_schema_field(chosen, (size_t)index);
    return field->shape == TFOS_SHAPE_FIXED && is_unfolded(self, at, field) ? index : -1;
}

/* One walk over the columns of the file, each of which is looked up in the schema: wide files have wide schemas. */
static tfos_status match_names(const matcher *self, const tfos_schema *chosen, tfos__csv_runs *runs, tfos_error *error)
{
    tfos__csv_run run;
    runs->count = tfos_schema_field_count(chosen);
    for (size_t at = 0; at < self->columns->count; at += run.count) {
        run = output_run(self, at);
        int64_t index = tfos_schema_find(chosen, output_name(self, &run));
        if (index >= 0) {
            TFOS_TRY(claim(self, chosen, index, run, runs, error));
        }
        int64_t list = run.list ? -1 : find_list(self, chosen, at);
        if (list >= 0) {
            size_t length = (size_t)tfos_schema_field(chosen, (size_t)list)->length;
            tfos__csv_run unfolded = {.first = at, .count = length, .list = true};
            TFOS_TRY(claim(self, chosen, list, unfolded, runs, error));
        }
    }
    for (size_t i = 0; i < runs->count; i++) {
        if (runs->run[i].count == 0) {
            return fail_missing(self, tfos_schema_field(chosen, i), error);
        }
    }
    return TFOS_OK;
}

/* Without names every field of the schema takes its columns, also those that are not wanted. */
static tfos_status match_positions(const matcher *self, const tfos_schema *schema, const tfos_schema *chosen,
                                   tfos__csv_runs *runs, tfos_error *error)
{
    size_t at = 0;
    runs->count = tfos_schema_field_count(chosen);
    for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
        const tfos_field *field = tfos_schema_field(schema, i);
        int64_t index = tfos_schema_find(chosen, field->name);
        tfos__csv_run run = {0};
        TFOS_TRY(find_by_position(self, field, &at, &run, error));
        if (index >= 0) {
            TFOS_TRY(claim(self, chosen, index, run, runs, error));
        }
    }
    if (at != self->columns->count) {
        return tfos__fail(error, TFOS_MISMATCH, "%s: the schema describes %zu columns, the file has %zu", self->file,
                          at, self->columns->count);
    }
    return TFOS_OK;
}

static int by_first(const void *a, const void *b)
{
    const tfos__csv_run *left = a;
    const tfos__csv_run *right = b;
    return left->first < right->first ? -1 : left->first > right->first;
}

/* A list found as name_0, name_1, … may be claimed by a field that is called name_0. */
static tfos_status check_overlap(const matcher *self, const tfos_schema *chosen, const tfos__csv_runs *runs,
                                 tfos_error *error)
{
    for (size_t i = 1; i < runs->count; i++) {
        const tfos__csv_run *before = &runs->run[i - 1];
        const tfos__csv_run *run = &runs->run[i];
        if (run->first >= before->first + before->count) {
            continue;
        }
        const char *one = tfos_schema_field(chosen, (size_t)tfos__min_i64(before->field, run->field))->name;
        const char *two = tfos_schema_field(chosen, (size_t)tfos__max_i64(before->field, run->field))->name;
        const char *name = self->columns->column[run->first].name;
        return tfos__fail(error, TFOS_MISMATCH,
                          "%s: column %zu ('%s') would be part of both '%s' and '%s' of the schema: leave one of them "
                          "out (--columns), or give the column another name",
                          self->file, run->first, tfos__printable_text(name).text, tfos__printable_text(one).text,
                          tfos__printable_text(two).text);
    }
    return TFOS_OK;
}

/* Adds runs that skip the columns between the wanted ones, which are in order. */
static tfos_status fill_gaps(const matcher *self, tfos__csv_runs *runs, tfos_error *error)
{
    size_t wanted = runs->count;
    tfos__csv_run *all = calloc(2 * wanted + 1, sizeof *all);
    if (all == NULL) {
        return tfos__fail_memory(error, (2 * wanted + 1) * sizeof *all);
    }
    size_t count = 0;
    size_t at = 0;
    for (size_t i = 0; i < wanted; i++) {
        const tfos__csv_run *next = &runs->run[i];
        if (next->first > at) {
            all[count++] = (tfos__csv_run){.field = -1, .first = at, .count = next->first - at};
        }
        all[count++] = *next;
        at = next->first + next->count;
    }
    if (at < self->columns->count) {
        all[count++] = (tfos__csv_run){.field = -1, .first = at, .count = self->columns->count - at};
    }
    free(runs->run);
    *runs = (tfos__csv_runs){.run = all, .count = count};
    return TFOS_OK;
}

static tfos_status match(const matcher *self, const tfos_schema *schema, const tfos_schema *chosen,
                         tfos__csv_runs *runs, tfos_error *error)
{
    if (self->options->header) {
        TFOS_TRY(match_names(self, chosen, runs, error));
    } else {
        TFOS_TRY(match_positions(self, schema, chosen, runs, error));
    }
    qsort(runs->run, runs->count, sizeof *runs->run, by_first);
    TFOS_TRY(check_overlap(self, chosen, runs, error));
    return fill_gaps(self, runs, error);
}

tfos_status tfos__csv_runs_find(const tfos__csv_options *options, const char *file, const tfos__csv_columns *columns,
                                const tfos_schema *schema, const tfos_schema *chosen, tfos__csv_runs *out,
                                tfos_error *error)
{
    size_t most = tfos_schema_field_count(chosen) + 1;
    tfos__csv_runs runs = {.run = calloc(most, sizeof *runs.run)};
    if (runs.run == NULL) {
        return tfos__fail_memory(error, most * sizeof *runs.run);
    }
    matcher self = {.options = options, .file = file, .columns = columns};
    tfos_status status = match(&self, schema, chosen, &runs, error);
    if (status != TFOS_OK) {
        tfos__csv_runs_reset(&runs);
        return status;
    }
    *out = runs;
    return TFOS_OK;
}

void tfos__csv_runs_reset(tfos__csv_runs *runs)
{
    free(runs->run);
    *runs = (tfos__csv_runs){0};
}
