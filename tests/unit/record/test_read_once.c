/* Reading without a schema: in one pass where every record bears out what the first ones say, in two where one does
 * not; and the same schema and rows either way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "helper_decode.h"
#include "helper_served.h"

enum { SAME_RECORDS = 1500 }; /* more than a schema is guessed from */

#define E(name, value) helper_entry(name, value)
#define LISTS(...) helper_bytes_field(2, JOIN(__VA_ARGS__))

static helper_bytes nothing(void)
{
    return helper_from_text("");
}

/* A FeatureList of two features. */
static helper_bytes pair_of(helper_bytes first, helper_bytes second)
{
    return JOIN(helper_bytes_field(1, first), helper_bytes_field(1, second));
}

/* A file, compressed, so that it pays to keep all of its columns: many equal records, and then another one. */
static const char *write_file(void **state, helper_bytes usual, helper_bytes last)
{
    const char *path = helper_path(state, "records.gz");
    tfos_writer *writer = NULL;
    tfos_write_options options;
    tfos_write_options_init(&options, sizeof options);
    options.overwrite = true;
    assert_int_equal(tfos_writer_open(path, &options, &writer, NULL), TFOS_OK);
    for (int i = 0; i < SAME_RECORDS; i++) {
        assert_int_equal(tfos_writer_write_record(writer, usual.data, usual.count, NULL), TFOS_OK);
    }
    assert_int_equal(tfos_writer_write_record(writer, last.data, last.count, NULL), TFOS_OK);
    assert_int_equal(tfos_writer_close(writer, NULL), TFOS_OK);
    return path;
}

static tfos_read_options options_for(const helper_served *served)
{
    tfos_read_options options;
    tfos_read_options_init(&options, sizeof options);
    options.files = &served->system;
    options.threads = 2;
    return options;
}

/* Reads the file in one call and in two. Returns how often the former has opened it: once to guess, and once or more
 * to read. */
static int passes_over(const char *path, tfos_read_options options, helper_served *served)
{
    const tfos_paths *paths = helper_paths(helper_served_path(path));
    tfos_schema *schema = NULL;
    tfos_error error = {0};
    atomic_store(&served->opened, 0);
    helper_result once = helper_read_paths(paths, &options);
    int opened = atomic_load(&served->opened);
    tfos_status status = tfos_schema_infer(paths, &options, &schema, &error);
    if (status != TFOS_OK) {
        assert_int_equal(once.status, status);
        helper_expect_text(once.error.message, error.message);
        return opened;
    }
    options.schema = schema;
    helper_result twice = helper_read_paths(paths, &options);
    assert_int_equal(once.status, TFOS_END);
    assert_int_equal(twice.status, TFOS_END);
    helper_expect_text(once.rows, twice.rows);
    assert_int_equal(once.row_count, SAME_RECORDS + 1);
    assert_int_equal(once.batch_count, twice.batch_count);
    assert_int_equal(once.progress.records, twice.progress.records);
    assert_int_equal(once.progress.done_bytes, twice.progress.done_bytes);

    tfos_reader *reader = NULL;
    options.schema = NULL;
    assert_int_equal(tfos_reader_open(paths, &options, &reader, NULL), TFOS_OK);
    tfos_schema *selected = NULL;
    if (options.columns != NULL) {
        assert_int_equal(tfos_schema_select(schema, options.columns, options.column_count, &selected, NULL), TFOS_OK);
    }
    assert_true(tfos_schema_equal(tfos_reader_schema(reader), selected != NULL ? selected : schema));
    tfos_schema_free(selected);
    tfos_reader_close(reader);
    tfos_schema_free(schema);
    return opened;
}

static void expect_passes(void **state, helper_bytes usual, helper_bytes last, bool one)
{
    helper_served served;
    helper_served_init(&served);
    int opened = passes_over(write_file(state, usual, last), options_for(&served), &served);
    if ((opened == 2) != one) {
        fail_msg("the file was opened %d times", opened);
    }
}

static void test_records_that_are_alike(void **state)
{
    helper_bytes usual = EXAMPLE(E("n", INTS(5)), E("list", FLOATS(1, 2)), E("text", STRINGS("a", "bc")));
    expect_passes(state, usual, usual, true);
    /* Another order, other values. */
    expect_passes(state, usual, EXAMPLE(E("text", STRINGS("", "é")), E("list", FLOATS(3, 4)), E("n", INTS(-1))), true);
    helper_bytes sequence = JOIN(EXAMPLE(E("n", INTS(5))), LISTS(E("l", pair_of(INTS(1, 2), INTS(3, 4)))));
    expect_passes(state, sequence, sequence, true);
}

