/* Driver: owns a driver of the library; what it is told and asked never waits, and one thread takes its orders. */
#include "_native.h"

#include <string.h>

static PyTypeObject *driver_type;

typedef struct driver_object {
    PyObject_HEAD
    tfos_driver *driver;
    tfos__python_cluster_options options; /* which the driver needs for as long as it lives */
    bool waiting;                         /* a thread is in next() */
} driver_object;

/* Driver(options, here, restarts, application): options are the keywords of Cluster. */
static PyObject *driver_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"options", "here", "restarts", "application", NULL};
    PyObject *cluster;
    tfos_error error;
    tfos_driver_options options;
    tfos_driver_options_init(&options, sizeof options);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!iis:Driver", names, &PyDict_Type, &cluster, &options.here,
                                     &options.restarts, &options.application)) {
        return NULL;
    }
    PyObject *none = PyTuple_New(0);
    PyObject *copy = none != NULL ? PyDict_Copy(cluster) : NULL;
    driver_object *self = copy != NULL ? tfos__python_new(type) : NULL;
    if (self != NULL && !tfos__python_cluster_options_init(none, copy, &self->options)) {
        Py_CLEAR(self);
    }
    Py_XDECREF(none);
    Py_XDECREF(copy);
    if (self == NULL) {
        return NULL;
    }
    options.cluster = &self->options.options;
    if (tfos_driver_open(&options, &self->driver, &error) != TFOS_OK) {
        self->driver = NULL;
        Py_DECREF((PyObject *)self);
        return tfos__python_raise(&error);
    }
    return (PyObject *)self;
}

static void driver_dealloc(driver_object *self)
{
    Py_BEGIN_ALLOW_THREADS
    tfos_driver_close(self->driver); /* may wait for processes to end */
    Py_END_ALLOW_THREADS
    tfos__python_cluster_options_reset(&self->options);
    tfos__python_free(self);
}

/* ---- texts ---- */

/* Texts of exceptions, which may have anything in them, as the library takes them: UTF-8 without NUL. */
typedef struct text {
    PyObject *bytes;
    const char *given; /* NULL for None */
} text;

/* A converter for PyArg_Parse. */
static int take_text(PyObject *object, void *out)
{
    text *into = out;
    if (object == NULL) { /* a later argument was wrong */
        Py_CLEAR(into->bytes);
        return 1;
    }
    into->bytes = NULL;
    into->given = NULL;
    if (object == Py_None) {
        return Py_CLEANUP_SUPPORTED;
    }
    if (!PyUnicode_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "a text or None is expected");
        return 0;
    }
    into->bytes = PyUnicode_AsEncodedString(object, "utf-8", "replace");
    if (into->bytes == NULL) {
        return 0;
    }
    char *from = PyBytes_AsString(into->bytes); /* nobody else has it */
    for (Py_ssize_t i = 0; i < PyBytes_Size(into->bytes); i++) {
        from[i] = (char)(from[i] == '\0' ? '?' : from[i]);
    }
    into->given = from;
    return Py_CLEANUP_SUPPORTED;
}

/* ---- orders ---- */

static PyObject *order_dict(const tfos_order *order)
{
    /* What a program printed may be any bytes. */
    PyObject *text = PyUnicode_DecodeUTF8(order->text, (Py_ssize_t)strlen(order->text), "replace");
    if (text == NULL) {
        return NULL;
    }
    return Py_BuildValue("{sssKsKsisisisLsLsLsy#sNsssssssssK}", "kind", tfos_order_kind_name(order->kind), "call",
                         (unsigned long long)order->call, "job", (unsigned long long)order->job, "source",
                         (int)order->source, "index", (int)order->index, "count", (int)order->count, "pid",
                         (long long)order->pid, "patience_ms", (long long)order->patience_ms, "cancel_ms",
                         (long long)order->cancel_ms, "bytes", order->bytes != NULL ? (const char *)order->bytes : "",
                         (Py_ssize_t)order->byte_count, "text", text, "title", order->title, "outcome",
                         tfos_call_outcome_name(order->outcome), "status", tfos_status_name(order->status), "fault",
                         tfos_fault_name(order->fault), "cause", (unsigned long long)order->cause);
}

