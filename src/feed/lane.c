/* A lane: the ring, its control block, and who may change which word.
 *
 *   offset   bytes   what                  who writes                        who reads
 *        0       8   magic                 the owner, once                   whoever adopts the lane
 *        8       4   version               …                                 …
 *       12       4   zero
 *       16       8   bytes of the ring     …                                 …
 *       24      40   the tfos__lane_id     …                                 …
 *       64      64   zero
 *      128       8   head                  producer: compare-and-swap;       all
 *                                          anybody: sets CLOSED
 *      136       8   zero
 *      144      16   slot 0: rows that     producer, while head names        all
 *                    were fed, end row     slot 1
 *      160      16   slot 1                … slot 0                          all
 *      176      80   zero
 *      256       8   tail                  consumer: adds; anybody: CLOSED   all
 *      264       8   consumed rows         consumer: adds                    all
 *      272    3824   zero
 *
 * Producer's and consumer's words are 128 bytes apart, because processors fetch lines of 64 bytes in pairs.
 *
 * A step is done by one atomic instruction, so that a process that is killed has done it or not:
 *
 *   commit    the bytes of the entry, then the counts to the slot that head does not name, then compare-and-swap of
 *             head to the new position and that slot. Before the swap nobody looks at either; the swap fails if head
 *             was closed.
 *   release   adds to tail. Before that the producer does not write there.
 *   close     sets the top bit of head or tail, whatever the rest of the word is.
 *
 * Another process can write anything to the words, so each is checked when it is read: what does not fit is CORRUPT. */
#include "feed/lane.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "feed/sealed.h"

enum { CONTROL_BYTES = 4096, LANE_VERSION = 1, COUNT_TRIES = 1000 };

#define LANE_MAGIC UINT64_C(0x656e616c736f6674) /* the bytes "tfoslane" */

/* Parts of a word that is no position. */
#define CLOSED (UINT64_C(1) << 63)
#define SLOT UINT64_C(1)
#define STRAY ((uint64_t)TFOS__LANE_ALIGN - 1) /* bits that a position never has */

typedef struct lane_slot {
    _Atomic uint64_t fed_rows;
    _Atomic uint64_t end_row;
} lane_slot;

typedef struct lane_control {
    uint64_t magic;
    uint32_t version;
    uint32_t zero_12;
    uint64_t ring_bytes;
    tfos__lane_id id;
    uint8_t zero_64[64];
    _Atomic uint64_t head;
    uint64_t zero_136;
    lane_slot slot[2];
    uint8_t zero_176[80];
    _Atomic uint64_t tail;
    _Atomic uint64_t consumed_rows;
    uint8_t zero_272[CONTROL_BYTES - 272];
} lane_control;

static_assert(offsetof(lane_control, magic) == 0, "drawn above");
static_assert(offsetof(lane_control, version) == 8, "drawn above");
static_assert(offsetof(lane_control, zero_12) == 12, "drawn above");
static_assert(offsetof(lane_control, ring_bytes) == 16, "drawn above");
static_assert(offsetof(lane_control, id) == 24, "drawn above");
static_assert(offsetof(tfos__lane_id, number) == 0, "drawn in lane.h");
static_assert(offsetof(tfos__lane_id, attempt.feed) == 8, "drawn in lane.h");
static_assert(offsetof(tfos__lane_id, attempt.epoch) == 16, "drawn in lane.h");
static_assert(offsetof(tfos__lane_id, attempt.partition) == 24, "drawn in lane.h");
static_assert(offsetof(tfos__lane_id, attempt.task) == 32, "drawn in lane.h");
static_assert(sizeof(tfos__lane_id) == 40, "drawn in lane.h");
static_assert(offsetof(lane_control, zero_64) == 64, "drawn above");
static_assert(offsetof(lane_control, head) == 128, "drawn above");
static_assert(offsetof(lane_control, zero_136) == 136, "drawn above");
static_assert(offsetof(lane_control, slot) == 144, "drawn above");
static_assert(offsetof(lane_slot, fed_rows) == 0 && offsetof(lane_slot, end_row) == 8, "drawn above");
static_assert(sizeof(lane_slot) == 16, "drawn above");
static_assert(offsetof(lane_control, zero_176) == 176, "drawn above");
static_assert(offsetof(lane_control, tail) == 256, "drawn above");
static_assert(offsetof(lane_control, consumed_rows) == 264, "drawn above");
static_assert(offsetof(lane_control, zero_272) == 272, "drawn above");
static_assert(sizeof(lane_control) == CONTROL_BYTES, "drawn above");
/* A lock would be in one process and not in the other. */
static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && sizeof(_Atomic uint64_t) == 8, "words between processes need no lock");

