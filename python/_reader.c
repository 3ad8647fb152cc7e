/* Reader: owns a reader of the library, together with the calls and Arrow streams that use it; and `infer`. */
#include "_native.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
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

/* A reader and those who use it: the Reader object, calls that are going on, Arrow streams. The last one closes it. */
typedef struct shared_reader {
    atomic_int references;
    tfos_reader *reader;
} shared_reader;

static shared_reader *shared_retain(shared_reader *shared)
{
    atomic_fetch_add(&shared->references, 1);
    return shared;
}

/* With or without the GIL: closing waits for threads of the library, which never wait for the GIL. */
static void shared_release(shared_reader *shared)
{
    if (shared != NULL && atomic_fetch_sub(&shared->references, 1) == 1) {
        tfos_reader_close(shared->reader);
        free(shared);
    }
}

typedef struct reader_object {
    PyObject_HEAD
    shared_reader *shared;  /* NULL once closed */
    tfos_progress progress; /* when it was closed */
} reader_object;

static shared_reader *open_shared(const read_request *request, tfos_error *error)
{
    shared_reader *shared = calloc(1, sizeof *shared);
    if (shared == NULL) {
        *error = (tfos_error){.status = TFOS_NO_MEMORY, .message = "out of memory"};
        return NULL;
    }
    atomic_init(&shared->references, 1);
    if (tfos_reader_open(request->paths, &request->options, &shared->reader, error) != TFOS_OK) {
        free(shared);
        return NULL;
    }
    return shared;
}

/* Reader(paths, schema, columns, record, codec, on_corrupt, batch_rows, batch_bytes, infer_records, ordered, threads,
 * start, end) */
static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    read_request request;
    tfos_error error;
    shared_reader *shared;
    if (!read_request_init(args, &request)) {
        return NULL;
    }
    tfos__python_begin_waiting();
    shared = open_shared(&request, &error);
    tfos__python_end_waiting();
    read_request_reset(&request);
    if (shared == NULL) {
        return tfos__python_raise(&error);
    }
    reader_object *self = tfos__python_new(type);
    if (self == NULL) {
        shared_release(shared);
        return NULL;
    }
    self->shared = shared;
    tfos__python_log_drain();
    return (PyObject *)self;
}

static PyObject *reader_close(reader_object *self, PyObject *unused)
{
    (void)unused;
    shared_reader *shared = self->shared;
    self->shared = NULL;
    if (shared != NULL) {
        tfos_reader_progress(shared->reader, &self->progress);
        tfos_reader_cancel(shared->reader);
        Py_BEGIN_ALLOW_THREADS
        shared_release(shared);
        Py_END_ALLOW_THREADS
        tfos__python_log_drain();
    }
    Py_RETURN_NONE;
}

static void reader_dealloc(reader_object *self)
{
    shared_reader *shared = self->shared;
    Py_BEGIN_ALLOW_THREADS
    shared_release(shared);
    Py_END_ALLOW_THREADS
    tfos__python_free(self);
}

static shared_reader *reader_use(reader_object *self)
{
    if (self->shared == NULL) {
        PyErr_SetString(PyExc_ValueError, "the reader is closed");
        return NULL;
    }
    return shared_retain(self->shared);
}

/* The next Batch; None after the last. */
static PyObject *reader_next(reader_object *self, PyObject *unused)
{
    (void)unused;
    tfos_batch *batch = NULL;
    tfos_error error;
    tfos_status status;
    shared_reader *shared = reader_use(self);
    if (shared == NULL) {
        return NULL;
    }
    tfos__python_begin_waiting();
    status = tfos_reader_next(shared->reader, &batch, &error);
    shared_release(shared);
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
    shared_reader *shared = reader_use(self);
    if (shared == NULL) {
        return NULL;
    }
    PyObject *schema = tfos__python_schema_copy(tfos_reader_schema(shared->reader));
    shared_release(shared);
    return schema;
}

/* The fields of tfos_progress, in their order. */
static PyObject *reader_progress(reader_object *self, PyObject *unused)
{
    (void)unused;
    if (self->shared != NULL) {
        tfos_reader_progress(self->shared->reader, &self->progress);
    }
    const tfos_progress *now = &self->progress;
    return Py_BuildValue("(LLLLLL)", (long long)now->total_bytes, (long long)now->done_bytes, (long long)now->records,
                         (long long)now->skipped_records, (long long)now->skipped_bytes, (long long)now->memory_bytes);
}

/* ---- Reader as an Arrow stream. These run in threads of the consumer, without the GIL ---- */

typedef struct stream_state {
    shared_reader *shared;
    tfos_error error;
} stream_state;

static int stream_errno(const tfos_error *error)
{
    return error->status == TFOS_NO_MEMORY   ? ENOMEM
           : error->status == TFOS_CANCELLED ? ECANCELED
           : error->status == TFOS_IO        ? EIO
                                             : EINVAL;
}

static int stream_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    stream_state *state = stream->private_data;
    const tfos_schema *schema = tfos_reader_schema(state->shared->reader);
    return tfos_schema_export(schema, out, &state->error) == TFOS_OK ? 0 : stream_errno(&state->error);
}

static int stream_get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    stream_state *state = stream->private_data;
    tfos_batch *batch;
    tfos_status status = tfos_reader_next(state->shared->reader, &batch, &state->error);
    if (status == TFOS_OK) {
        status = tfos_batch_export(batch, out, NULL, &state->error);
        tfos_batch_free(batch);
    } else if (status == TFOS_END) {
        out->release = NULL;
        return 0;
    }
    return status == TFOS_OK ? 0 : stream_errno(&state->error);
}

static const char *stream_get_last_error(struct ArrowArrayStream *stream)
{
    stream_state *state = stream->private_data;
    return state->error.status == TFOS_OK ? NULL : state->error.message;
}

static void stream_release(struct ArrowArrayStream *stream)
{
    stream_state *state = stream->private_data;
    shared_release(state->shared);
    free(state);
    stream->release = NULL;
}

static PyObject *reader_arrow(reader_object *self, PyObject *unused)
{
    (void)unused;
    struct ArrowArrayStream *held;
    stream_state *state = calloc(1, sizeof *state);
    PyObject *capsule = tfos__python_stream_capsule_new(&held);
    shared_reader *shared = state == NULL || capsule == NULL ? NULL : reader_use(self);
    if (shared == NULL) {
        free(state);
        Py_XDECREF(capsule);
        return PyErr_Occurred() != NULL ? NULL : PyErr_NoMemory();
    }
    state->shared = shared;
    *held = (struct ArrowArrayStream){.get_schema = stream_get_schema,
                                      .get_next = stream_get_next,
                                      .get_last_error = stream_get_last_error,
                                      .release = stream_release,
                                      .private_data = state};
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
