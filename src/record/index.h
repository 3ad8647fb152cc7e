/* The bytes of an index file, for its reader and its fuzzer. */
#ifndef TFOS_RECORD_INDEX_H
#define TFOS_RECORD_INDEX_H

#include "tfos.h"

typedef struct tfos__index_head {
    int64_t file_bytes;
    int64_t records;
    int64_t stride;
    uint32_t file_print;
    size_t listed;
    const uint8_t *offsets; /* `listed` of eight bytes, rising */
} tfos__index_head;

/* Checks every number of an index. `name` is for messages. */
tfos_status tfos__index_parse(const uint8_t *bytes, size_t count, const char *name, tfos__index_head *out,
                              tfos_error *error);

#endif
