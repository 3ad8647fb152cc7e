/* Models that run in the real TensorFlow of the tests' Python: values and shapes there and back, and what is refused.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/status.h"
#include "helper_records.h"
#include "helper_text.h"
#include "record/json_lines.h"
#include "tensorflow/model.h"

static const tfos__tensorflow *tf;
static tfos__model *plain;

static const char *folder_of(const char *name)
{
    static char folder[4096];
    snprintf(folder, sizeof folder, "%s/tensorflow/saved_model/%s", getenv("TFOS_TEST_VECTORS"), name);
    return folder;
}

static tfos_status load(const char *name, const char *tags, tfos__model **out, tfos_error *error)
{
    const tfos__model_options options = {.folder = folder_of(name), .tags = tags, .threads = 1};
    return tfos__model_load(tf, &options, out, error);
}

static int load_plain(void **state)
{
    tfos_error error = {0};
    const char *python = getenv("TFOS_TEST_PYTHON");
    (void)state;
    if (python == NULL || access(python, X_OK) != 0) {
        return 0;
    }
    setenv("TF_CPP_MIN_LOG_LEVEL", "2", 1);
    if (tfos__tensorflow_load(python, &tf, &error) != TFOS_OK || load("plain", "serve", &plain, &error) != TFOS_OK) {
        fprintf(stderr, "%s\n", error.message);
        return -1;
    }
    return 0;
}

static tfos_batch *batch_of(const char *schema, const char *rows)
{
    helper_text source;
    tfos__json_reader *reader;
    tfos_batch *batch = NULL;
    tfos_schema *parsed = helper_schema(schema);
    helper_text_open(&source, rows, strlen(rows), 1 << 20);
    assert_int_equal(tfos__json_reader_open(parsed, 1000, 1 << 20, &source.text, &reader, NULL), TFOS_OK);
    assert_int_equal(tfos__json_reader_next(reader, &batch, NULL), TFOS_OK);
    tfos__json_reader_close(reader);
    helper_text_close(&source);
    tfos_schema_free(parsed);
    return batch;
}

static tfos_status run(tfos__model *model, const char *order, const char *schema, const char *rows, char **out,
                       tfos_error *error)
{
    tfos__binding *binding = NULL;
    tfos_batch *results = NULL;
    tfos_batch *batch = batch_of(schema, rows);
    tfos_status status = tfos__binding_new(tfos__model_about(model), order, tfos_batch_schema(batch), &binding, error);
    status = status == TFOS_OK ? tfos__model_run(model, binding, batch, &results, error) : status;
    tfos_batch_free(batch);
    if (status == TFOS_OK) {
        tfos__buffer text = {0};
        helper_show_batch(results, &text);
        *out = helper_string(&text);
        tfos__buffer_reset(&text);
    }
    tfos_batch_free(results);
    tfos__binding_free(binding);
    return status;
}

static void expect_results(const char *order, const char *schema, const char *rows, const char *expected)
{
    char *found = NULL;
    tfos_error error = {0};
    if (tf == NULL) {
        skip();
    }
    if (run(plain, order, schema, rows, &found, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    helper_expect_text(found, expected);
    free(found);
}

static void expect_failure(const char *order, const char *schema, const char *rows, tfos_status expected,
                           const char *message)
{
    char *found = NULL;
    tfos_error error = {0};
    if (tf == NULL) {
        skip();
    }
    tfos_status status = run(plain, order, schema, rows, &found, &error);
    if (status != expected) {
        fail_msg("%s: %s", tfos_status_name(status), status == TFOS_OK ? found : error.message);
    }
    helper_expect_in(error.message, message);
}

#define SCHEMA(fields) "{\"fields\": [" fields "]}"
#define COLUMN(name, type) "{\"name\": \"" name "\", \"type\": \"" type "\"}"
#define LIST(name, type) FIXED(name, type, "null")
#define FIXED(name, type, n) "{\"name\": \"" name "\", \"type\": \"" type "\", \"shape\": [" n "]}"

/* ---- values ---- */

