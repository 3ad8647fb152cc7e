/* tf.train.Example and SequenceExample on the wire.
 *
 *   Example         { 1: Features }
 *   SequenceExample { 1: Features (context)   2: FeatureLists }
 *   Features        { 1: map entry { 1: name   2: Feature } … }
 *   FeatureLists    { 1: map entry { 1: name   2: FeatureList } … }
 *   FeatureList     { 1: Feature … }
 *   Feature         { 1: BytesList | 2: FloatList | 3: Int64List }, each { 1: value … }
 *
 * The usual encoding of an entry is taken in a few comparisons; everything else that protobuf allows (fields in another
 * order, repeated, unpacked, unknown) takes the long way and means the same. */
#ifndef TFOS_RECORD_EXAMPLE_H
#define TFOS_RECORD_EXAMPLE_H

#include "base/wire.h"

/* The number of the field in Feature. */
typedef enum tfos__feature_kind {
    TFOS__FEATURE_NONE = 0, /* no kind set: as if the feature were missing */
    TFOS__FEATURE_BYTES = 1,
    TFOS__FEATURE_FLOAT = 2,
    TFOS__FEATURE_INT64 = 3,
} tfos__feature_kind;

const char *tfos__feature_kind_name(tfos__feature_kind kind);

/* The kind that holds values of a type. */
tfos__feature_kind tfos__feature_kind_of(tfos_type type);

/* A Feature whose kind is known. `list` covers the one list message when `simple`; otherwise the Feature itself, in
 * which the lists of the last kind are to be joined (tfos__feature_next_list). */
typedef struct tfos__feature {
    tfos__feature_kind kind;
    bool simple;
    tfos__wire list;
} tfos__feature;

/* The long way of tfos__feature_parse. */
bool tfos__feature_parse_slow(tfos__wire wire, tfos__feature *out);

static inline bool tfos__feature_parse(tfos__wire wire, tfos__feature *out)
{
    /* One list, shorter than 128 bytes or not, that fills the message. */
    size_t bytes = (size_t)(wire.end - wire.at);
    if (bytes >= 2 && (wire.at[0] == 0x0A || wire.at[0] == 0x12 || wire.at[0] == 0x1A)) {
        tfos__wire rest = {wire.at + 1, wire.end};
        if (tfos__wire_bytes(&rest, &out->list) && rest.at == rest.end) {
            out->kind = (tfos__feature_kind)(wire.at[0] >> 3);
            out->simple = true;
            return true;
        }
    }
    return tfos__feature_parse_slow(wire, out);
}

/* One number in the usual encoding: kind tag, length, value tag, length, value. Numbers of more than eight bytes are
 * left to the general way. Returns the bytes of the value, which begin at value.at + 4, or 0. */
static inline size_t tfos__feature_one_number(tfos__wire value, tfos__feature_kind kind)
{
    const uint8_t *at = value.at;
    size_t bytes = (size_t)(value.end - at);
    if (bytes < 5 || bytes > 12 || at[0] != (kind << 3 | TFOS__WIRE_BYTES) || at[1] != bytes - 2 || at[2] != 0x0A ||
        at[3] != bytes - 4) {
        return 0;
    }
    return bytes - 4;
}

/* For a feature that is not simple: the next list of its kind, in order. False when there is none. */
bool tfos__feature_next_list(tfos__feature *feature, tfos__wire *list);

/* The number of values in a list message of this kind; -1 if it is no such message. */
int64_t tfos__list_count(tfos__feature_kind kind, tfos__wire list);

/* Where the parts of a value are put together. `{0}` is empty. */
typedef struct tfos__joined {
    tfos__buffer bytes;
    size_t refused; /* bytes that a join could not get: the record did not parse, but is not known to be wrong */
} tfos__joined;

void tfos__joined_reset(tfos__joined *joined);

/* For whoever found that a record does not parse: NO_MEMORY if a join was the cause, which is then forgotten. */
tfos_status tfos__joined_check(tfos__joined *joined, tfos_error *error);

/* The long way of tfos__entry_parse. */
bool tfos__entry_parse_slow(tfos__wire entry, tfos__joined *joined, tfos__wire *name, tfos__wire *value);

