/* Errors of the library as exceptions: a class for each status, which is also the nearest of Python's own. */
#include "_native.h"

#include <string.h>

#define ONE(name, value, fault, text) +1
enum { STATUS_COUNT = 0 TFOS_STATUS_MAP(ONE) };
#undef ONE

/* Of an exception that Python makes itself, when it has been pickled for instance. */
static const tfos_fault faults[] = {
#define FAULT(name, value, fault, text) [value] = TFOS_FAULT_##fault,
    TFOS_STATUS_MAP(FAULT)
#undef FAULT
};

static PyObject *error_class;
static PyObject *status_classes[STATUS_COUNT];

/* The exception of Python's own that an error of this status is as well. */
static PyObject *builtin_of(tfos_status status)
{
    switch (status) {
    case TFOS_NOT_FOUND:
        return PyExc_FileNotFoundError;
    case TFOS_PERMISSION:
        return PyExc_PermissionError;
    case TFOS_EXISTS:
        return PyExc_FileExistsError;
    case TFOS_IO:
    case TFOS_NO_SPACE:
        return PyExc_OSError;
    case TFOS_NO_MEMORY:
        return PyExc_MemoryError;
    case TFOS_UNSUPPORTED:
        return PyExc_NotImplementedError;
    case TFOS_MISSING_LIBRARY:
    case TFOS_CANCELLED:
    case TFOS_RAISED:
        return PyExc_RuntimeError;
    default:
        return PyExc_ValueError;
    }
}

/* NOT_FOUND becomes NotFoundError, in the module where users find it. */
static void class_name(tfos_status status, char *out)
{
    static const char module[] = "tensorflowonspark.records.";
    bool upper = true;
    memcpy(out, module, sizeof module - 1);
    out += sizeof module - 1;
    for (const char *in = tfos_status_name(status); *in != '\0'; in++) {
        if (*in == '_') {
            upper = true;
        } else {
            *out++ = (char)(upper ? *in : *in + ('a' - 'A'));
            upper = false;
        }
    }
    strcpy(out, "Error");
}

static int add_error_class(PyObject *module, tfos_status status)
{
    char name[128];
    class_name(status, name);
    PyObject *parent = status == TFOS_TRUNCATED ? status_classes[TFOS_CORRUPT] : error_class;
    PyObject *builtin = status == TFOS_TRUNCATED ? NULL : builtin_of(status);
    PyObject *bases = builtin != NULL ? PyTuple_Pack(2, parent, builtin) : PyTuple_Pack(1, parent);
    PyObject *attributes =
        Py_BuildValue("{ssss}", "status", tfos_status_name(status), "fault", tfos_fault_name(faults[status]));
    if (bases != NULL && attributes != NULL) {
        status_classes[status] = PyErr_NewExceptionWithDoc(name, tfos_status_text(status), bases, attributes);
    }
    Py_XDECREF(bases);
    Py_XDECREF(attributes);
    if (status_classes[status] == NULL) {
        return -1;
    }
    return PyModule_AddObjectRef(module, strrchr(name, '.') + 1, status_classes[status]);
}

int tfos__python_add_error(PyObject *module)
{
    PyObject *attributes = Py_BuildValue("{sOss}", "status", Py_None, "fault", tfos_fault_name(TFOS_FAULT_AGAIN));
    if (attributes == NULL) {
        return -1;
    }
    error_class = PyErr_NewExceptionWithDoc("tensorflowonspark.records.Error",
                                            "What the library reports: `status` is its name for the kind of error, "
                                            "`fault` whether it helps to try again: 'again' if it may, 'final' if not, "
                                            "'program' or 'cluster' if these are to blame.",
                                            NULL, attributes);
    Py_DECREF(attributes);
    if (error_class == NULL || PyModule_AddObjectRef(module, "Error", error_class) < 0) {
        return -1;
    }
    for (int status = TFOS_END + 1; status < STATUS_COUNT; status++) {
        if (add_error_class(module, (tfos_status)status) < 0) {
            return -1;
        }
    }
    return 0;
}

PyObject *tfos__python_raise(const tfos_error *error)
{
    if ((error->status == TFOS_CANCELLED || error->status == TFOS_RAISED) && PyErr_Occurred()) {
        return NULL; /* what ended the call says more: KeyboardInterrupt, or the exception of what was called back */
    }
    tfos__python_log_drain();
    PyObject *class = status_classes[error->status];
    PyObject *message = PyUnicode_DecodeUTF8(error->message, (Py_ssize_t)strlen(error->message), "replace");
    if (message == NULL) {
        return NULL;
    }
    PyObject *exception = PyObject_CallFunctionObjArgs(class, message, NULL);
    Py_DECREF(message);
    if (exception == NULL) {
        return NULL;
    }
    PyObject *fault = PyUnicode_FromString(tfos_fault_name(error->fault));
    if (fault != NULL && PyObject_SetAttrString(exception, "fault", fault) == 0) {
        PyErr_SetObject(class, exception);
    }
    Py_XDECREF(fault);
    Py_DECREF(exception);
    return NULL;
}
