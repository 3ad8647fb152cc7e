/* What the programs share that play many nodes, or many tasks, against one real coordinator. */
#ifndef TFOS_BENCH_SWARM_H
#define TFOS_BENCH_SWARM_H

#include "service/link.h"

/* Says so and ends the program: a swarm that is not whole measures nothing. */
_Noreturn void swarm_stop(const char *what, const char *why);

double swarm_seconds(void);

/* This process has one connection for each of its nodes and tasks. `need` is how many files it will have open. */
void swarm_raise_file_limit(long need);

/* The address and the key, out of the ticket. */
tfos__tls_context *swarm_read_ticket(const tfos_cluster *cluster, char host[256], uint16_t *port);

/* The coordinator: our only child, its memory, and the processor time that it has used. */
pid_t swarm_coordinator(void);
double swarm_rss_bytes(pid_t pid);
double swarm_cpu_seconds(pid_t pid);

/* The first word of anybody; REGISTER of a node, which may be given more; its last word. */
void swarm_hello(tfos__link *link);
void swarm_make_registration(long index, const char *host, tfos__message *out);
void swarm_end(tfos__link *link);

#endif
