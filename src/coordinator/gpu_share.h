/* Sharing GPUs: which of a host's GPUs each of its nodes may use. */
#ifndef TFOS_COORDINATOR_GPU_SHARE_H
#define TFOS_COORDINATOR_GPU_SHARE_H

#include "base/bytes.h"

/* The words of a list that is separated by commas, one after the other: sets `*word` and `*count`, moves `*list`. False
 * at the end. Spaces around a word are no part of it. */
bool tfos__words_next(const char **list, const char **word, size_t *count);
size_t tfos__words_count(const char *list);

/* Appends the first `wanted` words of `list` that are not in `taken` to `out`, and to `taken`. Returns how many there
 * were, at most `wanted`. Memory that is short counts as none. */
size_t tfos__words_take(const char *list, size_t wanted, tfos__buffer *taken, tfos__buffer *out);

#endif
