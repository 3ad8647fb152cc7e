/* A log file that is cut into several: NAME, then NAME.1 (the one before it), NAME.2, … */
#ifndef TFOS_NODE_LOG_FILE_H
#define TFOS_NODE_LOG_FILE_H

#include <limits.h>

#include "base/bytes.h"

typedef struct tfos__log_file {
    char path[PATH_MAX];
    int file; /* -1: none */
    int64_t size;
    int64_t most_bytes; /* of one file */
    int64_t most_files;
    tfos__buffer waiting;
    bool failed; /* a write failed, and was reported */
} tfos__log_file;

/* Opens the file to append to it. */
tfos_status tfos__log_file_open(tfos__log_file *log, const char *path, int64_t most_bytes, int64_t most_files,
                                tfos_error *error);

/* Keeps bytes, which end a line or not, until the next flush. */
void tfos__log_file_put(tfos__log_file *log, const char *bytes, size_t count);

/* Writes what was put, and begins another file when this one is full. A failure is reported once; after it nothing is
 * written until a write succeeds. */
tfos_status tfos__log_file_flush(tfos__log_file *log, tfos_error *error);

void tfos__log_file_close(tfos__log_file *log);

#endif
