/* Group: the workers that this program computes with. Tensors come as buffers, with their type and shape beside them:
 * the buffer protocol has no bfloat16. */
#include "_native.h"

#include <stdlib.h>

static PyTypeObject *group_type;

typedef struct group_object {
    PyObject_HEAD
    tfos_group *group; /* NULL: closed */
} group_object;

static tfos_call_options interruptible(void)
{
    tfos_call_options options;
    tfos_call_options_init(&options, sizeof options);
    options.interrupted = tfos__python_interrupted;
    return options;
}

static PyObject *group_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {NULL};
    tfos_error error;
    tfos_call_options options = interruptible();
    if (!PyArg_ParseTupleAndKeywords(args, keywords, ":Group", names)) {
        return NULL;
    }
    group_object *self = tfos__python_new(type);
    if (self == NULL) {
        return NULL;
    }
    tfos__python_begin_waiting();
    tfos_status status = tfos_group_open(&options, &self->group, &error);
    tfos__python_end_waiting();
    if (status != TFOS_OK) {
        self->group = NULL;
        Py_DECREF((PyObject *)self);
        return tfos__python_raise(&error);
    }
    return (PyObject *)self;
}

static void close_group(group_object *self)
{
    tfos_group *group = self->group;
    self->group = NULL;
    Py_BEGIN_ALLOW_THREADS
    tfos_group_close(group);
    Py_END_ALLOW_THREADS
}

static PyObject *group_close(group_object *self, PyObject *unused)
{
    (void)unused;
    close_group(self);
    Py_RETURN_NONE;
}

static void group_dealloc(group_object *self)
{
    close_group(self);
    tfos__python_free(self);
}

/* The group, or NULL with an exception set. */
static tfos_group *group_of(const group_object *self)
{
    if (self->group == NULL) {
        PyErr_SetString(PyExc_ValueError, "the group is closed");
    }
    return self->group;
}

/* ---- parts ---- */

typedef struct part_views {
    Py_buffer input;
    Py_buffer output;
} part_views;

static bool read_shape(PyObject *shape, tfos_part *part)
{
    Py_ssize_t count = PyTuple_Check(shape) ? PyTuple_Size(shape) : -1;
    if (count < 0 || count > TFOS_PART_DIMENSIONS_MOST) {
        PyErr_Format(PyExc_ValueError, "a shape is a tuple of at most %d numbers", TFOS_PART_DIMENSIONS_MOST);
        return false;
    }
    part->dimensions = (int32_t)count;
    for (Py_ssize_t i = 0; i < count; i++) {
        part->shape[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
    }
    return !PyErr_Occurred();
}

/* As many bytes as type and shape say. */
static bool check_bytes(const tfos_part *part, const Py_buffer *view)
{
    Py_ssize_t bytes = (Py_ssize_t)tfos_element_bytes(part->element);
    for (int32_t i = 0; i < part->dimensions; i++) {
        bytes *= (Py_ssize_t)part->shape[i];
    }
    if (view->obj != NULL && view->len != bytes) {
        PyErr_Format(PyExc_ValueError, "a tensor has %zd bytes, and its type and shape say %zd", view->len, bytes);
        return false;
    }
    return true;
}

static bool read_part(PyObject *item, tfos_part *part, part_views *views)
{
    const char *merge;
    const char *element;
    PyObject *shape;
    PyObject *input;
    PyObject *output;
    tfos_error error;
    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "ssOOO", &merge, &element, &shape, &input, &output)) {
        PyErr_SetString(PyExc_TypeError, "a part is a tuple (merge, element, shape, input, output or None)");
        return false;
    }
    if (tfos_merge_parse(merge, &part->merge, &error) != TFOS_OK ||
        tfos_element_parse(element, &part->element, &error) != TFOS_OK) {
        tfos__python_raise(&error);
        return false;
    }
    if (!read_shape(shape, part) || PyObject_GetBuffer(input, &views->input, PyBUF_C_CONTIGUOUS) != 0 ||
        (output != Py_None && PyObject_GetBuffer(output, &views->output, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) != 0)) {
        return false;
    }
    part->input = views->input.buf;
    part->output = views->output.buf;
    return check_bytes(part, &views->input) && check_bytes(part, &views->output);
}

