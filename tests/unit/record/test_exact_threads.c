/* Reader: batches of exactly so many rows, rows in random order, and shards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "helper_decode.h"
#include "helper_text.h"
#include "record/store.h"

enum { MOST_ROWS = 400, MOST_FILES = 4 };

/* Files of numbered records. */
typedef struct files {
    tfos_paths paths;
    char *path[MOST_FILES];
    int64_t bytes[MOST_FILES];
    int rows;
} files;

static helper_bytes numbered(int number)
{
    char text[64];
    snprintf(text, sizeof text, "%d:%.*s", number, number % 23, " of a record that is longer");
    return helper_frame(helper_from_text(text));
}

static void add_file(void **state, files *all, int rows, tfos_codec codec)
{
    char name[16];
    helper_bytes bytes = {0};
    size_t index = all->paths.count++;
    snprintf(name, sizeof name, "f%zu", index);
    for (int i = 0; i < rows; i++) {
        bytes = JOIN(bytes, numbered(all->rows++));
    }
    bytes = codec == TFOS_CODEC_NONE ? bytes : helper_deflate(bytes, codec);
    const char *path = helper_path(state, name);
    helper_to_file(path, bytes);
    all->path[index] = strdup(path);
    all->bytes[index] = (int64_t)bytes.count;
    all->paths.path = all->path;
    all->paths.bytes = all->bytes;
    all->paths.total_bytes += (int64_t)bytes.count;
}

static void reset_files(files *all)
{
    for (size_t i = 0; i < all->paths.count; i++) {
        free(all->path[i]);
    }
}

static tfos_read_options exact_options(int64_t batch_rows, int threads)
{
    tfos_read_options options = helper_raw_options();
    options.batch_rows = batch_rows;
    options.exact = true;
    options.threads = threads;
    return options;
}

/* What a reader gave: the numbers of the records, and of how many rows its batches were. */
typedef struct found {
    tfos_status status;
    tfos_error error;
    int numbers[MOST_ROWS];
    int count;
    int batch_rows[MOST_ROWS];
    int batch_count;
} found;

static found read_numbers(const tfos_paths *paths, const tfos_read_options *options)
{
    found result = {0};
    tfos_reader *reader = NULL;
    tfos_batch *batch = NULL;
    result.status = tfos_reader_open(paths, options, &reader, &result.error);
    while (result.status == TFOS_OK) {
        result.status = tfos_reader_next(reader, &batch, &result.error);
        if (result.status != TFOS_OK) {
            break;
        }
        const tfos_vector *rows = tfos_batch_column(batch, 0);
        for (int64_t i = 0; i < rows->length; i++) {
            result.numbers[result.count++] = atoi((const char *)rows->data + rows->offsets[i]);
        }
        result.batch_rows[result.batch_count++] = (int)rows->length;
        tfos_batch_free(batch);
    }
    tfos_reader_close(reader);
    return result;
}

static void expect_exact(const found *result, int64_t batch_rows)
{
    for (int i = 0; i + 1 < result->batch_count; i++) {
        assert_int_equal(result->batch_rows[i], batch_rows);
    }
}

/* Each of `rows` numbers came once. */
static void expect_all(const int *numbers, int count, int rows)
{
    bool seen[MOST_ROWS] = {false};
    assert_int_equal(count, rows);
    for (int i = 0; i < count; i++) {
        assert_false(seen[numbers[i]]);
        seen[numbers[i]] = true;
    }
}

static void test_batches_do_not_end_with_their_files(void **state)
{
    files all = {0};
    add_file(state, &all, 13, TFOS_CODEC_NONE);
    add_file(state, &all, 1, TFOS_CODEC_GZIP);
    add_file(state, &all, 0, TFOS_CODEC_NONE);
    add_file(state, &all, 29, TFOS_CODEC_NONE);
    for (int64_t batch_rows = 1; batch_rows < 50; batch_rows += 6) {
        for (int threads = 0; threads < 3; threads++) {
            tfos_read_options options = exact_options(batch_rows, threads);
            options.batch_bytes = 1; /* does not end them, either */
            found result = read_numbers(&all.paths, &options);
            assert_int_equal(result.status, TFOS_END);
            assert_int_equal(result.count, all.rows);
            expect_exact(&result, batch_rows);
            for (int i = 0; i < result.count; i++) {
                assert_int_equal(result.numbers[i], i);
            }
        }
    }
    reset_files(&all);
}

