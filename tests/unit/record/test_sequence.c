/* tf.train.SequenceExample: a context like an Example's, and lists of features. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "helper_decode.h"
#include "record/example.h"

#define E(name, value) helper_entry(name, value)
#define FIELD(number, value) helper_bytes_field(number, value)
#define CONTEXT(...) FIELD(1, JOIN(__VA_ARGS__))
#define LISTS(...) FIELD(2, JOIN(__VA_ARGS__))

/* A FeatureList of features, and its map entry. */
static helper_bytes list_of(const helper_bytes *features, size_t count)
{
    helper_bytes list = {0};
    for (size_t i = 0; i < count; i++) {
        list = JOIN(list, FIELD(1, features[i]));
    }
    return list;
}
#define LIST(...)                                                                                                      \
    list_of((const helper_bytes[]){__VA_ARGS__}, sizeof((const helper_bytes[]){__VA_ARGS__}) / sizeof(helper_bytes))

static const char not_a_sequence[] =
    "!CORRUPT the record is no tf.train.SequenceExample: its bytes do not parse (to read "
    "it as it is, ask for records of kind bytes)\n";

static helper_bytes nothing(void)
{
    return helper_from_text("");
}

static void test_context_and_lists(void **state)
{
    (void)state;
    EXPECT_ROWS(
        FIELDS("id int64", "words list of string", "boxes list of float[2]", "tags list of int64[]"),
        "{\"id\": 7, \"words\": [\"a\", \"b\"], \"boxes\": [[1.0, 2.0], [3.0, 4.0]], \"tags\": [[1, 2], [], [3]]}\n",
        JOIN(CONTEXT(E("id", INTS(7))),
             LISTS(E("words", LIST(STRINGS("a"), STRINGS("b"))), E("boxes", LIST(FLOATS(1, 2), FLOATS(3, 4))),
                   E("tags", LIST(INTS(1, 2), FIELD(3, nothing()), INTS(3))))));
}

static void test_empty_lists_and_features(void **state)
{
    (void)state;
    EXPECT_ROWS(FIELDS("x list of int64[]"), "{\"x\": []}\n{\"x\": [[]]}\n{\"x\": [null, [1]]}\n",
                LISTS(E("x", nothing())), LISTS(E("x", LIST(FIELD(3, nothing())))),
                LISTS(E("x", LIST(nothing(), INTS(1)))));
    EXPECT_ROWS(FIELDS("x list of float[2]"), "{\"x\": [null, [1.0, 2.0], null]}\n",
                LISTS(E("x", LIST(nothing(), FLOATS(1, 2), nothing()))));
    EXPECT_ROWS(FIELDS("x list of string"), "{\"x\": [\"\", null]}\n", LISTS(E("x", LIST(STRINGS(""), nothing()))));
    /* An entry without a value is an empty list, not a missing one. */
    EXPECT_ROWS(FIELDS("x list of int64 nullable"), "{\"x\": []}\n{\"x\": null}\n{\"x\": null}\n",
                LISTS(FIELD(1, FIELD(1, helper_from_text("x")))), LISTS(nothing()), nothing());
    EXPECT_ROWS(FIELDS("x list of int64"),
                "!MISMATCH column 'x': expected a value, the feature is missing: declare the column as nullable, or "
                "leave such records out\n",
                CONTEXT(E("x", INTS(1))));
}

static void test_other_forms(void **state)
{
    (void)state;
    helper_bytes key = FIELD(1, helper_from_text("x"));
    helper_bytes unknown = JOIN(helper_number_field(9, 1), FIELD(9, helper_from_text("abc")), HEX(0x4B, 0x4C));
    /* The lists first, the context later, in parts. */
    EXPECT_ROWS(
        FIELDS("a int64", "b int64", "x list of int64"), "{\"a\": 1, \"b\": 2, \"x\": [5, 6]}\n",
        JOIN(LISTS(E("x", LIST(INTS(5), INTS(6)))), CONTEXT(E("a", INTS(1))), unknown, CONTEXT(E("b", INTS(2)))));
    /* A list in two parts is joined; a name that comes again replaces. */
    EXPECT_ROWS(FIELDS("x list of int64"), "{\"x\": [1, 2, 3]}\n{\"x\": [9]}\n",
                LISTS(FIELD(1, JOIN(key, FIELD(2, LIST(INTS(1))), FIELD(2, LIST(INTS(2), INTS(3)))))),
                JOIN(LISTS(E("x", LIST(INTS(1), INTS(2)))), LISTS(E("x", LIST(INTS(9))))));
    EXPECT_ROWS(
        FIELDS("x list of int64[]"), "{\"x\": [[1, 2], [3]]}\n",
        LISTS(unknown,
              FIELD(1, JOIN(unknown, FIELD(2, JOIN(unknown, LIST(JOIN(INTS(1), unknown, INTS(2)), INTS(3)))), key))));
    /* What came before is not judged. */
    EXPECT_ROWS(FIELDS("x list of int64"), "{\"x\": [9]}\n",
                LISTS(E("x", LIST(INTS(1), FLOATS(2))), E("x", LIST(INTS(9)))));
}

