/* Messages: what is put in comes out, what a type does not have is refused, nonsense is refused, limits hold. And
 * frames, whole and cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "helper_nodes.h"
#include "helper_records.h"
#include "net/attempt.h"
#include "net/frame.h"

static void test_round_trip(void **state)
{
    (void)state;
    tfos__message message;
    tfos__message back;
    tfos__buffer bytes = {0};
    tfos_error error;
    helper_registration(&message, 0, "node-7", UINT64_MAX);
    tfos__message_put_text(&message, TFOS__FIELD_GPUS, "a\0b\0", 4);
    tfos__message_put_string(&message, TFOS__FIELD_MACHINE, "");
    assert_int_equal(tfos__message_encode(&message, &bytes, &error), TFOS_OK);
    assert_int_equal(tfos__message_decode(bytes.data, bytes.size, &back, &error), TFOS_OK);
    assert_int_equal(back.type, TFOS__MESSAGE_REGISTER);
    assert_memory_equal(back.present, message.present, sizeof back.present);
    assert_true(tfos__message_has(&back, TFOS__FIELD_INDEX));
    assert_true(tfos__message_number(&back, TFOS__FIELD_PORT) == UINT64_MAX);
    assert_int_equal(tfos__message_text(&back, TFOS__FIELD_HOST).count, 6);
    assert_memory_equal(tfos__message_text(&back, TFOS__FIELD_GPUS).at, "a\0b\0", 4);
    assert_true(tfos__message_has(&back, TFOS__FIELD_MACHINE));
    assert_false(tfos__message_has(&back, TFOS__FIELD_FEED_NAME));
    assert_int_equal(tfos__message_number(&back, TFOS__FIELD_FEED_PORT), 0);
    char small[4];
    assert_string_equal(tfos__message_copy(&back, TFOS__FIELD_HOST, small, sizeof small), "nod");
    char *copy = tfos__message_duplicate(&back, TFOS__FIELD_HOST);
    assert_string_equal(copy, "node-7");
    free(copy);
    tfos__buffer_reset(&bytes);
}

/* Every type with all of its fields, and with each of them missing in turn. */
static void test_every_type(void **state)
{
    (void)state;
    enum { FIELDS_MOST = 40 };
    static const struct {
        tfos__message_type type;
        tfos__field needs[FIELDS_MOST];
        tfos__field may[FIELDS_MOST];
    } types[] = {
#define FIELD(name) TFOS__FIELD_##name,
#define MESSAGE(name, value, way, what, must, can) {TFOS__MESSAGE_##name, {must 0}, {can 0}},
        TFOS__MESSAGE_MAP(MESSAGE, FIELD)
#undef MESSAGE
#undef FIELD
    };
    static const bool is_text[TFOS__FIELD_END] = {
#define FIELD(name, number, most, text) [number] = (most) > 0,
        TFOS__FIELD_MAP(FIELD)
#undef FIELD
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        size_t count = 0;
        while (types[i].needs[count] != 0) {
            count++;
        }
        for (size_t missing = 0; missing <= count; missing++) {
            tfos__message message;
            tfos__message back;
            tfos__buffer bytes = {0};
            tfos_error error;
            tfos__message_init(&message, types[i].type);
            for (size_t j = 0; j < 2 * FIELDS_MOST; j++) {
                tfos__field field = j < FIELDS_MOST ? types[i].needs[j] : types[i].may[j - FIELDS_MOST];
                if (field != 0 && is_text[field] && j != missing) {
                    tfos__message_put_string(&message, field, "x");
                } else if (field != 0 && j != missing) {
                    tfos__message_put_number(&message, field, 7);
                }
            }
            bool whole = missing == count;
            assert_int_equal(tfos__message_encode(&message, &bytes, &error), whole ? TFOS_OK : TFOS_INVALID);
            if (whole) {
                assert_int_equal(tfos__message_decode(bytes.data, bytes.size, &back, &error), TFOS_OK);
                assert_memory_equal(back.present, message.present, sizeof back.present);
            } else {
                helper_expect_in(error.message, "is to be sent without its field");
            }
            tfos__buffer_reset(&bytes);
        }
    }
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
        {"", 0, TFOS_CORRUPT, "does not begin with its type"},
        {"\x08", 1, TFOS_CORRUPT, "does not begin with its type"},
        {"\x0A\x01x", 3, TFOS_CORRUPT, "does not begin with its type"},
        {"\x12\x01x\x08\x01", 5, TFOS_CORRUPT, "does not begin with its type"},
        {"\x08\x63", 2, TFOS_UNSUPPORTED, "unknown type 99"},
        {"\x08\x00", 2, TFOS_UNSUPPORTED, "unknown type 0"},
        {"\x08\x01", 2, TFOS_CORRUPT, "a message HELLO lacks its field VERSION"},
        {"\x08\x01\x12\x01x\x12\x01y", 8, TFOS_CORRUPT, "a message HELLO has its field VERSION twice"},
        {"\x08\x01\x12\x01x\x18\x01", 7, TFOS_CORRUPT, "a message HELLO has no field 3"},
        {"\x08\x01\x12\x01x\xC0\x07\x01", 8, TFOS_CORRUPT, "a message HELLO has no field 120"},
        {"\x08\x01\x12\x05hi", 6, TFOS_CORRUPT, "the field VERSION of a message HELLO is cut short"},
        {"\x08\x01\x10\x05", 4, TFOS_CORRUPT, "the field VERSION of a message HELLO has wire type 0"},
        {"\x08\x03\xB0\x02", 4, TFOS_CORRUPT, "the field STATE of a message STATE is cut short"},
        {"\x08\x05\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 13, TFOS_CORRUPT, "no valid tag at byte"},
        {"\x08\x05\x00", 3, TFOS_CORRUPT, "no valid tag at byte"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tfos__message message;
        tfos_error error = {0};
        assert_int_equal(tfos__message_decode(cases[i].bytes, cases[i].count, &message, &error), cases[i].status);
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
    memcpy(bytes, "\x08\x01\x12\x41", 4); /* VERSION of 65 bytes */
    assert_int_equal(tfos__message_decode(bytes, 4 + 65, &message, &error), TFOS_LIMIT);
    helper_expect_in(error.message, "the field VERSION of a message HELLO has 65 bytes; the most is 64");
}

static void test_attempts(void **state)
{
    (void)state;
    const tfos__attempt attempt = {.feed = 1, .epoch = 2, .partition = 3, .task = UINT64_MAX};
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_FENCE);
    tfos__attempt_put(&attempt, &message);
    tfos__attempt back = tfos__attempt_of(&message);
    assert_true(tfos__attempt_equal(&attempt, &back));
    for (size_t i = 0; i < 4; i++) {
        uint64_t numbers[4] = {1, 2, 3, UINT64_MAX};
        numbers[i]++;
        back = (tfos__attempt){numbers[0], numbers[1], numbers[2], numbers[3]};
        assert_false(tfos__attempt_equal(&attempt, &back));
    }
}

static void test_frames(void **state)
{
    (void)state;
    tfos__buffer frames = {0};
    tfos__message message;
    size_t used;
    tfos_error error;
    tfos__message_init(&message, TFOS__MESSAGE_HELLO);
    tfos__message_put_string(&message, TFOS__FIELD_VERSION, "1.2.3");
    assert_int_equal(tfos__frame_append(&message, &frames, &error), TFOS_OK);
    size_t first = frames.size;
    assert_int_equal(tfos__load_u32(frames.data), first - TFOS__FRAME_LENGTH_BYTES);
    tfos__message_init(&message, TFOS__MESSAGE_ALIVE);
    assert_int_equal(tfos__frame_append(&message, &frames, &error), TFOS_OK);
    for (size_t count = 0; count < first; count++) {
        assert_int_equal(tfos__frame_take(frames.data, count, 100, &message, &used, &error), TFOS_END);
        assert_int_equal(used, 0);
    }
    assert_int_equal(tfos__frame_take(frames.data, frames.size, 100, &message, &used, &error), TFOS_OK);
    assert_int_equal(message.type, TFOS__MESSAGE_HELLO);
    assert_int_equal(used, first);
    assert_int_equal(tfos__frame_take(frames.data + used, frames.size - used, 100, &message, &used, &error), TFOS_OK);
    assert_int_equal(message.type, TFOS__MESSAGE_ALIVE);
    assert_int_equal(tfos__frame_take(frames.data, 4, 8, &message, &used, &error), TFOS_LIMIT);
    helper_expect_in(error.message, "announced a message of 9 bytes; the most is 8");
    /* What is refused is passed over as a whole. */
    frames.data[first + TFOS__FRAME_LENGTH_BYTES + 1] = 99;
    assert_int_equal(tfos__frame_take(frames.data + first, frames.size - first, 100, &message, &used, &error),
                     TFOS_UNSUPPORTED);
    assert_int_equal(used, frames.size - first);
    /* One that cannot be made leaves nothing behind. */
    tfos__message_init(&message, TFOS__MESSAGE_HELLO);
    size_t before = frames.size;
    assert_int_equal(tfos__frame_append(&message, &frames, &error), TFOS_INVALID);
    assert_int_equal(frames.size, before);
    tfos__buffer_reset(&frames);
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
    assert_string_equal(tfos__message_name(TFOS__MESSAGE_HELLO), "HELLO");
    assert_string_equal(tfos__message_name((tfos__message_type)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_nonsense_is_refused),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_attempts),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
