/* Schema: adding, finding and choosing columns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "column/schema.h"
#include "helper_records.h"
#include "helper_text.h"

static tfos_schema *new_schema(tfos_record_kind kind)
{
    tfos_schema *schema = NULL;
    assert_int_equal(tfos_schema_new(kind, &schema, NULL), TFOS_OK);
    return schema;
}

static void add(tfos_schema *schema, const char *name)
{
    assert_int_equal(tfos_schema_add(schema, &(tfos_field){.name = name, .type = TFOS_TYPE_INT64}, NULL), TFOS_OK);
}

static void refuse(tfos_schema *schema, tfos_field field, tfos_status status, const char *why)
{
    tfos_error error = {0};
    size_t before = tfos_schema_field_count(schema);
    assert_int_equal(tfos_schema_add(schema, &field, &error), status);
    assert_int_equal(error.status, status);
    helper_expect_in(error.message, why);
    assert_int_equal(tfos_schema_field_count(schema), before);
}

static void test_types(void **state)
{
    (void)state;
    static const char *const names[] = {"int32", "int64", "float", "double", "bool", "string", "binary"};
    for (size_t i = 0; i < 7; i++) {
        tfos_type type;
        assert_int_equal(tfos_type_parse(names[i], &type, NULL), TFOS_OK);
        assert_string_equal(tfos_type_name(type), names[i]);
    }
    tfos_type type = TFOS_TYPE_BOOL;
    tfos_error error = {0};
    assert_int_equal(tfos_type_parse("int\n", &type, &error), TFOS_INVALID);
    helper_expect_in(error.message, "unknown type 'int\\x0a': expected int32, int64");
    assert_int_equal(type, TFOS_TYPE_BOOL);
    assert_string_equal(tfos_record_kind_name(TFOS_RECORD_SEQUENCE), "sequence_example");
}

static void test_add_and_find(void **state)
{
    (void)state;
    tfos_schema *schema = new_schema(TFOS_RECORD_EXAMPLE);
    char name[] = "image";
    tfos_field field = {.name = name, .type = TFOS_TYPE_FLOAT, .shape = TFOS_SHAPE_FIXED, .length = 784};
    assert_int_equal(tfos_schema_add(schema, &field, NULL), TFOS_OK);
    name[0] = 'X'; /* the schema has its own copy */
    add(schema, "label");
    assert_int_equal(tfos_schema_field_count(schema), 2);
    assert_int_equal(tfos_schema_find(schema, "image"), 0);
    assert_int_equal(tfos_schema_find(schema, "label"), 1);
    assert_int_equal(tfos_schema_find(schema, "labe"), -1);
    assert_int_equal(tfos_schema_find(schema, ""), -1);
    assert_int_equal(tfos__schema_find(schema, "label\0", 6), -1);
    assert_string_equal(tfos_schema_field(schema, 0)->name, "image");
    assert_int_equal(tfos_schema_field(schema, 0)->length, 784);
    assert_int_equal(tfos_schema_kind(schema), TFOS_RECORD_EXAMPLE);
    tfos_schema_free(schema);
    tfos_schema_free(NULL);
}

static void test_what_cannot_be_added(void **state)
{
    (void)state;
    tfos_schema *schema = new_schema(TFOS_RECORD_EXAMPLE);
    char longest[TFOS_SCHEMA_MAX_NAME_BYTES + 2];
    memset(longest, 'n', sizeof longest);
    longest[TFOS_SCHEMA_MAX_NAME_BYTES + 1] = '\0';
    add(schema, "a");
    refuse(schema, (tfos_field){.name = "a"}, TFOS_INVALID, "column 'a' is in the schema twice");
    refuse(schema, (tfos_field){.name = ""}, TFOS_INVALID, "1 to 4096 bytes, found 0");
    refuse(schema, (tfos_field){.name = longest}, TFOS_INVALID, "found 4097");
    longest[TFOS_SCHEMA_MAX_NAME_BYTES] = '\0';
    add(schema, longest);
    refuse(schema, (tfos_field){.name = "b\xFF"}, TFOS_ENCODING, "'b\\xff' is not valid UTF-8");
    refuse(schema, (tfos_field){.name = "b", .length = 1}, TFOS_INVALID, "other shapes have none; found 1");
    refuse(schema, (tfos_field){.name = "b", .shape = TFOS_SHAPE_RAGGED, .length = 1}, TFOS_INVALID, "found 1");
    refuse(schema, (tfos_field){.name = "b", .shape = TFOS_SHAPE_FIXED, .length = -1}, TFOS_INVALID, "found -1");
    refuse(schema, (tfos_field){.name = "b", .shape = TFOS_SHAPE_FIXED, .length = TFOS_SCHEMA_MAX_LENGTH + 1},
           TFOS_INVALID, "from 0 to 268435456");
    refuse(schema, (tfos_field){.name = "b", .feature_list = true}, TFOS_INVALID, "sequence_example");
    tfos_field zero = {.name = "b", .shape = TFOS_SHAPE_FIXED, .length = 0};
    assert_int_equal(tfos_schema_add(schema, &zero, NULL), TFOS_OK);
    tfos_schema_free(schema);
    schema = new_schema(TFOS_RECORD_SEQUENCE);
    tfos_field list = {.name = "b", .feature_list = true};
    assert_int_equal(tfos_schema_add(schema, &list, NULL), TFOS_OK);
    tfos_schema_free(schema);
}

