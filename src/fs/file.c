/* Files for reading: those of this machine, and those that a caller serves, through a window that is read ahead. */
#include <stdlib.h>

#include "base/options.h"
#include "base/status.h"
#include "fs/ahead.h"
#include "fs/fs.h"
#include "fs/local.h"

struct tfos__file {
    tfos_file_system system;
    void *handle;
    int64_t size;
    tfos__ahead *ahead; /* NULL: reads go straight to the system */
    char path[];
};

static const tfos_file_system nothing_served = {0};

void tfos_file_system_init(tfos_file_system *files, size_t size)
{
    tfos__options_init(files, size, &nothing_served, sizeof nothing_served);
}

tfos_status tfos__file_system_take(const tfos_file_system *from, tfos_file_system *out, tfos_error *error)
{
    TFOS_TRY(tfos__options_take("tfos_file_system", from, &nothing_served, out, sizeof *out, error));
    bool reads = out->open == NULL || (out->read != NULL && out->close != NULL);
    bool writes = out->create == NULL || (out->write != NULL && out->finish != NULL && out->abandon != NULL);
    if (!reads || !writes) {
        return tfos__fail(error, TFOS_INVALID,
                          "a file system that opens files must read and close them, and one that creates files must "
                          "write, finish and abandon them: a function is missing");
    }
    return TFOS_OK;
}

tfos_status tfos__file_open(const tfos_file_system *served, const char *path, tfos__file **out, tfos_error *error)
{
    bool elsewhere = served != NULL && served->open != NULL && tfos__path_scheme(path) > 0;
    tfos__file *file = calloc(1, sizeof *file + strlen(path) + 1);
    if (file == NULL) {
        return tfos__fail_memory(error, sizeof *file);
    }
    strcpy(file->path, path);
    file->system = elsewhere ? *served : tfos__file_system_local;
    tfos_status status = file->system.open(file->system.context, path, &file->handle, &file->size, error);
    if (status != TFOS_OK) {
        free(file);
        return status;
    }
    if (elsewhere) {
        status = tfos__ahead_new(&file->system, file->handle, &file->ahead, error);
    }
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
        tfos__ahead_free(file->ahead);
        file->system.close(file->system.context, file->handle);
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
    if (file->ahead != NULL && offset >= file->size) {
        *got = 0; /* known without asking, and without a thread that looks for more */
        return TFOS_OK;
    }
    if (file->ahead != NULL) {
        return tfos__ahead_read(file->ahead, offset, to, bytes, got, error);
    }
    return file->system.read(file->system.context, file->handle, offset, to, bytes, got, error);
}

tfos_status tfos__file_read_whole(tfos__file *file, int64_t offset, void *to, size_t bytes, size_t *got,
                                  tfos_error *error)
{
    size_t all = 0;
    for (size_t more = 1; more > 0 && all < bytes; all += more) {
        TFOS_TRY(tfos__file_read(file, offset + (int64_t)all, (uint8_t *)to + all, bytes - all, &more, error));
    }
    *got = all;
    return TFOS_OK;
}

void tfos__file_hint_sequential(tfos__file *file)
{
    if (file->ahead == NULL) {
        tfos__local_hint_sequential(file->handle);
    }
}

void tfos__file_hint_end(tfos__file *file, int64_t offset)
{
    if (file->ahead != NULL) {
        tfos__ahead_limit(file->ahead, offset);
    }
}

void tfos__file_set_stops(tfos__file *file, bool (*stops)(void *context), void *context)
{
    if (file->ahead != NULL) {
        tfos__ahead_set_stops(file->ahead, stops, context);
    }
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

tfos_status tfos__file_slurp(const tfos_file_system *served, const char *path, size_t limit, tfos__buffer *out,
                             tfos_error *error)
{
    tfos__file *file;
    TFOS_TRY(tfos__file_open(served, path, &file, error));
    tfos_status status = slurp(file, limit, out, error);
    tfos__file_close(file);
    return status;
}
