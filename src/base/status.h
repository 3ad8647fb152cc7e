/* Status and error: how a failure is decided, described and passed on. */
#ifndef TFOS_BASE_STATUS_H
#define TFOS_BASE_STATUS_H

#include <stdarg.h>

#include "tfos.h"

/* Passes a failure on to the caller. END is passed on too: where it may come, compare it yourself. */
#define TFOS_TRY(expression)                                                                                           \
    do {                                                                                                               \
        tfos_status try_status_ = (expression);                                                                        \
        if (__builtin_expect(try_status_ != TFOS_OK, 0)) {                                                             \
            return try_status_;                                                                                        \
        }                                                                                                              \
    } while (0)

/* Decides a failure: fills `error` if there is one and returns `status`. */
tfos_status tfos__fail(tfos_error *error, tfos_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The fault that goes with a status unless something else is known. */
tfos_fault tfos__status_fault(tfos_status status);

/* The same for a failed system call: maps errno to a status, and appends the system's text. */
tfos_status tfos__fail_errno(tfos_error *error, int error_number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "context: " before the message of an error that is being passed on. */
void tfos__error_prefix(tfos_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The failure of an allocation of `bytes`. */
tfos_status tfos__fail_memory(tfos_error *error, size_t bytes);

/* A printable form of bytes from outside, for messages: at most `limit` characters, the rest escaped or cut with "…".
 */
typedef struct tfos__printable {
    char text[96];
} tfos__printable;

tfos__printable tfos__printable_of(const void *bytes, size_t count);
tfos__printable tfos__printable_text(const char *text);

#endif
