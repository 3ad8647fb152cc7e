/* Messages: one table of fields drives the encoder and the decoder, so that a limit is written in one place. */
#include "net/message.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "base/wire.h"

static_assert(TFOS__FIELD_END <= 128, "the fields that are present fit two words");

typedef struct field_info {
    const char *name; /* NULL: no such field */
    size_t most;      /* bytes; 0 for a number */
} field_info;

static const field_info fields[TFOS__FIELD_END] = {
#define FIELD(name, number, most) [number] = {#name, most},
    TFOS__FIELD_MAP(FIELD)
#undef FIELD
};

const char *tfos__node_state_text(tfos__node_state state)
{
    switch (state) {
#define STATE(name, value, text)                                                                                       \
    case TFOS__NODE_##name:                                                                                            \
        return text;
        TFOS__NODE_STATE_MAP(STATE)
#undef STATE
    }
    return "unknown";
}

const char *tfos__outcome_text(tfos__outcome outcome)
{
    switch (outcome) {
#define OUTCOME(name, value, text)                                                                                     \
    case TFOS__OUTCOME_##name:                                                                                         \
        return text;
        TFOS__OUTCOME_MAP(OUTCOME)
#undef OUTCOME
    }
    return "failed";
}

const char *tfos__outcome_name(tfos__outcome outcome)
{
    static const struct {
        tfos__outcome outcome;
        const char *name;
    } names[] = {
#define OUTCOME(name, value, text) {TFOS__OUTCOME_##name, #name},
        TFOS__OUTCOME_MAP(OUTCOME)
#undef OUTCOME
    };
    static _Thread_local char lower[32];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].outcome == outcome) {
            size_t bytes = strlen(names[i].name);
            for (size_t at = 0; at <= bytes; at++) {
                lower[at] = (char)tolower((unsigned char)names[i].name[at]);
            }
            return lower;
        }
    }
    return "failed";
}

static bool type_is_known(uint64_t type)
{
    switch (type) {
#define TYPE(name, value, text) case TFOS__MESSAGE_##name:
        TFOS__MESSAGE_MAP(TYPE)
#undef TYPE
        return true;
    default:
        return false;
    }
}

void tfos__message_init(tfos__message *message, tfos__message_type type)
{
    message->type = type;
    message->present[0] = message->present[1] = 0;
}

static void mark(tfos__message *message, tfos__field field)
{
    message->present[field >> 6] |= UINT64_C(1) << (field & 63);
}

void tfos__message_put_number(tfos__message *message, tfos__field field, uint64_t number)
{
    assert(fields[field].name != NULL && fields[field].most == 0);
    mark(message, field);
    message->field[field].number = number;
}

void tfos__message_put_text(tfos__message *message, tfos__field field, const char *text, size_t count)
{
    assert(fields[field].most > 0 && count <= fields[field].most);
    mark(message, field);
    message->field[field].text = (tfos__text){.at = text, .count = count};
}

void tfos__message_put_string(tfos__message *message, tfos__field field, const char *text)
{
    tfos__message_put_text(message, field, text, strlen(text));
}

bool tfos__message_has(const tfos__message *message, tfos__field field)
{
    return (message->present[field >> 6] >> (field & 63)) & 1;
}

uint64_t tfos__message_number(const tfos__message *message, tfos__field field)
{
    assert(fields[field].most == 0);
    return tfos__message_has(message, field) ? message->field[field].number : 0;
}

tfos__text tfos__message_text(const tfos__message *message, tfos__field field)
{
    assert(fields[field].most > 0);
    return tfos__message_has(message, field) ? message->field[field].text : (tfos__text){.at = "", .count = 0};
}

const char *tfos__message_copy(const tfos__message *message, tfos__field field, char *to, size_t bytes)
{
    tfos__text text = tfos__message_text(message, field);
    size_t count = text.count < bytes - 1 ? text.count : bytes - 1;
    memcpy(to, text.at, count);
    to[count] = '\0';
    return to;
}

char *tfos__message_duplicate(const tfos__message *message, tfos__field field)
{
    tfos__text text = tfos__message_text(message, field);
    char *copy = malloc(text.count + 1);
    if (copy != NULL) {
        memcpy(copy, text.at, text.count);
        copy[text.count] = '\0';
    }
    return copy;
}

static size_t field_bytes(const tfos__message *message, uint32_t field)
{
    uint32_t tag = TFOS__WIRE_TAG(field, 0);
    if (fields[field].most == 0) {
        return tfos__wire_varint_bytes(tag) + tfos__wire_varint_bytes(message->field[field].number);
    }
    size_t count = message->field[field].text.count;
    return tfos__wire_varint_bytes(tag) + tfos__wire_varint_bytes(count) + count;
}

