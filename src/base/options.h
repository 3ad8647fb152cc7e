/* Options that can grow. A struct of options begins with its size, as its caller was compiled to know it: the library
 * reads so much of it and no more, and what a caller of an older version does not know keeps its default. */
#ifndef TFOS_BASE_OPTIONS_H
#define TFOS_BASE_OPTIONS_H

#include "tfos.h"

/* Fills the `size` bytes of a caller's struct: with the defaults, as far as they reach, and zeros; and its size. */
void tfos__options_init(void *options, size_t size, const void *defaults, size_t bytes);

/* *out, of `bytes` bytes, becomes the defaults and what the caller has set instead; `from` NULL: the defaults. INVALID
 * when the struct says no size, or one of a version that is newer than this one. `name` is for messages. */
tfos_status tfos__options_take(const char *name, const void *from, const void *defaults, void *out, size_t bytes,
                               tfos_error *error);

#endif
