/* TensorFlow's C API, found and loaded when it is first needed: building tfos needs neither its headers nor its
 * library, and one binary serves every TensorFlow from 2.16 on.
 *
 * Call through the table, by TensorFlow's own names: tf->TF_NewServer(…). */
#ifndef TFOS_TENSORFLOW_API_H
#define TFOS_TENSORFLOW_API_H

#include <limits.h>

#include "tensorflow/dtype.h"
#include "tfos.h"

typedef struct TF_Status TF_Status;
typedef struct TF_Server TF_Server;
typedef struct TF_Library TF_Library;
typedef struct TF_Tensor TF_Tensor;
typedef struct TF_Graph TF_Graph;
typedef struct TF_Operation TF_Operation;
typedef struct TF_OperationDescription TF_OperationDescription;
typedef struct TF_Session TF_Session;
typedef struct TF_SessionOptions TF_SessionOptions;
typedef struct TF_OpDefinitionBuilder TF_OpDefinitionBuilder;
typedef struct TF_ShapeInferenceContext TF_ShapeInferenceContext;
typedef struct TF_ShapeHandle TF_ShapeHandle;
typedef struct TF_KernelBuilder TF_KernelBuilder;
typedef struct TF_OpKernelConstruction TF_OpKernelConstruction;
typedef struct TF_OpKernelContext TF_OpKernelContext;

/* An output of an operation: a tensor of the graph. */
typedef struct TF_Output {
    TF_Operation *oper;
    int index;
} TF_Output;

/* An element of a tensor of strings. */
typedef struct TF_TString {
    uint64_t words[3];
} TF_TString;

typedef struct TF_Buffer {
    const void *data;
    size_t length;
    void (*deallocator)(void *data, size_t length);
} TF_Buffer;

/* The numbers of codes, as those of types (tensorflow/dtype.h), are part of TensorFlow's ABI. */
enum {
    TFOS__TF_CANCELLED = 1,
    TFOS__TF_INVALID_ARGUMENT = 3,
    TFOS__TF_NOT_FOUND = 5,
    TFOS__TF_PERMISSION_DENIED = 7,
    TFOS__TF_RESOURCE_EXHAUSTED = 8,
    TFOS__TF_FAILED_PRECONDITION = 9,
    TFOS__TF_OUT_OF_RANGE = 11,
    TFOS__TF_UNIMPLEMENTED = 12,
    TFOS__TF_INTERNAL = 13,
    TFOS__TF_DATA_LOSS = 15,
};

/* X(NEEDED or OPTIONAL, result, name, arguments). A function that TensorFlow 2.16 lacks is OPTIONAL: its pointer may be
 * NULL. To use one more function, add its line. */
