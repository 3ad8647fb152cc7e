/* The kinds of Python values: which column they become, and NumPy without its headers. */
#include "_rows.h"

#include <string.h>

/* ---- NumPy ---- */

enum { NUMPY_TYPES_MAX = 32 };

/* Never given back: types of a module that stays. */
static PyObject *numpy_array_type;
static PyObject *numpy_scalar_types[NUMPY_TYPES_MAX];
static PyObject *numpy_dtypes[NUMPY_TYPES_MAX];

static size_t index_of(const tfos_numpy_type *type)
{
    return (size_t)(type - tfos_numpy_type_at(0));
}

static bool load_from(PyObject *numpy)
{
    PyObject *array = PyObject_GetAttrString(numpy, "ndarray");
    for (size_t i = 0; array != NULL && i < tfos_numpy_type_count(); i++) {
        char code[] = {tfos_numpy_type_at(i)->code, '\0'};
        PyObject *dtype = PyObject_CallMethod(numpy, "dtype", "s", code);
        PyObject *scalar = dtype != NULL ? PyObject_GetAttrString(dtype, "type") : NULL;
        if (scalar == NULL) {
            Py_XDECREF(dtype);
            Py_CLEAR(array);
        } else {
            numpy_dtypes[i] = dtype;
            numpy_scalar_types[i] = scalar;
        }
    }
    numpy_array_type = array; /* last: it says that all is known */
    return array != NULL;
}

bool tfos__numpy_load(bool import)
{
    static PyObject *name;
    if (numpy_array_type != NULL) {
        return true;
    }
    if (name == NULL && (name = PyUnicode_FromString("numpy")) == NULL) {
        return false;
    }
    PyObject *numpy = import ? PyImport_Import(name) : PyImport_GetModule(name);
    bool loaded = numpy != NULL && load_from(numpy);
    Py_XDECREF(numpy);
    return loaded;
}

bool tfos__numpy_is_array(PyObject *object)
{
    return (PyObject *)Py_TYPE(object) == numpy_array_type;
}

bool tfos__numpy_is_scalar(PyObject *object, const tfos_numpy_type *type)
{
    return (PyObject *)Py_TYPE(object) == numpy_scalar_types[index_of(type)];
}

/* Formats of more than a letter are of the other byte order, or of no numbers; but complex ones are Zf, Zd and Zg. */
const tfos_numpy_type *tfos__numpy_type_of(const Py_buffer *view)
{
    if (view->format == NULL) {
        return NULL;
    }
    bool complex_number = view->format[0] == 'Z' && strlen(view->format) == 2;
    if (!complex_number && strlen(view->format) != 1) {
        return NULL;
    }
    const tfos_numpy_type *type =
        tfos_numpy_type_find(complex_number ? (char)(view->format[1] - ('a' - 'A')) : view->format[0]);
    return type != NULL && type->bytes == view->itemsize ? type : NULL;
}

PyObject *tfos__numpy_array(const tfos_numpy_type *type, PyObject *shape, PyObject *memory)
{
    return PyObject_CallFunctionObjArgs(numpy_array_type, shape, numpy_dtypes[index_of(type)], memory, NULL);
}

/* ---- kinds ---- */

tfos_row_leaf tfos__row_leaf_of(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return object == Py_None         ? TFOS_ROW_LEAF_NONE
           : type == &PyLong_Type    ? TFOS_ROW_LEAF_INT
           : type == &PyFloat_Type   ? TFOS_ROW_LEAF_FLOAT
           : type == &PyBool_Type    ? TFOS_ROW_LEAF_BOOL
           : type == &PyUnicode_Type ? TFOS_ROW_LEAF_STR
           : type == &PyBytes_Type   ? TFOS_ROW_LEAF_BYTES
                                     : TFOS_ROW_LEAF_PICKLE;
}

/* Lists of None, of lists and of everything that is no leaf are pickled. */
static int kind_of_items(tfos_row_form form, PyObject *first, tfos_row_kind *out)
{
    tfos_row_leaf leaf = first != NULL ? tfos__row_leaf_of(first) : TFOS_ROW_LEAF_NONE;
    bool pickled = leaf == TFOS_ROW_LEAF_PICKLE || (first != NULL && leaf == TFOS_ROW_LEAF_NONE);
    out->form = pickled ? TFOS_ROW_FORM_VALUE : form;
    out->leaf = pickled ? TFOS_ROW_LEAF_PICKLE : leaf;
    return 0;
}