/* The next order; None when nothing follows. */
static PyObject *driver_next(driver_object *self, PyObject *args)
{
    long long timeout_ms;
    tfos_order order;
    tfos_error error;
    tfos_status status;
    if (!PyArg_ParseTuple(args, "L:next", &timeout_ms)) {
        return NULL;
    }
    if (self->waiting) {
        PyErr_SetString(PyExc_ValueError, "another thread is waiting for the orders of this driver");
        return NULL;
    }
    self->waiting = true;
    Py_BEGIN_ALLOW_THREADS
    status = tfos_driver_next(self->driver, timeout_ms, &order, &error);
    Py_END_ALLOW_THREADS
    PyObject *result = NULL;
    if (status == TFOS_OK) {
        result = order_dict(&order);
    } else if (status == TFOS_END) {
        result = Py_NewRef(Py_None);
    } else {
        tfos__python_raise(&error);
    }
    self->waiting = false;
    return result;
}

/* ---- reports ---- */

static PyObject *driver_report_spark(driver_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"slots", "slots_most", "slots_reason", "nodes_failure", "unanswered", "context_end", NULL};
    tfos_spark_view view;
    tfos_error error;
    text reason = {0}, failure = {0}, unanswered = {0}, end = {0};
    tfos_spark_view_init(&view, sizeof view);
    long long slots = view.slots, slots_most = view.slots_most;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$LLO&O&O&O&:report_spark", names, &slots, &slots_most, take_text,
                                     &reason, take_text, &failure, take_text, &unanswered, take_text, &end)) {
        return NULL;
    }
    view.slots = slots;
    view.slots_most = slots_most;
    view.slots_reason = reason.given;
    view.nodes_failure = failure.given;
    view.unanswered = unanswered.given;
    view.context_end = end.given;
    tfos_status status = tfos_driver_report_spark(self->driver, &view, &error);
    Py_XDECREF(reason.bytes);
    Py_XDECREF(failure.bytes);
    Py_XDECREF(unanswered.bytes);
    Py_XDECREF(end.bytes);
    return status == TFOS_OK ? Py_NewRef(Py_None) : tfos__python_raise(&error);
}

static PyObject *driver_report_job(driver_object *self, PyObject *args)
{
    unsigned long long job;
    text failure = {0};
    if (!PyArg_ParseTuple(args, "KO&:report_job", &job, take_text, &failure)) {
        return NULL;
    }
    tfos_driver_report_job(self->driver, job, failure.given);
    Py_XDECREF(failure.bytes);
    Py_RETURN_NONE;
}

