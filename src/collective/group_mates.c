/* The workers of one machine: the first of them makes a board, and the others come to its Unix socket for it. Their
 * connections stay open, so that each end sees when the other is gone. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/status.h"
#include "collective/group.h"
#include "feed/packet.h"

enum { SLICE_MS = 100, GREETING_MS = 10000 };

#define TOKEN_PURPOSE "tfos board 1"

/* END: nothing has come in a slice of time. */
static tfos_status wait_a_slice(int socket, tfos_error *error)
{
    struct pollfd wait = {.fd = socket, .events = POLLIN};
    int ready = poll(&wait, 1, SLICE_MS);
    if (ready < 0 && errno != EINTR) {
        return tfos__fail_errno(error, errno, "cannot wait for the workers of this machine");
    }
    return ready > 0 ? TFOS_OK : TFOS_END;
}

/* ---- who they are ---- */

static bool share_memory(const void *context, size_t a, size_t b)
{
    const tfos_group *group = context;
    return strcmp(group->members[a].shares, group->members[b].shares) == 0;
}

tfos_status tfos__group_find_hosts(tfos_group *group, tfos_error *error)
{
    return tfos__hosts_init(&group->hosts, group->size, share_memory, group, error);
}

static tfos_status find_mates(tfos_group *group, tfos_error *error)
{
    TFOS_TRY(tfos__group_find_hosts(group, error));
    size_t host = group->hosts.host_of[group->rank];
    group->mate_count = tfos__hosts_mates(&group->hosts, host);
    group->mate = tfos__hosts_place(&group->hosts, group->rank);
    group->mates = calloc(group->mate_count, sizeof *group->mates);
    if (group->mates == NULL) {
        return tfos__fail_memory(error, group->mate_count * sizeof *group->mates);
    }
    for (size_t place = 0; place < group->mate_count; place++) {
        group->mates[place] = (tfos__mate){.rank = tfos__hosts_rank(&group->hosts, host, place), .socket = -1};
    }
    return TFOS_OK;
}

/* ---- the first of them ---- */

static tfos__mate *find_awaited(const tfos_group *group, uint64_t rank)
{
    for (size_t i = 1; i < group->mate_count; i++) {
        if (group->mates[i].rank == rank && group->mates[i].socket < 0) {
            return &group->mates[i];
        }
    }
    return NULL;
}

/* Gives the board to whoever has connected, if it is one of those that are waited for. Whether it was. */
static bool give_board(const tfos_group *group, int socket, const uint8_t token[TFOS__KEY_BYTES])
{
    tfos__packet packet;
    int fds[TFOS__PACKET_FDS_MOST];
    int board = tfos__board_fd(group->board);
    struct pollfd wait = {.fd = socket, .events = POLLIN};
    if (!tfos__local_is_own(socket) || poll(&wait, 1, GREETING_MS) != 1 ||
        tfos__packet_receive(socket, &packet, fds, NULL) != TFOS_OK) {
        return false;
    }
    tfos__packet_close_fds(fds);
    tfos__mate *mate = find_awaited(group, packet.id.number);
    if (packet.kind != TFOS__PACKET_MATE || mate == NULL || !tfos__secret_equal(packet.token, token, TFOS__KEY_BYTES)) {
        return false;
    }
    tfos__packet_init(&packet, TFOS__PACKET_BOARD);
    if (tfos__packet_send_within(socket, GREETING_MS, &packet, &board, 1, NULL) != TFOS_OK) {
        return false;
    }
    mate->socket = socket;
    return true;
}

