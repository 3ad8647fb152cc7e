/* A lane: a ring of entries in a sealed memfd, between one producer and one consumer who need not be related and of
 * whom either may be killed at any instruction.
 *
 *   control block, 4096 bytes                                     ring, a power of two
 *   ┌───────────────┬───────────────┬───────────────┬──────────┬───────────────────────────────────
 *   │ who and what  │ producer's    │ consumer's    │ zero     │ entries, each a multiple of 64 bytes
 *   │ (never changes│ line: head    │ line: tail    │          │
 *   └───────────────┴───────────────┴───────────────┴──────────┴───────────────────────────────────
 *   0               128             256             384        4096
 *
 * Head and tail count bytes from the beginning of time; their place in the ring is what is left modulo its size. The
 * ring is mapped twice in a row, so that an entry never wraps. The top bit of both words is CLOSED:
 *
 *   head   set by the producer when all is in, or by the node that owns the lane, when it fences the producer. Entries
 *          are committed by compare-and-swap, so the value of head at the moment of closing says to the byte what was
 *          fed, and nothing can be added afterwards.
 *   tail   set by the consumer, or by the node when the consumer is gone: the producer gets CANCELLED.
 *
 * How many rows that were is as exact: the producer writes the counts of the next commit to one of two slots, in turn,
 * and the lowest bit of head (positions are multiples of 64) says which slot goes with it. A producer that is killed
 * between the two has changed nothing.
 *
 * A lane belongs to one attempt to feed one partition in one epoch of one feed, so its entries need not say so. */
#ifndef TFOS_FEED_LANE_H
#define TFOS_FEED_LANE_H

#include "feed/bell.h"
#include "net/attempt.h"

typedef struct tfos__lane tfos__lane;

typedef struct tfos__lane_id {
    uint64_t number; /* of the lane on its node */
    tfos__attempt attempt;
} tfos__lane_id;

typedef struct tfos__lane_counts {
    uint64_t end_row;       /* of the partition: the number behind the last row that was committed here; 0: none was */
    uint64_t fed_rows;      /* committed here */
    uint64_t consumed_rows; /* copied out; an entry may be copied in parts */
    uint64_t head;          /* without the bit */
    uint64_t tail;
    bool fed_out;  /* head is closed: nothing more comes */
    bool given_up; /* tail is closed: nothing more is taken */
} tfos__lane_counts;

enum { TFOS__LANE_LEAST_BYTES = 64 << 10, TFOS__LANE_MOST_BYTES = 1 << 30, TFOS__LANE_ALIGN = 64 };

/* The bytes that a lane has of which so many are wanted: a power of two. */
size_t tfos__lane_round(size_t ring_bytes);

/* Makes a lane with a ring of at least `ring_bytes`, rounded up to a power of two. LIMIT beyond
 * TFOS__LANE_MOST_BYTES. */
tfos_status tfos__lane_new(size_t ring_bytes, const tfos__lane_id *id, tfos__lane **out, tfos_error *error);

/* Takes over the descriptor of a lane that another process made, whatever the result. CORRUPT if it is none. */
tfos_status tfos__lane_adopt(int fd, tfos__lane **out, tfos_error *error);

void tfos__lane_free(tfos__lane *lane);

/* The descriptor to be sent; it stays the lane's. */
int tfos__lane_fd(const tfos__lane *lane);
const tfos__lane_id *tfos__lane_id_of(const tfos__lane *lane);
size_t tfos__lane_ring_bytes(const tfos__lane *lane);

/* Any end, and the owner, at any time. Fed rows and end row go with head; tail and consumed rows are never ahead of
 * them. What another process wrote there is not checked. */
void tfos__lane_count(const tfos__lane *lane, tfos__lane_counts *out);

/* ---- The producer's end ---- */

/* Room for `bytes` (a multiple of 64) behind the last entry, contiguous. OK: *out is where to write. END: there is no
 * room now. CANCELLED: the consumer takes nothing more, or the lane was fenced. LIMIT: the ring is smaller than that;
 * the message has both sizes and the setting feed.lane_bytes. CORRUPT when head or tail is nonsense. */
tfos_status tfos__lane_reserve(tfos__lane *lane, size_t bytes, uint8_t **out, tfos_error *error);

/* Commits the first `bytes` (a multiple of 64) of what was reserved: entries with `rows` rows, the last of which comes
 * before `end_row` of the partition; without rows (a schema, say) the end row stays what it was. CANCELLED: it was
 * fenced before, and nothing was added. What was reserved beyond `bytes` is given up. The bell is the caller's to
 * ring. */
tfos_status tfos__lane_commit(tfos__lane *lane, size_t bytes, uint64_t rows, uint64_t end_row, tfos_error *error);

/* Bytes that are committed and not released, and those that could be reserved. */
size_t tfos__lane_used(const tfos__lane *lane);
size_t tfos__lane_free_bytes(const tfos__lane *lane);

/* Bytes that can be reserved for an entry of at least `least` bytes if entries stay within the first `window` bytes of
 * the ring, which have memory already and are in the caches: *gap are to be committed before, as a gap, so that it
 * begins at the beginning again. An entry that is larger than the window, or than what lies before it, cannot go back
 * and uses the ring as it is. */
size_t tfos__lane_room(const tfos__lane *lane, size_t window, size_t least, size_t *gap);

/* ---- The consumer's end ---- */

/* Bytes that can be read; *out is where they begin. 0: nothing now, or nothing ever if *fed_out. CORRUPT when head or
 * tail is nonsense. */
tfos_status tfos__lane_peek(tfos__lane *lane, const uint8_t **out, size_t *bytes, bool *fed_out, tfos_error *error);

/* Counts rows as consumed. */
void tfos__lane_take_rows(tfos__lane *lane, uint64_t rows);

/* Gives `bytes` (a multiple of 64, of what was seen by peek) back to the producer, whose bell is the caller's to ring.
 */
void tfos__lane_release(tfos__lane *lane, size_t bytes);

/* ---- Either end, and the owner ---- */

/* Nothing can be committed any more; tfos__lane_count is exact from now on. */
void tfos__lane_close_head(tfos__lane *lane);

/* Nothing will be consumed any more. */
void tfos__lane_close_tail(tfos__lane *lane);

#endif
