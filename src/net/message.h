/* The messages of the control plane: what the driver, the coordinator and the nodes say to each other.
 *
 * One shape for all of them: a type and a bag of fields, each a number or bytes, in protobuf wire format. So there is
 * one encoder, one decoder and one fuzz target, a field that a peer does not know is passed over, and a shell in
 * another language can add a field to a message by appending bytes to it.
 *
 *   frame    length (4 bytes, little-endian), then that many bytes of message
 *   message  field 1: type (varint); field 2 and up: the fields below, each at most once, in any order
 *
 * The same frames go through TLS between coordinator and nodes, through a socket pair between driver and coordinator,
 * and through a pipe from a Spark task to the node that it starts. */
#ifndef TFOS_NET_MESSAGE_H
#define TFOS_NET_MESSAGE_H

#include "base/bytes.h"

/* The purpose of the control plane's TLS contexts. */
#define TFOS__LINK_PURPOSE "tfos control plane 1"

/* X(NAME, value, "who → whom: what for; fields"). */
#define TFOS__MESSAGE_MAP(X)                                                                                           \
    X(HELLO, 1, "node → coordinator, first: VERSION")                                                                  \
    X(REGISTER, 2, "node → coordinator: INDEX ATTEMPT HOST PORT CORES GPUS GPU_SOURCE PID EXECUTOR")                   \
    X(STATE, 3, "node → coordinator: STATE, PID of the child")                                                         \
    X(BEAT, 4, "node → coordinator: CPU_MS RSS_BYTES; coordinator → node: an answer, empty")                           \
    X(LOG, 5, "node → coordinator → driver: TEXT (whole lines) STREAM; to the driver also NODE HOST")                  \
    X(ENDED, 6, "node → coordinator: how the child ended: OUTCOME EXIT_CODE SIGNAL TEXT TAIL; what it was fed")        \
    X(TENSORBOARD, 7, "node → coordinator: URL PID")                                                                   \
    X(ASSIGN, 8, "coordinator → node: ROLE TASK SPEC GPUS BEAT_MS LEASE_MS NATIVE")                                    \
    X(STOP, 9, "coordinator → node, driver → coordinator: stop now: TEXT why, GRACE_MS until SIGTERM")                 \
    X(REFUSED, 10, "coordinator → peer: TEXT why; the connection ends")                                                \
    X(BYE, 11, "coordinator → node: ENDED has arrived, you may go; node → coordinator: I go")                          \
    X(OPEN, 12, "driver → coordinator, first: the cluster that is wanted")                                             \
    X(LISTENING, 13, "coordinator → driver: HOST PORT URL")                                                            \
    X(PROGRESS, 14, "coordinator → driver: COUNT of NODES, TEXT; producer → coordinator: ROWS fed, CONSUMED")          \
    X(READY, 15, "coordinator → driver: every node has its role: TEXT (JSON of nodes)")                                \
    X(FAILED, 16, "coordinator → driver: the first failure: NODE HOST OUTCOME EXIT_CODE SIGNAL TEXT TAIL")             \
    X(FINISH, 17, "driver → coordinator: end when the workers have: GRACE_MS for ps and evaluators")                   \
    X(OVER, 18, "coordinator → driver: every node is gone")                                                            \
    X(STATUS, 19, "driver → coordinator: asks; coordinator → driver: TEXT (JSON)")                                     \
    X(START, 20, "Spark task → node, through stdin: everything a node needs")                                          \
    X(NODE, 21, "coordinator → driver: a node changed: INDEX NODE HOST STATE URL")                                     \
    X(SLOTS, 22, "driver → coordinator: COUNT of task slots that Spark has now; TEXT: clusters that hold some")        \
    X(FEED, 23, "driver → coordinator: a feed opens: FEED QUEUE PARTITIONS FLAGS TIMEOUT_MS; back: FEED EPOCH TEXT")   \
    X(EPOCH, 24, "driver → coordinator → nodes: an epoch begins: FEED EPOCH")                                          \
    X(FEED_CLOSE, 25, "driver → coordinator → nodes: FEED is done with")                                               \
    X(END_OF_FEED, 26, "driver → coordinator → nodes: nothing more comes; with QUEUE: a program wants no more of it")  \
    X(ADMIT, 27, "producer → coordinator: FEED EPOCH PARTITION TASK_ATTEMPT HOST")                                     \
    X(ADMITTED, 28, "coordinator → producer: ADMISSION ROWS (fed already) QUEUE FLAGS NODES TEXT; or STATUS TEXT")     \
    X(EXHAUSTED, 29, "producer → coordinator: its last row is in a lane: ROWS of the partition")                       \
    X(COMPLETE, 30, "producer → coordinator: of inference: all results have come; back: noted")                        \
    X(UNFIT, 31, "producer → coordinator: a row that cannot be fed: STATUS TEXT")                                      \
    X(FENCE, 32, "coordinator → node: FEED EPOCH PARTITION TASK_ATTEMPT")                                              \
    X(FENCED, 33, "node → coordinator: the same, and ROWS that are fed")                                               \
    X(MARK, 34, "coordinator → node: every row of an epoch is in a lane: QUEUE, and COUNT of its marks so far")        \
    X(TERMINATE, 35, "node → coordinator: its program wants no more rows: QUEUE")                                      \
    X(HUNGRY, 36, "coordinator → producers: INDEX of a node, and COUNT: 1 it starves, 0 it does not")                  \
    X(SCHEMA, 37, "producer → coordinator → nodes: of the rows of FEED: QUEUE TEXT")                                   \
    X(LANE, 38, "producer → node elsewhere: FEED EPOCH PARTITION TASK_ATTEMPT QUEUE FEED_FLAGS; back: LANE_BYTES")     \
    X(BUSY, 39, "node → producer elsewhere: a lane comes later")                                                       \
    X(ENTRY, 40, "producer ↔ node elsewhere: an entry, or a result, of LANE_BYTES: PIECE, the first or the next")      \
    X(LANE_END, 41, "producer → node elsewhere: that was the last entry")                                              \
    X(LANE_STATE, 42, "node → producer elsewhere: LANE_BYTES committed, CREDIT, CONSUMED, COUNT: hungry, LANE_FLAGS")  \
    X(SETTLED, 43,                                                                                                     \
      "node → coordinator: FEED EPOCH PARTITION TASK_ATTEMPT of a lane: rows CONSUMED, SKIPPED; SEQUENCE")             \
    X(EPOCH_END, 44, "driver → coordinator: Spark's job of FEED EPOCH has ended well")                                 \
    X(READ_BY_ALL, 45, "coordinator → producers: every program that may read the queue does")

