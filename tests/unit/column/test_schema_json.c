/* Schemas as JSON: what is written reads back the same, and every mistake is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "helper_records.h"
#include "helper_text.h"

static void expect_same_fields(const tfos_schema *left, const tfos_schema *right)
{
    assert_int_equal(tfos_schema_kind(left), tfos_schema_kind(right));
    assert_int_equal(tfos_schema_note(left) == NULL, tfos_schema_note(right) == NULL);
    if (tfos_schema_note(left) != NULL) {
        assert_string_equal(tfos_schema_note(left), tfos_schema_note(right));
    }
    assert_int_equal(tfos_schema_field_count(left), tfos_schema_field_count(right));
    for (size_t i = 0; i < tfos_schema_field_count(left); i++) {
        const tfos_field *a = tfos_schema_field(left, i);
        const tfos_field *b = tfos_schema_field(right, i);
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->type, b->type);
        assert_int_equal(a->shape, b->shape);
        assert_int_equal(a->length, b->length);
        assert_int_equal(a->nullable, b->nullable);
        assert_int_equal(a->feature_list, b->feature_list);
    }
}

static void round_trip(const tfos_schema *schema)
{
    char *text = NULL;
    assert_int_equal(tfos_schema_to_json(schema, &text, NULL), TFOS_OK);
    tfos_schema *again = helper_schema(text);
    expect_same_fields(schema, again);
    char *text_again = NULL;
    assert_int_equal(tfos_schema_to_json(again, &text_again, NULL), TFOS_OK);
    assert_string_equal(text, text_again);
    tfos_string_free(text);
    tfos_string_free(text_again);
    tfos_schema_free(again);
}

static void test_the_form_that_is_written(void **state)
{
    (void)state;
    tfos_schema *schema = helper_schema("{\"fields\":[{\"type\":\"float\",\"shape\":[784],\"name\":\"image\"},"
                                        "{\"name\":\"tags/x\",\"type\":\"string\",\"shape\":[null],\"nullable\":true},"
                                        "{\"name\":\"label\",\"type\":\"int64\"}]}");
    char *text = NULL;
    assert_int_equal(tfos_schema_to_json(schema, &text, NULL), TFOS_OK);
    helper_expect_text(text,
                       "{\"record\": \"example\",\n \"fields\": [\n"
                       "  { \"name\": \"image\", \"type\": \"float\", \"shape\": [ 784 ], \"nullable\": false },\n"
                       "  { \"name\": \"tags/x\", \"type\": \"string\", \"shape\": [ null ], \"nullable\": true },\n"
                       "  { \"name\": \"label\", \"type\": \"int64\", \"shape\": [ ], \"nullable\": false }]}");
    tfos_string_free(text);
    tfos_schema_free(schema);
}

static void test_a_note_travels_along(void **state)
{
    (void)state;
    tfos_schema *schema = helper_schema("{\"note\": \"x\\u0001\", \"fields\":[{\"name\":\"a\",\"type\":\"int64\"}]}");
    tfos_schema *chosen = NULL;
    char *text = NULL;
    tfos_error error = {0};
    assert_string_equal(tfos_schema_note(schema), "x\x01");
    assert_int_equal(tfos_schema_set_note(schema, "{\"rows\": \"…\"}\n", NULL), TFOS_OK);
    round_trip(schema);
    assert_int_equal(tfos_schema_to_json(schema, &text, NULL), TFOS_OK);
    helper_expect_text(text, "{\"record\": \"example\",\n \"note\": \"{\\\"rows\\\": \\\"…\\\"}\\u000a\",\n"
                             " \"fields\": [\n  { \"name\": \"a\", \"type\": \"int64\", \"shape\": [ ], "
                             "\"nullable\": false }]}");
    tfos_string_free(text);
    assert_int_equal(tfos_schema_select(schema, (const char *const[]){"a"}, 1, &chosen, NULL), TFOS_OK);
    assert_string_equal(tfos_schema_note(chosen), "{\"rows\": \"…\"}\n");
    /* A note that is refused leaves the one that was there. */
    assert_int_equal(tfos_schema_set_note(chosen, "\xff", &error), TFOS_ENCODING);
    helper_expect_in(error.message, "not valid UTF-8 at byte 0");
    char *large = malloc((1 << 20) + 2);
    assert_non_null(large);
    memset(large, 'n', (1 << 20) + 1);
    large[(1 << 20) + 1] = '\0';
    assert_int_equal(tfos_schema_set_note(chosen, large, &error), TFOS_LIMIT);
    assert_string_equal(tfos_schema_note(chosen), "{\"rows\": \"…\"}\n");
    large[1 << 20] = '\0';
    assert_int_equal(tfos_schema_set_note(chosen, large, &error), TFOS_OK);
    round_trip(chosen);
    assert_int_equal(tfos_schema_set_note(chosen, NULL, NULL), TFOS_OK);
    assert_null(tfos_schema_note(chosen));
    round_trip(chosen);
    free(large);
    tfos_schema_free(chosen);
    tfos_schema_free(schema);
}

