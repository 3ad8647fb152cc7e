/* Calls of several processes over a board. Each of them can make the tensors of all, from the seed, and so knows by
 * itself what must come out, bit for bit. test_run_threads.c has them as threads of one process, which ThreadSanitizer
 * sees through. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/status.h"
#include "collective/reduce.h"
#include "collective/run.h"
#include "helper_random.h"

enum { RANKS_MOST = 8, PARTS_MOST = 12, LIMIT_MS = 60000 };

/* ---- processes ---- */

typedef struct worker {
    size_t rank;
    size_t ranks;
    uint64_t seed;
    int64_t deadline_ms;
    tfos__board *board;
    tfos__runner *runner;
} worker;

static const char *name(void *context, size_t rank)
{
    (void)context;
    static const char *const names[RANKS_MOST] = {"worker:0", "worker:1", "worker:2", "worker:3",
                                                  "worker:4", "worker:5", "worker:6", "worker:7"};
    return names[rank];
}

/* A stage that was waited for too long. */
static tfos_status look(void *context, size_t missing, tfos_error *error)
{
    const worker *self = context;
    if (tfos__clock_ms() > self->deadline_ms) {
        return tfos__fail(error, TFOS_IO, "%s does not come", name(NULL, missing));
    }
    return TFOS_OK;
}

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: rank %zu of %zu, seed %llu: %s\n", __FILE__, __LINE__, self->rank, self->ranks,    \
                    (unsigned long long)self->seed, #condition);                                                       \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

typedef void story(worker *self);

/* What a worker is started with. */
typedef struct start {
    tfos__board *board;
    size_t rank;
    uint64_t seed;
    int64_t patience_ms;
    story *tell;
} start;

static void *run_worker(void *context)
{
    const start *given = context;
    worker self = {.rank = given->rank,
                   .ranks = tfos__board_ranks(given->board),
                   .seed = given->seed,
                   .deadline_ms = tfos__clock_ms() + given->patience_ms,
                   .board = given->board};
    const tfos__runner_options options = {
        .board = given->board, .rank = given->rank, .name = name, .look = look, .context = &self};
    if (tfos__runner_new(&options, &self.runner, NULL) != TFOS_OK) {
        _exit(2);
    }
    given->tell(&self);
    tfos__runner_free(self.runner);
    return NULL;
}

#ifdef WITH_THREADS
typedef pthread_t started;

static started begin(start *given)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_worker, given), 0);
    return thread;
}

static bool end(started thread)
{
    return pthread_join(thread, NULL) == 0;
}
#else
typedef pid_t started;

static started begin(start *given)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        run_worker(given);
        _exit(0);
    }
    return pid;
}

