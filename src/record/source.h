/* Source: files in, chunks of whole records out.
 *
 * A chunk is the unit of work of a thread: a buffer that holds whole records and a list of where they are. Making
 * chunks is the serial part of reading (bytes are read or inflated, and the headers are followed); checking payloads
 * and parsing them is left to whoever gets the chunk. Every record is found by following the headers from the start of
 * the file, so its number and offset are known and no boundary is guessed. */
#ifndef TFOS_RECORD_SOURCE_H
#define TFOS_RECORD_SOURCE_H

#include "base/bytes.h"
#include "tfos.h"

/* One record of a chunk. */
typedef struct tfos__span {
    size_t at;           /* of the payload in the chunk's data */
    size_t bytes;        /* of the payload */
    int64_t file_offset; /* of the header in the (uncompressed) file */
} tfos__span;

/* From span `first` on, the records are from this file. */
typedef struct tfos__segment {
    size_t first;
    const char *path;
    size_t file_index;
    int64_t first_record; /* number in the file, -1 when reading began in the middle */
    bool compressed;
} tfos__segment;

enum { TFOS__HOLE_MESSAGE_BYTES = 200 };

/* A damaged place that was skipped. */
typedef struct tfos__hole {
    const char *path;
    size_t file_index;
    int64_t offset;
    int64_t bytes;
    int64_t record;
    tfos_status status;
    char message[TFOS__HOLE_MESSAGE_BYTES];
} tfos__hole;

typedef struct tfos__chunk {
    tfos__buffer data;
    tfos__span *spans;
    size_t span_count;
    size_t span_capacity;
    tfos__segment *segments;
    size_t segment_count;
    size_t segment_capacity;
    tfos__hole *holes;
    size_t hole_count;
    size_t hole_capacity;
    int64_t stored_bytes; /* of the files, that this chunk used up */
    size_t good;          /* records that tfos__chunk_each found to be sound */
} tfos__chunk;

void tfos__chunk_reset(tfos__chunk *chunk);

/* The segment of a span. */
const tfos__segment *tfos__chunk_segment(const tfos__chunk *chunk, size_t span);

/* Puts "file: offset n (record m)" before the message: the error of a record that cannot be read. */
void tfos__chunk_locate(const tfos__chunk *chunk, size_t span, tfos_error *error);

/* Fills the message of a hole: without the path, which the hole has, and cut between characters if it is long. */
void tfos__hole_explain(tfos__hole *hole, const char *why);

/* Adds a copy of `hole` and logs it. */
tfos_status tfos__chunk_add_hole(tfos__chunk *chunk, const tfos__hole *hole, tfos_error *error);

/* Notes that a record which was found is to be skipped, and why. */
tfos_status tfos__chunk_skip(tfos__chunk *chunk, size_t span, tfos_status status, const char *why, tfos_error *error);

/* Puts the holes in the order of their files and offsets. */
void tfos__chunk_sort_holes(tfos__chunk *chunk);

/* Checks the payload of each record and hands it to `function`. A record that is damaged, by its checksum or because
 * `function` says CORRUPT, is an error or, with on_corrupt=skip, a hole; another status of `function` is an error.
 * Errors say where. */
typedef tfos_status (*tfos__record_function)(void *context, size_t span, const uint8_t *record, size_t bytes,
                                             tfos_error *error);
tfos_status tfos__chunk_each(tfos__chunk *chunk, tfos_on_corrupt on_corrupt, tfos__record_function function,
                             void *context, tfos_error *error);

/* What is read of a file. */
typedef struct tfos__part {
    int64_t start; /* records that start in [start, end) … */
    int64_t end;   /* … -1: to the end */
    int32_t turn;  /* -1: all of them; else only those whose number, counted here, is this modulo the shards */
} tfos__part;

typedef struct tfos__source_options {
    const tfos_file_system *served; /* NULL, or: serves the paths that have a scheme */
    tfos_codec codec;
    tfos_on_corrupt on_corrupt;
    int64_t chunk_rows;
    int64_t chunk_bytes;
    int64_t range_start;
    int64_t range_end;            /* -1: to the end */
    const tfos__part *parts;      /* NULL, or: of each file, by its number, instead of the range; turns do not matter */
    bool (*stops)(void *context); /* NULL, or: asked before each read; true ends it with CANCELLED */
    void *stops_context;
} tfos__source_options;

typedef struct tfos__source tfos__source;

/* Reads `count` files one after the other. Paths stay the caller's and live as long as the source and its chunks;
 * `first_index` is the number of the first of them. */
tfos_status tfos__source_new(const char *const *paths, size_t count, size_t first_index,
                             const tfos__source_options *options, tfos__source **out, tfos_error *error);
void tfos__source_free(tfos__source *source);

/* Fills `chunk`, whose memory is used again, with at least one record or hole; END when all files are read. */
tfos_status tfos__source_next(tfos__source *source, tfos__chunk *chunk, tfos_error *error);

#endif
