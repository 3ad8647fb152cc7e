/* tf.train.Example on the wire: the ways that are rarely taken. */
#include "record/example.h"

#include "base/status.h"

const char *tfos__feature_kind_name(tfos__feature_kind kind)
{
    switch (kind) {
    case TFOS__FEATURE_NONE:
        return "none";
    case TFOS__FEATURE_BYTES:
        return "bytes";
    case TFOS__FEATURE_FLOAT:
        return "float";
    case TFOS__FEATURE_INT64:
        return "int64";
    }
    return "unknown";
}

tfos__feature_kind tfos__feature_kind_of(tfos_type type)
{
    switch (type) {
    case TFOS_TYPE_INT32:
    case TFOS_TYPE_INT64:
    case TFOS_TYPE_BOOL:
        return TFOS__FEATURE_INT64;
    case TFOS_TYPE_FLOAT:
    case TFOS_TYPE_DOUBLE:
        return TFOS__FEATURE_FLOAT;
    case TFOS_TYPE_STRING:
    case TFOS_TYPE_BINARY:
        return TFOS__FEATURE_BYTES;
    }
    return TFOS__FEATURE_NONE;
}

/* The kind of list that a tag of Feature announces, NONE for an unknown field. */
static tfos__feature_kind kind_of_tag(uint32_t tag)
{
    switch (tag) {
    case TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES):
        return TFOS__FEATURE_BYTES;
    case TFOS__WIRE_TAG(2, TFOS__WIRE_BYTES):
        return TFOS__FEATURE_FLOAT;
    case TFOS__WIRE_TAG(3, TFOS__WIRE_BYTES):
        return TFOS__FEATURE_INT64;
    default:
        return TFOS__FEATURE_NONE;
    }
}

/* The kinds are a oneof: a list of another kind throws away what was before, one of the same kind is joined to it. */
bool tfos__feature_parse_slow(tfos__wire wire, tfos__feature *out)
{
    *out = (tfos__feature){.list = wire};
    while (wire.at < wire.end) {
        const uint8_t *start = wire.at;
        uint32_t tag;
        tfos__wire list;
        if (!tfos__wire_tag(&wire, &tag)) {
            return false;
        }
        tfos__feature_kind kind = kind_of_tag(tag);
        if (kind == TFOS__FEATURE_NONE) {
            if (!tfos__wire_skip(&wire, tag)) {
                return false;
            }
            continue;
        }
        /* A discarded list must be a valid message all the same, as a protobuf parser would find. */
        if (!tfos__wire_bytes(&wire, &list) || tfos__list_count(kind, list) < 0) {
            return false;
        }
        if (kind != out->kind) {
            out->kind = kind;
            out->list.at = start;
        }
    }
    return true;
}

bool tfos__feature_next_list(tfos__feature *feature, tfos__wire *list)
{
    while (feature->list.at < feature->list.end) {
        uint32_t tag;
        if (!tfos__wire_tag(&feature->list, &tag)) {
            return false;
        }
        if (kind_of_tag(tag) == feature->kind) {
            return tfos__wire_bytes(&feature->list, list);
        }
        if (!tfos__wire_skip(&feature->list, tag)) {
            return false;
        }
    }
    return false;
}

/* Whether none of the varints is longer than ten bytes. */
static bool varints_end(tfos__wire wire)
{
    unsigned run = 0; /* bytes without an end */
    unsigned longest = 0;
    for (const uint8_t *at = wire.at; at < wire.end; at++) {
        run = *at < 0x80 ? 0 : run + 1;
        longest = run > longest ? run : longest;
    }
    return longest < 10;
}

/* Varints end at bytes below 128. The count is only right if the last byte ends one, and none is longer than ten. */
static int64_t count_varints(tfos__wire wire)
{
    if (wire.at < wire.end && wire.end[-1] >= 0x80) {
        return -1;
    }
    int64_t count = 0;
    for (const uint8_t *at = wire.at; at < wire.end; at++) {
        count += *at < 0x80;
    }
    bool short_ones = wire.end - wire.at < count + 10; /* fewer than ten bytes end no varint */
    return short_ones || varints_end(wire) ? count : -1;
}

/* The values in one field of a list message; -1 if it is malformed; `other` for fields that are no values. */
static int64_t count_field(tfos__feature_kind kind, tfos__wire *list, uint32_t tag)
{
    tfos__wire packed;
    uint64_t value;
    if (tag == TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES)) {
        if (!tfos__wire_bytes(list, &packed)) {
            return -1;
        }
        if (kind == TFOS__FEATURE_BYTES) {
            return 1;
        }
        size_t bytes = (size_t)(packed.end - packed.at);
        return kind == TFOS__FEATURE_INT64 ? count_varints(packed) : bytes % 4 == 0 ? (int64_t)(bytes / 4) : -1;
    }
    if (kind == TFOS__FEATURE_INT64 && tag == TFOS__WIRE_TAG(1, TFOS__WIRE_VARINT)) {
        return tfos__wire_varint(list, &value) ? 1 : -1;
    }
    if (kind == TFOS__FEATURE_FLOAT && tag == TFOS__WIRE_TAG(1, TFOS__WIRE_FIXED32)) {
        if (list->end - list->at < 4) {
            return -1;
        }
        list->at += 4;
        return 1;
    }
    return tfos__wire_skip(list, tag) ? 0 : -1;
}

