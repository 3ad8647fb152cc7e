/* Batches to Python rows again, as the note of their schema says; without a note, rows are tuples of the columns. */
#include "_rows.h"

#include <stdlib.h>
#include <string.h>

typedef struct row_field {
    const char *name; /* the note's, or the schema's */
    tfos_row_kind kind;
    bool plain;                /* no note speaks of it */
    const tfos_vector *vector; /* NULL: the batch has no such column */
    PyObject *numbers;         /* of NumPy's scalars: all of them as one array */
} row_field;

/* How rows are made of the columns of a batch. */
typedef struct row_plan {
    tfos_row_shape shape;
    bool noted; /* somebody says that the columns were rows */
    int64_t rows;
    size_t count;
    row_field *fields;
    PyObject *names;    /* a list: keys of a dict, __fields__ of a Row … */
    PyObject *template; /* … or a Row of them */
    PyTypeObject *row_type;
} row_plan;

static void plan_reset(row_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        Py_XDECREF(plan->fields[i].numbers);
    }
    free(plan->fields);
    Py_XDECREF(plan->names);
    Py_XDECREF(plan->template);
    Py_XDECREF((PyObject *)plan->row_type);
    plan->fields = NULL;
}

/* ---- Rows of Spark ---- */

/* Row.__new__ is written in Python and takes keywords apart; a Row is a tuple, and its fields an attribute. */
static PyObject *new_spark_row(PyTypeObject *type, PyObject *values, PyObject *fields)
{
    newfunc make = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
    PyObject *args = PyTuple_Pack(1, values);
    PyObject *row = args != NULL ? make(type, args, NULL) : NULL;
    Py_XDECREF(args);
    if (row != NULL && fields != NULL) {
        PyObject *attribute = PyUnicode_InternFromString("__fields__");
        if (attribute == NULL || PyObject_GenericSetAttr(row, attribute, fields) < 0) {
            Py_CLEAR(row);
        }
        Py_XDECREF(attribute);
    }
    return row;
}

static bool load_row_type(row_plan *plan)
{
    PyObject *module = PyImport_ImportModule("pyspark.sql.types");
    PyObject *type = module != NULL ? PyObject_GetAttrString(module, "Row") : NULL;
    Py_XDECREF(module);
    if (type == NULL) {
        return false;
    }
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "pyspark.sql.types.Row is no tuple: this version of pyspark is not known");
        Py_DECREF(type);
        return false;
    }
    plan->row_type = (PyTypeObject *)type;
    plan->template = plan->shape == TFOS_ROW_SPARK_TEMPLATE ? new_spark_row(plan->row_type, plan->names, NULL) : NULL;
    return plan->shape != TFOS_ROW_SPARK_TEMPLATE || plan->template != NULL;
}

/* ---- the plan ---- */

/* Whether the column is what the kind makes of it: memory is read accordingly. */
static bool goes_with(const tfos_vector *vector, const tfos_row_kind *kind)
{
    if (tfos_row_kind_has_lists(kind)) {
        if (vector->layout != TFOS_LAYOUT_LIST && vector->layout != TFOS_LAYOUT_FIXED_LIST) {
            return false;
        }
        vector = vector->child;
    }
    return vector->type == tfos_row_kind_type(kind) &&
           (vector->layout == TFOS_LAYOUT_VALUES || vector->layout == TFOS_LAYOUT_BYTES);
}

static bool plan_field(const tfos_batch *batch, const tfos_row_field *note, row_field *out)
{
    int64_t index = tfos_schema_find(tfos_batch_schema(batch), note->name);
    *out = (row_field){.name = note->name, .kind = note->kind};
    out->vector = index >= 0 ? tfos_batch_column(batch, (size_t)index) : NULL;
    if (out->vector != NULL && !goes_with(out->vector, &out->kind)) {
        PyErr_Format(PyExc_ValueError,
                     "the note of a batch is not one of tfos's rows: the column '%s' has another type. Were the rows "
                     "fed by another version of tfos?",
                     note->name);
        return false;
    }
    return true;
}

static bool parse_names(row_plan *plan)
{
    plan->names = PyList_New(0);
    for (size_t i = 0; plan->names != NULL && i < plan->count; i++) {
        PyObject *name = PyUnicode_FromString(plan->fields[i].name);
        if (name == NULL || PyList_Append(plan->names, name) < 0) {
            Py_CLEAR(plan->names);
        }
        Py_XDECREF(name);
    }
    return plan->names != NULL;
}

