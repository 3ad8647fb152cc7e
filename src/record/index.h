/* The bytes of an index file, for its reader and its fuzzer. */
#ifndef TFOS_RECORD_INDEX_H
#define TFOS_RECORD_INDEX_H

#include "base/bytes.h"
#include "fs/fs.h"
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

/* ---- making one while a file is written ---- */

enum { TFOS__INDEX_PRINT_BYTES = 4096 };

/* `{0}` is empty. */
typedef struct tfos__index_maker {
    tfos__buffer bytes; /* of the index, but for its head */
    int64_t records;
    int64_t file_bytes; /* that were seen */
    uint8_t first[TFOS__INDEX_PRINT_BYTES];
    uint8_t last[TFOS__INDEX_PRINT_BYTES];
    size_t last_bytes;
} tfos__index_maker;

/* The next record begins here. */
tfos_status tfos__index_maker_add(tfos__index_maker *maker, int64_t offset, tfos_error *error);

/* What is written to the file next. */
void tfos__index_maker_see(tfos__index_maker *maker, const void *bytes, size_t count);

/* Everything was added and seen: writes the index of `path`. */
tfos_status tfos__index_maker_write(tfos__index_maker *maker, const tfos_file_system *served, const char *path,
                                    tfos_error *error);

void tfos__index_maker_reset(tfos__index_maker *maker);

/* ---- using one ---- */

/* The index of a file that is open, and stays so for as long as the index is used; NULL if there is none to be trusted.
 */
tfos_index *tfos__index_of_file(const tfos_file_system *served, tfos__file *file);

/* The first record that starts at or behind `offset`, as the index has it. CORRUPT, TRUNCATED or MISMATCH: the file is
 * not as it was. */
tfos_status tfos__index_align(tfos_index *index, int64_t offset, int64_t *out, tfos_error *error);

#endif
