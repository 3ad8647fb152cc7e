/* Inference on this machine: the reader and the writers of `records convert`, and between them a model in this process.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "cli/infer.h"
#include "column/schema.h"
#include "fs/fs.h"
#include "fs/local.h"
#include "inference/rows.h"
#include "service/flow.h"
#include "tensorflow/model.h"

typedef struct inference {
    const tfos__infer_options *of;
    tfos__convert_options convert;
    tfos__convert_plan plan;
    tfos_paths *paths;
    json_object *order;
    tfos__saved_model *about;
    tfos__convert_input *input;
    tfos__inference_rows *rows;
    tfos__convert_output *output;
    tfos__model *model;
    int64_t read;    /* rows */
    int64_t written; /* rows */
    int answers;     /* what was stdout: a model, and libraries of ops, may print there */
} inference;

/* ---- what is asked for ---- */

static int check_format(const char *key, int given, const char *option, const char *path)
{
    int format = tfos__infer_format_of(given, path);
    if (format < INFER_PARQUET) {
        return CLI_OK;
    }
    return tfos__cli_fail_usage("--%s %s: Spark reads and writes it; add --master, with local[*] on this machine",
                                given != 0 ? key : option, given != 0 ? tfos__infer_format_names[format + 1] : path);
}

/* What only Spark can do. */
static int check_here(const tfos__infer_options *options)
{
    int code = CLI_OK;
    for (size_t i = 0; i < options->data.count && code == CLI_OK; i++) {
        code = check_format("from", options->convert.from, "data", options->data.text[i]);
    }
    return code == CLI_OK ? check_format("to", options->convert.to, "output", options->output) : code;
}

static void add_pairs(json_object *to, const char *key, const tfos__cli_texts *pairs)
{
    json_object *object = json_object_new_object();
    for (size_t i = 0; i < pairs->count; i++) {
        const char *equals = strchr(pairs->text[i], '=');
        char *first = strndup(pairs->text[i], (size_t)(equals - pairs->text[i]));
        if (first != NULL) {
            json_object_object_add(object, first, json_object_new_string(equals + 1));
        }
        free(first);
    }
    if (pairs->count > 0) {
        json_object_object_add(to, key, object);
    } else {
        json_object_put(object);
    }
}

static json_object *make_order(const tfos__infer_options *options)
{
    json_object *order = json_object_new_object();
    json_object_object_add(order, "signature", json_object_new_string(options->signature));
    add_pairs(order, "inputs", &options->inputs);
    add_pairs(order, "outputs", &options->results);
    return order;
}

/* ---- what there is ---- */

static tfos_status bind_rows(inference *self, tfos_error *error)
{
    const tfos__infer_options *of = self->of;
    const tfos__inference_wish wish = {.order = json_object_to_json_string(self->order),
                                       .kept = of->keep.text,
                                       .kept_count = of->keep.count,
                                       .text = self->plan.to != CONVERT_TFRECORD};
    TFOS_TRY(tfos__inference_rows_new(self->about, &wish, tfos__convert_input_schema(self->input), &self->rows, error));
    int64_t most = self->rows->binding->batch_rows;
    if (most > 0 && of->batch_rows > most) {
        return tfos__fail(error, TFOS_INVALID, "the signature takes %lld rows at a time, and --batch-size is %lld",
                          (long long)most, (long long)of->batch_rows);
    }
    int64_t rows = of->batch_rows > 0 ? of->batch_rows : most > 0 ? most : INFER_BATCH_ROWS;
    self->convert.batch_rows = rows;
    /* Of rows that are large there are fewer in a batch, unless somebody has asked for so many. */
    self->convert.exact = of->batch_rows > 0;
    self->plan.csv.batch_rows = rows;
    tfos__convert_input_declare(self->input, tfos__schema_retain(self->rows->read));
    return TFOS_OK;
}

static int refuse_output(const char *output, const char *what, const char *where)
{
    return tfos__cli_fail_usage("--output: %s %s %s: give another place", output, what, where);
}

/* Where a path leads that may begin with file://; NULL where nobody knows. */
static char *lead(const char *path)
{
    const char *local;
    return tfos__path_local(path, &local, NULL) == TFOS_OK ? tfos__path_resolve(local) : NULL;
}

