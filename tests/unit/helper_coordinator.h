/* A coordinator of one node, as simple as the protocol allows, and an executor that starts the node: what tests of
 * `tfos node` need on either side of it. Both are driven by the test, which sees every message. */
#ifndef HELPER_COORDINATOR_H
#define HELPER_COORDINATOR_H

#include <sys/types.h>

#include "service/link.h"

typedef struct helper_coordinator {
    uv_loop_t loop;
    uv_tcp_t listener;
    bool listening;
    uint16_t port;
    uint8_t key[TFOS__KEY_BYTES];
    tfos__tls_context *tls;
    tfos__link *link; /* the node's newest connection, once it has said HELLO */
    int connections;
    bool mute;          /* answers nothing */
    bool hold_assign;   /* a registered node gets no role */
    bool hold_bye;      /* ENDED is not answered */
    bool hold_seen;     /* … nor is RESULT */
    const char *refuse; /* the answer to REGISTER, if not NULL */
    const char *role;
    uint64_t task;
    const char *spec;
    const char *gpus;
    bool native;
    uint64_t lease_ms;
    /* What was heard. */
    int heard[128]; /* of each message type */
    char version[65];
    char host[257];
    char offered_gpus[257];
    char gpu_source[65];
    char executor[257];
    uint64_t node_port;
    uint64_t node_pid;
    uint64_t returned; /* the last REGISTERED */
    uint64_t state;
    uint64_t child_pid;
    uint64_t cpu_ms; /* the most */
    uint64_t rss_bytes;
    uint64_t outcome;
    uint64_t exit_code;
    uint64_t signal;
    uint64_t sequence; /* the last of LOG */
    tfos__buffer out;  /* LOG of stream 1, each piece once */
    tfos__buffer err;  /* … of stream 2 */
    tfos__buffer text; /* of ENDED, terminated */
    tfos__buffer tail;
    char url[1025];
    char feed_name[101];  /* where producers on this machine come */
    uint64_t feed_port;   /* … and those elsewhere */
    uint64_t fenced_rows; /* of the last FENCED */
    char terminated[64];  /* the queue of the last TERMINATE */
    int64_t ended_ms;     /* when it was heard */
    tfos__buffer report;  /* the last REPORT, terminated */
    tfos__buffer result;  /* pieces of RESULT that were answered */
    uint64_t head_bytes;
    uint64_t value_bytes;
} helper_coordinator;

void helper_coordinator_open(helper_coordinator *it);
void helper_coordinator_close(helper_coordinator *it);

/* Nobody listens any more, and what was connected is cut. */
void helper_coordinator_vanish(helper_coordinator *it);

/* Cuts the connection; the node may come back. */
void helper_coordinator_cut(helper_coordinator *it);

void helper_coordinator_stop(helper_coordinator *it, uint64_t grace_ms);

/* What a test waits for. */
typedef bool (*helper_condition)(void *context);

/* Runs the loop until the condition holds. Fails the test, saying `what`, when that takes longer than `most_ms`. */
void helper_wait(helper_coordinator *it, helper_condition condition, void *context, int64_t most_ms, const char *what);
void helper_wait_heard(helper_coordinator *it, tfos__message_type type, int count, int64_t most_ms);
void helper_wait_log(helper_coordinator *it, const tfos__buffer *log, const char *text, int64_t most_ms);
void helper_run_for(helper_coordinator *it, int64_t ms);

int64_t helper_now_ms(void);

/* ---- the executor ---- */

typedef struct helper_executor {
    pid_t pid;
    int control; /* bytes for it: 'D' detach, 'C' close the node's stdin */
    int output;  /* the node's stdout */
    int status;  /* the node's wait status comes here */
    char mark[64];
    char folder[256];        /* the working folder of the node, fresh */
    tfos__buffer said;       /* by the node to stdout */
    tfos__buffer complained; /* … and to stderr */
} helper_executor;

typedef struct helper_start {
    const char *const *program; /* NULL-terminated */
    const char *environment[8]; /* NAME=value for the child, NULL-terminated */
    const char *outside[4];     /* NAME=value for the node, NULL-terminated */
    const char *settings[8];    /* key=value, NULL-terminated */
    const char *const *tensorboard;
    const char *payload;
    const char *gpus;
    uint64_t flags;
    uint64_t wrong_pid; /* the PID in the orders, if not 0 */
    const uint8_t *key;
    const char *host;
    const char *cgroup; /* the executor enters this folder of cgroups first */
    bool stuck_errors;  /* the node's stderr is a full pipe that nobody reads */
    int leak;           /* this number is an open file in the executor that its children inherit, if not 0 */
} helper_start;

/* Starts an executor, a process of its own, which starts `tfos node` with these orders. */
void helper_executor_start(helper_executor *executor, helper_coordinator *it, const helper_start *start);

/* The same with a shell script as the program. */
void helper_executor_script(helper_executor *executor, helper_coordinator *it, const char *script);

/* Waits until the node has exited and returns its exit code, or minus the signal. */
int helper_executor_wait(helper_executor *executor, helper_coordinator *it, int64_t most_ms);

void helper_executor_kill(helper_executor *executor);
void helper_executor_tell(helper_executor *executor, char byte);

/* Processes that carry the mark of this executor: the node and all below it. */
size_t helper_executor_count(const helper_executor *executor);

/* Fails the test if any is left after `most_ms`. Then frees everything. */
void helper_executor_close(helper_executor *executor, helper_coordinator *it);

/* The whole content of a file below the executor's folder whose name ends so; the caller frees it. NULL: none. */
char *helper_executor_read(const helper_executor *executor, const char *ending);

/* ---- both ---- */

/* What most tests of a node have, each of them anew: set-up and tear-down for cmocka. */
typedef struct helper_scene {
    helper_coordinator it;
    helper_executor executor;
} helper_scene;

extern helper_scene *helper_now;

int helper_scene_open(void **state);
int helper_scene_close(void **state);

#endif
