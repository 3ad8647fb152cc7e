/* Models: a session that TensorFlow has loaded from a SavedModel. */
#include "tensorflow/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wire.h"
#include "column/batch.h"
#include "tensorflow/saved_model_parts.h"

struct tfos__model {
    const tfos__tensorflow *tf;
    tfos__saved_model *about;
    TF_Graph *graph;
    TF_Session *session;
};

const tfos__saved_model *tfos__model_about(const tfos__model *model)
{
    return model->about;
}

void tfos__model_free(tfos__model *model)
{
    if (model == NULL) {
        return;
    }
    if (model->session != NULL) {
        TF_Status *status = model->tf->TF_NewStatus();
        model->tf->TF_CloseSession(model->session, status);
        model->tf->TF_DeleteSession(model->session, status);
        model->tf->TF_DeleteStatus(status);
    }
    if (model->graph != NULL) {
        model->tf->TF_DeleteGraph(model->graph);
    }
    tfos__saved_model_free(model->about);
    free(model);
}

/* ---- what cannot run ---- */

static const char *const python_ops[] = {"PyFunc", "PyFuncStateless", "EagerPyFunc"};

static tfos_status refuse_python(const tfos__saved_model *about, tfos_error *error)
{
    for (size_t i = 0; i < sizeof python_ops / sizeof python_ops[0]; i++) {
        if (tfos__saved_model_has_op(about, python_ops[i])) {
            return tfos__fail(
                error, TFOS_UNSUPPORTED,
                "%s: the model calls Python (tf.py_function or tf.numpy_function, op %s), which is not in "
                "a SavedModel. Write that part with ops of TensorFlow",
                about->folder, python_ops[i]);
        }
    }
    return TFOS_OK;
}

/* TensorFlow takes a folder without the file for a model without variables, and says so of the first that is missing
 * when the model runs. */
static tfos_status look_for_variables(const tfos__saved_model *about, tfos_error *error)
{
    char *path = NULL;
    bool has_variables =
        tfos__saved_model_has_op(about, "VarHandleOp") || tfos__saved_model_has_op(about, "VariableV2");
    if (!has_variables) {
        return TFOS_OK;
    }
    if (asprintf(&path, "%s/variables/variables.index", about->folder) < 0) {
        return tfos__fail_memory(error, strlen(about->folder));
    }
    bool found = access(path, R_OK) == 0;
    free(path);
    return found ? TFOS_OK
                 : tfos__fail(error, TFOS_NOT_FOUND,
                              "%s: the model has variables, and no file variables/variables.index that can be read: it "
                              "was copied or exported in part",
                              about->folder);
}

/* The ops of a graph that TensorFlow knows, marked as the list of all of them is read. */
typedef struct census {
    const tfos__saved_model *about;
    bool *known;
} census;

static tfos_status mark_op(void *context, const tfos__model_field *field, tfos_error *error)
{
    census *self = context;
    (void)error;
    for (size_t i = 0; field->number == 1 && i < self->about->op_count; i++) {
        size_t bytes = (size_t)(field->bytes.end - field->bytes.at);
        const char *name = self->about->ops[i];
        self->known[i] = self->known[i] || (strlen(name) == bytes && memcmp(name, field->bytes.at, bytes) == 0);
    }
    return TFOS_OK;
}

static tfos_status look_at_op(void *context, const tfos__model_field *field, tfos_error *error)
{
    return field->number == 1 ? tfos__model_each_field(field->bytes, mark_op, context, error) : TFOS_OK;
}

