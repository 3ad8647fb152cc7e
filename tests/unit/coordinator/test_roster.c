/* The roster, played without sockets or clocks: who gets which role, which GPUs, who is told what when something
 * happens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coordinator/gpu_share.h"
#include "coordinator/roster.h"
#include "helper_records.h"

/* Everything that the roster said, as text: "node 1: ASSIGN role=worker …\n". */
typedef struct story {
    tfos__roster *roster;
    tfos__buffer said;
    uint64_t now_ms;
} story;

static void write_message(story *s, const tfos__message *message)
{
    static const struct {
        tfos__field field;
        const char *name;
        bool number;
    } shown[] = {
        {TFOS__FIELD_ROLE, "role", false},       {TFOS__FIELD_TASK, "task", true},
        {TFOS__FIELD_GIVEN_GPUS, "gpus", false}, {TFOS__FIELD_SPEC, "spec", false},
        {TFOS__FIELD_NATIVE, "native", true},    {TFOS__FIELD_NODE, "node", false},
        {TFOS__FIELD_STATE, "state", true},      {TFOS__FIELD_OUTCOME, "outcome", true},
        {TFOS__FIELD_TEXT, "text", false},       {TFOS__FIELD_TAIL, "tail", false},
        {TFOS__FIELD_GRACE_MS, "grace", true},   {TFOS__FIELD_NODES_HERE, "count", true},
        {TFOS__FIELD_JSON, "text", false},
    };
    tfos__buffer_printf(&s->said, NULL, "%s", tfos__message_name(message->type));
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        if (!tfos__message_has(message, shown[i].field)) {
            continue;
        }
        if (shown[i].number) {
            tfos__buffer_printf(&s->said, NULL, " %s=%llu", shown[i].name,
                                (unsigned long long)tfos__message_number(message, shown[i].field));
        } else {
            tfos__text text = tfos__message_text(message, shown[i].field);
            tfos__buffer_printf(&s->said, NULL, " %s='%.*s'", shown[i].name, (int)text.count, text.at);
        }
    }
    tfos__buffer_append(&s->said, "\n", 1, NULL);
}

static void to_node(void *context, uint32_t index, const tfos__message *message)
{
    story *s = context;
    tfos__buffer_printf(&s->said, NULL, "node %u: ", index);
    write_message(s, message);
}

static void to_driver(void *context, const tfos__message *message)
{
    story *s = context;
    tfos__buffer_printf(&s->said, NULL, "driver: ");
    write_message(s, message);
}

static void begin_with(story *s, tfos__roles roles, uint32_t flags, int64_t gpus, uint64_t all_gpus)
{
    const tfos__roster_calls calls = {.to_node = to_node, .to_driver = to_driver, .context = s};
    const tfos__roster_options options = {.roles = roles,
                                          .flags = flags,
                                          .worker_gpus = gpus,
                                          .all_gpus = all_gpus,
                                          .timeout_ms = 60000,
                                          .beat_ms = 1000,
                                          .lease_ms = 30000,
                                          .stop_ms = 15000,
                                          .name = "test"};
    memset(s, 0, sizeof *s);
    s->now_ms = 1000000;
    assert_int_equal(tfos__roster_new(&options, &calls, s->now_ms, &s->roster, NULL), TFOS_OK);
}

static void begin(story *s, tfos__roles roles, uint32_t flags, int64_t gpus)
{
    begin_with(s, roles, flags, gpus, 0);
}

static void end(story *s)
{
    tfos__roster_free(s->roster);
    tfos__buffer_reset(&s->said);
}

/* What was said since the last call. */
static const char *said(story *s)
{
    tfos__buffer_append(&s->said, "", 1, NULL);
    s->said.size = 0;
    return (const char *)s->said.data;
}

