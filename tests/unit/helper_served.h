/* A file system that a caller serves, as a JVM does: files of a folder under the scheme "played", with the whims that
 * those of others have. */
#ifndef TFOS_TESTS_HELPER_SERVED_H
#define TFOS_TESTS_HELPER_SERVED_H

#include <pthread.h>
#include <stdatomic.h>

#include "tfos.h"

typedef struct helper_served {
    tfos_file_system system;
    size_t most_bytes;                 /* of one read; 0: any */
    int64_t fails_at;                  /* reads that reach this offset fail; -1: none */
    _Atomic int64_t hangs_at;          /* reads that reach this offset wait until this is -1 */
    int64_t claims_more;               /* bytes that files are said to have and have not */
    int64_t write_fails_at;            /* … and so for writes */
    pthread_t owner;                   /* who has made it */
    atomic_int opened, open_now;       /* files */
    atomic_int reads, reads_elsewhere; /* the latter in threads of the library */
    _Atomic int64_t read_to;           /* the highest offset that anybody has asked for */
    atomic_int created, finished, abandoned;
} helper_served;

void helper_served_init(helper_served *served);

/* played://PATH. Lives until helper_teardown. */
const char *helper_served_path(const char *path);

#endif
