/* Records to rows.
 *
 * A record is walked once. Each feature's name is turned into a column (usually by one comparison, see example.h) and
 * its values go straight into the column's buffers; features that no column wants are stepped over by their length.
 * Columns that were not met get a null.
 *
 * The two common shapes have a path of their own: one number, and a packed list of floats. */
#include "record/decode.h"

#include <assert.h>
#include <stdlib.h>

#include "base/status.h"

typedef struct target {
    tfos__vector *vector; /* of the current batch */
    tfos__vector *leaf;   /* its innermost level */
    const tfos_field *field;
    tfos__feature_kind kind; /* that a record must have */
    bool simple;             /* one float or int64 */
    int32_t multiple;        /* of which a list of any length has values; 0: any */
    void *values;            /* of a simple column: the memory of its vector, which has room for all rows */
    int64_t met;             /* the row in which the feature was last met */
    int64_t occurrences;     /* of the feature in the record, that are still to come: see put_last_values */
} target;

/* A number at its place in the order of names. */
typedef struct step {
    tfos__shape shape;
    target *column;
} step;

/* What is done with the values of a record. */
typedef enum pass_kind { PASS_ALL, PASS_COUNT, PASS_LAST } pass_kind;

struct tfos__decoder {
    tfos_schema *schema;
    tfos_record_kind record_kind;
    int64_t room;   /* rows that the batch may get */
    int64_t row;    /* the next */
    size_t met;     /* columns met in this row */
    bool nulls;     /* some column of this row is null */
    int64_t filled; /* values of this batch that stand for missing lists inside feature lists */
    pass_kind pass;
    bool wide;             /* see shape.h */
    bool confirms;         /* see tfos__decoder_confirm */
    bool confirms_some;    /* of the features */
    bool confirms_example; /* an Example was asked for, and feature lists do not matter */
    size_t count;
    target *columns;
    tfos__joined joined;
    tfos__name_order features; /* of Example and of the context */
    tfos__name_order lists;
    step steps[TFOS__NAME_ORDER_SLOTS]; /* of `features`, where the column is simple */
};

static bool is_simple(const tfos_field *field)
{
    return field->shape == TFOS_SHAPE_SCALAR && !field->feature_list &&
           (field->type == TFOS_TYPE_FLOAT || field->type == TFOS_TYPE_INT64);
}

tfos_status tfos__decoder_new(const tfos_schema *schema, tfos__decoder **out, tfos_error *error)
{
    size_t count = tfos_schema_field_count(schema);
    tfos__decoder *decoder = calloc(1, sizeof *decoder);
    target *columns = calloc(count + 1, sizeof *columns);
    if (decoder == NULL || columns == NULL) {
        free(decoder);
        free(columns);
        return tfos__fail_memory(error, sizeof *decoder + count * sizeof *columns);
    }
    decoder->schema = tfos__schema_retain(schema);
    decoder->record_kind = tfos_schema_kind(schema);
    decoder->count = count;
    decoder->columns = columns;
    decoder->wide = tfos__shape_is_wide();
    for (size_t i = 0; i < count; i++) {
        columns[i].field = tfos_schema_field(schema, i);
        columns[i].kind = tfos__feature_kind_of(columns[i].field->type);
        columns[i].simple = is_simple(columns[i].field);
    }
    *out = decoder;
    return TFOS_OK;
}

void tfos__decoder_free(tfos__decoder *decoder)
{
    if (decoder != NULL) {
        tfos_schema_free(decoder->schema);
        tfos__joined_reset(&decoder->joined);
        free(decoder->columns);
        free(decoder);
    }
}

/* Scalars have room for every row from the start, so that appending one is a store. */
tfos_status tfos__decoder_begin(tfos__decoder *decoder, tfos_batch *batch, int64_t rows, tfos_error *error)
{
    decoder->row = 0;
    decoder->room = rows;
    decoder->filled = 0;
    for (size_t i = 0; i < decoder->count; i++) {
        target *column = &decoder->columns[i];
        column->vector = tfos__batch_vector(batch, i);
        column->leaf = column->vector;
        while (column->leaf->child != NULL) {
            column->leaf = column->leaf->child;
        }
        column->met = -1;
        TFOS_TRY(tfos__vector_reserve(column->vector, rows, error));
        column->values = column->vector->data.data;
    }
    return TFOS_OK;
}

int64_t tfos__decoder_rows(const tfos__decoder *decoder)
{
    return decoder->row;
}

void tfos__decoder_narrow(tfos__decoder *decoder)
{
    decoder->wide = false;
}

