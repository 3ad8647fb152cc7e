/* A runner from inside: what the files run*.c share. */
#ifndef TFOS_COLLECTIVE_RUN_STATE_H
#define TFOS_COLLECTIVE_RUN_STATE_H

#include "collective/reduce.h"
#include "collective/run.h"

typedef enum tfos__head_kind { TFOS__HEAD_CALL = 1, TFOS__HEAD_JOIN } tfos__head_kind;

/* What a worker shows of a call. One that has joined shows no more than that. */
typedef struct tfos__head {
    uint64_t sequence;
    uint64_t joined_at; /* the sequence at which it joined */
    uint32_t kind;
    uint32_t root;
    double weight;
    uint64_t signature[2];
    uint64_t stream_bytes;
    uint32_t class_count;
    uint32_t gathered_count;
    tfos__class classes[TFOS__CALL_CLASSES_MOST];
} tfos__head;

struct tfos__runner {
    tfos__runner_options options;
    size_t ranks;
    size_t slot_bytes;
    uint64_t sequence; /* calls so far */
    uint64_t stage;    /* of this worker */
    uint64_t pieces;   /* that went through slots so far */
    tfos__head *heads; /* a copy of what everybody has shown */
    tfos__operand *operands;
    tfos_error failure;
};

/* One call under way. */
typedef struct tfos__work {
    tfos__runner *runner;
    const tfos__call *call;    /* NULL: this worker has joined */
    const tfos__head *leading; /* of the first worker that has not */
    double weight;             /* of all */
    size_t contributors;
    bool direct; /* everybody reduces everything for itself */
} tfos__work;

/* Shows what was written, and waits until all others have come as far. */
tfos_status tfos__runner_meet(tfos__runner *runner, tfos_error *error);

/* Where a worker puts a piece. */
uint8_t *tfos__runner_slot(const tfos__runner *runner, size_t rank, uint64_t piece);

/* What the elements of a worker are multiplied with. */
double tfos__work_scale(const tfos__work *work, tfos_merge merge, size_t rank);

/* Puts a piece of the stream into the slot of this worker. */
void tfos__work_put(const tfos__work *work, uint64_t stream_bytes, uint64_t piece);

/* Everything that is in the stream, of which the first piece has been put and shown. */
tfos_status tfos__work_pass_stream(const tfos__work *work, tfos_error *error);

/* Everything that is gathered. */
tfos_status tfos__work_gather(const tfos__work *work, tfos_call_result *out, tfos_error *error);

#endif
