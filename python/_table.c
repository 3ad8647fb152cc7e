/* Columns of Python memory as an Arrow struct, for as long as a call lasts. */
#include "_native.h"

#include <stdlib.h>

enum { NODE_BUFFERS = 3 };

/* How deep a column may be nested before the library sees it and says what it takes. NumPy has 64 dimensions. */
enum { NODE_LEVELS = 64 };

/* One level of a column. The memory is that of Python objects, held by `views` while the struct is used. */
typedef struct tfos__python_node {
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct ArrowSchema *schema_child;
    struct ArrowArray *array_child;
    struct tfos__python_node *child;
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

void tfos__python_table_reset(tfos__python_table *old)
{
    for (size_t i = 0; i < old->count; i++) {
        node_free(old->columns[i]);
    }
    free(old->columns);
    free(old->schemas);
    free(old->arrays);
}

bool tfos__python_table_init(tfos__python_table *out, int64_t rows, PyObject *specs)
{
    Py_ssize_t count = PyList_Size(specs);
    if (count < 0) {
        return false;
    }
    *out = (tfos__python_table){.columns = calloc((size_t)count + 1, sizeof *out->columns),
                                .schemas = calloc((size_t)count + 1, sizeof *out->schemas),
                                .arrays = calloc((size_t)count + 1, sizeof *out->arrays)};
    if (out->columns == NULL || out->schemas == NULL || out->arrays == NULL) {
        tfos__python_table_reset(out);
        PyErr_NoMemory();
        return false;
    }
    for (; out->count < (size_t)count; out->count++) {
        node *column = node_new(PyList_GetItem(specs, (Py_ssize_t)out->count), 1);
        if (column == NULL) {
            tfos__python_table_reset(out);
            return false;
        }
        out->columns[out->count] = column;
        out->schemas[out->count] = &column->schema;
        out->arrays[out->count] = &column->array;
    }
    out->schema = (struct ArrowSchema){
        .format = "+s", .name = "", .n_children = (int64_t)count, .children = out->schemas, .release = keep_schema};
    out->array = (struct ArrowArray){.length = rows,
                                     .n_buffers = 1,
                                     .buffers = out->buffers,
                                     .n_children = (int64_t)count,
                                     .children = out->arrays,
                                     .release = keep_array};
    return true;
}
