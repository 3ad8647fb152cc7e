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
    uint64_t slot_bytes; /* of its board */
    uint32_t wire;       /* a tfos_element */
    uint32_t class_count;
    uint32_t gathered_count;
    uint32_t zero;
    tfos__class classes[TFOS__CALL_CLASSES_MOST];
} tfos__head;

struct tfos__runner {
    tfos__runner_options options;
    const tfos__hosts *hosts;
    size_t size;  /* workers in all */
    size_t host;  /* this one */
    size_t mates; /* workers on it */
    size_t place; /* of this worker among them */
    size_t slot_bytes;
    uint64_t sequence; /* calls so far */
    uint64_t stage;    /* of this worker */
    uint64_t pieces;   /* that went through slots so far */
    tfos__head *heads; /* a copy of what everybody has shown */
    tfos__operand *operands;
    uint64_t *lengths; /* of what each worker passes to all, by rank */
    tfos__buffer wire; /* of a worker with links: what it sends, and gets */
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

/* Elements of a piece that are alike, on their way to other hosts. They begin at a multiple of 64 bytes everywhere. */
typedef struct tfos__run {
    tfos_merge merge;
    tfos_element element; /* of the tensors */
    tfos_element sum;     /* of what a host has made of them, in a wide slot */
    tfos_element wire;    /* of what is sent */
    size_t count;
    size_t at;      /* in the piece */
    size_t wide_at; /* in the wide slot */
    size_t wire_at; /* in what is sent */
} tfos__run;

/* Shows what was written, and waits until all others have come as far. */
tfos_status tfos__runner_meet(tfos__runner *runner, tfos_error *error);

/* Where a worker of this host puts a piece. */
uint8_t *tfos__runner_slot(const tfos__runner *runner, size_t place, uint64_t piece);

/* Where a result is put. */
uint8_t *tfos__runner_result(const tfos__runner *runner, uint64_t piece);

/* The rank of a worker of this host. */
static inline size_t tfos__runner_rank(const tfos__runner *runner, size_t place)
{
    return tfos__hosts_rank(runner->hosts, runner->host, place);
}

static inline bool tfos__runner_is_far(const tfos__runner *runner)
{
    return runner->hosts->count > 1;
}

/* How a worker is called. */
const char *tfos__runner_name_of(const tfos__runner *runner, size_t rank);

/* For whoever waits for another host: whether it should go on. */
tfos_status tfos__runner_look_far(void *context, size_t rank, tfos_error *error);

/* What the elements of a worker are multiplied with. */
double tfos__work_scale(const tfos__work *work, tfos_merge merge, size_t rank);

/* What becomes of elements, as far as it is arithmetic. */
tfos__reduction tfos__work_reduction(tfos_merge merge);

/* Bytes of a piece of the stream. */
size_t tfos__runner_piece_bytes(const tfos__runner *runner, uint64_t stream_bytes, uint64_t piece);

/* Puts a piece of the stream into the slot of this worker. */
void tfos__work_put(const tfos__work *work, uint64_t stream_bytes, uint64_t piece);

/* Everything that is in the stream, of which the first piece has been put and shown. */
tfos_status tfos__work_pass_stream(const tfos__work *work, tfos_error *error);

/* Everything that is gathered. */
tfos_status tfos__work_gather(const tfos__work *work, tfos_call_result *out, tfos_error *error);

/* ---- with other hosts: run_far.c ---- */

/* Streams of at most so many bytes travel with the heads. */
size_t tfos__runner_small_bytes(const tfos__runner *runner);

/* What a worker anywhere has, of a stream that is small. */
uint8_t *tfos__runner_small(const tfos__runner *runner, size_t rank);

/* Everybody here has shown its head; shows them to the other hosts, and takes theirs. */
tfos_status tfos__work_announce(tfos__work *work, tfos_error *error);

/* The texts of two workers, wherever they are; `mine` is that of this one. Both have so many bytes. */
tfos_status tfos__work_share_texts(const tfos__work *work, const size_t ranks[2], const char *mine, char *texts[2],
                                   size_t bytes, tfos_error *error);

/* tfos__work_pass_stream, if the stream is not small. */
tfos_status tfos__work_pass_far(const tfos__work *work, tfos_error *error);

/* A block of each worker of this host, which it has put into its slot, to all workers: behind each other in the order
 * of ranks, in a wide slot of each host. How long they are is in the runner's `lengths`. */
tfos_status tfos__work_exchange(const tfos__work *work, const uint8_t **out, tfos_error *error);

/* ---- run_piece.c ---- */

/* The runs of a piece, and how many bytes they are on the wire: whole lines. */
size_t tfos__work_runs(const tfos__work *work, uint64_t piece, tfos__run *runs, size_t *wire_bytes);

/* This worker's share of what its host has of a run, into the wide slot. */
void tfos__work_sum_run(const tfos__work *work, const tfos__run *run, uint64_t piece);

/* Sums of this host become those of all hosts, in the slot of results. */
tfos_status tfos__work_merge_hosts(const tfos__work *work, uint64_t piece, tfos_error *error);

#endif
