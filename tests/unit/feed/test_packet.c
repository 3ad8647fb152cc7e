/* Packets through a socket of this machine: whole, in order and with their descriptors; and peers that are not what
 * they seem, who must not be able to fill our table of files. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "feed/packet.h"

static void make_pair(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

static size_t count_files(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

/* Sends anything, with copies of `fd`. */
static void send_raw(int socket, const void *bytes, size_t count, int fd, size_t copies)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 64)] = {0};
    struct iovec piece = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = count};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    assert_true(copies <= 64);
    if (copies > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * copies);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * copies);
        for (size_t i = 0; i < copies; i++) {
            memcpy(CMSG_DATA(header) + i * sizeof(int), &fd, sizeof fd);
        }
    }
    assert_int_equal(sendmsg(socket, &message, MSG_NOSIGNAL), count);
}

static bool is_same_file(int a, int b)
{
    struct stat one;
    struct stat other;
    assert_int_equal(fstat(a, &one), 0);
    assert_int_equal(fstat(b, &other), 0);
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

static void test_a_packet_and_its_descriptors(void **state)
{
    (void)state;
    int pair[2];
    int pipes[2];
    int fds[TFOS__PACKET_FDS_MOST];
    make_pair(pair);
    assert_int_equal(pipe(pipes), 0);
    tfos__packet packet;
    tfos__packet received;
    tfos__packet_init(&packet, TFOS__PACKET_LANE);
    packet.flags = TFOS__PACKET_INFERENCE;
    packet.id = (tfos__lane_id){.number = 1, .attempt = {.feed = 2, .epoch = 3, .partition = UINT64_MAX, .task = 5}};
    strcpy(packet.queue, "validation");
    memset(packet.token, 7, sizeof packet.token);
    memset(packet.text, 'x', sizeof packet.text); /* without an end */
    for (size_t count = 0; count <= TFOS__PACKET_FDS_MOST; count++) {
        const int sent[] = {pipes[0], pipes[1], pair[0]};
        assert_int_equal(tfos__packet_send(pair[0], &packet, sent, count, NULL), TFOS_OK);
        assert_int_equal(tfos__packet_receive(pair[1], &received, fds, NULL), TFOS_OK);
        assert_int_equal(received.kind, TFOS__PACKET_LANE);
        assert_int_equal(received.flags, TFOS__PACKET_INFERENCE);
        assert_memory_equal(&received.id, &packet.id, sizeof packet.id);
        assert_string_equal(received.queue, "validation");
        assert_memory_equal(received.token, packet.token, sizeof packet.token);
        assert_int_equal(strlen(received.text), sizeof received.text - 1);
        for (size_t i = 0; i < TFOS__PACKET_FDS_MOST; i++) {
            assert_int_equal(fds[i] >= 0, i < count);
            if (i < count) {
                assert_true(is_same_file(fds[i], sent[i]));
                assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
            }
        }
        tfos__packet_close_fds(fds);
        assert_int_equal(fds[0], -1);
    }
    assert_int_equal(tfos__packet_receive(pair[1], &received, fds, NULL), TFOS_END);
    for (size_t i = 0; i < 2; i++) {
        close(pair[i]);
        close(pipes[i]);
    }
}

static void test_nonsense_is_refused_and_leaves_no_files(void **state)
{
    (void)state;
    int pair[2];
    int fds[TFOS__PACKET_FDS_MOST];
    tfos__packet packet;
    tfos__packet good;
    tfos_error error;
    uint8_t bytes[2 * sizeof packet] = {0};
    make_pair(pair);
    tfos__packet_init(&good, TFOS__PACKET_HELLO);
    memcpy(bytes, &good, sizeof good);
    size_t before = count_files();
    const size_t lengths[] = {1, 4, sizeof packet - 1, sizeof packet + 1, sizeof bytes};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (size_t copies = 0; copies < 8; copies++) {
            send_raw(pair[0], bytes, lengths[i], pair[0], copies);
            assert_int_equal(tfos__packet_receive(pair[1], &packet, fds, &error), TFOS_CORRUPT);
            assert_non_null(strstr(error.message, "same version"));
            assert_int_equal(fds[0], -1);
            assert_int_equal(count_files(), before);
        }
    }
    bytes[0] ^= 1; /* of the magic number */
    send_raw(pair[0], bytes, sizeof packet, pair[0], 3);
    assert_int_equal(tfos__packet_receive(pair[1], &packet, fds, &error), TFOS_CORRUPT);
    /* More descriptors than a packet has are no packet of ours, or are closed. */
    for (size_t copies = TFOS__PACKET_FDS_MOST + 1; copies <= 64; copies += 7) {
        send_raw(pair[0], &good, sizeof good, pair[0], copies);
        tfos_status status = tfos__packet_receive(pair[1], &packet, fds, &error);
        assert_true(status == TFOS_OK || status == TFOS_LIMIT);
        tfos__packet_close_fds(fds);
        assert_int_equal(count_files(), before);
    }
    /* After all that the socket still works. */
    assert_int_equal(tfos__packet_send(pair[0], &good, NULL, 0, NULL), TFOS_OK);
    assert_int_equal(tfos__packet_receive(pair[1], &packet, fds, &error), TFOS_OK);
    close(pair[0]);
    close(pair[1]);
}