void tfos__decoder_confirm(tfos__decoder *decoder, tfos_record_kind asked, bool some)
{
    decoder->confirms = true;
    decoder->confirms_some = some;
    decoder->confirms_example = asked == TFOS_RECORD_EXAMPLE;
}

void tfos__decoder_expect_multiples(tfos__decoder *decoder, const int32_t *multiples)
{
    for (size_t i = 0; i < decoder->count; i++) {
        decoder->columns[i].multiple = multiples[i];
    }
}

static tfos_status not_confirmed(tfos_error *error)
{
    return tfos__fail(error, TFOS_MISMATCH, "the record has more than the schema says");
}

static tfos_status not_a_message(tfos__decoder *decoder, tfos_error *error)
{
    TFOS_TRY(tfos__joined_check(&decoder->joined, error));
    return tfos__fail(
        error, TFOS_CORRUPT,
        "the record is no tf.train.%s: its bytes do not parse (to read it as it is, ask for records of kind "
        "bytes)",
        decoder->record_kind == TFOS_RECORD_SEQUENCE ? "SequenceExample" : "Example");
}

static tfos__printable shown(const target *column)
{
    return tfos__printable_text(column->field->name);
}

static tfos_status name_column(const target *column, tfos_status status, tfos_error *error)
{
    tfos__error_prefix(error, "column '%s'", shown(column).text);
    return status;
}

tfos_status tfos__fail_filled(int32_t length, tfos_error *error)
{
    return tfos__fail(error, TFOS_LIMIT,
                      "missing lists of %d values would take more than %d values of a batch: declare the shape [null], "
                      "or lower batch_rows",
                      (int)length, TFOS__MOST_FILLED_VALUES);
}

/* ---- values ---- */

/* Appends a packed run of floats. */
static tfos_status put_floats(tfos__vector *leaf, const uint8_t *from, size_t count, tfos_error *error)
{
    int64_t length = leaf->view.length;
    TFOS_TRY(tfos__vector_reserve(leaf, length + (int64_t)count, error));
    if (leaf->view.type == TFOS_TYPE_FLOAT) {
        memcpy(leaf->data.data + leaf->data.size, from, count * sizeof(float));
        leaf->data.size += count * sizeof(float);
    } else {
        double *to = (double *)(void *)leaf->data.data + length;
        for (size_t i = 0; i < count; i++) {
            float value;
            memcpy(&value, from + i * sizeof value, sizeof value);
            to[i] = (double)value;
        }
        leaf->data.size += count * sizeof(double);
    }
    leaf->view.length = length + (int64_t)count;
    return TFOS_OK;
}

/* Appends a packed run of int64 to a column of int64, its count known: no check per value. */
static bool put_int64s(tfos__vector *leaf, tfos__wire packed, size_t count)
{
    int64_t *to = (int64_t *)(void *)leaf->data.data + leaf->view.length;
    for (size_t i = 0; i < count; i++) {
        uint64_t value;
        if (!tfos__wire_varint(&packed, &value)) {
            return false;
        }
        to[i] = (int64_t)value;
    }
    leaf->view.length += (int64_t)count;
    leaf->data.size += count * sizeof(int64_t);
    return true;
}

static tfos_status put_packed(tfos__decoder *decoder, target *column, tfos__wire packed, tfos_error *error)
{
    tfos__vector *leaf = column->leaf;
    size_t bytes = (size_t)(packed.end - packed.at);
    if (column->kind == TFOS__FEATURE_BYTES) {
        tfos_status status = tfos__vector_push_bytes(leaf, packed.at, bytes, error);
        return status == TFOS_OK ? TFOS_OK : name_column(column, status, error);
    }
    if (bytes == 0) {
        return TFOS_OK; /* no numbers, and a column without any may have no memory yet */
    }
    if (column->kind == TFOS__FEATURE_FLOAT) {
        if (bytes % sizeof(float) != 0) {
            return not_a_message(decoder, error);
        }
        return put_floats(leaf, packed.at, bytes / sizeof(float), error);
    }
    if (leaf->view.type == TFOS_TYPE_INT64) {
        size_t count = 0; /* a varint ends with a byte below 128 */
        for (const uint8_t *at = packed.at; at < packed.end; at++) {
            count += *at < 0x80;
        }
        TFOS_TRY(tfos__vector_reserve(leaf, leaf->view.length + (int64_t)count, error));
        bool whole = packed.end[-1] < 0x80;
        return whole && put_int64s(leaf, packed, count) ? TFOS_OK : not_a_message(decoder, error);
    }
    while (packed.at < packed.end) {
        uint64_t value;
        if (!tfos__wire_varint(&packed, &value)) {
            return not_a_message(decoder, error);
        }
        tfos_status status = tfos__vector_push_int(leaf, (int64_t)value, error);
        if (status != TFOS_OK) {
            return name_column(column, status, error);
        }
    }
    return TFOS_OK;
}

