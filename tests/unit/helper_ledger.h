/* A ledger that is told stories: what it says is kept as text, "10 granted from 0; mark 1/0; ". */
#ifndef TFOS_TESTS_HELPER_LEDGER_H
#define TFOS_TESTS_HELPER_LEDGER_H

#include "feed/ledger.h"

typedef struct helper_story {
    tfos__ledger *ledger;
    char said[4096];
    tfos_error error; /* the last one */
} helper_story;

typedef enum helper_order { DETERMINATE, INDETERMINATE, AGAIN } helper_order;

/* What was said since the last time. */
#define expect(s, text) helper_ledger_expect_at(s, text, __LINE__)

void helper_ledger_expect_at(helper_story *s, const char *expected, int line);
void helper_ledger_start(helper_story *s);

/* Opens feed 1 and begins its epoch 0. */
void helper_ledger_start_feed(helper_story *s, uint64_t partitions, helper_order kind);

/* Producers have the numbers of their attempts, unless a test says otherwise. */
void helper_ledger_admit(helper_story *s, uint64_t producer, uint64_t partition);
void helper_ledger_leave(helper_story *s, uint64_t producer, size_t count);
void helper_ledger_fenced(helper_story *s, uint64_t attempt, uint64_t partition, uint32_t node, uint64_t fed);

/* Of a lane of an attempt in an epoch of feed 1; the other one: in epoch 0, and nothing was dropped. */
void helper_ledger_settle_in(helper_story *s, uint64_t epoch, uint64_t attempt, uint64_t partition, uint64_t consumed,
                             uint64_t dropped);
void helper_ledger_settle(helper_story *s, uint64_t attempt, uint64_t partition, uint64_t consumed);
tfos__ledger_counts helper_ledger_counts_of(const helper_story *s);
void helper_ledger_expect_partition(const helper_story *s, uint64_t partition, tfos__partition_state state,
                                    uint64_t rows, uint64_t attempts, uint64_t fed);
void helper_ledger_expect_rows(const helper_story *s, uint64_t partition, uint64_t sent, uint64_t consumed,
                               uint64_t skipped);

/* Every partition of an epoch of feed 1 is fed, with so many rows; nothing of what is said is kept. */
void helper_ledger_feed_all(helper_story *s, uint64_t epoch, uint64_t partitions, uint64_t rows);

#endif
