/* The types of tensors, and how values of columns become such values and the reverse. */
#ifndef TFOS_TENSORFLOW_DTYPE_H
#define TFOS_TENSORFLOW_DTYPE_H

#include "tfos.h"

/* X(name, number in TensorFlow's ABI, as its users call it). */
#define TFOS__DTYPE_MAP(X)                                                                                             \
    X(FLOAT, 1, "float32")                                                                                             \
    X(DOUBLE, 2, "float64")                                                                                            \
    X(INT32, 3, "int32")                                                                                               \
    X(UINT8, 4, "uint8")                                                                                               \
    X(INT16, 5, "int16")                                                                                               \
    X(INT8, 6, "int8")                                                                                                 \
    X(STRING, 7, "string")                                                                                             \
    X(COMPLEX64, 8, "complex64")                                                                                       \
    X(INT64, 9, "int64")                                                                                               \
    X(BOOL, 10, "bool")                                                                                                \
    X(QINT8, 11, "qint8")                                                                                              \
    X(QUINT8, 12, "quint8")                                                                                            \
    X(QINT32, 13, "qint32")                                                                                            \
    X(BFLOAT16, 14, "bfloat16")                                                                                        \
    X(QINT16, 15, "qint16")                                                                                            \
    X(QUINT16, 16, "quint16")                                                                                          \
    X(UINT16, 17, "uint16")                                                                                            \
    X(COMPLEX128, 18, "complex128")                                                                                    \
    X(HALF, 19, "float16")                                                                                             \
    X(RESOURCE, 20, "resource")                                                                                        \
    X(VARIANT, 21, "variant")                                                                                          \
    X(UINT32, 22, "uint32")                                                                                            \
    X(UINT64, 23, "uint64")

typedef enum tfos__dtype {
    TFOS__DTYPE_NONE,
#define TFOS__DTYPE_ENUM(name, number, text) TFOS__DTYPE_##name = (number),
    TFOS__DTYPE_MAP(TFOS__DTYPE_ENUM)
#undef TFOS__DTYPE_ENUM
} tfos__dtype;

/* "float32"; "unknown" for a number that is no type. */
const char *tfos__dtype_name(tfos__dtype dtype);

/* How values of a type lie in a tensor, and in a column. */
typedef struct tfos__dtype_form {
    bool has_columns; /* false: no column has such values, and nothing below means anything */
    tfos_type type;   /* of the column that has them all */
    size_t width;     /* bytes of a value in a tensor; 0: a string */
    bool same;        /* they lie in both in the same way */
} tfos__dtype_form;

tfos__dtype_form tfos__dtype_form_of(tfos__dtype dtype);

/* Whether values of a column of this type can be asked for as such values: as tfos__convert_allows says, and the bytes
 * of a binary are numbers of uint8. */
bool tfos__dtype_takes(tfos__dtype dtype, tfos_type from);

/* Writes the numbers of a vector of VALUES as such values. RANGE names the first that does not fit: a whole number that
 * would be another one, a real one that would be infinite. */
tfos_status tfos__dtype_write(tfos__dtype dtype, const tfos_vector *values, void *to, tfos_error *error);

/* Reads `count` such numbers as numbers of the type of their column; booleans become bits. RANGE for a number of uint64
 * that no column has. */
tfos_status tfos__dtype_read(tfos__dtype dtype, const void *from, int64_t count, void *to, tfos_error *error);

#endif
