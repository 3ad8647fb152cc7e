/* TfosMerge and TfosMergeRows: calls of all workers as ops. Kernels are synchronous: TensorFlow's asynchronous ones
 * crash when they end in another thread. They block one of its threads until all workers have come, so there is one op
 * for all that is to be merged at a time, and a token that keeps several of them in order.
 *
 * Tensors are merged where they are, if nobody else needs them: an output may have the memory of its input. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tensorflow/ops.h"

/* Inputs and outputs before the tensors. */
enum { INPUT_TOKEN, INPUT_WEIGHT, INPUT_TENSORS };
enum { OUTPUT_WEIGHT, OUTPUT_TENSORS };

static const tfos__tensorflow *tf;

typedef struct kernel {
    size_t count;
    tfos_merge *merges;
    size_t root;
    tfos_element wire;
    char *about;
} kernel;

/* One call of a kernel. */
typedef struct work {
    const kernel *self;
    TF_OpKernelContext *context;
    TF_Status *status;
    tfos_part *parts;
    TF_Tensor **tensors; /* inputs that are gathered, outputs of the others; NULL: not yet */
    unsigned interrupts; /* before it began */
} work;

static tfos_status look_at(const work *w, tfos_error *error)
{
    return tfos__tensorflow_check(tf, w->status, "TfosMerge", error);
}

/* ---- elements ---- */

static tfos_status find_element(int type, tfos_element *out, tfos_error *error)
{
    static const int types[] = {
        [TFOS_ELEMENT_FLOAT32] = TFOS__DTYPE_FLOAT, [TFOS_ELEMENT_FLOAT64] = TFOS__DTYPE_DOUBLE,
        [TFOS_ELEMENT_FLOAT16] = TFOS__DTYPE_HALF,  [TFOS_ELEMENT_BFLOAT16] = TFOS__DTYPE_BFLOAT16,
        [TFOS_ELEMENT_INT32] = TFOS__DTYPE_INT32,   [TFOS_ELEMENT_INT64] = TFOS__DTYPE_INT64,
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i] == type) {
            *out = (tfos_element)i;
            return TFOS_OK;
        }
    }
    return tfos__fail(error, TFOS_UNSUPPORTED, "tensors of TensorFlow's type %d cannot be merged", type);
}

/* ---- inputs ---- */

static tfos_status read_weight(const work *w, double *out, tfos_error *error)
{
    TF_Tensor *weight = NULL;
    tf->TF_GetInput(w->context, INPUT_WEIGHT, &weight, w->status);
    TFOS_TRY(look_at(w, error));
    bool scalar = tf->TF_NumDims(weight) == 0;
    if (scalar) {
        memcpy(out, tf->TF_TensorData(weight), sizeof *out);
    }
    tf->TF_DeleteTensor(weight);
    return scalar ? TFOS_OK : tfos__fail(error, TFOS_INVALID, "the weight of a worker is a scalar");
}

/* What is not gathered gets its output now: the memory of the input if nobody else has it. An input is only handed on
 * when we have let go of it; its memory stays until the kernel returns. */
static tfos_status take_input(work *w, size_t i, tfos_error *error)
{
    const int input = INPUT_TENSORS + (int)i;
    tfos_part *part = &w->parts[i];
    TF_Tensor *tensor = NULL;
    int forwarded;
    tf->TF_GetInput(w->context, input, &tensor, w->status);
    TFOS_TRY(look_at(w, error));
    w->tensors[i] = tensor;
    TFOS_TRY(find_element(tf->TF_TensorType(tensor), &part->element, error));
    part->merge = w->self->merges[i];
    part->dimensions = tf->TF_NumDims(tensor);
    if (part->dimensions > TFOS_PART_DIMENSIONS_MOST) {
        return tfos__fail(error, TFOS_UNSUPPORTED, "tensor %zu has %d dimensions, and the most is %d", i,
                          (int)part->dimensions, TFOS_PART_DIMENSIONS_MOST);
    }
    for (int32_t d = 0; d < part->dimensions; d++) {
        part->shape[d] = tf->TF_Dim(tensor, d);
    }
    part->input = tf->TF_TensorData(tensor);
    if (tfos_merge_gathers(part->merge)) {
        return TFOS_OK;
    }
    tf->TF_DeleteTensor(tensor);
    w->tensors[i] = tf->TF_ForwardInputOrAllocateOutput(w->context, &input, 1, OUTPUT_TENSORS + (int)i, part->shape,
                                                        part->dimensions, &forwarded, w->status);
    TFOS_TRY(look_at(w, error));
    part->output = tf->TF_TensorData(w->tensors[i]);
    return TFOS_OK;
}

