/* tfos infer: rows of files through a SavedModel, and results into files. Its options, and what makes no sense of them;
 * the work is in infer_here.c, and on Spark in infer_spark.c. */
#include "cli/infer.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static_assert(offsetof(tfos__infer_options, convert) == 0, "lines of the table are those of `records convert`");

enum { BATCH_ROWS_MOST = 1 << 24, THREADS_MOST = 256 };

const char *const tfos__infer_format_names[] = {"auto", "tfrecord", "csv", "jsonl", "parquet", "orc", NULL};

/* ---- options ---- */

static int check_pairs(const char *option, const char *form, const tfos__cli_texts *pairs)
{
    for (size_t i = 0; i < pairs->count; i++) {
        const char *equals = strchr(pairs->text[i], '=');
        if (equals == NULL || equals == pairs->text[i] || equals[1] == '\0') {
            return tfos__cli_fail_usage("--%s: expected %s, found '%s'", option, form, pairs->text[i]);
        }
        for (size_t k = 0; k < i; k++) {
            if (strncmp(pairs->text[k], pairs->text[i], (size_t)(equals - pairs->text[i]) + 1) == 0) {
                return tfos__cli_fail_usage("--%s: '%.*s' is mapped twice", option, (int)(equals - pairs->text[i]),
                                            pairs->text[i]);
            }
        }
    }
    return CLI_OK;
}

static int check_names(const tfos__cli_texts *names)
{
    for (size_t i = 0; i < names->count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(names->text[k], names->text[i]) == 0) {
                return tfos__cli_fail_usage("--keep: the column '%s' is named twice", names->text[i]);
            }
        }
    }
    return CLI_OK;
}

static bool is_given(const tfos__infer_options *options)
{
    return options->data.count > 0 || options->output != NULL;
}

static int check_whole(const tfos__infer_options *options)
{
    if (options->model == NULL) {
        return tfos__cli_fail_usage("--model is missing: the folder of a SavedModel; `tfos infer --help` tells more");
    }
    if (is_given(options) && options->data.count == 0) {
        return tfos__cli_fail_usage("--data is missing: the files whose rows the model is given; `tfos infer --help` "
                                    "tells more");
    }
    if (is_given(options) && (options->output == NULL || options->output[0] == '\0')) {
        return tfos__cli_fail_usage("--output is missing: the file that results are written to; `tfos infer --help` "
                                    "tells more");
    }
    return CLI_OK;
}

/* ---- what was written ---- */

/* With milliseconds. */
static json_object *rounded(double seconds)
{
    char text[32];
    snprintf(text, sizeof text, "%.3f", seconds);
    return json_object_new_double_s(seconds, text);
}

void tfos__infer_report(const tfos__infer_options *options, const tfos__infer_outcome *outcome)
{
    const tfos__cli_common *common = &options->convert.common;
    double rate = outcome->seconds > 0 ? (double)outcome->rows / outcome->seconds : 0;
    size_t files = json_object_array_length(outcome->files);
    if (!common->quiet) {
        tfos__cli_note("wrote %s rows to %s%s in %.1f s (%s rows/s)", tfos__cli_show_count(outcome->rows).text,
                       options->output, files > 1 ? " (several files)" : "", outcome->seconds,
                       tfos__cli_show_count((int64_t)rate).text);
    }
    if (common->json) {
        json_object *told = json_object_new_object();
        json_object_object_add(told, "rows", json_object_new_int64(outcome->rows));
        json_object_object_add(told, "seconds", rounded(outcome->seconds));
        json_object_object_add(told, "rows_per_second", json_object_new_int64((int64_t)rate));
        json_object_object_add(told, "files", json_object_get(outcome->files));
        tfos__cli_print("%s\n", json_object_to_json_string_ext(told, INFER_JSON));
        json_object_put(told);
    }
}

/* ---- the command ---- */

