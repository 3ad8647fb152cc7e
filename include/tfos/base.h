/* tfos/base.h: what everything else in tfos stands on.
 *
 *   status, error    every call that can fail returns a tfos_status and fills an optional tfos_error.
 *   log              where the library's lines go.
 *   setting          what a user may set without naming it in a call.
 *   string           text that a function hands over is freed with tfos_string_free.
 *
 * Errors. A function returns TFOS_OK (0), TFOS_END where it says that data may end, or an error status. The last
 * argument `error` may be NULL; otherwise it is filled on failure and untouched on success. Outputs are set only
 * on success. The library never exits, aborts or prints for a fault of its environment or its input; an argument that
 * no correct program passes trips an assert.
 *
 * Ownership. `new`/`free` pair memory, `open`/`close` pair resources of the system, `init` fills storage of the
 * caller's. If `new` or `open` fails there is nothing to free. Every `free` and `close` takes NULL. Strings returned as
 * `const char *` belong to the object that returned them and live as long as it does.
 *
 * Names. What a function called after a noun gives was there before (tfos_batch_rows); one that does something begins
 * with a verb (tfos_cluster_request_status).
 *
 * Options. A struct of options begins with its size and is filled in with its `init`, which is given that size; then
 * what is to be different is set. So a struct can grow: the library looks at no more of it than its size, and INVALID
 * says that the size is 0, or that of a version which is newer than the library.
 *
 * Enums. Each has a pair of functions, `name` and `parse`; the name of a number that is none of them is "unknown".
 *
 * Threads. Objects are not shared between threads unless a function says so; different objects never interfere.
 *
 * These laws hold in every header of tfos. */
#ifndef TFOS_BASE_H
#define TFOS_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TFOS_API __attribute__((visibility("default")))
#else
#define TFOS_API
#endif

#define TFOS_VERSION "0.1.0"

/* The version of the library that is loaded, in the form of TFOS_VERSION.
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_version(void);

/* ---- Status and error -------------------------------------------------------------------------------------------- */

/* Whose fault an error is, and so whether it helps to try again. X(name, value, "what it means").
 *
 * Everybody who decides what follows from an error goes by this, and nobody by what its message says: a Spark task and
 * its driver, in whichever language. The values are part of the ABI. */
#define TFOS_FAULT_MAP(X)                                                                                              \
    X(AGAIN, 0, "of the moment, or of this machine: another attempt may succeed")                                      \
    X(FINAL, 1, "of what was asked, or of the data: another attempt would meet the same")                              \
    X(PROGRAM, 2, "of the program on a node, which does not do its part")                                              \
    X(CLUSTER, 3, "of the cluster, which has failed or ends")

typedef enum tfos_fault {
#define TFOS_FAULT_ENUM(name, value, text) TFOS_FAULT_##name = (value),
    TFOS_FAULT_MAP(TFOS_FAULT_ENUM)
#undef TFOS_FAULT_ENUM
} tfos_fault;

/* X(name, value, fault, text): the fault is that of an error of this status unless something else is known. The values
 * are part of the ABI: Java and Python constants are made from this table. */
#define TFOS_STATUS_MAP(X)                                                                                             \
    X(OK, 0, AGAIN, "ok")                                                                                              \
    X(END, 1, AGAIN, "end of data")                                                                                    \
    X(INVALID, 2, FINAL, "invalid argument")                                                                           \
    X(NOT_FOUND, 3, AGAIN, "not found")                                                                                \
    X(PERMISSION, 4, AGAIN, "permission denied")                                                                       \
    X(EXISTS, 5, AGAIN, "already exists")                                                                              \
    X(IO, 6, AGAIN, "input/output error")                                                                              \
    X(NO_SPACE, 7, AGAIN, "no space left")                                                                             \
    X(NO_MEMORY, 8, AGAIN, "out of memory")                                                                            \
    X(CORRUPT, 9, FINAL, "corrupt data")                                                                               \
    X(TRUNCATED, 10, FINAL, "data cut short")                                                                          \
    X(MISMATCH, 11, FINAL, "data does not match the schema")                                                           \
    X(RANGE, 12, FINAL, "value out of range")                                                                          \
    X(ENCODING, 13, FINAL, "invalid text encoding")                                                                    \
    X(LIMIT, 14, FINAL, "limit exceeded")                                                                              \
    X(UNSUPPORTED, 15, FINAL, "not supported")                                                                         \
    X(MISSING_LIBRARY, 16, AGAIN, "a system library is missing")                                                       \
    X(CANCELLED, 17, AGAIN, "cancelled")                                                                               \
    X(RAISED, 18, AGAIN, "a function that was called back has failed")

