/* Entries, byte by byte:
 *
 *   header   0   4   magic                      level    0   4   layout
 *            4   4   kind                                4   4   type
 *            8   8   bytes of the entry                  8   4   list_length
 *           16   8   first row                          12   4   zero
 *           24   4   rows                               16   8   length
 *           28   4   levels                             24   8   nulls
 *           32   8   bytes of the text (or schema)       32   8   where the validity begins, 0: all are values
 *           40  24   zero                               40   8   where the offsets begin, 0: the layout has none
 *                                                       48   8   where the data begin, 0: the layout has none
 *                                                       56   8   bytes of the data
 *
 * The levels of a column follow one another, outermost first, and columns have the order of the schema. Buffers follow
 * one another too, in the order validity, offsets, data of each level, each filled up with zeros to the next multiple
 * of
 * 64. Offsets begin at 0 and bitmaps at their first bit, whatever part of a batch they were taken from.
 *
 * Sizes of a part of a batch are found by looking at two offsets a level, so they cost nothing a row. */
#include "feed/entry.h"

#include <assert.h>
#include <stdlib.h>

#include "column/bits.h"

enum { ENTRY_ALIGN = 64, LEVELS_MOST = 3 };

#define ENTRY_MAGIC UINT32_C(0x31655466) /* the bytes "fTe1" */

typedef struct entry_header {
    uint32_t magic;
    uint32_t kind;
    uint64_t bytes;
    uint64_t first_row;
    uint32_t rows;
    uint32_t levels;
    uint64_t text_bytes;
    uint8_t zero_40[24];
} entry_header;

static_assert(offsetof(entry_header, magic) == 0 && offsetof(entry_header, kind) == 4, "drawn above");
static_assert(offsetof(entry_header, bytes) == 8 && offsetof(entry_header, first_row) == 16, "drawn above");
static_assert(offsetof(entry_header, rows) == 24 && offsetof(entry_header, levels) == 28, "drawn above");
static_assert(offsetof(entry_header, text_bytes) == 32 && offsetof(entry_header, zero_40) == 40, "drawn above");
static_assert(sizeof(entry_header) == TFOS__ENTRY_HEADER_BYTES, "drawn above");

typedef struct entry_level {
    uint32_t layout;
    uint32_t type;
    uint32_t list_length;
    uint32_t zero_12;
    uint64_t length;
    uint64_t nulls;
    uint64_t validity;
    uint64_t offsets;
    uint64_t data;
    uint64_t data_bytes;
} entry_level;

static_assert(offsetof(entry_level, layout) == 0 && offsetof(entry_level, type) == 4, "drawn above");
static_assert(offsetof(entry_level, list_length) == 8 && offsetof(entry_level, zero_12) == 12, "drawn above");
static_assert(offsetof(entry_level, length) == 16 && offsetof(entry_level, nulls) == 24, "drawn above");
static_assert(offsetof(entry_level, validity) == 32 && offsetof(entry_level, offsets) == 40, "drawn above");
static_assert(offsetof(entry_level, data) == 48 && offsetof(entry_level, data_bytes) == 56, "drawn above");
static_assert(sizeof(entry_level) == 64, "drawn above");

static size_t align(size_t bytes)
{
    return (bytes + (ENTRY_ALIGN - 1)) & ~(size_t)(ENTRY_ALIGN - 1);
}

static bool has_offsets(tfos_layout layout)
{
    return layout == TFOS_LAYOUT_BYTES || layout == TFOS_LAYOUT_LIST;
}

static bool has_data(tfos_layout layout)
{
    return layout == TFOS_LAYOUT_BYTES || layout == TFOS_LAYOUT_VALUES;
}

static size_t value_bytes(tfos_type type, uint64_t count)
{
    int width = tfos__type_width(type);
    return width == 0 ? tfos__bitmap_bytes((int64_t)count) : (size_t)count * (size_t)width;
}

/* ---- writing ---- */

/* Rows of one level that go into an entry. */
typedef struct part {
    const tfos_vector *vector;
    int64_t first;
    int64_t count;
} part;

/* The rows of the child that belong to rows of a list. */
static part child_part(const part *rows)
{
    const tfos_vector *list = rows->vector;
    if (list->layout == TFOS_LAYOUT_FIXED_LIST) {
        return (part){list->child, rows->first * list->list_length, rows->count * list->list_length};
    }
    int32_t begin = list->offsets[rows->first];
    return (part){list->child, begin, list->offsets[rows->first + rows->count] - begin};
}

