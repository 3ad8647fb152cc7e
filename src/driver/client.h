/* The driver's end of a cluster, for the other files of the client. */
#ifndef TFOS_DRIVER_CLIENT_H
#define TFOS_DRIVER_CLIENT_H

#include "net/message.h"

/* Sends to the coordinator. Thread: any. */
tfos_status tfos__cluster_send(tfos_cluster *cluster, const tfos__message *message, tfos_error *error);

#endif
