/* What a child finds in its environment. */
#ifndef TFOS_NODE_ENVIRONMENT_H
#define TFOS_NODE_ENVIRONMENT_H

#include "node/orders.h"

/* What the coordinator has said. */
typedef struct tfos__assignment {
    char role[65];
    uint64_t task;
    uint64_t nodes;
    bool has_gpus;
    char gpus[4097];
    bool native;
    char *spec; /* JSON */
} tfos__assignment;

enum {
    TFOS__CHILD_PAYLOAD_FILE = 3,
    TFOS__CHILD_REPORT_FILE = 4,
    TFOS__CHILD_GROUP_FILE = 5,
    TFOS__CHILD_RESULT_FILE = 6,
    TFOS__CHILD_FEED_FILE = 7,        /* with InputMode.SPARK */
    TFOS__VARIABLE_BYTES = 128 << 10, /* the most that Linux takes for one variable, its name and end included */
};

/* `base` (NAME=value, NULL-terminated), the user's variables, and ours. `log` is the path of the log file. LIMIT if a
 * variable is too long to be passed on, INVALID if a text is not JSON. */
tfos_status tfos__environment_make(const char *const *base, const tfos__orders *orders,
                                   const tfos__assignment *assignment, uint16_t port, const char *log, tfos__words *out,
                                   tfos_error *error);

/* Whether this node runs TensorBoard when it is asked for: the chief or master, or worker 0 where there is neither. */
bool tfos__assignment_is_chief(const tfos__assignment *assignment);

#endif
