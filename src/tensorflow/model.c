/* Models: rows through a session, and results out of it. */
#include "tensorflow/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "column/batch.h"

struct tfos__model {
    tfos__session session;
};

const tfos__saved_model *tfos__model_about(const tfos__model *model)
{
    return model->session.about;
}

void tfos__model_free(tfos__model *model)
{
    if (model != NULL) {
        tfos__session_close(&model->session);
        free(model);
    }
}

tfos_status tfos__model_load(const tfos__tensorflow *tf, const tfos__model_options *options, tfos__model **out,
                             tfos_error *error)
{
    tfos__model *model = calloc(1, sizeof *model);
    if (model == NULL) {
        return tfos__fail_memory(error, sizeof *model);
    }
    tfos_status status = tfos__session_open(tf, options, &model->session, error);
    if (status != TFOS_OK) {
        free(model);
        return status;
    }
    *out = model;
    return TFOS_OK;
}

/* ---- running ---- */

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
            model->session.tf->TF_DeleteTensor(tensors[i]);
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
        TFOS_TRY(tfos__session_tensor(&model->session, binding->inputs[i].spec->tensor, &self->inputs[i], error));
    }
    for (size_t i = 0; i < binding->output_count; i++) {
        TFOS_TRY(tfos__session_tensor(&model->session, binding->outputs[i].spec->tensor, &self->outputs[i], error));
    }
    return TFOS_OK;
}

static tfos_status make_inputs(const tfos__model *model, const tfos__binding *binding, tfos_batch *rows,
                               int64_t all_rows, run *self, tfos_error *error)
{
    for (size_t i = 0; i < binding->input_count; i++) {
        const tfos__bound *input = &binding->inputs[i];
        tfos_status status =
            tfos__model_tensor_of(model->session.tf, input, rows, all_rows, &self->input_values[i], error);
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
    tfos__session_call call = {.inputs = self->inputs,
                               .input_values = self->input_values,
                               .input_count = binding->input_count,
                               .outputs = self->outputs,
                               .output_values = self->output_values,
                               .output_count = binding->output_count};
    tfos_status ours = tfos__session_run(&model->session, &call, "the model cannot compute these rows", error);
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
        tfos_status status = tfos__model_column_of(model->session.tf, output, tensors[i], rows, all_rows, out, error);
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
    *kept = (kept_tensors){.tf = model->session.tf, .count = binding->output_count};
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
