/* Rows of Python objects as columns, and back. What kinds of rows and values there are, and how the note of a schema
 * says it, is in tfos/rows.h.
 *
 * Rows come out equal in type and value to what went in. So only objects of exactly Python's own types become columns;
 * subclasses, integers beyond 64 bits, text that is no UTF-8, lists of this and that and everything else is pickled. */
#ifndef TFOS_PYTHON_ROWS_H
#define TFOS_PYTHON_ROWS_H

#include "_native.h"

enum { TFOS__ROW_FIELDS_MAX = 1024 };

/* ---- shapes ---- */

/* The shape of a row and the names of its columns, a new tuple. False with an exception. */
bool tfos__row_shape_of(PyObject *row, tfos_row_shape *shape, PyObject **names);

/* Whether this is a Row of pyspark, and its __fields__: NULL without exception if it has none. */
bool tfos__row_is_spark(PyObject *object);
PyObject *tfos__row_spark_fields(PyObject *row);

/* ---- NumPy, reached without its headers ---- */

/* NumPy's array, once it is known: whoever has an array has imported NumPy. `import` imports it. False with an
 * exception, or without one if NumPy is not there and `import` is false. */
bool tfos__numpy_load(bool import);

bool tfos__numpy_is_array(PyObject *object);
bool tfos__numpy_is_scalar(PyObject *object, const tfos_numpy_type *type);

/* The type of an array by the format of its buffer; NULL if it is none of the table. */
const tfos_numpy_type *tfos__numpy_type_of(const Py_buffer *view);

/* A new array of this shape over `memory`, which exports a buffer. */
PyObject *tfos__numpy_array(const tfos_numpy_type *type, PyObject *shape, PyObject *memory);

/* ---- kinds ---- */

/* The kind of an object as its type shows, and in a list or tuple that of the first item. Values may still not fit:
 * then the kind is PICKLE. -1 with an exception. */
int tfos__row_kind_of(PyObject *object, tfos_row_kind *out);

/* LEAF_NONE for None, LEAF_PICKLE for all that is no leaf of a list. */
tfos_row_leaf tfos__row_leaf_of(PyObject *object);

bool tfos__row_kind_equal(const tfos_row_kind *a, const tfos_row_kind *b);

/* Bytes of a value while columns are built; 0 if each has its own. Booleans take a byte. */
size_t tfos__row_kind_width(const tfos_row_kind *kind);

/* ---- pickle ---- */

PyObject *tfos__row_pickle(PyObject *object);
PyObject *tfos__row_unpickle(const void *data, size_t bytes);

/* ---- columns that are being built ---- */

typedef enum tfos__row_fit { TFOS__ROW_FAILED = -1, TFOS__ROW_FITS, TFOS__ROW_MISFIT } tfos__row_fit;

/* Decides what follows a misfit. Data may change from one kind to another for good, or have two kinds mixed. So the
 * first times the new kind is taken; then everything is pickled, for as many batches as the last time and as many
 * again, before types are tried anew. When all was well for a while, it is forgotten. */
typedef struct tfos__row_temper {
    int misfits;
    int patience; /* batches; the next time */
    int left;     /* batches to go */
    int calm;     /* batches since the last misfit */
} tfos__row_temper;

/* A misfit: true if all is to be pickled for a while. `must`: there is no other way. */
bool tfos__row_temper_misfit(tfos__row_temper *temper, bool must);

/* The end of a batch: true if something that is pickled need not be so any more. */
bool tfos__row_temper_rest(tfos__row_temper *temper);

typedef struct tfos__row_bytes {
    char *data;
    size_t size;
    size_t capacity;
} tfos__row_bytes;

enum { TFOS__ROW_LENGTH_UNKNOWN = -1, TFOS__ROW_LENGTH_VARIES = -2 };

typedef struct tfos__row_column {
    tfos_row_kind kind; /* LEAF_NONE: not known yet */
    tfos__row_temper temper;
    bool nullable; /* this and the length are kept from batch to batch, so that schemas do not change all the time */
    int64_t list_length; /* of every row so far, or as above */
    bool changed;        /* what a schema says of it */
    int64_t rows;
    int64_t values; /* in all lists */
    int64_t missing_count;
    tfos__row_bytes data;
    tfos__row_bytes ends;      /* int32_t: where values of different lengths end, after a 0 */
    tfos__row_bytes list_ends; /* int32_t: where lists end, after a 0 */
    tfos__row_bytes missing;   /* a byte for each row, once one is missing */
    tfos__row_bytes bits;      /* … as Arrow has it */
    tfos__row_bytes booleans;
} tfos__row_column;

void tfos__row_column_init(tfos__row_column *column);
void tfos__row_column_reset(tfos__row_column *column);

/* One more row. MISFIT and FAILED leave the column as it was, but for its kind if it had none. */
tfos__row_fit tfos__row_column_push(tfos__row_column *column, PyObject *object);

/* The same for a column without rows, which takes another kind if it must. */
tfos__row_fit tfos__row_column_adapt(tfos__row_column *column, PyObject *object);

void tfos__row_column_truncate(tfos__row_column *column, int64_t rows);

/* The column as the library wants it; `child` is for the values of lists. False with an exception. */
bool tfos__row_column_show(tfos__row_column *column, tfos_field *field, tfos_vector *top, tfos_vector *child);

/* ---- RowEncoder, as C uses it ---- */

/* NULL with an exception. */
PyObject *tfos__row_encoder_new(void);

/* The next rows of an iterator: those that make a batch, or that have come when so many milliseconds are over. END: the
 * iterator has ended; *out are the last ones. *out is NULL where there are none. RAISED: an exception is set. */
tfos_status tfos__row_encoder_next(PyObject *encoder, PyObject *iterator, int64_t patience_ms, tfos_batch **out,
                                   tfos_error *error);

/* ---- the other way ---- */

/* A list of the rows of a Batch. */
PyObject *tfos__row_decode(PyObject *batch);

extern PyMethodDef tfos__row_decode_methods[];

/* ---- notes ---- */

/* Functions for what is done in Python: row_fields, array_schema. */
extern PyMethodDef tfos__row_note_methods[];

#endif