static tfos_status come_with(story *s, uint32_t index, const char *host, uint64_t pid, const char *gpus,
                             const char *source, tfos_error *error)
{
    tfos__message message;
    uint32_t at = 99;
    tfos__message_init(&message, TFOS__MESSAGE_REGISTER);
    tfos__message_put_number(&message, TFOS__FIELD_INDEX, index);
    tfos__message_put_string(&message, TFOS__FIELD_HOST, host);
    tfos__message_put_number(&message, TFOS__FIELD_PORT, 2000 + index);
    tfos__message_put_number(&message, TFOS__FIELD_NODE_PID, pid);
    tfos__message_put_string(&message, TFOS__FIELD_EXECUTOR, "0");
    tfos__message_put_string(&message, TFOS__FIELD_GPUS, gpus);
    tfos__message_put_string(&message, TFOS__FIELD_GPU_SOURCE, source);
    tfos_status status = tfos__roster_register(s->roster, &message, s->now_ms, &at, error);
    if (status == TFOS_OK) {
        assert_int_equal(at, index);
        tfos__roster_welcome(s->roster, index, s->now_ms);
    }
    return status;
}

static void come(story *s, uint32_t index)
{
    tfos_error error;
    assert_int_equal(come_with(s, index, "h", 100 + index, "", "", &error), TFOS_OK);
}

static void hear_end(story *s, uint32_t index, tfos__outcome outcome, const char *text)
{
    tfos__message message;
    tfos__message_init(&message, TFOS__MESSAGE_ENDED);
    tfos__message_put_number(&message, TFOS__FIELD_OUTCOME, outcome);
    tfos__message_put_string(&message, TFOS__FIELD_TEXT, text);
    tfos__roster_hear(s->roster, index, &message, s->now_ms);
}

static void hear(story *s, uint32_t index, tfos__message_type type)
{
    tfos__message message;
    tfos__message_init(&message, type);
    tfos__roster_hear(s->roster, index, &message, s->now_ms);
}

static void obey(story *s, tfos__message_type type, uint64_t grace_ms)
{
    tfos__message message;
    tfos__message_init(&message, type);
    tfos__message_put_number(&message, TFOS__FIELD_GRACE_MS, grace_ms);
    tfos__roster_obey(s->roster, &message, s->now_ms);
}

static void pass(story *s, uint64_t ms)
{
    s->now_ms += ms;
    tfos__roster_tick(s->roster, s->now_ms);
}

static void test_roles(void **state)
{
    (void)state;
    static const char *const expected[] = {"ps:0", "ps:1", "chief:0", "evaluator:0", "worker:0", "worker:1"};
    tfos__roles roles = {.nodes = 6, .ps = 2, .master = "chief", .evaluators = 1};
    assert_int_equal(tfos__roles_check(&roles, NULL), TFOS_OK);
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t task;
        char name[64];
        const char *role = tfos__roles_at(&roles, i, &task);
        tfos__node_name(role, task, name);
        assert_string_equal(name, expected[i]);
        assert_int_equal(tfos__roles_is_worker(&roles, i), i == 2 || i >= 4);
    }
}

