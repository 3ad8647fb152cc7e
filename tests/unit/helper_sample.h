/* A file of a few raw records whose bytes tests cut, flip, lose and add, and what must be left of it. */
#ifndef TFOS_TESTS_HELPER_SAMPLE_H
#define TFOS_TESTS_HELPER_SAMPLE_H

#include "helper_records.h"

enum { SAMPLE_MOST = 64 };

typedef struct helper_sample {
    size_t count;
    helper_bytes payload[SAMPLE_MOST];
    size_t start[SAMPLE_MOST + 1]; /* of each record; the last is the size of the file */
    helper_bytes file;
} helper_sample;

/* Seven records of 0 to 40 bytes, no two the same. */
helper_sample helper_small_sample(void);

/* Up to SAMPLE_MOST random records. */
helper_sample helper_random_sample(uint64_t *random, size_t longest);

/* The record that the byte at `offset` belongs to. */
size_t helper_sample_record(const helper_sample *sample, size_t offset);

/* Finds, by the plainest means, the records of a file that can be read when damage is skipped: those that follow one
 * another, and behind damage the next whose two checksums match. Where a payload is damaged and a header follows in its
 * place, that record alone is lost. The records have SAMPLE_MOST at most. */
helper_sample helper_recover(helper_bytes file);

/* Writes `file` to `path` and reads it, skipping damage, in batches of one, two and many records: exactly the records
 * of `expected` must come, in order, and their bytes and those that were skipped must make up the file. Returns the
 * number of damaged places. */
int64_t helper_expect_skip(const char *path, helper_bytes file, const helper_sample *expected);

/* Reads `path` until the first error, in batches of one and many: the first `good` records, then CORRUPT or TRUNCATED
 * with the name of the file and, unless it is negative, the offset. */
void helper_expect_error(const char *path, const helper_sample *sample, size_t good, int64_t offset);

#endif
