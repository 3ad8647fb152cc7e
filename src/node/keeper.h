/* The keeper: a small process between a node and everything that the node starts.
 *
 * It is forked before the node has threads, secrets or memory worth copying. It starts programs when told to, waits for
 * them and reports; and when the node is gone, however that came, it kills whatever is below it: it is a subreaper, so
 * processes that left their session or lost their parent are still its own. */
#ifndef TFOS_NODE_KEEPER_H
#define TFOS_NODE_KEEPER_H

#include <sys/types.h>

#include "tfos.h"

/* What is started, one of each at a time. When the child ends, everything else below the keeper is killed. */
typedef enum tfos__keeper_slot {
    TFOS__KEEPER_CHILD,
    TFOS__KEEPER_TENSORBOARD,
    TFOS__KEEPER_TOOL,
    TFOS__KEEPER_SLOTS,
} tfos__keeper_slot;

typedef struct tfos__keeper {
    pid_t pid;
    int socket; /* the node's end; readable when there is an event */
} tfos__keeper;

typedef enum tfos__keeper_event_kind {
    TFOS__KEEPER_STARTED, /* the program runs: pid */
    TFOS__KEEPER_FAILED,  /* it does not: value is an errno */
    TFOS__KEEPER_ENDED,   /* value is its wait status */
    TFOS__KEEPER_GONE,    /* after the end of the child or tfos__keeper_end: nothing is left; value is how many are,
                             after all, because the kernel does not let them die */
} tfos__keeper_event_kind;

typedef struct tfos__keeper_event {
    int32_t kind;
    int32_t slot;
    int32_t pid;
    int32_t value;
} tfos__keeper_event;

enum { TFOS__KEEPER_MOST_FILES = 8, TFOS__KEEPER_MOST_BYTES = 64 << 20, TFOS__KEEPER_PATIENCE_MS = 30000 };

typedef struct tfos__keeper_order {
    tfos__keeper_slot slot;
    const char *file; /* searched in the PATH of `environment` if it has no slash */
    const char *const *arguments;
    const char *const *environment;
    int files[TFOS__KEEPER_MOST_FILES]; /* become descriptors 1, 2, 3, …; -1: /dev/null */
    size_t file_count;
} tfos__keeper_order;

/* Forks the keeper, which never returns from here, and makes this process a subreaper as well. Call it while the
 * process has one thread. */
tfos_status tfos__keeper_open(tfos__keeper *keeper, tfos_error *error);

/* Starts a program in a process group of its own; STARTED or FAILED follows. `files` stay the caller's. */
tfos_status tfos__keeper_start(const tfos__keeper *keeper, const tfos__keeper_order *order, tfos_error *error);

/* Sends a signal to the group of what was started; nothing happens if it has ended. */
void tfos__keeper_signal(const tfos__keeper *keeper, tfos__keeper_slot slot, int number);

/* Kills everything below the keeper; GONE follows. */
void tfos__keeper_end(const tfos__keeper *keeper);

/* Takes the next event without waiting. END: none is there now. IO: the keeper is dead. */
tfos_status tfos__keeper_next(const tfos__keeper *keeper, tfos__keeper_event *event, tfos_error *error);

/* Lets go of the keeper, which kills what is left and exits. */
void tfos__keeper_close(tfos__keeper *keeper);

#endif
