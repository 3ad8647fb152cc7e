/* Frames: a length of four bytes, little-endian, and a message of that many. Made and cut here alone. */
#ifndef TFOS_NET_FRAME_H
#define TFOS_NET_FRAME_H

#include "net/message.h"

/* Most bytes of a message, by what carries it. */
enum {
    TFOS__FRAME_BYTES = 4 << 20,          /* whatever is no ticket */
    TFOS__FRAME_TICKET_BYTES = INT32_MAX, /* TICKET, which brings the user's function */
    TFOS__FRAME_LENGTH_BYTES = 4,
};

/* Appends a whole frame. */
tfos_status tfos__frame_append(const tfos__message *message, tfos__buffer *out, tfos_error *error);

/* Looks how many bytes the first frame has, with its length. END: that is not known yet. LIMIT: its message has more
 * than `most`. */
tfos_status tfos__frame_measure(const void *bytes, size_t count, size_t most, size_t *out, tfos_error *error);

/* Takes the first of some frames; `used` bytes are its, also where its message is refused. END: it is not whole yet.
 * LIMIT: as above, and nothing is used. */
tfos_status tfos__frame_take(const void *bytes, size_t count, size_t most, tfos__message *out, size_t *used,
                             tfos_error *error);

#endif
