/* Schema: an array of fields and a hash table over their names.
 *
 * The table is open addressing with linear probing; a slot holds the index of a field plus one, 0 when it is free. It
 * is at most half full, so a probe for a name that is not there ends. */
#include "column/schema.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/choice.h"
#include "base/status.h"
#include "column/rows_note.h"

struct tfos_schema {
    atomic_int references;
    tfos_record_kind kind;
    tfos_field *fields;
    size_t count;
    size_t capacity;
    uint32_t *slots;
    size_t slot_count;         /* a power of two */
    char *note;                /* NULL: none */
    _Atomic(tfos_rows *) rows; /* what it says of them, once somebody has asked */
    uint64_t print;            /* the fingerprint of the fields … */
    uint64_t note_print;
};

enum { FIRST_CAPACITY = 16, MAX_NOTE_BYTES = 1 << 20 };

static const char *const type_names[] = {
#define NAME(name, text, format, width) text,
    TFOS_TYPE_MAP(NAME)
#undef NAME
        NULL};

static const char *const type_formats[] = {
#define FORMAT(name, text, format, width) format,
    TFOS_TYPE_MAP(FORMAT)
#undef FORMAT
};

static const int type_widths[] = {
#define WIDTH(name, text, format, width) width,
    TFOS_TYPE_MAP(WIDTH)
#undef WIDTH
};

enum { TYPE_COUNT = sizeof type_widths / sizeof type_widths[0] };

const char *tfos__type_format(tfos_type type)
{
    assert((unsigned)type < TYPE_COUNT);
    return type_formats[type];
}

int tfos__type_width(tfos_type type)
{
    assert((unsigned)type < TYPE_COUNT);
    return type_widths[type];
}

/* ---- names ---- */

static const char *const shape_names[] = {"scalar", "fixed", "ragged", NULL};
const char *const tfos__record_kind_names[] = {"auto", "example", "sequence_example", "bytes", NULL};

TFOS__CHOICE_FUNCTIONS(type, "type", type_names)
TFOS__CHOICE_FUNCTIONS(shape, "shape", shape_names)
TFOS__CHOICE_FUNCTIONS(record_kind, "kind of record", tfos__record_kind_names)

void tfos__field_describe(const tfos_field *field, char *out, size_t bytes)
{
    const char *prefix = field->feature_list ? "list of " : "";
    const char *type = tfos_type_name(field->type);
    switch (field->shape) {
    case TFOS_SHAPE_SCALAR:
        snprintf(out, bytes, "%s%s", prefix, type);
        break;
    case TFOS_SHAPE_FIXED:
        snprintf(out, bytes, "%s%s[%d]", prefix, type, (int)field->length);
        break;
    case TFOS_SHAPE_RAGGED:
        snprintf(out, bytes, "%s%s[]", prefix, type);
        break;
    }
}

/* ---- table of names ---- */

static uint32_t *probe(const tfos_schema *schema, const void *name, size_t bytes)
{
    size_t mask = schema->slot_count - 1;
    size_t at = (size_t)tfos__hash(name, bytes) & mask;
    for (;; at = (at + 1) & mask) {
        uint32_t *slot = &schema->slots[at];
        if (*slot == 0) {
            return slot;
        }
        const char *there = schema->fields[*slot - 1].name;
        if (strlen(there) == bytes && memcmp(there, name, bytes) == 0) {
            return slot;
        }
    }
}

int64_t tfos__schema_find(const tfos_schema *schema, const void *name, size_t bytes)
{
    return (int64_t)*probe(schema, name, bytes) - 1;
}

int64_t tfos_schema_find(const tfos_schema *schema, const char *name)
{
    return tfos__schema_find(schema, name, strlen(name));
}

