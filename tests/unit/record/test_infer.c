/* Schema inference: what types and shapes features get, and what is an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "helper_decode.h"
#include "helper_text.h"

#define E(name, value) helper_entry(name, value)
#define FIELD(number, value) helper_bytes_field(number, value)
#define LISTS(...) FIELD(2, JOIN(__VA_ARGS__))
#define LIST(name, ...) E(name, JOIN(__VA_ARGS__))
#define IN(feature) FIELD(1, feature) /* one Feature of a FeatureList */

static helper_bytes nothing(void)
{
    return helper_from_text("");
}

static const char *write_records(void **state, const char *name, const helper_bytes *records, size_t count)
{
    helper_bytes *framed = calloc(count + 1, sizeof *framed);
    assert_non_null(framed);
    for (size_t i = 0; i < count; i++) {
        framed[i] = helper_frame(records[i]);
    }
    const char *path = helper_path(state, name);
    helper_to_file(path, helper_join(framed, count));
    free(framed);
    return path;
}

static tfos_read_options plain_options(void)
{
    tfos_read_options options;
    tfos_read_options_init(&options, sizeof options);
    options.threads = 0;
    return options;
}

/* The schema in one line, or "!STATUS message". Lives until helper_teardown. */
static const char *infer(const char *path, const tfos_read_options *options)
{
    tfos_schema *schema = NULL;
    tfos_error error = {0};
    tfos_status status = tfos_schema_infer(helper_paths(path), options, &schema, &error);
    if (status != TFOS_OK) {
        assert_null(schema);
        return (const char *)JOIN(helper_from_text("!"), helper_from_text(tfos_status_name(status)),
                                  helper_from_text(" "), helper_from_text(error.message))
            .data;
    }
    char *text = helper_show_schema(schema);
    const char *kind = tfos_schema_kind(schema) == TFOS_RECORD_SEQUENCE ? "sequence: " : "";
    const char *shown = (const char *)JOIN(helper_from_text(kind), helper_from_text(text)).data;
    free(text);
    tfos_schema_free(schema);
    return shown;
}

static const char *infer_records(void **state, const helper_bytes *records, size_t count)
{
    tfos_read_options options = plain_options();
    return infer(write_records(state, "f", records, count), &options);
}

#define EXPECT_SCHEMA(expected, ...)                                                                                   \
    helper_expect_text(infer_records(state, (const helper_bytes[]){__VA_ARGS__},                                       \
                                     sizeof((const helper_bytes[]){__VA_ARGS__}) / sizeof(helper_bytes)),              \
                       expected)
#define EXPECT_PROBLEM(part, ...)                                                                                      \
    helper_expect_in(infer_records(state, (const helper_bytes[]){__VA_ARGS__},                                         \
                                   sizeof((const helper_bytes[]){__VA_ARGS__}) / sizeof(helper_bytes)),                \
                     part)

static void test_types(void **state)
{
    EXPECT_SCHEMA("b binary, f float, i int64, s string",
                  EXAMPLE(E("s", STRINGS("é")), E("i", INTS(1)), E("f", FLOATS(1)), E("b", STRINGS("\xFF"))),
                  EXAMPLE(E("b", STRINGS("text")), E("f", FLOATS(2)), E("i", INTS(2)), E("s", STRINGS(""))));
    /* One value that is no text makes all of them binary, wherever it is. */
    EXPECT_SCHEMA("s binary[2]", EXAMPLE(E("s", STRINGS("a", "b"))), EXAMPLE(E("s", STRINGS("a", "\xC3"))));
    EXPECT_SCHEMA("s binary[]", EXAMPLE(E("s", JOIN(STRINGS("\xFF"), STRINGS("b")))), EXAMPLE(E("s", STRINGS("a"))));
}

