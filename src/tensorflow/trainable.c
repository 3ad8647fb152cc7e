/* Trainable models: tensors of signatures are looked up once, so that a step is one call of TensorFlow. */
#include "tensorflow/trainable.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"

enum { STEP_KINDS = 3, RATE_INPUTS = 1 };

/* Outputs of a step, before those of means. Evaluations have no iterations. */
enum { OUT_LOSS, OUT_METRICS, OUT_ITERATIONS, OUT_MEANS };

static const char *const step_names[STEP_KINDS] = {"train", "train_together", "evaluate"};

/* A signature with its tensors in the graph, and places for values. */
typedef struct entrance {
    TF_Output *inputs;
    size_t input_count;
    TF_Output *outputs;
    size_t output_count;
    TF_Tensor **given; /* of a run */
    TF_Tensor **got;
} entrance;

struct tfos__trainable {
    tfos__session session;
    tfos__description about;
    char *folder;
    bool together;
    entrance steps[STEP_KINDS];
    const tfos__signature *results_signature;
    entrance results;
    entrance status;
    entrance finalize;
    entrance synchronize;
    TF_Tensor *rate; /* the last that was given */
    double rate_value;
    tfos__variables variables;
};

const tfos__description *tfos__trainable_about(const tfos__trainable *trainable)
{
    return &trainable->about;
}

const char *tfos__trainable_folder(const tfos__trainable *trainable)
{
    return trainable->folder;
}

const tfos__session *tfos__trainable_session(const tfos__trainable *trainable)
{
    return &trainable->session;
}

tfos__variables *tfos__trainable_variables(tfos__trainable *trainable)
{
    return &trainable->variables;
}

/* ---- entrances ---- */

static void reset_entrance(entrance *self)
{
    free(self->inputs);
    free(self->outputs);
    free(self->given);
    free(self->got);
    *self = (entrance){0};
}

static tfos_status reserve_entrance(entrance *self, size_t inputs, size_t outputs, tfos_error *error)
{
    *self = (entrance){.inputs = calloc(inputs + 1, sizeof(TF_Output)),
                       .outputs = calloc(outputs + 1, sizeof(TF_Output)),
                       .given = calloc(inputs + 1, sizeof(TF_Tensor *)),
                       .got = calloc(outputs + 1, sizeof(TF_Tensor *))};
    bool enough = self->inputs != NULL && self->outputs != NULL && self->given != NULL && self->got != NULL;
    return enough ? TFOS_OK : tfos__fail_memory(error, (inputs + outputs) * sizeof(TF_Output));
}

static tfos_status find_tensor(const tfos__session *session, const tfos__signature *signature, bool output,
                               const char *name, TF_Output *out, tfos_error *error)
{
    const tfos__tensor_specs *specs = output ? &signature->outputs : &signature->inputs;
    for (size_t i = 0; i < specs->count; i++) {
        if (strcmp(specs->at[i].name, name) == 0) {
            return tfos__session_tensor(session, specs->at[i].tensor, out, error);
        }
    }
    return tfos__fail(error, TFOS_CORRUPT,
                      "%s: the signature '%s' has no %s '%s', which models have that native.export makes; export it "
                      "again",
                      session->about->folder, tfos__printable_text(signature->name).text, output ? "output" : "input",
                      tfos__printable_text(name).text);
}

static tfos_status add_input(const tfos__trainable *self, const tfos__signature *signature, const char *name,
                             entrance *to, tfos_error *error)
{
    return find_tensor(&self->session, signature, false, name, &to->inputs[to->input_count++], error);
}

static tfos_status add_output(const tfos__trainable *self, const tfos__signature *signature, const char *name,
                              entrance *to, tfos_error *error)
{
    return find_tensor(&self->session, signature, true, name, &to->outputs[to->output_count++], error);
}

static const tfos__step_logs *logs_of(const tfos__trainable *self, tfos__step_kind kind)
{
    return kind == TFOS__STEP_EVALUATE ? &self->about.evaluate : &self->about.train;
}

