/* RowEncoder: Python rows in, batches out.
 *
 * The first row decides the shape of rows and the kinds of their fields; a row that has others ends the batch, and the
 * next one begins with them. Rows of changing shapes would make a batch of each row, so after a few changes a field, or
 * the whole row, is pickled for a while (tfos__row_temper). What was learned is kept from batch to batch, and so is the
 * schema as long as it says the same. */
#include "_rows.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PICKLED_FIELDS_MAX = 16, /* with more, pickling the whole row costs less */
    BATCH_ROWS = 4096,       /* a batch is full with as many … */
    BATCH_BYTES = 1 << 20,   /* … or as much */
};

typedef struct encoder_object {
    PyObject_HEAD
    tfos_row_shape shape;
    tfos__row_temper temper; /* of the shape; rows are pickled while it has batches left */
    size_t count;
    tfos__row_column *columns;
    PyObject **cells;     /* the fields of the row at hand */
    PyObject *names;      /* a tuple: of columns */
    PyObject *row_fields; /* the __fields__ seen last: most rows share theirs */
    bool changed;         /* what the note says of the row */
    bool busy;            /* code of others runs below us, and may call us */
    int64_t rows;
    int64_t bytes;
    PyObject *pending; /* was taken from an iterator but did not fit */
    tfos_schema *schema;
} encoder_object;

static PyTypeObject *encoder_type;

/* ---- the encoder's shape ---- */

static void drop_columns(encoder_object *self)
{
    for (size_t i = 0; i < self->count; i++) {
        tfos__row_column_reset(&self->columns[i]);
    }
    free(self->columns);
    free(self->cells);
    self->columns = NULL;
    self->cells = NULL;
    self->count = 0;
    self->shape = TFOS_ROW_NONE;
    Py_CLEAR(self->names);
    Py_CLEAR(self->row_fields);
}

/* Takes the names over. */
static bool begin_shape(encoder_object *self, tfos_row_shape shape, PyObject *names)
{
    size_t count = (size_t)PyTuple_Size(names);
    drop_columns(self);
    self->names = names;
    self->changed = true;
    self->columns = calloc(count, sizeof *self->columns);
    self->cells = calloc(count, sizeof *self->cells);
    if (self->columns == NULL || self->cells == NULL) {
        drop_columns(self);
        PyErr_NoMemory();
        return false;
    }
    self->shape = shape;
    self->count = count;
    for (size_t i = 0; i < count; i++) {
        tfos__row_column_init(&self->columns[i]);
    }
    return true;
}

/* Rows are values, which are pickled, until the temper has no batches left. */
static bool begin_pickling(encoder_object *self)
{
    PyObject *names = Py_BuildValue("(s)", "value");
    if (names == NULL || !begin_shape(self, TFOS_ROW_VALUE, names)) {
        return false;
    }
    self->columns[0].kind = (tfos_row_kind){.leaf = TFOS_ROW_LEAF_PICKLE};
    return true;
}

/* Takes the shape of a row that has another one; there are no other rows. */
static bool change_shape(encoder_object *self, PyObject *row)
{
    tfos_row_shape shape;
    PyObject *names;
    if (!tfos__row_shape_of(row, &shape, &names)) {
        return false;
    }
    if (shape == TFOS_ROW_VALUE && self->shape == TFOS_ROW_VALUE) {
        Py_DECREF(names);
        return true; /* a matter of its column */
    }
    if (self->shape != TFOS_ROW_NONE && tfos__row_temper_misfit(&self->temper, false)) {
        Py_DECREF(names);
        return begin_pickling(self);
    }
    return begin_shape(self, shape, names);
}

/* ---- the fields of a row ---- */

static void release_cells(encoder_object *self)
{
    for (size_t i = 0; i < self->count; i++) {
        Py_CLEAR(self->cells[i]);
    }
}

static tfos__row_fit gather_sequence(encoder_object *self, PyObject *row, PyTypeObject *type,
                                     PyObject *(*get)(PyObject *, Py_ssize_t), Py_ssize_t (*size)(PyObject *))
{
    if (Py_TYPE(row) != type || (size_t)size(row) != self->count) {
        return TFOS__ROW_MISFIT;
    }
    for (size_t i = 0; i < self->count; i++) {
        self->cells[i] = Py_NewRef(get(row, (Py_ssize_t)i));
    }
    return TFOS__ROW_FITS;
}

