/* The protocol: every field, and every message with the fields that it has. The encoder, the decoder, the checks and
 * the page docs/protocol.md are made of these two tables; nobody else says what a message may have.
 *
 *   frame    length (4 bytes, little-endian), then that many bytes of message
 *   message  protobuf wire format: field 1, the type, then the fields of that type, each at most once
 *
 * A field means one thing, whichever message has it. A message that lacks a field, or has one that is not its own, is
 * refused: both ends are of the same version, which they compare first. So HELLO and REFUSED, by which they do, stay as
 * they are for ever, and so do the numbers of their fields; everything else may change with the version. */
#ifndef TFOS_NET_MESSAGE_MAP_H
#define TFOS_NET_MESSAGE_MAP_H

/* X(NAME, number, most bytes (0: it is a number, unsigned and 64 bits wide), "what it is"). */
#define TFOS__FIELD_MAP(X)                                                                                             \
    X(VERSION, 2, 64, "of tfos, as in TFOS_VERSION")                                                                   \
    X(INDEX, 3, 0, "of a node among the nodes of the cluster")                                                         \
    X(ATTEMPT, 4, 0, "how many times the cluster was restarted")                                                       \
    X(HOST, 5, 256, "the name or address by which others reach the one that the message is about")                     \
    X(PORT, 6, 0, "at HOST; in OPEN the first that is tried, in MEET and MEMBER 0 for none")                           \
    X(PORT_LAST, 7, 0, "that is tried")                                                                                \
    X(STATUS_PORT, 8, 0, "of the status page, the first that is tried")                                                \
    X(STATUS_PORT_LAST, 9, 0, "that is tried")                                                                         \
    X(MACHINE, 10, 64, "the kernel's boot id: who has another one shares no memory")                                   \
    X(KEY, 11, 32, "the cluster key")                                                                                  \
    X(CLUSTER, 12, 64, "the name of the cluster, for messages and file names")                                         \
    X(FLAGS, 13, 0, "of the cluster: TFOS__FLAG_…")                                                                    \
    X(SETTINGS, 14, 1 << 16, "key=value, separated by NUL")                                                            \
    X(BEAT_MS, 15, 0, "between two heartbeats")                                                                        \
    X(LEASE_MS, 16, 0, "of silence, after which somebody is lost")                                                     \
    X(GRACE_MS, 17, 0, "until SIGTERM")                                                                                \
    X(RESERVATION_MS, 18, 0, "in which every node must come")                                                          \
    X(FEED_TIMEOUT_MS, 19, 0, "in which rows must move; 0: as long as it takes")                                       \
    X(NODES, 20, 0, "that the cluster has")                                                                            \
    X(NODES_HERE, 21, 0, "that have come")                                                                             \
    X(PS, 22, 0, "parameter servers among them")                                                                       \
    X(EVALUATORS, 23, 0, "among them")                                                                                 \
    X(MASTER, 24, 64, "the name of the master's role, or empty")                                                       \
    X(WORKER_GPUS, 25, 0, "that each worker is to have, plus one; 0: not asked for")                                   \
    X(CORES, 26, 0, "of the task, for thread counts")                                                                  \
    X(GPUS, 27, 4096, "that are there: \"0,1\"")                                                                       \
    X(GPU_SOURCE, 28, 64, "who says so: \"spark\", \"nvidia-smi\" or empty")                                           \
    X(GIVEN_GPUS, 29, 4096, "that a node may use: \"0,1\"")                                                            \
    X(EXECUTOR, 30, 256, "Spark's name of the executor")                                                               \
    X(EXECUTOR_PID, 31, 0, "of the process that the node dies with; 0: not known")                                     \
    X(NODE_PID, 32, 0, "of the process `tfos node`")                                                                   \
    X(CHILD_PID, 33, 0, "of its program")                                                                              \
    X(TENSORBOARD_PID, 34, 0, "")                                                                                      \
    X(TENSORBOARD_URL, 35, 1024, "")                                                                                   \
    X(STATUS_URL, 36, 1024, "of the status page, with its token")                                                      \
    X(RETURNS, 37, 0, "1: the node was registered before")                                                             \
    X(STATE, 38, 0, "of a node: TFOS__NODE_…")                                                                         \
    X(ROLE, 39, 64, "\"worker\"")                                                                                      \
    X(TASK, 40, 0, "1 of \"worker:1\"")                                                                                \
    X(NODE, 41, 64, "\"worker:1\"")                                                                                    \
    X(SPEC, 42, 1 << 20, "{\"worker\": [\"host:port\", …], …}")                                                        \
    X(NATIVE, 43, 0, "1: a TensorFlow server instead of PROGRAM")                                                      \
    X(CPU_MS, 44, 0, "used by the program and its children so far")                                                    \
    X(RSS_BYTES, 45, 0, "of memory that they use")                                                                     \
    X(TEXT, 46, 1 << 20, "for people")                                                                                 \
    X(TAIL, 47, 1 << 16, "the last lines of a log")                                                                    \
    X(STREAM, 48, 0, "1: stdout, 2: stderr")                                                                           \
    X(SEQUENCE, 49, 0, "of what must arrive once, so that a repetition after a reconnect is known")                    \
    X(OUTCOME, 50, 0, "how it ended: TFOS__OUTCOME_…")                                                                 \
    X(EXIT_CODE, 51, 0, "")                                                                                            \
    X(SIGNAL, 52, 0, "")                                                                                               \
    X(JSON, 53, 1 << 20, "a document")                                                                                 \
    X(STATUS, 54, 0, "a tfos_status")                                                                                  \
    X(SLOTS, 55, 0, "for tasks that Spark has now")                                                                    \
    X(HOLDERS, 56, 1 << 10, "other clusters that hold some of them, for people")                                       \
    X(CONTEXT, 57, 1 << 20, "JSON for the program, made by the driver")                                                \
    X(SPARK, 58, 1 << 20, "JSON for the program, made by the Spark task")                                              \
    X(PROGRAM, 59, 1 << 16, "the command, words separated by NUL")                                                     \
    X(ENVIRONMENT, 60, 1 << 20, "of the program: NAME=value, separated by NUL; the task's comes before the driver's")  \
    X(TENSORBOARD, 61, 1 << 16, "the command, words separated by NUL; {port} and {host} are replaced")                 \
    X(PAYLOAD, 62, INT32_MAX - (1 << 24), "bytes for the program")                                                     \
    X(WORK_FOLDER, 63, 4096, "where log files go")                                                                     \
    X(FEED, 64, 0, "its number: a driver counts its calls of train and inference")                                     \
    X(EPOCH, 65, 0, "from 0")                                                                                          \
    X(PARTITION, 66, 0, "")                                                                                            \
    X(TASK_ATTEMPT, 67, 0, "Spark's taskAttemptId")                                                                    \
    X(PARTITIONS, 68, 0, "that a feed has")                                                                            \
    X(QUEUE, 69, 63, "its name: \"input\"")                                                                            \
    X(QUEUES, 70, 1024, "that the program reads: \",input,\"")                                                         \
    X(FEED_FLAGS, 71, 0, "TFOS__FEED_…")                                                                               \
    X(FEED_STATE, 72, 0, "a tfos_feed_state")                                                                          \
    X(FEED_NAME, 73, 100, "the abstract Unix socket where producers get lanes")                                        \
    X(FEED_PORT, 74, 0, "the same for producers on other hosts; 0: there is none")                                     \
    X(PLACES, 75, 1 << 20, "nodes to feed: frames of PLACE, one after the other")                                      \
    X(ADMISSION, 76, 0, "TFOS__ADMISSION_…")                                                                           \
    X(ROWS, 77, 0, "of the whole partition")                                                                           \
    X(FED_BEFORE, 78, 0, "rows of the partition before this one were fed")                                             \
    X(FED, 79, 0, "rows, so far, by the one that says so, or to it")                                                   \
    X(CONSUMED, 80, 0, "rows of these that a program has taken")                                                       \
    X(SKIPPED, 81, 0, "rows of these that no program will take")                                                       \
    X(HUNGRY, 82, 0, "1: the program wants rows and has none")                                                         \
    X(TERMINATED, 83, 0, "1: a program has said that it wants no more")                                                \
    X(ENDED, 84, 0, "1: the program has ended")                                                                        \
    X(MARKS, 85, 0, "ends of epochs of a queue, so far")                                                               \
    X(SCHEMA, 86, 1 << 20, "of rows, JSON")                                                                            \
    X(LANE_MEMORY, 87, 0, "bytes of all lanes of a node")                                                              \
    X(LANE_BYTES, 88, 0, "of the ring of a lane")                                                                      \
    X(LANE_FLAGS, 89, 0, "TFOS__LANE_…")                                                                               \
    X(ENTRY_BYTES, 90, 0, "of the whole entry")                                                                        \
    X(PIECE, 91, 1 << 20, "the next bytes of it")                                                                      \
    X(COMMITTED, 92, 0, "bytes since the beginning that are in the node's lane")                                       \
    X(CREDIT, 93, 0, "bytes since the beginning that the sender has room for")                                         \
    X(FAULT, 94, 0, "a tfos_fault")                                                                                    \
    X(MEETING, 95, 0, "how often the workers have met before")                                                         \
    X(WAIT_MS, 96, 0, "how long others are waited for")                                                                \
    X(SHARES, 97, 128, "who says the same can share memory")                                                           \
    X(BOARD_NAME, 98, 100, "the abstract Unix socket where workers that share memory get their board")                 \
    X(MEMBERS, 99, 1 << 20, "workers, in the order of their ranks: frames of MEMBER, one after the other")             \
    X(RANK, 100, 0, "of a worker among those that compute together")                                                   \
    X(GROUP_KEY, 101, 32, "made of the cluster key, for workers among themselves")                                     \
    X(HEAD_BYTES, 110, 0, "of a result: of JSON in front of the value: {\"history\": {…}, \"problem\": \"…\"}")        \
    X(VALUE_BYTES, 111, 0, "of a result: of what the program returned, pickled")                                       \
    X(OFFSET, 112, 0, "of a result: bytes before this piece, or that have arrived")                                    \
    X(ALL_GPUS, 113, 0, "that all workers together are to have")