/* What stands alone is data; on Spark, what stands behind -- is for spark-submit. */
static int take_inputs(tfos__infer_options *options, const tfos__cli_inputs *inputs)
{
    size_t data = options->spark.master != NULL ? inputs->before_dashes : inputs->count;
    for (size_t i = 0; i < data; i++) {
        if (options->data.count == CLI_MAX_TEXTS) {
            return tfos__cli_fail_usage("--data: more than %d are given", CLI_MAX_TEXTS);
        }
        options->data.text[options->data.count++] = inputs->text[i];
    }
    options->words = (tfos__cli_inputs){.text = inputs->text + data, .count = inputs->count - data};
    return CLI_OK;
}

static int check(const tfos__infer_options *options)
{
    int code = check_whole(options);
    code = code == CLI_OK ? check_pairs("inputs", "COLUMN=TENSOR", &options->inputs) : code;
    code = code == CLI_OK ? check_pairs("outputs", "TENSOR=COLUMN", &options->results) : code;
    code = code == CLI_OK ? check_names(&options->keep) : code;
    return code == CLI_OK ? tfos__cli_spark_check(&options->spark) : code;
}

static int run(int argc, char **argv)
{
    static tfos__infer_options options = {.convert = {.header = true, .level = -1}, .tags = "serve", .signature = ""};
    tfos__cli_inputs inputs;
    int code;
    if (!tfos__cli_parse(&tfos__cli_infer, argc, argv, &options, &inputs, &code)) {
        return code;
    }
    code = take_inputs(&options, &inputs);
    code = code == CLI_OK ? check(&options) : code;
    if (code == CLI_OK) {
        code = !is_given(&options)            ? tfos__infer_show(&options)
               : options.spark.master != NULL ? tfos__infer_on_spark(&options)
                                              : tfos__infer_here(&options);
    }
    free(inputs.text);
    return code;
}

