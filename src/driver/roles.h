/* Roles: which node is what, by its index, as users of num_ps, master_node and eval_node know it. */
#ifndef TFOS_DRIVER_ROLES_H
#define TFOS_DRIVER_ROLES_H

#include "tfos.h"

typedef struct tfos__roles {
    uint32_t nodes; /* all: ps, then the master, the evaluator, the workers */
    uint32_t ps;
    char master[64]; /* "chief" or "master"; empty for none */
    uint32_t evaluators;
} tfos__roles;

enum { TFOS__NODES_MOST = 65536 };

/* INVALID when the numbers make no cluster: more nodes of a kind than there are, no worker or master, a name of a role
 * that TensorFlow does not know. */
tfos_status tfos__roles_check(const tfos__roles *roles, tfos_error *error);

/* "worker" and 1, for an index below `nodes`. */
const char *tfos__roles_at(const tfos__roles *roles, uint32_t index, uint32_t *task);

/* Whether the node does the training: workers and the master. The others are stopped when these have ended. */
bool tfos__roles_is_worker(const tfos__roles *roles, uint32_t index);

#endif
