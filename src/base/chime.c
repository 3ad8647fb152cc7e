/* A chime. Nobody may sleep through a ring:
 *
 *   who waits                                      who rings
 *   1  reads `rings`                               a  changes what the waiter looks at
 *   2  looks whether there is something to do      b  adds 1 to `rings`
 *   3  adds 1 to `waiting`                         c  reads `waiting`; if it is not 0:
 *   4  sleeps unless `rings` has changed since 1   d  wakes all
 *
 * If 1 saw the ring, 2 sees what was changed before it: b releases, 1 acquires. If it did not, then either b comes
 * before 4, which finds another number and does not sleep; or b comes after 4, thus after 3, and c sees the waiter. The
 * last needs one order of 3, 4, b and c that both sides agree on, so these four are sequentially consistent; the kernel
 * compares and falls asleep as one step.
 *
 * A waiter that is killed leaves `waiting` too high. Then ringing makes system calls that wake nobody, and no harm is
 * done. */
#include "base/chime.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A lock would be in one process and not in the other. */
static_assert(ATOMIC_INT_LOCK_FREE == 2, "words between processes need no lock");
static_assert(sizeof(tfos__chime) == 8, "atomic words are plain words");

uint32_t tfos__chime_read(const tfos__chime *chime)
{
    /* Acquire: what was changed before the rings that are counted here is seen by the look that follows. */
    return atomic_load_explicit(&chime->rings, memory_order_acquire);
}

/* The word is shared between processes, hence no FUTEX_PRIVATE_FLAG. Whatever the result, the caller looks again. */
static void sleep_unless_rung(_Atomic uint32_t *rings, uint32_t seen, int64_t timeout_ms)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ms / 1000), .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    syscall(SYS_futex, rings, FUTEX_WAIT, seen, timeout_ms < 0 ? NULL : &timeout, NULL, 0);
}

void tfos__chime_wait(tfos__chime *chime, uint32_t seen, int64_t timeout_ms)
{
    /* Step 3, sequentially consistent as said above. */
    atomic_fetch_add_explicit(&chime->waiting, 1, memory_order_seq_cst);
    /* Step 4, without a system call if it rang meanwhile. */
    if (atomic_load_explicit(&chime->rings, memory_order_seq_cst) == seen) {
        sleep_unless_rung(&chime->rings, seen, timeout_ms);
    }
    /* Relaxed: a number that is too high for a moment costs a ringer a system call. */
    atomic_fetch_sub_explicit(&chime->waiting, 1, memory_order_relaxed);
}

void tfos__chime_ring(tfos__chime *chime)
{
    /* Steps b and c, sequentially consistent as said above; b also releases what the caller changed. */
    atomic_fetch_add_explicit(&chime->rings, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&chime->waiting, memory_order_seq_cst) != 0) {
        syscall(SYS_futex, &chime->rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}