/* Nothing that is read is lost, and nothing that is written is read the next time. */
static int check_output(const inference *self)
{
    const tfos__infer_options *of = self->of;
    int code = CLI_OK;
    char *model = lead(of->model);
    char *output = lead(of->output);
    for (size_t i = 0; i < self->paths->count && output != NULL && code == CLI_OK; i++) {
        char *path = tfos__path_resolve(self->paths->path[i]);
        if (path != NULL && strcmp(path, output) == 0) {
            code = refuse_output(of->output, "is read, too:", self->paths->path[i]);
        }
        free(path);
    }
    char *reader = tfos__paths_find_reader(of->data.text, of->data.count, of->output);
    if (code == CLI_OK && reader != NULL) {
        code = refuse_output(of->output, "lies in a folder whose files are all data:", reader);
    }
    if (code == CLI_OK && model != NULL && output != NULL && tfos__path_is_inside(output, model)) {
        code = refuse_output(of->output, "lies in the model:", of->model);
    }
    free(reader);
    free(model);
    free(output);
    return code;
}

/* All that can be wrong with names, types, shapes and files, before TensorFlow is loaded. */
static int prepare(inference *self)
{
    const tfos__infer_options *of = self->of;
    tfos_error error;
    if (tfos__saved_model_read(NULL, of->model, of->tags, &self->about, &error) != TFOS_OK ||
        tfos_paths_expand(of->data.text, of->data.count, &self->paths, &error) != TFOS_OK) {
        return tfos__cli_fail(&error);
    }
    int code = check_output(self);
    code = code != CLI_OK
               ? code
               : tfos__convert_plan_make(&self->convert, self->paths, of->data.text[0], of->output, &self->plan);
    if (code == CLI_OK) {
        code = tfos__convert_input_open(&self->convert, self->plan.from, self->plan.to, &self->plan.csv, self->paths,
                                        &self->input);
    }
    if (code == CLI_OK && bind_rows(self, &error) != TFOS_OK) {
        code = tfos__cli_fail(&error);
    }
    if (code == CLI_OK) {
        code = tfos__convert_output_open(&self->convert, self->plan.to, self->plan.delimiter, of->output,
                                         self->rows->written, &self->output);
    }
    return code;
}

static tfos_status load_model(inference *self, tfos_error *error)
{
    const tfos__infer_options *of = self->of;
    const tfos__tensorflow *tf = NULL;
    const tfos__model_options options = {.folder = of->model, .tags = of->tags, .threads = 1};
    TFOS_TRY(tfos__tensorflow_load(of->python, &tf, error));
    for (size_t i = 0; i < of->libraries.count; i++) {
        TFOS_TRY(tfos__tensorflow_load_ops(tf, of->libraries.text[i], error));
    }
    return tfos__model_load(tf, &options, &self->model, error);
}

/* TensorFlow tells what it has found and what not, also where that is asked to be left out. */
static tfos_status load_quietly(inference *self, tfos_error *error)
{
    const char *level = getenv("TF_CPP_MIN_LOG_LEVEL");
    bool quiet = level == NULL || level[0] >= '2';
    if (self->of->tensorflow != NULL) {
        setenv("TFOS_TENSORFLOW_LIB", self->of->tensorflow, 1);
    }
    setenv("TF_CPP_MIN_LOG_LEVEL", "2", 0); /* before it is loaded: it looks once */
    if (quiet) {
        tfos__cli_stderr_hold();
    }
    tfos_status status = load_model(self, error);
    tfos__cli_stderr_release(false);
    return status;
}

/* ---- the work ---- */

typedef struct work {
    int64_t first; /* row, of all */
    tfos_batch *batch;
    tfos__convert_rows rows; /* that come out */
} work;

static void free_work(void *item)
{
    work *at = item;
    tfos_batch_free(at->batch);
    tfos__convert_rows_reset(&at->rows);
    free(at);
}

static tfos_status next_work(void *context, void **item, tfos_error *error)
{
    inference *self = context;
    work *at = calloc(1, sizeof *at);
    if (at == NULL) {
        return tfos__fail_memory(error, sizeof *at);
    }
    at->first = self->read;
    tfos_status status = tfos__convert_input_next(self->input, &at->batch, error);
    if (status != TFOS_OK) {
        free(at);
        return status;
    }
    self->read += tfos_batch_rows(at->batch);
    *item = at;
    return TFOS_OK;
}

