/* Lanes, one end after the other: entries go in and come out, both ends close, and words that make no sense are
 * refused. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "feed/lane.h"
#include "helper_records.h"

static const tfos__lane_id some_id = {.number = 1, .attempt = {.feed = 2, .epoch = 3, .partition = 4, .task = 5}};

static tfos__lane *new_lane(size_t bytes)
{
    tfos__lane *lane = NULL;
    assert_int_equal(tfos__lane_new(bytes, &some_id, &lane, NULL), TFOS_OK);
    return lane;
}

static tfos__lane *adopt(const tfos__lane *lane)
{
    tfos__lane *other = NULL;
    tfos_error error = {0};
    if (tfos__lane_adopt(dup(tfos__lane_fd(lane)), &other, &error) != TFOS_OK) {
        fail_msg("%s", error.message);
    }
    return other;
}

static tfos__lane_counts counts_of(const tfos__lane *lane)
{
    tfos__lane_counts counts;
    tfos__lane_count(lane, &counts);
    return counts;
}

/* An entry of `bytes` bytes, all `fill`. */
static tfos_status put(tfos__lane *lane, size_t bytes, uint8_t fill, uint64_t rows, uint64_t end_row)
{
    uint8_t *to = NULL;
    TFOS_TRY(tfos__lane_reserve(lane, bytes, &to, NULL));
    assert_int_equal((uintptr_t)to % 64, 0);
    memset(to, fill, bytes);
    return tfos__lane_commit(lane, bytes, rows, end_row, NULL);
}

static void expect_next(tfos__lane *lane, size_t bytes, uint8_t fill)
{
    const uint8_t *at = NULL;
    size_t found = 0;
    bool fed_out = true;
    assert_int_equal(tfos__lane_peek(lane, &at, &found, &fed_out, NULL), TFOS_OK);
    assert_true(found >= bytes);
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(at[i], fill);
    }
    tfos__lane_release(lane, bytes);
}

static size_t peek(tfos__lane *lane, bool *fed_out)
{
    const uint8_t *at = NULL;
    size_t found = 0;
    assert_int_equal(tfos__lane_peek(lane, &at, &found, fed_out, NULL), TFOS_OK);
    return found;
}

/* ---- there and back ---- */

static void test_both_ends_know_the_lane(void **state)
{
    (void)state;
    tfos__lane *owner = new_lane(100000);
    assert_int_equal(tfos__lane_ring_bytes(owner), 131072);
    tfos__lane *producer = adopt(owner);
    tfos__lane *consumer = adopt(owner);
    tfos__lane_free(owner); /* the memory lives as long as anybody has it */
    assert_int_equal(tfos__lane_ring_bytes(producer), 131072);
    assert_memory_equal(tfos__lane_id_of(consumer), &some_id, sizeof some_id);
    bool fed_out = true;
    assert_int_equal(peek(consumer, &fed_out), 0);
    assert_false(fed_out);
    assert_int_equal(put(producer, 128, 7, 10, 30), TFOS_OK);
    assert_int_equal(put(producer, 64, 8, 0, 0), TFOS_OK); /* no rows: the end row stays */
    tfos__lane_counts counts = counts_of(consumer);
    assert_int_equal(counts.fed_rows, 10);
    assert_int_equal(counts.end_row, 30);
    assert_int_equal(counts.head, 192);
    assert_int_equal(peek(consumer, &fed_out), 192);
    expect_next(consumer, 128, 7);
    tfos__lane_take_rows(consumer, 4);
    tfos__lane_take_rows(consumer, 6);
    assert_int_equal(tfos__lane_used(producer), 64);
    assert_int_equal(tfos__lane_free_bytes(producer), 131072 - 64);
    expect_next(consumer, 64, 8);
    counts = counts_of(producer);
    assert_int_equal(counts.consumed_rows, 10);
    assert_int_equal(counts.tail, 192);
    assert_false(counts.fed_out || counts.given_up);
    tfos__lane_free(producer);
    tfos__lane_free(consumer);
}

