/* A folder of checkpoints, as TensorFlow's CheckpointManager keeps one:
 *
 *   FOLDER/ckpt-120.index, FOLDER/ckpt-120.data-00000-of-00001     what TensorFlow has written
 *   FOLDER/ckpt-120.json                                           where training was then: the note
 *   FOLDER/checkpoint                                              the names of all that count, the newest last
 *
 * A checkpoint counts when its name is in the last of these, which is replaced as a whole, after everything else. */
#ifndef TFOS_TENSORFLOW_CHECKPOINTS_H
#define TFOS_TENSORFLOW_CHECKPOINTS_H

#include "base/bytes.h"

typedef struct tfos__checkpoint {
    char *name;    /* as the file has it: "ckpt-120", or a path */
    double time_s; /* when it was written, by the clock on the wall */
} tfos__checkpoint;

typedef struct tfos__checkpoints {
    char *folder;
    size_t most; /* that are kept */
    tfos__checkpoint *at;
    size_t count; /* the newest is the last */
    size_t capacity;
} tfos__checkpoints;

/* Reads what is in the folder, which is made if it is not there. CORRUPT: the file `checkpoint` makes no sense. */
tfos_status tfos__checkpoints_open(const char *folder, size_t most, tfos__checkpoints *out, tfos_error *error);
void tfos__checkpoints_close(tfos__checkpoints *checkpoints);

/* What TensorFlow calls the checkpoint; the caller frees it. NULL: no memory. */
char *tfos__checkpoints_prefix(const tfos__checkpoints *checkpoints, const char *name);

/* OK if all its files are there, whatever is in them. NOT_FOUND names one that is not. */
tfos_status tfos__checkpoints_look(const tfos__checkpoints *checkpoints, size_t index, tfos_error *error);

/* The note of a checkpoint. NOT_FOUND if it has none, as those of others. */
tfos_status tfos__checkpoints_note(const tfos__checkpoints *checkpoints, size_t index, tfos__buffer *out,
                                   tfos_error *error);

/* Whether a checkpoint of this name (without a path) counts. */
bool tfos__checkpoints_has(const tfos__checkpoints *checkpoints, const char *name);

/* Whether it does, or has files all the same. */
bool tfos__checkpoints_is_taken(const tfos__checkpoints *checkpoints, const char *name);

/* TensorFlow has written the checkpoint `name` (without a path), or it counted before: it is on disk and counts from
 * now on as the newest, with its note. Those that are too many are removed, the oldest first, but for `spared`, unless
 * that is NULL. If that fails all is as before, and what did not count before has no files any more. */
tfos_status tfos__checkpoints_add(tfos__checkpoints *checkpoints, const char *name, const char *note,
                                  const char *spared, tfos_error *error);

/* Those from `count` on are damaged: they do not count any more. Their files stay, for whoever wants to look. */
void tfos__checkpoints_cut(tfos__checkpoints *checkpoints, size_t count);

/* Removes the files of a checkpoint, by its prefix, and what TensorFlow leaves of one that it could not write. */
void tfos__checkpoint_remove(const char *prefix);

/* Brings the files of a checkpoint to disk, by its prefix: TensorFlow leaves that to the system. */
tfos_status tfos__checkpoint_sync(const char *prefix, tfos_error *error);

/* The names in the text of such a file, for tests and fuzzers. */
tfos_status tfos__checkpoints_parse(tfos__checkpoints *checkpoints, const char *text, size_t bytes, tfos_error *error);

#endif