/* TensorFlow looks at the ops of functions only when these run. */
static tfos_status refuse_unknown(const tfos__tensorflow *tf, const tfos__saved_model *about, tfos_error *error)
{
    census all = {.about = about, .known = calloc(about->op_count + 1, sizeof(bool))};
    if (all.known == NULL) {
        return tfos__fail_memory(error, about->op_count);
    }
    TF_Buffer *list = tf->TF_GetAllOpList();
    tfos__wire bytes = {list->data, (const uint8_t *)list->data + list->length};
    tfos_status status = tfos__model_each_field(bytes, look_at_op, &all, error);
    for (size_t i = 0; i < about->op_count && status == TFOS_OK; i++) {
        if (!all.known[i]) {
            status =
                tfos__fail(error, TFOS_UNSUPPORTED,
                           "%s: the model has an op %s that TensorFlow %s does not know: load the library that has "
                           "it (setOpLibraries), or use the TensorFlow that the model was made with (%s)",
                           about->folder, tfos__printable_text(about->ops[i]).text, tf->version, about->version);
        }
    }
    tf->TF_DeleteBuffer(list);
    free(all.known);
    return status;
}

/* ---- loading ---- */

/* A ConfigProto: threads of an op for itself, and none among which ops are shared out, but the caller's. */
static TF_SessionOptions *make_options(const tfos__tensorflow *tf, int threads, TF_Status *status)
{
    enum { INTRA_OP_THREADS = 2, INTER_OP_THREADS = 5, PER_SESSION_THREADS = 9 };
    uint8_t config[32];
    uint8_t *to = config;
    *to++ = TFOS__WIRE_TAG(INTRA_OP_THREADS, TFOS__WIRE_VARINT);
    to = tfos__wire_put_varint(to, (uint64_t)threads);
    *to++ = TFOS__WIRE_TAG(INTER_OP_THREADS, TFOS__WIRE_VARINT);
    to = tfos__wire_put_varint(to, (uint64_t)INT64_C(-1));
    *to++ = TFOS__WIRE_TAG(PER_SESSION_THREADS, TFOS__WIRE_VARINT);
    to = tfos__wire_put_varint(to, 1);
    TF_SessionOptions *options = tf->TF_NewSessionOptions();
    tf->TF_SetConfig(options, config, (size_t)(to - config), status);
    return options;
}

enum { TAGS_MOST = 32 };

/* The tags between the commas, in memory that the caller frees. */
static char *split_tags(const char *tags, const char *out[TAGS_MOST], int *count)
{
    char *copy = strdup(tags);
    char *rest = NULL;
    *count = 0;
    for (char *tag = copy != NULL ? strtok_r(copy, ", ", &rest) : NULL; tag != NULL && *count < TAGS_MOST;
         tag = strtok_r(NULL, ", ", &rest)) {
        out[(*count)++] = tag;
    }
    return copy;
}

static tfos_status load_session(tfos__model *model, const tfos__model_options *options, tfos_error *error)
{
    const tfos__tensorflow *tf = model->tf;
    const char *tags[TAGS_MOST];
    int count;
    char *text = split_tags(options->tags, tags, &count);
    if (text == NULL) {
        return tfos__fail_memory(error, strlen(options->tags));
    }
    TF_Status *status = tf->TF_NewStatus();
    model->graph = tf->TF_NewGraph();
    TF_SessionOptions *session_options = make_options(tf, options->threads, status);
    tfos_status ours = tfos__tensorflow_check(tf, status, "cannot set up a session", error);
    if (ours == TFOS_OK) {
        model->session = tf->TF_LoadSessionFromSavedModel(session_options, NULL, options->folder, tags, count,
                                                          model->graph, NULL, status);
        ours = tfos__tensorflow_check(tf, status, options->folder, error);
    }
    tf->TF_DeleteSessionOptions(session_options);
    tf->TF_DeleteStatus(status);
    free(text);
    return ours;
}

