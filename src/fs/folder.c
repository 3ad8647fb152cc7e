/* Local folders, and files that others have written in them. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "fs/fs.h"
#include "fs/local.h"

enum { OPEN_FOLDERS = 16 };

tfos_status tfos__folder_make(const char *path, tfos_error *error)
{
    const char *local;
    TFOS_TRY(tfos__path_local(path, &local, error));
    char part[PATH_MAX];
    size_t length = strlen(local);
    if (length == 0 || length >= sizeof part) {
        return tfos__fail(error, TFOS_INVALID, "'%s' cannot be the name of a folder", path);
    }
    memcpy(part, local, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (part[i] != '/' && part[i] != '\0') {
            continue;
        }
        char kept = part[i];
        part[i] = '\0';
        struct stat info;
        if (mkdir(part, 0777) != 0 && (errno != EEXIST || stat(part, &info) != 0 || !S_ISDIR(info.st_mode))) {
            return tfos__fail_errno(error, errno == EEXIST ? ENOTDIR : errno, "%s: the folder cannot be made", part);
        }
        part[i] = kept;
    }
    return TFOS_OK;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

void tfos__folder_remove(const char *path)
{
    nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

static int sync_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)where;
    return kind == FTW_DP && tfos__file_sync(path, NULL) != TFOS_OK ? -1 : 0;
}

void tfos__folder_sync(const char *path)
{
    if (nftw(path, sync_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) != 0) {
        tfos__log(TFOS_LOG_WARN, "%s: folders in it could not be brought to disk", path);
    }
}

tfos_status tfos__file_sync(const char *path, tfos_error *error)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    int code = file < 0 || fsync(file) != 0 ? errno : 0;
    if (file >= 0) {
        close(file);
    }
    return code == 0 ? TFOS_OK : tfos__fail_errno(error, code, "%s: it cannot be brought to disk", path);
}
