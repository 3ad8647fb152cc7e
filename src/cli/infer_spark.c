/* Inference on Spark: the same options as words for the application (org.tfos.spark.InferCommand), as far as Spark has
 * what they ask for. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/status.h"
#include "cli/infer.h"

/* ---- what makes no sense there ---- */

typedef struct unwanted {
    bool given;
    const char *option;
    const char *instead;
} unwanted;

static int check_options(const tfos__infer_options *options)
{
    const tfos__convert_options *convert = &options->convert;
    const unwanted all[] = {
        {convert->common.threads > 0, "--threads", "tasks have spark.task.cpus (--conf)"},
        {convert->folds.count > 0, "--fold", "make TFRecords of such files first (`tfos records convert`)"},
        {convert->label != NULL, "--label", "name the columns in a schema (--schema)"},
        {convert->level >= 0, "--level", "Spark's codecs have a level of their own"},
        {convert->common.codec != 0, "--input-codec", "files are looked at, or known by the end of their names"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].given) {
            return tfos__cli_fail_usage("%s is for this machine, and not for --master: %s", all[i].option,
                                        all[i].instead);
        }
    }
    return CLI_OK;
}

static int check_csv(const tfos__infer_options *options, int from, int to)
{
    bool csv = from == CONVERT_CSV || to == CONVERT_CSV;
    if (!csv && (options->convert.delimiter != NULL || !options->convert.header)) {
        return tfos__cli_fail_usage("--delimiter and --no-header are for CSV, but neither input nor output is");
    }
    if (from != CONVERT_TFRECORD && (options->convert.common.on_corrupt != 0 || options->convert.common.record != 0)) {
        return tfos__cli_fail_usage("--on-corrupt and --record are for TFRecord input, but %s is read as %s",
                                    options->data.text[0], tfos__infer_format_names[from + 1]);
    }
    return CLI_OK;
}

/* ---- formats ---- */

int tfos__infer_format_of(int given, const char *path)
{
    const char *dot = strrchr(path, '.');
    if (given != 0) {
        return given - 1;
    }
    if (dot != NULL && (strcmp(dot, ".parquet") == 0 || strcmp(dot, ".orc") == 0)) {
        return dot[1] == 'p' ? (int)INFER_PARQUET : (int)INFER_ORC;
    }
    return (int)tfos__convert_format_of(path, CONVERT_TFRECORD);
}

/* ---- options of Spark's formats ---- */

static tfos_status add_option(tfos__cli_words *order, const char *side, const char *key, const char *value,
                              tfos_error *error)
{
    char *pair = NULL;
    if (asprintf(&pair, "%s=%s", key, value) < 0) {
        return tfos__fail_memory(error, strlen(value));
    }
    tfos_status status = tfos__cli_words_pair(order, side, pair, error);
    free(pair);
    return status;
}

static tfos_status add_csv(const tfos__infer_options *options, const char *side, const char *path,
                           tfos__cli_words *order, tfos_error *error)
{
    const char *given = options->convert.delimiter;
    char one[] = {tfos__convert_delimiter_of(path), '\0'};
    bool several = given != NULL && !tfos__convert_delimiter_parse(given, one); /* characters, which Spark can have */
    TFOS_TRY(add_option(order, side, "header", options->convert.header ? "true" : "false", error));
    return add_option(order, side, "sep", several ? given : one, error);
}

static tfos_status add_read_options(const tfos__infer_options *options, int from, tfos__cli_words *order,
                                    tfos_error *error)
{
    static const char *const records[] = {NULL, "Example", "SequenceExample", "ByteArray"};
    const tfos__cli_common *common = &options->convert.common;
    if (from == CONVERT_CSV) {
        TFOS_TRY(add_csv(options, "read", options->data.text[0], order, error));
        TFOS_TRY(add_option(order, "read", "inferSchema", "true", error));
        TFOS_TRY(tfos__cli_words_pair(order, "renumber", options->convert.header ? NULL : "true", error));
    }
    if (common->record != 0) {
        TFOS_TRY(add_option(order, "read", "recordType", records[common->record], error));
    }
    return common->on_corrupt != 0 ? add_option(order, "read", "onCorrupt", "skip", error) : TFOS_OK;
}

static tfos_status add_write_options(const tfos__infer_options *options, int to, tfos__cli_words *order,
                                     tfos_error *error)
{
    int codec = options->convert.output_codec;
    if (to == CONVERT_CSV) {
        TFOS_TRY(add_csv(options, "write", options->output, order, error));
    }
    if (codec != TFOS_CODEC_AUTO) {
        const char *name =
            codec == TFOS_CODEC_ZLIB && to != CONVERT_TFRECORD ? "deflate" : tfos_codec_name((tfos_codec)codec);
        return add_option(order, "write", to == CONVERT_TFRECORD ? "codec" : "compression", name, error);
    }
    return TFOS_OK;
}

