/* Notes of rows for what is done in Python: columns as arrays, and results that are arrays. */
#include "_rows.h"

#include <stdlib.h>
#include <string.h>

static PyObject *show_shape(const tfos_row_kind *kind)
{
    if (kind->form != TFOS_ROW_FORM_ARRAY || kind->dimensions == 1) {
        return Py_NewRef(Py_None);
    }
    PyObject *shape = PyTuple_New(kind->dimensions);
    for (int i = 0; shape != NULL && i < kind->dimensions; i++) {
        PyObject *length = PyLong_FromLongLong(kind->shape[i]);
        if (length == NULL || PyTuple_SetItem(shape, i, length) < 0) {
            Py_CLEAR(shape);
        }
    }
    return shape;
}

/* row_fields(schema): {name: (form, leaf, dtype or None, shape or None)} of the columns that were rows. */
static PyObject *row_fields(PyObject *module, PyObject *object)
{
    (void)module;
    const tfos_rows *rows;
    tfos_error error;
    const tfos_schema *schema = tfos__python_schema_of(object);
    if (schema == NULL) {
        return NULL;
    }
    if (tfos_schema_rows(schema, &rows, &error) != TFOS_OK) {
        return tfos__python_raise(&error);
    }
    PyObject *fields = PyDict_New();
    for (size_t i = 0; fields != NULL && i < rows->count; i++) {
        const tfos_row_kind *kind = &rows->fields[i].kind;
        PyObject *shape = show_shape(kind);
        PyObject *field = shape == NULL
                              ? NULL
                              : Py_BuildValue("(sszN)", tfos_row_form_name(kind->form), tfos_row_leaf_name(kind->leaf),
                                              kind->numpy != NULL ? kind->numpy->name : NULL, shape);
        if (field == NULL || PyDict_SetItemString(fields, rows->fields[i].name, field) < 0) {
            Py_CLEAR(fields);
        }
        Py_XDECREF(field);
    }
    return fields;
}

/* The kind of an array with a value, or an array, for each row: of type `code`, and of this shape without the rows. */
static bool parse_kind(const char *code, PyObject *shape, tfos_row_kind *out, tfos_field *field)
{
    int64_t values = 1;
    *out = (tfos_row_kind){.leaf = TFOS_ROW_LEAF_NUMPY, .numpy = tfos_numpy_type_find(code[0])};
    out->dimensions = (int)PyTuple_Size(shape);
    out->form = out->dimensions > 0 ? TFOS_ROW_FORM_ARRAY : TFOS_ROW_FORM_VALUE;
    if (out->numpy == NULL || out->numpy->type == TFOS_TYPE_BINARY || out->dimensions > TFOS_ROW_MAX_DIMENSIONS) {
        PyErr_Format(PyExc_ValueError, "no column has arrays of type '%s' and %d dimensions", code, out->dimensions);
        return false;
    }
    for (int i = 0; i < out->dimensions; i++) {
        out->shape[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        if (out->shape[i] < 0 || (out->shape[i] > 0 && values > TFOS_SCHEMA_MAX_LENGTH / out->shape[i])) {
            PyErr_SetString(PyExc_ValueError,
                            "the shape of an array has lengths from 0 on, and is no larger than a list");
            return false;
        }
        values *= out->shape[i];
    }
    *field = (tfos_field){.type = out->numpy->type};
    if (out->dimensions > 0) {
        field->shape = TFOS_SHAPE_FIXED;
        field->length = (int32_t)values;
    }
    return true;
}

static PyObject *make_schema(tfos_row_shape shape, PyObject *list, tfos_row_field *rows)
{
    tfos_schema *schema;
    tfos_error error;
    size_t count = (size_t)PyList_Size(list);
    if (tfos_schema_new(TFOS_RECORD_EXAMPLE, &schema, &error) != TFOS_OK) {
        return tfos__python_raise(&error);
    }
    for (size_t i = 0; i < count; i++) {
        PyObject *dimensions;
        const char *code;
        tfos_field field;
        if (!PyArg_ParseTuple(PyList_GetItem(list, (Py_ssize_t)i), "ssO!", &rows[i].name, &code, &PyTuple_Type,
                              &dimensions) ||
            !parse_kind(code, dimensions, &rows[i].kind, &field)) {
            tfos_schema_free(schema);
            return NULL;
        }
        field.name = rows[i].name;
        if (tfos_schema_add(schema, &field, &error) != TFOS_OK) {
            tfos_schema_free(schema);
            return tfos__python_raise(&error);
        }
    }
    const tfos_rows note = {.shape = shape, .count = count, .fields = rows};
    if (tfos_schema_set_rows(schema, &note, &error) != TFOS_OK) {
        tfos_schema_free(schema);
        return tfos__python_raise(&error);
    }
    return tfos__python_schema_wrap(schema);
}

/* array_schema(row, [(name, code of NumPy, shape of a row)]): the Schema of rows whose columns are such arrays. */
static PyObject *array_schema(PyObject *module, PyObject *args)
{
    (void)module;
    const char *row;
    PyObject *list;
    tfos_row_shape shape;
    tfos_error error;
    if (!PyArg_ParseTuple(args, "sO!:array_schema", &row, &PyList_Type, &list)) {
        return NULL;
    }
    if (tfos_row_shape_parse(row, &shape, &error) != TFOS_OK) {
        return tfos__python_raise(&error);
    }
    tfos_row_field *rows = calloc((size_t)PyList_Size(list) + 1, sizeof *rows);
    PyObject *schema = rows != NULL ? make_schema(shape, list, rows) : PyErr_NoMemory();
    free(rows);
    return schema;
}

PyMethodDef tfos__row_note_methods[] = {
    {"row_fields", row_fields, METH_O, NULL},
    {"array_schema", array_schema, METH_VARARGS, NULL},
    {0},
};
