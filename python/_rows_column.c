/* A column while rows come: what a Python object adds to it, and what it is when the batch is cut.
 *
 * Values of one width stand in `data`, one after the other; others too, and `ends` says where each ends. Lists have
 * their values there, and `list_ends` says where each list ends. A row that is missing is a zero, or nothing. Whether
 * the column is nullable, and whether its lists have one length, is known when the batch is cut and not before, so
 * neither None nor a longer list ends a batch. */
#include "_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- temper ---- */

enum { SWITCHES_MAX = 2, PATIENCE_MAX = 1024, CALM_ENOUGH = 8 };

bool tfos__row_temper_misfit(tfos__row_temper *temper, bool must)
{
    temper->calm = 0;
    temper->misfits++;
    if (!must && temper->misfits <= SWITCHES_MAX) {
        return false;
    }
    temper->patience = temper->patience == 0             ? 1
                       : temper->patience < PATIENCE_MAX ? temper->patience * 2
                                                         : PATIENCE_MAX;
    temper->left = temper->patience;
    return true;
}

bool tfos__row_temper_rest(tfos__row_temper *temper)
{
    if (temper->left > 0) {
        temper->left--;
    } else if (++temper->calm >= CALM_ENOUGH) {
        *temper = (tfos__row_temper){0};
    }
    return temper->left == 0;
}

/* ---- memory ---- */

static bool reserve(tfos__row_bytes *bytes, size_t more)
{
    size_t needed = bytes->size + more;
    if (needed <= bytes->capacity && bytes->data != NULL) {
        return true;
    }
    size_t capacity = needed + needed / 2 + 64;
    char *data = realloc(bytes->data, capacity);
    if (data == NULL) {
        PyErr_NoMemory();
        return false;
    }
    bytes->data = data;
    bytes->capacity = capacity;
    return true;
}

static bool append(tfos__row_bytes *bytes, const void *data, size_t count)
{
    if (!reserve(bytes, count)) {
        return false;
    }
    memcpy(bytes->data + bytes->size, data, count);
    bytes->size += count;
    return true;
}

static int32_t *int32s(const tfos__row_bytes *bytes)
{
    return (int32_t *)(void *)bytes->data;
}

static bool append_end(tfos__row_bytes *ends, size_t position)
{
    int32_t end = (int32_t)position;
    return append(ends, &end, sizeof end);
}

static tfos__row_fit fit(bool appended)
{
    return appended ? TFOS__ROW_FITS : TFOS__ROW_FAILED;
}

void tfos__row_column_init(tfos__row_column *column)
{
    *column = (tfos__row_column){.list_length = TFOS__ROW_LENGTH_UNKNOWN, .changed = true};
}

void tfos__row_column_reset(tfos__row_column *column)
{
    free(column->data.data);
    free(column->ends.data);
    free(column->list_ends.data);
    free(column->missing.data);
    free(column->bits.data);
    free(column->booleans.data);
    tfos__row_column_init(column);
}

/* ---- rows without a value ---- */

/* What a missing row leaves in the buffers. */
static bool append_nothing(tfos__row_column *column)
{
    size_t width = tfos__row_kind_width(&column->kind);
    if (tfos_row_kind_has_lists(&column->kind)) {
        return append_end(&column->list_ends, (size_t)column->values);
    }
    column->values++;
    return width > 0 ? append(&column->data, &(uint64_t){0}, width) : append_end(&column->ends, column->data.size);
}

/* The first ends of values and of lists. */
static bool begin_ends(tfos__row_column *column)
{
    column->ends.size = 0;
    column->list_ends.size = 0;
    return append_end(&column->ends, 0) && append_end(&column->list_ends, 0);
}

/* Gives a kind to a column whose rows, if there are any, are all missing. */
static bool begin_kind(tfos__row_column *column, const tfos_row_kind *kind)
{
    column->kind = *kind;
    column->changed = true;
    column->values = 0;
    column->data.size = 0;
    column->list_length = TFOS__ROW_LENGTH_UNKNOWN;
    bool begun = begin_ends(column);
    for (int64_t row = 0; begun && row < column->rows; row++) {
        begun = append_nothing(column);
    }
    return begun;
}

static bool knows_its_kind(const tfos__row_column *column)
{
    return column->kind.leaf != TFOS_ROW_LEAF_NONE || column->kind.form != TFOS_ROW_FORM_VALUE;
}

