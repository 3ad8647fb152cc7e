/* Pump: a Spark task that feeds the rows of an iterator. It is an iterator itself, over the results of inference: lists
 * of rows. Without inference it has none, and asking for the first one feeds everything.
 *
 * The library asks for rows in the thread of the caller, without the GIL. What the iterator raises is kept meanwhile,
 * and is what the caller gets in the end, unchanged: Spark shows it with its traceback.
 *
 * An object that is in use by one thread, or by a row that is being computed, is not used by another. */
#include "_rows.h"

#include <stdio.h>

static PyTypeObject *pump_type;

typedef struct pump_object {
    PyObject_HEAD
    tfos_pump *pump; /* NULL: nothing to feed, or closed */
    bool busy;
    PyObject *rows;      /* the iterator */
    PyObject *encoder;   /* NULL: the iterator gives batches */
    PyObject *check_end; /* raises if the last row was not the last; or None */
    PyObject *raised[3]; /* type, value, traceback */
} pump_object;

/* ---- the source; each function is called without the GIL ---- */

/* Keeps the exception that is set, and says it in a line. What is no Exception, such as KeyboardInterrupt, ends the
 * task and is nobody's fault. */
static tfos_status keep_exception(pump_object *self, tfos_error *error)
{
    PyObject **kept = self->raised;
    PyErr_Fetch(&kept[0], &kept[1], &kept[2]);
    PyErr_NormalizeException(&kept[0], &kept[1], &kept[2]);
    PyObject *name = PyObject_GetAttrString(kept[0], "__name__");
    PyObject *text = name != NULL ? PyUnicode_FromFormat("%U: %S", name, kept[1]) : NULL;
    PyObject *bytes = text != NULL ? PyUnicode_AsEncodedString(text, "utf-8", "replace") : NULL;
    bool cancelled = !PyErr_GivenExceptionMatches(kept[0], PyExc_Exception);
    *error = (tfos_error){.status = cancelled ? TFOS_CANCELLED : TFOS_RAISED};
    snprintf(error->message, sizeof error->message, "%s",
             bytes != NULL ? PyBytes_AsString(bytes) : "an exception that cannot be shown");
    PyErr_Clear(); /* of showing it */
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    Py_XDECREF(name);
    return error->status;
}

static tfos_status next_batch(PyObject *iterator, tfos_batch **out)
{
    PyObject *item = PyIter_Next(iterator);
    if (item == NULL) {
        return PyErr_Occurred() != NULL ? TFOS_RAISED : TFOS_END;
    }
    tfos_batch *batch = tfos__python_batch_of(item);
    *out = batch != NULL ? tfos_batch_retain(batch) : NULL;
    Py_DECREF(item);
    return batch != NULL ? TFOS_OK : TFOS_RAISED;
}

static tfos_status source_next(void *context, int64_t patience_ms, int64_t held_bytes, tfos_batch **out,
                               tfos_error *error)
{
    pump_object *self = context;
    (void)held_bytes;
    PyGILState_STATE state = PyGILState_Ensure();
    tfos_status status = self->encoder == NULL
                             ? next_batch(self->rows, out)
                             : tfos__row_encoder_next(self->encoder, self->rows, patience_ms, out, error);
    status = status == TFOS_RAISED ? keep_exception(self, error) : status;
    PyGILState_Release(state);
    return status;
}

static tfos_status source_check_end(void *context, tfos_error *error)
{
    pump_object *self = context;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *result = PyObject_CallNoArgs(self->check_end);
    tfos_status status = result != NULL ? TFOS_OK : keep_exception(self, error);
    Py_XDECREF(result);
    PyGILState_Release(state);
    return status;
}

/* ---- Pump ---- */

static bool begin_use(pump_object *self)
{
    if (self->busy) {
        PyErr_SetString(PyExc_ValueError, "the pump is in use, by another thread or by a row that is being computed");
        return false;
    }
    self->busy = true;
    tfos__python_begin_waiting();
    return true;
}

static void end_use(pump_object *self)
{
    tfos__python_end_waiting();
    self->busy = false;
}

static bool open_pump(pump_object *self, const tfos_feeder_options *options)
{
    tfos_pump_source source;
    tfos_error error;
    tfos_pump_source_init(&source, sizeof source);
    source.context = self;
    source.next = source_next;
    source.check_end = self->check_end != Py_None ? source_check_end : NULL;
    tfos__python_begin_waiting();
    tfos_status status = tfos_pump_open(options, &source, &self->pump, &error);
    tfos__python_end_waiting();
    if (status != TFOS_OK && status != TFOS_END) {
        tfos__python_raise(&error);
        return false;
    }
    return true;
}

