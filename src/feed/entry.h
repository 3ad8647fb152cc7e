/* An entry of a lane, and of a stream between hosts: a schema, or rows in Arrow layout, as bytes that can be used where
 * they lie.
 *
 *   ┌ header, 64 bytes ┐┌ levels, 64 bytes each ┐┌ buffers, each aligned to 64 ──────┐
 *   kind, bytes, first   layout, type, length,    validity, offsets, data of every level
 *   row, rows, levels    where its buffers are
 *
 * Everything is relative to the beginning of the entry. Whoever reads one checks that every buffer lies inside it, that
 * levels have the shape of the schema, and that offsets begin at 0 and do not fall. */
#ifndef TFOS_FEED_ENTRY_H
#define TFOS_FEED_ENTRY_H

#include "column/batch.h"
#include "tfos.h"

typedef enum tfos__entry_kind {
    TFOS__ENTRY_SCHEMA = 1,    /* the schema of the batches that follow, as JSON */
    TFOS__ENTRY_BATCH = 2,     /* rows */
    TFOS__ENTRY_PARTITION = 3, /* all rows of the partition have been fed: first_row is how many there are */
    TFOS__ENTRY_GAP = 4,       /* nothing: the next entry begins behind it */
    TFOS__ENTRY_TEXT = 5,      /* a word to the other end, whose meaning is theirs */
} tfos__entry_kind;

enum { TFOS__ENTRY_HEADER_BYTES = 64 };

/* What a header says. */
typedef struct tfos__entry {
    tfos__entry_kind kind;
    size_t bytes;       /* of the whole entry, a multiple of 64 */
    uint64_t first_row; /* of the partition: the number of the first row in this entry */
    uint32_t rows;
    uint32_t levels;
} tfos__entry;

/* Bytes that rows `first` to `first + count` of a batch take as an entry. */
size_t tfos__entry_batch_bytes(const tfos_batch *batch, int64_t first, int64_t count);

/* … and how many of them are of one column. */
size_t tfos__entry_column_bytes(const tfos_batch *batch, size_t index, int64_t first, int64_t count);

/* Writes them; `to` has that much room and is aligned to 64. */
void tfos__entry_write_batch(const tfos_batch *batch, int64_t first, int64_t count, uint64_t first_row, uint8_t *to);

/* The largest number of rows from `first` on, at most `count`, whose entry has at most `limit` bytes; 0 when not even
 * one fits. */
int64_t tfos__entry_rows_within(const tfos_batch *batch, int64_t first, int64_t count, size_t limit);

/* A SCHEMA entry. */
tfos_status tfos__entry_append_schema(const tfos_schema *schema, tfos__buffer *out, tfos_error *error);

/* A TEXT entry. */
tfos_status tfos__entry_append_text(const void *text, size_t count, tfos__buffer *out, tfos_error *error);

/* A PARTITION entry of 64 bytes. */
void tfos__entry_write_partition(uint64_t rows, uint8_t *to);

/* A GAP of so many bytes (a multiple of 64), of which the header alone is written. */
void tfos__entry_write_gap(size_t bytes, uint8_t *to);

/* Bytes that an entry has if there is one at `header`, of which TFOS__ENTRY_HEADER_BYTES are there: to wait for the
 * rest of it. Nothing is checked. */
uint64_t tfos__entry_bytes_of(const uint8_t *header);

/* Reads the header of the entry at the beginning of `bytes`. CORRUPT when it is none, or longer than `count`. */
tfos_status tfos__entry_read(const uint8_t *bytes, size_t count, tfos__entry *out, tfos_error *error);

/* The schema in a SCHEMA entry. */
tfos_status tfos__entry_read_schema(const uint8_t *bytes, const tfos__entry *entry, tfos_schema **out,
                                    tfos_error *error);

/* The text in a TEXT entry, copied behind what is in `out`. */
tfos_status tfos__entry_read_text(const uint8_t *bytes, const tfos__entry *entry, tfos__buffer *out, tfos_error *error);

/* The columns of a BATCH entry, as views into it. `views` is memory of the reader that is used again for each entry.
 * Offsets and validity, which say where to read, are copied: whoever wrote the entry can still change it. */
typedef struct tfos__entry_views {
    tfos_vector *vector;   /* every level; columns begin at column[i] */
    tfos__buffer *offsets; /* of every level */
    tfos__buffer *validity;
    uint32_t *column;
    size_t vector_capacity;
    size_t column_capacity;
} tfos__entry_views;

tfos_status tfos__entry_read_batch(const uint8_t *bytes, const tfos__entry *entry, const tfos_schema *schema,
                                   tfos__entry_views *views, tfos_error *error);
void tfos__entry_views_reset(tfos__entry_views *views);

#endif
