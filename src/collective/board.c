/* The board. Whoever waits looks at the stages of all others, for a moment without pause and then asleep on a chime
 * that every advance rings; ten times a second it asks whether those that are missing still live. Sizes are taken from
 * the page once and checked: another process has written them. */
#include "collective/board.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/chime.h"
#include "base/clock.h"
#include "base/status.h"
#include "feed/sealed.h"

enum {
    PAGE = 4096,
    WAIT_MS = 100,   /* between two looks at what nobody rings for */
    SPIN_NS = 20000, /* before going to sleep: others are often a few microseconds behind */
    SPIN_TURNS = 64, /* between two looks at the clock */
    SLOT_BYTES_MOST = 1 << 26,
    FAR_BYTES_MOST = 1 << 26,
    WIDE_SLOTS = 2,
};

#define BOARD_MAGIC UINT64_C(0x3164726162736674) /* the bytes "tfsbard1" */

/* Who writes the text of a failure. */
enum { FAILED_NOT, FAILED_WRITING, FAILED };

typedef struct common {
    uint64_t magic;
    uint64_t ranks;
    uint64_t slot_bytes;
    uint64_t far_bytes;
    _Atomic uint64_t blamed; /* rank + 1; 0: nobody */
    tfos__chime chime;
    _Atomic uint32_t failed;
    uint32_t status;
    char text[TFOS__BOARD_TEXT_BYTES];
} common;

typedef struct line {
    _Atomic uint64_t stage;
    uint8_t zero[56];
} line;

static_assert(sizeof(common) <= PAGE, "drawn in board.h");
static_assert(sizeof(line) == 64, "drawn in board.h");
static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2, "words between processes need no lock");

struct tfos__board {
    int fd;
    size_t bytes;
    size_t ranks;
    size_t slot_bytes;
    size_t far_bytes;
    bool spins; /* each worker can have a processor of its own */
    uint8_t *base;
    common *common;
    line *lines;
    uint8_t *heads;
    uint8_t *slots;
    uint8_t *wide;
};

static size_t round_up(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static size_t heads_at(size_t ranks)
{
    return PAGE + round_up(ranks * sizeof(line));
}

static size_t slots_at(size_t ranks)
{
    return heads_at(ranks) + round_up(ranks * TFOS__BOARD_HEAD_BYTES);
}

static size_t wide_at(size_t ranks, size_t slot_bytes)
{
    return slots_at(ranks) + (2 * ranks + TFOS__BOARD_RESULTS) * slot_bytes;
}

static size_t bytes_of(size_t ranks, size_t slot_bytes, size_t far_bytes)
{
    size_t wide = far_bytes > 0 ? WIDE_SLOTS * 2 * slot_bytes : 0;
    return wide_at(ranks, slot_bytes) + wide + round_up(far_bytes);
}

static bool are_sizes(uint64_t ranks, uint64_t slot_bytes, uint64_t far_bytes)
{
    return ranks > 0 && ranks <= TFOS__BOARD_RANKS_MOST && slot_bytes > 0 && slot_bytes <= SLOT_BYTES_MOST &&
           slot_bytes % PAGE == 0 && far_bytes <= FAR_BYTES_MOST;
}

/* Takes over the descriptor. */
static tfos_status map(int fd, size_t bytes, tfos__board **out, tfos_error *error)
{
    tfos__board *board = calloc(1, sizeof *board);
    if (board == NULL) {
        close(fd);
        return tfos__fail_memory(error, sizeof *board);
    }
    board->fd = fd;
    board->bytes = bytes;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        int number = errno;
        tfos__board_free(board);
        return tfos__fail_errno(error, number, "a board of %zu bytes cannot be mapped", bytes);
    }
    board->base = base;
    board->common = base;
    *out = board;
    return TFOS_OK;
}

