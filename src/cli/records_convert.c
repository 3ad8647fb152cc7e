/* tfos records convert: between TFRecord, CSV and JSON lines. */
#include <stdlib.h>
#include <sys/resource.h>

#include "cli/convert.h"
#include "record/json_lines.h"

enum { MIN_MEMORY = 1 << 20 };
#define MAX_MEMORY (INT64_C(1) << 46)
#define DEFAULT_MEMORY (INT64_C(1) << 30)

/* ---- the plan ---- */

typedef struct conversion {
    tfos__convert_options options;
    tfos__convert_plan plan;
    const char *output;
} conversion;

static int make_plan(conversion *self, const tfos_paths *paths, const tfos__cli_inputs *inputs)
{
    tfos__convert_options *options = &self->options;
    int code = tfos__convert_plan_make(options, paths, inputs->text[0], self->output, &self->plan);
    if (code == CLI_OK && !options->shuffle && (options->seed != 0 || options->memory != DEFAULT_MEMORY)) {
        code = tfos__cli_fail_usage("--seed and --memory are for --shuffle, which is not given");
    }
    /* Records that stay records are copied as they are: nothing that a schema does not know is lost. */
    bool parsed = options->common.schema != NULL || options->common.columns.count > 0 || options->common.record != 0;
    if (self->plan.from == CONVERT_TFRECORD && self->plan.to == CONVERT_TFRECORD && !parsed) {
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
        code = tfos__convert_input_open(&self->options, self->plan.from, self->plan.to, &self->plan.csv, paths, &input);
    }
    if (code == CLI_OK) {
        code = tfos__convert_output_open(&self->options, self->plan.to, self->plan.delimiter, self->output,
                                         tfos__convert_input_schema(input), &output);
    }
    if (code == CLI_OK) {
        code = convert(self, input, output);
    }
    tfos__convert_output_close(output);
    tfos__convert_input_close(input);
    tfos__convert_plan_reset(&self->plan);
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
     .choices = tfos__convert_format_names,
     .help = "format of the input: tfrecord, csv or jsonl (default auto: by the end of its name)"},
    {.name = "to",
     .value = "FORMAT",
     .kind = CLI_CHOICE,
     .offset = offsetof(tfos__convert_options, to),
     .choices = tfos__convert_format_names,
     .help = "format of the output: tfrecord, csv or jsonl (default auto: by the end of its name, else tfrecord)"},
    CONVERT_OPTIONS_CSV,
    CLI_OPTION_SCHEMA(tfos__convert_options),
    CLI_OPTION_COLUMNS(tfos__convert_options),
    CONVERT_OPTIONS_FILES,
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
    CONVERT_OPTION_INPUT_CODEC,
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