typedef enum tfos__message_type {
#define TFOS__MESSAGE_ENUM(name, value, text) TFOS__MESSAGE_##name = (value),
    TFOS__MESSAGE_MAP(TFOS__MESSAGE_ENUM)
#undef TFOS__MESSAGE_ENUM
} tfos__message_type;

/* X(NAME, field number, most bytes (0: it is a number)). Numbers are unsigned and 64 bits wide. */
#define TFOS__FIELD_MAP(X)                                                                                             \
    X(VERSION, 2, 64)                                                                                                  \
    X(INDEX, 3, 0)   /* of a node among the nodes: the partition of its task */                                        \
    X(ATTEMPT, 4, 0) /* how many times the cluster was restarted */                                                    \
    X(HOST, 5, 256)  /* the name or address by which others reach it */                                                \
    X(PORT, 6, 0)                                                                                                      \
    X(CORES, 7, 0)       /* of the task, for thread counts */                                                          \
    X(GPUS, 8, 4096)     /* "0,1": what is there, or what is given */                                                  \
    X(GPU_SOURCE, 9, 64) /* "spark", "nvidia-smi" or empty */                                                          \
    X(PID, 10, 0)                                                                                                      \
    X(EXECUTOR, 11, 256) /* Spark's name of the executor */                                                            \
    X(STATE, 12, 0)                                                                                                    \
    X(CPU_MS, 13, 0) /* used by the child and its children so far */                                                   \
    X(RSS_BYTES, 14, 0)                                                                                                \
    X(TEXT, 15, 1 << 20)                                                                                               \
    X(STREAM, 16, 0) /* 1: stdout, 2: stderr */                                                                        \
    X(NODE, 17, 64)  /* "worker:1" */                                                                                  \
    X(OUTCOME, 18, 0)                                                                                                  \
    X(EXIT_CODE, 19, 0)                                                                                                \
    X(SIGNAL, 20, 0)                                                                                                   \
    X(TAIL, 21, 1 << 16) /* the last log lines */                                                                      \
    X(URL, 22, 1024)                                                                                                   \
    X(ROLE, 23, 64)      /* "worker" */                                                                                \
    X(TASK, 24, 0)       /* 1 of "worker:1" */                                                                         \
    X(SPEC, 25, 1 << 20) /* {"worker": ["host:port", …], …} */                                                     \
    X(BEAT_MS, 26, 0)                                                                                                  \
    X(LEASE_MS, 27, 0)                                                                                                 \
    X(GRACE_MS, 28, 0)                                                                                                 \
    X(COUNT, 29, 0)                                                                                                    \
    X(NODES, 30, 0)                                                                                                    \
    X(KEY, 31, 32)      /* the cluster key; in OPEN and START alone */                                                 \
    X(PORT_LAST, 32, 0) /* OPEN: PORT to PORT_LAST are tried in turn */                                                \
    X(PS, 33, 0)                                                                                                       \
    X(MASTER, 34, 64) /* the name of the master's role, or absent */                                                   \
    X(EVALUATORS, 35, 0)                                                                                               \
    X(WORKER_GPUS, 36, 0) /* asked for by the user, plus one; absent: not asked */                                     \
    X(FLAGS, 37, 0)                                                                                                    \
    X(TIMEOUT_MS, 38, 0)                                                                                               \
    X(STATUS, 39, 0)                      /* a tfos_status */                                                          \
    X(CONTEXT, 40, 1 << 20)               /* START: JSON for the child, made by the driver */                          \
    X(SPARK, 41, 1 << 20)                 /* START: JSON for the child, made by the Spark task */                      \
    X(PROGRAM, 42, 1 << 16)               /* START: the child's command, words separated by NUL */                     \
    X(ENVIRONMENT, 43, 1 << 20)           /* START: NAME=value …, separated by NUL, for the child */                 \
    X(PAYLOAD, 44, INT32_MAX - (1 << 24)) /* START: bytes for the child, by memfd */                                   \
    X(WORK_FOLDER, 45, 4096)              /* START: where log files go */                                              \
    X(NATIVE, 46, 0)                      /* ASSIGN: 1 for a TensorFlow server instead of PROGRAM */                   \
    X(TENSORBOARD, 47,                                                                                                 \
      1 << 16)            /* START: TensorBoard's command, words separated by NUL; "{port}", "{host}" replaced */      \
    X(CLUSTER, 48, 64)    /* the cluster's name, for messages and file names */                                        \
    X(SEQUENCE, 49, 0)    /* of LOG and ENDED messages of a node, so that a repetition after a reconnect is known */   \
    X(REGISTERED, 50, 0)  /* REGISTER: 1 when this node was registered before and comes back */                        \
    X(NODE_HOST, 51, 256) /* START: the name or address by which others reach the node */                              \
    X(SETTINGS, 52, 1 << 16) /* START: key=value …, separated by NUL */                                              \
    X(STATUS_PORT, 53, 0)    /* OPEN: of the status page, as PORT and PORT_LAST */                                     \
    X(STATUS_PORT_LAST, 54, 0)                                                                                         \
    X(FEED, 55, 0) /* its number: the driver counts its calls of train and inference */                                \
    X(EPOCH, 56, 0)                                                                                                    \
    X(PARTITION, 57, 0)                                                                                                \
    X(PARTITIONS, 58, 0)                                                                                               \
    X(TASK_ATTEMPT, 59, 0) /* Spark's taskAttemptId */                                                                 \
    X(ROWS, 60, 0)                                                                                                     \
    X(CONSUMED, 61, 0)     /* BEAT: rows that the program has taken so far; ROWS: that were fed to it */               \
    X(QUEUE, 62, 63)       /* "input" */                                                                               \
    X(FEED_NAME, 63, 100)  /* REGISTER: the abstract Unix socket where producers get lanes */                          \
    X(FEED_PORT, 64, 0)    /* REGISTER: the same for producers on other hosts */                                       \
    X(ADMISSION, 65, 0)    /* a tfos__admission */                                                                     \
    X(MACHINE, 66, 64)     /* REGISTER, ADMIT: the boot id: who has another one shares no memory */                    \
    X(PLACES, 67, 1 << 20) /* ADMITTED: nodes to feed, as tfos__place lines */                                         \
    X(FEED_FLAGS, 68, 0)   /* of a feed: TFOS__FEED_… */                                                             \
    X(LANE_BYTES, 69, 0)   /* BEAT: memory of lanes; ENTRY: of the whole of it; LANE_STATE: since the beginning */     \
    X(PIECE, 70, 1 << 20)  /* ENTRY: bytes of it */                                                                    \
    X(LANE_FLAGS, 71, 0)   /* TFOS__LANE_… */                                                                        \
    X(SKIPPED, 72, 0)      /* BEAT: rows that were fed and never will be taken */                                      \
    X(CREDIT, 73, 0)       /* LANE_STATE: bytes, since the beginning, that there is room for */

