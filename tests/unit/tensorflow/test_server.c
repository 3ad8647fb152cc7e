/* Cluster specs and TF_CONFIG: what is taken and what is refused, and the ServerDef that comes out of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "helper_records.h"
#include "record/base64.h"
#include "tensorflow/server.h"

#define SPEC "{\"worker\": [\"b:2\", \"c:3\"], \"ps\": [\"a:1\"]}"

static tfos_status parse(tfos__cluster_spec *out, const char *text, tfos_error *error)
{
    return tfos__cluster_spec_init(out, text, strlen(text), error);
}

static void test_spec(void **state)
{
    (void)state;
    tfos__cluster_spec spec;
    const tfos__cluster_job *job = NULL;
    tfos_error error = {0};
    assert_int_equal(parse(&spec, " " SPEC "\n", &error), TFOS_OK);
    assert_int_equal(spec.job_count, 2);
    assert_int_equal(spec.task_count, 3);
    assert_string_equal(spec.jobs[0].name, "ps");
    assert_int_equal(tfos__cluster_spec_find(&spec, "worker", 1, &job, &error), TFOS_OK);
    assert_string_equal(job->addresses[1], "c:3");
    assert_int_equal(tfos__cluster_address_port(job->addresses[1]), 3);
    job = NULL;
    assert_int_equal(tfos__cluster_spec_find(&spec, "worker", 2, &job, &error), TFOS_INVALID);
    assert_string_equal(error.message,
                        "expected the index of a task of the job worker, from 0 to 1 in this cluster, found 2");
    assert_int_equal(tfos__cluster_spec_find(&spec, "worker", -1, &job, &error), TFOS_INVALID);
    assert_int_equal(tfos__cluster_spec_find(&spec, "chief", 0, &job, &error), TFOS_INVALID);
    assert_string_equal(error.message, "the cluster has no job \"chief\": expected one of ps, worker");
    assert_null(job);
    tfos__cluster_spec_reset(&spec);
}

static void test_good_addresses(void **state)
{
    (void)state;
    static const char *const good[] = {"a:1",      "host.example.org:65535", "10.0.0.1:2222",        "a_b-c:80",
                                       "[::1]:22", "[2001:db8::7]:2222",     "[fe80::1%eth0.1]:2222"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char text[128];
        tfos__cluster_spec spec;
        tfos_error error = {0};
        snprintf(text, sizeof text, "{\"ps\": [\"%s\"]}", good[i]);
        if (parse(&spec, text, &error) != TFOS_OK) {
            fail_msg("%s: %s", good[i], error.message);
        }
        assert_string_equal(spec.jobs[0].addresses[0], good[i]);
        tfos__cluster_spec_reset(&spec);
    }
}

static void test_bad_specs(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } bad[] = {
        {"", "it ends before its closing bracket"},
        {"ps", "expected a JSON object {…}, found 'ps'"},
        {"[]", "it is no object"},
        {"null", "it ends before its closing bracket"},
        {"{}", "found one without jobs"},
        {"{\"ps\": [\"a:1\"]} {}", "at byte 16"},
        {"{\"ps\": [\"a:1\"", "it ends before its closing bracket"},
        {"{\"ps\": []}", "ps: expected at least one address, found an empty list"},
        {"{\"ps\": null}", "ps: expected a list of addresses [\"host:port\", …], found null"},
        {"{\"ps\": \"a:1\"}", "ps: expected a list"},
        {"{\"ps\": {\"0\": \"a:1\"}}", "ps: expected a list"},
        {"{\"\": [\"a:1\"]}", "expected the name of a job"},
        {"{\"p/s\": [\"a:1\"]}", "found \"p/s\""},
        {"{\"1\": [\"a:1\"]}", "found \"1\""},
        {"{\"ps\": [1]}", "ps:0: expected an address \"host:port\" with a port from 1 to 65535, found 1"},
        {"{\"ps\": [null]}", "ps:0: expected an address"},
        {"{\"ps\": [\"a:1\", \"\"]}", "ps:1: expected an address"},
        {"{\"ps\": [\"a\"]}", "found \"a\""},
        {"{\"ps\": [\":1\"]}", "found \":1\""},
        {"{\"ps\": [\"a:\"]}", "found \"a:\""},
        {"{\"ps\": [\"a:0\"]}", "found \"a:0\""},
        {"{\"ps\": [\"a:65536\"]}", "found \"a:65536\""},
        {"{\"ps\": [\"a:-1\"]}", "found \"a:-1\""},
        {"{\"ps\": [\"a: 1\"]}", "found \"a: 1\""},
        {"{\"ps\": [\"a b:1\"]}", "found \"a b:1\""},
        {"{\"ps\": [\"::1:22\"]}", "found \"::1:22\""},
        {"{\"ps\": [\"[]:22\"]}", "found \"[]:22\""},
        {"{\"ps\": [\"[::1:22\"]}", "found \"[::1:22\""},
        {"{\"ps\": [\"grpc://a:1\"]}", "found \"grpc://a:1\""},
        {"{\"ps\": [\"a:1\\u0000\"]}", "ps:0: expected an address"},
        {"{\"ps\": [\"a:1\"], \"worker\": [\"b:1\", \"a:1\"]}", "found a:1 for both ps:0 and worker:1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tfos__cluster_spec spec = {.job_count = 77};
        tfos_error error = {0};
        assert_int_equal(parse(&spec, bad[i].text, &error), TFOS_INVALID);
        helper_expect_in(error.message, bad[i].message);
        assert_int_equal(spec.job_count, 77);
    }
}

static void append(tfos__buffer *to, const char *text)
{
    assert_int_equal(tfos__buffer_append(to, text, strlen(text), NULL), TFOS_OK);
}

static void test_limits(void **state)
{
    (void)state;
    tfos__cluster_spec spec;
    tfos_error error = {0};
    tfos__buffer text = {0};
    for (int most = TFOS__CLUSTER_SPEC_MAX_TASKS; most <= TFOS__CLUSTER_SPEC_MAX_TASKS + 1; most++) {
        text.size = 0;
        append(&text, "{\"ps\": [");
        for (int i = 0; i < most; i++) {
            assert_int_equal(tfos__buffer_printf(&text, NULL, "%s\"h%d:1\"", i > 0 ? "," : "", i), TFOS_OK);
        }
        append(&text, "]}");
        tfos_status status = tfos__cluster_spec_init(&spec, (const char *)text.data, text.size, &error);
        assert_int_equal(status, most == TFOS__CLUSTER_SPEC_MAX_TASKS ? TFOS_OK : TFOS_LIMIT);
        if (status == TFOS_OK) {
            tfos__cluster_spec_reset(&spec);
        }
    }
    helper_expect_in(error.message, "at most 64 jobs and 65536 tasks");
    text.size = 0;
    append(&text, "{");
    for (int i = 0; i <= TFOS__CLUSTER_SPEC_MAX_JOBS; i++) {
        assert_int_equal(tfos__buffer_printf(&text, NULL, "%s\"j%d\": [\"h%d:1\"]", i > 0 ? "," : "", i, i), TFOS_OK);
    }
    append(&text, "}");
    assert_int_equal(tfos__cluster_spec_init(&spec, (const char *)text.data, text.size, &error), TFOS_LIMIT);
    assert_int_equal(tfos__buffer_reserve(&text, TFOS__CLUSTER_SPEC_MAX_BYTES + 1, NULL), TFOS_OK);
    memset(text.data, ' ', TFOS__CLUSTER_SPEC_MAX_BYTES + 1);
    assert_int_equal(tfos__cluster_spec_init(&spec, (const char *)text.data, TFOS__CLUSTER_SPEC_MAX_BYTES + 1, &error),
                     TFOS_LIMIT);
    helper_expect_in(error.message, "of JSON, found 16777217");
    memset(text.data, '[', 100);
    assert_int_equal(tfos__cluster_spec_init(&spec, (const char *)text.data, 100, &error), TFOS_INVALID);
    tfos__buffer_reset(&text);
}

static void test_config(void **state)
{
    (void)state;
    tfos__cluster_config config;
    const char *text =
        "{\"cluster\": " SPEC ", \"task\": {\"type\": \"worker\", \"index\": 1}, \"rpc_layer\": \"grpc\"}";
    assert_int_equal(tfos__cluster_config_init(&config, text, strlen(text), NULL), TFOS_OK);
    assert_int_equal(config.cluster.task_count, 3);
    assert_string_equal(config.job, "worker");
    assert_int_equal(config.task, 1);
    tfos__cluster_spec_reset(&config.cluster);
    text = "{\"task\": {\"index\": \"12\"}}";
    assert_int_equal(tfos__cluster_config_init(&config, text, strlen(text), NULL), TFOS_OK);
    assert_int_equal(config.cluster.job_count, 0);
    assert_string_equal(config.job, "");
    assert_int_equal(config.task, 12);
    static const struct {
        const char *text;
        const char *message;
    } bad[] = {
        {"{", "it ends before its closing bracket"},
        {"{\"cluster\": []}", "cluster: expected an object"},
        {"{\"cluster\": {\"ps\": [\"a\"]}}", "cluster: ps:0: expected an address"},
        {"{\"cluster\": " SPEC ", \"task\": []}", "task: expected an object"},
        {"{\"cluster\": " SPEC ", \"task\": {\"type\": 7}}", "task: expected the name of a job as \"type\", found 7"},
        {"{\"task\": {\"index\": -1}}", "task: expected an index, 0 or more, found -1"},
        {"{\"task\": {\"index\": 1.5}}", "found 1.5"},
        {"{\"task\": {\"index\": \"one\"}}", "found \"one\""},
        {"{\"task\": {\"index\": \"99999999999999999999\"}}", "task: expected an index"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tfos_error error = {0};
        assert_int_equal(tfos__cluster_config_init(&config, bad[i].text, strlen(bad[i].text), &error), TFOS_INVALID);
        helper_expect_in(error.message, bad[i].message);
    }
}

/* The message as Python's protobuf writes it; tests/python/test_ps.py holds these vectors against TensorFlow. */
static void test_message(void **state)
{
    (void)state;
    char path[512];
    assert_non_null(getenv("TFOS_TEST_VECTORS"));
    snprintf(path, sizeof path, "%s/tensorflow/server_def.json", getenv("TFOS_TEST_VECTORS"));
    json_object *vectors = json_object_from_file(path);
    assert_non_null(vectors);
    assert_true(json_object_array_length(vectors) >= 5);
    for (size_t i = 0; i < json_object_array_length(vectors); i++) {
        json_object *vector = json_object_array_get_idx(vectors, i);
        const char *cluster = json_object_to_json_string(json_object_object_get(vector, "cluster"));
        const char *job = json_object_get_string(json_object_object_get(vector, "job"));
        const char *expected = json_object_get_string(json_object_object_get(vector, "message"));
        tfos__cluster_spec spec;
        tfos__buffer message = {0};
        tfos__buffer wanted = {0};
        assert_int_equal(parse(&spec, cluster, NULL), TFOS_OK);
        append(&message, "before");
        assert_int_equal(tfos__server_encode(&spec, job, json_object_get_int64(json_object_object_get(vector, "task")),
                                             json_object_get_int(json_object_object_get(vector, "inter_op_threads")),
                                             &message, NULL),
                         TFOS_OK);
        assert_memory_equal(message.data, "before", 6);
        assert_int_equal(tfos__base64_decode(expected, strlen(expected), &wanted, NULL), TFOS_OK);
        assert_int_equal(message.size, wanted.size + 6);
        assert_memory_equal(message.data + 6, wanted.data, wanted.size);
        tfos__buffer_reset(&wanted);
        tfos__buffer_reset(&message);
        tfos__cluster_spec_reset(&spec);
    }
    json_object_put(vectors);
}

static void test_message_of_nobody(void **state)
{
    (void)state;
    tfos__cluster_spec spec;
    tfos__buffer message = {0};
    assert_int_equal(parse(&spec, SPEC, NULL), TFOS_OK);
    assert_int_equal(tfos__server_encode(&spec, "ps", 1, 0, &message, NULL), TFOS_INVALID);
    assert_int_equal(tfos__server_encode(&spec, "chief", 0, 0, &message, NULL), TFOS_INVALID);
    assert_int_equal(message.size, 0);
    tfos__cluster_spec_reset(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec),
        cmocka_unit_test(test_good_addresses),
        cmocka_unit_test(test_bad_specs),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_message),
        cmocka_unit_test(test_message_of_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
