/* The length is checked before anything is made of it: it is the first that a stranger can lie about. */
#include "net/frame.h"

#include "base/status.h"

tfos_status tfos__frame_append(const tfos__message *message, tfos__buffer *out, tfos_error *error)
{
    size_t at = out->size;
    TFOS_TRY(tfos__buffer_append(out, &(uint32_t){0}, TFOS__FRAME_LENGTH_BYTES, error));
    tfos_status status = tfos__message_encode(message, out, error);
    size_t count = out->size - at - TFOS__FRAME_LENGTH_BYTES;
    if (status == TFOS_OK && count > TFOS__FRAME_TICKET_BYTES) {
        status = tfos__fail(error, TFOS_LIMIT, "a message of %zu bytes is larger than %d bytes", count,
                            TFOS__FRAME_TICKET_BYTES);
    }
    if (status != TFOS_OK) {
        out->size = at;
        return status;
    }
    tfos__store_u32(out->data + at, (uint32_t)count);
    return TFOS_OK;
}

tfos_status tfos__frame_measure(const void *bytes, size_t count, size_t most, size_t *out, tfos_error *error)
{
    if (count < TFOS__FRAME_LENGTH_BYTES) {
        return TFOS_END;
    }
    size_t said = tfos__load_u32(bytes);
    if (said > most) {
        return tfos__fail(error, TFOS_LIMIT, "announced a message of %zu bytes; the most is %zu", said, most);
    }
    *out = TFOS__FRAME_LENGTH_BYTES + said;
    return TFOS_OK;
}

tfos_status tfos__frame_take(const void *bytes, size_t count, size_t most, tfos__message *out, size_t *used,
                             tfos_error *error)
{
    size_t whole = 0;
    *used = 0;
    TFOS_TRY(tfos__frame_measure(bytes, count, most, &whole, error));
    if (count < whole) {
        return TFOS_END;
    }
    *used = whole;
    return tfos__message_decode((const uint8_t *)bytes + TFOS__FRAME_LENGTH_BYTES, whole - TFOS__FRAME_LENGTH_BYTES,
                                out, error);
}
