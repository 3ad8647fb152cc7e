/* The kernel's boot id: the same for all processes of a machine, in whatever container, until it is started again. */
#include "net/machine.h"

#include <fcntl.h>
#include <string.h>
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
