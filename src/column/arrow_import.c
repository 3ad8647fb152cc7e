/* Arrow arrays of others to batches.
 *
 * The chain of levels of a column (arrow_type.h) is tied to its array, then rows are copied level by level. Each level
 * is walked in runs of rows that have a value, so that the copy itself (memcpy where the layouts agree) never meets a
 * null. A level that fails says which of its rows is to blame; the level above translates that to a row of its own. */
#include "column/arrow_import.h"

#include <assert.h>

#include "base/status.h"
#include "column/arrow_type.h"

/* ---- binding a chain of levels to an array ---- */

static int64_t buffers_of(const tfos__arrow_level *now)
{
    switch (now->kind) {
    case TFOS__LEVEL_LIST:
    case TFOS__LEVEL_LARGE_LIST:
        return 2;
    case TFOS__LEVEL_FIXED_LIST:
        return 1;
    case TFOS__LEVEL_VALUES:
    case TFOS__LEVEL_DICTIONARY:
        return now->leaf->buffers;
    }
    return 0;
}

/* The pointers that an array of rows must have. Validity may be NULL, and so may the bytes of strings when there are
 * none. */
static bool has_pointers(const tfos__arrow_level *now, const struct ArrowArray *array)
{
    int64_t buffers = buffers_of(now);
    if (array->length < 0 || array->offset < 0 || array->n_buffers < buffers ||
        (buffers > 0 && array->buffers == NULL)) {
        return false;
    }
    bool is_list =
        now->kind == TFOS__LEVEL_LIST || now->kind == TFOS__LEVEL_LARGE_LIST || now->kind == TFOS__LEVEL_FIXED_LIST;
    if (is_list && (array->n_children != 1 || array->children == NULL || array->children[0] == NULL)) {
        return false;
    }
    if (now->kind == TFOS__LEVEL_DICTIONARY && array->dictionary == NULL) {
        return false;
    }
    bool fixed_nothing =
        now->kind == TFOS__LEVEL_VALUES && now->leaf->kind == TFOS__LEAF_FIXED_BYTES && now->width == 0;
    return buffers < 2 || array->length == 0 || fixed_nothing || array->buffers[1] != NULL;
}

static tfos_status bind_levels(tfos__arrow_levels *parsed, const struct ArrowArray *array, tfos_error *error)
{
    for (int i = 0; i < parsed->count; i++) {
        tfos__arrow_level *now = &parsed->at[i];
        if (!has_pointers(now, array)) {
            return tfos__fail(
                error, TFOS_INVALID,
                "the Arrow array does not have the buffers and children of its type (level %d has %lld buffers "
                "and %lld children)",
                i, (long long)array->n_buffers, (long long)array->n_children);
        }
        now->array = array;
        now->validity = buffers_of(now) > 0 && array->null_count != 0 ? array->buffers[0] : NULL;
        array = now->kind == TFOS__LEVEL_DICTIONARY ? array->dictionary
                : now->kind == TFOS__LEVEL_VALUES   ? NULL
                                                    : array->children[0];
    }
    return TFOS_OK;
}

/* ---- copying values ----
 * A run is rows [start, start + count) of an array, all of them with a value; array->offset is added here, at the last
 * moment. On failure *bad is the row, counted from `start`, that is to blame. */

static tfos_status copy_bits(const uint8_t *from, int64_t start, int64_t count, tfos__vector *to, tfos_error *error)
{
    TFOS_TRY(tfos__vector_reserve(to, to->view.length + count, error));
    for (int64_t i = 0; i < count; i++) {
        TFOS_TRY(tfos__vector_push_int(to, tfos__bit_get(from, start + i), error));
    }
    return TFOS_OK;
}

static tfos_status check_u64(const uint64_t *from, int64_t count, int64_t *bad, tfos_error *error)
{
    for (int64_t i = 0; i < count; i++) {
        if (from[i] > INT64_MAX) {
            *bad = i;
            return tfos__fail(error, TFOS_RANGE, "the value %llu does not fit int64, the integer of a record",
                              (unsigned long long)from[i]);
        }
    }
    return TFOS_OK;
}