struct tfos__lane {
    int fd;
    size_t before_ring; /* bytes of the control block, a page of this machine at least */
    size_t ring_bytes;
    tfos__lane_id id; /* a copy: what is shared can change */
    lane_control *control;
    uint8_t *ring; /* mapped twice in a row */

    /* The producer's. */
    uint64_t reserved_at; /* head as it was */
    size_t reserved_bytes;

    /* The consumer's. */
    size_t seen_bytes; /* by peek, and not released */
};

static uint64_t position_of(uint64_t word)
{
    return word & ~(CLOSED | STRAY);
}

/* ---- making and mapping ---- */

/* The ring begins on a page, since pages are what can be mapped. They have 4096 bytes almost everywhere; both ends are
 * on one machine, so they agree where it begins. */
static size_t bytes_before_ring(void)
{
    long page = sysconf(_SC_PAGESIZE);
    return page > CONTROL_BYTES ? (size_t)page : CONTROL_BYTES;
}

/* One reservation, so that what follows the ring is the ring again and nothing else. */
static tfos_status map_lane(tfos__lane *lane, tfos_error *error)
{
    size_t bytes = lane->before_ring + lane->ring_bytes;
    size_t all = bytes + lane->ring_bytes;
    uint8_t *at = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        return tfos__fail_errno(error, errno, "no address space of %zu bytes for a lane", all);
    }
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, lane->fd, 0) == MAP_FAILED ||
        mmap(at + bytes, lane->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, lane->fd,
             (off_t)lane->before_ring) == MAP_FAILED) {
        int error_number = errno;
        munmap(at, all);
        return tfos__fail_errno(error, error_number, "a lane of %zu bytes cannot be mapped", lane->ring_bytes);
    }
    lane->control = (lane_control *)(void *)at;
    lane->ring = at + lane->before_ring;
    return TFOS_OK;
}

/* Takes over the descriptor. */
static tfos_status open_lane(int fd, size_t ring_bytes, tfos__lane **out, tfos_error *error)
{
    tfos__lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL) {
        close(fd);
        return tfos__fail_memory(error, sizeof *lane);
    }
    lane->fd = fd;
    lane->before_ring = bytes_before_ring();
    lane->ring_bytes = ring_bytes;
    tfos_status status = map_lane(lane, error);
    if (status != TFOS_OK) {
        tfos__lane_free(lane);
        return status;
    }
    *out = lane;
    return TFOS_OK;
}

size_t tfos__lane_round(size_t ring_bytes)
{
    size_t rounded = TFOS__LANE_LEAST_BYTES;
    while (rounded < ring_bytes) {
        rounded *= 2;
    }
    return rounded;
}

tfos_status tfos__lane_new(size_t ring_bytes, const tfos__lane_id *id, tfos__lane **out, tfos_error *error)
{
    if (ring_bytes > TFOS__LANE_MOST_BYTES) {
        return tfos__fail(error, TFOS_LIMIT, "a lane has at most %d bytes, %zu were asked for: lower feed.lane_bytes",
                          TFOS__LANE_MOST_BYTES, ring_bytes);
    }
    size_t rounded = tfos__lane_round(ring_bytes);
    int fd;
    tfos__lane *lane;
    TFOS_TRY(tfos__sealed_new("lane", bytes_before_ring() + rounded, &fd, error));
    TFOS_TRY(open_lane(fd, rounded, &lane, error));
    lane->control->magic = LANE_MAGIC;
    lane->control->version = LANE_VERSION;
    lane->control->ring_bytes = rounded;
    lane->control->id = *id;
    lane->id = *id;
    *out = lane;
    return TFOS_OK;
}

