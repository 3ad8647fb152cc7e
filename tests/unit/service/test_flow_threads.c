/* Flows: every item once, in order, and the first failure of all, however many threads there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "service/flow.h"

enum { ITEMS = 2000, NOWHERE = ITEMS + 1 };

typedef struct scene {
    int taken;
    int finished;
    int next_fails_at;
    int work_fails_at[2];
    int finish_fails_at;
    atomic_int alive; /* items */
    atomic_int most;  /* of them at a time */
} scene;

typedef struct item {
    scene *of;
    int number;
    unsigned worked;
} item;

static scene scene_without_failure(void)
{
    return (scene){.next_fails_at = NOWHERE, .work_fails_at = {NOWHERE, NOWHERE}, .finish_fails_at = NOWHERE};
}

static tfos_status next(void *context, void **out, tfos_error *error)
{
    scene *self = context;
    if (self->taken == self->next_fails_at) {
        return tfos__fail(error, TFOS_CORRUPT, "taken: %d", self->taken);
    }
    if (self->taken == ITEMS) {
        return TFOS_END;
    }
    item *made = malloc(sizeof *made);
    assert_non_null(made);
    *made = (item){self, self->taken++, 0};
    int alive = atomic_fetch_add(&self->alive, 1) + 1;
    if (alive > atomic_load(&self->most)) {
        atomic_store(&self->most, alive); /* one call at a time */
    }
    *out = made;
    return TFOS_OK;
}

/* Of lengths that differ, so that later items are done before earlier ones. */
static tfos_status work(void *context, void *of, tfos_error *error)
{
    scene *self = context;
    item *at = of;
    int turns = at->number * 7919 % 3000;
    for (int i = 0; i < turns; i++) {
        at->worked = at->worked * 31 + (unsigned)i;
    }
    for (int i = 0; i < 2; i++) {
        if (at->number == self->work_fails_at[i]) {
            return tfos__fail(error, TFOS_RANGE, "worked on: %d", at->number);
        }
    }
    return TFOS_OK;
}

static tfos_status finish(void *context, void *of, tfos_error *error)
{
    scene *self = context;
    const item *at = of;
    if (at->number == self->finish_fails_at) {
        return tfos__fail(error, TFOS_NO_SPACE, "finished: %d", at->number);
    }
    assert_int_equal(at->number, self->finished);
    self->finished++;
    return TFOS_OK;
}

static void free_item(void *of)
{
    item *at = of;
    atomic_fetch_sub(&at->of->alive, 1);
    free(at);
}

static tfos_status run(scene *self, int threads, tfos_error *error)
{
    const tfos__flow flow = {
        .threads = threads, .next = next, .work = work, .finish = finish, .free_item = free_item, .context = self};
    tfos_status status = tfos__flow_run(&flow, error);
    assert_int_equal(atomic_load(&self->alive), 0);
    assert_true(atomic_load(&self->most) <= threads);
    return status;
}

static void expect_failure(scene self, tfos_status status, const char *message, int finished)
{
    for (int threads = 1; threads <= 8; threads++) {
        scene copy = self;
        tfos_error error;
        assert_int_equal(run(&copy, threads, &error), status);
        assert_string_equal(error.message, message);
        assert_int_equal(copy.finished, finished);
        assert_true(copy.taken <= finished + 2 * threads + 1); /* and nothing much behind it */
    }
}

static void test_every_item_in_order(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 8; threads++) {
        tfos_error error;
        scene self = scene_without_failure();
        assert_int_equal(run(&self, threads, &error), TFOS_OK);
        assert_int_equal(self.finished, ITEMS);
    }
}

static void test_the_first_failure_is_told(void **state)
{
    (void)state;
    scene self = scene_without_failure();
    self.work_fails_at[0] = 703;
    self.work_fails_at[1] = 701;
    expect_failure(self, TFOS_RANGE, "worked on: 701", 701);
    self = scene_without_failure();
    self.finish_fails_at = 500;
    self.work_fails_at[0] = 501;
    expect_failure(self, TFOS_NO_SPACE, "finished: 500", 500);
}

static void test_what_was_taken_before_a_failure_is_finished(void **state)
{
    (void)state;
    scene self = scene_without_failure();
    self.next_fails_at = 300;
    expect_failure(self, TFOS_CORRUPT, "taken: 300", 300);
    self.next_fails_at = 0;
    expect_failure(self, TFOS_CORRUPT, "taken: 0", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_item_in_order),
        cmocka_unit_test(test_the_first_failure_is_told),
        cmocka_unit_test(test_what_was_taken_before_a_failure_is_finished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