typedef enum tfos__field {
#define TFOS__FIELD_ENUM(name, number, most) TFOS__FIELD_##name = (number),
    TFOS__FIELD_MAP(TFOS__FIELD_ENUM)
#undef TFOS__FIELD_ENUM
        TFOS__FIELD_END,
} tfos__field;

/* STATE. */
#define TFOS__NODE_STATE_MAP(X)                                                                                        \
    X(ABSENT, 0, "absent")                                                                                             \
    X(REGISTERED, 1, "registered")                                                                                     \
    X(STARTING, 2, "starting")                                                                                         \
    X(RUNNING, 3, "running")                                                                                           \
    X(STOPPING, 4, "stopping")                                                                                         \
    X(FINISHED, 5, "finished")                                                                                         \
    X(FAILED, 6, "failed")                                                                                             \
    X(LOST, 7, "lost")                                                                                                 \
    X(STOPPED, 8, "stopped")

typedef enum tfos__node_state {
#define TFOS__NODE_STATE_ENUM(name, value, text) TFOS__NODE_##name = (value),
    TFOS__NODE_STATE_MAP(TFOS__NODE_STATE_ENUM)
#undef TFOS__NODE_STATE_ENUM
} tfos__node_state;

const char *tfos__node_state_text(tfos__node_state state);