static void lay_out(tfos__board *board, size_t ranks, size_t slot_bytes, size_t far_bytes)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    board->ranks = ranks;
    board->slot_bytes = slot_bytes;
    board->far_bytes = far_bytes;
    board->spins = processors > 0 && (size_t)processors >= ranks;
    board->lines = (line *)(void *)(board->base + PAGE);
    board->heads = board->base + heads_at(ranks);
    board->slots = board->base + slots_at(ranks);
    board->wide = board->base + wide_at(ranks, slot_bytes);
}

tfos_status tfos__board_new(size_t ranks, size_t slot_bytes, size_t far_bytes, tfos__board **out, tfos_error *error)
{
    int fd;
    tfos__board *board;
    assert(are_sizes(ranks, slot_bytes, far_bytes));
    size_t bytes = bytes_of(ranks, slot_bytes, far_bytes);
    TFOS_TRY(tfos__sealed_new("board", bytes, &fd, error));
    TFOS_TRY(map(fd, bytes, &board, error));
    board->common->magic = BOARD_MAGIC;
    board->common->ranks = ranks;
    board->common->slot_bytes = slot_bytes;
    board->common->far_bytes = far_bytes;
    lay_out(board, ranks, slot_bytes, far_bytes);
    *out = board;
    return TFOS_OK;
}

tfos_status tfos__board_adopt(int fd, tfos__board **out, tfos_error *error)
{
    size_t bytes;
    tfos__board *board;
    tfos_status status = tfos__sealed_check(fd, "board", &bytes, error);
    if (status == TFOS_OK && bytes < PAGE) {
        status = tfos__fail(error, TFOS_CORRUPT, "a board has %d bytes at least, found %zu", PAGE, bytes);
    }
    if (status != TFOS_OK) {
        close(fd);
        return status;
    }
    TFOS_TRY(map(fd, bytes, &board, error));
    uint64_t ranks = board->common->ranks;
    uint64_t slot_bytes = board->common->slot_bytes;
    uint64_t far_bytes = board->common->far_bytes;
    if (board->common->magic != BOARD_MAGIC || !are_sizes(ranks, slot_bytes, far_bytes) ||
        bytes_of(ranks, slot_bytes, far_bytes) != bytes) {
        tfos__board_free(board);
        return tfos__fail(error, TFOS_CORRUPT,
                          "expected a board of this version of tfos, found %zu bytes of something else: all workers "
                          "must run the same version",
                          bytes);
    }
    lay_out(board, (size_t)ranks, (size_t)slot_bytes, (size_t)far_bytes);
    *out = board;
    return TFOS_OK;
}

void tfos__board_free(tfos__board *board)
{
    if (board == NULL) {
        return;
    }
    if (board->base != NULL) {
        munmap(board->base, board->bytes);
    }
    close(board->fd);
    free(board);
}

int tfos__board_fd(const tfos__board *board)
{
    return board->fd;
}

size_t tfos__board_ranks(const tfos__board *board)
{
    return board->ranks;
}

size_t tfos__board_slot_bytes(const tfos__board *board)
{
    return board->slot_bytes;
}

void *tfos__board_head(const tfos__board *board, size_t rank)
{
    assert(rank < board->ranks);
    return board->heads + rank * TFOS__BOARD_HEAD_BYTES;
}

void *tfos__board_slot(const tfos__board *board, size_t rank, unsigned which)
{
    assert(rank < board->ranks && which < 2);
    return board->slots + (2 * rank + which) * board->slot_bytes;
}

void *tfos__board_result(const tfos__board *board, unsigned which)
{
    assert(which < TFOS__BOARD_RESULTS);
    return board->slots + (2 * board->ranks + which) * board->slot_bytes;
}

size_t tfos__board_far_bytes(const tfos__board *board)
{
    return board->far_bytes;
}

void *tfos__board_wide(const tfos__board *board, unsigned which)
{
    assert(board->far_bytes > 0 && which < WIDE_SLOTS);
    return board->wide + which * 2 * board->slot_bytes;
}

