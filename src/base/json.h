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

/* A member of an object, or NULL: it has none, or is no object. */
json_object *tfos__json_member(json_object *object, const char *key);

/* The same if it is of this type; a text, or "". */
json_object *tfos__json_member_of(json_object *object, const char *key, json_type type);
const char *tfos__json_text(json_object *object, const char *key);

#endif