static bool plan_rows(const tfos_batch *batch, const tfos_rows *rows, row_plan *out)
{
    out->shape = rows->shape;
    out->fields = calloc(rows->count, sizeof *out->fields);
    if (out->fields == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (; out->count < rows->count; out->count++) {
        if (!plan_field(batch, &rows->fields[out->count], &out->fields[out->count])) {
            return false;
        }
    }
    return parse_names(out);
}

/* Without a note: tuples of Python's own values. */
static bool plan_columns(const tfos_batch *batch, row_plan *out)
{
    const tfos_schema *schema = tfos_batch_schema(batch);
    out->shape = TFOS_ROW_TUPLE;
    out->fields = calloc(tfos_schema_field_count(schema) + 1, sizeof *out->fields);
    if (out->fields == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (; out->count < tfos_schema_field_count(schema); out->count++) {
        out->fields[out->count] = (row_field){.name = tfos_schema_field(schema, out->count)->name,
                                              .plain = true,
                                              .vector = tfos_batch_column(batch, out->count)};
    }
    return parse_names(out);
}

static bool plan_init(PyObject *object, row_plan *out)
{
    const tfos_batch *batch = tfos__python_batch_of(object);
    *out = (row_plan){0};
    if (batch == NULL) {
        return false;
    }
    const tfos_rows *rows;
    tfos_error error;
    if (tfos_schema_rows(tfos_batch_schema(batch), &rows, &error) != TFOS_OK) {
        tfos__python_raise(&error);
        return false;
    }
    out->rows = tfos_batch_rows(batch);
    out->noted = rows->shape != TFOS_ROW_NONE;
    bool planned = out->noted ? plan_rows(batch, rows, out) : plan_columns(batch, out);
    if (planned && (out->shape == TFOS_ROW_SPARK || out->shape == TFOS_ROW_SPARK_TEMPLATE)) {
        planned = load_row_type(out);
    }
    if (!planned) {
        plan_reset(out);
    }
    return planned;
}

/* ---- values ---- */

static PyObject *bytes_at(tfos_row_leaf leaf, const tfos_vector *vector, int64_t at)
{
    const char *bytes = (const char *)vector->data + vector->offsets[at];
    Py_ssize_t count = vector->offsets[at + 1] - vector->offsets[at];
    switch (leaf) {
    case TFOS_ROW_LEAF_STR:
        return PyUnicode_DecodeUTF8(bytes, count, NULL);
    case TFOS_ROW_LEAF_BYTES:
        return PyBytes_FromStringAndSize(bytes, count);
    default:
        return tfos__row_unpickle(bytes, (size_t)count);
    }
}

static inline PyObject *leaf_at(tfos_row_leaf leaf, const tfos_vector *vector, int64_t at)
{
    switch (leaf) {
    case TFOS_ROW_LEAF_INT:
        return PyLong_FromLongLong(((const int64_t *)vector->data)[at]);
    case TFOS_ROW_LEAF_FLOAT:
        return PyFloat_FromDouble(((const double *)vector->data)[at]);
    case TFOS_ROW_LEAF_BOOL:
        return PyBool_FromLong(tfos__python_bit(vector->data, at));
    case TFOS_ROW_LEAF_STR:
    case TFOS_ROW_LEAF_BYTES:
    case TFOS_ROW_LEAF_PICKLE:
        return bytes_at(leaf, vector, at);
    default:
        return Py_NewRef(Py_None);
    }
}

static void span_of(const tfos_vector *vector, int64_t row, int64_t *start, int64_t *end)
{
    bool fixed = vector->layout == TFOS_LAYOUT_FIXED_LIST;
    *start = fixed ? row * vector->list_length : vector->offsets[row];
    *end = fixed ? *start + vector->list_length : vector->offsets[row + 1];
}

/* Fills a list or a tuple with `count` leaves from `start` on. The loops of numbers are where most of the time goes. */
static bool fill(PyObject *items, bool list, tfos_row_leaf leaf, const tfos_vector *values, int64_t start,
                 Py_ssize_t count)
{
    int (*set)(PyObject *, Py_ssize_t, PyObject *) = list ? PyList_SetItem : PyTuple_SetItem;
    const int64_t *ints = (const int64_t *)values->data + start;
    const double *floats = (const double *)values->data + start;
    PyObject *item;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (leaf == TFOS_ROW_LEAF_INT) {
            item = PyLong_FromLongLong(ints[i]);
        } else if (leaf == TFOS_ROW_LEAF_FLOAT) {
            item = PyFloat_FromDouble(floats[i]);
        } else {
            item = leaf_at(leaf, values, start + i);
        }
        if (item == NULL || set(items, i, item) < 0) {
            return false;
        }
    }
    return true;
}

static PyObject *list_at(const row_field *field, int64_t row)
{
    int64_t start, end;
    span_of(field->vector, row, &start, &end);
    bool list = field->kind.form == TFOS_ROW_FORM_LIST;
    Py_ssize_t count = (Py_ssize_t)(end - start);
    PyObject *items = list ? PyList_New(count) : PyTuple_New(count);
    if (items != NULL && !fill(items, list, field->kind.leaf, field->vector->child, start, count)) {
        Py_CLEAR(items);
    }
    return items;
}

/* ---- NumPy ---- */

/* All values of a column of NumPy's scalars as an array over a copy of them; values of bytes stand one after the
 * other, for a missing one has none. */
static PyObject *numbers_of(row_field *field)
{
    const tfos_vector *vector = field->vector;
    const tfos_numpy_type *type = field->kind.numpy;
    if (field->numbers != NULL || !tfos__numpy_load(true)) {
        return field->numbers;
    }
    int64_t count = type->type == TFOS_TYPE_BINARY ? vector->offsets[vector->length] / type->bytes : vector->length;
    PyObject *memory = PyByteArray_FromStringAndSize(type->type == TFOS_TYPE_BOOL ? NULL : vector->data,
                                                     (Py_ssize_t)(count * type->bytes));
    PyObject *shape = memory != NULL ? Py_BuildValue("(L)", (long long)count) : NULL;
    if (shape != NULL) {
        for (int64_t i = 0; type->type == TFOS_TYPE_BOOL && i < count; i++) {
            PyByteArray_AsString(memory)[i] = (char)tfos__python_bit(vector->data, i);
        }
        field->numbers = tfos__numpy_array(type, shape, memory);
    }
    Py_XDECREF(memory);
    Py_XDECREF(shape);
    return field->numbers;
}

static PyObject *number_at(row_field *field, int64_t row)
{
    PyObject *numbers = numbers_of(field);
    bool binary = field->kind.numpy->type == TFOS_TYPE_BINARY;
    int64_t at = binary ? field->vector->offsets[row] / field->kind.numpy->bytes : row;
    return numbers != NULL ? PySequence_GetItem(numbers, (Py_ssize_t)at) : NULL;
}

/* The memory of one array: a copy, which may be written to. */
static PyObject *array_memory(const row_field *field, int64_t row, int64_t *count)
{
    const tfos_vector *vector = field->vector;
    const tfos_numpy_type *type = field->kind.numpy;
    int64_t start, end;
    if (type->type == TFOS_TYPE_BINARY) {
        start = vector->offsets[row];
        end = vector->offsets[row + 1];
        *count = (end - start) / type->bytes;
        return PyByteArray_FromStringAndSize((const char *)vector->data + start, (Py_ssize_t)(end - start));
    }
    span_of(vector, row, &start, &end);
    *count = end - start;
    const char *data = (const char *)vector->child->data;
    if (type->type != TFOS_TYPE_BOOL) {
        return PyByteArray_FromStringAndSize(data + start * type->bytes, (Py_ssize_t)(*count * type->bytes));
    }
    PyObject *memory = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)*count);
    for (int64_t i = 0; memory != NULL && i < *count; i++) {
        PyByteArray_AsString(memory)[i] = (char)tfos__python_bit((const uint8_t *)data, start + i);
    }
    return memory;
}

