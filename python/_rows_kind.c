/* The kinds of Python values: which column they become, how a note tells it, and NumPy without its headers. */
#include "_rows.h"

#include <stdio.h>
#include <string.h>

#define NAME(name, text, ...) text,
const char *const tfos__row_shape_names[] = {TFOS__ROW_SHAPE_MAP(NAME)};
static const char *const form_names[] = {TFOS__ROW_FORM_MAP(NAME)};
static const char *const leaf_names[] = {TFOS__ROW_LEAF_MAP(NAME)};
#undef NAME
#define TYPE(name, text, type) TFOS_TYPE_##type,
static const tfos_type leaf_types[] = {TFOS__ROW_LEAF_MAP(TYPE)};
#undef TYPE

enum { FORM_COUNT = sizeof form_names / sizeof form_names[0] };

/* ---- NumPy ---- */

static const tfos__numpy_type numpy_types[] = {
    {'?', TFOS_TYPE_BOOL, 1},    {'i', TFOS_TYPE_INT32, 4},   {'l', TFOS_TYPE_INT64, 8},   {'f', TFOS_TYPE_FLOAT, 4},
    {'d', TFOS_TYPE_DOUBLE, 8},  {'b', TFOS_TYPE_BINARY, 1},  {'B', TFOS_TYPE_BINARY, 1},  {'h', TFOS_TYPE_BINARY, 2},
    {'H', TFOS_TYPE_BINARY, 2},  {'I', TFOS_TYPE_BINARY, 4},  {'L', TFOS_TYPE_BINARY, 8},  {'q', TFOS_TYPE_BINARY, 8},
    {'Q', TFOS_TYPE_BINARY, 8},  {'e', TFOS_TYPE_BINARY, 2},  {'g', TFOS_TYPE_BINARY, 16}, {'F', TFOS_TYPE_BINARY, 8},
    {'D', TFOS_TYPE_BINARY, 16}, {'G', TFOS_TYPE_BINARY, 32},
};

enum { NUMPY_TYPES = sizeof numpy_types / sizeof numpy_types[0] };

/* Never given back: types of a module that stays. */
static PyObject *numpy_array_type;
static PyObject *numpy_scalar_types[NUMPY_TYPES];
static PyObject *numpy_dtypes[NUMPY_TYPES];

