/* Links between the hosts of a group, and how bytes go around on them.
 *
 * On each host one worker, the first, has links: to the hosts that are 1, 2, 4, … behind it, and from those that are as
 * far before it. Data goes forward alone; words, which are about the group and not part of any call, go both ways.
 *
 *        ┌─────── 2 ───────┐
 *      host 0 ── 1 ──► host 1 ── 1 ──► host 2 ── 1 ──► host 3 ── 1 ──► (host 0)
 *
 *   frame    kind (4 bytes) · length (4) · so many bytes
 *   kinds    DATA       whatever the call has next; both ends know what that is
 *            FAILURE    status (4 bytes) and text: nothing more can come of the group
 *            LEAVING    the worker leaves in good order
 *            WAITING    rank (4 bytes) of the worker that the sender waits for; all ones: it does not any more
 *
 * There are three ways to go around. In a gathering each host sends all that it has heard of so far, to hosts that are
 * twice as far each time: few steps, many bytes. In a ring each host sends a chunk to the next one, which combines it
 * with its own, and so on until all of it has been everywhere: many steps, fewest bytes. In a relay one host sends, and
 * each passes on what comes while it comes. A machine without threads; one thread uses it at a time. */
#ifndef TFOS_COLLECTIVE_FAR_H
#define TFOS_COLLECTIVE_FAR_H

#include "net/dial.h"

typedef struct tfos__far tfos__far;

/* Asked about ten times a second by whoever waits, with the rank of the worker that is waited for. */
typedef tfos_status tfos__far_look(void *context, size_t rank, tfos_error *error);

typedef struct tfos__far_options {
    size_t size; /* workers in all */
    size_t hosts;
    size_t host;           /* this one */
    const size_t *leaders; /* of each host, the rank of the worker that has its links; outlives the links */
    /* How a worker is called in messages. */
    const char *(*name)(void *context, size_t rank);
    void *name_context;
} tfos__far_options;

enum { TFOS__FAR_LINKS_MOST = 10 }; /* 1 024 hosts */

/* How many links a host makes; as many are made to it. Link i leads to the host that is 2^i behind. */
size_t tfos__far_link_count(size_t hosts);
size_t tfos__far_host_behind(size_t hosts, size_t host, size_t link);

/* `out` are the links that this host has made, `in` those that were made to it; both become the far's, whatever the
 * result. */
tfos_status tfos__far_new(const tfos__far_options *options, tfos__dial *const *out, tfos__dial *const *in,
                          tfos__far **far, tfos_error *error);

/* Says good-bye, if nothing has failed, and closes the links. */
void tfos__far_free(tfos__far *far);

void tfos__far_set_look(tfos__far *far, tfos__far_look *look, void *context);

/* Grows as long as bytes move. */
uint64_t tfos__far_moved(const tfos__far *far);

/* Every host gives a block, of `most` bytes at most, and gets those of all. They stay until the next gathering. */
tfos_status tfos__far_gather(tfos__far *far, const void *mine, size_t bytes, size_t most, tfos_error *error);
const uint8_t *tfos__far_block(const tfos__far *far, size_t host, size_t *bytes);

/* What a ring goes around with. Chunks are whole lines of 64 bytes, and so are the runs that are combined. */
typedef struct tfos__ring {
    uint8_t *wire; /* as the result is to be on all hosts; in the beginning the chunk of this host is there */
    size_t bytes;  /* of it: whole lines */
    /* wire[at …] becomes what has come, combined with what this host has there. */
    void (*combine)(void *context, size_t at, size_t bytes, const uint8_t *come);
    void *context;
} tfos__ring;

/* The chunk that a host begins with. */
void tfos__ring_chunk(const tfos__far *far, size_t bytes, size_t *at, size_t *chunk_bytes);
tfos_status tfos__far_ring(tfos__far *far, tfos__ring *ring, tfos_error *error);

/* The bytes that `from` has come to all others. */
tfos_status tfos__far_relay(tfos__far *far, size_t from, uint8_t *bytes, size_t count, tfos_error *error);

/* Tells the neighbours, and by them all, why nothing more can come of the group. */
void tfos__far_fail(tfos__far *far, tfos_status status, const char *text);

/* Hears what others say of the group, on all links. A failure that they tell of is returned. */
tfos_status tfos__far_listen(tfos__far *far, tfos_error *error);

/* Tells those behind whom this host waits for, about once a second, so that they blame the right one; SIZE_MAX: it does
 * not wait any more. */
void tfos__far_blame(tfos__far *far, size_t rank);

#endif
