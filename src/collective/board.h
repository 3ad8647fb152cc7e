/* The board: memory that the workers of one host share, on which each shows the others what it has.
 *
 * Each worker has a place of its own: a stage that only it advances, a head that says what it is about to do, and two
 * slots for data, so that one can be filled while the other is still read. Results have slots that belong to nobody.
 * Whoever needs what the others have shown waits until their stages are far enough; there is no lock, and nobody can
 * hold one while it dies.
 *
 *   0          4096                        heads                          slots
 *   ┌──────────┬───────┬───────┬───  ───┬──────────┬───────  ───┬──────┬──────┬──────┬──  ──┬────────┬────  ──┐
 *   │ common   │stage 0│stage 1│  …     │ head 0   │ head 1  …  │ 0, a │ 0, b │ 1, a │  …   │result a│result … │
 *   └──────────┴───────┴───────┴───  ───┴──────────┴───────  ───┴──────┴──────┴──────┴──  ──┴────────┴────  ──┘
 *   common    magic, sizes; a futex that is rung with each stage; the first failure, for all to read
 *   stage     64 bytes each, so that no two processors fight over a line
 *
 * Where there are other hosts, two wide slots follow, for sums that are on their way there, and a place for what was
 * heard from them. */
#ifndef TFOS_COLLECTIVE_BOARD_H
#define TFOS_COLLECTIVE_BOARD_H

#include "tfos.h"

enum {
    TFOS__BOARD_RANKS_MOST = 1024,
    TFOS__BOARD_HEAD_BYTES = 2048,
    TFOS__BOARD_RESULTS = 2, /* slots for results */
    TFOS__BOARD_TEXT_BYTES = 768,
};

typedef struct tfos__board tfos__board;

/* Makes one for so many workers, whose slots have so many bytes, a multiple of 4096. `far_bytes` are for what is heard
 * from other hosts; 0: there are none. */
tfos_status tfos__board_new(size_t ranks, size_t slot_bytes, size_t far_bytes, tfos__board **out, tfos_error *error);

/* Takes over the descriptor of one that another process made, whatever the result. CORRUPT if it is none. */
tfos_status tfos__board_adopt(int fd, tfos__board **out, tfos_error *error);
void tfos__board_free(tfos__board *board);

/* The descriptor to be sent; it stays the board's. */
int tfos__board_fd(const tfos__board *board);
size_t tfos__board_ranks(const tfos__board *board);
size_t tfos__board_slot_bytes(const tfos__board *board);

void *tfos__board_head(const tfos__board *board, size_t rank);
void *tfos__board_slot(const tfos__board *board, size_t rank, unsigned which); /* 0 or 1 */
void *tfos__board_result(const tfos__board *board, unsigned which);

/* Where there are other hosts: a wide slot has twice the bytes of a slot. */
size_t tfos__board_far_bytes(const tfos__board *board);
void *tfos__board_far(const tfos__board *board);
void *tfos__board_wide(const tfos__board *board, unsigned which); /* 0 or 1 */

/* Of which worker elsewhere, by its rank, the first worker here is waiting for news, so that those who wait for the
 * first one know whom they wait for. SIZE_MAX: for nobody. */
void tfos__board_blame(tfos__board *board, size_t rank);
size_t tfos__board_blamed(const tfos__board *board);

/* Everything that this worker has written so far is shown to all. */
void tfos__board_advance(tfos__board *board, size_t rank);
uint64_t tfos__board_stage(const tfos__board *board, size_t rank);

/* Asked about ten times a second by whoever waits; a failure ends the wait. `missing` is the first worker whose stage
 * is waited for. */
typedef tfos_status tfos__board_look(void *context, size_t missing, tfos_error *error);

/* Waits until the stages of all workers are at least `stage`. */
tfos_status tfos__board_await(tfos__board *board, uint64_t stage, tfos__board_look *look, void *context,
                              tfos_error *error);

/* Tells everybody that nothing more can come of it. The first failure stays; later ones are not heard. */
void tfos__board_fail(tfos__board *board, tfos_status status, const char *text);

/* The first failure, if there is one. */
tfos_status tfos__board_check(const tfos__board *board, tfos_error *error);

#endif
