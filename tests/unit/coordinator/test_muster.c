/* The muster, told stories: who comes when, and what everybody hears. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "coordinator/muster.h"
#include "net/frame.h"

enum { WAIT_MS = 5000, NODES_MOST = 64 };

/* What a node heard last. */
typedef struct heard {
    int met;
    int not_met;
    uint64_t rank;
    uint64_t meeting;
    size_t members;
    char first[64]; /* of them */
    char text[1024];
} heard;

typedef struct scene {
    tfos__roster *roster;
    tfos__muster *muster;
    heard heard[NODES_MOST];
} scene;

static void take_members(heard *one, const tfos__message *message)
{
    tfos__text list = tfos__message_text(message, TFOS__FIELD_MEMBERS);
    size_t used;
    one->members = 0;
    for (size_t at = 0; at < list.count; at += used) {
        tfos__message member;
        assert_int_equal(tfos__frame_take(list.at + at, list.count - at, TFOS__FRAME_BYTES, &member, &used, NULL),
                         TFOS_OK);
        if (one->members++ == 0) {
            tfos__message_copy(&member, TFOS__FIELD_NODE, one->first, sizeof one->first);
        }
    }
}

static void hear(void *context, uint32_t index, const tfos__message *message)
{
    scene *s = context;
    heard *one = &s->heard[index];
    if (message->type == TFOS__MESSAGE_MET) {
        one->met++;
        one->rank = tfos__message_number(message, TFOS__FIELD_RANK);
        take_members(one, message);
    } else if (message->type == TFOS__MESSAGE_NOT_MET) {
        one->not_met++;
        tfos__message_copy(message, TFOS__FIELD_TEXT, one->text, sizeof one->text);
    } else {
        return; /* of the roster */
    }
    one->meeting = tfos__message_number(message, TFOS__FIELD_MEETING);
}

static void ignore(void *context, const tfos__message *message)
{
    (void)context;
    (void)message;
}

static void register_node(scene *s, uint32_t index)
{
    tfos__message message;
    uint32_t found;
    char host[16];
    snprintf(host, sizeof host, "h%u", index);
    tfos__message_init(&message, TFOS__MESSAGE_REGISTER);
    tfos__message_put_number(&message, TFOS__FIELD_INDEX, index);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, host);
    assert_int_equal(tfos__roster_register(s->roster, &message, 0, &found, NULL), TFOS_OK);
    tfos__roster_welcome(s->roster, index, 0);
}

static void open_scene(scene *s, const tfos__roles *roles)
{
    memset(s, 0, sizeof *s);
    const tfos__roster_options options = {.roles = *roles,
                                          .flags = TFOS__FLAG_BARRIER,
                                          .worker_gpus = -1,
                                          .timeout_ms = 60000,
                                          .beat_ms = 1000,
                                          .lease_ms = 1000000};
    const tfos__roster_calls calls = {.to_node = hear, .to_driver = ignore, .context = s};
    const tfos__muster_calls muster_calls = {.to_node = hear, .context = s};
    assert_int_equal(tfos__roster_new(&options, &calls, 0, &s->roster, NULL), TFOS_OK);
    assert_int_equal(tfos__muster_new(s->roster, &muster_calls, &s->muster, NULL), TFOS_OK);
    for (uint32_t i = 0; i < roles->nodes; i++) {
        register_node(s, i);
    }
}

static void close_scene(scene *s)
{
    tfos__muster_free(s->muster);
    tfos__roster_free(s->roster);
}

static void come(scene *s, uint32_t index, uint64_t meeting, uint64_t now_ms)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_MEET);
    tfos__message_put_number(&message, TFOS__FIELD_MEETING, meeting);
    tfos__message_put_number(&message, TFOS__FIELD_WAIT_MS, WAIT_MS);
    tfos__message_put_number(&message, TFOS__FIELD_PORT, 1000 + index);
    tfos__message_put_string(&message, TFOS__FIELD_SHARES, "here");
    tfos__message_put_string(&message, TFOS__FIELD_BOARD_NAME, "board");
    tfos__muster_hear(s->muster, index, &message, now_ms);
}

static void end_node(scene *s, uint32_t index, uint64_t now_ms)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_ENDED);
    tfos__message_put_number(&message, TFOS__FIELD_OUTCOME, TFOS__OUTCOME_FINISHED);
    tfos__message_put_number(&message, TFOS__FIELD_SEQUENCE, 1);
    tfos__roster_hear(s->roster, index, &message, now_ms);
}

