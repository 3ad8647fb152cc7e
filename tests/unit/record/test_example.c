/* tf.train.Example: every way that protobuf allows to write the same message, and every way in which a record may not
 * go with a schema. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "helper_decode.h"
#include "helper_text.h"
#include "record/example.h"

/* Short names: a Feature's list of a kind, an entry, a record. */
#define E(name, value) helper_entry(name, value)
#define FIELD(number, value) helper_bytes_field(number, value)

static const char not_an_example[] =
    "!CORRUPT the record is no tf.train.Example: its bytes do not parse (to read it as it is, ask for records of kind "
    "bytes)\n";

/* Field 15 with a value of each wire type, a group with something inside included. */
static helper_bytes unknown(void)
{
    return JOIN(helper_number_field(15, 1234567), FIELD(15, helper_from_text("xyz")), helper_float_field(15, 1.0f),
                HEX(0x79, 1, 2, 3, 4, 5, 6, 7, 8), HEX(0x7B, 0x08, 0x01, 0x7C), FIELD(2000, HEX(0)));
}

/* ---- the same values, written in many ways ---- */

static void test_usual_form(void **state)
{
    (void)state;
    EXPECT_ROWS(FIELDS("i int64", "f float", "s string", "is int64[]", "fs float[2]", "ss string[]", "b binary"),
                "{\"i\": -5, \"f\": 1.5, \"s\": \"héllo\", \"is\": [1, 2, 300], \"fs\": [0.25, -2.0], \"ss\": [\"\", "
                "\"x\"], \"b\": \"/w==\"}\n",
                EXAMPLE(E("i", INTS(-5)), E("f", FLOATS(1.5f)), E("s", STRINGS("héllo")), E("is", INTS(1, 2, 300)),
                        E("fs", FLOATS(0.25f, -2.0f)), E("ss", STRINGS("", "x")), E("b", STRINGS("\xFF"))));
}

/* The bytes that TensorFlow itself writes for {"x": [7]}. */
static void test_golden_bytes(void **state)
{
    (void)state;
    EXPECT_ROWS(FIELDS("x int64"), "{\"x\": 7}\n",
                HEX(0x0A, 0x0C, 0x0A, 0x0A, 0x0A, 0x01, 'x', 0x12, 0x05, 0x1A, 0x03, 0x0A, 0x01, 0x07));
}

static void test_numbers_of_every_size(void **state)
{
    (void)state;
    char expected[64];
    for (int bit = 0; bit < 64; bit++) {
        for (int less = 0; less < 2; less++) {
            int64_t value = (int64_t)((UINT64_C(1) << bit) - (uint64_t)less);
            snprintf(expected, sizeof expected, "{\"x\": %lld}\n", (long long)value);
            EXPECT_ROWS(FIELDS("x int64"), expected, EXAMPLE(E("x", INTS(value))));
            snprintf(expected, sizeof expected, "{\"x\": [%lld, %lld]}\n", (long long)value, (long long)~value);
            EXPECT_ROWS(FIELDS("x int64[]"), expected, EXAMPLE(E("x", INTS(value, ~value))));
        }
    }
    /* A number with zeros in front is the same number. */
    EXPECT_ROWS(FIELDS("x int64"), "{\"x\": 5}\n", EXAMPLE(E("x", FIELD(3, FIELD(1, HEX(0x85, 0x80, 0x00))))));
    EXPECT_ROWS(FIELDS("x int64"), "{\"x\": -1}\n",
                EXAMPLE(E("x", FIELD(3, FIELD(1, HEX(0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F))))));
}

static void test_packed_unpacked_and_mixed(void **state)
{
    (void)state;
    helper_bytes unpacked = FIELD(3, JOIN(helper_number_field(1, 1), helper_number_field(1, 300)));
    helper_bytes mixed = FIELD(
        3, JOIN(helper_number_field(1, 1), FIELD(1, PACKED_INTS(2, 3)), FIELD(1, HEX(0x04)), FIELD(1, PACKED_INTS(5))));
    helper_bytes floats =
        FIELD(2, JOIN(helper_float_field(1, 0.5f), FIELD(1, PACKED_FLOATS(1.0f, 2.0f)), helper_float_field(1, 3.0f)));
    EXPECT_ROWS(FIELDS("x int64[]"), "{\"x\": [1, 300]}\n{\"x\": [1, 2, 3, 4, 5]}\n", EXAMPLE(E("x", unpacked)),
                EXAMPLE(E("x", mixed)));
    EXPECT_ROWS(FIELDS("x int32[]"), "{\"x\": [1, 2, 3, 4, 5]}\n", EXAMPLE(E("x", mixed)));
    EXPECT_ROWS(FIELDS("x float[]"), "{\"x\": [0.5, 1.0, 2.0, 3.0]}\n", EXAMPLE(E("x", floats)));
    EXPECT_ROWS(FIELDS("x double[4]"), "{\"x\": [0.5, 1.0, 2.0, 3.0]}\n", EXAMPLE(E("x", floats)));
    EXPECT_ROWS(FIELDS("x int64"), "{\"x\": 9}\n", EXAMPLE(E("x", FIELD(3, helper_number_field(1, 9)))));
    EXPECT_ROWS(FIELDS("x float"), "{\"x\": 9.0}\n", EXAMPLE(E("x", FIELD(2, helper_float_field(1, 9.0f)))));
    EXPECT_ROWS(FIELDS("x bool"), "{\"x\": true}\n", EXAMPLE(E("x", FIELD(3, helper_number_field(1, 1)))));
}

