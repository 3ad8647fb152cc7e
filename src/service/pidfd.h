/* A descriptor that shows the end of a process. */
#ifndef TFOS_SERVICE_PIDFD_H
#define TFOS_SERVICE_PIDFD_H

#include <errno.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Readable when the process has ended. -1: the kernel has no such thing, or there is no such process. */
static inline int tfos__pidfd_open(pid_t pid)
{
#if defined(SYS_pidfd_open)
    return (int)syscall(SYS_pidfd_open, pid, 0);
#else
    (void)pid;
    errno = ENOSYS;
    return -1;
#endif
}

#endif
