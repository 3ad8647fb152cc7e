/* What the driver wants of its coordinator: the first message, OPEN. */
#ifndef TFOS_COORDINATOR_OPENING_H
#define TFOS_COORDINATOR_OPENING_H

#include "coordinator/roster.h"

/* Reads what concerns the roster; and the driver's settings, which are this process's from then on. */
tfos_status tfos__opening_read(const tfos__message *open, tfos__roster_options *out, tfos_error *error);

#endif