#define WHOLE(name) COLUMN(name, "int64") ","
#define NUMBERS                                                                                                        \
    SCHEMA(COLUMN("a", "int32") "," WHOLE("b") COLUMN("c", "int32") "," WHOLE("d") WHOLE("e")                          \
               COLUMN("f", "int32") "," WHOLE("g") WHOLE("h")                                                          \
                   COLUMN("i", "float") "," COLUMN("j", "double") "," COLUMN("k", "int64"))

static void test_numbers(void **state)
{
    (void)state;
    expect_results(
        "{\"signature\": \"numbers\"}", NUMBERS,
        "{\"a\":254,\"b\":-128,\"c\":65534,\"d\":-32768,\"e\":-7,\"f\":8,\"g\":4294967294,\"h\":"
        "9223372036854775806,\"i\":0.5,\"j\":2.5,\"k\":1}\n"
        "{\"a\":0,\"b\":126,\"c\":0,\"d\":1,\"e\":2,\"f\":3,\"g\":4,\"h\":5,\"i\":-1,\"j\":3,\"k\":16777215}\n",
        "{\"bfloat16\": 3.5, \"float16\": 1.5, \"float32\": 2.0, \"int8\": -127, \"int16\": -32767, \"int32\": "
        "-6, \"int64\": 9, \"uint8\": 255, \"uint16\": 65535, \"uint32\": 4294967295, \"uint64\": "
        "9223372036854775807}\n"
        "{\"bfloat16\": 4.0, \"float16\": 0.0, \"float32\": 16777216.0, \"int8\": 127, \"int16\": 2, \"int32\": 3, "
        "\"int64\": 4, \"uint8\": 1, \"uint16\": 1, \"uint32\": 5, \"uint64\": 6}\n");
}

static void test_numbers_that_do_not_fit(void **state)
{
    (void)state;
    static const char *const format =
        "{\"a\":%s,\"b\":0,\"c\":0,\"d\":0,\"e\":0,\"f\":0,\"g\":0,\"h\":%s,\"i\":0,\"j\":0,\"k\":0}\n";
    char rows[512];
    snprintf(rows, sizeof rows, format, "256", "0");
    expect_failure("{\"signature\": \"numbers\"}", NUMBERS, rows, TFOS_RANGE,
                   "input 'a', column 'a': row 0 of the batch: the value 256 does not fit uint8, which has 0 to 255");
    snprintf(rows, sizeof rows, format, "0", "-1");
    expect_failure("{\"signature\": \"numbers\"}", NUMBERS, rows, TFOS_RANGE, "the value -1 does not fit uint64");
    snprintf(rows, sizeof rows, format, "0", "9223372036854775807");
    expect_failure("{\"signature\": \"numbers\"}", NUMBERS, rows, TFOS_RANGE,
                   "output 'uint64', column 'uint64': the value 9223372036854775808 of uint64 is larger");
}

/* Real numbers are rounded, and stay finite: also those in lists, of which the row is named. */
static void test_halves(void **state)
{
    (void)state;
    static const char *const order = "{\"signature\": \"halves\"}";
    static const char *const lists = SCHEMA(LIST("a", "float") "," COLUMN("b", "float"));
    expect_results(order, lists, "{\"a\":[65504,1.0001,65519,-1e-9],\"b\":1e38}\n",
                   "{\"b\": 9.96921e+37, \"same\": [[65504.0, 1.0], [65504.0, -0.0]]}\n");
    expect_results(order, SCHEMA(LIST("a", "double") "," COLUMN("b", "double")),
                   "{\"a\":[\"Infinity\",\"NaN\",\"-Infinity\",0],\"b\":\"-Infinity\"}\n",
                   "{\"b\": \"-Infinity\", \"same\": [[\"Infinity\", \"NaN\"], [\"-Infinity\", 0.0]]}\n");
    expect_failure(order, lists, "{\"a\":[0,1],\"b\":0}\n{\"a\":[2,3],\"b\":0}\n{\"a\":[4,-65520],\"b\":0}\n",
                   TFOS_RANGE,
                   "input 'a', column 'a': row 2 of the batch: the value -65520 is too large for float16, which has up "
                   "to 65504");
    expect_failure(order, lists, "{\"a\":[],\"b\":0}\n{\"a\":[1,2,3,1e6],\"b\":0}\n{\"a\":[0,1],\"b\":0}\n", TFOS_RANGE,
                   "row 1 of the batch: the value 1e+06 is too large for float16");
    expect_failure(order,
                   "{\"record\": \"sequence_example\", \"fields\": [{\"name\": \"a\", \"type\": \"float\", "
                   "\"shape\": [2], \"feature_list\": true}," COLUMN("b", "float") "]}",
                   "{\"a\":[[1,2],[3,4]],\"b\":0}\n{\"a\":[[5,6],[7,1e5]],\"b\":0}\n", TFOS_RANGE,
                   "row 1 of the batch: the value 100000 is too large for float16");
    expect_failure(order, lists, "{\"a\":[],\"b\":0}\n{\"a\":[],\"b\":3.4e38}\n", TFOS_RANGE,
                   "input 'b', column 'b': row 1 of the batch: the value 3.4e+38 is too large for bfloat16");
    expect_failure("{\"signature\": \"shapes\"}", SCHEMA(FIXED("a", "double", "6")),
                   "{\"a\":[1,2,3,4,5,6]}\n{\"a\":[1,2,3,4,5,1e39]}\n", TFOS_RANGE,
                   "input 'a', column 'a': row 1 of the batch: the value 1e+39 is too large for float");
}