tfos_status tfos__model_load(const tfos__tensorflow *tf, const tfos__model_options *options, tfos__model **out,
                             tfos_error *error)
{
    tfos__model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        return tfos__fail_memory(error, sizeof *model);
    }
    model->tf = tf;
    tfos_status status = tfos__saved_model_read(NULL, options->folder, options->tags, &model->about, error);
    status = status == TFOS_OK ? refuse_python(model->about, error) : status;
    status = status == TFOS_OK ? refuse_unknown(tf, model->about, error) : status;
    status = status == TFOS_OK ? look_for_variables(model->about, error) : status;
    status = status == TFOS_OK ? load_session(model, options, error) : status;
    if (status != TFOS_OK) {
        tfos__model_free(model);
        return status;
    }
    *out = model;
    return TFOS_OK;
}

/* ---- running ---- */

/* "op:1" in the graph. */
static tfos_status find_output(const tfos__model *model, const char *tensor, TF_Output *out, tfos_error *error)
{
    const char *colon = strrchr(tensor, ':');
    char *name = colon != NULL ? strndup(tensor, (size_t)(colon - tensor)) : strdup(tensor);
    if (name == NULL) {
        return tfos__fail_memory(error, strlen(tensor));
    }
    out->index = colon != NULL ? atoi(colon + 1) : 0;
    out->oper = model->tf->TF_GraphOperationByName(model->graph, name);
    free(name);
    if (out->oper == NULL || out->index < 0 || out->index >= model->tf->TF_OperationNumOutputs(out->oper)) {
        return tfos__fail(error, TFOS_CORRUPT, "%s: the signature names a tensor %s, which the graph does not have",
                          model->about->folder, tfos__printable_text(tensor).text);
    }
    return TFOS_OK;
}

/* One run: what goes in and comes out. */
typedef struct run {
    TF_Output *inputs;
    TF_Tensor **input_values;
    TF_Output *outputs;
    TF_Tensor **output_values;
} run;

static void delete_tensors(const tfos__model *model, TF_Tensor **tensors, size_t count)
{
    for (size_t i = 0; tensors != NULL && i < count; i++) {
        if (tensors[i] != NULL) {
            model->tf->TF_DeleteTensor(tensors[i]);
        }
    }
}

static void reset_run(const tfos__model *model, const tfos__binding *binding, run *self)
{
    delete_tensors(model, self->input_values, binding->input_count);
    delete_tensors(model, self->output_values, binding->output_count); /* that no batch has taken */
    free(self->inputs);
    free(self->input_values);
    free(self->outputs);
    free(self->output_values);
}

static tfos_status begin_run(const tfos__model *model, const tfos__binding *binding, run *self, tfos_error *error)
{
    *self =
        (run){calloc(binding->input_count + 1, sizeof(TF_Output)), calloc(binding->input_count + 1, sizeof(void *)),
              calloc(binding->output_count + 1, sizeof(TF_Output)), calloc(binding->output_count + 1, sizeof(void *))};
    if (self->inputs == NULL || self->input_values == NULL || self->outputs == NULL || self->output_values == NULL) {
        return tfos__fail_memory(error, (binding->input_count + binding->output_count) * sizeof(TF_Output));
    }
    for (size_t i = 0; i < binding->input_count; i++) {
        TFOS_TRY(find_output(model, binding->inputs[i].spec->tensor, &self->inputs[i], error));
    }
    for (size_t i = 0; i < binding->output_count; i++) {
        TFOS_TRY(find_output(model, binding->outputs[i].spec->tensor, &self->outputs[i], error));
    }
    return TFOS_OK;
}

static tfos_status make_inputs(const tfos__model *model, const tfos__binding *binding, tfos_batch *rows,
                               int64_t all_rows, run *self, tfos_error *error)
{
    for (size_t i = 0; i < binding->input_count; i++) {
        const tfos__bound *input = &binding->inputs[i];
        tfos_status status = tfos__model_tensor_of(model->tf, input, rows, all_rows, &self->input_values[i], error);
        if (status != TFOS_OK) {
            tfos__error_prefix(error, "input '%s', column '%s'", tfos__printable_text(input->spec->name).text,
                               tfos__printable_text(input->column).text);
            return status;
        }
    }
    return TFOS_OK;
}

