/* Reductions, block by block: all operands of a block are combined before the next one is begun, so that what was
 * combined stays in the cache, and the result may lie where an operand was. */
#include "collective/reduce.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/bytes.h"
#include "collective/reduce_ways.h"

#define WAY_NAME portable
#include "collective/reduce_body.h"

enum {
    BLOCK = 1024, /* elements that are combined at a time: two blocks of float64 fill half of the first cache */
    WAYS_MOST = 2,
};

static const tfos__reduce_way *ways[WAYS_MOST];
static size_t way_count;
static pthread_once_t ways_once = PTHREAD_ONCE_INIT;

static void find_ways(void)
{
    const tfos__reduce_way *avx2 = tfos__reduce_way_avx2();
    if (avx2 != NULL) {
        ways[way_count++] = avx2;
    }
    ways[way_count++] = &portable;
}

static bool is_half(tfos_element element)
{
    return element == TFOS_ELEMENT_FLOAT16 || element == TFOS_ELEMENT_BFLOAT16;
}

tfos_element tfos__element_sum(tfos_element element)
{
    return is_half(element) ? TFOS_ELEMENT_FLOAT32 : element;
}

static void widen(const tfos__reduce_way *way, tfos_element from, const void *in, size_t count, float *out)
{
    if (from == TFOS_ELEMENT_FLOAT16) {
        way->from_f16(out, in, count);
    } else {
        way->from_bf16(out, in, count);
    }
}

static void narrow(const tfos__reduce_way *way, const float *in, size_t count, tfos_element to, void *out)
{
    if (to == TFOS_ELEMENT_FLOAT16) {
        way->to_f16(out, in, count);
    } else {
        way->to_bf16(out, in, count);
    }
}

typedef union block {
    float f32[BLOCK];
    double f64[BLOCK];
    int32_t i32[BLOCK];
    int64_t i64[BLOCK];
} block;

static int kind_of(tfos_element element)
{
    switch (element) {
    case TFOS_ELEMENT_FLOAT64:
        return TFOS__KIND_F64;
    case TFOS_ELEMENT_INT32:
        return TFOS__KIND_I32;
    case TFOS_ELEMENT_INT64:
        return TFOS__KIND_I64;
    case TFOS_ELEMENT_FLOAT32:
    case TFOS_ELEMENT_FLOAT16:
    case TFOS_ELEMENT_BFLOAT16:
        break;
    }
    return TFOS__KIND_F32;
}

/* What changes nothing when it is combined with anything. */
static void set_neutral(tfos__reduction reduction, int kind, size_t count, block *into)
{
    bool least = reduction == TFOS__REDUCE_LEAST;
    memset(into, 0, sizeof *into);
    for (size_t i = 0; reduction != TFOS__REDUCE_SUM && i < count; i++) {
        if (kind == TFOS__KIND_F32) {
            into->f32[i] = least ? INFINITY : -INFINITY;
        } else if (kind == TFOS__KIND_F64) {
            into->f64[i] = least ? INFINITY : -INFINITY;
        } else if (kind == TFOS__KIND_I32) {
            into->i32[i] = least ? INT32_MAX : INT32_MIN;
        } else {
            into->i64[i] = least ? INT64_MAX : INT64_MIN;
        }
    }
}

static void reduce(const tfos__reduce_way *way, tfos__reduction reduction, tfos_element from,
                   const tfos__operand *operands, size_t operand_count, size_t count, tfos_element to, void *out)
{
    tfos_element kept = tfos__element_sum(from);
    int kind = kind_of(kept);
    tfos__combine *combine = way->combine[reduction][kind];
    size_t in_bytes = tfos_element_bytes(from);
    size_t out_bytes = tfos_element_bytes(to);
    assert(to == from || to == kept);
    for (size_t at = 0; at < count; at += BLOCK) {
        block sum;
        float wide[BLOCK];
        size_t n = count - at < BLOCK ? count - at : BLOCK;
        if (operand_count == 0) {
            set_neutral(reduction, kind, n, &sum);
        }
        for (size_t k = 0; k < operand_count; k++) {
            const void *in = (const uint8_t *)operands[k].at + at * in_bytes;
            if (kept != from) {
                widen(way, from, in, n, wide);
                in = wide;
            }
            combine(&sum, in, operands[k].scale, k == 0, n);
        }
        if (to == kept) {
            memcpy((uint8_t *)out + at * out_bytes, &sum, n * out_bytes);
        } else {
            narrow(way, sum.f32, n, to, (uint8_t *)out + at * out_bytes);
        }
    }
}

void tfos__reduce(tfos__reduction reduction, tfos_element from, const tfos__operand *operands, size_t operand_count,
                  size_t count, tfos_element to, void *out)
{
    pthread_once(&ways_once, find_ways);
    reduce(ways[0], reduction, from, operands, operand_count, count, to, out);
}

void tfos__element_convert(tfos_element from, const void *in, size_t count, tfos_element to, void *out)
{
    pthread_once(&ways_once, find_ways);
    if (is_half(from)) {
        assert(to == TFOS_ELEMENT_FLOAT32);
        widen(ways[0], from, in, count, out);
    } else {
        assert(from == TFOS_ELEMENT_FLOAT32 && is_half(to));
        narrow(ways[0], in, count, to, out);
    }
}

size_t tfos__reduce_way_count(void)
{
    pthread_once(&ways_once, find_ways);
    return way_count;
}

void tfos__reduce_by(size_t way, tfos__reduction reduction, tfos_element from, const tfos__operand *operands,
                     size_t operand_count, size_t count, tfos_element to, void *out)
{
    pthread_once(&ways_once, find_ways);
    assert(way < way_count);
    reduce(ways[way], reduction, from, operands, operand_count, count, to, out);
}