/* OUTCOME: how a child, or its node, ended. */
#define TFOS__OUTCOME_MAP(X)                                                                                           \
    X(FINISHED, 0, "finished")                                                                                         \
    X(RAISED, 1, "raised an exception")                                                                                \
    X(EXITED, 2, "exited with an error")                                                                               \
    X(KILLED, 3, "was killed by a signal")                                                                             \
    X(MEMORY, 4, "was killed by the memory limit")                                                                     \
    X(NOT_STARTED, 5, "could not be started")                                                                          \
    X(EXECUTOR_LOST, 6, "lost its executor")                                                                           \
    X(NODE_LOST, 7, "disappeared")                                                                                     \
    X(LEASE_EXPIRED, 8, "stopped answering")                                                                           \
    X(CANCELLED, 9, "had its Spark task cancelled")                                                                    \
    X(STOPPED, 10, "was stopped")                                                                                      \
    X(GPUS, 11, "has too few GPUs")                                                                                    \
    X(TIMED_OUT, 12, "did not come in time")

typedef enum tfos__outcome {
#define TFOS__OUTCOME_ENUM(name, value, text) TFOS__OUTCOME_##name = (value),
    TFOS__OUTCOME_MAP(TFOS__OUTCOME_ENUM)
#undef TFOS__OUTCOME_ENUM
} tfos__outcome;