static bool end_row(tfos__row_column *column, bool missing)
{
    char mark = (char)missing;
    if (missing && column->missing.size == 0) {
        if (!reserve(&column->missing, (size_t)column->rows + 1)) {
            return false;
        }
        memset(column->missing.data, 0, (size_t)column->rows);
        column->missing.size = (size_t)column->rows;
    }
    if (column->missing.size > 0 || missing) {
        if (!append(&column->missing, &mark, 1)) {
            return false;
        }
    }
    if (missing && !column->nullable) {
        column->nullable = true;
        column->changed = true;
    }
    column->missing_count += missing;
    column->rows++;
    return true;
}

static tfos__row_fit push_missing(tfos__row_column *column)
{
    return fit((column->rows > 0 || begin_ends(column)) && append_nothing(column) && end_row(column, true));
}

void tfos__row_column_truncate(tfos__row_column *column, int64_t rows)
{
    if (rows >= column->rows) {
        return;
    }
    for (int64_t row = rows; column->missing.size > 0 && row < column->rows; row++) {
        column->missing_count -= column->missing.data[row];
    }
    column->missing.size = column->missing_count > 0 ? (size_t)rows : 0;
    column->values = rows;
    if (tfos_row_kind_has_lists(&column->kind)) {
        column->list_ends.size = (size_t)(rows + 1) * sizeof(int32_t);
        column->values = int32s(&column->list_ends)[rows];
    }
    size_t width = tfos__row_kind_width(&column->kind);
    if (width == 0) {
        column->ends.size = (size_t)(column->values + 1) * sizeof(int32_t);
        column->data.size = (size_t)int32s(&column->ends)[column->values];
    } else {
        column->data.size = (size_t)column->values * width;
    }
    column->rows = rows;
}

/* ---- values ---- */

/* Bytes and values of a column are counted in 32 bits. A batch that has rows is cut before they are too many; a row
 * that has too many alone is an error. */
static tfos__row_fit check_room(const tfos__row_column *column, size_t more)
{
    if (column->data.size + more <= INT32_MAX) {
        return TFOS__ROW_FITS;
    }
    if (column->rows == 0) {
        tfos_error error = {.status = TFOS_LIMIT};
        snprintf(error.message, sizeof error.message, "a value of a row takes %zu bytes; the limit is %d: split it",
                 column->data.size + more, INT32_MAX);
        tfos__python_raise(&error);
        return TFOS__ROW_FAILED;
    }
    return TFOS__ROW_MISFIT;
}

static tfos__row_fit push_bytes(tfos__row_column *column, const void *bytes, size_t count)
{
    tfos__row_fit room = check_room(column, count);
    if (room != TFOS__ROW_FITS) {
        return room;
    }
    column->values++;
    return fit(append(&column->data, bytes, count) && append_end(&column->ends, column->data.size));
}

static tfos__row_fit push_text(tfos__row_column *column, PyObject *object)
{
    Py_ssize_t count;
    const char *text = PyUnicode_AsUTF8AndSize(object, &count);
    if (text == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
            return TFOS__ROW_FAILED;
        }
        PyErr_Clear(); /* a surrogate on its own is no text to anybody else */
        return TFOS__ROW_MISFIT;
    }
    return push_bytes(column, text, (size_t)count);
}

static tfos__row_fit push_pickled(tfos__row_column *column, PyObject *object)
{
    PyObject *bytes = tfos__row_pickle(object);
    if (bytes == NULL) {
        return TFOS__ROW_FAILED;
    }
    tfos__row_fit result = push_bytes(column, PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes));
    Py_DECREF(bytes);
    return result;
}

/* Integers straight into the column, as long as they are some. */
static tfos__row_fit push_ints(tfos__row_column *column, PyObject *list, PyObject *(*get)(PyObject *, Py_ssize_t),
                               Py_ssize_t count)
{
    int64_t *out = (int64_t *)(void *)(column->data.data + column->data.size);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = get(list, i);
        int overflow = 0;
        if (item == NULL || Py_TYPE(item) != &PyLong_Type) {
            return item == NULL ? TFOS__ROW_FAILED : TFOS__ROW_MISFIT;
        }
        out[i] = PyLong_AsLongLongAndOverflow(item, &overflow);
        if (overflow != 0) {
            return TFOS__ROW_MISFIT;
        }
    }
    return TFOS__ROW_FITS;
}

