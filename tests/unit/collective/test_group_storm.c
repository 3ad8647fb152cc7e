/* Storms: programs of a real cluster make random calls, of nothing and of 64 MiB, some of them slowly, until one of
 * them is killed, stopped or asleep. Everything that comes out before is what it must be, on all of them; then the
 * driver hears of the right one, or each of the others does, in time. On one host, over the network, and on two hosts
 * with workers on both. TFOS_GROUP_STORMS says how many of each (one): more than three take longer than ctest
 * waits. */
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

#include "base/bytes.h"
#include "base/clock.h"
#include "helper_cluster.h"
#include "helper_hosts.h"
#include "helper_random.h"
#include "helper_records.h"

enum { CALLS = 40, WORKERS = 4 };

/* What becomes of the victim at some call. */
static const char *const fates[] = {"killed", "stopped", "asleep", "spared"};

enum { FATES = sizeof fates / sizeof *fates };

typedef struct storm {
    uint64_t seed;
    size_t victim;
    uint64_t call;
    size_t fate;
} storm;

static storm draw_storm(uint64_t seed)
{
    uint64_t random = seed * 7919 + 1;
    storm it = {.seed = seed};
    it.fate = seed % FATES;
    it.victim = helper_draw(&random, WORKERS);
    it.call = 5 + helper_draw(&random, CALLS - 5);
    return it;
}

/* ---- a program ---- */

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "seed %llu, call %llu, worker %zu: %s: %s\n", (unsigned long long)self->seed,              \
                    (unsigned long long)call, tfos_group_rank(group), #condition, error.message);                      \
            exit(3);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Elements of the tensors of a call: mostly few, now and then 64 MiB. */
static size_t draw_count(uint64_t *random)
{
    static const size_t counts[] = {0, 1, 63, 1000, 20000, 300000, 2000000};
    bool huge = helper_draw(random, 40) == 0;
    return huge ? (size_t)16 << 20 : helper_draw(random, counts[helper_draw(random, 7)] + 1);
}

static float number_of(uint64_t call, size_t rank, size_t i)
{
    return (float)((call * 31 + rank * 17 + i) % 1024) / 16.0F; /* sums of these are exact */
}

/* One call: floats that are summed, rows that are gathered, and whether everybody has got the same. */
static tfos_status make_call(const storm *self, tfos_group *group, uint64_t call, tfos_error *message)
{
    uint64_t random = self->seed * 1000 + call;
    size_t count = draw_count(&random);
    size_t rows = helper_draw(&random, 5) == 0 ? helper_draw(&random, 100000) : helper_draw(&random, 50);
    size_t rank = tfos_group_rank(group);
    size_t size = tfos_group_size(group);
    tfos_error error = {0};
    tfos_call_result result;
    float *numbers = malloc((count + 1) * sizeof *numbers);
    int64_t *mine = malloc((rows * (rank + 1) + 1) * sizeof *mine);
    EXPECT(numbers != NULL && mine != NULL);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = number_of(call, rank, i);
    }
    for (size_t i = 0; i < rows * rank; i++) {
        mine[i] = (int64_t)(call * 1000003 + rank * 101 + i);
    }
    const tfos_part parts[] = {
        {.merge = TFOS_MERGE_SUM, .dimensions = 1, .shape = {(int64_t)count}, .input = numbers, .output = numbers},
        {.element = TFOS_ELEMENT_INT64,
         .merge = TFOS_MERGE_GATHER,
         .dimensions = 1,
         .shape = {(int64_t)(rows * rank)},
         .input = mine}};
    tfos_status status = tfos_group_call(group, parts, 2, NULL, &result, &error);
    for (size_t i = 0; status == TFOS_OK && i < count; i++) {
        float sum = 0;
        for (size_t other = 0; other < size; other++) {
            sum += number_of(call, other, i);
        }
        EXPECT(numbers[i] == sum);
    }
    size_t at = 0;
    for (size_t other = 0; status == TFOS_OK && other < size; other++) {
        EXPECT(result.rows[other] == rows * other);
        for (size_t i = 0; i < rows * other; i++) {
            EXPECT(((const int64_t *)result.gathered[0])[at++] == (int64_t)(call * 1000003 + other * 101 + i));
        }
    }
    if (status == TFOS_OK) {
        tfos_call_result_reset(&result);
    }
    free(numbers);
    free(mine);
    *message = error;
    return status;
}

