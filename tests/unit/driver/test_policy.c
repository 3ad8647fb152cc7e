/* What a driver decides: stories, told to the policy, and what it wants done. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "driver/policy.h"

typedef struct scene {
    tfos__policy *policy;
    uint64_t now;
    tfos__buffer told; /* deeds since they were looked at last, a line each */
} scene;

/* ---- deeds in words ---- */

static void tell_order(scene *s, const tfos__deed *deed)
{
    const tfos_order *order = &deed->order;
    tfos__buffer_printf(&s->told, NULL, "%s", tfos_order_kind_name(order->kind));
    switch (order->kind) {
    case TFOS_ORDER_START_NODES:
        tfos__buffer_printf(&s->told, NULL, " %d+%d", (int)order->index, (int)order->count);
        break;
    case TFOS_ORDER_END_NODES:
        tfos__buffer_printf(&s->told, NULL, " %d", (int)order->patience_ms);
        break;
    case TFOS_ORDER_FEED:
        tfos__buffer_printf(&s->told, NULL, " call=%" PRIu64 " job=%" PRIu64 " source=%d feed=%" PRIu64 "/%" PRIu64,
                            order->call, order->job, (int)order->source, deed->feed, deed->epoch);
        break;
    case TFOS_ORDER_CANCEL:
        tfos__buffer_printf(&s->told, NULL, " call=%" PRIu64 " job=%" PRIu64, order->call, order->job);
        break;
    case TFOS_ORDER_DONE:
        tfos__buffer_printf(&s->told, NULL, " call=%" PRIu64, order->call);
        if (deed->feed != 0) {
            tfos__buffer_printf(&s->told, NULL, " feed=%" PRIu64, deed->feed);
        }
        break;
    default:
        break;
    }
    if (order->kind == TFOS_ORDER_DONE || order->kind == TFOS_ORDER_OVER) {
        tfos__buffer_printf(&s->told, NULL, " %s", tfos_call_outcome_name(order->outcome));
        if (order->outcome == TFOS_CALL_FAILED) {
            tfos__buffer_printf(&s->told, NULL, " %s cause=%" PRIu64, tfos_status_name(order->status), order->cause);
        }
    }
    tfos__buffer_printf(&s->told, NULL, "%s%s\n", order->text[0] != '\0' ? " " : "", order->text);
}

static void tell_deed(scene *s, const tfos__deed *deed)
{
    static const char *const names[] = {"OPEN", "SPAWN",     "SLOTS", "STOP",      "FINISH",     "END_FEEDS",
                                        "ASK",  "OPEN_FEED", "BEGIN", "END_EPOCH", "CLOSE_FEED", "CLOSE"};
    if (deed->kind == TFOS__DEED_ORDER) {
        tell_order(s, deed);
        return;
    }
    tfos__buffer_printf(&s->told, NULL, "%s", names[deed->kind]);
    switch (deed->kind) {
    case TFOS__DEED_OPEN:
    case TFOS__DEED_SPAWN:
    case TFOS__DEED_FINISH:
        tfos__buffer_printf(&s->told, NULL, " %d", (int)deed->number);
        break;
    case TFOS__DEED_OPEN_FEED:
        tfos__buffer_printf(&s->told, NULL, " %" PRIu64 " '%s' partitions=%d", deed->feed, deed->options.queue,
                            (int)deed->options.partitions);
        break;
    case TFOS__DEED_BEGIN_EPOCH:
    case TFOS__DEED_END_EPOCH:
        tfos__buffer_printf(&s->told, NULL, " %" PRIu64 "/%" PRIu64, deed->feed, deed->epoch);
        break;
    case TFOS__DEED_CLOSE_FEED:
        tfos__buffer_printf(&s->told, NULL, " %" PRIu64, deed->feed);
        break;
    case TFOS__DEED_STOP:
        tfos__buffer_printf(&s->told, NULL, " %s", deed->text);
        break;
    default:
        break;
    }
    tfos__buffer_printf(&s->told, NULL, "\n");
}

/* Everything that is wanted now. */
static void expect(scene *s, const char *wanted)
{
    tfos__deed deed;
    tfos_error error;
    while (tfos__policy_take(s->policy, &deed, &error) == TFOS_OK) {
        tell_deed(s, &deed);
        tfos__deed_reset(&deed);
    }
    assert_string_equal(s->told.size > 0 ? (const char *)s->told.data : "", wanted);
    tfos__buffer_reset(&s->told);
}

/* ---- what happens ---- */

static void begin(scene *s, tfos__policy_options options)
{
    tfos_error error;
    *s = (scene){.now = 1000};
    assert_int_equal(tfos__policy_new(&options, s->now, &s->policy, &error), TFOS_OK);
}

static void end(scene *s)
{
    expect(s, "");
    assert_true(tfos__policy_is_idle(s->policy));
    tfos__policy_free(s->policy);
}

static void pass(scene *s, uint64_t ms)
{
    s->now += ms;
    tfos__policy_tick(s->policy, s->now);
}

static void see(scene *s, tfos_spark_view view)
{
    tfos__policy_see_spark(s->policy, &view, s->now);
}

static void see_spark(scene *s)
{
    see(s, (tfos_spark_view){.slots = 4});
}

static void hear(scene *s, tfos_cluster_event_kind kind, const char *text)
{
    const tfos_cluster_event event = {
        .kind = kind, .index = 1, .node = "worker:1", .host = "h", .state = "", .url = "", .text = text};
    tfos__policy_hear(s->policy, &event, s->now);
}

