/* TFRecord files, protobuf messages and folders made by hand, and readers run to their end: how tests of the record
 * room say what is in a file and what must come out of it.
 *
 * Bytes live until helper_teardown, so tests build nested messages without freeing anything. */
#ifndef TFOS_TESTS_HELPER_RECORDS_H
#define TFOS_TESTS_HELPER_RECORDS_H

#include "base/bytes.h"
#include "tfos.h"

/* ---- one folder for each test ---- */

/* cmocka's setup and teardown: *state is the path of a fresh folder, removed with all that is in it. */
int helper_setup(void **state);
int helper_teardown(void **state);

/* FOLDER/NAME. Lives until helper_teardown. */
const char *helper_path(void *const *state, const char *name);

/* ---- bytes ---- */

typedef struct helper_bytes {
    const uint8_t *data;
    size_t count;
} helper_bytes;

helper_bytes helper_copy(const void *data, size_t count);
helper_bytes helper_from_text(const char *text);
helper_bytes helper_join(const helper_bytes *parts, size_t count);
helper_bytes helper_part(helper_bytes whole, size_t from, size_t to);
helper_bytes helper_repeat(uint8_t byte, size_t count);
helper_bytes helper_of_file(const char *path);
void helper_to_file(const char *path, helper_bytes bytes);
bool helper_exists(const char *path);
/* Files of a folder, the hidden ones too. */
size_t helper_count_files(const char *folder);
bool helper_equal(helper_bytes left, helper_bytes right);

/* Bytes from numbers: HEX(0x0A, 0x00). */
#define HEX(...) helper_copy((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))
#define JOIN(...)                                                                                                      \
    helper_join((const helper_bytes[]){__VA_ARGS__}, sizeof((const helper_bytes[]){__VA_ARGS__}) / sizeof(helper_bytes))

/* Random numbers that are the same in every run. */
uint64_t helper_random(uint64_t *state);

/* ---- messages ---- */

helper_bytes helper_varint(uint64_t value);
helper_bytes helper_number_field(uint32_t field, uint64_t value);
helper_bytes helper_bytes_field(uint32_t field, helper_bytes value);
helper_bytes helper_float_field(uint32_t field, float value);

helper_bytes helper_packed_ints(const int64_t *values, size_t count);
helper_bytes helper_packed_floats(const float *values, size_t count);
#define PACKED_INTS(...)                                                                                               \
    helper_packed_ints((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define PACKED_FLOATS(...)                                                                                             \
    helper_packed_floats((const float[]){__VA_ARGS__}, sizeof((const float[]){__VA_ARGS__}) / sizeof(float))

/* A Feature in its usual form. */
#define INTS(...) helper_bytes_field(3, helper_bytes_field(1, PACKED_INTS(__VA_ARGS__)))
#define FLOATS(...) helper_bytes_field(2, helper_bytes_field(1, PACKED_FLOATS(__VA_ARGS__)))
helper_bytes helper_strings(const char *const *values, size_t count);
#define STRINGS(...)                                                                                                   \
    helper_strings((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* An entry of the map of features, and a record of entries. */
helper_bytes helper_entry(const char *name, helper_bytes value);
#define EXAMPLE(...) helper_bytes_field(1, JOIN(__VA_ARGS__))

/* ---- files of records ---- */

/* One record in its frame. */
helper_bytes helper_frame(helper_bytes payload);
/* A header with a right checksum that says this length. */
helper_bytes helper_header(uint64_t length);
helper_bytes helper_deflate(helper_bytes bytes, tfos_codec codec);

/* ---- schemas and batches ---- */

/* Fails the test if the text is no schema. The caller frees it. */
tfos_schema *helper_schema(const char *json);

/* All that reading gave. Rows are JSON lines; for raw records also their bytes. */
typedef struct helper_result {
    tfos_status status; /* END, or what went wrong; INVALID … when opening failed too */
    tfos_error error;
    char *rows;
    size_t row_count;
    size_t batch_count;
    tfos_progress progress;
    helper_bytes *records; /* of kind BYTES */
} helper_result;

/* Reads the file to its end or first error. NULL options: raw records, in the calling thread. */
helper_result helper_read(const char *path, const tfos_read_options *options);
helper_result helper_read_paths(const tfos_paths *paths, const tfos_read_options *options);

/* Options for raw records, in the calling thread. */
tfos_read_options helper_raw_options(void);

/* A list of one file. Its size need not be right. Lives until helper_teardown. */
const tfos_paths *helper_paths(const char *path);

/* ---- checks ---- */

/* Fails the test, and shows the text, if it does not contain `part`. */
void helper_expect_in(const char *text, const char *part);
/* Fails the test, and shows both, if they differ. */
void helper_expect_text(const char *found, const char *expected);

/* ---- processes ---- */

/* Ends a forked child at once. Not by _exit: there ThreadSanitizer would report threads of the parent that had ended by
 * themselves and wait to be joined, as left behind by the child. */
_Noreturn void helper_end_child(int code);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HELPER_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HELPER_SANITIZED 1
#endif
#endif
#ifndef HELPER_SANITIZED
#define HELPER_SANITIZED 0
#endif

/* Runs in a process of its own that cannot get more than `megabytes` of memory on top of what it has. The sanitizers
 * need the address space for themselves, so with them there is no limit. */
void helper_run_within(size_t megabytes, void (*function)(const char *path), const char *path);

/* An assertion there: ends the process, which fails the test. */
void helper_need(bool condition);

#endif