/* An attempt to feed a partition. */
#define TFOS__ATTEMPT_FIELDS(F) F(FEED) F(EPOCH) F(PARTITION) F(TASK_ATTEMPT)

/* X(NAME, value, "who → whom", "what for", fields that it must have, fields that it may have). */
#define TFOS__MESSAGE_MAP(X, F)                                                                                        \
    X(HELLO, 1, "node, producer → coordinator", "the first word", F(VERSION), )                                        \
    X(REGISTER, 2, "node → coordinator", "here is a node",                                                             \
      F(INDEX) F(ATTEMPT) F(HOST) F(PORT) F(CORES) F(GPUS) F(GPU_SOURCE) F(NODE_PID) F(EXECUTOR) F(RETURNS),           \
      F(FEED_NAME) F(FEED_PORT) F(MACHINE))                                                                            \
    X(STATE, 3, "node → coordinator", "it changed", F(STATE), F(CHILD_PID))                                            \
    X(BEAT, 4, "node → coordinator", "it lives", F(CPU_MS) F(RSS_BYTES),                                               \
      F(FED) F(CONSUMED) F(SKIPPED) F(LANE_MEMORY) F(HUNGRY) F(QUEUES))                                                \
    X(ALIVE, 5, "coordinator → node, driver", "so does the coordinator; it has heard the last BEAT", , )               \
    X(LOG, 6, "node → coordinator", "whole lines of output", F(TEXT) F(STREAM) F(SEQUENCE), )                          \
    X(ENDED, 7, "node → coordinator", "how the program ended, and what it was fed",                                    \
      F(OUTCOME) F(TEXT) F(TAIL) F(SEQUENCE), F(EXIT_CODE) F(SIGNAL) F(FED) F(CONSUMED) F(SKIPPED))                    \
    X(TENSORBOARD, 8, "node → coordinator", "it runs", F(TENSORBOARD_URL) F(TENSORBOARD_PID), )                        \
    X(ASSIGN, 9, "coordinator → node", "what to be",                                                                   \
      F(ROLE) F(TASK) F(SPEC) F(NODES) F(BEAT_MS) F(LEASE_MS) F(NATIVE), F(GIVEN_GPUS))                                \
    X(STOP, 10, "coordinator → node; driver → coordinator", "stop now, and why", F(TEXT), F(GRACE_MS))                 \
    X(REFUSED, 11, "coordinator → anybody", "why; the connection ends", F(TEXT), F(STATUS))                            \
    X(BYE, 12, "coordinator → node: ENDED has arrived; node → coordinator", "good-bye", , )                            \
    X(OPEN, 13, "driver → coordinator", "the first word: the cluster that is wanted",                                  \
      F(KEY) F(CLUSTER) F(HOST) F(PORT) F(PORT_LAST) F(STATUS_PORT) F(STATUS_PORT_LAST) F(NODES) F(PS) F(MASTER)       \
          F(EVALUATORS) F(WORKER_GPUS) F(FLAGS) F(ATTEMPT) F(RESERVATION_MS) F(BEAT_MS) F(LEASE_MS) F(SETTINGS),       \
      F(ALL_GPUS))                                                                                                     \
    X(LISTENING, 14, "coordinator → driver", "the answer to OPEN", F(HOST) F(PORT) F(STATUS_URL), )                    \
    X(PROGRESS, 15, "coordinator → driver", "nodes come", F(NODES_HERE) F(NODES) F(TEXT), )                            \
    X(READY, 16, "coordinator → driver", "every node has its role", F(JSON), )                                         \
    X(OUTPUT, 17, "coordinator → driver", "of a node, or of the coordinator itself", F(NODE) F(HOST) F(TEXT),          \
      F(INDEX) F(STREAM))                                                                                              \
    X(NODE, 18, "coordinator → driver", "a node changed; how it ended, if it has", F(INDEX) F(NODE) F(HOST) F(STATE),  \
      F(TENSORBOARD_URL) F(TENSORBOARD_PID) F(TEXT))                                                                   \
    X(FAILED, 19, "coordinator → driver", "the first failure", F(NODE) F(OUTCOME) F(TEXT),                             \
      F(INDEX) F(HOST) F(EXIT_CODE) F(SIGNAL) F(TAIL))                                                                 \
    X(FINISH, 20, "driver → coordinator", "end when the workers have", F(GRACE_MS), )                                  \
    X(OVER, 21, "coordinator → driver", "every node is gone", , )                                                      \
    X(ASK_STATUS, 22, "driver → coordinator", "how is it?", , )                                                        \
    X(STATUS, 23, "coordinator → driver", "the answer", F(JSON), )                                                     \
    X(SLOTS, 24, "driver → coordinator", "Spark has so many", F(SLOTS), F(HOLDERS))                                    \
    X(TICKET, 25, "driver → Spark task → node, through stdin", "the cluster, for whoever starts a node",               \
      F(KEY) F(CLUSTER) F(HOST) F(PORT) F(FLAGS) F(ATTEMPT) F(BEAT_MS) F(LEASE_MS) F(CONTEXT) F(PAYLOAD),              \
      F(PROGRAM) F(ENVIRONMENT) F(TENSORBOARD) F(SETTINGS))                                                            \
    X(START, 26, "Spark task → node, behind the TICKET", "what only the executor knows",                               \
      F(INDEX) F(HOST) F(EXECUTOR) F(EXECUTOR_PID) F(CORES) F(WORK_FOLDER),                                            \
      F(GPUS) F(GPU_SOURCE) F(SPARK) F(ENVIRONMENT))                                                                   \
    X(FEED, 30, "driver → coordinator", "a feed opens",                                                                \
      F(FEED) F(QUEUE) F(PARTITIONS) F(FEED_TIMEOUT_MS) F(FEED_FLAGS), )                                               \
    X(EPOCH, 31, "driver → coordinator → nodes", "an epoch begins", F(FEED) F(EPOCH), )                                \
    X(EPOCH_END, 32, "driver → coordinator", "Spark's job of the epoch has ended well", F(FEED) F(EPOCH), )            \
    X(FEED_CLOSE, 33, "driver → coordinator → nodes", "the feed is done with", F(FEED), )                              \
    X(END_OF_FEED, 34, "driver → coordinator → nodes", "nothing more comes, in any queue", , )                         \
    X(QUEUE_END, 35, "coordinator → nodes", "a program wants no more of a queue", F(QUEUE), )                          \
    X(FEED_STATE, 36, "coordinator → driver", "a feed has come so far", F(FEED) F(EPOCH) F(FEED_STATE),                \
      F(STATUS) F(FAULT) F(TEXT))                                                                                      \
    X(FEED_TICKET, 37, "driver → Spark task", "for whoever feeds", F(KEY) F(HOST) F(PORT) F(FEED) F(EPOCH),            \
      F(SETTINGS))                                                                                                     \
    X(ADMIT, 38, "producer → coordinator", "behind HELLO: may it feed?", TFOS__ATTEMPT_FIELDS(F) F(MACHINE), F(HOST))  \
    X(GRANTED, 39, "coordinator → producer", "it may",                                                                 \
      F(FED_BEFORE) F(QUEUE) F(FEED_FLAGS) F(FEED_TIMEOUT_MS) F(PLACES), )                                             \
    X(PLACE, 40, "coordinator → producer, inside GRANTED", "a node to feed",                                           \
      F(INDEX) F(HOST) F(FEED_NAME) F(FEED_PORT) F(HUNGRY), )                                                          \
    X(DISMISSED, 41, "coordinator → producer", "nothing is left to do here, or nothing can be done", F(ADMISSION),     \
      F(STATUS) F(FAULT) F(TEXT))                                                                                      \
    X(FEED_OVER, 42, "coordinator → producers", "the feed wants no more", F(TERMINATED), )                             \
    X(FED, 43, "producer → coordinator", "how far it is", F(FED) F(CONSUMED), )                                        \
    X(EXHAUSTED, 44, "producer → coordinator", "its last row is in a lane", F(ROWS), )                                 \
    X(COMPLETE, 45, "producer → coordinator", "of inference: all results have come", , )                               \
    X(NOTED, 46, "coordinator → producer", "the answer to COMPLETE", , )                                               \
    X(GAVE_UP, 47, "producer → coordinator", "why it leaves; unless another attempt may help, the feed fails",         \
      F(STATUS) F(FAULT) F(TEXT), )                                                                                    \
    X(SCHEMA, 48, "producer → coordinator", "of its rows", F(SCHEMA), )                                                \
    X(FEED_SCHEMA, 49, "coordinator → nodes", "of the rows of a feed", F(FEED) F(QUEUE) F(SCHEMA), )                   \
    X(HUNGRY, 50, "coordinator → producers", "whether a node is", F(INDEX) F(HUNGRY), )                                \
    X(READ_BY_ALL, 51, "coordinator → producers", "every program that may read the queue does", , )                    \
    X(FENCE, 52, "coordinator → node", "take no more rows of an attempt", TFOS__ATTEMPT_FIELDS(F), )                   \
    X(FENCED, 53, "node → coordinator", "it takes none", TFOS__ATTEMPT_FIELDS(F) F(FED_BEFORE), )                      \
    X(SETTLED, 54, "node → coordinator", "what has become of the rows of a lane",                                      \
      TFOS__ATTEMPT_FIELDS(F) F(CONSUMED) F(SKIPPED) F(SEQUENCE), )                                                    \
    X(MARK, 55, "coordinator → node", "every row of an epoch is in a lane", F(QUEUE) F(MARKS), )                       \
    X(TERMINATE, 56, "node → coordinator", "its program wants no more of a queue", F(QUEUE), )                         \
    X(LANE, 57, "producer → node elsewhere", "asks for a lane", TFOS__ATTEMPT_FIELDS(F) F(QUEUE) F(FEED_FLAGS), )      \
    X(LANE_GRANTED, 58, "node → producer elsewhere", "here is one", F(LANE_BYTES), )                                   \
    X(LANE_BUSY, 59, "node → producer elsewhere", "one comes later", , )                                               \
    X(LANE_REFUSED, 60, "node → producer elsewhere", "none comes, and why", F(ENDED) F(TEXT), )                        \
    X(ENTRY, 61, "producer → node elsewhere: rows; node → producer elsewhere: results", "a piece of an entry",         \
      F(ENTRY_BYTES) F(PIECE), )                                                                                       \
    X(LANE_END, 62, "producer → node elsewhere", "that was the last entry", , )                                        \
    X(LANE_STATE, 63, "node → producer elsewhere", "how far it is",                                                    \
      F(COMMITTED) F(CREDIT) F(CONSUMED) F(HUNGRY) F(LANE_FLAGS), )                                                    \
    X(RESULTS_ROOM, 64, "producer → node elsewhere", "it has taken results out of their lane", F(CREDIT), )            \
    X(MEET, 65, "program → node → coordinator", "it wants to compute with the others, and can be reached here",        \
      F(MEETING) F(WAIT_MS) F(PORT) F(SHARES) F(BOARD_NAME), )                                                         \
    X(MET, 66, "coordinator → node → program", "all have come", F(MEETING) F(RANK) F(MEMBERS),                         \
      F(GROUP_KEY) F(BEAT_MS))                                                                                         \
    X(MEMBER, 67, "coordinator → program, inside MET", "one of them",                                                  \
      F(NODE) F(HOST) F(PORT) F(SHARES) F(BOARD_NAME), )                                                               \
    X(NOT_MET, 68, "coordinator → node → program", "somebody does not come", F(MEETING) F(STATUS) F(TEXT), )           \
    X(PULSE, 69, "program → node", "while it computes with others: it lives", , )                                      \
    X(PART, 70, "program → node", "it does not compute with others any more", , )                                      \
    X(GREETING, 71, "worker → worker", "the first word of a connection between two", F(MEETING) F(RANK), )             \
    X(REPORT, 80, "node → coordinator", "how its program gets on", F(JSON) F(SEQUENCE), )                              \
    X(RESULT, 81, "node → coordinator → driver", "a piece of what its program has left behind",                        \
      F(OFFSET) F(HEAD_BYTES) F(VALUE_BYTES) F(PIECE), F(INDEX))                                                       \
    X(RESULT_SEEN, 82, "coordinator → node", "so much of it has arrived, and the next piece may come", F(OFFSET), )

#endif