static uint8_t *put_field(const tfos__message *message, uint32_t field, uint8_t *to)
{
    if (fields[field].most == 0) {
        to = tfos__wire_put_varint(to, TFOS__WIRE_TAG(field, TFOS__WIRE_VARINT));
        return tfos__wire_put_varint(to, message->field[field].number);
    }
    tfos__text text = message->field[field].text;
    to = tfos__wire_put_varint(to, TFOS__WIRE_TAG(field, TFOS__WIRE_BYTES));
    to = tfos__wire_put_varint(to, text.count);
    memcpy(to, text.at, text.count);
    return to + text.count;
}

tfos_status tfos__message_encode(const tfos__message *message, tfos__buffer *out, tfos_error *error)
{
    size_t count = 1 + tfos__wire_varint_bytes(message->type);
    for (uint32_t field = 2; field < TFOS__FIELD_END; field++) {
        if (tfos__message_has(message, (tfos__field)field)) {
            count += field_bytes(message, field);
        }
    }
    if (count > TFOS__FRAME_START_BYTES) {
        return tfos__fail(error, TFOS_LIMIT, "a message of %zu bytes is larger than %d bytes", count,
                          TFOS__FRAME_START_BYTES);
    }
    TFOS_TRY(tfos__buffer_reserve(out, out->size + sizeof(uint32_t) + count, error));
    uint8_t *to = out->data + out->size;
    tfos__store_u32(to, (uint32_t)count);
    to += sizeof(uint32_t);
    to = tfos__wire_put_varint(to, TFOS__WIRE_TAG(1, TFOS__WIRE_VARINT));
    to = tfos__wire_put_varint(to, message->type);
    for (uint32_t field = 2; field < TFOS__FIELD_END; field++) {
        if (tfos__message_has(message, (tfos__field)field)) {
            to = put_field(message, field, to);
        }
    }
    out->size = (size_t)(to - out->data);
    return TFOS_OK;
}

static tfos_status read_text(tfos__wire *wire, uint32_t field, tfos__message *out, tfos_error *error)
{
    tfos__wire bytes;
    if (!tfos__wire_bytes(wire, &bytes)) {
        return tfos__fail(error, TFOS_CORRUPT, "the field %s of a message is cut short", fields[field].name);
    }
    size_t count = (size_t)(bytes.end - bytes.at);
    if (count > fields[field].most) {
        return tfos__fail(error, TFOS_LIMIT, "the field %s of a message has %zu bytes; the most is %zu",
                          fields[field].name, count, fields[field].most);
    }
    tfos__message_put_text(out, (tfos__field)field, (const char *)bytes.at, count);
    return TFOS_OK;
}

/* One field behind its tag. A known field of the wrong wire type is nonsense; an unknown one is passed over. */
static tfos_status read_field(tfos__wire *wire, uint32_t tag, uint64_t *type, tfos__message *out, tfos_error *error)
{
    uint32_t field = tag >> 3;
    bool is_type = field == 1;
    if (!is_type && (field >= TFOS__FIELD_END || fields[field].name == NULL)) {
        if (!tfos__wire_skip(wire, tag)) {
            return tfos__fail(error, TFOS_CORRUPT, "field %" PRIu32 " of a message is cut short", field);
        }
        return TFOS_OK;
    }
    bool is_number = is_type || fields[field].most == 0;
    if ((tag & 7) != (is_number ? TFOS__WIRE_VARINT : TFOS__WIRE_BYTES)) {
        return tfos__fail(error, TFOS_CORRUPT, "field %" PRIu32 " of a message has wire type %" PRIu32, field, tag & 7);
    }
    if (!is_number) {
        return read_text(wire, field, out, error);
    }
    uint64_t number;
    if (!tfos__wire_varint(wire, &number)) {
        return tfos__fail(error, TFOS_CORRUPT, "field %" PRIu32 " of a message is cut short", field);
    }
    if (is_type) {
        *type = number;
    } else {
        tfos__message_put_number(out, (tfos__field)field, number);
    }
    return TFOS_OK;
}

tfos_status tfos__message_decode(const void *bytes, size_t count, tfos__message *out, tfos_error *error)
{
    tfos__wire wire = {.at = bytes, .end = (const uint8_t *)bytes + count};
    uint64_t type = 0;
    tfos__message_init(out, 0);
    while (wire.at < wire.end) {
        uint32_t tag;
        if (!tfos__wire_tag(&wire, &tag)) {
            return tfos__fail(error, TFOS_CORRUPT, "a message has no valid tag at byte %zu",
                              (size_t)(wire.at - (const uint8_t *)bytes));
        }
        TFOS_TRY(read_field(&wire, tag, &type, out, error));
    }
    if (!type_is_known(type)) {
        return tfos__fail(error, TFOS_UNSUPPORTED, "a message has the unknown type %" PRIu64, type);
    }
    out->type = (tfos__message_type)type;
    return TFOS_OK;
}

void tfos__node_name(const char *role, uint64_t task, char out[64])
{
    snprintf(out, 64, "%.40s:%" PRIu64, role, task);
}