static void hear_feed(scene *s, uint64_t feed, tfos_feed_state state, int64_t epoch)
{
    const tfos_cluster_event event = {.kind = TFOS_EVENT_FEED,
                                      .count = (int64_t)feed,
                                      .total = epoch,
                                      .feed = state,
                                      .node = "",
                                      .host = "",
                                      .state = "",
                                      .url = "",
                                      .text = ""};
    tfos__policy_hear(s->policy, &event, s->now);
}

static void hear_feed_failed(scene *s, uint64_t feed, tfos_feed_state state, tfos_status status, tfos_fault fault,
                             const char *text)
{
    const tfos_cluster_event event = {.kind = TFOS_EVENT_FEED,
                                      .count = (int64_t)feed,
                                      .feed = state,
                                      .node = "",
                                      .host = "",
                                      .state = "",
                                      .url = "",
                                      .status = status,
                                      .fault = fault,
                                      .text = text};
    tfos__policy_hear(s->policy, &event, s->now);
}

static void report(scene *s, uint64_t job, const char *failure)
{
    tfos__policy_see_job(s->policy, job, failure, s->now);
}

static void opened(scene *s)
{
    tfos__policy_opened(s->policy, "http://h:1/secret", s->now);
}

/* An attempt of the cluster, until its nodes are there. */
static void start(scene *s)
{
    expect(s, "look\n");
    see_spark(s);
    expect(s, "OPEN 0\n");
    opened(s);
    expect(s, "opened http://h:1/secret\nstart_nodes 0+2\n");
    hear(s, TFOS_EVENT_READY, "[]");
    expect(s, "ready []\n");
}

/* The end of an attempt, behind CLOSE, up to the moment where it is decided what follows. */
static void close_nodes(scene *s, const char *wanted)
{
    expect(s, wanted);
    report(s, 0, NULL);
    expect(s, "look\n");
    see_spark(s);
}

static uint64_t feed(scene *s, int64_t epochs, bool validation, bool stream)
{
    const tfos_feed_options data = {.queue = "input", .partitions = 3};
    const tfos_feed_options checked = {.queue = "input.validation", .partitions = 1};
    const tfos_feed_call options = {
        .data = &data, .validation = validation ? &checked : NULL, .epochs = epochs, .stream = stream};
    uint64_t call;
    assert_int_equal(tfos__policy_feed(s->policy, &options, s->now, &call, NULL), TFOS_OK);
    return call;
}

static uint64_t finish(scene *s, int64_t timeout_ms)
{
    uint64_t call;
    assert_int_equal(tfos__policy_finish(s->policy, 100, timeout_ms, s->now, &call, NULL), TFOS_OK);
    return call;
}

static const tfos__policy_options two = {.nodes = 2, .spark_feeds = true};
static const tfos__policy_options two_and_restarts = {.nodes = 2, .spark_feeds = true, .restarts = 2};

/* ---- the life of a cluster ---- */

static void test_a_life(void **state)
{
    (void)state;
    scene s;
    uint64_t call;
    begin(&s, (tfos__policy_options){.nodes = 3, .here = 1});
    assert_int_equal(tfos__policy_await_nodes(s.policy, s.now, &call, NULL), TFOS_OK);
    expect(&s, "look\n");
    see_spark(&s);
    expect(&s, "OPEN 0\n");
    opened(&s);
    expect(&s, "opened http://h:1/secret\nSPAWN 0\nstart_nodes 1+2\n");
    hear(&s, TFOS_EVENT_PROGRESS, "1 of 3 nodes");
    hear(&s, TFOS_EVENT_LOG, "one\ntwo\n");
    expect(&s, "say [tfos] 1 of 3 nodes\nsay [worker:1 h] one\n[worker:1 h] two\n");
    pass(&s, 499);
    expect(&s, "");
    pass(&s, 1);
    expect(&s, "look\n");
    pass(&s, 10000); /* nobody is asked twice */
    expect(&s, "");
    see_spark(&s);
    expect(&s, "SLOTS\n");
    hear(&s, TFOS_EVENT_READY, "[1]");
    expect(&s, "ready [1]\nsay [tfos] 3 nodes are there; status: http://h:1/secret\ndone call=1 done\n");
    pass(&s, 10000);
    expect(&s, "");
    finish(&s, -1);
    expect(&s, "FINISH 100\n");
    hear(&s, TFOS_EVENT_OVER, "");
    close_nodes(&s, "CLOSE\nend_nodes 10000\n");
    expect(&s, "over done\ndone call=2 done\n");
    end(&s);
}

static void test_what_is_asked_for_before_the_nodes_are_there(void **state)
{
    (void)state;
    scene s;
    begin(&s, two);
    finish(&s, -1);
    expect(&s, "look\n");
    see_spark(&s);
    opened(&s);
    expect(&s, "OPEN 0\nopened http://h:1/secret\nstart_nodes 0+2\n");
    hear(&s, TFOS_EVENT_READY, "[]");
    expect(&s, "ready []\nEND_FEEDS\nFINISH 100\n");
    tfos__policy_free(s.policy);
}

static void test_a_cluster_that_fails(void **state)
{
    (void)state;
    scene s;
    begin(&s, two);
    start(&s);
    hear(&s, TFOS_EVENT_FAILED, "worker:1 on h raised");
    hear(&s, TFOS_EVENT_FAILED, "and so did others");
    expect(&s, "");
    hear(&s, TFOS_EVENT_OVER, "");
    close_nodes(&s, "CLOSE\nend_nodes 500\n");
    expect(&s, "over failed CANCELLED cause=0 worker:1 on h raised\n");
    finish(&s, -1);
    expect(&s, "done call=1 failed CANCELLED cause=0 worker:1 on h raised\n");
    end(&s);
}

