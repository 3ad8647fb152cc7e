/* Arrow arrays built by hand, as other libraries build them, to batches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "column/arrow_import.h"

/* ---- building Arrow structs on the stack; their release functions have nothing to do ---- */

static void release_schema(struct ArrowSchema *schema)
{
    schema->release = NULL;
}

static void release_array(struct ArrowArray *array)
{
    array->release = NULL;
}

#define SCHEMA(...) ((struct ArrowSchema){.release = release_schema, .flags = ARROW_FLAG_NULLABLE, __VA_ARGS__})
#define ARRAY(...) ((struct ArrowArray){.release = release_array, __VA_ARGS__})
#define BUFFERS(...) ((const void *[]){__VA_ARGS__})

/* A struct of one column, and the import of all or some of its rows. */
typedef struct table {
    struct ArrowSchema schema;
    struct ArrowSchema *schema_children[4];
    struct ArrowArray array;
    struct ArrowArray *array_children[4];
    const void *buffers[1];
} table;

static void table_init(table *out, int64_t rows)
{
    memset(out, 0, sizeof *out);
    out->schema = SCHEMA(.format = "+s", .name = "", .children = out->schema_children);
    out->array = ARRAY(.length = rows, .n_buffers = 1, .buffers = out->buffers, .children = out->array_children);
}

static void table_add(table *to, struct ArrowSchema *schema, struct ArrowArray *array)
{
    to->schema_children[to->schema.n_children++] = schema;
    to->array_children[to->array.n_children++] = array;
}

static tfos_status import_rows(table *from, tfos_record_kind kind, int64_t start, int64_t count, tfos_batch **out,
                               tfos_error *error)
{
    tfos_schema *schema;
    tfos_status status = tfos_schema_import(&from->schema, kind, &schema, error);
    if (status == TFOS_OK) {
        status = tfos__batch_import(&from->array, &from->schema, schema, start, count, out, error);
        tfos_schema_free(schema);
    }
    return status;
}