static void test_raw_bytes_have_one_column(void **state)
{
    (void)state;
    tfos_schema *schema = new_schema(TFOS_RECORD_BYTES);
    assert_int_equal(tfos_schema_field_count(schema), 1);
    assert_string_equal(tfos_schema_field(schema, 0)->name, "record");
    assert_int_equal(tfos_schema_field(schema, 0)->type, TFOS_TYPE_BINARY);
    refuse(schema, (tfos_field){.name = "more"}, TFOS_INVALID, "the one column 'record', not 'more'");
    tfos_schema_free(schema);
}

static void test_as_many_columns_as_there_may_be(void **state)
{
    (void)state;
    tfos_schema *schema = new_schema(TFOS_RECORD_EXAMPLE);
    char name[16];
    for (int i = 0; i < TFOS_SCHEMA_MAX_FIELDS; i++) {
        snprintf(name, sizeof name, "c%d", i);
        add(schema, name);
    }
    for (int i = 0; i < TFOS_SCHEMA_MAX_FIELDS; i++) {
        snprintf(name, sizeof name, "c%d", i);
        assert_int_equal(tfos_schema_find(schema, name), i);
    }
    refuse(schema, (tfos_field){.name = "more"}, TFOS_LIMIT, "more than 65536 columns");
    tfos_schema_free(schema);
}

static void test_select(void **state)
{
    (void)state;
    tfos_schema *schema = helper_schema("{\"fields\": [{\"name\": \"a\", \"type\": \"int64\"},"
                                        "{\"name\": \"b\", \"type\": \"float\", \"shape\": [3], \"nullable\": true},"
                                        "{\"name\": \"c\", \"type\": \"string\", \"shape\": [null]}]}");
    tfos_schema *chosen = NULL;
    tfos_error error = {0};
    assert_int_equal(tfos_schema_select(schema, (const char *[]){"c", "b"}, 2, &chosen, &error), TFOS_OK);
    char *shown = helper_show_schema(chosen);
    assert_string_equal(shown, "c string[], b float[3] nullable");
    free(shown);
    tfos_schema_free(chosen);
    chosen = NULL;
    assert_int_equal(tfos_schema_select(schema, (const char *[]){"a", "z"}, 2, &chosen, &error), TFOS_INVALID);
    assert_string_equal(error.message, "there is no column 'z'; the columns are: a, b, c");
    assert_int_equal(tfos_schema_select(schema, (const char *[]){"a", "a"}, 2, &chosen, &error), TFOS_INVALID);
    helper_expect_in(error.message, "column 'a' is in the schema twice");
    assert_null(chosen);
    assert_int_equal(tfos_schema_select(schema, NULL, 0, &chosen, &error), TFOS_OK);
    assert_int_equal(tfos_schema_field_count(chosen), 0);
    tfos_schema_free(chosen);
    tfos_schema_free(schema);
}

static void test_select_from_many_names_only_some(void **state)
{
    (void)state;
    tfos_schema *schema = new_schema(TFOS_RECORD_EXAMPLE);
    char name[64];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "a column with a name of some length %d", i);
        add(schema, name);
    }
    tfos_schema *chosen;
    tfos_error error = {0};
    assert_int_equal(tfos_schema_select(schema, (const char *[]){"none"}, 1, &chosen, &error), TFOS_INVALID);
    helper_expect_in(error.message, "of some length 0, a column");
    helper_expect_in(error.message, ", …");
    tfos_schema_free(schema);
}

static void test_raw_bytes_select(void **state)
{
    (void)state;
    tfos_schema *schema = new_schema(TFOS_RECORD_BYTES);
    tfos_schema *chosen;
    tfos_error error = {0};
    assert_int_equal(tfos_schema_select(schema, (const char *[]){"record"}, 1, &chosen, NULL), TFOS_OK);
    assert_int_equal(tfos_schema_field_count(chosen), 1);
    tfos_schema_free(chosen);
    assert_int_equal(tfos_schema_select(schema, (const char *[]){"x"}, 1, &chosen, &error), TFOS_INVALID);
    tfos_schema_free(schema);
}