static void test_restarts(void **state)
{
    (void)state;
    scene s;
    begin(&s, two_and_restarts);
    start(&s);
    for (int i = 1; i <= 2; i++) {
        char wanted[256];
        hear(&s, TFOS_EVENT_FAILED, "node lost");
        hear(&s, TFOS_EVENT_OVER, "");
        close_nodes(&s, "CLOSE\nend_nodes 500\n");
        snprintf(wanted, sizeof wanted,
                 "say [tfos] node lost\nsay [tfos] starting the cluster again: %d of 2 restarts\nOPEN %d\n", i, i);
        expect(&s, wanted);
        opened(&s);
        expect(&s, "opened http://h:1/secret\nstart_nodes 0+2\n");
        hear(&s, TFOS_EVENT_READY, "[]");
        expect(&s, "ready []\n");
    }
    tfos__policy_gone(s.policy, &(tfos_error){.status = TFOS_IO, .message = "the coordinator is gone"}, s.now);
    close_nodes(&s, "CLOSE\nend_nodes 500\n");
    expect(&s, "over failed CANCELLED cause=0 the coordinator is gone\n");
    end(&s);
}

/* What is asked for while a cluster starts again is said when its nodes are there. */
static void test_shutdown_during_a_restart(void **state)
{
    (void)state;
    scene s;
    begin(&s, two_and_restarts);
    start(&s);
    hear(&s, TFOS_EVENT_FAILED, "node lost");
    hear(&s, TFOS_EVENT_OVER, "");
    close_nodes(&s, "CLOSE\nend_nodes 500\n");
    expect(&s, "say [tfos] node lost\nsay [tfos] starting the cluster again: 1 of 2 restarts\nOPEN 1\n");
    opened(&s);
    finish(&s, -1);
    expect(&s, "opened http://h:1/secret\nstart_nodes 0+2\nEND_FEEDS\n");
    hear(&s, TFOS_EVENT_READY, "[]");
    expect(&s, "ready []\nEND_FEEDS\nFINISH 100\n");
    tfos__policy_free(s.policy);
}

static void test_what_another_attempt_would_meet_again(void **state)
{
    (void)state;
    scene s;
    uint64_t call;
    begin(&s, two_and_restarts);
    assert_int_equal(tfos__policy_await_nodes(s.policy, s.now, &call, NULL), TFOS_OK);
    expect(&s, "look\n");
    see_spark(&s);
    expect(&s, "OPEN 0\n");
    tfos__policy_refused(s.policy, &(tfos_error){.status = TFOS_INVALID, .message = "no workers"}, s.now);
    expect(&s, "look\n");
    see_spark(&s);
    expect(&s, "over failed INVALID cause=0 no workers\ndone call=1 failed INVALID cause=0 no workers\n");
    end(&s);

    /* A node that cannot be started here. */
    begin(&s, (tfos__policy_options){.nodes = 1, .here = 1, .restarts = 2});
    see_spark(&s);
    opened(&s);
    expect(&s, "look\nOPEN 0\nopened http://h:1/secret\nSPAWN 0\n");
    tfos__policy_refused(s.policy, &(tfos_error){.status = TFOS_NOT_FOUND, .message = "no command"}, s.now);
    expect(&s, "CLOSE\nlook\n");
    see_spark(&s);
    expect(&s, "over failed NOT_FOUND cause=0 no command\n");
    end(&s);

    /* A job that cannot be submitted: what the shell has caught is raised. */
    begin(&s, two_and_restarts);
    see_spark(&s);
    opened(&s);
    expect(&s, "look\nOPEN 0\nopened http://h:1/secret\nstart_nodes 0+2\n");
    report(&s, 0, "no jar");
    expect(&s, "CLOSE\nlook\n");
    see_spark(&s);
    expect(&s, "over failed RAISED cause=0 no jar\n");
    end(&s);
}

static void test_a_job_that_starts_no_nodes(void **state)
{
    (void)state;
    scene s;
    begin(&s, two);
    see_spark(&s);
    opened(&s);
    pass(&s, 500);
    expect(&s, "look\nOPEN 0\nopened http://h:1/secret\nstart_nodes 0+2\nlook\n");
    see(&s, (tfos_spark_view){.nodes_failure = "no space"});
    expect(&s, "STOP the Spark job that starts the nodes failed\n");
    pass(&s, 5000);
    hear(&s, TFOS_EVENT_OVER, "");
    close_nodes(&s, "CLOSE\nend_nodes 500\n");
    expect(&s, "over failed CANCELLED cause=0 the Spark job that starts the nodes failed: no space\n");
    end(&s);
}

static void test_stop(void **state)
{
    (void)state;
    scene s;
    begin(&s, two_and_restarts);
    start(&s);
    tfos__policy_stop(s.policy, "the driver ends", s.now);
    tfos__policy_stop(s.policy, "another reason", s.now);
    expect(&s, "STOP the driver ends\n");
    hear(&s, TFOS_EVENT_FAILED, "a node that was stopped has failed");
    hear(&s, TFOS_EVENT_OVER, "");
    close_nodes(&s, "CLOSE\nend_nodes 500\n");
    expect(&s, "over done\n");
    feed(&s, 1, false, false);
    expect(&s, "done call=1 failed CANCELLED cause=0 the cluster has ended; it cannot be fed any more\n");
    end(&s);

    /* Before the coordinator is there, and while it is being opened. */
    begin(&s, two);
    tfos__policy_stop(s.policy, "the driver ends", s.now);
    expect(&s, "look\n");
    see_spark(&s);
    expect(&s, "over done\n");
    end(&s);
    begin(&s, two);
    see_spark(&s);
    expect(&s, "look\nOPEN 0\n");
    tfos__policy_stop(s.policy, "the driver ends", s.now);
    expect(&s, "");
    opened(&s);
    expect(&s, "opened http://h:1/secret\nCLOSE\nlook\n");
    see_spark(&s);
    expect(&s, "over done\n");
    end(&s);
}