static tfos_status add_schema(const char *path, tfos__cli_words *order, tfos_error *error)
{
    tfos_schema *schema = NULL;
    char *text = NULL;
    if (path == NULL) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__cli_read_schema(path, &schema, error));
    tfos_status status = tfos_schema_to_spark(schema, &text, error);
    status = status == TFOS_OK ? tfos__cli_words_pair(order, "schema", text, error) : status;
    tfos_string_free(text);
    tfos_schema_free(schema);
    return status;
}

/* ---- the order ---- */

static tfos_status add_texts(tfos__cli_words *order, const char *key, const tfos__cli_texts *texts, tfos_error *error)
{
    for (size_t i = 0; i < texts->count; i++) {
        TFOS_TRY(tfos__cli_words_pair(order, key, texts->text[i], error));
    }
    return TFOS_OK;
}

static tfos_status add_number(tfos__cli_words *order, const char *key, int64_t number, tfos_error *error)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    return tfos__cli_words_pair(order, key, text, error);
}

static tfos_status make_order(const tfos__infer_options *options, int from, int to, tfos__cli_words *order,
                              tfos_error *error)
{
    int64_t batch_rows = options->batch_rows > 0 ? options->batch_rows : INFER_BATCH_ROWS;
    TFOS_TRY(tfos__cli_words_pair(order, "model", options->model, error));
    TFOS_TRY(tfos__cli_words_pair(order, "tags", options->tags, error));
    TFOS_TRY(tfos__cli_words_pair(order, "signature", options->signature, error));
    TFOS_TRY(add_number(order, "batch_size", batch_rows, error));
    TFOS_TRY(tfos__cli_words_pair(order, "python", options->python, error));
    TFOS_TRY(add_texts(order, "input", &options->inputs, error));
    TFOS_TRY(add_texts(order, "result", &options->results, error));
    TFOS_TRY(add_texts(order, "keep", &options->keep, error));
    TFOS_TRY(add_texts(order, "op_library", &options->libraries, error));
    TFOS_TRY(add_texts(order, "data", &options->data, error));
    TFOS_TRY(tfos__cli_words_pair(order, "from", tfos__infer_format_names[from + 1], error));
    TFOS_TRY(add_read_options(options, from, order, error));
    TFOS_TRY(add_schema(options->convert.common.schema, order, error));
    TFOS_TRY(tfos__cli_words_pair(order, "output", options->output, error));
    TFOS_TRY(tfos__cli_words_pair(order, "to", tfos__infer_format_names[to + 1], error));
    TFOS_TRY(add_write_options(options, to, order, error));
    TFOS_TRY(options->convert.shards > 0 ? add_number(order, "shards", options->convert.shards, error) : TFOS_OK);
    return tfos__cli_words_pair(order, "overwrite", options->convert.overwrite ? "true" : NULL, error);
}

/* ---- all of it ---- */

static int submit(const tfos__infer_options *options, const tfos__cli_words *order)
{
    char *setting;
    json_object *answer = NULL;
    tfos__cli_spark spark = options->spark;
    int code = tfos__cli_spark_tensorflow(&spark, options->tensorflow, &setting);
    if (code != CLI_OK) {
        return code;
    }
    const tfos__cli_application application = {.name = "tfos infer",
                                               .main_class = "org.tfos.spark.InferCommand",
                                               .spark = &spark,
                                               .options = options->words.text,
                                               .option_count = options->words.count,
                                               .order = order,
                                               .python = options->python,
                                               .quiet = options->convert.common.quiet};
    code = tfos__cli_submit(&application, &answer);
    free(setting);
    if (code == CLI_OK) {
        json_object *files = tfos__json_member_of(answer, "files", json_type_array);
        tfos__infer_outcome outcome = {.rows = json_object_get_int64(tfos__json_member(answer, "rows")),
                                       .seconds = json_object_get_double(tfos__json_member(answer, "seconds")),
                                       .files = files != NULL ? json_object_get(files) : json_object_new_array()};
        tfos__infer_report(options, &outcome);
        json_object_put(outcome.files);
    }
    json_object_put(answer);
    return code;
}

int tfos__infer_on_spark(const tfos__infer_options *options)
{
    tfos_error error;
    tfos__cli_words order = {0};
    int from = tfos__infer_format_of(options->convert.from, options->data.text[0]);
    int to = tfos__infer_format_of(options->convert.to, options->output);
    int code = check_options(options);
    code = code == CLI_OK ? check_csv(options, from, to) : code;
    if (code == CLI_OK) {
        code =
            make_order(options, from, to, &order, &error) == TFOS_OK ? submit(options, &order) : tfos__cli_fail(&error);
    }
    tfos__cli_words_reset(&order);
    return code;
}
