/* Sessions: what can run here is loaded, and what cannot is refused before that, with the reason. */
#include "tensorflow/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wire.h"
#include "tensorflow/saved_model_parts.h"

void tfos__session_close(tfos__session *session)
{
    if (session->session != NULL) {
        TF_Status *status = session->tf->TF_NewStatus();
        session->tf->TF_CloseSession(session->session, status);
        session->tf->TF_DeleteSession(session->session, status);
        session->tf->TF_DeleteStatus(status);
    }
    if (session->graph != NULL) {
        session->tf->TF_DeleteGraph(session->graph);
    }
    tfos__saved_model_free(session->about);
    *session = (tfos__session){0};
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

/* Graphs of many workers have ops of ours, which those that predict do not load. */
static tfos_status fail_unknown(const tfos__tensorflow *tf, const tfos__saved_model *about, const char *op,
                                tfos_error *error)
{
    if (strncmp(op, "TfosMerge", strlen("TfosMerge")) == 0) {
        return tfos__fail(error, TFOS_UNSUPPORTED,
                          "%s: this is the model for training that native.export has written (it has an op %s): for "
                          "prediction give the folder serving in it, or what training has written to export_dir",
                          about->folder, tfos__printable_text(op).text);
    }
    return tfos__fail(error, TFOS_UNSUPPORTED,
                      "%s: the model has an op %s that TensorFlow %s does not know: load the library that has it "
                      "(setOpLibraries, --op-library), or use the TensorFlow that the model was made with (%s)",
                      about->folder, tfos__printable_text(op).text, tf->version, about->version);
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
            status = fail_unknown(tf, about, about->ops[i], error);
        }
    }
    tf->TF_DeleteBuffer(list);
    free(all.known);
    return status;
}

/* ---- loading ---- */

/* A ConfigProto: threads of an op for itself. Those among which ops are shared out are for what TensorFlow runs when it
 * loads; a run asks for none (run_options). */
static TF_SessionOptions *make_options(const tfos__tensorflow *tf, const tfos__session_options *of, TF_Status *status)
{
    enum { INTRA_OP_THREADS = 2, PER_SESSION_THREADS = 9 };
    uint8_t config[32];
    uint8_t *to = config;
    *to++ = TFOS__WIRE_TAG(INTRA_OP_THREADS, TFOS__WIRE_VARINT);
    to = tfos__wire_put_varint(to, (uint64_t)of->threads);
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

static tfos_status load_session(tfos__session *self, const tfos__session_options *options, tfos_error *error)
{
    const tfos__tensorflow *tf = self->tf;
    const char *tags[TAGS_MOST];
    int count;
    char *text = split_tags(options->tags, tags, &count);
    if (text == NULL) {
        return tfos__fail_memory(error, strlen(options->tags));
    }
    TF_Status *status = tf->TF_NewStatus();
    self->graph = tf->TF_NewGraph();
    TF_SessionOptions *session_options = make_options(tf, options, status);
    tfos_status ours = tfos__tensorflow_check(tf, status, "cannot set up a session", error);
    if (ours == TFOS_OK) {
        self->session = tf->TF_LoadSessionFromSavedModel(session_options, NULL, options->folder, tags, count,
                                                         self->graph, NULL, status);
        ours = tfos__tensorflow_check(tf, status, options->folder, error);
    }
    tf->TF_DeleteSessionOptions(session_options);
    tf->TF_DeleteStatus(status);
    free(text);
    return ours;
}

tfos_status tfos__session_open(const tfos__tensorflow *tf, const tfos__session_options *options, tfos__session *out,
                               tfos_error *error)
{
    tfos__session self = {.tf = tf};
    tfos_status status = tfos__saved_model_read(NULL, options->folder, options->tags, &self.about, error);
    status = status == TFOS_OK ? refuse_python(self.about, error) : status;
    status = status == TFOS_OK ? refuse_unknown(tf, self.about, error) : status;
    status = status == TFOS_OK ? look_for_variables(self.about, error) : status;
    status = status == TFOS_OK ? load_session(&self, options, error) : status;
    if (status != TFOS_OK) {
        tfos__session_close(&self);
        return status;
    }
    *out = self;
    return TFOS_OK;
}

/* ---- running ---- */

/* "op:1" in the graph. */
tfos_status tfos__session_tensor(const tfos__session *session, const char *tensor, TF_Output *out, tfos_error *error)
{
    const char *colon = strrchr(tensor, ':');
    char *name = colon != NULL ? strndup(tensor, (size_t)(colon - tensor)) : strdup(tensor);
    if (name == NULL) {
        return tfos__fail_memory(error, strlen(tensor));
    }
    out->index = colon != NULL ? atoi(colon + 1) : 0;
    out->oper = session->tf->TF_GraphOperationByName(session->graph, name);
    free(name);
    if (out->oper == NULL || out->index < 0 || out->index >= session->tf->TF_OperationNumOutputs(out->oper)) {
        return tfos__fail(error, TFOS_CORRUPT, "%s: the signature names a tensor %s, which the graph does not have",
                          session->about->folder, tfos__printable_text(tensor).text);
    }
    return TFOS_OK;
}

/* RunOptions: inter_op_thread_pool = -1, ops run in the thread of the caller. With use_per_session_threads TensorFlow
 * takes a negative inter_op_parallelism_threads for "as many as there are cores", so it has to be said of each run. */
static const uint8_t run_options[] = {
    TFOS__WIRE_TAG(3, TFOS__WIRE_VARINT), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};

tfos_status tfos__session_run(const tfos__session *session, const tfos__session_call *call, const char *doing,
                              tfos_error *error)
{
    const tfos__tensorflow *tf = session->tf;
    TF_Status *status = tf->TF_NewStatus();
    const TF_Buffer options = {.data = run_options, .length = sizeof run_options};
    tf->TF_SessionRun(session->session, &options, call->inputs, call->input_values, (int)call->input_count,
                      call->outputs, call->output_values, (int)call->output_count, call->targets,
                      (int)call->target_count, NULL, status);
    tfos_status ours = tfos__tensorflow_check(tf, status, doing, error);
    tf->TF_DeleteStatus(status);
    return ours;
}
