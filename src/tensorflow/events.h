/* Event files, which TensorBoard shows: scalars by tag and step, and the graph of the model. They are TFRecords of
 * tensorflow.Event, and grow while TensorBoard reads them.
 *
 *   FOLDER/events.out.tfevents.SECONDS.HOST.PID.NUMBER.v2 */
#ifndef TFOS_TENSORFLOW_EVENTS_H
#define TFOS_TENSORFLOW_EVENTS_H

#include "tfos.h"

typedef struct tfos__events tfos__events;

/* Begins a file in a folder, which is made if it is not there.
 *
 * The caller closes *out with tfos__events_close. */
tfos_status tfos__events_open(const char *folder, tfos__events **out, tfos_error *error);
void tfos__events_close(tfos__events *events);

/* What is written is in the file when this returns. */
tfos_status tfos__events_scalar(tfos__events *events, const char *tag, int64_t step, double value, tfos_error *error);

/* A serialized GraphDef. */
tfos_status tfos__events_graph(tfos__events *events, const void *graph, size_t bytes, tfos_error *error);

#endif