static tfos__row_fit push_floats(tfos__row_column *column, PyObject *list, PyObject *(*get)(PyObject *, Py_ssize_t),
                                 Py_ssize_t count)
{
    double *out = (double *)(void *)(column->data.data + column->data.size);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = get(list, i);
        if (item == NULL || Py_TYPE(item) != &PyFloat_Type) {
            return item == NULL ? TFOS__ROW_FAILED : TFOS__ROW_MISFIT;
        }
        out[i] = PyFloat_AsDouble(item);
    }
    return TFOS__ROW_FITS;
}

static tfos__row_fit push_booleans(tfos__row_column *column, PyObject *list, PyObject *(*get)(PyObject *, Py_ssize_t),
                                   Py_ssize_t count)
{
    char *out = column->data.data + column->data.size;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = get(list, i);
        if (item == NULL || Py_TYPE(item) != &PyBool_Type) {
            return item == NULL ? TFOS__ROW_FAILED : TFOS__ROW_MISFIT;
        }
        out[i] = (char)(item == Py_True);
    }
    return TFOS__ROW_FITS;
}

static tfos__row_fit push_texts(tfos__row_column *column, PyObject *list, PyObject *(*get)(PyObject *, Py_ssize_t),
                                Py_ssize_t count)
{
    tfos__row_fit result = TFOS__ROW_FITS;
    bool text = column->kind.leaf == TFOS_ROW_LEAF_STR;
    for (Py_ssize_t i = 0; result == TFOS__ROW_FITS && i < count; i++) {
        PyObject *item = get(list, i);
        if (item == NULL || Py_TYPE(item) != (text ? &PyUnicode_Type : &PyBytes_Type)) {
            return item == NULL ? TFOS__ROW_FAILED : TFOS__ROW_MISFIT;
        }
        result =
            text ? push_text(column, item) : push_bytes(column, PyBytes_AsString(item), (size_t)PyBytes_Size(item));
    }
    return result;
}

/* `count` items of a list, or one that is all the row has. */
static tfos__row_fit push_items(tfos__row_column *column, PyObject *list, PyObject *(*get)(PyObject *, Py_ssize_t),
                                Py_ssize_t count)
{
    size_t width = tfos__row_kind_width(&column->kind);
    tfos__row_fit result = check_room(column, (size_t)count * width);
    if (result == TFOS__ROW_FITS && !reserve(&column->data, (size_t)count * width)) {
        result = TFOS__ROW_FAILED;
    }
    if (result != TFOS__ROW_FITS) {
        return result;
    }
    result = column->kind.leaf == TFOS_ROW_LEAF_INT     ? push_ints(column, list, get, count)
             : column->kind.leaf == TFOS_ROW_LEAF_FLOAT ? push_floats(column, list, get, count)
             : column->kind.leaf == TFOS_ROW_LEAF_BOOL  ? push_booleans(column, list, get, count)
                                                        : push_texts(column, list, get, count);
    if (result == TFOS__ROW_FITS && width > 0) {
        column->values += count;
        column->data.size += (size_t)count * width;
    }
    return result;
}

static PyObject *itself(PyObject *object, Py_ssize_t unused)
{
    (void)unused;
    return object;
}

/* ---- NumPy ---- */

static tfos__row_fit push_view(tfos__row_column *column, const Py_buffer *view)
{
    size_t bytes = (size_t)view->len;
    tfos__row_fit room = check_room(column, bytes);
    if (room != TFOS__ROW_FITS || !reserve(&column->data, bytes)) {
        return room != TFOS__ROW_FITS ? room : TFOS__ROW_FAILED;
    }
    char *out = column->data.data + column->data.size;
    if (PyBuffer_IsContiguous(view, 'C')) {
        memcpy(out, view->buf, bytes);
    } else if (PyBuffer_ToContiguous(out, view, view->len, 'C') < 0) {
        return TFOS__ROW_FAILED;
    }
    column->data.size += bytes;
    if (column->kind.numpy->type == TFOS_TYPE_BINARY) {
        column->values++;
        return fit(append_end(&column->ends, column->data.size));
    }
    column->values += (int64_t)(bytes / (size_t)column->kind.numpy->bytes);
    return TFOS__ROW_FITS;
}

static bool same_shape(const tfos_row_kind *kind, const Py_buffer *view)
{
    bool same = view->ndim == kind->dimensions;
    for (int i = 0; same && kind->dimensions != 1 && i < kind->dimensions; i++) {
        same = view->shape[i] == kind->shape[i];
    }
    return same;
}

