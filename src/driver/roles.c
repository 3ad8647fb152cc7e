/* Roles follow the index, so a task that Spark runs again somewhere else has the role that it had before. */
#include "driver/roles.h"

#include <inttypes.h>
#include <string.h>

#include "base/status.h"

static uint32_t masters_of(const tfos__roles *roles)
{
    return roles->master[0] != '\0';
}

tfos_status tfos__roles_check(const tfos__roles *roles, tfos_error *error)
{
    if (roles->nodes < 1 || roles->nodes > TFOS__NODES_MOST) {
        return tfos__fail(error, TFOS_INVALID, "a cluster has from 1 to %d nodes; %" PRIu32 " were asked for",
                          TFOS__NODES_MOST, roles->nodes);
    }
    if (masters_of(roles) && strcmp(roles->master, "chief") != 0 && strcmp(roles->master, "master") != 0) {
        return tfos__fail(error, TFOS_INVALID, "the master node can be called 'chief' or 'master', not '%s'",
                          tfos__printable_text(roles->master).text);
    }
    uint64_t others = (uint64_t)roles->ps + roles->evaluators;
    if (others + masters_of(roles) > roles->nodes) {
        return tfos__fail(error, TFOS_INVALID,
                          "%" PRIu32 " ps, %" PRIu32 " evaluator and %" PRIu32 " master nodes do not fit into %" PRIu32
                          " nodes; raise num_executors or lower num_ps",
                          roles->ps, roles->evaluators, masters_of(roles), roles->nodes);
    }
    if (others == roles->nodes) {
        return tfos__fail(error, TFOS_INVALID,
                          "a cluster needs at least one worker or master besides its %" PRIu32 " ps and %" PRIu32
                          " evaluator nodes; raise num_executors",
                          roles->ps, roles->evaluators);
    }
    return TFOS_OK;
}

const char *tfos__roles_at(const tfos__roles *roles, uint32_t index, uint32_t *task)
{
    if (index < roles->ps) {
        *task = index;
        return "ps";
    }
    index -= roles->ps;
    if (index < masters_of(roles)) {
        *task = index;
        return roles->master;
    }
    index -= masters_of(roles);
    if (index < roles->evaluators) {
        *task = index;
        return "evaluator";
    }
    *task = index - roles->evaluators;
    return "worker";
}

bool tfos__roles_is_worker(const tfos__roles *roles, uint32_t index)
{
    uint32_t task;
    const char *role = tfos__roles_at(roles, index, &task);
    return strcmp(role, "ps") != 0 && strcmp(role, "evaluator") != 0;
}