static void test_packed_runs_of_nothing(void **state)
{
    (void)state;
    static const char *const types[] = {"x int64[]", "x int32[]", "x bool[]", "x float[]", "x double[]"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        uint32_t kind = i < 3 ? 3 : 2;
        helper_bytes none = FIELD(1, helper_from_text(""));
        EXPECT_ROWS(FIELDS(types[i]), "{\"x\": []}\n{\"x\": []}\n", EXAMPLE(E("x", FIELD(kind, none))),
                    EXAMPLE(E("x", FIELD(kind, JOIN(none, none)))));
    }
}

static void test_lists_of_one_feature_are_merged(void **state)
{
    (void)state;
    EXPECT_ROWS(FIELDS("x int64[]"), "{\"x\": [1, 2, 3]}\n", EXAMPLE(E("x", JOIN(INTS(1), INTS(2, 3)))));
    EXPECT_ROWS(FIELDS("x string[]"), "{\"x\": [\"a\", \"b\"]}\n", EXAMPLE(E("x", JOIN(STRINGS("a"), STRINGS("b")))));
    EXPECT_ROWS(FIELDS("x float"), "{\"x\": 1.0}\n",
                EXAMPLE(E("x", JOIN(FIELD(2, helper_from_text("")), FLOATS(1.0f)))));
    EXPECT_ROWS(FIELDS("x int64"),
                "!MISMATCH column 'x': expected one value, found 2: declare the column as a list, "
                "shape [null]\n",
                EXAMPLE(E("x", JOIN(INTS(1), INTS(2)))));
}

/* The kinds are a oneof: the last one set is the one that counts. */
static void test_the_kind_may_switch(void **state)
{
    (void)state;
    helper_bytes empty = helper_from_text("");
    EXPECT_ROWS(FIELDS("x int64[]"), "{\"x\": [3]}\n", EXAMPLE(E("x", JOIN(INTS(1), FLOATS(2.0f), INTS(3)))));
    EXPECT_ROWS(FIELDS("x float"), "{\"x\": 2.0}\n", EXAMPLE(E("x", JOIN(STRINGS("a"), INTS(1), FLOATS(2.0f)))));
    EXPECT_ROWS(FIELDS("x string[]"), "{\"x\": []}\n", EXAMPLE(E("x", JOIN(INTS(1), FIELD(1, empty)))));
    EXPECT_ROWS(FIELDS("x int64[]"), "!MISMATCH column 'x': expected int64 values for type int64, found float\n",
                EXAMPLE(E("x", JOIN(INTS(1), FLOATS(2.0f)))));
    /* What was thrown away must be a message all the same. */
    EXPECT_ROWS(FIELDS("x int64"), not_an_example, EXAMPLE(E("x", JOIN(FIELD(2, FIELD(1, HEX(1, 2, 3))), INTS(1)))));
}

