/* Progress: what programs report, as far as people look at it. Of each node the newest report is kept, and a bounded
 * history for the curves of the status page; reports that are to be heard become lines for the driver. */
#ifndef TFOS_COORDINATOR_PROGRESS_H
#define TFOS_COORDINATOR_PROGRESS_H

#include "coordinator/feeds.h"
#include "service/history.h"

enum { TFOS__PROGRESS_ROWS = 240 }; /* of a curve */

typedef struct tfos__progress tfos__progress;

/* `to_driver` is called with lines, OUTPUT, to be used before it returns. */
tfos_status tfos__progress_new(const tfos__roster *roster, const tfos__feeds *feeds,
                               void (*to_driver)(void *context, const tfos__message *message), void *context,
                               tfos__progress **out, tfos_error *error);
void tfos__progress_free(tfos__progress *progress);

/* REPORT of a node. */
void tfos__progress_hear(tfos__progress *progress, uint32_t index, const tfos__message *message, uint64_t now_ms);

/* The newest report of a node, its history and when it came; false: it has reported nothing. */
bool tfos__progress_of(const tfos__progress *progress, uint32_t index, const tfos__report **report,
                       const tfos__history **history, uint64_t *heard_ms);

/* Whose curves are shown unless others are asked for: the first master, or worker, that has reported. -1: nobody has.
 */
int64_t tfos__progress_first(const tfos__progress *progress);

#endif
