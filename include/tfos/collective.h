/* tfos/collective.h: what the workers of a cluster compute together.
 *
 *   group            the workers of a cluster, each of which has a rank: the master is 0, or else the first worker.
 *   element          the type of the numbers in a tensor.
 *   merge            what becomes of the tensors that the workers have: their sum, one behind the other, …
 *   part             a tensor of a call, and how it is merged.
 *   call             a list of parts that goes through as one. Every worker makes the same calls in the same order.
 *   weight           how much a worker counts in a call, as a rule the rows of its batch.
 *   join             what a worker does whose data has ended: it takes part in the calls of the others, and adds
 *                    nothing, until all have joined.
 *
 * Errors. INVALID names a tensor that cannot be part of a call, and does no harm. MISMATCH: workers do not make the
 * same calls; it names two, and what each wanted. CANCELLED: interrupted, or somebody who is named has not come, in as
 * long as collective.timeout_ms says. IO: somebody who is named is gone. After these nothing more can come of the
 * group, on any worker.
 *
 * Ownership. Tensors stay the caller's; what was gathered is given up with tfos_call_result_reset.
 *
 * Threads. Calls may be made by any thread; they go through one after the other. */
#ifndef TFOS_COLLECTIVE_H
#define TFOS_COLLECTIVE_H

#include "tfos/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Elements ---------------------------------------------------------------------------------------------------- */

/* X(name, value, "word", bytes). The values are part of the ABI. */
#define TFOS_ELEMENT_MAP(X)                                                                                            \
    X(FLOAT32, 0, "float32", 4)                                                                                        \
    X(FLOAT64, 1, "float64", 8)                                                                                        \
    X(FLOAT16, 2, "float16", 2)                                                                                        \
    X(BFLOAT16, 3, "bfloat16", 2)                                                                                      \
    X(INT32, 4, "int32", 4)                                                                                            \
    X(INT64, 5, "int64", 8)

typedef enum tfos_element {
#define TFOS_ELEMENT_ENUM(name, value, word, bytes) TFOS_ELEMENT_##name = (value),
    TFOS_ELEMENT_MAP(TFOS_ELEMENT_ENUM)
#undef TFOS_ELEMENT_ENUM
} tfos_element;

/* "float32" for TFOS_ELEMENT_FLOAT32.
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_element_name(tfos_element element);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_element_parse(const char *text, tfos_element *out, tfos_error *error);

/* Bytes of one.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API size_t tfos_element_bytes(tfos_element element);

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

/* What becomes of the tensors of all workers. X(name, value, "word"). A worker whose weight is 0 is left out of all
 * of them but BROADCAST: what it has is not read. The values are part of the ABI. */
#define TFOS_MERGE_MAP(X)                                                                                              \
    X(SUM, 0, "sum")                                                                                                   \
    X(MEAN, 1, "mean")                                                                                                 \
    X(WEIGHTED_MEAN, 2, "weighted mean")                                                                               \
    X(MIN, 3, "min")                                                                                                   \
    X(MAX, 4, "max")                                                                                                   \
    X(BROADCAST, 5, "broadcast")                                                                                       \
    X(GATHER, 6, "gather")                                                                                             \
    X(GATHER_WEIGHTED, 7, "weighted gather")

typedef enum tfos_merge {
#define TFOS_MERGE_ENUM(name, value, word) TFOS_MERGE_##name = (value),
    TFOS_MERGE_MAP(TFOS_MERGE_ENUM)
#undef TFOS_MERGE_ENUM
} tfos_merge;

/* "weighted mean" for TFOS_MERGE_WEIGHTED_MEAN.
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_merge_name(tfos_merge merge);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_merge_parse(const char *text, tfos_merge *out, tfos_error *error);

/* Whether tensors are put behind each other, so that the result has another shape than what each worker gives.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API bool tfos_merge_gathers(tfos_merge merge);

enum { TFOS_PART_DIMENSIONS_MOST = 8 };

/* A tensor of a call. All workers have the same merge, element and shape; where tensors are gathered, the first
 * dimension may differ. */
