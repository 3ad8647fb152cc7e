/* Which columns become which tensors, and the reverse: by name, position and shape, without TensorFlow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "column/schema.h"
#include "helper_records.h"
#include "helper_spark.h"
#include "helper_text.h"
#include "tensorflow/binding.h"

static tfos__saved_model *model; /* tests/vectors/tensorflow/saved_model/… */

static void open_model(const char *name)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/tensorflow/saved_model/%s", getenv("TFOS_TEST_VECTORS"), name);
    tfos__saved_model_free(model);
    assert_int_equal(tfos__saved_model_read(NULL, folder, "serve", &model, NULL), TFOS_OK);
}

static int close_model(void **state)
{
    (void)state;
    tfos__saved_model_free(model);
    model = NULL;
    return 0;
}

static int close_model_and_folder(void **state)
{
    close_model(state);
    return helper_teardown(state);
}

/* The order that tasks get, whoever has asked for what. */
static char *settled_order(const char *order, const char *fields)
{
    char schema[8192];
    tfos_model_plan plan;
    tfos_error error = {0};
    snprintf(schema, sizeof schema, "{\"type\": \"struct\", \"fields\": [%s]}", fields);
    if (tfos__binding_plan(model, order, schema, &plan, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    char *text = strdup(plan.order);
    tfos_model_plan_reset(&plan);
    return text;
}

/* The plan for rows of these fields, in one text. */
static char *plan_for(const char *order, const char *fields)
{
    char schema[8192];
    char *text = NULL;
    tfos_model_plan plan;
    tfos_error error = {0};
    snprintf(schema, sizeof schema, "{\"type\": \"struct\", \"fields\": [%s]}", fields);
    if (tfos__binding_plan(model, order, schema, &plan, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    assert_true(asprintf(&text, "{\"columns\":%s,\"results\":%s,\"batch_rows\":%d}", plan.columns, plan.results,
                         (int)plan.batch_rows) > 0);
    tfos_model_plan_reset(&plan);
    return text;
}

static void expect_plan(const char *order, const char *fields, const char *expected)
{
    char *found = plan_for(order, fields);
    helper_expect_text(found, expected);
    free(found);
}

/* A plan that is refused, and what the message says. */
static void expect_refusal(const char *order, const char *fields, tfos_status expected, const char *const *words)
{
    char schema[8192];
    tfos_model_plan plan;
    tfos_error error = {0};
    snprintf(schema, sizeof schema, "{\"type\": \"struct\", \"fields\": [%s]}", fields);
    tfos_status status = tfos__binding_plan(model, order, schema, &plan, &error);
    if (status != expected) {
        fail_msg("%s: %s", tfos_status_name(status), error.message);
    }
    for (; *words != NULL; words++) {
        helper_expect_in(error.message, *words);
    }
}

/* ---- names ---- */

static void test_names(void **state)
{
    (void)state;
    open_model("keras_3"); /* image float32 [?, 4] → output_0 float32 [?, 2] */
    static const char *const fields =
        FIELD("id", "\"long\"") "," FIELD("image", ARRAY_OF("\"double\"")) "," FIELD("x", ARRAY_OF("\"float\""));
    static const char *const result =
        "\"results\":{\"type\":\"struct\",\"fields\":[{\"name\":\"%s\",\"nullable\":true,\"metadata\":{},\"type\":{"
        "\"type\":\"array\",\"containsNull\":true,\"elementType\":\"float\"}}]},\"batch_rows\":-1}";
    char expected[1024];
    char end[512];
    snprintf(end, sizeof end, result, "output_0");
    snprintf(expected, sizeof expected, "{\"columns\":{\"image\":{\"shape\":[4]}},%s", end);
    expect_plan("{}", fields, expected);
    expect_plan("{\"signature\": \"serving_default\", \"inputs\": null}", fields, expected);
    snprintf(end, sizeof end, result, "digit");
    snprintf(expected, sizeof expected, "{\"columns\":{\"x\":{\"shape\":[4]}},%s", end);
    expect_plan("{\"inputs\": {\"x\": \"image\"}, \"outputs\": {\"output_0\": \"digit\"}}", fields, expected);
    expect_plan("{\"inputs\": {\"x\": \"0\"}, \"outputs\": {\"0\": \"digit\"}}", fields, expected);
    expect_plan("{\"inputs\": {\"x\": \"serving_default_image:0\"}, \"outputs\": {\"0\": \"digit\"}}", fields,
                expected);
    expect_plan("{\"inputs\": {\"x\": \"serving_default_image\"}, \"outputs\": {\"0\": \"digit\"}}", fields, expected);
    /* What a program was fed by has labels, too. */
    expect_plan("{\"inputs\": {\"x\": \"image\", \"gone\": \"label\"}, \"lenient\": true, \"outputs\": {\"0\": "
                "\"digit\"}}",
                fields, expected);
    /* One column, one input: there is nothing to choose. */
    expect_plan("{\"outputs\": {\"0\": \"digit\"}}", FIELD("x", ARRAY_OF("\"float\"")), expected);
}

static void test_names_that_are_wrong(void **state)
{
    (void)state;
    open_model("keras_3");
    static const char *const fields = FIELD("id", "\"long\"") "," FIELD("x", ARRAY_OF("\"float\""));
    expect_refusal("{\"signature\": \"train\"}", fields, TFOS_NOT_FOUND,
                   WORDS("expected a signature 'train', found 'serve', 'serving_default'"));
    expect_refusal("{}", fields, TFOS_MISMATCH,
                   WORDS("no column is mapped to the input 'image'", "has the inputs image float32 [?, 4];",
                         "the rows have the columns id long, x array<float>.", "setInputMapping"));
    expect_refusal("{\"inputs\": {\"x\": \"imago\"}}", fields, TFOS_MISMATCH,
                   WORDS("the input mapping names a tensor 'imago'", "has the inputs image float32 [?, 4];",
                         "the rows have the columns id long, x array<float>."));
    expect_refusal("{\"inputs\": {\"x\": \"imago\"}, \"lenient\": true}", fields, TFOS_MISMATCH,
                   WORDS("no column is mapped to the input 'image'"));
    expect_refusal("{\"inputs\": {\"y\": \"image\"}}", fields, TFOS_MISMATCH,
                   WORDS("the input mapping names a column 'y': the rows have the columns id long, x array<float>;",
                         "has the inputs image float32 [?, 4]."));
    expect_refusal("{\"inputs\": {\"y\": \"image\"}}",
                   FIELD("v", VECTOR) "," FIELD("w", ARRAY_OF(ARRAY_OF("\"float\""))) "," FIELD(
                       "m", "{\"type\":\"map\",\"keyType\":\"string\",\"valueType\":\"long\"}"),
                   TFOS_MISMATCH, WORDS("columns v vector, w array<array<float>>, m map;"));
    expect_refusal("{\"inputs\": {\"y\": \"image\"}}", "", TFOS_MISMATCH, WORDS("the rows have the columns none;"));
    expect_refusal("{\"inputs\": {\"x\": \"image\", \"id\": \"0\"}}", fields, TFOS_MISMATCH, WORDS("in conflict"));
    expect_refusal("{\"inputs\": {\"x\": \"1\"}}", fields, TFOS_MISMATCH, WORDS("names a tensor '1'"));
    expect_refusal(
        "{\"inputs\": {\"x\": \"image\"}, \"outputs\": {\"logits\": \"y\"}}", fields, TFOS_MISMATCH,
        WORDS("the output mapping names a tensor 'logits'", "has the outputs output_0 float32 [?, 2] in functional"));
    expect_refusal("nonsense", fields, TFOS_INVALID, WORDS("an order for a model is no JSON object"));
}

/* Of many columns some are listed, and what is to be done about it is still told. */
static void test_many_names(void **state)
{
    char fields[8000] = "";
    (void)state;
    open_model("many"); /* 15 outputs */
    for (int i = 0; i < 100; i++) {
        size_t used = strlen(fields);
        snprintf(fields + used, sizeof fields - used, "%s{\"name\":\"column_%d\",\"type\":\"long\"}", i > 0 ? "," : "",
                 i);
    }
    expect_refusal("{}", fields, TFOS_MISMATCH,
                   WORDS("the rows have the columns column_0 long, column_1 long, ", " more. Map a column",
                         "--inputs COLUMN=TENSOR)"));
    expect_refusal("{\"signature\": \"types\", \"inputs\": {\"a\": \"image\", \"b\": \"text\", \"c\": \"half\", "
                   "\"d\": \"input_2\", \"e\": \"input_10\"}, \"outputs\": {\"none\": \"y\"}}",
                   FIELD("a", "\"binary\"") "," FIELD("b", "\"string\"") "," FIELD("c", "\"float\"") "," FIELD(
                       "d", "\"long\"") "," FIELD("e", "\"long\""),
                   TFOS_MISMATCH,
                   WORDS("has the outputs output_0 uint8 [?, 28, 28, 3], output_1 string", " more. Name"));
}

/* ---- layers ---- */

/* The name of an output in the signature stands for the layer that makes it, or there is none that is sure. */
static void expect_layer(const char *layer, const char *output)
{
    static const char *const fields = FIELD("x", ARRAY_OF("\"float\""));
    char order[256];
    char named[256];
    snprintf(order, sizeof order, "{\"outputs\": {\"%s\": \"y\"}}", layer);
    if (output == NULL) {
        snprintf(named, sizeof named, "the output mapping names a tensor '%s'", layer);
        expect_refusal(order, fields, TFOS_MISMATCH, WORDS(named, "its position"));
        return;
    }
    snprintf(named, sizeof named, "{\"outputs\": {\"%s\": \"y\"}}", output);
    char *expected = plan_for(named, fields);
    expect_plan(order, fields, expected);
    free(expected);
}

/* Which output it is shows in the binding alone: several have the same shape. */
static void expect_output(const char *layer, const char *output)
{
    char order[256];
    tfos__binding *binding;
    tfos_error error = {0};
    static const char *const columns = "{\"fields\": [{\"name\": \"x\", \"type\": \"float\", \"shape\": [4]}]}";
    tfos_schema *rows;
    expect_layer(layer, output);
    assert_int_equal(tfos_schema_from_json(columns, strlen(columns), &rows, NULL), TFOS_OK);
    snprintf(order, sizeof order, "{\"outputs\": {\"%s\": \"y\"}}", layer);
    assert_int_equal(tfos__binding_new(model, order, rows, &binding, &error), TFOS_OK);
    helper_expect_text(binding->outputs[0].spec->name, output);
    tfos__binding_free(binding);
    tfos_schema_free(rows);
}

static void test_layers_of_keras_3(void **state)
{
    (void)state;
    open_model("keras_3");
    expect_output("digit", "output_0");
    open_model("layers");
    expect_output("digit", "output_0");
    expect_output("y", "output_1");
    expect_output("x", "output_3"); /* whose ops are in x_1 */
    expect_output("head", "output_6");
    expect_output("last", "output_6"); /* of the model inside of it */
    expect_output("flat", "output_7");
    expect_output("digit_1", "output_0"); /* as the graph has it */
    expect_layer("x_1", NULL);            /* either x, or x_1 whose ops are in x_1_2 */
    expect_layer("y_1", NULL);            /* a layer inside of the model; the ops of y are called so */
    expect_layer("shared", NULL);         /* makes two of them */
    expect_layer("functional", NULL);     /* and so does the model */
    expect_layer("functional_1", NULL);
    expect_layer("Softmax", NULL); /* an op, and no layer */
    expect_layer("dig", NULL);
    expect_layer("digit_", NULL);
    expect_layer("image", NULL);
    expect_refusal("{\"outputs\": {\"x_1\": \"y\"}}", FIELD("x", ARRAY_OF("\"float\"")), TFOS_MISMATCH,
                   WORDS("'x_1', and several outputs of the signature 'serving_default' may be of that layer: output_2 "
                         "float32 [?, 2] in functional_1_1/x_1_2, output_3 float32 [?, 2] in functional_1_1/x_1. Name "
                         "one of them"));
    /* A pair of a layer and one of its output are in conflict. */
    expect_refusal("{\"outputs\": {\"digit\": \"a\", \"output_0\": \"b\"}}", FIELD("x", ARRAY_OF("\"float\"")),
                   TFOS_MISMATCH, WORDS("in conflict"));
}

static void test_layers_of_tf_keras(void **state)
{
    (void)state;
    open_model("layers_tf_keras");
    expect_output("other", "output_0");
    expect_output("dense_1", "output_1");
    expect_output("drop", "output_2"); /* of which a copy is left */
    expect_layer("dense", NULL);       /* which has ops of its own, and is not dense_1 */
    open_model("plain");
    expect_refusal("{\"signature\": \"shapes\", \"outputs\": {\"Sum\": \"y\"}}", FIELD("a", ARRAY_OF("\"float\"")),
                   TFOS_MISMATCH, WORDS("names a tensor 'Sum'"));
}

/* The file is read a second time for a layer, and may be another one by then: tasks get what the driver has found. */
static void test_a_graph_that_is_damaged(void **state)
{
    static const char *const order = "{\"outputs\": {\"digit\": \"y\"}}";
    static const char *const fields = FIELD("x", ARRAY_OF("\"float\""));
    char folder[4096];
    const char *path = helper_path(state, "saved_model.pb");
    open_model("layers");
    snprintf(folder, sizeof folder, "%s/saved_model.pb", model->folder);
    helper_bytes bytes = helper_of_file(folder);
    helper_to_file(path, bytes);
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    tfos__saved_model_free(model);
    assert_int_equal(tfos__saved_model_read(NULL, folder, "serve", &model, NULL), TFOS_OK);
    char *expected = plan_for(order, fields);
    char *settled = settled_order(order, fields);
    /* Of the functions that return something, what they return. */
    uint8_t *copy = malloc(bytes.count);
    memcpy(copy, bytes.data, bytes.count);
    bool changed = false;
    for (uint8_t *at = copy; (at = memmem(at, (size_t)(copy + bytes.count - at), "Identity:output:0", 17)) != NULL;) {
        at[-1] = 0x7F; /* its length */
        at++;
        changed = true;
    }
    assert_true(changed);
    helper_to_file(path, helper_copy(copy, bytes.count));
    free(copy);
    expect_refusal(order, fields, TFOS_CORRUPT, WORDS(folder, "saved_model.pb: this is no SavedModel"));
    free(plan_for("{\"outputs\": {\"output_0\": \"y\"}}", fields)); /* who asks for no layer does not notice */
    assert_int_equal(unlink(path), 0);
    expect_refusal(order, fields, TFOS_NOT_FOUND, WORDS(folder, "found no saved_model.pb"));
    expect_plan(settled, fields, expected); /* nor does who has loaded the model that the driver has looked at */
    free(settled);
    free(expected);
}

/* ---- types and shapes ---- */

static void test_types(void **state)
{
    (void)state;
    open_model("keras_3");
    static const char *const order = "{\"inputs\": {\"x\": \"image\"}}";
    expect_refusal(order, FIELD("x", ARRAY_OF("\"string\"")), TFOS_MISMATCH,
                   WORDS("input 'image' float32 [?, 4], column 'x' string[4]", "Cast the column"));
    expect_refusal(order, FIELD("x", "\"float\""), TFOS_MISMATCH,
                   WORDS("it wants 4 values a row, and the column has 1"));
    expect_refusal(order, FIELD("x", "{\"type\":\"map\",\"keyType\":\"string\",\"valueType\":\"long\"}"),
                   TFOS_UNSUPPORTED, WORDS("column 'x'"));
    expect_refusal(order, FIELD("x", ARRAY_OF(ARRAY_OF("\"float\""))), TFOS_MISMATCH,
                   WORDS("a list of lists becomes a tensor of three dimensions, and it has 2"));
    /* Columns that are not fed may be what they like. */
    free(plan_for(order, FIELD("m", "{\"type\":\"map\",\"keyType\":\"string\",\"valueType\":\"long\"}") "," FIELD(
                             "x", ARRAY_OF("\"decimal(10,2)\""))));
    free(plan_for(order, FIELD("x", VECTOR)));
    open_model("many");
    expect_refusal("{\"inputs\": {\"x\": \"x\", \"f\": \"flag\"}}",
                   FIELD("x", ARRAY_OF("\"float\"")) "," FIELD("f", "\"boolean\""), TFOS_UNSUPPORTED,
                   WORDS("input 'flag' bool []", "one value for a whole batch"));
    open_model("sparse");
    expect_refusal("{}", FIELD("x", ARRAY_OF("\"float\"")), TFOS_UNSUPPORTED,
                   WORDS("the inputs 'x', 'x_1' and 'x_2' of the signature 'serving_default' are the parts of a sparse",
                         "Export the model with a signature that has dense tensors"));
    open_model("ragged");
    expect_refusal(
        "{}", FIELD("x", ARRAY_OF("\"float\"")), TFOS_MISMATCH,
        WORDS("no column is mapped to the input 'x_1'", "If it is a part of a ragged tensor, its row splits"));
}

static void test_shapes(void **state)
{
    (void)state;
    open_model("plain");
    char *found = plan_for("{\"signature\": \"shapes\"}", FIELD("a", ARRAY_OF("\"float\"")));
    helper_expect_in(found, "\"columns\":{\"a\":{\"shape\":[6]}}");
    /* In the order of names; three dimensions are lists of lists, more are one list. */
    helper_expect_in(found, "\"name\":\"rows\",\"nullable\":true,\"metadata\":{},\"type\":{\"type\":\"array\","
                            "\"containsNull\":true,\"elementType\":\"float\"");
    helper_expect_in(found, "\"name\":\"same\",\"nullable\":true,\"metadata\":{},\"type\":{\"type\":\"array\","
                            "\"containsNull\":true,\"elementType\":{"
                            "\"type\":\"array\"");
    helper_expect_in(found, "\"name\":\"sum\",\"nullable\":true,\"metadata\":{},\"type\":\"float\"");
    helper_expect_in(found, "\"name\":\"wide\",\"nullable\":true,\"metadata\":{},\"type\":{\"type\":\"array\","
                            "\"containsNull\":true,\"elementType\":\"float\"");
    free(found);
    found = plan_for("{\"signature\": \"ragged\"}",
                     FIELD("a", ARRAY_OF("\"integer\"")) "," FIELD("b", ARRAY_OF("\"string\"")));
    helper_expect_in(found, "\"a\":{\"shape\":[null]},\"b\":{\"shape\":[null]}");
    free(found);
    found = plan_for("{\"signature\": \"lists\"}", FIELD("a", ARRAY_OF(ARRAY_OF("\"float\""))));
    helper_expect_in(found, "\"a\":{\"shape\":[null,2]}");
    free(found);
    found = plan_for("{\"signature\": \"three\"}", FIELD("a", ARRAY_OF("\"float\"")));
    helper_expect_in(found, "\"batch_rows\":3}");
    free(found);
    expect_refusal("{\"signature\": \"any_rank\"}", FIELD("a", ARRAY_OF("\"float\"")), TFOS_UNSUPPORTED,
                   WORDS("output 'total' float32 []"));
    found =
        plan_for("{\"signature\": \"any_rank\", \"outputs\": {\"same\": \"y\"}}", FIELD("a", ARRAY_OF("\"float\"")));
    helper_expect_in(found, "\"name\":\"y\",\"nullable\":true,\"metadata\":{},\"type\":{\"type\":\"array\","
                            "\"containsNull\":true,\"elementType\":\"float\"");
    free(found);
    found = plan_for("{\"signature\": \"bytes_in\"}", FIELD("a", "\"binary\""));
    helper_expect_in(found, "\"columns\":{\"a\":{}}");
    free(found);
    expect_refusal("{\"signature\": \"bytes_in\"}", FIELD("a", ARRAY_OF("\"binary\"")), TFOS_MISMATCH,
                   WORDS("the column has lists of binaries"));
    expect_refusal("{\"signature\": \"bytes_in\"}", FIELD("a", ARRAY_OF(ARRAY_OF("\"binary\""))), TFOS_MISMATCH,
                   WORDS("the column has lists of binaries"));
}

/* ---- columns of files ---- */

/* "x float[6], id int64?": the columns of a schema, with a mark where a value may be missing. */
static void describe(const tfos_schema *schema, char *out, size_t bytes)
{
    out[0] = '\0';
    for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
        const tfos_field *field = tfos_schema_field(schema, i);
        char text[64];
        size_t used = strlen(out);
        tfos__field_describe(field, text, sizeof text);
        snprintf(out + used, bytes - used, "%s%s %s%s", i > 0 ? ", " : "", field->name, text,
                 field->nullable ? "?" : "");
    }
}

/* How files with these columns are read for a signature of the model `plain`, or what is wrong. */
static void expect_declared(const char *order, const char *fields, const char *const *kept, const char *expected)
{
    char schema[1024];
    char found[1024];
    tfos_schema *rows;
    tfos_schema *declared = NULL;
    tfos_error error = {0};
    size_t count = 0;
    for (; kept[count] != NULL; count++) {}
    snprintf(schema, sizeof schema, "{\"fields\": [%s]}", fields);
    assert_int_equal(tfos_schema_from_json(schema, strlen(schema), &rows, &error), TFOS_OK);
    if (tfos__binding_declare(model, order, rows, kept, count, &declared, &error) == TFOS_OK) {
        describe(declared, found, sizeof found);
        helper_expect_text(found, expected);
    } else {
        helper_expect_in(error.message, expected);
    }
    tfos_schema_free(declared);
    tfos_schema_free(rows);
}

#define COLUMN(name, type) "{\"name\": \"" name "\", \"type\": \"" type "\", \"nullable\": true}"
#define LIST(name, type) "{\"name\": \"" name "\", \"type\": \"" type "\", \"shape\": [null]}"
#define NONE ((const char *const[]){NULL})

static void test_columns_of_files(void **state)
{
    (void)state;
    open_model("plain");
    /* No value may be missing, lists have the length of the tensor, and whole numbers its width. */
    expect_declared("{\"signature\": \"shapes\", \"inputs\": {\"x\": \"a\"}}",
                    COLUMN("id", "int64") "," COLUMN("other", "int64") "," LIST("x", "double"), WORDS("id"),
                    "x float[6], id int64?");
    expect_declared("{\"signature\": \"texts\"}",
                    LIST("c", "string") "," COLUMN("b", "string") "," COLUMN("a", "int64"), NONE,
                    "a bool, b string, c string[2]");
    expect_declared("{\"signature\": \"bytes_in\"}", COLUMN("a", "string"), NONE, "a binary");
    /* What is kept comes out as it was. */
    expect_declared("{\"signature\": \"bytes_in\"}", COLUMN("a", "string"), WORDS("a"), "a string");
    expect_declared("{\"signature\": \"three\"}", COLUMN("a", "float"), WORDS("b"),
                    "the column 'b' is to be kept; the rows have the columns a float");
    expect_declared("{\"signature\": \"texts\"}", COLUMN("a", "float") "," LIST("z", "int64"), NONE,
                    "no column is mapped to the input 'b': the signature 'texts' has the inputs a bool [?], b string "
                    "[?], c string [?, 2]; the rows have the columns a float, z int64[].");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_names, close_model),
        cmocka_unit_test_teardown(test_names_that_are_wrong, close_model),
        cmocka_unit_test_teardown(test_many_names, close_model),
        cmocka_unit_test_teardown(test_layers_of_keras_3, close_model),
        cmocka_unit_test_teardown(test_layers_of_tf_keras, close_model),
        cmocka_unit_test_setup_teardown(test_a_graph_that_is_damaged, helper_setup, close_model_and_folder),
        cmocka_unit_test_teardown(test_types, close_model),
        cmocka_unit_test_teardown(test_shapes, close_model),
        cmocka_unit_test_teardown(test_columns_of_files, close_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
