/* The parts of what reads a SavedModel: fields of messages, signatures, ops. */
#ifndef TFOS_TENSORFLOW_SAVED_MODEL_PARTS_H
#define TFOS_TENSORFLOW_SAVED_MODEL_PARTS_H

#include "base/wire.h"
#include "tensorflow/saved_model.h"

/* A field of a message. Numbers of fixed width are not looked at. */
typedef struct tfos__model_field {
    uint32_t number;
    uint64_t value;   /* of a varint */
    tfos__wire bytes; /* of a text or message; empty otherwise */
} tfos__model_field;

/* What is done with each field of a message. */
typedef tfos_status (*tfos__model_field_function)(void *context, const tfos__model_field *field, tfos_error *error);

/* Calls the function for each field of a message, until one fails. */
tfos_status tfos__model_each_field(tfos__wire message, tfos__model_field_function function, void *context,
                                   tfos_error *error);

/* Reads the file of a model, whose folder and tags are known, and calls the function for each field of its
 * MetaGraphDef. The caller resets *bytes, into which fields point, whatever the result. */
tfos_status tfos__model_each_of_file(const tfos__saved_model *model, tfos__model_field_function function, void *context,
                                     tfos__buffer *bytes, tfos_error *error);

/* CORRUPT: the bytes do not parse. */
tfos_status tfos__model_fail(tfos_error *error);

/* Replaces *out by a copy: of a field that comes twice the last one counts. */
tfos_status tfos__model_take_text(tfos__wire text, char **out, tfos_error *error);

/* Adds a signature, an entry of the map that a graph has of them. */
tfos_status tfos__model_take_signature(tfos__saved_model *model, tfos__wire bytes, tfos_error *error);
void tfos__model_reset_signature(tfos__signature *signature);
void tfos__model_sort_signatures(tfos__saved_model *model);

/* Adds the names of the ops of a graph and of its functions. */
tfos_status tfos__model_take_ops(tfos__saved_model *model, tfos__wire graph, tfos_error *error);

#endif
