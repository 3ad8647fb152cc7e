/* Rows that can be told apart, fed through a lane and checked at its other end: for tests that have both ends in
 * threads or processes. Nothing here uses the assertions of cmocka, which must not be called there: helper_need ends
 * the process. */
#ifndef TFOS_TESTS_HELPER_LANES_H
#define TFOS_TESTS_HELPER_LANES_H

#include "feed/entry.h"
#include "feed/lane.h"

/* A batch of rows (id int64, text string nullable, flags bool[]), of which row i can be told by its number. */
tfos_batch *helper_numbered_batch(int64_t rows);

/* The end that feeds. Row r of the partition is row r modulo the rows of the batch. */
typedef struct helper_producer {
    tfos__lane *lane;
    tfos__bell *bell; /* its own */
    tfos__bell *consumer_bell;
    const tfos_batch *batch;
    uint64_t random;
    int64_t most_rows; /* of an entry */
    uint64_t next_row;
} helper_producer;

/* Feeds the schema, then rows up to `end_row`, waiting for room; then closes the head. OK, or CANCELLED. */
tfos_status helper_produce(helper_producer *self, uint64_t end_row);

/* The end that takes. */
typedef struct helper_consumer {
    tfos__lane *lane;
    tfos__bell *bell;
    tfos__bell *producer_bell;
    const tfos_batch *batch;
    tfos_schema *schema; /* as it came */
    tfos__entry_views views;
    uint64_t next_row;
} helper_consumer;

/* Takes what is there, and checks every value. Returns whether more may come. */
bool helper_consume(helper_consumer *self);

/* Takes all, waiting for it, until the head is closed. */
void helper_consume_all(helper_consumer *self);
void helper_consumer_reset(helper_consumer *self);

/* Descriptors of this process, and lines of /proc/self/maps with `part` in them. */
size_t helper_count_descriptors(void);
size_t helper_count_mappings(const char *part);

#endif
