/* Abstract Unix sockets: the first byte of the path is NUL, and its length says where the name ends. */
#include "net/local.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/status.h"
#include "base/tls.h"

static socklen_t address_of(const char *name, struct sockaddr_un *out)
{
    size_t bytes = strlen(name);
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->sun_path + 1, name, bytes);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes);
}

tfos_status tfos__local_listen(const char *what, char name[TFOS__LOCAL_NAME_BYTES], int *out, tfos_error *error)
{
    enum { RANDOM = 16 };
    uint8_t random[TFOS__KEY_BYTES];
    struct sockaddr_un address;
    TFOS_TRY(tfos__key_make(random, error));
    snprintf(name, TFOS__LOCAL_NAME_BYTES - 2 * RANDOM, "tfos-%s-", what);
    for (size_t i = 0, at = strlen(name); i < RANDOM; i++, at += 2) {
        snprintf(name + at, TFOS__LOCAL_NAME_BYTES - at, "%02x", random[i]);
    }
    socklen_t bytes = address_of(name, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, bytes) != 0 || listen(fd, SOMAXCONN) != 0) {
        int number = errno;
        if (fd >= 0) {
            close(fd);
        }
        return tfos__fail_errno(error, number, "cannot listen for processes of this machine");
    }
    *out = fd;
    return TFOS_OK;
}

int tfos__local_connect(const char *name)
{
    struct sockaddr_un address;
    size_t bytes = strlen(name);
    if (bytes == 0 || bytes >= sizeof address.sun_path - 1) {
        return -1;
    }
    socklen_t length = address_of(name, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, length) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

bool tfos__local_is_own(int socket)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == getuid();
}
