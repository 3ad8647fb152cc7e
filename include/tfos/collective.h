/* tfos/collective.h: what the workers of a cluster compute together.
 *
 *   element          the type of the numbers in a tensor.
 *   merge            what becomes of the tensors that the workers have: their sum, one behind the other, …
 *   part             a tensor of a call, and how it is merged.
 *   call             a list of parts that goes through as one.
 *
 * Errors. INVALID names a tensor that cannot be part of a call.
 *
 * Ownership. Tensors stay the caller's.
 *
 * Threads. Names and sizes may be asked for by any thread. */
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

#ifdef __cplusplus
}
#endif

#endif /* TFOS_COLLECTIVE_H */
