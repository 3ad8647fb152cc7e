/* Column: one level of a column, which keeps its Batch alive; and its rows as Python's own objects. */
#include "_native.h"

#include <stdint.h>

static PyTypeObject *column_type;

typedef struct column_object {
    PyObject_HEAD
    PyObject *owner;
    const tfos_vector *vector;
} column_object;

PyObject *tfos__python_column_wrap(PyObject *owner, const tfos_vector *vector)
{
    column_object *self = tfos__python_new(column_type);
    if (self != NULL) {
        self->owner = Py_NewRef(owner);
        self->vector = vector;
    }
    return (PyObject *)self;
}

static void column_dealloc(column_object *self)
{
    Py_XDECREF(self->owner);
    tfos__python_free(self);
}

static PyObject *objects_between(const tfos_vector *vector, int64_t start, int64_t end);

static PyObject *value_at(const tfos_vector *vector, int64_t row)
{
    switch (vector->type) {
    case TFOS_TYPE_INT32:
        return PyLong_FromLong(((const int32_t *)vector->data)[row]);
    case TFOS_TYPE_INT64:
        return PyLong_FromLongLong(((const int64_t *)vector->data)[row]);
    case TFOS_TYPE_FLOAT:
        return PyFloat_FromDouble((double)((const float *)vector->data)[row]);
    case TFOS_TYPE_DOUBLE:
        return PyFloat_FromDouble(((const double *)vector->data)[row]);
    default:
        return PyBool_FromLong(tfos__python_bit(vector->data, row));
    }
}

PyObject *tfos__python_value(const tfos_vector *vector, int64_t row)
{
    if (vector->validity != NULL && !tfos__python_bit(vector->validity, row)) {
        return Py_NewRef(Py_None);
    }
    if (vector->layout == TFOS_LAYOUT_BYTES) {
        const char *bytes = (const char *)vector->data + vector->offsets[row];
        Py_ssize_t count = vector->offsets[row + 1] - vector->offsets[row];
        return vector->type == TFOS_TYPE_STRING ? PyUnicode_DecodeUTF8(bytes, count, NULL)
                                                : PyBytes_FromStringAndSize(bytes, count);
    }
    if (vector->layout == TFOS_LAYOUT_LIST) {
        return objects_between(vector->child, vector->offsets[row], vector->offsets[row + 1]);
    }
    if (vector->layout == TFOS_LAYOUT_FIXED_LIST) {
        return objects_between(vector->child, row * vector->list_length, (row + 1) * vector->list_length);
    }
    return value_at(vector, row);
}

/* A list of rows as Python objects. Columns are at most three levels deep, so this calls itself at most twice. */
static PyObject *objects_between(const tfos_vector *vector, int64_t start, int64_t end)
{
    PyObject *list = PyList_New((Py_ssize_t)(end - start));
    for (int64_t row = start; list != NULL && row < end; row++) {
        PyObject *object = tfos__python_value(vector, row);
        if (object == NULL || PyList_SetItem(list, (Py_ssize_t)(row - start), object) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *column_tolist(column_object *self, PyObject *unused)
{
    (void)unused;
    return objects_between(self->vector, 0, self->vector->length);
}

/* One byte, 0 or 1, for each bit; `flip` is 1 to turn them round. */
static PyObject *unpack_bits(const uint8_t *bits, int64_t count, char flip)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)count);
    if (bytes != NULL) {
        char *out = PyBytes_AsString(bytes);
        for (int64_t i = 0; i < count; i++) {
            out[i] = (char)(tfos__python_bit(bits, i) ^ flip);
        }
    }
    return bytes;
}

/* One byte for each row: 1 where the value is missing. None: nowhere. */
static PyObject *column_mask(column_object *self, PyObject *unused)
{
    (void)unused;
    if (self->vector->validity == NULL) {
        Py_RETURN_NONE;
    }
    return unpack_bits(self->vector->validity, self->vector->length, 1);
}

static PyObject *column_length(column_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(self->vector->length);
}

static PyObject *column_list_length(column_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(self->vector->list_length);
}

static PyObject *column_type_name(column_object *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(tfos_type_name(self->vector->type));
}

static PyObject *column_layout(column_object *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(tfos_layout_name(self->vector->layout));
}

static PyObject *column_child(column_object *self, void *unused)
{
    (void)unused;
    if (self->vector->child == NULL) {
        Py_RETURN_NONE;
    }
    return tfos__python_column_wrap(self->owner, self->vector->child);
}

/* The values of this level: a Buffer; for booleans bytes of 0 and 1, copied; None for lists. */
static PyObject *column_data(column_object *self, void *unused)
{
    (void)unused;
    const tfos_vector *vector = self->vector;
    if (vector->layout == TFOS_LAYOUT_BYTES) {
        return tfos__python_buffer_new(self->owner, vector->data, "B", 1, vector->offsets[vector->length]);
    }
    if (vector->layout != TFOS_LAYOUT_VALUES) {
        Py_RETURN_NONE;
    }
    switch (vector->type) {
    case TFOS_TYPE_INT32:
        return tfos__python_buffer_new(self->owner, vector->data, "i", sizeof(int32_t), vector->length);
    case TFOS_TYPE_INT64:
        return tfos__python_buffer_new(self->owner, vector->data, "l", sizeof(int64_t), vector->length);
    case TFOS_TYPE_FLOAT:
        return tfos__python_buffer_new(self->owner, vector->data, "f", sizeof(float), vector->length);
    case TFOS_TYPE_DOUBLE:
        return tfos__python_buffer_new(self->owner, vector->data, "d", sizeof(double), vector->length);
    default:
        return unpack_bits(vector->data, vector->length, 0);
    }
}

static PyObject *column_offsets(column_object *self, void *unused)
{
    (void)unused;
    if (self->vector->offsets == NULL) {
        Py_RETURN_NONE;
    }
    return tfos__python_buffer_new(self->owner, self->vector->offsets, "i", sizeof(int32_t), self->vector->length + 1);
}

static PyType_Slot column_slots[] = {
    {Py_tp_dealloc, column_dealloc},
    {Py_tp_methods, (PyMethodDef[]){{"tolist", (PyCFunction)column_tolist, METH_NOARGS, NULL},
                                    {"mask", (PyCFunction)column_mask, METH_NOARGS, NULL},
                                    {0}}},
    {Py_tp_getset, (PyGetSetDef[]){{.name = "length", .get = (getter)column_length},
                                   {.name = "list_length", .get = (getter)column_list_length},
                                   {.name = "type", .get = (getter)column_type_name},
                                   {.name = "layout", .get = (getter)column_layout},
                                   {.name = "child", .get = (getter)column_child},
                                   {.name = "data", .get = (getter)column_data},
                                   {.name = "offsets", .get = (getter)column_offsets},
                                   {0}}},
    {0, NULL},
};

int tfos__python_add_column(PyObject *module)
{
    return tfos__python_add_type(module, "Column", sizeof(column_object), column_slots, false, &column_type);
}