static tfos__row_fit push_numpy(tfos__row_column *column, PyObject *object)
{
    const tfos_row_kind *kind = &column->kind;
    Py_buffer view;
    bool array = kind->form == TFOS_ROW_FORM_ARRAY;
    if (array ? !tfos__numpy_is_array(object) : !tfos__numpy_is_scalar(object, kind->numpy)) {
        return TFOS__ROW_MISFIT;
    }
    if (PyObject_GetBuffer(object, &view, PyBUF_RECORDS_RO) < 0) {
        PyErr_Clear(); /* an array of another type, which has no buffer */
        return TFOS__ROW_MISFIT;
    }
    tfos__row_fit result = TFOS__ROW_MISFIT;
    if (array ? tfos__numpy_type_of(&view) == kind->numpy && same_shape(kind, &view)
              : view.len == (Py_ssize_t)kind->numpy->bytes) {
        result = push_view(column, &view);
    }
    PyBuffer_Release(&view);
    return result;
}

/* ---- rows ---- */

/* Lists that were all empty so far get their leaf from the first one that is not. */
static tfos__row_fit begin_leaf(tfos__row_column *column, PyObject *list)
{
    tfos_row_kind kind;
    if (tfos__row_kind_of(list, &kind) < 0) {
        return TFOS__ROW_FAILED;
    }
    if (kind.form != column->kind.form || kind.leaf == TFOS_ROW_LEAF_NONE) {
        return kind.form != column->kind.form ? TFOS__ROW_MISFIT : TFOS__ROW_FITS;
    }
    column->kind.leaf = kind.leaf;
    column->changed = true;
    return TFOS__ROW_FITS;
}

static tfos__row_fit push_list(tfos__row_column *column, PyObject *object)
{
    bool list = column->kind.form == TFOS_ROW_FORM_LIST;
    if (Py_TYPE(object) != (list ? &PyList_Type : &PyTuple_Type)) {
        return TFOS__ROW_MISFIT;
    }
    if (column->kind.leaf == TFOS_ROW_LEAF_NONE) {
        tfos__row_fit begun = begin_leaf(column, object);
        if (begun != TFOS__ROW_FITS) {
            return begun;
        }
    }
    return push_items(column, object, list ? PyList_GetItem : PyTuple_GetItem,
                      list ? PyList_Size(object) : PyTuple_Size(object));
}

static tfos__row_fit push_value(tfos__row_column *column, PyObject *object)
{
    const tfos_row_kind *kind = &column->kind;
    if (kind->leaf == TFOS_ROW_LEAF_NUMPY) {
        return push_numpy(column, object);
    }
    if (kind->leaf == TFOS_ROW_LEAF_PICKLE) {
        return push_pickled(column, object);
    }
    return kind->form == TFOS_ROW_FORM_VALUE ? push_items(column, object, itself, 1) : push_list(column, object);
}

static tfos__row_fit end_list(tfos__row_column *column, int64_t before)
{
    int64_t length = column->values - before;
    int64_t known = column->list_length;
    column->list_length = known == TFOS__ROW_LENGTH_UNKNOWN || known == length ? length : TFOS__ROW_LENGTH_VARIES;
    column->changed |= column->list_length != known;
    return fit(append_end(&column->list_ends, (size_t)column->values));
}

/* The common case at once: one more number in a column of such, none of which is missing, where there is room. */
static bool push_number(tfos__row_column *column, PyObject *object)
{
    char *out = column->data.data + column->data.size;
    size_t width = sizeof(int64_t);
    if (column->kind.form != TFOS_ROW_FORM_VALUE || column->rows == 0 || column->missing.size > 0 ||
        column->data.size + width > column->data.capacity || column->data.size + width > INT32_MAX) {
        return false;
    }
    if (column->kind.leaf == TFOS_ROW_LEAF_INT && Py_TYPE(object) == &PyLong_Type) {
        int overflow = 0;
        *(int64_t *)(void *)out = PyLong_AsLongLongAndOverflow(object, &overflow);
        if (overflow != 0) {
            return false;
        }
    } else if (column->kind.leaf == TFOS_ROW_LEAF_FLOAT && Py_TYPE(object) == &PyFloat_Type) {
        *(double *)(void *)out = PyFloat_AsDouble(object);
    } else {
        return false;
    }
    column->data.size += width;
    column->values++;
    column->rows++;
    return true;
}

