/* tfos records stats: what the values of each column are like. */
#include <math.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "column/vector.h"
#include "record/json_lines.h"
#include "record/number.h"

typedef struct stats_options {
    tfos__cli_common common;
} stats_options;

/* What is known of a column. Integers keep their exact least and greatest; sums are of long double, 64 bits of
 * mantissa. */
typedef struct column_stats {
    int64_t rows;
    int64_t nulls;
    int64_t values;
    int64_t nans;
    int64_t trues;
    int64_t least_int;
    int64_t most_int;
    double least;
    double most;
    long double sum;
    int64_t least_length; /* of lists */
    int64_t most_length;
    int64_t total_length;
    int64_t least_bytes; /* of strings */
    int64_t most_bytes;
    int64_t total_bytes;
} column_stats;

static column_stats empty_stats(void)
{
    return (column_stats){.least_int = INT64_MAX,
                          .most_int = INT64_MIN,
                          .least = INFINITY,
                          .most = -INFINITY,
                          .least_length = INT64_MAX,
                          .least_bytes = INT64_MAX};
}

/* ---- values ---- */

static void take_int(column_stats *stats, int64_t value)
{
    stats->least_int = value < stats->least_int ? value : stats->least_int;
    stats->most_int = value > stats->most_int ? value : stats->most_int;
    stats->sum += (long double)value;
}

static void take_real(column_stats *stats, double value)
{
    if (isnan(value)) {
        stats->nans++;
        return;
    }
    stats->least = value < stats->least ? value : stats->least;
    stats->most = value > stats->most ? value : stats->most;
    stats->sum += (long double)value;
}

static void take_bytes(column_stats *stats, int64_t bytes)
{
    stats->least_bytes = bytes < stats->least_bytes ? bytes : stats->least_bytes;
    stats->most_bytes = bytes > stats->most_bytes ? bytes : stats->most_bytes;
    stats->total_bytes += bytes;
}

static void take_leaf(column_stats *stats, const tfos_vector *leaf, int64_t start, int64_t end)
{
    stats->values += end - start;
    for (int64_t i = start; i < end; i++) {
        switch (leaf->type) {
        case TFOS_TYPE_INT32:
            take_int(stats, ((const int32_t *)leaf->data)[i]);
            break;
        case TFOS_TYPE_INT64:
            take_int(stats, ((const int64_t *)leaf->data)[i]);
            break;
        case TFOS_TYPE_FLOAT:
            take_real(stats, (double)((const float *)leaf->data)[i]);
            break;
        case TFOS_TYPE_DOUBLE:
            take_real(stats, ((const double *)leaf->data)[i]);
            break;
        case TFOS_TYPE_BOOL:
            stats->trues += tfos__bit_get(leaf->data, i);
            break;
        case TFOS_TYPE_STRING:
        case TFOS_TYPE_BINARY:
            take_bytes(stats, leaf->offsets[i + 1] - leaf->offsets[i]);
            break;
        }
    }
}

static int64_t child_start(const tfos_vector *vector, int64_t row)
{
    return vector->layout == TFOS_LAYOUT_FIXED_LIST ? row * vector->list_length : vector->offsets[row];
}

/* Rows [start, end), none of which is null. */
static void take_rows(column_stats *stats, const tfos_vector *vector, int64_t start, int64_t end, bool outermost)
{
    if (vector->child == NULL) {
        take_leaf(stats, vector, start, end);
        return;
    }
    for (int64_t row = start; outermost && row < end; row++) {
        int64_t length = child_start(vector, row + 1) - child_start(vector, row);
        stats->least_length = length < stats->least_length ? length : stats->least_length;
        stats->most_length = length > stats->most_length ? length : stats->most_length;
        stats->total_length += length;
    }
    take_rows(stats, vector->child, child_start(vector, start), child_start(vector, end), false);
}

/* Null rows of a fixed list hold zeros, which are no values: rows are taken in runs between nulls. */
static void take_column(column_stats *stats, const tfos_vector *vector)
{
    stats->rows += vector->length;
    stats->nulls += vector->null_count;
    if (vector->null_count == 0) {
        take_rows(stats, vector, 0, vector->length, true);
        return;
    }
    for (int64_t row = 0; row < vector->length;) {
        int64_t start = row;
        while (row < vector->length && !tfos__vector_is_null(vector, row)) {
            row++;
        }
        take_rows(stats, vector, start, row, true);
        while (row < vector->length && tfos__vector_is_null(vector, row)) {
            row++;
        }
    }
}

/* ---- what is shown ---- */

static bool is_integer(tfos_type type)
{
    return type == TFOS_TYPE_INT32 || type == TFOS_TYPE_INT64;
}

static bool is_real(tfos_type type)
{
    return type == TFOS_TYPE_FLOAT || type == TFOS_TYPE_DOUBLE;
}

static double mean_of(const column_stats *stats)
{
    return (double)(stats->sum / (long double)(stats->values - stats->nans));
}

static void show_real(double value, tfos__cli_text *out)
{
    snprintf(out->text, sizeof out->text, "%.6g", value);
}