#define CONTEXT_ENDED                                                                                                  \
    "the Spark context was stopped while the cluster ran, and every node was stopped. Call shutdown() before the "     \
    "context is stopped."

static void test_the_end_of_the_context(void **state)
{
    (void)state;
    scene s;
    begin(&s, two_and_restarts);
    start(&s);
    tfos__policy_see_context_end(s.policy, "was stopped", s.now);
    tfos__policy_see_context_end(s.policy, "was stopped", s.now);
    expect(&s, "STOP the Spark context was stopped\n");
    hear(&s, TFOS_EVENT_FAILED, "executor lost");
    hear(&s, TFOS_EVENT_OVER, "");
    close_nodes(&s, "CLOSE\nend_nodes 500\n");
    expect(&s, "over failed CANCELLED cause=0 " CONTEXT_ENDED "\n");
    end(&s);

    /* Before anything was started. */
    uint64_t call;
    begin(&s, two);
    assert_int_equal(tfos__policy_await_nodes(s.policy, s.now, &call, NULL), TFOS_OK);
    expect(&s, "look\n");
    see(&s, (tfos_spark_view){.context_end = "was stopped"});
    expect(&s,
           "over failed CANCELLED cause=0 " CONTEXT_ENDED "\ndone call=1 failed CANCELLED cause=0 " CONTEXT_ENDED "\n");
    end(&s);

    /* Nobody has noticed it before everything had ended: a failure is explained by it, a good end is none. */
    for (int failed = 0; failed <= 1; failed++) {
        begin(&s, two_and_restarts);
        start(&s);
        if (failed) {
            hear(&s, TFOS_EVENT_FAILED, "executor lost");
        }
        hear(&s, TFOS_EVENT_OVER, "");
        expect(&s, failed ? "CLOSE\nend_nodes 500\n" : "CLOSE\nend_nodes 10000\n");
        report(&s, 0, NULL);
        expect(&s, "look\n");
        see(&s, (tfos_spark_view){.context_end = "was stopped"});
        expect(&s, failed ? "over failed CANCELLED cause=0 " CONTEXT_ENDED "\n" : "over done\n");
        end(&s);
    }
}

static void test_shutdown_takes_too_long(void **state)
{
    (void)state;
    scene s;
    begin(&s, two);
    start(&s);
    finish(&s, 2500);
    expect(&s, "END_FEEDS\nFINISH 100\n");
    pass(&s, 2499);
    expect(&s, "");
    pass(&s, 1);
    expect(&s, "STOP not finished within 2.5 s, the timeout of shutdown\n");
    hear(&s, TFOS_EVENT_OVER, "");
    close_nodes(&s, "CLOSE\nend_nodes 500\n");
    expect(&s,
           "over done\n"
           "done call=1 failed LIMIT cause=0 the cluster had not finished after 2.5 s, the timeout of shutdown, "
           "and was stopped. Raise the timeout, or look in the logs of its nodes for what they were waiting for.\n");
    end(&s);
}

static void test_status_and_tensorboard(void **state)
{
    (void)state;
    scene s;
    uint64_t call;
    begin(&s, two);
    assert_int_equal(tfos__policy_ask_status(s.policy, s.now, &call, NULL), TFOS_OK);
    expect(&s, "look\ndone call=1 done\n"); /* there is nobody to ask */
    see_spark(&s);
    opened(&s);
    hear(&s, TFOS_EVENT_READY, "[]");
    expect(&s, "OPEN 0\nopened http://h:1/secret\nstart_nodes 0+2\nready []\n");
    assert_int_equal(tfos__policy_ask_status(s.policy, s.now, &call, NULL), TFOS_OK);
    expect(&s, "ASK\n");
    hear(&s, TFOS_EVENT_STATUS, "{1}");
    expect(&s, "done call=2 done {1}\n");
    assert_int_equal(tfos__policy_ask_status(s.policy, s.now, &call, NULL), TFOS_OK);
    pass(&s, 5000);
    expect(&s, "ASK\ndone call=3 done {1}\n"); /* nobody answers: what was heard last */
    assert_int_equal(tfos__policy_await_tensorboard(s.policy, s.now, &call, NULL), TFOS_OK);
    expect(&s, "");
    const tfos_cluster_event event = {.kind = TFOS_EVENT_NODE,
                                      .index = 1,
                                      .pid = 7,
                                      .node = "",
                                      .host = "",
                                      .state = "",
                                      .url = "http://t",
                                      .text = ""};
    tfos__policy_hear(s.policy, &event, s.now);
    expect(&s, "tensorboard http://t\ndone call=4 done http://t\n");
    tfos__policy_free(s.policy);
}

/* ---- feeding ---- */

/* One epoch, from its beginning until every row is in a lane. */
static void feed_epoch(scene *s, uint64_t call, uint64_t *job, int source, uint64_t feed_number, uint64_t epoch)
{
    char wanted[256];
    hear_feed(s, feed_number, TFOS_FEED_STATE_EPOCH, (int64_t)epoch);
    snprintf(wanted, sizeof wanted, "feed call=%" PRIu64 " job=%" PRIu64 " source=%d feed=%" PRIu64 "/%" PRIu64 "\n",
             call, *job, source, feed_number, epoch);
    expect(s, wanted);
    report(s, (*job)++, NULL);
    snprintf(wanted, sizeof wanted, "END_EPOCH %" PRIu64 "/%" PRIu64 "\n", feed_number, epoch);
    expect(s, wanted);
    hear_feed(s, feed_number, TFOS_FEED_STATE_EXHAUSTED, (int64_t)epoch);
}

