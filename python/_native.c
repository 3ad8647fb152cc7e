/* The Python extension: tfos.h as Python objects, and nothing else.
 *
 *   Schema, Reader, Writer   own the object of the library that has the same name
 *   Batch                    owns a reference to a batch
 *   Column                   one level of a column; keeps its Batch alive
 *   Buffer                   memory of a batch, shown by the buffer protocol; keeps its Batch alive
 *   Cluster                  owns a cluster; closing it ends the cluster
 *
 * What a Python programmer meets is in tensorflowonspark/records.py and TFCluster.py; NumPy is used there and not here.
 * Data leaves and enters by the buffer protocol and by Arrow capsules.
 *
 * The GIL is released around every call that works or waits. Threads of the library never take it: their log lines are
 * queued, and whichever Python thread comes by next hands them to Python's logging. So whatever holds an object of the
 * library may be freed with or without the GIL, and nobody waits for a thread that waits for the GIL. */
#include "_native.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static PyTypeObject *schema_type;
static PyTypeObject *batch_type;
static PyTypeObject *column_type;
static PyTypeObject *buffer_type;
static PyTypeObject *reader_type;
static PyTypeObject *writer_type;
static PyTypeObject *cluster_type;

static void *new_object(PyTypeObject *type)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return allocate(type, 0);
}

