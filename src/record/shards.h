/* Shards: records out to one or more files, in turn, which appear together once all are whole.
 *
 * Record i goes to file i mod n. A file is hidden until tfos__shards_commit has made every one of them whole; then they
 * take their names in order. */
#ifndef TFOS_RECORD_SHARDS_H
#define TFOS_RECORD_SHARDS_H

#include "tfos.h"

typedef struct tfos__shards tfos__shards;

enum { TFOS__SHARDS_MAX = 4000 };

typedef struct tfos__shards_options {
    bool text;          /* records are lines as they are; otherwise they are framed as TFRecords */
    const void *header; /* first bytes of each file */
    size_t header_bytes;
    tfos_codec codec; /* AUTO: by the end of each name */
    int32_t level;
    bool overwrite;
} tfos__shards_options;

/* Opens `count` files. `paths` and the options are copied. */
tfos_status tfos__shards_open(const char *const *paths, size_t count, const tfos__shards_options *options,
                              tfos__shards **out, tfos_error *error);

tfos_status tfos__shards_write(tfos__shards *shards, const void *record, size_t bytes, tfos_error *error);

/* Records and bytes of them that were written so far. May be asked from another thread. */
int64_t tfos__shards_records(const tfos__shards *shards);

/* Brings all that was written to disk and ends the writing. tfos__shards_commit does it by itself; a caller that wants
 * to know when the names are taken calls it before. */
tfos_status tfos__shards_sync(tfos__shards *shards, tfos_error *error);

/* Both end the shards and free them. When a commit fails, files that had taken their names are removed again, unless
 * they replaced others. */
tfos_status tfos__shards_commit(tfos__shards *shards, tfos_error *error);
void tfos__shards_abort(tfos__shards *shards);

#endif
