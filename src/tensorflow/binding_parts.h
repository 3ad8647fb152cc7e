/* The parts of a binding: what the files binding*.c share. */
#ifndef TFOS_TENSORFLOW_BINDING_PARTS_H
#define TFOS_TENSORFLOW_BINDING_PARTS_H

#include "base/bytes.h"
#include "base/json.h"
#include "tensorflow/binding.h"

typedef struct tfos__names {
    const char **at; /* the texts are somebody else's */
    size_t count;
} tfos__names;

typedef struct tfos__bounds {
    tfos__bound *at;
    size_t count;
    size_t capacity;
} tfos__bounds;

void tfos__bounds_reset(tfos__bounds *bounds);

/* *out is the caller's, to be given up with json_object_put. */
tfos_status tfos__order_parse(const char *text, json_object **out, tfos_error *error);
tfos_status tfos__order_signature(const tfos__saved_model *model, json_object *order, const tfos__signature **out,
                                  tfos_error *error);

/* Pairs of columns and inputs, by name alone: every input has one. */
tfos_status tfos__bind_inputs(const tfos__signature *signature, json_object *order, const tfos__names *names,
                              tfos__bounds *bounds, tfos_error *error);

/* The column that an output becomes. */
tfos_field tfos__binding_field(const tfos__bound *output);

#endif