static void test_shapes(void **state)
{
    helper_bytes empty = FIELD(3, nothing());
    EXPECT_SCHEMA("x int64", EXAMPLE(E("x", INTS(1))), EXAMPLE(E("x", INTS(2))));
    EXPECT_SCHEMA("x int64[3]", EXAMPLE(E("x", INTS(1, 2, 3))), EXAMPLE(E("x", INTS(4, 5, 6))));
    EXPECT_SCHEMA("x int64[]", EXAMPLE(E("x", INTS(1, 2, 3))), EXAMPLE(E("x", INTS(4, 5))));
    EXPECT_SCHEMA("x int64[]", EXAMPLE(E("x", INTS(1))), EXAMPLE(E("x", INTS(4, 5))));
    EXPECT_SCHEMA("x int64[]", EXAMPLE(E("x", INTS(1))), EXAMPLE(E("x", empty)));
    EXPECT_SCHEMA("x int64[]", EXAMPLE(E("x", empty)), EXAMPLE(E("x", INTS(1))), EXAMPLE(E("x", INTS(1))));
    EXPECT_SCHEMA("x int64[]", EXAMPLE(E("x", empty)));
    EXPECT_SCHEMA("x float[]", EXAMPLE(E("x", FIELD(2, nothing()))), EXAMPLE(E("x", FLOATS(1, 2))));
    /* Unpacked and split lists are counted as what they are. */
    EXPECT_SCHEMA("x int64[2]", EXAMPLE(E("x", FIELD(3, JOIN(helper_number_field(1, 1), helper_number_field(1, 2))))),
                  EXAMPLE(E("x", JOIN(INTS(1), INTS(2)))));
}

static void test_missing_features_are_nullable(void **state)
{
    EXPECT_SCHEMA("x int64 nullable, y int64", EXAMPLE(E("x", INTS(1)), E("y", INTS(1))), EXAMPLE(E("y", INTS(1))));
    EXPECT_SCHEMA("x int64 nullable, y int64", EXAMPLE(E("y", INTS(1))), EXAMPLE(E("x", INTS(1)), E("y", INTS(1))));
    EXPECT_SCHEMA("x int64 nullable", EXAMPLE(E("x", INTS(1))), EXAMPLE(E("x", nothing())));
    EXPECT_SCHEMA("x int64 nullable", EXAMPLE(E("x", INTS(1))), nothing());
    /* A list that is missing somewhere is not fixed: a null would take as much room as a list. */
    EXPECT_SCHEMA("x float[] nullable", EXAMPLE(E("x", FLOATS(1, 2))), EXAMPLE(nothing()));
    EXPECT_SCHEMA("x binary nullable", EXAMPLE(E("x", nothing())));
    EXPECT_SCHEMA("", EXAMPLE(nothing()), nothing());
}

static void test_names_that_come_twice(void **state)
{
    EXPECT_SCHEMA("x float", EXAMPLE(E("x", INTS(1, 2)), E("x", FLOATS(1))), EXAMPLE(E("x", FLOATS(1))));
    EXPECT_SCHEMA("x int64 nullable", EXAMPLE(E("x", INTS(1)), E("x", nothing())), EXAMPLE(E("x", INTS(1))));
    EXPECT_SCHEMA("x int64", EXAMPLE(E("x", INTS(1)), E("x", INTS(2))), EXAMPLE(E("x", INTS(1, 2)), E("x", INTS(2))));
}

/* The columns are in the order of their names, not in that of the file. */
static void test_order(void **state)
{
    EXPECT_SCHEMA("B int64, a int64, aa int64, b int64, é int64",
                  EXAMPLE(E("b", INTS(1)), E("é", INTS(1)), E("aa", INTS(1)), E("B", INTS(1)), E("a", INTS(1))));
}

static void test_many_features(void **state)
{
    enum { FEATURES = 5000 };
    helper_bytes *entries = calloc(FEATURES, sizeof *entries);
    assert_non_null(entries);
    helper_bytes records[3];
    for (int record = 0; record < 3; record++) {
        for (int i = 0; i < FEATURES; i++) {
            char name[16];
            snprintf(name, sizeof name, "f%04d", (i + record) % FEATURES); /* in another order each time */
            entries[i] = E(name, INTS(i));
        }
        records[record] = FIELD(1, helper_join(entries, FEATURES));
    }
    free(entries);
    const char *path = write_records(state, "f", records, 3);
    tfos_schema *schema = NULL;
    assert_int_equal(tfos_schema_infer(helper_paths(path), NULL, &schema, NULL), TFOS_OK);
    assert_int_equal(tfos_schema_field_count(schema), FEATURES);
    for (int i = 0; i < FEATURES; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%04d", i);
        const tfos_field *field = tfos_schema_field(schema, (size_t)i);
        assert_string_equal(field->name, name);
        assert_false(field->nullable);
        assert_int_equal(field->type, TFOS_TYPE_INT64);
        assert_int_equal(field->shape, TFOS_SHAPE_SCALAR);
    }
    tfos_schema_free(schema);
}

