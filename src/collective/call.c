/* The layout of a call. Classes come in the order of merges and elements, and parts in their own order within a class,
 * so that all workers lay out the same parts alike. */
#include "collective/call.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/choice.h"
#include "base/status.h"

static const char *const merge_words[] = {
#define WORD(name, value, word) [value] = word,
    TFOS_MERGE_MAP(WORD)
#undef WORD
        NULL,
};

TFOS__CHOICE_FUNCTIONS(merge, "merge", merge_words)

bool tfos_merge_gathers(tfos_merge merge)
{
    return merge == TFOS_MERGE_GATHER || merge == TFOS_MERGE_GATHER_WEIGHTED;
}

static bool is_whole(tfos_element element)
{
    return element == TFOS_ELEMENT_INT32 || element == TFOS_ELEMENT_INT64;
}

/* ---- parts ---- */

uint64_t tfos__part_row_bytes(const tfos_part *part)
{
    uint64_t bytes = tfos_element_bytes(part->element);
    for (int32_t i = 1; i < part->dimensions; i++) {
        bytes *= (uint64_t)part->shape[i];
    }
    return bytes;
}

uint64_t tfos__part_count(const tfos_part *part)
{
    uint64_t rows = part->dimensions > 0 ? (uint64_t)part->shape[0] : 1;
    return rows * (tfos__part_row_bytes(part) / tfos_element_bytes(part->element));
}

static void show_shape(const tfos_part *part, char *out, size_t out_bytes)
{
    size_t used = (size_t)snprintf(out, out_bytes, "%s[", tfos_element_name(part->element));
    for (int32_t i = 0; i < part->dimensions && used < out_bytes; i++) {
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%lld", i > 0 ? ", " : "", (long long)part->shape[i]);
    }
    if (used < out_bytes) {
        snprintf(out + used, out_bytes - used, "]");
    }
}

static tfos_status check_part(const tfos_part *part, size_t number, tfos_error *error)
{
    uint64_t bytes = (unsigned)part->element <= TFOS_ELEMENT_INT64 ? tfos_element_bytes(part->element) : 0;
    if (bytes == 0 || (unsigned)part->merge > TFOS_MERGE_GATHER_WEIGHTED || part->dimensions < 0 ||
        part->dimensions > TFOS_PART_DIMENSIONS_MOST) {
        return tfos__fail(
            error, TFOS_INVALID,
            "tensor %zu of the call: expected an element, a merge and at most %d dimensions, found %d, %d "
            "and %d",
            number, TFOS_PART_DIMENSIONS_MOST, (int)part->element, (int)part->merge, (int)part->dimensions);
    }
    for (int32_t i = 0; i < part->dimensions; i++) {
        if (part->shape[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)part->shape[i], &bytes) ||
            bytes > (uint64_t)INT64_MAX / 2) {
            return tfos__fail(error, TFOS_INVALID, "tensor %zu of the call: dimension %d is %lld", number, (int)i,
                              (long long)part->shape[i]);
        }
    }
    char shape[128];
    show_shape(part, shape, sizeof shape);
    if (is_whole(part->element) && (part->merge == TFOS_MERGE_MEAN || part->merge == TFOS_MERGE_WEIGHTED_MEAN ||
                                    part->merge == TFOS_MERGE_GATHER_WEIGHTED)) {
        return tfos__fail(error, TFOS_INVALID,
                          "tensor %zu of the call: the %s of %s would not be whole numbers; take the sum, or floating "
                          "numbers",
                          number, tfos_merge_name(part->merge), shape);
    }
    if (tfos_merge_gathers(part->merge) && part->dimensions == 0) {
        return tfos__fail(error, TFOS_INVALID,
                          "tensor %zu of the call: a scalar cannot be gathered, which goes along the first dimension; "
                          "give it one of 1",
                          number);
    }
    return TFOS_OK;
}

/* ---- layout ---- */

/* The parts of one class, behind each other. */
static void lay_out_class(tfos__call *call, tfos_merge merge, tfos_element element)
{
    tfos__class *added = &call->classes[call->class_count];
    uint64_t at = tfos__call_align(call->stream_bytes);
    size_t spans_before = call->span_count;
    *added = (tfos__class){.element = (uint8_t)element, .merge = (uint8_t)merge, .at = at};
    for (size_t i = 0; i < call->part_count; i++) {
        if (call->parts[i].merge != merge || call->parts[i].element != element) {
            continue;
        }
        uint64_t bytes = tfos__part_count(&call->parts[i]) * tfos_element_bytes(element);
        if (bytes > 0) {
            call->spans[call->span_count++] = (tfos__span){.at = at + added->bytes, .bytes = bytes, .part = i};
            added->bytes += bytes;
        }
    }
    if (call->span_count > spans_before) {
        call->stream_bytes = at + added->bytes;
        call->class_count++;
    }
}

static void lay_out(tfos__call *call)
{
    bool used[TFOS_MERGE_GATHER_WEIGHTED + 1][TFOS_ELEMENT_INT64 + 1] = {{false}};
    for (size_t i = 0; i < call->part_count; i++) {
        used[call->parts[i].merge][call->parts[i].element] = true;
        if (tfos_merge_gathers(call->parts[i].merge)) {
            call->gathered[call->gathered_count++] = i;
        }
    }
    for (int merge = 0; merge < TFOS_MERGE_GATHER; merge++) {
        for (int element = 0; element <= TFOS_ELEMENT_INT64; element++) {
            if (used[merge][element]) {
                lay_out_class(call, (tfos_merge)merge, (tfos_element)element);
            }
        }
    }
}

