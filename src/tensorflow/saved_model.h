/* SavedModel: what a folder that TensorFlow has exported says of itself, read without TensorFlow.
 *
 *   FOLDER/saved_model.pb ──► graph, by its tag set ──► signature, by its name ──► tensors that go in and come out
 *
 * Tensors of a signature are in the order of their names, in which numbers count as numbers: output_2 is before
 * output_10. That is their position, too. The inits of a model, which TensorFlow lists as a signature, are none. */
#ifndef TFOS_TENSORFLOW_SAVED_MODEL_H
#define TFOS_TENSORFLOW_SAVED_MODEL_H

#include "tensorflow/dtype.h"
#include "tfos.h"

typedef enum tfos__tensor_form {
    TFOS__TENSOR_DENSE,
    TFOS__TENSOR_SPARSE,    /* three tensors: indices, values, shape */
    TFOS__TENSOR_COMPOSITE, /* as many as its kind has: ragged, … */
} tfos__tensor_form;

typedef struct tfos__tensor_spec {
    char *name;   /* in the signature */
    char *tensor; /* in the graph, "op:0"; empty where there are several */
    tfos__tensor_form form;
    tfos__dtype dtype;
    int rank;       /* -1: any */
    int64_t *shape; /* of `rank` sizes, -1 where any will do; the product of the others is a number, too */
} tfos__tensor_spec;

typedef struct tfos__tensor_specs {
    tfos__tensor_spec *at;
    size_t count;
} tfos__tensor_specs;

typedef struct tfos__signature {
    char *name;
    char *method; /* such as "tensorflow/serving/predict" */
    tfos__tensor_specs inputs;
    tfos__tensor_specs outputs;
} tfos__signature;

typedef struct tfos__saved_model {
    const tfos_file_system *served; /* where the folder is; the caller's */
    char *folder;
    char *tags;
    char *version; /* of the TensorFlow that has exported it */
    tfos__signature *signatures;
    size_t signature_count;
    char **ops; /* that the graph and its functions are made of, by name */
    size_t op_count;
    size_t op_capacity;
    char *saver_filename; /* of a checkpoint: the tensor that it goes into, */
    char *saver_save;     /* the tensor that saves, */
    char *saver_restore;  /* the op that restores; all of them may be empty */
} tfos__saved_model;

/* Reads the graph that has exactly these tags, with commas between them. NOT_FOUND if there is no model in the folder,
 * or none with those tags, and says which there are; CORRUPT if the file is no SavedModel. `served` may be NULL;
 * otherwise it must live as long as the model. */
tfos_status tfos__saved_model_read(const tfos_file_system *served, const char *folder, const char *tags,
                                   tfos__saved_model **out, tfos_error *error);
void tfos__saved_model_free(tfos__saved_model *model);

/* NOT_FOUND lists the signatures that there are. */
tfos_status tfos__saved_model_signature(const tfos__saved_model *model, const char *name, const tfos__signature **out,
                                        tfos_error *error);

/* Where the outputs of a signature are made, and which of them is a layer's. */
typedef struct tfos__layer_search {
    const tfos__tensor_spec *output; /* NULL: none, or nobody can tell which one */
    size_t fits;                     /* outputs that may be meant */
    bool *may_be;                    /* for each output */
    char **scopes;                   /* for each output: "functional_1/digit_1", or "" */
    size_t count;
} tfos__layer_search;

/* Looks for the output that the layer of this name makes, by the names that Keras gives to ops in the graph; for that
 * the file is read again. CORRUPT if it does not parse. The caller resets *out, whatever the result. */
tfos_status tfos__saved_model_find_layer(const tfos__saved_model *model, const tfos__signature *signature,
                                         const char *layer, tfos__layer_search *out, tfos_error *error);
void tfos__layer_search_reset(tfos__layer_search *search);

/* Whether an op of this name is anywhere in the graph. */
bool tfos__saved_model_has_op(const tfos__saved_model *model, const char *name);

/* "float32 [?, 784]", for messages. Cut if it is longer than the room. */
void tfos__tensor_spec_describe(const tfos__tensor_spec *spec, char *out, size_t bytes);

#endif
