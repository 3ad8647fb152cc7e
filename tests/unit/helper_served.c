#include "helper_served.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "helper_records.h"

static const char scheme[] = "played://";

typedef struct played_file {
    int descriptor;
    int64_t written;
    char path[];
} played_file;

static played_file *file_at(const char *path, int flags)
{
    played_file *file = calloc(1, sizeof *file + strlen(path) + 1);
    assert_non_null(file);
    assert_int_equal(strncmp(path, scheme, strlen(scheme)), 0);
    strcpy(file->path, path + strlen(scheme));
    file->descriptor = open(file->path, flags | O_CLOEXEC, 0644);
    return file;
}

static tfos_status played_open(void *context, const char *path, void **out, int64_t *bytes, tfos_error *error)
{
    helper_served *self = context;
    struct stat info;
    played_file *file = file_at(path, O_RDONLY);
    if (file->descriptor < 0) {
        free(file);
        return tfos__fail(error, TFOS_NOT_FOUND, "%s: is not played", path);
    }
    assert_int_equal(fstat(file->descriptor, &info), 0);
    *bytes = info.st_size + self->claims_more;
    *out = file;
    atomic_fetch_add(&self->opened, 1);
    atomic_fetch_add(&self->open_now, 1);
    return TFOS_OK;
}

static tfos_status played_read(void *context, void *handle, int64_t offset, void *to, size_t bytes, size_t *got,
                               tfos_error *error)
{
    helper_served *self = context;
    const played_file *file = handle;
    int64_t end = offset + (int64_t)bytes;
    if (self->most_bytes > 0 && bytes > self->most_bytes) {
        end = offset + (int64_t)self->most_bytes;
    }
    atomic_fetch_add(&self->reads, 1);
    atomic_fetch_add(&self->reads_elsewhere, !pthread_equal(pthread_self(), self->owner));
    if (end > atomic_load(&self->read_to)) {
        atomic_store(&self->read_to, end);
    }
    while (atomic_load(&self->hangs_at) >= 0 && end > atomic_load(&self->hangs_at)) {
        poll(NULL, 0, 1);
    }
    if (self->fails_at >= 0 && end > self->fails_at) {
        return tfos__fail(error, TFOS_IO, "%s%s: the player stumbles", scheme, file->path);
    }
    ssize_t count = pread(file->descriptor, to, (size_t)(end - offset), offset);
    assert_true(count >= 0);
    *got = (size_t)count;
    return TFOS_OK;
}

static void played_close(void *context, void *handle)
{
    helper_served *self = context;
    close(((played_file *)handle)->descriptor);
    free(handle);
    atomic_fetch_sub(&self->open_now, 1);
}

static tfos_status played_create(void *context, const char *path, bool overwrite, void **out, tfos_error *error)
{
    helper_served *self = context;
    played_file *file = file_at(path, O_WRONLY | O_CREAT | (overwrite ? O_TRUNC : O_EXCL));
    if (file->descriptor < 0) {
        free(file);
        return tfos__fail(error, TFOS_EXISTS, "%s: is played already", path);
    }
    *out = file;
    atomic_fetch_add(&self->created, 1);
    return TFOS_OK;
}

static tfos_status played_write(void *context, void *handle, const void *bytes, size_t count, tfos_error *error)
{
    helper_served *self = context;
    played_file *file = handle;
    file->written += (int64_t)count;
    if (self->write_fails_at >= 0 && file->written > self->write_fails_at) {
        return tfos__fail(error, TFOS_NO_SPACE, "%s%s: the stage is full", scheme, file->path);
    }
    assert_int_equal(write(file->descriptor, bytes, count), count);
    return TFOS_OK;
}

static tfos_status played_finish(void *context, void *handle, tfos_error *error)
{
    (void)error;
    helper_served *self = context;
    atomic_fetch_add(&self->finished, 1);
    close(((played_file *)handle)->descriptor);
    free(handle);
    return TFOS_OK;
}

static void played_abandon(void *context, void *handle)
{
    helper_served *self = context;
    played_file *file = handle;
    atomic_fetch_add(&self->abandoned, 1);
    close(file->descriptor);
    unlink(file->path);
    free(file);
}

void helper_served_init(helper_served *served)
{
    memset(served, 0, sizeof *served);
    tfos_file_system_init(&served->system, sizeof served->system);
    served->system.context = served;
    served->system.open = played_open;
    served->system.read = played_read;
    served->system.close = played_close;
    served->system.create = played_create;
    served->system.write = played_write;
    served->system.finish = played_finish;
    served->system.abandon = played_abandon;
    served->fails_at = -1;
    served->write_fails_at = -1;
    atomic_init(&served->hangs_at, -1);
    served->owner = pthread_self();
}

const char *helper_served_path(const char *path)
{
    helper_bytes whole = JOIN(helper_from_text(scheme), helper_from_text(path), HEX(0));
    return (const char *)whole.data;
}