static void meet_fate(const storm *self)
{
    if (strcmp(fates[self->fate], "killed") == 0) {
        raise(SIGKILL);
    } else if (strcmp(fates[self->fate], "stopped") == 0) {
        raise(SIGSTOP);
    } else if (strcmp(fates[self->fate], "asleep") == 0) {
        poll(NULL, 0, 600000);
    }
}

static void program_main(int argc, char **argv)
{
    if (argc != 5 || strcmp(argv[1], "program") != 0) {
        return;
    }
    const storm it = draw_storm(strtoull(argv[2], NULL, 10));
    const storm *self = &it;
    tfos_group *group = NULL;
    tfos_error error = {0};
    if (tfos_group_open(NULL, &group, &error) != TFOS_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(3);
    }
    size_t rank = tfos_group_rank(group);
    uint64_t random = self->seed * 31 + rank;
    for (uint64_t call = 0; call < CALLS; call++) {
        if (rank == self->victim && call == self->call) {
            meet_fate(self);
        }
        if (helper_draw(&random, 20) == 0) {
            poll(NULL, 0, (int)helper_draw(&random, 30));
        }
        if (make_call(self, group, call, &error) != TFOS_OK) {
            /* Only behind the victim's call, and all must have come as far. */
            EXPECT(strcmp(fates[self->fate], "spared") != 0 && call >= self->call && call <= self->call + 1);
            helper_leave_error(argv[4], rank, error.message);
            poll(NULL, 0, 600000); /* whose failure the driver hears of is the victim's */
        }
    }
    tfos_group_close(group);
    exit(0);
}

/* ---- the driver ---- */

static void expect_failure(helper_cluster *it, const char *part, const char *victim)
{
    helper_cluster_wait_failure(it);
    helper_expect_in(it->failure, victim);
    helper_expect_in(it->failure, part);
}

/* Everybody else is told who does not come. */
static void expect_errors(helper_cluster *it, size_t victim, const char *name)
{
    for (size_t rank = 0; rank < WORKERS; rank++) {
        if (rank != victim) {
            helper_expect_in(helper_cluster_error_of(it, rank), name);
            helper_expect_in(helper_cluster_error_of(it, rank), "lives and does not come");
        }
    }
}

static void weather(uint64_t seed, const char *const *settings)
{
    const storm story = draw_storm(seed);
    helper_cluster it;
    char mode[24];
    char name[32];
    snprintf(mode, sizeof mode, "%llu", (unsigned long long)seed);
    snprintf(name, sizeof name, "worker:%zu", story.victim);
    helper_cluster_open(&it, WORKERS, mode, 1, settings);
    if (strcmp(fates[story.fate], "killed") == 0) {
        expect_failure(&it, "SIGKILL", name);
        helper_cluster_abandon(&it);
    } else if (strcmp(fates[story.fate], "stopped") == 0) {
        expect_failure(&it, "has not shown that it lives", name);
        helper_cluster_abandon(&it);
    } else if (strcmp(fates[story.fate], "asleep") == 0) {
        expect_errors(&it, story.victim, name);
        helper_cluster_abandon(&it);
    } else {
        helper_cluster_close(&it);
    }
}

static void weather_some(const char *const *settings, uint64_t first)
{
    const char *text = getenv("TFOS_GROUP_STORMS");
    uint64_t count = text != NULL ? strtoull(text, NULL, 10) : 1;
    for (uint64_t i = 0; i < count * FATES; i++) {
        weather(first + i, settings);
    }
}

static const char *const near_settings[] = {"cluster.beat_ms=50", "cluster.lease_ms=4000", "collective.timeout_ms=8000",
                                            NULL};
static const char *const far_settings[] = {"cluster.beat_ms=50", "cluster.lease_ms=4000", "collective.timeout_ms=8000",
                                           "collective.shared=0", NULL};

static void test_on_one_host(void **state)
{
    (void)state;
    weather_some(near_settings, 0);
}

static void test_over_the_network(void **state)
{
    (void)state;
    weather_some(far_settings, 1000);
}

static void test_on_two_hosts(void **state)
{
    (void)state;
    if (helper_other_host == 0) {
        skip();
    }
    helper_cluster_other_host = HELPER_OTHER_ADDRESS;
    weather_some(near_settings, 2000);
    helper_cluster_other_host = NULL;
}

int main(int argc, char **argv)
{
    program_main(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_on_one_host),
        cmocka_unit_test(test_over_the_network),
        cmocka_unit_test(test_on_two_hosts),
    };
    helper_hosts_make();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    helper_hosts_end();
    return failed;
}
