/* Feed: the rows of a queue in the program of a node; None at an end. Calls that may wait give up the GIL and look at
 * signals now and then. */
#include "_native.h"

#include <stdlib.h>

static PyTypeObject *feed_type;

typedef struct feed_object {
    PyObject_HEAD
    tfos_feed *feed; /* for as long as the object lives: queues belong to the process */
} feed_object;

static PyObject *feed_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"queue", NULL};
    const char *queue;
    tfos_error error;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "s:Feed", names, &queue)) {
        return NULL;
    }
    feed_object *self = tfos__python_new(type);
    if (self == NULL) {
        return NULL;
    }
    tfos_status status;
    Py_BEGIN_ALLOW_THREADS
    status = tfos_feed_open(queue, &self->feed, &error);
    Py_END_ALLOW_THREADS
    if (status != TFOS_OK) {
        self->feed = NULL;
        Py_DECREF((PyObject *)self);
        return tfos__python_raise(&error);
    }
    return (PyObject *)self;
}

/* The next Batch; None at an end. */
static PyObject *feed_next(feed_object *self, PyObject *args)
{
    long long rows, timeout_ms = -1;
    int split_epochs = 0;
    PyObject *as = Py_None;
    tfos_feed_want want;
    tfos_batch *batch;
    tfos_error error;
    if (!PyArg_ParseTuple(args, "L|pLO:next", &rows, &split_epochs, &timeout_ms, &as)) {
        return NULL;
    }
    tfos_feed_want_init(&want, sizeof want);
    want.rows = rows;
    want.split_epochs = split_epochs != 0;
    want.timeout_ms = timeout_ms;
    want.interrupted = tfos__python_interrupted;
    if (as != Py_None && (want.as = tfos__python_schema_of(as)) == NULL) {
        return NULL;
    }
    tfos__python_begin_waiting();
    tfos_status status = tfos_feed_next(self->feed, &want, &batch, &error);
    tfos__python_end_waiting();
    if (status == TFOS_END) {
        Py_RETURN_NONE;
    }
    return status == TFOS_OK ? tfos__python_batch_wrap(batch) : tfos__python_raise(&error);
}

/* The Schema of the first rows; None if the feed has ended without any. */
static PyObject *feed_schema(feed_object *self, PyObject *args)
{
    tfos_feed_want want;
    tfos_schema *schema;
    tfos_error error;
    tfos_feed_want_init(&want, sizeof want);
    want.interrupted = tfos__python_interrupted;
    long long timeout_ms = -1;
    if (!PyArg_ParseTuple(args, "|L:schema", &timeout_ms)) {
        return NULL;
    }
    want.timeout_ms = timeout_ms;
    tfos__python_begin_waiting();
    tfos_status status = tfos_feed_schema(self->feed, &want, &schema, &error);
    tfos__python_end_waiting();
    if (status == TFOS_END) {
        Py_RETURN_NONE;
    }
    return status == TFOS_OK ? tfos__python_schema_wrap(schema) : tfos__python_raise(&error);
}

static PyObject *feed_ended(feed_object *self, PyObject *unused)
{
    bool ended;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    ended = tfos_feed_ended(self->feed);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(ended);
}

static PyObject *feed_terminate(feed_object *self, PyObject *unused)
{
    tfos_error error;
    tfos_status status;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    status = tfos_feed_terminate(self->feed, &error);
    Py_END_ALLOW_THREADS
    return status == TFOS_OK ? Py_NewRef(Py_None) : tfos__python_raise(&error);
}

static PyObject *feed_results(feed_object *self, PyObject *object)
{
    tfos_error error;
    tfos_feed_want want;
    tfos_batch *batch = tfos__python_batch_of(object);
    if (batch == NULL) {
        return NULL;
    }
    tfos_feed_want_init(&want, sizeof want);
    want.interrupted = tfos__python_interrupted;
    tfos__python_begin_waiting();
    tfos_status status = tfos_feed_put_results(self->feed, batch, &want, &error);
    tfos__python_end_waiting();
    return status == TFOS_OK ? Py_NewRef(Py_None) : tfos__python_raise(&error);
}