static void test_a_repeated_name_counts_with_its_last_value(void **state)
{
    (void)state;
    EXPECT_ROWS(FIELDS("x int64"), "{\"x\": 2}\n", EXAMPLE(E("x", INTS(1)), E("x", INTS(2))));
    EXPECT_ROWS(FIELDS("x bool nullable"), "{\"x\": false}\n", EXAMPLE(E("x", INTS(1)), E("x", INTS(0))));
    EXPECT_ROWS(FIELDS("x float[2]"), "{\"x\": [3.0, 4.0]}\n", EXAMPLE(E("x", FLOATS(1, 2)), E("x", FLOATS(3, 4))));
    EXPECT_ROWS(FIELDS("x int64[]"), "{\"x\": [9]}\n",
                EXAMPLE(E("x", INTS(1, 2, 3)), E("y", INTS(5)), E("x", INTS(4, 5)), E("x", INTS(9))));
    EXPECT_ROWS(FIELDS("x string"), "{\"x\": \"b\"}\n", EXAMPLE(E("x", STRINGS("aaa")), E("x", STRINGS("b"))));
    EXPECT_ROWS(FIELDS("x string[]"), "{\"x\": []}\n",
                EXAMPLE(E("x", STRINGS("a", "b")), E("x", FIELD(1, helper_from_text("")))));
    /* A last value without a kind is as if the feature were missing. */
    EXPECT_ROWS(FIELDS("x int64 nullable"), "{\"x\": null}\n{\"x\": 4}\n",
                EXAMPLE(E("x", INTS(1)), E("x", helper_from_text(""))),
                EXAMPLE(E("x", helper_from_text("")), E("x", INTS(4))));
    /* Also over several Features messages, which are merged. */
    EXPECT_ROWS(FIELDS("x int64", "y int64"), "{\"x\": 2, \"y\": 3}\n",
                JOIN(EXAMPLE(E("x", INTS(1)), E("y", INTS(3))), EXAMPLE(E("x", INTS(2)))));
}

/* What does not count need not go with the schema. */
static void test_an_overwritten_value_is_not_judged(void **state)
{
    (void)state;
    EXPECT_ROWS(FIELDS("x float"), "{\"x\": 2.0}\n", EXAMPLE(E("x", INTS(1)), E("x", FLOATS(2.0f))));
    EXPECT_ROWS(FIELDS("x int32"), "{\"x\": 1}\n", EXAMPLE(E("x", INTS(INT64_MAX)), E("x", INTS(1))));
    EXPECT_ROWS(FIELDS("x string"), "{\"x\": \"a\"}\n", EXAMPLE(E("x", STRINGS("\xFF")), E("x", STRINGS("a"))));
    EXPECT_ROWS(FIELDS("y int64", "x float[2]"), "{\"y\": 7, \"x\": [1.0, 2.0]}\n",
                JOIN(EXAMPLE(E("x", FLOATS(1)), E("y", FLOATS(1, 2))), EXAMPLE(E("x", FLOATS(1, 2)), E("y", INTS(7)))));
    EXPECT_ROWS(FIELDS("x int64", "y int64"),
                "!MISMATCH column 'x': expected int64 values for type int64, found float\n{\"x\": 1, \"y\": 2}\n",
                EXAMPLE(E("x", INTS(1)), E("x", FLOATS(2.0f)), E("y", INTS(3))),
                EXAMPLE(E("x", INTS(1)), E("y", INTS(2))));
    /* It must still be a message. */
    EXPECT_ROWS(FIELDS("x int64"), not_an_example, EXAMPLE(E("x", FIELD(3, FIELD(1, HEX(0x80)))), E("x", INTS(1))));
}

static void test_entries_in_other_forms(void **state)
{
    (void)state;
    helper_bytes key = FIELD(1, helper_from_text("x"));
    helper_bytes other_key = FIELD(1, helper_from_text("other"));
    EXPECT_ROWS(FIELDS("x int64[]"), "{\"x\": [1]}\n", EXAMPLE(FIELD(1, JOIN(FIELD(2, INTS(1)), key))));
    EXPECT_ROWS(FIELDS("x int64[]"), "{\"x\": [1, 2, 3]}\n",
                EXAMPLE(FIELD(1, JOIN(key, FIELD(2, INTS(1)), FIELD(2, INTS(2)), FIELD(2, INTS(3))))));
    EXPECT_ROWS(FIELDS("x int64[]"), "{\"x\": [7]}\n",
                EXAMPLE(FIELD(1, JOIN(FIELD(2, FLOATS(1)), key, FIELD(2, INTS(7))))));
    EXPECT_ROWS(FIELDS("x int64"), "{\"x\": 1}\n", EXAMPLE(FIELD(1, JOIN(other_key, FIELD(2, INTS(1)), key))));
    EXPECT_ROWS(FIELDS("x int64 nullable"), "{\"x\": null}\n", EXAMPLE(FIELD(1, key)));
    EXPECT_ROWS(FIELDS("x int64 nullable"), "{\"x\": null}\n", EXAMPLE(FIELD(1, FIELD(2, INTS(1)))));
    EXPECT_ROWS(FIELDS("x int64 nullable"), "{\"x\": null}\n", EXAMPLE(FIELD(1, helper_from_text(""))));
    EXPECT_ROWS(FIELDS("x int64 nullable"), "{\"x\": null}\n", EXAMPLE(E("x", helper_from_text(""))));
    /* Two entries whose values are both in two parts. */
    EXPECT_ROWS(FIELDS("x int64[]", "y int64[]"), "{\"x\": [1, 2], \"y\": [3, 4]}\n",
                EXAMPLE(FIELD(1, JOIN(key, FIELD(2, INTS(1)), FIELD(2, INTS(2)))),
                        FIELD(1, JOIN(FIELD(1, helper_from_text("y")), FIELD(2, INTS(3)), FIELD(2, INTS(4))))));
}

