/* Choices: the words of an enum, in the order of its numbers. */
#ifndef TFOS_BASE_CHOICE_H
#define TFOS_BASE_CHOICE_H

#include "tfos.h"

/* The word of a number; "unknown" for one that has none. `words` ends with NULL, here and below. */
const char *tfos__choice_name(const char *const *words, unsigned number);

/* The number of a word. INVALID says what was expected: "unknown codec 'gz': expected auto, none, gzip or zlib". */
tfos_status tfos__choice_parse(const char *what, const char *const *words, const char *text, int *out,
                               tfos_error *error);

/* The two public functions of the enum tfos_<noun>. */
#define TFOS__CHOICE_FUNCTIONS(noun, what, words)                                                                      \
    const char *tfos_##noun##_name(tfos_##noun value)                                                                  \
    {                                                                                                                  \
        return tfos__choice_name(words, (unsigned)value);                                                              \
    }                                                                                                                  \
                                                                                                                       \
    tfos_status tfos_##noun##_parse(const char *text, tfos_##noun *out, tfos_error *error)                             \
    {                                                                                                                  \
        int number;                                                                                                    \
        tfos_status status = tfos__choice_parse(what, words, text, &number, error);                                    \
        *out = status == TFOS_OK ? (tfos_##noun)number : *out;                                                         \
        return status;                                                                                                 \
    }

#endif
