/* Rows to records: the bytes that are written, and that they read back as the same rows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "column/batch.h"
#include "helper_decode.h"
#include "helper_text.h"
#include "record/example.h"

#define E(name, value) helper_entry(name, value)
#define FIELD(number, value) helper_bytes_field(number, value)

/* Decodes a record, encodes its row and compares the bytes. */
static void expect_bytes(const char *schema_json, helper_bytes record, helper_bytes expected)
{
    tfos_schema *schema = helper_schema(schema_json);
    tfos_batch *batch = helper_batch(schema, &record, 1);
    assert_true(helper_equal(helper_encode(batch, 0), expected));
    tfos_batch_free(batch);
    tfos_schema_free(schema);
}

static void test_bytes_of_an_example(void **state)
{
    (void)state;
    helper_bytes record = EXAMPLE(E("i", INTS(-1)), E("f", FLOATS(1, 2)), E("s", STRINGS("a", "")),
                                  E("e", FIELD(3, helper_from_text(""))));
    expect_bytes(FIELDS("i int64", "f float[2]", "s string[]", "e int64[]"), record, record);
    /* Columns in the order of the schema, nulls left out. */
    expect_bytes(FIELDS("f double[]", "n int64 nullable", "i int32"), record,
                 EXAMPLE(E("f", FLOATS(1, 2)), E("i", INTS(-1))));
    expect_bytes(FIELDS("n int64 nullable"), record, EXAMPLE(helper_from_text("")));
    expect_bytes("{\"fields\": []}", record, EXAMPLE(helper_from_text("")));
}

static void test_bytes_of_a_sequence(void **state)
{
    (void)state;
    helper_bytes lists = FIELD(2, E("x", JOIN(FIELD(1, INTS(1)), FIELD(1, helper_from_text("")), FIELD(1, INTS(2)))));
    helper_bytes record = JOIN(FIELD(1, E("id", INTS(5))), lists);
    expect_bytes(FIELDS("id int64", "x list of int64"), record, record);
    expect_bytes(FIELDS("id int64", "y list of int64 nullable"), record, FIELD(1, E("id", INTS(5))));
    expect_bytes(FIELDS("x list of int64[]"), record, JOIN(FIELD(1, helper_from_text("")), lists));
}

static void test_raw_bytes(void **state)
{
    (void)state;
    expect_bytes("{\"record\": \"bytes\"}", helper_from_text("any\xFF bytes"), helper_from_text("any\xFF bytes"));
    expect_bytes("{\"record\": \"bytes\"}", helper_from_text(""), helper_from_text(""));
}

/* One number under a name: of every length, and under names up to those that are too long for a shape. */
static void test_single_numbers(void **state)
{
    (void)state;
    for (int bit = 0; bit < 64; bit++) {
        for (int more = -1; more <= 1; more++) {
            int64_t number = (int64_t)((UINT64_C(1) << bit) + (uint64_t)more);
            helper_bytes record = EXAMPLE(E("n", INTS(number)), E("m", INTS(-number)), E("f", FLOATS((float)number)));
            expect_bytes(FIELDS("n int64", "m int64", "f float"), record, record);
            expect_bytes(FIELDS("f double"), record, EXAMPLE(E("f", FLOATS((float)number))));
        }
    }
    for (size_t bytes = 1; bytes < 60; bytes++) {
        char name[64];
        char field[80];
        memset(name, 'x', bytes);
        name[bytes] = '\0';
        snprintf(field, sizeof field, "%s int64", name);
        helper_bytes record = EXAMPLE(E(name, INTS(300)));
        expect_bytes(FIELDS(field), record, record);
        snprintf(field, sizeof field, "%s float", name);
        record = EXAMPLE(E(name, FLOATS(0.5F)));
        expect_bytes(FIELDS(field), record, record);
    }
    helper_bytes special = EXAMPLE(E("a", FLOATS(NAN)), E("b", FLOATS(-INFINITY)), E("c", FLOATS(-0.0F)));
    expect_bytes(FIELDS("a float", "b double", "c double"), special, special);
    helper_bytes flags = EXAMPLE(E("t", INTS(1)), E("f", INTS(0)));
    expect_bytes(FIELDS("t bool", "f bool"), flags, flags);
}

/* Lengths on both sides of those where a varint grows. */
static void test_long_values(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 100, 110, 120, 127, 128, 129, 16000, 16383, 16384, 2097151, 2097152};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (size_t less = 0; less < 14; less++) {
            size_t length = lengths[i] > less ? lengths[i] - less : 1;
            helper_bytes text = FIELD(1, FIELD(1, helper_repeat('x', length)));
            helper_bytes record = EXAMPLE(E("name", text), E("n", INTS(1)));
            expect_bytes(FIELDS("name string", "n int64"), record, record);
            if (length > 20000) {
                break;
            }
        }
    }
}

/* ---- random rows ---- */