/* Doubles fields and slots together, so that the table stays at most half full. */
static tfos_status grow(tfos_schema *schema, tfos_error *error)
{
    size_t capacity = schema->capacity == 0 ? FIRST_CAPACITY : schema->capacity * 2;
    tfos_field *fields = realloc(schema->fields, capacity * sizeof *fields);
    if (fields == NULL) {
        return tfos__fail_memory(error, capacity * sizeof *fields);
    }
    schema->fields = fields;
    uint32_t *slots = calloc(capacity * 2, sizeof *slots);
    if (slots == NULL) {
        return tfos__fail_memory(error, capacity * 2 * sizeof *slots);
    }
    free(schema->slots);
    schema->slots = slots;
    schema->slot_count = capacity * 2;
    schema->capacity = capacity;
    for (size_t i = 0; i < schema->count; i++) {
        const char *name = schema->fields[i].name;
        *probe(schema, name, strlen(name)) = (uint32_t)i + 1;
    }
    return TFOS_OK;
}

/* ---- fingerprints ---- */

/* FNV-1a, which is the same everywhere; the hash of the table of names has a seed. */
static const uint64_t PRINT_START = UINT64_C(0xCBF29CE484222325);

static uint64_t print_bytes(uint64_t print, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        print = (print ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001B3);
    }
    return print;
}

static uint64_t print_number(uint64_t print, uint32_t number)
{
    uint8_t bytes[4] = {(uint8_t)number, (uint8_t)(number >> 8), (uint8_t)(number >> 16), (uint8_t)(number >> 24)};
    return print_bytes(print, bytes, sizeof bytes);
}

static uint64_t print_field(uint64_t print, const tfos_field *field)
{
    print = print_bytes(print, field->name, strlen(field->name) + 1);
    print = print_number(print, (uint32_t)field->type);
    print = print_number(print, (uint32_t)field->shape);
    print = print_number(print, (uint32_t)field->length);
    return print_number(print, (field->nullable ? 1u : 0u) | (field->feature_list ? 2u : 0u));
}

uint64_t tfos_schema_fingerprint(const tfos_schema *schema)
{
    return print_number(schema->print, (uint32_t)schema->kind) ^ schema->note_print;
}

static bool same_text(const char *left, const char *right)
{
    return left == right || (left != NULL && right != NULL && strcmp(left, right) == 0);
}

static bool same_field(const tfos_field *left, const tfos_field *right)
{
    return left->type == right->type && left->shape == right->shape && left->length == right->length &&
           left->nullable == right->nullable && left->feature_list == right->feature_list &&
           strcmp(left->name, right->name) == 0;
}

bool tfos_schema_equal(const tfos_schema *left, const tfos_schema *right)
{
    if (left == right) {
        return true;
    }
    bool same = tfos_schema_fingerprint(left) == tfos_schema_fingerprint(right) && left->kind == right->kind &&
                left->count == right->count && same_text(left->note, right->note);
    for (size_t i = 0; same && i < left->count; i++) {
        same = same_field(&left->fields[i], &right->fields[i]);
    }
    return same;
}

/* ---- life ---- */

static tfos_status append(tfos_schema *schema, const tfos_field *field, tfos_error *error)
{
    if (schema->count == schema->capacity) {
        TFOS_TRY(grow(schema, error));
    }
    uint32_t *slot = probe(schema, field->name, strlen(field->name));
    if (*slot != 0) {
        return tfos__fail(error, TFOS_INVALID, "column '%s' is in the schema twice",
                          tfos__printable_text(field->name).text);
    }
    char *name = strdup(field->name);
    if (name == NULL) {
        return tfos__fail_memory(error, strlen(field->name) + 1);
    }
    schema->fields[schema->count] = *field;
    schema->fields[schema->count].name = name;
    *slot = (uint32_t)++schema->count;
    schema->print = print_field(schema->print, field);
    return TFOS_OK;
}