static void test_an_order_depends_on_the_seed(void **state)
{
    files all = {0};
    add_file(state, &all, 200, TFOS_CODEC_NONE);
    add_file(state, &all, 100, TFOS_CODEC_ZLIB);
    tfos_read_options options = exact_options(32, 0);
    options.shuffle_rows = 64;
    options.shuffle_seed = 7;
    found first = read_numbers(&all.paths, &options);
    assert_int_equal(first.status, TFOS_END);
    expect_exact(&first, 32);
    expect_all(first.numbers, first.count, all.rows);
    options.threads = 2;
    found again = read_numbers(&all.paths, &options);
    assert_memory_equal(first.numbers, again.numbers, sizeof first.numbers);
    options.shuffle_seed = 8;
    found other = read_numbers(&all.paths, &options);
    expect_all(other.numbers, other.count, all.rows);
    assert_memory_not_equal(first.numbers, other.numbers, sizeof first.numbers);
    reset_files(&all);
}

/* No row comes before it can be among the rows that are held, and with room for all every row can be the first. */
static void test_rows_are_drawn_from_those_that_are_held(void **state)
{
    files all = {0};
    add_file(state, &all, 40, TFOS_CODEC_NONE);
    tfos_read_options options = exact_options(8, 0);
    options.shuffle_rows = 10;
    for (options.shuffle_seed = 0; options.shuffle_seed < 50; options.shuffle_seed++) {
        found result = read_numbers(&all.paths, &options);
        for (int i = 0; i < result.count; i++) {
            assert_true(result.numbers[i] < i + 10);
        }
    }
    bool first[40] = {false};
    options.shuffle_rows = 1000;
    for (options.shuffle_seed = 0; options.shuffle_seed < 400; options.shuffle_seed++) {
        first[read_numbers(&all.paths, &options).numbers[0]] = true;
    }
    for (int i = 0; i < 40; i++) {
        assert_true(first[i]);
    }
    reset_files(&all);
}

static void expect_shards(const files *all, int32_t shard_count, int64_t shuffle_rows, int balance)
{
    int numbers[2 * MOST_ROWS];
    int count = 0;
    int least = MOST_ROWS;
    int most = 0;
    for (int32_t i = 0; i < shard_count; i++) {
        tfos_read_options options = exact_options(7, i % 3);
        options.exact = false; /* shards are */
        options.shard = i;
        options.shard_count = shard_count;
        options.shuffle_rows = shuffle_rows;
        options.shuffle_seed = (uint64_t)i;
        found result = read_numbers(&all->paths, &options);
        assert_int_equal(result.status, TFOS_END);
        expect_exact(&result, 7);
        assert_true(count + result.count <= MOST_ROWS);
        memcpy(numbers + count, result.numbers, (size_t)result.count * sizeof *numbers);
        count += result.count;
        least = result.count < least ? result.count : least;
        most = result.count > most ? result.count : most;
    }
    expect_all(numbers, count, all->rows);
    assert_true(most - least <= balance);
}