/* Two servers, a chief, an evaluator, three workers. */
static const tfos__roles roles = {.nodes = 7, .ps = 2, .master = "chief", .evaluators = 1};

/* The chief is first; nobody is told anything before all have come, and those that do not train do not count. */
static void test_all_come(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, &roles);
    static const uint32_t workers[] = {6, 2, 5, 4};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(s.heard[workers[0]].met, 0);
        come(&s, workers[i], 0, 100 * i);
        tfos__muster_tick(s.muster, 100 * i);
    }
    static const uint64_t ranks[] = {3, 0, 2, 1};
    for (size_t i = 0; i < 4; i++) {
        const heard *one = &s.heard[workers[i]];
        assert_int_equal(one->met, 1);
        assert_int_equal(one->rank, ranks[i]);
        assert_int_equal(one->members, 4);
        assert_string_equal(one->first, "chief:0");
    }
    come(&s, 0, 0, 1000);
    assert_int_equal(s.heard[0].not_met, 1);
    assert_non_null(strstr(s.heard[0].text, "not parameter servers"));
    close_scene(&s);
}

/* Who may have missed the answer asks again; who has parted comes to the next meeting. */
static void test_again(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, &(tfos__roles){.nodes = 2});
    come(&s, 0, 0, 0);
    come(&s, 0, 0, 10); /* its connection broke meanwhile */
    assert_int_equal(s.heard[0].met, 0);
    come(&s, 1, 0, 20);
    come(&s, 1, 0, 30);
    assert_int_equal(s.heard[0].met, 1);
    assert_int_equal(s.heard[1].met, 2);
    come(&s, 1, 1, 40);
    tfos__muster_tick(s.muster, 50);
    assert_int_equal(s.heard[1].met, 2);
    come(&s, 0, 1, 60);
    assert_int_equal(s.heard[0].met, 2);
    assert_int_equal(s.heard[1].met, 3);
    assert_int_equal(s.heard[1].meeting, 1);
    come(&s, 0, 7, 70);
    assert_non_null(strstr(s.heard[0].text, "expected a worker that comes to meeting 2, found one at 7"));
    close_scene(&s);
}

static void test_somebody_does_not_come(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, &roles);
    come(&s, 2, 0, 1000);
    come(&s, 5, 0, 2000);
    tfos__muster_tick(s.muster, 1000 + WAIT_MS);
    assert_int_equal(s.heard[2].not_met, 0);
    tfos__muster_tick(s.muster, 1001 + WAIT_MS);
    assert_int_equal(s.heard[2].not_met, 1);
    assert_int_equal(s.heard[5].not_met, 0);
    assert_non_null(
        strstr(s.heard[2].text, "after 5 s (collective.timeout_ms): worker:0 on h4, worker:2 on h6. Every worker"));
    come(&s, 2, 0, 1002 + WAIT_MS); /* it may try again */
    come(&s, 4, 0, 1003 + WAIT_MS);
    come(&s, 6, 0, 1004 + WAIT_MS);
    assert_int_equal(s.heard[2].met + s.heard[4].met + s.heard[5].met + s.heard[6].met, 4);
    close_scene(&s);
}

/* Nobody waits for one that has ended. */
static void test_somebody_has_ended(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, &(tfos__roles){.nodes = 3});
    come(&s, 0, 0, 0);
    come(&s, 2, 0, 0);
    end_node(&s, 1, 10);
    tfos__muster_tick(s.muster, 20);
    assert_int_equal(s.heard[0].not_met, 1);
    assert_int_equal(s.heard[2].not_met, 1);
    assert_non_null(strstr(s.heard[0].text, "worker:1 on h1 has ended without coming"));
    close_scene(&s);
}

static void test_many_are_missing(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, &(tfos__roles){.nodes = NODES_MOST});
    come(&s, 63, 0, 0);
    tfos__muster_tick(s.muster, WAIT_MS + 1);
    assert_non_null(
        strstr(s.heard[63].text, "worker:0 on h0, worker:1 on h1, worker:2 on h2, worker:3 on h3 and 59 more"));
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_come),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_somebody_does_not_come),
        cmocka_unit_test(test_somebody_has_ended),
        cmocka_unit_test(test_many_are_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
