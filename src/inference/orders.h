/* What the process of a model is told when it starts. */
#ifndef TFOS_INFERENCE_ORDERS_H
#define TFOS_INFERENCE_ORDERS_H

#include <json-c/json.h>

#include "base/tls.h"
#include "tfos.h"

typedef struct tfos__inference_orders {
    json_object *text; /* the texts below are its */
    const char *folder;
    const char *tags;
    const char *python;     /* NULL: whichever is found */
    json_object *libraries; /* of ops: an array of texts, or NULL */
    uint8_t token[TFOS__KEY_BYTES];
    int threads;
    int64_t idle_ms;
    int64_t memory_bytes; /* 0: no limit */
    int64_t lane_bytes;
} tfos__inference_orders;

/* Reads them from a file descriptor, up to the end of the line. INVALID says what is wrong with them. */
tfos_status tfos__inference_orders_read(int fd, tfos__inference_orders *out, tfos_error *error);
void tfos__inference_orders_reset(tfos__inference_orders *orders);

#endif
