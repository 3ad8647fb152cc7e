/* Where the library of TensorFlow is: asked of the environment and of the file system, nothing is loaded. */
#ifndef TFOS_TENSORFLOW_FIND_H
#define TFOS_TENSORFLOW_FIND_H

#include <limits.h>

#include "tfos.h"

/* The C API is in the first of these in the wheel, in the second in the library for C that tensorflow.org hands out. */
#define TFOS__TENSORFLOW_WHEEL_LIBRARY "libtensorflow_cc.so.2"
#define TFOS__TENSORFLOW_C_LIBRARY "libtensorflow.so.2"

typedef struct tfos__tensorflow_search {
    char path[PATH_MAX]; /* the library; "" if there is none in the places below */
    char looked[768];    /* the places, "; " between them, for the message that there is none */
} tfos__tensorflow_search;

/* Looks, in this order, at
 *   - TFOS_TENSORFLOW_LIB, a file or a folder that holds it; when it is set, nothing else is looked at;
 *   - the packages of a Python: `python`, else PYSPARK_PYTHON, else VIRTUAL_ENV, else python3 on the PATH. First the
 *     folders where that Python keeps them; if TensorFlow is not there, the interpreter is asked, for ten seconds at
 *     most, without importing TensorFlow;
 *   - the folders of the system.
 * NOT_FOUND if TFOS_TENSORFLOW_LIB or `python` names nothing. No library at all is no failure.
 *
 * Owner: `out` is the caller's storage.
 * Thread: any, while nobody changes the environment. */
tfos_status tfos__tensorflow_find(const char *python, tfos__tensorflow_search *out, tfos_error *error);

#endif
