/* Settings: one table of everything that a user may set without naming it in a call. */
#ifndef TFOS_BASE_CONFIG_H
#define TFOS_BASE_CONFIG_H

#include "tfos.h"

/* X(NAME, key, default, least, most, sentence). The environment variable is TFOS_ and NAME. */
#define TFOS__SETTING_MAP(X)                                                                                           \
    X(RECORDS_BATCH_ROWS, "records.batch_rows", 1024, 1, 1 << 24, "Most rows of a batch that a reader hands out.")     \
    X(RECORDS_BATCH_BYTES, "records.batch_bytes", 16 << 20, 1, 1 << 30,                                                \
      "A batch ends once its records have this many bytes, whatever their number.")                                    \
    X(RECORDS_THREADS, "records.threads", -1, -1, 256,                                                                 \
      "Threads that read and parse: -1 for one per core, 0 for the calling thread alone.")                             \
    X(RECORDS_KEEP_BYTES, "records.keep_bytes", 128 << 20, 0, (int64_t)1 << 40,                                        \
      "Without a schema, records are read while it is inferred if their batches take up to so many bytes, which are "  \
      "kept until they are asked for. Otherwise files are read twice.")                                                \
    X(FS_AHEAD_BYTES, "fs.ahead_bytes", 4 << 20, 0, 1 << 30,                                                           \
      "Bytes that are read ahead of the parser, of each open file that is not local; 0: none.")                        \
    X(CLUSTER_BEAT_MS, "cluster.beat_ms", 1000, 10, 60000, "Milliseconds between the heartbeats of a node.")           \
    X(CLUSTER_LEASE_MS, "cluster.lease_ms", 30000, 100, 3600000,                                                       \
      "A node that was not heard of for so many milliseconds is lost; a node that hears nothing ends itself.")         \
    X(CLUSTER_HANDSHAKE_MS, "cluster.handshake_ms", 10000, 100, 600000,                                                \
      "Milliseconds that a connection may take to show that it has the cluster key and say who it is.")                \
    X(NODE_KILL_MS, "node.kill_ms", 3000, 0, 600000,                                                                   \
      "Milliseconds from SIGTERM to SIGKILL when a node stops its child.")                                             \
    X(NODE_LOG_LINES, "node.log_lines_per_second", 200, 1, 1000000,                                                    \
      "Lines of a child's output that a node passes on to the driver each second; five times as many at once.")        \
    X(NODE_LOG_BYTES, "node.log_file_bytes", 16 << 20, 4096, INT64_C(1) << 40,                                         \
      "Bytes after which a node begins another log file.")                                                             \
    X(NODE_LOG_FILES, "node.log_files", 4, 1, 1000, "Log files that a node keeps, the current one among them.")        \
    X(NODE_RESULT_BYTES, "node.result_bytes", 4 << 20, 0, 1 << 30,                                                     \
      "Bytes of the value that a program may return to the driver, pickled; what is larger belongs in a file.")        \
    X(NODE_REPORT_MS, "node.report_ms", 1000, 10, 3600000,                                                             \
      "Milliseconds between two reports of its program's progress that a node passes on; the newest counts.")          \
    X(FEED_LANE_BYTES, "feed.lane_bytes", 8 << 20, 64 << 10, 1 << 30,                                                  \
      "Bytes of a lane, through which one Spark task feeds one node. A row must fit.")                                 \
    X(FEED_MEMORY_BYTES, "feed.memory_bytes", 64 << 20, 64 << 10, INT64_C(1) << 40,                                    \
      "Bytes of all lanes of a node; tasks that find no room wait, or feed other nodes.")                              \
    X(FEED_BATCH_BYTES, "feed.batch_bytes", 256 << 10, 1 << 10, 1 << 28,                                               \
      "Bytes that a Spark task puts into a lane at a time, at most.")                                                  \
    X(FEED_LOCAL, "feed.local", 1 << 20, 0, 1 << 20,                                                                   \
      "Nodes of its machine that a Spark task shares memory with, at most; others are fed over the network.")          \
    X(COLLECTIVE_TIMEOUT_MS, "collective.timeout_ms", 600000, 100, INT64_C(1) << 40,                                   \
      "Milliseconds that workers wait for one of them that lives and does not come to what they compute together.")    \
    X(COLLECTIVE_PIECE_BYTES, "collective.piece_bytes", 256 << 10, 4 << 10, 64 << 20,                                  \
      "Bytes of the pieces in which workers of one machine pass tensors to each other; each shares two of them.")      \
    X(COLLECTIVE_SHARED, "collective.shared", 1, 0, 1,                                                                 \
      "0 makes workers of one machine use the network, as those of different machines do.")                            \
    X(MODEL_IDLE_MS, "model.idle_ms", 60000, 0, INT64_C(1) << 40,                                                      \
      "Milliseconds for which the process of a model, beside an executor, waits for another task before it ends.")     \
    X(MODEL_MEMORY_BYTES, "model.memory_bytes", 0, 0, INT64_C(1) << 50,                                                \
      "Bytes of memory that the process of a model may have; 0: as much as the machine gives it.")                     \
    X(MODEL_THREADS, "model.threads", 0, 0, 1024,                                                                      \
      "Threads that one op of a model may use, in each task; 0: as many as a task has cores (spark.task.cpus).")       \
    X(NODE_PIDFD, "node.pidfd", 1, 0, 1,                                                                               \
      "0 makes a node watch its executor by asking five times a second, as on kernels without pidfd_open.")

