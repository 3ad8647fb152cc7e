/* The description of a trainable model: what `native.export` has written beside it, in assets.extra/tfos.json. Names of
 * tensors are in the signatures; here is what is particular to the model. docs/design.md has the contract. */
#ifndef TFOS_TENSORFLOW_DESCRIPTION_H
#define TFOS_TENSORFLOW_DESCRIPTION_H

#include <json-c/json.h>

#include "tfos.h"

typedef enum tfos__port_kind {
    TFOS__PORT_INPUT,
    TFOS__PORT_LABEL,
    TFOS__PORT_WEIGHT, /* of rows; ones where the data has no such column */
} tfos__port_kind;

/* "input", "label", "sample weight". */
const char *tfos__port_kind_name(tfos__port_kind kind);

/* A tensor that a step is fed with, for each row. */
typedef struct tfos__port {
    tfos__port_kind kind;
    const char *name; /* as people call it: columns have it, or are mapped to it */
    const char *key;  /* in the signatures */
} tfos__port;

typedef struct tfos__description_names {
    const char **at;
    size_t count;
} tfos__description_names;

/* What a step tells. */
typedef struct tfos__step_logs {
    tfos__description_names metrics; /* results that it adds to */
    tfos__description_names means;   /* its outputs log_NAME, which are averaged over rows */
} tfos__step_logs;

typedef struct tfos__description {
    json_object *text; /* the texts below are its */
    tfos__port *ports; /* inputs, labels, sample weights, each in their order */
    size_t port_count;
    int64_t batch_rows;     /* that each batch must have; -1: any number */
    int64_t metrics_length; /* of the vector that steps give */
    tfos__step_logs train;
    tfos__step_logs evaluate;
    bool together;     /* there are steps of many workers */
    bool averages;     /* of weights, which `finalize` puts in their place */
    bool exact_resume; /* all random numbers come from variables */
    bool has_schedule; /* the optimizer has a learning rate that changes by itself */
} tfos__description;

/* Of the model in a folder. `served` may be NULL. NOT_FOUND: there is no model, or it is one that cannot be trained.
 * CORRUPT: the file makes no sense. UNSUPPORTED: it is of a later version. */
tfos_status tfos__description_read(const tfos_file_system *served, const char *folder, tfos__description *out,
                                   tfos_error *error);

/* The same of a text; `where` is for messages. */
tfos_status tfos__description_parse(const char *text, size_t bytes, const char *where, tfos__description *out,
                                    tfos_error *error);
void tfos__description_reset(tfos__description *description);

/* NULL: there is none. */
const tfos__port *tfos__description_port(const tfos__description *description, const char *name);

#endif