static void test_epochs_and_validation(void **state)
{
    (void)state;
    scene s;
    uint64_t job = 2;
    begin(&s, two);
    start(&s);
    uint64_t call = feed(&s, 2, true, false);
    expect(&s, "OPEN_FEED 1 'input' partitions=3\nBEGIN 1/0\n");
    hear_feed(&s, 1, TFOS_FEED_STATE_OPEN, 0);
    feed_epoch(&s, call, &job, 0, 1, 0);
    expect(&s, "OPEN_FEED 2 'input.validation' partitions=1\nBEGIN 2/0\n");
    feed_epoch(&s, call, &job, 1, 2, 0);
    expect(&s, "BEGIN 1/1\n");
    feed_epoch(&s, call, &job, 0, 1, 1);
    expect(&s, "BEGIN 2/1\n");
    feed_epoch(&s, call, &job, 1, 2, 1);
    expect(&s, "");
    hear_feed(&s, 1, TFOS_FEED_STATE_CONSUMED, 0);
    hear_feed(&s, 1, TFOS_FEED_STATE_CONSUMED, 1);
    hear_feed(&s, 2, TFOS_FEED_STATE_CONSUMED, 0);
    expect(&s, "");
    hear_feed(&s, 2, TFOS_FEED_STATE_DROPPED, 1);
    expect(&s, "CLOSE_FEED 1\nCLOSE_FEED 2\ndone call=1 done\n");
    tfos__policy_free(s.policy);
}

static void test_programs_that_want_no_more(void **state)
{
    (void)state;
    scene s;
    begin(&s, two);
    start(&s);
    feed(&s, -1, false, false);
    hear_feed(&s, 1, TFOS_FEED_STATE_EPOCH, 0);
    expect(&s, "OPEN_FEED 1 'input' partitions=3\nBEGIN 1/0\nfeed call=1 job=2 source=0 feed=1/0\n");
    hear_feed(&s, 1, TFOS_FEED_STATE_TERMINATED, 0);
    expect(&s, ""); /* tasks go home by themselves */
    report(&s, 2, NULL);
    expect(&s, "END_EPOCH 1/0\nCLOSE_FEED 1\ndone call=1 stopped\n");
    tfos__policy_free(s.policy);
}

static void begin_feeding(scene *s, tfos__policy_options options)
{
    begin(s, options);
    start(s);
    feed(s, 1, false, false);
    hear_feed(s, 1, TFOS_FEED_STATE_EPOCH, 0);
    expect(s, "OPEN_FEED 1 'input' partitions=3\nBEGIN 1/0\nfeed call=1 job=2 source=0 feed=1/0\n");
}

static void test_a_job_that_fails(void **state)
{
    (void)state;
    scene s;
    /* Code of the user, by the word of the task: it is hardly the cluster. */
    begin_feeding(&s, two);
    hear_feed_failed(&s, 1, TFOS_FEED_STATE_ABANDONED, TFOS_RAISED, TFOS_FAULT_AGAIN, "ZeroDivisionError");
    report(&s, 2, "Spark's words");
    pass(&s, 999);
    expect(&s, "");
    pass(&s, 1);
    expect(&s, "ASK\n");
    hear(&s, TFOS_EVENT_STATUS, "{}");
    expect(&s, "CLOSE_FEED 1\ndone call=1 failed RAISED cause=2 Spark's words\n");
    /* The end of the cluster tells of it, unless the queue is fed after all. */
    finish(&s, -1);
    expect(&s, "END_FEEDS\nFINISH 100\n");
    hear(&s, TFOS_EVENT_OVER, "");
    close_nodes(&s, "CLOSE\nend_nodes 10000\n");
    expect(&s, "over done\ndone call=3 failed CANCELLED cause=1 the programs have ended, but their data was not fed: "
               "Spark's words\n");
    end(&s);

    /* Nobody says why: it may be the cluster. */
    begin_feeding(&s, two);
    report(&s, 2, "executor lost");
    pass(&s, 9999);
    expect(&s, "");
    pass(&s, 1);
    expect(&s, "ASK\n");
    hear(&s, TFOS_EVENT_STATUS, "{}");
    expect(&s, "CLOSE_FEED 1\ndone call=1 failed RAISED cause=2 executor lost\n");
    tfos__policy_free(s.policy);

    /* Data that no attempt can feed. */
    begin_feeding(&s, two);
    hear_feed_failed(&s, 1, TFOS_FEED_STATE_ABANDONED, TFOS_UNSUPPORTED, TFOS_FAULT_FINAL, "cannot be fed to its end");
    report(&s, 2, "a page of text");
    pass(&s, 1000);
    hear(&s, TFOS_EVENT_STATUS, "{}");
    expect(&s, "ASK\nCLOSE_FEED 1\ndone call=1 failed CANCELLED cause=2 cannot be fed to its end\n");
    tfos__policy_free(s.policy);

    /* What a task has told says more than what Spark does, also when it comes later. */
    begin_feeding(&s, two);
    report(&s, 2, "a page of text");
    hear_feed_failed(&s, 1, TFOS_FEED_STATE_ABANDONED, TFOS_IO, TFOS_FAULT_AGAIN, "no node answers");
    pass(&s, 10000);
    hear(&s, TFOS_EVENT_STATUS, "{}");
    expect(&s, "ASK\nCLOSE_FEED 1\ndone call=1 failed CANCELLED cause=2 no node answers\n");
    tfos__policy_free(s.policy);
}