/* X(NAME, key, form, sentence): settings that are texts. They have no default: what is not set is decided where it is
 * used. */
#define TFOS__TEXT_SETTING_MAP(X)                                                                                      \
    X(SERVER_HOST, "server.host", "a host name or address",                                                            \
      "Where nodes reach the coordinator; by default the address that Spark advertises for the driver.")               \
    X(SERVER_PORT, "server.port", "a port, or a range such as 9997-9999",                                              \
      "Ports that the coordinator tries in turn; by default any that is free.")                                        \
    X(STATUS_PORT, "status.port", "a port, or a range such as 9997-9999",                                              \
      "Ports that the status page tries in turn; by default any that is free.")                                        \
    X(FEED_PORT, "feed.port", "a port, or a range such as 9997-9999",                                                  \
      "Ports that a node tries in turn, to be fed by Spark tasks of other hosts; by default any that is free.")        \
    X(COLLECTIVE_PORT, "collective.port", "a port, or a range such as 9997-9999",                                      \
      "Ports that a worker tries in turn, to compute with those of other hosts; by default any that is free.")         \
    X(TENSORFLOW_LIB, "tensorflow.lib", "a file or a folder",                                                          \
      "TensorFlow's library, or the folder that has it; by default it is looked for, see docs/ps.md.")                 \
    X(TENSORFLOW_SHIP, "tensorflow.ship", "auto, always or never",                                                     \
      "Whether executors get the driver's TensorFlow: by default, auto, those that have none; see docs/pipeline.md.")  \
    X(TENSORFLOW_CACHE, "tensorflow.cache", "a folder",                                                                \
      "Where a host keeps TensorFlow as the driver has brought it; by default below /var/tmp, or /tmp.")

typedef enum tfos__setting {
#define TFOS__SETTING_ENUM(name, key, fallback, least, most, text) TFOS__SETTING_##name,
    TFOS__SETTING_MAP(TFOS__SETTING_ENUM)
#undef TFOS__SETTING_ENUM
        TFOS__SETTING_NUMBERS, /* how many there are; texts follow */
    TFOS__SETTING_BEFORE_TEXTS = TFOS__SETTING_NUMBERS - 1,
#define TFOS__TEXT_SETTING_ENUM(name, key, form, text) TFOS__SETTING_##name,
    TFOS__TEXT_SETTING_MAP(TFOS__TEXT_SETTING_ENUM)
#undef TFOS__TEXT_SETTING_ENUM
} tfos__setting;

/* The value of a setting: `given` if it is not `unset`, else the environment's, else the default. INVALID if it is out
 * of bounds, naming the variable or the option. */
tfos_status tfos__setting_choose(tfos__setting setting, int64_t given, int64_t unset, int64_t *out, tfos_error *error);

/* The value of a text: that of the last key=value in `given` (NULL-terminated, or NULL), else the environment's; NULL
 * or empty when it is not set. */
const char *tfos__setting_text(tfos__setting setting, const char *const *given);

/* The same for a number, checked and with its default. */
tfos_status tfos__setting_number(tfos__setting setting, const char *const *given, int64_t *out, tfos_error *error);

/* Checks `key=value` against the table: INVALID for an unknown key, a value that is no number where one is wanted, or
 * one out of bounds. */
tfos_status tfos__setting_check(const char *assignment, size_t count, tfos_error *error);

/* The same, and sets the environment variable of the setting, for this process and its children. */
tfos_status tfos__setting_assign(const char *assignment, size_t count, tfos_error *error);

#endif
