/* tfos records convert: between TFRecord, CSV and JSON lines. */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "cli/convert.h"
#include "record/json_lines.h"
#include "record/shards.h"
#include "record/shuffle.h"

enum { MIN_MEMORY = 1 << 20 };
#define MAX_MEMORY (INT64_C(1) << 46)
#define DEFAULT_MEMORY (INT64_C(1) << 30)

static const char *const format_names[] = {"auto", "tfrecord", "csv", "jsonl", NULL};

/* ---- formats ---- */

static bool ends_with(const char *name, size_t length, const char *ending)
{
    size_t bytes = strlen(ending);
    return length >= bytes && strncmp(name + length - bytes, ending, bytes) == 0;
}

tfos__convert_format tfos__convert_format_of(const char *path, tfos__convert_format otherwise)
{
    static const struct {
        const char *ending;
        tfos__convert_format format;
    } endings[] = {
        {".csv", CONVERT_CSV},
        {".tsv", CONVERT_CSV},
        {".jsonl", CONVERT_JSONL},
        {".ndjson", CONVERT_JSONL},
        {".json", CONVERT_JSONL},
        {".tfrecord", CONVERT_TFRECORD},
        {".tfrecords", CONVERT_TFRECORD},
    };
    size_t length = strlen(path);
    static const char *const compressed[] = {".gz", ".zlib", ".zz", ".deflate"};
    for (size_t i = 0; i < sizeof compressed / sizeof compressed[0]; i++) {
        if (ends_with(path, length, compressed[i])) {
            length -= strlen(compressed[i]);
            break;
        }
    }
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (ends_with(path, length, endings[i].ending)) {
            return endings[i].format;
        }
    }
    return otherwise;
}

const char *tfos__convert_format_ending(tfos__convert_format format)
{
    return format == CONVERT_CSV ? ".csv" : format == CONVERT_JSONL ? ".jsonl" : ".tfrecord";
}

static int check_same_format(const tfos_paths *paths, tfos__convert_format format)
{
    for (size_t i = 0; i < paths->count; i++) {
        if (tfos__convert_format_of(paths->path[i], format) != format) {
            return tfos__cli_fail_usage(
                "the inputs have different formats: %s is %s, %s is not; convert them one format at a "
                "time, or say --from",
                paths->path[0], tfos__convert_format_ending(format) + 1, paths->path[i]);
        }
    }
    return CLI_OK;
}

/* ---- options of CSV ---- */

static bool parse_delimiter(const char *text, char *out)
{
    static const struct {
        const char *name;
        char delimiter;
    } names[] = {{"tab", '\t'}, {"\\t", '\t'}, {"comma", ','}, {"semicolon", ';'}, {"pipe", '|'}, {"space", ' '}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i].name) == 0) {
            *out = names[i].delimiter;
            return true;
        }
    }
    *out = text[0];
    return strlen(text) == 1;
}

static bool parse_label(const char *text, tfos__csv_options *csv)
{
    size_t side = strcspn(text, "=");
    if (side == 5 && strncmp(text, "first", 5) == 0) {
        csv->label = TFOS__CSV_LABEL_FIRST;
    } else if (side == 4 && strncmp(text, "last", 4) == 0) {
        csv->label = TFOS__CSV_LABEL_LAST;
    } else {
        return false;
    }
    csv->label_name = text[side] == '=' ? text + side + 1 : "label";
    return csv->label_name[0] != '\0';
}

static bool parse_position(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end > text && *end == '\0' && errno == 0;
}

/* "image=1:785" or "image=pixel_0:pixel_783". The caller frees the name, with which the others go. */
static bool parse_fold(const char *text, tfos__csv_fold *out)
{
    const char *equals = strchr(text, '=');
    const char *colon = equals != NULL ? strchr(equals, ':') : NULL;
    bool complete = colon != NULL && equals > text && colon > equals + 1 && colon[1] != '\0';
    if (!complete || strchr(colon + 1, ':') != NULL) {
        return false;
    }
    char *name = strdup(text);
    if (name == NULL) {
        return false;
    }
    name[equals - text] = '\0';
    name[colon - text] = '\0';
    const char *first = name + (equals - text) + 1;
    const char *last = name + (colon - text) + 1;
    *out = (tfos__csv_fold){.name = name};
    if (!parse_position(first, &out->start) || !parse_position(last, &out->end)) {
        out->first = first;
        out->last = last;
    }
    return true;
}