/* Entries of every size, around the end of the ring many times, never in two pieces. */
static void test_around_the_ring(void **state)
{
    (void)state;
    tfos__lane *lane = new_lane(0);
    size_t ring = tfos__lane_ring_bytes(lane);
    assert_int_equal(ring, TFOS__LANE_LEAST_BYTES);
    uint64_t random = 5;
    uint64_t rows = 0;
    for (int round = 0; round < 3000; round++) {
        size_t bytes = (1 + helper_random(&random) % (ring / 64)) * 64;
        rows += bytes;
        assert_int_equal(put(lane, bytes, (uint8_t)round, bytes, rows), TFOS_OK);
        assert_int_equal(counts_of(lane).fed_rows, rows);
        assert_int_equal(counts_of(lane).end_row, rows);
        expect_next(lane, bytes, (uint8_t)round);
    }
    tfos__lane_free(lane);
}

static void test_a_full_lane(void **state)
{
    (void)state;
    tfos__lane *lane = new_lane(0);
    size_t ring = tfos__lane_ring_bytes(lane);
    uint8_t *to = NULL;
    tfos_error error = {0};
    assert_int_equal(tfos__lane_reserve(lane, ring + 64, &to, &error), TFOS_LIMIT);
    helper_expect_in(error.message, "65600 bytes do not fit into a lane of 65536 bytes");
    helper_expect_in(error.message, "feed.lane_bytes");
    assert_int_equal(put(lane, ring - 64, 1, 1, 1), TFOS_OK);
    assert_int_equal(tfos__lane_reserve(lane, 128, &to, &error), TFOS_END);
    assert_int_equal(put(lane, 64, 2, 1, 2), TFOS_OK);
    assert_int_equal(tfos__lane_free_bytes(lane), 0);
    assert_int_equal(tfos__lane_reserve(lane, 64, &to, &error), TFOS_END);
    assert_null(to);
    expect_next(lane, ring - 64, 1);
    assert_int_equal(tfos__lane_reserve(lane, ring, &to, &error), TFOS_END);
    assert_int_equal(put(lane, ring - 64, 3, 1, 3), TFOS_OK);
    expect_next(lane, 64, 2);
    expect_next(lane, ring - 64, 3);
    tfos__lane_free(lane);
}

/* Less is committed than was reserved: the rest was never there. */
static void test_a_part_of_what_was_reserved(void **state)
{
    (void)state;
    tfos__lane *lane = new_lane(0);
    uint8_t *to = NULL;
    bool fed_out;
    assert_int_equal(tfos__lane_reserve(lane, 1024, &to, NULL), TFOS_OK);
    memset(to, 9, 1024);
    assert_int_equal(peek(lane, &fed_out), 0);
    assert_int_equal(tfos__lane_commit(lane, 192, 3, 3, NULL), TFOS_OK);
    assert_int_equal(peek(lane, &fed_out), 192);
    assert_int_equal(put(lane, 64, 4, 1, 4), TFOS_OK);
    expect_next(lane, 192, 9);
    expect_next(lane, 64, 4);
    tfos__lane_free(lane);
}

/* The pages of a ring come as it is used. */
static void test_an_idle_lane_takes_no_memory(void **state)
{
    (void)state;
    tfos__lane *lane = new_lane(256 << 20);
    struct stat about;
    assert_int_equal(put(lane, 64, 1, 1, 1), TFOS_OK);
    expect_next(lane, 64, 1);
    assert_int_equal(fstat(tfos__lane_fd(lane), &about), 0);
    assert_true(about.st_blocks * 512 <= 64 << 10);
    tfos__lane_free(lane);
}

/* A gap of which only the first bytes are written, as an entry's header would be. */
static void put_gap(tfos__lane *lane, size_t bytes)
{
    uint8_t *to = NULL;
    assert_int_equal(tfos__lane_reserve(lane, bytes, &to, NULL), TFOS_OK);
    memset(to, 0xff, 64);
    assert_int_equal(tfos__lane_commit(lane, bytes, 0, 0, NULL), TFOS_OK);
}

