/* Columns are filled a slice of rows at a time and handed to the writer as Arrow arrays: any program with columns in
 * memory can write like this.
 *
 * The values are spread as in real data, because the cost of a record depends on it: an int64 takes one to ten bytes on
 * the wire, in a pattern that no branch predictor learns, and strings differ in length. */
#include "records_data.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SLICE_ROWS = 4096,
    FLOATS = 13,
    INTS = 26,
    SCALARS = FLOATS + INTS + 1,
    PIXELS = 784,
    TEXT_MAX = 40,
};

typedef struct column {
    char name[16];
    struct ArrowSchema type;
    struct ArrowArray array;
    const void *buffers[3];
    struct ArrowSchema *child_type;
    struct ArrowArray *child_array;
} column;

/* splitmix64: short, and good enough for values that nobody studies. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Between 0 and 1. */
static float draw_float(uint64_t *state)
{
    return (float)(draw(state) >> 40) / (float)(1 << 24);
}

/* Below 2^bits, small numbers as often as large ones; one in a hundred is negative. */
static int64_t draw_int(uint64_t *state, unsigned bits)
{
    uint64_t choice = draw(state);
    int64_t value = (int64_t)(draw(state) >> (64 - 1 - choice % bits));
    return (choice >> 32) % 100 == 0 ? -value : value;
}