static tfos_batch *import_all(table *from)
{
    tfos_error error = {0};
    tfos_batch *batch = NULL;
    if (import_rows(from, TFOS_RECORD_AUTO, 0, from->array.length, &batch, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    return batch;
}

/* Imports a table of one column; the batch is the caller's. */
static tfos_batch *import_one(struct ArrowSchema *schema, struct ArrowArray *array)
{
    table one;
    table_init(&one, array->length);
    table_add(&one, schema, array);
    return import_all(&one);
}

static void expect_failure(table *from, tfos_record_kind kind, tfos_status expected, const char *text)
{
    tfos_error error = {0};
    tfos_batch *batch = NULL;
    tfos_status status = import_rows(from, kind, 0, from->array.length, &batch, &error);
    assert_int_equal(status, expected);
    assert_null(batch);
    if (strstr(error.message, text) == NULL) {
        fail_msg("expected '%s' in: %s", text, error.message);
    }
}

static void expect_failure_one(struct ArrowSchema *schema, struct ArrowArray *array, tfos_status expected,
                               const char *text)
{
    table one;
    table_init(&one, array->length);
    table_add(&one, schema, array);
    expect_failure(&one, TFOS_RECORD_AUTO, expected, text);
}

static const tfos_vector *column(const tfos_batch *batch)
{
    return tfos_batch_column(batch, 0);
}

static bool has_value(const tfos_vector *vector, int64_t row)
{
    return vector->validity == NULL || tfos__bit_get(vector->validity, row);
}

static void expect_bytes(const tfos_vector *vector, int64_t row, const char *expected)
{
    assert_int_equal(vector->layout, TFOS_LAYOUT_BYTES);
    size_t bytes = (size_t)(vector->offsets[row + 1] - vector->offsets[row]);
    assert_int_equal(bytes, strlen(expected));
    assert_memory_equal((const char *)vector->data + vector->offsets[row], expected, bytes);
}

/* ---- numbers ---- */

#define CHECK_NUMBERS(format_text, from_type, tfos_kind, to_type, ...)                                                 \
    do {                                                                                                               \
        from_type in[] = {__VA_ARGS__};                                                                                \
        int64_t rows = (int64_t)(sizeof in / sizeof in[0]);                                                            \
        struct ArrowSchema schema = SCHEMA(.format = format_text, .name = "x");                                        \
        struct ArrowArray array = ARRAY(.length = rows, .n_buffers = 2, .buffers = BUFFERS(NULL, in));                 \
        tfos_batch *batch = import_one(&schema, &array);                                                               \
        assert_int_equal(column(batch)->type, tfos_kind);                                                              \
        assert_int_equal(column(batch)->null_count, 0);                                                                \
        for (int64_t i = 0; i < rows; i++) {                                                                           \
            assert_true(((const to_type *)column(batch)->data)[i] == (to_type)in[i]);                                  \
        }                                                                                                              \
        tfos_batch_free(batch);                                                                                        \
    } while (0)

static void test_numbers_of_every_width(void **state)
{
    (void)state;
    CHECK_NUMBERS("c", int8_t, TFOS_TYPE_INT32, int32_t, INT8_MIN, -1, 0, INT8_MAX);
    CHECK_NUMBERS("C", uint8_t, TFOS_TYPE_INT32, int32_t, 0, 1, UINT8_MAX);
    CHECK_NUMBERS("s", int16_t, TFOS_TYPE_INT32, int32_t, INT16_MIN, 0, INT16_MAX);
    CHECK_NUMBERS("S", uint16_t, TFOS_TYPE_INT32, int32_t, 0, UINT16_MAX);
    CHECK_NUMBERS("i", int32_t, TFOS_TYPE_INT32, int32_t, INT32_MIN, 0, INT32_MAX);
    CHECK_NUMBERS("I", uint32_t, TFOS_TYPE_INT64, int64_t, 0, UINT32_MAX);
    CHECK_NUMBERS("l", int64_t, TFOS_TYPE_INT64, int64_t, INT64_MIN, 0, INT64_MAX);
    CHECK_NUMBERS("L", uint64_t, TFOS_TYPE_INT64, int64_t, 0, INT64_MAX);
    CHECK_NUMBERS("f", float, TFOS_TYPE_FLOAT, float, -1.5f, 0, 3e38f);
    CHECK_NUMBERS("g", double, TFOS_TYPE_DOUBLE, double, -1.5, 0, 1e300);
}

static void test_half(void **state)
{
    (void)state;
    /* 0, -0, 1, -2, smallest subnormal, largest subnormal, smallest normal, largest, infinity */
    uint16_t in[] = {0x0000, 0x8000, 0x3C00, 0xC000, 0x0001, 0x03FF, 0x0400, 0x7BFF, 0x7C00, 0x7E00};
    float expected[] = {0.0f, -0.0f, 1.0f, -2.0f, 0x1p-24f, 0x1.ff8p-15f, 0x1p-14f, 65504.0f, __builtin_inff()};
    struct ArrowSchema schema = SCHEMA(.format = "e", .name = "x");
    struct ArrowArray array = ARRAY(.length = 10, .n_buffers = 2, .buffers = BUFFERS(NULL, in));
    tfos_batch *batch = import_one(&schema, &array);
    const float *out = column(batch)->data;
    assert_memory_equal(out, expected, sizeof expected);
    assert_true(out[9] != out[9]);
    tfos_batch_free(batch);
}

static void test_uint64_out_of_range(void **state)
{
    (void)state;
    uint64_t in[] = {1, (uint64_t)INT64_MAX + 1};
    struct ArrowSchema schema = SCHEMA(.format = "L", .name = "id");
    struct ArrowArray array = ARRAY(.length = 2, .n_buffers = 2, .buffers = BUFFERS(NULL, in));
    expect_failure_one(&schema, &array, TFOS_RANGE,
                       "column 'id': row 1: the value 9223372036854775808 does not fit int64");
}

static void test_bool_with_bit_offset_and_nulls(void **state)
{
    (void)state;
    uint8_t bits[] = {0xB4, 0x03};  /* from bit 2 on: 1 0 1 1 0 1 1 1 */
    uint8_t valid[] = {0xF7, 0xFF}; /* bit 3 is null: row 1 */
    struct ArrowSchema schema = SCHEMA(.format = "b", .name = "x");
    struct ArrowArray array =
        ARRAY(.length = 8, .offset = 2, .null_count = 1, .n_buffers = 2, .buffers = BUFFERS(valid, bits));
    tfos_batch *batch = import_one(&schema, &array);
    const tfos_vector *vector = column(batch);
    assert_int_equal(vector->type, TFOS_TYPE_BOOL);
    assert_int_equal(vector->null_count, 1);
    const bool expected[] = {1, 0, 1, 1, 0, 1, 1, 1};
    for (int64_t i = 0; i < 8; i++) {
        assert_int_equal(has_value(vector, i), i != 1);
        assert_int_equal(tfos__bit_get(vector->data, i), i == 1 ? 0 : expected[i]);
    }
    tfos_batch_free(batch);
}

/* Offsets add up: of the struct, of the column, and the first row that is asked for. */
static void test_slices_and_nulls(void **state)
{
    (void)state;
    int64_t in[20];
    for (int i = 0; i < 20; i++) {
        in[i] = i;
    }
    uint8_t valid[] = {0xFF, 0xFD, 0x0F}; /* value 9 is null */
    struct ArrowSchema schema = SCHEMA(.format = "l", .name = "x");
    struct ArrowArray array =
        ARRAY(.length = 15, .offset = 5, .null_count = -1, .n_buffers = 2, .buffers = BUFFERS(valid, in));
    table one;
    table_init(&one, 10);
    one.array.offset = 2;
    table_add(&one, &schema, &array);
    tfos_batch *batch;
    tfos_error error;
    assert_int_equal(import_rows(&one, TFOS_RECORD_AUTO, 1, 6, &batch, &error), TFOS_OK);
    const tfos_vector *vector = column(batch);
    assert_int_equal(tfos_batch_rows(batch), 6);
    assert_int_equal(vector->null_count, 1);
    for (int64_t i = 0; i < 6; i++) {
        assert_int_equal(has_value(vector, i), i != 1);
        assert_int_equal(((const int64_t *)vector->data)[i], i == 1 ? 0 : 8 + i);
    }
    tfos_batch_free(batch);
    assert_int_equal(import_rows(&one, TFOS_RECORD_AUTO, 10, 0, &batch, &error), TFOS_OK);
    assert_int_equal(tfos_batch_rows(batch), 0);
    tfos_batch_free(batch);
}

static void test_null_type(void **state)
{
    (void)state;
    struct ArrowSchema schema = SCHEMA(.format = "n", .name = "nothing");
    struct ArrowArray array = ARRAY(.length = 3, .null_count = 3);
    tfos_batch *batch = import_one(&schema, &array);
    assert_int_equal(column(batch)->type, TFOS_TYPE_BINARY);
    assert_int_equal(column(batch)->null_count, 3);
    tfos_batch_free(batch);
}

/* ---- strings ---- */

static void test_strings(void **state)
{
    (void)state;
    const char *data = "xxabcé☃zz";
    const int32_t offsets[] = {1, 2, 5, 5, 7, 10};
    const int64_t large[] = {1, 2, 5, 5, 7, 10};
    const char *formats[] = {"u", "z", "U", "Z"};
    for (int i = 0; i < 4; i++) {
        struct ArrowSchema schema = SCHEMA(.format = formats[i], .name = "x");
        const void *offset_buffer = i < 2 ? (const void *)offsets : (const void *)large;
        struct ArrowArray array =
            ARRAY(.length = 4, .offset = 1, .n_buffers = 3, .buffers = BUFFERS(NULL, offset_buffer, data));
        tfos_batch *batch = import_one(&schema, &array);
        assert_int_equal(column(batch)->type, i % 2 == 0 ? TFOS_TYPE_STRING : TFOS_TYPE_BINARY);
        expect_bytes(column(batch), 0, "abc");
        expect_bytes(column(batch), 1, "");
        expect_bytes(column(batch), 2, "é");
        expect_bytes(column(batch), 3, "☃");
        tfos_batch_free(batch);
    }
}

/* A null row may have bytes in Arrow, not in a batch. */
static void test_strings_with_nulls(void **state)
{
    (void)state;
    const int32_t offsets[] = {0, 2, 4, 6};
    uint8_t valid[] = {0x5};
    struct ArrowSchema schema = SCHEMA(.format = "u", .name = "x");
    struct ArrowArray array =
        ARRAY(.length = 3, .null_count = 1, .n_buffers = 3, .buffers = BUFFERS(valid, offsets, "aabbcc"));
    tfos_batch *batch = import_one(&schema, &array);
    expect_bytes(column(batch), 0, "aa");
    expect_bytes(column(batch), 1, "");
    assert_false(has_value(column(batch), 1));
    expect_bytes(column(batch), 2, "cc");
    tfos_batch_free(batch);
}

static void test_strings_without_any_bytes(void **state)
{
    (void)state;
    const int32_t offsets[] = {0, 0, 0};
    struct ArrowSchema schema = SCHEMA(.format = "u", .name = "x");
    struct ArrowArray array = ARRAY(.length = 2, .n_buffers = 3, .buffers = BUFFERS(NULL, offsets, NULL));
    tfos_batch *batch = import_one(&schema, &array);
    expect_bytes(column(batch), 0, "");
    expect_bytes(column(batch), 1, "");
    tfos_batch_free(batch);
}

/* Valid as one text, but the border between two strings cuts a character. */
static void test_strings_that_cut_a_character(void **state)
{
    (void)state;
    const int32_t offsets[] = {0, 1, 3, 5};
    struct ArrowSchema schema = SCHEMA(.format = "u", .name = "word");
    struct ArrowArray array = ARRAY(.length = 3, .n_buffers = 3, .buffers = BUFFERS(NULL, offsets, "aa\xC3\xA9z"));
    expect_failure_one(&schema, &array, TFOS_ENCODING, "column 'word': row 1: invalid UTF-8");
    schema.format = "z";
    tfos_batch_free(import_one(&schema, &array));
}

static void test_views(void **state)
{
    (void)state;
    uint8_t views[4][16] = {{0}};
    views[0][0] = 3;
    memcpy(&views[0][4], "abc", 3);
    views[1][0] = 12;
    memcpy(&views[1][4], "twelve bytes", 12);
    views[2][0] = 17;
    memcpy(&views[2][4], "seve", 4);
    views[2][8] = 1;  /* second data buffer */
    views[2][12] = 2; /* from byte 2 */
    uint8_t valid[] = {0x7};
    const int64_t sizes[] = {0, 19};
    const char *formats[] = {"vu", "vz"};
    for (int i = 0; i < 2; i++) {
        struct ArrowSchema schema = SCHEMA(.format = formats[i], .name = "x");
        struct ArrowArray array = ARRAY(.length = 4, .null_count = 1, .n_buffers = 5,
                                        .buffers = BUFFERS(valid, views, "", "--seventeen bytes..", sizes));
        tfos_batch *batch = import_one(&schema, &array);
        expect_bytes(column(batch), 0, "abc");
        expect_bytes(column(batch), 1, "twelve bytes");
        expect_bytes(column(batch), 2, "seventeen bytes..");
        assert_false(has_value(column(batch), 3));
        tfos_batch_free(batch);
        views[2][8] = 2; /* there is no third one */
        expect_failure_one(&schema, &array, TFOS_INVALID, "column 'x': row 2: the Arrow array is broken");
        views[2][8] = 1;
    }
}

static void test_fixed_size_binary(void **state)
{
    (void)state;
    struct ArrowSchema schema = SCHEMA(.format = "w:3", .name = "x");
    struct ArrowArray array = ARRAY(.length = 2, .offset = 1, .n_buffers = 2, .buffers = BUFFERS(NULL, "abcdefghi"));
    tfos_batch *batch = import_one(&schema, &array);
    expect_bytes(column(batch), 0, "def");
    expect_bytes(column(batch), 1, "ghi");
    tfos_batch_free(batch);
}

/* ---- dictionaries ---- */

static void test_dictionary(void **state)
{
    (void)state;
    const int32_t offsets[] = {0, 3, 6, 6};
    uint8_t dictionary_valid[] = {0x3}; /* the third value is null */
    struct ArrowSchema values_schema = SCHEMA(.format = "u", .name = "");
    struct ArrowArray values =
        ARRAY(.length = 3, .null_count = 1, .n_buffers = 3, .buffers = BUFFERS(dictionary_valid, offsets, "redsky"));
    int8_t indices[] = {9, 1, 0, 2, 1, 0};
    uint8_t valid[] = {0x1F}; /* the last index is null */
    struct ArrowSchema schema = SCHEMA(.format = "c", .name = "colour", .dictionary = &values_schema);
    struct ArrowArray array = ARRAY(.length = 5, .offset = 1, .null_count = 1, .n_buffers = 2,
                                    .buffers = BUFFERS(valid, indices), .dictionary = &values);
    tfos_batch *batch = import_one(&schema, &array);
    expect_bytes(column(batch), 0, "sky");
    expect_bytes(column(batch), 1, "red");
    assert_false(has_value(column(batch), 2));
    expect_bytes(column(batch), 3, "sky");
    assert_false(has_value(column(batch), 4));
    tfos_batch_free(batch);

    indices[1] = 3;
    expect_failure_one(&schema, &array, TFOS_INVALID, "column 'colour': row 0: the Arrow array is broken: index 3");
    indices[1] = -1;
    expect_failure_one(&schema, &array, TFOS_INVALID, "index -1 of a dictionary of 3 values");
}

static void test_dictionary_in_a_list(void **state)
{
    (void)state;
    double values_data[] = {0.5, 1.5};
    struct ArrowSchema values_schema = SCHEMA(.format = "g", .name = "");
    struct ArrowArray values = ARRAY(.length = 2, .n_buffers = 2, .buffers = BUFFERS(NULL, values_data));
    uint16_t indices[] = {1, 1, 0};
    struct ArrowSchema item_schema = SCHEMA(.format = "S", .name = "item", .dictionary = &values_schema);
    struct ArrowArray item =
        ARRAY(.length = 3, .n_buffers = 2, .buffers = BUFFERS(NULL, indices), .dictionary = &values);
    const int32_t offsets[] = {0, 2, 3};
    struct ArrowSchema schema =
        SCHEMA(.format = "+l", .name = "x", .n_children = 1, .children = (struct ArrowSchema *[]){&item_schema});
    struct ArrowArray array = ARRAY(.length = 2, .n_buffers = 2, .n_children = 1, .buffers = BUFFERS(NULL, offsets),
                                    .children = (struct ArrowArray *[]){&item});
    tfos_batch *batch = import_one(&schema, &array);
    const double expected[] = {1.5, 1.5, 0.5};
    assert_memory_equal(column(batch)->child->data, expected, sizeof expected);
    tfos_batch_free(batch);
}

/* ---- lists ---- */

/* Lists whose offsets do not begin at 0, with a null row that has values in Arrow. */
static void test_lists(void **state)
{
    (void)state;
    float in[] = {9, 9, 1, 2, 3, 4, 5, 6};
    struct ArrowSchema item_schema = SCHEMA(.format = "f", .name = "item");
    struct ArrowArray item = ARRAY(.length = 7, .offset = 1, .n_buffers = 2, .buffers = BUFFERS(NULL, in));
    const int32_t offsets[] = {0, 1, 3, 5, 5, 7};
    const int64_t large[] = {0, 1, 3, 5, 5, 7};
    uint8_t valid[] = {0xFB}; /* row 1 of the slice */
    for (int i = 0; i < 2; i++) {
        struct ArrowSchema schema = SCHEMA(.format = i == 0 ? "+l" : "+L", .name = "x", .n_children = 1,
                                           .children = (struct ArrowSchema *[]){&item_schema});
        struct ArrowArray array = ARRAY(.length = 4, .offset = 1, .null_count = 1, .n_buffers = 2, .n_children = 1,
                                        .buffers = BUFFERS(valid, i == 0 ? (const void *)offsets : large),
                                        .children = (struct ArrowArray *[]){&item});
        tfos_batch *batch = import_one(&schema, &array);
        const tfos_vector *vector = column(batch);
        assert_int_equal(vector->layout, TFOS_LAYOUT_LIST);
        const int32_t expected_offsets[] = {0, 2, 2, 2, 4};
        const float expected[] = {1, 2, 5, 6};
        assert_memory_equal(vector->offsets, expected_offsets, sizeof expected_offsets);
        assert_int_equal(vector->child->length, 4);
        assert_memory_equal(vector->child->data, expected, sizeof expected);
        assert_false(has_value(vector, 1));
        assert_true(has_value(vector, 2));
        tfos_batch_free(batch);
    }
}

static void test_null_inside_a_list(void **state)
{
    (void)state;
    int32_t in[] = {1, 2, 3, 4};
    uint8_t valid[] = {0xF7};
    struct ArrowSchema item_schema = SCHEMA(.format = "i", .name = "item");
    struct ArrowArray item = ARRAY(.length = 4, .null_count = 1, .n_buffers = 2, .buffers = BUFFERS(valid, in));
    const int32_t offsets[] = {0, 1, 2, 2, 4};
    struct ArrowSchema schema =
        SCHEMA(.format = "+l", .name = "ids", .n_children = 1, .children = (struct ArrowSchema *[]){&item_schema});
    struct ArrowArray array = ARRAY(.length = 4, .n_buffers = 2, .n_children = 1, .buffers = BUFFERS(NULL, offsets),
                                    .children = (struct ArrowArray *[]){&item});
    expect_failure_one(&schema, &array, TFOS_MISMATCH, "column 'ids': row 3: a null inside a list");
    array.length = 3; /* without the row that has it */
    tfos_batch_free(import_one(&schema, &array));
}

static void test_fixed_lists(void **state)
{
    (void)state;
    int64_t in[] = {0, 0, 1, 2, 3, 4, 5, 6};
    uint8_t item_valid[] = {0xCF}; /* the values of the null row are null themselves */
    uint8_t valid[] = {0xB};       /* row 1 of the slice */
    struct ArrowSchema item_schema = SCHEMA(.format = "l", .name = "item");
    struct ArrowArray item = ARRAY(.length = 8, .null_count = 2, .n_buffers = 2, .buffers = BUFFERS(item_valid, in));
    struct ArrowSchema schema =
        SCHEMA(.format = "+w:2", .name = "x", .n_children = 1, .children = (struct ArrowSchema *[]){&item_schema});
    struct ArrowArray array = ARRAY(.length = 3, .offset = 1, .null_count = 1, .n_buffers = 1, .n_children = 1,
                                    .buffers = BUFFERS(valid), .children = (struct ArrowArray *[]){&item});
    tfos_batch *batch = import_one(&schema, &array);
    const tfos_vector *vector = column(batch);
    const int64_t expected[] = {1, 2, 0, 0, 5, 6};
    assert_int_equal(vector->layout, TFOS_LAYOUT_FIXED_LIST);
    assert_int_equal(vector->list_length, 2);
    assert_memory_equal(vector->child->data, expected, sizeof expected);
    assert_false(has_value(vector, 1));
    tfos_batch_free(batch);
}

static void test_feature_lists(void **state)
{
    (void)state;
    int64_t in[] = {1, 2, 3};
    struct ArrowSchema item_schema = SCHEMA(.format = "l", .name = "item");
    struct ArrowArray item = ARRAY(.length = 3, .n_buffers = 2, .buffers = BUFFERS(NULL, in));
    const int32_t inner_offsets[] = {0, 2, 2, 3};
    uint8_t inner_valid[] = {0x5}; /* a feature without a value */
    struct ArrowSchema inner_schema =
        SCHEMA(.format = "+l", .name = "item", .n_children = 1, .children = (struct ArrowSchema *[]){&item_schema});
    struct ArrowArray inner =
        ARRAY(.length = 3, .null_count = 1, .n_buffers = 2, .n_children = 1,
              .buffers = BUFFERS(inner_valid, inner_offsets), .children = (struct ArrowArray *[]){&item});
    const int32_t offsets[] = {0, 2, 3};
    struct ArrowSchema schema =
        SCHEMA(.format = "+l", .name = "frames", .n_children = 1, .children = (struct ArrowSchema *[]){&inner_schema});
    struct ArrowArray array = ARRAY(.length = 2, .n_buffers = 2, .n_children = 1, .buffers = BUFFERS(NULL, offsets),
                                    .children = (struct ArrowArray *[]){&inner});
    tfos_batch *batch = import_one(&schema, &array);
    assert_int_equal(tfos_schema_kind(tfos_batch_schema(batch)), TFOS_RECORD_SEQUENCE);
    const tfos_field *field = tfos_schema_field(tfos_batch_schema(batch), 0);
    assert_true(field->feature_list);
    assert_int_equal(field->shape, TFOS_SHAPE_RAGGED);
    const tfos_vector *vector = column(batch);
    assert_int_equal(vector->child->length, 3);
    assert_false(has_value(vector->child, 1));
    assert_memory_equal(vector->child->child->data, in, sizeof in);
    tfos_batch_free(batch);

    table one;
    table_init(&one, 2);
    table_add(&one, &schema, &array);
    expect_failure(&one, TFOS_RECORD_EXAMPLE, TFOS_MISMATCH, "column 'frames': a tf.train.Example has no place");

    struct ArrowSchema deeper =
        SCHEMA(.format = "+l", .name = "deep", .n_children = 1, .children = (struct ArrowSchema *[]){&schema});
    expect_failure_one(&deeper, &array, TFOS_UNSUPPORTED, "column 'deep': lists are nested more than two deep");
}

static void test_feature_list_by_metadata(void **state)
{
    (void)state;
    static const char metadata[] = "\2\0\0\0\1\0\0\0k\1\0\0\0v\21\0\0\0tfos.feature_list\1\0\0\0001";
    int64_t in[] = {1, 2, 3};
    uint8_t valid[] = {0x5};
    struct ArrowSchema item_schema = SCHEMA(.format = "l", .name = "item");
    struct ArrowArray item = ARRAY(.length = 3, .null_count = 1, .n_buffers = 2, .buffers = BUFFERS(valid, in));
    const int32_t offsets[] = {0, 2, 3};
    struct ArrowSchema schema = SCHEMA(.format = "+l", .name = "x", .metadata = metadata, .n_children = 1,
                                       .children = (struct ArrowSchema *[]){&item_schema});
    struct ArrowArray array = ARRAY(.length = 2, .n_buffers = 2, .n_children = 1, .buffers = BUFFERS(NULL, offsets),
                                    .children = (struct ArrowArray *[]){&item});
    tfos_batch *batch = import_one(&schema, &array);
    const tfos_field *field = tfos_schema_field(tfos_batch_schema(batch), 0);
    assert_true(field->feature_list);
    assert_int_equal(field->shape, TFOS_SHAPE_SCALAR);
    assert_int_equal(column(batch)->child->null_count, 1);
    tfos_batch_free(batch);

    struct ArrowSchema scalar = SCHEMA(.format = "l", .name = "x", .metadata = metadata);
    expect_failure_one(&scalar, &item, TFOS_INVALID, "column 'x': the metadata says tfos.feature_list");
}

/* What we export comes back the same. */
static void test_round_trip(void **state)
{
    (void)state;
    tfos_error error;
    tfos_schema *schema;
    assert_int_equal(tfos_schema_new(TFOS_RECORD_SEQUENCE, &schema, &error), TFOS_OK);
    tfos_type types[] = {TFOS_TYPE_INT32, TFOS_TYPE_INT64,  TFOS_TYPE_FLOAT, TFOS_TYPE_DOUBLE,
                         TFOS_TYPE_BOOL,  TFOS_TYPE_STRING, TFOS_TYPE_BINARY};
    for (int type = 0; type < 7; type++) {
        for (int shape = 0; shape < 3; shape++) {
            for (int list = 0; list < 2; list++) {
                char name[48];
                snprintf(name, sizeof name, "c%d%d%d", type, shape, list);
                tfos_field field = {.name = name,
                                    .type = types[type],
                                    .shape = (tfos_shape)shape,
                                    .length = shape == TFOS_SHAPE_FIXED ? 3 : 0,
                                    .nullable = type % 2 == 0,
                                    .feature_list = list == 1};
                assert_int_equal(tfos_schema_add(schema, &field, &error), TFOS_OK);
            }
        }
    }
    struct ArrowSchema exported;
    assert_int_equal(tfos_schema_export(schema, &exported, &error), TFOS_OK);
    tfos_schema *again;
    assert_int_equal(tfos_schema_import(&exported, TFOS_RECORD_AUTO, &again, &error), TFOS_OK);
    char *before;
    char *after;
    assert_int_equal(tfos_schema_to_json(schema, &before, &error), TFOS_OK);
    assert_int_equal(tfos_schema_to_json(again, &after, &error), TFOS_OK);
    assert_string_equal(before, after);
    tfos_string_free(before);
    tfos_string_free(after);
    tfos_schema_free(again);
    tfos_schema_free(schema);
    exported.release(&exported);
}

/* ---- raw bytes ---- */

static void test_raw_bytes(void **state)
{
    (void)state;
    const int32_t offsets[] = {0, 1, 3};
    uint8_t valid[] = {0x1};
    struct ArrowSchema schema = SCHEMA(.format = "u", .name = "anything");
    struct ArrowArray array = ARRAY(.length = 2, .n_buffers = 3,
                                    .buffers = BUFFERS(valid, offsets,
                                                       "\xFF"
                                                       "bc"));
    table one;
    table_init(&one, 2);
    table_add(&one, &schema, &array);
    tfos_batch *batch;
    tfos_error error;
    assert_int_equal(import_rows(&one, TFOS_RECORD_BYTES, 0, 2, &batch, &error), TFOS_OK);
    assert_int_equal(tfos_schema_kind(tfos_batch_schema(batch)), TFOS_RECORD_BYTES);
    expect_bytes(column(batch), 0, "\xFF");
    tfos_batch_free(batch);
    array.null_count = 1;
    expect_failure(&one, TFOS_RECORD_BYTES, TFOS_MISMATCH, "column 'anything' has nulls");
    schema.format = "l";
    expect_failure(&one, TFOS_RECORD_BYTES, TFOS_MISMATCH, "column 'anything': records of raw bytes");
    table_add(&one, &schema, &array);
    expect_failure(&one, TFOS_RECORD_BYTES, TFOS_MISMATCH, "from one column of binaries, found 2");
}

/* ---- what is refused ---- */

static void test_unsupported_types(void **state)
{
    (void)state;
    static const char *const refused[][2] = {{"tdD", "type date"},           {"ttu", "type time"},
                                             {"tsn:UTC", "type timestamp"},  {"tDs", "type duration"},
                                             {"tiM", "type interval"},       {"d:19,10", "type decimal"},
                                             {"+s", "type struct"},          {"+m", "type map"},
                                             {"+ud:0,1", "type union"},      {"+vl", "type list view"},
                                             {"+r", "type run-end encoded"}, {"?", "format '?' is not known"},
                                             {"w:x", "needs a length"},      {"+w:-1", "needs a length"}};
    struct ArrowArray array = ARRAY(.length = 0);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct ArrowSchema schema = SCHEMA(.format = refused[i][0], .name = "when");
        expect_failure_one(&schema, &array, TFOS_UNSUPPORTED, "column 'when': ");
        expect_failure_one(&schema, &array, TFOS_UNSUPPORTED, refused[i][1]);
    }
}

static void test_broken_structs(void **state)
{
    (void)state;
    int64_t in[] = {1, 2};
    struct ArrowSchema schema = SCHEMA(.format = "l", .name = "x");
    struct ArrowArray array = ARRAY(.length = 2, .n_buffers = 2, .buffers = BUFFERS(NULL, in));
    struct ArrowArray wrong = array;
    wrong.n_buffers = 1;
    expect_failure_one(&schema, &wrong, TFOS_INVALID, "does not have the buffers");
    wrong = array;
    wrong.buffers = NULL;
    expect_failure_one(&schema, &wrong, TFOS_INVALID, "does not have the buffers");
    wrong = array;
    wrong.buffers = BUFFERS(NULL, NULL);
    expect_failure_one(&schema, &wrong, TFOS_INVALID, "does not have the buffers");

    struct ArrowSchema list = SCHEMA(.format = "+l", .name = "x");
    expect_failure_one(&list, &array, TFOS_INVALID, "an Arrow list type has one child, found 0");
    list.n_children = 1;
    list.children = (struct ArrowSchema *[]){&schema};
    expect_failure_one(&list, &array, TFOS_INVALID, "does not have the buffers and children");

    struct ArrowSchema dictionary = SCHEMA(.format = "l", .name = "x", .dictionary = &schema);
    expect_failure_one(&dictionary, &array, TFOS_INVALID, "does not have the buffers and children");
    dictionary.format = "g";
    expect_failure_one(&dictionary, &array, TFOS_INVALID, "the indices of an Arrow dictionary are integers");

    table one;
    table_init(&one, 3);
    table_add(&one, &schema, &array);
    expect_failure(&one, TFOS_RECORD_AUTO, TFOS_INVALID, "column 'x' has fewer rows");
    one.array.length = 2;
    one.array.n_children = 0;
    expect_failure(&one, TFOS_RECORD_AUTO, TFOS_INVALID, "no struct of 1 columns");
    one.array.n_children = 1;
    one.array.release = NULL;
    expect_failure(&one, TFOS_RECORD_AUTO, TFOS_INVALID, "the Arrow array was released");
    one.schema.release = NULL;
    expect_failure(&one, TFOS_RECORD_AUTO, TFOS_INVALID, "the Arrow schema was released");
    one.schema = SCHEMA(.format = "l");
    expect_failure(&one, TFOS_RECORD_AUTO, TFOS_INVALID, "expected an Arrow struct");
    one.schema = SCHEMA(.format = "+s", .n_children = 1);
    expect_failure(&one, TFOS_RECORD_AUTO, TFOS_LIMIT, "0 to 65536 columns");
    one.schema.children = (struct ArrowSchema *[]){NULL};
    expect_failure(&one, TFOS_RECORD_AUTO, TFOS_INVALID, "column 0 of the Arrow schema");
}

static void test_null_rows_of_the_struct(void **state)
{
    (void)state;
    int64_t in[] = {1, 2, 3};
    uint8_t valid[] = {0x5};
    struct ArrowSchema schema = SCHEMA(.format = "l", .name = "x");
    struct ArrowArray array = ARRAY(.length = 3, .n_buffers = 2, .buffers = BUFFERS(NULL, in));
    table one;
    table_init(&one, 3);
    table_add(&one, &schema, &array);
    one.buffers[0] = valid;
    one.array.null_count = 1;
    expect_failure(&one, TFOS_RECORD_AUTO, TFOS_MISMATCH, "row 1 is null as a whole");
}

static void test_columns_by_name(void **state)
{
    (void)state;
    int64_t in[] = {1, 2};
    struct ArrowSchema a = SCHEMA(.format = "l", .name = "a");
    struct ArrowSchema b = SCHEMA(.format = "g", .name = "b");
    struct ArrowArray array = ARRAY(.length = 2, .n_buffers = 2, .buffers = BUFFERS(NULL, in));
    table first;
    table_init(&first, 2);
    table_add(&first, &a, &array);
    table_add(&first, &b, &array);
    table second;
    table_init(&second, 2);
    table_add(&second, &b, &array);
    table_add(&second, &a, &array);
    tfos_schema *schema;
    tfos_batch *batch;
    tfos_error error;
    assert_int_equal(tfos_schema_import(&first.schema, TFOS_RECORD_AUTO, &schema, &error), TFOS_OK);
    assert_int_equal(tfos__batch_import(&second.array, &second.schema, schema, 0, 2, &batch, &error), TFOS_OK);
    assert_int_equal(column(batch)->type, TFOS_TYPE_INT64);
    tfos_batch_free(batch);

    b.name = "c";
    assert_int_equal(tfos__batch_import(&second.array, &second.schema, schema, 0, 2, &batch, &error), TFOS_MISMATCH);
    assert_string_equal(error.message, "column 'b' is missing");
    b.name = "b";
    b.format = "f";
    assert_int_equal(tfos__batch_import(&second.array, &second.schema, schema, 0, 2, &batch, &error), TFOS_MISMATCH);
    assert_string_equal(error.message, "column 'b': expected double, found float");
    second.schema.n_children = second.array.n_children = 1;
    assert_int_equal(tfos__batch_import(&second.array, &second.schema, schema, 0, 2, &batch, &error), TFOS_MISMATCH);
    assert_string_equal(error.message, "expected 2 columns, found 1");
    tfos_schema_free(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_of_every_width),
        cmocka_unit_test(test_half),
        cmocka_unit_test(test_uint64_out_of_range),
        cmocka_unit_test(test_bool_with_bit_offset_and_nulls),
        cmocka_unit_test(test_slices_and_nulls),
        cmocka_unit_test(test_null_type),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_strings_with_nulls),
        cmocka_unit_test(test_strings_without_any_bytes),
        cmocka_unit_test(test_strings_that_cut_a_character),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_fixed_size_binary),
        cmocka_unit_test(test_dictionary),
        cmocka_unit_test(test_dictionary_in_a_list),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_null_inside_a_list),
        cmocka_unit_test(test_fixed_lists),
        cmocka_unit_test(test_feature_lists),
        cmocka_unit_test(test_feature_list_by_metadata),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_raw_bytes),
        cmocka_unit_test(test_unsupported_types),
        cmocka_unit_test(test_broken_structs),
        cmocka_unit_test(test_null_rows_of_the_struct),
        cmocka_unit_test(test_columns_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
