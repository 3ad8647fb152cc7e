/* A whole cluster that is fed: a real coordinator, real nodes, programs that write down the rows they get, and Spark
 * tasks that are processes of their own, which can be killed. */
#ifndef TFOS_TESTS_HELPER_CLUSTER_H
#define TFOS_TESTS_HELPER_CLUSTER_H

#include <sys/types.h>

#include "base/bytes.h"
#include "tfos.h"

enum { HELPER_EPOCH_END = -1, HELPER_NODES_MOST = 4 };

typedef struct helper_cluster {
    tfos_cluster *cluster;
    int32_t nodes;
    char folder[256];
    bool ready;
    bool over;
    char failure[2048];       /* of the cluster */
    tfos__buffer feed_events; /* "open 1\n", "epoch 1/0\n", "failed 1: why\n" */
    tfos__buffer status;      /* the last answer to tfos_cluster_request_status, terminated */
    struct {
        pid_t pid;
        int input;
    } elsewhere[HELPER_NODES_MOST]; /* nodes on the other host */
    size_t elsewhere_count;
} helper_cluster;

/* If the arguments say so, this process is the program of a node, and does not return. To be called first in main. */
void helper_program_main(int argc, char **argv);

/* Where nodes and tasks reach the coordinator and nodes. "127.0.0.1", unless a test says otherwise. */
extern const char *helper_cluster_host;

/* If it is not NULL: where nodes with an odd number are, in the network namespace of helper_hosts.h. */
extern const char *helper_cluster_other_host;

/* Starts a cluster whose programs do what `mode` says (see helper_cluster.c), with batches of so many rows. */
void helper_cluster_open(helper_cluster *it, int32_t nodes, const char *mode, int64_t batch_rows,
                         const char *const *settings);

/* Ends the feed, waits for the programs and closes the cluster. */
void helper_cluster_close(helper_cluster *it);

/* Without waiting for anybody. */
void helper_cluster_abandon(helper_cluster *it);

/* Takes the events of so many milliseconds. */
void helper_cluster_pump(helper_cluster *it, int64_t ms);
void helper_cluster_expect_event(helper_cluster *it, const char *text, int64_t most_ms);

/* Waits until the cluster has failed. */
void helper_cluster_wait_failure(helper_cluster *it);

/* What a program has found wrong, for the test to read: the program leaves it in the cluster's folder, by its rank. */
void helper_leave_error(const char *folder, size_t rank, const char *text);
const char *helper_cluster_error_of(helper_cluster *it, size_t rank);

/* Waits until every program waits for rows. */
void helper_cluster_wait_hungry(helper_cluster *it);

/* The process of the first node. */
long helper_cluster_node_pid(helper_cluster *it);

/* The process of the program of a node, which has asked for rows before. */
pid_t helper_cluster_program_pid(const helper_cluster *it, int32_t node);

/* The usual feed of so many partitions. */
tfos_feed_options helper_feed_of(int64_t partitions);

uint64_t helper_cluster_feed(helper_cluster *it, const tfos_feed_options *options);
void helper_cluster_epoch(helper_cluster *it, uint64_t feed, uint64_t epoch);

/* Both: the feed is opened, and its first epoch begins. */
uint64_t helper_cluster_begin(helper_cluster *it, const tfos_feed_options *options);

/* Ends the feed and waits for the programs, which end by themselves then, and well. */
void helper_cluster_wait_over(helper_cluster *it);

/* The numbers that the program of a node has written down. The caller frees them. */
int64_t *helper_cluster_rows(const helper_cluster *it, int32_t node, size_t *count);

/* How many rows (and not ends of epochs) all programs have. */
size_t helper_cluster_count(const helper_cluster *it);

/* Fails the test unless the programs have, together, each row of partitions of these sizes `epochs` times. */
void helper_cluster_expect_rows(const helper_cluster *it, const int64_t *sizes, size_t partitions, int epochs);

/* … unless each program has so many numbers at least. */
void helper_cluster_expect_shared(const helper_cluster *it, size_t least);

/* A port that nobody has at the moment. */
uint16_t helper_find_port(void);

/* ---- tasks ---- */

typedef struct helper_task {
    uint64_t feed;
    uint64_t epoch;
    uint64_t partition;
    uint64_t attempt;
    int64_t rows;
    int64_t batch_rows;
    int64_t row_bytes; /* of a second column; 0: there is none */
    int host;          /* if not 0: the network namespace in which it runs */
    bool far;          /* it feeds over the network, as from another host */
    bool near_one;     /* it shares memory with one node only, as if the others were on another host */
    bool inference;    /* results must be twice the numbers, in their order */
    bool fails;        /* its third batch has a row that cannot be fed */
    bool shrinks;      /* it has a row less than it says */
    int64_t pause_ms;  /* before each batch */
    pid_t pid;
    int output; /* its error comes from here */
} helper_task;

/* The number in a row. */
int64_t helper_row_of(uint64_t partition, int64_t row);

void helper_task_start(helper_task *task, helper_cluster *it);

enum { HELPER_TASK_OK = 0, HELPER_TASK_END = 1, HELPER_TASK_FAILED = 2 };

/* Waits for it while events are taken; fails the test after `most_ms`. Returns how it ended, or minus the signal. */
int helper_task_wait(helper_task *task, helper_cluster *it, int64_t most_ms, char *message, size_t message_bytes);

/* Expects that it was all right. */
void helper_task_expect_ok(helper_task *task, helper_cluster *it);

#endif