/* ---- outputs ---- */

static void free_gathered(void *data, size_t bytes, void *context)
{
    (void)bytes;
    (void)context;
    free(data);
}

/* The memory that was gathered into becomes the tensor's. */
static tfos_status give_gathered(const work *w, size_t i, const uint64_t *rows, size_t workers, void **data,
                                 tfos_error *error)
{
    const tfos_part *part = &w->parts[i];
    int64_t dims[TFOS_PART_DIMENSIONS_MOST];
    size_t bytes = tfos_element_bytes(part->element);
    memcpy(dims, part->shape, sizeof dims);
    dims[0] = 0;
    for (size_t rank = 0; rank < workers; rank++) {
        dims[0] += (int64_t)rows[rank];
    }
    for (int32_t d = 0; d < part->dimensions; d++) {
        bytes *= (size_t)dims[d];
    }
    void *mine = *data;
    *data = NULL;
    TF_Tensor *tensor =
        tf->TF_NewTensor(tf->TF_TensorType(w->tensors[i]), dims, part->dimensions, mine, bytes, free_gathered, NULL);
    if (tensor == NULL) {
        return tfos__fail(error, TFOS_NO_MEMORY, "no tensor of %zu bytes", bytes);
    }
    tf->TF_SetOutput(w->context, OUTPUT_TENSORS + (int)i, tensor, w->status);
    tf->TF_DeleteTensor(tensor);
    return look_at(w, error);
}

static tfos_status give_weight(const work *w, double weight, tfos_error *error)
{
    TF_Tensor *tensor =
        tf->TF_AllocateOutput(w->context, OUTPUT_WEIGHT, TFOS__DTYPE_DOUBLE, NULL, 0, sizeof weight, w->status);
    TFOS_TRY(look_at(w, error));
    memcpy(tf->TF_TensorData(tensor), &weight, sizeof weight);
    tf->TF_DeleteTensor(tensor);
    return TFOS_OK;
}

static tfos_status give_all(const work *w, size_t workers, tfos_call_result *result, tfos_error *error)
{
    size_t gathered = 0;
    TFOS_TRY(give_weight(w, result->weight, error));
    for (size_t i = 0; i < w->self->count; i++) {
        if (tfos_merge_gathers(w->self->merges[i])) {
            TFOS_TRY(
                give_gathered(w, i, result->rows + gathered * workers, workers, &result->gathered[gathered], error));
            gathered++;
        }
    }
    return TFOS_OK;
}

/* ---- the call ---- */

static bool is_interrupted(void *context)
{
    const work *w = context;
    return tfos__ops_interrupts() != w->interrupts;
}

static tfos_status call_group(work *w, double weight, tfos_error *error)
{
    tfos_group *group;
    tfos_call_options options;
    tfos_call_result result = {0};
    tfos_call_options_init(&options, sizeof options);
    options.weight = weight;
    options.root = w->self->root;
    options.about = w->self->about;
    options.wire = w->self->wire;
    options.interrupted = is_interrupted;
    options.interrupted_context = w;
    TFOS_TRY(tfos_group_open(&options, &group, error)); /* the one that is open, as a rule */
    tfos_status status = tfos_group_call(group, w->parts, w->self->count, &options, &result, error);
    status = status == TFOS_OK ? give_all(w, tfos_group_size(group), &result, error) : status;
    tfos_call_result_reset(&result);
    tfos_group_close(group);
    return status;
}

static tfos_status merge(work *w, tfos_error *error)
{
    double weight;
    TFOS_TRY(read_weight(w, &weight, error));
    for (size_t i = 0; i < w->self->count; i++) {
        TFOS_TRY(take_input(w, i, error));
    }
    return call_group(w, weight, error);
}

/* Codes that pass through functions and tf.data as they are, and mean no end of data. */
static int code_of(tfos_status status)
{
    return status == TFOS_INVALID || status == TFOS_MISMATCH ? TFOS__TF_INVALID_ARGUMENT
           : status == TFOS_NO_MEMORY                        ? TFOS__TF_RESOURCE_EXHAUSTED
                                                             : TFOS__TF_FAILED_PRECONDITION;
}

