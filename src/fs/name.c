/* The parts of a path, and where it leads. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "fs/fs.h"

size_t tfos__path_name(const char *path, size_t *end)
{
    *end = strlen(path);
    while (*end > 1 && path[*end - 1] == '/') {
        (*end)--;
    }
    const char *slash = memrchr(path, '/', *end);
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

tfos_status tfos__path_parent(const char *folder, char **out, tfos_error *error)
{
    size_t end;
    size_t name = tfos__path_name(folder, &end);
    *out = name == 0 ? strdup(".") : strndup(folder, name > 1 ? name - 1 : 1);
    return *out != NULL ? TFOS_OK : tfos__fail_memory(error, name);
}

/* What is there of a path is resolved, and the name behind it is but a name. */
static char *resolve_parent(const char *path)
{
    size_t end;
    char *parent;
    char *out = NULL;
    size_t name = tfos__path_name(path, &end);
    bool is_top = strcmp(path, ".") == 0 || strcmp(path, "/") == 0; /* the folder we are in was removed */
    if (is_top || tfos__path_parent(path, &parent, NULL) != TFOS_OK) {
        return NULL;
    }
    char *folder = tfos__path_resolve(parent);
    free(parent);
    if (folder == NULL || (end - name == 1 && path[name] == '.')) {
        return folder;
    }
    if (end - name == 2 && memcmp(path + name, "..", 2) == 0) {
        char *slash = strrchr(folder, '/');
        slash[slash == folder ? 1 : 0] = '\0';
        return folder;
    }
    bool is_root = folder[1] == '\0';
    int bytes = asprintf(&out, "%s/%.*s", is_root ? "" : folder, (int)(end - name), path + name);
    free(folder);
    return bytes >= 0 ? out : NULL;
}

char *tfos__path_resolve(const char *path)
{
    char *found = realpath(path, NULL);
    return found != NULL ? found : resolve_parent(path);
}

bool tfos__path_is_inside(const char *path, const char *folder)
{
    size_t bytes = strcmp(folder, "/") == 0 ? 0 : strlen(folder);
    return strncmp(path, folder, bytes) == 0 && (path[bytes] == '/' || path[bytes] == '\0');
}