/* ---- what comes out ---- */

/* (rows of each worker, bytes of all) for a tensor that was gathered. */
static PyObject *wrap_gathered(const tfos_call_result *result, size_t at, size_t workers, size_t row_bytes)
{
    uint64_t all = 0;
    PyObject *rows = PyTuple_New((Py_ssize_t)workers);
    for (size_t rank = 0; rows != NULL && rank < workers; rank++) {
        uint64_t count = result->rows[at * workers + rank];
        PyObject *number = PyLong_FromUnsignedLongLong(count);
        all += count;
        if (number == NULL || PyTuple_SetItem(rows, (Py_ssize_t)rank, number) != 0) {
            Py_CLEAR(rows);
        }
    }
    if (rows == NULL) {
        return NULL;
    }
    PyObject *bytes = PyBytes_FromStringAndSize(result->gathered[at], (Py_ssize_t)(all * row_bytes));
    PyObject *pair = bytes != NULL ? PyTuple_Pack(2, rows, bytes) : NULL;
    Py_DECREF(rows);
    Py_XDECREF(bytes);
    return pair;
}

static PyObject *wrap_result(const tfos_call_result *result, const tfos_part *parts, size_t count, size_t workers)
{
    size_t at = 0;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < count; i++) {
        if (!tfos_merge_gathers(parts[i].merge)) {
            continue;
        }
        size_t row_bytes = tfos_element_bytes(parts[i].element);
        for (int32_t d = 1; d < parts[i].dimensions; d++) {
            row_bytes *= (size_t)parts[i].shape[d];
        }
        PyObject *pair = wrap_gathered(result, at++, workers, row_bytes);
        if (pair == NULL || PyList_Append(list, pair) != 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(pair);
    }
    return list != NULL ? Py_BuildValue("(dnN)", result->weight, (Py_ssize_t)result->contributors, list) : NULL;
}

/* ---- calls ---- */

static PyObject *make_call(tfos_group *group, const tfos_part *parts, size_t count, const tfos_call_options *options)
{
    tfos_error error;
    tfos_call_result result = {0};
    tfos__python_begin_waiting();
    tfos_status status = tfos_group_call(group, parts, count, options, &result, &error);
    tfos__python_end_waiting();
    if (status != TFOS_OK) {
        return tfos__python_raise(&error);
    }
    PyObject *wrapped = wrap_result(&result, parts, count, tfos_group_size(group));
    tfos_call_result_reset(&result);
    return wrapped;
}

/* call(parts, weight, root, about, wire) → (weight of all, contributors, [(rows, bytes) of what was gathered]). */
static PyObject *group_call(group_object *self, PyObject *args)
{
    PyObject *list;
    const char *wire;
    long long root;
    tfos_error error;
    tfos_group *group = group_of(self);
    tfos_call_options options = interruptible();
    if (group == NULL ||
        !PyArg_ParseTuple(args, "O!dLzs:call", &PyList_Type, &list, &options.weight, &root, &options.about, &wire)) {
        return NULL;
    }
    if (tfos_element_parse(wire, &options.wire, &error) != TFOS_OK) {
        return tfos__python_raise(&error);
    }
    options.root = root >= 0 ? (size_t)root : SIZE_MAX;
    size_t count = (size_t)PyList_Size(list);
    tfos_part *parts = calloc(count + 1, sizeof *parts);
    part_views *views = calloc(count + 1, sizeof *views);
    bool good = parts != NULL && views != NULL;
    if (!good) {
        PyErr_NoMemory();
    }
    for (size_t i = 0; good && i < count; i++) {
        good = read_part(PyList_GetItem(list, (Py_ssize_t)i), &parts[i], &views[i]);
    }
    PyObject *result = good ? make_call(group, parts, count, &options) : NULL;
    for (size_t i = 0; views != NULL && i < count; i++) {
        PyBuffer_Release(&views[i].input);
        PyBuffer_Release(&views[i].output);
    }
    free(parts);
    free(views);
    return result;
}