/* One field of a list message: a packed run, a single value, or something unknown. */
static tfos_status put_field(tfos__decoder *decoder, target *column, tfos__wire *list, uint32_t tag, tfos_error *error)
{
    uint64_t value;
    tfos__wire packed;
    if (tag == TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES)) {
        if (!tfos__wire_bytes(list, &packed)) {
            return not_a_message(decoder, error);
        }
        return put_packed(decoder, column, packed, error);
    }
    if (column->kind == TFOS__FEATURE_INT64 && tag == TFOS__WIRE_TAG(1, TFOS__WIRE_VARINT)) {
        if (!tfos__wire_varint(list, &value)) {
            return not_a_message(decoder, error);
        }
        tfos_status status = tfos__vector_push_int(column->leaf, (int64_t)value, error);
        return status == TFOS_OK ? TFOS_OK : name_column(column, status, error);
    }
    if (column->kind == TFOS__FEATURE_FLOAT && tag == TFOS__WIRE_TAG(1, TFOS__WIRE_FIXED32)) {
        if (list->end - list->at < 4) {
            return not_a_message(decoder, error);
        }
        list->at += 4;
        return put_floats(column->leaf, list->at - 4, 1, error);
    }
    return tfos__wire_skip(list, tag) ? TFOS_OK : not_a_message(decoder, error);
}

static tfos_status put_list(tfos__decoder *decoder, target *column, tfos__wire list, tfos_error *error)
{
    while (list.at < list.end) {
        uint32_t tag;
        if (!tfos__wire_tag(&list, &tag)) {
            return not_a_message(decoder, error);
        }
        TFOS_TRY(put_field(decoder, column, &list, tag, error));
    }
    return TFOS_OK;
}

/* ---- features ---- */

/* Ends the row of `level` (the column's own, or the inner one of a feature list) after its values were appended. */
static tfos_status end_row(target *column, tfos__vector *level, int64_t values, tfos_error *error)
{
    if (level->child != NULL) {
        if (column->multiple > 1 && values % column->multiple != 0) {
            return tfos__fail(error, TFOS_MISMATCH, "column '%s': expected a multiple of %d values, found %lld",
                              shown(column).text, (int)column->multiple, (long long)values);
        }
        tfos_status status = tfos__vector_push_list(level, error);
        return status == TFOS_OK ? TFOS_OK : name_column(column, status, error);
    }
    if (values != 1 && column->field->shape != TFOS_SHAPE_SCALAR) {
        return tfos__fail(error, TFOS_MISMATCH,
                          "column '%s': expected one value in each feature of its feature list, found %lld: declare "
                          "the column as a list of lists",
                          shown(column).text, (long long)values);
    }
    if (values != 1) {
        return tfos__fail(error, TFOS_MISMATCH,
                          "column '%s': expected one value, found %lld: declare the column as a list, shape [null]",
                          shown(column).text, (long long)values);
    }
    return TFOS_OK;
}

/* A feature without a kind. Inside a feature list, two bytes then stand for all values of a list of fixed length, as
 * often as a record has room for them: what a batch may hold of these is bounded. */
static tfos_status put_null(tfos__decoder *decoder, target *column, tfos__vector *level, tfos_error *error)
{
    if (level != column->vector && !column->field->feature_list) {
        return end_row(column, level, 0, error); /* a list has no place for it */
    }
    if (level != column->vector && column->field->shape == TFOS_SHAPE_FIXED) {
        if (decoder->confirms) {
            return not_confirmed(error); /* such lists are not inferred to have a fixed length */
        }
        decoder->filled += column->field->length;
        if (decoder->filled > TFOS__MOST_FILLED_VALUES) {
            tfos_status status = tfos__fail_filled(column->field->length, error);
            return name_column(column, status, error);
        }
    }
    decoder->nulls = true;
    return tfos__vector_push_null(level, error);
}

