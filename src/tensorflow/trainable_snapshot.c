/* Snapshots: the tensors that variables have at a moment. TensorFlow writes to a variable in place only if nobody else
 * holds its tensor, so a snapshot costs a copy of what is written to afterwards, and nothing before.
 *
 * The graph of a model has no ops that read and assign all its variables; they are added to it, once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "tensorflow/trainable.h"

struct tfos__snapshot {
    size_t count;
    TF_Tensor *at[];
};

void tfos__variables_reset(tfos__variables *variables)
{
    free(variables->reads);
    free(variables->fills);
    free((void *)variables->assigns);
    *variables = (tfos__variables){0};
}

static size_t count_handles(const tfos__session *session)
{
    size_t count = 0;
    size_t position = 0;
    TF_Operation *op;
    while ((op = session->tf->TF_GraphNextOperation(session->graph, &position)) != NULL) {
        count += strcmp(session->tf->TF_OperationOpType(op), "VarHandleOp") == 0 ? 1 : 0;
    }
    return count;
}

static TF_Operation *add_op(const tfos__session *session, const char *type, size_t number, const TF_Output *inputs,
                            size_t input_count, int dtype, TF_Status *status)
{
    const tfos__tensorflow *tf = session->tf;
    char name[64];
    snprintf(name, sizeof name, "tfos_snapshot/%s_%zu", type, number);
    TF_OperationDescription *op = tf->TF_NewOperation(session->graph, type, name);
    for (size_t i = 0; i < input_count; i++) {
        tf->TF_AddInput(op, inputs[i]);
    }
    tf->TF_SetAttrType(op, "dtype", dtype);
    return tf->TF_FinishOperation(op, status);
}

static void add_variable(const tfos__session *session, tfos__variables *to, TF_Operation *handle, TF_Status *status)
{
    const tfos__tensorflow *tf = session->tf;
    size_t i = to->count;
    int dtype = 0;
    tf->TF_OperationGetAttrType(handle, "dtype", &dtype, status);
    TF_Output pair[2] = {{handle, 0}, {NULL, 0}};
    if (tf->TF_GetCode(status) == 0) {
        to->reads[i] = (TF_Output){add_op(session, "ReadVariableOp", i, pair, 1, dtype, status), 0};
    }
    if (tf->TF_GetCode(status) == 0) {
        pair[1].oper = add_op(session, "Placeholder", i, NULL, 0, dtype, status);
        to->fills[i] = pair[1];
    }
    if (tf->TF_GetCode(status) == 0) {
        to->assigns[i] = add_op(session, "AssignVariableOp", i, pair, 2, dtype, status);
        to->count++;
    }
}

tfos_status tfos__variables_init(const tfos__session *session, tfos__variables *out, tfos_error *error)
{
    const tfos__tensorflow *tf = session->tf;
    size_t count = count_handles(session);
    tfos__variables self = {.reads = calloc(count + 1, sizeof *self.reads),
                            .fills = calloc(count + 1, sizeof *self.fills),
                            .assigns = calloc(count + 1, sizeof *self.assigns)};
    TF_Operation **handles = calloc(count + 1, sizeof(TF_Operation *));
    if (self.reads == NULL || self.fills == NULL || self.assigns == NULL || handles == NULL) {
        tfos__variables_reset(&self);
        free(handles);
        return tfos__fail_memory(error, count * sizeof *self.reads);
    }
    size_t found = 0;
    size_t position = 0;
    for (TF_Operation *op; found < count && (op = tf->TF_GraphNextOperation(session->graph, &position)) != NULL;) {
        if (strcmp(tf->TF_OperationOpType(op), "VarHandleOp") == 0) {
            handles[found++] = op;
        }
    }
    TF_Status *status = tf->TF_NewStatus();
    for (size_t i = 0; i < found && tf->TF_GetCode(status) == 0; i++) {
        add_variable(session, &self, handles[i], status);
    }
    tfos_status ours = tfos__tensorflow_check(tf, status, "the variables of the model", error);
    tf->TF_DeleteStatus(status);
    free(handles);
    if (ours != TFOS_OK) {
        tfos__variables_reset(&self);
        return ours;
    }
    *out = self;
    return TFOS_OK;
}

void tfos__snapshot_free(const tfos__trainable *trainable, tfos__snapshot *snapshot)
{
    for (size_t i = 0; snapshot != NULL && i < snapshot->count; i++) {
        if (snapshot->at[i] != NULL) {
            tfos__trainable_session(trainable)->tf->TF_DeleteTensor(snapshot->at[i]);
        }
    }
    free(snapshot);
}

tfos_status tfos__trainable_take(tfos__trainable *trainable, tfos__snapshot **out, tfos_error *error)
{
    const tfos__session *session = tfos__trainable_session(trainable);
    tfos__variables *variables = tfos__trainable_variables(trainable);
    if (variables->reads == NULL) {
        TFOS_TRY(tfos__variables_init(session, variables, error));
    }
    tfos__snapshot *made = calloc(1, sizeof *made + variables->count * sizeof made->at[0]);
    if (made == NULL) {
        return tfos__fail_memory(error, sizeof *made);
    }
    made->count = variables->count;
    tfos__snapshot_free(trainable, *out); /* first: what it holds would be copied */
    *out = NULL;
    tfos__session_call call = {
        .outputs = variables->reads, .output_values = made->at, .output_count = variables->count};
    tfos_status status = tfos__session_run(session, &call, "the variables of the model", error);
    if (status != TFOS_OK) {
        tfos__snapshot_free(trainable, made);
        return status;
    }
    *out = made;
    return TFOS_OK;
}

tfos_status tfos__trainable_put(tfos__trainable *trainable, const tfos__snapshot *snapshot, tfos_error *error)
{
    const tfos__variables *variables = tfos__trainable_variables(trainable);
    tfos__session_call call = {.inputs = variables->fills,
                               .input_values = snapshot->at,
                               .input_count = snapshot->count,
                               .targets = variables->assigns,
                               .target_count = snapshot->count};
    return tfos__session_run(tfos__trainable_session(trainable), &call, "the variables of the model", error);
}

/* Variables of optimizers and layers are float32 or float64; halves are what these are cast to. */
static bool is_tensor_finite(const tfos__tensorflow *tf, const TF_Tensor *tensor)
{
    const float *floats = tf->TF_TensorData(tensor);
    const double *doubles = tf->TF_TensorData(tensor);
    size_t bytes = tf->TF_TensorByteSize(tensor);
    bool finite = true;
    if (tf->TF_TensorType(tensor) == TFOS__DTYPE_FLOAT) {
        for (size_t i = 0; i < bytes / sizeof *floats; i++) {
            finite = finite && isfinite(floats[i]);
        }
    } else if (tf->TF_TensorType(tensor) == TFOS__DTYPE_DOUBLE) {
        for (size_t i = 0; i < bytes / sizeof *doubles; i++) {
            finite = finite && isfinite(doubles[i]);
        }
    }
    return finite;
}

tfos_status tfos__trainable_is_finite(tfos__trainable *trainable, bool *out, tfos_error *error)
{
    tfos__snapshot *now = NULL;
    TFOS_TRY(tfos__trainable_take(trainable, &now, error));
    *out = true;
    for (size_t i = 0; i < now->count; i++) {
        *out = *out && is_tensor_finite(tfos__trainable_session(trainable)->tf, now->at[i]);
    }
    tfos__snapshot_free(trainable, now);
    return TFOS_OK;
}
