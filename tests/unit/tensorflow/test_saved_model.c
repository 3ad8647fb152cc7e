/* SavedModels as their files describe them: every kind that TensorFlow exports, against what TensorFlow says of them,
 * and folders that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "helper_records.h"
#include "helper_served.h"
#include "tensorflow/saved_model.h"

/* The folder of one of the models. Lives until helper_teardown. */
static const char *vector(const char *name)
{
    const char *folder = getenv("TFOS_TEST_VECTORS");
    assert_non_null(folder);
    helper_bytes path =
        JOIN(helper_from_text(folder), helper_from_text("/tensorflow/saved_model/"), helper_from_text(name), HEX(0));
    return (const char *)path.data;
}

static tfos__saved_model *read_model(const char *folder, const char *tags)
{
    tfos__saved_model *model = NULL;
    tfos_error error = {0};
    if (tfos__saved_model_read(NULL, folder, tags, &model, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    return model;
}

static void expect_failure(const char *folder, const char *tags, tfos_status expected, const char *message)
{
    tfos__saved_model *model = NULL;
    tfos_error error = {0};
    tfos_status status = tfos__saved_model_read(NULL, folder, tags, &model, &error);
    assert_string_equal(tfos_status_name(status), tfos_status_name(expected));
    assert_null(model);
    helper_expect_in(error.message, message);
    helper_expect_in(error.message, folder);
}

/* ---- against TensorFlow ---- */

static json_object *member(json_object *object, const char *key)
{
    json_object *found = NULL;
    if (!json_object_object_get_ex(object, key, &found)) {
        fail_msg("TensorFlow has no '%s'", key);
    }
    return found;
}

static void expect_text(json_object *expected, const char *found)
{
    helper_expect_text(found, json_object_get_string(expected));
}

static void expect_tensor(json_object *expected, const tfos__tensor_spec *found)
{
    static const char *const forms[] = {"dense", "sparse", "composite"};
    json_object *shape = member(expected, "shape");
    expect_text(member(expected, "tensor"), found->tensor);
    expect_text(member(expected, "form"), forms[found->form]);
    expect_text(member(expected, "dtype"), tfos__dtype_name(found->dtype));
    if (shape == NULL) {
        assert_int_equal(found->rank, -1);
        return;
    }
    assert_int_equal(found->rank, json_object_array_length(shape));
    for (int i = 0; i < found->rank; i++) {
        assert_int_equal(found->shape[i], json_object_get_int64(json_object_array_get_idx(shape, (size_t)i)));
    }
}

static void expect_tensors(json_object *expected, const tfos__tensor_specs *found)
{
    assert_int_equal(found->count, json_object_object_length(expected));
    for (size_t i = 0; i < found->count; i++) {
        expect_tensor(member(expected, found->at[i].name), &found->at[i]);
    }
}

static void expect_graph(json_object *expected, const char *folder)
{
    char tags[100] = "";
    json_object *list = member(expected, "tags");
    for (size_t i = json_object_array_length(list); i > 0; i--) { /* their order does not matter */
        const char *tag = json_object_get_string(json_object_array_get_idx(list, i - 1));
        strcat(strcat(tags, tags[0] != '\0' ? ", " : ""), tag);
    }
    tfos__saved_model *model = read_model(folder, tags);
    expect_text(member(expected, "version"), model->version);
    json_object *signatures = member(expected, "signatures");
    assert_int_equal(model->signature_count, json_object_object_length(signatures));
    for (size_t i = 0; i < model->signature_count; i++) {
        const tfos__signature *found;
        assert_int_equal(tfos__saved_model_signature(model, model->signatures[i].name, &found, NULL), TFOS_OK);
        json_object *signature = member(signatures, found->name);
        expect_text(member(signature, "method"), found->method);
        expect_tensors(member(signature, "inputs"), &found->inputs);
        expect_tensors(member(signature, "outputs"), &found->outputs);
    }
    json_object *ops = member(expected, "ops");
    assert_int_equal(model->op_count, json_object_array_length(ops));
    for (size_t i = 0; i < model->op_count; i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(ops, i));
        helper_expect_text(model->ops[i], name);
        assert_true(tfos__saved_model_has_op(model, name));
    }
    json_object *saver = member(expected, "saver");
    expect_text(json_object_array_get_idx(saver, 0), model->saver_filename);
    expect_text(json_object_array_get_idx(saver, 1), model->saver_save);
    expect_text(json_object_array_get_idx(saver, 2), model->saver_restore);
    tfos__saved_model_free(model);
}

static void test_models_of_tensorflow(void **state)
{
    static const char *const names[] = {"many",         "plain",   "sparse",    "ragged", "py_func",
                                        "no_signature", "keras_3", "old_style", "layers", "layers_tf_keras"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[400];
        const char *folder = vector(names[i]);
        snprintf(path, sizeof path, "%s/expected.json", folder);
        json_object *expected = json_object_from_file(path);
        assert_non_null(expected);
        json_object *graphs = member(expected, "graphs");
        for (size_t j = 0; j < json_object_array_length(graphs); j++) {
            expect_graph(json_object_array_get_idx(graphs, j), folder);
        }
        json_object_put(expected);
    }
}

/* ---- what is asked of a model ---- */

static void test_order_of_tensors(void **state)
{
    (void)state;
    tfos__saved_model *model = read_model(vector("many"), "serve");
    const tfos__signature *types;
    assert_int_equal(tfos__saved_model_signature(model, "types", &types, NULL), TFOS_OK);
    static const char *const inputs[] = {"half", "image", "input_2", "input_10", "text"};
    for (size_t i = 0; i < types->inputs.count; i++) {
        assert_string_equal(types->inputs.at[i].name, inputs[i]);
    }
    for (size_t i = 0; i < types->outputs.count; i++) {
        char name[40];
        snprintf(name, sizeof name, "output_%zu", i);
        assert_string_equal(types->outputs.at[i].name, name);
    }
    char text[40];
    tfos__tensor_spec_describe(&types->inputs.at[1], text, sizeof text);
    assert_string_equal(text, "uint8 [?, 28, 28, 3]");
    tfos__tensor_spec_describe(&types->inputs.at[1], text, 12);
    assert_string_equal(text, "uint8 [?, 2");
    tfos__tensor_spec_describe(&types->inputs.at[4], text, sizeof text);
    assert_string_equal(text, "string of any shape");
    const tfos__signature *predict;
    assert_int_equal(tfos__saved_model_signature(model, "serving_default", &predict, NULL), TFOS_OK);
    tfos__tensor_spec_describe(&predict->inputs.at[0], text, sizeof text);
    assert_string_equal(text, "bool []");
    tfos__saved_model_free(model);
    assert_string_equal(tfos__dtype_name(TFOS__DTYPE_NONE), "unknown");
    assert_string_equal(tfos__dtype_name((tfos__dtype)99), "unknown");
}

static void test_what_a_model_has_not(void **state)
{
    (void)state;
    const tfos__signature *signature;
    tfos_error error;
    tfos__saved_model *model = read_model(vector("many"), "serve");
    assert_int_equal(tfos__saved_model_signature(model, "predict", &signature, &error), TFOS_NOT_FOUND);
    helper_expect_in(error.message, "/many: expected a signature 'predict', found 'serving_default', 'types'");
    assert_int_equal(tfos__saved_model_signature(model, "__saved_model_init_op", &signature, &error), TFOS_NOT_FOUND);
    assert_false(tfos__saved_model_has_op(model, "PyFunc"));
    assert_false(tfos__saved_model_has_op(model, ""));
    tfos__saved_model_free(model);
    model = read_model(vector("no_signature"), "serve");
    assert_int_equal(tfos__saved_model_signature(model, "serving_default", &signature, &error), TFOS_NOT_FOUND);
    helper_expect_in(error.message, "found none: export the model with signatures");
    tfos__saved_model_free(model);
    model = read_model(vector("py_func"), "serve");
    assert_true(tfos__saved_model_has_op(model, "EagerPyFunc"));
    tfos__saved_model_free(model);
    expect_failure(vector("old_style"), "train", TFOS_NOT_FOUND,
                   "expected a graph with the tag set 'train', found 'serve', 'serve,gpu'");
    expect_failure(vector("old_style"), "", TFOS_NOT_FOUND, "expected a graph with the tag set ''");
}

/* ---- folders ---- */

static void test_folders_without_a_model(void **state)
{
    const char *folder = *state;
    const char *path = helper_path(state, "saved_model.pb");
    expect_failure(helper_path(state, "none"), "serve", TFOS_NOT_FOUND, "found no saved_model.pb in this folder");
    expect_failure(folder, "serve", TFOS_NOT_FOUND, "found no saved_model.pb in this folder");
    helper_to_file(helper_path(state, "saved_model.pbtxt"), helper_from_text("x"));
    expect_failure(folder, "serve", TFOS_UNSUPPORTED, "saved_model.pbtxt");
    helper_to_file(path, helper_from_text(""));
    expect_failure(folder, "serve", TFOS_NOT_FOUND, "found no graph at all");
    helper_to_file(path, helper_from_text("this is a text"));
    expect_failure(folder, "serve", TFOS_CORRUPT, "this is no SavedModel");
}

/* Cut anywhere, a model is refused, or is one that says less: never more, and nothing is read behind the end. */
static void test_files_that_are_cut(void **state)
{
    helper_bytes whole = helper_of_file(vector("old_style/saved_model.pb"));
    const char *path = helper_path(state, "saved_model.pb");
    for (size_t bytes = 0; bytes < whole.count; bytes += 97) {
        tfos__saved_model *model = NULL;
        tfos_error error = {0};
        helper_to_file(path, helper_part(whole, 0, bytes));
        tfos_status status = tfos__saved_model_read(NULL, *state, "serve", &model, &error);
        assert_true(status == TFOS_CORRUPT || status == TFOS_NOT_FOUND || status == TFOS_OK);
        tfos__saved_model_free(model);
    }
}

/* A dimension of a TensorShapeProto. */
static helper_bytes size_of(int64_t size)
{
    return helper_bytes_field(2, helper_number_field(1, (uint64_t)size));
}

/* A model with one input, x float32, of this shape. */
static void write_model(void *const *state, helper_bytes shape)
{
    helper_bytes tensor =
        JOIN(helper_bytes_field(1, helper_from_text("x:0")), helper_number_field(2, 1), helper_bytes_field(3, shape));
    helper_bytes input = JOIN(helper_bytes_field(1, helper_from_text("x")), helper_bytes_field(2, tensor));
    helper_bytes signature = JOIN(helper_bytes_field(1, helper_from_text("serving_default")),
                                  helper_bytes_field(2, helper_bytes_field(1, input)));
    helper_bytes about = helper_bytes_field(1, helper_bytes_field(4, helper_from_text("serve")));
    helper_to_file(helper_path(state, "saved_model.pb"),
                   helper_bytes_field(2, JOIN(about, helper_bytes_field(5, signature))));
}

/* So many values no memory holds, and no number counts: whoever multiplies the sizes may rely on them. */
static void test_sizes_that_no_number_holds(void **state)
{
    write_model(state, JOIN(size_of(-1), size_of((int64_t)1 << 60), size_of(4)));
    tfos__saved_model *model = read_model(*state, "serve");
    assert_int_equal(model->signatures[0].inputs.at[0].rank, 3);
    tfos__saved_model_free(model);
    write_model(state, JOIN(size_of(-1), size_of((int64_t)1 << 62), size_of(4)));
    expect_failure(*state, "serve", TFOS_CORRUPT, "'x' float32 [?, 4611686018427387904, 4]");
    write_model(state, JOIN(size_of(-1), size_of(0), size_of((int64_t)1 << 62), size_of(4)));
    expect_failure(*state, "serve", TFOS_CORRUPT, "'x' float32 [?, 0, 4611686018427387904, 4]");
}

/* From another file system, as on a driver whose models are in HDFS. */
static void test_a_model_elsewhere(void **state)
{
    (void)state;
    helper_served served;
    helper_served_init(&served);
    tfos__saved_model *model = NULL;
    const char *folder = helper_served_path(vector("keras_3"));
    assert_int_equal(tfos__saved_model_read(&served.system, folder, "serve", &model, NULL), TFOS_OK);
    assert_true(model->signature_count > 0);
    tfos__saved_model_free(model);
    tfos_error error;
    folder = helper_served_path(vector("nowhere"));
    assert_int_equal(tfos__saved_model_read(&served.system, folder, "serve", &model, &error), TFOS_NOT_FOUND);
    assert_int_equal(atomic_load(&served.open_now), 0);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, helper_setup, helper_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_models_of_tensorflow),       IN_FOLDER(test_order_of_tensors),
        IN_FOLDER(test_what_a_model_has_not),       IN_FOLDER(test_folders_without_a_model),
        IN_FOLDER(test_files_that_are_cut),         IN_FOLDER(test_a_model_elsewhere),
        IN_FOLDER(test_sizes_that_no_number_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