static void test_unknown_fields_everywhere(void **state)
{
    (void)state;
    helper_bytes list = JOIN(unknown(), FIELD(1, PACKED_INTS(1)), unknown(), helper_number_field(1, 2), unknown());
    helper_bytes feature = JOIN(unknown(), FIELD(3, list), unknown());
    helper_bytes entry = JOIN(unknown(), FIELD(1, helper_from_text("x")), unknown(), FIELD(2, feature), unknown());
    helper_bytes features = JOIN(unknown(), FIELD(1, entry), unknown());
    helper_bytes record = JOIN(unknown(), FIELD(1, features), unknown(), FIELD(2, helper_from_text("no lists here")));
    EXPECT_ROWS(FIELDS("x int64[]"), "{\"x\": [1, 2]}\n", record);
    tfos__joined joined = {0};
    assert_true(tfos__message_valid((tfos__wire){record.data, record.data + record.count}, false, &joined));
    tfos__joined_reset(&joined);
    /* Known numbers of another wire type are unknown fields. */
    EXPECT_ROWS(FIELDS("x int64"), "{\"x\": 5}\n",
                JOIN(helper_number_field(1, 8),
                     EXAMPLE(helper_number_field(1, 8), E("x", JOIN(helper_number_field(3, 8), INTS(5))))));
    EXPECT_ROWS(FIELDS("x float[]"), "{\"x\": [1.0]}\n",
                EXAMPLE(E("x", FIELD(2, JOIN(helper_number_field(1, 3), helper_float_field(1, 1.0f))))));
    EXPECT_ROWS(FIELDS("x string[]"), "{\"x\": [\"a\"]}\n",
                EXAMPLE(E("x", FIELD(1, JOIN(helper_number_field(1, 3), FIELD(1, helper_from_text("a")))))));
}

static void test_records_without_features(void **state)
{
    (void)state;
    EXPECT_ROWS(FIELDS("x int64 nullable", "y string[2] nullable"),
                "{\"x\": null, \"y\": null}\n{\"x\": null, \"y\": null}\n{\"x\": null, \"y\": null}\n",
                helper_from_text(""), EXAMPLE(helper_from_text("")), JOIN(EXAMPLE(helper_from_text("")), unknown()));
    EXPECT_ROWS("{\"fields\": []}", "{}\n{}\n", helper_from_text(""), EXAMPLE(E("x", INTS(1))));
}

static void test_order_and_names(void **state)
{
    (void)state;
    const char *schema = FIELDS("a int64 nullable", "b int64 nullable", "ab int64 nullable");
    EXPECT_ROWS(
        schema,
        "{\"a\": 1, \"b\": 2, \"ab\": 3}\n{\"a\": 4, \"b\": 5, \"ab\": 6}\n{\"a\": null, \"b\": 7, \"ab\": null}\n"
        "{\"a\": 8, \"b\": null, \"ab\": 9}\n{\"a\": 1, \"b\": 2, \"ab\": 3}\n",
        EXAMPLE(E("a", INTS(1)), E("b", INTS(2)), E("ab", INTS(3))),
        EXAMPLE(E("ab", INTS(6)), E("a", INTS(4)), E("b", INTS(5))),
        EXAMPLE(E("z", INTS(0)), E("b", INTS(7)), E("A", INTS(0)), E("", INTS(0)), E("abc", INTS(0))),
        EXAMPLE(E("ab", INTS(9)), E("a", INTS(8))), EXAMPLE(E("a", INTS(1)), E("b", INTS(2)), E("ab", INTS(3))));
}

/* Names around the lengths at which the comparison with the record before changes its way. */
static void test_names_of_every_length(void **state)
{
    (void)state;
    for (size_t length = 1; length < 70; length++) {
        char name[80];
        char other[80];
        char fields[2][120];
        memset(name, 'n', length);
        name[length] = '\0';
        strcpy(other, name);
        other[length - 1] = 'm'; /* differs in its last byte only */
        snprintf(fields[0], sizeof fields[0], "%s int64", name);
        snprintf(fields[1], sizeof fields[1], "%s int64", other);
        char expected[600];
        snprintf(expected, sizeof expected, "{\"%s\": 1, \"%s\": 2}\n{\"%s\": 3, \"%s\": 4}\n{\"%s\": 5, \"%s\": 6}\n",
                 name, other, name, other, name, other);
        EXPECT_ROWS(FIELDS(fields[0], fields[1]), expected, EXAMPLE(E(name, INTS(1)), E(other, INTS(2))),
                    EXAMPLE(E(name, INTS(3)), E(other, INTS(4))), EXAMPLE(E(other, INTS(6)), E(name, INTS(5))));
    }
}

