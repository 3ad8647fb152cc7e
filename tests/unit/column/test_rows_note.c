/* The note of rows: what is written is read again, what others write is theirs, and what lies is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "column/rows_note.h"
#include "helper_records.h"

static tfos_schema *new_schema(void)
{
    tfos_schema *schema;
    assert_int_equal(tfos_schema_new(TFOS_RECORD_EXAMPLE, &schema, NULL), TFOS_OK);
    return schema;
}

static tfos_row_kind numpy(char code, tfos_row_form form, int dimensions)
{
    tfos_row_kind kind = {.form = form, .leaf = TFOS_ROW_LEAF_NUMPY, .numpy = tfos_numpy_type_find(code)};
    kind.dimensions = dimensions;
    for (int i = 0; dimensions != 1 && i < dimensions; i++) {
        kind.shape[i] = INT64_C(1) << (4 * i);
    }
    return kind;
}

static void expect_same(const tfos_rows *left, const tfos_rows *right)
{
    assert_int_equal(left->shape, right->shape);
    assert_int_equal(left->count, right->count);
    for (size_t i = 0; i < left->count; i++) {
        const tfos_row_kind *a = &left->fields[i].kind;
        const tfos_row_kind *b = &right->fields[i].kind;
        assert_string_equal(left->fields[i].name, right->fields[i].name);
        assert_true(a->form == b->form && a->leaf == b->leaf && a->numpy == b->numpy);
        assert_int_equal(a->dimensions, b->dimensions);
        assert_memory_equal(a->shape, b->shape, sizeof a->shape);
    }
}

static void expect_round_trip(tfos_row_shape shape, const tfos_row_field *fields, size_t count)
{
    tfos_schema *schema = new_schema();
    const tfos_rows rows = {.shape = shape, .count = count, .fields = fields};
    const tfos_rows *found;
    assert_int_equal(tfos_schema_set_rows(schema, &rows, NULL), TFOS_OK);
    assert_int_equal(tfos_schema_rows(schema, &found, NULL), TFOS_OK);
    expect_same(&rows, found);
    const tfos_rows *again;
    assert_int_equal(tfos_schema_rows(schema, &again, NULL), TFOS_OK);
    assert_ptr_equal(found, again);
    /* Through the text of a schema, as it travels. */
    char *text;
    tfos_schema *copy;
    assert_int_equal(tfos_schema_to_json(schema, &text, NULL), TFOS_OK);
    assert_int_equal(tfos_schema_from_json(text, strlen(text), &copy, NULL), TFOS_OK);
    assert_int_equal(tfos_schema_rows(copy, &found, NULL), TFOS_OK);
    expect_same(&rows, found);
    tfos_string_free(text);
    tfos_schema_free(copy);
    tfos_schema_free(schema);
}

static void test_what_is_written_is_read(void **state)
{
    (void)state;
    for (int shape = TFOS_ROW_VALUE; shape <= TFOS_ROW_SPARK_TEMPLATE; shape++) {
        for (int form = TFOS_ROW_FORM_VALUE; form < TFOS_ROW_FORM_ARRAY; form++) {
            for (int leaf = TFOS_ROW_LEAF_NONE; leaf < TFOS_ROW_LEAF_NUMPY; leaf++) {
                const tfos_row_field field = {"value", {.form = (tfos_row_form)form, .leaf = (tfos_row_leaf)leaf}};
                expect_round_trip((tfos_row_shape)shape, &field, 1);
            }
        }
    }
    for (size_t i = 0; i < tfos_numpy_type_count(); i++) {
        char code = tfos_numpy_type_at(i)->code;
        tfos_row_field fields[TFOS_ROW_MAX_DIMENSIONS + 2] = {
            {"a \"name\", ü/\n", numpy(code, TFOS_ROW_FORM_VALUE, 0)}};
        static const char *const names[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8"};
        for (int d = 0; d <= TFOS_ROW_MAX_DIMENSIONS; d++) {
            fields[d + 1] = (tfos_row_field){names[d], numpy(code, TFOS_ROW_FORM_ARRAY, d)};
        }
        expect_round_trip(TFOS_ROW_DICT, fields, TFOS_ROW_MAX_DIMENSIONS + 2);
    }
}

/* The form in which notes travel: programs of one cluster may have different versions of the library for a while. */
static void test_the_text(void **state)
{
    (void)state;
    tfos_schema *schema = new_schema();
    const tfos_row_field fields[] = {{"_1", {.form = TFOS_ROW_FORM_LIST, .leaf = TFOS_ROW_LEAF_INT}},
                                     {"_2", numpy('f', TFOS_ROW_FORM_ARRAY, 2)},
                                     {"_3", numpy('B', TFOS_ROW_FORM_ARRAY, 1)}};
    const tfos_rows rows = {.shape = TFOS_ROW_TUPLE, .count = 3, .fields = fields};
    assert_int_equal(tfos_schema_set_rows(schema, &rows, NULL), TFOS_OK);
    assert_string_equal(tfos_schema_note(schema),
                        "{\"rows\":1,\"row\":\"tuple\",\"fields\":[{\"name\":\"_1\",\"is\":\"list\",\"of\":\"int\"},"
                        "{\"name\":\"_2\",\"is\":\"array\",\"of\":\"numpy f\",\"shape\":[1,16]},"
                        "{\"name\":\"_3\",\"is\":\"array\",\"of\":\"numpy B\"}]}");
    const tfos_rows *found;
    assert_int_equal(tfos_schema_rows(schema, &found, NULL), TFOS_OK);
    assert_int_equal(tfos_schema_set_note(schema, NULL, NULL), TFOS_OK); /* what was read of the note goes with it */
    assert_int_equal(tfos_schema_rows(schema, &found, NULL), TFOS_OK);
    assert_int_equal(found->shape, TFOS_ROW_NONE);
    tfos_schema_free(schema);
}

static void test_notes_of_others(void **state)
{
    (void)state;
    static const char *const notes[] = {NULL, "", "no JSON", "[]", "{}", "{\"of\": \"another shell\"}", "{\"rows\": 1"};
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++) {
        tfos_rows *rows;
        assert_int_equal(tfos__rows_parse(notes[i], &rows, NULL), TFOS_OK);
        assert_int_equal(rows->shape, TFOS_ROW_NONE);
        assert_int_equal(rows->count, 0);
        assert_null(tfos__rows_find(rows, 0, "a"));
        tfos__rows_free(rows);
    }
}