/* Every type, shape, nullable and feature list. */
static void test_round_trip_of_every_field(void **state)
{
    (void)state;
    for (tfos_record_kind kind = TFOS_RECORD_EXAMPLE; kind <= TFOS_RECORD_SEQUENCE; kind++) {
        tfos_schema *schema = NULL;
        assert_int_equal(tfos_schema_new(kind, &schema, NULL), TFOS_OK);
        round_trip(schema);
        for (int i = 0; i < 7 * 3 * 2 * (kind == TFOS_RECORD_SEQUENCE ? 2 : 1); i++) {
            char name[16];
            snprintf(name, sizeof name, "c%d", i);
            tfos_field field = {.name = name, .type = (tfos_type)(i % 7), .shape = (tfos_shape)(i / 7 % 3)};
            field.length = field.shape == TFOS_SHAPE_FIXED ? i * 1000 : 0;
            field.nullable = i / 21 % 2 == 1;
            field.feature_list = i / 42 % 2 == 1;
            assert_int_equal(tfos_schema_add(schema, &field, NULL), TFOS_OK);
        }
        round_trip(schema);
        tfos_schema_free(schema);
    }
    tfos_schema *bytes = helper_schema("{\"record\": \"bytes\"}");
    round_trip(bytes);
    tfos_schema_free(bytes);
}

static void test_round_trip_of_strange_names(void **state)
{
    (void)state;
    static const char *const names[] = {
        " ",   "\"quoted\"", "back\\slash", "new\nline", "tab\t",        "\x01\x1F\x7F",
        "é…😀", "/",          "null",        "%s%n",      "\xEF\xBB\xBF",
    };
    tfos_schema *schema = NULL;
    assert_int_equal(tfos_schema_new(TFOS_RECORD_EXAMPLE, &schema, NULL), TFOS_OK);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(tfos_schema_add(schema, &(tfos_field){.name = names[i]}, NULL), TFOS_OK);
    }
    char longest[TFOS_SCHEMA_MAX_NAME_BYTES + 1];
    memset(longest, '\x02', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(tfos_schema_add(schema, &(tfos_field){.name = longest}, NULL), TFOS_OK);
    round_trip(schema);
    tfos_schema_free(schema);
}

static void test_defaults(void **state)
{
    (void)state;
    tfos_schema *schema = helper_schema(" \n{\"fields\": [{\"name\": \"a\", \"type\": \"bool\"}]}\r\n\t ");
    assert_int_equal(tfos_schema_kind(schema), TFOS_RECORD_EXAMPLE);
    const tfos_field *field = tfos_schema_field(schema, 0);
    assert_int_equal(field->shape, TFOS_SHAPE_SCALAR);
    assert_false(field->nullable || field->feature_list);
    tfos_schema_free(schema);
}

#define FIELD(rest) "{\"fields\": [{\"name\": \"a\", " rest "}]}"

