/* Starting the command `tfos` from inside somebody else's process. */
#ifndef TFOS_DRIVER_SPAWN_H
#define TFOS_DRIVER_SPAWN_H

#include <sys/types.h>

#include "tfos.h"

/* The path of the command: `given` unless NULL, else the environment's TFOS_COMMAND, else `tfos` or `bin/tfos` beside
 * the library, else `tfos` on the PATH. */
tfos_status tfos__command_find(const char *given, char *out, size_t bytes, tfos_error *error);

/* Starts `path` with one argument. Its stdin is a socket whose other end is *out; stdout is /dev/null; stderr is ours.
 * It has a process group of its own, so that Ctrl-C in the terminal is our matter and not its. */
tfos_status tfos__command_spawn(const char *path, const char *argument, char *const *environment, pid_t *pid, int *out,
                                tfos_error *error);

#endif