static tfos_status find_step(tfos__trainable *self, tfos__step_kind kind, tfos_error *error)
{
    const tfos__signature *signature;
    const tfos__step_logs *logs = logs_of(self, kind);
    entrance *step = &self->steps[kind];
    char name[TFOS__STEP_NAME_BYTES * 4];
    TFOS_TRY(tfos__saved_model_signature(self->session.about, step_names[kind], &signature, error));
    TFOS_TRY(reserve_entrance(step, self->about.port_count + RATE_INPUTS, OUT_MEANS + logs->means.count, error));
    for (size_t i = 0; i < self->about.port_count; i++) {
        TFOS_TRY(add_input(self, signature, self->about.ports[i].key, step, error));
    }
    TFOS_TRY(add_output(self, signature, "loss", step, error));
    TFOS_TRY(add_output(self, signature, "metrics", step, error));
    if (kind != TFOS__STEP_EVALUATE) {
        TFOS_TRY(add_input(self, signature, "learning_rate", step, error));
        TFOS_TRY(add_output(self, signature, "iterations", step, error));
    }
    for (size_t i = 0; i < logs->means.count; i++) {
        snprintf(name, sizeof name, "log_%s", logs->means.at[i]);
        TFOS_TRY(add_output(self, signature, name, step, error));
    }
    return TFOS_OK;
}

static tfos_status find_results(tfos__trainable *self, tfos_error *error)
{
    TFOS_TRY(tfos__saved_model_signature(self->session.about, "results", &self->results_signature, error));
    const tfos__tensor_specs *outputs = &self->results_signature->outputs;
    TFOS_TRY(reserve_entrance(&self->results, 1, outputs->count, error));
    if (outputs->count == 0) {
        return TFOS_OK;
    }
    TFOS_TRY(add_input(self, self->results_signature, "metrics", &self->results, error));
    for (size_t i = 0; i < outputs->count; i++) {
        TFOS_TRY(add_output(self, self->results_signature, outputs->at[i].name, &self->results, error));
    }
    return TFOS_OK;
}

static tfos_status find_others(tfos__trainable *self, tfos_error *error)
{
    const tfos__signature *signature;
    TFOS_TRY(tfos__saved_model_signature(self->session.about, "status", &signature, error));
    TFOS_TRY(reserve_entrance(&self->status, 0, 2, error));
    TFOS_TRY(add_output(self, signature, "iterations", &self->status, error));
    TFOS_TRY(add_output(self, signature, "learning_rate", &self->status, error));
    TFOS_TRY(tfos__saved_model_signature(self->session.about, "finalize", &signature, error));
    TFOS_TRY(reserve_entrance(&self->finalize, 0, 1, error));
    TFOS_TRY(add_output(self, signature, "iterations", &self->finalize, error));
    if (self->together) {
        TFOS_TRY(tfos__saved_model_signature(self->session.about, "synchronize", &signature, error));
        TFOS_TRY(reserve_entrance(&self->synchronize, 2, 1, error));
        TFOS_TRY(add_input(self, signature, "source", &self->synchronize, error));
        TFOS_TRY(add_input(self, signature, "rows", &self->synchronize, error));
        TFOS_TRY(add_output(self, signature, "iterations", &self->synchronize, error));
    }
    return TFOS_OK;
}

/* ---- loading ---- */

void tfos__trainable_free(tfos__trainable *trainable)
{
    if (trainable == NULL) {
        return;
    }
    for (size_t i = 0; i < STEP_KINDS; i++) {
        reset_entrance(&trainable->steps[i]);
    }
    reset_entrance(&trainable->results);
    reset_entrance(&trainable->status);
    reset_entrance(&trainable->finalize);
    reset_entrance(&trainable->synchronize);
    if (trainable->rate != NULL) {
        trainable->session.tf->TF_DeleteTensor(trainable->rate);
    }
    tfos__variables_reset(&trainable->variables);
    tfos__session_close(&trainable->session);
    tfos__description_reset(&trainable->about);
    free(trainable->folder);
    free(trainable);
}

static tfos_status load(tfos__trainable *self, const tfos__tensorflow *tf, const tfos__trainable_options *options,
                        tfos_error *error)
{
    tfos__session_options session = {.folder = options->folder, .tags = "serve", .threads = options->threads};
    TFOS_TRY(tfos__description_read(NULL, options->folder, &self->about, error));
    if (options->together && !self->about.together) {
        return tfos__fail(
            error, TFOS_UNSUPPORTED,
            "%s: the model has no step of many workers: it was exported with distributed=False. Export it "
            "without that, or train it on one node",
            options->folder);
    }
    TFOS_TRY(tfos__session_open(tf, &session, &self->session, error));
    TFOS_TRY(find_step(self, self->together ? TFOS__STEP_TOGETHER : TFOS__STEP_TRAIN, error));
    TFOS_TRY(find_step(self, TFOS__STEP_EVALUATE, error));
    TFOS_TRY(find_results(self, error));
    return find_others(self, error);
}

