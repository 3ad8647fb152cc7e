/* TensorFlow's C API, found and loaded when it is first needed: building tfos needs neither its headers nor its
 * library, and one binary serves every TensorFlow from 2.16 on.
 *
 * Call through the table, by TensorFlow's own names: tf->TF_NewServer(…). */
#ifndef TFOS_TENSORFLOW_API_H
#define TFOS_TENSORFLOW_API_H

#include "tfos.h"

typedef struct TF_Status TF_Status;
typedef struct TF_Server TF_Server;
typedef struct TF_Library TF_Library;

/* X(NEEDED or OPTIONAL, result, name, arguments). A function that TensorFlow 2.16 lacks is OPTIONAL: its pointer may be
 * NULL. To use one more function, add its line. */
#define TFOS__TENSORFLOW_MAP(X)                                                                                        \
    X(NEEDED, const char *, TF_Version, (void))                                                                        \
    X(NEEDED, TF_Status *, TF_NewStatus, (void))                                                                       \
    X(NEEDED, void, TF_DeleteStatus, (TF_Status *))                                                                    \
    X(NEEDED, int, TF_GetCode, (const TF_Status *))                                                                    \
    X(NEEDED, const char *, TF_Message, (const TF_Status *))                                                           \
    X(NEEDED, TF_Server *, TF_NewServer, (const void *proto, size_t proto_bytes, TF_Status *))                         \
    X(NEEDED, void, TF_ServerStart, (TF_Server *, TF_Status *))                                                        \
    X(NEEDED, void, TF_ServerStop, (TF_Server *, TF_Status *))                                                         \
    X(NEEDED, void, TF_ServerJoin, (TF_Server *, TF_Status *))                                                         \
    X(NEEDED, const char *, TF_ServerTarget, (TF_Server *))                                                            \
    X(NEEDED, void, TF_DeleteServer, (TF_Server *))                                                                    \
    X(OPTIONAL, TF_Library *, TF_LoadLibrary, (const char *path, TF_Status *))

typedef struct tfos__tensorflow {
    const char *version; /* "2.21.0" */
    const char *path;    /* the file that it was loaded from */
#define TFOS__TENSORFLOW_MEMBER(need, result, name, arguments) result(*name) arguments;
    TFOS__TENSORFLOW_MAP(TFOS__TENSORFLOW_MEMBER)
#undef TFOS__TENSORFLOW_MEMBER
} tfos__tensorflow;

/* The oldest version that is taken. */
enum { TFOS__TENSORFLOW_MAJOR = 2, TFOS__TENSORFLOW_MINOR = 16 };

/* Loads TensorFlow: the one that is in the process already, else the one that tfos__tensorflow_find finds for the
 * interpreter `python` (NULL: the one in use), else what the system's loader knows. The first success stays for the
 * life of the process and later calls return it, whatever they ask for; a failure is not kept. MISSING_LIBRARY names
 * the places that were looked at, or the function that the library lacks; UNSUPPORTED names a version that is too old.
 *
 * Owner: the process; TensorFlow is never unloaded.
 * Thread: any. */
tfos_status tfos__tensorflow_load(const char *python, const tfos__tensorflow **out, tfos_error *error);

/* Makes the ops and kernels of a library (what tf.load_op_library takes) known to this process's TensorFlow.
 *
 * Owner: the process.
 * Thread: any. */
tfos_status tfos__tensorflow_load_ops(const tfos__tensorflow *tf, const char *path, tfos_error *error);

/* Turns what TensorFlow says into our status; its message follows "doing what". OK if it says so. */
tfos_status tfos__tensorflow_check(const tfos__tensorflow *tf, const TF_Status *status, const char *doing,
                                   tfos_error *error);

#endif