static bool load_from(PyObject *numpy)
{
    PyObject *array = PyObject_GetAttrString(numpy, "ndarray");
    for (size_t i = 0; array != NULL && i < NUMPY_TYPES; i++) {
        char code[] = {numpy_types[i].code, '\0'};
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

bool tfos__numpy_is_scalar(PyObject *object, const tfos__numpy_type *type)
{
    return (PyObject *)Py_TYPE(object) == numpy_scalar_types[type - numpy_types];
}

static const tfos__numpy_type *numpy_type_by_code(const char *code)
{
    for (size_t i = 0; code[0] != '\0' && code[1] == '\0' && i < NUMPY_TYPES; i++) {
        if (numpy_types[i].code == code[0]) {
            return &numpy_types[i];
        }
    }
    return NULL;
}

/* Formats of more than a letter are of the other byte order, or of no numbers; but complex ones are Zf, Zd and Zg. */
const tfos__numpy_type *tfos__numpy_type_of(const Py_buffer *view)
{
    if (view->format == NULL) {
        return NULL;
    }
    bool complex_number = view->format[0] == 'Z' && strlen(view->format) == 2;
    char upper[] = {complex_number ? (char)(view->format[1] - ('a' - 'A')) : '\0', '\0'};
    const tfos__numpy_type *type = numpy_type_by_code(complex_number ? upper : view->format);
    return type != NULL && type->bytes == view->itemsize ? type : NULL;
}

PyObject *tfos__numpy_array(const tfos__numpy_type *type, PyObject *shape, PyObject *memory)
{
    return PyObject_CallFunctionObjArgs(numpy_array_type, shape, numpy_dtypes[type - numpy_types], memory, NULL);
}

/* ---- kinds ---- */

tfos__row_leaf tfos__row_leaf_of(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return object == Py_None         ? TFOS__LEAF_NONE
           : type == &PyLong_Type    ? TFOS__LEAF_INT
           : type == &PyFloat_Type   ? TFOS__LEAF_FLOAT
           : type == &PyBool_Type    ? TFOS__LEAF_BOOL
           : type == &PyUnicode_Type ? TFOS__LEAF_STR
           : type == &PyBytes_Type   ? TFOS__LEAF_BYTES
                                     : TFOS__LEAF_PICKLE;
}

/* Lists of None, of lists and of everything that is no leaf are pickled. */
static int kind_of_items(tfos__row_form form, PyObject *first, tfos__row_kind *out)
{
    tfos__row_leaf leaf = first != NULL ? tfos__row_leaf_of(first) : TFOS__LEAF_NONE;
    bool pickled = leaf == TFOS__LEAF_PICKLE || (first != NULL && leaf == TFOS__LEAF_NONE);
    out->form = pickled ? TFOS__FORM_VALUE : form;
    out->leaf = pickled ? TFOS__LEAF_PICKLE : leaf;
    return 0;
}

/* Arrays of what no buffer shows, as dates are, are pickled. */
static int kind_of_array(PyObject *array, tfos__row_kind *out)
{
    Py_buffer view;
    if (PyObject_GetBuffer(array, &view, PyBUF_RECORDS_RO) < 0) {
        if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_BufferError)) {
            return -1;
        }
        PyErr_Clear();
        return 0;
    }
    const tfos__numpy_type *type = tfos__numpy_type_of(&view);
    if (type != NULL && view.ndim <= TFOS__ROW_DIMENSIONS_MAX) {
        *out = (tfos__row_kind){.form = TFOS__FORM_ARRAY, .leaf = TFOS__LEAF_NUMPY, .numpy = type};
        out->dimensions = view.ndim;
        for (int i = 0; view.ndim != 1 && i < view.ndim; i++) {
            out->shape[i] = view.shape[i];
        }
    }
    PyBuffer_Release(&view);
    return 0;
}

int tfos__row_kind_of(PyObject *object, tfos__row_kind *out)
{
    PyTypeObject *type = Py_TYPE(object);
    *out = (tfos__row_kind){.leaf = tfos__row_leaf_of(object)};
    if (out->leaf != TFOS__LEAF_PICKLE) {
        return 0;
    }
    if (type == &PyList_Type) {
        return kind_of_items(TFOS__FORM_LIST, PyList_Size(object) > 0 ? PyList_GetItem(object, 0) : NULL, out);
    }
    if (type == &PyTuple_Type) {
        return kind_of_items(TFOS__FORM_TUPLE, PyTuple_Size(object) > 0 ? PyTuple_GetItem(object, 0) : NULL, out);
    }
    if (!tfos__numpy_load(false)) {
        return PyErr_Occurred() != NULL ? -1 : 0;
    }
    if (tfos__numpy_is_array(object)) {
        return kind_of_array(object, out);
    }
    for (size_t i = 0; i < NUMPY_TYPES; i++) {
        if (tfos__numpy_is_scalar(object, &numpy_types[i])) {
            *out = (tfos__row_kind){.leaf = TFOS__LEAF_NUMPY, .numpy = &numpy_types[i]};
            return 0;
        }
    }
    return 0;
}

bool tfos__row_kind_equal(const tfos__row_kind *a, const tfos__row_kind *b)
{
    return a->form == b->form && a->leaf == b->leaf && a->numpy == b->numpy && a->dimensions == b->dimensions &&
           memcmp(a->shape, b->shape, sizeof a->shape) == 0;
}

tfos_type tfos__row_kind_type(const tfos__row_kind *kind)
{
    return kind->leaf == TFOS__LEAF_NUMPY ? kind->numpy->type : leaf_types[kind->leaf];
}

bool tfos__row_kind_has_lists(const tfos__row_kind *kind)
{
    return kind->form == TFOS__FORM_ARRAY ? kind->numpy->type != TFOS_TYPE_BINARY : kind->form != TFOS__FORM_VALUE;
}

