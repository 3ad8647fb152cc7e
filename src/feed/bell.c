/* A bell: a chime (base/chime.h) in a page of its own, with hints for producers beside it. */
#include "feed/bell.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/chime.h"
#include "base/status.h"
#include "feed/sealed.h"

enum { BELL_BYTES = 4096 };

#define BELL_MAGIC UINT64_C(0x316c6c6562736674) /* the bytes "tfsbell1" */

typedef struct bell_page {
    uint64_t magic;
    tfos__chime chime;
    _Atomic uint64_t hungry;
    _Atomic uint64_t given;
    _Atomic uint64_t taken;
    uint8_t zero[BELL_BYTES - 40];
} bell_page;

static_assert(offsetof(bell_page, magic) == 0, "drawn in bell.h");
static_assert(offsetof(bell_page, chime) == 8, "drawn in bell.h");
static_assert(offsetof(bell_page, hungry) == 16, "drawn in bell.h");
static_assert(offsetof(bell_page, given) == 24, "drawn in bell.h");
static_assert(offsetof(bell_page, taken) == 32, "drawn in bell.h");
static_assert(offsetof(bell_page, zero) == 40, "drawn in bell.h");
static_assert(sizeof(bell_page) == BELL_BYTES, "drawn in bell.h");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "words between processes need no lock");
static_assert(sizeof(_Atomic uint64_t) == 8, "atomic words are plain words");

struct tfos__bell {
    int fd;
    bell_page *page;
};

/* Maps the page. Takes over the descriptor. */
static tfos_status open_bell(int fd, tfos__bell **out, tfos_error *error)
{
    tfos__bell *bell = calloc(1, sizeof *bell);
    if (bell == NULL) {
        close(fd);
        return tfos__fail_memory(error, sizeof *bell);
    }
    bell->fd = fd;
    void *page = mmap(NULL, BELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        int error_number = errno;
        tfos__bell_free(bell);
        return tfos__fail_errno(error, error_number, "a bell cannot be mapped");
    }
    bell->page = page;
    *out = bell;
    return TFOS_OK;
}

tfos_status tfos__bell_new(tfos__bell **out, tfos_error *error)
{
    int fd;
    tfos__bell *bell;
    TFOS_TRY(tfos__sealed_new("bell", BELL_BYTES, &fd, error));
    TFOS_TRY(open_bell(fd, &bell, error));
    bell->page->magic = BELL_MAGIC;
    *out = bell;
    return TFOS_OK;
}

static tfos_status check_bell(int fd, tfos_error *error)
{
    size_t bytes;
    TFOS_TRY(tfos__sealed_check(fd, "bell", &bytes, error));
    if (bytes != BELL_BYTES) {
        return tfos__fail(error, TFOS_CORRUPT, "a bell has %d bytes, found %zu", BELL_BYTES, bytes);
    }
    return TFOS_OK;
}

tfos_status tfos__bell_adopt(int fd, tfos__bell **out, tfos_error *error)
{
    tfos__bell *bell;
    tfos_status status = check_bell(fd, error);
    if (status != TFOS_OK) {
        close(fd);
        return status;
    }
    TFOS_TRY(open_bell(fd, &bell, error));
    uint64_t magic = bell->page->magic;
    if (magic != BELL_MAGIC) {
        tfos__bell_free(bell);
        return tfos__fail(error, TFOS_CORRUPT,
                          "expected a bell of this version of tfos (0x%llx), found 0x%llx: both processes must run the "
                          "same version",
                          (unsigned long long)BELL_MAGIC, (unsigned long long)magic);
    }
    *out = bell;
    return TFOS_OK;
}

int tfos__bell_fd(const tfos__bell *bell)
{
    return bell->fd;
}

void tfos__bell_free(tfos__bell *bell)
{
    if (bell == NULL) {
        return;
    }
    if (bell->page != NULL) {
        munmap(bell->page, BELL_BYTES);
    }
    close(bell->fd);
    free(bell);
}

uint32_t tfos__bell_read(const tfos__bell *bell)
{
    return tfos__chime_read(&bell->page->chime);
}

void tfos__bell_wait(tfos__bell *bell, uint32_t seen, int64_t timeout_ms)
{
    tfos__chime_wait(&bell->page->chime, seen, timeout_ms);
}

void tfos__bell_ring(tfos__bell *bell)
{
    tfos__chime_ring(&bell->page->chime);
}

/* Relaxed, all three: hints for whoever chooses a lane, as `hungry` is. */
void tfos__bell_give(tfos__bell *bell, uint64_t rows)
{
    atomic_fetch_add_explicit(&bell->page->given, rows, memory_order_relaxed);
}

void tfos__bell_take(tfos__bell *bell, uint64_t rows)
{
    atomic_fetch_add_explicit(&bell->page->taken, rows, memory_order_relaxed);
}

uint64_t tfos__bell_backlog(const tfos__bell *bell)
{
    uint64_t taken = atomic_load_explicit(&bell->page->taken, memory_order_relaxed);
    uint64_t given = atomic_load_explicit(&bell->page->given, memory_order_relaxed);
    return given > taken ? given - taken : 0;
}

void tfos__bell_set_hungry(tfos__bell *bell, uint64_t since_ns)
{
    /* Relaxed: a hint for whoever chooses a lane; nothing is read on the strength of it. */
    atomic_store_explicit(&bell->page->hungry, since_ns, memory_order_relaxed);
}

uint64_t tfos__bell_hungry(const tfos__bell *bell)
{
    return atomic_load_explicit(&bell->page->hungry, memory_order_relaxed);
}