tfos__row_fit tfos__row_column_push(tfos__row_column *column, PyObject *object)
{
    if (push_number(column, object)) {
        return TFOS__ROW_FITS;
    }
    if (object == Py_None) {
        return push_missing(column);
    }
    if (!knows_its_kind(column)) {
        tfos_row_kind kind;
        if (tfos__row_kind_of(object, &kind) < 0 || !begin_kind(column, &kind)) {
            return TFOS__ROW_FAILED;
        }
    } else if (column->rows == 0 && !begin_ends(column)) {
        return TFOS__ROW_FAILED;
    }
    int64_t values = column->values;
    size_t data_bytes = column->data.size;
    size_t ends_bytes = column->ends.size;
    size_t list_ends_bytes = column->list_ends.size;
    tfos__row_fit result = push_value(column, object);
    if (result == TFOS__ROW_FITS && tfos_row_kind_has_lists(&column->kind)) {
        result = end_list(column, values);
    }
    if (result == TFOS__ROW_FITS) {
        result = fit(end_row(column, false));
    }
    if (result != TFOS__ROW_FITS) {
        column->values = values;
        column->data.size = data_bytes;
        column->ends.size = ends_bytes;
        column->list_ends.size = list_ends_bytes;
    }
    return result;
}

tfos__row_fit tfos__row_column_adapt(tfos__row_column *column, PyObject *object)
{
    static const tfos_row_kind pickled = {.leaf = TFOS_ROW_LEAF_PICKLE};
    tfos__row_fit result = tfos__row_column_push(column, object);
    /* Once for another kind; if its values do not fit either, to be pickled. */
    while (result == TFOS__ROW_MISFIT) {
        tfos_row_kind kind;
        if (tfos__row_kind_of(object, &kind) < 0) {
            return TFOS__ROW_FAILED;
        }
        bool must = kind.leaf == TFOS_ROW_LEAF_PICKLE || tfos__row_kind_equal(&kind, &column->kind);
        bool pickle = tfos__row_temper_misfit(&column->temper, must);
        if (!begin_kind(column, pickle ? &pickled : &kind)) {
            return TFOS__ROW_FAILED;
        }
        result = tfos__row_column_push(column, object);
    }
    return result;
}

/* ---- the column of a batch ---- */

/* Bits of bytes that are 0 or 1. */
static bool pack(tfos__row_bytes *out, const char *from, size_t count, char flip)
{
    out->size = 0;
    if (!reserve(out, (count + 7) / 8 + 1)) {
        return false;
    }
    memset(out->data, 0, (count + 7) / 8 + 1);
    for (size_t i = 0; i < count; i++) {
        out->data[i / 8] = (char)(out->data[i / 8] | (from[i] ^ flip) << (i % 8));
    }
    return true;
}

static bool show_values(tfos__row_column *column, tfos_vector *out)
{
    bool sized = tfos__row_kind_width(&column->kind) > 0;
    *out = (tfos_vector){.layout = sized ? TFOS_LAYOUT_VALUES : TFOS_LAYOUT_BYTES,
                         .type = tfos_row_kind_type(&column->kind),
                         .length = column->values,
                         .offsets = sized ? NULL : int32s(&column->ends),
                         .data = column->data.data};
    if (out->type == TFOS_TYPE_BOOL) {
        out->data = column->booleans.data;
        return pack(&column->booleans, column->data.data, (size_t)column->values, 0) &&
               (out->data = column->booleans.data) != NULL;
    }
    return true;
}

bool tfos__row_column_show(tfos__row_column *column, tfos_field *field, tfos_vector *top, tfos_vector *child)
{
    bool lists = tfos_row_kind_has_lists(&column->kind);
    /* A missing row of a fixed list would have to have values. */
    bool fixed = lists && column->list_length > 0 && column->list_length <= TFOS_SCHEMA_MAX_LENGTH && !column->nullable;
    *field = (tfos_field){.type = tfos_row_kind_type(&column->kind),
                          .shape = fixed   ? TFOS_SHAPE_FIXED
                                   : lists ? TFOS_SHAPE_RAGGED
                                           : TFOS_SHAPE_SCALAR,
                          .length = fixed ? (int32_t)column->list_length : 0,
                          .nullable = column->nullable};
    if (!show_values(column, lists ? child : top)) {
        return false;
    }
    if (lists) {
        *top = (tfos_vector){.layout = fixed ? TFOS_LAYOUT_FIXED_LIST : TFOS_LAYOUT_LIST,
                             .type = field->type,
                             .list_length = field->length,
                             .length = column->rows,
                             .offsets = fixed ? NULL : int32s(&column->list_ends),
                             .child = child};
    }
    if (column->missing_count > 0) {
        if (!pack(&column->bits, column->missing.data, (size_t)column->rows, 1)) {
            return false;
        }
        top->validity = (const uint8_t *)column->bits.data;
    }
    return true;
}
