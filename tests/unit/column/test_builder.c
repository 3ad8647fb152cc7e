/* Batches from columns that the caller has built: every layout is copied, and what would break a batch is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "column/batch.h"
#include "helper_records.h"
#include "helper_text.h"

static const uint8_t middle_missing[] = {0xFD}; /* of three rows, and bits beyond them */

static tfos_schema *schema_of(const char *fields)
{
    char json[1024];
    snprintf(json, sizeof json, "{\"record\": \"example\", \"fields\": [%s]}", fields);
    return helper_schema(json);
}

static void expect_batch(const char *fields, const tfos_vector *columns, int64_t rows, const char *expected)
{
    tfos_schema *schema = schema_of(fields);
    tfos_batch *batch = NULL;
    tfos_error error = {0};
    tfos_status status = tfos_batch_new(schema, columns, rows, &batch, &error);
    assert_string_equal(error.message, "");
    assert_int_equal(status, TFOS_OK);
    assert_ptr_equal(tfos_batch_schema(batch), schema);
    tfos_schema_free(schema);
    tfos__buffer text = {0};
    helper_show_batch(batch, &text);
    char *found = helper_string(&text);
    helper_expect_text(found, expected);
    free(found);
    tfos__buffer_reset(&text);
    tfos_batch_free(batch);
}

static void expect_error(const char *fields, const tfos_vector *column, int64_t rows, tfos_status expected,
                         const char *part)
{
    tfos_schema *schema = schema_of(fields);
    tfos_batch *batch = NULL;
    tfos_error error = {0};
    assert_int_equal(tfos_batch_new(schema, column, rows, &batch, &error), expected);
    assert_null(batch);
    helper_expect_in(error.message, "column 'x'");
    helper_expect_in(error.message, part);
    tfos_schema_free(schema);
}

static void test_every_layout_is_copied(void **state)
{
    (void)state;
    int64_t numbers[] = {1, 0, 3};
    float reals[] = {1, 2, 3, 4, 5, 6};
    uint8_t bits[] = {0xFF};
    int32_t text_offsets[] = {0, 2, 2, 5};
    int32_t list_offsets[] = {0, 1, 1, 3};
    tfos_vector leaf = {.layout = TFOS_LAYOUT_VALUES, .type = TFOS_TYPE_FLOAT, .length = 6, .data = reals};
    tfos_vector tags = {
        .layout = TFOS_LAYOUT_BYTES, .type = TFOS_TYPE_STRING, .length = 3, .offsets = text_offsets, .data = "abcde"};
    tfos_vector columns[] = {
        {.layout = TFOS_LAYOUT_VALUES,
         .type = TFOS_TYPE_INT64,
         .length = 3,
         .validity = middle_missing,
         .data = numbers},
        {.layout = TFOS_LAYOUT_VALUES, .type = TFOS_TYPE_BOOL, .length = 3, .data = bits},
        {.layout = TFOS_LAYOUT_FIXED_LIST, .type = TFOS_TYPE_FLOAT, .list_length = 2, .length = 3, .child = &leaf},
        {.layout = TFOS_LAYOUT_LIST,
         .type = TFOS_TYPE_STRING,
         .length = 3,
         .validity = middle_missing,
         .offsets = list_offsets,
         .child = &tags},
    };
    expect_batch("{\"name\": \"n\", \"type\": \"int64\", \"nullable\": true},"
                 "{\"name\": \"b\", \"type\": \"bool\"},"
                 "{\"name\": \"f\", \"type\": \"float\", \"shape\": [2]},"
                 "{\"name\": \"t\", \"type\": \"string\", \"shape\": [null], \"nullable\": true}",
                 columns, 3,
                 "{\"n\": 1, \"b\": true, \"f\": [1.0, 2.0], \"t\": [\"ab\"]}\n"
                 "{\"n\": null, \"b\": true, \"f\": [3.0, 4.0], \"t\": null}\n"
                 "{\"n\": 3, \"b\": true, \"f\": [5.0, 6.0], \"t\": [\"\", \"cde\"]}\n");
}

