/* Fields of protobuf messages, and the texts in them. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tensorflow/saved_model_parts.h"

tfos_status tfos__model_fail(tfos_error *error)
{
    return tfos__fail(error, TFOS_CORRUPT, "this is no SavedModel: its bytes do not parse");
}

/* The next field; END behind the last. */
static tfos_status next_field(tfos__wire *wire, tfos__model_field *out, tfos_error *error)
{
    uint32_t tag;
    *out = (tfos__model_field){0};
    if (wire->at == wire->end) {
        return TFOS_END;
    }
    if (!tfos__wire_tag(wire, &tag)) {
        return tfos__model_fail(error);
    }
    out->number = tag >> 3;
    bool sound;
    switch (tag & 7) {
    case TFOS__WIRE_VARINT:
        sound = tfos__wire_varint(wire, &out->value);
        break;
    case TFOS__WIRE_BYTES:
        sound = tfos__wire_bytes(wire, &out->bytes);
        break;
    default:
        sound = tfos__wire_skip(wire, tag);
    }
    return sound ? TFOS_OK : tfos__model_fail(error);
}

tfos_status tfos__model_each_field(tfos__wire message, tfos__model_field_function function, void *context,
                                   tfos_error *error)
{
    for (;;) {
        tfos__model_field field;
        tfos_status status = next_field(&message, &field, error);
        if (status != TFOS_OK) {
            return status == TFOS_END ? TFOS_OK : status;
        }
        TFOS_TRY(function(context, &field, error));
    }
}

tfos_status tfos__model_take_text(tfos__wire text, char **out, tfos_error *error)
{
    size_t bytes = (size_t)(text.end - text.at);
    if (bytes > 0 && memchr(text.at, '\0', bytes) != NULL) {
        return tfos__model_fail(error);
    }
    char *copy = bytes > 0 ? strndup((const char *)text.at, bytes) : strdup("");
    if (copy == NULL) {
        return tfos__fail_memory(error, bytes + 1);
    }
    free(*out);
    *out = copy;
    return TFOS_OK;
}
