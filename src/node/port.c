/* Ports. A TensorFlow server refuses a port that another socket holds, so the port must be let go before the server
 * starts; but then the kernel might hand it to somebody else. The way out: a connection from the port to itself, whose
 * accepted end closes first, leaves the port in TIME_WAIT. In that state it is not handed out by number 0, and a
 * program that names it gets it.
 *
 * But only if it sets SO_REUSEADDR: to bind without, nobody may have the port, in TIME_WAIT or otherwise, on an address
 * that overlaps. For a program that asks for its port at a moment of its own there is a guard instead: a socket with
 * the port on an address of IPv6 alone. It is not in the way of a server of IPv4, nor of one of both that sets
 * SO_REUSEADDR. But for callers the kernel chooses among ports that nobody has on any address, and for servers of both
 * families (all of Java's) among those that nobody has on theirs. */
#include "node/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/status.h"
#include "net/listen.h"

static int listen_on(uint16_t number)
{
    int code;
    int yes = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(number), .sin_addr = {.s_addr = htonl(INADDR_ANY)}};
    int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file < 0) {
        return -1;
    }
    /* A port that is asked for by its number may be in TIME_WAIT from a cluster before; one that the kernel chooses
     * must not be. */
    if (number != 0) {
        setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    }
    if (bind(file, (struct sockaddr *)&address, sizeof address) != 0 ||
        /* What is accepted inherits this, and TIME_WAIT from that: only then the port can be taken again. */
        setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 || listen(file, 16) != 0) {
        code = errno;
        close(file);
        errno = code;
        return -1;
    }
    return file;
}

tfos_status tfos__port_reserve(const char *wanted, tfos__port *out, tfos_error *error)
{
    tfos__ports ports = {.setting = "it"};
    int file = -1;
    int code = 0;
    TFOS_TRY(tfos__ports_parse(wanted, &ports, error));
    for (unsigned number = ports.first; number <= ports.last && file < 0; number++) {
        file = listen_on((uint16_t)number);
        code = errno;
    }
    if (file < 0) {
        if (code == EADDRINUSE && ports.first != 0) {
            return tfos__fail(error, TFOS_EXISTS, "every port of '%s' is taken on this machine", wanted);
        }
        return tfos__fail_errno(error, code, "cannot reserve a TCP port");
    }
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    if (getsockname(file, (struct sockaddr *)&address, &bytes) != 0) {
        code = errno;
        close(file);
        return tfos__fail_errno(error, code, "cannot reserve a TCP port");
    }
    out->socket = file;
    out->guard = -1;
    out->number = ntohs(address.sin_port);
    return TFOS_OK;
}

/* One connection from the port to itself; the accepted end closes first. */
static void leave_in_time_wait(const tfos__port *port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port->number), .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    struct timeval patience = {.tv_sec = 1};
    int caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (caller < 0) {
        return;
    }
    setsockopt(caller, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(caller, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    struct sockaddr_in mine;
    socklen_t mine_bytes = sizeof mine;
    if (connect(caller, (struct sockaddr *)&address, sizeof address) == 0 &&
        getsockname(caller, (struct sockaddr *)&mine, &mine_bytes) == 0) {
        /* A stranger may have connected before us. */
        for (int tries = 0; tries < 64; tries++) {
            struct sockaddr_in peer = {0};
            socklen_t bytes = sizeof peer;
            int accepted = accept4(port->socket, (struct sockaddr *)&peer, &bytes, SOCK_CLOEXEC);
            if (accepted >= 0) {
                close(accepted);
            }
            if (accepted < 0 || (peer.sin_port == mine.sin_port && peer.sin_addr.s_addr == mine.sin_addr.s_addr)) {
                break;
            }
        }
        char byte;
        (void)!recv(caller, &byte, sizeof byte, 0); /* until the other end has closed */
    }
    close(caller);
}

void tfos__port_release(tfos__port *port)
{
    if (port->socket >= 0) {
        leave_in_time_wait(port);
        close(port->socket);
        port->socket = -1;
    }
    if (port->guard >= 0) {
        close(port->guard);
        port->guard = -1;
    }
}

/* -1 if the machine has no IPv6. */
static int guard(uint16_t number)
{
    int yes = 1;
    struct sockaddr_in6 address = {
        .sin6_family = AF_INET6, .sin6_port = htons(number), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int file = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file >= 0 && (setsockopt(file, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes) != 0 ||
                      setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
                      bind(file, (struct sockaddr *)&address, sizeof address) != 0)) {
        close(file);
        file = -1;
    }
    return file;
}

void tfos__port_hand_over(tfos__port *port)
{
    if (port->socket >= 0) {
        port->guard = guard(port->number);
        close(port->socket);
        port->socket = -1;
    }
}
