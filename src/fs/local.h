/* The local file system: what the files of this room share. */
#ifndef TFOS_FS_LOCAL_H
#define TFOS_FS_LOCAL_H

#include "tfos.h"

/* The bytes of the scheme at the beginning of a path, without its colon; 0: the path is a plain one. */
size_t tfos__path_scheme(const char *path);

/* The local path that `path` names: itself, or what follows file://. UNSUPPORTED for another scheme. */
tfos_status tfos__path_local(const char *path, const char **out, tfos_error *error);

/* Opens, reads and closes files of this machine. Its outputs are in output.c. */
extern const tfos_file_system tfos__file_system_local;

/* Tells the system that a local file will be read from front to back. */
void tfos__local_hint_sequential(void *file);

#endif