static void push_value(tfos__vector *leaf, uint64_t *random)
{
    uint64_t value = helper_random(random);
    uint8_t bytes[300];
    switch (leaf->view.type) {
    case TFOS_TYPE_INT64:
        value >>= helper_random(random) % 64;
        value = helper_random(random) % 2 ? value : (uint64_t) - (int64_t)value;
        assert_int_equal(tfos__vector_push_int(leaf, (int64_t)value, NULL), TFOS_OK);
        break;
    case TFOS_TYPE_INT32:
        assert_int_equal(tfos__vector_push_int(leaf, (int32_t)value, NULL), TFOS_OK);
        break;
    case TFOS_TYPE_BOOL:
        assert_int_equal(tfos__vector_push_int(leaf, (int64_t)(value & 1), NULL), TFOS_OK);
        break;
    case TFOS_TYPE_FLOAT:
    case TFOS_TYPE_DOUBLE: /* what a float can hold, which is what a record can */
        assert_int_equal(tfos__vector_push_real(leaf, (double)((float)(int64_t)value / 1048576.0f), NULL), TFOS_OK);
        break;
    case TFOS_TYPE_STRING:
    case TFOS_TYPE_BINARY:
        memset(bytes, (int)(leaf->view.type == TFOS_TYPE_STRING ? value % 95 + 32 : value & 255), sizeof bytes);
        size_t count = value >> 20 & (value >> 40 & 15 ? 7 : 255);
        assert_int_equal(tfos__vector_push_bytes(leaf, bytes, count, NULL), TFOS_OK);
        break;
    }
}

static void push_inner(tfos__vector *level, const tfos_field *field, uint64_t *random)
{
    if (field->shape == TFOS_SHAPE_SCALAR) {
        push_value(level, random);
        return;
    }
    uint64_t count = helper_random(random) % 8 ? helper_random(random) % 5 : helper_random(random) % 200;
    count = field->shape == TFOS_SHAPE_FIXED ? (uint64_t)field->length : count;
    for (uint64_t i = 0; i < count; i++) {
        push_value(level->child, random);
    }
    assert_int_equal(tfos__vector_push_list(level, NULL), TFOS_OK);
}

static void push_row(tfos__vector *vector, const tfos_field *field, uint64_t *random)
{
    if (field->nullable && helper_random(random) % 4 == 0) {
        assert_int_equal(tfos__vector_push_null(vector, NULL), TFOS_OK);
    } else if (!field->feature_list) {
        push_inner(vector, field, random);
    } else {
        for (uint64_t i = helper_random(random) % 4; i > 0; i--) {
            if (helper_random(random) % 5 == 0) {
                assert_int_equal(tfos__vector_push_null(vector->child, NULL), TFOS_OK);
            } else {
                push_inner(vector->child, field, random);
            }
        }
        assert_int_equal(tfos__vector_push_list(vector, NULL), TFOS_OK);
    }
}

static char *shown(const tfos_batch *batch)
{
    tfos__buffer text = {0};
    helper_show_batch(batch, &text);
    char *out = helper_string(&text);
    tfos__buffer_reset(&text);
    return out;
}

static void check_round_trip(const tfos_schema *schema, const tfos_batch *batch)
{
    size_t rows = (size_t)tfos_batch_rows(batch);
    helper_bytes *records = calloc(rows, sizeof *records);
    tfos__joined joined = {0};
    assert_non_null(records);
    for (size_t i = 0; i < rows; i++) {
        records[i] = helper_encode(batch, (int64_t)i);
        tfos__wire wire = {records[i].data, records[i].data + records[i].count};
        assert_true(tfos__message_valid(wire, tfos_schema_kind(schema) == TFOS_RECORD_SEQUENCE, &joined));
    }
    tfos__joined_reset(&joined);
    tfos_batch *again = helper_batch(schema, records, rows);
    char *before = shown(batch);
    char *after = shown(again);
    helper_expect_text(after, before);
    for (size_t i = 0; i < rows; i++) {
        assert_true(helper_equal(helper_encode(again, (int64_t)i), records[i]));
    }
    free(before);
    free(after);
    free(records);
    tfos_batch_free(again);
}

/* Every type, shape, nullable or not, in the context and in lists: what is written reads back the same. */
static void test_random_rows_read_back(void **state)
{
    (void)state;
    enum { ROWS = 60, ROUNDS = 12 };
    uint64_t random = 3;
    for (int round = 0; round < ROUNDS; round++) {
        tfos_schema *schema = NULL;
        tfos_batch *batch = NULL;
        tfos_record_kind kind = round % 2 ? TFOS_RECORD_SEQUENCE : TFOS_RECORD_EXAMPLE;
        assert_int_equal(tfos_schema_new(kind, &schema, NULL), TFOS_OK);
        for (int i = 0; i < 7 * 3 * 2 * (round % 2 + 1); i++) {
            char name[128];
            memset(name, 'n', sizeof name);
            snprintf(name + helper_random(&random) % 100, 20, "%d", i);
            tfos_field field = {.name = name, .type = (tfos_type)(i % 7), .shape = (tfos_shape)(i / 7 % 3)};
            field.length = field.shape == TFOS_SHAPE_FIXED ? (int32_t)(helper_random(&random) % 5) : 0;
            field.nullable = i / 21 % 2 == 1;
            field.feature_list = i >= 42;
            assert_int_equal(tfos_schema_add(schema, &field, NULL), TFOS_OK);
        }
        assert_int_equal(tfos__batch_new(schema, &batch, NULL), TFOS_OK);
        for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
            for (int row = 0; row < ROWS; row++) {
                push_row(tfos__batch_vector(batch, i), tfos_schema_field(schema, i), &random);
            }
        }
        assert_int_equal(tfos__batch_finish(batch, ROWS, NULL), TFOS_OK);
        check_round_trip(schema, batch);
        tfos_batch_free(batch);
        tfos_schema_free(schema);
    }
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_setup, helper_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_bytes_of_an_example), IN_FOLDER(test_bytes_of_a_sequence), IN_FOLDER(test_raw_bytes),
        IN_FOLDER(test_single_numbers),      IN_FOLDER(test_long_values),         IN_FOLDER(test_random_rows_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
