/* Groups of programs under real nodes and a real coordinator: how they find each other, what they compute, and what
 * they are told when one of them dies, stands still, leaves, never comes or does something else; with memory that they
 * share, and over TLS, as if each were on a host of its own. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"
#include "helper_cluster.h"
#include "helper_records.h"

/* ---- the programs ---- */

typedef struct program {
    tfos_group *group;
    const char *folder;
    tfos_error error;
} program;

/* What a program finds wrong ends it, and the cluster with it; the driver shows the line. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, self->error.message);                   \
            exit(3);                                                                                                   \
        }                                                                                                              \
    } while (0)

static tfos_status sum_of(program *self, int64_t *numbers, int64_t count)
{
    const tfos_part part = {.element = TFOS_ELEMENT_INT64,
                            .merge = TFOS_MERGE_SUM,
                            .dimensions = 1,
                            .shape = {count},
                            .input = numbers,
                            .output = numbers};
    return tfos_group_call(self->group, &part, 1, NULL, NULL, &self->error);
}

/* More than one piece; in halves on its way, too. */
static void compute_much(program *self)
{
    enum { COUNT = 1500000 };
    size_t size = tfos_group_size(self->group);
    static float numbers[COUNT];
    for (int wire = TFOS_ELEMENT_FLOAT32; wire <= TFOS_ELEMENT_BFLOAT16; wire++) {
        if (wire == TFOS_ELEMENT_FLOAT64) {
            continue;
        }
        tfos_call_options options;
        tfos_call_options_init(&options, sizeof options);
        options.wire = (tfos_element)wire;
        const tfos_part part = {.element = TFOS_ELEMENT_FLOAT32,
                                .merge = TFOS_MERGE_SUM,
                                .dimensions = 1,
                                .shape = {COUNT},
                                .input = numbers,
                                .output = numbers};
        for (int i = 0; i < COUNT; i++) {
            numbers[i] = (float)(i % 16); /* which halves can hold, and their sums */
        }
        EXPECT(tfos_group_call(self->group, &part, 1, &options, NULL, &self->error) == TFOS_OK);
        for (int i = 0; i < COUNT; i++) {
            EXPECT(numbers[i] == (float)(i % 16) * (float)size);
        }
    }
}

static void compute(program *self)
{
    size_t rank = tfos_group_rank(self->group);
    size_t size = tfos_group_size(self->group);
    bool near = getenv("TFOS_COLLECTIVE_SHARED") == NULL;
    EXPECT(tfos_group_local_size(self->group) == (near ? size : 1));
    EXPECT(tfos_group_local_rank(self->group) == (near ? rank : 0));
    char wanted[64];
    snprintf(wanted, sizeof wanted, "worker:%zu on 127.0.0.1", rank);
    EXPECT(strcmp(tfos_group_member(self->group, rank), wanted) == 0);
    for (int round = 0; round < 100; round++) {
        int64_t numbers[3] = {(int64_t)rank + 1, round, -1};
        EXPECT(sum_of(self, numbers, 3) == TFOS_OK);
        EXPECT(numbers[0] == (int64_t)(size * (size + 1) / 2) && numbers[1] == (int64_t)size * round &&
               numbers[2] == -(int64_t)size);
    }
    EXPECT(tfos_group_call(self->group, NULL, 0, NULL, NULL, &self->error) == TFOS_OK);
    compute_much(self);
    float rows[8] = {(float)rank};
    const tfos_part part = {.element = TFOS_ELEMENT_FLOAT32,
                            .merge = TFOS_MERGE_GATHER,
                            .dimensions = 1,
                            .shape = {(int64_t)rank},
                            .input = rows};
    tfos_call_result result;
    EXPECT(tfos_group_call(self->group, &part, 1, NULL, NULL, &self->error) == TFOS_INVALID);
    EXPECT(tfos_group_call(self->group, &part, 1, NULL, &result, &self->error) == TFOS_OK);
    EXPECT(result.gathered_count == 1 && result.contributors == size && result.rows[size - 1] == size - 1);
    EXPECT(size < 2 || ((const float *)result.gathered[0])[0] == 1.0F);
    tfos_call_result_reset(&result);
}

