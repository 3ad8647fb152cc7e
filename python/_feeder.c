/* Feeder: a Spark task that feeds one partition; False where the feed has ended.
 *
 * All calls may wait: they give up the GIL and look at signals now and then. An object that is in use by one thread is
 * not closed by another: calls are counted. */
#include "_native.h"

#include <string.h>

static PyTypeObject *feeder_type;

/* True, False for END, or the exception. */
static PyObject *truth_of(tfos_status status, const tfos_error *error)
{
    if (status != TFOS_OK && status != TFOS_END) {
        return tfos__python_raise(error);
    }
    return PyBool_FromLong(status == TFOS_OK);
}

typedef struct feeder_object {
    PyObject_HEAD
    tfos_feeder *feeder; /* NULL: nothing to feed, or closed */
    int calls;           /* under way */
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
    tfos_feeder_options options;
    tfos_feeder_options_init(&options, sizeof options);
    options.ticket = ticket.buf;
    options.ticket_bytes = (size_t)ticket.len;
    options.partition = partition;
    options.attempt = attempt;
    options.host = host;
    options.interrupted = tfos__python_interrupted;
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
    tfos_status status = tfos_feeder_put_batch(self->feeder, batch, &error);
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
        tfos_feeder_take_results(self->feeder, wait ? TFOS_WAIT_FOR_RESULTS : TFOS_WAIT_NOT, &batch, &error);
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
    Py_BEGIN_ALLOW_THREADS
    tfos_feeder_close(feeder);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static void feeder_dealloc(feeder_object *self)
{
    Py_BEGIN_ALLOW_THREADS
    tfos_feeder_close(self->feeder);
    Py_END_ALLOW_THREADS
    tfos__python_free(self);
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

int tfos__python_add_feeder(PyObject *module)
{
    return tfos__python_add_type(module, "Feeder", sizeof(feeder_object), feeder_slots, true, &feeder_type);
}