static void test_a_feed_that_fails(void **state)
{
    (void)state;
    scene s;
    /* The data is to blame. */
    begin_feeding(&s, two);
    hear_feed_failed(&s, 1, TFOS_FEED_STATE_FAILED, TFOS_MISMATCH, TFOS_FAULT_FINAL, "partition 1, row 3: a null");
    expect(&s, "cancel call=1 job=2\n");
    report(&s, 2, "cancelled");
    expect(&s, "END_EPOCH 1/0\nCLOSE_FEED 1\ndone call=1 failed CANCELLED cause=0 partition 1, row 3: a null\n");
    tfos__policy_free(s.policy);

    /* … and Spark's word comes first. */
    begin_feeding(&s, two);
    report(&s, 2, "a page of text");
    expect(&s, "");
    hear_feed_failed(&s, 1, TFOS_FEED_STATE_FAILED, TFOS_MISMATCH, TFOS_FAULT_FINAL, "partition 1, row 3: a null");
    expect(&s, "CLOSE_FEED 1\ndone call=1 failed CANCELLED cause=0 partition 1, row 3: a null\n");
    tfos__policy_free(s.policy);

    /* A program that takes nothing would not end by itself, either. */
    begin_feeding(&s, two);
    hear_feed_failed(&s, 1, TFOS_FEED_STATE_FAILED, TFOS_LIMIT, TFOS_FAULT_PROGRAM, "no row was consumed");
    report(&s, 2, "cancelled");
    expect(&s, "cancel call=1 job=2\nEND_EPOCH 1/0\nSTOP its programs do not take what is fed to them\nCLOSE_FEED 1\n"
               "done call=1 failed CANCELLED cause=0 no row was consumed\n");
    tfos__policy_free(s.policy);
}

static void test_a_cluster_that_fails_while_it_is_fed(void **state)
{
    (void)state;
    scene s;
    begin_feeding(&s, two);
    hear(&s, TFOS_EVENT_FAILED, "worker:1 on h raised");
    hear_feed_failed(&s, 1, TFOS_FEED_STATE_FAILED, TFOS_CANCELLED, TFOS_FAULT_CLUSTER, "the cluster has failed");
    expect(&s, "cancel call=1 job=2\n");
    report(&s, 2, "cancelled");
    pass(&s, 1000000); /* it will be over, or start again */
    expect(&s, "END_EPOCH 1/0\n");
    hear(&s, TFOS_EVENT_OVER, "");
    close_nodes(&s, "CLOSE\nend_nodes 500\n");
    expect(&s, "over failed CANCELLED cause=0 worker:1 on h raised\n"
               "done call=1 failed CANCELLED cause=0 worker:1 on h raised\n");
    end(&s);

    /* The coordinator is gone, and says nothing. The job is cancelled when that is known for good. */
    begin_feeding(&s, two);
    tfos__policy_gone(s.policy, &(tfos_error){.status = TFOS_IO, .message = "killed by signal 9"}, s.now);
    close_nodes(&s, "CLOSE\nend_nodes 500\n");
    expect(&s, "over failed CANCELLED cause=0 killed by signal 9\ncancel call=1 job=2\n");
    assert_false(tfos__policy_is_idle(s.policy));
    report(&s, 2, "cancelled");
    expect(&s, "done call=1 failed CANCELLED cause=0 killed by signal 9\n");
    end(&s);
}

/* Ends an attempt, and brings the next one so far that its nodes are there. */
static void restart(scene *s, const char *cancelled)
{
    char wanted[512];
    hear(s, TFOS_EVENT_FAILED, "node lost");
    hear(s, TFOS_EVENT_OVER, "");
    close_nodes(s, "CLOSE\nend_nodes 500\n");
    snprintf(wanted, sizeof wanted,
             "say [tfos] node lost\nsay [tfos] starting the cluster again: 1 of 2 restarts\nOPEN 1\n%s", cancelled);
    expect(s, wanted);
    opened(s);
    hear(s, TFOS_EVENT_READY, "[]");
}

static void test_an_epoch_is_fed_again(void **state)
{
    (void)state;
    scene s;
    uint64_t job = 2;
    begin(&s, two_and_restarts);
    start(&s);
    uint64_t call = feed(&s, 3, false, false);
    expect(&s, "OPEN_FEED 1 'input' partitions=3\nBEGIN 1/0\n");
    feed_epoch(&s, call, &job, 0, 1, 0);
    expect(&s, "BEGIN 1/1\n");
    hear_feed(&s, 1, TFOS_FEED_STATE_CONSUMED, 0);
    feed_epoch(&s, call, &job, 0, 1, 1);
    expect(&s, "BEGIN 1/2\n");
    restart(&s, "");
    /* The second was fed, but nobody knows whether it was taken. */
    expect(&s, "opened http://h:1/secret\nstart_nodes 0+2\nready []\nOPEN_FEED 2 'input' partitions=3\nBEGIN 2/1\n");
    feed_epoch(&s, call, &job, 0, 2, 1);
    expect(&s, "BEGIN 2/2\n");
    feed_epoch(&s, call, &job, 0, 2, 2);
    expect(&s, "");
    hear_feed(&s, 2, TFOS_FEED_STATE_CONSUMED, 1);
    hear_feed(&s, 2, TFOS_FEED_STATE_CONSUMED, 2);
    expect(&s, "CLOSE_FEED 2\ndone call=1 done\n");
    tfos__policy_free(s.policy);
}