/* What can be known before the lane is mapped. */
static tfos_status check_size(int fd, size_t *ring_bytes, tfos_error *error)
{
    size_t bytes;
    TFOS_TRY(tfos__sealed_check(fd, "lane", &bytes, error));
    size_t before = bytes_before_ring();
    size_t ring = bytes > before ? bytes - before : 0;
    if (ring < TFOS__LANE_LEAST_BYTES || ring > TFOS__LANE_MOST_BYTES || (ring & (ring - 1)) != 0) {
        return tfos__fail(error, TFOS_CORRUPT,
                          "expected a lane: %zu bytes and a power of two from %d to %d; found %zu bytes", before,
                          TFOS__LANE_LEAST_BYTES, TFOS__LANE_MOST_BYTES, bytes);
    }
    *ring_bytes = ring;
    return TFOS_OK;
}

static tfos_status check_control(const lane_control *control, size_t ring_bytes, tfos_error *error)
{
    if (control->magic != LANE_MAGIC || control->version != LANE_VERSION) {
        return tfos__fail(error, TFOS_CORRUPT,
                          "expected a lane of version %d (0x%llx), found 0x%llx of version %u: both processes must run "
                          "the same version of tfos",
                          LANE_VERSION, (unsigned long long)LANE_MAGIC, (unsigned long long)control->magic,
                          (unsigned)control->version);
    }
    if (control->ring_bytes != ring_bytes) {
        return tfos__fail(error, TFOS_CORRUPT, "a lane says that its ring has %llu bytes, and it has %zu",
                          (unsigned long long)control->ring_bytes, ring_bytes);
    }
    return TFOS_OK;
}

tfos_status tfos__lane_adopt(int fd, tfos__lane **out, tfos_error *error)
{
    size_t ring_bytes = 0;
    tfos__lane *lane;
    tfos_status status = check_size(fd, &ring_bytes, error);
    if (status != TFOS_OK) {
        close(fd);
        return status;
    }
    TFOS_TRY(open_lane(fd, ring_bytes, &lane, error));
    status = check_control(lane->control, ring_bytes, error);
    if (status != TFOS_OK) {
        tfos__lane_free(lane);
        return status;
    }
    lane->id = lane->control->id;
    *out = lane;
    return TFOS_OK;
}

void tfos__lane_free(tfos__lane *lane)
{
    if (lane == NULL) {
        return;
    }
    if (lane->control != NULL) {
        munmap(lane->control, lane->before_ring + 2 * lane->ring_bytes);
    }
    close(lane->fd);
    free(lane);
}

int tfos__lane_fd(const tfos__lane *lane)
{
    return lane->fd;
}

const tfos__lane_id *tfos__lane_id_of(const tfos__lane *lane)
{
    return &lane->id;
}

size_t tfos__lane_ring_bytes(const tfos__lane *lane)
{
    return lane->ring_bytes;
}

/* ---- what the words say ---- */

/* Bytes between tail and head. CORRUPT unless both are positions and not further apart than the ring is long. */
static tfos_status used_between(const tfos__lane *lane, uint64_t head, uint64_t tail, size_t *out, tfos_error *error)
{
    uint64_t used = position_of(head) - position_of(tail);
    if ((head & STRAY & ~SLOT) != 0 || (tail & STRAY) != 0 || used > lane->ring_bytes) {
        return tfos__fail(error, TFOS_CORRUPT,
                          "lane %llu (partition %llu, attempt %llu) is damaged: head 0x%llx and tail 0x%llx do not go "
                          "with a ring of %zu bytes; a process has overwritten shared memory",
                          (unsigned long long)lane->id.number, (unsigned long long)lane->id.attempt.partition,
                          (unsigned long long)lane->id.attempt.task, (unsigned long long)head, (unsigned long long)tail,
                          lane->ring_bytes);
    }
    *out = (size_t)used;
    return TFOS_OK;
}

/* Counts go with the head that was read before them only if head is still the same afterwards: a producer may have
 * committed twice and used the slot again. The stores to a slot release and the loads here acquire, so that whoever
 * sees a later count also sees the later head. Head never comes back to a value that it had. */
