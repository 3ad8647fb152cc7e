/* The orders of a node, whole, cut and wrong, and the environment that is made of them. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper_records.h"
#include "net/frame.h"
#include "node/environment.h"

static const char key[] = "0123456789abcdef0123456789abcdef";

/* What the driver says, and what the Spark task adds. */
typedef struct order {
    tfos__message ticket;
    tfos__message start;
} order;

static void init_order(order *out)
{
    tfos__message_init(&out->ticket, TFOS__MESSAGE_TICKET);
    tfos__message_put_text(&out->ticket, TFOS__FIELD_KEY, key, TFOS__KEY_BYTES);
    tfos__message_put_string(&out->ticket, TFOS__FIELD_HOST, "driver");
    tfos__message_put_number(&out->ticket, TFOS__FIELD_PORT, 4242);
    tfos__message_put_string(&out->ticket, TFOS__FIELD_CLUSTER, "c1");
    tfos__message_put_number(&out->ticket, TFOS__FIELD_FLAGS, 0);
    tfos__message_put_number(&out->ticket, TFOS__FIELD_ATTEMPT, 0);
    tfos__message_put_number(&out->ticket, TFOS__FIELD_BEAT_MS, 0);
    tfos__message_put_number(&out->ticket, TFOS__FIELD_LEASE_MS, 0);
    tfos__message_put_string(&out->ticket, TFOS__FIELD_CONTEXT, "");
    tfos__message_put_string(&out->ticket, TFOS__FIELD_PAYLOAD, "bytes");
    tfos__message_put_text(&out->ticket, TFOS__FIELD_PROGRAM, "python3\0-m\0x", 12);
    tfos__message_put_string(&out->ticket, TFOS__FIELD_ENVIRONMENT, "C=the driver's");
    tfos__message_init(&out->start, TFOS__MESSAGE_START);
    tfos__message_put_number(&out->start, TFOS__FIELD_INDEX, 0);
    tfos__message_put_string(&out->start, TFOS__FIELD_HOST, "here");
    tfos__message_put_string(&out->start, TFOS__FIELD_EXECUTOR, "0");
    tfos__message_put_number(&out->start, TFOS__FIELD_EXECUTOR_PID, 0);
    tfos__message_put_number(&out->start, TFOS__FIELD_CORES, 4);
    tfos__message_put_string(&out->start, TFOS__FIELD_WORK_FOLDER, "");
    tfos__message_put_text(&out->start, TFOS__FIELD_ENVIRONMENT, "A=1\0B=two words\0OMP_NUM_THREADS=7", 33);
}

static void append_order(const order *it, tfos__buffer *out)
{
    assert_int_equal(tfos__frame_append(&it->ticket, out, NULL), TFOS_OK);
    assert_int_equal(tfos__frame_append(&it->start, out, NULL), TFOS_OK);
}

/* Reads bytes through a pipe, as a node does. */
static tfos_status read_bytes(const void *bytes, size_t count, tfos__orders *out, tfos_error *error)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_true(count <= 65536);
    assert_int_equal(write(ends[1], bytes, count), (ssize_t)count);
    close(ends[1]);
    tfos_status status = tfos__orders_read(ends[0], 5000, out, error);
    close(ends[0]);
    return status;
}

static tfos_status read_order(const order *it, tfos__orders *out, tfos_error *error)
{
    tfos__buffer frames = {0};
    append_order(it, &frames);
    tfos_status status = read_bytes(frames.data, frames.size, out, error);
    tfos__buffer_reset(&frames);
    return status;
}

static void test_whole(void **state)
{
    (void)state;
    order it;
    tfos__orders orders;
    tfos_error error;
    char bytes[16] = "";
    init_order(&it);
    tfos__message_put_text(&it.ticket, TFOS__FIELD_SETTINGS, "node.kill_ms=55\0server.port=9-10\0node.log_files=9", 49);
    assert_int_equal(read_order(&it, &orders, &error), TFOS_OK);
    assert_memory_equal(orders.key, key, TFOS__KEY_BYTES);
    assert_string_equal(orders.host, "driver");
    assert_int_equal(orders.port, 4242);
    assert_string_equal(orders.node_host, "here");
    assert_string_equal(orders.work_folder, ".");
    assert_int_equal(orders.program.count, 3);
    assert_string_equal(orders.program.at[2], "x");
    assert_null(orders.program.at[3]);
    assert_string_equal(tfos__words_variable(&orders.environment, "B"), "two words");
    assert_null(tfos__words_variable(&orders.environment, "C"));
    assert_false(orders.has_gpus);
    assert_int_equal(read(orders.payload, bytes, sizeof bytes), 5);
    assert_string_equal(bytes, "bytes");
    assert_int_equal(write(orders.payload, "more", 4), -1);
    assert_int_equal(ftruncate(orders.payload, 1), -1);
    assert_string_equal(getenv("TFOS_NODE_KILL_MS"), "55");
    assert_string_equal(getenv("TFOS_NODE_LOG_FILES"), "9");
    unsetenv("TFOS_NODE_KILL_MS");
    unsetenv("TFOS_NODE_LOG_FILES");
    tfos__orders_reset(&orders);
    static const uint8_t zeros[TFOS__KEY_BYTES];
    assert_memory_equal(orders.key, zeros, TFOS__KEY_BYTES);
}