/* Takes one entry, and the gap before it. */
static void take_one(tfos__lane *lane, size_t bytes, uint8_t fill)
{
    const uint8_t *at = NULL;
    size_t found = 0;
    bool fed_out = true;
    assert_int_equal(tfos__lane_peek(lane, &at, &found, &fed_out, NULL), TFOS_OK);
    if (at[0] == 0xff) {
        size_t offset = (size_t)(counts_of(lane).tail % tfos__lane_ring_bytes(lane));
        tfos__lane_release(lane, tfos__lane_ring_bytes(lane) - offset);
    }
    expect_next(lane, bytes, fill);
}

/* Entries of up to a quarter of the window go round in it, however many of them are under way. */
static void test_entries_stay_in_the_window(void **state)
{
    (void)state;
    enum { WINDOW = 64 << 10, ROUNDS = 5000 };
    tfos__lane *lane = new_lane(8 << 20);
    static size_t sizes[ROUNDS];
    size_t taken = 0;
    size_t gaps = 0;
    srandom(7);
    for (size_t i = 0; i < ROUNDS; i++) {
        size_t gap = 0;
        sizes[i] = 64 * (size_t)(1 + random() % (WINDOW / 4 / 64));
        while (tfos__lane_room(lane, WINDOW, sizes[i], &gap) < sizes[i]) {
            assert_true(taken < i); /* there is always room when everything is taken */
            take_one(lane, sizes[taken], (uint8_t)(taken % 200));
            taken++;
        }
        if (gap > 0) {
            put_gap(lane, gap);
            gaps++;
        }
        assert_int_equal(put(lane, sizes[i], (uint8_t)(i % 200), 1, i), TFOS_OK);
    }
    struct stat about;
    assert_int_equal(fstat(tfos__lane_fd(lane), &about), 0);
    assert_true(about.st_blocks * 512 <= WINDOW + (16 << 10));
    assert_true(gaps > 100);
    tfos__lane_free(lane);
}

/* What is larger than the window, or than what lies before it, uses the ring as it is. */
static void test_entries_larger_than_the_window(void **state)
{
    (void)state;
    enum { WINDOW = 64 << 10, RING = 1 << 20 };
    tfos__lane *lane = new_lane(RING);
    size_t gap = 1;
    assert_int_equal(tfos__lane_room(lane, WINDOW, RING, &gap), RING);
    assert_int_equal(gap, 0);
    assert_int_equal(put(lane, 40 << 10, 1, 1, 1), TFOS_OK);
    assert_int_equal(tfos__lane_room(lane, WINDOW, 50 << 10, &gap), RING - (40 << 10));
    assert_int_equal(gap, 0);
    assert_int_equal(put(lane, 200 << 10, 2, 1, 2), TFOS_OK);
    assert_int_equal(tfos__lane_room(lane, WINDOW, 100 << 10, &gap), 0); /* until something is taken */
    assert_int_equal(gap, RING - (240 << 10));
    expect_next(lane, 40 << 10, 1);
    expect_next(lane, 200 << 10, 2);
    assert_int_equal(tfos__lane_room(lane, WINDOW, 100 << 10, &gap), 100 << 10);
    assert_int_equal(tfos__lane_room(lane, WINDOW, 64, &gap), WINDOW);
    tfos__lane_free(lane);
}

/* ---- closing ---- */

