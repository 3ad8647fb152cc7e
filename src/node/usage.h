/* What processes use, from /proc, and whether the kernel killed one of them because memory ran out. */
#ifndef TFOS_NODE_USAGE_H
#define TFOS_NODE_USAGE_H

#include <sys/types.h>

#include "tfos.h"

/* One line of /proc/PID/stat. */
typedef struct tfos__process {
    pid_t pid;
    pid_t parent;
    char state;         /* 'Z' for one that ended and was not waited for */
    uint64_t start;     /* clock ticks since boot: with the pid, a name that is not used again */
    uint64_t cpu_ms;    /* of its own */
    uint64_t reaped_ms; /* of the children that it has waited for */
    uint64_t rss_bytes;
} tfos__process;

typedef struct tfos__processes {
    tfos__process *at;
    size_t count;
    size_t capacity;
} tfos__processes;

/* False when there is no such process. */
bool tfos__process_read(pid_t pid, tfos__process *out);

/* Every process below `root`, however deep, without `root` itself. What `out` had before is replaced; after a failure
 * it is empty. */
tfos_status tfos__processes_below(pid_t root, tfos__processes *out, tfos_error *error);

void tfos__processes_reset(tfos__processes *processes);

/* Sends SIGKILL to every process below this one. They are stopped first, so that none is born meanwhile. Returns how
 * many there were; call it again until waitpid knows of none. When they cannot be listed, nobody gets a signal. */
size_t tfos__processes_kill_below(tfos__processes *scratch);

/* What all processes below `root` use; `root` itself counts only by the children that it has waited for. `known` keeps
 * who they are: a call that does not look for new ones asks only after those, which costs little, however many
 * processes the machine has. */
typedef struct tfos__usage {
    uint64_t cpu_ms;
    uint64_t rss_bytes;
} tfos__usage;

tfos__usage tfos__usage_below(pid_t root, bool look_for_new, tfos__processes *known);

/* How often the kernel has killed for want of memory, and the limit in force. */
typedef struct tfos__memory_state {
    uint64_t kills;
    bool known;           /* a counter was found */
    bool of_cgroup;       /* … of our cgroup; else of the whole machine */
    uint64_t limit_bytes; /* the smallest limit of our cgroup and those above it; 0: none */
} tfos__memory_state;

/* `root` is put before the paths below /proc and /sys: "" but in tests. */
tfos__memory_state tfos__memory_state_read(const char *root);

#endif