static void test_more_features_than_are_remembered(void **state)
{
    (void)state;
    enum { FEATURES = 9000 };
    helper_bytes *entries = calloc(FEATURES, sizeof *entries);
    assert_non_null(entries);
    char name[16];
    helper_bytes records[3];
    for (int record = 0; record < 3; record++) {
        for (int i = 0; i < FEATURES; i++) {
            snprintf(name, sizeof name, "f%d", i);
            entries[i] = E(name, INTS(i + record));
        }
        records[record] = FIELD(1, helper_join(entries, FEATURES));
    }
    free(entries);
    EXPECT_ROWS(FIELDS("f0 int64", "f4095 int64", "f4096 int64", "f8999 int64"),
                "{\"f0\": 0, \"f4095\": 4095, \"f4096\": 4096, \"f8999\": 8999}\n"
                "{\"f0\": 1, \"f4095\": 4096, \"f4096\": 4097, \"f8999\": 9000}\n"
                "{\"f0\": 2, \"f4095\": 4097, \"f4096\": 4098, \"f8999\": 9001}\n",
                records[0], records[1], records[2]);
}

/* A feature that no column wants is not decoded, whatever is in it. */
static void test_projection(void **state)
{
    (void)state;
    EXPECT_ROWS(FIELDS("x int64"), "{\"x\": 1}\n", EXAMPLE(E("y", FIELD(3, FIELD(1, HEX(0x80)))), E("x", INTS(1))));
}

/* An entry that nobody wants, `u`, by hand: with lengths of more bytes than they need, and any length of the value. */
static helper_bytes unwanted(bool long_entry, bool long_value, uint8_t value_bytes)
{
    helper_bytes value =
        JOIN(HEX(0x12), long_value ? HEX((uint8_t)(value_bytes | 0x80), 0) : HEX(value_bytes), INTS(1));
    helper_bytes entry = JOIN(HEX(0x0A, 1, 'u'), value);
    uint8_t bytes = (uint8_t)entry.count;
    return JOIN(HEX(0x0A), long_entry ? HEX((uint8_t)(bytes | 0x80), 0) : HEX(bytes), entry);
}

/* What is stepped over is looked at each time, however often it was the same before. */
static void test_unwanted_entries_that_change(void **state)
{
    (void)state;
    enum { SAME = 20 };
    for (int form = 0; form < 4; form++) {
        helper_bytes records[SAME + 3];
        for (int i = 0; i < SAME; i++) {
            records[i] = helper_bytes_field(1, unwanted(form & 1, form & 2, 5));
        }
        /* The value is longer than its entry. */
        records[SAME] = helper_bytes_field(1, unwanted(form & 1, form & 2, 0x7F));
        /* The value is shorter, and behind it is another name, which counts. */
        helper_bytes renamed = JOIN(HEX(0x0A, 1, 'u'), HEX(0x12), (form & 2) != 0 ? HEX(0x80 | 2, 0) : HEX(2),
                                    HEX(0x1A, 0), HEX(0x0A, 1, 'w'));
        records[SAME + 1] = EXAMPLE(
            JOIN(HEX(0x0A), (form & 1) != 0 ? HEX((uint8_t)(renamed.count | 0x80), 0) : HEX((uint8_t)renamed.count),
                 renamed));
        records[SAME + 2] = EXAMPLE(E("w", INTS(3)));
        const char *found = helper_decode(FIELDS("w int64[] nullable"), records, SAME + 3);
        helper_expect_in(found, "!CORRUPT");
        helper_expect_in(found, "{\"w\": null}\n{\"w\": []}\n{\"w\": [3]}\n");
    }
    /* One that is as short as can be, at the end of its memory. */
    helper_bytes shortest = EXAMPLE(HEX(0x0A, 5, 0x0A, 0, 0x12, 1, 0x12));
    helper_bytes all[] = {shortest, shortest, shortest};
    helper_expect_in(helper_decode(FIELDS("w int64 nullable"), all, 3), "{\"w\": null}");
}

/* ---- what does not go with the schema ---- */