static PyObject *driver_report_context_end(driver_object *self, PyObject *args)
{
    const char *how;
    if (!PyArg_ParseTuple(args, "s:report_context_end", &how)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    tfos_driver_report_context_end(self->driver, how);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* ---- calls; each returns the number of the call ---- */

static PyObject *number_of(tfos_status status, uint64_t call, const tfos_error *error)
{
    return status == TFOS_OK ? PyLong_FromUnsignedLongLong(call) : tfos__python_raise(error);
}

/* A call without arguments. */
static PyObject *make_call(driver_object *self, tfos_status (*make)(tfos_driver *, uint64_t *, tfos_error *))
{
    uint64_t call = 0;
    tfos_error error;
    tfos_status status = make(self->driver, &call, &error);
    return number_of(status, call, &error);
}

static PyObject *driver_await_nodes(driver_object *self, PyObject *unused)
{
    (void)unused;
    return make_call(self, tfos_driver_await_nodes);
}

static PyObject *driver_ask_status(driver_object *self, PyObject *unused)
{
    (void)unused;
    return make_call(self, tfos_driver_ask_status);
}

static PyObject *driver_ask_results(driver_object *self, PyObject *unused)
{
    (void)unused;
    return make_call(self, tfos_driver_ask_results);
}

static PyObject *driver_await_tensorboard(driver_object *self, PyObject *unused)
{
    (void)unused;
    return make_call(self, tfos_driver_await_tensorboard);
}

static PyObject *driver_finish(driver_object *self, PyObject *args)
{
    long long grace_ms, timeout_ms;
    uint64_t call = 0;
    tfos_error error;
    if (!PyArg_ParseTuple(args, "LL:finish", &grace_ms, &timeout_ms)) {
        return NULL;
    }
    tfos_status status = tfos_driver_finish(self->driver, grace_ms, timeout_ms, &call, &error);
    return number_of(status, call, &error);
}

/* The options of a feed in a dict: the keywords of Cluster.feed. */
static bool feed_options(PyObject *dict, tfos_feed_options *out)
{
    PyObject *none = PyTuple_New(0);
    bool good = none != NULL && tfos__python_feed_options_init(none, dict, out);
    Py_XDECREF(none);
    return good;
}

static PyObject *driver_open_feed(driver_object *self, PyObject *args)
{
    PyObject *dict;
    tfos_feed_options options;
    uint64_t call = 0;
    tfos_error error;
    if (!PyArg_ParseTuple(args, "O!:open_feed", &PyDict_Type, &dict) || !feed_options(dict, &options)) {
        return NULL;
    }
    tfos_status status = tfos_driver_open_feed(self->driver, &options, &call, &error);
    return number_of(status, call, &error);
}

/* feed(data, validation or None, epochs or -1, whether it is a batch of a stream) */
static PyObject *driver_feed(driver_object *self, PyObject *args)
{
    PyObject *data;
    PyObject *validation;
    int stream;
    long long epochs;
    tfos_feed_options options[2];
    tfos_feed_call feed;
    uint64_t call = 0;
    tfos_error error;
    tfos_feed_call_init(&feed, sizeof feed);
    if (!PyArg_ParseTuple(args, "O!OLp:feed", &PyDict_Type, &data, &validation, &epochs, &stream) ||
        !feed_options(data, &options[0]) || (validation != Py_None && !feed_options(validation, &options[1]))) {
        return NULL;
    }
    feed.data = &options[0];
    feed.validation = validation != Py_None ? &options[1] : NULL;
    feed.epochs = epochs;
    feed.stream = stream != 0;
    tfos_status status = tfos_driver_feed(self->driver, &feed, &call, &error);
    return number_of(status, call, &error);
}

static PyObject *driver_abandon(driver_object *self, PyObject *args)
{
    unsigned long long call;
    if (!PyArg_ParseTuple(args, "K:abandon", &call)) {
        return NULL;
    }
    tfos_driver_abandon(self->driver, call);
    Py_RETURN_NONE;
}

static PyObject *driver_stop(driver_object *self, PyObject *args)
{
    text reason = {0};
    if (!PyArg_ParseTuple(args, "O&:stop", take_text, &reason)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    tfos_driver_stop(self->driver, reason.given != NULL ? reason.given : "");
    Py_END_ALLOW_THREADS
    Py_XDECREF(reason.bytes);
    Py_RETURN_NONE;
}

static PyType_Slot driver_slots[] = {
    {Py_tp_new, driver_new},
    {Py_tp_dealloc, driver_dealloc},
    {Py_tp_methods, (PyMethodDef[]){{"next", (PyCFunction)driver_next, METH_VARARGS, NULL},
                                    {"report_spark", (PyCFunction)(void (*)(void))driver_report_spark,
                                     METH_VARARGS | METH_KEYWORDS, NULL},
                                    {"report_job", (PyCFunction)driver_report_job, METH_VARARGS, NULL},
                                    {"report_context_end", (PyCFunction)driver_report_context_end, METH_VARARGS, NULL},
                                    {"await_nodes", (PyCFunction)driver_await_nodes, METH_NOARGS, NULL},
                                    {"ask_status", (PyCFunction)driver_ask_status, METH_NOARGS, NULL},
                                    {"ask_results", (PyCFunction)driver_ask_results, METH_NOARGS, NULL},
                                    {"await_tensorboard", (PyCFunction)driver_await_tensorboard, METH_NOARGS, NULL},
                                    {"finish", (PyCFunction)driver_finish, METH_VARARGS, NULL},
                                    {"open_feed", (PyCFunction)driver_open_feed, METH_VARARGS, NULL},
                                    {"feed", (PyCFunction)driver_feed, METH_VARARGS, NULL},
                                    {"abandon", (PyCFunction)driver_abandon, METH_VARARGS, NULL},
                                    {"stop", (PyCFunction)driver_stop, METH_VARARGS, NULL},
                                    {0}}},
    {0, NULL},
};

int tfos__python_add_driver(PyObject *module)
{
    return tfos__python_add_type(module, "Driver", sizeof(driver_object), driver_slots, true, &driver_type);
}