static const tfos__cli_option table[] = {
    {.name = "model",
     .value = "DIR",
     .kind = CLI_TEXT,
     .offset = offsetof(tfos__infer_options, model),
     .help = "a SavedModel. Alone: show what it takes and gives"},
    {.name = "data",
     .value = "PATH",
     .kind = CLI_TEXTS,
     .offset = offsetof(tfos__infer_options, data),
     .help = "files, folders and globs with the rows; may be given several times, and so may what stands alone"},
    {.name = "output",
     .value = "PATH",
     .kind = CLI_TEXT,
     .offset = offsetof(tfos__infer_options, output),
     .help = "the file with the results; a folder with --shards or --master"},
    {.name = "inputs",
     .value = "COLUMN=TENSOR,…",
     .kind = CLI_NAMES,
     .offset = offsetof(tfos__infer_options, inputs),
     .help = "inputs of the signature by columns. A tensor is called by its name, or by its position: 0. Without this "
             "columns have the names of inputs, or there is one of each"},
    {.name = "outputs",
     .value = "TENSOR=COLUMN,…",
     .kind = CLI_NAMES,
     .offset = offsetof(tfos__infer_options, results),
     .help = "columns of results by outputs of the signature, of which each is called by its name, by its position, or "
             "by the layer that makes it (default: all, under their names)"},
    {.name = "keep",
     .value = "A,B,…",
     .kind = CLI_NAMES,
     .offset = offsetof(tfos__infer_options, keep),
     .help = "columns of the data in front of the results"},
    {.name = "signature",
     .value = "KEY",
     .kind = CLI_TEXT,
     .offset = offsetof(tfos__infer_options, signature),
     .help = "the signature of the model (default serving_default)"},
    {.name = "tags",
     .value = "TAGS",
     .kind = CLI_TEXT,
     .offset = offsetof(tfos__infer_options, tags),
     .help = "tags of the model's graph (default serve)"},
    {.name = "batch-size",
     .value = "N",
     .kind = CLI_INTEGER,
     .offset = offsetof(tfos__infer_options, batch_rows),
     .least = 1,
     .most = BATCH_ROWS_MOST,
     .help = "rows that are computed together (default 1024, or as many as the signature takes)"},
    {.name = "threads",
     .value = "N",
     .kind = CLI_INTEGER,
     .offset = offsetof(tfos__infer_options, convert.common.threads),
     .least = 0,
     .most = THREADS_MOST,
     .help = "threads that read, and threads that run the model (default 0: one for each core)"},
    {.name = "from",
     .value = "FORMAT",
     .kind = CLI_CHOICE,
     .offset = offsetof(tfos__infer_options, convert.from),
     .choices = tfos__infer_format_names,
     .help = "format of the data: tfrecord, csv, jsonl, with --master also parquet and orc (default auto: by the end "
             "of its name, else tfrecord)"},
    {.name = "to",
     .value = "FORMAT",
     .kind = CLI_CHOICE,
     .offset = offsetof(tfos__infer_options, convert.to),
     .choices = tfos__infer_format_names,
     .help = "format of the output, likewise"},
    CONVERT_OPTIONS_CSV,
    CLI_OPTION_SCHEMA(tfos__convert_options),
    CONVERT_OPTIONS_FILES,
    {.name = "overwrite",
     .kind = CLI_FLAG,
     .offset = offsetof(tfos__infer_options, convert.overwrite),
     .help = "replace output that exists; with --shards, all shards in the folder"},
    CLI_OPTION_RECORD(tfos__convert_options),
    CONVERT_OPTION_INPUT_CODEC,
    CLI_OPTION_ON_CORRUPT(tfos__convert_options),
    {.name = "op-library",
     .value = "PATH",
     .kind = CLI_TEXTS,
     .offset = offsetof(tfos__infer_options, libraries),
     .help = "a library of ops to load, as tf.load_op_library does; may be given several times. With --master its path "
             "on the executors, as that of TensorFlow and Python"},
    {.name = "tensorflow",
     .value = "PATH",
     .kind = CLI_TEXT,
     .offset = offsetof(tfos__infer_options, tensorflow),
     .help = "TensorFlow's library, libtensorflow_cc.so.2 or libtensorflow.so.2, or its folder (default: "
             "TFOS_TENSORFLOW_LIB)"},
    {.name = "python",
     .value = "PROGRAM",
     .kind = CLI_TEXT,
     .offset = offsetof(tfos__infer_options, python),
     .help = "the interpreter whose TensorFlow is used (default: PYSPARK_PYTHON, VIRTUAL_ENV, python3)"},
    CLI_OPTION_MASTER(tfos__infer_options),
    CLI_OPTION_CONF(tfos__infer_options),
    CLI_OPTION_VERBOSE(tfos__infer_options),
    CLI_OPTION_JSON(tfos__convert_options, "say what was written, or what the model is like, as JSON on stdout"),
    CLI_OPTION_QUIET(tfos__convert_options),
};

const tfos__cli_command tfos__cli_infer = {
    .name = "infer",
    .summary = "compute results of a SavedModel for the rows of files, without Python",
    .synopsis = "tfos infer --model DIR [--data PATH… --output PATH] [OPTIONS] [-- OPTIONS OF SPARK-SUBMIT]",
    .details =
        "Every row of the data gives one row of the output, in the same order (on Spark: of a file). Names, types and\n"
        "shapes are checked before anything is computed, and what does not fit is refused: a missing value, a list of\n"
        "another length. Strings of a model are bytes in TFRecords, and text in CSV and JSON lines.\n"
        "Output appears when it is complete, never before; on failure nothing is left.\n\n"
        "Examples:\n"
        "  tfos infer --model exported\n"
        "  tfos infer --model exported --data data/ --output digits.jsonl --inputs pixels=image --keep id\n"
        "  tfos infer --model exported --data 'test-*' --output results --shards 4 --outputs output_0=digit\n"
        "  tfos infer --master yarn --model hdfs:///model --data hdfs:///table --from parquet --output hdfs:///out -- "
        "--queue q\n",
    .options = table,
    .option_count = sizeof table / sizeof table[0],
    .run = run,
};
