/* File systems: a path's scheme says which one serves it. Local paths are plain or file:///…; other schemes are refused
 * with a sentence that says so. */
#ifndef TFOS_FS_FS_H
#define TFOS_FS_FS_H

#include "base/bytes.h"
#include "tfos.h"

/* An open file for reading. Reads are by position and may come from several threads. */
typedef struct tfos__file tfos__file;

tfos_status tfos__file_open(const char *path, tfos__file **out, tfos_error *error);
void tfos__file_close(tfos__file *file);

/* The size when it was opened; -1 when it cannot be known (a pipe), in which case reads must be sequential. */
int64_t tfos__file_size(const tfos__file *file);
const char *tfos__file_path(const tfos__file *file);

/* Reads up to `bytes` at `offset`; *got is 0 only at the end of the file. */
tfos_status tfos__file_read(tfos__file *file, int64_t offset, void *to, size_t bytes, size_t *got, tfos_error *error);

/* Tells the system that the file will be read from front to back. */
void tfos__file_hint_sequential(tfos__file *file);

/* A file being written. It is hidden, beside its destination, until tfos__output_commit has made it durable and renamed
 * it. */
typedef struct tfos__output tfos__output;

tfos_status tfos__output_open(const char *path, bool overwrite, tfos__output **out, tfos_error *error);
tfos_status tfos__output_write(tfos__output *output, const void *bytes, size_t count, tfos_error *error);

/* Brings what was written to disk and ends the writing. tfos__output_commit does it by itself; when several files are
 * to appear together, all are synced first, so that little can go wrong while they take their names. */
tfos_status tfos__output_sync(tfos__output *output, tfos_error *error);

/* All three end the output and free it. tfos__output_rename leaves the folder to tfos__output_sync_folder, which one
 * call does for all files in it. */
tfos_status tfos__output_commit(tfos__output *output, tfos_error *error);
tfos_status tfos__output_rename(tfos__output *output, tfos_error *error);
void tfos__output_abort(tfos__output *output);

/* Makes the name of a file durable, and those beside it. The file is there and whole by now, so a folder that cannot be
 * synced is logged and no failure of the write. */
void tfos__output_sync_folder(const char *path);

/* Removes every hidden file of outputs that are open in this process. Safe to call in a signal handler. */
void tfos__outputs_unlink_all(void);

/* Whether a path names something that can be read again and again, and not a pipe. Does not open it: a pipe that is
 * opened and closed is broken for its writer. */
bool tfos__path_is_regular(const char *path);

/* INVALID if one of the files is a pipe, which can be read only once, while its schema is still to be found. */
tfos_status tfos__paths_check_twice(const tfos_paths *paths, tfos_error *error);

/* The whole of a small file, at most `limit` bytes. */
tfos_status tfos__file_slurp(const char *path, size_t limit, tfos__buffer *out, tfos_error *error);

/* Makes a folder and those above it. */
tfos_status tfos__folder_make(const char *path, tfos_error *error);

#endif
