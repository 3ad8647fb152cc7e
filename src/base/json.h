/* JSON objects from texts of others, read strictly: valid UTF-8, no comments, nothing behind the end. */
#ifndef TFOS_BASE_JSON_H
#define TFOS_BASE_JSON_H

#include <json-c/json.h>

#include "tfos.h"

/* What is wrong with a text, and at which byte. */
typedef struct tfos__json_fault {
    const char *what;
    size_t at;
} tfos__json_fault;

/* Reads a text that is one object, nested at most `depth` deep. INVALID: `fault` says why, and the caller, who knows
 * what the text was meant to be, writes the message. *out is the caller's. */
tfos_status tfos__json_object_parse(const char *text, size_t bytes, int depth, json_object **out,
                                    tfos__json_fault *fault, tfos_error *error);

#endif