static PyObject *shape_of(const tfos_row_kind *kind, int64_t count)
{
    PyObject *shape = PyTuple_New(kind->dimensions);
    for (int i = 0; shape != NULL && i < kind->dimensions; i++) {
        PyObject *length = PyLong_FromLongLong(kind->dimensions == 1 ? count : kind->shape[i]);
        if (length == NULL || PyTuple_SetItem(shape, i, length) < 0) {
            Py_CLEAR(shape);
        }
    }
    return shape;
}

static PyObject *array_at(const row_field *field, int64_t row)
{
    int64_t count = 0;
    if (!tfos__numpy_load(true)) {
        return NULL;
    }
    PyObject *memory = array_memory(field, row, &count);
    PyObject *shape = memory != NULL ? shape_of(&field->kind, count) : NULL;
    PyObject *array = shape != NULL ? tfos__numpy_array(field->kind.numpy, shape, memory) : NULL;
    Py_XDECREF(memory);
    Py_XDECREF(shape);
    return array;
}

/* ---- rows ---- */

static PyObject *value_at(row_field *field, int64_t row)
{
    const tfos_vector *vector = field->vector;
    if (field->plain) {
        return tfos__python_value(vector, row);
    }
    if (vector->validity != NULL && !tfos__python_bit(vector->validity, row)) {
        return Py_NewRef(Py_None);
    }
    switch (field->kind.form) {
    case TFOS_ROW_FORM_LIST:
    case TFOS_ROW_FORM_TUPLE:
        return list_at(field, row);
    case TFOS_ROW_FORM_ARRAY:
        return array_at(field, row);
    default:
        return field->kind.leaf == TFOS_ROW_LEAF_NUMPY ? number_at(field, row) : leaf_at(field->kind.leaf, vector, row);
    }
}

