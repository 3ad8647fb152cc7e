/* Packets: sendmsg and recvmsg with SCM_RIGHTS. What comes from a socket is checked before it is used, and descriptors
 * that nobody expected are closed: a peer that is not what it seems must not be able to fill our table of files. */
#include "feed/packet.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"

enum { MAGIC = 0x46544C31 }; /* "1LTF" in memory: goes up whenever the struct changes */

static_assert(sizeof(tfos__packet) == 512, "packets have one size");

void tfos__packet_init(tfos__packet *packet, tfos__packet_kind kind)
{
    *packet = (tfos__packet){.magic = MAGIC, .kind = kind};
}

tfos_status tfos__packet_send(int socket, const tfos__packet *packet, const int *fds, size_t fd_count,
                              tfos_error *error)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * TFOS__PACKET_FDS_MOST)] = {0};
    struct iovec piece = {.iov_base = (void *)(uintptr_t)packet, .iov_len = sizeof *packet};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    assert(fd_count <= TFOS__PACKET_FDS_MOST);
    if (fd_count > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(header), fds, sizeof(int) * fd_count);
    }
    for (;;) {
        ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent == (ssize_t)sizeof *packet) {
            return TFOS_OK;
        }
        /* ETOOMANYREFS: too many descriptors are on their way; they arrive, and then there is room. Memory that the
         * kernel lacks now it will have again. */
        if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS)) {
            return TFOS_END;
        }
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        return tfos__fail_errno(error, sent < 0 ? errno : EPROTO, "cannot send to the other end of the feed");
    }
}

tfos_status tfos__packet_send_within(int socket, int64_t timeout_ms, const tfos__packet *packet, const int *fds,
                                     size_t fd_count, tfos_error *error)
{
    enum { LOOK_MS = 100 };
    const struct timespec moment = {.tv_nsec = 1000000};
    int64_t deadline = tfos__clock_ms() + timeout_ms;
    for (;;) {
        tfos_status status = tfos__packet_send(socket, packet, fds, fd_count, error);
        if (status != TFOS_END || tfos__clock_ms() >= deadline) {
            return status;
        }
        struct pollfd wait = {.fd = socket, .events = POLLOUT};
        if (poll(&wait, 1, LOOK_MS) > 0) {
            nanosleep(&moment, NULL); /* a socket with room may still refuse descriptors */
        }
    }
}

static void take_fds(struct msghdr *message, int fds[TFOS__PACKET_FDS_MOST])
{
    size_t taken = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
            if (taken < TFOS__PACKET_FDS_MOST) {
                fds[taken++] = fd;
            } else {
                close(fd);
            }
        }
    }
}

void tfos__packet_close_fds(int fds[TFOS__PACKET_FDS_MOST])
{
    for (size_t i = 0; i < TFOS__PACKET_FDS_MOST; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
            fds[i] = -1;
        }
    }
}

tfos_status tfos__packet_receive(int socket, tfos__packet *out, int fds[TFOS__PACKET_FDS_MOST], tfos_error *error)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * TFOS__PACKET_FDS_MOST)];
    struct iovec piece = {.iov_base = out, .iov_len = sizeof *out};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t got;
    for (size_t i = 0; i < TFOS__PACKET_FDS_MOST; i++) {
        fds[i] = -1;
    }
    do {
        got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN) {
        return TFOS_END;
    }
    if (got < 0) {
        return tfos__fail_errno(error, errno, "cannot receive from the other end of the feed");
    }
    take_fds(&message, fds); /* also those of an empty packet, which looks like the end */
    if (got == 0) {
        tfos__packet_close_fds(fds);
        return tfos__fail(error, TFOS_IO, "the other end of the feed is gone");
    }
    if (got != (ssize_t)sizeof *out || out->magic != MAGIC || (message.msg_flags & MSG_TRUNC) != 0) {
        tfos__packet_close_fds(fds);
        return tfos__fail(
            error, TFOS_CORRUPT,
            "the other end of the feed sent a packet of %zd bytes that is none of ours; both ends must be "
            "the same version of tfos",
            got);
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
        tfos__packet_close_fds(fds);
        return tfos__fail(error, TFOS_LIMIT,
                          "descriptors that came with a packet were lost; this process has probably as many open files "
                          "as it may have: raise ulimit -n");
    }
    out->queue[TFOS__QUEUE_BYTES - 1] = '\0';
    out->text[sizeof out->text - 1] = '\0';
    return TFOS_OK;
}
