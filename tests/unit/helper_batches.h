/* Batches of random columns, and their comparison row by row, by the plainest means. */
#ifndef TFOS_TESTS_HELPER_BATCHES_H
#define TFOS_TESTS_HELPER_BATCHES_H

#include "column/batch.h"

/* A sequence_example of 0 to `most` columns of any type and shape, feature lists too. The caller frees it. */
tfos_schema *helper_random_schema(uint64_t *random, size_t most);

/* Rows of it, with nulls in some of the columns that may have them. The caller frees it. */
tfos_batch *helper_random_batch(const tfos_schema *schema, uint64_t *random, int64_t rows);

/* Fails the test unless `count` rows from `at` on are the same as those from `expected_at` on, at every level. */
void helper_expect_same_rows(const tfos_vector *found, int64_t at, const tfos_vector *expected, int64_t expected_at,
                             int64_t count);

/* Fails the test if a finished vector breaks a rule of column/vector.h. */
void helper_expect_sound(const tfos_vector *vector);

#endif
