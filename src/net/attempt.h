/* An attempt to feed a partition: what lanes, the ledger and messages mean by it. */
#ifndef TFOS_NET_ATTEMPT_H
#define TFOS_NET_ATTEMPT_H

#include "net/message.h"

typedef struct tfos__attempt {
    uint64_t feed; /* its number: of the call to train or inference */
    uint64_t epoch;
    uint64_t partition;
    uint64_t task; /* Spark's taskAttemptId: no two attempts have the same */
} tfos__attempt;

bool tfos__attempt_equal(const tfos__attempt *a, const tfos__attempt *b);

/* A message about an attempt, and the attempt of such a message. */
void tfos__attempt_put(const tfos__attempt *attempt, tfos__message *message);
tfos__attempt tfos__attempt_of(const tfos__message *message);

#endif