#define TFOS__TENSORFLOW_MAP(X)                                                                                        \
    X(NEEDED, const char *, TF_Version, (void))                                                                        \
    X(NEEDED, TF_Status *, TF_NewStatus, (void))                                                                       \
    X(NEEDED, void, TF_DeleteStatus, (TF_Status *))                                                                    \
    X(NEEDED, int, TF_GetCode, (const TF_Status *))                                                                    \
    X(NEEDED, const char *, TF_Message, (const TF_Status *))                                                           \
    X(NEEDED, TF_Server *, TF_NewServer, (const void *proto, size_t proto_bytes, TF_Status *))                         \
    X(NEEDED, void, TF_ServerStart, (TF_Server *, TF_Status *))                                                        \
    X(NEEDED, void, TF_ServerStop, (TF_Server *, TF_Status *))                                                         \
    X(NEEDED, void, TF_ServerJoin, (TF_Server *, TF_Status *))                                                         \
    X(NEEDED, const char *, TF_ServerTarget, (TF_Server *))                                                            \
    X(NEEDED, void, TF_DeleteServer, (TF_Server *))                                                                    \
    X(OPTIONAL, TF_Library *, TF_LoadLibrary, (const char *path, TF_Status *))                                         \
    X(NEEDED, void, TF_SetStatus, (TF_Status *, int code, const char *message))                                        \
    X(NEEDED, TF_Buffer *, TF_GetRegisteredKernelsForOp, (const char *name, TF_Status *))                              \
    X(NEEDED, void, TF_DeleteBuffer, (TF_Buffer *))                                                                    \
    X(NEEDED, TF_OpDefinitionBuilder *, TF_NewOpDefinitionBuilder, (const char *name))                                 \
    X(NEEDED, void, TF_OpDefinitionBuilderAddAttr, (TF_OpDefinitionBuilder *, const char *))                           \
    X(NEEDED, void, TF_OpDefinitionBuilderAddInput, (TF_OpDefinitionBuilder *, const char *))                          \
    X(NEEDED, void, TF_OpDefinitionBuilderAddOutput, (TF_OpDefinitionBuilder *, const char *))                         \
    X(NEEDED, void, TF_OpDefinitionBuilderSetIsStateful, (TF_OpDefinitionBuilder *, bool))                             \
    X(NEEDED, void, TF_OpDefinitionBuilderSetShapeInferenceFunction,                                                   \
      (TF_OpDefinitionBuilder *, void (*)(TF_ShapeInferenceContext *, TF_Status *)))                                   \
    X(NEEDED, void, TF_RegisterOpDefinition, (TF_OpDefinitionBuilder *, TF_Status *))                                  \
    X(NEEDED, void, TF_ShapeInferenceContextSetUnknownShape, (TF_ShapeInferenceContext *, TF_Status *))                \
    X(NEEDED, int64_t, TF_ShapeInferenceContextNumInputs, (TF_ShapeInferenceContext *))                                \
    X(NEEDED, TF_ShapeHandle *, TF_NewShapeHandle, (void))                                                             \
    X(NEEDED, void, TF_DeleteShapeHandle, (TF_ShapeHandle *))                                                          \
    X(NEEDED, void, TF_ShapeInferenceContextGetInput,                                                                  \
      (TF_ShapeInferenceContext *, int, TF_ShapeHandle *, TF_Status *))                                                \
    X(NEEDED, void, TF_ShapeInferenceContextSetOutput,                                                                 \
      (TF_ShapeInferenceContext *, int, TF_ShapeHandle *, TF_Status *))                                                \
    X(NEEDED, int, TF_ShapeInferenceContextRankKnown, (TF_ShapeInferenceContext *, TF_ShapeHandle *))                  \
    X(NEEDED, int64_t, TF_ShapeInferenceContextRank, (TF_ShapeInferenceContext *, TF_ShapeHandle *))                   \
    X(NEEDED, TF_ShapeHandle *, TF_ShapeInferenceContextScalar, (TF_ShapeInferenceContext *))                          \
    X(NEEDED, TF_ShapeHandle *, TF_ShapeInferenceContextVectorFromSize, (TF_ShapeInferenceContext *, size_t))          \
    X(NEEDED, void, TF_ShapeInferenceContextSubshape,                                                                  \
      (TF_ShapeInferenceContext *, TF_ShapeHandle *, int64_t start, int64_t end, TF_ShapeHandle *, TF_Status *))       \
    X(NEEDED, void, TF_ShapeInferenceContextConcatenateShapes,                                                         \
      (TF_ShapeInferenceContext *, TF_ShapeHandle *, TF_ShapeHandle *, TF_ShapeHandle *, TF_Status *))                 \
    X(NEEDED, TF_KernelBuilder *, TF_NewKernelBuilder,                                                                 \
      (const char *op, const char *device, void *(*create)(TF_OpKernelConstruction *),                                 \
       void (*compute)(void *, TF_OpKernelContext *), void (*destroy)(void *)))                                        \
    X(NEEDED, void, TF_RegisterKernelBuilder, (const char *name, TF_KernelBuilder *, TF_Status *))                     \
    X(NEEDED, void, TF_OpKernelConstruction_GetAttrSize,                                                               \
      (TF_OpKernelConstruction *, const char *name, int32_t *list_size, int32_t *total_size, TF_Status *))             \
    X(NEEDED, void, TF_OpKernelConstruction_GetAttrInt64,                                                              \
      (TF_OpKernelConstruction *, const char *name, int64_t *, TF_Status *))                                           \
    X(NEEDED, void, TF_OpKernelConstruction_GetAttrInt64List,                                                          \
      (TF_OpKernelConstruction *, const char *name, int64_t *, int, TF_Status *))                                      \
    X(NEEDED, void, TF_OpKernelConstruction_GetAttrBool,                                                               \
      (TF_OpKernelConstruction *, const char *name, unsigned char *, TF_Status *))                                     \
    X(NEEDED, void, TF_OpKernelConstruction_GetAttrString,                                                             \
      (TF_OpKernelConstruction *, const char *name, char *, size_t, TF_Status *))                                      \
    X(NEEDED, void, TF_OpKernelConstruction_Failure, (TF_OpKernelConstruction *, TF_Status *))                         \
    X(NEEDED, void, TF_OpKernelContext_Failure, (TF_OpKernelContext *, TF_Status *))                                   \
    X(NEEDED, int, TF_NumInputs, (TF_OpKernelContext *))                                                               \
    X(NEEDED, void, TF_GetInput, (TF_OpKernelContext *, int, TF_Tensor **, TF_Status *))                               \
    X(NEEDED, TF_Tensor *, TF_ForwardInputOrAllocateOutput,                                                            \
      (TF_OpKernelContext *, const int *candidates, int candidate_count, int output, const int64_t *dims,              \
       int dim_count, int *forwarded, TF_Status *))                                                                    \
    X(NEEDED, int, TF_NumOutputs, (TF_OpKernelContext *))                                                              \
    X(NEEDED, int, TF_ExpectedOutputDataType, (TF_OpKernelContext *, int))                                             \
    X(NEEDED, TF_Tensor *, TF_AllocateOutput,                                                                          \
      (TF_OpKernelContext *, int index, int type, const int64_t *dims, int dim_count, size_t bytes, TF_Status *))      \
    X(NEEDED, void, TF_SetOutput, (TF_OpKernelContext *, int index, const TF_Tensor *, TF_Status *))                   \
    X(NEEDED, TF_Tensor *, TF_NewTensor,                                                                               \
      (int type, const int64_t *dims, int dim_count, void *data, size_t bytes,                                         \
       void (*deallocator)(void *data, size_t bytes, void *context), void *context))                                   \
    X(NEEDED, void, TF_DeleteTensor, (TF_Tensor *))                                                                    \
    X(NEEDED, int, TF_TensorType, (const TF_Tensor *))                                                                 \
    X(NEEDED, int, TF_NumDims, (const TF_Tensor *))                                                                    \
    X(NEEDED, int64_t, TF_Dim, (const TF_Tensor *, int))                                                               \
    X(NEEDED, void *, TF_TensorData, (const TF_Tensor *))                                                              \
    X(NEEDED, void, TF_StringCopy, (TF_TString *, const char *, size_t))                                               \
    X(NEEDED, void, TF_StringDealloc, (TF_TString *))                                                                  \
    X(NEEDED, const char *, TF_StringGetDataPointer, (const TF_TString *))                                             \
    X(NEEDED, size_t, TF_StringGetSize, (const TF_TString *))                                                          \
    X(NEEDED, size_t, TF_TensorByteSize, (const TF_Tensor *))                                                          \
    X(NEEDED, TF_Buffer *, TF_GetAllOpList, (void))                                                                    \
    X(NEEDED, TF_Graph *, TF_NewGraph, (void))                                                                         \
    X(NEEDED, void, TF_DeleteGraph, (TF_Graph *))                                                                      \
    X(NEEDED, TF_Operation *, TF_GraphOperationByName, (TF_Graph *, const char *name))                                 \
    X(NEEDED, int, TF_OperationNumOutputs, (TF_Operation *))                                                           \
    X(NEEDED, TF_Operation *, TF_GraphNextOperation, (TF_Graph *, size_t * position))                                  \
    X(NEEDED, const char *, TF_OperationOpType, (TF_Operation *))                                                      \
    X(NEEDED, void, TF_OperationGetAttrType, (TF_Operation *, const char *name, int *value, TF_Status *))              \
    X(NEEDED, TF_OperationDescription *, TF_NewOperation, (TF_Graph *, const char *op, const char *name))              \
    X(NEEDED, void, TF_AddInput, (TF_OperationDescription *, TF_Output))                                               \
    X(NEEDED, void, TF_SetAttrType, (TF_OperationDescription *, const char *name, int value))                          \
    X(NEEDED, TF_Operation *, TF_FinishOperation, (TF_OperationDescription *, TF_Status *))                            \
    X(NEEDED, TF_SessionOptions *, TF_NewSessionOptions, (void))                                                       \
    X(NEEDED, void, TF_DeleteSessionOptions, (TF_SessionOptions *))                                                    \
    X(NEEDED, void, TF_SetConfig, (TF_SessionOptions *, const void *proto, size_t proto_bytes, TF_Status *))           \
    X(NEEDED, TF_Session *, TF_LoadSessionFromSavedModel,                                                              \
      (const TF_SessionOptions *, const TF_Buffer *run_options, const char *folder, const char *const *tags,           \
       int tag_count, TF_Graph *, TF_Buffer *meta_graph, TF_Status *))                                                 \
    X(NEEDED, void, TF_CloseSession, (TF_Session *, TF_Status *))                                                      \
    X(NEEDED, void, TF_DeleteSession, (TF_Session *, TF_Status *))                                                     \
    X(NEEDED, void, TF_SessionRun,                                                                                     \
      (TF_Session *, const TF_Buffer *run_options, const TF_Output *inputs, TF_Tensor *const *input_values,            \
       int input_count, const TF_Output *outputs, TF_Tensor **output_values, int output_count,                         \
       const TF_Operation *const *targets, int target_count, TF_Buffer *run_metadata, TF_Status *))

