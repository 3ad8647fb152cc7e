/* Programs of this machine. */
#include "base/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool tfos__program_is(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return false;
    }
    if (!S_ISREG(info.st_mode)) {
        errno = EACCES;
        return false;
    }
    return access(path, X_OK) == 0;
}

static bool fits(int count, size_t bytes)
{
    return count > 0 && (size_t)count < bytes;
}

/* In a folder; without one in the current folder. */
static bool is_in(const char *folder, size_t length, const char *name, char *out, size_t bytes)
{
    int count = snprintf(out, bytes, "%.*s/%s", length > 0 ? (int)length : 1, length > 0 ? folder : ".", name);
    return fits(count, bytes) && tfos__program_is(out);
}

bool tfos__program_find(const char *name, char *out, size_t bytes)
{
    const char *path = getenv("PATH");
    if (strchr(name, '/') != NULL) {
        return fits(snprintf(out, bytes, "%s", name), bytes) && tfos__program_is(out);
    }
    while (path != NULL && path[0] != '\0') {
        size_t length = strcspn(path, ":");
        if (is_in(path, length, name, out, bytes)) {
            return true;
        }
        path += length + (path[length] == ':');
    }
    return false;
}
