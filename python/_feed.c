/* Feeding as Python objects.
 *
 *   Feeder   a Spark task that feeds one partition; False where the feed has ended
 *   Feed     the rows of a queue in the program of a node; None at an end
 *
 * All calls may wait: they give up the GIL and look at signals now and then. An object that is in use by one thread is
 * not closed by another: calls are counted. */
#include "_native.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static PyTypeObject *feeder_type;
static PyTypeObject *feed_type;

/* True, False for END, or the exception. */
static PyObject *truth_of(tfos_status status, const tfos_error *error)
{
    if (status != TFOS_OK && status != TFOS_END) {
        return tfos__python_raise(error);
    }
    return PyBool_FromLong(status == TFOS_OK);
}

/* ---- Feeder ------------------------------------------------------------------------------------------------------ */

typedef struct feeder_object {
    PyObject_HEAD tfos_feeder *feeder; /* NULL: nothing to feed, or closed */
    int calls;                         /* under way */
} feeder_object;

static bool feeder_begin(feeder_object *self)
{
    if (self->feeder == NULL || self->calls > 0) {
        PyErr_SetString(PyExc_ValueError, self->feeder == NULL ? "this feeder is closed, or had nothing to feed"
                                                               : "another thread uses this feeder");
        return false;
    }
    self->calls++;
    tfos__python_begin_waiting();
    return true;
}

static void feeder_end(feeder_object *self)
{
    tfos__python_end_waiting();
    self->calls--;
}

static PyObject *feeder_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"ticket", "partition", "attempt", "host", NULL};
    Py_buffer ticket;
    unsigned long long partition, attempt;
    const char *host;
    tfos_error error;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "y*KKs:Feeder", names, &ticket, &partition, &attempt, &host)) {
        return NULL;
    }
    feeder_object *self = tfos__python_new(type);
    if (self == NULL) {
        PyBuffer_Release(&ticket);
        return NULL;
    }
    const tfos_feeder_options options = {.ticket = ticket.buf,
                                         .ticket_bytes = (size_t)ticket.len,
                                         .partition = partition,
                                         .attempt = attempt,
                                         .host = host,
                                         .interrupted = tfos__python_interrupted};
    tfos__python_begin_waiting();
    tfos_status status = tfos_feeder_open(&options, &self->feeder, &error);
    tfos__python_end_waiting();
    PyBuffer_Release(&ticket);
    if (status != TFOS_OK) {
        self->feeder = NULL;
    }
    if (status != TFOS_OK && status != TFOS_END) {
        Py_DECREF((PyObject *)self);
        return tfos__python_raise(&error);
    }
    return (PyObject *)self;
}

/* Whether there is something to feed. */
static PyObject *feeder_get_open(feeder_object *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(self->feeder != NULL);
}

static PyObject *feeder_get_fed(feeder_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(self->feeder != NULL ? tfos_feeder_fed(self->feeder) : 0);
}

static PyObject *feeder_batch(feeder_object *self, PyObject *object)
{
    tfos_error error;
    tfos_batch *batch = tfos__python_batch_of(object);
    if (batch == NULL || !feeder_begin(self)) {
        return NULL;
    }
    tfos_status status = tfos_feeder_batch(self->feeder, batch, &error);
    feeder_end(self);
    return truth_of(status, &error);
}

/* A Batch, None when nothing has come yet, or False after the last. */
static PyObject *feeder_results(feeder_object *self, PyObject *args)
{
    int wait;
    tfos_batch *batch;
    tfos_error error;
    if (!PyArg_ParseTuple(args, "p:results", &wait) || !feeder_begin(self)) {
        return NULL;
    }
    tfos_status status =
        tfos_feeder_results(self->feeder, wait ? TFOS_WAIT_FOR_RESULTS : TFOS_WAIT_NOT, &batch, &error);
    feeder_end(self);
    if (status != TFOS_OK) {
        return truth_of(status, &error);
    }
    return batch != NULL ? tfos__python_batch_wrap(batch) : Py_NewRef(Py_None);
}

static PyObject *feeder_exhaust(feeder_object *self, PyObject *unused)
{
    tfos_error error;
    (void)unused;
    if (!feeder_begin(self)) {
        return NULL;
    }
    tfos_status status = tfos_feeder_exhaust(self->feeder, &error);
    feeder_end(self);
    return truth_of(status, &error);
}