/* `folds` has room for CLI_MAX_TEXTS. */
static int read_csv_options(const tfos__convert_options *options, tfos__csv_fold *folds, tfos__csv_options *csv)
{
    tfos_error error;
    tfos__csv_options_init(csv);
    csv->header = options->header;
    csv->batch_rows = 1024;
    if (options->delimiter != NULL && !parse_delimiter(options->delimiter, &csv->delimiter)) {
        return tfos__cli_fail_usage(
            "--delimiter: expected one character, tab, comma, semicolon, pipe or space, found '%s'",
            options->delimiter);
    }
    if (options->label != NULL && !parse_label(options->label, csv)) {
        return tfos__cli_fail_usage("--label: expected first, last, first=NAME or last=NAME, found '%s'",
                                    options->label);
    }
    for (size_t i = 0; i < options->folds.count; i++) {
        if (!parse_fold(options->folds.text[i], &folds[i])) {
            return tfos__cli_fail_usage("--fold: expected NAME=START:END, as in image=1:785, or NAME=FIRST:LAST, as in "
                                        "image=pixel_0:pixel_783, found '%s'",
                                        options->folds.text[i]);
        }
        csv->fold_count = i + 1;
    }
    csv->folds = folds;
    return tfos__csv_options_check(csv, &error) == TFOS_OK ? CLI_OK : tfos__cli_fail(&error);
}

/* ---- the plan ---- */

typedef struct conversion {
    tfos__convert_options options;
    tfos__convert_format from;
    tfos__convert_format to;
    tfos__csv_options csv;
    tfos__csv_fold folds[CLI_MAX_TEXTS];
    const char *output;
} conversion;

/* Options that would be silently without effect are refused. */
static int check_options(const conversion *self, const tfos__cli_inputs *inputs)
{
    const tfos__convert_options *options = &self->options;
    bool csv = self->from == CONVERT_CSV || self->to == CONVERT_CSV;
    if (self->from != CONVERT_CSV && (options->folds.count > 0 || options->label != NULL)) {
        return tfos__cli_fail_usage("--fold and --label are for CSV input, but %s is read as %s", inputs->text[0],
                                    format_names[self->from + 1]);
    }
    if (!csv && (options->delimiter != NULL || !options->header)) {
        return tfos__cli_fail_usage("--delimiter and --no-header are for CSV, but neither input nor output is");
    }
    if (self->from != CONVERT_TFRECORD && (options->common.on_corrupt != 0 || options->common.record != 0)) {
        return tfos__cli_fail_usage("--on-corrupt and --record are for TFRecord input, but %s is read as %s",
                                    inputs->text[0], format_names[self->from + 1]);
    }
    if (!options->shuffle && (options->seed != 0 || options->memory != DEFAULT_MEMORY)) {
        return tfos__cli_fail_usage("--seed and --memory are for --shuffle, which is not given");
    }
    return CLI_OK;
}

static int make_plan(conversion *self, const tfos_paths *paths, const tfos__cli_inputs *inputs)
{
    tfos__convert_options *options = &self->options;
    int code = CLI_OK;
    if (options->from != 0) {
        self->from = (tfos__convert_format)(options->from - 1);
    } else {
        self->from = tfos__convert_format_of(paths->path[0], CONVERT_TFRECORD);
        code = check_same_format(paths, self->from);
    }
    self->to = options->to != 0 ? (tfos__convert_format)(options->to - 1)
                                : tfos__convert_format_of(self->output, CONVERT_TFRECORD);
    if (code == CLI_OK) {
        code = check_options(self, inputs);
    }
    if (code == CLI_OK) {
        code = read_csv_options(options, self->folds, &self->csv);
    }
    const char *first = paths->path[0];
    bool tabs = ends_with(first, strlen(first), ".tsv") || ends_with(first, strlen(first), ".tsv.gz");
    if (options->delimiter == NULL &&
        (self->from == CONVERT_CSV ? tabs : ends_with(self->output, strlen(self->output), ".tsv"))) {
        self->csv.delimiter = '\t';
    }
    /* Records that stay records are copied as they are: nothing that a schema does not know is lost. */
    bool parsed = options->common.schema != NULL || options->common.columns.count > 0 || options->common.record != 0;
    if (self->from == CONVERT_TFRECORD && self->to == CONVERT_TFRECORD && !parsed) {
        options->common.record = TFOS_RECORD_BYTES;
    }
    return code;
}

/* ---- the work ---- */

/* Many shards are many open files. */
static void allow_open_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static tfos_status copy_rows(tfos__convert_input *input, tfos__convert_output *output, tfos_error *error)
{
    for (;;) {
        tfos_batch *batch;
        tfos_status status = tfos__convert_input_next(input, &batch, error);
        if (status != TFOS_OK) {
            return status == TFOS_END ? TFOS_OK : status;
        }
        status = tfos__convert_output_batch(output, batch, error);
        tfos_batch_free(batch);
        if (status != TFOS_OK) {
            return status;
        }
    }
}