void tfos__lane_count(const tfos__lane *lane, tfos__lane_counts *out)
{
    lane_control *control = lane->control;
    for (int tries = 0; tries < COUNT_TRIES; tries++) {
        /* Tail first: whoever sees that it is closed sees every row that was consumed before. Both before head, and
         * acquired, so that no more are consumed than fed. */
        uint64_t tail = atomic_load_explicit(&control->tail, memory_order_acquire);
        out->consumed_rows = atomic_load_explicit(&control->consumed_rows, memory_order_acquire);
        uint64_t head = atomic_load_explicit(&control->head, memory_order_acquire);
        const lane_slot *slot = &control->slot[head & SLOT];
        out->fed_rows = atomic_load_explicit(&slot->fed_rows, memory_order_acquire);
        out->end_row = atomic_load_explicit(&slot->end_row, memory_order_acquire);
        out->head = position_of(head);
        out->tail = position_of(tail);
        out->fed_out = (head & CLOSED) != 0;
        out->given_up = (tail & CLOSED) != 0;
        uint64_t later = atomic_load_explicit(&control->head, memory_order_relaxed);
        if (((later ^ head) & ~CLOSED) == 0) {
            break;
        }
    }
}

/* ---- the producer's end ---- */

static tfos_status fail_cancelled(const tfos__lane *lane, const char *why, tfos_error *error)
{
    return tfos__fail(error, TFOS_CANCELLED, "lane %llu (partition %llu, attempt %llu): %s",
                      (unsigned long long)lane->id.number, (unsigned long long)lane->id.attempt.partition,
                      (unsigned long long)lane->id.attempt.task, why);
}

tfos_status tfos__lane_reserve(tfos__lane *lane, size_t bytes, uint8_t **out, tfos_error *error)
{
    assert(bytes > 0 && bytes % TFOS__LANE_ALIGN == 0);
    if (bytes > lane->ring_bytes) {
        return tfos__fail(error, TFOS_LIMIT,
                          "%zu bytes do not fit into a lane of %zu bytes: raise feed.lane_bytes (TFOS_FEED_LANE_BYTES)",
                          bytes, lane->ring_bytes);
    }
    /* Relaxed: only we move it, and whether it was closed is decided by the swap. */
    uint64_t head = atomic_load_explicit(&lane->control->head, memory_order_relaxed);
    /* Acquire: the consumer has read the bytes that it gave back before we write there. */
    uint64_t tail = atomic_load_explicit(&lane->control->tail, memory_order_acquire);
    if ((head & CLOSED) != 0) {
        return fail_cancelled(lane, "the attempt was fenced, nothing more can be fed", error);
    }
    if ((tail & CLOSED) != 0) {
        return fail_cancelled(lane, "the consumer takes nothing more", error);
    }
    size_t used;
    TFOS_TRY(used_between(lane, head, tail, &used, error));
    if (bytes > lane->ring_bytes - used) {
        return TFOS_END;
    }
    lane->reserved_at = head;
    lane->reserved_bytes = bytes;
    *out = lane->ring + (position_of(head) & (lane->ring_bytes - 1));
    return TFOS_OK;
}

tfos_status tfos__lane_commit(tfos__lane *lane, size_t bytes, uint64_t rows, uint64_t end_row, tfos_error *error)
{
    assert(bytes > 0 && bytes % TFOS__LANE_ALIGN == 0 && bytes <= lane->reserved_bytes);
    lane_control *control = lane->control;
    uint64_t head = lane->reserved_at;
    lane->reserved_bytes = 0;
    uint64_t other = (head & SLOT) ^ SLOT;
    /* Relaxed: we wrote them ourselves. */
    uint64_t fed_rows = atomic_load_explicit(&control->slot[head & SLOT].fed_rows, memory_order_relaxed);
    uint64_t last_row = atomic_load_explicit(&control->slot[head & SLOT].end_row, memory_order_relaxed);
    /* Release: see tfos__lane_count. */
    atomic_store_explicit(&control->slot[other].fed_rows, fed_rows + rows, memory_order_release);
    atomic_store_explicit(&control->slot[other].end_row, rows > 0 ? end_row : last_row, memory_order_release);
    /* Release: whoever sees this head sees the entry and the slot. */
    uint64_t found = head;
    if (atomic_compare_exchange_strong_explicit(&control->head, &found, (position_of(head) + bytes) | other,
                                                memory_order_release, memory_order_relaxed)) {
        return TFOS_OK;
    }
    if (found == (head | CLOSED)) {
        return fail_cancelled(lane, "the attempt was fenced before the last batch was in, which was not fed", error);
    }
    size_t used;
    TFOS_TRY(used_between(lane, found, head, &used, error));
    return tfos__fail(error, TFOS_CORRUPT, "lane %llu has a second producer: head was 0x%llx and is 0x%llx",
                      (unsigned long long)lane->id.number, (unsigned long long)head, (unsigned long long)found);
}