static size_t data_bytes_of(const part *rows)
{
    const tfos_vector *vector = rows->vector;
    if (vector->layout == TFOS_LAYOUT_BYTES) {
        return (size_t)(vector->offsets[rows->first + rows->count] - vector->offsets[rows->first]);
    }
    return has_data(vector->layout) ? value_bytes(vector->type, (uint64_t)rows->count) : 0;
}

/* A level has a validity whenever the whole vector has one, also if these rows have no nulls: then the size grows with
 * the rows, as the search in tfos__entry_rows_within needs it. */
static size_t level_bytes(const part *rows)
{
    size_t bytes = sizeof(entry_level) + align(data_bytes_of(rows));
    if (rows->vector->validity != NULL) {
        bytes += align(tfos__bitmap_bytes(rows->count));
    }
    if (has_offsets(rows->vector->layout)) {
        bytes += align((size_t)(rows->count + 1) * sizeof(int32_t));
    }
    return bytes;
}

size_t tfos__entry_column_bytes(const tfos_batch *batch, size_t index, int64_t first, int64_t count)
{
    part rows = {tfos_batch_column(batch, index), first, count};
    size_t bytes = level_bytes(&rows);
    while (rows.vector->child != NULL) {
        rows = child_part(&rows);
        bytes += level_bytes(&rows);
    }
    return bytes;
}

size_t tfos__entry_batch_bytes(const tfos_batch *batch, int64_t first, int64_t count)
{
    assert(first >= 0 && count >= 0 && first + count <= tfos_batch_rows(batch));
    size_t bytes = TFOS__ENTRY_HEADER_BYTES;
    size_t columns = tfos_schema_field_count(tfos_batch_schema(batch));
    for (size_t i = 0; i < columns; i++) {
        bytes += tfos__entry_column_bytes(batch, i, first, count);
    }
    return bytes;
}

int64_t tfos__entry_rows_within(const tfos_batch *batch, int64_t first, int64_t count, size_t limit)
{
    if (tfos__entry_batch_bytes(batch, first, count) <= limit) {
        return count;
    }
    /* `fit` rows fit, or it is 0; `over` rows do not. */
    int64_t fit = 0;
    int64_t over = count;
    while (over - fit > 1) {
        int64_t middle = fit + (over - fit) / 2;
        if (tfos__entry_batch_bytes(batch, first, middle) <= limit) {
            fit = middle;
        } else {
            over = middle;
        }
    }
    return fit;
}

/* Where the next level and the next buffer go. */
typedef struct pen {
    uint8_t *entry;
    size_t level;
    size_t buffer;
} pen;

/* Room for a buffer, with zeros behind its last byte. */
static uint8_t *take_buffer(pen *at, size_t bytes, uint64_t *where)
{
    uint8_t *to = at->entry + at->buffer;
    size_t filled = align(bytes);
    memset(to + bytes, 0, filled - bytes);
    *where = at->buffer;
    at->buffer += filled;
    return to;
}

static void write_bits(uint8_t *to, const uint8_t *bits, const part *rows)
{
    if (rows->count > 0) {
        to[tfos__bitmap_bytes(rows->count) - 1] = 0;
        tfos__bits_copy(to, 0, bits, rows->first, rows->count);
    }
}

static void write_offsets(int32_t *to, const part *rows)
{
    const int32_t *from = rows->vector->offsets + rows->first;
    int32_t begin = from[0];
    for (int64_t i = 0; i <= rows->count; i++) {
        to[i] = from[i] - begin;
    }
}

static void write_data(uint8_t *to, const part *rows, size_t bytes)
{
    const tfos_vector *vector = rows->vector;
    if (vector->layout == TFOS_LAYOUT_VALUES && vector->type == TFOS_TYPE_BOOL) {
        write_bits(to, vector->data, rows);
    } else if (bytes > 0) {
        size_t begin = vector->layout == TFOS_LAYOUT_BYTES ? (size_t)vector->offsets[rows->first]
                                                           : value_bytes(vector->type, (uint64_t)rows->first);
        memcpy(to, (const uint8_t *)vector->data + begin, bytes);
    }
}

