/* Ahead: a window on a file of which each read takes long, filled while its reader is busy with what came before.
 *
 *        file  ─────────────────────────────────────────────────────────────►
 *                     | block | block | block |  (being read by a thread)
 *                       ^ the reader is here    ^ next
 *
 * The first bytes are read when they are asked for, a small block of them: a small file is one read, and has no thread.
 * Whoever goes on behind that block is taken to read the file from front to back, and a thread reads on. A reader that
 * jumps elsewhere begins anew. */
#ifndef TFOS_FS_AHEAD_H
#define TFOS_FS_AHEAD_H

#include "tfos.h"

typedef struct tfos__ahead tfos__ahead;

/* `system` and `file` stay the caller's, and outlive it. */
tfos_status tfos__ahead_new(const tfos_file_system *system, void *file, tfos__ahead **out, tfos_error *error);

/* As tfos_file_system's. */
tfos_status tfos__ahead_read(tfos__ahead *ahead, int64_t offset, void *to, size_t bytes, size_t *got,
                             tfos_error *error);

/* Little, if anything, will be wanted from `offset` on: it is not read ahead. */
void tfos__ahead_limit(tfos__ahead *ahead, int64_t offset);

/* Asked ten times a second by a reader that waits; true ends its call with CANCELLED. */
void tfos__ahead_set_stops(tfos__ahead *ahead, bool (*stops)(void *context), void *context);

/* Waits for a read that is under way. */
void tfos__ahead_free(tfos__ahead *ahead);

#endif
