/* Writer: owns a writer of the library. Rows come as Batches, Arrow capsules, bytes or columns of Python memory. */
#include "_native.h"

static PyTypeObject *writer_type;

typedef struct writer_object {
    PyObject_HEAD
    tfos_writer *writer; /* NULL once closed */
    bool busy;           /* a thread is in a call without the GIL */
    int64_t records;
} writer_object;

/* Writer(path, record, codec, level, overwrite) */
static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    PyObject *path;
    const char *record, *codec;
    int level, overwrite;
    tfos_write_options options;
    tfos_error error;
    tfos_status status;
    tfos_write_options_init(&options, sizeof options);
    if (!PyArg_ParseTuple(args, "O&ssip:Writer", PyUnicode_FSConverter, &path, &record, &codec, &level, &overwrite)) {
        return NULL;
    }
    options.level = level;
    options.overwrite = overwrite != 0;
    options.interrupted = tfos__python_interrupted;
    writer_object *self = NULL;
    if (tfos_record_kind_parse(record, &options.record, &error) == TFOS_OK &&
        tfos_codec_parse(codec, &options.codec, &error) == TFOS_OK) {
        self = tfos__python_new(type);
    } else {
        tfos__python_raise(&error);
    }
    if (self != NULL) {
        const char *name = PyBytes_AsString(path);
        Py_BEGIN_ALLOW_THREADS
        status = tfos_writer_open(name, &options, &self->writer, &error);
        Py_END_ALLOW_THREADS
        if (status != TFOS_OK) {
            Py_CLEAR(self);
            tfos__python_raise(&error);
        }
    }
    Py_DECREF(path);
    return (PyObject *)self;
}

/* Takes the writer for one call. */
static bool writer_begin(writer_object *self)
{
    if (self->writer == NULL || self->busy) {
        PyErr_SetString(PyExc_ValueError,
                        self->busy ? "the writer is in use by another thread" : "the writer is closed");
        return false;
    }
    self->busy = true;
    return true;
}

