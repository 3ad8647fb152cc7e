/* Bytes: little-endian loads and stores, bitmaps, growing buffers, UTF-8, short floats. */
#ifndef TFOS_BASE_BYTES_H
#define TFOS_BASE_BYTES_H

#include <string.h>

#include "tfos.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tfos needs a little-endian machine: buffers and headers are used as they lie in memory"
#endif

static inline uint32_t tfos__load_u32(const void *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline uint64_t tfos__load_u64(const void *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline void tfos__store_u32(void *to, uint32_t value)
{
    memcpy(to, &value, sizeof value);
}

static inline void tfos__store_u64(void *to, uint64_t value)
{
    memcpy(to, &value, sizeof value);
}

static inline bool tfos__bit_get(const uint8_t *bits, int64_t index)
{
    return (bits[index >> 3] >> (index & 7)) & 1;
}

static inline void tfos__bit_set(uint8_t *bits, int64_t index)
{
    bits[index >> 3] = (uint8_t)(bits[index >> 3] | (1u << (index & 7)));
}

static inline void tfos__bit_clear(uint8_t *bits, int64_t index)
{
    bits[index >> 3] = (uint8_t)(bits[index >> 3] & ~(1u << (index & 7)));
}

static inline void tfos__bit_put(uint8_t *bits, int64_t index, bool value)
{
    if (value) {
        tfos__bit_set(bits, index);
    } else {
        tfos__bit_clear(bits, index);
    }
}

static inline size_t tfos__bitmap_bytes(int64_t bits)
{
    return (size_t)((bits + 7) / 8);
}

/* Memory that grows. Aligned to 64 bytes as Arrow asks, with 64 bytes of slack behind `capacity` so that hot loops may
 * store a whole word at the end. `{0}` is an empty buffer. */
typedef struct tfos__buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
} tfos__buffer;

enum { TFOS__BUFFER_ALIGN = 64, TFOS__BUFFER_SLACK = 64 };

/* Makes room for `capacity` bytes in all, keeping the first `size`. Grows by at least half, so appending is linear. */
tfos_status tfos__buffer_reserve(tfos__buffer *buffer, size_t capacity, tfos_error *error);

tfos_status tfos__buffer_append(tfos__buffer *buffer, const void *bytes, size_t count, tfos_error *error);

tfos_status tfos__buffer_printf(tfos__buffer *buffer, tfos_error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Drops the first `count` bytes. */
void tfos__buffer_shift(tfos__buffer *buffer, size_t count);

void tfos__buffer_reset(tfos__buffer *buffer);

/* Doubles the capacity of an array, NULL at first, which its owner frees. `array` is the address of the pointer to its
 * elements. */
tfos_status tfos__array_grow(void *array, size_t *capacity, size_t element_bytes, tfos_error *error);

/* Makes room for one element behind the first `count`. */
static inline tfos_status tfos__array_reserve(void *array, size_t count, size_t *capacity, size_t element_bytes,
                                              tfos_error *error)
{
    return __builtin_expect(count < *capacity, 1) ? TFOS_OK : tfos__array_grow(array, capacity, element_bytes, error);
}

/* The length of the longest valid UTF-8 prefix: `count` when all is valid. Overlong forms, surrogates and code points
 * beyond U+10FFFF are invalid. */
size_t tfos__utf8_valid_prefix(const void *bytes, size_t count);

/* How many lines there are; the last one need not end with a newline. */
size_t tfos__lines_in(const char *text, size_t count);

/* The value of a 16-bit float, which every float can hold. */
float tfos__half_to_float(uint16_t half);

/* A hash of bytes, seeded at random once per process so that names from outside cannot be made to collide. */
uint64_t tfos__hash(const void *bytes, size_t count);

/* One that is the same in every process: of what was hashed before, and these bytes. Not for names from outside. */
uint64_t tfos__hash_from(uint64_t start, const void *bytes, size_t count);

static inline int64_t tfos__min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t tfos__max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