static void test_every_row_is_in_one_shard(void **state)
{
    static const tfos_codec codecs[][MOST_FILES] = {
        {TFOS_CODEC_NONE, TFOS_CODEC_NONE, TFOS_CODEC_NONE, TFOS_CODEC_NONE},
        {TFOS_CODEC_GZIP, TFOS_CODEC_NONE, TFOS_CODEC_NONE, TFOS_CODEC_NONE},
        {TFOS_CODEC_GZIP, TFOS_CODEC_NONE, TFOS_CODEC_ZLIB, TFOS_CODEC_GZIP},
    };
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
        files all = {0};
        for (size_t j = 0; j < MOST_FILES; j++) {
            add_file(state, &all, j == 2 ? 3 : 70, codecs[i][j]);
        }
        for (int32_t shards = 1; shards < 6; shards++) {
            expect_shards(&all, shards, shards % 2 == 0 ? 16 : 0, MOST_ROWS);
        }
        expect_shards(&all, 50, 0, MOST_ROWS); /* more than some of them have rows */
        reset_files(&all);
    }
}

/* One file, of whichever kind, is enough for all shards. */
static void test_shards_of_one_file(void **state)
{
    files plain = {0};
    add_file(state, &plain, 240, TFOS_CODEC_NONE);
    expect_shards(&plain, 4, 0, 30);
    assert_int_equal(tfos_index_build(plain.path[0], NULL, NULL), TFOS_OK);
    expect_shards(&plain, 4, 0, 30);
    reset_files(&plain);
    files packed = {0};
    add_file(state, &packed, 241, TFOS_CODEC_GZIP);
    expect_shards(&packed, 4, 0, 1);
    reset_files(&packed);
}

static void test_damage_leaves_no_gap(void **state)
{
    const char *path = helper_path(state, "f");
    helper_bytes good = helper_frame(EXAMPLE(helper_entry("a", INTS(1))));
    helper_bytes other = helper_frame(helper_from_text("hello"));
    helper_bytes torn = helper_copy(good.data, good.count);
    ((uint8_t *)(uintptr_t)torn.data)[good.count - 1] ^= 1;
    helper_to_file(path, JOIN(good, other, good, torn, good, good, good));
    tfos_schema *schema = helper_schema(FIELDS("a int64"));
    for (int threads = 0; threads < 3; threads++) {
        tfos_read_options options;
        tfos_read_options_init(&options, sizeof options);
        options.schema = schema;
        options.exact = true;
        options.batch_rows = 2;
        options.threads = threads;
        options.on_corrupt = TFOS_ON_CORRUPT_SKIP;
        helper_result result = helper_read(path, &options);
        assert_int_equal(result.status, TFOS_END);
        assert_int_equal(result.row_count, 5);
        assert_int_equal(result.batch_count, 3);
        assert_int_equal(result.progress.skipped_records, 2);
        assert_int_equal(result.progress.records, 5);
        assert_int_equal(result.progress.skipped_bytes, other.count + torn.count);
    }
    tfos_schema_free(schema);
}

/* Also from among shuffled rows it is known where a record came from. */
static void test_errors_know_the_place(void **state)
{
    const char *path = helper_path(state, "f");
    helper_bytes good = helper_frame(EXAMPLE(helper_entry("a", INTS(1, 2, 3))));
    helper_bytes bad = helper_frame(EXAMPLE(helper_entry("a", INTS(1, 2, 3, 4))));
    helper_to_file(path, JOIN(good, good, good, bad, good));
    tfos_schema *schema = helper_schema(FIELDS("a int64[]"));
    tfos_read_options options;
    tfos_read_options_init(&options, sizeof options);
    options.schema = schema;
    options.batch_rows = 2;
    options.multiples = (const int32_t[]){3};
    for (options.shuffle_rows = 0; options.shuffle_rows < 6; options.shuffle_rows++) {
        char expected[128];
        helper_result result = helper_read(path, &options);
        assert_int_equal(result.status, TFOS_MISMATCH);
        snprintf(expected, sizeof expected,
                 "f: offset %zu (record 3): column 'a': expected a multiple of 3 values, found 4", 3 * good.count);
        helper_expect_in(result.error.message, expected);
    }
    tfos_schema_free(schema);
}

