/* The status of a cluster in Prometheus' text format. */
#ifndef TFOS_COORDINATOR_METRICS_H
#define TFOS_COORDINATOR_METRICS_H

#include "base/bytes.h"

/* Appends the metrics of a status, which is the text of tfos__status_json, and of this process. */
tfos_status tfos__metrics_write(const char *status_json, tfos__buffer *out, tfos_error *error);

#endif