/* Arrays of what no buffer shows, as dates are, are pickled. */
static int kind_of_array(PyObject *array, tfos_row_kind *out)
{
    Py_buffer view;
    if (PyObject_GetBuffer(array, &view, PyBUF_RECORDS_RO) < 0) {
        if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_BufferError)) {
            return -1;
        }
        PyErr_Clear();
        return 0;
    }
    const tfos_numpy_type *type = tfos__numpy_type_of(&view);
    if (type != NULL && view.ndim <= TFOS_ROW_MAX_DIMENSIONS) {
        *out = (tfos_row_kind){.form = TFOS_ROW_FORM_ARRAY, .leaf = TFOS_ROW_LEAF_NUMPY, .numpy = type};
        out->dimensions = view.ndim;
        for (int i = 0; view.ndim != 1 && i < view.ndim; i++) {
            out->shape[i] = view.shape[i];
        }
    }
    PyBuffer_Release(&view);
    return 0;
}

int tfos__row_kind_of(PyObject *object, tfos_row_kind *out)
{
    PyTypeObject *type = Py_TYPE(object);
    *out = (tfos_row_kind){.leaf = tfos__row_leaf_of(object)};
    if (out->leaf != TFOS_ROW_LEAF_PICKLE) {
        return 0;
    }
    if (type == &PyList_Type) {
        return kind_of_items(TFOS_ROW_FORM_LIST, PyList_Size(object) > 0 ? PyList_GetItem(object, 0) : NULL, out);
    }
    if (type == &PyTuple_Type) {
        return kind_of_items(TFOS_ROW_FORM_TUPLE, PyTuple_Size(object) > 0 ? PyTuple_GetItem(object, 0) : NULL, out);
    }
    if (!tfos__numpy_load(false)) {
        return PyErr_Occurred() != NULL ? -1 : 0;
    }
    if (tfos__numpy_is_array(object)) {
        return kind_of_array(object, out);
    }
    for (size_t i = 0; i < tfos_numpy_type_count(); i++) {
        if (tfos__numpy_is_scalar(object, tfos_numpy_type_at(i))) {
            *out = (tfos_row_kind){.leaf = TFOS_ROW_LEAF_NUMPY, .numpy = tfos_numpy_type_at(i)};
            return 0;
        }
    }
    return 0;
}

bool tfos__row_kind_equal(const tfos_row_kind *a, const tfos_row_kind *b)
{
    return a->form == b->form && a->leaf == b->leaf && a->numpy == b->numpy && a->dimensions == b->dimensions &&
           memcmp(a->shape, b->shape, sizeof a->shape) == 0;
}

size_t tfos__row_kind_width(const tfos_row_kind *kind)
{
    switch (tfos_row_kind_type(kind)) {
    case TFOS_TYPE_INT32:
    case TFOS_TYPE_FLOAT:
        return 4;
    case TFOS_TYPE_INT64:
    case TFOS_TYPE_DOUBLE:
        return 8;
    case TFOS_TYPE_BOOL:
        return 1;
    default:
        return 0;
    }
}

/* ---- pickle ---- */

/* A function of a module, kept once it was found. */
static PyObject *function_of(const char *module_name, const char *name, PyObject **kept)
{
    if (*kept == NULL) {
        PyObject *module = PyImport_ImportModule(module_name);
        *kept = module != NULL ? PyObject_GetAttrString(module, name) : NULL;
        Py_XDECREF(module);
    }
    return *kept;
}

PyObject *tfos__row_pickle(PyObject *object)
{
    static PyObject *dumps;
    static PyObject *protocol;
    if (protocol == NULL && (protocol = PyLong_FromLong(5)) == NULL) {
        return NULL;
    }
    PyObject *function = function_of("pickle", "dumps", &dumps);
    PyObject *bytes = function != NULL ? PyObject_CallFunctionObjArgs(function, object, protocol, NULL) : NULL;
    if (bytes != NULL && !PyBytes_Check(bytes)) {
        PyErr_SetString(PyExc_TypeError, "pickle.dumps returned no bytes");
        Py_CLEAR(bytes);
    }
    return bytes;
}

PyObject *tfos__row_unpickle(const void *data, size_t bytes)
{
    static PyObject *loads;
    PyObject *function = function_of("pickle", "loads", &loads);
    PyObject *view =
        function != NULL ? PyMemoryView_FromMemory((char *)(uintptr_t)data, (Py_ssize_t)bytes, PyBUF_READ) : NULL;
    PyObject *object = view != NULL ? PyObject_CallFunctionObjArgs(function, view, NULL) : NULL;
    Py_XDECREF(view);
    return object;
}
