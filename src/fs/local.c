/* Local files, by pread.
 *
 * Not by mapping: a file that someone truncates while it is mapped kills the process with SIGBUS, and the process may
 * be an executor JVM. Reading into a buffer that stays in the cache costs little: the checksum and the parser find the
 * bytes there. */
#include "fs/local.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

typedef struct local_file {
    int descriptor;
    bool regular; /* otherwise a pipe, which is read from front to back whatever the offset */
    char path[];
} local_file;

size_t tfos__path_scheme(const char *path)
{
    size_t scheme = 0;
    while (isalnum((unsigned char)path[scheme]) ||
           (scheme > 0 && strchr("+-.", path[scheme]) && path[scheme] != '\0')) {
        scheme++;
    }
    return scheme > 0 && strncmp(path + scheme, ":/", 2) == 0 ? scheme : 0;
}

tfos_status tfos__path_local(const char *path, const char **out, tfos_error *error)
{
    size_t scheme = tfos__path_scheme(path);
    if (scheme == 0) {
        *out = path;
        return TFOS_OK;
    }
    if (scheme != 4 || strncmp(path, "file", 4) != 0) {
        return tfos__fail(error, TFOS_UNSUPPORTED,
                          "%s: the scheme '%.*s' is not supported here: use a local path or file:///…", path,
                          (int)scheme, path);
    }
    path += 5; /* file:/x, file:///x */
    if (path[0] == '/' && path[1] == '/' && path[2] != '/') {
        return tfos__fail(error, TFOS_UNSUPPORTED, "file:%s: names a file of another host: expected file:///…", path);
    }
    while (path[0] == '/' && path[1] == '/') {
        path++;
    }
    *out = path;
    return TFOS_OK;
}

static tfos_status check_opened(local_file *file, int64_t *bytes, tfos_error *error)
{
    struct stat info;
    if (fstat(file->descriptor, &info) != 0) {
        return tfos__fail_errno(error, errno, "%s: cannot be examined", file->path);
    }
    if (S_ISDIR(info.st_mode)) {
        return tfos__fail(error, TFOS_INVALID, "%s: expected a file, found a folder", file->path);
    }
    file->regular = S_ISREG(info.st_mode);
    *bytes = file->regular ? (int64_t)info.st_size : -1;
    return TFOS_OK;
}

static void local_close(void *context, void *handle)
{
    (void)context;
    local_file *file = handle;
    close(file->descriptor);
    free(file);
}

static tfos_status local_open(void *context, const char *path, void **out, int64_t *bytes, tfos_error *error)
{
    (void)context;
    const char *local;
    TFOS_TRY(tfos__path_local(path, &local, error));
    local_file *file = malloc(sizeof *file + strlen(path) + 1);
    if (file == NULL) {
        return tfos__fail_memory(error, sizeof *file);
    }
    strcpy(file->path, path);
    file->descriptor = open(local, O_RDONLY | O_CLOEXEC);
    if (file->descriptor < 0) {
        tfos_status status = tfos__fail_errno(error, errno, "%s: cannot be opened for reading", path);
        free(file);
        return status;
    }
    tfos_status status = check_opened(file, bytes, error);
    if (status != TFOS_OK) {
        local_close(NULL, file);
        return status;
    }
    *out = file;
    return TFOS_OK;
}

static tfos_status local_read(void *context, void *handle, int64_t offset, void *to, size_t bytes, size_t *got,
                              tfos_error *error)
{
    (void)context;
    const local_file *file = handle;
    ssize_t count;
    do {
        if (file->regular) {
            count = pread(file->descriptor, to, bytes, (off_t)offset);
        } else {
            count = read(file->descriptor, to, bytes);
        }
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
        return tfos__fail_errno(error, errno, "%s: reading at offset %lld failed", file->path, (long long)offset);
    }
    *got = (size_t)count;
    return TFOS_OK;
}

void tfos__local_hint_sequential(void *handle)
{
    /* Only a hint: what it returns changes nothing. */
    (void)posix_fadvise(((const local_file *)handle)->descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
}

const tfos_file_system tfos__file_system_local = {
    .size = sizeof tfos__file_system_local, .open = local_open, .read = local_read, .close = local_close};
