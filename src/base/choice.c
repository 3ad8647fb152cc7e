/* Choices. What may be said is told from the same words that are compared, so a message cannot forget one. */
#include "base/choice.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

const char *tfos__choice_name(const char *const *words, unsigned number)
{
    for (unsigned i = 0; words[i] != NULL; i++) {
        if (i == number) {
            return words[i];
        }
    }
    return "unknown";
}

/* "auto, none, gzip or zlib" */
static void list(const char *const *words, char *out, size_t bytes)
{
    size_t used = 0;
    for (size_t i = 0; words[i] != NULL && used < bytes; i++) {
        const char *before = i == 0 ? "" : words[i + 1] != NULL ? ", " : " or ";
        int written = snprintf(out + used, bytes - used, "%s%s", before, words[i]);
        used += written > 0 ? (size_t)written : 0;
    }
}

tfos_status tfos__choice_parse(const char *what, const char *const *words, const char *text, int *out,
                               tfos_error *error)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = i;
            return TFOS_OK;
        }
    }
    char expected[512] = "";
    list(words, expected, sizeof expected);
    return tfos__fail(error, TFOS_INVALID, "unknown %s '%s': expected %s", what, tfos__printable_text(text).text,
                      expected);
}