#define CONVERT(from_type, to_type)                                                                                    \
    do {                                                                                                               \
        const from_type *in = (const from_type *)data + start;                                                         \
        to_type *converted = (to_type *)(void *)end;                                                                   \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            converted[i] = (to_type)in[i];                                                                             \
        }                                                                                                              \
    } while (0)

static tfos_status copy_numbers(tfos__arrow_leaf_kind type, const void *data, int64_t start, int64_t count,
                                tfos__vector *to, int64_t *bad, tfos_error *error)
{
    if (type == TFOS__LEAF_BIT) {
        return copy_bits(data, start, count, to, error);
    }
    if (type == TFOS__LEAF_U64) {
        TFOS_TRY(check_u64((const uint64_t *)data + start, count, bad, error));
    }
    size_t width = (size_t)tfos__type_width(to->view.type);
    TFOS_TRY(tfos__vector_reserve(to, to->view.length + count, error));
    uint8_t *end = to->data.data + (size_t)to->view.length * width;
    switch (type) {
    case TFOS__LEAF_I8:
        CONVERT(int8_t, int32_t);
        break;
    case TFOS__LEAF_U8:
        CONVERT(uint8_t, int32_t);
        break;
    case TFOS__LEAF_I16:
        CONVERT(int16_t, int32_t);
        break;
    case TFOS__LEAF_U16:
        CONVERT(uint16_t, int32_t);
        break;
    case TFOS__LEAF_U32:
        CONVERT(uint32_t, int64_t);
        break;
    case TFOS__LEAF_HALF:
        for (int64_t i = 0; i < count; i++) {
            ((float *)(void *)end)[i] = tfos__half_to_float(((const uint16_t *)data)[start + i]);
        }
        break;
    default: /* the layouts agree */
        memcpy(end, (const uint8_t *)data + (size_t)start * width, (size_t)count * width);
        break;
    }
    to->view.length += count;
    to->data.size += (size_t)count * width;
    return TFOS_OK;
}

/* Where value `row` of a variable-length array is. */
typedef struct span {
    const uint8_t *data;
    int64_t bytes; /* negative: the array contradicts itself */
} span;

static span span_between(const uint8_t *data, int64_t start, int64_t end)
{
    if (start == end) {
        return (span){NULL, 0};
    }
    return data == NULL || start < 0 ? (span){NULL, -1} : (span){data + start, end - start};
}

static span span_at(const tfos__arrow_level *now, int64_t row)
{
    const void *const *buffers = (const void *const *)now->array->buffers;
    switch (now->leaf->kind) {
    case TFOS__LEAF_BYTES: {
        const int32_t *offsets = (const int32_t *)buffers[1] + row;
        return span_between(buffers[2], offsets[0], offsets[1]);
    }
    case TFOS__LEAF_LARGE_BYTES: {
        const int64_t *offsets = (const int64_t *)buffers[1] + row;
        return span_between(buffers[2], offsets[0], offsets[1]);
    }
    case TFOS__LEAF_FIXED_BYTES:
        return span_between(buffers[1], row * now->width, (row + 1) * now->width);
    default: { /* view: length; then up to 12 bytes, or 4 bytes, the number of a buffer and a position in it */
        const uint8_t *view = (const uint8_t *)buffers[1] + row * 16;
        int32_t bytes = (int32_t)tfos__load_u32(view);
        if (bytes <= 12) {
            return (span){view + 4, bytes};
        }
        int32_t buffer = (int32_t)tfos__load_u32(view + 8);
        int32_t position = (int32_t)tfos__load_u32(view + 12);
        if (buffer < 0 || buffer >= now->array->n_buffers - 3 || buffers[2 + buffer] == NULL || position < 0) {
            return (span){NULL, -1};
        }
        return (span){(const uint8_t *)buffers[2 + buffer] + position, bytes};
    }
    }
}

