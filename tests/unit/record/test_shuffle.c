/* Shuffle: nothing is lost, every order is as likely as any other, and the memory does not change the order. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "record/shuffle.h"

static const char *folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder != NULL ? folder : "/tmp";
}

typedef struct collected {
    uint32_t *numbers;
    size_t count;
    size_t fail_at; /* stop there; SIZE_MAX: never */
} collected;

/* A record is its number, then bytes that follow from it, so that one that is damaged is noticed. */
static size_t make_record(uint32_t number, size_t longest, uint8_t *out)
{
    size_t bytes = 4 + (size_t)(number * 2654435761u) % longest;
    tfos__store_u32(out, number);
    memset(out + 4, (int)(number & 0xFF), bytes - 4);
    return bytes;
}

static tfos_status collect(void *context, const void *record, size_t bytes, tfos_error *error)
{
    (void)error;
    collected *self = context;
    if (self->count == self->fail_at) {
        return TFOS_CANCELLED;
    }
    const uint8_t *data = record;
    uint32_t number = tfos__load_u32(data);
    for (size_t i = 4; i < bytes; i++) {
        assert_int_equal(data[i], number & 0xFF);
    }
    self->numbers[self->count++] = number;
    return TFOS_OK;
}

static tfos_status shuffle_numbers(uint64_t seed, size_t memory, uint32_t count, size_t longest, collected *out)
{
    tfos__shuffle *shuffle;
    tfos_error error = {0};
    uint8_t *record = malloc(longest + 4);
    assert_non_null(record);
    assert_int_equal(tfos__shuffle_new(seed, memory, folder(), &shuffle, &error), TFOS_OK);
    tfos_status status = TFOS_OK;
    for (uint32_t i = 0; i < count && status == TFOS_OK; i++) {
        status = tfos__shuffle_add(shuffle, record, make_record(i, longest, record), &error);
    }
    if (status == TFOS_OK) {
        status = tfos__shuffle_drain(shuffle, collect, out, &error);
    }
    assert_int_equal(error.status, status == TFOS_CANCELLED ? TFOS_OK : status);
    tfos__shuffle_free(shuffle);
    free(record);
    return status;
}

static void assert_permutation(const collected *found, uint32_t count)
{
    assert_int_equal(found->count, count);
    uint8_t *seen = calloc(count, 1);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(found->numbers[i] < count);
        assert_int_equal(seen[found->numbers[i]], 0);
        seen[found->numbers[i]] = 1;
    }
    free(seen);
}

static void order_does_not_depend_on_memory(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    collected all = {.numbers = calloc(COUNT, 4), .fail_at = SIZE_MAX};
    assert_int_equal(shuffle_numbers(7, 64 << 20, COUNT, 300, &all), TFOS_OK);
    assert_permutation(&all, COUNT);
    static const size_t memories[] = {TFOS__SHUFFLE_MIN_MEMORY_BYTES, 200000, 1 << 20};
    for (size_t i = 0; i < 3; i++) {
        collected some = {.numbers = calloc(COUNT, 4), .fail_at = SIZE_MAX};
        assert_int_equal(shuffle_numbers(7, memories[i], COUNT, 300, &some), TFOS_OK);
        assert_permutation(&some, COUNT);
        assert_memory_equal(all.numbers, some.numbers, COUNT * 4);
        free(some.numbers);
    }
    collected other = {.numbers = calloc(COUNT, 4), .fail_at = SIZE_MAX};
    assert_int_equal(shuffle_numbers(8, 64 << 20, COUNT, 300, &other), TFOS_OK);
    assert_memory_not_equal(all.numbers, other.numbers, COUNT * 4);
    free(other.numbers);
    free(all.numbers);
}

static void takes_records_larger_than_memory(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    collected found = {.numbers = calloc(COUNT, 4), .fail_at = SIZE_MAX};
    assert_int_equal(shuffle_numbers(1, TFOS__SHUFFLE_MIN_MEMORY_BYTES, COUNT, 300000, &found), TFOS_OK);
    assert_permutation(&found, COUNT);
    free(found.numbers);
}

static void takes_nothing(void **state)
{
    (void)state;
    uint32_t none;
    collected found = {.numbers = &none, .fail_at = SIZE_MAX};
    assert_int_equal(shuffle_numbers(1, TFOS__SHUFFLE_MIN_MEMORY_BYTES, 0, 10, &found), TFOS_OK);
    assert_int_equal(found.count, 0);
}

/* All 24 orders of four records over 24 000 seeds: chi-square with 23 degrees of freedom is above 64 once in 100 000
 * times. */
static void every_order_is_as_likely(void **state)
{
    (void)state;
    enum { SEEDS = 24000 };
    int counts[256] = {0};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint32_t numbers[4];
        collected found = {.numbers = numbers, .fail_at = SIZE_MAX};
        assert_int_equal(shuffle_numbers(seed, TFOS__SHUFFLE_MIN_MEMORY_BYTES, 4, 10, &found), TFOS_OK);
        counts[numbers[0] | numbers[1] << 2 | numbers[2] << 4 | numbers[3] << 6]++;
    }
    double sum = 0;
    int orders = 0;
    for (int i = 0; i < 256; i++) {
        double expected = SEEDS / 24.0;
        orders += counts[i] > 0;
        sum += counts[i] > 0 ? (counts[i] - expected) * (counts[i] - expected) / expected : 0;
    }
    assert_int_equal(orders, 24);
    assert_true(sum < 64);
}

static void passes_failures_on(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    collected found = {.numbers = calloc(COUNT, 4), .fail_at = 500};
    assert_int_equal(shuffle_numbers(1, 64 << 20, COUNT, 300, &found), TFOS_CANCELLED);
    found.count = 0;
    assert_int_equal(shuffle_numbers(1, TFOS__SHUFFLE_MIN_MEMORY_BYTES, COUNT, 300, &found), TFOS_CANCELLED);
    assert_int_equal(found.count, 500);
    free(found.numbers);
}

static int count_files(const char *path)
{
    DIR *directory = opendir(path);
    int count = 0;
    assert_non_null(directory);
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count;
}

static void reports_a_full_disk(void **state)
{
    (void)state;
    struct rlimit before;
    struct rlimit small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100000;
    int files = count_files(folder());
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    uint32_t none[1];
    collected found = {.numbers = none, .fail_at = SIZE_MAX};
    assert_int_equal(shuffle_numbers(1, TFOS__SHUFFLE_MIN_MEMORY_BYTES, 10000, 300, &found), TFOS_NO_SPACE);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(found.count, 0);
    assert_int_equal(count_files(folder()), files);
}

static void reports_a_missing_folder(void **state)
{
    (void)state;
    tfos__shuffle *shuffle;
    tfos_error error;
    static uint8_t record[1 << 20];
    assert_int_equal(tfos__shuffle_new(1, TFOS__SHUFFLE_MIN_MEMORY_BYTES, "/no/such/folder", &shuffle, &error),
                     TFOS_OK);
    assert_int_equal(tfos__shuffle_add(shuffle, record, sizeof record, &error), TFOS_NOT_FOUND);
    assert_non_null(strstr(error.message, "/no/such/folder"));
    tfos__shuffle_free(shuffle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_does_not_depend_on_memory),
        cmocka_unit_test(takes_records_larger_than_memory),
        cmocka_unit_test(takes_nothing),
        cmocka_unit_test(every_order_is_as_likely),
        cmocka_unit_test(passes_failures_on),
        cmocka_unit_test(reports_a_full_disk),
        cmocka_unit_test(reports_a_missing_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
