/* Sealed memory. Seals are looked at before the size: only then the size that was seen is the size that stays. */
#include "feed/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* A file beyond the limit of file sizes would not only fail: the signal ends the process. */
static tfos_status check_limit(const char *what, size_t bytes, tfos_error *error)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes) {
        return tfos__fail(error, TFOS_LIMIT,
                          "a %s needs %zu bytes, and the limit of file sizes is %llu: raise it (ulimit -f)", what,
                          bytes, (unsigned long long)limit.rlim_cur);
    }
    return TFOS_OK;
}

tfos_status tfos__sealed_new(const char *what, size_t bytes, int *out, tfos_error *error)
{
    char name[64];
    TFOS_TRY(check_limit(what, bytes, error));
    snprintf(name, sizeof name, "tfos-%s", what);
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return tfos__fail_errno(error, errno, "no shared memory for a %s", what);
    }
    if (ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        int error_number = errno;
        close(fd);
        return tfos__fail_errno(error, error_number, "no shared memory of %zu bytes for a %s", bytes, what);
    }
    *out = fd;
    return TFOS_OK;
}

tfos_status tfos__sealed_check(int fd, const char *what, size_t *bytes, tfos_error *error)
{
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0) {
        return tfos__fail(error, TFOS_CORRUPT, "expected the shared memory of a %s, descriptor %d is something else",
                          what, fd);
    }
    if ((seals & SEALS) != SEALS) {
        return tfos__fail(error, TFOS_CORRUPT,
                          "the shared memory of a %s must have the seals 0x%x, found 0x%x: its size could change", what,
                          (unsigned)SEALS, (unsigned)seals);
    }
    struct stat about;
    if (fstat(fd, &about) != 0) {
        return tfos__fail_errno(error, errno, "the size of the shared memory of a %s", what);
    }
    *bytes = (size_t)about.st_size;
    return TFOS_OK;
}
