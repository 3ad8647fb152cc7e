/* Which columns become which tensors, and the reverse: by name, position and shape, without TensorFlow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
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
    snprintf(expected, sizeof expected, "{\"columns\":{\"image\":{\"shape\":[4],\"cast\":\"float\"}},%s", end);
    expect_plan("{}", fields, expected);
    expect_plan("{\"signature\": \"serving_default\", \"inputs\": null}", fields, expected);
    snprintf(end, sizeof end, result, "digit");
    snprintf(expected, sizeof expected, "{\"columns\":{\"x\":{\"shape\":[4],\"cast\":\"float\"}},%s", end);
    expect_plan("{\"inputs\": {\"x\": \"image\"}, \"outputs\": {\"output_0\": \"digit\"}}", fields, expected);
    expect_plan("{\"inputs\": {\"x\": \"0\"}, \"outputs\": {\"0\": \"digit\"}}", fields, expected);
    expect_plan("{\"inputs\": {\"x\": \"serving_default_image:0\"}, \"outputs\": {\"0\": \"digit\"}}", fields,
                expected);
    expect_plan("{\"inputs\": {\"x\": \"serving_default_image\"}, \"outputs\": {\"0\": \"digit\"}}", fields, expected);
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
                   WORDS("no column is mapped to the input 'image'", "image float32 [?, 4]", "setInputMapping"));
    expect_refusal("{\"inputs\": {\"x\": \"imago\"}}", fields, TFOS_MISMATCH,
                   WORDS("the input mapping names a tensor 'imago'", "has the inputs image float32 [?, 4]"));
    expect_refusal("{\"inputs\": {\"y\": \"image\"}}", fields, TFOS_MISMATCH,
                   WORDS("the input mapping names a column 'y': the rows have id, x"));
    expect_refusal("{\"inputs\": {\"x\": \"image\", \"id\": \"0\"}}", fields, TFOS_MISMATCH, WORDS("in conflict"));
    expect_refusal("{\"inputs\": {\"x\": \"1\"}}", fields, TFOS_MISMATCH, WORDS("names a tensor '1'"));
    expect_refusal("{\"inputs\": {\"x\": \"image\"}, \"outputs\": {\"logits\": \"y\"}}", fields, TFOS_MISMATCH,
                   WORDS("the output mapping names a tensor 'logits'", "has the outputs output_0 float32 [?, 2]"));
    expect_refusal("nonsense", fields, TFOS_INVALID, WORDS("an order for a model is no JSON object"));
}

/* ---- types and shapes ---- */

static void test_types(void **state)
{
    (void)state;
    open_model("keras_3");
    static const char *const order = "{\"inputs\": {\"x\": \"image\"}}";
    expect_refusal(order, FIELD("x", ARRAY_OF("\"string\"")), TFOS_MISMATCH,
                   WORDS("input 'image' float32 [?, 4], column 'x' string[4]", "Cast the column in Spark"));
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
}

static void test_shapes(void **state)
{
    (void)state;
    open_model("plain");
    char *found = plan_for("{\"signature\": \"shapes\"}", FIELD("a", ARRAY_OF("\"float\"")));
    helper_expect_in(found, "\"columns\":{\"a\":{\"shape\":[6],\"cast\":\"float\"}}");
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
    helper_expect_in(found, "\"a\":{\"shape\":[null],\"cast\":\"int64\"},\"b\":{\"shape\":[null]}");
    free(found);
    found = plan_for("{\"signature\": \"lists\"}", FIELD("a", ARRAY_OF(ARRAY_OF("\"float\""))));
    helper_expect_in(found, "\"a\":{\"shape\":[null,2],\"cast\":\"float\"}");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_names, close_model),
        cmocka_unit_test_teardown(test_names_that_are_wrong, close_model),
        cmocka_unit_test_teardown(test_types, close_model),
        cmocka_unit_test_teardown(test_shapes, close_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
