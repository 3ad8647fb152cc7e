/* Nodes that only talk: links to a coordinator that register, beat and end as a test says. The processes of a real node
 * are tested elsewhere; this is for the coordinator's side, and for many nodes at a time. */
#ifndef TFOS_TESTS_HELPER_NODES_H
#define TFOS_TESTS_HELPER_NODES_H

#include "service/link.h"

typedef struct helper_node {
    tfos__link *link; /* NULL when closed */
    uint32_t index;
    bool assigned;
    bool stopped;
    bool bye;
    uint64_t beats; /* answered */
    char refused[512];
    tfos_error error; /* why the link closed */
    bool closed;
    bool ends_on_stop; /* answers STOP with ENDED, and BYE by closing */
} helper_node;

typedef struct helper_address {
    uint8_t key[TFOS__KEY_BYTES];
    char host[256];
    uint16_t port;
} helper_address;

/* Reads the coordinator's address and the key out of a ticket. */
void helper_ticket_read(const tfos_cluster *cluster, helper_address *out);

/* What a node says of itself, with nothing that is not needed. */
void helper_registration(tfos__message *message, uint64_t index, const char *host, uint64_t port);

/* Connects and says HELLO with `version` and, unless it is NULL, REGISTER with `host`. */
void helper_node_connect(helper_node *node, uv_loop_t *loop, tfos__tls_context *tls, const helper_address *address,
                         uint32_t index, const char *version, const char *host);
void helper_node_beat(helper_node *node);
void helper_node_end(helper_node *node, tfos__outcome outcome, const char *text);

#endif