/* The same keys in the same order. */
static tfos__row_fit gather_dict(encoder_object *self, PyObject *row)
{
    if (Py_TYPE(row) != &PyDict_Type || (size_t)PyDict_Size(row) != self->count) {
        return TFOS__ROW_MISFIT;
    }
    PyObject *key, *value;
    Py_ssize_t position = 0;
    for (size_t i = 0; i < self->count && PyDict_Next(row, &position, &key, &value); i++) {
        PyObject *name = PyTuple_GetItem(self->names, (Py_ssize_t)i);
        if (key != name && (Py_TYPE(key) != &PyUnicode_Type || PyUnicode_Compare(key, name) != 0)) {
            return TFOS__ROW_MISFIT;
        }
        self->cells[i] = Py_NewRef(value);
    }
    return TFOS__ROW_FITS;
}

static tfos__row_fit gather_spark_row(encoder_object *self, PyObject *row)
{
    if (!tfos__row_is_spark(row) || (size_t)PyTuple_Size(row) != self->count) {
        return TFOS__ROW_MISFIT;
    }
    PyObject *fields = tfos__row_spark_fields(row);
    if (fields == NULL) {
        return TFOS__ROW_MISFIT;
    }
    if (fields != self->row_fields) {
        tfos_row_shape shape;
        PyObject *names;
        if (!tfos__row_shape_of(row, &shape, &names)) {
            Py_DECREF(fields);
            return TFOS__ROW_FAILED;
        }
        int same = shape == self->shape ? PyObject_RichCompareBool(names, self->names, Py_EQ) : 0;
        Py_DECREF(names);
        if (same != 1) {
            Py_DECREF(fields);
            return same < 0 ? TFOS__ROW_FAILED : TFOS__ROW_MISFIT;
        }
        PyObject *old = self->row_fields;
        self->row_fields = Py_NewRef(fields);
        Py_XDECREF(old);
    }
    Py_DECREF(fields);
    return gather_sequence(self, row, Py_TYPE(row), PyTuple_GetItem, PyTuple_Size);
}

/* A row that is a value: but while that is not known, for all were None, it may be a tuple as well. */
static tfos__row_fit gather_value(encoder_object *self, PyObject *row)
{
    const tfos_row_kind *kind = &self->columns[0].kind;
    if (kind->leaf == TFOS_ROW_LEAF_NONE && kind->form == TFOS_ROW_FORM_VALUE && row != Py_None) {
        tfos_row_shape shape;
        PyObject *names;
        if (!tfos__row_shape_of(row, &shape, &names)) {
            return TFOS__ROW_FAILED;
        }
        Py_DECREF(names);
        if (shape != TFOS_ROW_VALUE) {
            return TFOS__ROW_MISFIT;
        }
    }
    self->cells[0] = Py_NewRef(row);
    return TFOS__ROW_FITS;
}

static tfos__row_fit gather(encoder_object *self, PyObject *row)
{
    switch (self->shape) {
    case TFOS_ROW_VALUE:
        return gather_value(self, row);
    case TFOS_ROW_TUPLE:
        return gather_sequence(self, row, &PyTuple_Type, PyTuple_GetItem, PyTuple_Size);
    case TFOS_ROW_LIST:
        return gather_sequence(self, row, &PyList_Type, PyList_GetItem, PyList_Size);
    case TFOS_ROW_DICT:
        return gather_dict(self, row);
    case TFOS_ROW_SPARK:
    case TFOS_ROW_SPARK_TEMPLATE:
        return gather_spark_row(self, row);
    case TFOS_ROW_NONE:
        break;
    }
    return TFOS__ROW_MISFIT;
}

/* ---- rows ---- */

/* The fields to their columns; all or none. */
static tfos__row_fit push_cells(encoder_object *self)
{
    int64_t bytes = self->bytes;
    for (size_t i = 0; i < self->count; i++) {
        tfos__row_column *column = &self->columns[i];
        size_t before = column->data.size;
        tfos__row_fit result = self->rows == 0 && self->shape != TFOS_ROW_VALUE
                                   ? tfos__row_column_adapt(column, self->cells[i])
                                   : tfos__row_column_push(column, self->cells[i]);
        if (result != TFOS__ROW_FITS) {
            for (size_t j = 0; j < i; j++) {
                tfos__row_column_truncate(&self->columns[j], self->rows);
            }
            self->bytes = bytes;
            return result;
        }
        self->bytes += 1 + (int64_t)(column->data.size - before);
    }
    self->rows++;
    return TFOS__ROW_FITS;
}

