/* The shapes of rows: which of them have fields, and what their columns are called. */
#include "_rows.h"

#include <string.h>

enum {
    NARROW = 64,                 /* a tuple of more values, all of one type, is one list and not that many columns */
    NAMES_BYTES_MAX = 512 << 10, /* of all columns: the note of a schema has a limit */
};

/* pyspark is not imported for this: who has a Row has imported it. */
bool tfos__row_is_spark(PyObject *object)
{
    static PyTypeObject *known; /* kept alive, so that no other type comes to its address */
    PyTypeObject *type = Py_TYPE(object);
    if (type == known) {
        return true;
    }
    if (!PyTuple_Check(object) || type == &PyTuple_Type) {
        return false;
    }
    PyObject *name = PyType_GetName(type);
    PyObject *module = PyObject_GetAttrString((PyObject *)type, "__module__");
    bool found = name != NULL && module != NULL && PyUnicode_Check(module) &&
                 PyUnicode_CompareWithASCIIString(name, "Row") == 0 &&
                 PyUnicode_CompareWithASCIIString(module, "pyspark.sql.types") == 0;
    Py_XDECREF(name);
    Py_XDECREF(module);
    PyErr_Clear();
    if (found) {
        PyTypeObject *old = known;
        known = (PyTypeObject *)Py_NewRef((PyObject *)type);
        Py_XDECREF((PyObject *)old);
    }
    return found;
}

/* The __fields__ of a Row; NULL without exception if it has none. */
PyObject *tfos__row_spark_fields(PyObject *row)
{
    static PyObject *attribute;
    if (attribute == NULL && (attribute = PyUnicode_InternFromString("__fields__")) == NULL) {
        return NULL;
    }
    PyObject *fields = PyObject_GetAttr(row, attribute);
    if (fields == NULL) {
        PyErr_Clear();
    }
    return fields;
}

/* Whether columns can have these names; otherwise the row is pickled. */
static bool usable(PyObject *names)
{
    Py_ssize_t count = PyTuple_Size(names);
    Py_ssize_t total = 0;
    PyObject *set = PySet_New(names);
    bool good = set != NULL && PySet_Size(set) == count && count > 0 && count <= TFOS__ROW_FIELDS_MAX;
    Py_XDECREF(set);
    for (Py_ssize_t i = 0; good && i < count; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        Py_ssize_t bytes = 0;
        const char *text = Py_TYPE(name) == &PyUnicode_Type ? PyUnicode_AsUTF8AndSize(name, &bytes) : NULL;
        good = text != NULL && bytes > 0 && bytes <= TFOS_SCHEMA_MAX_NAME_BYTES && strlen(text) == (size_t)bytes;
        total += bytes;
    }
    PyErr_Clear(); /* names that cannot be hashed, or are no text */
    return good && total <= NAMES_BYTES_MAX;
}

static PyObject *numbered_names(Py_ssize_t count)
{
    PyObject *names = PyTuple_New(count);
    for (Py_ssize_t i = 0; names != NULL && i < count; i++) {
        PyObject *name = PyUnicode_FromFormat("_%zd", i + 1);
        if (name == NULL || PyTuple_SetItem(names, i, name) < 0) {
            Py_CLEAR(names);
        }
    }
    return names;
}

/* Whether all items are leaves of one type: then the row is one list. */
static bool is_uniform(PyObject *row, PyObject *(*get)(PyObject *, Py_ssize_t), Py_ssize_t count)
{
    PyTypeObject *first = count > 0 ? Py_TYPE(get(row, 0)) : NULL;
    if (count > 0) {
        tfos_row_leaf leaf = tfos__row_leaf_of(get(row, 0));
        if (leaf == TFOS_ROW_LEAF_PICKLE || leaf == TFOS_ROW_LEAF_NONE) {
            return false;
        }
    }
    for (Py_ssize_t i = 1; i < count; i++) {
        if (Py_TYPE(get(row, i)) != first) {
            return false;
        }
    }
    return true;
}

static tfos_row_shape shape_of_sequence(PyObject *row, PyObject **names)
{
    bool list = Py_TYPE(row) == &PyList_Type;
    Py_ssize_t count = list ? PyList_Size(row) : PyTuple_Size(row);
    bool one = (list || count > NARROW) && is_uniform(row, list ? PyList_GetItem : PyTuple_GetItem, count);
    if (one || count == 0 || count > (list ? NARROW : TFOS__ROW_FIELDS_MAX)) {
        return TFOS_ROW_VALUE;
    }
    *names = numbered_names(count);
    return list ? TFOS_ROW_LIST : TFOS_ROW_TUPLE;
}

static tfos_row_shape shape_of_spark_row(PyObject *row, PyObject **names)
{
    PyObject *fields = tfos__row_spark_fields(row);
    tfos_row_shape shape = TFOS_ROW_VALUE;
    if (fields != NULL && Py_TYPE(fields) == &PyList_Type && PyList_Size(fields) == PyTuple_Size(row)) {
        shape = TFOS_ROW_SPARK;
        *names = PyList_AsTuple(fields);
    } else if (fields != NULL && tfos__row_is_spark(fields) && PyTuple_Size(fields) == PyTuple_Size(row)) {
        PyObject *list = PySequence_List(fields);
        shape = TFOS_ROW_SPARK_TEMPLATE;
        *names = list != NULL ? PyList_AsTuple(list) : NULL;
        Py_XDECREF(list);
    }
    Py_XDECREF(fields);
    return shape;
}

/* The shape of a row and the names of its columns. False with an exception. */
bool tfos__row_shape_of(PyObject *row, tfos_row_shape *shape, PyObject **names)
{
    *names = NULL;
    *shape = TFOS_ROW_VALUE;
    if (Py_TYPE(row) == &PyTuple_Type || Py_TYPE(row) == &PyList_Type) {
        *shape = shape_of_sequence(row, names);
    } else if (Py_TYPE(row) == &PyDict_Type) {
        PyObject *keys = PyDict_Keys(row);
        *shape = TFOS_ROW_DICT;
        *names = keys != NULL ? PyList_AsTuple(keys) : NULL;
        Py_XDECREF(keys);
    } else if (tfos__row_is_spark(row)) {
        *shape = shape_of_spark_row(row, names);
    }
    if (*shape != TFOS_ROW_VALUE && *names == NULL) {
        return false;
    }
    if (*names != NULL && !usable(*names)) {
        Py_CLEAR(*names);
        *shape = TFOS_ROW_VALUE;
    }
    if (*names == NULL) {
        *names = Py_BuildValue("(s)", "value");
    }
    return *names != NULL;
}