static void show_numbers(const column_stats *stats, const tfos_field *field, tfos__cli_text *least,
                         tfos__cli_text *most, tfos__cli_text *mean)
{
    if (stats->values - stats->nans <= 0 || !(is_integer(field->type) || is_real(field->type))) {
        return;
    }
    if (is_integer(field->type)) {
        tfos__number_format_int(stats->least_int, least->text);
        tfos__number_format_int(stats->most_int, most->text);
    } else {
        show_real(stats->least, least);
        show_real(stats->most, most);
    }
    show_real(mean_of(stats), mean);
}

static void show_other(const column_stats *stats, const tfos_field *field, char *out, size_t bytes)
{
    int64_t rows = stats->rows - stats->nulls;
    size_t used = 0;
    out[0] = '\0';
    if (stats->most_length > 0 && stats->least_length != stats->most_length) {
        used += (size_t)snprintf(out, bytes, "length %lld to %lld, mean %.6g  ", (long long)stats->least_length,
                                 (long long)stats->most_length, (double)stats->total_length / (double)rows);
    }
    if (stats->nans > 0) {
        used += (size_t)snprintf(out + used, bytes - used, "%lld NaN  ", (long long)stats->nans);
    }
    if (field->type == TFOS_TYPE_BOOL && stats->values > 0) {
        snprintf(out + used, bytes - used, "%lld true", (long long)stats->trues);
    } else if (tfos__type_width(field->type) < 0 && stats->values > 0) {
        snprintf(out + used, bytes - used, "%lld to %lld bytes, mean %.6g", (long long)stats->least_bytes,
                 (long long)stats->most_bytes, (double)stats->total_bytes / (double)stats->values);
    }
}

static void print_table(const tfos_schema *schema, const column_stats *stats)
{
    static const char *const titles[] = {"column", "type", "rows", "nulls", "min", "max", "mean", ""};
    enum { COLUMNS = sizeof titles / sizeof titles[0] };
    tfos__cli_table *table = tfos__cli_table_new(COLUMNS, "llrrrrrl");
    for (size_t i = 0; table != NULL && i < COLUMNS; i++) {
        tfos__cli_table_add(table, titles[i]);
    }
    for (size_t i = 0; table != NULL && i < tfos_schema_field_count(schema); i++) {
        const tfos_field *field = tfos_schema_field(schema, i);
        char type[64];
        char other[160];
        tfos__cli_text least = {""};
        tfos__cli_text most = {""};
        tfos__cli_text mean = {""};
        tfos__field_describe(field, type, sizeof type);
        show_numbers(&stats[i], field, &least, &most, &mean);
        show_other(&stats[i], field, other, sizeof other);
        tfos__cli_table_add(table, field->name);
        tfos__cli_table_add(table, type);
        tfos__cli_table_add(table, tfos__cli_show_count(stats[i].rows).text);
        tfos__cli_table_add(table, tfos__cli_show_count(stats[i].nulls).text);
        tfos__cli_table_add(table, least.text);
        tfos__cli_table_add(table, most.text);
        tfos__cli_table_add(table, mean.text);
        tfos__cli_table_add(table, other);
    }
    if (table != NULL) {
        tfos__cli_table_print(table);
    }
    tfos__cli_table_free(table);
}

/* JSON has no infinities: they are strings, as in JSON lines. */
static void print_json_real(const char *name, double value)
{
    char text[TFOS__NUMBER_BYTES];
    const char *quote = isfinite(value) ? "" : "\"";
    tfos__number_format_double(value, text);
    tfos__cli_print(", \"%s\": %s%s%s", name, quote, text, quote);
}

static void print_json_column(const tfos_field *field, const column_stats *stats)
{
    tfos__buffer name = {0};
    char type[64];
    tfos__field_describe(field, type, sizeof type);
    (void)tfos__json_write_string(field->name, strlen(field->name), &name, NULL);
    tfos__cli_print("{\"name\": %.*s, \"type\": \"%s\", \"rows\": %lld, \"nulls\": %lld, \"values\": %lld",
                    (int)name.size, (const char *)name.data, type, (long long)stats->rows, (long long)stats->nulls,
                    (long long)stats->values);
    tfos__buffer_reset(&name);
    bool numbers = stats->values > stats->nans;
    if (is_integer(field->type) && numbers) {
        tfos__cli_print(", \"min\": %lld, \"max\": %lld", (long long)stats->least_int, (long long)stats->most_int);
        print_json_real("mean", mean_of(stats));
    } else if (is_real(field->type) && numbers) {
        print_json_real("min", stats->least);
        print_json_real("max", stats->most);
        print_json_real("mean", mean_of(stats));
    }
    if (is_real(field->type)) {
        tfos__cli_print(", \"nans\": %lld", (long long)stats->nans);
    }
    if (field->type == TFOS_TYPE_BOOL) {
        tfos__cli_print(", \"true\": %lld", (long long)stats->trues);
    }
    if (stats->least_length != INT64_MAX) {
        tfos__cli_print(", \"length\": {\"min\": %lld, \"max\": %lld", (long long)stats->least_length,
                        (long long)stats->most_length);
        print_json_real("mean", (double)stats->total_length / (double)(stats->rows - stats->nulls));
        tfos__cli_print("}");
    }
    if (stats->least_bytes != INT64_MAX) {
        tfos__cli_print(", \"bytes\": {\"min\": %lld, \"max\": %lld", (long long)stats->least_bytes,
                        (long long)stats->most_bytes);
        print_json_real("mean", (double)stats->total_bytes / (double)stats->values);
        tfos__cli_print("}");
    }
    tfos__cli_print("}");
}