static void test_a_fenced_producer(void **state)
{
    (void)state;
    tfos__lane *lane = new_lane(0);
    uint8_t *to = NULL;
    bool fed_out;
    tfos_error error = {0};
    assert_int_equal(put(lane, 64, 1, 5, 5), TFOS_OK);
    assert_int_equal(tfos__lane_reserve(lane, 64, &to, NULL), TFOS_OK);
    memset(to, 2, 64);
    tfos__lane_close_head(lane);
    assert_int_equal(tfos__lane_commit(lane, 64, 5, 10, &error), TFOS_CANCELLED);
    helper_expect_in(error.message, "lane 1 (partition 4, attempt 5)");
    helper_expect_in(error.message, "was not fed");
    assert_int_equal(tfos__lane_reserve(lane, 64, &to, &error), TFOS_CANCELLED);
    helper_expect_in(error.message, "fenced");
    tfos__lane_close_head(lane); /* again changes nothing */
    tfos__lane_counts counts = counts_of(lane);
    assert_true(counts.fed_out);
    assert_int_equal(counts.end_row, 5);
    assert_int_equal(counts.fed_rows, 5);
    assert_int_equal(counts.head, 64);
    /* What was committed can still be read. */
    assert_int_equal(peek(lane, &fed_out), 64);
    assert_true(fed_out);
    expect_next(lane, 64, 1);
    assert_int_equal(peek(lane, &fed_out), 0);
    assert_true(fed_out);
    tfos__lane_free(lane);
}

static void test_a_consumer_that_is_gone(void **state)
{
    (void)state;
    tfos__lane *lane = new_lane(0);
    uint8_t *to = NULL;
    tfos_error error = {0};
    assert_int_equal(put(lane, 128, 1, 5, 5), TFOS_OK);
    expect_next(lane, 64, 1);
    tfos__lane_close_tail(lane);
    assert_int_equal(tfos__lane_reserve(lane, 64, &to, &error), TFOS_CANCELLED);
    helper_expect_in(error.message, "the consumer takes nothing more");
    assert_true(counts_of(lane).given_up);
    assert_int_equal(counts_of(lane).tail, 64);
    expect_next(lane, 64, 1); /* the bit stays when the consumer goes on all the same */
    assert_true(counts_of(lane).given_up);
    assert_int_equal(counts_of(lane).tail, 128);
    tfos__lane_free(lane);
}

/* ---- descriptors that are no lane ---- */