/* ---- errors ---- */

static void test_a_kind_that_changes(void **state)
{
    helper_bytes first = EXAMPLE(E("y", INTS(1)));
    helper_bytes second = EXAMPLE(E("x", INTS(1)), E("y", INTS(1)));
    helper_bytes third = EXAMPLE(E("x", FLOATS(1)));
    char places[200];
    snprintf(places, sizeof places,
             "feature 'x' changes its kind: int64 at offset %zu of %s, float at offset %zu of %s",
             helper_frame(first).count, helper_path(state, "f"), helper_frame(first).count + helper_frame(second).count,
             helper_path(state, "f"));
    EXPECT_PROBLEM(places, first, second, third);
    EXPECT_PROBLEM("!MISMATCH", first, second, third);
    EXPECT_PROBLEM("bytes", EXAMPLE(E("x", STRINGS("a"))), EXAMPLE(E("x", INTS(1))));
    /* An empty list has a kind, too. */
    EXPECT_PROBLEM("changes its kind", EXAMPLE(E("x", FIELD(2, nothing()))), EXAMPLE(E("x", INTS(1))));
}

static void test_no_record(void **state)
{
    tfos_read_options options = plain_options();
    const char *found = infer(write_records(state, "f", NULL, 0), &options);
    helper_expect_in(found, "no record to infer a schema from: give a schema");
    assert_true(found[0] == '!');
    options.on_corrupt = TFOS_ON_CORRUPT_SKIP; /* the only one is damaged */
    helper_to_file(helper_path(state, "f"), helper_repeat('x', 100));
    helper_expect_in(infer(helper_path(state, "f"), &options), "no record to infer a schema from");
    assert_true(infer(helper_path(state, "missing"), &options)[0] == '!');
}

static void test_names_that_no_column_can_have(void **state)
{
    EXPECT_PROBLEM("!ENCODING", EXAMPLE(E("a\xFF", INTS(1))));
    EXPECT_PROBLEM("f: offset 0 (record 0): the column name 'a\\xff' is not valid UTF-8", EXAMPLE(E("a\xFF", INTS(1))));
    helper_bytes name = FIELD(1, helper_copy("a\0b", 3));
    EXPECT_PROBLEM("the feature name 'a\\x00b' contains a NUL character",
                   EXAMPLE(FIELD(1, JOIN(name, FIELD(2, INTS(1))))));
    EXPECT_PROBLEM("1 to 4096 bytes, found 0", EXAMPLE(E("", INTS(1))));
    EXPECT_PROBLEM("1 to 4096 bytes, found 5000", EXAMPLE(E((const char *)helper_repeat('n', 5000).data, INTS(1))));
}

static void test_records_that_are_no_examples(void **state)
{
    EXPECT_PROBLEM("!CORRUPT ", helper_from_text("hello"));
    EXPECT_PROBLEM("f: offset 0 (record 0): ", helper_from_text("hello"));
    EXPECT_PROBLEM("!CORRUPT ", EXAMPLE(E("x", INTS(1))), EXAMPLE(E("x", FIELD(3, FIELD(1, HEX(0x80))))));
    EXPECT_PROBLEM("'x'", EXAMPLE(E("x", FIELD(3, FIELD(1, HEX(0x80))))));
    /* Skipped, they leave no trace: neither a name nor a missing feature. */
    tfos_read_options options = plain_options();
    options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
    helper_bytes records[] = {EXAMPLE(E("x", INTS(1))), helper_from_text("hello"),
                              EXAMPLE(E("x", FLOATS(1)), E("z", INTS(1)), HEX(0x0A, 0x7F)), EXAMPLE(E("x", INTS(2)))};
    helper_expect_text(infer(write_records(state, "f", records, 4), &options), "x int64");
    helper_bytes file = helper_of_file(helper_path(state, "f"));
    helper_to_file(helper_path(state, "f"), JOIN(file, helper_repeat('g', 40), file));
    helper_expect_text(infer(helper_path(state, "f"), &options), "x int64");
}

