/* tfos records head: a few rows, for people or as JSON lines. */
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "column/schema.h"
#include "record/json_lines.h"

typedef struct head_options {
    tfos__cli_common common;
    int64_t rows;
    int64_t start;
    int64_t width;
    bool full;
} head_options;

/* The rows that are still to be passed over and to be shown. */
typedef struct window {
    const head_options *options;
    const tfos_schema *schema;
    int64_t skip;
    int64_t left;
    int64_t number; /* of the next row */
    size_t name_width;
    size_t type_width;
    tfos__buffer text;
} window;

enum { BATCH_ROWS = 1024, DEFAULT_WIDTH = 100 };

static void print_fields(window *self, const tfos_batch *batch, int64_t row)
{
    size_t width = self->options->full ? 0 : (size_t)self->options->width;
    size_t taken = self->name_width + self->type_width + 6;
    width = width == 0 ? 0 : width > taken + 24 ? width - taken : 24;
    tfos__cli_print("row %lld\n", (long long)self->number);
    for (size_t i = 0; i < tfos_schema_field_count(self->schema); i++) {
        const tfos_field *field = tfos_schema_field(self->schema, i);
        char type[64];
        tfos__field_describe(field, type, sizeof type);
        self->text.size = 0;
        tfos__cli_show_text(field->name, strlen(field->name), &self->text);
        size_t used = tfos__cli_text_width((const char *)self->text.data, self->text.size);
        (void)tfos__buffer_printf(&self->text, NULL, "%*s  %-*s  ", (int)(self->name_width - used), "",
                                  (int)self->type_width, type);
        tfos__cli_show_value(tfos_batch_column(batch, i), row, width, &self->text);
        tfos__cli_print("  ");
        tfos__cli_write(self->text.data, self->text.size);
        tfos__cli_print("\n");
    }
}

static tfos_status print_row(window *self, const tfos_batch *batch, int64_t row, tfos_error *error)
{
    if (!self->options->common.json) {
        print_fields(self, batch, row);
        return TFOS_OK;
    }
    self->text.size = 0;
    tfos_status status = tfos__json_write_row(batch, row, &self->text, error);
    if (status == TFOS_OK) {
        tfos__cli_write(self->text.data, self->text.size);
        tfos__cli_print("\n");
    }
    return status;
}

/* Shows the rows of a batch that are in the window. */
static tfos_status print_batch(window *self, const tfos_batch *batch, tfos_error *error)
{
    int64_t rows = tfos_batch_rows(batch);
    int64_t row = self->skip < rows ? self->skip : rows;
    self->skip -= row;
    self->number += row;
    tfos_status status = TFOS_OK;
    /* A closed pipe ends the walk; tfos__cli_end_output tells it from other failures. */
    for (; status == TFOS_OK && row < rows && self->left > 0 && tfos__cli_print("%s", ""); row++) {
        status = print_row(self, batch, row, error);
        self->left--;
        self->number++;
    }
    return status;
}

static tfos_status read_files(window *self, const tfos_paths *paths, int64_t range_start, tfos_error *error)
{
    tfos_read_options options;
    tfos__cli_read_options(&self->options->common, &options);
    options.schema = self->schema;
    options.threads = 0; /* reads no further than it must */
    options.range_start = range_start;
    options.batch_rows = self->skip == 0 && self->left < BATCH_ROWS ? self->left : BATCH_ROWS;
    tfos_reader *reader;
    tfos_status status = tfos_reader_open(paths, &options, &reader, error);
    if (status != TFOS_OK) {
        return status;
    }
    while (status == TFOS_OK && self->left > 0 && tfos__cli_print("%s", "")) {
        tfos_batch *batch;
        status = tfos_reader_next(reader, &batch, error);
        if (status == TFOS_OK) {
            status = print_batch(self, batch, error);
            tfos_batch_free(batch);
        }
    }
    tfos_progress progress;
    tfos_reader_progress(reader, &progress);
    tfos__cli_report_skipped(&progress);
    tfos_reader_close(reader);
    return status == TFOS_END ? TFOS_OK : status;
}

/* By fresh indexes, passes over files, and records of the file behind them, that are before the window. */
static void seek(window *self, const tfos_paths *paths, size_t *file, int64_t *offset)
{
    *file = 0;
    *offset = 0;
    bool skip_damage = self->options->common.on_corrupt == TFOS_ON_CORRUPT_SKIP;
    for (; self->skip > 0 && !skip_damage && *file < paths->count; ++*file) {
        tfos_index *index;
        if (tfos_index_open(paths->path[*file], &index, NULL) != TFOS_OK) {
            return;
        }
        int64_t records = tfos_index_records(index);
        if (self->skip < records && tfos_index_offset(index, self->skip, offset, NULL) == TFOS_OK) {
            self->number += self->skip;
            self->skip = 0;
            tfos_index_free(index);
            return;
        }
        tfos_index_free(index);
        if (self->skip < records) {
            return;
        }
        self->skip -= records;
        self->number += records;
    }
}