/* Copies strings that lie one behind the other with one memcpy. Text is checked as a whole: it is valid string by
 * string if all of it is and no string begins inside a character. Returns false, having done nothing, if the strings
 * must be looked at one by one. */
static bool copy_bytes_at_once(const tfos__arrow_level *now, int64_t start, int64_t count, tfos__vector *to,
                               tfos_error *error)
{
    bool large = now->leaf->kind == TFOS__LEAF_LARGE_BYTES;
    if (now->leaf->kind != TFOS__LEAF_BYTES && !large) {
        return false;
    }
    const void *offsets = now->array->buffers[1];
    int64_t first = large ? ((const int64_t *)offsets)[start] : ((const int32_t *)offsets)[start];
    int64_t last = large ? ((const int64_t *)offsets)[start + count] : ((const int32_t *)offsets)[start + count];
    int64_t length = to->view.length;
    if (last < first || last - first > TFOS__VECTOR_MAX - (int64_t)to->data.size || now->array->buffers[2] == NULL) {
        return false;
    }
    const uint8_t *bytes = (const uint8_t *)now->array->buffers[2] + first;
    size_t size = (size_t)(last - first);
    bool text = to->view.type == TFOS_TYPE_STRING;
    if ((text && tfos__utf8_valid_prefix(bytes, size) != size) ||
        tfos__vector_reserve(to, length + count, error) != TFOS_OK ||
        tfos__buffer_reserve(&to->data, to->data.size + size, error) != TFOS_OK) {
        return false;
    }
    int32_t *out = tfos__vector_offsets(to) + length + 1;
    int64_t base = (int64_t)to->data.size - first;
    int64_t before = first;
    for (int64_t i = 1; i <= count; i++) {
        int64_t now_at = large ? ((const int64_t *)offsets)[start + i] : ((const int32_t *)offsets)[start + i];
        if (now_at < before || now_at > last || (text && now_at < last && (bytes[now_at - first] & 0xC0) == 0x80)) {
            return false;
        }
        out[i - 1] = (int32_t)(now_at + base);
        before = now_at;
    }
    if (size > 0) {
        memcpy(to->data.data + to->data.size, bytes, size);
    }
    to->data.size += size;
    to->offsets.size += (size_t)count * sizeof(int32_t);
    to->view.length += count;
    return true;
}

static tfos_status copy_bytes(const tfos__arrow_level *now, int64_t start, int64_t count, tfos__vector *to,
                              int64_t *bad, tfos_error *error)
{
    if (count > 1 && copy_bytes_at_once(now, start, count, to, NULL)) {
        return TFOS_OK;
    }
    for (int64_t i = 0; i < count; i++) {
        *bad = i;
        span value = span_at(now, start + i);
        if (value.bytes < 0) {
            return tfos__fail(error, TFOS_INVALID,
                              "the Arrow array is broken: its offsets go backwards or beyond its buffers");
        }
        TFOS_TRY(tfos__vector_push_bytes(to, value.data, (size_t)value.bytes, error));
    }
    return TFOS_OK;
}

/* ---- copying rows ---- */

static tfos_status copy_rows(const tfos__arrow_level *now, int64_t start, int64_t count, tfos__vector *to, int64_t *bad,
                             tfos_error *error);

static int64_t list_offset(const tfos__arrow_level *now, int64_t row)
{
    if (now->kind == TFOS__LEVEL_FIXED_LIST) {
        return row * now->width;
    }
    const void *offsets = now->array->buffers[1];
    return now->kind == TFOS__LEVEL_LIST ? ((const int32_t *)offsets)[row] : ((const int64_t *)offsets)[row];
}

/* The row of a run of lists that holds child `child`, counted from the first child of the run. */
static int64_t row_of_child(const tfos__arrow_level *now, int64_t start, int64_t count, int64_t child)
{
    int64_t first = list_offset(now, start);
    int64_t row = 0;
    while (row + 1 < count && list_offset(now, start + row + 1) - first <= child) {
        row++;
    }
    return row;
}

