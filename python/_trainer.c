/* What a driver asks of a trainer before anything is started. */
#include "_native.h"

static PyObject *trainer_plan(PyObject *module, PyObject *text)
{
    Py_ssize_t bytes;
    char *plan = NULL;
    tfos_error error;
    (void)module;
    const char *options = PyUnicode_AsUTF8AndSize(text, &bytes);
    if (options == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    tfos_trainer_plan(NULL, options, (size_t)bytes, &plan, &error);
    Py_END_ALLOW_THREADS;
    if (plan == NULL) {
        return tfos__python_raise(&error);
    }
    PyObject *made = PyUnicode_FromString(plan);
    tfos_string_free(plan);
    return made;
}

int tfos__python_add_trainer(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"trainer_plan", trainer_plan, METH_O, "What a trainer does with its options, both as JSON."},
        {NULL, NULL, 0, NULL},
    };
    return PyModule_AddFunctions(module, methods);
}