static PyObject *feeder_finish(feeder_object *self, PyObject *unused)
{
    tfos_error error;
    (void)unused;
    if (!feeder_begin(self)) {
        return NULL;
    }
    tfos_status status = tfos_feeder_finish(self->feeder, &error);
    feeder_end(self);
    return truth_of(status, &error);
}

static PyObject *feeder_fail(feeder_object *self, PyObject *args)
{
    const char *text;
    tfos_error failure = {.status = TFOS_MISMATCH};
    if (!PyArg_ParseTuple(args, "s:fail", &text) || !feeder_begin(self)) {
        return NULL;
    }
    strncpy(failure.message, text, sizeof failure.message - 1);
    tfos_feeder_fail(self->feeder, &failure);
    feeder_end(self);
    Py_RETURN_NONE;
}

static PyObject *feeder_close(feeder_object *self, PyObject *unused)
{
    (void)unused;
    if (self->calls > 0) {
        PyErr_SetString(PyExc_ValueError, "another thread uses this feeder");
        return NULL;
    }
    tfos_feeder *feeder = self->feeder;
    self->feeder = NULL;
    Py_BEGIN_ALLOW_THREADS tfos_feeder_close(feeder);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static void feeder_dealloc(feeder_object *self)
{
    Py_BEGIN_ALLOW_THREADS tfos_feeder_close(self->feeder);
    Py_END_ALLOW_THREADS tfos__python_free(self);
}

static PyType_Slot feeder_slots[] = {
    {Py_tp_new, feeder_new},
    {Py_tp_dealloc, feeder_dealloc},
    {Py_tp_getset, (PyGetSetDef[]){{"open", (getter)feeder_get_open, NULL, NULL, NULL},
                                   {"fed", (getter)feeder_get_fed, NULL, NULL, NULL},
                                   {0}}},
    {Py_tp_methods, (PyMethodDef[]){{"batch", (PyCFunction)feeder_batch, METH_O, NULL},
                                    {"results", (PyCFunction)feeder_results, METH_VARARGS, NULL},
                                    {"exhaust", (PyCFunction)feeder_exhaust, METH_NOARGS, NULL},
                                    {"finish", (PyCFunction)feeder_finish, METH_NOARGS, NULL},
                                    {"fail", (PyCFunction)feeder_fail, METH_VARARGS, NULL},
                                    {"close", (PyCFunction)feeder_close, METH_NOARGS, NULL},
                                    {0}}},
    {0, NULL},
};

/* ---- Feed -------------------------------------------------------------------------------------------------------- */

typedef struct feed_object {
    PyObject_HEAD tfos_feed *feed; /* for as long as the object lives: queues belong to the process */
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
    Py_BEGIN_ALLOW_THREADS status = tfos_feed_open(queue, &self->feed, &error);
    Py_END_ALLOW_THREADS if (status != TFOS_OK)
    {
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
    tfos_feed_want_init(&want);
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
    tfos_feed_want_init(&want);
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
    Py_BEGIN_ALLOW_THREADS ended = tfos_feed_ended(self->feed);
    Py_END_ALLOW_THREADS return PyBool_FromLong(ended);
}

static PyObject *feed_terminate(feed_object *self, PyObject *unused)
{
    tfos_error error;
    tfos_status status;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS status = tfos_feed_terminate(self->feed, &error);
    Py_END_ALLOW_THREADS return status == TFOS_OK ? Py_NewRef(Py_None) : tfos__python_raise(&error);
}

static PyObject *feed_results(feed_object *self, PyObject *object)
{
    tfos_error error;
    tfos_feed_want want;
    tfos_batch *batch = tfos__python_batch_of(object);
    if (batch == NULL) {
        return NULL;
    }
    tfos_feed_want_init(&want);
    want.interrupted = tfos__python_interrupted;
    tfos__python_begin_waiting();
    tfos_status status = tfos_feed_results(self->feed, batch, &want, &error);
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
        Py_BEGIN_ALLOW_THREADS status = tfos_batch_new(schema, vectors, rows, &batch, &error);
        Py_END_ALLOW_THREADS result = status == TFOS_OK ? tfos__python_batch_wrap(batch) : tfos__python_raise(&error);
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
    if (tfos__python_add_type(module, "tensorflowonspark._native.Feeder", sizeof(feeder_object), feeder_slots, true,
                              &feeder_type) < 0) {
        return -1;
    }
    return tfos__python_add_type(module, "tensorflowonspark._native.Feed", sizeof(feed_object), feed_slots, true,
                                 &feed_type);
}