#define ENTRY(text) "{\"rows\": 1, \"row\": \"list\", \"fields\": [" text "]}"
#define NAMED(text) ENTRY("{\"name\": \"a\", " text "}")

static void test_notes_that_lie(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\"rows\": 2}", "version"},
        {"{\"rows\": \"1\"}", "version"},
        {"{\"rows\": 1}", "shape of its rows"},
        {"{\"rows\": 1, \"row\": \"none\"}", "shape of its rows"},
        {"{\"rows\": 1, \"row\": \"list\"}", "fields are missing"},
        {"{\"rows\": 1, \"row\": \"list\", \"fields\": {}}", "fields are missing"},
        {"{\"rows\": 1, \"row\": \"value\", \"fields\": [1, 2]}", "fields are missing"},
        {ENTRY("1"), "no name"},
        {ENTRY("{\"name\": 5}"), "no name"},
        {NAMED("\"is\": \"value\""), "not known here"},
        {NAMED("\"is\": \"value\", \"of\": \"numpy\""), "not known here"},
        {NAMED("\"is\": \"value\", \"of\": \"numpy ff\""), "not known here"},
        {NAMED("\"is\": \"value\", \"of\": \"numpy z\""), "not known here"},
        {NAMED("\"is\": \"set\", \"of\": \"int\""), "not known here"},
        {NAMED("\"is\": \"array\", \"of\": \"int\""), "not known here"},
        {NAMED("\"is\": \"array\", \"of\": \"numpy f\", \"shape\": 5"), "not known here"},
        {NAMED("\"is\": \"array\", \"of\": \"numpy f\", \"shape\": [-1]"), "not known here"},
        {NAMED("\"is\": \"array\", \"of\": \"numpy f\", \"shape\": [\"1\"]"), "not known here"},
        {NAMED("\"is\": \"array\", \"of\": \"numpy f\", \"shape\": [1,1,1,1,1,1,1,1,1]"), "not known here"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tfos_rows *rows = NULL;
        tfos_error error = {0};
        assert_int_equal(tfos__rows_parse(cases[i][0], &rows, &error), TFOS_CORRUPT);
        helper_expect_in(error.message, "the note of a batch is not one of tfos's rows: ");
        helper_expect_in(error.message, cases[i][1]);
        assert_null(rows);
    }
}

static void test_columns_of_kinds(void **state)
{
    (void)state;
    const tfos_row_kind text = {.leaf = TFOS_ROW_LEAF_STR};
    const tfos_row_kind list = {.form = TFOS_ROW_FORM_TUPLE, .leaf = TFOS_ROW_LEAF_FLOAT};
    const tfos_row_kind plain = numpy('f', TFOS_ROW_FORM_ARRAY, 1);
    const tfos_row_kind raw = numpy('e', TFOS_ROW_FORM_ARRAY, 1);
    assert_true(tfos_row_kind_type(&text) == TFOS_TYPE_STRING && !tfos_row_kind_has_lists(&text));
    assert_true(tfos_row_kind_type(&list) == TFOS_TYPE_DOUBLE && tfos_row_kind_has_lists(&list));
    assert_true(tfos_row_kind_type(&plain) == TFOS_TYPE_FLOAT && tfos_row_kind_has_lists(&plain));
    assert_true(tfos_row_kind_type(&raw) == TFOS_TYPE_BINARY && !tfos_row_kind_has_lists(&raw));
    assert_null(tfos_numpy_type_find('z'));
    assert_string_equal(tfos_numpy_type_find('e')->name, "float16");
    const tfos_row_field fields[] = {{"a", text}, {"b", list}};
    const tfos_rows rows = {.shape = TFOS_ROW_DICT, .count = 2, .fields = fields};
    assert_ptr_equal(tfos__rows_find(&rows, 0, "b"), &fields[1].kind); /* columns may be chosen, in any order */
    assert_ptr_equal(tfos__rows_find(&rows, 1, "b"), &fields[1].kind);
    assert_null(tfos__rows_find(&rows, 0, "c"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read), cmocka_unit_test(test_the_text),
        cmocka_unit_test(test_notes_of_others),         cmocka_unit_test(test_notes_that_lie),
        cmocka_unit_test(test_columns_of_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