/* Between two epochs, with the first in lanes: it must not be passed over. */
static void test_a_restart_between_epochs(void **state)
{
    (void)state;
    scene s;
    uint64_t job = 2;
    begin(&s, two_and_restarts);
    start(&s);
    uint64_t call = feed(&s, 2, true, false);
    expect(&s, "OPEN_FEED 1 'input' partitions=3\nBEGIN 1/0\n");
    feed_epoch(&s, call, &job, 0, 1, 0);
    expect(&s, "OPEN_FEED 2 'input.validation' partitions=1\nBEGIN 2/0\n");
    hear_feed(&s, 1, TFOS_FEED_STATE_DROPPED, 0); /* of a program that had ended: it was not taken */
    hear_feed(&s, 2, TFOS_FEED_STATE_CONSUMED, 0);
    restart(&s, "");
    expect(&s, "opened http://h:1/secret\nstart_nodes 0+2\nready []\nOPEN_FEED 3 'input' partitions=3\nBEGIN 3/0\n");
    tfos__policy_free(s.policy);
}

static void test_a_restart_while_a_job_runs(void **state)
{
    (void)state;
    scene s;
    begin_feeding(&s, two_and_restarts);
    restart(&s, "cancel call=1 job=2\n");
    expect(&s, "opened http://h:1/secret\nstart_nodes 0+2\nready []\n");
    report(&s, 2, "cancelled");
    expect(&s, "OPEN_FEED 2 'input' partitions=3\nBEGIN 2/0\n");
    tfos__policy_free(s.policy);
}

/* A batch that comes when the programs have ended is nobody's fault, and does not make up for one that failed. */
static void test_a_batch_of_a_stream_comes_too_late(void **state)
{
    (void)state;
    scene s;
    begin(&s, two);
    start(&s);
    feed(&s, 1, false, true);
    hear_feed(&s, 1, TFOS_FEED_STATE_EPOCH, 0);
    expect(&s, "OPEN_FEED 1 'input' partitions=3\nBEGIN 1/0\nfeed call=1 job=2 source=0 feed=1/0\n");
    hear_feed_failed(&s, 1, TFOS_FEED_STATE_FAILED, TFOS_LIMIT, TFOS_FAULT_PROGRAM, "nobody takes rows");
    report(&s, 2, "cancelled");
    expect(&s, "cancel call=1 job=2\nEND_EPOCH 1/0\nSTOP its programs do not take what is fed to them\nCLOSE_FEED 1\n"
               "done call=1 failed CANCELLED cause=0 nobody takes rows\n");
    hear(&s, TFOS_EVENT_OVER, "");
    close_nodes(&s, "CLOSE\nend_nodes 500\n");
    expect(&s, "over done\n");
    feed(&s, 1, false, true);
    expect(&s, "done call=3 stopped\n");
    finish(&s, -1);
    expect(&s, "done call=4 failed CANCELLED cause=1 the programs have ended, but their data was not fed: nobody takes "
               "rows\n");
    end(&s);
}

/* Ctrl-C: nobody waits for a call any more. */
static void test_a_call_that_is_abandoned(void **state)
{
    (void)state;
    scene s;
    begin(&s, two);
    start(&s);
    uint64_t call = feed(&s, 1, false, false);
    hear_feed(&s, 1, TFOS_FEED_STATE_EPOCH, 0); /* its job is ordered, and nobody has taken the order */
    tfos__policy_abandon(s.policy, call, s.now);
    tfos__policy_abandon(s.policy, call, s.now);
    expect(&s, "OPEN_FEED 1 'input' partitions=3\nBEGIN 1/0\nCLOSE_FEED 1\n");
    report(&s, 2, "cancelled");
    finish(&s, -1);
    expect(&s, "END_FEEDS\nFINISH 100\n");
    hear(&s, TFOS_EVENT_OVER, "");
    close_nodes(&s, "CLOSE\nend_nodes 10000\n");
    expect(&s, "over done\ndone call=3 done\n"); /* what was not fed then is not the cluster's to tell */
    end(&s);
}

static void test_streams(void **state)
{
    (void)state;
    scene s;
    begin(&s, two);
    start(&s);
    tfos__policy_stop(s.policy, "enough", s.now);
    hear(&s, TFOS_EVENT_OVER, "");
    close_nodes(&s, "STOP enough\nCLOSE\nend_nodes 500\n");
    expect(&s, "over done\n");
    feed(&s, 1, false, true);
    expect(&s, "done call=1 stopped\n");
    end(&s);
}

static void test_inference(void **state)
{
    (void)state;
    scene s;
    uint64_t call;
    const tfos_feed_options options = {.queue = "input", .partitions = 3, .inference = true};
    begin(&s, two);
    start(&s);
    assert_int_equal(tfos__policy_open_feed(s.policy, &options, s.now, &call, NULL), TFOS_OK);
    expect(&s, "OPEN_FEED 1 'input' partitions=3\nBEGIN 1/0\n");
    hear_feed(&s, 1, TFOS_FEED_STATE_EPOCH, 0);
    expect(&s, "done call=1 feed=1 done\n"); /* and stays open */
    assert_int_equal(tfos__policy_open_feed(s.policy, &options, s.now, &call, NULL), TFOS_OK);
    hear_feed(&s, 2, TFOS_FEED_STATE_TERMINATED, 0);
    expect(&s, "OPEN_FEED 2 'input' partitions=3\nBEGIN 2/0\n"
               "done call=2 failed CANCELLED cause=0 the cluster takes no more rows\n");
    /* Rows that are fed at once: the results are the job's. */
    const tfos_feed_call at_once = {.data = &options, .epochs = 1};
    assert_int_equal(tfos__policy_feed(s.policy, &at_once, s.now, &call, NULL), TFOS_OK);
    hear_feed(&s, 3, TFOS_FEED_STATE_EPOCH, 0);
    report(&s, 4, NULL);
    expect(&s, "OPEN_FEED 3 'input' partitions=3\nBEGIN 3/0\nfeed call=3 job=4 source=0 feed=3/0\nCLOSE_FEED 3\n"
               "done call=3 done\n");
    tfos__policy_free(s.policy);
}