#define FIELD(name, type, more) "{\"name\": \"" name "\", \"type\": \"" type "\"" more "}"
#define SCHEMA(fields) "{\"record\": \"sequence_example\", \"fields\": [" fields "]}"

static void test_equal_schemas(void **state)
{
    (void)state;
    static const char *const different[] = {
        SCHEMA(FIELD("a", "int64", "") "," FIELD("b", "float", ", \"shape\": [3]")),
        SCHEMA(FIELD("b", "float", ", \"shape\": [3]") "," FIELD("a", "int64", "")),
        SCHEMA(FIELD("a", "int32", "") "," FIELD("b", "float", ", \"shape\": [3]")),
        SCHEMA(FIELD("a", "int64", ", \"nullable\": true") "," FIELD("b", "float", ", \"shape\": [3]")),
        SCHEMA(FIELD("a", "int64", ", \"feature_list\": true") "," FIELD("b", "float", ", \"shape\": [3]")),
        SCHEMA(FIELD("a", "int64", ", \"shape\": [null]") "," FIELD("b", "float", ", \"shape\": [3]")),
        SCHEMA(FIELD("a", "int64", "") "," FIELD("b", "float", ", \"shape\": [4]")),
        SCHEMA(FIELD("a", "int64", "") "," FIELD("c", "float", ", \"shape\": [3]")),
        SCHEMA(FIELD("a", "int64", "")),
        SCHEMA(""),
        "{\"fields\": []}",
        "{\"fields\": [" FIELD("a", "int64", "") "]}",
        "{\"record\": \"bytes\"}",
        "{\"fields\": [], \"note\": \"x\"}",
        "{\"fields\": [], \"note\": \"y\"}",
        "{\"fields\": [], \"note\": \"\"}",
    };
    for (size_t i = 0; i < sizeof different / sizeof different[0]; i++) {
        tfos_schema *left = helper_schema(different[i]);
        assert_true(tfos_schema_equal(left, left));
        for (size_t j = 0; j < sizeof different / sizeof different[0]; j++) {
            tfos_schema *right = helper_schema(different[j]);
            assert_int_equal(tfos_schema_equal(left, right), i == j);
            assert_int_equal(tfos_schema_fingerprint(left) == tfos_schema_fingerprint(right), i == j);
            tfos_schema_free(right);
        }
        tfos_schema_free(left);
    }
}

/* Two processes of two machines may compare them. */
static void test_a_fingerprint_is_the_same_everywhere(void **state)
{
    (void)state;
    tfos_schema *schema = new_schema(TFOS_RECORD_EXAMPLE);
    assert_true(tfos_schema_fingerprint(schema) == UINT64_C(0xAD2ACA7747985764));
    add(schema, "label");
    assert_true(tfos_schema_fingerprint(schema) == UINT64_C(0x1758E7B03E4E9117));
    assert_int_equal(tfos_schema_set_note(schema, "how rows are made", NULL), TFOS_OK);
    assert_true(tfos_schema_fingerprint(schema) == UINT64_C(0x1848D048B9397DD2));
    assert_int_equal(tfos_schema_set_note(schema, NULL, NULL), TFOS_OK);
    assert_true(tfos_schema_fingerprint(schema) == UINT64_C(0x1758E7B03E4E9117));
    tfos_schema_free(schema);
}

static void test_describe(void **state)
{
    (void)state;
    char text[64];
    tfos__field_describe(&(tfos_field){.name = "a", .type = TFOS_TYPE_STRING}, text, sizeof text);
    assert_string_equal(text, "string");
    tfos_field field = {.name = "a", .type = TFOS_TYPE_FLOAT, .shape = TFOS_SHAPE_FIXED, .length = 3};
    field.feature_list = true;
    tfos__field_describe(&field, text, sizeof text);
    assert_string_equal(text, "list of float[3]");
    tfos__field_describe(&field, text, 6);
    assert_string_equal(text, "list ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_add_and_find),
        cmocka_unit_test(test_what_cannot_be_added),
        cmocka_unit_test(test_raw_bytes_have_one_column),
        cmocka_unit_test(test_as_many_columns_as_there_may_be),
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_select_from_many_names_only_some),
        cmocka_unit_test(test_raw_bytes_select),
        cmocka_unit_test(test_equal_schemas),
        cmocka_unit_test(test_a_fingerprint_is_the_same_everywhere),
        cmocka_unit_test(test_describe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
