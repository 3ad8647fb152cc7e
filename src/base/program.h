/* Programs of this machine. */
#ifndef TFOS_BASE_PROGRAM_H
#define TFOS_BASE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* Whether there is a file that this process may run; else errno says why not. */
bool tfos__program_is(const char *path);

/* The path of a program: a name without a slash is looked for on the PATH, as a shell does. */
bool tfos__program_find(const char *name, char *out, size_t bytes);

#endif
