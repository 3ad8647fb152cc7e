/* Arguments that several types take: lists of strings. */
#include "_native.h"

#include <stdlib.h>

void tfos__python_strings_reset(tfos__python_strings *list)
{
    Py_CLEAR(list->owners);
    free(list->items);
    list->items = NULL;
}

bool tfos__python_strings_init(PyObject *sequence, int (*convert)(PyObject *, void *), tfos__python_strings *out)
{
    Py_ssize_t count = PySequence_Size(sequence);
    *out = (tfos__python_strings){.owners = count < 0 ? NULL : PyList_New(0)};
    out->items = calloc((size_t)(count < 0 ? 0 : count) + 1, sizeof *out->items);
    if (out->owners == NULL || out->items == NULL) {
        if (PyErr_Occurred() == NULL) {
            PyErr_NoMemory();
        }
        tfos__python_strings_reset(out);
        return false;
    }
    for (; out->count < (size_t)count; out->count++) {
        PyObject *item = PySequence_GetItem(sequence, (Py_ssize_t)out->count);
        PyObject *bytes = NULL;
        bool converted = item != NULL && convert(item, &bytes) && PyList_Append(out->owners, bytes) == 0;
        if (converted) {
            out->items[out->count] = PyBytes_AsString(bytes);
        }
        Py_XDECREF(item);
        Py_XDECREF(bytes);
        if (!converted) {
            tfos__python_strings_reset(out);
            return false;
        }
    }
    return true;
}