static PyObject *dict_at(row_plan *plan, int64_t row)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict != NULL && i < plan->count; i++) {
        PyObject *value = value_at(&plan->fields[i], row);
        if (value == NULL || PyDict_SetItem(dict, PyList_GetItem(plan->names, (Py_ssize_t)i), value) < 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *sequence_at(row_plan *plan, int64_t row)
{
    bool list = plan->shape == TFOS_ROW_LIST;
    PyObject *items = list ? PyList_New((Py_ssize_t)plan->count) : PyTuple_New((Py_ssize_t)plan->count);
    int (*set)(PyObject *, Py_ssize_t, PyObject *) = list ? PyList_SetItem : PyTuple_SetItem;
    for (size_t i = 0; items != NULL && i < plan->count; i++) {
        PyObject *value = value_at(&plan->fields[i], row);
        if (value == NULL || set(items, (Py_ssize_t)i, value) < 0) {
            Py_CLEAR(items);
        }
    }
    return items;
}

static PyObject *row_at(row_plan *plan, int64_t row)
{
    switch (plan->shape) {
    case TFOS_ROW_VALUE:
        return value_at(&plan->fields[0], row);
    case TFOS_ROW_DICT:
        return dict_at(plan, row);
    case TFOS_ROW_SPARK:
    case TFOS_ROW_SPARK_TEMPLATE: {
        PyObject *values = sequence_at(plan, row);
        PyObject *found = values == NULL ? NULL
                                         : new_spark_row(plan->row_type, values,
                                                         plan->template != NULL ? plan->template : plan->names);
        Py_XDECREF(values);
        return found;
    }
    default:
        return sequence_at(plan, row);
    }
}

static PyObject *rows_of(row_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->fields[i].vector == NULL) {
            PyErr_Format(PyExc_ValueError, "the batch lacks the column '%s' of its rows: take all columns, or arrays",
                         plan->fields[i].name);
            return NULL;
        }
    }
    PyObject *rows = PyList_New((Py_ssize_t)plan->rows);
    for (int64_t row = 0; rows != NULL && row < plan->rows; row++) {
        PyObject *object = row_at(plan, row);
        if (object == NULL || PyList_SetItem(rows, (Py_ssize_t)row, object) < 0) {
            Py_CLEAR(rows);
        }
    }
    return rows;
}

PyObject *tfos__row_decode(PyObject *batch)
{
    row_plan plan;
    if (!plan_init(batch, &plan)) {
        return NULL;
    }
    PyObject *rows = rows_of(&plan);
    plan_reset(&plan);
    return rows;
}

/* decode_rows(batch): a list of the rows, equal in type and value to those that were encoded. */
static PyObject *decode_rows(PyObject *module, PyObject *batch)
{
    (void)module;
    return tfos__row_decode(batch);
}

/* ---- columns ---- */

static PyObject *values_of(row_plan *plan, row_field *field)
{
    PyObject *values = PyList_New((Py_ssize_t)plan->rows);
    for (int64_t row = 0; values != NULL && row < plan->rows; row++) {
        PyObject *value = value_at(field, row);
        if (value == NULL || PyList_SetItem(values, (Py_ssize_t)row, value) < 0) {
            Py_CLEAR(values);
        }
    }
    return values;
}

static row_field *field_by_name(const row_plan *plan, PyObject *name)
{
    for (size_t i = 0; PyUnicode_Check(name) && i < plan->count; i++) {
        Py_ssize_t bytes = 0;
        const char *text = PyUnicode_AsUTF8AndSize(name, &bytes);
        if (text != NULL && strcmp(plan->fields[i].name, text) == 0 && plan->fields[i].vector != NULL) {
            return &plan->fields[i];
        }
    }
    PyErr_Clear();
    return NULL;
}

