/* Buffer: memory of a batch, shown by the buffer protocol. It keeps its Batch alive. */
#include "_native.h"

static PyTypeObject *buffer_type;

typedef struct buffer_object {
    PyObject_HEAD
    PyObject *owner;
    const void *data;
    const char *format;
    Py_ssize_t item_bytes;
    Py_ssize_t count;
} buffer_object;

PyObject *tfos__python_buffer_new(PyObject *owner, const void *data, const char *format, size_t item_bytes,
                                  int64_t count)
{
    buffer_object *self = tfos__python_new(buffer_type);
    if (self != NULL) {
        self->owner = Py_NewRef(owner);
        self->data = data;
        self->format = format;
        self->item_bytes = (Py_ssize_t)item_bytes;
        self->count = (Py_ssize_t)count;
    }
    return (PyObject *)self;
}

static void buffer_dealloc(buffer_object *self)
{
    Py_XDECREF(self->owner);
    tfos__python_free(self);
}

static int buffer_get(buffer_object *self, Py_buffer *view, int flags)
{
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
        view->obj = NULL;
        PyErr_SetString(PyExc_BufferError, "the memory of a batch is read-only: copy it to change it");
        return -1;
    }
    *view = (Py_buffer){.buf = (void *)(uintptr_t)self->data,
                        .obj = Py_NewRef((PyObject *)self),
                        .len = self->count * self->item_bytes,
                        .itemsize = self->item_bytes,
                        .readonly = 1,
                        .ndim = 1,
                        .format = (flags & PyBUF_FORMAT) != 0 ? (char *)(uintptr_t)self->format : NULL,
                        .shape = (flags & PyBUF_ND) != 0 ? &self->count : NULL,
                        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? &self->item_bytes : NULL};
    return 0;
}

static PyType_Slot buffer_slots[] = {
    {Py_tp_dealloc, buffer_dealloc},
    {Py_bf_getbuffer, buffer_get},
    {0, NULL},
};

int tfos__python_add_buffer(PyObject *module)
{
    return tfos__python_add_type(module, "Buffer", sizeof(buffer_object), buffer_slots, false, &buffer_type);
}