static void test_texts(void **state)
{
    (void)state;
    expect_results(
        "{\"signature\": \"texts\", \"outputs\": {\"not_a\": \"n\", \"upper\": \"u\", \"joined\": \"j\", "
        "\"both\": \"b\"}}",
        SCHEMA(COLUMN("a", "bool") "," COLUMN("b", "string") "," FIXED("c", "string", "2")),
        "{\"a\":true,\"b\":\"a text that is too long to lie in a word\",\"c\":[\"x\",\"y\"]}\n"
        "{\"a\":false,\"b\":\"\",\"c\":[\"\",\"z\"]}\n",
        "{\"b\": [\"YSB0ZXh0IHRoYXQgaXMgdG9vIGxvbmcgdG8gbGllIGluIGEgd29yZA==\", "
        "\"YSB0ZXh0IHRoYXQgaXMgdG9vIGxvbmcgdG8gbGllIGluIGEgd29yZA==\"], \"j\": \"eHk=\", \"n\": false, \"u\": "
        "\"QSBURVhUIFRIQVQgSVMgVE9PIExPTkcgVE8gTElFIElOIEEgV09SRA==\"}\n"
        "{\"b\": [\"\", \"\"], \"j\": \"eg==\", \"n\": true, \"u\": \"\"}\n");
    expect_results("{\"signature\": \"bytes_in\"}", SCHEMA(COLUMN("a", "binary")), "{\"a\":\"AQIDBA==\"}\n",
                   "{\"sum\": 10}\n");
    expect_failure("{\"signature\": \"bytes_in\"}", SCHEMA(COLUMN("a", "binary")),
                   "{\"a\":\"AQIDBA==\"}\n{\"a\":\"AQID\"}\n", TFOS_MISMATCH,
                   "row 1 of the batch: expected 4 values, found 3");
}

/* ---- shapes ---- */

static void test_shapes(void **state)
{
    (void)state;
    static const char *const expected = "{\"rows\": [6.0, 15.0], \"same\": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "
                                        "\"sum\": 21.0, \"wide\": [1.0, 2.0, 2.0, 4.0, 3.0, 6.0, 4.0, 8.0, 5.0, 10.0, "
                                        "6.0, 12.0]}\n";
    expect_results("{\"signature\": \"shapes\"}", SCHEMA(FIXED("a", "float", "6")), "{\"a\":[1,2,3,4,5,6]}\n",
                   expected);
    expect_results("{\"signature\": \"shapes\"}", SCHEMA(LIST("a", "double")), "{\"a\":[1,2,3,4,5,6]}\n", expected);
    expect_failure("{\"signature\": \"shapes\"}", SCHEMA(LIST("a", "float")),
                   "{\"a\":[1,2,3,4,5,6]}\n{\"a\":[1,2,3,4,5]}\n", TFOS_MISMATCH,
                   "input 'a', column 'a': row 1 of the batch: expected 6 values, found 5");
    expect_failure("{\"signature\": \"shapes\"}", SCHEMA(LIST("a", "float")), "{\"a\":[1]}\n", TFOS_MISMATCH,
                   "expected 6 values a row, found 1");
    /* A list without values is no list of zeros, whether or not another row of the batch has any. */
    static const char *const empty[] = {"{\"a\":[]}\n", "{\"a\":[]}\n{\"a\":[]}\n"};
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        expect_failure("{\"signature\": \"shapes\"}", SCHEMA(LIST("a", "float")), empty[i], TFOS_MISMATCH,
                       "expected 6 values a row, found 0");
    }
    expect_failure("{\"signature\": \"bytes_in\"}", SCHEMA(COLUMN("a", "binary")), "{\"a\":\"\"}\n", TFOS_MISMATCH,
                   "expected 4 values a row, found 0");
}

