/* Sealed memory: a memfd whose size nobody can change any more, so that whoever maps it cannot be made to fault by
 * another process that holds the same descriptor. */
#ifndef TFOS_FEED_SEALED_H
#define TFOS_FEED_SEALED_H

#include "tfos.h"

/* Makes one, filled with zeros. Its pages are taken from the system as they are used. `what` names it in messages and
 * in /proc: "lane". */
tfos_status tfos__sealed_new(const char *what, size_t bytes, int *out, tfos_error *error);

/* The size of one that another process made. CORRUPT if the descriptor is none, or its size could still change. */
tfos_status tfos__sealed_check(int fd, const char *what, size_t *bytes, tfos_error *error);

#endif
