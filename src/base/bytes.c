/* Bytes: growing buffers and UTF-8. */
#include "base/bytes.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/status.h"

tfos_status tfos__buffer_reserve(tfos__buffer *buffer, size_t capacity, tfos_error *error)
{
    if (capacity <= buffer->capacity) {
        return TFOS_OK;
    }
    size_t grown = buffer->capacity + buffer->capacity / 2;
    size_t wanted = capacity > grown ? capacity : grown;
    if (wanted > SIZE_MAX / 2) {
        return tfos__fail_memory(error, wanted);
    }
    size_t allocated = (wanted + TFOS__BUFFER_SLACK + TFOS__BUFFER_ALIGN - 1) / TFOS__BUFFER_ALIGN * TFOS__BUFFER_ALIGN;
    uint8_t *data = aligned_alloc(TFOS__BUFFER_ALIGN, allocated);
    if (data == NULL) {
        return tfos__fail_memory(error, allocated);
    }
    if (buffer->size > 0) {
        memcpy(data, buffer->data, buffer->size);
    }
    free(buffer->data);
    buffer->data = data;
    buffer->capacity = allocated - TFOS__BUFFER_SLACK;
    return TFOS_OK;
}

tfos_status tfos__buffer_append(tfos__buffer *buffer, const void *bytes, size_t count, tfos_error *error)
{
    if (count == 0) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__buffer_reserve(buffer, buffer->size + count, error));
    memcpy(buffer->data + buffer->size, bytes, count);
    buffer->size += count;
    return TFOS_OK;
}

tfos_status tfos__buffer_printf(tfos__buffer *buffer, tfos_error *error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    TFOS_TRY(tfos__buffer_reserve(buffer, buffer->size + (size_t)length + 1, error));
    va_start(arguments, format);
    vsnprintf((char *)buffer->data + buffer->size, (size_t)length + 1, format, arguments);
    va_end(arguments);
    buffer->size += (size_t)length;
    return TFOS_OK;
}

void tfos__buffer_shift(tfos__buffer *buffer, size_t count)
{
    assert(count <= buffer->size);
    if (count > 0) {
        memmove(buffer->data, buffer->data + count, buffer->size - count);
        buffer->size -= count;
    }
}

void tfos__buffer_reset(tfos__buffer *buffer)
{
    free(buffer->data);
    *buffer = (tfos__buffer){0};
}

tfos_status tfos__array_grow(void *array, size_t *capacity, size_t element_bytes, tfos_error *error)
{
    enum { FIRST_CAPACITY = 16 };
    if (*capacity > SIZE_MAX / 4 / element_bytes) {
        return tfos__fail_memory(error, SIZE_MAX / 2);
    }
    size_t wanted = *capacity == 0 ? FIRST_CAPACITY : *capacity * 2;
    void *elements;
    memcpy(&elements, array, sizeof elements); /* the pointer has the type of its elements, not void */
    elements = realloc(elements, wanted * element_bytes);
    if (elements == NULL) {
        return tfos__fail_memory(error, wanted * element_bytes);
    }
    memcpy(array, &elements, sizeof elements);
    *capacity = wanted;
    return TFOS_OK;
}

/* The length of the multi-byte character at `p`, or 0 if it is not one. The second byte carries all the special cases.
 */
static size_t utf8_character(const unsigned char *p, size_t left)
{
    unsigned char lead = p[0];
    size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || left < length) {
        return 0;
    }
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    switch (lead) {
    case 0xE0:
        low = 0xA0; /* overlong */
        break;
    case 0xED:
        high = 0x9F; /* surrogates */
        break;
    case 0xF0:
        low = 0x90; /* overlong */
        break;
    case 0xF4:
        high = 0x8F; /* beyond U+10FFFF */
        break;
    default:
        break;
    }
    if (p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < length; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return length;
}

size_t tfos__utf8_valid_prefix(const void *bytes, size_t count)
{
    const unsigned char *p = bytes;
    size_t i = 0;
    while (i < count) {
        if (count - i >= 8 && (tfos__load_u64(p + i) & UINT64_C(0x8080808080808080)) == 0) {
            i += 8;
        } else if (p[i] < 0x80) {
            i++;
        } else {
            size_t length = utf8_character(p + i, count - i);
            if (length == 0) {
                return i;
            }
            i += length;
        }
    }
    return count;
}

static pthread_once_t seed_once = PTHREAD_ONCE_INIT;
static uint64_t seed;

static void make_seed(void)
{
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        seed = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)(uintptr_t)&seed;
    }
}

/* Multiplies to 128 bits and folds: each step mixes every bit of both inputs. */
static inline uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t tfos__hash(const void *bytes, size_t count)
{
    pthread_once(&seed_once, make_seed);
    return tfos__hash_from(seed, bytes, count);
}

uint64_t tfos__hash_from(uint64_t start, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    uint64_t hash = start ^ count * UINT64_C(0x9E3779B97F4A7C15);
    size_t left = count;
    for (; left >= 8; left -= 8, at += 8) {
        hash = mix(hash ^ tfos__load_u64(at), UINT64_C(0xA0761D6478BD642F));
    }
    uint64_t tail = 0;
    memcpy(&tail, at, left);
    return mix(hash ^ tail ^ UINT64_C(0xE7037ED1A0B428DB), UINT64_C(0x8EBC6AF09C88C6E3));
}

size_t tfos__lines_in(const char *text, size_t count)
{
    size_t lines = 0;
    for (const char *at = text; at < text + count; lines++) {
        const char *end = memchr(at, '\n', (size_t)(text + count - at));
        at = end != NULL ? end + 1 : text + count;
    }
    return lines;
}

float tfos__half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = (half >> 10) & 0x1F;
    uint32_t fraction = half & 0x3FF;
    uint32_t bits;
    if (exponent == 0) {
        float small = (float)fraction * 0x1p-24f; /* subnormal or zero: exact */
        return sign != 0 ? -small : small;
    }
    if (exponent == 0x1F) {
        bits = sign | 0x7F800000u | fraction << 13;
    } else {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    }
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void tfos_string_free(void *string)
{
    free(string);
}