void *tfos__board_far(const tfos__board *board)
{
    assert(board->far_bytes > 0);
    return board->wide + WIDE_SLOTS * 2 * board->slot_bytes;
}

void tfos__board_blame(tfos__board *board, size_t rank)
{
    atomic_store_explicit(&board->common->blamed, rank != SIZE_MAX ? rank + 1 : 0, memory_order_relaxed);
}

size_t tfos__board_blamed(const tfos__board *board)
{
    uint64_t blamed = atomic_load_explicit(&board->common->blamed, memory_order_relaxed);
    return blamed > 0 ? (size_t)blamed - 1 : SIZE_MAX;
}

/* ---- stages ---- */

void tfos__board_advance(tfos__board *board, size_t rank)
{
    assert(rank < board->ranks);
    /* Release: whoever sees the stage sees what was written before it. */
    atomic_fetch_add_explicit(&board->lines[rank].stage, 1, memory_order_release);
    tfos__chime_ring(&board->common->chime);
}

uint64_t tfos__board_stage(const tfos__board *board, size_t rank)
{
    assert(rank < board->ranks);
    return atomic_load_explicit(&board->lines[rank].stage, memory_order_acquire);
}

/* The first worker, from `from` on, that is not so far; the number of workers if all are. */
static size_t find_missing(const tfos__board *board, uint64_t stage, size_t from)
{
    while (from < board->ranks && tfos__board_stage(board, from) >= stage) {
        from++;
    }
    return from;
}

static size_t spin(const tfos__board *board, uint64_t stage, size_t missing)
{
    uint64_t end = tfos__clock_ns() + SPIN_NS;
    do {
        for (int turn = 0; turn < SPIN_TURNS && missing < board->ranks; turn++) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
            missing = find_missing(board, stage, missing);
        }
    } while (missing < board->ranks && tfos__clock_ns() < end);
    return missing;
}

tfos_status tfos__board_await(tfos__board *board, uint64_t stage, tfos__board_look *look, void *context,
                              tfos_error *error)
{
    size_t missing = find_missing(board, stage, 0);
    if (missing < board->ranks && board->spins) {
        missing = spin(board, stage, missing);
    }
    for (uint64_t looked = tfos__clock_ns(); missing < board->ranks;) {
        uint32_t seen = tfos__chime_read(&board->common->chime);
        missing = find_missing(board, stage, missing);
        if (missing == board->ranks) {
            break; /* whatever has failed since then */
        }
        TFOS_TRY(tfos__board_check(board, error));
        if (tfos__clock_ns() - looked >= WAIT_MS * UINT64_C(1000000)) {
            looked = tfos__clock_ns();
            TFOS_TRY(look(context, missing, error));
        }
        tfos__chime_wait(&board->common->chime, seen, WAIT_MS);
    }
    return TFOS_OK;
}

/* ---- failure ---- */

void tfos__board_fail(tfos__board *board, tfos_status status, const char *text)
{
    uint32_t not_yet = FAILED_NOT;
    if (!atomic_compare_exchange_strong(&board->common->failed, &not_yet, FAILED_WRITING)) {
        return;
    }
    board->common->status = (uint32_t)status;
    snprintf(board->common->text, sizeof board->common->text, "%s", text);
    atomic_store_explicit(&board->common->failed, FAILED, memory_order_release);
    tfos__chime_ring(&board->common->chime);
}

tfos_status tfos__board_check(const tfos__board *board, tfos_error *error)
{
    if (atomic_load_explicit(&board->common->failed, memory_order_acquire) != FAILED) {
        return TFOS_OK;
    }
    uint32_t status = board->common->status;
    return tfos__fail(error, status > TFOS_END && status <= TFOS_RAISED ? (tfos_status)status : TFOS_IO, "%.*s",
                      TFOS__BOARD_TEXT_BYTES - 1, board->common->text);
}