static tfos__row_fit push_row(encoder_object *self, PyObject *row)
{
    tfos__row_fit result = gather(self, row);
    if (result == TFOS__ROW_FITS) {
        result = push_cells(self);
    }
    release_cells(self);
    return result;
}

static void clear_rows(encoder_object *self)
{
    for (size_t i = 0; i < self->count; i++) {
        tfos__row_column_truncate(&self->columns[i], 0);
    }
    self->rows = 0;
    self->bytes = 0;
}

static size_t count_pickled(const encoder_object *self)
{
    size_t pickled = 0;
    for (size_t i = 0; i < self->count; i++) {
        pickled += self->columns[i].kind.leaf == TFOS_ROW_LEAF_PICKLE;
    }
    return pickled;
}

/* The first row of a batch: everything may change to suit it. */
static tfos__row_fit push_first_row(encoder_object *self, PyObject *row)
{
    tfos__row_fit result = push_row(self, row);
    if (result == TFOS__ROW_MISFIT) {
        if (!change_shape(self, row)) {
            return TFOS__ROW_FAILED;
        }
        result = self->shape == TFOS_ROW_VALUE ? tfos__row_column_adapt(&self->columns[0], row) : push_row(self, row);
        if (self->shape == TFOS_ROW_VALUE && result == TFOS__ROW_FITS) {
            self->rows = 1;
            self->bytes = 1 + (int64_t)self->columns[0].data.size;
        }
    }
    if (result == TFOS__ROW_FITS && count_pickled(self) > PICKLED_FIELDS_MAX) {
        clear_rows(self);
        tfos__row_temper_misfit(&self->temper, true);
        result = begin_pickling(self) ? push_row(self, row) : TFOS__ROW_FAILED;
    }
    return result;
}

static tfos__row_fit add_row(encoder_object *self, PyObject *row)
{
    return self->rows == 0 ? push_first_row(self, row) : push_row(self, row);
}

/* ---- batches ---- */

/* RAISED stands for an exception that is set, in all of these functions. */
static tfos_status raised_memory(void)
{
    PyErr_NoMemory();
    return TFOS_RAISED;
}

/* The schema of these fields. */
static tfos_status make_schema(const encoder_object *self, const tfos_field *fields, tfos_schema **out,
                               tfos_error *error)
{
    tfos_schema *schema = NULL;
    tfos_row_field *rows = calloc(self->count, sizeof *rows);
    if (rows == NULL) {
        return raised_memory();
    }
    tfos_status status = tfos_schema_new(TFOS_RECORD_EXAMPLE, &schema, error);
    for (size_t i = 0; status == TFOS_OK && i < self->count; i++) {
        tfos_field field = fields[i];
        field.name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(self->names, (Py_ssize_t)i), NULL);
        rows[i] = (tfos_row_field){.name = field.name, .kind = self->columns[i].kind};
        status = tfos_schema_add(schema, &field, error);
    }
    if (status == TFOS_OK) {
        const tfos_rows note = {.shape = self->shape, .count = self->count, .fields = rows};
        status = tfos_schema_set_rows(schema, &note, error);
    }
    free(rows);
    if (status != TFOS_OK) {
        tfos_schema_free(schema);
        return status;
    }
    *out = schema;
    return TFOS_OK;
}

/* Brings the schema up to date; the one before stays if it says the same. */
static tfos_status refresh_schema(encoder_object *self, const tfos_field *fields, tfos_error *error)
{
    bool changed = self->changed || self->schema == NULL;
    for (size_t i = 0; i < self->count; i++) {
        changed |= self->columns[i].changed;
    }
    if (!changed) {
        return TFOS_OK;
    }
    tfos_schema *schema;
    tfos_status status = make_schema(self, fields, &schema, error);
    if (status != TFOS_OK) {
        return status;
    }
    if (self->schema != NULL && tfos_schema_equal(self->schema, schema)) {
        tfos_schema_free(schema);
    } else {
        tfos_schema_free(self->schema);
        self->schema = schema;
    }
    self->changed = false;
    for (size_t i = 0; i < self->count; i++) {
        self->columns[i].changed = false;
    }
    return TFOS_OK;
}

