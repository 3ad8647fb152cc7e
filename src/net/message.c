/* The tables of message_map.h drive the encoder and the decoder, so that what a message has is written in one place. */
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
#define FIELD(name, number, most, text) [number] = {#name, most},
    TFOS__FIELD_MAP(FIELD)
#undef FIELD
};

enum { NEEDS_MOST = 24, MAY_MOST = 12 };

/* Lists of fields end with 0. */
typedef struct message_info {
    const char *name; /* NULL: no such message */
    uint8_t needs[NEEDS_MOST];
    uint8_t may[MAY_MOST];
} message_info;

static const message_info messages[] = {
#define FIELD(name) TFOS__FIELD_##name,
#define MESSAGE(name, value, way, what, needs, may) [value] = {#name, {needs 0}, {may 0}},
    TFOS__MESSAGE_MAP(MESSAGE, FIELD)
#undef MESSAGE
#undef FIELD
};

enum { MESSAGES_END = sizeof messages / sizeof messages[0] };

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

static const message_info *info_of(uint64_t type)
{
    return type < MESSAGES_END && messages[type].name != NULL ? &messages[type] : NULL;
}

const char *tfos__message_name(tfos__message_type type)
{
    const message_info *info = info_of((uint64_t)type);
    return info != NULL ? info->name : "unknown";
}

static bool lists(const uint8_t *list, tfos__field field)
{
    while (*list != 0 && *list != field) {
        list++;
    }
    return *list != 0;
}

static bool is_ours(tfos__message_type type, tfos__field field)
{
    const message_info *info = info_of((uint64_t)type);
    return info != NULL && (lists(info->needs, field) || lists(info->may, field));
}

/* The first field of a message that it must have and lacks; 0: it has all. */
static uint32_t find_missing(const tfos__message *message)
{
    const uint8_t *needs = messages[message->type].needs;
    while (*needs != 0 && tfos__message_has(message, (tfos__field)*needs)) {
        needs++;
    }
    return *needs;
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
    assert(is_ours(message->type, field) && fields[field].most == 0);
    mark(message, field);
    message->field[field].number = number;
}