typedef struct tfos__tensorflow {
    const char *version; /* "2.21.0" */
    const char *path;    /* the file that it was loaded from */
#define TFOS__TENSORFLOW_MEMBER(need, result, name, arguments) result(*name) arguments;
    TFOS__TENSORFLOW_MAP(TFOS__TENSORFLOW_MEMBER)
#undef TFOS__TENSORFLOW_MEMBER
} tfos__tensorflow;

/* The oldest version that is taken. */
enum { TFOS__TENSORFLOW_MAJOR = 2, TFOS__TENSORFLOW_MINOR = 16 };

/* Loads TensorFlow: the one that is in the process already, else the one that tfos__tensorflow_find finds for the
 * interpreter `python` (NULL: the one in use), else what the system's loader knows. The first success stays for the
 * life of the process and later calls return it, whatever they ask for; a failure is not kept. MISSING_LIBRARY names
 * the places that were looked at, or the function that the library lacks; UNSUPPORTED names a version that is too old.
 *
 * Owner: the process; TensorFlow is never unloaded.
 * Thread: any. */
tfos_status tfos__tensorflow_load(const char *python, const tfos__tensorflow **out, tfos_error *error);

/* Where the library is that a process without TensorFlow would load; nothing is loaded by it, unless only the system's
 * loader knows one. NOT_FOUND if TFOS_TENSORFLOW_LIB or `python` names nothing, MISSING_LIBRARY if there is none.
 *
 * Owner: `out` is the caller's storage.
 * Thread: any. */
tfos_status tfos__tensorflow_locate(const char *python, char out[PATH_MAX], tfos_error *error);

/* Makes the ops and kernels of a library (what tf.load_op_library takes) known to this process's TensorFlow.
 *
 * Owner: the process.
 * Thread: any. */
tfos_status tfos__tensorflow_load_ops(const tfos__tensorflow *tf, const char *path, tfos_error *error);

/* Turns what TensorFlow says into our status; its message follows "doing what". OK if it says so. */
tfos_status tfos__tensorflow_check(const tfos__tensorflow *tf, const TF_Status *status, const char *doing,
                                   tfos_error *error);

#endif