static void compute(void *data, TF_OpKernelContext *context)
{
    const kernel *self = data;
    tfos_error error;
    work w = {.self = self,
              .context = context,
              .status = tf->TF_NewStatus(),
              .parts = calloc(self->count + 1, sizeof *w.parts),
              .tensors = calloc(self->count + 1, sizeof(TF_Tensor *)),
              .interrupts = tfos__ops_interrupts()};
    bool enough = w.parts != NULL && w.tensors != NULL;
    tfos_status status = enough ? merge(&w, &error) : tfos__fail_memory(&error, self->count * sizeof *w.parts);
    for (size_t i = 0; enough && i < self->count; i++) {
        if (w.tensors[i] != NULL) {
            tf->TF_DeleteTensor(w.tensors[i]);
        }
    }
    if (status != TFOS_OK) {
        tf->TF_SetStatus(w.status, code_of(status), error.message);
        tf->TF_OpKernelContext_Failure(context, w.status);
    }
    tf->TF_DeleteStatus(w.status);
    free(w.parts);
    free(w.tensors);
}

/* ---- making a kernel ---- */

static void destroy(void *data)
{
    kernel *self = data;
    if (self != NULL) {
        free(self->merges);
        free(self->about);
        free(self);
    }
}

static tfos_status read_merges(kernel *self, TF_OpKernelConstruction *from, TF_Status *status, tfos_error *error)
{
    int32_t count = 0;
    int32_t total;
    tf->TF_OpKernelConstruction_GetAttrSize(from, "merges", &count, &total, status);
    TFOS_TRY(tfos__tensorflow_check(tf, status, "TfosMerge", error));
    int64_t *numbers = calloc((size_t)count + 1, sizeof *numbers);
    self->merges = calloc((size_t)count + 1, sizeof *self->merges);
    if (numbers == NULL || self->merges == NULL) {
        free(numbers);
        return tfos__fail_memory(error, (size_t)count * sizeof *numbers);
    }
    tf->TF_OpKernelConstruction_GetAttrInt64List(from, "merges", numbers, count, status);
    tfos_status ours = tfos__tensorflow_check(tf, status, "TfosMerge", error);
    self->count = (size_t)count;
    for (int32_t i = 0; ours == TFOS_OK && i < count; i++) {
        if (numbers[i] < 0 || numbers[i] > TFOS_MERGE_GATHER_WEIGHTED) {
            ours = tfos__fail(error, TFOS_INVALID, "there is no merge %lld", (long long)numbers[i]);
        }
        self->merges[i] = (tfos_merge)numbers[i];
    }
    free(numbers);
    return ours;
}

static tfos_status read_attributes(kernel *self, TF_OpKernelConstruction *from, TF_Status *status, tfos_error *error)
{
    int64_t root;
    int64_t wire;
    int32_t types = 0;
    int32_t total;
    size_t bytes = 0;
    TFOS_TRY(read_merges(self, from, status, error));
    tf->TF_OpKernelConstruction_GetAttrSize(from, "T", &types, &total, status);
    tf->TF_OpKernelConstruction_GetAttrInt64(from, "root", &root, status);
    tf->TF_OpKernelConstruction_GetAttrInt64(from, "wire", &wire, status);
    self->about = tfos__ops_read_text(tf, from, "about", &bytes, status);
    TFOS_TRY(tfos__tensorflow_check(tf, status, "TfosMerge", error));
    if (root < 0 || (size_t)types != self->count) {
        return tfos__fail(error, TFOS_INVALID, "expected a merge for each of %d tensors and a root, found %zu and %lld",
                          (int)types, self->count, (long long)root);
    }
    self->root = (size_t)root;
    self->wire = (tfos_element)wire; /* the call says if it is none */
    return self->about != NULL ? TFOS_OK : tfos__fail_memory(error, bytes);
}

static void *create(TF_OpKernelConstruction *from)
{
    tfos_error error;
    TF_Status *status = tf->TF_NewStatus();
    kernel *self = calloc(1, sizeof *self);
    tfos_status ours =
        self != NULL ? read_attributes(self, from, status, &error) : tfos__fail_memory(&error, sizeof *self);
    if (ours != TFOS_OK) {
        destroy(self);
        self = NULL;
        tf->TF_SetStatus(status, code_of(ours), error.message);
        tf->TF_OpKernelConstruction_Failure(from, status);
    }
    tf->TF_DeleteStatus(status);
    return self;
}

/* ---- shapes ---- */

