/* Texts for people: sizes, counts, tables, values. */
#include <stdlib.h>

#include "cli/cli.h"
#include "column/vector.h"
#include "record/json_lines.h"

tfos__cli_text tfos__cli_show_bytes(double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1024;
        unit++;
    }
    tfos__cli_text out;
    snprintf(out.text, sizeof out.text, unit == 0 || bytes >= 100 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
    return out;
}

tfos__cli_text tfos__cli_show_count(int64_t count)
{
    char digits[24];
    tfos__cli_text out;
    size_t used = 0;
    int length = snprintf(digits, sizeof digits, "%lld", (long long)count);
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-') {
            out.text[used++] = ' ';
        }
        out.text[used++] = digits[i];
    }
    out.text[used] = '\0';
    return out;
}

size_t tfos__cli_text_width(const char *text, size_t bytes)
{
    size_t width = 0;
    for (size_t i = 0; i < bytes; i++) {
        width += ((unsigned char)text[i] & 0xC0) != 0x80;
    }
    return width;
}

void tfos__cli_show_text(const char *text, size_t bytes, tfos__buffer *out)
{
    const unsigned char *in = (const unsigned char *)text;
    size_t valid = tfos__utf8_valid_prefix(in, bytes);
    size_t from = 0;
    for (size_t i = 0; i < bytes; i++) {
        bool second = i > 0 && in[i - 1] == 0xC2 && in[i] < 0xA0; /* of U+0080 to U+009F */
        bool first = in[i] == 0xC2 && i + 1 < bytes && in[i + 1] < 0xA0;
        if (i != valid && in[i] >= 0x20 && in[i] != 0x7F && in[i] != '\\' && !first && !second) {
            continue;
        }
        (void)tfos__buffer_append(out, in + from, i - from, NULL);
        (void)tfos__buffer_printf(out, NULL, "\\x%02x", in[i]);
        from = i + 1;
        valid = i == valid ? from + tfos__utf8_valid_prefix(in + from, bytes - from) : valid;
    }
    (void)tfos__buffer_append(out, in + from, bytes - from, NULL);
}

/* ---- tables ---- */

struct tfos__cli_table {
    size_t columns;
    const char *alignment;
    char **cells;
    size_t count;
    size_t capacity;
    size_t *widths;
};

/* A table without memory for its cells is printed without them: what fits is shown. */
tfos__cli_table *tfos__cli_table_new(size_t columns, const char *right_aligned)
{
    tfos__cli_table *table = calloc(1, sizeof *table);
    if (table != NULL) {
        table->columns = columns;
        table->alignment = right_aligned;
        table->widths = calloc(columns, sizeof *table->widths);
    }
    if (table != NULL && table->widths == NULL) {
        free(table);
        return NULL;
    }
    return table;
}

void tfos__cli_table_add(tfos__cli_table *table, const char *cell)
{
    if (tfos__array_reserve(&table->cells, table->count, &table->capacity, sizeof *table->cells, NULL) != TFOS_OK) {
        return;
    }
    tfos__buffer text = {0};
    tfos__cli_show_text(cell, strlen(cell), &text);
    char *copy = text.size > 0 ? strndup((const char *)text.data, text.size) : strdup("");
    tfos__buffer_reset(&text);
    if (copy == NULL) {
        return;
    }
    size_t *widest = &table->widths[table->count % table->columns];
    size_t width = tfos__cli_text_width(copy, strlen(copy));
    *widest = width > *widest ? width : *widest;
    table->cells[table->count++] = copy;
}

/* Whether the row has nothing more from this cell on: then no spaces lead there. */
static bool rest_is_empty(const tfos__cli_table *table, size_t at)
{
    for (; at < table->count && at % table->columns != 0; at++) {
        if (table->cells[at][0] != '\0') {
            return false;
        }
    }
    return true;
}