static void write_level(pen *at, const part *rows)
{
    const tfos_vector *vector = rows->vector;
    entry_level level = {.layout = (uint32_t)vector->layout,
                         .type = (uint32_t)vector->type,
                         .list_length = (uint32_t)vector->list_length,
                         .length = (uint64_t)rows->count};
    if (vector->validity != NULL) {
        uint8_t *to = take_buffer(at, tfos__bitmap_bytes(rows->count), &level.validity);
        write_bits(to, vector->validity, rows);
        level.nulls = (uint64_t)(rows->count - tfos__bits_count(to, 0, rows->count));
    }
    if (has_offsets(vector->layout)) {
        uint8_t *to = take_buffer(at, (size_t)(rows->count + 1) * sizeof(int32_t), &level.offsets);
        write_offsets((int32_t *)(void *)to, rows);
    }
    if (has_data(vector->layout)) {
        level.data_bytes = data_bytes_of(rows);
        write_data(take_buffer(at, level.data_bytes, &level.data), rows, level.data_bytes);
    }
    memcpy(at->entry + at->level, &level, sizeof level);
    at->level += sizeof level;
}

static uint32_t count_levels(const tfos_schema *schema)
{
    uint32_t levels = 0;
    for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
        const tfos_field *field = tfos_schema_field(schema, i);
        levels += 1 + (field->shape != TFOS_SHAPE_SCALAR) + field->feature_list;
    }
    return levels;
}

void tfos__entry_write_batch(const tfos_batch *batch, int64_t first, int64_t count, uint64_t first_row, uint8_t *to)
{
    assert((uintptr_t)to % ENTRY_ALIGN == 0);
    uint32_t levels = count_levels(tfos_batch_schema(batch));
    pen at = {.entry = to, .level = sizeof(entry_header)};
    at.buffer = at.level + levels * sizeof(entry_level);
    for (size_t i = 0; i < tfos_schema_field_count(tfos_batch_schema(batch)); i++) {
        part rows = {tfos_batch_column(batch, i), first, count};
        write_level(&at, &rows);
        while (rows.vector->child != NULL) {
            rows = child_part(&rows);
            write_level(&at, &rows);
        }
    }
    entry_header header = {.magic = ENTRY_MAGIC,
                           .kind = TFOS__ENTRY_BATCH,
                           .bytes = at.buffer,
                           .first_row = first_row,
                           .rows = (uint32_t)count,
                           .levels = levels};
    memcpy(to, &header, sizeof header);
}

static tfos_status append_text(tfos__entry_kind kind, const void *text, size_t count, tfos__buffer *out,
                               tfos_error *error)
{
    size_t bytes = align(sizeof(entry_header) + count);
    TFOS_TRY(tfos__buffer_reserve(out, out->size + bytes, error));
    entry_header header = {.magic = ENTRY_MAGIC, .kind = kind, .bytes = bytes, .text_bytes = count};
    uint8_t *to = out->data + out->size;
    memcpy(to, &header, sizeof header);
    memcpy(to + sizeof header, text, count);
    memset(to + sizeof header + count, 0, bytes - sizeof header - count);
    out->size += bytes;
    return TFOS_OK;
}

tfos_status tfos__entry_append_schema(const tfos_schema *schema, tfos__buffer *out, tfos_error *error)
{
    char *text;
    TFOS_TRY(tfos_schema_to_json(schema, &text, error));
    tfos_status status = append_text(TFOS__ENTRY_SCHEMA, text, strlen(text), out, error);
    tfos_string_free(text);
    return status;
}

tfos_status tfos__entry_append_text(const void *text, size_t count, tfos__buffer *out, tfos_error *error)
{
    return append_text(TFOS__ENTRY_TEXT, text, count, out, error);
}

void tfos__entry_write_partition(uint64_t rows, uint8_t *to)
{
    entry_header header = {
        .magic = ENTRY_MAGIC, .kind = TFOS__ENTRY_PARTITION, .bytes = sizeof header, .first_row = rows};
    memcpy(to, &header, sizeof header);
}

void tfos__entry_write_gap(size_t bytes, uint8_t *to)
{
    entry_header header = {.magic = ENTRY_MAGIC, .kind = TFOS__ENTRY_GAP, .bytes = bytes};
    memcpy(to, &header, sizeof header);
}

/* ---- reading ---- */

static tfos_status fail_header(const entry_header *header, const char *what, tfos_error *error)
{
    return tfos__fail(error, TFOS_CORRUPT,
                      "an entry of a lane is damaged: %s (kind %u, %llu bytes, first row %llu, %u rows, %u levels)",
                      what, (unsigned)header->kind, (unsigned long long)header->bytes,
                      (unsigned long long)header->first_row, (unsigned)header->rows, (unsigned)header->levels);
}