static void test_impossible_roles(void **state)
{
    (void)state;
    static const struct {
        tfos__roles roles;
        const char *text;
    } cases[] = {
        {{.nodes = 0}, "from 1 to 65536 nodes; 0 were asked for"},
        {{.nodes = 2, .ps = 2}, "at least one worker or master besides its 2 ps"},
        {{.nodes = 2, .ps = 2, .master = "chief"}, "do not fit into 2 nodes"},
        {{.nodes = 1, .ps = UINT32_MAX}, "do not fit into 1 nodes"},
        {{.nodes = 2, .master = "boss"}, "can be called 'chief' or 'master', not 'boss'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tfos_error error;
        assert_int_equal(tfos__roles_check(&cases[i].roles, &error), TFOS_INVALID);
        helper_expect_in(error.message, cases[i].text);
    }
}

static void test_all_come_and_finish(void **state)
{
    (void)state;
    story s;
    begin(&s, (tfos__roles){.nodes = 3, .ps = 1, .master = "chief"}, TFOS__FLAG_BARRIER, -1);
    come(&s, 2);
    helper_expect_in(said(&s), "text='1 of 3 nodes registered, waiting for executor slots'");
    come(&s, 0);
    const char *text = said(&s);
    assert_null(strstr(text, "ASSIGN")); /* nobody starts before all have come */
    come(&s, 1);
    text = said(&s);
    helper_expect_in(text, "node 0: ASSIGN role='ps' task=0");
    helper_expect_in(text, "node 1: ASSIGN role='chief' task=0");
    helper_expect_in(text, "node 2: ASSIGN role='worker' task=0");
    helper_expect_in(text, "{\"ps\":[\"h:2000\"],\"chief\":[\"h:2001\"],\"worker\":[\"h:2002\"]}");
    helper_expect_in(text, "driver: READY");
    obey(&s, TFOS__MESSAGE_FINISH, 500);
    hear_end(&s, 1, TFOS__OUTCOME_FINISHED, "");
    pass(&s, 1000);
    assert_null(strstr(said(&s), "STOP")); /* a worker is still at it */
    hear_end(&s, 2, TFOS__OUTCOME_FINISHED, "");
    pass(&s, 100);
    text = said(&s);
    helper_expect_in(text, "node 2: BYE");
    assert_null(strstr(text, "STOP")); /* the grace */
    pass(&s, 500);
    helper_expect_in(said(&s), "node 0: STOP text='the workers have finished'");
    hear_end(&s, 0, TFOS__OUTCOME_STOPPED, "");
    text = said(&s);
    helper_expect_in(text, "driver: OVER");
    assert_null(strstr(text, "FAILED"));
    assert_int_equal(tfos__roster_phase(s.roster), TFOS__PHASE_OVER);
    end(&s);
}

static void test_the_first_failure_is_the_failure(void **state)
{
    (void)state;
    story s;
    begin(&s, (tfos__roles){.nodes = 3}, TFOS__FLAG_BARRIER, -1);
    come(&s, 0);
    come(&s, 1);
    come(&s, 2);
    said(&s);
    hear_end(&s, 1, TFOS__OUTCOME_RAISED, "ValueError: no");
    const char *text = said(&s);
    helper_expect_in(text, "driver: FAILED node='worker:1' outcome=1 text='ValueError: no'");
    helper_expect_in(text, "node 0: STOP text='worker:1 raised an exception' grace=0");
    helper_expect_in(text, "node 2: STOP");
    hear_end(&s, 0, TFOS__OUTCOME_KILLED, "by our SIGTERM");
    hear_end(&s, 2, TFOS__OUTCOME_RAISED, "ConnectionError: peer went away");
    text = said(&s);
    assert_null(strstr(text, "FAILED"));
    helper_expect_in(text, "driver: OVER");
    assert_string_equal(tfos__roster_failure(s.roster), "worker:1 on h raised an exception: ValueError: no");
    end(&s);
}

static void test_a_node_that_disappears(void **state)
{
    (void)state;
    story s;
    begin(&s, (tfos__roles){.nodes = 2}, TFOS__FLAG_BARRIER, -1);
    come(&s, 0);
    come(&s, 1);
    said(&s);
    tfos__roster_disconnect(s.roster, 1, s.now_ms);
    pass(&s, 1000);
    assert_null(strstr(said(&s), "FAILED")); /* it may come back */
    come(&s, 1);
    helper_expect_in(said(&s), "node 1: ASSIGN"); /* which it may have missed */
    pass(&s, 5000);
    assert_null(strstr(said(&s), "FAILED"));
    tfos__roster_disconnect(s.roster, 1, s.now_ms);
    pass(&s, TFOS__RECONNECT_MS + 1);
    const char *text = said(&s);
    helper_expect_in(text, "driver: FAILED node='worker:1' outcome=7");
    helper_expect_in(text, "pid 101");
    helper_expect_in(text, "node 0: STOP");
    tfos__roster_disconnect(s.roster, 0, s.now_ms);
    come(&s, 0); /* its program may be saving what it has: it is let in again, and told again */
    text = said(&s);
    helper_expect_in(text, "node 0: STOP");
    assert_null(strstr(text, "OVER"));
    tfos__roster_disconnect(s.roster, 0, s.now_ms);
    pass(&s, TFOS__RECONNECT_MS + 1);
    helper_expect_in(said(&s), "driver: OVER");
    end(&s);
}

static void test_a_node_that_is_silent(void **state)
{
    (void)state;
    story s;
    begin(&s, (tfos__roles){.nodes = 2}, TFOS__FLAG_BARRIER, -1);
    come(&s, 0);
    come(&s, 1);
    for (int i = 0; i < 40; i++) {
        pass(&s, 1000);
        if (tfos__roster_phase(s.roster) == TFOS__PHASE_RUNNING) {
            hear(&s, 0, TFOS__MESSAGE_BEAT);
        }
    }
    const char *text = said(&s);
    helper_expect_in(text, "node 0: ALIVE");
    helper_expect_in(text, "driver: FAILED node='worker:1' outcome=8 text='nothing was heard of it for 31 s");
    end(&s);
}

static void test_a_coordinator_that_slept_blames_nobody(void **state)
{
    (void)state;
    story s;
    begin(&s, (tfos__roles){.nodes = 1}, TFOS__FLAG_BARRIER, -1);
    come(&s, 0);
    tfos__roster_forgive(s.roster, 100000);
    pass(&s, 100000);
    assert_null(strstr(said(&s), "FAILED"));
    pass(&s, 31000);
    helper_expect_in(said(&s), "FAILED");
    end(&s);
}

/* Who holds the slots is told at once, and with the failure; not a moment longer than it is so. */
static void test_slots_that_others_hold(void **state)
{
    (void)state;
    story s;
    tfos__message slots;
    begin(&s, (tfos__roles){.nodes = 2}, TFOS__FLAG_BARRIER, -1);
    tfos__message_init(&slots, TFOS__MESSAGE_SLOTS);
    tfos__message_put_number(&slots, TFOS__FIELD_SLOTS, 2);
    tfos__roster_obey(s.roster, &slots, s.now_ms);
    assert_null(strstr(said(&s), "PROGRESS"));
    tfos__message_put_string(&slots, TFOS__FIELD_HOLDERS, "status page here:1, 2 nodes, InputMode.TENSORFLOW");
    tfos__roster_obey(s.roster, &slots, s.now_ms);
    tfos__roster_obey(s.roster, &slots, s.now_ms);
    const char *text = said(&s);
    const char *line =
        strstr(text, "text='0 of 2 nodes registered, waiting for executor slots; another cluster of this "
                     "application holds some (status page here:1, 2 nodes, InputMode.TENSORFLOW): shut it "
                     "down first'");
    assert_non_null(line);
    assert_null(strstr(line + 1, "text="));
    pass(&s, 60000);
    helper_expect_in(said(&s), " Another cluster of this application holds some (status page here:1, 2 nodes, "
                               "InputMode.TENSORFLOW): shut it down first.");
    end(&s);
    begin(&s, (tfos__roles){.nodes = 2}, TFOS__FLAG_BARRIER, -1);
    tfos__roster_obey(s.roster, &slots, s.now_ms);
    tfos__message_init(&slots, TFOS__MESSAGE_SLOTS);
    tfos__message_put_number(&slots, TFOS__FIELD_SLOTS, 2);
    tfos__roster_obey(s.roster, &slots, s.now_ms);
    pass(&s, 60000);
    helper_expect_in(said(&s), "FAILED");
    assert_null(strstr(said(&s), " Another cluster"));
    end(&s);
}

static void test_nodes_that_do_not_come(void **state)
{
    (void)state;
    story s;
    begin(&s, (tfos__roles){.nodes = 4}, TFOS__FLAG_BARRIER, -1);
    tfos__message slots;
    tfos__message_init(&slots, TFOS__MESSAGE_SLOTS);
    tfos__message_put_number(&slots, TFOS__FIELD_SLOTS, 3);
    tfos__roster_obey(s.roster, &slots, s.now_ms);
    come(&s, 0);
    for (int i = 0; i < 59; i++) {
        pass(&s, 1000);
        hear(&s, 0, TFOS__MESSAGE_BEAT);
    }
    const char *text = said(&s);
    helper_expect_in(text,
                     "1 of 4 nodes registered, waiting for executor slots (Spark has 3 of the 4 that are needed)");
    assert_null(strstr(text, "FAILED"));
    pass(&s, 1000);
    helper_expect_in(said(&s), "1 of 4 nodes came within 60 s (reservation_timeout).");
    tfos_error error;
    assert_int_equal(come_with(&s, 1, "h", 5, "", "", &error), TFOS_CANCELLED);
    helper_expect_in(error.message, "the cluster has been stopped");
    end(&s);
}

static void test_an_executor_lost_before_the_start_may_come_again(void **state)
{
    (void)state;
    story s;
    begin(&s, (tfos__roles){.nodes = 2}, TFOS__FLAG_BARRIER, -1);
    come(&s, 0);
    tfos__message before;
    tfos__message_init(&before, TFOS__MESSAGE_LOG);
    tfos__message_put_number(&before, TFOS__FIELD_SEQUENCE, 5);
    tfos__roster_hear(s.roster, 0, &before, s.now_ms);
    hear_end(&s, 0, TFOS__OUTCOME_EXECUTOR_LOST, "");
    const char *text = said(&s);
    assert_null(strstr(text, "FAILED"));
    helper_expect_in(text, "0 of 2 nodes registered");
    tfos_error error;
    assert_true(tfos__roster_is_vacant(s.roster, 0));
    assert_int_equal(come_with(&s, 0, "elsewhere", 7, "", "", &error), TFOS_OK);
    come(&s, 1);
    helper_expect_in(said(&s), "elsewhere:2000");
    tfos__message log; /* the numbers of its messages begin anew */
    tfos__message_init(&log, TFOS__MESSAGE_LOG);
    tfos__message_put_string(&log, TFOS__FIELD_TEXT, "first line");
    tfos__message_put_number(&log, TFOS__FIELD_SEQUENCE, 1);
    tfos__roster_hear(s.roster, 0, &log, s.now_ms);
    helper_expect_in(said(&s), "first line");
    end(&s);
}

static void test_a_second_node_of_an_index_is_a_spare(void **state)
{
    (void)state;
    story s;
    tfos_error error;
    begin(&s, (tfos__roles){.nodes = 2}, TFOS__FLAG_BARRIER, -1);
    come(&s, 0);
    assert_int_equal(come_with(&s, 0, "other", 9, "", "", &error), TFOS_EXISTS);
    assert_int_equal(tfos__roster_registered(s.roster), 1);
    assert_int_equal(come_with(&s, 2, "h", 9, "", "", &error), TFOS_INVALID);
    helper_expect_in(error.message, "there is no node 2");
    end(&s);
}

static void test_independent_nodes_start_as_they_come(void **state)
{
    (void)state;
    story s;
    begin(&s, (tfos__roles){.nodes = 2}, TFOS__FLAG_PARALLEL, -1);
    come(&s, 1);
    helper_expect_in(said(&s), "node 1: ASSIGN role='worker' task=1 gpus='' spec='{}'");
    hear_end(&s, 1, TFOS__OUTCOME_FINISHED, "");
    pass(&s, 100000); /* the second waits for the slot of the first, for as long as that takes */
    assert_null(strstr(said(&s), "FAILED"));
    come(&s, 0);
    helper_expect_in(said(&s), "node 0: ASSIGN");
    hear_end(&s, 0, TFOS__OUTCOME_FINISHED, "");
    helper_expect_in(said(&s), "driver: OVER");
    end(&s);
}

static void test_native_servers(void **state)
{
    (void)state;
    story s;
    begin(&s, (tfos__roles){.nodes = 3, .ps = 1, .master = "chief"},
          TFOS__FLAG_BARRIER | TFOS__FLAG_NATIVE_PS | TFOS__FLAG_NATIVE_WORKERS, -1);
    come(&s, 0);
    come(&s, 1);
    come(&s, 2);
    const char *text = said(&s);
    helper_expect_in(text, "node 1: ASSIGN role='chief' task=0");
    assert_non_null(strstr(strstr(text, "role='ps'"), "native=1"));
    assert_non_null(strstr(strstr(text, "role='worker'"), "native=1"));
    obey(&s, TFOS__MESSAGE_FINISH, 0);
    hear_end(&s, 1, TFOS__OUTCOME_FINISHED, ""); /* servers never end: the chief alone is waited for */
    text = said(&s);
    helper_expect_in(text, "node 0: STOP");
    helper_expect_in(text, "node 2: STOP");
    end(&s);
}

static void test_gpus_of_a_host_are_shared_out(void **state)
{
    (void)state;
    story s;
    tfos_error error;
    begin(&s, (tfos__roles){.nodes = 4, .ps = 1}, TFOS__FLAG_BARRIER, 2);
    assert_int_equal(come_with(&s, 0, "a", 1, "0,1,2,3", "nvidia-smi", &error), TFOS_OK);
    assert_int_equal(come_with(&s, 1, "a", 2, "0,1,2,3", "nvidia-smi", &error), TFOS_OK);
    assert_int_equal(come_with(&s, 2, "a", 3, "0,1,2,3", "nvidia-smi", &error), TFOS_OK);
    assert_int_equal(come_with(&s, 3, "b", 4, "0,1", "nvidia-smi", &error), TFOS_OK);
    const char *text = said(&s);
    helper_expect_in(text, "node 0: ASSIGN role='ps' task=0 gpus=''");
    helper_expect_in(text, "node 1: ASSIGN role='worker' task=0 gpus='0,1'");
    helper_expect_in(text, "node 2: ASSIGN role='worker' task=1 gpus='2,3'");
    helper_expect_in(text, "node 3: ASSIGN role='worker' task=2 gpus='0,1'");
    end(&s);
}

static void test_too_few_gpus(void **state)
{
    (void)state;
    story s;
    tfos_error error;
    begin(&s, (tfos__roles){.nodes = 2}, TFOS__FLAG_BARRIER, 1);
    assert_int_equal(come_with(&s, 0, "a", 1, "0", "nvidia-smi", &error), TFOS_OK);
    assert_int_equal(come_with(&s, 1, "a", 2, "0", "nvidia-smi", &error), TFOS_OK);
    const char *text = said(&s);
    helper_expect_in(text, "driver: FAILED node='worker:1' outcome=11");
    helper_expect_in(text,
                     "num_gpus asks for 1 GPUs for each worker, but host a has 0 free for it (1 there, 1 given to");
    assert_null(strstr(text, "ASSIGN"));
    end(&s);
}

/* So many for all: the first workers get one more, and ps none. */
static void test_gpus_for_all_workers(void **state)
{
    (void)state;
    story s;
    tfos_error error;
    begin_with(&s, (tfos__roles){.nodes = 4, .ps = 1}, TFOS__FLAG_BARRIER, -1, 5);
    assert_int_equal(come_with(&s, 0, "a", 1, "", "", &error), TFOS_OK);
    assert_int_equal(come_with(&s, 1, "a", 2, "0,1", "spark", &error), TFOS_OK);
    assert_int_equal(come_with(&s, 2, "b", 3, "4,5,6", "spark", &error), TFOS_OK);
    assert_int_equal(come_with(&s, 3, "b", 4, "7,8", "spark", &error), TFOS_OK);
    const char *text = said(&s);
    helper_expect_in(text, "node 0: ASSIGN role='ps' task=0 gpus=''");
    helper_expect_in(text, "node 1: ASSIGN role='worker' task=0 gpus='0,1'");
    helper_expect_in(text, "node 2: ASSIGN role='worker' task=1 gpus='4,5'");
    helper_expect_in(text, "node 3: ASSIGN role='worker' task=2 gpus='7'");
    end(&s);
    begin_with(&s, (tfos__roles){.nodes = 2}, TFOS__FLAG_BARRIER, -1, 3);
    assert_int_equal(come_with(&s, 0, "a", 1, "0", "spark", &error), TFOS_OK);
    assert_int_equal(come_with(&s, 1, "a", 2, "1", "spark", &error), TFOS_OK);
    helper_expect_in(said(&s),
                     "3 GPUs were asked for in all, of which this worker is to have 2, but there are 1 for it "
                     "on host a. Ask for fewer, or let Spark hand out more of them");
    end(&s);
}

static void test_gpus_that_nobody_asked_for(void **state)
{
    (void)state;
    story s;
    tfos_error error;
    begin(&s, (tfos__roles){.nodes = 3}, TFOS__FLAG_BARRIER, -1);
    assert_int_equal(come_with(&s, 0, "a", 1, "0,1", "nvidia-smi", &error), TFOS_OK);
    assert_int_equal(come_with(&s, 1, "a", 2, "0,1", "nvidia-smi", &error), TFOS_OK);
    assert_int_equal(come_with(&s, 2, "a", 3, "5,6", "spark", &error), TFOS_OK);
    const char *text = said(&s);
    helper_expect_in(text, "task=0 gpus='0'");
    helper_expect_in(text, "task=1 gpus='1'");
    helper_expect_in(text, "task=2 gpus='5,6'"); /* all that Spark gave to the task */
    end(&s);
}

static void test_words_of_lists(void **state)
{
    (void)state;
    tfos__buffer taken = {0};
    tfos__buffer out = {0};
    assert_int_equal(tfos__words_count(""), 0);
    assert_int_equal(tfos__words_count(" , ,"), 0);
    assert_int_equal(tfos__words_count("GPU-1, GPU-2 ,3"), 3);
    assert_int_equal(tfos__words_take("0, 1 ,10", 2, &taken, &out), 2);
    assert_string_equal((const char *)out.data, "0,1");
    out.size = 0;
    assert_int_equal(tfos__words_take("1,10,0", 2, &taken, &out), 1);
    assert_string_equal((const char *)out.data, "10");
    tfos__buffer_reset(&taken);
    tfos__buffer_reset(&out);
}

static void test_logs_are_passed_on_once_and_their_end_is_kept(void **state)
{
    (void)state;
    story s;
    begin(&s, (tfos__roles){.nodes = 1}, TFOS__FLAG_BARRIER, -1);
    come(&s, 0);
    said(&s);
    char line[1001];
    memset(line, 'x', 999);
    line[999] = '\n';
    line[1000] = '\0';
    for (uint64_t i = 1; i <= 20; i++) {
        tfos__message log;
        tfos__message_init(&log, TFOS__MESSAGE_LOG);
        line[0] = (char)('a' + i);
        tfos__message_put_string(&log, TFOS__FIELD_TEXT, line);
        tfos__message_put_number(&log, TFOS__FIELD_SEQUENCE, i);
        tfos__roster_hear(s.roster, 0, &log, s.now_ms);
        tfos__roster_hear(s.roster, 0, &log, s.now_ms); /* again, after a reconnect */
    }
    tfos__node_view view;
    tfos__roster_view(s.roster, 0, &view);
    assert_int_equal(strlen(view.tail), TFOS__LOG_TAIL_BYTES);
    assert_int_equal(view.tail[strlen(view.tail) - 1000], 'a' + 20);
    const char *text = said(&s);
    size_t lines = 0;
    for (const char *at = strstr(text, "driver: OUTPUT"); at != NULL; at = strstr(at + 1, "driver: OUTPUT")) {
        lines++;
    }
    assert_int_equal(lines, 20);
    hear_end(&s, 0, TFOS__OUTCOME_FINISHED, "");
    helper_expect_in(said(&s), "driver: OVER");
    end(&s);
}

static void test_a_stop_that_nobody_confirms_ends(void **state)
{
    (void)state;
    story s;
    begin(&s, (tfos__roles){.nodes = 2}, TFOS__FLAG_BARRIER, -1);
    come(&s, 0);
    obey(&s, TFOS__MESSAGE_STOP, 0);
    helper_expect_in(said(&s), "node 0: STOP text='the driver said so'");
    pass(&s, 15000);
    assert_int_equal(tfos__roster_phase(s.roster), TFOS__PHASE_STOPPING);
    pass(&s, 1);
    helper_expect_in(said(&s), "driver: OVER");
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_impossible_roles),
        cmocka_unit_test(test_all_come_and_finish),
        cmocka_unit_test(test_the_first_failure_is_the_failure),
        cmocka_unit_test(test_a_node_that_disappears),
        cmocka_unit_test(test_a_node_that_is_silent),
        cmocka_unit_test(test_a_coordinator_that_slept_blames_nobody),
        cmocka_unit_test(test_slots_that_others_hold),
        cmocka_unit_test(test_nodes_that_do_not_come),
        cmocka_unit_test(test_an_executor_lost_before_the_start_may_come_again),
        cmocka_unit_test(test_a_second_node_of_an_index_is_a_spare),
        cmocka_unit_test(test_independent_nodes_start_as_they_come),
        cmocka_unit_test(test_native_servers),
        cmocka_unit_test(test_gpus_of_a_host_are_shared_out),
        cmocka_unit_test(test_too_few_gpus),
        cmocka_unit_test(test_gpus_for_all_workers),
        cmocka_unit_test(test_gpus_that_nobody_asked_for),
        cmocka_unit_test(test_words_of_lists),
        cmocka_unit_test(test_logs_are_passed_on_once_and_their_end_is_kept),
        cmocka_unit_test(test_a_stop_that_nobody_confirms_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
