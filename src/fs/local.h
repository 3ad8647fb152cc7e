/* The local file system: what fs.c, output.c and paths.c share. */
#ifndef TFOS_FS_LOCAL_H
#define TFOS_FS_LOCAL_H

#include "tfos.h"

/* The local path that `path` names: itself, or what follows file://. UNSUPPORTED for another scheme. */
tfos_status tfos__path_local(const char *path, const char **out, tfos_error *error);

#endif