void tfos__cli_table_print(const tfos__cli_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        size_t column = i % table->columns;
        const char *cell = table->cells[i];
        bool last = column + 1 == table->columns || i + 1 == table->count;
        int pad = (int)(table->widths[column] - tfos__cli_text_width(cell, strlen(cell)));
        bool right = table->alignment[column] == 'r';
        const char *gap = column == 0 || (last && cell[0] == '\0') ? "" : "  ";
        tfos__cli_print("%s%*s%s%s", gap, right ? pad : 0, "", cell, last ? "\n" : "");
        if (!last && !right && !rest_is_empty(table, i + 1)) {
            tfos__cli_print("%*s", pad, "");
        }
    }
}

void tfos__cli_table_free(tfos__cli_table *table)
{
    if (table != NULL) {
        for (size_t i = 0; i < table->count; i++) {
            free(table->cells[i]);
        }
        free(table->cells);
        free(table->widths);
        free(table);
    }
}

/* ---- values ---- */

static void append(tfos__buffer *out, const char *text)
{
    (void)tfos__buffer_append(out, text, strlen(text), NULL);
}

/* Where a text can be cut so that it has at most `width` characters. */
static size_t cut_at(const uint8_t *text, size_t bytes, size_t width)
{
    size_t at = 0;
    for (size_t seen = 0; at < bytes; at++) {
        seen += (text[at] & 0xC0) != 0x80;
        if (seen > width) {
            break;
        }
    }
    return at;
}

static void show_bytes(const tfos_vector *vector, int64_t row, size_t width, tfos__buffer *out)
{
    const uint8_t *bytes = (const uint8_t *)vector->data + vector->offsets[row];
    size_t count = (size_t)(vector->offsets[row + 1] - vector->offsets[row]);
    size_t shown = count;
    bool text = vector->type == TFOS_TYPE_STRING;
    if (width > 0) {
        size_t room = width > 24 ? width - 20 : 4;
        shown = text ? cut_at(bytes, count, room) : count > room / 2 ? room / 2 : count;
    }
    if (text) {
        (void)tfos__json_write_string(bytes, shown, out, NULL);
    } else {
        append(out, "0x");
        for (size_t i = 0; i < shown; i++) {
            (void)tfos__buffer_printf(out, NULL, "%02x", bytes[i]);
        }
    }
    if (shown < count) {
        (void)tfos__buffer_printf(out, NULL, "… (%zu bytes)", count);
    }
}

/* As many values as fit, then how many there are. */
static void show_list(const tfos_vector *vector, int64_t row, size_t width, tfos__buffer *out)
{
    bool fixed = vector->layout == TFOS_LAYOUT_FIXED_LIST;
    int64_t start = fixed ? row * vector->list_length : vector->offsets[row];
    int64_t end = fixed ? start + vector->list_length : vector->offsets[row + 1];
    size_t begin = out->size;
    append(out, "[");
    for (int64_t i = start; i < end; i++) {
        size_t before = out->size;
        append(out, i > start ? ", " : "");
        tfos__cli_show_value(vector->child, i, width > 0 ? width / 2 : 0, out);
        size_t used = tfos__cli_text_width((const char *)out->data + begin, out->size - begin);
        if (width > 0 && used + 16 > width && i > start && i + 1 < end) {
            out->size = before;
            (void)tfos__buffer_printf(out, NULL, ", … %lld values", (long long)(end - start));
            break;
        }
    }
    append(out, "]");
}

void tfos__cli_show_value(const tfos_vector *vector, int64_t row, size_t width, tfos__buffer *out)
{
    if (tfos__vector_is_null(vector, row)) {
        append(out, "null");
    } else if (vector->layout == TFOS_LAYOUT_BYTES) {
        show_bytes(vector, row, width, out);
    } else if (vector->layout == TFOS_LAYOUT_VALUES) {
        (void)tfos__json_write_value(vector, row, out, NULL);
    } else {
        show_list(vector, row, width, out);
    }
}
