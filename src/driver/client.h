/* The driver's end of a cluster, for the other files of the client. */
#ifndef TFOS_DRIVER_CLIENT_H
#define TFOS_DRIVER_CLIENT_H

#include "net/message.h"

/* Sends to the coordinator. Thread: any. */
tfos_status tfos__cluster_send(tfos_cluster *cluster, const tfos__message *message, tfos_error *error);

/* Where the coordinator is heard, for poll; and whether a whole message is here already. Thread: as tfos_cluster_next.
 */
int tfos__cluster_socket(const tfos_cluster *cluster);
bool tfos__cluster_has_message(const tfos_cluster *cluster);

/* The options as the library reads them; what they point to stays the caller's. */
tfos_status tfos__cluster_options_take(const tfos_cluster_options *options, tfos_cluster_options *out,
                                       tfos_error *error);

/* … and checked. INVALID: no feed can be like that. */
tfos_status tfos__feed_options_take(const tfos_feed_options *options, tfos_feed_options *out, tfos_error *error);

/* Opens a feed under a number of the caller's. */
tfos_status tfos__cluster_open_feed_as(tfos_cluster *cluster, const tfos_feed_options *options, uint64_t feed,
                                       tfos_error *error);

#endif