static void *room(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) {
        fputs("records_bench: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

/* The writer only borrows the arrays; what they hold is freed by whoever made it. */
static void release_type(struct ArrowSchema *type)
{
    type->release = NULL;
}

static void release_array(struct ArrowArray *array)
{
    array->release = NULL;
}

static void column_init(column *to, const char *format, int64_t buffers)
{
    to->type = (struct ArrowSchema){.format = format, .name = to->name, .release = release_type};
    to->array = (struct ArrowArray){.n_buffers = buffers, .buffers = to->buffers, .release = release_array};
}

static void column_nest(column *list, column *item)
{
    list->child_type = &item->type;
    list->child_array = &item->array;
    list->type.n_children = list->array.n_children = 1;
    list->type.children = &list->child_type;
    list->array.children = &list->child_array;
}

static tfos_status write_slice(tfos_writer *writer, column *columns, size_t count, int64_t rows, tfos_error *error)
{
    struct ArrowSchema *types[SCALARS];
    struct ArrowArray *arrays[SCALARS];
    const void *none[1] = {NULL};
    for (size_t i = 0; i < count; i++) {
        types[i] = &columns[i].type;
        arrays[i] = &columns[i].array;
        columns[i].array.length = rows;
    }
    struct ArrowSchema type = {.format = "+s", .n_children = (int64_t)count, .children = types};
    struct ArrowArray array = {.length = rows, .n_buffers = 1, .n_children = (int64_t)count};
    type.release = release_type;
    array.release = release_array;
    array.buffers = none;
    array.children = arrays;
    return tfos_writer_write_arrow(writer, &array, &type, error);
}

/* ---- scalars ---- */

static void scalars_init(column *columns)
{
    for (int i = 0; i < FLOATS; i++) {
        snprintf(columns[i].name, sizeof columns[i].name, "float_%02d", i);
        column_init(&columns[i], "f", 2);
        columns[i].buffers[1] = room(SLICE_ROWS * sizeof(float));
    }
    for (int i = FLOATS; i < FLOATS + INTS; i++) {
        snprintf(columns[i].name, sizeof columns[i].name, "int_%02d", i - FLOATS);
        column_init(&columns[i], "l", 2);
        columns[i].buffers[1] = room(SLICE_ROWS * sizeof(int64_t));
    }
    column *text = &columns[SCALARS - 1];
    snprintf(text->name, sizeof text->name, "text");
    column_init(text, "u", 3);
    text->buffers[1] = room((SLICE_ROWS + 1) * sizeof(int32_t));
    text->buffers[2] = room(SLICE_ROWS * TEXT_MAX);
}

static void scalars_fill(column *columns, int64_t rows, uint64_t *state)
{
    column *text = &columns[SCALARS - 1];
    int32_t *offsets = (int32_t *)text->buffers[1];
    char *letters = (char *)text->buffers[2];
    offsets[0] = 0;
    for (int64_t row = 0; row < rows; row++) {
        for (int i = 0; i < FLOATS; i++) {
            ((float *)columns[i].buffers[1])[row] = draw_float(state) * (float)(1 << i);
        }
        for (int i = 0; i < INTS; i++) {
            ((int64_t *)columns[FLOATS + i].buffers[1])[row] = draw_int(state, 1 + (unsigned)i * 3 / 2);
        }
        int32_t length = 4 + (int32_t)(draw(state) % (TEXT_MAX - 4));
        for (int32_t i = 0; i < length; i++) {
            letters[offsets[row] + i] = (char)('a' + draw(state) % 26);
        }
        offsets[row + 1] = offsets[row] + length;
    }
}

static tfos_status write_scalars(tfos_writer *writer, int64_t rows, tfos_error *error)
{
    column columns[SCALARS] = {0};
    tfos_status status = TFOS_OK;
    uint64_t state = 1;
    scalars_init(columns);
    for (int64_t done = 0; done < rows && status == TFOS_OK; done += SLICE_ROWS) {
        int64_t slice = rows - done < SLICE_ROWS ? rows - done : SLICE_ROWS;
        scalars_fill(columns, slice, &state);
        status = write_slice(writer, columns, SCALARS, slice, error);
    }
    for (int i = 0; i < SCALARS; i++) {
        free((void *)columns[i].buffers[1]);
        free((void *)columns[i].buffers[2]);
    }
    return status;
}

/* ---- image ---- */

/* Four pixels of five are black, as in a digit. */
static void image_fill(float *pixels, int64_t *labels, int64_t rows, uint64_t *state)
{
    for (int64_t i = 0; i < rows * PIXELS; i++) {
        pixels[i] = draw(state) % 5 == 0 ? draw_float(state) : 0;
    }
    for (int64_t i = 0; i < rows; i++) {
        labels[i] = (int64_t)(draw(state) % 10);
    }
}

static tfos_status write_image(tfos_writer *writer, int64_t rows, tfos_error *error)
{
    column columns[] = {{.name = "image"}, {.name = "label"}}, item = {.name = "item"};
    tfos_status status = TFOS_OK;
    uint64_t state = 2;
    column_init(&columns[0], "+w:784", 1);
    column_init(&columns[1], "l", 2);
    column_init(&item, "f", 2);
    column_nest(&columns[0], &item);
    float *pixels = room(sizeof(float) * SLICE_ROWS * PIXELS);
    int64_t *labels = room(sizeof(int64_t) * SLICE_ROWS);
    item.buffers[1] = pixels;
    columns[1].buffers[1] = labels;
    for (int64_t done = 0; done < rows && status == TFOS_OK; done += SLICE_ROWS) {
        int64_t slice = rows - done < SLICE_ROWS ? rows - done : SLICE_ROWS;
        image_fill(pixels, labels, slice, &state);
        item.array.length = slice * PIXELS;
        status = write_slice(writer, columns, 2, slice, error);
    }
    free(pixels);
    free(labels);
    return status;
}

/* ---- files ---- */

static tfos_status make(const char *path, int64_t rows, tfos_status (*write)(tfos_writer *, int64_t, tfos_error *),
                        tfos_error *error)
{
    tfos_write_options options;
    tfos_writer *writer;
    tfos_write_options_init(&options, sizeof options);
    options.overwrite = true;
    tfos_status status = tfos_writer_open(path, &options, &writer, error);
    if (status != TFOS_OK) {
        return status;
    }
    status = write(writer, rows, error);
    if (status != TFOS_OK) {
        tfos_writer_abort(writer);
        return status;
    }
    return tfos_writer_close(writer, error);
}

tfos_status make_scalars(const char *path, int64_t rows, tfos_error *error)
{
    return make(path, rows, write_scalars, error);
}

tfos_status make_image(const char *path, int64_t rows, tfos_error *error)
{
    return make(path, rows, write_image, error);
}
