/* Lists of words, each on the heap of its own: they are few and live long. */
#include "node/words.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

tfos_status tfos__words_add(tfos__words *words, const char *text, size_t count, tfos_error *error)
{
    if (words->count + 1 >= words->capacity) {
        size_t capacity = words->capacity == 0 ? 32 : words->capacity * 2;
        char **at = realloc(words->at, capacity * sizeof *at);
        if (at == NULL) {
            return tfos__fail_memory(error, capacity * sizeof *at);
        }
        words->at = at;
        words->capacity = capacity;
    }
    char *copy = strndup(text, count);
    if (copy == NULL) {
        return tfos__fail_memory(error, count + 1);
    }
    words->at[words->count++] = copy;
    words->at[words->count] = NULL;
    return TFOS_OK;
}

tfos_status tfos__words_split(tfos__words *words, const char *text, size_t count, tfos_error *error)
{
    const char *end = text + count;
    while (text < end) {
        size_t bytes = strnlen(text, (size_t)(end - text));
        TFOS_TRY(tfos__words_add(words, text, bytes, error));
        text += bytes + 1;
    }
    return TFOS_OK;
}

void tfos__words_reset(tfos__words *words)
{
    for (size_t i = 0; i < words->count; i++) {
        free(words->at[i]);
    }
    free(words->at);
    *words = (tfos__words){0};
}

static char **find(const tfos__words *words, const char *name, size_t bytes)
{
    for (size_t i = 0; i < words->count; i++) {
        if (strncmp(words->at[i], name, bytes) == 0 && words->at[i][bytes] == '=') {
            return &words->at[i];
        }
    }
    return NULL;
}

const char *tfos__words_variable(const tfos__words *words, const char *name)
{
    char **word = find(words, name, strlen(name));
    return word != NULL ? *word + strlen(name) + 1 : NULL;
}

tfos_status tfos__words_put(tfos__words *words, const char *assignment, tfos_error *error)
{
    const char *equals = strchr(assignment, '=');
    if (equals == NULL || equals == assignment) {
        return tfos__fail(error, TFOS_INVALID, "expected an environment variable as NAME=value, found '%s'",
                          tfos__printable_text(assignment).text);
    }
    char **word = find(words, assignment, (size_t)(equals - assignment));
    if (word == NULL) {
        return tfos__words_add(words, assignment, strlen(assignment), error);
    }
    char *copy = strdup(assignment);
    if (copy == NULL) {
        return tfos__fail_memory(error, strlen(assignment) + 1);
    }
    free(*word);
    *word = copy;
    return TFOS_OK;
}

tfos_status tfos__words_set(tfos__words *words, const char *name, const char *value, tfos_error *error)
{
    size_t bytes = strlen(name) + strlen(value) + 2;
    char *assignment = malloc(bytes);
    if (assignment == NULL) {
        return tfos__fail_memory(error, bytes);
    }
    stpcpy(stpcpy(stpcpy(assignment, name), "="), value);
    tfos_status status = tfos__words_put(words, assignment, error);
    free(assignment);
    return status;
}