typedef struct tfos_part {
    tfos_element element;
    tfos_merge merge;
    int32_t dimensions; /* 0: a scalar */
    int64_t shape[TFOS_PART_DIMENSIONS_MOST];
    const void *input;
    void *output; /* as large as the input, and may be the same; NULL where tensors are gathered */
} tfos_part;

/* What came of a call. */
typedef struct tfos_call_result {
    double weight;         /* of all workers */
    size_t contributors;   /* workers whose weight is not 0 */
    size_t gathered_count; /* parts that were gathered, in their order among all parts */
    uint64_t *rows;        /* for each of them, and each worker: its first dimension */
    void **gathered;       /* … and all of it, in the order of workers; whoever takes one frees it, and puts NULL */
} tfos_call_result;

/* Owner: frees what is in `result`, and leaves it empty.
 * Thread: any. */
TFOS_API void tfos_call_result_reset(tfos_call_result *result);

typedef struct tfos_call_options {
    size_t size;       /* of this struct; see tfos_call_options_init */
    double weight;     /* 0: this worker has nothing to add */
    size_t root;       /* whose tensors are broadcast */
    const char *about; /* NULL, or what the call is for: it must be the same on all workers, and is part of messages */
    /* NULL, or: asked about ten times a second by the thread that waits; true ends the call with CANCELLED, and the
     * group with it. */
    bool (*interrupted)(void *context);
    void *interrupted_context;
    /* As what sums and means of float32 and of halves travel from host to host: FLOAT32, or FLOAT16 or BFLOAT16, which
     * is half as much and less exact. The same on all workers, whose results are the same bits in any case. */
    tfos_element wire;
} tfos_call_options;

/* Fills in the defaults: a weight of 1, root 0, FLOAT32. `size` is that of *options.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API void tfos_call_options_init(tfos_call_options *options, size_t size);

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

typedef struct tfos_group tfos_group;

/* Comes to the other workers, and waits until all are there. A process that is no program of a node is a group of one.
 * A process has one group: while it is open, it is handed out again.
 *
 * Of `options` only what can interrupt a wait is used; NULL: nothing can.
 *
 * Owner: the caller closes *out with tfos_group_close, as often as it was opened.
 * Thread: any. */
TFOS_API tfos_status tfos_group_open(const tfos_call_options *options, tfos_group **out, tfos_error *error);

/* Leaves the group, if it was opened no more often than closed. Calls of the others fail from then on.
 *
 * Owner: frees `group`.
 * Thread: any, when no other call is under way. */
TFOS_API void tfos_group_close(tfos_group *group);

/* The number of this worker.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API size_t tfos_group_rank(const tfos_group *group);

/* How many there are.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API size_t tfos_group_size(const tfos_group *group);

/* The number of this worker among those of its machine, with whom it shares memory.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API size_t tfos_group_local_rank(const tfos_group *group);

/* How many these are.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API size_t tfos_group_local_size(const tfos_group *group);

/* "worker:1 on host".
 *
 * Owner: the group.
 * Thread: any. */
TFOS_API const char *tfos_group_member(const tfos_group *group, size_t rank);

/* Goes through with a call that all others make as well, or have joined before. Without parts it is a barrier.
 * `options` NULL: the defaults.
 *
 * Owner: the caller gives up what is in *out with tfos_call_result_reset; `out` may be NULL where nothing is gathered.
 * Thread: any. */
TFOS_API tfos_status tfos_group_call(tfos_group *group, const tfos_part *parts, size_t count,
                                     const tfos_call_options *options, tfos_call_result *out, tfos_error *error);

/* Takes part in the calls of the others with nothing of its own, until all have joined. *last is the one that did so
 * last, whose state is the newest; the first of them, if several did at once. Of `options` only what can interrupt a
 * wait is used.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_group_join(tfos_group *group, const tfos_call_options *options, size_t *last,
                                     tfos_error *error);

#ifdef __cplusplus
}
#endif

#endif /* TFOS_COLLECTIVE_H */