/* Where the size is open, shorter rows are filled up. */
static void test_ragged(void **state)
{
    (void)state;
    expect_results("{\"signature\": \"ragged\"}", SCHEMA(LIST("a", "int64") "," LIST("b", "string")),
                   "{\"a\":[1,2,3],\"b\":[\"x\"]}\n{\"a\":[],\"b\":[\"y\",\"z\"]}\n{\"a\":[4],\"b\":[]}\n",
                   "{\"sum\": 6, \"text\": \"eHw=\", \"wide\": [1, 2, 3]}\n"
                   "{\"sum\": 0, \"text\": \"eXx6\", \"wide\": [0, 0, 0]}\n"
                   "{\"sum\": 4, \"text\": \"fA==\", \"wide\": [4, 0, 0]}\n");
    expect_results("{\"signature\": \"lists\"}",
                   "{\"record\": \"sequence_example\", \"fields\": [{\"name\": \"a\", \"type\": \"float\", \"shape\": "
                   "[2], \"feature_list\": true}]}",
                   "{\"a\":[[1,2],[3,4]]}\n{\"a\":[[5,6]]}\n{\"a\":[]}\n",
                   "{\"same\": [[1.0, 2.0], [3.0, 4.0]], \"sum\": 10.0}\n"
                   "{\"same\": [[5.0, 6.0], [0.0, 0.0]], \"sum\": 11.0}\n"
                   "{\"same\": [[0.0, 0.0], [0.0, 0.0]], \"sum\": 0.0}\n");
    expect_results("{\"signature\": \"any_rank\", \"outputs\": {\"same\": \"y\"}}", SCHEMA(LIST("a", "float")),
                   "{\"a\":[1,2]}\n{\"a\":[3]}\n", "{\"y\": [1.0, 2.0]}\n{\"y\": [3.0, 0.0]}\n");
    /* Not within an element: that is no shorter row but a wrong one, whichever rows are beside it. */
    expect_failure("{\"signature\": \"lists\"}", SCHEMA(LIST("a", "float")), "{\"a\":[1,2,3]}\n", TFOS_MISMATCH,
                   "expected a multiple of 2 values a row, found 3");
    expect_failure("{\"signature\": \"lists\"}", SCHEMA(LIST("a", "float")),
                   "{\"a\":[1,2,3,4]}\n{\"a\":[5,6]}\n{\"a\":[1,2,3]}\n", TFOS_MISMATCH,
                   "row 2 of the batch: expected a multiple of 2 values, found 3");
    expect_results("{\"signature\": \"lists\", \"outputs\": {\"sum\": \"y\"}}", SCHEMA(LIST("a", "float")),
                   "{\"a\":[1,2,3,4]}\n{\"a\":[5,6]}\n{\"a\":[]}\n", "{\"y\": 10.0}\n{\"y\": 11.0}\n{\"y\": 0.0}\n");
}

