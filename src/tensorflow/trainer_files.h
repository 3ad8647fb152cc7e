/* Whether all workers see the same files. Each works its share out by itself, from its own list, so that another list
 * on one host would mean that rows are trained on twice, or never, and nobody would notice. */
#ifndef TFOS_TENSORFLOW_TRAINER_FILES_H
#define TFOS_TENSORFLOW_TRAINER_FILES_H

#include "tfos.h"

/* A list of files as numbers that a sum over workers leaves as they are. */
typedef struct tfos__file_list {
    double files;
    double bytes;
    double names[2]; /* halves of a hash of the names and sizes, in their order; names are those below the folder that
                        all files are in */
} tfos__file_list;

void tfos__file_list_take(const tfos_paths *paths, tfos__file_list *out);

/* MISMATCH if two of them differ: those of `workers`, one every `stride`. `what` says which files they are. */
tfos_status tfos__file_lists_compare(const tfos__file_list *lists, size_t workers, size_t stride, const char *what,
                                     tfos_error *error);

#endif