static tfos_status make_batch(encoder_object *self, tfos_field *fields, tfos_vector *vectors, tfos_batch **out,
                              tfos_error *error)
{
    for (size_t i = 0; i < self->count; i++) {
        if (!tfos__row_column_show(&self->columns[i], &fields[i], &vectors[i], &vectors[self->count + i])) {
            return TFOS_RAISED;
        }
    }
    tfos_status status = refresh_schema(self, fields, error);
    if (status == TFOS_OK) {
        Py_BEGIN_ALLOW_THREADS
        status = tfos_batch_new(self->schema, vectors, self->rows, out, error);
        Py_END_ALLOW_THREADS
    }
    return status;
}

/* What has been pickled for long enough is tried anew. */
static void rest(encoder_object *self)
{
    bool pickling = self->temper.left > 0;
    bool rested = tfos__row_temper_rest(&self->temper);
    if (pickling && rested) {
        drop_columns(self);
    }
    for (size_t i = 0; !pickling && i < self->count; i++) {
        tfos__row_column *column = &self->columns[i];
        if (tfos__row_temper_rest(&column->temper) && column->kind.leaf == TFOS_ROW_LEAF_PICKLE) {
            column->kind = (tfos_row_kind){0};
            column->changed = true;
        }
    }
}

/* The batch of the rows that were added; *out stays what it is where there are none. */
static tfos_status take(encoder_object *self, tfos_batch **out, tfos_error *error)
{
    if (self->rows == 0) {
        return TFOS_OK;
    }
    tfos_field *fields = calloc(self->count, sizeof *fields);
    tfos_vector *vectors = calloc(self->count, 2 * sizeof *vectors);
    tfos_status status =
        fields != NULL && vectors != NULL ? make_batch(self, fields, vectors, out, error) : raised_memory();
    free(fields);
    free(vectors);
    if (status == TFOS_OK) {
        clear_rows(self);
        rest(self);
    }
    return status;
}

/* ---- RowEncoder ---- */

static PyObject *encoder_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    return PyArg_ParseTuple(args, ":RowEncoder") ? tfos__python_new(type) : NULL;
}

static void encoder_dealloc(encoder_object *self)
{
    drop_columns(self);
    tfos_schema_free(self->schema);
    Py_XDECREF(self->pending);
    tfos__python_free(self);
}

static bool begin_use(encoder_object *self)
{
    if (self->busy) {
        PyErr_SetString(PyExc_ValueError, "the encoder is in use, by another thread or by a row that is being added");
        return false;
    }
    self->busy = true;
    return true;
}

/* The row that did not fit goes before all others. */
static tfos__row_fit add_pending(encoder_object *self)
{
    if (self->pending == NULL) {
        return TFOS__ROW_FITS;
    }
    tfos__row_fit result = add_row(self, self->pending);
    if (result == TFOS__ROW_FITS) {
        Py_CLEAR(self->pending);
    }
    return result;
}

/* add(row): False if the row begins another batch, so that take() must come first. */
static PyObject *encoder_add(encoder_object *self, PyObject *row)
{
    if (!begin_use(self)) {
        return NULL;
    }
    tfos__row_fit result = add_pending(self);
    if (result == TFOS__ROW_FITS) {
        result = add_row(self, row);
    }
    self->busy = false;
    return result == TFOS__ROW_FAILED ? NULL : PyBool_FromLong(result == TFOS__ROW_FITS);
}

static int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* When a batch is full. */
typedef struct limits {
    long long rows;
    long long bytes;
    long long ms; /* that rows are waited for, once there is one; negative: as long as it takes */
} limits;

/* OK: the batch is full. END: the iterator has ended. */
static tfos_status add_from(encoder_object *self, PyObject *iterator, const limits *limit)
{
    int64_t deadline = limit->ms < 0 ? INT64_MAX : clock_ms() + limit->ms;
    tfos__row_fit result = add_pending(self);
    while (result == TFOS__ROW_FITS) {
        bool late = deadline < INT64_MAX && self->rows > 0 && clock_ms() >= deadline;
        if (late || self->rows >= limit->rows || self->bytes >= limit->bytes) {
            return TFOS_OK;
        }
        PyObject *row = PyIter_Next(iterator);
        if (row == NULL) {
            return PyErr_Occurred() != NULL ? TFOS_RAISED : TFOS_END;
        }
        result = add_row(self, row);
        if (result == TFOS__ROW_MISFIT) {
            self->pending = row;
        } else {
            Py_DECREF(row);
        }
    }
    return result == TFOS__ROW_FAILED ? TFOS_RAISED : TFOS_OK;
}