static void report(const conversion *self, const tfos__convert_output *output, int64_t records)
{
    size_t count = tfos__convert_output_files(output);
    if (self->options.common.json) {
        tfos__cli_print("{\"records\": %lld, \"files\": [", (long long)records);
        for (size_t i = 0; i < count; i++) {
            const char *path = tfos__convert_output_file(output, i);
            tfos__buffer text = {0};
            (void)tfos__json_write_string(path, strlen(path), &text, NULL);
            tfos__cli_print("%s%.*s", i == 0 ? "" : ", ", (int)text.size, (const char *)text.data);
            tfos__buffer_reset(&text);
        }
        tfos__cli_print("]}\n");
    } else if (!self->options.common.quiet) {
        tfos__cli_note("wrote %s records to %s%s", tfos__cli_show_count(records).text, self->output,
                       count > 1 ? " (shards, in turn)" : "");
    }
}

static int convert(const conversion *self, tfos__convert_input *input, tfos__convert_output *output)
{
    tfos_error error;
    bool quiet = self->options.common.quiet;
    tfos__cli_progress_start("converting", tfos__convert_input_progress, input, quiet);
    tfos_status status = copy_rows(input, output, &error);
    tfos__cli_progress_stop();
    tfos_progress progress;
    if (status == TFOS_OK) {
        tfos__cli_progress_start("writing in random order", tfos__convert_output_progress, output,
                                 quiet || !self->options.shuffle);
        status = tfos__convert_output_drain(output, &error);
        tfos__cli_progress_stop();
        tfos__convert_output_progress(output, &progress);
    }
    if (status == TFOS_OK) {
        status = tfos__convert_output_commit(output, &error);
    }
    if (status != TFOS_OK) {
        return tfos__cli_fail(&error);
    }
    report(self, output, progress.records);
    tfos__convert_input_progress(input, &progress);
    tfos__cli_report_skipped(&progress);
    return CLI_OK;
}

static int open_and_convert(conversion *self, const tfos_paths *paths, const tfos__cli_inputs *inputs)
{
    tfos__convert_input *input = NULL;
    tfos__convert_output *output = NULL;
    int code = make_plan(self, paths, inputs);
    if (code == CLI_OK) {
        code = tfos__convert_input_open(&self->options, self->from, self->to, &self->csv, paths, &input);
    }
    if (code == CLI_OK) {
        code = tfos__convert_output_open(&self->options, self->to, self->csv.delimiter, self->output,
                                         tfos__convert_input_schema(input), &output);
    }
    if (code == CLI_OK) {
        code = convert(self, input, output);
    }
    tfos__convert_output_close(output);
    tfos__convert_input_close(input);
    for (size_t i = 0; i < self->csv.fold_count; i++) {
        free((char *)(uintptr_t)self->folds[i].name);
    }
    return code;
}

static int run(int argc, char **argv)
{
    conversion self = {.options = {.header = true, .level = -1, .memory = DEFAULT_MEMORY}};
    tfos__cli_inputs inputs;
    int code;
    if (!tfos__cli_parse(&tfos__cli_records_convert, argc, argv, &self.options, &inputs, &code)) {
        return code;
    }
    self.output = inputs.text[inputs.count - 1];
    tfos_paths *paths;
    tfos_error error;
    allow_open_files();
    if (self.output[0] == '\0') {
        code = tfos__cli_fail_usage("the output has no name");
    } else if (tfos_paths_expand(inputs.text, inputs.count - 1, &paths, &error) == TFOS_OK) {
        code = open_and_convert(&self, paths, &inputs);
        tfos_paths_free(paths);
    } else {
        code = tfos__cli_fail(&error);
    }
    free(inputs.text);
    return code;
}