int64_t tfos__list_count(tfos__feature_kind kind, tfos__wire list)
{
    int64_t count = 0;
    while (list.at < list.end) {
        uint32_t tag;
        if (!tfos__wire_tag(&list, &tag)) {
            return -1;
        }
        int64_t more = count_field(kind, &list, tag);
        if (more < 0) {
            return -1;
        }
        count += more;
    }
    return count;
}

void tfos__joined_reset(tfos__joined *joined)
{
    tfos__buffer_reset(&joined->bytes);
}

tfos_status tfos__joined_check(tfos__joined *joined, tfos_error *error)
{
    size_t refused = joined->refused;
    joined->refused = 0;
    return refused > 0 ? tfos__fail_memory(error, refused) : TFOS_OK;
}

/* Puts `more` behind `value`, both in `joined` from then on. */
static bool join(tfos__joined *joined, tfos__wire *value, tfos__wire more)
{
    tfos__buffer *bytes = &joined->bytes;
    size_t before = (size_t)(value->end - value->at);
    size_t behind = (size_t)(more.end - more.at);
    if (value->at != bytes->data) {
        bytes->size = 0;
    }
    if (tfos__buffer_reserve(bytes, before + behind, NULL) != TFOS_OK) {
        joined->refused = before + behind;
        return false;
    }
    if (bytes->size == 0) {
        (void)tfos__buffer_append(bytes, value->at, before, NULL); /* there is room */
    }
    (void)tfos__buffer_append(bytes, more.at, behind, NULL);
    *value = (tfos__wire){bytes->data, bytes->data + bytes->size};
    return true;
}

bool tfos__entry_parse_slow(tfos__wire entry, tfos__joined *joined, tfos__wire *name, tfos__wire *value)
{
    bool have_value = false;
    *name = (tfos__wire){entry.at, entry.at};
    *value = *name;
    while (entry.at < entry.end) {
        uint32_t tag;
        tfos__wire more;
        if (!tfos__wire_tag(&entry, &tag)) {
            return false;
        }
        if (tag == TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES)) {
            if (!tfos__wire_bytes(&entry, name)) {
                return false;
            }
        } else if (tag == TFOS__WIRE_TAG(2, TFOS__WIRE_BYTES)) {
            if (!tfos__wire_bytes(&entry, &more)) {
                return false;
            }
            if (have_value && !join(joined, value, more)) {
                return false;
            }
            *value = have_value ? *value : more;
            have_value = true;
        } else if (!tfos__wire_skip(&entry, tag)) {
            return false;
        }
    }
    return true;
}

static bool feature_valid(tfos__wire value)
{
    tfos__feature feature;
    if (!tfos__feature_parse(value, &feature)) {
        return false;
    }
    return !feature.simple || tfos__list_count(feature.kind, feature.list) >= 0;
}

static bool feature_list_valid(tfos__wire value)
{
    while (value.at < value.end) {
        uint32_t tag;
        tfos__wire feature;
        if (!tfos__wire_tag(&value, &tag)) {
            return false;
        }
        if (tag != TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES)) {
            if (!tfos__wire_skip(&value, tag)) {
                return false;
            }
        } else if (!tfos__wire_bytes(&value, &feature) || !feature_valid(feature)) {
            return false;
        }
    }
    return true;
}

static bool map_valid(tfos__wire map, bool lists, tfos__joined *joined)
{
    while (map.at < map.end) {
        uint32_t tag;
        tfos__wire entry;
        tfos__wire name;
        tfos__wire value;
        if (!tfos__wire_tag(&map, &tag)) {
            return false;
        }
        if (tag != TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES)) {
            if (!tfos__wire_skip(&map, tag)) {
                return false;
            }
        } else if (!tfos__wire_bytes(&map, &entry) || !tfos__entry_parse(entry, joined, &name, &value) ||
                   !(lists ? feature_list_valid(value) : feature_valid(value))) {
            return false;
        }
    }
    return true;
}

bool tfos__message_valid(tfos__wire record, bool sequence, tfos__joined *joined)
{
    while (record.at < record.end) {
        uint32_t tag;
        tfos__wire map;
        if (!tfos__wire_tag(&record, &tag)) {
            return false;
        }
        bool lists = tag == TFOS__WIRE_TAG(2, TFOS__WIRE_BYTES);
        if (tag == TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES) || (lists && sequence)) {
            if (!tfos__wire_bytes(&record, &map) || !map_valid(map, lists, joined)) {
                return false;
            }
        } else if (!tfos__wire_skip(&record, tag)) {
            return false;
        }
    }
    return true;
}

