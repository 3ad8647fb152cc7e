/* Mixer: the records of a source in other chunks: exactly so many in each, in random order, or only some of them.
 *
 * It stands where chunks are made, before anything is parsed: what it holds and moves are the bytes of records, and
 * threads decode what it has put together as they decode the chunks of a source. Errors still know where a record came
 * from. */
#ifndef TFOS_RECORD_MIXER_H
#define TFOS_RECORD_MIXER_H

#include "record/source.h"

typedef struct tfos__mixer_options {
    int64_t chunk_rows;         /* records of each chunk but the last */
    int64_t shuffle_rows;       /* each is drawn from so many; 0: in order */
    uint64_t seed;              /* of the order */
    const tfos__part *parts;    /* NULL, or: of each file, for the turns */
    int32_t shard_count;        /* that take turns */
    tfos_on_corrupt on_corrupt; /* SKIP: damaged records are left out here, so that they leave no gap in a chunk … */
    tfos_record_kind record;    /* … and so are those that are no message of this kind */
} tfos__mixer_options;

typedef struct tfos__mixer tfos__mixer;

/* `parts` stays the caller's and lives as long as the mixer. */
tfos_status tfos__mixer_new(const tfos__mixer_options *options, tfos__mixer **out, tfos_error *error);
void tfos__mixer_free(tfos__mixer *mixer);

/* Fills `chunk`, whose memory is used again, as tfos__source_next does; always from the same source. A failure of the
 * source comes when all records before it have been handed out. One thread at a time. */
tfos_status tfos__mixer_next(tfos__mixer *mixer, tfos__source *source, tfos__chunk *chunk, tfos_error *error);

#endif