/* Rows before a failure come before it, whatever their order. */
static void test_a_failure_comes_last(void **state)
{
    const char *path = helper_path(state, "f");
    files all = {0};
    add_file(state, &all, 20, TFOS_CODEC_NONE);
    helper_to_file(path, JOIN(helper_of_file(all.path[0]), HEX(1, 2, 3)));
    tfos_read_options options = exact_options(8, 2);
    options.shuffle_rows = 5;
    found result = read_numbers(helper_paths(path), &options);
    assert_int_equal(result.status, TFOS_TRUNCATED);
    expect_all(result.numbers, result.count, 20);
    reset_files(&all);
}

static void test_options_that_make_no_sense(void **state)
{
    files all = {0};
    add_file(state, &all, 2, TFOS_CODEC_NONE);
    tfos_read_options options = exact_options(8, 0);
    options.shuffle_rows = -1;
    assert_int_equal(read_numbers(&all.paths, &options).status, TFOS_INVALID);
    options = exact_options(8, 0);
    options.shard_count = 2;
    options.shard = 2;
    assert_int_equal(read_numbers(&all.paths, &options).status, TFOS_INVALID);
    options.shard = 1;
    options.range_end = 5;
    assert_int_equal(read_numbers(&all.paths, &options).status, TFOS_INVALID);
    reset_files(&all);
}

/* ---- epochs ---- */

static tfos_reader *open_reader(const tfos_paths *paths, const tfos_read_options *options)
{
    tfos_reader *reader = NULL;
    assert_int_equal(tfos_reader_open(paths, options, &reader, NULL), TFOS_OK);
    return reader;
}

static tfos_batch *next_batch(tfos_reader *reader)
{
    tfos_batch *batch = NULL;
    assert_int_equal(tfos_reader_next(reader, &batch, NULL), TFOS_OK);
    return batch;
}

/* Whether a batch begins with the record of this number. */
static void expect_first(const tfos_batch *batch, int number)
{
    const tfos_vector *rows = tfos_batch_column(batch, 0);
    assert_int_equal(atoi((const char *)rows->data + rows->offsets[0]), number);
}

/* What a reader leaves, the next one fills: but not what somebody still has. */
static void expect_epochs(void **state, int threads)
{
    files all = {0};
    tfos_store *store = NULL;
    add_file(state, &all, 150, TFOS_CODEC_NONE);
    add_file(state, &all, 150, TFOS_CODEC_GZIP);
    tfos_read_options options = exact_options(16, threads);
    assert_int_equal(tfos_store_new(&store, NULL), TFOS_OK);
    options.store = store;
    tfos_reader *left = open_reader(&all.paths, &options); /* amid its data */
    tfos_batch *held = next_batch(left);
    tfos_reader_close(left);
    for (int epoch = 0; epoch < 3; epoch++) {
        found result = read_numbers(&all.paths, &options);
        assert_int_equal(result.status, TFOS_END);
        expect_all(result.numbers, result.count, 300);
        expect_first(held, 0);
    }
    tfos_reader *one = open_reader(&all.paths, &options);
    tfos_reader *other = open_reader(&all.paths, &options);
    tfos_store_free(store);
    tfos_batch *first = next_batch(one);
    tfos_batch_free(next_batch(other));
    tfos_batch *second = next_batch(other);
    expect_first(first, 0);
    expect_first(second, 16);
    tfos_reader_close(one);
    tfos_reader_close(other);
    tfos_batch_free(first);
    tfos_batch_free(second);
    tfos_batch_free(held);
    reset_files(&all);
}

static void test_memory_of_readers_that_have_ended(void **state)
{
    expect_epochs(state, 0);
    expect_epochs(state, 3);
}

