/* Files for writing: hidden while they grow, durable before they appear.
 *
 *   open    DIR/.NAME.tfos-PID-N, created for us alone
 *   commit  fsync(file), rename to DIR/NAME, fsync(DIR)
 *   abort   unlink
 *
 * The leading dot keeps Hadoop, Spark and our own folder listings from taking a half-written file for data. A table of
 * the hidden names lets the command remove them when it is interrupted; its entries are never freed, so a signal
 * handler may walk it at any time. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "fs/fs.h"
#include "fs/local.h"

enum { MAX_OPEN_OUTPUTS = 4096 };

typedef struct slot {
    atomic_bool used;
    char path[PATH_MAX];
} slot;

static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(slot *) slots[MAX_OPEN_OUTPUTS];

struct tfos__output {
    tfos_file_system system; /* with functions, if somebody else serves the file */
    void *served;            /* what these know it by */
    int descriptor;
    pid_t owner; /* a child that was forked has a copy of this struct, but the file is its parent's */
    bool overwrite;
    slot *hidden;
    char path[];
};

/* A slot with its path set and in use, or NULL when the table is full. */
static slot *slot_take(const char *path)
{
    slot *taken = NULL;
    pthread_mutex_lock(&slots_lock);
    for (int i = 0; i < MAX_OPEN_OUTPUTS && taken == NULL; i++) {
        slot *candidate = atomic_load(&slots[i]);
        if (candidate == NULL) {
            candidate = calloc(1, sizeof *candidate);
            if (candidate == NULL) {
                break;
            }
            atomic_store(&slots[i], candidate);
        }
        if (!atomic_load(&candidate->used)) {
            snprintf(candidate->path, sizeof candidate->path, "%s", path);
            atomic_store(&candidate->used, true);
            taken = candidate;
        }
    }
    pthread_mutex_unlock(&slots_lock);
    return taken;
}

void tfos__outputs_unlink_all(void)
{
    for (int i = 0; i < MAX_OPEN_OUTPUTS; i++) {
        slot *candidate = atomic_load(&slots[i]);
        if (candidate == NULL) {
            return;
        }
        if (atomic_load(&candidate->used)) {
            unlink(candidate->path);
        }
    }
}

/* The length of the folder part, its slash included. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

static tfos_status check_destination(const char *path, bool overwrite, tfos_error *error)
{
    struct stat info;
    size_t length = strlen(path);
    if (length > PATH_MAX - 64) {
        return tfos__fail(error, TFOS_INVALID, "the path of a file may have %d bytes, found %zu: %s", PATH_MAX - 64,
                          length, tfos__printable_of(path, length).text);
    }
    if (length == 0 || path[length - 1] == '/') {
        return tfos__fail(error, TFOS_INVALID, "'%s' cannot be the name of a file", path);
    }
    if (stat(path, &info) != 0) {
        return errno == ENOENT ? TFOS_OK : tfos__fail_errno(error, errno, "%s: cannot be written", path);
    }
    if (!S_ISREG(info.st_mode)) {
        return tfos__fail(error, TFOS_INVALID, "%s: expected a file or a free name, found a %s", path,
                          S_ISDIR(info.st_mode) ? "folder" : "special file");
    }
    if (!overwrite) {
        return tfos__fail(error, TFOS_EXISTS, "%s: exists already: remove it or ask to overwrite it", path);
    }
    return TFOS_OK;
}

/* A new name of the hidden file. Of a long name only the beginning is used: the whole may have 255 bytes. */
static void name_hidden(const tfos__output *output, char *out, size_t bytes)
{
    static atomic_uint counter;
    size_t folder = folder_length(output->path);
    snprintf(out, bytes, "%.*s.%.200s.tfos-%d-%u", (int)folder, output->path, output->path + folder, (int)getpid(),
             atomic_fetch_add(&counter, 1));
}

/* Where process numbers begin anew, in a container, a process that was killed may have left a file of the very same
 * name: then the next name is tried. */