static tfos_status put_feature(tfos__decoder *decoder, target *column, tfos__vector *level, tfos__wire value,
                               tfos_error *error)
{
    tfos__feature feature;
    if (!tfos__feature_parse(value, &feature)) {
        return not_a_message(decoder, error);
    }
    if (feature.kind == TFOS__FEATURE_NONE) {
        return put_null(decoder, column, level, error);
    }
    if (feature.kind != column->kind) {
        return tfos__fail(error, TFOS_MISMATCH, "column '%s': expected %s values for type %s, found %s",
                          shown(column).text, tfos__feature_kind_name(column->kind),
                          tfos_type_name(column->field->type), tfos__feature_kind_name(feature.kind));
    }
    int64_t before = column->leaf->view.length;
    tfos__wire list = feature.list;
    if (feature.simple) {
        TFOS_TRY(put_list(decoder, column, list, error));
    } else {
        while (tfos__feature_next_list(&feature, &list)) {
            TFOS_TRY(put_list(decoder, column, list, error));
        }
    }
    return end_row(column, level, column->leaf->view.length - before, error);
}

/* Stores the number of a simple column. False if it is not one number: take the general way. */
TFOS__SHAPE_INLINE bool put_number(target *column, int64_t row, const uint8_t *at, size_t bytes, bool wide)
{
    tfos__vector *vector = column->vector;
    if (column->kind == TFOS__FEATURE_FLOAT) {
        if (bytes != sizeof(float)) {
            return false;
        }
        memcpy((float *)column->values + row, at, sizeof(float));
        vector->data.size = (size_t)(row + 1) * sizeof(float);
    } else {
        uint64_t number;
        if (!tfos__shape_whole(at, bytes, &number, wide)) {
            return false;
        }
        ((int64_t *)column->values)[row] = (int64_t)number;
        vector->data.size = (size_t)(row + 1) * sizeof(int64_t);
    }
    vector->view.length = row + 1;
    return true;
}

TFOS__SHAPE_INLINE void put_all_shaped(tfos__decoder *decoder, tfos__wire *map, size_t *position, bool wide)
{
    const uint8_t *at = map->at;
    const uint8_t *end = map->end;
    int64_t row = decoder->row;
    size_t here = *position;
    const step *next = &decoder->steps[here % TFOS__NAME_ORDER_SLOTS];
    for (;; here++, next = here % TFOS__NAME_ORDER_SLOTS != 0 ? next + 1 : decoder->steps) {
        target *column = next->column;
        size_t bytes = tfos__shape_match(&next->shape, at, end);
        if (bytes == 0 || column->met == row || !put_number(column, row, at + next->shape.bytes, bytes, wide)) {
            break;
        }
        column->met = row;
        at += next->shape.bytes + bytes;
    }
    decoder->met += here - *position;
    *position = here;
    map->at = at;
}

/* Takes as many entries as have the shape that they had in the record before: usually nearly all. Functions of their
 * own, so that what the loop needs stays in registers. */
__attribute__((noinline)) static void put_shaped(tfos__decoder *decoder, tfos__wire *map, size_t *position)
{
    put_all_shaped(decoder, map, position, false);
}

TFOS__SHAPE_WIDE __attribute__((noinline)) static void put_shaped_wide(tfos__decoder *decoder, tfos__wire *map,
                                                                       size_t *position)
{
    put_all_shaped(decoder, map, position, true);
}

static tfos_status put_feature_list(tfos__decoder *decoder, target *column, tfos__wire value, tfos_error *error)
{
    while (value.at < value.end) {
        uint32_t tag;
        tfos__wire feature;
        if (!tfos__wire_tag(&value, &tag)) {
            return not_a_message(decoder, error);
        }
        if (tag != TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES)) {
            if (!tfos__wire_skip(&value, tag)) {
                return not_a_message(decoder, error);
            }
            continue;
        }
        if (!tfos__wire_bytes(&value, &feature)) {
            return not_a_message(decoder, error);
        }
        TFOS_TRY(put_feature(decoder, column, column->vector->child, feature, error));
    }
    return tfos__vector_push_list(column->vector, error);
}

/* Whether a value is left out in this pass. */
static bool is_left_out(const tfos__decoder *decoder, target *column)
{
    column->occurrences += decoder->pass == PASS_COUNT ? 1 : -1;
    return decoder->pass == PASS_COUNT || column->occurrences > 0;
}

/* The value of a map entry for a column that wants it. A name that comes again replaces what it had: the last one wins.
 */