static void test_cut_short(void **state)
{
    (void)state;
    order it;
    tfos__buffer frame = {0};
    init_order(&it);
    append_order(&it, &frame);
    for (size_t count = 0; count < frame.size; count++) {
        tfos__orders orders;
        tfos_error error;
        assert_int_equal(read_bytes(frame.data, count, &orders, &error), TFOS_TRUNCATED);
        helper_expect_in(error.message, "the Spark task is gone");
    }
    tfos__buffer_reset(&frame);
}

static void test_nonsense(void **state)
{
    (void)state;
    tfos__orders orders;
    tfos_error error;
    assert_int_equal(read_bytes("\xFF\xFF\xFF\xFF", 4, &orders, &error), TFOS_LIMIT);
    assert_int_equal(read_bytes("\0\0\0\0", 4, &orders, &error), TFOS_CORRUPT);
    helper_expect_in(error.message, "a message does not begin with its type");
    /* Two gigabytes are announced and do not come: no memory is taken for them. */
    assert_int_equal(read_bytes("\xFF\xFF\xFF\x7F"
                                "abc",
                                7, &orders, &error),
                     TFOS_TRUNCATED);
    assert_int_equal(read_bytes("\x03\0\0\0\xFF\xFF\xFF", 7, &orders, &error), TFOS_CORRUPT);
    helper_expect_in(error.message, "the orders on stdin are not understood: ");
    assert_int_equal(read_bytes("GET / HTTP/1.1\r\n\r\n", 18, &orders, &error), TFOS_TRUNCATED);
}

static void expect_invalid(const order *it, const char *text)
{
    tfos__orders orders;
    tfos_error error;
    assert_int_equal(read_order(it, &orders, &error), TFOS_INVALID);
    helper_expect_in(error.message, text);
}

static void test_wrong(void **state)
{
    (void)state;
    order it;
    init_order(&it);
    it.ticket = it.start;
    expect_invalid(&it, "expected the message TICKET, found START");
    init_order(&it);
    it.start = it.ticket;
    expect_invalid(&it, "expected the message START, found TICKET");
    init_order(&it);
    tfos__message_put_text(&it.ticket, TFOS__FIELD_KEY, key, 31);
    expect_invalid(&it, "expected a cluster key of 32 bytes in the orders, found 31");
    init_order(&it);
    tfos__message_put_number(&it.ticket, TFOS__FIELD_PORT, 65536);
    expect_invalid(&it, "the orders have no address of a coordinator");
    init_order(&it);
    tfos__message_put_text(&it.ticket, TFOS__FIELD_PROGRAM, "", 0);
    expect_invalid(&it, "the orders name no program");
    static const struct {
        const char *setting;
        const char *text;
    } settings[] = {
        {"node.kill_ms", "expected a setting as key=value, found 'node.kill_ms'"},
        {"node.kill=1", "there is no setting 'node.kill'; `tfos config` lists them"},
        {"node.kill_ms=x", "the setting node.kill_ms: expected a whole number"},
        {"node.kill_ms=-1", "node.kill_ms must be from 0 to 600000, found -1"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        init_order(&it);
        tfos__message_put_string(&it.ticket, TFOS__FIELD_SETTINGS, settings[i].setting);
        expect_invalid(&it, settings[i].text);
    }
}

static void test_slow(void **state)
{
    (void)state;
    tfos__orders orders;
    tfos_error error;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "\x09\0\0", 3), 3);
    assert_int_equal(tfos__orders_read(ends[0], 50, &orders, &error), TFOS_IO);
    helper_expect_in(error.message, "did not come in time: 3 of 4 bytes");
    close(ends[0]);
    close(ends[1]);
}

/* ---- the environment ---- */

static char spec[] = "{\"ps\": [\"a:1\"], \"worker\": [\"b:2\", \"c:3\"]}";