tfos_status tfos__trainable_load(const tfos__tensorflow *tf, const tfos__trainable_options *options,
                                 tfos__trainable **out, tfos_error *error)
{
    tfos__trainable *self = calloc(1, sizeof *self);
    if (self == NULL || (self->folder = strdup(options->folder)) == NULL) {
        free(self);
        return tfos__fail_memory(error, sizeof *self);
    }
    self->together = options->together;
    tfos_status status = load(self, tf, options, error);
    if (status != TFOS_OK) {
        tfos__trainable_free(self);
        return status;
    }
    *out = self;
    return TFOS_OK;
}

const tfos__signature *tfos__trainable_signature(const tfos__trainable *trainable)
{
    const tfos__signature *signature = NULL;
    (void)tfos__saved_model_signature(trainable->session.about, step_names[TFOS__STEP_EVALUATE], &signature, NULL);
    return signature;
}

/* ---- running ---- */

static void free_number(void *data, size_t bytes, void *context)
{
    (void)bytes;
    (void)context;
    free(data);
}

/* Numbers in memory of their own. */
static TF_Tensor *tensor_of(const tfos__trainable *self, tfos__dtype dtype, const void *numbers, size_t bytes,
                            const int64_t *dims, int rank)
{
    void *memory = NULL;
    if (posix_memalign(&memory, TFOS__BUFFER_ALIGN, bytes > 0 ? bytes : 1) != 0) {
        return NULL;
    }
    memcpy(memory, numbers, bytes);
    return self->session.tf->TF_NewTensor(dtype, dims, rank, memory, bytes, free_number, NULL);
}

static void delete_tensors(const tfos__trainable *self, TF_Tensor **tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (tensors[i] != NULL) {
            self->session.tf->TF_DeleteTensor(tensors[i]);
            tensors[i] = NULL;
        }
    }
}

static tfos_status run(const tfos__trainable *self, entrance *at, const char *doing, tfos_error *error)
{
    tfos__session_call call = {.inputs = at->inputs,
                               .input_values = at->given,
                               .input_count = at->input_count,
                               .outputs = at->outputs,
                               .output_values = at->got,
                               .output_count = at->output_count};
    return tfos__session_run(&self->session, &call, doing, error);
}

/* The first number of an output, whichever type it has. */
static double number_of(const tfos__trainable *self, const TF_Tensor *tensor)
{
    const void *data = self->session.tf->TF_TensorData(tensor);
    float f;
    double d;
    int64_t i;
    switch (self->session.tf->TF_TensorType(tensor)) {
    case TFOS__DTYPE_FLOAT:
        memcpy(&f, data, sizeof f);
        return (double)f;
    case TFOS__DTYPE_DOUBLE:
        memcpy(&d, data, sizeof d);
        return d;
    case TFOS__DTYPE_INT64:
        memcpy(&i, data, sizeof i);
        return (double)i;
    default:
        return NAN;
    }
}

/* The tensor of the rate, which changes rarely. */
static tfos_status set_rate(tfos__trainable *self, double rate, tfos_error *error)
{
    if (self->rate != NULL && self->rate_value == rate) {
        return TFOS_OK;
    }
    float number = (float)rate;
    TF_Tensor *tensor = tensor_of(self, TFOS__DTYPE_FLOAT, &number, sizeof number, NULL, 0);
    if (tensor == NULL) {
        return tfos__fail_memory(error, sizeof number);
    }
    if (self->rate != NULL) {
        self->session.tf->TF_DeleteTensor(self->rate);
    }
    self->rate = tensor;
    self->rate_value = rate;
    return TFOS_OK;
}

/* ---- steps ---- */

tfos_status tfos__step_sums_init(const tfos__trainable *trainable, tfos__step_kind kind, tfos__step_sums *out,
                                 tfos_error *error)
{
    size_t metrics = (size_t)trainable->about.metrics_length;
    size_t means = logs_of(trainable, kind)->means.count;
    *out = (tfos__step_sums){.metrics = metrics, .means = means, .count = metrics + means + 3};
    out->at = calloc(out->count, sizeof *out->at);
    return out->at != NULL ? TFOS_OK : tfos__fail_memory(error, out->count * sizeof *out->at);
}

void tfos__step_sums_reset(tfos__step_sums *sums)
{
    free(sums->at);
    *sums = (tfos__step_sums){0};
}