static void set_weight_shape(TF_ShapeInferenceContext *context, TF_Status *status)
{
    TF_ShapeHandle *scalar = tf->TF_ShapeInferenceContextScalar(context);
    tf->TF_ShapeInferenceContextSetOutput(context, OUTPUT_WEIGHT, scalar, status);
    tf->TF_DeleteShapeHandle(scalar);
}

static void infer_same(TF_ShapeInferenceContext *context, TF_Status *status)
{
    TF_ShapeHandle *shape = tf->TF_NewShapeHandle();
    int64_t inputs = tf->TF_ShapeInferenceContextNumInputs(context);
    set_weight_shape(context, status);
    for (int i = INPUT_TENSORS; i < inputs && tf->TF_GetCode(status) == 0; i++) {
        tf->TF_ShapeInferenceContextGetInput(context, i, shape, status);
        tf->TF_ShapeInferenceContextSetOutput(context, i - INPUT_TENSORS + OUTPUT_TENSORS, shape, status);
    }
    tf->TF_DeleteShapeHandle(shape);
}

/* Which of them are gathered is an attribute, and the C API shows none to functions of shapes. So all but scalars,
 * which are never gathered, may have any number of rows. */
static void infer_rows(TF_ShapeInferenceContext *context, TF_Status *status)
{
    TF_ShapeHandle *shape = tf->TF_NewShapeHandle();
    TF_ShapeHandle *rest = tf->TF_NewShapeHandle();
    TF_ShapeHandle *any = tf->TF_ShapeInferenceContextVectorFromSize(context, (size_t)-1);
    int64_t inputs = tf->TF_ShapeInferenceContextNumInputs(context);
    set_weight_shape(context, status);
    for (int i = INPUT_TENSORS; i < inputs && tf->TF_GetCode(status) == 0; i++) {
        tf->TF_ShapeInferenceContextGetInput(context, i, shape, status);
        if (tf->TF_ShapeInferenceContextRankKnown(context, shape) != 0 &&
            tf->TF_ShapeInferenceContextRank(context, shape) > 0) {
            tf->TF_ShapeInferenceContextSubshape(context, shape, 1, INT64_MAX, rest, status);
            tf->TF_ShapeInferenceContextConcatenateShapes(context, any, rest, shape, status);
        }
        tf->TF_ShapeInferenceContextSetOutput(context, i - INPUT_TENSORS + OUTPUT_TENSORS, shape, status);
    }
    tf->TF_DeleteShapeHandle(shape);
    tf->TF_DeleteShapeHandle(rest);
    tf->TF_DeleteShapeHandle(any);
}

/* ---- registering ---- */

static void add(const char *name, void (*infer)(TF_ShapeInferenceContext *, TF_Status *), TF_Status *status)
{
    TF_OpDefinitionBuilder *op = tf->TF_NewOpDefinitionBuilder(name);
    tf->TF_OpDefinitionBuilderAddInput(op, "token: resource");
    tf->TF_OpDefinitionBuilderAddInput(op, "weight: double");
    tf->TF_OpDefinitionBuilderAddInput(op, "tensors: T");
    tf->TF_OpDefinitionBuilderAddOutput(op, "all_weight: double");
    tf->TF_OpDefinitionBuilderAddOutput(op, "merged: T");
    tf->TF_OpDefinitionBuilderAddAttr(op, "T: list({float, double, half, bfloat16, int32, int64}) >= 0");
    tf->TF_OpDefinitionBuilderAddAttr(op, "merges: list(int) >= 0");
    tf->TF_OpDefinitionBuilderAddAttr(op, "root: int = 0");
    tf->TF_OpDefinitionBuilderAddAttr(op, "wire: int = 0");
    tf->TF_OpDefinitionBuilderAddAttr(op, "about: string = ''");
    tf->TF_OpDefinitionBuilderSetIsStateful(op, true);
    tf->TF_OpDefinitionBuilderSetShapeInferenceFunction(op, infer);
    tf->TF_RegisterOpDefinition(op, status);
    if (tf->TF_GetCode(status) == 0) {
        TF_KernelBuilder *builder = tf->TF_NewKernelBuilder(name, "CPU", create, compute, destroy);
        tf->TF_RegisterKernelBuilder(name, builder, status);
    }
}

void tfos__ops_add_merge(const tfos__tensorflow *with, TF_Status *status)
{
    tf = with;
    add("TfosMerge", infer_same, status);
    if (tf->TF_GetCode(status) == 0) {
        add("TfosMergeRows", infer_rows, status);
    }
}
