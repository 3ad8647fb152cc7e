/* What the fuzz targets of records share: a file in memory that has a path, and readers run to their end. */
#ifndef TFOS_TESTS_FUZZ_TOOLS_H
#define TFOS_TESTS_FUZZ_TOOLS_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "record/frame.h"
#include "tfos.h"

/* A promise that was broken: the fuzzer keeps the input. */
static inline void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "fuzz: %s\n", what);
        abort();
    }
}

/* Bytes in memory as a stream that gives at most `step` of them at a time. */
typedef struct memory {
    const uint8_t *bytes;
    size_t left;
    size_t step;
} memory;

static inline tfos_status read_memory(void *context, void *to, size_t bytes, size_t *got, tfos_error *error)
{
    (void)error;
    memory *self = context;
    size_t most = self->left < self->step ? self->left : self->step;
    *got = most < bytes ? most : bytes;
    if (*got > 0) {
        memcpy(to, self->bytes, *got);
    }
    self->bytes += *got;
    self->left -= *got;
    return TFOS_OK;
}

static inline void append(tfos__buffer *to, const void *bytes, size_t count)
{
    require(tfos__buffer_append(to, bytes, count, NULL) == TFOS_OK, "no memory");
}

static inline bool same(const tfos__buffer *left, const tfos__buffer *right)
{
    return left->size == right->size && (left->size == 0 || memcmp(left->data, right->data, left->size) == 0);
}

static inline void append_record(tfos__buffer *to, const void *payload, size_t bytes)
{
    uint8_t header[TFOS__FRAME_HEADER_BYTES];
    uint8_t footer[TFOS__FRAME_FOOTER_BYTES];
    tfos__frame_put_header(header, bytes);
    tfos__frame_put_footer(footer, payload, bytes);
    append(to, header, sizeof header);
    append(to, payload, bytes);
    append(to, footer, sizeof footer);
}

/* The one file of the process: its content is replaced for each input. */
typedef struct memory_file {
    char name[40];
    char *names[1];
    int64_t sizes[1];
    tfos_paths paths;
} memory_file;

static inline const tfos_paths *put_file(const void *bytes, size_t count)
{
    static memory_file file;
    static int descriptor = -1;
    if (descriptor < 0) {
        descriptor = memfd_create("fuzz", MFD_CLOEXEC);
        require(descriptor >= 0, "no file in memory");
        snprintf(file.name, sizeof file.name, "/proc/self/fd/%d", descriptor);
    }
    require(ftruncate(descriptor, 0) == 0, "the file cannot be emptied");
    require(pwrite(descriptor, bytes, count, 0) == (ssize_t)count, "the file cannot be written");
    file.names[0] = file.name;
    file.sizes[0] = (int64_t)count;
    file.paths = (tfos_paths){.count = 1, .path = file.names, .bytes = file.sizes, .total_bytes = (int64_t)count};
    return &file.paths;
}

#endif