/* ---- what programs leave behind ---- */

static void hear_node(scene *s, int32_t index, const char *node, const char *state, const char *ended)
{
    const tfos_cluster_event event = {
        .kind = TFOS_EVENT_NODE, .index = index, .node = node, .host = "h", .state = state, .url = "", .text = ended};
    tfos__policy_hear(s->policy, &event, s->now);
}

static void hear_result(scene *s, int32_t index, uint64_t offset, const char *piece)
{
    const tfos_cluster_event event = {.kind = TFOS_EVENT_RESULT,
                                      .index = index,
                                      .node = "",
                                      .host = "",
                                      .state = "",
                                      .url = "",
                                      .text = "",
                                      .bytes = (const uint8_t *)piece,
                                      .byte_count = strlen(piece),
                                      .offset = offset,
                                      .head_bytes = 21,
                                      .value_bytes = 4};
    tfos__policy_hear(s->policy, &event, s->now);
}

static void expect_returned(scene *s, int32_t index, int32_t attempt, const char *wanted)
{
    uint8_t *bytes;
    size_t count;
    assert_int_equal(tfos__policy_copy_value(s->policy, index, attempt, &bytes, &count, NULL), TFOS_OK);
    assert_int_equal(count, strlen(wanted));
    assert_memory_equal(bytes, wanted, count);
    free(bytes);
}

static void ask_results(scene *s)
{
    uint64_t call;
    assert_int_equal(tfos__policy_ask_results(s->policy, s->now, &call, NULL), TFOS_OK);
}

#define OF_WORKER_1(state, ended)                                                                                      \
    "\"role\":\"worker\",\"task\":1,\"host\":\"h\",\"state\":\"" state "\",\"ended\":\"" ended "\"}"

static void test_results(void **state)
{
    (void)state;
    scene s;
    begin(&s, two_and_restarts);
    ask_results(&s);
    expect(&s, "look\ndone call=1 done\n"); /* nobody is there yet */
    see_spark(&s);
    expect(&s, "OPEN 0\n");
    opened(&s);
    hear_node(&s, 1, "worker:1", "running", "");
    hear(&s, TFOS_EVENT_READY, "[]");
    expect(&s, "opened http://h:1/secret\nstart_nodes 0+2\nready []\n");
    hear_result(&s, 1, 0, "{\"history\":{\"a\":[1]}");
    hear_result(&s, 1, 99, "nonsense");
    ask_results(&s);
    expect(&s, "result {" OF_WORKER_1("running", "") "\ndone call=2 done\n"); /* it has not come as a whole */
    expect_returned(&s, 1, 0, "");
    hear_result(&s, 1, 20, "}abcd");
    hear_node(&s, 1, "worker:1", "finished", "");
    ask_results(&s);
    expect(&s, "result {\"history\":{\"a\":[1]}," OF_WORKER_1("finished", "") "\ndone call=3 done\n");
    expect_returned(&s, 1, 0, "abcd");
    expect_returned(&s, 0, 0, "");
    expect_returned(&s, 1, 1, "");
    /* A restart: the programs run again, and what they returned before is nobody's. */
    hear(&s, TFOS_EVENT_FAILED, "worker:0 died");
    hear(&s, TFOS_EVENT_OVER, "");
    ask_results(&s); /* until then it is there */
    expect_returned(&s, 1, 0, "abcd");
    close_nodes(&s, "CLOSE\nend_nodes 500\nresult {\"history\":{\"a\":[1]}," OF_WORKER_1("finished",
                                                                                         "") "\ndone call=4 done\n");
    expect(&s, "say [tfos] worker:0 died\nsay [tfos] starting the cluster again: 1 of 2 restarts\nOPEN 1\n");
    expect_returned(&s, 1, 0, "");
    ask_results(&s);
    expect(&s, "done call=5 done\n");
    tfos__policy_free(s.policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_life),
        cmocka_unit_test(test_what_is_asked_for_before_the_nodes_are_there),
        cmocka_unit_test(test_a_cluster_that_fails),
        cmocka_unit_test(test_restarts),
        cmocka_unit_test(test_shutdown_during_a_restart),
        cmocka_unit_test(test_what_another_attempt_would_meet_again),
        cmocka_unit_test(test_a_job_that_starts_no_nodes),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_the_end_of_the_context),
        cmocka_unit_test(test_shutdown_takes_too_long),
        cmocka_unit_test(test_status_and_tensorboard),
        cmocka_unit_test(test_epochs_and_validation),
        cmocka_unit_test(test_programs_that_want_no_more),
        cmocka_unit_test(test_a_job_that_fails),
        cmocka_unit_test(test_a_feed_that_fails),
        cmocka_unit_test(test_a_cluster_that_fails_while_it_is_fed),
        cmocka_unit_test(test_an_epoch_is_fed_again),
        cmocka_unit_test(test_a_restart_between_epochs),
        cmocka_unit_test(test_a_restart_while_a_job_runs),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_a_batch_of_a_stream_comes_too_late),
        cmocka_unit_test(test_a_call_that_is_abandoned),
        cmocka_unit_test(test_inference),
        cmocka_unit_test(test_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
