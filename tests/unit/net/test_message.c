/* Messages of the control plane: what is put in comes out, nonsense is refused, limits hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "helper_records.h"
#include "net/message.h"

static tfos_status decode(const char *bytes, size_t count, tfos__message *out, tfos_error *error)
{
    return tfos__message_decode(bytes, count, out, error);
}

static void test_round_trip(void **state)
{
    (void)state;
    tfos__message message;
    tfos__message back;
    tfos__buffer frame = {0};
    tfos_error error;
    tfos__message_init(&message, TFOS__MESSAGE_REGISTER);
    tfos__message_put_number(&message, TFOS__FIELD_INDEX, 0);
    tfos__message_put_number(&message, TFOS__FIELD_RSS_BYTES, UINT64_MAX);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, "node-7");
    tfos__message_put_text(&message, TFOS__FIELD_PROGRAM, "a\0b\0", 4);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, "");
    assert_int_equal(tfos__message_encode(&message, &frame, &error), TFOS_OK);
    assert_int_equal(tfos__load_u32(frame.data), frame.size - 4);
    assert_int_equal(tfos__message_decode(frame.data + 4, frame.size - 4, &back, &error), TFOS_OK);
    assert_int_equal(back.type, TFOS__MESSAGE_REGISTER);
    assert_memory_equal(back.present, message.present, sizeof back.present);
    assert_true(tfos__message_has(&back, TFOS__FIELD_INDEX));
    assert_true(tfos__message_number(&back, TFOS__FIELD_RSS_BYTES) == UINT64_MAX);
    assert_int_equal(tfos__message_text(&back, TFOS__FIELD_HOST).count, 6);
    assert_memory_equal(tfos__message_text(&back, TFOS__FIELD_PROGRAM).at, "a\0b\0", 4);
    assert_true(tfos__message_has(&back, TFOS__FIELD_TEXT));
    assert_false(tfos__message_has(&back, TFOS__FIELD_URL));
    assert_int_equal(tfos__message_number(&back, TFOS__FIELD_PORT), 0);
    char small[4];
    assert_string_equal(tfos__message_copy(&back, TFOS__FIELD_HOST, small, sizeof small), "nod");
    char *copy = tfos__message_duplicate(&back, TFOS__FIELD_HOST);
    assert_string_equal(copy, "node-7");
    free(copy);
    tfos__buffer_reset(&frame);
}

/* A shell appends fields to a message as bytes: the later value of a field counts. */
static void test_fields_can_be_appended(void **state)
{
    (void)state;
    tfos__message message;
    tfos_error error;
    assert_int_equal(decode("\x08\x14\x18\x01\x18\x02", 6, &message, &error), TFOS_OK);
    assert_int_equal(message.type, TFOS__MESSAGE_START);
    assert_int_equal(tfos__message_number(&message, TFOS__FIELD_INDEX), 2);
}

static void test_unknown_fields_are_passed_over(void **state)
{
    (void)state;
    tfos__message message;
    tfos_error error;
    /* Field 120 as a varint, field 121 as bytes, field 122 as eight bytes. */
    static const char bytes[] = "\xC0\x07\x01\xCA\x07\x02hi\xD1\x07"
                                "12345678\x08\x04";
    assert_int_equal(decode(bytes, sizeof bytes - 1, &message, &error), TFOS_OK);
    assert_int_equal(message.type, TFOS__MESSAGE_BEAT);
}

static void test_nonsense_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        tfos_status status;
        const char *text;
    } cases[] = {
        {"", 0, TFOS_UNSUPPORTED, "unknown type 0"},
        {"\x08\x63", 2, TFOS_UNSUPPORTED, "unknown type 99"},
        {"\x08", 1, TFOS_CORRUPT, "cut short"},
        {"\x0A\x01x", 3, TFOS_CORRUPT, "wire type 2"},
        {"\x08\x04\x2A\x05hi", 6, TFOS_CORRUPT, "HOST of a message is cut short"},
        {"\x08\x04\x28\x05", 4, TFOS_CORRUPT, "wire type 0"},
        {"\x08\x04\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 13, TFOS_CORRUPT, "no valid tag at byte"},
        {"\x08\x04\x00", 3, TFOS_CORRUPT, "no valid tag at byte"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tfos__message message;
        tfos_error error = {0};
        assert_int_equal(decode(cases[i].bytes, cases[i].count, &message, &error), cases[i].status);
        helper_expect_in(error.message, cases[i].text);
    }
}

static void test_limits(void **state)
{
    (void)state;
    char bytes[400];
    tfos__message message;
    tfos_error error;
    memset(bytes, 'x', sizeof bytes);
    memcpy(bytes, "\x08\x02\x2A\x81\x02", 5); /* HOST of 257 bytes */
    assert_int_equal(decode(bytes, 5 + 257, &message, &error), TFOS_LIMIT);
    helper_expect_in(error.message, "the field HOST of a message has 257 bytes; the most is 256");
}

static void test_names(void **state)
{
    (void)state;
    char name[64];
    tfos__node_name("worker", 12, name);
    assert_string_equal(name, "worker:12");
    assert_string_equal(tfos__node_state_text(TFOS__NODE_RUNNING), "running");
    assert_string_equal(tfos__node_state_text((tfos__node_state)99), "unknown");
    assert_string_equal(tfos__outcome_text(TFOS__OUTCOME_MEMORY), "was killed by the memory limit");
    assert_string_equal(tfos__outcome_text((tfos__outcome)99), "failed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_fields_can_be_appended),
        cmocka_unit_test(test_unknown_fields_are_passed_over),
        cmocka_unit_test(test_nonsense_is_refused),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