static tfos_paths some_paths(const tfos_paths *paths, size_t first, size_t count)
{
    tfos_paths some = {.count = count, .path = paths->path + first, .bytes = paths->bytes + first};
    for (size_t i = 0; i < count; i++) {
        some.total_bytes += some.bytes[i];
    }
    return some;
}

static tfos_status show_window(window *self, const tfos_paths *paths, tfos_error *error)
{
    size_t file;
    int64_t offset;
    if (self->left == 0) {
        return TFOS_OK;
    }
    seek(self, paths, &file, &offset);
    if (offset > 0) {
        tfos_paths one = some_paths(paths, file, 1);
        tfos_status status = read_files(self, &one, offset, error);
        if (status != TFOS_OK) {
            return status;
        }
        file++;
    }
    if (file == paths->count || self->left == 0) {
        return TFOS_OK;
    }
    tfos_paths rest = some_paths(paths, file, paths->count - file);
    return read_files(self, &rest, 0, error);
}

static void measure(window *self)
{
    for (size_t i = 0; i < tfos_schema_field_count(self->schema); i++) {
        const tfos_field *field = tfos_schema_field(self->schema, i);
        char type[64];
        tfos__field_describe(field, type, sizeof type);
        self->text.size = 0;
        tfos__cli_show_text(field->name, strlen(field->name), &self->text);
        size_t name = tfos__cli_text_width((const char *)self->text.data, self->text.size);
        self->name_width = name > self->name_width ? name : self->name_width;
        self->type_width = strlen(type) > self->type_width ? strlen(type) : self->type_width;
    }
}

static int show(const void *context, const tfos_paths *paths)
{
    const head_options *options = context;
    tfos_schema *schema;
    tfos_schema *chosen;
    /* The sample takes in every row that can be read, so that no row is a surprise to the schema. */
    int64_t sample = options->start + options->rows + BATCH_ROWS;
    int code = tfos__cli_find_schema(&options->common, paths, sample, true, &schema, &chosen);
    if (code != CLI_OK) {
        return code;
    }
    tfos_error error;
    window self = {.options = options, .schema = chosen, .skip = options->start, .left = options->rows};
    measure(&self);
    if (show_window(&self, paths, &error) != TFOS_OK) {
        code = tfos__cli_fail(&error);
    }
    tfos__buffer_reset(&self.text);
    tfos_schema_free(schema);
    tfos_schema_free(chosen);
    return code;
}

static int run(int argc, char **argv)
{
    head_options options = {.rows = 5, .width = tfos__cli_terminal_width(STDOUT_FILENO, DEFAULT_WIDTH)};
    return tfos__cli_run_on_paths(&tfos__cli_records_head, argc, argv, &options, show);
}

static const tfos__cli_option table[] = {
    {.name = "rows",
     .letter = 'n',
     .value = "N",
     .kind = CLI_INTEGER,
     .offset = offsetof(head_options, rows),
     .least = 0,
     .most = INT32_MAX,
     .help = "rows to show (default 5)"},
    {.name = "start",
     .value = "ROW",
     .kind = CLI_INTEGER,
     .offset = offsetof(head_options, start),
     .least = 0,
     .most = INT64_MAX / 2,
     .help = "first row to show, counted from 0 over all files (default 0); quick where there is an index"},
    CLI_OPTION_COLUMNS(head_options),
    CLI_OPTION_SCHEMA(head_options),
    CLI_OPTION_JSON(head_options, "JSON lines: one object a row, nothing cut; binary values are base64"),
    {.name = "width",
     .value = "N",
     .kind = CLI_INTEGER,
     .offset = offsetof(head_options, width),
     .least = 20,
     .most = 100000,
     .help = "cut long values so that lines have about N columns (default: the terminal's, or 100)"},
    {.name = "full", .kind = CLI_FLAG, .offset = offsetof(head_options, full), .help = "cut nothing"},
    CLI_OPTION_RECORD(head_options),
    CLI_OPTION_CODEC(head_options, "compression of the files: auto (default), none, gzip or zlib"),
    CLI_OPTION_ON_CORRUPT(head_options),
    CLI_OPTION_THREADS(head_options),
};

const tfos__cli_command tfos__cli_records_head = {
    .name = "records head",
    .summary = "show the first rows",
    .synopsis = "tfos records head [OPTIONS] INPUT…",
    .details = "Examples:\n"
               "  tfos records head data/\n"
               "  tfos records head -n 2 --start 1000 --columns image,label --full train.tfrecord\n"
               "  tfos records head -n 100 --json train.tfrecord.gz | jq .label\n",
    .options = table,
    .option_count = sizeof table / sizeof table[0],
    .least_inputs = 1,
    .missing_input = "expected a file, a folder or a glob",
    .run = run,
};