/* The model gives back the tensor that it was given: what is a column there and here is the same memory. */
static void test_nothing_is_copied_where_layouts_agree(void **state)
{
    tfos__binding *binding;
    tfos_batch *results;
    (void)state;
    if (tf == NULL) {
        skip();
    }
    tfos_batch *batch = batch_of(SCHEMA(FIXED("a", "float", "6")), "{\"a\":[1,2,3,4,5,6]}\n{\"a\":[1,2,3,4,5,7]}\n");
    assert_int_equal(tfos__binding_new(tfos__model_about(plain),
                                       "{\"signature\": \"any_rank\", \"outputs\": {\"same\": \"y\"}}",
                                       tfos_batch_schema(batch), &binding, NULL),
                     TFOS_OK);
    assert_int_equal(tfos__model_run(plain, binding, batch, &results, NULL), TFOS_OK);
    const void *given = tfos_batch_column(batch, 0)->child->data;
    assert_ptr_equal(tfos_batch_column(results, 0)->child->data, given);
    tfos_batch_free(batch); /* the results hold what they are in */
    assert_float_equal(((const float *)given)[11], 7, 0);
    tfos_batch_free(results);
    tfos__binding_free(binding);
}

/* A model for batches of three gets three, whatever there is. */
static void test_batches_of_a_fixed_size(void **state)
{
    (void)state;
    expect_results("{\"signature\": \"three\"}", SCHEMA(FIXED("a", "float", "2")), "{\"a\":[1,2]}\n{\"a\":[3,4]}\n",
                   "{\"sum\": 3.0}\n{\"sum\": 7.0}\n");
    expect_results("{\"signature\": \"three\"}", SCHEMA(FIXED("a", "float", "2")),
                   "{\"a\":[1,2]}\n{\"a\":[3,4]}\n{\"a\":[5,6]}\n",
                   "{\"sum\": 3.0}\n{\"sum\": 7.0}\n{\"sum\": 11.0}\n");
}

/* ---- what goes wrong ---- */

static void test_failures(void **state)
{
    (void)state;
    expect_failure("{\"signature\": \"wrong\"}", SCHEMA(FIXED("a", "float", "2")), "{\"a\":[1,2]}\n{\"a\":[3,4]}\n",
                   TFOS_MISMATCH, "output 'shorter', column 'shorter': the model gave 1 results for 2 rows");
    expect_failure("{\"signature\": \"checked\"}", SCHEMA(FIXED("a", "float", "2")), "{\"a\":[1,200]}\n", TFOS_INVALID,
                   "too large for me");
    expect_failure("{\"signature\": \"three\"}",
                   "{\"fields\": [{\"name\": \"a\", \"type\": \"float\", \"shape\": "
                   "[2], \"nullable\": true}]}",
                   "{\"a\":null}\n", TFOS_MISMATCH, "row 0 of the batch has no value");
}

/* Whoever maps columns to the values and to the row splits of a ragged tensor has one split too few, and no result for
 * each row: there is nothing that could be taken for one. */
static void test_parts_of_a_ragged_tensor(void **state)
{
    tfos__model *ragged;
    tfos_error error = {0};
    char *found = NULL;
    (void)state;
    if (tf == NULL) {
        skip();
    }
    assert_int_equal(load("ragged", "serve", &ragged, &error), TFOS_OK);
    assert_int_equal(run(ragged, "{\"inputs\": {\"v\": \"x\", \"s\": \"x_1\"}}",
                         SCHEMA(COLUMN("v", "float") "," COLUMN("s", "int64")),
                         "{\"v\":1,\"s\":0}\n{\"v\":2,\"s\":1}\n{\"v\":3,\"s\":3}\n", &found, &error),
                     TFOS_MISMATCH);
    helper_expect_in(error.message, "output 'sum', column 'sum': the model gave 2 results for 3 rows");
    tfos__model_free(ragged);
}

