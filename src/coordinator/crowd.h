/* How many may be connected to a coordinator: each of them is an open file, and files are limited. */
#ifndef TFOS_COORDINATOR_CROWD_H
#define TFOS_COORDINATOR_CROWD_H

#include "tfos.h"

typedef struct tfos__crowd {
    size_t files;          /* that this process may have open */
    size_t others_most;    /* nodes, those who stand in for them, and strangers */
    size_t producers_most; /* tasks that feed at the same time */
} tfos__crowd;

/* Shares out so many files for a cluster of so many nodes. LIMIT: they are not enough for its nodes. */
tfos_status tfos__crowd_plan(size_t files, size_t nodes, tfos__crowd *out, tfos_error *error);

/* Files that this process may have open. */
size_t tfos__crowd_files(void);

/* Why another task cannot feed. */
void tfos__crowd_describe(const tfos__crowd *crowd, char *out, size_t bytes);

#endif
