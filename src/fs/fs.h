/* File systems: a path's scheme says which one serves it. Plain paths are local; paths with a scheme are served by the
 * caller's file system if there is one (`served`), otherwise file:///… is local and other schemes are refused with a
 * sentence that says so. */
#ifndef TFOS_FS_FS_H
#define TFOS_FS_FS_H

#include "base/bytes.h"
#include "tfos.h"

/* An open file for reading. Reads are by position; of a local file they may come from several threads. */
typedef struct tfos__file tfos__file;

/* `served` may be NULL; it is copied. */
tfos_status tfos__file_open(const tfos_file_system *served, const char *path, tfos__file **out, tfos_error *error);
void tfos__file_close(tfos__file *file);

/* The size when it was opened; -1 when it cannot be known (a pipe), in which case reads must be sequential. */
int64_t tfos__file_size(const tfos__file *file);
const char *tfos__file_path(const tfos__file *file);

/* Reads up to `bytes` at `offset`; *got is 0 only at the end of the file. */
tfos_status tfos__file_read(tfos__file *file, int64_t offset, void *to, size_t bytes, size_t *got, tfos_error *error);

/* The same until `bytes` are there or the file ends. */
tfos_status tfos__file_read_whole(tfos__file *file, int64_t offset, void *to, size_t bytes, size_t *got,
                                  tfos_error *error);

/* Tells the system that the file will be read from front to back. */
void tfos__file_hint_sequential(tfos__file *file);

/* Tells it that little will be wanted from `offset` on. */
void tfos__file_hint_end(tfos__file *file, int64_t offset);

/* NULL, or: asked ten times a second while a read waits; true ends it with CANCELLED. */
void tfos__file_set_stops(tfos__file *file, bool (*stops)(void *context), void *context);

/* What the caller has set. NULL: nothing is served. */
tfos_status tfos__file_system_take(const tfos_file_system *from, tfos_file_system *out, tfos_error *error);

/* A file being written. A local one is hidden, beside its destination, until tfos__output_commit has made it durable
 * and renamed it; when others appear is the matter of who serves them. */
typedef struct tfos__output tfos__output;

tfos_status tfos__output_open(const tfos_file_system *served, const char *path, bool overwrite, tfos__output **out,
                              tfos_error *error);
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

/* Whether a path is that of an index, which lies beside what it is of and is no data. */
bool tfos__path_is_index(const char *path);

/* Which of the folders that the inputs name, themselves or by a glob, would have files of this folder listed, which
 * need not be there yet; NULL: none. The caller frees it. */
char *tfos__paths_find_reader(const char *const *inputs, size_t count, const char *folder);

/* INVALID if one of the files is a pipe, which can be read only once, while its schema is still to be found. */
tfos_status tfos__paths_check_twice(const tfos_paths *paths, tfos_error *error);

/* The whole of a small file, at most `limit` bytes. */
tfos_status tfos__file_slurp(const tfos_file_system *served, const char *path, size_t limit, tfos__buffer *out,
                             tfos_error *error);

/* Where the last name of a path begins, and where it ends: slashes behind it are none of it. */
size_t tfos__path_name(const char *path, size_t *end);

/* The folder above. The caller frees it. */
tfos_status tfos__path_parent(const char *path, char **out, tfos_error *error);

/* Where a local path leads, also one that is not there yet: what is there of it is resolved, and the names behind that
 * are but names. NULL where nobody knows. The caller frees it. */
char *tfos__path_resolve(const char *path);

/* Of two resolved paths: whether one is the other or lies in it. */
bool tfos__path_is_inside(const char *path, const char *folder);

/* Makes a folder and those above it. */
tfos_status tfos__folder_make(const char *path, tfos_error *error);

/* Removes a local folder and all that is in it, as far as that goes; of a link, the link. */
void tfos__folder_remove(const char *path);

/* Brings the names in a local folder to disk, and those in the folders below it. All is there by now, so a folder for
 * which that cannot be done is logged and no failure. */
void tfos__folder_sync(const char *path);

/* Brings a local file, which others have written, to disk. */
tfos_status tfos__file_sync(const char *path, tfos_error *error);

#endif