/* An empty packet looks like the end of the connection, and may have descriptors beside it. */
static void test_an_empty_packet_leaves_no_files(void **state)
{
    (void)state;
    int pair[2];
    int fds[TFOS__PACKET_FDS_MOST];
    tfos__packet packet;
    make_pair(pair);
    size_t before = count_files();
    for (size_t i = 0; i < 10; i++) {
        send_raw(pair[0], "", 0, pair[0], 3);
        assert_int_equal(tfos__packet_receive(pair[1], &packet, fds, NULL), TFOS_IO);
        assert_int_equal(fds[0], -1);
    }
    assert_int_equal(count_files(), before);
    close(pair[0]);
    close(pair[1]);
}

/* Descriptors that do not fit our table of files are lost, and that is said. */
static void test_a_full_table_of_files(void **state)
{
    (void)state;
    int pair[2];
    int fds[TFOS__PACKET_FDS_MOST];
    tfos__packet packet;
    tfos_error error;
    struct rlimit limit;
    make_pair(pair);
    tfos__packet_init(&packet, TFOS__PACKET_LANE);
    const int sent[] = {pair[0], pair[0]};
    assert_int_equal(tfos__packet_send(pair[0], &packet, sent, 2, NULL), TFOS_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    size_t before = count_files();
    const struct rlimit low = {.rlim_cur = (rlim_t)pair[1] + 2, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    tfos_status status = tfos__packet_receive(pair[1], &packet, fds, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(status, TFOS_LIMIT);
    assert_non_null(strstr(error.message, "ulimit -n"));
    assert_int_equal(count_files(), before);
    close(pair[0]);
    close(pair[1]);
}

static void test_a_peer_that_is_gone(void **state)
{
    (void)state;
    int pair[2];
    int fds[TFOS__PACKET_FDS_MOST];
    tfos__packet packet;
    tfos_error error;
    make_pair(pair);
    tfos__packet_init(&packet, TFOS__PACKET_DONE);
    assert_int_equal(tfos__packet_send(pair[0], &packet, NULL, 0, NULL), TFOS_OK);
    close(pair[0]);
    /* What it has sent before is received first. */
    assert_int_equal(tfos__packet_receive(pair[1], &packet, fds, &error), TFOS_OK);
    assert_int_equal(tfos__packet_receive(pair[1], &packet, fds, &error), TFOS_IO);
    assert_int_equal(tfos__packet_send(pair[1], &packet, NULL, 0, &error), TFOS_IO);
    close(pair[1]);
}

static void test_a_socket_that_nobody_reads(void **state)
{
    (void)state;
    int pair[2];
    int fds[TFOS__PACKET_FDS_MOST];
    tfos__packet packet;
    make_pair(pair);
    uint64_t sent = 0;
    for (;; sent++) {
        tfos__packet_init(&packet, TFOS__PACKET_DONE);
        packet.id.number = sent;
        tfos_status status = tfos__packet_send(pair[0], &packet, NULL, 0, NULL);
        if (status == TFOS_END) {
            break;
        }
        assert_int_equal(status, TFOS_OK);
        assert_true(sent < 1000000);
    }
    assert_true(sent > 10);
    for (uint64_t i = 0; i < sent; i++) {
        assert_int_equal(tfos__packet_receive(pair[1], &packet, fds, NULL), TFOS_OK);
        assert_int_equal(packet.id.number, i);
    }
    assert_int_equal(tfos__packet_send(pair[0], &packet, NULL, 0, NULL), TFOS_OK);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_packet_and_its_descriptors),
        cmocka_unit_test(test_nonsense_is_refused_and_leaves_no_files),
        cmocka_unit_test(test_an_empty_packet_leaves_no_files),
        cmocka_unit_test(test_a_full_table_of_files),
        cmocka_unit_test(test_a_peer_that_is_gone),
        cmocka_unit_test(test_a_socket_that_nobody_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