void tfos__message_put_text(tfos__message *message, tfos__field field, const char *text, size_t count)
{
    assert(is_ours(message->type, field) && fields[field].most > 0 && count <= fields[field].most);
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

void tfos__message_put_error(tfos__message *message, const tfos_error *error)
{
    tfos__message_put_number(message, TFOS__FIELD_STATUS, error->status);
    if (is_ours(message->type, TFOS__FIELD_FAULT)) {
        tfos__message_put_number(message, TFOS__FIELD_FAULT, error->fault);
    }
    tfos__message_put_string(message, TFOS__FIELD_TEXT, error->message);
}

void tfos__message_error(const tfos__message *message, tfos_error *out)
{
    uint64_t status = tfos__message_number(message, TFOS__FIELD_STATUS);
    uint64_t fault = tfos__message_number(message, TFOS__FIELD_FAULT);
    out->status = status > TFOS_END && status <= TFOS_RAISED ? (tfos_status)status : TFOS_CANCELLED;
    out->fault = tfos__message_has(message, TFOS__FIELD_FAULT) && fault <= TFOS_FAULT_CLUSTER
                     ? (tfos_fault)fault
                     : tfos__status_fault(out->status);
    tfos__message_copy(message, TFOS__FIELD_TEXT, out->message, sizeof out->message);
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

/* Bytes of the fields of a list that are there. */
static size_t list_bytes(const tfos__message *message, const uint8_t *list)
{
    size_t count = 0;
    for (; *list != 0; list++) {
        count += tfos__message_has(message, (tfos__field)*list) ? field_bytes(message, *list) : 0;
    }
    return count;
}

static uint8_t *put_list(const tfos__message *message, const uint8_t *list, uint8_t *to)
{
    for (; *list != 0; list++) {
        to = tfos__message_has(message, (tfos__field)*list) ? put_field(message, *list, to) : to;
    }
    return to;
}

tfos_status tfos__message_encode(const tfos__message *message, tfos__buffer *out, tfos_error *error)
{
    const message_info *info = &messages[message->type];
    uint32_t missing = find_missing(message);
    if (missing != 0) {
        return tfos__fail(error, TFOS_INVALID, "a message %s is to be sent without its field %s", info->name,
                          fields[missing].name);
    }
    size_t count =
        1 + tfos__wire_varint_bytes(message->type) + list_bytes(message, info->needs) + list_bytes(message, info->may);
    TFOS_TRY(tfos__buffer_reserve(out, out->size + count, error));
    uint8_t *to = out->data + out->size;
    to = tfos__wire_put_varint(to, TFOS__WIRE_TAG(1, TFOS__WIRE_VARINT));
    to = tfos__wire_put_varint(to, message->type);
    to = put_list(message, info->needs, to);
    put_list(message, info->may, to);
    out->size += count;
    return TFOS_OK;
}

static tfos_status read_text(tfos__wire *wire, tfos__field field, tfos__message *out, tfos_error *error)
{
    tfos__wire bytes;
    if (!tfos__wire_bytes(wire, &bytes)) {
        return tfos__fail(error, TFOS_CORRUPT, "the field %s of a message %s is cut short", fields[field].name,
                          tfos__message_name(out->type));
    }
    size_t count = (size_t)(bytes.end - bytes.at);
    if (count > fields[field].most) {
        return tfos__fail(error, TFOS_LIMIT, "the field %s of a message %s has %zu bytes; the most is %zu",
                          fields[field].name, tfos__message_name(out->type), count, fields[field].most);
    }
    tfos__message_put_text(out, field, (const char *)bytes.at, count);
    return TFOS_OK;
}

static tfos_status read_number(tfos__wire *wire, tfos__field field, tfos__message *out, tfos_error *error)
{
    uint64_t number;
    if (!tfos__wire_varint(wire, &number)) {
        return tfos__fail(error, TFOS_CORRUPT, "the field %s of a message %s is cut short", fields[field].name,
                          tfos__message_name(out->type));
    }
    tfos__message_put_number(out, field, number);
    return TFOS_OK;
}

/* One field behind its tag. */
static tfos_status read_field(tfos__wire *wire, uint32_t tag, tfos__message *out, tfos_error *error)
{
    const char *type = tfos__message_name(out->type);
    tfos__field field = (tfos__field)(tag >> 3);
    if (tag >> 3 >= TFOS__FIELD_END || !is_ours(out->type, field)) {
        return tfos__fail(error, TFOS_CORRUPT, "a message %s has no field %" PRIu32, type, tag >> 3);
    }
    if (tfos__message_has(out, field)) {
        return tfos__fail(error, TFOS_CORRUPT, "a message %s has its field %s twice", type, fields[field].name);
    }
    bool is_number = fields[field].most == 0;
    if ((tag & 7) != (is_number ? TFOS__WIRE_VARINT : TFOS__WIRE_BYTES)) {
        return tfos__fail(error, TFOS_CORRUPT, "the field %s of a message %s has wire type %" PRIu32,
                          fields[field].name, type, tag & 7);
    }
    return is_number ? read_number(wire, field, out, error) : read_text(wire, field, out, error);
}

/* The type comes first: what a field may be depends on it. */
static tfos_status read_type(tfos__wire *wire, tfos__message *out, tfos_error *error)
{
    uint32_t tag;
    uint64_t type;
    if (!tfos__wire_tag(wire, &tag) || tag != TFOS__WIRE_TAG(1, TFOS__WIRE_VARINT) || !tfos__wire_varint(wire, &type)) {
        return tfos__fail(error, TFOS_CORRUPT, "a message does not begin with its type");
    }
    if (info_of(type) == NULL) {
        return tfos__fail(error, TFOS_UNSUPPORTED, "a message has the unknown type %" PRIu64, type);
    }
    tfos__message_init(out, (tfos__message_type)type);
    return TFOS_OK;
}

tfos_status tfos__message_decode(const void *bytes, size_t count, tfos__message *out, tfos_error *error)
{
    tfos__wire wire = {.at = bytes, .end = (const uint8_t *)bytes + count};
    TFOS_TRY(read_type(&wire, out, error));
    while (wire.at < wire.end) {
        uint32_t tag;
        if (!tfos__wire_tag(&wire, &tag)) {
            return tfos__fail(error, TFOS_CORRUPT, "a message %s has no valid tag at byte %zu",
                              tfos__message_name(out->type), (size_t)(wire.at - (const uint8_t *)bytes));
        }
        TFOS_TRY(read_field(&wire, tag, out, error));
    }
    uint32_t missing = find_missing(out);
    if (missing != 0) {
        return tfos__fail(error, TFOS_CORRUPT, "a message %s lacks its field %s", tfos__message_name(out->type),
                          fields[missing].name);
    }
    return TFOS_OK;
}

void tfos__node_name(const char *role, uint64_t task, char out[64])
{
    snprintf(out, 64, "%.40s:%" PRIu64, role, task);
}
