/* Cluster: owns a cluster of the library; closing it ends the cluster. */
#include "_native.h"

#include <stdlib.h>
#include <string.h>

static PyTypeObject *cluster_type;

typedef struct cluster_object {
    PyObject_HEAD
    tfos_cluster *cluster; /* NULL once closed */
    int calls;             /* under way, without the GIL */
    bool waiting;          /* a thread is in next() */
} cluster_object;

/* Cluster(nodes, program, payload, context, *, …): the keywords are the fields of tfos_cluster_options. */
static PyObject *cluster_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    tfos__python_cluster_options options;
    tfos_error error;
    tfos_status status;
    if (!tfos__python_cluster_options_init(args, keywords, &options)) {
        return NULL;
    }
    cluster_object *self = tfos__python_new(type);
    if (self != NULL) {
        Py_BEGIN_ALLOW_THREADS
        status = tfos_cluster_open(&options.options, &self->cluster, &error);
        Py_END_ALLOW_THREADS
        if (status != TFOS_OK) {
            self->cluster = NULL;
            Py_CLEAR(self);
            tfos__python_raise(&error);
        }
    }
    tfos__python_cluster_options_reset(&options);
    return (PyObject *)self;
}

static bool cluster_begin(cluster_object *self)
{
    if (self->cluster == NULL) {
        PyErr_SetString(PyExc_ValueError, "the cluster is closed");
        return false;
    }
    self->calls++;
    return true;
}

static PyObject *cluster_end(cluster_object *self, tfos_status status, const tfos_error *error)
{
    self->calls--;
    return status != TFOS_OK ? tfos__python_raise(error) : Py_NewRef(Py_None);
}

/* The bytes that a Spark task hands to a node. The cluster key is inside. */
static PyObject *cluster_ticket(cluster_object *self, PyObject *unused)
{
    (void)unused;
    const uint8_t *bytes;
    size_t count;
    if (!cluster_begin(self)) {
        return NULL;
    }
    tfos_cluster_ticket(self->cluster, &bytes, &count);
    self->calls--;
    return PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)count);
}

static PyObject *cluster_url(cluster_object *self, PyObject *unused)
{
    (void)unused;
    if (!cluster_begin(self)) {
        return NULL;
    }
    self->calls--;
    return PyUnicode_FromString(tfos_cluster_url(self->cluster));
}

