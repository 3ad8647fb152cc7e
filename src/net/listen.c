/* Ports are tried in turn, and an address that is not ours by listening everywhere. */
#include "net/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/status.h"

tfos_status tfos__ports_parse(const char *text, tfos__ports *out, tfos_error *error)
{
    char *end;
    out->first = out->last = 0;
    if (text == NULL || text[0] == '\0') {
        return TFOS_OK;
    }
    errno = 0;
    long first = strtol(text, &end, 10);
    long last = first;
    bool good = end != text;
    if (good && *end == '-') {
        const char *second = end + 1;
        last = strtol(second, &end, 10);
        good = end != second;
    }
    if (!good || *end != '\0' || errno != 0 || first < 1 || last > UINT16_MAX || first > last) {
        return tfos__fail(error, TFOS_INVALID,
                          "%s must be a port from 1 to 65535 or a range such as 9997-9999, found '%s'", out->setting,
                          tfos__printable_text(text).text);
    }
    out->first = (uint16_t)first;
    out->last = (uint16_t)last;
    return TFOS_OK;
}

static bool find_address(const char *host, struct sockaddr_storage *out, socklen_t *bytes)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, "0", &hints, &found) != 0) {
        return false;
    }
    memcpy(out, found->ai_addr, found->ai_addrlen);
    *bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

static void put_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
    } else {
        ((struct sockaddr_in *)address)->sin_port = htons(port);
    }
}

static uint16_t port_of(int socket_fd)
{
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof address;
    getsockname(socket_fd, (struct sockaddr *)&address, &bytes);
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

/* A socket that is bound and listens, or -1 with errno. */
static int try_port(const struct sockaddr_storage *address, socklen_t bytes)
{
    int yes = 1;
    int no = 0;
    int made = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0) {
        return -1;
    }
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (address->ss_family == AF_INET6) {
        setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    }
    if (bind(made, (const struct sockaddr *)address, bytes) != 0 || listen(made, SOMAXCONN) != 0) {
        int problem = errno;
        close(made);
        errno = problem;
        return -1;
    }
    return made;
}

static int try_ports(struct sockaddr_storage *address, socklen_t bytes, const tfos__ports *ports)
{
    int made = -1;
    errno = EADDRINUSE;
    for (uint32_t port = ports->first; port <= ports->last && made < 0 && errno == EADDRINUSE; port++) {
        put_port(address, (uint16_t)port);
        made = try_port(address, bytes);
    }
    return made;
}

static int listen_at(const char *host, const tfos__ports *ports)
{
    struct sockaddr_storage address;
    socklen_t bytes;
    errno = EADDRNOTAVAIL;
    return find_address(host, &address, &bytes) ? try_ports(&address, bytes, ports) : -1;
}

/* One socket for both families, or, where there is no IPv6, for the one. No name is looked up for that. */
static int listen_everywhere(const tfos__ports *ports)
{
    struct sockaddr_storage address = {.ss_family = AF_INET6};
    int made = try_ports(&address, sizeof(struct sockaddr_in6), ports);
    if (made < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {
        address = (struct sockaddr_storage){.ss_family = AF_INET};
        made = try_ports(&address, sizeof(struct sockaddr_in), ports);
    }
    return made;
}

tfos_status tfos__listen(const char *host, const tfos__ports *ports, int *out, uint16_t *port, tfos_error *error)
{
    int made = host[0] != '\0' ? listen_at(host, ports) : listen_everywhere(ports);
    if (made < 0 && host[0] != '\0' && errno == EADDRNOTAVAIL) {
        made = listen_everywhere(ports);
    }
    if (made < 0 && errno == EADDRINUSE) {
        return tfos__fail(error, TFOS_EXISTS, "every port from %u to %u on '%s' is in use; set %s to others",
                          ports->first, ports->last, host, ports->setting);
    }
    if (made < 0) {
        return tfos__fail_errno(error, errno, "cannot listen on '%s', port %u to %u (%s)", host, ports->first,
                                ports->last, ports->setting);
    }
    *port = port_of(made);
    *out = made;
    return TFOS_OK;
}
