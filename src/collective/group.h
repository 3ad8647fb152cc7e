/* A group from inside: what the files group*.c share.
 *
 * A group comes together in four steps: the coordinator tells everybody who the others are (group_meet.c); those that
 * are on one machine get a board from the first of them (group_mates.c), which makes links to other hosts
 * (group_far.c); and a thread begins to show that this one lives and to watch whether the others do (group_watch.c).
 * Then calls are made (group.c). */
#ifndef TFOS_COLLECTIVE_GROUP_H
#define TFOS_COLLECTIVE_GROUP_H

#include <pthread.h>
#include <sys/types.h>

#include "base/tls.h"
#include "collective/run.h"
#include "net/dial.h"
#include "net/local.h"
#include "net/machine.h"

typedef struct tfos__group_member {
    char name[400]; /* "worker:1 on host" */
    char host[TFOS__HOST_BYTES];
    uint16_t port;
    char shares[TFOS__PLACE_BYTES + 1];
    char board_name[101];
} tfos__group_member;

/* What is known of a worker of this machine to which there is a socket. */
typedef struct tfos__mate {
    size_t rank;
    int socket;      /* -1: it is closed, or there never was one */
    bool left;       /* it has said good-bye */
    int64_t lost_ms; /* its socket is closed, and is counted as a loss then; 0: it is not closed */
} tfos__mate;

struct tfos_group {
    unsigned references;
    pid_t owner; /* the process that opened it */
    uint64_t meeting;
    int64_t timeout_ms;

    /* Set before there is a second thread, and never changed. */
    size_t rank;
    size_t size;
    tfos__group_member *members;
    tfos__mate *mates; /* those of this machine, itself among them, in the order of ranks */
    size_t mate_count;
    size_t mate; /* itself */
    tfos__hosts hosts;
    uint8_t key[TFOS__KEY_BYTES];
    int64_t beat_ms;
    tfos__board *board;
    tfos__tls_context *far_tls; /* of the links that others have made */
    tfos__far *far;             /* NULL: there are no other hosts, or another worker of this one has the links */
    tfos__runner *runner;

    tfos__dial *node; /* NULL: a group of one. From the beginning of the watch on it is the watcher's */
    pthread_t watcher;
    bool watched;
    int wake; /* an eventfd that ends the watch */

    /* One call after the other. */
    pthread_mutex_t call_lock;
    const tfos_call_options *call_options;
    const char *call_about;
    uint64_t wait_progress; /* how far this worker is … */
    int64_t wait_ms;        /* … since then */
};

/* What opening it needs, and nothing later. */
typedef struct tfos__group_opening {
    int64_t deadline;
    const tfos_call_options *options;
    int local_socket; /* where workers of this machine come; -1: closed */
    int far_socket;   /* … and those of others */
    uint16_t far_port;
    char board_name[TFOS__LOCAL_NAME_BYTES];
    char shares[TFOS__PLACE_BYTES];
} tfos__group_opening;

/* How a worker is called; `context` is the group. */
const char *tfos__group_name(void *context, size_t rank);

/* CANCELLED if the caller's wait was interrupted or its time is over; `whom` is for messages. */
tfos_status tfos__group_check_patience(const tfos__group_opening *opening, const char *whom, tfos_error *error);

/* ---- group_meet.c ---- */

/* Tells the node, and by it the coordinator, that this worker is here and where; learns who the others are. `node` is
 * the descriptor of its socket, which becomes the group's. */
tfos_status tfos__group_meet(tfos_group *group, int node, const tfos__group_opening *opening, tfos_error *error);

/* ---- group_mates.c ---- */

/* Who is where, by what the members say of themselves. */
tfos_status tfos__group_find_hosts(tfos_group *group, tfos_error *error);

/* Finds those of this machine, and shares a board with them. */
tfos_status tfos__group_share(tfos_group *group, const tfos__group_opening *opening, tfos_error *error);

/* ---- group_far.c ---- */

/* Makes the links to the other hosts, if this is the first worker of its own. */
tfos_status tfos__group_link(tfos_group *group, const tfos__group_opening *opening, tfos_error *error);

/* ---- group_watch.c ---- */

tfos_status tfos__group_watch(tfos_group *group, tfos_error *error);

/* Ends the watch, and says good-bye to the others. */
void tfos__group_leave(tfos_group *group);

#endif