/* Readers of other columns leave theirs beside it. */
static void test_a_store_of_several_schemas(void **state)
{
    tfos_store *store = NULL;
    const char *path = helper_path(state, "f");
    helper_bytes record = EXAMPLE(helper_entry("a", INTS(1)), helper_entry("b", STRINGS("x")));
    helper_to_file(path, JOIN(helper_frame(record), helper_frame(record)));
    assert_int_equal(tfos_store_new(&store, NULL), TFOS_OK);
    const char *const columns[] = {"a", "b"};
    const char *const rows[] = {"{\"a\": 1}\n{\"a\": 1}\n", "{\"b\": \"x\"}\n{\"b\": \"x\"}\n"};
    for (size_t i = 0; i < 6; i++) {
        tfos_read_options options;
        tfos_read_options_init(&options, sizeof options);
        options.columns = &columns[i % 2];
        options.column_count = 1;
        options.store = store;
        helper_expect_text(helper_read(path, &options).rows, rows[i % 2]);
    }
    tfos_store_free(store);
    tfos_store_free(NULL);
}

static tfos__chunk *chunk_of(size_t bytes)
{
    tfos__chunk *chunk = calloc(1, sizeof *chunk);
    assert_non_null(chunk);
    assert_int_equal(tfos__buffer_reserve(&chunk->data, bytes, NULL), TFOS_OK);
    return chunk;
}

static void test_what_a_store_keeps(void **state)
{
    (void)state;
    enum { LARGE = 50 << 20, POOLED = 30 << 20 };
    tfos_store *store = NULL;
    tfos__batch_pool *pool = NULL;
    tfos__batch_pool *again = NULL;
    tfos_batch *batches[3];
    tfos_schema *schema = helper_schema(FIELDS("a int64"));
    assert_int_equal(tfos_store_new(&store, NULL), TFOS_OK);
    assert_null(tfos__store_take_chunk(store));
    tfos__chunk *small = chunk_of(1000);
    tfos__store_give_chunk(store, small);
    tfos__store_give_chunk(store, chunk_of(LARGE));
    tfos__store_give_chunk(store, chunk_of(LARGE)); /* more than it keeps */
    tfos__chunk *large = tfos__store_take_chunk(store);
    assert_true(large->data.capacity >= LARGE);
    assert_ptr_equal(tfos__store_take_chunk(store), small);
    assert_null(tfos__store_take_chunk(store));
    tfos__store_give_chunk(store, large);
    tfos__store_give_chunk(NULL, small);
    assert_int_equal(tfos__store_take_pool(store, schema, 8, &pool, NULL), TFOS_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tfos__batch_take(pool, &batches[i], NULL), TFOS_OK);
        assert_int_equal(tfos__vector_reserve(tfos__batch_vector(batches[i], 0), POOLED / 8, NULL), TFOS_OK);
    }
    for (size_t i = 0; i < 3; i++) {
        tfos_batch_free(batches[i]);
    }
    tfos__store_give_pool(store, pool);
    assert_int_equal(tfos__store_take_pool(store, schema, 8, &again, NULL), TFOS_OK);
    assert_ptr_equal(again, pool);
    size_t bytes = 0;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tfos__batch_take(pool, &batches[i], NULL), TFOS_OK);
        bytes += tfos_batch_bytes(batches[i]);
    }
    assert_in_range(bytes, 2 * POOLED, 3 * POOLED - 1);
    for (size_t i = 0; i < 3; i++) {
        tfos_batch_free(batches[i]);
    }
    tfos__store_give_pool(store, pool);
    tfos_store_free(store);
    tfos_schema_free(schema);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_setup, helper_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_batches_do_not_end_with_their_files),
        IN_FOLDER(test_an_order_depends_on_the_seed),
        IN_FOLDER(test_rows_are_drawn_from_those_that_are_held),
        IN_FOLDER(test_every_row_is_in_one_shard),
        IN_FOLDER(test_shards_of_one_file),
        IN_FOLDER(test_damage_leaves_no_gap),
        IN_FOLDER(test_errors_know_the_place),
        IN_FOLDER(test_a_failure_comes_last),
        IN_FOLDER(test_options_that_make_no_sense),
        IN_FOLDER(test_memory_of_readers_that_have_ended),
        IN_FOLDER(test_a_store_of_several_schemas),
        IN_FOLDER(test_what_a_store_keeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