/* Each has more data than the one before; the last one of all is known to everybody. */
static void join(program *self)
{
    size_t rank = tfos_group_rank(self->group);
    size_t size = tfos_group_size(self->group);
    for (int epoch = 0; epoch < 3; epoch++) {
        for (size_t step = 0; step < 5 * rank; step++) {
            int64_t number = 1;
            EXPECT(sum_of(self, &number, 1) == TFOS_OK);
            EXPECT(number == (int64_t)(size - 1 - step / 5));
        }
        size_t last = SIZE_MAX;
        EXPECT(tfos_group_join(self->group, NULL, &last, &self->error) == TFOS_OK);
        EXPECT(last == size - 1);
    }
}

/* A group that is closed can be opened again, by all. */
static void meet_again(program *self)
{
    for (int meeting = 0; meeting < 3; meeting++) {
        int64_t number = 1;
        tfos_group *same;
        EXPECT(tfos_group_open(NULL, &same, &self->error) == TFOS_OK);
        EXPECT(same == self->group);
        tfos_group_close(same);
        EXPECT(sum_of(self, &number, 1) == TFOS_OK);
        EXPECT(number == (int64_t)tfos_group_size(self->group));
        tfos_group_close(self->group);
        EXPECT(tfos_group_open(NULL, &self->group, &self->error) == TFOS_OK);
    }
}

/* The last worker does something else than the others, which wait for it in a call. */
static void part_ways(program *self, const char *how)
{
    size_t size = tfos_group_size(self->group);
    int64_t numbers[2] = {1, 1};
    EXPECT(sum_of(self, numbers, 1) == TFOS_OK);
    bool odd = tfos_group_rank(self->group) == size - 1;
    if (odd && strcmp(how, "die") == 0) {
        raise(SIGKILL);
    } else if (odd && strcmp(how, "stop") == 0) {
        raise(SIGSTOP);
    } else if (odd && strcmp(how, "leave") == 0) {
        tfos_group_close(self->group);
        poll(NULL, 0, 600000);
    } else if (odd && strcmp(how, "dawdle") == 0) {
        poll(NULL, 0, 600000);
    }
    int64_t count = odd && strcmp(how, "differ") == 0 ? 2 : 1;
    EXPECT(sum_of(self, numbers, count) != TFOS_OK);
    helper_leave_error(self->folder, tfos_group_rank(self->group), self->error.message);
    EXPECT(sum_of(self, numbers, count) != TFOS_OK); /* and stays so */
    poll(NULL, 0, strcmp(how, "differ") == 0 ? 0 : 600000);
}

static bool interrupted_after_a_while(void *context)
{
    return ++*(int *)context > 3;
}

static void be_interrupted(program *self)
{
    int asked = 0;
    tfos_call_options options;
    tfos_call_options_init(&options, sizeof options);
    if (tfos_group_rank(self->group) == 0) {
        options.interrupted = interrupted_after_a_while;
        options.interrupted_context = &asked;
        EXPECT(tfos_group_call(self->group, NULL, 0, &options, NULL, &self->error) == TFOS_CANCELLED);
    } else {
        poll(NULL, 0, 1000);
        /* The one call the other has made, as far as it goes; but there is no second. */
        EXPECT(tfos_group_call(self->group, NULL, 0, NULL, NULL, &self->error) == TFOS_OK);
        EXPECT(tfos_group_call(self->group, NULL, 0, NULL, NULL, &self->error) == TFOS_CANCELLED);
    }
    helper_leave_error(self->folder, tfos_group_rank(self->group), self->error.message);
}

