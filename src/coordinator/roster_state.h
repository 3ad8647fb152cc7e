/* The inside of a roster, for the files that make it up. */
#ifndef TFOS_COORDINATOR_ROSTER_STATE_H
#define TFOS_COORDINATOR_ROSTER_STATE_H

#include "coordinator/roster.h"

typedef struct tfos__roster_node {
    tfos__node_state state;
    bool connected;
    bool assigned;
    bool stop_sent;
    uint64_t since_ms;
    uint64_t heard_ms;
    uint64_t left_ms; /* when its connection closed */
    uint64_t port;
    uint64_t pid;
    uint64_t cores;
    uint64_t cpu_ms;
    uint64_t cpu_at_ms; /* when cpu_ms was told */
    double cpu_share;
    uint64_t rss_bytes;
    uint64_t sequence; /* of the last LOG that was passed on */
    char *host;
    char *executor;
    char *gpus; /* found on its host, or given by Spark */
    bool gpus_by_spark;
    tfos__buffer given; /* GPUs it may use, terminated */
    char *tail;         /* TFOS__LOG_TAIL_BYTES, once it has logged */
    size_t tail_bytes;
    char *url;
    uint64_t url_pid;
    char *ended;
} tfos__roster_node;

struct tfos__roster {
    tfos__roster_options options;
    tfos__roster_calls calls;
    tfos__phase phase;
    uint64_t start_ms;
    uint64_t progress_ms; /* last told */
    uint64_t stop_ms;     /* stopping since */
    bool finish;
    uint64_t finish_grace_ms;
    uint64_t workers_done_ms; /* 0: not yet */
    uint32_t registered;
    int64_t slots;     /* -1: unknown */
    char holders[400]; /* other clusters of the application that hold some, in words; empty: none */
    char *failure;
    tfos__roster_node node[];
};

/* "worker:1". */
void tfos__roster_name(const tfos__roster *roster, uint32_t index, char out[64]);

/* Gives out GPUs, makes the cluster spec and sends ASSIGN to every node, or to `index` alone for independent nodes. A
 * failure is reported as the cluster's. */
void tfos__roster_assign(tfos__roster *roster, uint64_t now_ms);
void tfos__roster_assign_one(tfos__roster *roster, uint32_t index, uint64_t now_ms);

/* The cluster spec as JSON; NULL when memory is short. The caller frees it. */
char *tfos__roster_spec(const tfos__roster *roster);

/* The first failure: told to the driver, everybody is stopped. Later ones are only noted on their node. */
void tfos__roster_fail(tfos__roster *roster, uint32_t index, tfos__outcome outcome, uint64_t exit_code, uint64_t signal,
                       const char *text, const char *tail, uint64_t now_ms);

/* ---- roster_wait.c: while nodes are missing ---- */

/* How many are there, and what is waited for. */
void tfos__roster_tell_progress(tfos__roster *roster, uint64_t now_ms);

/* SLOTS. Who else holds some is told as soon as it is known: only the user can do something about it. */
void tfos__roster_hear_slots(tfos__roster *roster, const tfos__message *message, uint64_t now_ms);

/* A line now and then; a failure when the time is over. */
void tfos__roster_check_waiting(tfos__roster *roster, uint64_t now_ms);

#endif