static void test_records_that_differ_late(void **state)
{
    helper_bytes usual = EXAMPLE(E("n", INTS(5)), E("list", FLOATS(1, 2)), E("text", STRINGS("a")));
    const helper_bytes late[] = {
        EXAMPLE(E("n", INTS(5)), E("list", FLOATS(1, 2))),                             /* nothing for a column */
        EXAMPLE(E("n", INTS(5)), E("list", FLOATS(1, 2)), E("text", nothing())),       /* … no kind */
        EXAMPLE(E("n", INTS(5, 6)), E("list", FLOATS(1, 2)), E("text", STRINGS("a"))), /* a list for one value */
        EXAMPLE(E("n", INTS(5)), E("list", FLOATS(1)), E("text", STRINGS("a"))),       /* another length */
        EXAMPLE(E("n", INTS(5)), E("list", FLOATS(1, 2)), E("text", STRINGS("\xff"))), /* no text */
        EXAMPLE(E("n", FLOATS(5)), E("list", FLOATS(1, 2)), E("text", STRINGS("a"))),  /* another kind: an error */
        JOIN(usual, EXAMPLE(E("more", INTS(1)))),                                      /* another column */
        JOIN(usual, LISTS(E("l", pair_of(INTS(1), INTS(2))))),                         /* feature lists */
        JOIN(usual, LISTS(E("n", pair_of(INTS(1), INTS(2))))),                         /* … of a name that is taken */
        HEX(0x0A, 0x05, 0x01),                                                         /* no Example at all */
        nothing(),
    };
    for (size_t i = 0; i < sizeof late / sizeof late[0]; i++) {
        expect_passes(state, usual, late[i], false);
    }
    helper_bytes sequence = JOIN(EXAMPLE(E("n", INTS(5))), LISTS(E("l", pair_of(INTS(1, 2), INTS(3, 4)))));
    expect_passes(state, sequence, JOIN(EXAMPLE(E("n", INTS(5))), LISTS(E("l", pair_of(INTS(1, 2), nothing())))),
                  false);
    expect_passes(state, sequence, JOIN(EXAMPLE(E("n", INTS(5)), E("l", INTS(1, 2)))), false);
    /* The first records may have nothing at all. */
    expect_passes(state, nothing(), usual, false);
    expect_passes(state, nothing(), HEX(0xFF, 0xFF), false);
    expect_passes(state, nothing(), nothing(), true);
    /* Of a name that comes twice the last value counts, whatever the first was. */
    helper_bytes mixed = E("l", pair_of(INTS(1, 2), FLOATS(3)));
    helper_bytes replaced = JOIN(EXAMPLE(E("n", INTS(5))), LISTS(mixed, E("l", pair_of(INTS(1, 2), INTS(3, 4)))));
    expect_passes(state, sequence, replaced, true);
    expect_passes(state, sequence, JOIN(EXAMPLE(E("n", INTS(5))), LISTS(mixed)), false);
    /* A feature of no kind may get one. */
    expect_passes(state, JOIN(usual, EXAMPLE(E("none", nothing()))), JOIN(usual, EXAMPLE(E("none", STRINGS("a")))),
                  false);
}

/* Of columns that were asked for, only they matter; and they need not be compressed: they are few. */
static void test_some_columns(void **state)
{
    static const char *const columns[] = {"n"};
    helper_bytes pad = helper_bytes_field(1, helper_bytes_field(1, helper_repeat('p', 300)));
    helper_bytes usual = EXAMPLE(E("n", INTS(5)), E("pad", pad));
    const struct {
        helper_bytes last;
        bool one;
    } cases[] = {
        {usual, true},
        {EXAMPLE(E("n", INTS(6)), E("other", pad)), true},
        {EXAMPLE(E("pad", pad)), false},
        {EXAMPLE(E("n", INTS(1, 2)), E("pad", pad)), false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *path = write_file(state, usual, cases[i].last);
        helper_served served;
        helper_served_init(&served);
        tfos_read_options options = options_for(&served);
        options.columns = columns;
        options.column_count = 1;
        assert_int_equal(passes_over(path, options, &served) == 2, cases[i].one);
        options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
        assert_true(passes_over(path, options, &served) > 0);
    }
}

/* Large values that are not compressed are looked at twice: memory for all of them would cost more. */
static void test_large_values_are_not_kept(void **state)
{
    const char *path = helper_path(state, "plain");
    helper_bytes record = EXAMPLE(E("x", FLOATS(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)));
    tfos_writer *writer = NULL;
    assert_int_equal(tfos_writer_open(path, NULL, &writer, NULL), TFOS_OK);
    for (int i = 0; i <= SAME_RECORDS; i++) {
        assert_int_equal(tfos_writer_write_record(writer, record.data, record.count, NULL), TFOS_OK);
    }
    assert_int_equal(tfos_writer_close(writer, NULL), TFOS_OK);
    helper_served served;
    helper_served_init(&served);
    assert_int_equal(passes_over(path, options_for(&served), &served), 4);
}

static void test_cancelled_with_batches_left(void **state)
{
    helper_bytes usual = EXAMPLE(E("n", INTS(5)));
    const tfos_paths *paths = helper_paths(write_file(state, usual, usual));
    tfos_reader *reader = NULL;
    tfos_batch *batch;
    tfos_error error;
    assert_int_equal(tfos_reader_open(paths, NULL, &reader, NULL), TFOS_OK);
    assert_int_equal(tfos_reader_next(reader, &batch, NULL), TFOS_OK);
    tfos_batch_free(batch);
    tfos_progress progress;
    tfos_reader_progress(reader, &progress);
    assert_in_range(progress.records, 1, SAME_RECORDS);
    tfos_reader_cancel(reader);
    assert_int_equal(tfos_reader_next(reader, &batch, &error), TFOS_CANCELLED);
    assert_int_equal(tfos_reader_next(reader, &batch, &error), TFOS_CANCELLED);
    tfos_reader_close(reader);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_setup, helper_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_records_that_are_alike),
        IN_FOLDER(test_records_that_differ_late),
        IN_FOLDER(test_some_columns),
        IN_FOLDER(test_large_values_are_not_kept),
        IN_FOLDER(test_cancelled_with_batches_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