const char *tfos__outcome_text(tfos__outcome outcome);

/* "executor_lost": one word, for programs. */
const char *tfos__outcome_name(tfos__outcome outcome);

/* FLAGS of OPEN and START. */
enum {
    TFOS__FLAG_BARRIER = 1,        /* nobody starts before all have come */
    TFOS__FLAG_TENSORFLOW = 2,     /* InputMode.TENSORFLOW: the task lasts as long as its node */
    TFOS__FLAG_NATIVE_PS = 4,      /* ps nodes are TensorFlow servers without Python */
    TFOS__FLAG_NATIVE_WORKERS = 8, /* … and workers */
    TFOS__FLAG_KEEP_PORT = 16,     /* the child asks for its port by itself (release_port=False) */
    TFOS__FLAG_PARALLEL = 32,      /* independent nodes: no cluster spec, no ports */
    TFOS__FLAG_DRIVER = 64,        /* START: the node is a child of the driver (driver_ps_nodes) */
};

/* FEED_FLAGS. */
enum {
    TFOS__FEED_INFERENCE = 1,   /* a result comes back for each row */
    TFOS__FEED_DETERMINATE = 2, /* a partition is computed in the same order every time */
    TFOS__FEED_AGAIN = 4,       /* otherwise: it may be fed again from the beginning */
    TFOS__FEED_HELD_BACK = 8,   /* ADMITTED: READ_BY_ALL is yet to come */
};

/* LANE_FLAGS. */
enum {
    TFOS__LANE_GIVEN_UP = 1,    /* the program takes nothing more */
    TFOS__LANE_FENCED = 2,      /* another attempt goes on with the partition */
    TFOS__LANE_RESULTS_OVER = 4 /* no more results come */
};

/* Most bytes of a frame, by what carries it. */
enum {
    TFOS__FRAME_BYTES = 4 << 20,         /* control messages */
    TFOS__FRAME_START_BYTES = INT32_MAX, /* START, which brings the user's function */
};

typedef struct tfos__text {
    const char *at; /* not terminated; NULL when absent */
    size_t count;
} tfos__text;

/* A decoded message: its texts point into the frame it came from. */
typedef struct tfos__message {
    tfos__message_type type;
    uint64_t present[2]; /* a bit for each field number */
    union {
        uint64_t number;
        tfos__text text;
    } field[TFOS__FIELD_END];
} tfos__message;

void tfos__message_init(tfos__message *message, tfos__message_type type);
void tfos__message_put_number(tfos__message *message, tfos__field field, uint64_t number);

/* The bytes are not copied: they must live until the message has been encoded. More bytes than the field may have are
 * a fault of the program. */
void tfos__message_put_text(tfos__message *message, tfos__field field, const char *text, size_t count);
void tfos__message_put_string(tfos__message *message, tfos__field field, const char *text);

bool tfos__message_has(const tfos__message *message, tfos__field field);

/* 0 and the empty text when absent. */
uint64_t tfos__message_number(const tfos__message *message, tfos__field field);
tfos__text tfos__message_text(const tfos__message *message, tfos__field field);

/* A copy that is terminated and at most `bytes` long with its end, cut if need be; NULs inside end it. */
const char *tfos__message_copy(const tfos__message *message, tfos__field field, char *to, size_t bytes);

/* A copy on the heap; NULL when memory is short. The caller frees it. */
char *tfos__message_duplicate(const tfos__message *message, tfos__field field);

/* Appends a whole frame. */
tfos_status tfos__message_encode(const tfos__message *message, tfos__buffer *out, tfos_error *error);

/* Decodes the message of a frame, without its length. CORRUPT or LIMIT for nonsense. A type that is not known is
 * UNSUPPORTED. */
tfos_status tfos__message_decode(const void *bytes, size_t count, tfos__message *out, tfos_error *error);

/* "worker:1". */
void tfos__node_name(const char *role, uint64_t task, char out[64]);

#endif