/* ---- kinds of records ---- */

static void test_sequences(void **state)
{
    EXPECT_SCHEMA(
        "sequence: id int64, tags list of string[], words list of string",
        JOIN(EXAMPLE(E("id", INTS(1))), LISTS(LIST("words", IN(STRINGS("a")), IN(STRINGS("b"))),
                                              LIST("tags", IN(STRINGS("a")), IN(STRINGS("b", "c"))))),
        JOIN(EXAMPLE(E("id", INTS(1))), LISTS(LIST("words", IN(STRINGS("c"))), LIST("tags", IN(STRINGS("d"))))));
    EXPECT_SCHEMA("sequence: x list of float[2]", LISTS(LIST("x", IN(FLOATS(1, 2)), IN(FLOATS(3, 4)))),
                  LISTS(LIST("x", IN(FLOATS(5, 6)))), LISTS(LIST("x", nothing())));
    EXPECT_SCHEMA("sequence: x list of float[]", LISTS(LIST("x", IN(FLOATS(1, 2)), IN(nothing()))));
    EXPECT_SCHEMA("sequence: x list of int64 nullable", LISTS(LIST("x", IN(INTS(1)))), EXAMPLE(nothing()));
    EXPECT_SCHEMA("sequence: x list of binary", LISTS(LIST("x", nothing())));
    EXPECT_PROBLEM("feature 'x': a feature list holds both int64 and float",
                   LISTS(LIST("x", IN(INTS(1)), IN(FLOATS(1)))));
    EXPECT_PROBLEM("changes its kind", LISTS(LIST("x", IN(INTS(1)))), LISTS(LIST("x", IN(FLOATS(1)))));
    EXPECT_PROBLEM("feature 'x' is in the context of one record and in the feature lists of another",
                   JOIN(EXAMPLE(E("x", INTS(1))), LISTS(LIST("x", IN(INTS(1))))));
    EXPECT_PROBLEM("is in the context of one record", LISTS(LIST("x", IN(INTS(1)))), EXAMPLE(E("x", INTS(1))));
}

static void test_the_kind_that_was_asked_for(void **state)
{
    helper_bytes records[] = {JOIN(EXAMPLE(E("id", INTS(1))), LISTS(LIST("x", IN(INTS(1)))))};
    const char *path = write_records(state, "f", records, 1);
    tfos_read_options options = plain_options();
    options.record = TFOS_RECORD_EXAMPLE; /* which has no lists: they are an unknown field */
    helper_expect_text(infer(path, &options), "id int64");
    options.record = TFOS_RECORD_SEQUENCE;
    helper_expect_text(infer(path, &options), "sequence: id int64, x list of int64");
    options.record = TFOS_RECORD_BYTES;
    helper_expect_text(infer(path, &options), "record binary");
    helper_bytes examples[] = {EXAMPLE(E("id", INTS(1)))};
    path = write_records(state, "g", examples, 1);
    options.record = TFOS_RECORD_SEQUENCE;
    helper_expect_text(infer(path, &options), "sequence: id int64");
    options.record = TFOS_RECORD_AUTO;
    helper_expect_text(infer(path, &options), "id int64");
}

/* ---- samples ---- */

static void test_a_sample(void **state)
{
    helper_bytes records[] = {EXAMPLE(E("x", INTS(1))), EXAMPLE(E("x", INTS(1)), E("y", INTS(1, 2))),
                              EXAMPLE(E("x", INTS(1, 2)), E("z", INTS(1))), helper_from_text("hello")};
    const char *path = write_records(state, "f", records, 4);
    tfos_read_options options = plain_options();
    static const char *const expected[] = {"x int64 nullable", "x int64 nullable, y int64[] nullable",
                                           "x int64[] nullable, y int64[] nullable, z int64 nullable"};
    for (int64_t sample = 1; sample <= 3; sample++) {
        options.infer_records = sample;
        helper_expect_text(infer(path, &options), expected[sample - 1]);
    }
    options.infer_records = 4;
    helper_expect_in(infer(path, &options), "!CORRUPT");
    options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
    helper_expect_text(infer(path, &options), expected[2]);
    options.infer_records = 1000000;
    helper_expect_text(infer(path, &options), expected[2]);
    /* A fixed length that every record of the sample has is believed. */
    helper_bytes fixed[] = {EXAMPLE(E("x", FLOATS(1, 2))), EXAMPLE(E("x", FLOATS(1, 2, 3)))};
    options.infer_records = 1;
    helper_expect_text(infer(write_records(state, "f", fixed, 2), &options), "x float[2] nullable");
}

