/* Shuffle: records in, the same records out in random order, in bounded memory.
 *
 * Each record gets a random key of 64 bits, made from the seed and the number of the record, and records come out in
 * the order of their keys: every order is equally likely, and the order depends on the seed and the input alone, not on
 * the memory. */
#ifndef TFOS_RECORD_SHUFFLE_H
#define TFOS_RECORD_SHUFFLE_H

#include "tfos.h"

typedef struct tfos__shuffle tfos__shuffle;

enum { TFOS__SHUFFLE_MIN_MEMORY_BYTES = 64 << 10 };

/* Holds at most `memory_bytes`, at least TFOS__SHUFFLE_MIN_MEMORY_BYTES; what does not fit goes to a file without a
 * name in `folder`, which is gone when the shuffle or the process ends. */
tfos_status tfos__shuffle_new(uint64_t seed, size_t memory_bytes, const char *folder, tfos__shuffle **out,
                              tfos_error *error);
void tfos__shuffle_free(tfos__shuffle *shuffle);

tfos_status tfos__shuffle_add(tfos__shuffle *shuffle, const void *record, size_t bytes, tfos_error *error);

/* Hands every record to `function`, once; a failure of it ends the walk and is returned. Nothing is added after this.
 */
typedef tfos_status (*tfos__shuffle_function)(void *context, const void *record, size_t bytes, tfos_error *error);
tfos_status tfos__shuffle_drain(tfos__shuffle *shuffle, tfos__shuffle_function function, void *context,
                                tfos_error *error);

#endif