void tfos__step_sums_clear(tfos__step_sums *sums)
{
    memset(sums->at, 0, sums->count * sizeof *sums->at);
}

static tfos_status add_told(const tfos__trainable *self, tfos__step_kind kind, const entrance *step, int64_t rows,
                            tfos__step_sums *sums, tfos_error *error)
{
    const tfos__tensorflow *tf = self->session.tf;
    const TF_Tensor *metrics = step->got[OUT_METRICS];
    const double *numbers = tf->TF_TensorData(metrics);
    if (tf->TF_TensorType(metrics) != TFOS__DTYPE_DOUBLE ||
        tf->TF_TensorByteSize(metrics) != sums->metrics * sizeof *numbers) {
        return tfos__fail(error, TFOS_CORRUPT, "%s: a step gave %zu bytes of metrics, and tfos.json says %zu numbers",
                          self->folder, tf->TF_TensorByteSize(metrics), sums->metrics);
    }
    for (size_t i = 0; i < sums->metrics; i++) {
        sums->at[i] += numbers[i];
    }
    size_t first = kind == TFOS__STEP_EVALUATE ? OUT_ITERATIONS : OUT_MEANS;
    for (size_t i = 0; i < sums->means; i++) {
        sums->at[sums->metrics + i] += number_of(self, step->got[first + i]) * (double)rows;
    }
    double *rest = sums->at + sums->metrics + sums->means;
    rest[0] += (double)rows;
    rest[1] += 1;
    rest[2] += number_of(self, step->got[OUT_LOSS]) * (double)rows;
    return TFOS_OK;
}

tfos_status tfos__trainable_step(tfos__trainable *trainable, tfos__step_kind kind, const tfos__step_batch *batch,
                                 double rate, tfos__step_sums *sums, tfos__step_told *out, tfos_error *error)
{
    bool trains = kind != TFOS__STEP_EVALUATE;
    entrance *step = &trainable->steps[kind];
    memcpy(step->given, batch->tensors, batch->count * sizeof(TF_Tensor *));
    if (trains) {
        TFOS_TRY(set_rate(trainable, rate, error));
        step->given[batch->count] = trainable->rate;
    }
    tfos_status status = run(trainable, step, trains ? "a step of training" : "a step of evaluation", error);
    if (status == TFOS_OK) {
        out->loss = number_of(trainable, step->got[OUT_LOSS]);
        out->iterations = trains ? (int64_t)number_of(trainable, step->got[OUT_ITERATIONS]) : -1;
        status = add_told(trainable, kind, step, batch->rows, sums, error);
    }
    delete_tensors(trainable, step->got, step->output_count);
    return status;
}

/* ---- values ---- */

void tfos__step_values_add(tfos__step_values *values, const char *prefix, const char *name, double value)
{
    if (values->count < TFOS__STEP_VALUES) {
        tfos__step_value *to = &values->at[values->count++];
        to->value = value;
        if (snprintf(to->name, sizeof to->name, "%s%s", prefix, name) >= (int)sizeof to->name) {
            to->name[sizeof to->name - 1] = '\0'; /* it is cut */
        }
    }
}

const double *tfos__step_values_find(const tfos__step_values *values, const char *name)
{
    for (size_t i = 0; i < values->count; i++) {
        if (strcmp(values->at[i].name, name) == 0) {
            return &values->at[i].value;
        }
    }
    return NULL;
}

static void add_result(const tfos__trainable *self, const char *prefix, const char *name, const TF_Tensor *tensor,
                       tfos__step_values *out)
{
    const tfos__tensorflow *tf = self->session.tf;
    const double *numbers = tf->TF_TensorData(tensor);
    size_t count = tf->TF_TensorByteSize(tensor) / sizeof *numbers;
    char numbered[TFOS__STEP_NAME_BYTES * 2];
    if (tf->TF_NumDims(tensor) == 0) {
        tfos__step_values_add(out, prefix, name, numbers[0]);
        return;
    }
    for (size_t i = 0; i < count && out->count < TFOS__STEP_VALUES; i++) {
        snprintf(numbered, sizeof numbered, "%s_%zu", name, i);
        tfos__step_values_add(out, prefix, numbered, numbers[i]);
    }
}