static void test_types_and_their_ranges(void **state)
{
    (void)state;
    EXPECT_ROWS(
        FIELDS("x int32"),
        "!RANGE column 'x': the value 2147483648 does not fit int32\n"
        "!RANGE column 'x': the value -2147483649 does not fit int32\n{\"x\": 2147483647}\n{\"x\": -2147483648}\n",
        EXAMPLE(E("x", INTS(INT32_MAX))), EXAMPLE(E("x", INTS((int64_t)INT32_MAX + 1))),
        EXAMPLE(E("x", INTS(INT32_MIN))), EXAMPLE(E("x", INTS((int64_t)INT32_MIN - 1))));
    EXPECT_ROWS(FIELDS("x bool[]"), "!RANGE column 'x': the value 2 does not fit bool\n{\"x\": [true, false, true]}\n",
                EXAMPLE(E("x", INTS(1, 0, 1))), EXAMPLE(E("x", INTS(1, 0, 2))));
    EXPECT_ROWS(
        FIELDS("x string"),
        "!ENCODING column 'x': invalid UTF-8 at byte 1 of 'a\\xff': declare the column as binary, or repair the "
        "text\n{\"x\": \"é\"}\n",
        EXAMPLE(E("x", STRINGS("é"))), EXAMPLE(E("x", STRINGS("a\xFF"))));
    EXPECT_ROWS(FIELDS("x binary"), "{\"x\": \"Yf8=\"}\n", EXAMPLE(E("x", STRINGS("a\xFF"))));
    EXPECT_ROWS(FIELDS("x double"), "{\"x\": 0.10000000149011612}\n", EXAMPLE(E("x", FLOATS(0.1f))));
}

static void test_kinds(void **state)
{
    (void)state;
    EXPECT_ROWS(FIELDS("x float"), "!MISMATCH column 'x': expected float values for type float, found int64\n",
                EXAMPLE(E("x", INTS(1))));
    EXPECT_ROWS(FIELDS("x string[]"), "!MISMATCH column 'x': expected bytes values for type string, found float\n",
                EXAMPLE(E("x", FLOATS(1))));
    EXPECT_ROWS(FIELDS("x bool"), "!MISMATCH column 'x': expected int64 values for type bool, found bytes\n",
                EXAMPLE(E("x", STRINGS("true"))));
}

static void test_lengths(void **state)
{
    (void)state;
    EXPECT_ROWS(
        FIELDS("x float[2]"),
        "!MISMATCH column 'x': expected a list of 2 values, found 3: declare the shape [null] if lengths differ\n"
        "!MISMATCH column 'x': expected a list of 2 values, found 1: declare the shape [null] if lengths differ\n"
        "!MISMATCH column 'x': expected a list of 2 values, found 0: declare the shape [null] if lengths "
        "differ\n{\"x\": [1.0, 2.0]}\n",
        EXAMPLE(E("x", FLOATS(1, 2, 3))), EXAMPLE(E("x", FLOATS(1))), EXAMPLE(E("x", FIELD(2, helper_from_text("")))),
        EXAMPLE(E("x", FLOATS(1, 2))));
    EXPECT_ROWS(FIELDS("x string nullable"),
                "!MISMATCH column 'x': expected one value, found 0: declare the column as a list, shape [null]\n",
                EXAMPLE(E("x", FIELD(1, helper_from_text("")))));
    EXPECT_ROWS(FIELDS("x int64"),
                "!MISMATCH column 'x': expected one value, found 2: declare the column as a list, shape [null]\n",
                EXAMPLE(E("x", INTS(1, 2))));
    EXPECT_ROWS(FIELDS("x int64[0]"), "{\"x\": []}\n", EXAMPLE(E("x", FIELD(3, helper_from_text("")))));
}

static void test_missing(void **state)
{
    (void)state;
    static const char missing[] =
        "!MISMATCH column 'x': expected a value, the feature is missing: declare the column as "
        "nullable, or leave such records out\n";
    static const char *const types[] = {"x int64", "x float[3]", "x string[]", "x bool", "x binary"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        EXPECT_ROWS(FIELDS(types[i]), missing, EXAMPLE(E("y", INTS(1))));
        EXPECT_ROWS(FIELDS(types[i]), missing, EXAMPLE(E("x", helper_from_text(""))));
        char nullable[40];
        snprintf(nullable, sizeof nullable, "%s nullable", types[i]);
        EXPECT_ROWS(FIELDS(nullable), "{\"x\": null}\n{\"x\": null}\n", EXAMPLE(E("y", INTS(1))),
                    EXAMPLE(E("x", unknown())));
    }
    EXPECT_ROWS(FIELDS("a int64 nullable", "x int64"), missing, EXAMPLE(E("y", INTS(1))));
}

