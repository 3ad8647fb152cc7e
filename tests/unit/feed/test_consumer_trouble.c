/* The consumer, with real lanes and a node that is played, when things go wrong around it: forks, files that run out,
 * signals, lanes whose contents are nonsense or change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper_feed.h"

/* A process that the program forks would take lanes away from it. */
static void test_a_fork_has_no_part_in_it(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lane;
    int status;
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    helper_lane_open(&lane, &feed, "input", 0, false);
    helper_lane_put_numbers(&lane, &feed, 0, 5);
    const tfos_feed_want want = helper_want_rows(5);
    pid_t child = fork();
    if (child == 0) {
        tfos_batch *batch = NULL;
        tfos_schema *schema = NULL;
        tfos_error error;
        _exit(!tfos_feed_ended(input) && tfos_feed_schema(input, &want, &schema, &error) == TFOS_UNSUPPORTED &&
                      tfos_feed_terminate(input, &error) == TFOS_UNSUPPORTED &&
                      tfos_feed_next(input, &want, &batch, &error) == TFOS_UNSUPPORTED
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    helper_expect_numbers(input, &want, "0 1 2 3 4");
    helper_lane_close(&lane);
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

/* A lane that could not be taken is not the end of the data. In a process of its own: it has few files. */
static void test_a_lane_without_a_descriptor(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    if (child == 0) {
        helper_feed feed;
        helper_lane lane;
        tfos_batch *batch = NULL;
        tfos_error error = {0};
        const tfos_feed_want want = helper_want_rows(5);
        int files[256];
        size_t count = 0;
        helper_feed_open(&feed);
        tfos_feed *input = helper_feed_queue(&feed, "input");
        helper_lane_open(&lane, &feed, "input", 0, false);
        helper_lane_put_numbers(&lane, &feed, 0, 5);
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){200, 200});
        while (count < 256 && (files[count] = dup(0)) >= 0) {
            count++;
        }
        bool ended = tfos_feed_ended(input);
        for (size_t i = 0; i < count; i++) {
            close(files[i]);
        }
        tfos_status first = tfos_feed_next(input, &want, &batch, &error);
        _exit(!ended && first == TFOS_LIMIT && !tfos_feed_ended(input) &&
                      tfos_feed_next(input, &want, &batch, &error) == TFOS_LIMIT
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* What says whether a wait is to end may use the feed, as the handler of a signal does. */
static bool terminate_instead(void *context)
{
    return tfos_feed_terminate(context, NULL) != TFOS_OK;
}

static void test_terminate_while_waiting(void **state)
{
    (void)state;
    helper_feed feed;
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    tfos_feed_want want = helper_want_rows(1);
    want.interrupted = terminate_instead;
    want.interrupted_context = input;
    helper_expect_status(input, &want, TFOS_END, NULL);
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

/* Where to read was checked once, and is ours from then on: whoever wrote the entry may change it. */
static void test_an_entry_that_changes(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lane;
    tfos_schema *schema = helper_schema_with("b", TFOS_TYPE_BINARY, TFOS_SHAPE_SCALAR, 0);
    tfos_batch *batch = NULL;
    tfos_batch *found = NULL;
    const tfos_feed_want want = helper_want_rows(1);
    const uint8_t *at;
    size_t count;
    bool fed_out;
    assert_int_equal(tfos__batch_new(schema, &batch, NULL), TFOS_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(tfos__vector_push_bytes(tfos__batch_vector(batch, 0), "abcd", 4, NULL), TFOS_OK);
    }
    assert_int_equal(tfos__batch_finish(batch, 4, NULL), TFOS_OK);
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    helper_lane_open(&lane, &feed, "input", 0, false);
    helper_lane_put_schema(&lane, &feed, schema);
    assert_true(helper_lane_put_batch(&lane, &feed, batch));
    assert_int_equal(tfos_feed_next(input, &want, &found, NULL), TFOS_OK);
    tfos_batch_free(found);
    assert_int_equal(tfos__lane_peek(lane.lane, &at, &count, &fed_out, NULL), TFOS_OK);
    union {
        const uint8_t *from;
        int32_t *to;
    } offsets = {.from = at + 2 * 64}; /* behind the header and the only level */
    assert_int_equal(offsets.to[1], 4);
    offsets.to[2] = 0x30000000;
    assert_int_equal(tfos_feed_next(input, &want, &found, NULL), TFOS_OK);
    const tfos_vector *column = tfos_batch_column(found, 0);
    assert_int_equal(column->offsets[1] - column->offsets[0], 4);
    tfos_batch_free(found);
    tfos_batch_free(batch);
    tfos_schema_free(schema);
    helper_lane_close(&lane);
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

static void test_what_a_lane_may_not_contain(void **state)
{
    (void)state;
    helper_feed feed;
    helper_lane lane;
    tfos_schema *schema = helper_number_schema();
    tfos_batch *batch = helper_numbers(schema, 0, 1);
    helper_feed_open(&feed);
    tfos_feed *input = helper_feed_queue(&feed, "input");
    const tfos_feed_want want = helper_want_rows(1);
    helper_lane_open(&lane, &feed, "input", 0, false);
    assert_true(helper_lane_put_batch(&lane, &feed, batch));
    helper_expect_status(input, &want, TFOS_CORRUPT, "before it has a schema");
    helper_feed_say(&feed, TFOS__PACKET_HELLO, "input", 0);
    helper_expect_status(input, &want, TFOS_CORRUPT, "unknown kind");
    tfos_batch_free(batch);
    tfos_schema_free(schema);
    helper_lane_close(&lane);
    tfos_feed_close(input);
    helper_feed_close(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fork_has_no_part_in_it),    cmocka_unit_test(test_a_lane_without_a_descriptor),
        cmocka_unit_test(test_terminate_while_waiting),     cmocka_unit_test(test_an_entry_that_changes),
        cmocka_unit_test(test_what_a_lane_may_not_contain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