static tfos_status serve_board(tfos_group *group, const tfos__group_opening *opening,
                               const uint8_t token[TFOS__KEY_BYTES], tfos_error *error)
{
    for (size_t missing = group->mate_count - 1; missing > 0;) {
        const tfos__mate *awaited = NULL;
        for (size_t i = 1; i < group->mate_count && awaited == NULL; i++) {
            awaited = group->mates[i].socket < 0 ? &group->mates[i] : NULL;
        }
        tfos_status status = wait_a_slice(opening->local_socket, error);
        if (status == TFOS_END) {
            TFOS_TRY(tfos__group_check_patience(opening, group->members[awaited->rank].name, error));
            continue;
        }
        TFOS_TRY(status);
        int socket = accept4(opening->local_socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (socket >= 0 && give_board(group, socket, token)) {
            missing--;
        } else if (socket >= 0) {
            close(socket);
        }
    }
    return TFOS_OK;
}

static tfos_status make_board(tfos_group *group, tfos_error *error)
{
    enum { PAGE = 4096, FAR_PIECE_BYTES = 4 << 20 };
    int64_t bytes;
    size_t hosts = group->hosts.count;
    TFOS_TRY(tfos__setting_choose(TFOS__SETTING_COLLECTIVE_PIECE_BYTES, -1, -1, &bytes, error));
    if (group->mate_count > TFOS__BOARD_RANKS_MOST) {
        return tfos__fail(error, TFOS_LIMIT, "at most %d workers of one machine can share memory, found %zu",
                          TFOS__BOARD_RANKS_MOST, group->mate_count);
    }
    /* What goes around in a ring is cut into as many chunks as there are hosts. */
    bytes = tfos__max_i64(bytes, tfos__min_i64(bytes * (int64_t)hosts, FAR_PIECE_BYTES));
    size_t far_bytes = hosts > 1 ? tfos__runner_far_bytes(group->size) : 0;
    return tfos__board_new(group->mate_count, ((size_t)bytes + PAGE - 1) / PAGE * PAGE, far_bytes, &group->board,
                           error);
}

/* ---- the others ---- */

static tfos_status fetch_board(tfos_group *group, const tfos__group_opening *opening,
                               const uint8_t token[TFOS__KEY_BYTES], tfos_error *error)
{
    tfos__packet packet;
    int fds[TFOS__PACKET_FDS_MOST];
    tfos__mate *first = &group->mates[0];
    const tfos__group_member *member = &group->members[first->rank];
    first->socket = tfos__local_connect(member->board_name);
    if (first->socket < 0) {
        return tfos__fail(error, TFOS_IO,
                          "%s is on this machine and does not answer; if it has ended, it says why. Where processes of "
                          "one machine may not share memory, set collective.shared=0",
                          member->name);
    }
    tfos__packet_init(&packet, TFOS__PACKET_MATE);
    packet.id.number = group->rank;
    memcpy(packet.token, token, sizeof packet.token);
    TFOS_TRY(tfos__packet_send(first->socket, &packet, NULL, 0, error));
    for (;;) {
        tfos_status status = wait_a_slice(first->socket, error);
        if (status != TFOS_END) {
            TFOS_TRY(status);
            break;
        }
        TFOS_TRY(tfos__group_check_patience(opening, member->name, error));
    }
    TFOS_TRY(tfos__packet_receive(first->socket, &packet, fds, error));
    int board = fds[0];
    fds[0] = -1;
    tfos__packet_close_fds(fds);
    TFOS_TRY(tfos__board_adopt(board, &group->board, error));
    if (tfos__board_ranks(group->board) != group->mate_count) {
        return tfos__fail(error, TFOS_CORRUPT, "%s has a board for %zu workers, expected %zu", member->name,
                          tfos__board_ranks(group->board), group->mate_count);
    }
    return TFOS_OK;
}

tfos_status tfos__group_share(tfos_group *group, const tfos__group_opening *opening, tfos_error *error)
{
    uint8_t token[TFOS__KEY_BYTES];
    TFOS_TRY(find_mates(group, error));
    TFOS_TRY(tfos__key_derive(group->key, TOKEN_PURPOSE, token, error));
    if (group->mate > 0) {
        return fetch_board(group, opening, token, error);
    }
    TFOS_TRY(make_board(group, error));
    return serve_board(group, opening, token, error);
}