static tfos_status run_results(tfos__trainable *self, const tfos__step_sums *sums, tfos_error *error)
{
    const int64_t length = (int64_t)sums->metrics;
    entrance *at = &self->results;
    at->given[0] = tensor_of(self, TFOS__DTYPE_DOUBLE, sums->at, sums->metrics * sizeof *sums->at, &length, 1);
    if (at->given[0] == NULL) {
        return tfos__fail_memory(error, sums->metrics * sizeof *sums->at);
    }
    tfos_status status = run(self, at, "results of metrics", error);
    delete_tensors(self, at->given, 1);
    return status;
}

/* Those that are one number, or those that are lists. */
static void add_results(const tfos__trainable *self, const tfos__step_logs *logs, const char *prefix, bool lists,
                        tfos__step_values *out)
{
    const tfos__tensor_specs *outputs = &self->results_signature->outputs;
    for (size_t i = 0; i < logs->metrics.count; i++) {
        for (size_t j = 0; j < outputs->count; j++) {
            const TF_Tensor *got = self->results.got[j];
            if (strcmp(outputs->at[j].name, logs->metrics.at[i]) == 0 &&
                (self->session.tf->TF_NumDims(got) > 0) == lists) {
                add_result(self, prefix, outputs->at[j].name, got, out);
            }
        }
    }
}

/* The loss of batches, where the model has no value of that name. */
static void add_loss(const char *prefix, double loss, tfos__step_values *out)
{
    char name[TFOS__STEP_NAME_BYTES];
    snprintf(name, sizeof name, "%sloss", prefix);
    if (tfos__step_values_find(out, name) == NULL) {
        tfos__step_values_add(out, prefix, "loss", loss);
    }
}

tfos_status tfos__trainable_results(tfos__trainable *trainable, tfos__step_kind kind, const tfos__step_sums *sums,
                                    const char *prefix, tfos__step_values *out, tfos_error *error)
{
    const tfos__step_logs *logs = logs_of(trainable, kind);
    const tfos__tensor_specs *outputs = &trainable->results_signature->outputs;
    double rows = tfos__step_sums_rows(sums);
    if (outputs->count > 0 && rows > 0) {
        TFOS_TRY(run_results(trainable, sums, error));
    }
    if (rows > 0) {
        add_results(trainable, logs, prefix, false, out);
        for (size_t i = 0; i < logs->means.count; i++) {
            tfos__step_values_add(out, prefix, logs->means.at[i], sums->at[sums->metrics + i] / rows);
        }
        add_loss(prefix, tfos__step_sums_loss(sums) / rows, out);
        add_results(trainable, logs, prefix, true, out); /* last: they are many, and some may find no place */
    }
    delete_tensors(trainable, trainable->results.got, trainable->results.output_count);
    return TFOS_OK;
}

/* ---- state ---- */

tfos_status tfos__trainable_status_of(tfos__trainable *trainable, tfos__trainable_status *out, tfos_error *error)
{
    entrance *at = &trainable->status;
    TFOS_TRY(run(trainable, at, "the state of the optimizer", error));
    out->iterations = (int64_t)number_of(trainable, at->got[0]);
    out->rate = number_of(trainable, at->got[1]);
    delete_tensors(trainable, at->got, at->output_count);
    return TFOS_OK;
}

tfos_status tfos__trainable_finalize(tfos__trainable *trainable, tfos_error *error)
{
    entrance *at = &trainable->finalize;
    tfos_status status = run(trainable, at, "the end of training", error);
    delete_tensors(trainable, at->got, at->output_count);
    return status;
}

tfos_status tfos__trainable_synchronize(tfos__trainable *trainable, double source, double rows, tfos_error *error)
{
    entrance *at = &trainable->synchronize;
    at->given[0] = tensor_of(trainable, TFOS__DTYPE_DOUBLE, &source, sizeof source, NULL, 0);
    at->given[1] = tensor_of(trainable, TFOS__DTYPE_DOUBLE, &rows, sizeof rows, NULL, 0);
    bool enough = at->given[0] != NULL && at->given[1] != NULL;
    tfos_status status =
        enough ? run(trainable, at, "the state of all workers", error) : tfos__fail_memory(error, sizeof source);
    delete_tensors(trainable, at->given, at->input_count);
    delete_tensors(trainable, at->got, at->output_count);
    return status;
}

tfos_status tfos__trainable_save(tfos__trainable *trainable, const char *prefix, tfos_error *error)
{
    return tfos__session_save(&trainable->session, prefix, error);
}

tfos_status tfos__trainable_restore(tfos__trainable *trainable, const char *prefix, tfos_error *error)
{
    return tfos__session_restore(&trainable->session, prefix, error);
}