/* Objects of heap types hold a reference to their type. */
static void free_object(void *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* ---- Log ----------------------------------------------------------------------------------------------------------
 */

typedef struct log_line {
    struct log_line *next;
    tfos_log_level level;
    char text[];
} log_line;

enum { LOG_LINES_MAX = 1000 }; /* more than this wait only if Python does nothing at all; the newest are dropped */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static log_line *log_first;
static log_line **log_end = &log_first;
static int log_count;
static PyObject *logger;

static log_line *log_take_all(void)
{
    pthread_mutex_lock(&log_lock);
    log_line *lines = log_first;
    log_first = NULL;
    log_end = &log_first;
    log_count = 0;
    pthread_mutex_unlock(&log_lock);
    return lines;
}

/* Hands queued lines to Python's logging. Called with the GIL, while no exception is set. */
static int log_drain(void *unused)
{
    static const int python_level[] = {
        [TFOS_LOG_ERROR] = 40, [TFOS_LOG_WARN] = 30, [TFOS_LOG_INFO] = 20, [TFOS_LOG_DEBUG] = 10};
    (void)unused;
    log_line *line = log_take_all();
    while (line != NULL) {
        /* Paths are bytes, and a line may name one that is no text. */
        PyObject *text = PyUnicode_DecodeUTF8(line->text, (Py_ssize_t)strlen(line->text), "replace");
        int level = python_level[line->level];
        PyObject *result = text != NULL ? PyObject_CallMethod(logger, "log", "isO", level, "%s", text) : NULL;
        if (result == NULL) {
            PyErr_WriteUnraisable(logger);
        }
        Py_XDECREF(text);
        Py_XDECREF(result);
        log_line *next = line->next;
        free(line);
        line = next;
    }
    return 0;
}

/* The library's log function: any thread, without the GIL. */
static void log_queue(tfos_log_level level, const char *message, void *context)
{
    (void)context;
    size_t bytes = strlen(message) + 1;
    log_line *line = malloc(sizeof *line + bytes);
    if (line == NULL) {
        return;
    }
    line->next = NULL;
    line->level = level;
    memcpy(line->text, message, bytes);
    pthread_mutex_lock(&log_lock);
    bool first = log_count == 0;
    bool keep = log_count < LOG_LINES_MAX;
    if (keep) {
        *log_end = line;
        log_end = &line->next;
        log_count++;
    }
    pthread_mutex_unlock(&log_lock);
    if (!keep) {
        free(line);
    } else if (first) {
        Py_AddPendingCall(log_drain, NULL);
    }
}

/* Called at exit, before the interpreter is taken down: afterwards no line reaches Python. */
static PyObject *log_stop(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS tfos_log_set(NULL, NULL);
    Py_END_ALLOW_THREADS log_drain(NULL);
    Py_RETURN_NONE;
}

/* ---- Errors -------------------------------------------------------------------------------------------------------
 */

#define ONE(name, value, text) +1
enum { STATUS_COUNT = 0 TFOS_STATUS_MAP(ONE) };
#undef ONE

static PyObject *error_class;
static PyObject *status_classes[STATUS_COUNT];

/* The exception of Python's own that an error of this status is as well. */
static PyObject *builtin_of(tfos_status status)
{
    switch (status) {
    case TFOS_NOT_FOUND:
        return PyExc_FileNotFoundError;
    case TFOS_PERMISSION:
        return PyExc_PermissionError;
    case TFOS_EXISTS:
        return PyExc_FileExistsError;
    case TFOS_IO:
    case TFOS_NO_SPACE:
        return PyExc_OSError;
    case TFOS_NO_MEMORY:
        return PyExc_MemoryError;
    case TFOS_UNSUPPORTED:
        return PyExc_NotImplementedError;
    case TFOS_MISSING_LIBRARY:
    case TFOS_CANCELLED:
        return PyExc_RuntimeError;
    default:
        return PyExc_ValueError;
    }
}

/* NOT_FOUND becomes NotFoundError, in the module where users find it. */
static void class_name(tfos_status status, char *out)
{
    static const char module[] = "tensorflowonspark.records.";
    bool upper = true;
    memcpy(out, module, sizeof module - 1);
    out += sizeof module - 1;
    for (const char *in = tfos_status_name(status); *in != '\0'; in++) {
        if (*in == '_') {
            upper = true;
        } else {
            *out++ = (char)(upper ? *in : *in + ('a' - 'A'));
            upper = false;
        }
    }
    strcpy(out, "Error");
}

static int add_error_class(PyObject *module, tfos_status status)
{
    char name[128];
    class_name(status, name);
    PyObject *parent = status == TFOS_TRUNCATED ? status_classes[TFOS_CORRUPT] : error_class;
    PyObject *builtin = status == TFOS_TRUNCATED ? NULL : builtin_of(status);
    PyObject *bases = builtin != NULL ? PyTuple_Pack(2, parent, builtin) : PyTuple_Pack(1, parent);
    PyObject *attributes = Py_BuildValue("{ss}", "status", tfos_status_name(status));
    if (bases != NULL && attributes != NULL) {
        status_classes[status] = PyErr_NewExceptionWithDoc(name, tfos_status_text(status), bases, attributes);
    }
    Py_XDECREF(bases);
    Py_XDECREF(attributes);
    if (status_classes[status] == NULL) {
        return -1;
    }
    return PyModule_AddObjectRef(module, strrchr(name, '.') + 1, status_classes[status]);
}

static int add_error_classes(PyObject *module)
{
    PyObject *attributes = Py_BuildValue("{sOsO}", "status", Py_None, "retriable", Py_False);
    if (attributes == NULL) {
        return -1;
    }
    error_class = PyErr_NewExceptionWithDoc("tensorflowonspark.records.Error",
                                            "What the library reports: `status` is its name for the kind of error, "
                                            "`retriable` whether the same call may succeed later.",
                                            NULL, attributes);
    Py_DECREF(attributes);
    if (error_class == NULL || PyModule_AddObjectRef(module, "Error", error_class) < 0) {
        return -1;
    }
    for (int status = TFOS_END + 1; status < STATUS_COUNT; status++) {
        if (add_error_class(module, (tfos_status)status) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Raises the exception for an error of the library; returns NULL. */
static PyObject *raise_error(const tfos_error *error)
{
    if (error->status == TFOS_CANCELLED && PyErr_Occurred()) {
        return NULL; /* what interrupted the call says more: KeyboardInterrupt */
    }
    log_drain(NULL);
    PyObject *class = status_classes[error->status];
    PyObject *message = PyUnicode_DecodeUTF8(error->message, (Py_ssize_t)strlen(error->message), "replace");
    if (message == NULL) {
        return NULL;
    }
    PyObject *exception = PyObject_CallFunctionObjArgs(class, message, NULL);
    Py_DECREF(message);
    if (exception == NULL) {
        return NULL;
    }
    if (PyObject_SetAttrString(exception, "retriable", error->retriable ? Py_True : Py_False) == 0) {
        PyErr_SetObject(class, exception);
    }
    Py_DECREF(exception);
    return NULL;
}

/* ---- Arrow capsules -----------------------------------------------------------------------------------------------
 */

static const char SCHEMA_CAPSULE[] = "arrow_schema";
static const char ARRAY_CAPSULE[] = "arrow_array";
static const char STREAM_CAPSULE[] = "arrow_array_stream";

#define CAPSULE_FREE(function, type, name)                                                                             \
    static void function(PyObject *capsule)                                                                            \
    {                                                                                                                  \
        struct type *held = PyCapsule_GetPointer(capsule, name);                                                       \
        if (held->release != NULL) {                                                                                   \
            held->release(held);                                                                                       \
        }                                                                                                              \
        free(held);                                                                                                    \
    }
CAPSULE_FREE(free_schema_capsule, ArrowSchema, SCHEMA_CAPSULE)
CAPSULE_FREE(free_array_capsule, ArrowArray, ARRAY_CAPSULE)
CAPSULE_FREE(free_stream_capsule, ArrowArrayStream, STREAM_CAPSULE)
#undef CAPSULE_FREE

/* Hands a zeroed struct of `bytes` to a new capsule, which releases and frees it. */
static PyObject *new_capsule(size_t bytes, const char *name, PyCapsule_Destructor destructor, void **out)
{
    void *held = calloc(1, bytes);
    if (held == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *capsule = PyCapsule_New(held, name, destructor);
    if (capsule == NULL) {
        free(held);
        return NULL;
    }
    *out = held;
    return capsule;
}

static PyObject *schema_capsule(const tfos_schema *schema)
{
    tfos_error error;
    void *held = NULL;
    PyObject *capsule = new_capsule(sizeof(struct ArrowSchema), SCHEMA_CAPSULE, free_schema_capsule, &held);
    if (capsule != NULL && tfos_schema_export(schema, held, &error) != TFOS_OK) {
        Py_DECREF(capsule);
        return raise_error(&error);
    }
    return capsule;
}

/* ---- Schema -------------------------------------------------------------------------------------------------------
 */

typedef struct schema_object {
    PyObject_HEAD tfos_schema *schema;
} schema_object;

/* Takes the schema over, also on failure. */
static PyObject *schema_wrap(tfos_schema *schema)
{
    schema_object *self = new_object(schema_type);
    if (self == NULL) {
        tfos_schema_free(schema);
        return NULL;
    }
    self->schema = schema;
    return (PyObject *)self;
}

static PyObject *schema_copy(const tfos_schema *from)
{
    tfos_error error;
    tfos_schema *copy;
    tfos_record_kind kind = tfos_schema_kind(from);
    tfos_status status = tfos_schema_new(kind, &copy, &error);
    if (status != TFOS_OK) {
        return raise_error(&error);
    }
    status = tfos_schema_set_note(copy, tfos_schema_note(from), &error);
    for (size_t i = 0; kind != TFOS_RECORD_BYTES && i < tfos_schema_field_count(from) && status == TFOS_OK; i++) {
        status = tfos_schema_add(copy, tfos_schema_field(from, i), &error);
    }
    if (status != TFOS_OK) {
        tfos_schema_free(copy);
        return raise_error(&error);
    }
    return schema_wrap(copy);
}

/* Schema(text): from the JSON form. */
static PyObject *schema_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)type;
    (void)keywords;
    const char *text;
    Py_ssize_t bytes;
    tfos_schema *schema;
    tfos_error error;
    if (!PyArg_ParseTuple(args, "s#:Schema", &text, &bytes)) {
        return NULL;
    }
    if (tfos_schema_from_json(text, (size_t)bytes, &schema, &error) != TFOS_OK) {
        return raise_error(&error);
    }
    return schema_wrap(schema);
}

/* Schema.from_arrow(capsule), as __arrow_c_schema__ returns it. */
static PyObject *schema_from_arrow(PyObject *unused, PyObject *capsule)
{
    (void)unused;
    tfos_schema *schema;
    tfos_error error;
    const struct ArrowSchema *held = PyCapsule_GetPointer(capsule, SCHEMA_CAPSULE);
    if (held == NULL) {
        return NULL;
    }
    if (tfos_schema_import(held, TFOS_RECORD_AUTO, &schema, &error) != TFOS_OK) {
        return raise_error(&error);
    }
    return schema_wrap(schema);
}

static void schema_dealloc(schema_object *self)
{
    tfos_schema_free(self->schema);
    free_object(self);
}

static PyObject *schema_to_json(schema_object *self, PyObject *unused)
{
    (void)unused;
    char *text;
    tfos_error error;
    if (tfos_schema_to_json(self->schema, &text, &error) != TFOS_OK) {
        return raise_error(&error);
    }
    PyObject *result = PyUnicode_FromString(text);
    tfos_string_free(text);
    return result;
}

/* (name, type, shape, nullable, feature_list); the shape is (), (n,) or (None,), as in JSON. */
static PyObject *field_tuple(const tfos_field *field)
{
    PyObject *shape = field->shape == TFOS_SHAPE_SCALAR  ? PyTuple_New(0)
                      : field->shape == TFOS_SHAPE_FIXED ? Py_BuildValue("(i)", (int)field->length)
                                                         : Py_BuildValue("(O)", Py_None);
    return Py_BuildValue("(ssNOO)", field->name, tfos_type_name(field->type), shape,
                         field->nullable ? Py_True : Py_False, field->feature_list ? Py_True : Py_False);
}

static PyObject *schema_fields(schema_object *self, PyObject *unused)
{
    (void)unused;
    size_t count = tfos_schema_field_count(self->schema);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *field = field_tuple(tfos_schema_field(self->schema, i));
        if (field == NULL || PyList_SetItem(list, (Py_ssize_t)i, field) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *schema_record(schema_object *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(tfos_record_kind_name(tfos_schema_kind(self->schema)));
}

static PyObject *schema_arrow(schema_object *self, PyObject *unused)
{
    (void)unused;
    return schema_capsule(self->schema);
}

static PyType_Slot schema_slots[] = {
    {Py_tp_new, schema_new},
    {Py_tp_dealloc, schema_dealloc},
    {Py_tp_methods, (PyMethodDef[]){{"from_arrow", schema_from_arrow, METH_O | METH_STATIC, NULL},
                                    {"to_json", (PyCFunction)schema_to_json, METH_NOARGS, NULL},
                                    {"fields", (PyCFunction)schema_fields, METH_NOARGS, NULL},
                                    {"__arrow_c_schema__", (PyCFunction)schema_arrow, METH_NOARGS, NULL},
                                    {0}}},
    {Py_tp_getset, (PyGetSetDef[]){{.name = "record", .get = (getter)schema_record}, {0}}},
    {0, NULL},
};

/* ---- Buffer -------------------------------------------------------------------------------------------------------
 */

typedef struct buffer_object {
    PyObject_HEAD PyObject *owner;
    const void *data;
    const char *format;
    Py_ssize_t item_bytes;
    Py_ssize_t count;
} buffer_object;

static PyObject *buffer_new(PyObject *owner, const void *data, const char *format, size_t item_bytes, int64_t count)
{
    buffer_object *self = new_object(buffer_type);
    if (self != NULL) {
        self->owner = Py_NewRef(owner);
        self->data = data;
        self->format = format;
        self->item_bytes = (Py_ssize_t)item_bytes;
        self->count = (Py_ssize_t)count;
    }
    return (PyObject *)self;
}

static void buffer_dealloc(buffer_object *self)
{
    Py_XDECREF(self->owner);
    free_object(self);
}

static int buffer_get(buffer_object *self, Py_buffer *view, int flags)
{
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE) {
        view->obj = NULL;
        PyErr_SetString(PyExc_BufferError, "the memory of a batch is read-only: copy it to change it");
        return -1;
    }
    *view = (Py_buffer){.buf = (void *)(uintptr_t)self->data,
                        .obj = Py_NewRef((PyObject *)self),
                        .len = self->count * self->item_bytes,
                        .itemsize = self->item_bytes,
                        .readonly = 1,
                        .ndim = 1,
                        .format = (flags & PyBUF_FORMAT) != 0 ? (char *)(uintptr_t)self->format : NULL,
                        .shape = (flags & PyBUF_ND) != 0 ? &self->count : NULL,
                        .strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? &self->item_bytes : NULL};
    return 0;
}

static PyType_Slot buffer_slots[] = {
    {Py_tp_dealloc, buffer_dealloc},
    {Py_bf_getbuffer, buffer_get},
    {0, NULL},
};

/* ---- Column -------------------------------------------------------------------------------------------------------
 */

typedef struct column_object {
    PyObject_HEAD PyObject *owner;
    const tfos_vector *vector;
} column_object;

static PyObject *column_wrap(PyObject *owner, const tfos_vector *vector)
{
    column_object *self = new_object(column_type);
    if (self != NULL) {
        self->owner = Py_NewRef(owner);
        self->vector = vector;
    }
    return (PyObject *)self;
}

static void column_dealloc(column_object *self)
{
    Py_XDECREF(self->owner);
    free_object(self);
}

static bool bit_at(const uint8_t *bits, int64_t index)
{
    return (bits[index >> 3] >> (index & 7)) & 1;
}

static PyObject *objects_between(const tfos_vector *vector, int64_t start, int64_t end);

static PyObject *value_at(const tfos_vector *vector, int64_t row)
{
    switch (vector->type) {
    case TFOS_TYPE_INT32:
        return PyLong_FromLong(((const int32_t *)vector->data)[row]);
    case TFOS_TYPE_INT64:
        return PyLong_FromLongLong(((const int64_t *)vector->data)[row]);
    case TFOS_TYPE_FLOAT:
        return PyFloat_FromDouble((double)((const float *)vector->data)[row]);
    case TFOS_TYPE_DOUBLE:
        return PyFloat_FromDouble(((const double *)vector->data)[row]);
    default:
        return PyBool_FromLong(bit_at(vector->data, row));
    }
}

static PyObject *object_at(const tfos_vector *vector, int64_t row)
{
    if (vector->validity != NULL && !bit_at(vector->validity, row)) {
        return Py_NewRef(Py_None);
    }
    if (vector->layout == TFOS_LAYOUT_BYTES) {
        const char *bytes = (const char *)vector->data + vector->offsets[row];
        Py_ssize_t count = vector->offsets[row + 1] - vector->offsets[row];
        return vector->type == TFOS_TYPE_STRING ? PyUnicode_DecodeUTF8(bytes, count, NULL)
                                                : PyBytes_FromStringAndSize(bytes, count);
    }
    if (vector->layout == TFOS_LAYOUT_LIST) {
        return objects_between(vector->child, vector->offsets[row], vector->offsets[row + 1]);
    }
    if (vector->layout == TFOS_LAYOUT_FIXED_LIST) {
        return objects_between(vector->child, row * vector->list_length, (row + 1) * vector->list_length);
    }
    return value_at(vector, row);
}

/* A list of rows as Python objects. Columns are at most three levels deep, so this calls itself at most twice. */
static PyObject *objects_between(const tfos_vector *vector, int64_t start, int64_t end)
{
    PyObject *list = PyList_New((Py_ssize_t)(end - start));
    for (int64_t row = start; list != NULL && row < end; row++) {
        PyObject *object = object_at(vector, row);
        if (object == NULL || PyList_SetItem(list, (Py_ssize_t)(row - start), object) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *column_tolist(column_object *self, PyObject *unused)
{
    (void)unused;
    return objects_between(self->vector, 0, self->vector->length);
}

/* One byte, 0 or 1, for each bit; `flip` is 1 to turn them round. */
static PyObject *unpack_bits(const uint8_t *bits, int64_t count, char flip)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)count);
    if (bytes != NULL) {
        char *out = PyBytes_AsString(bytes);
        for (int64_t i = 0; i < count; i++) {
            out[i] = (char)(bit_at(bits, i) ^ flip);
        }
    }
    return bytes;
}

/* One byte for each row: 1 where the value is missing. None: nowhere. */
static PyObject *column_mask(column_object *self, PyObject *unused)
{
    (void)unused;
    if (self->vector->validity == NULL) {
        Py_RETURN_NONE;
    }
    return unpack_bits(self->vector->validity, self->vector->length, 1);
}

static PyObject *column_length(column_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(self->vector->length);
}

static PyObject *column_list_length(column_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(self->vector->list_length);
}

static PyObject *column_type_name(column_object *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(tfos_type_name(self->vector->type));
}

static PyObject *column_layout(column_object *self, void *unused)
{
    static const char *const names[] = {[TFOS_LAYOUT_VALUES] = "values",
                                        [TFOS_LAYOUT_BYTES] = "bytes",
                                        [TFOS_LAYOUT_LIST] = "list",
                                        [TFOS_LAYOUT_FIXED_LIST] = "fixed_list"};
    (void)unused;
    return PyUnicode_FromString(names[self->vector->layout]);
}

static PyObject *column_child(column_object *self, void *unused)
{
    (void)unused;
    if (self->vector->child == NULL) {
        Py_RETURN_NONE;
    }
    return column_wrap(self->owner, self->vector->child);
}

/* The values of this level: a Buffer; for booleans bytes of 0 and 1, copied; None for lists. */
static PyObject *column_data(column_object *self, void *unused)
{
    (void)unused;
    const tfos_vector *vector = self->vector;
    if (vector->layout == TFOS_LAYOUT_BYTES) {
        return buffer_new(self->owner, vector->data, "B", 1, vector->offsets[vector->length]);
    }
    if (vector->layout != TFOS_LAYOUT_VALUES) {
        Py_RETURN_NONE;
    }
    switch (vector->type) {
    case TFOS_TYPE_INT32:
        return buffer_new(self->owner, vector->data, "i", sizeof(int32_t), vector->length);
    case TFOS_TYPE_INT64:
        return buffer_new(self->owner, vector->data, "l", sizeof(int64_t), vector->length);
    case TFOS_TYPE_FLOAT:
        return buffer_new(self->owner, vector->data, "f", sizeof(float), vector->length);
    case TFOS_TYPE_DOUBLE:
        return buffer_new(self->owner, vector->data, "d", sizeof(double), vector->length);
    default:
        return unpack_bits(vector->data, vector->length, 0);
    }
}

static PyObject *column_offsets(column_object *self, void *unused)
{
    (void)unused;
    if (self->vector->offsets == NULL) {
        Py_RETURN_NONE;
    }
    return buffer_new(self->owner, self->vector->offsets, "i", sizeof(int32_t), self->vector->length + 1);
}

static PyType_Slot column_slots[] = {
    {Py_tp_dealloc, column_dealloc},
    {Py_tp_methods, (PyMethodDef[]){{"tolist", (PyCFunction)column_tolist, METH_NOARGS, NULL},
                                    {"mask", (PyCFunction)column_mask, METH_NOARGS, NULL},
                                    {0}}},
    {Py_tp_getset, (PyGetSetDef[]){{.name = "length", .get = (getter)column_length},
                                   {.name = "list_length", .get = (getter)column_list_length},
                                   {.name = "type", .get = (getter)column_type_name},
                                   {.name = "layout", .get = (getter)column_layout},
                                   {.name = "child", .get = (getter)column_child},
                                   {.name = "data", .get = (getter)column_data},
                                   {.name = "offsets", .get = (getter)column_offsets},
                                   {0}}},
    {0, NULL},
};

/* ---- Batch --------------------------------------------------------------------------------------------------------
 */

typedef struct batch_object {
    PyObject_HEAD tfos_batch *batch;
} batch_object;

/* Takes the reference over, also on failure. */
static PyObject *batch_wrap(tfos_batch *batch)
{
    batch_object *self = new_object(batch_type);
    if (self == NULL) {
        tfos_batch_free(batch);
        return NULL;
    }
    self->batch = batch;
    return (PyObject *)self;
}

static void batch_dealloc(batch_object *self)
{
    tfos_batch_free(self->batch);
    free_object(self);
}

static Py_ssize_t batch_length(batch_object *self)
{
    return (Py_ssize_t)tfos_batch_rows(self->batch);
}

static PyObject *batch_column(batch_object *self, PyObject *args)
{
    const char *name;
    if (!PyArg_ParseTuple(args, "s:column", &name)) {
        return NULL;
    }
    int64_t index = tfos_schema_find(tfos_batch_schema(self->batch), name);
    if (index < 0) {
        PyErr_SetString(PyExc_KeyError, name);
        return NULL;
    }
    return column_wrap((PyObject *)self, tfos_batch_column(self->batch, (size_t)index));
}

static PyObject *batch_arrow(batch_object *self, PyObject *unused)
{
    (void)unused;
    tfos_error error;
    void *held = NULL;
    PyObject *schema = schema_capsule(tfos_batch_schema(self->batch));
    if (schema == NULL) {
        return NULL;
    }
    PyObject *array = new_capsule(sizeof(struct ArrowArray), ARRAY_CAPSULE, free_array_capsule, &held);
    if (array != NULL && tfos_batch_export(self->batch, held, NULL, &error) != TFOS_OK) {
        Py_CLEAR(array);
        raise_error(&error);
    }
    if (array == NULL) {
        Py_DECREF(schema);
        return NULL;
    }
    return Py_BuildValue("(NN)", schema, array);
}

static PyObject *batch_bytes(batch_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(tfos_batch_bytes(self->batch));
}

static PyType_Slot batch_slots[] = {
    {Py_tp_dealloc, batch_dealloc},
    {Py_sq_length, batch_length},
    {Py_tp_methods, (PyMethodDef[]){{"column", (PyCFunction)batch_column, METH_VARARGS, NULL},
                                    {"__arrow_c_array__", (PyCFunction)batch_arrow, METH_NOARGS, NULL},
                                    {0}}},
    {Py_tp_getset, (PyGetSetDef[]){{.name = "nbytes", .get = (getter)batch_bytes}, {0}}},
    {0, NULL},
};

/* ---- Lists of strings ---------------------------------------------------------------------------------------------
 */

/* C strings that live as long as the Python objects that hold them. */
typedef struct string_list {
    PyObject *owners;
    const char **items;
    size_t count;
} string_list;

static void string_list_free(string_list *list)
{
    Py_CLEAR(list->owners);
    free(list->items);
    list->items = NULL;
}

/* `convert` makes a bytes object of an item, as PyUnicode_FSConverter does: an item with a NUL byte is an error. */
static bool string_list_new(PyObject *sequence, int (*convert)(PyObject *, void *), string_list *out)
{
    Py_ssize_t count = PySequence_Size(sequence);
    *out = (string_list){.owners = count < 0 ? NULL : PyList_New(0)};
    out->items = calloc((size_t)(count < 0 ? 0 : count) + 1, sizeof *out->items);
    if (out->owners == NULL || out->items == NULL) {
        if (PyErr_Occurred() == NULL) {
            PyErr_NoMemory();
        }
        string_list_free(out);
        return false;
    }
    for (; out->count < (size_t)count; out->count++) {
        PyObject *item = PySequence_GetItem(sequence, (Py_ssize_t)out->count);
        PyObject *bytes = NULL;
        bool converted = item != NULL && convert(item, &bytes) && PyList_Append(out->owners, bytes) == 0;
        if (converted) {
            out->items[out->count] = PyBytes_AsString(bytes);
        }
        Py_XDECREF(item);
        Py_XDECREF(bytes);
        if (!converted) {
            string_list_free(out);
            return false;
        }
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

/* ---- Options ------------------------------------------------------------------------------------------------------
 */

static bool parse_record_kind(const char *text, tfos_record_kind *out)
{
    for (tfos_record_kind kind = TFOS_RECORD_AUTO; kind <= TFOS_RECORD_BYTES; kind++) {
        if (strcmp(text, tfos_record_kind_name(kind)) == 0) {
            *out = kind;
            return true;
        }
    }
    PyErr_Format(PyExc_ValueError, "record is '%s'; expected 'auto', 'example', 'sequence_example' or 'bytes'", text);
    return false;
}

static bool parse_codec(const char *text, tfos_codec *out)
{
    tfos_error error;
    if (tfos_codec_parse(text, out, &error) == TFOS_OK) {
        return true;
    }
    raise_error(&error);
    return false;
}

static bool parse_on_corrupt(const char *text, tfos_on_corrupt *out)
{
    if (strcmp(text, "error") != 0 && strcmp(text, "skip") != 0) {
        PyErr_Format(PyExc_ValueError, "on_corrupt is '%s'; expected 'error' or 'skip'", text);
        return false;
    }
    *out = strcmp(text, "skip") == 0 ? TFOS_ON_CORRUPT_SKIP : TFOS_ON_CORRUPT_ERROR;
    return true;
}

/* Calls that may last: they give up the GIL, and take it back now and then to look at signals, so that Ctrl-C ends
 * them. The state of the thread is kept where `interrupted` finds it; a thread of somebody else, in an Arrow stream,
 * has none and is not asked. */
static _Thread_local PyThreadState *waiting;

static void begin_waiting(void)
{
    waiting = PyEval_SaveThread();
}

static void end_waiting(void)
{
    PyEval_RestoreThread(waiting);
    waiting = NULL;
}

static bool interrupted(void *context)
{
    (void)context;
    if (waiting == NULL) {
        return false;
    }
    PyEval_RestoreThread(waiting);
    bool found = PyErr_CheckSignals() < 0;
    waiting = PyEval_SaveThread();
    return found;
}

/* What reading and inferring are asked for. */
typedef struct read_request {
    string_list inputs;
    string_list columns;
    tfos_read_options options;
    tfos_paths *paths;
} read_request;

static void read_request_reset(read_request *request)
{
    string_list_free(&request->inputs);
    string_list_free(&request->columns);
    tfos_paths_free(request->paths);
}

static bool parse_request_options(read_request *out, const char *record, const char *codec, const char *on_corrupt)
{
    return parse_record_kind(record, &out->options.record) && parse_codec(codec, &out->options.codec) &&
           parse_on_corrupt(on_corrupt, &out->options.on_corrupt);
}

/* Parses the arguments and finds the files. On failure there is nothing to reset. */
static bool read_request_init(PyObject *args, read_request *out)
{
    PyObject *inputs, *schema, *columns;
    const char *record, *codec, *on_corrupt;
    long long rows, bytes, infer, start, end;
    int ordered, threads;
    *out = (read_request){0};
    tfos_read_options_init(&out->options);
    out->options.interrupted = interrupted;
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
        if (!PyObject_TypeCheck(schema, schema_type)) {
            PyErr_SetString(PyExc_TypeError, "schema must be a Schema or None");
            return false;
        }
        out->options.schema = ((schema_object *)schema)->schema;
    }
    tfos_error error;
    tfos_status status = TFOS_OK;
    bool parsed = parse_request_options(out, record, codec, on_corrupt) &&
                  string_list_new(inputs, PyUnicode_FSConverter, &out->inputs) &&
                  (columns == Py_None || string_list_new(columns, convert_name, &out->columns));
    if (parsed) {
        out->options.columns = columns != Py_None ? out->columns.items : NULL;
        out->options.column_count = out->columns.count;
        Py_BEGIN_ALLOW_THREADS status = tfos_paths_expand(out->inputs.items, out->inputs.count, &out->paths, &error);
        Py_END_ALLOW_THREADS if (status != TFOS_OK)
        {
            raise_error(&error);
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
    begin_waiting();
    status = tfos_schema_infer(request.paths, &request.options, &schema, &error);
    end_waiting();
    read_request_reset(&request);
    if (status != TFOS_OK) {
        return raise_error(&error);
    }
    log_drain(NULL);
    return schema_wrap(schema);
}

/* ---- Reader -------------------------------------------------------------------------------------------------------
 */

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
    PyObject_HEAD shared_reader *shared; /* NULL once closed */
    tfos_progress progress;              /* when it was closed */
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
    begin_waiting();
    shared = open_shared(&request, &error);
    end_waiting();
    read_request_reset(&request);
    if (shared == NULL) {
        return raise_error(&error);
    }
    reader_object *self = new_object(type);
    if (self == NULL) {
        shared_release(shared);
        return NULL;
    }
    self->shared = shared;
    log_drain(NULL);
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
        Py_BEGIN_ALLOW_THREADS shared_release(shared);
        Py_END_ALLOW_THREADS log_drain(NULL);
    }
    Py_RETURN_NONE;
}

static void reader_dealloc(reader_object *self)
{
    shared_reader *shared = self->shared;
    Py_BEGIN_ALLOW_THREADS shared_release(shared);
    Py_END_ALLOW_THREADS free_object(self);
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
    begin_waiting();
    status = tfos_reader_next(shared->reader, &batch, &error);
    shared_release(shared);
    end_waiting();
    if (status == TFOS_END) {
        log_drain(NULL);
        Py_RETURN_NONE;
    }
    if (status != TFOS_OK) {
        return raise_error(&error);
    }
    log_drain(NULL);
    if (PyErr_CheckSignals() < 0) {
        tfos_batch_free(batch);
        return NULL;
    }
    return batch_wrap(batch);
}

static PyObject *reader_schema(reader_object *self, PyObject *unused)
{
    (void)unused;
    shared_reader *shared = reader_use(self);
    if (shared == NULL) {
        return NULL;
    }
    PyObject *schema = schema_copy(tfos_reader_schema(shared->reader));
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
    void *held = NULL;
    stream_state *state = calloc(1, sizeof *state);
    PyObject *capsule = new_capsule(sizeof(struct ArrowArrayStream), STREAM_CAPSULE, free_stream_capsule, &held);
    shared_reader *shared = state == NULL || capsule == NULL ? NULL : reader_use(self);
    if (shared == NULL) {
        free(state);
        Py_XDECREF(capsule);
        return PyErr_Occurred() != NULL ? NULL : PyErr_NoMemory();
    }
    state->shared = shared;
    *(struct ArrowArrayStream *)held = (struct ArrowArrayStream){.get_schema = stream_get_schema,
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

/* ---- Columns of Python memory as an Arrow struct ------------------------------------------------------------------
 */

enum { NODE_BUFFERS = 3 };

/* How deep a column may be nested before the library sees it and says what it takes. NumPy has 64 dimensions. */
enum { NODE_LEVELS = 64 };

/* One level of a column. The memory is that of Python objects, held by `views` while the struct is used. */
typedef struct node {
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct ArrowSchema *schema_child;
    struct ArrowArray *array_child;
    struct node *child;
    const void *buffers[NODE_BUFFERS];
    Py_buffer views[NODE_BUFFERS];
    int view_count;
} node;

static void keep_schema(struct ArrowSchema *schema)
{
    schema->release = NULL;
}

static void keep_array(struct ArrowArray *array)
{
    array->release = NULL;
}

static void node_free(node *old)
{
    while (old != NULL) {
        node *child = old->child;
        for (int i = 0; i < old->view_count; i++) {
            if (old->views[i].obj != NULL) {
                PyBuffer_Release(&old->views[i]);
            }
        }
        free(old);
        old = child;
    }
}

static bool node_hold(node *to, PyObject *buffers)
{
    Py_ssize_t count = PyTuple_Size(buffers);
    if (count < 0 || count > NODE_BUFFERS) {
        PyErr_SetString(PyExc_ValueError, "a column has a tuple of at most 3 buffers");
        return false;
    }
    for (; to->view_count < count; to->view_count++) {
        PyObject *buffer = PyTuple_GetItem(buffers, to->view_count);
        Py_buffer *view = &to->views[to->view_count];
        if (buffer != Py_None && PyObject_GetBuffer(buffer, view, PyBUF_SIMPLE) < 0) {
            return false;
        }
        to->buffers[to->view_count] = view->buf;
    }
    to->array.n_buffers = count;
    return true;
}

static bool check_spec(PyObject *spec, int level)
{
    if (!PyTuple_Check(spec)) {
        PyErr_SetString(PyExc_TypeError,
                        "a column is a tuple (name, format, feature_list, length, null_count, buffers, child)");
    } else if (level > NODE_LEVELS) {
        PyErr_Format(PyExc_ValueError, "a column is nested more than %d deep", NODE_LEVELS);
    }
    return PyErr_Occurred() == NULL;
}

/* A level from (name, format, feature_list, length, null_count, buffers, child or None). Strings stay those of the
 * tuple. */
static node *node_new(PyObject *spec, int level)
{
    static const char feature_list_metadata[] = "\1\0\0\0\21\0\0\0tfos.feature_list\1\0\0\0001";
    const char *name, *format;
    int feature_list;
    long long length, null_count;
    PyObject *buffers, *child;
    if (!check_spec(spec, level) ||
        !PyArg_ParseTuple(spec, "sspLLOO", &name, &format, &feature_list, &length, &null_count, &buffers, &child)) {
        return NULL;
    }
    node *made = calloc(1, sizeof *made);
    if (made == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    made->schema = (struct ArrowSchema){.format = format,
                                        .name = name,
                                        .metadata = feature_list ? feature_list_metadata : NULL,
                                        .flags = ARROW_FLAG_NULLABLE,
                                        .children = &made->schema_child,
                                        .release = keep_schema};
    made->array = (struct ArrowArray){.length = length,
                                      .null_count = null_count,
                                      .buffers = made->buffers,
                                      .children = &made->array_child,
                                      .release = keep_array};
    bool held = node_hold(made, buffers);
    if (held && child != Py_None) {
        made->child = node_new(child, level + 1);
        held = made->child != NULL;
    }
    if (!held) {
        node_free(made);
        return NULL;
    }
    if (made->child != NULL) {
        made->schema_child = &made->child->schema;
        made->array_child = &made->child->array;
        made->schema.n_children = made->array.n_children = 1;
    }
    return made;
}

/* The struct of all columns. */
typedef struct table {
    size_t count;
    node **columns;
    struct ArrowSchema **schemas;
    struct ArrowArray **arrays;
} table;

static void table_reset(table *old)
{
    for (size_t i = 0; i < old->count; i++) {
        node_free(old->columns[i]);
    }
    free(old->columns);
    free(old->schemas);
    free(old->arrays);
}

static bool table_init(table *out, PyObject *specs)
{
    Py_ssize_t count = PyList_Size(specs);
    if (count < 0) {
        return false;
    }
    *out = (table){.columns = calloc((size_t)count + 1, sizeof *out->columns),
                   .schemas = calloc((size_t)count + 1, sizeof *out->schemas),
                   .arrays = calloc((size_t)count + 1, sizeof *out->arrays)};
    if (out->columns == NULL || out->schemas == NULL || out->arrays == NULL) {
        table_reset(out);
        PyErr_NoMemory();
        return false;
    }
    for (; out->count < (size_t)count; out->count++) {
        node *column = node_new(PyList_GetItem(specs, (Py_ssize_t)out->count), 1);
        if (column == NULL) {
            table_reset(out);
            return false;
        }
        out->columns[out->count] = column;
        out->schemas[out->count] = &column->schema;
        out->arrays[out->count] = &column->array;
    }
    return true;
}

/* ---- Writer -------------------------------------------------------------------------------------------------------
 */

typedef struct writer_object {
    PyObject_HEAD tfos_writer *writer; /* NULL once closed */
    bool busy;                         /* a thread is in a call without the GIL */
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
    tfos_write_options_init(&options);
    if (!PyArg_ParseTuple(args, "O&ssip:Writer", PyUnicode_FSConverter, &path, &record, &codec, &level, &overwrite)) {
        return NULL;
    }
    options.level = level;
    options.overwrite = overwrite != 0;
    writer_object *self = NULL;
    if (parse_record_kind(record, &options.record) && parse_codec(codec, &options.codec)) {
        self = new_object(type);
    }
    if (self != NULL) {
        const char *name = PyBytes_AsString(path);
        Py_BEGIN_ALLOW_THREADS status = tfos_writer_open(name, &options, &self->writer, &error);
        Py_END_ALLOW_THREADS if (status != TFOS_OK)
        {
            Py_CLEAR(self);
            raise_error(&error);
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
    if (status != TFOS_OK) {
        return raise_error(error);
    }
    self->records = tfos_writer_records(self->writer);
    log_drain(NULL);
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
    Py_BEGIN_ALLOW_THREADS status = tfos_writer_record(self->writer, record.buf, (size_t)record.len, &error);
    Py_END_ALLOW_THREADS PyBuffer_Release(&record);
    return writer_end(self, status, &error);
}

static PyObject *writer_batch(writer_object *self, PyObject *args)
{
    batch_object *batch;
    tfos_error error;
    tfos_status status;
    if (!PyArg_ParseTuple(args, "O!:batch", batch_type, &batch) || !writer_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = tfos_writer_batch(self->writer, batch->batch, &error);
    Py_END_ALLOW_THREADS return writer_end(self, status, &error);
}

static PyObject *write_arrow(writer_object *self, const struct ArrowArray *array, const struct ArrowSchema *schema)
{
    tfos_error error;
    tfos_status status;
    if (!writer_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = tfos_writer_arrow(self->writer, array, schema, &error);
    Py_END_ALLOW_THREADS return writer_end(self, status, &error);
}

/* array(schema capsule, array capsule), as __arrow_c_array__ returns them */
static PyObject *writer_array(writer_object *self, PyObject *args)
{
    PyObject *schema_in, *array_in;
    if (!PyArg_ParseTuple(args, "OO:array", &schema_in, &array_in)) {
        return NULL;
    }
    const struct ArrowSchema *schema = PyCapsule_GetPointer(schema_in, SCHEMA_CAPSULE);
    const struct ArrowArray *array = schema != NULL ? PyCapsule_GetPointer(array_in, ARRAY_CAPSULE) : NULL;
    return array != NULL ? write_arrow(self, array, schema) : NULL;
}

/* columns(rows, specs): see node_new */
static PyObject *writer_columns(writer_object *self, PyObject *args)
{
    PyObject *specs;
    long long rows;
    table made;
    if (!PyArg_ParseTuple(args, "LO!:columns", &rows, &PyList_Type, &specs) || !table_init(&made, specs)) {
        return NULL;
    }
    struct ArrowSchema schema = {.format = "+s",
                                 .name = "",
                                 .n_children = (int64_t)made.count,
                                 .children = made.schemas,
                                 .release = keep_schema};
    const void *buffers[1] = {NULL};
    struct ArrowArray array = {.length = rows,
                               .n_buffers = 1,
                               .buffers = buffers,
                               .n_children = (int64_t)made.count,
                               .children = made.arrays,
                               .release = keep_array};
    PyObject *result = write_arrow(self, &array, &schema);
    table_reset(&made);
    return result;
}

/* A stream's own error, as the nearest exception of Python's. */
static PyObject *raise_stream_error(struct ArrowArrayStream *stream, int code)
{
    const char *message = stream->get_last_error(stream);
    PyObject *class = code == EINVAL   ? PyExc_ValueError
                      : code == ENOMEM ? PyExc_MemoryError
                      : code == ENOSYS ? PyExc_NotImplementedError
                                       : PyExc_OSError;
    PyErr_Format(class, "the Arrow stream failed: %s", message != NULL ? message : strerror(code));
    return NULL;
}

static PyObject *write_stream(writer_object *self, struct ArrowArrayStream *stream, const struct ArrowSchema *schema)
{
    for (;;) {
        struct ArrowArray array = {0};
        int code;
        Py_BEGIN_ALLOW_THREADS code = stream->get_next(stream, &array);
        Py_END_ALLOW_THREADS if (code != 0)
        {
            return raise_stream_error(stream, code);
        }
        if (array.release == NULL) {
            Py_RETURN_NONE;
        }
        PyObject *written = write_arrow(self, &array, schema);
        array.release(&array);
        if (written == NULL) {
            return NULL;
        }
        Py_DECREF(written);
    }
}

/* stream(capsule), as __arrow_c_stream__ returns it */
static PyObject *writer_stream(writer_object *self, PyObject *args)
{
    PyObject *capsule;
    if (!PyArg_ParseTuple(args, "O:stream", &capsule)) {
        return NULL;
    }
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, STREAM_CAPSULE);
    if (stream == NULL) {
        return NULL;
    }
    if (stream->release == NULL) {
        PyErr_SetString(PyExc_ValueError, "the Arrow stream was released: a stream can be read once");
        return NULL;
    }
    struct ArrowSchema schema = {0};
    int code;
    Py_BEGIN_ALLOW_THREADS code = stream->get_schema(stream, &schema);
    Py_END_ALLOW_THREADS if (code != 0)
    {
        return raise_stream_error(stream, code);
    }
    PyObject *result = write_stream(self, stream, &schema);
    schema.release(&schema);
    return result;
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
    Py_BEGIN_ALLOW_THREADS status = tfos_writer_close(writer, &error);
    Py_END_ALLOW_THREADS self->busy = false;
    if (status != TFOS_OK) {
        return raise_error(&error);
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
    Py_BEGIN_ALLOW_THREADS tfos_writer_abort(writer);
    Py_END_ALLOW_THREADS self->busy = false;
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
    free_object(self);
}

static PyType_Slot writer_slots[] = {
    {Py_tp_new, writer_new},
    {Py_tp_dealloc, writer_dealloc},
    {Py_tp_methods, (PyMethodDef[]){{"record", (PyCFunction)writer_record, METH_VARARGS, NULL},
                                    {"batch", (PyCFunction)writer_batch, METH_VARARGS, NULL},
                                    {"array", (PyCFunction)writer_array, METH_VARARGS, NULL},
                                    {"stream", (PyCFunction)writer_stream, METH_VARARGS, NULL},
                                    {"columns", (PyCFunction)writer_columns, METH_VARARGS, NULL},
                                    {"close", (PyCFunction)writer_close, METH_NOARGS, NULL},
                                    {"abort", (PyCFunction)writer_abort, METH_NOARGS, NULL},
                                    {0}}},
    {Py_tp_getset, (PyGetSetDef[]){{.name = "records", .get = (getter)writer_records}, {0}}},
    {0, NULL},
};

/* ---- Cluster ------------------------------------------------------------------------------------------------------
 */

typedef struct cluster_object {
    PyObject_HEAD tfos_cluster *cluster; /* NULL once closed */
    int calls;                           /* under way, without the GIL */
    bool waiting;                        /* a thread is in next() */
} cluster_object;

/* The words of a sequence of str, with a NULL behind them; NULL with an exception set on failure. The texts live as
 * long as `hold`, a list. */
static const char **words_of(PyObject *sequence, PyObject *hold)
{
    Py_ssize_t count = PySequence_Size(sequence);
    const char **words = count < 0 ? NULL : calloc((size_t)count + 1, sizeof *words);
    if (words == NULL) {
        return count < 0 ? NULL : (const char **)PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        PyObject *bytes = NULL;
        bool held = item != NULL && PyUnicode_FSConverter(item, &bytes) && PyList_Append(hold, bytes) == 0;
        words[i] = held ? PyBytes_AsString(bytes) : NULL;
        Py_XDECREF(bytes);
        Py_XDECREF(item);
        if (!held) {
            free(words);
            return NULL;
        }
    }
    return words;
}

/* The four lists of words among the options. */
typedef struct cluster_words {
    PyObject *from[4]; /* sequences or None */
    const char **words[4];
    PyObject *hold;
} cluster_words;

static bool cluster_words_init(cluster_words *self, tfos_cluster_options *options)
{
    self->hold = PyList_New(0);
    for (int i = 0; i < 4; i++) {
        if (self->hold == NULL ||
            (self->from[i] != Py_None && !(self->words[i] = words_of(self->from[i], self->hold)))) {
            return false;
        }
    }
    options->program = self->words[0];
    options->environment = self->words[1];
    options->tensorboard = self->words[2];
    options->settings = self->words[3];
    return true;
}

static void cluster_words_reset(cluster_words *self)
{
    for (int i = 0; i < 4; i++) {
        free(self->words[i]);
    }
    Py_XDECREF(self->hold);
}

/* Fills in the options from keywords, which have the names of the fields. The payload is the caller's to release. */
static bool cluster_parse(PyObject *args, PyObject *keywords, tfos_cluster_options *options, cluster_words *words,
                          Py_buffer *payload)
{
    static char *names[] = {"nodes",       "program",     "payload",        "context",    "host",
                            "ps",          "master",      "evaluator",      "parallel",   "no_barrier",
                            "spark_feeds", "native_ps",   "native_workers", "keep_port",  "gpus",
                            "attempt",     "timeout_ms",  "slots",          "slots_most", "slots_reason",
                            "environment", "tensorboard", "settings",       "command",    "folder",
                            NULL};
    int evaluator = 0, parallel = 0, no_barrier = 0, spark_feeds = 0, native_ps = 0, native_workers = 0, keep_port = 0;
    long long timeout_ms = options->timeout_ms, slots = options->slots, slots_most = options->slots_most;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "iOy*s|$zizpppppppiiLLLzOOOzz:Cluster", names, &options->nodes,
                                     &words->from[0], payload, &options->context, &options->host, &options->ps,
                                     &options->master, &evaluator, &parallel, &no_barrier, &spark_feeds, &native_ps,
                                     &native_workers, &keep_port, &options->gpus, &options->attempt, &timeout_ms,
                                     &slots, &slots_most, &options->slots_reason, &words->from[1], &words->from[2],
                                     &words->from[3], &options->command, &options->folder)) {
        return false;
    }
    options->evaluator = evaluator;
    options->parallel = parallel;
    options->no_barrier = no_barrier;
    options->spark_feeds = spark_feeds;
    options->native_ps = native_ps;
    options->native_workers = native_workers;
    options->keep_port = keep_port;
    options->timeout_ms = timeout_ms;
    options->slots = slots;
    options->slots_most = slots_most;
    options->payload = payload->buf;
    options->payload_bytes = (size_t)payload->len;
    return true;
}

/* Cluster(nodes, program, payload, context, *, …): the keywords are the fields of tfos_cluster_options. */
static PyObject *cluster_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    tfos_cluster_options options;
    tfos_error error;
    tfos_status status;
    Py_buffer payload = {0};
    cluster_words words = {.from = {Py_None, Py_None, Py_None, Py_None}};
    tfos_cluster_options_init(&options);
    if (!cluster_parse(args, keywords, &options, &words, &payload)) {
        return NULL;
    }
    cluster_object *self = cluster_words_init(&words, &options) ? new_object(type) : NULL;
    if (self != NULL) {
        Py_BEGIN_ALLOW_THREADS status = tfos_cluster_open(&options, &self->cluster, &error);
        Py_END_ALLOW_THREADS if (status != TFOS_OK)
        {
            self->cluster = NULL;
            Py_CLEAR(self);
            raise_error(&error);
        }
    }
    cluster_words_reset(&words);
    PyBuffer_Release(&payload);
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
    return status != TFOS_OK ? raise_error(error) : Py_NewRef(Py_None);
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
    Py_BEGIN_ALLOW_THREADS status = tfos_cluster_spawn(self->cluster, index, &error);
    Py_END_ALLOW_THREADS return cluster_end(self, status, &error);
}

/* (kind, count, total, index, stream, node, host, state, url, text, pid). What a program printed may be any bytes. */
static PyObject *event_tuple(const tfos_cluster_event *event)
{
    static const char *const kinds[] = {
        [TFOS_EVENT_NONE] = "none",     [TFOS_EVENT_PROGRESS] = "progress", [TFOS_EVENT_READY] = "ready",
        [TFOS_EVENT_NODE] = "node",     [TFOS_EVENT_LOG] = "log",           [TFOS_EVENT_FAILED] = "failed",
        [TFOS_EVENT_STATUS] = "status", [TFOS_EVENT_FEED] = "feed",         [TFOS_EVENT_OVER] = "over",
    };
    if (event->kind == TFOS_EVENT_NONE) {
        return Py_BuildValue("(sLLiisssssL)", kinds[0], 0LL, 0LL, -1, 0, "", "", "", "", "", 0LL);
    }
    PyObject *text = PyUnicode_DecodeUTF8(event->text, (Py_ssize_t)strlen(event->text), "replace");
    return text == NULL ? NULL
                        : Py_BuildValue("(sLLiissssNL)", kinds[event->kind], (long long)event->count,
                                        (long long)event->total, (int)event->index, (int)event->stream, event->node,
                                        event->host, event->state, event->url, text, (long long)event->pid);
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
    Py_BEGIN_ALLOW_THREADS status = tfos_cluster_next(self->cluster, timeout_ms, &event, &error);
    Py_END_ALLOW_THREADS PyObject *result = NULL;
    if (status == TFOS_OK) {
        result = event_tuple(&event);
    } else if (status == TFOS_END) {
        result = Py_NewRef(Py_None);
    } else {
        raise_error(&error);
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
    Py_BEGIN_ALLOW_THREADS status = tfos_cluster_slots(self->cluster, slots, holders, &error);
    Py_END_ALLOW_THREADS return cluster_end(self, status, &error);
}

static PyObject *cluster_ask(cluster_object *self, PyObject *unused)
{
    (void)unused;
    tfos_error error;
    tfos_status status;
    if (!cluster_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = tfos_cluster_ask(self->cluster, &error);
    Py_END_ALLOW_THREADS return cluster_end(self, status, &error);
}

static PyObject *cluster_finish(cluster_object *self, PyObject *args)
{
    long long grace_ms;
    tfos_error error;
    tfos_status status;
    if (!PyArg_ParseTuple(args, "L:finish", &grace_ms) || !cluster_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = tfos_cluster_finish(self->cluster, grace_ms, &error);
    Py_END_ALLOW_THREADS return cluster_end(self, status, &error);
}

static PyObject *cluster_stop(cluster_object *self, PyObject *args)
{
    const char *reason;
    tfos_error error;
    tfos_status status;
    if (!PyArg_ParseTuple(args, "s:stop", &reason) || !cluster_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = tfos_cluster_stop(self->cluster, reason, &error);
    Py_END_ALLOW_THREADS return cluster_end(self, status, &error);
}

/* Opens a feed; returns its number. */
static PyObject *cluster_feed(cluster_object *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"queue", "partitions", "inference", "determinate", "again", "timeout_ms", NULL};
    tfos_feed_options options = {0};
    long long partitions, timeout_ms;
    int inference, determinate, again;
    uint64_t feed;
    tfos_error error;
    tfos_status status;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sLpppL:feed", names, &options.queue, &partitions, &inference,
                                     &determinate, &again, &timeout_ms) ||
        !cluster_begin(self)) {
        return NULL;
    }
    options.partitions = partitions;
    options.inference = inference != 0;
    options.determinate = determinate != 0;
    options.again = again != 0;
    options.timeout_ms = timeout_ms;
    Py_BEGIN_ALLOW_THREADS status = tfos_cluster_feed(self->cluster, &options, &feed, &error);
    Py_END_ALLOW_THREADS self->calls--;
    return status == TFOS_OK ? PyLong_FromUnsignedLongLong(feed) : raise_error(&error);
}

static PyObject *cluster_epoch(cluster_object *self, PyObject *args)
{
    unsigned long long feed, epoch;
    tfos_error error;
    tfos_status status;
    if (!PyArg_ParseTuple(args, "KK:epoch", &feed, &epoch) || !cluster_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = tfos_cluster_epoch(self->cluster, feed, epoch, &error);
    Py_END_ALLOW_THREADS return cluster_end(self, status, &error);
}

static PyObject *cluster_epoch_end(cluster_object *self, PyObject *args)
{
    unsigned long long feed, epoch;
    tfos_error error;
    tfos_status status;
    if (!PyArg_ParseTuple(args, "KK:epoch_end", &feed, &epoch) || !cluster_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = tfos_cluster_epoch_end(self->cluster, feed, epoch, &error);
    Py_END_ALLOW_THREADS return cluster_end(self, status, &error);
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
        return raise_error(&error);
    }
    PyObject *ticket = PyBytes_FromStringAndSize((const char *)bytes, (Py_ssize_t)count);
    free(bytes);
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
    Py_BEGIN_ALLOW_THREADS status = tfos_cluster_feed_close(self->cluster, feed, &error);
    Py_END_ALLOW_THREADS return cluster_end(self, status, &error);
}

static PyObject *cluster_end_of_feed(cluster_object *self, PyObject *unused)
{
    (void)unused;
    tfos_error error;
    tfos_status status;
    if (!cluster_begin(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = tfos_cluster_end_of_feed(self->cluster, &error);
    Py_END_ALLOW_THREADS return cluster_end(self, status, &error);
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
        Py_BEGIN_ALLOW_THREADS tfos_cluster_close(cluster);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static void cluster_dealloc(cluster_object *self)
{
    if (self->cluster != NULL) {
        Py_BEGIN_ALLOW_THREADS tfos_cluster_close(self->cluster); /* may wait for processes to end */
        Py_END_ALLOW_THREADS
    }
    free_object(self);
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

/* ---- Module -------------------------------------------------------------------------------------------------------
 */

static int add_type(PyObject *module, const char *name, size_t bytes, PyType_Slot *slots, bool callable,
                    PyTypeObject **out)
{
    unsigned long flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE;
    PyType_Spec spec = {.name = name,
                        .basicsize = (int)bytes,
                        .flags = (unsigned int)(callable ? flags : flags | Py_TPFLAGS_DISALLOW_INSTANTIATION),
                        .slots = slots};
    *out = (PyTypeObject *)PyType_FromSpec(&spec);
    return *out == NULL ? -1 : PyModule_AddObjectRef(module, strrchr(name, '.') + 1, (PyObject *)*out);
}

static int add_types(PyObject *module)
{
#define ADD(name, prefix, callable)                                                                                    \
    add_type(module, "tensorflowonspark._native." name, sizeof(prefix##_object), prefix##_slots, callable,             \
             &prefix##_type)
    return ADD("Schema", schema, true) < 0 || ADD("Buffer", buffer, false) < 0 || ADD("Column", column, false) < 0 ||
                   ADD("Batch", batch, false) < 0 || ADD("Reader", reader, true) < 0 ||
                   ADD("Writer", writer, true) < 0 || ADD("Cluster", cluster, true) < 0
               ? -1
               : 0;
#undef ADD
}

/* ---- What the other files use --------------------------------------------------------------------------------------
 */

void *tfos__python_new(PyTypeObject *type)
{
    return new_object(type);
}

void tfos__python_free(void *self)
{
    free_object(self);
}

int tfos__python_add_type(PyObject *module, const char *name, size_t bytes, PyType_Slot *slots, bool callable,
                          PyTypeObject **out)
{
    return add_type(module, name, bytes, slots, callable, out);
}

PyObject *tfos__python_raise(const tfos_error *error)
{
    return raise_error(error);
}

PyObject *tfos__python_batch_wrap(tfos_batch *batch)
{
    return batch_wrap(batch);
}

tfos_batch *tfos__python_batch_of(PyObject *object)
{
    if (!PyObject_TypeCheck(object, batch_type)) {
        PyErr_SetString(PyExc_TypeError, "expected a Batch");
        return NULL;
    }
    return ((batch_object *)object)->batch;
}

PyObject *tfos__python_schema_wrap(tfos_schema *schema)
{
    return schema_wrap(schema);
}

const tfos_schema *tfos__python_schema_of(PyObject *object)
{
    if (!PyObject_TypeCheck(object, schema_type)) {
        PyErr_SetString(PyExc_TypeError, "expected a Schema");
        return NULL;
    }
    return ((schema_object *)object)->schema;
}

void tfos__python_begin_waiting(void)
{
    begin_waiting();
}

void tfos__python_end_waiting(void)
{
    end_waiting();
}

bool tfos__python_interrupted(void *context)
{
    return interrupted(context);
}

PyObject *tfos__python_value(const tfos_vector *vector, int64_t row)
{
    return object_at(vector, row);
}

static PyObject *get_logger(void)
{
    PyObject *logging = PyImport_ImportModule("logging");
    if (logging == NULL) {
        return NULL;
    }
    PyObject *found = PyObject_CallMethod(logging, "getLogger", "s", "tensorflowonspark");
    Py_DECREF(logging);
    return found;
}

/* State is in static variables, so the module cannot be loaded into a second interpreter: m_size -1 says so to Python.
 */
static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tensorflowonspark._native",
    .m_doc = "tfos.h as Python objects; use tensorflowonspark.records and tensorflowonspark.TFCluster.",
    .m_size = -1,
    .m_methods = (PyMethodDef[]){{"infer", infer, METH_VARARGS, NULL}, {"log_stop", log_stop, METH_NOARGS, NULL}, {0}},
};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *module = PyModule_Create(&module_definition);
    if (module == NULL) {
        return NULL;
    }
    logger = get_logger();
    if (logger == NULL || add_error_classes(module) < 0 || add_types(module) < 0 || tfos__python_add_rows(module) < 0 ||
        tfos__python_add_feed(module) < 0 || PyModule_AddStringConstant(module, "version", tfos_version()) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    tfos_log_set(log_queue, NULL);
    return module;
}
