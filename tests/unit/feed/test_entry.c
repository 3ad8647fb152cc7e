/* Entries: any part of any batch comes out as it went in, and bytes that are no entry are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "column/append.h"
#include "feed/entry.h"
#include "helper_batches.h"
#include "helper_records.h"

/* Memory that ends where the entry ends, so that AddressSanitizer sees a step beyond it. */
static uint8_t *room_for(size_t bytes)
{
    uint8_t *room = aligned_alloc(64, bytes);
    assert_non_null(room);
    memset(room, 0xA5, bytes);
    return room;
}

/* ---- there and back ---- */

static void check_part(const tfos_batch *batch, int64_t first, int64_t count, tfos_batch *copy,
                       tfos__entry_views *views)
{
    const tfos_schema *schema = tfos_batch_schema(batch);
    size_t bytes = tfos__entry_batch_bytes(batch, first, count);
    uint8_t *room = room_for(bytes);
    tfos__entry entry;
    tfos_error error = {0};
    tfos__entry_write_batch(batch, first, count, 1000 + (uint64_t)first, room);
    assert_int_equal(tfos__entry_read(room, bytes, &entry, &error), TFOS_OK);
    assert_int_equal(entry.kind, TFOS__ENTRY_BATCH);
    assert_int_equal(entry.bytes, bytes);
    assert_int_equal(entry.first_row, 1000 + first);
    assert_int_equal(entry.rows, count);
    if (tfos__entry_read_batch(room, &entry, schema, views, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    for (size_t c = 0; c < tfos_schema_field_count(schema); c++) {
        const tfos_vector *view = &views->vector[views->column[c]];
        helper_expect_sound(view);
        assert_int_equal(view->length, count);
        helper_expect_same_rows(view, 0, tfos_batch_column(batch, c), first, count);
        assert_int_equal(tfos__vector_append(tfos__batch_vector(copy, c), view, 0, count, &error), TFOS_OK);
    }
    free(room);
}

/* Cuts a batch into entries and puts them together again. */
static void check_batch(const tfos_schema *schema, uint64_t *random)
{
    int64_t rows = (int64_t)(helper_random(random) % 150);
    tfos_batch *batch = helper_random_batch(schema, random, rows);
    tfos_batch *copy = NULL;
    tfos__entry_views views = {0};
    assert_int_equal(tfos__batch_new(schema, &copy, NULL), TFOS_OK);
    for (int64_t first = 0; first < rows;) {
        int64_t count = (int64_t)(helper_random(random) % (uint64_t)(rows - first + 1));
        check_part(batch, first, count, copy, &views);
        first += count;
    }
    assert_int_equal(tfos__batch_finish(copy, rows, NULL), TFOS_OK);
    for (size_t c = 0; c < tfos_schema_field_count(schema); c++) {
        helper_expect_sound(tfos_batch_column(copy, c));
        helper_expect_same_rows(tfos_batch_column(copy, c), 0, tfos_batch_column(batch, c), 0, rows);
    }
    tfos__entry_views_reset(&views);
    tfos_batch_free(copy);
    tfos_batch_free(batch);
}

static void test_random_parts_of_random_batches(void **state)
{
    (void)state;
    uint64_t random = 29;
    for (int round = 0; round < 150; round++) {
        tfos_schema *schema = helper_random_schema(&random, 7);
        check_batch(schema, &random);
        tfos_schema_free(schema);
    }
}

/* What is in the memory before does not show, also not between the buffers. */
static void test_the_same_rows_are_the_same_bytes(void **state)
{
    (void)state;
    uint64_t random = 31;
    tfos_schema *schema = helper_random_schema(&random, 7);
    tfos_batch *batch = helper_random_batch(schema, &random, 61);
    size_t bytes = tfos__entry_batch_bytes(batch, 3, 50);
    uint8_t *one = room_for(bytes);
    uint8_t *other = room_for(bytes);
    memset(other, 0x5A, bytes);
    tfos__entry_write_batch(batch, 3, 50, 7, one);
    tfos__entry_write_batch(batch, 3, 50, 7, other);
    assert_memory_equal(one, other, bytes);
    free(one);
    free(other);
    tfos_batch_free(batch);
    tfos_schema_free(schema);
}

static void test_as_many_rows_as_fit(void **state)
{
    (void)state;
    uint64_t random = 37;
    for (int round = 0; round < 40; round++) {
        tfos_schema *schema = helper_random_schema(&random, 4);
        tfos_batch *batch = helper_random_batch(schema, &random, 80);
        for (int i = 0; i < 20; i++) {
            int64_t first = (int64_t)(helper_random(&random) % 80);
            int64_t count = (int64_t)(helper_random(&random) % (uint64_t)(80 - first + 1));
            size_t limit = helper_random(&random) % (tfos__entry_batch_bytes(batch, first, count) + 100);
            int64_t fit = tfos__entry_rows_within(batch, first, count, limit);
            assert_true(fit >= 0 && fit <= count);
            assert_true(fit == 0 || tfos__entry_batch_bytes(batch, first, fit) <= limit);
            assert_true(fit == count || tfos__entry_batch_bytes(batch, first, fit + 1) > limit);
        }
        tfos_batch_free(batch);
        tfos_schema_free(schema);
    }
}

static void test_a_schema_with_its_note(void **state)
{
    (void)state;
    tfos_schema *schema = helper_schema("{\"fields\": [{\"name\": \"x\", \"type\": \"float\", \"shape\": [3]}]}");
    tfos_schema *again = NULL;
    tfos__buffer bytes = {0};
    tfos__entry entry;
    assert_int_equal(tfos_schema_set_note(schema, "how \"rows\" were made", NULL), TFOS_OK);
    assert_int_equal(tfos__entry_append_schema(schema, &bytes, NULL), TFOS_OK);
    size_t first = bytes.size;
    assert_int_equal(tfos__entry_append_schema(schema, &bytes, NULL), TFOS_OK);
    assert_int_equal(bytes.size, 2 * first);
    assert_int_equal(tfos__entry_read(bytes.data, bytes.size, &entry, NULL), TFOS_OK);
    assert_int_equal(entry.kind, TFOS__ENTRY_SCHEMA);
    assert_int_equal(entry.bytes, first);
    assert_int_equal(tfos__entry_read_schema(bytes.data, &entry, &again, NULL), TFOS_OK);
    assert_string_equal(tfos_schema_note(again), "how \"rows\" were made");
    assert_int_equal(tfos_schema_field(again, 0)->length, 3);
    tfos_schema_free(again);
    tfos_schema_free(schema);
    tfos__buffer_reset(&bytes);
}

static void test_the_end_of_a_partition(void **state)
{
    (void)state;
    _Alignas(64) uint8_t bytes[64];
    tfos__entry entry;
    tfos__entry_write_partition(12345, bytes);
    assert_int_equal(tfos__entry_read(bytes, sizeof bytes, &entry, NULL), TFOS_OK);
    assert_int_equal(entry.kind, TFOS__ENTRY_PARTITION);
    assert_int_equal(entry.bytes, 64);
    assert_int_equal(entry.first_row, 12345);
    assert_int_equal(entry.rows, 0);
}

static void test_a_gap(void **state)
{
    (void)state;
    _Alignas(64) uint8_t bytes[192] = {0};
    tfos__entry entry;
    tfos__entry_write_gap(sizeof bytes, bytes);
    assert_int_equal(tfos__entry_read(bytes, sizeof bytes, &entry, NULL), TFOS_OK);
    assert_int_equal(entry.kind, TFOS__ENTRY_GAP);
    assert_int_equal(entry.bytes, sizeof bytes);
    assert_int_equal(entry.rows, 0);
    assert_int_equal(tfos__entry_read(bytes, 128, &entry, NULL), TFOS_CORRUPT);
}

/* ---- bytes that are no entry ---- */

typedef struct sample {
    tfos_schema *schema;
    uint8_t *bytes;
    size_t count;
} sample;

/* Rows 1 to 11 of three columns: strings with a null, ragged ints, pairs of floats. */
static sample make_sample(void)
{
    sample made = {0};
    made.schema = helper_schema("{\"fields\": [{\"name\": \"text\", \"type\": \"string\", \"nullable\": true},"
                                "{\"name\": \"list\", \"type\": \"int64\", \"shape\": [null]},"
                                "{\"name\": \"pair\", \"type\": \"float\", \"shape\": [2]}]}");
    tfos_batch *batch = NULL;
    assert_int_equal(tfos__batch_new(made.schema, &batch, NULL), TFOS_OK);
    for (int row = 0; row < 12; row++) {
        tfos__vector *text = tfos__batch_vector(batch, 0);
        tfos__vector *list = tfos__batch_vector(batch, 1);
        tfos__vector *pair = tfos__batch_vector(batch, 2);
        assert_int_equal(row == 5 ? tfos__vector_push_null(text, NULL) : tfos__vector_push_bytes(text, "abc", 3, NULL),
                         TFOS_OK);
        for (int i = 0; i < row % 3; i++) {
            assert_int_equal(tfos__vector_push_int(list->child, row, NULL), TFOS_OK);
        }
        assert_int_equal(tfos__vector_push_list(list, NULL), TFOS_OK);
        assert_int_equal(tfos__vector_push_real(pair->child, 0.5, NULL), TFOS_OK);
        assert_int_equal(tfos__vector_push_real(pair->child, 1.5, NULL), TFOS_OK);
        assert_int_equal(tfos__vector_push_list(pair, NULL), TFOS_OK);
    }
    assert_int_equal(tfos__batch_finish(batch, 12, NULL), TFOS_OK);
    made.count = tfos__entry_batch_bytes(batch, 1, 11);
    made.bytes = room_for(made.count);
    tfos__entry_write_batch(batch, 1, 11, 1, made.bytes);
    tfos_batch_free(batch);
    return made;
}

static void free_sample(sample *made)
{
    tfos_schema_free(made->schema);
    free(made->bytes);
}

static tfos_status read_all(const sample *made, tfos__entry_views *views, tfos_error *error)
{
    tfos__entry entry;
    TFOS_TRY(tfos__entry_read(made->bytes, made->count, &entry, error));
    assert_int_equal(entry.kind, TFOS__ENTRY_BATCH);
    return tfos__entry_read_batch(made->bytes, &entry, made->schema, views, error);
}

/* Levels begin at 64: text 64, list 128 and its values 192, pair 256 and its values 320. */
static void test_every_lie_is_named(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint64_t value;
        size_t width;
        const char *message;
    } lies[] = {
        {0, 0x12345678, 4, "expected an entry of a lane"},
        {4, 9, 4, "no known kind"},
        {4, 0, 4, "no known kind"},
        {4, TFOS__ENTRY_SCHEMA, 4, "a schema, or a text, has a text"},
        {4, TFOS__ENTRY_PARTITION, 4, "the end of a partition"},
        {4, TFOS__ENTRY_GAP, 4, "a gap has nothing"},
        {8, 0, 8, "a multiple of 64 bytes"},
        {8, 100, 8, "a multiple of 64 bytes"},
        {8, 1 << 20, 8, "not more than are there"},
        {8, UINT64_MAX - 63, 8, "not more than are there"},
        {24, UINT32_MAX, 4, "its levels do not lie in it"},
        {24, 10, 4, "not as many values as the rows above"},
        {28, UINT32_MAX, 4, "its levels do not lie in it"},
        {28, 4, 4, "the schema has 5 levels in 3 columns, the entry has 4"},
        {32, 1, 8, "its levels do not lie in it"},
        {64, 7, 4, "column 'text', level 0: it has not the type and shape"},
        {64 + 4, TFOS_TYPE_BINARY, 4, "column 'text', level 0: it has not the type and shape"},
        {256 + 8, 3, 4, "column 'pair', level 3: it has not the type and shape"},
        {64 + 16, 12, 8, "not as many values"},
        {192 + 16, UINT64_MAX, 8, "column 'list', level 2: it has not as many values"},
        {320 + 16, 23, 8, "column 'pair', level 4: it has not as many values"},
        {64 + 24, 2, 8, "not as many nulls"},
        {64 + 24, UINT64_MAX, 8, "not as many values"},
        {128 + 24, 1, 8, "has nulls and does not say which"},
        {64 + 32, 1 << 30, 8, "a buffer does not lie in the entry"},
        {64 + 32, 64, 8, "a buffer does not lie in the entry"},
        {64 + 40, 0, 8, "a buffer does not lie in the entry"},
        {64 + 40, UINT64_MAX - 63, 8, "a buffer does not lie in the entry"},
        {64 + 40, 385, 8, "a buffer does not lie in the entry"},
        {64 + 48, UINT64_MAX - 63, 8, "a buffer does not lie in the entry"},
        {64 + 56, 1, 8, "not as many bytes"},
        {192 + 56, 1, 8, "not as many bytes"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        sample made = make_sample();
        tfos__entry_views views = {0};
        tfos_error error = {0};
        assert_int_equal(read_all(&made, &views, &error), TFOS_OK);
        memcpy(made.bytes + lies[i].at, &lies[i].value, lies[i].width);
        if (read_all(&made, &views, &error) != TFOS_CORRUPT) {
            fail_msg("lie %zu (byte %zu) was believed", i, lies[i].at);
        }
        helper_expect_in(error.message, lies[i].message);
        tfos__entry_views_reset(&views);
        free_sample(&made);
    }
}

static void expect_bad_offsets(size_t index, int32_t value)
{
    sample made = make_sample();
    tfos__entry_views views = {0};
    tfos_error error = {0};
    size_t where = (size_t)tfos__load_u64(made.bytes + 64 + 40);
    memcpy(made.bytes + where + index * sizeof value, &value, sizeof value);
    assert_int_equal(read_all(&made, &views, &error), TFOS_CORRUPT);
    assert_non_null(strstr(error.message, "offsets") != NULL ? "offsets" : strstr(error.message, "as many bytes"));
    tfos__entry_views_reset(&views);
    free_sample(&made);
}

static void test_offsets_that_fall_or_do_not_begin_at_0(void **state)
{
    (void)state;
    expect_bad_offsets(0, 1);
    expect_bad_offsets(0, -1);
    expect_bad_offsets(3, 1);
    expect_bad_offsets(3, INT32_MAX);
    expect_bad_offsets(11, INT32_MAX);
    expect_bad_offsets(11, -1);
    expect_bad_offsets(11, 29);
}

static void test_every_prefix_is_refused(void **state)
{
    (void)state;
    sample made = make_sample();
    for (size_t count = 0; count < made.count; count++) {
        size_t rounded = (count + 63) / 64 * 64;
        uint8_t *part = room_for(rounded + 64);
        tfos__entry entry;
        tfos_error error = {0};
        memcpy(part, made.bytes, count);
        assert_int_equal(tfos__entry_read(part, count, &entry, &error), TFOS_CORRUPT);
        assert_true(error.message[0] != '\0');
        free(part);
    }
    free_sample(&made);
}

static void test_a_schema_that_is_none(void **state)
{
    (void)state;
    tfos_schema *schema = helper_schema("{\"fields\": []}");
    tfos_schema *again = NULL;
    tfos__buffer bytes = {0};
    tfos__entry entry;
    tfos_error error = {0};
    assert_int_equal(tfos__entry_append_schema(schema, &bytes, NULL), TFOS_OK);
    assert_int_equal(tfos__entry_read(bytes.data, bytes.size, &entry, NULL), TFOS_OK);
    tfos__store_u64(bytes.data + 32, bytes.size); /* after it was checked */
    assert_int_equal(tfos__entry_read_schema(bytes.data, &entry, &again, &error), TFOS_CORRUPT);
    tfos__store_u64(bytes.data + 32, 5);
    assert_int_equal(tfos__entry_read_schema(bytes.data, &entry, &again, &error), TFOS_INVALID);
    helper_expect_in(error.message, "in a lane: schema");
    assert_null(again);
    tfos_schema_free(schema);
    tfos__buffer_reset(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_parts_of_random_batches),
        cmocka_unit_test(test_the_same_rows_are_the_same_bytes),
        cmocka_unit_test(test_as_many_rows_as_fit),
        cmocka_unit_test(test_a_schema_with_its_note),
        cmocka_unit_test(test_the_end_of_a_partition),
        cmocka_unit_test(test_a_gap),
        cmocka_unit_test(test_every_lie_is_named),
        cmocka_unit_test(test_offsets_that_fall_or_do_not_begin_at_0),
        cmocka_unit_test(test_every_prefix_is_refused),
        cmocka_unit_test(test_a_schema_that_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