typedef enum tfos_status {
#define TFOS_STATUS_ENUM(name, value, fault, text) TFOS_##name = (value),
    TFOS_STATUS_MAP(TFOS_STATUS_ENUM)
#undef TFOS_STATUS_ENUM
} tfos_status;

enum { TFOS_ERROR_MESSAGE_BYTES = 1024 };

/* What went wrong: one or two sentences that say what was expected, what was found, where, and what to do. */
typedef struct tfos_error {
    tfos_status status;
    tfos_fault fault;
    char message[TFOS_ERROR_MESSAGE_BYTES];
} tfos_error;

/* "CORRUPT" for TFOS_CORRUPT.
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_status_name(tfos_status status);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_status_parse(const char *text, tfos_status *out, tfos_error *error);

/* "corrupt data" for TFOS_CORRUPT.
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_status_text(tfos_status status);

/* "again", "final", "program" or "cluster".
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_fault_name(tfos_fault fault);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_fault_parse(const char *text, tfos_fault *out, tfos_error *error);

/* ---- Strings ----------------------------------------------------------------------------------------------------- */

/* Owner: frees text or bytes that a tfos function handed over; there is no other way.
 * Thread: any. */
TFOS_API void tfos_string_free(void *string);

/* ---- Log --------------------------------------------------------------------------------------------------------- */

typedef enum tfos_log_level { TFOS_LOG_ERROR, TFOS_LOG_WARN, TFOS_LOG_INFO, TFOS_LOG_DEBUG } tfos_log_level;

/* "error", "warn", "info" or "debug".
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const char *tfos_log_level_name(tfos_log_level level);

/* The reverse of the name.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_log_level_parse(const char *text, tfos_log_level *out, tfos_error *error);

typedef void (*tfos_log_function)(tfos_log_level level, const char *message, void *context);

/* Where the library's log lines go; NULL (the default) drops them. Called from any thread of the library, also from
 * several at a time, and never while the library holds a lock that a tfos call needs. When this returns, no other
 * thread is in the function that was replaced.
 *
 * Owner: the caller keeps `context` alive until the function has been replaced.
 * Thread: any. */
TFOS_API void tfos_log_set(tfos_log_function function, void *context);

/* Hands a line to that function, as the library does: for libraries that are part of tfos and stand beside this one.
 *
 * Owner: `message` stays the caller's.
 * Thread: any. */
TFOS_API void tfos_log_write(tfos_log_level level, const char *message);

/* ---- Settings ---------------------------------------------------------------------------------------------------- */

/* What a user may set without naming it in a call. docs/config.md is made from this table. */
typedef struct tfos_setting {
    const char *key;         /* "records.batch_rows" */
    const char *environment; /* "TFOS_RECORDS_BATCH_ROWS" */
    const char *form;        /* NULL: a number from `least` to `most`; else what the text looks like, without default */
    int64_t fallback;        /* when nobody sets it */
    int64_t least;
    int64_t most;
    const char *text; /* what it means, in a sentence */
} tfos_setting;

/* Owner: nothing changes hands.
 * Thread: any. */
TFOS_API size_t tfos_setting_count(void);

/* The setting at `index`, which is below the count.
 *
 * Owner: the library.
 * Thread: any. */
TFOS_API const tfos_setting *tfos_setting_at(size_t index);

/* Parses a whole number that may end in KiB, MiB or GiB.
 *
 * Owner: nothing changes hands.
 * Thread: any. */
TFOS_API tfos_status tfos_number_parse(const char *text, int64_t *out, tfos_error *error);

#ifdef __cplusplus
}
#endif

#endif /* TFOS_BASE_H */
