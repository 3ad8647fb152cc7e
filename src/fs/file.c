/* Files for reading, by pread.
 *
 * Not by mapping: a file that someone truncates while it is mapped kills the process with SIGBUS, and the process may
 * be an executor JVM. Reading into a buffer that stays in the cache costs little: the checksum and the parser find the
 * bytes there. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "fs/fs.h"
#include "fs/local.h"

struct tfos__file {
    int descriptor;
    int64_t size;
    char path[];
};

tfos_status tfos__path_local(const char *path, const char **out, tfos_error *error)
{
    size_t scheme = 0;
    while (isalnum((unsigned char)path[scheme]) ||
           (scheme > 0 && strchr("+-.", path[scheme]) && path[scheme] != '\0')) {
        scheme++;
    }
    if (scheme == 0 || strncmp(path + scheme, ":/", 2) != 0) {
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

static tfos_status check_opened(int descriptor, const char *path, int64_t *size, tfos_error *error)
{
    struct stat info;
    if (fstat(descriptor, &info) != 0) {
        return tfos__fail_errno(error, errno, "%s: cannot be examined", path);
    }
    if (S_ISDIR(info.st_mode)) {
        return tfos__fail(error, TFOS_INVALID, "%s: expected a file, found a folder", path);
    }
    *size = S_ISREG(info.st_mode) ? (int64_t)info.st_size : -1;
    return TFOS_OK;
}

tfos_status tfos__file_open(const char *path, tfos__file **out, tfos_error *error)
{
    const char *local;
    TFOS_TRY(tfos__path_local(path, &local, error));
    tfos__file *file = malloc(sizeof *file + strlen(path) + 1);
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
    tfos_status status = check_opened(file->descriptor, path, &file->size, error);
    if (status != TFOS_OK) {
        tfos__file_close(file);
        return status;
    }
    *out = file;
    return TFOS_OK;
}

void tfos__file_close(tfos__file *file)
{
    if (file != NULL) {
        close(file->descriptor);
        free(file);
    }
}

int64_t tfos__file_size(const tfos__file *file)
{
    return file->size;
}

const char *tfos__file_path(const tfos__file *file)
{
    return file->path;
}

tfos_status tfos__file_read(tfos__file *file, int64_t offset, void *to, size_t bytes, size_t *got, tfos_error *error)
{
    ssize_t count;
    do {
        if (file->size >= 0) {
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

void tfos__file_hint_sequential(tfos__file *file)
{
    /* Only a hint: what it returns changes nothing. */
    (void)posix_fadvise(file->descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
}

static tfos_status slurp(tfos__file *file, size_t limit, tfos__buffer *out, tfos_error *error)
{
    enum { STEP = 65536 };
    int64_t offset = 0;
    for (;;) {
        size_t got;
        TFOS_TRY(tfos__buffer_reserve(out, out->size + STEP, error));
        TFOS_TRY(tfos__file_read(file, offset, out->data + out->size, STEP, &got, error));
        if (got == 0) {
            return TFOS_OK;
        }
        out->size += got;
        offset += (int64_t)got;
        if (out->size > limit) {
            return tfos__fail(error, TFOS_LIMIT, "%s: expected at most %zu bytes", file->path, limit);
        }
    }
}

tfos_status tfos__file_slurp(const char *path, size_t limit, tfos__buffer *out, tfos_error *error)
{
    tfos__file *file;
    TFOS_TRY(tfos__file_open(path, &file, error));
    tfos_status status = slurp(file, limit, out, error);
    tfos__file_close(file);
    return status;
}