tfos_status tfos_schema_new(tfos_record_kind kind, tfos_schema **out, tfos_error *error)
{
    assert(kind != TFOS_RECORD_AUTO);
    tfos_schema *schema = calloc(1, sizeof *schema);
    if (schema == NULL) {
        return tfos__fail_memory(error, sizeof *schema);
    }
    atomic_init(&schema->references, 1);
    schema->kind = kind;
    schema->print = PRINT_START;
    tfos_status status = grow(schema, error);
    if (status == TFOS_OK && kind == TFOS_RECORD_BYTES) {
        status = append(schema, &(tfos_field){.name = "record", .type = TFOS_TYPE_BINARY}, error);
    }
    if (status != TFOS_OK) {
        tfos_schema_free(schema);
        return status;
    }
    *out = schema;
    return TFOS_OK;
}

tfos_schema *tfos__schema_retain(const tfos_schema *schema)
{
    tfos_schema *shared = (tfos_schema *)(uintptr_t)schema;
    atomic_fetch_add_explicit(&shared->references, 1, memory_order_relaxed);
    return shared;
}

void tfos_schema_free(tfos_schema *schema)
{
    if (schema == NULL || atomic_fetch_sub_explicit(&schema->references, 1, memory_order_acq_rel) > 1) {
        return;
    }
    for (size_t i = 0; i < schema->count; i++) {
        free((char *)(uintptr_t)schema->fields[i].name);
    }
    free(schema->fields);
    free(schema->slots);
    free(schema->note);
    tfos__rows_free(atomic_load(&schema->rows));
    free(schema);
}

static tfos_status check_field(const tfos_schema *schema, const tfos_field *field, tfos_error *error)
{
    size_t bytes = strlen(field->name);
    if (bytes == 0 || bytes > TFOS_SCHEMA_MAX_NAME_BYTES) {
        return tfos__fail(error, TFOS_INVALID, "a column name must have 1 to %d bytes, found %zu",
                          TFOS_SCHEMA_MAX_NAME_BYTES, bytes);
    }
    tfos__printable name = tfos__printable_of(field->name, bytes);
    if (tfos__utf8_valid_prefix(field->name, bytes) != bytes) {
        return tfos__fail(error, TFOS_ENCODING, "the column name '%s' is not valid UTF-8", name.text);
    }
    if (field->shape == TFOS_SHAPE_FIXED ? field->length < 0 || field->length > TFOS_SCHEMA_MAX_LENGTH
                                         : field->length != 0) {
        return tfos__fail(error, TFOS_INVALID,
                          "column '%s': a fixed list has a length from 0 to %d, other shapes have none; found %d",
                          name.text, TFOS_SCHEMA_MAX_LENGTH, (int)field->length);
    }
    if (schema->kind == TFOS_RECORD_BYTES) {
        return tfos__fail(error, TFOS_INVALID, "a schema of raw bytes has the one column 'record', not '%s'",
                          name.text);
    }
    if (field->feature_list && schema->kind != TFOS_RECORD_SEQUENCE) {
        return tfos__fail(error, TFOS_INVALID,
                          "column '%s' is a feature list, which only a sequence_example has: set \"record\"",
                          name.text);
    }
    if (schema->count >= TFOS_SCHEMA_MAX_FIELDS) {
        return tfos__fail(error, TFOS_LIMIT, "more than %d columns", TFOS_SCHEMA_MAX_FIELDS);
    }
    return TFOS_OK;
}

tfos_status tfos_schema_add(tfos_schema *schema, const tfos_field *field, tfos_error *error)
{
    TFOS_TRY(check_field(schema, field, error));
    return append(schema, field, error);
}

