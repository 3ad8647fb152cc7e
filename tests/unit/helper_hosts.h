/* Two hosts on one machine: this process in one network namespace, another namespace beside it, and a cable between
 * them. Processes of different hosts share no abstract sockets, and so no memory. */
#ifndef TFOS_TESTS_HELPER_HOSTS_H
#define TFOS_TESTS_HELPER_HOSTS_H

#define HELPER_THIS_ADDRESS "10.77.0.1"
#define HELPER_OTHER_ADDRESS "10.77.0.2"

/* The network namespace of the other host, for setns; 0: there is none, because namespaces cannot be made here. */
extern int helper_other_host;

/* Makes both, before there are threads; clusters of helper_cluster.h are at HELPER_THIS_ADDRESS then. Says so if it
 * cannot, and tests skip. */
void helper_hosts_make(void);
void helper_hosts_end(void);

#endif
