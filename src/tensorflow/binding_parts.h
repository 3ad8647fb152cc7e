/* The parts of a binding: what the files binding*.c share. */
#ifndef TFOS_TENSORFLOW_BINDING_PARTS_H
#define TFOS_TENSORFLOW_BINDING_PARTS_H

#include "base/bytes.h"
#include "base/json.h"
#include "tensorflow/binding.h"

typedef struct tfos__names {
    const char **at; /* the texts are somebody else's */
    size_t count;
    const tfos_schema *schema; /* of the columns; or */
    json_object *spark;        /* their fields, as Spark has them */
} tfos__names;

/* The names of columns. The caller frees out->at. */
tfos_status tfos__names_of(const tfos_schema *schema, tfos__names *out, tfos_error *error);

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

/* MISMATCH: what is wrong with a name, what the signature wants and what the rows have, and what to do. Lists are cut
 * where a message would be too long. */
tfos_status tfos__fail_tensor(const tfos__signature *signature, const tfos__names *names, const char *what,
                              const char *name, const char *advice, tfos_error *error);
tfos_status tfos__fail_output(const tfos__signature *signature, const tfos__layer_search *search, const char *name,
                              tfos_error *error);
tfos_status tfos__fail_column(const tfos__signature *signature, const tfos__names *names, const char *name,
                              tfos_error *error);
tfos_status tfos__fail_kept(const tfos__names *names, const char *name, tfos_error *error);

/* Pairs of columns and inputs, by name alone: every input has one. */
tfos_status tfos__bind_inputs(const tfos__signature *signature, json_object *order, const tfos__names *names,
                              tfos__bounds *bounds, tfos_error *error);

/* The column that an output becomes. */
tfos_field tfos__binding_field(const tfos__bound *output);

#endif