/* add_many(iterator, limit_rows=4096, limit_bytes=1 MiB, limit_ms=-1): takes rows until the batch is full (True) or the
 * iterator has ended (False). A row that begins another batch is kept for the next call. Where rows come slowly, those
 * that are there need not wait for others. */
static PyObject *encoder_add_many(encoder_object *self, PyObject *args, PyObject *keywords)
{
    static char row_name[] = "", rows_name[] = "limit_rows", bytes_name[] = "limit_bytes", ms_name[] = "limit_ms";
    static char *names[] = {row_name, rows_name, bytes_name, ms_name, NULL};
    PyObject *iterator;
    limits limit = {.rows = BATCH_ROWS, .bytes = BATCH_BYTES, .ms = -1};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|LLL:add_many", names, &iterator, &limit.rows, &limit.bytes,
                                     &limit.ms)) {
        return NULL;
    }
    if (!PyIter_Check(iterator) || limit.rows < 1 || limit.bytes < 1) {
        PyErr_SetString(PyIter_Check(iterator) ? PyExc_ValueError : PyExc_TypeError,
                        "add_many takes an iterator, as iter() makes it, and limits of at least 1");
        return NULL;
    }
    if (!begin_use(self)) {
        return NULL;
    }
    tfos_status status = add_from(self, iterator, &limit);
    self->busy = false;
    return status == TFOS_RAISED ? NULL : PyBool_FromLong(status == TFOS_OK);
}

/* take(): the Batch of the rows that were added, or None. */
static PyObject *encoder_take(encoder_object *self, PyObject *unused)
{
    tfos_error error;
    tfos_batch *batch = NULL;
    (void)unused;
    if (!begin_use(self)) {
        return NULL;
    }
    tfos_status status = take(self, &batch, &error);
    self->busy = false;
    if (status != TFOS_OK) {
        return status == TFOS_RAISED ? NULL : tfos__python_raise(&error);
    }
    return batch != NULL ? tfos__python_batch_wrap(batch) : Py_NewRef(Py_None);
}

PyObject *tfos__row_encoder_new(void)
{
    return tfos__python_new(encoder_type);
}

tfos_status tfos__row_encoder_next(PyObject *encoder, PyObject *iterator, int64_t patience_ms, tfos_batch **out,
                                   tfos_error *error)
{
    encoder_object *self = (encoder_object *)encoder;
    const limits limit = {.rows = BATCH_ROWS, .bytes = BATCH_BYTES, .ms = patience_ms};
    if (!begin_use(self)) {
        return TFOS_RAISED;
    }
    tfos_status added = add_from(self, iterator, &limit);
    tfos_status status = added == TFOS_RAISED ? added : take(self, out, error);
    self->busy = false;
    return status == TFOS_OK ? added : status;
}

static PyObject *encoder_rows(encoder_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(self->rows);
}

static PyObject *encoder_bytes(encoder_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromLongLong(self->bytes);
}

static PyType_Slot encoder_slots[] = {
    {Py_tp_new, encoder_new},
    {Py_tp_dealloc, encoder_dealloc},
    {Py_tp_methods,
     (PyMethodDef[]){{"add", (PyCFunction)encoder_add, METH_O, NULL},
                     {"add_many", (PyCFunction)(void (*)(void))encoder_add_many, METH_VARARGS | METH_KEYWORDS, NULL},
                     {"take", (PyCFunction)encoder_take, METH_NOARGS, NULL},
                     {0}}},
    {Py_tp_getset, (PyGetSetDef[]){{.name = "rows", .get = (getter)encoder_rows},
                                   {.name = "nbytes", .get = (getter)encoder_bytes},
                                   {0}}},
    {0, NULL},
};

int tfos__python_add_rows(PyObject *module)
{
    return tfos__python_add_type(module, "RowEncoder", sizeof(encoder_object), encoder_slots, true, &encoder_type) < 0
               ? -1
           : PyModule_AddFunctions(module, tfos__row_decode_methods) < 0
               ? -1
               : PyModule_AddFunctions(module, tfos__row_note_methods);
}
