/* Reader: owns a reference to a reader of the library; and `infer`. */
#include "_native.h"

#include <string.h>

static PyTypeObject *reader_type;

/* ---- What reading and inferring are asked for ---- */

/* What reading and inferring are asked for. */
typedef struct read_request {
    tfos__python_strings inputs;
    tfos__python_strings columns;
    tfos_read_options options;
    tfos_paths *paths;
} read_request;

static void read_request_reset(read_request *request)
{
    tfos__python_strings_reset(&request->inputs);
    tfos__python_strings_reset(&request->columns);
    tfos_paths_free(request->paths);
}

static bool parse_request_options(read_request *out, const char *record, const char *codec, const char *on_corrupt)
{
    tfos_error error;
    if (tfos_record_kind_parse(record, &out->options.record, &error) != TFOS_OK ||
        tfos_codec_parse(codec, &out->options.codec, &error) != TFOS_OK ||
        tfos_on_corrupt_parse(on_corrupt, &out->options.on_corrupt, &error) != TFOS_OK) {
        tfos__python_raise(&error);
        return false;
    }
    return true;
}

static int convert_name(PyObject *name, void *out)
{
    PyObject *bytes = PyUnicode_AsUTF8String(name);
    if (bytes != NULL && strlen(PyBytes_AsString(bytes)) != (size_t)PyBytes_Size(bytes)) {
        PyErr_SetString(PyExc_ValueError, "a column name has no NUL character");
        Py_CLEAR(bytes);
    }
    *(PyObject **)out = bytes;
    return bytes != NULL;
}

/* Parses the arguments and finds the files. On failure there is nothing to reset. */
static bool read_request_init(PyObject *args, read_request *out)
{
    PyObject *inputs, *schema, *columns;
    const char *record, *codec, *on_corrupt;
    long long rows, bytes, infer, start, end;
    int ordered, threads;
    *out = (read_request){0};
    tfos_read_options_init(&out->options, sizeof out->options);
    out->options.interrupted = tfos__python_interrupted;
    if (!PyArg_ParseTuple(args, "OOOsssLLLpiLL", &inputs, &schema, &columns, &record, &codec, &on_corrupt, &rows,
                          &bytes, &infer, &ordered, &threads, &start, &end)) {
        return false;
    }
    out->options.batch_rows = rows;
    out->options.batch_bytes = bytes;
    out->options.infer_records = infer;
    out->options.ordered = ordered != 0;
    out->options.threads = threads;
    out->options.range_start = start;
    out->options.range_end = end;
    if (schema != Py_None) {
        out->options.schema = tfos__python_schema_of(schema);
        if (out->options.schema == NULL) {
            PyErr_SetString(PyExc_TypeError, "schema must be a Schema or None");
            return false;
        }
    }
    tfos_error error;
    tfos_status status = TFOS_OK;
    bool parsed = parse_request_options(out, record, codec, on_corrupt) &&
                  tfos__python_strings_init(inputs, PyUnicode_FSConverter, &out->inputs) &&
                  (columns == Py_None || tfos__python_strings_init(columns, convert_name, &out->columns));
    if (parsed) {
        out->options.columns = columns != Py_None ? out->columns.items : NULL;
        out->options.column_count = out->columns.count;
        Py_BEGIN_ALLOW_THREADS
        status = tfos_paths_expand(out->inputs.items, out->inputs.count, &out->paths, &error);
        Py_END_ALLOW_THREADS
        if (status != TFOS_OK) {
            tfos__python_raise(&error);
        }
    }
    if (!parsed || status != TFOS_OK) {
        read_request_reset(out);
        return false;
    }
    return true;
}

/* infer(…the arguments of Reader…): the Schema of the data. */
static PyObject *infer(PyObject *module, PyObject *args)
{
    (void)module;
    read_request request;
    tfos_schema *schema;
    tfos_error error;
    tfos_status status;
    if (!read_request_init(args, &request)) {
        return NULL;
    }
    tfos__python_begin_waiting();
    status = tfos_schema_infer(request.paths, &request.options, &schema, &error);
    tfos__python_end_waiting();
    read_request_reset(&request);
    if (status != TFOS_OK) {
        return tfos__python_raise(&error);
    }
    tfos__python_log_drain();
    return tfos__python_schema_wrap(schema);
}

/* ---- Reader ---- */

typedef struct reader_object {
    PyObject_HEAD
    tfos_reader *reader;    /* NULL once closed; calls that are going on have references of their own */
    tfos_progress progress; /* when it was closed */
} reader_object;

/* Reader(paths, schema, columns, record, codec, on_corrupt, batch_rows, batch_bytes, infer_records, ordered, threads,
 * start, end) */