static const tfos__cli_option table[] = {
    {.name = "from",
     .value = "FORMAT",
     .kind = CLI_CHOICE,
     .offset = offsetof(tfos__convert_options, from),
     .choices = format_names,
     .help = "format of the input: tfrecord, csv or jsonl (default auto: by the end of its name)"},
    {.name = "to",
     .value = "FORMAT",
     .kind = CLI_CHOICE,
     .offset = offsetof(tfos__convert_options, to),
     .choices = format_names,
     .help = "format of the output: tfrecord, csv or jsonl (default auto: by the end of its name, else tfrecord)"},
    {.name = "header",
     .kind = CLI_FLAG,
     .offset = offsetof(tfos__convert_options, header),
     .help = "CSV files begin with the names of the columns (default)"},
    {.name = "no-header",
     .kind = CLI_UNFLAG,
     .offset = offsetof(tfos__convert_options, header),
     .help = "they do not: columns are c0, c1, …"},
    {.name = "delimiter",
     .value = "CHARACTER",
     .kind = CLI_TEXT,
     .offset = offsetof(tfos__convert_options, delimiter),
     .help = "between the fields of CSV: a character, or tab, semicolon, pipe, space (default comma; tab for .tsv)"},
    {.name = "label",
     .value = "SIDE[=NAME]",
     .kind = CLI_TEXT,
     .offset = offsetof(tfos__convert_options, label),
     .help = "call the first or last column of CSV input `label`, or NAME"},
    {.name = "fold",
     .value = "NAME=START:END",
     .kind = CLI_TEXTS,
     .offset = offsetof(tfos__convert_options, folds),
     .help =
         "make one list of the columns START to END - 1 of CSV input, counted from 0, or of those from the name START "
         "of the header to the name END; may be given several times"},
    CLI_OPTION_SCHEMA(tfos__convert_options),
    CLI_OPTION_COLUMNS(tfos__convert_options),
    {.name = "shards",
     .value = "N",
     .kind = CLI_INTEGER,
     .offset = offsetof(tfos__convert_options, shards),
     .least = 1,
     .most = TFOS__SHARDS_MAX,
     .help = "OUTPUT is a folder: write part-00000-of-0000N and so on into it, row i to part i mod N"},
    {.name = "codec",
     .value = "CODEC",
     .kind = CLI_CHOICE,
     .offset = offsetof(tfos__convert_options, output_codec),
     .choices = tfos__codec_names,
     .help = "compression of the output: auto (default: by the end of its name; shards have none), none, gzip or zlib"},
    {.name = "level",
     .value = "N",
     .kind = CLI_INTEGER,
     .offset = offsetof(tfos__convert_options, level),
     .least = 1,
     .most = 9,
     .help = "level of compression, 1 (fast) to 9 (small)"},
    {.name = "shuffle",
     .kind = CLI_FLAG,
     .offset = offsetof(tfos__convert_options, shuffle),
     .help = "put all rows in random order; every order is equally likely"},
    {.name = "seed",
     .value = "N",
     .kind = CLI_INTEGER,
     .offset = offsetof(tfos__convert_options, seed),
     .least = INT64_MIN,
     .most = INT64_MAX,
     .help = "seed of the shuffle (default 0): the same seed and input give the same order"},
    {.name = "memory",
     .value = "SIZE",
     .kind = CLI_BYTES,
     .offset = offsetof(tfos__convert_options, memory),
     .least = MIN_MEMORY,
     .most = MAX_MEMORY,
     .help = "most memory of the shuffle (default 1GiB); the rest goes to a temporary file beside the output"},
    {.name = "overwrite",
     .kind = CLI_FLAG,
     .offset = offsetof(tfos__convert_options, overwrite),
     .help = "replace output that exists; with --shards, all shards in the folder"},
    CLI_OPTION_RECORD(tfos__convert_options),
    {.name = "input-codec",
     .value = "CODEC",
     .kind = CLI_CHOICE,
     .offset = offsetof(tfos__convert_options, common.codec),
     .choices = tfos__codec_names,
     .help = "compression of the input: auto (default), none, gzip or zlib"},
    CLI_OPTION_ON_CORRUPT(tfos__convert_options),
    CLI_OPTION_THREADS(tfos__convert_options),
    CLI_OPTION_JSON(tfos__convert_options, "say what was written as a JSON object on stdout"),
    CLI_OPTION_QUIET(tfos__convert_options),
};

const tfos__cli_command tfos__cli_records_convert = {
    .name = "records convert",
    .summary = "convert between TFRecord, CSV and JSON lines; shard, shuffle, compress",
    .synopsis = "tfos records convert [OPTIONS] INPUT… OUTPUT",
    .details =
        "Without --schema a first pass over text input finds the types: int64 if every value is an integer, float if\n"
        "every value is a number, else string. An empty field of CSV, and null or no key in JSON, is a missing value.\n"
        "Arrays of JSON are lists; arrays of arrays are the feature lists of a SequenceExample. Binary values (by\n"
        "schema) are base64 in text. NaN and infinities are the strings NaN, Infinity and -Infinity in JSON.\n"
        "A TFRecord keeps 32 bits of a number with a fraction, about 7 digits; from text to text, types are double.\n"
        "A list of fixed length is written to CSV as the columns name_0, name_1, …\n"
        "TFRecords are copied to TFRecords as they are, unless --columns, --schema or --record asks to parse them.\n"
        "Output appears when it is complete, never before; on failure nothing is left.\n\n"
        "Examples:\n"
        "  tfos records convert --no-header --fold image=0:784 --label last --shards 4 --shuffle mnist.csv.gz data/\n"
        "  tfos records convert --fold image=pixel_0:pixel_783 digits.csv digits.tfrecord\n"
        "  tfos records convert data/ all.jsonl\n"
        "  tfos records convert --columns id,label data/ labels.csv\n"
        "  tfos records convert --shards 16 --codec gzip data/ packed/\n",
    .options = table,
    .option_count = sizeof table / sizeof table[0],
    .least_inputs = 2,
    .missing_input = "expected one or more inputs and an output",
    .run = run,
};