/* What each kind must look like. `bytes` is right. */
static tfos_status check_kind(const entry_header *header, tfos_error *error)
{
    uint64_t body = header->bytes - sizeof *header;
    switch (header->kind) {
    case TFOS__ENTRY_SCHEMA:
    case TFOS__ENTRY_TEXT:
        if (header->rows != 0 || header->levels != 0 || header->text_bytes > body) {
            return fail_header(header, "a schema, or a text, has a text that lies in it, and no rows", error);
        }
        return TFOS_OK;
    case TFOS__ENTRY_BATCH:
        if (header->rows > INT32_MAX || header->levels > body / sizeof(entry_level) || header->text_bytes != 0) {
            return fail_header(header, "its levels do not lie in it", error);
        }
        return TFOS_OK;
    case TFOS__ENTRY_PARTITION:
        if (header->rows != 0 || header->levels != 0 || header->text_bytes != 0 || body != 0) {
            return fail_header(header, "the end of a partition is a header alone", error);
        }
        return TFOS_OK;
    case TFOS__ENTRY_GAP:
        if (header->rows != 0 || header->levels != 0 || header->text_bytes != 0 || header->first_row != 0) {
            return fail_header(header, "a gap has nothing but its length", error);
        }
        return TFOS_OK;
    default:
        return fail_header(header, "it is of no known kind", error);
    }
}

uint64_t tfos__entry_bytes_of(const uint8_t *header)
{
    return tfos__load_u64(header + offsetof(entry_header, bytes));
}

tfos_status tfos__entry_read(const uint8_t *bytes, size_t count, tfos__entry *out, tfos_error *error)
{
    entry_header header;
    if (count < sizeof header) {
        return tfos__fail(error, TFOS_CORRUPT, "an entry of a lane has %zu bytes at least, found %zu", sizeof header,
                          count);
    }
    /* A copy, so that what was checked is what is used. */
    memcpy(&header, bytes, sizeof header);
    if (header.magic != ENTRY_MAGIC) {
        return tfos__fail(error, TFOS_CORRUPT, "expected an entry of a lane, which begins with 0x%x, found 0x%x",
                          (unsigned)ENTRY_MAGIC, (unsigned)header.magic);
    }
    if (header.bytes < sizeof header || header.bytes % ENTRY_ALIGN != 0 || header.bytes > count) {
        return fail_header(&header, "it must have a multiple of 64 bytes, and not more than are there", error);
    }
    TFOS_TRY(check_kind(&header, error));
    *out = (tfos__entry){.kind = (tfos__entry_kind)header.kind,
                         .bytes = (size_t)header.bytes,
                         .first_row = header.first_row,
                         .rows = header.rows,
                         .levels = header.levels};
    return TFOS_OK;
}

/* How long the text of an entry is, which whoever wrote it can still change. */
static tfos_status measure_text(const uint8_t *bytes, const tfos__entry *entry, size_t *out, tfos_error *error)
{
    uint64_t count = tfos__load_u64(bytes + offsetof(entry_header, text_bytes));
    if (count > entry->bytes - sizeof(entry_header)) {
        return tfos__fail(error, TFOS_CORRUPT, "the text of an entry of a lane has changed while it was read");
    }
    *out = (size_t)count;
    return TFOS_OK;
}

tfos_status tfos__entry_read_schema(const uint8_t *bytes, const tfos__entry *entry, tfos_schema **out,
                                    tfos_error *error)
{
    size_t count = 0;
    assert(entry->kind == TFOS__ENTRY_SCHEMA);
    TFOS_TRY(measure_text(bytes, entry, &count, error));
    tfos_status status = tfos_schema_from_json((const char *)bytes + sizeof(entry_header), count, out, error);
    if (status != TFOS_OK) {
        tfos__error_prefix(error, "in a lane");
    }
    return status;
}

tfos_status tfos__entry_read_text(const uint8_t *bytes, const tfos__entry *entry, tfos__buffer *out, tfos_error *error)
{
    size_t count = 0;
    assert(entry->kind == TFOS__ENTRY_TEXT);
    TFOS_TRY(measure_text(bytes, entry, &count, error));
    return tfos__buffer_append(out, bytes + sizeof(entry_header), count, error);
}

/* What a reader of the levels knows. */
typedef struct walk {
    const uint8_t *bytes;
    const tfos__entry *entry;
    size_t buffers; /* where they may begin */
    uint32_t level;
    const tfos_field *field;
    tfos__entry_views *views;
} walk;