/* A row that fails leaves no trace in any column, whatever it had already written. */
static void test_a_failed_row_leaves_nothing(void **state)
{
    (void)state;
    const char *schema =
        FIELDS("i int64", "n int64 nullable", "f float[2] nullable", "s string[]", "b bool[]", "last int32");
    helper_bytes good = JOIN(E("i", INTS(1)), E("f", FLOATS(1, 2)), E("s", STRINGS("a", "b")), E("b", INTS(1, 0, 1)));
    helper_bytes nulls = JOIN(E("i", INTS(2)), E("s", STRINGS("c")), E("b", INTS(0)));
    helper_bytes bad_last = E("last", INTS(INT64_MAX));
    const char *found = helper_decode(
        schema,
        (const helper_bytes[]){EXAMPLE(good, E("last", INTS(1))), EXAMPLE(good, bad_last), EXAMPLE(nulls, bad_last),
                               EXAMPLE(good, E("s", STRINGS("x", "\xFF"))), EXAMPLE(good, E("f", FLOATS(1))),
                               EXAMPLE(nulls, E("b", INTS(1, 1, 7))), EXAMPLE(good, HEX(0x0A, 0x7F)), EXAMPLE(good),
                               EXAMPLE(nulls, E("last", INTS(2))), EXAMPLE(good, E("n", INTS(5)), E("last", INTS(3)))},
        10);
    const char *rows = strchr(found, '{');
    assert_non_null(rows);
    helper_expect_text(
        rows,
        "{\"i\": 1, \"n\": null, \"f\": [1.0, 2.0], \"s\": [\"a\", \"b\"], \"b\": [true, false, true], \"last\": 1}\n"
        "{\"i\": 2, \"n\": null, \"f\": null, \"s\": [\"c\"], \"b\": [false], \"last\": 2}\n"
        "{\"i\": 1, \"n\": 5, \"f\": [1.0, 2.0], \"s\": [\"a\", \"b\"], \"b\": [true, false, true], \"last\": 3}\n");
}

/* More values than rows, in a record that fails, must not leave a scalar column with memory that is gone. */
static void test_a_failed_list_in_a_scalar_column(void **state)
{
    (void)state;
    helper_bytes many = FIELD(1, helper_repeat(1, 5000));
    helper_bytes many_floats = FIELD(1, helper_repeat(0, 20000));
    static const char expected[] = "{\"x\": 5, \"f\": 0.5}\n{\"x\": 6, \"f\": 1.5}\n{\"x\": 7, \"f\": 2.5}\n";
    const char *found = helper_decode(
        FIELDS("x int64", "f float"),
        (const helper_bytes[]){
            EXAMPLE(E("x", INTS(5)), E("f", FLOATS(0.5f))), EXAMPLE(E("x", FIELD(3, JOIN(many, HEX(0x0C))))),
            EXAMPLE(E("x", INTS(6)), E("f", FLOATS(1.5f))), EXAMPLE(E("f", FIELD(2, many_floats))),
            EXAMPLE(E("x", FIELD(3, JOIN(many, many))), E("f", FIELD(2, JOIN(many_floats, many_floats))),
                    E("f", FLOATS(2.5f)), E("x", INTS(7)))},
        5);
    helper_expect_text(strchr(found, '{'), expected);
}

/* ---- what is no Example ---- */

static void test_bytes_that_do_not_parse(void **state)
{
    (void)state;
    helper_bytes cases[] = {
        HEX(0x0A),
        HEX(0x0A, 0x05, 0x00),
        HEX(0x00),
        HEX(0x0C),
        HEX(0x0F),
        HEX(0x0B),
        helper_from_text("hello"),
        EXAMPLE(HEX(0x0A, 0x05)),
        EXAMPLE(FIELD(1, HEX(0x0A, 0x01))),
        EXAMPLE(FIELD(1, JOIN(FIELD(1, helper_from_text("x")), HEX(0x12, 0x09)))),
        EXAMPLE(E("x", HEX(0x1A, 0x09))),
        EXAMPLE(E("x", HEX(0x1C))),
        EXAMPLE(E("x", FIELD(3, HEX(0x0A, 0x02, 0x01)))),
        EXAMPLE(E("x", FIELD(3, HEX(0x08)))),
        EXAMPLE(E("x", FIELD(3, FIELD(1, HEX(0x80))))),
        EXAMPLE(E("x", FIELD(3, FIELD(1, JOIN(helper_repeat(0x80, 10), HEX(1)))))),
        EXAMPLE(E("x", FIELD(3, JOIN(FIELD(1, PACKED_INTS(1)), HEX(0x0C))))),
    };
    tfos__joined joined = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        EXPECT_ROWS(FIELDS("x int64[]"), not_an_example, cases[i]);
        tfos__wire wire = {cases[i].data, cases[i].data + cases[i].count};
        assert_false(tfos__message_valid(wire, false, &joined));
    }
    tfos__joined_reset(&joined);
    EXPECT_ROWS(FIELDS("x float[]"), not_an_example, EXAMPLE(E("x", FIELD(2, FIELD(1, HEX(1, 2, 3))))));
    EXPECT_ROWS(FIELDS("x float[]"), not_an_example, EXAMPLE(E("x", FIELD(2, HEX(0x0D, 1, 2, 3)))));
    EXPECT_ROWS(FIELDS("x int32[]"), not_an_example,
                EXAMPLE(E("x", FIELD(3, FIELD(1, JOIN(helper_repeat(0x80, 10), HEX(1)))))));
}