/* Of everything but the first dimension of what is gathered. */
static void sign(tfos__call *call)
{
    uint64_t start = (uint64_t)call->part_count << 8 | (uint64_t)call->wire;
    uint64_t low = tfos__hash_from(start, call->about, strlen(call->about));
    uint64_t high = tfos__hash_from(~start, call->about, strlen(call->about));
    for (size_t i = 0; i < call->part_count; i++) {
        const tfos_part *part = &call->parts[i];
        int64_t words[TFOS_PART_DIMENSIONS_MOST + 3] = {part->element, part->merge, part->dimensions};
        for (int32_t j = tfos_merge_gathers(part->merge) ? 1 : 0; j < part->dimensions; j++) {
            words[3 + j] = part->shape[j];
        }
        low = tfos__hash_from(low, words, sizeof words);
        high = tfos__hash_from(high, words, sizeof words);
    }
    call->signature[0] = low;
    call->signature[1] = high;
}

tfos_status tfos__call_init(tfos__call *call, const tfos_part *parts, size_t count, const char *about,
                            tfos_element wire, tfos_error *error)
{
    *call = (tfos__call){.parts = parts, .part_count = count, .about = about, .wire = wire};
    if (wire != TFOS_ELEMENT_FLOAT32 && wire != TFOS_ELEMENT_FLOAT16 && wire != TFOS_ELEMENT_BFLOAT16) {
        return tfos__fail(error, TFOS_INVALID, "sums travel as float32, float16 or bfloat16, found %d", (int)wire);
    }
    if (count > TFOS__CALL_PARTS_MOST) {
        return tfos__fail(error, TFOS_INVALID, "a call has at most %d tensors, found %zu", TFOS__CALL_PARTS_MOST,
                          count);
    }
    for (size_t i = 0; i < count; i++) {
        TFOS_TRY(check_part(&parts[i], i, error));
    }
    call->spans = calloc(count + 1, sizeof *call->spans);
    call->gathered = calloc(count + 1, sizeof *call->gathered);
    if (call->spans == NULL || call->gathered == NULL) {
        tfos__call_reset(call);
        return tfos__fail_memory(error, count * (sizeof *call->spans + sizeof *call->gathered));
    }
    lay_out(call);
    sign(call);
    return TFOS_OK;
}

void tfos__call_reset(tfos__call *call)
{
    free(call->spans);
    free(call->gathered);
    *call = (tfos__call){0};
}

/* ---- pieces ---- */

size_t tfos__call_find(const tfos__call *call, uint64_t at)
{
    size_t low = 0;
    size_t high = call->span_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (call->spans[middle].at + call->spans[middle].bytes <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void tfos__call_take(const tfos__call *call, uint64_t at, size_t bytes, void *to)
{
    uint64_t begin;
    uint64_t end;
    for (size_t i = tfos__call_find(call, at); i < call->span_count; i++) {
        const tfos__span *span = &call->spans[i];
        if (!tfos__bytes_meet(span->at, span->bytes, at, bytes, &begin, &end)) {
            return;
        }
        const uint8_t *input = call->parts[span->part].input;
        memcpy((uint8_t *)to + (begin - at), input + (begin - span->at), (size_t)(end - begin));
    }
}

void tfos__call_give(const tfos__call *call, uint64_t at, size_t bytes, const void *from)
{
    uint64_t begin;
    uint64_t end;
    for (size_t i = tfos__call_find(call, at); i < call->span_count; i++) {
        const tfos__span *span = &call->spans[i];
        if (!tfos__bytes_meet(span->at, span->bytes, at, bytes, &begin, &end)) {
            return;
        }
        uint8_t *output = call->parts[span->part].output;
        memcpy(output + (begin - span->at), (const uint8_t *)from + (begin - at), (size_t)(end - begin));
    }
}

/* ---- for people ---- */

void tfos__call_describe(const tfos__call *call, char *out, size_t out_bytes)
{
    enum { SHOWN = 4 };
    size_t used = 0;
    out[0] = '\0';
    if (call->about[0] != '\0') {
        used = (size_t)snprintf(out, out_bytes, "%.100s: ", call->about);
    }
    for (size_t i = 0; i < call->part_count && i < SHOWN && used < out_bytes; i++) {
        char shape[128];
        const tfos_part *part = &call->parts[i];
        show_shape(part, shape, sizeof shape);
        bool again = i > 0 && call->parts[i - 1].merge == part->merge;
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%s%s%s", i > 0 ? ", " : "",
                                 again ? "" : tfos_merge_name(part->merge), again ? "" : " of ", shape);
    }
    if (call->part_count > SHOWN && used < out_bytes) {
        used += (size_t)snprintf(out + used, out_bytes - used, ", … (%zu tensors)", call->part_count);
    } else if (call->part_count == 0 && used < out_bytes) {
        used += (size_t)snprintf(out + used, out_bytes - used, "nothing but to meet");
    }
    if (call->wire != TFOS_ELEMENT_FLOAT32 && used < out_bytes) {
        snprintf(out + used, out_bytes - used, ", sent as %s", tfos_element_name(call->wire));
    }
}
