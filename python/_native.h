/* What the files of the Python extension share: tfos.h as Python objects, and nothing else.
 *
 * Each file has one type, or one subject, and adds it to the module by itself: to add one, write _<part>.c with
 * tfos__python_add_<part>, and name it in the map below and in CMakeLists.txt.
 *
 * What a Python programmer meets is in tensorflowonspark/records.py and TFCluster.py; NumPy is used there and not here.
 * Data leaves and enters by the buffer protocol and by Arrow capsules.
 *
 * The GIL is released around every call that works or waits. Threads of the library never take it: so whatever holds an
 * object of the library may be freed with or without the GIL, and nobody waits for a thread that waits for the GIL.
 *
 * One extension serves every Python from 3.11 on: the limited API alone. */
#ifndef TFOS_PYTHON_NATIVE_H
#define TFOS_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <stdbool.h>

#include "tfos.h"

/* The parts of the module, in the order in which they are added: int tfos__python_add_<part>(PyObject *module), which
 * is -1 with an exception set on failure. The log is last: before that, nothing of the library comes to Python. */
#define TFOS__PYTHON_PART_MAP(X)                                                                                       \
    X(error)                                                                                                           \
    X(schema)                                                                                                          \
    X(buffer)                                                                                                          \
    X(column)                                                                                                          \
    X(batch)                                                                                                           \
    X(reader)                                                                                                          \
    X(writer)                                                                                                          \
    X(cluster)                                                                                                         \
    X(driver)                                                                                                          \
    X(pump)                                                                                                            \
    X(feed)                                                                                                            \
    X(group)                                                                                                           \
    X(rows)                                                                                                            \
    X(trainer)                                                                                                         \
    X(log)

#define TFOS__PYTHON_ADD(part) int tfos__python_add_##part(PyObject *module);
TFOS__PYTHON_PART_MAP(TFOS__PYTHON_ADD)
#undef TFOS__PYTHON_ADD

/* ---- _module.c ---- */

/* Adds a type to the module, under `name`; *out is for the file that has it. Only a callable one is made by Python. */
int tfos__python_add_type(PyObject *module, const char *name, size_t bytes, PyType_Slot *slots, bool callable,
                          PyTypeObject **out);

/* Memory for an object of such a type, and back. */
void *tfos__python_new(PyTypeObject *type);
void tfos__python_free(void *self);

/* ---- _error.c ---- */

/* Raises the exception for an error of the library; returns NULL. */
PyObject *tfos__python_raise(const tfos_error *error);

/* ---- _log.c ---- */

/* Hands queued lines to Python's logging. Called with the GIL, while no exception is set. */
void tfos__python_log_drain(void);

/* ---- _wait.c ---- */

/* Around calls that may last: the GIL is given up, and `interrupted`, to be passed to the library, takes it back now
 * and then to look at signals. */
void tfos__python_begin_waiting(void);
void tfos__python_end_waiting(void);
bool tfos__python_interrupted(void *context);

/* ---- _arguments.c ---- */

/* C strings, a NULL behind them, that live as long as the Python objects that hold them. */
typedef struct tfos__python_strings {
    PyObject *owners;
    const char **items;
    size_t count;
} tfos__python_strings;

/* `convert` makes a bytes object of an item, as PyUnicode_FSConverter does: an item with a NUL byte is an error. False
 * with an exception set, and nothing to reset. */
bool tfos__python_strings_init(PyObject *sequence, int (*convert)(PyObject *, void *), tfos__python_strings *out);
void tfos__python_strings_reset(tfos__python_strings *list);

/* ---- _cluster_options.c ---- */

enum { TFOS__PYTHON_WORD_LISTS = 4 };

/* The options of a cluster, and what keeps everything that they point to. */
typedef struct tfos__python_cluster_options {
    tfos_cluster_options options;
    PyObject *args;
    PyObject *keywords;
    Py_buffer payload;
    PyObject *from[TFOS__PYTHON_WORD_LISTS]; /* sequences or None, of the keywords */
    tfos__python_strings words[TFOS__PYTHON_WORD_LISTS];
} tfos__python_cluster_options;

/* The keywords are the fields of tfos_cluster_options. False with an exception set, and nothing to reset. */
bool tfos__python_cluster_options_init(PyObject *args, PyObject *keywords, tfos__python_cluster_options *out);
void tfos__python_cluster_options_reset(tfos__python_cluster_options *old);

/* The same for a feed; the name of its queue is that of the keywords. */
bool tfos__python_feed_options_init(PyObject *args, PyObject *keywords, tfos_feed_options *out);

/* ---- _arrow.c ---- */

/* The names of capsules. */
extern const char TFOS__SCHEMA_CAPSULE[];
extern const char TFOS__ARRAY_CAPSULE[];
extern const char TFOS__STREAM_CAPSULE[];

/* A capsule with a struct of zeros to be filled in, which the capsule releases and frees. */
PyObject *tfos__python_schema_capsule_new(struct ArrowSchema **out);
PyObject *tfos__python_array_capsule_new(struct ArrowArray **out);
PyObject *tfos__python_stream_capsule_new(struct ArrowArrayStream **out);

/* ---- _schema.c ---- */

/* A Schema; takes the schema over, also on failure. */
PyObject *tfos__python_schema_wrap(tfos_schema *schema);

/* A Schema that says the same. */
PyObject *tfos__python_schema_copy(const tfos_schema *from);

/* The schema of a Schema, which stays its; NULL and TypeError for another object. */
const tfos_schema *tfos__python_schema_of(PyObject *object);

/* A schema in a capsule. */
PyObject *tfos__python_schema_capsule(const tfos_schema *schema);

/* ---- _buffer.c ---- */

/* Memory that `owner` keeps: `count` items of a format of Python's module struct. */
PyObject *tfos__python_buffer_new(PyObject *owner, const void *data, const char *format, size_t item_bytes,
                                  int64_t count);

/* ---- _column.c ---- */

/* A Column of a batch that `owner` keeps. */
PyObject *tfos__python_column_wrap(PyObject *owner, const tfos_vector *vector);

/* A row of a column as Python's own objects; None where it is missing. */
PyObject *tfos__python_value(const tfos_vector *vector, int64_t row);

/* Bit `index` of Arrow's bits. */
static inline bool tfos__python_bit(const uint8_t *bits, int64_t index)
{
    return (bits[index >> 3] >> (index & 7)) & 1;
}

/* ---- _batch.c ---- */

/* A Batch; takes the reference over, also on failure. */
PyObject *tfos__python_batch_wrap(tfos_batch *batch);

/* The batch of a Batch, which stays its; NULL and TypeError for another object. */
tfos_batch *tfos__python_batch_of(PyObject *object);

/* ---- _table.c ---- */

/* A table of columns that are the memory of Python objects, as an Arrow struct. */
typedef struct tfos__python_table {
    struct ArrowSchema schema;
    struct ArrowArray array;
    size_t count;
    struct tfos__python_node **columns;
    struct ArrowSchema **schemas;
    struct ArrowArray **arrays;
    const void *buffers[1];
} tfos__python_table;

/* `specs` is a list of (name, format, feature_list, length, null_count, buffers, child or None); a child is such a
 * tuple. The table holds the buffers, not the tuples. False with an exception set, and nothing to reset. */
bool tfos__python_table_init(tfos__python_table *out, int64_t rows, PyObject *specs);
void tfos__python_table_reset(tfos__python_table *old);

#endif