static tfos_status run_session(const tfos__model *model, const tfos__binding *binding, run *self, tfos_error *error)
{
    TF_Status *status = model->tf->TF_NewStatus();
    model->tf->TF_SessionRun(model->session, NULL, self->inputs, self->input_values, (int)binding->input_count,
                             self->outputs, self->output_values, (int)binding->output_count, NULL, 0, NULL, status);
    tfos_status ours = tfos__tensorflow_check(model->tf, status, "the model cannot compute these rows", error);
    model->tf->TF_DeleteStatus(status);
    if (ours == TFOS_CANCELLED || ours == TFOS_IO) {
        /* Here these mean that the task, or the process, is gone. */
        ours = TFOS_INVALID;
        if (error != NULL) {
            error->status = ours;
        }
    }
    return ours;
}

/* Tensors that a batch of results has the memory of. */
typedef struct kept_tensors {
    const tfos__tensorflow *tf;
    size_t count;
    TF_Tensor *at[];
} kept_tensors;

static void release_tensors(void *context)
{
    kept_tensors *kept = context;
    for (size_t i = 0; i < kept->count; i++) {
        if (kept->at[i] != NULL) {
            kept->tf->TF_DeleteTensor(kept->at[i]);
        }
    }
    free(kept);
}

static tfos_status take_outputs(const tfos__model *model, const tfos__binding *binding, TF_Tensor *const *tensors,
                                int64_t rows, int64_t all_rows, tfos_batch *out, tfos_error *error)
{
    for (size_t i = 0; i < binding->output_count; i++) {
        const tfos__bound *output = &binding->outputs[i];
        tfos_status status = tfos__model_column_of(model->tf, output, tensors[i], rows, all_rows, out, error);
        if (status != TFOS_OK) {
            tfos__error_prefix(error, "output '%s', column '%s'", tfos__printable_text(output->spec->name).text,
                               tfos__printable_text(output->column).text);
            return status;
        }
    }
    return tfos__batch_finish(out, rows, error);
}

static tfos_status make_results(const tfos__model *model, const tfos__binding *binding, run *self, int64_t rows,
                                int64_t all_rows, tfos_batch **out, tfos_error *error)
{
    tfos_batch *batch;
    kept_tensors *kept = calloc(1, sizeof *kept + binding->output_count * sizeof kept->at[0]);
    if (kept == NULL) {
        return tfos__fail_memory(error, sizeof *kept);
    }
    tfos_status status = tfos__batch_new(binding->results, &batch, error);
    if (status != TFOS_OK) {
        free(kept);
        return status;
    }
    *kept = (kept_tensors){.tf = model->tf, .count = binding->output_count};
    memcpy(kept->at, self->output_values, kept->count * sizeof kept->at[0]);
    memset(self->output_values, 0, kept->count * sizeof kept->at[0]);
    tfos__batch_keep(batch, release_tensors, kept);
    status = take_outputs(model, binding, kept->at, rows, all_rows, batch, error);
    if (status != TFOS_OK) {
        tfos_batch_free(batch);
        return status;
    }
    *out = batch;
    return TFOS_OK;
}

tfos_status tfos__model_run(tfos__model *model, const tfos__binding *binding, tfos_batch *rows, tfos_batch **out,
                            tfos_error *error)
{
    run self;
    int64_t count = tfos_batch_rows(rows);
    int64_t all = binding->batch_rows > 0 ? binding->batch_rows : count;
    tfos_status status = begin_run(model, binding, &self, error);
    status = status == TFOS_OK ? make_inputs(model, binding, rows, all, &self, error) : status;
    status = status == TFOS_OK ? run_session(model, binding, &self, error) : status;
    status = status == TFOS_OK ? make_results(model, binding, &self, count, all, out, error) : status;
    reset_run(model, binding, &self);
    return status;
}