/* A number of eleven bytes hides among many short ones: decoding and verifying agree that this is no message. */
static void test_an_endless_number_among_short_ones(void **state)
{
    (void)state;
    helper_bytes packed = JOIN(helper_repeat(1, 100), helper_repeat(0x80, 10), HEX(1), helper_repeat(1, 100));
    helper_bytes record = EXAMPLE(E("x", FIELD(3, FIELD(1, packed))));
    tfos__joined joined = {0};
    EXPECT_ROWS(FIELDS("x int64[]"), not_an_example, record);
    assert_false(tfos__message_valid((tfos__wire){record.data, record.data + record.count}, false, &joined));
    /* Ten bytes are a number. */
    packed = JOIN(helper_repeat(1, 100), helper_repeat(0x80, 9), HEX(1), helper_repeat(0x80, 9), HEX(0));
    record = EXAMPLE(E("x", FIELD(3, FIELD(1, packed))));
    assert_true(tfos__message_valid((tfos__wire){record.data, record.data + record.count}, false, &joined));
    assert_int_equal(tfos__list_count(TFOS__FEATURE_INT64, (tfos__wire){packed.data, packed.data}), 0);
    tfos__joined_reset(&joined);
}

/* Every prefix of a record either fails as a whole or is a shorter message; nothing is read beyond it. */
static void test_every_prefix(void **state)
{
    (void)state;
    helper_bytes record =
        JOIN(EXAMPLE(E("i", INTS(1)), E("is", INTS(1, 300)), E("f", FLOATS(1)), E("s", STRINGS("abc"))), unknown(),
             EXAMPLE(E("i", INTS(-1))));
    const char *schema = FIELDS("i int64 nullable", "is int32[] nullable", "f double nullable", "s string nullable",
                                "z float[3] nullable");
    tfos__joined joined = {0};
    for (size_t cut = 0; cut <= record.count; cut++) {
        helper_bytes part = helper_copy(record.data, cut);
        const char *text = helper_decode(schema, &part, 1);
        bool valid = tfos__message_valid((tfos__wire){part.data, part.data + cut}, false, &joined);
        assert_true(valid ? text[0] == '{' : strcmp(text, not_an_example) == 0);
    }
    tfos__joined_reset(&joined);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_setup, helper_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_usual_form),
        IN_FOLDER(test_golden_bytes),
        IN_FOLDER(test_numbers_of_every_size),
        IN_FOLDER(test_packed_unpacked_and_mixed),
        IN_FOLDER(test_packed_runs_of_nothing),
        IN_FOLDER(test_lists_of_one_feature_are_merged),
        IN_FOLDER(test_the_kind_may_switch),
        IN_FOLDER(test_a_repeated_name_counts_with_its_last_value),
        IN_FOLDER(test_an_overwritten_value_is_not_judged),
        IN_FOLDER(test_entries_in_other_forms),
        IN_FOLDER(test_unknown_fields_everywhere),
        IN_FOLDER(test_records_without_features),
        IN_FOLDER(test_order_and_names),
        IN_FOLDER(test_names_of_every_length),
        IN_FOLDER(test_more_features_than_are_remembered),
        IN_FOLDER(test_projection),
        IN_FOLDER(test_unwanted_entries_that_change),
        IN_FOLDER(test_types_and_their_ranges),
        IN_FOLDER(test_kinds),
        IN_FOLDER(test_lengths),
        IN_FOLDER(test_missing),
        IN_FOLDER(test_a_failed_row_leaves_nothing),
        IN_FOLDER(test_a_failed_list_in_a_scalar_column),
        IN_FOLDER(test_bytes_that_do_not_parse),
        IN_FOLDER(test_an_endless_number_among_short_ones),
        IN_FOLDER(test_every_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
