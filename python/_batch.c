/* Batch: owns a reference to a batch of the library. */
#include "_native.h"

static PyTypeObject *batch_type;

typedef struct batch_object {
    PyObject_HEAD
    tfos_batch *batch;
} batch_object;

PyObject *tfos__python_batch_wrap(tfos_batch *batch)
{
    batch_object *self = tfos__python_new(batch_type);
    if (self == NULL) {
        tfos_batch_free(batch);
        return NULL;
    }
    self->batch = batch;
    return (PyObject *)self;
}

static void batch_dealloc(batch_object *self)
{
    tfos_batch_free(self->batch);
    tfos__python_free(self);
}

static Py_ssize_t batch_length(batch_object *self)
{
    return (Py_ssize_t)tfos_batch_rows(self->batch);
}

static PyObject *batch_column(batch_object *self, PyObject *args)
{
    const char *name;
    if (!PyArg_ParseTuple(args, "s:column", &name)) {
        return NULL;
    }
    int64_t index = tfos_schema_find(tfos_batch_schema(self->batch), name);
    if (index < 0) {
        PyErr_SetString(PyExc_KeyError, name);
        return NULL;
    }
    return tfos__python_column_wrap((PyObject *)self, tfos_batch_column(self->batch, (size_t)index));
}

static PyObject *batch_arrow(batch_object *self, PyObject *unused)
{
    (void)unused;
    tfos_error error;
    struct ArrowArray *held;
    PyObject *schema = tfos__python_schema_capsule(tfos_batch_schema(self->batch));
    if (schema == NULL) {
        return NULL;
    }
    PyObject *array = tfos__python_array_capsule_new(&held);
    if (array != NULL && tfos_batch_export(self->batch, held, NULL, &error) != TFOS_OK) {
        Py_CLEAR(array);
        tfos__python_raise(&error);
    }
    if (array == NULL) {
        Py_DECREF(schema);
        return NULL;
    }
    return Py_BuildValue("(NN)", schema, array);
}

static PyObject *batch_schema(batch_object *self, PyObject *unused)
{
    (void)unused;
    return tfos__python_schema_copy(tfos_batch_schema(self->batch));
}

static PyObject *batch_bytes(batch_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(tfos_batch_bytes(self->batch));
}

static PyType_Slot batch_slots[] = {
    {Py_tp_dealloc, batch_dealloc},
    {Py_sq_length, batch_length},
    {Py_tp_methods, (PyMethodDef[]){{"column", (PyCFunction)batch_column, METH_VARARGS, NULL},
                                    {"schema", (PyCFunction)batch_schema, METH_NOARGS, NULL},
                                    {"__arrow_c_array__", (PyCFunction)batch_arrow, METH_NOARGS, NULL},
                                    {0}}},
    {Py_tp_getset, (PyGetSetDef[]){{.name = "nbytes", .get = (getter)batch_bytes}, {0}}},
    {0, NULL},
};

tfos_batch *tfos__python_batch_of(PyObject *object)
{
    if (!PyObject_TypeCheck(object, batch_type)) {
        PyErr_SetString(PyExc_TypeError, "expected a Batch");
        return NULL;
    }
    return ((batch_object *)object)->batch;
}

int tfos__python_add_batch(PyObject *module)
{
    return tfos__python_add_type(module, "Batch", sizeof(batch_object), batch_slots, false, &batch_type);
}
