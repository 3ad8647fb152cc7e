/* The coordinator: the process beside the driver that knows every node. */
#ifndef TFOS_COORDINATOR_COORDINATOR_H
#define TFOS_COORDINATOR_COORDINATOR_H

#include "tfos.h"

/* Runs a coordinator whose driver is at the other end of the socket `driver`, until the cluster is over and the driver
 * has gone. */
tfos_status tfos__coordinator_run(int driver, tfos_error *error);

#endif