static PyObject *writer_end(writer_object *self, tfos_status status, const tfos_error *error)
{
    self->busy = false;
    self->records = tfos_writer_records(self->writer);
    if (status != TFOS_OK) {
        return tfos__python_raise(error);
    }
    tfos__python_log_drain();
    return PyErr_CheckSignals() < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *writer_record(writer_object *self, PyObject *args)
{
    Py_buffer record;
    tfos_error error;
    tfos_status status;
    if (!PyArg_ParseTuple(args, "y*:record", &record)) {
        return NULL;
    }
    if (!writer_begin(self)) {
        PyBuffer_Release(&record);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = tfos_writer_write_record(self->writer, record.buf, (size_t)record.len, &error);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&record);
    return writer_end(self, status, &error);
}

static PyObject *writer_batch(writer_object *self, PyObject *object)
{
    tfos_error error;
    tfos_status status;
    tfos_batch *batch = tfos__python_batch_of(object);
    if (batch == NULL || !writer_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = tfos_writer_write_batch(self->writer, batch, &error);
    Py_END_ALLOW_THREADS
    return writer_end(self, status, &error);
}

static PyObject *write_arrow(writer_object *self, const struct ArrowArray *array, const struct ArrowSchema *schema)
{
    tfos_error error;
    if (!writer_begin(self)) {
        return NULL;
    }
    tfos__python_begin_waiting();
    tfos_status status = tfos_writer_write_arrow(self->writer, array, schema, &error);
    tfos__python_end_waiting();
    return writer_end(self, status, &error);
}

/* array(schema capsule, array capsule), as __arrow_c_array__ returns them */
static PyObject *writer_array(writer_object *self, PyObject *args)
{
    PyObject *schema_in, *array_in;
    if (!PyArg_ParseTuple(args, "OO:array", &schema_in, &array_in)) {
        return NULL;
    }
    const struct ArrowSchema *schema = PyCapsule_GetPointer(schema_in, TFOS__SCHEMA_CAPSULE);
    const struct ArrowArray *array = schema != NULL ? PyCapsule_GetPointer(array_in, TFOS__ARRAY_CAPSULE) : NULL;
    return array != NULL ? write_arrow(self, array, schema) : NULL;
}

/* columns(rows, specs): see tfos__python_table_init */
static PyObject *writer_columns(writer_object *self, PyObject *args)
{
    PyObject *specs;
    long long rows;
    tfos__python_table table;
    if (!PyArg_ParseTuple(args, "LO!:columns", &rows, &PyList_Type, &specs) ||
        !tfos__python_table_init(&table, rows, specs)) {
        return NULL;
    }
    PyObject *result = write_arrow(self, &table.array, &table.schema);
    tfos__python_table_reset(&table);
    return result;
}

/* stream(capsule), as __arrow_c_stream__ returns it */
static PyObject *writer_stream(writer_object *self, PyObject *capsule)
{
    tfos_error error;
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, TFOS__STREAM_CAPSULE);
    if (stream == NULL || !writer_begin(self)) {
        return NULL;
    }
    tfos__python_begin_waiting();
    tfos_status status = tfos_writer_stream(self->writer, stream, &error);
    tfos__python_end_waiting();
    return writer_end(self, status, &error);
}

static PyObject *writer_close(writer_object *self, PyObject *unused)
{
    (void)unused;
    tfos_error error;
    tfos_status status;
    if (self->writer == NULL) {
        Py_RETURN_NONE;
    }
    if (!writer_begin(self)) {
        return NULL;
    }
    tfos_writer *writer = self->writer;
    self->writer = NULL;
    Py_BEGIN_ALLOW_THREADS
    status = tfos_writer_close(writer, &error);
    Py_END_ALLOW_THREADS
    self->busy = false;
    if (status != TFOS_OK) {
        return tfos__python_raise(&error);
    }
    Py_RETURN_NONE;
}

static PyObject *writer_abort(writer_object *self, PyObject *unused)
{
    (void)unused;
    if (self->writer == NULL || !writer_begin(self)) {
        return self->writer == NULL ? Py_NewRef(Py_None) : NULL;
    }
    tfos_writer *writer = self->writer;
    self->writer = NULL;
    Py_BEGIN_ALLOW_THREADS
    tfos_writer_abort(writer);
    Py_END_ALLOW_THREADS
    self->busy = false;
    Py_RETURN_NONE;
}

static PyObject *writer_records(writer_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(self->records);
}

/* A writer that nobody closed leaves no file. */
static void writer_dealloc(writer_object *self)
{
    if (self->writer != NULL) {
        tfos_writer_abort(self->writer);
    }
    tfos__python_free(self);
}

static PyType_Slot writer_slots[] = {
    {Py_tp_new, writer_new},
    {Py_tp_dealloc, writer_dealloc},
    {Py_tp_methods, (PyMethodDef[]){{"record", (PyCFunction)writer_record, METH_VARARGS, NULL},
                                    {"batch", (PyCFunction)writer_batch, METH_O, NULL},
                                    {"array", (PyCFunction)writer_array, METH_VARARGS, NULL},
                                    {"stream", (PyCFunction)writer_stream, METH_O, NULL},
                                    {"columns", (PyCFunction)writer_columns, METH_VARARGS, NULL},
                                    {"close", (PyCFunction)writer_close, METH_NOARGS, NULL},
                                    {"abort", (PyCFunction)writer_abort, METH_NOARGS, NULL},
                                    {0}}},
    {Py_tp_getset, (PyGetSetDef[]){{.name = "records", .get = (getter)writer_records}, {0}}},
    {0, NULL},
};

int tfos__python_add_writer(PyObject *module)
{
    return tfos__python_add_type(module, "Writer", sizeof(writer_object), writer_slots, true, &writer_type);
}
