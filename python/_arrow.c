/* Arrow's structs in capsules, as the Arrow PyCapsule interface names them. A capsule releases and frees what it holds.
 */
#include "_native.h"

#include <stdlib.h>

const char TFOS__SCHEMA_CAPSULE[] = "arrow_schema";
const char TFOS__ARRAY_CAPSULE[] = "arrow_array";
const char TFOS__STREAM_CAPSULE[] = "arrow_array_stream";

#define CAPSULE_FREE(function, type, name)                                                                             \
    static void function(PyObject *capsule)                                                                            \
    {                                                                                                                  \
        struct type *held = PyCapsule_GetPointer(capsule, name);                                                       \
        if (held->release != NULL) {                                                                                   \
            held->release(held);                                                                                       \
        }                                                                                                              \
        free(held);                                                                                                    \
    }
CAPSULE_FREE(free_schema_capsule, ArrowSchema, TFOS__SCHEMA_CAPSULE)
CAPSULE_FREE(free_array_capsule, ArrowArray, TFOS__ARRAY_CAPSULE)
CAPSULE_FREE(free_stream_capsule, ArrowArrayStream, TFOS__STREAM_CAPSULE)
#undef CAPSULE_FREE

/* A capsule that takes over what it is to hold, also on failure. NULL: there was no memory for it. */
static PyObject *new_capsule(void *held, const char *name, PyCapsule_Destructor destructor)
{
    if (held == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *capsule = PyCapsule_New(held, name, destructor);
    if (capsule == NULL) {
        free(held);
    }
    return capsule;
}

PyObject *tfos__python_schema_capsule_new(struct ArrowSchema **out)
{
    return new_capsule(*out = calloc(1, sizeof **out), TFOS__SCHEMA_CAPSULE, free_schema_capsule);
}

PyObject *tfos__python_array_capsule_new(struct ArrowArray **out)
{
    return new_capsule(*out = calloc(1, sizeof **out), TFOS__ARRAY_CAPSULE, free_array_capsule);
}

PyObject *tfos__python_stream_capsule_new(struct ArrowArrayStream **out)
{
    return new_capsule(*out = calloc(1, sizeof **out), TFOS__STREAM_CAPSULE, free_stream_capsule);
}
