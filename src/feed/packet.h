/* Packets between processes of one machine: a node and its child, a producer and a node, two workers. One struct of
 * fixed size, with up to three descriptors beside it, through a SOCK_SEQPACKET socket, which keeps packets whole and in
 * order. Both ends are the same version of tfos, so the struct is the format; its magic has the version in it.
 *
 *   producer                        node                             child
 *      │ HELLO token                    │                                │
 *      │───────────────────────────────►│ BELL (its own)                 │  (when the child starts)
 *      │           BELL (of the child)  │───────────────────────────────►│
 *      │◄───────────────────────────────│                                │
 *      │ OPEN id, queue; its own bell   │                                │
 *      │───────────────────────────────►│ LANE id, queue; lane, bell     │
 *      │                     LANE; lane │───────────────────────────────►│
 *      │◄───────────────────────────────│                                │
 *      │ …closes the socket             │                  DONE id       │
 *      │───────────────────────────────►│◄───────────────────────────────│  (read to its end)
 */
#ifndef TFOS_FEED_PACKET_H
#define TFOS_FEED_PACKET_H

#include "base/bytes.h"
#include "feed/lane.h"

typedef enum tfos__packet_kind {
    TFOS__PACKET_HELLO = 1, /* producer → node: token */
    TFOS__PACKET_BELL,      /* node → both: fds: the bell of the child; to the child also the node's, to be
                             * rung when it begins to starve */
    TFOS__PACKET_OPEN,      /* producer → node: id, queue, flags; fds: the producer's bell */
    TFOS__PACKET_LANE,      /* node → both: id, queue, flags; fds: lane; to the child also the producer's bell; with
                             * INFERENCE last of all the lane of the results */
    TFOS__PACKET_BUSY,      /* node → producer: no memory for another lane now; LANE follows when there is */
    TFOS__PACKET_REFUSED,   /* node → producer: text says why; flags: ENDED */
    TFOS__PACKET_SCHEMA,    /* node → child: queue; fds: a sealed memfd with an entry of kind SCHEMA */
    TFOS__PACKET_MARK,      /* node → child: queue */
    TFOS__PACKET_END,       /* node → child: queue ("": all): nothing more comes; flags: DROP what is there */
    TFOS__PACKET_DONE,      /* child → node: id.number: this lane was read to its end, or given up */
    TFOS__PACKET_TERMINATE, /* child → node: queue */
    TFOS__PACKET_QUEUE,     /* child → node: queue: it will be read; before that nobody gets a lane */
    TFOS__PACKET_MATE,      /* worker → first worker of its machine: token; id.number: its rank */
    TFOS__PACKET_BOARD,     /* … and its answer: fds: the board that they share (collective/board.h) */
    TFOS__PACKET_PART,      /* between the two: it leaves in good order */
} tfos__packet_kind;

enum {
    TFOS__PACKET_INFERENCE = 1, /* OPEN, LANE: a lane for results comes with it */
    TFOS__PACKET_DROP = 2,      /* END: rows that are still in lanes are not wanted */
    TFOS__PACKET_ENDED = 4,     /* REFUSED: the program has ended, and nothing is wrong with the producer */
    TFOS__PACKET_FDS_MOST = 3,
    TFOS__PACKET_TOKEN_BYTES = 32,
    TFOS__QUEUE_BYTES = 64, /* of a name, with its end */
};

typedef struct tfos__packet {
    uint32_t magic;
    uint32_t kind;
    uint32_t flags;
    uint32_t reserved;
    tfos__lane_id id;
    char queue[TFOS__QUEUE_BYTES];
    uint8_t token[TFOS__PACKET_TOKEN_BYTES];
    char text[360];
} tfos__packet;

void tfos__packet_init(tfos__packet *packet, tfos__packet_kind kind);

/* Sends a packet and copies of descriptors. END: there is no room now. IO: the peer is gone. */
tfos_status tfos__packet_send(int socket, const tfos__packet *packet, const int *fds, size_t fd_count,
                              tfos_error *error);

/* The same, and waits for room. END: there was none for that long. */
tfos_status tfos__packet_send_within(int socket, int64_t timeout_ms, const tfos__packet *packet, const int *fds,
                                     size_t fd_count, tfos_error *error);

/* Receives one without waiting. END: there is none now. IO: the peer is gone. CORRUPT: nonsense. LIMIT: there was no
 * room for its descriptors. They are the caller's from then on, CLOEXEC; those that did not come are -1. */
tfos_status tfos__packet_receive(int socket, tfos__packet *out, int fds[TFOS__PACKET_FDS_MOST], tfos_error *error);

void tfos__packet_close_fds(int fds[TFOS__PACKET_FDS_MOST]);

#endif