size_t tfos__lane_used(const tfos__lane *lane)
{
    /* Tail first, so that head is not behind it. Acquire and relaxed as in tfos__lane_reserve; this is a hint. */
    uint64_t tail = atomic_load_explicit(&lane->control->tail, memory_order_acquire);
    uint64_t head = atomic_load_explicit(&lane->control->head, memory_order_relaxed);
    uint64_t used = position_of(head) - position_of(tail);
    return used < lane->ring_bytes ? (size_t)used : lane->ring_bytes;
}

size_t tfos__lane_free_bytes(const tfos__lane *lane)
{
    return lane->ring_bytes - tfos__lane_used(lane);
}

size_t tfos__lane_room(const tfos__lane *lane, size_t window, size_t least, size_t *gap)
{
    size_t room = tfos__lane_free_bytes(lane);
    /* Relaxed: only we move it. */
    uint64_t head = atomic_load_explicit(&lane->control->head, memory_order_relaxed);
    size_t at = (size_t)(position_of(head) & (lane->ring_bytes - 1));
    *gap = 0;
    if (at + least <= window) {
        return room < window - at ? room : window - at;
    }
    if (least > at) {
        return room; /* the gap and the entry would be more than the ring */
    }
    *gap = lane->ring_bytes - at;
    size_t most = least > window ? least : window;
    room = room > *gap ? room - *gap : 0;
    return room < most ? room : most;
}

/* ---- the consumer's end ---- */

tfos_status tfos__lane_peek(tfos__lane *lane, const uint8_t **out, size_t *bytes, bool *fed_out, tfos_error *error)
{
    /* Relaxed: only we move it. */
    uint64_t tail = atomic_load_explicit(&lane->control->tail, memory_order_relaxed);
    /* Acquire: pairs with the commit; the entries before this head are there. */
    uint64_t head = atomic_load_explicit(&lane->control->head, memory_order_acquire);
    size_t used;
    TFOS_TRY(used_between(lane, head, tail, &used, error));
    lane->seen_bytes = used;
    *out = lane->ring + (position_of(tail) & (lane->ring_bytes - 1));
    *bytes = used;
    *fed_out = (head & CLOSED) != 0;
    return TFOS_OK;
}

void tfos__lane_take_rows(tfos__lane *lane, uint64_t rows)
{
    /* Release: see tfos__lane_count. */
    atomic_fetch_add_explicit(&lane->control->consumed_rows, rows, memory_order_release);
}

void tfos__lane_release(tfos__lane *lane, size_t bytes)
{
    assert(bytes % TFOS__LANE_ALIGN == 0 && bytes <= lane->seen_bytes);
    lane->seen_bytes -= bytes;
    /* Release: what we read there was read before the producer writes again. An addition, so that CLOSED stays. */
    atomic_fetch_add_explicit(&lane->control->tail, bytes, memory_order_release);
}

/* ---- either end, and the owner ---- */

void tfos__lane_close_head(tfos__lane *lane)
{
    /* Acquire: the slot that goes with the last commit is seen by a count that follows. */
    atomic_fetch_or_explicit(&lane->control->head, CLOSED, memory_order_acq_rel);
}

void tfos__lane_close_tail(tfos__lane *lane)
{
    /* Release: what the consumer did before, it did before the producer learns that it was the last. */
    atomic_fetch_or_explicit(&lane->control->tail, CLOSED, memory_order_acq_rel);
}
