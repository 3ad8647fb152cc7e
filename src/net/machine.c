/* Who has the boot id of another machine shares no memory with it, whatever their hosts are called. */
#include "net/machine.h"

#include <fcntl.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void tfos__machine_id(char out[64])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, out, 63) : -1;
    out[got > 0 ? got : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    if (fd >= 0) {
        close(fd);
    }
}

void tfos__machine_place(char out[TFOS__PLACE_BYTES])
{
    char machine[64];
    struct stat network;
    tfos__machine_id(machine);
    if (machine[0] == '\0' || stat("/proc/self/ns/net", &network) != 0) {
        snprintf(out, TFOS__PLACE_BYTES, "process %d of %.63s", (int)getpid(), machine); /* it shares with nobody */
        return;
    }
    snprintf(out, TFOS__PLACE_BYTES, "%.63s/%llu/%u", machine, (unsigned long long)network.st_ino, (unsigned)geteuid());
}

void tfos__address_name(const struct sockaddr *address, socklen_t bytes, char out[TFOS__ADDRESS_BYTES])
{
    static const char mapped[] = "::ffff:";
    char host[64];
    char port[8];
    if (getnameinfo(address, bytes, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(out, TFOS__ADDRESS_BYTES, "somebody");
    } else if (strncmp(host, mapped, sizeof mapped - 1) == 0 && strchr(host, '.') != NULL) {
        snprintf(out, TFOS__ADDRESS_BYTES, "%s:%s", host + sizeof mapped - 1, port);
    } else {
        snprintf(out, TFOS__ADDRESS_BYTES, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
    }
}

void tfos__host_bare(const char *host, char out[TFOS__HOST_BYTES])
{
    size_t bytes = strlen(host);
    bool bracketed = bytes > 2 && host[0] == '[' && host[bytes - 1] == ']';
    snprintf(out, TFOS__HOST_BYTES, "%.*s", (int)(bracketed ? bytes - 2 : bytes), host + (bracketed ? 1 : 0));
}