static void make(const order *it, const tfos__assignment *assignment, tfos__words *out)
{
    static const char *const base[] = {"PATH=/bin", "A=0", "TF_NUM_INTRAOP_THREADS=3", "TF_CONFIG=stale", NULL};
    tfos__orders orders;
    tfos_error error;
    assert_int_equal(read_order(it, &orders, NULL), TFOS_OK);
    if (tfos__environment_make(base, &orders, assignment, 99, "/log", out, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    tfos__orders_reset(&orders);
}

static void test_environment(void **state)
{
    (void)state;
    order it;
    tfos__words words = {0};
    tfos__assignment assignment = {
        .role = "worker", .task = 1, .nodes = 3, .spec = spec, .gpus = "0,2", .has_gpus = true};
    init_order(&it);
    make(&it, &assignment, &words);
    assert_string_equal(tfos__words_variable(&words, "PATH"), "/bin");
    assert_string_equal(tfos__words_variable(&words, "A"), "1");
    assert_string_equal(tfos__words_variable(&words, "TF_CONFIG"),
                        "{\"cluster\":{\"ps\":[\"a:1\"],\"worker\":[\"b:2\",\"c:3\"]},"
                        "\"task\":{\"type\":\"worker\",\"index\":1},\"environment\":\"cloud\"}");
    assert_string_equal(tfos__words_variable(&words, "CUDA_VISIBLE_DEVICES"), "0,2");
    assert_string_equal(tfos__words_variable(&words, "OMP_NUM_THREADS"), "7");
    assert_string_equal(tfos__words_variable(&words, "TF_NUM_INTRAOP_THREADS"), "3");
    assert_string_equal(tfos__words_variable(&words, "TF_NUM_INTEROP_THREADS"), "4");
    assert_string_equal(tfos__words_variable(&words, "TFOS_PAYLOAD_FD"), "3");
    assert_string_equal(tfos__words_variable(&words, "TFOS_REPORT_FD"), "4");
    const char *context = tfos__words_variable(&words, "TFOS_CONTEXT");
    helper_expect_in(context, "\"driver\":{}");
    helper_expect_in(context, "\"gpus\":[\"0\",\"2\"]");
    helper_expect_in(context, "\"host\":\"here\",\"port\":99");
    helper_expect_in(context, "\"cluster\":\"c1\",\"log\":\"/log\"");
    tfos__words_reset(&words);
}

static void test_environment_that_cannot_be(void **state)
{
    (void)state;
    static const char *const base[] = {NULL};
    static char large[140000];
    static const struct {
        tfos__field field;
        const char *text;
        tfos_status status;
        const char *message;
    } cases[] = {
        {TFOS__FIELD_CONTEXT, "[1]", TFOS_INVALID, "expected a JSON object as the driver's context, found '[1]'"},
        {TFOS__FIELD_CONTEXT, "{\"a\": ", TFOS_INVALID, "expected a JSON object as the driver's context"},
        {TFOS__FIELD_SPARK, "nonsense", TFOS_INVALID, "expected a JSON object as the Spark task's context"},
        {TFOS__FIELD_ENVIRONMENT, "NOVALUE", TFOS_INVALID, "expected an environment variable as NAME=value"},
        {TFOS__FIELD_ENVIRONMENT, large, TFOS_LIMIT, "the environment variable BIG of the child has 140000 bytes"},
    };
    memset(large, 'x', sizeof large - 1);
    memcpy(large, "BIG=", 4);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        order it;
        tfos__orders orders;
        tfos_error error;
        tfos__words words = {0};
        tfos__assignment assignment = {.role = "worker", .spec = spec};
        init_order(&it);
        /* A pipe holds less than the largest case: it is put into the orders afterwards. */
        if (cases[i].text != large) {
            tfos__message_put_string(cases[i].field == TFOS__FIELD_CONTEXT ? &it.ticket : &it.start, cases[i].field,
                                     cases[i].text);
        }
        assert_int_equal(read_order(&it, &orders, NULL), TFOS_OK);
        if (cases[i].text == large) {
            assert_int_equal(tfos__words_add(&orders.environment, large, strlen(large), NULL), TFOS_OK);
        }
        assert_int_equal(tfos__environment_make(base, &orders, &assignment, 1, "", &words, &error), cases[i].status);
        helper_expect_in(error.message, cases[i].message);
        tfos__words_reset(&words);
        tfos__orders_reset(&orders);
    }
}

static void test_who_is_chief(void **state)
{
    (void)state;
    static const struct {
        const char *role;
        uint64_t task;
        char spec[64];
        bool chief;
    } cases[] = {
        {"worker", 0, "{\"worker\": []}", true},
        {"worker", 1, "{\"worker\": []}", false},
        {"chief", 0, "{\"chief\": [], \"worker\": []}", true},
        {"worker", 0, "{\"chief\": [], \"worker\": []}", false},
        {"master", 0, "{\"master\": [], \"worker\": []}", true},
        {"worker", 0, "{\"master\": [], \"worker\": []}", false},
        {"ps", 0, "{\"ps\": []}", false},
        {"evaluator", 0, "{}", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char copy[64];
        memcpy(copy, cases[i].spec, sizeof copy);
        tfos__assignment assignment = {.task = cases[i].task, .spec = copy};
        strcpy(assignment.role, cases[i].role);
        assert_int_equal(tfos__assignment_is_chief(&assignment), cases[i].chief);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_slow),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_environment_that_cannot_be),
        cmocka_unit_test(test_who_is_chief),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