/* From rows to results as they are in a file. */
static tfos_status predict(const inference *self, work *at, tfos_error *error)
{
    tfos_batch *results = NULL;
    tfos_batch *joined = NULL;
    TFOS_TRY(tfos__model_run(self->model, self->rows->binding, at->batch, &results, error));
    tfos_status status = tfos__inference_rows_join(self->rows, at->batch, results, &joined, error);
    tfos_batch_free(results);
    status = status == TFOS_OK ? tfos__convert_output_encode(self->output, joined, &at->rows, error) : status;
    tfos_batch_free(joined);
    return status;
}

static tfos_status do_work(void *context, void *item, tfos_error *error)
{
    work *at = item;
    tfos_status status = predict(context, at, error);
    if (status != TFOS_OK) {
        tfos__error_prefix(error, "rows %lld to %lld", (long long)at->first,
                           (long long)(at->first + tfos_batch_rows(at->batch) - 1));
    }
    return status;
}

static tfos_status finish_work(void *context, void *item, tfos_error *error)
{
    inference *self = context;
    const work *at = item;
    TFOS_TRY(tfos__convert_output_rows(self->output, &at->rows, error));
    self->written += (int64_t)at->rows.count;
    return TFOS_OK;
}

static int thread_count(const tfos__infer_options *options)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t given = options->convert.common.threads;
    return (int)(given > 0 ? given : cores > 0 ? cores : 1);
}

/* Until the output has its name. */
static tfos_status pass_rows(inference *self, tfos_error *error)
{
    const tfos__flow flow = {.threads = thread_count(self->of),
                             .next = next_work,
                             .work = do_work,
                             .finish = finish_work,
                             .free_item = free_work,
                             .context = self};
    tfos__cli_progress_start("predicting", tfos__convert_input_progress, self->input, self->of->convert.common.quiet);
    tfos_status status = tfos__flow_run(&flow, error);
    tfos__cli_progress_stop();
    status = status == TFOS_OK ? tfos__convert_output_drain(self->output, error) : status;
    return status == TFOS_OK ? tfos__convert_output_commit(self->output, error) : status;
}

/* What is printed meanwhile goes to stderr: stdout is for what was asked for. */
static void take_stdout(inference *self)
{
    fflush(stdout);
    self->answers = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    dup2(STDERR_FILENO, STDOUT_FILENO);
}

static void give_stdout_back(inference *self)
{
    fflush(stdout);
    if (self->answers >= 0) {
        dup2(self->answers, STDOUT_FILENO);
        close(self->answers);
    }
}

static void report(const inference *self, int64_t start_ms)
{
    tfos_progress progress;
    tfos__infer_outcome outcome = {.rows = self->written,
                                   .seconds = (double)(tfos__clock_ms() - start_ms) / 1000,
                                   .files = json_object_new_array()};
    for (size_t i = 0; i < tfos__convert_output_files(self->output); i++) {
        json_object_array_add(outcome.files, json_object_new_string(tfos__convert_output_file(self->output, i)));
    }
    tfos__infer_report(self->of, &outcome);
    json_object_put(outcome.files);
    tfos__convert_input_progress(self->input, &progress);
    tfos__cli_report_skipped(&progress);
}

static int compute(inference *self)
{
    tfos_error error;
    int64_t start_ms = 0;
    take_stdout(self);
    tfos_status status = load_quietly(self, &error);
    if (status == TFOS_OK) {
        start_ms = tfos__clock_ms();
        status = pass_rows(self, &error);
    }
    tfos__model_free(self->model);
    give_stdout_back(self);
    if (status != TFOS_OK) {
        return tfos__cli_fail(&error);
    }
    report(self, start_ms);
    return CLI_OK;
}

static void reset(inference *self)
{
    tfos__convert_output_close(self->output);
    tfos__inference_rows_free(self->rows);
    tfos__convert_input_close(self->input);
    tfos__convert_plan_reset(&self->plan);
    tfos__saved_model_free(self->about);
    tfos_paths_free(self->paths);
    json_object_put(self->order);
}

int tfos__infer_here(const tfos__infer_options *options)
{
    static inference self;
    self = (inference){.of = options, .convert = options->convert, .order = make_order(options), .answers = -1};
    int code = check_here(options);
    code = code == CLI_OK ? prepare(&self) : code;
    if (code != CLI_OK) {
        reset(&self);
        return code;
    }
    tfos__cli_signals_crash();
    code = compute(&self);
    reset(&self);
    code = tfos__cli_end_output(code);
    fflush(NULL);
    _exit(code); /* TensorFlow's destructors would meet its threads */
}