/* Ends the rows of a run whose values are in the child already; `before` is the child's length without them. */
static tfos_status end_lists(const tfos__arrow_level *now, int64_t start, int64_t count, int64_t before,
                             tfos__vector *to, tfos_error *error)
{
    if (to->view.layout == TFOS_LAYOUT_LIST) {
        TFOS_TRY(tfos__vector_reserve(to, to->view.length + count, error));
        int32_t *out = tfos__vector_offsets(to) + to->view.length + 1;
        int64_t base = before - list_offset(now, start);
        for (int64_t i = 0; i < count; i++) {
            out[i] = (int32_t)(list_offset(now, start + i + 1) + base);
        }
        to->offsets.size += (size_t)count * sizeof(int32_t);
    }
    to->view.length += count;
    return TFOS_OK;
}

static tfos_status copy_lists(const tfos__arrow_level *now, int64_t start, int64_t count, tfos__vector *to,
                              int64_t *bad, tfos_error *error)
{
    for (int64_t i = 0; i < count; i++) {
        if (list_offset(now, start + i + 1) < list_offset(now, start + i)) {
            *bad = i;
            return tfos__fail(error, TFOS_INVALID, "the Arrow array is broken: the offsets of its lists go backwards");
        }
    }
    int64_t first = list_offset(now, start);
    int64_t children = list_offset(now, start + count) - first;
    int64_t before = to->child->view.length;
    int64_t bad_child = 0;
    TFOS_TRY(tfos__vector_reserve(to->child, before + children, error));
    tfos_status status = copy_rows(now + 1, first, children, to->child, &bad_child, error);
    if (status != TFOS_OK) {
        *bad = row_of_child(now, start, count, bad_child);
        return status;
    }
    return end_lists(now, start, count, before, to, error);
}

static int64_t dictionary_index(const tfos__arrow_level *now, int64_t row)
{
    const void *indices = now->array->buffers[1];
    switch (now->leaf->kind) {
    case TFOS__LEAF_I8:
        return ((const int8_t *)indices)[row];
    case TFOS__LEAF_U8:
        return ((const uint8_t *)indices)[row];
    case TFOS__LEAF_I16:
        return ((const int16_t *)indices)[row];
    case TFOS__LEAF_U16:
        return ((const uint16_t *)indices)[row];
    case TFOS__LEAF_I32:
        return ((const int32_t *)indices)[row];
    case TFOS__LEAF_U32:
        return ((const uint32_t *)indices)[row];
    default: /* an unsigned index of 2^63 or more turns negative, which is refused */
        return ((const int64_t *)indices)[row];
    }
}

static tfos_status copy_dictionary(const tfos__arrow_level *now, int64_t start, int64_t count, tfos__vector *to,
                                   int64_t *bad, tfos_error *error)
{
    int64_t values = now->array->dictionary->length;
    for (int64_t i = 0; i < count; i++) {
        *bad = i;
        int64_t index = dictionary_index(now, start + i);
        int64_t bad_value;
        if (index < 0 || index >= values) {
            return tfos__fail(error, TFOS_INVALID,
                              "the Arrow array is broken: index %lld of a dictionary of %lld values", (long long)index,
                              (long long)values);
        }
        TFOS_TRY(copy_rows(now + 1, index, 1, to, &bad_value, error));
    }
    return TFOS_OK;
}

static tfos_status copy_run(const tfos__arrow_level *now, int64_t start, int64_t count, tfos__vector *to, int64_t *bad,
                            tfos_error *error)
{
    if (now->kind == TFOS__LEVEL_DICTIONARY) {
        return copy_dictionary(now, start, count, to, bad, error);
    }
    if (now->kind != TFOS__LEVEL_VALUES) {
        return copy_lists(now, start, count, to, bad, error);
    }
    if (now->leaf->kind < TFOS__LEAF_BYTES) {
        return copy_numbers(now->leaf->kind, now->array->buffers[1], start, count, to, bad, error);
    }
    return copy_bytes(now, start, count, to, bad, error);
}