/* The name and the value of a map entry. Absent ones are empty. A value that occurs more than once is merged, which for
 * messages means that their bytes are put one after the other, in `joined`. */
static inline bool tfos__entry_parse(tfos__wire entry, tfos__joined *joined, tfos__wire *name, tfos__wire *value)
{
    if (entry.end - entry.at >= 2 && entry.at[0] == 0x0A) {
        tfos__wire rest = {entry.at + 1, entry.end};
        if (tfos__wire_bytes(&rest, name) && rest.end - rest.at >= 2 && *rest.at == 0x12) {
            rest.at++;
            if (tfos__wire_bytes(&rest, value) && rest.at == rest.end) {
                return true;
            }
        }
    }
    return tfos__entry_parse_slow(entry, joined, name, value);
}

/* Whether a whole record parses as an Example or, with `sequence`, as a SequenceExample, down to the last value. */
bool tfos__message_valid(tfos__wire record, bool sequence, tfos__joined *joined);

/* ---- names in their usual order ---- */

/* Writers put features in the same order in every record. So the name at position i is first compared with the name
 * that was at position i of the record before, and only looked up if it differs. */
typedef struct tfos__name_slot {
    int32_t found; /* what the name was last found to be, counted from MISS: 0 in a slot that was never filled */
    uint32_t bytes;
    uint8_t name[56];
} tfos__name_slot;

enum { TFOS__NAME_ORDER_SLOTS = 4096, TFOS__NAME_UNKNOWN = -1, TFOS__NAME_MISS = -2 };

/* An entry that nobody wants, as it was last: its length, and all that comes before its value. As long as these stay
 * the same, it is stepped over without waiting for its length to be read. */
enum { TFOS__PASSAGE_WORDS = 5, TFOS__PASSAGE_MASKS = 2 };

typedef struct tfos__passage {
    uint32_t bytes;  /* of the entry; 0: not known */
    uint32_t missed; /* the call in which it was last another one */
    uint8_t misses;  /* of late */
    uint8_t rest;    /* bytes of `head` behind the words that have masks */
    uint64_t head[TFOS__PASSAGE_WORDS];
    uint64_t masks[TFOS__PASSAGE_MASKS]; /* of the first words */
} tfos__passage;

/* Begins as zeros. It is large, and what is never looked at need not be touched: opening a small file must not cost
 * more than reading it. */
typedef struct tfos__name_order {
    tfos__name_slot slots[TFOS__NAME_ORDER_SLOTS];
    tfos__passage passages[TFOS__NAME_ORDER_SLOTS];
    uint32_t calls; /* of tfos__entries_pass */
} tfos__name_order;

void tfos__name_order_put(tfos__name_order *order, size_t position, tfos__wire name, int32_t id);

/* What is in a slot that was filled. */
static inline int32_t tfos__name_order_at(const tfos__name_order *order, size_t slot)
{
    return order->slots[slot].found + TFOS__NAME_MISS;
}

/* Eight bytes at a time. Both sides may be read up to seven bytes beyond their end: the slot by its size, the record
 * because buffers have slack. */
static inline bool tfos__name_slot_is(const tfos__name_slot *slot, const uint8_t *name)
{
    size_t bytes = slot->bytes;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t difference = tfos__load_u64(name + i) ^ tfos__load_u64(slot->name + i);
        if (bytes - i < 8) {
            difference &= (UINT64_C(1) << (8 * (bytes - i))) - 1;
        }
        if (difference != 0) {
            return false;
        }
    }
    return true;
}

static inline int32_t tfos__name_order_get(const tfos__name_order *order, size_t position, tfos__wire name)
{
    const tfos__name_slot *slot = &order->slots[position % TFOS__NAME_ORDER_SLOTS];
    bool same = slot->bytes == (size_t)(name.end - name.at) && tfos__name_slot_is(slot, name.at);
    return same ? slot->found + TFOS__NAME_MISS : TFOS__NAME_MISS;
}

/* Steps over entries of a map whose names were not known at the same positions before: nothing of them is looked at but
 * their lengths and their names. Stops at any other, and at one that is not in the usual form. */
void tfos__entries_pass(tfos__name_order *order, tfos__wire *map, size_t *position);

#endif
