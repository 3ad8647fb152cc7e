/* Nodes come first, for without them there is nothing to be done; strangers get a part of what is left, because
 * everybody is one at first; the rest is for tasks that feed. */
#include "coordinator/crowd.h"

#include <stdio.h>
#include <sys/resource.h>

#include "base/status.h"

enum {
    OTHER_FILES = 128,      /* the driver, the loop, the status page and its readers */
    STRANGERS_MOST = 1024,  /* connections beyond two for each node, and producers */
    PRODUCERS_MOST = 16384, /* whatever the system allows */
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

tfos_status tfos__crowd_plan(size_t files, size_t nodes, tfos__crowd *out, tfos_error *error)
{
    size_t left = files > OTHER_FILES + nodes ? files - OTHER_FILES - nodes : 0;
    if (left < 4) {
        return tfos__fail(
            error, TFOS_LIMIT,
            "a coordinator of %zu nodes has more than %zu files open, and this one may have %zu; raise the "
            "limit of the driver (ulimit -Hn), or ask for fewer nodes",
            nodes, nodes + OTHER_FILES, files);
    }
    size_t spares = least(nodes, left / 4); /* or nodes that come back before we know that they were gone */
    size_t strangers = least(STRANGERS_MOST, left / 4);
    *out = (tfos__crowd){.files = files,
                         .others_most = nodes + spares + strangers,
                         .producers_most = least(PRODUCERS_MOST, left - spares - strangers)};
    return TFOS_OK;
}

size_t tfos__crowd_files(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < SIZE_MAX ? (size_t)limit.rlim_cur : SIZE_MAX;
}

void tfos__crowd_describe(const tfos__crowd *crowd, char *out, size_t bytes)
{
    if (crowd->producers_most == PRODUCERS_MOST) {
        snprintf(
            out, bytes,
            "%zu tasks feed this cluster, and more cannot at the same time; give the data fewer partitions, or Spark "
            "fewer cores",
            crowd->producers_most);
    } else {
        snprintf(
            out, bytes,
            "%zu tasks feed this cluster, and more cannot at the same time, because the coordinator may have no more "
            "than %zu files open; raise the limit of the driver (ulimit -Hn), or give the data fewer partitions",
            crowd->producers_most, crowd->files);
    }
}
