/* A real node with a real program, which writes down the rows that it gets, under a coordinator that is played: for
 * tests that play the producers, near or far. */
#ifndef TFOS_TESTS_HELPER_FED_NODE_H
#define TFOS_TESTS_HELPER_FED_NODE_H

#include "helper_coordinator.h"

typedef struct helper_fed_node {
    helper_coordinator it;
    helper_executor executor;
    char self[512];
    char rows[300]; /* the file of rows: the node's index is 3 */
} helper_fed_node;

/* 0, as cmocka wants it. */
int helper_fed_node_open(helper_fed_node *s);
void helper_fed_node_close(helper_fed_node *s);

/* Starts the node; its program is one of helper_cluster.c. */
void helper_fed_node_start(helper_fed_node *s, const char *mode, const char *const *settings);

/* What the coordinator says of feed 1. */
void helper_fed_node_say_epoch(helper_fed_node *s, uint64_t epoch);

/* Waits until the program has written down so many rows and ends of epochs, and no more. */
void helper_fed_node_wait(helper_fed_node *s, int count);

#endif