static void program_main(int argc, char **argv)
{
    if (argc != 5 || strcmp(argv[1], "program") != 0) {
        return;
    }
    const char *mode = argv[2];
    program *self = &(program){.folder = argv[4]};
    if (strcmp(mode, "absent") == 0 && strstr(getenv("TF_CONFIG"), "\"index\":1") != NULL) {
        exit(0);
    }
    tfos_status status = tfos_group_open(NULL, &self->group, &self->error);
    if (strcmp(mode, "absent") == 0) {
        EXPECT(status == TFOS_CANCELLED);
        EXPECT(strstr(self->error.message, "worker:1 on 127.0.0.1 has ended without coming") != NULL);
        exit(0);
    }
    EXPECT(status == TFOS_OK);
    if (strcmp(mode, "compute") == 0) {
        compute(self);
        join(self);
        meet_again(self);
    } else if (strcmp(mode, "interrupt") == 0) {
        be_interrupted(self);
    } else {
        part_ways(self, mode);
    }
    tfos_group_close(self->group);
    exit(0);
}

/* ---- the stories ---- */

/* As if each worker were on a host of its own. */
static const char *const apart[] = {"collective.shared=0", NULL};

/* Clusters of so many workers and more. */
static void compute_on(int32_t least, const char *const *settings)
{
    for (int32_t nodes = least; nodes <= HELPER_NODES_MOST; nodes++) {
        helper_cluster it;
        helper_cluster_open(&it, nodes, "compute", 1, settings);
        helper_cluster_close(&it);
    }
}

static void test_they_compute(void **state)
{
    (void)state;
    compute_on(1, NULL);
}

static void test_they_compute_far(void **state)
{
    (void)state;
    compute_on(2, apart);
}

static void test_one_never_comes(void **state)
{
    (void)state;
    helper_cluster it;
    helper_cluster_open(&it, 2, "absent", 1, NULL);
    helper_cluster_close(&it);
}

static void let_one_die(const char *const *settings)
{
    helper_cluster it;
    helper_cluster_open(&it, 3, "die", 1, settings);
    helper_cluster_wait_failure(&it);
    helper_expect_in(it.failure, "SIGKILL");
    helper_cluster_abandon(&it);
}

static void test_one_dies(void **state)
{
    (void)state;
    let_one_die(NULL);
}

static void test_one_dies_far(void **state)
{
    (void)state;
    let_one_die(apart);
}

/* Its node sees that the program does not show that it lives. */
static void test_one_stands_still(void **state)
{
    (void)state;
    helper_cluster it;
    helper_cluster_open(&it, 2, "stop", 1, (const char *const[]){"cluster.beat_ms=50", "cluster.lease_ms=1000", NULL});
    helper_cluster_wait_failure(&it);
    helper_expect_in(it.failure, "has not shown that it lives for 1 s (cluster.lease_ms)");
    helper_cluster_abandon(&it);
}

static void let_one_leave(const char *const *settings)
{
    helper_cluster it;
    helper_cluster_open(&it, 3, "leave", 1, settings);
    helper_expect_in(helper_cluster_error_of(&it, 0), "worker:2 on 127.0.0.1 has left");
    helper_expect_in(helper_cluster_error_of(&it, 1), "worker:2 on 127.0.0.1 has left");
    helper_cluster_abandon(&it);
}

static void test_one_leaves(void **state)
{
    (void)state;
    let_one_leave(NULL);
}

static void test_one_leaves_far(void **state)
{
    (void)state;
    let_one_leave(apart);
}

/* Whoever waits longest says so, and names the one that all wait for, not the next host. */
static void test_one_dawdles_far(void **state)
{
    (void)state;
    helper_cluster it;
    const char *const settings[] = {"collective.shared=0", "collective.timeout_ms=2500", NULL};
    helper_cluster_open(&it, 4, "dawdle", 1, settings);
    for (size_t rank = 0; rank < 3; rank++) {
        helper_expect_in(helper_cluster_error_of(&it, rank),
                         "has waited for worker:3 on 127.0.0.1 for 2 s (collective.timeout_ms), which "
                         "lives and does not come to sum of int64[1]");
    }
    helper_cluster_abandon(&it);
}