static void print_json(const tfos_schema *schema, const column_stats *stats, int64_t rows)
{
    tfos__cli_print("{\"rows\": %lld,\n \"columns\": [", (long long)rows);
    for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
        tfos__cli_print("%s\n  ", i == 0 ? "" : ",");
        print_json_column(tfos_schema_field(schema, i), &stats[i]);
    }
    tfos__cli_print("]}\n");
}

/* ---- the pass over the data ---- */

static tfos_status take_batches(tfos_reader *reader, size_t columns, column_stats *stats, int64_t *rows,
                                tfos_error *error)
{
    for (;;) {
        tfos_batch *batch;
        tfos_status status = tfos_reader_next(reader, &batch, error);
        if (status != TFOS_OK) {
            return status == TFOS_END ? TFOS_OK : status;
        }
        for (size_t i = 0; i < columns; i++) {
            take_column(&stats[i], tfos_batch_column(batch, i));
        }
        *rows += tfos_batch_rows(batch);
        tfos_batch_free(batch);
    }
}

static int measure(const stats_options *options, const tfos_paths *paths, const tfos_schema *schema)
{
    tfos_read_options read;
    tfos_reader *reader;
    tfos_error error;
    tfos__cli_read_options(&options->common, &read);
    read.schema = schema;
    read.ordered = false;
    if (tfos_reader_open(paths, &read, &reader, &error) != TFOS_OK) {
        return tfos__cli_fail(&error);
    }
    size_t columns = tfos_schema_field_count(schema);
    int64_t rows = 0;
    column_stats *stats = calloc(columns + 1, sizeof *stats);
    if (stats == NULL) {
        tfos_reader_close(reader);
        tfos__cli_note("out of memory");
        return CLI_SYSTEM;
    }
    for (size_t i = 0; i < columns; i++) {
        stats[i] = empty_stats();
    }
    tfos__cli_progress_start("reading", tfos__cli_progress_of_reader, reader, options->common.quiet);
    tfos_status status = take_batches(reader, columns, stats, &rows, &error);
    tfos__cli_progress_stop();
    tfos_progress progress;
    tfos_reader_progress(reader, &progress);
    tfos_reader_close(reader);
    int code = CLI_OK;
    if (status != TFOS_OK) {
        code = tfos__cli_fail(&error);
    } else if (options->common.json) {
        print_json(schema, stats, rows);
    } else {
        print_table(schema, stats);
    }
    tfos__cli_report_skipped(&progress);
    free(stats);
    return code;
}

static int show(const void *context, const tfos_paths *paths)
{
    const stats_options *options = context;
    tfos_schema *schema;
    tfos_schema *chosen;
    int code = tfos__cli_find_schema(&options->common, paths, 0, true, &schema, &chosen);
    if (code == CLI_OK) {
        code = measure(options, paths, chosen);
        tfos_schema_free(schema);
        tfos_schema_free(chosen);
    }
    return code;
}

static int run(int argc, char **argv)
{
    stats_options options = {0};
    return tfos__cli_run_on_paths(&tfos__cli_records_stats, argc, argv, &options, show);
}

static const tfos__cli_option table_of_options[] = {
    CLI_OPTION_COLUMNS(stats_options),
    CLI_OPTION_SCHEMA(stats_options),
    CLI_OPTION_JSON(stats_options, "one JSON object instead of a table"),
    CLI_OPTION_RECORD(stats_options),
    CLI_OPTION_CODEC(stats_options, "compression of the files: auto (default), none, gzip or zlib"),
    CLI_OPTION_ON_CORRUPT(stats_options),
    CLI_OPTION_THREADS(stats_options),
    CLI_OPTION_QUIET(stats_options),
};

const tfos__cli_command tfos__cli_records_stats = {
    .name = "records stats",
    .summary = "show least, greatest and mean values, lengths and missing values of each column",
    .synopsis = "tfos records stats [OPTIONS] INPUT…",
    .details = "min, max and mean are over all values of a column, also those in lists; NaN is counted and left out.\n"
               "The length is that of a list or of a feature list.\n\n"
               "Examples:\n"
               "  tfos records stats data/\n"
               "  tfos records stats --columns label --json data/ | jq '.columns[0].mean'\n",
    .options = table_of_options,
    .option_count = sizeof table_of_options / sizeof table_of_options[0],
    .least_inputs = 1,
    .missing_input = "expected a file, a folder or a glob",
    .run = run,
};
