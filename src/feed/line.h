/* A line: one Spark task and a server on its machine, which answers each row with a result. There is no cluster and no
 * coordinator between them; a socket shows each that the other one lives.
 *
 *   task                                         server
 *     │ HELLO token; its bell                        │      Unix socket, abstract
 *     │─────────────────────────────────────────────►│
 *     │               LANE; lane, results, its bell  │      or REFUSED, with a text
 *     │◄─────────────────────────────────────────────│
 *     │ ═══ order (TEXT), rows, PARTITION ══════════►│      lane
 *     │ ◄══ results, or why there are none (TEXT) ═══│      results
 *     │ …closes the socket                           │
 *
 * The order is a text that the task has for the server: what is to be done with the rows. Results come in the order of
 * the rows. Those before a failure arrive before it. */
#ifndef TFOS_FEED_LINE_H
#define TFOS_FEED_LINE_H

#include "base/tls.h"
#include "feed/sink.h"

/* ---- The task's end ---- */

typedef struct tfos__line_options {
    const char *name; /* of the server's socket */
    uint8_t token[TFOS__KEY_BYTES];
    const char *order;
    size_t order_bytes;
    uint64_t partition;  /* for messages */
    int64_t batch_bytes; /* of an entry, at most, unless one row has more */
    tfos__patience patience;
} tfos__line_options;

/* Connects. NOT_FOUND: nobody listens under that name, or not any more. */
tfos_status tfos__line_open(const tfos__line_options *options, tfos__sink **out, tfos_error *error);

/* ---- The server's end ---- */

typedef struct tfos__line tfos__line;

/* Takes over, whatever the result, a socket that was accepted, and waits for a few seconds until a task has shown its
 * token and given its order. PERMISSION: whoever that is, it has no business here. */
tfos_status tfos__line_accept(int socket, const uint8_t token[TFOS__KEY_BYTES], size_t lane_bytes, tfos__line **out,
                              tfos_error *error);

/* What the task wants, with its end. */
const char *tfos__line_order(const tfos__line *line);

/* The next rows: so many, or fewer at the end and where the schema changes. END: there are no more. CANCELLED: the task
 * is gone.
 *
 * The caller gives *out up with tfos_batch_free; its memory is used again for later rows. */
tfos_status tfos__line_next(tfos__line *line, int64_t rows, tfos_batch **out, tfos_error *error);

/* Results for the next rows that have none, waiting for room. CANCELLED: the task is gone. */
tfos_status tfos__line_answer(tfos__line *line, const tfos_batch *batch, tfos_error *error);

/* Tells the task why there are no more results, as far as it still listens. */
void tfos__line_fail(tfos__line *line, const tfos_error *why);

/* A task that waits for results learns that there are no more. */
void tfos__line_close(tfos__line *line);

#endif
