/* A list of words: arguments of a program, or its environment. */
#ifndef TFOS_NODE_WORDS_H
#define TFOS_NODE_WORDS_H

#include "tfos.h"

/* `{0}` is empty. */
typedef struct tfos__words {
    char **at; /* ended by NULL; NULL when empty */
    size_t count;
    size_t capacity;
} tfos__words;

tfos_status tfos__words_add(tfos__words *words, const char *text, size_t count, tfos_error *error);

/* Adds words that are separated by NUL, each ended by one or not. */
tfos_status tfos__words_split(tfos__words *words, const char *text, size_t count, tfos_error *error);

void tfos__words_reset(tfos__words *words);

/* For a list of NAME=value: the value, or NULL. */
const char *tfos__words_variable(const tfos__words *words, const char *name);

/* Sets or replaces NAME=value. */
tfos_status tfos__words_set(tfos__words *words, const char *name, const char *value, tfos_error *error);

/* The same for a word NAME=value. INVALID if it is something else. */
tfos_status tfos__words_put(tfos__words *words, const char *assignment, tfos_error *error);

#endif
