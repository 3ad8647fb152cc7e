/* What the files of the Python extension share. One extension serves every Python from 3.11 on: the limited API alone.
 */
#ifndef TFOS_PYTHON_NATIVE_H
#define TFOS_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "tfos.h"

/* ---- _native.c ---- */

/* Memory for an object of a type that was made with tfos__python_add_type, and back. */
void *tfos__python_new(PyTypeObject *type);
void tfos__python_free(void *self);

int tfos__python_add_type(PyObject *module, const char *name, size_t bytes, PyType_Slot *slots, bool callable,
                          PyTypeObject **out);

/* Raises the exception for an error of the library; returns NULL. */
PyObject *tfos__python_raise(const tfos_error *error);

/* A Batch; takes the reference over, also on failure. */
PyObject *tfos__python_batch_wrap(tfos_batch *batch);

/* The batch of a Batch, which stays its; NULL and TypeError for another object. */
tfos_batch *tfos__python_batch_of(PyObject *object);

/* A Schema; takes the schema over, also on failure. */
PyObject *tfos__python_schema_wrap(tfos_schema *schema);

/* The schema of a Schema, which stays its; NULL and TypeError for another object. */
const tfos_schema *tfos__python_schema_of(PyObject *object);

/* Around calls that may last: the GIL is given up, and `interrupted`, to be passed to the library, takes it back now
 * and then to look at signals. */
void tfos__python_begin_waiting(void);
void tfos__python_end_waiting(void);
bool tfos__python_interrupted(void *context);

/* A row of a column as Python's own objects; None where it is missing. */
PyObject *tfos__python_value(const tfos_vector *vector, int64_t row);

/* ---- _rows.c ---- */

/* Adds RowEncoder and what takes its batches apart to the module. */
int tfos__python_add_rows(PyObject *module);

/* ---- _feed.c ---- */

/* Adds Feeder and Feed to the module. */
int tfos__python_add_feed(PyObject *module);

#endif