static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    read_request request;
    tfos_error error;
    tfos_reader *reader;
    if (!read_request_init(args, &request)) {
        return NULL;
    }
    tfos__python_begin_waiting();
    tfos_status status = tfos_reader_open(request.paths, &request.options, &reader, &error);
    tfos__python_end_waiting();
    read_request_reset(&request);
    if (status != TFOS_OK) {
        return tfos__python_raise(&error);
    }
    reader_object *self = tfos__python_new(type);
    if (self == NULL) {
        tfos_reader_close(reader);
        return NULL;
    }
    self->reader = reader;
    tfos__python_log_drain();
    return (PyObject *)self;
}

/* Closing waits for threads of the library, which never wait for the GIL. */
static PyObject *reader_close(reader_object *self, PyObject *unused)
{
    (void)unused;
    tfos_reader *reader = self->reader;
    self->reader = NULL;
    if (reader != NULL) {
        tfos_reader_progress(reader, &self->progress);
        tfos_reader_cancel(reader);
        Py_BEGIN_ALLOW_THREADS
        tfos_reader_close(reader);
        Py_END_ALLOW_THREADS
        tfos__python_log_drain();
    }
    Py_RETURN_NONE;
}

static void reader_dealloc(reader_object *self)
{
    Py_BEGIN_ALLOW_THREADS
    tfos_reader_close(self->reader);
    Py_END_ALLOW_THREADS
    tfos__python_free(self);
}

static bool reader_is_open(const reader_object *self)
{
    if (self->reader == NULL) {
        PyErr_SetString(PyExc_ValueError, "the reader is closed");
        return false;
    }
    return true;
}

/* The next Batch; None after the last. */
static PyObject *reader_next(reader_object *self, PyObject *unused)
{
    (void)unused;
    tfos_batch *batch = NULL;
    tfos_error error;
    if (!reader_is_open(self)) {
        return NULL;
    }
    tfos_reader *reader = tfos_reader_retain(self->reader);
    tfos__python_begin_waiting();
    tfos_status status = tfos_reader_next(reader, &batch, &error);
    tfos_reader_close(reader);
    tfos__python_end_waiting();
    if (status == TFOS_END) {
        tfos__python_log_drain();
        Py_RETURN_NONE;
    }
    if (status != TFOS_OK) {
        return tfos__python_raise(&error);
    }
    tfos__python_log_drain();
    if (PyErr_CheckSignals() < 0) {
        tfos_batch_free(batch);
        return NULL;
    }
    return tfos__python_batch_wrap(batch);
}

static PyObject *reader_schema(reader_object *self, PyObject *unused)
{
    (void)unused;
    return reader_is_open(self) ? tfos__python_schema_copy(tfos_reader_schema(self->reader)) : NULL;
}

/* The fields of tfos_progress, in their order. */
static PyObject *reader_progress(reader_object *self, PyObject *unused)
{
    (void)unused;
    if (self->reader != NULL) {
        tfos_reader_progress(self->reader, &self->progress);
    }
    const tfos_progress *now = &self->progress;
    return Py_BuildValue("(LLLLLL)", (long long)now->total_bytes, (long long)now->done_bytes, (long long)now->records,
                         (long long)now->skipped_records, (long long)now->skipped_bytes, (long long)now->memory_bytes);
}

static PyObject *reader_arrow(reader_object *self, PyObject *unused)
{
    (void)unused;
    tfos_error error;
    struct ArrowArrayStream *held;
    if (!reader_is_open(self)) {
        return NULL;
    }
    PyObject *capsule = tfos__python_stream_capsule_new(&held);
    if (capsule != NULL && tfos_reader_stream(self->reader, held, &error) != TFOS_OK) {
        Py_DECREF(capsule);
        return tfos__python_raise(&error);
    }
    return capsule;
}

static PyType_Slot reader_slots[] = {
    {Py_tp_new, reader_new},
    {Py_tp_dealloc, reader_dealloc},
    {Py_tp_methods, (PyMethodDef[]){{"next", (PyCFunction)reader_next, METH_NOARGS, NULL},
                                    {"schema", (PyCFunction)reader_schema, METH_NOARGS, NULL},
                                    {"progress", (PyCFunction)reader_progress, METH_NOARGS, NULL},
                                    {"close", (PyCFunction)reader_close, METH_NOARGS, NULL},
                                    {"__arrow_c_stream__", (PyCFunction)reader_arrow, METH_NOARGS, NULL},
                                    {0}}},
    {0, NULL},
};

int tfos__python_add_reader(PyObject *module)
{
    static PyMethodDef functions[] = {{"infer", infer, METH_VARARGS, NULL}, {0}};
    return PyModule_AddFunctions(module, functions) < 0
               ? -1
               : tfos__python_add_type(module, "Reader", sizeof(reader_object), reader_slots, true, &reader_type);
}
