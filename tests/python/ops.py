"""An op in plain C, in a library: who runs it needs no Python, and who traces a function with it needs the library."""

import os
import subprocess

# It doubles whole numbers, however many; of one of them it ends the process, as a check that fails in TensorFlow does.
ABORTS = 987_654
OP = """
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
typedef struct Builder Builder;
typedef struct Context Context;
typedef struct Tensor Tensor;
typedef struct Status Status;
typedef struct Shapes Shapes;
Builder *TF_NewOpDefinitionBuilder(const char *);
void TF_OpDefinitionBuilderAddInput(Builder *, const char *);
void TF_OpDefinitionBuilderAddOutput(Builder *, const char *);
void TF_OpDefinitionBuilderSetShapeInferenceFunction(Builder *, void (*)(Shapes *, Status *));
void TF_ShapeInferenceContextSetUnknownShape(Shapes *, Status *);
void TF_RegisterOpDefinition(Builder *, Status *);
void *TF_NewKernelBuilder(const char *, const char *, void *, void (*)(void *, Context *), void (*)(void *));
void TF_RegisterKernelBuilder(const char *, void *, Status *);
void TF_GetInput(Context *, int, Tensor **, Status *);
Tensor *TF_AllocateOutput(Context *, int, int, const int64_t *, int, size_t, Status *);
int TF_NumDims(const Tensor *);
int64_t TF_Dim(const Tensor *, int);
size_t TF_TensorByteSize(const Tensor *);
void *TF_TensorData(const Tensor *);
void TF_DeleteTensor(Tensor *);
Status *TF_NewStatus(void);
void TF_DeleteStatus(Status *);

static void compute(void *kernel, Context *context)
{
    Status *status = TF_NewStatus();
    Tensor *in;
    TF_GetInput(context, 0, &in, status);
    int64_t dims[8];
    int rank = TF_NumDims(in);
    for (int i = 0; i < rank; i++) {
        dims[i] = TF_Dim(in, i);
    }
    size_t bytes = TF_TensorByteSize(in);
    Tensor *out = TF_AllocateOutput(context, 0, 3, dims, rank, bytes, status);
    for (size_t i = 0; i < bytes / 4; i++) {
        int32_t value = ((int32_t *)TF_TensorData(in))[i];
        if (value == ABORTS) {
            fprintf(stderr, "double.c:1] Check failed: value != %d\\n", value);
            abort();
        }
        ((int32_t *)TF_TensorData(out))[i] = 2 * value;
    }
    TF_DeleteTensor(in);
    TF_DeleteTensor(out);
    TF_DeleteStatus(status);
}

static void forget(void *kernel)
{
}

static void shapes(Shapes *context, Status *status)
{
    TF_ShapeInferenceContextSetUnknownShape(context, status);
}

__attribute__((constructor)) static void add(void)
{
    Status *status = TF_NewStatus();
    Builder *op = TF_NewOpDefinitionBuilder("TfosTestDouble");
    TF_OpDefinitionBuilderAddInput(op, "x: int32");
    TF_OpDefinitionBuilderAddOutput(op, "y: int32");
    TF_OpDefinitionBuilderSetShapeInferenceFunction(op, shapes);
    TF_RegisterOpDefinition(op, status);
    TF_RegisterKernelBuilder("double", TF_NewKernelBuilder("TfosTestDouble", "CPU", NULL, compute, forget), status);
    TF_DeleteStatus(status);
}
"""


def build(folder):
    """The path of the library. In Python the op is tf.load_op_library(path).tfos_test_double."""
    import tensorflow as tf

    with open(os.path.join(folder, "double.c"), "w", encoding="utf-8") as file:
        file.write(OP)
    command = [
        "cc",
        "-shared",
        "-fPIC",
        f"-DABORTS={ABORTS}",
        "double.c",
        "-o",
        "double.so",
        *tf.sysconfig.get_link_flags(),
    ]
    subprocess.run(command, cwd=folder, check=True)
    return os.path.join(folder, "double.so")
