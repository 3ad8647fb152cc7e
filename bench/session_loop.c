/* session_loop MODEL SIGNATURE OUTPUT RUNS ROWS THREADS: a signature of a model, again and again, with nothing around
 * it but TF_SessionRun, on batches that are in memory: what a program can come to at best. The output is one of the
 * signature's, or * for all. Prints a line of JSON: the seconds of all runs, and those of the processor.
 *
 * Numbers of float32 inputs are random, of int64 inputs from 0 to 9; a float32 without dimensions is -1, which says
 * nothing to a step of training. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/status.h"
#include "tensorflow/ops.h"
#include "tensorflow/session.h"

enum { BATCHES = 16, INPUTS_MOST = 8, OUTPUTS_MOST = 32, WARM = 100, DIGITS = 10, ALIGN = 64 };

typedef struct loop {
    const tfos__tensorflow *tf;
    tfos__session session;
    const tfos__signature *signature;
    TF_Output inputs[INPUTS_MOST];
    TF_Output outputs[OUTPUTS_MOST];
    size_t output_count;
    TF_Tensor *given[BATCHES][INPUTS_MOST];
} loop;

static void release(void *data, size_t bytes, void *context)
{
    (void)bytes;
    (void)context;
    free(data);
}

static tfos_status make_tensor(const loop *self, const tfos__tensor_spec *spec, int64_t rows, TF_Tensor **out,
                               tfos_error *error)
{
    int64_t dims[INPUTS_MOST];
    int64_t count = 1;
    void *memory = NULL;
    bool whole = spec->dtype == TFOS__DTYPE_INT64;
    if (spec->rank < 0 || spec->rank > INPUTS_MOST || (!whole && spec->dtype != TFOS__DTYPE_FLOAT)) {
        return TFOS_UNSUPPORTED;
    }
    for (int i = 0; i < spec->rank; i++) {
        dims[i] = spec->shape[i] < 0 ? rows : spec->shape[i];
        count *= dims[i];
    }
    size_t bytes = (size_t)count * (whole ? sizeof(int64_t) : sizeof(float));
    if (posix_memalign(&memory, ALIGN, bytes) != 0) {
        return tfos__fail_memory(error, bytes);
    }
    for (int64_t i = 0; i < count; i++) {
        if (whole) {
            ((int64_t *)memory)[i] = i % DIGITS;
        } else {
            ((float *)memory)[i] = spec->rank == 0 ? -1 : (float)random() / (float)RAND_MAX;
        }
    }
    *out = self->tf->TF_NewTensor(spec->dtype, dims, spec->rank, memory, bytes, release, NULL);
    return TFOS_OK;
}

static tfos_status prepare(loop *self, char **argv, int64_t rows, tfos_error *error)
{
    tfos__session_options options = {.folder = argv[1], .tags = "serve", .threads = atoi(argv[6])};
    TFOS_TRY(tfos__tensorflow_load(NULL, &self->tf, error));
    TFOS_TRY(tfos__ops_register(self->tf, error));
    TFOS_TRY(tfos__session_open(self->tf, &options, &self->session, error));
    TFOS_TRY(tfos__saved_model_signature(self->session.about, argv[2], &self->signature, error));
    const tfos__tensor_specs *inputs = &self->signature->inputs;
    const tfos__tensor_specs *outputs = &self->signature->outputs;
    for (size_t i = 0; i < inputs->count && i < INPUTS_MOST; i++) {
        TFOS_TRY(tfos__session_tensor(&self->session, inputs->at[i].tensor, &self->inputs[i], error));
        for (size_t j = 0; j < BATCHES; j++) {
            TFOS_TRY(make_tensor(self, &inputs->at[i], rows, &self->given[j][i], error));
        }
    }
    for (size_t i = 0; i < outputs->count && self->output_count < OUTPUTS_MOST; i++) {
        if (strcmp(argv[3], "*") == 0 || strcmp(outputs->at[i].name, argv[3]) == 0) {
            TF_Output *to = &self->outputs[self->output_count++];
            TFOS_TRY(tfos__session_tensor(&self->session, outputs->at[i].tensor, to, error));
        }
    }
    return self->output_count > 0 ? TFOS_OK : TFOS_NOT_FOUND;
}

static double processor_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static tfos_status run(const loop *self, long runs, tfos_error *error)
{
    uint64_t began = 0;
    double worked = 0;
    for (long i = -WARM; i < runs; i++) { /* the first ones are slow */
        TF_Tensor *got[OUTPUTS_MOST] = {NULL};
        if (i == 0) {
            began = tfos__clock_ns();
            worked = processor_s();
        }
        tfos__session_call call = {.inputs = self->inputs,
                                   .input_values = self->given[(i + WARM) % BATCHES],
                                   .input_count = self->signature->inputs.count,
                                   .outputs = self->outputs,
                                   .output_values = got,
                                   .output_count = self->output_count};
        TFOS_TRY(tfos__session_run(&self->session, &call, "a run", error));
        for (size_t j = 0; j < self->output_count; j++) {
            self->tf->TF_DeleteTensor(got[j]);
        }
    }
    printf("{\"seconds\": %.6f, \"processor_seconds\": %.6f}\n", (double)(tfos__clock_ns() - began) / 1e9,
           processor_s() - worked);
    return TFOS_OK;
}

int main(int argc, char **argv)
{
    static loop self;
    tfos_error error = {.message = "a tensor that this program cannot make or find"};
    if (argc != 7) {
        fprintf(stderr, "usage: session_loop MODEL SIGNATURE OUTPUT RUNS ROWS THREADS\n");
        return 2;
    }
    setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);
    tfos_status status = prepare(&self, argv, atol(argv[5]), &error);
    status = status == TFOS_OK ? run(&self, atol(argv[4]), &error) : status;
    if (status != TFOS_OK) {
        fprintf(stderr, "session_loop: %s\n", error.message);
    }
    fflush(NULL);
    _Exit(status == TFOS_OK ? 0 : 1); /* TensorFlow's destructors meet its threads */
}