static tfos_status create_hidden(tfos__output *output, tfos_error *error)
{
    enum { MAX_TRIES = 10000 };
    char hidden[PATH_MAX];
    int problem = EEXIST;
    for (int tries = 0; tries < MAX_TRIES && problem == EEXIST; tries++) {
        name_hidden(output, hidden, sizeof hidden);
        output->hidden = slot_take(hidden);
        if (output->hidden == NULL) {
            return tfos__fail(error, TFOS_LIMIT, "%s: more than %d files are being written at a time", output->path,
                              MAX_OPEN_OUTPUTS);
        }
        output->descriptor = open(hidden, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (output->descriptor >= 0) {
            return TFOS_OK;
        }
        problem = errno;
        atomic_store(&output->hidden->used, false);
    }
    return tfos__fail_errno(error, problem, "%s: cannot be created", output->path);
}

static tfos_status open_local(tfos__output *output, tfos_error *error)
{
    TFOS_TRY(check_destination(output->path, output->overwrite, error));
    return create_hidden(output, error);
}

static tfos_status open_served(tfos__output *output, tfos_error *error)
{
    return output->system.create(output->system.context, output->path, output->overwrite, &output->served, error);
}

tfos_status tfos__output_open(const tfos_file_system *served, const char *path, bool overwrite, tfos__output **out,
                              tfos_error *error)
{
    bool elsewhere = served != NULL && served->create != NULL && tfos__path_scheme(path) > 0;
    const char *name = path;
    TFOS_TRY(elsewhere ? TFOS_OK : tfos__path_local(path, &name, error));
    tfos__output *output = calloc(1, sizeof *output + strlen(name) + 1);
    if (output == NULL) {
        return tfos__fail_memory(error, sizeof *output);
    }
    strcpy(output->path, name);
    output->overwrite = overwrite;
    output->owner = getpid();
    output->descriptor = -1;
    if (elsewhere) {
        output->system = *served;
    }
    tfos_status status = elsewhere ? open_served(output, error) : open_local(output, error);
    if (status != TFOS_OK) {
        free(output);
        return status;
    }
    *out = output;
    return TFOS_OK;
}

static bool is_served(const tfos__output *output)
{
    return output->system.create != NULL;
}

tfos_status tfos__output_write(tfos__output *output, const void *bytes, size_t count, tfos_error *error)
{
    const uint8_t *at = bytes;
    if (is_served(output)) {
        return output->system.write(output->system.context, output->served, bytes, count, error);
    }
    while (count > 0) {
        ssize_t written = write(output->descriptor, at, count);
        if (written < 0) {
            if (errno == EINTR) {
                continue;
            }
            return tfos__fail_errno(error, errno, "%s: writing failed", output->path);
        }
        at += written;
        count -= (size_t)written;
    }
    return TFOS_OK;
}

/* In a process that was forked since, only the descriptor is ours to close. */
static void finish(tfos__output *output, bool remove_hidden)
{
    bool mine = output->owner == getpid();
    if (output->descriptor >= 0) {
        close(output->descriptor);
    }
    if (remove_hidden && mine) {
        unlink(output->hidden->path);
    }
    if (mine) {
        atomic_store(&output->hidden->used, false);
    }
    free(output);
}

void tfos__output_abort(tfos__output *output)
{
    if (output == NULL) {
        return;
    }
    if (is_served(output)) {
        output->system.abandon(output->system.context, output->served);
        free(output);
    } else {
        finish(output, true);
    }
}

/* A name that appeared since open must not be lost when overwriting was not asked for. */
static int rename_into_place(const tfos__output *output)
{
    const char *hidden = output->hidden->path;
    if (output->overwrite) {
        return rename(hidden, output->path);
    }
    if (renameat2(AT_FDCWD, hidden, AT_FDCWD, output->path, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return -1;
    }
    /* A file system without RENAME_NOREPLACE: a hard link refuses an existing name too. */
    if (link(hidden, output->path) == 0) {
        return unlink(hidden);
    }
    if (errno != EPERM && errno != ENOSYS && errno != ENOTSUP) {
        return -1;
    }
    /* Nor has it hard links: look, then rename, which is the best that it can do. */
    struct stat info;
    if (lstat(output->path, &info) == 0) {
        errno = EEXIST;
        return -1;
    }
    return rename(hidden, output->path);
}

void tfos__output_sync_folder(const char *path)
{
    char folder[PATH_MAX];
    size_t length = folder_length(path);
    snprintf(folder, sizeof folder, "%.*s", length == 0 ? 1 : (int)length, length == 0 ? "." : path);
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = descriptor < 0 ? -1 : fsync(descriptor);
    if (result != 0 && errno != EINVAL && errno != ENOTSUP) {
        tfos__log(TFOS_LOG_WARN,
                  "%s: written, but its folder cannot be synced to disk: a crash of the machine may lose the name",
                  path);
    }
    if (descriptor >= 0) {
        close(descriptor);
    }
}

tfos_status tfos__output_sync(tfos__output *output, tfos_error *error)
{
    if (output->descriptor < 0) {
        return TFOS_OK;
    }
    if (output->owner != getpid()) {
        return tfos__fail(error, TFOS_INVALID,
                          "%s: is being written by another process, from which this one was forked", output->path);
    }
    if (fsync(output->descriptor) != 0 && errno != EINVAL && errno != ENOTSUP) {
        return tfos__fail_errno(error, errno, "%s: the file cannot be made durable", output->path);
    }
    int closed = close(output->descriptor);
    output->descriptor = -1;
    return closed == 0 ? TFOS_OK : tfos__fail_errno(error, errno, "%s: closing the file failed", output->path);
}

tfos_status tfos__output_rename(tfos__output *output, tfos_error *error)
{
    if (is_served(output)) {
        tfos_status status = output->system.finish(output->system.context, output->served, error);
        free(output);
        return status;
    }
    tfos_status status = tfos__output_sync(output, error);
    if (status == TFOS_OK && rename_into_place(output) != 0) {
        status = tfos__fail_errno(error, errno, "%s: the finished file cannot take its name", output->path);
    }
    finish(output, status != TFOS_OK);
    return status;
}

tfos_status tfos__output_commit(tfos__output *output, tfos_error *error)
{
    char path[PATH_MAX];
    if (is_served(output)) {
        return tfos__output_rename(output, error);
    }
    snprintf(path, sizeof path, "%s", output->path);
    TFOS_TRY(tfos__output_rename(output, error));
    tfos__output_sync_folder(path);
    return TFOS_OK;
}