static void test_the_batch_has_memory_of_its_own(void **state)
{
    (void)state;
    int64_t numbers[] = {1, 2};
    uint8_t bits[] = {0xFF};
    tfos_schema *schema = schema_of("{\"name\": \"n\", \"type\": \"int64\"}, {\"name\": \"b\", \"type\": \"bool\"}");
    tfos_vector columns[] = {{.layout = TFOS_LAYOUT_VALUES, .type = TFOS_TYPE_INT64, .length = 2, .data = numbers},
                             {.layout = TFOS_LAYOUT_VALUES, .type = TFOS_TYPE_BOOL, .length = 2, .data = bits}};
    tfos_batch *batch = NULL;
    assert_int_equal(tfos_batch_new(schema, columns, 2, &batch, NULL), TFOS_OK);
    numbers[1] = 7;
    assert_int_equal(((const int64_t *)tfos_batch_column(batch, 0)->data)[1], 2);
    assert_int_equal(*(const uint8_t *)tfos_batch_column(batch, 1)->data, 3); /* no bits beyond the end */
    tfos_batch_free(batch);
    tfos_schema_free(schema);
}

static void test_no_rows_are_a_batch(void **state)
{
    (void)state;
    int32_t offsets[] = {0};
    tfos_vector column = {.layout = TFOS_LAYOUT_BYTES, .type = TFOS_TYPE_BINARY, .offsets = offsets};
    expect_batch("{\"name\": \"x\", \"type\": \"binary\"}", &column, 0, "");
}

static void test_what_would_break_a_batch_is_refused(void **state)
{
    (void)state;
    int64_t numbers[] = {1, 2, 3};
    int32_t descending[] = {0, 2, 1, 3};
    int32_t late[] = {1, 2, 2, 3};
    int32_t full[] = {0, 1, 2, 3};
    tfos_vector ints = {.layout = TFOS_LAYOUT_VALUES, .type = TFOS_TYPE_INT64, .length = 3, .data = numbers};
    expect_error("{\"name\": \"x\", \"type\": \"double\"}", &ints, 3, TFOS_MISMATCH, "double");
    expect_error("{\"name\": \"x\", \"type\": \"int64\", \"shape\": [3]}", &ints, 3, TFOS_MISMATCH, "fixed_list");
    expect_error("{\"name\": \"x\", \"type\": \"int64\"}", &ints, 2, TFOS_MISMATCH, "expected 2 values");
    tfos_vector missing = ints;
    missing.validity = middle_missing;
    expect_error("{\"name\": \"x\", \"type\": \"int64\"}", &missing, 3, TFOS_MISMATCH, "not nullable");
    tfos_vector list = {
        .layout = TFOS_LAYOUT_LIST, .type = TFOS_TYPE_INT64, .length = 3, .offsets = full, .child = &missing};
    const char *ragged = "{\"name\": \"x\", \"type\": \"int64\", \"shape\": [null], \"nullable\": true}";
    expect_error(ragged, &list, 3, TFOS_MISMATCH, "a value in a list may not");
    list.child = &ints;
    list.offsets = descending;
    expect_error(ragged, &list, 3, TFOS_INVALID, "never descend");
    list.offsets = late;
    expect_error(ragged, &list, 3, TFOS_INVALID, "begin at 0");
    list.offsets = full;
    list.validity = middle_missing;
    expect_error(ragged, &list, 3, TFOS_INVALID, "must be empty");
    tfos_vector text = {
        .layout = TFOS_LAYOUT_BYTES, .type = TFOS_TYPE_STRING, .length = 3, .offsets = full, .data = "a\xC3\xA4"};
    expect_error("{\"name\": \"x\", \"type\": \"string\"}", &text, 3, TFOS_ENCODING, "row 1");
    tfos_vector childless = {.layout = TFOS_LAYOUT_FIXED_LIST, .type = TFOS_TYPE_INT64, .list_length = 1, .length = 3};
    expect_error("{\"name\": \"x\", \"type\": \"int64\", \"shape\": [1]}", &childless, 3, TFOS_MISMATCH, "found none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_layout_is_copied),
        cmocka_unit_test(test_the_batch_has_memory_of_its_own),
        cmocka_unit_test(test_no_rows_are_a_batch),
        cmocka_unit_test(test_what_would_break_a_batch_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