static tfos_status put_entry(tfos__decoder *decoder, target *column, tfos__wire value, bool lists, tfos_error *error)
{
    if (__builtin_expect(decoder->pass != PASS_ALL, 0) && is_left_out(decoder, column)) {
        return TFOS_OK;
    }
    if (column->met == decoder->row) {
        tfos__vector_truncate(column->vector, decoder->row);
    } else {
        column->met = decoder->row;
        decoder->met++;
    }
    size_t number = column->simple ? tfos__feature_one_number(value, column->kind) : 0;
    if (number > 0 && put_number(column, decoder->row, value.at + 4, number, false)) {
        return TFOS_OK;
    }
    if (lists) {
        return put_feature_list(decoder, column, value, error);
    }
    return put_feature(decoder, column, column->vector, value, error);
}

/* Whether a column takes its values from there. A list of any length may be a feature of the context or a feature list
 * of single values: it looks the same in a column, and whoever states a schema may not know. */
static bool is_taken_from(const tfos_field *field, bool lists)
{
    return field->feature_list == lists || (lists && field->shape == TFOS_SHAPE_RAGGED);
}

static int32_t look_up(tfos__decoder *decoder, tfos__wire name, bool lists)
{
    int64_t id = tfos__schema_find(decoder->schema, name.at, (size_t)(name.end - name.at));
    bool taken = id >= 0 && is_taken_from(decoder->columns[id].field, lists);
    return taken ? (int32_t)id : TFOS__NAME_UNKNOWN;
}

/* Whether a name that has not been met before goes with what the schema says of names. */
static bool is_confirmed(const tfos__decoder *decoder, tfos__wire name, bool lists)
{
    int64_t id = tfos__schema_find(decoder->schema, name.at, (size_t)(name.end - name.at));
    return id >= 0 ? decoder->columns[id].field->feature_list == lists : decoder->confirms_some;
}

/* Remembers what the name at this position is. */
static void learn(tfos__decoder *decoder, size_t position, tfos__wire name, int32_t id, bool lists)
{
    tfos__name_order_put(lists ? &decoder->lists : &decoder->features, position, name, id);
    if (lists) {
        return;
    }
    step *next = &decoder->steps[position % TFOS__NAME_ORDER_SLOTS];
    tfos__shape_forget(&next->shape);
    if (id >= 0 && decoder->columns[id].simple) {
        next->column = &decoder->columns[id];
        tfos__shape_make(&next->shape, name, next->column->kind);
    }
}

/* The entries of Features or, with `lists`, of FeatureLists. */
static tfos_status put_entries(tfos__decoder *decoder, tfos__wire map, bool lists, size_t *position, tfos_error *error)
{
    tfos__name_order *order = lists ? &decoder->lists : &decoder->features;
    while (map.at < map.end) {
        if (decoder->pass == PASS_ALL) {
            const uint8_t *before = map.at;
            if (!lists) {
                (decoder->wide ? put_shaped_wide : put_shaped)(decoder, &map, position);
            }
            tfos__entries_pass(order, &map, position);
            if (map.at != before) {
                continue;
            }
        }
        uint32_t tag;
        tfos__wire entry;
        tfos__wire name;
        tfos__wire value;
        if (!tfos__wire_tag(&map, &tag)) {
            return not_a_message(decoder, error);
        }
        if (tag != TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES)) {
            if (!tfos__wire_skip(&map, tag)) {
                return not_a_message(decoder, error);
            }
            continue;
        }
        if (!tfos__wire_bytes(&map, &entry) || !tfos__entry_parse(entry, &decoder->joined, &name, &value)) {
            return not_a_message(decoder, error);
        }
        int32_t id = tfos__name_order_get(order, *position, name);
        if (id == TFOS__NAME_MISS) {
            if (decoder->confirms && !is_confirmed(decoder, name, lists)) {
                return not_confirmed(error);
            }
            id = look_up(decoder, name, lists);
            learn(decoder, *position, name, id, lists);
        }
        ++*position;
        if (id >= 0) {
            TFOS_TRY(put_entry(decoder, &decoder->columns[id], value, lists, error));
        }
    }
    return TFOS_OK;
}

