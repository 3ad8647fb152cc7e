/* A call as the workers carry it out: parts of the same merge and element lie side by side in one stream of bytes,
 * which is the same on all workers and goes through them in pieces, whatever the tensors are that it is made of.
 *
 *   stream   ┌────────────────────────┬──┬───────────────┬────┬───
 *            │ w1 │ b1 │ w2 │ …        │  │ i1 │ i2 │ …   │    │ …
 *            └────────────────────────┴──┴───────────────┴────┴───
 *              class: mean, float32       sum, int64           each begins at a multiple of 64 bytes
 *
 * Parts that are gathered are not in it: they differ from worker to worker. */
#ifndef TFOS_COLLECTIVE_CALL_H
#define TFOS_COLLECTIVE_CALL_H

#include "tfos.h"

enum {
    TFOS__CALL_PARTS_MOST = 1 << 16,
    TFOS__CALL_CLASSES_MOST = 36, /* merges that are not gathering, times elements */
    TFOS__CALL_ALIGN = 64,
};

/* Elements of the stream that are treated alike. */
typedef struct tfos__class {
    uint8_t element;
    uint8_t merge;
    uint8_t zero[6];
    uint64_t at;    /* in the stream */
    uint64_t bytes; /* without what follows up to the next class */
} tfos__class;

/* Where a part is in the stream. */
typedef struct tfos__span {
    uint64_t at;
    uint64_t bytes;
    size_t part;
} tfos__span;

typedef struct tfos__call {
    const tfos_part *parts;
    size_t part_count;
    const char *about;
    tfos_element wire; /* of sums of float32 on their way to other hosts */
    tfos__class classes[TFOS__CALL_CLASSES_MOST];
    size_t class_count;
    tfos__span *spans; /* in the order of the stream */
    size_t span_count;
    uint64_t stream_bytes;
    size_t *gathered; /* the parts that are */
    size_t gathered_count;
    uint64_t signature[2]; /* of all that workers must agree on */
} tfos__call;

/* Lays out the parts, which must outlive it. `about` is what else must agree, for people, and must outlive it, too.
 * INVALID names a part that cannot be: its shape, the mean of integers, too many; or a `wire` that no float32 can be.
 */
tfos_status tfos__call_init(tfos__call *call, const tfos_part *parts, size_t count, const char *about,
                            tfos_element wire, tfos_error *error);
void tfos__call_reset(tfos__call *call);

/* Elements of a part, or of its rows: what is behind the first dimension. */
uint64_t tfos__part_count(const tfos_part *part);
uint64_t tfos__part_row_bytes(const tfos_part *part);

/* The first span that ends behind `at`. */
size_t tfos__call_find(const tfos__call *call, uint64_t at);

/* What two runs of bytes have in common, if anything. */
static inline bool tfos__bytes_meet(uint64_t one, uint64_t one_bytes, uint64_t other, uint64_t other_bytes,
                                    uint64_t *begin, uint64_t *end)
{
    *begin = one > other ? one : other;
    *end = one + one_bytes < other + other_bytes ? one + one_bytes : other + other_bytes;
    return *begin < *end;
}

/* Where the next class, or part, may begin. */
static inline uint64_t tfos__call_align(uint64_t at)
{
    return (at + TFOS__CALL_ALIGN - 1) / TFOS__CALL_ALIGN * TFOS__CALL_ALIGN;
}

/* Copies a piece of the stream from the inputs, or to the outputs. */
void tfos__call_take(const tfos__call *call, uint64_t at, size_t bytes, void *to);
void tfos__call_give(const tfos__call *call, uint64_t at, size_t bytes, const void *from);

/* "gradients: sum of float32[784, 64], …, 12 tensors": for people. */
void tfos__call_describe(const tfos__call *call, char *out, size_t out_bytes);

#endif
