/* Results on their way to the driver: each piece once, in order, and none is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "coordinator/results.h"

enum { NODES = 40 };

typedef struct scene {
    tfos__results *results;
    bool room;
    tfos__buffer told[NODES]; /* the pieces that the driver got */
    int asked[NODES];         /* how often a node was told how far it is … */
    uint64_t offset[NODES];   /* … and what it was told last */
} scene;

static scene s;

static void to_node(void *context, uint32_t index, const tfos__message *message)
{
    (void)context;
    assert_int_equal(message->type, TFOS__MESSAGE_RESULT_SEEN);
    s.asked[index]++;
    s.offset[index] = tfos__message_number(message, TFOS__FIELD_OFFSET);
}

static void to_driver(void *context, const tfos__message *message)
{
    (void)context;
    uint64_t index = tfos__message_number(message, TFOS__FIELD_INDEX);
    tfos__text piece = tfos__message_text(message, TFOS__FIELD_PIECE);
    assert_int_equal(tfos__message_number(message, TFOS__FIELD_OFFSET), s.told[index].size);
    tfos__buffer_append(&s.told[index], piece.at, piece.count, NULL);
}

static bool has_room(void *context)
{
    (void)context;
    return s.room;
}

static int open_scene(void **state)
{
    (void)state;
    const tfos__results_calls calls = {.to_node = to_node, .to_driver = to_driver, .has_room = has_room};
    s = (scene){.room = true};
    return tfos__results_new(NODES, &calls, &s.results, NULL) == TFOS_OK ? 0 : -1;
}

static int close_scene(void **state)
{
    (void)state;
    tfos__results_free(s.results);
    for (int i = 0; i < NODES; i++) {
        tfos__buffer_reset(&s.told[i]);
    }
    return 0;
}

static void hear(uint32_t index, uint64_t offset, const char *piece)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_RESULT);
    tfos__message_put_number(&message, TFOS__FIELD_OFFSET, offset);
    tfos__message_put_number(&message, TFOS__FIELD_HEAD_BYTES, 2);
    tfos__message_put_number(&message, TFOS__FIELD_VALUE_BYTES, 4);
    tfos__message_put_string(&message, TFOS__FIELD_PIECE, piece);
    tfos__results_hear(s.results, index, &message);
}

static void expect(uint32_t index, const char *told, int asked, uint64_t offset)
{
    assert_int_equal(s.told[index].size, strlen(told));
    assert_memory_equal(s.told[index].data, told, strlen(told));
    assert_int_equal(s.asked[index], asked);
    assert_int_equal(s.offset[index], offset);
}

static void test_pieces(void **state)
{
    (void)state;
    hear(1, 0, "{}ab");
    expect(1, "{}ab", 1, 4);
    hear(1, 0, "{}ab"); /* sent again: the answer was lost with a connection */
    expect(1, "{}ab", 2, 4);
    hear(1, 4, "cd");
    expect(1, "{}abcd", 3, 6);
}

static void test_a_driver_that_does_not_read(void **state)
{
    (void)state;
    s.room = false;
    for (uint32_t i = 0; i < NODES; i++) {
        hear(i, 0, "{}abcd");
    }
    tfos__results_tick(s.results);
    for (uint32_t i = 0; i < NODES; i++) {
        assert_int_equal(s.told[i].size + (size_t)s.asked[i], 0);
    }
    s.room = true;
    for (int tick = 0; tick < NODES; tick++) {
        int asked = 0;
        tfos__results_tick(s.results);
        for (uint32_t i = 0; i < NODES; i++) {
            asked += s.asked[i] == 1 && s.told[i].size == 0;
        }
        assert_true(asked <= 8); /* not all of them at the same moment */
        for (uint32_t i = 0; i < NODES; i++) {
            if (s.asked[i] == 1 && s.told[i].size == 0) {
                hear(i, 0, "{}abcd");
            }
        }
    }
    for (uint32_t i = 0; i < NODES; i++) {
        expect(i, "{}abcd", 2, 6);
    }
    tfos__results_tick(s.results);
    expect(0, "{}abcd", 2, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pieces, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(test_a_driver_that_does_not_read, open_scene, close_scene),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