static tfos_status put_message(tfos__decoder *decoder, tfos__wire record, tfos_error *error)
{
    bool sequence = decoder->record_kind == TFOS_RECORD_SEQUENCE;
    size_t positions[2] = {0, 0};
    while (record.at < record.end) {
        uint32_t tag;
        tfos__wire map;
        if (!tfos__wire_tag(&record, &tag)) {
            return not_a_message(decoder, error);
        }
        bool lists = tag == TFOS__WIRE_TAG(2, TFOS__WIRE_BYTES);
        if (lists && !sequence && decoder->confirms && !decoder->confirms_example) {
            return not_confirmed(error);
        }
        if (tag != TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES) && !(lists && sequence)) {
            if (!tfos__wire_skip(&record, tag)) {
                return not_a_message(decoder, error);
            }
            continue;
        }
        if (!tfos__wire_bytes(&record, &map)) {
            return not_a_message(decoder, error);
        }
        TFOS_TRY(put_entries(decoder, map, lists, &positions[lists], error));
    }
    return TFOS_OK;
}

/* A null for each column that the record does not have. */
static tfos_status put_missing(tfos__decoder *decoder, tfos_error *error)
{
    decoder->nulls = true;
    for (size_t i = 0; i < decoder->count; i++) {
        target *column = &decoder->columns[i];
        if (column->met != decoder->row) {
            TFOS_TRY(tfos__vector_push_null(column->vector, error));
        }
    }
    return TFOS_OK;
}

/* A feature without a kind is missing too, so this looks at the nulls and not at what was met. */
static tfos_status check_missing(tfos__decoder *decoder, tfos_error *error)
{
    for (size_t i = 0; i < decoder->count; i++) {
        const target *column = &decoder->columns[i];
        if (column->vector->view.null_count > 0 && !column->field->nullable) {
            return tfos__fail(error, TFOS_MISMATCH,
                              "column '%s': expected a value, the feature is missing: declare the column as nullable, "
                              "or leave such records out",
                              shown(column).text);
        }
    }
    return TFOS_OK;
}

static tfos_status put_row(tfos__decoder *decoder, const uint8_t *record, size_t bytes, tfos_error *error)
{
    decoder->met = 0;
    decoder->nulls = false;
    if (decoder->count == 0 && !decoder->confirms) {
        return TFOS_OK; /* whoever wants no column counts rows: there is nothing to parse for that */
    }
    if (decoder->record_kind == TFOS_RECORD_BYTES) {
        return tfos__vector_push_bytes(decoder->columns[0].vector, record, bytes, error);
    }
    TFOS_TRY(put_message(decoder, (tfos__wire){record, record + bytes}, error));
    if (decoder->met < decoder->count) {
        TFOS_TRY(put_missing(decoder, error));
    }
    return decoder->nulls ? check_missing(decoder, error) : TFOS_OK;
}

static void take_back_row(tfos__decoder *decoder)
{
    for (size_t i = 0; i < decoder->count; i++) {
        target *column = &decoder->columns[i];
        tfos__vector_truncate(column->vector, decoder->row);
        column->met = -1;
        column->values = column->vector->data.data; /* a list where one number was expected may have moved it */
    }
}

/* A value that does not go with the schema does not matter if a later one of the same name replaces it. That is so rare
 * that it is only looked at when a row has failed: then the values are counted, and only the last ones put. */
static tfos_status put_last_values(tfos__decoder *decoder, const uint8_t *record, size_t bytes, tfos_status failure,
                                   tfos_error *error)
{
    tfos__wire wire = {record, record + bytes};
    if (!tfos__message_valid(wire, decoder->record_kind == TFOS_RECORD_SEQUENCE, &decoder->joined)) {
        return not_a_message(decoder, error);
    }
    bool repeated = false;
    for (size_t i = 0; i < decoder->count; i++) {
        decoder->columns[i].occurrences = 0;
    }
    decoder->pass = PASS_COUNT;
    tfos_status status = put_message(decoder, wire, error);
    for (size_t i = 0; i < decoder->count; i++) {
        repeated = repeated || decoder->columns[i].occurrences > 1;
    }
    decoder->pass = PASS_LAST;
    status = status == TFOS_OK && repeated ? put_row(decoder, record, bytes, error) : failure;
    decoder->pass = PASS_ALL;
    return status;
}

tfos_status tfos__decoder_row(tfos__decoder *decoder, const uint8_t *record, size_t bytes, tfos_error *error)
{
    assert(decoder->row < decoder->room);
    tfos_status status = put_row(decoder, record, bytes, error);
    if (__builtin_expect(status != TFOS_OK, 0)) {
        take_back_row(decoder);
        if (status == TFOS_MISMATCH || status == TFOS_RANGE || status == TFOS_ENCODING) {
            status = put_last_values(decoder, record, bytes, status, error);
        }
    }
    if (__builtin_expect(status != TFOS_OK, 0)) {
        take_back_row(decoder);
        return status;
    }
    decoder->row++;
    return TFOS_OK;
}