static bool is_null(const tfos__arrow_level *now, int64_t row)
{
    if (now->kind == TFOS__LEVEL_VALUES && now->leaf->kind == TFOS__LEAF_NULL) {
        return true;
    }
    return now->validity != NULL && !tfos__bit_get(now->validity, row);
}

static tfos_status push_null(const tfos__arrow_level *now, tfos__vector *to, tfos_error *error)
{
    if (!now->takes_null) {
        return tfos__fail(
            error, TFOS_MISMATCH,
            "a null inside a list: the list of a tf.train.Feature cannot hold nulls; fill or drop them first");
    }
    return tfos__vector_push_null(to, error);
}

/* Appends rows [start, start + count) of a level, nulls included, to `to`. */
static tfos_status copy_rows(const tfos__arrow_level *now, int64_t start, int64_t count, tfos__vector *to, int64_t *bad,
                             tfos_error *error)
{
    int64_t row = start + now->array->offset;
    int64_t end = row + count;
    int64_t first = row;
    bool all_valid = now->validity == NULL && !(now->kind == TFOS__LEVEL_VALUES && now->leaf->kind == TFOS__LEAF_NULL);
    while (row < end) {
        int64_t run_end = all_valid ? end : row;
        while (run_end < end && !is_null(now, run_end)) {
            run_end++;
        }
        if (run_end > row) {
            int64_t bad_in_run = 0;
            tfos_status status = copy_run(now, row, run_end - row, to, &bad_in_run, error);
            if (status != TFOS_OK) {
                *bad = row - first + bad_in_run;
                return status;
            }
        }
        for (row = run_end; row < end && is_null(now, row); row++) {
            *bad = row - first;
            TFOS_TRY(push_null(now, to, error));
        }
    }
    return TFOS_OK;
}

/* ---- batch ---- */

static tfos_status check_struct_array(const struct ArrowArray *array, const struct ArrowSchema *schema,
                                      int64_t row_start, int64_t row_count, tfos_error *error)
{
    if (array->release == NULL) {
        return tfos__fail(error, TFOS_INVALID, "the Arrow array was released or never filled");
    }
    if (array->n_children != schema->n_children || array->n_buffers < 1 || array->buffers == NULL ||
        (array->n_children > 0 && array->children == NULL) || array->offset < 0 || array->length < 0) {
        return tfos__fail(error, TFOS_INVALID, "the Arrow array is no struct of %lld columns, as its schema says",
                          (long long)schema->n_children);
    }
    for (int64_t i = 0; i < array->n_children; i++) {
        const struct ArrowArray *column = array->children[i];
        if (column == NULL || column->length < array->offset + array->length) {
            return tfos__fail(error, TFOS_INVALID, "column '%s' has fewer rows than the Arrow struct it is in",
                              tfos__arrow_name(schema->children[i]));
        }
    }
    assert(row_start >= 0 && row_count >= 0 && row_start <= array->length - row_count);
    const uint8_t *validity = array->null_count != 0 ? array->buffers[0] : NULL;
    for (int64_t row = 0; validity != NULL && row < row_count; row++) {
        if (!tfos__bit_get(validity, array->offset + row_start + row)) {
            return tfos__fail(
                error, TFOS_MISMATCH,
                "row %lld is null as a whole: a record has columns that are null, not rows; drop it first",
                (long long)(row_start + row));
        }
    }
    return TFOS_OK;
}

static tfos_status check_field(const tfos_field *found, const tfos_field *expected, tfos_error *error)
{
    if (found->type == expected->type && found->shape == expected->shape && found->length == expected->length &&
        found->feature_list == expected->feature_list) {
        return TFOS_OK;
    }
    char expected_text[64];
    char found_text[64];
    tfos__field_describe(expected, expected_text, sizeof expected_text);
    tfos__field_describe(found, found_text, sizeof found_text);
    return tfos__fail(error, TFOS_MISMATCH, "expected %s, found %s", expected_text, found_text);
}