static PyObject *cluster_spawn(cluster_object *self, PyObject *args)
{
    int index;
    tfos_error error;
    tfos_status status;
    if (!PyArg_ParseTuple(args, "i:spawn", &index) || !cluster_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = tfos_cluster_spawn(self->cluster, index, &error);
    Py_END_ALLOW_THREADS
    return cluster_end(self, status, &error);
}

/* (kind, count, total, index, stream, node, host, state, url, text, pid). What a program printed may be any bytes. */
static PyObject *event_tuple(const tfos_cluster_event *event)
{
    const char *kind = tfos_cluster_event_kind_name(event->kind);
    if (event->kind == TFOS_EVENT_NONE) {
        return Py_BuildValue("(sLLiisssssL)", kind, 0LL, 0LL, -1, 0, "", "", "", "", "", 0LL);
    }
    PyObject *text = PyUnicode_DecodeUTF8(event->text, (Py_ssize_t)strlen(event->text), "replace");
    return text == NULL ? NULL
                        : Py_BuildValue("(sLLiissssNL)", kind, (long long)event->count, (long long)event->total,
                                        (int)event->index, (int)event->stream, event->node, event->host, event->state,
                                        event->url, text, (long long)event->pid);
}

/* The next event; None when nothing follows. */
static PyObject *cluster_next(cluster_object *self, PyObject *args)
{
    long long timeout_ms;
    tfos_cluster_event event;
    tfos_error error;
    tfos_status status;
    if (!PyArg_ParseTuple(args, "L:next", &timeout_ms)) {
        return NULL;
    }
    if (self->waiting) {
        PyErr_SetString(PyExc_ValueError, "another thread is waiting for the events of this cluster");
        return NULL;
    }
    if (!cluster_begin(self)) {
        return NULL;
    }
    self->waiting = true;
    Py_BEGIN_ALLOW_THREADS
    status = tfos_cluster_next(self->cluster, timeout_ms, &event, &error);
    Py_END_ALLOW_THREADS
    PyObject *result = NULL;
    if (status == TFOS_OK) {
        result = event_tuple(&event);
    } else if (status == TFOS_END) {
        result = Py_NewRef(Py_None);
    } else {
        tfos__python_raise(&error);
    }
    self->waiting = false;
    self->calls--;
    return result;
}

static PyObject *cluster_set_slots(cluster_object *self, PyObject *args)
{
    long long slots;
    const char *holders = NULL;
    tfos_error error;
    tfos_status status;
    if (!PyArg_ParseTuple(args, "L|z:slots", &slots, &holders) || !cluster_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = tfos_cluster_set_slots(self->cluster, slots, holders, &error);
    Py_END_ALLOW_THREADS
    return cluster_end(self, status, &error);
}

/* An order without arguments. */
static PyObject *cluster_order(cluster_object *self, tfos_status (*order)(tfos_cluster *, tfos_error *))
{
    tfos_error error;
    tfos_status status;
    if (!cluster_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = order(self->cluster, &error);
    Py_END_ALLOW_THREADS
    return cluster_end(self, status, &error);
}

static PyObject *cluster_ask(cluster_object *self, PyObject *unused)
{
    (void)unused;
    return cluster_order(self, tfos_cluster_request_status);
}

static PyObject *cluster_finish(cluster_object *self, PyObject *args)
{
    long long grace_ms;
    tfos_error error;
    tfos_status status;
    if (!PyArg_ParseTuple(args, "L:finish", &grace_ms) || !cluster_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = tfos_cluster_finish(self->cluster, grace_ms, &error);
    Py_END_ALLOW_THREADS
    return cluster_end(self, status, &error);
}

static PyObject *cluster_stop(cluster_object *self, PyObject *args)
{
    const char *reason;
    tfos_error error;
    tfos_status status;
    if (!PyArg_ParseTuple(args, "s:stop", &reason) || !cluster_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = tfos_cluster_stop(self->cluster, reason, &error);
    Py_END_ALLOW_THREADS
    return cluster_end(self, status, &error);
}

/* Opens a feed; returns its number. */
static PyObject *cluster_feed(cluster_object *self, PyObject *args, PyObject *keywords)
{
    tfos_feed_options options;
    uint64_t feed;
    tfos_error error;
    tfos_status status;
    if (!tfos__python_feed_options_init(args, keywords, &options) || !cluster_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = tfos_cluster_open_feed(self->cluster, &options, &feed, &error);
    Py_END_ALLOW_THREADS
    self->calls--;
    return status == TFOS_OK ? PyLong_FromUnsignedLongLong(feed) : tfos__python_raise(&error);
}

static PyObject *cluster_epoch(cluster_object *self, PyObject *args)
{
    unsigned long long feed, epoch;
    tfos_error error;
    tfos_status status;
    if (!PyArg_ParseTuple(args, "KK:epoch", &feed, &epoch) || !cluster_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = tfos_cluster_begin_epoch(self->cluster, feed, epoch, &error);
    Py_END_ALLOW_THREADS
    return cluster_end(self, status, &error);
}

static PyObject *cluster_epoch_end(cluster_object *self, PyObject *args)
{
    unsigned long long feed, epoch;
    tfos_error error;
    tfos_status status;
    if (!PyArg_ParseTuple(args, "KK:epoch_end", &feed, &epoch) || !cluster_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = tfos_cluster_end_epoch(self->cluster, feed, epoch, &error);
    Py_END_ALLOW_THREADS
    return cluster_end(self, status, &error);
}

/* The bytes with which a Spark task feeds. The cluster key is inside. */
static PyObject *cluster_feed_ticket(cluster_object *self, PyObject *args)
{
    unsigned long long feed, epoch;
    uint8_t *bytes;
    size_t count;
    tfos_error error;
    if (!PyArg_ParseTuple(args, "KK:feed_ticket", &feed, &epoch) || !cluster_begin(self)) {
        return NULL;
    }
    tfos_status status = tfos_cluster_feed_ticket(self->cluster, feed, epoch, &bytes, &count, &error);
    self->calls--;
    if (status != TFOS_OK) {
        return tfos__python_raise(&error);
    }
    PyObject *ticket = PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)count);
    tfos_string_free(bytes);
    return ticket;
}

static PyObject *cluster_feed_close(cluster_object *self, PyObject *args)
{
    unsigned long long feed;
    tfos_error error;
    tfos_status status;
    if (!PyArg_ParseTuple(args, "K:feed_close", &feed) || !cluster_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = tfos_cluster_close_feed(self->cluster, feed, &error);
    Py_END_ALLOW_THREADS
    return cluster_end(self, status, &error);
}

static PyObject *cluster_end_of_feed(cluster_object *self, PyObject *unused)
{
    (void)unused;
    return cluster_order(self, tfos_cluster_end_feeds);
}

static PyObject *cluster_close(cluster_object *self, PyObject *unused)
{
    (void)unused;
    tfos_cluster *cluster = self->cluster;
    if (self->calls > 0) {
        PyErr_SetString(PyExc_ValueError, "the cluster is in use by another thread");
        return NULL;
    }
    self->cluster = NULL;
    if (cluster != NULL) {
        Py_BEGIN_ALLOW_THREADS
        tfos_cluster_close(cluster);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static void cluster_dealloc(cluster_object *self)
{
    if (self->cluster != NULL) {
        Py_BEGIN_ALLOW_THREADS
        tfos_cluster_close(self->cluster); /* may wait for processes to end */
        Py_END_ALLOW_THREADS
    }
    tfos__python_free(self);
}

static PyType_Slot cluster_slots[] = {
    {Py_tp_new, cluster_new},
    {Py_tp_dealloc, cluster_dealloc},
    {Py_tp_methods,
     (PyMethodDef[]){{"ticket", (PyCFunction)cluster_ticket, METH_NOARGS, NULL},
                     {"url", (PyCFunction)cluster_url, METH_NOARGS, NULL},
                     {"spawn", (PyCFunction)cluster_spawn, METH_VARARGS, NULL},
                     {"next", (PyCFunction)cluster_next, METH_VARARGS, NULL},
                     {"slots", (PyCFunction)cluster_set_slots, METH_VARARGS, NULL},
                     {"ask", (PyCFunction)cluster_ask, METH_NOARGS, NULL},
                     {"finish", (PyCFunction)cluster_finish, METH_VARARGS, NULL},
                     {"stop", (PyCFunction)cluster_stop, METH_VARARGS, NULL},
                     {"feed", (PyCFunction)(void (*)(void))cluster_feed, METH_VARARGS | METH_KEYWORDS, NULL},
                     {"epoch", (PyCFunction)cluster_epoch, METH_VARARGS, NULL},
                     {"epoch_end", (PyCFunction)cluster_epoch_end, METH_VARARGS, NULL},
                     {"feed_ticket", (PyCFunction)cluster_feed_ticket, METH_VARARGS, NULL},
                     {"feed_close", (PyCFunction)cluster_feed_close, METH_VARARGS, NULL},
                     {"end_of_feed", (PyCFunction)cluster_end_of_feed, METH_NOARGS, NULL},
                     {"close", (PyCFunction)cluster_close, METH_NOARGS, NULL},
                     {0}}},
    {0, NULL},
};

int tfos__python_add_cluster(PyObject *module)
{
    return tfos__python_add_type(module, "Cluster", sizeof(cluster_object), cluster_slots, true, &cluster_type);
}