/* It lives, and does not come. */
static void test_one_dawdles(void **state)
{
    (void)state;
    helper_cluster it;
    helper_cluster_open(&it, 2, "dawdle", 1, (const char *const[]){"collective.timeout_ms=700", NULL});
    helper_expect_in(helper_cluster_error_of(&it, 0),
                     "has waited for worker:1 on 127.0.0.1 for 0 s (collective.timeout_ms), which lives and "
                     "does not come to sum of int64[1]");
    helper_cluster_abandon(&it);
}

static void let_one_differ(const char *const *settings)
{
    helper_cluster it;
    helper_cluster_open(&it, 3, "differ", 1, settings);
    for (size_t rank = 0; rank < 3; rank++) {
        helper_expect_in(helper_cluster_error_of(&it, rank),
                         "worker:0 on 127.0.0.1 wants the sum of int64[1], and worker:2 on 127.0.0.1 the "
                         "sum of int64[2]");
    }
    helper_cluster_close(&it);
}

static void test_one_does_something_else(void **state)
{
    (void)state;
    let_one_differ(NULL);
}

static void test_one_does_something_else_far(void **state)
{
    (void)state;
    let_one_differ(apart);
}

static void interrupt_one(const char *const *settings)
{
    helper_cluster it;
    helper_cluster_open(&it, 2, "interrupt", 1, settings);
    helper_expect_in(helper_cluster_error_of(&it, 0),
                     "worker:0 on 127.0.0.1 was interrupted while it waited for worker:1");
    helper_expect_in(helper_cluster_error_of(&it, 1),
                     "worker:0 on 127.0.0.1 was interrupted while it waited for worker:1");
    helper_cluster_close(&it);
}

static void test_one_is_interrupted(void **state)
{
    (void)state;
    interrupt_one(NULL);
}

static void test_one_is_interrupted_far(void **state)
{
    (void)state;
    interrupt_one(apart);
}

/* A process that no node has started computes with itself. */
static void test_alone(void **state)
{
    (void)state;
    tfos_error error;
    tfos_group *group;
    double mean = 3;
    size_t last = 7;
    unsetenv("TFOS_GROUP_FD");
    const tfos_part part = {
        .element = TFOS_ELEMENT_FLOAT64, .merge = TFOS_MERGE_WEIGHTED_MEAN, .input = &mean, .output = &mean};
    assert_int_equal(tfos_group_open(NULL, &group, &error), TFOS_OK);
    assert_int_equal(tfos_group_size(group), 1);
    assert_int_equal(tfos_group_call(group, &part, 1, NULL, NULL, &error), TFOS_OK);
    assert_true(mean == 3);
    assert_int_equal(tfos_group_join(group, NULL, &last, &error), TFOS_OK);
    assert_int_equal(last, 0);
    tfos_group_close(group);
    setenv("TFOS_GROUP_FD", "nonsense", 1);
    assert_int_equal(tfos_group_open(NULL, &group, &error), TFOS_INVALID);
    helper_expect_in(error.message, "found 'nonsense'");
    unsetenv("TFOS_GROUP_FD");
}

int main(int argc, char **argv)
{
    program_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_they_compute),
        cmocka_unit_test(test_one_never_comes),
        cmocka_unit_test(test_one_dies),
        cmocka_unit_test(test_one_stands_still),
        cmocka_unit_test(test_one_leaves),
        cmocka_unit_test(test_one_dawdles),
        cmocka_unit_test(test_one_does_something_else),
        cmocka_unit_test(test_one_is_interrupted),
        cmocka_unit_test(test_they_compute_far),
        cmocka_unit_test(test_one_dies_far),
        cmocka_unit_test(test_one_leaves_far),
        cmocka_unit_test(test_one_dawdles_far),
        cmocka_unit_test(test_one_does_something_else_far),
        cmocka_unit_test(test_one_is_interrupted_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