static tfos_status fail_level(const walk *at, const char *what, tfos_error *error)
{
    return tfos__fail(error, TFOS_CORRUPT, "an entry of a lane is damaged: column '%s', level %u: %s",
                      tfos__printable_text(at->field->name).text, (unsigned)at->level, what);
}

/* A buffer of `bytes` at `where`, inside the entry and behind the levels. */
static tfos_status find_buffer(const walk *at, uint64_t where, uint64_t bytes, const void **out, tfos_error *error)
{
    if (where < at->buffers || where % ENTRY_ALIGN != 0 || where > at->entry->bytes ||
        bytes > at->entry->bytes - where) {
        return fail_level(at, "a buffer does not lie in the entry", error);
    }
    *out = at->bytes + where;
    return TFOS_OK;
}

/* A buffer as it was found, for ourselves. */
static tfos_status copy_buffer(const walk *at, uint64_t where, uint64_t bytes, tfos__buffer *copy, tfos_error *error)
{
    const void *found = NULL;
    TFOS_TRY(find_buffer(at, where, bytes, &found, error));
    copy->size = 0;
    return tfos__buffer_append(copy, found, (size_t)bytes, error);
}

static tfos_status read_validity(const walk *at, const entry_level *level, tfos_vector *view, tfos_error *error)
{
    tfos__buffer *copy = &at->views->validity[at->level];
    view->validity = NULL;
    view->null_count = (int64_t)level->nulls;
    if (level->validity == 0) {
        return level->nulls == 0 ? TFOS_OK : fail_level(at, "it has nulls and does not say which", error);
    }
    TFOS_TRY(copy_buffer(at, level->validity, tfos__bitmap_bytes(view->length), copy, error));
    if ((uint64_t)(view->length - tfos__bits_count(copy->data, 0, view->length)) != level->nulls) {
        return fail_level(at, "it has not as many nulls as it says", error);
    }
    view->validity = level->nulls > 0 ? copy->data : NULL;
    return TFOS_OK;
}

/* Offsets begin at 0 and do not fall. The loop has no exit in its middle, so that it can run on vectors. */
static tfos_status read_offsets(const walk *at, const entry_level *level, tfos_vector *view, tfos_error *error)
{
    tfos__buffer *copy = &at->views->offsets[at->level];
    TFOS_TRY(copy_buffer(at, level->offsets, ((uint64_t)view->length + 1) * sizeof(int32_t), copy, error));
    const int32_t *offsets = (const int32_t *)(const void *)copy->data;
    int falls = offsets[0] != 0;
    for (int64_t i = 0; i < view->length; i++) {
        falls |= offsets[i + 1] < offsets[i];
    }
    if (falls) {
        return fail_level(at, "its offsets do not begin at 0, or fall", error);
    }
    view->offsets = offsets;
    return TFOS_OK;
}

static tfos_status read_data(const walk *at, const entry_level *level, tfos_vector *view, tfos_error *error)
{
    uint64_t expected = view->layout == TFOS_LAYOUT_BYTES ? (uint64_t)view->offsets[view->length]
                                                          : value_bytes(view->type, (uint64_t)view->length);
    if (level->data_bytes != expected) {
        return fail_level(at, "it has not as many bytes as its rows need", error);
    }
    return find_buffer(at, level->data, expected, &view->data, error);
}

/* Reads the next level into `view`. It must have this layout and length. */
static tfos_status read_level(walk *at, tfos_layout layout, uint64_t length, tfos_vector *view, tfos_error *error)
{
    entry_level level;
    memcpy(&level, at->bytes + sizeof(entry_header) + at->level * sizeof level, sizeof level);
    uint32_t list_length = layout == TFOS_LAYOUT_FIXED_LIST ? (uint32_t)at->field->length : 0;
    if (level.layout != (uint32_t)layout || level.type != (uint32_t)at->field->type ||
        level.list_length != list_length) {
        return fail_level(at, "it has not the type and shape of the schema", error);
    }
    if (level.length != length || length > (uint64_t)TFOS__VECTOR_MAX || level.nulls > length) {
        return fail_level(at, "it has not as many values as the rows above it", error);
    }
    *view = (tfos_vector){
        .layout = layout, .type = at->field->type, .list_length = (int32_t)list_length, .length = (int64_t)length};
    TFOS_TRY(read_validity(at, &level, view, error));
    if (has_offsets(layout)) {
        TFOS_TRY(read_offsets(at, &level, view, error));
    }
    if (has_data(layout)) {
        TFOS_TRY(read_data(at, &level, view, error));
    }
    at->level++;
    return TFOS_OK;
}