static tfos_status import_column(const struct ArrowArray *array, const struct ArrowSchema *schema,
                                 const tfos_field *expected, bool raw, int64_t start, int64_t count, tfos__vector *to,
                                 int64_t *bad, tfos_error *error)
{
    tfos__arrow_levels parsed;
    tfos_field found;
    TFOS_TRY(tfos__arrow_parse_field(schema, &parsed, &found, error));
    if (raw && found.type == TFOS_TYPE_STRING) {
        found.type = TFOS_TYPE_BINARY;
    }
    TFOS_TRY(check_field(&found, expected, error));
    TFOS_TRY(bind_levels(&parsed, array, error));
    int64_t bad_row = 0;
    tfos_status status = copy_rows(&parsed.at[0], start, count, to, &bad_row, error);
    if (status != TFOS_OK) {
        *bad = bad_row;
    }
    return status;
}

/* The column of an Arrow struct for the field at `index`: the same position as a rule, else by name. */
static int64_t find_column(const struct ArrowSchema *schema, const tfos_field *field, size_t index)
{
    if ((int64_t)index < schema->n_children && strcmp(tfos__arrow_name(schema->children[index]), field->name) == 0) {
        return (int64_t)index;
    }
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (strcmp(tfos__arrow_name(schema->children[i]), field->name) == 0) {
            return i;
        }
    }
    return -1;
}

static tfos_status import_columns(const struct ArrowArray *array, const struct ArrowSchema *schema,
                                  const tfos_schema *as, int64_t row_start, int64_t row_count, tfos_batch *batch,
                                  tfos_error *error)
{
    bool raw = tfos_schema_kind(as) == TFOS_RECORD_BYTES;
    if (schema->n_children != (int64_t)tfos_schema_field_count(as)) {
        return tfos__fail(error, TFOS_MISMATCH, "expected %zu columns, found %lld", tfos_schema_field_count(as),
                          (long long)schema->n_children);
    }
    for (size_t i = 0; i < tfos_schema_field_count(as); i++) {
        const tfos_field *field = tfos_schema_field(as, i);
        int64_t at = raw ? 0 : find_column(schema, field, i);
        if (at < 0) {
            return tfos__fail(error, TFOS_MISMATCH, "column '%s' is missing", tfos__printable_text(field->name).text);
        }
        int64_t bad = -1;
        tfos_status status =
            import_column(array->children[at], schema->children[at], field, raw, array->offset + row_start, row_count,
                          tfos__batch_vector(batch, i), &bad, error);
        if (status != TFOS_OK && bad >= 0) {
            tfos__error_prefix(error, "row %lld", (long long)(row_start + bad));
        }
        TFOS_TRY(tfos__arrow_prefix_column(status, schema->children[at], error));
    }
    if (raw && tfos__batch_vector(batch, 0)->view.null_count > 0) {
        return tfos__fail(error, TFOS_MISMATCH,
                          "column '%s' has nulls: a record of raw bytes cannot be null, drop them first",
                          tfos__arrow_name(schema->children[0]));
    }
    return TFOS_OK;
}

tfos_status tfos__batch_import(const struct ArrowArray *array, const struct ArrowSchema *schema, const tfos_schema *as,
                               int64_t row_start, int64_t row_count, tfos_batch **out, tfos_error *error)
{
    TFOS_TRY(tfos__arrow_check_struct(schema, error));
    TFOS_TRY(check_struct_array(array, schema, row_start, row_count, error));
    tfos_batch *batch;
    TFOS_TRY(tfos__batch_new(as, &batch, error));
    tfos_status status = import_columns(array, schema, as, row_start, row_count, batch, error);
    if (status == TFOS_OK) {
        status = tfos__batch_finish(batch, row_count, error);
    }
    if (status != TFOS_OK) {
        tfos_batch_free(batch);
        return status;
    }
    *out = batch;
    return TFOS_OK;
}