void tfos__name_order_put(tfos__name_order *order, size_t position, tfos__wire name, int32_t id)
{
    tfos__name_slot *slot = &order->slots[position % TFOS__NAME_ORDER_SLOTS];
    size_t bytes = (size_t)(name.end - name.at);
    order->passages[position % TFOS__NAME_ORDER_SLOTS] = (tfos__passage){0};
    if (bytes + 8 > sizeof slot->name) {
        slot->bytes = UINT32_MAX;
        return;
    }
    slot->found = id - TFOS__NAME_MISS;
    slot->bytes = (uint32_t)bytes;
    memcpy(slot->name, name.at, bytes);
}

/* A length of one or two bytes; false if it has more, or is not there. */
static inline bool take_length(const uint8_t **at, const uint8_t *end, size_t *out)
{
    const uint8_t *from = *at;
    if (end - from < 2) {
        return false;
    }
    bool one = from[0] < 0x80;
    if (!one && from[1] >= 0x80) {
        return false;
    }
    *out = one ? from[0] : (size_t)(from[0] & 0x7F) | (size_t)from[1] << 7;
    *at = from + (one ? 1 : 2);
    return *out <= (size_t)(end - *at);
}

/* The end of the entry at `at` if it is one name, which is that of the slot, and one value; else NULL. */
static inline const uint8_t *end_of_known(const tfos__name_slot *slot, const uint8_t *at, const uint8_t *end)
{
    size_t entry;
    size_t value;
    if (*at++ != TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES) || !take_length(&at, end, &entry)) {
        return NULL;
    }
    const uint8_t *behind = at + entry;
    if (entry < 2 + (size_t)slot->bytes + 2 || at[0] != TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES) || at[1] != slot->bytes) {
        return NULL;
    }
    at += 2;
    if (!tfos__name_slot_is(slot, at)) {
        return NULL;
    }
    at += slot->bytes;
    bool one_value = *at++ == TFOS__WIRE_TAG(2, TFOS__WIRE_BYTES) && take_length(&at, behind, &value);
    return one_value && at + value == behind ? behind : NULL;
}

/* Whether the entry at `at` is as it was last. */
static inline bool is_passage(const tfos__passage *passage, const uint8_t *at, const uint8_t *end)
{
    if (passage->bytes == 0 || passage->bytes > (size_t)(end - at)) {
        return false;
    }
    uint64_t difference = ((tfos__load_u64(at) ^ passage->head[0]) & passage->masks[0]) |
                          ((tfos__load_u64(at + 8) ^ passage->head[1]) & passage->masks[1]);
    return difference == 0 && (passage->rest == 0 || memcmp(at + 8 * TFOS__PASSAGE_MASKS,
                                                            &passage->head[TFOS__PASSAGE_MASKS], passage->rest) == 0);
}

/* Remembers the entry in [at, end), of this name. One whose length changes all the time is not worth it: a wrong guess
 * costs more than to look. */
static void learn_passage(tfos__passage *passage, const uint8_t *at, const uint8_t *end, size_t name, uint32_t call)
{
    enum { AROUND_BYTES = 6, SHORT_BYTES = 128 }; /* two tags and lengths before the name, one behind it */
    enum { MOST_MISSES = 32, CALLS_OF_MISS = 8 }; /* a miss is forgotten after so many calls */
    size_t bytes = (size_t)(end - at);
    size_t head = name + AROUND_BYTES;
    if (passage->misses == MOST_MISSES) {
        return;
    }
    uint32_t forgotten = (call - passage->missed) / CALLS_OF_MISS;
    passage->misses = (uint8_t)((passage->misses > forgotten ? passage->misses - forgotten : 0) + 1);
    passage->missed = call;
    passage->bytes = 0;
    if (passage->misses == MOST_MISSES || bytes >= SHORT_BYTES || bytes < sizeof(uint64_t) ||
        head > sizeof passage->head || at[1] != bytes - 2 || at[head - 1] != bytes - head) {
        return; /* or a length has more bytes than it needs, so that the head does not tell all of it */
    }
    passage->bytes = (uint32_t)bytes;
    memcpy(passage->head, at, head);
    for (size_t i = 0; i < TFOS__PASSAGE_MASKS; i++) {
        size_t used = head > 8 * i ? head - 8 * i : 0;
        passage->masks[i] = used >= 8 ? UINT64_MAX : (UINT64_C(1) << (8 * used)) - 1;
    }
    passage->rest = (uint8_t)(head > 8 * TFOS__PASSAGE_MASKS ? head - 8 * TFOS__PASSAGE_MASKS : 0);
}

void tfos__entries_pass(tfos__name_order *order, tfos__wire *map, size_t *position)
{
    const uint8_t *at = map->at;
    size_t here = *position;
    order->calls++;
    for (; at < map->end; here++) {
        size_t slot = here % TFOS__NAME_ORDER_SLOTS;
        tfos__passage *passage = &order->passages[slot];
        if (is_passage(passage, at, map->end)) {
            at += passage->bytes;
            continue;
        }
        const uint8_t *next = tfos__name_order_at(order, slot) == TFOS__NAME_UNKNOWN
                                  ? end_of_known(&order->slots[slot], at, map->end)
                                  : NULL;
        if (next == NULL) {
            break;
        }
        learn_passage(passage, at, next, order->slots[slot].bytes, order->calls);
        at = next;
    }
    map->at = at;
    *position = here;
}
