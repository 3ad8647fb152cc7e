/* A binding: which columns of rows become which inputs of a signature, and which outputs become which columns of
 * results. It needs no TensorFlow: a driver makes one to know what results will look like, and whether they can be had
 * at all; whoever runs the model makes one to know what to do.
 *
 *   columns of a row          signature            columns of a result
 *   image  float[784] ──────► x  float32 [?,28,28] y  float32 [?,10] ──────► prediction float[10]
 *
 * The first dimension of a tensor is that of rows. What the others hold lies in a list, the last dimension fastest; in
 * results of three dimensions, in a list of lists; in results of more, in one list again. */
#ifndef TFOS_TENSORFLOW_BINDING_H
#define TFOS_TENSORFLOW_BINDING_H

#include "tensorflow/saved_model.h"

typedef struct tfos__bound {
    const tfos__tensor_spec *spec; /* of the model */
    char *column;                  /* its name */
    size_t index;                  /* of the column, in the schema of rows or of results */
} tfos__bound;

typedef struct tfos__binding {
    const tfos__signature *signature;
    tfos__bound *inputs;
    size_t input_count;
    tfos__bound *outputs; /* in the order of their columns */
    size_t output_count;
    tfos_schema *results;
    int64_t batch_rows; /* that each run of the model must have; -1: it takes any number */
} tfos__binding;

/* `order` is JSON:
 *
 *   {"signature": "serving_default",
 *    "inputs": {COLUMN: TENSOR, …},     null or missing: columns have the names of inputs, or there is one of each
 *    "lenient": false,                  true: pairs of "inputs" are left out if the signature has no such TENSOR
 *    "outputs": {TENSOR: COLUMN, …},    null or missing: every output, under its name
 *    "layers": {LAYER: OUTPUT, …}}      null or missing: if "outputs" names layers, they are looked for
 *
 * A TENSOR is the name of an input or output in the signature, of its tensor in the graph, or its position among them,
 * as a text: "0"; of outputs also the name of the layer that makes it. Columns of results are in the order of the keys
 * of "outputs", or of the signature.
 *
 * NOT_FOUND for a signature that there is not; MISMATCH for a tensor or column that there is not, types or shapes that
 * do not fit, with what the signature wants and what the rows have; UNSUPPORTED for tensors that no column can be.
 *
 * The caller frees *out with tfos__binding_free; the model must live as long. */
tfos_status tfos__binding_new(const tfos__saved_model *model, const char *order, const tfos_schema *rows,
                              tfos__binding **out, tfos_error *error);
void tfos__binding_free(tfos__binding *binding);

/* What a driver wants to know before anything is fed. `schema` is that of the rows, as Spark's StructType.json() gives
 * it. The caller resets *out with tfos_model_plan_reset. */
tfos_status tfos__binding_plan(const tfos__saved_model *model, const char *order, const char *schema,
                               tfos_model_plan *out, tfos_error *error);

/* The schema by which files are read for a binding: of the columns that `rows` has, those that are fed, with what the
 * signature says of them (no value is missing, lists have its lengths, whole numbers its width), and those that are
 * kept. MISMATCH for names that there are not. The caller frees *out with tfos_schema_free. */
tfos_status tfos__binding_declare(const tfos__saved_model *model, const char *order, const tfos_schema *rows,
                                  const char *const *kept, size_t kept_count, tfos_schema **out, tfos_error *error);

/* Whether a column can become the tensor that it is bound to. MISMATCH says what each of them has. */
tfos_status tfos__bound_check(const tfos__bound *bound, const tfos_field *field, tfos_error *error);

/* Values of a row that the sizes of a tensor ask for; -1: any number. */
int64_t tfos__tensor_spec_row_values(const tfos__tensor_spec *spec);

#endif