static void test_every_mistake_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        {"", "ends before its closing bracket"},
        {"{\"fields\": [", "ends before its closing bracket"},
        {"null ", "it is no object"},
        {"[]", "it is no object"},
        {"7 ", "it is no object"},
        {"{} x", "unexpected character, at byte 3"},
        {"{\"fields\": []}{}", "unexpected character, at byte 14"},
        {"{\"fields\": [],}", "schema: "},
        {"{\"fields\": [] // no comments\n}", "schema: "},
        {"{\"fields\": \"\xFF\"}", "utf-8"},
        {"[[[[[[[[[[[[]]]]]]]]]]]]", "nesting too deep"},
        {"{}", "\"fields\" is missing"},
        {"{\"fields\": {}}", "\"fields\" must be an array"},
        {"{\"feilds\": []}", "unknown key \"feilds\""},
        {"{\"fields\": [], \"nullable\": true}", "unknown key \"nullable\""},
        {"{\"fields\": [7]}", "field 0 must be an object"},
        {"{\"fields\": [null]}", "field 0 must be an object"},
        {"{\"fields\": [{\"type\": \"int64\"}]}", "field 0: \"name\" is missing"},
        {"{\"fields\": [{\"name\": 1, \"type\": \"int64\"}]}", "field 0: \"name\" must be a string"},
        {"{\"fields\": [{\"name\": null, \"type\": \"int64\"}]}", "field 0: \"name\" must be a string"},
        {"{\"fields\": [{\"name\": \"a\\u0000b\", \"type\": \"int64\"}]}", "\"name\" contains a NUL character"},
        {"{\"fields\": [{\"name\": \"\", \"type\": \"int64\"}]}", "1 to 4096 bytes"},
        {FIELD("\"typ\": \"int64\""), "field 'a': unknown key \"typ\""},
        {FIELD("\"shape\": []"), "field 'a': \"type\" is missing"},
        {FIELD("\"type\": \"int\""), "field 'a': unknown type 'int'"},
        {FIELD("\"type\": 64"), "field 'a': \"type\" must be a string"},
        {FIELD("\"type\": \"int64\", \"nulable\": true"), "unknown key \"nulable\""},
        {FIELD("\"type\": \"int64\", \"nullable\": \"yes\""), "\"nullable\" must be true or false"},
        {FIELD("\"type\": \"int64\", \"nullable\": 1"), "\"nullable\" must be true or false"},
        {FIELD("\"type\": \"int64\", \"shape\": 3"), "\"shape\" must be"},
        {FIELD("\"type\": \"int64\", \"shape\": null"), "\"shape\" must be"},
        {FIELD("\"type\": \"int64\", \"shape\": [2, 3]"), "\"shape\" must be"},
        {FIELD("\"type\": \"int64\", \"shape\": [-1]"), "whole number from 0 to 268435456"},
        {FIELD("\"type\": \"int64\", \"shape\": [2.5]"), "whole number from 0"},
        {FIELD("\"type\": \"int64\", \"shape\": [\"2\"]"), "whole number from 0"},
        {FIELD("\"type\": \"int64\", \"shape\": [268435457]"), "whole number from 0"},
        {FIELD("\"type\": \"int64\", \"shape\": [18446744073709551617]"), "whole number from 0"},
        {FIELD("\"type\": \"int64\", \"feature_list\": true"), "feature list"},
        {"{\"fields\": [{\"name\": \"a\", \"type\": \"int64\"}, {\"name\": \"a\", \"type\": \"float\"}]}", "twice"},
        {"{\"record\": \"exampel\", \"fields\": []}", "example, sequence_example or bytes, found 'exampel'"},
        {"{\"record\": 1, \"fields\": []}", "\"record\" must be a string"},
        {"{\"note\": 1, \"fields\": []}", "\"note\" must be a string"},
        {"{\"note\": \"a\\u0000\", \"fields\": []}", "\"note\" contains a NUL character"},
        {"{\"record\": \"auto\", \"fields\": []}", "found 'auto'"},
        {"{\"record\": \"bytes\", \"fields\": 3}", "\"fields\" must be an array"},
        {"{\"record\": \"bytes\", \"fields\": [{\"name\": \"label\", \"type\": \"int64\"}]}", "one column 'record'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tfos_schema *schema = NULL;
        tfos_error error = {0};
        tfos_status status = tfos_schema_from_json(cases[i].text, strlen(cases[i].text), &schema, &error);
        if (status != TFOS_INVALID || strstr(error.message, cases[i].why) == NULL) {
            fail_msg("%s\nexpected '%s', found %s: %s", cases[i].text, cases[i].why, tfos_status_name(status),
                     error.message);
        }
        assert_null(schema);
    }
}

/* A schema cut short anywhere is an error, never a smaller schema. */
static void test_every_prefix_is_an_error(void **state)
{
    (void)state;
    static const char text[] = "{\"record\": \"sequence_example\", \"fields\": [{\"name\": \"\\u00e9\", \"type\": "
                               "\"int64\", \"shape\": [null], \"feature_list\": true}]}";
    for (size_t cut = 0; cut < sizeof text - 1; cut++) {
        char *exact = malloc(cut + 1); /* so that a sanitizer sees a read past the end */
        assert_non_null(exact);
        memcpy(exact, text, cut);
        tfos_schema *schema = NULL;
        tfos_error error = {0};
        assert_int_equal(tfos_schema_from_json(exact, cut, &schema, &error), TFOS_INVALID);
        assert_null(schema);
        free(exact);
    }
}

static void test_too_much_text(void **state)
{
    (void)state;
    tfos_schema *schema = NULL;
    tfos_error error = {0};
    assert_int_equal(tfos_schema_from_json("", (size_t)1 << 40, &schema, &error), TFOS_LIMIT);
    helper_expect_in(error.message, "at most 67108864 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_form_that_is_written),
        cmocka_unit_test(test_a_note_travels_along),
        cmocka_unit_test(test_round_trip_of_every_field),
        cmocka_unit_test(test_round_trip_of_strange_names),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_mistake_is_named),
        cmocka_unit_test(test_every_prefix_is_an_error),
        cmocka_unit_test(test_too_much_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