/* The same name may be in the context and in the lists; a column wants one of them. */
static void test_a_name_in_both(void **state)
{
    (void)state;
    helper_bytes both = JOIN(CONTEXT(E("x", FLOATS(1))), LISTS(E("x", LIST(INTS(5)))));
    EXPECT_ROWS(FIELDS("x list of int64"), "{\"x\": [5]}\n", both);
    EXPECT_ROWS(FIELDS("x float", "y list of int64 nullable"), "{\"x\": 1.0, \"y\": null}\n", both);
    EXPECT_ROWS(FIELDS("x float"), "{\"x\": 1.0}\n", both); /* read as an Example, which has no lists */
}

static void test_what_does_not_go_with_the_schema(void **state)
{
    (void)state;
    EXPECT_ROWS(FIELDS("x list of int64"),
                "!MISMATCH column 'x': expected one value, found 2: declare the column as a list, shape [null]\n"
                "!MISMATCH column 'x': expected int64 values for type int64, found float\n{\"x\": [1]}\n",
                LISTS(E("x", LIST(INTS(1), INTS(2, 3)))), LISTS(E("x", LIST(INTS(1), FLOATS(2)))),
                LISTS(E("x", LIST(INTS(1)))));
    EXPECT_ROWS(FIELDS("x list of float[2]"),
                "!MISMATCH column 'x': expected a list of 2 values, found 1: declare the shape [null] if lengths "
                "differ\n{\"x\": [[1.0, 2.0]]}\n",
                LISTS(E("x", LIST(FLOATS(1, 2), FLOATS(3)))), LISTS(E("x", LIST(FLOATS(1, 2)))));
    EXPECT_ROWS(FIELDS("x list of string[]"),
                "!ENCODING column 'x': invalid UTF-8 at byte 0 of '\\xff': declare the column as binary, or repair the "
                "text\n{\"x\": [[\"a\", \"b\"], [\"c\"]]}\n",
                LISTS(E("x", LIST(STRINGS("a"), STRINGS("b", "\xFF")))),
                LISTS(E("x", LIST(STRINGS("a", "b"), STRINGS("c")))));
}

static void test_bytes_that_do_not_parse(void **state)
{
    (void)state;
    helper_bytes cases[] = {
        HEX(0x12, 0x05),
        LISTS(HEX(0x0A, 0x05)),
        LISTS(E("x", HEX(0x0A, 0x05))),
        LISTS(E("x", HEX(0x0C))),
        LISTS(E("x", LIST(HEX(0x1A, 0x05)))),
        LISTS(E("x", LIST(INTS(1), FIELD(3, FIELD(1, HEX(0x80)))))),
    };
    tfos__joined joined = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_ROWS(FIELDS("x list of int64[]"), not_a_sequence, cases[i]);
        tfos__wire wire = {cases[i].data, cases[i].data + cases[i].count};
        assert_false(tfos__message_valid(wire, true, &joined));
    }
    tfos__joined_reset(&joined);
}

/* A few bytes that ask for a fixed list of many values, many times, are refused before they take memory. */
static void test_many_missing_features_of_a_fixed_list(void **state)
{
    (void)state;
    helper_bytes many = helper_repeat(0, 60000);
    for (size_t i = 0; i < many.count; i += 2) {
        ((uint8_t *)(uintptr_t)many.data)[i] = 0x0A; /* a Feature without a kind */
    }
    const char *text =
        helper_decode(FIELDS("x list of bool[100000000]"), (const helper_bytes[]){LISTS(E("x", many))}, 1);
    helper_expect_in(text, "!LIMIT column 'x': missing lists of 100000000 values");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_setup, helper_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_context_and_lists),
        IN_FOLDER(test_empty_lists_and_features),
        IN_FOLDER(test_other_forms),
        IN_FOLDER(test_a_name_in_both),
        IN_FOLDER(test_what_does_not_go_with_the_schema),
        IN_FOLDER(test_bytes_that_do_not_parse),
        IN_FOLDER(test_many_missing_features_of_a_fixed_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