tfos_status tfos_schema_set_note(tfos_schema *schema, const char *note, tfos_error *error)
{
    char *copy = NULL;
    if (note != NULL) {
        size_t bytes = strlen(note);
        if (bytes > MAX_NOTE_BYTES) {
            return tfos__fail(error, TFOS_LIMIT, "the note of a schema has at most %d bytes, found %zu", MAX_NOTE_BYTES,
                              bytes);
        }
        /* The JSON form is text. */
        size_t valid = tfos__utf8_valid_prefix(note, bytes);
        if (valid != bytes) {
            return tfos__fail(error, TFOS_ENCODING, "the note of a schema is not valid UTF-8 at byte %zu", valid);
        }
        copy = strdup(note);
        if (copy == NULL) {
            return tfos__fail_memory(error, bytes + 1);
        }
    }
    free(schema->note);
    tfos__rows_free(atomic_exchange(&schema->rows, NULL));
    schema->note = copy;
    schema->note_print = copy != NULL ? print_bytes(PRINT_START, copy, strlen(copy)) : 0;
    return TFOS_OK;
}

/* ---- questions ---- */

tfos_record_kind tfos_schema_kind(const tfos_schema *schema)
{
    return schema->kind;
}

size_t tfos_schema_field_count(const tfos_schema *schema)
{
    return schema->count;
}

const tfos_field *tfos_schema_field(const tfos_schema *schema, size_t index)
{
    assert(index < schema->count);
    return &schema->fields[index];
}

const char *tfos_schema_note(const tfos_schema *schema)
{
    return schema->note;
}

/* Several threads may ask for the first time: what one of them has read is for all. */
tfos_status tfos_schema_rows(const tfos_schema *schema, const tfos_rows **out, tfos_error *error)
{
    tfos_schema *shared = (tfos_schema *)(uintptr_t)schema;
    tfos_rows *rows = atomic_load(&shared->rows);
    if (rows == NULL) {
        tfos_rows *before = NULL;
        TFOS_TRY(tfos__rows_parse(schema->note, &rows, error));
        if (!atomic_compare_exchange_strong(&shared->rows, &before, rows)) {
            tfos__rows_free(rows);
            rows = before;
        }
    }
    *out = rows;
    return TFOS_OK;
}

/* "a, b, c, …": what the user could have meant. */
static void list_names(const tfos_schema *schema, char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < schema->count; i++) {
        tfos__printable name = tfos__printable_text(schema->fields[i].name);
        size_t need = strlen(name.text) + 2;
        if (used + need + 8 > bytes) {
            snprintf(out + used, bytes - used, ", …");
            return;
        }
        used += (size_t)snprintf(out + used, bytes - used, "%s%s", i == 0 ? "" : ", ", name.text);
    }
}

tfos_status tfos_schema_select(const tfos_schema *schema, const char *const *names, size_t count, tfos_schema **out,
                               tfos_error *error)
{
    tfos_schema *chosen;
    TFOS_TRY(tfos_schema_new(schema->kind, &chosen, error));
    tfos_status status = tfos_schema_set_note(chosen, schema->note, error);
    for (size_t i = 0; i < count && status == TFOS_OK; i++) {
        int64_t at = tfos_schema_find(schema, names[i]);
        if (at < 0) {
            char there[512];
            list_names(schema, there, sizeof there);
            status = tfos__fail(error, TFOS_INVALID, "there is no column '%s'; the columns are: %s",
                                tfos__printable_text(names[i]).text, there);
        } else if (schema->kind != TFOS_RECORD_BYTES) {
            status = append(chosen, &schema->fields[at], error);
        }
    }
    if (status != TFOS_OK) {
        tfos_schema_free(chosen);
        return status;
    }
    *out = chosen;
    return TFOS_OK;
}

int64_t tfos__schema_rows_for(const tfos_schema *schema, int64_t batch_rows, int64_t batch_bytes)
{
    int64_t row_bytes = 0;
    for (size_t i = 0; i < schema->count; i++) {
        const tfos_field *field = &schema->fields[i];
        if (field->shape == TFOS_SHAPE_FIXED && !field->feature_list) {
            row_bytes += (int64_t)field->length * 8;
        }
    }
    int64_t fitting = row_bytes > 0 ? 4 * batch_bytes / row_bytes : batch_rows;
    return tfos__max_i64(1, tfos__min_i64(fitting, batch_rows));
}