size_t tfos__row_kind_width(const tfos__row_kind *kind)
{
    switch (tfos__row_kind_type(kind)) {
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

/* ---- the note ---- */

PyObject *tfos__row_kind_show(const tfos__row_kind *kind, PyObject *name)
{
    char leaf[16];
    snprintf(leaf, sizeof leaf, kind->leaf == TFOS__LEAF_NUMPY ? "%s %c" : "%s", leaf_names[kind->leaf],
             kind->leaf == TFOS__LEAF_NUMPY ? kind->numpy->code : '\0');
    PyObject *field = Py_BuildValue("{sOssss}", "name", name, "is", form_names[kind->form], "of", leaf);
    if (field == NULL || kind->form != TFOS__FORM_ARRAY || kind->dimensions == 1) {
        return field;
    }
    PyObject *shape = PyList_New(0);
    for (int i = 0; shape != NULL && i < kind->dimensions; i++) {
        PyObject *length = PyLong_FromLongLong(kind->shape[i]);
        if (length == NULL || PyList_Append(shape, length) < 0) {
            Py_CLEAR(shape);
        }
        Py_XDECREF(length);
    }
    if (shape == NULL || PyDict_SetItemString(field, "shape", shape) < 0) {
        Py_CLEAR(field);
    }
    Py_XDECREF(shape);
    return field;
}

static const char *text_of(PyObject *field, const char *key)
{
    PyObject *value = PyDict_Check(field) ? PyDict_GetItemString(field, key) : NULL;
    const char *text = value != NULL && PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
    return text != NULL ? text : "";
}

static bool parse_leaf(const char *text, tfos__row_kind *out)
{
    const char *code = strncmp(text, "numpy ", 6) == 0 ? text + 6 : NULL;
    out->numpy = code != NULL ? numpy_type_by_code(code) : NULL;
    if (out->numpy != NULL) {
        out->leaf = TFOS__LEAF_NUMPY;
        return true;
    }
    for (int leaf = 0; leaf < TFOS__LEAF_NUMPY; leaf++) {
        if (strcmp(text, leaf_names[leaf]) == 0) {
            out->leaf = (tfos__row_leaf)leaf;
            return true;
        }
    }
    return false;
}

static bool parse_form(const char *text, tfos__row_kind *out)
{
    for (int form = 0; form < FORM_COUNT; form++) {
        if (strcmp(text, form_names[form]) == 0) {
            out->form = (tfos__row_form)form;
            return (out->form == TFOS__FORM_ARRAY) <= (out->leaf == TFOS__LEAF_NUMPY);
        }
    }
    return false;
}

static bool parse_shape(PyObject *field, tfos__row_kind *out)
{
    PyObject *shape = PyDict_GetItemString(field, "shape");
    out->dimensions = out->form == TFOS__FORM_ARRAY ? 1 : 0;
    if (shape == NULL || out->form != TFOS__FORM_ARRAY) {
        return true;
    }
    Py_ssize_t count = PyList_Check(shape) ? PyList_Size(shape) : TFOS__ROW_DIMENSIONS_MAX + 1;
    if (count > TFOS__ROW_DIMENSIONS_MAX) {
        return false;
    }
    out->dimensions = (int)count;
    for (Py_ssize_t i = 0; i < count; i++) {
        out->shape[i] = PyLong_AsLongLong(PyList_GetItem(shape, i));
        if (out->shape[i] < 0) {
            return false;
        }
    }
    return true;
}

int tfos__row_kind_parse(PyObject *field, tfos__row_kind *out)
{
    *out = (tfos__row_kind){0};
    if (parse_leaf(text_of(field, "of"), out) && parse_form(text_of(field, "is"), out) && parse_shape(field, out)) {
        return 0;
    }
    if (PyErr_Occurred() == NULL || PyErr_ExceptionMatches(PyExc_TypeError) ||
        PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "the note of a batch has the field %R, which this version of tfos does not know",
                     field);
    }
    return -1;
}

/* ---- pickle, json ---- */

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

PyObject *tfos__row_json(const char *function, PyObject *argument)
{
    PyObject *json = PyImport_ImportModule("json");
    PyObject *result = json != NULL ? PyObject_CallMethod(json, function, "O", argument) : NULL;
    Py_XDECREF(json);
    return result;
}
