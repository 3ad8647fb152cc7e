/* Messages: what the driver, the coordinator, the nodes and the producers say to each other. Which there are, and what
 * each of them has, is in message_map.h.
 *
 * One shape for all of them: a type and a bag of fields, each a number or bytes. So there is one encoder, one decoder
 * and one fuzz target. The same frames go through TLS between hosts, through a socket pair between driver and
 * coordinator, and through a pipe from a Spark task to the node that it starts. */
#ifndef TFOS_NET_MESSAGE_H
#define TFOS_NET_MESSAGE_H

#include "base/bytes.h"
#include "net/message_map.h"

/* The purpose of the control plane's TLS contexts. */
#define TFOS__LINK_PURPOSE "tfos control plane 1"

typedef enum tfos__message_type {
#define TFOS__MESSAGE_ENUM(name, value, way, what, needs, may) TFOS__MESSAGE_##name = (value),
#define TFOS__NO_FIELD(name)
    TFOS__MESSAGE_MAP(TFOS__MESSAGE_ENUM, TFOS__NO_FIELD)
#undef TFOS__NO_FIELD
#undef TFOS__MESSAGE_ENUM
} tfos__message_type;

typedef enum tfos__field {
#define TFOS__FIELD_ENUM(name, number, most, text) TFOS__FIELD_##name = (number),
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
    X(TIMED_OUT, 12, "did not come in time")                                                                           \
    X(STALLED, 13, "stood still")

typedef enum tfos__outcome {
#define TFOS__OUTCOME_ENUM(name, value, text) TFOS__OUTCOME_##name = (value),
    TFOS__OUTCOME_MAP(TFOS__OUTCOME_ENUM)
#undef TFOS__OUTCOME_ENUM
} tfos__outcome;

const char *tfos__outcome_text(tfos__outcome outcome);

/* "executor_lost": one word, for programs. */
const char *tfos__outcome_name(tfos__outcome outcome);

/* FLAGS. */
enum {
    TFOS__FLAG_BARRIER = 1,        /* nobody starts before all have come */
    TFOS__FLAG_TENSORFLOW = 2,     /* InputMode.TENSORFLOW: the task lasts as long as its node */
    TFOS__FLAG_NATIVE_PS = 4,      /* ps nodes are TensorFlow servers without Python */
    TFOS__FLAG_NATIVE_WORKERS = 8, /* … and workers */
    TFOS__FLAG_KEEP_PORT = 16,     /* the child asks for its port by itself (release_port=False) */
    TFOS__FLAG_PARALLEL = 32,      /* independent nodes: no cluster spec, no ports */
    TFOS__FLAG_DRIVER = 64,        /* the node is a child of the driver (driver_ps_nodes) */
};

/* FEED_FLAGS. */
enum {
    TFOS__FEED_INFERENCE = 1,   /* a result comes back for each row */
    TFOS__FEED_DETERMINATE = 2, /* a partition is computed in the same order every time */
    TFOS__FEED_AGAIN = 4,       /* otherwise: it may be fed again from the beginning */
    TFOS__FEED_HELD_BACK = 8,   /* GRANTED: READ_BY_ALL is yet to come */
};

/* LANE_FLAGS. */
enum {
    TFOS__LANE_GIVEN_UP = 1,    /* the program takes nothing more */
    TFOS__LANE_FENCED = 2,      /* another attempt goes on with the partition */
    TFOS__LANE_RESULTS_OVER = 4 /* no more results come */
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

/* The name of a type, for messages: "REGISTER". */
const char *tfos__message_name(tfos__message_type type);

void tfos__message_init(tfos__message *message, tfos__message_type type);

/* A field that is not one of the type's, or more bytes than it may have, is a fault of the program. The bytes are not
 * copied: they must live until the message has been encoded. */
void tfos__message_put_number(tfos__message *message, tfos__field field, uint64_t number);
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

/* STATUS, FAULT and TEXT, as far as the type has them. What comes from elsewhere and is no error, is CANCELLED. */
void tfos__message_put_error(tfos__message *message, const tfos_error *error);
void tfos__message_error(const tfos__message *message, tfos_error *out);

/* Appends the message, without a length. INVALID: it lacks a field that its type must have. */
tfos_status tfos__message_encode(const tfos__message *message, tfos__buffer *out, tfos_error *error);

/* CORRUPT or LIMIT for nonsense, for a field that is missing, and for one that is not the type's. A type that is not
 * known is UNSUPPORTED. */
tfos_status tfos__message_decode(const void *bytes, size_t count, tfos__message *out, tfos_error *error);

/* "worker:1". */
void tfos__node_name(const char *role, uint64_t task, char out[64]);

#endif
