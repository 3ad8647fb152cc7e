/* Log files with rotation. A file ends with a whole line, unless one line alone is larger than a file may be or comes
 * in several flushes. */
#include "node/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

enum { WAITING_BYTES = 1 << 20 };

static tfos_status open_current(tfos__log_file *log, tfos_error *error)
{
    struct stat info;
    log->file = open(log->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (log->file < 0) {
        return tfos__fail_errno(error, errno, "cannot open the log file %s", log->path);
    }
    log->size = fstat(log->file, &info) == 0 ? info.st_size : 0;
    return TFOS_OK;
}

tfos_status tfos__log_file_open(tfos__log_file *log, const char *path, int64_t most_bytes, int64_t most_files,
                                tfos_error *error)
{
    *log = (tfos__log_file){.file = -1, .most_bytes = most_bytes, .most_files = most_files};
    if ((size_t)snprintf(log->path, sizeof log->path, "%s", path) >= sizeof log->path - 16) {
        return tfos__fail(error, TFOS_INVALID, "the name of a log file has more than %zu bytes", sizeof log->path - 16);
    }
    return open_current(log, error);
}

/* NAME.2 becomes NAME.3, NAME.1 becomes NAME.2, NAME becomes NAME.1; what falls off the end is gone. */
static tfos_status rotate(tfos__log_file *log, tfos_error *error)
{
    char from[PATH_MAX + 24];
    char to[PATH_MAX + 24];
    close(log->file);
    log->file = -1;
    for (int64_t number = log->most_files - 1; number > 0; number--) {
        snprintf(to, sizeof to, "%s.%lld", log->path, (long long)number);
        if (number > 1) {
            snprintf(from, sizeof from, "%s.%lld", log->path, (long long)number - 1);
        } else {
            snprintf(from, sizeof from, "%s", log->path);
        }
        rename(from, to);
    }
    if (log->most_files == 1) {
        unlink(log->path);
    }
    return open_current(log, error);
}

void tfos__log_file_put(tfos__log_file *log, const char *bytes, size_t count)
{
    if (log->file < 0 && !log->failed) {
        return;
    }
    if (log->waiting.size + count > WAITING_BYTES) {
        tfos__log_file_flush(log, NULL);
        log->waiting.size = 0;
    }
    tfos__buffer_append(&log->waiting, bytes, count, NULL);
}

static tfos_status write_whole(tfos__log_file *log, const uint8_t *bytes, size_t count, tfos_error *error)
{
    for (size_t done = 0; done < count;) {
        ssize_t written = write(log->file, bytes + done, count - done);
        if (written < 0 && errno != EINTR) {
            return tfos__fail_errno(error, errno, "cannot write to the log file %s", log->path);
        }
        done += written > 0 ? (size_t)written : 0;
        log->size += written > 0 ? written : 0;
    }
    return TFOS_OK;
}

/* How many of these bytes the file takes as it is now: all, or the whole lines that it has room for. A fresh one takes
 * its first line, however long. */
static size_t fitting(const tfos__log_file *log, const uint8_t *bytes, size_t count, bool fresh)
{
    size_t room = log->size < log->most_bytes ? (size_t)(log->most_bytes - log->size) : 0;
    if (count <= room) {
        return count;
    }
    const uint8_t *end = memrchr(bytes, '\n', room);
    if (end == NULL && fresh) {
        end = memchr(bytes + room, '\n', count - room);
        return end == NULL ? count : (size_t)(end - bytes) + 1;
    }
    return end == NULL ? 0 : (size_t)(end - bytes) + 1;
}

static tfos_status write_waiting(tfos__log_file *log, tfos_error *error)
{
    if (log->file < 0) {
        TFOS_TRY(open_current(log, error));
    }
    bool fresh = log->size == 0;
    for (size_t done = 0; done < log->waiting.size;) {
        const uint8_t *rest = log->waiting.data + done;
        size_t count = fitting(log, rest, log->waiting.size - done, fresh);
        TFOS_TRY(write_whole(log, rest, count, error));
        done += count;
        if (done < log->waiting.size) {
            TFOS_TRY(rotate(log, error));
            fresh = true; /* also if the old file could not be moved away: each turn writes something */
        }
    }
    return TFOS_OK;
}

tfos_status tfos__log_file_flush(tfos__log_file *log, tfos_error *error)
{
    if (log->waiting.size == 0) {
        return TFOS_OK;
    }
    tfos_status status = write_waiting(log, error);
    bool reported = log->failed;
    log->failed = status != TFOS_OK;
    log->waiting.size = 0;
    return log->failed && reported ? TFOS_OK : status;
}

void tfos__log_file_close(tfos__log_file *log)
{
    tfos__log_file_flush(log, NULL);
    if (log->file >= 0) {
        close(log->file);
        log->file = -1;
    }
    log->failed = false;
    tfos__buffer_reset(&log->waiting);
}
