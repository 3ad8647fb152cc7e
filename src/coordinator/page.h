/* The status page: a small web site for people and for Prometheus, behind a token in its address.
 *
 *   /TOKEN/                     the page
 *   /TOKEN/status.json          what it shows, without logs
 *   /TOKEN/status.json?logs=…   … with the ends of the logs of these nodes: "all", or indexes separated by commas
 *   /TOKEN/metrics              for Prometheus
 *
 * Any other address, and any other token, is not found: which of the two is not told. */
#ifndef TFOS_COORDINATOR_PAGE_H
#define TFOS_COORDINATOR_PAGE_H

#include <uv.h>

#include "coordinator/http.h"
#include "coordinator/status.h"

enum { TFOS__PAGE_TOKEN_BYTES = 32 }; /* characters, of four random bits each */

typedef struct tfos__page tfos__page;

/* `host` is the name by which people reach this machine. `status` makes the JSON text of tfos__status_json, which the
 * page frees; NULL when memory is short. */
typedef char *(*tfos__page_status)(void *context, const tfos__status_wish *logs);

tfos_status tfos__page_open(uv_loop_t *loop, const char *host, const tfos__ports *ports, tfos__page_status status,
                            void *context, tfos__page **out, tfos_error *error);

/* "http://host:port/TOKEN/". */
const char *tfos__page_url(const tfos__page *page);

/* Closes its connections; frees itself when libuv has given its handles back. Takes NULL. */
void tfos__page_close(tfos__page *page);

/* What the page answers: its mind, without sockets. `root` is "/TOKEN/" and must outlive the answer. */
void tfos__page_answer(const char *root, tfos__page_status status, void *context, const tfos__http_request *request,
                       tfos__http_answer *answer);

#endif
