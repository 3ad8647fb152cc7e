/* Rows through a lane: what the two ends keep in mind between one entry and the next. Feeders and consumers, which have
 * many lanes at a time, do the same for themselves where they choose among them. */
#ifndef TFOS_FEED_LANE_ROWS_H
#define TFOS_FEED_LANE_ROWS_H

#include "column/batch.h"
#include "feed/entry.h"
#include "feed/lane.h"

/* ---- The end that writes ---- */

typedef struct tfos__lane_writer {
    tfos__lane *lane;    /* somebody else's */
    tfos__bell *reader;  /* rung when there is something to read; somebody else's */
    size_t window;       /* entries stay within so many bytes at the beginning of the ring; 0: they use all of it */
    tfos_schema *schema; /* of the rows that were put last; NULL: there were none */
} tfos__lane_writer;

void tfos__lane_writer_reset(tfos__lane_writer *writer);

/* Puts rows of a batch, from `first` on, as many as there is room for, but no more than `count` rows or `most` bytes
 * unless one row has more; before them their schema, if it is not that of the rows before. `first_row` is the number of
 * the first in its partition. END: there is no room now. Otherwise as tfos__lane_reserve and tfos__lane_commit. */
tfos_status tfos__lane_put_rows(tfos__lane_writer *writer, const tfos_batch *batch, int64_t first, int64_t count,
                                size_t most, uint64_t first_row, int64_t *out, tfos_error *error);

/* Puts an entry that is made already. END: there is no room now. */
tfos_status tfos__lane_put_entry(tfos__lane_writer *writer, const void *entry, size_t bytes, tfos_error *error);

/* ---- The end that reads ---- */

typedef struct tfos__lane_reader {
    tfos__lane *lane;    /* somebody else's */
    tfos_schema *schema; /* of the rows; NULL: none has come */
    bool reading;        /* `entry` was begun: its rows before `row` were taken */
    bool released;       /* room was given back, of which the other end is to be told; set and never cleared here */
    tfos__entry entry;
    const uint8_t *bytes; /* of the entry */
    int64_t row;
    tfos__entry_views views;
} tfos__lane_reader;

void tfos__lane_reader_reset(tfos__lane_reader *reader);

/* Goes on to the next entry that is no schema and no gap, unless one is being read. OK: reader->entry is it; of a BATCH
 * rows are left, anything else is to be ended with tfos__lane_reader_end. END: there is none now, nor ever if *over. */
tfos_status tfos__lane_reader_begin(tfos__lane_reader *reader, bool *over, tfos_error *error);

/* Takes the next `count` rows of the entry, of which so many are left, and appends them to a batch of its schema. */
tfos_status tfos__lane_reader_take(tfos__lane_reader *reader, int64_t count, tfos_batch *to, tfos_error *error);

/* The same, as a batch of their own. */
tfos_status tfos__lane_reader_copy(tfos__lane_reader *reader, int64_t count, tfos_batch **out, tfos_error *error);

/* Gives the room of the entry back. */
void tfos__lane_reader_end(tfos__lane_reader *reader);

#endif