static bool end(started pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
#endif

/* Has so many workers tell a story, and expects that of each. */
static void run_together(size_t ranks, size_t slot_bytes, uint64_t seed, int64_t patience_ms, story *tell)
{
    tfos__board *board;
    started workers[RANKS_MOST];
    start starts[RANKS_MOST];
    assert_int_equal(tfos__board_new(ranks, slot_bytes, &board, NULL), TFOS_OK);
    for (size_t rank = 0; rank < ranks; rank++) {
        starts[rank] = (start){board, rank, seed, patience_ms, tell};
        workers[rank] = begin(&starts[rank]);
    }
    bool well = true;
    for (size_t rank = 0; rank < ranks; rank++) {
        well = end(workers[rank]) && well;
    }
    tfos__board_free(board);
    assert_true(well);
}

/* ---- tensors that everybody can make ---- */

static uint64_t mix(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t state = seed * 1000003 + a * 8191 + b;
    return helper_draw(&state, UINT64_MAX);
}

static void fill(tfos_element element, size_t count, uint64_t seed, void *at)
{
    for (size_t i = 0; i < count; i++) {
        float number = ((float)helper_draw(&seed, 20001) - 10000.f) / 64.f;
        switch (element) {
        case TFOS_ELEMENT_FLOAT32:
            ((float *)at)[i] = number;
            break;
        case TFOS_ELEMENT_FLOAT64:
            ((double *)at)[i] = (double)number * 1.000001;
            break;
        case TFOS_ELEMENT_INT32:
            ((int32_t *)at)[i] = (int32_t)helper_draw(&seed, UINT64_C(1) << 32);
            break;
        case TFOS_ELEMENT_INT64:
            ((int64_t *)at)[i] = (int64_t)helper_draw(&seed, UINT64_MAX);
            break;
        default:
            tfos__element_convert(TFOS_ELEMENT_FLOAT32, &number, 1, element, (uint16_t *)at + i);
        }
    }
}

/* A call that was drawn: the same for all workers, but for the rows of what is gathered. */
typedef struct drawn {
    size_t count;
    tfos_element element[PARTS_MOST];
    tfos_merge merge[PARTS_MOST];
    int64_t rows[PARTS_MOST];
    int64_t width[PARTS_MOST];
    size_t root;
    double weight[RANKS_MOST];
    bool joined[RANKS_MOST];
} drawn;

static bool is_whole(tfos_element element)
{
    return element == TFOS_ELEMENT_INT32 || element == TFOS_ELEMENT_INT64;
}

static bool is_gathered(tfos_merge merge)
{
    return merge == TFOS_MERGE_GATHER || merge == TFOS_MERGE_GATHER_WEIGHTED;
}

static drawn draw_call(uint64_t seed, size_t ranks, uint64_t number)
{
    uint64_t random = mix(seed, number, 77);
    drawn it = {.count = helper_draw(&random, PARTS_MOST + 1)};
    for (size_t i = 0; i < it.count; i++) {
        it.element[i] = (tfos_element)helper_draw(&random, TFOS_ELEMENT_INT64 + 1);
        it.merge[i] = (tfos_merge)helper_draw(&random, TFOS_MERGE_GATHER_WEIGHTED + 1);
        if (is_whole(it.element[i]) && it.merge[i] != TFOS_MERGE_BROADCAST && it.merge[i] != TFOS_MERGE_GATHER &&
            it.merge[i] != TFOS_MERGE_MIN && it.merge[i] != TFOS_MERGE_MAX) {
            it.merge[i] = TFOS_MERGE_SUM;
        }
        it.rows[i] = (int64_t)helper_draw(&random, helper_draw(&random, 3) == 0 ? 3000 : 30);
        it.width[i] = (int64_t)helper_draw(&random, 9);
    }
    it.root = helper_draw(&random, ranks);
    for (size_t rank = 0; rank < ranks; rank++) {
        it.weight[rank] = helper_draw(&random, 5) == 0 ? 0 : (double)(1 + helper_draw(&random, 200));
    }
    return it;
}

/* Rows of a part that a worker has. */
static int64_t rows_of(const drawn *it, uint64_t seed, uint64_t number, size_t part, size_t rank)
{
    uint64_t random = mix(seed, number * 100 + part, rank);
    return is_gathered(it->merge[part]) ? (int64_t)helper_draw(&random, (uint64_t)it->rows[part] + 1) : it->rows[part];
}

static uint8_t *tensor_of(const drawn *it, uint64_t seed, uint64_t number, size_t part, size_t rank, size_t *count)
{
    *count = (size_t)(rows_of(it, seed, number, part, rank) * it->width[part]);
    uint8_t *at = malloc(*count * 8 + 8);
    fill(it->element[part], *count, mix(seed, number * 100 + part, rank + 1000), at);
    return at;
}

/* ---- what must come out ---- */

static double scale_of(const drawn *it, size_t ranks, tfos_merge merge, size_t rank)
{
    double all = 0;
    size_t contributors = 0;
    for (size_t r = 0; r < ranks; r++) {
        all += it->joined[r] ? 0 : it->weight[r];
        contributors += !it->joined[r] && it->weight[r] != 0 ? 1 : 0;
    }
    return merge == TFOS_MERGE_MEAN                                                   ? 1.0 / (double)contributors
           : merge == TFOS_MERGE_WEIGHTED_MEAN || merge == TFOS_MERGE_GATHER_WEIGHTED ? it->weight[rank] / all
                                                                                      : 1;
}

static void expect_reduced(const worker *self, const drawn *it, uint64_t number, size_t part, const void *found)
{
    tfos__operand operands[RANKS_MOST];
    uint8_t *tensors[RANKS_MOST];
    size_t used = 0;
    size_t count = 0;
    tfos_merge merge = it->merge[part];
    size_t element_bytes = tfos_element_bytes(it->element[part]);
    for (size_t rank = 0; rank < self->ranks; rank++) {
        tensors[rank] = tensor_of(it, self->seed, number, part, rank, &count);
        if (!it->joined[rank] && it->weight[rank] != 0) {
            operands[used++] = (tfos__operand){tensors[rank], scale_of(it, self->ranks, merge, rank)};
        }
    }
    uint8_t *expected = malloc(count * 8 + 8);
    if (merge == TFOS_MERGE_BROADCAST) {
        memcpy(expected, tensors[it->root], count * element_bytes);
    } else {
        tfos__reduce(merge == TFOS_MERGE_MIN   ? TFOS__REDUCE_LEAST
                     : merge == TFOS_MERGE_MAX ? TFOS__REDUCE_GREATEST
                                               : TFOS__REDUCE_SUM,
                     it->element[part], operands, used, count, it->element[part], expected);
    }
    EXPECT(memcmp(expected, found, count * element_bytes) == 0);
    for (size_t rank = 0; rank < self->ranks; rank++) {
        free(tensors[rank]);
    }
    free(expected);
}

static void expect_gathered(const worker *self, const drawn *it, uint64_t number, size_t part, const uint64_t *rows,
                            const uint8_t *found)
{
    size_t at = 0;
    size_t element_bytes = tfos_element_bytes(it->element[part]);
    for (size_t rank = 0; rank < self->ranks; rank++) {
        size_t count;
        uint8_t *tensor = tensor_of(it, self->seed, number, part, rank, &count);
        bool left_out = it->joined[rank] || it->weight[rank] == 0;
        EXPECT(rows[rank] == (left_out ? 0 : (uint64_t)rows_of(it, self->seed, number, part, rank)));
        if (!left_out) {
            const tfos__operand operand = {tensor, scale_of(it, self->ranks, it->merge[part], rank)};
            uint8_t *expected = malloc(count * 8 + 8);
            tfos__reduce(TFOS__REDUCE_SUM, it->element[part], &operand, 1, count, it->element[part], expected);
            EXPECT(memcmp(expected, found + at, count * element_bytes) == 0);
            at += count * element_bytes;
            free(expected);
        }
        free(tensor);
    }
}

/* ---- a call of this worker ---- */

static void make_call(worker *self, const drawn *it, uint64_t number)
{
    tfos_part parts[PARTS_MOST];
    uint8_t *inputs[PARTS_MOST];
    uint8_t *outputs[PARTS_MOST];
    tfos_error error = {0};
    tfos__call call;
    tfos_call_result outcome;
    for (size_t i = 0; i < it->count; i++) {
        size_t count;
        inputs[i] = tensor_of(it, self->seed, number, i, self->rank, &count);
        outputs[i] = (number + i) % 2 == 0 ? inputs[i] : malloc(count * 8 + 8);
        parts[i] = (tfos_part){.element = it->element[i],
                               .merge = it->merge[i],
                               .dimensions = 2,
                               .shape = {rows_of(it, self->seed, number, i, self->rank), it->width[i]},
                               .input = inputs[i],
                               .output = is_gathered(it->merge[i]) ? NULL : outputs[i]};
    }
    EXPECT(tfos__call_init(&call, parts, it->count, "here", &error) == TFOS_OK);
    tfos_status status = tfos__runner_call(self->runner, &call, it->weight[self->rank], it->root, &outcome, &error);
    if (status != TFOS_OK) {
        fprintf(stderr, "%s\n", error.message);
    }
    EXPECT(status == TFOS_OK);
    size_t gathered = 0;
    for (size_t i = 0; i < it->count; i++) {
        if (is_gathered(it->merge[i])) {
            expect_gathered(self, it, number, i, outcome.rows + gathered * self->ranks, outcome.gathered[gathered]);
            gathered++;
        } else {
            expect_reduced(self, it, number, i, outputs[i]);
        }
    }
    EXPECT(gathered == outcome.gathered_count);
    for (size_t i = 0; i < it->count; i++) {
        free(outputs[i] != inputs[i] ? outputs[i] : NULL);
        free(inputs[i]);
    }
    tfos_call_result_reset(&outcome);
    tfos__call_reset(&call);
}

static void tell_calls(worker *self)
{
    for (uint64_t number = 0; number < 25; number++) {
        drawn it = draw_call(self->seed, self->ranks, number);
        make_call(self, &it, number);
    }
}

static void test_everybody_gets_the_same_bits(void **state)
{
    (void)state;
    for (size_t ranks = 1; ranks <= RANKS_MOST; ranks++) {
        run_together(ranks, ranks % 2 == 0 ? 4096 : 262144, ranks, LIMIT_MS, tell_calls);
    }
}

/* ---- joining ---- */

enum { ROUNDS = 3, CALLS_MOST = 12 };

/* Calls that a worker makes before it joins. */
static uint64_t calls_of(uint64_t seed, uint64_t round, size_t rank)
{
    return mix(seed, round, 500 + rank) % CALLS_MOST;
}

static void tell_joins(worker *self)
{
    for (uint64_t round = 0; round < ROUNDS; round++) {
        size_t newest = 0;
        for (size_t rank = 1; rank < self->ranks; rank++) {
            bool later = calls_of(self->seed, round, rank) > calls_of(self->seed, round, newest);
            newest = later ? rank : newest;
        }
        for (uint64_t i = 0; i < calls_of(self->seed, round, self->rank); i++) {
            drawn it = draw_call(self->seed, self->ranks, round * 100 + i);
            for (size_t rank = 0; rank < self->ranks; rank++) {
                it.joined[rank] = i >= calls_of(self->seed, round, rank);
            }
            while (it.joined[it.root]) {
                it.root = (it.root + 1) % self->ranks;
            }
            make_call(self, &it, round * 100 + i);
        }
        size_t last = SIZE_MAX;
        EXPECT(tfos__runner_join(self->runner, &last, NULL) == TFOS_OK);
        EXPECT(last == newest);
    }
}

static void test_whoever_has_joined_is_not_waited_for(void **state)
{
    (void)state;
    for (size_t ranks = 1; ranks <= 5; ranks++) {
        for (uint64_t seed = 0; seed < 4; seed++) {
            run_together(ranks, seed % 2 == 0 ? 4096 : 65536, seed, LIMIT_MS, tell_joins);
        }
    }
}

/* ---- weight ---- */

/* What has no weight is not read, whatever it is. */
static void tell_nan_without_weight(worker *self)
{
    float in[1000];
    float out[1000];
    for (size_t i = 0; i < 1000; i++) {
        in[i] = self->rank == 1 ? NAN : (float)self->rank + 1;
    }
    for (int merge = TFOS_MERGE_SUM; merge <= TFOS_MERGE_MAX; merge++) {
        const tfos_part part = {.element = TFOS_ELEMENT_FLOAT32,
                                .merge = (tfos_merge)merge,
                                .dimensions = 1,
                                .shape = {1000},
                                .input = in,
                                .output = out};
        tfos__call call;
        tfos_call_result outcome;
        EXPECT(tfos__call_init(&call, &part, 1, "", NULL) == TFOS_OK);
        EXPECT(tfos__runner_call(self->runner, &call, self->rank == 1 ? 0 : 1, 0, &outcome, NULL) == TFOS_OK);
        EXPECT(outcome.contributors == self->ranks - 1 && outcome.weight == (double)(self->ranks - 1));
        for (size_t i = 0; i < 1000; i++) {
            EXPECT(isfinite(out[i]));
        }
        tfos__call_reset(&call);
    }
}

static void test_nan_without_weight_does_no_harm(void **state)
{
    (void)state;
    run_together(2, 4096, 0, LIMIT_MS, tell_nan_without_weight);
    run_together(4, 4096, 0, LIMIT_MS, tell_nan_without_weight);
}

/* ---- trouble ---- */

static tfos_status reduce_floats(worker *self, int64_t count, const char *about, tfos_error *error)
{
    float *at = calloc((size_t)count + 1, sizeof *at);
    const tfos_part part = {.element = TFOS_ELEMENT_FLOAT32,
                            .merge = TFOS_MERGE_SUM,
                            .dimensions = 1,
                            .shape = {count},
                            .input = at,
                            .output = at};
    tfos__call call;
    tfos_call_result outcome;
    EXPECT(tfos__call_init(&call, &part, 1, about, NULL) == TFOS_OK);
    tfos_status status = tfos__runner_call(self->runner, &call, 1, 0, &outcome, error);
    tfos__call_reset(&call);
    free(at);
    return status;
}

static void tell_mismatch(worker *self)
{
    tfos_error error;
    EXPECT(reduce_floats(self, 10, "", NULL) == TFOS_OK);
    EXPECT(reduce_floats(self, self->rank == 2 ? 11 : 10, "", &error) == TFOS_MISMATCH);
    EXPECT(strstr(error.message, "worker:0") != NULL && strstr(error.message, "worker:2") != NULL);
    EXPECT(strstr(error.message, "sum of float32[10]") != NULL && strstr(error.message, "sum of float32[11]") != NULL);
    EXPECT(reduce_floats(self, 10, "", &error) == TFOS_MISMATCH); /* and so it stays */
}

static void test_others_do_something_else(void **state)
{
    (void)state;
    run_together(3, 4096, 0, LIMIT_MS, tell_mismatch);
}

/* Nobody waits for ever for one that is gone, and all say who it is. */
static void tell_absence(worker *self)
{
    tfos_error error;
    EXPECT(reduce_floats(self, 10, "", NULL) == TFOS_OK);
    if (self->rank == 1) {
        return;
    }
    self->deadline_ms = tfos__clock_ms() + 300;
    EXPECT(reduce_floats(self, 1000000, "", &error) == TFOS_IO);
    EXPECT(strstr(error.message, "worker:1 does not come") != NULL);
}

static void test_one_does_not_come(void **state)
{
    (void)state;
    run_together(3, 4096, 0, LIMIT_MS, tell_absence);
}

/* What one finds out, all hear. */
static void tell_failure(worker *self)
{
    tfos_error error;
    EXPECT(reduce_floats(self, 10, "", NULL) == TFOS_OK);
    if (self->rank == 1) {
        tfos__board_fail(self->board, TFOS_CANCELLED, "the disk is full");
        return;
    }
    EXPECT(reduce_floats(self, 10, "", &error) == TFOS_CANCELLED);
    EXPECT(strstr(error.message, "the disk is full") != NULL);
}

static void test_a_failure_is_told(void **state)
{
    (void)state;
    run_together(3, 4096, 0, LIMIT_MS, tell_failure);
}

static void test_calls_that_cannot_be(void **state)
{
    (void)state;
    float number = 1;
    tfos__call call;
    tfos_error error;
    tfos_part part = {.element = TFOS_ELEMENT_INT32, .merge = TFOS_MERGE_MEAN, .input = &number, .output = &number};
    assert_int_equal(tfos__call_init(&call, &part, 1, "", &error), TFOS_INVALID);
    assert_non_null(strstr(error.message, "would not be whole"));
    part = (tfos_part){.merge = TFOS_MERGE_GATHER, .input = &number};
    assert_int_equal(tfos__call_init(&call, &part, 1, "", &error), TFOS_INVALID);
    assert_non_null(strstr(error.message, "a scalar cannot be gathered"));
    part = (tfos_part){.dimensions = 2, .shape = {INT64_MAX / 2, 9}};
    assert_int_equal(tfos__call_init(&call, &part, 1, "", &error), TFOS_INVALID);
    part = (tfos_part){.dimensions = 1, .shape = {-1}};
    assert_int_equal(tfos__call_init(&call, &part, 1, "", &error), TFOS_INVALID);
    assert_non_null(strstr(error.message, "dimension 0 is -1"));
    part = (tfos_part){.dimensions = TFOS_PART_DIMENSIONS_MOST + 1};
    assert_int_equal(tfos__call_init(&call, &part, 1, "", &error), TFOS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_gets_the_same_bits),
        cmocka_unit_test(test_whoever_has_joined_is_not_waited_for),
        cmocka_unit_test(test_nan_without_weight_does_no_harm),
        cmocka_unit_test(test_others_do_something_else),
        cmocka_unit_test(test_one_does_not_come),
        cmocka_unit_test(test_a_failure_is_told),
        cmocka_unit_test(test_calls_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