/* The rank of the one that joined last. */
static PyObject *group_join(group_object *self, PyObject *unused)
{
    size_t last;
    tfos_error error;
    tfos_group *group = group_of(self);
    tfos_call_options options = interruptible();
    (void)unused;
    if (group == NULL) {
        return NULL;
    }
    tfos__python_begin_waiting();
    tfos_status status = tfos_group_join(group, &options, &last, &error);
    tfos__python_end_waiting();
    return status == TFOS_OK ? PyLong_FromSize_t(last) : tfos__python_raise(&error);
}

static PyObject *group_name_of(group_object *self, PyObject *number)
{
    tfos_group *group = group_of(self);
    size_t rank = group != NULL ? PyLong_AsSize_t(number) : 0;
    if (group == NULL || PyErr_Occurred()) {
        return NULL;
    }
    if (rank >= tfos_group_size(group)) {
        return PyErr_Format(PyExc_IndexError, "there are %zu workers, and no worker %zu", tfos_group_size(group), rank);
    }
    return PyUnicode_FromString(tfos_group_member(group, rank));
}

/* ---- who they are ---- */

typedef size_t number_of(const tfos_group *group);

static number_of *const numbers[] = {tfos_group_rank, tfos_group_size, tfos_group_local_rank, tfos_group_local_size};

static PyObject *get_number(group_object *self, void *which)
{
    tfos_group *group = group_of(self);
    return group != NULL ? PyLong_FromSize_t((*(number_of *const *)which)(group)) : NULL;
}

static PyGetSetDef group_getters[] = {
    {"rank", (getter)get_number, NULL, NULL, (void *)(uintptr_t)&numbers[0]},
    {"size", (getter)get_number, NULL, NULL, (void *)(uintptr_t)&numbers[1]},
    {"local_rank", (getter)get_number, NULL, NULL, (void *)(uintptr_t)&numbers[2]},
    {"local_size", (getter)get_number, NULL, NULL, (void *)(uintptr_t)&numbers[3]},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef group_methods[] = {
    {"call", (PyCFunction)group_call, METH_VARARGS, NULL},
    {"join", (PyCFunction)group_join, METH_NOARGS, NULL},
    {"member", (PyCFunction)group_name_of, METH_O, NULL},
    {"close", (PyCFunction)group_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot group_slots[] = {
    {Py_tp_new, group_new},
    {Py_tp_dealloc, group_dealloc},
    {Py_tp_methods, group_methods},
    {Py_tp_getset, group_getters},
    {0, NULL},
};

static const char *merge_name(int number)
{
    return tfos_merge_name((tfos_merge)number);
}

static const char *element_name(int number)
{
    return tfos_element_name((tfos_element)number);
}

/* The words of an enum, in the order of their numbers, as a tuple of the module's. */
static int add_words(PyObject *module, const char *name, const char *(*word_of)(int number), int last)
{
    PyObject *words = PyTuple_New(last + 1);
    for (int i = 0; words != NULL && i <= last; i++) {
        PyObject *word = PyUnicode_FromString(word_of(i));
        if (word == NULL || PyTuple_SetItem(words, i, word) != 0) {
            Py_CLEAR(words);
        }
    }
    int status = words != NULL ? PyModule_AddObjectRef(module, name, words) : -1;
    Py_XDECREF(words);
    return status;
}

int tfos__python_add_group(PyObject *module)
{
    if (add_words(module, "MERGES", merge_name, TFOS_MERGE_GATHER_WEIGHTED) != 0 ||
        add_words(module, "ELEMENTS", element_name, TFOS_ELEMENT_INT64) != 0) {
        return -1;
    }
    return tfos__python_add_type(module, "Group", sizeof(group_object), group_slots, true, &group_type);
}
