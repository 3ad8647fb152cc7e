/* The roster: the coordinator's mind. It knows the nodes of a cluster, their roles and states, and decides what to say
 * to whom. It has no sockets and no clock: it is told what happened and what time it is (milliseconds that only grow),
 * and calls back with what is to be sent, so a test can play any story in no time. */
#ifndef TFOS_COORDINATOR_ROSTER_H
#define TFOS_COORDINATOR_ROSTER_H

#include "driver/roles.h"
#include "net/message.h"

typedef struct tfos__roster_options {
    tfos__roles roles;
    uint32_t attempt;
    uint32_t flags;      /* TFOS__FLAG_… */
    int64_t worker_gpus; /* -1: not asked for */
    uint64_t all_gpus;   /* of all workers together, instead; 0: not asked for */
    uint64_t timeout_ms; /* for all nodes to come */
    uint64_t beat_ms;
    uint64_t lease_ms;
    uint64_t stop_ms; /* nodes that have not confirmed their end so long after a stop are given up */
    char name[64];
} tfos__roster_options;

/* What the roster wants done. Messages must be used before the function returns. */
typedef struct tfos__roster_calls {
    void (*to_node)(void *context, uint32_t index, const tfos__message *message);
    void (*to_driver)(void *context, const tfos__message *message);
    void *context;
} tfos__roster_calls;

enum {
    TFOS__RECONNECT_MS = 2000,    /* a node whose connection closed may come back in this time */
    TFOS__STOP_MS = 12000,        /* to be added to node.kill_ms for stop_ms */
    TFOS__PROGRESS_MS = 5000,     /* between lines about what is waited for */
    TFOS__LOG_TAIL_BYTES = 8192,  /* of each node, for the status page and for failures */
    TFOS__ENDED_BYTES = 64 << 10, /* of how a node ended, for the driver */
    TFOS__GPUS_OF_NODE_MOST = 64,
};

typedef enum tfos__phase {
    TFOS__PHASE_WAITING,
    TFOS__PHASE_RUNNING,
    TFOS__PHASE_STOPPING,
    TFOS__PHASE_OVER
} tfos__phase;

/* One node, as the status page shows it. Texts live until the next call. */
typedef struct tfos__node_view {
    const char *role;
    uint32_t task;
    const char *host;
    uint64_t port;
    uint64_t pid;
    const char *executor;
    const char *gpus; /* given to it */
    tfos__node_state state;
    uint64_t since_ms; /* it registered then; 0: never */
    uint64_t heard_ms;
    uint64_t cpu_ms;
    double cpu_share; /* cores in use over the last beats */
    uint64_t rss_bytes;
    const char *tail; /* of its log */
    const char *url;  /* of its TensorBoard */
    uint64_t url_pid;
    const char *ended; /* how, when it has */
} tfos__node_view;

typedef struct tfos__roster tfos__roster;

tfos_status tfos__roster_new(const tfos__roster_options *options, const tfos__roster_calls *calls, uint64_t now_ms,
                             tfos__roster **out, tfos_error *error);
void tfos__roster_free(tfos__roster *roster);

/* A node comes, or comes back. OK: it is *index from now on. EXISTS: a live node has this index already, and this one
 * is to be kept waiting. Else the error says why it is refused. */
tfos_status tfos__roster_register(tfos__roster *roster, const tfos__message *message, uint64_t now_ms, uint32_t *index,
                                  tfos_error *error);

/* To be called after REGISTER was accepted and its link can be written to: hands out roles when all have come. */
void tfos__roster_welcome(tfos__roster *roster, uint32_t index, uint64_t now_ms);

void tfos__roster_hear(tfos__roster *roster, uint32_t index, const tfos__message *message, uint64_t now_ms);
void tfos__roster_disconnect(tfos__roster *roster, uint32_t index, uint64_t now_ms);

/* FINISH, STOP and SLOTS of the driver. */
void tfos__roster_obey(tfos__roster *roster, const tfos__message *message, uint64_t now_ms);
void tfos__roster_stop(tfos__roster *roster, const char *reason, uint64_t now_ms);

/* Looks at leases and time limits; to be called a few times a second. */
void tfos__roster_tick(tfos__roster *roster, uint64_t now_ms);

/* The process slept for so long: nobody could be heard, and nobody is to be blamed for it. */
void tfos__roster_forgive(tfos__roster *roster, uint64_t ms);

/* Whether nobody has this index at the moment, and somebody may. */
bool tfos__roster_is_vacant(const tfos__roster *roster, uint64_t index);

tfos__phase tfos__roster_phase(const tfos__roster *roster);
const tfos__roster_options *tfos__roster_options_of(const tfos__roster *roster);
uint32_t tfos__roster_registered(const tfos__roster *roster);
void tfos__roster_view(const tfos__roster *roster, uint32_t index, tfos__node_view *out);

/* The first failure, as the driver was told; empty for none. */
const char *tfos__roster_failure(const tfos__roster *roster);

#endif
