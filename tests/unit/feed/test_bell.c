/* Bells: whoever waits is woken, nobody sleeps through a ring, and what is no bell is refused. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "feed/bell.h"
#include "helper_records.h"

static tfos__bell *new_bell(void)
{
    tfos__bell *bell = NULL;
    assert_int_equal(tfos__bell_new(&bell, NULL), TFOS_OK);
    return bell;
}

static tfos__bell *adopt(const tfos__bell *bell)
{
    tfos__bell *other = NULL;
    assert_int_equal(tfos__bell_adopt(dup(tfos__bell_fd(bell)), &other, NULL), TFOS_OK);
    return other;
}

static void test_a_bell_that_was_rung_is_not_waited_for(void **state)
{
    (void)state;
    tfos__bell *bell = new_bell();
    tfos__bell *other = adopt(bell);
    uint32_t seen = tfos__bell_read(bell);
    tfos__bell_ring(other);
    tfos__bell_wait(bell, seen, -1); /* would not come back */
    assert_int_not_equal(tfos__bell_read(bell), seen);
    tfos__bell_free(other);
    tfos__bell_free(bell);
}

static void test_waiting_ends_in_time(void **state)
{
    (void)state;
    tfos__bell *bell = new_bell();
    int64_t before = tfos__clock_ms();
    int64_t end = before + 50;
    while (tfos__clock_ms() < end) {
        tfos__bell_wait(bell, tfos__bell_read(bell), end - tfos__clock_ms());
    }
    assert_true(tfos__clock_ms() - before < 5000);
    before = tfos__clock_ms();
    tfos__bell_wait(bell, tfos__bell_read(bell), 0);
    assert_true(tfos__clock_ms() - before < 5000);
    tfos__bell_free(bell);
}

static void test_hunger_is_seen_by_others(void **state)
{
    (void)state;
    tfos__bell *bell = new_bell();
    tfos__bell *other = adopt(bell);
    assert_int_equal(tfos__bell_hungry(other), 0);
    tfos__bell_set_hungry(bell, UINT64_C(123456789012345));
    assert_int_equal(tfos__bell_hungry(other), UINT64_C(123456789012345));
    tfos__bell_free(bell);
    assert_int_equal(tfos__bell_hungry(other), UINT64_C(123456789012345));
    tfos__bell_free(other);
}

/* Two processes that answer each other, each asleep until the other rings, ten thousand times. */
static void test_two_processes_ring_each_other(void **state)
{
    (void)state;
    enum { ROUNDS = 10000 };
    tfos__bell *here = new_bell();
    tfos__bell *there = new_bell();
    pid_t child = fork();
    assert_true(child >= 0);
    tfos__bell *mine = child == 0 ? there : here;
    tfos__bell *theirs = child == 0 ? here : there;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        if (child != 0) {
            tfos__bell_ring(theirs);
        }
        while (tfos__bell_read(mine) == round) {
            tfos__bell_wait(mine, round, -1);
        }
        if (child == 0) {
            tfos__bell_ring(theirs);
        }
    }
    if (child == 0) {
        helper_end_child(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(tfos__bell_read(here), ROUNDS);
    assert_int_equal(tfos__bell_read(there), ROUNDS);
    tfos__bell_free(here);
    tfos__bell_free(there);
}

/* ---- what is no bell ---- */

static void expect_refused(int fd, const char *message)
{
    tfos__bell *bell = NULL;
    tfos_error error = {0};
    assert_int_equal(tfos__bell_adopt(fd, &bell, &error), TFOS_CORRUPT);
    helper_expect_in(error.message, message);
    assert_null(bell);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* it was taken over all the same */
}

static int memory(size_t bytes, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void test_what_is_no_bell(void **state)
{
    (void)state;
    int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    expect_refused(open("/dev/null", O_RDWR), "is something else");
    expect_refused(-1, "is something else");
    expect_refused(memory(4096, 0), "seals");
    expect_refused(memory(4096, F_SEAL_SEAL), "seals");
    expect_refused(memory(0, all), "found 0");
    expect_refused(memory(8192, all), "found 8192");
    expect_refused(memory(4096, all), "same version");
}

/* A bell that may not be written cannot be mapped; that is no damage, and no fault either. */
static void test_a_bell_that_cannot_be_written(void **state)
{
    (void)state;
    tfos__bell *bell = NULL;
    tfos_error error = {0};
    int fd = memory(4096, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    assert_int_equal(tfos__bell_adopt(fd, &bell, &error), TFOS_PERMISSION);
    helper_expect_in(error.message, "cannot be mapped");
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_bell_that_was_rung_is_not_waited_for),
        cmocka_unit_test(test_waiting_ends_in_time),
        cmocka_unit_test(test_hunger_is_seen_by_others),
        cmocka_unit_test(test_two_processes_ring_each_other),
        cmocka_unit_test(test_what_is_no_bell),
        cmocka_unit_test(test_a_bell_that_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