/* A column of numbers over the memory of an array; `child` is for the values of lists. */
static bool array_column(const tfos_field *field, int64_t rows, const Py_buffer *array, tfos_vector *top,
                         tfos_vector *child)
{
    bool list = field->shape == TFOS_SHAPE_FIXED;
    int64_t count = list ? rows * field->length : rows;
    int64_t width = field->type == TFOS_TYPE_INT32 || field->type == TFOS_TYPE_FLOAT ? 4 : 8;
    int64_t bytes = field->type == TFOS_TYPE_BOOL ? (count + 7) / 8 : count * width;
    tfos_vector *values = list ? child : top;
    *values = (tfos_vector){.layout = TFOS_LAYOUT_VALUES, .type = field->type, .length = count, .data = array->buf};
    if (list) {
        *top = (tfos_vector){.layout = TFOS_LAYOUT_FIXED_LIST,
                             .type = field->type,
                             .list_length = field->length,
                             .length = rows,
                             .child = child};
    }
    if (array->len < bytes) {
        PyErr_Format(PyExc_ValueError, "column '%s' needs %lld bytes, found %zd", field->name, (long long)bytes,
                     array->len);
        return false;
    }
    return true;
}

/* Feed.batch_of(schema, rows, arrays): a Batch of columns of numbers, each from the memory of an array. */
static PyObject *feed_batch_of(PyObject *unused, PyObject *args)
{
    PyObject *schema_object, *arrays, *result = NULL;
    long long rows;
    tfos_error error;
    tfos_batch *batch;
    (void)unused;
    if (!PyArg_ParseTuple(args, "OLO!:batch_of", &schema_object, &rows, &PyList_Type, &arrays)) {
        return NULL;
    }
    const tfos_schema *schema = tfos__python_schema_of(schema_object);
    if (schema == NULL) {
        return NULL;
    }
    size_t count = tfos_schema_field_count(schema);
    size_t held = 0;
    Py_buffer *buffers = calloc(count + 1, sizeof *buffers);
    tfos_vector *vectors = calloc(2 * count + 1, sizeof *vectors);
    bool good = buffers != NULL && vectors != NULL && (size_t)PyList_Size(arrays) == count;
    for (; good && held < count; held += good ? 1 : 0) {
        good = PyObject_GetBuffer(PyList_GetItem(arrays, (Py_ssize_t)held), &buffers[held], PyBUF_SIMPLE) == 0;
        if (good && !array_column(tfos_schema_field(schema, held), rows, &buffers[held], &vectors[held],
                                  &vectors[count + held])) {
            PyBuffer_Release(&buffers[held]);
            good = false;
        }
    }
    if (good) {
        tfos_status status;
        Py_BEGIN_ALLOW_THREADS
        status = tfos_batch_new(schema, vectors, rows, &batch, &error);
        Py_END_ALLOW_THREADS
        result = status == TFOS_OK ? tfos__python_batch_wrap(batch) : tfos__python_raise(&error);
    } else if (PyErr_Occurred() == NULL) {
        PyErr_SetString(PyExc_ValueError, "expected an array for each column of the schema");
    }
    while (held > 0) {
        PyBuffer_Release(&buffers[--held]);
    }
    free(buffers);
    free(vectors);
    return result;
}

static void feed_dealloc(feed_object *self)
{
    tfos_feed_close(self->feed);
    tfos__python_free(self);
}

static PyType_Slot feed_slots[] = {
    {Py_tp_new, feed_new},
    {Py_tp_dealloc, feed_dealloc},
    {Py_tp_methods, (PyMethodDef[]){{"next", (PyCFunction)feed_next, METH_VARARGS, NULL},
                                    {"schema", (PyCFunction)feed_schema, METH_VARARGS, NULL},
                                    {"ended", (PyCFunction)feed_ended, METH_NOARGS, NULL},
                                    {"terminate", (PyCFunction)feed_terminate, METH_NOARGS, NULL},
                                    {"results", (PyCFunction)feed_results, METH_O, NULL},
                                    {"batch_of", feed_batch_of, METH_VARARGS | METH_STATIC, NULL},
                                    {0}}},
    {0, NULL},
};

int tfos__python_add_feed(PyObject *module)
{
    return tfos__python_add_type(module, "Feed", sizeof(feed_object), feed_slots, true, &feed_type);
}