/* Pump(ticket, partition, attempt, host, rows, check_end=None, batches=False): `rows` is an iterator, of batches if
 * that is said. */
static PyObject *pump_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"ticket", "partition", "attempt", "host", "rows", "check_end", "batches", NULL};
    Py_buffer ticket;
    unsigned long long partition, attempt;
    PyObject *rows, *check_end = Py_None;
    int batches = 0;
    tfos_feeder_options options;
    tfos_feeder_options_init(&options, sizeof options);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "y*KKsO|Op:Pump", names, &ticket, &partition, &attempt,
                                     &options.host, &rows, &check_end, &batches)) {
        return NULL;
    }
    options.ticket = ticket.buf;
    options.ticket_bytes = (size_t)ticket.len;
    options.partition = partition;
    options.attempt = attempt;
    options.interrupted = tfos__python_interrupted;
    pump_object *self = PyIter_Check(rows) ? tfos__python_new(type) : NULL;
    if (!PyIter_Check(rows)) {
        PyErr_SetString(PyExc_TypeError, "rows is an iterator, as iter() makes it");
    }
    bool opened = false;
    if (self != NULL) {
        self->rows = Py_NewRef(rows);
        self->check_end = Py_NewRef(check_end);
        self->encoder = batches ? NULL : tfos__row_encoder_new();
        opened = (batches || self->encoder != NULL) && open_pump(self, &options);
    }
    PyBuffer_Release(&ticket);
    if (!opened) {
        Py_XDECREF((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

/* The exception of what was called back, if there was one. */
static PyObject *raise_error(pump_object *self, const tfos_error *error)
{
    if (self->raised[0] != NULL) {
        PyErr_Restore(self->raised[0], self->raised[1], self->raised[2]);
        self->raised[0] = self->raised[1] = self->raised[2] = NULL;
    }
    return tfos__python_raise(error);
}

/* Results that cannot be read end the task as rows do that cannot be computed. */
static PyObject *decode(pump_object *self, tfos_batch *results)
{
    tfos_error error;
    PyObject *batch = tfos__python_batch_wrap(results);
    PyObject *rows = batch != NULL ? tfos__row_decode(batch) : NULL;
    Py_XDECREF(batch);
    if (rows != NULL) {
        return rows;
    }
    keep_exception(self, &error);
    if (self->pump != NULL && begin_use(self)) { /* what was read may have closed it */
        tfos_pump_give_up(self->pump, &error);
        end_use(self);
    }
    return raise_error(self, &error);
}

static PyObject *pump_next(pump_object *self)
{
    tfos_batch *results = NULL;
    tfos_error error;
    if (self->pump == NULL || !begin_use(self)) {
        return NULL;
    }
    tfos_status status = tfos_pump_next(self->pump, &results, &error);
    end_use(self);
    if (status == TFOS_OK) {
        return decode(self, results);
    }
    return status == TFOS_END ? NULL : raise_error(self, &error);
}

/* Leaves, whether all is done or not. */
static PyObject *pump_close(pump_object *self, PyObject *unused)
{
    (void)unused;
    if (!begin_use(self)) {
        return NULL;
    }
    tfos_pump_close(self->pump);
    self->pump = NULL;
    end_use(self);
    Py_RETURN_NONE;
}

static void pump_dealloc(pump_object *self)
{
    Py_BEGIN_ALLOW_THREADS
    tfos_pump_close(self->pump);
    Py_END_ALLOW_THREADS
    Py_XDECREF(self->rows);
    Py_XDECREF(self->encoder);
    Py_XDECREF(self->check_end);
    for (int i = 0; i < 3; i++) {
        Py_XDECREF(self->raised[i]);
    }
    tfos__python_free(self);
}

static PyType_Slot pump_slots[] = {
    {Py_tp_new, pump_new},
    {Py_tp_dealloc, pump_dealloc},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, pump_next},
    {Py_tp_methods, (PyMethodDef[]){{"close", (PyCFunction)pump_close, METH_NOARGS, NULL}, {0}}},
    {0, NULL},
};

int tfos__python_add_pump(PyObject *module)
{
    return tfos__python_add_type(module, "Pump", sizeof(pump_object), pump_slots, true, &pump_type);
}