/* ---- many files, many threads ---- */

static void test_threads_give_the_same_answer(void **state)
{
    enum { FILES = 40, RECORDS = 300 };
    uint64_t random = 5;
    const char *inputs[FILES];
    for (int file = 0; file < FILES; file++) {
        helper_bytes records[RECORDS];
        for (int i = 0; i < RECORDS; i++) {
            bool rare = helper_random(&random) % 2000 == 0;
            helper_bytes optional = helper_random(&random) % 3 ? E("optional", FLOATS(1, 2)) : nothing();
            records[i] =
                EXAMPLE(E("id", INTS((int64_t)helper_random(&random))), optional,
                        E("text", STRINGS(rare ? "\xFF" : "some text")), E("list", rare ? INTS(1) : INTS(1, 2, 3)),
                        E("fixed", FLOATS(1, 2, 3)), E("big", STRINGS((const char *)helper_repeat('b', 400).data)));
        }
        char name[16];
        snprintf(name, sizeof name, "f%02d", file);
        inputs[file] = write_records(state, name, records, RECORDS);
    }
    tfos_paths *paths = NULL;
    assert_int_equal(tfos_paths_expand(inputs, FILES, &paths, NULL), TFOS_OK);
    for (int threads = 0; threads <= 8; threads += 2) {
        tfos_read_options options = plain_options();
        options.threads = threads;
        tfos_schema *schema = NULL;
        assert_int_equal(tfos_schema_infer(paths, &options, &schema, NULL), TFOS_OK);
        char *text = helper_show_schema(schema);
        helper_expect_text(text, "big string, fixed float[3], id int64, list int64[], optional float[] nullable, text "
                                 "binary");
        free(text);
        tfos_schema_free(schema);
    }
    tfos_paths_free(paths);
}

/* What is inferred from all records reads all of them. */
static void test_what_is_inferred_can_be_read(void **state)
{
    helper_bytes records[] = {EXAMPLE(E("a", INTS(1)), E("b", FLOATS(1, 2)), E("c", STRINGS("x"))),
                              EXAMPLE(E("c", STRINGS("\xFF", "y")), E("a", INTS(INT64_MIN))), nothing(),
                              EXAMPLE(E("b", FIELD(2, nothing())), E("b", nothing()))};
    tfos_read_options options;
    tfos_read_options_init(&options, sizeof options);
    options.threads = 0;
    options.ordered = false;
    helper_result result = helper_read(write_records(state, "f", records, 4), &options);
    assert_int_equal(result.status, TFOS_END);
    helper_expect_text(result.rows,
                       "{\"a\": 1, \"b\": [1.0, 2.0], \"c\": [\"eA==\"]}\n"
                       "{\"a\": -9223372036854775808, \"b\": null, \"c\": [\"/w==\", \"eQ==\"]}\n"
                       "{\"a\": null, \"b\": null, \"c\": null}\n{\"a\": null, \"b\": null, \"c\": null}\n");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_setup, helper_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_types),
        IN_FOLDER(test_shapes),
        IN_FOLDER(test_missing_features_are_nullable),
        IN_FOLDER(test_names_that_come_twice),
        IN_FOLDER(test_order),
        IN_FOLDER(test_many_features),
        IN_FOLDER(test_a_kind_that_changes),
        IN_FOLDER(test_no_record),
        IN_FOLDER(test_names_that_no_column_can_have),
        IN_FOLDER(test_records_that_are_no_examples),
        IN_FOLDER(test_sequences),
        IN_FOLDER(test_the_kind_that_was_asked_for),
        IN_FOLDER(test_a_sample),
        IN_FOLDER(test_threads_give_the_same_answer),
        IN_FOLDER(test_what_is_inferred_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
