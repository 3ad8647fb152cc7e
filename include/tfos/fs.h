/* tfos/fs.h: files that the library cannot reach by itself, and its caller can.
 *
 *   file system      functions of the caller's that open, read and write files, such as those of Hadoop in a JVM.
 *
 * The library reads and writes local files. A reader or a writer that is given a file system has it serve every path
 * with a scheme ("hdfs://…"); a path without one is local in any case.
 *
 * Errors. A function that fails fills its error, with the path in the message.
 *
 * Ownership. The struct is copied; its context lives as long as whoever was given it.
 *
 * Threads. Functions are called by the thread that is in a call of the library's, and `read` also by a thread of the
 * library's own, which reads ahead. No two threads use one file at a time. */
#ifndef TFOS_FS_H
#define TFOS_FS_H

#include "tfos/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfos_file_system {
    size_t size;   /* of this struct; see tfos_file_system_init */
    void *context; /* the first argument of every function */

    /* For reading, from any place. *bytes is the size of the file. */
    tfos_status (*open)(void *context, const char *path, void **file, int64_t *bytes, tfos_error *error);
    /* At least one byte, unless the file ends at `offset`: then *got is 0. */
    tfos_status (*read)(void *context, void *file, int64_t offset, void *to, size_t bytes, size_t *got,
                        tfos_error *error);
    void (*close)(void *context, void *file);

    /* For writing, from front to back. EXISTS unless it may be overwritten. */
    tfos_status (*create)(void *context, const char *path, bool overwrite, void **file, tfos_error *error);
    tfos_status (*write)(void *context, void *file, const void *bytes, size_t count, tfos_error *error);
    /* Ends the writing; on failure, too, the file is not used any more. */
    tfos_status (*finish)(void *context, void *file, tfos_error *error);
    /* Ends it and leaves nothing behind. */
    void (*abandon)(void *context, void *file);
} tfos_file_system;

/* Fills in that nothing is served. `size` is that of *files.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_file_system_init(tfos_file_system *files, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* TFOS_FS_H */