static void test_models_that_cannot_run(void **state)
{
    tfos__model *none = NULL;
    tfos_error error = {0};
    (void)state;
    if (tf == NULL) {
        skip();
    }
    assert_int_equal(load("py_func", "serve", &none, &error), TFOS_UNSUPPORTED);
    helper_expect_in(error.message, "the model calls Python");
    helper_expect_in(error.message, "EagerPyFunc");
    assert_int_equal(load("old_style", "train", &none, &error), TFOS_NOT_FOUND);
    helper_expect_in(error.message, "expected a graph with the tag set 'train'");
    assert_int_equal(load("nothing", "serve", &none, &error), TFOS_NOT_FOUND);
    assert_int_equal(load("many", "serve", &none, &error), TFOS_NOT_FOUND); /* its variables are not there */
    helper_expect_in(error.message, "has variables, and no file variables/variables.index");
    /* An op of nobody's. */
    helper_bytes bytes = helper_of_file(strcat(strcpy((char[4200]){0}, folder_of("plain")), "/saved_model.pb"));
    bool changed = false;
    uint8_t *copy = malloc(bytes.count);
    memcpy(copy, bytes.data, bytes.count);
    for (uint8_t *at = copy; (at = memmem(at, (size_t)(copy + bytes.count - at), "StringUpper", 11)) != NULL; at++) {
        memcpy(at, "StringLoud!", 11);
        changed = true;
    }
    assert_true(changed);
    char path[4300];
    snprintf(path, sizeof path, "%s", helper_path(state, "saved_model.pb"));
    helper_to_file(path, helper_copy(copy, bytes.count));
    free(copy);
    *strrchr(path, '/') = '\0';
    const tfos__model_options options = {.folder = path, .tags = "serve", .threads = 1};
    assert_int_equal(tfos__model_load(tf, &options, &none, &error), TFOS_UNSUPPORTED);
    helper_expect_in(error.message, "the model has an op StringLoud! that TensorFlow ");
    assert_null(none);
}

/* ---- several threads ---- */

static void *run_often(void *context)
{
    tfos_batch *batch = batch_of(SCHEMA(FIXED("a", "float", "6")), "{\"a\":[1,2,3,4,5,6]}\n");
    tfos__binding *binding;
    assert_int_equal(tfos__binding_new(tfos__model_about(plain), "{\"signature\": \"shapes\"}",
                                       tfos_batch_schema(batch), &binding, NULL),
                     TFOS_OK);
    for (int i = 0; i < 200; i++) {
        tfos_batch *results;
        assert_int_equal(tfos__model_run(plain, binding, batch, &results, NULL), TFOS_OK);
        float sum = ((const float *)tfos_batch_column(results, 2)->data)[0];
        *(int *)context += sum == 21;
        tfos_batch_free(results);
    }
    tfos__binding_free(binding);
    tfos_batch_free(batch);
    return NULL;
}

static void test_threads(void **state)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    int right[THREADS] = {0};
    (void)state;
    if (tf == NULL) {
        skip();
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run_often, &right[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(right[i], 200);
    }
}

/* The nanoseconds that TensorFlow's threads for whole ops have run, and how many such threads there are. */
static unsigned long long pool_ns(int *threads)
{
    unsigned long long sum = 0;
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    *threads = 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char name[64] = "";
        unsigned long long ran = 0;
        char path[300];
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL) { /* . and .. */
            continue;
        }
        assert_non_null(fgets(name, sizeof name, file));
        fclose(file);
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", entry->d_name);
        file = fopen(path, "r");
        assert_non_null(file);
        assert_int_equal(fscanf(file, "%llu", &ran), 1);
        fclose(file);
        bool in_pool = strcmp(name, "tf_Compute\n") == 0;
        *threads += in_pool ? 1 : 0;
        sum += in_pool ? ran : 0;
    }
    closedir(folder);
    return sum;
}

static void test_ops_run_in_the_thread_that_calls(void **state)
{
    int threads, right = 0;
    (void)state;
    if (tf == NULL) {
        skip();
    }
    unsigned long long before = pool_ns(&threads);
    assert_true(threads > 0); /* that could have run them */
    run_often(&right);
    assert_int_equal(right, 200);
    assert_int_equal(pool_ns(&threads), before);
}

static int free_plain(void **state)
{
    (void)state;
    tfos__model_free(plain);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_numbers_that_do_not_fit),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_ragged),
        cmocka_unit_test(test_nothing_is_copied_where_layouts_agree),
        cmocka_unit_test(test_batches_of_a_fixed_size),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_parts_of_a_ragged_tensor),
        cmocka_unit_test_setup_teardown(test_models_that_cannot_run, helper_setup, helper_teardown),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_ops_run_in_the_thread_that_calls),
    };
    int result = cmocka_run_group_tests(tests, load_plain, free_plain);
    fflush(NULL);
    _exit(result); /* TensorFlow's destructors meet its threads */
}