/* The layouts that the levels of a field have, outermost first; returns how many. */
static int layouts_of(const tfos_field *field, tfos_layout *out)
{
    int count = 0;
    if (field->feature_list) {
        out[count++] = TFOS_LAYOUT_LIST;
    }
    if (field->shape != TFOS_SHAPE_SCALAR) {
        out[count++] = field->shape == TFOS_SHAPE_FIXED ? TFOS_LAYOUT_FIXED_LIST : TFOS_LAYOUT_LIST;
    }
    out[count++] = tfos__type_width(field->type) < 0 ? TFOS_LAYOUT_BYTES : TFOS_LAYOUT_VALUES;
    return count;
}

static tfos_status read_column(walk *at, tfos_error *error)
{
    tfos_layout layouts[LEVELS_MOST];
    int count = layouts_of(at->field, layouts);
    uint64_t length = at->entry->rows;
    for (int i = 0; i < count; i++) {
        tfos_vector *view = &at->views->vector[at->level];
        TFOS_TRY(read_level(at, layouts[i], length, view, error));
        if (i + 1 < count) {
            length = view->layout == TFOS_LAYOUT_LIST ? (uint64_t)view->offsets[length]
                                                      : length * (uint64_t)view->list_length;
            view->child = view + 1;
        }
    }
    return TFOS_OK;
}

/* Makes an array longer; what is behind the first `kept` is zero. */
static tfos_status grow(void *array, size_t kept, size_t count, size_t width, tfos_error *error)
{
    void *before;
    memcpy(&before, array, sizeof before);
    uint8_t *longer = realloc(before, count * width);
    if (longer == NULL) {
        return tfos__fail_memory(error, count * width);
    }
    memset(longer + kept * width, 0, (count - kept) * width);
    memcpy(array, &longer, sizeof longer);
    return TFOS_OK;
}

static tfos_status reserve_views(tfos__entry_views *views, size_t levels, size_t columns, tfos_error *error)
{
    if (levels > views->vector_capacity) {
        TFOS_TRY(grow(&views->vector, 0, levels, sizeof *views->vector, error));
        TFOS_TRY(grow(&views->offsets, views->vector_capacity, levels, sizeof *views->offsets, error));
        TFOS_TRY(grow(&views->validity, views->vector_capacity, levels, sizeof *views->validity, error));
        views->vector_capacity = levels;
    }
    if (columns > views->column_capacity) {
        uint32_t *column = realloc(views->column, columns * sizeof *column);
        if (column == NULL) {
            return tfos__fail_memory(error, columns * sizeof *column);
        }
        views->column = column;
        views->column_capacity = columns;
    }
    return TFOS_OK;
}

tfos_status tfos__entry_read_batch(const uint8_t *bytes, const tfos__entry *entry, const tfos_schema *schema,
                                   tfos__entry_views *views, tfos_error *error)
{
    assert(entry->kind == TFOS__ENTRY_BATCH && (uintptr_t)bytes % ENTRY_ALIGN == 0);
    size_t columns = tfos_schema_field_count(schema);
    uint32_t levels = count_levels(schema);
    if (entry->levels != levels) {
        return tfos__fail(error, TFOS_CORRUPT,
                          "an entry of a lane is damaged: the schema has %u levels in %zu columns, the entry has %u",
                          (unsigned)levels, columns, (unsigned)entry->levels);
    }
    TFOS_TRY(reserve_views(views, levels, columns, error));
    walk at = {
        .bytes = bytes, .entry = entry, .buffers = sizeof(entry_header) + levels * sizeof(entry_level), .views = views};
    for (size_t i = 0; i < columns; i++) {
        at.field = tfos_schema_field(schema, i);
        views->column[i] = at.level;
        TFOS_TRY(read_column(&at, error));
    }
    return TFOS_OK;
}

void tfos__entry_views_reset(tfos__entry_views *views)
{
    for (size_t i = 0; i < views->vector_capacity; i++) {
        tfos__buffer_reset(&views->offsets[i]);
        tfos__buffer_reset(&views->validity[i]);
    }
    free(views->vector);
    free(views->offsets);
    free(views->validity);
    free(views->column);
    *views = (tfos__entry_views){0};
}