static void expect_refused(int fd, const char *message)
{
    tfos__lane *lane = NULL;
    tfos_error error = {0};
    assert_int_equal(tfos__lane_adopt(fd, &lane, &error), TFOS_CORRUPT);
    helper_expect_in(error.message, message);
    assert_null(lane);
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

static void test_descriptors_that_are_no_lane(void **state)
{
    (void)state;
    int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    expect_refused(ends[0], "is something else");
    expect_refused(ends[1], "is something else");
    expect_refused(open("/dev/zero", O_RDWR), "is something else");
    expect_refused(1 << 20, "is something else");
    expect_refused(memory(4096 + 65536, 0), "seals");
    expect_refused(memory(4096 + 65536, F_SEAL_SHRINK), "seals");
    expect_refused(memory(0, all), "found 0 bytes");
    expect_refused(memory(4096, all), "found 4096 bytes");
    expect_refused(memory(4096 + 65536 + 1, all), "found 69633 bytes");
    expect_refused(memory(4096 + 32768, all), "found 36864 bytes");
    expect_refused(memory(4096 + 65536, all), "same version of tfos");
}

static void test_a_lane_that_lies(void **state)
{
    (void)state;
    uint32_t version = 2;
    uint64_t bytes = 1 << 20;
    tfos__lane *lane = new_lane(0);
    assert_int_equal(pwrite(tfos__lane_fd(lane), &bytes, sizeof bytes, 16), sizeof bytes);
    expect_refused(dup(tfos__lane_fd(lane)), "says that its ring has 1048576 bytes, and it has 65536");
    assert_int_equal(pwrite(tfos__lane_fd(lane), &version, sizeof version, 8), sizeof version);
    expect_refused(dup(tfos__lane_fd(lane)), "of version 2");
    assert_int_equal(ftruncate(tfos__lane_fd(lane), 0), -1);
    tfos__lane_free(lane);
}

static void test_sizes_that_cannot_be_had(void **state)
{
    (void)state;
    tfos__lane *lane = NULL;
    tfos_error error = {0};
    assert_int_equal(tfos__lane_new((size_t)TFOS__LANE_MOST_BYTES + 1, &some_id, &lane, &error), TFOS_LIMIT);
    helper_expect_in(error.message, "feed.lane_bytes");
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = {.rlim_cur = 65536, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    tfos_status status = tfos__lane_new(0, &some_id, &lane, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, TFOS_LIMIT);
    helper_expect_in(error.message, "ulimit -f");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    small = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    status = tfos__lane_new(0, &some_id, &lane, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, TFOS_IO);
    assert_int_equal(error.fault, TFOS_FAULT_AGAIN);
    assert_null(lane);
}

/* ---- words that make no sense ---- */

enum { HEAD_AT = 128, TAIL_AT = 256 };

static void set_word(const tfos__lane *lane, off_t at, uint64_t value)
{
    assert_int_equal(pwrite(tfos__lane_fd(lane), &value, sizeof value, at), sizeof value);
}

static void test_words_that_make_no_sense(void **state)
{
    (void)state;
    static const struct {
        off_t at;
        uint64_t value;
    } lies[] = {
        {HEAD_AT, 65536 + 128},
        {HEAD_AT, 64 + 2},
        {HEAD_AT, 64 + 32},
        {HEAD_AT, UINT64_C(1) << 62},
        {HEAD_AT, 0},
        {HEAD_AT, INT64_MAX},
        {TAIL_AT, 192},
        {TAIL_AT, 65},
        {TAIL_AT, UINT64_C(1) << 62},
        {TAIL_AT, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        tfos__lane *lane = new_lane(0);
        const uint8_t *at = NULL;
        uint8_t *to = NULL;
        size_t bytes;
        bool fed_out;
        tfos_error error = {0};
        assert_int_equal(put(lane, 128, 1, 1, 1), TFOS_OK);
        expect_next(lane, 64, 1);
        set_word(lane, lies[i].at, lies[i].value);
        assert_int_equal(tfos__lane_peek(lane, &at, &bytes, &fed_out, &error), TFOS_CORRUPT);
        helper_expect_in(error.message, "lane 1 (partition 4, attempt 5) is damaged");
        assert_null(at);
        assert_int_equal(tfos__lane_reserve(lane, 64, &to, &error), TFOS_CORRUPT);
        assert_null(to);
        assert_true(tfos__lane_used(lane) <= tfos__lane_ring_bytes(lane));
        (void)counts_of(lane);
        tfos__lane_free(lane);
    }
}

/* Somebody else moves head between reserve and commit. */
static void test_a_second_producer(void **state)
{
    (void)state;
    static const uint64_t heads[] = {64, 128 | 1, 1 << 30, 2};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        tfos__lane *lane = new_lane(0);
        uint8_t *to = NULL;
        assert_int_equal(tfos__lane_reserve(lane, 64, &to, NULL), TFOS_OK);
        set_word(lane, HEAD_AT, heads[i]);
        assert_int_equal(tfos__lane_commit(lane, 64, 1, 1, NULL), TFOS_CORRUPT);
        tfos__lane_free(lane);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ends_know_the_lane),
        cmocka_unit_test(test_around_the_ring),
        cmocka_unit_test(test_a_full_lane),
        cmocka_unit_test(test_a_part_of_what_was_reserved),
        cmocka_unit_test(test_an_idle_lane_takes_no_memory),
        cmocka_unit_test(test_entries_stay_in_the_window),
        cmocka_unit_test(test_entries_larger_than_the_window),
        cmocka_unit_test(test_a_fenced_producer),
        cmocka_unit_test(test_a_consumer_that_is_gone),
        cmocka_unit_test(test_descriptors_that_are_no_lane),
        cmocka_unit_test(test_a_lane_that_lies),
        cmocka_unit_test(test_sizes_that_cannot_be_had),
        cmocka_unit_test(test_words_that_make_no_sense),
        cmocka_unit_test(test_a_second_producer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