/* Item `position` of every row, or item `name` of a dict. */
static PyObject *items_of(PyObject *rows, Py_ssize_t position, PyObject *name)
{
    Py_ssize_t count = PyList_Size(rows);
    PyObject *items = PyList_New(count);
    for (Py_ssize_t i = 0; items != NULL && i < count; i++) {
        PyObject *row = PyList_GetItem(rows, i);
        PyObject *item = PyDict_Check(row) ? PyObject_GetItem(row, name) : PySequence_GetItem(row, position);
        if (item == NULL || PyList_SetItem(items, i, item) < 0) {
            Py_CLEAR(items);
        }
    }
    return items;
}

/* The lists of a mapping, each by the name of its column where `by_name`, else by its position. Rows that are one value
 * each, or were pickled, are made first. */
static PyObject *mapped(row_plan *plan, PyObject *mapping, bool by_name)
{
    PyObject *rows = plan->shape == TFOS_ROW_VALUE ? rows_of(plan) : NULL;
    PyObject *result = plan->shape == TFOS_ROW_VALUE && rows == NULL ? NULL : PyDict_New();
    for (Py_ssize_t i = 0; result != NULL && i < PyList_Size(mapping); i++) {
        PyObject *column, *key;
        if (!PyArg_ParseTuple(PyList_GetItem(mapping, i), "OO", &column, &key)) {
            Py_CLEAR(result);
            break;
        }
        PyObject *values = NULL;
        if (rows != NULL) {
            values = items_of(rows, i, column);
        } else {
            row_field *field = by_name                   ? field_by_name(plan, column)
                               : (size_t)i < plan->count ? &plan->fields[i]
                                                         : NULL;
            if (field != NULL && field->vector != NULL) {
                values = values_of(plan, field);
            } else {
                PyErr_Format(PyExc_ValueError,
                             "input_mapping asks for the column %R, the %zd. of %zd; the rows have %zd: %R", column,
                             i + 1, PyList_Size(mapping), (Py_ssize_t)plan->count, plan->names);
            }
        }
        if (values == NULL || PyDict_SetItem(result, key, values) < 0) {
            Py_CLEAR(result);
        }
        Py_XDECREF(values);
    }
    Py_XDECREF(rows);
    return result;
}

/* decode_columns(batch, mapping): a dict of lists. The mapping is a list of (column, key), in the order of the columns.
 * Dicts, Rows and columns of a DataFrame go by name if they have all the names; everything else goes by position. */
static PyObject *decode_columns(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *batch, *mapping;
    row_plan plan;
    if (!PyArg_ParseTuple(args, "OO!:decode_columns", &batch, &PyList_Type, &mapping) || !plan_init(batch, &plan)) {
        return NULL;
    }
    bool by_name = plan.shape == TFOS_ROW_DICT || !plan.noted || plan.row_type != NULL;
    for (Py_ssize_t i = 0; by_name && plan.shape != TFOS_ROW_DICT && i < PyList_Size(mapping); i++) {
        PyObject *pair = PyList_GetItem(mapping, i);
        PyObject *column = PyTuple_Check(pair) && PyTuple_Size(pair) > 0 ? PyTuple_GetItem(pair, 0) : Py_None;
        by_name = field_by_name(&plan, column) != NULL;
    }
    PyObject *result = mapped(&plan, mapping, by_name);
    plan_reset(&plan);
    return result;
}

/* decode_column(batch, name): the values of one column as a list. */
static PyObject *decode_column(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *batch, *name;
    row_plan plan;
    if (!PyArg_ParseTuple(args, "OU:decode_column", &batch, &name) || !plan_init(batch, &plan)) {
        return NULL;
    }
    row_field *found = field_by_name(&plan, name);
    PyObject *values = found != NULL ? values_of(&plan, found) : NULL;
    if (found == NULL) {
        PyErr_SetObject(PyExc_KeyError, name);
    }
    plan_reset(&plan);
    return values;
}

PyMethodDef tfos__row_decode_methods[] = {{"decode_rows", decode_rows, METH_O, NULL},
                                          {"decode_columns", decode_columns, METH_VARARGS, NULL},
                                          {"decode_column", decode_column, METH_VARARGS, NULL},
                                          {0}};
